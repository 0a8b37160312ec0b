//! Each rule of `job.rs`, without a process.

use super::missed::CHECKS;
use super::*;
use proptest::prelude::*;

fn seen(stage: MpiStage) -> Glimpse {
    Glimpse { pid: 77, stage, last_call: (stage != MpiStage::Untouched).then_some("MPI_Recv") }
}

fn exited(rank: u32, exit: Exit, stage: MpiStage) -> JobEvent {
    JobEvent::Exited { rank, exit, seen: seen(stage) }
}

fn printed(actions: &[Action]) -> String {
    actions
        .iter()
        .filter_map(|a| if let Action::Print(t) = a { Some(t.as_str()) } else { None })
        .collect()
}

fn signals(actions: &[Action]) -> Vec<i32> {
    actions
        .iter()
        .filter_map(|a| if let Action::Signal { number, .. } = a { Some(*number) } else { None })
        .collect()
}

fn kill(ranks: &[u32]) -> Action {
    Action::Signal { number: 9, ranks: ranks.to_vec() }
}

/// The targets of the signals.
fn struck(actions: &[Action]) -> Vec<u32> {
    let all = actions
        .iter()
        .flat_map(|a| if let Action::Signal { ranks, .. } = a { ranks.clone() } else { vec![] });
    all.collect()
}

/// Header pages of all processes, by number.
fn all_seen(stages: &[MpiStage]) -> Vec<(u32, Glimpse)> {
    (0..).zip(stages.iter().copied().map(seen)).collect()
}

fn check(stages: &[MpiStage]) -> JobEvent {
    JobEvent::Seen { all: all_seen(stages), is_new: true }
}

#[test]
fn a_good_job_ends_silently_with_0() {
    for stage in [MpiStage::Finalized, MpiStage::Untouched] {
        let mut job = Jobs::new(2, "h");
        assert_eq!(job.on(exited(1, Exit::Code(0), stage)), []);
        assert_eq!(job.on(exited(0, Exit::Code(0), stage)), [Action::Finish(0)]);
    }
}

#[test]
fn rule_1_a_crash_ends_the_job_with_one_report() {
    let mut job = Jobs::new(3, "h");
    let actions = job.on(exited(1, Exit::Signal(11), MpiStage::Initialized));
    assert!(printed(&actions).contains("rank 1") && printed(&actions).contains("SIGSEGV"));
    assert_eq!(signals(&actions), [15]);
    assert!(actions.contains(&Action::Grace(FAILURE_GRACE)));
    assert_eq!(job.on(exited(0, Exit::Signal(15), MpiStage::Initialized)), []);
    assert_eq!(job.on(JobEvent::GraceOver), [kill(&[2])]);
    assert_eq!(job.on(exited(2, Exit::Signal(9), MpiStage::Initialized)), [Action::Finish(139)]);
}

#[test]
fn rule_1_a_code_and_a_missing_finalize_fail_the_job() {
    for (exit, code, text) in
        [(Exit::Code(7), 7, "code 7"), (Exit::Code(0), 1, "without calling MPI_Finalize")]
    {
        let mut job = Jobs::new(2, "h");
        let actions = job.on(exited(0, exit, MpiStage::Initialized));
        assert!(printed(&actions).contains(text), "{actions:?}");
        assert_eq!(signals(&actions), [15]);
        assert_eq!(
            job.on(exited(1, Exit::Signal(15), MpiStage::Initialized)),
            [Action::Finish(code)]
        );
    }
}

#[test]
fn rule_2_a_rank_without_init_fails_the_job_once_another_has_it() {
    let mut job = Jobs::new(2, "h");
    assert_eq!(job.on(exited(0, Exit::Code(0), MpiStage::Untouched)), []);
    assert!(job.watches());
    assert_eq!(job.on(check(&[MpiStage::Untouched, MpiStage::Untouched])), []);
    let actions = job.on(check(&[MpiStage::Untouched, MpiStage::Initialized]));
    assert!(
        printed(&actions).contains("rank 0")
            && printed(&actions).contains("without ever calling MPI_Init")
    );
    assert_eq!(signals(&actions), [15]);
    assert_eq!(job.on(exited(1, Exit::Signal(15), MpiStage::Initialized)), [Action::Finish(1)]);
}

#[test]
fn rule_2_the_report_knows_that_an_earlier_program_has_called_init() {
    let mut job = Jobs::new(2, "h");
    job.renew(0);
    assert_eq!(job.on(exited(1, Exit::Code(0), MpiStage::Untouched)), []);
    let text = printed(&job.on(check(&[MpiStage::Initialized, MpiStage::Untouched])));
    assert!(
        text.contains("exited without calling MPI_Init again") && !text.contains("without ever"),
        "{text}"
    );
}

#[test]
fn rule_3_a_code_after_finalize_lets_the_others_finish() {
    let mut job = Jobs::new(3, "h");
    let actions = job.on(exited(0, Exit::Code(4), MpiStage::Finalized));
    assert!(printed(&actions).contains("code 4"));
    assert!(signals(&actions).is_empty());
    assert_eq!(job.on(exited(1, Exit::Code(5), MpiStage::Finalized)), []);
    assert_eq!(job.on(exited(2, Exit::Code(0), MpiStage::Finalized)), [Action::Finish(4)]);
}

#[test]
fn rule_3_a_code_after_finalize_ends_ranks_that_stay_before_it() {
    for (fails, survives) in [(true, false), (false, false), (true, true)] {
        let mut job = Jobs::new(3, "h").failing_by_codes(fails).surviving(survives);
        let actions = job.on(exited(0, Exit::Code(4), MpiStage::Finalized));
        assert!(printed(&actions).contains("code 4") && signals(&actions).is_empty());
        assert_eq!(actions.contains(&Action::Announce(0)), survives);
        assert_eq!(job.watches(), fails && !survives);
        let mut checks = |stages: [MpiStage; 2], number| {
            let check = check(&[MpiStage::Finalized, stages[0], stages[1]]);
            (0..number).flat_map(|_| job.on(check.clone())).collect::<Vec<_>>()
        };
        // A rank that is late is not ended.
        assert_eq!(checks([MpiStage::Untouched, MpiStage::Initialized], CHECKS - 1), []);
        assert_eq!(checks([MpiStage::Finalized, MpiStage::Finalized], 20), []);
        let actions = checks([MpiStage::Finalized, MpiStage::Initialized], 20);
        if fails && !survives {
            assert!(
                printed(&actions)
                    .contains("rank 0 exited with code 4 after it had finalized MPI (by MPI_Finalize, or that of its last session), which rank 2 has not begun to")
            );
            assert_eq!((signals(&actions), struck(&actions)), (vec![15], vec![1, 2]));
        } else {
            assert_eq!(actions, []);
        }
        assert_eq!(job.on(exited(1, Exit::Code(0), MpiStage::Finalized)), []);
        assert_eq!(job.on(exited(2, Exit::Code(0), MpiStage::Finalized)), [Action::Finish(4)]);
    }
}

#[test]
fn rule_3_a_rank_in_finalize_is_not_ended() {
    let mut job = Jobs::new(2, "h");
    job.on(exited(0, Exit::Code(4), MpiStage::Finalized));
    // Callbacks that MPI_Finalize runs may call MPI.
    let inside =
        Glimpse { pid: 77, stage: MpiStage::Finalizing, last_call: Some("MPI_File_close") };
    for _ in 0..20 {
        assert_eq!(job.on(JobEvent::Seen { all: vec![(1, inside.clone())], is_new: true }), []);
    }
    assert_eq!(job.on(exited(1, Exit::Code(0), MpiStage::Finalized)), [Action::Finish(4)]);
}

#[test]
fn rule_3_checks_without_an_answer_of_each_host_do_not_count() {
    let mut job = Jobs::new(2, "h");
    job.on(exited(0, Exit::Code(4), MpiStage::Finalized));
    let stages = [MpiStage::Finalized, MpiStage::Initialized];
    let (new, old) = (check(&stages), JobEvent::Seen { all: all_seen(&stages), is_new: false });
    for _ in 1..CHECKS {
        assert_eq!(job.on(new.clone()), []);
        (0..20).for_each(|_| assert_eq!(job.on(old.clone()), []));
    }
    assert!(job.watches());
    assert_eq!(struck(&job.on(new)), [1]);
    // The checks, of which the first comes at once, last a second.
    assert_eq!(WATCH_INTERVAL * (CHECKS - 1), Duration::from_secs(1));
}

#[test]
fn rule_3_a_rank_that_waits_for_a_job_that_is_over_is_ended_after_a_code_other_than_0() {
    let stages = [MpiStage::Initialized, MpiStage::Finalized, MpiStage::Finalized];
    let start = || {
        let mut job = Jobs::new(2, "h");
        job.on(JobEvent::Spawned { ranks: 1, parents: vec![0], bond: 9 });
        let actions = job.on(exited(2, Exit::Code(3), MpiStage::Finalized));
        assert!(printed(&actions).contains("rank 0 of spawned job 1"), "{actions:?}");
        assert_eq!(actions.last(), Some(&Action::Over(2..3)));
        assert!(job.watches());
        (1..CHECKS).for_each(|_| assert_eq!(job.on(check(&stages)), []));
        job
    };
    let mut job = start();
    let actions = job.on(check(&stages));
    assert!(
        printed(&actions).contains("rank 0 of spawned job 1 exited with code 3 after"),
        "{actions:?}"
    );
    assert_eq!(struck(&actions), [0, 1]);

    let mut job = start();
    assert_eq!(job.on(JobEvent::Released { rank: 0, bond: 9 }), [Action::Forget(2..3)]);
    assert!(!job.watches());
    assert_eq!(job.on(check(&stages)), []);
}

#[test]
fn rules_1_and_2_hold_for_a_rank_in_finalize() {
    for (exit, code) in [(Exit::Code(0), 1), (Exit::Code(5), 5), (Exit::Signal(11), 139)] {
        let mut job = Jobs::new(2, "h");
        assert_eq!(signals(&job.on(exited(0, exit, MpiStage::Finalizing))), [15]);
        assert_eq!(job.code, Some(code));
    }
    let mut job = Jobs::new(2, "h");
    job.on(exited(0, Exit::Code(0), MpiStage::Untouched));
    assert_eq!(signals(&job.on(check(&[MpiStage::Untouched, MpiStage::Finalizing]))), [15]);
}

#[test]
fn rule_3_codes_of_programs_without_mpi_may_be_only_noted() {
    let mut job = Jobs::new(3, "h").failing_by_codes(false);
    let actions = job.on(exited(0, Exit::Code(4), MpiStage::Untouched));
    assert!(printed(&actions).contains("code 4") && signals(&actions).is_empty());
    assert_eq!(job.on(exited(1, Exit::Code(5), MpiStage::Untouched)), []);
    // But a rank that uses MPI misses it.
    let actions = job.on(check(&[MpiStage::Untouched, MpiStage::Untouched, MpiStage::Initialized]));
    assert_eq!(signals(&actions), [15]);
    assert_eq!(job.on(exited(2, Exit::Signal(15), MpiStage::Initialized)), [Action::Finish(4)]);
}

#[test]
fn rule_4_an_abort_ends_the_job_with_its_code() {
    for (wanted, code) in [(9, 9), (0, 1), (256, 1), (-1, 255)] {
        let mut job = Jobs::new(2, "h");
        let abort = |rank, text: &str| JobEvent::Abort {
            rank,
            code: wanted,
            text: text.into(),
            seen: Glimpse::default(),
        };
        let actions = job.on(abort(1, "first"));
        assert!(printed(&actions).contains("first"));
        assert_eq!(signals(&actions), [15]);
        assert_eq!(job.on(abort(0, "second")), []);
        assert_eq!(job.on(exited(0, Exit::Code(3), MpiStage::Initialized)), []);
        assert_eq!(job.on(exited(1, Exit::Code(9), MpiStage::Initialized)), [Action::Finish(code)]);
    }
}

#[test]
fn rule_14_output_that_nobody_reads_ends_the_job_without_a_word() {
    let mut job = Jobs::new(2, "h");
    let all = job.on(JobEvent::Unread);
    assert!(!all.iter().any(|action| matches!(action, Action::Print(_))), "{all:?}");
    assert_eq!(signals(&all), [15]);
    assert_eq!(job.on(JobEvent::Unread), []);
    assert_eq!(job.on(exited(0, Exit::Signal(13), MpiStage::Untouched)), []);
    assert_eq!(job.on(exited(1, Exit::Signal(15), MpiStage::Initialized)), [Action::Finish(141)]);
}

#[test]
fn rule_5_a_second_interrupt_kills_at_once() {
    let mut job = Jobs::new(2, "h");
    assert_eq!(signals(&job.on(JobEvent::Signal(2))), [2]);
    assert_eq!(job.on(JobEvent::Signal(2)), [kill(&[0, 1])]);
    assert_eq!(job.on(JobEvent::Signal(2)), []);
    assert_eq!(job.on(JobEvent::GraceOver), []);
    assert_eq!(job.on(exited(0, Exit::Code(0), MpiStage::Finalized)), []);
    assert_eq!(job.on(exited(1, Exit::Signal(9), MpiStage::Initialized)), [Action::Finish(130)]);
}

#[test]
fn rule_6_a_timeout_names_the_running_ranks() {
    let mut job = Jobs::new(2, "h");
    job.on(exited(0, Exit::Code(0), MpiStage::Finalized));
    let all = all_seen(&[MpiStage::Finalized, MpiStage::Initialized]);
    let actions = job.on(JobEvent::TimedOut {
        time: Duration::from_secs(5),
        seen: all,
        waits: String::new(),
    });
    assert!(printed(&actions).contains("rank 1: pid 77") && !printed(&actions).contains("rank 0"));
    assert_eq!(job.on(exited(1, Exit::Signal(15), MpiStage::Initialized)), [Action::Finish(124)]);
}

/// Two ranks; rank 0 alone has spawned the processes 2 and 3, with communicator 9.
fn spawning() -> Jobs {
    let mut job = Jobs::new(2, "h");
    assert_eq!(job.on(JobEvent::Spawned { ranks: 2, parents: vec![0], bond: 9 }), []);
    job
}

#[test]
fn rule_1_a_crash_ends_all_that_are_connected() {
    let mut job = spawning();
    let actions = job.on(exited(3, Exit::Signal(11), MpiStage::Initialized));
    assert!(printed(&actions).contains("rank 1 of spawned job 1"), "{actions:?}");
    assert_eq!(struck(&actions), [0, 1, 2]);
    for rank in [0, 1] {
        assert_eq!(job.on(exited(rank, Exit::Signal(15), MpiStage::Initialized)), []);
    }
    let last = job.on(exited(2, Exit::Signal(15), MpiStage::Initialized));
    assert_eq!(last, [Action::Over(2..4), Action::Forget(2..4), Action::Finish(139)]);
}

#[test]
fn rule_1_a_crash_after_a_disconnect_leaves_the_others_alone() {
    let mut job = spawning();
    for rank in [3, 0] {
        job.on(JobEvent::Released { rank, bond: 9 });
    }
    assert_eq!(job.connected(0), [0, 2], "process 2 has not disconnected");
    job.on(JobEvent::Released { rank: 2, bond: 9 });
    let actions = job.on(exited(3, Exit::Signal(11), MpiStage::Initialized));
    assert_eq!(struck(&actions), [2]);
    let over = [Action::Over(2..4), Action::Forget(2..4)];
    assert_eq!(job.on(exited(2, Exit::Signal(15), MpiStage::Initialized)), over);
    assert_eq!(job.on(exited(0, Exit::Code(0), MpiStage::Finalized)), []);
    assert_eq!(job.on(exited(1, Exit::Code(0), MpiStage::Finalized)), [Action::Finish(139)]);
}

#[test]
fn a_job_that_is_over_is_kept_while_ranks_are_bound_to_it_and_connects_nobody() {
    let mut job = spawning();
    job.on(JobEvent::Bound { rank: 1, bond: 14, members: vec![1, 2] });
    assert_eq!(job.on(exited(2, Exit::Code(0), MpiStage::Finalized)), []);
    assert_eq!(job.on(exited(3, Exit::Code(0), MpiStage::Finalized)), [Action::Over(2..4)]);
    assert_eq!(job.connected(0), [0]);
    assert_eq!(job.on(JobEvent::Released { rank: 0, bond: 9 }), []);
    assert_eq!(job.on(JobEvent::Released { rank: 1, bond: 14 }), [Action::Forget(2..4)]);
    assert_eq!(job.on(JobEvent::Released { rank: 1, bond: 14 }), []);
}

#[test]
fn rule_4_an_abort_goes_over_bridges() {
    let mut job = spawning();
    job.on(JobEvent::Spawned { ranks: 1, parents: vec![3], bond: 11 });
    job.on(JobEvent::Spawned { ranks: 1, parents: vec![1], bond: 12 });
    for rank in [1, 5] {
        job.on(JobEvent::Released { rank, bond: 12 });
    }
    let abort =
        |rank| JobEvent::Abort { rank, code: 3, text: String::new(), seen: Glimpse::default() };
    assert_eq!(struck(&job.on(abort(4))), [0, 1, 2, 3, 4]);
    assert_eq!(struck(&job.on(abort(5))), [5], "it is on its own");
    job.on(JobEvent::Bound { rank: 5, bond: 13, members: vec![5, 77] });
}

#[test]
fn rule_2_a_spawned_process_without_init_fails_the_ranks_that_wait_for_it() {
    let mut job = spawning();
    job.on(exited(2, Exit::Code(0), MpiStage::Untouched));
    assert_eq!(job.on(exited(3, Exit::Code(0), MpiStage::Untouched)), [Action::Over(2..4)]);
    assert!(job.watches());
    let actions = job.on(check(&[MpiStage::Initialized; 4]));
    assert!(printed(&actions).contains("rank 0 of spawned job 1"), "{actions:?}");
    assert_eq!(struck(&actions), [0, 1]);
}

#[test]
fn rule_7_when_a_singleton_is_gone_everything_ends() {
    for (stage, ended) in [(MpiStage::Initialized, vec![1]), (MpiStage::Finalized, vec![])] {
        let mut job = Jobs::new(1, "h");
        job.on(JobEvent::Spawned { ranks: 1, parents: vec![0], bond: 2 });
        for rank in [0, 1] {
            job.on(JobEvent::Released { rank, bond: 2 });
        }
        assert_eq!(struck(&job.on(exited(0, Exit::Unknown, stage))), ended);
    }
}

#[test]
fn rule_15_another_launcher_ends_its_processes_before_this_one_does() {
    let unseen = |rank, stage| exited(rank, Exit::Unseen, stage);
    let mut job = Jobs::new(3, "h").below_other(true);
    let actions = job.on(unseen(1, MpiStage::Initialized));
    assert!(printed(&actions).contains("rank 1") && printed(&actions).contains("MPI_Finalize"));
    assert_eq!((signals(&actions), actions.last()), (vec![], Some(&Action::Grace(YIELD_GRACE))));
    // The other launcher has ended rank 0, and not rank 2.
    assert_eq!(job.on(unseen(0, MpiStage::Initialized)), []);
    let actions = job.on(JobEvent::GraceOver);
    assert_eq!((signals(&actions), struck(&actions)), (vec![15], vec![2]));
    assert_eq!(job.on(JobEvent::GraceOver), [kill(&[2])]);
    assert_eq!(job.on(unseen(2, MpiStage::Initialized)), [Action::Finish(1)]);

    let mut job = Jobs::new(2, "h").below_other(true);
    assert_eq!(job.on(unseen(0, MpiStage::Finalized)), []);
    assert_eq!(job.on(unseen(1, MpiStage::Finalized)), [Action::Finish(0)]);
    let mut job = Jobs::new(2, "h").below_other(true).surviving(true);
    let actions = job.on(unseen(0, MpiStage::Initialized));
    assert!(actions.contains(&Action::Announce(0)) && signals(&actions).is_empty());
    // The user's signal is passed on at once.
    let mut job = Jobs::new(1, "h").below_other(true);
    assert_eq!(signals(&job.on(JobEvent::Signal(2))), [2]);
}

#[test]
fn rule_11_the_end_of_a_daemon_ends_all_jobs_with_one_report() {
    for survives in [false, true] {
        for (exit, why, words, code) in [
            (
                Exit::Signal(9),
                None,
                "the daemon of node 1 (pid 55, host h) was killed by SIGKILL (kill)",
                137,
            ),
            (
                Exit::Code(1),
                Some("no way"),
                "the daemon of node 1 (pid 55, host h) cannot go on: no way",
                1,
            ),
            (Exit::Code(0), None, "exited with code 0", 1),
        ] {
            let mut job = Jobs::new(2, "h").surviving(survives);
            job.on(JobEvent::Spawned { ranks: 1, parents: vec![0], bond: 5 });
            let ended = JobEvent::DaemonEnded {
                node: 1,
                pid: 55,
                host: None,
                exit,
                why: why.map(String::from),
            };
            let actions = job.on(ended.clone());
            assert!(printed(&actions).contains(words), "{}", printed(&actions));
            assert_eq!((signals(&actions), struck(&actions)), (vec![15], vec![0, 1, 2]));
            assert_eq!(job.on(ended), [], "one report");
            job.on(exited(0, Exit::Signal(15), MpiStage::Initialized));
            job.on(exited(1, Exit::Signal(15), MpiStage::Initialized));
            let last = job.on(exited(2, Exit::Signal(15), MpiStage::Initialized));
            assert!(last.contains(&Action::Finish(code)), "{last:?}");
        }
    }
}

#[test]
fn rule_8_a_job_that_survives_failures_gets_notices_of_them() {
    let cases = [
        (Exit::Signal(9), MpiStage::Initialized, "was killed by SIGKILL"),
        (Exit::Code(7), MpiStage::Initialized, "exited with code 7"),
        (Exit::Code(0), MpiStage::Initialized, "without calling MPI_Finalize"),
    ];
    for (exit, stage, text) in cases {
        let mut job = Jobs::new(3, "h").surviving(true);
        let actions = job.on(exited(1, exit, stage));
        assert!(
            printed(&actions).contains(text) && printed(&actions).contains("2 ranks run"),
            "{actions:?}"
        );
        assert_eq!(actions[1..], [Action::Announce(1)]);
        assert_eq!(job.on(exited(0, Exit::Code(0), MpiStage::Finalized)), []);
        assert_eq!(job.on(exited(2, Exit::Code(0), MpiStage::Finalized)), [Action::Finish(0)]);
    }
}

#[test]
fn rule_8_all_ranks_get_notices_and_not_only_the_connected() {
    let mut job = Jobs::new(1, "h").surviving(true);
    job.on(JobEvent::Spawned { ranks: 2, parents: vec![0], bond: 9 });
    for rank in 0..3 {
        job.on(JobEvent::Released { rank, bond: 9 });
    }
    let actions = job.on(exited(1, Exit::Signal(9), MpiStage::Initialized));
    assert!(printed(&actions).contains("1 rank runs"), "{actions:?}");
    assert_eq!(actions[1..], [Action::Announce(1)]);
}

#[test]
fn rule_8_the_code_is_that_of_the_first_death_if_nobody_finishes() {
    let mut job = Jobs::new(2, "h").surviving(true);
    job.on(exited(0, Exit::Code(5), MpiStage::Initialized));
    let actions = job.on(exited(1, Exit::Signal(9), MpiStage::Initialized));
    assert!(printed(&actions).contains("none of the others"), "{actions:?}");
    assert_eq!(actions.last(), Some(&Action::Finish(5)));
}

#[test]
fn rule_8_a_failure_after_finalize_counts() {
    for (exit, code) in [(Exit::Code(4), 4), (Exit::Signal(11), 139)] {
        let mut job = Jobs::new(3, "h").surviving(true);
        job.on(exited(0, Exit::Signal(9), MpiStage::Initialized));
        assert!(signals(&job.on(exited(1, exit, MpiStage::Finalized))).is_empty());
        assert_eq!(job.on(exited(2, Exit::Code(0), MpiStage::Finalized)), [Action::Finish(code)]);
    }
}

#[test]
fn rule_8_an_abort_and_a_death_before_init_end_the_job_all_the_same() {
    let mut job = Jobs::new(2, "h").surviving(true);
    let actions = job.on(exited(0, Exit::Signal(9), MpiStage::Untouched));
    assert_eq!(signals(&actions), [15]);
    let mut job = Jobs::new(2, "h").surviving(true);
    let abort = JobEvent::Abort { rank: 0, code: 3, text: String::new(), seen: Glimpse::default() };
    assert_eq!(signals(&job.on(abort)), [15]);
}

#[test]
fn a_warning_is_printed_once_and_not_without_limit() {
    let mut job = Jobs::new(2, "h");
    assert_eq!(
        job.on(JobEvent::Say { text: "slow".into() }),
        [Action::Print("mpirun: slow\n".into())]
    );
    assert_eq!(job.on(JobEvent::Say { text: "slow".into() }), []);
    let printed =
        (0..1000).filter(|i| !job.on(JobEvent::Say { text: i.to_string() }).is_empty()).count();
    assert_eq!(printed, MAX_SAID - 1);
}

/// Two ranks; rank 0 has communicator 9 with processes 2 and 3, which are another launcher's.
fn meeting() -> Jobs {
    let mut job = Jobs::new(2, "h");
    assert_eq!(job.on(JobEvent::Met { ranks: 2, name: "the job of mpirun 77".into() }), []);
    assert_eq!(job.on(JobEvent::Bound { rank: 0, bond: 9, members: vec![0, 2, 3] }), []);
    job
}

#[test]
fn rule_9_a_failure_elsewhere_ends_the_connected_ranks() {
    let failed =
        || JobEvent::OtherFailed { first: 2, code: 7, text: "mpirun 77: rank 1 was killed".into() };
    let mut job = meeting();
    let actions = job.on(failed());
    assert!(printed(&actions).contains("mpirun 77: rank 1 was killed"), "{actions:?}");
    assert_eq!(struck(&actions), [0, 1]);
    assert_eq!(job.on(JobEvent::OtherExited { rank: 3, is_well: false }), []);
    for rank in [0, 1] {
        job.on(exited(rank, Exit::Signal(15), MpiStage::Initialized));
    }
    assert_eq!(job.code, Some(7));

    let mut job = meeting();
    job.on(JobEvent::Released { rank: 0, bond: 9 });
    assert_eq!(job.on(failed()), [], "it is not connected any more");
}

#[test]
fn rule_9_a_failure_here_is_reported() {
    let mut job = meeting();
    let actions = job.on(exited(1, Exit::Signal(11), MpiStage::Initialized));
    let report = actions.iter().find_map(|action| match action {
        Action::ReportFailure { firsts, code, text } => Some((firsts.clone(), *code, text.clone())),
        _ => None,
    });
    let (firsts, code, text) = report.unwrap();
    assert_eq!((firsts, code), (vec![0], 139));
    assert!(text.starts_with("rank 1 ") && text.contains("SIGSEGV"), "{text}");
    assert_eq!(struck(&actions), [0], "others' processes are not ours to end");
    assert_eq!(job.name(3), "rank 1 of the job of mpirun 77");
}

#[test]
fn rule_9_a_launcher_that_is_gone_has_taken_its_processes_with_it() {
    let gone = || JobEvent::OtherGone { firsts: vec![2], text: "mpirun 77 has ended".into() };
    let mut job = meeting();
    job.on(JobEvent::OtherExited { rank: 2, is_well: true });
    let actions = job.on(gone());
    assert!(printed(&actions).contains("mpirun 77 has ended"), "{actions:?}");
    assert_eq!(struck(&actions), [0, 1]);

    let mut job = meeting();
    job.on(JobEvent::OtherExited { rank: 2, is_well: true });
    job.on(JobEvent::OtherExited { rank: 3, is_well: true });
    assert_eq!(job.on(gone()), [], "all had ended well before");

    let mut job = meeting().surviving(true);
    let actions = job.on(gone());
    assert!(actions.contains(&Action::Announce(2)) && actions.contains(&Action::Announce(3)));
    assert!(struck(&actions).is_empty());
}

#[test]
fn rule_9_others_get_a_survived_failure_after_finalize() {
    for survives in [false, true] {
        let job = meeting().surviving(survives);
        let well = |exit| job.ends_well(exit, MpiStage::Finalized);
        assert!(well(Exit::Code(0)) && well(Exit::Unknown));
        assert_eq!([well(Exit::Code(3)), well(Exit::Signal(11))], [!survives; 2]);
        assert!(job.ends_well(Exit::Code(0), MpiStage::Untouched));
        for stage in [MpiStage::Initialized, MpiStage::Finalizing] {
            assert!(!job.ends_well(Exit::Code(0), stage));
        }
    }
}

#[test]
fn rule_9_a_death_elsewhere_that_is_survived_there_is_a_failure_here() {
    let actions = meeting().on(JobEvent::OtherExited { rank: 3, is_well: false });
    assert!(printed(&actions).contains("rank 1 of the job of mpirun 77"), "{actions:?}");
    assert_eq!(struck(&actions), [0, 1]);
    let actions = meeting().surviving(true).on(JobEvent::OtherExited { rank: 3, is_well: false });
    assert!(actions.contains(&Action::Announce(3)) && struck(&actions).is_empty());
}

#[test]
fn rule_10_nothing_is_kept_of_jobs_that_are_over() {
    let mut job = Jobs::new(1, "h");
    for turn in 0..100 {
        let (first, bond) = (job.next(), turn);
        if turn % 2 == 0 {
            job.on(JobEvent::Spawned { ranks: 1, parents: vec![0], bond });
            job.on(JobEvent::Released { rank: 0, bond });
            let actions = job.on(exited(first, Exit::Code(0), MpiStage::Finalized));
            assert_eq!(actions, [Action::Over(first..first + 1), Action::Forget(first..first + 1)]);
        } else {
            job.on(JobEvent::Met { ranks: 2, name: "x".into() });
            job.on(JobEvent::Bound { rank: 0, bond, members: vec![0, first, first + 1] });
            job.on(JobEvent::OtherExited { rank: first, is_well: true });
            assert_eq!(job.on(JobEvent::OtherExited { rank: first + 1, is_well: true }), []);
            assert_eq!(
                job.on(JobEvent::Released { rank: 0, bond }),
                [Action::Forget(first..first + 2)]
            );
        }
        assert_eq!(job.worlds.len(), 1);
    }
    assert_eq!((job.next(), job.jobs(), job.runs(0), job.runs(1)), (151, 51, true, false));
}

fn events(ranks: u32) -> impl Strategy<Value = JobEvent> {
    let exit = prop_oneof![(0..3).prop_map(Exit::Code), (1..20).prop_map(Exit::Signal)];
    let stage = prop_oneof![
        Just(MpiStage::Untouched),
        Just(MpiStage::Initialized),
        Just(MpiStage::Finalized)
    ];
    prop_oneof![
        4 => (0..ranks, exit, stage.clone()).prop_map(|(rank, exit, stage)| exited(rank, exit, stage)),
        1 => (0..ranks, -2..300).prop_map(|(rank, code)| JobEvent::Abort { rank, code, text: String::new(), seen: Glimpse::default() }),
        1 => proptest::collection::vec(stage, ranks as usize).prop_map(|all| check(&all)),
        1 => Just(JobEvent::GraceOver),
        1 => Just(JobEvent::Signal(15)),
    ]
}

proptest! {
    /// For any order of events: one report at most, one Finish exactly when the last rank has
    /// ended, no signal afterwards, and an end that was begun leads to a kill if the ranks do not
    /// end.
    #[test]
    fn every_history_ends_once(survives: bool, history in proptest::collection::vec(events(3), 0..40)) {
        let mut job = Jobs::new(3, "h").surviving(survives);
        let mut gone = HashSet::new();
        let (mut reports, mut finished, mut grace, mut killed) = (0, 0, false, false);
        let ends = (0..3).map(|rank| exited(rank, Exit::Code(0), MpiStage::Finalized));
        for event in history.into_iter().chain(ends) {
            let was_over = gone.len() == 3;
            if let JobEvent::Exited { rank, .. } = event {
                gone.insert(rank);
            }
            for action in job.on(event) {
                match action {
                    Action::Print(text) => reports += usize::from(text.contains("exit code")),
                    Action::Signal { number: 9, .. } => { killed = true; prop_assert!(!was_over); }
                    Action::Signal { .. } => prop_assert!(!was_over && !killed),
                    Action::Grace(_) => grace = true,
                    Action::Announce(_) => prop_assert!(survives),
                    Action::Over(_) | Action::Forget(_) | Action::ReportFailure { .. } => {
                        prop_assert!(false, "nothing was spawned or met");
                    }
                    Action::Finish(code) => {
                        finished += 1;
                        prop_assert_eq!(gone.len(), 3);
                        prop_assert!(reports == 0 || code != 0);
                    }
                }
            }
            if grace && !killed && gone.len() < 3 {
                prop_assert_eq!(job.worlds[&0].phase, EndPhase::Ending);
            }
        }
        prop_assert!(reports <= 2); // a code after MPI_Finalize (rule 3), then a failure
        prop_assert_eq!(finished, 1);
    }
}
