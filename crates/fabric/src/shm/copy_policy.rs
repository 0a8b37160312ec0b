//! The choice of the protocol for a message between two processes of a node: a pure function of the
//! facts of the node and of the message's length and layout.
//!
//! There are four protocols. *Ring*: a short message lies in the pair ring. *Pool*: the sender
//! copies into its pool, and the receiver out of it. *Single copy*: the sender announces the
//! address of the message, and the receiver reads it there by a call of the kernel. *Mapped*: the
//! same for memory of MPI_Alloc_mem, which the receiver maps, so that it needs no call. The policy
//! learns nothing from messages. It takes the facts of a node ([`CopyFacts`]) from the processor
//! family, or from a measurement on request (`oxmpi doctor --measure`). `oxmpi explain copy --bytes
//! N` prints facts, decision and predicted times.
//!
//! The sender alone decides, and its frames say where the data lie. Each process accepts all
//! protocols, so two processes of a node may have different facts: if only one of them finds a file
//! of measured facts, this costs only time.
//!
//! The costs are those of messages in both directions at once: each process makes all copies of the
//! protocol for one message, so that two copies cannot overlap. For a pulled message the receiver
//! knows whether it has announced one to the same peer. If not, both processes copy one message at
//! the same time, piece by piece, and the slower one determines the time ([`Traffic::OneWay`]).
//!
//! If a hypervisor moves the processors, or the processes are not bound, it is unknown whether the
//! two processors share a cache. Then the policy computes each protocol's time as a multiple of the
//! best time, with and without a common cache, and takes the protocol whose larger multiple is the
//! smallest.

use oxmpi_shm::pool::PoolShape;
use oxmpi_sys::bytes::CopyKind;
use std::borrow::Cow;

/// The costs of copies on a node, by protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyFacts {
    pub of: Cow<'static, str>,
    /// Between processors that share a cache.
    pub near: PoolCosts,
    /// Between other processors.
    pub far: PoolCosts,
    /// Nanoseconds of a copy past the caches until the data are in memory.
    pub past_caches_ns: f64,
    /// Nanoseconds per KiB of a message one way past the caches, copied in and out at the same
    /// time. Unlike data in both directions, the data are not read back from memory.
    pub past_caches_one_way_ns: f64,
    /// The additional nanoseconds of a pulled message, in which both processes take part.
    pub pull_ns: f64,
    /// The receiver's copy by the kernel (process_vm_readv(2)).
    pub single_copy: KernelCopyCosts,
}

/// The costs of copies through shared memory, in nanoseconds per KiB except `line_ns`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PoolCosts {
    /// Nanoseconds from the store to a line until the other processor has seen it.
    pub line_ns: f64,
    /// The copy into lines that the other processor has read last.
    pub in_ns: f64,
    pub in_past_caches_ns: f64,
    /// The copy out after a plain copy in.
    pub out_ns: f64,
    /// The copy out after a copy in past the caches.
    pub out_past_caches_ns: f64,
}

/// The costs of the kernel's copy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KernelCopyCosts {
    pub call_ns: f64,
    /// Nanoseconds per KiB while one process reads.
    pub alone_ns: f64,
    /// Nanoseconds per KiB while two processes read, each from the other.
    pub both_ns: f64,
}

/// Facts by vendor and family of the processor, measured on virtual machines with two processors.
/// Family 25: an EPYC of model 17 (Linux 6.18; messages in both directions). Family 26: an EPYC of
/// model 2. Intel: a Sapphire Rapids, of which only the kernel's copy was measured; its other
/// numbers were computed from exchanges through the pool. One way past the caches was measured on
/// model 17 alone (512 KiB and 1 MiB: near 61 to 76, far 60 to 65, the kernel's copy 82 to 97), and
/// so was the cost of a pull (ping-pongs of 300,000 bytes to 4 MiB). The other families have the
/// slower one of the two copies, and 0.
const SHEETS: [(&str, u32, CopyFacts); 3] = [
    (
        "AuthenticAMD",
        25,
        CopyFacts {
            of: Cow::Borrowed("AMD family 25"),
            near: pool_costs(60.0, [22.0, 60.0], [25.0, 125.0]),
            far: pool_costs(100.0, [400.0, 60.0], [80.0, 125.0]),
            past_caches_ns: 300.0,
            past_caches_one_way_ns: 65.0,
            pull_ns: 15_000.0,
            single_copy: KernelCopyCosts { call_ns: 1400.0, alone_ns: 75.0, both_ns: 80.0 },
        },
    ),
    (
        "AuthenticAMD",
        26,
        CopyFacts {
            of: Cow::Borrowed("AMD family 26"),
            near: pool_costs(60.0, [22.0, 55.0], [20.0, 55.0]),
            far: pool_costs(150.0, [60.0, 55.0], [50.0, 60.0]),
            past_caches_ns: 300.0,
            past_caches_one_way_ns: 60.0,
            pull_ns: 0.0,
            single_copy: KernelCopyCosts { call_ns: 1000.0, alone_ns: 75.0, both_ns: 85.0 },
        },
    ),
    (
        "GenuineIntel",
        6,
        CopyFacts {
            of: Cow::Borrowed("Intel family 6"),
            near: pool_costs(70.0, [55.0, 85.0], [45.0, 80.0]),
            far: pool_costs(120.0, [70.0, 95.0], [60.0, 95.0]),
            past_caches_ns: 300.0,
            past_caches_one_way_ns: 95.0,
            pull_ns: 0.0,
            single_copy: KernelCopyCosts { call_ns: 400.0, alone_ns: 26.0, both_ns: 32.0 },
        },
    ),
];

const CONSERVATIVE: CopyFacts = CopyFacts {
    of: Cow::Borrowed("an unknown processor"),
    near: pool_costs(80.0, [50.0, 95.0], [50.0, 85.0]),
    far: pool_costs(200.0, [90.0, 95.0], [70.0, 95.0]),
    past_caches_ns: 300.0,
    past_caches_one_way_ns: 95.0,
    pull_ns: 0.0,
    single_copy: KernelCopyCosts { call_ns: 1500.0, alone_ns: 138.0, both_ns: 150.0 },
};

/// In each pair the plain copy comes first, then the copy past the caches.
const fn pool_costs(line_ns: f64, copy_in: [f64; 2], copy_out: [f64; 2]) -> PoolCosts {
    let ([in_ns, in_past_caches_ns], [out_ns, out_past_caches_ns]) = (copy_in, copy_out);
    PoolCosts { line_ns, in_ns, in_past_caches_ns, out_ns, out_past_caches_ns }
}

impl CopyFacts {
    /// The built-in facts for a processor, by vendor and family.
    pub fn built_in(vendor: &str, family: u32) -> CopyFacts {
        let found = SHEETS.iter().find(|(its, of, _)| *its == vendor && *of == family);
        found.map_or(CONSERVATIVE, |(_, _, facts)| facts.clone())
    }

    /// The built-in facts for this node's processor.
    pub fn here() -> CopyFacts {
        let processor = oxmpi_sys::hardware::processor();
        processor.map_or(CONSERVATIVE, |of| CopyFacts::built_in(&of.vendor, of.family))
    }

    /// All built-in facts; those for unknown processors come last.
    pub fn all_built_in() -> impl Iterator<Item = CopyFacts> {
        SHEETS.into_iter().map(|(_, _, facts)| facts).chain([CONSERVATIVE])
    }
}

/// Whether two processors share a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proximity {
    Near,
    Far,
    Unknown,
}

/// The directions of the messages between two processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    OneWay,
    TwoWay,
}

/// The path of the data of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Ring,
    /// Through the sender's pool; the sender copies in by this kind of copy.
    Pool(CopyKind),
    /// The receiver reads the sender's memory by a call of the kernel.
    SingleCopy,
    Mapped,
}

/// Whether receivers copy messages from their senders' memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SingleCopyMode {
    Off,
    Auto,
    On,
}

/// The abilities of a pair of processes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// Shorter messages go through the ring, in bytes.
    pub ring_below: usize,
    pub pool: bool,
    pub single_copy: SingleCopyMode,
}

/// The decision for messages of 2^n bytes and more, below 2^(n+1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyDecision {
    pub protocol: Protocol,
    /// The copy into the pool for messages with gaps, and for messages that the receiver may not
    /// read.
    pub kind: CopyKind,
    /// In bytes: long enough that the slot of a piece costs little.
    pub piece_bytes: u32,
}

/// All decisions for a pair of processes, by the logarithm of the length.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyPlan {
    ring_below: usize,
    by_magnitude: [CopyDecision; usize::BITS as usize],
    one_way: [CopyDecision; usize::BITS as usize],
    /// Bit n: [`Protocol::Mapped`] is worth it for messages of 2^n bytes.
    mapped: u64,
}

impl CopyPlan {
    /// Decides for all lengths.
    pub fn new(facts: &CopyFacts, proximity: Proximity, capabilities: Capabilities) -> CopyPlan {
        let decide = |traffic| {
            std::array::from_fn(|magnitude| {
                decide(facts, proximity, traffic, capabilities, 1 << magnitude)
            })
        };
        CopyPlan {
            ring_below: capabilities.ring_below,
            by_magnitude: decide(Traffic::TwoWay),
            one_way: decide(Traffic::OneWay),
            mapped: (0..usize::BITS)
                .filter(|magnitude| {
                    is_worth_mapping(facts, proximity, capabilities, 1 << magnitude)
                })
                .fold(0, |lengths, magnitude| lengths | 1 << magnitude),
        }
    }

    /// Whether a message of `len` bytes is announced if its receiver can map its memory.
    #[inline]
    pub fn is_mapped(&self, len: usize) -> bool {
        len >= self.ring_below && self.mapped >> len.max(1).ilog2() & 1 != 0
    }

    /// The decision for announced messages of `len` bytes that their receivers may pull.
    pub fn of_pulled(&self, len: usize, traffic: Traffic) -> CopyDecision {
        match traffic {
            Traffic::OneWay => self.one_way[len.max(1).ilog2() as usize],
            Traffic::TwoWay => self.of(len),
        }
    }

    /// The decision for `len` bytes.
    #[inline]
    pub fn of(&self, len: usize) -> CopyDecision {
        let decision = self.by_magnitude[len.max(1).ilog2() as usize];
        if len < self.ring_below {
            CopyDecision { protocol: Protocol::Ring, ..decision }
        } else {
            decision
        }
    }
}

fn decide(
    facts: &CopyFacts,
    proximity: Proximity,
    traffic: Traffic,
    capabilities: Capabilities,
    len: usize,
) -> CopyDecision {
    let best = |protocols: &[Protocol]| best(facts, (proximity, traffic), len, protocols);
    let by_pool = [Protocol::Pool(CopyKind::Plain), Protocol::Pool(CopyKind::Streaming)];
    let kind = match best(&by_pool) {
        Some(Protocol::Pool(kind)) => kind,
        _ => CopyKind::Plain,
    };
    let protocol = match (capabilities.pool, capabilities.single_copy) {
        (_, SingleCopyMode::On) | (false, SingleCopyMode::Auto) => Protocol::SingleCopy,
        (true, SingleCopyMode::Auto) => {
            best(&[by_pool[0], by_pool[1], Protocol::SingleCopy]).unwrap_or(Protocol::Pool(kind))
        }
        (true, SingleCopyMode::Off) => Protocol::Pool(kind),
        (false, SingleCopyMode::Off) => Protocol::Ring,
    };
    CopyDecision { protocol, kind, piece_bytes: piece(facts, len) }
}

/// Whether [`Protocol::Mapped`] is worth it for messages of `len` bytes. The competitor is only the
/// pool, as the receiver also reads a message for [`Protocol::SingleCopy`] in its mapping. `false`
/// if receivers may not read their senders' memory: a standard send may become a private copy,
/// which no receiver maps.
fn is_worth_mapping(
    facts: &CopyFacts,
    proximity: Proximity,
    capabilities: Capabilities,
    len: usize,
) -> bool {
    let protocols =
        [Protocol::Pool(CopyKind::Plain), Protocol::Pool(CopyKind::Streaming), Protocol::Mapped];
    capabilities.single_copy != SingleCopyMode::Off
        && best(facts, (proximity, Traffic::TwoWay), len, &protocols) == Some(Protocol::Mapped)
}

fn best(
    facts: &CopyFacts,
    case: (Proximity, Traffic),
    len: usize,
    protocols: &[Protocol],
) -> Option<Protocol> {
    let worst = |protocol: &Protocol| regret(facts, case, *protocol, len, protocols);
    protocols.iter().copied().min_by(|a, b| worst(a).total_cmp(&worst(b)))
}

/// The time as a multiple of the best time of `protocols`; for an unknown proximity, the larger of
/// both.
fn regret(
    facts: &CopyFacts,
    (proximity, traffic): (Proximity, Traffic),
    protocol: Protocol,
    len: usize,
    protocols: &[Protocol],
) -> f64 {
    let at = |proximity: Proximity| {
        let best = protocols
            .iter()
            .map(|protocol| predict(facts, (proximity, traffic), *protocol, len))
            .fold(f64::INFINITY, f64::min);
        predict(facts, (proximity, traffic), protocol, len) / best
    };
    match proximity {
        Proximity::Unknown => at(Proximity::Near).max(at(Proximity::Far)),
        known => at(known),
    }
}

/// The predicted nanoseconds for a message of `len` bytes one way, or of one process for messages
/// in both directions. For an unknown proximity, the larger time of both.
pub fn predict(
    facts: &CopyFacts,
    (proximity, traffic): (Proximity, Traffic),
    protocol: Protocol,
    len: usize,
) -> f64 {
    let PoolCosts { line_ns, in_ns, in_past_caches_ns, out_ns, out_past_caches_ns } =
        match proximity {
            Proximity::Near => facts.near,
            Proximity::Far => facts.far,
            Proximity::Unknown => {
                let at = |proximity| predict(facts, (proximity, traffic), protocol, len);
                return at(Proximity::Near).max(at(Proximity::Far));
            }
        };
    let single = facts.single_copy;
    let (plain, past_caches, kernel) = match traffic {
        Traffic::OneWay => (in_ns.max(out_ns), facts.past_caches_one_way_ns, single.alone_ns),
        Traffic::TwoWay => (in_ns + out_ns, in_past_caches_ns + out_past_caches_ns, single.both_ns),
    };
    let kib = len as f64 / 1024.0;
    let by_pool = if traffic == Traffic::TwoWay { line_ns } else { line_ns + facts.pull_ns };
    match protocol {
        Protocol::Ring | Protocol::Pool(CopyKind::Plain) => by_pool + kib * plain,
        Protocol::Pool(CopyKind::Streaming) => by_pool + facts.past_caches_ns + kib * past_caches,
        // The first line is the announcement, the second the frame that the message was read.
        Protocol::SingleCopy => 2.0 * line_ns + single.call_ns + kib * kernel,
        Protocol::Mapped => 2.0 * line_ns + ANNOUNCED_NS + kib * out_ns,
    }
}

/// The additional nanoseconds of an announced message: a request, two frames and the frame that the
/// message was read. For a single copy, `call_ns` includes most of them.
const ANNOUNCED_NS: f64 = 1000.0;

/// The use of a pool by pulled messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Streaming {
    /// The bytes that are sent before other messages get their turn.
    pub piece_bytes: usize,
    /// The most bytes for one peer in the pool, so that a slow receiver leaves room for others.
    pub share_bytes: usize,
}

impl Streaming {
    /// For a pool of this shape. A share is four of the longest pieces, so that the receiver copies
    /// one while the sender copies others; of a large pool an eighth, of a small pool half. Without
    /// a pool, pieces go through the ring.
    pub fn new(pool: &PoolShape) -> Streaming {
        const LONGEST: usize = 128 << 10;
        let bytes = pool.bytes as usize;
        let share_bytes = (bytes / 8).max(4 * LONGEST).min(bytes / 2);
        let piece_bytes = match (share_bytes / 4).max(pool.block_bytes as usize) {
            _ if bytes == 0 => LONGEST,
            quarter => quarter.min(LONGEST),
        };
        Streaming { piece_bytes, share_bytes }
    }
}

const PIECES: [u32; 2] = [4 << 10, 128 << 10];

/// The length of pieces with which a single message arrives first. n pieces cost n lines, and the
/// receiver waits only for the first piece. So the best length is the square root of the message's
/// length times the bytes that are copied in the time of a line.
fn piece(facts: &CopyFacts, len: usize) -> u32 {
    let PoolCosts { line_ns, out_ns, .. } = facts.near;
    let best = (len as f64 * line_ns / out_ns * 1024.0).sqrt();
    let [least, most] = PIECES;
    (best as u32).clamp(least, most).next_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: std::ops::Range<u32> = 10..31;
    const BOTH: (Proximity, Traffic) = (Proximity::Unknown, Traffic::TwoWay);
    const ALL: Capabilities =
        Capabilities { ring_below: 1 << 10, pool: true, single_copy: SingleCopyMode::Auto };

    fn sheet(family: &str) -> CopyFacts {
        CopyFacts::all_built_in()
            .find(|facts| facts.of == family)
            .expect("a sheet that is built in")
    }

    #[test]
    fn a_processor_has_the_sheet_of_its_vendor_and_family() {
        for (vendor, family, of) in [
            ("AuthenticAMD", 25, "AMD family 25"),
            ("AuthenticAMD", 26, "AMD family 26"),
            ("GenuineIntel", 6, "Intel family 6"),
            ("GenuineIntel", 25, "an unknown processor"),
            ("", 0, "an unknown processor"),
        ] {
            assert_eq!(CopyFacts::built_in(vendor, family).of, of);
        }
    }

    #[test]
    fn single_copy_is_taken_where_its_call_is_cheap() {
        let protocol =
            |of: &str, len| CopyPlan::new(&sheet(of), Proximity::Unknown, ALL).of(len).protocol;
        assert_eq!(protocol("Intel family 6", 2 << 10), Protocol::Pool(CopyKind::Plain));
        assert_eq!(protocol("AMD family 25", 16 << 10), Protocol::Pool(CopyKind::Plain));
        for len in [32 << 10, 64 << 10, 256 << 10, 1 << 20, 1 << 30] {
            assert_eq!(protocol("Intel family 6", len), Protocol::SingleCopy, "{len}");
            assert_eq!(protocol("AMD family 25", len), Protocol::SingleCopy, "{len}");
            assert!(matches!(protocol("AMD family 26", len), Protocol::Pool(_)), "{len}");
        }
    }

    #[test]
    fn mapped_messages_are_copied_once_unless_they_are_short() {
        for facts in CopyFacts::all_built_in() {
            let plan = CopyPlan::new(&facts, Proximity::Unknown, ALL);
            let is_mapped = |len| plan.is_mapped(len);
            assert!(
                [0, 8, 1 << 10, 4 << 10].into_iter().all(|len| !is_mapped(len)),
                "{}",
                facts.of
            );
            assert!((15..31).all(|magnitude| is_mapped(1 << magnitude)), "{}", facts.of);
            let off = Capabilities { single_copy: SingleCopyMode::Off, ..ALL };
            assert!(
                !CopyPlan::new(&facts, Proximity::Unknown, off).is_mapped(1 << 20),
                "{}",
                facts.of
            );
        }
        let is_mapped =
            |place, len| CopyPlan::new(&sheet("AMD family 25"), place, ALL).is_mapped(len);
        // On far processors, a line that the receiver has read is slow to write again.
        assert!(is_mapped(Proximity::Far, 8 << 10) && !is_mapped(Proximity::Near, 16 << 10));
        assert!(is_mapped(Proximity::Unknown, 16 << 10));
    }

    #[test]
    fn a_message_that_goes_one_way_is_copied_by_both_sides_where_the_kernel_is_slow() {
        let protocol = |of: &str, len| {
            let plan = CopyPlan::new(&sheet(of), Proximity::Unknown, ALL);
            plan.of_pulled(len, Traffic::OneWay).protocol
        };
        for len in [2 << 20, 4 << 20, 1 << 30] {
            assert_eq!(
                protocol("AMD family 25", len),
                Protocol::Pool(CopyKind::Streaming),
                "{len}"
            );
            assert_eq!(protocol("AMD family 26", len), Protocol::Pool(CopyKind::Plain), "{len}");
            assert_eq!(protocol("Intel family 6", len), Protocol::SingleCopy, "{len}");
        }
        assert_eq!(protocol("AMD family 25", 1 << 20), Protocol::SingleCopy);
        let plan = CopyPlan::new(&sheet("AMD family 25"), Proximity::Unknown, ALL);
        assert_eq!(plan.of_pulled(4 << 20, Traffic::TwoWay), plan.of(4 << 20));
    }

    #[test]
    fn a_share_of_a_pool_holds_several_pieces_and_leaves_room_for_others() {
        let of = |bytes| {
            let Streaming { piece_bytes, share_bytes } =
                Streaming::new(&PoolShape { bytes, block_bytes: 16 << 10 });
            [piece_bytes, share_bytes].map(|bytes| bytes >> 10)
        };
        assert_eq!(of(4 << 20), [128, 512]);
        assert_eq!(of(64 << 20), [128, 8192]);
        assert_eq!(of(1 << 20), [128, 512]);
        assert_eq!(of(256 << 10), [32, 128]);
        assert_eq!(of(64 << 10), [16, 32]);
        assert_eq!(of(0)[0], 128);
    }

    #[test]
    fn a_protocol_that_is_not_possible_is_not_taken() {
        for facts in CopyFacts::all_built_in() {
            for magnitude in LENGTHS {
                let of = |capabilities| {
                    CopyPlan::new(&facts, Proximity::Unknown, capabilities)
                        .of(1 << magnitude)
                        .protocol
                };
                assert!(matches!(
                    of(Capabilities { single_copy: SingleCopyMode::Off, ..ALL }),
                    Protocol::Pool(_)
                ));
                assert_eq!(of(Capabilities { pool: false, ..ALL }), Protocol::SingleCopy);
                assert_eq!(
                    of(Capabilities { pool: false, single_copy: SingleCopyMode::Off, ..ALL }),
                    Protocol::Ring
                );
                assert_eq!(
                    of(Capabilities { single_copy: SingleCopyMode::On, ..ALL }),
                    Protocol::SingleCopy
                );
            }
            let plan = CopyPlan::new(&facts, Proximity::Unknown, ALL);
            assert!(
                [0, 1, 1023]
                    .map(|len| plan.of(len).protocol)
                    .iter()
                    .all(|protocol| *protocol == Protocol::Ring)
            );
            assert_ne!(plan.of(1024).protocol, Protocol::Ring);
        }
    }

    #[test]
    fn decisions_for_an_unknown_proximity_are_not_much_slower_than_the_best() {
        let protocols = [
            Protocol::Pool(CopyKind::Plain),
            Protocol::Pool(CopyKind::Streaming),
            Protocol::SingleCopy,
        ];
        for facts in CopyFacts::all_built_in() {
            // On family 25 writing a far line that the peer has read takes ten times as long.
            let most = if facts.of == "AMD family 25" { 2.8 } else { 1.5 };
            for magnitude in LENGTHS {
                let protocol =
                    CopyPlan::new(&facts, Proximity::Unknown, ALL).of(1 << magnitude).protocol;
                let regret = regret(&facts, BOTH, protocol, 1 << magnitude, &protocols);
                assert!(
                    regret <= most,
                    "{}: {protocol:?} of 2^{magnitude} bytes takes {regret} times the best",
                    facts.of
                );
                assert!(
                    protocols.iter().all(|other| super::regret(
                        &facts,
                        BOTH,
                        *other,
                        1 << magnitude,
                        &protocols
                    ) >= regret),
                    "{}: another protocol of 2^{magnitude} bytes is never as bad",
                    facts.of
                );
            }
        }
    }

    #[test]
    fn pieces_grow_with_the_root_of_the_length() {
        for facts in CopyFacts::all_built_in() {
            let pieces: Vec<u32> = LENGTHS.map(|magnitude| piece(&facts, 1 << magnitude)).collect();
            assert!(pieces.is_sorted() && pieces[0] == PIECES[0], "{}: {pieces:?}", facts.of);
            assert!(pieces.iter().all(|piece| piece.is_power_of_two() && *piece <= PIECES[1]));
        }
    }
}
