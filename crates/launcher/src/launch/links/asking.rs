//! Requests between launchers: a process's request is forwarded to the launcher that can answer it,
//! and the answer comes back.

use std::collections::{HashMap, VecDeque};
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use super::super::launcher::Launcher;
use super::Links;
use crate::ports::PortName;
use oxmpi_rt_client::control::{Reply, Request};
use oxmpi_rt_client::universe::ProcessName;
use oxmpi_rt_proto::link::{LinkMessage, Resident};

/// Requests without an answer. A process has one at a time.
#[derive(Default)]
pub(super) struct RequestsInFlight {
    drawn: u32,
    /// Requests of our processes, by number.
    questions: HashMap<u32, ForwardedRequest>,
    /// Requests of others' processes, by the process's number here: the launcher and the number of
    /// the request.
    theirs: HashMap<u32, (u64, u32)>,
    /// Our processes that query the end of a communicator: the number of missing answers, and
    /// whether a process still has it.
    bonds: HashMap<u32, (usize, bool)>,
    /// By our process: the communicators that it has freed last, and the other launchers with
    /// members in them.
    parts: HashMap<u32, VecDeque<(u64, Vec<u64>)>>,
}

/// The most communicators of a process that are remembered: as many as threads may free at a time.
/// For others all launchers are queried.
const AT_A_TIME: usize = 64;

struct ForwardedRequest {
    universe: u64,
    asker: u32,
    question: Question,
}

/// How an answer is passed on.
#[derive(Clone, Copy)]
pub(super) enum Question {
    /// Unchanged.
    Plain,
    /// With this process's number here, which differs from that in the answer.
    About(u32),
    /// Counted: whether a process there still has a communicator.
    Bond,
}

impl RequestsInFlight {
    pub(super) fn begin(&mut self, process: u32, (universe, id): (u64, u32)) {
        self.theirs.insert(process, (universe, id));
    }

    pub(super) fn forget_asker(&mut self, rank: u32) {
        self.parts.remove(&rank);
    }

    pub(super) fn forget(&mut self, processes: Range<u32>) {
        self.theirs.retain(|process, _| !processes.contains(process));
    }
}

impl Links {
    /// The launcher of another launcher's process, and the process as that launcher identifies it.
    fn whereto(&self, wanted: u32) -> Option<(ProcessName, Resident)> {
        let (universe, resident) = self.resident(wanted)?;
        let place = self.others.get(&universe).map_or(0, |other| other.place);
        Some((ProcessName { universe, place, ..ProcessName::NONE }, resident))
    }
}

impl Launcher<'_> {
    /// Forwards requests that only another launcher can answer; returns other ones.
    pub(in super::super) fn pass_on(
        &mut self,
        rank: u32,
        request: Request,
        came: Option<OwnedFd>,
    ) -> Option<(Request, Option<OwnedFd>)> {
        if self.links.is_other(rank) {
            if may_ask(&request) {
                return Some((request, came));
            }
            self.conclude(
                rank,
                Err("a process of another mpirun may not send this request".to_string()),
            );
            return None;
        }
        let (to, request, question) = match request {
            Request::Segment { rank: wanted } if self.links.is_other(wanted) => {
                let (to, resident) = self.links.whereto(wanted)?;
                (to, Request::Segment { rank: resident.number }, Question::About(wanted))
            }
            Request::Addresses { rank: wanted } if self.links.is_other(wanted) => {
                let (to, resident) = self.links.whereto(wanted)?;
                (to, Request::Addresses { rank: resident.number }, Question::About(wanted))
            }
            Request::Alarm { rank: wanted } if self.links.is_other(wanted) => {
                let (to, resident) = self.links.whereto(wanted)?;
                (to, Request::Alarm { rank: resident.number }, Question::About(wanted))
            }
            Request::Meet { ref port, .. }
            | Request::Ticket { ref port, .. }
            | Request::GiveBack { ref port, .. } => match PortName::parse(port) {
                Some(PortName { universe, place }) if universe != self.boot.job_id => {
                    let to = ProcessName { universe, place, ..ProcessName::NONE };
                    (to, request, Question::Plain)
                }
                _ => return Some((request, came)),
            },
            Request::Bond { bond } if !self.job.is_bound(bond) => {
                self.query_all_for(rank, bond);
                return None;
            }
            _ => return Some((request, came)),
        };
        self.forward_to_other(to, rank, &request, came, question);
        None
    }

    /// Forwards a request of our process to another launcher.
    pub(super) fn forward_to_other(
        &mut self,
        to: ProcessName,
        asker: u32,
        request: &Request,
        fd: Option<OwnedFd>,
        question: Question,
    ) {
        let universe = to.universe;
        if let Err(why) = self.other(universe, to.place) {
            let why = match request {
                Request::Meet { port, .. }
                | Request::Ticket { port, .. }
                | Request::GiveBack { port, .. } => {
                    format!("there is no port '{port}': {why}")
                }
                _ => why,
            };
            return self.answer_forwarded(
                &ForwardedRequest { universe, asker, question },
                Err(why),
                None,
            );
        }
        let job = self.job.first_of(asker).zip(self.job.size_of(asker));
        let Some((first, size)) = job else { return };
        let asking = &mut self.links.asking;
        asking.drawn = asking.drawn.wrapping_add(1);
        let id = asking.drawn;
        let process = Resident { number: asker, first, size };
        let message = LinkMessage::Ask { id, process, request: request.encode() }.encode();
        let forwarded = ForwardedRequest { universe, asker, question };
        if message.is_none() {
            return self.answer_forwarded(
                &forwarded,
                Err("the request is too long for another mpirun".into()),
                None,
            );
        }
        asking.questions.insert(id, forwarded);
        self.links.post_to(universe, message, fd);
    }

    /// Notes the launchers with members in a communicator that our process is about to free.
    pub(in super::super) fn note_parts(&mut self, rank: u32, bond: u64) {
        let jobs =
            self.job.bound_by(rank, bond).iter().filter_map(|first| self.links.jobs.get(first));
        let mut parts: Vec<u64> = jobs.map(|job| job.universe).collect();
        parts.sort_unstable();
        parts.dedup();
        let all = self.links.asking.parts.entry(rank).or_default();
        all.truncate(AT_A_TIME - 1);
        all.push_front((bond, parts));
    }

    /// Queries all launchers with members in a communicator whether a process still has it.
    fn query_all_for(&mut self, asker: u32, bond: u64) {
        let given_up = self.links.asking.parts.get(&asker);
        let parts = given_up.and_then(|all| all.iter().find(|(given_up, _)| *given_up == bond));
        let parts = parts.map(|(_, parts)| parts.clone());
        let parts = parts.unwrap_or_else(|| self.links.others.keys().copied().collect());
        let place = |universe| Some((universe, self.links.others.get(&universe)?.place));
        // A launcher that is gone has no members any more.
        let all: Vec<(u64, u32)> = parts.into_iter().filter_map(place).collect();
        if all.is_empty() {
            return self.conclude(asker, Ok((true.into(), String::new())));
        }
        self.links.asking.bonds.insert(asker, (all.len(), false));
        for (universe, place) in all {
            let to = ProcessName { universe, place, ..ProcessName::NONE };
            self.forward_to_other(to, asker, &Request::Bond { bond }, None, Question::Bond);
        }
    }

    pub(super) fn handle_answer(
        &mut self,
        (universe, id): (u64, u32),
        reply: &[u8],
        fd: Option<OwnedFd>,
    ) {
        let forwarded = match self.links.asking.questions.remove(&id) {
            Some(forwarded) if forwarded.universe == universe => forwarded,
            _ => return,
        };
        let reply = Reply::decode(reply).map_err(|error| error.to_string());
        self.answer_forwarded(&forwarded, reply, fd);
    }

    fn answer_forwarded(
        &mut self,
        forwarded: &ForwardedRequest,
        reply: Result<Reply, String>,
        fd: Option<OwnedFd>,
    ) {
        let ForwardedRequest { universe, asker, question } = *forwarded;
        let reply = reply.unwrap_or_else(|reason| Reply::Refused { rank: asker, reason });
        let reply = match (question, reply) {
            (Question::Bond, reply) => return self.count_bond(asker, &reply),
            (Question::About(rank), Reply::Segment { contact, .. }) => {
                Reply::Segment { rank, contact }
            }
            (Question::About(rank), Reply::Addresses { addresses, contact, .. }) => {
                let secret = self.links.others.get(&universe).map_or([0; 32], |other| other.secret);
                let contact = contact.map(|(contact, _)| (contact, secret));
                Reply::Addresses { rank, addresses, contact }
            }
            (Question::About(rank), Reply::Alarm { .. }) => Reply::Alarm { rank },
            (Question::About(rank), Reply::Left { .. }) => Reply::Left { rank },
            (Question::About(rank), Reply::Refused { reason, .. }) => {
                Reply::Refused { rank, reason }
            }
            (_, reply) => reply,
        };
        self.answer(asker, &reply, fd.as_ref().map(AsFd::as_fd));
    }

    fn count_bond(&mut self, asker: u32, reply: &Reply) {
        let Some((missing, is_bound)) = self.links.asking.bonds.get_mut(&asker) else { return };
        *missing -= 1;
        // A launcher that does not answer is gone, or has no members.
        *is_bound |= matches!(reply, Reply::Done { number: 0, .. });
        if *missing == 0 {
            let is_over = !*is_bound;
            self.links.asking.bonds.remove(&asker);
            self.conclude(asker, Ok((is_over.into(), String::new())));
        }
    }

    /// Answers the requests to a launcher that is gone.
    pub(super) fn give_up_questions(&mut self, universe: u64, why: &str) {
        let asking = &mut self.links.asking;
        asking.theirs.retain(|_, (other, _)| *other != universe);
        let lost: Vec<u32> = asking
            .questions
            .iter()
            .filter(|(_, forwarded)| forwarded.universe == universe)
            .map(|(id, _)| *id)
            .collect();
        for id in lost {
            if let Some(forwarded) = self.links.asking.questions.remove(&id) {
                self.answer_forwarded(&forwarded, Err(format!("its mpirun: {why}")), None);
            }
        }
    }

    pub(in super::super) fn answer_other(
        &mut self,
        rank: u32,
        reply: &Reply,
        fd: Option<BorrowedFd<'_>>,
    ) -> bool {
        let Some((universe, id)) = self.links.asking.theirs.remove(&rank) else { return false };
        let (reply, fd) = match fd.map(|fd| fd.try_clone_to_owned()).transpose() {
            Ok(fd) => (reply.encode(), fd),
            Err(error) => (Reply::Refused { rank, reason: error.to_string() }.encode(), None),
        };
        let (answer, fd) = match (LinkMessage::Answer { id, reply }).encode() {
            Some(answer) => (Some(answer), fd),
            None => {
                let reason = "the answer is too long for another mpirun".to_string();
                let reply = Reply::Refused { rank, reason }.encode();
                (LinkMessage::Answer { id, reply }.encode(), None)
            }
        };
        self.links.post_to(universe, answer, fd);
        true
    }
}

fn may_ask(request: &Request) -> bool {
    matches!(
        request,
        Request::Segment { .. }
            | Request::Addresses { .. }
            | Request::Alarm { .. }
            | Request::Meet { .. }
            | Request::Ticket { .. }
            | Request::GiveBack { .. }
            | Request::LookUp { .. }
            | Request::Bond { .. }
    )
}
