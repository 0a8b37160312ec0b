//! The decisions of the launcher of one host: a state machine without system calls.
//!
//! 1. While images of the processes are made, signals wait, except SIGKILL: a process that runs
//!    while CRIU has its code in it is lost (rule 4 of [`crate::launch`]'s `hold`). For the same
//!    reason processes that are to go on meanwhile do so when CRIU has ended.
//! 2. Processes that were stopped for images and are to be stopped again go on first, so that
//!    their messages are on their way.
//! 3. A call of the program's checkpoint functions is reported once, when it has returned on all
//!    ranks that run, or cannot be made on one.
//! 4. An end is reported once.

use std::collections::BTreeSet;
use std::ops::Range;

use oxmpi_rt_proto::agent::{HostOrder, HostReport, ProcessEvent, Seen};
use oxmpi_rt_proto::process::Exit;
use oxmpi_shm::segment::CheckpointCall;
use rustix::process::Signal;

/// Signals that end a job.
const ENDING: [Signal; 5] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT, Signal::KILL];

/// An event for the launcher of a host.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HostEvent {
    /// An order of the head.
    Order(HostOrder),
    /// A process has become a rank.
    Started { rank: u32 },
    /// The ranks from this number on are removed, as the start of their job has failed.
    Abandoned { base: u32 },
    /// These processes were restored, and are stopped.
    Restored { stopped: Vec<u32> },
    /// The process of a rank has ended, and its messages and output were forwarded.
    Exited { rank: u32, exit: Exit, seen: Seen },
    /// The result of [`HostAction::Stop`]: the processes that ran before.
    Stopped { round: u32, result: Result<Vec<u32>, String> },
    /// Images of the stopped processes are made from now on: here, or by a tool.
    ImagingBegun,
    /// No images are made any more.
    ImagingEnded { is_good: bool },
    /// The values that checkpoint functions have returned so far on the ranks that run.
    Returned { values: Result<Vec<(u32, i32)>, String> },
}

/// What the launcher of a host does.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum HostAction {
    /// Sends a signal to the process groups of ranks.
    Signal { number: i32, ranks: Vec<u32> },
    /// Writes standard input of a rank.
    Feed { rank: u32, bytes: Vec<u8> },
    /// Notifies the running ranks of failed processes.
    NoteDeaths { count: u32 },
    /// Makes new listeners for the running ranks.
    RenewListeners,
    /// Requests a step of a quiescence from the running ranks.
    AskStep { number: u32 },
    /// Requests a call of checkpoint functions from the running ranks.
    WantCall { number: u32 },
    /// Stops all processes. Its result is [`HostEvent::Stopped`].
    Stop { round: u32 },
    /// Forwards all messages and output of the ranks.
    ForwardAll,
    /// Describes the ranks, whose stopped processes these are.
    Describe { round: u32, stopped: Vec<u32> },
    /// Ends the making of images as soon as possible.
    WithdrawImages,
    /// Repairs processes in which CRIU may have left its code.
    Recover { stopped: Vec<u32> },
    /// Lets stopped processes run.
    GoOn { stopped: Vec<u32> },
    /// Forwards an order to the relays.
    PassToRelays { order: Vec<u8> },
    /// Drops the input and the listeners of a rank that has ended, and tells its relay.
    End { rank: u32 },
    /// Drops the state of a finished job that no later request needs.
    Release { ranks: Range<u32> },
    /// Drops the rest of that state.
    Forget { ranks: Range<u32> },
    /// Sends the head a report.
    Report(HostReport),
    /// Sends the head a change of a process.
    Change(ProcessEvent),
}

/// Whether the processes run.
#[derive(Debug, Default, PartialEq)]
enum Motion {
    #[default]
    Runs,
    /// These processes ran before.
    Stopped(Vec<u32>),
    /// Images of them are made.
    Imaged { stopped: Vec<u32>, signals: Vec<(i32, Vec<u32>)>, goes_on: bool },
}

/// The launcher of one host.
#[derive(Debug, Default)]
pub(crate) struct HostMachine {
    running: BTreeSet<u32>,
    motion: Motion,
    /// A call of checkpoint functions that is not reported yet.
    call: Option<u32>,
    is_ending: bool,
}

impl HostMachine {
    /// Whether the head has begun to end the job.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending
    }

    /// The call of checkpoint functions whose values are awaited.
    pub(crate) fn awaited_call(&self) -> Option<u32> {
        self.call
    }

    /// Whether images are made that the head wants.
    pub(crate) fn wants_images(&self) -> bool {
        matches!(self.motion, Motion::Imaged { goes_on: false, .. })
    }

    /// Handles an event; returns the actions, in their order.
    pub(crate) fn on(&mut self, event: HostEvent) -> Vec<HostAction> {
        match event {
            HostEvent::Order(order) => self.obey(order),
            HostEvent::Started { rank } => {
                self.running.insert(rank);
                Vec::new()
            }
            HostEvent::Abandoned { base } => {
                self.running.retain(|rank| *rank < base);
                Vec::new()
            }
            HostEvent::Restored { stopped } => {
                self.motion = Motion::Stopped(stopped);
                Vec::new()
            }
            HostEvent::Exited { rank, exit, seen } => match self.running.remove(&rank) {
                true => vec![
                    HostAction::End { rank },
                    HostAction::Change(ProcessEvent::Exited { rank, exit, seen }),
                ],
                false => Vec::new(),
            },
            HostEvent::Stopped { round, result } => {
                let result = result.map(|stopped| self.motion = Motion::Stopped(stopped));
                let report = HostReport::Stopped { round, result };
                vec![HostAction::ForwardAll, HostAction::Report(report)]
            }
            HostEvent::ImagingBegun => {
                let stopped = self.take_stopped();
                self.motion = Motion::Imaged { stopped, signals: Vec::new(), goes_on: false };
                Vec::new()
            }
            HostEvent::ImagingEnded { is_good } => self.end_imaging(is_good),
            HostEvent::Returned { values } => self.note_values(values),
        }
    }

    fn obey(&mut self, order: HostOrder) -> Vec<HostAction> {
        match order {
            HostOrder::Signal { number, ranks } => self.signal(number, ranks),
            HostOrder::Input { rank, bytes } => vec![HostAction::Feed { rank, bytes }],
            HostOrder::Died { count } => vec![HostAction::NoteDeaths { count }],
            HostOrder::Step { number, closes } => {
                let renewed = closes.then_some(HostAction::RenewListeners);
                renewed.into_iter().chain([HostAction::AskStep { number }]).collect()
            }
            HostOrder::CallFunctions { number } => {
                // No function returns from the call that opens MPI again.
                self.call = (CheckpointCall::of(number) != CheckpointCall::Open).then_some(number);
                vec![HostAction::WantCall { number }]
            }
            HostOrder::Hold { round } => self.hold(round),
            HostOrder::Describe { round } => {
                let stopped = match &self.motion {
                    Motion::Stopped(stopped) => stopped.clone(),
                    Motion::Runs | Motion::Imaged { .. } => Vec::new(),
                };
                vec![HostAction::Describe { round, stopped }]
            }
            HostOrder::GoOn => self.go_on(),
            HostOrder::Relay { order } => vec![HostAction::PassToRelays { order }],
            HostOrder::ReleaseJob { base, size } => {
                let ranks = base..base.saturating_add(size);
                self.running.retain(|rank| !ranks.contains(rank));
                vec![HostAction::Release { ranks }]
            }
            HostOrder::Forget { base, size } => {
                vec![HostAction::Forget { ranks: base..base.saturating_add(size) }]
            }
        }
    }

    fn signal(&mut self, number: i32, ranks: Vec<u32>) -> Vec<HostAction> {
        self.is_ending |= ENDING.iter().any(|ending| ending.as_raw() == number);
        match &mut self.motion {
            // Rule 1.
            Motion::Imaged { signals, .. } if number != Signal::KILL.as_raw() => {
                signals.push((number, ranks));
                Vec::new()
            }
            _ => vec![HostAction::Signal { number, ranks }],
        }
    }

    fn hold(&mut self, round: u32) -> Vec<HostAction> {
        let mut actions = self.go_on();
        actions.push(match self.motion {
            Motion::Imaged { .. } => {
                let error = "CRIU still makes images there for a checkpoint that was given up: try again when it has ended";
                HostAction::Report(HostReport::Stopped { round, result: Err(error.into()) })
            }
            Motion::Runs | Motion::Stopped(_) => HostAction::Stop { round },
        });
        actions
    }

    fn go_on(&mut self) -> Vec<HostAction> {
        if let Motion::Imaged { goes_on, .. } = &mut self.motion {
            // Rule 1.
            *goes_on = true;
            return vec![HostAction::WithdrawImages];
        }
        let stopped = self.take_stopped();
        if stopped.is_empty() { Vec::new() } else { vec![HostAction::GoOn { stopped }] }
    }

    fn take_stopped(&mut self) -> Vec<u32> {
        match std::mem::take(&mut self.motion) {
            Motion::Runs => Vec::new(),
            Motion::Stopped(stopped) | Motion::Imaged { stopped, .. } => stopped,
        }
    }

    fn end_imaging(&mut self, is_good: bool) -> Vec<HostAction> {
        let (stopped, signals, goes_on) = match std::mem::take(&mut self.motion) {
            Motion::Imaged { stopped, signals, goes_on } => (stopped, signals, goes_on),
            other => {
                self.motion = other;
                return Vec::new();
            }
        };
        let repair = (!is_good).then(|| HostAction::Recover { stopped: stopped.clone() });
        let mut actions: Vec<HostAction> = repair.into_iter().collect();
        let signal = |(number, ranks)| HostAction::Signal { number, ranks };
        actions.extend(signals.into_iter().map(signal));
        self.motion = Motion::Stopped(stopped);
        if goes_on {
            actions.extend(self.go_on());
        }
        actions
    }

    fn note_values(&mut self, values: Result<Vec<(u32, i32)>, String>) -> Vec<HostAction> {
        let is_partial = values.as_ref().is_ok_and(|values| values.len() < self.running.len());
        match self.call.take_if(|_| !is_partial) {
            Some(number) => vec![HostAction::Report(HostReport::Returned { number, values })],
            None => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests;
