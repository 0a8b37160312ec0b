//! High-water marks of several handles over one queue, which has a single mark.
//!
//! Each start or reset of a handle begins a new interval for all handles: the queue's mark is
//! stored and starts again. The mark of a handle is the highest mark of its intervals.

use oxmpi_wire::ContextId;
use std::collections::HashMap;

#[derive(Debug, Default)]
pub(crate) struct Peaks {
    by_context: HashMap<ContextId, Marks>,
}

#[derive(Debug, Default)]
struct Marks {
    current: u64,
    /// Past intervals with their marks, in descending order of marks.
    over: Vec<(u64, u64)>,
}

impl Peaks {
    /// Ends an interval with the mark `peak`. Returns the number of the next interval.
    pub(crate) fn begin(&mut self, context: ContextId, peak: u64) -> u64 {
        let marks = self.by_context.entry(context).or_default();
        while marks.over.pop_if(|(_, mark)| *mark <= peak).is_some() {}
        marks.over.push((marks.current, peak));
        marks.current += 1;
        marks.current
    }

    /// The highest mark since the interval `from`; `peak` is the mark of the current interval.
    pub(crate) fn since(&self, context: ContextId, from: u64, peak: u64) -> u64 {
        let over = self.by_context.get(&context).map(|marks| &marks.over);
        let first = over.and_then(|over| over.iter().find(|(interval, _)| *interval >= from));
        first.map_or(peak, |(_, mark)| peak.max(*mark))
    }

    pub(crate) fn forget(&mut self, context: ContextId) {
        self.by_context.remove(&context);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_handle_has_the_highest_mark_of_its_intervals() {
        let (mut peaks, context) = (Peaks::default(), ContextId::new(0, 0));
        let first = peaks.begin(context, 100);
        let second = peaks.begin(context, 7);
        let third = peaks.begin(context, 5);
        let fourth = peaks.begin(context, 6);
        assert_eq!(peaks.since(context, first, 2), 7);
        assert_eq!(peaks.since(context, second, 2), 6);
        assert_eq!(peaks.since(context, third, 2), 6);
        assert_eq!(peaks.since(context, fourth, 2), 2);
        assert_eq!(peaks.since(context, second, 9), 9);
        assert_eq!(peaks.since(ContextId::new(5, 5), 0, 3), 3);
    }
}
