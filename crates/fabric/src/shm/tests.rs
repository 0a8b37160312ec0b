use super::*;
use crate::Taken;
use crate::frame_sink::testing::CountingSink;
use crate::peer_segments::OpenedSegment;
use oxmpi_shm::heap::Heap;
use oxmpi_shm::segment::{Boot, SegmentConfig};
use oxmpi_sys::barrier::BarrierKind;
use oxmpi_sys::bytes::BytesMut;
use oxmpi_wire::Context;
use oxmpi_wire::Envelope;
use oxmpi_wire::Tags;
use std::os::fd::OwnedFd;

fn created(heap_bytes: u64) -> [OwnedFd; 2] {
    [0, 1].map(|rank| {
        let config = SegmentConfig { heap_bytes, ..SegmentConfig::default() };
        Segment::create(&Boot { config, ..Boot::on_one_node(3, rank, 2) }).unwrap()
    })
}

fn two() -> [Shm; 2] {
    two_of(&created(0))
}

fn two_of(created: &[OwnedFd; 2]) -> [Shm; 2] {
    [0, 1].map(|me: usize| {
        let other = created[1 - me].try_clone().unwrap();
        let open = Box::new(move |_| {
            other
                .try_clone()
                .map(|fd| OpenedSegment { fd, other: None })
                .map_err(|error| error.to_string())
        });
        let own = Segment::map(&created[me]).unwrap();
        Shm::new(PeerSegments::new(own, BarrierKind::Symmetric, open), ShmSettings::default())
    })
}

fn send(from: &mut Shm, to: u32, bytes: &[u8]) {
    let envelope = Envelope { context: Context::Local(0), tag: 0 };
    let frame = Frame::Eager { envelope };
    let body = Body::Bytes(Bytes::from(bytes));
    assert_eq!(from.send(to, &OutgoingMessage::new(frame, body)), Ok(Sent::Done));
}

fn receive(shm: &mut Shm, value: u8, bytes: usize) {
    let mut sink = CountingSink::of(value);
    while sink.bytes < bytes {
        shm.poll(None, &mut sink);
    }
    assert_eq!(sink.bytes, bytes);
}

fn make_hot(a: &mut Shm, b: &mut Shm) {
    for _ in 0..4 {
        send(a, 1, &[1]);
        receive(b, 1, 1);
        send(b, 0, &[2]);
        receive(a, 2, 1);
    }
}

#[test]
fn comes_soon_reports_a_message_and_leaves_it() {
    let [mut a, mut b] = two();
    assert_eq!(b.comes_soon(0), None, "there is no ring yet");
    make_hot(&mut a, &mut b);
    assert_eq!((b.comes_soon(0), b.comes_soon(7)), (Some(false), None));
    for lengths in [&[8][..], &[100], &[70 << 10], &[8, 8, 100, 8]] {
        for len in lengths {
            send(&mut a, 1, &vec![3; *len]);
        }
        assert_eq!((b.comes_soon(0), b.comes_soon(0)), (Some(true), Some(true)), "{lengths:?}");
        let mut into = vec![0; 70 << 10];
        for (at, len) in lengths.iter().enumerate() {
            let taken = b.receive_now(0, 0, Tags::ANY, BytesMut::from(&mut into[..]));
            assert_eq!(taken, Taken::Message { tag: 0, len: *len }, "{lengths:?}, {at}");
            assert!(into[..*len].iter().all(|byte| *byte == 3));
        }
        assert_eq!(b.comes_soon(0), Some(false), "{lengths:?}");
    }
}

#[test]
fn a_peer_can_be_polled_alone() {
    let [mut a, mut b] = two();
    let mut sink = CountingSink::of(3);
    assert_eq!(b.poll_peer(0, 1, &mut sink), None, "there is no ring yet");
    make_hot(&mut a, &mut b);
    assert_eq!((b.poll_peer(7, 1, &mut sink), b.poll_peer(0, 1, &mut sink)), (None, Some(false)));
    for _ in 0..5 {
        send(&mut a, 1, &[3; 8]);
    }
    for (most, all) in [(1, 8), (3, 32), (9, 40)] {
        assert_eq!((b.poll_peer(0, most, &mut sink), sink.bytes), (Some(true), all));
    }
    assert_eq!(b.poll_peer(0, 9, &mut sink), Some(false));
    let long = vec![3; 20 << 10];
    send(&mut a, 1, &long);
    while sink.bytes < 40 + long.len() {
        assert_eq!(b.poll_peer(0, 1, &mut sink), Some(true));
    }
}

#[test]
fn messages_in_the_heap_are_announced() {
    const LEN: usize = 64 << 10;
    let created = created(1 << 20);
    let [mut a, mut b] = two_of(&created);
    // This process may read itself, so `a` finds that it may read `b`.
    b.own.status().claim(std::process::id()).unwrap();
    b.own.advertise();
    make_hot(&mut a, &mut b);
    let [fd, _] = created;
    let heap = Arc::new(Heap::new(a.own.clone(), Box::new(move || fd.try_clone())));
    let (mut block, elsewhere) = (heap.block(LEN).unwrap(), vec![3; LEN]);
    block.fill(3);
    let leaves = |shm: &mut Shm, bytes: &[u8]| shm.send_now(1, 0, 0, Bytes::from(bytes));
    assert!(leaves(&mut a, &elsewhere) && leaves(&mut a, &block[..2 << 10]));
    assert!(!leaves(&mut a, &block) && !leaves(&mut a, &block[1..]));
    a.retune(ShmSettings { single_copy: SingleCopyMode::Off, ..ShmSettings::default() });
    assert!(leaves(&mut a, &block), "the copy that a sender keeps could not be read");
}

#[test]
fn the_dead_leave_no_blocks_taken() {
    const LEN: usize = 48 << 10;
    let [mut a, mut b] = two();
    make_hot(&mut a, &mut b);
    let free = |shm: &mut Shm| shm.pool.as_mut().unwrap().free_bytes();
    let all = free(&mut a);
    send(&mut a, 1, &[3; LEN]);
    assert_eq!(free(&mut a), all - LEN);
    a.remove_failed(1);
    assert_eq!(free(&mut a), all);
    send(&mut b, 0, &[4; LEN]);
    receive(&mut a, 4, LEN);
    assert_eq!(free(&mut b), all);
}
