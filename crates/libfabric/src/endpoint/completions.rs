//! Reads completions and ends their operations.

use super::{
    Ended, Ending, Endpoint, EndpointError, FrameRoom, Operation, OperationMemory, ShortSend,
};
use crate::declarations::{
    CqEntry, CqError, FI_EAGAIN, FI_EAVAIL, FI_ECANCELED, FI_ENOMSG, FI_ETRUNC, FI_SEND,
};
use libc::c_void;
use oxmpi_sys::bytes::Bytes;
use std::ffi::CStr;
use std::ptr::null_mut;

impl<T: Copy, const GROUPED: bool> Endpoint<T, GROUPED> {
    /// Reads completions, at most the number of [`Endpoint::open`], and lets the provider make
    /// progress. Returns whether there was a completion, also of a forgotten operation.
    pub fn read(&mut self, events: &mut Vec<Ended<T>>) -> Result<bool, EndpointError> {
        self.read_with(events, |_, _| false)
    }

    /// [`Endpoint::read`] right after [`Endpoint::send_short`]. Returns whether this short message
    /// has been sent, which then makes no event.
    #[inline]
    pub fn read_after(
        &mut self,
        ShortSend(at): ShortSend,
        events: &mut Vec<Ended<T>>,
    ) -> Result<bool, EndpointError> {
        let mut has_ended = false;
        let operation = &mut *self.operations[at as usize];
        let context = (&raw mut *operation).cast::<c_void>();
        self.read_with(events, |endpoint, entry| {
            let is_short_send = entry.op_context == context;
            if is_short_send {
                // Cheaper than `release`: a short message has no memory to return.
                endpoint.operations[at as usize].is_live = false;
                endpoint.free.push(at);
                has_ended = true;
            }
            is_short_send
        })?;
        Ok(has_ended)
    }

    /// Reads completions. A completion becomes an event unless `takes` returns true for it.
    #[inline(always)]
    fn read_with(
        &mut self,
        events: &mut Vec<Ended<T>>,
        mut takes: impl FnMut(&mut Self, &CqEntry) -> bool,
    ) -> Result<bool, EndpointError> {
        let mut left = self.entries.len();
        while left > 0 {
            let cq = self.cq;
            // SAFETY: the queue is open and has the format of `CqEntry`; `entries` has room for
            // `left` entries.
            let came = unsafe { ((*(*cq).ops).read)(cq, self.entries.as_mut_ptr().cast(), left) };
            match came {
                came if came > 0 => {
                    for at in 0..came as usize {
                        let entry = self.entries[at];
                        if !takes(self, &entry) {
                            self.complete(&entry, events);
                        }
                    }
                    // The queue can have more: some providers stop before an error.
                    return Ok(true);
                }
                none if none == 0 || none == -FI_EAGAIN => return Ok(left < self.entries.len()),
                error if error == -FI_EAVAIL => {
                    self.read_error(events)?;
                    left -= 1;
                }
                error => return Err(self.error("fi_cq_read", error)),
            }
        }
        Ok(true)
    }

    fn operation_of_context(&self, context: *mut c_void) -> Option<u32> {
        if context.is_null() {
            return None;
        }
        // SAFETY: libfabric returns the pointer of the call: an operation of this endpoint, which
        // does not move.
        let at = unsafe { (*context.cast::<Operation<T>>()).at };
        let operation = self.operations.get(at as usize)?;
        ((&raw const operation.context).cast::<c_void>() == context.cast_const()).then_some(at)
    }

    fn complete(&mut self, entry: &CqEntry, events: &mut Vec<Ended<T>>) {
        let Some(at) = self.operation_of_context(entry.op_context) else { return };
        let is_send = entry.flags & FI_SEND != 0;
        let data = entry.data;
        let outcome = if is_send {
            Ending::Sent
        } else {
            let order = self.operations[at as usize].order;
            Ending::Came { tag: entry.tag, data, length: entry.len as u64, order }
        };
        self.end(at, outcome, entry.len, events);
    }

    fn end(&mut self, at: u32, outcome: Ending, stored: usize, events: &mut Vec<Ended<T>>) {
        let Operation { token, is_wanted, claims, ref memory, .. } = *self.operations[at as usize];
        if let OperationMemory::Room(_) = memory {
            let outcome = match outcome {
                Ending::Came { length, .. } => {
                    Ending::Frame { room: FrameRoom(at), length: length as usize }
                }
                Ending::Failed(why) => Ending::NoFrame { room: FrameRoom(at), why },
                other => Ending::NoFrame { room: FrameRoom(at), why: format!("{other:?}") },
            };
            self.operations[at as usize].is_live = false;
            events.extend(token.map(|token| Ended { token, outcome }));
            return;
        }
        if claims && matches!(outcome, Ending::Came { .. }) {
            self.operations[at as usize].is_live = false;
            events.extend(token.map(|token| Ended { token, outcome }));
            return;
        }
        let memory = self.release(at);
        if is_wanted && let Ending::Came { tag, order, .. } = outcome {
            if let OperationMemory::Unpacked(own, buffer) = &memory {
                let stored = stored.min(buffer.packed_len());
                buffer.unpack(0, Bytes::from(&own[..stored]));
            }
            if tag & self.kept_bits != 0
                && let OperationMemory::Unpacked(_, buffer) | OperationMemory::User(buffer) = memory
            {
                self.kept.push((order, buffer));
            }
        }
        let outcome = match outcome {
            Ending::Came { tag, data, order, .. } if !is_wanted && tag & self.kept_bits != 0 => {
                Ending::Unwanted { tag, data, order }
            }
            _ if !is_wanted => return,
            outcome => outcome,
        };
        events.extend(token.map(|token| Ended { token, outcome }));
    }

    fn read_error(&mut self, events: &mut Vec<Ended<T>>) -> Result<(), EndpointError> {
        let mut error = CqError {
            op_context: null_mut(),
            flags: 0,
            len: 0,
            buf: null_mut(),
            data: 0,
            tag: 0,
            olen: 0,
            err: 0,
            prov_errno: 0,
            err_data: null_mut(),
            err_data_size: 0,
            later: [0; 2],
        };
        let cq = self.cq;
        // SAFETY: the queue is open; `CqError` has room for the entry of each version.
        let read = unsafe { ((*(*cq).ops).readerr)(cq, &mut error, 0) };
        if read == 0 || read == -FI_EAGAIN {
            return Ok(());
        }
        if read < 0 {
            return Err(self.error("fi_cq_readerr", read));
        }
        let Some(at) = self.operation_of_context(error.op_context) else { return Ok(()) };
        let (data, mut stored) = (error.data, error.len);
        // Some providers return a negative error number.
        let outcome = match error.err.abs() {
            FI_ECANCELED => Ending::Cancelled,
            FI_ENOMSG => Ending::Nothing,
            // Some providers set the length to 0, or to the length of the part that has arrived.
            FI_ETRUNC => {
                stored = Self::receive_memory(&mut self.operations[at as usize].memory).1;
                let length = (error.len + error.olen).max(stored + 1) as u64;
                let order = self.operations[at as usize].order;
                Ending::Came { tag: error.tag, data, length, order }
            }
            code => {
                let mut text = [0; 256];
                // SAFETY: the queue is open, and has not been read since, so `err_data` is valid.
                // The text ends with a zero byte within `text`.
                let said = unsafe {
                    let strerror = (*(*cq).ops).strerror;
                    let said = strerror(
                        cq,
                        error.prov_errno,
                        error.err_data,
                        text.as_mut_ptr(),
                        text.len(),
                    );
                    if said.is_null() {
                        String::new()
                    } else {
                        CStr::from_ptr(said).to_string_lossy().into_owned()
                    }
                };
                Ending::Failed(format!("{} ({said})", self.library.text_of(code)))
            }
        };
        self.end(at, outcome, stored, events);
        Ok(())
    }
}
