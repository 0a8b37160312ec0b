//! Scratch room takes no time and no memory before it is used: a collective of huge counts may only
//! be prepared, or use little of it.

#![allow(clippy::unwrap_used)] // a test may panic anywhere

use oxmpi_mem::memory::Scratch;

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4096
}

#[test]
fn pages_come_when_they_are_used() {
    const HUGE: usize = 4 << 30;
    let before = resident();
    // A machine may have no room for it.
    let Ok(scratch) = Scratch::bytes(HUGE) else { return };
    assert_eq!(scratch.buf().packed_len(), HUGE);
    assert!(resident() - before < HUGE / 8);
}

#[test]
fn it_is_zero() {
    for len in [0, 1, 63, 64, 1000, 1 << 20] {
        let scratch = Scratch::bytes(len).unwrap();
        let mut all = vec![1; len];
        scratch.buf().pack(0, oxmpi_sys::bytes::BytesMut::from(&mut all[..]));
        assert!(all.iter().all(|byte| *byte == 0));
    }
}
