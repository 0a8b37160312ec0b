//! Tests with the emulation of Portals (`tests/portals-emulation/portals.c`): a process that puts
//! to itself.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;
use oxmpi_portals::{
    InterfaceOptions, MatchCriteria, PortalsEnding, PortalsEvent, PortalsInterface, PortalsLibrary,
    PutMessage, RemoteEntry,
};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

struct Emulated {
    interface: PortalsInterface<u32>,
    events: Vec<PortalsEvent<u32>>,
}

impl std::ops::Deref for Emulated {
    type Target = PortalsInterface<u32>;
    fn deref(&self) -> &Self::Target {
        &self.interface
    }
}

impl std::ops::DerefMut for Emulated {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.interface
    }
}

const OPTIONS: InterfaceOptions = InterfaceOptions {
    initiator_events: 64,
    target_events: 64,
    blocks: 1,
    block_len: 4096,
    longest_unexpected: 1000,
};

/// An interface of an emulation that only this test has loaded.
fn opened(name: &str, options: InterfaceOptions) -> Emulated {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("libportals-{name}-{}.so.4", std::process::id()));
    let source =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/portals-emulation/portals.c");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-O1", "-Wall", "-Wextra", "-Werror", "-o"]).arg(&library);
    let output = cc.arg(source).arg("-lpthread").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let opened = PortalsLibrary::open(library.to_str().unwrap()).unwrap();
    std::fs::remove_file(library).unwrap();
    let interface = PortalsInterface::open(&opened, options).unwrap();
    Emulated { interface, events: Vec::new() }
}

fn next(interface: &mut Emulated) -> PortalsEvent<u32> {
    let start = Instant::now();
    loop {
        if !interface.events.is_empty() {
            return interface.events.remove(0);
        }
        let Emulated { interface, events } = interface;
        interface.poll(events).unwrap();
        assert!(start.elapsed() < Duration::from_secs(20), "nothing comes");
    }
}

/// Puts bytes to this process, and waits for the acknowledgement.
fn put(interface: &mut Emulated, bits: u64, bytes: &[u8], token: u32) -> PortalsEnding {
    let to = RemoteEntry { process: interface.address(), index: interface.entries().0 };
    let message = PutMessage { bits, header: bits * 10, bytes: bytes.to_vec() };
    assert_eq!(interface.put(to, message, token).unwrap(), Ok(()));
    loop {
        match next(interface) {
            PortalsEvent::Ended { token: of, ending } if of == token => return ending,
            PortalsEvent::Disabled => {}
            other => panic!("{other:?}"),
        }
    }
}

fn one(bits: u64) -> MatchCriteria {
    MatchCriteria { bits, ignored: 0 }
}

fn buffer(len: usize) -> UserBuf {
    Owned::new(vec![0u8; len]).buf()
}

fn came(interface: &mut Emulated, token: u32) -> (u64, u64, Vec<u8>) {
    match next(interface) {
        PortalsEvent::Ended { token: of, ending: PortalsEnding::Came(arrival, buffer) }
            if of == token =>
        {
            (arrival.header, arrival.length, buffer.as_contiguous().unwrap().to_vec())
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn messages_are_matched_in_receives_and_in_blocks() {
    let mut interface = opened("match", OPTIONS);
    // The messages come before their receives; the first match is received first.
    for (bits, bytes) in [(1, &b"one"[..]), (2, b"two"), (1, b"three")] {
        assert!(matches!(put(&mut interface, bits, bytes, 7), PortalsEnding::Delivered));
    }
    let any = MatchCriteria { bits: 0, ignored: u64::MAX };
    assert!(interface.search(one(3), false, 50).unwrap());
    let nothing = PortalsEvent::Ended { token: 50, ending: PortalsEnding::NotFound };
    assert_eq!(format!("{:?}", next(&mut interface)), format!("{nothing:?}"));
    assert!(interface.search(any, false, 51).unwrap());
    match next(&mut interface) {
        PortalsEvent::Ended { token: 51, ending: PortalsEnding::Found(arrival, bytes) } => {
            assert_eq!((arrival.bits, arrival.length, bytes.len()), (1, 3, 0));
        }
        other => panic!("{other:?}"),
    }
    assert!(interface.receive(one(2), &buffer(2), 52).unwrap());
    assert_eq!(came(&mut interface, 52), (20, 3, b"tw".to_vec()), "cut, with its length");
    assert!(interface.search(any, true, 53).unwrap());
    match next(&mut interface) {
        PortalsEvent::Ended { token: 53, ending: PortalsEnding::Found(_, bytes) } => {
            assert_eq!(bytes, b"one")
        }
        other => panic!("{other:?}"),
    }
    assert!(interface.receive(any, &buffer(5), 54).unwrap());
    assert_eq!(came(&mut interface, 54), (10, 5, b"three".to_vec()));
    // The message comes after its receive. The other receive is unlinked before.
    assert!(interface.receive(one(9), &buffer(1), 55).unwrap());
    assert!(interface.receive(one(9), &buffer(4), 56).unwrap());
    assert_eq!(interface.unlink(|token| *token == 55), [55]);
    let to = RemoteEntry { process: interface.address(), index: interface.entries().0 };
    let message = PutMessage { bits: 9, header: 0, bytes: b"four".to_vec() };
    interface.put(to, message, 57).unwrap().unwrap();
    let mut ends = vec![];
    while ends.len() < 2 {
        match next(&mut interface) {
            PortalsEvent::Ended { token, .. } => ends.push(token),
            other => panic!("{other:?}"),
        }
    }
    ends.sort();
    assert_eq!(ends, [56, 57]);
    assert!(interface.unlink(|_| true).is_empty() && !interface.is_live(|_| true));
}

#[test]
fn memory_is_got_by_who_knows_its_bits_and_once() {
    let mut interface = opened("get", OPTIONS);
    let own = interface.address();
    let from = RemoteEntry { process: own, index: interface.entries().1 };
    let data: Vec<u8> = (0..100).collect();
    let exposed = Owned::new(data.clone()).buf();
    assert!(interface.expose(own, 4, &exposed, false, 1).unwrap());
    assert!(interface.expose(own, 5, &exposed, true, 2).unwrap());
    let into = buffer(60);
    // The data and the event of the fetch come in either order.
    let mut fetched = false;
    for (bits, offset, at, len, token) in [(4, 30, 10, 50, 3), (5, 0, 0, 10, 4)] {
        assert!(interface.get(from, (bits, offset), (&into, at, len), token).unwrap());
        let mut got = false;
        while !got || (bits == 5 && !fetched) {
            match next(&mut interface) {
                PortalsEvent::Ended { token: of, ending: PortalsEnding::Got } if of == token => {
                    got = true
                }
                PortalsEvent::Ended { token: 2, ending: PortalsEnding::Fetched } => fetched = true,
                other => panic!("{other:?}"),
            }
        }
    }
    assert_eq!(into.as_contiguous().unwrap().to_vec(), [&data[..10], &data[30..80]].concat());
    assert!(!interface.is_live(|token| *token == 2), "fetched once");
    for bits in [5, 6] {
        assert!(interface.get(from, (bits, 0), (&into, 0, 1), 9).unwrap());
        let event = next(&mut interface);
        assert!(
            matches!(event, PortalsEvent::Ended { token: 9, ending: PortalsEnding::Absent }),
            "{event:?}"
        );
    }
    assert_eq!(interface.unlink(|token| *token == 1), [1]);
}

/// A full block is replaced when its event is read; until then a message without room disables the
/// entry.
#[test]
fn what_finds_no_room_is_refused_until_the_entry_is_enabled() {
    let mut interface = opened("flow", OPTIONS);
    let to = RemoteEntry { process: interface.address(), index: interface.entries().0 };
    for number in 0..10u32 {
        let bytes = vec![number as u8; 1000];
        let message = PutMessage { bits: u64::from(number), header: 0, bytes };
        interface.put(to, message, number).unwrap().unwrap();
    }
    // No event is read before all messages have been answered.
    std::thread::sleep(Duration::from_millis(500));
    let (mut delivered, mut refused, mut disabled) = (vec![], vec![], 0);
    while delivered.len() + refused.len() < 10 {
        match next(&mut interface) {
            PortalsEvent::Ended { token, ending: PortalsEnding::Delivered } => {
                delivered.push(token)
            }
            PortalsEvent::Ended { ending: PortalsEnding::Refused(message), .. } => {
                refused.push(message)
            }
            PortalsEvent::Disabled => disabled += 1,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!((delivered, disabled), (vec![0, 1, 2, 3], 1), "as many as fit in a block");
    interface.enable().unwrap();
    for message in refused {
        assert_eq!(message.bytes, vec![message.bits as u8; 1000]);
        let bits = message.bits;
        assert!(matches!(put(&mut interface, bits, &message.bytes, 90), PortalsEnding::Delivered));
    }
    for number in 0..10u32 {
        let any = MatchCriteria { bits: 0, ignored: u64::MAX };
        assert!(interface.receive(any, &buffer(1000), 91).unwrap());
        assert_eq!(came(&mut interface, 91).2, vec![number as u8; 1000]);
    }
}
