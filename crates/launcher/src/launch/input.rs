//! Standard input of the ranks.
//!
//! One rank gets the launcher's own standard input, unless that is a terminal, which belongs to the
//! launcher's process group. The launcher reads a terminal, and input for all ranks, and writes it
//! to a pipe for each rank.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::PollFlags;
use rustix::fs::{Mode, OFlags};
use rustix::pipe::{PipeFlags, pipe_with};

use super::output::{Came, is_ready, read_some};

/// The ranks that get the standard input; the others get an empty one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stdin {
    Rank(u32),
    None,
    All,
}

/// The most bytes that the slowest rank may be behind; no more input is read then.
const MAX_WAITING: usize = 1 << 20;

pub(crate) struct Inputs {
    stdin: Stdin,
    null: OwnedFd,
    /// The read ends, by rank, of the pipes that the launcher writes.
    pipes: Vec<(u32, OwnedFd)>,
    far: Vec<u32>,
}

impl Inputs {
    /// The inputs of `size` ranks, of which those in `far` (ascending) are on other hosts, and the
    /// feed that writes them.
    pub(crate) fn open(
        stdin: Stdin,
        size: u32,
        is_terminal: bool,
        far: Vec<u32>,
    ) -> rustix::io::Result<(Inputs, Feed)> {
        let fed = match stdin {
            Stdin::Rank(rank) if is_terminal || far.binary_search(&rank).is_ok() => rank..rank + 1,
            Stdin::Rank(_) | Stdin::None => 0..0,
            Stdin::All => 0..size,
        };
        let (mut inputs, writers) = Inputs::of_ranks(fed)?;
        (inputs.stdin, inputs.far) = (stdin, far);
        let readers = writers.into_iter().map(|(rank, fd)| PipeFeed { rank, fd, at: 0 }).collect();
        Ok((inputs, Feed { readers, waiting: Vec::new(), ended: false }))
    }

    /// Pipes for these ranks and empty inputs for all others; also returns the non-blocking write
    /// ends.
    pub(crate) fn of_ranks(
        fed: impl IntoIterator<Item = u32>,
    ) -> rustix::io::Result<(Inputs, Vec<(u32, OwnedFd)>)> {
        let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let (mut pipes, mut writers) = (Vec::new(), Vec::new());
        for rank in fed {
            let (read, fd) = pipe_with(PipeFlags::CLOEXEC)?;
            // Only the write end: a rank expects its input to block.
            rustix::fs::fcntl_setfl(&fd, OFlags::NONBLOCK)?;
            pipes.push((rank, read));
            writers.push((rank, fd));
        }
        Ok((Inputs { stdin: Stdin::None, null, pipes, far: Vec::new() }, writers))
    }

    /// Takes the pipes of ranks on other hosts.
    pub(crate) fn take_far(&mut self) -> Vec<(u32, OwnedFd)> {
        self.pipes.extract_if(.., |(rank, _)| self.far.binary_search(rank).is_ok()).collect()
    }

    pub(super) fn take(&mut self, rank: u32) -> Option<OwnedFd> {
        let at = self.pipes.iter().position(|(of, _)| *of == rank)?;
        Some(self.pipes.swap_remove(at).1)
    }

    pub(crate) fn of(&self, rank: u32) -> BorrowedFd<'_> {
        if let Some((_, pipe)) = self.pipes.iter().find(|(r, _)| *r == rank) {
            return pipe.as_fd();
        }
        if self.stdin == Stdin::Rank(rank) { rustix::stdio::stdin() } else { self.null.as_fd() }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Feed {
    readers: Vec<PipeFeed>,
    /// Read and not yet written to all pipes.
    waiting: Vec<u8>,
    ended: bool,
}

#[derive(Debug)]
struct PipeFeed {
    rank: u32,
    fd: OwnedFd,
    at: usize,
}

impl Feed {
    /// Continues the feed of another launcher: for each rank its pipe, and the rest of the common
    /// input that it has not got.
    pub(super) fn of_rest(rest: Vec<(u32, OwnedFd, Vec<u8>)>, ended: bool) -> Feed {
        let waiting = rest
            .iter()
            .map(|(_, _, rest)| rest)
            .max_by_key(|rest| rest.len())
            .cloned()
            .unwrap_or_default();
        let at = |rest: &[u8]| waiting.len() - rest.len();
        let readers = rest.iter().map(|(_, _, rest)| at(rest)).collect::<Vec<_>>();
        let readers = rest
            .into_iter()
            .zip(readers)
            .map(|((rank, fd, _), at)| PipeFeed { rank, fd, at })
            .collect();
        Feed { readers, waiting, ended }
    }

    /// The pipe of a rank, and the bytes that are not written yet.
    pub(super) fn left(&self, rank: u32) -> Option<(BorrowedFd<'_>, &[u8])> {
        let reader = self.readers.iter().find(|reader| reader.rank == rank)?;
        Some((reader.fd.as_fd(), &self.waiting[reader.at..]))
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn wants_more(&self) -> bool {
        !self.readers.is_empty() && !self.ended && self.waiting.len() < MAX_WAITING
    }

    /// The pipes that wait for room.
    pub(super) fn behind(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.readers.iter().filter(|r| r.at < self.waiting.len()).map(|r| r.fd.as_fd())
    }

    /// Reads and writes without blocking.
    pub(super) fn pass(&mut self, stdin: BorrowedFd<'_>, buffer: &mut [u8]) {
        if self.wants_more() && is_ready(stdin, PollFlags::IN) {
            match read_some(stdin, buffer) {
                Came::Bytes(n) => self.waiting.extend_from_slice(&buffer[..n]),
                Came::Nothing => {}
                Came::End => self.ended = true, // for the ranks too, when all is written
            }
        }
        let (waiting, ended) = (&self.waiting, self.ended);
        self.readers.retain_mut(|reader| {
            while reader.at < waiting.len() {
                match rustix::io::write(&reader.fd, &waiting[reader.at..]) {
                    Ok(n) => reader.at += n,
                    Err(rustix::io::Errno::INTR) => {}
                    Err(rustix::io::Errno::AGAIN) => return true,
                    Err(_) => return false, // the rank reads no more
                }
            }
            !ended
        });
        let passed = self.readers.iter().map(|r| r.at).min().unwrap_or(self.waiting.len());
        self.waiting.drain(..passed);
        self.readers.iter_mut().for_each(|r| r.at -= passed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(fd: &OwnedFd) -> String {
        let mut out = Vec::new();
        let mut buffer = [0; 4096];
        while is_ready(fd, PollFlags::IN) {
            match read_some(fd, &mut buffer) {
                Came::Bytes(n) => out.extend_from_slice(&buffer[..n]),
                Came::Nothing | Came::End => break,
            }
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn all_ranks_get_everything_even_if_one_reads_late_and_one_never() {
        let (inputs, mut feed) = Inputs::open(Stdin::All, 3, false, Vec::new()).unwrap();
        let Inputs { pipes, .. } = inputs;
        let mut pipes = pipes.into_iter().map(|(_, pipe)| pipe).collect::<Vec<_>>();
        drop(pipes.pop());
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut buffer = vec![0; 4096];
        let (mut first, mut second) = (String::new(), String::new());
        let mut sent = String::new();
        for i in 0..40_000 {
            let line = format!("{i} ");
            sent += &line;
            rustix::io::write(&write, line.as_bytes()).unwrap();
            feed.pass(read.as_fd(), &mut buffer);
            first += &text(&pipes[0]);
        }
        drop(write);
        assert!(feed.behind().next().is_some(), "more than a pipe holds waits for the second");
        while !feed.readers.is_empty() {
            feed.pass(read.as_fd(), &mut buffer);
            first += &text(&pipes[0]);
            second += &text(&pipes[1]);
        }
        first += &text(&pipes[0]);
        second += &text(&pipes[1]);
        assert!(first == sent && second == sent);
    }

    #[test]
    fn a_feed_goes_on_where_another_has_left_off() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut rest = Vec::new();
        let mut pipes = Vec::new();
        for (rank, left) in [(0, "input"), (1, "put"), (2, "")] {
            let (pipe, into) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).unwrap();
            pipes.push(pipe);
            rest.push((rank, into, left.as_bytes().to_vec()));
        }
        let mut feed = Feed::of_rest(rest, false);
        assert_eq!(feed.left(1).map(|(_, left)| left), Some(&b"put"[..]));
        assert!(feed.left(3).is_none() && !feed.has_ended());
        rustix::io::write(&write, b"!").unwrap();
        drop(write);
        feed.pass(read.as_fd(), &mut [0; 8]);
        feed.pass(read.as_fd(), &mut [0; 8]);
        let texts: Vec<String> = pipes.iter().map(text).collect();
        assert_eq!(texts, ["input!", "put!", "!"]);
    }

    #[test]
    fn one_rank_or_none_gets_the_launchers_own() {
        use std::os::fd::AsRawFd as _;
        let (inputs, feed) = Inputs::open(Stdin::Rank(2), 4, false, Vec::new()).unwrap();
        let own: Vec<bool> = (0..4).map(|rank| inputs.of(rank).as_raw_fd() == 0).collect();
        assert_eq!(own, [false, false, true, false]);
        assert!(!feed.wants_more());
        let (inputs, feed) = Inputs::open(Stdin::Rank(1), 4, true, Vec::new()).unwrap();
        assert!(
            (0..4).all(|rank| inputs.of(rank).as_raw_fd() != 0),
            "the terminal is the launcher's"
        );
        assert!(feed.wants_more());
        let (inputs, feed) = Inputs::open(Stdin::None, 4, true, Vec::new()).unwrap();
        assert!((0..4).all(|rank| inputs.of(rank).as_raw_fd() == inputs.null.as_raw_fd()));
        assert!(!feed.wants_more());
    }
}
