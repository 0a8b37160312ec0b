//! The processes of another launcher's job on this host, which have come to become ranks
//! (`rt-client/src/client/joining.rs`).
//!
//! They connect with an abstract socket, which the first of them has made. The agent of the host
//! answers until the job is over, so a process that a rank starts, or the next program of a script,
//! does not start a second agent.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use oxmpi_rt_client::control::{MAX_MESSAGE, Reply, Request};
use oxmpi_sys::spawn::Process;
use oxmpi_sys::{fdpass, local};
use rustix::event::{PollFlags, epoll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tracing::debug;

use crate::launch::parts::is_ready;
use crate::polling;

/// The most connections that have sent no message.
const MOST_SILENT: usize = 256;
/// The number of the connection with the process that has started this agent.
const FOUNDER: u32 = 0;
/// The number of the listener among the events.
const LISTENER: u64 = 0;
/// Of the connections, in the upper half of an event's 64 bits.
const NEWCOMER: u64 = 1;
const JOINER: u64 = 2;

/// A process that waits to become a rank.
#[derive(Debug)]
pub(crate) struct Joiner {
    pub(crate) process: Process,
    pub(crate) control: OwnedFd,
}

/// A message of a process that waits, or its end.
#[derive(Debug)]
pub(crate) enum JoinerNews {
    /// It has come, and has named this size of the job.
    Came { rank: u32, size: u32 },
    /// It has started this agent, which has this number for the process manager.
    Head { number: u32, card: Vec<u8> },
    /// The process manager's card of another agent.
    AgentCard { number: u32, card: Option<Vec<u8>> },
    /// It has ended; a text for users.
    Gone(String),
}

#[derive(Debug)]
pub(crate) struct Joiners {
    events: OwnedFd,
    listener: OwnedFd,
    card: Vec<u8>,
    newcomers: BTreeMap<u32, OwnedFd>,
    next: u32,
    waiting: BTreeMap<u32, Joiner>,
    /// The processes that have become ranks.
    ranks: BTreeMap<u32, OwnedFd>,
    /// The process that has started this agent, and queries the process manager.
    founder: Option<u32>,
}

impl Joiners {
    /// Serves a listening socket, and the connection with the process that has started this agent.
    pub(crate) fn new(listener: OwnedFd, founder: OwnedFd, card: Vec<u8>) -> io::Result<Joiners> {
        let events = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&founder, true)?;
        let mut joiners = Joiners {
            events,
            listener,
            card,
            newcomers: BTreeMap::new(),
            next: FOUNDER,
            waiting: BTreeMap::new(),
            ranks: BTreeMap::new(),
            founder: None,
        };
        joiners.watch(joiners.listener.as_fd(), LISTENER)?;
        joiners.add(founder)?;
        Ok(joiners)
    }

    /// Readable when [`Joiners::serve`] has something to do.
    pub(crate) fn events(&self) -> BorrowedFd<'_> {
        self.events.as_fd()
    }

    fn watch(&self, fd: BorrowedFd<'_>, name: u64) -> io::Result<()> {
        let data = epoll::EventData::new_u64(name);
        Ok(epoll::add(&self.events, fd, data, epoll::EventFlags::IN)?)
    }

    fn add(&mut self, socket: OwnedFd) -> io::Result<()> {
        let number = self.next;
        self.next = number.wrapping_add(1);
        self.watch(socket.as_fd(), NEWCOMER << 32 | u64::from(number))?;
        self.newcomers.insert(number, socket);
        Ok(())
    }

    /// Accepts connections and reads messages, without waiting.
    pub(crate) fn serve(&mut self) -> io::Result<Vec<JoinerNews>> {
        let mut news = Vec::new();
        for (kind, number) in polling::events_of(&self.events)? {
            match kind {
                LISTENER => self.welcome()?,
                NEWCOMER => news.extend(self.read_newcomer(number)),
                _ => news.extend(self.read_joiner(number)),
            }
        }
        Ok(news)
    }

    /// Answers processes that come when the job has started.
    pub(crate) fn serve_late(&mut self) {
        let failed = self.serve().is_err();
        self.refuse_all("the job has started with other processes");
        if failed {
            // Nobody is served any more; the listener ends with this process.
            let _ = epoll::delete(&self.events, &self.listener);
        }
    }

    fn welcome(&mut self) -> io::Result<()> {
        while let Some(socket) = local::accept(&self.listener)? {
            let own = rustix::process::geteuid().as_raw();
            if local::peer_user(&socket).is_ok_and(|user| user == own) {
                if self.newcomers.len() >= MOST_SILENT {
                    self.newcomers.pop_first();
                }
                self.add(socket)?;
            }
        }
        Ok(())
    }

    /// Reads the first message of a connection.
    fn read_newcomer(&mut self, number: u32) -> Option<JoinerNews> {
        let socket = self.newcomers.get(&number)?;
        let mut bytes = [0; MAX_MESSAGE];
        let request = match fdpass::receive(socket, &mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Ok((0, _)) => {
                self.newcomers.remove(&number);
                let text = "the process that has started this agent has ended";
                return (number == FOUNDER).then(|| JoinerNews::Gone(text.into()));
            }
            Ok((length, _)) => Request::decode(&bytes[..length]).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        let socket = self.newcomers.remove(&number)?;
        let (rank, size, pid) = match request {
            Ok(Request::Join { rank, size, pid, evidence }) => {
                debug!(rank, size, pid, evidence, "a process has come to be a rank");
                (rank, size, pid)
            }
            Ok(other) => {
                debug!(?other, "a process has sent another request than that to join");
                return None;
            }
            Err(error) => {
                // A library of another version can read this, or names both versions.
                let _ = fdpass::send(&socket, &Reply::Failed { reason: error }.encode(), None);
                return None;
            }
        };
        match self.judged((rank, pid), &socket) {
            Ok(process) => {
                let _ = epoll::delete(&self.events, &socket);
                let reply = Reply::Card { card: self.card.clone() };
                fdpass::send(&socket, &reply.encode(), None).ok()?;
                self.watch(socket.as_fd(), JOINER << 32 | u64::from(rank)).ok()?;
                self.waiting.insert(rank, Joiner { process, control: socket });
                Some(JoinerNews::Came { rank, size })
            }
            Err(reply) => {
                let _ = fdpass::send(&socket, &reply.encode(), None);
                None
            }
        }
    }

    /// The process at the other end, or the answer that it is no rank.
    fn judged(&self, (rank, pid): (u32, u32), socket: &OwnedFd) -> Result<Process, Reply> {
        // In another PID namespace the process has another number, by which no peer reads its
        // memory, or has none here.
        let peer = local::peer(socket).ok().filter(|peer| peer.pid.cast_unsigned() == pid);
        let Some(peer) = peer else { return Err(Reply::Elsewhere) };
        if let Some(process) = self.ranks.get(&rank) {
            // A pidfd is readable when its process has ended.
            return Err(match is_ready(process, PollFlags::IN) {
                true => Reply::Later,
                false => Reply::Refused { rank, reason: "another process is the rank".into() },
            });
        }
        if self.waiting.contains_key(&rank) {
            let reason = format!("another process of this job has said that it is rank {rank}");
            return Err(Reply::Failed { reason });
        }
        let gone =
            |error: io::Error| Reply::Failed { reason: format!("pid {}: {error}", peer.pid) };
        let id = Pid::from_raw(peer.pid).ok_or_else(|| gone(io::ErrorKind::NotFound.into()))?;
        let pidfd = pidfd_open(id, PidfdFlags::empty()).map_err(|error| gone(error.into()))?;
        Ok(Process { pid: peer.pid, pidfd })
    }

    fn read_joiner(&mut self, rank: u32) -> Option<JoinerNews> {
        let Joiner { process, control } = self.waiting.get(&rank)?;
        let mut bytes = [0; MAX_MESSAGE];
        let came = match fdpass::receive(control, &mut bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
            Ok((length, _)) => Request::decode(&bytes[..length]).ok(),
            Err(_) => None,
        };
        match came {
            Some(Request::Head { number, card }) => {
                self.founder = Some(rank);
                Some(JoinerNews::Head { number, card })
            }
            Some(Request::AgentCard { number, card }) if self.founder == Some(rank) => {
                Some(JoinerNews::AgentCard { number, card })
            }
            _ => {
                let pid = process.pid;
                self.waiting.remove(&rank);
                Some(JoinerNews::Gone(format!("rank {rank} (pid {pid}) has ended in MPI_Init")))
            }
        }
    }

    /// Requests the card of an agent from the process manager.
    pub(crate) fn request_card(&self, number: u32) {
        if let Some(founder) = self.founder.and_then(|rank| self.waiting.get(&rank)) {
            let reply = Reply::WantsCard { number };
            let _ = fdpass::send(&founder.control, &reply.encode(), None);
        }
    }

    /// The ranks whose processes wait.
    pub(crate) fn waiting(&self) -> Vec<u32> {
        self.waiting.keys().copied().collect()
    }

    /// The process of a waiting rank.
    pub(crate) fn pid_of(&self, rank: u32) -> Option<i32> {
        self.waiting.get(&rank).map(|joiner| joiner.process.pid)
    }

    /// Takes the process of a rank, which becomes the rank now.
    pub(crate) fn take(&mut self, rank: u32) -> Option<Joiner> {
        let joiner = self.waiting.remove(&rank)?;
        let _ = epoll::delete(&self.events, &joiner.control);
        let process = joiner.process.pidfd.try_clone().ok()?;
        self.ranks.insert(rank, process);
        Some(joiner)
    }

    /// Answers all processes that wait that they cannot be ranks, and returns them.
    pub(crate) fn refuse_all(&mut self, why: &str) -> Vec<Joiner> {
        let reply = Reply::Failed { reason: why.to_string() }.encode();
        let all: Vec<Joiner> = std::mem::take(&mut self.waiting).into_values().collect();
        for joiner in &all {
            let _ = fdpass::send(&joiner.control, &reply, None);
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Child, Command};

    const CARD: &[u8] = b"card";

    fn joiners(name: &str) -> (Joiners, OwnedFd) {
        let name = format!("oxmpi.test.joiners.{name}.{}", std::process::id());
        let (founder, theirs) = fdpass::pair().unwrap();
        let joiners = Joiners::new(local::listen_as(&name).unwrap(), theirs, CARD.into()).unwrap();
        (joiners, founder)
    }

    fn connected(joiners: &Joiners) -> OwnedFd {
        let name = rustix::net::getsockname(&joiners.listener).unwrap();
        let name = rustix::net::SocketAddrUnix::try_from(name).unwrap();
        let name = String::from_utf8(name.abstract_name().unwrap().to_vec()).unwrap();
        local::connect(&name).unwrap()
    }

    fn join(socket: &OwnedFd, rank: u32, pid: u32) {
        let request = Request::Join { rank, size: 3, pid, evidence: "a test".into() };
        fdpass::send(socket, &request.encode(), None).unwrap();
    }

    fn reply(socket: &OwnedFd) -> Option<Reply> {
        let mut bytes = [0; MAX_MESSAGE];
        let (length, _) = fdpass::receive(socket, &mut bytes).ok()?;
        Reply::decode(&bytes[..length]).ok()
    }

    #[test]
    fn processes_come_and_become_ranks() {
        let (mut joiners, founder) = joiners("come");
        let own = std::process::id();
        let (socket, silent) = (connected(&joiners), connected(&joiners));
        join(&founder, 1, own);
        join(&socket, 0, own);
        // The connection is accepted first, and read then.
        let mut news: Vec<JoinerNews> = (0..3).flat_map(|_| joiners.serve().unwrap()).collect();
        news.sort_by_key(|one| format!("{one:?}"));
        let came = |rank| format!("{:?}", JoinerNews::Came { rank, size: 3 });
        assert_eq!(
            news.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>(),
            [came(0), came(1)]
        );
        assert_eq!(reply(&socket), Some(Reply::Card { card: CARD.into() }));
        assert_eq!(joiners.waiting(), [0, 1]);

        let second = connected(&joiners);
        join(&second, 0, own);
        (0..2).for_each(|_| assert!(joiners.serve().unwrap().is_empty()));
        assert!(matches!(reply(&second), Some(Reply::Failed { .. })), "the rank is taken");

        let taken = joiners.take(0).unwrap();
        assert_eq!(taken.process.pid.cast_unsigned(), own);
        let tool = connected(&joiners);
        join(&tool, 0, own);
        (0..2).for_each(|_| joiners.serve_late());
        assert!(matches!(reply(&tool), Some(Reply::Refused { .. })), "the rank lives");
        drop(silent);
    }

    #[test]
    fn a_process_of_another_namespace_is_sent_elsewhere() {
        let (mut joiners, _founder) = joiners("elsewhere");
        let socket = connected(&joiners);
        join(&socket, 0, 1);
        (0..2).for_each(|_| assert!(joiners.serve().unwrap().is_empty()));
        assert_eq!(reply(&socket), Some(Reply::Elsewhere));
    }

    #[test]
    fn the_end_of_a_process_and_nonsense_are_noticed() {
        let (mut joiners, founder) = joiners("end");
        let own = std::process::id();
        let (nonsense, socket) = (connected(&joiners), connected(&joiners));
        fdpass::send(&nonsense, b"nonsense", None).unwrap();
        join(&socket, 2, own);
        let news: Vec<JoinerNews> = (0..2).flat_map(|_| joiners.serve().unwrap()).collect();
        assert!(matches!(news[..], [JoinerNews::Came { rank: 2, .. }]), "{news:?}");
        assert!(matches!(reply(&nonsense), Some(Reply::Failed { .. })));
        drop(socket);
        let news = joiners.serve().unwrap();
        assert!(
            matches!(&news[..], [JoinerNews::Gone(text)] if text.contains("rank 2")),
            "{news:?}"
        );
        drop(founder);
        let news = joiners.serve().unwrap();
        assert!(matches!(&news[..], [JoinerNews::Gone(_)]), "{news:?}");
    }

    #[test]
    fn a_rank_whose_process_has_ended_may_come_again_later() {
        let (mut joiners, _founder) = joiners("later");
        let mut child: Child = Command::new("true").spawn().unwrap();
        let process = Pid::from_raw(child.id().cast_signed()).unwrap();
        joiners.ranks.insert(0, pidfd_open(process, PidfdFlags::empty()).unwrap());
        child.wait().unwrap();
        let socket = connected(&joiners);
        join(&socket, 0, std::process::id());
        (0..2).for_each(|_| joiners.serve_late());
        assert_eq!(reply(&socket), Some(Reply::Later));
    }
}
