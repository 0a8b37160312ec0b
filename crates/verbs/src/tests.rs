//! The adapter over a simulated library.

mod accesses;
mod lasting;

use crate::adapter::{Adapter, AdapterOperation, AdapterSettings, DRAIN};
use crate::fake::{self, with};
use crate::library::{VerbsError, VerbsLibrary};
use oxmpi_mem::memory::Owned;
use std::time::Instant;

fn open(shared: Option<u32>) -> Result<Adapter, VerbsError> {
    let settings = AdapterSettings {
        device: "a0".into(),
        port: 1,
        mtu: 1024,
        slot_len: 256,
        slots: 16,
        shared,
        send_depth: 17,
        receive_depth: 16,
        ack_timeout: 18,
    };
    Adapter::open(&VerbsLibrary::with_symbols(fake::symbols()), settings)
}

fn device(max_qp_wr: i32, max_srq_wr: i32, max_cqe: i32) {
    with(|fake| {
        (fake.max_qp_wr, fake.max_srq_wr, fake.max_cqe, fake.memory) =
            (max_qp_wr, max_srq_wr, max_cqe, max_cqe);
    });
}

#[test]
fn the_shared_queue_is_no_longer_than_the_device_supports() {
    device(100, 1000, 50_000);
    assert_eq!(open(Some(4096)).unwrap().shared(), Some(1000));
    assert_eq!(with(|fake| fake.shared), 1000);
    assert_eq!(open(None).unwrap().shared(), None);
    device(100, 8, 50_000);
    let why = open(Some(4096)).unwrap_err().to_string();
    assert!(why.contains("rpi_ib_num_envelopes is 16") && why.contains("at most 8"), "{why}");
}

#[test]
fn a_connection_that_cannot_be_made_leaves_nothing() {
    device(100, 0, 1100);
    let mut adapter = open(None).unwrap();
    let first = adapter.create(1).unwrap();
    // Without the release of their resources, queue and words would be exhausted.
    for _ in 0..300 {
        with(|fake| fake.fails_to_create = true);
        adapter.create(1).unwrap_err();
        with(|fake| (fake.fails_to_create, fake.fails_to_modify) = (false, true));
        adapter.create(1).unwrap_err();
        with(|fake| fake.fails_to_modify = false);
    }
    assert_eq!(with(|fake| fake.open.clone()), [first.queue_pair]);
    let second = adapter.create(1).unwrap();
    assert_eq!(
        second.word.0,
        first.word.0 + 16,
        "the words of the connections that failed are used again"
    );
}

#[test]
fn a_completion_queue_grows_to_what_the_device_has() {
    device(100, 0, 1100);
    let mut adapter = open(None).unwrap();
    // Each connection has 33 completions.
    let made = (0..40).take_while(|_| adapter.create(1).is_ok()).count();
    assert_eq!((made, with(|fake| fake.resized.clone())), (33, vec![1100]));
    assert!(adapter.create(1).unwrap_err().to_string().contains("completion queue"));

    device(100, 0, 50_000);
    with(|fake| {
        fake.memory = 1500;
        fake.resized.clear();
    });
    let mut adapter = open(None).unwrap();
    for _ in 0..32 {
        adapter.create(1).unwrap();
    }
    assert_eq!(
        with(|fake| fake.resized.clone()),
        [2048, 1056],
        "not twice, but as much as is needed"
    );
}

#[test]
fn a_queue_pair_stays_until_its_receives_have_come_back() {
    device(100, 0, 50_000);
    let mut adapter = open(None).unwrap();
    let end = adapter.create(1).unwrap().queue_pair;
    let slots = adapter.more_slots().unwrap();
    adapter.receive(end, slots[0]).unwrap();
    adapter.close(end);
    assert!(adapter.take_closed().is_empty(), "its receive is under way");
    fake::flush(end);
    assert_eq!(polled(&mut adapter), [AdapterOperation::Receive(slots[0], 0)]);
    assert_eq!((adapter.take_closed(), with(|fake| fake.open.len())), (vec![end], 0));
}

fn polled(adapter: &mut Adapter) -> Vec<AdapterOperation> {
    let mut into = Vec::new();
    adapter.poll(&mut into).unwrap();
    into.into_iter().map(|completion| completion.operation).collect()
}

#[test]
fn no_slot_of_a_shared_queue_is_lost_with_a_queue_pair() {
    device(100, 1000, 50_000);
    let mut adapter = open(Some(500)).unwrap();
    let end = adapter.create(1).unwrap().queue_pair;
    let slots = adapter.more_slots().unwrap();
    for slot in &slots[..4] {
        adapter.receive(end, *slot).unwrap();
    }
    let start = Instant::now();
    adapter.close(end);
    assert_eq!(with(|fake| fake.broken.clone()), [end]);
    assert_eq!(polled(&mut adapter), []);
    // The receive ends only now. A queue pair destroyed earlier would lose the slot.
    assert!(adapter.take_closed().is_empty());
    fake::flush(end);
    std::thread::sleep(DRAIN);
    fake::flush(end);
    assert_eq!(polled(&mut adapter).len(), 2);
    assert!(adapter.take_closed().is_empty(), "there may be more in the completion queue");
    assert_eq!(polled(&mut adapter), []);
    assert_eq!((adapter.take_closed(), with(|fake| fake.open.len())), (vec![end], 0));
    assert!(start.elapsed() >= DRAIN);
    // Both slots belong to the caller again, although their queue pair is gone.
    for slot in &slots[..2] {
        adapter.receive(end, *slot).unwrap();
    }
    assert!(adapter.slot(slots[0]).is_empty() && adapter.slot(slots[4]).len() == 256);
}

#[test]
fn a_region_holds_its_buffer_until_no_read_into_it_is_under_way() {
    device(100, 0, 50_000);
    let mut adapter = open(None).unwrap();
    let end = adapter.create(1).unwrap().queue_pair;
    let memory = Owned::new(vec![0u8; 10_000]);
    let region = adapter.register(&memory.buf()).unwrap();
    assert!(
        adapter.read(end, region, (9_000, 1_001), (7, 7)).is_err(),
        "that is more than there is"
    );
    adapter.read(end, region, (0, 10_000), (7, 7)).unwrap();
    adapter.read_check(end, region, (8, 8)).unwrap();
    let posted = with(|fake| fake.sends.clone());
    // RDMA reads; the second one waits for the first (a fence), and both are reported.
    assert_eq!(
        posted.iter().map(|(_, kind, flags)| (*kind, *flags)).collect::<Vec<_>>(),
        [(4, 2), (4, 3)]
    );
    assert!(!adapter.deregister(region));
    fake::complete(end);
    assert_eq!(polled(&mut adapter), [AdapterOperation::Read(region)]);
    assert!(!adapter.deregister(region), "the check is still read");
    let memory = memory.into_vec().expect_err("the region holds it");
    fake::complete(end);
    polled(&mut adapter);
    assert!(adapter.deregister(region) && memory.into_vec().is_ok());
    assert!(adapter.read(end, region, (0, 1), (7, 7)).is_err(), "it is no region any more");
}

#[test]
fn peers_may_read_what_is_exposed_and_nobody_may_write_it() {
    device(100, 0, 50_000);
    let mut adapter = open(None).unwrap();
    let memory = Owned::new(vec![0u8; 5_000]);
    let start = memory.buf().as_ptr() as usize;
    let region = adapter.expose(&memory.buf()).unwrap();
    let access = |fake: &mut fake::FakeLibrary| {
        fake.registered.iter().find(|known| known.0 == start).map(|known| known.1)
    };
    assert_eq!(with(access), Some(4), "remote read alone");
    let place = adapter.exposed(region).unwrap();
    assert_eq!((place.memory.0, place.check.0 % 8), (start as u64, 0));
    adapter.set_check(region, 77);
    assert_eq!(adapter.check_of(region), 77);
    assert!(adapter.deregister(region) && adapter.exposed(region).is_none());
    assert_eq!(with(access), None);
    // Its check is reused, and was cleared.
    let region = adapter.expose(&memory.buf()).unwrap();
    assert_eq!(
        (adapter.exposed(region).unwrap().check, adapter.check_of(region)),
        (place.check, 0)
    );
    with(|fake| fake.fails_to_register = true);
    assert!(adapter.register(&memory.buf()).unwrap_err().to_string().contains("ibv_reg_mr"));
    with(|fake| fake.fails_to_register = false);
    drop(adapter);
    assert_eq!(with(|fake| fake.registered.len()), 0);
    assert!(memory.into_vec().is_ok());
}

#[test]
fn packets_that_nobody_answers_are_repeated_for_some_time_only() {
    device(100, 0, 50_000);
    let mut adapter = open(None).unwrap();
    let end = adapter.create(1).unwrap();
    adapter.connect(&end, &end).unwrap();
    let repetitions = with(|fake| std::mem::take(&mut fake.repetitions));
    assert_eq!(repetitions.len(), 1);
    // Soft RoCE repeats without end if it is 7.
    assert!((1..7).contains(&repetitions[0]), "{repetitions:?}");
}
