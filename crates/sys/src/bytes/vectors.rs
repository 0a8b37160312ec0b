//! Copies by vectors, a cache line at a time, through the caches or past them.
//!
//! A plain store first fetches its line into the writer's cache: a needless transfer if the line is
//! in another core's private cache and is overwritten as a whole. Non-temporal stores (Intel 64 and
//! IA-32 Architectures Software Developer's Manual, volume 1, "Programming with SSE: Cacheability
//! Control") collect a line in the core and send it to memory without fetching it. They are not
//! ordered with other stores: call [`store_fence`](crate::hint::store_fence) before publishing the
//! data.

use super::CopyKind;

/// Copies `len` bytes by vectors where the processor has them.
///
/// # Safety
/// `len` bytes at `from` must be readable, and `len` bytes at `to` writable.
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize, kind: CopyKind) {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    {
        const LINE: usize = crate::line::LINE_BYTES;
        let head = to.addr().wrapping_neg() % LINE;
        if len >= head + LINE {
            let whole = (len - head) / LINE * LINE;
            let lines: kernels::Lines = match kind {
                CopyKind::Plain if std::arch::is_x86_feature_detected!("avx512f") => {
                    kernels::plain_avx512
                }
                CopyKind::Plain if std::arch::is_x86_feature_detected!("avx") => kernels::plain_avx,
                CopyKind::Plain => kernels::plain_sse2,
                CopyKind::Streaming if std::arch::is_x86_feature_detected!("avx512f") => {
                    kernels::streaming_avx512
                }
                CopyKind::Streaming if std::arch::is_x86_feature_detected!("avx") => {
                    kernels::streaming_avx
                }
                CopyKind::Streaming => kernels::streaming_sse2,
            };
            // SAFETY: `head + whole <= len`, so all three parts lie inside the ranges that the
            // caller guarantees. `to + head` is aligned to a line, `whole` is a multiple of a line,
            // and the processor has the function's instructions.
            unsafe {
                std::ptr::copy(from, to, head);
                lines(from.add(head), to.add(head), whole);
                let done = head + whole;
                std::ptr::copy(from.add(done), to.add(done), len - done);
            }
            return;
        }
    }
    let _ = kind;
    // SAFETY: the caller guarantees both ranges.
    unsafe { std::ptr::copy(from, to, len) }
}

#[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
mod kernels {
    pub(super) type Lines = unsafe fn(*const u8, *mut u8, usize);

    /// Defines a function that copies whole lines to an aligned address by vectors of one type.
    macro_rules! lines {
        ($name:ident, $feature:literal, $vector:ident, $load:ident, $store:ident) => {
            /// # Safety
            /// The processor has the feature; `len` bytes at `from` are readable and at `to`
            /// writable; `len` is a multiple of a line and `to` is aligned to a line.
            #[target_feature(enable = $feature)]
            pub(super) unsafe fn $name(from: *const u8, to: *mut u8, len: usize) {
                use std::arch::x86_64::{$load, $store, $vector};
                const EACH: usize = crate::line::LINE_BYTES / size_of::<$vector>();
                for at in (0..len).step_by(crate::line::LINE_BYTES) {
                    // SAFETY: the line at `at` lies inside both ranges; `to` is aligned.
                    unsafe {
                        let (from, to) =
                            (from.add(at).cast::<$vector>(), to.add(at).cast::<$vector>());
                        let line: [$vector; EACH] =
                            std::array::from_fn(|index| $load(from.add(index).cast()));
                        for (index, part) in line.into_iter().enumerate() {
                            $store(to.add(index).cast(), part);
                        }
                    }
                }
            }
        };
    }

    lines!(streaming_avx512, "avx512f", __m512i, _mm512_loadu_si512, _mm512_stream_si512);
    lines!(streaming_avx, "avx", __m256i, _mm256_loadu_si256, _mm256_stream_si256);
    lines!(streaming_sse2, "sse2", __m128i, _mm_loadu_si128, _mm_stream_si128);
    lines!(plain_avx512, "avx512f", __m512i, _mm512_loadu_si512, _mm512_store_si512);
    lines!(plain_avx, "avx", __m256i, _mm256_loadu_si256, _mm256_store_si256);
    lines!(plain_sse2, "sse2", __m128i, _mm_loadu_si128, _mm_store_si128);
}

#[cfg(all(test, target_arch = "x86_64", not(loom), not(miri)))]
mod tests {
    use super::kernels::*;

    #[test]
    fn every_kernel_copies_lines() {
        #[repr(align(64))]
        struct Aligned([u8; 512]);
        let from: [u8; 512] = std::array::from_fn(|at| (at * 7) as u8);
        let (avx, avx512) = (
            std::arch::is_x86_feature_detected!("avx"),
            std::arch::is_x86_feature_detected!("avx512f"),
        );
        let kernels: [(Lines, bool); 6] = [
            (streaming_sse2, true),
            (streaming_avx, avx),
            (streaming_avx512, avx512),
            (plain_sse2, true),
            (plain_avx, avx),
            (plain_avx512, avx512),
        ];
        for (kernel, _) in kernels.into_iter().filter(|(_, is_there)| *is_there) {
            let mut to = Aligned([0; 512]);
            // SAFETY: the processor has the instructions; the lines lie inside both arrays.
            unsafe { kernel(from.as_ptr().add(3), to.0.as_mut_ptr().add(64), 384) };
            assert_eq!(to.0[64..448], from[3..387]);
            assert!(to.0[..64].iter().chain(&to.0[448..]).all(|&byte| byte == 0));
        }
    }
}
