//! Memory of a device that an operation works on.
//!
//! Rules of the pieces of a long region:
//!
//! 1. A piece is idle, or a copy is under way in its stream: from the device (*ahead*) or to it (*behind*). Its memory is touched only
//!    after its stream was synchronised.
//! 2. What was read ahead is used only as long as nothing was written to the region since.
//! 3. What is behind is in the device when [`Region::settle`] returns, or before anything is read.
//! 4. An error of a copy that was behind comes with the next call that waits for it.

use crate::declarations::*;
use crate::library::{Context, Driver, check};
use libc::c_void;
use oxmpi_mem::buffer::STAGED_MAX;
use oxmpi_mem::device::{DeviceMemory, Rows};
use oxmpi_mem::memory::Scratch;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a piece: a copy of that length is nearly as fast as a longer one, and two of them stay in a processor's caches.
pub const PIECE_BYTES: usize = STAGED_MAX;

/// Memory of a device, to be copied from and to by the driver.
#[derive(Debug)]
pub struct Region {
    driver: Arc<Driver>,
    context: Context,
    /// The addresses of a long region, which is read ahead and written behind; else none.
    pipelined: Range<usize>,
    pieces: Mutex<Pieces>,
}

/// Made when they are first needed, so that a region that is read or written at once has none.
#[derive(Debug, Default)]
struct Pieces {
    made: Vec<Piece>,
    /// Which one is filled next by what is written.
    next: usize,
    /// For copies without a piece, each of which is over when its call returns.
    short: Option<Stream>,
}

#[derive(Debug)]
struct Piece {
    room: Scratch,
    /// Made for this region: a stream ends with its context, which the program may destroy.
    stream: Stream,
    /// The addresses of the device that it has, or is getting.
    holds: Range<usize>,
    under_way: UnderWay,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum UnderWay {
    Nothing,
    Ahead,
    Behind,
}

#[derive(Clone, Copy, Debug)]
struct Stream(StreamHandle);

// SAFETY: a stream is no thread's own; it is used under the lock of its region alone.
unsafe impl Send for Stream {}

impl Region {
    /// `span` are the addresses of one piece of memory that is read or written from its beginning to its end; an empty one if it is not like
    /// that. Long ones are pipelined.
    pub fn new(driver: &Arc<Driver>, context: Context, span: Range<usize>) -> Region {
        let pipelined = if span.len() > PIECE_BYTES { span } else { 0..0 };
        Region { driver: Arc::clone(driver), context, pipelined, pieces: Mutex::default() }
    }

    fn pieces(&self) -> MutexGuard<'_, Pieces> {
        self.pieces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether these bytes go through pieces. Without memory for pieces, or streams, they do not.
    fn has_pieces_for(&self, bytes: &Range<usize>, pieces: &mut Pieces) -> bool {
        if self.pipelined.is_empty() || bytes.start < self.pipelined.start || bytes.end > self.pipelined.end {
            return false;
        }
        if pieces.made.is_empty() {
            pieces.made.extend((0..2).map_while(|_| self.make_piece()));
        }
        pieces.made.len() == 2
    }

    fn make_piece(&self) -> Option<Piece> {
        let pinned = self.driver.rooms.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let is_new = pinned.is_none();
        let room = pinned.or_else(|| Scratch::bytes(PIECE_BYTES).ok())?;
        let at = room.buf().as_ptr().cast::<c_void>();
        let stream = self.driver.within(self.context, |symbols| {
            if is_new {
                // Memory that is not pinned is copied from and to as well, only slower, so its error does not count.
                // SAFETY: memory of this value, which is unregistered before it is freed.
                let _ = unsafe { (symbols.mem_host_register)(at, PIECE_BYTES, CU_MEMHOSTREGISTER_PORTABLE) };
            }
            new_stream(symbols)
        });
        match stream {
            Ok(stream) => Some(Piece { room, stream, holds: 0..0, under_way: UnderWay::Nothing }),
            Err(_) => {
                // It may be registered, and so may not be freed.
                self.driver.rooms.lock().unwrap_or_else(PoisonError::into_inner).push(room);
                None
            }
        }
    }

    /// A copy without a piece: `start` gives it to a stream, and it is over when this returns.
    fn copy_at_once(
        &self,
        pieces: &mut Pieces,
        start: impl FnOnce(&Symbols, StreamHandle) -> Status,
    ) -> Result<(), i32> {
        self.driver.within(self.context, |symbols| {
            let stream = match pieces.short {
                Some(stream) => stream,
                None => *pieces.short.insert(new_stream(symbols)?),
            };
            let started = check(start(symbols, stream.0));
            // Also after an error: what was copied from or to belongs to the caller again.
            // SAFETY: the stream lives as long as this region.
            let done = check(unsafe { (symbols.stream_synchronize)(stream.0) });
            started.and(done)
        })
    }

    /// Waits for the copy that is under way in a piece.
    fn finish(&self, piece: &mut Piece) -> Result<(), i32> {
        if piece.under_way == UnderWay::Nothing {
            return Ok(());
        }
        piece.under_way = UnderWay::Nothing;
        let stream = piece.stream.0;
        // SAFETY: the stream lives as long as its piece.
        let done = self.driver.within(self.context, |s| check(unsafe { (s.stream_synchronize)(stream) }));
        if done.is_err() {
            piece.holds = 0..0;
        }
        done
    }

    /// Starts to read from `at` on into a piece, as much as fits and there is.
    fn read_ahead(&self, piece: &mut Piece, at: usize) -> Result<(), i32> {
        self.finish(piece)?;
        piece.holds = 0..0;
        let coming = at..self.pipelined.end.min(at + PIECE_BYTES);
        let (room, len, stream) = (piece.room.buf().as_ptr().cast(), coming.len(), piece.stream.0);
        self.driver.within(self.context, |symbols| {
            // SAFETY: the piece has room for so much, and is not touched until its stream was synchronised (rule 1).
            check(unsafe { (symbols.memcpy_dtoh_async)(room, at as DevicePointer, len, stream) })
        })?;
        piece.holds = coming;
        piece.under_way = UnderWay::Ahead;
        Ok(())
    }

    fn finish_what_is_behind(&self, pieces: &mut Pieces) -> Result<(), i32> {
        let behind = pieces.made.iter_mut().filter(|piece| piece.under_way == UnderWay::Behind);
        // All of them: what one says does not leave another one under way.
        behind.map(|piece| self.finish(piece)).fold(Ok(()), Result::and)
    }

    /// # Safety
    /// As [`DeviceMemory::read`].
    unsafe fn read_by_pieces(
        &self,
        pieces: &mut Pieces,
        from: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<(), i32> {
        let mut done = 0;
        while done < len {
            let at = from + done;
            let found = pieces.made.iter().position(|piece| piece.holds.contains(&at));
            let index = match found {
                Some(index) => index,
                None => {
                    self.read_ahead(&mut pieces.made[0], at)?;
                    0
                }
            };
            // The next piece comes while this one is read.
            let next = pieces.made[index].holds.end;
            let other = &mut pieces.made[1 - index];
            if next < self.pipelined.end && !other.holds.contains(&next) {
                self.read_ahead(other, next)?;
            }
            let piece = &mut pieces.made[index];
            self.finish(piece)?;
            let n = (len - done).min(piece.holds.end - at);
            let there = piece.room.buf().as_ptr().wrapping_add(at - piece.holds.start);
            // SAFETY: the piece holds these bytes, and nothing is under way in it; `to` is writable for `len` bytes.
            unsafe { std::ptr::copy_nonoverlapping(there, to.add(done), n) };
            done += n;
        }
        Ok(())
    }

    /// # Safety
    /// As [`DeviceMemory::write`].
    unsafe fn write_by_pieces(
        &self,
        pieces: &mut Pieces,
        to: usize,
        from: *const u8,
        len: usize,
    ) -> Result<(), i32> {
        let mut done = 0;
        while done < len {
            let index = pieces.next;
            pieces.next = 1 - index;
            let piece = &mut pieces.made[index];
            self.finish(piece)?;
            let n = (len - done).min(PIECE_BYTES);
            let (room, stream) = (piece.room.buf().as_ptr(), piece.stream.0);
            // SAFETY: nothing is under way in the piece, which has room for so much; `from` is readable for `len` bytes.
            unsafe { std::ptr::copy_nonoverlapping(from.add(done), room, n) };
            let at = (to + done) as DevicePointer;
            self.driver.within(self.context, |symbols| {
                // SAFETY: as in `read_ahead`.
                check(unsafe { (symbols.memcpy_htod_async)(at, room.cast(), n, stream) })
            })?;
            piece.under_way = UnderWay::Behind;
            done += n;
        }
        Ok(())
    }

    /// One copy of rows, of which those in the device are `rows.pitch` bytes apart and the others follow one another.
    fn copy_rows(&self, device: usize, rows: Rows, host: *mut u8, is_read: bool) -> Result<(), i32> {
        let (device, host) = (device as DevicePointer, host.cast::<c_void>());
        let (of_device, of_host) = (CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_HOST);
        let copy = Memcpy2D {
            src_x_in_bytes: 0,
            src_y: 0,
            src_memory_type: if is_read { of_device } else { of_host },
            src_host: if is_read { null_mut() } else { host },
            src_device: if is_read { device } else { 0 },
            src_array: null_mut(),
            src_pitch: if is_read { rows.pitch } else { rows.width },
            dst_x_in_bytes: 0,
            dst_y: 0,
            dst_memory_type: if is_read { of_host } else { of_device },
            dst_host: if is_read { host } else { null_mut() },
            dst_device: if is_read { 0 } else { device },
            dst_array: null_mut(),
            dst_pitch: if is_read { rows.width } else { rows.pitch },
            width_in_bytes: rows.width,
            height: rows.height,
        };
        self.copy_at_once(&mut self.pieces(), |symbols, stream| {
            // SAFETY: the description and the memory, which is as the callers say, live until the copy is over.
            unsafe { (symbols.memcpy_2d_async)(&copy, stream) }
        })
    }
}

impl DeviceMemory for Region {
    unsafe fn read(&self, from: *const u8, to: *mut u8, len: usize) -> Result<(), i32> {
        let (at, mut pieces) = (from.addr(), self.pieces());
        self.finish_what_is_behind(&mut pieces)?;
        if self.has_pieces_for(&(at..at + len), &mut pieces) {
            // SAFETY: by the contract of this function.
            return unsafe { self.read_by_pieces(&mut pieces, at, to, len) };
        }
        self.copy_at_once(&mut pieces, |symbols, stream| {
            // SAFETY: `to` is writable for its length until the copy is over; the driver checks the address of the device.
            unsafe { (symbols.memcpy_dtoh_async)(to.cast(), at as DevicePointer, len, stream) }
        })
    }

    unsafe fn write(&self, to: *mut u8, from: *const u8, len: usize) -> Result<(), i32> {
        let (at, mut pieces) = (to.addr(), self.pieces());
        for piece in pieces.made.iter_mut().filter(|piece| piece.under_way != UnderWay::Behind) {
            // Rule 2.
            self.finish(piece)?;
            piece.holds = 0..0;
        }
        if self.has_pieces_for(&(at..at + len), &mut pieces) {
            // SAFETY: by the contract of this function.
            return unsafe { self.write_by_pieces(&mut pieces, at, from, len) };
        }
        self.copy_at_once(&mut pieces, |symbols, stream| {
            // SAFETY: `from` is readable for its length until the copy is over; the driver checks the address of the device.
            unsafe { (symbols.memcpy_htod_async)(at as DevicePointer, from.cast(), len, stream) }
        })
    }

    unsafe fn read_rows(&self, from: *const u8, rows: Rows, to: *mut u8) -> Result<(), i32> {
        self.settle()?;
        self.copy_rows(from.addr(), rows, to, true)
    }

    unsafe fn write_rows(&self, to: *mut u8, rows: Rows, from: *const u8) -> Result<(), i32> {
        self.settle()?;
        self.copy_rows(to.addr(), rows, from.cast_mut(), false)
    }

    fn settle(&self) -> Result<(), i32> {
        self.finish_what_is_behind(&mut self.pieces())
    }

    fn renew(&self) -> Result<(), i32> {
        let mut pieces = self.pieces();
        let finished = pieces.made.iter_mut().map(|piece| self.finish(piece)).fold(Ok(()), Result::and);
        pieces.made.iter_mut().for_each(|piece| piece.holds = 0..0);
        finished
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        let mut pieces = std::mem::take(&mut *self.pieces());
        for piece in &mut pieces.made {
            // Nothing may be under way into memory that another region gets.
            let _ = self.finish(piece);
        }
        for stream in pieces.made.iter().map(|piece| piece.stream).chain(pieces.short) {
            // SAFETY: nothing uses the stream any more.
            let _ = self.driver.within(self.context, |s| check(unsafe { (s.stream_destroy)(stream.0) }));
        }
        let mut rooms = self.driver.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        for piece in pieces.made {
            if rooms.len() < MOST_ROOMS {
                rooms.push(piece.room);
                continue;
            }
            let at = piece.room.buf().as_ptr().cast();
            let free = self.driver.within(self.context, |symbols| {
                // SAFETY: nothing uses it any more. If it was not registered the driver says so, and does nothing.
                check(unsafe { (symbols.mem_host_unregister)(at) })
            });
            if !matches!(free, Ok(()) | Err(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)) {
                // It may be registered still: the driver would take what comes to lie there for pinned.
                std::mem::forget(piece.room);
            }
        }
    }
}

fn new_stream(symbols: &Symbols) -> Result<Stream, i32> {
    let mut stream = null_mut();
    // SAFETY: it writes one handle.
    check(unsafe { (symbols.stream_create)(&mut stream, CU_STREAM_NON_BLOCKING) }).map(|()| Stream(stream))
}

/// Pieces of pinned memory that are kept for later regions.
const MOST_ROOMS: usize = 8;
