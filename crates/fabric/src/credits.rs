//! Flow control by credits: a sender has one credit for each buffer that its receiver has posted
//! for it, and gets it back when the receiver has posted the buffer again.

/// The messages and buffers between this process and a peer.
#[derive(Debug, Default)]
pub(crate) struct Credits {
    pub(crate) sent: u64,
    /// The number of `sent` whose buffers the peer has posted again.
    returned: u64,
    pub(crate) freed: u64,
    /// The number of `freed` that the peer knows.
    pub(crate) reported: u64,
}

impl Credits {
    /// The messages that may be sent to a peer which has posted `allowed` buffers.
    pub(crate) fn available(&self, allowed: u32) -> u64 {
        (u64::from(allowed) + self.returned).saturating_sub(self.sent)
    }

    /// Takes the number of buffers that the peer has posted again, in all.
    pub(crate) fn take_returned(&mut self, number: u64) {
        // A faulty peer must not get more credits than it has buffers.
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

    /// Whether half of the peer's `granted` credits are free without the peer's knowledge.
    pub(crate) fn is_report_due(&self, granted: u32) -> bool {
        self.freed - self.reported >= u64::from(granted / 2).max(1)
    }
}
