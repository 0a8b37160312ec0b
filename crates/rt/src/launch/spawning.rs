//! Starting processes for processes that run (MPI_Comm_spawn and its like).

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use oxmpi_sys::host;
use rustix::process::Signal;

use super::files::Named;
use super::launcher::Launcher;
use super::links::MAX_NUMBER;
use super::recruiting::Home;
use super::start::Recruits;
use super::{App, MAX_RANKS, Wanted, end};
use crate::job::{Event, Exit};
use crate::universe::{Command, Spawn};

impl Launcher<'_> {
    /// Starts what process `from` wants: all of it or nothing. Returns the number of the first new process and how many
    /// there are.
    ///
    /// # Errors
    /// Why nothing was started, for a person.
    pub(super) fn spawn(&mut self, from: u32, spawn: Spawn) -> Result<(u32, u32), String> {
        let size: u64 = spawn.commands.iter().map(|command| u64::from(command.processes)).sum();
        let running = self.members.values().filter(|member| member.running).count() as u64;
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
                "{size} processes are too many after {base}: an mpirun that has to do with others has at most {MAX_NUMBER} in \
                 its life"
            ));
        }
        if let Some(stranger) =
            spawn.parent.processes.iter().find(|process| self.job.first_of(**process).is_none())
        {
            return Err(format!("process {stranger} shall be a parent, but there is none of this number"));
        }
        let program = self.members.get(&from).map_or(usize::MAX, |member| member.app);
        let like = self.launch.apps.get(program).ok_or("the spawning process runs no known program")?;
        let homes = self.homes(&spawn.commands)?;
        let is_spread = self.launch.spread.is_some();
        let app =
            |command: &Command| app(self.launch.find_program, command, &spawn.directory, like, is_spread);
        let apps = spawn.commands.iter().map(app).collect::<Result<Vec<_>, _>>()?;
        let recruited = self.recruit(&apps, base, &homes);
        if recruited.is_err() && is_spread {
            // Late words about processes that some host had started must not be taken for the next ones'.
            self.job.skip(size as u32);
        }
        let (recruits, far) = recruited?;
        let (job, mut parent) = (self.job.jobs(), spawn.parent);
        let (parents, bond) = (parent.processes.clone(), parent.context);
        parent.is_mixed = parents.iter().any(|parent| self.links.is_other(*parent));
        self.parents.insert(base, parent);
        // They hear of all deaths, also of those before them: they may be connected with who knew the dead.
        for rank in &recruits.ranks {
            self.deaths.iter().for_each(|_| rank.segment.status().note_death());
            rank.segment.status().ask_quiesce_step(self.standing.step());
        }
        let here = homes.iter().enumerate().filter(|(_, home)| home.agent.is_none());
        let here: Vec<u32> = here.map(|(at, _)| at as u32).collect();
        let mut unwatched = self.admit(recruits, (base, job), program, &here);
        unwatched.extend(self.admit_far(&far, &homes, (base, job), program));
        if is_spread {
            self.job.place_next(homes.iter().map(|home| home.host.clone()).collect());
        }
        self.tell(Event::Spawned { ranks: size as u32, parents, bond });
        for rank in unwatched {
            // Its end would not be seen.
            self.rank(rank).iter().for_each(|rank| end::signal_group(rank, Signal::KILL));
            self.members.get_mut(&rank).into_iter().for_each(|member| member.running = false);
            let seen = self.glimpse(rank);
            self.tell(Event::Exited { rank, exit: Exit::Signal(Signal::KILL.as_raw()), seen });
        }
        Ok((base, size as u32))
    }

    /// Takes new processes among the members. Returns those that the kernel does not let us listen to.
    fn admit(
        &mut self,
        recruits: Recruits,
        (base, job): (u32, usize),
        program: usize,
        here: &[u32],
    ) -> Vec<u32> {
        let mut unwatched = Vec::new();
        let Recruits { ranks, outputs, plugs } = recruits;
        let mut plugs = plugs.into_iter();
        for ((number, rank), outputs) in here.iter().copied().zip(ranks).zip(outputs) {
            let name = format!("{job}.{number}");
            self.open_files_of(base + number, &name, None);
            if self.launch.verbose {
                let pid = rank.process.pid;
                self.print(&format!("mpirun: rank {number} of spawned job {job}: pid {pid}\n"));
            }
            let tag = self.launch.output.tags.then_some(&*name);
            if let Err(error) = self.enlist(base + number, (rank, outputs, plugs.next()), tag, program) {
                self.tell(Event::Say { text: format!("rank {name} cannot be listened to: {error}") });
                unwatched.push(base + number);
            }
            self.tell_places(base + number, 1);
        }
        unwatched
    }
}

impl Launcher<'_> {
    /// Opens the files for the output of a new process, if there are such.
    /// It is on this host if none is named.
    pub(super) fn open_files_of(&mut self, number: u32, name: &str, home: Option<&Home>) {
        let here = host::name();
        let (node, host) = home.map_or((0, &*here), |home| (home.node, &*home.host));
        let process = Named { rank: name, node: Some(node), host };
        let failed = self.files.as_mut().and_then(|files| files.add(number, process, false).err());
        if let Some((path, error)) = failed {
            let text = format!("warning: output of rank {name} goes to no file: {}: {error}", path.display());
            self.tell(Event::Say { text });
        }
    }
}

/// A program to start, found for a command. It inherits what the program of the spawning process inherits.
fn app(
    find: fn(&Wanted<'_>) -> Result<PathBuf, String>,
    command: &Command,
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
    let path = find(&Wanted {
        program: &command.program,
        directory: &directory,
        path: command.path.as_deref(),
        // Of a job on several hosts they were looked for before.
        hosts: command.hosts.as_deref().filter(|_| !is_spread),
    })?;
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
