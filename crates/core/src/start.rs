//! Starts a process from the data of the launcher, or without a launcher (a singleton).

mod launcher;

pub(crate) use self::launcher::opened;

use self::launcher::{Coordination, LauncherBonds, LauncherServices, end_if_closed, nodes};
use crate::dynamic::spawn::Parents;
use crate::handed::{HandedSettings, LibrarySettings};
use crate::modules::Modules;
use crate::{Communicator, Process, copy_costs};
use oxmpi_fabric::routes::{Reach, Routes};
use oxmpi_fabric::shm::copy_policy::{CopyFacts, Proximity, SingleCopyMode};
use oxmpi_fabric::shm::{Shm, ShmSettings};
use oxmpi_fabric::{Constructor, Offer, Services, Situation};
use oxmpi_param::Accelerator;
use oxmpi_param::module::{BetweenNodes, Module};
use oxmpi_param::{ParamError, Params, SelectError, SingleCopy};
use oxmpi_rt_client::client::{BootError, Client};
use oxmpi_rt_client::foreign::{ForeignTask, NotAlone, other_launcher};
use oxmpi_rt_client::universe::Parent;
use oxmpi_shm::door::{Door, Policy};
use oxmpi_shm::heap::Heap;
use oxmpi_sys::lock::LockError;
use oxmpi_sys::poller::Poller;
use oxmpi_sys::{host, library};
use oxmpi_tuned::settings::{self, SettingsError};
use std::fmt;
use std::sync::Arc;

/// The process that MPI_Init makes.
#[derive(Debug)]
pub struct StartedProcess {
    pub process: Process<Routes>,
    pub client: Arc<Client>,
    pub checks: bool,
    /// Whether operations accept only the datatypes that the standard names (parameter mpi_strict).
    pub strict: bool,
    /// The handling of buffers in device memory, and the file of the driver.
    pub accelerator: (Accelerator, String),
    pub parent: Option<Communicator>,
    pub modules: Modules,
}

/// The reason why a process could not start.
#[derive(Debug)]
pub enum StartError {
    Param(ParamError),
    Select(SelectError),
    Boot(BootError),
    /// The process is no rank, but was started as one of several processes.
    NotAlone(NotAlone),
    /// A parameter names an unknown algorithm of a collective, or a rules file is wrong.
    Tuned(SettingsError),
    Transport {
        name: &'static str,
        why: String,
    },
    /// The process was spawned but cannot determine its parents.
    Parent(String),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StartError::Param(e) => write!(f, "{e}"),
            StartError::Select(e) => write!(f, "{e}"),
            StartError::Boot(e) => write!(f, "{e}"),
            StartError::NotAlone(e) => write!(f, "{e}"),
            StartError::Parent(why) => {
                write!(f, "cannot determine the parents of this spawned process: {why}")
            }
            StartError::Tuned(e) => write!(f, "{e}"),
            StartError::Transport { name, why } => {
                write!(f, "this rank cannot use the transport '{name}': {why}")
            }
        }
    }
}

impl std::error::Error for StartError {}

/// Starts this process's rank.
pub fn start() -> std::result::Result<StartedProcess, StartError> {
    start_changed(&[])
}

/// [`start`] with the names and values of parameters that the program has changed.
pub fn start_changed(
    changes: &[(&str, String)],
) -> std::result::Result<StartedProcess, StartError> {
    let mut params = Params::from_env(library::prefix().as_deref()).map_err(StartError::Param)?;
    for (name, value) in changes {
        params.set(name, value).map_err(StartError::Param)?;
    }
    // Errors of the settings must come before the process takes anything from the launcher.
    let tuned = settings::Settings::new(&params, read_rules).map_err(StartError::Tuned)?;
    let client = match Client::from_env().map_err(StartError::Boot)? {
        Some(client) => client,
        None => client_without_mpirun(&params)?,
    };
    let client = Arc::new(client);
    let modules = Modules::new(&params, &client).map_err(StartError::Select)?;
    let module = modules.transport();
    let own = client.segment().clone();
    let boot = *own.boot();
    // The door registers for asymmetric barriers, which must precede the mapping of peers'
    // segments.
    let mut door =
        Door::new(own.clone(), policy(&params, module, boot.oversubscribed, boot.local_size));
    own.advertise();
    let poller =
        if boot.sockets && !client.is_singleton() { Some(poller(&client, module)?) } else { None };
    if let Some(poller) = &poller {
        door = door.with_descriptors(poller.clone());
    }
    let job = boot.base..boot.base.saturating_add(boot.size);
    let situation = Situation {
        params: &params,
        rank: boot.rank,
        job: job.clone(),
        job_id: boot.job_id,
        node: boot.node,
        local_size: boot.local_size,
        is_between: false,
    };
    let launcher = LauncherServices::new(client.clone(), poller, door.kind());
    let (routes, door) = assemble(module, &situation, launcher, door)?;
    // Also with sockets, since the processes of a node have shared windows.
    let opener = client.clone();
    let heap = Heap::new(own, Box::new(move || opener.segment_file()));
    let mut process = Process::of_job(boot.rank, job, routes, Some(door))
        .on_node(node_identity(boot.node))
        .with_heap(heap);
    process = process.imaged_alone(module.can_rest(&params) && params.cr() == Some("blcr"));
    // All virtual nodes are on one host and share its processors.
    if boot.node.is_some() && params.mpi_virtual_nodes() <= 1 {
        process = process.on_several_hosts();
    }
    let checks = params.mpi_param_check();
    if !checks {
        process = process.without_checks();
    }
    if params.mpi_strict() {
        process = process.with_whole_overhead();
    }
    tuned.warnings.iter().for_each(|warning| client.say(warning));
    let teller = client.clone();
    let is_verbose = params.coll_verbose() > 0;
    let by = (tuned.selection, tuned.components);
    let say = Box::new(move |text: &str| teller.say(text));
    let handed = HandedSettings {
        ucc: LibrarySettings {
            library: params.coll_ucc_library().to_string(),
            layers: params.coll_ucc_cls().to_string(),
            verbose: params.coll_ucc_verbose(),
        },
        hcoll: LibrarySettings {
            library: params.coll_hcoll_library().to_string(),
            layers: String::new(),
            verbose: params.coll_hcoll_verbose(),
        },
        job: boot.job_id as u32,
    };
    process = process.with_selection(by, params.coll_base_associative(), handed, is_verbose, say);
    let process = process.with_bonds(Arc::new(LauncherBonds(client.clone())), boot.job_id);
    let parent = client.parent().map_err(|e| StartError::Parent(e.to_string()))?;
    if parent.as_ref().is_some_and(|parent| parent.is_mixed) {
        process.reach_foreign().map_err(|e| StartError::Parent(e.to_string()))?;
    }
    let parent = parent
        .map(|Parent { context, processes, .. }| process.parent_of(Parents { context, processes }));
    let accelerator = (params.accelerator(), params.accelerator_cuda_library().to_string());
    Ok(StartedProcess {
        process,
        client,
        checks,
        strict: params.mpi_strict(),
        accelerator,
        parent,
        modules,
    })
}

/// The process as a rank of another launcher's job, or as a job of one rank.
fn client_without_mpirun(params: &Params) -> std::result::Result<Client, StartError> {
    if let Some(manager) = other_launcher(params).map_err(StartError::NotAlone)? {
        let joined = Client::join(&manager, params).map_err(|error| {
            StartError::NotAlone(ForeignTask { manager, why: error.to_string() }.into())
        })?;
        if let Some(client) = joined {
            return Ok(client);
        }
    }
    Client::singleton(params).map_err(StartError::Boot)
}

fn assemble(
    module: &Module,
    situation: &Situation<'_>,
    launcher: LauncherServices,
    mut door: Door,
) -> std::result::Result<(Routes, Door), StartError> {
    let (params, client) = (situation.params, launcher.client().clone());
    let facts = Arc::new(copy_costs::find(params).facts);
    let shm = Shm::new(launcher.peer_segments(), shm_settings(params, facts));
    // Even without a launcher, since a spawn starts one.
    let mut routes = Routes::new(shm).with_additions(launcher.additions(params));
    let has_sockets = launcher.poller().is_some();
    let services: Arc<dyn Services> = Arc::new(launcher);
    let mut memory = Reach::Everybody;
    // Whether a transport carries all messages between processes of this launcher, and no others.
    let mut knows_own = false;
    for offer in offers(module, situation, &services, has_sockets)? {
        memory = memory.min(offer.memory);
        knows_own |= (offer.memory, offer.reach) == (Reach::Nobody, Reach::Launcher);
        routes = routes.with(offer.transport, offer.reach);
        if let Some(semaphores) = offer.semaphores {
            door = door.with_semaphores(semaphores);
        }
    }
    routes = routes.with_memory(memory);
    routes = match situation.node {
        Some(node) if has_sockets => routes.on_nodes(nodes(node, &client)),
        None if knows_own => routes.with_nodes(nodes(0, &client)),
        _ => routes,
    };
    if module.shares_sections(params) && memory == Reach::Nobody {
        routes = routes.with_sections_of(situation.job.clone());
    }
    let own = client.segment().clone();
    if module.can_rest(params) {
        routes = routes.with_coordinator(own.clone(), Box::new(Coordination(client.clone())));
    }
    if params.mpi_ft_enable() {
        routes = routes.with_deaths(own, Box::new(move |number| client.dead(number).ok()));
    }
    Ok((routes, door))
}

/// The offer of the process's transport, and of one between nodes if that one stays on the node.
fn offers(
    module: &Module,
    situation: &Situation<'_>,
    services: &Arc<dyn Services>,
    has_sockets: bool,
) -> std::result::Result<Vec<Offer>, StartError> {
    // Daemons are themselves the route to other nodes.
    let stays = module.between == BetweenNodes::Another && !module.has_daemons();
    let between = Module::between_nodes().filter(|_| stays && has_sockets);
    let all = [(Some(module), false), (between, true)];
    let mut made = Vec::new();
    for (module, is_between) in
        all.into_iter().filter_map(|(module, between)| Some((module?, between)))
    {
        let failed = |why| StartError::Transport { name: module.name, why };
        let constructor = Constructor::of(module);
        let constructor =
            constructor.ok_or_else(|| failed(format!("nothing makes '{}'", module.name)))?;
        let situation = Situation { is_between, ..situation.clone() };
        made.extend((constructor.open)(&situation, services).map_err(failed)?);
    }
    Ok(made)
}

fn poller(client: &Arc<Client>, module: &Module) -> std::result::Result<Arc<Poller>, StartError> {
    let failed = |why| StartError::Transport { name: module.name, why };
    let alarm = client.alarm(client.segment().boot().rank).map_err(|e| failed(e.to_string()))?;
    let poller = Arc::new(Poller::with_alarm(alarm).map_err(|e| failed(e.to_string()))?);
    end_if_closed(&poller, client);
    Ok(poller)
}

/// A number that only the processes of a node have, and all of them.
fn node_identity(node: Option<u32>) -> u64 {
    // Several nodes of a job may be one host.
    host::identity().wrapping_add(node.map_or(0, u64::from))
}

impl Process<Routes> {
    /// Applies the parameters that may change at any time. Errors: a thread is inside the lane.
    pub fn retune(&self, params: &Params) -> std::result::Result<(), LockError> {
        let mut domain = self.domain.try_enter()?;
        let fabric = domain.lane.fabric_mut();
        let facts = fabric.copy_facts();
        fabric.retune(shm_settings(params, facts), params.sockets_short());
        drop(domain);
        self.take_associative(params.coll_base_associative());
        if let Some(door) = &self.door {
            // No parameter makes a node oversubscribed.
            door.retune(&policy(params, params.rpi(), false, 1));
        }
        Ok(())
    }
}

fn read_rules(path: &str) -> std::result::Result<Vec<u8>, String> {
    match oxmpi_param::file::read(path.as_ref()) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err("there is no such file".to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn policy(params: &Params, module: &Module, oversubscribed: bool, local_size: u32) -> Policy {
    let us = |us: u64| us.saturating_mul(1000);
    let policy = Policy {
        spin_ns: us(params.wait_spin_us()),
        yield_ns: us(params.wait_yield_us()),
        slow_yield_ns: us(params.wait_slow_yield_us()),
        sleeping_waits: params.wait_sleeping(),
        yields_before_sleep: params.wait_yields(),
        ..Policy::new(oversubscribed)
    };
    Constructor::of(module).map_or(policy, |made| (made.wait)(params, policy, local_size))
}

/// The settings of the transport through shared memory.
pub fn shm_settings(params: &Params, facts: Arc<CopyFacts>) -> ShmSettings {
    ShmSettings {
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
