//! The streams of programs: connections that wait for their program, and those that are passed on.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use oxmpi_sys::net;
use oxmpi_sys::poller::Interest;

use super::super::message::{Exec, Message};
use super::super::passage::{Passage, Passing};
use super::super::programs::Failure;
use super::{Connection, Daemon, Held, Link, PROGRAM, Role};

impl Daemon {
    /// Our answer is out: from now on its bytes are a program's.
    pub(super) fn become_stream(&mut self, number: u64, of: u64, stream: u32) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        self.poller.remove(&connection.link);
        if connection.channel.has_input() {
            // It has not waited for the answer.
            self.connections.remove(&number);
            return;
        }
        let held = match connection.link {
            Link::Near(_) => match self.connections.remove(&number) {
                Some(Connection { link: Link::Near(socket), .. }) => Held::Near(socket),
                _ => return,
            },
            Link::Far(_) => {
                (connection.role, connection.limit) = (Role::Held(of, stream), None);
                Held::Far(number)
            }
        };
        match self.connections.get_mut(&of) {
            Some(Connection { role: Role::Control(streams), .. }) => _ = streams.insert(stream, held),
            _ => self.drop_stream(held),
        }
    }

    pub(super) fn exec(&mut self, number: u64, exec: &Exec) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let Role::Control(streams) = &mut connection.role else { return };
        let held = (streams.remove(&exec.stdio), streams.remove(&exec.errors));
        if let Link::Far(socket) = &connection.link {
            // Where the kernel does not know it, a host that is gone is noticed later.
            let _ = net::end_when_unanswered(socket, Duration::from_secs(exec.silence_s.into()));
        }
        let started = match held {
            (Some(stdio), Some(errors)) => self.start(number, exec, [stdio, errors]),
            _ => Err(failure("its streams are not there".into())),
        };
        let answer = match started {
            Ok(pid) => Message::Started { id: exec.id, pid: pid.cast_unsigned() },
            Err(Failure { error, reason }) => Message::Failed { id: exec.id, error, reason },
        };
        self.tell(number, &answer);
    }

    /// Starts a program, and passes its streams on.
    fn start(&mut self, number: u64, exec: &Exec, held: [Held; 2]) -> Result<i32, Failure> {
        let kernel = |error: io::Error| failure(error.to_string());
        let mut ends = Vec::new();
        let mut passages = Vec::new();
        for held in held {
            ends.push(match held {
                Held::Near(socket) => {
                    // What the program reads and writes is to block it.
                    blocking(&socket).map_err(kernel)?;
                    socket
                }
                Held::Far(stream) => {
                    let (passage, end) = Passage::new(number).map_err(kernel)?;
                    passages.push((stream, passage));
                    end
                }
            });
        }
        let started = match (&ends[..], &mut self.background) {
            ([stdio, errors], Some((_, programs))) => {
                programs.start(number, exec, stdio.as_fd(), errors.as_fd())
            }
            _ => Err(failure("the universe is being booted".into())),
        };
        // The program alone has its ends, so that theirs is seen.
        drop::<Vec<OwnedFd>>(ends);
        for (stream, passage) in passages {
            if let Some(connection) = self.connections.get_mut(&stream) {
                connection.role = Role::Passing(passage);
            }
            self.pass(stream);
        }
        started
    }

    /// Passes on what has come on either side of a passage.
    pub(super) fn pass(&mut self, number: u64) {
        let Some(Connection { link: Link::Far(socket), channel, role, interests, .. }) =
            self.connections.get_mut(&number)
        else {
            return;
        };
        let Role::Passing(passage) = role else { return };
        match passage.pass(socket, channel) {
            Ok(Passing::On) => {
                let new = passage.interests(channel);
                let sides: [(BorrowedFd<'_>, u64); 2] =
                    [(socket.as_fd(), number), (passage.program().as_fd(), number | PROGRAM)];
                for ((fd, name), (old, new)) in sides.into_iter().zip(interests.iter_mut().zip(new)) {
                    // It fails for want of memory; then what comes is seen with what comes on the other side.
                    if self.poller.set_interest(fd, name, *old, new).is_ok() {
                        *old = new;
                    }
                }
            }
            Ok(Passing::Over) => self.lose(number, "it has ended"),
            Err(why) => {
                // Its client has gone, or somebody has interfered: the program must not take that for the end of its input.
                let of = passage.of;
                self.answer_last(of, format!("a stream of the program was lost: {why}"));
                self.lose(of, &why);
                self.lose(number, &why);
            }
        }
    }

    /// The client of some programs has gone, and their streams with it.
    pub(super) fn drop_streams(&mut self, of: u64, held: BTreeMap<u32, Held>) {
        held.into_values().for_each(|held| self.drop_stream(held));
        let belongs = |connection: &Connection| match &connection.role {
            Role::Passing(passage) => passage.of == of,
            Role::Stream(other, _) => *other == of,
            _ => false,
        };
        let all = self.connections.iter().filter(|(_, connection)| belongs(connection));
        let all: Vec<u64> = all.map(|(number, _)| *number).collect();
        all.into_iter().for_each(|number| self.lose(number, "who has asked for it has gone"));
    }

    fn drop_stream(&mut self, held: Held) {
        if let Held::Far(number) = held {
            self.connections.remove(&number);
        }
    }

    /// Passes on what programs have left that have all ended. Whether nothing is left of it.
    pub(super) fn pass_last(&mut self) -> bool {
        let mut is_done = true;
        for (number, connection) in &mut self.connections {
            let Connection { link: Link::Far(socket), channel, role, interests, .. } = connection else {
                continue;
            };
            let Role::Passing(passage) = role else { continue };
            let is_told = passage.pass_last(socket, channel);
            is_done &= is_told;
            self.poller.remove(passage.program());
            interests[1] = Interest::default();
            let new = Interest { read: false, write: !is_told };
            if self.poller.set_interest(&*socket, *number, interests[0], new).is_ok() {
                interests[0] = new;
            }
        }
        is_done
    }
}

fn failure(reason: String) -> Failure {
    Failure { error: 0, reason }
}

fn blocking(fd: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    Ok(rustix::fs::fcntl_setfl(&fd, flags - rustix::fs::OFlags::NONBLOCK)?)
}
