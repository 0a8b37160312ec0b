//! Errors in the data of a peer.

use super::record::Point;
use oxmpi_wire::WireError;

/// An error in the data of a peer, which ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No header of a record.
    #[error("the bytes that begin with {0:#018x} are no header of a record")]
    Header(u64),
    /// A byte of the padding is not zero.
    #[error("the byte {0:#04x} came where a record is filled up with zeros")]
    Padding(u8),
    /// Not the record that must come next.
    #[error("record {number} from byte {start} came, not {records} from byte {bytes}")]
    Place {
        /// The number that must come.
        records: u64,
        /// The byte that must come.
        bytes: u32,
        number: u64,
        start: u32,
    },
    /// A record too short for its frame.
    #[error("a record of {length} bytes has a frame of {frame}")]
    Length { length: u32, frame: usize },
    /// An early message without a complete record.
    #[error("an early message has {0} bytes that are not one whole record")]
    Early(usize),
    /// No frame.
    #[error(transparent)]
    Frame(#[from] WireError),
    /// A frame of another process, or of shared memory.
    #[error("a frame that only shared memory or another process sends")]
    Foreign,
    /// More records are acknowledged than were written.
    #[error("{records} records are acknowledged, {written} were sent")]
    Acknowledged { records: u64, written: u64 },
    /// Impossible point from which to continue.
    #[error("{point:?} is said to have come; the first record kept is {first}, and {written:?} was sent")]
    Resume {
        point: Point,
        /// The first retained record.
        first: u64,
        /// The end of everything that was ever sent.
        written: Point,
    },
}
