//! Helpers of the tests of messages between ranks of one program.

use oxmpi_core::{Communicator, Process};
use oxmpi_engine::Mode;
use oxmpi_fabric::routes::Routes;
use oxmpi_mem::memory::{lend, lend_mut};

pub(crate) fn pattern(from: i32, number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + i / 255 + number * 13 + from as usize * 31) as u8).collect()
}

pub(crate) fn send(
    p: &Process<Routes>,
    comm: &Communicator,
    mode: Mode,
    data: &[u8],
    to: i32,
    tag: i32,
) {
    lend(data, |buffer| p.send(comm, mode, buffer, to, tag)).unwrap();
}

pub(crate) fn receive(
    p: &Process<Routes>,
    comm: &Communicator,
    len: usize,
    from: i32,
    tag: i32,
) -> (Vec<u8>, i32, i32) {
    let mut data = vec![0u8; len];
    let done = lend_mut(&mut data, |buffer| p.recv(comm, buffer, from, tag)).unwrap();
    data.truncate(done.bytes as usize);
    (data, done.source, done.tag)
}
