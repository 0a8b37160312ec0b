//! Lasting memory: its registrations, and its end.

use super::{device, open, polled};
use crate::adapter::{Adapter, AdapterOperation};
use crate::fake::{self, with};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;

const LEN: usize = 100_000;

fn adapter() -> Adapter {
    device(100, 0, 50_000);
    open(None).unwrap()
}

fn part(memory: &Owned<u8>, at: usize, len: usize) -> UserBuf {
    memory.buf().packed_range(at, len).unwrap()
}

fn start(memory: &Owned<u8>) -> usize {
    memory.buf().as_ptr() as usize
}

fn registrations() -> u32 {
    with(|fake| std::mem::take(&mut fake.registrations))
}

#[test]
fn memory_that_lasts_is_registered_once_for_reads_of_both_kinds() {
    let mut adapter = adapter();
    let memory = Owned::new(vec![0u8; LEN]);
    adapter.keep(&memory.buf());
    assert_eq!(registrations(), 0, "nothing is registered before it is needed");
    let first = adapter.expose(&part(&memory, 10, 20_000)).unwrap();
    // The memory, and the checks of regions.
    assert_eq!(registrations(), 2);
    let place = adapter.exposed(first).unwrap();
    assert_eq!(place.memory.0, start(&memory) as u64 + 10);
    let second = adapter.register(&part(&memory, 0, LEN)).unwrap();
    assert_ne!(
        adapter.exposed(second).unwrap().check,
        place.check,
        "each region has its own check"
    );
    assert!(adapter.deregister(first) && adapter.deregister(second));
    for at in 0..1000 {
        let region = adapter.expose(&part(&memory, at, LEN - at)).unwrap();
        assert!(adapter.deregister(region));
    }
    assert_eq!(registrations(), 0);
    let access =
        with(|fake| fake.registered.iter().find(|known| known.0 == start(&memory)).unwrap().1);
    assert_eq!(access, 1 | 4, "peers read it, and do not write");
    // Other memory is registered for each region anew.
    let other = Owned::new(vec![0u8; LEN]);
    for _ in 0..3 {
        let region = adapter.expose(&other.buf()).unwrap();
        assert!(adapter.deregister(region));
    }
    assert_eq!(registrations(), 3);
    drop(adapter);
    assert_eq!(with(|fake| fake.registered.len()), 0);
    assert!(memory.into_vec().is_ok());
}

#[test]
fn memory_that_is_forgotten_is_registered_no_more_whatever_was_exposed() {
    let mut adapter = adapter();
    let memory = Owned::new(vec![0u8; LEN]);
    adapter.keep(&memory.buf());
    let exposed = adapter.expose(&part(&memory, 0, 30_000)).unwrap();
    assert!(adapter.forget(start(&memory) + 1), "no such memory is known");
    assert!(with(|fake| fake.registered.iter().any(|known| known.0 == start(&memory))));
    assert!(adapter.forget(start(&memory)));
    assert!(with(|fake| fake.registered.iter().all(|known| known.0 != start(&memory))));
    let memory = memory.into_vec().unwrap_or_else(|_| panic!("the adapter holds some of it"));
    assert!(adapter.exposed(exposed).is_none() && adapter.deregister(exposed));
    // Other memory has the same address now.
    let memory = Owned::new(memory);
    registrations();
    let region = adapter.expose(&memory.buf()).unwrap();
    assert_eq!(registrations(), 1);
    assert!(adapter.deregister(region));
    assert!(with(|fake| fake.registered.iter().all(|known| known.0 != start(&memory))));
}

#[test]
fn memory_into_which_is_read_is_not_forgotten_before_the_end() {
    let mut adapter = adapter();
    let end = adapter.create(1).unwrap().queue_pair;
    let memory = Owned::new(vec![0u8; LEN]);
    adapter.keep(&memory.buf());
    let region = adapter.register(&part(&memory, 0, 30_000)).unwrap();
    assert!(adapter.is_of(region, start(&memory)));
    adapter.read(end, region, (0, 30_000), (7, 7)).unwrap();
    assert!(!adapter.forget(start(&memory)));
    assert!(with(|fake| fake.registered.iter().any(|known| known.0 == start(&memory))));
    fake::complete(end);
    assert_eq!(polled(&mut adapter), [AdapterOperation::Read(region)]);
    assert!(adapter.forget(start(&memory)) && !adapter.is_of(region, start(&memory)));
    assert!(adapter.read(end, region, (0, 1), (7, 7)).is_err(), "it has no memory any more");
    assert!(adapter.deregister(region) && memory.into_vec().is_ok());
}

#[test]
fn registrations_without_a_region_make_room_the_oldest_first() {
    let mut adapter = adapter();
    // The checks of regions are registered by now.
    let other = Owned::new(vec![0u8; LEN]);
    let region = adapter.expose(&other.buf()).unwrap();
    adapter.deregister(region);
    let all: Vec<Owned<u8>> = (0..4).map(|_| Owned::new(vec![0u8; LEN])).collect();
    all.iter().for_each(|memory| adapter.keep(&memory.buf()));
    let is_registered = |memory: &Owned<u8>| {
        with(|fake| fake.registered.iter().any(|known| known.0 == start(memory)))
    };
    with(|fake| fake.lockable = Some(fake.locked + 3 * LEN));
    let used = adapter.expose(&part(&all[0], 0, 20_000)).unwrap();
    for memory in &all[1..3] {
        let region = adapter.expose(&part(memory, 0, 20_000)).unwrap();
        adapter.deregister(region);
    }
    let region = adapter.expose(&part(&all[3], 0, 20_000)).unwrap();
    assert_eq!([0, 1, 2, 3].map(|at: usize| is_registered(&all[at])), [true, false, true, true]);
    // Any other memory may need the room as well.
    let slots = adapter.more_slots().unwrap();
    assert_eq!((slots.len(), is_registered(&all[2])), (16, false));
    // Used registrations stay; a part is registered by itself if there is room for it.
    let region_of_part = adapter.expose(&part(&all[1], 0, 20_000)).unwrap();
    assert!(!adapter.is_of(region_of_part, start(&all[1])));
    assert!(adapter.expose(&part(&all[2], 0, LEN)).unwrap_err().is_out_of_memory());
    assert_eq!([0, 1, 2, 3].map(|at: usize| is_registered(&all[at])), [true, true, false, true]);
    for region in [used, region, region_of_part] {
        assert!(adapter.deregister(region));
    }
    // When the other regions have ended there is room for the whole memory again.
    let region = adapter.expose(&part(&all[2], 0, 20_000)).unwrap();
    assert!(adapter.is_of(region, start(&all[2])));
    with(|fake| fake.lockable = None);
}

#[test]
fn memory_longer_than_what_may_be_locked_is_registered_in_parts() {
    let mut adapter = adapter();
    let other = Owned::new(vec![0u8; LEN]);
    let region = adapter.expose(&other.buf()).unwrap();
    adapter.deregister(region);
    with(|fake| fake.lockable = Some(fake.locked + LEN - 1));
    let memory = Owned::new(vec![0u8; LEN]);
    adapter.keep(&memory.buf());
    adapter.keep(&part(&memory, 5, 10));
    registrations();
    for _ in 0..3 {
        let region = adapter.expose(&part(&memory, 0, 20_000)).unwrap();
        assert!(!adapter.is_of(region, start(&memory)));
        assert!(adapter.deregister(region));
    }
    assert_eq!(registrations(), 3);
    with(|fake| fake.lockable = None);
}
