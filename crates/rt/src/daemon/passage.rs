//! What passes between a connection over the network, which is encrypted, and a socket that is a standard stream of a program.
//!
//! Neither side waits, and neither is read while what it has said before still has no room on the other: so a program that does not
//! read, or a client, slows down who writes to it, as if there were one socket between them. The end of each direction is passed on
//! by itself. A connection that ends before it has said so was cut.

use std::io;
use std::os::fd::OwnedFd;

use oxmpi_sys::net::Socket;
use oxmpi_sys::poller::Interest;
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, recv, send, shutdown, socketpair,
};

use super::channel::{Channel, Piece};

/// Bytes that one read takes at most.
const PIECE: usize = 32 << 10;
/// Bytes that wait for room on one side, beyond which the other is not read.
const MAX_WAITING: usize = 128 << 10;
/// Reads of a side before others have their turn.
const ROUNDS: usize = 8;

/// How a direction goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// More may come.
    Open,
    /// Its end has come, and is to be sent behind what came before.
    Ending,
    /// Its end was sent.
    Ended,
    /// Nobody reads it any more: what comes is dropped.
    Deaf,
}

/// Whether a passage goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passing {
    /// It does.
    On,
    /// All that the program has written was taken, and the client has gone.
    Over,
}

/// The daemon's end of a stream of a program.
#[derive(Debug)]
pub(super) struct Passage {
    /// The control connection to which the program belongs.
    pub(super) of: u64,
    program: OwnedFd,
    /// What has come over the network, and how much of it the program was given.
    came: Vec<u8>,
    given: usize,
    to_program: Way,
    to_client: Way,
}

impl Passage {
    /// A new one, and the end of it that is to be the program's: a socket that blocks.
    ///
    /// # Errors
    /// What socketpair(2) says.
    pub(super) fn new(of: u64) -> io::Result<(Passage, OwnedFd)> {
        let (program, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let (came, given) = (Vec::new(), 0);
        Ok((Passage { of, program, came, given, to_program: Way::Open, to_client: Way::Open }, theirs))
    }

    pub(super) fn program(&self) -> &OwnedFd {
        &self.program
    }

    /// For what the network is to be waited, and the program.
    pub(super) fn interests(&self, channel: &Channel) -> [Interest; 2] {
        let has_room = self.waiting() < MAX_WAITING;
        // After its end, too: it may go.
        let client = Interest { read: has_room, write: !channel.output().is_empty() };
        let program = Interest {
            read: self.to_client == Way::Open && channel.output().len() < MAX_WAITING,
            write: self.waiting() > 0,
        };
        [client, program]
    }

    fn waiting(&self) -> usize {
        self.came.len() - self.given
    }

    /// Passes on what there is, in both directions.
    ///
    /// # Errors
    /// If the connection is broken, was cut, or somebody else speaks there.
    pub(super) fn pass(&mut self, socket: &Socket, channel: &mut Channel) -> Result<Passing, String> {
        let mut bytes = [0; PIECE];
        for _ in 0..ROUNDS {
            let from_client = self.hear_client(socket, channel, &mut bytes)?;
            self.give();
            let from_program = self.hear_program(channel, &mut bytes)?;
            let is_taken = self.tell(socket, channel);
            if let Err(error) = is_taken {
                return if self.is_told(channel) { Ok(Passing::Over) } else { Err(error.to_string()) };
            }
            match from_client {
                Heard::Gone => return Ok(Passing::Over),
                Heard::Nothing if from_program == Heard::Nothing => break,
                _ => {}
            }
        }
        Ok(Passing::On)
    }

    /// Passes on what the program has left, and no more than there is room for. Whether all is sent.
    pub(super) fn pass_last(&mut self, socket: &Socket, channel: &mut Channel) -> bool {
        let mut bytes = [0; PIECE];
        loop {
            let heard = self.hear_program(channel, &mut bytes);
            if self.tell(socket, channel).is_err() || heard.is_err() || self.is_told(channel) {
                return true;
            }
            if heard == Ok(Heard::Nothing) {
                return false;
            }
        }
    }

    /// Whether the client has all that the program has written, and its end.
    fn is_told(&self, channel: &Channel) -> bool {
        self.to_client == Way::Ended && channel.output().is_empty()
    }

    fn hear_client(
        &mut self,
        socket: &Socket,
        channel: &mut Channel,
        bytes: &mut [u8],
    ) -> Result<Heard, String> {
        if self.waiting() >= MAX_WAITING {
            return Ok(Heard::Nothing);
        }
        let heard = match socket.receive(bytes) {
            Ok(0) => Heard::Gone,
            Ok(n) => {
                channel.feed(&bytes[..n]);
                Heard::Something
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Heard::Nothing,
            Err(_) if self.is_told(channel) => Heard::Gone,
            Err(error) => return Err(error.to_string()),
        };
        while let Some(piece) = channel.next_piece(&mut self.came).map_err(|error| error.to_string())? {
            if (piece, self.to_program) == (Piece::End, Way::Open) {
                self.to_program = Way::Ending;
            }
        }
        if heard == Heard::Gone && !self.is_told(channel) {
            return Err("it was cut before its end was said".into());
        }
        Ok(heard)
    }

    /// Gives the program what there is room for.
    fn give(&mut self) {
        while self.waiting() > 0 && self.to_program != Way::Deaf {
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
                // It has closed its end, or ended.
                Err(_) => self.to_program = Way::Deaf,
            }
        }
        self.came.clear();
        self.given = 0;
        if self.to_program == Way::Ending {
            // It fails if the program has ended.
            let _ = shutdown(&self.program, Shutdown::Write);
            self.to_program = Way::Ended;
        }
    }

    fn hear_program(&mut self, channel: &mut Channel, bytes: &mut [u8]) -> Result<Heard, String> {
        if self.to_client != Way::Open || channel.output().len() >= MAX_WAITING {
            return Ok(Heard::Nothing);
        }
        let encrypted = match recv(&self.program, &mut *bytes, RecvFlags::DONTWAIT) {
            Ok((n, _)) if n > 0 => channel.send_bytes(&bytes[..n]),
            Err(Errno::AGAIN | Errno::INTR) => return Ok(Heard::Nothing),
            // One that ends with input unread resets its stream: that is its end.
            Ok(_) | Err(_) => {
                self.to_client = Way::Ended;
                channel.send_end()
            }
        };
        encrypted.map(|()| Heard::Something).map_err(|error| error.to_string())
    }

    /// Sends what there is room for.
    fn tell(&self, socket: &Socket, channel: &mut Channel) -> io::Result<()> {
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

/// What one side has said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Heard {
    Something,
    Nothing,
    /// It has closed the connection.
    Gone,
}
