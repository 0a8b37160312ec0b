//! The addresses and ports at which a member tries to reach node 0, and when.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use crate::slurm::SlurmStep;

/// The number of reserved ports that are used.
const RESERVED: usize = 4;
/// The number of ports that are computed from the step, and from the port of `srun` in addition.
const COMPUTED: usize = 8;
const PRIVATE: usize = 4;
/// The ports that are computed: below the ports that Linux gives to connections (32768), and above
/// the ports of most services.
const FIRST: u16 = 20_000;
const LAST: u16 = 32_000;

const FIRST_DELAY: Duration = Duration::from_millis(20);
/// The longest time between two attempts at the first port, where node 0 usually listens, and at
/// the others.
const LONGEST: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// The ports where the process of node 0 may listen: it takes the first that is free. A process of
/// another user can hold ports that everybody can compute; the last ports depend on the port of
/// `srun`, which users of other nodes do not know. Components of a heterogeneous step have
/// different ones, and meet at the others.
pub(super) fn candidates(step: &SlurmStep, uid: u32) -> Vec<u16> {
    let computed = |more: Option<u16>, count: usize| {
        let text =
            format!("OxMPI nodes {uid} {}.{} {} {more:?}", step.job, step.step, step.restart);
        let mut bytes = vec![0; 2 * count];
        blake3::Hasher::new().update(text.as_bytes()).finalize_xof().fill(&mut bytes);
        let numbers = bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]]));
        numbers.map(|number| FIRST + number % (LAST - FIRST)).collect::<Vec<_>>()
    };
    let private = step.launcher_port.map(|port| computed(Some(port), PRIVATE));
    let reserved = step.reserved_ports.iter().copied().take(RESERVED);
    let mut all = Vec::new();
    for port in reserved.chain(computed(None, COMPUTED)).chain(private.into_iter().flatten()) {
        if !all.contains(&port) {
            all.push(port);
        }
    }
    all
}

#[derive(Debug)]
struct DialTarget {
    next: Instant,
    delay: Duration,
    longest: Duration,
    is_open: bool,
}

/// The targets of the attempts to connect.
#[derive(Debug)]
pub(super) struct Dialing {
    ports: Vec<u16>,
    targets: BTreeMap<SocketAddr, DialTarget>,
}

impl Dialing {
    pub(super) fn new(ports: Vec<u16>) -> Dialing {
        Dialing { ports, targets: BTreeMap::new() }
    }

    /// An address of node 0 has become known.
    pub(super) fn add(&mut self, address: IpAddr, now: Instant) {
        for (place, port) in self.ports.iter().enumerate() {
            let longest = LONGEST[place.min(1)];
            // Few connections at a time.
            let next = now + FIRST_DELAY * place as u32 / 4;
            let target = DialTarget { next, delay: FIRST_DELAY, longest, is_open: false };
            self.targets.entry(SocketAddr::new(address, *port)).or_insert(target);
        }
    }

    /// The targets to connect with now. [`Dialing::ended`] is due for each.
    pub(super) fn due(&mut self, now: Instant) -> Vec<SocketAddr> {
        let due =
            self.targets.iter_mut().filter(|(_, target)| !target.is_open && target.next <= now);
        due.map(|(address, target)| {
            target.is_open = true;
            *address
        })
        .collect()
    }

    /// A connection with a target has ended, or was not made.
    pub(super) fn ended(&mut self, address: SocketAddr, now: Instant) {
        if let Some(target) = self.targets.get_mut(&address) {
            target.is_open = false;
            target.next = now + target.delay;
            target.delay = (target.delay * 2).min(target.longest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn step(step: u32, launcher_port: Option<u16>, reserved_ports: Vec<u16>) -> SlurmStep {
        SlurmStep {
            job: 7,
            step,
            restart: 0,
            tasks: 2,
            task: 0,
            local: 0,
            node: 0,
            nodes: vec!["a".into(), "b".into()],
            tasks_per_node: vec![1, 1],
            reserved_ports,
            launcher_port,
            launcher_host: None,
            addresses: Vec::new(),
        }
    }

    #[test]
    fn ports_depend_on_step_user_and_launcher_and_reserved_ports_come_first() {
        let plain = candidates(&step(0, None, vec![]), 1000);
        assert!((COMPUTED - 1..=COMPUTED).contains(&plain.len()), "{plain:?}");
        assert!(plain.iter().all(|port| (FIRST..LAST).contains(port)));
        assert_ne!(plain, candidates(&step(1, None, vec![]), 1000));
        assert_ne!(plain, candidates(&step(0, None, vec![]), 1001));
        let (one, other) = (
            candidates(&step(0, Some(40_000), (12_000..12_100).collect()), 1000),
            candidates(&step(0, Some(40_001), (12_000..12_100).collect()), 1000),
        );
        assert_eq!(one[..4], [12_000, 12_001, 12_002, 12_003]);
        assert_eq!(one[4..4 + plain.len()], plain);
        assert_eq!(one[..4 + plain.len()], other[..4 + plain.len()], "a heterogeneous step");
        assert_ne!(one, other);
    }

    #[test]
    fn attempts_are_repeated_ever_more_slowly_and_at_the_first_port_most_often() {
        let start = Instant::now();
        let mut dialing = Dialing::new(vec![1, 2]);
        assert!(dialing.due(start).is_empty());
        dialing.add(Ipv4Addr::LOCALHOST.into(), start);
        dialing.add(Ipv4Addr::LOCALHOST.into(), start);
        let mut counts = [0, 0];
        for time in 0..10_000 {
            let now = start + Duration::from_millis(time);
            for target in dialing.due(now) {
                counts[usize::from(target.port()) - 1] += 1;
                assert!(dialing.due(now).iter().all(|other| *other != target), "it is open");
                dialing.ended(target, now);
            }
        }
        assert!((50..60).contains(&counts[0]) && (10..20).contains(&counts[1]), "{counts:?}");
    }
}
