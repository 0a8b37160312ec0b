//! Messages of an agent to the head: its ranks' progress, requests, output and ends.

use super::{StreamError, framed, read};
use std::net::SocketAddr;

use crate::held::{HeldRank, read_addresses, write_addresses};
use crate::process::{Exit, MpiStage};
use oxmpi_rt_client::codec::{FieldReader, FieldWriter};

/// A message of an agent to the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromAgent {
    /// All is prepared for the ranks; none runs yet.
    Ready {
        addresses: Vec<(u32, String)>,
        /// The address of the host's relay; empty if there is none.
        relay: String,
    },
    Started {
        pids: Vec<(u32, u32)>,
    },
    /// The ranks cannot be started, and none of them is left.
    Failed {
        base: u32,
        /// Whether the program cannot be executed.
        is_program: bool,
        text: String,
    },
    /// A notice of the relay on the agent's host.
    Relay {
        /// Of `oxmpi_wire::relay`, encoded.
        notice: Vec<u8>,
    },
    RelayEnded {
        pid: u32,
        exit: Exit,
    },
    /// Whole lines for the user.
    Text {
        text: String,
    },
    /// A request or report of a process.
    Request {
        rank: u32,
        /// Of [`oxmpi_rt_client::control`], encoded.
        request: Vec<u8>,
        blob: Option<Vec<u8>>,
        seen: Seen,
    },
    Output {
        rank: u32,
        is_error: bool,
        /// Empty: the process has closed it.
        bytes: Vec<u8>,
    },
    Exited {
        rank: u32,
        exit: Exit,
        seen: Seen,
    },
    /// The progress of all processes.
    Seen(Vec<(u32, Seen)>),
    Answer {
        asker: u32,
        /// Of [`oxmpi_rt_client::control`], encoded.
        reply: Vec<u8>,
    },
    InputTaken {
        rank: u32,
        bytes: u64,
    },
    /// All processes are stopped, and all their messages and output were forwarded before.
    Stopped {
        /// Numbers the attempts.
        round: u32,
        /// Empty: success.
        error: String,
    },
    Described {
        round: u32,
        /// Empty: success.
        error: String,
        /// Whether a process has an unread answer, so that all must continue and be stopped again.
        is_unread: bool,
        ranks: Vec<HeldRank>,
        listeners: Vec<SocketAddr>,
    },
    /// A piece of an image file, if images were not made in the directory of the set.
    Piece {
        round: u32,
        /// The file's path in the set. Its pieces are consecutive, up to the first piece of another
        /// file.
        name: String,
        bytes: Vec<u8>,
    },
    /// The agent's host has no access to the images that are to be restored:
    /// [`super::ToAgent::Piece`] must bring them. Comes before [`FromAgent::Ready`].
    WantsImages,
    /// A call of the program's checkpoint functions has returned on all ranks of the agent's host.
    Returned {
        number: u32,
        /// Why a rank cannot call them; empty: all can.
        error: String,
        values: Vec<(u32, i32)>,
    },
    /// The processes are imaged, and all pieces were sent.
    Imaged {
        round: u32,
        /// Empty: success.
        error: String,
        /// For the tool that requested the images.
        facts: Vec<u8>,
    },
    Alive,
}

/// A rank's state in the header page of its segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// 0: unknown.
    pub pid: u32,
    pub stage: MpiStage,
    /// The number of the last MPI function; 0: none.
    pub last_call: u16,
    /// Whether the process has left MPI for now, and may return (a script's next program).
    pub rests: bool,
}

impl FromAgent {
    /// Encodes the message, with its length in front.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            FromAgent::Ready { addresses, relay } => framed(kind::READY, |out| {
                out.list(addresses, |out, (rank, address)| {
                    out.number((*rank).into());
                    out.bytes(address.as_bytes());
                });
                out.bytes(relay.as_bytes());
            }),
            FromAgent::Started { pids } => framed(kind::STARTED, |out| {
                out.list(pids, |out, (rank, pid)| {
                    out.number((*rank).into());
                    out.number((*pid).into());
                });
            }),
            FromAgent::Failed { base, is_program, text } => framed(kind::FAILED, |out| {
                out.number((*base).into());
                out.number((*is_program).into());
                out.bytes(text.as_bytes());
            }),
            FromAgent::Relay { notice } => framed(kind::OF_RELAY, |out| out.bytes(notice)),
            FromAgent::RelayEnded { pid, exit } => framed(kind::RELAY_ENDED, |out| {
                out.number((*pid).into());
                write_exit(out, *exit);
            }),
            FromAgent::Text { text } => framed(kind::TEXT, |out| out.bytes(text.as_bytes())),
            FromAgent::Request { rank, request, blob, seen } => framed(kind::REQUEST, |out| {
                out.number((*rank).into());
                out.bytes(request);
                out.option(blob.as_deref());
                seen.write(out);
            }),
            FromAgent::Output { rank, is_error, bytes } => framed(kind::OUTPUT, |out| {
                out.number((*rank).into());
                out.number((*is_error).into());
                out.bytes(bytes);
            }),
            FromAgent::Exited { rank, exit, seen } => framed(kind::EXITED, |out| {
                out.number((*rank).into());
                write_exit(out, *exit);
                seen.write(out);
            }),
            FromAgent::Seen(all) => framed(kind::SEEN, |out| {
                out.list(all, |out, (rank, seen)| {
                    out.number((*rank).into());
                    seen.write(out);
                });
            }),
            FromAgent::Answer { asker, reply } => framed(kind::FOUND, |out| {
                out.number((*asker).into());
                out.bytes(reply);
            }),
            FromAgent::InputTaken { rank, bytes } => framed(kind::INPUT_TAKEN, |out| {
                out.number((*rank).into());
                out.number(*bytes);
            }),
            FromAgent::Stopped { round, error } => framed(kind::STOPPED, |out| {
                out.number((*round).into());
                out.bytes(error.as_bytes());
            }),
            FromAgent::Described { round, error, is_unread, ranks, listeners } => {
                framed(kind::DESCRIBED, |out| {
                    out.number((*round).into());
                    out.bytes(error.as_bytes());
                    out.number((*is_unread).into());
                    out.list(ranks, |out, rank| rank.write(out));
                    write_addresses(out, listeners);
                })
            }
            FromAgent::Piece { round, name, bytes } => framed(kind::OF_PIECE, |out| {
                out.number((*round).into());
                out.bytes(name.as_bytes());
                out.bytes(bytes);
            }),
            FromAgent::Returned { number, error, values } => framed(kind::RETURNED, |out| {
                out.number((*number).into());
                out.bytes(error.as_bytes());
                out.list(values, |out, (rank, value)| {
                    out.number((*rank).into());
                    out.number(value.cast_unsigned().into());
                });
            }),
            FromAgent::WantsImages => framed(kind::WANTS_IMAGES, |_| {}),
            FromAgent::Imaged { round, error, facts } => framed(kind::IMAGED, |out| {
                out.number((*round).into());
                out.bytes(error.as_bytes());
                out.bytes(facts);
            }),
            FromAgent::Alive => framed(kind::ALIVE, |_| {}),
        }
    }

    /// Reads a message of an agent, with its length in front; an error for bytes that
    /// [`FromAgent::encode`] cannot have written.
    pub fn decode(bytes: &[u8]) -> Result<FromAgent, StreamError> {
        read(bytes, |kind, from| {
            Some(match kind {
                kind::READY => FromAgent::Ready {
                    addresses: from.list(|from| from.word().zip(from.text()))?,
                    relay: from.text()?,
                },
                kind::OF_RELAY => FromAgent::Relay { notice: from.bytes()? },
                kind::RELAY_ENDED => {
                    FromAgent::RelayEnded { pid: from.word()?, exit: read_exit(from)? }
                }
                kind::STARTED => {
                    FromAgent::Started { pids: from.list(|from| from.word().zip(from.word()))? }
                }
                kind::FAILED => FromAgent::Failed {
                    base: from.word()?,
                    is_program: from.bool()?,
                    text: from.text()?,
                },
                kind::TEXT => FromAgent::Text { text: from.text()? },
                kind::REQUEST => FromAgent::Request {
                    rank: from.word()?,
                    request: from.bytes()?,
                    blob: from.option()?,
                    seen: Seen::read(from)?,
                },
                kind::OUTPUT => FromAgent::Output {
                    rank: from.word()?,
                    is_error: from.bool()?,
                    bytes: from.bytes()?,
                },
                kind::EXITED => FromAgent::Exited {
                    rank: from.word()?,
                    exit: read_exit(from)?,
                    seen: Seen::read(from)?,
                },
                kind::SEEN => FromAgent::Seen(from.list(|from| from.word().zip(Seen::read(from)))?),
                kind::FOUND => FromAgent::Answer { asker: from.word()?, reply: from.bytes()? },
                kind::INPUT_TAKEN => {
                    FromAgent::InputTaken { rank: from.word()?, bytes: from.number()? }
                }
                kind::STOPPED => FromAgent::Stopped { round: from.word()?, error: from.text()? },
                kind::DESCRIBED => FromAgent::Described {
                    round: from.word()?,
                    error: from.text()?,
                    is_unread: from.bool()?,
                    ranks: from.list(HeldRank::read)?,
                    listeners: read_addresses(from)?,
                },
                kind::OF_PIECE => FromAgent::Piece {
                    round: from.word()?,
                    name: from.text()?,
                    bytes: from.bytes()?,
                },
                kind::RETURNED => FromAgent::Returned {
                    number: from.word()?,
                    error: from.text()?,
                    values: from.list(|from| from.word().zip(from.word().map(u32::cast_signed)))?,
                },
                kind::WANTS_IMAGES => FromAgent::WantsImages,
                kind::IMAGED => FromAgent::Imaged {
                    round: from.word()?,
                    error: from.text()?,
                    facts: from.bytes()?,
                },
                kind::ALIVE => FromAgent::Alive,
                _ => return None,
            })
        })
    }
}

impl Seen {
    fn write(&self, out: &mut FieldWriter) {
        out.number(self.pid.into());
        out.number(match self.stage {
            MpiStage::Untouched => 0,
            MpiStage::Initialized => 1,
            MpiStage::Finalized => 2,
            MpiStage::Finalizing => 3,
        });
        out.number(self.last_call.into());
        out.number(self.rests.into());
    }

    fn read(from: &mut FieldReader<'_>) -> Option<Seen> {
        let pid = from.word()?;
        let stage = match from.number()? {
            0 => MpiStage::Untouched,
            1 => MpiStage::Initialized,
            2 => MpiStage::Finalized,
            3 => MpiStage::Finalizing,
            _ => return None,
        };
        Some(Seen { pid, stage, last_call: from.number()?.try_into().ok()?, rests: from.bool()? })
    }
}

fn write_exit(out: &mut FieldWriter, exit: Exit) {
    let (how, number) = match exit {
        Exit::Code(code) => (0, code),
        Exit::Signal(signal) => (1, signal),
        Exit::Unknown => (2, 0),
    };
    out.number(how);
    out.number(number.cast_unsigned().into());
}

fn read_exit(from: &mut FieldReader<'_>) -> Option<Exit> {
    Some(match (from.number()?, from.word()?.cast_signed()) {
        (0, code) => Exit::Code(code),
        (1, signal) => Exit::Signal(signal),
        (2, 0) => Exit::Unknown,
        _ => return None,
    })
}

mod kind {
    pub(crate) const READY: u8 = 65;
    pub(crate) const STARTED: u8 = 66;
    pub(crate) const FAILED: u8 = 67;
    pub(crate) const TEXT: u8 = 68;
    pub(crate) const REQUEST: u8 = 69;
    pub(crate) const OUTPUT: u8 = 70;
    pub(crate) const EXITED: u8 = 71;
    pub(crate) const SEEN: u8 = 72;
    pub(crate) const FOUND: u8 = 73;
    pub(crate) const INPUT_TAKEN: u8 = 74;
    pub(crate) const ALIVE: u8 = 75;
    pub(crate) const OF_RELAY: u8 = 76;
    pub(crate) const RELAY_ENDED: u8 = 77;
    pub(crate) const STOPPED: u8 = 78;
    pub(crate) const DESCRIBED: u8 = 79;
    pub(crate) const IMAGED: u8 = 80;
    pub(crate) const OF_PIECE: u8 = 81;
    pub(crate) const WANTS_IMAGES: u8 = 82;
    pub(crate) const RETURNED: u8 = 83;
}
