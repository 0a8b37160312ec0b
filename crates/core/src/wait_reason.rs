//! Descriptions of long waits. A wait of at least [`NOTE_AFTER`] writes a *note* into the segment
//! of the process ([`WaitNoteWriter`]), where the launcher reads it.

use crate::Process;
use crate::process::Domain;
use crate::shmem;
use crate::task::RequestTask;
use oxmpi_coll::Run;
use oxmpi_engine::{CopiedSends, MatchSource, Outlook, RequestId, TagMatch, Team};
use oxmpi_fabric::Fabric;
use oxmpi_plan::{Call, Shared};
use oxmpi_rt_client::waiting::{LongWait, MOST_PEERS, Need};
use oxmpi_shm::door::Door;
use oxmpi_shm::wait_note::WaitNote;
use oxmpi_sys::clock;
use oxmpi_sys::semaphore::Awaits;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The time before a wait writes its note, and between two writes.
const NOTE_AFTER: Duration = Duration::from_secs(1);

pub(crate) enum Awaited<'a, F> {
    Request(u64),
    All(&'a [u64]),
    Any(&'a [u64]),
    Message(u32, MatchSource, TagMatch),
    Described(&'a dyn Fn(&Domain<F>) -> Reason),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Reason {
    pub(crate) text: String,
    /// Whether all, any or none of `processes` must act.
    pub(crate) need: Need,
    pub(crate) processes: Vec<u32>,
}

impl Reason {
    pub(crate) fn new(
        text: impl Into<String>,
        need: Need,
        processes: impl Into<Vec<u32>>,
    ) -> Reason {
        Reason { text: text.into(), need, processes: processes.into() }
    }

    /// Joins several reasons. The wait ends when all have ended, or with `is_any` when one has.
    pub(crate) fn join(mut reasons: Vec<Reason>, is_any: bool) -> Reason {
        let more = match reasons.len() {
            0 => return Reason::new("a request", Need::Attention, []),
            1 => return reasons.swap_remove(0),
            n => n - 1,
        };
        let mut processes: Vec<u32> =
            reasons.iter().flat_map(|reason| reason.processes.clone()).collect();
        processes.sort_unstable();
        processes.dedup();
        let has = |need| reasons.iter().any(|reason| reason.need == need);
        // The launcher must not take a wait for a deadlock if the wait can still end. So of several
        // needs the one counts that says least about the processes.
        let need = if has(Need::Outside) {
            Need::Outside
        } else if has(Need::Attention) {
            Need::Attention
        } else if is_any || has(Need::Any) {
            Need::Any
        } else {
            Need::All
        };
        let joined = if is_any { "or one of" } else { "and" };
        let requests = if more == 1 { "request" } else { "requests" };
        Reason::new(
            format!("{}; {joined} {more} more {requests}", reasons[0].text),
            need,
            processes,
        )
    }
}

pub(crate) type SharedName = Arc<Mutex<Box<[u8]>>>;

impl<F: Fabric> Domain<F> {
    fn reason(&self, awaited: &Awaited<'_, F>) -> Reason {
        match awaited {
            Awaited::Request(request) => self.reason_of(*request),
            Awaited::All(requests) => self.join(requests, false),
            Awaited::Any(requests) => self.join(requests, true),
            Awaited::Message(context, source, tag) => {
                let from = match source {
                    MatchSource::Any => None,
                    MatchSource::Process(process) => Some(*process),
                };
                let tag = match tag {
                    TagMatch::Any => None,
                    TagMatch::Is(tag) => Some(*tag),
                };
                self.reason_of_message(*context, from, tag, String::new())
            }
            Awaited::Described(words) => words(self),
        }
    }

    fn awaits(&self, awaited: &Awaited<'_, F>) -> Awaits {
        let requests = match awaited {
            Awaited::Request(request) => std::slice::from_ref(request),
            Awaited::All(requests) | Awaited::Any(requests) => requests,
            Awaited::Message(_, MatchSource::Process(process), _) => {
                return Awaits::Message(*process);
            }
            Awaited::Message(..) | Awaited::Described(_) => return Awaits::Anything,
        };
        // Many requests rarely wait for one peer only, so the search stops early.
        let mut sole = None;
        for request in requests.iter().take(MOST_PEERS) {
            for outlook in self.lane.outlook(RequestId::from_raw(*request)) {
                let awaits = match outlook {
                    Outlook::Message { from: Some(from), .. } | Outlook::Data { from, .. } => {
                        Awaits::Message(from)
                    }
                    Outlook::Receiver { to, .. } | Outlook::Room { to, .. } => Awaits::Room(to),
                    Outlook::Message { from: None, .. } | Outlook::Above(_) => {
                        return Awaits::Anything;
                    }
                };
                if *sole.get_or_insert(awaits) != awaits {
                    return Awaits::Anything;
                }
            }
        }
        sole.filter(|_| requests.len() <= MOST_PEERS).unwrap_or(Awaits::Anything)
    }

    pub(crate) fn kept(&self, awaited: &Awaited<'_, F>) -> CopiedSends {
        let is_receiving = |request: &u64| self.lane.is_receiving(RequestId::from_raw(*request));
        let needs_message = match awaited {
            Awaited::Request(request) => is_receiving(request),
            Awaited::All(requests) => requests.iter().any(is_receiving),
            Awaited::Message(..) => true,
            // Such a wait may need only a send.
            Awaited::Any(_) | Awaited::Described(_) => false,
        };
        if needs_message { CopiedSends::InPieces } else { CopiedSends::All }
    }

    fn join(&self, requests: &[u64], is_any: bool) -> Reason {
        let open = requests
            .iter()
            .filter(|request| !self.lane.outlook(RequestId::from_raw(**request)).is_empty());
        Reason::join(
            open.take(MOST_PEERS).map(|request| self.reason_of(*request)).collect(),
            is_any,
        )
    }

    fn reason_of(&self, request: u64) -> Reason {
        let outlook = self.lane.outlook(RequestId::from_raw(request));
        Reason::join(outlook.into_iter().map(|outlook| self.reason_for(outlook)).collect(), false)
    }

    fn reason_for(&self, outlook: Outlook) -> Reason {
        match outlook {
            Outlook::Message { context, from, tag, room } => {
                self.reason_of_message(context, from, tag, format!(" of at most {}", bytes(room)))
            }
            Outlook::Data { context, from, tag, come, bytes: all } => {
                let place = self.place(context, Some(from));
                let text = format!(
                    "the data of a message{}{place}, {come} of {} have come",
                    tagged(Some(tag)),
                    bytes(all)
                );
                Reason::new(text, Need::Attention, [from])
            }
            Outlook::Receiver { context, to, tag, bytes: all } => {
                let place = self.place(context, Some(to));
                let text = format!("to receive {}{}{place}", bytes(all), tagged(Some(tag)));
                Reason::new(text, Need::All, [to])
            }
            Outlook::Room { context, to, tag, bytes: all } => {
                let place = self.place(context, Some(to));
                let text = format!("to take in {}{}{place}", bytes(all), tagged(Some(tag)));
                Reason::new(text, Need::Attention, [to])
            }
            Outlook::Above(request) => self.reason_above(request),
        }
    }

    fn reason_of_message(
        &self,
        context: u32,
        from: Option<u32>,
        tag: Option<i32>,
        room: String,
    ) -> Reason {
        let text = format!("a message{}{}{room}", tagged(tag), self.place(context, from));
        match from {
            Some(process) => Reason::new(text, Need::All, [process]),
            None => {
                let mut processes =
                    self.lane.team_of(context).map_or(Vec::new(), |team| team.map.processes());
                // Another thread of this process may also send the message.
                processes.retain(|process| *process != self.lane.me());
                Reason::new(text, Need::Any, processes)
            }
        }
    }

    fn reason_above(&self, request: RequestId) -> Reason {
        let Some(task) = self.task_of(request) else {
            let text = "a generalized request, which the program itself completes, or the end of some other work";
            return Reason::new(text, Need::Outside, []);
        };
        let (run, length) = match task {
            RequestTask::Once(single) => {
                let element_bytes = single.run.element().map_or(1, |element| element.size());
                let length =
                    single.call.as_ref().and_then(|(call, _)| length_of(call, element_bytes));
                (Some(&single.run), length.unwrap_or_default())
            }
            RequestTask::Persistent(key) => (self.persistent.run(*key), String::new()),
            RequestTask::Later(later) => return later.reason(self),
            RequestTask::Library(_) => (None, String::new()),
            RequestTask::Handed(call) => {
                let team = call.team();
                let own = team.map.process(team.rank).unwrap_or(u32::MAX);
                let place = self.place(team.collective, None);
                let text = format!("a collective that was handed to {}{place}", call.library());
                return Reason::new(text, Need::All, others(team, own));
            }
        };
        run.map_or_else(
            || Reason::new("partitions of a message", Need::Outside, []),
            |run| self.reason_of_run(run, &length),
        )
    }

    fn reason_of_run(&self, run: &Run, length: &str) -> Reason {
        let (steps, outlook) = run.outlook(&self.lane);
        let reasons = outlook.into_iter().map(|outlook| self.reason_for(outlook)).collect();
        let Reason { need, processes, .. } = Reason::join(reasons, false);
        let place = self.place(run.team().collective, None);
        let text = match run.algorithm() {
            Some((id, _)) => {
                let algorithm = id.algorithm();
                format!(
                    "{}{length}{place}, algorithm {}, step {steps}",
                    algorithm.collective, algorithm.name
                )
            }
            None => format!("a collective{length}{place}, step {steps}"),
        };
        Reason::new(text, need, processes)
    }

    /// The reason why MPI_Finalize waits: open sends; without these, receives with freed requests.
    pub(crate) fn reason_of_end(&self) -> Reason {
        let receives = self.lane.outlook_of_freed_receives();
        if receives.is_empty() || !self.lane.outlook_of_sends().is_empty() {
            return self.reason_of_sends();
        }
        Reason::join(receives.into_iter().map(|receive| self.reason_for(receive)).collect(), false)
    }

    pub(crate) fn reason_of_sends(&self) -> Reason {
        let sends = self.lane.outlook_of_sends();
        let number = sends.len();
        let Reason { need, processes, .. } =
            Reason::join(sends.into_iter().map(|send| self.reason_for(send)).collect(), false);
        Reason::new(format!("to receive {number} sent messages"), need, processes)
    }

    /// " on COMMUNICATOR", with the rank of `process` there if it differs from its number.
    pub(crate) fn place(&self, context: u32, process: Option<u32>) -> String {
        let name = self.name_of(context);
        let Some(team) = self.lane.team_of(context) else { return format!(" on {name}") };
        match process.and_then(|process| Some((process, team.map.rank(process)?))) {
            Some((process, rank)) if process != rank => format!(" on {name} (rank {rank} there)"),
            _ => format!(" on {name}"),
        }
    }

    fn name_of(&self, context: u32) -> String {
        let name = self.names.get(context as usize).and_then(Option::as_ref);
        let name = name.map(|name| name.lock().unwrap_or_else(PoisonError::into_inner).clone());
        let name = name.as_deref().map(String::from_utf8_lossy).unwrap_or_default();
        match (&*name, self.lane.team_of(context)) {
            ("MPI_COMM_WORLD" | "MPI_COMM_SELF", _) => name.into_owned(),
            ("", Some(team)) => format!("a communicator of {}", ranks(&team)),
            ("", None) => "a communicator".to_string(),
            (name, _) => format!("communicator '{name}'"),
        }
    }
}

fn ranks(team: &Team) -> String {
    if team.size() == 1 { "1 rank".to_string() } else { format!("{} ranks", team.size()) }
}

/// The length of a collective's data in bytes if the standard requires the same length of all
/// ranks. The text shows it because ranks that wait for ever may have passed different lengths.
fn length_of(call: &Call, element_bytes: usize) -> Option<String> {
    let Shared(length) = match call {
        Call::Bcast { bytes: length, .. }
        | Call::Gather { block: length, .. }
        | Call::Scatter { block: length, .. }
        | Call::Allgather { block: length, .. }
        | Call::Alltoall { block: length, .. }
        | Call::Reduce { count: length, .. }
        | Call::Allreduce { count: length, .. }
        | Call::Scan { count: length, .. }
        | Call::Exscan { count: length, .. }
        | Call::ReduceScatterBlock { block: length, .. } => length,
        _ => return None,
    };
    Some(shmem::length_of(call.collective(), length.saturating_mul(element_bytes)))
}

fn bytes(count: u64) -> String {
    if count == 1 { "1 byte".to_string() } else { format!("{count} bytes") }
}

fn tagged(tag: Option<i32>) -> String {
    match tag {
        None => " with any tag".to_string(),
        // The program's tags are not negative.
        Some(tag) if tag < 0 => " of the library".to_string(),
        Some(tag) => format!(" with tag {tag}"),
    }
}

pub(crate) fn others(team: &Team, own: u32) -> Vec<u32> {
    team.map.processes().into_iter().filter(|process| *process != own).collect()
}

pub(crate) struct WaitNoteWriter<'a, F> {
    process: &'a Process<F>,
    awaited: &'a Awaited<'a, F>,
    /// The time of the first sleep; 0 before it.
    begun_ns: u64,
    moved_ns: u64,
    due_ns: Option<u64>,
    note: Option<&'a WaitNote>,
}

impl<F: Fabric> Process<F> {
    /// The note writer of one wait, or of several waits for one operation. Its drop removes the
    /// note.
    pub(crate) fn wait_note_writer<'a>(
        &'a self,
        awaited: &'a Awaited<'a, F>,
    ) -> WaitNoteWriter<'a, F> {
        WaitNoteWriter {
            process: self,
            awaited,
            begun_ns: 0,
            moved_ns: 0,
            due_ns: None,
            note: None,
        }
    }
}

impl<'a, F: Fabric> WaitNoteWriter<'a, F> {
    pub(crate) fn awaited(&self) -> &'a Awaited<'a, F> {
        self.awaited
    }

    #[inline]
    pub(crate) fn note_news(&mut self) {
        if self.begun_ns != 0 {
            self.moved_ns = clock::now_ns();
            self.due_ns.get_or_insert(self.moved_ns + NOTE_AFTER.as_nanos() as u64);
        }
    }

    /// Called before a sleep. Returns the time until the next note is due.
    #[inline]
    pub(crate) fn before_sleep(&mut self) -> Option<Duration> {
        if self.begun_ns == 0 {
            self.begun_ns = clock::now_ns();
            self.moved_ns = self.begun_ns;
            self.due_ns = Some(self.begun_ns + NOTE_AFTER.as_nanos() as u64);
            return Some(NOTE_AFTER);
        }
        let left = self.due_ns?.saturating_sub(clock::now_ns());
        if left > 0 {
            return Some(Duration::from_nanos(left));
        }
        self.due_ns = None;
        self.write();
        None
    }
    #[cold]
    pub(crate) fn awaits(&self) -> Awaits {
        self.process.domain.lock().awaits(self.awaited)
    }

    #[cold]
    #[inline(never)]
    fn write(&mut self) {
        let Some(segment) = self.process.door.as_ref().map(Door::segment) else { return };
        if self.note.is_none() {
            // If all notes are in use, enough other threads of this process describe a wait.
            self.note = segment.wait_notes().iter().find(|note| note.take());
        }
        let Some(note) = self.note else { return };
        let Reason { text, need, mut processes } = self.process.domain.lock().reason(self.awaited);
        let count = processes.len() as u32;
        processes.truncate(MOST_PEERS);
        let waiting = LongWait {
            since_ns: self.begun_ns,
            moved_ns: self.moved_ns,
            call: segment.status().last_call(),
            need,
            peers: processes,
            count,
            text,
        };
        note.write(&waiting.encode());
    }
}

impl<F> Drop for WaitNoteWriter<'_, F> {
    #[inline]
    fn drop(&mut self) {
        if let Some(note) = self.note {
            note.give_back();
        }
    }
}
