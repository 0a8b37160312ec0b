//! General active target synchronization: MPI_Win_post, start, complete, wait and test (MPI-5.0 section 12.5.2).

use super::{CLOSED, OPEN, SHUT, STARTED, check_assert, open_access, sync};
use crate::Process;
use crate::window::control::Control;
use crate::window::message::Message;
use crate::window::{Window, locked};
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use std::sync::atomic::{Ordering, fence};

impl<F: Fabric> Process<F> {
    /// The ranks in the window of a group's processes.
    fn ranks_of(&self, window: &Window, group: &Group) -> Result<Vec<u32>> {
        let rank = |(at, process)| {
            window.comm.team.map.rank(process).ok_or_else(|| {
                let text = format!("the process with rank {at} in the group is not in the window's group");
                MpiError::new(abi::MPI_ERR_GROUP, text)
            })
        };
        group.processes().enumerate().map(rank).collect()
    }

    /// Tells a rank something that it waits for.
    fn signal(
        &self,
        window: &Window,
        rank: u32,
        word: impl FnOnce(&Control),
        message: &Message,
    ) -> Result<()> {
        let near = self.near(window, &window.targets[rank as usize]);
        match self.is_reached_by_words(window, rank, near) {
            Some(control) => {
                word(control);
                self.ring(window, rank);
                Ok(())
            }
            None => self.with_service(window, |service, lane| service.say(lane, rank, message)),
        }
    }

    /// Opens an access epoch to the processes of a group, when they have opened theirs to this one (MPI_Win_start).
    ///
    /// # Errors
    /// MPI_ERR_ASSERT, MPI_ERR_GROUP, MPI_ERR_RMA_SYNC.
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
            // Also without a check: the signal is there, or as good as there.
            let next = target.posts_taken.fetch_add(1, Ordering::Relaxed) + 1;
            let control = &window.exposure.control;
            self.wait_for(|_| (control.posted(rank) >= next).then_some(()));
            target.open.store(OPEN, Ordering::Relaxed);
        }
        Ok(())
    }

    /// Ends the access epoch of MPI_Win_start (MPI_Win_complete).
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC if there is none; a process has failed, or exposes no memory where it was accessed.
    pub fn complete_window(&self, window: &Window) -> Result<()> {
        let ranks = {
            let mut epochs = locked(&window.epochs);
            match window.access.load(Ordering::Relaxed) {
                STARTED => std::mem::take(&mut epochs.started),
                mode => {
                    let text = format!("MPI_Win_complete without MPI_Win_start: {}", open_access(mode));
                    return Err(sync(text));
                }
            }
        };
        let mut outcome = Ok(());
        for rank in ranks {
            let target = &window.targets[rank as usize];
            let complete = self.complete_target(window, rank);
            target.open.store(SHUT, Ordering::Relaxed);
            let told = self.signal(window, rank, Control::complete, &Message::Complete);
            outcome = outcome.and(complete).and(told);
        }
        window.set_access(CLOSED);
        outcome
    }

    /// Opens an exposure epoch to the processes of a group (MPI_Win_post).
    ///
    /// # Errors
    /// MPI_ERR_ASSERT, MPI_ERR_GROUP, MPI_ERR_RMA_SYNC.
    pub fn post_window(&self, window: &Window, group: &Group, assert: i32) -> Result<()> {
        const KNOWN: i32 = abi::MPI_MODE_NOCHECK | abi::MPI_MODE_NOSTORE | abi::MPI_MODE_NOPUT;
        check_assert(assert, KNOWN, "MPI_Win_post")?;
        let ranks = self.ranks_of(window, group)?;
        {
            let mut epochs = locked(&window.epochs);
            if epochs.posted.is_some() {
                return Err(sync("MPI_Win_post while an exposure epoch is open: call MPI_Win_wait before"));
            }
            epochs.posted = Some(ranks.len() as u32);
        }
        fence(Ordering::SeqCst);
        let own = window.rank();
        ranks
            .into_iter()
            .try_for_each(|rank| self.signal(window, rank, |control| control.post(own), &Message::Post))
    }

    /// The count of completed epochs at which the exposure epoch is over, and how many of them are its own.
    fn end_of_exposure(&self, window: &Window, function: &str) -> Result<(u64, u32)> {
        let epochs = locked(&window.epochs);
        let posted = epochs.posted.ok_or_else(|| sync(format!("{function} without MPI_Win_post")))?;
        Ok((epochs.completed + u64::from(posted), posted))
    }

    fn end_exposure(&self, window: &Window, count: u64) {
        let mut epochs = locked(&window.epochs);
        epochs.posted = None;
        epochs.completed = count;
        fence(Ordering::SeqCst);
    }

    /// Waits for the end of the exposure epoch (MPI_Win_wait).
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC if there is none.
    pub fn wait_window(&self, window: &Window) -> Result<()> {
        let (end, _) = self.end_of_exposure(window, "MPI_Win_wait")?;
        let control = &window.exposure.control;
        self.wait_for(|_| (control.completed() >= end).then_some(()));
        self.end_exposure(window, end);
        Ok(())
    }

    /// Whether the exposure epoch is over; then it is ended (MPI_Win_test).
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC if there is none.
    pub fn test_window(&self, window: &Window) -> Result<bool> {
        let (end, _) = self.end_of_exposure(window, "MPI_Win_test")?;
        let over = self.look_again(|_| window.exposure.control.completed() >= end, |over| !over);
        if over {
            self.end_exposure(window, end);
        }
        Ok(over)
    }
}
