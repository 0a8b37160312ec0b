//! Flow control by credits: a sender has one credit for each buffer that its receiver has posted
//! for it, and gets it back when the receiver has posted the buffer again.

/// The messages and buffers of two processes, counted in both directions.
#[derive(Debug, Default)]
pub(crate) struct Credits {
    /// Messages sent to the peer, and the number of these whose buffers it has posted again.
    pub(crate) sent: u64,
    returned: u64,
    /// Own buffers that were posted again, and the number of these that was sent to the peer.
    pub(crate) freed: u64,
    pub(crate) reported: u64,
}

impl Credits {
    /// The messages that may be sent to a peer which has posted `allowed` buffers.
    pub(crate) fn available(&self, allowed: u32) -> u64 {
        (u64::from(allowed) + self.returned).saturating_sub(self.sent)
    }

    /// The peer has posted `number` buffers again in all.
    pub(crate) fn take_returned(&mut self, number: u64) {
        // Credits never exceed the posted buffers, whatever the peer sends.
        self.returned = self.returned.max(number.min(self.sent));
    }

    /// As [`Credits::take_returned`] with the lower half of the number, as a message head has it.
    pub(crate) fn take_returned_lower(&mut self, lower: u32) {
        let more = lower.wrapping_sub(self.returned as u32);
        if more <= u32::MAX / 2 {
            self.take_returned(self.returned + u64::from(more));
        }
    }

    /// Counts a message to be sent. Returns the number of freed buffers for its head.
    pub(crate) fn count_sent(&mut self) -> u32 {
        self.sent += 1;
        self.reported = self.freed;
        self.freed as u32
    }

    /// Whether the peer has used up half of its `granted` credits, as far as it knows.
    pub(crate) fn is_report_due(&self, granted: u32) -> bool {
        self.freed - self.reported >= u64::from(granted / 2).max(1)
    }
}
