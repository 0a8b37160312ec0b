//! A rank's side of the start-up: its identity, its peers' segments, and the end of the job.
//!
//! `mpirun` names two descriptors in the environment, `OXMPI_BOOT=VERSION:SEGMENT:CONTROL`. The
//! first process of a rank that calls [`Client::from_env`] takes them and becomes the rank. If the
//! descriptors are closed or belong to an earlier program, the process contacts the launcher by
//! name (`entering.rs`). Without a launcher, or in a process that a rank itself started, the
//! process is a *singleton*: a job of one rank (MPI-5.0 section 11.5.2 "Starting Processes and
//! Establishing Communication" expects MPI_Init to work there).

mod entering;
mod joining;
mod serving;
mod universe;

pub use self::entering::{WAY_IN_VARIABLE, WayIn};
pub use self::joining::{JOIN_OPTION, NotJoined, abort_unjoined, join_settings};
pub use self::serving::SERVE_OPTION;
pub use self::universe::{Meeting, UniverseError};

use std::hash::{BuildHasher as _, RandomState};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use oxmpi_fabric::Listening;
use oxmpi_join::ProcessManager;
use oxmpi_param::{LEAST_SOCKET_BUFFERS, Params};
use oxmpi_shm::control_section::PoolSegments;
use oxmpi_shm::postbox::PostboxShape;
use oxmpi_shm::segment::{Boot, RankState, Segment, SegmentConfig, SegmentError};
use oxmpi_sys::descriptor::Descriptor;
use oxmpi_sys::{cpus, fdpass, local, spawn, tracer};

use self::entering::Entered;
use self::joining::leave;
use crate::control::{self, DecodeError, MAX_MESSAGE, Reply, Request};
use crate::postboxes::SharedPostboxes;
use crate::universe::Contact;
use oxmpi_sys::process_stat::is_alive;

/// The environment variable with the descriptors of a rank's segment and control socket.
pub const BOOT_VARIABLE: &str = "OXMPI_BOOT";
pub const SIZE_VARIABLE: &str = "OXMPI_COMM_WORLD_SIZE";
/// The environment variable with the launcher's number of slots on all hosts (MPI_UNIVERSE_SIZE).
pub const UNIVERSE_SIZE_VARIABLE: &str = "OXMPI_UNIVERSE_SIZE";
/// Set for ranks that continue from a checkpoint of their program's own functions (`cr self`).
pub const RESTART_VARIABLE: &str = "OXMPI_CR_RESTART";
/// The descriptor number of the segment in a rank, or in the launcher of a singleton: above the
/// numbers that scripts use, and within the descriptor table that every process has.
pub const SEGMENT_NUMBER: i32 = 62;
/// The descriptor number of the control socket there.
pub const CONTROL_NUMBER: i32 = 63;
/// The control socket's name in messages.
const CONTROL: &str = "OxMPI's connection with mpirun";
/// The time for the head to print the report on a call of MPI_Abort.
const REPORT_TIME: Duration = Duration::from_millis(50);
/// The node of a process whose node is unknown.
pub const NOWHERE: u32 = u32::MAX;
/// The version in [`BOOT_VARIABLE`], by which a library and a launcher of two releases notice each
/// other before the first message.
pub const BOOT_VERSION: u32 = control::VERSION as u32;

/// Opens the segments of a job.
pub trait Directory: Send + Sync {
    /// The segment of `rank` as a new close-on-exec descriptor, and another launcher's contact.
    fn open_peer(&self, rank: u32) -> Result<(OwnedFd, Option<Contact>), DirectoryError>;
}

/// Why a peer's segment could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    #[error("rank {rank} cannot be reached: {reason}")]
    Refused { rank: u32, reason: String },
    #[error("mpirun does not answer the request for rank {rank}: {error}")]
    Launcher { rank: u32, error: io::Error },
    #[error("mpirun's answer for rank {rank}: {error}")]
    Answer { rank: u32, error: DecodeError },
}

/// Why a process that `mpirun` started cannot take part.
#[derive(Debug, thiserror::Error)]
pub enum BootError {
    #[error(
        "mpirun speaks version {found} of OxMPI's protocol with its ranks, and the libmpi_abi.so.1 of this process version {BOOT_VERSION}: start the program by the mpirun of its library's installation, or let it load the library of mpirun's (LD_LIBRARY_PATH; in a container, bind that directory)"
    )]
    Version { found: u32 },
    #[error(
        "{BOOT_VARIABLE}={value} is not of the form VERSION:SEGMENT:CONTROL; unset it to run without mpirun"
    )]
    Syntax { value: String },
    #[error("this process cannot become a rank of its job: {0}")]
    NotAdmitted(String),
    #[error("the segment that mpirun made for this rank: {0}")]
    Segment(#[from] SegmentError),
    #[error("cannot make a segment: {0}")]
    Create(#[source] io::Error),
}

/// This process as a rank of its job.
#[derive(Debug)]
pub struct Client {
    segment: Arc<Segment>,
    fd: Descriptor,
    /// Empty in a singleton until it needs a launcher. Locked from a request to its answer.
    control: OnceLock<Mutex<Descriptor>>,
    getting_launcher: Mutex<()>,
    /// The count of restores of the process when its control socket was last taken.
    restored: AtomicU32,
    /// The launcher's number among the user's on this machine, once other launchers matter.
    place: OnceLock<u32>,
    /// Set in another launcher's job: the process manager, until this process takes leave, if there
    /// is one.
    manager: OnceLock<Mutex<Option<Box<dyn ProcessManager>>>>,
}

impl Client {
    /// The rank that `mpirun` started this process as, or `None`: there is no launcher, or another
    /// process is the rank and has started this one. The environment stays as it is. The second
    /// program of a script waits for other ranks here.
    ///
    /// # Errors
    /// The launcher does not fit this library, or does not admit this process; see [`BootError`].
    pub fn from_env() -> Result<Option<Client>, BootError> {
        match std::env::var(BOOT_VARIABLE) {
            Ok(value) => Client::from_value(&value),
            Err(_) => Ok(None),
        }
    }

    /// The rank that this process was started as, if its descriptors are open and unclaimed.
    pub fn inherited() -> Option<Client> {
        let (segment, control) = parse_boot(&std::env::var(BOOT_VARIABLE).ok()?).ok()?;
        Client::of_inherited(segment, control).ok()?
    }

    /// The size of the job that this process will belong to, before it is a rank. `None`: only the
    /// launcher can answer, as in a process whose descriptors are closed or belong to an earlier
    /// program.
    pub fn ranks_started() -> Option<u32> {
        let Ok(value) = std::env::var(BOOT_VARIABLE) else { return Some(1) };
        let (segment, control) = parse_boot(&value).ok()?;
        let is_rank = spawn::inherited_is_segment(segment) && spawn::inherited_is_control(control);
        std::env::var(SIZE_VARIABLE).ok().filter(|_| is_rank)?.parse().ok()
    }

    fn from_value(value: &str) -> Result<Option<Client>, BootError> {
        let (segment, control) = parse_boot(value)?;
        if let Some(client) = Client::of_inherited(segment, control)? {
            return Ok(Some(client));
        }
        match Client::enter()? {
            Entered::Rank(client) => Ok(Some(client)),
            Entered::Singleton | Entered::NoLauncher => Ok(None),
        }
    }

    /// A process that a rank started finds the descriptors closed (close-on-exec), or its own files
    /// under these numbers: that is no error.
    fn of_inherited(segment: i32, control: i32) -> Result<Option<Client>, BootError> {
        if !spawn::inherited_is_segment(segment) || !spawn::inherited_is_control(control) {
            return Ok(None);
        }
        let (Some(fd), Some(control)) =
            (spawn::take_inherited(segment), spawn::take_inherited(control))
        else {
            return Ok(None);
        };
        let segment = Segment::map(&fd)?;
        let Err(owner) = segment.status().claim(std::process::id()) else {
            return Client::of_rank(segment, fd, control).map(Some);
        };
        let has_left =
            matches!(segment.status().state(), RankState::Finalized | RankState::Resting);
        if has_left && !is_alive(owner) && std::env::var_os(WAY_IN_VARIABLE).is_none() {
            return Err(BootError::NotAdmitted(format!(
                "it is the second MPI program of a script, which is served only where all ranks are on the host of mpirun: start \
                 each program by an mpirun of its own, or this one as a job of one rank: env -u {BOOT_VARIABLE} PROGRAM"
            )));
        }
        Ok(None)
    }

    fn of_rank(segment: Arc<Segment>, fd: OwnedFd, control: OwnedFd) -> Result<Client, BootError> {
        let client = Client::alone(segment, fd)?;
        let control = Descriptor::new(control).map_err(BootError::Create)?;
        client.begin_service(control);
        Ok(client)
    }

    /// Uses this socket from now on, and lets the launcher's descendants read this process's
    /// memory.
    fn begin_service(&self, control: Descriptor) {
        // The peer is the process that created or listens on the socket: the launcher of this host,
        // or a singleton itself, from which its launcher and the launcher's children descend.
        if let Ok(launcher) = local::peer(&*control) {
            tracer::let_descendants_read(launcher.pid.cast_unsigned());
        }
        let _ = self.control.set(Mutex::new(control));
    }

    fn alone(segment: Arc<Segment>, fd: OwnedFd) -> Result<Client, BootError> {
        let fd = Descriptor::new(fd).map_err(BootError::Create)?;
        let (getting_launcher, place) = (Mutex::default(), OnceLock::new());
        let (restored, manager) = (AtomicU32::new(segment.status().restored()), OnceLock::new());
        let control = OnceLock::new();
        Ok(Client { segment, fd, control, getting_launcher, restored, place, manager })
    }

    /// A job of one rank, without a launcher.
    pub fn singleton(params: &Params) -> Result<Client, BootError> {
        let boot = Boot {
            job_id: new_universe(),
            rank: 0,
            base: 0,
            size: 1,
            local_rank: 0,
            local_size: 1,
            app: 0,
            oversubscribed: false,
            asymmetric: false,
            sockets: false,
            node: None,
            config: segment_config(params, false),
        };
        let fd = Segment::create(&boot).map_err(BootError::Create)?;
        let segment = Segment::map(&fd)?;
        let _ = segment.status().claim(std::process::id());
        Client::alone(segment, fd)
    }

    /// The rank's own segment, mapped and claimed, with the boot record.
    pub fn segment(&self) -> &Arc<Segment> {
        &self.segment
    }

    /// The file of the rank's own segment, as a new descriptor. If the program has closed the
    /// rank's descriptor, the launcher is requested to send it again.
    pub fn segment_file(&self) -> io::Result<OwnedFd> {
        match self.fd.get("the memory that OxMPI's other processes share with it") {
            Ok(fd) => fd.try_clone_to_owned(),
            Err(closed) => {
                let rank = self.segment.boot().rank;
                let again = self
                    .open_peer(rank)
                    .map_err(|error| io::Error::other(format!("{closed}: {error}")));
                again.map(|(fd, _)| fd)
            }
        }
    }

    /// The control socket, reconnected if it was closed; `None` in a singleton without a launcher.
    fn control(&self) -> Option<io::Result<MutexGuard<'_, Descriptor>>> {
        // A poisoned lock: another thread panicked between request and answer.
        let mut control = self.control.get()?.lock().unwrap_or_else(PoisonError::into_inner);
        let restored = self.segment.status().restored();
        if self.restored.swap(restored, Ordering::Relaxed) != restored {
            // After a restore another descriptor, to the new launcher, has the socket's number.
            control.adopt(|fd| fdpass::is_one(fd));
        }
        let Err(closed) = control.get(CONTROL) else { return Some(Ok(control)) };
        let no_way = || "the environment has no address of mpirun to reconnect to".to_string();
        let again = WayIn::from_env().ok_or_else(no_way).and_then(|way_in| way_in.connect_again());
        let again =
            again.and_then(|socket| Descriptor::new(socket).map_err(|error| error.to_string()));
        Some(match again {
            Ok(socket) => {
                *control = socket;
                Ok(control)
            }
            Err(error) => {
                Err(io::Error::other(format!("{closed}, and cannot be opened again: {error}")))
            }
        })
    }

    /// Whether there is no launcher (yet).
    pub fn is_singleton(&self) -> bool {
        self.control.get().is_none()
    }

    /// Takes leave of the process manager of another launcher's job, if there is one: from then on
    /// that launcher does not take the end of this process for a failure.
    pub fn leave_manager(&self) {
        leave(self.manager.get().and_then(take_manager));
    }

    /// In another launcher's job, informs the head that this process has finalized MPI and ends:
    /// its agent may end with it. Waits for the head, so no peer may need this process any more.
    pub fn report_end(&self) {
        if self.manager.get().is_some() {
            // A head that is gone needs no report.
            let _ = self.ask(self.segment.boot().rank, &Request::Finished);
        }
    }

    /// Requests the launcher to end the job with `code` and to print `text` (if it is empty, that
    /// this rank called MPI_Abort). Returns at once whether the request was sent; the caller ends
    /// its process. In a singleton the text is printed here.
    pub fn abort(&self, code: i32, text: &str) -> bool {
        let is_sent = self.report(&Request::Abort { code, text: text.to_string() }, text);
        if let Some(mut manager) = self.manager.get().and_then(take_manager) {
            // The other launcher may close the outputs when it ends the job: the report goes first.
            std::thread::sleep(REPORT_TIME);
            joining::await_readers();
            let _ = manager.abort(code, text);
        }
        is_sent
    }

    /// Requests a warning, printed once for all ranks. In a singleton it is printed here.
    pub fn say(&self, text: &str) {
        self.report(&Request::Say { text: text.to_string() }, text);
    }

    fn report(&self, request: &Request, text: &str) -> bool {
        let is_sent = matches!(self.send(request, None), Some(Ok(())));
        if !is_sent && !text.is_empty() {
            oxmpi_sys::complain!("{}", text.trim_end());
        }
        is_sent
    }

    /// Sends a request that has no answer; `None`: there is no launcher.
    fn send(&self, request: &Request, fd: Option<BorrowedFd<'_>>) -> Option<io::Result<()>> {
        let control = self.control()?;
        Some(control.and_then(|control| {
            let socket = control.get(CONTROL).map_err(io::Error::other)?;
            fdpass::send(socket, &request.encode(), fd)
        }))
    }
}

fn take_manager(
    manager: &Mutex<Option<Box<dyn ProcessManager>>>,
) -> Option<Box<dyn ProcessManager>> {
    manager.lock().unwrap_or_else(PoisonError::into_inner).take()
}

/// A random number that identifies all jobs of a launcher.
pub fn new_universe() -> u64 {
    // At least one of the two hash keys is random.
    RandomState::new().hash_one(std::process::id()).max(1)
}

/// The socket addresses of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SocketAddresses {
    /// Separated by blanks.
    pub addresses: String,
    /// If the process belongs to another launcher: its contact, and the secret shared with it.
    pub contact: Option<(Contact, [u8; 32])>,
}

impl Client {
    /// This rank's listening socket, from the launcher.
    pub fn listener(&self) -> Result<Listening, DirectoryError> {
        let rank = self.segment.boot().rank;
        listening(rank, self.ask(rank, &Request::Listener)?)
    }

    /// A further listening socket for processes of other launchers that share no memory with this
    /// process. `None`: no further one is needed.
    pub fn listener_abroad(&self) -> Result<Option<Listening>, DirectoryError> {
        let rank = self.segment.boot().rank;
        match self.ask(rank, &Request::Abroad)? {
            (Reply::Done { .. }, _) => Ok(None),
            answer => listening(rank, answer).map(Some),
        }
    }

    /// Reports that this process has taken a step ([`Request::Quiesced`]).
    pub fn quiesced(&self, step: u32) {
        self.report(&Request::Quiesced { step }, "");
    }

    /// This rank's socket to the daemon of its node.
    pub fn relay(&self) -> Result<OwnedFd, DirectoryError> {
        let rank = self.segment.boot().rank;
        match self.ask(rank, &Request::Relay)? {
            (Reply::Relay, Some(socket)) => Ok(socket),
            (other, _) => Err(unexpected(rank, other)),
        }
    }

    /// The socket addresses of a rank. `None`: the rank has finalized.
    pub fn addresses(&self, rank: u32) -> Result<Option<SocketAddresses>, DirectoryError> {
        match self.ask(rank, &Request::Addresses { rank })? {
            (Reply::Addresses { rank: found, addresses, contact }, _) if found == rank => {
                Ok(Some(SocketAddresses { addresses, contact }))
            }
            (Reply::Left { rank: found }, _) if found == rank => Ok(None),
            (other, _) => Err(unexpected(rank, other)),
        }
    }

    /// The alarm of a process of a job with sockets.
    pub fn alarm(&self, rank: u32) -> Result<OwnedFd, DirectoryError> {
        match self.ask(rank, &Request::Alarm { rank })? {
            (Reply::Alarm { rank: found }, Some(alarm)) if found == rank => Ok(alarm),
            (other, _) => Err(unexpected(rank, other)),
        }
    }

    /// The nodes of all processes from number `from` on. Processes of other launchers and forgotten
    /// ones have [`NOWHERE`].
    pub fn nodes(&self, from: u32) -> Result<Vec<u32>, UniverseError> {
        self.given(&Request::Nodes { from }, None, "nodes")
    }

    /// The postbox segment of this rank's job on its node.
    pub fn postboxes(&self) -> Result<SharedPostboxes, DirectoryError> {
        let own = self.segment.boot().rank;
        match self.ask(own, &Request::Postboxes)? {
            (Reply::Postboxes { ranks, short, pool, semaphores }, Some(fd)) => {
                let shape = PostboxShape { ranks, short, pool };
                Ok(SharedPostboxes { fd, shape, semaphores })
            }
            (other, _) => Err(unexpected(own, other)),
        }
    }

    /// The process of a failure, by the failure's number in the order of all.
    pub fn dead(&self, number: u32) -> Result<u32, DirectoryError> {
        let own = self.segment.boot().rank;
        match self.ask(own, &Request::Death { number })? {
            (Reply::Death { process }, _) => Ok(process),
            (other, _) => Err(unexpected(own, other)),
        }
    }

    fn ask(
        &self,
        rank: u32,
        request: &Request,
    ) -> Result<(Reply, Option<OwnedFd>), DirectoryError> {
        self.ask_with(rank, request, None)
    }

    fn ask_with(
        &self,
        rank: u32,
        request: &Request,
        fd: Option<BorrowedFd<'_>>,
    ) -> Result<(Reply, Option<OwnedFd>), DirectoryError> {
        let Some(control) = self.control() else {
            let reason = "this process was started without mpirun and is a job of one rank";
            return Err(refused(rank, reason.into()));
        };
        let launcher = |error| DirectoryError::Launcher { rank, error };
        let control = control.map_err(launcher)?;
        question(
            control.get(CONTROL).map_err(io::Error::other).map_err(launcher)?,
            rank,
            request,
            fd,
        )
    }
}

fn question(
    socket: impl AsFd,
    rank: u32,
    request: &Request,
    fd: Option<BorrowedFd<'_>>,
) -> Result<(Reply, Option<OwnedFd>), DirectoryError> {
    let launcher = |error| DirectoryError::Launcher { rank, error };
    fdpass::send(&socket, &request.encode(), fd).map_err(launcher)?;
    receive(socket, rank)
}

/// Waits for a message of the launcher. `rank` is for the text of an error.
fn receive(socket: impl AsFd, rank: u32) -> Result<(Reply, Option<OwnedFd>), DirectoryError> {
    let launcher = |error| DirectoryError::Launcher { rank, error };
    let mut bytes = [0; MAX_MESSAGE];
    let (n, fd) = fdpass::receive(socket, &mut bytes).map_err(launcher)?;
    if n == 0 {
        return Err(launcher(io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "it has closed the connection",
        )));
    }
    let reply =
        Reply::decode(&bytes[..n]).map_err(|error| DirectoryError::Answer { rank, error })?;
    Ok((reply, fd))
}

fn listening(rank: u32, answer: (Reply, Option<OwnedFd>)) -> Result<Listening, DirectoryError> {
    match answer {
        (Reply::Listener { incarnation, secret }, Some(socket)) => {
            Ok(Listening { socket, incarnation: incarnation.into(), secret })
        }
        (other, _) => Err(unexpected(rank, other)),
    }
}

fn refused(rank: u32, reason: String) -> DirectoryError {
    DirectoryError::Refused { rank, reason }
}

fn unexpected(rank: u32, reply: Reply) -> DirectoryError {
    match reply {
        Reply::Refused { reason, .. } => refused(rank, reason),
        other => refused(rank, format!("mpirun answered {other:?}")),
    }
}

impl Directory for Client {
    fn open_peer(&self, rank: u32) -> Result<(OwnedFd, Option<Contact>), DirectoryError> {
        match self.ask(rank, &Request::Segment { rank })? {
            (Reply::Segment { rank: found, contact }, Some(fd)) if found == rank => {
                Ok((fd, contact))
            }
            (other, _) => Err(unexpected(rank, other)),
        }
    }
}

/// The segments of a world of threads in one process, for tests.
#[derive(Debug)]
pub struct ThreadDirectory(Vec<OwnedFd>);

impl ThreadDirectory {
    /// A world whose rank `i` has segment `segments[i]`.
    pub fn new(segments: Vec<OwnedFd>) -> ThreadDirectory {
        ThreadDirectory(segments)
    }
}

impl Directory for ThreadDirectory {
    fn open_peer(&self, rank: u32) -> Result<(OwnedFd, Option<Contact>), DirectoryError> {
        let Some(fd) = self.0.get(rank as usize) else {
            let reason = format!("the world has {} ranks", self.0.len());
            return Err(DirectoryError::Refused { rank, reason });
        };
        let fd = fd.try_clone().map_err(|error| DirectoryError::Launcher { rank, error })?;
        Ok((fd, None))
    }
}

/// The sizes of a segment from the parameters. Ranks that share a processor share its caches too,
/// so they get a smaller pool.
pub fn segment_config(params: &Params, oversubscribed: bool) -> SegmentConfig {
    let pool_bytes = params.shm_pool_bytes() as u32;
    let least = 4 * SegmentConfig::default().pool_block_bytes;
    let pool_bytes = match pool_bytes {
        few if few < least => 0,
        _ if oversubscribed => (pool_bytes / 4).max(least),
        _ => pool_bytes,
    };
    // The parameters' limits keep the values of 32 bits below 2^32.
    SegmentConfig {
        inbox_cells: params.shm_inbox_cells() as u32,
        ring_slots: params.shm_ring_slots() as u32,
        ring_data_bytes: params.shm_ring_data_bytes() as u32,
        max_rings: params.shm_max_rings() as u32,
        pool_bytes,
        heap_bytes: params.shm_heap_bytes(),
        control_section_pool: control_section_pool(params),
        ..SegmentConfig::default()
    }
}

/// The message pool of a control section, from the parameters.
pub fn control_section_pool(params: &Params) -> PoolSegments {
    // The parameters' limits keep both values below 2^32.
    PoolSegments::of_pool(
        params.coll_base_shmem_message_pool_size() as u32,
        params.coll_base_shmem_num_segments() as u32,
    )
}

/// A warning if the parameter's socket buffer is smaller than the least that works.
pub fn raised_buffers(params: &Params) -> Option<String> {
    let wanted = params.sockets_buffers();
    let name = params.sockets()?.buffers.name;
    (wanted < LEAST_SOCKET_BUFFERS).then(|| {
        format!(
            "parameter '{name}' is {wanted}: the buffer of each socket is {LEAST_SOCKET_BUFFERS} bytes, as \
             connections stop with a smaller one"
        )
    })
}

/// Whether `ranks` ranks on this node have to share processors.
pub fn is_oversubscribed(ranks: u32) -> bool {
    ranks as usize > cpus::usable()
}

fn parse_boot(value: &str) -> Result<(i32, i32), BootError> {
    let syntax = || BootError::Syntax { value: value.to_string() };
    let (version, rest) = value.split_once(':').ok_or_else(syntax)?;
    let found = version.parse::<u32>().map_err(|_| syntax())?;
    if found != BOOT_VERSION {
        return Err(BootError::Version { found });
    }
    let (segment, control) = rest.split_once(':').ok_or_else(syntax)?;
    Ok((segment.parse().map_err(|_| syntax())?, control.parse().map_err(|_| syntax())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn a_boot_variable_is_read_or_refused_with_its_value() {
        let own = BOOT_VERSION;
        assert!(matches!(parse_boot(&format!("{own}:62:63")), Ok((62, 63))));
        assert!(matches!(parse_boot("3:62:63"), Err(BootError::Version { found: 3 })));
        for bad in ["", "5", "5:2", "x:2:3", "5:a:3", "5:2:3:4"] {
            assert!(
                matches!(parse_boot(bad), Err(BootError::Syntax { value }) if value == bad),
                "{bad}"
            );
        }
    }

    #[test]
    fn descriptors_that_are_not_the_launchers_make_a_singleton() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let (a, b) = fdpass::pair().unwrap();
        let numbers = [9990, file.as_raw_fd(), a.as_raw_fd(), b.as_raw_fd()];
        for segment in numbers {
            for control in numbers {
                assert!(
                    Client::from_value(&format!("{BOOT_VERSION}:{segment}:{control}"))
                        .unwrap()
                        .is_none()
                );
            }
        }
    }

    #[test]
    fn socket_buffers_hold_short_messages_and_have_a_least_size() {
        let buffers = |name, value| Params::default().with(name, value).unwrap().socket_buffers();
        assert_eq!(Params::default().socket_buffers(), 1 << 20);
        assert_eq!(buffers("rpi_tcp_short", "2000000"), 2_000_000);
        assert_eq!(buffers("rpi_tcp_sockbuf", "1m"), 1 << 20);
        assert_eq!(buffers("rpi_tcp_sockbuf", "0"), 32 << 10);
        let warning = |name, value| raised_buffers(&Params::default().with(name, value).unwrap());
        assert!(
            warning("rpi_tcp_sockbuf", "32767")
                .unwrap()
                .starts_with("parameter 'rpi_tcp_sockbuf' is 32767:")
        );
        assert_eq!(
            (warning("rpi_tcp_sockbuf", "32k"), warning("rpi_tcp_short", "0")),
            (None, None)
        );
    }

    #[test]
    fn a_singleton_is_rank_0_of_1_and_has_no_peers() {
        let client = Client::singleton(&Params::default()).unwrap();
        assert_eq!((client.segment().boot().rank, client.segment().boot().size), (0, 1));
        assert_eq!(client.segment().status().pid(), Some(std::process::id()));
        assert!(matches!(client.open_peer(1), Err(DirectoryError::Refused { rank: 1, .. })));
    }

    #[test]
    fn a_peer_is_requested_over_the_socket() {
        let (ours, theirs) = fdpass::pair().unwrap();
        let single = Client::singleton(&Params::default()).unwrap();
        let file = single.segment_file().unwrap();
        let client = Client::of_rank(single.segment, file, ours).unwrap();
        let launcher = std::thread::spawn(move || {
            let mut bytes = [0; MAX_MESSAGE];
            for _ in 0..2 {
                let (n, _) = fdpass::receive(&theirs, &mut bytes).unwrap();
                let Ok(Request::Segment { rank }) = Request::decode(&bytes[..n]) else {
                    panic!("no request")
                };
                if rank == 1 {
                    let null = std::fs::File::open("/dev/null").unwrap();
                    let reply = Reply::Segment { rank, contact: None };
                    fdpass::send(&theirs, &reply.encode(), Some(null.as_fd())).unwrap();
                } else {
                    let reason = "the job has 2 ranks".into();
                    fdpass::send(&theirs, &Reply::Refused { rank, reason }.encode(), None).unwrap();
                }
            }
        });
        assert!(client.open_peer(1).is_ok());
        assert!(client.open_peer(5).unwrap_err().to_string().contains("the job has 2 ranks"));
        launcher.join().unwrap();
        assert!(
            matches!(client.open_peer(0), Err(DirectoryError::Launcher { .. })),
            "the launcher is gone"
        );
    }

    #[test]
    fn a_thread_directory_opens_its_own_ranks_only() {
        let single = Client::singleton(&Params::default()).unwrap();
        let directory = ThreadDirectory::new(vec![single.segment_file().unwrap()]);
        assert_eq!(Segment::map(directory.open_peer(0).unwrap().0).unwrap().boot().size, 1);
        assert!(directory.open_peer(1).unwrap_err().to_string().contains("1 ranks"));
    }
}
