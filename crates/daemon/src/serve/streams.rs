//! The streams of programs: connections that wait for their program, and forwarded ones.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use oxmpi_sys::net;
use oxmpi_sys::poller::Interest;
use tracing::info;

use super::super::passage::{Passage, Passing};
use super::super::programs::ExecFailure;
use super::{Daemon, DaemonConnection, PROGRAM, PeerSocket, PendingStream, Role};
use oxmpi_rt_proto::daemon::{DaemonMessage, Exec};

impl Daemon {
    /// Turns a connection into a stream once the answer is sent.
    pub(super) fn become_stream(&mut self, number: u64, of: u64, stream: u32) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        self.poller.remove(&connection.link);
        if connection.channel.has_input() {
            // The client has sent data before the answer.
            self.connections.remove(&number);
            return;
        }
        let held = match connection.link {
            PeerSocket::Near(_) => match self.connections.remove(&number) {
                Some(DaemonConnection { link: PeerSocket::Near(socket), .. }) => {
                    PendingStream::Near(socket)
                }
                _ => return,
            },
            PeerSocket::Far(_) => {
                (connection.role, connection.limit) = (Role::Parked(of, stream), None);
                PendingStream::Far(number)
            }
        };
        match self.connections.get_mut(&of) {
            Some(DaemonConnection { role: Role::Control(streams), .. }) => {
                _ = streams.insert(stream, held)
            }
            _ => self.drop_stream(held),
        }
    }

    pub(super) fn exec(&mut self, number: u64, exec: &Exec) {
        let Some(connection) = self.connections.get_mut(&number) else { return };
        let Role::Control(streams) = &mut connection.role else { return };
        let held = (streams.remove(&exec.stdio), streams.remove(&exec.errors));
        if let PeerSocket::Far(socket) = &connection.link {
            let _ = net::end_when_unanswered(socket, Duration::from_secs(exec.silence_s.into()));
        }
        let started = match held {
            (Some(stdio), Some(errors)) => self.start(number, exec, [stdio, errors]),
            _ => Err(failure("its streams are not there".into())),
        };
        let program = exec.args.first().map(|name| name.display());
        let program = program.map(tracing::field::display);
        info!(number, id = exec.id, program, pid = started.as_ref().ok(), "starting a program");
        let answer = match started {
            Ok(pid) => DaemonMessage::Started { id: exec.id, pid: pid.cast_unsigned() },
            Err(ExecFailure { error, reason }) => {
                DaemonMessage::Failed { id: exec.id, error, reason }
            }
        };
        self.send(number, &answer);
    }

    fn start(
        &mut self,
        number: u64,
        exec: &Exec,
        held: [PendingStream; 2],
    ) -> Result<i32, ExecFailure> {
        let kernel = |error: io::Error| failure(error.to_string());
        let mut ends = Vec::new();
        let mut passages = Vec::new();
        for held in held {
            ends.push(match held {
                PendingStream::Near(socket) => {
                    // A program expects blocking standard streams.
                    blocking(&socket).map_err(kernel)?;
                    socket
                }
                PendingStream::Far(stream) => {
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
        // Only the program keeps its ends, so that the daemon sees them close.
        drop::<Vec<OwnedFd>>(ends);
        for (stream, passage) in passages {
            if let Some(connection) = self.connections.get_mut(&stream) {
                connection.role = Role::Passing(passage);
            }
            self.pass(stream);
        }
        started
    }

    pub(super) fn pass(&mut self, number: u64) {
        let Some(DaemonConnection {
            link: PeerSocket::Far(socket), channel, role, interests, ..
        }) = self.connections.get_mut(&number)
        else {
            return;
        };
        let Role::Passing(passage) = role else { return };
        match passage.pass(socket, channel) {
            Ok(Passing::On) => {
                let new = passage.interests(channel);
                let sides: [(BorrowedFd<'_>, u64); 2] =
                    [(socket.as_fd(), number), (passage.program().as_fd(), number | PROGRAM)];
                for ((fd, name), (old, new)) in sides.into_iter().zip(interests.iter_mut().zip(new))
                {
                    // Fails without memory; the data are then seen with the next event of the other
                    // side.
                    if self.poller.set_interest(fd, name, *old, new).is_ok() {
                        *old = new;
                    }
                }
            }
            Ok(Passing::Over) => self.lose(number, "it has ended"),
            Err(why) => {
                // The client is gone or the data are not authentic: the program must not take this
                // for the end of its input.
                let of = passage.of;
                self.answer_last(of, format!("a stream of the program was lost: {why}"));
                self.lose(of, &why);
                self.lose(number, &why);
            }
        }
    }

    pub(super) fn drop_streams(&mut self, of: u64, held: BTreeMap<u32, PendingStream>) {
        held.into_values().for_each(|held| self.drop_stream(held));
        let belongs = |connection: &DaemonConnection| match &connection.role {
            Role::Passing(passage) => passage.of == of,
            Role::Stream(other, _) => *other == of,
            _ => false,
        };
        let all = self.connections.iter().filter(|(_, connection)| belongs(connection));
        let all: Vec<u64> = all.map(|(number, _)| *number).collect();
        all.into_iter()
            .for_each(|number| self.lose(number, "the client that requested it is gone"));
    }

    fn drop_stream(&mut self, held: PendingStream) {
        if let PendingStream::Far(number) = held {
            self.connections.remove(&number);
        }
    }

    /// Forwards the remaining output of programs that have ended; returns whether all is sent.
    pub(super) fn pass_last(&mut self) -> bool {
        let mut is_done = true;
        for (number, connection) in &mut self.connections {
            let DaemonConnection {
                link: PeerSocket::Far(socket), channel, role, interests, ..
            } = connection
            else {
                continue;
            };
            let Role::Passing(passage) = role else { continue };
            let is_finished = passage.pass_last(socket, channel);
            is_done &= is_finished;
            self.poller.remove(passage.program());
            interests[1] = Interest::default();
            let new = Interest { read: false, write: !is_finished };
            if self.poller.set_interest(&*socket, *number, interests[0], new).is_ok() {
                interests[0] = new;
            }
        }
        is_done
    }
}

fn failure(reason: String) -> ExecFailure {
    ExecFailure { error: 0, reason }
}

fn blocking(fd: impl AsFd) -> io::Result<()> {
    let flags = rustix::fs::fcntl_getfl(&fd)?;
    Ok(rustix::fs::fcntl_setfl(&fd, flags - rustix::fs::OFlags::NONBLOCK)?)
}
