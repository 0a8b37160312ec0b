//! The messages between two `mpirun`s whose processes have to do with each other.
//!
//! They travel over a connection that keeps message boundaries ([`oxmpi_sys::local`]), some with a descriptor beside them. Who has
//! connected says [`Message::Hello`] first, and is answered by the same, or [`Message::Refused`]. From then on either side may
//! ask on behalf of a process of its own what that would ask its own launcher ([`crate::control`]), answers what the other asks,
//! and says what becomes of its processes. A process is named as in the launcher that it belongs to. All numbers are little
//! endian.

use crate::control::MAX_MESSAGE;

/// The version of this protocol. Launchers of different versions are not connected.
pub(crate) const VERSION: u8 = 3;

/// A message between launchers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Who the sender is.
    Hello(Hello),
    /// There will be no connection.
    Refused {
        /// Why, for a person.
        reason: String,
    },
    /// A process of the sender's asks. Answered by [`Message::Answer`], with the answer's descriptor beside it.
    Ask {
        /// Names the question in the answer.
        id: u32,
        /// Who asks.
        process: Resident,
        /// The request, encoded.
        request: Vec<u8>,
    },
    /// The answer to a question.
    Answer {
        /// Names the question.
        id: u32,
        /// The reply, encoded.
        reply: Vec<u8>,
    },
    /// A process of the sender's has ended.
    Exited {
        /// Its number.
        number: u32,
        /// Whether it ended as it should.
        is_well: bool,
    },
    /// A job of the sender's has failed, or is aborted, and so are all that are connected with it.
    Ending {
        /// The number of its first process.
        first: u32,
        /// The exit code.
        code: i32,
        /// What has happened, for a person.
        text: String,
    },
    /// The sender has given numbers to a job of the receiver's, and wants to know by [`Message::Exited`] who of it has ended
    /// already.
    Numbered {
        /// The number of its first process, as the receiver knows it.
        first: u32,
        /// How many processes it has.
        size: u32,
    },
    /// All processes of the sender have ended, and so will the connection. Nothing comes after it.
    Farewell,
}

/// Who a launcher is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Hello {
    /// Names all its jobs.
    pub(crate) universe: u64,
    /// Whom the sender means; 0: whoever is there.
    pub(crate) wanted: u64,
    /// Its place among the launchers of the user on this machine.
    pub(crate) place: u32,
    /// Whether memory is the only way of all its processes, on this machine.
    pub(crate) is_near: bool,
    /// Whether some of them are on other hosts.
    pub(crate) is_spread: bool,
    /// By which processes of the receiver prove who they are when they connect to the sender's over sockets.
    pub(crate) secret: [u8; 32],
}

/// A process, as its own launcher knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resident {
    /// Its number.
    pub(crate) number: u32,
    /// That of the first process of its job.
    pub(crate) first: u32,
    /// How many processes that job has.
    pub(crate) size: u32,
}

/// What no launcher of this version has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LinkError {
    /// It comes from another version.
    #[error("it speaks version {0} of the protocol between launchers, and this is version {VERSION}")]
    Version(u8),
    /// It is no message.
    #[error("a message of kind {0} makes no sense")]
    Nonsense(u8),
}

const HELLO: u8 = 1;
const REFUSED: u8 = 2;
const ASK: u8 = 3;
const ANSWER: u8 = 4;
const EXITED: u8 = 5;
const ENDING: u8 = 6;
const NUMBERED: u8 = 7;
const FAREWELL: u8 = 8;

impl Message {
    /// As bytes, at most [`MAX_MESSAGE`]: a longer text is cut. `None` if a request or reply is too long.
    pub(crate) fn encode(&self) -> Option<Vec<u8>> {
        let mut out = vec![VERSION];
        match self {
            Message::Hello(hello) => {
                out.push(HELLO);
                out.extend(hello.universe.to_le_bytes());
                out.extend(hello.wanted.to_le_bytes());
                out.extend(hello.place.to_le_bytes());
                out.push(hello.is_near.into());
                out.push(hello.is_spread.into());
                out.extend(hello.secret);
            }
            Message::Refused { reason } => {
                out.push(REFUSED);
                text(&mut out, reason);
            }
            Message::Ask { id, process, request } => {
                out.push(ASK);
                [*id, process.number, process.first, process.size]
                    .iter()
                    .for_each(|word| out.extend(word.to_le_bytes()));
                out.extend(request);
            }
            Message::Answer { id, reply } => {
                out.push(ANSWER);
                out.extend(id.to_le_bytes());
                out.extend(reply);
            }
            Message::Exited { number, is_well } => {
                out.push(EXITED);
                out.extend(number.to_le_bytes());
                out.push((*is_well).into());
            }
            Message::Ending { first, code, text: why } => {
                out.push(ENDING);
                out.extend(first.to_le_bytes());
                out.extend(code.to_le_bytes());
                text(&mut out, why);
            }
            Message::Numbered { first, size } => {
                out.push(NUMBERED);
                out.extend(first.to_le_bytes());
                out.extend(size.to_le_bytes());
            }
            Message::Farewell => out.push(FAREWELL),
        }
        (out.len() <= MAX_MESSAGE).then_some(out)
    }

    /// Reads a message.
    ///
    /// # Errors
    /// Anything that [`Message::encode`] cannot have made.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Message, LinkError> {
        let (version, kind, rest) = match bytes {
            [version, kind, rest @ ..] => (*version, *kind, rest),
            _ => return Err(LinkError::Nonsense(0)),
        };
        if version != VERSION {
            return Err(LinkError::Version(version));
        }
        let mut from = Reader(rest);
        let message = match kind {
            HELLO => from.hello().map(Message::Hello),
            REFUSED => from.text().map(|reason| Message::Refused { reason }),
            ASK => from.ask(),
            ANSWER => from.u32().map(|id| Message::Answer { id, reply: from.rest() }),
            EXITED => {
                from.u32().zip(from.bool()).map(|(number, is_well)| Message::Exited { number, is_well })
            }
            ENDING => from.ending(),
            NUMBERED => from.u32().zip(from.u32()).map(|(first, size)| Message::Numbered { first, size }),
            FAREWELL => Some(Message::Farewell),
            _ => None,
        };
        message.filter(|_| from.0.is_empty()).ok_or(LinkError::Nonsense(kind))
    }
}

/// Adds a text, as much of it as there is room for.
fn text(out: &mut Vec<u8>, text: &str) {
    let room = MAX_MESSAGE - out.len();
    out.extend(&text.as_bytes()[..text.floor_char_boundary(room)]);
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (array, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*array)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    fn bool(&mut self) -> Option<bool> {
        match self.array()? {
            [0] => Some(false),
            [1] => Some(true),
            _ => None,
        }
    }

    fn rest(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.0).to_vec()
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.rest()).ok()
    }

    fn hello(&mut self) -> Option<Hello> {
        Some(Hello {
            universe: self.u64()?,
            wanted: self.u64()?,
            place: self.u32()?,
            is_near: self.bool()?,
            is_spread: self.bool()?,
            secret: self.array()?,
        })
    }

    fn ask(&mut self) -> Option<Message> {
        let id = self.u32()?;
        let process = Resident { number: self.u32()?, first: self.u32()?, size: self.u32()? };
        let is_in = process.number.checked_sub(process.first).is_some_and(|rank| rank < process.size);
        is_in.then(|| Message::Ask { id, process, request: self.rest() })
    }

    fn ending(&mut self) -> Option<Message> {
        let first = self.u32()?;
        let code = self.u32()?.cast_signed();
        Some(Message::Ending { first, code, text: self.text()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_message_comes_back(universe: u64, number: u32, yes: bool, secret: [u8; 32], why in ".{0,80}") {
            let process = Resident { number: 5, first: 3, size: 3 };
            let hello = Hello { universe, wanted: 0, place: number, is_near: yes, is_spread: !yes, secret };
            for message in [
                Message::Hello(hello),
                Message::Refused { reason: why.clone() },
                Message::Ask { id: number, process, request: why.clone().into() },
                Message::Answer { id: number, reply: vec![1, 2] },
                Message::Exited { number, is_well: yes },
                Message::Ending { first: number, code: -1, text: why },
                Message::Numbered { first: number, size: 7 },
                Message::Farewell,
            ] {
                prop_assert_eq!(Message::decode(&message.encode().unwrap()), Ok(message));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            kind in 0u8..10,
            rest in proptest::collection::vec(any::<u8>(), 0..70),
        ) {
            let bytes = [vec![VERSION, kind], rest].concat();
            if let Ok(message) = Message::decode(&bytes) {
                prop_assert_eq!(message.encode(), Some(bytes));
            }
        }
    }

    #[test]
    fn what_is_too_long_is_cut_or_not_sent_and_a_stranger_is_told_apart() {
        let long = "ä".repeat(5000);
        let refused = Message::Refused { reason: long.clone() }.encode().unwrap();
        assert!(refused.len() <= MAX_MESSAGE && Message::decode(&refused).is_ok());
        let process = Resident { number: 5, first: 3, size: 3 };
        assert_eq!(Message::Ask { id: 1, process, request: long.into() }.encode(), None);
        let alien = Resident { number: 6, ..process };
        let bytes = Message::Ask { id: 1, process: alien, request: vec![] }.encode().unwrap();
        assert_eq!(Message::decode(&bytes), Err(LinkError::Nonsense(ASK)));
        assert_eq!(Message::decode(&[9, 1]), Err(LinkError::Version(9)));
    }
}
