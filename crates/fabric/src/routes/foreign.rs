//! Processes of other launchers that share no memory with this process. At the first contact with
//! one, this process gets sockets if it has none, or one more network on which others reach it. A
//! process whose messages go through relays gets sockets, too.
//!
//! Processes of two launchers use memory if both jobs are on one machine and have no other
//! transport; otherwise they use sockets. The launcher decides, and makes the listening sockets.

use super::{Nodes, Reach, Routes};
use crate::Transport;
use oxmpi_sys::net::Listener;
use oxmpi_sys::poller::Poller;
use std::sync::Arc;

/// An addition to the transports of a process.
pub enum Addition {
    /// A transport to which others can connect; the process had none.
    Transport {
        transport: Box<dyn Transport>,
        /// Counts processes of other launchers that share memory as processes of this node.
        nodes: Nodes,
        /// Set if the process slept on no descriptors before.
        poller: Option<Arc<Poller>>,
    },
    /// One more network on which others reach the process.
    Listener(Listener),
}

/// Requests an addition from the launcher. The argument: the process has a transport to which
/// others can connect. `None`: the process needs nothing more.
pub type AskAddition = Box<dyn FnMut(bool) -> Result<Option<Addition>, String> + Send>;

impl Routes {
    /// Requests additions by `ask` when the process meets processes of other launchers.
    #[must_use]
    pub fn with_additions(self, ask: AskAddition) -> Routes {
        Routes { ask_addition: Some(ask), ..self }
    }

    pub(super) fn add_for_foreign(&mut self) -> Result<Option<Arc<Poller>>, String> {
        let Some(mut ask) = self.ask_addition.take() else { return Ok(None) };
        let result = self.add_all(&mut ask);
        self.ask_addition = Some(ask);
        result
    }

    fn add_all(&mut self, ask: &mut AskAddition) -> Result<Option<Arc<Poller>>, String> {
        let mut sleeps_on = None;
        loop {
            let connections =
                self.others.iter_mut().find_map(|other| other.transport.connections());
            let Some(addition) = ask(connections.is_some())? else { return Ok(sleeps_on) };
            match addition {
                Addition::Transport { transport, nodes, poller } => {
                    sleeps_on = poller.or(sleeps_on);
                    self.add_transport(transport, nodes);
                }
                Addition::Listener(listener) => match connections {
                    Some(connections) => {
                        connections.listen_also(listener).map_err(|error| error.to_string())?
                    }
                    None => return Err("it has no sockets to listen with".to_string()),
                },
            }
        }
    }

    fn add_transport(&mut self, mut transport: Box<dyn Transport>, nodes: Nodes) {
        if self.is_shared {
            transport.share_among_threads();
        }
        if self.memory == Reach::Everybody {
            self.memory = Reach::Node;
        }
        self.nodes.get_or_insert(nodes);
        self.add(transport, Reach::Everybody);
    }
}
