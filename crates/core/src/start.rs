//! A process from what the launcher has handed over, or from nothing (a singleton).

use crate::dynamic::Bonds;
use crate::dynamic::spawn::Parents;
use crate::modules::Modules;
use crate::{Communicator, Process, copy_costs};
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Transport;
use oxmpi_fabric::lamd::Lamd;
use oxmpi_fabric::neighbours::{ForeignProcess, Neighbours, Open, Opened};
use oxmpi_fabric::postboxes::{self, Postboxes};
use oxmpi_fabric::routes::{Addition, AskAddition, Coordinator, Nodes, Reach, Routes};
use oxmpi_fabric::shm::copy_policy::{CopyFacts, Proximity, SingleCopyMode};
use oxmpi_fabric::shm::{Settings, Shm};
use oxmpi_fabric::tcp::{self, Identity, Secret, Tcp, Whereabouts};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_param::{Param, ParamError, Params, SelectError, SingleCopy, Source, Transport as Selected};
use oxmpi_rt::client::{
    BootError, Client, Directory, Found, Listening, UniverseError, encrypt, socket_buffers,
};
use oxmpi_rt::foreign::{ForeignTask, may_be_singleton};
use oxmpi_rt::postboxes::postbox_sizes;
use oxmpi_rt::universe::{Contact, Parent, ProcessName};
use oxmpi_shm::door::{Door, Looks, Policy};
use oxmpi_shm::heap::Heap;
use oxmpi_sys::barrier::BarrierKind;
use oxmpi_sys::lock::LockError;
use oxmpi_sys::net::Listener;
use oxmpi_sys::pause::Pause;
use oxmpi_sys::poller::Poller;
use oxmpi_sys::semaphore::OwnSemaphores;
use oxmpi_sys::{host, library};
use oxmpi_tuned::settings::{self, SettingsError};
use std::fmt;
use std::sync::Arc;

/// Looks of a rank over usysv before it yields, if there are more ranks than processors and nobody has said otherwise.
const CROWDED_LOOKS: u32 = 10;

/// A process of this program's own: what MPI_Init makes.
#[derive(Debug)]
pub struct Started {
    /// The rank.
    pub process: Process<Routes>,
    /// Its connection to the launcher.
    pub client: Arc<Client>,
    /// Whether the arguments of calls are to be checked where that costs (parameter mpi_param_check).
    pub checks: bool,
    /// Whether operations are carried out only on the datatypes that the standard names (parameter mpi_strict).
    pub strict: bool,
    /// The intercommunicator with those who have spawned its job, if anybody has.
    pub parent: Option<Communicator>,
    /// Which modules it uses.
    pub modules: Modules,
}

/// Why a process could not be started.
#[derive(Debug)]
pub enum StartError {
    /// A parameter in the environment is wrong.
    Param(ParamError),
    /// No modules can be selected.
    Select(SelectError),
    /// What the launcher has handed over is unusable.
    Boot(BootError),
    /// Another launcher has started the process as one of several.
    OtherLauncher(ForeignTask),
    /// A parameter names an algorithm of a collective that is none, or a rules file is wrong.
    Tuned(SettingsError),
    /// The job is over sockets, and this process has none. The text is for a person.
    Sockets(String),
    /// The job is over usysv or sysv, and this process has no postboxes. The text is for a person.
    Postboxes(String),
    /// The process was spawned, and cannot find out by whom. The text is for a person.
    Parent(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Param(e) => write!(f, "{e}"),
            StartError::Select(e) => write!(f, "{e}"),
            StartError::Boot(e) => write!(f, "{e}"),
            StartError::OtherLauncher(e) => write!(f, "{e}"),
            StartError::Parent(why) => write!(f, "cannot find out who has spawned this process: {why}"),
            StartError::Tuned(e) => write!(f, "{e}"),
            StartError::Postboxes(why) => write!(f, "no postboxes for this rank: {why}"),
            StartError::Sockets(why) => write!(f, "no sockets for this rank: {why}"),
        }
    }
}

impl std::error::Error for StartError {}

/// Starts this process's rank.
///
/// # Errors
/// See [`StartError`].
pub fn start() -> std::result::Result<Started, StartError> {
    start_changed(&[])
}

/// As [`start`], with parameters that the program has changed: names and values.
///
/// # Errors
/// As [`start`].
pub fn start_changed(changes: &[(&str, String)]) -> std::result::Result<Started, StartError> {
    let mut params = Params::from_env(library::prefix().as_deref()).map_err(StartError::Param)?;
    for (name, value) in changes {
        params.set(name, value).map_err(StartError::Param)?;
    }
    // Before anything of the launcher's is taken over.
    let tuned = settings::Settings::new(&params, read_rules).map_err(StartError::Tuned)?;
    let client = match Client::from_env().map_err(StartError::Boot)? {
        Some(client) => client,
        None => {
            may_be_singleton(&params).map_err(StartError::OtherLauncher)?;
            Client::singleton(&params).map_err(StartError::Boot)?
        }
    };
    let client = Arc::new(client);
    let modules = Modules::new(&params, &client).map_err(StartError::Select)?;
    let own = client.segment().clone();
    let boot = *own.boot();
    // Registers for asymmetric barriers, before any peer's segment is mapped.
    let mut door = Door::new(own.clone(), policy(&params, boot.oversubscribed, boot.local_size));
    own.advertise();
    let poller = if boot.sockets && !client.is_singleton() {
        let alarm = client.alarm(boot.rank).map_err(|e| StartError::Sockets(e.to_string()))?;
        let poller = Poller::with_alarm(alarm).map_err(|e| StartError::Sockets(e.to_string()))?;
        let poller = Arc::new(poller);
        end_if_closed(&poller, &client);
        door = door.with_descriptors(poller.clone());
        Some(poller)
    } else {
        None
    };
    let facts = Arc::new(copy_costs::find(&params).facts);
    let shm = Shm::new(neighbours(&client, door.kind()), shm_settings(&params, facts));
    let job = boot.base..boot.base.saturating_add(boot.size);
    let transport = modules.transport();
    // Also without a launcher: one comes with the first spawn.
    let survives = params.mpi_ft_enable();
    let mut routes = Routes::new(shm).with_additions(additions(&params, &client, poller.clone()));
    if transport.has_postboxes() && boot.local_size > 1 {
        let (found, semaphores) =
            postboxes(&params, &client, transport, door.kind()).map_err(StartError::Postboxes)?;
        routes = routes.with(Box::new(found), Reach::Launcher);
        if let Some(semaphores) = semaphores {
            door = door.with_semaphores(semaphores);
        }
    }
    if let Some(poller) = poller {
        let (far, reach) = far(&params, &client, poller).map_err(StartError::Sockets)?;
        let memory = match boot.node {
            Some(_) if !params.rpi().is_over_sockets() => Reach::Node,
            _ => Reach::Nobody,
        };
        routes = routes.with_memory(memory).with(far, reach);
        routes = match boot.node {
            Some(node) => routes.on_nodes(nodes(node, &client)),
            None if reach == Reach::Launcher => routes.knowing(nodes(0, &client)),
            None => routes,
        };
    }
    if transport == Selected::Tcp {
        routes = routes.with_sections_of(job.clone());
    }
    if transport.can_quiesce() {
        routes = routes.with_coordinator(own.clone(), Box::new(Asked(client.clone())));
    }
    if survives {
        let teller = client.clone();
        routes = routes.with_deaths(own.clone(), Box::new(move |number| teller.dead(number).ok()));
    }
    // Over sockets, too: shared windows are there for all processes of a node.
    let opener = client.clone();
    let heap = Heap::new(own, Box::new(move || opener.segment_file()));
    let mut process =
        Process::of_job(boot.rank, job, routes, Some(door)).on_node(node_identity(boot.node)).with_heap(heap);
    // Virtual nodes are all on one host, and share its processors.
    if boot.node.is_some() && params.mpi_virtual_nodes() <= 1 {
        process = process.on_several_hosts();
    }
    let checks = params.mpi_param_check();
    if !checks {
        process = process.without_checks();
    }
    tuned.warnings.iter().for_each(|warning| client.say(warning));
    let teller = client.clone();
    let is_verbose = params.coll_verbose() > 0;
    let by = (tuned.selection, tuned.components);
    let say = Box::new(move |text: &str| teller.say(text));
    process = process.with_selection(by, params.coll_base_associative(), is_verbose, say);
    let process = process.with_bonds(Arc::new(Told(client.clone())), boot.job_id);
    let parent = client.parent().map_err(|e| StartError::Parent(e.to_string()))?;
    if parent.as_ref().is_some_and(|parent| parent.is_mixed) {
        process.reach_foreign().map_err(|e| StartError::Parent(e.to_string()))?;
    }
    let parent =
        parent.map(|Parent { context, processes, .. }| process.parent_of(Parents { context, processes }));
    Ok(Started { process, client, checks, strict: params.mpi_strict(), parent, modules })
}

/// The postboxes to the peers of this job on this node, and the semaphores to sleep on, if there are some.
fn postboxes(
    params: &Params,
    client: &Arc<Client>,
    transport: Selected,
    kind: BarrierKind,
) -> std::result::Result<(Postboxes, Option<OwnSemaphores>), String> {
    let boot = client.segment().boot();
    let job = boot.base..boot.base.saturating_add(boot.size);
    let members: Vec<u32> = match boot.node {
        None => job.collect(),
        Some(own) => {
            let nodes = client.nodes(boot.base).map_err(|error| error.to_string())?;
            job.zip(nodes).filter(|(_, node)| *node == own).map(|(member, _)| member).collect()
        }
    };
    let file = client.postboxes().map_err(|error| error.to_string())?;
    let area = file.map().map_err(|error| error.to_string())?;
    let max_alloc = postbox_sizes(params, transport, boot.local_size).map_or(1, |(_, max_alloc)| max_alloc);
    let sleeps = transport == Selected::Sysv;
    let write_looks = if sleeps { 0 } else { params.rpi_usysv_writelockpoll() };
    let semaphores = match &file.semaphores[..] {
        [] => None,
        sets => Some(OwnSemaphores::new(boot.rank, members.clone(), sets)?),
    };
    let lock = semaphores.as_ref().map(OwnSemaphores::pool_lock);
    let pause = pause(params, transport);
    let survives = params.mpi_ft_enable();
    let settings = postboxes::Settings { max_alloc, write_looks, pause, sleeps, lock, survives };
    let neighbours = neighbours(client, kind);
    Ok((Postboxes::new(boot.rank, members, (area, neighbours), settings)?, semaphores))
}

/// The job ends when the program closes what the process sleeps on: else it would sleep for ever.
fn end_if_closed(poller: &Poller, client: &Arc<Client>) {
    let client = client.clone();
    poller.when_closed(Box::new(move |closed| {
        let text = format!(
            "{closed}, and cannot be opened again: a program may close the descriptors that it has opened, and all of them only \
             before MPI_Init"
        );
        if !client.abort(abi::MPI_ERR_OTHER, &text) {
            // Nobody else ends it.
            std::process::abort();
        }
    }));
}

/// How a process over postboxes gives its processor to others.
fn pause(params: &Params, transport: Selected) -> Pause {
    let yields = match transport {
        Selected::Usysv => params.rpi_usysv_pollyield(),
        Selected::Sysv => params.rpi_sysv_pollyield(),
        _ => true,
    };
    if yields { Pause::Yield } else { Pause::Select }
}

/// A number that the processes of a node have in common.
fn node_identity(node: Option<u32>) -> u64 {
    // Several nodes of a job may be one host.
    host::identity().wrapping_add(node.map_or(0, u64::from))
}

/// On which nodes the processes are: the launcher knows.
fn nodes(own: u32, client: &Arc<Client>) -> Nodes {
    let client = client.clone();
    // A launcher that does not answer has ended, and so will this process.
    Nodes::new(own, Box::new(move |from| client.nodes(from).unwrap_or_default()))
}

/// The peers on this node. They may sleep on descriptors, also where all sleep on futexes now: one that has to do with processes of
/// other launchers may get descriptors then.
fn neighbours(client: &Arc<Client>, kind: BarrierKind) -> Neighbours {
    let (directory, alarms) = (client.clone(), client.clone());
    let open: Open = Box::new(move |peer| opened(&*directory, peer));
    let neighbours = Neighbours::new(client.segment().clone(), kind, open);
    neighbours.with_alarms(Arc::new(move |peer| alarms.alarm(peer).ok()))
}

impl Process<Routes> {
    /// Takes over the parameters that may be changed at any time.
    ///
    /// # Errors
    /// If the lane is this thread's already, or another thread's.
    pub fn retune(&self, params: &Params) -> std::result::Result<(), LockError> {
        let mut domain = self.domain.try_enter()?;
        let fabric = domain.lane.fabric_mut();
        let facts = fabric.copy_facts();
        fabric.retune(shm_settings(params, facts), params.sockets_short());
        drop(domain);
        self.take_associative(params.coll_base_associative());
        if let Some(door) = &self.door {
            // Whether there are more ranks than cores is no parameter.
            door.retune(&policy(params, false, 1));
        }
        Ok(())
    }
}

/// The launcher, which says when messages stand still.
struct Asked(Arc<Client>);

impl Coordinator for Asked {
    fn reached(&mut self, step: u32) {
        self.0.quiesced(step);
    }

    fn listeners(&mut self, is_sought: bool) -> std::result::Result<Vec<Listener>, String> {
        let mut all = vec![self.0.listener().map_err(|e| e.to_string())?];
        if is_sought {
            all.extend(self.0.listener_abroad().map_err(|e| e.to_string())?);
        }
        all.into_iter().map(|given| Listener::from_fd(given.socket).map_err(|e| e.to_string())).collect()
    }

    fn fail(&mut self, why: &str) {
        self.0.abort(abi::MPI_ERR_OTHER, why);
    }
}

/// The launcher is told of communicators with processes of other jobs.
struct Told(Arc<Client>);

impl Bonds for Told {
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

/// The segment of a process.
pub(crate) fn opened(directory: &dyn Directory, peer: u32) -> std::result::Result<Opened, String> {
    let (fd, contact) = directory.open_peer(peer).map_err(|e| e.to_string())?;
    Ok(Opened { fd, other: contact.map(foreign) })
}

fn foreign(Contact { universe, number, known_as }: Contact) -> ForeignProcess {
    ForeignProcess { job: universe, number, known_as }
}

/// The bytes of a rules file.
fn read_rules(path: &str) -> std::result::Result<Vec<u8>, String> {
    match oxmpi_param::file::read(path.as_ref()) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err("there is no such file".to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// The transport to those that share no memory with this process, and how far it reaches.
fn far(
    params: &Params,
    client: &Arc<Client>,
    poller: Arc<Poller>,
) -> std::result::Result<(Box<dyn Transport>, Reach), String> {
    if params.rpi() != Selected::Lamd {
        return Ok((Box::new(sockets(params, client, poller)?), Reach::Everybody));
    }
    let socket = client.relay().map_err(|e| e.to_string())?;
    let teller = client.clone();
    let tell: tcp::Tell = Box::new(move |text| teller.say(text));
    let lamd = Lamd::new(client.segment().boot().rank, socket, poller, tell).map_err(|e| e.to_string())?;
    Ok((Box::new(lamd), Reach::Launcher))
}

/// The sockets of a job whose launcher has made some.
fn sockets(params: &Params, client: &Arc<Client>, poller: Arc<Poller>) -> std::result::Result<Tcp, String> {
    let given = client.listener().map_err(|e| e.to_string())?;
    sockets_with(params, client, poller, given)
}

/// The name, in the poller on which a process sleeps, of another poller.
const NESTED: u64 = 1 << 33;

/// What processes need to reach those of other launchers that share no memory with them, and these them. The process sleeps on
/// `sleeps_on`, if it does on descriptors.
fn additions(params: &Params, client: &Arc<Client>, sleeps_on: Option<Arc<Poller>>) -> AskAddition {
    let (params, client) = (params.clone(), client.clone());
    Box::new(move |has_sockets| {
        let Some(given) = client.listener_abroad().map_err(|e| e.to_string())? else { return Ok(None) };
        if let Some(why) = params.no_way_between() {
            return Err(format!("no memory is shared with them, and sockets are left out: {why}"));
        }
        if has_sockets {
            let listener = Listener::from_fd(given.socket).map_err(|e| e.to_string())?;
            return Ok(Some(Addition::Listener(listener)));
        }
        let boot = client.segment().boot();
        let alarm = client.alarm(boot.rank).map_err(|e| e.to_string())?;
        let poller = Arc::new(Poller::with_alarm(alarm).map_err(|e| e.to_string())?);
        end_if_closed(&poller, &client);
        let transport = Box::new(sockets_with(&params, &client, poller.clone(), given)?);
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

/// The sockets, with one that listens.
fn sockets_with(
    params: &Params,
    client: &Arc<Client>,
    poller: Arc<Poller>,
    given: Listening,
) -> std::result::Result<Tcp, String> {
    let boot = client.segment().boot();
    let listener = Listener::from_fd(given.socket).map_err(|e| e.to_string())?;
    let own = Identity { job: boot.job_id, rank: boot.rank, size: boot.size, incarnation: given.incarnation };
    let settings = tcp::Settings {
        eager_limit: params.sockets_short(),
        buffers: Some(socket_buffers(params)),
        encrypt: encrypt(params),
        ..tcp::Settings::default()
    };
    let (directory, teller) = (client.clone(), client.clone());
    let find: tcp::Find = Box::new(move |peer| match directory.addresses(peer) {
        Ok(Some(Found { addresses, contact })) => {
            let addresses = addresses.split_whitespace().map(str::parse);
            let addresses = addresses.collect::<std::result::Result<Vec<_>, _>>()?;
            Ok(match contact {
                None => Whereabouts::At(addresses),
                Some((contact, secret)) => {
                    Whereabouts::Elsewhere(foreign(contact), Secret(secret), addresses)
                }
            })
        }
        Ok(None) => Ok(Whereabouts::Left),
        Err(error) => Err(error.to_string()),
    });
    let tell: tcp::Tell = Box::new(move |text| teller.say(text));
    let guard = client.clone();
    let secret_of: tcp::SecretOf = Box::new(move |universe| guard.secret_for(universe).ok().map(Secret));
    let tcp = Tcp::new(own, Secret(given.secret), settings, (listener, poller), find, tell);
    tcp.map(|tcp| tcp.with_secrets(secret_of).for_one_thread()).map_err(|e| e.to_string())
}

fn policy(params: &Params, oversubscribed: bool, local_size: u32) -> Policy {
    let us = |us: u64| us.saturating_mul(1000);
    let transport = params.rpi();
    let looks = match transport {
        Selected::Usysv => {
            let spinning = spinning(params, oversubscribed, local_size);
            Some(Looks { spinning, yields: params.wait_yields() })
        }
        Selected::Sysv => Some(Looks { spinning: 0, yields: 1 }),
        _ => None,
    };
    Policy {
        looks,
        pause: pause(params, transport),
        spin_ns: us(params.wait_spin_us()),
        yield_ns: us(params.wait_yield_us()),
        slow_yield_ns: us(params.wait_slow_yield_us()),
        sleeping_waits: params.wait_sleeping(),
        yields_before_sleep: params.wait_yields(),
        ..Policy::new(oversubscribed)
    }
}

/// How often a rank over usysv looks at everything before it yields: each look is at the postboxes of all peers. With more
/// ranks than processors who spins keeps the rank that it waits for from running, so it does not unless the user wants that.
fn spinning(params: &Params, oversubscribed: bool, local_size: u32) -> u32 {
    let param = Param::find("rpi_usysv_readlockpoll");
    let is_default = param.is_none_or(|param| *params.source(param) == Source::Default);
    if oversubscribed && is_default {
        return CROWDED_LOOKS;
    }
    params.rpi_usysv_readlockpoll().div_ceil(local_size.saturating_sub(1).max(1))
}

/// How a rank with these parameters uses shared memory, where copies cost as `facts` say.
pub fn shm_settings(params: &Params, facts: Arc<CopyFacts>) -> Settings {
    Settings {
        eager_limit: params.shm_eager_limit_bytes(),
        ring_after: u64::from(params.shm_ring_after()),
        pool_from: params.shm_pool_from_bytes(),
        single_copy: match params.single_copy() {
            SingleCopy::Auto => SingleCopyMode::Auto,
            SingleCopy::Off => SingleCopyMode::Off,
            SingleCopy::On => SingleCopyMode::On,
        },
        facts,
        proximity: Proximity::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_over_usysv_spins_only_if_it_has_a_processor_or_shall() {
        let usysv = Params::default().with("rpi", "usysv").unwrap();
        let spinning = |params: &Params, oversubscribed| {
            policy(params, oversubscribed, 5).looks.map(|looks| looks.spinning)
        };
        assert_eq!(spinning(&usysv, false), Some(2500));
        assert_eq!(spinning(&usysv, true), Some(CROWDED_LOOKS));
        let asked = usysv.with("rpi_usysv_readlockpoll", "10000").unwrap();
        assert_eq!(spinning(&asked, true), Some(2500));
    }
}
