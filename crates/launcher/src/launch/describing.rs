//! The description of a job for tools, and whether it can be imaged now.

use super::launcher::Launcher;
use super::quiesce::MpiPhase;
use oxmpi_param::{Param, Params};
use oxmpi_rt_client::codec;
use oxmpi_rt_proto::tool::JobFacts;

/// The job's parameters that `oxmpi checkpoint` uses as defaults.
const OF_CHECKPOINTS: [&str; 4] = ["cr_base_dir", "cr_keep", "cr_blcr_criu", "cr_blcr_options"];

fn checkpoint_params(params: &Params) -> Vec<(String, String)> {
    let set = OF_CHECKPOINTS
        .iter()
        .filter_map(|name| Param::find(name).filter(|param| !params.is_default(param)));
    set.map(|param| {
        let value = param.show(&params.value(param));
        // The tool may run in another directory.
        let absolute = || std::path::absolute(&value).ok().map(|path| path.display().to_string());
        let value = if param.name == "cr_base_dir" { absolute().unwrap_or(value) } else { value };
        (param.name.to_string(), value)
    })
    .collect()
}

impl Launcher<'_> {
    /// Describes the job to a tool.
    pub(super) fn describe(&mut self, id: u32) {
        match self.why_not_imaged() {
            Some(reason) => self.entrance.refuse(id, reason),
            None => {
                let facts = JobFacts {
                    mpirun: std::process::id(),
                    id: self.boot.job_id,
                    cr: self.launch.params.cr().map(String::from),
                    supervision: self.launch.supervision,
                    transport: self.launch.transport.name.into(),
                    ranks: self.members.len() as u32,
                    hosts: self
                        .launch
                        .spread
                        .as_ref()
                        .map_or(1, |spread| spread.hosts.len() as u32),
                    is_here: self.launch.spread.is_none(),
                    program: self
                        .launch
                        .apps
                        .first()
                        .map(|app| app.path.clone())
                        .unwrap_or_default(),
                    params: checkpoint_params(&self.launch.params),
                };
                match self.entrance.give(id, &codec::encode(&facts)) {
                    Ok(()) => self.entrance.close(id),
                    Err(reason) => self.entrance.refuse(id, reason),
                }
            }
        }
    }

    /// Why an image of the process tree would not contain the whole job; `None` if it would.
    pub(super) fn why_not_imaged(&self) -> Option<String> {
        if self.job.is_ending() || self.end.is_over() {
            return Some("the job is ending".into());
        }
        if self.links.is_any() {
            return Some(
                "its processes communicate with processes of another mpirun (MPI_Comm_connect, MPI_Lookup_name), which would not be in \
                 the image"
                    .into(),
            );
        }
        self.members.iter().find_map(|(number, member)| {
            let name = self.job.name(number);
            if !member.running {
                return Some(format!("{name} has ended"));
            }
            if member.branch.is_some() {
                // Its agent knows the present state.
                return None;
            }
            let rank = self.rank(number);
            if rank.is_none_or(|rank| !rank.is_child()) {
                return Some(format!(
                    "{name} was not started by this mpirun, and would not be in the image"
                ));
            }
            // A resting process may send messages again in a session.
            if rank.is_some_and(|rank| rank.segment.status().has_left()) {
                return Some(format!("{name} has called MPI_Finalize"));
            }
            match self.phase_of(number) {
                MpiPhase::BeforeInit => {
                    Some(format!("{name} has not called MPI_Init yet: try again when it has"))
                }
                MpiPhase::Done => Some(format!("{name} has called MPI_Finalize")),
                MpiPhase::Active => None,
            }
        })
    }
}
