//! The launcher's loop: it sleeps in poll(2) until a rank writes, asks or ends, a signal comes, or a time is over.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use oxmpi_shm::segment::Boot;
use oxmpi_sys::spawn::{Guard, RELAYED, Signals, stands_for};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::process::{Signal, getppid, kill_process};

use super::binding::Binding;
use super::entrance::{ENTRANCE, ENTRANT, Entrance};
use super::far::{FarInput, hosts_of, own_node};
use super::files::Files;
use super::functions::Calling;
use super::heirs::Heirs;
use super::hold::Hold;
use super::input::Feed;
use super::lifelines::Lifelines;
use super::links::Links;
use super::output::{Lines, Sink, is_ready};
use super::plugs::Plug;
use super::quiesce::Standing;
use super::relays::{RELAY, RELAY_ENDED, Relays};
use super::start::{Outputs, Rank, Started, app_of};
use super::watching::Watchdog;
use super::{Launch, LaunchError, end, start};
use crate::hosts::agent::stage;
use crate::hosts::head::Far;
use crate::job::{Event, Exit, Glimpse, Job, Stage, WATCH_INTERVAL};
use crate::orphans::Orphans;
use crate::ports::Ports;
use crate::universe::Parent;

/// What an event of the poll set is about, packed into its 64 bits.
const OUTPUT: [u64; 2] = [0, 1];
pub(super) const CONTROL: u64 = 2;
pub(super) const ENDED: u64 = 3;
const SIGNALS: u64 = 4;
/// A connection with another launcher.
pub(super) const LINK: u64 = 5;
/// Where other launchers connect.
pub(super) const DOORS: u64 = 6;

/// What an agent on another host says.
pub(super) const FAR: u64 = 7;
/// What it, or who passes it on, complains about.
pub(super) const FAR_ERRORS: u64 = 8;
/// Standard input for a process there.
pub(super) const FAR_INPUT: u64 = 9;
/// What agents hold on to.
pub(super) const LIFELINES: u64 = 12;

/// A process of any job.
pub(super) struct Member {
    /// The process; none when the job that it was spawned with is over.
    pub(super) rank: Option<Rank>,
    /// The segment of one that is gone, for those who may still ask for it.
    pub(super) relic: Option<OwnedFd>,
    /// Whether one that is gone had called MPI_Finalize.
    pub(super) has_left: bool,
    /// Nobody will ask for it any more: it is kept as long as somebody may write to its outputs.
    pub(super) is_forgotten: bool,
    pub(super) running: bool,
    pub(super) outputs: Outputs,
    pub(super) lines: [Lines; 2],
    /// In a job over sockets.
    pub(super) plug: Option<Plug>,
    /// On which of the job's nodes it is.
    pub(super) node: u32,
    /// Whose agent looks after it (an index of the launcher's); `None`: this launcher does.
    pub(super) host: Option<usize>,
    /// How far one of another host was when that was told last.
    pub(super) seen: Glimpse,
    /// Whether it had left MPI for a time then.
    pub(super) rests: bool,
    /// Which outputs of one of another host are open.
    pub(super) far_open: [bool; 2],
    /// Which of the programs it runs that the launcher was started with, or for whose processes it was spawned.
    pub(super) app: usize,
}

/// The running loop.
pub(super) struct Launcher<'a> {
    pub(super) launch: &'a Launch,
    pub(super) job: Job,
    pub(super) signals: &'a Signals,
    /// By process number.
    pub(super) members: BTreeMap<u32, Member>,
    pub(super) guard: Guard,
    /// The agents on other hosts; `None`: its stream has ended.
    pub(super) far: Vec<Option<Far>>,
    /// What is to go to processes there as their standard input.
    pub(super) far_inputs: Vec<FarInput>,
    pub(super) lifelines: Lifelines,
    /// Those that have said something that was not heeded then.
    pub(super) late: Vec<usize>,
    /// What is told when all agents have answered a look.
    pub(super) deferred: Vec<Event>,
    pub(super) deferred_until: Option<Instant>,
    /// What the boot records of the first job have in common.
    pub(super) boot: Boot,
    /// Which of the nodes this host is, if there are several.
    pub(super) node: Option<u32>,
    /// Who has spawned each job, by the number of its first process; the first nobody.
    pub(super) parents: HashMap<u32, Parent>,
    /// Other launchers.
    pub(super) links: Links,
    pub(super) relays: Relays,
    /// Where processes ask that want to be ranks later.
    pub(super) entrance: Option<Entrance>,
    /// Names all jobs of this launcher.
    pub(super) universe: u64,
    pub(super) ports: Ports,
    pub(super) secret: [u8; 32],
    /// The limits on open files for ranks, if they are not the launcher's own.
    pub(super) open_files: Option<(u64, u64)>,
    /// What must always be listened to: control sockets, processes, signals.
    pub(super) events: OwnedFd,
    /// The ranks' outputs, listened to while our own take more.
    pub(super) outputs: OwnedFd,
    pub(super) open_count: usize,
    pub(super) sinks: [Sink<'static>; 2],
    /// The outputs of processes with a line that waits for its end, but not for ever.
    pub(super) half_lines: BTreeSet<(u32, usize)>,
    pub(super) feed: Feed,
    pub(super) files: Option<Files>,
    /// Processes that abort, while all that others have said is heard.
    pub(super) aborts: Vec<Event>,
    /// The processes that have died and of which the others were told, in that order.
    pub(super) deaths: Vec<u32>,
    /// How far the messages are on the way to standing still.
    pub(super) standing: Standing,
    /// A tool that has the program's functions for checkpoints called, and the last call of them.
    pub(super) calling: Option<Calling>,
    pub(super) last_call: u32,
    /// The tool for which all processes stand still, to make images of them.
    pub(super) hold: Option<Hold>,
    /// Who wants that, by its number at the entrance; how often it was tried, and until when others are waited for.
    pub(super) hold_wanted: Option<u32>,
    /// Those who want it when CRIU has ended that a tool which is gone has left behind.
    pub(super) hold_next: Vec<u32>,
    pub(super) hold_rounds: u32,
    pub(super) hold_until: Option<Instant>,
    /// The exit code, once the job ends because there is a set of images to go on from.
    pub(super) ended_by_checkpoint: Option<i32>,
    pub(super) grace: Option<Instant>,
    orphans: Orphans,
    pub(super) heirs: Heirs,
    timeout: Option<Instant>,
    watch: Option<Instant>,
    pub(super) watchdogs: Vec<Watchdog>,
    pub(super) finished: Option<i32>,
    /// The user's signal that has come since.
    pub(super) interrupted: Option<i32>,
    pub(super) buffer: Vec<u8>,
}

impl<'a> Launcher<'a> {
    pub(super) fn new(
        launch: &'a Launch,
        signals: &'a Signals,
        started: Started,
    ) -> Result<Self, LaunchError> {
        let Started { boot, nodes, ranks, outputs: pipes, guard, feed, plugs, secret, .. } = started;
        let Started { far, far_inputs, lifelines, entrance, deadline, .. } = started;
        let host = oxmpi_sys::host::name();
        let size = nodes.len() as u32;
        let epoll = || start::kernel("wait for the ranks", epoll::create(epoll::CreateFlags::CLOEXEC));
        let mut launcher = Launcher {
            launch,
            job: Job::new(size, &host)
                .surviving(launch.params.mpi_ft_enable())
                .failing_by_codes(launch.params.mpi_abort_on_non_zero_status())
                .spread_over(hosts_of(launch, &host)),
            signals,
            members: BTreeMap::new(),
            guard,
            far: far.into_iter().map(Some).collect(),
            far_inputs: Vec::new(),
            lifelines,
            late: Vec::new(),
            deferred: Vec::new(),
            deferred_until: None,
            boot,
            node: own_node(launch, &ranks),
            parents: HashMap::new(),
            links: Links::default(),
            relays: Relays::default(),
            entrance,
            universe: boot.job_id,
            ports: Ports::default(),
            secret,
            open_files: None,
            events: epoll()?,
            outputs: epoll()?,
            open_count: 0,
            sinks: [Sink::new(rustix::stdio::stdout()), Sink::new(rustix::stdio::stderr())],
            half_lines: BTreeSet::new(),
            feed,
            files: None,
            aborts: Vec::new(),
            deaths: Vec::new(),
            standing: Standing::default(),
            hold: None,
            hold_wanted: None,
            hold_next: Vec::new(),
            hold_rounds: 0,
            hold_until: None,
            calling: None,
            last_call: 0,
            ended_by_checkpoint: None,
            grace: None,
            orphans: Orphans::default(),
            heirs: Heirs::default(),
            timeout: deadline.map(|deadline| Instant::now() + deadline.left()),
            watch: None,
            watchdogs: Watchdog::all(&launch.params),
            finished: None,
            interrupted: None,
            buffer: vec![0; 64 << 10],
        };
        let listened = launcher.listen(&launcher.events, signals.as_fd(), SIGNALS, 0);
        let listened = listened.and_then(|()| launcher.watch_entrance());
        let mut plugs = plugs.into_iter();
        let app = |number| app_of(&launch.apps, number);
        let tag = |number: u32| launch.output.tags.then(|| number.to_string());
        let listened = listened.and_then(|()| launcher.await_lifelines());
        let enlisted = listened.and_then(|()| launcher.enlist_far(&nodes, far_inputs)).and_then(|()| {
            ranks
                .into_iter()
                .zip(pipes)
                .map(|((number, rank), outputs)| {
                    let tag = tag(number);
                    launcher.enlist(number, (rank, outputs, plugs.next()), tag.as_deref(), app(number))
                })
                .collect::<rustix::io::Result<Vec<()>>>()
        });
        if let Err(error) = enlisted {
            launcher.bury_all();
            return start::kernel("wait for the ranks", Err(error));
        }
        Ok(launcher)
    }

    pub(super) fn listen(
        &self,
        set: &OwnedFd,
        fd: BorrowedFd<'_>,
        kind: u64,
        rank: u64,
    ) -> rustix::io::Result<()> {
        epoll::add(set, fd, epoll::EventData::new_u64(kind << 32 | rank), epoll::EventFlags::IN)
    }

    /// Takes a process among the members.
    pub(super) fn enlist(
        &mut self,
        number: u32,
        (rank, outputs, plug): (Rank, Outputs, Option<Plug>),
        tag: Option<&str>,
        app: usize,
    ) -> rustix::io::Result<()> {
        let name = u64::from(number);
        let listened = self
            .listen(&self.events, rank.control.as_fd(), CONTROL, name)
            .and_then(|()| self.listen(&self.events, rank.process.pidfd.as_fd(), ENDED, name))
            .and_then(|()| {
                let mut pipes = OUTPUT.into_iter().zip(outputs.iter());
                pipes.try_for_each(|(kind, pipe)| match pipe {
                    Some(pipe) => self.listen(&self.outputs, pipe.as_fd(), kind, name),
                    None => Ok(()),
                })
            });
        self.open_count += outputs.iter().flatten().count();
        let times = self.launch.output.times;
        let lines = [0, 1].map(|_| Lines::new(tag, times));
        let node = rank.segment.boot().node.unwrap_or(0);
        let rank = Some(rank);
        let member = Member {
            rank,
            relic: None,
            has_left: false,
            is_forgotten: false,
            running: true,
            outputs,
            lines,
            plug,
            node,
            host: None,
            seen: Glimpse::default(),
            rests: false,
            far_open: [false; 2],
            app,
        };
        self.members.insert(number, member);
        listened
    }

    /// Runs until everything has ended, and leaves nothing behind.
    pub(super) fn run_to_the_end(mut self) -> Result<i32, LaunchError> {
        let code = self.run();
        self.part_with_others();
        self.end_far();
        self.bury_all();
        start::kernel("wait for the ranks", code)
    }

    pub(super) fn bury_all(mut self) {
        self.relays.end(&self.guard);
        end::reap(self.members.values().filter_map(|member| member.rank.as_ref()), self.guard);
    }

    /// The process of a number, if it is still held.
    pub(super) fn rank(&self, number: u32) -> Option<&Rank> {
        self.members.get(&number)?.rank.as_ref()
    }

    /// A line for the user, as from the launcher itself.
    pub(super) fn print(&mut self, text: &str) {
        self.sinks[1].queue().extend_from_slice(text.as_bytes());
        self.sinks[1].write();
    }

    /// Says what was started, as far as the user wants to know.
    pub(super) fn introduce(&mut self, binding: &Binding) {
        let mut text = binding.warning().filter(|_| !self.launch.quiet).unwrap_or_default();
        let here = self.launch.here(self.members.len() as u32);
        for (number, member) in &self.members {
            if self.launch.verbose {
                let path = self.launch.apps[member.app].path.display();
                let on = self.launch.spread.as_ref().and_then(|spread| spread.host(*number));
                let on = on.map(|host| format!(", host {}", host.name)).unwrap_or_default();
                let pid = member.rank.as_ref().map_or(member.seen.pid, |r| r.process.pid.cast_unsigned());
                text += &format!("mpirun: rank {number}: pid {pid}{on}, {path}\n");
            }
            if let (true, Ok(at)) = (self.launch.report_bindings, here.binary_search(number)) {
                text += &binding.report(at as u32, *number);
            }
        }
        self.print(&text);
    }

    fn run(&mut self) -> rustix::io::Result<i32> {
        self.hear_all_far();
        loop {
            if let Some(code) = self.ended_by_checkpoint {
                return Ok(code);
            }
            if let Some(code) = self.finished {
                self.drain()?;
                return self.settle(code);
            }
            self.begin_hold()?;
            self.wait()?;
            self.times();
        }
    }

    /// Sleeps until something happens, and sees to it.
    pub(super) fn wait(&mut self) -> rustix::io::Result<()> {
        while let Some(at) = self.late.pop() {
            self.hear_far(at);
        }
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
            self.orphans.time(),
            self.heirs.time(),
            self.hold_until,
            self.calling_time(),
            self.entrance.as_ref().and_then(Entrance::time),
            watchdogs,
            (!full).then(|| self.half_lines_time()).flatten(),
        ];
        let timeout = times.into_iter().flatten().min().map(|t| {
            let left = t.saturating_duration_since(Instant::now());
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) }
        });
        let stdin = rustix::stdio::stdin();
        let mut fds = vec![PollFd::new(&self.events, PollFlags::IN)];
        if !full {
            fds.push(PollFd::new(&self.outputs, PollFlags::IN));
        }
        let waiting: Vec<BorrowedFd<'_>> = self.sinks.iter().filter_map(Sink::waiting).collect();
        fds.extend(waiting.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)));
        if self.feed.wants_more() {
            fds.push(PollFd::new(&stdin, PollFlags::IN));
        }
        let behind: Vec<BorrowedFd<'_>> = self.feed.behind().collect();
        fds.extend(behind.iter().map(|fd| PollFd::new(fd, PollFlags::OUT)));
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        drop(fds);
        self.feed.pass(rustix::stdio::stdin(), &mut self.buffer[..4096]);
        if !full {
            // Before the ends of ranks: what a rank wrote comes before the report on its death.
            self.take_events(false)?;
            // After what has come: the end of a line may be there while this process was late.
            self.pass_half_lines(Instant::now());
        }
        self.take_events(true)?;
        self.sinks.iter_mut().for_each(Sink::write);
        self.look_after_far();
        self.reap_orphans(Instant::now());
        self.look_for_heirs(Instant::now())
    }

    fn take_events(&mut self, urgent: bool) -> rustix::io::Result<()> {
        let mut list = Vec::with_capacity(128);
        let set = if urgent { &self.events } else { &self.outputs };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        match epoll::wait(set, rustix::buffer::spare_capacity(&mut list), Some(&now)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error),
        }
        for event in list {
            let data = event.data.u64();
            let rank = data as u32;
            match data >> 32 {
                CONTROL => _ = self.control_once(rank),
                ENDED => self.ended(rank)?,
                SIGNALS => self.signalled()?,
                LINK => self.link_ready(rank),
                DOORS => self.welcome_others(),
                ENTRANCE => self.welcome_entrants(),
                ENTRANT => self.hear_entrant(rank),
                RELAY => self.hear_relay(rank),
                RELAY_ENDED => self.relay_ended(rank)?,
                FAR => self.far_ready(rank as usize),
                FAR_ERRORS => self.far_complains(rank as usize),
                FAR_INPUT => self.far_input(rank),
                LIFELINES => self.lifeline_ready(rank),
                kind => self.output(rank, kind as usize),
            }
        }
        Ok(())
    }

    pub(super) fn ended(&mut self, rank: u32) -> rustix::io::Result<()> {
        let Some(ended) = self.rank(rank) else { return Ok(()) };
        let Some(exit) = start::exit_of(ended)? else { return Ok(()) };
        if !self.heirs.is_awaited(rank) {
            epoll::delete(&self.events, &ended.process.pidfd)?;
        }
        if self.is_succeeded(rank, exit)? {
            return Ok(());
        }
        // Its last words come before its end.
        while self.control_once(rank) {}
        for kind in [0, 1] {
            while !self.sinks[self.launch.output.sink(kind)].is_full()
                && self
                    .members
                    .get(&rank)
                    .and_then(|member| member.outputs[kind].as_ref())
                    .is_some_and(|pipe| is_ready(pipe, PollFlags::IN))
            {
                self.output(rank, kind);
            }
        }
        let seen = self.glimpse(rank);
        self.note_end(rank, exit, seen);
        Ok(())
    }

    /// A process of this launcher, here or on another host, has ended.
    pub(super) fn note_end(&mut self, rank: u32, exit: Exit, seen: Glimpse) {
        let name = self.job.name(rank);
        self.break_hold(|| format!("{name} has ended"));
        let may_be_bound = self.job.jobs() > 1 || self.links.is_any();
        if may_be_bound && seen.stage != Stage::Finalized {
            // Who has released it by now is not to die with it: before a disconnect returns anywhere all have said so.
            self.hear_all();
        }
        if let Some(member) = self.members.get_mut(&rank) {
            member.running = false;
            if let Some(plug) = &mut member.plug {
                // If it has never asked for it: nobody may go on connecting to it.
                plug.listener = None;
                plug.abroad.iter_mut().for_each(|abroad| abroad.listener = None);
            }
        }
        self.forget_services(rank);
        self.tell_relay_of_end(rank);
        self.ports.ended(rank);
        self.takes_no_step(rank);
        let is_well = self.job.ends_well(exit, seen.stage);
        let event = Event::Exited { rank, exit, seen };
        if may_be_bound && !is_well {
            // Nor do other launchers hear of it before: what they make of it would come back.
            self.tell_after_look(event);
        } else {
            self.tell(event);
            self.tell_others_of_end(rank, is_well);
        }
    }

    /// Takes all that processes have said by now.
    pub(super) fn hear_all(&mut self) {
        let all: Vec<u32> = self.members.keys().copied().collect();
        for rank in all {
            while self.control_once(rank) {}
        }
    }

    /// How long the job may still take, if that is limited.
    pub(super) fn time_left(&self, now: Instant) -> Option<Duration> {
        self.timeout.map(|limit| limit.saturating_duration_since(now))
    }

    /// Whether the user has ended the job, or its time is over: the next look at the times tells of that.
    pub(super) fn is_to_end(&self, now: Instant) -> bool {
        self.job.is_ending() || self.timeout.is_some_and(|limit| limit <= now)
    }

    pub(super) fn signalled(&mut self) -> rustix::io::Result<()> {
        while let Ok(Some(number)) = self.signals.next() {
            let relayed = stands_for(number);
            let number = relayed.unwrap_or(number);
            let Some(signal) = Signal::from_named_raw(number) else { continue };
            if relayed.is_none() && self.launch.supervision.is_some() && RELAYED.contains(&number) {
                // If the signal was for the whole group, the supervisor's own and this one are the same to it.
                // If it is gone, so is this process.
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
                self.orphans.note();
            } else if signal == Signal::XFSZ {
                // The error of the call says the same.
            } else if signal == Signal::TSTP {
                self.signal_running(Signal::STOP);
                kill_process(rustix::process::getpid(), Signal::STOP)?;
                self.signal_running(Signal::CONT);
            } else if self.finished.is_some() {
                // Nothing is left to be ended but the wait for whoever reads the output.
                self.interrupted = Some(number);
            } else {
                self.tell(Event::Signal(number));
            }
        }
        Ok(())
    }

    fn times(&mut self) {
        let now = Instant::now();
        if self.grace.is_some_and(|t| t <= now) {
            self.grace = None;
            self.tell(Event::GraceOver);
        }
        if self.timeout.is_some_and(|t| t <= now) {
            self.timeout = None;
            let time = self.launch.timeout.unwrap_or_default();
            self.tell_after_look(Event::TimedOut { time, seen: Vec::new(), waits: String::new() });
        }
        self.tell_deferred(now);
        self.look_after_links(now);
        self.look_for_hangs(now);
        if !self.job.watches() {
            self.watch = None;
        } else if self.watch.is_none_or(|t| t <= now) {
            let is_new = self.watch_far(self.watch.is_none());
            self.watch = Some(now + WATCH_INTERVAL);
            let all = self.glimpses();
            self.tell(Event::Seen { all, is_new });
        }
        self.look_at_missing();
        self.look_at_calls(now);
        self.look_at_entrants(now);
        self.look_at_sinks();
    }

    /// Reaps what ranks have left behind.
    fn reap_orphans(&mut self, now: Instant) {
        let mut orphans = std::mem::take(&mut self.orphans);
        orphans.reap(now, || self.awaited_children());
        self.orphans = orphans;
    }

    pub(super) fn glimpses(&self) -> Vec<(u32, Glimpse)> {
        self.members.keys().map(|rank| (*rank, self.glimpse(*rank))).collect()
    }

    pub(super) fn glimpse(&self, rank: u32) -> Glimpse {
        let Some(member @ Rank { segment, process, .. }) = self.rank(rank) else {
            return self.members.get(&rank).map(|member| member.seen.clone()).unwrap_or_default();
        };
        let status = segment.status();
        Glimpse {
            pid: member.owner().unwrap_or(process.pid.cast_unsigned()),
            stage: stage(status.state()),
            last_call: self.call_name(status.last_call()),
        }
    }

    /// The name of the MPI function of this number, if there is one.
    pub(super) fn call_name(&self, call: u16) -> Option<&'static str> {
        Some(call).filter(|&call| call != 0).and_then(self.launch.call_name)
    }
}
