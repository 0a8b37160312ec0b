//! Which processors this process may use.

use std::io;

/// The numbers of the processors on which the calling thread may run (sched_getaffinity(2)).
///
/// # Errors
/// What the kernel says.
pub fn allowed() -> io::Result<Vec<usize>> {
    // The kernel refuses a set smaller than its own, and tells nobody how large that is.
    let mut words = 16;
    loop {
        let mut set = vec![0u64; words];
        // SAFETY: the kernel writes at most `words * 8` bytes to `set`.
        let written = unsafe { libc::syscall(libc::SYS_sched_getaffinity, 0, words * 8, set.as_mut_ptr()) };
        if written >= 0 {
            let cpus = 0..words * 64;
            return Ok(cpus.filter(|cpu| set[cpu / 64] >> (cpu % 64) & 1 != 0).collect());
        }
        let error = io::Error::last_os_error();
        if error.raw_os_error() != Some(libc::EINVAL) || words >= 1 << 16 {
            return Err(error);
        }
        words *= 2;
    }
}

/// How many processors' worth of time this process may use: those of [`allowed`], or fewer if its control group
/// (version 1 or 2) has a quota. At least 1.
pub fn usable() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Binds the calling thread, and those it starts later, to one processor.
///
/// # Errors
/// `InvalidInput` if there is no such processor or it is not ours to use.
pub fn set_cpu(cpu: usize) -> io::Result<()> {
    let mut set = vec![0u64; cpu / 64 + 1];
    set[cpu / 64] = 1 << (cpu % 64);
    // SAFETY: the kernel reads `set.len() * 8` bytes from `set`.
    let result = unsafe { libc::syscall(libc::SYS_sched_setaffinity, 0, set.len() * 8, set.as_ptr()) };
    if result < 0 {
        let error = io::Error::last_os_error();
        return Err(io::Error::new(error.kind(), format!("cannot bind to processor {cpu}: {error}")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_can_bind_to_each_allowed_processor() {
        let all = allowed().unwrap();
        assert!(!all.is_empty() && (1..=all.len()).contains(&usable()));
        for cpu in all {
            std::thread::spawn(move || {
                set_cpu(cpu).unwrap();
                assert_eq!(allowed().unwrap(), [cpu]);
            })
            .join()
            .unwrap();
        }
    }

    #[test]
    fn a_processor_that_is_not_there_is_named() {
        let error = set_cpu(60_000).unwrap_err();
        assert!(error.to_string().contains("60000"), "{error}");
    }
}
