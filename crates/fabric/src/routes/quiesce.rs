//! Quiescing: the steps by which the launcher brings messages to rest.
//!
//! | step | action of the process |
//! |---|---|
//! | [`QuiesceStep::Quiesce`] | sends nothing new, and waits until all sent messages have arrived |
//! | [`QuiesceStep::Close`] | ends its connections, and gets new listeners |
//! | [`QuiesceStep::Resume`] | continues |
//!
//! A process that was restored from an image ends its former connections, gets new listeners, and
//! continues at once. The launcher notes the restoration in the segment, and requests the next
//! [`QuiesceStep::Resume`] without the two steps before it.
//!
//! The launcher numbers the steps in the segments of all processes. It requests a step when all
//! processes have reported the step before. In between, a process stays in the library and
//! receives, because others may need that to become quiet.

use super::Routes;
use crate::{Connections, FrameSink};
use oxmpi_shm::segment::Segment;
use oxmpi_sys::net::Listener;
use std::sync::Arc;
use std::time::Duration;

/// The interval at which a quiesced process checks for the next step.
const CHECK_INTERVAL: Duration = Duration::from_micros(500);

/// A step that the launcher requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QuiesceStep {
    Quiesce,
    Close,
    /// Connections are made again at their next use.
    Resume,
}

impl QuiesceStep {
    /// The step with a number. Numbers count up from 1 over all quiesces.
    pub fn of(number: u32) -> QuiesceStep {
        match number % 3 {
            1 => QuiesceStep::Quiesce,
            2 => QuiesceStep::Close,
            _ => QuiesceStep::Resume,
        }
    }
}

/// The interface to the launcher of a process whose messages can be quiesced.
pub trait Coordinator: Send {
    fn reached(&mut self, step: u32);

    /// The listeners to which others connect after [`QuiesceStep::Close`]: one for processes of the
    /// same launcher, and with `is_sought` one for processes of other launchers.
    fn listeners(&mut self, is_sought: bool) -> Result<Vec<Listener>, String>;

    fn fail(&mut self, why: &str);
}

pub(super) struct Quiescing {
    segment: Arc<Segment>,
    coordinator: Box<dyn Coordinator>,
    taken: u32,
    restored: u32,
}

impl std::fmt::Debug for Quiescing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Quiescing").field("taken", &self.taken).finish_non_exhaustive()
    }
}

impl Quiescing {
    pub(super) fn new(segment: Arc<Segment>, coordinator: Box<dyn Coordinator>) -> Quiescing {
        // A process that starts during a quiesce has sent nothing yet.
        let (taken, restored) = (segment.status().quiesce_step(), segment.status().restored());
        Quiescing { segment, coordinator, taken, restored }
    }

    fn take_listeners(
        coordinator: &mut dyn Coordinator,
        connections: &mut dyn Connections,
        is_sought: bool,
    ) -> bool {
        let listens = coordinator.listeners(is_sought);
        let listens = listens.and_then(|listeners| {
            connections.listen_anew(listeners).map_err(|error| error.to_string())
        });
        listens
            .map_err(|why| coordinator.fail(&format!("connections cannot be made again: {why}")))
            .is_ok()
    }

    #[inline]
    pub(super) fn is_requested(&self) -> bool {
        self.segment.status().quiesce_step() != self.taken
    }
}

impl Routes {
    /// Takes all steps until messages may move again, and receives meanwhile.
    #[cold]
    pub(super) fn quiesce(&mut self, sink: &mut dyn FrameSink) {
        loop {
            // An image may have been made after any step.
            if self.is_restored() && !self.restart_restored(sink) {
                return;
            }
            for other in &mut self.others {
                other.transport.poll(None, sink);
            }
            let connections =
                self.others.iter_mut().find_map(|other| other.transport.connections());
            let (Some(connections), Some(quiescing)) = (connections, &mut self.quiescing) else {
                return;
            };
            let Quiescing { segment, coordinator, taken, .. } = quiescing;
            let requested = segment.status().quiesce_step();
            if requested == *taken {
                if QuiesceStep::of(requested) == QuiesceStep::Resume {
                    if let Err(why) = connections.resume() {
                        coordinator.fail(&why);
                    }
                    return;
                }
                std::thread::sleep(CHECK_INTERVAL);
                continue;
            }
            match QuiesceStep::of(requested) {
                QuiesceStep::Quiesce if !connections.quiesce() => {
                    std::thread::sleep(CHECK_INTERVAL);
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
            *taken = requested;
            if QuiesceStep::of(requested) != QuiesceStep::Resume {
                coordinator.reached(requested);
            }
        }
    }

    fn is_restored(&self) -> bool {
        self.quiescing.as_ref().is_some_and(|it| it.segment.status().restored() != it.restored)
    }

    /// Returns whether the process can continue.
    fn restart_restored(&mut self, sink: &mut dyn FrameSink) -> bool {
        let connections = self.others.iter_mut().find_map(|other| other.transport.connections());
        let (Some(connections), Some(quiescing)) = (connections, &mut self.quiescing) else {
            return false;
        };
        let status = quiescing.segment.status();
        (quiescing.restored, quiescing.taken) = (status.restored(), status.quiesce_step());
        let is_sought = connections.listeners() > 1;
        connections.give_up_lost_connections(sink);
        Quiescing::take_listeners(&mut *quiescing.coordinator, connections, is_sought)
    }
}
