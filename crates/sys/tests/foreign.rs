//! The process state that a library opened or started at run time changes, and its restoration.
#![cfg(not(loom))]
#![allow(clippy::unwrap_used)] // a test may panic anywhere

use oxmpi_sys::foreign::{ForeignLibrary, LibraryTexts, REQUESTS, keep_signals};
use oxmpi_sys::foreign_symbols;
use std::ffi::c_int;
use std::mem::zeroed;
use std::path::Path;
use std::process::Command;
use std::ptr::{null, null_mut};
use std::sync::{Mutex, MutexGuard, PoisonError};

static TEXTS: LibraryTexts =
    LibraryTexts { name: "the library", needed: "such library", remedy: "" };

foreign_symbols! {
    struct TakingSymbols {
        fn take_signals() -> c_int;
        static requests: c_int;
    }
}

/// Signals and the environment belong to the whole process, so tests run one at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn compiled(name: &str) -> String {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/foreign/library.c");
    let library =
        Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}.so", std::process::id()));
    let mut cc = Command::new("cc");
    cc.args(["-Wall", "-Werror", "-O1", "-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    let output = cc.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library.to_str().unwrap().to_string()
}

/// The C library sets this flag of the kernel with every disposition, also with none.
const SA_RESTORER: c_int = 0x0400_0000;

extern "C" fn own_handler(_: c_int) {}

/// Handlers, flags and masks of all signals; the thread's mask; its signal stack.
#[derive(Debug, PartialEq, Eq)]
struct ProcessSignals {
    handlers: Vec<(usize, c_int, [u8; 8])>,
    mask: [u8; 8],
    stack: (usize, usize, c_int),
}

fn mask_bytes(mask: &libc::sigset_t) -> [u8; 8] {
    // SAFETY: a mask has at least 8 bytes.
    unsafe { std::ptr::from_ref(mask).cast::<[u8; 8]>().read() }
}

fn process_signals() -> ProcessSignals {
    // SAFETY: the calls only fill structures for which zeros are valid.
    unsafe {
        let handlers = (1..=64).map(|signal| {
            let mut now: libc::sigaction = zeroed();
            libc::sigaction(signal, null(), &mut now);
            (now.sa_sigaction, now.sa_flags & !SA_RESTORER, mask_bytes(&now.sa_mask))
        });
        let handlers = handlers.collect();
        let (mut mask, mut stack): (libc::sigset_t, libc::stack_t) = (zeroed(), zeroed());
        libc::pthread_sigmask(libc::SIG_SETMASK, null(), &mut mask);
        libc::sigaltstack(null(), &mut stack);
        let stack = (stack.ss_sp.addr(), stack.ss_size, stack.ss_flags);
        ProcessSignals { handlers, mask: mask_bytes(&mask), stack }
    }
}

/// Installs a handler, ignores one signal and blocks another, as a program might.
fn set_own() {
    // SAFETY: the handler does nothing; only this thread's mask is changed.
    unsafe {
        let mut own: libc::sigaction = zeroed();
        own.sa_sigaction = own_handler as *const () as usize;
        own.sa_flags = libc::SA_RESTART | libc::SA_NODEFER;
        libc::sigaddset(&mut own.sa_mask, libc::SIGWINCH);
        libc::sigaction(libc::SIGTERM, &own, null_mut());
        libc::signal(libc::SIGUSR1, libc::SIG_IGN);
        let mut blocked: libc::sigset_t = zeroed();
        libc::sigaddset(&mut blocked, libc::SIGUSR2);
        libc::pthread_sigmask(libc::SIG_SETMASK, &blocked, null_mut());
    }
}

fn value(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

fn environment() -> Vec<(String, String)> {
    std::env::vars().filter(|(name, _)| name != "OXMPI_TEST_TAKEN").collect()
}

#[test]
fn the_programs_signals_stay_when_a_library_takes_them() {
    let _alone = alone();
    let library = compiled("takes");
    set_own();
    let (before, environment_before) = (process_signals(), environment());
    let opened = ForeignLibrary::open(&TEXTS, &library).unwrap();
    assert_eq!(process_signals(), before);
    let TakingSymbols { take_signals, requests } = TakingSymbols::of(&opened).unwrap();
    // SAFETY: the function has no arguments.
    let take = || unsafe { take_signals() };
    assert_eq!(number_at(requests), 7, "a variable requested it not to take signals");
    // The variable is in the environment now, and the library changes it in place.
    keep_signals(take);
    assert_eq!((process_signals(), value("OXMPI_TEST_TAKEN").as_deref()), (before, Some("2")));
    assert_eq!(environment(), environment_before);
    take();
    assert_eq!(number_at(requests), 0, "the requests are gone");
    std::fs::remove_file(library).unwrap();
}

fn number_at(variable: *const c_int) -> c_int {
    // SAFETY: a variable of the library, which is never unloaded; no other thread changes it.
    unsafe { *variable }
}

#[test]
fn two_threads_within_do_not_take_each_others_library_for_the_program() {
    let _alone = alone();
    let before = process_signals().handlers;
    let (first_is_in, first_may_go) = (std::sync::Barrier::new(2), std::sync::Barrier::new(2));
    let take = |signal| {
        // SAFETY: the handler does nothing.
        unsafe { libc::signal(signal, own_handler as *const () as usize) };
    };
    std::thread::scope(|scope| {
        scope.spawn(|| {
            keep_signals(|| {
                take(libc::SIGPROF);
                first_is_in.wait();
                first_may_go.wait();
            });
        });
        first_is_in.wait();
        keep_signals(|| {
            take(libc::SIGVTALRM);
            first_may_go.wait();
        });
    });
    assert_eq!(process_signals().handlers, before);
}

#[test]
fn the_environment_is_the_programs_where_nobody_sets_a_variable() {
    let _alone = alone();
    let before = environment();
    let user = REQUESTS[1].0.to_str().unwrap();
    keep_signals(|| {
        for (name, wanted) in REQUESTS {
            assert_eq!(value(name.to_str().unwrap()).as_deref(), wanted.to_str().ok());
        }
    });
    assert_eq!(environment(), before);
    // SAFETY: no other thread of this test reads or changes the environment.
    unsafe { std::env::set_var(user, "0") };
    keep_signals(|| assert_eq!(value(user).as_deref(), Some("0")));
    assert_eq!(value(user).as_deref(), Some("0"));
    // A variable that the library sets stays, as it may read it later.
    // SAFETY: no other thread of this test reads or changes the environment.
    keep_signals(|| unsafe { std::env::set_var("OXMPI_TEST_STAYS", "1") });
    assert_eq!(value("OXMPI_TEST_STAYS").as_deref(), Some("1"));
    assert_eq!(value("IPATH_NO_BACKTRACE"), None);
    // SAFETY: no other thread of this test reads or changes the environment.
    unsafe {
        std::env::remove_var(user);
        std::env::remove_var("OXMPI_TEST_STAYS");
    }
}

#[test]
fn the_error_number_of_a_start_is_the_callers() {
    let _alone = alone();
    // SAFETY: returns the address of this thread's errno.
    let errno = || unsafe { libc::__errno_location() };
    // SAFETY: this thread's errno.
    keep_signals(|| unsafe { *errno() = libc::ENOSYS });
    // SAFETY: this thread's errno.
    assert_eq!(unsafe { *errno() }, libc::ENOSYS);
}
