//! Nonblocking messages whose requests own their buffers.

use crate::communicator::Communicator;
use crate::error::{Result, buffer_still_used, outcome, settle};
use crate::message::{Dest, Source, Status, Tag, TagMatch, size_of_element, whole};
use crate::pending::{Pending, sealed, wait};
use crate::universe::{Funneled, Level};
use oxmpi_core::Process;
use oxmpi_engine::{Completion, Mode, RequestId};
use oxmpi_fabric::routes::Routes;
use oxmpi_mem::element::Element;
use oxmpi_mem::memory::Owned;
use std::fmt;
use std::marker::PhantomData;

/// A message under way, with its buffer, which [`wait`](Request::wait) returns (MPI-5.0 section
/// 3.7). [`wait_all`](crate::wait_all) waits for several requests, and a
/// [`RequestSet`](crate::RequestSet) returns them in the order of completion.
///
/// # Drop
/// A dropped send is delivered, and its buffer is freed afterwards. A dropped receive is withdrawn
/// if no message is matched with it; otherwise its message is received and discarded. A drop never
/// waits and never panics. A forgotten request (`std::mem::forget`) leaks its buffer, which stays
/// valid while messages may come.
#[must_use = "a receive that is dropped is withdrawn; wait for it"]
pub struct Request<'u, T: Element, L: Level = Funneled> {
    process: &'u Process<Routes>,
    id: RequestId,
    kind: MessageKind,
    peer: i32,
    buffer: Option<Owned<T>>,
    level: PhantomData<L>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageKind {
    Send,
    Receive,
}

impl<T: Element, L: Level> fmt::Debug for Request<'_, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("kind", &self.kind)
            .field("id", &self.id)
            .finish_non_exhaustive()
    }
}

impl<'u, T: Element, L: Level> Request<'u, T, L> {
    pub(crate) fn new(
        process: &'u Process<Routes>,
        id: RequestId,
        kind: MessageKind,
        peer: i32,
        buffer: Owned<T>,
    ) -> Self {
        Request { process, id, kind, peer, buffer: Some(buffer), level: PhantomData }
    }

    /// Waits until the message is sent or received, and returns the whole buffer (MPI_Wait).
    /// [`Status::count`] is the filled length of a receive. For a send the status has no meaning.
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     let receive = world.irecv(vec![0u8; 4], 0, 0).unwrap();
    ///     world.send(&[7u8; 3], 0, 0).unwrap();
    ///     let (data, status) = receive.wait().unwrap();
    ///     assert_eq!((data, status.count::<u8>()), (vec![7, 7, 7, 0], Some(3)));
    /// });
    /// ```
    ///
    /// # Errors
    /// As [`Communicator::send`] and [`Communicator::recv_into`]. The buffer is then freed.
    #[track_caller]
    pub fn wait(self) -> Result<(Vec<T>, Status)> {
        wait(self)
    }

    /// Makes progress; returns whether [`wait`](Request::wait) would return at once
    /// (MPI_Request_get_status).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     let receive = world.irecv(vec![0u8], 0, 0).unwrap();
    ///     assert!(!receive.test());
    ///     world.send(&[7u8], 0, 0).unwrap();
    ///     while !receive.test() { /* compute */ }
    ///     receive.wait().unwrap();
    /// });
    /// ```
    pub fn test(&self) -> bool {
        is_complete(self.process, self.id)
    }

    /// Withdraws a message that is not matched yet, and returns no status; otherwise waits for it
    /// (MPI_Cancel, MPI-5.0 section 3.8.4). For a send that has left this process, the receiver
    /// decides at its next progress.
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     let (buffer, status) = world.irecv(vec![5u8], 0, 0).unwrap().cancel().unwrap();
    ///     assert_eq!((buffer, status), (vec![5], None));
    ///     let receive = world.irecv(vec![0u8], 0, 0).unwrap();
    ///     world.send(&[7u8], 0, 0).unwrap();
    ///     while !receive.test() {}
    ///     let (buffer, status) = receive.cancel().unwrap();
    ///     assert_eq!((buffer, status.is_some()), (vec![7], true), "it was too late");
    ///     let (buffer, status) = world.issend(vec![5u8], 0, 0).unwrap().cancel().unwrap();
    ///     assert_eq!((buffer, status), (vec![5], None), "nobody gets it");
    /// });
    /// ```
    #[track_caller]
    pub fn cancel(mut self) -> Result<(Vec<T>, Option<Status>)> {
        let done = cancelled(self.process, self.id)?;
        let gone = done.cancelled;
        let (buffer, status) = self.complete("cancel", done)?;
        Ok((buffer, (!gone).then_some(status)))
    }

    /// The result of the completed request. Without its buffer, the drop does nothing.
    #[track_caller]
    fn complete(&mut self, operation: &'static str, done: Completion) -> Result<(Vec<T>, Status)> {
        let buffer = self.buffer.take();
        let status = status_of::<T>(operation, done, self.kind, self.peer)?;
        let data =
            buffer.and_then(|b| b.into_vec().ok()).ok_or_else(|| buffer_still_used(operation))?;
        Ok((data, status))
    }
}

/// Whether a request is complete; an unknown request counts as complete.
pub(crate) fn is_complete(process: &Process<Routes>, id: RequestId) -> bool {
    !matches!(process.peek_raw(id.raw()), Ok(None))
}

#[track_caller]
pub(crate) fn cancelled(process: &Process<Routes>, id: RequestId) -> Result<Completion> {
    settle("cancel", process.cancel(id.raw()))?;
    settle("cancel", process.wait_raw(id.raw()))
}

#[track_caller]
pub(crate) fn status_of<T: Element>(
    operation: &'static str,
    done: Completion,
    kind: MessageKind,
    peer: i32,
) -> Result<Status> {
    let status = Status::new(&outcome(operation, done, peer)?);
    if kind == MessageKind::Receive && !done.cancelled {
        whole::<T>(operation, status)
    } else {
        Ok(status)
    }
}

impl<T: Element, L: Level> sealed::Pending for Request<'_, T, L> {
    fn process(&self) -> &Process<Routes> {
        self.process
    }

    fn id(&self) -> RequestId {
        self.id
    }
}

impl<T: Element, L: Level> Pending for Request<'_, T, L> {
    type Output = (Vec<T>, Status);

    #[track_caller]
    fn finish(mut self, done: sealed::Done) -> Result<(Vec<T>, Status)> {
        self.complete("wait", done.0)
    }
}

impl<T: Element, L: Level> Drop for Request<'_, T, L> {
    fn drop(&mut self) {
        if self.buffer.is_none() {
            return;
        }
        // Both calls cannot fail, since the request exists.
        if self.kind == MessageKind::Receive {
            let _ = self.process.cancel(self.id.raw());
        }
        let _ = self.process.free_request(self.id.raw());
    }
}

impl<'u, L: Level> Communicator<'u, L> {
    /// Starts to send `data` (MPI_Isend).
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     let peer = 1 - world.rank();
    ///     let receive = world.irecv(vec![0.0; 1000], peer, 0).unwrap();
    ///     let send = world.isend(vec![1.0; 1000], peer, 0).unwrap();
    ///     // ... compute ...
    ///     let (data, status) = receive.wait().unwrap();
    ///     assert_eq!((data, status.count::<f64>()), (vec![1.0; 1000], Some(1000)));
    ///     send.wait().unwrap();
    /// });
    /// ```
    #[track_caller]
    pub fn isend<T: Element>(
        &self,
        data: Vec<T>,
        dest: impl Into<Dest>,
        tag: Tag,
    ) -> Result<Request<'u, T, L>> {
        self.start_send("isend", Mode::Standard, data, dest.into(), tag)
    }

    /// Starts to send `data`. The request is complete when the receiver has begun to receive
    /// (MPI_Issend).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     let send = world.issend(vec![1u8], 0, 0).unwrap();
    ///     assert!(!send.test());
    ///     world.recv::<u8>(0, 0).unwrap();
    ///     send.wait().unwrap();
    /// });
    /// ```
    #[track_caller]
    pub fn issend<T: Element>(
        &self,
        data: Vec<T>,
        dest: impl Into<Dest>,
        tag: Tag,
    ) -> Result<Request<'u, T, L>> {
        self.start_send("issend", Mode::Synchronous, data, dest.into(), tag)
    }

    #[track_caller]
    fn start_send<T: Element>(
        &self,
        operation: &'static str,
        mode: Mode,
        data: Vec<T>,
        dest: Dest,
        tag: Tag,
    ) -> Result<Request<'u, T, L>> {
        let _ = size_of_element::<T>();
        let (buffer, dest) = (Owned::new(data), dest.raw());
        let started = self.process.isend(&self.core, mode, buffer.buf(), dest, tag);
        let id = settle(operation, started).map_err(|e| e.about(dest))?;
        Ok(Request::new(self.process, id, MessageKind::Send, dest, buffer))
    }

    /// Starts to receive into `buffer`, which must be as long as the message (MPI_Irecv).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     let receive = world.irecv(vec![0; 2], oxmpi::ANY_SOURCE, oxmpi::ANY_TAG).unwrap();
    ///     world.send(&[3, 4], 0, 0).unwrap();
    ///     assert_eq!(receive.wait().unwrap().0, [3, 4]);
    /// });
    /// ```
    #[track_caller]
    pub fn irecv<T: Element>(
        &self,
        buffer: Vec<T>,
        source: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'u, T, L>> {
        let _ = size_of_element::<T>();
        let (source, tag) = (source.into().raw(), tag.into().raw());
        let buffer = Owned::new(buffer);
        let started = settle("irecv", self.process.irecv(&self.core, buffer.buf(), source, tag));
        let id = started.map_err(|e| e.about(source))?;
        Ok(Request::new(self.process, id, MessageKind::Receive, source, buffer))
    }
}
