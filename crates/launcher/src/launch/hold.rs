//! Holding all processes of a job while a tool images each rank.
//!
//! Rules
//! 0. If the transport needs it ([`Module::rests_for_images`](oxmpi_param::Module)), the messages
//!    are quiesced first and all connections closed (`quiesce.rs`). They resume after rule 4, or
//!    after a restart.
//! 1. All processes of all ranks are stopped (SIGSTOP) before the first image is made, and continue
//!    only when the tool reports that all images are complete. So the images show one moment of the
//!    job. No rank has to call MPI for this: data in the kernel on their way between two ranks are
//!    also kept by the sender, and sent again after a restart (rule 11 of the transport tcp).
//! 2. Nothing is in flight between a rank and the launcher: all its requests are read, and all
//!    replies to it. A rank that was stopped between a request and its reply runs for a moment, and
//!    then all are stopped again.
//! 3. The ranks' output is read from the pipes and forwarded.
//! 4. The processes continue when the tool requests it, or when its connection has ended. CRIU
//!    inherits that connection, so it lasts until the last CRIU ends, even if the tool was killed.
//!    Until then the ranks must not run: a process that runs while CRIU has its code in it makes
//!    CRIU fail, is ended by SIGPIPE when it writes to CRIU, or stays stopped for good, because
//!    CRIU stops again what it has found stopped.
//! 5. If a rank needs action (a signal, an end), the images are invalid, and the tool gets an
//!    error. If images are being made, the tool begins no further one and ends its connection;
//!    signals except SIGKILL wait for that. Otherwise the ranks continue at once.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use oxmpi_sys::spawn::Guard;
use tracing::{debug, info};

use super::launcher::Launcher;
use crate::host::still::STOPPING;
use crate::hosts::pieces::FileReceiver;
use oxmpi_checkpoint::ranks::HostImages;
use oxmpi_daemon::diagnostics::MessageName;
use oxmpi_rt_client::codec;
use oxmpi_rt_proto::agent::{HostOrder, HostReport, ToAgent};
use oxmpi_rt_proto::held::{Held, HeldHost, HeldRank};
use oxmpi_rt_proto::tool::{FarImages, ToolReply, ToolRequest};
use oxmpi_sys::process_stat::is_alive;

/// The most attempts to stop the processes with nothing in flight, and how long they run in
/// between.
const ATTEMPTS: u32 = 100;
const BETWEEN: Duration = Duration::from_millis(2);

/// The hold of a job, and the tools that want one.
#[derive(Debug, Default)]
pub(super) struct Holding {
    state: Option<HoldState>,
    /// The tool that has requested a hold, by its connection at the entrance.
    wanted: Option<u32>,
    /// Tools that wait until CRIU of an abandoned hold has ended.
    next: Vec<u32>,
    /// The number of attempts.
    rounds: u32,
}

#[derive(Debug, Default)]
struct HoldState {
    /// The tool's connection at the entrance.
    holder: u32,
    /// Whether images may be being made: from the tool's answer until it reports that all images
    /// are complete.
    is_imaging: bool,
    broken: Option<String>,
    /// The number of the attempt, also in the hosts' answers.
    round: u32,
    stopped_hosts: usize,
    /// The hosts' descriptions, and the number of hosts that have sent theirs.
    ranks: Vec<HeldRank>,
    listeners: Vec<SocketAddr>,
    described_hosts: usize,
    /// Whether a process has an unread answer, or got one since it was described.
    is_unread: bool,
    /// The agents' results of imaging.
    images: FarImages,
    /// The directory for images that come in pieces, and the receiver for each agent.
    directory: PathBuf,
    incoming: BTreeMap<u32, FileReceiver>,
}

impl Holding {
    /// Whether the processes are held.
    pub(super) fn is_on(&self) -> bool {
        self.state.is_some()
    }

    pub(super) fn is_holder(&self, id: u32) -> bool {
        self.state.as_ref().is_some_and(|hold| hold.holder == id)
    }

    /// A tool gets the hold before the next events.
    pub(super) fn want(&mut self, id: u32) {
        self.wanted = Some(id);
    }

    /// Begins an attempt to stop the processes; returns its number.
    fn begin(&mut self, holder: u32) -> u32 {
        self.rounds = self.rounds.wrapping_add(1);
        self.state = Some(HoldState { holder, round: self.rounds, ..HoldState::default() });
        self.rounds
    }

    /// Notes whether images may be being made.
    fn set_imaging(&mut self, is_imaging: bool) {
        self.state.iter_mut().for_each(|hold| hold.is_imaging = is_imaging);
    }

    /// Notes whether a process may have an unread answer.
    pub(super) fn set_unread(&mut self, is_unread: bool) {
        self.state.iter_mut().for_each(|hold| hold.is_unread = is_unread);
    }

    /// The hold of this attempt, if it goes on.
    fn of(&mut self, round: u32) -> Option<&mut HoldState> {
        self.state.as_mut().filter(|hold| hold.round == round)
    }

    /// The answer once the images are invalid.
    fn refusal(&self) -> Option<ToolReply> {
        let why = self.state.as_ref()?.broken.as_ref()?;
        Some(ToolReply::Refused {
            reason: format!("its processes do not stand still any longer: {why}"),
        })
    }
}

impl HoldState {
    /// Notes the description of a host; `None`: this one.
    fn note_described(&mut self, host: Option<&String>, HeldHost { ranks, listeners }: HeldHost) {
        self.described_hosts += 1;
        self.is_unread |= ranks.is_none();
        self.listeners.extend(listeners);
        let named = |rank| HeldRank { host: host.cloned(), ..rank };
        self.ranks.extend(ranks.into_iter().flatten().map(named));
    }
}

impl Launcher<'_> {
    pub(super) fn hold(&mut self, id: u32) {
        match self.why_not_held() {
            None if self.launch.transport.rests_for_images => self.rest_for_images(id),
            // Messages of other hosts are handled before it begins.
            None => self.holding.want(id),
            Some(_) if self.is_left_to_criu() => self.holding.next.push(id),
            Some(reason) => self.entrance.refuse(id, reason),
        }
    }

    /// Carries out the request outside of event handling.
    pub(super) fn begin_hold(&mut self) -> rustix::io::Result<()> {
        let Some(id) = self.holding.wanted.take() else { return Ok(()) };
        if self.entrance.pid_of(id).is_none() {
            self.end_rest();
            return Ok(()); // the tool is gone
        }
        // The processes may have advanced until their messages were quiescent.
        let refused = if self.rests_for_images() { self.why_not_held() } else { None };
        let held = match refused {
            Some(reason) => Err(reason),
            None => self.stand_still(id)?,
        };
        match held.and_then(|held| self.entrance.give(id, &held.encode())) {
            Ok(()) => {
                info!("all ranks stand still, and a tool makes their images");
                self.holding.set_imaging(true);
                self.host.note_tool_begins();
            }
            Err(reason) => {
                info!(reason, "the ranks are not held");
                self.go_on_from_hold();
                self.entrance.refuse(id, reason);
            }
        }
        Ok(())
    }

    /// Whether the tool that holds the processes is gone, and its CRIU is not.
    fn is_left_to_criu(&self) -> bool {
        let holder = self.holding.state.as_ref().map(|hold| hold.holder);
        let holder = holder.and_then(|id| self.entrance.pid_of(id));
        holder.is_some_and(|pid| !is_alive(pid))
    }

    /// Why ranks cannot be imaged one by one; `None` if they can.
    fn why_not_held(&self) -> Option<String> {
        if !self.launch.transport.can_rest(&self.launch.params) {
            let name = self.launch.transport.name;
            let can = self.launch.transport.advice_to_rest();
            return Some(format!(
                "messages over '{name}' are not in an image of one rank alone: start the job with {can}, or make an image of all its \
                 processes together (--tree)"
            ));
        }
        if self.holding.state.is_some() || self.holding.wanted.is_some() {
            return Some("images of it are being made already: try again when that is done".into());
        }
        if self.standing.is_on() {
            return Some("its messages are being quiesced: try again when that is done".into());
        }
        if self.job.jobs() > 1 {
            return Some(
                "it has spawned another job, which is not in images of single ranks: make one of all its processes together (--tree)"
                    .into(),
            );
        }
        if let Some(dead) = self.members.deaths().first() {
            return Some(format!(
                "{} has died, and the others have survived it",
                self.job.name(*dead)
            ));
        }
        if self.ports.is_any() {
            return Some(
                "a port is open (MPI_Open_port), which is not there after a restart: close it first".into(),
            );
        }
        self.why_not_imaged()
    }

    /// Stops the processes (rules 1 to 3).
    fn stand_still(&mut self, holder: u32) -> rustix::io::Result<Result<Held, String>> {
        self.host.tool = self.entrance.pid_of(holder);
        for _ in 0..ATTEMPTS {
            let round = self.holding.begin(holder);
            debug!(round, "stopping all ranks");
            self.order_all(HostOrder::Hold { round });
            if let Err(reason) = self.await_hosts(|hold| hold.stopped_hosts)? {
                return Ok(Err(reason));
            }
            self.holding.set_unread(false);
            self.order_all(HostOrder::Describe { round });
            if let Err(reason) = self.await_hosts(|hold| hold.described_hosts)? {
                return Ok(Err(reason));
            }
            let is_requested = self.branches.has_requests();
            let is_unread = self.holding.state.as_ref().is_some_and(|hold| hold.is_unread);
            if !is_requested && !is_unread {
                return Ok(self.describe_held());
            }
            self.let_run();
            std::thread::sleep(BETWEEN);
        }
        Ok(Err(format!(
            "ranks had requests to mpirun in flight each time that they were stopped, {ATTEMPTS} times: try again"
        )))
    }

    /// Waits for the answers of all hosts.
    fn await_hosts(
        &mut self,
        answers: impl Fn(&HoldState) -> usize,
    ) -> rustix::io::Result<Result<(), String>> {
        let limit = Instant::now() + 2 * STOPPING;
        loop {
            self.handle_host_messages();
            match &self.holding.state {
                None => return Ok(Err("the tool that requested it is gone".into())),
                Some(HoldState { broken: Some(reason), .. }) => return Ok(Err(reason.clone())),
                Some(hold) if answers(hold) > self.branches.agents() => return Ok(Ok(())),
                Some(_) => {}
            }
            if limit <= Instant::now() {
                return Ok(Err("the agents of other hosts have not answered in time".into()));
            }
            self.wait(Some(limit))?;
        }
    }

    /// Handles a report of a host: this one, or another one with its node.
    pub(super) fn handle_hold_report(&mut self, node: Option<u32>, report: HostReport) {
        let host = node.map(|node| self.name_of_host(node));
        let Some(hold) = &mut self.holding.state else { return };
        let answer = match report {
            HostReport::Stopped { round, result } if round == hold.round => {
                result.map(|()| hold.stopped_hosts += 1)
            }
            HostReport::Described { round, description } if round == hold.round => {
                description.map(|described| hold.note_described(host.as_ref(), described))
            }
            // About an attempt that was given up.
            _ => Ok(()),
        };
        if let Err(error) = answer {
            self.break_hold(|| match host {
                Some(host) => on_host(&host, &error),
                None => error,
            });
        }
    }

    /// Writes a piece of an image of another host, which has no access to the directory.
    pub(super) fn take_image_piece(&mut self, (node, round): (u32, u32), name: &str, bytes: &[u8]) {
        let Some(hold) = self.holding.of(round) else { return };
        let directory = &hold.directory;
        let incoming = hold.incoming.entry(node).or_insert_with(|| FileReceiver::into(directory));
        if let Err(error) = incoming.take(name, bytes) {
            let (holder, path) = (hold.holder, hold.directory.join(name));
            let reason = format!("{} cannot be written: {error}", path.display());
            self.entrance.answer(holder, &ToolReply::Refused { reason }, None);
        }
    }

    /// Notes the images of another host. The tool gets those of all hosts together.
    pub(super) fn take_images(
        &mut self,
        (node, round): (u32, u32),
        images: Result<HostImages, String>,
    ) {
        let (host, agents) = (self.name_of_host(node), self.branches.agents());
        let Some(hold) = self.holding.of(round) else { return };
        let holder = hold.holder;
        // A file that is open in this process would count as one of the job's.
        hold.incoming.remove(&node);
        match images {
            Ok(images) => {
                hold.images.push((host, images));
                if hold.images.len() == agents {
                    self.give_images(holder);
                }
            }
            Err(error) => {
                let reason = on_host(&host, &error);
                self.entrance.answer(holder, &ToolReply::Refused { reason }, None);
            }
        }
    }

    /// Sends a tool the agents' results of imaging.
    fn give_images(&self, holder: u32) {
        let images = self.holding.state.as_ref().map(|hold| &*hold.images).unwrap_or_default();
        if let Err(reason) = self.entrance.give(holder, &codec::encode(&images)) {
            self.entrance.answer(holder, &ToolReply::Refused { reason }, None);
        }
    }

    fn describe_held(&mut self) -> Result<Held, String> {
        let Some(hold) = &mut self.holding.state else { return Err("the tool is gone".into()) };
        let mut ranks = std::mem::take(&mut hold.ranks);
        let held = Held {
            ranks: Vec::new(),
            listeners: std::mem::take(&mut hold.listeners),
            universe: self.boot.job_id,
            entrance: self.entrance.names(),
            generation: self.entrance.generation(0),
            mark: self.host.guard().map(Guard::mark).map_err(|error| error.to_string())?.into(),
            secret: self.secret,
            step: self.standing.step(),
            time_left: self.end.time_left(Instant::now()),
            queued: self.output.unwritten(),
            input_ended: self.feed.has_ended(),
            programs: self.launch.apps.iter().map(super::App::held).collect(),
        };
        ranks.sort_unstable_by_key(|rank| rank.number);
        for rank in &mut ranks {
            rank.partial = self.output.partial_lines(rank.number);
            if let (Some(rest), Some(left)) = (&mut rank.input, self.feed.left(rank.number)) {
                rest.extend(left);
            }
        }
        if ranks.len() != self.members.len() {
            return Err("processes on other hosts have ended".into());
        }
        Ok(Held { ranks, ..held })
    }

    /// The job ends, as it can be restarted from this set.
    pub(super) fn end_with_checkpoint(&mut self, set: &str) {
        self.end.note_checkpoint();
        if self.launch.supervision.is_none() {
            oxmpi_sys::complain!(
                "mpirun: the job was checkpointed and has ended; 'oxmpi restart {set}' brings it back"
            );
        }
    }

    /// Handles a message of the tool; `None`: the tool is gone, with all its CRIUs.
    pub(super) fn handle_holder_message(&mut self, id: u32, said: Option<&ToolRequest>) {
        if let (Some(_), Some(refusal)) = (said, self.holding.refusal()) {
            // CRIUs of the tool may still work: the end of the connection is awaited.
            return self.entrance.answer(id, &refusal, None);
        }
        info!(
            request = said.map(|said| MessageName(said).to_string()),
            "of the tool that makes images"
        );
        let reply = ToolReply::Done { text: String::new() };
        match said {
            Some(ToolRequest::EndHeld { set }) => {
                // Unwritten output is in the checkpoint.
                self.end_with_checkpoint(set);
            }
            Some(ToolRequest::ImageFar { place }) => {
                let Some(hold) = &mut self.holding.state else { return };
                hold.directory.clone_from(&place.directory);
                let round = hold.round;
                return self.branches.post_all(&ToAgent::Image { round, place: place.clone() });
            }
            Some(ToolRequest::Imaged { ends }) => {
                self.holding.set_imaging(false);
                self.host.note_tool_ended(true);
                if *ends {
                    return self.entrance.answer(id, &reply, None);
                }
                self.go_on_from_hold();
            }
            _ => self.go_on_from_hold(),
        }
        self.entrance.end(id, &reply);
    }

    /// Lets the processes and their messages continue, or serves the next tool.
    fn go_on_from_hold(&mut self) {
        self.let_run();
        self.end_rest();
        std::mem::take(&mut self.holding.next).into_iter().for_each(|id| self.hold(id));
    }

    fn let_run(&mut self) {
        let Some(hold) = self.holding.state.take() else { return };
        debug!(round = hold.round, "letting all ranks run");
        if hold.is_imaging {
            self.host.note_tool_ended(false);
        }
        self.order_all(HostOrder::GoOn);
    }

    /// Invalidates the images, as the processes need action (rule 5).
    pub(super) fn break_hold(&mut self, why: impl FnOnce() -> String) {
        let Some(hold) = &mut self.holding.state else { return };
        if hold.broken.is_some() {
            return;
        }
        let reason = why();
        info!(reason, "the images are invalid");
        hold.broken = Some(reason);
        let holder = hold.holder;
        if !hold.is_imaging {
            self.order_all(HostOrder::GoOn);
            self.end_rest();
        } else if let Some(refusal) = self.holding.refusal() {
            self.entrance.answer(holder, &refusal, None);
        }
    }
}

fn on_host(host: &str, error: &str) -> String {
    format!("host {host}: {error}")
}
