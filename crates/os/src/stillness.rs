//! Whether another thread of this process has been seen in the kernel, and so between no two instructions of its own.

use std::{fs, path::Path};

/// The number by which the kernel knows the calling thread.
pub fn own_thread() -> u32 {
    rustix::thread::gettid().as_raw_nonzero().get() as u32
}

/// Whether the thread has been asleep in a system call at some time since this function was called, or has ended. If so, it has
/// done all that it had begun before, and will see whatever the caller has stored before.
///
/// The kernel answers for it: it gives the system call of a thread (`/proc/self/task/N/syscall`, proc_pid_syscall(5)) only when
/// the thread is off its processor, asleep, and has not run while it was looked at. `false` says nothing: the thread computes,
/// waits for a page or a processor, or the kernel does not tell. Of 0, which is no thread's number, it says nothing either.
pub fn was_still(thread: u32) -> bool {
    if thread == 0 {
        return false;
    }
    // In another PID namespace's /proc the numbers are others.
    let own = own_thread().to_string();
    let own_name = fs::read_link("/proc/thread-self").ok();
    if own_name.as_deref().and_then(Path::file_name).is_none_or(|name| name != own.as_str()) {
        return false;
    }
    let folder = format!("/proc/self/task/{thread}");
    match fs::read_to_string(format!("{folder}/syscall")) {
        // "running", or "-1 ..." if it is asleep outside of a system call, as when it waits for a page.
        Ok(text) => text.starts_with(|first: char| first.is_ascii_digit()),
        Err(_) => !Path::new(&folder).exists(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
    use std::sync::{Arc, mpsc};
    use std::thread;

    #[test]
    fn threads_that_sleep_are_still_and_those_that_run_are_not() {
        let (tell, told) = mpsc::channel();
        let (end, ended) = mpsc::channel::<()>();
        let sleeper = thread::spawn(move || {
            tell.send(own_thread()).unwrap();
            let _ = ended.recv();
        });
        let number = told.recv().unwrap();
        while !was_still(number) {
            thread::yield_now();
        }
        drop(end);
        sleeper.join().unwrap();
        // The thread may be on its way out for a moment longer.
        while !was_still(number) {
            thread::yield_now();
        }
    }

    /// Who asks before the number has been told must not take the thread for one that has ended.
    #[test]
    fn no_thread_is_not_still() {
        assert!(!was_still(0));
    }

    #[test]
    fn a_thread_that_computes_is_not_still() {
        let (number, is_over) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicBool::new(false)));
        let (told, over) = (number.clone(), is_over.clone());
        let thread = thread::spawn(move || {
            told.store(own_thread(), Ordering::Release);
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        while number.load(Ordering::Acquire) == 0 {
            thread::yield_now();
        }
        let seen = (0..100).filter(|_| was_still(number.load(Ordering::Acquire))).count();
        is_over.store(true, Ordering::Relaxed);
        thread.join().unwrap();
        assert_eq!(seen, 0);
    }
}
