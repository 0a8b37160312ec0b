//! Hints to the processor, which change the speed of a program and never its meaning; and the fence that streaming
//! stores need.

/// Says that the cache line at `at` will soon be written, so that it comes in exclusive state.
#[inline(always)]
pub fn prefetch_to_write<T>(at: *const T) {
    // SAFETY: a prefetch reads and writes nothing the program can see, and does not fault for any address.
    // The instruction by name, because the compiler's intrinsic falls back to a prefetch for reading.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = at;
}

/// Says that the cache line at `at` will soon be read.
#[inline(always)]
pub fn prefetch_to_read<T>(at: *const T) {
    // SAFETY: as above.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast());
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = at;
}

/// Waits until everything that was loaded before is there. Does nothing on processors other than x86-64 and AArch64.
#[inline(always)]
pub fn await_loads() {
    // SAFETY: every x86-64 processor has the instruction; it touches nothing.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    unsafe {
        std::arch::x86_64::_mm_lfence();
    }
    // SAFETY: as above, of every AArch64 processor.
    #[cfg(all(target_arch = "aarch64", not(loom)))]
    unsafe {
        std::arch::asm!("dmb ishld", options(nostack, preserves_flags));
    }
}

/// Orders all streaming stores of this thread before its later stores. Plain stores need no such thing.
#[inline(always)]
pub fn store_fence() {
    // SAFETY: every x86-64 processor has the instruction; it touches nothing.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    unsafe {
        std::arch::x86_64::_mm_sfence();
    }
}
