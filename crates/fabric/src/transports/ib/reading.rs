//! Long pieces of messages at their receiver, whose adapter reads them (rule 4 of the module).

use super::settings::READS;
use super::{Ib, IbPort};
use crate::transports::peer_of;
use crate::{Body, FrameSink, OutgoingMessage, Sent};
use oxmpi_sys::bytes::Bytes;
use oxmpi_verbs::{RegionId, RemoteMemory, VerbsError};
use oxmpi_wire::Frame;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The bytes of one read: any device allows this length.
pub(super) const READ_LEN: usize = 1 << 20;
const REPETITIONS: u32 = 2;
/// The longest wait for a read whose memory is taken back, before its connection is closed.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);
/// The longest wait for an operation of a closed connection. A longer one is a fault of the device.
pub(super) const FORCE: Duration = Duration::from_secs(10);

#[derive(Debug)]
struct Reading {
    from: u32,
    number: u64,
    receiver: u64,
    offset: u64,
    length: usize,
    place: RemoteMemory,
    region: RegionId,
    /// The bytes whose reads were posted.
    posted: usize,
    /// Operations that have not ended.
    under_way: u32,
    /// Whether the last operation, the read of the check, was posted.
    is_checked: bool,
    /// An operation has failed, so all bytes are read again over the next connection.
    has_failed: bool,
    repetitions: u32,
    /// The receive was released, or its sender is lost.
    is_given_up: bool,
}

impl Reading {
    fn is_over(&self) -> bool {
        self.under_way == 0 && (self.is_given_up || self.is_checked && !self.has_failed)
    }
}

#[derive(Debug, Default)]
pub(super) struct Readings {
    readings: VecDeque<Reading>,
    owed: VecDeque<(u32, Frame)>,
    pub(super) bytes: u64,
}

impl Readings {
    pub(super) fn waits_for_room(&self) -> bool {
        !self.owed.is_empty()
    }

    fn is_idle(&self) -> bool {
        self.readings.is_empty() && self.owed.is_empty()
    }

    pub(super) fn owes(&self, peer: u32) -> bool {
        self.readings.iter().any(|one| one.from == peer)
            || self.owed.iter().any(|(to, _)| *to == peer)
    }

    pub(super) fn has_news(&self) -> bool {
        self.readings.iter().any(Reading::is_over)
    }
}

fn extract(queue: &mut VecDeque<Reading>, is_it: impl FnMut(&mut Reading) -> bool) -> Vec<Reading> {
    let mut all: Vec<Reading> = std::mem::take(queue).into();
    let taken = all.extract_if(.., is_it).collect();
    *queue = all.into();
    taken
}

impl<P: IbPort> Ib<P> {
    pub(super) fn take_own(
        &mut self,
        from: u32,
        frame: Frame,
        body: Option<RemoteMemory>,
        sink: &mut dyn FrameSink,
    ) {
        match (frame, body) {
            (Frame::DataAt { receiver, offset, length, number }, Some(place)) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                sink.data(from, receiver, offset, length, Bytes::empty());
                let Some(region) = self.place_for(from, length, sink) else {
                    self.readings.owed.push_back((from, Frame::DataRead { number, whole: false }));
                    return;
                };
                self.readings.readings.push_back(Reading {
                    from,
                    number,
                    receiver,
                    offset,
                    length,
                    place,
                    region,
                    posted: 0,
                    under_way: 0,
                    is_checked: false,
                    has_failed: false,
                    repetitions: 0,
                    is_given_up: false,
                });
                self.post_reads();
            }
            (Frame::DataRead { number, whole }, _) => self.was_read(from, number, whole),
            _ => {}
        }
    }

    fn place_for(
        &mut self,
        from: u32,
        length: usize,
        sink: &mut dyn FrameSink,
    ) -> Option<RegionId> {
        let buffer = sink.place_lent(from, 0, length)?;
        self.port.register(&buffer).inspect_err(|error| self.warn_of_registration(error)).ok()
    }

    fn post_reads(&mut self) {
        for at in 0..self.readings.readings.len() {
            loop {
                let Ib { peers, port, readings, .. } = self;
                let Some(one) = readings.readings.get_mut(at) else { break };
                let Some(peer) = peer_of(peers, one.from) else {
                    break;
                };
                if !peer.is_ready
                    || one.is_checked
                    || one.has_failed
                    || one.is_given_up
                    || peer.is_gone
                    || peer.reads >= READS
                {
                    break;
                }
                let queue_pair = peer.end.queue_pair;
                let len = READ_LEN.min(one.length - one.posted);
                let posted = if len > 0 {
                    let (address, key) = one.place.memory;
                    let from = (address.wrapping_add(one.posted as u64), key);
                    port.read(queue_pair, one.region, (one.posted, len as u32), from)
                } else {
                    port.read_check(queue_pair, one.region, one.place.check)
                };
                match posted {
                    Ok(()) => {
                        (one.posted, one.is_checked) = (one.posted + len, len == 0);
                        one.under_way += 1;
                        peer.reads += 1;
                    }
                    Err(error) => {
                        one.has_failed = true;
                        let from = one.from;
                        self.fail(from, error.to_string());
                        break;
                    }
                }
            }
        }
    }

    /// Returns whether the region belongs to a message. The call may come outside of a poll.
    pub(super) fn read_ended(&mut self, region: RegionId, has_failed: bool) -> bool {
        let Some(one) = self.readings.readings.iter_mut().find(|one| one.region == region) else {
            return false;
        };
        one.under_way = one.under_way.saturating_sub(1);
        one.has_failed |= has_failed;
        let from = one.from;
        if let Some(peer) = self.peer(from) {
            peer.reads = peer.reads.saturating_sub(1);
        }
        true
    }

    pub(super) fn finish_readings(&mut self, sink: &mut dyn FrameSink) -> bool {
        if self.readings.is_idle() {
            return false;
        }
        let mut any = false;
        for one in extract(&mut self.readings.readings, |one| one.is_over()) {
            any = true;
            let is_whole = self.port.check_of(one.region) == one.number;
            self.port.deregister(one.region);
            // If the sender has taken its buffer back, the data are no message, and none will come.
            if is_whole && !one.is_given_up {
                self.readings.bytes += one.length as u64;
                sink.data(one.from, one.receiver, one.offset, one.length, Bytes::empty());
                sink.placed(one.from, 0, one.length);
            }
            self.readings
                .owed
                .push_back((one.from, Frame::DataRead { number: one.number, whole: true }));
        }
        self.post_reads();
        self.send_owed() || any
    }

    fn send_owed(&mut self) -> bool {
        let mut any = false;
        for (to, frame) in std::mem::take(&mut self.readings.owed) {
            let message = OutgoingMessage::new(frame, Body::NONE);
            match self.send_envelope(to, Some(&message)) {
                Ok(Sent::Full) => self.readings.owed.push_back((to, frame)),
                _ => any = true,
            }
        }
        any
    }

    /// The memory of a receive is the program's again: ends all writes into it.
    pub(super) fn stop_receive(&mut self, receiver: u64) {
        if self.give_up_readings(|one| one.receiver == receiver) {
            self.stop_given_up();
        }
    }

    pub(super) fn stop_reads_into(&mut self, regions: &[RegionId]) {
        if self.give_up_readings(|one| regions.contains(&one.region)) {
            self.stop_given_up();
        }
    }

    pub(super) fn regions_read_into(&self) -> impl Iterator<Item = RegionId> + '_ {
        self.readings.readings.iter().map(|one| one.region)
    }

    /// Waits, and closes connections whose reads take long.
    fn stop_given_up(&mut self) {
        self.await_reads(PATIENCE);
        let stuck: Vec<u32> = self.stuck().collect();
        for peer in stuck {
            self.fail(peer, "a read whose memory is needed has not ended".into());
        }
        self.end_given_up();
    }

    pub(super) fn forget_readings(&mut self, peer: u32) {
        self.readings.owed.retain(|(to, _)| *to != peer);
        if !self.give_up_readings(|one| one.from == peer) {
            return;
        }
        self.end_given_up();
        self.readings.owed.retain(|(to, _)| *to != peer);
    }

    fn end_given_up(&mut self) {
        self.await_reads(FORCE);
        if self.stuck().next().is_some() {
            self.say("a read of a closed connection does not end, so no memory is safe from it");
            std::process::abort();
        }
        self.drop_given_up();
    }

    /// Repeats all unfinished reads from a peer over another connection, from the beginning. A
    /// piece whose read fails repeatedly is requested in envelopes.
    pub(super) fn restart_readings(&mut self, peer: u32) {
        let is_hopeless = |one: &mut Reading| {
            one.from == peer && one.has_failed && one.repetitions >= REPETITIONS
        };
        for one in extract(&mut self.readings.readings, is_hopeless) {
            self.port.deregister(one.region);
            self.readings
                .owed
                .push_back((peer, Frame::DataRead { number: one.number, whole: false }));
        }
        for one in
            self.readings.readings.iter_mut().filter(|one| one.from == peer && !one.is_over())
        {
            one.repetitions += u32::from(one.has_failed);
            (one.posted, one.is_checked, one.has_failed) = (0, false, false);
        }
    }

    fn give_up_readings(&mut self, which: impl Fn(&Reading) -> bool) -> bool {
        let mut any = false;
        for one in self.readings.readings.iter_mut().filter(|one| which(one)) {
            one.is_given_up = true;
            any = true;
        }
        any
    }

    fn drop_given_up(&mut self) {
        let is_it = |one: &mut Reading| one.is_given_up && one.under_way == 0;
        for one in extract(&mut self.readings.readings, is_it) {
            self.port.deregister(one.region);
            self.readings
                .owed
                .push_back((one.from, Frame::DataRead { number: one.number, whole: true }));
        }
    }

    fn stuck(&self) -> impl Iterator<Item = u32> + '_ {
        self.readings
            .readings
            .iter()
            .filter(|one| one.is_given_up && one.under_way > 0)
            .map(|one| one.from)
    }

    /// Keeps other completions for the next poll.
    fn await_reads(&mut self, most: Duration) {
        let start = Instant::now();
        loop {
            self.read();
            self.early.append(&mut self.events);
            if self.stuck().next().is_none() || start.elapsed() >= most {
                return;
            }
            std::thread::yield_now();
        }
    }

    pub(super) fn warn_of_registration(&mut self, error: &VerbsError) {
        // Some memory cannot be registered: shared read-only mappings.
        if error.is_out_of_memory() && !std::mem::replace(&mut self.has_warned, true) {
            self.say(&format!(
                "{error}; long messages go in envelopes where memory cannot be registered ('ulimit -l' is what a process may lock)"
            ));
        }
    }
}
