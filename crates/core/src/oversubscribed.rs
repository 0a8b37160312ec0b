//! Short waits for one rank on a node with more ranks than processors.

use oxmpi_shm::door::{Next, Wait};
use oxmpi_sys::clock::{pass_ticks_from, ticks, ticks_of_ns};

/// The number of times that such a wait yields the processor before an ordinary wait begins.
const ASIDE: u32 = 12;
/// The longest time of polling while the awaited rank runs on another processor, in nanoseconds:
/// about the time of two context switches.
const SHORTLY_NS: u64 = 2_000;
const GAP_NS: u64 = 40;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PollPause {
    Shortly,
    Aside,
    /// No pause: the caller should start an ordinary wait.
    Over,
}

/// A wait for one rank. While the awaited rank runs on another processor, its message may arrive
/// sooner than a context switch would take.
#[derive(Debug)]
pub(crate) struct OversubscribedWait<'d> {
    wait: Wait<'d>,
    since: Option<u64>,
    aside: u32,
}

impl<'d> OversubscribedWait<'d> {
    pub(crate) fn new(wait: Wait<'d>) -> OversubscribedWait<'d> {
        OversubscribedWait { wait, since: None, aside: 0 }
    }

    /// Pauses before the next poll. `is_away`: the awaited rank did not run at the last poll.
    pub(crate) fn pass(&mut self, is_away: bool) -> PollPause {
        let now = ticks();
        let since = *self.since.get_or_insert(now);
        if now.wrapping_sub(since) < ticks_of_ns(SHORTLY_NS) && !is_away {
            pass_ticks_from(now, ticks_of_ns(GAP_NS));
            return PollPause::Shortly;
        }
        if self.aside >= ASIDE {
            return PollPause::Over;
        }
        match self.wait.next() {
            Next::Poll => {
                (self.since, self.aside) = (None, self.aside + 1);
                PollPause::Aside
            }
            Next::Sleep(sleepy) => {
                sleepy.cancel();
                PollPause::Over
            }
        }
    }
}
