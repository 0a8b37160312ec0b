//! An encrypted connection until its owner makes a stream of it, on both sides.

use std::io;
use std::net::SocketAddr;
use std::os::fd::AsFd as _;
use std::time::{Duration, Instant};

use oxmpi_sys::net::{self, Socket};
use oxmpi_wire::Secret;
use rustix::event::{PollFd, PollFlags};

use super::lifeline::HEAD;
use crate::polling::wait_for;
use oxmpi_daemon::channel::SecureChannel;
use oxmpi_daemon::stream::Stream;
use oxmpi_rt_proto::daemon::{DaemonMessage, Purpose};

/// The limit for one attempt to connect, so that an address without answers leaves time for the
/// next one.
const CONNECTING: Duration = Duration::from_secs(3);

/// A socket and the channel over it.
#[derive(Debug)]
pub(crate) struct EncryptedSocket {
    pub(crate) socket: Socket,
    pub(crate) channel: SecureChannel,
}

impl EncryptedSocket {
    /// Sends as much as the socket has room for.
    fn flush(&mut self) -> io::Result<()> {
        while !self.channel.output().is_empty() {
            match self.socket.send_bytes(self.channel.output()) {
                Ok(sent) => self.channel.sent(sent),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Takes the bytes that the channel wants next; returns whether any came.
    fn receive(&mut self) -> io::Result<bool> {
        let mut bytes = [0; 512];
        let wanted = self.channel.wanted().min(bytes.len());
        match self.socket.receive(&mut bytes[..wanted]) {
            Ok(0) => Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                self.channel.feed(&bytes[..n]);
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The next message, if it has come. The bytes behind it stay in the socket, for the stream.
    pub(crate) fn next(&mut self) -> io::Result<Option<DaemonMessage>> {
        loop {
            let message = self.channel.next_message().map_err(io::Error::other)?;
            // The socket always has room for the answer to a greeting.
            self.flush()?;
            if message.is_some() || !self.receive()? {
                return Ok(message);
            }
        }
    }

    /// Sends the first message of this side, for which the socket always has room.
    pub(crate) fn send(&mut self, message: &DaemonMessage) -> io::Result<()> {
        self.channel.send(message).map_err(io::Error::other)?;
        self.flush()
    }

    /// The stream over the connection. It ends when the other host has not answered for `silence`,
    /// or has no room for data in this time; `None`: it never ends so.
    pub(crate) fn into_stream(self, silence: Option<Duration>) -> io::Result<Stream> {
        silence.map_or(Ok(()), |time| net::end_when_unanswered(&self.socket, time))?;
        Stream::over(self.socket.as_fd().try_clone_to_owned()?, Some(self.channel))
    }

    /// Connects with a head, sends `preamble` in plain and `purpose` encrypted, and waits until
    /// `until` at most for the proof that the head knows the secret.
    pub(crate) fn dial(
        address: SocketAddr,
        preamble: &[u8],
        secret: &Secret,
        purpose: &Purpose,
        until: Instant,
    ) -> io::Result<EncryptedSocket> {
        let socket = Socket::connect(address, None)?;
        wait(&socket, PollFlags::OUT, until.min(Instant::now() + CONNECTING))?;
        socket.outcome()?;
        // A new connection has room for more bytes than these.
        if socket.send_bytes(preamble)? < preamble.len() {
            return Err(io::ErrorKind::WriteZero.into());
        }
        let channel = SecureChannel::initiator(secret, HEAD).map_err(io::Error::other)?;
        let mut dialed = EncryptedSocket { socket, channel };
        dialed.send(&DaemonMessage::Purpose(purpose.clone()))?;
        while !dialed.channel.is_open() {
            if !dialed.receive()? {
                wait(&dialed.socket, PollFlags::IN, until)?;
            }
            // The head sends nothing but its greeting yet.
            dialed.channel.next_message().map_err(io::Error::other)?;
            dialed.flush()?;
        }
        Ok(dialed)
    }

    /// Waits until `until` at most for the next message.
    pub(crate) fn await_next(&mut self, until: Instant) -> io::Result<DaemonMessage> {
        loop {
            if let Some(message) = self.next()? {
                return Ok(message);
            }
            wait(&self.socket, PollFlags::IN, until)?;
        }
    }
}

fn wait(socket: &Socket, flags: PollFlags, until: Instant) -> io::Result<()> {
    let left = until.saturating_duration_since(Instant::now());
    match wait_for(&mut [PollFd::new(socket, flags)], Some(left))? {
        true => Err(io::ErrorKind::TimedOut.into()),
        false => Ok(()),
    }
}
