//! Standard input of the ranks.
//!
//! One rank gets the launcher's own standard input, unless that is a terminal, which belongs to the
//! launcher's process group, or the rank is on another host. The launcher reads such input, and
//! input for all ranks, and sends it to the hosts of the ranks ([`HostOrder::Input`]), which write
//! it to a pipe for each rank.
//!
//! [`HostOrder::Input`]: oxmpi_rt_proto::agent::HostOrder::Input

use std::ops::Range;
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
/// The most bytes on their way to a rank.
const WINDOW: usize = 256 << 10;

impl Stdin {
    /// The ranks of `size` whose input the launcher reads; those in `far` (ascending) are on other
    /// hosts.
    pub(crate) fn fed(self, size: u32, is_terminal: bool, far: &[u32]) -> Range<u32> {
        match self {
            Stdin::Rank(rank) if is_terminal || far.binary_search(&rank).is_ok() => rank..rank + 1,
            Stdin::Rank(_) | Stdin::None => 0..0,
            Stdin::All => 0..size,
        }
    }
}

/// The standard inputs of the ranks of a host.
pub(crate) struct Inputs {
    stdin: Stdin,
    null: OwnedFd,
    /// The read ends, by rank, of the pipes that the host's launcher writes.
    pipes: Vec<(u32, OwnedFd)>,
}

/// The non-blocking write ends of pipes, by rank.
pub(crate) type InputWriters = Vec<(u32, OwnedFd)>;

impl Inputs {
    /// Pipes for the ranks of `fed`, and empty inputs for all others, except the one that gets the
    /// launcher's own.
    pub(crate) fn open(
        stdin: Stdin,
        fed: impl IntoIterator<Item = u32>,
    ) -> rustix::io::Result<(Inputs, InputWriters)> {
        let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let (mut pipes, mut writers) = (Vec::new(), Vec::new());
        for rank in fed {
            let (read, fd) = pipe_with(PipeFlags::CLOEXEC)?;
            // Only the write end: a rank expects its input to block.
            rustix::fs::fcntl_setfl(&fd, OFlags::NONBLOCK)?;
            pipes.push((rank, read));
            writers.push((rank, fd));
        }
        Ok((Inputs { stdin, null, pipes }, writers))
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

/// The standard input that the launcher reads, and the ranks that get it.
#[derive(Debug, Default)]
pub(crate) struct Feed {
    readers: Vec<InputReader>,
    /// Read, and not yet sent to all ranks.
    waiting: Vec<u8>,
    ended: bool,
}

#[derive(Debug)]
struct InputReader {
    rank: u32,
    /// The bytes of `waiting` that were sent to it.
    at: usize,
    /// Sent, and not yet in its pipe.
    under_way: usize,
}

impl Feed {
    /// For these ranks.
    pub(crate) fn new(ranks: impl IntoIterator<Item = u32>) -> Feed {
        Feed::of_rest(ranks.into_iter().map(|rank| (rank, Vec::new())).collect(), false)
    }

    /// Continues the feed of another launcher: for each rank the rest of the common input that it
    /// has not got.
    pub(super) fn of_rest(rest: Vec<(u32, Vec<u8>)>, ended: bool) -> Feed {
        let longest = rest.iter().map(|(_, rest)| rest).max_by_key(|rest| rest.len());
        let waiting = longest.cloned().unwrap_or_default();
        let reader = |(rank, rest): (u32, Vec<u8>)| InputReader {
            rank,
            at: waiting.len() - rest.len(),
            under_way: 0,
        };
        let readers = rest.into_iter().map(reader).collect();
        Feed { readers, waiting, ended }
    }

    /// The bytes that were not sent to a rank yet; `None`: it gets no further ones.
    pub(super) fn left(&self, rank: u32) -> Option<&[u8]> {
        let reader = self.readers.iter().find(|reader| reader.rank == rank)?;
        Some(&self.waiting[reader.at..])
    }

    pub(super) fn has_ended(&self) -> bool {
        self.ended
    }

    pub(super) fn wants_more(&self) -> bool {
        !self.readers.is_empty() && !self.ended && self.waiting.len() < MAX_WAITING
    }

    /// Reads without blocking.
    pub(super) fn read(&mut self, stdin: BorrowedFd<'_>, buffer: &mut [u8]) {
        if self.wants_more() && is_ready(stdin, PollFlags::IN) {
            match read_some(stdin, buffer) {
                Came::Bytes(n) => self.waiting.extend_from_slice(&buffer[..n]),
                Came::Nothing => {}
                Came::End => self.ended = true, // for the ranks too, when all is sent
            }
        }
    }

    /// The next bytes for a rank; none: the end. `None`: no rank has room for more.
    pub(super) fn next(&mut self) -> Option<(u32, Vec<u8>)> {
        let (size, ended) = (self.waiting.len(), self.ended);
        let has_next = |reader: &InputReader| match size - reader.at {
            0 => ended,
            _ => reader.under_way < WINDOW,
        };
        let place = self.readers.iter().position(has_next)?;
        let reader = &mut self.readers[place];
        let rank = reader.rank;
        let end = size.min(reader.at + (WINDOW - reader.under_way.min(WINDOW)));
        let bytes = self.waiting[reader.at..end].to_vec();
        (reader.at, reader.under_way) = (end, reader.under_way + bytes.len());
        if bytes.is_empty() {
            self.readers.swap_remove(place);
        }
        self.drop_sent();
        Some((rank, bytes))
    }

    /// A rank has this much of its input in its pipe.
    pub(super) fn note_taken(&mut self, rank: u32, bytes: usize) {
        let readers = self.readers.iter_mut().filter(|reader| reader.rank == rank);
        readers.for_each(|reader| reader.under_way = reader.under_way.saturating_sub(bytes));
    }

    /// These ranks get no further input.
    pub(super) fn drop_readers(&mut self, is_gone: impl Fn(u32) -> bool) {
        self.readers.retain(|reader| !is_gone(reader.rank));
        self.drop_sent();
    }

    fn drop_sent(&mut self) {
        let sent = self.readers.iter().map(|r| r.at).min().unwrap_or(self.waiting.len());
        self.waiting.drain(..sent);
        self.readers.iter_mut().for_each(|r| r.at -= sent);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All that a rank can get now.
    fn sent(feed: &mut Feed) -> Vec<(u32, String)> {
        let text = |(rank, bytes)| (rank, String::from_utf8(bytes).unwrap());
        std::iter::from_fn(|| feed.next()).map(text).collect()
    }

    #[test]
    fn all_ranks_get_everything_even_if_one_reads_late_and_one_never() {
        let mut feed = Feed::new(0..3);
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let mut buffer = vec![0; 4096];
        let (mut got, mut all) = ([const { String::new() }; 3], String::new());
        let mut take = |feed: &mut Feed, takes: &[u32]| {
            for (rank, text) in sent(feed) {
                if takes.contains(&rank) {
                    feed.note_taken(rank, text.len());
                }
                got[rank as usize] += &text;
            }
            got.clone()
        };
        for i in 0..90 {
            let piece = format!("{i} ").repeat(4096)[..4096].to_string();
            all += &piece;
            rustix::io::write(&write, piece.as_bytes()).unwrap();
            feed.read(read.as_fd(), &mut buffer);
            take(&mut feed, &[0]);
        }
        drop(write);
        assert!(all.len() < MAX_WAITING, "all is read");
        assert_eq!(feed.left(1), Some(&all.as_bytes()[WINDOW..]));
        feed.drop_readers(|rank| rank == 2);
        feed.read(read.as_fd(), &mut buffer);
        feed.note_taken(1, WINDOW);
        let got = take(&mut feed, &[0, 1]);
        assert!(got[0] == all && got[1] == all && got[2] == all[..WINDOW]);
        assert!(feed.readers.is_empty() && feed.has_ended() && !feed.wants_more());
    }

    #[test]
    fn a_feed_goes_on_where_another_has_left_off() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let rest = [(0, "input"), (1, "put"), (2, "")];
        let rest = rest.map(|(rank, left)| (rank, left.as_bytes().to_vec())).to_vec();
        let mut feed = Feed::of_rest(rest, false);
        assert_eq!(feed.left(1), Some(&b"put"[..]));
        assert!(feed.left(3).is_none() && !feed.has_ended());
        rustix::io::write(&write, b"!").unwrap();
        drop(write);
        feed.read(read.as_fd(), &mut [0; 8]);
        let own = |rank, text: &str| (rank, text.to_string());
        assert_eq!(sent(&mut feed), [own(0, "input!"), own(1, "put!"), own(2, "!")]);
        feed.read(read.as_fd(), &mut [0; 8]);
        assert_eq!(sent(&mut feed).len(), 3, "each gets the end");
    }

    #[test]
    fn one_rank_or_none_gets_the_launchers_own() {
        use std::os::fd::AsRawFd as _;
        assert_eq!(Stdin::Rank(2).fed(4, false, &[1, 3]), 0..0);
        assert_eq!(Stdin::Rank(3).fed(4, false, &[1, 3]), 3..4);
        assert_eq!(Stdin::Rank(1).fed(4, true, &[]), 1..2);
        assert_eq!((Stdin::None.fed(4, true, &[]), Stdin::All.fed(4, true, &[])), (0..0, 0..4));
        let (inputs, _) = Inputs::open(Stdin::Rank(2), []).unwrap();
        let own: Vec<bool> = (0..4).map(|rank| inputs.of(rank).as_raw_fd() == 0).collect();
        assert_eq!(own, [false, false, true, false]);
        let (inputs, writers) = Inputs::open(Stdin::Rank(1), [1]).unwrap();
        assert!(
            (0..4).all(|rank| inputs.of(rank).as_raw_fd() != 0) && writers.len() == 1,
            "the terminal is the launcher's"
        );
        let (inputs, _) = Inputs::open(Stdin::None, []).unwrap();
        assert!((0..4).all(|rank| inputs.of(rank).as_raw_fd() == inputs.null.as_raw_fd()));
    }
}
