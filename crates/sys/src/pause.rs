//! How a process that waits in vain gives its processor to others for a moment.

use std::time::Duration;

/// How to pause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    /// By a yield.
    #[default]
    Yield,
    /// By a wait for no descriptor at all (the guide: select() on null sets) of 10 microseconds.
    Select,
}

/// How long a pause without yield takes at least.
const SELECT: Duration = Duration::from_micros(10);

impl Pause {
    /// Pauses once.
    pub fn pass(self) {
        match self {
            Pause::Yield => std::thread::yield_now(),
            Pause::Select => {
                let timeout = rustix::time::Timespec::try_from(SELECT).ok();
                // Interrupted or over: the caller looks again.
                let _ = rustix::event::poll(&mut [], timeout.as_ref());
            }
        }
    }
}
