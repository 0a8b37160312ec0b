//! The meeting of the processes of a step of Slurm that has no process manager (`srun --mpi=none`,
//! and `cray_shasta`): one process of each node meets the others by MUNGE.
//!
//! # Protocol
//!
//! The process of node 0, the *host*, listens at a port. The processes of the other nodes, the
//! *members*, connect to it. Both compute the same list of ports ([`candidates`]): the step's
//! reserved ports (SLURM_STEP_RESV_PORTS), ports computed from user, job, step and restart, and
//! ports that depend on the port of `srun` in addition. The host takes the first port that is free.
//! A member tries all of them, at the addresses of the host's name, and at those that Slurm's
//! controller knows if the name is no help, until the host has proved itself at one of them.
//!
//! On a connection, both sides prove that they belong to one user and one start of one step:
//!
//! ```text
//! member                                                                            host
//!   magic (16 bytes), length (2), credential: member, meeting, node, port, key  ->
//!      <-  magic, length, credential: host, hash of the member's, meeting, port, key
//!   handshake message (48 bytes)                                                ->
//!      <-                                                         handshake message (48)
//!   record: Here                                                                ->
//!      <-                                          record: Start, once all nodes are here
//!   records: Values, Lost                                                      <->
//! ```
//!
//! A *credential* is made by MUNGE for one connection. It is enciphered and restricted to the own
//! user, so no process of another user can read its content. Its content (`Claim`) names the side,
//! the meeting (job, step, SLURM_RESTART_COUNT, number of nodes), the node, the port, and a fresh
//! random key. The secret of the connection is computed from both keys and the hashes of both
//! credentials. With it both sides do the handshake of `oxmpi_wire::noise`, and everything after it
//! is encrypted and authenticated. The secret that the host sends with Start is the same for all
//! processes of the meeting, for connections among themselves.
//!
//! # Attacks
//!
//! | attack by a process of another user | why it fails |
//! |---|---|
//! | holds a port of the list | it cannot open the member's credential, so it sends no answer that fits; the member tries all ports at the same time |
//! | connects to the host with a credential of its own | the credential names the wrong user |
//! | sends a recorded credential | the host's MUNGE opens each once; if this one is new there, the attacker cannot open the answer, so the handshake fails |
//! | sends a credential back to its maker | it names the wrong side |
//! | passes a member's credential on from another port | it names the port of the attacker |
//! | passes all bytes on from another node | it can read and change none; it can cut the connection, as a router can |
//! | connects and says nothing, many times | after 10 s the connection is closed; if there are too many, the oldest is closed |
//!
//! A process of the same user in another step, or in an earlier start of this job, names the wrong
//! meeting. In each of these cases the connection is closed and the meeting goes on. The reasons
//! are in the text at the limit of time.
//!
//! Root on any node, and any process of the same user, can take part: MUNGE trusts both.
//!
//! # Values and fences
//!
//! For a fence each member sends its new values to the host. When all have come, the host sends
//! all of them to each member, so that [`get`](ProcessManager::get) needs no connection: the host
//! process may compute meanwhile and answers nothing. Use one short value for each node.
//!
//! A connection that ends without a notice is a failed node, of which the host informs the others.
//! They notice it in the next call.
//!
//! | module | content |
//! |---|---|
//! | `credential` | the content of credentials, and the checks |
//! | `message` | the messages after the proof |
//! | `link` | one connection: pure |
//! | `meeting` | the host and the members: pure |
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
use self::meeting::{Meeting, Phase};
use self::sockets::MeetingSockets;
use crate::munge::{Munge, MungeError, Opened};
use crate::slurm::Step;
use crate::{JoinError, LONGEST_KEY, ProcessManager, SpawnedProgram};

/// Members wait longer than the host by this time, so that the text of the host, which knows all
/// nodes, reaches them.
const GRACE: Duration = Duration::from_secs(2);
/// The limit for the last notices of a process that leaves.
const FAREWELL: Duration = Duration::from_secs(5);
/// The longest time without a check of the limit.
const ROUND: Duration = Duration::from_secs(1);
/// The most names of nodes in a text.
const SHOWN: usize = 10;

const OTHER_WAYS: &str =
    "start the program by srun --mpi=pmi2 or srun --mpi=pmix if the site has them";

/// The process of one node among those of all nodes of a step. Its rank is the index of the node.
#[derive(Debug)]
pub struct SlurmAlone {
    step: Step,
    job: String,
    meeting: Meeting<Option<MungeCredentials>>,
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
    /// MUNGE cannot be used; or after `limit` not all nodes are here: the text names those that
    /// are, those that are missing, and why connections were closed.
    pub fn meet(
        step: &Step,
        library: &str,
        socket: Option<&Path>,
        limit: Duration,
    ) -> Result<SlurmAlone, JoinError> {
        let begin = Instant::now();
        let name = MeetingName::of(step);
        let shown = shown(step);
        let call = format!("the meeting of {} nodes", name.nodes);
        let fails =
            |why: String| JoinError::Refused { manager: shown.clone(), call: call.clone(), why };
        let (credentials, sockets) = match step.nodes.as_slice() {
            [] | [_] => (None, MeetingSockets::none()),
            [host, ..] => {
                let munge = Munge::open(library, socket).and_then(MungeCredentials::new);
                let credentials = munge.map_err(|error| match error {
                    MungeError::Library(error) => JoinError::Library(error),
                    error => fails(error.to_string()),
                })?;
                let ports = candidates(step, credentials.uid());
                let sockets = if step.node == 0 {
                    MeetingSockets::host(&ports).map_err(|error| {
                        fails(format!(
                            "none of the ports {ports:?} of {host} can be used ({error}): other programs have \
                             them; type srun --resv-ports=4, or {OTHER_WAYS}"
                        ))
                    })?
                } else {
                    let known = step.addresses.iter().find(|(name, _)| name == host);
                    let lookup = Lookup::start(host, known.map(|(_, address)| address.as_str()));
                    let lookup = lookup.map_err(|error| fails(format!("no thread: {error}")))?;
                    MeetingSockets::member(ports, lookup)
                };
                (Some(credentials), sockets)
            }
        };
        let meeting =
            Meeting::new(name, step.node, credentials).map_err(|error| fails(error.to_string()))?;
        let mut alone = SlurmAlone {
            step: step.clone(),
            job: String::new(),
            meeting,
            sockets,
            pending: Vec::new(),
        };
        let more = if step.node == 0 { Duration::ZERO } else { GRACE };
        alone.drive(&call, begin + limit + more, |meeting| {
            meeting.phase() == Phase::Running || meeting.refused().is_some()
        })?;
        if let Some(text) = alone.meeting.refused() {
            return Err(fails(text.to_string()));
        }
        let Some((number, _)) = alone.meeting.started() else {
            let remedy = alone.missing();
            alone.meeting.give_up(&format!("after {} s {remedy}", limit.as_secs()));
            alone.say_farewell();
            return Err(JoinError::Late { manager: shown, call, seconds: limit.as_secs(), remedy });
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
        call: &str,
        end: Instant,
        is_over: impl Fn(&Meeting<Option<MungeCredentials>>) -> bool,
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

    /// The text at the limit of the meeting.
    fn missing(&self) -> String {
        let host = self.step.shown_node(0);
        let nodes = match self.step.node {
            0 => {
                let missing = self.meeting.missing();
                let here = (0..).take(self.step.nodes.len()).filter(|node| !missing.contains(node));
                let (here, missing) = (self.names(here), self.names(missing.iter().copied()));
                format!("here: {here}; missing: {missing}")
            }
            _ if self.meeting.has_host() => {
                format!("{host} has been reached, and waits for other nodes")
            }
            _ => format!("{host} has not been reached"),
        };
        let skipped = self.meeting.skipped.shown();
        let skipped = match skipped.as_str() {
            "" => String::new(),
            skipped => format!("; closed connections: {skipped}"),
        };
        format!(
            "{nodes}{skipped}; an MPI program must run on each node of the step, and its nodes must \
             reach each other by TCP; or {OTHER_WAYS}"
        )
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

fn shown(step: &Step) -> String {
    format!("Slurm without PMI (step {})", step.shown())
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
        let is_key = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        if key.is_empty() || key.len() > LONGEST_KEY || !key.bytes().all(is_key) {
            return Err(JoinError::Key {
                manager: self.shown(),
                key: key.to_string(),
                why: "a key has 1 to 40 letters, digits, '-', '_' and '.'",
            });
        }
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
        let (manager, call) = (self.shown(), call.to_string());
        if let Some((node, why)) = self.meeting.lost().first_key_value() {
            let why = format!("{} {why}", self.step.shown_node(*node));
            return Err(JoinError::Gone { manager, call, why });
        }
        let remedy = match self.step.node {
            0 => format!("missing: {}", self.names(self.meeting.behind().into_iter())),
            _ => format!("{} waits for other nodes", self.step.shown_node(0)),
        };
        Err(JoinError::Late { manager, call, seconds: limit.as_secs(), remedy })
    }

    fn get(&mut self, rank: u32, key: &str, _: Duration) -> Result<Option<Vec<u8>>, JoinError> {
        Ok(self.meeting.get(rank, key).map(<[u8]>::to_vec))
    }

    fn spawn(
        &mut self,
        _: &[SpawnedProgram],
        _: &[(&str, &[u8])],
        _: Duration,
    ) -> Result<(), JoinError> {
        Err(JoinError::Unable {
            manager: self.shown(),
            call: "start further processes",
            remedy: "start the program by srun --mpi=pmi2, which can, or by mpirun".into(),
        })
    }

    fn inherited(&mut self, _: &str, _: Duration) -> Result<Option<Vec<u8>>, JoinError> {
        Ok(None)
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
