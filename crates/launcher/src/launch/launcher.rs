//! The launcher's loop: it sleeps in poll(2) until a rank writes, sends a request or ends, a signal
//! comes, or a time limit is over.

use std::os::fd::{AsFd, BorrowedFd};
use std::time::Instant;

use oxmpi_abi::FuncId;
use oxmpi_shm::segment::Boot;
use oxmpi_sys::spawn::{RELAYED, Signals, stands_for};
use rustix::event::{PollFd, PollFlags};
use rustix::process::{Signal, getppid, kill_process};
use tracing::{debug, info};

use super::binding::Binding;
use super::ending::JobEnd;
use super::entrance::Entrance;
use super::far::{DeferredEvents, hosts_of, own_node};
use super::functions::Calls;
use super::hold::Holding;
use super::input::Feed;
use super::links::Links;
use super::loaded::LibraryChecks;
use super::members::{JobMember, JobMembers};
use super::printing::Printer;
use super::quiesce::Standing;
use super::start::{RankProcess, StartedRanks, app_of};
use super::times::FirstContacts;
use super::watching::Watchdog;
use super::{Launch, LaunchError, start};
use crate::host::{FromHost, HostLauncher};
use crate::hosts::branches::{AGENT_ERRORS, AGENT_STREAM, Branches, FURTHER_EVENTS, LIFELINES};
use crate::hosts::joiners::Joiners;
use crate::job::{Exit, Glimpse, JobEvent, Jobs, MpiStage, WATCH_INTERVAL};
use crate::polling::{self, wait_for};
use crate::ports::Ports;
use oxmpi_rt_proto::agent::HostReport;

/// The upper half of the 64 bits of an event that is not the host's.
const SIGNALS: u64 = FURTHER_EVENTS;
pub(super) const LINK: u64 = FURTHER_EVENTS + 1;
pub(super) const LAUNCHER_LISTENERS: u64 = FURTHER_EVENTS + 2;
const JOINERS: u64 = FURTHER_EVENTS + 3;
pub(super) const ENTRANCE: u64 = FURTHER_EVENTS + 4;
pub(super) const ENTRANT: u64 = FURTHER_EVENTS + 5;

pub(super) struct Launcher<'a> {
    pub(super) launch: &'a Launch,
    pub(super) job: Jobs,
    pub(super) signals: &'a Signals,
    pub(super) members: JobMembers,
    /// The processes of this host, and the events that this process waits for.
    pub(super) host: HostLauncher<'a>,
    /// The agents on other hosts.
    pub(super) branches: Branches,
    /// Events that are handled when all agents have answered a state query.
    pub(super) deferred: DeferredEvents,
    /// The common part of the first job's boot records.
    pub(super) boot: Boot,
    /// The number of this host's node, if there are several.
    pub(super) node: Option<u32>,
    pub(super) links: Links,
    /// The listener for later ranks and tools.
    pub(super) entrance: Entrance,
    /// Answers processes of another launcher's job that come late.
    pub(super) joiners: Option<Joiners>,
    pub(super) ports: Ports,
    pub(super) secret: [u8; 32],
    /// The limits on open files for ranks, if they are not the launcher's own.
    pub(super) open_files: Option<(u64, u64)>,
    pub(super) output: Printer<'static>,
    pub(super) feed: Feed,
    pub(super) standing: Standing,
    pub(super) calls: Calls,
    pub(super) holding: Holding,
    pub(super) end: JobEnd,
    watch: Option<Instant>,
    pub(super) watchdogs: Vec<Watchdog>,
    pub(super) library_checks: LibraryChecks,
    pub(super) contacts: Option<FirstContacts>,
}

impl<'a> Launcher<'a> {
    pub(super) fn new(
        launch: &'a Launch,
        signals: &'a Signals,
        started: StartedRanks<'a>,
    ) -> Result<Self, LaunchError> {
        let StartedRanks { boot, nodes, host, feed, secret, branches, .. } = started;
        let StartedRanks { entrance, deadline, times, joiners, .. } = started;
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
            members: JobMembers::default(),
            branches,
            deferred: DeferredEvents::default(),
            boot,
            node: own_node(launch, &host),
            host,
            links: Links::default(),
            entrance,
            joiners,
            ports: Ports::default(),
            secret,
            open_files: None,
            output: Printer::new(launch, [rustix::stdio::stdout(), rustix::stdio::stderr()]),
            feed,
            standing: Standing::default(),
            holding: Holding::default(),
            calls: Calls::default(),
            end: JobEnd::of(deadline),
            watch: None,
            watchdogs: Watchdog::all(&launch.params),
            library_checks: LibraryChecks::begin(),
            contacts: FirstContacts::of(launch, times, size),
        };
        let listened = launcher.host.listen(signals.as_fd(), SIGNALS, 0);
        let listened = listened
            .and_then(|()| launcher.host.listen(launcher.entrance.events(), ENTRANCE, 0))
            .and_then(|()| {
                let joiners = launcher.joiners.as_ref().map(Joiners::events);
                joiners.map_or(Ok(()), |fd| launcher.host.listen(fd, JOINERS, 0))
            });
        if let Err(error) = listened.and_then(|()| launcher.enlist_far(&nodes)) {
            launcher.kill_all();
            return start::kernel("wait for the ranks", Err(error));
        }
        for number in launcher.host.ranks.numbers() {
            let app = app_of(&launch.apps, number);
            launcher.add_own_member(number, &number.to_string(), app);
        }
        Ok(launcher)
    }

    /// Adds a process of this host that its launcher has started.
    pub(super) fn add_own_member(&mut self, number: u32, name: &str, app: usize) {
        let Some(one) = self.host.ranks.get(number) else { return };
        let open = [0, 1].map(|kind: usize| one.outputs[kind].is_some());
        let pid = one.rank.process.pid.cast_unsigned();
        self.add_member((number, (None, one.node)), open, (pid, name), app);
    }

    /// Adds a process of a host: this one, or that of an agent.
    pub(super) fn add_member(
        &mut self,
        (number, home): (u32, (Option<usize>, u32)),
        open: [bool; 2],
        (pid, name): (u32, &str),
        app: usize,
    ) {
        self.output.add(number, name, open);
        self.members.add(number, JobMember::new(home, pid, app));
    }

    /// Runs until all jobs have ended, and leaves no process behind.
    pub(super) fn run_to_the_end(mut self) -> Result<i32, LaunchError> {
        let code = self.run();
        self.links.part();
        self.branches.end();
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
        self.output.print(text);
    }

    /// Prints the started ranks, as far as requested.
    pub(super) fn introduce(&mut self, binding: &Binding) {
        let mut text = binding.warning().filter(|_| !self.launch.quiet).unwrap_or_default();
        let here = self.launch.here(self.members.len() as u32);
        for (number, member) in self.members.iter() {
            if self.launch.verbose {
                let path = self.launch.apps[member.app].path.display();
                let on = self.launch.spread.as_ref().and_then(|spread| spread.host(number));
                let on = on.map(|host| format!(", host {}", host.name)).unwrap_or_default();
                let own = self.rank(number).map(|rank| rank.process.pid.cast_unsigned());
                let pid = own.unwrap_or(member.seen.pid);
                text += &format!("mpirun: rank {number}: pid {pid}{on}, {path}\n");
            }
            if let (true, Ok(at)) = (self.launch.report_bindings, here.binary_search(&number)) {
                text += &binding.report(at as u32, number);
            }
        }
        self.print(&text);
    }

    fn run(&mut self) -> rustix::io::Result<i32> {
        // Messages may have come with the answers at the start.
        self.branches.note_running();
        loop {
            if let Some(code) = self.end.checkpointed() {
                return Ok(code);
            }
            if let Some(code) = self.end.finished() {
                info!(code, "the job is over");
                self.end_contacts();
                self.drain()?;
                return self.settle(code);
            }
            self.begin_hold()?;
            self.wait(None)?;
            self.times();
        }
    }

    /// Waits for events, until this time at most, and handles them.
    pub(super) fn wait(&mut self, until: Option<Instant>) -> rustix::io::Result<()> {
        self.branches.take_unread().into_iter().for_each(|at| self.read_agent(at));
        self.host.carriers = self.branches.carriers();
        self.handle_host_messages();
        self.send_input();
        self.print("");
        // Messages that events and time limits have caused go before the next wait.
        self.service_agents();
        let watchdogs = self.watchdogs.iter().map(Watchdog::time).min();
        let full = self.output.is_full();
        let times = [
            until,
            self.end.time(),
            self.watch,
            self.links.time(),
            self.deferred.time(),
            self.branches.time(),
            self.standing.time(),
            self.host.time(),
            self.entrance.time(),
            watchdogs,
            self.library_checks.time(),
            self.contacts.as_ref().map(FirstContacts::time),
            self.output.time(),
        ];
        let next = times.into_iter().flatten().min();
        let left = next.map(|time| time.saturating_duration_since(Instant::now()));
        let stdin = rustix::stdio::stdin();
        let mut fds = vec![PollFd::new(&self.host.events, PollFlags::IN)];
        if !full {
            fds.push(PollFd::new(&self.host.outputs, PollFlags::IN));
        }
        let waiting: Vec<BorrowedFd<'_>> = self.output.waiting().collect();
        fds.extend(waiting.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)));
        fds.extend(self.links.waiting().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::OUT)));
        if self.feed.wants_more() {
            fds.push(PollFd::new(&stdin, PollFlags::IN));
        }
        wait_for(&mut fds, left)?;
        drop(fds);
        self.feed.read(rustix::stdio::stdin(), &mut [0; 4096]);
        if !full {
            // Outputs before the ends of ranks: a rank's output comes before the report on its
            // failure.
            self.take_events(false)?;
            // After reading: the end of a line may have come while this process was late.
            self.output.pass_half_lines(Instant::now());
        }
        self.take_events(true)?;
        self.links.write();
        self.output.write();
        // The written output makes room for more.
        self.service_agents();
        self.host.on_time(Instant::now(), self.output.room())?;
        self.handle_host_messages();
        Ok(())
    }

    fn take_events(&mut self, urgent: bool) -> rustix::io::Result<()> {
        let set = if urgent { &self.host.events } else { &self.host.outputs };
        for (kind, name) in polling::events_of(set)? {
            match kind {
                SIGNALS => self.signalled()?,
                LINK => self.link_ready(name),
                LAUNCHER_LISTENERS => self.welcome_others(),
                ENTRANCE => self.entrance.welcome(&self.host.events),
                ENTRANT => self.read_entrant(name),
                AGENT_STREAM => self.far_ready(name as usize),
                AGENT_ERRORS => self.output.print_bytes(&self.branches.read_errors(name as usize)),
                LIFELINES => self.branches.lifeline_ready(name, &self.host.events),
                JOINERS => self.joiners.iter_mut().for_each(Joiners::serve_late),
                kind => self.host.ready(kind, name, self.output.room())?,
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
            HostReport::RelayEnded { node, pid, exit, why } => {
                self.note_relay_end((node, pid.cast_signed()), exit, why);
            }
        }
    }

    /// Handles the end of a process of this launcher, here or on another host.
    pub(super) fn note_end(&mut self, rank: u32, exit: Exit, seen: Glimpse) {
        self.note_contact(rank, seen.stage, true);
        if self.holding.is_on() {
            let name = self.job.name(rank);
            self.break_hold(|| format!("{name} has ended"));
        }
        let may_be_bound = self.job.jobs() > 1 || self.links.is_any();
        if may_be_bound && seen.stage != MpiStage::Finalized {
            // A process that has released the bond must not die with this one: before a disconnect
            // returns anywhere all have reported it.
            self.read_all();
        }
        self.members.stop(rank);
        self.give_up_call_of(rank);
        self.feed.drop_readers(|of| of == rank);
        self.links.forget_services(rank);
        self.ports.ended(rank);
        self.takes_no_step(rank);
        let is_well = self.job.ends_well(exit, seen.stage);
        let event = JobEvent::Exited { rank, exit, seen };
        if may_be_bound && !is_well {
            // Other launchers must not know earlier either: their reaction would come back.
            self.handle_after_checks(event);
        } else {
            self.handle_event(event);
            self.links.report_end(rank, is_well);
        }
    }

    pub(super) fn read_all(&mut self) {
        self.host.read_all_messages();
        self.handle_host_messages();
    }

    /// Whether the user has ended the job, or its time limit is over and not handled yet.
    pub(super) fn is_to_end(&self, now: Instant) -> bool {
        self.job.is_ending() || self.end.is_late(now)
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
            } else if self.end.is_over() {
                // The ranks have ended; only the wait for the reader of the output is left.
                self.end.interrupt(number);
            } else {
                self.handle_event(JobEvent::Signal(number));
            }
        }
        Ok(())
    }

    fn times(&mut self) {
        let now = Instant::now();
        if self.end.take_grace(now) {
            self.handle_event(JobEvent::GraceOver);
        }
        if self.end.take_limit(now) {
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
            let is_new = self.branches.watch(self.watch.is_none());
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
        self.members.iter().map(|(rank, _)| (rank, self.glimpse(rank))).collect()
    }

    pub(super) fn glimpse(&self, rank: u32) -> Glimpse {
        self.members.glimpse(rank, &self.host.ranks)
    }
}

/// The name of an MPI function by its number in a status line.
pub(super) fn call_name(call: u16) -> Option<&'static str> {
    FuncId::from_index(call.checked_sub(1)?).map(FuncId::name)
}
