//! Requests that are made of others: a send and a receive in one (MPI_Isendrecv), what can be started again and again
//! (persistent requests, MPI-5.0 section 3.9), and the wait for buffered sends (MPI_Buffer_iflush).
//!
//! They do nothing by themselves. Their parts are ordinary requests that go on as such; how a compound one stands is
//! found out when somebody asks ([`Lane::settle`]).

use crate::lane::{Lane, Posted};
use crate::matching::ANYBODY;
use crate::request::{Completion, Fault, Mode, Pair, Received, RequestId, Source, Started, TagMatch, Work};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;

/// What a persistent request does each time it is started.
#[derive(Clone, Debug)]
pub enum Operation {
    /// Nothing: its peer is MPI_PROC_NULL. This is what it says.
    Nothing(Completion),
    /// Sends.
    Send {
        /// The context.
        context: u32,
        /// The mode.
        mode: Mode,
        /// The data.
        buffer: UserBuf,
        /// The process.
        to: u32,
        /// The tag.
        tag: i32,
    },
    /// Receives.
    Receive {
        /// The context.
        context: u32,
        /// Where the data go.
        buffer: UserBuf,
        /// Whose messages.
        source: Source,
        /// Which tags.
        tag: TagMatch,
    },
    /// What something above the lane does: [`Lane::start_external`] starts it.
    External {
        /// The context, for whoever asks where it takes place.
        context: u32,
        /// What it is, in the words of whoever opened it.
        key: usize,
    },
}

/// What can be started again and again.
#[derive(Debug)]
pub(crate) struct Persistent {
    pub(crate) operation: Operation,
    pub(crate) standing: Standing,
}

/// How far a persistent request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It was not started, or is complete and was asked for.
    Inactive,
    /// This request does its work.
    Active(RequestId),
    /// It is complete; nobody has asked yet.
    Complete(Completion),
}

/// Why a request could not be started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StartFault {
    /// There is no such request.
    #[error("it is no request of this process, or one that was freed before")]
    Stale,
    /// It is not persistent.
    #[error("it is not persistent: only requests made by functions that end in _init can be started")]
    NotPersistent,
    /// It was started and not completed.
    #[error("it is active: it was started before and is not completed")]
    Active,
    /// The operation could not begin.
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Operation {
    /// The context in which it takes place, if it does something.
    pub(crate) fn context(&self) -> Option<u32> {
        match self {
            Operation::Nothing(_) => None,
            Operation::Send { context, .. }
            | Operation::Receive { context, .. }
            | Operation::External { context, .. } => Some(*context),
        }
    }
}

impl<F: Fabric> Lane<F> {
    /// A request that can be started again and again.
    pub fn open_persistent(&mut self, operation: Operation) -> RequestId {
        let persistent = Persistent { operation, standing: Standing::Inactive };
        self.state.requests.insert(Work::Persistent(Box::new(persistent)))
    }

    /// What a persistent request does, if it can be started now.
    ///
    /// # Errors
    /// If it is no such request, or is active.
    pub fn startable(&mut self, request: RequestId) -> Result<&Operation, StartFault> {
        let requests = &mut self.state.requests;
        if requests.persistent_mut(request).is_none() {
            let known = request == RequestId::COMPLETE || requests.is_known(request);
            return Err(if known { StartFault::NotPersistent } else { StartFault::Stale });
        }
        match requests.persistent_mut(request) {
            Some(Persistent { operation, standing: Standing::Inactive }) => Ok(operation),
            _ => Err(StartFault::Active),
        }
    }

    /// Starts a persistent request.
    ///
    /// # Errors
    /// As [`Lane::startable`], and those of the operation; it is inactive then.
    pub fn start(&mut self, request: RequestId) -> Result<(), StartFault> {
        let operation = self.startable(request)?.clone();
        self.start_operation(request, operation)
    }

    /// Starts a persistent request with another buffer for this time. Between two such starts the lane has no buffer of
    /// it, so that its owner may use the memory.
    ///
    /// # Errors
    /// As [`Lane::start`].
    pub fn start_with(&mut self, request: RequestId, data: UserBuf) -> Result<(), StartFault> {
        let mut operation = self.startable(request)?.clone();
        match &mut operation {
            Operation::Nothing(_) | Operation::External { .. } => {}
            Operation::Send { buffer, .. } | Operation::Receive { buffer, .. } => *buffer = data,
        }
        self.start_operation(request, operation)
    }

    fn start_operation(&mut self, request: RequestId, operation: Operation) -> Result<(), StartFault> {
        let started = match operation {
            Operation::Nothing(completion) => Started::Complete(completion),
            Operation::Send { context, mode, buffer, to, tag } => {
                let bytes = buffer.as_contiguous().filter(|_| mode != Mode::Synchronous);
                match bytes {
                    Some(bytes) if self.send_now(context, to, tag, bytes) => {
                        Started::Complete(Completion::EMPTY)
                    }
                    _ => {
                        // What failed when it was started before is over.
                        buffer.renew();
                        self.start_send(context, mode, buffer, to, tag)?
                    }
                }
            }
            Operation::Receive { context, buffer, source, tag } => {
                // As above.
                buffer.renew();
                match self.receive_plain_from(context, &buffer, source, tag) {
                    Some(part) => Started::Pending(part),
                    None => self.start_receive(context, buffer, source, tag)?,
                }
            }
            Operation::External { .. } => Started::Pending(self.open_external()),
        };
        if let Some(persistent) = self.state.requests.persistent_mut(request) {
            persistent.standing = match started {
                Started::Complete(completion) => Standing::Complete(completion),
                Started::Pending(part) => Standing::Active(part),
            };
        }
        Ok(())
    }

    /// Starts to receive by [`Lane::receive_plain`]; `None`: it cannot, and nothing happened.
    fn receive_plain_from(
        &mut self,
        context: u32,
        buffer: &UserBuf,
        source: Source,
        tag: TagMatch,
    ) -> Option<RequestId> {
        let into = buffer.as_plain()?;
        let from = match source {
            Source::Any => (Some(ANYBODY), -1),
            Source::Process(process) => (Some(process), self.state.contexts.get(context)?.rank_of(process)),
        };
        match self.receive_plain(context, from, tag.into(), into)? {
            Posted::Waits(part) | Posted::Taken(part) => Some(part),
        }
    }

    /// The status of a persistent request whose operation went well; it is inactive then. `None`: it goes on, or failed, and
    /// nothing happened.
    pub fn take_good_started(&mut self, request: RequestId) -> Option<Received> {
        let said = match self.state.requests.persistent_mut(request)?.standing {
            Standing::Active(part) => self.take_good(part)?,
            Standing::Complete(Completion { source, tag, bytes, cancelled: false, fault: None, .. }) => {
                Received { source, tag, bytes }
            }
            _ => return None,
        };
        self.state.requests.persistent_mut(request)?.standing = Standing::Inactive;
        Some(said)
    }

    /// Starts a persistent request of something above the lane. Returns the request that this completes by
    /// [`Lane::complete_external`], once for each start.
    ///
    /// # Errors
    /// As [`Lane::startable`].
    pub fn start_external(&mut self, request: RequestId) -> Result<RequestId, StartFault> {
        self.startable(request)?;
        let part = self.open_external();
        if let Some(persistent) = self.state.requests.persistent_mut(request) {
            persistent.standing = Standing::Active(part);
        }
        Ok(part)
    }

    /// What a persistent request of something above the lane is, in the words of whoever opened it.
    pub fn external_key(&mut self, request: RequestId) -> Option<usize> {
        match self.state.requests.persistent_mut(request)?.operation {
            Operation::External { key, .. } => Some(key),
            _ => None,
        }
    }

    /// The request that does the work of a persistent one, while there is such.
    pub fn active_part(&mut self, request: RequestId) -> Option<RequestId> {
        match self.state.requests.persistent_mut(request)?.standing {
            Standing::Active(part) => Some(part),
            _ => None,
        }
    }

    /// Whether this is a persistent request that was not started.
    pub fn is_inactive(&self, request: RequestId) -> bool {
        self.state.requests.is_inactive(request)
    }

    /// A request that is complete when both of these are.
    pub fn open_pair(&mut self, send: RequestId, receive: RequestId) -> RequestId {
        let parts = [send, receive].map(|part| (part != RequestId::COMPLETE).then_some(part));
        self.state.requests.insert(Work::Pair(Pair { parts, said: Completion::EMPTY }))
    }

    /// A request that is complete when these buffered sends are.
    pub fn open_flush(&mut self, sends: Vec<RequestId>) -> RequestId {
        self.state.requests.insert(Work::Flush(sends))
    }

    /// Asks for a part. One that is not there any more has nothing to say; one that may wait in vain has failed.
    fn test_part(&mut self, part: RequestId) -> Option<Completion> {
        let said = self.test(part).unwrap_or(Some(Completion::EMPTY))?;
        match said.fault {
            Some(Fault::Pending { peer }) => {
                self.abandon(part);
                Some(Completion { context: said.context, ..Completion::failed(Fault::Lost { peer }) })
            }
            _ => Some(said),
        }
    }

    /// What a request says that goes on, if it is made of others and they are complete. `stays` leaves it as it is.
    pub(crate) fn ask_compound(&mut self, request: RequestId, stays: bool) -> Option<Completion> {
        match self.state.requests.work_mut(request)? {
            Work::Persistent(persistent) => match persistent.standing {
                Standing::Inactive => Some(Completion { stays: true, ..Completion::EMPTY }),
                Standing::Active(part) => {
                    let said = self.test_part(part)?;
                    self.stand(request, said, stays)
                }
                Standing::Complete(said) => self.stand(request, said, stays),
            },
            Work::Pair(pair) => {
                let parts = pair.parts;
                for (at, part) in parts.into_iter().enumerate() {
                    if let Some(part) = part
                        && let Some(said) = self.test_part(part)
                        && let Some(Work::Pair(pair)) = self.state.requests.work_mut(request)
                    {
                        pair.parts[at] = None;
                        // The status is the receive's; the error is the first that there was.
                        let (fault, context) = match pair.said.fault {
                            None => (said.fault, said.context),
                            fault => (fault, pair.said.context),
                        };
                        let status = if at == 1 { said } else { pair.said };
                        pair.said = Completion { fault, context, ..status };
                    }
                }
                match self.state.requests.work_mut(request)? {
                    Work::Pair(Pair { parts: [None, None], said }) => {
                        let said = *said;
                        self.over(request, said, stays)
                    }
                    _ => None,
                }
            }
            Work::Flush(sends) => {
                let mut sends = std::mem::take(sends);
                sends.retain(|send| self.state.requests.is_known(*send));
                if sends.is_empty() {
                    return self.over(request, Completion::EMPTY, stays);
                }
                if let Some(Work::Flush(place)) = self.state.requests.work_mut(request) {
                    *place = sends;
                }
                None
            }
            _ => None,
        }
    }

    /// A persistent request is complete: it says so once, then it is inactive.
    fn stand(&mut self, request: RequestId, said: Completion, stays: bool) -> Option<Completion> {
        let persistent = self.state.requests.persistent_mut(request)?;
        persistent.standing = if stays { Standing::Complete(said) } else { Standing::Inactive };
        Some(Completion { stays: true, ..said })
    }

    /// A compound request is over.
    fn over(&mut self, request: RequestId, said: Completion, stays: bool) -> Option<Completion> {
        match stays {
            true => self.state.requests.complete(request, said),
            false => self.state.requests.dissolve(request),
        }
        Some(said)
    }

    /// The parts of a compound request that go on by themselves; `None` if it is no compound one.
    pub(crate) fn parts(&mut self, request: RequestId) -> Option<[Option<RequestId>; 2]> {
        match self.state.requests.work_mut(request)? {
            Work::Persistent(persistent) => Some(match persistent.standing {
                Standing::Active(part) => [Some(part), None],
                _ => [None, None],
            }),
            Work::Pair(pair) => Some(pair.parts),
            Work::Flush(_) => Some([None, None]),
            _ => None,
        }
    }
}
