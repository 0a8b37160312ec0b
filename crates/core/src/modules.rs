//! The modules of this process and its thread level.

pub use oxmpi_param::select::{LEVEL_VARIABLE, ThreadLevel};
use oxmpi_param::{Job, Module, ModuleSelection, NodeCount, Params, SelectError};
use oxmpi_rt_client::client::Client;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The inputs of the selection of modules.
#[derive(Debug)]
pub struct Modules {
    params: Params,
    job: Job,
    client: Arc<Client>,
    is_reported: AtomicBool,
}

impl Modules {
    pub(crate) fn new(params: &Params, client: &Arc<Client>) -> Result<Modules, SelectError> {
        let boot = client.segment().boot();
        // A spawned job also counts its parents' ranks, since it needs a route to them.
        let ranks = Some(boot.base.saturating_add(boot.size));
        // mpirun counts hosts, but a spawned job may be the first one on several virtual nodes.
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
        let is_reported = AtomicBool::new(!params.mpi_show_select() || boot.rank != 0);
        Ok(Modules { params: params.clone(), job, client: client.clone(), is_reported })
    }

    pub(crate) fn transport(&self) -> &'static Module {
        let found = self.params.select(&self.job, ThreadLevel::Single);
        found.map_or_else(|_| Module::first(), |found| found.transport())
    }

    /// The parameters of the selection.
    pub fn params(&self) -> &Params {
        &self.params
    }

    /// Selects the modules for a program that requests this thread level. The first call at rank 0
    /// prints the steps of the selection if `mpi_show_select` is 1.
    pub fn settle(&self, wanted: ThreadLevel) -> Result<ModuleSelection, SelectError> {
        let found = self.params.select(&self.job, wanted)?;
        if !self.is_reported.swap(true, Ordering::Relaxed) {
            found.steps.iter().for_each(|step| self.client.say(&format!("selection: {step}")));
        }
        Ok(found)
    }
}
