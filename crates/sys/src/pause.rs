use std::time::Duration;

/// How a waiting process gives its processor to others for a moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pause {
    #[default]
    Yield,
    /// A wait of 10 microseconds for no descriptor, as LAM/MPI does by a select() on null sets.
    Select,
}

const SELECT: Duration = Duration::from_micros(10);

impl Pause {
    /// Pauses once.
    pub fn pass(self) {
        match self {
            Pause::Yield => std::thread::yield_now(),
            Pause::Select => {
                let timeout = rustix::time::Timespec::try_from(SELECT).ok();
                // An interrupted wait ends early: the caller polls again.
                let _ = rustix::event::poll(&mut [], timeout.as_ref());
            }
        }
    }
}
