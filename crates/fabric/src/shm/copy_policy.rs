//! How a message goes from one process of a node to another: a pure function of the node's facts and the message's length and layout.
//!
//! There are three ways. *Ring*: a short message lies in the pair ring. *Pool*: the sender copies into its pool, the receiver out of it.
//! *Single copy*: the sender announces where the message lies, and the receiver reads it there. Nothing is learnt from messages: what a
//! node is like is a sheet of [`Facts`], built in by processor family or measured on request (`oxmpi doctor --measure`), and
//! `oxmpi explain copy --bytes N` prints facts, decision and predicted times.
//!
//! Costs are those of what programs do, messages both ways at once: each process makes all copies of a message's way for one message, so
//! that nothing is gained by the other side's copying at the same time.
//!
//! Where the distance of the two processors is not known, as a hypervisor moves them or nobody has bound the processes, the way is taken
//! whose time is the smallest multiple of the best way's, at worst of near and far.

use oxmpi_os::bytes::CopyKind;
use std::borrow::Cow;

/// What copies cost on a node.
#[derive(Clone, Debug, PartialEq)]
pub struct Facts {
    /// Which processors, or where the sheet is from.
    pub of: Cow<'static, str>,
    /// Between processors that share a cache.
    pub near: Distance,
    /// Between others.
    pub far: Distance,
    /// What copying past the caches costs beside its bytes, nanoseconds: until what was stored is in memory.
    pub past_caches_ns: f64,
    /// The receiver's copy by the kernel (process_vm_readv(2)).
    pub single_copy: SingleCopy,
}

/// What copies through shared memory cost, in nanoseconds, and for each KiB.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distance {
    /// From the store to a line until the other processor has seen it.
    pub line_ns: f64,
    /// Copying in, to lines that the other processor has read last.
    pub in_ns: f64,
    /// The same past the caches.
    pub in_past_caches_ns: f64,
    /// Copying out what was copied in.
    pub out_ns: f64,
    /// Copying out what went past the caches.
    pub out_past_caches_ns: f64,
}

/// What the kernel's copy costs, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SingleCopy {
    /// A call.
    pub call_ns: f64,
    /// Each KiB, while one process reads.
    pub alone_ns: f64,
    /// Each KiB, while two processes read, each from the other.
    pub both_ns: f64,
}

/// Facts of processor families, by what the processor says: vendor and family. All of virtual machines with two processors: family 25 is an
/// EPYC of model 17 (Linux 6.18; with messages both ways), family 26 one of model 2, Intel's a Sapphire Rapids, of which the kernel's copy was
/// measured and the others were worked out from the times of exchanges through the pool.
const SHEETS: [(&str, u32, Facts); 3] = [
    (
        "AuthenticAMD",
        25,
        Facts {
            of: Cow::Borrowed("AMD family 25"),
            near: distance(60.0, [22.0, 60.0], [25.0, 125.0]),
            far: distance(100.0, [400.0, 60.0], [80.0, 125.0]),
            past_caches_ns: 300.0,
            single_copy: SingleCopy { call_ns: 1400.0, alone_ns: 75.0, both_ns: 80.0 },
        },
    ),
    (
        "AuthenticAMD",
        26,
        Facts {
            of: Cow::Borrowed("AMD family 26"),
            near: distance(60.0, [22.0, 55.0], [20.0, 55.0]),
            far: distance(150.0, [60.0, 55.0], [50.0, 60.0]),
            past_caches_ns: 300.0,
            single_copy: SingleCopy { call_ns: 1000.0, alone_ns: 75.0, both_ns: 85.0 },
        },
    ),
    (
        "GenuineIntel",
        6,
        Facts {
            of: Cow::Borrowed("Intel family 6"),
            near: distance(70.0, [55.0, 85.0], [45.0, 80.0]),
            far: distance(120.0, [70.0, 95.0], [60.0, 95.0]),
            past_caches_ns: 300.0,
            single_copy: SingleCopy { call_ns: 400.0, alone_ns: 26.0, both_ns: 32.0 },
        },
    ),
];

/// Facts of processors of which nothing is known: as slow a call as was seen anywhere.
const CONSERVATIVE: Facts = Facts {
    of: Cow::Borrowed("an unknown processor"),
    near: distance(80.0, [50.0, 95.0], [50.0, 85.0]),
    far: distance(200.0, [90.0, 95.0], [70.0, 95.0]),
    past_caches_ns: 300.0,
    single_copy: SingleCopy { call_ns: 1500.0, alone_ns: 138.0, both_ns: 150.0 },
};

/// Plain copies first, then those past the caches.
const fn distance(line_ns: f64, copy_in: [f64; 2], copy_out: [f64; 2]) -> Distance {
    let ([in_ns, in_past_caches_ns], [out_ns, out_past_caches_ns]) = (copy_in, copy_out);
    Distance { line_ns, in_ns, in_past_caches_ns, out_ns, out_past_caches_ns }
}

impl Facts {
    /// The sheet built in for a processor, by vendor and family.
    pub fn built_in(vendor: &str, family: u32) -> Facts {
        let found = SHEETS.iter().find(|(its, of, _)| *its == vendor && *of == family);
        found.map_or(CONSERVATIVE, |(_, _, facts)| facts.clone())
    }

    /// The sheet of this node's processor.
    pub fn here() -> Facts {
        let processor = oxmpi_os::hardware::processor();
        processor.map_or(CONSERVATIVE, |of| Facts::built_in(&of.vendor, of.family))
    }

    /// All sheets that are built in, the one for unknown processors last.
    pub fn all_built_in() -> impl Iterator<Item = Facts> {
        SHEETS.into_iter().map(|(_, _, facts)| facts).chain([CONSERVATIVE])
    }
}

/// Where the two processors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// They share a cache.
    Near,
    /// They share none.
    Far,
    /// Nobody knows, or it changes.
    Unknown,
}

/// The way of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// In the pair ring.
    Ring,
    /// Through the sender's pool, copied in so.
    Pool(CopyKind),
    /// The receiver reads the sender's memory.
    SingleCopy,
}

/// What is possible between two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Possible {
    /// The shortest message that does not go by the ring, bytes.
    pub ring_below: usize,
    /// Whether the sender has a pool.
    pub pool: bool,
    /// Whether the receiver may read the sender's memory; `Some(true)`: then it does so whatever it costs.
    pub single_copy: Option<bool>,
}

/// What was decided for messages of at least a power of two bytes, and less than twice as many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The way of what lies in one piece.
    pub way: Way,
    /// How all others, and those that may not be read, are copied into the pool.
    pub kind: CopyKind,
    /// The length of the pieces in the pool, bytes: so long that the slot of each is worth what it costs.
    pub piece_bytes: u32,
}

/// All decisions for a pair of processes, by the logarithm of the length.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyPlan {
    ring_below: usize,
    by_magnitude: [Decision; usize::BITS as usize],
}

impl CopyPlan {
    /// Decides for all lengths.
    pub fn new(facts: &Facts, place: Place, possible: Possible) -> CopyPlan {
        CopyPlan {
            ring_below: possible.ring_below,
            by_magnitude: std::array::from_fn(|magnitude| decide(facts, place, possible, 1 << magnitude)),
        }
    }

    /// What holds for messages of `len` bytes. Whatever is shorter than that goes by the ring.
    #[inline]
    pub fn of(&self, len: usize) -> Decision {
        let decision = self.by_magnitude[len.max(1).ilog2() as usize];
        if len < self.ring_below { Decision { way: Way::Ring, ..decision } } else { decision }
    }
}

/// The decision for messages of `len` bytes and more.
fn decide(facts: &Facts, place: Place, possible: Possible, len: usize) -> Decision {
    let best = |ways: &[Way]| {
        let worst = |way: Way| regret(facts, place, way, len, ways);
        ways.iter().copied().min_by(|a, b| worst(*a).total_cmp(&worst(*b)))
    };
    let pooled = [Way::Pool(CopyKind::Plain), Way::Pool(CopyKind::Streaming)];
    let kind = match best(&pooled) {
        Some(Way::Pool(kind)) => kind,
        _ => CopyKind::Plain,
    };
    let way = match (possible.pool, possible.single_copy) {
        (_, Some(true)) => Way::SingleCopy,
        (true, Some(false)) => best(&[pooled[0], pooled[1], Way::SingleCopy]).unwrap_or(Way::Pool(kind)),
        (false, Some(false)) => Way::SingleCopy,
        (true, None) => Way::Pool(kind),
        (false, None) => Way::Ring,
    };
    Decision { way, kind, piece_bytes: piece(facts, len) }
}

/// How many times as long a way takes as the best one of `ways`, at worst of the places where the processors may be.
fn regret(facts: &Facts, place: Place, way: Way, len: usize, ways: &[Way]) -> f64 {
    let at = |place: Place| {
        let best = ways.iter().map(|way| predict(facts, place, *way, len)).fold(f64::INFINITY, f64::min);
        predict(facts, place, way, len) / best
    };
    match place {
        Place::Unknown => at(Place::Near).max(at(Place::Far)),
        known => at(known),
    }
}

/// Nanoseconds of one process for messages of `len` bytes both ways. Of an unknown place those of the worse one.
pub fn predict(facts: &Facts, place: Place, way: Way, len: usize) -> f64 {
    let Distance { line_ns, in_ns, in_past_caches_ns, out_ns, out_past_caches_ns } = match place {
        Place::Near => facts.near,
        Place::Far => facts.far,
        Place::Unknown => {
            let at = |place| predict(facts, place, way, len);
            return at(Place::Near).max(at(Place::Far));
        }
    };
    let kib = len as f64 / 1024.0;
    match way {
        Way::Ring | Way::Pool(CopyKind::Plain) => line_ns + kib * (in_ns + out_ns),
        Way::Pool(CopyKind::Streaming) => {
            line_ns + facts.past_caches_ns + kib * (in_past_caches_ns + out_past_caches_ns)
        }
        // The announcement, and word that it was read.
        Way::SingleCopy => 2.0 * line_ns + facts.single_copy.call_ns + kib * facts.single_copy.both_ns,
    }
}

/// The shortest and longest pieces, bytes.
const PIECES: [u32; 2] = [4 << 10, 128 << 10];

/// The length of pieces with which a single message comes soonest: n pieces cost n lines more, and the receiver waits for the first
/// one only. So that is the root of what a line costs times the length, in bytes that are copied meanwhile.
fn piece(facts: &Facts, len: usize) -> u32 {
    let Distance { line_ns, out_ns, .. } = facts.near;
    let best = (len as f64 * line_ns / out_ns * 1024.0).sqrt();
    let [least, most] = PIECES;
    (best as u32).clamp(least, most).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: std::ops::Range<u32> = 10..31;
    const ALL: Possible = Possible { ring_below: 1 << 10, pool: true, single_copy: Some(false) };

    fn sheet(family: &str) -> Facts {
        Facts::all_built_in().find(|facts| facts.of == family).expect("a sheet that is built in")
    }

    #[test]
    fn processors_are_told_by_vendor_and_family() {
        for (vendor, family, of) in [
            ("AuthenticAMD", 25, "AMD family 25"),
            ("AuthenticAMD", 26, "AMD family 26"),
            ("GenuineIntel", 6, "Intel family 6"),
            ("GenuineIntel", 25, "an unknown processor"),
            ("", 0, "an unknown processor"),
        ] {
            assert_eq!(Facts::built_in(vendor, family).of, of);
        }
    }

    #[test]
    fn single_copy_is_taken_where_its_call_is_cheap() {
        let way = |of: &str, len| CopyPlan::new(&sheet(of), Place::Unknown, ALL).of(len).way;
        assert_eq!(way("Intel family 6", 2 << 10), Way::Pool(CopyKind::Plain));
        assert_eq!(way("AMD family 25", 16 << 10), Way::Pool(CopyKind::Plain));
        for len in [32 << 10, 64 << 10, 256 << 10, 1 << 20, 1 << 30] {
            assert_eq!(way("Intel family 6", len), Way::SingleCopy, "{len}");
            assert_eq!(way("AMD family 25", len), Way::SingleCopy, "{len}");
            assert!(matches!(way("AMD family 26", len), Way::Pool(_)), "{len}");
        }
    }

    #[test]
    fn a_way_that_is_not_possible_is_not_taken() {
        for facts in Facts::all_built_in() {
            for magnitude in LENGTHS {
                let of = |possible| CopyPlan::new(&facts, Place::Unknown, possible).of(1 << magnitude).way;
                assert!(matches!(of(Possible { single_copy: None, ..ALL }), Way::Pool(_)));
                assert_eq!(of(Possible { pool: false, ..ALL }), Way::SingleCopy);
                assert_eq!(of(Possible { pool: false, single_copy: None, ..ALL }), Way::Ring);
                assert_eq!(of(Possible { single_copy: Some(true), ..ALL }), Way::SingleCopy);
            }
            let plan = CopyPlan::new(&facts, Place::Unknown, ALL);
            assert!([0, 1, 1023].map(|len| plan.of(len).way).iter().all(|way| *way == Way::Ring));
            assert_ne!(plan.of(1024).way, Way::Ring);
        }
    }

    #[test]
    fn what_is_decided_without_a_place_is_not_much_slower_than_the_best_way_there() {
        let ways = [Way::Pool(CopyKind::Plain), Way::Pool(CopyKind::Streaming), Way::SingleCopy];
        for facts in Facts::all_built_in() {
            // On family 25 each way is more than twice as slow as another one in one of the two places: near, lines go by a cache that
            // both share; far, to write a line that the other one has read takes ten times as long.
            let most = if facts.of == "AMD family 25" { 2.8 } else { 1.5 };
            for magnitude in LENGTHS {
                let way = CopyPlan::new(&facts, Place::Unknown, ALL).of(1 << magnitude).way;
                let regret = regret(&facts, Place::Unknown, way, 1 << magnitude, &ways);
                assert!(
                    regret <= most,
                    "{}: {way:?} of 2^{magnitude} bytes takes {regret} times the best",
                    facts.of
                );
                assert!(
                    ways.iter().all(|other| super::regret(
                        &facts,
                        Place::Unknown,
                        *other,
                        1 << magnitude,
                        &ways
                    ) >= regret),
                    "{}: another way of 2^{magnitude} bytes is never as bad",
                    facts.of
                );
            }
        }
    }

    #[test]
    fn pieces_grow_with_the_root_of_the_length() {
        for facts in Facts::all_built_in() {
            let pieces: Vec<u32> = LENGTHS.map(|magnitude| piece(&facts, 1 << magnitude)).collect();
            assert!(pieces.is_sorted() && pieces[0] == PIECES[0], "{}: {pieces:?}", facts.of);
            assert!(pieces.iter().all(|piece| piece.is_power_of_two() && *piece <= PIECES[1]));
        }
    }
}
