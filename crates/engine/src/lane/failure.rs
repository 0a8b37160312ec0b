//! Processes that fail, and communicators that are revoked: what the engine gives to those who go on after a failure.
//!
//! A *notice* is a message about a communicator itself. It travels in the collective context in the order of all messages, also
//! when the context was revoked, and no receive takes it: whoever owns the lane does, with [`Lane::take_notice`]. The lane
//! knows nothing of what it says.

use super::Lane;
use crate::matching::{Message as Waits, NOTICE_TAG, is_notice};
use crate::request::{Completion, Fault, Mode, RequestId, Started};
use crate::team::Team;
use oxmpi_fabric::Fabric;
use oxmpi_mem::memory::Owned;
use oxmpi_wire::ContextId;
use std::sync::Arc;

/// A message about a communicator.
#[derive(Debug, PartialEq, Eq)]
pub struct Notice {
    /// The index of the collective context in which it came.
    pub context: u32,
    /// The name of that context.
    pub id: ContextId,
    /// The process that sent it.
    pub from: u32,
    /// What it says.
    pub text: Vec<u8>,
}

impl<F: Fabric> Lane<F> {
    /// Whether, since the last such question, a notice has come, a process was lost or a context revoked.
    #[inline(always)]
    pub fn take_alarm(&mut self) -> bool {
        std::mem::take(&mut self.state.alarm)
    }

    /// The processes that are lost, in the order in which that was heard.
    pub fn lost(&self) -> &[u32] {
        &self.state.lost
    }

    /// A process of a team that is lost, if there is one.
    pub fn lost_of(&self, team: &Team) -> Option<u32> {
        self.state.lost.iter().copied().find(|process| team.map.rank(*process).is_some())
    }

    /// From now on the first `count` lost members of a context's team do not keep it from receiving from anybody.
    pub fn acknowledge(&mut self, context: u32, count: usize) {
        if let Some(own) = self.state.contexts.get_mut(context) {
            own.acknowledged = own.acknowledged.max(count);
        }
    }

    /// How many lost members of a context's team were acknowledged.
    pub fn acknowledged(&self, context: u32) -> usize {
        self.state.contexts.get(context).map_or(0, |own| own.acknowledged)
    }

    /// Sends a notice to a process, in a team's collective context. If the process is lost it goes nowhere. It leaves eagerly
    /// whatever its length: nobody can be asked to take it.
    pub fn send_notice(&mut self, context: u32, to: u32, text: Vec<u8>) {
        let text = Owned::new(text);
        if let Ok(Started::Pending(request)) =
            self.start_send(context, Mode::Standard, text.buf(), to, NOTICE_TAG)
        {
            self.detach(request);
        }
    }

    /// A notice that has come; of several from one process the older first.
    pub fn take_notice(&mut self) -> Option<Notice> {
        for _ in 0..self.state.notices.len() {
            let index = self.state.notices.pop_front()?;
            let Some(context) = self.state.contexts.get_mut(index) else { continue };
            let id = context.id;
            let Some(key) = context.unexpected.find(|u| is_notice(id, u.tag)) else { continue };
            let text = match context.unexpected.get(key).map(|u| &u.what) {
                Some(Waits::Short { len, data }) => data[..usize::from(*len)].to_vec(),
                Some(Waits::Eager { data, total, sync: None }) if data.len() == *total => data.clone(),
                Some(Waits::Eager { sync: None, .. }) => {
                    // Its rest is still coming.
                    self.state.notices.push_back(index);
                    self.state.alarm = true;
                    continue;
                }
                // Nothing that this library sends.
                _ => {
                    self.state.nonsense += 1;
                    context.unexpected.remove(key);
                    continue;
                }
            };
            let from = context.unexpected.remove(key)?.from;
            return Some(Notice { context: index, id, from, text });
        }
        None
    }

    /// The team that a context was opened for, if it was.
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

    /// Forgets a context that messages have come for and that no team was opened for.
    pub fn forget_context(&mut self, context: u32) {
        if self.state.contexts.get(context).is_some_and(|own| own.team.is_none()) {
            self.close_context(context);
        }
    }

    /// Whether nobody may talk in a context any more.
    pub fn is_revoked(&self, context: u32) -> bool {
        self.state.contexts.get(context).is_some_and(|own| own.revoked)
    }

    /// Nobody may talk any more in the pair of contexts that is called `id`, which need not be open here yet. What is under
    /// way there fails with [`Fault::Revoked`], and so does all that is begun; only notices pass. Returns `false` if
    /// it was so before.
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

    /// Whether a request cannot go on in a revoked context. Requests made of several fail by their parts.
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
