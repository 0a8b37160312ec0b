//! What an agent tells the head: how far its ranks are, what they ask and write, and how they end.

use super::{StreamError, framed, read};
use std::net::SocketAddr;

use crate::codec::{Reader, Writer};
use crate::job::{Exit, Stage};
use crate::launch::{HeldRank, read_addresses, write_addresses};

/// What an agent tells the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FromAgent {
    /// Everything is made for the ranks; nothing runs yet.
    Ready {
        /// Where each can be reached.
        addresses: Vec<(u32, String)>,
        /// Where the relay of the host can be reached; empty if there is none.
        relay: String,
    },
    /// The ranks run.
    Started {
        /// Their process numbers there.
        pids: Vec<(u32, u32)>,
    },
    /// The ranks cannot be started, and none of them is left.
    Failed {
        /// The number of the first process of the job.
        base: u32,
        /// Whether it is the program that cannot be run.
        is_program: bool,
        /// Why, for a person.
        text: String,
    },
    /// The relay of the agent's host says something.
    Relay {
        /// The notice of `oxmpi_wire::relay`, encoded.
        notice: Vec<u8>,
    },
    /// It has ended.
    RelayEnded {
        /// Its process number.
        pid: u32,
        /// How.
        exit: Exit,
    },
    /// Something for the user, in whole lines.
    Text {
        /// It.
        text: String,
    },
    /// A process asks, or says something.
    Request {
        /// The process.
        rank: u32,
        /// The request of [`crate::control`], encoded.
        request: Vec<u8>,
        /// The contents of the descriptor beside it, if there is one.
        blob: Option<Vec<u8>>,
        /// How far the process is.
        seen: Seen,
    },
    /// What a process wrote.
    Output {
        /// The process.
        rank: u32,
        /// Whether to standard error.
        is_error: bool,
        /// The bytes; none: the process has closed it.
        bytes: Vec<u8>,
    },
    /// A process has ended.
    Exited {
        /// The process.
        rank: u32,
        /// How.
        exit: Exit,
        /// How far it was.
        seen: Seen,
    },
    /// How far the processes are.
    Seen(Vec<(u32, Seen)>),
    /// Where a process can be reached.
    Answer {
        /// Who has asked.
        asker: u32,
        /// The reply of [`crate::control`], encoded.
        reply: Vec<u8>,
    },
    /// A process has taken so much of its standard input.
    InputTaken {
        /// The process.
        rank: u32,
        /// How many bytes.
        bytes: u64,
    },
    /// All processes stand still, and all that they have said and written was passed on before.
    Stopped {
        /// The attempt.
        round: u32,
        /// Why they do not; empty if they do.
        error: String,
    },
    /// What has to be known of them.
    Described {
        /// The attempt.
        round: u32,
        /// Why that is not known; empty if it is.
        error: String,
        /// Whether one has not read an answer yet, so that they have to be stopped again.
        is_unread: bool,
        /// Each of them.
        ranks: Vec<HeldRank>,
        /// Where they listen.
        listeners: Vec<SocketAddr>,
    },
    /// A piece of a file of an image that was made in another directory than that of the set.
    Piece {
        /// The attempt.
        round: u32,
        /// Its path in the set. The pieces of a file follow each other, and it ends with another's first.
        name: String,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// The images that are to be restored are not seen on the agent's host: [`super::ToAgent::Piece`] has to bring them. It comes before
    /// [`FromAgent::Ready`].
    WantsImages,
    /// A call of the program's functions for checkpoints has returned on all ranks of the agent's host.
    Returned {
        /// The call.
        number: u32,
        /// Why one cannot call them; empty if all can.
        error: String,
        /// What each has returned.
        values: Vec<(u32, i32)>,
    },
    /// There are images of them, and all that had to be sent of them was.
    Imaged {
        /// The attempt.
        round: u32,
        /// Why not; empty if there are.
        error: String,
        /// What the tool that requested them has to know.
        facts: Vec<u8>,
    },
    /// The agent is there still; it says so from time to time.
    Alive,
}

/// What can be read of a rank from the header page of its segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Seen {
    /// The process id; 0 if not known.
    pub pid: u32,
    /// How far it has come.
    pub stage: Stage,
    /// The number of the MPI function that it called last; 0 if it called none.
    pub last_call: u16,
    /// Whether it has left MPI for now, and may come back.
    pub rests: bool,
}

impl FromAgent {
    /// As bytes, the length in front.
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

    /// Reads a message that an agent sent, its length in front.
    ///
    /// # Errors
    /// Anything that [`FromAgent::encode`] cannot have made.
    pub fn decode(bytes: &[u8]) -> Result<FromAgent, StreamError> {
        read(bytes, |kind, from| {
            Some(match kind {
                kind::READY => FromAgent::Ready {
                    addresses: from.list(|from| from.word().zip(from.text()))?,
                    relay: from.text()?,
                },
                kind::OF_RELAY => FromAgent::Relay { notice: from.bytes()? },
                kind::RELAY_ENDED => FromAgent::RelayEnded { pid: from.word()?, exit: read_exit(from)? },
                kind::STARTED => FromAgent::Started { pids: from.list(|from| from.word().zip(from.word()))? },
                kind::FAILED => {
                    FromAgent::Failed { base: from.word()?, is_program: from.bool()?, text: from.text()? }
                }
                kind::TEXT => FromAgent::Text { text: from.text()? },
                kind::REQUEST => FromAgent::Request {
                    rank: from.word()?,
                    request: from.bytes()?,
                    blob: from.option()?,
                    seen: Seen::read(from)?,
                },
                kind::OUTPUT => {
                    FromAgent::Output { rank: from.word()?, is_error: from.bool()?, bytes: from.bytes()? }
                }
                kind::EXITED => {
                    FromAgent::Exited { rank: from.word()?, exit: read_exit(from)?, seen: Seen::read(from)? }
                }
                kind::SEEN => FromAgent::Seen(from.list(|from| from.word().zip(Seen::read(from)))?),
                kind::FOUND => FromAgent::Answer { asker: from.word()?, reply: from.bytes()? },
                kind::INPUT_TAKEN => FromAgent::InputTaken { rank: from.word()?, bytes: from.number()? },
                kind::STOPPED => FromAgent::Stopped { round: from.word()?, error: from.text()? },
                kind::DESCRIBED => FromAgent::Described {
                    round: from.word()?,
                    error: from.text()?,
                    is_unread: from.bool()?,
                    ranks: from.list(HeldRank::read)?,
                    listeners: read_addresses(from)?,
                },
                kind::OF_PIECE => {
                    FromAgent::Piece { round: from.word()?, name: from.text()?, bytes: from.bytes()? }
                }
                kind::RETURNED => FromAgent::Returned {
                    number: from.word()?,
                    error: from.text()?,
                    values: from.list(|from| from.word().zip(from.word().map(u32::cast_signed)))?,
                },
                kind::WANTS_IMAGES => FromAgent::WantsImages,
                kind::IMAGED => {
                    FromAgent::Imaged { round: from.word()?, error: from.text()?, facts: from.bytes()? }
                }
                kind::ALIVE => FromAgent::Alive,
                _ => return None,
            })
        })
    }
}

impl Seen {
    fn write(&self, out: &mut Writer) {
        out.number(self.pid.into());
        out.number(match self.stage {
            Stage::Untouched => 0,
            Stage::Initialized => 1,
            Stage::Finalized => 2,
            Stage::Finalizing => 3,
        });
        out.number(self.last_call.into());
        out.number(self.rests.into());
    }

    fn read(from: &mut Reader<'_>) -> Option<Seen> {
        let pid = from.word()?;
        let stage = match from.number()? {
            0 => Stage::Untouched,
            1 => Stage::Initialized,
            2 => Stage::Finalized,
            3 => Stage::Finalizing,
            _ => return None,
        };
        Some(Seen { pid, stage, last_call: from.number()?.try_into().ok()?, rests: from.bool()? })
    }
}

fn write_exit(out: &mut Writer, exit: Exit) {
    let (how, number) = match exit {
        Exit::Code(code) => (0, code),
        Exit::Signal(signal) => (1, signal),
        Exit::Unknown => (2, 0),
    };
    out.number(how);
    out.number(number.cast_unsigned().into());
}

fn read_exit(from: &mut Reader<'_>) -> Option<Exit> {
    Some(match (from.number()?, from.word()?.cast_signed()) {
        (0, code) => Exit::Code(code),
        (1, signal) => Exit::Signal(signal),
        (2, 0) => Exit::Unknown,
        _ => return None,
    })
}

mod kind {
    pub(super) const READY: u8 = 65;
    pub(super) const STARTED: u8 = 66;
    pub(super) const FAILED: u8 = 67;
    pub(super) const TEXT: u8 = 68;
    pub(super) const REQUEST: u8 = 69;
    pub(super) const OUTPUT: u8 = 70;
    pub(super) const EXITED: u8 = 71;
    pub(super) const SEEN: u8 = 72;
    pub(super) const FOUND: u8 = 73;
    pub(super) const INPUT_TAKEN: u8 = 74;
    pub(super) const ALIVE: u8 = 75;
    pub(super) const OF_RELAY: u8 = 76;
    pub(super) const RELAY_ENDED: u8 = 77;
    pub(super) const STOPPED: u8 = 78;
    pub(super) const DESCRIBED: u8 = 79;
    pub(super) const IMAGED: u8 = 80;
    pub(super) const OF_PIECE: u8 = 81;
    pub(super) const WANTS_IMAGES: u8 = 82;
    pub(super) const RETURNED: u8 = 83;
}
