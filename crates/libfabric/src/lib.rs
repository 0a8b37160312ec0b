//! Safe functions for the tagged and untagged messages of libfabric (Open Fabrics Interfaces).
//!
//! The library is loaded at run time: OxMPI builds without it, and runs without it unless a job
//! uses it. A [`Library`] lists the [`Provider`]s of the machine that match messages by tag. An
//! [`Endpoint`] of a provider sends and receives. The caller defines the bits of a tag.
//!
//! An [`Endpoint`] holds the memory of each operation until libfabric reports its completion: the
//! [`UserBuf`], or a copy if the data are not contiguous, and the context that libfabric uses. A
//! caller that drops its own buffer early therefore leaves no dangling pointer.
//!
//! [`declarations`] has the foreign interface.

mod declarations;
mod endpoint;
mod library;

pub use endpoint::{
    Admission, Claimed, Ended, Ending, Endpoint, EndpointError, FrameBody, FrameRoom, Label,
    PeerAddress, ShortSend, TagFilter,
};
pub use library::{Library, Provider, ProviderQuery};
#[cfg(doc)]
use oxmpi_mem::buffer::UserBuf;
