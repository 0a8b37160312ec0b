//! Hints to the processor, which never change the result of a program; and the fence that streaming
//! stores need.

/// Prefetches the cache line at `at` in exclusive state, for a store that follows soon.
#[inline(always)]
pub fn prefetch_to_write<T>(at: *const T) {
    // SAFETY: a prefetch has no visible effect, and does not fault for any address. An instruction,
    // as the compiler's intrinsic falls back to a prefetch for reading.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = at;
}

/// Prefetches the cache line at `at` for a load that follows soon.
#[inline(always)]
pub fn prefetch_to_read<T>(at: *const T) {
    // SAFETY: a prefetch has no visible effect, and does not fault for any address.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = at;
}

/// Waits until all earlier loads have their values, on x86-64 and AArch64 only.
#[inline(always)]
pub fn await_loads() {
    // SAFETY: every x86-64 processor has the instruction; it accesses no memory.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    // SAFETY: every AArch64 processor has the instruction; it accesses no memory.
    #[cfg(all(target_arch = "aarch64", not(loom)))]
    unsafe {
        std::arch::asm!("dmb ishld", options(nostack, preserves_flags));
    }
}

/// Orders all streaming stores of this thread before its later stores.
#[inline(always)]
pub fn store_fence() {
    // SAFETY: every x86-64 processor has the instruction; it accesses no memory.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
