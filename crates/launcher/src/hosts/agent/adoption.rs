//! What an agent does when an agent above or below it is lost, in a job that survives failures
//! (rule 5 of [`super::super::tree`]).

use std::io;
use std::time::{Duration, Instant};

use oxmpi_wire::Secret;
use tracing::{info, warn};

use super::super::child::Child;
use super::super::encrypted::EncryptedSocket;
use super::{Agent, HEAD, LIFELINES, Stream};
use oxmpi_daemon::interfaces::near_first;
use oxmpi_rt_proto::agent::{
    DownRoute, FromAgent, LifelineOffer, OfferedLifelines, Receivers, ToAgent,
};
use oxmpi_rt_proto::daemon::Purpose;

/// After this count of the head's messages they are acknowledged.
const ACKNOWLEDGED: u32 = 64;
/// The limit for a connection with the grandparent.
const REACHING: Duration = Duration::from_secs(10);

impl Agent<'_> {
    /// Sends a sign of life, with the number of the last message that the whole branch has.
    pub(super) fn acknowledge(&mut self) {
        let kept = self.children.iter().flatten().map(|child| &child.kept);
        let kept = kept.chain(self.stranded.iter().map(|stranded| &stranded.kept));
        let missing = kept.filter_map(|kept| Some(kept.first()? - 1)).min();
        let number = missing.map_or(self.last_got.0, |number| number.min(self.last_got.0));
        self.last_got.1 = 0;
        self.post(&FromAgent::Alive { number });
    }

    /// Notes a numbered message of the head.
    pub(super) fn note_number(&mut self, route: &DownRoute, frame: &[u8]) {
        self.last_got = (route.number, self.last_got.1 + 1);
        for stranded in self.stranded.iter_mut().filter(|stranded| stranded.are_for(&route.to)) {
            stranded.kept.keep(route.number, frame.to_vec());
        }
        if self.last_got.1 >= ACKNOWLEDGED {
            self.acknowledge();
        }
    }

    /// The parent is lost: connects with the grandparent. Returns whether the agent goes on.
    pub(super) fn move_to_grandparent(&mut self) -> bool {
        let Some(adopter) = self.adopter.take().filter(|_| self.adopted_until.is_none()) else {
            return false;
        };
        let nodes = self.node.into_iter().chain(self.nodes_below()).collect();
        let node = self.node.unwrap_or_default();
        let purpose = Purpose::Stranded { node, number: self.last_got.0, nodes };
        let reached = reach(&adopter, purpose, self.silence).and_then(|stream| {
            self.host.listen(stream.input(), HEAD, 0)?;
            Ok(stream)
        });
        match reached {
            Ok(stream) => {
                info!("the parent is lost; connected with the grandparent");
                (self.head, self.is_waiting_for_room) = (stream, false);
                (self.lifeline, self.is_moving) = (None, true);
                // The grandparent may notice the loss later.
                self.adopted_until = Some(Instant::now() + 2 * self.silence);
                (self.parent, self.under_way) = (Some(adopter), 0);
                true
            }
            Err(error) => {
                warn!(%error, "the parent is lost, and the grandparent cannot be reached");
                false
            }
        }
    }

    fn nodes_below(&self) -> Vec<u32> {
        let stranded = self.stranded.iter().flat_map(|stranded| &stranded.hosts);
        let stranded = stranded.map(|(node, _)| *node);
        self.children.iter().flatten().flat_map(Child::nodes).chain(stranded).collect()
    }

    /// The grandparent is the parent from now on.
    pub(super) fn note_new_parent(&mut self, adopter: Option<LifelineOffer>) {
        (self.adopter, self.adopted_until, self.lifeline) = (adopter, None, None);
        self.name_grandparent();
    }

    /// Sends the children the way to their grandparent, which is this agent's parent.
    pub(super) fn name_grandparent(&mut self) {
        let Some((parent, own)) = self.parent.clone().zip(self.own_way.clone()) else { return };
        for child in self.children.iter_mut().flatten().filter(|_| self.survives) {
            let adopter = Some(parent.clone());
            let offered = OfferedLifelines { parent: own.clone(), is_needed: false, adopter };
            child.post(&ToAgent::Lifeline(offered), Receivers::Child, None);
        }
    }

    /// Sends all again that the head may not have.
    pub(super) fn resend(&mut self) {
        self.sent.clear();
        let kept: Vec<Vec<u8>> = self.kept.after(0).map(|(_, frame)| frame.clone()).collect();
        info!(messages = kept.len(), events = self.all_events.len(), "sending again");
        for frame in kept {
            let output = FromAgent::open(&frame).map_or(0, |(route, _)| route.output);
            self.under_way += u64::from(output);
            self.head.post(&frame);
        }
        self.is_moving = false;
        let events = self.all_events.clone();
        if !events.is_empty() {
            self.post_now(&FromAgent::Events(events));
        }
        self.send_events();
    }

    pub(super) fn lifeline_ready(&mut self, number: u32) {
        self.lifelines.ready(number, &self.host.events, LIFELINES << 32);
    }

    /// Takes over the agents that have come.
    pub(super) fn adopt_arrived(&mut self) {
        for arrival in self.lifelines.take_arrived() {
            let take = |stranded: &mut super::Stranded| {
                Some((stranded.take(&arrival.nodes)?, std::mem::take(&mut stranded.kept)))
            };
            let Some((at, (hosts, kept))) =
                self.stranded.iter_mut().enumerate().find_map(|(at, of)| Some((at, take(of)?)))
            else {
                self.lifelines.keep_for_later(arrival);
                continue;
            };
            self.junction.adopt(hosts.iter().map(|(node, _)| *node).collect());
            let child = Child::adopt(arrival, hosts, &kept, self.parent.clone());
            self.stranded[at].kept = kept;
            let index = self.children.len();
            let watched = self.watch_child(index, &child);
            self.children.push(Some(child));
            if let Err(error) = watched {
                self.lose_child(index, Some(error));
            }
        }
        self.stranded.retain(|stranded| !stranded.hosts.is_empty());
    }

    /// Agents that have not come in time are lost.
    pub(super) fn lose_late_stranded(&mut self, now: Instant) {
        for stranded in
            self.stranded.extract_if(.., |stranded| stranded.until <= now).collect::<Vec<_>>()
        {
            for (node, _) in stranded.hosts {
                let text = "it has not come to the parent of its lost parent".to_string();
                self.post(&FromAgent::HostsLost { nodes: vec![node], text });
            }
        }
    }
}

/// Connects with the grandparent, and says which agent has come.
fn reach(offer: &LifelineOffer, purpose: Purpose, silence: Duration) -> io::Result<Stream> {
    let mut addresses = offer.addresses.clone();
    near_first(&mut addresses);
    let until = Instant::now() + REACHING;
    let mut last = io::Error::from(io::ErrorKind::AddrNotAvailable);
    for address in addresses {
        let dialed = EncryptedSocket::dial(address, &[], &Secret(offer.secret), &purpose, until);
        match dialed {
            Ok(link) => return link.into_stream(Some(silence)),
            Err(error) => last = error,
        }
    }
    Err(last)
}
