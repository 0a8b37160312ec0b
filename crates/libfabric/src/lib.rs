//! libfabric (Open Fabrics Interfaces), opened when a program runs, and its messages with and without tags behind safe functions.
//!
//! Nothing of libfabric is needed to build OxMPI, nor to run it where no job goes over it. A [`Library`] is opened by name; it lists
//! the [`Provider`]s of the machine that match messages by tag; an [`Endpoint`] of one of them sends and receives.
//!
//! The memory of a message belongs to its operation until libfabric says that it is over: an [`Endpoint`] holds the buffer ([`UserBuf`], or a
//! copy of it if its data do not lie in one piece) together with the context that libfabric fills in. So nothing dangles, whoever
//! forgets what. Which tag means what is for the caller to say: here are no messages of MPI.
//!
//! [`declarations`] has what libfabric's own pages say; it is the only unsafe foreign interface here.

mod declarations;
mod endpoint;
mod library;

pub use endpoint::{
    Admission, Claimed, Ended, Ending, Endpoint, EndpointError, FrameBody, FrameRoom, Label, PeerAddress,
    ShortSend, TagFilter,
};
pub use library::{Library, Provider, ProviderQuery};
#[cfg(doc)]
use oxmpi_mem::buffer::UserBuf;
