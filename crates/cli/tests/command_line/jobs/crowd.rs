//! More ranks than cores, together with an unrelated process that computes on their core.
//!
//! The promise (`oxmpi_shm::door::Policy`): ranks yield the core to each other without sleeping. If
//! another process takes the yielded time they sleep instead, because the kernel prefers a process
//! that has just been woken. The test compares counts of sleeps, not times.

use std::sync::atomic::{AtomicBool, Ordering};

use oxmpi_sys::cpus;

use super::harness::{Programs, compile};

const RANKS: u32 = 8;

struct BusyThread<'a>(&'a AtomicBool);

impl Drop for BusyThread<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls `body` with this thread, and the processes that it starts, bound to a core on which
/// another thread computes.
fn beside_a_busy_thread(body: impl FnOnce() + Send) {
    let core = *cpus::allowed().unwrap().last().unwrap();
    let over = &AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (busy, is_busy) = std::sync::mpsc::channel();
        scope.spawn(move || {
            cpus::set_cpu(core).unwrap();
            busy.send(()).unwrap();
            while !over.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let busy = BusyThread(over);
        scope.spawn(move || {
            let _busy = busy;
            cpus::set_cpu(core).unwrap();
            is_busy.recv().unwrap();
            body();
        });
    });
}

/// Runs `operations` small allreduces and as many ping-pongs, and returns the number of sleeps of
/// the ranks in each.
fn sleeps(programs: &Programs, options: &[&str], operations: u64) -> [u64; 2] {
    let outcome = programs.run(RANKS, options, "crowd", &[&operations.to_string()]);
    outcome.is_fine(1, "slept ");
    let words = outcome.out.split([' ', ',', '\n']);
    let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("not two numbers: {outcome:?}"))
}

#[test]
fn ranks_sleep_instead_of_yielding_to_an_unrelated_process() {
    let programs = compile(&["jobs/crowd"]);
    beside_a_busy_thread(|| {
        // All ranks but the last one wait in each allreduce, and each of two ranks once in a
        // ping-pong. Nearly all waits should sleep; half of them prove the rule.
        let slept = sleeps(&programs, &[], 2000);
        let [in_allreduces, in_messages] = slept;
        assert!(
            in_allreduces >= 2000 * u64::from(RANKS - 1) / 2,
            "in 2000 operations each: {slept:?}"
        );
        assert!(in_messages >= 2000 / 2, "in 2000 operations each: {slept:?}");
        // Without the rule ranks yield, so the counts above are due to it. (Few operations: each
        // costs a time slice of the other process.)
        let slept = sleeps(&programs, &["--mca", "wait_sleeping", "0"], 200);
        let [in_allreduces, in_messages] = slept;
        assert!(
            in_allreduces < 200 * u64::from(RANKS - 1) / 4,
            "in 200 operations each: {slept:?}"
        );
        assert!(in_messages < 200 / 4, "in 200 operations each: {slept:?}");
    });
}
