//! Deaths of processes. The launcher counts them in the segment of this process, and names the dead
//! on request.

use oxmpi_shm::segment::Segment;
use std::collections::VecDeque;
use std::sync::Arc;

/// Requests the rank of a death by its place in the order of deaths; `None`: the launcher does not
/// answer.
pub type AskDeath = Box<dyn FnMut(u32) -> Option<u32> + Send>;

pub(super) struct Deaths {
    segment: Arc<Segment>,
    query: AskDeath,
    reported: u32,
    dead: Vec<u32>,
    /// Deaths queried before their report, in order.
    early: VecDeque<Option<u32>>,
}

impl Deaths {
    pub(super) fn new(segment: Arc<Segment>, query: AskDeath) -> Deaths {
        Deaths { segment, query, reported: 0, dead: Vec::new(), early: VecDeque::new() }
    }

    #[inline(always)]
    pub(super) fn are_new(&self) -> bool {
        self.segment.status().deaths() != self.reported
    }

    #[inline]
    pub(super) fn dead(&self) -> &[u32] {
        &self.dead
    }

    pub(super) fn take_new(&mut self) -> Vec<u32> {
        let mut dead = Vec::new();
        while self.are_new() {
            // A launcher that does not answer has ended, and this process will end, too.
            dead.extend(self.early.pop_front().unwrap_or_else(|| (self.query)(self.reported)));
            self.reported = self.reported.wrapping_add(1);
        }
        self.dead.extend(&dead);
        dead
    }

    /// Whether the launcher counts a process among the dead. This does not report the death.
    pub(super) fn has_died(&mut self, peer: u32) -> bool {
        let deaths = self.segment.status().deaths().wrapping_sub(self.reported);
        while (self.early.len() as u32) < deaths {
            let next = self.reported.wrapping_add(self.early.len() as u32);
            self.early.push_back((self.query)(next));
        }
        self.dead.contains(&peer) || self.early.contains(&Some(peer))
    }
}

impl std::fmt::Debug for Deaths {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Deaths").field("reported", &self.reported).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_shm::segment::{Boot, SegmentConfig};

    #[test]
    fn a_death_can_be_queried_before_it_is_reported() {
        let config = SegmentConfig { heap_bytes: 0, ..SegmentConfig::default() };
        let created = Segment::create(&Boot { config, ..Boot::on_one_node(3, 0, 8) }).unwrap();
        let segment = Segment::map(created).unwrap();
        let order = [5, 2, 7, 3];
        let mut queried = 0;
        let query = move |number| {
            assert_eq!(number, queried, "each is queried once");
            queried += 1;
            Some(order[number as usize]).filter(|dead| *dead != 7)
        };
        let mut deaths = Deaths::new(segment.clone(), Box::new(query));
        assert!(!deaths.has_died(5) && deaths.take_new().is_empty());
        segment.status().note_death();
        assert!(deaths.has_died(5) && !deaths.has_died(2));
        segment.status().note_death();
        segment.status().note_death();
        assert!(deaths.has_died(2) && deaths.has_died(5) && !deaths.has_died(7));
        segment.status().note_death();
        assert_eq!(deaths.take_new(), [5, 2, 3]);
        assert_eq!((deaths.reported, deaths.early.len()), (4, 0));
        assert!(deaths.has_died(2) && deaths.has_died(3) && !deaths.has_died(7));
        assert_eq!(deaths.take_new(), [0; 0]);
    }
}
