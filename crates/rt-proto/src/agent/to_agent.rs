//! Messages of the head to an agent: orders, and answers to its ranks' requests.

use super::{AgentOrder, StreamError, framed, read};
use oxmpi_rt_client::codec::{FieldReader, FieldWriter};

/// A message of the head to an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ToAgent {
    /// Prepares ranks. Answered by [`super::FromAgent::Ready`] or [`super::FromAgent::Failed`].
    Order(Box<AgentOrder>),
    /// Starts the prepared ranks. Answered by [`super::FromAgent::Started`] or
    /// [`super::FromAgent::Failed`].
    Go,
    /// Stops all processes, and forwards all their messages and output. Answered by
    /// [`super::FromAgent::Stopped`].
    Hold {
        /// Numbers the attempts, also in the answer.
        round: u32,
    },
    /// Describes the stopped processes. Answered by [`super::FromAgent::Described`].
    Describe {
        round: u32,
    },
    Image {
        round: u32,
        /// The directory, in the form that the requesting tool uses.
        place: String,
    },
    /// Calls the program's checkpoint functions. Answered by [`super::FromAgent::Returned`].
    CallFunctions {
        /// The number of the call, which identifies the functions.
        number: u32,
    },
    /// A piece of a file of the images that are to be restored.
    Piece {
        /// The file's path in the set. Its pieces are consecutive, up to the first piece of another
        /// file.
        name: String,
        bytes: Vec<u8>,
    },
    GoOn,
    /// Abandons a spawned job, and removes all of it.
    Abandon {
        base: u32,
    },
    /// The spawned job with these numbers is over: only state for later requests is kept.
    ReleaseJob {
        base: u32,
        size: u32,
    },
    /// No request will name these processes any more.
    Forget {
        base: u32,
        size: u32,
    },
    Answer {
        rank: u32,
        /// Of [`oxmpi_rt_client::control`], encoded.
        reply: Vec<u8>,
        /// The contents of the file beside it, if any.
        blob: Option<Vec<u8>>,
    },
    Signal {
        number: i32,
        ranks: Vec<u32>,
    },
    /// An order for the relay of the agent's host (rpi lamd).
    Relay {
        /// Of `oxmpi_wire::relay`, encoded.
        order: Vec<u8>,
    },
    /// A failure notice about `count` further processes, which the others survive.
    Died {
        count: u32,
    },
    /// Requests a step of a quiescence from all processes.
    Step {
        number: u32,
        /// Whether the step closes connections: each process needs a new listener then.
        closes: bool,
    },
    /// Queries the progress of the processes. Answered by [`super::FromAgent::Seen`].
    QueryState,
    /// Requests the socket addresses of a process. Answered by [`super::FromAgent::Answer`].
    Where {
        asker: u32,
        rank: u32,
    },
    Input {
        rank: u32,
        /// Empty: the end.
        bytes: Vec<u8>,
    },
    /// Acknowledges printed output, which makes room for as much more.
    Taken {
        bytes: u64,
    },
    /// Kills all processes, and ends the agent.
    End,
}

impl ToAgent {
    /// Encodes the message, with its length in front.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            ToAgent::Order(order) => framed(kind::ORDER, |out| order.write(out)),
            ToAgent::Go => framed(kind::GO, |_| {}),
            ToAgent::GoOn => framed(kind::GO_ON, |_| {}),
            ToAgent::Hold { round } => framed(kind::HOLD, |out| out.number((*round).into())),
            ToAgent::Describe { round } => {
                framed(kind::DESCRIBE, |out| out.number((*round).into()))
            }
            ToAgent::Image { round, place } => framed(kind::IMAGE, |out| {
                out.number((*round).into());
                out.bytes(place.as_bytes());
            }),
            ToAgent::CallFunctions { number } => {
                framed(kind::CALL, |out| out.number((*number).into()))
            }
            ToAgent::Piece { name, bytes } => framed(kind::TO_PIECE, |out| {
                out.bytes(name.as_bytes());
                out.bytes(bytes);
            }),
            ToAgent::Abandon { base } => framed(kind::ABANDON, |out| out.number((*base).into())),
            ToAgent::ReleaseJob { base, size } => {
                framed(kind::RELEASE_JOB, |out| range(out, *base, *size))
            }
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
            ToAgent::QueryState => framed(kind::QUERY_STATE, |_| {}),
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

    /// Reads a message of a head, with its length in front; an error for bytes that
    /// [`ToAgent::encode`] cannot have written.
    pub fn decode(bytes: &[u8]) -> Result<ToAgent, StreamError> {
        read(bytes, |kind, from| {
            Some(match kind {
                kind::ORDER => ToAgent::Order(Box::new(AgentOrder::read(from)?)),
                kind::GO => ToAgent::Go,
                kind::GO_ON => ToAgent::GoOn,
                kind::HOLD => ToAgent::Hold { round: from.word()? },
                kind::DESCRIBE => ToAgent::Describe { round: from.word()? },
                kind::IMAGE => ToAgent::Image { round: from.word()?, place: from.text()? },
                kind::CALL => ToAgent::CallFunctions { number: from.word()? },
                kind::TO_PIECE => ToAgent::Piece { name: from.text()?, bytes: from.bytes()? },
                kind::ABANDON => ToAgent::Abandon { base: from.word()? },
                kind::RELEASE_JOB => ToAgent::ReleaseJob { base: from.word()?, size: from.word()? },
                kind::FORGET => ToAgent::Forget { base: from.word()?, size: from.word()? },
                kind::ANSWER => ToAgent::Answer {
                    rank: from.word()?,
                    reply: from.bytes()?,
                    blob: from.option()?,
                },
                kind::SIGNAL => ToAgent::Signal {
                    number: from.word()?.cast_signed(),
                    ranks: from.list(FieldReader::word)?,
                },
                kind::TO_RELAY => ToAgent::Relay { order: from.bytes()? },
                kind::DIED => ToAgent::Died { count: from.word()? },
                kind::STEP => ToAgent::Step { number: from.word()?, closes: from.bool()? },
                kind::QUERY_STATE => ToAgent::QueryState,
                kind::WHERE => ToAgent::Where { asker: from.word()?, rank: from.word()? },
                kind::INPUT => ToAgent::Input { rank: from.word()?, bytes: from.bytes()? },
                kind::TAKEN => ToAgent::Taken { bytes: from.number()? },
                kind::END => ToAgent::End,
                _ => return None,
            })
        })
    }
}

fn range(out: &mut FieldWriter, base: u32, size: u32) {
    out.number(base.into());
    out.number(size.into());
}

mod kind {
    pub(crate) const ORDER: u8 = 1;
    pub(crate) const GO: u8 = 2;
    pub(crate) const ANSWER: u8 = 3;
    pub(crate) const SIGNAL: u8 = 4;
    pub(crate) const DIED: u8 = 5;
    pub(crate) const QUERY_STATE: u8 = 6;
    pub(crate) const WHERE: u8 = 7;
    pub(crate) const INPUT: u8 = 8;
    pub(crate) const TAKEN: u8 = 9;
    pub(crate) const END: u8 = 10;
    pub(crate) const TO_RELAY: u8 = 11;
    pub(crate) const STEP: u8 = 12;
    pub(crate) const ABANDON: u8 = 13;
    pub(crate) const RELEASE_JOB: u8 = 14;
    pub(crate) const FORGET: u8 = 15;
    pub(crate) const GO_ON: u8 = 16;
    pub(crate) const HOLD: u8 = 17;
    pub(crate) const DESCRIBE: u8 = 18;
    pub(crate) const IMAGE: u8 = 19;
    pub(crate) const CALL: u8 = 21;
    pub(crate) const TO_PIECE: u8 = 20;
}
