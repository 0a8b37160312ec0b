//! What a lane can say of itself in numbers, for tools.
//!
//! Almost nothing is counted for this: sequence numbers, the places of queues and the states of requests say it when
//! somebody asks. Only bytes have counters of their own, one addition for each message.

use crate::lane::Lane;
use crate::team::Team;

/// What is counted on ways on which nobody hurries.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    /// Messages that were announced.
    pub(crate) rendezvous_sent: u64,
    /// Announced messages that were matched here.
    pub(crate) rendezvous_received: u64,
    /// Messages of this process to itself.
    pub(crate) own_messages: u64,
    /// Their bytes.
    pub(crate) own_bytes: u64,
    /// Bytes that this process has read from its peers' memory.
    pub(crate) read_bytes: u64,
    /// Messages that were sent by tag, and their bytes.
    pub(crate) tagged_sent: u64,
    pub(crate) tagged_bytes_sent: u64,
    /// Messages that the network has matched here, and their bytes.
    pub(crate) tagged_received: u64,
    pub(crate) tagged_bytes_received: u64,
}

/// Everything since the lane was made, and what there is now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages given to the fabric for other processes.
    pub messages_sent: u64,
    /// Their bytes, also of those of which only the announcement has left.
    pub bytes_sent: u64,
    /// Messages that have come from other processes, or were announced by them.
    pub messages_received: u64,
    /// Their bytes.
    pub bytes_received: u64,
    /// Messages of this process to itself.
    pub own_messages: u64,
    /// Their bytes.
    pub own_bytes: u64,
    /// Messages to other processes that were announced (rendezvous).
    pub rendezvous_sent: u64,
    /// Announced messages that a receive was found for.
    pub rendezvous_received: u64,
    /// Messages sent by tag, for a network that matches them.
    pub tagged_sent: u64,
    /// Messages that the network has matched here.
    pub tagged_received: u64,
    /// Bytes of announced messages that this process has copied from its peers' memory itself.
    pub read_bytes: u64,
    /// Messages that came before their receive.
    pub unexpected: u64,
    /// Those of them that a receive or a matched probe has taken.
    pub unexpected_matched: u64,
    /// Messages that wait for their receive now.
    pub unexpected_now: u64,
    /// Receives that wait for their message now.
    pub posted_now: u64,
    /// Requests that exist now, complete ones of which the program has not heard included.
    pub requests_now: u64,
    /// Bytes that are kept for buffered sends now.
    pub buffered_now: u64,
    /// Frames that made no sense.
    pub nonsense: u64,
}

/// The queues of one team's point-to-point context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Messages that wait for their receive.
    pub unexpected: u64,
    /// The most of them at a time since [`Lane::restart_peak`].
    pub peak: u64,
    /// Receives that wait for their message.
    pub posted: u64,
}

impl<F> Lane<F> {
    /// Everything so far. It looks at each peer, context and request, so it takes its time.
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

    /// The queues of a team; `None` if it is closed.
    pub fn queue_counts(&self, team: &Team) -> Option<QueueCounts> {
        let context = self.state.contexts.get(team.point_to_point)?;
        Some(QueueCounts {
            unexpected: context.unexpected.len() as u64,
            peak: context.unexpected.peak() as u64,
            posted: context.posted.len() as u64,
        })
    }

    /// The rank of a process in the team whose point-to-point context this is; `None` if it is none, or has no such rank.
    pub fn rank_in(&self, context: u32, process: u32) -> Option<u32> {
        let team = self.state.contexts.get(context)?.team.as_ref()?;
        if team.point_to_point == context { team.map.rank(process) } else { None }
    }

    /// From now on [`QueueCounts::peak`] of a team is counted anew.
    pub fn restart_peak(&mut self, team: &Team) {
        if let Some(context) = self.state.contexts.get_mut(team.point_to_point) {
            context.unexpected.restart_peak();
        }
    }
}
