//! Messages stand still for some time: the steps of it, at the launcher's word.
//!
//! | step | what the process does |
//! |---|---|
//! | [`QuiesceStep::Quiesce`] | sends nothing new, and waits until its peers have all that it has sent |
//! | [`QuiesceStep::Close`] | ends its connections, and takes new listeners |
//! | [`QuiesceStep::Resume`] | goes on |
//!
//! A process that was restored from an image ends what was its connections likewise, takes new listeners, and goes on at once: the
//! launcher says so in its segment, and asks for the next [`Step::Resume`] of which nobody has taken the steps before.
//!
//! The launcher numbers the steps in the segments of all processes, and asks for the next one when all have said that they have
//! taken this one. In between a process stays in the library and takes what comes: others may need that to become quiet.

use super::Routes;
use crate::{Connections, Sink};
use oxmpi_shm::segment::Segment;
use oxmpi_sys::net::Listener;
use std::sync::Arc;
use std::time::Duration;

/// How often a process that stands still looks whether it may go on.
const LOOK: Duration = Duration::from_micros(500);

/// What is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuiesceStep {
    /// Everything that was sent arrives.
    Quiesce,
    /// The connections are ended.
    Close,
    /// They are made again when somebody needs them.
    Resume,
}

impl QuiesceStep {
    /// The step of a number. Numbers count up from 1, over all times that messages stood still; 0 was before the first.
    pub fn of(number: u32) -> QuiesceStep {
        match number % 3 {
            1 => QuiesceStep::Quiesce,
            2 => QuiesceStep::Close,
            _ => QuiesceStep::Resume,
        }
    }
}

/// The launcher, for a process whose messages can stand still.
pub trait Coordinator: Send {
    /// This process has taken a step.
    fn reached(&mut self, step: u32);

    /// The listeners to which others connect after the step [`QuiesceStep::Close`]: that for processes of the same launcher, and, if the
    /// process `is_sought` by those of other launchers, that for them.
    ///
    /// # Errors
    /// Why there are none, for a person.
    fn listeners(&mut self, is_sought: bool) -> Result<Vec<Listener>, String>;

    /// The process cannot go on: ends the job with this text.
    fn fail(&mut self, why: &str);
}

/// What a process knows of it.
pub(super) struct Quiescing {
    segment: Arc<Segment>,
    coordinator: Box<dyn Coordinator>,
    /// The last step that was taken.
    taken: u32,
    /// How often the process had been restored from an image when that was noticed last.
    restored: u32,
}

impl std::fmt::Debug for Quiescing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Quiescing").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl Quiescing {
    pub(super) fn new(segment: Arc<Segment>, coordinator: Box<dyn Coordinator>) -> Quiescing {
        // Who comes while the others stand still has nothing to become quiet of.
        let (taken, restored) = (segment.status().quiesce_step(), segment.status().restored());
        Quiescing { segment, coordinator, taken, restored }
    }

    /// The listeners with which connections are made again.
    fn take_listeners(
        coordinator: &mut dyn Coordinator,
        connections: &mut dyn Connections,
        is_sought: bool,
    ) -> bool {
        let listens = coordinator.listeners(is_sought);
        let listens = listens
            .and_then(|listeners| connections.listen_anew(listeners).map_err(|error| error.to_string()));
        listens.map_err(|why| coordinator.fail(&format!("connections cannot be made again: {why}"))).is_ok()
    }

    #[inline]
    pub(super) fn is_asked(&self) -> bool {
        self.segment.status().quiesce_step() != self.taken
    }
}

impl Routes {
    /// Goes through the steps until messages may move again. What comes meanwhile is handed up.
    #[cold]
    pub(super) fn stand_still(&mut self, sink: &mut dyn Sink) {
        loop {
            // It may have been imaged after any step.
            if self.is_restored() && !self.begin_again(sink) {
                return;
            }
            for other in &mut self.others {
                other.transport.poll(None, sink);
            }
            let connections = self.others.iter_mut().find_map(|other| other.transport.connections());
            let (Some(connections), Some(quiescing)) = (connections, &mut self.quiescing) else { return };
            let Quiescing { segment, coordinator, taken, .. } = quiescing;
            let asked = segment.status().quiesce_step();
            if asked == *taken {
                if QuiesceStep::of(asked) == QuiesceStep::Resume {
                    if let Err(why) = connections.resume() {
                        coordinator.fail(&why);
                    }
                    return;
                }
                std::thread::sleep(LOOK);
                continue;
            }
            match QuiesceStep::of(asked) {
                QuiesceStep::Quiesce if !connections.quiesce() => {
                    std::thread::sleep(LOOK);
                    continue;
                }
                QuiesceStep::Quiesce | QuiesceStep::Resume => {}
                QuiesceStep::Close => {
                    let is_sought = connections.listeners() > 1;
                    connections.give_up_connections(sink);
                    if !Quiescing::take_listeners(&mut **coordinator, connections, is_sought) {
                        return;
                    }
                }
            }
            *taken = asked;
            if QuiesceStep::of(asked) != QuiesceStep::Resume {
                coordinator.reached(asked);
            }
        }
    }

    /// Whether the process was restored from an image, and that is news.
    fn is_restored(&self) -> bool {
        self.quiescing.as_ref().is_some_and(|it| it.segment.status().restored() != it.restored)
    }

    /// The process was restored from an image: what were its connections are ended, and made again. Whether it can go on.
    fn begin_again(&mut self, sink: &mut dyn Sink) -> bool {
        let connections = self.others.iter_mut().find_map(|other| other.transport.connections());
        let (Some(connections), Some(quiescing)) = (connections, &mut self.quiescing) else { return false };
        let status = quiescing.segment.status();
        (quiescing.restored, quiescing.taken) = (status.restored(), status.quiesce_step());
        let is_sought = connections.listeners() > 1;
        connections.give_up_lost_connections(sink);
        Quiescing::take_listeners(&mut *quiescing.coordinator, connections, is_sought)
    }
}
