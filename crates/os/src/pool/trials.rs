//! Trying how short messages had better lie.
//!
//! What a copy of at most 4 KiB takes says little: the processor's store buffer hides it. What counts is how fast a stream of such
//! messages goes, at both ends. So once laps of the larger part of the pool have held nothing else, the ways to lay these messages are
//! tried by turns, each for some laps, and the one by which the laps were the shortest is kept until it is tried again. Where the
//! program itself takes most of the time of each lap, all laps take as long: it hardly matters then, and the way stays.

/// How a short message is laid in the pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// At the beginning of its block, by plain copies.
    Usual,
    /// Further on in its block in each lap (rule 8), by plain copies.
    Spread,
    /// At the beginning of its block, past the caches.
    Streamed,
}

const WAYS: [Way; 3] = [Way::Usual, Way::Spread, Way::Streamed];

/// How often each is tried, of which the best time counts: what else disturbs one turn may spare another.
const ROUNDS: usize = 2;

/// The laps of a turn that are not measured, as lines are where the way before has left them, and those that are. They are a few
/// hundred messages, so that what a program waits for between them is in all turns alike.
const SETTLING_LAPS: u32 = 1;
const MEASURED_LAPS: usize = 4;

/// The time of a turn: that of its two middle laps by length. What delays one lap, or lets one run ahead, says nothing.
fn middle(mut laps: [u64; MEASURED_LAPS]) -> u64 {
    laps.sort_unstable();
    laps[1].saturating_add(laps[2])
}

/// The laps of a stream before its first trial.
const BEGINNING_LAPS: u32 = 2;

/// The laps between trials the first time, or if another way was better than the last time. If it is the same again there are
/// twice as many.
const SHORTEST_REST: u32 = 128;

/// What a lap takes is said in ticks for a byte, with so many bits behind the point.
const FRACTION_BITS: u32 = 14;

/// Another way than the last time is taken if it takes less than so many sixteenths of what that one does.
const BETTER_SIXTEENTHS: u64 = 15;

/// A way of which the shortest of so many laps took more than so many sixteenths of what the best turn did has no chance, and no
/// second turn.
const HOPELESS_SIXTEENTHS: u64 = 20;
const HOPELESS_LAPS: usize = 2;

/// Whether what a way took is too long beside the shortest.
const fn is_hopeless(took: u64, shortest: u64) -> bool {
    took / HOPELESS_SIXTEENTHS > shortest / 16
}

/// The messages that are tried: of more than so many bytes, and up to so many; and how many classes of them there are.
pub(super) const SHORTER: usize = 512;
pub(super) const LONGEST_SHORT: usize = 4 << 10;
const CLASSES: usize = 3;

/// The class of a message of `len` bytes: up to 1, 2 and 4 KiB, as the best way is not the same for all.
const fn class_of(len: usize) -> usize {
    if len <= LONGEST_SHORT / 4 { 0 } else { 1 + (len > LONGEST_SHORT / 2) as usize }
}

/// Which way is the best one for messages of one class.
#[derive(Clone, Debug)]
struct Trial {
    /// The one that was the best when they were tried last; `None`: nothing is known.
    best: Option<Way>,
    /// The laps that are left until the next trial, and how many there were at its beginning; 0 are left: it goes on.
    left: u32,
    rest: u32,
    longest_rest: u32,
    /// Of the trial: the turn, counted from that of the way that was the best; what the shortest turn of each way took, if one came
    /// to its end; and of this turn the laps that are not to be measured, those that were, and what each of these took.
    turn: usize,
    took: [u64; WAYS.len()],
    settling: u32,
    measured: usize,
    laps: [u64; MEASURED_LAPS],
    /// Laps before all lines of a block were used once by spread messages of this class. Memory is made for them meanwhile.
    new_lines: u32,
    all_new_lines: u32,
}

impl Trial {
    fn new(new_lines: u32, longest_rest: u32) -> Trial {
        Trial {
            best: None,
            left: BEGINNING_LAPS,
            rest: SHORTEST_REST.min(longest_rest),
            longest_rest,
            turn: 0,
            took: [u64::MAX; WAYS.len()],
            settling: 0,
            measured: 0,
            laps: [0; MEASURED_LAPS],
            new_lines,
            all_new_lines: new_lines,
        }
    }

    /// A lap is over. `took`: how long it took for its bytes, if all of its blocks held messages of this class. The way from now on.
    fn lap(&mut self, took: Option<u64>) -> Option<Way> {
        match (took, self.left) {
            (Some(took), 0) => return self.tried(took),
            (Some(_), 1) => {
                (self.left, self.took) = (0, [u64::MAX; WAYS.len()]);
                return self.take_turn(0);
            }
            (Some(_), _) => self.left -= 1,
            // The stream has ended, and other messages are no measure.
            (None, 0) => {
                self.left = self.rest;
                // The next one begins with other lines.
                self.new_lines = if self.new_lines > 0 { self.all_new_lines } else { 0 };
            }
            (None, _) => {}
        }
        self.best
    }

    /// A lap of a trial.
    fn tried(&mut self, took: u64) -> Option<Way> {
        let way = self.way_of(self.turn);
        if way == Way::Spread && self.new_lines > 0 {
            self.new_lines -= 1;
            return Some(way);
        }
        if self.settling > 0 {
            self.settling -= 1;
            return Some(way);
        }
        self.laps[self.measured] = took;
        self.measured += 1;
        if self.measured == MEASURED_LAPS {
            let took = &mut self.took[way as usize];
            *took = middle(self.laps).min(*took);
            return self.end_turn();
        }
        let least = self.laps[..self.measured].iter().fold(u64::MAX, |least, lap| least.min(*lap));
        let goes_on = self.measured < HOPELESS_LAPS || !is_hopeless(least.saturating_mul(2), self.shortest());
        if goes_on { Some(way) } else { self.end_turn() }
    }

    /// The next turn, if there is one that may change anything, or the end of the trial.
    fn end_turn(&mut self) -> Option<Way> {
        let may_win = |way: Way| self.took[way as usize] < u64::MAX;
        let rivals = WAYS.into_iter().filter(|way| may_win(*way)).count();
        let next = (self.turn + 1..ROUNDS * WAYS.len())
            .find(|turn| *turn < WAYS.len() || rivals > 1 && may_win(self.way_of(*turn)));
        if let Some(turn) = next {
            return self.take_turn(turn);
        }
        let best = self.verdict();
        let rest = if self.best == Some(best) { self.rest.saturating_mul(2) } else { SHORTEST_REST };
        self.rest = rest.min(self.longest_rest);
        (self.left, self.best) = (self.rest, Some(best));
        self.best
    }

    fn take_turn(&mut self, turn: usize) -> Option<Way> {
        (self.turn, self.settling, self.measured) = (turn, SETTLING_LAPS, 0);
        Some(self.way_of(turn))
    }

    /// The one to beat comes first.
    fn way_of(&self, turn: usize) -> Way {
        WAYS[(self.best.unwrap_or(Way::Usual) as usize + turn) % WAYS.len()]
    }

    fn shortest(&self) -> u64 {
        self.took.into_iter().fold(u64::MAX, u64::min)
    }

    /// The way that took the shortest, or the one before if it is about as good.
    fn verdict(&self) -> Way {
        let before = self.best.unwrap_or(Way::Usual);
        let took = |way: Way| self.took[way as usize];
        let shortest = WAYS.into_iter().min_by_key(|way| took(*way)).unwrap_or(before);
        if took(shortest) < took(before) / 16 * BETTER_SIXTEENTHS { shortest } else { before }
    }
}

/// The short messages of a pool, and how they are laid.
#[derive(Clone, Debug)]
pub(super) struct Trials {
    /// How many messages a lap has.
    blocks: u32,
    /// For each class, the way now, and its trial.
    ways: [Option<Way>; CLASSES],
    of: [Trial; CLASSES],
    /// The number of the lap, which begins anew behind the largest one, and the class of its last message; how many messages of that
    /// class lie in it, one behind the other, and how many bytes they have, with those that went another way; when the first
    /// one was laid.
    lap: u32,
    largest_lap: u32,
    class: usize,
    messages: u32,
    bytes: u64,
    since: u64,
}

impl Trials {
    /// For laps of so many blocks of so many bytes, whose numbers end with `largest_lap`, a power of two less 1; `longest_rest`: the
    /// laps between two trials at most, at least 1.
    pub(super) fn new(blocks: u32, block_bytes: u32, largest_lap: u32, longest_rest: u32) -> Trials {
        let new_lines = |class: u32| (block_bytes / (LONGEST_SHORT as u32 / 4)) >> class;
        Trials {
            blocks,
            ways: [None; CLASSES],
            of: [0, 1, 2].map(|class| Trial::new(new_lines(class), longest_rest)),
            // The first lap that ends is not whole: no message is counted of it.
            lap: largest_lap / 2 + 1,
            largest_lap,
            class: 0,
            messages: 0,
            bytes: 0,
            since: 0,
        }
    }

    /// How a message of `len` bytes whose block was taken in the lap of this number is to be laid, if that is known, or tried. `now`
    /// says what time it is.
    #[inline]
    pub(super) fn lay(&mut self, len: usize, lap: u32, now: impl FnOnce() -> u64) -> Option<Way> {
        if lap != self.lap {
            self.end_lap(lap, now());
        }
        let class = class_of(len);
        if class != self.class {
            // What is counted of this lap is less than all of it.
            (self.class, self.messages) = (class, 0);
        }
        self.messages += 1;
        self.bytes += len as u64;
        self.ways[class]
    }

    /// A message of `len` bytes for which there was no room went another way, in the time of this lap.
    #[inline]
    pub(super) const fn went_elsewhere(&mut self, len: usize) {
        self.bytes += len as u64;
    }

    #[cold]
    fn end_lap(&mut self, lap: u32, now: u64) {
        // A lap in which other messages lie as well has fewer of these, and where the number jumps there were laps of others alone.
        let is_whole = self.messages == self.blocks && lap == (self.lap + 1) & self.largest_lap;
        let ticks = now.wrapping_sub(self.since).min(u64::MAX >> FRACTION_BITS);
        let took = is_whole.then(|| (ticks << FRACTION_BITS).checked_div(self.bytes)).flatten();
        for (class, (way, trial)) in self.ways.iter_mut().zip(&mut self.of).enumerate() {
            *way = trial.lap(took.filter(|_| class == self.class));
        }
        (self.lap, self.messages, self.bytes, self.since) = (lap, 0, 0, now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCKS: u32 = 48;
    const BLOCK_BYTES: u32 = 32 << 10;
    /// As of a pool of 128 MiB.
    const LARGEST_LAP: u32 = 31;

    /// A stream through a pool, where a lap of messages takes as long as it is told for each way.
    struct Stream {
        trials: Trials,
        lap: u32,
        now: u64,
    }

    impl Stream {
        fn new(longest_rest: u32) -> Stream {
            Stream { trials: Trials::new(BLOCKS, BLOCK_BYTES, LARGEST_LAP, longest_rest), lap: 7, now: 0 }
        }

        /// A lap of messages of `len` bytes; how they were laid.
        fn lap(&mut self, len: usize, takes: impl Fn(Way) -> u64) -> Option<Way> {
            let way = self.trials.lay(len, self.lap, || self.now);
            (1..BLOCKS).for_each(|_| assert_eq!(self.trials.lay(len, self.lap, || unreachable!()), way));
            self.now = self.now.wrapping_add(takes(way.unwrap_or(Way::Usual)));
            self.lap = (self.lap + 1) & LARGEST_LAP;
            way
        }

        fn laps(&mut self, laps: usize, len: usize, takes: impl Fn(Way) -> u64) -> Vec<Option<Way>> {
            (0..laps).map(|_| self.lap(len, &takes)).collect()
        }
    }

    /// Microseconds, say, of each way.
    fn taking(usual: u64, spread: u64, streamed: u64) -> impl Fn(Way) -> u64 {
        move |way| [usual, spread, streamed][way as usize] * 1000
    }

    fn count(laps: &[Option<Way>], way: Way) -> usize {
        laps.iter().filter(|lap| **lap == Some(way)).count()
    }

    #[test]
    fn the_way_that_takes_the_shortest_is_kept() {
        for (len, takes, best) in [
            (4096, (100, 70, 80), Way::Spread),
            (2048, (400, 150, 100), Way::Streamed),
            (1024, (100, 110, 200), Way::Usual),
            // As good as the same.
            (1025, (100, 94, 100), Way::Usual),
            (1, (100, 93, 90), Way::Streamed),
        ] {
            let (usual, spread, streamed) = takes;
            let mut stream = Stream::new(2048);
            let laps = stream.laps(200, len, taking(usual, spread, streamed));
            assert_eq!((laps[1], laps[2]), (None, Some(Way::Usual)), "{len} bytes");
            assert!(
                laps[100..150].iter().all(|way| *way == Some(best)),
                "{len} bytes: {best:?}, not {laps:?}"
            );
            assert!(count(&laps[..100], Way::Spread) > 2 && count(&laps[..100], Way::Streamed) > 2);
        }
    }

    #[test]
    fn trials_come_ever_more_seldom_until_another_way_is_better() {
        let mut stream = Stream::new(512);
        let laps = stream.laps(5000, 4096, taking(100, 60, 400));
        // The laps of the kept way between others.
        let rests: Vec<usize> = laps
            .split(|way| *way != Some(Way::Spread))
            .map(<[_]>::len)
            .filter(|laps| *laps > 2 * MEASURED_LAPS + BLOCK_BYTES as usize / 4096)
            .collect();
        assert_eq!(rests.len(), 11, "{rests:?}");
        // A rest, and the turn of the way that was the best, which comes first.
        let turn = SETTLING_LAPS as usize + MEASURED_LAPS;
        assert_eq!(rests[1..5], [256, 512, 512, 512].map(|rest| rest + turn), "{rests:?}");
        // Before the first one that way had its second turn, as the usual one, which had come first, had, too.
        assert_eq!(rests[0], turn + 128 + turn);
        // What has no chance is soon given up.
        assert!(count(&laps, Way::Streamed) <= 12 * 3 && count(&laps, Way::Usual) <= 12 * 3 + 10);
        let laps = stream.laps(1000, 4096, taking(100, 200, 110));
        assert!(laps[600..800].iter().all(|way| *way == Some(Way::Usual)));
    }

    #[test]
    fn each_class_has_a_way_of_its_own() {
        assert_eq!([513, 1024, 1025, 2048, 2049, 4096].map(class_of), [0, 0, 1, 1, 2, 2]);
        let mut stream = Stream::new(2048);
        stream.laps(200, 1024, taking(100, 50, 200));
        stream.laps(200, 2048, taking(100, 200, 50));
        assert_eq!(stream.trials.ways, [Some(Way::Spread), Some(Way::Streamed), None]);
    }

    #[test]
    fn laps_of_other_messages_end_a_trial_and_are_no_measure() {
        let takes = taking(100, 50, 200);
        // Of two lengths by turns nothing is ever known.
        let mut stream = Stream::new(1);
        for _ in 0..1000 {
            for len in [1024, 4096] {
                stream.trials.lay(len, stream.lap, || stream.now);
            }
            (stream.lap, stream.now) = ((stream.lap + 1) & LARGEST_LAP, stream.now + 1);
        }
        assert_eq!(stream.trials.ways, [None; 3]);
        // A trial ends with the first lap in which others lie, and is made again later.
        for others in [1, 2] {
            let mut stream = Stream::new(2048);
            let laps = stream.laps(10, 4096, &takes);
            assert_eq!(laps[9], Some(Way::Spread));
            match others {
                // Another class.
                1 => _ = stream.lap(1024, &takes),
                // Longer ones, of which nothing is heard.
                _ => stream.lap = (stream.lap + 1) & LARGEST_LAP,
            }
            assert_eq!(stream.lap(4096, &takes), None);
            let laps = stream.laps(300, 4096, &takes);
            assert!(laps[..100].iter().all(Option::is_none) && laps[299] == Some(Way::Spread));
        }
        // What was known stays.
        let mut stream = Stream::new(2048);
        stream.laps(100, 4096, &takes);
        (0..50).for_each(|_| _ = stream.lap(1024, &takes));
        assert_eq!(stream.trials.ways[2], Some(Way::Spread));
    }

    #[test]
    fn what_went_elsewhere_counts_as_well() {
        // Spread laps take longer, but twice as much goes meanwhile.
        let mut stream = Stream::new(2048);
        for _ in 0..200 {
            if stream.lap(4096, taking(100, 150, 300)) == Some(Way::Spread) {
                (0..BLOCKS).for_each(|_| stream.trials.went_elsewhere(4096));
            }
        }
        assert_eq!(stream.trials.ways[2], Some(Way::Spread));
    }

    #[test]
    fn odd_times_and_laps_do_no_harm() {
        let mut stream = Stream::new(1);
        stream.now = u64::MAX - 1000;
        stream.laps(200, 4096, |way| if way == Way::Usual { u64::MAX / 3 } else { 0 });
        assert!(stream.trials.ways[2].is_some());
        // Nothing but empty messages has no time for its bytes.
        stream.laps(200, 0, taking(1, 1, 1));
        assert_eq!(stream.trials.ways[0], None);
        // A clock that goes back.
        let mut stream = Stream::new(2048);
        stream.now = u64::MAX / 2;
        for at in 0..150 {
            if at == 20 {
                stream.now -= 1 << 40;
            }
            stream.lap(4096, taking(100, 70, 150));
        }
        assert_eq!(stream.trials.ways[2], Some(Way::Spread));
    }

    #[test]
    fn a_pause_decides_nothing() {
        // One long lap, wherever it comes, and however long: which way is the best then.
        for pause in [100_000, 300_000, 700_000, 1_000_000, 10_000_000] {
            let mut best = [0; 3];
            for long in 0..60 {
                let mut stream = Stream::new(2048);
                for at in 0..100 {
                    let pause = if at == long { pause } else { 0 };
                    stream.lap(4096, |way| taking(100, 70, 250)(way) + pause);
                }
                best[stream.trials.ways[2].map_or(0, |way| way as usize)] += 1;
            }
            assert_eq!(best, [0, 60, 0], "{pause}");
        }
        // A program that sends some messages and then waits.
        for (messages, wait, takes, best) in [
            (500, 1000, (100, 70, 250), Way::Spread),
            (700, 300, (100, 70, 250), Way::Spread),
            (300, 200, (100, 70, 90), Way::Spread),
            (500, 300, (100, 130, 190), Way::Usual),
            (500, 500, (100, 130, 190), Way::Usual),
        ] {
            let (usual, spread, streamed) = takes;
            let mut stream = Stream::new(2048);
            let laps: Vec<_> = (0..20_000)
                .map(|at| {
                    let pause = if at * 48 % messages < 48 { wait * 1000 } else { 0 };
                    stream.lap(4096, |way| taking(usual, spread, streamed)(way) + pause)
                })
                .collect();
            assert!(count(&laps, best) > 18_000, "{messages} messages, {wait}: {}", count(&laps, best));
        }
    }
}
