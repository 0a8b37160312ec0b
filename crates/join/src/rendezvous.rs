//! The meeting of the processes of a step of Slurm that has no process manager (`srun --mpi=none`,
//! and `cray_shasta`): one process of each node meets the others by MUNGE.
//!
//! # Protocol
//!
//! The process of node 0, the *hub*, listens at a port. The processes of the other nodes, the
//! *members*, connect to it. Both compute the same list of ports ([`candidates`]): the step's
//! reserved ports (SLURM_STEP_RESV_PORTS), ports computed from user, job, step and restart, and
//! ports that depend on the port of `srun` in addition. The hub takes the first port that is free.
//! A member tries all of them at the addresses of the hub's name. If the name is no help, it adds
//! the addresses that Slurm's controller knows. It goes on until the hub has proved itself at one
//! of them.
//!
//! On a connection, both sides prove that they belong to one user and one start of one step:
//!
//! ```text
//! member                                                                             hub
//!   magic (16 bytes), length (2), credential: member, meeting, node, port, key  ->
//!      <-  magic, length, credential: hub, hash of the member's, meeting, port, key
//!   handshake message (48 bytes)                                                ->
//!      <-                                                         handshake message (48)
//!   record: Here                                                                ->
//!      <-                                          record: Start, once all nodes are here
//!   records: Values, Lost                                                      <->
//! ```
//!
//! A *credential* is made by MUNGE for one connection. It is enciphered and restricted to the own
//! user, so no process of another user can read its content. The content (`NodeClaim`) names the
//! side, the meeting (job, step, SLURM_RESTART_COUNT, number of nodes), the node, the port, and a
//! fresh random key. The secret of the connection is computed from both keys and the hashes of both
//! credentials. With it both sides do the handshake of `oxmpi_wire::noise`, and everything after it
//! is encrypted and authenticated. The secret that the hub sends with Start is the same for all
//! processes of the meeting, for connections among themselves.
//!
//! # Attacks
//!
//! A process of another user gains nothing if it
//!
//! - holds a port of the list: it cannot open the member's credential, so it has no answer that
//!   fits, and the member tries all ports at the same time;
//! - connects to the hub with a credential of its own: the credential names the wrong user;
//! - sends a recorded credential: the hub's MUNGE opens each once, and if this one is new there,
//!   the attacker cannot open the answer, so the handshake fails;
//! - sends a credential back to its maker: it names the wrong side;
//! - passes a member's credential on from another port: it names the port of the attacker;
//! - passes all bytes on from another node: it can read and change none. It can cut the connection,
//!   as a router can;
//! - connects and says nothing, many times: the connection is closed after 10 s, and the oldest one
//!   without a valid credential if there are too many.
//!
//! A process of the same user in another step, or in an earlier start of this job, names the wrong
//! meeting. In each of these cases the connection is closed and the meeting goes on. The reasons
//! are in the text at the limit of time.
//!
//! Root on any node, and any process of the same user, can take part: MUNGE trusts both.
//!
//! # Values and fences
//!
//! For a fence each member sends its new values to the hub. When all have come, the hub sends
//! all of them to each member, so that [`get`](ProcessManager::get) needs no connection: the hub
//! process may compute meanwhile and answers nothing. Use one short value for each node. The hub
//! has a descriptor for each node (`ulimit -n`).
//!
//! A connection that ends without a notice is a failed node, of which the hub informs the others.
//! They notice it in the next call.
//!
//! | module | content |
//! |---|---|
//! | `credential` | the content of credentials, and the checks |
//! | `message` | the messages after the proof |
//! | `link` | one connection: pure |
//! | `meeting` | the hub and the members: pure |
//! | `dialing` | ports, and when they are tried: pure |
//! | `lookup` | addresses by name |
//! | `sockets` | sockets for all of this |

mod credential;
mod dialing;
#[cfg(test)]
mod fake;
mod link;
mod lookup;
mod meeting;
mod message;
mod skipped;
mod sockets;

use std::path::Path;
use std::time::{Duration, Instant};

use oxmpi_wire::Secret;

use self::credential::{Credentials, MeetingName, MungeCredentials};
use self::dialing::candidates;
use self::lookup::Lookup;
use self::meeting::{MeetingPhase, NodeMeeting};
use self::sockets::MeetingSockets;
use crate::manager::check_key;
use crate::munge::{Munge, MungeError, Opened};
use crate::slurm::SlurmStep;
use crate::{JoinError, ProcessManager};

/// Members wait longer than the hub by this time, so that the text of the hub, which knows all
/// nodes, reaches them.
const GRACE: Duration = Duration::from_secs(2);
/// The limit for the last notices of a process that leaves.
const FAREWELL: Duration = Duration::from_secs(5);
/// The longest time without a check of the limit.
const ROUND: Duration = Duration::from_secs(1);
/// The most names of nodes in a text.
const SHOWN: usize = 10;

const MEETING: &str = "the meeting of the nodes";
const REMEDY: &str = "an MPI program must run on each node of the step, and its nodes must reach \
                      each other by TCP; or start it by srun --mpi=pmi2 or srun --mpi=pmix";

/// The process of one node among those of all nodes of a step. Its rank is the index of the node.
#[derive(Debug)]
pub struct SlurmAlone {
    step: SlurmStep,
    job: String,
    meeting: NodeMeeting<Option<MungeCredentials>>,
    sockets: MeetingSockets,
    /// The values for the next fence.
    pending: Vec<(String, Vec<u8>)>,
}

impl Credentials for Option<MungeCredentials> {
    fn make(&self, payload: &[u8]) -> Result<String, MungeError> {
        self.as_ref().ok_or_else(not_needed)?.make(payload)
    }

    fn open(&self, credential: &str) -> Result<Opened, MungeError> {
        self.as_ref().ok_or_else(not_needed)?.open(credential)
    }

    fn uid(&self) -> u32 {
        self.as_ref().map_or(u32::MAX, Credentials::uid)
    }
}

/// A meeting of one node has no connections.
fn not_needed() -> MungeError {
    MungeError::Failed { call: "of one node", why: "there is no other node".into(), code: 0 }
}

impl SlurmAlone {
    /// Meets the processes of the other nodes. One process of each node of the step calls this. On
    /// one node nothing is needed, not even MUNGE.
    ///
    /// `library`: MUNGE's file name for the loader. `socket`: the path of its daemon's socket, if
    /// it is not MUNGE's default.
    ///
    /// # Errors
    /// MUNGE cannot be used; or after `limit` not all nodes are here: the text names the nodes that
    /// are here, the missing nodes, and why connections have failed.
    pub fn meet(
        step: &SlurmStep,
        library: &str,
        socket: Option<&Path>,
        limit: Duration,
    ) -> Result<SlurmAlone, JoinError> {
        let begin = Instant::now();
        let refused = |why: String| refused(step, why);
        let (credentials, sockets) = match step.nodes.as_slice() {
            [] | [_] => (None, MeetingSockets::none()),
            [first, ..] => {
                let munge = Munge::open(library, socket).and_then(MungeCredentials::new);
                let credentials = munge.map_err(|error| match error {
                    MungeError::Library(error) => JoinError::Library(error),
                    error => refused(error.to_string()),
                })?;
                let sockets = sockets(step, first, credentials.uid()).map_err(refused)?;
                (Some(credentials), sockets)
            }
        };
        let meeting = NodeMeeting::new(MeetingName::of(step), step.node, credentials)
            .map_err(|error| refused(error.to_string()))?;
        let mut alone = SlurmAlone {
            step: step.clone(),
            job: String::new(),
            meeting,
            sockets,
            pending: Vec::new(),
        };
        let more = if step.node == 0 { Duration::ZERO } else { GRACE };
        alone.drive(MEETING, begin + limit + more, |meeting| {
            meeting.phase() == MeetingPhase::Running || meeting.refused().is_some()
        })?;
        if let Some(text) = alone.meeting.refused() {
            return Err(refused(text.to_string()));
        }
        let Some((number, _)) = alone.meeting.started() else {
            let (seconds, found) = (limit.as_secs_f32(), alone.found());
            let text = format!("it is not complete within {seconds} s ({found}); {REMEDY}");
            alone.meeting.give_up(&text);
            alone.say_farewell();
            let manager = alone.shown();
            let (call, remedy) = (MEETING, REMEDY);
            return Err(JoinError::Incomplete { manager, call, seconds, found, remedy });
        };
        let number: String = number.iter().map(|byte| format!("{byte:02x}")).collect();
        alone.job = format!("slurm-{}.{}-{number}", step.job, step.step);
        Ok(alone)
    }

    /// The secret that the processes of this meeting share, and no other process has.
    pub fn secret(&self) -> Option<&Secret> {
        self.meeting.started().map(|(_, secret)| secret)
    }

    /// Serves the connections until `is_over`, or until the limit. The caller checks which.
    fn drive(
        &mut self,
        call: &'static str,
        end: Instant,
        is_over: impl Fn(&NodeMeeting<Option<MungeCredentials>>) -> bool,
    ) -> Result<(), JoinError> {
        loop {
            let now = Instant::now();
            self.sockets.flush(&mut self.meeting, now);
            if is_over(&self.meeting) || now >= end {
                return Ok(());
            }
            let wait = end.saturating_duration_since(now).min(ROUND);
            self.sockets.serve(&mut self.meeting, wait).map_err(|error| JoinError::Refused {
                manager: self.shown(),
                call: call.to_string(),
                why: format!("poll(2) fails: {error}"),
            })?;
        }
    }

    /// Sends the last notices. Nobody is left to learn of a failure.
    fn say_farewell(&mut self) {
        let end = Instant::now() + FAREWELL;
        let _ = self.drive("leave", end, |meeting| !meeting.is_behind());
    }

    /// The nodes at the limit of the meeting, and the connections that have failed.
    fn found(&self) -> String {
        let first = self.step.shown_node(0);
        let nodes = match self.step.node {
            0 => {
                let missing = self.meeting.missing();
                let here = (0..).take(self.step.nodes.len()).filter(|node| !missing.contains(node));
                let (here, missing) = (self.names(here), self.names(missing.iter().copied()));
                format!("here: {here}; missing: {missing}")
            }
            _ if self.meeting.has_hub() => {
                format!("{first} has been reached, and waits for other nodes")
            }
            _ => format!("{first} has not been reached"),
        };
        match self.meeting.skipped.shown() {
            skipped if skipped.is_empty() => nodes,
            skipped => format!("{nodes}; failed connections: {skipped}"),
        }
    }

    fn names(&self, nodes: impl Iterator<Item = u32>) -> String {
        let all: Vec<u32> = nodes.collect();
        let names = all.iter().take(SHOWN).map(|node| self.step.shown_node(*node));
        let mut text = names.collect::<Vec<_>>().join(", ");
        if let Some(more) = all.len().checked_sub(SHOWN).filter(|more| *more > 0) {
            text += &format!(" and {more} more");
        }
        text
    }
}

fn shown(step: &SlurmStep) -> String {
    format!("Slurm without PMI (step {})", step.shown())
}

fn refused(step: &SlurmStep, why: String) -> JoinError {
    JoinError::Refused { manager: shown(step), call: MEETING.into(), why }
}

/// The sockets of a process of this step, whose first node has the name `first`. An error is for
/// users.
fn sockets(step: &SlurmStep, first: &str, uid: u32) -> Result<MeetingSockets, String> {
    let ports = candidates(step, uid);
    if step.node > 0 {
        let known = step.addresses.iter().find(|(name, _)| name == first);
        let lookup = Lookup::start(first, known.map(|(_, address)| address.as_str()));
        let lookup = lookup.map_err(|error| format!("no thread can be made: {error}"))?;
        return Ok(MeetingSockets::member(ports, lookup));
    }
    MeetingSockets::hub(&ports).map_err(|error| {
        format!(
            "none of the ports {ports:?} of {first} can be used ({error}): other programs have \
             them; type srun --resv-ports=4, srun --mpi=pmi2 or srun --mpi=pmix"
        )
    })
}

impl ProcessManager for SlurmAlone {
    fn shown(&self) -> String {
        shown(&self.step)
    }

    fn rank(&self) -> u32 {
        self.step.node
    }

    fn size(&self) -> u32 {
        u32::try_from(self.step.nodes.len()).unwrap_or(u32::MAX)
    }

    fn job(&self) -> &str {
        &self.job
    }

    fn put(&mut self, key: &str, value: &[u8]) -> Result<(), JoinError> {
        check_key(key, || self.shown())?;
        self.pending.push((key.to_string(), value.to_vec()));
        Ok(())
    }

    fn fence(&mut self, limit: Duration) -> Result<(), JoinError> {
        let end = Instant::now() + limit;
        let call = "a fence of all nodes";
        self.meeting.fence(std::mem::take(&mut self.pending));
        self.drive(call, end, |meeting| meeting.is_fence_over() || !meeting.lost().is_empty())?;
        if self.meeting.is_fence_over() {
            return Ok(());
        }
        let manager = self.shown();
        if let Some((node, why)) = self.meeting.lost().first_key_value() {
            let (process, why) = (self.step.shown_node(*node), why.clone());
            return Err(JoinError::Lost { manager, call, process, why });
        }
        let found = match self.step.node {
            0 => format!("missing: {}", self.names(self.meeting.behind().into_iter())),
            _ => format!("{} waits for other nodes", self.step.shown_node(0)),
        };
        let remedy = "the program must run on all nodes of the step";
        Err(JoinError::Incomplete { manager, call, seconds: limit.as_secs_f32(), found, remedy })
    }

    fn get(&mut self, rank: u32, key: &str, _: Duration) -> Result<Option<Vec<u8>>, JoinError> {
        Ok(self.meeting.get(rank, key).map(<[u8]>::to_vec))
    }

    /// Informs the processes of the other nodes, which notice it in their next call. Slurm itself
    /// ends the step when a task ends with a code other than zero, if `srun` has the option
    /// `--kill-on-bad-exit`.
    fn abort(&mut self, code: i32, text: &str) -> JoinError {
        self.meeting.leave(&format!("aborts with code {code}: {text}"), true);
        self.say_farewell();
        JoinError::Aborted { manager: self.shown(), code }
    }

    fn leave(mut self: Box<Self>) -> Result<(), JoinError> {
        self.meeting.leave("has left", false);
        self.say_farewell();
        Ok(())
    }
}
