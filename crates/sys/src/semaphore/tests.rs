use super::*;
use std::time::Instant;

const SOON: Duration = Duration::from_secs(20);

fn exists(set: i32) -> bool {
    listed().any(|row| row[1] == i64::from(set))
}

#[test]
fn each_process_sleeps_on_semaphores_of_its_own() {
    let sets = SemaphoreSets::create(4).unwrap();
    let members = vec![10, 11, 12, 13];
    let own =
        |place: u32| OwnSemaphores::new(10 + place, members.clone(), &sets.of(place)).unwrap();
    let mut seen = Vec::new();
    for place in 0..4 {
        let own = own(place);
        assert_eq!(own.pool_lock(), Semaphore { set: sets.sets[0], number: 0 });
        for other in (10..14).filter(|other| *other != 10 + place) {
            for awaits in [Awaits::Message(other), Awaits::Room(other)] {
                seen.push(own.to_sleep_on(awaits));
            }
        }
        let anything = own.to_sleep_on(Awaits::Anything);
        for unknown in [99, 10 + place] {
            assert_eq!(own.to_sleep_on(Awaits::Message(unknown)), anything);
        }
        seen.push(anything);
    }
    let words: std::collections::BTreeSet<u64> =
        seen.iter().map(|semaphore| semaphore.to_word()).collect();
    assert_eq!((seen.len(), words.len()), (28, 28), "no two have one in common");
    assert!(
        seen.iter().all(|semaphore| Semaphore::from_word(semaphore.to_word()) == Some(*semaphore))
    );
    for word in [0, 7, 1 << 63 | 1, 0x1_0000] {
        assert_eq!(Semaphore::from_word(word), None, "{word:#x}");
    }
    let both = [own(1).to_sleep_on(Awaits::Message(13)), own(3).to_sleep_on(Awaits::Message(11))];
    assert_eq!(both[0].set, both[1].set, "the pair has one set");
    assert_eq!(both.map(|semaphore| semaphore.number), [0, 3]);
}

#[test]
fn sets_that_do_not_fit_are_refused() {
    for (me, sets) in [(1, &[][..]), (1, &[5]), (1, &[5, 6]), (1, &[5, 6, 7, 8]), (9, &[5, 6, 7])] {
        assert!(OwnSemaphores::new(me, vec![1, 2, 3], sets).is_err(), "{me} {sets:?}");
    }
    assert!(OwnSemaphores::new(1, vec![1], &[5]).is_err(), "alone there is nobody to wake it");
    assert_eq!(SemaphoreSets::create(1).unwrap().of(0), []);
    let text = SemaphoreSets::create(257).unwrap_err().to_string();
    assert!(text.starts_with("257 ranks of a node") && text.contains("at most 256"), "{text}");
}

#[test]
fn rule_2_a_raise_ends_the_sleep_and_so_does_the_removal() {
    let sets = SemaphoreSets::create(2).unwrap();
    let of = |me| OwnSemaphores::new(me, vec![0, 1], &sets.of(me)).unwrap();
    let semaphore = of(0).to_sleep_on(Awaits::Message(1));
    assert_eq!(semaphore.wait(Some(Duration::from_millis(5))), SemaphoreWait::Interrupted);
    semaphore.raise();
    assert_eq!(semaphore.wait(None), SemaphoreWait::Raised);
    semaphore.raise();
    semaphore.raise();
    semaphore.lower();
    assert_eq!(semaphore.wait(Some(Duration::from_millis(5))), SemaphoreWait::Interrupted);
    let sleeper =
        std::thread::spawn(move || (semaphore.wait(Some(SOON)), semaphore.wait(Some(SOON))));
    std::thread::sleep(Duration::from_millis(20));
    semaphore.raise();
    std::thread::sleep(Duration::from_millis(20));
    let all = sets.sets.clone();
    assert!(all.iter().all(|set| exists(*set)));
    drop(sets);
    assert_eq!(sleeper.join().unwrap(), (SemaphoreWait::Raised, SemaphoreWait::Gone));
    assert!(!all.iter().any(|set| exists(*set)));
}

#[test]
fn rule_3_the_lock_of_a_dead_process_is_open() {
    let sets = SemaphoreSets::create(2).unwrap();
    let lock = OwnSemaphores::new(0, vec![0, 1], &sets.of(0)).unwrap().pool_lock();
    assert!(lock.lock(SOON));
    let started = Instant::now();
    assert!(
        !lock.lock(Duration::from_millis(10)) && started.elapsed() >= Duration::from_millis(10)
    );
    lock.unlock();
    // SAFETY: the child makes only system calls, and ends.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(i32::from(!lock.lock(Duration::ZERO))),
            child => {
                let mut status = 0;
                libc::waitpid(child, &raw mut status, 0);
                assert_eq!(status, 0, "it had the lock");
            }
        }
    }
    assert!(lock.lock(SOON));
    lock.unlock();
}

/// Starts a process that makes sets for three ranks and sleeps; returns both.
fn maker() -> (i32, Vec<i32>) {
    let (read, write) = rustix::pipe::pipe().unwrap();
    // SAFETY: the child makes sets in its copy of the memory, reports them, and never returns.
    let child = unsafe {
        let child = libc::fork();
        if child == 0 {
            let made = SemaphoreSets::create(3);
            let sets = made.as_ref().map_or(Vec::new(), |made| made.sets.clone());
            let bytes: Vec<u8> = sets.iter().flat_map(|set| set.to_ne_bytes()).collect();
            let _ = rustix::io::write(&write, &bytes);
            // The child ends with its parent, by a signal of the test, or by the alarm.
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            libc::alarm(SOON.as_secs() as u32);
            loop {
                libc::pause();
            }
        }
        child
    };
    let mut bytes = [0; 16];
    assert_eq!(rustix::io::read(&read, &mut bytes).unwrap(), 16);
    (child, bytes.chunks(4).map(|four| i32::from_ne_bytes(four.try_into().unwrap())).collect())
}

#[test]
fn rule_4_sets_are_removed_when_no_process_lives_that_used_them() {
    let (child, sets) = maker();
    let are_there = || [0, 1, 2, 3].map(|at: usize| exists(sets[at]));
    let used = Semaphore { set: sets[1], number: 3 };
    used.raise();
    remove_abandoned(None);
    assert_eq!(are_there(), [true; 4], "their maker lives");
    // SAFETY: kills a child of this test, which is reaped later.
    unsafe { libc::kill(child, libc::SIGKILL) };
    let ended = Instant::now();
    while lives(child) {
        assert!(ended.elapsed() < SOON);
        std::thread::sleep(Duration::from_millis(1));
    }
    // Set 1 was made and used by different processes; the dead maker used the others last.
    remove_abandoned(None);
    assert_eq!(are_there(), [false, true, false, false]);
    remove(sets[1]);
    // SAFETY: reaps a child of this test.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    assert!(!lives(child) && lives(std::process::id() as i32));
}

#[test]
fn rule_4_a_guard_takes_its_launcher_for_dead() {
    let (child, sets) = maker();
    remove_abandoned(Some(child));
    assert!(!sets.iter().any(|set| exists(*set)));
    // SAFETY: kills and reaps a child of this test.
    unsafe {
        libc::kill(child, libc::SIGKILL);
        libc::waitpid(child, std::ptr::null_mut(), 0);
    }
}

#[test]
fn rule_4_a_set_that_was_never_finished_is_removed_when_it_is_old() {
    // SAFETY: semget(2) takes numbers only.
    let set =
        unsafe { libc::semget(MARK << 16 | 0x1234, OF_PAIR as c_int, libc::IPC_CREAT | 0o600) };
    assert!(set >= 0);
    let made = SemaphoreSets::create(2).unwrap();
    let made_s = listed().find(|row| row[1] == i64::from(set)).unwrap()[9];
    remove_abandoned_at(made_s + MAKING_S, None);
    assert!(exists(set), "its maker may go on");
    remove_abandoned_at(made_s + MAKING_S + 1, None);
    assert!(!exists(set) && made.sets.iter().all(|set| exists(*set)));
}

#[test]
fn the_list_of_the_kernel_is_read() {
    let line =
        "1867776123     131075   600          6     0     0     0     0          0 1700000000";
    assert_eq!(row(line), Some([1867776123, 131075, 600, 6, 0, 0, 0, 0, 0, 1700000000]));
    for line in ["", "key semid perms nsems uid gid cuid", "1 2 3 4 5 6 7 8 9"] {
        assert_eq!(row(line), None);
    }
}
