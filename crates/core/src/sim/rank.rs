//! One rank of the virtual world, as its script uses it.

use crate::comm::taken;
use crate::completion::outcome;
use crate::process::{Process, UserCall};
use crate::{Communicator, errors};
use oxmpi_abi::constants::{MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_ERR_INTERN};
use oxmpi_coll::{Buffers, Combine};
use oxmpi_engine::{Completion, CopiedSends, Mode, RequestId, Rest};
use oxmpi_fabric::sim::{Network, Random, Sim};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::kernels::{ReduceOp, Scalar, kernel};
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::{Owned, Plain};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Call, Collective, Shared};
use oxmpi_tuned::AgreementSettings;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Poll;

/// The number of ranks on a node of the virtual world.
pub const RANKS_OF_A_NODE: u32 = 3;

/// The operation that a rank is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Doing {
    Nothing,
    Send { to: i32, tag: i32 },
    Receive { from: i32, tag: i32 },
    Probe { from: i32, tag: i32 },
    Collective(Collective),
    Agreement,
    Several(usize),
    Compute { until_ns: u64 },
    Finalizing,
}

impl fmt::Display for Doing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let from_tag = |f: &mut fmt::Formatter<'_>, from, tag| {
            match from {
                MPI_ANY_SOURCE => write!(f, " from anybody")?,
                from => write!(f, " from rank {from}")?,
            }
            match tag {
                MPI_ANY_TAG => write!(f, " with any tag"),
                tag => write!(f, " with tag {tag}"),
            }
        };
        match *self {
            Doing::Nothing => write!(f, "waits for an unknown operation"),
            Doing::Send { to, tag } => {
                write!(f, "waits for rank {to} to take a message with tag {tag}")
            }
            Doing::Receive { from, tag } => {
                write!(f, "waits for a message")?;
                from_tag(f, from, tag)
            }
            Doing::Probe { from, tag } => {
                write!(f, "probes for a message")?;
                from_tag(f, from, tag)
            }
            Doing::Collective(collective) => write!(f, "waits in {collective}"),
            Doing::Agreement => write!(f, "waits for an agreement"),
            Doing::Several(n) => write!(f, "waits for one of {n} requests"),
            Doing::Compute { until_ns } => write!(f, "computes until {until_ns} ns"),
            Doing::Finalizing => write!(f, "finalizes: some of its messages have not left"),
        }
    }
}

/// One rank, as its script uses it. Clones are the same rank.
#[derive(Clone)]
pub struct Rank(Rc<Inner>);

struct Inner {
    process: Process<Sim>,
    network: Rc<RefCell<Network>>,
    random: RefCell<Random>,
    doing: Cell<Doing>,
    open: RefCell<Vec<(RequestId, Doing)>>,
}

impl Rank {
    pub(super) fn new(
        rank: u32,
        size: u32,
        network: Rc<RefCell<Network>>,
        seed: u64,
        agreement: AgreementSettings,
    ) -> Rank {
        let process = Process::new(rank, size, Sim::new(rank, network.clone()), None)
            .on_node(u64::from(rank / RANKS_OF_A_NODE))
            .with_agreement(agreement);
        let mut random = Random::new(seed);
        let random = Random::new(random.draw() ^ u64::from(rank));
        Rank(Rc::new(Inner {
            process,
            network,
            random: RefCell::new(random),
            doing: Cell::new(Doing::Nothing),
            open: RefCell::new(Vec::new()),
        }))
    }

    pub(super) fn doing(&self) -> Doing {
        self.0.doing.get()
    }

    pub(super) fn is_computing(&self) -> bool {
        matches!(self.doing(), Doing::Compute { .. })
    }

    pub(super) fn is_drained(&self) -> bool {
        self.0.process.look(|domain| domain.lane.is_drained())
    }

    pub(super) fn rest(&self) -> Rest {
        self.0.process.domain.lock().lane.announce_sleep(CopiedSends::All)
    }

    /// The process, for calls that do not wait.
    pub fn process(&self) -> &Process<Sim> {
        &self.0.process
    }

    /// The rank in the world.
    pub fn rank(&self) -> u32 {
        self.0.process.rank()
    }

    /// The number of ranks in the world.
    pub fn size(&self) -> u32 {
        self.0.process.size()
    }

    /// The communicator of all ranks.
    pub fn world(&self) -> Arc<Communicator> {
        self.0.process.world().clone()
    }

    /// The virtual time in nanoseconds since the world began.
    pub fn now_ns(&self) -> u64 {
        self.0.network.borrow().now_ns()
    }

    /// A random number below `n`, which depends only on the seed and the rank.
    pub fn below(&self, n: u64) -> u64 {
        self.0.random.borrow_mut().below(n)
    }

    /// The number of malformed frames that this rank has received.
    pub fn nonsense(&self) -> u64 {
        self.0.process.domain.lock().lane.nonsense()
    }

    /// Spends `ns` virtual nanoseconds without progress.
    pub async fn compute(&self, ns: u64) {
        let until_ns = self.now_ns().saturating_add(ns);
        self.0.network.borrow_mut().wake_after(self.rank(), ns);
        self.until(Doing::Compute { until_ns }, || (self.now_ns() >= until_ns).then_some(())).await
    }

    /// Waits until `question` has an answer. Calls it after each arrival.
    async fn until<R>(&self, doing: Doing, mut question: impl FnMut() -> Option<R>) -> R {
        self.0.doing.set(doing);
        let answer = poll_fn(|_| question().map_or(Poll::Pending, Poll::Ready)).await;
        self.0.doing.set(Doing::Nothing);
        answer
    }

    pub(super) fn note(&self, request: RequestId, doing: Doing) -> RequestId {
        if request != RequestId::COMPLETE {
            self.0.open.borrow_mut().push((request, doing));
        }
        request
    }

    fn forget(&self, request: RequestId) {
        let mut open = self.0.open.borrow_mut();
        if let Some(at) = open.iter().position(|(r, _)| *r == request) {
            open.swap_remove(at);
        }
    }

    /// MPI_Isend and related calls.
    pub fn isend(
        &self,
        comm: &Communicator,
        mode: Mode,
        buffer: UserBuf,
        to: i32,
        tag: i32,
    ) -> Result<RequestId> {
        let request = self.0.process.isend(comm, mode, buffer, to, tag)?;
        Ok(self.note(request, Doing::Send { to, tag }))
    }

    /// MPI_Irecv.
    pub fn irecv(
        &self,
        comm: &Communicator,
        buffer: UserBuf,
        from: i32,
        tag: i32,
    ) -> Result<RequestId> {
        let request = self.0.process.irecv(comm, buffer, from, tag)?;
        Ok(self.note(request, Doing::Receive { from, tag }))
    }

    /// MPI_Wait.
    pub async fn wait(&self, request: RequestId) -> Result<Completion> {
        outcome(self.until_complete(request).await?)
    }

    async fn until_complete(&self, request: RequestId) -> Result<Completion> {
        let known =
            self.0.open.borrow().iter().find(|(r, _)| *r == request).map(|(_, doing)| *doing);
        let ask = || self.0.process.test_raw(request.raw()).transpose();
        let completion = self.until(known.unwrap_or(Doing::Nothing), ask).await;
        self.forget(request);
        completion
    }

    /// MPIX_Comm_agree. Returns the bits that all living members have set, and whether some rank
    /// has not acknowledged a failure.
    pub async fn agree(&self, comm: &Communicator, flag: i32) -> Result<(i32, bool)> {
        let place = Owned::new(vec![flag]);
        let request = self.0.process.start_agree(comm, place.buf())?;
        let completion = self.until_complete(self.note(request, Doing::Agreement)).await?;
        let flag = taken(place)?.first().copied().unwrap_or(0);
        Ok((flag, completion.fault.is_some()))
    }

    /// MPIX_Comm_shrink.
    pub async fn shrink(&self, comm: &Communicator) -> Result<Communicator> {
        let place = Arc::new(Mutex::new(None));
        let delivered = place.clone();
        let request = self.0.process.start_shrink(comm, move |made| {
            delivered.lock().unwrap_or_else(PoisonError::into_inner).replace(made);
        })?;
        self.wait(self.note(request, Doing::Agreement)).await?;
        let made = place.lock().unwrap_or_else(PoisonError::into_inner).take();
        made.ok_or_else(|| MpiError::new(MPI_ERR_INTERN, "nothing was delivered"))
    }

    /// MPI_Waitany. Returns the index and the completion; `None` without requests.
    pub async fn wait_any(&self, requests: &[RequestId]) -> Result<Option<(usize, Completion)>> {
        let raw: Vec<u64> = requests.iter().map(|r| r.raw()).collect();
        let ask = || match self.0.process.test_any(&raw) {
            Ok(Some(None)) => None,
            Ok(Some(Some(one))) => Some(Ok(Some(one))),
            Ok(None) => Some(Ok(None)),
            Err(error) => Some(Err(error)),
        };
        match self.until(Doing::Several(requests.len()), ask).await? {
            None => Ok(None),
            Some((at, completion)) => {
                self.forget(requests[at]);
                Ok(Some((at, outcome(completion)?)))
            }
        }
    }

    /// Sends a copy of `data` (MPI_Send and related calls).
    pub async fn send<T: Plain>(
        &self,
        comm: &Communicator,
        mode: Mode,
        data: &[T],
        to: i32,
        tag: i32,
    ) -> Result<()> {
        let data = Owned::new(data.to_vec());
        if let Some(bytes) = data.buf().as_contiguous()
            && mode == Mode::Standard
            && self.0.process.send_now(comm, bytes, to, tag)
        {
            return Ok(());
        }
        let request = self.isend(comm, mode, data.buf(), to, tag)?;
        self.wait(request).await.map(drop)
    }

    /// Receives a message of at most `room` bytes (MPI_Recv).
    pub async fn recv(
        &self,
        comm: &Communicator,
        room: usize,
        from: i32,
        tag: i32,
    ) -> Result<(Vec<u8>, Completion)> {
        let data = Owned::new(vec![0u8; room]);
        let request = self.irecv(comm, data.buf(), from, tag)?;
        let completion = self.until_complete(request).await?;
        let completion = outcome(self.0.process.given_up(request, completion))?;
        let mut data = taken(data)?;
        data.truncate(completion.bytes as usize);
        Ok((data, completion))
    }

    /// MPI_Probe.
    pub async fn probe(&self, comm: &Communicator, from: i32, tag: i32) -> Result<Completion> {
        let ask = || self.0.process.iprobe(comm, from, tag).transpose();
        self.until(Doing::Probe { from, tag }, ask).await
    }

    /// Starts a collective ([`Process::start`]).
    pub fn start(
        &self,
        comm: &Communicator,
        call: Call,
        buffers: Buffers,
        combine: Combine,
        user: Option<UserCall>,
    ) -> Result<RequestId> {
        let doing = Doing::Collective(call.collective());
        let request = self.0.process.start(comm, call, buffers, combine, user)?;
        Ok(self.note(request, doing))
    }

    /// MPI_Barrier.
    pub async fn barrier(&self, comm: &Communicator) -> Result<()> {
        let none = Buffers { input: UserBuf::empty(), output: UserBuf::empty(), element: None };
        let request = self.start(comm, Call::Barrier, none, Combine::Nothing, None)?;
        self.wait(request).await.map(drop)
    }

    /// MPI_Allreduce over MPI_UINT64_T.
    pub async fn allreduce(
        &self,
        comm: &Communicator,
        values: &[u64],
        op: ReduceOp,
    ) -> Result<Vec<u64>> {
        let kernel = kernel(op, Scalar::U64).ok_or_else(|| {
            errors::of_fault(oxmpi_engine::Fault::Operation).within(format!("{op:?}"))
        })?;
        let input = Owned::new(values.to_vec());
        let output = Owned::new(vec![0u64; values.len()]);
        let element = Some(Arc::new(Layout::basic(8, 8)));
        let buffers = Buffers { input: input.buf(), output: output.buf(), element };
        let call =
            Call::Allreduce { count: Shared(values.len()), commutative: true, in_place: false };
        let request = self.start(comm, call, buffers, Combine::Kernel(kernel), None)?;
        self.wait(request).await?;
        taken(output)
    }
}

impl fmt::Debug for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rank({}: {:?})", self.rank(), self.doing())
    }
}
