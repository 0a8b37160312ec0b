//! Blocking messages between two ranks (MPI-5.0 chapter 3).

use crate::communicator::{Communicator, Rank};
use crate::error::{Error, ErrorKind, Result, outcome, settle};
use crate::universe::Level;
use oxmpi_abi::constants as abi;
use oxmpi_core::p2p::{SendrecvReceive, SendrecvSend};
use oxmpi_engine::{Completion, Mode};
use oxmpi_mem::element::Element;
use oxmpi_mem::memory::{lend_buffer, lend_buffer_mut, lend_mut, view_of, zeros};
use oxmpi_mem::regions::{Buffer, BufferMut};

/// A number from 0 to 2^31-1 that the sender chooses, and by which a receiver selects messages.
pub type Tag = i32;

/// The destination of a message. A rank or an `Option` of a rank converts to it; `None` means no
/// destination, for example beyond the edge of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dest {
    /// A rank.
    Rank(Rank),
    /// No destination: the send does nothing (MPI_PROC_NULL, MPI-5.0 section 3.10).
    Nobody,
}

/// The source of a message. A rank or an `Option` of a rank converts to it; `None` means no source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A rank.
    Rank(Rank),
    /// Any rank (MPI_ANY_SOURCE).
    Any,
    /// No source: the receive does nothing (MPI_PROC_NULL).
    Nobody,
}

/// The tags that a receive accepts. A [`Tag`] converts to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagMatch {
    /// Only this tag.
    Is(Tag),
    /// Any tag (MPI_ANY_TAG).
    Any,
}

/// Any source.
pub const ANY_SOURCE: Source = Source::Any;
/// Any tag.
pub const ANY_TAG: TagMatch = TagMatch::Any;

impl From<Rank> for Dest {
    fn from(rank: Rank) -> Dest {
        Dest::Rank(rank)
    }
}

impl From<Option<Rank>> for Dest {
    fn from(rank: Option<Rank>) -> Dest {
        rank.map_or(Dest::Nobody, Dest::Rank)
    }
}

impl From<Rank> for Source {
    fn from(rank: Rank) -> Source {
        Source::Rank(rank)
    }
}

impl From<Option<Rank>> for Source {
    fn from(rank: Option<Rank>) -> Source {
        rank.map_or(Source::Nobody, Source::Rank)
    }
}

impl From<Tag> for TagMatch {
    fn from(tag: Tag) -> TagMatch {
        TagMatch::Is(tag)
    }
}

impl Dest {
    /// The number for the core, where negative numbers are constants. Panics on a negative rank.
    #[track_caller]
    pub(crate) fn raw(self) -> i32 {
        match self {
            Dest::Rank(r) if r < 0 => {
                panic!("dest is rank {r}; ranks begin at 0; for no destination, use Dest::Nobody")
            }
            Dest::Rank(r) => r,
            Dest::Nobody => abi::MPI_PROC_NULL,
        }
    }
}

impl Source {
    #[track_caller]
    pub(crate) fn raw(self) -> i32 {
        match self {
            Source::Rank(r) if r < 0 => {
                panic!("source is rank {r}; ranks begin at 0; for any source, use ANY_SOURCE")
            }
            Source::Rank(r) => r,
            Source::Any => abi::MPI_ANY_SOURCE,
            Source::Nobody => abi::MPI_PROC_NULL,
        }
    }
}

impl TagMatch {
    #[track_caller]
    pub(crate) fn raw(self) -> i32 {
        match self {
            TagMatch::Is(tag) if tag < 0 => {
                panic!("tag is {tag}; tags begin at 0; for any tag, use ANY_TAG")
            }
            TagMatch::Is(tag) => tag,
            TagMatch::Any => abi::MPI_ANY_TAG,
        }
    }
}

/// Source, tag and length of a message (MPI_Status, MPI-5.0 section 3.2.5).
///
/// ```
/// oxmpi::threads(1, |world| {
///     world.send(&[1.0, 2.0], 0, 7).unwrap();
///     let (_, status) = world.recv::<f64>(0, oxmpi::ANY_TAG).unwrap();
///     assert_eq!((status.source(), status.tag(), status.bytes()), (Some(0), 7, 16));
///     assert_eq!((status.count::<f32>(), status.count::<[f64; 3]>()), (Some(4), None));
/// });
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    source: i32,
    tag: Tag,
    bytes: usize,
}

impl Status {
    pub(crate) fn new(completion: &Completion) -> Status {
        Status {
            source: completion.source,
            tag: completion.tag,
            bytes: usize::try_from(completion.bytes).unwrap_or(usize::MAX),
        }
    }

    /// The sender; `None` if the source was [`Source::Nobody`].
    pub fn source(&self) -> Option<Rank> {
        (self.source >= 0).then_some(self.source)
    }

    /// The tag; negative if the source was [`Source::Nobody`].
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// The length in bytes. Padding does not count.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The length in elements of `T`; `None` if the message is no whole number of `T`
    /// (MPI_Get_count).
    pub fn count<T: Element>(&self) -> Option<usize> {
        self.bytes
            .is_multiple_of(size_of_element::<T>())
            .then(|| self.bytes / size_of_element::<T>())
    }
}

/// The bytes of an element in a message. A type without bytes does not compile.
pub(crate) const fn size_of_element<T: Element>() -> usize {
    const { assert!(T::SHAPE.data_bytes() > 0, "a type without bytes cannot be sent") };
    T::SHAPE.data_bytes()
}

/// Fails unless the message consists of whole elements.
pub(crate) fn whole<T: Element>(operation: &'static str, status: Status) -> Result<Status> {
    match status.count::<T>() {
        Some(_) => Ok(status),
        None => Err(not_whole::<T>(operation, status)),
    }
}

#[cold]
fn not_whole<T: Element>(operation: &'static str, status: Status) -> Error {
    let text = format!(
        "a message of {} bytes from rank {} with tag {} is no whole number of {} ({} bytes)",
        status.bytes,
        status.source,
        status.tag,
        std::any::type_name::<T>(),
        size_of_element::<T>()
    );
    Error::new(ErrorKind::WrongType, operation, text).about(status.source)
}

impl<L: Level> Communicator<'_, L> {
    /// Sends a message, and returns when the caller may reuse `data` (MPI_Send, MPI-5.0 section
    /// 3.2.1). The send of a long message returns only after its receiver has begun to receive it.
    /// So two ranks that both send before they receive may wait for each other for ever; see
    /// [`sendrecv`](Communicator::sendrecv).
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     if world.rank() == 0 {
    ///         world.send(&[1.5, 2.5], 1, 0).unwrap();
    ///     } else {
    ///         assert_eq!(world.recv::<f64>(0, 0).unwrap().0, [1.5, 2.5]);
    ///     }
    /// });
    /// ```
    #[track_caller]
    pub fn send<B: Buffer + ?Sized>(
        &self,
        data: &B,
        dest: impl Into<Dest>,
        tag: Tag,
    ) -> Result<()> {
        self.send_as("send", Mode::Standard, data, dest.into(), tag)
    }

    /// Sends a message, and returns when the receiver has begun to receive it (MPI_Ssend).
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     if world.rank() == 0 {
    ///         world.ssend(&[7u8], 1, 0).unwrap();   // now rank 1 receives it
    ///     } else {
    ///         world.recv::<u8>(0, 0).unwrap();
    ///     }
    /// });
    /// ```
    #[track_caller]
    pub fn ssend<B: Buffer + ?Sized>(
        &self,
        data: &B,
        dest: impl Into<Dest>,
        tag: Tag,
    ) -> Result<()> {
        self.send_as("ssend", Mode::Synchronous, data, dest.into(), tag)
    }

    #[track_caller]
    fn send_as<B: Buffer + ?Sized>(
        &self,
        operation: &'static str,
        mode: Mode,
        data: &B,
        dest: Dest,
        tag: Tag,
    ) -> Result<()> {
        let _ = size_of_element::<B::Element>();
        let dest = dest.raw();
        // The general path can wait, and reports errors.
        if mode == Mode::Standard
            && view_of(data, |bytes| self.process.send_now(&self.core, bytes, dest, tag))
                == Some(true)
        {
            return Ok(());
        }
        let sent =
            lend_buffer(data, |buffer| self.process.send(&self.core, mode, buffer, dest, tag));
        settle(operation, sent).map_err(|e| e.about(dest))
    }

    /// Receives a message of any length (MPI_Mprobe and MPI_Mrecv).
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     if world.rank() == 0 {
    ///         world.send(&[1u16, 2, 3], 1, 0).unwrap();
    ///     } else {
    ///         assert_eq!(world.recv::<u16>(0, 0).unwrap().0, [1, 2, 3]);
    ///     }
    /// });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::WrongType`] if the message is no whole number of `T`. The message is then lost.
    #[track_caller]
    pub fn recv<T: Element>(
        &self,
        source: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<(Vec<T>, Status)> {
        let (source, tag) = (source.into(), tag.into());
        loop {
            // Memory is allocated before the message is taken: without memory the message stays.
            let room = room_for::<T>("recv", self.probe_as("recv", source, tag)?)?;
            if let Some(message) = self.improbe_as("recv", source, tag)? {
                return message.recv_as("recv", room);
            }
        }
    }

    /// Receives a message into `buffer` (MPI_Recv). [`Status::count`] is the length of the message.
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     if world.rank() == 0 {
    ///         world.send(&[1, 2, 3], 1, 5).unwrap();
    ///     } else {
    ///         let mut buffer = [0; 10];
    ///         let status = world.recv_into(&mut buffer, oxmpi::ANY_SOURCE, 5).unwrap();
    ///         assert_eq!((status.source(), status.count::<i32>()), (Some(0), Some(3)));
    ///         assert_eq!(buffer[..3], [1, 2, 3]);
    ///     }
    /// });
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`] if the message is longer than `buffer`, which then has the
    /// beginning of the message. [`ErrorKind::WrongType`] if the message is no whole number of
    /// elements.
    #[track_caller]
    pub fn recv_into<B: BufferMut + ?Sized>(
        &self,
        buffer: &mut B,
        source: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status> {
        let (source, tag) = (source.into().raw(), tag.into().raw());
        let done = lend_buffer_mut(buffer, |buffer| {
            self.process.recv_whatever(&self.core, buffer, source, tag)
        });
        received::<B::Element>("recv_into", settle("recv_into", done), source)
    }

    /// Sends and receives at the same time, so that an exchange cannot deadlock (MPI_Sendrecv).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let (right, left) = ((world.rank() + 1) % 3, (world.rank() + 2) % 3);
    ///     let mut from_left = [0];
    ///     world.sendrecv(&[world.rank()], right, 0, &mut from_left, left, 0).unwrap();
    ///     assert_eq!(from_left, [left]);
    /// });
    /// ```
    #[track_caller]
    pub fn sendrecv<S: Buffer + ?Sized, R: BufferMut + ?Sized>(
        &self,
        data: &S,
        dest: impl Into<Dest>,
        send_tag: Tag,
        buffer: &mut R,
        source: impl Into<Source>,
        receive_tag: impl Into<TagMatch>,
    ) -> Result<Status> {
        let _ = size_of_element::<S::Element>();
        let (dest, source, receive_tag) =
            (dest.into().raw(), source.into().raw(), receive_tag.into().raw());
        let done = lend_buffer(data, |send| {
            lend_buffer_mut(buffer, |receive| {
                let send = SendrecvSend { buffer: send, dest, tag: send_tag };
                let receive = SendrecvReceive { buffer: receive, source, tag: receive_tag };
                self.process.sendrecv(&self.core, send, receive)
            })
        });
        received::<R::Element>("sendrecv", settle("sendrecv", done), source)
    }

    /// Sends the content of `data`, and receives into `data` (MPI_Sendrecv_replace).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let (right, left) = ((world.rank() + 1) % 3, (world.rank() + 2) % 3);
    ///     let mut token = [world.rank()];
    ///     world.sendrecv_replace(&mut token, right, 0, left, 0).unwrap();
    ///     assert_eq!(token, [left]);
    /// });
    /// ```
    ///
    /// # Errors
    /// As [`sendrecv`](Communicator::sendrecv), and [`ErrorKind::NoMemory`] if `data` cannot be
    /// copied.
    #[track_caller]
    pub fn sendrecv_replace<B: BufferMut + ?Sized>(
        &self,
        data: &mut B,
        dest: impl Into<Dest>,
        send_tag: Tag,
        source: impl Into<Source>,
        receive_tag: impl Into<TagMatch>,
    ) -> Result<Status> {
        let bytes = size_of_element::<B::Element>() * data.count();
        let mut copy = room::<u8>("sendrecv_replace", bytes)?;
        lend_buffer(data, |data| lend_mut(&mut copy, |copy| copy.copy_from(0, &data, 0, bytes)));
        self.sendrecv(&copy, dest, send_tag, data, source, receive_tag)
    }

    /// Waits until a message has come, without receiving it (MPI_Probe).
    ///
    /// ```
    /// oxmpi::threads(2, |world| {
    ///     if world.rank() == 0 {
    ///         world.send(&[1u8; 100], 1, 7).unwrap();
    ///     } else {
    ///         let status = world.probe(0, oxmpi::ANY_TAG).unwrap();
    ///         assert_eq!((status.bytes(), status.tag()), (100, 7));
    ///         world.recv::<u8>(0, 7).unwrap();
    ///     }
    /// });
    /// ```
    ///
    /// If several threads receive, use [`mprobe`](Communicator::mprobe): another thread may receive
    /// the probed message first.
    #[track_caller]
    pub fn probe(&self, source: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Status> {
        self.probe_as("probe", source.into(), tag.into())
    }

    #[track_caller]
    fn probe_as(&self, operation: &'static str, source: Source, tag: TagMatch) -> Result<Status> {
        let source = source.raw();
        let found = self.process.probe(&self.core, source, tag.raw());
        settle(operation, found).map(|c| Status::new(&c)).map_err(|e| e.about(source))
    }

    /// Returns the status of a message that has come, if there is one, without receiving it
    /// (MPI_Iprobe).
    ///
    /// ```
    /// oxmpi::threads(1, |world| {
    ///     assert_eq!(world.iprobe(0, 0).unwrap(), None);
    ///     world.send(&[1u8], 0, 0).unwrap();
    ///     assert_eq!(world.iprobe(0, 0).unwrap().map(|status| status.bytes()), Some(1));
    ///     world.recv::<u8>(0, 0).unwrap();
    /// });
    /// ```
    #[track_caller]
    pub fn iprobe(
        &self,
        source: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Option<Status>> {
        let source = source.into().raw();
        let found = self.process.iprobe(&self.core, source, tag.into().raw());
        settle("iprobe", found).map(|c| c.map(|c| Status::new(&c))).map_err(|e| e.about(source))
    }
}

pub(crate) fn room<T: Element>(operation: &'static str, len: usize) -> Result<Vec<T>> {
    zeros(len).map_err(|e| Error::new(ErrorKind::NoMemory, operation, e.to_string()))
}

pub(crate) fn room_for<T: Element>(operation: &'static str, status: Status) -> Result<Vec<T>> {
    room(operation, status.bytes.div_ceil(size_of_element::<T>()))
}

#[track_caller]
pub(crate) fn received<T: Element>(
    operation: &'static str,
    done: Result<Completion>,
    source: i32,
) -> Result<Status> {
    match done {
        Ok(completion) => {
            whole::<T>(operation, Status::new(&outcome(operation, completion, source)?))
        }
        Err(error) => Err(error.about(source)),
    }
}
