//! Partitioned point-to-point communication (MPI-5.0 chapter 4).
//!
//! 1. The two sides are matched once, at their initialization. The sender sends the receiver a
//!    description of its *channel*: a number, the number of partitions and their length. The
//!    description has the program's tag, in a context of the communicator that nothing else uses.
//!    The receiver posts a receive for it. So the k-th send with a tag matches the k-th receive
//!    with this tag, in whatever order the two are started.
//! 2. The sender announces ready partitions by a *note* on the channel. The note has their numbers,
//!    and their data if these are short. Longer data follow as a message of their own. The messages
//!    of a channel arrive in order. So the k-th note without data belongs to the k-th data message,
//!    and the notes of one start come before those of the next start. A message of few long
//!    partitions has no notes: each partition has its own tag. The receiver posts receives for all
//!    partitions at the start, so that the data arrive in place.
//! 3. From its start on, a receiver takes notes until it has all partitions of the sender. The two
//!    sides may have different partitions; the receiver counts the missing bytes of each of its
//!    own.
//!
//! A channel has two negative tags, or one for each partition; the descriptions of rule 1 have no
//! negative tags. A channel number stands for two tags. Numbers wrap after 2^30; the sender skips
//! numbers in use.

mod receive;
mod send;

pub(crate) use receive::PartitionedReceive;
pub(crate) use send::PartitionedSend;

use crate::comm::Communicator;
use crate::completion::stale;
use crate::persistent_state::{PersistentOp, PersistentOps};
use crate::process::{Domain, Process};
use oxmpi_abi::constants as abi;
use oxmpi_engine::{Lane, Operation, RequestId, Team};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::shown::{ValueKind, bad_handle};
use std::collections::HashMap;
use std::sync::Arc;

/// The memory of a partitioned message.
#[derive(Debug, Clone)]
pub struct PartitionedBuffer {
    pub buffer: UserBuf,
    /// The number of partitions; each has the same number of elements.
    pub partitions: usize,
}

impl PartitionedBuffer {
    fn elements(&self) -> usize {
        self.buffer.count().checked_div(self.partitions).unwrap_or(0)
    }

    fn bytes(&self) -> usize {
        self.elements() * self.buffer.element_size()
    }
}

/// Partitions that are ready to be sent.
#[derive(Debug, Clone, Copy)]
pub enum Ready<'a> {
    /// From `low` to `high`, inclusive (MPI_Pready, MPI_Pready_range).
    Range {
        low: i32,
        high: i32,
    },
    List(&'a [i32]),
}

#[derive(Debug, Clone, Copy)]
struct Channel {
    number: u32,
    partitions: usize,
    bytes: usize,
}

const CHANNELS: u32 = 1 << 30;

/// The longest data in a note, in bytes: for longer data a second copy costs more than a message.
const WITH_NOTE: usize = 4080;

/// The most partitions with tags of their own, whose receives each progress tests.
const FEW: usize = 64;

/// The bytes of a note before its data: the number of the first partition, and how many they are.
const NOTE: usize = 16;

impl Channel {
    const ENCODED_BYTES: usize = 24;

    const fn is_direct(&self) -> bool {
        self.partitions <= FEW && self.bytes > WITH_NOTE
    }

    const fn end(&self) -> u32 {
        self.number + if self.is_direct() { (self.partitions as u32).div_ceil(2) } else { 1 }
    }

    const fn notes(&self) -> i32 {
        !((self.number << 1) as i32)
    }

    const fn data(&self) -> i32 {
        !((self.number << 1 | 1) as i32)
    }

    const fn of_partition(&self, partition: usize) -> i32 {
        !(((self.number << 1) + partition as u32) as i32)
    }

    fn encode(self) -> Vec<u8> {
        let words = [u64::from(self.number), self.partitions as u64, self.bytes as u64];
        words.iter().flat_map(|word| word.to_le_bytes()).collect()
    }

    fn decode(encoded: &[u8; Channel::ENCODED_BYTES]) -> Option<Channel> {
        let [number, partitions, bytes] = [0, 1, 2].map(|at| word(encoded, at));
        let number = u32::try_from(number).ok().filter(|number| *number < CHANNELS)?;
        let (partitions, bytes) = (usize::try_from(partitions).ok()?, usize::try_from(bytes).ok()?);
        partitions.checked_mul(bytes)?;
        Some(Channel { number, partitions, bytes }).filter(|channel| channel.end() <= CHANNELS)
    }
}

/// The word with index `at`; 0 beyond the end.
fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.as_chunks::<8>().0.get(at).map_or(0, |word| u64::from_le_bytes(*word))
}

#[derive(Debug, Default)]
pub(crate) struct Contexts {
    open: HashMap<u32, ChannelContext>,
}

#[derive(Debug)]
struct ChannelContext {
    context: u32,
    used: u64,
}

impl ChannelContext {
    fn next_channel(&mut self, parts: &PartitionedBuffer, persistent: &PersistentOps) -> Channel {
        const LAP: u64 = CHANNELS as u64;
        let (partitions, bytes) = (parts.partitions, parts.bytes());
        let from = |used: u64| Channel { number: (used % LAP) as u32, partitions, bytes };
        loop {
            if from(self.used).end() > CHANNELS {
                self.used = self.used.next_multiple_of(LAP);
            }
            let (channel, is_again) = (from(self.used), self.used >= LAP);
            let numbers = channel.number..channel.end();
            self.used += numbers.len() as u64;
            if !is_again || !persistent.uses_channels(self.context, &numbers) {
                return channel;
            }
        }
    }
}

impl Contexts {
    fn of<F: Fabric>(&mut self, lane: &mut Lane<F>, team: &Arc<Team>) -> &mut ChannelContext {
        self.open
            .entry(team.point_to_point)
            .or_insert_with(|| ChannelContext { context: lane.open_partitioned(team), used: 0 })
    }

    pub(crate) fn is_busy<F: Fabric>(&self, lane: &Lane<F>, team: &Team) -> bool {
        self.open.get(&team.point_to_point).is_some_and(|place| lane.is_context_busy(place.context))
    }

    pub(crate) fn close<F: Fabric>(&mut self, lane: &mut Lane<F>, team: &Team) {
        if let Some(place) = self.open.remove(&team.point_to_point) {
            lane.close_context(place.context);
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartitionedSide {
    Send,
    Receive,
}

fn key_of<F: Fabric>(domain: &mut Domain<F>, request: u64, side: PartitionedSide) -> Result<usize> {
    let id = RequestId::from_raw(request);
    let key = domain.lane.external_key(id);
    let is_right = |key: &usize| match domain.persistent.get(*key) {
        Some(PersistentOp::Send(_)) => side == PartitionedSide::Send,
        Some(PersistentOp::Receive(_)) => side == PartitionedSide::Receive,
        _ => false,
    };
    if let Some(key) = key.filter(is_right) {
        return Ok(key);
    }
    if key.is_none() && !domain.lane.is_known(id) && id != RequestId::COMPLETE {
        return Err(stale(request));
    }
    let made_by = if side == PartitionedSide::Send { "MPI_Psend_init" } else { "MPI_Precv_init" };
    Err(bad_handle(ValueKind::Request, request, format!("it was not made by {made_by}")))
}

impl<F: Fabric> Process<F> {
    /// A partitioned send (MPI_Psend_init).
    pub fn psend_init(
        &self,
        comm: &Communicator,
        parts: PartitionedBuffer,
        dest: i32,
        tag: i32,
    ) -> Result<RequestId> {
        self.check_tag(tag)?;
        let to = if dest == abi::MPI_PROC_NULL { None } else { Some(comm.process(dest, "dest")?) };
        let error_context = comm.team.point_to_point;
        self.enter(|domain| {
            let Domain { lane, persistent, partitioned, .. } = domain;
            let mut sending = PartitionedSend::new(parts, error_context).map_err(no_memory)?;
            if let Some(to) = to {
                let place = partitioned.of(lane, &comm.team);
                let channel = place.next_channel(sending.parts(), persistent);
                sending.connect(lane, (place.context, channel), (to, to == self.rank), tag);
            }
            let key = persistent.keep(PersistentOp::Send(Box::new(sending)));
            Ok(lane.open_persistent(Operation::External { context: error_context, key }))
        })
    }

    /// A partitioned receive (MPI_Precv_init); it has no wildcards.
    pub fn precv_init(
        &self,
        comm: &Communicator,
        parts: PartitionedBuffer,
        source: i32,
        tag: i32,
    ) -> Result<RequestId> {
        self.check_tag(tag)?;
        let from =
            if source == abi::MPI_PROC_NULL { None } else { Some(comm.process(source, "source")?) };
        let error_context = comm.team.point_to_point;
        self.enter(|domain| {
            let Domain { lane, persistent, partitioned, .. } = domain;
            let mut receiving = PartitionedReceive::new(parts, error_context).map_err(no_memory)?;
            if let Some(from) = from {
                let context = partitioned.of(lane, &comm.team).context;
                receiving.connect(lane, context, (from, source), tag).map_err(no_memory)?;
            }
            let key = persistent.keep(PersistentOp::Receive(Box::new(receiving)));
            Ok(lane.open_persistent(Operation::External { context: error_context, key }))
        })
    }

    /// Marks partitions of an active send as ready (MPI_Pready and related calls). After an error
    /// none is marked. Errors: MPI_ERR_REQUEST if the request is no active partitioned send;
    /// MPI_ERR_ARG if a partition does not exist or is ready already.
    pub fn pready(&self, request: u64, ready: Ready<'_>) -> Result<()> {
        let look = self.enter(|domain| {
            let key = key_of(domain, request, PartitionedSide::Send)?;
            if domain.lane.is_inactive(RequestId::from_raw(request)) {
                let why = "it is not active: start it first";
                return Err(bad_handle(ValueKind::Request, request, why));
            }
            let Domain { lane, persistent, .. } = &mut *domain;
            let Some(PersistentOp::Send(sending)) = persistent.get_mut(key) else {
                return Ok(false);
            };
            sending.ready(lane, ready)?;
            let (is_over, is_under_way) = (sending.is_over(), sending.is_under_way());
            if is_over {
                domain.finish_persistent(key);
            }
            Ok(is_under_way || domain.lane.is_look_due(1))
        })?;
        if look {
            self.look(|_| ());
        }
        Ok(())
    }

    /// Makes progress, and returns whether a partition of a receive has arrived (MPI_Parrived). For
    /// an inactive request it returns true. Errors: MPI_ERR_REQUEST if the request is no
    /// partitioned receive; MPI_ERR_ARG if there is no such partition.
    pub fn parrived(&self, request: u64, partition: i32) -> Result<bool> {
        let question = |domain: &mut Domain<F>| {
            let key = key_of(domain, request, PartitionedSide::Receive)?;
            let Some(PersistentOp::Receive(receiving)) = domain.persistent.get(key) else {
                return Ok(false);
            };
            let has_arrived = receiving.has_arrived(partition)?;
            Ok(has_arrived || domain.lane.is_inactive(RequestId::from_raw(request)))
        };
        self.look_again(question, |answer| matches!(answer, Ok(false)))
    }
}

fn no_memory(error: impl std::fmt::Display) -> MpiError {
    MpiError::new(
        abi::MPI_ERR_NO_MEM,
        format!("no memory for the state of each partition: {error}"),
    )
}

#[cold]
fn no_partition(partition: i32, partitions: usize) -> MpiError {
    let text = match partitions {
        0 => format!("partition is {partition}; the message has no partitions"),
        _ => format!(
            "partition is {partition}; the message has the partitions 0 to {}",
            partitions - 1
        ),
    };
    MpiError::new(abi::MPI_ERR_ARG, text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::world;
    use oxmpi_mem::memory::Owned;

    #[test]
    fn channels_go_round() {
        world(2, |p| {
            let comm = p.dup(p.world()).unwrap();
            let (peer, error_context) = (1 - comm.rank(), comm.team.point_to_point);
            let words: Vec<_> = (0..12_u64).map(|n| Owned::new(vec![n, n + 100])).collect();
            let places: Vec<_> = (0..12).map(|_| Owned::new(vec![0_u64; 2])).collect();
            let parts =
                |memory: &Owned<u64>| PartitionedBuffer { buffer: memory.buf(), partitions: 2 };
            let mut requests = Vec::new();
            let mut numbers = Vec::new();
            for (n, (word, place)) in words.iter().zip(&places).enumerate() {
                let send = p.psend_init(&comm, parts(word), peer, 3).unwrap();
                requests.push((send, p.precv_init(&comm, parts(place), peer, 3).unwrap()));
                let mut domain = p.domain.lock();
                let used = &mut domain.partitioned.open.get_mut(&error_context).unwrap().used;
                numbers.push((*used - 1) % u64::from(CHANNELS));
                if n == 3 {
                    *used = u64::from(CHANNELS) - 3;
                }
            }
            // 0 to 3; then three numbers up to the end; then again from 0, without the first four,
            // which are in use.
            let last = u64::from(CHANNELS);
            assert_eq!(numbers, [0, 1, 2, 3, last - 3, last - 2, last - 1, 4, 5, 6, 7, 8]);
            for (send, receive) in requests.iter().rev() {
                p.start_request(receive.raw()).unwrap();
                p.start_request(send.raw()).unwrap();
                p.pready(send.raw(), Ready::List(&[1, 0])).unwrap();
            }
            for (send, receive) in requests {
                p.wait(receive).unwrap();
                p.wait(send).unwrap();
                p.free_request(send.raw()).unwrap();
                p.free_request(receive.raw()).unwrap();
            }
            for (n, place) in places.into_iter().enumerate() {
                assert_eq!(place.into_vec().ok().unwrap(), [n as u64, n as u64 + 100]);
            }
        });
    }

    #[test]
    fn a_channel_is_encoded_and_decoded() {
        let channel = Channel { number: CHANNELS - 1, partitions: 1 << 31, bytes: 1 << 31 };
        let encoded: [u8; Channel::ENCODED_BYTES] = channel.encode().try_into().unwrap();
        let got = Channel::decode(&encoded).unwrap();
        assert_eq!((got.number, got.partitions, got.bytes), (CHANNELS - 1, 1 << 31, 1 << 31));
        for (at, wrong) in [(3, 0x40), (7, 1), (23, 0x80)] {
            let mut nonsense = encoded;
            nonsense[at] = wrong;
            assert!(Channel::decode(&nonsense).is_none(), "byte {at}");
        }
        let tags = [0, 1, CHANNELS - 1].map(|number| {
            let channel = Channel { number, ..channel };
            (channel.notes(), channel.data())
        });
        assert_eq!(tags, [(-1, -2), (-3, -4), (i32::MIN + 1, i32::MIN)]);
    }

    /// A channel of long partitions has a tag for each, and its numbers do not wrap.
    #[test]
    fn long_partitions_have_tags_of_their_own() {
        let persistent = PersistentOps::default();
        let last = u64::from(CHANNELS);
        let mut place = ChannelContext { context: 0, used: 0 };
        let parts = |partitions: usize, bytes: usize| {
            let memory = Owned::new(vec![0_u8; partitions * bytes]);
            PartitionedBuffer { buffer: memory.buf(), partitions }
        };
        let mut next = |parts: &PartitionedBuffer| {
            let channel = place.next_channel(parts, &persistent);
            (channel.number, channel.end(), place.used)
        };
        assert_eq!(next(&parts(7, 5000)), (0, 4, 4));
        assert_eq!(next(&parts(7, 100)), (4, 5, 5));
        assert_eq!(next(&parts(FEW, 5000)), (5, 37, 37));
        assert_eq!(next(&parts(FEW + 1, 5000)), (37, 38, 38));
        place.used = last - 3;
        let mut next = |parts: &PartitionedBuffer| {
            let channel = place.next_channel(parts, &persistent);
            (channel.number, channel.end(), place.used)
        };
        assert_eq!(next(&parts(4, 5000)), (CHANNELS - 3, CHANNELS - 1, last - 1));
        assert_eq!(next(&parts(4, 5000)), (0, 2, last + 2));
        let channel = Channel { number: CHANNELS - 1, partitions: 2, bytes: 5000 };
        assert_eq!([0, 1].map(|p| channel.of_partition(p)), [i32::MIN + 1, i32::MIN]);
    }
}
