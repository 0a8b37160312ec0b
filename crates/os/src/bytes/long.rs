//! Copies of much memory by the processor's string instruction.
//!
//! The C library takes that instruction (`rep movsb`) only for lengths up to the size of the second-level cache, and loops over
//! vectors beyond. Where the processor says that it moves strings fast (Intel 64 and IA-32 Architectures Software
//! Developer's Manual, volume 1, "Enhanced REP MOVSB and STOSB Operation") it is the faster of the two there as well:
//! see `docs/performance.md`, "One-sided accesses".

/// Copies of so many bytes are long.
pub(super) const LONG_BYTES: usize = 512 << 10;
/// As many go by it to memory that another processor has read last.
pub(super) const SHARED_BYTES: usize = 8 << 10;

/// Copies `len` bytes, which are many; both sides may overlap.
///
/// # Safety
/// `len` bytes at `from` must be readable, and as many at `to` writable.
#[inline(never)]
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    if from.addr().abs_diff(to.addr()) >= len && std::arch::is_x86_feature_detected!("ermsb") {
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
    // SAFETY: the caller vouches for both.
    unsafe { std::ptr::copy(from, to, len) }
}
