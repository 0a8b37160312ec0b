//! A cache of completed collectives. A later call of the same shape on the same communicator uses
//! the run again, with its plan, temporaries and lists; only the user's memory differs.

use crate::choice::SelectionKey;
use oxmpi_coll::Run;
use oxmpi_engine::Team;
use oxmpi_mem::layout::Layout;
use oxmpi_plan::Call;
use std::collections::VecDeque;
use std::sync::Arc;

/// The number of cached runs: enough for a program that uses several ranks as root.
const PLACES: usize = 16;

/// Bytes of temporaries. New memory of some MiB takes longer to allocate than to fill.
const MOST_BYTES: usize = 16 << 20;

#[derive(Debug)]
pub(crate) struct Single {
    pub(crate) run: Run,
    /// The call, and the inputs that selected its plan. `None` if the run cannot serve another
    /// call, since the caller made its plan.
    pub(crate) call: Option<(Call, SelectionKey)>,
}

impl Single {
    fn serves(
        &self,
        team: &Arc<Team>,
        (call, key): (&Call, SelectionKey),
        element: Option<&Arc<Layout>>,
    ) -> bool {
        let is_called_so = |(own, by): &(Call, SelectionKey)| *by == key && own == call;
        let same_element = match (self.run.element(), element) {
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            (None, None) => true,
            _ => false,
        };
        same_element
            && Arc::ptr_eq(self.run.team(), team)
            && self.call.as_ref().is_some_and(is_called_so)
    }
}

#[derive(Debug, Default)]
pub(crate) struct RunCache {
    runs: VecDeque<Box<Single>>,
    bytes: usize,
}

impl RunCache {
    pub(crate) fn take(
        &mut self,
        team: &Arc<Team>,
        call: (&Call, SelectionKey),
        element: Option<&Arc<Layout>>,
    ) -> Option<Box<Single>> {
        let at = self.runs.iter().rposition(|single| single.serves(team, call, element))?;
        let single = self.runs.remove(at)?;
        self.bytes -= single.run.temporary_bytes();
        Some(single)
    }

    pub(crate) fn give(&mut self, mut single: Box<Single>) {
        let bytes = single.run.temporary_bytes();
        if single.call.is_none() || bytes > MOST_BYTES {
            return;
        }
        single.run.release();
        while self.bytes + bytes > MOST_BYTES || self.runs.len() >= PLACES {
            let Some(old) = self.runs.pop_front() else { break };
            self.bytes -= old.run.temporary_bytes();
        }
        self.bytes += bytes;
        self.runs.push_back(single);
    }

    pub(crate) fn forget(&mut self, team: &Team) {
        self.runs.retain(|single| single.run.team().collective != team.collective);
        self.bytes = self.runs.iter().map(|single| single.run.temporary_bytes()).sum();
    }
}
