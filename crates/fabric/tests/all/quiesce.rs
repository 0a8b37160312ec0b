//! A process whose messages are quiesced by its launcher, which is the test.

use crate::ends::{JOB, LIMIT, ProcessConfig, TestProcess};
use oxmpi_fabric::peer_segments::PeerSegments;
use oxmpi_fabric::routes::{Coordinator, Reach, Routes};
use oxmpi_fabric::shm::{Shm, ShmSettings};
use oxmpi_fabric::tcp::{Address, PeerLocation};
use oxmpi_fabric::{Connections as _, Fabric as _, Sent, Statistics as _};
use oxmpi_shm::segment::{Boot, Segment};
use oxmpi_sys::barrier::BarrierKind;
use oxmpi_sys::net::Listener;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Requests each step as soon as the one before is taken.
struct Launcher {
    segment: Arc<Segment>,
    /// The addresses at which the peer finds the process.
    known: Arc<Mutex<Result<PeerLocation, String>>>,
    is_known_abroad: bool,
}

fn listener() -> Listener {
    Listener::bind(Ipv4Addr::LOCALHOST.into(), None).unwrap()
}

fn place(listener: &Listener) -> Result<PeerLocation, String> {
    let address =
        Address { socket: listener.address().unwrap(), interface: "lo".into(), host: None };
    Ok(PeerLocation::At(vec![address]))
}

impl Coordinator for Launcher {
    fn reached(&mut self, step: u32) {
        self.segment.status().ask_quiesce_step(step + 1);
    }

    fn listeners(&mut self, is_sought: bool) -> Result<Vec<Listener>, String> {
        if is_sought != self.is_known_abroad {
            return Err(format!("it says that it is sought: {is_sought}"));
        }
        let all: Vec<Listener> = (0..=u32::from(is_sought)).map(|_| listener()).collect();
        *self.known.lock().unwrap() = place(all.last().unwrap());
        Ok(all)
    }

    fn fail(&mut self, why: &str) {
        panic!("{why}");
    }
}

/// A process that sends nothing, so that only the peer connects, at the known listener.
fn is_found_again(is_known_abroad: bool, plans: [ProcessConfig; 2]) {
    const MESSAGES: u32 = 5;
    const TIMES: u32 = 3;
    let (mut peer, mut end) = (TestProcess::new(0, &plans[0]), TestProcess::new(1, &plans[1]));
    plans[0].at(end.address);
    plans[1].at(peer.address);
    if is_known_abroad {
        let more = listener();
        *plans[0].peer.lock().unwrap() = place(&more);
        end.tcp.listen_also(more).unwrap();
    }
    let boot = Boot { oversubscribed: true, sockets: true, ..Boot::on_one_node(JOB, 1, 2) };
    let segment = Segment::map(Segment::create(&boot).unwrap()).unwrap();
    let open = Box::new(|_| Err("nobody shares memory with it".into()));
    let peer_segments = PeerSegments::new(segment.clone(), BarrierKind::Symmetric, open);
    let routes =
        Routes::new(Shm::new(peer_segments, ShmSettings::default())).with_memory(Reach::Nobody);
    let launcher =
        Launcher { segment: segment.clone(), known: plans[0].peer.clone(), is_known_abroad };
    let routes = routes.with(Box::new(end.tcp), Reach::Everybody);
    let mut routes = routes.with_coordinator(segment.clone(), Box::new(launcher));
    let start = Instant::now();
    for time in 0..=TIMES {
        while end.recorder.next < (time + 1) * MESSAGES {
            if peer.pushed < (time + 1) * MESSAGES {
                assert!(peer.recorder.lost.is_empty(), "{:?}", plans[0].texts.lock().unwrap());
                let _: Sent = peer.send();
            }
            peer.poll();
            routes.poll(&mut end.recorder);
            assert!(start.elapsed() < LIMIT, "it does not come: {peer:?}");
        }
        if time < TIMES {
            segment.status().ask_quiesce_step(3 * time + 1);
            routes.poll(&mut end.recorder);
            assert_eq!(segment.status().quiesce_step(), 3 * time + 3);
        }
    }
    assert_eq!(routes.counts().connections_remade, u64::from(TIMES));
    assert_eq!((&*peer.recorder.lost, &*end.recorder.lost), (&[][..], &[][..]));
}

/// A process is restored while messages are under way, without a quiesce; all of them arrive.
fn goes_on_restored(plans: [ProcessConfig; 2]) {
    const MESSAGES: u32 = 40;
    const TIMES: u32 = 3;
    let (mut peer, mut end) = (TestProcess::new(0, &plans[0]), TestProcess::new(1, &plans[1]));
    plans[0].at(end.address);
    plans[1].at(peer.address);
    let boot = Boot { oversubscribed: true, sockets: true, ..Boot::on_one_node(JOB, 1, 2) };
    let segment = Segment::map(Segment::create(&boot).unwrap()).unwrap();
    let open = Box::new(|_| Err("nobody shares memory with it".into()));
    let peer_segments = PeerSegments::new(segment.clone(), BarrierKind::Symmetric, open);
    let routes =
        Routes::new(Shm::new(peer_segments, ShmSettings::default())).with_memory(Reach::Nobody);
    let launcher =
        Launcher { segment: segment.clone(), known: plans[0].peer.clone(), is_known_abroad: false };
    let routes = routes.with(Box::new(end.tcp), Reach::Everybody);
    let mut routes = routes.with_coordinator(segment.clone(), Box::new(launcher));
    let (start, mut restored) = (Instant::now(), 0);
    while end.recorder.next < MESSAGES {
        let is_due = restored < TIMES && end.recorder.next > 10 * restored;
        // The process is restored with a message under way, however fast the messages before came.
        let most = if is_due { end.recorder.next + 1 } else { MESSAGES.min(10 * (restored + 1)) };
        if peer.pushed < most {
            assert!(peer.recorder.lost.is_empty(), "{:?}", plans[0].texts.lock().unwrap());
            let _: Sent = peer.send();
        }
        peer.poll();
        if is_due && peer.pushed > end.recorder.next {
            restored += 1;
            segment.status().note_restored(false);
            segment.status().ask_quiesce_step(3 * restored);
        }
        routes.poll(&mut end.recorder);
        assert!(start.elapsed() < LIMIT, "it does not come: {peer:?}");
    }
    assert_eq!(
        (restored, segment.status().quiesce_step()),
        (TIMES, 3 * TIMES),
        "no step is requested"
    );
    assert!(routes.counts().connections_remade >= 1, "{:?}", routes.counts());
    assert_eq!((&*peer.recorder.lost, &*end.recorder.lost), (&[][..], &[][..]));
}

#[test]
fn a_restored_process_continues_with_messages_under_way() {
    goes_on_restored([ProcessConfig::new(), ProcessConfig::new()]);
    goes_on_restored([ProcessConfig::encrypted(), ProcessConfig::encrypted()]);
}

#[test]
fn a_quiesced_process_is_found_again() {
    is_found_again(false, [ProcessConfig::new(), ProcessConfig::new()]);
    is_found_again(false, [ProcessConfig::encrypted(), ProcessConfig::encrypted()]);
}

#[test]
fn a_quiesced_process_is_found_again_by_other_launchers() {
    is_found_again(true, [ProcessConfig::new(), ProcessConfig::new()]);
    is_found_again(true, [ProcessConfig::encrypted(), ProcessConfig::encrypted()]);
}
