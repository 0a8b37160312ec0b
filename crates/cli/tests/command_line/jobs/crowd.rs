//! More ranks than cores, and a stranger that computes on the core they share.
//!
//! What is promised (`oxmpi_shm::door::Policy`): ranks give up the core to each other without sleeping, but as soon as a
//! stranger takes what they give up they sleep instead, because who sleeps is preferred to the stranger when it is woken.
//! Not the time is compared but how often the ranks slept.

use std::sync::atomic::{AtomicBool, Ordering};

use oxmpi_sys::cpus;

use super::harness::{Programs, compile};

const RANKS: u32 = 8;

/// Computes on one core until it is dropped.
struct Stranger<'a>(&'a AtomicBool);

impl Drop for Stranger<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Calls `body` with its thread, and what it starts, bound to a core on which a stranger computes.
fn beside_a_stranger(body: impl FnOnce() + Send) {
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
        let stranger = Stranger(over);
        scope.spawn(move || {
            let _stranger = stranger;
            cpus::set_cpu(core).unwrap();
            is_busy.recv().unwrap();
            body();
        });
    });
}

/// Runs `operations` small allreduces and as many ping-pongs: how often the ranks slept in each.
fn sleeps(programs: &Programs, options: &[&str], operations: u64) -> [u64; 2] {
    let outcome = programs.run(RANKS, options, "crowd", &[&operations.to_string()]);
    outcome.is_fine(1, "slept ");
    let words = outcome.out.split([' ', ',', '\n']);
    let numbers: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    numbers.try_into().unwrap_or_else(|_| panic!("not two numbers: {outcome:?}"))
}

#[test]
fn ranks_sleep_instead_of_yielding_to_a_stranger() {
    let programs = compile(&["jobs/crowd"]);
    beside_a_stranger(|| {
        // All ranks but the last one wait in each allreduce, and in a ping-pong each of the two once. Half of the
        // waits would show the rule; nearly all are meant to sleep.
        let slept = sleeps(&programs, &[], 2000);
        let [in_allreduces, in_messages] = slept;
        assert!(in_allreduces >= 2000 * u64::from(RANKS - 1) / 2, "in 2000 operations each: {slept:?}");
        assert!(in_messages >= 2000 / 2, "in 2000 operations each: {slept:?}");
        // Without the rule they yield, so these numbers do tell. (Few operations: each takes the stranger's time slice.)
        let slept = sleeps(&programs, &["--mca", "wait_sleeping", "0"], 200);
        let [in_allreduces, in_messages] = slept;
        assert!(in_allreduces < 200 * u64::from(RANKS - 1) / 4, "in 200 operations each: {slept:?}");
        assert!(in_messages < 200 / 4, "in 200 operations each: {slept:?}");
    });
}
