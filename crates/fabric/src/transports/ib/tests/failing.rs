use super::{MESSAGES, Rank, SharedIbWorld, meet, settings, world};
use crate::Membership;
use crate::transports::ib::IbSettings;
use std::time::{Duration, Instant};

fn until(ranks: &mut [Rank; 2], mut is_so: impl FnMut(&mut [Rank; 2]) -> bool) {
    let start = Instant::now();
    while !is_so(ranks) {
        assert!(start.elapsed() < Duration::from_secs(30), "nothing moves");
        ranks.iter_mut().for_each(Rank::poll);
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn messages_arrive_once_and_in_order_over_connections_that_fail() {
    let mut failed = 0;
    for seed in 0..6 {
        let settings = settings([1, 2, 4][seed as usize % 3], (seed % 2 == 0).then_some(64));
        let (world, mut ranks) = world(seed, settings);
        world.with(|world| world.failures = 30);
        let start = Instant::now();
        loop {
            let came = |rank: &Rank| rank.mailbox.came.len() >= MESSAGES as usize;
            if came(&ranks[0]) && came(&ranks[1]) {
                world.with(|world| world.failures = 0);
                if ranks[0].ib.leave() & ranks[1].ib.leave() {
                    break;
                }
            }
            assert!(start.elapsed() < Duration::from_secs(60), "seed {seed}: nothing moves");
            for rank in &mut ranks {
                while rank.sent < MESSAGES && rank.send_next() {} // at most MESSAGES turns
                rank.poll();
            }
            if ranks.iter().any(|rank| !rank.ib.broken.is_empty()) {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        ranks[0].check(1, MESSAGES);
        ranks[1].check(0, MESSAGES);
        assert!(
            ranks
                .iter()
                .all(|rank| rank.mailbox.lost.is_empty() && rank.said.lock().unwrap().is_empty())
        );
        failed += world.with(|world| world.failed);
    }
    assert!(failed > 10, "{failed}");
}

#[test]
fn a_port_that_is_down_for_some_time_loses_nothing() {
    for seed in 0..4 {
        let (world, mut ranks) = world(seed, settings(2, (seed % 2 == 0).then_some(64)));
        meet(&mut ranks);
        world.with(|world| (world.failures, world.refuses) = (1, true));
        let mut start = None;
        until(&mut ranks, |ranks| {
            for rank in ranks.iter_mut() {
                let _ = rank.sent < MESSAGES && rank.send_next();
            }
            if ranks.iter().all(|rank| !rank.ib.broken.is_empty()) {
                start.get_or_insert_with(Instant::now);
            }
            start.is_some_and(|start| start.elapsed() > Duration::from_secs(1))
        });
        world.with(|world| (world.failures, world.refuses) = (0, false));
        until(&mut ranks, |ranks| {
            for rank in ranks.iter_mut() {
                let _ = rank.sent < MESSAGES && rank.send_next();
            }
            ranks.iter().all(|rank| rank.mailbox.came.len() == MESSAGES as usize)
        });
        ranks[0].check(1, MESSAGES);
        ranks[1].check(0, MESSAGES);
        until(&mut ranks, |ranks| ranks[0].ib.leave() & ranks[1].ib.leave());
        assert!(ranks.iter().all(|rank| rank.said.lock().unwrap().is_empty()));
    }
}

#[test]
fn a_peer_out_of_reach_for_too_long_is_lost_and_notified() {
    let timeout = Duration::from_secs(2);
    let (world, mut ranks) = world(7, IbSettings { timeout, ..settings(2, None) });
    meet(&mut ranks);
    until(&mut ranks, |ranks| ranks[0].send_next());
    world.with(|world| (world.failures, world.refuses) = (1, true));
    let start = Instant::now();
    until(&mut ranks, |ranks| ranks.iter().all(|rank| !rank.mailbox.lost.is_empty()));
    assert!(start.elapsed() >= timeout);
    let said = ranks.each_ref().map(|rank| rank.said.lock().unwrap().join("\n"));
    for text in ["nothing goes to process", "has failed", "vendor error 0x70"] {
        assert!(said.iter().any(|said| said.contains(text)), "{said:?}");
    }
    assert!(ranks[0].ib.leave() && ranks[1].ib.leave());
}

/// Both send `count` messages from the first turn on, and leave when all messages have arrived.
fn exchange(seed: u64, world: &SharedIbWorld, ranks: &mut [Rank; 2], count: u32) {
    let start = Instant::now();
    let has_all = |rank: &Rank| rank.mailbox.came.len() >= count as usize;
    loop {
        if ranks.iter().all(has_all) {
            world.with(|world| (world.failures, world.refusals) = (0, 0));
            if ranks[0].ib.leave() & ranks[1].ib.leave() {
                return;
            }
        }
        assert!(start.elapsed() < Duration::from_secs(20), "seed {seed}: nothing moves");
        for rank in ranks.iter_mut() {
            while rank.sent < count && rank.send_next() {} // at most `count` turns
            rank.poll();
            assert!(rank.mailbox.lost.is_empty(), "seed {seed}: {:?}", rank.said.lock().unwrap());
        }
    }
}

#[test]
fn connections_that_fail_at_any_step_of_their_making_are_made_in_the_end() {
    let (mut refused, mut failed) = (0, 0);
    for seed in 0..600 {
        let shared = (seed % 2 == 0).then_some(64);
        let timeout = Duration::from_secs(60);
        let settings = IbSettings {
            timeout,
            pause: Duration::ZERO,
            ..settings([1, 2, 4][seed as usize % 3], shared)
        };
        let (world, mut ranks) = world(seed, settings);
        world.with(|world| {
            (world.refusals, world.failures) =
                ([2, 3, 8][seed as usize / 6 % 3], seed / 18 % 3 * 10)
        });
        exchange(seed, &world, &mut ranks, 12);
        ranks[0].check(1, 12);
        ranks[1].check(0, 12);
        (refused, failed) = world.with(|world| (refused + world.refused, failed + world.failed));
    }
    assert!(refused > 600 && failed > 300, "{refused} {failed}");
}

#[test]
fn ports_that_are_down_before_the_first_message_connect_the_ends_that_were_made() {
    for seed in 0..4 {
        let settings = settings(2, (seed % 2 == 0).then_some(64));
        let (world, mut ranks) = world(seed, settings);
        world.with(|world| world.refuses = true);
        let start = Instant::now();
        until(&mut ranks, |ranks| {
            ranks.iter_mut().for_each(|rank| assert!(!rank.send_next()));
            start.elapsed() > Duration::from_millis(300)
        });
        assert!(ranks.iter().all(|rank| !rank.ib.broken.is_empty()));
        world.with(|world| world.refuses = false);
        exchange(seed, &world, &mut ranks, MESSAGES);
        assert!(
            ranks
                .iter()
                .all(|rank| rank.ib.numbers.len() == 1 && rank.said.lock().unwrap().is_empty())
        );
        assert_eq!(world.with(|world| world.ends_made()), 2, "no other ends were needed");
    }
}
