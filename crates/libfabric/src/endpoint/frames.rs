//! Frames: messages without a tag (fi_msg(3)).

use super::{Admission, Endpoint, EndpointError, KEPT, OperationMemory, PeerAddress};
use crate::declarations::{FI_ADDR_UNSPEC, FI_EAGAIN};
use libc::{c_void, iovec};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::ptr::null_mut;

/// A room for a frame.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FrameRoom(pub(super) u32);

/// What follows the head of a frame.
#[derive(Clone, Copy)]
pub enum FrameBody<'a> {
    /// These bytes, of which a copy is sent.
    Copied(Bytes<'a>),
    /// The packed bytes `offset..offset + len` of a buffer, of which a copy is sent.
    Packed {
        /// The buffer.
        buffer: &'a UserBuf,
        /// First packed byte.
        offset: usize,
        /// Number of packed bytes.
        len: usize,
    },
    /// The same of a buffer that is held, and may be read, until the operation has ended: no copy is made if they lie in one piece and the
    /// provider can send two.
    Lent {
        /// The buffer.
        buffer: &'a UserBuf,
        /// First packed byte.
        offset: usize,
        /// Number of packed bytes.
        len: usize,
    },
}

impl FrameBody<'_> {
    /// Number of bytes.
    fn len(&self) -> usize {
        match self {
            FrameBody::Copied(bytes) => bytes.len(),
            FrameBody::Packed { len, .. } | FrameBody::Lent { len, .. } => *len,
        }
    }

    /// Copies all of them into `to`, which they fill.
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
    /// Makes `count` rooms for frames of at most `bytes`, and posts them: the frames of any peer come into them, as
    /// [`Ending::Frame`](super::Ending::Frame)s of this name.
    ///
    /// # Errors
    /// What the provider says.
    pub fn open_rooms(&mut self, count: usize, bytes: usize, token: T) -> Result<(), EndpointError> {
        for _ in 0..count {
            let ep = self.receiving(0)?;
            let memory = OperationMemory::Room(vec![0; bytes].into_boxed_slice());
            let at = self.operation(ep, token, memory).at;
            if self.post_room(FrameRoom(at))? == Admission::NoRoom {
                return Err(self.error("fi_recv", -FI_EAGAIN));
            }
        }
        Ok(())
    }

    /// The frame in a room, as much of it as fits; `length` is what its [`Ending`](super::Ending) says.
    pub fn frame(&self, FrameRoom(at): FrameRoom, length: usize) -> &[u8] {
        match self.operations.get(at as usize).map(|operation| &operation.memory) {
            Some(OperationMemory::Room(bytes)) => &bytes[..length.min(bytes.len())],
            _ => &[],
        }
    }

    /// Posts a room again for the next frame: what was in it is used no more.
    ///
    /// # Errors
    /// What the provider says.
    pub fn post_room(&mut self, FrameRoom(at): FrameRoom) -> Result<Admission, EndpointError> {
        let operation = &mut *self.operations[at as usize];
        let (ep, context) = (operation.ep, (&raw mut *operation).cast::<c_void>());
        let (start, len) = Self::place(&mut operation.memory);
        operation.is_live = true;
        // SAFETY: the endpoint is open; the memory is the operation's, which is kept in its place, and is not read until it has ended.
        let answer = unsafe { ((*(*ep).msg).recv)(ep, start, len, null_mut(), FI_ADDR_UNSPEC, context) };
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
    ///
    /// # Errors
    /// What the provider says.
    pub fn send_frame(
        &mut self,
        to: PeerAddress,
        head: &[u8],
        body: FrameBody<'_>,
        token: T,
    ) -> Result<Admission, EndpointError> {
        let head = &head[..head.len().min(KEPT)];
        let len = head.len() + body.len();
        let lent = match body {
            FrameBody::Lent { buffer, offset, len } if self.pieces > 1 && len > 0 => {
                buffer.as_contiguous().map(|bytes| (buffer, bytes.slice(offset, len)))
            }
            _ => None,
        };
        let memory = match lent {
            _ if len <= KEPT => OperationMemory::None,
            Some((buffer, _)) => OperationMemory::User(buffer.clone()),
            None => {
                let mut copy = vec![0; len].into_boxed_slice();
                copy[..head.len()].copy_from_slice(head);
                body.fill(BytesMut::from(&mut copy[head.len()..]));
                OperationMemory::Copy(copy)
            }
        };
        let (ep, to) = self.way_to(to, 0)?;
        let operation = self.operation(ep, token, memory);
        if len <= KEPT {
            operation.short[..head.len()].copy_from_slice(head);
            body.fill(BytesMut::from(&mut operation.short[head.len()..len]));
        } else if lent.is_some() {
            operation.short[..head.len()].copy_from_slice(head);
        }
        let (at, context) = (operation.at, (&raw mut *operation).cast::<c_void>());
        let (start, none) = (operation.short.as_ptr().cast::<c_void>(), null_mut());
        // SAFETY: the endpoint is open. What is sent lies in the operation, which is kept in its place until its completion, or in a buffer that
        // it holds and that may be read as long; the list of pieces is read during the call.
        let answer = unsafe {
            let ops = (*ep).msg;
            match (&operation.memory, lent) {
                (OperationMemory::Copy(copy), _) => {
                    ((*ops).send)(ep, copy.as_ptr().cast(), copy.len(), none, to, context)
                }
                (OperationMemory::User(_), Some((_, bytes))) => {
                    let head = iovec { iov_base: start.cast_mut(), iov_len: head.len() };
                    let rest = iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
                    let (pieces, mut descriptors) = ([head, rest], [none; 2]);
                    ((*ops).sendv)(ep, pieces.as_ptr(), descriptors.as_mut_ptr(), 2, to, context)
                }
                _ => ((*ops).send)(ep, start, len, none, to, context),
            }
        };
        self.posted("fi_send", at, answer)
    }

    /// The longest head of a frame, bytes.
    pub const HEAD: usize = KEPT;
}
