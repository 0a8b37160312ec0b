//! The launcher's loop: it sleeps in poll(2) until a rank writes, sends a request or ends, a signal
//! comes, or a time limit is over.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, BorrowedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

use oxmpi_abi::FuncId;
use oxmpi_shm::segment::Boot;
use oxmpi_sys::spawn::{RELAYED, Signals, stands_for};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Signal, getppid, kill_process};
use tracing::{debug, info};

use super::binding::Binding;
use super::entrance::Entrance;
use super::far::{hosts_of, own_node};
use super::files::Files;
use super::functions::Calling;
use super::hold::Holding;
use super::input::Feed;
use super::links::Links;
use super::loaded::LibraryChecks;
use super::output::{Lines, Sink};
use super::quiesce::Standing;
use super::start::{RankProcess, StartedRanks, app_of};
use super::times::FirstContacts;
use super::watching::Watchdog;
use super::{Launch, LaunchError, start};
use crate::host::ranks::LocalRank;
use crate::host::{FromHost, HostLauncher, OTHER_EVENTS};
use crate::hosts::head::RemoteAgent;
use crate::hosts::joiners::Joiners;
use crate::hosts::lifelines::Lifelines;
use crate::hosts::tree::Stranded;
use crate::job::{Exit, Glimpse, JobEvent, Jobs, MpiStage, WATCH_INTERVAL};
use crate::ports::Ports;
use oxmpi_daemon::diagnostics::HeldLines;
use oxmpi_rt_client::universe::Parent;
use oxmpi_rt_proto::agent::{HostReport, Seen};

/// The upper half of the 64 bits of an event that is not the host's.
const SIGNALS: u64 = OTHER_EVENTS;
pub(super) const LINK: u64 = OTHER_EVENTS + 1;
pub(super) const LAUNCHER_LISTENERS: u64 = OTHER_EVENTS + 2;
pub(super) const AGENT_STREAM: u64 = OTHER_EVENTS + 3;
/// The error output of an agent, or of the process that forwards its stream.
pub(super) const AGENT_ERRORS: u64 = OTHER_EVENTS + 4;
pub(super) const LIFELINES: u64 = OTHER_EVENTS + 5;
const JOINERS: u64 = OTHER_EVENTS + 6;
pub(super) const ENTRANCE: u64 = OTHER_EVENTS + 7;
pub(super) const ENTRANT: u64 = OTHER_EVENTS + 8;

pub(super) struct JobMember {
    /// No request can name the process any more: it is kept while its outputs are open.
    pub(super) is_forgotten: bool,
    pub(super) running: bool,
    pub(super) lines: [Lines; 2],
    pub(super) node: u32,
    /// The index of the process's agent; `None`: this launcher's own process.
    pub(super) host: Option<usize>,
    /// The last reported state of a process on another host.
    pub(super) seen: Glimpse,
    /// Whether a process on another host had left MPI for a time in that report.
    pub(super) rests: bool,
    /// Its open outputs.
    pub(super) open: [bool; 2],
    /// The program of the process in the launcher's list, also through spawning.
    pub(super) app: usize,
}

pub(super) struct Launcher<'a> {
    pub(super) launch: &'a Launch,
    pub(super) job: Jobs,
    pub(super) signals: &'a Signals,
    pub(super) members: BTreeMap<u32, JobMember>,
    /// The processes of this host, and the events that this process waits for.
    pub(super) host: HostLauncher<'a>,
    /// The agents on other hosts; `None`: the stream has ended.
    pub(super) far: Vec<Option<RemoteAgent>>,
    pub(super) lifelines: Lifelines,
    /// The agents below lost children, each with the child's index, and requests for addresses of
    /// their processes.
    pub(super) stranded: Vec<(usize, Stranded)>,
    /// Numbers the messages to agents, in a job that survives failures.
    pub(super) numbers: Option<Rc<Cell<u64>>>,
    pub(super) stranded_requests: Vec<(u32, u32)>,
    /// The number of the last message of each host, in a job that survives failures.
    pub(super) received: HashMap<u32, u64>,
    /// Agents with messages that are not handled yet.
    pub(super) late: Vec<usize>,
    /// Events that are handled when all agents have answered a state query.
    pub(super) deferred: Vec<JobEvent>,
    pub(super) deferred_until: Option<Instant>,
    /// The common part of the first job's boot records.
    pub(super) boot: Boot,
    /// The number of this host's node, if there are several.
    pub(super) node: Option<u32>,
    /// The parent of each spawned job, by the number of its first process.
    pub(super) parents: HashMap<u32, Parent>,
    pub(super) links: Links,
    /// Errors that relays have reported before their ends, by node.
    pub(super) relay_errors: BTreeMap<u32, String>,
    /// The listener for later ranks and tools.
    pub(super) entrance: Option<Entrance>,
    /// Answers processes of another launcher's job that come late.
    pub(super) joiners: Option<Joiners>,
    /// Ranks of this host that wait until all have finalized MPI.
    pub(super) finishing: Vec<u32>,
    pub(super) universe: u64,
    pub(super) ports: Ports,
    pub(super) secret: [u8; 32],
    /// The limits on open files for ranks, if they are not the launcher's own.
    pub(super) open_files: Option<(u64, u64)>,
    pub(super) open_count: usize,
    pub(super) sinks: [Sink<'static>; 2],
    /// The outputs of processes with an incomplete line that is due at some time.
    pub(super) half_lines: BTreeSet<(u32, usize)>,
    pub(super) feed: Feed,
    pub(super) files: Option<Files>,
    /// Aborts that wait until all messages so far are read.
    pub(super) aborts: Vec<JobEvent>,
    /// The failed processes that the others were notified of, in order.
    pub(super) deaths: Vec<u32>,
    pub(super) standing: Standing,
    /// The present call of checkpoint functions, and the number of the last call.
    pub(super) calling: Option<Calling>,
    pub(super) last_call: u32,
    pub(super) holding: Holding,
    /// The exit status, once the job ends with a checkpoint.
    pub(super) ended_by_checkpoint: Option<i32>,
    pub(super) grace: Option<Instant>,
    timeout: Option<Instant>,
    watch: Option<Instant>,
    pub(super) watchdogs: Vec<Watchdog>,
    pub(super) library_checks: LibraryChecks,
    pub(super) finished: Option<i32>,
    pub(super) interrupted: Option<i32>,
    pub(super) contacts: Option<FirstContacts>,
    /// Diagnostics that wait to be printed.
    lines: HeldLines,
}

impl<'a> Launcher<'a> {
    pub(super) fn new(
        launch: &'a Launch,
        signals: &'a Signals,
        started: StartedRanks<'a>,
    ) -> Result<Self, LaunchError> {
        let StartedRanks { boot, nodes, host, feed, secret, far, .. } = started;
        let StartedRanks { lifelines, entrance, deadline, times, joiners, .. } = started;
        let name = oxmpi_sys::host::name();
        let size = nodes.len() as u32;
        let mut launcher = Launcher {
            launch,
            job: Jobs::new(size, &name)
                .surviving(launch.params.mpi_ft_enable())
                .failing_by_codes(launch.params.mpi_abort_on_non_zero_status())
                .below_other(joiners.is_some())
                .spread_over(hosts_of(launch, &name)),
            signals,
            members: BTreeMap::new(),
            lifelines,
            stranded: Vec::new(),
            numbers: far.first().and_then(|far| far.child.numbers.clone()),
            far: far.into_iter().map(Some).collect(),
            stranded_requests: Vec::new(),
            received: HashMap::new(),
            late: Vec::new(),
            deferred: Vec::new(),
            deferred_until: None,
            boot,
            node: own_node(launch, &host),
            host,
            parents: HashMap::new(),
            links: Links::default(),
            relay_errors: BTreeMap::new(),
            entrance,
            joiners,
            finishing: Vec::new(),
            universe: boot.job_id,
            ports: Ports::default(),
            secret,
            open_files: None,
            open_count: 0,
            sinks: [Sink::new(rustix::stdio::stdout()), Sink::new(rustix::stdio::stderr())],
            half_lines: BTreeSet::new(),
            feed,
            files: None,
            aborts: Vec::new(),
            deaths: Vec::new(),
            standing: Standing::default(),
            holding: Holding::default(),
            calling: None,
            last_call: 0,
            ended_by_checkpoint: None,
            grace: None,
            timeout: deadline.map(|deadline| Instant::now() + deadline.left()),
            watch: None,
            watchdogs: Watchdog::all(&launch.params),
            library_checks: LibraryChecks::begin(),
            finished: None,
            interrupted: None,
            contacts: FirstContacts::of(launch, times, size),
            lines: HeldLines::begin(),
        };
        let listened = launcher.host.listen(signals.as_fd(), SIGNALS, 0);
        let listened = listened.and_then(|()| launcher.watch_entrance()).and_then(|()| {
            let joiners = launcher.joiners.as_ref().map(Joiners::events);
            joiners.map_or(Ok(()), |fd| launcher.host.listen(fd, JOINERS, 0))
        });
        let listened = listened
            .and_then(|()| launcher.lifelines.watch(&launcher.host.events, LIFELINES << 32));
        if let Err(error) = listened.and_then(|()| launcher.enlist_far(&nodes)) {
            launcher.kill_all();
            return start::kernel("wait for the ranks", Err(error));
        }
        for number in launcher.host.ranks.numbers() {
            let tag = launch.output.tags.then(|| number.to_string());
            launcher.add_own_member(number, tag.as_deref(), app_of(&launch.apps, number));
        }
        Ok(launcher)
    }

    /// Adds a process of this host that its launcher has started.
    pub(super) fn add_own_member(&mut self, number: u32, tag: Option<&str>, app: usize) {
        let Some(one) = self.host.ranks.get(number) else { return };
        let open = [0, 1].map(|kind: usize| one.outputs[kind].is_some());
        let pid = one.rank.process.pid.cast_unsigned();
        self.add_member((number, one.node, None), open, (pid, tag), app);
    }

    /// Adds a process of a host: this one, or that of an agent.
    pub(super) fn add_member(
        &mut self,
        (number, node, host): (u32, u32, Option<usize>),
        open: [bool; 2],
        (pid, tag): (u32, Option<&str>),
        app: usize,
    ) {
        let times = self.launch.output.times;
        self.open_count += open.into_iter().filter(|open| *open).count();
        let member = JobMember {
            is_forgotten: false,
            running: true,
            lines: [0, 1].map(|_| Lines::new(tag, times)),
            node,
            host,
            seen: Glimpse { pid, ..Glimpse::default() },
            rests: false,
            open,
            app,
        };
        self.members.insert(number, member);
    }

    /// Runs until all jobs have ended, and leaves no process behind.
    pub(super) fn run_to_the_end(mut self) -> Result<i32, LaunchError> {
        let code = self.run();
        self.part_with_others();
        self.end_far();
        self.kill_all();
        start::kernel("wait for the ranks", code)
    }

    pub(super) fn kill_all(mut self) {
        self.host.end();
    }

    pub(super) fn rank(&self, number: u32) -> Option<&RankProcess> {
        self.host.ranks.get(number).map(|one| &one.rank)
    }

    /// Prints the diagnostics so far, and a text.
    pub(super) fn print(&mut self, text: &str) {
        let lines = self.lines.take();
        self.sinks[1].queue().extend_from_slice((lines + text).as_bytes());
        self.sinks[1].write();
    }

    /// Prints the started ranks, as far as requested.
    pub(super) fn introduce(&mut self, binding: &Binding) {
        let mut text = binding.warning().filter(|_| !self.launch.quiet).unwrap_or_default();
        let here = self.launch.here(self.members.len() as u32);
        for (number, member) in &self.members {
            if self.launch.verbose {
                let path = self.launch.apps[member.app].path.display();
                let on = self.launch.spread.as_ref().and_then(|spread| spread.host(*number));
                let on = on.map(|host| format!(", host {}", host.name)).unwrap_or_default();
                let own = self.rank(*number).map(|rank| rank.process.pid.cast_unsigned());
                let pid = own.unwrap_or(member.seen.pid);
                text += &format!("mpirun: rank {number}: pid {pid}{on}, {path}\n");
            }
            if let (true, Ok(at)) = (self.launch.report_bindings, here.binary_search(number)) {
                text += &binding.report(at as u32, *number);
            }
        }
        self.print(&text);
    }

    fn run(&mut self) -> rustix::io::Result<i32> {
        self.read_all_agents();
        loop {
            if let Some(code) = self.ended_by_checkpoint {
                return Ok(code);
            }
            if let Some(code) = self.finished {
                info!(code, "the job is over");
                self.end_contacts();
                self.drain()?;
                return self.settle(code);
            }
            self.begin_hold()?;
            self.wait()?;
            self.times();
        }
    }

    pub(super) fn wait(&mut self) -> rustix::io::Result<()> {
        while let Some(at) = self.late.pop() {
            self.read_agent(at);
        }
        self.host.carriers = self.carriers();
        self.handle_host_messages();
        self.send_input();
        self.print("");
        // Messages that events and time limits have caused go before the next wait.
        self.service_agents();
        let watchdogs = self.watchdogs.iter().map(Watchdog::time).min();
        let full = self.sinks.iter().any(Sink::is_full);
        let times = [
            self.grace,
            self.timeout,
            self.watch,
            self.links.time(),
            self.deferred_until,
            self.far_time(),
            self.standing.time(),
            self.host.time(),
            self.holding.until,
            self.entrance.as_ref().and_then(Entrance::time),
            watchdogs,
            self.library_checks.time(),
            self.contacts.as_ref().map(FirstContacts::time),
            (!full).then(|| self.half_lines_time()).flatten(),
        ];
        let timeout = times.into_iter().flatten().min().map(|t| {
            let left = t.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        let stdin = rustix::stdio::stdin();
        let mut fds = vec![PollFd::new(&self.host.events, PollFlags::IN)];
        if !full {
            fds.push(PollFd::new(&self.host.outputs, PollFlags::IN));
        }
        let waiting: Vec<BorrowedFd<'_>> = self.sinks.iter().filter_map(Sink::waiting).collect();
        fds.extend(waiting.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)));
        if self.feed.wants_more() {
            fds.push(PollFd::new(&stdin, PollFlags::IN));
        }
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        drop(fds);
        self.feed.read(rustix::stdio::stdin(), &mut [0; 4096]);
        if !full {
            // Outputs before the ends of ranks: a rank's output comes before the report on its
            // failure.
            self.take_events(false)?;
            // After reading: the end of a line may have come while this process was late.
            self.pass_half_lines(Instant::now());
        }
        self.take_events(true)?;
        self.sinks.iter_mut().for_each(Sink::write);
        // The written output makes room for more.
        self.service_agents();
        self.host.on_time(Instant::now(), self.room())?;
        self.handle_host_messages();
        Ok(())
    }

    /// The bytes of output that may be read.
    fn room(&self) -> u64 {
        self.sinks.iter().map(Sink::room).min().unwrap_or(0) as u64
    }

    /// The processes of this one that carry the streams of agents.
    fn carriers(&self) -> Vec<i32> {
        self.far.iter().flatten().filter_map(|far| far.child.carrier()).collect()
    }

    fn take_events(&mut self, urgent: bool) -> rustix::io::Result<()> {
        let set = if urgent { &self.host.events } else { &self.host.outputs };
        for (kind, name) in self.host.take_events(set)? {
            match kind {
                SIGNALS => self.signalled()?,
                LINK => self.link_ready(name),
                LAUNCHER_LISTENERS => self.welcome_others(),
                ENTRANCE => self.welcome_entrants(),
                ENTRANT => self.read_entrant(name),
                AGENT_STREAM => self.far_ready(name as usize),
                AGENT_ERRORS => self.print_agent_errors(name as usize),
                LIFELINES => self.lifelines.ready(name, &self.host.events, LIFELINES << 32),
                JOINERS => self.joiners.iter_mut().for_each(Joiners::serve_late),
                kind => self.host.ready(kind, name, self.room())?,
            }
            self.handle_host_messages();
        }
        Ok(())
    }

    /// Handles the messages of this host's launcher.
    pub(super) fn handle_host_messages(&mut self) {
        while let Some(message) = self.host.next_message() {
            match message {
                FromHost::Report(report) => self.handle_report(None, report),
                FromHost::Event(event) => self.handle_process_event(None, event),
                FromHost::Request { rank, request, came } => {
                    self.handle_request(rank, request, came)
                }
                FromHost::Malformed { rank, error } => {
                    let text = format!("{}: {error}", self.job.name(rank));
                    self.handle_event(JobEvent::Say { text });
                }
                // A tool makes the images of this host.
                FromHost::Imaged { .. } => {}
            }
        }
    }

    /// Handles a report of the launcher of a host: this one, or another one with its node.
    pub(super) fn handle_report(&mut self, node: Option<u32>, report: HostReport) {
        match report {
            HostReport::Output { rank, is_error, bytes } => {
                self.take_output(rank, usize::from(is_error), &bytes);
            }
            HostReport::InputTaken { rank, bytes } => self.feed.note_taken(rank, bytes as usize),
            HostReport::InputClosed { rank } => self.feed.drop_readers(|of| of == rank),
            HostReport::NoListeners { reason } => {
                self.print(&format!("mpirun: {reason}\n"));
                self.refuse_asker(reason);
            }
            HostReport::Returned { number, values } => self.note_returns(number, values),
            HostReport::Stopped { .. } | HostReport::Described { .. } => {
                self.handle_hold_report(node, report);
            }
            HostReport::Relay { node, notice } => self.handle_relay_notice(node, &notice),
            HostReport::RelayEnded { node, pid, exit } => {
                self.note_relay_end(node, pid.cast_signed(), exit);
            }
        }
    }

    /// Handles the end of a process of this launcher, here or on another host.
    pub(super) fn note_end(&mut self, rank: u32, exit: Exit, seen: Glimpse) {
        self.note_contact(rank, seen.stage, true);
        if self.holding.state.is_some() {
            let name = self.job.name(rank);
            self.break_hold(|| format!("{name} has ended"));
        }
        let may_be_bound = self.job.jobs() > 1 || self.links.is_any();
        if may_be_bound && seen.stage != MpiStage::Finalized {
            // A process that has released the bond must not die with this one: before a disconnect
            // returns anywhere all have reported it.
            self.read_all();
        }
        if let Some(member) = self.members.get_mut(&rank) {
            member.running = false;
        }
        self.give_up_call_of(rank);
        self.feed.drop_readers(|of| of == rank);
        self.forget_services(rank);
        self.ports.ended(rank);
        self.takes_no_step(rank);
        let is_well = self.job.ends_well(exit, seen.stage);
        let event = JobEvent::Exited { rank, exit, seen };
        if may_be_bound && !is_well {
            // Other launchers must not know earlier either: their reaction would come back.
            self.handle_after_checks(event);
        } else {
            self.handle_event(event);
            self.report_end_to_others(rank, is_well);
        }
    }

    pub(super) fn read_all(&mut self) {
        self.host.read_all_messages();
        self.handle_host_messages();
    }

    pub(super) fn time_left(&self, now: Instant) -> Option<Duration> {
        self.timeout.map(|limit| limit.saturating_duration_since(now))
    }

    /// Whether the user has ended the job, or its time limit is over and not handled yet.
    pub(super) fn is_to_end(&self, now: Instant) -> bool {
        self.job.is_ending() || self.timeout.is_some_and(|limit| limit <= now)
    }

    pub(super) fn signalled(&mut self) -> rustix::io::Result<()> {
        while let Ok(Some(number)) = self.signals.next() {
            let relayed = stands_for(number);
            let number = relayed.unwrap_or(number);
            if number != Signal::CHILD.as_raw() {
                debug!(signal = number, is_relayed = relayed.is_some(), "got a signal");
            }
            let Some(signal) = Signal::from_named_raw(number) else { continue };
            if relayed.is_none() && self.launch.supervision.is_some() && RELAYED.contains(&number) {
                // If the signal was for the whole group, the supervisor treats its own and this one
                // as one. If the supervisor has ended, this process ends too.
                let _ = getppid().map(|supervisor| kill_process(supervisor, signal));
            } else if signal == Signal::USR1 {
                let (reports, forwards) = self.launch.params.mpi_sigusr1();
                if reports {
                    self.report_state();
                }
                if forwards {
                    self.signal_running(signal);
                }
            } else if signal == Signal::USR2 {
                self.signal_running(signal);
            } else if signal == Signal::CHILD {
                self.host.note_child_ended();
            } else if signal == Signal::XFSZ {
                // The failed write reports the same.
            } else if signal == Signal::TSTP {
                self.signal_running(Signal::STOP);
                kill_process(rustix::process::getpid(), Signal::STOP)?;
                self.signal_running(Signal::CONT);
            } else if self.finished.is_some() {
                // The ranks have ended; only the wait for the reader of the output is left.
                self.interrupted = Some(number);
            } else {
                self.handle_event(JobEvent::Signal(number));
            }
        }
        Ok(())
    }

    fn times(&mut self) {
        let now = Instant::now();
        if self.grace.is_some_and(|t| t <= now) {
            self.grace = None;
            self.handle_event(JobEvent::GraceOver);
        }
        if self.timeout.is_some_and(|t| t <= now) {
            self.timeout = None;
            let time = self.launch.timeout.unwrap_or_default();
            self.handle_after_checks(JobEvent::TimedOut {
                time,
                seen: Vec::new(),
                waits: String::new(),
            });
        }
        self.handle_deferred(now);
        self.service_links(now);
        self.check_hangs(now);
        self.check_libraries_of_ranks(now);
        if !self.job.watches() {
            self.watch = None;
        } else if self.watch.is_none_or(|t| t <= now) {
            let is_new = self.watch_far(self.watch.is_none());
            self.watch = Some(now + WATCH_INTERVAL);
            let all = self.glimpses();
            self.handle_event(JobEvent::Seen { all, is_new });
        }
        self.check_contacts(now);
        self.check_missing();
        self.check_entrants(now);
        self.answer_finishing();
        self.check_sinks();
    }

    pub(super) fn glimpses(&self) -> Vec<(u32, Glimpse)> {
        self.members.keys().map(|rank| (*rank, self.glimpse(*rank))).collect()
    }

    pub(super) fn glimpse(&self, rank: u32) -> Glimpse {
        match self.host.ranks.get(rank).map(LocalRank::seen) {
            Some(Seen { pid, stage, last_call, .. }) => {
                Glimpse { pid, stage, last_call: call_name(last_call) }
            }
            None => self.members.get(&rank).map(|member| member.seen.clone()).unwrap_or_default(),
        }
    }
}

/// The name of an MPI function by its number in a status line.
pub(super) fn call_name(call: u16) -> Option<&'static str> {
    FuncId::from_index(call.checked_sub(1)?).map(FuncId::name)
}
