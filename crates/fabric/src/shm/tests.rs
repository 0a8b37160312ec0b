//! Two processes' ways to each other, in one process.

use super::*;
use crate::Envelope;
use crate::Taken;
use oxmpi_os::bytes::BytesMut;
use oxmpi_os::segment::{Boot, SegmentConfig};
use oxmpi_wire::Tags;
use oxmpi_wire::{Context, ContextId};

/// Counts the bytes that come, all of which have this value.
struct Counting {
    value: u8,
    bytes: usize,
}

impl Counting {
    fn note(&mut self, part: Bytes<'_>) {
        assert!(part.to_vec().iter().all(|byte| *byte == self.value));
        self.bytes += part.len();
    }
}

impl Sink for Counting {
    fn eager(&mut self, _: u32, _: u8, _: Envelope, _: usize, first: Bytes<'_>) {
        self.note(first);
    }
    fn eager_sync(&mut self, _: u32, _: u8, _: Envelope, _: u64, _: usize, _: Bytes<'_>) {}
    fn rendezvous(&mut self, _: u32, _: u8, _: Envelope, _: u64, _: u64, _: u64, _: Bytes<'_>) {}
    fn sync_ack(&mut self, _: u32, _: u64) {}
    fn pull(&mut self, _: u32, _: u64, _: u64, _: u64, _: u64) {}
    fn fin(&mut self, _: u32, _: u64) {}
    fn withdraw(&mut self, _: u32, _: u64, _: u64) {}
    fn withdrawn(&mut self, _: u32, _: u64) {}
    fn data(&mut self, _: u32, _: u64, _: u64, _: usize, _: Bytes<'_>) {}
    fn learn(&mut self, _: u32, _: ContextId, _: u32) {}
    fn more(&mut self, _: u32, _: usize, part: Bytes<'_>) {
        self.note(part);
    }
    fn sent(&mut self, _: u64) {}
    fn lost(&mut self, _: u32) {}
}

fn two() -> [Shm; 2] {
    two_with(&Settings::default())
}

fn two_with(settings: &Settings) -> [Shm; 2] {
    let created = [0, 1].map(|rank| {
        let config = SegmentConfig { heap_bytes: 0, ..SegmentConfig::default() };
        Segment::create(&Boot { config, ..Boot::on_one_node(3, rank, 2) }).unwrap()
    });
    [0, 1].map(|me: usize| {
        let other = created[1 - me].try_clone().unwrap();
        let open = Box::new(move |_| {
            other.try_clone().map(|fd| Opened { fd, other: None }).map_err(|error| error.to_string())
        });
        let own = Segment::map(&created[me]).unwrap();
        Shm::new(own, BarrierKind::Symmetric, settings.clone(), open)
    })
}

fn send(from: &mut Shm, to: u32, bytes: &[u8]) {
    let envelope = Envelope { context: Context::Local(0), tag: 0 };
    let frame = Frame::Eager { envelope };
    let body = Body::Bytes(Bytes::from(bytes));
    assert_eq!(from.send(to, &Message { sequence: 0, frame, body, token: 0 }), Ok(Sent::Done));
}

fn receive(shm: &mut Shm, value: u8, bytes: usize) {
    let mut sink = Counting { value, bytes: 0 };
    while sink.bytes < bytes {
        shm.poll(&mut sink);
    }
    assert_eq!(sink.bytes, bytes);
}

/// Each becomes hot for the other.
fn make_hot(a: &mut Shm, b: &mut Shm) {
    for _ in 0..4 {
        send(a, 1, &[1]);
        receive(b, 1, 1);
        send(b, 0, &[2]);
        receive(a, 2, 1);
    }
}

/// A look for what comes soon tells of whatever lies in the ring, and takes nothing.
#[test]
fn what_comes_soon_is_told_and_stays() {
    let [mut a, mut b] = two();
    assert_eq!(b.comes_soon(0), None, "there is no ring yet");
    make_hot(&mut a, &mut b);
    assert_eq!((b.comes_soon(0), b.comes_soon(7)), (Some(false), None));
    // A message in its slot, one in two of a data ring or pool, and short ones that share a slot.
    for lengths in [&[8][..], &[100], &[70 << 10], &[8, 8, 8, 8, 8], &[8, 8, 100, 8]] {
        for len in lengths {
            send(&mut a, 1, &vec![3; *len]);
        }
        assert_eq!((b.comes_soon(0), b.comes_soon(0)), (Some(true), Some(true)), "{lengths:?}");
        let mut into = vec![0; 70 << 10];
        for (at, len) in lengths.iter().enumerate() {
            let taken = loop {
                match b.receive_now(0, 0, Tags::ANY, BytesMut::from(&mut into[..])) {
                    // What says that a slot is over was taken.
                    Taken::Nothing => assert_eq!(b.comes_soon(0), Some(true)),
                    taken => break taken,
                }
            };
            assert_eq!(taken, Taken::Message { tag: 0, len: *len }, "{lengths:?}, {at}");
            assert!(into[..*len].iter().all(|byte| *byte == 3));
        }
        // What is left, if anything, is the mark of a slot that nothing follows in.
        while b.comes_soon(0) == Some(true) {
            assert_eq!(b.receive_now(0, 0, Tags::ANY, BytesMut::from(&mut into[..])), Taken::Nothing);
        }
        assert_eq!(b.comes_soon(0), Some(false), "{lengths:?}");
    }
}

/// An answer lies in the pool of the one who reads it: what the dead have left there stays until it is read.
#[test]
fn what_the_dead_have_answered_is_read_before_its_blocks_are_free() {
    const LEN: usize = 40 << 10;
    let [mut a, mut b] = two();
    make_hot(&mut a, &mut b);
    let free = |shm: &mut Shm| shm.pool.as_mut().unwrap().free_bytes();
    let all = free(&mut a);
    send(&mut a, 1, &[3; LEN]);
    receive(&mut b, 3, LEN);
    send(&mut b, 0, &[4; LEN]);
    assert_eq!((free(&mut a), free(&mut b)), (all - (64 << 10), all), "it lies in the pool that it goes to");
    a.bury(1);
    assert_eq!(free(&mut a), all - (64 << 10), "it is not read");
    receive(&mut a, 4, LEN);
    a.skip_dead(&[1]);
    assert_eq!(free(&mut a), all);
}

/// Short messages that answer one another go by the exchange line, whoever begins; what goes otherwise comes behind them.
#[test]
fn short_messages_that_answer_one_another_leave_the_rings() {
    fn looks_at_two(shm: &Shm, peer: u32) -> bool {
        let link = shm.links[peer as usize].as_ref().unwrap();
        link.ring_in.as_ref().unwrap().receiver.looks_at_two()
    }
    for starter in 0..2 {
        let [mut a, mut b] = two();
        make_hot(&mut a, &mut b);
        let mut shms = [a, b];
        let peers = [starter, 1 - starter];
        for turn in 0..1000 {
            for at in peers {
                let (to, value, len) = (1 - at, turn as u8, 1 + turn % 56);
                let bytes = &[value; 56][..len];
                if !shms[at].send_now(to as u32, 0, 0, 0, Bytes::from(bytes)) {
                    send(&mut shms[at], to as u32, bytes);
                }
                assert!(!shms[to].is_calm());
                assert_eq!(shms[to].comes_soon(at as u32), Some(true));
                let mut into = [0; 56];
                match shms[to].receive_now(at as u32, 0, Tags::ANY, BytesMut::from(&mut into[..])) {
                    // There is a notice before it.
                    Taken::Other => receive(&mut shms[to], value, len),
                    taken => {
                        assert_eq!(taken, Taken::Message { tag: 0, len });
                        assert_eq!(&into[..len], bytes);
                    }
                }
            }
        }
        assert!(looks_at_two(&shms[1 - starter], starter as u32), "{starter} begins");
        // Two that nothing comes between, and a longer one: they come by the ring, though the turn is the receiver's.
        send(&mut shms[starter], 1 - starter as u32, &[4; 8]);
        receive(&mut shms[1 - starter], 4, 8);
        for len in [8, 100] {
            send(&mut shms[starter], 1 - starter as u32, &vec![4; len]);
        }
        assert_eq!(shms[1 - starter].comes_soon(starter as u32), Some(true));
        receive(&mut shms[1 - starter], 4, 108);
        for at in [starter, 1 - starter, starter] {
            shms[at].poll(&mut Counting { value: 0, bytes: 0 });
            assert!(!looks_at_two(&shms[at], 1 - at as u32) && shms[at].is_calm());
        }
    }
}

/// Knows where a message goes when that has begun, or not.
struct Placing {
    into: Vec<u8>,
    /// How much of it is there.
    have: usize,
    gives_place: bool,
    placed: usize,
}

impl Placing {
    fn put(&mut self, offset: usize, part: Bytes<'_>) {
        assert_eq!(offset, self.have, "parts come in order");
        part.copy_to(BytesMut::from(&mut self.into[offset..offset + part.len()]));
        self.have += part.len();
    }
}

impl Sink for Placing {
    fn eager(&mut self, _: u32, _: u8, _: Envelope, total: usize, first: Bytes<'_>) {
        (self.into, self.have) = (vec![0; total], 0);
        self.put(0, first);
    }
    fn eager_sync(&mut self, _: u32, _: u8, _: Envelope, _: u64, _: usize, _: Bytes<'_>) {}
    fn rendezvous(&mut self, _: u32, _: u8, _: Envelope, _: u64, _: u64, _: u64, first: Bytes<'_>) {
        (self.into, self.have) = (vec![0; first.len()], 0);
        self.put(0, first);
    }
    fn sync_ack(&mut self, _: u32, _: u64) {}
    fn pull(&mut self, _: u32, _: u64, _: u64, _: u64, _: u64) {}
    fn fin(&mut self, _: u32, _: u64) {}
    fn withdraw(&mut self, _: u32, _: u64, _: u64) {}
    fn withdrawn(&mut self, _: u32, _: u64) {}
    fn data(&mut self, _: u32, _: u64, _: u64, total: usize, first: Bytes<'_>) {
        (self.into, self.have) = (vec![0; total], 0);
        self.put(0, first);
    }
    fn learn(&mut self, _: u32, _: ContextId, _: u32) {}
    fn more(&mut self, _: u32, offset: usize, part: Bytes<'_>) {
        self.put(offset, part);
    }
    fn place(&mut self, _: u32, offset: usize, len: usize) -> Option<BytesMut<'_>> {
        assert_eq!(offset, self.have, "parts come in order");
        self.gives_place.then(|| BytesMut::from(&mut self.into[offset..offset + len]))
    }
    fn placed(&mut self, _: u32, _: usize, bytes: usize) {
        self.have += bytes;
        self.placed += bytes;
    }
    fn sent(&mut self, _: u64) {}
    fn lost(&mut self, _: u32) {}
}

/// Rule 9 of the ring: where a spread message goes is asked before its bytes are copied, unless it is the beginning of an
/// announced one, which comes with its frame.
#[test]
fn what_is_spread_is_copied_where_it_goes() {
    // Each copy is too slow where lines are written again soon, and none is so slow that it had better be streamed.
    let slow = Settings {
        slow_copy_in_first_part_ns_per_kib: 0,
        slow_copy_ns_per_kib: 1_000_000,
        ..Settings::default()
    };
    let envelope = Envelope { context: Context::Local(0), tag: 0 };
    let cases = [
        (Frame::Eager { envelope }, 20_000, true),
        (Frame::Data { receiver: 1, offset: 0 }, 20_000, true),
        (Frame::Rendezvous { envelope, request: 1, length: 1 << 20, address: 0 }, 6_000, false),
    ];
    for (gives_place, (frame, len, asks)) in
        [true, false].into_iter().flat_map(|gives_place| cases.map(|case| (gives_place, case)))
    {
        let bytes: Vec<u8> = (0..len).map(|at| (at * 7 / 3) as u8).collect();
        let [mut a, mut b] = two_with(&slow);
        make_hot(&mut a, &mut b);
        let mut sink = Placing { into: Vec::new(), have: 0, gives_place, placed: 0 };
        // Enough to see that copies are slow, and whether they are faster where they are spread.
        for number in 0..(4 << 20) / len {
            let body = Body::Bytes(Bytes::from(&bytes[..]));
            let sent = a.send(1, &Message { sequence: 0, frame, body, token: 0 });
            assert_eq!(sent, Ok(Sent::Done), "{frame:?}, {number}");
            (sink.have, sink.into) = (0, Vec::new());
            while sink.into.is_empty() || sink.have < len {
                b.poll(&mut sink);
            }
            assert!(sink.into == bytes, "{frame:?}, {number}");
        }
        assert_eq!(sink.placed > 0, gives_place && asks, "{frame:?}: {} bytes", sink.placed);
    }
}
