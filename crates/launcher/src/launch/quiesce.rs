//! Quiescing a job's messages and making its connections anew: for network maintenance, and for
//! tests of what a checkpoint needs. A tool requests it at the entrance ([`crate::inquiry`]), and
//! gets the answer at the end, on failure, or at its time limit.

use std::time::{Duration, Instant};

use oxmpi_shm::segment::RankState;
use tracing::debug;

use super::launcher::Launcher;
use super::members::JobMember;
use crate::job::MpiStage;
use crate::quiesce::{Next, Quiescence};
use oxmpi_rt_proto::agent::HostOrder;
use oxmpi_rt_proto::tool::ToolReply;

/// The interval of checks for missing processes: a process that has finalized takes no more steps.
const CHECK_INTERVAL: Duration = Duration::from_millis(50);
/// The time before missing processes are reported.
const PATIENCE: Duration = Duration::from_secs(5);
const RESTING: Duration = Duration::from_secs(60);
/// How long the progress of processes on other hosts is awaited.
const CHECK_GRACE: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(super) struct Standing {
    processes: Quiescence,
    times: Option<Times>,
    /// It begins when other hosts have reported their processes' progress, or at this time.
    awaited: Option<Instant>,
    asker: Option<Asker>,
    /// The step by which processes resume after imaging.
    after_images: Option<u32>,
}

#[derive(Debug)]
struct Asker {
    id: u32,
    /// The end and the length of its time limit.
    until: Instant,
    limit: Duration,
    /// It images the processes meanwhile.
    makes_images: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MpiPhase {
    BeforeInit,
    /// May send messages, now or later.
    Active,
    Done,
}

#[derive(Debug)]
struct Times {
    began: Instant,
    quiet: Option<Instant>,
    next_check: Instant,
    is_reported: bool,
}

impl Standing {
    /// When missing processes are checked, or a limit is over.
    pub(super) fn time(&self) -> Option<Instant> {
        let next_check = self.times.as_ref().map(|times| times.next_check);
        let until = self.asker.as_ref().map(|asker| asker.until);
        next_check.into_iter().chain(self.awaited).chain(until).min()
    }

    /// For restored processes, whose last step this was.
    pub(super) fn restored(step: u32) -> Standing {
        Standing { processes: Quiescence::restored(step), ..Standing::default() }
    }

    /// Whether a quiescence is in progress or about to begin.
    pub(super) fn is_on(&self) -> bool {
        self.awaited.is_some() || self.processes.is_on()
    }

    pub(super) fn step(&self) -> u32 {
        self.processes.step()
    }
}

impl Launcher<'_> {
    pub(super) fn quiesce(&mut self, id: u32, limit_ms: u32) {
        if !self.launch.transport.can_rest(&self.launch.params) {
            let name = self.launch.transport.name;
            let can = self.launch.transport.advice_to_rest();
            let reason =
                format!("messages over '{name}' cannot be quiesced: start the job with {can}");
            return self.entrance.refuse(id, reason);
        }
        if self.holding.is_on() || self.rests_for_images() {
            let reason = "images of the job are being made: try again when that is done".into();
            return self.entrance.refuse(id, reason);
        }
        if self.standing.asker.is_some() || self.standing.processes.is_on() {
            let reason = "messages are being quiesced already: try again when that is done".into();
            return self.entrance.refuse(id, reason);
        }
        self.await_rest(id, Duration::from_millis(limit_ms.into()), false);
    }

    /// Quiesces the messages for a tool that then images the processes.
    pub(super) fn rest_for_images(&mut self, id: u32) {
        self.await_rest(id, RESTING, true);
    }

    pub(super) fn rests_for_images(&self) -> bool {
        self.standing.after_images.is_some()
    }

    pub(super) fn end_rest(&mut self) {
        if let Some(step) = self.standing.after_images.take() {
            self.request_step(step, false);
        }
    }

    fn await_rest(&mut self, id: u32, limit: Duration, makes_images: bool) {
        let now = Instant::now();
        self.standing.asker = Some(Asker { id, until: now + limit, limit, makes_images });
        self.branches.query();
        self.standing.awaited = Some(now + CHECK_GRACE);
        self.begin_quiescing(now, self.branches.are_queries_answered());
    }

    fn answer_asker(&mut self, reply: &ToolReply) {
        if let Some(asker) = self.standing.asker.take() {
            self.entrance.end(asker.id, reply);
        }
    }

    pub(super) fn refuse_asker(&mut self, reason: String) {
        self.answer_asker(&ToolReply::Refused { reason });
    }

    /// Begins, if requested, when the progress of all processes is known or the wait for it is
    /// over.
    pub(super) fn begin_quiescing(&mut self, now: Instant, is_known: bool) {
        if !self.standing.awaited.is_some_and(|limit| is_known || limit <= now) {
            return;
        }
        self.standing.awaited = None;
        let running = || self.members.running();
        let early = running().find(|number| self.phase_of(*number) == MpiPhase::BeforeInit);
        if let Some(number) = early {
            let name = self.job.name(number);
            return self.refuse_asker(format!(
                "{name} has not called MPI_Init yet: try again when it has"
            ));
        }
        let taking_part: Vec<u32> =
            running().filter(|number| self.phase_of(*number) == MpiPhase::Active).collect();
        if taking_part.is_empty() {
            return self.refuse_asker("no process of the job sends messages any more".into());
        }
        let Some(step) = self.standing.processes.begin(taking_part.into_iter()) else { return };
        self.standing.times = Some(Times {
            began: now,
            quiet: None,
            next_check: now + CHECK_INTERVAL,
            is_reported: false,
        });
        self.request_step(step, false);
    }

    pub(super) fn phase_of(&self, number: u32) -> MpiPhase {
        if let Some(rank) = self.rank(number) {
            return match rank.segment.status().state() {
                RankState::Created | RankState::Loaded => MpiPhase::BeforeInit,
                RankState::Initialized | RankState::Finalizing | RankState::Resting => {
                    MpiPhase::Active
                }
                RankState::Aborting | RankState::Finalized => MpiPhase::Done,
            };
        }
        match self.members.get(number) {
            Some(JobMember { seen, .. }) if seen.stage == MpiStage::Untouched => {
                MpiPhase::BeforeInit
            }
            Some(JobMember { seen, rests, .. }) if *rests || seen.stage.is_inside() => {
                MpiPhase::Active
            }
            _ => MpiPhase::Done,
        }
    }

    fn request_step(&mut self, step: u32, closes: bool) {
        debug!(step, closes, "requesting a step of a quiescence");
        self.order_all(HostOrder::Step { number: step, closes });
    }

    pub(super) fn step_taken(&mut self, rank: u32, step: u32) {
        debug!(rank, step, "a rank has taken a step of a quiescence");
        let next = self.standing.processes.reached(rank, step);
        self.go_on(next);
    }

    pub(super) fn takes_no_step(&mut self, rank: u32) {
        let next = self.standing.processes.gone(rank);
        self.go_on(next);
    }

    fn go_on(&mut self, next: Option<Next>) {
        match next {
            None => {}
            Some(Next::Close(step)) => {
                self.standing.times.iter_mut().for_each(|times| times.quiet = Some(Instant::now()));
                self.request_step(step, true);
            }
            Some(Next::Resume(step)) => {
                if let Some(asker) = self.standing.asker.take_if(|asker| asker.makes_images) {
                    self.standing.times = None;
                    self.standing.after_images = Some(step);
                    self.holding.want(asker.id);
                    return;
                }
                self.request_step(step, false);
                if let Some(Times { began, quiet, .. }) = self.standing.times.take() {
                    let all = self.standing.processes.len();
                    let ms = |time: Option<Instant>| {
                        time.map_or(0.0, |time| time.duration_since(began).as_secs_f64() * 1e3)
                    };
                    let text = format!(
                        "the messages of {all} processes stood still after {:.1} ms; after {:.1} ms all connections \
                         were ended, and they go on",
                        ms(quiet),
                        ms(Some(Instant::now()))
                    );
                    self.print(&format!("mpirun: {text}\n"));
                    self.answer_asker(&ToolReply::Done { text });
                }
            }
        }
    }

    /// Checks missing processes, and reports them if the wait is long.
    pub(super) fn check_missing(&mut self) {
        let now = Instant::now();
        if let Some(limit) =
            self.standing.asker.as_ref().filter(|one| one.until <= now).map(|one| one.limit)
        {
            let names: Vec<_> =
                self.standing.processes.missing().map(|number| self.job.name(number)).collect();
            self.refuse_asker(format!(
                "within {} s no call of MPI has come from {}; what has begun goes on when it comes",
                limit.as_secs_f64(),
                if names.is_empty() { "other hosts".into() } else { names.join(", ") }
            ));
        }
        let Some(times) = self.standing.times.as_mut().filter(|times| times.next_check <= now)
        else {
            return;
        };
        times.next_check = now + CHECK_INTERVAL;
        let is_late = now.duration_since(times.began) > PATIENCE
            && !std::mem::replace(&mut times.is_reported, true);
        if self.branches.are_queries_answered() {
            self.branches.query();
        }
        let is_over = |number: &u32| self.phase_of(*number) == MpiPhase::Done;
        let (over, missing): (Vec<u32>, Vec<u32>) =
            self.standing.processes.missing().partition(is_over);
        if is_late && !missing.is_empty() {
            let names: Vec<_> = missing.iter().map(|number| self.job.name(*number)).collect();
            let names = names.join(", ");
            self.print(&format!(
                "mpirun: quiescing waits for {names}: it ends when they call MPI\n"
            ));
        }
        over.into_iter().for_each(|number| self.takes_no_step(number));
    }
}
