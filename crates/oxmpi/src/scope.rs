//! Messages that go on while the program computes, with buffers that are borrowed.
//!
//! A request that borrows its buffer and is waited for in its destructor would be unsound: safe code may forget a
//! value, and then use the buffer while a message is still written into it. A closure cannot be forgotten: what is
//! started in it ends before [`Communicator::scope`] returns. It is the way of `std::thread::scope`.

use crate::communicator::Communicator;
use crate::error::{Result, settle};
use crate::message::{Dest, Source, Status, Tag, TagMatch, size_of_element};
use crate::op::Panic;
use crate::pending::{Pending, sealed, wait};
use crate::request::{Kind, cancelled, is_complete, said};
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

/// Where messages and collectives are started whose buffers are borrowed; see [`Communicator::scope`].
/// Buffers live for `'scope`, which contains the whole call; requests for `'run`, until `f` returns.
pub struct Scope<'run, 'scope, 'env: 'scope, L: Level> {
    pub(crate) communicator: &'run Communicator<'run, L>,
    pub(crate) lender: &'scope Lender<'scope, 'env>,
    running: &'run Running<'run>,
}

/// What was started and not waited for. It ends all of that when it is dropped: before the loans end, on every way.
struct Running<'u> {
    process: &'u Process<Routes>,
    started: Mutex<BTreeMap<u64, Started>>,
}

/// A request, and what has to be known when it is over.
pub(crate) struct Started {
    id: RequestId,
    what: What,
}

enum What {
    Message { kind: Kind, peer: i32, say: fn(&'static str, Completion, Kind, i32) -> Result<Status> },
    Collective { panic: Option<Panic> },
}

impl Started {
    fn message<T: Element>(id: RequestId, kind: Kind, peer: i32) -> Started {
        Started { id, what: What::Message { kind, peer, say: said::<T> } }
    }

    /// `panic` keeps what the program's function panics with.
    pub(crate) fn collective(id: RequestId, panic: Option<Panic>) -> Started {
        Started { id, what: What::Collective { panic } }
    }

    fn is_collective(&self) -> bool {
        matches!(self.what, What::Collective { .. })
    }

    /// What it says that is over.
    #[track_caller]
    fn say(self, operation: &'static str, done: Completion) -> Result<Status> {
        match self.what {
            What::Message { kind, peer, say } => say(operation, done, kind, peer),
            What::Collective { panic } => {
                if let Some(panic) = panic {
                    panic.resume();
                }
                said::<u8>(operation, done, Kind::Send, -1)
            }
        }
    }
}

impl Running<'_> {
    fn started(&self) -> MutexGuard<'_, BTreeMap<u64, Started>> {
        self.started.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next to be waited for by the scope, in the order in which they were started.
    fn next(&self) -> Option<Started> {
        self.started().pop_first().map(|(_, started)| started)
    }

    /// A request that is waited for by its owner.
    fn remove(&self, key: u64) -> Option<Started> {
        self.started().remove(&key)
    }

    fn add(&self, started: Started) -> u64 {
        let mut all = self.started();
        let key = all.last_key_value().map_or(0, |(last, _)| last + 1);
        all.insert(key, started);
        key
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        let all = std::mem::take(&mut *self.started());
        let (collectives, messages): (Vec<Started>, Vec<Started>) =
            all.into_values().partition(Started::is_collective);
        for message in messages {
            self.process.abandon(message.id.raw());
        }
        for collective in collectives {
            // The other ranks count on this one. Only a panic does not wait.
            if std::thread::panicking() || self.process.wait_raw(collective.id.raw()).is_err() {
                self.process.abandon(collective.id.raw());
            }
        }
    }
}

/// A message or collective started in a [`Scope`]. If it is dropped, the scope waits for it at its end.
pub struct ScopedRequest<'run, L: Level> {
    running: &'run Running<'run>,
    id: RequestId,
    key: u64,
    /// A collective cannot be cancelled.
    is_message: bool,
    level: PhantomData<L>,
}

impl<L: Level> fmt::Debug for Scope<'_, '_, '_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("requests", &self.running.started().len()).finish_non_exhaustive()
    }
}

impl<L: Level> fmt::Debug for ScopedRequest<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedRequest").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<L: Level> Communicator<'_, L> {
    /// Runs `f`, in which messages and collectives may be started with borrowed buffers; all of them are complete when this
    /// returns.
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
    /// Buffers are lent until the end of the scope, even if their request was waited for:
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
    /// That of `f`, or the first one of what was not waited for. If `f` fails, the messages it has started are given up: they
    /// may not arrive, or with other contents, and receives are withdrawn. Collectives it has started are waited for, because
    /// the other ranks count on them.
    ///
    /// # Panics
    /// If `f` does; messages and collectives are given up then, and the communicator is of no use to collectives any more. If
    /// the program's own operation panics in a reduction that was not waited for.
    #[track_caller]
    pub fn scope<'env, R>(
        &self,
        f: impl for<'run, 'scope> FnOnce(&'run Scope<'run, 'scope, 'env, L>) -> Result<R>,
    ) -> Result<R> {
        lend_many(|lender| {
            let running = Running { process: self.process, started: Mutex::default() };
            let scope = Scope { communicator: self, lender, running: &running };
            let result = f(&scope)?;
            let mut outcome = Ok(());
            // All end, also after one has failed.
            while let Some(started) = running.next() {
                let done = settle("scope", self.process.wait_raw(started.id.raw()));
                outcome = outcome.and(done.and_then(|done| started.say("scope", done)).map(drop));
            }
            outcome.map(|()| result)
        })
    }
}

impl<'run, 'scope, L: Level> Scope<'run, 'scope, '_, L> {
    /// Watches over what was started.
    pub(crate) fn started(&self, started: Started) -> ScopedRequest<'run, L> {
        let (id, is_message) = (started.id, matches!(started.what, What::Message { .. }));
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
    ///
    /// # Errors
    /// If the receiver has failed.
    ///
    /// # Panics
    /// If there is no rank `dest`, or `tag` is negative.
    #[track_caller]
    pub fn isend<B: Buffer + ?Sized>(
        &self,
        data: &'scope B,
        dest: impl Into<Dest>,
        tag: Tag,
    ) -> Result<ScopedRequest<'run, L>> {
        self.start_send("isend", Mode::Standard, data, dest.into(), tag)
    }

    /// Starts to send `data`; complete when the receiver has begun to receive (MPI_Issend).
    ///
    /// # Errors
    /// As [`isend`](Scope::isend).
    ///
    /// # Panics
    /// As [`isend`](Scope::isend).
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
        Ok(self.started(Started::message::<B::Element>(id, Kind::Send, dest)))
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
    ///
    /// # Errors
    /// If the sender has failed.
    ///
    /// # Panics
    /// If there is no rank `source`, or `tag` is negative.
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
        Ok(self.started(Started::message::<B::Element>(id, Kind::Receive, source)))
    }
}

impl<L: Level> ScopedRequest<'_, L> {
    /// Waits until it is over (MPI_Wait). Its buffer stays lent until the end of the scope. The status of a collective says
    /// nothing.
    ///
    /// # Errors
    /// As the blocking form of what was started.
    ///
    /// # Panics
    /// If the program's own operation panics in a reduction.
    #[track_caller]
    pub fn wait(self) -> Result<Status> {
        wait(self)
    }

    /// Whether [`wait`](ScopedRequest::wait) would return at once; lets messages go on meanwhile (MPI_Request_get_status).
    pub fn test(&self) -> bool {
        is_complete(self.running.process, self.id)
    }

    /// Withdraws a receive that no message was matched with yet, or a message that no receive was: there is no status then. Otherwise
    /// waits for it (MPI_Cancel).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     let mut buffer = [0; 3];
    ///     let status = world.scope(|s| s.irecv(&mut buffer, 0, 0)?.cancel()).unwrap();
    ///     assert_eq!(status, None);
    /// });
    /// ```
    ///
    /// # Errors
    /// As [`wait`](ScopedRequest::wait).
    #[track_caller]
    pub fn cancel(self) -> Result<Option<Status>> {
        if !self.is_message {
            return self.wait().map(Some);
        }
        let done = cancelled(self.running.process, self.id)?;
        let status = self.say("cancel", done)?;
        Ok((!done.cancelled).then_some(status))
    }

    #[track_caller]
    fn say(&self, operation: &'static str, done: Completion) -> Result<Status> {
        match self.running.remove(self.key) {
            Some(started) => started.say(operation, done),
            // The scope ends after all that uses its requests.
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
        self.say("wait", done.0)
    }
}
