//! The protocols of a *relay*, the daemon of a node that forwards all messages of a job: with the
//! processes of its node, and with the launcher.
//!
//! Both use sockets that keep boundaries (`SOCK_SEQPACKET`): each datagram is one *packet*, or one
//! order or notice. Integers are little endian.
//!
//! A packet is a header, a frame, and a body:
//!
//! | bytes | field | meaning |
//! |---|---|---|
//! | 0 | mark | 0x6c: detects a reader that is out of step |
//! | 1 | kind | 1 a message with its body, 2 a message whose body is in the file sent with the
//! packet, 3 question, 4 answer |
//! | 2 | frame | length of the frame in bytes (kinds 1 and 2) |
//! | 3 | | zero |
//! | 4..8 | peer | to the relay: the receiver; from the relay: the sender; of a question: the
//! process in question |
//! | 8..16 | length | of the body in bytes |
//!
//! A question requests an answer when the relay has forwarded all messages that a process had sent
//! before its end. The answer comes after these messages.

use crate::noise::Encryption;
use crate::{Frame, HEADER_LEN, MAX_FRAME_LEN, Received, WireError};

pub const PACKET_HEADER: usize = 16;
/// The longest body in a packet, in bytes. A longer body is in a file whose descriptor comes with
/// the packet.
pub const INLINE: usize = 64 << 10;
/// In bytes.
pub const MAX_PACKET: usize = PACKET_HEADER + MAX_FRAME_LEN + INLINE;
/// In bytes, of an order or a notice.
pub const MAX_ORDER: usize = 4096;

const MARK: u8 = 0x6c;

/// The kind of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketKind {
    Message,
    /// A message whose body is in a file.
    File,
    Question,
    Answer,
}

/// The header of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PacketHeader {
    pub kind: PacketKind,
    pub frame: u8,
    pub peer: u32,
    pub length: u64,
}

/// A decoded packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet<'a> {
    pub kind: PacketKind,
    pub peer: u32,
    /// `None` for questions and answers.
    pub got: Option<Received>,
    /// Bytes of the whole body.
    pub length: u64,
    /// Empty if the body is in a file.
    pub body: &'a [u8],
}

/// Why bytes are no packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PacketError {
    #[error("{bytes} bytes beginning with {start:#018x} are no packet")]
    Shape {
        bytes: usize,
        /// The first eight.
        start: u64,
    },
    #[error("{0}")]
    Frame(#[from] WireError),
    #[error(
        "a frame of process {source_named} came from process {from}, or it belongs to another route: {frame:?}"
    )]
    Foreign { from: u32, source_named: u32, frame: Frame },
}

impl PacketHeader {
    /// The header as bytes.
    pub fn encode(&self) -> [u8; PACKET_HEADER] {
        let mut out = [0; PACKET_HEADER];
        out[0] = MARK;
        out[1] = match self.kind {
            PacketKind::Message => 1,
            PacketKind::File => 2,
            PacketKind::Question => 3,
            PacketKind::Answer => 4,
        };
        out[2] = self.frame;
        out[4..8].copy_from_slice(&self.peer.to_le_bytes());
        out[8..16].copy_from_slice(&self.length.to_le_bytes());
        out
    }
}

/// Replaces the receiver by the sender in a packet that the relay forwards.
pub fn readdress(packet: &mut [u8], peer: u32) {
    if let Some(place) = packet.get_mut(4..8) {
        place.copy_from_slice(&peer.to_le_bytes());
    }
}

impl<'a> Packet<'a> {
    /// Decodes a packet. `from`: the process that must be the frame's source; `None`: any.
    pub fn read(bytes: &'a [u8], from: Option<u32>) -> Result<Packet<'a>, PacketError> {
        let start = bytes.iter().take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let wrong = PacketError::Shape { bytes: bytes.len(), start };
        let Some((head, rest)) = bytes.split_first_chunk::<PACKET_HEADER>() else {
            return Err(wrong);
        };
        let kind = match head[1] {
            1 => PacketKind::Message,
            2 => PacketKind::File,
            3 => PacketKind::Question,
            4 => PacketKind::Answer,
            _ => return Err(wrong),
        };
        let frame_len = usize::from(head[2]);
        let peer = u32::from_le_bytes([head[4], head[5], head[6], head[7]]);
        let mut length = [0; 8];
        length.copy_from_slice(&head[8..]);
        let length = u64::from_le_bytes(length);
        if head[0] != MARK || head[3] != 0 {
            return Err(wrong);
        }
        if matches!(kind, PacketKind::Question | PacketKind::Answer) {
            let is_plain = frame_len == 0 && length == 0 && rest.is_empty();
            return if is_plain {
                Ok(Packet { kind, peer, got: None, length, body: &[] })
            } else {
                Err(wrong)
            };
        }
        if !(HEADER_LEN..=MAX_FRAME_LEN).contains(&frame_len) || rest.len() < frame_len {
            return Err(wrong);
        }
        let (frame, body) = rest.split_at(frame_len);
        let fits = match kind {
            PacketKind::File => body.is_empty() && length > 0,
            _ => body.len() as u64 == length && body.len() <= INLINE,
        };
        if !fits {
            return Err(wrong);
        }
        let got = Frame::decode(frame)?;
        if got.body_at != frame_len {
            return Err(wrong);
        }
        if got.frame.is_of_segments() || from.is_some_and(|from| from != got.source) {
            let from = from.unwrap_or(peer);
            return Err(PacketError::Foreign { from, source_named: got.source, frame: got.frame });
        }
        Ok(Packet { kind, peer, got: Some(got), length, body })
    }
}

/// A message from the launcher to a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// The first order. With several nodes, the socket on which the relay listens comes with it.
    Begin {
        job: u64,
        node: u32,
        nodes: u32,
        secret: [u8; 32],
        encrypt: Encryption,
    },
    /// The socket of a process of the node comes with it.
    Process {
        number: u32,
    },
    Ended {
        number: u32,
    },
    /// The addresses of the relay on another node.
    Relay {
        node: u32,
        /// The name in messages to users, such as "node 1" or "host a"; one line.
        name: String,
        /// Separated by blanks.
        addresses: String,
    },
    Lost {
        node: u32,
    },
    /// The processes `first .. first + count` are on this node.
    Places {
        first: u32,
        count: u32,
        node: u32,
    },
}

/// A message from a relay to the launcher.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A process has sent an invalid packet; the relay no longer serves it.
    Wrong { number: u32, text: String },
    /// A message for the user.
    Said { text: String },
    /// The relay has failed, and ends.
    Lost { text: String },
}

/// Bytes that are no order or notice.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{length} bytes of kind {kind} are no message between a launcher and a relay of this version"
)]
pub struct OrderError {
    pub kind: u8,
    pub length: usize,
}

mod kind {
    pub(super) const BEGIN: u8 = 1;
    pub(super) const PROCESS: u8 = 2;
    pub(super) const ENDED: u8 = 3;
    pub(super) const RELAY: u8 = 4;
    pub(super) const PLACES: u8 = 5;
    pub(super) const GONE: u8 = 6;
    pub(super) const WRONG: u8 = 65;
    pub(super) const LOST: u8 = 66;
    pub(super) const SAID: u8 = 67;
}

fn message(kind: u8, numbers: [u32; 3], rest: &[u8]) -> Vec<u8> {
    let mut out = vec![1, kind];
    numbers.iter().for_each(|number| out.extend(number.to_le_bytes()));
    out.extend(rest);
    out
}

fn parse_message(bytes: &[u8]) -> Option<(u8, [u32; 3], &[u8])> {
    let (head, rest) = bytes.split_first_chunk::<14>()?;
    let mut numbers = head[2..].as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word));
    let mut next = || numbers.next().unwrap_or_default();
    (head[0] == 1 && bytes.len() <= MAX_ORDER).then(|| (head[1], [next(), next(), next()], rest))
}

/// The beginning of a text, as long as a message has room.
fn cut(text: &str) -> &[u8] {
    let mut end = text.len().min(MAX_ORDER - 64);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text.as_bytes()[..end]
}

fn text_of(bytes: &[u8]) -> Option<String> {
    String::from_utf8(bytes.to_vec()).ok()
}

fn wrong(bytes: &[u8]) -> OrderError {
    OrderError { kind: bytes.get(1).copied().unwrap_or_default(), length: bytes.len() }
}

impl Order {
    /// The order as bytes, at most [`MAX_ORDER`].
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Order::Begin { job, node, nodes, secret, encrypt } => {
                let rest = [&job.to_le_bytes()[..], secret].concat();
                message(kind::BEGIN, [*node, *nodes, encrypt.number()], &rest)
            }
            Order::Process { number } => message(kind::PROCESS, [*number, 0, 0], &[]),
            Order::Ended { number } => message(kind::ENDED, [*number, 0, 0], &[]),
            Order::Relay { node, name, addresses } => {
                message(kind::RELAY, [*node, 0, 0], cut(&format!("{name}\n{addresses}")))
            }
            Order::Lost { node } => message(kind::GONE, [*node, 0, 0], &[]),
            Order::Places { first, count, node } => {
                message(kind::PLACES, [*first, *count, *node], &[])
            }
        }
    }

    /// Decodes an order.
    pub fn decode(bytes: &[u8]) -> Result<Order, OrderError> {
        let order = parse_message(bytes).and_then(|(kind, numbers, rest)| match (kind, numbers) {
            (kind::BEGIN, [node, nodes, encrypt]) => {
                let (job, secret) = rest.split_first_chunk::<8>()?;
                let job = u64::from_le_bytes(*job);
                let (secret, encrypt) = (secret.try_into().ok()?, Encryption::of(encrypt)?);
                Some(Order::Begin { job, node, nodes, secret, encrypt })
            }
            (kind::PROCESS, [number, 0, 0]) if rest.is_empty() => Some(Order::Process { number }),
            (kind::ENDED, [number, 0, 0]) if rest.is_empty() => Some(Order::Ended { number }),
            (kind::RELAY, [node, 0, 0]) => {
                let text = text_of(rest)?;
                let (name, addresses) = text.split_once('\n')?;
                Some(Order::Relay { node, name: name.into(), addresses: addresses.into() })
            }
            (kind::GONE, [node, 0, 0]) if rest.is_empty() => Some(Order::Lost { node }),
            (kind::PLACES, [first, count, node]) if rest.is_empty() => {
                Some(Order::Places { first, count, node })
            }
            _ => None,
        });
        order.ok_or_else(|| wrong(bytes))
    }
}

impl Notice {
    /// The notice as bytes, at most [`MAX_ORDER`]; a longer text is cut.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Notice::Wrong { number, text } => message(kind::WRONG, [*number, 0, 0], cut(text)),
            Notice::Said { text } => message(kind::SAID, [0; 3], cut(text)),
            Notice::Lost { text } => message(kind::LOST, [0; 3], cut(text)),
        }
    }

    /// Decodes a notice.
    pub fn decode(bytes: &[u8]) -> Result<Notice, OrderError> {
        let notice = parse_message(bytes).and_then(|(kind, numbers, rest)| match (kind, numbers) {
            (kind::WRONG, [number, 0, 0]) => Some(Notice::Wrong { number, text: text_of(rest)? }),
            (kind::SAID, [0, 0, 0]) => Some(Notice::Said { text: text_of(rest)? }),
            (kind::LOST, [0, 0, 0]) => Some(Notice::Lost { text: text_of(rest)? }),
            _ => None,
        });
        notice.ok_or_else(|| wrong(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Context, Envelope};
    use proptest::prelude::*;

    fn packet(kind: PacketKind, peer: u32, source: u32, body: &[u8], length: u64) -> Vec<u8> {
        let envelope = Envelope { context: Context::Local(3), tag: 5 };
        let mut frame = [0; MAX_FRAME_LEN];
        let len = Frame::Eager { envelope }.encode(9, source, &mut frame);
        let header = PacketHeader { kind, frame: len as u8, peer, length };
        [&header.encode()[..], &frame[..len], body].concat()
    }

    #[test]
    fn a_packet_decodes_as_encoded() {
        let bytes = packet(PacketKind::Message, 7, 2, b"body", 4);
        let got = Packet::read(&bytes, Some(2)).unwrap();
        assert_eq!(
            (got.kind, got.peer, got.length, got.body),
            (PacketKind::Message, 7, 4, &b"body"[..])
        );
        assert_eq!(got.got.unwrap().sequence, 9);
        let mut bytes = packet(PacketKind::File, 7, 2, b"", 1 << 40);
        readdress(&mut bytes, 2);
        let got = Packet::read(&bytes, None).unwrap();
        assert_eq!((got.kind, got.peer, got.length), (PacketKind::File, 2, 1 << 40));
    }

    #[test]
    fn invalid_packets_are_refused() {
        let is_shape =
            |bytes: &[u8]| matches!(Packet::read(bytes, Some(2)), Err(PacketError::Shape { .. }));
        assert!(is_shape(b"") && is_shape(&[0; 40]));
        assert!(is_shape(&packet(PacketKind::Message, 7, 2, b"body", 5)), "a wrong length");
        assert!(is_shape(&packet(PacketKind::File, 7, 2, b"", 0)), "an empty file");
        assert!(is_shape(&packet(PacketKind::Question, 7, 2, b"", 0)), "a question with a frame");
        let foreign = packet(PacketKind::Message, 7, 3, b"", 0);
        assert!(matches!(
            Packet::read(&foreign, Some(2)),
            Err(PacketError::Foreign { from: 2, .. })
        ));
    }

    #[test]
    fn orders_and_notices_decode_as_encoded() {
        for order in [
            Order::Begin {
                job: 1 << 60,
                node: 1,
                nodes: 2,
                secret: [7; 32],
                encrypt: Encryption::Always,
            },
            Order::Begin { job: 1, node: 0, nodes: 1, secret: [8; 32], encrypt: Encryption::Never },
            Order::Process { number: 4 },
            Order::Ended { number: 5 },
            Order::Relay { node: 1, name: "host a".into(), addresses: "127.0.0.1:5%lo".into() },
            Order::Lost { node: 2 },
            Order::Places { first: 3, count: 4, node: 1 },
        ] {
            assert_eq!(Order::decode(&order.encode()), Ok(order));
        }
        let long = "ä".repeat(3000);
        let Ok(Notice::Wrong { number: 3, text }) =
            Notice::decode(&Notice::Wrong { number: 3, text: long.clone() }.encode())
        else {
            panic!("no notice")
        };
        assert!(long.starts_with(&text) && text.len() > 3000);
        let lost = Notice::Lost { text: "why".into() };
        assert_eq!(Notice::decode(&lost.encode()), Ok(lost));
    }

    proptest! {
        #[test]
        fn random_bytes_cause_no_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), start in 0u8..6) {
            let mut bytes = bytes;
            if bytes.len() > 3 {
                (bytes[0], bytes[1], bytes[3]) = (MARK, start, 0);
            }
            let _ = Packet::read(&bytes, Some(1));
            if let Some(first) = bytes.first_mut() {
                *first = 1;
            }
            let _ = (Order::decode(&bytes), Notice::decode(&bytes));
        }
    }
}
