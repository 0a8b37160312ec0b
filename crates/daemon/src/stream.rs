//! Non-blocking byte streams: between a head and an agent, or of a program that a daemon runs.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::io::Errno;
use rustix::net::{Shutdown, shutdown};

use crate::channel::{ChannelError, SecureChannel, StreamItem};
use oxmpi_rt_proto::agent::{self, StreamError};

const PIECE: usize = 64 << 10;

/// A stream with buffers for both directions.
#[derive(Debug)]
pub struct Stream {
    input: OwnedFd,
    output: OwnedFd,
    /// Encrypts a stream over TCP.
    sealed: Option<SecureChannel>,
    came: Vec<u8>,
    taken: usize,
    /// Whether the other side has ended its direction.
    has_ended: bool,
    waiting: Vec<u8>,
    written: usize,
    /// Whether this side's end was sent, and whether it is to be sent.
    is_finished: bool,
    is_to_finish: bool,
}

impl Stream {
    /// A stream that reads from one descriptor and writes to the other.
    pub fn new(input: OwnedFd, output: OwnedFd) -> io::Result<Stream> {
        for fd in [&input, &output] {
            fcntl_setfl(fd, fcntl_getfl(fd)? | OFlags::NONBLOCK)?;
        }
        Ok(Stream {
            input,
            output,
            sealed: None,
            came: Vec::new(),
            taken: 0,
            has_ended: false,
            waiting: Vec::new(),
            written: 0,
            is_finished: false,
            is_to_finish: false,
        })
    }

    /// A stream over one socket, or one end of a pipe; encrypted if there is a channel.
    pub fn over(socket: OwnedFd, sealed: Option<SecureChannel>) -> io::Result<Stream> {
        Ok(Stream { sealed, ..Stream::new(socket.try_clone()?, socket)? })
    }

    /// Readable when data come.
    pub fn input(&self) -> BorrowedFd<'_> {
        self.input.as_fd()
    }

    /// Writable when there is room.
    pub fn output(&self) -> BorrowedFd<'_> {
        self.output.as_fd()
    }

    /// Reads what is available. Returns whether the stream continues. An error also if encrypted
    /// data were changed or cut.
    pub fn read(&mut self) -> io::Result<bool> {
        self.came.drain(..self.taken);
        self.taken = 0;
        if self.has_ended {
            return Ok(false);
        }
        let old = self.came.len();
        self.came.reserve(PIECE);
        let read = rustix::io::read(&self.input, rustix::buffer::spare_capacity(&mut self.came));
        let came = match (read, &mut self.sealed) {
            (Ok(n), None) => return Ok(n > 0),
            (Ok(0), Some(_)) => Err(cut("it has ended before it should")),
            (Ok(n), Some(channel)) => {
                channel.feed(&self.came[old..old + n]);
                Ok(())
            }
            (Err(Errno::AGAIN | Errno::INTR), _) => Ok(()),
            (Err(error), None) => Err(error.into()),
            (Err(error), Some(_)) => Err(cut(&io::Error::from(error).to_string())),
        };
        self.came.truncate(old);
        came?;
        if let Some(channel) = &mut self.sealed {
            while let Some(piece) = channel.next_piece(&mut self.came).map_err(forged)? {
                self.has_ended |= piece == StreamItem::End;
            }
        }
        Ok(!self.has_ended)
    }

    /// The received bytes that are not consumed.
    pub fn came(&self) -> &[u8] {
        &self.came[self.taken..]
    }

    /// Consumes `bytes` bytes of them.
    pub fn take(&mut self, bytes: usize) -> &[u8] {
        let from = self.taken;
        self.taken += bytes;
        &self.came[from..self.taken]
    }

    /// Consumes the next message with its length in front, if it has come whole.
    pub fn next_frame(&mut self) -> Result<Option<&[u8]>, StreamError> {
        Ok(agent::next(self.came())?.map(|len| self.take(len)))
    }

    /// Sends bytes, at the next [`Stream::flush`] or when there is room.
    pub fn post(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
    }

    /// Ends this direction: the other side sees the end after all data.
    pub fn finish(&mut self) {
        self.is_to_finish = true;
        self.flush();
    }

    /// Writes without blocking. If the stream is broken, reading finds its end.
    pub fn flush(&mut self) {
        match &mut self.sealed {
            None => self.written += write(&self.output, &self.waiting[self.written..]),
            Some(channel) => loop {
                let sent = write(&self.output, channel.output());
                channel.sent(sent);
                // Encrypted data cannot be taken back, so encryption waits for room.
                let next = &self.waiting[self.written..];
                if !channel.output().is_empty() || next.is_empty() {
                    break;
                }
                let next = &next[..next.len().min(PIECE)];
                self.written += next.len();
                if channel.send_bytes(next).is_err() {
                    // A channel ends after 2^64 records.
                    self.written = self.waiting.len();
                    break;
                }
            },
        }
        if self.written == self.waiting.len() {
            self.waiting.clear();
            self.written = 0;
        } else if self.written > self.waiting.len() / 2 {
            self.waiting.drain(..self.written);
            self.written = 0;
        }
        if self.is_to_finish && !self.is_finished && self.waiting.is_empty() {
            self.is_finished = true;
            match &mut self.sealed {
                // Fails if the other side is gone, which then needs no end.
                None => _ = shutdown(&self.output, Shutdown::Write),
                Some(channel) => {
                    if channel.send_end().is_ok() {
                        self.flush();
                    }
                }
            }
        }
    }

    /// Whether data wait for room.
    pub fn is_behind(&self) -> bool {
        !self.waiting.is_empty()
            || self.sealed.as_ref().is_some_and(|channel| !channel.output().is_empty())
    }

    /// The number of bytes that wait for room.
    pub fn behind(&self) -> usize {
        self.waiting.len() - self.written
    }
}

/// Writes without blocking; on an error all bytes count as written.
fn write(to: &OwnedFd, bytes: &[u8]) -> usize {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::write(to, &bytes[written..]) {
            Ok(n) => written += n,
            Err(Errno::INTR) => {}
            Err(Errno::AGAIN) => break,
            Err(_) => written = bytes.len(),
        }
    }
    written
}

fn cut(why: &str) -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, format!("the connection was cut: {why}"))
}

fn forged(error: ChannelError) -> io::Error {
    let text = format!("data from the network were changed on the way: {error}");
    io::Error::new(io::ErrorKind::InvalidData, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_rt_proto::daemon::DaemonMessage;
    use oxmpi_wire::Secret;
    use std::os::unix::net::UnixStream;

    fn sealed() -> (Stream, Stream) {
        let secret = Secret([1; 32]);
        let (mut a, mut b) =
            (SecureChannel::initiator(&secret, 0).unwrap(), SecureChannel::acceptor(&secret, 0));
        a.send(&DaemonMessage::Ask).unwrap();
        let carry = |from: &mut SecureChannel, to: &mut SecureChannel| {
            to.feed(from.output());
            from.sent(from.output().len());
            to.next_message().unwrap()
        };
        carry(&mut a, &mut b);
        carry(&mut b, &mut a);
        assert_eq!(carry(&mut a, &mut b), Some(DaemonMessage::Ask));
        let (ours, theirs) = UnixStream::pair().unwrap();
        let over =
            |socket: UnixStream, channel| Stream::over(socket.into(), Some(channel)).unwrap();
        (over(ours, a), over(theirs, b))
    }

    #[test]
    fn more_data_than_room_arrive_complete_with_their_end() {
        let (mut a, mut b) = sealed();
        let bytes: Vec<u8> = (0..5_000_000u32).map(|i| (i / 3) as u8).collect();
        a.post(&bytes);
        a.finish();
        assert!(a.is_behind() && a.behind() > 0);
        let mut came = Vec::new();
        loop {
            a.flush();
            let goes_on = b.read().unwrap();
            let n = b.came().len();
            came.extend_from_slice(b.take(n));
            if !goes_on {
                break;
            }
        }
        assert!(came == bytes && !a.is_behind());
        // The other direction continues.
        b.post(b"word");
        b.flush();
        assert!(a.read().unwrap());
        assert_eq!(a.came(), b"word");
        assert!(!b.read().unwrap(), "it stays ended");
    }

    #[test]
    fn a_stream_that_is_cut_has_no_end() {
        let (mut a, mut b) = sealed();
        a.post(b"word");
        a.flush();
        drop(a);
        assert!(b.read().unwrap());
        assert_eq!(b.came(), b"word");
        assert_eq!(b.read().unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }

    #[test]
    fn bytes_of_another_sender_are_refused() {
        let (a, mut b) = sealed();
        rustix::io::write(a.output(), &[0, 1, 0].repeat(100)).unwrap();
        assert_eq!(b.read().unwrap_err().kind(), io::ErrorKind::InvalidData);
        assert!(b.came().is_empty());
    }
}
