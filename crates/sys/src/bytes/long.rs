//! Copies of much memory by the processor's string instruction, or by vectors where that is slow.
//!
//! The C library takes that instruction (`rep movsb`) only for lengths up to the size of the second-level cache, and loops over
//! vectors beyond. Where the processor says that it moves strings fast (Intel 64 and IA-32 Architectures Software
//! Developer's Manual, volume 1, "Enhanced REP MOVSB and STOSB Operation") it is the faster of the two there as well:
//! see `docs/performance.md`, "One-sided accesses".
//!
//! It is slow where the destination begins less than a line behind the source, modulo a page ([`is_slow`]): then the processor
//! cannot tell from the low bits of the addresses that what it stores is not what it loads next. `malloc` gives much memory 16
//! bytes behind the beginning of a page, and pools begin with one, so programs come to that all the time.

use super::{CopyKind, vectors};

/// Copies of so many bytes are long.
pub(super) const LONG_BYTES: usize = 512 << 10;
/// As many go by it to memory that another processor has read last.
pub(super) const SHARED_BYTES: usize = 8 << 10;
/// From so many bytes on C libraries may take the string instruction.
pub(super) const STRING_BYTES: usize = 2 << 10;

/// Whether the string instruction is slow for a copy of `len` bytes, and the C library may take it.
#[inline(always)]
pub(super) fn is_slow(from: *const u8, to: *const u8, len: usize) -> bool {
    const PAGE: usize = 4096;
    len >= STRING_BYTES
        && (1..crate::line::LINE_BYTES).contains(&(to.addr().wrapping_sub(from.addr()) % PAGE))
}

/// Copies `len` bytes, which are many; both sides may overlap.
///
/// # Safety
/// `len` bytes at `from` must be readable, and as many at `to` writable.
#[inline(never)]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    if from.addr().abs_diff(to.addr()) >= len {
        if is_slow(from, to, len) {
            // SAFETY: the caller vouches for both.
            return unsafe { vectors::copy(from, to, len, CopyKind::Plain) };
        }
        if std::arch::is_x86_feature_detected!("ermsb") {
            // SAFETY: the processor reads and writes what the caller vouches for, in ascending order (the direction flag is clear
            // wherever Rust code runs).
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
    // SAFETY: the caller vouches for both.
    unsafe { std::ptr::copy(from, to, len) }
}
