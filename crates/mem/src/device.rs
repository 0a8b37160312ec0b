//! Memory of a device, such as an accelerator: no load, store or system call of this process reaches it, only a driver that copies.
//!
//! A [`UserBuf`](crate::buffer::UserBuf) of such memory ([`UserBuf::on_device`](crate::buffer::UserBuf::on_device)) is packed and unpacked like any
//! other, in any ranges. It never lies in one piece, so what would use memory where it is treats it as a buffer with gaps.
//!
//! Packing cannot fail, and a driver may: the first failure is noted, and what completes the operation gets it by
//! [`UserBuf::settle`](crate::buffer::UserBuf::settle). What was read of memory that could not be read is zero.

use std::fmt;

/// Rows of the same length, at equal distances.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rows {
    /// Bytes of a row.
    pub width: usize,
    /// How many there are.
    pub height: usize,
    /// Bytes from one row to the next, in the device; not less than `width`.
    pub pitch: usize,
}

/// How memory of a device is copied. Errors are numbers of the driver's.
pub trait DeviceMemory: Send + Sync + fmt::Debug {
    /// Copies `len` bytes of the device from `from` on to `to`. What was written before is read.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// `to` is writable for `len` bytes.
    unsafe fn read(&self, from: *const u8, to: *mut u8, len: usize) -> Result<(), i32>;

    /// Copies `len` bytes at `from` to the device, to `to` on. They are there when [`settle`](DeviceMemory::settle) returns; `from` may be
    /// used again at once.
    ///
    /// # Errors
    /// The driver's, also that of an earlier write.
    ///
    /// # Safety
    /// `from` is readable for `len` bytes.
    unsafe fn write(&self, to: *mut u8, from: *const u8, len: usize) -> Result<(), i32>;

    /// Copies rows of the device, the first at `from`, to `to`, one after the other.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// `to` is writable for all of them.
    unsafe fn read_rows(&self, from: *const u8, rows: Rows, to: *mut u8) -> Result<(), i32>;

    /// Copies rows that follow one another at `from` to the device, the first to `to`.
    ///
    /// # Errors
    /// The driver's.
    ///
    /// # Safety
    /// `from` is readable for all of them.
    unsafe fn write_rows(&self, to: *mut u8, rows: Rows, from: *const u8) -> Result<(), i32>;

    /// Waits until the device has all that was written.
    ///
    /// # Errors
    /// The driver's.
    fn settle(&self) -> Result<(), i32>;

    /// The program may have changed the memory: nothing that was read before counts any more.
    ///
    /// # Errors
    /// The driver's.
    fn renew(&self) -> Result<(), i32>;
}

/// A driver could not copy memory of its device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFault {
    /// Where the memory of the operation begins.
    pub address: u64,
    /// The driver's number of the error.
    pub code: i32,
}

/// Joins blocks that follow one another in packed order into rows, and hands them to `run`: where the first begins, the packed offset,
/// and how they lie.
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

    /// The next block.
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

    /// All blocks were given.
    pub(crate) fn end(&mut self) {
        if self.rows.height > 0 {
            (self.run)(self.first, self.offset, self.rows);
            self.offset += self.rows.width * self.rows.height;
            self.rows.height = 0;
        }
    }
}

/// Drivers limit the distance of rows; that of CUDA to some GiB less a byte. What is further apart is copied row by row.
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
        let blocks = [(100, 4), (104, 4), (200, 8), (216, 8), (232, 8), (500, 3), (400, 3), (404, 3), (9, 1)];
        blocks.iter().for_each(|(at, len)| joiner.add(std::ptr::without_provenance_mut(*at), *len));
        joiner.end();
        // 100 and 104 are one block of eight bytes, and so begins the pattern of rows, as 200 lies 100 behind it.
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
