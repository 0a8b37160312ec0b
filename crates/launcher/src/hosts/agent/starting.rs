//! The start of an agent's ranks: they are prepared, and started when all agents have prepared
//! theirs.

use std::ffi::{OsStr, OsString};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use oxmpi_checkpoint::ranks::check_ended;
use oxmpi_fabric::encryption;
use oxmpi_param::Params;
use oxmpi_shm::segment::Boot;
use oxmpi_sys::net::Listener;
use oxmpi_sys::spawn::Guard;
use oxmpi_wire::relay::Order as RelayOrder;
use tracing::{info, warn};

use super::{ALIVE, Agent, Cow};
use crate::checkpoint;
use crate::checkpoint::resumption::{FarRestart, sees};
use crate::hostmap::Hostmap;
use crate::launch::parts::{
    Back, Binding, Crew, Inputs, PreparedRanks, RankPlace, RankProcess, Recruits, boot, bring_back,
    listener, plugs, raise_open_files,
};
use crate::launch::{
    App, HeldRank, Images, Launch, LaunchError, OutputStyle, ProgramSearch, Stdin, binding_of,
    kernel,
};
use oxmpi_rt_proto::agent::{
    AgentOrder, BranchReport, BranchRound, FromAgent, OrderedProgram, RestoreOrder,
};

/// A job as this host sees it.
pub(super) struct AgentJob {
    pub(super) order: AgentOrder,
    launch: Launch,
    /// The ranks of this host.
    here: Vec<u32>,
    places: Vec<RankPlace>,
    /// What the boot records of all ranks have in common.
    boot: Boot,
}

/// Ranks that are prepared.
pub(super) struct ReadyRanks {
    pub(super) job: AgentJob,
    prepared: PreparedRanks,
    /// That of the relay, if this host needs one.
    listener: Option<Listener>,
}

/// Ranks that were restored from their images.
struct Restored {
    recruits: Recruits,
    ranks: Vec<HeldRank>,
    /// A text for the user.
    text: String,
}

impl AgentJob {
    fn crew(&self) -> Crew<'_> {
        Crew {
            launch: &self.launch,
            apps: &self.launch.apps,
            boot: self.boot,
            places: self.places.clone(),
            here: self.here.clone(),
            has_others: self.order.several,
            way_in: None,
        }
    }

    /// Checks whether the ranks can run here. Processes that run already (`has_joiners`) have
    /// directories of their own.
    fn check(&self, has_joiners: bool) -> Result<(), LaunchError> {
        let (size, base) = (self.order.nodes.len() as u64, self.order.base);
        let given: u64 = self.launch.apps.iter().map(|app| u64::from(app.ranks)).sum();
        if self.here.is_empty() || given != size {
            let ranks = self.here.len();
            let why = format!("{ranks} ranks of {size}, whose programs have {given}");
            return Err(LaunchError::Order(why));
        }
        for app in self.launch.apps.iter().filter(|_| base > 0 || !has_joiners) {
            let directory = app.directory.as_deref().unwrap_or("/".as_ref());
            if let Err(error) = std::env::set_current_dir(directory) {
                return Err(LaunchError::Directory { directory: directory.into(), error });
            }
        }
        if base == 0 && self.launch.params.cr().is_some() {
            checkpoint::check_here(&self.launch.params).map_err(LaunchError::Restore)?;
        }
        if let Some(restore) = &self.order.restore {
            // Every host answers before any restores ranks, so a process found here belongs to the
            // job of the images.
            check_ended(&restore.marks).map_err(|error| LaunchError::Restore(error.to_string()))?;
        }
        Ok(())
    }

    fn prepare(&self) -> Result<PreparedRanks, LaunchError> {
        let count = self.here.len();
        match &self.order.restore {
            None => self.crew().prepare(),
            Some(_) => plugs(&self.launch, count, false, count > 1).map(PreparedRanks::to_restore),
        }
    }

    /// Restores the ranks of this host.
    fn restore(
        &self,
        restore: &RestoreOrder,
        prepared: PreparedRanks,
        inputs: &mut Inputs,
        with: (&Binding, &Guard),
        images: &Images,
    ) -> Result<Restored, LaunchError> {
        let is_own = |rank: &&HeldRank| self.here.binary_search(&rank.number).is_ok();
        let ranks: Vec<&HeldRank> = restore.ranks.iter().filter(is_own).collect();
        let numbers: Vec<u32> = ranks.iter().map(|rank| rank.number).collect();
        let restart = FarRestart::begin(images, &numbers).map_err(LaunchError::Restore)?;
        let Back { ranks, outputs, plugs, restored } = bring_back(
            &ranks,
            prepared.plugs,
            inputs,
            (restore.step, self.boot.oversubscribed),
            with,
            &restart.here(),
        )
        .map_err(|error| restart.undo(&error))?;
        info!(ranks = restored.len(), "restored the ranks of this host");
        let recruits = Recruits { ranks, outputs, plugs };
        Ok(Restored { recruits, ranks: restored, text: restart.text.clone() })
    }

    /// The addresses of the ranks; empty ones without sockets.
    fn addresses(&self, prepared: &PreparedRanks) -> Vec<(u32, String)> {
        let numbers = self.here.iter().map(|rank| self.order.base + rank);
        let all = prepared.plugs.iter().map(|plug| plug.address.clone());
        numbers.zip(all.chain(std::iter::repeat(String::new()))).collect()
    }

    /// The ranks of this host whose input the head sends.
    fn fed(&self) -> impl Iterator<Item = u32> {
        let base = self.order.base;
        let is_here = move |rank: &u32| self.here.binary_search(&rank.wrapping_sub(base)).is_ok();
        self.order.fed.iter().copied().filter(is_here)
    }
}

impl Agent<'_> {
    pub(super) fn conclude(&mut self, base: u32, result: Result<(), LaunchError>) {
        if let Err(error) = result {
            self.fail(base, matches!(error, LaunchError::Run { .. }), error.to_string());
        }
    }

    pub(super) fn fail(&mut self, base: u32, is_program: bool, text: String) {
        warn!(text, "an order has failed");
        self.post(&FromAgent::Failed { base, is_program, text });
    }

    /// Prepares the ranks of a job, and reports it.
    pub(super) fn prepare(&mut self, order: AgentOrder) -> Result<(), LaunchError> {
        let (node, began) = (self.node.unwrap_or(u32::MAX), Instant::now());
        let job = self.job_of(order, node)?;
        let (first, of) = (job.order.base, job.order.nodes.len());
        info!(first, ranks = job.here.len(), of, "got an order");
        self.take_settings(&job)?;
        job.check(self.joiners.is_some())?;
        let images = job.order.restore.as_ref().map(|restore| &restore.images);
        let wants_images = images.filter(|images| !sees(images)).map(|_| node);
        let prepared = job.prepare()?;
        let plug = self.listen_for_relay(&job.launch)?;
        let (listener, relay) = plug.unzip();
        self.secret = job.order.secret;
        let report = BranchReport {
            slowest: Some((began.elapsed().as_nanos() as u64, node)),
            addresses: job.addresses(&prepared),
            relays: relay.map(|relay| (node, relay)).into_iter().collect(),
            wants_images: wants_images.into_iter().collect(),
            ..BranchReport::default()
        };
        self.ready = Some(ReadyRanks { job, prepared, listener });
        self.answer_round(BranchRound::Ready { base: first }, report);
        Ok(())
    }

    fn job_of(&self, order: AgentOrder, node: u32) -> Result<AgentJob, LaunchError> {
        let launch = launch(self.library_directory.clone(), &order)?;
        let here: Vec<u32> =
            (0..).zip(&order.nodes).filter(|(_, of)| **of == node).map(|(rank, _)| rank).collect();
        let (size, near) = (order.nodes.len() as u32, here.len() as u32 + self.running());
        let boot = boot(&launch.params, order.universe, (size, near), order.sockets);
        let boot = Boot { base: order.base, rank: order.base, ..boot };
        let mut places = RankPlace::all(&order.nodes);
        let nodes = places.iter_mut().zip(&order.nodes);
        nodes.for_each(|(place, node)| place.node = order.several.then_some(*node));
        Ok(AgentJob { order, launch, here, places, boot })
    }

    /// Obeys the parameters of a job.
    fn take_settings(
        &mut self,
        AgentJob { order, launch, .. }: &AgentJob,
    ) -> Result<(), LaunchError> {
        self.silence = Duration::from_secs(launch.params.mpi_agent_silence_s());
        // A lifeline begins before the order, which has the parameters.
        self.lifeline.iter_mut().for_each(|lifeline| lifeline.set_silence(self.silence));
        self.next_alive = Instant::now() + ALIVE.min(self.silence / 4);
        if order.base == 0 {
            self.survives = launch.params.mpi_ft_enable();
            self.offer_lifelines(launch)?;
            self.nodes.clone_from(&order.nodes);
        }
        Ok(())
    }

    /// Starts the prepared ranks, and reports it. After an error none of them is left.
    pub(super) fn start(&mut self) -> Result<(), LaunchError> {
        let none = || LaunchError::Order("no ranks are prepared".to_string());
        let ready = self.ready.take().ok_or_else(none)?;
        let restore = ready.job.order.restore.as_ref();
        self.host.start_guard(restore.map(|restore| &*restore.mark))?;
        let base = ready.job.order.base;
        let started = self.start_with(ready);
        if started.is_err() {
            self.host.undo_start(base);
        }
        started
    }

    pub(super) fn running(&self) -> u32 {
        self.host.ranks.running().count() as u32
    }

    pub(super) fn abandon(&mut self, base: u32) {
        info!(first = base, "abandoning a job");
        self.junction.abandon(base);
        self.ready = None;
        self.host.abandon(base);
    }

    fn start_with(&mut self, ready: ReadyRanks) -> Result<(), LaunchError> {
        let (ReadyRanks { job, mut prepared, listener }, began) = (ready, Instant::now());
        let base = job.order.base;
        if let Some(joiners) = self.joiners.as_mut().filter(|_| base == 0) {
            prepared.assign(joiners);
        }
        let open_files = self.open_files(&job)?;
        let binding = binding_of(job.launch.bind, job.here.len());
        if let Some(listener) = listener {
            self.start_relay((&job.order, &job.launch), &listener)?;
        }
        let inputs = Inputs::open(Stdin::None, job.fed());
        let (mut inputs, fed) = kernel("open standard input for the ranks", inputs)?;
        let received = self.received.take();
        let guard = self.host.guard()?;
        let mut text = binding.warning().unwrap_or_default();
        let mut restored_here = Vec::new();
        let recruits = match &job.order.restore {
            None => {
                job.crew().start(prepared, guard, self.signals, &inputs, &binding, open_files)?
            }
            Some(restore) => {
                let images = match &received {
                    Some((_, scratch)) => {
                        Images { set: scratch.path().to_path_buf(), ..restore.images.clone() }
                    }
                    None => restore.images.clone(),
                };
                let restored =
                    job.restore(restore, prepared, &mut inputs, (&binding, guard), &images)?;
                text += &restored.text;
                restored_here = restored.ranks;
                restored.recruits
            }
        };
        let AgentJob { order, here, .. } = &job;
        let (numbers, node) = (here.iter().map(|number| base + number), self.own_node());
        if order.report_bindings {
            let lines = (0..).zip(numbers.clone()).map(|(at, number)| binding.report(at, number));
            lines.for_each(|line| text += &line);
        }
        let pid = |rank: &RankProcess| rank.process.pid.cast_unsigned();
        let pids: Vec<_> = numbers.clone().zip(recruits.ranks.iter().map(pid)).collect();
        let step = order.restore.is_none().then_some(order.step);
        let named = numbers.map(|number| (number, node));
        self.host.enlist_all(named, recruits, (order.deaths, step))?;
        self.host.note_restored(&restored_here);
        self.restored.extend(restored_here);
        fed.into_iter().for_each(|(rank, pipe)| self.host.add_input(rank, pipe));
        if !text.is_empty() {
            self.post(&FromAgent::Text { text });
        }
        self.host.launch = Some(Cow::Owned(job.launch));
        self.junction.note_started(pids.len());
        let slowest = Some((began.elapsed().as_nanos() as u64, self.own_node()));
        let report = BranchReport { slowest, pids, ..BranchReport::default() };
        self.answer_round(BranchRound::Started { base }, report);
        Ok(())
    }

    /// Raises the limit of open files. The new ranks may communicate with the running ones, whose
    /// descriptors stay in use.
    fn open_files(&self, job: &AgentJob) -> Result<Option<(u64, u64)>, LaunchError> {
        let running = self.running();
        let children = self.children.iter().flatten().count();
        let here = job.here.len() + running as usize;
        let numbers = (job.boot.size.saturating_add(running), here, children);
        raise_open_files(&job.launch, numbers, job.boot.sockets)
    }

    /// The listener of the relay and its address, if this host needs a relay and has none.
    fn listen_for_relay(&self, launch: &Launch) -> Result<Option<(Listener, String)>, LaunchError> {
        match launch.transport.has_daemons() && self.host.relays.is_empty() {
            true => listener(&launch.params, &launch.hostmap).map(Some),
            false => Ok(None),
        }
    }

    /// Starts the relay. The head sends it the addresses of the other relays.
    fn start_relay(
        &mut self,
        (order, launch): (&AgentOrder, &Launch),
        listener: &Listener,
    ) -> Result<(), LaunchError> {
        let node = self.own_node();
        // One more node: the head's host.
        let nodes = order.nodes.iter().max().map_or(1, |last| last.saturating_add(2));
        let (job, secret, encrypt) = (order.universe, order.secret, encryption(&launch.params));
        let begin = RelayOrder::Begin { job, node, nodes, secret, encrypt };
        self.host.start_relay((node, &begin), self.signals, Some(listener)).map(|_| ())
    }
}

/// The job as the launcher's code on this host needs it.
fn launch(library_directory: Option<PathBuf>, order: &AgentOrder) -> Result<Launch, LaunchError> {
    let params = Params::from_vars(order.env.iter().map(|(name, value)| (name, value)));
    let params = params.map_err(|error| LaunchError::Order(error.to_string()))?;
    let own: Vec<(OsString, OsString)> = std::env::vars_os().collect();
    let app = |program: &OrderedProgram| {
        let inherited = program.inherited.clone().unwrap_or_else(|| own.clone());
        let path = match program.path.exists() {
            true => program.path.clone(),
            // The program may be at another path here.
            false => {
                let name = program.args.first().map_or(OsStr::new(""), |name| name);
                let search = ProgramSearch { path: None, directory: Some(&program.directory) };
                search.find(name).unwrap_or_else(|_| program.path.clone())
            }
        };
        App {
            ranks: program.ranks,
            path,
            args: program.args.clone(),
            inherited,
            inherits_chosen: false,
            env: program.env.clone(),
            directory: Some(program.directory.clone()),
        }
    };
    let address = |(host, address): &(String, String)| {
        address.parse::<IpAddr>().map(|address| (host.clone(), address)).ok()
    };
    Ok(Launch {
        apps: order.apps.iter().map(app).collect(),
        env: order.env.clone(),
        transport: params.rpi(),
        hostmap: Hostmap::of_pairs(order.hostmap.iter().filter_map(address)),
        params,
        output: OutputStyle::default(),
        output_files: None,
        stdin: Stdin::None,
        bind: order.bind,
        report_bindings: order.report_bindings,
        verbose: false,
        quiet: false,
        timeout: None,
        library_directory,
        spread: None,
        supervision: None,
        times: None,
    })
}
