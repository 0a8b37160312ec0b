//! Agents whose parent, a child of the head, is lost, in a job that survives failures (rule 5 of
//! [`crate::hosts::tree`]).

use std::time::{Duration, Instant};

use super::super::launcher::{AGENT_STREAM, JobMember, Launcher};
use crate::hosts::child::{Child, numbered};
use crate::hosts::head::RemoteAgent;
use crate::hosts::lifelines::StrandedArrival;
use crate::hosts::tree::Stranded;
use oxmpi_rt_client::control::Reply;
use oxmpi_rt_proto::agent::{DownRoute, Receivers, ToAgent, UpRoute};

/// After this count of messages of a host they are acknowledged.
const ACKNOWLEDGED: u64 = 32;

impl Launcher<'_> {
    /// Whether a message is the next one of its host; acknowledges some. One that has come before
    /// is not, nor one behind a gap: the host sends all of the gap again, and then that one too.
    pub(in super::super) fn is_new(&mut self, at: usize, route: &UpRoute) -> bool {
        if route.number == 0 {
            return true;
        }
        let last = self.received.entry(route.node).or_default();
        let is_new = route.number == *last + 1;
        *last += u64::from(is_new);
        let number = *last;
        let Some(Some(far)) = self.far.get_mut(at) else { return is_new };
        if !is_new {
            far.child.owed += u64::from(route.output);
        }
        if is_new && number.is_multiple_of(ACKNOWLEDGED) {
            far.post_to(route.node, &ToAgent::Received { number });
        }
        is_new
    }

    /// Keeps a message for agents that have lost their parent: those of the branch `at`, or of all.
    pub(in super::super) fn keep_for_stranded(
        &mut self,
        at: Option<usize>,
        message: &ToAgent,
        to: &Receivers,
    ) {
        let is_for =
            |of: usize, stranded: &Stranded| at.is_none_or(|at| at == of) && stranded.are_for(to);
        for (_, stranded) in self.stranded.iter_mut().filter(|(of, all)| is_for(*of, all)) {
            let number = numbered(self.numbers.as_deref(), message);
            if number > 0 {
                let route = DownRoute { to: to.clone(), round: None, number };
                stranded.kept.keep(number, message.encode(&route));
            }
        }
    }

    /// Requests the addresses of a process whose agent may come back.
    pub(in super::super) fn request_addresses_of_stranded(&mut self, asker: u32, wanted: u32) {
        let node = self.members.get(&wanted).map(|member| member.node);
        let to = Receivers::Nodes(node.into_iter().collect());
        if self.stranded.iter().any(|(_, stranded)| stranded.are_for(&to)) {
            self.stranded_requests.push((asker, wanted));
            return self.keep_for_stranded(None, &ToAgent::Where { asker, rank: wanted }, &to);
        }
        let reason = "the agent of its host is lost".to_string();
        self.answer(asker, &Reply::Refused { rank: wanted, reason }, None);
    }

    /// Keeps the requests whose answers may still come, and returns the others.
    pub(super) fn put_back_requests(&mut self, requests: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
        let is_kept = |(_, wanted): &(u32, u32)| {
            let node = self.members.get(wanted).map_or(u32::MAX, |member| member.node);
            self.stranded.iter().any(|(_, of)| of.hosts.iter().any(|(host, _)| *host == node))
        };
        let (kept, others) = requests.into_iter().partition(is_kept);
        self.stranded_requests.extend::<Vec<_>>(kept);
        others
    }

    /// Takes over the agents that have come.
    pub(in super::super) fn adopt_arrived(&mut self) {
        for arrival in self.lifelines.take_arrived() {
            let place = self.stranded.iter_mut().enumerate();
            let found =
                place.filter_map(|(place, (at, of))| Some((place, *at, of.take(&arrival.nodes)?)));
            match { found }.next() {
                Some((place, at, hosts)) => self.adopt((place, at), hosts, arrival),
                None => self.lifelines.keep_for_later(arrival),
            }
        }
        self.stranded.retain(|(_, stranded)| !stranded.hosts.is_empty());
    }

    fn adopt(
        &mut self,
        (place, lost): (usize, usize),
        hosts: Vec<(u32, String)>,
        arrival: StrandedArrival,
    ) {
        let (_, stranded) = &self.stranded[place];
        let mut child = Child::adopt(arrival, hosts, &stranded.kept, None);
        child.numbers.clone_from(&self.numbers);
        let at = self.far.len();
        for member in self.members.values_mut() {
            let JobMember { node, host, .. } = member;
            if *host == Some(lost) && child.nodes().any(|of| of == *node) {
                *host = Some(at);
            }
        }
        let listened = self.host.listen(child.stream.input(), AGENT_STREAM, at as u32);
        let silence = Duration::from_secs(self.launch.params.mpi_agent_silence_s());
        let mut far = RemoteAgent::new(child, silence);
        let members = &self.members;
        let is_its = |(_, wanted): &mut (u32, u32)| {
            members.get(wanted).is_some_and(|member| member.host == Some(at))
        };
        far.address_requests.extend(self.stranded_requests.extract_if(.., is_its));
        self.far.push(Some(far));
        if let Err(error) = listened {
            self.lose_host(at, Some(error.into()));
        }
    }

    /// Agents that have not come in time are lost.
    pub(in super::super) fn lose_late_stranded(&mut self, now: Instant) {
        let late = self.stranded.extract_if(.., |(_, stranded)| stranded.until <= now);
        for (at, stranded) in late.collect::<Vec<_>>() {
            for (lost, _) in stranded.hosts {
                let members = &self.members;
                let is_its = |(_, wanted): &mut (u32, u32)| {
                    members.get(wanted).is_some_and(|member| member.node == lost)
                };
                let requests = self.stranded_requests.extract_if(.., is_its).collect();
                let text = "it has not come to mpirun after the loss of its parent".to_string();
                self.note_lost(at, &[lost], text, requests);
            }
        }
    }
}
