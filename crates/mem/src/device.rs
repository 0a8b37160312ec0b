//! Memory of a device, such as an accelerator. Only a driver copies it: loads, stores and system
//! calls of this process do not reach it.
//!
//! A [`UserBuf`](crate::buffer::UserBuf) of such memory
//! ([`UserBuf::on_device`](crate::buffer::UserBuf::on_device)) is packed and unpacked like any
//! other. It reports that it is not contiguous, so code that would use contiguous memory in place
//! packs it.
//!
//! Packing cannot fail, but a driver can. [`UserBuf::settle`](crate::buffer::UserBuf::settle)
//! returns the first failure to the operation. Data that could not be read are zeros.

use std::fmt;

/// Rows of one length at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    pub width: usize,
    pub height: usize,
    /// Bytes from one row to the next in the device, at least `width`.
    pub pitch: usize,
}

/// The driver's copies of a device's memory. Errors are the driver's numbers.
pub trait DeviceMemory: Send + Sync + fmt::Debug {
    /// Copies `len` bytes of the device from `from` on to `to`, after all earlier writes.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes.
    unsafe fn read(&self, from: *const u8, to: *mut u8, len: usize) -> Result<(), i32>;

    /// Copies `len` bytes at `from` to the device at `to`. The write may complete as late as
    /// [`settle`](DeviceMemory::settle), but `from` may be reused at once. An error may belong to
    /// an earlier write.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes.
    unsafe fn write(&self, to: *mut u8, from: *const u8, len: usize) -> Result<(), i32>;

    /// Copies rows of the device, the first at `from`, to contiguous rows at `to`.
    ///
    /// # Safety
    /// `to` is writable for all rows.
    unsafe fn read_rows(&self, from: *const u8, rows: Rows, to: *mut u8) -> Result<(), i32>;

    /// Copies contiguous rows at `from` to the device, the first to `to`.
    ///
    /// # Safety
    /// `from` is readable for all rows.
    unsafe fn write_rows(&self, to: *mut u8, rows: Rows, from: *const u8) -> Result<(), i32>;

    /// Waits until the device has all written data.
    fn settle(&self) -> Result<(), i32>;

    /// Discards data that were read ahead, as the program may have changed the memory.
    fn renew(&self) -> Result<(), i32>;
}

/// A failed copy of a driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFault {
    pub address: u64,
    pub code: i32,
}

/// Joins blocks in packed order into rows; calls `run` with address, packed offset and rows.
pub(crate) struct RowJoiner<F: FnMut(*mut u8, usize, Rows)> {
    run: F,
    first: *mut u8,
    offset: usize,
    rows: Rows,
}

impl<F: FnMut(*mut u8, usize, Rows)> RowJoiner<F> {
    pub(crate) fn new(run: F) -> Self {
        let rows = Rows { width: 0, height: 0, pitch: 0 };
        RowJoiner { run, first: std::ptr::null_mut(), offset: 0, rows }
    }

    pub(crate) fn add(&mut self, at: *mut u8, len: usize) {
        let Rows { width, height, pitch } = self.rows;
        if height == 1 && at == self.first.wrapping_add(width) {
            self.rows.width += len;
            return;
        }
        let distance = at.addr().wrapping_sub(self.first.addr());
        if len == width && height == 1 && (width..=MOST_PITCH).contains(&distance) {
            (self.rows.height, self.rows.pitch) = (2, distance);
        } else if len == width && height > 1 && distance == pitch * height {
            self.rows.height += 1;
        } else {
            self.end();
            self.first = at;
            self.rows = Rows { width: len, height: 1, pitch: len };
        }
    }

    pub(crate) fn end(&mut self) {
        if self.rows.height > 0 {
            (self.run)(self.first, self.offset, self.rows);
            self.offset += self.rows.width * self.rows.height;
            self.rows.height = 0;
        }
    }
}

/// Drivers limit the pitch (CUDA to a few GiB). Rows further apart are copied singly.
const MOST_PITCH: usize = 1 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_joined_where_they_touch_or_repeat() {
        let mut said = Vec::new();
        let mut joiner = RowJoiner::new(|at: *mut u8, offset, rows| {
            said.push((at.addr(), offset, (rows.width, rows.height, rows.pitch)));
        });
        let blocks = [
            (100, 4),
            (104, 4),
            (200, 8),
            (216, 8),
            (232, 8),
            (500, 3),
            (400, 3),
            (404, 3),
            (9, 1),
        ];
        blocks.iter().for_each(|(at, len)| joiner.add(std::ptr::without_provenance_mut(*at), *len));
        joiner.end();
        // 100 and 104 join to one block of 8 bytes, which begins the rows, as 200 is 100 behind it.
        let expected = [
            (100, 0, (8, 2, 100)),
            (216, 16, (8, 2, 16)),
            (500, 32, (3, 1, 3)),
            (400, 35, (3, 2, 4)),
            (9, 41, (1, 1, 1)),
        ];
        assert_eq!(said, expected);
    }
}
