//! Frames: messages without a tag (fi_msg(3)).

use super::{Admission, Endpoint, EndpointError, INLINE_BYTES, OperationMemory, PeerAddress};
use crate::declarations::{FI_ADDR_UNSPEC, FI_EAGAIN};
use libc::{c_void, iovec};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::ptr::null_mut;

/// The memory for one frame at a time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameRoom(pub(super) u32);

/// The part of a frame after its head.
#[derive(Clone, Copy)]
pub enum FrameBody<'a> {
    /// Bytes that the endpoint copies.
    Copied(Bytes<'a>),
    /// The packed bytes `offset..offset + len` of a buffer, which the endpoint copies.
    Packed { buffer: &'a UserBuf, offset: usize, len: usize },
    /// The packed bytes `offset..offset + len` of a buffer that stays readable until the operation
    /// has ended. The endpoint copies them only if they are short or not contiguous, or if the
    /// provider cannot send two pieces of memory.
    Lent { buffer: &'a UserBuf, offset: usize, len: usize },
}

impl FrameBody<'_> {
    fn len(&self) -> usize {
        match self {
            FrameBody::Copied(bytes) => bytes.len(),
            FrameBody::Packed { len, .. } | FrameBody::Lent { len, .. } => *len,
        }
    }

    /// Copies the body into `to`, which has its length.
    fn fill(&self, to: BytesMut<'_>) {
        match self {
            FrameBody::Copied(bytes) => bytes.copy_to(to),
            FrameBody::Packed { buffer, offset, .. } | FrameBody::Lent { buffer, offset, .. } => {
                buffer.pack(*offset, to);
            }
        }
    }
}

impl<T: Copy, const GROUPED: bool> Endpoint<T, GROUPED> {
    /// Makes and posts `count` rooms for frames of at most `bytes` bytes from any peer. Each frame
    /// is an [`Ending::Frame`](super::Ending::Frame) with this token. A provider without resources
    /// for all receives is an error.
    pub fn open_rooms(
        &mut self,
        count: usize,
        bytes: usize,
        token: T,
    ) -> Result<(), EndpointError> {
        for _ in 0..count {
            let ep = self.receive_endpoint(0)?;
            let memory = OperationMemory::Room(vec![0; bytes].into_boxed_slice());
            let at = self.prepare_operation(ep, token, memory).at;
            if self.post_room(FrameRoom(at))? == Admission::NoRoom {
                return Err(self.error("fi_recv", -FI_EAGAIN));
            }
        }
        Ok(())
    }

    /// The part of a frame that fits into its room; `length` is the length in its
    /// [`Ending`](super::Ending).
    pub fn frame(&self, FrameRoom(at): FrameRoom, length: usize) -> &[u8] {
        match self.operations.get(at as usize).map(|operation| &operation.memory) {
            Some(OperationMemory::Room(bytes)) => &bytes[..length.min(bytes.len())],
            _ => &[],
        }
    }

    /// Posts a room again for the next frame, which overwrites the last one.
    pub fn post_room(&mut self, FrameRoom(at): FrameRoom) -> Result<Admission, EndpointError> {
        let operation = &mut *self.operations[at as usize];
        let (ep, context) = (operation.ep, (&raw mut *operation).cast::<c_void>());
        let (start, len) = Self::receive_memory(&mut operation.memory);
        operation.is_live = true;
        // SAFETY: the endpoint is open; the operation owns the memory and does not move, and the
        // memory is not read before the end of the operation.
        let answer =
            unsafe { ((*(*ep).msg).recv)(ep, start, len, null_mut(), FI_ADDR_UNSPEC, context) };
        if answer == 0 {
            return Ok(Admission::Yes);
        }
        self.operations[at as usize].is_live = false;
        if answer == -FI_EAGAIN {
            return Ok(Admission::NoRoom);
        }
        Err(self.error("fi_recv", answer))
    }

    /// Sends a frame: a head of at most [`Endpoint::HEAD`] bytes, which are copied, and a body.
    pub fn send_frame(
        &mut self,
        to: PeerAddress,
        head: &[u8],
        body: FrameBody<'_>,
        token: T,
    ) -> Result<Admission, EndpointError> {
        let head = &head[..head.len().min(INLINE_BYTES)];
        let len = head.len() + body.len();
        let lent = match body {
            FrameBody::Lent { buffer, offset, len } if self.pieces > 1 && len > 0 => {
                buffer.as_contiguous().map(|bytes| (buffer, bytes.slice(offset, len)))
            }
            _ => None,
        };
        let memory = match lent {
            _ if len <= INLINE_BYTES => OperationMemory::None,
            Some((buffer, _)) => OperationMemory::User(buffer.clone()),
            None => {
                let mut copy = vec![0; len].into_boxed_slice();
                copy[..head.len()].copy_from_slice(head);
                body.fill(BytesMut::from(&mut copy[head.len()..]));
                OperationMemory::Copy(copy)
            }
        };
        let (ep, to) = self.transmit_route(to, 0)?;
        let operation = self.prepare_operation(ep, token, memory);
        if len <= INLINE_BYTES {
            operation.short[..head.len()].copy_from_slice(head);
            body.fill(BytesMut::from(&mut operation.short[head.len()..len]));
        } else if lent.is_some() {
            operation.short[..head.len()].copy_from_slice(head);
        }
        let (at, context) = (operation.at, (&raw mut *operation).cast::<c_void>());
        let (start, none) = (operation.short.as_ptr().cast::<c_void>(), null_mut());
        // SAFETY: the endpoint is open. The data are in the operation, which does not move until
        // its completion, or in a buffer that the operation holds and that stays readable until
        // then. libfabric reads the list of pieces during the call.
        let answer = unsafe {
            let ops = (*ep).msg;
            match (&operation.memory, lent) {
                (OperationMemory::Copy(copy), _) => {
                    ((*ops).send)(ep, copy.as_ptr().cast(), copy.len(), none, to, context)
                }
                (OperationMemory::User(_), Some((_, bytes))) => {
                    let head = iovec { iov_base: start.cast_mut(), iov_len: head.len() };
                    let rest =
                        iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
                    let (pieces, mut descriptors) = ([head, rest], [none; 2]);
                    ((*ops).sendv)(ep, pieces.as_ptr(), descriptors.as_mut_ptr(), 2, to, context)
                }
                _ => ((*ops).send)(ep, start, len, none, to, context),
            }
        };
        self.admission("fi_send", at, answer)
    }

    /// The longest head of a frame, in bytes.
    pub const HEAD: usize = INLINE_BYTES;
}
