//! The entrance: the listener for processes that want to be ranks without inherited descriptors
//! (later programs of a script, a program behind closed descriptors, a rank that has closed its
//! own) and for tools.
//!
//! The launcher listens under an abstract name. It admits a process that knows its secret, belongs
//! to its user, and descends from the process that it has started as the rank. [`admit`] decides;
//! processes that must wait are checked again periodically. This is for jobs on one host: with
//! several hosts only each launcher knows its own generations, so the entrance is for tools alone
//! there ([`crate::inquiry`]).

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use oxmpi_shm::segment::{RankState, Segment};
use oxmpi_sys::{fdpass, local, net};
use rustix::event::epoll;
use tracing::debug;

use super::launcher::{ENTRANCE, ENTRANT, Launcher};
use super::members::JobMember;
use super::plugs::{self, Plug};
use super::start::{self, RankProcess, postboxes_of};
use super::{Launch, LaunchError};
use crate::host::ranks::LocalRank;
use crate::inquiry::ENTRANCE_PREFIX;
use crate::job::JobEvent;
use oxmpi_daemon::diagnostics::MessageName;
use oxmpi_rt_client::blob;
use oxmpi_rt_client::client::{BOOT_VARIABLE, WayIn};
use oxmpi_rt_client::control::{MAX_MESSAGE, Reply, Request};
use oxmpi_rt_client::generation::{Admission, Owner, RankSeat, admit, why_awaited};
use oxmpi_rt_proto::tool::{ToolReply, ToolRequest};
use oxmpi_sys::process_stat::{is_alive, line_of};
use oxmpi_wire::hex::to_hex;

/// The most connections; the oldest silent one is closed for a new one.
const MOST: usize = 1024;
/// root may query jobs of other users.
const ROOT: u32 = 0;
/// The interval of checks whether the next generation can begin.
const CHECK_INTERVAL: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Entrance {
    pub(super) listener: OwnedFd,
    name: String,
    secret: String,
    is_for_ranks: bool,
    entrants: BTreeMap<u32, Entrant>,
    next: u32,
    /// When waiting processes are checked; `None`: at once.
    next_check: Option<Instant>,
    /// The number of later generations of each job, by the number of its first process.
    generations: BTreeMap<u32, u32>,
}

#[derive(Debug)]
struct Entrant {
    socket: OwnedFd,
    pid: u32,
    /// The rank that the process wants to be, and since when; `None` before its request.
    wants: Option<(u32, Instant)>,
}

impl Entrance {
    /// Listens for tools, and if `is_for_ranks` for processes that want to be ranks.
    pub(super) fn open(is_for_ranks: bool) -> Result<Entrance, LaunchError> {
        let mut word = [0; 8];
        net::fill_random(&mut word).map_err(|e| LaunchError::Kernel("get random bytes", e))?;
        let name = format!("{ENTRANCE_PREFIX}{:016x}", u64::from_ne_bytes(word));
        let listener = local::listen_as(&name)
            .map_err(|e| LaunchError::Kernel("listen under a local name", e))?;
        let secret = to_hex(&start::draw_secret()?);
        let (entrants, generations) = (BTreeMap::new(), BTreeMap::new());
        Ok(Entrance {
            listener,
            name,
            secret,
            is_for_ranks,
            entrants,
            next: 0,
            next_check: None,
            generations,
        })
    }

    /// The address for the environment of ranks, with number 0.
    pub(super) fn way_in(&self) -> Option<WayIn> {
        let address = || WayIn { name: self.name.clone(), number: 0, secret: self.secret.clone() };
        self.is_for_ranks.then(address)
    }

    /// Listens under the name of an earlier launcher, for ranks that are restored from their
    /// images. An error also if another process listens there.
    pub(super) fn open_as(
        (name, secret): (String, String),
        generation: u32,
    ) -> Result<Entrance, LaunchError> {
        let listener = local::listen_as(&name)
            .map_err(|e| LaunchError::Kernel("listen under a local name", e))?;
        let generations = BTreeMap::from([(0, generation)]);
        let (entrants, is_for_ranks) = (BTreeMap::new(), true);
        Ok(Entrance {
            listener,
            name,
            secret,
            is_for_ranks,
            entrants,
            next: 0,
            next_check: None,
            generations,
        })
    }

    pub(super) fn names(&self) -> (String, String) {
        (self.name.clone(), self.secret.clone())
    }

    pub(super) fn pid_of(&self, id: u32) -> Option<u32> {
        Some(self.entrants.get(&id)?.pid)
    }

    pub(super) fn time(&self) -> Option<Instant> {
        self.next_check.filter(|_| self.waiting().next().is_some())
    }

    fn waiting(&self) -> impl Iterator<Item = (u32, u32, Instant)> {
        self.entrants
            .values()
            .filter_map(|one| one.wants.map(|(number, since)| (number, one.pid, since)))
    }

    pub(super) fn generation(&self, first: u32) -> u32 {
        self.generations.get(&first).copied().unwrap_or(0)
    }
}

impl Launcher<'_> {
    pub(super) fn watch_entrance(&self) -> rustix::io::Result<()> {
        match &self.entrance {
            Some(entrance) => self.host.listen(entrance.listener.as_fd(), ENTRANCE, 0),
            None => Ok(()),
        }
    }

    /// The incarnation of a process for its peers over sockets.
    pub(super) fn incarnation(&self, number: u32) -> u32 {
        let first = self.job.first_of(number).unwrap_or(number);
        1 + self.entrance.as_ref().map_or(0, |entrance| entrance.generation(first))
    }

    pub(super) fn welcome_entrants(&mut self) {
        while let Some(entrance) = &mut self.entrance {
            let Ok(Some(socket)) = local::accept(&entrance.listener) else { return };
            let own = rustix::process::geteuid().as_raw();
            let Some(peer) =
                local::peer(&socket).ok().filter(|peer| [own, ROOT].contains(&peer.user))
            else {
                continue;
            };
            if entrance.entrants.len() >= MOST {
                let silent = entrance.entrants.iter().find(|(_, one)| one.wants.is_none());
                let Some(oldest) = silent.map(|(id, _)| *id) else { continue };
                entrance.entrants.remove(&oldest);
            }
            let id = entrance.next;
            entrance.next = id.wrapping_add(1);
            let entrant = Entrant { socket, pid: peer.pid.cast_unsigned(), wants: None };
            let place = entrance.entrants.entry(id).insert_entry(entrant);
            let watched = epoll::add(
                &self.host.events,
                &place.get().socket,
                epoll::EventData::new_u64(ENTRANT << 32 | u64::from(id)),
                epoll::EventFlags::IN,
            );
            if watched.is_err() {
                place.remove();
            }
        }
    }

    /// Handles the message of a connection, which is its only one.
    pub(super) fn read_entrant(&mut self, id: u32) {
        let (is_holder, is_caller) = (self.is_holder(id), self.is_caller(id));
        let Some(entrance) = &mut self.entrance else { return };
        let Some(entrant) = entrance.entrants.get_mut(&id) else { return };
        let mut bytes = [0; MAX_MESSAGE];
        let packet = match fdpass::receive(&entrant.socket, &mut bytes) {
            Ok((n, _)) if entrant.wants.is_none() => &bytes[..n],
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
            _ => &[],
        };
        let of_tool = ToolRequest::decode(packet);
        let request = of_tool.as_ref().map(|request| MessageName(request).to_string());
        debug!(pid = entrant.pid, request, "a message at the entrance");
        if is_holder {
            return self.handle_holder_message(id, of_tool.as_ref());
        }
        if is_caller {
            return self.handle_caller_message(id, of_tool.as_ref());
        }
        if let Some(request) = of_tool {
            return self.begin_for_tool(id, &request);
        }
        let (number, secret, returns) = match Request::decode(packet) {
            Ok(Request::Enter { number, secret }) => (number, secret, false),
            Ok(Request::Return { number, secret }) => (number, secret, true),
            _ => {
                entrance.entrants.remove(&id);
                return;
            }
        };
        let is_known = entrance.is_for_ranks && secret == entrance.secret;
        let pid = entrant.pid;
        if !is_known || !self.descends(pid, number) {
            return self
                .end_entrant(id, &Reply::Refused { rank: number, reason: "it is no rank".into() });
        }
        if returns {
            return self.take_back(id, number, pid);
        }
        if self.rank(number).is_some_and(|rank| is_owner_still(rank, pid)) {
            let reason = "it is the rank already".into();
            return self.end_entrant(id, &Reply::Refused { rank: number, reason });
        }
        if let Some(entrant) =
            self.entrance.as_mut().and_then(|entrance| entrance.entrants.get_mut(&id))
        {
            entrant.wants = Some((number, Instant::now()));
        }
        if let Some(entrance) = &mut self.entrance {
            entrance.next_check = None;
        }
    }

    /// Carries out the first request of a tool.
    fn begin_for_tool(&mut self, id: u32, request: &ToolRequest) {
        match request {
            ToolRequest::Describe => self.describe(id),
            ToolRequest::Quiesce { limit_ms } => self.quiesce(id, *limit_ms),
            ToolRequest::Hold => self.hold(id),
            ToolRequest::CallFunctions { saves } => self.call_functions(id, *saves),
            ToolRequest::Imaged { .. }
            | ToolRequest::ImageFar { .. }
            | ToolRequest::EndHeld { .. } => {
                self.refuse_tool(id, "its processes are not held for this tool".into());
            }
        }
    }

    /// Whether a process was started as a rank, or descends from that process.
    fn descends(&self, pid: u32, number: u32) -> bool {
        let Some(rank) = self.rank(number).filter(|rank| rank.is_child()) else { return false };
        line_of(pid, Some(std::process::id())).0.contains(&rank.process.pid)
    }

    fn end_entrant(&mut self, id: u32, reply: &Reply) {
        self.send_last(id, &reply.encode());
    }

    fn send_last(&mut self, id: u32, packet: &[u8]) {
        if let Some(entrant) =
            self.entrance.as_mut().and_then(|entrance| entrance.entrants.remove(&id))
        {
            let _ = fdpass::send(&entrant.socket, packet, None);
        }
    }

    /// Sends a reply to a tool, and ends its connection.
    pub(super) fn end_tool(&mut self, id: u32, reply: &ToolReply) {
        self.send_last(id, &reply.encode());
    }

    pub(super) fn close_entrant(&mut self, id: u32) {
        self.entrance.iter_mut().for_each(|entrance| _ = entrance.entrants.remove(&id));
    }

    /// Refuses the request of a tool, and ends its connection.
    pub(super) fn refuse_tool(&mut self, id: u32, reason: String) {
        self.end_tool(id, &ToolReply::Refused { reason });
    }

    /// Sends a tool an answer that may be longer than a message.
    pub(super) fn give_tool(&self, id: u32, answer: &[u8]) -> Result<(), String> {
        let fd = blob::write(answer).map_err(|error| error.to_string())?;
        self.answer_tool(id, &ToolReply::Given, Some(fd.as_fd()));
        Ok(())
    }

    /// Sends a reply to a tool whose connection stays open.
    pub(super) fn answer_tool(&self, id: u32, reply: &ToolReply, fd: Option<BorrowedFd<'_>>) {
        if let Some(entrant) =
            self.entrance.as_ref().and_then(|entrance| entrance.entrants.get(&id))
        {
            let _ = fdpass::send(&entrant.socket, &reply.encode(), fd);
        }
    }

    fn take_back(&mut self, id: u32, number: u32, pid: u32) {
        let owner = self.rank(number).and_then(RankProcess::owner);
        if owner != Some(pid) {
            let reason = "it is not the rank".into();
            return self.end_entrant(id, &Reply::Refused { rank: number, reason });
        }
        if self.take_control(id, number) {
            self.answer(number, &Reply::Done { number: 0, text: String::new() }, None);
        }
    }

    fn take_control(&mut self, id: u32, number: u32) -> bool {
        let entrant = self.entrance.as_mut().and_then(|entrance| entrance.entrants.remove(&id));
        let Some(Entrant { socket, .. }) = entrant else { return false };
        // Messages on the old socket come before those on the new one.
        self.host.read_messages_of(number);
        self.handle_host_messages();
        self.host.replace_control(number, socket)
    }

    pub(super) fn check_entrants(&mut self, now: Instant) {
        let Some(entrance) = &mut self.entrance else { return };
        let waiting: Vec<u32> = entrance
            .entrants
            .iter()
            .filter(|(_, one)| one.wants.is_some())
            .map(|(id, _)| *id)
            .collect();
        if waiting.is_empty()
            || entrance.next_check.is_some_and(|next_check| next_check > now)
            || self.job.is_ending()
        {
            return;
        }
        entrance.next_check = Some(now + CHECK_INTERVAL);
        // The ranks of the last job, valid until a process is admitted.
        let mut known: Option<(u32, Vec<RankSeat>)> = None;
        for id in waiting {
            let entrant = self.entrance.as_ref().and_then(|entrance| entrance.entrants.get(&id));
            let Some(Entrant { pid, wants: Some((number, _)), .. }) = entrant else { continue };
            let (pid, number) = (*pid, *number);
            let first = self.job.first_of(number).unwrap_or(number);
            let (_, seats) = match known.take().filter(|(of, _)| *of == first) {
                Some(known) => known,
                None => (first, self.seats(number)),
            };
            let admission = admit(number, pid, &seats, &self.applicants());
            if matches!(admission, Admission::Waits(_)) {
                known = Some((first, seats));
            } else {
                self.answer_entrant(id, number, pid, admission);
            }
        }
    }

    fn answer_entrant(&mut self, id: u32, number: u32, pid: u32, admission: Admission) {
        match admission {
            Admission::Waits(_) => {}
            Admission::Now => self.let_in(id, number, pid),
            Admission::Next => match self.begin_generation(number) {
                Ok(()) => self.let_in(id, number, pid),
                Err(reason) => self.turn_away(id, number, &reason),
            },
            Admission::Singleton => {
                let reason = "another process is the rank".into();
                self.end_entrant(id, &Reply::Refused { rank: number, reason });
            }
            Admission::Died { number: dead, pid } => {
                let name = self.job.name(dead);
                let reason = format!(
                    "an MPI program of {name} (pid {pid}) has ended without MPI_Finalize, and its script goes on with another"
                );
                self.turn_away(id, number, &reason);
            }
            Admission::Ended(ended) => {
                let (own, name) = (self.job.name(number), self.job.name(ended));
                let reason = format!(
                    "the script of {own} runs one more MPI program than that of {name}, which has ended: a program in which all \
                     ranks take part cannot begin (to run one as a job of its own: env -u {BOOT_VARIABLE} PROGRAM)"
                );
                self.turn_away(id, number, &reason);
            }
        }
    }

    fn applicants(&self) -> Vec<u32> {
        self.entrance.iter().flat_map(Entrance::waiting).map(|(_, pid, _)| pid).collect()
    }

    fn seats(&self, number: u32) -> Vec<RankSeat> {
        let Some((first, size)) = self.job.first_of(number).zip(self.job.size_of(number)) else {
            return Vec::new();
        };
        let seat = |(number, member): (u32, &JobMember)| {
            let owner = self.rank(number).map_or(Owner::Left, owner_of);
            RankSeat { number, owner, runs: member.running }
        };
        self.members.range(first..first + size).map(seat).collect()
    }

    fn let_in(&mut self, id: u32, number: u32, pid: u32) {
        let claims = |rank: &RankProcess| {
            rank.number_inside(pid).is_some_and(|own| rank.segment.status().claim(own).is_ok())
        };
        let claimed = self.rank(number).is_some_and(claims);
        if !claimed {
            // Another process was faster, with inherited descriptors.
            let reason = "another process is the rank".into();
            return self.end_entrant(id, &Reply::Refused { rank: number, reason });
        }
        let file = self.rank(number).and_then(|rank| rank.segment_fd.try_clone().ok());
        if self.take_control(id, number) {
            let reply = Reply::Segment { rank: number, contact: None };
            self.answer(number, &reply, file.as_ref().map(AsFd::as_fd));
        }
    }

    fn turn_away(&mut self, id: u32, number: u32, reason: &str) {
        self.end_entrant(id, &Reply::Failed { reason: reason.into() });
        let seen = self.glimpse(number);
        self.handle_event(JobEvent::Abort { rank: number, code: 1, text: reason.into(), seen });
    }

    /// Begins the next generation of a job: all ranks get new segments and sockets, as no process
    /// uses the old ones. The error is for the user.
    fn begin_generation(&mut self, number: u32) -> Result<(), String> {
        let first = self.job.first_of(number).ok_or("its job is over")?;
        if self.links.is_any() || !self.job.is_only(first) {
            return Err("processes of other jobs, which may know the ranks of the program before, still run: a script with several \
                 MPI programs must be connected with no other job when one of them ends"
                .into());
        }
        let numbers: Vec<u32> = self.seats(number).iter().map(|seat| seat.number).collect();
        self.renew(&numbers).map_err(|error| error.to_string())?;
        self.members.drop_parent(first);
        self.job.renew(first);
        for number in &numbers {
            self.ports.ended(*number);
            self.forget_services(*number);
            self.takes_no_step(*number);
        }
        if let Some(entrance) = &mut self.entrance {
            *entrance.generations.entry(first).or_default() += 1;
        }
        Ok(())
    }

    fn renew(&mut self, numbers: &[u32]) -> Result<(), LaunchError> {
        let mut made = Vec::new();
        for rank in numbers.iter().filter_map(|number| self.rank(*number)) {
            let fd = Segment::create(rank.segment.boot())
                .map_err(|e| LaunchError::Kernel("make a segment", e))?;
            let segment = Segment::map(&fd).map_err(LaunchError::Segment)?;
            // A later process counts survived failures in the same way.
            self.members.deaths().iter().for_each(|_| segment.status().note_death());
            segment.status().ask_quiesce_step(self.standing.step());
            made.push((fd, segment));
        }
        let boots: Vec<_> = made.iter().map(|(_, segment)| *segment.boot()).collect();
        let places = boots.iter().map(|boot| (boot.node, boot.local_size));
        let postboxes = postboxes_of(self.launch, boots.iter().any(|boot| boot.sockets), places)?;
        let mut plugs = new_plugs(self.launch, &boots)?.into_iter();
        if self.launch.transport.has_daemons() {
            // The old relays have noted the ends of ranks.
            self.host.end_relays();
        }
        for (number, (fd, segment)) in numbers.iter().zip(made) {
            let Some(LocalRank { rank, plug, .. }) = self.host.ranks.get_mut(*number) else {
                continue;
            };
            *plug = plugs.next();
            rank.postboxes = postboxes.get(&segment.boot().node).cloned();
            (rank.segment, rank.segment_fd) = (segment, fd);
        }
        self.start_relays()
    }

    pub(super) fn entrant_lines(&self) -> String {
        let waiting = self.entrance.iter().flat_map(Entrance::waiting);
        let line = |(number, pid, since): (u32, u32, Instant)| {
            let seats = self.seats(number);
            let Admission::Waits(awaited) = admit(number, pid, &seats, &self.applicants()) else {
                return String::new();
            };
            let awaited = seats.iter().filter(|seat| awaited.contains(&seat.number));
            let awaited: Vec<String> = awaited
                .map(|seat| format!("{}, {}", self.job.name(seat.number), why_awaited(seat.owner)))
                .collect();
            format!(
                "  {}: its next program (pid {pid}) waits in MPI_Init since {} s for {}\n",
                self.job.name(number),
                since.elapsed().as_secs(),
                awaited.join("; ")
            )
        };
        waiting.map(line).collect()
    }

    /// Whether a process has waited to be a rank for `limit`.
    pub(super) fn has_entrant_of(&self, limit: Duration) -> bool {
        self.entrance
            .iter()
            .flat_map(Entrance::waiting)
            .any(|(_, _, since)| since.elapsed() >= limit)
    }
}

fn owner_of(rank: &RankProcess) -> Owner {
    let status = rank.segment.status();
    if status.pid().is_none() {
        return Owner::Nobody;
    }
    // A process without a number in this PID namespace has ended.
    let pid = rank.owner().unwrap_or(0);
    // Tests for life first: a state that the process has written before its end counts.
    let lives = is_alive(pid);
    match (status.state(), lives) {
        (RankState::Finalized | RankState::Resting, true) => Owner::Lingers { pid },
        (RankState::Finalized | RankState::Resting, false) => Owner::Left,
        (_, true) => Owner::Inside { pid },
        (_, false) => Owner::Died { pid },
    }
}

/// Whether a process owns a rank and still runs the program that became the rank: then it has the
/// segment mapped (the library is loaded twice). Another program that it has executed has not.
fn is_owner_still(rank: &RankProcess, pid: u32) -> bool {
    if rank.owner() != Some(pid) {
        return false;
    }
    let Ok(stat) = rustix::fs::fstat(&rank.segment_fd) else { return false };
    // If the maps cannot be read, the process does not become the rank again.
    let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { return true };
    // Address, rights, offset, device, inode, name (proc_pid_maps(5)).
    let is_it = |line: &str| {
        let inode = line.split_ascii_whitespace().nth(4);
        inode.and_then(|inode| inode.parse().ok()) == Some(stat.st_ino) && line.contains("/memfd:")
    };
    maps.lines().any(is_it)
}

fn new_plugs(
    launch: &Launch,
    boots: &[oxmpi_shm::segment::Boot],
) -> Result<Vec<Plug>, LaunchError> {
    match boots.iter().any(|boot| boot.sockets) {
        true => plugs::plugs(launch, boots.len(), true, boots.len() > 1),
        false => Ok(Vec::new()),
    }
}
