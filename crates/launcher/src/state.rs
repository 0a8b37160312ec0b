//! The state report: what each rank of a job does, which ranks wait for which, and whether a rank
//! can continue.
//!
//! The launcher observes the ranks ([`Sight`]) without their help: it reads the header pages of
//! their segments, the notes that long waits leave there ([`LongWait`]), and the kernel's state of
//! their processes. Nothing here makes a system call.
//!
//! A rank can continue, as in any graph of waits: if it does not wait; if it waits for all of some
//! peers and all can continue; if it waits for any of some peers and one can continue; if it needs
//! only attention and no needed peer has ended. The other ranks are stuck.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use crate::job::{Glimpse, MpiStage};
use oxmpi_rt_client::waiting::{LongWait, Need};

/// The kernel's state of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Doing {
    Ended,
    Stopped,
    /// Running, or ready to run.
    Runs,
    /// Asleep on its doorbell, inside an MPI call.
    SleepsInMpi,
    /// Asleep in the kernel for another reason.
    Sleeps,
    Unknown,
}

/// The observed state of one process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sight {
    /// The process's number in the launcher.
    pub number: u32,
    pub seen: Glimpse,
    pub doing: Doing,
    /// 0: unknown.
    pub threads: u32,
    /// The notes, each with the name of its MPI call.
    pub waits: Vec<(LongWait, Option<&'static str>)>,
}

impl Sight {
    fn is_ended(&self) -> bool {
        self.doing == Doing::Ended
    }

    fn waits(&self) -> bool {
        !self.is_ended() && !self.waits.is_empty()
    }
}

/// Names a process: its rank, and a suffix for a job other than the first, such as " of spawned job
/// 1".
pub type Naming<'a> = &'a dyn Fn(u32) -> (u32, String);

/// The report: a line per group of processes in the same state, the conclusions, and the process
/// ids. `now_ns` is on the notes' clock.
pub fn lines(sights: &[Sight], host: &str, now_ns: u64, naming: Naming<'_>) -> String {
    let mut out = String::new();
    // The phrase, the processes and the earliest start; in the order of the processes' numbers.
    let mut groups: Vec<(String, Vec<u32>, u64)> = Vec::new();
    for sight in sights {
        for (what, since_ns) in phrases(sight, naming) {
            match groups.iter_mut().find(|(said, ..)| *said == what) {
                Some((_, numbers, since)) => {
                    numbers.push(sight.number);
                    *since = since_ns.min(*since);
                }
                None => groups.push((what, vec![sight.number], since_ns)),
            }
        }
    }
    for (what, mut numbers, since_ns) in groups {
        numbers.dedup();
        let seconds = now_ns.saturating_sub(since_ns) / 1_000_000_000;
        let what = what.replace(SINCE, &format!("since {seconds} s"));
        let _ = writeln!(out, "  {}: {what}", names(&numbers, naming));
    }
    for words in verdict(sights, naming) {
        let _ = writeln!(out, "  {words}");
    }
    let pids: Vec<String> = sights
        .iter()
        .filter(|sight| !sight.is_ended() && sight.seen.pid != 0)
        .map(|sight| format!("{} pid {}", names(&[sight.number], naming), sight.seen.pid))
        .collect();
    if !pids.is_empty() {
        let _ = writeln!(out, "  On host {host}: {}.", pids.join(", "));
    }
    out
}

/// Stands for the time, so that two ranks with different times share a line.
const SINCE: &str = "\u{1}";

fn phrases(sight: &Sight, naming: Naming<'_>) -> Vec<(String, u64)> {
    let last = |words: &str| match sight.seen.last_call {
        Some(call) => format!("{words}; the last MPI call was {call}"),
        None => words.to_string(),
    };
    let stopped =
        if sight.doing == Doing::Stopped { "stopped by a signal or a debugger, " } else { "" };
    if sight.waits() {
        let phrase = |(waiting, call): &(LongWait, Option<&str>)| {
            let call = call.map_or("in MPI".to_string(), |call| format!("in {call}"));
            (format!("{stopped}{call} {SINCE}, {}", wish(waiting, naming)), waiting.since_ns)
        };
        return sight.waits.iter().map(phrase).collect();
    }
    let words = match (sight.doing, sight.seen.stage) {
        (Doing::Ended, _) => "ended".to_string(),
        (Doing::Stopped, _) => last("stopped by a signal or a debugger"),
        (_, MpiStage::Untouched) => "has not called MPI_Init".to_string(),
        (_, MpiStage::Finalized) => "has called MPI_Finalize and goes on".to_string(),
        (Doing::Runs, _) => last("computing"),
        (Doing::SleepsInMpi, _) => {
            let call = sight.seen.last_call.unwrap_or("MPI");
            format!("in {call}, for less than a second or two")
        }
        (Doing::Sleeps, _) => last("asleep outside MPI's waits (a timer, a file, a lock)"),
        (Doing::Unknown, _) => last("between MPI_Init and MPI_Finalize"),
    };
    vec![(words, u64::MAX)]
}

fn wish(waiting: &LongWait, naming: Naming<'_>) -> String {
    let peers = names(&waiting.peers, naming);
    let more = match (waiting.count as usize).saturating_sub(waiting.peers.len()) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let any = match (waiting.need, waiting.count) {
        (Need::Any, 2..) => "any of ",
        _ => "",
    };
    match waiting.peers.is_empty() {
        true => format!("waiting for {}", waiting.text),
        false => format!("waiting for {any}{peers}{more}: {}", waiting.text),
    }
}

/// Names of processes, ranks of one job together: "ranks 0-3,7".
fn names(numbers: &[u32], naming: Naming<'_>) -> String {
    let mut jobs: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for number in numbers {
        let (rank, job) = naming(*number);
        jobs.entry(job).or_default().insert(rank);
    }
    let words = jobs.into_iter().map(|(job, ranks)| match ranks.len() {
        1 => format!("rank {}{job}", ranges(&ranks)),
        _ => format!("ranks {}{job}", ranges(&ranks)),
    });
    words.collect::<Vec<_>>().join(" and ")
}

fn ranges(ranks: &BTreeSet<u32>) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for &rank in ranks {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == rank => *last = rank,
            _ => runs.push((rank, rank)),
        }
    }
    let words = runs.into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    });
    words.collect::<Vec<_>>().join(",")
}

/// The processes that can never continue.
fn stuck(sights: &BTreeMap<u32, &Sight>) -> BTreeSet<u32> {
    let mut stuck: BTreeSet<u32> =
        sights.iter().filter(|(_, sight)| sight.waits()).map(|(number, _)| *number).collect();
    let is_ended = |number: &u32| sights.get(number).is_some_and(|sight| sight.is_ended());
    loop {
        let can = |number: &u32| !stuck.contains(number) && !is_ended(number);
        let may_end = |waiting: &LongWait| match waiting.need {
            Need::Outside => true,
            Need::All => waiting.peers.iter().all(can),
            Need::Any => {
                waiting.count as usize > waiting.peers.len() || waiting.peers.iter().any(can)
            }
            Need::Attention => !waiting.peers.iter().any(is_ended),
        };
        let freed: Vec<u32> = stuck
            .iter()
            .copied()
            .filter(|number| sights[number].waits.iter().any(|(waiting, _)| may_end(waiting)))
            .collect();
        if freed.is_empty() {
            return stuck;
        }
        freed.iter().for_each(|number| _ = stuck.remove(number));
    }
}

fn verdict(sights: &[Sight], naming: Naming<'_>) -> Vec<String> {
    let by_number: BTreeMap<u32, &Sight> =
        sights.iter().map(|sight| (sight.number, sight)).collect();
    let stuck = stuck(&by_number);
    let mut out = Vec::new();
    let mut reported = BTreeSet::new();
    for &number in &stuck {
        if reported.contains(&number) {
            continue;
        }
        // Follows the peers that cannot continue, from rank to rank, until one repeats or has
        // ended.
        let mut path = vec![number];
        let end = loop {
            let last = path[path.len() - 1];
            let peers = by_number[&last].waits.iter().flat_map(|(waiting, _)| &waiting.peers);
            let is_hopeless = |peer: &&u32| {
                stuck.contains(peer) || by_number.get(peer).is_some_and(|sight| sight.is_ended())
            };
            let Some(&next) = peers.clone().find(is_hopeless) else { break None };
            if let Some(at) = path.iter().position(|before| *before == next) {
                break Some(path.split_off(at));
            }
            if reported.contains(&next) {
                break None;
            }
            if by_number[&next].is_ended() {
                let waiting: Vec<u32> = stuck
                    .iter()
                    .copied()
                    .filter(|number| {
                        by_number[number]
                            .waits
                            .iter()
                            .any(|(waiting, _)| waiting.peers.contains(&next))
                    })
                    .collect();
                let verb = if waiting.len() == 1 { "waits" } else { "wait" };
                out.push(format!(
                    "{} has ended, and {} {verb} for it in vain.",
                    capital(&names(&[next], naming)),
                    names(&waiting, naming)
                ));
                reported.insert(next);
                break None;
            }
            path.push(next);
        };
        if let Some(cycle) = end {
            out.push(deadlock(&cycle, &by_number, naming));
            reported.extend(cycle);
        }
        reported.extend(path);
    }
    out.extend(late(&by_number, &stuck, naming));
    out
}

fn deadlock(cycle: &[u32], sights: &BTreeMap<u32, &Sight>, naming: Naming<'_>) -> String {
    let next = |at: usize| cycle[(at + 1) % cycle.len()];
    let links = (0..cycle.len().min(MOST_LINKS)).map(|at| {
        format!("{} waits for {}", names(&cycle[at..=at], naming), names(&[next(at)], naming))
    });
    let links: Vec<String> = links.collect();
    let more = if cycle.len() > MOST_LINKS { ", and so on in a ring" } else { "" };
    let threads = if cycle.iter().any(|number| sights[number].threads > 1) {
        ", unless another of their threads does something for it"
    } else {
        ""
    };
    format!("A deadlock: {}{more}. None of them can go on{threads}.", links.join(", "))
}

const MOST_LINKS: usize = 8;

/// Sentences about processes that do not wait themselves and for which others wait.
fn late(sights: &BTreeMap<u32, &Sight>, stuck: &BTreeSet<u32>, naming: Naming<'_>) -> Vec<String> {
    let mut waiting: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (number, sight) in
        sights.iter().filter(|(number, sight)| sight.waits() && !stuck.contains(number))
    {
        for (wait, _) in &sight.waits {
            if matches!(wait.need, Need::All | Need::Attention) {
                wait.peers.iter().for_each(|peer| waiting.entry(*peer).or_default().push(*number));
            }
        }
    }
    let words = |doing: Doing, stage: MpiStage| match (doing, stage) {
        (Doing::Stopped, _) => "is stopped",
        (_, MpiStage::Untouched) => "has not called MPI_Init",
        (_, MpiStage::Finalized) => "has called MPI_Finalize",
        (Doing::Runs, _) => "is computing",
        (Doing::Sleeps, _) => "is asleep outside MPI's waits",
        _ => "does not wait for long",
    };
    let sentences = waiting.into_iter().filter_map(|(peer, numbers)| {
        let sight = sights.get(&peer).filter(|sight| !sight.waits() && !sight.is_ended())?;
        let verb = if numbers.len() == 1 { "waits" } else { "wait" };
        let what = words(sight.doing, sight.seen.stage);
        Some(format!(
            "{} {verb} for {}, which {what}.",
            capital(&names(&numbers, naming)),
            names(&[peer], naming)
        ))
    });
    sentences.take(MOST_LINKS).collect()
}

fn capital(words: &str) -> String {
    let mut letters = words.chars();
    letters.next().map_or(String::new(), |first| first.to_uppercase().chain(letters).collect())
}

/// Whether a process has waited for `limit` and nothing has arrived for it. Waits with
/// [`Need::Outside`] do not count, nor waits that depend on one.
pub fn is_overdue(sights: &[Sight], limit: Duration, now_ns: u64) -> bool {
    let waits = |sight: &&Sight| sight.waits();
    let mut patient: BTreeSet<u32> = BTreeSet::new();
    loop {
        let may_wait = |(waiting, _): &(LongWait, Option<&str>)| {
            waiting.need == Need::Outside || waiting.peers.iter().any(|peer| patient.contains(peer))
        };
        let more: Vec<u32> = sights
            .iter()
            .filter(waits)
            .filter(|sight| !patient.contains(&sight.number) && sight.waits.iter().any(may_wait))
            .map(|sight| sight.number)
            .collect();
        if more.is_empty() {
            break;
        }
        patient.extend(more);
    }
    sights.iter().filter(waits).any(|sight| {
        !patient.contains(&sight.number)
            && sight.waits.iter().any(|(wait, _)| wait.is_late(limit, now_ns))
    })
}

/// Whether a process has waited for `limit` for a single peer that has ended. Only certain cases
/// count: with several peers some may have answered since the note, another thread may end the
/// wait, and a process that does not sleep may be handling an answer.
pub fn waits_for_ended(sights: &[Sight], limit: Duration, now_ns: u64) -> bool {
    let has_ended =
        |number: u32| sights.iter().any(|sight| sight.number == number && sight.is_ended());
    sights.iter().any(|sight| {
        let is_alone = sight.threads == 1 && sight.doing == Doing::SleepsInMpi;
        is_alone
            && matches!(&sight.waits[..], [(wait, _)]
                if wait.is_long(limit, now_ns)
                    && wait.need == Need::All
                    && wait.count == 1
                    && wait.peers.first().is_some_and(|peer| has_ended(*peer)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    fn sight(number: u32, doing: Doing, waits: &[(Need, &[u32], &str)]) -> Sight {
        let note = |(need, peers, text): &(Need, &[u32], &str)| LongWait {
            since_ns: u64::from(number) * S / 10,
            moved_ns: u64::from(number) * S / 10,
            call: 0,
            need: *need,
            peers: peers.to_vec(),
            count: peers.len() as u32,
            text: (*text).to_string(),
        };
        let waits = waits.iter().map(|wait| (note(wait), Some("MPI_Recv"))).collect();
        let seen = Glimpse {
            pid: 100 + number,
            stage: MpiStage::Initialized,
            last_call: Some("MPI_Send"),
        };
        Sight { number, seen, doing, threads: 1, waits }
    }

    fn text_of(sights: &[Sight]) -> String {
        let naming = |number: u32| {
            if number < 10 {
                (number, String::new())
            } else {
                (number - 10, " of spawned job 1".to_string())
            }
        };
        lines(sights, "h", 12 * S + S / 2, &naming)
    }

    #[test]
    fn equal_states_share_a_line() {
        let barrier: &[(Need, &[u32], &str)] = &[(Need::All, &[4], "barrier on MPI_COMM_WORLD")];
        let mut sights: Vec<Sight> =
            [0, 1, 2, 3, 7].map(|number| sight(number, Doing::SleepsInMpi, barrier)).into();
        sights.insert(4, sight(4, Doing::Runs, &[]));
        sights.push(sight(11, Doing::Stopped, &[]));
        assert_eq!(
            text_of(&sights),
            "\x20 ranks 0-3,7: in MPI_Recv since 12 s, waiting for rank 4: barrier on MPI_COMM_WORLD\n\
             \x20 rank 4: computing; the last MPI call was MPI_Send\n\
             \x20 rank 1 of spawned job 1: stopped by a signal or a debugger; the last MPI call was MPI_Send\n\
             \x20 Ranks 0-3,7 wait for rank 4, which is computing.\n\
             \x20 On host h: rank 0 pid 100, rank 1 pid 101, rank 2 pid 102, rank 3 pid 103, rank 4 pid 104, rank 7 \
             pid 107, rank 1 of spawned job 1 pid 111.\n"
        );
    }

    #[test]
    fn a_ring_of_waits_is_a_deadlock() {
        let mut sights = vec![
            sight(0, Doing::SleepsInMpi, &[(Need::All, &[1], "a message")]),
            sight(1, Doing::SleepsInMpi, &[(Need::All, &[0], "a message")]),
            sight(2, Doing::SleepsInMpi, &[(Need::Any, &[0, 1], "a message")]),
        ];
        let deadlock =
            "A deadlock: rank 0 waits for rank 1, rank 1 waits for rank 0. None of them can go on";
        assert!(text_of(&sights).contains(&format!("{deadlock}.")), "{}", text_of(&sights));
        sights[1].threads = 2;
        assert!(
            text_of(&sights).contains(&format!("{deadlock}, unless another")),
            "{}",
            text_of(&sights)
        );
        // A process that can continue frees a wait for any of its peers.
        sights[0].waits = vec![];
        assert!(!text_of(&sights).contains("deadlock"));
    }

    #[test]
    fn a_wait_for_attention_is_stuck_only_by_an_ended_peer() {
        let mut sights = vec![
            sight(0, Doing::SleepsInMpi, &[(Need::Attention, &[1], "to take in 5 bytes")]),
            sight(1, Doing::SleepsInMpi, &[(Need::All, &[0], "a message")]),
        ];
        assert!(!text_of(&sights).contains("deadlock"), "{}", text_of(&sights));
        sights[1].doing = Doing::Ended;
        assert!(text_of(&sights).contains("Rank 1 has ended, and rank 0 waits for it in vain."));
    }

    #[test]
    fn a_wait_for_an_ended_peer_is_reported_if_it_is_certain() {
        let limit = Duration::from_secs(3);
        let sights = vec![
            sight(0, Doing::SleepsInMpi, &[(Need::All, &[1], "a message")]),
            sight(1, Doing::Ended, &[]),
            sight(2, Doing::Runs, &[]),
        ];
        let with = |change: &dyn Fn(&mut Vec<Sight>)| {
            let mut sights = sights.clone();
            change(&mut sights);
            waits_for_ended(&sights, limit, 100 * S)
        };
        assert!(with(&|_| ()));
        assert!(
            with(&|all| all[0].waits[0].0.moved_ns = 99 * S),
            "what comes from others is nothing to it"
        );
        assert!(!with(&|all| all[0].waits[0].0.since_ns = 99 * S), "it is young");
        assert!(!with(&|all| all[1].doing = Doing::Runs));
        assert!(!with(&|all| all[0].doing = Doing::Runs), "perhaps it works on what has come");
        assert!(!with(&|all| all[0].threads = 2), "another thread may do it");
        assert!(!with(&|all| all[0].threads = 0), "nobody knows");
        assert!(!with(&|all| all[0].waits[0].0.need = Need::Any));
        assert!(!with(&|all| all[0].waits[0].0.need = Need::Attention));
        assert!(!with(&|all| {
            all[0].waits[0].0.peers.push(2);
            all[0].waits[0].0.count = 2;
        }));
        assert!(!with(&|all| {
            let other = all[0].waits[0].clone();
            all[0].waits.push(other);
        }));
    }

    #[test]
    fn a_wait_that_may_take_long_is_no_alarm() {
        let limit = Duration::from_secs(3);
        let mut sights = vec![
            sight(0, Doing::SleepsInMpi, &[(Need::Outside, &[], "somebody to connect")]),
            sight(1, Doing::SleepsInMpi, &[(Need::All, &[0], "bcast")]),
        ];
        assert!(!is_overdue(&sights, limit, 100 * S), "it waits for who accepts");
        sights[0].waits.clear();
        assert!(is_overdue(&sights, limit, 100 * S));
        assert!(!is_overdue(&sights, limit, 2 * S));
        sights[1].waits[0].0.moved_ns = 99 * S;
        assert!(!is_overdue(&sights, limit, 100 * S), "something has come");
        sights[1].doing = Doing::Ended;
        assert!(!is_overdue(&sights, limit, 1000 * S));
    }
}
