//! Peers on this node, as the transports through memory see them: their segments, and what wakes them.

use crate::Unreachable;
use oxmpi_shm::door::Bell;
use oxmpi_shm::segment::Segment;
use oxmpi_sys::barrier::BarrierKind;
use oxmpi_sys::poller::raise_alarm;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

/// Opens the segment of a process; the error is for a person.
pub type Open = Box<dyn FnMut(u32) -> Result<Opened, String> + Send>;

/// Opens the alarm of a process that may sleep on descriptors, if it has one.
pub type OpenAlarm = Arc<dyn Fn(u32) -> Option<OwnedFd> + Send + Sync>;

/// A segment, as it was handed over.
#[derive(Debug)]
pub struct Opened {
    /// Its descriptor.
    pub fd: OwnedFd,
    /// Whose it is, if it belongs to another launcher.
    pub other: Option<ForeignProcess>,
}

/// A process of another launcher, where numbers of processes are others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForeignProcess {
    /// Names all jobs of its launcher.
    pub job: u64,
    /// Its number there.
    pub number: u32,
    /// This process's number there.
    pub known_as: u32,
}

/// A peer with which contact was made.
#[derive(Debug)]
pub struct Neighbour {
    /// Its segment, mapped.
    pub segment: Arc<Segment>,
    /// What wakes it.
    pub bell: Bell,
    /// This process's number there.
    pub known_as: u32,
}

/// Makes contact with peers: maps their segments.
pub struct Neighbours {
    own: Arc<Segment>,
    kind: BarrierKind,
    open: Open,
    open_alarm: Option<OpenAlarm>,
}

impl std::fmt::Debug for Neighbours {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Neighbours").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl Neighbours {
    /// Of the process that owns `own`, with barriers of this kind. `open` opens others' segments.
    pub fn new(own: Arc<Segment>, kind: BarrierKind, open: Open) -> Neighbours {
        Neighbours { own, kind, open, open_alarm: None }
    }

    /// The same, some of which may sleep on descriptors: who rings one raises its alarm.
    #[must_use]
    pub fn with_alarms(self, open: OpenAlarm) -> Neighbours {
        Neighbours { open_alarm: Some(open), ..self }
    }

    /// The segment of this process.
    pub fn own(&self) -> &Arc<Segment> {
        &self.own
    }

    /// The barriers of this process.
    pub fn kind(&self) -> BarrierKind {
        self.kind
    }

    /// The barriers between this process and the owner of a segment. Those of one launcher use the same; with one of another that has
    /// the fence on both sides so does this process, whose own heavy side is a fence at least.
    pub fn kind_with(&self, its: &Segment) -> BarrierKind {
        match self.kind {
            BarrierKind::Asymmetric if !its.boot().asymmetric => BarrierKind::Symmetric,
            kind => kind,
        }
    }

    /// What wakes the owner of a segment.
    pub fn bell_of(&self, peer: u32, segment: &Arc<Segment>) -> Bell {
        let bell = Bell::new(segment, self.kind_with(segment));
        let Some(open) = self.open_alarm.clone() else { return bell };
        // Opened at the first sleep of the peer's; most are awake whenever somebody rings.
        let alarm = OnceLock::new();
        bell.with_alarm(Arc::new(move || {
            // A request that fails is made again at the next sleep.
            if let Some(alarm) = alarm.get().or_else(|| open(peer).map(|opened| alarm.get_or_init(|| opened)))
            {
                raise_alarm(alarm);
            }
        }))
    }

    /// Makes contact: maps the peer's segment.
    ///
    /// # Errors
    /// If there is none, or it is not that of this peer.
    pub fn connect(&mut self, peer: u32) -> Result<Neighbour, Unreachable> {
        let unreachable = |why: String| Unreachable { peer, why };
        let Opened { fd, other } = (self.open)(peer).map_err(unreachable)?;
        let segment = Segment::map(&fd).map_err(|e| unreachable(e.to_string()))?;
        let (own, its) = (self.own.boot(), segment.boot());
        let is_ours = ForeignProcess { job: own.job_id, number: peer, known_as: own.rank };
        let ForeignProcess { job, number, known_as } = other.unwrap_or(is_ours);
        if its.job_id != job || its.rank != number {
            return Err(unreachable(format!(
                "its segment says process {} of job {:x}, not process {number} of job {job:x}",
                its.rank, its.job_id
            )));
        }
        let bell = self.bell_of(peer, &segment);
        Ok(Neighbour { segment, bell, known_as })
    }

    /// Maps the heap that lies in the segment of a peer, too. Whether that could be done.
    pub fn map_heap(&mut self, peer: u32, segment: &Segment) -> bool {
        (self.open)(peer).is_ok_and(|opened| segment.map_heap(opened.fd).is_ok())
    }
}
