//! What may be wrong with what a peer has sent.

use super::record::Point;
use oxmpi_wire::WireError;

/// What a peer has sent makes no sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// No header of a record.
    #[error("the bytes that begin with {0:#018x} are no header of a record")]
    Header(u64),
    /// No zero where records are filled up with zeros.
    #[error("the byte {0:#04x} came where a record is filled up with zeros")]
    Padding(u8),
    /// Not the record that must come.
    #[error("record {number} from byte {start} came, not {records} from byte {bytes}")]
    Place {
        /// The number that must come.
        records: u64,
        /// The byte that must come.
        bytes: u32,
        /// The number that came.
        number: u64,
        /// The byte that came.
        start: u32,
    },
    /// A record too short for its frame.
    #[error("a record of {length} bytes has a frame of {frame}")]
    Length {
        /// Bytes of the record.
        length: u32,
        /// Bytes of the frame.
        frame: usize,
    },
    /// No whole record in an early message.
    #[error("an early message has {0} bytes that are not one whole record")]
    Early(usize),
    /// No frame.
    #[error(transparent)]
    Frame(#[from] WireError),
    /// A frame of another process, or of shared memory.
    #[error("a frame that only shared memory or another process sends")]
    Foreign,
    /// More than was written is acknowledged.
    #[error("{records} records are acknowledged, {written} were sent")]
    Acknowledged {
        /// Records acknowledged.
        records: u64,
        /// Records written.
        written: u64,
    },
    /// The point from which to go on cannot be.
    #[error("{point:?} is said to have come; the first record kept is {first}, and {written:?} was sent")]
    Resume {
        /// The point.
        point: Point,
        /// The first record that is kept.
        first: u64,
        /// Up to where was ever sent.
        written: Point,
    },
}
