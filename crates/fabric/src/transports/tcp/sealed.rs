//! An encrypted connection: records of `oxmpi_wire::noise` carry the bytes of an unencrypted
//! connection.
//!
//! The bytes of the link are sealed in batches of up to [`BATCH`] bytes, each when the kernel has
//! the batch before. The content of a sealed record counts as written when the kernel has all its
//! bytes: before, the peer can open nothing of it, and after that the peer may acknowledge it. So
//! at most one batch of sealed bytes waits here, and the engine knows of it.
//!
//! Received bytes are opened record by record. An incomplete record is buffered until the poller
//! reports the rest.

use super::peer::ConnectionFailure;
use super::{BUFFER, Pieces, RecordError};
use oxmpi_sys::net::Socket;
use oxmpi_wire::noise::{Cipher, MAX_RECORD, NoiseError, RECORD_HEAD, TAG};
use std::io::{self, ErrorKind};

/// The bytes of a sealed record: they stay in the processor's first cache (a record of 64 KiB takes
/// a third more time for each byte, measured on AMD EPYC family 25 model 17).
const CARRIED: usize = 16 << 10;
const BATCH: usize = 4 * CARRIED;
/// The bytes of the longest record that this side sends, and of the longest that it receives.
const SENT: usize = RECORD_HEAD + CARRIED + TAG;
const LONGEST: usize = RECORD_HEAD + MAX_RECORD + TAG;
const _: () = assert!(LONGEST < BUFFER && CARRIED <= MAX_RECORD);

#[derive(Debug)]
pub(super) struct Sealed {
    socket: Socket,
    cipher: Box<Cipher>,
    /// Sealed records, and the number of their bytes that the kernel has.
    out: Vec<u8>,
    sent: usize,
    /// The number of plain bytes in them, and the number of these that count as written.
    carried: usize,
    written: usize,
    came: Vec<u8>,
}

impl Sealed {
    pub(super) fn new(socket: Socket, cipher: Box<Cipher>) -> Sealed {
        Sealed {
            socket,
            cipher,
            out: Vec::new(),
            sent: 0,
            carried: 0,
            written: 0,
            came: Vec::new(),
        }
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }

    pub(super) fn socket_mut(&mut self) -> &mut Socket {
        &mut self.socket
    }

    pub(super) fn is_sent(&self) -> bool {
        self.sent == self.out.len()
    }

    /// Seals the first bytes of the pieces, as many as a batch holds. Everything before must be
    /// sent. `plain` is scratch memory. Fails if the keys are used up.
    pub(super) fn seal(
        &mut self,
        pieces: &Pieces<'_>,
        plain: &mut Vec<u8>,
    ) -> Result<(), NoiseError> {
        debug_assert!(self.is_sent());
        plain.clear();
        for piece in pieces.as_slice() {
            let room = BATCH - plain.len();
            piece.slice(0, piece.len().min(room)).append_to(plain);
        }
        self.out.clear();
        (self.sent, self.carried, self.written) = (0, plain.len(), 0);
        plain.chunks(CARRIED).try_for_each(|record| self.cipher.seal(record, &mut self.out))
    }

    /// Returns the number of further bytes that count as written.
    pub(super) fn send(&mut self) -> io::Result<usize> {
        self.sent += self.socket.send_bytes(&self.out[self.sent..])?;
        let written = if self.is_sent() { self.carried } else { self.sent / SENT * CARRIED };
        Ok(written - std::mem::replace(&mut self.written, written))
    }

    /// Receives into `buffer`, and hands the content of each complete record to `take`. Returns
    /// whether more data may wait; `None`: nothing has arrived.
    pub(super) fn receive(
        &mut self,
        buffer: &mut [u8],
        plain: &mut Vec<u8>,
        mut take: impl FnMut(&[u8]) -> Result<(), RecordError>,
    ) -> Result<Option<bool>, ConnectionFailure> {
        let have = self.came.len();
        let came = match self.socket.receive(&mut buffer[have..]) {
            Ok(0) => return Err(ConnectionFailure::closed()),
            Ok(came) => came,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        buffer[..have].copy_from_slice(&self.came);
        let is_full = have + came == buffer.len();
        let mut rest = &buffer[..have + came];
        loop {
            plain.clear();
            let Some(opened) = self.cipher.open(rest, plain)? else { break };
            take(plain)?;
            rest = &rest[opened..];
        }
        self.came.clear();
        self.came.extend_from_slice(rest);
        Ok(Some(is_full))
    }
}
