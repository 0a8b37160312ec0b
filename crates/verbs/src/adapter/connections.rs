//! Connections of an adapter: reliable queue pairs, from the first state to the last.

use super::{Adapter, LocalEnd, QueuePair, RemoteEnd};
use crate::declarations::{
    IBV_ACCESS_REMOTE_READ, IBV_ACCESS_REMOTE_WRITE, IBV_QP_ACCESS_FLAGS, IBV_QP_AV,
    IBV_QP_DEST_QPN, IBV_QP_MAX_DEST_RD_ATOMIC, IBV_QP_MAX_QP_RD_ATOMIC, IBV_QP_MIN_RNR_TIMER,
    IBV_QP_PATH_MTU, IBV_QP_PKEY_INDEX, IBV_QP_PORT, IBV_QP_RETRY_CNT, IBV_QP_RNR_RETRY,
    IBV_QP_RQ_PSN, IBV_QP_SQ_PSN, IBV_QP_STATE, IBV_QP_TIMEOUT, IBV_QPS_ERR, IBV_QPS_INIT,
    IBV_QPS_RTR, IBV_QPS_RTS, IBV_QPT_RC, Qp, QpAttr, QpCap, QpInitAttr,
};
use crate::library::VerbsError;
use libc::c_int;
use std::mem::zeroed;
use std::ptr::null_mut;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The number of repetitions of a packet before a connection fails. The field's maximum is 7, but
/// soft RoCE takes 7 for "without end" (rxe_comp.c of Linux, `retry_cnt != 7`), so that a
/// connection to a dead peer would never fail.
pub const RETRIES: u8 = 6;

/// The time in the error state before a queue pair with a shared queue is destroyed.
pub(crate) const DRAIN: Duration = Duration::from_secs(1);

impl Adapter {
    /// Makes one end of a connection, whose first packet has this number (24 bits).
    pub fn create(&mut self, first_packet: u32) -> Result<LocalEnd, VerbsError> {
        let completions = self.completions();
        self.expect(completions)?;
        let made = self.new_words().and_then(|words| {
            let made = self.create_with(first_packet, words);
            if made.is_err() {
                self.free_words.push(words);
            }
            made
        });
        if made.is_err() {
            self.expected -= completions;
        }
        made
    }

    pub(super) fn own_receives(&self) -> u32 {
        if self.srq.is_null() { self.settings.receive_depth } else { 0 }
    }

    pub(super) fn completions(&self) -> u32 {
        self.settings.send_depth + self.own_receives()
    }

    pub(super) fn create_with(
        &mut self,
        first_packet: u32,
        words: usize,
    ) -> Result<LocalEnd, VerbsError> {
        let receives = self.own_receives();
        let mut init = QpInitAttr {
            qp_context: null_mut(),
            send_cq: self.cq,
            recv_cq: self.cq,
            srq: self.srq,
            cap: QpCap {
                max_send_wr: self.settings.send_depth,
                max_recv_wr: receives,
                max_send_sge: 1,
                max_recv_sge: u32::from(receives > 0),
                max_inline_data: 0,
            },
            qp_type: IBV_QPT_RC,
            sq_sig_all: 0,
        };
        let symbols = self.library.symbols;
        // SAFETY: domain and queues are open; the description lives during the call.
        let raw = unsafe { (symbols.ibv_create_qp)(self.pd, &mut init) };
        let raw = self.made("ibv_create_qp", raw)?;
        // SAFETY: the queue pair was just made.
        let number = unsafe { (*raw).qp_num };
        let (incoming, key) = self.word_address(words);
        let gid = self.port.gid.map_or([0; 16], |(_, gid)| gid);
        let (lid, word, reads) = (self.port.lid, (incoming, key), self.limits.reads);
        let end = LocalEnd { queue_pair: number, first_packet, lid, gid, word, reads };
        self.word(words).store(0, Ordering::Release);
        self.word(words + 1).store(0, Ordering::Release);
        // SAFETY: zeros are valid for this structure of numbers.
        let mut attr: QpAttr = unsafe { zeroed() };
        attr.qp_state = IBV_QPS_INIT;
        attr.port_num = self.settings.port;
        let access = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | self.atomic_access();
        attr.qp_access_flags = access as u32;
        let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        if let Err(error) = self.modify(raw, attr, mask) {
            // SAFETY: the queue pair is open, and nothing was posted on it.
            unsafe { (symbols.ibv_destroy_qp)(raw) };
            return Err(error);
        }
        let remote = RemoteEnd::default();
        self.queue_pairs.insert(number, QueuePair { raw, remote, words, live: 0, closing: None });
        Ok(end)
    }

    pub(super) fn modify(
        &self,
        raw: *mut Qp,
        mut attr: QpAttr,
        mask: c_int,
    ) -> Result<(), VerbsError> {
        // SAFETY: the queue pair is open; the attributes live during the call.
        self.check("ibv_modify_qp", unsafe {
            (self.library.symbols.ibv_modify_qp)(raw, &mut attr, mask)
        })
    }

    /// Connects an end with a peer's: it can receive and send from now on. Post receives before.
    pub fn connect(&mut self, local: &LocalEnd, remote: &RemoteEnd) -> Result<(), VerbsError> {
        let pair = self.queue_pairs.get_mut(&local.queue_pair);
        let Some(pair) = pair.filter(|pair| pair.closing.is_none()) else {
            return Err(self.error("ibv_modify_qp", libc::ENOTCONN));
        };
        pair.remote = *remote;
        let raw = pair.raw;
        // SAFETY: zeros are valid for this structure of numbers.
        let mut attr: QpAttr = unsafe { zeroed() };
        attr.qp_state = IBV_QPS_RTR;
        attr.path_mtu = (self.settings.mtu / 128).max(2).ilog2() as c_int;
        attr.dest_qp_num = remote.queue_pair;
        attr.rq_psn = remote.first_packet;
        attr.max_dest_rd_atomic = local.reads;
        attr.min_rnr_timer = 12;
        attr.ah_attr.port_num = self.settings.port;
        attr.ah_attr.dlid = remote.lid;
        if let Some((at, _)) = self.port.gid.filter(|_| self.port.is_ethernet || remote.lid == 0) {
            let half = |part: &[u8]| part.try_into().map(u64::from_ne_bytes).unwrap_or(0);
            attr.ah_attr.is_global = 1;
            attr.ah_attr.grh.dgid = [half(&remote.gid[..8]), half(&remote.gid[8..])];
            attr.ah_attr.grh.sgid_index = at;
            attr.ah_attr.grh.hop_limit = 64;
        }
        let mask = IBV_QP_STATE
            | IBV_QP_AV
            | IBV_QP_PATH_MTU
            | IBV_QP_DEST_QPN
            | IBV_QP_RQ_PSN
            | IBV_QP_MAX_DEST_RD_ATOMIC
            | IBV_QP_MIN_RNR_TIMER;
        self.modify(raw, attr, mask)?;
        // SAFETY: zeros are valid for this structure of numbers.
        let mut attr: QpAttr = unsafe { zeroed() };
        attr.qp_state = IBV_QPS_RTS;
        attr.timeout = self.settings.ack_timeout;
        attr.retry_cnt = RETRIES;
        // A receiver always has receives posted for its credits: "receiver not ready" is an error.
        attr.rnr_retry = 0;
        attr.sq_psn = local.first_packet;
        attr.max_rd_atomic = local.reads.min(remote.reads).max(1);
        let mask = IBV_QP_STATE
            | IBV_QP_TIMEOUT
            | IBV_QP_RETRY_CNT
            | IBV_QP_RNR_RETRY
            | IBV_QP_SQ_PSN
            | IBV_QP_MAX_QP_RD_ATOMIC;
        self.modify(raw, attr, mask)
    }

    /// Ends a connection: its operations end with errors, whose completions are still read, and
    /// then [`Adapter::take_closed`] removes it.
    pub fn close(&mut self, queue_pair: u32) {
        let Some(pair) = self.queue_pairs.get_mut(&queue_pair) else { return };
        if pair.closing.replace(Instant::now()).is_some() {
            return;
        }
        self.closing += 1;
        let raw = pair.raw;
        // SAFETY: zeros are valid for this structure of numbers.
        let mut attr: QpAttr = unsafe { zeroed() };
        attr.qp_state = IBV_QPS_ERR;
        // The queue pair may be in that state already.
        let _ = self.modify(raw, attr, IBV_QP_STATE);
    }

    /// Destroys closed connections from which no slot can come back, and returns the numbers of
    /// their queue pairs. Handle all completions that were read before: the device may reuse these
    /// numbers.
    ///
    /// A library drops the unread completions of a queue pair that it destroys, and the slot of a
    /// dropped completion never comes back. The number of own operations under way is known, but
    /// not the number of slots taken from a shared queue. In the error state a queue pair takes no
    /// more slots, and the taken ones end soon. So each queue pair stays in that state for a
    /// second, and until the completion queue is empty.
    pub fn take_closed(&mut self) -> Vec<u32> {
        if self.closing == 0 {
            return Vec::new();
        }
        let (is_shared, is_empty) = (!self.srq.is_null(), self.is_empty);
        let is_over = |pair: &QueuePair| {
            let is_drained = |since: Instant| !is_shared || is_empty && since.elapsed() >= DRAIN;
            pair.live == 0 && pair.closing.is_some_and(is_drained)
        };
        let pairs: Vec<_> = self.queue_pairs.extract_if(|_, pair| is_over(pair)).collect();
        for (_, pair) in &pairs {
            // SAFETY: the queue pair is open, and no operation of it is under way.
            unsafe { (self.library.symbols.ibv_destroy_qp)(pair.raw) };
            self.free_words.push(pair.words);
            self.expected -= self.completions();
            self.closing -= 1;
        }
        pairs.into_iter().map(|(queue_pair, _)| queue_pair).collect()
    }
}
