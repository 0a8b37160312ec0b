//! Events: the results of operations.

use crate::declarations::{
    FAILURES, PTL_EQ_DROPPED, PTL_EQ_EMPTY, PTL_EVENT_ACK, PTL_EVENT_AUTO_FREE,
    PTL_EVENT_AUTO_UNLINK, PTL_EVENT_GET, PTL_EVENT_PT_DISABLED, PTL_EVENT_PUT,
    PTL_EVENT_PUT_OVERFLOW, PTL_EVENT_REPLY, PTL_EVENT_SEARCH, PTL_NI_DROPPED, PTL_NI_OK,
    PTL_NI_PT_DISABLED, PTL_OK, ProcessAddress, RawEvent,
};
use crate::interface::{PortalsInterface, PutMessage};
use crate::library::{failed, name_of};
use crate::slots::{OperationKind, PendingOperation, number_of};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::foreign::LibraryError;
use std::mem::MaybeUninit;
use std::slice;

/// The most events that one poll reads from a queue.
const EVENTS: usize = 256;

/// A message that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub from: ProcessAddress,
    pub bits: u64,
    pub header: u64,
    /// In bytes, of the whole message; a shorter receive has a part of it.
    pub length: u64,
}

/// The result of an operation.
#[derive(Debug)]
pub enum PortalsEnding {
    /// The message is in a receive or a block of the target.
    Delivered,
    /// The target's entry is disabled, so the message was not taken.
    Refused(PutMessage),
    /// A peer's get has read the exposed memory.
    Fetched,
    Got,
    /// The peer has exposed nothing under these bits.
    Absent,
    /// A message is in the buffer of its receive.
    Came(Arrival, UserBuf),
    /// A search has found this message; if it was removed from the list, with its data.
    Found(Arrival, Vec<u8>),
    NotFound,
    /// A put or a get has failed; the text is for users.
    Failed(String),
}

/// An event of an interface.
#[derive(Debug)]
pub enum PortalsEvent<T> {
    Ended {
        /// The caller's name for the operation.
        token: T,
        ending: PortalsEnding,
    },
    /// The entry for messages had no room for one and takes none until
    /// [`PortalsInterface::enable`].
    Disabled,
}

fn failure(kind: u8) -> String {
    FAILURES
        .get(usize::from(kind))
        .map_or_else(|| format!("failure {kind}"), |name| name.to_string())
}

/// Unpacks contiguous data into their buffer.
fn unpack(own: Option<&[u8]>, buffer: &UserBuf, at: usize, stored: usize) {
    if let Some(own) = own {
        let stored = stored.min(own.len()).min(buffer.packed_len().saturating_sub(at));
        buffer.unpack(at, Bytes::from(&own[..stored]));
    }
}

impl<T: Copy> PortalsInterface<T> {
    /// Reads a batch of events. Returns whether there may be more.
    pub fn poll(&mut self, events: &mut Vec<PortalsEvent<T>>) -> Result<bool, LibraryError> {
        events.extend(self.pending.drain(..));
        let mut more = false;
        for queue in [self.target, self.initiator] {
            let mut left = EVENTS;
            while left > 0 {
                let Some(event) = self.next(queue)? else { break };
                left -= 1;
                events.extend(self.take(&event));
            }
            more |= left == 0;
        }
        Ok(more)
    }

    pub(crate) fn next(&self, queue: u32) -> Result<Option<RawEvent>, LibraryError> {
        let mut event = MaybeUninit::<RawEvent>::zeroed();
        // SAFETY: the queue is open; an event is written if there is one.
        let answer = unsafe { (self.library.symbols.PtlEQGet)(queue, event.as_mut_ptr()) };
        match answer {
            // SAFETY: it was written, and zeros are valid as well.
            PTL_OK => Ok(Some(unsafe { event.assume_init() })),
            PTL_EQ_EMPTY => Ok(None),
            PTL_EQ_DROPPED => Err(failed(
                "PtlEQGet",
                "PTL_EQ_DROPPED: an event queue was too short, and events are lost; its length is \
                 mtl_portals4_recv_event_queue_size or mtl_portals4_send_event_queue_size",
            )),
            other => Err(failed("PtlEQGet", &name_of(other))),
        }
    }

    pub(crate) fn take(&mut self, event: &RawEvent) -> Option<PortalsEvent<T>> {
        let number = number_of(event.user_ptr);
        let is_well = event.ni_fail_type == PTL_NI_OK;
        match event.kind {
            PTL_EVENT_PT_DISABLED => return Some(PortalsEvent::Disabled),
            PTL_EVENT_AUTO_UNLINK => {
                self.block_unlinked(number);
                return None;
            }
            PTL_EVENT_AUTO_FREE => {
                self.block_freed(number);
                return None;
            }
            PTL_EVENT_ACK
            | PTL_EVENT_REPLY
            | PTL_EVENT_GET
            | PTL_EVENT_PUT
            | PTL_EVENT_PUT_OVERFLOW
            | PTL_EVENT_SEARCH => {}
            // No other events were requested.
            _ => return None,
        }
        // The event of a search has the data only if the search removes the message.
        let found =
            (event.kind == PTL_EVENT_PUT_OVERFLOW && is_well).then(|| self.unexpected(event));
        let PendingOperation { token, handle, work } = self.slots.remove(number)?;
        let arrival = Arrival {
            from: event.initiator,
            bits: event.match_bits,
            header: event.hdr_data,
            length: event.rlength,
        };
        let ending = match (event.kind, work) {
            (PTL_EVENT_ACK, OperationKind::Put(message)) => {
                self.release(handle);
                match event.ni_fail_type {
                    PTL_NI_OK => PortalsEnding::Delivered,
                    PTL_NI_PT_DISABLED => PortalsEnding::Refused(message),
                    other => PortalsEnding::Failed(failure(other)),
                }
            }
            (PTL_EVENT_REPLY, OperationKind::Get { own, buffer, at }) => {
                self.release(handle);
                match event.ni_fail_type {
                    PTL_NI_OK => {
                        unpack(own.as_deref(), &buffer, at, event.mlength as usize);
                        PortalsEnding::Got
                    }
                    PTL_NI_DROPPED => PortalsEnding::Absent,
                    other => PortalsEnding::Failed(failure(other)),
                }
            }
            (PTL_EVENT_GET, OperationKind::Exposed { .. }) => PortalsEnding::Fetched,
            (PTL_EVENT_PUT, OperationKind::Receive { own, buffer }) => {
                unpack(own.as_deref(), &buffer, 0, event.mlength as usize);
                PortalsEnding::Came(arrival, buffer)
            }
            (PTL_EVENT_PUT_OVERFLOW, OperationKind::Receive { buffer, .. }) => {
                let data = found.unwrap_or_default();
                unpack(Some(&data), &buffer, 0, data.len());
                PortalsEnding::Came(arrival, buffer)
            }
            (PTL_EVENT_PUT_OVERFLOW, OperationKind::Search { takes: true }) => {
                PortalsEnding::Found(arrival, found.unwrap_or_default())
            }
            (PTL_EVENT_SEARCH, OperationKind::Search { takes: false }) if is_well => {
                PortalsEnding::Found(arrival, Vec::new())
            }
            (PTL_EVENT_SEARCH, OperationKind::Search { .. }) => PortalsEnding::NotFound,
            (kind, _) => PortalsEnding::Failed(format!("an event of kind {kind}")),
        };
        token.map(|token| PortalsEvent::Ended { token, ending })
    }

    /// The data of an unexpected message, which lie in a block.
    fn unexpected(&self, event: &RawEvent) -> Vec<u8> {
        let (start, len) = (event.start.addr(), event.mlength as usize);
        let block = self.slots.iter().find_map(|(_, one)| match &one.work {
            OperationKind::Block { memory } => {
                let offset = start.checked_sub(memory.as_ptr().addr())?;
                (offset < memory.len() && len <= memory.len() - offset).then_some((memory, offset))
            }
            _ => None,
        });
        let Some((memory, offset)) = block.filter(|_| len > 0) else { return Vec::new() };
        // SAFETY: these bytes lie in a block of this interface; Portals has written them, and only
        // writes to other bytes of it.
        unsafe { slice::from_raw_parts(memory.as_ptr().add(offset), len) }.to_vec()
    }

    /// Replaces a full block. Its memory is freed after its messages.
    fn block_unlinked(&mut self, number: u64) {
        if self
            .slots
            .get_mut(number)
            .is_some_and(|one| matches!(one.work, OperationKind::Block { .. }))
        {
            self.linked = self.linked.saturating_sub(1);
            self.link_blocks();
        }
    }

    /// Frees an unlinked block, all of whose messages have been received.
    fn block_freed(&mut self, number: u64) {
        if !self
            .slots
            .get_mut(number)
            .is_some_and(|one| matches!(one.work, OperationKind::Block { .. }))
        {
            return;
        }
        if let Some(PendingOperation { work: OperationKind::Block { memory }, .. }) =
            self.slots.remove(number)
            && self.spare.len() < self.options.blocks
        {
            self.spare.push(memory);
        }
        self.link_blocks();
    }
}
