//! Hints to the processor. They change the speed of a program, never its meaning.

/// Says that the cache line at `at` will soon be written, so that it comes in exclusive state.
#[inline(always)]
pub(crate) fn prefetch_to_write<T>(at: *const T) {
    // SAFETY: a prefetch reads and writes nothing the program can see, and does not fault for any address.
    // The instruction by name, because the compiler's intrinsic falls back to a prefetch for reading.
    #[cfg(all(target_arch = "x86_64", not(loom)))]
    unsafe {
        std::arch::asm!("prefetchw [{0}]", in(reg) at, options(nostack, preserves_flags, readonly));
    }
    #[cfg(not(all(target_arch = "x86_64", not(loom))))]
    let _ = at;
}
