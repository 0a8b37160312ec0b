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

use super::launcher::{ENTRANT, Launcher};
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
    listener: OwnedFd,
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
        let secret = to_hex(&start::draw_secret()?);
        let entrance = Entrance::open_as((name, secret), 0)?;
        Ok(Entrance { is_for_ranks, ..entrance })
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

    pub(super) fn events(&self) -> BorrowedFd<'_> {
        self.listener.as_fd()
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

    /// A job begins another generation.
    fn begin_generation(&mut self, first: u32) {
        *self.generations.entry(first).or_default() += 1;
    }

    /// Accepts connections of this user and of root.
    pub(super) fn welcome(&mut self, events: &OwnedFd) {
        while let Ok(Some(socket)) = local::accept(&self.listener) {
            let own = rustix::process::geteuid().as_raw();
            let Some(peer) =
                local::peer(&socket).ok().filter(|peer| [own, ROOT].contains(&peer.user))
            else {
                continue;
            };
            if self.entrants.len() >= MOST {
                let silent = self.entrants.iter().find(|(_, one)| one.wants.is_none());
                let Some(oldest) = silent.map(|(id, _)| *id) else { continue };
                self.entrants.remove(&oldest);
            }
            let id = self.next;
            self.next = id.wrapping_add(1);
            let data = epoll::EventData::new_u64(ENTRANT << 32 | u64::from(id));
            if epoll::add(events, &socket, data, epoll::EventFlags::IN).is_ok() {
                let entrant = Entrant { socket, pid: peer.pid.cast_unsigned(), wants: None };
                self.entrants.insert(id, entrant);
            }
        }
    }

    /// Reads a message; returns the sender's process number, and the message's length, 0 at the end
    /// of the connection or for a second message. `None`: nothing has come.
    fn read(&mut self, id: u32, bytes: &mut [u8]) -> Option<(u32, usize)> {
        let entrant = self.entrants.get(&id)?;
        match fdpass::receive(&entrant.socket, bytes) {
            Ok((n, _)) if entrant.wants.is_none() => Some((entrant.pid, n)),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => None,
            _ => Some((entrant.pid, 0)),
        }
    }

    /// The process wants to be this rank.
    fn note_wish(&mut self, id: u32, number: u32) {
        if let Some(entrant) = self.entrants.get_mut(&id) {
            entrant.wants = Some((number, Instant::now()));
            self.next_check = None;
        }
    }

    /// The waiting processes: connection, process number and rank; none before the next check.
    fn due(&mut self, now: Instant) -> Vec<(u32, u32, u32)> {
        let wish = |(id, one): (&u32, &Entrant)| Some((*id, one.pid, one.wants?.0));
        let waiting: Vec<_> = self.entrants.iter().filter_map(wish).collect();
        if waiting.is_empty() || self.next_check.is_some_and(|next_check| next_check > now) {
            return Vec::new();
        }
        self.next_check = Some(now + CHECK_INTERVAL);
        waiting
    }

    fn applicants(&self) -> Vec<u32> {
        self.waiting().map(|(_, pid, _)| pid).collect()
    }

    /// Whether a process has waited to be a rank for `limit`.
    pub(super) fn has_waited(&self, limit: Duration) -> bool {
        self.waiting().any(|(_, _, since)| since.elapsed() >= limit)
    }

    fn take(&mut self, id: u32) -> Option<OwnedFd> {
        Some(self.entrants.remove(&id)?.socket)
    }

    pub(super) fn close(&mut self, id: u32) {
        self.entrants.remove(&id);
    }

    fn send_last(&mut self, id: u32, packet: &[u8]) {
        if let Some(socket) = self.take(id) {
            let _ = fdpass::send(&socket, packet, None);
        }
    }

    /// Refuses a process that wants to be a rank.
    fn turn_down(&mut self, id: u32, rank: u32, reason: &str) {
        self.send_last(id, &Reply::Refused { rank, reason: reason.into() }.encode());
    }

    /// Sends a reply to a tool, and ends its connection.
    pub(super) fn end(&mut self, id: u32, reply: &ToolReply) {
        self.send_last(id, &reply.encode());
    }

    /// Refuses the request of a tool, and ends its connection.
    pub(super) fn refuse(&mut self, id: u32, reason: String) {
        self.end(id, &ToolReply::Refused { reason });
    }

    /// Sends a tool an answer that may be longer than a message.
    pub(super) fn give(&self, id: u32, answer: &[u8]) -> Result<(), String> {
        let fd = blob::write(answer).map_err(|error| error.to_string())?;
        self.answer(id, &ToolReply::Given, Some(fd.as_fd()));
        Ok(())
    }

    /// Sends a reply to a tool whose connection stays open.
    pub(super) fn answer(&self, id: u32, reply: &ToolReply, fd: Option<BorrowedFd<'_>>) {
        if let Some(entrant) = self.entrants.get(&id) {
            let _ = fdpass::send(&entrant.socket, &reply.encode(), fd);
        }
    }
}

impl Launcher<'_> {
    /// The incarnation of a process for its peers over sockets.
    pub(super) fn incarnation(&self, number: u32) -> u32 {
        let first = self.job.first_of(number).unwrap_or(number);
        1 + self.entrance.generation(first)
    }

    /// Handles the message of a connection, which is its only one.
    pub(super) fn read_entrant(&mut self, id: u32) {
        let (is_holder, is_caller) = (self.holding.is_holder(id), self.calls.is_caller(id));
        let mut bytes = [0; MAX_MESSAGE];
        let Some((pid, length)) = self.entrance.read(id, &mut bytes) else { return };
        let packet = &bytes[..length];
        let of_tool = ToolRequest::decode(packet);
        let request = of_tool.as_ref().map(|request| MessageName(request).to_string());
        debug!(pid, request, "a message at the entrance");
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
            _ => return self.entrance.close(id),
        };
        let is_known = self.entrance.is_for_ranks && secret == self.entrance.secret;
        if !is_known || !self.descends(pid, number) {
            return self.entrance.turn_down(id, number, "it is no rank");
        }
        if returns {
            return self.take_back(id, number, pid);
        }
        if self.rank(number).is_some_and(|rank| is_owner_still(rank, pid)) {
            return self.entrance.turn_down(id, number, "it is the rank already");
        }
        self.entrance.note_wish(id, number);
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
                self.entrance.refuse(id, "its processes are not held for this tool".into());
            }
        }
    }

    /// Whether a process was started as a rank, or descends from that process.
    fn descends(&self, pid: u32, number: u32) -> bool {
        let Some(rank) = self.rank(number).filter(|rank| rank.is_child()) else { return false };
        line_of(pid, Some(std::process::id())).0.contains(&rank.process.pid)
    }

    fn take_back(&mut self, id: u32, number: u32, pid: u32) {
        let owner = self.rank(number).and_then(RankProcess::owner);
        if owner != Some(pid) {
            return self.entrance.turn_down(id, number, "it is not the rank");
        }
        if self.take_control(id, number) {
            self.answer(number, &Reply::Done { number: 0, text: String::new() }, None);
        }
    }

    fn take_control(&mut self, id: u32, number: u32) -> bool {
        let Some(socket) = self.entrance.take(id) else { return false };
        // Messages on the old socket come before those on the new one.
        self.host.read_messages_of(number);
        self.handle_host_messages();
        self.host.replace_control(number, socket)
    }

    pub(super) fn check_entrants(&mut self, now: Instant) {
        if self.job.is_ending() {
            return;
        }
        // The ranks of the last job, valid until a process is admitted.
        let mut known: Option<(u32, Vec<RankSeat>)> = None;
        for (id, pid, number) in self.entrance.due(now) {
            if self.entrance.pid_of(id).is_none() {
                continue;
            }
            let first = self.job.first_of(number).unwrap_or(number);
            let (_, seats) = match known.take().filter(|(of, _)| *of == first) {
                Some(known) => known,
                None => (first, self.seats(number)),
            };
            let admission = admit(number, pid, &seats, &self.entrance.applicants());
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
                self.entrance.turn_down(id, number, "another process is the rank");
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
            return self.entrance.turn_down(id, number, "another process is the rank");
        }
        let file = self.rank(number).and_then(|rank| rank.segment_fd.try_clone().ok());
        if self.take_control(id, number) {
            let reply = Reply::Segment { rank: number, contact: None };
            self.answer(number, &reply, file.as_ref().map(AsFd::as_fd));
        }
    }

    fn turn_away(&mut self, id: u32, number: u32, reason: &str) {
        self.entrance.send_last(id, &Reply::Failed { reason: reason.into() }.encode());
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
            self.links.forget_services(*number);
            self.takes_no_step(*number);
        }
        self.entrance.begin_generation(first);
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
        let waiting = self.entrance.waiting();
        let line = |(number, pid, since): (u32, u32, Instant)| {
            let seats = self.seats(number);
            let Admission::Waits(awaited) = admit(number, pid, &seats, &self.entrance.applicants())
            else {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tool_is_answered_and_a_process_that_wants_to_be_a_rank_waits() {
        let mut entrance = Entrance::open(true).unwrap();
        let events = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let tool = local::connect(&entrance.name).unwrap();
        let _other = local::connect(&entrance.name).unwrap();
        fdpass::send(&tool, &ToolRequest::Describe.encode(), None).unwrap();
        entrance.welcome(&events);
        let (mut bytes, pid) = ([0; MAX_MESSAGE], std::process::id());
        let (sender, length) = entrance.read(0, &mut bytes).unwrap();
        assert_eq!((sender, entrance.pid_of(1)), (pid, Some(pid)));
        assert!(matches!(ToolRequest::decode(&bytes[..length]), Some(ToolRequest::Describe)));
        assert!(entrance.read(0, &mut bytes).is_none() && entrance.time().is_none());
        entrance.refuse(0, "not now".into());
        let (length, _) = fdpass::receive(&tool, &mut bytes).unwrap();
        let reply = ToolReply::decode(&bytes[..length]);
        assert!(matches!(reply, Some(ToolReply::Refused { reason }) if reason == "not now"));
        assert_eq!(entrance.pid_of(0), None);

        let now = Instant::now();
        entrance.note_wish(1, 5);
        assert_eq!((entrance.applicants(), entrance.due(now)), (vec![pid], vec![(1, pid, 5)]));
        assert!(entrance.due(now).is_empty() && entrance.time() == Some(now + CHECK_INTERVAL));
        assert!(!entrance.has_waited(Duration::from_secs(3600)));
        entrance.close(1);
        assert!(entrance.due(now + CHECK_INTERVAL).is_empty());
    }
}
