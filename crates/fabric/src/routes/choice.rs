//! Which transport is the route to a peer. It is chosen at first contact, from what is known before any message, and for good.

use super::nodes::Place;

/// Whose messages a transport may carry; what is less reaches fewer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Reach {
    /// Nobody's: others are the route to all.
    Nobody,
    /// Those of the processes of this launcher on the same node.
    Node,
    /// Those of all processes of this launcher.
    Launcher,
    /// Everybody's.
    Everybody,
}

impl Reach {
    /// Whether it covers a process there.
    pub fn covers(self, place: Place) -> bool {
        match (self, place) {
            (Reach::Nobody, _) => false,
            (Reach::Everybody, _) | (Reach::Node | Reach::Launcher, Place::Here) => true,
            (Reach::Launcher, Place::Node(_)) => true,
            (Reach::Node, Place::Node(_)) | (Reach::Node | Reach::Launcher, Place::Foreign) => false,
        }
    }
}

/// A route to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Route {
    /// Shared memory.
    Memory,
    /// The other transport with this number.
    Other(u8),
}

/// The route to a process at `place`: the first of the `offers`, which stand in the order of preference, whose reach covers it.
pub fn choose(place: Place, offers: impl IntoIterator<Item = (Route, Reach)>) -> Option<Route> {
    offers.into_iter().find(|(_, reach)| reach.covers(place)).map(|(route, _)| route)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reach::{Everybody, Launcher, Nobody, Node};
    use Route::{Memory, Other};

    const PLACES: [Place; 3] = [Place::Here, Place::Node(1), Place::Foreign];

    #[test]
    fn the_first_that_covers_the_place_is_the_route() {
        type Offers = &'static [(Route, Reach)];
        let cases: [(Offers, [Option<Route>; 3]); 6] = [
            // A job in shared memory, alone, or with sockets to other nodes and launchers.
            (&[(Memory, Everybody)], [Some(Memory); 3]),
            (&[(Memory, Node), (Other(0), Everybody)], [Some(Memory), Some(Other(0)), Some(Other(0))]),
            // Postboxes between those of the job.
            (
                &[(Other(0), Launcher), (Memory, Node), (Other(1), Everybody)],
                [Some(Other(0)), Some(Other(0)), Some(Other(1))],
            ),
            // Sockets to all; daemons, which reach no foreign process, and sockets to these.
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
