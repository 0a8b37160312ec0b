//! Requests that consist of other requests, their *parts*: a send and a receive in one
//! (MPI_Isendrecv), persistent requests (MPI-5.0 section 3.9), and the wait for buffered sends
//! (MPI_Buffer_iflush). The state of a compound request is computed when it is queried
//! ([`Lane::test`]).

use crate::lane::{Lane, StartedReceive};
use crate::matching::ANYBODY;
use crate::request::{
    Completion, Fault, MatchSource, Mode, Received, RequestId, SendReceivePair, Started, TagMatch,
    Work,
};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;

/// The operation of a persistent request.
#[derive(Clone, Debug)]
pub enum Operation {
    /// The peer is MPI_PROC_NULL; this is the completion.
    Nothing(Completion),
    Send {
        context: u32,
        mode: Mode,
        buffer: UserBuf,
        to: u32,
        tag: i32,
    },
    Receive {
        context: u32,
        buffer: UserBuf,
        source: MatchSource,
        tag: TagMatch,
    },
    /// An operation above the lane, started by [`Lane::start_external`].
    External {
        context: u32,
        /// The caller's number of the operation.
        key: usize,
    },
}

#[derive(Debug)]
pub(crate) struct Persistent {
    pub(crate) operation: Operation,
    pub(crate) standing: Standing,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Not started, or complete and already queried.
    Inactive,
    Active(RequestId),
    Complete(Completion),
}

/// The reason why a request could not be started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum StartFault {
    #[error("it is no request of this process, or one that was freed before")]
    Stale,
    #[error(
        "it is not persistent: only requests made by functions that end in _init can be started"
    )]
    NotPersistent,
    #[error("it is active: it was started before and is not completed")]
    Active,
    #[error(transparent)]
    Fault(#[from] Fault),
}

impl Operation {
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
    /// Makes a persistent request.
    pub fn open_persistent(&mut self, operation: Operation) -> RequestId {
        let persistent = Persistent { operation, standing: Standing::Inactive };
        self.state.requests.insert(Work::Persistent(Box::new(persistent)))
    }

    /// The operation of a persistent request. Fails if there is no such request or it is active.
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

    /// Starts a persistent request. It stays inactive after an error, of [`Lane::startable`] or of
    /// the operation.
    pub fn start(&mut self, request: RequestId) -> Result<(), StartFault> {
        let operation = self.startable(request)?.clone();
        self.start_operation(request, operation)
    }

    /// As [`Lane::start`], with this buffer. The lane keeps no buffer between two such starts, so
    /// its owner may use the memory.
    pub fn start_with(&mut self, request: RequestId, data: UserBuf) -> Result<(), StartFault> {
        let mut operation = self.startable(request)?.clone();
        match &mut operation {
            Operation::Nothing(_) | Operation::External { .. } => {}
            Operation::Send { buffer, .. } | Operation::Receive { buffer, .. } => *buffer = data,
        }
        self.start_operation(request, operation)
    }

    fn start_operation(
        &mut self,
        request: RequestId,
        operation: Operation,
    ) -> Result<(), StartFault> {
        let started = match operation {
            Operation::Nothing(completion) => Started::Complete(completion),
            Operation::Send { context, mode, buffer, to, tag } => {
                let bytes = buffer.as_contiguous().filter(|_| mode != Mode::Synchronous);
                match bytes {
                    Some(bytes) if self.send_now(context, to, tag, bytes) => {
                        Started::Complete(Completion::EMPTY)
                    }
                    _ => {
                        // Clears the fault of an earlier start.
                        buffer.renew();
                        self.start_send(context, mode, buffer, to, tag)?
                    }
                }
            }
            Operation::Receive { context, buffer, source, tag } => {
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

    fn receive_plain_from(
        &mut self,
        context: u32,
        buffer: &UserBuf,
        source: MatchSource,
        tag: TagMatch,
    ) -> Option<RequestId> {
        let into = buffer.as_plain()?;
        let from = match source {
            MatchSource::Any => (Some(ANYBODY), -1),
            MatchSource::Process(process) => {
                (Some(process), self.state.contexts.get(context)?.rank_of(process))
            }
        };
        match self.receive_plain(context, from, tag.into(), into)? {
            StartedReceive::Waits(part) | StartedReceive::Taken(part) => Some(part),
        }
    }

    /// The status of a persistent request whose operation succeeded; the request is then inactive.
    /// `None`: the request is active or failed, and unchanged.
    pub fn take_good_started(&mut self, request: RequestId) -> Option<Received> {
        let completion = match self.state.requests.persistent_mut(request)?.standing {
            Standing::Active(part) => self.take_good(part)?,
            Standing::Complete(Completion {
                source,
                tag,
                bytes,
                cancelled: false,
                fault: None,
                ..
            }) => Received { source, tag, bytes },
            _ => return None,
        };
        self.state.requests.persistent_mut(request)?.standing = Standing::Inactive;
        Some(completion)
    }

    /// Starts a persistent request of code above the lane. Returns a request, new for each start,
    /// that this code completes by [`Lane::complete_external`].
    pub fn start_external(&mut self, request: RequestId) -> Result<RequestId, StartFault> {
        self.startable(request)?;
        let part = self.open_external();
        if let Some(persistent) = self.state.requests.persistent_mut(request) {
            persistent.standing = Standing::Active(part);
        }
        Ok(part)
    }

    /// The caller's number of a persistent request of code above the lane.
    pub fn external_key(&mut self, request: RequestId) -> Option<usize> {
        match self.state.requests.persistent_mut(request)?.operation {
            Operation::External { key, .. } => Some(key),
            _ => None,
        }
    }

    /// The active part of a persistent request.
    pub fn active_part(&mut self, request: RequestId) -> Option<RequestId> {
        match self.state.requests.persistent_mut(request)?.standing {
            Standing::Active(part) => Some(part),
            _ => None,
        }
    }

    /// Whether this is a persistent request that is not active.
    pub fn is_inactive(&self, request: RequestId) -> bool {
        self.state.requests.is_inactive(request)
    }

    /// Makes a request that is complete when both parts are complete.
    pub fn open_pair(&mut self, send: RequestId, receive: RequestId) -> RequestId {
        let parts = [send, receive].map(|part| (part != RequestId::COMPLETE).then_some(part));
        self.state
            .requests
            .insert(Work::Pair(SendReceivePair { parts, completion: Completion::EMPTY }))
    }

    /// Makes a request that is complete when these buffered sends are complete.
    pub fn open_flush(&mut self, sends: Vec<RequestId>) -> RequestId {
        self.state.requests.insert(Work::Flush(sends))
    }

    /// Queries a part. A part that no longer exists is complete. A receive with a failed member has
    /// failed.
    fn test_part(&mut self, part: RequestId) -> Option<Completion> {
        let completion = self.test(part).unwrap_or(Some(Completion::EMPTY))?;
        match completion.fault {
            Some(Fault::Pending { peer }) => {
                self.abandon(part);
                Some(Completion {
                    context: completion.context,
                    ..Completion::failed(Fault::Lost { peer })
                })
            }
            _ => Some(completion),
        }
    }

    /// The completion of a compound request whose parts are complete. With `stays` the request
    /// remains.
    pub(crate) fn query_compound(&mut self, request: RequestId, stays: bool) -> Option<Completion> {
        match self.state.requests.work_mut(request)? {
            Work::Persistent(persistent) => match persistent.standing {
                Standing::Inactive => Some(Completion { stays: true, ..Completion::EMPTY }),
                Standing::Active(part) => {
                    let completion = self.test_part(part)?;
                    self.stand(request, completion, stays)
                }
                Standing::Complete(completion) => self.stand(request, completion, stays),
            },
            Work::Pair(pair) => {
                let parts = pair.parts;
                for (at, part) in parts.into_iter().enumerate() {
                    if let Some(part) = part
                        && let Some(completion) = self.test_part(part)
                        && let Some(Work::Pair(pair)) = self.state.requests.work_mut(request)
                    {
                        pair.parts[at] = None;
                        // The status is that of the receive, the error the first one.
                        let (fault, context) = match pair.completion.fault {
                            None => (completion.fault, completion.context),
                            fault => (fault, pair.completion.context),
                        };
                        let status = if at == 1 { completion } else { pair.completion };
                        pair.completion = Completion { fault, context, ..status };
                    }
                }
                match self.state.requests.work_mut(request)? {
                    Work::Pair(SendReceivePair { parts: [None, None], completion }) => {
                        let completion = *completion;
                        self.over(request, completion, stays)
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

    fn stand(
        &mut self,
        request: RequestId,
        completion: Completion,
        stays: bool,
    ) -> Option<Completion> {
        let persistent = self.state.requests.persistent_mut(request)?;
        persistent.standing =
            if stays { Standing::Complete(completion) } else { Standing::Inactive };
        Some(Completion { stays: true, ..completion })
    }

    fn over(
        &mut self,
        request: RequestId,
        completion: Completion,
        stays: bool,
    ) -> Option<Completion> {
        match stays {
            true => self.state.requests.complete(request, completion),
            false => self.state.requests.dissolve(request),
        }
        Some(completion)
    }

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
