use std::collections::BTreeMap;

use super::*;

const KILL: i32 = Signal::KILL.as_raw();
const USR1: i32 = Signal::USR1.as_raw();

fn order(host: &mut HostMachine, order: HostOrder) -> Vec<HostAction> {
    host.on(HostEvent::Order(order))
}

fn started(ranks: Range<u32>) -> HostMachine {
    let mut host = HostMachine::default();
    ranks.for_each(|rank| assert!(host.on(HostEvent::Started { rank }).is_empty()));
    host
}

fn stopped(host: &mut HostMachine, round: u32, pids: &[u32]) {
    assert_eq!(order(host, HostOrder::Hold { round }), [HostAction::Stop { round }]);
    let result = Ok(pids.to_vec());
    let report = HostReport::Stopped { round, result: Ok(()) };
    let actions = [HostAction::ForwardAll, HostAction::Report(report)];
    assert_eq!(host.on(HostEvent::Stopped { round, result }), actions, "messages come before");
}

#[test]
fn rule_1_signals_wait_for_images_except_sigkill() {
    let mut host = started(0..2);
    stopped(&mut host, 1, &[7, 8]);
    let signal = |number| HostOrder::Signal { number, ranks: vec![0] };
    let sent = |number| HostAction::Signal { number, ranks: vec![0] };
    assert_eq!(order(&mut host, signal(USR1)), [sent(USR1)], "no images are made yet");
    assert!(host.on(HostEvent::ImagingBegun).is_empty() && host.wants_images());
    assert!(order(&mut host, signal(USR1)).is_empty());
    assert_eq!(order(&mut host, signal(KILL)), [sent(KILL)]);
    let recover = HostAction::Recover { stopped: vec![7, 8] };
    let ended = host.on(HostEvent::ImagingEnded { is_good: false });
    assert_eq!(ended, [recover, sent(USR1)]);
    assert_eq!(order(&mut host, HostOrder::GoOn), [HostAction::GoOn { stopped: vec![7, 8] }]);
    assert!(order(&mut host, HostOrder::GoOn).is_empty());
}

#[test]
fn rule_1_processes_go_on_when_criu_has_ended() {
    let mut host = started(0..2);
    stopped(&mut host, 1, &[7]);
    host.on(HostEvent::ImagingBegun);
    assert_eq!(order(&mut host, HostOrder::GoOn), [HostAction::WithdrawImages]);
    assert!(!host.wants_images());
    let again = order(&mut host, HostOrder::Hold { round: 2 });
    let [HostAction::WithdrawImages, HostAction::Report(HostReport::Stopped { round: 2, result })] =
        &again[..]
    else {
        panic!("{again:?}")
    };
    assert!(result.as_ref().unwrap_err().contains("CRIU still makes images"));
    let ended = host.on(HostEvent::ImagingEnded { is_good: true });
    assert_eq!(ended, [HostAction::GoOn { stopped: vec![7] }]);
    assert!(host.on(HostEvent::ImagingEnded { is_good: true }).is_empty());
    stopped(&mut host, 3, &[7]);
}

#[test]
fn rule_2_stopped_processes_go_on_before_they_are_stopped_again() {
    let mut host = started(0..1);
    assert!(host.on(HostEvent::Restored { stopped: vec![5, 6] }).is_empty());
    let actions = order(&mut host, HostOrder::Hold { round: 4 });
    assert_eq!(actions, [HostAction::GoOn { stopped: vec![5, 6] }, HostAction::Stop { round: 4 }]);
    let result = Err("a process does not stop".to_string());
    let actions = host.on(HostEvent::Stopped { round: 4, result: result.clone() });
    let report = HostReport::Stopped { round: 4, result: Err("a process does not stop".into()) };
    assert_eq!(actions, [HostAction::ForwardAll, HostAction::Report(report)]);
    assert!(order(&mut host, HostOrder::GoOn).is_empty(), "they run");
}

#[test]
fn rule_3_a_call_is_reported_once_when_all_have_returned() {
    let mut host = started(0..3);
    let number = CheckpointCall::Save.next_after(0);
    let call = HostOrder::CallFunctions { number };
    assert_eq!(order(&mut host, call.clone()), [HostAction::WantCall { number }]);
    assert_eq!(host.awaited_call(), Some(number));
    let returned = |values: &[(u32, i32)]| HostEvent::Returned { values: Ok(values.to_vec()) };
    assert!(host.on(returned(&[(0, 0), (2, 5)])).is_empty());
    host.on(HostEvent::Exited { rank: 1, exit: Exit::Code(0), seen: Seen::default() });
    let values = Ok(vec![(0, 0), (2, 5)]);
    let report = HostAction::Report(HostReport::Returned { number, values });
    assert_eq!(host.on(returned(&[(0, 0), (2, 5)])), [report]);
    assert!(host.on(returned(&[(0, 0), (2, 5)])).is_empty(), "it is over");
    order(&mut host, call);
    let values = Err("rank 0 cannot call them".to_string());
    let report = HostAction::Report(HostReport::Returned { number, values: values.clone() });
    assert_eq!(host.on(HostEvent::Returned { values }), [report]);
    let number = CheckpointCall::Open.next_after(number);
    order(&mut host, HostOrder::CallFunctions { number });
    assert_eq!(host.awaited_call(), None, "nothing returns from the call that opens MPI");
}

#[test]
fn rule_4_an_end_is_reported_once_and_not_that_of_an_abandoned_rank() {
    let mut host = started(0..4);
    let exited = |rank| HostEvent::Exited { rank, exit: Exit::Signal(9), seen: Seen::default() };
    let change = |rank| {
        let event = ProcessEvent::Exited { rank, exit: Exit::Signal(9), seen: Seen::default() };
        [HostAction::End { rank }, HostAction::Change(event)]
    };
    assert_eq!(host.on(exited(1)), change(1));
    assert!(host.on(exited(1)).is_empty());
    host.on(HostEvent::Abandoned { base: 3 });
    assert!(host.on(exited(3)).is_empty());
    let release = order(&mut host, HostOrder::ReleaseJob { base: 2, size: 1 });
    assert_eq!(release, [HostAction::Release { ranks: 2..3 }]);
    assert!(host.on(exited(2)).is_empty());
    assert_eq!(host.on(exited(0)), change(0));
}

#[test]
fn listeners_are_new_before_a_step_that_closes_connections() {
    let mut host = started(0..1);
    let step = |closes| HostOrder::Step { number: 6, closes };
    let ask = HostAction::AskStep { number: 6 };
    assert_eq!(order(&mut host, step(false)), std::slice::from_ref(&ask));
    assert_eq!(order(&mut host, step(true)), [HostAction::RenewListeners, ask]);
}

#[test]
fn signals_that_end_a_job_are_noted() {
    let mut host = started(0..1);
    order(&mut host, HostOrder::Signal { number: USR1, ranks: vec![0] });
    assert!(!host.is_ending());
    order(&mut host, HostOrder::Signal { number: Signal::TERM.as_raw(), ranks: vec![9] });
    assert!(host.is_ending());
}

/// A host whose processes do as the actions say. The number of a rank's process is 100 more than
/// the rank's.
struct HostWorld {
    seed: u64,
    machine: HostMachine,
    /// Whether each rank's process is stopped.
    alive: BTreeMap<u32, bool>,
    is_imaged: bool,
    rounds: u32,
    reported: Vec<u32>,
    answers: Vec<u32>,
}

impl HostWorld {
    fn draw(&mut self, below: u64) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.seed >> 33) % below
    }

    fn on(&mut self, event: HostEvent) {
        for action in self.machine.on(event) {
            self.act(action);
        }
    }

    fn act(&mut self, action: HostAction) {
        match action {
            HostAction::Signal { number, ranks } => {
                assert!(!self.is_imaged || number == KILL, "CRIU is in the processes");
                for rank in ranks.into_iter().filter(|_| number == KILL) {
                    self.end(rank);
                }
            }
            HostAction::Stop { round } => {
                assert!(!self.is_imaged);
                let running: Vec<u32> = self
                    .alive
                    .iter()
                    .filter(|(_, stops)| !**stops)
                    .map(|(rank, _)| *rank)
                    .collect();
                self.alive.values_mut().for_each(|stops| *stops = true);
                let result = Ok(running.into_iter().map(|rank| rank + 100).collect());
                self.on(HostEvent::Stopped { round, result });
            }
            HostAction::GoOn { stopped } => {
                assert!(!self.is_imaged, "CRIU is in the processes");
                for pid in stopped {
                    self.alive.entry(pid - 100).and_modify(|stops| *stops = false);
                }
            }
            HostAction::Change(ProcessEvent::Exited { rank, .. }) => self.reported.push(rank),
            HostAction::Report(HostReport::Stopped { round, .. }) => self.answers.push(round),
            _ => {}
        }
    }

    fn end(&mut self, rank: u32) {
        if self.alive.remove(&rank).is_some() {
            self.on(HostEvent::Exited { rank, exit: Exit::Signal(9), seen: Seen::default() });
        }
    }

    fn end_imaging(&mut self) {
        if std::mem::take(&mut self.is_imaged) {
            let is_good = self.draw(2) == 0;
            self.on(HostEvent::ImagingEnded { is_good });
        }
    }

    fn step(&mut self, ranks: u64) {
        let rank = self.draw(ranks) as u32;
        match self.draw(7) {
            0 => {
                self.rounds += 1;
                self.on(HostEvent::Order(HostOrder::Hold { round: self.rounds }));
            }
            1 if !self.is_imaged && self.alive.values().any(|stops| *stops) => {
                self.is_imaged = true;
                self.on(HostEvent::ImagingBegun);
            }
            2 => self.end_imaging(),
            3 => self.on(HostEvent::Order(HostOrder::GoOn)),
            4 => {
                let number = if self.draw(4) == 0 { KILL } else { USR1 };
                self.on(HostEvent::Order(HostOrder::Signal { number, ranks: vec![rank] }));
            }
            5 if self.draw(4) == 0 => self.end(rank),
            _ => {}
        }
    }
}

#[test]
fn in_any_order_of_events_all_run_in_the_end_and_each_end_is_reported_once() {
    for seed in 0..1000 {
        let ranks = 1 + seed % 9;
        let mut world = HostWorld {
            seed,
            machine: started(0..ranks as u32),
            alive: (0..ranks as u32).map(|rank| (rank, false)).collect(),
            is_imaged: false,
            rounds: 0,
            reported: Vec::new(),
            answers: Vec::new(),
        };
        (0..60).for_each(|_| world.step(ranks));
        world.end_imaging();
        world.on(HostEvent::Order(HostOrder::GoOn));
        assert!(world.alive.values().all(|stops| !stops), "seed {seed}: {:?}", world.alive);
        assert!(world.answers.iter().copied().eq(1..=world.rounds), "seed {seed}: one answer each");
        let mut ended = world.reported.clone();
        ended.sort_unstable();
        let gone: Vec<u32> =
            (0..ranks as u32).filter(|rank| !world.alive.contains_key(rank)).collect();
        assert_eq!(ended, gone, "seed {seed}");
    }
}
