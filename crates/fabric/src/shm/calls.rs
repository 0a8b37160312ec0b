//! The functions of shared memory that [`Routes`](crate::routes::Routes) calls. The functions of
//! [`Fabric`] with the same names describe them.

use super::copy_policy::{Protocol, Traffic};
use super::outgoing::{Out, Path};
use super::{BURST, Link, Shm, out_of};
#[cfg(doc)]
use crate::{Announcements, Fabric, Membership, OneSided, Sections, Statistics};
use crate::{
    Body, Counts, Fetching, FrameSink, OutgoingMessage, Room, Sent, SentNow, Taken, Unreachable,
};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_shm::announcement::{Announcement, Claim, OwnClaim};
use oxmpi_shm::control_section::ControlSection;
use oxmpi_shm::door::Bell;
use oxmpi_shm::ring::INLINE_MAX;
use oxmpi_shm::segment::RankState;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::memory::Memory;
use oxmpi_sys::single_copy::RemoteProcess;
use oxmpi_wire::{Frame, Tags};

pub(super) fn no_contact(peer: u32) -> Unreachable {
    Unreachable { peer, why: "no contact was made".into() }
}

impl Shm {
    /// As [`Fabric::eager_limit`].
    #[inline]
    pub fn eager_limit(&mut self, to: u32) -> usize {
        let limit = self.settings.eager_limit;
        limit.min(self.longest_body(to, limit))
    }

    pub(crate) fn is_eager(&mut self, to: u32, buffer: &UserBuf) -> bool {
        let len = buffer.packed_len();
        len <= self.eager_limit(to)
            && !buffer.as_contiguous().is_some_and(|bytes| self.is_for_single_copy(to, bytes))
    }

    pub(crate) fn standard_limit(&self) -> usize {
        self.settings.eager_limit
    }

    pub(crate) fn open_announcement(&mut self, to: u32) -> Option<Announcement> {
        // A peer whose memory this process may read can probably read this process's memory, too.
        if self.can_read(to) { self.announcements.open() } else { None }
    }

    pub(crate) fn keep_announcement(&mut self, announcement: Announcement, copy: u64) -> bool {
        self.announcements.keep(announcement, copy)
    }

    pub(crate) fn claim_own(&mut self, announcement: Announcement) -> OwnClaim {
        self.announcements.claim(announcement)
    }

    pub(crate) fn give(&mut self, announcement: Announcement, given: usize, len: usize) -> bool {
        self.announcements.give(announcement, given as u64, len as u64)
    }

    pub(crate) fn stop_giving(&mut self, announcement: Announcement) {
        self.announcements.stop(announcement);
    }

    pub(crate) fn has_stopped_giving(&self, from: u32, announcement: Announcement) -> bool {
        self.out(from).is_some_and(|out| out.segment.announcements().is_stopped(announcement))
    }

    pub(crate) fn take_rest(&mut self, from: u32, announcement: Announcement) -> Option<usize> {
        self.out(from)?.segment.announcements().take_rest(announcement).map(|given| given as usize)
    }

    pub(crate) fn is_waiting(&self, peer: u32) -> bool {
        self.out(peer).is_none_or(|out| out.segment.is_waiting())
    }

    pub(crate) fn waits_here(&self) -> bool {
        self.own.is_waiting()
    }

    pub(crate) fn close_announcement(&mut self, announcement: Announcement) {
        self.announcements.close(announcement);
    }

    pub(crate) fn claim(&mut self, from: u32, announcement: Announcement) -> Claim {
        let out = self.contact(from);
        out.map_or(Claim::Gone, |out| out.segment.announcements().claim(announcement))
    }

    pub(crate) fn room_for_piece(&mut self, to: u32, len: usize) -> Room {
        match (out_of(&mut self.links, to), &mut self.pool) {
            (Some(out), Some(pool)) => {
                out.room_for_piece(len, to, pool, self.streaming.share_bytes)
            }
            _ => Room::Never,
        }
    }

    pub(crate) fn piece_limit(&mut self, to: u32) -> usize {
        // A data ring may take longer pieces.
        let piece = self.streaming.piece_bytes;
        self.longest_body(to, piece).min(piece)
    }

    pub(crate) fn send(
        &mut self,
        to: u32,
        message: &OutgoingMessage<'_>,
    ) -> Result<Sent, Unreachable> {
        if self.out(to).is_none() {
            self.connect(to)?;
        }
        let from = self.settings.pool_from;
        let Shm { links, pool, streaming, .. } = self;
        let Some(Some(link)) = links.get_mut(to as usize) else { return Err(no_contact(to)) };
        let Link { out: Some(out), can_read, .. } = &mut **link else { return Err(no_contact(to)) };
        let is_cold = matches!(out.path, Path::Inbox(_));
        let pool = pool.as_mut().filter(|_| is_cold || message.body.len() >= from);
        out.lacks_pool = pool.is_some();
        let sent = match (message.frame, pool) {
            (Frame::Data { .. }, Some(pool)) => {
                // A readable message of contiguous bytes is pulled only while no message goes the
                // other way.
                let is_pulled = *can_read == Some(true) && matches!(message.body, Body::Bytes(_));
                let traffic = if is_pulled { Traffic::OneWay } else { Traffic::TwoWay };
                let sent = out.send_piece((to, message), traffic, pool, streaming.share_bytes);
                self.piece_bytes += sent.map_or(0, |by_pool| by_pool as u64);
                sent.is_some()
            }
            (_, pool) => out.send(to, message, pool),
        };
        if sent {
            return Ok(Sent::Done);
        }
        // A program that has finalized gets only late notices, for which there will be no room.
        let is_over = out.segment.status().state() == RankState::Finalized;
        Ok(if is_over { Sent::Done } else { Sent::Full })
    }

    #[inline(always)]
    pub(crate) fn send_short_now(
        &mut self,
        to: u32,
        context: u32,
        tag: i32,
        bytes: Bytes<'_>,
    ) -> SentNow {
        let limit = self.inline_limit;
        let Some(Some(link)) = self.links.get_mut(to as usize) else { return SentNow::No };
        let Some(Out { path: Path::Ring(ring), bell, .. }) = &mut link.out else {
            return SentNow::No;
        };
        if context > u32::from(u16::MAX) || bytes.len() > limit {
            return SentNow::No;
        }
        // No closures here: the compiler turns them into calls.
        if !ring.send_inline_now(tag, context as u16, bytes) {
            return SentNow::No;
        }
        if bell.finds_sleeper() { SentNow::Wake } else { SentNow::Done }
    }

    pub(crate) fn send_now(&mut self, to: u32, context: u32, tag: i32, bytes: Bytes<'_>) -> bool {
        if bytes.len() <= INLINE_MAX {
            let mut sent = self.send_short_now(to, context, tag, bytes);
            if sent == SentNow::No && self.finds_credits(to) {
                sent = self.send_short_now(to, context, tag, bytes);
            }
            self.wake_after(sent, to);
            return sent != SentNow::No;
        }
        let (limit, from) = (self.settings.eager_limit, self.settings.pool_from);
        let Ok(index) = u16::try_from(context) else { return false };
        if bytes.len() > limit || self.is_for_single_copy(to, bytes) {
            return false;
        }
        let Shm { links, pool, .. } = self;
        let Some(out) = out_of(links, to) else { return false };
        let pool = pool.as_mut().filter(|_| bytes.len() >= from);
        out.send_now(to, tag, index, bytes, pool)
    }

    #[inline(always)]
    pub(crate) fn receive_short_now(
        &mut self,
        from: u32,
        context: u32,
        tags: Tags,
        into: BytesMut<'_>,
    ) -> Taken {
        match self.links.get_mut(from as usize) {
            Some(Some(link)) => link.take_short(context, tags, into),
            _ => Taken::Other,
        }
    }

    pub(crate) fn receive_now(
        &mut self,
        from: u32,
        context: u32,
        tags: Tags,
        into: BytesMut<'_>,
    ) -> Taken {
        let Some(Some(link)) = self.links.get_mut(from as usize) else { return Taken::Other };
        let (taken, wakes) = link.take(context, tags, into);
        if wakes {
            link.ring_bell();
        }
        taken
    }

    #[inline]
    pub(crate) fn poll<S: FrameSink>(&mut self, except: Option<u32>, sink: &mut S) -> bool {
        self.poll_rings_and_inbox(except, sink)
    }

    #[inline]
    pub(crate) fn poll_peer<S: FrameSink>(
        &mut self,
        peer: u32,
        most: usize,
        sink: &mut S,
    ) -> Option<bool> {
        self.links.get(peer as usize)?.as_ref()?.ring_in.as_ref()?;
        Some(self.poll_ring(peer, most.min(BURST), sink))
    }

    #[inline(always)]
    pub(crate) fn is_calm(&self) -> bool {
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
    pub(crate) fn comes_soon(&self, from: u32) -> Option<bool> {
        let link = self.links.get(from as usize)?.as_ref()?;
        link.ring_in.as_ref().map(super::incoming::RingIn::comes_soon)
    }

    /// As [`OneSided::fetching`].
    pub fn fetching(&mut self, from: u32, address: u64, len: usize, is_two_way: bool) -> Fetching {
        if address == 0 {
            return Fetching::Ask;
        }
        if self.is_in_heap(from, address, len) {
            return Fetching::Read;
        }
        if !self.can_read(from) {
            return Fetching::Ask;
        }
        // A waiting sender sends through its pool if that is faster. A sender that computes, or
        // that shares this process's processor, does not.
        let Some(out) = self.out(from) else { return Fetching::Read };
        let traffic = if is_two_way { Traffic::TwoWay } else { Traffic::OneWay };
        let is_pooled = matches!(out.plan.of_pulled(len, traffic).protocol, Protocol::Pool(_));
        if is_pooled && !self.own.boot().oversubscribed {
            Fetching::AskOrRead
        } else {
            Fetching::Read
        }
    }

    pub(crate) fn is_in_reach(&mut self, peer: u32, address: u64, len: usize) -> bool {
        self.is_in_heap(peer, address, len) || self.can_read(peer)
    }

    /// As [`OneSided::read`].
    pub fn read(&mut self, peer: u32, address: u64, into: BytesMut<'_>) -> Result<(), Unreachable> {
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
        RemoteProcess { pid: out.pid }.read(address, into).map_err(|e| Unreachable {
            peer,
            why: format!("reading its memory at {address:#x} failed: {e}"),
        })
    }

    pub(crate) fn write(
        &mut self,
        peer: u32,
        address: u64,
        from: Bytes<'_>,
    ) -> Result<(), Unreachable> {
        match self.out(peer) {
            Some(out) if out.pid != 0 => {
                RemoteProcess { pid: out.pid }.write(address, from).map_err(|e| Unreachable {
                    peer,
                    why: format!("writing its memory at {address:#x} failed: {e}"),
                })
            }
            _ => Err(Unreachable { peer, why: "its memory may not be written".into() }),
        }
    }

    pub(crate) fn may_write_here(&mut self, peer: u32) -> bool {
        self.contact(peer).is_ok_and(|out| out.segment.status().state() != RankState::Finalized)
    }

    pub(crate) fn has_left(&mut self, peer: u32) -> bool {
        self.out(peer).is_some_and(|out| out.segment.status().has_left())
    }

    pub(crate) fn has_ended(&mut self, peer: u32) -> bool {
        self.out(peer).is_some_and(|out| out.segment.status().state() == RankState::Finalized)
    }

    pub(crate) fn map_heap(&mut self, peer: u32) -> Option<(u64, Memory)> {
        if peer == self.me {
            return self.own.heap_memory();
        }
        self.contact(peer).ok()?;
        let link = self.links.get_mut(peer as usize)?.as_mut()?;
        let segment = &link.out.as_ref()?.segment;
        if link.is_heap_refused {
            return None;
        }
        if !segment.has_heap() {
            link.is_heap_refused = !self.peer_segments.map_heap(peer, segment);
        }
        segment.heap_memory()
    }

    #[inline]
    pub(crate) fn is_away(&self, peer: u32) -> bool {
        self.out(peer).is_none_or(|out| out.segment.is_away())
    }

    pub(crate) fn bell(&mut self, peer: u32) -> Option<Bell> {
        if peer == self.me {
            return Some(self.peer_segments.bell_of(peer, &self.own));
        }
        self.contact(peer).ok().map(|out| out.bell.clone())
    }

    pub(crate) fn control_section(
        &mut self,
        leader: u32,
        index: u32,
        ranks: u32,
    ) -> Result<Option<ControlSection>, Unreachable> {
        let kind = self.peer_segments.kind();
        let segment = if leader == self.me { &self.own } else { &self.contact(leader)?.segment };
        let config = &segment.boot().config;
        let there = index < config.control_sections && ranks <= config.control_section_ranks;
        Ok(there.then(|| segment.control_section(index, ranks, kind)))
    }

    pub(crate) fn reserve_control_sections(&mut self) -> Option<(u32, u64)> {
        self.sections.reserve(&self.own, self.peer_segments.kind())
    }

    pub(crate) fn release_control_section(&mut self, index: u32, team: Option<u32>) {
        self.sections.release(index, team);
    }

    pub(crate) fn count(&mut self, counts: &mut Counts) {
        if let Some(pool) = &mut self.pool {
            let bytes = u64::from(pool.shape().bytes);
            counts.pool_bytes += bytes;
            counts.pool_used += bytes - pool.free_bytes() as u64;
        }
        counts.rings += self.granted.len() as u64;
        counts.inbox_frames += self.links.iter().flatten().map(|link| link.cells_in).sum::<u64>();
        counts.heap_bytes += self.heap_bytes;
        counts.piece_bytes += self.piece_bytes;
    }

    pub(crate) fn wake(&mut self, peer: u32) {
        if let Ok(out) = self.contact(peer) {
            out.bell.ring();
        }
    }

    pub(crate) fn announce_waiting(&mut self, peer: u32) -> bool {
        match self.out_mut(peer) {
            // Credits of the ring wake this process; room in the pool does not.
            Some(Out { path: Path::Ring(ring), lacks_pool, .. }) => {
                !ring.want_credits() && !*lacks_pool
            }
            // An inbox may have many waiting senders, and does not know them.
            _ => false,
        }
    }
}
