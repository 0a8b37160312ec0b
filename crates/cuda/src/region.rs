//! Memory of a device, with copies through stages.
//!
//! Rules of the stages of a long region:
//!
//! 1. A stage is idle, or a copy is under way in its stream: from the device (*read-ahead*) or to
//!    it (*write-behind*). Its memory is accessed only after its stream was synchronised.
//! 2. Data that were read ahead are used only until the next write to the region.
//! 3. Data of a write-behind are in the device when [`DeviceRegion::settle`] returns, or before
//!    anything is read.
//! 4. The error of a write-behind comes with the next call that waits for it.

use crate::declarations::*;
use crate::library::{CudaContext, Driver, check};
use libc::c_void;
use oxmpi_mem::buffer::STAGED_MAX;
use oxmpi_mem::device::{DeviceMemory, Rows};
use oxmpi_mem::memory::Scratch;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a stage: a copy of this length is nearly as fast as a longer one, and two stages fit
/// into a processor's caches.
pub const STAGE_BYTES: usize = STAGED_MAX;

/// A range of device memory, which the driver copies from and to.
#[derive(Debug)]
pub struct DeviceRegion {
    driver: Arc<Driver>,
    context: CudaContext,
    /// The addresses of a long region, which uses stages; else empty.
    pipelined: Range<usize>,
    stages: Mutex<StagingBuffers>,
}

/// Made at the first use: a region that is read or written by one copy has no stage.
#[derive(Debug, Default)]
struct StagingBuffers {
    made: Vec<StagingBuffer>,
    next: usize,
    /// For copies without a stage, which end before their call returns.
    short: Option<CopyStream>,
}

#[derive(Debug)]
struct StagingBuffer {
    room: Scratch,
    /// Made for this region: a stream ends with its context, which the program may destroy.
    stream: CopyStream,
    /// The device addresses of the data in the stage.
    holds: Range<usize>,
    under_way: StageTransfer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StageTransfer {
    Nothing,
    Ahead,
    Behind,
}

#[derive(Clone, Copy, Debug)]
struct CopyStream(StreamHandle);

// SAFETY: a stream belongs to no thread; it is used only under the lock of its region.
unsafe impl Send for CopyStream {}

impl DeviceRegion {
    /// `span` is the address range of memory that is read or written sequentially, or empty for
    /// other accesses. A long span uses stages.
    pub fn new(driver: &Arc<Driver>, context: CudaContext, span: Range<usize>) -> DeviceRegion {
        let pipelined = if span.len() > STAGE_BYTES { span } else { 0..0 };
        DeviceRegion { driver: Arc::clone(driver), context, pipelined, stages: Mutex::default() }
    }

    fn stages(&self) -> MutexGuard<'_, StagingBuffers> {
        self.stages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an access goes through stages: not if there is no memory or stream for them.
    fn uses_stages(&self, bytes: &Range<usize>, stages: &mut StagingBuffers) -> bool {
        if self.pipelined.is_empty()
            || bytes.start < self.pipelined.start
            || bytes.end > self.pipelined.end
        {
            return false;
        }
        if stages.made.is_empty() {
            stages.made.extend((0..2).map_while(|_| self.make_stage()));
        }
        stages.made.len() == 2
    }

    fn make_stage(&self) -> Option<StagingBuffer> {
        let pinned = self.driver.cached_stages.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let is_new = pinned.is_none();
        let room = pinned.or_else(|| Scratch::bytes(STAGE_BYTES).ok())?;
        let at = room.buf().as_ptr().cast::<c_void>();
        let stream = self.driver.within(self.context, |symbols| {
            if is_new {
                // Unpinned memory works as well, only slower, so the error is ignored.
                // SAFETY: memory of this value, which is unregistered before it is freed.
                let _ = unsafe {
                    (symbols.cuMemHostRegister_v2)(at, STAGE_BYTES, CU_MEMHOSTREGISTER_PORTABLE)
                };
            }
            new_stream(symbols)
        });
        match stream {
            Ok(stream) => {
                Some(StagingBuffer { room, stream, holds: 0..0, under_way: StageTransfer::Nothing })
            }
            Err(_) => {
                // The memory may be registered, so it must not be freed.
                self.driver.cached_stages.lock().unwrap_or_else(PoisonError::into_inner).push(room);
                None
            }
        }
    }

    /// Runs a copy without a stage to its end.
    fn copy_at_once(
        &self,
        stages: &mut StagingBuffers,
        start: impl FnOnce(&CudaSymbols, StreamHandle) -> CuResult,
    ) -> Result<(), i32> {
        self.driver.within(self.context, |symbols| {
            let stream = match stages.short {
                Some(stream) => stream,
                None => *stages.short.insert(new_stream(symbols)?),
            };
            let started = check(start(symbols, stream.0));
            // Also after an error: the memory belongs to the caller again after the return.
            // SAFETY: the stream lives as long as this region.
            let done = check(unsafe { (symbols.cuStreamSynchronize)(stream.0) });
            started.and(done)
        })
    }

    fn finish(&self, stage: &mut StagingBuffer) -> Result<(), i32> {
        if stage.under_way == StageTransfer::Nothing {
            return Ok(());
        }
        stage.under_way = StageTransfer::Nothing;
        let stream = stage.stream.0;
        // SAFETY: the stream lives as long as its stage.
        let done =
            self.driver.within(self.context, |s| check(unsafe { (s.cuStreamSynchronize)(stream) }));
        if done.is_err() {
            stage.holds = 0..0;
        }
        done
    }

    /// Starts to read from `at` on into a stage, up to the end of the stage or the region.
    fn read_ahead(&self, stage: &mut StagingBuffer, at: usize) -> Result<(), i32> {
        self.finish(stage)?;
        stage.holds = 0..0;
        let coming = at..self.pipelined.end.min(at + STAGE_BYTES);
        let (room, len, stream) = (stage.room.buf().as_ptr().cast(), coming.len(), stage.stream.0);
        self.driver.within(self.context, |symbols| {
            // SAFETY: the stage has room for `len` bytes, and is not accessed until its stream was
            // synchronised (rule 1).
            check(unsafe { (symbols.cuMemcpyDtoHAsync_v2)(room, at as DevicePointer, len, stream) })
        })?;
        stage.holds = coming;
        stage.under_way = StageTransfer::Ahead;
        Ok(())
    }

    fn finish_write_behind(&self, stages: &mut StagingBuffers) -> Result<(), i32> {
        let behind =
            stages.made.iter_mut().filter(|stage| stage.under_way == StageTransfer::Behind);
        // An error must not leave another stage under way, so all are waited for.
        behind.map(|stage| self.finish(stage)).fold(Ok(()), Result::and)
    }

    /// # Safety
    /// As [`DeviceMemory::read`].
    unsafe fn read_by_stages(
        &self,
        stages: &mut StagingBuffers,
        from: usize,
        to: *mut u8,
        len: usize,
    ) -> Result<(), i32> {
        let mut done = 0;
        while done < len {
            let at = from + done;
            let found = stages.made.iter().position(|stage| stage.holds.contains(&at));
            let index = match found {
                Some(index) => index,
                None => {
                    self.read_ahead(&mut stages.made[0], at)?;
                    0
                }
            };
            // The next range is read ahead while this one is copied.
            let next = stages.made[index].holds.end;
            let other = &mut stages.made[1 - index];
            if next < self.pipelined.end && !other.holds.contains(&next) {
                self.read_ahead(other, next)?;
            }
            let stage = &mut stages.made[index];
            self.finish(stage)?;
            let n = (len - done).min(stage.holds.end - at);
            let there = stage.room.buf().as_ptr().wrapping_add(at - stage.holds.start);
            // SAFETY: the stage has these bytes, and no copy is under way in it; `to` is writable
            // for `len` bytes.
            unsafe { std::ptr::copy_nonoverlapping(there, to.add(done), n) };
            done += n;
        }
        Ok(())
    }

    /// # Safety
    /// As [`DeviceMemory::write`].
    unsafe fn write_by_stages(
        &self,
        stages: &mut StagingBuffers,
        to: usize,
        from: *const u8,
        len: usize,
    ) -> Result<(), i32> {
        let mut done = 0;
        while done < len {
            let index = stages.next;
            stages.next = 1 - index;
            let stage = &mut stages.made[index];
            self.finish(stage)?;
            let n = (len - done).min(STAGE_BYTES);
            let (room, stream) = (stage.room.buf().as_ptr(), stage.stream.0);
            // SAFETY: no copy is under way in the stage, which has room for `n` bytes; `from` is
            // readable for `len` bytes.
            unsafe { std::ptr::copy_nonoverlapping(from.add(done), room, n) };
            let at = (to + done) as DevicePointer;
            self.driver.within(self.context, |symbols| {
                // SAFETY: the stage is not accessed until its stream was synchronised (rule 1).
                check(unsafe { (symbols.cuMemcpyHtoDAsync_v2)(at, room.cast(), n, stream) })
            })?;
            stage.under_way = StageTransfer::Behind;
            done += n;
        }
        Ok(())
    }

    /// Copies rows: `rows.pitch` bytes apart in the device, contiguous in the host's memory.
    fn copy_rows(
        &self,
        device: usize,
        rows: Rows,
        host: *mut u8,
        is_read: bool,
    ) -> Result<(), i32> {
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
        self.copy_at_once(&mut self.stages(), |symbols, stream| {
            // SAFETY: the description and the memory, which the callers guarantee, live until the
            // copy has ended.
            unsafe { (symbols.cuMemcpy2DAsync_v2)(&copy, stream) }
        })
    }
}

impl DeviceMemory for DeviceRegion {
    unsafe fn read(&self, from: *const u8, to: *mut u8, len: usize) -> Result<(), i32> {
        let (at, mut stages) = (from.addr(), self.stages());
        self.finish_write_behind(&mut stages)?;
        if self.uses_stages(&(at..at + len), &mut stages) {
            // SAFETY: by the contract of this function.
            return unsafe { self.read_by_stages(&mut stages, at, to, len) };
        }
        self.copy_at_once(&mut stages, |symbols, stream| {
            // SAFETY: `to` is writable for its length until the copy has ended; the driver checks
            // the device address.
            unsafe { (symbols.cuMemcpyDtoHAsync_v2)(to.cast(), at as DevicePointer, len, stream) }
        })
    }

    unsafe fn write(&self, to: *mut u8, from: *const u8, len: usize) -> Result<(), i32> {
        let (at, mut stages) = (to.addr(), self.stages());
        for stage in stages.made.iter_mut().filter(|stage| stage.under_way != StageTransfer::Behind)
        {
            // Rule 2.
            self.finish(stage)?;
            stage.holds = 0..0;
        }
        if self.uses_stages(&(at..at + len), &mut stages) {
            // SAFETY: by the contract of this function.
            return unsafe { self.write_by_stages(&mut stages, at, from, len) };
        }
        self.copy_at_once(&mut stages, |symbols, stream| {
            // SAFETY: `from` is readable for its length until the copy has ended; the driver checks
            // the device address.
            unsafe { (symbols.cuMemcpyHtoDAsync_v2)(at as DevicePointer, from.cast(), len, stream) }
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
        self.finish_write_behind(&mut self.stages())
    }

    fn renew(&self) -> Result<(), i32> {
        let mut stages = self.stages();
        let finished =
            stages.made.iter_mut().map(|stage| self.finish(stage)).fold(Ok(()), Result::and);
        stages.made.iter_mut().for_each(|stage| stage.holds = 0..0);
        finished
    }
}

impl Drop for DeviceRegion {
    fn drop(&mut self) {
        let mut stages = std::mem::take(&mut *self.stages());
        for stage in &mut stages.made {
            // No copy may be under way into memory that another region gets.
            let _ = self.finish(stage);
        }
        for stream in stages.made.iter().map(|stage| stage.stream).chain(stages.short) {
            // SAFETY: nothing uses the stream any more.
            let _ = self
                .driver
                .within(self.context, |s| check(unsafe { (s.cuStreamDestroy_v2)(stream.0) }));
        }
        let mut cached_stages =
            self.driver.cached_stages.lock().unwrap_or_else(PoisonError::into_inner);
        for stage in stages.made {
            if cached_stages.len() < MAX_CACHED_STAGES {
                cached_stages.push(stage.room);
                continue;
            }
            let at = stage.room.buf().as_ptr().cast();
            let free = self.driver.within(self.context, |symbols| {
                // SAFETY: nothing uses the memory any more. For unregistered memory the driver
                // returns an error and does nothing else.
                check(unsafe { (symbols.cuMemHostUnregister)(at) })
            });
            if !matches!(free, Ok(()) | Err(CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)) {
                // The memory may still be registered: the driver would take a later allocation at
                // its address for pinned memory.
                std::mem::forget(stage.room);
            }
        }
    }
}

fn new_stream(symbols: &CudaSymbols) -> Result<CopyStream, i32> {
    let mut stream = null_mut();
    // SAFETY: it writes one handle.
    check(unsafe { (symbols.cuStreamCreate)(&mut stream, CU_STREAM_NON_BLOCKING) })
        .map(|()| CopyStream(stream))
}

/// The most buffers of pinned memory that are cached for later regions.
const MAX_CACHED_STAGES: usize = 8;
