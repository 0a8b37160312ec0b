//! How all connections are given up and made again (rule 10 of the module).

use super::Tcp;
use super::peer::Way;
use crate::{Fabric, Sink};
use oxmpi_sys::net::Listener;
use std::io;

impl Tcp {
    /// Sees that all it has sent arrives. Returns whether that is done; if not, poll and ask again. From then on a connection
    /// that ends is missed by nobody, and stays away. The caller sends nothing before [`Tcp::listen_anew`].
    pub fn quiesce(&mut self) -> bool {
        self.is_quiet = self.is_quiet || self.rest();
        self.is_quiet
    }

    /// Ends all connections, and listens no more: nothing of it is left with the kernel. All who have a connection with this
    /// process have been quiet before.
    pub fn give_up_connections<S: Sink>(&mut self, sink: &mut S) {
        self.stop_listening();
        let now = self.now();
        for at in 0..self.peers.len() as u32 {
            let Some(peer) = self.known(at) else { continue };
            if matches!(peer.way, Way::Apart | Way::Left | Way::Lost(_)) {
                continue;
            }
            // Who is not quiet belongs to another launcher, and is sought again.
            let way = if peer.link.has_delivered() { Way::Apart } else { Way::Pause { until: now } };
            self.part(at, way);
            self.wake_at(now);
        }
        self.tell_news(sink);
    }

    /// Connections are made again, as they are needed; where its peers are now it asks anew. Others connect to the `listeners`,
    /// one for each that there was ([`Tcp::listeners`]).
    ///
    /// # Errors
    /// If one of them cannot be added to the poller.
    pub fn listen_anew(&mut self, listeners: Vec<Listener>) -> io::Result<()> {
        listeners.into_iter().try_for_each(|listener| self.listen_also(listener))?;
        self.is_quiet = false;
        Ok(())
    }
}
