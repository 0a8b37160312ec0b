//! The match list: posted receives, searches, and the blocks of unexpected messages.

use crate::declarations::{
    PTL_ME_EVENT_COMM_DISABLE, PTL_ME_MANAGE_LOCAL, PTL_ME_OP_PUT, PTL_ME_USE_ONCE, PTL_OK,
    PTL_OVERFLOW_LIST, PTL_PRIORITY_LIST, PTL_SEARCH_DELETE, PTL_SEARCH_ONLY, ProcessAddress,
};
use crate::interface::{PortalsInterface, admitted};
use crate::slots::{OperationKind, pointer_of};
use libc::c_int;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::foreign::LibraryError;
use std::ptr::null_mut;

/// The messages that a receive or a search takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatchCriteria {
    pub bits: u64,
    pub ignored: u64,
}

impl<T: Copy> PortalsInterface<T> {
    /// Posts a receive ([`PortalsEnding::Came`](crate::PortalsEnding)). `false`: no room now.
    pub fn receive(
        &mut self,
        wanted: MatchCriteria,
        buffer: &UserBuf,
        token: T,
    ) -> Result<bool, LibraryError> {
        self.read_ahead()?;
        let length = buffer.packed_len();
        let (start, own) = match buffer.as_contiguous_mut() {
            Some(mut bytes) => (bytes.as_mut_ptr(), None),
            None => {
                let mut own = vec![0; length.min(self.options.longest_unexpected)];
                (own.as_mut_ptr(), Some(own))
            }
        };
        let length = own.as_ref().map_or(length, |own| own.len());
        let options = PTL_ME_OP_PUT | PTL_ME_USE_ONCE;
        let bits = (wanted.bits, wanted.ignored);
        let entry = self.entry(start.cast(), length, options, ProcessAddress::ANY, bits);
        let work = OperationKind::Receive { own, buffer: buffer.clone() };
        let answer = self.append(self.messages, &entry, PTL_PRIORITY_LIST, Some(token), work);
        admitted("PtlMEAppend", answer)
    }

    /// Searches the unexpected messages for the first that such a receive would get
    /// ([`PortalsEnding::Found`](crate::PortalsEnding) or
    /// [`PortalsEnding::NotFound`](crate::PortalsEnding)); with `takes` the message is removed.
    /// `false` if there is no room now.
    pub fn search(
        &mut self,
        wanted: MatchCriteria,
        takes: bool,
        token: T,
    ) -> Result<bool, LibraryError> {
        self.read_ahead()?;
        let options = PTL_ME_OP_PUT | PTL_ME_USE_ONCE;
        let bits = (wanted.bits, wanted.ignored);
        let mut entry = self.entry(null_mut(), 0, options, ProcessAddress::ANY, bits);
        entry.options |= crate::declarations::PTL_ME_EVENT_UNLINK_DISABLE;
        let number = self.begin(token, OperationKind::Search { takes });
        let operation = if takes { PTL_SEARCH_DELETE } else { PTL_SEARCH_ONLY };
        // SAFETY: the interface is open; the entry is read during the call and has no memory.
        let answer = unsafe {
            (self.library.symbols.PtlMESearch)(
                self.handle,
                self.messages,
                &entry,
                operation,
                pointer_of(number),
            )
        };
        if answer != PTL_OK {
            self.slots.remove(number);
        }
        admitted("PtlMESearch", answer)
    }

    /// Empties the queue of messages, as the next call makes an event there at once.
    fn read_ahead(&mut self) -> Result<(), LibraryError> {
        while let Some(event) = self.next(self.target)? {
            let event = self.take(&event);
            self.pending.extend(event);
        }
        Ok(())
    }

    /// Unlinks the receives and the exposed memory with such a token. Returns the tokens of the
    /// unlinked operations, which have no event; other operations were matched, and their events
    /// come.
    pub fn unlink(&mut self, is_it: impl Fn(&T) -> bool) -> Vec<T> {
        let is_entry = |work: &OperationKind| {
            matches!(work, OperationKind::Receive { .. } | OperationKind::Exposed { .. })
        };
        let found: Vec<_> = self
            .slots
            .iter()
            .filter(|(_, one)| is_entry(&one.work) && one.token.as_ref().is_some_and(&is_it))
            .map(|(number, one)| (number, one.handle))
            .collect();
        let mut gone = Vec::new();
        for (number, handle) in found {
            // SAFETY: the entry was appended here. Portals refuses a handle that is gone or in use.
            let answer = unsafe { (self.library.symbols.PtlMEUnlink)(handle) };
            if answer == PTL_OK {
                gone.extend(self.slots.remove(number).and_then(|operation| operation.token));
            }
        }
        gone
    }

    /// Links blocks up to the configured number. Returns the last return code.
    pub(crate) fn link_blocks(&mut self) -> c_int {
        while self.linked < self.options.blocks {
            let len = self.options.block_len;
            let mut memory = self.spare.pop().unwrap_or_else(|| vec![0; len]);
            // A message makes no event on arrival, but when a receive or a search finds it.
            let options = PTL_ME_OP_PUT | PTL_ME_MANAGE_LOCAL | PTL_ME_EVENT_COMM_DISABLE;
            let start = memory.as_mut_ptr().cast();
            let mut entry = self.entry(start, len, options, ProcessAddress::ANY, (0, u64::MAX));
            entry.min_free = self.options.longest_unexpected as u64;
            let work = OperationKind::Block { memory };
            let answer = self.append(self.messages, &entry, PTL_OVERFLOW_LIST, None, work);
            if answer != PTL_OK {
                return answer;
            }
            self.linked += 1;
        }
        PTL_OK
    }
}
