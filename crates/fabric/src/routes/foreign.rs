//! Processes of other launchers that share no memory with this one: it gets sockets when it first has to do with them, if it
//! had none, or is reached on one more network. One whose messages go through daemons has sockets beside them then.
//!
//! Processes of two launchers use memory if all of both are on one machine and have no other transport; else sockets, wherever they
//! are. The launcher knows, and makes what listens.

use super::{Nodes, Reach, Routes};
use crate::Transport;
use oxmpi_sys::net::Listener;
use oxmpi_sys::poller::Poller;
use std::sync::Arc;

/// What a process gets.
pub enum Addition {
    /// A transport that others can connect to: it had none.
    Transport {
        /// It.
        transport: Box<dyn Transport>,
        /// Where processes are: those of other launchers to which memory is the route count as being here.
        nodes: Nodes,
        /// What the process has to sleep on, if it slept on no descriptors before.
        poller: Option<Arc<Poller>>,
    },
    /// One more network on which it is reached.
    Listener(Listener),
}

/// Gets from the launcher what a process needs and does not have; the argument says whether it has a transport that others can connect
/// to. `None`: nothing more.
pub type AskAddition = Box<dyn FnMut(bool) -> Result<Option<Addition>, String> + Send>;

impl Routes {
    /// The same, which get what they need to reach processes of other launchers when there are some.
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
            let connections = self.others.iter_mut().find_map(|other| other.transport.connections());
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
