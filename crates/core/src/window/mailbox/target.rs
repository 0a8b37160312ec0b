//! Requests in the mailboxes of this process, at the target.

use super::{BY_ADDRESS, DONE, FetchOld, OUTSIDE, RequestOp, UNREACHED, bytes_of, words_of};
use crate::window::Service;
use crate::window::control::BUFFER_BYTES;
use oxmpi_engine::Lane;
use oxmpi_fabric::Fabric;
use oxmpi_mem::atomics::compare_and_swap;
use oxmpi_mem::kernels::ReduceOp;
use oxmpi_shm::mailbox::{Answer, CARRIED_BYTES, CARRIED_WORDS, MailboxRequest};
use oxmpi_sys::bytes::{Bytes, BytesMut};

/// In bytes. Parts of this length stay in the nearest cache between two passes.
const PART_BYTES: usize = 4 << 10;
/// The longest copy by the kernel at a time, in bytes; a multiple of the size of each element.
const LONG_PART_BYTES: usize = 64 << 10;

impl Service {
    pub(in crate::window) fn serve_requests<F: Fabric>(&mut self, lane: &mut Lane<F>) -> bool {
        let mut found = false;
        for rank in 0..self.boxes.as_ref().map_or(0, |boxes| boxes.seen.len() as u32) {
            found |= self.serve_request(lane, rank);
        }
        found
    }

    #[inline]
    pub(in crate::window) fn serve_request<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
    ) -> bool {
        let Some(boxes) = &self.boxes else { return false };
        let seen = boxes.seen[rank as usize];
        match self.exposure.control.mailboxes() {
            Some(mailboxes) if mailboxes.has_posted(rank, seen) => {
                self.take_request(lane, rank, seen)
            }
            _ => false,
        }
    }

    fn take_request<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32, seen: u64) -> bool {
        let exposure = self.exposure.clone();
        let Some(mailboxes) = exposure.control.mailboxes() else { return false };
        let Some((number, request)) = mailboxes.take(rank, seen) else { return false };
        if let Some(boxes) = &mut self.boxes {
            boxes.seen[rank as usize] = number;
        }
        let Some(request) = request else { return true };
        let mut answer = Answer::default();
        answer.status = self.carry_out(lane, rank, &request, &mut answer.data);
        mailboxes.answer(rank, number, &answer);
        if let Some(bell) = self.routes(lane, rank).and_then(|routes| routes.bell.as_ref()) {
            bell.ring();
        }
        true
    }

    /// Carries out a request. Returns its status; `back` gets the data that the answer carries.
    fn carry_out<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        request: &MailboxRequest,
        back: &mut [u64; CARRIED_WORDS],
    ) -> u64 {
        let (Some(what), Ok(len)) = (RequestOp::of(request.what), usize::try_from(request.len))
        else {
            return OUTSIDE;
        };
        if request.what & BY_ADDRESS != 0 {
            return self.carry_out_long(lane, rank, (what, len), request);
        }
        let (Some(given), Some(returned)) = (
            len.checked_mul(2).map(|_| what.given(len)),
            (len <= BUFFER_BYTES).then(|| what.returned(len)),
        ) else {
            return OUTSIDE;
        };
        let exposure = self.exposure.clone();
        let Some(target) = exposure.bytes(request.at.cast_signed(), len) else { return OUTSIDE };
        if what.is_carried(len) {
            let (data, mut old) = (bytes_of(&request.data, given), [0; CARRIED_BYTES]);
            let done = self.apply(
                lane,
                what,
                Bytes::from(&data[..given]),
                target,
                (&mut old[..returned]).into(),
            );
            *back = words_of(&old);
            return if done { DONE } else { OUTSIDE };
        }
        let control = self.routes(lane, rank).and_then(|routes| routes.control.clone());
        let Some(buffers) = control.as_ref().and_then(|control| control.buffers(len)) else {
            return UNREACHED;
        };
        let (mut data, mut old) = buffers;
        if given > len {
            return OUTSIDE;
        }
        let (data, old) = (data.slice(0, given), old.slice(0, returned));
        if self.apply(lane, what, data.as_bytes(), target, old) { DONE } else { OUTSIDE }
    }

    fn carry_out_long<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        rank: u32,
        (what, len): (RequestOp, usize),
        request: &MailboxRequest,
    ) -> u64 {
        let exposure = self.exposure.clone();
        let (Some(mut target), Some(origin)) =
            (exposure.bytes(request.at.cast_signed(), len), self.targets.get(rank as usize))
        else {
            return OUTSIDE;
        };
        let (process, [operands, old, ..]) = (origin.process, request.data);
        let (given, returned) = (what.given(len).min(len), what.returned(len).min(len));
        let part = len.min(LONG_PART_BYTES);
        let (mut data, mut before) = (vec![0; part.min(given)], vec![0; part.min(returned)]);
        // No element changes before the first part of the operands is read.
        for at in (0..len).step_by(LONG_PART_BYTES) {
            let n = part.min(len - at);
            let (data, before) = (&mut data[..n.min(given)], &mut before[..n.min(returned)]);
            let place = |start: u64| start.wrapping_add(at as u64);
            let fabric = lane.fabric_mut();
            if !data.is_empty()
                && fabric.read(process, place(operands), BytesMut::from(&mut *data)).is_err()
            {
                return if at == 0 { UNREACHED } else { OUTSIDE };
            }
            if !self.apply(
                lane,
                what,
                Bytes::from(&*data),
                target.slice(at, n),
                BytesMut::from(&mut *before),
            ) {
                return OUTSIDE;
            }
            if !before.is_empty()
                && lane.fabric_mut().write(process, place(old), Bytes::from(&*before)).is_err()
            {
                // An operation without operands has changed no element.
                return if at == 0 && given == 0 { UNREACHED } else { OUTSIDE };
            }
        }
        DONE
    }

    /// Applies an operation to the target memory. Returns `false` if the lengths do not fit it.
    fn apply<F: Fabric>(
        &self,
        lane: &mut Lane<F>,
        what: RequestOp,
        data: Bytes<'_>,
        mut target: BytesMut<'_>,
        old: BytesMut<'_>,
    ) -> bool {
        match what {
            RequestOp::Accumulate(accumulator, fetch) => {
                if !accumulator.is_plain() || !target.len().is_multiple_of(accumulator.size()) {
                    return false;
                }
                let mut old = (fetch == FetchOld::Yes).then_some(old);
                if !self.is_alone {
                    accumulator.apply(data, target, old, || self.hold_elements(lane));
                    return true;
                }
                let (len, part) =
                    (target.len(), PART_BYTES / accumulator.size() * accumulator.size());
                let operates = accumulator.op() != ReduceOp::NoOp;
                for at in (0..len).step_by(part) {
                    let n = part.min(len - at);
                    let operands = if operates { data.slice(at, n) } else { Bytes::empty() };
                    let old = old.as_mut().map(|old| old.slice(at, n));
                    accumulator.apply_alone(operands, target.slice(at, n), old);
                }
            }
            RequestOp::Swap => {
                let len = target.len();
                if len == 0 || len > CARRIED_BYTES / 2 {
                    return false;
                }
                let (new, compare) = (data.slice(0, len), data.slice(len, len));
                compare_and_swap(new, compare, target, old, || self.hold_elements(lane));
            }
            RequestOp::Put => data.copy_to(target),
            RequestOp::Get => target.as_bytes().copy_to(old),
        }
        true
    }
}
