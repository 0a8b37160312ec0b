//! What the head tells an agent: what to do with its ranks, and the answers to what they have asked.

use super::{Order, StreamError, framed, read};
use crate::codec::{Reader, Writer};

/// What the head tells an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToAgent {
    /// Make ready for these ranks. Answered by [`super::FromAgent::Ready`] or [`super::FromAgent::Failed`].
    Order(Box<Order>),
    /// Start them. Answered by [`super::FromAgent::Started`] or [`super::FromAgent::Failed`].
    Go,
    /// Stop all processes, and pass on all that they have said and written. Answered by [`super::FromAgent::Stopped`].
    Hold {
        /// The attempt, which the answer names.
        round: u32,
    },
    /// What has to be known of the processes, which stand still? Answered by [`super::FromAgent::Described`].
    Describe {
        /// The attempt, which the answer names.
        round: u32,
    },
    /// Make images of the processes, which stand still. Answered by [`super::FromAgent::Imaged`].
    Image {
        /// The attempt, which the answer names.
        round: u32,
        /// Where, in the words of the tool that requests them.
        place: String,
    },
    /// Have the program's functions for checkpoints called. Answered by [`super::FromAgent::Returned`].
    CallFunctions {
        /// The number of the call, which says which of them.
        number: u32,
    },
    /// A piece of a file of the set whose images are to be restored.
    Piece {
        /// Its path in the set. The pieces of a file follow each other, and it ends with another's first.
        name: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Processes that were stopped, or restored from their images, go on.
    GoOn,
    /// The job from this number on does not start: nothing of it is left.
    Abandon {
        /// The number of its first process.
        base: u32,
    },
    /// The spawned job that has these numbers is over: nothing of its processes is kept but what others may ask for.
    Bury {
        /// The number of its first process.
        base: u32,
        /// How many it had.
        size: u32,
    },
    /// Nobody will ask for these processes any more.
    Forget {
        /// The number of the first.
        base: u32,
        /// How many they were.
        size: u32,
    },
    /// What a process has asked is answered so.
    Answer {
        /// Its number.
        rank: u32,
        /// The reply of [`crate::control`], encoded.
        reply: Vec<u8>,
        /// The contents of the descriptor beside it, if there is one.
        blob: Option<Vec<u8>>,
    },
    /// Send a signal to processes.
    Signal {
        /// Its number.
        number: i32,
        /// The processes.
        ranks: Vec<u32>,
    },
    /// Something for the relay of the agent's host (rpi lamd).
    Relay {
        /// The order of `oxmpi_wire::relay`, encoded.
        order: Vec<u8>,
    },
    /// So many more processes have died, which the others survive.
    Died {
        /// How many.
        count: u32,
    },
    /// Messages stand still: all processes shall take this step.
    Step {
        /// Its number.
        number: u32,
        /// Whether it is to end connections: each needs a new listener for it.
        closes: bool,
    },
    /// How far are the processes? Answered by [`super::FromAgent::Seen`].
    Look,
    /// Where can this process be reached? Answered by [`super::FromAgent::Answer`].
    Where {
        /// Who asks.
        asker: u32,
        /// The process.
        rank: u32,
    },
    /// Standard input for a process.
    Input {
        /// The process.
        rank: u32,
        /// The bytes; none: its end.
        bytes: Vec<u8>,
    },
    /// So many bytes of output were printed, and so many more may be sent.
    Taken {
        /// How many.
        bytes: u64,
    },
    /// Everything is over: kill what is left, and end.
    End,
}

impl ToAgent {
    /// As bytes, the length in front.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToAgent::Order(order) => framed(kind::ORDER, |out| order.write(out)),
            ToAgent::Go => framed(kind::GO, |_| {}),
            ToAgent::GoOn => framed(kind::GO_ON, |_| {}),
            ToAgent::Hold { round } => framed(kind::HOLD, |out| out.number((*round).into())),
            ToAgent::Describe { round } => framed(kind::DESCRIBE, |out| out.number((*round).into())),
            ToAgent::Image { round, place } => framed(kind::IMAGE, |out| {
                out.number((*round).into());
                out.bytes(place.as_bytes());
            }),
            ToAgent::CallFunctions { number } => framed(kind::CALL, |out| out.number((*number).into())),
            ToAgent::Piece { name, bytes } => framed(kind::TO_PIECE, |out| {
                out.bytes(name.as_bytes());
                out.bytes(bytes);
            }),
            ToAgent::Abandon { base } => framed(kind::ABANDON, |out| out.number((*base).into())),
            ToAgent::Bury { base, size } => framed(kind::BURY, |out| range(out, *base, *size)),
            ToAgent::Forget { base, size } => framed(kind::FORGET, |out| range(out, *base, *size)),
            ToAgent::Answer { rank, reply, blob } => framed(kind::ANSWER, |out| {
                out.number((*rank).into());
                out.bytes(reply);
                out.option(blob.as_deref());
            }),
            ToAgent::Signal { number, ranks } => framed(kind::SIGNAL, |out| {
                out.number(number.cast_unsigned().into());
                out.list(ranks, |out, rank| out.number((*rank).into()));
            }),
            ToAgent::Relay { order } => framed(kind::TO_RELAY, |out| out.bytes(order)),
            ToAgent::Died { count } => framed(kind::DIED, |out| out.number((*count).into())),
            ToAgent::Step { number, closes } => framed(kind::STEP, |out| {
                out.number((*number).into());
                out.number((*closes).into());
            }),
            ToAgent::Look => framed(kind::LOOK, |_| {}),
            ToAgent::Where { asker, rank } => framed(kind::WHERE, |out| {
                out.number((*asker).into());
                out.number((*rank).into());
            }),
            ToAgent::Input { rank, bytes } => framed(kind::INPUT, |out| {
                out.number((*rank).into());
                out.bytes(bytes);
            }),
            ToAgent::Taken { bytes } => framed(kind::TAKEN, |out| out.number(*bytes)),
            ToAgent::End => framed(kind::END, |_| {}),
        }
    }

    /// Reads a message that a head sent, its length in front.
    ///
    /// # Errors
    /// Anything that [`ToAgent::encode`] cannot have made.
    pub fn decode(bytes: &[u8]) -> Result<ToAgent, StreamError> {
        read(bytes, |kind, from| {
            Some(match kind {
                kind::ORDER => ToAgent::Order(Box::new(Order::read(from)?)),
                kind::GO => ToAgent::Go,
                kind::GO_ON => ToAgent::GoOn,
                kind::HOLD => ToAgent::Hold { round: from.word()? },
                kind::DESCRIBE => ToAgent::Describe { round: from.word()? },
                kind::IMAGE => ToAgent::Image { round: from.word()?, place: from.text()? },
                kind::CALL => ToAgent::CallFunctions { number: from.word()? },
                kind::TO_PIECE => ToAgent::Piece { name: from.text()?, bytes: from.bytes()? },
                kind::ABANDON => ToAgent::Abandon { base: from.word()? },
                kind::BURY => ToAgent::Bury { base: from.word()?, size: from.word()? },
                kind::FORGET => ToAgent::Forget { base: from.word()?, size: from.word()? },
                kind::ANSWER => {
                    ToAgent::Answer { rank: from.word()?, reply: from.bytes()?, blob: from.option()? }
                }
                kind::SIGNAL => {
                    ToAgent::Signal { number: from.word()?.cast_signed(), ranks: from.list(Reader::word)? }
                }
                kind::TO_RELAY => ToAgent::Relay { order: from.bytes()? },
                kind::DIED => ToAgent::Died { count: from.word()? },
                kind::STEP => ToAgent::Step { number: from.word()?, closes: from.bool()? },
                kind::LOOK => ToAgent::Look,
                kind::WHERE => ToAgent::Where { asker: from.word()?, rank: from.word()? },
                kind::INPUT => ToAgent::Input { rank: from.word()?, bytes: from.bytes()? },
                kind::TAKEN => ToAgent::Taken { bytes: from.number()? },
                kind::END => ToAgent::End,
                _ => return None,
            })
        })
    }
}

fn range(out: &mut Writer, base: u32, size: u32) {
    out.number(base.into());
    out.number(size.into());
}

mod kind {
    pub(super) const ORDER: u8 = 1;
    pub(super) const GO: u8 = 2;
    pub(super) const ANSWER: u8 = 3;
    pub(super) const SIGNAL: u8 = 4;
    pub(super) const DIED: u8 = 5;
    pub(super) const LOOK: u8 = 6;
    pub(super) const WHERE: u8 = 7;
    pub(super) const INPUT: u8 = 8;
    pub(super) const TAKEN: u8 = 9;
    pub(super) const END: u8 = 10;
    pub(super) const TO_RELAY: u8 = 11;
    pub(super) const STEP: u8 = 12;
    pub(super) const ABANDON: u8 = 13;
    pub(super) const BURY: u8 = 14;
    pub(super) const FORGET: u8 = 15;
    pub(super) const GO_ON: u8 = 16;
    pub(super) const HOLD: u8 = 17;
    pub(super) const DESCRIBE: u8 = 18;
    pub(super) const IMAGE: u8 = 19;
    pub(super) const CALL: u8 = 21;
    pub(super) const TO_PIECE: u8 = 20;
}
