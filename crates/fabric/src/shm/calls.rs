//! What a lane asks of shared memory.

use super::outgoing::{Out, Path, Pools};
use super::{
    ANSWER_FACTOR, Link, PIECE, SPREAD_PIECES, STREAM_LASTS, Settings, Shm, out_and_pool_of, out_of,
    sending_to, shares,
};
use crate::{Body, Counts, Fabric, Fetching, Message, Sent, SentNow, Sink, Taken, Unreachable};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_os::bytes::{Bytes, BytesMut};
use oxmpi_os::clock;
use oxmpi_os::control_section::ControlSection;
use oxmpi_os::copies::Copies;
use oxmpi_os::door::Bell;
use oxmpi_os::memory::Memory;
use oxmpi_os::ring::INLINE_MAX;
use oxmpi_os::segment::RankState;
use oxmpi_os::single_copy::RemoteProcess;
use oxmpi_wire::{Context, Envelope, Frame, Tags};
use std::ops::Range;
use std::sync::atomic::Ordering;

impl Fabric for Shm {
    #[inline]
    fn eager_limit(&mut self, to: u32) -> usize {
        let limit = self.settings.eager_limit;
        limit.min(self.longest_body(to, limit))
    }

    fn is_eager(&mut self, to: u32, buffer: &UserBuf) -> bool {
        let len = buffer.packed_len();
        // What does not lie in one piece is not read by the receiver.
        len <= self.eager_limit(to) && (buffer.as_contiguous().is_none() || !self.is_behind(to, len))
    }

    /// It lies where what it answers lay, or takes back the blocks of the answer before: rule 9 of the pool. If there are too
    /// few of them and no room elsewhere it is no answer any more, and is announced.
    fn is_eager_answer(&mut self, to: u32, buffer: &UserBuf) -> bool {
        let (len, boot) = (buffer.packed_len(), self.own.boot());
        let Settings { eager_limit, pool_from, .. } = self.settings;
        // What lies in the heap is copied once if it is announced.
        let is_in_heap =
            || buffer.as_contiguous().is_some_and(|b| self.own.is_in_heap(b.as_ptr() as u64, len));
        let lengths = eager_limit + 1..=ANSWER_FACTOR * eager_limit;
        if !lengths.contains(&len) || pool_from > len || boot.oversubscribed || is_in_heap() {
            return false;
        }
        let Some(pool) = &self.pool else { return false };
        let Some((out, theirs)) = out_and_pool_of(&mut self.links, to, len) else { return false };
        let Path::Ring(ring) = &out.path else { return false };
        let shape = pool.shape();
        len <= ring.max_pooled(&shape)
            && (theirs.is_some_and(|theirs| theirs.may_answer(shape)) || pool.has_answer_of(to))
    }

    fn piece_limit(&mut self, to: u32) -> usize {
        if let Some(Out { path: Path::Ring(ring), copies, .. }) = out_of(&mut self.links, to)
            && let Some(pool) = &mut self.pool
            && copies.spreads()
            && let Some(len) =
                SPREAD_PIECES.into_iter().find(|len| ring.has_room_pooled(*len, pool, to, true))
        {
            return len;
        }
        // A data ring may take more.
        self.longest_body(to, PIECE).min(PIECE)
    }

    fn has_room(&mut self, to: u32, len: usize) -> bool {
        match (out_of(&mut self.links, to), &mut self.pool) {
            (Some(Out { path: Path::Ring(ring), lacks_pool, copies, .. }), Some(pool)) => {
                let spreads = copies.spreads();
                let has_room = ring.has_room_pooled(len, pool, to, spreads);
                *lacks_pool = !has_room && !pool.room_beside(len, to, spreads);
                has_room
            }
            _ => false,
        }
    }

    fn send(&mut self, to: u32, message: &Message<'_>) -> Result<Sent, Unreachable> {
        if self.out(to).is_none() {
            self.connect(to)?;
        }
        if let Frame::Eager { envelope: Envelope { context: Context::Local(index), tag } } = message.frame
            && let Ok(context) = u16::try_from(index)
            && let Some(Some(link)) = self.links.get_mut(to as usize)
            && let sent @ (SentNow::Done | SentNow::Wake) = link.send_in_turn(context, tag, &message.body)
        {
            self.wake_after(sent, to);
            return Ok(Sent::Done);
        }
        let from = self.settings.pool_from;
        let Some((out, theirs)) = sending_to(&mut self.links, to, message.body.len()) else {
            return Err(Unreachable { peer: to, why: "no contact was made".into() });
        };
        let is_cold = matches!(out.path, Path::Inbox(_));
        let pool = self.pool.as_mut().filter(|_| is_cold || message.body.len() >= from);
        if out.send(to, message, pool.map(|own| Pools { own, theirs })) {
            return Ok(Sent::Done);
        }
        // To a program that is over goes nothing but late notices, for which there will be no room.
        let is_over = out.segment.status().state() == RankState::Finalized;
        Ok(if is_over { Sent::Done } else { Sent::Full })
    }

    #[inline(always)]
    fn send_short_now(&mut self, to: u32, context: u32, tag: i32, bytes: Bytes<'_>) -> SentNow {
        let limit = self.inline_limit;
        let Some(Some(link)) = self.links.get_mut(to as usize) else { return SentNow::No };
        let Link {
            out: Some(Out { path: Path::Ring(ring), bell, came_before, .. }),
            matched_in,
            ring_in,
            ..
        } = &mut **link
        else {
            return SentNow::No;
        };
        if context > u32::from(u16::MAX) || bytes.len() > limit {
            return SentNow::No;
        }
        let follows = *came_before == *matched_in;
        let context = context as u16;
        // No closures here: the compiler makes calls of them.
        if !ring.send_inline_now(tag, context, bytes, follows) {
            let Some(ring_in) = ring_in else { return SentNow::No };
            if !ring.send_in_turn_now(&mut ring_in.receiver, tag, context, bytes) {
                return SentNow::No;
            }
        }
        *came_before = *matched_in;
        if bell.finds_sleeper() { SentNow::Wake } else { SentNow::Done }
    }

    #[inline(always)]
    fn send_in_turn(&mut self, to: u32, context: u32, tag: i32, bytes: Bytes<'_>) -> SentNow {
        let (Some(Some(link)), Ok(index)) = (self.links.get_mut(to as usize), u16::try_from(context)) else {
            return SentNow::No;
        };
        if bytes.len() > self.settings.eager_limit {
            return SentNow::No;
        }
        link.send_in_turn(index, tag, &Body::Bytes(bytes))
    }

    fn send_now(&mut self, to: u32, context: u32, tag: i32, _sequence: u8, bytes: Bytes<'_>) -> bool {
        let is_short = bytes.len() <= INLINE_MAX;
        let mut sent = SentNow::No;
        if is_short {
            sent = self.send_short_now(to, context, tag, bytes);
            if sent == SentNow::No && self.finds_credits(to) {
                sent = self.send_short_now(to, context, tag, bytes);
            }
        }
        if sent == SentNow::No {
            sent = self.send_in_turn(to, context, tag, bytes);
        }
        if sent != SentNow::No {
            self.wake_after(sent, to);
            return true;
        }
        let (limit, from) = (self.settings.eager_limit, self.settings.pool_from);
        let Ok(index) = u16::try_from(context) else { return false };
        if is_short || bytes.len() > limit || self.is_behind(to, bytes.len()) {
            return false;
        }
        let Some((out, theirs)) = sending_to(&mut self.links, to, bytes.len()) else { return false };
        let pool = self.pool.as_mut().filter(|_| bytes.len() >= from);
        out.send_now(to, tag, index, bytes, pool.map(|own| Pools { own, theirs }))
    }

    #[inline(always)]
    fn receive_short_now(&mut self, from: u32, context: u32, tags: Tags, into: BytesMut<'_>) -> Taken {
        match self.links.get_mut(from as usize) {
            Some(Some(link)) => link.take_short(context, tags, into),
            _ => Taken::Other,
        }
    }

    #[inline(always)]
    fn receive_short_soon(&mut self, from: u32, context: u32, tags: Tags, into: BytesMut<'_>) -> Taken {
        let Some(Some(link)) = self.links.get_mut(from as usize) else { return Taken::Other };
        match &link.ring_in {
            Some(ring) if ring.comes_soon::<true>() => link.take_short(context, tags, into),
            _ => Taken::Other,
        }
    }

    #[inline]
    fn receive_in_turn(&mut self, from: u32, context: u32, tags: Tags, into: BytesMut<'_>) -> Taken {
        let Some(Some(link)) = self.links.get_mut(from as usize) else { return Taken::Other };
        let (Some(ring), Ok(index)) = (&mut link.ring_in, u16::try_from(context)) else {
            return Taken::Other;
        };
        if !ring.receiver.looks_at_two() || !ring.comes_soon::<false>() {
            return Taken::Other;
        }
        let Some((tag, bytes)) = ring.receiver.peek_expected_in_area(tags.tag, tags.mask, index) else {
            return link.take_short(context, tags, into);
        };
        let len = bytes.len();
        if !bytes.copy_if_it_fits(into) {
            return Taken::Other;
        }
        link.matched_in = link.matched_in.wrapping_add(1);
        if ring.receiver.release() {
            link.see_release();
        }
        Taken::Message { tag, len }
    }

    fn receive_now(&mut self, from: u32, context: u32, tags: Tags, into: BytesMut<'_>) -> Taken {
        let Some(Some(link)) = self.links.get_mut(from as usize) else { return Taken::Other };
        let (taken, has_news) = link.take(context, tags, into);
        if has_news {
            link.see_release();
        }
        taken
    }

    #[inline]
    fn poll<S: Sink>(&mut self, sink: &mut S) -> bool {
        self.poll_rings_and_inbox(None, sink)
    }

    fn poll_except<S: Sink>(&mut self, peer: u32, sink: &mut S) -> bool {
        self.poll_rings_and_inbox(Some(peer), sink)
    }

    #[inline(always)]
    fn is_calm(&self) -> bool {
        for from in &self.granted {
            if let Some(Some(link)) = self.links.get(*from as usize)
                && let Some(ring) = &link.ring_in
                && !ring.receiver.is_empty()
            {
                return false;
            }
        }
        self.inbox.is_empty() && self.grants.is_empty()
    }

    #[inline(always)]
    fn comes_soon(&self, from: u32) -> Option<bool> {
        let link = self.links.get(from as usize)?.as_ref()?;
        link.ring_in.as_ref().map(super::incoming::RingIn::comes_soon::<false>)
    }

    fn fetching(&mut self, from: u32, address: u64, len: usize) -> Fetching {
        if address == 0 {
            return Fetching::Ask;
        }
        if self.is_in_heap(from, address, len) {
            return Fetching::Read;
        }
        if !self.can_read(from) {
            return Fetching::Ask;
        }
        if self.own.boot().oversubscribed || !self.may_give(from, len) {
            // The sender would have to run, and perhaps it is this one's processor that it needs; or it gives nothing.
            return Fetching::Read;
        }
        match self.shares.open(&self.own, clock::ticks()) {
            Some(share) => Fetching::Share { share },
            None => Fetching::Later,
        }
    }

    fn past_caches_from(&self) -> u64 {
        self.settings.past_caches_from
    }

    fn note_given(&mut self, to: u32, under_way: u64) {
        let limit = self.settings.past_caches_from.max(1);
        if under_way >= limit
            && let (Some(out), Some(pool)) = (out_of(&mut self.links, to), &mut self.pool)
            && out.copies.spreads()
        {
            pool.widen(limit.saturating_mul(STREAM_LASTS));
        }
    }

    fn claim(&mut self, owner: u32, share: u64, pieces: u32, most: u32) -> Option<Range<u32>> {
        let segment = if owner == self.me { &self.own } else { &self.out(owner)?.segment };
        shares::claim(segment, share, pieces, most)
    }

    fn is_stalled(&mut self, share: u64, came: bool) -> bool {
        self.shares.is_stalled(share, came, clock::ticks(), self.patience)
    }

    fn end_share(&mut self, share: u64) {
        self.shares.close(&self.own, share);
    }

    fn read(&mut self, peer: u32, address: u64, into: BytesMut<'_>) -> Result<(), Unreachable> {
        let Some(out) = out_of(&mut self.links, peer) else {
            return Err(Unreachable { peer, why: "no contact was made yet".into() });
        };
        if let Some(bytes) = out.segment.heap_bytes(address, into.len()) {
            self.heap_bytes += bytes.len() as u64;
            bytes.copy_to(into);
            return Ok(());
        }
        if out.pid == 0 {
            return Err(Unreachable { peer, why: "its memory may not be read".into() });
        }
        RemoteProcess { pid: out.pid }
            .read(address, into)
            .map_err(|e| Unreachable { peer, why: format!("reading its memory at {address:#x} failed: {e}") })
    }

    fn can_access(&mut self, peer: u32) -> bool {
        self.can_read(peer)
    }

    fn write(&mut self, peer: u32, address: u64, from: Bytes<'_>) -> Result<(), Unreachable> {
        match self.out(peer) {
            Some(out) if out.pid != 0 => RemoteProcess { pid: out.pid }.write(address, from).map_err(|e| {
                Unreachable { peer, why: format!("writing its memory at {address:#x} failed: {e}") }
            }),
            _ => Err(Unreachable { peer, why: "its memory may not be written".into() }),
        }
    }

    fn may_write_here(&mut self, peer: u32) -> bool {
        if self.out(peer).is_none() && self.connect(peer).is_err() {
            return false;
        }
        self.out(peer).is_some_and(|out| out.segment.status().state() != RankState::Finalized)
    }

    fn has_left(&mut self, peer: u32) -> bool {
        self.out(peer).is_some_and(|out| out.segment.status().has_left())
    }

    fn map_heap(&mut self, peer: u32) -> Option<(u64, Memory)> {
        if peer == self.me {
            return self.own.heap_memory();
        }
        if self.out(peer).is_none() {
            self.connect(peer).ok()?;
        }
        let link = self.links.get_mut(peer as usize)?.as_mut()?;
        let segment = &link.out.as_ref()?.segment;
        if link.is_heap_refused {
            return None;
        }
        if !segment.has_heap() {
            let mapped = (self.open)(peer).is_ok_and(|opened| segment.map_heap(opened.fd).is_ok());
            link.is_heap_refused = !mapped;
        }
        segment.heap_memory()
    }

    #[inline]
    fn is_away(&self, peer: u32) -> bool {
        self.out(peer).is_none_or(|out| out.segment.is_away())
    }

    fn bell(&mut self, peer: u32) -> Option<Bell> {
        if peer == self.me {
            return Some(self.bell_of(peer, &self.own));
        }
        if self.out(peer).is_none() {
            self.connect(peer).ok()?;
        }
        self.out(peer).map(|out| out.bell.clone())
    }

    fn control_section(
        &mut self,
        leader: u32,
        index: u32,
        ranks: u32,
    ) -> Result<Option<ControlSection>, Unreachable> {
        let kind = self.kind;
        let segment = if leader == self.me {
            &self.own
        } else {
            if self.out(leader).is_none() {
                self.connect(leader)?;
            }
            match self.out(leader) {
                Some(out) => &out.segment,
                None => return Ok(None),
            }
        };
        let config = &segment.boot().config;
        let there = index < config.control_sections && ranks <= config.control_section_ranks;
        Ok(there.then(|| {
            let section = segment.control_section(index, ranks, kind);
            let choice = self.copy_choice().unused(section.bytes_of_rank());
            section.with_copies(Copies::new(choice, self.streamed.clone()))
        }))
    }

    fn may_share_section(&mut self, ranks: u32, _peers: impl Iterator<Item = u32>) -> bool {
        self.has_section_for(ranks)
    }

    fn reserve_control_sections(&mut self) -> Option<(u32, u64)> {
        self.sections.reserve(&self.own, self.kind)
    }

    fn release_control_section(&mut self, index: u32, team: Option<u32>) {
        self.sections.release(index, team);
    }

    fn counts(&mut self) -> Counts {
        let (pool_bytes, pool_used) = match &mut self.pool {
            Some(pool) => (pool.shape().bytes as usize, pool.bytes() - pool.free_bytes()),
            None => (0, 0),
        };
        let outs = || self.links.iter().flatten().filter_map(|link| link.out.as_ref());
        Counts {
            rings: self.granted.len() as u64,
            inbox_frames: self.links.iter().flatten().map(|link| link.cells_in).sum(),
            streamed_pieces: self.streamed.load(Ordering::Relaxed)
                + outs().map(Out::pieces_streamed).sum::<u64>(),
            spread_messages: outs().map(Out::messages_spread).sum(),
            pool_bytes: pool_bytes as u64,
            pool_used: pool_used as u64,
            heap_bytes: self.heap_bytes,
            ..Counts::default()
        }
    }

    fn attach(&mut self, peer: u32) {
        self.meet(peer);
    }

    fn detach(&mut self, peer: u32) {
        self.part(peer);
    }

    fn wake(&mut self, peer: u32) {
        if self.out(peer).is_none() && self.connect(peer).is_err() {
            return;
        }
        if let Some(out) = self.out(peer) {
            out.bell.ring();
        }
    }

    fn announce_waiting(&mut self, peer: u32) -> bool {
        match self.out_mut(peer) {
            // Credits of the ring wake this process, room in the pool does not.
            Some(Out { path: Path::Ring(ring), lacks_pool, bell, .. }) => {
                let is_woken = !ring.want_credits() && !*lacks_pool;
                if ring.rings_for_notice() {
                    bell.ring();
                }
                is_woken
            }
            // Many may wait for one inbox; it does not know whom to wake.
            _ => false,
        }
    }
}
