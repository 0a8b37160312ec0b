//! The end of operations under way when a process fails or the window is revoked.

use super::{AwaitedAnswer, Expected, Service};
use crate::window::GONE;
use oxmpi_engine::{Fault, Lane, RequestId};
use oxmpi_fabric::Fabric;
use std::sync::atomic::Ordering;

impl Service {
    pub(crate) fn attend<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        let lost = lane.lost()[self.lost..].to_vec();
        self.lost += lost.len();
        for process in lost {
            if let Some(rank) = self.team.map.rank(process) {
                self.give_up_rank(lane, rank, Fault::Lost { peer: process });
                self.locks.retain(|(waiting, _)| *waiting != rank);
            }
        }
        if self.team.is_revoked() {
            (0..self.team.size()).for_each(|rank| self.give_up_rank(lane, rank, Fault::Revoked));
            self.locks.clear();
        }
    }

    fn give_up_rank<F: Fabric>(&mut self, lane: &mut Lane<F>, rank: u32, fault: Fault) {
        if let Some(target) = self.targets.get(rank as usize) {
            target.issued.fetch_or(GONE, Ordering::Relaxed);
            self.far.store(true, Ordering::Relaxed);
        }
        self.give_up_accesses(lane, rank, fault);
        let failed = self.failed(fault);
        self.awaited.retain(|_, awaited| match *awaited {
            // A receive fails by itself. The call that waits for `Done` gets the fault.
            AwaitedAnswer { rank: from, what: Expected::Data { receive: None, user, .. } }
                if from == rank =>
            {
                user.iter().for_each(|user| lane.complete_external(*user, failed));
                false
            }
            _ => true,
        });
    }

    pub(in crate::window) fn check<F: Fabric>(
        &self,
        lane: &Lane<F>,
        rank: u32,
    ) -> std::result::Result<(), Fault> {
        if self.team.is_revoked() {
            return Err(Fault::Revoked);
        }
        match self.team.map.process(rank) {
            Some(peer) if lane.lost().contains(&peer) => Err(Fault::Lost { peer }),
            _ => Ok(()),
        }
    }

    /// The failed process that holds the lock of this process.
    pub(super) fn dead_holder<F: Fabric>(&self, lane: &Lane<F>) -> Option<u32> {
        let held = |process: &u32| {
            self.team.map.rank(*process).is_some_and(|rank| self.exposure.control.is_held_by(rank))
        };
        lane.lost().iter().copied().find(held)
    }

    pub(in crate::window) fn abandon<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        if !self.has_no_request() {
            // The target may still access the buffer of this process, so its memory is never freed.
            std::mem::forget(self.exposure.clone());
        }
        for rank in 0..self.team.size() {
            self.give_up_accesses(lane, rank, Fault::Revoked);
        }
        self.end_accesses(lane);
        let failed = self.failed(Fault::Revoked);
        for awaited in std::mem::take(&mut self.awaited).into_values() {
            if let Expected::Data { receive, user, .. } = awaited.what {
                receive.into_iter().for_each(|receive| lane.abandon(receive));
                user.into_iter().for_each(|user| lane.complete_external(user, failed));
            }
        }
        for sending in std::mem::take(&mut self.sends) {
            lane.abandon(sending.send);
            sending.user.into_iter().for_each(|user| lane.complete_external(user, failed));
        }
        for waiting in std::mem::take(&mut self.queues).into_values().flatten() {
            let request = waiting.request();
            if request != RequestId::COMPLETE {
                lane.abandon(request);
            }
        }
    }
}
