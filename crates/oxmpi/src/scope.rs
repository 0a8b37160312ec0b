//! Nonblocking messages with borrowed buffers.
//!
//! A request that borrows its buffer and waits in its destructor would be unsound. Safe code may
//! forget the request and use the buffer while a message is written into it. A closure cannot be
//! forgotten: everything that starts in it ends before [`Communicator::scope`] returns, as in
//! `std::thread::scope`.

use crate::communicator::Communicator;
use crate::error::{Result, settle};
use crate::message::{Dest, Source, Status, Tag, TagMatch, size_of_element};
use crate::op::Panic;
use crate::pending::{Pending, sealed, wait};
use crate::request::{MessageKind, cancelled, is_complete, status_of};
use crate::universe::Level;
use oxmpi_core::Process;
use oxmpi_engine::{Completion, Mode, RequestId};
use oxmpi_fabric::routes::Routes;
use oxmpi_mem::element::Element;
use oxmpi_mem::memory::{Lender, lend_many};
use oxmpi_mem::regions::{Buffer, BufferMut};
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Starts messages and collectives with borrowed buffers; see [`Communicator::scope`]. Buffers are
/// borrowed for `'scope`, which contains the whole call. Requests live for `'run`, until the
/// closure returns.
pub struct Scope<'run, 'scope, 'env: 'scope, L: Level> {
    pub(crate) communicator: &'run Communicator<'run, L>,
    pub(crate) lender: &'scope Lender<'scope, 'env>,
    running: &'run ScopeRequests<'run>,
}

/// The requests that the program has not waited for. Drop ends them while the buffers are still
/// lent.
struct ScopeRequests<'u> {
    process: &'u Process<Routes>,
    started: Mutex<BTreeMap<u64, ScopedOperation>>,
}

pub(crate) struct ScopedOperation {
    id: RequestId,
    kind: ScopedKind,
}

enum ScopedKind {
    Message {
        kind: MessageKind,
        peer: i32,
        complete: fn(&'static str, Completion, MessageKind, i32) -> Result<Status>,
    },
    Collective {
        panic: Option<Panic>,
    },
}

impl ScopedOperation {
    fn message<T: Element>(id: RequestId, kind: MessageKind, peer: i32) -> ScopedOperation {
        ScopedOperation { id, kind: ScopedKind::Message { kind, peer, complete: status_of::<T> } }
    }

    /// `panic` holds a panic of the program's operation.
    pub(crate) fn collective(id: RequestId, panic: Option<Panic>) -> ScopedOperation {
        ScopedOperation { id, kind: ScopedKind::Collective { panic } }
    }

    fn is_collective(&self) -> bool {
        matches!(self.kind, ScopedKind::Collective { .. })
    }

    #[track_caller]
    fn complete(self, operation: &'static str, done: Completion) -> Result<Status> {
        match self.kind {
            ScopedKind::Message { kind, peer, complete } => complete(operation, done, kind, peer),
            ScopedKind::Collective { panic } => {
                if let Some(panic) = panic {
                    panic.resume();
                }
                status_of::<u8>(operation, done, MessageKind::Send, -1)
            }
        }
    }
}

impl ScopeRequests<'_> {
    fn started(&self) -> MutexGuard<'_, BTreeMap<u64, ScopedOperation>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Removes the oldest request, for which the scope waits.
    fn next(&self) -> Option<ScopedOperation> {
        self.started().pop_first().map(|(_, started)| started)
    }

    /// Removes a request that its owner completes.
    fn remove(&self, key: u64) -> Option<ScopedOperation> {
        self.started().remove(&key)
    }

    fn add(&self, started: ScopedOperation) -> u64 {
        let mut all = self.started();
        let key = all.last_key_value().map_or(0, |(last, _)| last + 1);
        all.insert(key, started);
        key
    }
}

impl Drop for ScopeRequests<'_> {
    fn drop(&mut self) {
        let all = std::mem::take(&mut *self.started());
        let (collectives, messages): (Vec<ScopedOperation>, Vec<ScopedOperation>) =
            all.into_values().partition(ScopedOperation::is_collective);
        for message in messages {
            self.process.abandon(message.id.raw());
        }
        for collective in collectives {
            // The other ranks need this rank to complete the collective, so only a panic abandons
            // it.
            if std::thread::panicking() || self.process.wait_raw(collective.id.raw()).is_err() {
                self.process.abandon(collective.id.raw());
            }
        }
    }
}

/// A message or collective of a [`Scope`]. If the program drops the request, the scope waits for
/// it.
pub struct ScopedRequest<'run, L: Level> {
    running: &'run ScopeRequests<'run>,
    id: RequestId,
    key: u64,
    /// Collectives cannot be cancelled.
    is_message: bool,
    level: PhantomData<L>,
}

impl<L: Level> fmt::Debug for Scope<'_, '_, '_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope")
            .field("requests", &self.running.started().len())
            .finish_non_exhaustive()
    }
}

impl<L: Level> fmt::Debug for ScopedRequest<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedRequest").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<L: Level> Communicator<'_, L> {
    /// Runs `f`, which may start messages and collectives with borrowed buffers. All are complete
    /// when this function returns.
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     let peer = 1 - world.rank();
    ///     let inner = [world.rank(); 3];
    ///     let mut halo = [-1; 3];
    ///     world.scope(|s| {
    ///         s.irecv(&mut halo, peer, 0)?;
    ///         s.isend(&inner, peer, 0)?;
    ///         // ... compute on what is not lent ...
    ///         Ok(())
    ///     }).unwrap();
    ///     assert_eq!(halo, [peer; 3]);
    /// });
    /// ```
    ///
    /// Buffers are lent until the end of the scope, even after a wait for their request:
    ///
    /// ```compile_fail,E0506
    /// oxmpi::threads(1, |world| {
    ///     let mut halo = [0; 3];
    ///     world.scope(|s| {
    ///         s.irecv(&mut halo, 0, 0)?;
    ///         halo[0] = 1;   // error: cannot assign to `halo[_]` because it is borrowed
    ///         Ok(())
    ///     }).unwrap();
    /// });
    /// ```
    ///
    /// # Errors
    /// The error of `f`, or the first error of a request that `f` has not waited for. If `f` fails,
    /// its messages are abandoned: a send may arrive with wrong contents or not at all, and
    /// receives are withdrawn. Its collectives are completed, since other ranks need this one.
    ///
    /// # Panics
    /// If `f` panics. Its messages and collectives are then abandoned, and the communicator cannot
    /// be used for collectives any more. Also if the program's own operation panics in a reduction
    /// that `f` has not waited for.
    #[track_caller]
    pub fn scope<'env, R>(
        &self,
        f: impl for<'run, 'scope> FnOnce(&'run Scope<'run, 'scope, 'env, L>) -> Result<R>,
    ) -> Result<R> {
        lend_many(|lender| {
            let running = ScopeRequests { process: self.process, started: Mutex::default() };
            let scope = Scope { communicator: self, lender, running: &running };
            let result = f(&scope)?;
            let mut outcome = Ok(());
            // All requests must end, even after one has failed.
            while let Some(started) = running.next() {
                let done = settle("scope", self.process.wait_raw(started.id.raw()));
                outcome =
                    outcome.and(done.and_then(|done| started.complete("scope", done)).map(drop));
            }
            outcome.map(|()| result)
        })
    }
}

impl<'run, 'scope, L: Level> Scope<'run, 'scope, '_, L> {
    pub(crate) fn started(&self, started: ScopedOperation) -> ScopedRequest<'run, L> {
        let (id, is_message) = (started.id, matches!(started.kind, ScopedKind::Message { .. }));
        let key = self.running.add(started);
        ScopedRequest { running: self.running, id, key, is_message, level: PhantomData }
    }

    /// Starts to send `data` (MPI_Isend).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     let data = [1, 2, 3];
    ///     world.scope(|s| {
    ///         s.isend(&data, 0, 0)?;
    ///         assert_eq!(world.recv::<i32>(0, 0)?.0, data);
    ///         Ok(())
    ///     }).unwrap();
    /// });
    /// ```
    #[track_caller]
    pub fn isend<B: Buffer + ?Sized>(
        &self,
        data: &'scope B,
        dest: impl Into<Dest>,
        tag: Tag,
    ) -> Result<ScopedRequest<'run, L>> {
        self.start_send("isend", Mode::Standard, data, dest.into(), tag)
    }

    /// Starts to send `data`. The request is complete when the receiver has begun to receive
    /// (MPI_Issend).
    #[track_caller]
    pub fn issend<B: Buffer + ?Sized>(
        &self,
        data: &'scope B,
        dest: impl Into<Dest>,
        tag: Tag,
    ) -> Result<ScopedRequest<'run, L>> {
        self.start_send("issend", Mode::Synchronous, data, dest.into(), tag)
    }

    #[track_caller]
    fn start_send<B: Buffer + ?Sized>(
        &self,
        operation: &'static str,
        mode: Mode,
        data: &'scope B,
        dest: Dest,
        tag: Tag,
    ) -> Result<ScopedRequest<'run, L>> {
        let _ = size_of_element::<B::Element>();
        let (comm, dest) = (self.communicator, dest.raw());
        let started = comm.process.isend(&comm.core, mode, self.lender.lend(data), dest, tag);
        let id = settle(operation, started).map_err(|e| e.about(dest))?;
        Ok(self.started(ScopedOperation::message::<B::Element>(id, MessageKind::Send, dest)))
    }

    /// Starts to receive into `buffer` (MPI_Irecv).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     let mut buffer = [0; 3];
    ///     world.scope(|s| {
    ///         let received = s.irecv(&mut buffer, 0, 0)?;
    ///         world.send(&[1, 2, 3], 0, 0)?;
    ///         assert_eq!(received.wait()?.count::<i32>(), Some(3));
    ///         Ok(())
    ///     }).unwrap();
    ///     assert_eq!(buffer, [1, 2, 3]);
    /// });
    /// ```
    #[track_caller]
    pub fn irecv<B: BufferMut + ?Sized>(
        &self,
        buffer: &'scope mut B,
        source: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<ScopedRequest<'run, L>> {
        let _ = size_of_element::<B::Element>();
        let (comm, source, tag) = (self.communicator, source.into().raw(), tag.into().raw());
        let started = comm.process.irecv(&comm.core, self.lender.lend_mut(buffer), source, tag);
        let id = settle("irecv", started).map_err(|e| e.about(source))?;
        Ok(self.started(ScopedOperation::message::<B::Element>(id, MessageKind::Receive, source)))
    }
}

impl<L: Level> ScopedRequest<'_, L> {
    /// Waits for the completion (MPI_Wait). The buffer stays lent until the end of the scope. For a
    /// collective the status has no meaning.
    ///
    /// # Errors
    /// As the blocking form of the operation.
    ///
    /// # Panics
    /// If the program's own operation panics in a reduction.
    #[track_caller]
    pub fn wait(self) -> Result<Status> {
        wait(self)
    }

    /// Makes progress; returns whether [`wait`](ScopedRequest::wait) would return at once
    /// (MPI_Request_get_status).
    pub fn test(&self) -> bool {
        is_complete(self.running.process, self.id)
    }

    /// Withdraws a message that is not matched yet and returns `None`. Otherwise waits for it
    /// (MPI_Cancel).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     let mut buffer = [0; 3];
    ///     let status = world.scope(|s| s.irecv(&mut buffer, 0, 0)?.cancel()).unwrap();
    ///     assert_eq!(status, None);
    /// });
    /// ```
    #[track_caller]
    pub fn cancel(self) -> Result<Option<Status>> {
        if !self.is_message {
            return self.wait().map(Some);
        }
        let done = cancelled(self.running.process, self.id)?;
        let status = self.complete("cancel", done)?;
        Ok((!done.cancelled).then_some(status))
    }

    #[track_caller]
    fn complete(&self, operation: &'static str, done: Completion) -> Result<Status> {
        match self.running.remove(self.key) {
            Some(started) => started.complete(operation, done),
            None => unreachable!("a scoped request is gone; this is a defect of OxMPI"),
        }
    }
}

impl<L: Level> sealed::Pending for ScopedRequest<'_, L> {
    fn process(&self) -> &Process<Routes> {
        self.running.process
    }

    fn id(&self) -> RequestId {
        self.id
    }
}

impl<L: Level> Pending for ScopedRequest<'_, L> {
    type Output = Status;

    #[track_caller]
    fn finish(self, done: sealed::Done) -> Result<Status> {
        self.complete("wait", done.0)
    }
}
