//! Loopback: ranks of one program, through queues in its memory. It is the example for a new
//! transport (`docs/transports-howto.md`), so it has only the parts that every transport has.
//!
//! Rules (besides the promises at the head of this crate)
//!
//! 1. A frame and its body are one packet, copied when it is sent: all sends are [`Sent::Done`],
//!    and no body comes in parts.
//! 2. Each process has one queue, to which all others send, and which has room for [`ROOM`]
//!    packets. So packets of one process to another stay in order.
//! 3. No peer wakes a process that sleeps: its sleeps are short.
//! 4. Packets that a process has sent before it leaves are in the queues of the others. Processes
//!    of one program do not die alone.

mod module;

use crate::{
    FrameSink, Limits, Membership, OutgoingMessage, Sent, Statistics, Transport, Unreachable,
    dispatch,
};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Frame, MAX_FRAME_LEN};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const EAGER: usize = 16 << 10;
const PIECE: usize = 64 << 10;
pub const ROOM: usize = 64;

/// The queues that the processes share.
#[derive(Debug)]
pub struct PacketQueues {
    first: u32,
    all: Vec<PacketQueue>,
}

#[derive(Debug, Default)]
struct PacketQueue {
    /// Frames, each with its body.
    packets: Mutex<VecDeque<Box<[u8]>>>,
    has_left: AtomicBool,
}

impl PacketQueues {
    /// The queues of these processes.
    pub fn new(processes: Range<u32>) -> PacketQueues {
        let first = processes.start;
        PacketQueues { first, all: processes.map(|_| PacketQueue::default()).collect() }
    }

    fn of(&self, process: u32) -> Option<&PacketQueue> {
        self.all.get(process.checked_sub(self.first)? as usize)
    }
}

impl PacketQueue {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Box<[u8]>>> {
        // A panic leaves a valid queue.
        self.packets.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The transport of one process.
#[derive(Debug)]
pub struct Loopback {
    own: u32,
    queues: Arc<PacketQueues>,
}

impl Loopback {
    /// The transport of process `own`, which has one of the queues.
    pub fn new(own: u32, queues: Arc<PacketQueues>) -> Loopback {
        Loopback { own, queues }
    }
}

impl Transport for Loopback {
    fn name(&self) -> &'static str {
        "loopback"
    }

    fn polls_kernel(&self) -> bool {
        false
    }

    fn reaches(&self, peer: u32) -> bool {
        self.queues.of(peer).is_some()
    }

    fn limits(&self, _to: u32) -> Limits {
        Limits { eager: EAGER, announced: 0 }
    }

    fn piece_limit(&mut self, _to: u32) -> usize {
        PIECE
    }

    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable> {
        let unknown = || Unreachable { peer: to, why: "it is no rank of this program".into() };
        let mut queue = self.queues.of(to).ok_or_else(unknown)?.lock();
        if queue.len() >= ROOM {
            return Ok(Sent::Full);
        }
        let mut frame = [0; MAX_FRAME_LEN];
        let len = message.frame.encode(message.sequence, self.own, &mut frame);
        let mut packet = vec![0; len + message.body.len()].into_boxed_slice();
        packet[..len].copy_from_slice(&frame[..len]);
        message.body.fill(0, BytesMut::from(&mut packet[len..]));
        queue.push_back(packet);
        Ok(Sent::Done)
    }

    fn poll(&mut self, _except: Option<u32>, sink: &mut dyn FrameSink) -> bool {
        // The queue is unlocked before the sink is called: the sink may send an answer.
        let Some(packets) = self.queues.of(self.own).map(|own| std::mem::take(&mut *own.lock()))
        else {
            return false;
        };
        for packet in &packets {
            // This program has encoded the packet.
            let Ok(got) = Frame::decode(packet) else { continue };
            let body = &packet[got.body_at..];
            dispatch(got.source, &got, body.len(), Bytes::from(body), sink);
        }
        !packets.is_empty()
    }

    fn before_sleep(&mut self) -> bool {
        self.queues.of(self.own).is_none_or(|own| own.lock().is_empty())
    }

    fn sleeps_lightly(&self) -> bool {
        true
    }
}

impl Membership for Loopback {
    fn has_left(&mut self, peer: u32) -> bool {
        self.queues.of(peer).is_some_and(|own| own.has_left.load(Ordering::Acquire))
    }

    fn leave(&mut self) -> bool {
        if let Some(own) = self.queues.of(self.own) {
            own.has_left.store(true, Ordering::Release);
        }
        true
    }
}

impl Statistics for Loopback {}
