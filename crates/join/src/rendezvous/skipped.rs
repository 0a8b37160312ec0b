//! The connections that have led to no process of the meeting, for the text at the limit of time.

use std::collections::BTreeMap;

/// The most reasons that are kept: any process can connect, and cause reasons.
const REASONS: usize = 16;
/// The most reasons, and addresses for a reason, in a text.
const SHOWN: usize = 4;

/// Reasons with the addresses and the number of the connections.
#[derive(Debug, Default)]
pub(super) struct Skipped {
    reasons: BTreeMap<String, (Vec<String>, u64)>,
}

impl Skipped {
    /// `from`: the address at the other end.
    pub(super) fn add(&mut self, from: &str, why: &str) {
        let is_known = self.reasons.contains_key(why);
        if !is_known && self.reasons.len() >= REASONS {
            return;
        }
        let (addresses, count) = self.reasons.entry(why.to_string()).or_default();
        *count += 1;
        if addresses.len() < SHOWN && !addresses.iter().any(|address| address == from) {
            addresses.push(from.to_string());
        }
    }

    /// The most frequent reasons; empty without any.
    pub(super) fn shown(&self) -> String {
        let mut all: Vec<_> = self.reasons.iter().collect();
        all.sort_by_key(|(_, (_, count))| std::cmp::Reverse(*count));
        let parts = all.into_iter().take(SHOWN).map(|(why, (addresses, count))| {
            let times = if *count == 1 { String::new() } else { format!(", {count} times") };
            format!("{}: {why}{times}", addresses.join(" "))
        });
        parts.collect::<Vec<_>>().join("; ")
    }
}
