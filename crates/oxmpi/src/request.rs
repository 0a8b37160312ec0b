//! Messages that go on while the program computes, with buffers that the request owns.

use crate::communicator::Communicator;
use crate::error::{Result, kept, settle};
use crate::message::{Dest, Source, Status, Tag, TagMatch, size_of_element, whole};
use crate::universe::{Funneled, Level};
use oxmpi_core::Process;
use oxmpi_engine::{Mode, RequestId};
use oxmpi_fabric::ways::Ways;
use oxmpi_mem::memory::{Owned, Plain};
use std::fmt;
use std::marker::PhantomData;

/// A message under way, and its buffer: [`wait`](Request::wait) gives the buffer back (MPI-5.0 section 3.7).
///
/// # When it is dropped
/// A send goes on and is delivered; its buffer is freed afterwards. A receive is withdrawn if no message was matched
/// with it yet; otherwise the message is received and thrown away. Dropping never waits and never panics. A request
/// that is forgotten (`std::mem::forget`) leaks its buffer, which stays valid as long as messages may come.
#[must_use = "a receive that is dropped is withdrawn; wait for it"]
pub struct Request<'u, T: Plain, L: Level = Funneled> {
    process: &'u Process<Ways>,
    id: RequestId,
    kind: Kind,
    /// `None` after the buffer was given back.
    buffer: Option<Owned<T>>,
    level: PhantomData<L>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Send,
    Receive,
}

impl<T: Plain, L: Level> fmt::Debug for Request<'_, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("kind", &self.kind).field("id", &self.id).finish_non_exhaustive()
    }
}

impl<T: Plain, L: Level> Request<'_, T, L> {
    /// Waits until the message is sent or received and gives back the buffer, at its full length (MPI_Wait). For a
    /// receive, [`Status::count`] says how much of it was filled; for a send, only the buffer means something.
    ///
    /// # Errors
    /// As [`Communicator::send`] and [`Communicator::recv_into`]; the buffer is freed then.
    #[track_caller]
    pub fn wait(mut self) -> Result<(Vec<T>, Status)> {
        let done = self.process.wait(self.id);
        // It is gone, whatever it says: nothing is left to do when `self` is dropped.
        let buffer = self.buffer.take();
        let mut status = Status::new(&settle("wait", done)?);
        if self.kind == Kind::Receive {
            status = whole::<T>("wait", status)?;
        }
        let data = buffer.and_then(|b| b.into_vec().ok()).ok_or_else(|| kept("wait"))?;
        Ok((data, status))
    }

    /// Whether [`wait`](Request::wait) would return at once; lets messages go on meanwhile (MPI_Test without freeing the
    /// request, MPI_Request_get_status).
    pub fn test(&self) -> bool {
        // There is such a request until it is waited for, which consumes `self`.
        !matches!(self.process.peek_raw(self.id.raw()), Ok(None))
    }
}

impl<T: Plain, L: Level> Drop for Request<'_, T, L> {
    fn drop(&mut self) {
        if self.buffer.is_none() {
            return;
        }
        // Neither can fail: the request is there (see `test`).
        if self.kind == Kind::Receive {
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
    ///
    /// # Errors
    /// If the receiver has failed.
    ///
    /// # Panics
    /// If there is no rank `dest`, or `tag` is negative.
    #[track_caller]
    pub fn isend<T: Plain>(
        &self,
        data: Vec<T>,
        dest: impl Into<Dest>,
        tag: Tag,
    ) -> Result<Request<'u, T, L>> {
        self.start_send("isend", Mode::Standard, data, dest.into(), tag)
    }

    /// Starts to send `data`; complete when the receiver has begun to receive (MPI_Issend).
    ///
    /// # Errors
    /// As [`isend`](Communicator::isend).
    ///
    /// # Panics
    /// As [`isend`](Communicator::isend).
    #[track_caller]
    pub fn issend<T: Plain>(
        &self,
        data: Vec<T>,
        dest: impl Into<Dest>,
        tag: Tag,
    ) -> Result<Request<'u, T, L>> {
        self.start_send("issend", Mode::Synchronous, data, dest.into(), tag)
    }

    #[track_caller]
    fn start_send<T: Plain>(
        &self,
        operation: &'static str,
        mode: Mode,
        data: Vec<T>,
        dest: Dest,
        tag: Tag,
    ) -> Result<Request<'u, T, L>> {
        let _ = size_of_element::<T>();
        let buffer = Owned::new(data);
        let started = self.process.isend(&self.core, mode, buffer.buf(), dest.raw(), tag);
        let id = settle(operation, started)?;
        Ok(Request { process: self.process, id, kind: Kind::Send, buffer: Some(buffer), level: PhantomData })
    }

    /// Starts to receive into `buffer`, whose length is the room there is (MPI_Irecv).
    ///
    /// # Errors
    /// If the sender has failed.
    ///
    /// # Panics
    /// If there is no rank `source`, or `tag` is negative.
    #[track_caller]
    pub fn irecv<T: Plain>(
        &self,
        buffer: Vec<T>,
        source: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Request<'u, T, L>> {
        let _ = size_of_element::<T>();
        let (source, tag) = (source.into().raw(), tag.into().raw());
        let buffer = Owned::new(buffer);
        let id = settle("irecv", self.process.irecv(&self.core, buffer.buf(), source, tag))?;
        Ok(Request {
            process: self.process,
            id,
            kind: Kind::Receive,
            buffer: Some(buffer),
            level: PhantomData,
        })
    }
}
