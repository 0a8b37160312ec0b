//! Calls of the program's checkpoint functions (`cr self`) on all ranks together, by a helper
//! thread in each of them (`OwnerStatus::want_call`).
//!
//! 1. A tool requests the functions that save the state of the program. All must return 0. From
//!    this call on, MPI is closed on a rank.
//! 2. When all have returned, MPI is opened again, and the job continues while the tool publishes
//!    the checkpoint.
//! 3. Then the tool requests the functions that continue the program, or the end of the job.

use std::collections::BTreeMap;

use oxmpi_shm::segment::{CheckpointCall, OwnerStatus};

use super::far::hosts_of;
use super::launcher::Launcher;
use oxmpi_rt_client::codec;
use oxmpi_rt_proto::agent::HostOrder;
use oxmpi_rt_proto::held::Layout;
use oxmpi_rt_proto::tool::{ToolReply, ToolRequest};

/// The calls that tools have requested.
#[derive(Debug, Default)]
pub(super) struct Calls {
    present: Option<Calling>,
    /// The number of the last call.
    last: u32,
}

#[derive(Debug)]
struct Calling {
    /// The tool's connection at the entrance.
    asker: u32,
    number: u32,
    /// Whether all have returned.
    is_over: bool,
    returned: BTreeMap<u32, i32>,
}

impl Calls {
    /// The number of the next call.
    fn next(&mut self, call: CheckpointCall) -> u32 {
        self.last = call.next_after(self.last);
        self.last
    }

    /// Begins to wait for the return values of the last call.
    fn begin(&mut self, asker: u32) {
        let (number, returned) = (self.last, BTreeMap::new());
        self.present = Some(Calling { asker, number, is_over: false, returned });
    }

    /// Whether this connection has requested the present call.
    pub(super) fn is_caller(&self, id: u32) -> bool {
        self.present.as_ref().is_some_and(|calling| calling.asker == id)
    }

    /// Whether a call has not returned on all ranks yet.
    fn waits(&self) -> bool {
        self.present.as_ref().is_some_and(|calling| !calling.is_over)
    }

    /// Whether MPI is closed on the ranks.
    fn has_closed(&self) -> bool {
        CheckpointCall::of(self.last) == CheckpointCall::Save
    }
}

/// The return values on ranks of one host so far; an error if a rank cannot call the functions.
pub(crate) fn returned<'s>(
    number: u32,
    ranks: impl Iterator<Item = (u32, &'s OwnerStatus)>,
) -> Result<Vec<(u32, i32)>, String> {
    let mut all = Vec::new();
    for (rank, status) in ranks {
        match status.returned() {
            None => {
                return Err(format!(
                    "rank {rank} cannot call them: it has not left MPI_Init yet, or has not called it but MPI_Session_init"
                ));
            }
            Some((last, value)) if last == number => all.push((rank, value)),
            Some(_) => {}
        }
    }
    Ok(all)
}

impl Launcher<'_> {
    pub(super) fn call_functions(&mut self, id: u32, saves: bool) {
        let reason = match self.why_not_imaged() {
            _ if self.launch.params.cr() != Some("self") => {
                "the job was started without 'cr self'".into()
            }
            Some(reason) => reason,
            None if !saves => "nothing was saved".into(),
            None if self.calls.present.is_some() => {
                "its functions are being called already: try again when that is done".into()
            }
            None if self.job.jobs() > 1 => {
                "it has spawned another job, which has no such functions".into()
            }
            None => return self.begin_call(id, CheckpointCall::Save),
        };
        self.entrance.refuse(id, reason);
    }

    fn begin_call(&mut self, asker: u32, call: CheckpointCall) {
        self.post_call(call);
        self.calls.begin(asker);
    }

    /// Requests a call from the helpers of all ranks.
    fn post_call(&mut self, call: CheckpointCall) {
        let number = self.calls.next(call);
        self.order_all(HostOrder::CallFunctions { number });
    }

    /// Handles a message of that tool; `None`: the tool is gone.
    pub(super) fn handle_caller_message(&mut self, id: u32, said: Option<&ToolRequest>) {
        let is_over = !self.calls.waits();
        let done = ToolReply::Done { text: String::new() };
        match said {
            Some(ToolRequest::CallFunctions { saves: false }) if is_over => {
                return self.begin_call(id, CheckpointCall::Continue);
            }
            Some(ToolRequest::EndHeld { set }) if is_over => {
                self.end_with_checkpoint(set);
            }
            _ => {}
        }
        self.end_calling();
        self.entrance.end(id, &done);
    }

    /// Notes the values of a host.
    pub(super) fn note_returns(&mut self, number: u32, values: Result<Vec<(u32, i32)>, String>) {
        let Some(calling) = self.calls.present.as_mut().filter(|calling| calling.number == number)
        else {
            // About a call that was given up.
            return;
        };
        match values {
            Ok(values) => calling.returned.extend(values),
            Err(reason) => return self.give_up_call(reason),
        }
        // One that has ended before the call returns nothing.
        let ended = self.members.iter().find(|(_, member)| !member.running);
        if let Some(rank) = ended.map(|(rank, _)| rank) {
            return self.give_up_call_of(rank);
        }
        if calling.is_over || calling.returned.len() < self.members.len() {
            return;
        }
        calling.is_over = true;
        let (asker, number) = (calling.asker, calling.number);
        let bad = calling
            .returned
            .iter()
            .find(|(_, value)| **value != 0)
            .map(|(rank, value)| (*rank, *value));
        let names = self.launch.params.cr_self_functions();
        let name = names.map_or_else(
            |_| "the function".into(),
            |[save, _, go_on]| {
                if CheckpointCall::of(number) == CheckpointCall::Save { save.0 } else { go_on.0 }
            },
        );
        match bad {
            Some((rank, value)) => {
                let name_of_rank = self.job.name(rank);
                self.give_up_call(format!("{name} has returned {value} in {name_of_rank}"));
            }
            None if CheckpointCall::of(number) == CheckpointCall::Save => {
                self.post_call(CheckpointCall::Open);
                if let Err(reason) = self.entrance.give(asker, &codec::encode(&self.layout())) {
                    self.give_up_call(reason);
                }
            }
            None => {
                self.end_calling();
                self.entrance.end(asker, &ToolReply::Done { text: String::new() });
            }
        }
    }

    fn layout(&self) -> Layout {
        let own = oxmpi_sys::host::name();
        let mut hosts = hosts_of(self.launch, &own);
        hosts.resize(self.members.len(), own);
        Layout { programs: self.launch.apps.iter().map(super::App::held).collect(), hosts }
    }

    fn end_calling(&mut self) -> Option<Calling> {
        let calling = self.calls.present.take()?;
        if self.calls.has_closed() {
            self.post_call(CheckpointCall::Open);
        }
        Some(calling)
    }

    /// Gives a call up that has not returned on all ranks, as a rank has ended.
    pub(super) fn give_up_call_of(&mut self, rank: u32) {
        if self.calls.waits() {
            let name = self.job.name(rank);
            self.give_up_call(format!("{name} has ended"));
        }
    }

    pub(super) fn give_up_call(&mut self, reason: String) {
        if let Some(calling) = self.end_calling() {
            self.entrance.refuse(calling.asker, reason);
        }
    }
}
