//! Messages over a pair of descriptors, none of which may be waited for.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;

use super::message::{self, StreamError};

/// Bytes that one read takes at most.
const PIECE: usize = 64 << 10;

/// Bytes that come, and bytes that go as soon as there is room.
#[derive(Debug)]
pub(crate) struct Stream {
    input: OwnedFd,
    output: OwnedFd,
    came: Vec<u8>,
    /// How much of `came` was taken.
    taken: usize,
    waiting: Vec<u8>,
    /// How much of `waiting` was written.
    written: usize,
}

impl Stream {
    /// A stream that reads from one descriptor and writes to the other.
    ///
    /// # Errors
    /// What fcntl(2) says.
    pub(crate) fn new(input: OwnedFd, output: OwnedFd) -> io::Result<Stream> {
        for fd in [&input, &output] {
            fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
        }
        Ok(Stream { input, output, came: Vec::new(), taken: 0, waiting: Vec::new(), written: 0 })
    }

    pub(crate) fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    pub(crate) fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Reads some of what is there. Whether the stream goes on.
    ///
    /// # Errors
    /// What read(2) says, but that there is nothing.
    pub(crate) fn read(&mut self) -> io::Result<bool> {
        self.came.drain(..self.taken);
        self.taken = 0;
        let old = self.came.len();
        self.came.resize(old + PIECE, 0);
        let read = rustix::io::read(&self.input, &mut self.came[old..]);
        self.came.truncate(old + read.unwrap_or(0));
        match read {
            Ok(n) => Ok(n > 0),
            Err(Errno::AGAIN | Errno::INTR) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// What has come and was not taken.
    pub(crate) fn came(&self) -> &[u8] {
        &self.came[self.taken..]
    }

    /// Takes so many bytes of it.
    pub(crate) fn take(&mut self, bytes: usize) -> &[u8] {
        let from = self.taken;
        self.taken += bytes;
        &self.came[from..self.taken]
    }

    /// The next message that has come whole, with its length.
    ///
    /// # Errors
    /// There can be none of this length.
    pub(crate) fn next(&mut self) -> Result<Option<&[u8]>, StreamError> {
        Ok(message::next(self.came())?.map(|len| self.take(len)))
    }

    /// Sends bytes, with the next [`Stream::flush`] or when there is room.
    pub(crate) fn post(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// Writes as much as there is room for. Of a stream that is broken the end is read.
    pub(crate) fn flush(&mut self) {
        while self.written < self.waiting.len() {
            match rustix::io::write(&self.output, &self.waiting[self.written..]) {
                Ok(n) => self.written += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => self.written = self.waiting.len(),
            }
        }
        if self.written == self.waiting.len() {
            self.waiting.clear();
            self.written = 0;
        } else if self.written > PIECE {
            self.waiting.drain(..self.written);
            self.written = 0;
        }
    }

    /// Whether something waits for room.
    pub(crate) fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
    }
}
