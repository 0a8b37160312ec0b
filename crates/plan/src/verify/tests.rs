//! Tests of the verifier with plans that are broken on purpose.

use super::{Check, Violation, verify};
use crate::call::{Call, TeamMember};
use crate::ir::{Action, After, Generator, PlanBuffer, PlanStep, PlanUnit, Span};
use crate::knowledge::Shared;
use crate::table::{Parameters, algorithms, by_name, make};
use crate::{AnyPlan, Collective};

struct Script {
    steps: std::vec::IntoIter<PlanStep>,
    temporaries: Vec<usize>,
    window: usize,
}

impl Script {
    fn new(steps: Vec<PlanStep>) -> Self {
        Self { steps: steps.into_iter(), temporaries: vec![1], window: 8 }
    }
}

impl Generator for Script {
    fn next(&mut self) -> Option<PlanStep> {
        self.steps.next()
    }

    fn unit(&self) -> PlanUnit {
        PlanUnit::Elements
    }

    fn temporaries(&self) -> &[usize] {
        &self.temporaries
    }

    fn window(&self) -> usize {
        self.window
    }
}

const INPUT: Span = Span { place: PlanBuffer::Input, start: 0, len: 1 };
const OUTPUT: Span = Span { place: PlanBuffer::Output, start: 0, len: 1 };
const SPARE: Span = Span { place: PlanBuffer::Temporary(0), start: 0, len: 1 };

fn step(after: After, action: Action) -> PlanStep {
    PlanStep { after, action }
}

fn send(after: After, to: u32, what: Span) -> PlanStep {
    step(after, Action::Send { to, what })
}

fn receive(after: After, from: u32, into: Span) -> PlanStep {
    step(after, Action::Receive { from, into })
}

fn copy(after: After, from: Span, into: Span) -> PlanStep {
    step(after, Action::Copy { from, into })
}

fn reduce(after: After, left: Span, right: Span) -> PlanStep {
    step(after, Action::Reduce { left, right })
}

fn reduction(size: u32, commutative: bool) -> Check {
    let call = Call::Reduce { root: 0, count: Shared(1), commutative, in_place: false };
    Check::new(size, &call, 3)
}

fn broadcast(size: u32) -> Check {
    Check::new(size, &Call::Bcast { root: 0, bytes: Shared(1) }, 3)
}

fn run(check: &Check, scripts: &[&[PlanStep]]) -> Result<super::Cost, Violation> {
    verify(check, |me| Script::new(scripts[me.rank as usize].to_vec()))
}

const REDUCE_ROOT: [PlanStep; 2] = [
    PlanStep { after: After::None, action: Action::Receive { from: 1, into: OUTPUT } },
    PlanStep { after: After::One(1), action: Action::Reduce { left: INPUT, right: OUTPUT } },
];
const REDUCE_LEAF: [PlanStep; 1] =
    [PlanStep { after: After::None, action: Action::Send { to: 0, what: INPUT } }];

#[test]
fn accepts_a_correct_plan_and_counts_its_cost() {
    let cost = run(&reduction(2, false), &[&REDUCE_ROOT, &REDUCE_LEAF]).unwrap();
    assert_eq!((cost.steps, cost.messages, cost.units, cost.outstanding), (3, 1, 1, 1));
}

#[test]
fn finds_operands_in_the_wrong_order() {
    let root = [
        copy(After::None, INPUT, OUTPUT),
        receive(After::None, 1, SPARE),
        reduce(After::All, SPARE, OUTPUT),
    ];
    let found = run(&reduction(2, false), &[&root, &REDUCE_LEAF]);
    assert!(matches!(found, Err(Violation::Combination { rank: 0, .. })), "{found:?}");
    assert!(run(&reduction(2, true), &[&root, &REDUCE_LEAF]).is_ok());
}

#[test]
fn finds_a_missing_contribution() {
    let found = run(&reduction(2, true), &[&[copy(After::None, INPUT, OUTPUT)], &[]]);
    assert!(matches!(found, Err(Violation::Result { rank: 0, unit: 0, .. })), "{found:?}");
}

#[test]
fn finds_a_contribution_that_counts_twice() {
    let root = [
        receive(After::None, 1, OUTPUT),
        reduce(After::One(1), INPUT, OUTPUT),
        reduce(After::One(1), INPUT, OUTPUT),
    ];
    let found = run(&reduction(2, true), &[&root, &REDUCE_LEAF]);
    assert!(matches!(found, Err(Violation::Result { rank: 0, .. })), "{found:?}");
}

#[test]
fn finds_a_missing_step() {
    let found = run(&reduction(2, false), &[&REDUCE_ROOT, &[]]);
    let root_waits = vec![(0, Some(REDUCE_ROOT[0].action))];
    assert_eq!(found, Err(Violation::Deadlock { waiting: root_waits }));
    let found = run(&reduction(2, false), &[&[], &REDUCE_LEAF]);
    assert!(matches!(found, Err(Violation::Deadlock { .. })), "{found:?}");
}

#[test]
fn finds_a_deadlock_of_synchronous_sends() {
    // Each rank posts its receive only after its send is complete, which relies on buffering.
    let head_on =
        |peer| [send(After::None, peer, Span::NOTHING), receive(After::All, peer, Span::NOTHING)];
    let check = Check::new(2, &Call::Barrier, 3);
    let found = run(&check, &[&head_on(1), &head_on(0)]);
    assert!(
        matches!(&found, Err(Violation::Deadlock { waiting }) if waiting.len() == 2),
        "{found:?}"
    );

    let together =
        |peer| [send(After::None, peer, Span::NOTHING), receive(After::None, peer, Span::NOTHING)];
    assert!(run(&check, &[&together(1), &together(0)]).is_ok());
    let narrow =
        verify(&check, |me| Script { window: 1, ..Script::new(together(1 - me.rank).to_vec()) });
    assert!(matches!(narrow, Err(Violation::Deadlock { .. })), "{narrow:?}");
}

#[test]
fn finds_a_step_without_dependency_on_its_data() {
    let root = [REDUCE_ROOT[0], reduce(After::None, INPUT, OUTPUT)];
    let found = run(&reduction(2, false), &[&root, &REDUCE_LEAF]);
    assert!(
        matches!(found, Err(Violation::Hazard { rank: 0, step: 1, earlier_step: 0, .. })),
        "{found:?}"
    );
}

#[test]
fn finds_a_buffer_that_is_overwritten_while_it_is_sent() {
    // Rank 1 answers after the message has arrived, so the send is complete in any run, but no step
    // depends on the send.
    let root = [
        copy(After::None, INPUT, SPARE),
        send(After::One(1), 1, SPARE),
        receive(After::None, 1, OUTPUT),
        copy(After::One(1), OUTPUT, SPARE),
    ];
    let other = [receive(After::None, 0, SPARE), send(After::One(1), 0, SPARE)];
    let found = run(&reduction(2, true), &[&root, &other]);
    assert!(
        matches!(found, Err(Violation::Hazard { rank: 0, step: 3, earlier_step: 1, .. })),
        "{found:?}"
    );
}

#[test]
fn a_dependency_settles_only_the_steps_that_it_names() {
    let root = [
        receive(After::None, 1, OUTPUT),
        copy(After::None, INPUT, SPARE),
        reduce(After::One(1), SPARE, OUTPUT),
    ];
    let found = run(&reduction(2, false), &[&root, &REDUCE_LEAF]);
    assert!(matches!(found, Err(Violation::Hazard { step: 2, earlier_step: 0, .. })), "{found:?}");
    let root = [root[0], root[1], reduce(After::Two(1, 2), SPARE, OUTPUT)];
    assert!(run(&reduction(2, false), &[&root, &REDUCE_LEAF]).is_ok());
}

#[test]
fn finds_different_lengths() {
    let found = run(
        &broadcast(2),
        &[&[send(After::None, 1, Span::NOTHING)], &[receive(After::None, 0, OUTPUT)]],
    );
    assert_eq!(found, Err(Violation::Length { from: 0, to: 1, sent: 0, received: 1 }));
}

#[test]
fn finds_undefined_memory() {
    let found =
        run(&broadcast(2), &[&[receive(After::None, 1, SPARE)], &[send(After::None, 0, OUTPUT)]]);
    assert!(matches!(found, Err(Violation::Undefined { rank: 1, unit: 0, .. })), "{found:?}");
}

#[test]
fn finds_buffers_that_a_step_may_not_use() {
    for action in [
        Action::Copy { from: INPUT, into: OUTPUT }, // not the root: no output
        Action::Copy { from: SPARE, into: INPUT },  // the input is only read
        Action::Copy { from: SPARE, into: PlanBuffer::Temporary(1).span(0, 1) }, // no such temporary
        Action::Copy { from: INPUT, into: PlanBuffer::Temporary(0).span(1, 1) }, // beyond its end
    ] {
        let found = run(&reduction(2, false), &[&[], &[step(After::None, action)]]);
        assert!(matches!(found, Err(Violation::Access { rank: 1, .. })), "{action:?}: {found:?}");
    }
    let exscan = Call::Exscan { count: Shared(1), commutative: false, in_place: false };
    let check = Check::new(1, &exscan, 0);
    let found = run(&check, &[&[copy(After::None, INPUT, OUTPUT)]]);
    assert!(matches!(found, Err(Violation::Access { rank: 0, .. })), "{found:?}");
}

#[test]
fn finds_malformed_steps() {
    for bad in [
        send(After::None, 1, INPUT),
        send(After::None, 2, INPUT),
        send(After::One(1), 0, INPUT),
        send(After::Two(0, 0), 0, INPUT),
        copy(After::None, INPUT, Span::NOTHING),
        copy(After::None, SPARE, SPARE),
    ] {
        let found = run(&reduction(2, false), &[&[], &[bad]]);
        assert!(matches!(found, Err(Violation::Malformed { rank: 1, .. })), "{bad:?}: {found:?}");
    }
}

#[test]
fn finds_results_that_depend_on_the_rank() {
    // Both ranks put the received operand on the left: both results are complete sums, but may
    // differ.
    let exchange = |peer| {
        [
            copy(After::None, INPUT, OUTPUT),
            send(After::None, peer, INPUT),
            receive(After::None, peer, SPARE),
            reduce(After::All, SPARE, OUTPUT),
        ]
    };
    let call = Call::Allreduce { count: Shared(1), commutative: true, in_place: false };
    let found = run(&Check::new(2, &call, 0), &[&exchange(1), &exchange(0)]);
    assert!(matches!(found, Err(Violation::Expression { rank: 1, unit: 0 })), "{found:?}");
}

#[test]
fn finds_a_bad_generator() {
    let check = Check::new(1, &Call::Barrier, 0);
    let windowless = verify(&check, |_| Script { window: 0, ..Script::new(Vec::new()) });
    assert!(matches!(windowless, Err(Violation::Generator { .. })), "{windowless:?}");
    let greedy = verify(&check, |_| Script { temporaries: vec![1; 5], ..Script::new(Vec::new()) });
    assert!(matches!(greedy, Err(Violation::Generator { .. })), "{greedy:?}");
}

struct Mutant {
    plan: AnyPlan,
    index: u32,
    mutate: Option<(u32, Mutation)>,
}

#[derive(Clone, Copy, Debug)]
enum Mutation {
    Drop,
    Eager,
    Swap,
}

impl Generator for Mutant {
    fn next(&mut self) -> Option<PlanStep> {
        let mut step = self.plan.next()?;
        self.index += 1;
        match self.mutate {
            Some((at, mutation)) if at + 1 == self.index => match (mutation, &mut step.action) {
                (Mutation::Drop, _) => return self.next(),
                (Mutation::Eager, _) => step.after = After::None,
                (Mutation::Swap, Action::Reduce { left, right }) => std::mem::swap(left, right),
                (Mutation::Swap, _) => {}
            },
            _ => {}
        }
        Some(step)
    }

    fn unit(&self) -> PlanUnit {
        self.plan.unit()
    }

    fn temporaries(&self) -> &[usize] {
        self.plan.temporaries()
    }

    fn window(&self) -> usize {
        self.plan.window()
    }
}

#[test]
fn finds_every_small_change_to_an_allreduce() {
    let call = Call::Allreduce { count: Shared(3), commutative: false, in_place: false };
    let check = Check::new(6, &call, 0);
    let algorithm = by_name(Collective::Allreduce, "recursive_doubling").unwrap();
    let plan = |me: TeamMember| make(algorithm, me, &call, &Parameters::default()).unwrap();
    for rank in 0..check.size() {
        let mut whole = plan(TeamMember { rank, size: 6 });
        let steps: Vec<PlanStep> = std::iter::from_fn(|| whole.next()).collect();
        for (at, step) in (0_u32..).zip(&steps) {
            let reduces = matches!(step.action, Action::Reduce { .. });
            let waits = step.after != After::None && reduces;
            let mutations = [
                Some(Mutation::Drop),
                waits.then_some(Mutation::Eager),
                reduces.then_some(Mutation::Swap),
            ];
            for mutation in mutations.into_iter().flatten() {
                let found = verify(&check, |me| Mutant {
                    plan: plan(me),
                    index: 0,
                    mutate: (me.rank == rank).then_some((at, mutation)),
                });
                assert!(
                    found.is_err(),
                    "rank {rank}, step {at} {step:?}: {mutation:?} goes unnoticed"
                );
            }
        }
    }
}

#[test]
fn finds_a_step_that_is_missing_from_any_algorithm() {
    let (count, commutative, in_place, root) = (Shared(3), true, false, 1);
    for call in [
        Call::Barrier,
        Call::Bcast { root, bytes: count },
        Call::Gather { root, block: count, in_place },
        Call::Scatter { root, block: count, in_place },
        Call::Allgather { block: count, in_place },
        Call::Alltoall { block: count, in_place },
        Call::Reduce { root, count, commutative, in_place },
        Call::Allreduce { count, commutative, in_place },
        Call::ReduceScatterBlock { block: count, commutative, in_place },
        Call::Scan { count, commutative, in_place },
        Call::Exscan { count, commutative, in_place },
    ] {
        let legal = |size: u32| {
            algorithms(call.collective())
                .filter(move |id| id.algorithm().refusal(size, true).is_none())
        };
        for (size, id) in
            [2, 6, 8].into_iter().flat_map(|size| legal(size).map(move |id| (size, id)))
        {
            let check = Check::new(size, &call, 0);
            let plan = |me| make(id, me, &call, &Parameters::default()).unwrap();
            for rank in 0..size {
                let mut whole = plan(TeamMember { rank, size });
                for at in 0..std::iter::from_fn(|| whole.next()).count() as u32 {
                    let found = verify(&check, |me| Mutant {
                        plan: plan(me),
                        index: 0,
                        mutate: (me.rank == rank).then_some((at, Mutation::Drop)),
                    });
                    assert!(found.is_err(), "{id} of {size}: rank {rank} does without step {at}");
                }
            }
        }
    }
}

#[test]
fn finds_a_barrier_that_does_not_synchronize() {
    let check = Check::new(3, &Call::Barrier, 0);
    // Each rank signals the next before it waits.
    let pass = |rank: u32| {
        [
            send(After::None, (rank + 1) % 3, Span::NOTHING),
            receive(After::None, (rank + 2) % 3, Span::NOTHING),
        ]
    };
    let found = run(&check, &[&pass(0), &pass(1), &pass(2)]);
    assert_eq!(found, Err(Violation::Early { rank: 0, missing: 1 }));
    assert_eq!(run(&check, &[&[], &[], &[]]), Err(Violation::Early { rank: 0, missing: 1 }));
    // Twice around, but the second signal may leave before the first one has arrived.
    let twice = |rank: u32| [pass(rank), pass(rank)].concat();
    let found = run(&check, &[&twice(0), &twice(1), &twice(2)]);
    assert!(matches!(found, Err(Violation::Early { .. })), "{found:?}");
}
