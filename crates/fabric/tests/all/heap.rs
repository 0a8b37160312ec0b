use oxmpi_fabric::Fetching;
use oxmpi_fabric::peer_segments::{OpenedSegment, PeerSegments};
use oxmpi_fabric::shm::{Shm, ShmSettings, SingleCopyMode};
use oxmpi_shm::heap::Heap;
use oxmpi_shm::segment::{Boot, Segment, SegmentConfig};
use oxmpi_sys::barrier::BarrierKind;
use oxmpi_sys::bytes::BytesMut;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

const HEAP: usize = 1 << 20;

fn created(rank: u32, oversubscribed: bool) -> OwnedFd {
    Segment::create(&Boot {
        oversubscribed,
        config: SegmentConfig { heap_bytes: HEAP as u64, ..SegmentConfig::default() },
        ..Boot::on_one_node(3, rank, 2)
    })
    .unwrap()
}

/// A process that may not read the memory of process 1, and the number of times that it has
/// opened the segment of process 1.
fn receiver(of: &OwnedFd, oversubscribed: bool) -> (Shm, Arc<AtomicU32>) {
    let own = Segment::map(created(0, oversubscribed)).unwrap();
    let settings = ShmSettings { single_copy: SingleCopyMode::Off, ..ShmSettings::default() };
    let (of, opened) = (of.try_clone().unwrap(), Arc::new(AtomicU32::new(0)));
    let count = opened.clone();
    let open = Box::new(move |peer| {
        assert_eq!(peer, 1);
        count.fetch_add(1, Ordering::Relaxed);
        of.try_clone().map(|fd| OpenedSegment { fd, other: None }).map_err(|e| e.to_string())
    });
    (Shm::new(PeerSegments::new(own, BarrierKind::Symmetric, open), settings), opened)
}

#[test]
fn only_messages_completely_in_the_heap_are_read() {
    for oversubscribed in [false, true] {
        let fd = created(1, oversubscribed);
        let own = fd.try_clone().unwrap();
        let heap =
            Arc::new(Heap::new(Segment::map(&fd).unwrap(), Box::new(move || own.try_clone())));
        let (mut shm, opened) = receiver(&fd, oversubscribed);
        let elsewhere = [7u8; 100];
        assert_eq!(
            shm.fetching(1, elsewhere.as_ptr() as u64, 100, false),
            Fetching::Ask,
            "there is no heap yet"
        );

        let mut block = heap.block(HEAP).unwrap();
        block.iter_mut().enumerate().for_each(|(at, byte)| *byte = (at % 251) as u8);
        let at = block.as_ptr() as u64;
        let mut into = [0u8; 5];
        assert!(
            shm.read(1, at, BytesMut::from(&mut into[..])).is_err(),
            "the permission is unknown"
        );
        assert_eq!(shm.fetching(1, elsewhere.as_ptr() as u64, 100, false), Fetching::Ask);
        assert_eq!(opened.load(Ordering::Relaxed), 1, "the heap is mapped when it is needed");
        for (start, len) in [(0, HEAP), (1, 1), (HEAP - 5, 5), (HEAP, 0)] {
            assert_eq!(
                shm.fetching(1, at + start as u64, len, false),
                Fetching::Read,
                "{len} bytes from {start}"
            );
        }
        assert_eq!(opened.load(Ordering::Relaxed), 2, "and only once");
        let end = at + HEAP as u64;
        for (address, len) in [
            (0, 5),
            (at - 1, 5),
            (end - 4, 5),
            (end + 1, 0),
            (at, HEAP + 1),
            (at, usize::MAX),
            (u64::MAX, 5),
            (u64::MAX - 2, usize::MAX),
        ] {
            assert_eq!(
                shm.fetching(1, address, len, false),
                Fetching::Ask,
                "{len} bytes at {address:#x}"
            );
        }

        shm.read(1, end - 5, BytesMut::from(&mut into[..])).unwrap();
        assert_eq!(into, block[HEAP - 5..]);
        for address in [at - 1, end - 4, end, u64::MAX, 0] {
            assert!(shm.read(1, address, BytesMut::from(&mut into[..])).is_err(), "{address:#x}");
        }
        assert_eq!(into, block[HEAP - 5..], "nothing else was read");
    }
}

#[test]
fn settings_may_be_changed_at_any_time() {
    let fd = created(1, false);
    let (mut shm, _) = receiver(&fd, false);
    shm.retune(ShmSettings { eager_limit: 1000, ..ShmSettings::default() });
    assert_eq!(shm.eager_limit(1), 1000);
    shm.retune(ShmSettings { eager_limit: 10, ..ShmSettings::default() });
    assert_eq!(shm.eager_limit(1), 10);
}
