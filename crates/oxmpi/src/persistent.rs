//! Persistent messages: described once, sent or received repeatedly (MPI-5.0 section 3.9).

use crate::communicator::Communicator;
use crate::error::{Result, settle};
use crate::message::{Dest, Source, Status, Tag, TagMatch, size_of_element};
use crate::pending::{Pending, sealed, wait};
use crate::request::{MessageKind, cancelled, is_complete, status_of};
use crate::universe::{Funneled, Level};
use oxmpi_core::Process;
use oxmpi_engine::{Completion, Mode, RequestId};
use oxmpi_fabric::routes::Routes;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::element::Element;
use oxmpi_mem::memory::Owned;
use std::fmt;
use std::marker::PhantomData;

/// A message that can be [started](Persistent::start) repeatedly, with its buffer.
///
/// ```
/// oxmpi::threads(2, |world| {
///     let peer = 1 - world.rank();
///     let mut send = world.send_init(vec![0; 3], peer, 0).unwrap();
///     let mut receive = world.recv_init(vec![0; 3], peer, 0).unwrap();
///     for round in 0..4 {
///         send.data().fill(round);
///         let received = receive.start().unwrap();
///         let sent = send.start().unwrap();
///         // ... compute ...
///         oxmpi::wait_all([received, sent]).unwrap();
///         assert_eq!(receive.data(), [round; 3]);
///     }
/// });
/// ```
///
/// # Drop
/// As for a [`Request`](crate::Request): a started send is delivered, a started receive is
/// withdrawn.
pub struct Persistent<'u, T: Element, L: Level = Funneled> {
    process: &'u Process<Routes>,
    id: RequestId,
    kind: MessageKind,
    peer: i32,
    buffer: Option<Owned<T>>,
    active: bool,
    level: PhantomData<L>,
}

/// A started [`Persistent`] message. Its buffer can be used again after the wait.
///
/// On drop, a send continues. A receive is withdrawn if no message is matched with it. The next
/// start, and the next use of the buffer, first wait for the message.
#[must_use = "a receive that is dropped is withdrawn; wait for it"]
pub struct Started<'p, 'u, T: Element, L: Level = Funneled> {
    message: &'p mut Persistent<'u, T, L>,
}

impl<T: Element, L: Level> fmt::Debug for Persistent<'_, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Persistent")
            .field("kind", &self.kind)
            .field("active", &self.active)
            .finish_non_exhaustive()
    }
}

impl<T: Element, L: Level> fmt::Debug for Started<'_, '_, T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Started").field(&self.message).finish()
    }
}

impl<'u, L: Level> Communicator<'u, L> {
    /// Describes a send of `data` (MPI_Send_init). See [`Persistent`].
    #[track_caller]
    pub fn send_init<T: Element>(
        &self,
        data: Vec<T>,
        dest: impl Into<Dest>,
        tag: Tag,
    ) -> Result<Persistent<'u, T, L>> {
        let _ = size_of_element::<T>();
        let dest = dest.into().raw();
        // The program can change the buffer between starts, so each start passes the buffer.
        let made = self.process.send_init(&self.core, Mode::Standard, UserBuf::empty(), dest, tag);
        Ok(self.persistent(settle("send_init", made)?, MessageKind::Send, dest, data))
    }

    /// Describes a receive into `buffer` (MPI_Recv_init). See [`Persistent`].
    #[track_caller]
    pub fn recv_init<T: Element>(
        &self,
        buffer: Vec<T>,
        source: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Persistent<'u, T, L>> {
        let _ = size_of_element::<T>();
        let (source, tag) = (source.into().raw(), tag.into().raw());
        let made = self.process.recv_init(&self.core, UserBuf::empty(), source, tag);
        Ok(self.persistent(settle("recv_init", made)?, MessageKind::Receive, source, buffer))
    }

    fn persistent<T: Element>(
        &self,
        id: RequestId,
        kind: MessageKind,
        peer: i32,
        data: Vec<T>,
    ) -> Persistent<'u, T, L> {
        let buffer = Some(Owned::new(data));
        Persistent {
            process: self.process,
            id,
            kind,
            peer,
            buffer,
            active: false,
            level: PhantomData,
        }
    }
}

impl<'u, T: Element, L: Level> Persistent<'u, T, L> {
    /// Starts the message (MPI_Start). Waits first for an earlier start to complete.
    #[track_caller]
    pub fn start(&mut self) -> Result<Started<'_, 'u, T, L>> {
        self.rest();
        let buffer = self.buffer.as_ref().map_or(UserBuf::empty(), Owned::buf);
        let started = settle("start", self.process.start_request_with(self.id.raw(), buffer));
        started.map_err(|e| e.about(self.peer))?;
        self.active = true;
        Ok(Started { message: self })
    }

    /// The buffer. Waits first for an earlier start to complete.
    ///
    /// # Panics
    /// If the library still uses the buffer, which would be a defect.
    pub fn data(&mut self) -> &mut [T] {
        self.rest();
        match self.buffer.as_mut().map(Owned::as_slice) {
            Some(Some(data)) => data,
            _ => {
                unreachable!("a finished operation still has its buffer; this is a defect of OxMPI")
            }
        }
    }

    /// Frees the request and returns its buffer (MPI_Request_free).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     let mut receive = world.recv_init(vec![0u8; 2], 0, 0).unwrap();
    ///     let received = receive.start().unwrap();
    ///     world.send(&[1u8, 2], 0, 0).unwrap();
    ///     received.wait().unwrap();
    ///     assert_eq!(receive.into_data(), [1, 2]);
    /// });
    /// ```
    pub fn into_data(mut self) -> Vec<T> {
        self.rest();
        self.free();
        self.buffer.take().and_then(|buffer| buffer.into_vec().ok()).unwrap_or_default()
    }

    fn rest(&mut self) {
        if self.active {
            let _ = self.process.wait_raw(self.id.raw());
            self.active = false;
        }
    }

    fn withdraw(&self) {
        if self.active && self.kind == MessageKind::Receive {
            // Cannot fail: the request exists.
            let _ = self.process.cancel(self.id.raw());
        }
    }

    fn free(&self) {
        // Cannot fail: the request exists.
        let _ = self.process.free_request(self.id.raw());
    }

    #[track_caller]
    fn complete(&mut self, operation: &'static str, done: Completion) -> Result<Status> {
        self.active = false;
        status_of::<T>(operation, done, self.kind, self.peer)
    }
}

impl<T: Element, L: Level> Drop for Persistent<'_, T, L> {
    fn drop(&mut self) {
        if self.buffer.is_some() {
            self.withdraw();
            self.free();
        }
    }
}

impl<T: Element, L: Level> Started<'_, '_, T, L> {
    /// Waits until the message is sent or received (MPI_Wait).
    #[track_caller]
    pub fn wait(self) -> Result<Status> {
        wait(self)
    }

    /// Makes progress; returns whether [`wait`](Started::wait) would return at once
    /// (MPI_Request_get_status).
    pub fn test(&self) -> bool {
        is_complete(self.message.process, self.message.id)
    }

    /// Withdraws a message that is not matched yet and returns `None`. Otherwise waits for it
    /// (MPI_Cancel).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     let mut receive = world.recv_init(vec![0u8; 2], 0, 0).unwrap();
    ///     assert_eq!(receive.start().unwrap().cancel().unwrap(), None);
    /// });
    /// ```
    #[track_caller]
    pub fn cancel(self) -> Result<Option<Status>> {
        let done = cancelled(self.message.process, self.message.id)?;
        let status = self.message.complete("cancel", done)?;
        Ok((!done.cancelled).then_some(status))
    }
}

impl<T: Element, L: Level> sealed::Pending for Started<'_, '_, T, L> {
    fn process(&self) -> &Process<Routes> {
        self.message.process
    }

    fn id(&self) -> RequestId {
        self.message.id
    }
}

impl<T: Element, L: Level> Pending for Started<'_, '_, T, L> {
    type Output = Status;

    #[track_caller]
    fn finish(self, done: sealed::Done) -> Result<Status> {
        self.message.complete("wait", done.0)
    }
}

impl<T: Element, L: Level> Drop for Started<'_, '_, T, L> {
    fn drop(&mut self) {
        self.message.withdraw();
    }
}
