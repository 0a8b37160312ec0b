//! Counts of a lane, for tools.
//!
//! Most counts follow from sequence numbers, queues and the states of requests when a tool reads
//! them. Only bytes have counters: one addition per message.

use crate::lane::Lane;
use crate::team::Team;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) rendezvous_sent: u64,
    pub(crate) rendezvous_received: u64,
    pub(crate) own_messages: u64,
    pub(crate) own_bytes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) tagged_sent: u64,
    pub(crate) tagged_bytes_sent: u64,
    pub(crate) tagged_received: u64,
    pub(crate) tagged_bytes_received: u64,
}

/// All counts since the lane was made, and current numbers of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub messages_sent: u64,
    /// With the whole length of announced messages.
    pub bytes_sent: u64,
    pub messages_received: u64,
    pub bytes_received: u64,
    pub own_messages: u64,
    pub own_bytes: u64,
    pub rendezvous_sent: u64,
    pub rendezvous_received: u64,
    /// Messages sent by tag over a network that matches.
    pub tagged_sent: u64,
    pub tagged_received: u64,
    /// Bytes of announced messages that this process has copied out of its peers' memory.
    pub read_bytes: u64,
    pub unexpected: u64,
    pub unexpected_matched: u64,
    pub unexpected_now: u64,
    pub posted_now: u64,
    /// With complete requests that the program has not yet queried.
    pub requests_now: u64,
    pub buffered_now: u64,
    pub nonsense: u64,
}

/// The queues of one team's point-to-point context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    pub unexpected: u64,
    /// The highest value of `unexpected` since [`Lane::restart_peak`].
    pub peak: u64,
    pub posted: u64,
}

impl<F> Lane<F> {
    /// Visits each peer, context and request.
    pub fn counts(&self) -> Counts {
        let state = &self.state;
        let (tally, traffic) = (&state.tally, state.contexts.traffic());
        let mut counts = Counts {
            own_messages: tally.own_messages,
            own_bytes: tally.own_bytes,
            rendezvous_sent: tally.rendezvous_sent,
            rendezvous_received: tally.rendezvous_received,
            tagged_sent: tally.tagged_sent,
            tagged_received: tally.tagged_received,
            read_bytes: tally.read_bytes,
            messages_sent: tally.tagged_sent,
            bytes_sent: tally.tagged_bytes_sent,
            messages_received: tally.tagged_received,
            bytes_received: tally.tagged_bytes_received,
            unexpected: traffic.came,
            unexpected_matched: traffic.matched,
            requests_now: state.requests.alive(),
            buffered_now: state.requests.buffered_bytes(),
            nonsense: state.nonsense,
            ..Counts::default()
        };
        for peer in state.peers.iter().flatten() {
            counts.messages_sent += peer.next_send;
            counts.bytes_sent += peer.bytes_sent;
            counts.messages_received += peer.expected;
            counts.bytes_received += peer.bytes_received;
        }
        for context in state.contexts.iter() {
            counts.unexpected_now += context.unexpected.len() as u64;
            counts.posted_now += context.posted.len() as u64;
        }
        counts
    }

    /// The queues of a team; `None` if the team is closed.
    pub fn queue_counts(&self, team: &Team) -> Option<QueueCounts> {
        let context = self.state.contexts.get(team.point_to_point)?;
        Some(QueueCounts {
            unexpected: context.unexpected.len() as u64,
            peak: context.unexpected.peak() as u64,
            posted: context.posted.len() as u64,
        })
    }

    /// The rank of a process in the team with this point-to-point context, if both exist.
    pub fn rank_in(&self, context: u32, process: u32) -> Option<u32> {
        let team = self.state.contexts.get(context)?.team.as_ref()?;
        if team.point_to_point == context { team.map.rank(process) } else { None }
    }

    /// Restarts [`QueueCounts::peak`] of a team.
    pub fn restart_peak(&mut self, team: &Team) {
        if let Some(context) = self.state.contexts.get_mut(team.point_to_point) {
            context.unexpected.restart_peak();
        }
    }
}
