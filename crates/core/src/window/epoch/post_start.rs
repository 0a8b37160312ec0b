//! General active target synchronization: MPI_Win_post, start, complete, wait and test (MPI-5.0
//! section 12.5.2).

use super::{CLOSED, Epochs, OPEN, SHUT, STARTED, check_assert, open_access, sync};
use crate::Process;
use crate::errors::of_fault;
use crate::failure::is_failure;
use crate::process::Domain;
use crate::wait_reason::{Awaited, Reason};
use crate::window::control::ControlWords;
use crate::window::message::RmaMessage;
use crate::window::{Window, locked};
use oxmpi_abi::constants as abi;
use oxmpi_engine::{Fault, Lane};
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use oxmpi_rt_client::waiting::Need;
use std::sync::atomic::{Ordering, fence};

impl Epochs {
    /// Whether all ranks of the exposure epoch except failed ones have completed their access
    /// epochs. The counts of the ranks decide, because the common count is not exact once a rank
    /// has failed (rule 6 of `window/control.rs`).
    fn have_all_completed(&self, control: &ControlWords, lost: &[u32]) -> bool {
        let opened = |rank: &u32| self.opened.get(rank).copied().unwrap_or(0);
        let is_late =
            |rank: &u32| !lost.contains(rank) && control.completed_by(*rank) < opened(rank);
        !self.posted.iter().flatten().any(is_late)
    }
}

impl<F: Fabric> Process<F> {
    fn ranks_of(&self, window: &Window, group: &Group) -> Result<Vec<u32>> {
        let rank = |(at, process)| {
            window.comm.team.map.rank(process).ok_or_else(|| {
                let text =
                    format!("the process with rank {at} in the group is not in the window's group");
                MpiError::new(abi::MPI_ERR_GROUP, text)
            })
        };
        group.processes().enumerate().map(rank).collect()
    }

    fn signal(
        &self,
        window: &Window,
        rank: u32,
        word: impl FnOnce(&ControlWords),
        message: &RmaMessage,
    ) -> Result<()> {
        let routes = self.routes(window, &window.targets[rank as usize]);
        match self.is_reached_by_words(window, rank, routes) {
            Some(control) => {
                word(control);
                self.ring(window, rank);
                Ok(())
            }
            None => {
                self.with_service(window, |service, lane| service.send_message(lane, rank, message))
            }
        }
    }

    /// Opens an access epoch when the processes of a group have opened their exposure epochs
    /// (MPI_Win_start). Failed processes are reported when the epoch ends.
    pub fn start_window(&self, window: &Window, group: &Group, assert: i32) -> Result<()> {
        check_assert(assert, abi::MPI_MODE_NOCHECK, "MPI_Win_start")?;
        let ranks = self.ranks_of(window, group)?;
        {
            let mut epochs = locked(&window.epochs);
            window.check_closed("MPI_Win_start")?;
            epochs.started.clone_from(&ranks);
            window.set_access(STARTED);
        }
        for rank in ranks {
            let target = &window.targets[rank as usize];
            // With MPI_MODE_NOCHECK the program promises that the signal has been sent already.
            let next = target.posts_taken.fetch_add(1, Ordering::Relaxed) + 1;
            let control = &window.exposure.control;
            let posted = || control.posted(rank) >= next;
            let reason = |_: &Domain<F>| {
                let text = format!("to call MPI_Win_post on {}", window.words());
                Reason::new(text, Need::All, [target.process])
            };
            if let Err(error) = self.wait_for_word(window, &reason, posted, |lost| lost == rank)
                && window.comm.is_revoked()
            {
                let started = std::mem::take(&mut locked(&window.epochs).started);
                for rank in started {
                    window.targets[rank as usize].open.store(SHUT, Ordering::Relaxed);
                }
                window.set_access(CLOSED);
                return Err(error);
            }
            target.open.store(OPEN, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Ends the access epoch of MPI_Win_start (MPI_Win_complete).
    pub fn complete_window(&self, window: &Window) -> Result<()> {
        let ranks = {
            let mut epochs = locked(&window.epochs);
            match window.access.load(Ordering::Relaxed) {
                STARTED => std::mem::take(&mut epochs.started),
                mode => {
                    let text =
                        format!("MPI_Win_complete without MPI_Win_start: {}", open_access(mode));
                    return Err(sync(text));
                }
            }
        };
        let mut outcome = Ok(());
        for rank in ranks {
            let target = &window.targets[rank as usize];
            let complete = self.complete_target(window, rank);
            target.open.store(SHUT, Ordering::Relaxed);
            let own = window.rank();
            let signalled =
                self.signal(window, rank, |control| control.complete(own), &RmaMessage::Complete);
            outcome = outcome.and(complete).and(signalled);
        }
        window.set_access(CLOSED);
        outcome
    }

    /// Opens an exposure epoch to a group (MPI_Win_post). MPI_Win_wait reports failed processes.
    pub fn post_window(&self, window: &Window, group: &Group, assert: i32) -> Result<()> {
        const KNOWN: i32 = abi::MPI_MODE_NOCHECK | abi::MPI_MODE_NOSTORE | abi::MPI_MODE_NOPUT;
        check_assert(assert, KNOWN, "MPI_Win_post")?;
        let ranks = self.ranks_of(window, group)?;
        {
            let mut epochs = locked(&window.epochs);
            if epochs.posted.is_some() {
                return Err(sync(
                    "MPI_Win_post while an exposure epoch is open: call MPI_Win_wait first",
                ));
            }
            for rank in &ranks {
                *epochs.opened.entry(*rank).or_default() += 1;
            }
            epochs.posted = Some(ranks.clone());
        }
        fence(Ordering::SeqCst);
        let own = window.rank();
        let mut outcome = Ok(());
        for rank in ranks {
            let signalled =
                self.signal(window, rank, |control| control.post(own), &RmaMessage::Post);
            outcome = outcome.and(
                signalled.or_else(|error| if is_failure(&error) { Ok(()) } else { Err(error) }),
            );
        }
        outcome
    }

    fn end_of_exposure(&self, window: &Window, function: &str) -> Result<u64> {
        let epochs = locked(&window.epochs);
        let posted = epochs
            .posted
            .as_ref()
            .ok_or_else(|| sync(format!("{function} without MPI_Win_post")))?;
        Ok(epochs.completed + posted.len() as u64)
    }

    fn end_exposure(&self, window: &Window, count: u64) {
        let mut epochs = locked(&window.epochs);
        epochs.posted = None;
        epochs.completed = count;
        fence(Ordering::SeqCst);
    }

    /// Whether the exposure epoch is over, with the new count of completed epochs and the fault.
    fn is_exposure_over(
        &self,
        window: &Window,
        lane: &Lane<F>,
        end: u64,
    ) -> Option<(u64, Option<Fault>)> {
        let control = &window.exposure.control;
        let nobody_is_lost = lane.lost().is_empty();
        if nobody_is_lost && control.completed() >= end {
            return Some((end, None));
        }
        let epochs = locked(&window.epochs);
        let posted = epochs.posted.as_ref()?;
        let fault = window.wait_fault(lane, |lost| posted.contains(&lost));
        if nobody_is_lost || fault == Some(Fault::Revoked) {
            return fault.map(|fault| (end, Some(fault)));
        }
        let lost: Vec<u32> =
            lane.lost().iter().filter_map(|lost| window.comm.team.map.rank(*lost)).collect();
        epochs.have_all_completed(control, &lost).then_some((end, fault))
    }

    fn finish_exposure(&self, window: &Window, (count, fault): (u64, Option<Fault>)) -> Result<()> {
        self.end_exposure(window, count);
        fault.map_or(Ok(()), |fault| Err(of_fault(fault)))
    }

    /// Waits for the end of the exposure epoch, but not for failed ranks (MPI_Win_wait). The epoch
    /// is over even after an error.
    pub fn wait_window(&self, window: &Window) -> Result<()> {
        let end = self.end_of_exposure(window, "MPI_Win_wait")?;
        let reason = |_: &Domain<F>| {
            let control = &window.exposure.control;
            let epochs = locked(&window.epochs);
            let opened = |rank: u32| epochs.opened.get(&rank).copied().unwrap_or(0);
            let late = epochs
                .posted
                .iter()
                .flatten()
                .filter(|rank| control.completed_by(**rank) < opened(**rank));
            let late: Vec<u32> =
                late.filter_map(|rank| window.comm.team.map.process(*rank)).collect();
            Reason::new(format!("to call MPI_Win_complete on {}", window.words()), Need::All, late)
        };
        let over = self.wait_for(&Awaited::Described(&reason), |domain| {
            self.is_exposure_over(window, &domain.lane, end)
        });
        self.finish_exposure(window, over)
    }

    /// Ends the exposure epoch if it is over (MPI_Win_test). Returns whether it is over.
    pub fn test_window(&self, window: &Window) -> Result<bool> {
        let end = self.end_of_exposure(window, "MPI_Win_test")?;
        let over = self.look_again(
            |domain| self.is_exposure_over(window, &domain.lane, end),
            |over| over.is_none(),
        );
        over.map_or(Ok(false), |over| self.finish_exposure(window, over).map(|()| true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::Flavor;
    use oxmpi_sys::memory::Memory;

    /// The exposure epoch ends exactly with the epochs of the ranks that have not failed.
    #[test]
    fn a_death_between_the_two_counts_of_an_epoch_holds_up_nobody() {
        let control = ControlWords::new(
            Memory::zeroed(ControlWords::bytes(3, Flavor::Dynamic), 64).unwrap(),
            3,
            Flavor::Dynamic,
        );
        let mut epochs = Epochs::default();
        let post = |epochs: &mut Epochs, ranks: &[u32]| {
            ranks.iter().for_each(|rank| *epochs.opened.entry(*rank).or_default() += 1);
            epochs.posted = Some(ranks.to_vec());
        };
        post(&mut epochs, &[1, 2]);
        control.complete(1);
        control.complete_for_own_count(2);
        assert_eq!(control.completed(), 1);
        assert!(epochs.have_all_completed(&control, &[2]));
        post(&mut epochs, &[1]);
        assert!(!epochs.have_all_completed(&control, &[2]));
        control.complete(1);
        assert!(
            epochs.have_all_completed(&control, &[2]),
            "the count for all is {}",
            control.completed()
        );
        post(&mut epochs, &[2, 1]);
        assert!(!epochs.have_all_completed(&control, &[2]));
        control.complete(1);
        assert!(epochs.have_all_completed(&control, &[2]));
    }
}
