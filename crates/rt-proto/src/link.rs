//! The messages between two `mpirun`s whose processes communicate.
//!
//! They travel over a connection that keeps message boundaries ([`oxmpi_sys::local`]), some with a
//! descriptor. The side that has connected sends [`LinkMessage::Hello`] first; the answer is
//! another one, or [`LinkMessage::Refused`]. After that either side may forward the requests that
//! its processes would send to their own launcher ([`oxmpi_rt_client::control`]), answers requests,
//! and reports the ends of its processes. A process has the number that its own launcher uses. All
//! numbers are little endian.

use oxmpi_rt_client::control::MAX_MESSAGE;

/// Launchers of different versions do not connect.
pub const VERSION: u8 = 3;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkMessage {
    Hello(Hello),
    Refused {
        reason: String,
    },
    /// A request of a process of the sender. Answered by [`LinkMessage::Answer`], with the answer's
    /// descriptor.
    Ask {
        id: u32,
        process: Resident,
        request: Vec<u8>,
    },
    Answer {
        id: u32,
        reply: Vec<u8>,
    },
    Exited {
        number: u32,
        /// Whether other launchers need not react.
        is_well: bool,
    },
    /// A job of the sender has failed or is aborted, and so are all jobs connected with it.
    Ending {
        /// The number of the job's first process.
        first: u32,
        code: i32,
        /// The cause, for the user.
        text: String,
    },
    /// The sender has given numbers to a job of the receiver; the answer is a
    /// [`LinkMessage::Exited`] for each process of the job that has ended already.
    Numbered {
        /// The number of the job's first process in the receiver.
        first: u32,
        size: u32,
    },
    /// The last message: all processes of the sender have ended, and the connection ends.
    Farewell,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Identifies all jobs of the sender.
    pub universe: u64,
    /// The launcher that the sender expects; 0: any.
    pub wanted: u64,
    /// The sender's number among the user's launchers on this machine.
    pub place: u32,
    /// Whether all processes of the sender are on this machine and communicate only through memory.
    pub is_near: bool,
    /// Whether some processes of the sender are on other hosts.
    pub is_spread: bool,
    /// Authenticates the receiver's processes that connect to the sender's over sockets.
    pub secret: [u8; 32],
}

/// A process, as its own launcher identifies it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resident {
    pub number: u32,
    /// The number of the first process of its job.
    pub first: u32,
    pub size: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LinkError {
    #[error(
        "it speaks version {0} of the protocol between launchers, and this is version {VERSION}"
    )]
    Version(u8),
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

impl LinkMessage {
    /// Encodes the message in at most [`MAX_MESSAGE`] bytes: a longer text is cut. `None` if a
    /// request or reply is too long.
    pub fn encode(&self) -> Option<Vec<u8>> {
        let mut out = vec![VERSION];
        match self {
            LinkMessage::Hello(hello) => {
                out.push(HELLO);
                out.extend(hello.universe.to_le_bytes());
                out.extend(hello.wanted.to_le_bytes());
                out.extend(hello.place.to_le_bytes());
                out.push(hello.is_near.into());
                out.push(hello.is_spread.into());
                out.extend(hello.secret);
            }
            LinkMessage::Refused { reason } => {
                out.push(REFUSED);
                text(&mut out, reason);
            }
            LinkMessage::Ask { id, process, request } => {
                out.push(ASK);
                [*id, process.number, process.first, process.size]
                    .iter()
                    .for_each(|word| out.extend(word.to_le_bytes()));
                out.extend(request);
            }
            LinkMessage::Answer { id, reply } => {
                out.push(ANSWER);
                out.extend(id.to_le_bytes());
                out.extend(reply);
            }
            LinkMessage::Exited { number, is_well } => {
                out.push(EXITED);
                out.extend(number.to_le_bytes());
                out.push((*is_well).into());
            }
            LinkMessage::Ending { first, code, text: why } => {
                out.push(ENDING);
                out.extend(first.to_le_bytes());
                out.extend(code.to_le_bytes());
                text(&mut out, why);
            }
            LinkMessage::Numbered { first, size } => {
                out.push(NUMBERED);
                out.extend(first.to_le_bytes());
                out.extend(size.to_le_bytes());
            }
            LinkMessage::Farewell => out.push(FAREWELL),
        }
        (out.len() <= MAX_MESSAGE).then_some(out)
    }

    /// Reads a message; an error for bytes that [`LinkMessage::encode`] cannot have written.
    pub fn decode(bytes: &[u8]) -> Result<LinkMessage, LinkError> {
        let (version, kind, rest) = match bytes {
            [version, kind, rest @ ..] => (*version, *kind, rest),
            _ => return Err(LinkError::Nonsense(0)),
        };
        if version != VERSION {
            return Err(LinkError::Version(version));
        }
        let mut from = LinkReader(rest);
        let message = match kind {
            HELLO => from.hello().map(LinkMessage::Hello),
            REFUSED => from.text().map(|reason| LinkMessage::Refused { reason }),
            ASK => from.ask(),
            ANSWER => from.u32().map(|id| LinkMessage::Answer { id, reply: from.rest() }),
            EXITED => from
                .u32()
                .zip(from.bool())
                .map(|(number, is_well)| LinkMessage::Exited { number, is_well }),
            ENDING => from.ending(),
            NUMBERED => from
                .u32()
                .zip(from.u32())
                .map(|(first, size)| LinkMessage::Numbered { first, size }),
            FAREWELL => Some(LinkMessage::Farewell),
            _ => None,
        };
        message.filter(|_| from.0.is_empty()).ok_or(LinkError::Nonsense(kind))
    }
}

/// Appends a text, cut to the room that is left.
fn text(out: &mut Vec<u8>, text: &str) {
    let room = MAX_MESSAGE - out.len();
    out.extend(&text.as_bytes()[..text.floor_char_boundary(room)]);
}

struct LinkReader<'a>(&'a [u8]);

impl LinkReader<'_> {
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

    fn ask(&mut self) -> Option<LinkMessage> {
        let id = self.u32()?;
        let process = Resident { number: self.u32()?, first: self.u32()?, size: self.u32()? };
        let is_in =
            process.number.checked_sub(process.first).is_some_and(|rank| rank < process.size);
        is_in.then(|| LinkMessage::Ask { id, process, request: self.rest() })
    }

    fn ending(&mut self) -> Option<LinkMessage> {
        let first = self.u32()?;
        let code = self.u32()?.cast_signed();
        Some(LinkMessage::Ending { first, code, text: self.text()? })
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
                LinkMessage::Hello(hello),
                LinkMessage::Refused { reason: why.clone() },
                LinkMessage::Ask { id: number, process, request: why.clone().into() },
                LinkMessage::Answer { id: number, reply: vec![1, 2] },
                LinkMessage::Exited { number, is_well: yes },
                LinkMessage::Ending { first: number, code: -1, text: why },
                LinkMessage::Numbered { first: number, size: 7 },
                LinkMessage::Farewell,
            ] {
                prop_assert_eq!(LinkMessage::decode(&message.encode().unwrap()), Ok(message));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused(
            kind in 0u8..10,
            rest in proptest::collection::vec(any::<u8>(), 0..70),
        ) {
            let bytes = [vec![VERSION, kind], rest].concat();
            if let Ok(message) = LinkMessage::decode(&bytes) {
                prop_assert_eq!(message.encode(), Some(bytes));
            }
        }
    }

    #[test]
    fn long_messages_are_cut_or_not_sent_and_other_versions_are_refused() {
        let long = "ä".repeat(5000);
        let refused = LinkMessage::Refused { reason: long.clone() }.encode().unwrap();
        assert!(refused.len() <= MAX_MESSAGE && LinkMessage::decode(&refused).is_ok());
        let process = Resident { number: 5, first: 3, size: 3 };
        assert_eq!(LinkMessage::Ask { id: 1, process, request: long.into() }.encode(), None);
        let alien = Resident { number: 6, ..process };
        let bytes = LinkMessage::Ask { id: 1, process: alien, request: vec![] }.encode().unwrap();
        assert_eq!(LinkMessage::decode(&bytes), Err(LinkError::Nonsense(ASK)));
        assert_eq!(LinkMessage::decode(&[9, 1]), Err(LinkError::Version(9)));
    }
}
