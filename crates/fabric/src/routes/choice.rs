use super::nodes::PeerNode;

/// The peers whose messages a transport may carry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reach {
    Nobody,
    /// Processes of this launcher on the same node.
    Node,
    Launcher,
    Everybody,
}

impl Reach {
    /// Whether a process at `place` is in reach.
    pub fn covers(self, place: PeerNode) -> bool {
        match (self, place) {
            (Reach::Nobody, _) => false,
            (Reach::Everybody, _) | (Reach::Node | Reach::Launcher, PeerNode::Here) => true,
            (Reach::Launcher, PeerNode::Node(_)) => true,
            (Reach::Node, PeerNode::Node(_))
            | (Reach::Node | Reach::Launcher, PeerNode::Foreign) => false,
        }
    }
}

/// A route to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    Memory,
    Other(u8),
}

/// The route to a process at `place`: the first of `offers` whose reach covers it.
pub fn choose(place: PeerNode, offers: impl IntoIterator<Item = (Route, Reach)>) -> Option<Route> {
    offers.into_iter().find(|(_, reach)| reach.covers(place)).map(|(route, _)| route)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reach::{Everybody, Launcher, Nobody, Node};
    use Route::{Memory, Other};

    const PLACES: [PeerNode; 3] = [PeerNode::Here, PeerNode::Node(1), PeerNode::Foreign];

    #[test]
    fn the_first_that_covers_the_place_is_the_route() {
        type Offers = &'static [(Route, Reach)];
        let cases: [(Offers, [Option<Route>; 3]); 6] = [
            // A job in shared memory: alone, or with sockets to other nodes and launchers.
            (&[(Memory, Everybody)], [Some(Memory); 3]),
            (
                &[(Memory, Node), (Other(0), Everybody)],
                [Some(Memory), Some(Other(0)), Some(Other(0))],
            ),
            // Postboxes between the ranks of the job.
            (
                &[(Other(0), Launcher), (Memory, Node), (Other(1), Everybody)],
                [Some(Other(0)), Some(Other(0)), Some(Other(1))],
            ),
            // Sockets to all; relays without sockets, which reach no foreign process; relays and
            // sockets.
            (&[(Memory, Nobody), (Other(0), Everybody)], [Some(Other(0)); 3]),
            (&[(Memory, Nobody), (Other(0), Launcher)], [Some(Other(0)), Some(Other(0)), None]),
            (
                &[(Memory, Nobody), (Other(0), Launcher), (Other(1), Everybody)],
                [Some(Other(0)), Some(Other(0)), Some(Other(1))],
            ),
        ];
        for (offers, routes) in cases {
            let chosen = PLACES.map(|place| choose(place, offers.iter().copied()));
            assert_eq!(chosen, routes, "{offers:?}");
        }
    }
}
