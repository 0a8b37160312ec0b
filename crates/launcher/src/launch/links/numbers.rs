//! The numbers of other launchers' processes here, consecutive for a job, and the names of
//! processes that are valid everywhere.

use super::super::launcher::Launcher;
use super::{Links, MAX_NUMBER, OtherJob};
use crate::job::JobEvent;
use oxmpi_rt_client::universe::ProcessName;
use oxmpi_rt_proto::link::{LinkMessage, Resident};

impl Links {
    pub(in super::super) fn is_other(&self, number: u32) -> bool {
        self.resident(number).is_some()
    }

    /// The universe of a process of another launcher, and the process as that launcher identifies
    /// it.
    pub(super) fn resident(&self, number: u32) -> Option<(u64, Resident)> {
        let (here, job) = self.jobs.range(..=number).next_back()?;
        let rank = number - here;
        let resident = Resident { number: job.first + rank, first: job.first, size: job.size };
        (rank < job.size).then_some((job.universe, resident))
    }

    /// The number here of another launcher's process, if it has one.
    pub(super) fn number(&self, universe: u64, number: u32) -> Option<u32> {
        let of_it = |(_, job): &(&u32, &OtherJob)| {
            job.universe == universe
                && number.checked_sub(job.first).is_some_and(|rank| rank < job.size)
        };
        let (here, job) = self.jobs.iter().find(of_it)?;
        Some(here + (number - job.first))
    }

    /// Forgets a job that no process here communicates with.
    pub(in super::super) fn forget(&mut self, first: u32) {
        if let Some(job) = self.jobs.remove(&first) {
            self.asking.forget(first..first + job.size);
        }
    }
}

impl Launcher<'_> {
    /// The number here of another launcher's process; numbers its job if necessary. An error if no
    /// numbers are left.
    pub(super) fn number_for(&mut self, universe: u64, process: Resident) -> Result<u32, String> {
        if let Some(number) = self.links.number(universe, process.number) {
            return Ok(number);
        }
        let Resident { number, first, size } = process;
        let here = self.job.next();
        if number.wrapping_sub(first) >= size {
            return Err(format!(
                "process {number} of another mpirun is not among the {size} of its job from {first} on"
            ));
        }
        if here.checked_add(size).is_none_or(|end| end > MAX_NUMBER) {
            return Err(format!(
                "this mpirun has no numbers left for the {size} processes of another mpirun's job: it has numbered \
                 {here} of {MAX_NUMBER}"
            ));
        }
        let name = match self.links.others.get(&universe) {
            Some(other) => format!("the job of mpirun {}", other.pid),
            None => "the job of another mpirun".to_string(),
        };
        self.handle_event(JobEvent::Met { ranks: size, name });
        self.links.jobs.insert(here, OtherJob { universe, first, size });
        // Some may have ended before.
        self.links.post_to(universe, LinkMessage::Numbered { first, size }.encode(), None);
        Ok(here + (number - first))
    }

    pub(in super::super) fn names(&self, numbers: &[u32]) -> Result<Vec<ProcessName>, String> {
        let name = |number: &u32| {
            if let Some((universe, Resident { number, first, size })) = self.links.resident(*number)
            {
                let place = self.links.others.get(&universe).map(|other| other.place);
                let place = place.ok_or("its mpirun has ended")?;
                return Ok(ProcessName { universe, place, number, first, size });
            }
            let job = self.job.first_of(*number).zip(self.job.size_of(*number));
            let (first, size) = job.ok_or_else(|| self.why_gone(*number))?;
            let (universe, place) = (self.boot.job_id, self.links.place());
            Ok(ProcessName { universe, place, number: *number, first, size })
        };
        numbers.iter().map(name).collect()
    }

    /// The numbers here of processes; an error if one cannot be reached.
    pub(in super::super) fn numbers(&mut self, names: &[ProcessName]) -> Result<Vec<u32>, String> {
        let mut numbers = Vec::with_capacity(names.len());
        for ProcessName { universe, place, number, first, size } in names.iter().copied() {
            if universe == self.boot.job_id {
                numbers.push(number);
                continue;
            }
            self.other(universe, place)?;
            numbers.push(self.number_for(universe, Resident { number, first, size })?);
        }
        Ok(numbers)
    }
}
