//! The services of the launcher for a process and its transports.

use crate::dynamic::Bonds;
use oxmpi_abi::constants as abi;
use oxmpi_fabric::peer_segments::{ForeignProcess, OpenSegment, OpenedSegment, PeerSegments};
use oxmpi_fabric::routes::{Addition, AskAddition, Coordinator, Nodes};
use oxmpi_fabric::{Address, Constructor, Listening, Offer, PeerLocation, Services, Situation};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_param::{Module, Params};
use oxmpi_rt_client::client::{Client, Directory, SocketAddresses, UniverseError};
use oxmpi_rt_client::universe::{Contact, ProcessName};
use oxmpi_shm::postbox::PostboxArea;
use oxmpi_sys::barrier::BarrierKind;
use oxmpi_sys::net::Listener;
use oxmpi_sys::poller::Poller;
use oxmpi_wire::Secret;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// The key of a nested poller in the process's poller.
const NESTED: u64 = 1 << 33;

pub(super) struct LauncherServices {
    client: Arc<Client>,
    poller: Option<Arc<Poller>>,
    kind: BarrierKind,
    /// The listener, if the process has it before the transport requests it.
    given: Mutex<Option<Listening>>,
}

impl LauncherServices {
    /// `poller` is that of a process that sleeps on descriptors.
    pub(super) fn new(
        client: Arc<Client>,
        poller: Option<Arc<Poller>>,
        kind: BarrierKind,
    ) -> LauncherServices {
        LauncherServices { client, poller, kind, given: Mutex::new(None) }
    }

    pub(super) fn client(&self) -> &Arc<Client> {
        &self.client
    }

    pub(super) fn additions(&self, params: &Params) -> AskAddition {
        let (params, client, sleeps_on, kind) =
            (params.clone(), self.client.clone(), self.poller.clone(), self.kind);
        Box::new(move |has_sockets| {
            let Some(given) = client.listener_abroad().map_err(|e| e.to_string())? else {
                return Ok(None);
            };
            if let Some(why) = params.no_way_between() {
                return Err(format!(
                    "no memory is shared with them, and sockets are left out: {why}"
                ));
            }
            if has_sockets {
                let listener = Listener::from_fd(given.socket).map_err(|e| e.to_string())?;
                return Ok(Some(Addition::Listener(listener)));
            }
            let boot = *client.segment().boot();
            let alarm = client.alarm(boot.rank).map_err(|e| e.to_string())?;
            let poller = Arc::new(Poller::with_alarm(alarm).map_err(|e| e.to_string())?);
            end_if_closed(&poller, &client);
            let situation = Situation {
                params: &params,
                rank: boot.rank,
                job: boot.base..boot.base.saturating_add(boot.size),
                job_id: boot.job_id,
                node: boot.node,
                local_size: boot.local_size,
                is_between: true,
            };
            let launcher = LauncherServices {
                given: Mutex::new(Some(given)),
                ..LauncherServices::new(client.clone(), Some(poller.clone()), kind)
            };
            let services: Arc<dyn Services> = Arc::new(launcher);
            let constructor = Module::between_nodes().and_then(Constructor::of);
            let opened = constructor.map_or(Ok(None), |made| (made.open)(&situation, &services))?;
            let Some(Offer { transport, .. }) = opened else {
                return Err(
                    "no memory is shared with them, and nothing leads to other nodes".into()
                );
            };
            let nodes = nodes(boot.node.unwrap_or(0), &client);
            let poller = match &sleeps_on {
                Some(all) => {
                    all.add(&*poller, NESTED, false).map_err(|e| e.to_string())?;
                    None
                }
                None => Some(poller),
            };
            Ok(Some(Addition::Transport { transport, nodes, poller }))
        })
    }
}

impl Services for LauncherServices {
    fn poller(&self) -> Option<Arc<Poller>> {
        self.poller.clone()
    }

    /// A peer may get descriptors to sleep on at its first connection with another launcher.
    fn peer_segments(&self) -> PeerSegments {
        let (directory, alarms) = (self.client.clone(), self.client.clone());
        let open: OpenSegment = Box::new(move |peer| opened(&*directory, peer));
        let peer_segments = PeerSegments::new(self.client.segment().clone(), self.kind, open);
        peer_segments.with_alarms(Arc::new(move |peer| alarms.alarm(peer).ok()))
    }

    fn nodes(&self, from: u32) -> std::result::Result<Vec<u32>, String> {
        self.client.nodes(from).map_err(|e| e.to_string())
    }

    fn listener(&self) -> std::result::Result<Listening, String> {
        let given = self.given.lock().unwrap_or_else(PoisonError::into_inner).take();
        given.map_or_else(|| self.client.listener().map_err(|e| e.to_string()), Ok)
    }

    fn locate(&self, peer: u32) -> std::result::Result<PeerLocation, String> {
        let found = self.client.addresses(peer).map_err(|e| e.to_string())?;
        let Some(SocketAddresses { addresses, contact }) = found else {
            return Ok(PeerLocation::Left);
        };
        let addresses = Address::list(&addresses)?;
        Ok(match contact {
            None => PeerLocation::At(addresses),
            Some((contact, secret)) => {
                PeerLocation::Elsewhere(foreign(contact), Secret(secret), addresses)
            }
        })
    }

    fn secret_for(&self, job: u64) -> Option<[u8; 32]> {
        self.client.secret_for(job).ok()
    }

    fn relay(&self) -> std::result::Result<OwnedFd, String> {
        self.client.relay().map_err(|e| e.to_string())
    }

    fn postboxes(&self) -> std::result::Result<(PostboxArea, Vec<i32>), String> {
        let file = self.client.postboxes().map_err(|e| e.to_string())?;
        Ok((file.map().map_err(|e| e.to_string())?, file.semaphores))
    }

    fn say(&self, text: &str) {
        self.client.say(text);
    }
}

/// Ends the job if the program closes the descriptors on which the process sleeps. Without this the
/// process would sleep for ever.
pub(super) fn end_if_closed(poller: &Poller, client: &Arc<Client>) {
    let client = client.clone();
    poller.when_closed(Box::new(move |closed| {
        let text = format!(
            "{closed}, and cannot be opened again: a program may close descriptors that it has opened itself; it may close all \
            descriptors only before MPI_Init"
        );
        if !client.abort(abi::MPI_ERR_OTHER, &text) {
            // No launcher can end the process.
            std::process::abort();
        }
    }));
}

pub(super) fn nodes(own: u32, client: &Arc<Client>) -> Nodes {
    let client = client.clone();
    // A launcher that does not answer has ended, and this process will end, too.
    Nodes::new(own, Box::new(move |from| client.nodes(from).unwrap_or_default()))
}

pub(super) struct Coordination(pub(super) Arc<Client>);

impl Coordinator for Coordination {
    fn reached(&mut self, step: u32) {
        self.0.quiesced(step);
    }

    fn listeners(&mut self, is_sought: bool) -> std::result::Result<Vec<Listener>, String> {
        let mut all = vec![self.0.listener().map_err(|e| e.to_string())?];
        if is_sought {
            all.extend(self.0.listener_abroad().map_err(|e| e.to_string())?);
        }
        all.into_iter()
            .map(|given| Listener::from_fd(given.socket).map_err(|e| e.to_string()))
            .collect()
    }

    fn fail(&mut self, why: &str) {
        self.0.abort(abi::MPI_ERR_OTHER, why);
    }
}

pub(super) struct LauncherBonds(pub(super) Arc<Client>);

impl Bonds for LauncherBonds {
    fn bound(&self, bond: u64, members: &[u32]) {
        self.0.bound(bond, members);
    }

    fn released(&self, bond: u64) {
        self.0.released(bond);
    }

    fn is_over(&self, bond: u64) -> bool {
        self.0.is_over(bond)
    }

    fn place(&self) -> u32 {
        self.0.place()
    }

    fn reach(&self) -> Result<()> {
        self.0.reach().map_err(unreachable)
    }

    fn names(&self, numbers: &[u32]) -> Result<Vec<ProcessName>> {
        self.0.names(numbers).map_err(unreachable)
    }

    fn numbers(&self, names: &[ProcessName]) -> Result<Vec<u32>> {
        self.0.numbers(names).map_err(unreachable)
    }
}

fn unreachable(error: UniverseError) -> MpiError {
    MpiError::new(abi::MPI_ERR_PORT, error.to_string())
}

pub(crate) fn opened(
    directory: &dyn Directory,
    peer: u32,
) -> std::result::Result<OpenedSegment, String> {
    let (fd, contact) = directory.open_peer(peer).map_err(|e| e.to_string())?;
    Ok(OpenedSegment { fd, other: contact.map(foreign) })
}

fn foreign(Contact { universe, number, known_as }: Contact) -> ForeignProcess {
    ForeignProcess { job: universe, number, known_as }
}
