//! Processes of other launchers that share no memory with this one: it gets sockets when it first has to do with them, if it
//! had none, or is reached on one more network. One whose messages go through daemons has sockets beside them then.
//!
//! Processes of two launchers use memory if all of both are on one machine and have no other way; else sockets, wherever they
//! are. The launcher knows, and makes what listens.

use super::far::Sockets;
use super::{Far, Nodes, Ways};
use crate::Fabric;
use crate::tcp::Tcp;
use oxmpi_sys::net::Listener;
use oxmpi_sys::poller::Poller;
use std::sync::Arc;

/// What a process gets.
pub enum Way {
    /// Sockets: it had none.
    Sockets {
        /// They.
        tcp: Box<Tcp>,
        /// To whom memory, or the daemon, stays the way.
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
            let has_sockets = self.sockets().is_some_and(|sockets| sockets.far.sockets().is_some());
            match ask(has_sockets) {
                Ok(None) => break Ok(sleeps_on),
                Ok(Some(Way::Sockets { mut tcp, nodes, poller })) => {
                    if self.is_shared {
                        tcp.share_among_threads();
                    }
                    if let Some(Sockets { far: Far::Lamd(lamd), .. }) = self.sockets() {
                        // The process sleeps on descriptors already.
                        if let Err(error) = lamd.sleep_on_also(&poller) {
                            break Err(error.to_string());
                        }
                    } else {
                        sleeps_on = Some(poller);
                    }
                    let others = self.others.get_or_insert_default();
                    others.sockets = Some(match others.sockets.take() {
                        Some(sockets) => sockets.with_strangers(*tcp, nodes),
                        None => Sockets::added(Far::Tcp(tcp), nodes),
                    });
                    self.looks_are_short = false;
                }
                Ok(Some(Way::Listener(listener))) => {
                    let added = match self.sockets().and_then(|sockets| sockets.far.sockets()) {
                        Some(tcp) => tcp.listen_also(listener).map_err(|error| error.to_string()),
                        None => Err("it has no sockets to listen with".to_string()),
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
