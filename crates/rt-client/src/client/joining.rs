//! How a process becomes a rank of a job that another launcher has started: `srun`, `mpiexec` of
//! MPICH or Intel MPI, `prterun`.
//!
//! No `mpirun` of ours has started the processes, so they make one. The first process of each host
//! starts an *agent*, and the agent on the host of rank 0 becomes the *head*, which does what
//! `mpirun` does:
//!
//! ```text
//! rank 0 ...... rank 1            rank 2 ...... rank 3
//!    \             /                 \             /           segments and requests
//!     head (host a) <------------------ agent (host b)         calls the head, encrypted
//! ```
//!
//! 1. The processes of a host find each other by an abstract socket, whose name follows from the
//!    name of the job and the user. The process that gets the name starts the agent, which
//!    inherits the listening socket; all others connect. So processes share a node if they can, by
//!    whatever names the launcher calls their hosts.
//! 2. Each process says which rank it is ([`Request::Join`]), and gets the *card* of its agent: the
//!    agent's addresses and public key.
//! 3. The process manager carries cards: rank 0 leaves that of its own agent as the head's, and a
//!    process that has started an agent leaves the agent's. Without a manager the processes that
//!    have started agents meet by MUNGE.
//! 4. These processes pass the head's card on to their agents, which call the head. The head
//!    requests a caller's card from the process that has started it ([`Reply::WantsCard`]), so both
//!    ends have the other's public key from the manager, and nothing secret goes through it.
//! 5. When all ranks have said which they are, the job starts as one of `mpirun` does, but each
//!    agent sends the segments to processes that run already ([`Reply::Segment`]).

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use oxmpi_join::evidence::LiveManager;
use oxmpi_join::slurm::SlurmStep;
use oxmpi_join::{JoinError, JoinSettings, ProcessManager, SlurmAlone, connect};
use oxmpi_param::Params;
use oxmpi_shm::segment::Segment;
use oxmpi_sys::spawn::survive_by_default;
use oxmpi_sys::{fdpass, local, tracer};
use rustix::process::Signal;

use super::entering::connect_patiently;
use super::serving::start_mpirun;
use super::{BootError, CONTROL_NUMBER, Client, SEGMENT_NUMBER, receive};
use crate::control::{Reply, Request};

/// The option by which a process of another launcher's job starts the agent of its host.
pub const JOIN_OPTION: &str = "--join";

/// The number of socket names that are tried: a process of another user may have the first ones.
const NAMES: u32 = 8;
/// The limit for the manager to read an output of a process before the process ends its job.
const READING_TIME: Duration = Duration::from_secs(1);
/// The pause before a process tries again to enter a host whose earlier job has not ended.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a process tries to connect with the process that has a socket name. One of another user
/// can have the name without listening, or without room for a connection.
const NAME_PATIENCE: Duration = Duration::from_secs(3);
/// The key of the head's card in the process manager.
const HEAD: &str = "oxmpi-head";
/// The key of the card of an agent that a process has started.
const AGENT: &str = "oxmpi-agent";

/// Why a process of another launcher's job cannot become a rank; the text is for users.
#[derive(Debug, thiserror::Error)]
pub enum NotJoined {
    #[error(transparent)]
    Manager(#[from] JoinError),
    #[error("no agent of OxMPI can be started here: {0}")]
    NoAgent(String),
    #[error("the agent of this host: {0}")]
    Agent(String),
    #[error(transparent)]
    Boot(#[from] BootError),
}

/// The settings for a process manager, from the parameters.
pub fn join_settings(params: &Params) -> JoinSettings<'_> {
    let socket = Path::new(params.munge_socket());
    JoinSettings {
        pmix_library: params.pmix_library(),
        munge_library: params.munge_library(),
        munge_socket: Some(socket).filter(|path| !path.as_os_str().is_empty()),
        limit: Duration::from_secs(params.mpi_join_limit_s()),
    }
}

/// The process in its job, before it has entered its host.
struct JobPlace {
    rank: u32,
    size: u32,
    /// Another one in each other job and step.
    job: String,
    /// The evidence of the launcher.
    evidence: String,
}

/// The answer of a host to a process that wants to enter it.
enum HostEntry {
    Agent {
        control: OwnedFd,
        card: Vec<u8>,
        /// Whether this process has started the agent.
        is_founder: bool,
    },
    /// The rank lives in another process, which has started this one.
    Singleton,
}

/// The connection with the process manager of a process that could not become a rank.
static UNJOINED: Mutex<Option<Box<dyn ProcessManager>>> = Mutex::new(None);

/// Waits until the manager has read the outputs of this process, which it may close when it ends
/// the job.
pub(super) fn await_readers() {
    for output in [rustix::stdio::stdout(), rustix::stdio::stderr()] {
        oxmpi_sys::stdio::await_reader(output, READING_TIME);
    }
}

/// Has the process manager end the job, if this process could not become a rank and ends: the other
/// processes would wait for it.
pub fn abort_unjoined(code: i32, text: &str) {
    let manager = UNJOINED.lock().unwrap_or_else(PoisonError::into_inner).take();
    if let Some(mut manager) = manager {
        await_readers();
        let _ = manager.abort(code, text);
    }
}

impl Client {
    /// Becomes a rank of the job that the launcher of `manager` has started, and waits for all its
    /// other processes. `None`: the job has one process, or another process is the rank and has
    /// started this one.
    pub fn join(manager: &LiveManager, params: &Params) -> Result<Option<Client>, NotJoined> {
        let mut served = None;
        let joined = Client::join_by(manager, params, &mut served);
        if joined.is_err() {
            // Hydra kills a process whose connection ends before the process has left, and the
            // error would not be printed.
            *UNJOINED.lock().unwrap_or_else(PoisonError::into_inner) = served;
        }
        joined
    }

    /// As [`Client::join`]; `served` is the connection with the process manager meanwhile.
    fn join_by(
        manager: &LiveManager,
        params: &Params,
        served: &mut Option<Box<dyn ProcessManager>>,
    ) -> Result<Option<Client>, NotJoined> {
        let settings = join_settings(params);
        let step = match manager {
            LiveManager::Slurm { .. } => SlurmStep::of_environment()?,
            _ => None,
        };
        let place = match &step {
            Some(step) => JobPlace::of_step(step, manager.to_string()),
            None => {
                let Some(found) = connect(manager, &settings)? else { return Ok(None) };
                let found = served.insert(found);
                let (rank, size, job) = (found.rank(), found.size(), found.job().to_string());
                JobPlace { rank, size, job, evidence: manager.to_string() }
            }
        };
        let entry = match place.size {
            0 | 1 => HostEntry::Singleton,
            _ => place.enter(settings.limit)?,
        };
        let HostEntry::Agent { control, card, is_founder } = entry else {
            leave(served.take());
            return Ok(None);
        };
        if let (true, Some(step)) = (is_founder, &step) {
            let JoinSettings { munge_library, munge_socket, limit, .. } = settings;
            *served = Some(Box::new(SlurmAlone::meet(step, munge_library, munge_socket, limit)?));
        }
        if let Some(served) = served {
            exchange_cards(served.as_mut(), (&control, is_founder), &card, settings.limit)?;
        }
        let (segment, fd) = await_segment(&control, served.as_deref_mut(), settings.limit)?;
        let client = Client::of_rank(segment, fd, control)?;
        // The agent is no ancestor of the other ranks here, which read this one's memory.
        tracer::let_all_read();
        if params.mpi_ft_enable() {
            // Hydra notifies the others of a failed process by this signal.
            survive_by_default(Signal::USR1);
        }
        if step.is_some() {
            // A meeting has served its purpose.
            leave(served.take());
        }
        let _ = client.manager.set(Mutex::new(served.take()));
        Ok(Some(client))
    }
}

/// Takes leave of a process manager. Its failure changes nothing.
pub(super) fn leave(manager: Option<Box<dyn ProcessManager>>) {
    manager.map(ProcessManager::leave);
}

impl JobPlace {
    fn of_step(step: &SlurmStep, evidence: String) -> JobPlace {
        let job = format!("slurm {} {}", step.shown(), step.restart);
        JobPlace { rank: step.task, size: step.tasks, job, evidence }
    }

    fn socket_name(&self, number: u32) -> String {
        // All processes of the job must get the same name: this hasher has no random keys.
        let mut hasher = DefaultHasher::new();
        self.job.hash(&mut hasher);
        let user = rustix::process::geteuid().as_raw();
        format!("oxmpi.join.{user}.{:016x}.{number}", hasher.finish())
    }

    /// Connects with the agent of this host, or starts it.
    fn enter(&self, limit: Duration) -> Result<HostEntry, NotJoined> {
        let end = Instant::now() + limit;
        let mut number = 0;
        // Until when the name may have no listener.
        let mut unheard_end = None;
        while number < NAMES {
            let name = self.socket_name(number);
            let listener = local::listen_as(&name);
            let (control, reply) = match listener {
                Ok(listener) => return self.start_agent(&listener),
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => match self.apply(&name) {
                    Ok(applied) => {
                        unheard_end = None;
                        applied
                    }
                    Err(error) => {
                        let now = Instant::now();
                        let is_of_other_user = match error.kind() {
                            io::ErrorKind::PermissionDenied | io::ErrorKind::WouldBlock => true,
                            io::ErrorKind::ConnectionRefused => {
                                now >= *unheard_end.get_or_insert(now + NAME_PATIENCE)
                            }
                            // The agent with the name ends, and the name becomes free.
                            _ if now < end => false,
                            _ => return Err(NotJoined::Agent(error.to_string())),
                        };
                        if is_of_other_user {
                            (number, unheard_end) = (number + 1, None);
                        } else {
                            std::thread::sleep(PAUSE);
                        }
                        continue;
                    }
                },
                Err(error) => return Err(NotJoined::NoAgent(error.to_string())),
            };
            match reply {
                Reply::Card { card } => {
                    return Ok(HostEntry::Agent { control, card, is_founder: false });
                }
                Reply::Refused { .. } => return Ok(HostEntry::Singleton),
                Reply::Later if Instant::now() < end => std::thread::sleep(PAUSE),
                Reply::Later => {
                    let rank = self.rank;
                    let text = format!(
                        "rank {rank} has ended, and other ranks of its program have not within {} s",
                        limit.as_secs()
                    );
                    return Err(NotJoined::Agent(text));
                }
                Reply::Elsewhere => number += 1,
                Reply::Failed { reason } => return Err(NotJoined::Agent(reason)),
                other => return Err(NotJoined::Agent(format!("it has answered {other:?}"))),
            }
        }
        let text = format!(
            "the names of its {NAMES} sockets ({}) belong to other users' processes",
            self.socket_name(0)
        );
        Err(NotJoined::NoAgent(text))
    }

    fn request(&self) -> Request {
        let (rank, size, evidence) = (self.rank, self.size, self.evidence.clone());
        Request::Join { rank, size, pid: std::process::id(), evidence }
    }

    /// Connects with the agent that has this name, and says which rank this process is.
    fn apply(&self, name: &str) -> io::Result<(OwnedFd, Reply)> {
        let control = connect_patiently(name, NAME_PATIENCE)?;
        fdpass::send(&control, &self.request().encode(), None)?;
        let (reply, _) = receive(&control, self.rank).map_err(io::Error::other)?;
        Ok((control, reply))
    }

    fn start_agent(&self, listener: &OwnedFd) -> Result<HostEntry, NotJoined> {
        let failed = |error: io::Error| NotJoined::NoAgent(error.to_string());
        let (control, theirs) = fdpass::pair().map_err(failed)?;
        let fds = [(listener.as_fd(), SEGMENT_NUMBER), (theirs.as_fd(), CONTROL_NUMBER)];
        start_mpirun(JOIN_OPTION, fds).map_err(NotJoined::NoAgent)?;
        // So the connection ends if the agent does.
        drop(theirs);
        fdpass::send(&control, &self.request().encode(), None).map_err(failed)?;
        match receive(&control, self.rank).map_err(io::Error::other).map_err(failed)? {
            (Reply::Card { card }, _) => Ok(HostEntry::Agent { control, card, is_founder: true }),
            (Reply::Failed { reason }, _) => Err(NotJoined::NoAgent(reason)),
            (other, _) => Err(NotJoined::NoAgent(format!("it has answered {other:?}"))),
        }
    }
}

/// Leaves the cards of agents with the manager, and gives an agent that this process has started
/// the card of the head.
fn exchange_cards(
    manager: &mut dyn ProcessManager,
    (control, is_founder): (&OwnedFd, bool),
    card: &[u8],
    limit: Duration,
) -> Result<(), NotJoined> {
    let number = manager.rank();
    if number == 0 {
        manager.put(HEAD, card)?;
    }
    if is_founder {
        manager.put(AGENT, card)?;
    }
    manager.fence(limit)?;
    if is_founder {
        let Some(card) = manager.get(0, HEAD, limit)? else {
            let text = format!("rank 0 has left no card of it with {}", manager.shown());
            return Err(NotJoined::Agent(text));
        };
        send(control, &Request::Head { number, card })?;
    }
    Ok(())
}

/// Waits until the job starts, and meanwhile serves the agent with cards.
fn await_segment(
    control: &OwnedFd,
    mut manager: Option<&mut (dyn ProcessManager + 'static)>,
    limit: Duration,
) -> Result<(Arc<Segment>, OwnedFd), NotJoined> {
    loop {
        let (reply, fd) =
            receive(control, 0).map_err(|error| NotJoined::Agent(error.to_string()))?;
        match (reply, fd) {
            (Reply::Segment { .. }, Some(fd)) => {
                let segment = Segment::map(&fd).map_err(BootError::from)?;
                let _ = segment.status().claim(std::process::id());
                return Ok((segment, fd));
            }
            (Reply::Segment { .. }, None) => {
                let text = "this process has no free descriptor for its memory (ulimit -n)";
                return Err(NotJoined::Agent(text.into()));
            }
            (Reply::WantsCard { number }, _) => {
                let card = match &mut manager {
                    Some(manager) if number < manager.size() => {
                        manager.get(number, AGENT, limit)?
                    }
                    _ => None,
                };
                send(control, &Request::AgentCard { number, card })?;
            }
            (Reply::Failed { reason }, _) => return Err(NotJoined::Agent(reason)),
            (other, _) => return Err(NotJoined::Agent(format!("it has answered {other:?}"))),
        }
    }
}

fn send(control: &OwnedFd, request: &Request) -> Result<(), NotJoined> {
    let sent = fdpass::send(control, &request.encode(), None);
    sent.map_err(|error| match receive(control, 0) {
        // The agent has said why it ends.
        Ok((Reply::Failed { reason }, _)) => NotJoined::Agent(reason),
        _ => NotJoined::Agent(format!("it has ended: {error}")),
    })
}
