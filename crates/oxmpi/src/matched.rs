//! Messages that are matched by a probe and received later (MPI-5.0 section 3.8.2).

use crate::communicator::Communicator;
use crate::error::{Result, settle};
use crate::message::{Source, Status, TagMatch, received, room, room_for, size_of_element};
use crate::request::{MessageKind, Request};
use crate::universe::{Funneled, Level};
use oxmpi_core::Process;
use oxmpi_fabric::routes::Routes;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::element::Element;
use oxmpi_mem::memory::{Owned, lend_buffer_mut};
use oxmpi_mem::regions::BufferMut;
use std::fmt;
use std::marker::PhantomData;

/// A message that a probe has taken: only its owner can receive it, once. On drop the message is
/// received and discarded, so that its sender does not wait for ever.
///
/// ```compile_fail,E0382
/// oxmpi::threads(1, |world| {
///     world.send(&[1u8], 0, 0).unwrap();
///     let message = world.mprobe(0, 0).unwrap();
///     message.recv::<u8>().unwrap();
///     message.recv::<u8>().unwrap();   // error: use of moved value: `message`
/// });
/// ```
#[must_use = "a message that is dropped is thrown away"]
pub struct Message<'u, L: Level = Funneled> {
    process: &'u Process<Routes>,
    raw: Option<u64>,
    status: Status,
    level: PhantomData<L>,
}

impl<L: Level> fmt::Debug for Message<'_, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Message").field("status", &self.status).finish_non_exhaustive()
    }
}

impl<'u, L: Level> Communicator<'u, L> {
    /// Waits for a message and takes it (MPI_Mprobe).
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     if world.rank() == 0 {
    ///         world.send(&[1.0, 2.0], 1, 7).unwrap();
    ///     } else {
    ///         let message = world.mprobe(oxmpi::ANY_SOURCE, oxmpi::ANY_TAG).unwrap();
    ///         assert_eq!(message.status().count::<f64>(), Some(2));
    ///         assert_eq!(message.recv::<f64>().unwrap().0, [1.0, 2.0]);
    ///     }
    /// });
    /// ```
    #[track_caller]
    pub fn mprobe(
        &self,
        source: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Message<'u, L>> {
        let source = source.into().raw();
        let found = settle("mprobe", self.process.mprobe(&self.core, source, tag.into().raw()));
        let (raw, completion) = found.map_err(|e| e.about(source))?;
        Ok(self.message(raw, Status::new(&completion)))
    }

    /// Takes a message if one has come (MPI_Improbe).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     assert!(world.improbe(0, 0).unwrap().is_none());
    ///     world.send(&[7u8], 0, 0).unwrap();
    ///     let message = world.improbe(0, 0).unwrap().unwrap();
    ///     assert!(world.iprobe(0, 0).unwrap().is_none(), "it is taken");
    ///     assert_eq!(message.recv::<u8>().unwrap().0, [7]);
    /// });
    /// ```
    #[track_caller]
    pub fn improbe(
        &self,
        source: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Option<Message<'u, L>>> {
        self.improbe_as("improbe", source.into(), tag.into())
    }

    #[track_caller]
    pub(crate) fn improbe_as(
        &self,
        operation: &'static str,
        source: Source,
        tag: TagMatch,
    ) -> Result<Option<Message<'u, L>>> {
        let source = source.raw();
        let found = settle(operation, self.process.improbe(&self.core, source, tag.raw()));
        let found = found.map_err(|e| e.about(source))?;
        Ok(found.map(|(raw, completion)| self.message(raw, Status::new(&completion))))
    }

    fn message(&self, raw: u64, status: Status) -> Message<'u, L> {
        Message { process: self.process, raw: Some(raw), status, level: PhantomData }
    }
}

impl<'u, L: Level> Message<'u, L> {
    /// Source, tag and length of the message.
    pub fn status(&self) -> Status {
        self.status
    }

    /// Receives the message (MPI_Mrecv).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     world.send(&[1u16, 2], 0, 0).unwrap();
    ///     let (data, status) = world.mprobe(0, 0).unwrap().recv::<u16>().unwrap();
    ///     assert_eq!((data, status.bytes()), (vec![1, 2], 4));
    /// });
    /// ```
    #[track_caller]
    pub fn recv<T: Element>(self) -> Result<(Vec<T>, Status)> {
        let room = room_for("recv", self.status)?;
        self.recv_as("recv", room)
    }

    /// Receives into `made` if it is long enough, otherwise into a new vector.
    #[track_caller]
    pub(crate) fn recv_as<T: Element>(
        mut self,
        operation: &'static str,
        made: Vec<T>,
    ) -> Result<(Vec<T>, Status)> {
        let len = self.status.bytes().div_ceil(size_of_element::<T>());
        let mut data = if made.len() < len { room(operation, len)? } else { made };
        let status = self.receive(operation, &mut data)?;
        data.truncate(status.count::<T>().unwrap_or(0));
        Ok((data, status))
    }

    /// Receives the message into `buffer` (MPI_Mrecv).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     world.send(&[1u16, 2], 0, 0).unwrap();
    ///     let mut buffer = [0u16; 5];
    ///     world.mprobe(0, 0).unwrap().recv_into(&mut buffer).unwrap();
    ///     assert_eq!(buffer, [1, 2, 0, 0, 0]);
    /// });
    /// ```
    #[track_caller]
    pub fn recv_into<B: BufferMut + ?Sized>(mut self, buffer: &mut B) -> Result<Status> {
        self.receive("recv_into", buffer)
    }

    #[track_caller]
    fn receive<B: BufferMut + ?Sized>(
        &mut self,
        operation: &'static str,
        buffer: &mut B,
    ) -> Result<Status> {
        let (raw, source) = (self.raw.take(), self.status.source().unwrap_or(-1));
        let done = lend_buffer_mut(buffer, |buffer| self.process.mrecv(taken(raw), buffer));
        received::<B::Element>(operation, settle(operation, done), source)
    }

    /// Starts to receive the message into `buffer`, which must be as long as the message
    /// (MPI_Imrecv).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     world.send(&[1u16, 2], 0, 0).unwrap();
    ///     let request = world.mprobe(0, 0).unwrap().irecv(vec![0u16; 2]).unwrap();
    ///     assert_eq!(request.wait().unwrap().0, [1, 2]);
    /// });
    /// ```
    #[track_caller]
    pub fn irecv<T: Element>(mut self, buffer: Vec<T>) -> Result<Request<'u, T, L>> {
        let (raw, source) = (self.raw.take(), self.status.source().unwrap_or(-1));
        let buffer = Owned::new(buffer);
        let id = settle("irecv", self.process.imrecv(taken(raw), buffer.buf()))
            .map_err(|e| e.about(source))?;
        Ok(Request::new(self.process, id, MessageKind::Receive, source, buffer))
    }
}

fn taken(raw: Option<u64>) -> u64 {
    raw.unwrap_or(oxmpi_core::matched::NULL)
}

impl<L: Level> Drop for Message<'_, L> {
    fn drop(&mut self) {
        if let Some(raw) = self.raw.take()
            && let Ok(request) = self.process.imrecv(raw, UserBuf::empty())
        {
            // Cannot fail: the request was just made.
            let _ = self.process.free_request(request.raw());
        }
    }
}
