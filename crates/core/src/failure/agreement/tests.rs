//! Agreements by each algorithm among ranks that fail between any two messages. A failed test
//! prints its seed; `OXMPI_SIM_SEED=n` runs one seed.

use super::*;
use oxmpi_tuned::agreement::TreeShape;
use std::collections::{BTreeMap, HashMap, VecDeque};

struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % n
    }
}

enum Event {
    Message(AgreementMessage),
    Lost,
}

struct AgreementWorld {
    ranks: Vec<Agreements>,
    alive: Vec<bool>,
    channels: HashMap<(u32, u32), VecDeque<Event>>,
    seen: Vec<BTreeMap<u64, AgreementResult>>,
    brought: Vec<Vec<u32>>,
    left: Vec<bool>,
    at_once: u64,
    sent: Vec<u64>,
    /// Whether a loss may be reported before the lost rank's last messages arrive.
    overtakes: bool,
    rounds: u64,
}

const MOST_ROUNDS: u64 = 6;

fn tolerant() -> Vec<AgreementSettings> {
    let algorithm = AgreementAlgorithm::EarlyReturning;
    let trees = TreeShape::ALL.into_iter().flat_map(|shape| {
        [false, true].map(|rebuild| AgreementSettings { algorithm, shape, rebuild })
    });
    let terminating = AgreementSettings {
        algorithm: AgreementAlgorithm::EarlyTerminating,
        ..AgreementSettings::default()
    };
    trees.chain([terminating]).collect()
}

impl AgreementWorld {
    fn new(size: u32, settings: AgreementSettings, random: &mut Random) -> AgreementWorld {
        let n = size as usize;
        AgreementWorld {
            ranks: (0..size).map(|me| Agreements::new(me, size, settings)).collect(),
            alive: vec![true; n],
            channels: HashMap::new(),
            seen: vec![BTreeMap::new(); n],
            brought: vec![Vec::new(); n],
            left: vec![false; n],
            at_once: 1 + random.below(4),
            sent: vec![0; n],
            overtakes: random.below(2) == 0,
            rounds: 1 + random.below(MOST_ROUNDS),
        }
    }

    fn send(&mut self, from: u32, out: Outbox, sent: usize) {
        for (to, message) in out.into_iter().take(sent) {
            assert_ne!(from, to, "no rank writes to itself");
            self.sent[from as usize] += 1;
            self.channels.entry((from, to)).or_default().push_back(Event::Message(message));
        }
    }

    fn kill(&mut self, rank: u32, random: &mut Random) {
        self.alive[rank as usize] = false;
        for to in 0..self.alive.len() as u32 {
            if to != rank {
                let channel = self.channels.entry((rank, to)).or_default();
                let at = if self.overtakes {
                    random.below(channel.len() as u64 + 1) as usize
                } else {
                    channel.len()
                };
                channel.insert(at, Event::Lost);
            }
        }
    }

    fn note(&mut self, rank: u32) {
        let me = rank as usize;
        let agreements = &self.ranks[me];
        for number in 0..agreements.ledger.next {
            if let Some(verdict) = agreements.verdict(number) {
                let first = self.seen[me].entry(number).or_insert_with(|| verdict.clone());
                assert_eq!(
                    *first, verdict,
                    "rank {rank} changes its decision of agreement {number}"
                );
            }
        }
    }

    fn go_on(&mut self, rank: u32, random: &mut Random) -> Outbox {
        let me = rank as usize;
        let agreements = &mut self.ranks[me];
        let next = agreements.ledger.next;
        let undecided = next - self.seen[me].len() as u64;
        if self.left[me] || undecided >= self.at_once {
            return Outbox::new();
        }
        if next == self.rounds {
            self.left[me] = undecided == 0;
            return if self.left[me] { agreements.leave() } else { Outbox::new() };
        }
        let flag = random.below(16) as u32 | (next as u32) << 8;
        self.brought[me].push(flag);
        let contribution = Contribution {
            flag,
            name: u64::from(rank) << 32 | next,
            failed: agreements.ledger.lost.clone(),
            acknowledged: agreements.ledger.lost.clone(),
            lacks: 0,
        };
        agreements.begin(contribution).1
    }

    fn run(&mut self, mut deaths: u64, random: &mut Random) -> Result<(), String> {
        let size = self.alive.len() as u32;
        let mut idle = 0;
        let mut steps = 0_u64;
        loop {
            steps += 1;
            let living: Vec<u32> = (0..size).filter(|rank| self.alive[*rank as usize]).collect();
            if living.iter().all(|rank| self.left[*rank as usize]) {
                return Ok(());
            }
            let mut waiting: Vec<(u32, u32)> = self
                .channels
                .iter()
                .filter(|((_, to), events)| self.alive[*to as usize] && !events.is_empty())
                .map(|(channel, _)| *channel)
                .collect();
            waiting.sort_unstable();
            idle = if waiting.is_empty() { idle + 1 } else { 0 };
            if idle > 200 * u64::from(size) || steps > 2_000_000 {
                let stuck = living.iter().filter(|rank| !self.left[**rank as usize]);
                return Err(format!("these ranks wait for ever: {:?}", stuck.collect::<Vec<_>>()));
            }
            let (who, out) = if waiting.is_empty() || random.below(3) == 0 {
                let rank = living[random.below(living.len() as u64) as usize];
                (rank, self.go_on(rank, random))
            } else {
                let (from, to) = waiting[random.below(waiting.len() as u64) as usize];
                let event = self.channels.get_mut(&(from, to)).and_then(VecDeque::pop_front);
                let agreements = &mut self.ranks[to as usize];
                let out = match event {
                    Some(Event::Message(message)) => agreements.receive(from, message),
                    Some(Event::Lost) => agreements.lose(from),
                    None => Outbox::new(),
                };
                if self.left[to as usize] && !out.is_empty() {
                    return Err(format!("rank {to} has left and sends {out:?}"));
                }
                (to, out)
            };
            let can_die = self.alive.iter().filter(|alive| **alive).count() > 1;
            // A death is most likely just after the rank has left: then no rank waits for its
            // messages.
            let chance = if self.left[who as usize] { 3 } else { 10 + u64::from(size) };
            if deaths > 0 && can_die && random.below(chance) == 0 {
                deaths -= 1;
                let sent = random.below(out.len() as u64 + 1) as usize;
                self.send(who, out, sent);
                self.kill(who, random);
            } else {
                let all = out.len();
                self.send(who, out, all);
                self.note(who);
            }
        }
    }

    fn check(&self) -> Result<(), String> {
        let living: Vec<usize> = (0..self.alive.len()).filter(|rank| self.alive[*rank]).collect();
        for number in 0..self.rounds {
            let verdicts: Vec<&AgreementResult> =
                living.iter().map(|rank| &self.seen[*rank][&number]).collect();
            let AgreementResult::Decided(first) = verdicts[0] else {
                return Err(format!("agreement {number} failed"));
            };
            if let Some(other) = verdicts.iter().find(|verdict| **verdict != verdicts[0]) {
                return Err(format!("agreement {number}: {first:?} and {other:?}"));
            }
            let brought = |ranks: &[usize]| {
                let flags =
                    ranks.iter().filter_map(|rank| self.brought[*rank].get(number as usize));
                flags.fold(u32::MAX, |all, flag| all & flag)
            };
            let all: Vec<usize> = (0..self.alive.len()).collect();
            if first.flag & !brought(&living) != 0 || brought(&all) & !first.flag != 0 {
                return Err(format!("agreement {number}: flag {:x}", first.flag));
            }
            if living.iter().any(|rank| first.failed.contains(*rank as u32)) {
                return Err(format!("agreement {number}: a living rank of {:?}", first.failed));
            }
            if first.settled > number {
                return Err(format!("agreement {number} settles {}", first.settled));
            }
        }
        Ok(())
    }
}

fn run(settings: AgreementSettings, seed: u64, most: u64) {
    let mut random = Random(seed);
    let size = 1 + random.below(most) as u32;
    let mut world = AgreementWorld::new(size, settings, &mut random);
    let deaths = random.below(u64::from(size));
    let ended = world.run(deaths, &mut random).and_then(|()| world.check());
    if let Err(error) = ended {
        panic!("seed {seed}, {size} ranks, {settings}: {error}");
    }
}

fn run_all(settings: AgreementSettings, seeds: u64, most: u64) {
    let number_of =
        |name: &str| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    match number_of("OXMPI_SIM_SEED") {
        Some(seed) => run(settings, seed, most),
        None => {
            let base = number_of("OXMPI_SIM_BASE").unwrap_or(0);
            let count = number_of("OXMPI_SIM_COUNT").unwrap_or(seeds);
            (base..base + count).for_each(|seed| run(settings, seed, most));
        }
    }
}

#[test]
fn all_living_ranks_decide_alike_after_any_death() {
    tolerant().into_iter().for_each(|settings| run_all(settings, 2_000, 7));
}

#[test]
fn so_do_many_ranks() {
    tolerant().into_iter().for_each(|settings| run_all(settings, 30, 40));
}

#[test]
fn without_tolerance_agreements_fail_and_do_not_hang() {
    let settings = AgreementSettings::plain();
    let mut failed = 0;
    for seed in 0..4_000 {
        let mut random = Random(seed);
        let size = 1 + random.below(9) as u32;
        let mut world = AgreementWorld::new(size, settings, &mut random);
        let deaths = random.below(2);
        let ended = world.run(deaths, &mut random);
        assert_eq!(ended, Ok(()), "seed {seed}, {size} ranks");
        if world.alive.iter().all(|alive| *alive) {
            assert_eq!(world.check(), Ok(()), "seed {seed}, {size} ranks");
            continue;
        }
        let dead = world.alive.iter().position(|alive| !alive);
        for (verdicts, _) in world.seen.iter().zip(&world.alive).filter(|(_, alive)| **alive) {
            for verdict in verdicts.values() {
                if let AgreementResult::Failed(rank) = verdict {
                    assert_eq!(Some(*rank as usize), dead);
                    failed += 1;
                }
            }
        }
    }
    assert!(failed > 100, "only {failed} agreements were met by a failure");
}

impl AgreementWorld {
    fn agree_once(&mut self) -> Vec<u64> {
        let mut random = Random(1);
        self.rounds = MOST_ROUNDS;
        let living: Vec<u32> =
            (0..self.alive.len() as u32).filter(|rank| self.alive[*rank as usize]).collect();
        self.sent.fill(0);
        for rank in &living {
            let out = self.go_on(*rank, &mut random);
            let all = out.len();
            self.send(*rank, out, all);
        }
        let waiting = |world: &AgreementWorld| {
            let channels = world.channels.iter();
            let mut ready = channels
                .filter(|((_, to), events)| world.alive[*to as usize] && !events.is_empty());
            ready.next().map(|(at, _)| *at)
        };
        while let Some((from, to)) = waiting(self) {
            let event = self.channels.get_mut(&(from, to)).and_then(VecDeque::pop_front);
            let out = match event {
                Some(Event::Message(message)) => self.ranks[to as usize].receive(from, message),
                _ => panic!("only messages"),
            };
            let all = out.len();
            self.send(to, out, all);
        }
        living.iter().for_each(|rank| self.note(*rank));
        assert!(living.iter().all(|rank| {
            let me = *rank as usize;
            self.seen[me].len() as u64 == self.ranks[me].ledger.next
        }));
        self.sent.clone()
    }
}

fn sent(settings: AgreementSettings, size: u32) -> Vec<u64> {
    AgreementWorld::new(size, settings, &mut Random(1)).agree_once()
}

#[test]
fn the_busiest_rank_sends_as_its_tree_requires() {
    let returning = |shape| AgreementSettings { shape, ..AgreementSettings::default() };
    for (shape, busiest) in [
        (TreeShape::Binary, 3),
        (TreeShape::Star, 63),
        (TreeShape::String, 2),
        (TreeShape::Binomial, 6),
    ] {
        let sent = sent(returning(shape), 64);
        assert_eq!(sent.iter().max(), Some(&busiest), "{shape:?}");
        assert_eq!(sent.iter().sum::<u64>(), 2 * 63, "{shape:?}");
    }
    assert_eq!(sent(AgreementSettings::plain(), 64).iter().sum::<u64>(), 2 * 63);
    let algorithm = AgreementAlgorithm::EarlyTerminating;
    let terminating = sent(AgreementSettings { algorithm, ..AgreementSettings::default() }, 64);
    assert!(terminating.iter().all(|sent| *sent == 2 * 63), "{terminating:?}");
}

#[test]
fn a_rebuilt_tree_is_balanced_again() {
    // The root of a mended binary tree adopts the children of the lost ranks.
    for (rebuild, children_of_root) in [(false, 8), (true, 2)] {
        let settings = AgreementSettings { rebuild, ..AgreementSettings::default() };
        let mut world = AgreementWorld::new(63, settings, &mut Random(1));
        world.agree_once();
        for lost in 1..7 {
            world.alive[lost] = false;
            for rank in (0..63).filter(|rank| !(1..7).contains(rank)) {
                let out = world.ranks[rank].lose(lost as u32);
                let all = out.len();
                world.send(rank as u32, out, all);
            }
        }
        world.agree_once();
        let sent = world.agree_once();
        assert_eq!(sent[0], children_of_root, "rebuild {rebuild}");
        assert_eq!(sent.iter().sum::<u64>(), 2 * 56);
    }
}

#[test]
fn a_failure_that_a_rank_has_not_acknowledged_is_news() {
    for settings in tolerant() {
        let mut first = Agreements::new(0, 2, settings);
        let mut failed = RankSet::empty(2);
        assert!(first.lose(1).is_empty());
        failed.insert(1);
        for (acknowledged, news) in [(RankSet::empty(2), true), (failed.clone(), false)] {
            let mine =
                Contribution { flag: 5, name: 7, failed: failed.clone(), acknowledged, lacks: 0 };
            let (number, out) = first.begin(mine);
            assert!(out.is_empty());
            let Some(AgreementResult::Decided(decision)) = first.verdict(number) else {
                panic!("{settings}")
            };
            assert_eq!((decision.flag, decision.name, decision.news), (5, 7, news));
        }
    }
}
