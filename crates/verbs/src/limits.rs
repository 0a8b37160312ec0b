//! The limits of a device, and the settings that fit them.

use crate::adapter::AdapterSettings;
use crate::declarations::{DeviceAttr, IBV_ATOMIC_GLOB, IBV_ATOMIC_HCA};
use crate::library::VerbsError;

/// The scope of an adapter's atomic operations on words of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AtomicScope {
    None,
    /// Atomic among operations of the same adapter.
    Adapter,
    /// Atomic among all accesses, also of the host's processors.
    Everything,
}

impl AtomicScope {
    pub(crate) fn of(attr: &DeviceAttr) -> AtomicScope {
        match attr.atomic_cap {
            IBV_ATOMIC_HCA => AtomicScope::Adapter,
            IBV_ATOMIC_GLOB => AtomicScope::Everything,
            _ => AtomicScope::None,
        }
    }

    /// The scope in words, for users.
    pub fn partners(self) -> &'static str {
        match self {
            AtomicScope::None => "nothing",
            AtomicScope::Adapter => "adapters",
            AtomicScope::Everything => "adapters and processors",
        }
    }
}

/// The longest queues of a device, and its atomic operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DeviceLimits {
    pub(crate) queue_pair: u32,
    /// Receives in a shared receive queue; 0 without such queues.
    pub(crate) shared: u32,
    pub(crate) completions: u32,
    /// Simultaneous RDMA reads of a queue pair, in each direction.
    pub(crate) reads: u8,
    pub(crate) atomics: AtomicScope,
}

/// The most simultaneous reads: enough for any distance within a machine room.
const READS: i32 = 16;

impl DeviceLimits {
    pub(crate) fn of(attr: &DeviceAttr) -> DeviceLimits {
        let limit = |number| u32::try_from(number).unwrap_or(0);
        DeviceLimits {
            queue_pair: limit(attr.max_qp_wr),
            shared: limit(attr.max_srq_wr),
            completions: limit(attr.max_cqe),
            reads: attr.max_qp_rd_atom.min(attr.max_qp_init_rd_atom).clamp(1, READS) as u8,
            atomics: AtomicScope::of(attr),
        }
    }

    /// The length of the shared receive queue, if there is one, with which these settings fit the
    /// device.
    pub(crate) fn check(&self, settings: &AdapterSettings) -> Result<Option<u32>, VerbsError> {
        let AdapterSettings { device, shared, send_depth, receive_depth, .. } = settings;
        let check = |envelopes: u32, most: u32, what: &'static str, remedy: &'static str| {
            let device = device.clone();
            if envelopes <= most {
                return Ok(());
            }
            Err(VerbsError::Limit { device, envelopes: *receive_depth, most, what, remedy })
        };
        // Besides the envelopes the send queue has an operation that returns credits.
        let sends = self.queue_pair.saturating_sub(send_depth.saturating_sub(*receive_depth));
        check(*receive_depth, sends, "sends on a connection", "lower rpi_ib_num_envelopes")?;
        let Some(shared) = shared else {
            check(
                *receive_depth,
                self.queue_pair,
                "receives on a connection",
                "lower rpi_ib_num_envelopes",
            )?;
            return Ok(None);
        };
        let remedy = "lower rpi_ib_num_envelopes, or set rpi_ib_srq to 0";
        check(*receive_depth, self.shared, "receives in a shared queue", remedy)?;
        // The completion queue also has to hold the sends of at least one connection.
        let left = self.completions.saturating_sub(*send_depth);
        check(*receive_depth, left, "completions besides the sends of a connection", remedy)?;
        Ok(Some(
            (*shared).min(self.shared).min((self.completions / 2).max(*receive_depth)).min(left),
        ))
    }

    /// The lengths of a completion queue to try, in order, for this number of completions; `None`
    /// above the device's limit.
    pub(crate) fn completion_queue(&self, completions: u32) -> Option<[u32; 2]> {
        let doubled = completions.checked_next_power_of_two().unwrap_or(completions);
        (completions <= self.completions).then_some([doubled.min(self.completions), completions])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEVICE: DeviceLimits = DeviceLimits {
        queue_pair: 100,
        shared: 1000,
        completions: 5000,
        reads: 1,
        atomics: AtomicScope::None,
    };

    fn settings(envelopes: u32, shared: Option<u32>) -> AdapterSettings {
        AdapterSettings {
            device: "a0".into(),
            port: 1,
            mtu: 1024,
            slot_len: 1084,
            slots: 64,
            shared,
            send_depth: envelopes + 1,
            receive_depth: envelopes,
            ack_timeout: 18,
        }
    }

    #[test]
    fn the_shared_queue_is_as_long_as_the_device_supports() {
        assert_eq!(DEVICE.check(&settings(64, Some(4096))), Ok(Some(1000)));
        assert_eq!(DEVICE.check(&settings(64, Some(500))), Ok(Some(500)));
        assert_eq!(DEVICE.check(&settings(64, None)), Ok(None));
        // The completion queue has room for sends, too.
        let small = DeviceLimits { completions: 600, ..DEVICE };
        assert_eq!(small.check(&settings(64, Some(4096))), Ok(Some(300)));
    }

    #[test]
    fn envelopes_that_do_not_fit_are_refused_with_the_parameter_and_both_numbers() {
        let why = |limits: DeviceLimits, envelopes, shared| {
            limits.check(&settings(envelopes, shared)).unwrap_err().to_string()
        };
        for shared in [None, Some(4096)] {
            assert_eq!(DEVICE.check(&settings(99, shared)).map(|_| ()), Ok(()));
            let why = why(DEVICE, 100, shared);
            assert!(
                why.contains("rpi_ib_num_envelopes is 100") && why.contains("at most 99"),
                "{why}"
            );
        }
        let no_shared = why(DeviceLimits { shared: 0, ..DEVICE }, 64, Some(4096));
        assert!(
            no_shared.contains("at most 0") && no_shared.contains("rpi_ib_srq to 0"),
            "{no_shared}"
        );
        let few = why(DeviceLimits { completions: 100, ..DEVICE }, 64, Some(4096));
        assert!(few.contains("is 64") && few.contains("at most 35") && few.contains("a0"), "{few}");
    }

    #[test]
    fn a_completion_queue_doubles_up_to_what_the_device_supports() {
        assert_eq!(DEVICE.completion_queue(1025), Some([2048, 1025]));
        assert_eq!(DEVICE.completion_queue(4097), Some([5000, 4097]));
        assert_eq!(DEVICE.completion_queue(5000), Some([5000, 5000]));
        assert_eq!(DEVICE.completion_queue(5001), None);
        let all = DeviceLimits { completions: u32::MAX, ..DEVICE };
        assert_eq!(all.completion_queue(u32::MAX), Some([u32::MAX; 2]));
    }
}
