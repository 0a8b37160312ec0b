//! The 64 bits of a tag of libfabric, in the modes of Open MPI's guide to its MTL `ofi`.
//!
//! | mode | context | source | protocol | MPI tag |
//! |---|---|---|---|---|
//! | [`TagMode::One`] (`ofi_tag_1`) | 12 bits | 18 bits | 2 bits | 32 bits |
//! | [`TagMode::Two`] (`ofi_tag_2`) | 24 bits | 18 bits | 2 bits | 20 bits |
//! | [`TagMode::Full`] (`ofi_tag_full`) | 28 bits | beside the message | 2 bits | 32 bits |
//!
//! The context is in the highest bits. A provider may reserve the highest bits, and the context
//! then has fewer; the full mode has two free bits, which are used up first. The sign of the MPI
//! tag is its highest bit: the library's own tags are negative, and MPI_ANY_TAG does not match
//! them. The library's tags wrap within the field.

use oxmpi_wire::Tags;
use std::fmt;

/// The distribution of the bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TagMode {
    /// `ofi_tag_1`: few communicators, all tags.
    One,
    /// `ofi_tag_2`: more communicators, fewer tags.
    Two,
    /// `ofi_tag_full`: the source travels next to the tag (FI_REMOTE_CQ_DATA), and receives name
    /// the source by its address (FI_DIRECTED_RECV).
    Full,
}

impl fmt::Display for TagMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TagMode::One => "ofi_tag_1",
            TagMode::Two => "ofi_tag_2",
            TagMode::Full => "ofi_tag_full",
        })
    }
}

/// The protocol of a message, in its two bits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TagProtocol {
    Plain,
    Synchronous,
    /// The first part of a message that is too long for the provider.
    FirstPart,
}

const PROTOCOL_BITS: u32 = 2;
/// The fewest useful bits for contexts.
const FEWEST_CONTEXT_BITS: u32 = 8;

/// The bits of a mode with a provider.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TagLayout {
    mode: TagMode,
    tag_bits: u32,
    source_bits: u32,
    context_bits: u32,
    context_at: u32,
}

/// The fields of a tag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TagFields {
    /// The receiver's index of the context.
    pub context: u32,
    /// The sender's rank, if the mode has it in the tag.
    pub source: u32,
    pub protocol: TagProtocol,
    pub tag: i32,
}

/// The reason why a provider does not support a mode.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ModeError {
    #[error(
        "{mode} leaves {context_bits} bits for communicators of the {provider_bits} that the provider has for tags: {FEWEST_CONTEXT_BITS} \
         are needed"
    )]
    Bits { mode: TagMode, context_bits: u32, provider_bits: u32 },
    #[error("ofi_tag_full needs {0}, which the provider has not")]
    Lacks(&'static str),
}

const fn ones(bits: u32) -> u64 {
    if bits >= u64::BITS { u64::MAX } else { (1 << bits) - 1 }
}

impl TagLayout {
    /// The layout of a mode with this number of bits. Fails if too few remain for the context.
    pub fn new(mode: TagMode, provider_bits: u32) -> Result<TagLayout, ModeError> {
        let (tag_bits, source_bits, context_bits) = match mode {
            TagMode::One => (32, 18, 12),
            TagMode::Two => (20, 18, 24),
            TagMode::Full => (32, 0, 28),
        };
        let rest = provider_bits.saturating_sub(tag_bits + PROTOCOL_BITS + source_bits);
        let context_bits = context_bits.min(rest);
        if context_bits < FEWEST_CONTEXT_BITS {
            return Err(ModeError::Bits { mode, context_bits, provider_bits });
        }
        let context_at = tag_bits + PROTOCOL_BITS + source_bits;
        Ok(TagLayout { mode, tag_bits, source_bits, context_bits, context_at })
    }

    /// The layout for a provider: of the requested mode, or else of the first possible mode, in the
    /// order full, one, two. `data_bytes`: the bytes that travel next to a tag. `is_directed`: the
    /// provider receives from one source by its address. Fails if no such mode is possible.
    pub fn choose(
        requested: Option<TagMode>,
        provider_bits: u32,
        data_bytes: usize,
        is_directed: bool,
    ) -> Result<TagLayout, ModeError> {
        let full = || match (data_bytes >= 4, is_directed) {
            (false, _) => Err(ModeError::Lacks("4 bytes of FI_REMOTE_CQ_DATA")),
            (_, false) => Err(ModeError::Lacks("FI_DIRECTED_RECV")),
            _ => TagLayout::new(TagMode::Full, provider_bits),
        };
        match requested {
            Some(TagMode::Full) => full(),
            Some(mode) => TagLayout::new(mode, provider_bits),
            None => full()
                .or_else(|_| TagLayout::new(TagMode::One, provider_bits))
                .or_else(|why| TagLayout::new(TagMode::Two, provider_bits).map_err(|_| why)),
        }
    }

    /// The mode of the layout.
    pub fn mode(&self) -> TagMode {
        self.mode
    }

    /// The number of contexts that tags can name.
    pub fn contexts(&self) -> u32 {
        ones(self.context_bits) as u32
    }

    /// The highest index of a context; the next one is [`TagLayout::own_context`].
    pub fn last_context(&self) -> u32 {
        self.contexts() - 1
    }

    /// The context of messages that no receive of a program matches.
    pub fn own_context(&self) -> u32 {
        self.contexts()
    }

    /// The protocol bits of the first part of a message in parts.
    pub fn first_part_bits(&self) -> u64 {
        (TagProtocol::FirstPart as u64) << self.tag_bits
    }

    /// A tag of libfabric without its protocol.
    pub fn label(&self, bits: u64) -> u64 {
        bits & !(ones(PROTOCOL_BITS) << self.tag_bits)
    }

    /// The highest rank in a tag; [`u32::MAX`] if tags contain no rank.
    pub fn last_source(&self) -> u32 {
        if self.mode == TagMode::Full { u32::MAX } else { ones(self.source_bits) as u32 }
    }

    /// The highest tag of a program (MPI_TAG_UB).
    pub fn last_tag(&self) -> i32 {
        ones(self.tag_bits - 1) as i32
    }

    fn field(&self, tag: i32) -> u64 {
        let sign = u64::from(tag < 0) << (self.tag_bits - 1);
        sign | u64::from(tag.cast_unsigned()) & ones(self.tag_bits - 1)
    }

    /// The bits of a message.
    pub fn encode(&self, TagFields { context, source, protocol, tag }: TagFields) -> u64 {
        let protocol = protocol as u64;
        let mut bits = self.field(tag) | protocol << self.tag_bits;
        let mut at = self.tag_bits + PROTOCOL_BITS;
        bits |= (u64::from(source) & ones(self.source_bits)) << at;
        at += self.source_bits;
        bits | (u64::from(context) & ones(self.context_bits)) << at
    }

    /// The bits that all messages of a process have in common.
    pub fn bits_of(&self, source: u32) -> u64 {
        (u64::from(source) & ones(self.source_bits)) << (self.tag_bits + PROTOCOL_BITS)
    }

    /// As [`TagLayout::encode`], for a plain message whose context and tag fit.
    #[inline(always)]
    pub fn encode_plain(&self, bits_of_source: u64, context: u32, tag: i32) -> u64 {
        bits_of_source | u64::from(context) << self.context_at | u64::from(tag.cast_unsigned())
    }

    /// The fields of a tag.
    pub fn decode(&self, bits: u64) -> TagFields {
        let field = bits & ones(self.tag_bits);
        let is_negative = field >> (self.tag_bits - 1) == 1;
        let low = field & ones(self.tag_bits - 1);
        let tag = if is_negative { (low | !ones(self.tag_bits - 1)) as i32 } else { low as i32 };
        let mut at = self.tag_bits;
        let protocol = match bits >> at & ones(PROTOCOL_BITS) {
            0 => TagProtocol::Plain,
            1 => TagProtocol::Synchronous,
            _ => TagProtocol::FirstPart,
        };
        at += PROTOCOL_BITS;
        let source = (bits >> at & ones(self.source_bits)) as u32;
        at += self.source_bits;
        TagFields { context: (bits >> at & ones(self.context_bits)) as u32, source, protocol, tag }
    }

    /// The tag of a receive from this process (`None`: from any process), and the bits to ignore.
    pub fn wanted(&self, context: u32, from: Option<u32>, tags: Tags) -> (u64, u64) {
        let source = from.unwrap_or(0);
        let bits =
            self.encode(TagFields { context, source, protocol: TagProtocol::Plain, tag: tags.tag });
        let mut ignored = ones(PROTOCOL_BITS) << self.tag_bits;
        if tags.mask != -1 {
            // Any tag of the program, and no tag of the library.
            ignored |= ones(self.tag_bits - 1);
        }
        if from.is_none() {
            ignored |= ones(self.source_bits) << (self.tag_bits + PROTOCOL_BITS);
        }
        (bits, ignored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODES: [TagMode; 3] = [TagMode::One, TagMode::Two, TagMode::Full];

    fn matches(layout: &TagLayout, (bits, ignored): (u64, u64), parts: TagFields) -> bool {
        (bits ^ layout.encode(parts)) & !ignored == 0
    }

    #[test]
    fn the_limits_are_those_of_the_guide() {
        let limits = MODES.map(|mode| {
            let layout = TagLayout::new(mode, 64).unwrap();
            assert_eq!(layout.last_context() + 1, layout.contexts());
            (layout.contexts(), layout.last_source(), layout.last_tag())
        });
        assert_eq!(
            limits,
            [
                (4095, 262_143, i32::MAX),
                (16_777_215, 262_143, 524_287),
                (268_435_455, u32::MAX, i32::MAX)
            ]
        );
    }

    #[test]
    fn a_provider_takes_its_bits_from_the_communicators() {
        // The full mode has two free bits.
        let bits = |mode, bits| TagLayout::new(mode, bits).map(|layout| layout.contexts());
        assert_eq!(bits(TagMode::Full, 62), Ok(268_435_455));
        assert_eq!(bits(TagMode::Full, 61), Ok(134_217_727));
        assert_eq!(bits(TagMode::One, 60), Ok(255));
        assert_eq!(
            bits(TagMode::One, 59),
            Err(ModeError::Bits { mode: TagMode::One, context_bits: 7, provider_bits: 59 })
        );
        for mode in MODES {
            let layout = TagLayout::new(mode, 60).unwrap();
            let all = TagFields {
                context: u32::MAX,
                source: u32::MAX,
                protocol: TagProtocol::FirstPart,
                tag: -1,
            };
            assert_eq!(layout.encode(all) >> 60, 0, "{mode}");
        }
    }

    #[test]
    fn encoded_fields_are_decoded() {
        for mode in MODES {
            let layout = TagLayout::new(mode, 64).unwrap();
            for protocol in [TagProtocol::Plain, TagProtocol::Synchronous, TagProtocol::FirstPart] {
                for (context, source) in [(0, 0), (layout.last_context(), 262_143), (77, 3)] {
                    for tag in [0, 1, layout.last_tag(), -1, -layout.last_tag() - 1, -77] {
                        let source = if mode == TagMode::Full { 0 } else { source };
                        if protocol == TagProtocol::Plain && tag >= 0 {
                            let bits = layout.encode_plain(layout.bits_of(source), context, tag);
                            assert_eq!(
                                bits,
                                layout.encode(TagFields { context, source, protocol, tag })
                            );
                        }
                        let parts = TagFields { context, source, protocol, tag };
                        assert_eq!(layout.decode(layout.encode(parts)), parts, "{mode}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_receive_matches_only_its_messages() {
        for mode in MODES {
            let layout = TagLayout::new(mode, 64).unwrap();
            let message = |context, source, tag| TagFields {
                context,
                source,
                protocol: TagProtocol::Plain,
                tag,
            };
            let has_source = mode != TagMode::Full;
            let one = layout.wanted(5, Some(9), Tags::one(3));
            assert!(matches(&layout, one, message(5, 9, 3)));
            for protocol in [TagProtocol::Synchronous, TagProtocol::FirstPart] {
                assert!(matches(&layout, one, TagFields { protocol, ..message(5, 9, 3) }));
            }
            assert!(!matches(&layout, one, message(layout.own_context(), 9, 3)));
            assert!(
                !matches(&layout, one, message(5, 9, 4))
                    && !matches(&layout, one, message(4, 9, 3))
            );
            assert_eq!(
                matches(&layout, one, message(5, 8, 3)),
                !has_source,
                "else the address says it"
            );
            let any = layout.wanted(5, None, Tags::ANY);
            assert!(
                matches(&layout, any, message(5, 0, 0))
                    && matches(&layout, any, message(5, 7, layout.last_tag()))
            );
            assert!(!matches(&layout, any, message(5, 7, -3)), "a tag of the library's");
            assert!(!matches(&layout, any, message(6, 7, 3)));
            let own = layout.wanted(5, None, Tags::one(-3));
            assert!(
                matches(&layout, own, message(5, 7, -3))
                    && !matches(&layout, own, message(5, 7, 3))
            );
        }
    }

    #[test]
    fn only_a_requested_mode_is_refused() {
        let mode = |requested, bits, data, directed| {
            TagLayout::choose(requested, bits, data, directed).map(|layout| layout.mode())
        };
        assert_eq!(mode(None, 64, 8, true), Ok(TagMode::Full));
        assert_eq!(mode(None, 64, 0, true), Ok(TagMode::One));
        assert_eq!(mode(None, 64, 8, false), Ok(TagMode::One));
        assert_eq!(mode(Some(TagMode::Two), 64, 8, true), Ok(TagMode::Two));
        assert_eq!(
            mode(Some(TagMode::Full), 64, 2, true),
            Err(ModeError::Lacks("4 bytes of FI_REMOTE_CQ_DATA"))
        );
        assert_eq!(
            mode(Some(TagMode::Full), 64, 4, false),
            Err(ModeError::Lacks("FI_DIRECTED_RECV"))
        );
    }
}
