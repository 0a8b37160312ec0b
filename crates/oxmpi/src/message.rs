//! Blocking messages between two ranks (MPI-5.0 chapter 3).

use crate::communicator::{Communicator, Rank};
use crate::error::{Error, ErrorKind, Result, kept, settle};
use crate::universe::Level;
use oxmpi_abi::constants as abi;
use oxmpi_core::completion::error_of;
use oxmpi_core::p2p::{Incoming, Outgoing};
use oxmpi_engine::{Completion, Mode};
use oxmpi_mem::memory::{Owned, Plain, lend, lend_mut, view, zeros};
use oxmpi_objects::error::MpiError;

/// A number of the sender's choice, 0 to 2^31-1, by which receivers tell messages apart.
pub type Tag = i32;

/// Where a message goes. A rank, or `Some` rank, converts to it; `None` is nobody, which makes edges of grids easy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dest {
    /// To a rank.
    Rank(Rank),
    /// Nowhere: the send does nothing (MPI_PROC_NULL, MPI-5.0 section 3.10).
    Nobody,
}

/// Whose messages are received. A rank, or `Some` rank, converts to it; `None` is nobody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// A rank's.
    Rank(Rank),
    /// Anybody's (MPI_ANY_SOURCE).
    Any,
    /// Nobody's: the receive does nothing (MPI_PROC_NULL).
    Nobody,
}

/// Which tags are received. A [`Tag`] converts to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagMatch {
    /// This one.
    Is(Tag),
    /// Any (MPI_ANY_TAG).
    Any,
}

/// Receive from anybody.
pub const ANY_SOURCE: Source = Source::Any;
/// Receive messages with any tag.
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
    /// As the floors below number it. Negative numbers are the standard's constants there, and mistakes here.
    #[track_caller]
    pub(crate) fn raw(self) -> i32 {
        match self {
            Dest::Rank(r) if r < 0 => {
                panic!("dest is rank {r}; ranks begin at 0, and nobody is Dest::Nobody")
            }
            Dest::Rank(r) => r,
            Dest::Nobody => abi::MPI_PROC_NULL,
        }
    }
}

impl Source {
    /// As [`Dest::raw`].
    #[track_caller]
    pub(crate) fn raw(self) -> i32 {
        match self {
            Source::Rank(r) if r < 0 => {
                panic!("source is rank {r}; ranks begin at 0, and anybody is ANY_SOURCE")
            }
            Source::Rank(r) => r,
            Source::Any => abi::MPI_ANY_SOURCE,
            Source::Nobody => abi::MPI_PROC_NULL,
        }
    }
}

impl TagMatch {
    /// As [`Dest::raw`].
    #[track_caller]
    pub(crate) fn raw(self) -> i32 {
        match self {
            TagMatch::Is(tag) if tag < 0 => panic!("tag is {tag}; tags begin at 0, and any tag is ANY_TAG"),
            TagMatch::Is(tag) => tag,
            TagMatch::Any => abi::MPI_ANY_TAG,
        }
    }
}

/// What is known of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    source: i32,
    tag: Tag,
    bytes: usize,
}

impl Status {
    pub(crate) fn new(completion: &Completion) -> Status {
        // The message is in this process's memory, or was asked for its length: it fits.
        Status {
            source: completion.source,
            tag: completion.tag,
            bytes: usize::try_from(completion.bytes).unwrap_or(usize::MAX),
        }
    }

    /// Who sent it; `None` if there was no message, because the source was [`Source::Nobody`].
    pub fn source(&self) -> Option<Rank> {
        (self.source >= 0).then_some(self.source)
    }

    /// Its tag; negative if there was no message.
    pub fn tag(&self) -> Tag {
        self.tag
    }

    /// Its length in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Its length in elements of `T`; `None` if it is no whole number of them.
    pub fn count<T: Plain>(&self) -> Option<usize> {
        self.bytes.is_multiple_of(size_of_element::<T>()).then(|| self.bytes / size_of_element::<T>())
    }
}

/// Elements without bytes cannot be counted in a message.
pub(crate) const fn size_of_element<T: Plain>() -> usize {
    const { assert!(size_of::<T>() > 0, "a type without bytes cannot be sent") };
    size_of::<T>()
}

/// What has come must be whole elements.
pub(crate) fn whole<T: Plain>(operation: &'static str, status: Status) -> Result<Status> {
    match status.count::<T>() {
        Some(_) => Ok(status),
        None => Err(not_whole::<T>(operation, status)),
    }
}

#[cold]
fn not_whole<T: Plain>(operation: &'static str, status: Status) -> Error {
    let text = format!(
        "a message of {} bytes from rank {} with tag {} is no whole number of {} ({} bytes)",
        status.bytes,
        status.source,
        status.tag,
        std::any::type_name::<T>(),
        size_of::<T>()
    );
    Error::new(ErrorKind::WrongType, operation, text)
}

impl<L: Level> Communicator<'_, L> {
    /// Sends; returns when `data` is on its way, which for long messages means that the receiver is taking it
    /// (MPI_Send). So two ranks that both send first and receive then may wait for each other for ever: see
    /// [`sendrecv`](Communicator::sendrecv).
    ///
    /// # Errors
    /// If the receiver has failed.
    ///
    /// # Panics
    /// If there is no rank `dest`, or `tag` is negative.
    #[track_caller]
    pub fn send<T: Plain>(&self, data: &[T], dest: impl Into<Dest>, tag: Tag) -> Result<()> {
        self.send_as("send", Mode::Standard, data, dest.into(), tag)
    }

    /// Sends; returns when the receiver has begun to receive (MPI_Ssend).
    ///
    /// # Errors
    /// As [`send`](Communicator::send).
    ///
    /// # Panics
    /// As [`send`](Communicator::send).
    #[track_caller]
    pub fn ssend<T: Plain>(&self, data: &[T], dest: impl Into<Dest>, tag: Tag) -> Result<()> {
        self.send_as("ssend", Mode::Synchronous, data, dest.into(), tag)
    }

    #[track_caller]
    fn send_as<T: Plain>(
        &self,
        operation: &'static str,
        mode: Mode,
        data: &[T],
        dest: Dest,
        tag: Tag,
    ) -> Result<()> {
        let _ = size_of_element::<T>();
        let dest = dest.raw();
        // The short way, if it is open; otherwise the one that can wait and tells what is wrong.
        if mode == Mode::Standard && self.process.send_now(&self.core, view(data), dest, tag) {
            return Ok(());
        }
        let sent = lend(data, |buffer| self.process.send(&self.core, mode, buffer, dest, tag));
        settle(operation, sent)
    }

    /// Receives a message of any length.
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
    /// [`ErrorKind::WrongType`] if it is no whole number of `T` (the message is then gone); [`ErrorKind::NoMemory`]; the
    /// sender has failed.
    ///
    /// # Panics
    /// If there is no rank `source`, or `tag` is negative.
    #[track_caller]
    pub fn recv<T: Plain>(
        &self,
        source: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<(Vec<T>, Status)> {
        let (source, tag) = (source.into().raw(), tag.into().raw());
        let room = |bytes: u64| {
            let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
            let room = zeros::<T>(bytes.div_ceil(size_of_element::<T>()));
            room.map(Owned::new).map_err(|e| MpiError::new(abi::MPI_ERR_NO_MEM, e.to_string()))
        };
        let (status, owned) = loop {
            // The room is found before the message is taken: if there is none the message stays where it is.
            let seen = settle("recv", self.process.probe(&self.core, source, tag))?;
            let mut owned = settle("recv", room(seen.bytes))?;
            // Another thread may have been quicker.
            let Some((message, found)) = settle("recv", self.process.improbe(&self.core, source, tag))?
            else {
                continue;
            };
            if found.bytes > seen.bytes {
                owned = settle("recv", room(found.bytes))?;
            }
            let received = self.process.receive_matched(message, owned.buf());
            break (whole::<T>("recv", Status::new(&settle("recv", received)?))?, owned);
        };
        let mut data = owned.into_vec().map_err(|_| kept("recv"))?;
        data.truncate(status.count::<T>().unwrap_or(0));
        Ok((data, status))
    }

    /// Receives into `buffer` (MPI_Recv). The message may be shorter: [`Status::count`] says how much has come.
    ///
    /// # Errors
    /// [`ErrorKind::Truncated`] if the message is longer than `buffer`, which then has its beginning;
    /// [`ErrorKind::WrongType`] if it is no whole number of `T`; the sender has failed.
    ///
    /// # Panics
    /// As [`recv`](Communicator::recv).
    #[track_caller]
    pub fn recv_into<T: Plain>(
        &self,
        buffer: &mut [T],
        source: impl Into<Source>,
        tag: impl Into<TagMatch>,
    ) -> Result<Status> {
        let (source, tag) = (source.into().raw(), tag.into().raw());
        let done = lend_mut(buffer, |buffer| self.process.recv(&self.core, buffer, source, tag));
        whole::<T>("recv_into", Status::new(&settle("recv_into", done)?))
    }

    /// Sends and receives at the same time, so that ranks can exchange data without waiting for each other
    /// (MPI_Sendrecv).
    ///
    /// ```
    /// oxmpi::threads(3, |world| {
    ///     let (right, left) = ((world.rank() + 1) % 3, (world.rank() + 2) % 3);
    ///     let mut from_left = [0];
    ///     world.sendrecv(&[world.rank()], right, 0, &mut from_left, left, 0).unwrap();
    ///     assert_eq!(from_left, [left]);
    /// });
    /// ```
    ///
    /// # Errors
    /// As [`send`](Communicator::send) and [`recv_into`](Communicator::recv_into).
    ///
    /// # Panics
    /// As [`send`](Communicator::send) and [`recv`](Communicator::recv).
    #[track_caller]
    pub fn sendrecv<T: Plain, U: Plain>(
        &self,
        data: &[T],
        dest: impl Into<Dest>,
        send_tag: Tag,
        buffer: &mut [U],
        source: impl Into<Source>,
        receive_tag: impl Into<TagMatch>,
    ) -> Result<Status> {
        let _ = size_of_element::<T>();
        let (dest, source, receive_tag) = (dest.into().raw(), source.into().raw(), receive_tag.into().raw());
        let done = lend(data, |send| {
            lend_mut(buffer, |receive| {
                let send = Outgoing { buffer: send, dest, tag: send_tag };
                let receive = Incoming { buffer: receive, source, tag: receive_tag };
                self.process.sendrecv(&self.core, send, receive)
            })
        });
        let done = done.and_then(|done| error_of(&done).map_or(Ok(done), Err));
        whole::<U>("sendrecv", Status::new(&settle("sendrecv", done)?))
    }

    /// Waits until a message is there, and leaves it there (MPI_Probe).
    ///
    /// # Errors
    /// If the sender has failed.
    ///
    /// # Panics
    /// As [`recv`](Communicator::recv).
    #[track_caller]
    pub fn probe(&self, source: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Status> {
        let found = self.process.probe(&self.core, source.into().raw(), tag.into().raw());
        settle("probe", found).map(|c| Status::new(&c))
    }

    /// Looks whether a message is there (MPI_Iprobe).
    ///
    /// # Errors
    /// If the sender has failed.
    ///
    /// # Panics
    /// As [`recv`](Communicator::recv).
    #[track_caller]
    pub fn iprobe(&self, source: impl Into<Source>, tag: impl Into<TagMatch>) -> Result<Option<Status>> {
        let found = self.process.iprobe(&self.core, source.into().raw(), tag.into().raw());
        settle("iprobe", found).map(|c| c.map(|c| Status::new(&c)))
    }
}
