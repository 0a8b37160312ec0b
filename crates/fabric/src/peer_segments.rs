use crate::Unreachable;
use oxmpi_shm::door::Bell;
use oxmpi_shm::segment::Segment;
use oxmpi_sys::barrier::BarrierKind;
use oxmpi_sys::poller::raise_alarm;
use std::os::fd::OwnedFd;
use std::sync::{Arc, OnceLock};

/// Opens the segment of a process; the error is for the user.
pub type OpenSegment = Box<dyn FnMut(u32) -> Result<OpenedSegment, String> + Send>;

/// Opens the alarm of a process that may sleep on descriptors, if it has one.
pub type OpenAlarm = Arc<dyn Fn(u32) -> Option<OwnedFd> + Send + Sync>;

/// A segment of a peer that the launcher has handed over.
#[derive(Debug)]
pub struct OpenedSegment {
    pub fd: OwnedFd,
    /// The owner, if it belongs to another launcher.
    pub other: Option<ForeignProcess>,
}

/// A process of another launcher, which numbers processes differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForeignProcess {
    pub job: u64,
    pub number: u32,
    /// The number of this process with that launcher.
    pub known_as: u32,
}

/// The mapped segment of a peer.
#[derive(Debug)]
pub struct PeerSegment {
    pub segment: Arc<Segment>,
    pub bell: Bell,
    pub known_as: u32,
}

/// Maps the segments of peers.
pub struct PeerSegments {
    own: Arc<Segment>,
    kind: BarrierKind,
    open: OpenSegment,
    open_alarm: Option<OpenAlarm>,
}

impl std::fmt::Debug for PeerSegments {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PeerSegments").field("kind", &self.kind).finish_non_exhaustive()
    }
}

impl PeerSegments {
    /// The segments of peers of the process that owns `own`; `open` opens them.
    pub fn new(own: Arc<Segment>, kind: BarrierKind, open: OpenSegment) -> PeerSegments {
        PeerSegments { own, kind, open, open_alarm: None }
    }

    /// Adds alarms, which wake peers that may sleep on descriptors.
    #[must_use]
    pub fn with_alarms(self, open: OpenAlarm) -> PeerSegments {
        PeerSegments { open_alarm: Some(open), ..self }
    }

    /// The segment of this process.
    pub fn own(&self) -> &Arc<Segment> {
        &self.own
    }

    /// The barriers of this process.
    pub fn kind(&self) -> BarrierKind {
        self.kind
    }

    /// The barriers between this process and the owner of a segment. Processes of one launcher use
    /// the same kind. If a process of another launcher has the fence on both sides, this process
    /// uses the fence, too: its own heavy side is at least a fence.
    pub fn kind_with(&self, its: &Segment) -> BarrierKind {
        match self.kind {
            BarrierKind::Asymmetric if !its.boot().asymmetric => BarrierKind::Symmetric,
            kind => kind,
        }
    }

    /// The bell that wakes the owner of a segment.
    pub fn bell_of(&self, peer: u32, segment: &Arc<Segment>) -> Bell {
        let bell = Bell::new(segment, self.kind_with(segment));
        let Some(open) = self.open_alarm.clone() else { return bell };
        // The alarm is opened at the first sleep of the peer, since most peers are awake when rung.
        let alarm = OnceLock::new();
        bell.with_alarm(Arc::new(move || {
            // A request that fails is made again at the next sleep.
            if let Some(alarm) =
                alarm.get().or_else(|| open(peer).map(|opened| alarm.get_or_init(|| opened)))
            {
                raise_alarm(alarm);
            }
        }))
    }

    /// Maps the segment of a peer.
    pub fn connect(&mut self, peer: u32) -> Result<PeerSegment, Unreachable> {
        let unreachable = |why: String| Unreachable { peer, why };
        let OpenedSegment { fd, other } = (self.open)(peer).map_err(unreachable)?;
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
        Ok(PeerSegment { segment, bell, known_as })
    }

    /// Maps the heap in the segment of a peer. Returns whether that succeeded.
    pub fn map_heap(&mut self, peer: u32, segment: &Segment) -> bool {
        (self.open)(peer).is_ok_and(|opened| segment.map_heap(opened.fd).is_ok())
    }
}
