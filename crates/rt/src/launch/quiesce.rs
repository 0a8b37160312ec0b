//! The messages of a job stand still, its connections are ended and made again: at a signal, for whoever wants to see to a
//! network, and for tests of what a checkpoint needs.

use std::time::{Duration, Instant};

use oxmpi_os::poller::raise_alarm;
use oxmpi_os::segment::RankState;

use super::launcher::Launcher;
use super::start::plugs;
use crate::quiesce::{Next, Quiescence};

/// How often those who are waited for are looked at: who has finalized takes no step any more.
const LOOK: Duration = Duration::from_millis(50);
/// How long nothing is said of those who are waited for.
const PATIENCE: Duration = Duration::from_secs(5);

/// What the launcher knows of it.
#[derive(Debug, Default)]
pub(super) struct Standing {
    processes: Quiescence,
    /// When it began, when they were quiet, and when somebody is looked at again.
    times: Option<Times>,
}

#[derive(Debug)]
struct Times {
    began: Instant,
    quiet: Option<Instant>,
    look: Instant,
    is_told: bool,
}

impl Standing {
    /// When those who are waited for are to be looked at.
    pub(super) fn time(&self) -> Option<Instant> {
        self.times.as_ref().map(|times| times.look)
    }

    /// The last step that was asked for.
    pub(super) fn step(&self) -> u32 {
        self.processes.step()
    }
}

impl Launcher<'_> {
    /// Somebody wants the messages to stand still.
    pub(super) fn quiesce(&mut self) {
        if !self.launch.transport.can_quiesce() {
            let name = self.launch.transport.name();
            self.print(&format!(
                "mpirun: messages over '{name}' cannot be quiesced: start the job with '--mca rpi crtcp'\n"
            ));
            return;
        }
        if self.launch.spread.is_some() {
            self.print("mpirun: messages are not quiesced: that is done in jobs on one host, and this one has several\n");
            return;
        }
        let running = || self.members.iter().filter(|(_, member)| member.running);
        let state = |number: u32| self.rank(number).map(|rank| rank.segment.status().state());
        let early = running()
            .map(|(number, _)| *number)
            .find(|number| matches!(state(*number), Some(RankState::Created | RankState::Loaded)));
        if let Some(number) = early {
            let name = self.job.name(number);
            self.print(&format!(
                "mpirun: messages are not quiesced: {name} has not called MPI_Init yet; ask again\n"
            ));
            return;
        }
        let taking_part: Vec<u32> = running()
            .map(|(number, _)| *number)
            .filter(|number| matches!(state(*number), Some(RankState::Initialized | RankState::Resting)))
            .collect();
        if taking_part.is_empty() {
            self.print("mpirun: messages are not quiesced: no process sends any\n");
            return;
        }
        let Some(step) = self.standing.processes.begin(taking_part.into_iter()) else {
            self.print("mpirun: messages are being quiesced already\n");
            return;
        };
        let now = Instant::now();
        self.standing.times = Some(Times { began: now, quiet: None, look: now + LOOK, is_told: false });
        self.ask_step(step);
    }

    /// Asks all that run for a step.
    fn ask_step(&self, step: u32) {
        for member in self.members.values().filter(|member| member.running) {
            let Some(rank) = &member.rank else { continue };
            rank.segment.status().ask_quiesce_step(step);
            rank.segment.ring_after_death(|| member.plug.iter().for_each(|plug| raise_alarm(&plug.alarm)));
        }
    }

    /// A process has taken a step.
    pub(super) fn step_taken(&mut self, rank: u32, step: u32) {
        let next = self.standing.processes.reached(rank, step);
        self.go_on(next);
    }

    /// A process takes no step any more.
    pub(super) fn takes_no_step(&mut self, rank: u32) {
        let next = self.standing.processes.gone(rank);
        self.go_on(next);
    }

    fn go_on(&mut self, next: Option<Next>) {
        match next {
            None => {}
            Some(Next::Close(step)) => {
                self.standing.times.iter_mut().for_each(|times| times.quiet = Some(Instant::now()));
                if let Err(why) = self.make_listeners() {
                    // They hear it when they ask for theirs.
                    self.print(&format!("mpirun: {why}\n"));
                }
                self.ask_step(step);
            }
            Some(Next::Resume(step)) => {
                self.ask_step(step);
                if let Some(Times { began, quiet, .. }) = self.standing.times.take() {
                    let all = self.standing.processes.len();
                    let ms = |time: Option<Instant>| {
                        time.map_or(0.0, |time| time.duration_since(began).as_secs_f64() * 1e3)
                    };
                    let text = format!(
                        "mpirun: the messages of {all} processes stood still after {:.1} ms; after {:.1} ms all connections \
                         were ended, and they go on\n",
                        ms(quiet),
                        ms(Some(Instant::now()))
                    );
                    self.print(&text);
                }
            }
        }
    }

    /// New listeners at new addresses, for all who run.
    fn make_listeners(&mut self) -> Result<(), super::LaunchError> {
        let running = self.members.values_mut().filter(|member| member.running);
        let own: Vec<_> = running.filter_map(|member| member.plug.as_mut()).collect();
        let made = plugs(self.launch, own.len(), true, true)?;
        for (plug, new) in own.into_iter().zip(made) {
            (plug.listener, plug.address) = (new.listener, new.address);
        }
        Ok(())
    }

    /// Looks who of those that are waited for has finalized, and says for whom it waits if that takes long.
    pub(super) fn look_at_missing(&mut self) {
        let now = Instant::now();
        let Some(times) = self.standing.times.as_mut().filter(|times| times.look <= now) else { return };
        times.look = now + LOOK;
        let is_late =
            now.duration_since(times.began) > PATIENCE && !std::mem::replace(&mut times.is_told, true);
        let is_over = |number: &u32| {
            self.rank(*number).is_none_or(|rank| rank.segment.status().state() == RankState::Finalized)
        };
        let (over, missing): (Vec<u32>, Vec<u32>) = self.standing.processes.missing().partition(is_over);
        if is_late && !missing.is_empty() {
            let names: Vec<_> = missing.iter().map(|number| self.job.name(*number)).collect();
            let names = names.join(", ");
            self.print(&format!("mpirun: quiescing waits for {names}: it ends when they call MPI\n"));
        }
        over.into_iter().for_each(|number| self.takes_no_step(number));
    }
}
