//! The receive side of partitioned messages.

use super::{Channel, NOTE, PartitionedBuffer, WITH_NOTE, no_partition, word};
use crate::p2p::NO_PROCESS;
use crate::task::Stand;
use oxmpi_engine::{
    Completion, Fault, Lane, MatchSource, NO_CONTEXT, RequestId, Started, TagMatch,
};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::{Scratch, ScratchError};
use oxmpi_objects::error::Result;
use oxmpi_sys::bytes::BytesMut;
use std::collections::TryReserveError;
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct PartitionedReceive {
    parts: PartitionedBuffer,
    /// The point-to-point context. Its error handler gets the errors.
    error_context: u32,
    /// The route from the sender; `None` for MPI_PROC_NULL.
    route: Option<SenderRoute>,
    note: Option<RequestId>,
    pieces: Vec<PartitionData>,
    noted: usize,
    /// The missing bytes of each partition; empty before the channel is known.
    missing: Vec<u64>,
    is_over: bool,
}

#[derive(Debug)]
struct SenderRoute {
    from: u32,
    rank: i32,
    tag: i32,
    context: u32,
    channel: ChannelState,
    /// The buffer for the channel's description, and after that for notes.
    note: UserBuf,
}

#[derive(Debug, Clone, Copy)]
enum ChannelState {
    NotYet(RequestId),
    All(Channel),
    Never(Fault),
}

#[derive(Debug)]
struct PartitionData {
    request: RequestId,
    of: Range<usize>,
    /// For data that must be unpacked: their buffer, and the packed offset at which they belong.
    staged: Option<(UserBuf, usize)>,
}

impl PartitionedReceive {
    pub(super) fn new(
        parts: PartitionedBuffer,
        error_context: u32,
    ) -> std::result::Result<PartitionedReceive, TryReserveError> {
        let mut missing = Vec::new();
        missing.try_reserve_exact(parts.partitions)?;
        Ok(PartitionedReceive {
            parts,
            error_context,
            route: None,
            note: None,
            pieces: Vec::new(),
            noted: 0,
            missing,
            is_over: false,
        })
    }

    pub(super) fn connect<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        context: u32,
        (from, rank): (u32, i32),
        tag: i32,
    ) -> std::result::Result<(), ScratchError> {
        let note = Scratch::bytes(NOTE + WITH_NOTE)?.buf().clone();
        let started = lane.start_receive(
            context,
            note.clone(),
            MatchSource::Process(from),
            TagMatch::Is(tag),
        );
        let channel = match started {
            Ok(Started::Pending(request)) => ChannelState::NotYet(request),
            Ok(Started::Complete(completion)) => decode_channel(&note, &completion, from),
            Err(fault) => ChannelState::Never(fault),
        };
        self.route = Some(SenderRoute { from, rank, tag, context, channel, note });
        Ok(())
    }

    pub(crate) fn begin(&mut self) {
        self.noted = 0;
        self.is_over = false;
        self.parts.buffer.renew();
        self.missing.clear();
        if let Some(SenderRoute { channel: ChannelState::All(channel), .. }) = &self.route {
            self.missing.resize(self.parts.partitions, self.measures(channel).1);
        }
    }

    /// The lengths of a partition of the sender and of a partition of this side. For empty data the
    /// unit is chosen so that the whole messages have equal length.
    fn measures(&self, channel: &Channel) -> (u64, u64) {
        match (channel.bytes, self.parts.bytes()) {
            (0, _) | (_, 0) => (self.parts.partitions as u64, channel.partitions as u64),
            (theirs, own) => (theirs as u64, own as u64),
        }
    }

    pub(crate) fn advance<F: Fabric>(&mut self, lane: &mut Lane<F>) -> Stand {
        let Some(route) = &self.route else {
            self.is_over = true;
            return Stand::Done(NO_PROCESS);
        };
        let (source, tag) = (route.rank, route.tag);
        let completion = match self.receive_data(lane) {
            Ok(None) => return Stand::Waiting,
            Ok(Some(channel)) => {
                let (length, room) = (
                    (channel.partitions * channel.bytes) as u64,
                    self.parts.buffer.packed_len() as u64,
                );
                let fault = (length > room).then_some(Fault::Truncated { length, room });
                Completion { source, tag, bytes: length.min(room), fault, ..Completion::EMPTY }
            }
            Err(fault) => {
                self.abandon(lane);
                Completion { source, tag, ..Completion::failed(fault) }
            }
        };
        self.is_over = true;
        let context = if completion.fault.is_some() { self.error_context } else { NO_CONTEXT };
        Stand::Done(Completion { context, ..completion })
    }

    fn receive_data<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
    ) -> std::result::Result<Option<Channel>, Fault> {
        let Some(channel) = self.channel(lane)? else { return Ok(None) };
        if channel.is_direct() && self.noted == 0 {
            for partition in 0..channel.partitions {
                self.expect(
                    lane,
                    &channel,
                    partition..partition + 1,
                    channel.of_partition(partition),
                )?;
            }
            self.noted = channel.partitions;
        }
        loop {
            self.collect(lane, &channel)?;
            if self.noted == channel.partitions {
                return Ok(self.pieces.is_empty().then_some(channel));
            }
            let Some(route) = &self.route else { return Ok(None) };
            let completion = match self.note.take() {
                Some(note) => match lane.test(note) {
                    Some(None) => {
                        self.note = Some(note);
                        return Ok(None);
                    }
                    Some(Some(completion)) => completion,
                    None => return Err(Fault::Lost { peer: route.from }),
                },
                None => {
                    let (from, tag) =
                        (MatchSource::Process(route.from), TagMatch::Is(channel.notes()));
                    match lane.start_receive(route.context, route.note.clone(), from, tag)? {
                        Started::Complete(completion) => completion,
                        Started::Pending(note) => {
                            self.note = Some(note);
                            return Ok(None);
                        }
                    }
                }
            };
            completion.fault.map_or(Ok(()), Err)?;
            self.take_note(lane, &channel, completion.bytes as usize)?;
        }
    }

    fn channel<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
    ) -> std::result::Result<Option<Channel>, Fault> {
        let Some(route) = &mut self.route else { return Ok(None) };
        if let ChannelState::NotYet(request) = route.channel {
            route.channel = match lane.test(request) {
                Some(None) => return Ok(None),
                Some(Some(completion)) => decode_channel(&route.note, &completion, route.from),
                None => ChannelState::Never(Fault::Lost { peer: route.from }),
            };
        }
        match route.channel {
            ChannelState::All(channel) => {
                if self.missing.is_empty() {
                    self.missing.resize(self.parts.partitions, self.measures(&channel).1);
                }
                Ok(Some(channel))
            }
            ChannelState::Never(fault) => Err(fault),
            ChannelState::NotYet(_) => Ok(None),
        }
    }

    fn collect<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        channel: &Channel,
    ) -> std::result::Result<(), Fault> {
        let mut at = 0;
        while let Some(piece) = self.pieces.get(at) {
            match lane.test(piece.request) {
                Some(None) => at += 1,
                answer => {
                    let PartitionData { of, staged, .. } = self.pieces.swap_remove(at);
                    self.settle(answer.flatten(), staged)?;
                    self.credit(channel, of);
                }
            }
        }
        Ok(())
    }

    /// Unpacks a data message. [`PartitionedReceive::advance`] reports a lack of room.
    fn settle(
        &self,
        completion: Option<Completion>,
        staged: Option<(UserBuf, usize)>,
    ) -> std::result::Result<(), Fault> {
        match completion.and_then(|completion| completion.fault) {
            None | Some(Fault::Truncated { .. }) => {}
            Some(fault) => return Err(fault),
        }
        if let Some((from, at)) = staged {
            self.parts.buffer.copy_from(at, &from, 0, from.packed_len());
            self.parts.buffer.settle()?;
        }
        Ok(())
    }

    fn take_note<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        channel: &Channel,
        len: usize,
    ) -> std::result::Result<(), Fault> {
        let Some(route) = &self.route else { return Ok(()) };
        let mut head = [0; NOTE];
        route.note.pack(0, BytesMut::from(&mut head[..]));
        let (first, many) = (word(&head, 0), word(&head, 1));
        let end = first.checked_add(many).filter(|end| *end <= channel.partitions as u64);
        let left = (channel.partitions - self.noted) as u64;
        let (Some(end), 1..) = (end, many) else { return Err(Fault::Lost { peer: route.from }) };
        let of = first as usize..end as usize;
        let bytes = of.len() * channel.bytes;
        let with_note = bytes <= WITH_NOTE;
        if many > left || len != NOTE + if with_note { bytes } else { 0 } {
            return Err(Fault::Lost { peer: route.from });
        }
        self.noted += of.len();
        if with_note {
            let (at, fits) = self.place(channel, &of);
            self.parts.buffer.copy_from(at, &route.note, NOTE, fits);
            self.parts.buffer.settle()?;
            self.credit(channel, of);
            return Ok(());
        }
        self.expect(lane, channel, of, channel.data())
    }

    /// The packed offset of partitions of the sender, and the bytes of room at this offset.
    fn place(&self, channel: &Channel, of: &Range<usize>) -> (usize, usize) {
        let room = self.parts.buffer.packed_len();
        let at = (of.start * channel.bytes).min(room);
        (at, (of.len() * channel.bytes).min(room - at))
    }

    fn expect<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        channel: &Channel,
        of: Range<usize>,
        tag: i32,
    ) -> std::result::Result<(), Fault> {
        let Some(route) = &self.route else { return Ok(()) };
        let (at, fits) = self.place(channel, &of);
        let (buffer, staged) = match self.parts.buffer.packed_range(at, fits) {
            Some(piece) => (piece, None),
            None => {
                let scratch = Scratch::bytes(fits).map_err(|_| Fault::NoMemory)?.buf().clone();
                (scratch.clone(), Some((scratch, at)))
            }
        };
        let (from, tag) = (MatchSource::Process(route.from), TagMatch::Is(tag));
        match lane.start_receive(route.context, buffer, from, tag)? {
            Started::Complete(completion) => {
                self.settle(Some(completion), staged)?;
                self.credit(channel, of);
            }
            Started::Pending(request) => self.pieces.push(PartitionData { request, of, staged }),
        }
        Ok(())
    }

    fn credit(&mut self, channel: &Channel, of: Range<usize>) {
        let (theirs, own) = self.measures(channel);
        if own == 0 {
            return;
        }
        let (from, to) = (of.start as u64 * theirs, of.end as u64 * theirs);
        let first = (from / own) as usize;
        for (at, missing) in self.missing.iter_mut().enumerate().skip(first) {
            let begin = at as u64 * own;
            if begin >= to {
                break;
            }
            *missing = missing.saturating_sub(to.min(begin + own) - from.max(begin));
        }
    }

    pub(super) fn has_arrived(&self, partition: i32) -> Result<bool> {
        match usize::try_from(partition) {
            Ok(at) if at < self.parts.partitions => {
                Ok(self.is_over || self.missing.get(at) == Some(&0))
            }
            _ => Err(no_partition(partition, self.parts.partitions)),
        }
    }

    pub(crate) fn abandon<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        let under_way =
            self.note.take().into_iter().chain(self.pieces.drain(..).map(|p| p.request));
        under_way.for_each(|request| lane.abandon(request));
    }

    /// Called when the request is freed. The open receive of the channel's description stays
    /// posted, since the next receive with this tag must not match that description.
    pub(crate) fn release<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        if let Some(SenderRoute { channel: ChannelState::NotYet(request), .. }) = self.route {
            lane.detach(request);
        }
    }
}

fn decode_channel(note: &UserBuf, completion: &Completion, from: u32) -> ChannelState {
    if let Some(fault) = completion.fault {
        return ChannelState::Never(fault);
    }
    let mut words = [0; Channel::ENCODED_BYTES];
    note.pack(0, BytesMut::from(&mut words[..]));
    let channel =
        Channel::decode(&words).filter(|_| completion.bytes as usize == Channel::ENCODED_BYTES);
    channel.map_or(ChannelState::Never(Fault::Lost { peer: from }), ChannelState::All)
}
