//! Short waits for one rank where ranks take turns on the processors.

use oxmpi_shm::door::{Next, Wait};
use oxmpi_sys::clock::{pass_ticks_from, ticks, ticks_of_ns};

/// How often such a wait gives up the processor before it is one as all others.
const ASIDE: u32 = 12;
/// How long it looks again and again at most while the awaited rank runs on another processor, nanoseconds: about what it takes
/// to give up the processor and to get it back.
const SHORTLY_NS: u64 = 2_000;
/// From one of those looks to the next, nanoseconds.
const GAP_NS: u64 = 40;

/// What has passed between two looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Passed {
    /// A moment.
    Shortly,
    /// A turn of others on this processor.
    Aside,
    /// Nothing: the wait had better go on otherwise.
    Not,
}

/// A wait for one rank with more ranks than processors. As long as that one runs, which is on another processor then, what it
/// does may come before a change of process would be over. So two ranks that talk to each other run at the same time, and others
/// before or after.
#[derive(Debug)]
pub(crate) struct CrowdedWait<'d> {
    wait: Wait<'d>,
    /// Since when it looks again and again.
    since: Option<u64>,
    aside: u32,
}

impl<'d> CrowdedWait<'d> {
    pub(crate) fn new(wait: Wait<'d>) -> CrowdedWait<'d> {
        CrowdedWait { wait, since: None, aside: 0 }
    }

    /// Passes the time to the next look. `is_away`: whether the awaited rank did not run at the last one.
    pub(crate) fn pass(&mut self, is_away: bool) -> Passed {
        let now = ticks();
        let since = *self.since.get_or_insert(now);
        if now.wrapping_sub(since) < ticks_of_ns(SHORTLY_NS) && !is_away {
            pass_ticks_from(now, ticks_of_ns(GAP_NS));
            return Passed::Shortly;
        }
        if self.aside >= ASIDE {
            return Passed::Not;
        }
        match self.wait.next() {
            Next::Poll => {
                (self.since, self.aside) = (None, self.aside + 1);
                Passed::Aside
            }
            Next::Sleep(sleepy) => {
                sleepy.cancel();
                Passed::Not
            }
        }
    }
}
