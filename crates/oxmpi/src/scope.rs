//! Messages that go on while the program computes, with buffers that are borrowed.
//!
//! A request that borrows its buffer and is waited for in its destructor would be unsound: safe code may forget a
//! value, and then use the buffer while a message is still written into it. A closure cannot be forgotten: what is
//! started in it ends before [`Communicator::scope`] returns. It is the way of `std::thread::scope`.

use crate::communicator::Communicator;
use crate::error::{Result, settle};
use crate::message::{Dest, Source, Status, Tag, TagMatch, size_of_element, whole};
use crate::universe::Level;
use oxmpi_core::Process;
use oxmpi_engine::{Mode, RequestId};
use oxmpi_fabric::ways::Ways;
use oxmpi_mem::memory::{Lender, Plain, lend_many};
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Where borrowed messages are started; see [`Communicator::scope`].
/// Buffers live for `'scope`, which contains the whole call; requests for `'run`, until `f` returns.
pub struct Scope<'run, 'scope, 'env: 'scope, L: Level> {
    communicator: &'run Communicator<'run, L>,
    lender: &'scope Lender<'scope, 'env>,
    running: &'run Running<'run>,
}

/// What was started and not waited for. It ends all of that when it is dropped: before the loans end, on every way.
struct Running<'u> {
    process: &'u Process<Ways>,
    requests: Mutex<Vec<Started>>,
}

/// A request, and what must hold of its status.
type Started = (RequestId, fn(Status) -> Result<Status>);

impl Running<'_> {
    fn requests(&self) -> MutexGuard<'_, Vec<Started>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next to be waited for by the scope.
    fn next(&self) -> Option<Started> {
        self.requests().pop()
    }

    /// The request is waited for by its owner.
    fn remove(&self, id: RequestId) {
        let mut requests = self.requests();
        if let Some(at) = requests.iter().position(|r| r.0 == id) {
            requests.swap_remove(at);
        }
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        for (id, _) in std::mem::take(&mut *self.requests()) {
            self.process.abandon(id.raw());
        }
    }
}

/// A message started in a [`Scope`]. If it is dropped, the scope waits for it at its end.
pub struct ScopedRequest<'run, L: Level> {
    running: &'run Running<'run>,
    id: RequestId,
    check: fn(Status) -> Result<Status>,
    level: PhantomData<L>,
}

impl<L: Level> fmt::Debug for Scope<'_, '_, '_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scope").field("requests", &self.running.requests().len()).finish_non_exhaustive()
    }
}

impl<L: Level> fmt::Debug for ScopedRequest<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedRequest").field("id", &self.id).finish_non_exhaustive()
    }
}

impl<L: Level> Communicator<'_, L> {
    /// Runs `f`, in which messages may be started with borrowed buffers; all of them are complete when this returns.
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
    /// That of `f`, or one of the messages that were not waited for. If `f` fails, the messages it has started are
    /// given up: they may not arrive, or with other contents, and receives are withdrawn.
    ///
    /// # Panics
    /// If `f` does; messages are given up then too.
    #[track_caller]
    pub fn scope<'env, R>(
        &self,
        f: impl for<'run, 'scope> FnOnce(&'run Scope<'run, 'scope, 'env, L>) -> Result<R>,
    ) -> Result<R> {
        lend_many(|lender| {
            let running = Running { process: self.process, requests: Mutex::new(Vec::new()) };
            let scope = Scope { communicator: self, lender, running: &running };
            let result = f(&scope)?;
            let mut outcome = Ok(());
            // All end, also after one has failed.
            while let Some((id, check)) = running.next() {
                let done = settle("scope", self.process.wait(id)).and_then(|done| check(Status::new(&done)));
                outcome = outcome.and(done.map(drop));
            }
            outcome.map(|()| result)
        })
    }
}

impl<'run, 'scope, L: Level> Scope<'run, 'scope, '_, L> {
    fn started(&self, id: RequestId, check: fn(Status) -> Result<Status>) -> ScopedRequest<'run, L> {
        self.running.requests().push((id, check));
        ScopedRequest { running: self.running, id, check, level: PhantomData }
    }

    /// Starts to send `data` (MPI_Isend).
    ///
    /// # Errors
    /// If the receiver has failed.
    ///
    /// # Panics
    /// If there is no rank `dest`, or `tag` is negative.
    #[track_caller]
    pub fn isend<T: Plain>(
        &self,
        data: &'scope [T],
        dest: impl Into<Dest>,
        tag: Tag,
    ) -> Result<ScopedRequest<'run, L>> {
        let _ = size_of_element::<T>();
        let (comm, dest) = (self.communicator, dest.into().raw());
        let buffer = self.lender.lend(data);
        let id = settle("isend", comm.process.isend(&comm.core, Mode::Standard, buffer, dest, tag))?;
        Ok(self.started(id, Ok))
    }

    /// Starts to receive into `buffer` (MPI_Irecv).
    ///
    /// # Errors
    /// If the sender has failed.
    ///
    /// # Panics
    /// If there is no rank `source`, or `tag` is negative.
    #[track_caller]
    pub fn irecv<T: Plain>(
        &self,
        buffer: &'scope mut [T],
        source: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<ScopedRequest<'run, L>> {
        let _ = size_of_element::<T>();
        let (comm, source, tag) = (self.communicator, source.into().raw(), tag.into().raw());
        let buffer = self.lender.lend_mut(buffer);
        let id = settle("irecv", comm.process.irecv(&comm.core, buffer, source, tag))?;
        Ok(self.started(id, |status| whole::<T>("wait", status)))
    }
}

impl<L: Level> ScopedRequest<'_, L> {
    /// Waits until the message is sent or received (MPI_Wait). Its buffer stays lent until the end of the scope.
    ///
    /// # Errors
    /// As [`Communicator::send`] and [`Communicator::recv_into`].
    #[track_caller]
    pub fn wait(self) -> Result<Status> {
        self.running.remove(self.id);
        let done = settle("wait", self.running.process.wait(self.id))?;
        (self.check)(Status::new(&done))
    }

    /// Whether [`wait`](ScopedRequest::wait) would return at once; lets messages go on meanwhile.
    pub fn test(&self) -> bool {
        !matches!(self.running.process.peek_raw(self.id.raw()), Ok(None))
    }
}
