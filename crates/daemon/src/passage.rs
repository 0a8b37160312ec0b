//! Forwards between an encrypted connection over the network and a socket that is a standard stream
//! of a program.
//!
//! Neither side blocks, and a side is not read while its earlier data have no room on the other
//! side: so a program or client that does not read slows down the writer, as with one socket
//! between them. The ends of the two directions are forwarded separately. A connection that ends
//! without an end mark was cut.

use std::io;
use std::os::fd::OwnedFd;

use oxmpi_sys::net::Socket;
use oxmpi_sys::poller::Interest;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown,
    socketpair,
};

use super::channel::{SecureChannel, StreamItem};

const PIECE: usize = 32 << 10;
const MAX_WAITING: usize = 128 << 10;
/// Reads of one side before other events are served.
const ROUNDS: usize = 8;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FlowState {
    Open,
    /// The end has come, and follows the waiting data.
    Ending,
    Ended,
    /// The reader is gone: data are dropped.
    Deaf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passing {
    On,
    /// All output of the program was sent, and the client is gone.
    Over,
}

#[derive(Debug)]
pub(super) struct Passage {
    pub(super) of: u64,
    program: OwnedFd,
    /// Data from the network; the first `given` bytes are sent to the program.
    came: Vec<u8>,
    given: usize,
    to_program: FlowState,
    to_client: FlowState,
}

impl Passage {
    pub(super) fn new(of: u64) -> io::Result<(Passage, OwnedFd)> {
        let (program, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let (came, given) = (Vec::new(), 0);
        Ok((
            Passage {
                of,
                program,
                came,
                given,
                to_program: FlowState::Open,
                to_client: FlowState::Open,
            },
            theirs,
        ))
    }

    pub(super) fn program(&self) -> &OwnedFd {
        &self.program
    }

    /// The poll interests for the network and for the program.
    pub(super) fn interests(&self, channel: &SecureChannel) -> [Interest; 2] {
        let has_room = self.waiting() < MAX_WAITING;
        // After the end of the client's direction too: the client may go.
        let client = Interest { read: has_room, write: !channel.output().is_empty() };
        let program = Interest {
            read: self.to_client == FlowState::Open && channel.output().len() < MAX_WAITING,
            write: self.waiting() > 0,
        };
        [client, program]
    }

    fn waiting(&self) -> usize {
        self.came.len() - self.given
    }

    /// Forwards available data in both directions. An error if the connection is broken or cut, or
    /// its data are not authentic.
    pub(super) fn pass(
        &mut self,
        socket: &Socket,
        channel: &mut SecureChannel,
    ) -> Result<Passing, String> {
        let mut bytes = [0; PIECE];
        for _ in 0..ROUNDS {
            let from_client = self.read_client(socket, channel, &mut bytes)?;
            self.give();
            let from_program = self.read_program(channel, &mut bytes)?;
            let is_sent = self.send_output(socket, channel);
            if let Err(error) = is_sent {
                return if self.is_finished(channel) {
                    Ok(Passing::Over)
                } else {
                    Err(error.to_string())
                };
            }
            match from_client {
                ReadOutcome::Gone => return Ok(Passing::Over),
                ReadOutcome::Nothing if from_program == ReadOutcome::Nothing => break,
                _ => {}
            }
        }
        Ok(Passing::On)
    }

    /// Forwards the program's remaining output without blocking; returns whether all is sent.
    pub(super) fn pass_last(&mut self, socket: &Socket, channel: &mut SecureChannel) -> bool {
        let mut bytes = [0; PIECE];
        loop {
            let read = self.read_program(channel, &mut bytes);
            if self.send_output(socket, channel).is_err()
                || read.is_err()
                || self.is_finished(channel)
            {
                return true;
            }
            if read == Ok(ReadOutcome::Nothing) {
                return false;
            }
        }
    }

    fn is_finished(&self, channel: &SecureChannel) -> bool {
        self.to_client == FlowState::Ended && channel.output().is_empty()
    }

    fn read_client(
        &mut self,
        socket: &Socket,
        channel: &mut SecureChannel,
        bytes: &mut [u8],
    ) -> Result<ReadOutcome, String> {
        if self.waiting() >= MAX_WAITING {
            return Ok(ReadOutcome::Nothing);
        }
        let outcome = match socket.receive(bytes) {
            Ok(0) => ReadOutcome::Gone,
            Ok(n) => {
                channel.feed(&bytes[..n]);
                ReadOutcome::Something
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => ReadOutcome::Nothing,
            Err(_) if self.is_finished(channel) => ReadOutcome::Gone,
            Err(error) => return Err(error.to_string()),
        };
        while let Some(piece) =
            channel.next_piece(&mut self.came).map_err(|error| error.to_string())?
        {
            if (piece, self.to_program) == (StreamItem::End, FlowState::Open) {
                self.to_program = FlowState::Ending;
            }
        }
        if outcome == ReadOutcome::Gone && !self.is_finished(channel) {
            return Err("it was cut before its end".into());
        }
        Ok(outcome)
    }

    fn give(&mut self) {
        while self.waiting() > 0 && self.to_program != FlowState::Deaf {
            let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
            match send(&self.program, &self.came[self.given..], flags) {
                Ok(n) => self.given += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    if self.given > self.came.len() / 2 {
                        self.came.drain(..self.given);
                        self.given = 0;
                    }
                    return;
                }
                // The program has closed its end, or has ended.
                Err(_) => self.to_program = FlowState::Deaf,
            }
        }
        self.came.clear();
        self.given = 0;
        if self.to_program == FlowState::Ending {
            let _ = shutdown(&self.program, Shutdown::Write);
            self.to_program = FlowState::Ended;
        }
    }

    fn read_program(
        &mut self,
        channel: &mut SecureChannel,
        bytes: &mut [u8],
    ) -> Result<ReadOutcome, String> {
        if self.to_client != FlowState::Open || channel.output().len() >= MAX_WAITING {
            return Ok(ReadOutcome::Nothing);
        }
        let encrypted = match recv(&self.program, &mut *bytes, RecvFlags::DONTWAIT) {
            Ok((n, _)) if n > 0 => channel.send_bytes(&bytes[..n]),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(ReadOutcome::Nothing),
            // A program that ends with unread input resets its stream: that is its end too.
            Ok(_) | Err(_) => {
                self.to_client = FlowState::Ended;
                channel.send_end()
            }
        };
        encrypted.map(|()| ReadOutcome::Something).map_err(|error| error.to_string())
    }

    /// Sends encrypted data while there is room.
    fn send_output(&self, socket: &Socket, channel: &mut SecureChannel) -> io::Result<()> {
        while !channel.output().is_empty() {
            match socket.send_bytes(channel.output()) {
                Ok(n) => channel.sent(n),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadOutcome {
    Something,
    Nothing,
    Gone,
}
