//! The standard input of ranks, as far as the head sends it.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::epoll;
use rustix::io::Errno;

/// Whether a rank gets further input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum InputState {
    Open,
    /// It has all of it.
    Complete,
    /// It reads no more.
    Closed,
}

/// The pipe of a rank, and the bytes that wait for room in it.
#[derive(Debug)]
pub(super) struct Input {
    pipe: OwnedFd,
    waiting: Vec<u8>,
    has_ended: bool,
    /// Whether the pipe is polled for room.
    is_polled: bool,
}

impl Input {
    /// `pipe` is the non-blocking write end.
    pub(super) fn new(pipe: OwnedFd) -> Input {
        Input { pipe, waiting: Vec::new(), has_ended: false, is_polled: false }
    }

    /// The pipe, and the bytes that are not written yet.
    pub(super) fn left(&self) -> (BorrowedFd<'_>, &[u8]) {
        (self.pipe.as_fd(), &self.waiting)
    }

    /// Takes further bytes; none: the end.
    pub(super) fn take(&mut self, bytes: &[u8]) {
        self.waiting.extend_from_slice(bytes);
        self.has_ended |= bytes.is_empty();
    }

    /// Writes what the pipe has room for, and has `events` poll it for more under this name.
    /// Returns the number of bytes that the rank has got.
    pub(super) fn write(&mut self, events: &OwnedFd, name: u64) -> (u64, InputState) {
        let (mut written, mut is_broken) = (0, false);
        while written < self.waiting.len() {
            match rustix::io::write(&self.pipe, &self.waiting[written..]) {
                Ok(n) => written += n,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => break,
                Err(_) => {
                    is_broken = true;
                    break;
                }
            }
        }
        self.waiting.drain(..written);
        let is_over = is_broken || (self.has_ended && self.waiting.is_empty());
        let wants_room = !is_over && !self.waiting.is_empty();
        if wants_room != self.is_polled {
            let data = epoll::EventData::new_u64(name);
            let _ = match wants_room {
                true => epoll::add(events, &self.pipe, data, epoll::EventFlags::OUT),
                false => epoll::delete(events, &self.pipe),
            };
            self.is_polled = wants_room;
        }
        let state = match is_over {
            true if is_broken => InputState::Closed,
            true => InputState::Complete,
            false => InputState::Open,
        };
        (written as u64, state)
    }
}
