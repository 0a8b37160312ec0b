//! Which modules this process uses, at which thread level.

pub use oxmpi_param::select::{LEVEL_VARIABLE, ThreadLevel};
use oxmpi_param::{Job, Module, ModuleSelection, NodeCount, Params, SelectError};
use oxmpi_rt::client::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the modules of a process are selected from.
#[derive(Debug)]
pub struct Modules {
    params: Params,
    job: Job,
    client: Arc<Client>,
    is_told: AtomicBool,
}

impl Modules {
    /// The launcher has decided on the transport; `params` are what it has decided by.
    ///
    /// # Errors
    /// As [`Params::select`].
    pub(crate) fn new(params: &Params, client: &Arc<Client>) -> Result<Modules, SelectError> {
        let boot = client.segment().boot();
        // Those who have spawned this job count: there must be a way to them.
        let ranks = Some(boot.base.saturating_add(boot.size));
        // Of jobs on several hosts mpirun knows when it starts; a job that is spawned may be the first on several virtual nodes.
        let nodes = boot.node.and_then(|_| NodeCount::virtual_ones(params, None));
        let mut job = Job { ranks, nodes, ..Job::default() };
        let found = params.select(&job, ThreadLevel::Single)?;
        if found.transport().is_over_sockets() && !boot.sockets && !client.is_singleton() {
            job.no_sockets = Some("mpirun has found no network for sockets".into());
        }
        if found.transport().has_daemons() && !boot.sockets && !client.is_singleton() {
            job.no_daemons =
                Some("its mpirun was started by a process of its own, and has no daemons".into());
        }
        let is_told = AtomicBool::new(!params.mpi_show_select() || boot.rank != 0);
        Ok(Modules { params: params.clone(), job, client: client.clone(), is_told })
    }

    /// The transport that the launcher has decided on.
    pub(crate) fn transport(&self) -> &'static Module {
        let found = self.params.select(&self.job, ThreadLevel::Single);
        found.map_or_else(|_| Module::first(), |found| found.transport())
    }

    /// What they are selected by.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Selects the modules for a program that asks for this thread level, and says which one it gets. The first time rank 0
    /// tells how, if `mpi_show_select` is 1.
    ///
    /// # Errors
    /// As [`Params::select`].
    pub fn settle(&self, wanted: ThreadLevel) -> Result<ModuleSelection, SelectError> {
        let found = self.params.select(&self.job, wanted)?;
        if !self.is_told.swap(true, Ordering::Relaxed) {
            found.steps.iter().for_each(|step| self.client.say(&format!("selection: {step}")));
        }
        Ok(found)
    }
}
