//! Where processes ask that want to be ranks without inherited descriptors: the later programs of a script, one behind closed
//! descriptors, and a rank that has closed its own.
//!
//! The launcher listens under an abstract name, and believes who knows its secret, belongs to its user, and descends from the
//! process that it has started as the rank. [`admit`] decides; who has to wait is looked at again now and then.
//! That is for jobs on one host. On several hosts it is known on each alone whose generation begins when, so the entrance is for tools
//! alone there ([`crate::inquiry`]).

use std::collections::BTreeMap;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use oxmpi_shm::segment::{RankState, Segment};
use oxmpi_sys::{fdpass, local, net};
use rustix::event::epoll;

use super::launcher::{CONTROL, Launcher};
use super::plugs::{self, Plug};
use super::start::{self, Rank, postboxes_of};
use super::{Launch, LaunchError};
use crate::client::{BOOT_VARIABLE, WayIn, to_hex};
use crate::control::{MAX_MESSAGE, Reply, Request};
use crate::foreign::{is_alive, line_of};
use crate::generation::{Admission, Owner, Seat, admit, why_awaited};
use crate::inquiry::ENTRANCE_PREFIX;
use crate::job::Event;

/// What an event of the launcher's poll set is about: somebody wants to come in.
pub(super) const ENTRANCE: u64 = 30;
/// Somebody who has come says something.
pub(super) const ENTRANT: u64 = 31;

/// Those who have connected at most; the oldest who has said nothing loses its place.
const MOST: usize = 1024;
/// Whoever runs the machine may ask what a job of another user is.
const ROOT: u32 = 0;
/// How often it is looked whether the next generation can begin.
const LOOK: Duration = Duration::from_millis(20);

/// Where processes ask.
#[derive(Debug)]
pub(crate) struct Entrance {
    pub(super) listener: OwnedFd,
    name: String,
    secret: String,
    /// Whether processes may become ranks here.
    is_for_ranks: bool,
    entrants: BTreeMap<u32, Entrant>,
    next: u32,
    /// When to check those who wait; `None`: at once.
    look: Option<Instant>,
    /// How many generations each job has had beside the first, by the number of its first process.
    generations: BTreeMap<u32, u32>,
}

/// Who has connected.
#[derive(Debug)]
struct Entrant {
    socket: OwnedFd,
    pid: u32,
    /// Which rank it wants to be, once it has said so, and since when.
    wants: Option<(u32, Instant)>,
}

impl Entrance {
    /// Listens to tools, and to processes that want to be ranks if `is_for_ranks`.
    ///
    /// # Errors
    /// What the kernel says.
    pub(super) fn open(is_for_ranks: bool) -> Result<Entrance, LaunchError> {
        let mut word = [0; 8];
        net::fill_random(&mut word).map_err(|e| LaunchError::Kernel("get random bytes", e))?;
        let name = format!("{ENTRANCE_PREFIX}{:016x}", u64::from_ne_bytes(word));
        let listener =
            local::listen_as(&name).map_err(|e| LaunchError::Kernel("listen under a local name", e))?;
        let secret = to_hex(&start::draw_secret()?);
        let (entrants, generations) = (BTreeMap::new(), BTreeMap::new());
        Ok(Entrance { listener, name, secret, is_for_ranks, entrants, next: 0, look: None, generations })
    }

    /// What ranks find in their environment, for number 0.
    pub(super) fn way_in(&self) -> Option<WayIn> {
        let way = || WayIn { name: self.name.clone(), number: 0, secret: self.secret.clone() };
        self.is_for_ranks.then(way)
    }

    /// The same as that of a launcher before, for ranks that are restored from their images.
    ///
    /// # Errors
    /// What the kernel says, such as that somebody listens under the name.
    pub(super) fn open_as(
        (name, secret): (String, String),
        generation: u32,
    ) -> Result<Entrance, LaunchError> {
        let listener =
            local::listen_as(&name).map_err(|e| LaunchError::Kernel("listen under a local name", e))?;
        let generations = BTreeMap::from([(0, generation)]);
        let (entrants, is_for_ranks) = (BTreeMap::new(), true);
        Ok(Entrance { listener, name, secret, is_for_ranks, entrants, next: 0, look: None, generations })
    }

    /// Under which name ranks reach it, and the secret by which it knows them.
    pub(super) fn names(&self) -> (String, String) {
        (self.name.clone(), self.secret.clone())
    }

    /// Which process has connected and has this number.
    pub(super) fn pid_of(&self, id: u32) -> Option<u32> {
        Some(self.entrants.get(&id)?.pid)
    }

    /// When to check again.
    pub(super) fn time(&self) -> Option<Instant> {
        self.look.filter(|_| self.waiting().next().is_some())
    }

    fn waiting(&self) -> impl Iterator<Item = (u32, u32, Instant)> {
        self.entrants.values().filter_map(|one| one.wants.map(|(number, since)| (number, one.pid, since)))
    }

    /// How often the job whose first process this is has begun anew.
    pub(super) fn generation(&self, first: u32) -> u32 {
        self.generations.get(&first).copied().unwrap_or(0)
    }
}

impl Launcher<'_> {
    /// Listens for those who come.
    pub(super) fn watch_entrance(&self) -> rustix::io::Result<()> {
        match &self.entrance {
            Some(entrance) => self.listen(&self.events, entrance.listener.as_fd(), ENTRANCE, 0),
            None => Ok(()),
        }
    }

    /// How often a process of this number has been started, for its peers over sockets.
    pub(super) fn incarnation(&self, number: u32) -> u32 {
        let first = self.job.first_of(number).unwrap_or(number);
        1 + self.entrance.as_ref().map_or(0, |entrance| entrance.generation(first))
    }

    /// Lets all in who have come.
    pub(super) fn welcome_entrants(&mut self) {
        while let Some(entrance) = &mut self.entrance {
            let Ok(Some(socket)) = local::accept(&entrance.listener) else { return };
            let own = rustix::process::geteuid().as_raw();
            let Some(peer) = local::peer(&socket).ok().filter(|peer| [own, ROOT].contains(&peer.user)) else {
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
                &self.events,
                &place.get().socket,
                epoll::EventData::new_u64(ENTRANT << 32 | u64::from(id)),
                epoll::EventFlags::IN,
            );
            if watched.is_err() {
                place.remove();
            }
        }
    }

    /// Hears what one says who has come: one thing.
    pub(super) fn hear_entrant(&mut self, id: u32) {
        let (is_holder, is_caller) = (self.is_holder(id), self.is_caller(id));
        let Some(entrance) = &mut self.entrance else { return };
        let Some(entrant) = entrance.entrants.get_mut(&id) else { return };
        let mut bytes = [0; MAX_MESSAGE];
        let said = match fdpass::receive(&entrant.socket, &mut bytes) {
            Ok((n @ 1.., _)) if entrant.wants.is_none() => Request::decode(&bytes[..n]).ok(),
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => return,
            _ => None,
        };
        if is_holder {
            return self.hear_holder(id, said.as_ref());
        }
        if is_caller {
            return self.hear_caller(id, said.as_ref());
        }
        let (number, secret, returns) = match said {
            Some(Request::Enter { number, secret }) => (number, secret, false),
            Some(Request::Return { number, secret }) => (number, secret, true),
            Some(Request::Describe) => {
                let reply = self.description();
                return self.end_entrant(id, &reply);
            }
            Some(Request::Quiesce { limit_ms }) => return self.quiesce(id, limit_ms),
            Some(Request::Hold) => return self.hold(id),
            Some(Request::CallFunctions { saves }) => return self.call_functions(id, saves),
            _ => {
                entrance.entrants.remove(&id);
                return;
            }
        };
        let is_known = entrance.is_for_ranks && secret == entrance.secret;
        let pid = entrant.pid;
        if !is_known || !self.descends(pid, number) {
            return self.end_entrant(id, &Reply::Refused { rank: number, reason: "it is no rank".into() });
        }
        if returns {
            return self.take_back(id, number, pid);
        }
        if self.rank(number).is_some_and(|rank| is_owner_still(rank, pid)) {
            let reason = "it is the rank already".into();
            return self.end_entrant(id, &Reply::Refused { rank: number, reason });
        }
        if let Some(entrant) = self.entrance.as_mut().and_then(|entrance| entrance.entrants.get_mut(&id)) {
            entrant.wants = Some((number, Instant::now()));
        }
        if let Some(entrance) = &mut self.entrance {
            entrance.look = None;
        }
    }

    /// Whether a process is that which was started as a rank, or descends from it.
    fn descends(&self, pid: u32, number: u32) -> bool {
        let Some(rank) = self.rank(number).filter(|rank| rank.is_child) else { return false };
        line_of(pid, Some(std::process::id())).0.contains(&rank.process.pid)
    }

    /// Gives the last answer to one who has come.
    pub(super) fn end_entrant(&mut self, id: u32, reply: &Reply) {
        if let Some(entrant) = self.entrance.as_mut().and_then(|entrance| entrance.entrants.remove(&id)) {
            let _ = fdpass::send(&entrant.socket, &reply.encode(), None);
        }
    }

    /// Sends a reply to a tool whose connection stays open.
    pub(super) fn tell_entrant(&self, id: u32, reply: &Reply, fd: Option<BorrowedFd<'_>>) {
        if let Some(entrant) = self.entrance.as_ref().and_then(|entrance| entrance.entrants.get(&id)) {
            let _ = fdpass::send(&entrant.socket, &reply.encode(), fd);
        }
    }

    /// A rank that has closed its control socket has a new one.
    fn take_back(&mut self, id: u32, number: u32, pid: u32) {
        let owner = self.rank(number).and_then(Rank::owner);
        if owner != Some(pid) {
            let reason = "it is not the rank".into();
            return self.end_entrant(id, &Reply::Refused { rank: number, reason });
        }
        if self.take_control(id, number) {
            self.answer(number, &Reply::Done { number: 0, text: String::new() }, None);
        }
    }

    /// The connection of one who has come becomes the control socket of a rank.
    fn take_control(&mut self, id: u32, number: u32) -> bool {
        let entrant = self.entrance.as_mut().and_then(|entrance| entrance.entrants.remove(&id));
        let Some(Entrant { socket, .. }) = entrant else { return false };
        // Its last words on the old one come before those on the new one.
        while self.control_once(number) {}
        let Some(rank) = self.members.get_mut(&number).and_then(|member| member.rank.as_mut()) else {
            return false;
        };
        let _ = epoll::delete(&self.events, &rank.control);
        let _ = epoll::delete(&self.events, &socket);
        (rank.control, rank.peer) = (socket, None);
        let name = epoll::EventData::new_u64(CONTROL << 32 | u64::from(number));
        epoll::add(&self.events, &rank.control, name, epoll::EventFlags::IN).is_ok()
    }

    /// Looks at all who wait, if it is time to.
    pub(super) fn look_at_entrants(&mut self, now: Instant) {
        let Some(entrance) = &mut self.entrance else { return };
        let waiting: Vec<u32> =
            entrance.entrants.iter().filter(|(_, one)| one.wants.is_some()).map(|(id, _)| *id).collect();
        if waiting.is_empty() || entrance.look.is_some_and(|look| look > now) || self.job.is_ending() {
            return;
        }
        entrance.look = Some(now + LOOK);
        // The ranks of the job of the last one, as long as they are as they were.
        let mut known: Option<(u32, Vec<Seat>)> = None;
        for id in waiting {
            let entrant = self.entrance.as_ref().and_then(|entrance| entrance.entrants.get(&id));
            let Some(Entrant { pid, wants: Some((number, _)), .. }) = entrant else { continue };
            let (pid, number) = (*pid, *number);
            let first = self.job.first_of(number).unwrap_or(number);
            let (_, seats) = match known.take().filter(|(of, _)| *of == first) {
                Some(known) => known,
                None => (first, self.seats(number)),
            };
            let admission = admit(number, pid, &seats, &self.asking());
            if matches!(admission, Admission::Waits(_)) {
                known = Some((first, seats));
            } else {
                self.answer_entrant(id, number, pid, admission);
            }
        }
    }

    /// Answers one who has come.
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

    /// The processes that want to be ranks.
    fn asking(&self) -> Vec<u32> {
        self.entrance.iter().flat_map(Entrance::waiting).map(|(_, pid, _)| pid).collect()
    }

    /// The ranks of a process's job.
    fn seats(&self, number: u32) -> Vec<Seat> {
        let Some((first, size)) = self.job.first_of(number).zip(self.job.size_of(number)) else {
            return Vec::new();
        };
        let seat = |(number, member): (&u32, &super::launcher::Member)| {
            let owner = member.rank.as_ref().map_or(Owner::Left, owner_of);
            Seat { number: *number, owner, runs: member.running }
        };
        self.members.range(first..first + size).map(seat).collect()
    }

    /// A process is the rank from now on.
    fn let_in(&mut self, id: u32, number: u32, pid: u32) {
        let claims =
            |rank: &Rank| rank.number_inside(pid).is_some_and(|own| rank.segment.status().claim(own).is_ok());
        let claimed = self.rank(number).is_some_and(claims);
        if !claimed {
            // Another one was faster by its descriptors.
            let reason = "another process is the rank".into();
            return self.end_entrant(id, &Reply::Refused { rank: number, reason });
        }
        let file = self.rank(number).and_then(|rank| rank.segment_fd.try_clone().ok());
        if self.take_control(id, number) {
            let reply = Reply::Segment { rank: number, contact: String::new() };
            self.answer(number, &reply, file.as_ref().map(AsFd::as_fd));
        }
    }

    /// A process can be nothing, and so the job fails.
    fn turn_away(&mut self, id: u32, number: u32, reason: &str) {
        self.end_entrant(id, &Reply::Failed { reason: reason.into() });
        let seen = self.glimpse(number);
        self.tell(Event::Abort { rank: number, code: 1, text: reason.into(), seen });
    }

    /// Begins the next generation of a job: all ranks get new segments, and what belongs to them. Nobody uses the old ones.
    ///
    /// # Errors
    /// Why it cannot begin, for a person.
    fn begin_generation(&mut self, number: u32) -> Result<(), String> {
        let first = self.job.first_of(number).ok_or("its job is over")?;
        if self.links.is_any() || !self.job.is_only(first) {
            return Err("processes of other jobs, which may know the ranks of the program before, still run: a script with several \
                 MPI programs must be connected with no other job when one of them ends"
                .into());
        }
        let numbers: Vec<u32> = self.seats(number).iter().map(|seat| seat.number).collect();
        self.renew(&numbers).map_err(|error| error.to_string())?;
        self.parents.remove(&first);
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
            let fd =
                Segment::create(rank.segment.boot()).map_err(|e| LaunchError::Kernel("make a segment", e))?;
            let segment = Segment::map(&fd).map_err(LaunchError::Segment)?;
            // Of deaths that were survived it is told as who is spawned later is.
            self.deaths.iter().for_each(|_| segment.status().note_death());
            segment.status().ask_quiesce_step(self.standing.step());
            made.push((fd, segment));
        }
        let boots: Vec<_> = made.iter().map(|(_, segment)| *segment.boot()).collect();
        let places = boots.iter().map(|boot| (boot.node, boot.local_size));
        let postboxes = postboxes_of(self.launch, boots.iter().any(|boot| boot.sockets), places)?;
        let mut plugs = new_plugs(self.launch, &boots)?.into_iter();
        if self.launch.transport.has_daemons() {
            // The old ones know of ends.
            self.relays.end(&self.guard);
            self.relays = super::relays::Relays::default();
        }
        for (number, (fd, segment)) in numbers.iter().zip(made) {
            let Some(member) = self.members.get_mut(number) else { continue };
            member.plug = plugs.next();
            if let Some(rank) = &mut member.rank {
                rank.postboxes = postboxes.get(&segment.boot().node).cloned();
                (rank.segment, rank.segment_fd) = (segment, fd);
            }
        }
        self.start_relays()
    }

    /// For the state report: who waits to be a rank, and for whom.
    pub(super) fn entrant_lines(&self) -> String {
        let waiting = self.entrance.iter().flat_map(Entrance::waiting);
        let line = |(number, pid, since): (u32, u32, Instant)| {
            let seats = self.seats(number);
            let Admission::Waits(awaited) = admit(number, pid, &seats, &self.asking()) else {
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

    /// Whether somebody has waited to be a rank for so long.
    pub(super) fn has_entrant_of(&self, limit: Duration) -> bool {
        self.entrance.iter().flat_map(Entrance::waiting).any(|(_, _, since)| since.elapsed() >= limit)
    }
}

/// Which process is a rank.
fn owner_of(rank: &Rank) -> Owner {
    let status = rank.segment.status();
    if status.pid().is_none() {
        return Owner::Nobody;
    }
    // One that has no number here any more is gone.
    let pid = rank.owner().unwrap_or(0);
    // First whether it lives: what it has said by then counts.
    let lives = is_alive(pid);
    match (status.state(), lives) {
        (RankState::Finalized | RankState::Resting, true) => Owner::Lingers { pid },
        (RankState::Finalized | RankState::Resting, false) => Owner::Left,
        (_, true) => Owner::Inside { pid },
        (_, false) => Owner::Died { pid },
    }
}

/// Whether a process is the owner of a rank and runs the program still with which it became that, as it has the segment mapped: it
/// has the library twice. Another program that it has executed has not.
fn is_owner_still(rank: &Rank, pid: u32) -> bool {
    if rank.owner() != Some(pid) {
        return false;
    }
    let Ok(stat) = rustix::fs::fstat(&rank.segment_fd) else { return false };
    // Where that cannot be read it is not made a rank again.
    let Ok(maps) = std::fs::read_to_string(format!("/proc/{pid}/maps")) else { return true };
    // Address, rights, offset, device, inode, name (proc_pid_maps(5)).
    let is_it = |line: &str| {
        let inode = line.split_ascii_whitespace().nth(4);
        inode.and_then(|inode| inode.parse().ok()) == Some(stat.st_ino) && line.contains("/memfd:")
    };
    maps.lines().any(is_it)
}

/// Sockets for ranks of one host, if they have some.
fn new_plugs(launch: &Launch, boots: &[oxmpi_shm::segment::Boot]) -> Result<Vec<Plug>, LaunchError> {
    match boots.iter().any(|boot| boot.sockets) {
        true => plugs::plugs(launch, boots.len(), true, boots.len() > 1),
        false => Ok(Vec::new()),
    }
}
