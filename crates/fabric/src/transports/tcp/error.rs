use super::record::Point;
use oxmpi_wire::WireError;

/// An error in the data of a peer, which ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("the bytes that begin with {0:#018x} are no header of a record")]
    Header(u64),
    #[error("the byte {0:#04x} came in the padding of a record, which is zeros")]
    Padding(u8),
    #[error("record {number} from byte {start} came, not {records} from byte {bytes}")]
    Place {
        /// The expected number.
        records: u64,
        /// The expected first byte.
        bytes: u32,
        number: u64,
        start: u32,
    },
    #[error("a record of {length} bytes has a frame of {frame}")]
    Length { length: u32, frame: usize },
    #[error("an early message has {0} bytes that are not one whole record")]
    Early(usize),
    #[error(transparent)]
    Frame(#[from] WireError),
    #[error("a frame that only shared memory or another process sends")]
    Foreign,
    #[error("{records} records are acknowledged, {written} were sent")]
    Acknowledged { records: u64, written: u64 },
    #[error(
        "{point:?} is stated as received; the first retained record is {first}, and {written:?} was sent"
    )]
    Resume {
        point: Point,
        first: u64,
        /// The end of all records ever sent.
        written: Point,
    },
}
