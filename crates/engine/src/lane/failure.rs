//! Failed processes and revoked communicators, for programs that continue after a failure.
//!
//! A *notice* is a message about a communicator itself. It travels in the collective context, in
//! the order of all messages, even if the context was revoked. No receive takes it, only the owner
//! of the lane by [`Lane::take_notice`]. The lane does not interpret its text.

use super::Lane;
use crate::matching::{NOTICE_TAG, UnexpectedData, is_notice};
use crate::request::{Completion, Fault, Mode, RequestId, Started};
use crate::team::Team;
use oxmpi_fabric::Fabric;
use oxmpi_mem::memory::Owned;
use oxmpi_wire::ContextId;
use std::sync::Arc;

/// A message about a communicator.
#[derive(Debug, PartialEq, Eq)]
pub struct TeamNotice {
    pub context: u32,
    pub id: ContextId,
    pub from: u32,
    pub text: Vec<u8>,
}

impl<F: Fabric> Lane<F> {
    /// Whether, since the last call, a notice has arrived, a process has failed or a context was
    /// revoked.
    #[inline(always)]
    pub fn take_alarm(&mut self) -> bool {
        std::mem::take(&mut self.state.alarm)
    }

    /// The failed processes, in the order in which this process learned of them.
    pub fn lost(&self) -> &[u32] {
        &self.state.lost
    }

    /// A failed process of a team, if there is one.
    pub fn lost_of(&self, team: &Team) -> Option<u32> {
        self.state.lost.iter().copied().find(|process| team.map.rank(*process).is_some())
    }

    /// Acknowledges the first `count` failed members of a context's team, which then no longer end
    /// receives from MPI_ANY_SOURCE.
    pub fn acknowledge(&mut self, context: u32, count: usize) {
        if let Some(own) = self.state.contexts.get_mut(context) {
            own.acknowledged = own.acknowledged.max(count);
        }
    }

    /// The number of acknowledged failed members of a context's team.
    pub fn acknowledged(&self, context: u32) -> usize {
        self.state.contexts.get(context).map_or(0, |own| own.acknowledged)
    }

    /// Sends a notice to a process in a team's collective context, or drops it if the process has
    /// failed. A notice is eager at any length, as its receiver may make no progress.
    pub fn send_notice(&mut self, context: u32, to: u32, text: Vec<u8>) {
        let text = Owned::new(text);
        if let Ok(Started::Pending(request)) =
            self.start_send(context, Mode::Standard, text.buf(), to, NOTICE_TAG)
        {
            self.detach(request);
        }
    }

    /// Takes a notice that has arrived. Notices of one process come in order.
    pub fn take_notice(&mut self) -> Option<TeamNotice> {
        for _ in 0..self.state.notices.len() {
            let index = self.state.notices.pop_front()?;
            let Some(context) = self.state.contexts.get_mut(index) else { continue };
            let id = context.id;
            let Some(key) = context.unexpected.find(|u| is_notice(id, u.tag)) else { continue };
            let text = match context.unexpected.get(key).map(|u| &u.content) {
                Some(UnexpectedData::Short { len, data }) => data[..usize::from(*len)].to_vec(),
                Some(UnexpectedData::Eager { data, total, sync: None }) if data.len() == *total => {
                    data.clone()
                }
                Some(UnexpectedData::Eager { sync: None, .. }) => {
                    self.state.notices.push_back(index);
                    self.state.alarm = true;
                    continue;
                }
                // A notice that this library never sends.
                _ => {
                    self.state.nonsense += 1;
                    context.unexpected.remove(key);
                    continue;
                }
            };
            let from = context.unexpected.remove(key)?.from;
            return Some(TeamNotice { context: index, id, from, text });
        }
        None
    }

    /// The team of a context, if the context is open.
    pub fn team_of(&self, context: u32) -> Option<Arc<Team>> {
        self.state.contexts.get(context)?.team.clone()
    }

    /// As [`Lane::team_of`], by the name of the context.
    pub fn team_called(&self, id: ContextId) -> Option<Arc<Team>> {
        self.team_of(self.state.contexts.index_of(id)?)
    }

    /// The index of this process.
    pub fn me(&self) -> u32 {
        self.state.me
    }

    /// Closes a context that was created by messages and has no team.
    pub fn forget_context(&mut self, context: u32) {
        if self.state.contexts.get(context).is_some_and(|own| own.team.is_none()) {
            self.close_context(context);
        }
    }

    /// Whether a context was revoked.
    pub fn is_revoked(&self, context: u32) -> bool {
        self.state.contexts.get(context).is_some_and(|own| own.revoked)
    }

    /// Revokes the pair of contexts `id`, which need not be open in this process. All active and
    /// new operations there fail with [`Fault::Revoked`]; only notices pass. `false`: the pair was
    /// revoked before.
    pub fn revoke(&mut self, id: ContextId) -> bool {
        let [point_to_point, collective] = self.adopt_pair(id);
        let partitioned = self.state.contexts.index_of(id.partitioned()).unwrap_or(point_to_point);
        let pair = [point_to_point, collective, partitioned];
        if self.is_revoked(point_to_point) {
            return false;
        }
        for request in self.state.requests.active(|context, _| pair.contains(&context)) {
            if self.is_barred(request) {
                self.fabric.release(request.raw());
                if self.state.is_matching {
                    self.withdraw_receive(request);
                }
                self.state.unpost(request);
                self.state.requests.complete(request, Completion::failed(Fault::Revoked));
            }
        }
        pair.into_iter().for_each(|index| self.state.revoke(index));
        true
    }

    /// Whether a request fails in a revoked context. A compound request fails by its parts.
    fn is_barred(&mut self, request: RequestId) -> bool {
        let requests = &mut self.state.requests;
        requests.receive_mut(request).is_some()
            || match requests.send_mut(request) {
                None => false,
                Some(work) => {
                    let (context, tag) = (work.context, work.tag);
                    let id = self.state.contexts.get(context).map(|own| own.id);
                    id.is_none_or(|id| !is_notice(id, tag))
                }
            }
    }
}
