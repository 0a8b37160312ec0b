//! Long copies by the processor's string instruction, or by vectors where that instruction is slow.
//!
//! The C library uses `rep movsb` only for lengths up to the size of the second-level cache, and
//! loops over vectors beyond. With fast string moves (Intel 64 and IA-32 Architectures Software
//! Developer's Manual, volume 1, "Enhanced REP MOVSB and STOSB Operation") the instruction is
//! faster for these lengths as well (`docs/performance.md`, "One-sided accesses").
//!
//! The instruction is slow if the destination begins less than a line behind the source, modulo a
//! page ([`is_slow`]): the low bits of the addresses then do not show the processor that its stores
//! and next loads are apart. Programs meet this often: `malloc` returns large blocks 16 bytes
//! behind the beginning of a page, and pools begin at a page.

use super::{CopyKind, vectors};

pub(super) const LONG_BYTES: usize = 512 << 10;
/// From this length on the string instruction copies to memory that another processor has read
/// last.
pub(super) const SHARED_BYTES: usize = 8 << 10;
/// From this length on C libraries may use the string instruction.
pub(super) const STRING_BYTES: usize = 2 << 10;

/// Whether the C library may use the string instruction for `len` bytes at addresses that make it
/// slow.
#[inline(always)]
pub(super) fn is_slow(from: *const u8, to: *const u8, len: usize) -> bool {
    const PAGE: usize = 4096;
    len >= STRING_BYTES
        && (1..crate::line::LINE_BYTES).contains(&(to.addr().wrapping_sub(from.addr()) % PAGE))
}

/// Copies `len` bytes; source and destination may overlap.
///
/// # Safety
/// `len` bytes at `from` must be readable, and `len` bytes at `to` writable.
#[inline(never)]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    if from.addr().abs_diff(to.addr()) >= len {
        if is_slow(from, to, len) {
            // SAFETY: the caller guarantees both ranges.
            return unsafe { vectors::copy(from, to, len, CopyKind::Plain) };
        }
        if std::arch::is_x86_feature_detected!("ermsb") {
            // SAFETY: the processor reads and writes the ranges that the caller guarantees, in
            // ascending order (the direction flag is clear wherever Rust code runs).
            unsafe {
                std::arch::asm!(
                    "rep movsb",
                    inout("rcx") len => _,
                    inout("rsi") from => _,
                    inout("rdi") to => _,
                    options(nostack, preserves_flags)
                );
            }
            return;
        }
    }
    // SAFETY: the caller guarantees both ranges.
    unsafe { std::ptr::copy(from, to, len) }
}
