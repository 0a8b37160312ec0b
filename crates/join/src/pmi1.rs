//! PMI-1, by a socket of the launcher: Slurm's plugin pmi2, which speaks PMI-1 as well, and Hydra
//! of MPICH and of Intel MPI.
//!
//! The launcher leaves each process a socket (PMI_FD, with PMI_RANK and PMI_SIZE), or the address
//! of a listener (PMI_PORT, with PMI_ID; Hydra's option `-pmi-port`). `line` has the
//! lines, `value` the form of values.
//!
//! Facts about the managers, each tried:
//!
//! - Slurm 22.05 refuses a line of more than 1,024 bytes, and reads its rest as another line.
//! - Slurm allows one version for a step, which its first process determines.
//! - A second value under a key replaces the first one at once, also before a fence.
//! - After `finalize` the manager closes the socket. A later program of the process finds it
//!   closed.
//! - Hydra 5.0 at a port hangs in some cases when a process ends without `finalize` or `abort`.
//! - For a key without a value each manager answers by another result code.

mod line;
#[cfg(test)]
mod tests;

use std::net::TcpStream;
use std::os::fd::{AsFd as _, OwnedFd, RawFd};
use std::time::Duration;

use oxmpi_sys::socket::wait;
use oxmpi_sys::spawn::take_inherited;
use rustix::event::PollFlags;
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use self::line::{PmiAnswer, is_word, take_line};
use crate::manager::{Deadline, JoinError, ProcessManager, check_key};
use crate::value::{LEAST_ROOM, MOST_PARTS, decoded, first_part, part_key, split};

/// The limit for the answer to a request that waits for no other process.
const PATIENCE: Duration = Duration::from_secs(30);
/// The limit for the end of this process after `abort`.
const END_PATIENCE: Duration = Duration::from_secs(5);
/// The limit for the manager to close the socket in the end: not every manager does.
const CLOSING: Duration = Duration::from_millis(100);
/// The longest line that all managers take, in bytes, with its end.
const LONGEST_LINE: usize = 1000;
const FENCE: &str = "cmd=barrier_in";
/// Longer than any answer.
const LONGEST_ANSWER: usize = 1 << 20;
/// The length of a value if the manager names none.
const USUAL_VALUE: usize = 256;

/// Where the manager of a process is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pmi1Address {
    /// PMI_FD, PMI_RANK and PMI_SIZE.
    Inherited { descriptor: RawFd, rank: Option<u32>, size: u32 },
    /// PMI_PORT (`host:port`) and PMI_ID.
    Port { address: String, id: u32 },
}

/// The name of the manager for users.
impl std::fmt::Display for Pmi1Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Pmi1Address::Inherited { descriptor, .. } => {
                write!(f, "the PMI-1 manager at PMI_FD={descriptor}")
            }
            Pmi1Address::Port { address, .. } => {
                write!(f, "the PMI-1 manager at PMI_PORT={address}")
            }
        }
    }
}

/// A process manager that speaks PMI-1.
#[derive(Debug)]
pub struct Pmi1 {
    lines: PmiLines,
    rank: u32,
    size: u32,
    /// The name of the job's values.
    job: String,
    /// The longest value, in bytes.
    longest_value: usize,
}

impl Pmi1 {
    /// Begins the conversation. The socket belongs to this connection from then on, and programs
    /// that this process starts do not inherit it.
    pub fn connect(address: &Pmi1Address) -> Result<Pmi1, JoinError> {
        let manager = address.to_string();
        match address {
            Pmi1Address::Inherited { descriptor, rank, size } => {
                let rank = rank.ok_or_else(|| JoinError::Variable {
                    variable: "PMI_RANK",
                    value: std::env::var("PMI_RANK").unwrap_or_default(),
                    why: "no number".into(),
                })?;
                let socket = take_inherited(*descriptor).ok_or_else(|| JoinError::Gone {
                    manager: manager.clone(),
                    call: "init".into(),
                    why: "the descriptor is closed, or belongs to this program".into(),
                })?;
                Pmi1::converse(socket, manager, PmiIdentity::Known { rank, size: *size })
            }
            Pmi1Address::Port { address, id } => {
                Pmi1::converse(connected(address, &manager)?, manager, PmiIdentity::Id(*id))
            }
        }
    }

    fn converse(socket: OwnedFd, manager: String, who: PmiIdentity) -> Result<Pmi1, JoinError> {
        let mut lines = PmiLines { socket, unread: Vec::new(), manager, is_broken: false };
        let (rank, size) = match who {
            PmiIdentity::Known { rank, size } => (rank, size),
            PmiIdentity::Id(id) => identify(&mut lines, id)?,
        };
        if rank >= size {
            return Err(JoinError::Variable {
                variable: "PMI_RANK",
                value: rank.to_string(),
                why: format!("no rank of {size} processes"),
            });
        }
        let hello = lines.call("cmd=init pmi_version=1 pmi_subversion=1", "response_to_init")?;
        if let Some(why) = hello.refusal() {
            // Slurm refuses if another process of the step has used PMI-2.
            return Err(lines.refused("PMI of version 1.1", why));
        }
        let maxes = lines.call("cmd=get_maxes", "maxes")?;
        // A zero ends a value in the manager.
        let longest_value = maxes.number("vallen_max").unwrap_or(USUAL_VALUE).saturating_sub(1);
        let name = lines.call("cmd=get_my_kvsname", "my_kvsname")?;
        let job = name.text("kvsname").filter(|job| is_word(job)).map(String::from);
        let job = job.ok_or_else(|| lines.strange("cmd=get_my_kvsname", "no name"))?;
        Ok(Pmi1 { lines, rank, size, job, longest_value })
    }

    /// The length that is left for a value in a line with this key.
    fn room(&self, key: &str) -> usize {
        let rest = self.put_line(key, "").len() + 1;
        LONGEST_LINE.saturating_sub(rest).min(self.longest_value)
    }

    fn put_line(&self, key: &str, text: &str) -> String {
        format!("cmd=put kvsname={} key={key} value={text}", self.job)
    }

    /// Splits a value into parts for this manager.
    fn parts(&self, key: &str, value: &[u8]) -> Result<Vec<String>, JoinError> {
        let error = |why| JoinError::Key { manager: self.shown(), key: key.to_string(), why };
        let room = self.room(&full_key(u32::MAX, &part_key(key, MOST_PARTS)));
        if room < LEAST_ROOM {
            return Err(error("the manager takes shorter values only"));
        }
        split(value, room).ok_or_else(|| error("the value is too long"))
    }

    /// The text under a full key; `None` if there is none.
    fn text(&mut self, key: &str, limit: Deadline) -> Result<Option<String>, JoinError> {
        let request = format!("cmd=get kvsname={} key={key}", self.job);
        let answer = self.lines.exchange(&request, "get_result", limit)?;
        Ok(match answer.refusal() {
            Some(_) => None,
            None => answer.text("value").map(String::from),
        })
    }

    /// Joins the parts that begin under a full key.
    fn value(&mut self, key: &str, limit: Duration) -> Result<Option<Vec<u8>>, JoinError> {
        let limit = Deadline::after(limit);
        let Some(first) = self.text(key, limit)? else { return Ok(None) };
        let strange = |pmi: &Pmi1, text: &str| pmi.lines.strange(&format!("get of {key}"), text);
        let Some((number, begin)) = first_part(&first) else {
            return Err(strange(self, &first));
        };
        let mut text = begin.to_string();
        for part in 1..number {
            match self.text(&part_key(key, part), limit)? {
                Some(more) => text += &more,
                None => return Err(strange(self, "no value for a part")),
            }
        }
        decoded(&text).map(Some).ok_or_else(|| strange(self, &text))
    }
}

/// By which a process knows its rank.
#[derive(Clone, Copy, Debug)]
enum PmiIdentity {
    Known {
        rank: u32,
        size: u32,
    },
    /// PMI_ID, for which the manager answers by rank and size.
    Id(u32),
}

/// At a port the manager answers by rank and size, in lines of their own.
fn identify(lines: &mut PmiLines, id: u32) -> Result<(u32, u32), JoinError> {
    let limit = Deadline::after(PATIENCE);
    let request = format!("cmd=initack pmiid={id}");
    lines.send(&request, limit)?;
    let answer = lines.receive(&request, "initack", limit)?;
    if let Some(why) = answer.refusal() {
        return Err(lines.refused(&request, why));
    }
    let (mut rank, mut size) = (None, None);
    loop {
        let set = lines.receive(&request, "set", limit)?;
        rank = rank.or(set.number("rank"));
        size = size.or(set.number("size"));
        // The last line.
        if set.text("debug").is_some() {
            return rank.zip(size).ok_or_else(|| lines.strange(&request, "no rank, or no size"));
        }
    }
}

/// The key under which a rank's value stands: managers have one set of keys for all processes.
fn full_key(rank: u32, key: &str) -> String {
    format!("{rank}-{key}")
}

fn connected(address: &str, manager: &str) -> Result<OwnedFd, JoinError> {
    // The name is resolved by the C library, which has limits of its own.
    let tried = TcpStream::connect(address).map_err(|error| JoinError::Gone {
        manager: manager.to_string(),
        call: "connect".into(),
        why: error.to_string(),
    })?;
    Ok(tried.into())
}

impl ProcessManager for Pmi1 {
    fn shown(&self) -> String {
        self.lines.manager.clone()
    }

    fn rank(&self) -> u32 {
        self.rank
    }

    fn size(&self) -> u32 {
        self.size
    }

    fn job(&self) -> &str {
        &self.job
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), JoinError> {
        check_key(key, || self.shown())?;
        for (number, part) in self.parts(key, value)?.iter().enumerate() {
            let line = self.put_line(&full_key(self.rank, &part_key(key, number)), part);
            let answer = self.lines.call(&line, "put_result")?;
            if let Some(why) = answer.refusal() {
                return Err(self.lines.refused(&format!("put {key}"), why));
            }
        }
        Ok(())
    }

    fn fence(&mut self, limit: Duration) -> Result<(), JoinError> {
        let limit = Deadline::after(limit);
        let answer = self.lines.exchange(FENCE, "barrier_out", limit)?;
        answer.refusal().map_or(Ok(()), |why| Err(self.lines.refused("fence", why)))
    }

    fn get(&mut self, rank: u32, key: &str, limit: Duration) -> Result<Option<Vec<u8>>, JoinError> {
        self.value(&full_key(rank, key), limit)
    }

    /// PMI-1 has no room for the text: the caller prints it.
    fn abort(&mut self, code: i32, _text: &str) -> JoinError {
        let limit = Deadline::after(END_PATIENCE);
        // Also after a missing answer: this request has none.
        self.lines.is_broken = false;
        if let Err(error) = self.lines.send(&format!("cmd=abort exitcode={code}"), limit) {
            return error;
        }
        // The manager does not answer. It ends this process, or closes the socket.
        let _ = self.lines.receive("cmd=abort", "abort", limit);
        JoinError::Aborted { manager: self.shown(), code }
    }

    fn leave(mut self: Box<Self>) -> Result<(), JoinError> {
        self.lines.call("cmd=finalize", "finalize_ack")?;
        // A later program of the process must find the socket closed. An open one that the manager
        // no longer serves makes it fail.
        let end = Deadline::after(CLOSING).end;
        let _ = wait(self.lines.socket.as_fd(), PollFlags::IN, end);
        Ok(())
    }
}

/// The conversation: a request, and one line of an answer.
#[derive(Debug)]
struct PmiLines {
    socket: OwnedFd,
    unread: Vec<u8>,
    manager: String,
    /// An answer is missing: a later line could answer either request.
    is_broken: bool,
}

impl PmiLines {
    /// Exchanges lines within the usual limit.
    fn call(&mut self, request: &str, command: &str) -> Result<PmiAnswer, JoinError> {
        self.exchange(request, command, Deadline::after(PATIENCE))
    }

    fn exchange(
        &mut self,
        request: &str,
        command: &str,
        limit: Deadline,
    ) -> Result<PmiAnswer, JoinError> {
        self.send(request, limit)?;
        self.receive(request, command, limit)
    }

    fn send(&mut self, request: &str, limit: Deadline) -> Result<(), JoinError> {
        if self.is_broken {
            let why = "an earlier request has got no answer that can be understood".to_string();
            return Err(self.gone(request, why));
        }
        let line = format!("{request}\n");
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            match send(&self.socket, rest, SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
                Ok(sent) => rest = rest.get(sent..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(PollFlags::OUT, request, limit)?,
                Err(error) => return Err(self.gone(request, error.to_string())),
            }
        }
        Ok(())
    }

    /// The next line, which must be this command.
    fn receive(
        &mut self,
        request: &str,
        command: &str,
        limit: Deadline,
    ) -> Result<PmiAnswer, JoinError> {
        let mut bytes = [0; 4096];
        let line = loop {
            if let Some(line) = take_line(&mut self.unread) {
                break line;
            }
            if self.unread.len() > LONGEST_ANSWER {
                self.is_broken = true;
                return Err(self.strange(request, "a line without an end"));
            }
            match recv(&self.socket, &mut bytes[..], RecvFlags::DONTWAIT) {
                Ok((0, _)) => return Err(self.gone(request, "it has closed the socket".into())),
                Ok((received, _)) => self.unread.extend(&bytes[..received]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait(PollFlags::IN, request, limit)?,
                Err(error) => return Err(self.gone(request, error.to_string())),
            }
        };
        let answer = PmiAnswer::parse(&line).filter(|answer| answer.command == command);
        answer.ok_or_else(|| {
            self.is_broken = true;
            self.strange(request, &line)
        })
    }

    fn wait(&mut self, flags: PollFlags, request: &str, limit: Deadline) -> Result<(), JoinError> {
        let Err(error) = wait(self.socket.as_fd(), flags, limit.end) else { return Ok(()) };
        self.is_broken = true;
        Err(match error.kind() {
            std::io::ErrorKind::TimedOut if request == FENCE => limit.fence_passed(&self.manager),
            std::io::ErrorKind::TimedOut => limit.passed(&self.manager, &shortened(request)),
            _ => self.gone(request, error.to_string()),
        })
    }

    fn gone(&self, request: &str, why: String) -> JoinError {
        JoinError::Gone { manager: self.manager.clone(), call: shortened(request), why }
    }

    fn refused(&self, call: &str, why: String) -> JoinError {
        JoinError::Refused { manager: self.manager.clone(), call: call.to_string(), why }
    }

    fn strange(&self, request: &str, answer: &str) -> JoinError {
        let (call, answer) = (shortened(request), shortened(answer));
        JoinError::Answer { manager: self.manager.clone(), call, answer }
    }
}

/// The beginning of a text from outside, in one line, for a message.
fn shortened(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    let mut short: String =
        line.chars().take(80).map(|c| if c.is_control() { '?' } else { c }).collect();
    if short.len() < text.len() {
        short += "...";
    }
    short
}
