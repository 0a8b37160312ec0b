//! The messages between a rank and `mpirun`.
//!
//! They travel over a socket that keeps message boundaries (`SOCK_SEQPACKET`), so one message is
//! one packet. `mpirun` only answers requests of a rank. All numbers are little endian.
//!
//! | byte | meaning |
//! |---|---|
//! | 0 | version of this protocol, [`VERSION`] |
//! | 1 | kind |
//! | 2-5 | rank, or another number, such as the code of an abort |
//! | 6- | text in UTF-8, or nothing |
//!
//! The answers [`Reply::Segment`], [`Reply::Listener`], [`Reply::Relay`] and [`Reply::Given`] carry
//! a descriptor (`SCM_RIGHTS`), and so do some requests: data longer than a message are in a file.

use crate::client::to_hex;

/// Rank and `mpirun` must come from one installation: different versions are refused.
pub const VERSION: u8 = 3;

/// In bytes. Longer texts are cut.
pub const MAX_MESSAGE: usize = 4096;

const HEADER: usize = 6;

/// A message from a rank to `mpirun`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Requests the segment of this rank. Answered by a [`Reply`].
    Segment {
        rank: u32,
    },
    /// Requests the sender's own listening socket, in a job over sockets. Answered by
    /// [`Reply::Listener`] or a refusal.
    Listener,
    /// Requests a rank's socket addresses. Answered by [`Reply::Addresses`], [`Reply::Left`] or a
    /// refusal.
    Addresses {
        rank: u32,
    },
    /// Spawns the processes in the file beside this message ([`crate::universe::Spawn`]). Answered
    /// by [`Reply::Done`] with the number of the first process and, as the text, the number of
    /// processes; or a refusal.
    Spawn,
    /// Requests the parent of this job. Answered by [`Reply::Given`] ([`crate::universe::Parent`])
    /// or a refusal.
    Parent,
    /// The sender has a communicator with processes of other jobs; the file beside this message
    /// lists the numbers of all. Not answered.
    Bound {
        bond: u64,
    },
    /// The sender has freed that communicator. Not answered.
    Released {
        bond: u64,
    },
    /// Queries whether every process has freed this communicator. Answered by [`Reply::Done`]: 1,
    /// or 0 if a process still has it.
    Bond {
        bond: u64,
    },
    OpenPort,
    ClosePort {
        port: String,
    },
    /// Meets another process at a port; the file beside this message is for that process. Answered
    /// by [`Reply::Given`] if the other process waits there, which the sender must then contact; by
    /// [`Reply::Done`] with the number of a ticket if none waits; or by a refusal.
    Meet {
        /// True: accept. False: connect.
        accepts: bool,
        port: String,
    },
    /// Queries a ticket. Answered by [`Reply::Done`]: 0 if the ticket waits, else 1 more than the
    /// process that it has met. Refused if it can meet nobody, or the process that it met has
    /// ended.
    Ticket {
        ticket: u32,
        port: String,
    },
    /// As `Ticket`, and gives a waiting ticket back.
    GiveBack {
        ticket: u32,
        port: String,
    },
    /// Makes the sender's launcher reachable for other launchers. Answered by [`Reply::Done`] with
    /// the launcher's number among the user's launchers on this machine, or a refusal.
    Reach,
    /// Requests the names of processes, whose numbers are in the file beside this message. Answered
    /// by [`Reply::Given`] ([`crate::universe::ProcessName`]), or a refusal.
    Names,
    /// Requests the numbers of processes in this launcher, whose names are in the file beside this
    /// message. Answered by [`Reply::Given`], or a refusal.
    Numbers,
    /// Requests the secret by which processes of another launcher authenticate over sockets.
    /// Answered by [`Reply::Done`] with hexadecimal digits, or a refusal.
    Secret {
        universe: u64,
    },
    Publish {
        port: String,
        service: String,
        /// Also to the user's other launchers on this machine.
        everywhere: bool,
    },
    Unpublish {
        port: String,
        service: String,
    },
    LookUp {
        service: String,
    },
    /// Requests the process of a failure. Failures are numbered from 0; the status line of the
    /// segment has their count. Answered by [`Reply::Death`] or a refusal.
    Death {
        number: u32,
    },
    /// Requests the alarm of a process, in a job with sockets. Answered by [`Reply::Alarm`] or a
    /// refusal.
    Alarm {
        rank: u32,
    },
    /// Requests the sender's socket to the daemon of its node, in a job whose messages go through
    /// daemons. Answered by [`Reply::Relay`] or a refusal.
    Relay,
    /// Requests a further listening socket for processes of other launchers that share no memory
    /// with the sender. Answered by [`Reply::Listener`], by [`Reply::Done`] if the sender needs no
    /// further one, or a refusal.
    Abroad,
    /// Requests the nodes of the processes from a number on. Answered by [`Reply::Given`], a number
    /// for each.
    Nodes {
        from: u32,
    },
    /// The sender has taken the step of a quiescence (or of its end) with this number, as in its
    /// segment. Not answered.
    Quiesced {
        step: u32,
    },
    /// Requests the postbox segment of the sender's job on its node. Answered by
    /// [`Reply::Postboxes`] or a refusal.
    Postboxes,
    /// The sender descends from a rank's process and wants to be the rank. The first message of a
    /// new connection. Answered, possibly later, by [`Reply::Segment`], by [`Reply::Refused`] if
    /// the sender is a singleton, or by [`Reply::Failed`].
    Enter {
        number: u32,
        secret: String,
    },
    /// The sender is the rank, and its control socket was closed: this connection replaces it.
    /// Answered by [`Reply::Done`] or a refusal.
    Return {
        number: u32,
        secret: String,
    },
    /// From a tool, as the first message of a new connection: queries the job and whether it can be
    /// imaged now. Answered by [`Reply::Done`] with the job's facts as the text, or by
    /// [`Reply::Refused`] with the reason.
    Describe,
    /// From a tool, as the first message of a new connection: quiesces the messages of all jobs and
    /// makes their connections anew. Answered by [`Reply::Done`] with a line for the user when all
    /// ranks continue, or by [`Reply::Refused`] with the reason.
    Quiesce {
        /// Time after which processes that have not come to rest cause a refusal.
        limit_ms: u32,
    },
    /// From a tool, as the first message of a new connection: holds all processes of the job for
    /// imaging, until [`Request::Imaged`] or the end of the connection. Answered by
    /// [`Reply::Given`] with the facts that imaging needs ([`crate::launch::Held`]), or by
    /// [`Reply::Refused`] with the reason.
    Hold,
    /// From the sender of [`Request::Hold`], on the same connection: all images are complete.
    /// Answered by [`Reply::Done`], or by [`Reply::Refused`] with the reason if the processes have
    /// not been held throughout. The processes continue unless the job is to end.
    Imaged {
        ends: bool,
    },
    /// From the same sender: images the processes on other hosts there. Answered by
    /// [`Reply::Given`] with the agents' results, or by [`Reply::Refused`].
    ImageFar {
        /// The directory, in the form that the agents' program reads.
        place: String,
    },
    /// From a tool: calls the program's checkpoint functions (`cr self`) that save its state, or
    /// the ones that continue it. Answered by [`Reply::Done`] when all have returned 0, or by
    /// [`Reply::Refused`].
    CallFunctions {
        saves: bool,
    },
    /// From the same sender: the checkpoint is on disk, end the job. Answered as
    /// [`Request::Imaged`].
    EndHeld {
        set: String,
    },
    /// Ends the job: MPI_Abort (MPI-5.0 section 9.4.1 "Startup"), or an error that the program did
    /// not handle. Not answered.
    Abort {
        /// The exit status of `mpirun`.
        code: i32,
        /// The job's report; only the first one is printed.
        text: String,
    },
    /// Prints this warning once, even if several ranks send it. Not answered.
    Say {
        text: String,
    },
}

/// An answer of `mpirun`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Segment {
        rank: u32,
        /// If the peer belongs to another launcher: [`crate::universe::Contact`]; else empty.
        contact: String,
    },
    /// The descriptor is the alarm of `rank`, which wakes it from a sleep on descriptors.
    Alarm {
        rank: u32,
    },
    Listener {
        incarnation: u32,
        secret: String,
    },
    Relay,
    Addresses {
        rank: u32,
        /// Separated by blanks. If the peer belongs to another launcher, a line with its
        /// [`crate::universe::Contact`] and a line with the secret come first.
        addresses: String,
    },
    Left {
        rank: u32,
    },
    Done {
        number: u32,
        text: String,
    },
    Postboxes {
        /// The number of its ranks, the bytes of a postbox and of the pool, and the rank's
        /// semaphore sets, separated by blanks.
        shape: String,
    },
    Given,
    Death {
        /// The number among all processes of the launcher.
        process: u32,
    },
    /// The process cannot be the rank that it wants to be, and must not be a singleton.
    Failed {
        reason: String,
    },
    Refused {
        rank: u32,
        reason: String,
    },
}

/// Why a message is malformed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// Shorter than a header, too long, or with a text where none belongs.
    #[error("a control message of kind {kind} has {length} bytes")]
    Length {
        /// 0 if the message has no kind.
        kind: u8,
        length: usize,
    },
    #[error(
        "control protocol version {found}, but this is version {VERSION}: mpirun and the library do not come from the same installation"
    )]
    Version { found: u8 },
    #[error("unknown kind of control message: {kind}")]
    Kind { kind: u8 },
    #[error("the text of a control message of kind {kind} makes no sense")]
    Text { kind: u8 },
}

mod kind {
    pub(super) const SEGMENT: u8 = 1;
    pub(super) const ABORT: u8 = 2;
    pub(super) const SAY: u8 = 3;
    pub(super) const LISTENER: u8 = 4;
    pub(super) const ADDRESSES: u8 = 5;
    pub(super) const SPAWN: u8 = 6;
    pub(super) const PARENT: u8 = 7;
    pub(super) const BOUND: u8 = 8;
    pub(super) const RELEASED: u8 = 9;
    pub(super) const OPEN_PORT: u8 = 10;
    pub(super) const CLOSE_PORT: u8 = 11;
    pub(super) const MEET: u8 = 12;
    pub(super) const TICKET: u8 = 13;
    pub(super) const GIVE_BACK: u8 = 14;
    pub(super) const PUBLISH: u8 = 15;
    pub(super) const UNPUBLISH: u8 = 16;
    pub(super) const LOOK_UP: u8 = 17;
    pub(super) const BOND: u8 = 18;
    pub(super) const DEATH: u8 = 19;
    pub(super) const REACH: u8 = 20;
    pub(super) const NAMES: u8 = 21;
    pub(super) const NUMBERS: u8 = 22;
    pub(super) const SECRET: u8 = 23;
    pub(super) const ALARM: u8 = 24;
    pub(super) const NODES: u8 = 25;
    pub(super) const QUIESCED: u8 = 26;
    pub(super) const POSTBOXES: u8 = 40;
    pub(super) const RELAY: u8 = 41;
    pub(super) const ABROAD: u8 = 42;
    pub(super) const ENTER: u8 = 43;
    pub(super) const RETURN: u8 = 44;
    pub(super) const DESCRIBE: u8 = 45;
    pub(super) const QUIESCE: u8 = 46;
    pub(super) const HOLD: u8 = 47;
    pub(super) const IMAGED: u8 = 48;
    pub(super) const END_HELD: u8 = 49;
    pub(super) const IMAGE_FAR: u8 = 50;
    pub(super) const CALL_FUNCTIONS: u8 = 51;
    pub(super) const HERE: u8 = 65;
    pub(super) const REFUSED: u8 = 66;
    pub(super) const LISTEN_HERE: u8 = 67;
    pub(super) const FOUND: u8 = 68;
    pub(super) const LEFT: u8 = 69;
    pub(super) const DONE: u8 = 70;
    pub(super) const GIVEN: u8 = 71;
    pub(super) const DIED: u8 = 72;
    pub(super) const ALARM_HERE: u8 = 73;
    pub(super) const POSTBOXES_HERE: u8 = 90;
    pub(super) const RELAY_HERE: u8 = 100;
    pub(super) const FAILED: u8 = 101;
}

impl Request {
    /// Encodes the message in at most [`MAX_MESSAGE`] bytes: a longer text is cut.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Request::Segment { rank } => encode(kind::SEGMENT, *rank, ""),
            Request::Abort { code, text } => encode(kind::ABORT, code.cast_unsigned(), text),
            Request::Say { text } => encode(kind::SAY, 0, text),
            Request::Listener => encode(kind::LISTENER, 0, ""),
            Request::Addresses { rank } => encode(kind::ADDRESSES, *rank, ""),
            Request::Spawn => encode(kind::SPAWN, 0, ""),
            Request::Parent => encode(kind::PARENT, 0, ""),
            Request::Bound { bond } => encode(kind::BOUND, 0, &bond.to_string()),
            Request::Bond { bond } => encode(kind::BOND, 0, &bond.to_string()),
            Request::Released { bond } => encode(kind::RELEASED, 0, &bond.to_string()),
            Request::OpenPort => encode(kind::OPEN_PORT, 0, ""),
            Request::ClosePort { port } => encode(kind::CLOSE_PORT, 0, port),
            Request::Meet { accepts, port } => encode(kind::MEET, (*accepts).into(), port),
            Request::Ticket { ticket, port } => encode(kind::TICKET, *ticket, port),
            Request::GiveBack { ticket, port } => encode(kind::GIVE_BACK, *ticket, port),
            Request::Reach => encode(kind::REACH, 0, ""),
            Request::Names => encode(kind::NAMES, 0, ""),
            Request::Numbers => encode(kind::NUMBERS, 0, ""),
            Request::Secret { universe } => encode(kind::SECRET, 0, &universe.to_string()),
            Request::Publish { port, service, everywhere } => {
                encode(kind::PUBLISH, (*everywhere).into(), &format!("{port}\n{service}"))
            }
            Request::Unpublish { port, service } => {
                encode(kind::UNPUBLISH, 0, &format!("{port}\n{service}"))
            }
            Request::Death { number } => encode(kind::DEATH, *number, ""),
            Request::Alarm { rank } => encode(kind::ALARM, *rank, ""),
            Request::Nodes { from } => encode(kind::NODES, *from, ""),
            Request::Quiesced { step } => encode(kind::QUIESCED, *step, ""),
            Request::Postboxes => encode(kind::POSTBOXES, 0, ""),
            Request::Relay => encode(kind::RELAY, 0, ""),
            Request::Enter { number, secret } => encode(kind::ENTER, *number, secret),
            Request::Return { number, secret } => encode(kind::RETURN, *number, secret),
            Request::Abroad => encode(kind::ABROAD, 0, ""),
            Request::Describe => encode(kind::DESCRIBE, 0, ""),
            Request::Quiesce { limit_ms } => encode(kind::QUIESCE, *limit_ms, ""),
            Request::Hold => encode(kind::HOLD, 0, ""),
            Request::Imaged { ends } => encode(kind::IMAGED, (*ends).into(), ""),
            Request::EndHeld { set } => encode(kind::END_HELD, 0, set),
            Request::ImageFar { place } => encode(kind::IMAGE_FAR, 0, place),
            Request::CallFunctions { saves } => encode(kind::CALL_FUNCTIONS, (*saves).into(), ""),
            Request::LookUp { service } => encode(kind::LOOK_UP, 0, service),
        }
    }

    /// Reads a message of a rank; an error for bytes that [`Request::encode`] cannot have written.
    pub fn decode(bytes: &[u8]) -> Result<Request, DecodeError> {
        let (kind, number, text) = split(bytes)?;
        match kind {
            kind::SEGMENT => no_text(kind, text).map(|()| Request::Segment { rank: number }),
            kind::ABORT => {
                Ok(Request::Abort { code: number.cast_signed(), text: utf8(kind, text)? })
            }
            kind::SAY if number == 0 => Ok(Request::Say { text: utf8(kind, text)? }),
            kind::LISTENER if number == 0 => no_text(kind, text).map(|()| Request::Listener),
            kind::ADDRESSES => no_text(kind, text).map(|()| Request::Addresses { rank: number }),
            kind::TICKET => Ok(Request::Ticket { ticket: number, port: utf8(kind, text)? }),
            kind::GIVE_BACK => Ok(Request::GiveBack { ticket: number, port: utf8(kind, text)? }),
            kind::ENTER => Ok(Request::Enter { number, secret: utf8(kind, text)? }),
            kind::RETURN => Ok(Request::Return { number, secret: utf8(kind, text)? }),
            kind::DEATH => no_text(kind, text).map(|()| Request::Death { number }),
            kind::ALARM => no_text(kind, text).map(|()| Request::Alarm { rank: number }),
            kind::NODES => no_text(kind, text).map(|()| Request::Nodes { from: number }),
            kind::QUIESCED => no_text(kind, text).map(|()| Request::Quiesced { step: number }),
            kind::QUIESCE => no_text(kind, text).map(|()| Request::Quiesce { limit_ms: number }),
            kind::IMAGED if number < 2 => {
                no_text(kind, text).map(|()| Request::Imaged { ends: number == 1 })
            }
            kind::CALL_FUNCTIONS if number < 2 => {
                no_text(kind, text).map(|()| Request::CallFunctions { saves: number == 1 })
            }
            kind::MEET if number < 2 => {
                Ok(Request::Meet { accepts: number == 1, port: utf8(kind, text)? })
            }
            kind::PUBLISH if number < 2 => {
                let (port, service) = pair(kind, text)?;
                Ok(Request::Publish { port, service, everywhere: number == 1 })
            }
            _ if number != 0 => Err(DecodeError::Kind { kind }),
            kind::POSTBOXES => no_text(kind, text).map(|()| Request::Postboxes),
            kind::REACH => no_text(kind, text).map(|()| Request::Reach),
            kind::RELAY => no_text(kind, text).map(|()| Request::Relay),
            kind::ABROAD => no_text(kind, text).map(|()| Request::Abroad),
            kind::DESCRIBE => no_text(kind, text).map(|()| Request::Describe),
            kind::HOLD => no_text(kind, text).map(|()| Request::Hold),
            kind::END_HELD => Ok(Request::EndHeld { set: utf8(kind, text)? }),
            kind::IMAGE_FAR => Ok(Request::ImageFar { place: utf8(kind, text)? }),
            kind::NAMES => no_text(kind, text).map(|()| Request::Names),
            kind::NUMBERS => no_text(kind, text).map(|()| Request::Numbers),
            kind::SECRET => Ok(Request::Secret { universe: decimal(kind, text)? }),
            kind::SPAWN => no_text(kind, text).map(|()| Request::Spawn),
            kind::PARENT => no_text(kind, text).map(|()| Request::Parent),
            kind::BOUND => Ok(Request::Bound { bond: decimal(kind, text)? }),
            kind::RELEASED => Ok(Request::Released { bond: decimal(kind, text)? }),
            kind::BOND => Ok(Request::Bond { bond: decimal(kind, text)? }),
            kind::OPEN_PORT => no_text(kind, text).map(|()| Request::OpenPort),
            kind::CLOSE_PORT => Ok(Request::ClosePort { port: utf8(kind, text)? }),
            kind::UNPUBLISH => {
                pair(kind, text).map(|(port, service)| Request::Unpublish { port, service })
            }
            kind::LOOK_UP => Ok(Request::LookUp { service: utf8(kind, text)? }),
            _ => Err(DecodeError::Kind { kind }),
        }
    }
}

impl Reply {
    /// The answer to [`Request::Listener`]; `is_there`: the socket has not been sent yet.
    pub fn listener(rank: u32, is_there: bool, (incarnation, secret): (u32, &[u8; 32])) -> Reply {
        if is_there {
            return Reply::Listener { incarnation, secret: to_hex(secret) };
        }
        let reason = "there is no listening socket for it, or it has got one".to_string();
        Reply::Refused { rank, reason }
    }

    /// Encodes the message in at most [`MAX_MESSAGE`] bytes: a longer text is cut.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Reply::Segment { rank, contact } => encode(kind::HERE, *rank, contact),
            Reply::Refused { rank, reason } => encode(kind::REFUSED, *rank, reason),
            Reply::Listener { incarnation, secret } => {
                encode(kind::LISTEN_HERE, *incarnation, secret)
            }
            Reply::Addresses { rank, addresses } => encode(kind::FOUND, *rank, addresses),
            Reply::Left { rank } => encode(kind::LEFT, *rank, ""),
            Reply::Done { number, text } => encode(kind::DONE, *number, text),
            Reply::Postboxes { shape } => encode(kind::POSTBOXES_HERE, 0, shape),
            Reply::Given => encode(kind::GIVEN, 0, ""),
            Reply::Death { process } => encode(kind::DIED, *process, ""),
            Reply::Alarm { rank } => encode(kind::ALARM_HERE, *rank, ""),
            Reply::Failed { reason } => encode(kind::FAILED, 0, reason),
            Reply::Relay => encode(kind::RELAY_HERE, 0, ""),
        }
    }

    /// Reads a message of `mpirun`; an error for bytes that [`Reply::encode`] cannot have written.
    pub fn decode(bytes: &[u8]) -> Result<Reply, DecodeError> {
        let (kind, number, text) = split(bytes)?;
        match kind {
            kind::HERE => Ok(Reply::Segment { rank: number, contact: utf8(kind, text)? }),
            kind::REFUSED => Ok(Reply::Refused { rank: number, reason: utf8(kind, text)? }),
            kind::LISTEN_HERE => {
                Ok(Reply::Listener { incarnation: number, secret: utf8(kind, text)? })
            }
            kind::FOUND => Ok(Reply::Addresses { rank: number, addresses: utf8(kind, text)? }),
            kind::LEFT => no_text(kind, text).map(|()| Reply::Left { rank: number }),
            kind::DONE => Ok(Reply::Done { number, text: utf8(kind, text)? }),
            kind::POSTBOXES_HERE if number == 0 => {
                Ok(Reply::Postboxes { shape: utf8(kind, text)? })
            }
            kind::GIVEN if number == 0 => no_text(kind, text).map(|()| Reply::Given),
            kind::DIED => no_text(kind, text).map(|()| Reply::Death { process: number }),
            kind::ALARM_HERE => no_text(kind, text).map(|()| Reply::Alarm { rank: number }),
            kind::FAILED if number == 0 => Ok(Reply::Failed { reason: utf8(kind, text)? }),
            kind::RELAY_HERE if number == 0 => no_text(kind, text).map(|()| Reply::Relay),
            _ => Err(DecodeError::Kind { kind }),
        }
    }
}

fn encode(kind: u8, number: u32, text: &str) -> Vec<u8> {
    let text = &text[..text.floor_char_boundary(MAX_MESSAGE - HEADER)];
    let mut out = Vec::with_capacity(HEADER + text.len());
    out.extend([VERSION, kind]);
    out.extend(number.to_le_bytes());
    out.extend(text.as_bytes());
    out
}

fn split(bytes: &[u8]) -> Result<(u8, u32, &[u8]), DecodeError> {
    let kind = bytes.get(1).copied().unwrap_or(0);
    match bytes.first() {
        Some(&VERSION) => {}
        Some(&found) => return Err(DecodeError::Version { found }),
        None => return Err(DecodeError::Length { kind, length: 0 }),
    }
    if bytes.len() > MAX_MESSAGE {
        return Err(DecodeError::Length { kind, length: bytes.len() });
    }
    match bytes.split_first_chunk::<HEADER>() {
        Some((&[_, kind, a, b, c, d], text)) => Ok((kind, u32::from_le_bytes([a, b, c, d]), text)),
        None => Err(DecodeError::Length { kind, length: bytes.len() }),
    }
}

fn no_text(kind: u8, text: &[u8]) -> Result<(), DecodeError> {
    if text.is_empty() {
        Ok(())
    } else {
        Err(DecodeError::Length { kind, length: HEADER + text.len() })
    }
}

fn utf8(kind: u8, text: &[u8]) -> Result<String, DecodeError> {
    String::from_utf8(text.to_vec()).map_err(|_| DecodeError::Text { kind })
}

/// A number in its shortest decimal form.
fn decimal(kind: u8, text: &[u8]) -> Result<u64, DecodeError> {
    let number = utf8(kind, text)?.parse::<u64>().ok().filter(|n| n.to_string().as_bytes() == text);
    number.ok_or(DecodeError::Text { kind })
}

/// A port and a name, separated by a newline.
fn pair(kind: u8, text: &[u8]) -> Result<(String, String), DecodeError> {
    let text = utf8(kind, text)?;
    let (port, service) = text.split_once('\n').ok_or(DecodeError::Text { kind })?;
    Ok((port.into(), service.into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn requests() -> impl Strategy<Value = Request> {
        prop_oneof![
            any::<u32>().prop_map(|rank| Request::Segment { rank }),
            any::<u32>().prop_map(|rank| Request::Addresses { rank }),
            any::<u32>().prop_map(|number| Request::Death { number }),
            any::<u32>().prop_map(|step| Request::Quiesced { step }),
            (any::<u32>(), ".{0,80}")
                .prop_map(|(number, secret)| Request::Enter { number, secret }),
            (any::<u32>(), ".{0,80}")
                .prop_map(|(number, secret)| Request::Return { number, secret }),
            Just(Request::Listener),
            Just(Request::Relay),
            Just(Request::Abroad),
            Just(Request::Describe),
            Just(Request::Hold),
            any::<bool>().prop_map(|ends| Request::Imaged { ends }),
            any::<bool>().prop_map(|saves| Request::CallFunctions { saves }),
            ".{0,80}".prop_map(|set| Request::EndHeld { set }),
            ".{0,80}".prop_map(|place| Request::ImageFar { place }),
            any::<u32>().prop_map(|limit_ms| Request::Quiesce { limit_ms }),
            (any::<i32>(), ".{0,80}").prop_map(|(code, text)| Request::Abort { code, text }),
            ".{0,80}".prop_map(|text| Request::Say { text }),
            Just(Request::Spawn),
            Just(Request::Parent),
            Just(Request::OpenPort),
            any::<u64>().prop_map(|bond| Request::Bound { bond }),
            any::<u64>().prop_map(|bond| Request::Released { bond }),
            any::<u64>().prop_map(|bond| Request::Bond { bond }),
            (any::<u32>(), ".{0,80}").prop_map(|(ticket, port)| Request::Ticket { ticket, port }),
            (any::<u32>(), ".{0,80}").prop_map(|(ticket, port)| Request::GiveBack { ticket, port }),
            Just(Request::Postboxes),
            Just(Request::Reach),
            Just(Request::Names),
            Just(Request::Numbers),
            any::<u64>().prop_map(|universe| Request::Secret { universe }),
            (any::<bool>(), ".{0,80}").prop_map(|(accepts, port)| Request::Meet { accepts, port }),
            ".{0,80}".prop_map(|port| Request::ClosePort { port }),
            ".{0,80}".prop_map(|service| Request::LookUp { service }),
            (".{0,80}", ".{0,80}", any::<bool>()).prop_map(|(port, service, everywhere)| {
                Request::Publish { port, service, everywhere }
            }),
            (".{0,80}", ".{0,80}").prop_map(|(port, service)| Request::Unpublish { port, service }),
        ]
    }

    proptest! {
        #[test]
        fn a_request_comes_back(request in requests()) {
            prop_assert_eq!(Request::decode(&request.encode()), Ok(request));
        }

        #[test]
        fn a_reply_comes_back(rank: u32, text in ".{0,80}") {
            for reply in [
                Reply::Segment { rank, contact: text.clone() },
                Reply::Refused { rank, reason: text.clone() },
                Reply::Listener { incarnation: rank, secret: text.clone() },
                Reply::Addresses { rank, addresses: text.clone() },
                Reply::Postboxes { shape: text.clone() },
                Reply::Failed { reason: text.clone() },
                Reply::Done { number: rank, text },
                Reply::Given,
                Reply::Left { rank },
                Reply::Death { process: rank },
            ] {
                prop_assert_eq!(Reply::decode(&reply.encode()), Ok(reply));
            }
        }

        #[test]
        fn any_bytes_are_read_or_refused_and_what_is_read_is_canonical(
            start in prop_oneof![Just(vec![]), (0u8..20).prop_map(|k| vec![VERSION, k]), (64u8..74).prop_map(|k| vec![VERSION, k])],
            rest in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let bytes = [start, rest].concat();
            if let Ok(request) = Request::decode(&bytes) {
                prop_assert_eq!(request.encode(), bytes.clone());
            }
            if let Ok(reply) = Reply::decode(&bytes) {
                prop_assert_eq!(reply.encode(), bytes);
            }
        }
    }

    #[test]
    fn a_long_text_is_cut_between_characters() {
        let bytes = Request::Say { text: "ä".repeat(5000) }.encode();
        assert!(bytes.len() <= MAX_MESSAGE);
        assert!(
            matches!(Request::decode(&bytes), Ok(Request::Say { text }) if text.chars().all(|c| c == 'ä'))
        );
    }

    #[test]
    fn another_version_is_distinguished_from_rubbish() {
        assert_eq!(Request::decode(&[9, 1, 0, 0, 0, 0]), Err(DecodeError::Version { found: 9 }));
        assert_eq!(
            Request::decode(&[VERSION, 1, 0]),
            Err(DecodeError::Length { kind: 1, length: 3 })
        );
        assert_eq!(
            Request::decode(&[VERSION, 1, 0, 0, 0, 0, 7]),
            Err(DecodeError::Length { kind: 1, length: 7 })
        );
        assert_eq!(
            Request::decode(&[VERSION, 65, 0, 0, 0, 0]),
            Err(DecodeError::Kind { kind: 65 })
        );
        assert_eq!(
            Request::decode(&[VERSION, 3, 0, 0, 0, 0, 0xff]),
            Err(DecodeError::Text { kind: 3 })
        );
    }
}
