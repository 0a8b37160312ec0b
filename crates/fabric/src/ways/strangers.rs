//! Processes of other launchers that share no memory with this one: it gets sockets when it first has to do with them, if it had none,
//! or is reached on one more network.
//!
//! Processes of two launchers use memory if all of both are on one machine and have no other way; else sockets, wherever they
//! are. The launcher knows, and makes what listens.

use super::far::Sockets;
use super::{Far, Nodes, Ways};
use crate::Fabric;
use oxmpi_os::net::Listener;
use oxmpi_os::poller::Poller;
use std::sync::Arc;

/// What a process gets.
pub enum Way {
    /// Sockets: it had none.
    Sockets {
        /// They.
        far: Far,
        /// To whom memory stays the way.
        nodes: Nodes,
        /// What the process has to sleep on.
        poller: Arc<Poller>,
    },
    /// One more network on which it is reached.
    Listener(Listener),
}

/// Asks the launcher for what a process needs and does not have; it knows by the argument whether it has sockets. `None`: nothing
/// more.
pub type AskWay = Box<dyn FnMut(bool) -> Result<Option<Way>, String> + Send>;

impl Ways {
    /// The same, which get what they need to reach processes of other launchers when there are some.
    #[must_use]
    pub fn with_strangers(self, ask: AskWay) -> Ways {
        Ways { ask_way: Some(ask), ..self }
    }

    pub(super) fn ask_for_strangers(&mut self) -> Result<Option<Arc<Poller>>, String> {
        let Some(mut ask) = self.ask_way.take() else { return Ok(None) };
        let mut sleeps_on = None;
        let result = loop {
            match ask(self.sockets().is_some()) {
                Ok(None) => break Ok(sleeps_on),
                Ok(Some(Way::Sockets { mut far, nodes, poller })) => {
                    if self.is_shared {
                        far.share_among_threads();
                    }
                    self.others.get_or_insert_default().sockets = Some(Sockets::added(far, nodes));
                    self.looks_are_short = false;
                    sleeps_on = Some(poller);
                }
                Ok(Some(Way::Listener(listener))) => {
                    let added = match self.sockets() {
                        Some(Sockets { far: Far::Tcp(tcp), .. }) => {
                            tcp.listen_also(listener).map_err(|error| error.to_string())
                        }
                        _ => Err("it has no sockets to listen with".to_string()),
                    };
                    if let Err(why) = added {
                        break Err(why);
                    }
                }
                Err(why) => break Err(why),
            }
        };
        self.ask_way = Some(ask);
        result
    }
}
