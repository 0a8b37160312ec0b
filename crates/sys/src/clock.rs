//! Time: the clock of the node, and processor ticks for short waits.
//!
//! [`now_ns`] is the kernel's monotonic clock, which reads the processor's counter without a system
//! call, with the kernel's calibration. [`ticks`] is the bare counter: cheaper, and good enough for
//! waits of nanoseconds to milliseconds, where an error of a percent does no harm. Compare ticks
//! only by `wrapping_sub`: if a counter jumps back, the wait then ends early.

use std::sync::atomic::{AtomicU64, Ordering};

/// CLOCK_MONOTONIC in nanoseconds: all processes of the node have the same start.
#[inline]
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The local time of day to the millisecond, as `2026-11-26 07:20:15.042`.
pub fn local_time() -> String {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Realtime);
    let seconds: libc::time_t = now.tv_sec;
    let mut parts = std::mem::MaybeUninit::<libc::tm>::zeroed();
    // SAFETY: localtime_r(3) reads one number and writes one structure, for which zeros are valid.
    let parts = unsafe {
        libc::localtime_r(&raw const seconds, parts.as_mut_ptr());
        parts.assume_init()
    };
    format!(
        "{:04}-{:02}-{:02} {:02}:{:02}:{:02}.{:03}",
        parts.tm_year + 1900,
        parts.tm_mon + 1,
        parts.tm_mday,
        parts.tm_hour,
        parts.tm_min,
        parts.tm_sec,
        now.tv_nsec / 1_000_000
    )
}

/// The processor's time counter, or nanoseconds on processors without a readable counter.
#[inline(always)]
pub fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 processor has this counter, and Linux lets users read it.
    unsafe {
        std::arch::x86_64::_rdtsc()
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: Linux lets users read this counter.
    unsafe {
        let ticks: u64;
        std::arch::asm!("mrs {0}, cntvct_el0", out(reg) ticks, options(nostack, nomem, preserves_flags));
        ticks
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    now_ns()
}

/// Waits `count` ticks between two polls of a word that another processor is about to write. Faster
/// polls take the line away from its writer; with a pause instruction between polls, a poll finds
/// the word later (`docs/adr/0004-short-collectives-on-distant-cores.md`).
#[inline(always)]
pub fn pass_ticks(count: u64) {
    pass_ticks_from(ticks(), count);
}

/// [`pass_ticks`], counted from `start`.
#[inline(always)]
pub fn pass_ticks_from(start: u64, count: u64) {
    while ticks().wrapping_sub(start) < count {}
}

/// Waits between two polls of a word that another processor is about to write, for a caller without
/// other work: until the last poll has its value, and for one read of the counter (10 to 20 ns on
/// x86-64). In a loop of bare polls, later polls would queue behind polls that began before the
/// word was written.
#[inline(always)]
pub fn pass_moment() {
    crate::hint::await_loads();
    std::hint::black_box(ticks());
}

/// Converts nanoseconds to ticks, within about a percent. The first call measures for 10 us.
pub fn ticks_of_ns(ns: u64) -> u64 {
    ((ns as u128 * ticks_per_2_20_ns() as u128) >> 20) as u64
}

/// Converts ticks to nanoseconds, within about a percent.
pub fn ns_of_ticks(ticks: u64) -> u64 {
    (((ticks as u128) << 20) / ticks_per_2_20_ns() as u128) as u64
}

/// The measured rate of the counter; 0 before the first measurement.
static TICKS_PER_2_20_NS: AtomicU64 = AtomicU64::new(0);

fn ticks_per_2_20_ns() -> u64 {
    match TICKS_PER_2_20_NS.load(Ordering::Relaxed) {
        0 => measure_again(),
        rate => rate,
    }
}

/// Measures the rate of the counter for 10 us and returns the ticks of 2^20 ns. Call it again in a
/// process that was moved to another machine.
pub fn measure_again() -> u64 {
    const MEASURE_NS: u64 = 10_000;
    let (start_ns, start) = (now_ns(), ticks());
    loop {
        let (ns, now) = (now_ns() - start_ns, ticks().wrapping_sub(start));
        if ns >= MEASURE_NS {
            let rate = (((now as u128) << 20) / ns as u128).max(1) as u64;
            TICKS_PER_2_20_NS.store(rate, Ordering::Relaxed);
            return rate;
        }
    }
}

/// CLOCK_MONOTONIC in seconds, for MPI_Wtime (MPI-5.0 section 9.6).
#[inline]
pub fn node_seconds() -> f64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_follow_the_clock() {
        let (ns, start) = (now_ns(), ticks());
        while now_ns() - ns < 2_000_000 {}
        let measured = ns_of_ticks(ticks().wrapping_sub(start));
        // The kernel may suspend this thread between two reads, so only a broken rate is an error.
        assert!((1_000_000..1_000_000_000).contains(&measured), "{measured} ns");
        let there_and_back = ns_of_ticks(ticks_of_ns(1_000_000));
        assert!((999_000..=1_001_000).contains(&there_and_back), "{there_and_back} ns");
    }
}
