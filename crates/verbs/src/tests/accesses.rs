//! Writes into memory of peers, and reads from it.

use super::{device, open, polled};
use crate::adapter::{AdapterOperation, AtomicOperation, AtomicScope, Refusal};
use crate::fake::{self, with};
use oxmpi_mem::memory::Owned;

#[test]
fn memory_that_is_opened_may_be_written_by_peers_until_it_is_deregistered() {
    device(100, 0, 50_000);
    let mut adapter = open(None).unwrap();
    let memory = Owned::new(vec![0u8; 5_000]);
    let start = memory.buf().as_ptr() as usize;
    let access = |fake: &mut fake::FakeLibrary| {
        fake.registered.iter().find(|known| known.0 == start).map(|known| known.1)
    };
    let region = adapter.open_to_peers(&memory.buf()).unwrap();
    assert_eq!(with(access), Some(1 | 2 | 4), "local write, remote write, remote read");
    assert_eq!(adapter.exposed(region).unwrap().memory.0, start as u64);
    assert!(adapter.deregister(region));
    assert_eq!(with(access), None);
    // Lasting memory that is opened first is registered once, for messages and peers.
    adapter.keep(&memory.buf());
    let region = adapter.open_to_peers(&memory.buf()).unwrap();
    let message = adapter.expose(&memory.buf()).unwrap();
    assert!(adapter.is_of(region, start) && adapter.is_of(message, start));
    assert!(adapter.deregister(region) && adapter.deregister(message) && adapter.forget(start));
    // After a message, a window has its own registration: no message's key permits writes.
    adapter.keep(&memory.buf());
    let message = adapter.expose(&memory.buf()).unwrap();
    let region = adapter.open_to_peers(&memory.buf()).unwrap();
    assert!(adapter.is_of(message, start) && !adapter.is_of(region, start));
    assert!(adapter.deregister(region) && adapter.deregister(message) && adapter.forget(start));
    assert_eq!(with(access), None);
}

#[test]
fn regions_and_slots_are_the_devices_until_the_ends_of_their_accesses() {
    device(100, 0, 50_000);
    let mut adapter = open(None).unwrap();
    let end = adapter.create(1).unwrap().queue_pair;
    let memory = Owned::new(vec![0u8; 5_000]);
    let region = adapter.source(&memory.buf()).unwrap();
    assert!(
        adapter.write(end, region, (4_000, 1_001), (7, 7)).is_err(),
        "that is more than there is"
    );
    adapter.write(end, region, (0, 5_000), (7, 7)).unwrap();
    assert!(!adapter.deregister(region));
    let slots = adapter.more_slots().unwrap();
    adapter.slot_mut(slots[0])[..3].copy_from_slice(b"abc");
    adapter.write_slot(end, slots[0], 3, (7, 7)).unwrap();
    adapter.read_into_slot(end, slots[1], 8, (7, 7)).unwrap();
    assert!(adapter.write_slot(end, slots[1], 3, (7, 7)).is_err(), "it is the device's");
    assert!(adapter.slot(slots[0]).is_empty() && adapter.slot_mut(slots[1]).is_empty());
    let kinds: Vec<_> = with(|fake| fake.sends.iter().map(|(_, kind, _)| *kind).collect());
    assert_eq!(kinds, [0, 0, 4], "writes and a read");
    (0..3).for_each(|_| fake::complete(end));
    let ended = [
        AdapterOperation::Write(region),
        AdapterOperation::WriteSlot(slots[0]),
        AdapterOperation::ReadSlot(slots[1]),
    ];
    assert_eq!(polled(&mut adapter), ended);
    assert!(adapter.deregister(region) && adapter.slot(slots[0]).len() == 256);
    assert!(
        adapter.write_slot(77, slots[0], 3, (7, 7)).is_err() && adapter.slot(slots[0]).len() == 256
    );
}

#[test]
fn refusals_of_a_peer_differ_from_losses_of_the_network() {
    device(100, 0, 50_000);
    let mut adapter = open(None).unwrap();
    let end = adapter.create(1).unwrap().queue_pair;
    let slots = adapter.more_slots().unwrap();
    let mut ends = Vec::new();
    for (slot, status) in slots.iter().zip([0, 5, 10, 12, 11]) {
        adapter.write_slot(end, *slot, 3, (7, 7)).unwrap();
        fake::complete(end);
        with(|fake| fake.done.back_mut().unwrap().status = status);
        adapter.poll(&mut ends).unwrap();
    }
    let said: Vec<_> =
        ends.iter().map(|end| (end.refusal, end.has_timed_out, end.error.is_some())).collect();
    let expected = [
        (None, false, false),
        (None, false, true),
        (Some(Refusal::Untouched), false, true),
        (None, true, true),
        (Some(Refusal::Unclear), false, true),
    ];
    assert_eq!(said, expected);
}

#[test]
fn atomic_operations_change_words_of_peers_where_the_device_has_them() {
    device(100, 0, 50_000);
    let adapter = open(None).unwrap();
    assert_eq!(adapter.atomics(), AtomicScope::None);
    drop(adapter);
    for (cap, scope) in [(1, AtomicScope::Adapter), (2, AtomicScope::Everything)] {
        with(|fake| {
            fake.atomic_cap = cap;
            fake.access.clear();
            fake.atomics.clear();
        });
        let mut adapter = open(None).unwrap();
        assert_eq!(adapter.atomics(), scope);
        let memory = Owned::new(vec![0u8; 64]);
        let region = adapter.open_to_peers(&memory.buf()).unwrap();
        let rights = with(|fake| fake.registered.last().map(|known| known.1));
        assert_eq!(
            rights,
            Some(1 | 2 | 4 | 8),
            "local write, remote write, read and atomic operations"
        );
        let end = adapter.create(1).unwrap().queue_pair;
        assert_eq!(with(|fake| fake.access.clone()), [2 | 4 | 8]);
        let slots = adapter.more_slots().unwrap();
        let (add, swap) =
            (AtomicOperation::FetchAdd(5), AtomicOperation::CompareSwap { compare: 1, new: 2 });
        adapter.atomic(end, slots[0], add, (64, 7)).unwrap();
        adapter.atomic(end, slots[1], swap, (72, 9)).unwrap();
        assert!(adapter.atomic(end, slots[1], add, (64, 7)).is_err(), "it is the device's");
        let kinds: Vec<_> = with(|fake| fake.sends.iter().map(|(_, kind, _)| *kind).collect());
        assert_eq!(kinds, [6, 5], "a fetch-and-add and a compare-and-swap");
        assert_eq!(with(|fake| fake.atomics.clone()), [(5, 0, 7), (1, 2, 9)]);
        (0..2).for_each(|_| fake::complete(end));
        assert_eq!(
            polled(&mut adapter),
            [AdapterOperation::AtomicSlot(slots[0]), AdapterOperation::AtomicSlot(slots[1])]
        );
        assert!(adapter.deregister(region));
    }
}
