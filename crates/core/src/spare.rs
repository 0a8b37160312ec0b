//! Collectives that are over and kept, to be called again: the plan, its temporaries and its lists were made once.
//!
//! A program calls the same few collectives again and again. A spare one serves a call of the same shape on the same
//! communicator, with other memory.

use crate::choice::Way;
use oxmpi_coll::Run;
use oxmpi_engine::Team;
use oxmpi_mem::layout::Layout;
use oxmpi_plan::Call;
use std::collections::VecDeque;
use std::sync::Arc;

/// How many are kept: a program may let each of several ranks be the root in turn.
const PLACES: usize = 16;

/// How many bytes the temporaries of all that are kept may have. Fresh memory of some MiB takes longer to get than to fill.
const MOST_BYTES: usize = 16 << 20;

/// A collective that is called once, and what the program called.
#[derive(Debug)]
pub(crate) struct Single {
    pub(crate) run: Run,
    /// With what else its plan was chosen by. None if it cannot serve another call: its plan was made in a way of its own.
    pub(crate) call: Option<(Call, Way)>,
}

impl Single {
    fn serves(&self, team: &Arc<Team>, (call, way): (&Call, Way), element: Option<&Arc<Layout>>) -> bool {
        let is_called_so = |(own, by): &(Call, Way)| *by == way && own == call;
        let same_element = match (self.run.element(), element) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        same_element && Arc::ptr_eq(self.run.team(), team) && self.call.as_ref().is_some_and(is_called_so)
    }
}

/// The collectives that are kept.
#[derive(Debug, Default)]
pub(crate) struct Spares {
    /// Boxed as they are while they run, so that they are not moved.
    kept: VecDeque<Box<Single>>,
    /// Bytes of their temporaries.
    bytes: usize,
}

impl Spares {
    /// One that serves this call, ready but for [`Run::renew`].
    pub(crate) fn take(
        &mut self,
        team: &Arc<Team>,
        call: (&Call, Way),
        element: Option<&Arc<Layout>>,
    ) -> Option<Box<Single>> {
        let at = self.kept.iter().rposition(|single| single.serves(team, call, element))?;
        let single = self.kept.remove(at)?;
        self.bytes -= single.run.temporary_bytes();
        Some(single)
    }

    /// Keeps one that has come to its end, if it is worth it.
    pub(crate) fn give(&mut self, mut single: Box<Single>) {
        let bytes = single.run.temporary_bytes();
        if single.call.is_none() || bytes > MOST_BYTES {
            return;
        }
        single.run.release();
        while self.bytes + bytes > MOST_BYTES || self.kept.len() >= PLACES {
            // The one that has waited longest.
            let Some(old) = self.kept.pop_front() else { break };
            self.bytes -= old.run.temporary_bytes();
        }
        self.bytes += bytes;
        self.kept.push_back(single);
    }

    /// Keeps none of this team any more.
    pub(crate) fn forget(&mut self, team: &Team) {
        self.kept.retain(|single| single.run.team().collective != team.collective);
        self.bytes = self.kept.iter().map(|single| single.run.temporary_bytes()).sum();
    }
}
