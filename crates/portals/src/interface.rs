//! An interface: its event queues and portal table entries, and its puts, gets and exposed memory.

use crate::declarations::{
    MatchEntry, MemoryDescriptor, PTL_ACK_REQ, PTL_CT_NONE, PTL_INVALID_HANDLE, PTL_LIST_TOO_LONG,
    PTL_MD_EVENT_SEND_DISABLE, PTL_ME_EVENT_COMM_DISABLE, PTL_ME_EVENT_LINK_DISABLE,
    PTL_ME_EVENT_UNLINK_DISABLE, PTL_ME_OP_GET, PTL_ME_USE_ONCE, PTL_NO_SPACE, PTL_OK,
    PTL_PRIORITY_LIST, PTL_PT_ANY, PTL_PT_FLOWCTRL, ProcessAddress,
};
use crate::events::PortalsEvent;
use crate::library::{InterfaceLimits, PortalsLibrary, failed, name_of};
use crate::slots::{OperationKind, PendingOperation, Slots, pointer_of};
use libc::{c_int, c_uint, c_void};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::foreign::LibraryError;
use std::collections::VecDeque;
use std::fmt;
use std::ptr::null_mut;
use std::sync::Arc;

/// The sizes of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterfaceOptions {
    /// Unread events of sends and gets, and of gets by peers, for which there is room.
    pub initiator_events: usize,
    /// Unread events of incoming messages for which there is room.
    pub target_events: usize,
    pub blocks: usize,
    pub block_len: usize,
    /// The longest message for which a block must have room, in bytes.
    pub longest_unexpected: usize,
}

/// A message to put, kept here until the target has taken it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PutMessage {
    pub bits: u64,
    pub header: u64,
    pub bytes: Vec<u8>,
}

/// A portal table entry of another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteEntry {
    pub process: ProcessAddress,
    pub index: u32,
}

/// A matching interface of this process. One thread at a time uses it.
pub struct PortalsInterface<T> {
    pub(crate) library: Arc<PortalsLibrary>,
    pub(crate) handle: u32,
    pub(crate) options: InterfaceOptions,
    limits: InterfaceLimits,
    pub(crate) address: ProcessAddress,
    pub(crate) uid: u32,
    /// The event queue of this process's operations, and of gets by peers.
    pub(crate) initiator: u32,
    /// The event queue of incoming messages.
    pub(crate) target: u32,
    pub(crate) messages: u32,
    exposed: u32,
    pub(crate) slots: Slots<T>,
    pub(crate) linked: usize,
    /// Memory of unlinked blocks, for reuse.
    pub(crate) spare: Vec<Vec<u8>>,
    /// Events that were read before a call that makes an event at once.
    pub(crate) pending: VecDeque<PortalsEvent<T>>,
}

impl<T> fmt::Debug for PortalsInterface<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PortalsInterface")
            .field("library", &self.library)
            .field("address", &self.address)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

// SAFETY: handles of Portals belong to the process, and any thread may call the library. The memory
// of operations is owned, or a `UserBuf`, which may be sent.
unsafe impl<T: Send> Send for PortalsInterface<T> {}

/// Whether a return code means that there is no room now.
pub(crate) fn is_no_room(answer: c_int) -> bool {
    matches!(answer, PTL_NO_SPACE | PTL_LIST_TOO_LONG)
}

/// Whether there was room for an operation.
pub(crate) fn admitted(call: &'static str, answer: c_int) -> Result<bool, LibraryError> {
    match answer {
        PTL_OK => Ok(true),
        full if is_no_room(full) => Ok(false),
        other => Err(failed(call, &name_of(other))),
    }
}

impl<T: Copy> PortalsInterface<T> {
    /// Opens the default interface, and links its blocks.
    pub fn open(
        library: &Arc<PortalsLibrary>,
        options: InterfaceOptions,
    ) -> Result<Self, LibraryError> {
        let (handle, limits) = library.open_interface()?;
        let none = PTL_INVALID_HANDLE;
        let mut interface = PortalsInterface {
            library: Arc::clone(library),
            handle,
            options,
            limits,
            address: ProcessAddress::ANY,
            uid: 0,
            initiator: none,
            target: none,
            messages: none,
            exposed: none,
            slots: Slots::default(),
            linked: 0,
            spare: Vec::new(),
            pending: VecDeque::new(),
        };
        // If the rest fails, `drop` closes the interface.
        interface.allocate()?;
        Ok(interface)
    }

    fn allocate(&mut self) -> Result<(), LibraryError> {
        let library = Arc::clone(&self.library);
        let symbols = &library.symbols;
        let counts = (self.options.initiator_events as u64, self.options.target_events as u64);
        // SAFETY: the interface is open, and each call writes a field of this value.
        unsafe {
            library
                .check("PtlGetPhysId", (symbols.PtlGetPhysId)(self.handle, &mut self.address))?;
            library.check("PtlGetUid", (symbols.PtlGetUid)(self.handle, &mut self.uid))?;
            library.check(
                "PtlEQAlloc",
                (symbols.PtlEQAlloc)(self.handle, counts.0, &mut self.initiator),
            )?;
            library.check(
                "PtlEQAlloc",
                (symbols.PtlEQAlloc)(self.handle, counts.1, &mut self.target),
            )?;
        }
        for (options, queue, entry) in [
            (PTL_PT_FLOWCTRL, self.target, &mut self.messages),
            (0, self.initiator, &mut self.exposed),
        ] {
            // SAFETY: the interface and the queue are open; the call writes the index.
            let answer =
                unsafe { (symbols.PtlPTAlloc)(self.handle, options, queue, PTL_PT_ANY, entry) };
            library.check("PtlPTAlloc", answer)?;
        }
        let answer = self.link_blocks();
        if self.linked == 0 { library.check("PtlMEAppend", answer) } else { Ok(()) }
    }

    /// This process's address in the network.
    pub fn address(&self) -> ProcessAddress {
        self.address
    }

    /// The indexes of the entries for messages and for exposed memory.
    pub fn entries(&self) -> (u32, u32) {
        (self.messages, self.exposed)
    }

    /// The longest message or get, in bytes.
    pub fn max_message(&self) -> usize {
        usize::try_from(self.limits.message).unwrap_or(usize::MAX).max(1)
    }

    /// Puts a message into the entry of a peer. It ends as
    /// [`PortalsEnding::Delivered`](crate::PortalsEnding) when it is in a receive or a block there.
    /// Returns the message if there is no room now.
    pub fn put(
        &mut self,
        to: RemoteEntry,
        message: PutMessage,
        token: T,
    ) -> Result<Result<(), PutMessage>, LibraryError> {
        if !self.has_room(7) {
            return Ok(Err(message));
        }
        let (bits, header) = (message.bits, message.header);
        let (start, length) = (message.bytes.as_ptr().cast_mut().cast(), message.bytes.len());
        let number = self.begin(token, OperationKind::Put(message));
        let bound = match self.bind(start, length) {
            Ok(bound) => bound,
            Err(error) => return self.give_up_put(number, "PtlMDBind", error),
        };
        self.set_handle(number, bound);
        // SAFETY: the descriptor covers memory of the operation, which owns it until its end.
        let answer = unsafe {
            (self.library.symbols.PtlPut)(
                bound,
                0,
                length as u64,
                PTL_ACK_REQ,
                to.process,
                to.index,
                bits,
                0,
                pointer_of(number),
                header,
            )
        };
        if answer == PTL_OK {
            return Ok(Ok(()));
        }
        self.release(bound);
        self.give_up_put(number, "PtlPut", answer)
    }

    fn give_up_put(
        &mut self,
        number: u64,
        call: &'static str,
        answer: c_int,
    ) -> Result<Result<(), PutMessage>, LibraryError> {
        let message = self.slots.remove(number).map(|operation| operation.work);
        match (admitted(call, answer), message) {
            (Ok(false), Some(OperationKind::Put(message))) => Ok(Err(message)),
            (Err(error), _) => Err(error),
            _ => Err(failed(call, &name_of(answer))),
        }
    }

    /// Gets `len` bytes of memory that a peer has exposed under these bits, from `offset` on, into
    /// a buffer from its packed byte `at` on ([`PortalsEnding::Got`](crate::PortalsEnding)).
    /// `false` if there is no room now.
    pub fn get(
        &mut self,
        from: RemoteEntry,
        (bits, offset): (u64, u64),
        (buffer, at, len): (&UserBuf, usize, usize),
        token: T,
    ) -> Result<bool, LibraryError> {
        if !self.has_room(8) {
            return Ok(false);
        }
        let (start, own) = match buffer.as_contiguous_mut() {
            _ if len == 0 => (null_mut(), None),
            Some(mut bytes) => (bytes.slice(at, len).as_mut_ptr(), None),
            None => {
                let mut own = vec![0; len];
                (own.as_mut_ptr(), Some(own))
            }
        };
        let number = self.begin(token, OperationKind::Get { own, buffer: buffer.clone(), at });
        let bound = match self.bind(start.cast(), len) {
            Ok(bound) => bound,
            Err(answer) => {
                self.slots.remove(number);
                return admitted("PtlMDBind", answer);
            }
        };
        self.set_handle(number, bound);
        let length = len as u64;
        // SAFETY: the descriptor covers memory of the operation, which owns it until its end; it
        // may be written.
        let answer = unsafe {
            (self.library.symbols.PtlGet)(
                bound,
                0,
                length,
                from.process,
                from.index,
                bits,
                offset,
                pointer_of(number),
            )
        };
        if answer != PTL_OK {
            self.release(bound);
            self.slots.remove(number);
        }
        admitted("PtlGet", answer)
    }

    /// Exposes a contiguous buffer to one peer under these bits. With `is_once` the first get ends
    /// it ([`PortalsEnding::Fetched`](crate::PortalsEnding)); else it stays until it is unlinked.
    /// `false` if there is no room now.
    pub fn expose(
        &mut self,
        to: ProcessAddress,
        bits: u64,
        buffer: &UserBuf,
        is_once: bool,
        token: T,
    ) -> Result<bool, LibraryError> {
        if !self.has_room(6) {
            return Ok(false);
        }
        let Some(bytes) = buffer.as_contiguous() else {
            return Err(failed("PtlMEAppend", "memory in several pieces"));
        };
        let (start, length) = (bytes.as_ptr().cast_mut().cast(), bytes.len());
        let events = if is_once { PTL_ME_USE_ONCE } else { PTL_ME_EVENT_COMM_DISABLE };
        let entry = self.entry(start, length, PTL_ME_OP_GET | events, to, (bits, 0));
        let work = OperationKind::Exposed { _buffer: buffer.clone() };
        admitted(
            "PtlMEAppend",
            self.append(self.exposed, &entry, PTL_PRIORITY_LIST, Some(token), work),
        )
    }

    /// A match list entry over this memory.
    pub(crate) fn entry(
        &self,
        start: *mut c_void,
        length: usize,
        options: c_uint,
        from: ProcessAddress,
        (match_bits, ignore_bits): (u64, u64),
    ) -> MatchEntry {
        MatchEntry {
            start: if length == 0 { null_mut() } else { start },
            length: length as u64,
            ct_handle: PTL_CT_NONE,
            uid: self.uid,
            options: options | PTL_ME_EVENT_LINK_DISABLE,
            match_id: from,
            match_bits,
            ignore_bits,
            min_free: 0,
        }
    }

    /// Appends an entry for an operation, over memory of the operation.
    pub(crate) fn append(
        &mut self,
        index: u32,
        entry: &MatchEntry,
        list: u8,
        token: Option<T>,
        work: OperationKind,
    ) -> c_int {
        // Only blocks need the event of their unlinking; other entries have their own events.
        let mut entry = MatchEntry { ..*entry };
        if token.is_some() {
            entry.options |= PTL_ME_EVENT_UNLINK_DISABLE;
        }
        let number =
            self.slots.insert(PendingOperation { token, handle: PTL_INVALID_HANDLE, work });
        let mut handle = PTL_INVALID_HANDLE;
        // SAFETY: the operation owns the memory of the entry until the entry is unlinked or its
        // event has come.
        let answer = unsafe {
            (self.library.symbols.PtlMEAppend)(
                self.handle,
                index,
                &entry,
                list,
                pointer_of(number),
                &mut handle,
            )
        };
        if answer == PTL_OK {
            self.set_handle(number, handle);
        } else {
            self.slots.remove(number);
        }
        answer
    }

    /// Whether the initiator's queue has room for one more event. Exposed memory leaves a quarter
    /// of it and puts leave an eighth, so that gets, which end the exposed memory of peers, always
    /// find room.
    fn has_room(&self, eighths: usize) -> bool {
        self.slots.initiated() < self.options.initiator_events * eighths / 8
    }

    pub(crate) fn begin(&mut self, token: T, work: OperationKind) -> u64 {
        self.slots.insert(PendingOperation { token: Some(token), handle: PTL_INVALID_HANDLE, work })
    }

    fn set_handle(&mut self, number: u64, handle: u32) {
        if let Some(operation) = self.slots.get_mut(number) {
            operation.handle = handle;
        }
    }

    /// Binds a memory descriptor over memory of an operation.
    fn bind(&self, start: *mut c_void, length: usize) -> Result<u32, c_int> {
        let descriptor = MemoryDescriptor {
            start: if length == 0 { null_mut() } else { start },
            length: length as u64,
            // A put ends with its acknowledgement; no memory is read after that.
            options: PTL_MD_EVENT_SEND_DISABLE,
            eq_handle: self.initiator,
            ct_handle: PTL_CT_NONE,
        };
        let mut handle = PTL_INVALID_HANDLE;
        // SAFETY: the interface is open; the call reads the description and writes the handle.
        let answer =
            unsafe { (self.library.symbols.PtlMDBind)(self.handle, &descriptor, &mut handle) };
        if answer == PTL_OK { Ok(handle) } else { Err(answer) }
    }

    pub(crate) fn release(&self, descriptor: u32) {
        // SAFETY: the descriptor was bound here, and its operation has ended. A refused release
        // only leaks the descriptor.
        unsafe { (self.library.symbols.PtlMDRelease)(descriptor) };
    }

    /// Opens the entry for messages again, after [`PortalsEvent::Disabled`](crate::PortalsEvent).
    pub fn enable(&mut self) -> Result<(), LibraryError> {
        self.link_blocks();
        // SAFETY: the interface is open and has this entry.
        let answer = unsafe { (self.library.symbols.PtlPTEnable)(self.handle, self.messages) };
        admitted("PtlPTEnable", answer).map(|_| ())
    }

    /// Whether an operation with such a token is under way.
    pub fn is_live(&self, is_it: impl Fn(&T) -> bool) -> bool {
        self.slots.iter().any(|(_, one)| one.token.as_ref().is_some_and(&is_it))
    }
}

impl<T> Drop for PortalsInterface<T> {
    fn drop(&mut self) {
        let symbols = &self.library.symbols;
        // The memory of operations is freed after this, when the network no longer uses it.
        let entries = self.slots.iter().filter_map(|(_, one)| {
            let is_entry = !matches!(
                one.work,
                OperationKind::Put(_) | OperationKind::Get { .. } | OperationKind::Search { .. }
            );
            is_entry.then_some(one.handle)
        });
        for handle in entries {
            // SAFETY: the entry was appended here. Portals refuses a handle that is already gone.
            unsafe { (symbols.PtlMEUnlink)(handle) };
        }
        let is_open = |handle: &u32| *handle != PTL_INVALID_HANDLE;
        for index in [self.messages, self.exposed].iter().filter(|index| is_open(index)) {
            // SAFETY: the entry was allocated here.
            unsafe { (symbols.PtlPTFree)(self.handle, *index) };
        }
        for queue in [self.initiator, self.target].iter().filter(|queue| is_open(queue)) {
            // SAFETY: the queue was allocated here, and nothing refers to it any more.
            unsafe { (symbols.PtlEQFree)(*queue) };
        }
        self.library.close_interface(self.handle);
    }
}
