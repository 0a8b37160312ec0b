//! MPI_Intercomm_create (MPI-5.0 section 7.6.2).
//!
//! The leaders exchange the processes of their groups by messages that no receive of the program
//! matches. Then each leader broadcasts the result or its error to its group.

use super::inter::InterShape;
use super::name::Name;
use super::{CommShape, Communicator, taken};
use crate::Process;
use crate::completion::outcome;
use crate::errors::of_fault;
use crate::process::Domain;
use oxmpi_abi::constants as abi;
use oxmpi_coll::{Buffers, Combine};
use oxmpi_engine::{MatchSource, Mode, RankMap, RequestId, Started, TagMatch, Team};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::{Owned, Plain};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Call, Shared};
use oxmpi_rt_client::universe::ProcessName;
use oxmpi_wire::ContextId;

/// The route of a leader to the other leader.
#[derive(Debug, Clone, Copy)]
pub struct Peer<'a> {
    pub comm: &'a Communicator,
    pub leader: i32,
    /// Separates simultaneous calls of the same leaders.
    pub tag: i32,
}

/// An intercommunicator that is being made by a sequence of requests. [`IntercommCreate::step`]
/// starts each request after the one before it is complete.
#[derive(Debug)]
pub struct IntercommCreate<'a> {
    local: &'a Communicator,
    leader: u32,
    peer: Option<Peer<'a>>,
    stage: IntercommStage,
    sends: Vec<RequestId>,
    error: Option<MpiError>,
    is_verdict_sent: bool,
    id: ContextId,
    is_first: bool,
    remote: Vec<u32>,
}

#[derive(Debug)]
enum IntercommStage {
    Begin,
    Head(Owned<u64>),
    Processes(Owned<u64>),
    Sent,
    Verdict(Owned<u64>),
    Remote(Owned<u64>),
    Done,
}

/// The words of a leader's head: the size of its group, and the context that it proposes.
const HEAD: usize = 2;

/// The words of a leader's verdict: error class, context, size of the remote group, whether the
/// local group comes first.
const VERDICT: usize = 4;

impl<'a> IntercommCreate<'a> {
    /// Begins at one process. Only the local leader reads `peer`: the route to the other leader, or
    /// the error in the leader's arguments. Errors: MPI_ERR_COMM for an intercommunicator;
    /// MPI_ERR_RANK if there is no such leader. All processes of the group see these errors by
    /// themselves.
    pub fn new(
        local: &'a Communicator,
        leader: i32,
        peer: Result<Option<Peer<'a>>>,
    ) -> Result<Self> {
        local.check_intra()?;
        local.process(leader, "local_leader")?;
        let (peer, error) = match peer {
            Ok(peer) => (peer, None),
            Err(error) => (None, Some(error)),
        };
        Ok(IntercommCreate {
            local,
            leader: leader as u32,
            peer,
            stage: IntercommStage::Begin,
            sends: Vec::new(),
            error,
            is_verdict_sent: false,
            id: ContextId(0),
            is_first: false,
            remote: Vec::new(),
        })
    }

    fn leads(&self) -> bool {
        self.local.team.rank == self.leader
    }

    /// Continues after the request of the last call ended with `last`; at the first call `last` is
    /// `Ok`. Returns the next request, or `None` when [`IntercommCreate::finish`] can make the
    /// communicator.
    pub fn step<F: Fabric>(
        &mut self,
        process: &Process<F>,
        last: Result<()>,
    ) -> Result<Option<RequestId>> {
        match last.and_then(|()| self.go_on(process)) {
            Err(error) if self.leads() && !self.is_verdict_sent => {
                // The group waits for the verdict. The other leader may wait for messages that are
                // under way.
                self.error.get_or_insert(error);
                self.stage = IntercommStage::Sent;
                self.go_on(process)
            }
            result => result,
        }
    }

    fn go_on<F: Fabric>(&mut self, process: &Process<F>) -> Result<Option<RequestId>> {
        match std::mem::replace(&mut self.stage, IntercommStage::Done) {
            IntercommStage::Begin if self.leads() => match self.error.take() {
                None => self.meet(process).map(Some),
                Some(error) => Err(error),
            },
            IntercommStage::Begin => self.send_verdict(process).map(Some),
            IntercommStage::Head(head) => self.head_came(process, &taken(head)?).map(Some),
            IntercommStage::Processes(remote) => {
                self.remote = process.numbers_of(&taken(remote)?)?;
                self.check_apart()?;
                self.stage = IntercommStage::Sent;
                self.go_on(process)
            }
            IntercommStage::Sent => match self.sends.pop() {
                Some(sent) => {
                    self.stage = IntercommStage::Sent;
                    Ok(Some(sent))
                }
                None => self.send_verdict(process).map(Some),
            },
            IntercommStage::Verdict(verdict) => {
                self.verdict_came(process, &taken(verdict)?).map(Some)
            }
            IntercommStage::Remote(remote) => {
                self.remote = process.numbers_of(&taken(remote)?)?;
                Ok(None)
            }
            IntercommStage::Done => Ok(None),
        }
    }

    fn meet<F: Fabric>(&mut self, process: &Process<F>) -> Result<RequestId> {
        let peer = self.peer()?;
        process.check_tag(peer.tag)?;
        peer.comm.process(peer.leader, "remote_leader")?;
        self.id = process.new_context_ids(3)?;
        let group = self.local.team.size();
        self.sends
            .push(process.send_apart(peer, &Owned::new(vec![u64::from(group), self.id.0]).buf())?);
        let head = Owned::new(vec![0u64; HEAD]);
        let came = process.receive_apart(peer, head.buf())?;
        self.stage = IntercommStage::Head(head);
        Ok(came)
    }

    fn peer(&self) -> Result<Peer<'a>> {
        self.peer
            .ok_or_else(|| MpiError::new(abi::MPI_ERR_INTERN, "a leader does not know its peer"))
    }

    fn head_came<F: Fabric>(&mut self, process: &Process<F>, head: &[u64]) -> Result<RequestId> {
        let &[size, id] = head else {
            return Err(MpiError::new(abi::MPI_ERR_INTERN, "a head is cut off"));
        };
        let peer = self.peer()?;
        // Names of contexts mean the same at both launchers; numbers of processes do not.
        self.is_first = self.id.0 < id;
        if !self.is_first {
            self.id = ContextId(id);
        }
        let processes = Owned::new(process.names_of(&self.local.team.map.processes())?);
        self.sends.push(process.send_apart(peer, &processes.buf())?);
        let remote = Owned::new(vec![0u64; size as usize * ProcessName::WORDS]);
        let came = process.receive_apart(peer, remote.buf())?;
        self.stage = IntercommStage::Processes(remote);
        Ok(came)
    }

    fn check_apart(&self) -> Result<()> {
        let in_both = self.remote.iter().find_map(|process| self.local.team.map.rank(*process));
        match in_both {
            None => Ok(()),
            Some(rank) => Err(MpiError::new(
                abi::MPI_ERR_COMM,
                format!("rank {rank} of the local group is in the remote group as well"),
            )),
        }
    }

    fn say<F: Fabric, T: Plain>(&self, process: &Process<F>, what: &Owned<T>) -> Result<RequestId> {
        let buffers = Buffers { input: UserBuf::empty(), output: what.buf(), element: None };
        let call = Call::Bcast { root: self.leader, bytes: Shared(what.len() * size_of::<T>()) };
        let at = (self.local.collective_team(), self.local.next_immediate_tag());
        process.start_in(at, call, buffers, Combine::Nothing, None, None)
    }

    fn send_verdict<F: Fabric>(&mut self, process: &Process<F>) -> Result<RequestId> {
        self.is_verdict_sent = true;
        let class = self.error.as_ref().map_or(0, |error| u64::from(error.class().cast_unsigned()));
        let (size, is_first) = (self.remote.len() as u64, u64::from(self.is_first));
        let verdict = Owned::new(vec![class, self.id.0, size, is_first]);
        let request = self.say(process, &verdict)?;
        self.stage = IntercommStage::Verdict(verdict);
        Ok(request)
    }

    fn verdict_came<F: Fabric>(
        &mut self,
        process: &Process<F>,
        verdict: &[u64],
    ) -> Result<RequestId> {
        let &[class, id, size, is_first]: &[u64; VERDICT] = verdict
            .try_into()
            .map_err(|_| MpiError::new(abi::MPI_ERR_INTERN, "a leader's verdict is cut off"))?;
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        if class != 0 {
            let text = format!(
                "the local leader, rank {}, could not agree with the remote one",
                self.leader
            );
            return Err(MpiError::new((class as u32).cast_signed(), text));
        }
        (self.id, self.is_first) = (ContextId(id), is_first != 0);
        let mut remote = process.names_of(&std::mem::take(&mut self.remote))?;
        remote.resize(size as usize * ProcessName::WORDS, 0);
        let remote = Owned::new(remote);
        let request = self.say(process, &remote)?;
        self.stage = IntercommStage::Remote(remote);
        Ok(request)
    }

    /// Makes the communicator after [`IntercommCreate::step`] has returned `None`.
    pub fn finish<F: Fabric>(self, process: &Process<F>) -> Communicator {
        let Team { map, rank, .. } = &*self.local.team;
        let shape = InterShape {
            local: map.clone(),
            remote: RankMap::new(self.remote),
            rank: *rank,
            is_first: self.is_first,
        };
        let name = Name::of_inter(self.id);
        process.domain.lock().open(CommShape::Inter(shape), name, self.local.heritage())
    }
}

/// The tag of a message between leaders. It is negative, so no receive of the program matches it.
const fn apart(tag: i32) -> i32 {
    !tag
}

fn request_of(started: Started) -> Result<RequestId> {
    match started {
        Started::Complete(completion) => outcome(completion).map(|_| RequestId::COMPLETE),
        Started::Pending(request) => Ok(request),
    }
}

impl<F: Fabric> Process<F> {
    /// An intercommunicator between the group of `local` and another group, each with a leader
    /// (MPI_Intercomm_create). Collective in each group. [`IntercommCreate::new`] describes `peer`.
    /// Errors: MPI_ERR_COMM if `local` is an intercommunicator or the groups overlap; MPI_ERR_RANK;
    /// MPI_ERR_TAG.
    pub fn intercomm_create(
        &self,
        local: &Communicator,
        leader: i32,
        peer: Result<Option<Peer<'_>>>,
    ) -> Result<Communicator> {
        let mut making = IntercommCreate::new(local, leader, peer)?;
        let mut last = Ok(());
        while let Some(request) = making.step(self, last)? {
            last = self.wait(request).map(drop);
        }
        Ok(making.finish(self))
    }

    fn send_apart(&self, peer: Peer<'_>, buffer: &UserBuf) -> Result<RequestId> {
        let to = peer.comm.process(peer.leader, "remote_leader")?;
        let (context, tag) = (peer.comm.team.point_to_point, apart(peer.tag));
        let send = |domain: &mut Domain<F>| {
            domain.lane.start_send(context, Mode::Standard, buffer.clone(), to, tag)
        };
        self.enter(send).map_err(of_fault).and_then(request_of)
    }

    fn receive_apart(&self, peer: Peer<'_>, buffer: UserBuf) -> Result<RequestId> {
        let from = MatchSource::Process(peer.comm.process(peer.leader, "remote_leader")?);
        let (context, tag) = (peer.comm.team.point_to_point, TagMatch::Is(apart(peer.tag)));
        self.enter(|domain| domain.lane.start_receive(context, buffer, from, tag))
            .map_err(of_fault)
            .and_then(request_of)
    }
}
