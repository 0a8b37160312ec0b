use super::*;
use std::sync::atomic::AtomicUsize;

#[test]
fn handles_are_never_predefined_and_errors_name_the_cause() {
    let table = Table::new();
    let a = table.insert("a");
    let b = table.insert("b");
    assert!(
        a.raw() > u64::from(u32::MAX) && a.index() == FIRST_INDEX && b.index() == FIRST_INDEX + 1
    );
    assert_eq!((*table.get(a).unwrap(), *table.get(b).unwrap()), ("a", "b"));
    assert_eq!(table.get(Handle::from_raw(0)).unwrap_err(), BadHandle::Null);
    for never in [1, 4095, 4098 | 1 << 32, 4096, 4096 | 7 << 32, u64::MAX] {
        let never = Handle::from_raw(never);
        assert_eq!(table.get(never).unwrap_err(), BadHandle::Unknown);
    }
    table.free(a).unwrap();
    assert_eq!(table.get(a).unwrap_err(), BadHandle::Freed);
    assert_eq!(table.free(a).unwrap_err(), BadHandle::Freed);
    let c = table.insert("c");
    assert_eq!(c.index(), a.index());
    assert_eq!(table.get(a).unwrap_err(), BadHandle::Freed);
    assert_eq!((table.from_int(c.to_int()), table.from_int(a.to_int())), (c, a));
    assert_eq!(table.handles(), [c, b]);
    assert_eq!(
        table.get(a).unwrap_err().to_string(),
        "it is the handle of an object that has been freed"
    );
}

#[test]
fn a_handle_names_no_object_of_another_kind() {
    let tables: Vec<_> = (0..16).map(Table::of_kind).collect();
    for table in &tables {
        let handles: Vec<Handle> = (0..300).map(|i| table.insert(i)).collect();
        for other in &tables {
            let is_found = |handle: &Handle| other.get(*handle).is_ok();
            assert_eq!(handles.iter().any(is_found), std::ptr::eq(table, other));
        }
        assert!(handles.iter().all(|handle| table.from_int(handle.to_int()) == *handle));
        handles.into_iter().for_each(|handle| table.free(handle).unwrap());
    }
    let lasts = [0xfff_ffff, 0x3fff_ffff, u32::MAX].map(next_generation);
    assert_eq!(lasts, [1, 0x3000_0001, 0xf000_0001]);
}

#[test]
fn a_freed_object_stays_for_its_holders() {
    let table = Table::new();
    let value = Arc::new(5);
    let handle = table.insert(Arc::clone(&value));
    let held = table.hold(handle).unwrap();
    let second = held.clone();
    table.free(handle).unwrap();
    assert!(held.is_user_freed() && table.is_user_freed(handle).unwrap());
    assert_eq!(**table.get(handle).unwrap(), 5);
    assert_eq!(table.free(handle), Err(BadHandle::Freed));
    assert_eq!(table.handles(), []);
    drop(held);
    assert_eq!((Arc::strong_count(&value), second.handle()), (2, handle));
    drop(second);
    assert_eq!(Arc::strong_count(&value), 1);
    assert_eq!(table.get(handle).unwrap_err(), BadHandle::Freed);
    assert_eq!(table.from_int(handle.to_int()), handle);
}

#[test]
fn a_held_object_outlives_its_table() {
    let value = Arc::new(());
    let table = Table::new();
    let handle = table.insert(Arc::clone(&value));
    table.insert(Arc::clone(&value));
    let held = table.hold(handle).unwrap();
    drop(table);
    assert_eq!(Arc::strong_count(&value), 3);
    drop(held);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn a_drop_may_use_the_table() {
    struct Chain(Option<(Arc<Table<Chain>>, Handle)>);
    impl Drop for Chain {
        fn drop(&mut self) {
            if let Some((table, next)) = self.0.take() {
                table.free(next).unwrap();
                let other = table.insert(Chain(None));
                table.free(other).unwrap();
            }
        }
    }
    let table = Arc::new(Table::new());
    let last = table.insert(Chain(None));
    let first = table.insert(Chain(Some((Arc::clone(&table), last))));
    table.free(first).unwrap();
    assert_eq!(table.handles(), []);
}

#[test]
fn slots_of_many_chunks_keep_their_values() {
    let table = Table::new();
    // SAFETY: the table is this thread's alone.
    table.set_single_threaded(unsafe { SingleThread::promise() });
    let handles: Vec<_> = (0..1000).map(|i| table.insert(i)).collect();
    assert!(handles.iter().enumerate().all(|(i, &h)| *table.get(h).unwrap() == i));
    table.set_threaded();
    handles.iter().step_by(2).for_each(|&h| table.free(h).unwrap());
    assert_eq!(table.handles().len(), 500);
    assert!((0..500).all(|i| table.insert(i).index() < FIRST_INDEX + 1000));
}

#[test]
fn every_slot_has_its_own_place() {
    let mut expected = (0, 0);
    for slot in 0..10_000 {
        assert_eq!(place(slot), expected);
        expected.1 += 1;
        if expected.1 == (FIRST_CHUNK << expected.0) as usize {
            expected = (expected.0 + 1, 0);
        }
    }
    assert_eq!(place((1 << 30) - FIRST_CHUNK - 1).0, CHUNKS - 1);
    assert_eq!(place((1 << 30) - FIRST_CHUNK).0, CHUNKS);
}

/// Threads find, hold, free and insert objects in the same few slots. A living value is 7, and its
/// drop writes 0. No thread reads 0, and each value is dropped once.
#[test]
fn threads_agree_on_living_objects() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    struct Value(AtomicU64);
    impl Drop for Value {
        fn drop(&mut self) {
            self.0.store(0, Ordering::Relaxed);
            ALIVE.fetch_sub(1, Ordering::Relaxed);
        }
    }
    let table = Table::new();
    let board: [AtomicU64; 8] = Default::default();
    std::thread::scope(|scope| {
        for seed in 1..=4u64 {
            let (table, board) = (&table, &board);
            scope.spawn(move || {
                let mut held = Vec::new();
                let mut random = seed;
                for _ in 0..20_000 {
                    random ^= random << 13;
                    random ^= random >> 7;
                    random ^= random << 17;
                    let place = &board[(random % 8) as usize];
                    let handle = Handle::from_raw(place.load(Ordering::Relaxed));
                    match random >> 8 & 7 {
                        0 => {
                            ALIVE.fetch_add(1, Ordering::Relaxed);
                            let new = table.insert(Value(AtomicU64::new(7)));
                            let old = place.swap(new.raw(), Ordering::Relaxed);
                            if old != 0 {
                                table.free(Handle::from_raw(old)).unwrap();
                            }
                        }
                        1 => held.extend(table.hold(handle)),
                        2 => held.clear(),
                        _ => {
                            if let Ok(value) = table.get(handle) {
                                assert_eq!(value.0.load(Ordering::Relaxed), 7);
                            }
                        }
                    }
                    assert!(
                        held.iter().all(|v: &HeldObject<Value>| v.0.load(Ordering::Relaxed) == 7)
                    );
                    held.truncate(8);
                }
            });
        }
    });
    assert_eq!(ALIVE.load(Ordering::Relaxed), table.handles().len());
    drop(table);
    assert_eq!(ALIVE.load(Ordering::Relaxed), 0);
}

#[test]
fn of_many_frees_at_once_one_is_right() {
    for _ in 0..200 {
        let (table, value) = (Table::new(), Arc::new(()));
        let handle = table.insert(Arc::clone(&value));
        let held = table.hold(handle).unwrap();
        let right = AtomicUsize::new(0);
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    right.fetch_add(usize::from(table.free(handle).is_ok()), Ordering::Relaxed);
                });
            }
        });
        assert_eq!((right.into_inner(), Arc::strong_count(&value)), (1, 2));
        drop(held);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}

#[test]
fn one_thread_alone_makes_and_frees_as_many_do() {
    let (table, value) = (Table::new(), Arc::new(()));
    // SAFETY: this thread is the only one that uses the table.
    table.set_single_threaded(unsafe { SingleThread::promise() });
    let mut handles: Vec<Handle> = (0..100).map(|_| table.insert(Arc::clone(&value))).collect();
    for handle in handles.drain(50..) {
        table.free(handle).unwrap();
        assert_eq!(table.free(handle), Err(BadHandle::Freed));
    }
    let held = table.hold(handles[0]).unwrap();
    table.free(handles[0]).unwrap();
    assert_eq!(table.free(handles[0]), Err(BadHandle::Freed));
    table.set_threaded();
    handles.extend((0..70).map(|_| table.insert(Arc::clone(&value))));
    assert_eq!((Arc::strong_count(&value), table.handles().len()), (1 + 120, 119));
    drop(held);
    assert_eq!(Arc::strong_count(&value), 1 + 119);
}
