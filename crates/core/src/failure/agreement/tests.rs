//! Agreements among ranks that fail at any moment, between any two messages.

use super::*;
use std::collections::HashMap;

/// A small generator, so that a failure is repeated by its seed.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

enum Event {
    Message(Message),
    Lost,
}

struct World {
    ranks: Vec<Agreements>,
    alive: Vec<bool>,
    /// Channels in order: from, to.
    channels: HashMap<(u32, u32), VecDeque<Event>>,
    /// What each rank has seen decided, by number.
    seen: Vec<BTreeMap<u64, Decision>>,
    left: Vec<bool>,
    flags: Vec<u32>,
    /// How many agreements a rank has begun at a time that are not decided.
    at_once: u64,
}

const ROUNDS: u64 = 6;

impl World {
    fn new(size: u32, random: &mut Random) -> World {
        World {
            ranks: (0..size).map(|me| Agreements::new(me, size)).collect(),
            alive: vec![true; size as usize],
            channels: HashMap::new(),
            seen: vec![BTreeMap::new(); size as usize],
            left: vec![false; size as usize],
            flags: (0..size).map(|_| random.below(16) as u32).collect(),
            at_once: 1 + random.below(4),
        }
    }

    /// Sends as many of the messages as the rank lives for.
    fn send(&mut self, from: u32, out: Outbox, sent: usize) {
        for (to, message) in out.into_iter().take(sent) {
            assert_ne!(from, to, "nobody writes to itself");
            self.channels.entry((from, to)).or_default().push_back(Event::Message(message));
        }
    }

    fn kill(&mut self, rank: u32) {
        self.alive[rank as usize] = false;
        for to in 0..self.alive.len() as u32 {
            if to != rank {
                self.channels.entry((rank, to)).or_default().push_back(Event::Lost);
            }
        }
    }

    /// Its own progress: begins the next agreement when the last one is decided, leaves after the last one.
    fn go_on(&mut self, rank: u32) -> Outbox {
        let me = rank as usize;
        let size = self.alive.len() as u32;
        let agreements = &mut self.ranks[me];
        for number in 0..agreements.next {
            if let Some(decision) = agreements.decision(number) {
                self.seen[me].insert(number, decision.clone());
            }
        }
        let undecided = agreements.next - self.seen[me].len() as u64;
        if self.left[me] || undecided >= self.at_once {
            return Outbox::new();
        }
        if agreements.next == ROUNDS {
            self.left[me] = undecided == 0;
            return if self.left[me] { agreements.leave() } else { Outbox::new() };
        }
        let contribution = Contribution {
            flag: self.flags[me] | (agreements.next as u32) << 8,
            name: u64::from(rank) << 32 | agreements.next,
            failed: agreements.lost.clone(),
            acknowledged: RankSet::empty(size),
            lacks: 0,
        };
        agreements.begin(contribution).1
    }
}

fn run(seed: u64) {
    let mut random = Random(seed);
    let size = 1 + random.below(6) as u32;
    let mut world = World::new(size, &mut random);
    let mut deaths = random.below(u64::from(size));
    let mut steps = 0;
    loop {
        steps += 1;
        assert!(steps < 100_000, "seed {seed}: somebody waits for ever");
        let living: Vec<u32> = (0..size).filter(|rank| world.alive[*rank as usize]).collect();
        let waiting: Vec<(u32, u32)> = world
            .channels
            .iter()
            .filter(|((_, to), events)| world.alive[*to as usize] && !events.is_empty())
            .map(|(channel, _)| *channel)
            .collect();
        let mut waiting = waiting;
        waiting.sort_unstable();
        let rank = living[random.below(living.len() as u64) as usize];
        let (who, out) = if waiting.is_empty() || random.below(3) == 0 {
            let out = world.go_on(rank);
            if out.is_empty() && waiting.is_empty() && living.iter().all(|rank| world.left[*rank as usize]) {
                break;
            }
            (rank, out)
        } else {
            let (from, to) = waiting[random.below(waiting.len() as u64) as usize];
            let event = world.channels.get_mut(&(from, to)).unwrap().pop_front().unwrap();
            let agreements = &mut world.ranks[to as usize];
            let out = match event {
                Event::Message(message) => agreements.hear(from, message),
                Event::Lost => agreements.lose(from),
            };
            assert!(
                !world.left[to as usize] || out.is_empty(),
                "seed {seed}: rank {to} has left and says {out:?}"
            );
            (to, out)
        };
        // It may die in the middle of what it sends.
        if deaths > 0 && random.below(20) == 0 && world.alive.iter().filter(|alive| **alive).count() > 1 {
            deaths -= 1;
            let sent = random.below(out.len() as u64 + 1) as usize;
            world.send(who, out, sent);
            world.kill(who);
        } else {
            let all = out.len();
            world.send(who, out, all);
        }
    }
    let living: Vec<usize> = (0..size as usize).filter(|rank| world.alive[*rank]).collect();
    for number in 0..ROUNDS {
        let decisions: Vec<&Decision> = living.iter().map(|rank| &world.seen[*rank][&number]).collect();
        let first = decisions[0];
        assert!(decisions.iter().all(|decision| *decision == first), "seed {seed}, agreement {number}");
        let all = living.iter().fold(u32::MAX, |all, rank| all & world.flags[*rank]) & 0xff;
        assert_eq!(first.flag & 0xff & !all, 0, "seed {seed}: a bit that somebody has not set");
        assert_eq!(first.flag >> 8, number as u32, "seed {seed}: of another agreement");
        assert!(living.iter().all(|rank| !first.failed.contains(*rank as u32)), "seed {seed}: a living rank");
    }
}

#[test]
fn all_living_ranks_decide_alike_whoever_dies_when() {
    let base = std::env::var("OXMPI_SIM_SEED").ok().and_then(|seed| seed.parse().ok());
    match base {
        Some(seed) => run(seed),
        None => (0..20_000).for_each(run),
    }
}

#[test]
fn a_failure_that_somebody_has_not_acknowledged_is_news() {
    let mut first = Agreements::new(0, 2);
    let mut failed = RankSet::empty(2);
    assert!(first.lose(1).is_empty());
    failed.insert(1);
    for (acknowledged, news) in [(RankSet::empty(2), true), (failed.clone(), false)] {
        let mine = Contribution { flag: 5, name: 7, failed: failed.clone(), acknowledged, lacks: 0 };
        let (number, out) = first.begin(mine);
        assert!(out.is_empty());
        let decision = first.decision(number).unwrap();
        assert_eq!((decision.flag, decision.name, decision.news), (5, 7, news));
    }
}
