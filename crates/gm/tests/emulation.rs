//! Ports of the emulation in `tests/gm-emulation`, several in one process.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

use oxmpi_gm::{GmError, GmEvent, GmLibrary, GmOperation, GmStatus, GmTarget, OpenPort};
use oxmpi_mem::memory::Owned;
use oxmpi_sys::bytes::Bytes;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

fn library() -> Arc<GmLibrary> {
    static LIBRARY: OnceLock<Arc<GmLibrary>> = OnceLock::new();
    let make = || {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/gm-emulation/gm.c");
        let process = std::process::id();
        let library = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("libgm-{process}.so"));
        let mut cc = Command::new("cc");
        cc.args(["-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-pthread", "-o"])
            .arg(&library)
            .arg(source);
        let output = cc.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for (name, value) in [
            ("GM_EMULATION_NETWORK", format!("room-{process}")),
            ("GM_EMULATION_TIMEOUT_MS", "300".into()),
            ("GM_EMULATION_SEND_TOKENS", "4".into()),
            ("GM_EMULATION_RECEIVE_TOKENS", "4".into()),
            ("GM_EMULATION_VANISH", "12:1".into()),
            ("GM_EMULATION_REGISTERED", "3000000".into()),
        ] {
            // SAFETY: done once, before any port is opened, so the emulation's threads do not read
            // the environment yet.
            unsafe { std::env::set_var(name, value) };
        }
        let opened = GmLibrary::open(library.to_str().unwrap()).unwrap();
        std::fs::remove_file(library).unwrap();
        opened
    };
    LIBRARY.get_or_init(make).clone()
}

fn port(number: u32) -> OpenPort {
    OpenPort::open(&library(), 0, [number].into_iter(), 1000).unwrap()
}

fn target(of: &OpenPort, number: u32) -> GmTarget {
    GmTarget { node: of.resolve(of.node()).unwrap(), port: number }
}

fn events(port: &mut OpenPort, count: usize) -> Vec<GmEvent> {
    let (mut events, start) = (Vec::new(), Instant::now());
    while events.len() < count {
        assert!(start.elapsed() < Duration::from_secs(20), "{events:?}");
        port.poll(&mut events);
        std::thread::sleep(Duration::from_micros(100));
    }
    events
}

fn send(port: &mut OpenPort, label: u32, to: GmTarget, bytes: &[u8]) {
    let slot = port.more_slots(1).unwrap()[0];
    port.slot_mut(slot)[..bytes.len()].copy_from_slice(bytes);
    port.send(label, to, slot, bytes.len()).unwrap();
    assert!(port.slot(slot).is_empty(), "GM has it");
}

fn statuses(events: &[GmEvent]) -> Vec<(u32, GmStatus)> {
    let ended = |event: &GmEvent| match event {
        GmEvent::Ended { label, status, .. } => Some((*label, status.clone())),
        GmEvent::Received { .. } => None,
    };
    events.iter().filter_map(ended).collect()
}

#[test]
fn messages_of_all_lengths_come_with_their_sender_while_nobody_polls() {
    let (mut one, mut two) = (port(4), port(5));
    assert_eq!(
        (one.number(), one.slot_len(), one.send_tokens(), two.receive_tokens()),
        (4, 1016, 4, 4)
    );
    two.more_slots(4).unwrap().into_iter().for_each(|slot| two.provide(slot).unwrap());
    let to = target(&one, 5);
    let messages: Vec<Vec<u8>> =
        [0usize, 1, 128, 1016].iter().map(|len| vec![*len as u8 ^ 7; *len]).collect();
    for (label, message) in messages.iter().enumerate() {
        send(&mut one, label as u32, to, message);
    }
    assert_eq!(one.send_tokens(), 0);
    let done: Vec<_> = (0..4).map(|label| (label, GmStatus::Done)).collect();
    // The receiver has not polled yet: the interface receives into all provided buffers.
    assert_eq!(statuses(&events(&mut one, 4)), done);
    let came = events(&mut two, 4);
    for (event, message) in came.iter().zip(&messages) {
        let GmEvent::Received { slot, len, from } = event else { panic!("{event:?}") };
        assert_eq!((&two.slot(*slot)[..*len], *from), (&message[..], target(&two, 4)));
    }
    assert_eq!((one.send_tokens(), two.receive_tokens()), (4, 4));
}

#[test]
fn nothing_goes_without_a_token() {
    let mut port = port(6);
    let slots = port.more_slots(5).unwrap();
    let to = target(&port, 7);
    for slot in &slots[..4] {
        port.provide(*slot).unwrap();
    }
    let why = port.provide(slots[4]).unwrap_err().to_string();
    assert!(why.contains("port 6") && why.contains("receive tokens"), "{why}");
    let others = port.more_slots(5).unwrap();
    for slot in &others[..4] {
        port.send(0, to, *slot, 8).unwrap();
    }
    assert!(matches!(
        port.send(0, to, others[4], 8),
        Err(GmError::Exhausted { what: "send tokens", .. })
    ));
}

#[test]
fn a_port_has_one_owner_and_the_next_free_one_is_taken() {
    let first = port(8);
    let open = |ports: std::ops::RangeInclusive<u32>| OpenPort::open(&library(), 0, ports, 1000);
    let why = open(8..=8).unwrap_err().to_string();
    assert!(why.contains("gm_open") && why.contains("busy"), "{why}");
    assert_eq!(open(8..=10).unwrap().number(), 9);
    // The interface has ports up to 15.
    let why = OpenPort::open(&library(), 0, [8, 16].into_iter(), 1000).unwrap_err().to_string();
    assert!(why.contains("busy"), "{why}");
    assert!(
        OpenPort::open(&library(), 0, [16].into_iter(), 1000)
            .unwrap_err()
            .to_string()
            .contains("invalid port number")
    );
    assert!(
        OpenPort::open(&library(), 1, [9].into_iter(), 1000)
            .unwrap_err()
            .to_string()
            .contains("device")
    );
    drop(first);
    assert_eq!(open(8..=8).unwrap().number(), 8);
}

/// The first operation of a queue fails, the others wait until it is dropped, and then the order is
/// free again.
#[test]
fn what_finds_no_buffer_times_out_and_stops_what_is_behind_it() {
    let (mut one, mut two) = (port(10), port(11));
    let to = target(&one, 11);
    (0..3).for_each(|label| send(&mut one, label, to, b"too early"));
    assert_eq!(statuses(&events(&mut one, 1)), [(0, GmStatus::TimedOut)]);
    two.more_slots(4).unwrap().into_iter().for_each(|slot| two.provide(slot).unwrap());
    std::thread::sleep(Duration::from_millis(400));
    let mut none = Vec::new();
    one.poll(&mut none);
    two.poll(&mut none);
    assert!(none.is_empty(), "{none:?}");
    one.drop_sends(9, to).unwrap();
    let mut ended = statuses(&events(&mut one, 3));
    ended.sort_by_key(|(label, _)| *label);
    assert_eq!(ended, [(1, GmStatus::Dropped), (2, GmStatus::Dropped), (9, GmStatus::Done)]);
    send(&mut one, 3, to, b"again");
    assert_eq!(statuses(&events(&mut one, 1)), [(3, GmStatus::Done)]);
    let came = events(&mut two, 1);
    assert!(
        matches!(&came[0], GmEvent::Received { slot, len: 5, .. } if &two.slot(*slot)[..5] == b"again")
    );
}

#[test]
fn a_port_that_is_closed_or_cut_off_fails_what_goes_there() {
    let mut one = port(13);
    let to = target(&one, 14);
    send(&mut one, 1, to, b"nobody");
    let ended = statuses(&events(&mut one, 1));
    assert!(
        matches!(&ended[..], [(1, GmStatus::Failed(why))] if why.contains("target port was closed"))
    );
    let _cut_off = port(12);
    let to = target(&one, 12);
    let word = one.new_word().unwrap();
    // The first packet is still answered.
    for label in [2, 3] {
        if label == 3 {
            one.drop_sends(0, to).unwrap();
            events(&mut one, 1);
        }
        one.put_word(label, to, word, (64, 1)).unwrap();
        let [(got, status)] = &statuses(&events(&mut one, 1))[..] else { panic!() };
        let is_cut = matches!(status, GmStatus::Failed(why) if why.contains("unreachable"));
        assert_eq!((*got, is_cut), (label, label == 3), "{status:?}");
    }
}

#[test]
fn a_word_is_written_where_its_owner_has_it_and_nowhere_else() {
    let (mut one, mut two) = (port(2), port(15));
    let (own, its) = (one.new_word().unwrap(), two.new_word().unwrap());
    let address = two.word_address(its);
    for (label, at, value) in [(1, address, 7), (2, 4096, 9)] {
        one.put_word(label, target(&one, 15), own, (at, value)).unwrap();
        let ended = events(&mut one, 1);
        let [GmEvent::Ended { operation: GmOperation::PutWord, status, .. }] = &ended[..] else {
            panic!()
        };
        let is_rejected =
            matches!(status, GmStatus::Failed(why) if why.contains("send was rejected"));
        assert_eq!(
            (is_rejected, *status == GmStatus::Done),
            (at != address, at == address),
            "{status:?}"
        );
        assert_eq!(two.word(its), 7);
    }
    // A peer can read it there as well, without any call of its process.
    two.set_word(its, 11);
    one.drop_sends(3, target(&one, 15)).unwrap();
    events(&mut one, 1);
    one.get_word(4, target(&one, 15), own, address).unwrap();
    events(&mut one, 1);
    assert_eq!(one.word(own), 11);
    let mut none = Vec::new();
    two.poll(&mut none);
    assert!(none.is_empty(), "a word takes no buffer and makes no event");
    moves_regions(&mut one, &mut two);
}

/// Regions are moved while both are registered, which is possible only for a limited number of
/// bytes.
fn moves_regions(one: &mut OpenPort, two: &mut OpenPort) {
    let values: Vec<u8> = (0..1_000_003u32).map(|at| (at * 7 + (at >> 9)) as u8).collect();
    let (full, empty) = (Owned::new(values.clone()), Owned::new(vec![0u8; values.len()]));
    let bytes = |of: &Owned<u8>| of.buf().as_contiguous().unwrap().to_vec();
    let (to, from) = (target(one, 15), target(two, 2));
    let (own, its) = (one.register(&full.buf()).unwrap(), two.register(&empty.buf()).unwrap());
    one.put(1, to, own, two.region_address(its)).unwrap();
    assert_eq!(statuses(&events(one, 1)), [(1, GmStatus::Done)]);
    assert!(bytes(&empty) == values);
    full.buf().unpack(0, Bytes::from(&b"changed since"[..]));
    two.get(2, from, its, one.region_address(own)).unwrap();
    assert_eq!(statuses(&events(two, 1)), [(2, GmStatus::Done)]);
    assert!(bytes(&empty) == bytes(&full));
    let second = one.register(&full.buf()).unwrap();
    let why = one.register(&full.buf()).unwrap_err().to_string();
    assert!(why.contains("gm_register_memory says: out of memory"), "{why}");
    one.deregister(second);
    // A buffer that is registered a second time stays registered.
    two.get(3, from, its, one.region_address(own)).unwrap();
    assert_eq!(statuses(&events(two, 1)), [(3, GmStatus::Done)]);
    let address = one.region_address(own);
    one.deregister(own);
    assert!(one.put(4, to, own, two.region_address(its)).is_err(), "it is ended");
    two.get(5, from, its, address).unwrap();
    let ended = statuses(&events(two, 1));
    assert!(
        matches!(&ended[..], [(5, GmStatus::Failed(why))] if why.contains("rejected")),
        "{ended:?}"
    );
}
