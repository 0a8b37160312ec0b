//! Receives of long messages as the engine makes them, for tests of transports that move pieces out
//! of and into registered memory.
#![allow(clippy::unwrap_used)] // a failure fails the test

use crate::FrameSink;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::layout::Layout;
use oxmpi_mem::memory::Owned;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::{Announced, ContextId, Envelope};
use std::collections::HashMap;
use std::sync::Arc;

/// Fills the memory of a receive before anything arrives.
pub(crate) const BLANK: u8 = 0xee;

pub(crate) struct Receive {
    pub(crate) memory: Owned<u8>,
    /// Takes bytes only from [`FrameSink::more`] and [`FrameSink::data`].
    is_scattered: bool,
    pub(crate) stored: usize,
}

#[derive(Default)]
pub(crate) struct Receives {
    pub(crate) all: HashMap<u64, Receive>,
    body: Option<(u64, usize)>,
    pub(crate) sent: Vec<u64>,
    pub(crate) lost: Vec<u32>,
}

impl Receives {
    pub(crate) fn post(&mut self, number: u64, len: usize, is_scattered: bool) {
        self.all.insert(
            number,
            Receive { memory: Owned::new(vec![BLANK; len]), is_scattered, stored: 0 },
        );
    }

    pub(crate) fn is_over(&self, number: u64) -> bool {
        self.all.get(&number).is_none_or(|one| one.stored == one.memory.len())
    }

    pub(crate) fn bytes(&self, number: u64) -> Vec<u8> {
        self.all[&number].memory.buf().as_contiguous().unwrap().to_vec()
    }
}

impl FrameSink for Receives {
    fn eager(&mut self, _: u32, _: u8, _: Envelope, _: usize, _: Bytes<'_>) {}
    fn eager_sync(&mut self, _: u32, _: u8, _: Envelope, _: u64, _: usize, _: Bytes<'_>) {}
    fn rendezvous(&mut self, _: u32, _: u8, _: Envelope, _: Announced, _: Bytes<'_>) {}
    fn sync_ack(&mut self, _: u32, _: u64) {}
    fn pull(&mut self, _: u32, _: u64, _: u64, _: u64, _: bool) {}
    fn fin(&mut self, _: u32, _: u64) {}
    fn withdraw(&mut self, _: u32, _: u64, _: u64) {}
    fn withdrawn(&mut self, _: u32, _: u64) {}
    fn learn(&mut self, _: u32, _: ContextId, _: u32) {}
    fn data(&mut self, _: u32, receiver: u64, offset: u64, total: usize, first: Bytes<'_>) {
        self.body = Some((receiver, offset as usize));
        if first.len() == total
            && let Some(one) = self.all.get_mut(&receiver)
        {
            one.memory.buf().unpack(offset as usize, first);
            one.stored += first.len();
        }
    }
    fn more(&mut self, _: u32, _: usize, _: Bytes<'_>) {
        panic!("a frame has all of its body");
    }
    fn place_lent(&mut self, _: u32, offset: usize, len: usize) -> Option<UserBuf> {
        let (receiver, base) = self.body?;
        let one = self.all.get(&receiver).filter(|one| !one.is_scattered)?;
        one.memory.buf().packed_range(base + offset, len)
    }
    fn placed(&mut self, _: u32, _: usize, bytes: usize) {
        let (receiver, _) = self.body.expect("a body was begun");
        if let Some(one) = self.all.get_mut(&receiver) {
            one.stored += bytes;
        }
    }
    fn sent(&mut self, token: u64) {
        self.sent.push(token);
    }
    fn lost(&mut self, peer: u32) {
        self.lost.push(peer);
    }
}

pub(crate) fn pattern(number: u64, len: usize) -> Vec<u8> {
    (0..len).map(|at| ((at as u64 * 7 + number * 13 + (at as u64 >> 8)) % 211) as u8).collect()
}

pub(crate) fn scattered(values: &[u8]) -> UserBuf {
    let half = values.len() / 2;
    assert_eq!(half * 2, values.len());
    let mut memory = vec![0u8; half * 3];
    memory[..half].copy_from_slice(&values[..half]);
    memory[half * 2..].copy_from_slice(&values[half..]);
    let memory = Owned::new(memory);
    let byte = Layout::basic(1, 1);
    let layout = Arc::new(Layout::hvector(2, half, half as isize * 2, &byte).unwrap());
    memory.buf().cast(1, &layout).unwrap()
}

/// The eager messages and the losses that a transport reports.
#[derive(Default)]
pub(crate) struct Mailbox {
    pub(crate) came: Vec<(i32, Vec<u8>)>,
    pub(crate) lost: Vec<u32>,
}

impl FrameSink for Mailbox {
    fn eager(&mut self, _: u32, _: u8, envelope: Envelope, total: usize, first: Bytes<'_>) {
        assert_eq!(total, first.len());
        self.came.push((envelope.tag, first.to_vec()));
    }
    fn eager_sync(&mut self, _: u32, _: u8, _: Envelope, _: u64, _: usize, _: Bytes<'_>) {}
    fn rendezvous(&mut self, _: u32, _: u8, _: Envelope, _: Announced, _: Bytes<'_>) {}
    fn sync_ack(&mut self, _: u32, _: u64) {}
    fn pull(&mut self, _: u32, _: u64, _: u64, _: u64, _: bool) {}
    fn fin(&mut self, _: u32, _: u64) {}
    fn withdraw(&mut self, _: u32, _: u64, _: u64) {}
    fn withdrawn(&mut self, _: u32, _: u64) {}
    fn data(&mut self, _: u32, _: u64, _: u64, _: usize, _: Bytes<'_>) {}
    fn learn(&mut self, _: u32, _: ContextId, _: u32) {}
    fn more(&mut self, _: u32, _: usize, _: Bytes<'_>) {}
    fn sent(&mut self, _: u64) {}
    fn lost(&mut self, peer: u32) {
        self.lost.push(peer);
    }
}

/// A short message of any length.
pub(crate) fn planned(from: u32, number: u32) -> Vec<u8> {
    let len = (number * 29 + from * 7) % 65;
    (0..len).map(|at| (at * 31 + number * 7 + from) as u8).collect()
}
