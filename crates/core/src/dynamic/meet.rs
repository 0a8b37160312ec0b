//! Two groups that meet at a port (MPI-5.0 section 11.9). The root that comes first gets a ticket
//! and leaves a tag at the port. The other root gets the tag from the launcher, and sends the first
//! one a message with it in the context of meetings.

use super::{RootResult, nothing_known};
use crate::comm::Communicator;
use crate::errors::of_fault;
use crate::failure::check_alive;
use crate::process::{Domain, Process};
use crate::wait_reason::{Awaited, Reason};
use oxmpi_abi::constants as abi;
use oxmpi_engine::{Completion, MatchSource, Mode, RankMap, RequestId, Started, TagMatch};
use oxmpi_fabric::Fabric;
use oxmpi_mem::memory::{Owned, Plain};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_rt_client::universe::ProcessName;
use oxmpi_rt_client::waiting::Need;
use oxmpi_wire::ContextId;
use std::time::{Duration, Instant};

const ASK_EVERY: Duration = Duration::from_millis(500);

/// The launcher's answer to a root at a port.
#[derive(Debug)]
pub enum PortAnswer {
    /// No peer has come yet. The ticket is the number for queries.
    Waits(u32),
    /// A peer has come before and has left these words.
    Meets(Vec<u64>),
}

/// The launcher, for a root that goes to a port.
pub trait Broker {
    fn reach(&self) -> Result<()>;

    fn go(&self, words: &[u64]) -> Result<PortAnswer>;

    fn sought(&self) -> u32;

    /// Whether the peer of a ticket has still not come; if so, `back` withdraws the ticket.
    fn waits(&self, ticket: u32, back: bool) -> Result<bool>;
}

/// The side and the time limit of a meeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MeetOptions {
    pub accepts: bool,
    pub patience: Option<Duration>,
}

struct Card {
    tag: u32,
    id: u64,
    names: Vec<u64>,
}

impl Card {
    const HEAD: usize = 3;

    fn encode(&self) -> Vec<u64> {
        let head = [u64::from(self.tag), self.id, self.names.len() as u64];
        head.into_iter().chain(self.names.iter().copied()).collect()
    }

    fn decode(words: &[u64]) -> Result<Card> {
        let nonsense = || {
            MpiError::new(
                abi::MPI_ERR_INTERN,
                "the other side of the port has left malformed words",
            )
        };
        let (&[tag, id, size], names) = words.split_first_chunk().ok_or_else(nonsense)?;
        if names.len() as u64 != size || names.len() < ProcessName::WORDS {
            return Err(nonsense());
        }
        Ok(Card { tag: tag as u32, id, names: names.to_vec() })
    }
}

impl<F: Fabric> Process<F> {
    /// An intercommunicator with a group on the other side of a port (MPI_Comm_accept,
    /// MPI_Comm_connect). Only the root calls `broker`. Collective over `comm`.
    pub fn meet(
        &self,
        comm: &Communicator,
        root: i32,
        options: MeetOptions,
        broker: impl FnOnce() -> Result<Box<dyn Broker>>,
    ) -> Result<Communicator> {
        comm.check_intra()?;
        let root = comm.root(root)?;
        let from_root = if comm.team.rank == root {
            broker().and_then(|broker| self.meet_other_root(comm, options, &*broker))
        } else {
            nothing_known()
        };
        let what = if options.accepts { "accept a connection" } else { "connect to the port" };
        self.make_known(comm, root, from_root, what)
    }

    fn meet_other_root(
        &self,
        comm: &Communicator,
        options: MeetOptions,
        broker: &dyn Broker,
    ) -> Result<RootResult> {
        // The names below depend on the launcher's place, which this call determines.
        broker.reach()?;
        let id = self.new_context_ids(3)?;
        // Each context number is drawn once, so it is also unique as a tag.
        let tag = (id.0 >> 1) as u32 & (i32::MAX as u32);
        let all = [&[self.rank()], &*comm.team.map.processes()].concat();
        let mine = Card { tag, id: id.0, names: self.names_of(&all)? };
        let words = mine.encode();
        let sought = broker.sought();
        let (other, processes) = match broker.go(&words)? {
            PortAnswer::Meets(other) => {
                let other = Card::decode(&other)?;
                let processes = self.numbers_of(&other.names)?;
                self.hand_over((processes[0], other.tag), &words)?;
                (other, processes)
            }
            PortAnswer::Waits(ticket) => {
                let other = self.wait_for_other(comm, (tag, ticket, sought), options, broker)?;
                let processes = self.numbers_of(&other.names)?;
                (other, processes)
            }
        };
        let processes = &processes[1..];
        if let Some(rank) = processes.iter().find_map(|process| comm.team.map.rank(*process)) {
            let text = format!("rank {rank} is on both sides of the port");
            return Err(MpiError::new(abi::MPI_ERR_COMM, text));
        }
        let id = if options.accepts { mine.id } else { other.id };
        Ok(RootResult { id, is_first: options.accepts, remote: processes.to_vec() })
    }

    fn meetings(&self) -> u32 {
        let mut domain = self.domain.lock();
        let map = RankMap::new(vec![self.rank()]);
        let context =
            domain.lane.open_team(map, 0, ContextId::new(u32::MAX, 0), false).point_to_point;
        domain.lane.keep_to_frames(context);
        context
    }

    fn hand_over(&self, (root, tag): (u32, u32), words: &[u64]) -> Result<()> {
        let context = self.meetings();
        let (head, rest) = words.split_at(Card::HEAD);
        for part in [head, rest] {
            let buffer = Owned::new(part.to_vec()).buf();
            let tag = tag.cast_signed();
            let started = self
                .enter(|domain| domain.lane.start_send(context, Mode::Standard, buffer, root, tag));
            match started.map_err(of_fault)? {
                Started::Complete(completion) => _ = crate::completion::outcome(completion)?,
                Started::Pending(request) => _ = self.wait(request)?,
            }
        }
        Ok(())
    }

    fn wait_for_other(
        &self,
        comm: &Communicator,
        (tag, ticket, mut sought): (u32, u32, u32),
        options: MeetOptions,
        broker: &dyn Broker,
    ) -> Result<Card> {
        let context = self.meetings();
        let limit = options.patience.and_then(|patience| Instant::now().checked_add(patience));
        let head = Owned::new(vec![0u64; Card::HEAD]);
        let request = self.expect(context, tag, &head)?;
        let mut is_given_up = false;
        let what = if options.accepts {
            "somebody to connect to the port"
        } else {
            "somebody to accept at the port"
        };
        let reason = |_: &Domain<F>| Reason::new(what, Need::Outside, []);
        let awaited = Awaited::Described(&reason);
        let mut note_writer = self.wait_note_writer(&awaited);
        let came = loop {
            let now = Instant::now();
            let next = limit
                .filter(|limit| *limit > now)
                .map_or(now + ASK_EVERY, |l| l.min(now + ASK_EVERY));
            let done = |domain: &mut Domain<F>| match domain
                .lane
                .test(request)
                .unwrap_or(Some(Completion::EMPTY))
            {
                Some(came) => Some(Ok(Some(came))),
                None if broker.sought() != sought => Some(Ok(None)),
                None if is_given_up => None,
                None => check_alive(&domain.lane, &comm.team).err().map(Err),
            };
            match self.wait_until(next, &mut note_writer, done) {
                Some(Ok(Some(came))) => break came,
                // The peer is another launcher's process, about to send its message over a socket.
                Some(Ok(None)) => {
                    sought = broker.sought();
                    self.reach_foreign()?;
                    continue;
                }
                // A failed member of this group prevents the meeting, unless the peer has come
                // already and waits for an answer.
                Some(Err(fault)) => {
                    is_given_up = true;
                    if broker.waits(ticket, true)? {
                        self.domain.lock().lane.abandon(request);
                        return Err(of_fault(fault));
                    }
                    continue;
                }
                None => {}
            }
            let is_late = limit.is_some_and(|limit| Instant::now() >= limit);
            let waits = broker.waits(ticket, is_late);
            if waits.as_ref().is_ok_and(|waits| !*waits || !is_late) {
                continue;
            }
            self.domain.lock().lane.abandon(request);
            waits?;
            let text = match options.patience {
                Some(patience) if !options.accepts => {
                    format!("nobody has accepted at the port for {} s", patience.as_secs_f64())
                }
                patience => format!(
                    "nobody has connected to the port for {} s",
                    patience.unwrap_or_default().as_secs_f64()
                ),
            };
            return Err(MpiError::new(abi::MPI_ERR_PORT, text));
        };
        crate::completion::outcome(came)?;
        let mut words = crate::comm::taken(head)?;
        let rest =
            Owned::new(vec![0u64; words.get(Card::HEAD - 1).map_or(0, |size| *size as usize)]);
        self.wait(self.expect(context, tag, &rest)?)?;
        words.extend(crate::comm::taken(rest)?);
        Card::decode(&words)
    }

    fn expect<T: Plain>(&self, context: u32, tag: u32, buffer: &Owned<T>) -> Result<RequestId> {
        let (buffer, tag) = (buffer.buf(), TagMatch::Is(tag.cast_signed()));
        let started =
            self.enter(|domain| domain.lane.start_receive(context, buffer, MatchSource::Any, tag));
        match started.map_err(of_fault)? {
            Started::Complete(Completion { fault: Some(fault), .. }) => Err(of_fault(fault)),
            Started::Complete(_) => Ok(RequestId::COMPLETE),
            Started::Pending(request) => Ok(request),
        }
    }
}
