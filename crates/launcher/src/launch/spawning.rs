//! Starting processes at the request of ranks (MPI_Comm_spawn and MPI_Comm_spawn_multiple).

use std::ffi::OsString;
use std::path::Path;

use oxmpi_sys::host;
use rustix::process::Signal;

use super::files::Named;
use super::launcher::Launcher;
use super::links::MAX_NUMBER;
use super::recruiting::Home;
use super::{App, MAX_RANKS, ProgramSearch};
use crate::hosts::named::{self, Hosts};
use crate::job::{Exit, JobEvent};
use oxmpi_rt_client::universe::{Spawn, SpawnCommand};

impl Launcher<'_> {
    /// Starts the processes that `from` requests: all or none. Returns the number of the first
    /// process, and their count. The error is for the user.
    pub(super) fn spawn(&mut self, from: u32, spawn: Spawn) -> Result<(u32, u32), String> {
        let size: u64 = spawn.commands.iter().map(|command| u64::from(command.processes)).sum();
        let running = self.members.running().count() as u64;
        if size == 0 {
            return Err("no process is to be started".into());
        }
        if running + size > u64::from(MAX_RANKS) {
            return Err(format!(
                "{size} processes are too many beside the {running} that run: one mpirun has at most {MAX_RANKS}"
            ));
        }
        if self.launch.transport.is_over_sockets() && !self.boot.sockets {
            let rpi = self.launch.transport.name;
            return Err(format!(
                "this program was started without mpirun, and has neither sockets nor daemons for the messages of 'rpi {rpi}': start \
                 it with 'mpirun -n 1 --mca rpi {rpi} PROGRAM', or leave rpi out"
            ));
        }
        let base = self.job.next();
        if self.links.place() != 0 && u64::from(base) + size > u64::from(MAX_NUMBER) {
            return Err(format!(
                "{size} processes are too many after {base}: an mpirun that communicates with others has at most {MAX_NUMBER} in \
                 its life"
            ));
        }
        if let Some(unknown) =
            spawn.parent.processes.iter().find(|process| self.job.first_of(**process).is_none())
        {
            return Err(format!(
                "process {unknown} is to be a parent, but there is no such process"
            ));
        }
        let program = self.members.get(from).map_or(usize::MAX, |member| member.app);
        let like =
            self.launch.apps.get(program).ok_or("the spawning process runs no known program")?;
        let homes = self.homes(&spawn.commands)?;
        let is_spread = self.launch.spread.is_some();
        let app = |command: &SpawnCommand| app(command, &spawn.directory, like, is_spread);
        let apps = spawn.commands.iter().map(app).collect::<Result<Vec<_>, _>>()?;
        let recruited = self.recruit(&apps, base, &homes);
        if recruited.is_err() && is_spread {
            // Late messages about started processes must not be taken for later ones.
            self.job.skip(size as u32);
        }
        let far = recruited?;
        let (job, mut parent) = (self.job.jobs(), spawn.parent);
        let (parents, bond) = (parent.processes.clone(), parent.context);
        parent.is_mixed = parents.iter().any(|parent| self.links.is_other(*parent));
        self.members.note_parent(base, parent);
        self.admit_own((base, size as u32), job, program);
        let unreported = self.admit_far(&far, &homes, (base, job), program);
        if is_spread {
            self.job.place_next(homes.iter().map(|home| home.host.clone()).collect());
        }
        self.handle_event(JobEvent::Spawned { ranks: size as u32, parents, bond });
        for rank in unreported {
            let seen = self.glimpse(rank);
            let exit = Exit::Signal(Signal::KILL.as_raw());
            self.handle_event(JobEvent::Exited { rank, exit, seen });
        }
        Ok((base, size as u32))
    }

    /// Makes the new processes of this host members.
    fn admit_own(&mut self, (base, size): (u32, u32), job: usize, program: usize) {
        for at in 0..size {
            let number = base + at;
            let Some(rank) = self.rank(number) else { continue };
            let (name, pid) = (format!("{job}.{at}"), rank.process.pid);
            self.open_files_of(number, &name, None);
            if self.launch.verbose {
                self.print(&format!("mpirun: rank {at} of spawned job {job}: pid {pid}\n"));
            }
            self.add_own_member(number, &name, program);
            self.send_places(number, 1);
        }
    }
}

impl Launcher<'_> {
    /// Opens the files for a new process's output; `home`: its host, if not this one.
    pub(super) fn open_files_of(&mut self, number: u32, name: &str, home: Option<&Home>) {
        let here = host::name();
        let (node, host) = home.map_or((0, &*here), |home| (home.node, &*home.host));
        let process = Named { rank: name, node: Some(node), host };
        if let Some(text) = self.output.open_files(number, process) {
            self.handle_event(JobEvent::Say { text });
        }
    }
}

/// The program of a command, with the inherited variables of the spawning process's program.
fn app(
    command: &SpawnCommand,
    directory: &Path,
    like: &App,
    is_spread: bool,
) -> Result<App, String> {
    let directory = match &command.directory {
        None => directory.to_owned(),
        Some(wanted) => {
            let bad = |why: &dyn std::fmt::Display| format!("wdir '{}': {why}", wanted.display());
            match std::fs::canonicalize(directory.join(wanted)) {
                Ok(found) if found.is_dir() => found,
                Ok(_) => return Err(bad(&"it is not a directory")),
                Err(error) => return Err(bad(&error)),
            }
        }
    };
    // With several hosts their names are resolved already.
    if let Some(hosts) = command.hosts.as_deref().filter(|_| !is_spread) {
        let hosts = Hosts::of_list(hosts)?;
        named::resolve(hosts.names());
        if let Some(host) = hosts.elsewhere() {
            return Err(format!(
                "host '{host}' is not a host of the job, which is on this machine alone ('{}'): start the job on both (--host), leave \
                 the host out, or write 'localhost'",
                host::name()
            ));
        }
    }
    let search = ProgramSearch { path: command.path.as_deref(), directory: Some(&directory) };
    let path = search.find(&command.program).map_err(|(text, _)| text)?;
    let name: OsString = command.program.clone();
    Ok(App {
        ranks: command.processes,
        path,
        args: [name].into_iter().chain(command.arguments.iter().cloned()).collect(),
        inherited: like.inherited.clone(),
        inherits_chosen: like.inherits_chosen,
        env: like.env.iter().chain(&command.env).cloned().collect(),
        directory: Some(directory),
    })
}
