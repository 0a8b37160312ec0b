use std::fmt;

/// In bytes.
pub const HEADER_LEN: usize = 16;

/// In bytes, without the body: a frame fits the payload of one 64-byte ring slot.
pub const MAX_FRAME_LEN: usize = 56;

/// The name of a communicator context in the whole job: 32 bits creator, 30 bits of its counter, 2
/// bits kind (0 point-to-point, 1 collective, 2 partitioned, 3 handed over).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ContextId(pub u64);

impl ContextId {
    /// The point-to-point context number `counter`, of 30 bits, of process `creator`.
    pub const fn new(creator: u32, counter: u32) -> Self {
        ContextId(((creator as u64) << 32) | ((counter as u64) << 2))
    }

    /// The point-to-point context that the same process creates `later` contexts after this one.
    pub const fn later(self, later: u32) -> Self {
        ContextId(self.0 + ((later as u64) << 2))
    }

    /// The collective context that belongs to this point-to-point context.
    pub const fn collective(self) -> Self {
        ContextId(self.0 | 1)
    }

    /// Whether this is the collective context of a pair.
    pub const fn is_collective(self) -> bool {
        self.0 & 1 == 1
    }

    /// The context of partitioned messages that belongs to this point-to-point context.
    pub const fn partitioned(self) -> Self {
        ContextId(self.0 | 2)
    }

    /// The context for the messages of a library that collectives are handed to (UCC, HCOLL), for
    /// this point-to-point context.
    pub const fn handed(self) -> Self {
        ContextId(self.0 | 3)
    }
}

impl fmt::Debug for ContextId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContextId({}.{}.{})", self.0 >> 32, (self.0 & 0xffff_ffff) >> 2, self.0 & 3)
    }
}

/// The form in which a message names its context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    /// The index at the receiver.
    Local(u32),
    /// The global name, until the sender knows the receiver's index.
    Global(ContextId),
}

/// The matching criteria of a message, besides its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    pub context: Context,
    pub tag: i32,
}

/// The tags that a receive accepts: one, or any. The comparison has no branch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tags {
    /// 0 for any tag.
    pub tag: i32,
    /// The bits of `tag` that are compared: all, or the sign only.
    pub mask: i32,
}

impl Tags {
    /// Any tag of the program. The library's own messages have negative tags, which no wildcard
    /// accepts.
    pub const ANY: Tags = Tags { tag: 0, mask: i32::MIN };

    /// This tag only.
    #[inline(always)]
    pub const fn one(tag: i32) -> Tags {
        Tags { tag, mask: !0 }
    }

    /// Whether a message with this tag matches.
    #[inline(always)]
    pub const fn fit(self, tag: i32) -> bool {
        (self.tag ^ tag) & self.mask == 0
    }
}

/// A message that stays with its sender until it is matched.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Announced {
    /// The sender's request, named in the answer.
    pub request: u64,
    /// In bytes.
    pub length: u64,
    /// The address of the data in the sender's memory if they are contiguous and may be read there,
    /// else 0.
    pub address: u64,
    /// The announcement that the receiver claims before it reads, since the sender may take the
    /// message back; 0: none.
    pub announcement: u64,
}

/// A frame without its body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Frame {
    /// A message; its data are the body.
    Eager { envelope: Envelope },
    /// As `Eager`; the sender waits for the match (synchronous mode).
    EagerSync {
        envelope: Envelope,
        /// The sender's request, named in `SyncAck`.
        request: u64,
    },
    /// Announces a long message, whose data stay with the sender until it is matched.
    Rendezvous { envelope: Envelope, announced: Announced },
    /// The receiver of this frame may complete its request: the message was matched.
    SyncAck { request: u64 },
    /// Requests the data of an announced message.
    Pull {
        /// The request named in `Rendezvous`.
        request: u64,
        /// The receive that waits for the data, named in `Data`.
        receiver: u64,
        /// In bytes; less than announced if the receive buffer is shorter.
        length: u64,
        /// Whether the receiver has claimed the message; if not, the sender claims an announcement
        /// before it sends.
        claimed: bool,
    },
    /// The data of the announced message have been read; the sender may reuse its buffer.
    Fin { request: u64 },
    /// Cancels a message of the sender of this frame. The receiver drops an unmatched message and
    /// answers with [`Frame::Withdrawn`]. For a matched message the answer to the match is enough.
    Withdraw {
        request: u64,
        /// The number of earlier matching messages to this receiver, modulo 2^32.
        number: u64,
    },
    /// A message of the receiver of this frame was dropped unmatched: because of `Withdraw`, or
    /// because its communicator is gone.
    Withdrawn { request: u64 },
    /// The sender of this frame finalizes while its receives in this context may still match
    /// messages of the receiver. The receiver answers with [`Frame::Last`] after its last message.
    AskLast { id: ContextId },
    /// The answer to `AskLast`: its sender sends no more messages in this context.
    Last {
        id: ContextId,
        /// The number of matching messages to this receiver so far, in all contexts.
        number: u64,
    },
    /// A fragment of an announced message.
    Data {
        /// The receive named in `Pull`.
        receiver: u64,
        /// The position of the fragment in the message, in bytes.
        offset: u64,
    },
    /// The index by which messages to the sender of this frame shall name the context.
    Learn { id: ContextId, index: u32 },
    /// Requests the index of a context ([`Frame::Learn`]), in networks that match messages and know
    /// no global names.
    AskIndex { id: ContextId },
    /// The body is the sender's address in a network that both processes use.
    Meet {
        /// Whether the receiver shall answer with its own address.
        wants_answer: bool,
    },
    /// Requests [`Frame::Arrived`] when all earlier messages of the sender of this frame have
    /// arrived.
    AskArrived { number: u64 },
    /// At least `number` messages of the receiver of this frame have arrived.
    Arrived {
        /// Since `Meet`.
        number: u64,
    },
    /// The oldest synchronous message with this label was matched.
    Matched {
        /// The network's name of the message: its context, its tag and perhaps its sender.
        label: u64,
    },
    /// Announces a message that is too long for the network. The network carries its first part;
    /// the other parts follow on request ([`Frame::AskParts`]). Messages with one label are
    /// announced in their order.
    InParts {
        label: u64,
        /// The number by which its parts are named.
        number: u64,
        /// Of the whole message, in bytes.
        length: u64,
        /// The length of each part but the last, in bytes.
        part: u64,
    },
    /// Requests the next bytes of a message in parts, after their receives were posted.
    AskParts {
        /// The number named in `InParts`.
        number: u64,
        /// The number of bytes after the first part; 0: none.
        length: u64,
    },
    /// A fragment of an announced message ([`Frame::Data`]) is in memory of the sender that the
    /// receiver's adapter may read; the body has its address. [`Frame::DataRead`] answers.
    DataAt {
        receiver: u64,
        offset: u64,
        length: u64,
        /// The sender's number of the fragment.
        number: u64,
    },
    /// The memory of the fragment with this number may be reused.
    DataRead {
        /// The number named in `DataAt`.
        number: u64,
        /// Whether the fragment was read; if not, it is to be sent by [`Frame::Data`].
        whole: bool,
    },
    /// The receiver of this frame may use a ring in the sender's segment instead of the sender's
    /// inbox.
    RingGrant { ring: u32 },
    /// The first frame in a granted ring.
    RingOpen {
        /// The number of inbox cells that the sender has used; they precede the ring's frames.
        cells: u64,
    },
    /// The body of the next frame is in the sender's pool, in one or two pieces: position and bytes
    /// of each. A second piece of 0 bytes is absent.
    Pooled { pieces: [(u32, u32); 2] },
}

/// A decoded frame with its header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Modulo 256; 0 for frames that are not matched.
    pub sequence: u8,
    pub source: u32,
    pub frame: Frame,
    /// The offset of the body.
    pub body_at: usize,
}

/// Why bytes are no frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum WireError {
    #[error("a frame of kind {kind:#04x} needs {needed} bytes, {got} came")]
    Short {
        /// 0xff if the header is incomplete.
        kind: u8,
        needed: usize,
        got: usize,
    },
    #[error("{0:#04x} is no kind of frame")]
    Kind(u8),
    #[error(
        "a frame of kind {kind:#04x} has an extension of {needed} bytes, the header says {got}"
    )]
    Extension { kind: u8, needed: usize, got: usize },
}

// Kind bytes: high four bits the protocol, low four the message. Bit 3 of a matching kind: global
// context id.
const EAGER: u8 = 0x00;
const EAGER_SYNC: u8 = 0x01;
const RENDEZVOUS: u8 = 0x02;
const GLOBAL: u8 = 0x08;
const SYNC_ACK: u8 = 0x10;
const PULL: u8 = 0x11;
const FIN: u8 = 0x12;
const DATA: u8 = 0x13;
const WITHDRAW: u8 = 0x14;
const WITHDRAWN: u8 = 0x15;
const ASK_LAST: u8 = 0x16;
const LAST: u8 = 0x17;
const LEARN: u8 = 0x20;
const ASK_INDEX: u8 = 0x21;
const MEET: u8 = 0x22;
const ASK_ARRIVED: u8 = 0x23;
const ARRIVED: u8 = 0x24;
const MATCHED: u8 = 0x25;
const IN_PARTS: u8 = 0x26;
const ASK_PARTS: u8 = 0x27;
const DATA_AT: u8 = 0x28;
const DATA_READ: u8 = 0x29;
const RING_GRANT: u8 = 0x30;
const RING_OPEN: u8 = 0x31;
const POOLED: u8 = 0x32;

impl Frame {
    /// Whether this frame takes part in matching, and so has a sequence number.
    #[inline]
    pub const fn matches(&self) -> bool {
        matches!(self, Frame::Eager { .. } | Frame::EagerSync { .. } | Frame::Rendezvous { .. })
    }

    /// Whether the frame is a hint: its sender continues and finalizes even if the frame never
    /// arrives.
    pub const fn is_hint(&self) -> bool {
        matches!(self, Frame::Learn { .. } | Frame::AskLast { .. } | Frame::Last { .. })
    }

    /// Whether the frame refers to segments of the two processes, and can travel only through
    /// shared memory.
    pub const fn is_of_segments(&self) -> bool {
        matches!(self, Frame::RingGrant { .. } | Frame::RingOpen { .. } | Frame::Pooled { .. })
    }

    /// Writes the frame and returns its length.
    pub fn encode(&self, sequence: u8, source: u32, out: &mut [u8; MAX_FRAME_LEN]) -> usize {
        let mut w = FrameWriter { out, at: HEADER_LEN };
        let (kind, tag, context) = match *self {
            Frame::Eager { envelope } => w.envelope(EAGER, envelope),
            Frame::EagerSync { envelope, request } => {
                let head = w.envelope(EAGER_SYNC, envelope);
                w.u64(request);
                head
            }
            Frame::Rendezvous { envelope, announced } => {
                let head = w.envelope(RENDEZVOUS, envelope);
                let Announced { request, length, address, announcement } = announced;
                [request, length, address, announcement].into_iter().for_each(|word| w.u64(word));
                head
            }
            Frame::SyncAck { request } => w.plain(SYNC_ACK, &[request]),
            Frame::Pull { request, receiver, length, claimed } => {
                w.plain(PULL, &[request, receiver, length, u64::from(claimed)])
            }
            Frame::Fin { request } => w.plain(FIN, &[request]),
            Frame::Withdraw { request, number } => w.plain(WITHDRAW, &[request, number]),
            Frame::Withdrawn { request } => w.plain(WITHDRAWN, &[request]),
            Frame::AskLast { id } => w.plain(ASK_LAST, &[id.0]),
            Frame::Last { id, number } => w.plain(LAST, &[id.0, number]),
            Frame::Data { receiver, offset } => w.plain(DATA, &[receiver, offset]),
            Frame::Learn { id, index } => {
                w.u64(id.0);
                (LEARN, 0, index)
            }
            Frame::AskIndex { id } => w.plain(ASK_INDEX, &[id.0]),
            Frame::Meet { wants_answer } => (MEET, 0, u32::from(wants_answer)),
            Frame::AskArrived { number } => w.plain(ASK_ARRIVED, &[number]),
            Frame::Arrived { number } => w.plain(ARRIVED, &[number]),
            Frame::Matched { label } => w.plain(MATCHED, &[label]),
            Frame::InParts { label, number, length, part } => {
                w.plain(IN_PARTS, &[label, number, length, part])
            }
            Frame::AskParts { number, length } => w.plain(ASK_PARTS, &[number, length]),
            Frame::DataAt { receiver, offset, length, number } => {
                w.plain(DATA_AT, &[receiver, offset, length, number])
            }
            Frame::DataRead { number, whole } => w.plain(DATA_READ, &[number, u64::from(whole)]),
            Frame::RingGrant { ring } => (RING_GRANT, 0, ring),
            Frame::RingOpen { cells } => w.plain(RING_OPEN, &[cells]),
            Frame::Pooled { pieces: [first, rest] } => {
                w.plain(POOLED, &[of_halves(first), of_halves(rest)])
            }
        };
        let len = w.at;
        out[0] = sequence;
        out[1] = kind;
        out[2..4].copy_from_slice(&((len - HEADER_LEN) as u16).to_le_bytes());
        out[4..8].copy_from_slice(&tag.to_le_bytes());
        out[8..12].copy_from_slice(&context.to_le_bytes());
        out[12..16].copy_from_slice(&source.to_le_bytes());
        len
    }

    /// Decodes the frame at the start of `bytes`.
    pub fn decode(bytes: &[u8]) -> Result<Received, WireError> {
        let Some(head) = bytes.first_chunk::<HEADER_LEN>() else {
            return Err(WireError::Short { kind: 0xff, needed: HEADER_LEN, got: bytes.len() });
        };
        let kind = head[1];
        let extension = usize::from(u16::from_le_bytes([head[2], head[3]]));
        let tag = i32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let context = u32::from_le_bytes([head[8], head[9], head[10], head[11]]);
        let source = u32::from_le_bytes([head[12], head[13], head[14], head[15]]);

        let needed = extension_len(kind).ok_or(WireError::Kind(kind))?;
        if extension != needed {
            return Err(WireError::Extension { kind, needed, got: extension });
        }
        let rest = &bytes[HEADER_LEN..];
        if rest.len() < needed {
            return Err(WireError::Short { kind, needed: HEADER_LEN + needed, got: bytes.len() });
        }
        let mut words = rest[..needed].as_chunks::<8>().0.iter().map(|w| u64::from_le_bytes(*w));
        let mut word = || words.next().unwrap_or(0);

        let matching = kind & 0xf0 == 0;
        let envelope = Envelope {
            context: if matching && kind & GLOBAL != 0 {
                Context::Global(ContextId(word()))
            } else {
                Context::Local(context)
            },
            tag,
        };
        let frame = match if matching { kind & !GLOBAL } else { kind } {
            EAGER => Frame::Eager { envelope },
            EAGER_SYNC => Frame::EagerSync { envelope, request: word() },
            RENDEZVOUS => {
                let [request, length, address, announcement] = [word(), word(), word(), word()];
                Frame::Rendezvous {
                    envelope,
                    announced: Announced { request, length, address, announcement },
                }
            }
            SYNC_ACK => Frame::SyncAck { request: word() },
            PULL => Frame::Pull {
                request: word(),
                receiver: word(),
                length: word(),
                claimed: word() != 0,
            },
            FIN => Frame::Fin { request: word() },
            WITHDRAW => Frame::Withdraw { request: word(), number: word() },
            WITHDRAWN => Frame::Withdrawn { request: word() },
            ASK_LAST => Frame::AskLast { id: ContextId(word()) },
            LAST => Frame::Last { id: ContextId(word()), number: word() },
            DATA => Frame::Data { receiver: word(), offset: word() },
            LEARN => Frame::Learn { id: ContextId(word()), index: context },
            ASK_INDEX => Frame::AskIndex { id: ContextId(word()) },
            MEET => Frame::Meet { wants_answer: context != 0 },
            ASK_ARRIVED => Frame::AskArrived { number: word() },
            ARRIVED => Frame::Arrived { number: word() },
            MATCHED => Frame::Matched { label: word() },
            IN_PARTS => {
                Frame::InParts { label: word(), number: word(), length: word(), part: word() }
            }
            ASK_PARTS => Frame::AskParts { number: word(), length: word() },
            DATA_AT => {
                Frame::DataAt { receiver: word(), offset: word(), length: word(), number: word() }
            }
            DATA_READ => Frame::DataRead { number: word(), whole: word() != 0 },
            RING_GRANT => Frame::RingGrant { ring: context },
            RING_OPEN => Frame::RingOpen { cells: word() },
            POOLED => Frame::Pooled { pieces: [halves(word()), halves(word())] },
            _ => return Err(WireError::Kind(kind)),
        };
        Ok(Received { sequence: head[0], source, frame, body_at: HEADER_LEN + needed })
    }
}

/// The length of the extension of a kind; `None` for an unknown kind.
const fn extension_len(kind: u8) -> Option<usize> {
    let long = if kind & 0xf0 == 0 && kind & GLOBAL != 0 { 8 } else { 0 };
    Some(match if kind & 0xf0 == 0 { kind & !GLOBAL } else { kind } {
        EAGER => long,
        EAGER_SYNC => long + 8,
        RENDEZVOUS => long + 32,
        SYNC_ACK | FIN | WITHDRAWN | ASK_LAST | LEARN | ASK_INDEX | ASK_ARRIVED | ARRIVED
        | MATCHED | RING_OPEN => 8,
        PULL | IN_PARTS | DATA_AT => 32,
        WITHDRAW | LAST | DATA | POOLED | ASK_PARTS | DATA_READ => 16,
        RING_GRANT | MEET => 0,
        _ => return None,
    })
}

const fn of_halves((low, high): (u32, u32)) -> u64 {
    (high as u64) << 32 | low as u64
}

const fn halves(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

struct FrameWriter<'a> {
    out: &'a mut [u8; MAX_FRAME_LEN],
    at: usize,
}

impl FrameWriter<'_> {
    fn u64(&mut self, v: u64) {
        self.out[self.at..self.at + 8].copy_from_slice(&v.to_le_bytes());
        self.at += 8;
    }

    fn plain(&mut self, kind: u8, words: &[u64]) -> (u8, i32, u32) {
        for w in words {
            self.u64(*w);
        }
        (kind, 0, 0)
    }

    fn envelope(&mut self, kind: u8, e: Envelope) -> (u8, i32, u32) {
        match e.context {
            Context::Local(index) => (kind, e.tag, index),
            Context::Global(id) => {
                self.u64(id.0);
                (kind | GLOBAL, e.tag, 0)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_frame() -> impl Strategy<Value = Frame> {
        let context = prop_oneof![
            any::<u32>().prop_map(Context::Local),
            any::<u64>().prop_map(|v| Context::Global(ContextId(v)))
        ];
        let envelope = (context, any::<i32>()).prop_map(|(context, tag)| Envelope { context, tag });
        let (e1, e2) = (envelope.clone(), envelope.clone());
        prop_oneof![
            envelope.prop_map(|envelope| Frame::Eager { envelope }),
            (e1, any::<u64>())
                .prop_map(|(envelope, request)| Frame::EagerSync { envelope, request }),
            (e2, any::<[u64; 4]>()).prop_map(
                |(envelope, [request, length, address, announcement])| {
                    Frame::Rendezvous {
                        envelope,
                        announced: Announced { request, length, address, announcement },
                    }
                }
            ),
            any::<u64>().prop_map(|request| Frame::SyncAck { request }),
            (any::<[u64; 3]>(), any::<bool>()).prop_map(
                |([request, receiver, length], claimed)| {
                    Frame::Pull { request, receiver, length, claimed }
                }
            ),
            any::<u64>().prop_map(|request| Frame::Fin { request }),
            any::<[u64; 2]>().prop_map(|[request, number]| Frame::Withdraw { request, number }),
            any::<u64>().prop_map(|request| Frame::Withdrawn { request }),
            any::<u64>().prop_map(|id| Frame::AskLast { id: ContextId(id) }),
            any::<[u64; 2]>().prop_map(|[id, number]| Frame::Last { id: ContextId(id), number }),
            any::<[u64; 2]>().prop_map(|[receiver, offset]| Frame::Data { receiver, offset }),
            any::<(u64, u32)>().prop_map(|(id, index)| Frame::Learn { id: ContextId(id), index }),
            any::<u64>().prop_map(|id| Frame::AskIndex { id: ContextId(id) }),
            any::<bool>().prop_map(|wants_answer| Frame::Meet { wants_answer }),
            any::<u64>().prop_map(|number| Frame::AskArrived { number }),
            any::<u64>().prop_map(|number| Frame::Arrived { number }),
            any::<u64>().prop_map(|label| Frame::Matched { label }),
            any::<[u64; 4]>().prop_map(|[label, number, length, part]| {
                Frame::InParts { label, number, length, part }
            }),
            any::<[u64; 2]>().prop_map(|[number, length]| Frame::AskParts { number, length }),
            any::<[u64; 4]>().prop_map(|[receiver, offset, length, number]| {
                Frame::DataAt { receiver, offset, length, number }
            }),
            any::<(u64, bool)>().prop_map(|(number, whole)| Frame::DataRead { number, whole }),
            any::<u32>().prop_map(|ring| Frame::RingGrant { ring }),
            any::<u64>().prop_map(|cells| Frame::RingOpen { cells }),
            any::<[(u32, u32); 2]>().prop_map(|pieces| Frame::Pooled { pieces }),
        ]
    }

    proptest! {
        #[test]
        fn a_frame_decodes_as_encoded(frame in any_frame(), sequence: u8, source: u32) {
            let mut bytes = [0; MAX_FRAME_LEN];
            let len = frame.encode(sequence, source, &mut bytes);
            let got = Frame::decode(&bytes[..len]).unwrap();
            prop_assert_eq!(got, Received { sequence, source, frame, body_at: len });
            prop_assert!(Frame::decode(&bytes[..len - 1]).is_err());
        }

        #[test]
        fn any_bytes_are_a_frame_or_an_error(bytes: Vec<u8>) {
            if let Ok(got) = Frame::decode(&bytes) {
                prop_assert!(got.body_at <= bytes.len());
            }
        }
    }

    #[test]
    fn errors_name_the_kind_and_the_length() {
        let mut bytes = [0; MAX_FRAME_LEN];
        let len = Frame::Fin { request: 7 }.encode(0, 0, &mut bytes);
        bytes[1] = 0x77;
        assert_eq!(
            Frame::decode(&bytes[..len]).unwrap_err().to_string(),
            "0x77 is no kind of frame"
        );
        assert_eq!(
            Frame::decode(&[1, 2]).unwrap_err().to_string(),
            "a frame of kind 0xff needs 16 bytes, 2 came"
        );
    }
}
