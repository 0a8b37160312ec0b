//! Collectives that are over and kept, to be called again: the plan, its temporaries and its lists were made once.
//!
//! A program calls the same few collectives again and again. A spare one serves a call of the same shape on the same
//! communicator, with other memory.

use oxmpi_coll::Run;
use oxmpi_engine::Team;
use oxmpi_mem::layout::Layout;
use oxmpi_plan::Call;
use std::sync::Arc;

/// How many are kept.
const PLACES: usize = 4;

/// Those with longer temporaries are not kept, in bytes.
const MOST_BYTES: usize = 1 << 20;

/// A collective that is called once, and what the program called.
#[derive(Debug)]
pub(crate) struct Single {
    pub(crate) run: Run,
    /// None if it cannot serve another call: its plan was made in a way of its own.
    pub(crate) call: Option<Call>,
}

impl Single {
    fn serves(&self, team: &Arc<Team>, call: &Call, element: Option<&Arc<Layout>>) -> bool {
        let same_element = match (self.run.element(), element) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        same_element && Arc::ptr_eq(self.run.team(), team) && self.call.as_ref() == Some(call)
    }
}

/// The collectives that are kept.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    // Boxed as they are while they run, so that they are not moved.
    #[expect(clippy::vec_box)]
    kept: Vec<Box<Single>>,
    /// Which one goes when there is no room.
    next: usize,
}

impl Spares {
    /// One that serves this call, ready but for [`Run::renew`].
    pub(crate) fn take(
        &mut self,
        team: &Arc<Team>,
        call: &Call,
        element: Option<&Arc<Layout>>,
    ) -> Option<Box<Single>> {
        let at = self.kept.iter().position(|single| single.serves(team, call, element))?;
        Some(self.kept.swap_remove(at))
    }

    /// Keeps one that has come to its end, if it is worth it.
    pub(crate) fn give(&mut self, mut single: Box<Single>) {
        if single.call.is_none() || single.run.temporary_bytes() > MOST_BYTES {
            return;
        }
        single.run.release();
        if self.kept.len() < PLACES {
            self.kept.push(single);
        } else {
            self.next = (self.next + 1) % PLACES;
            self.kept[self.next] = single;
        }
    }

    /// Keeps none of this team any more.
    pub(crate) fn forget(&mut self, team: &Team) {
        self.kept.retain(|single| single.run.team().collective != team.collective);
    }
}
