//! The sources of the values of performance variables.

use super::enums::CONTROL_SECTION;
use super::pvars::{Class, Medium, Pvar, Quantity, Value};
use crate::comm::Communicator;
use crate::process::Process;
use oxmpi_coll::Run;
use oxmpi_engine::Counts;
use oxmpi_fabric::{Fabric, InUse};
use oxmpi_plan::{ALGORITHMS, Collective};
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Calls {
    by_algorithm: Box<[AtomicU64]>,
    small: [AtomicU64; Collective::ALL.len()],
    last: [AtomicU8; Collective::ALL.len()],
}

impl Default for Calls {
    fn default() -> Calls {
        Calls {
            by_algorithm: ALGORITHMS.iter().map(|_| AtomicU64::new(0)).collect(),
            small: Default::default(),
            last: Default::default(),
        }
    }
}

impl Calls {
    pub(crate) fn count(&self, run: &Run) {
        let Some((id, _)) = run.algorithm() else { return };
        let row = id.algorithm();
        if let Some(count) = self.by_algorithm.get(id.index()) {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        self.last[row.collective as usize].store(row.number, Ordering::Relaxed);
    }

    /// Counts a collective through shared memory without a plan. The lane is not locked, so
    /// `threaded` says that other threads may count, too.
    #[inline]
    pub(crate) fn count_small(&self, collective: Collective, threaded: bool) {
        let count = &self.small[collective as usize];
        if threaded {
            count.fetch_add(1, Ordering::Relaxed);
        } else {
            count.store(count.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        self.last[collective as usize].store(CONTROL_SECTION, Ordering::Relaxed);
    }
}

impl<F: Fabric> Process<F> {
    /// The value of a variable since the start of the process. `mark` is the interval of a
    /// high-water mark ([`Process::begin_mark`]). `None` if a thread is inside the lane, or if the
    /// communicator of the handle is closed or missing.
    pub fn measure(&self, pvar: &Pvar, comm: Option<&Communicator>, mark: u64) -> Option<Value> {
        match pvar.quantity {
            Quantity::CommUnexpected | Quantity::CommUnexpectedPeak | Quantity::CommPosted => {
                return self.measure_queue(pvar.quantity, comm?, mark);
            }
            Quantity::CommCollectives => return Some(Value::Count(comm?.collectives_started())),
            _ => {}
        }
        Some(match pvar.class {
            Class::State => Value::State(self.state(pvar.quantity)?),
            Class::Percentage | Class::Timer => Value::Real(self.real(pvar.quantity)?),
            _ => Value::Count(self.count(pvar.quantity)?),
        })
    }

    fn state(&self, quantity: Quantity) -> Option<i32> {
        Some(match quantity {
            Quantity::LastAlgorithm(collective) => {
                i32::from(self.tool.calls.last[collective as usize].load(Ordering::Relaxed))
            }
            _ => self.fabric_counts()?.paths as i32,
        })
    }

    fn real(&self, quantity: Quantity) -> Option<f64> {
        Some(match quantity {
            Quantity::Asleep => self.door.as_ref().map_or(0.0, |door| door.slept().1.as_secs_f64()),
            _ => {
                let fabric = self.fabric_counts()?;
                fabric.pool_used as f64 / fabric.pool_bytes.max(1) as f64
            }
        })
    }

    fn count(&self, quantity: Quantity) -> Option<u64> {
        let heap = || self.heap().map_or((0, 0), |heap| heap.usage());
        Some(match quantity {
            Quantity::Sleeps => self.door.as_ref().map_or(0, |door| door.slept().0),
            Quantity::HeapSize => heap().0 as u64,
            Quantity::HeapUsed => heap().1 as u64,
            Quantity::Small(collective) => {
                self.tool.calls.small[collective as usize].load(Ordering::Relaxed)
            }
            Quantity::Calls(id) => {
                self.tool.calls.by_algorithm.get(id.index())?.load(Ordering::Relaxed)
            }
            _ => {
                let mut domain = self.domain.try_enter().ok()?;
                let lane = domain.lane.counts();
                counted(quantity, &lane, &domain.lane.fabric_mut().counts())
            }
        })
    }

    /// The counts of the transports; `None` if a thread is inside the lane.
    pub fn fabric_counts(&self) -> Option<oxmpi_fabric::Counts> {
        Some(self.domain.try_enter().ok()?.lane.fabric_mut().counts())
    }

    /// The counts of the lane; `None` if a thread is inside the lane.
    pub fn lane_counts(&self) -> Option<oxmpi_engine::Counts> {
        Some(self.domain.try_enter().ok()?.lane.counts())
    }

    fn measure_queue(&self, quantity: Quantity, comm: &Communicator, mark: u64) -> Option<Value> {
        let domain = self.domain.try_enter().ok()?;
        let queue = domain.lane.queue_counts(&comm.team)?;
        Some(Value::Count(match quantity {
            Quantity::CommUnexpected => queue.unexpected,
            Quantity::CommPosted => queue.posted,
            _ => domain.peaks.since(comm.team.id, mark, queue.peak),
        }))
    }

    /// Begins a new interval for the high-water mark of a communicator's unexpected messages.
    /// `None` if a thread is inside the lane or the communicator is closed.
    pub fn begin_mark(&self, comm: &Communicator) -> Option<u64> {
        let mut domain = self.domain.try_enter().ok()?;
        let peak = domain.lane.queue_counts(&comm.team)?.peak;
        domain.lane.restart_peak(&comm.team);
        Some(domain.peaks.begin(comm.team.id, peak))
    }
}

fn counted(quantity: Quantity, lane: &Counts, fabric: &oxmpi_fabric::Counts) -> u64 {
    let by = |way, all: u64, far: u64| match (way, fabric.paths) {
        (Medium::Shm, InUse::Memory) | (Medium::Tcp, InUse::Sockets) => all,
        (Medium::Shm, InUse::Both) => all.saturating_sub(far),
        (Medium::Tcp, InUse::Both) => far,
        _ => 0,
    };
    match quantity {
        Quantity::MessagesSent(medium) => by(medium, lane.messages_sent, fabric.far_sent.messages),
        Quantity::BytesSent(medium) => by(medium, lane.bytes_sent, fabric.far_sent.bytes),
        Quantity::MessagesReceived(medium) => {
            by(medium, lane.messages_received, fabric.far_received.messages)
        }
        Quantity::BytesReceived(medium) => {
            by(medium, lane.bytes_received, fabric.far_received.bytes)
        }
        Quantity::OwnMessages => lane.own_messages,
        Quantity::OwnBytes => lane.own_bytes,
        Quantity::EagerSent => lane.messages_sent - lane.rendezvous_sent,
        Quantity::RendezvousSent => lane.rendezvous_sent,
        Quantity::RendezvousReceived => lane.rendezvous_received,
        Quantity::CompletionReads => fabric.completion_reads,
        Quantity::RdmaBytes => fabric.rdma_bytes,
        Quantity::RdmaBytesWritten => fabric.rdma_bytes_written,
        Quantity::RdmaAtomics => fabric.rdma_atomics,
        Quantity::AuxiliaryBytes => fabric.auxiliary_bytes,
        Quantity::ContextPairs => fabric.context_pairs,
        Quantity::NetworkFramesSent => fabric.network_frames_sent,
        Quantity::NetworkFramesReceived => fabric.network_frames_received,
        Quantity::TaggedSent => lane.tagged_sent,
        Quantity::TaggedReceived => lane.tagged_received,
        Quantity::Unexpected => lane.unexpected,
        Quantity::UnexpectedMatched => lane.unexpected_matched,
        Quantity::UnexpectedNow => lane.unexpected_now,
        Quantity::PostedNow => lane.posted_now,
        Quantity::RequestsNow => lane.requests_now,
        Quantity::BufferedNow => lane.buffered_now,
        Quantity::Nonsense => lane.nonsense,
        Quantity::Rings => fabric.rings,
        Quantity::InboxFrames => fabric.inbox_frames,
        Quantity::PoolSize => fabric.pool_bytes,
        Quantity::PoolUsed => fabric.pool_used,
        Quantity::PieceBytes => fabric.piece_bytes,
        Quantity::SingleCopyBytes => lane.read_bytes.saturating_sub(fabric.heap_bytes),
        Quantity::HeapCopyBytes => fabric.heap_bytes,
        Quantity::PostboxSegment => fabric.postbox_bytes,
        Quantity::PostboxPool => fabric.postbox_pool_bytes,
        Quantity::PostboxPoolUsed => fabric.postbox_pool_used,
        Quantity::PooledPieces => fabric.pooled_pieces,
        Quantity::BoxedPieces => fabric.boxed_pieces,
        Quantity::PostboxPauses => fabric.pauses,
        Quantity::Connections => fabric.connections,
        Quantity::ConnectionsMade => fabric.connections_made,
        Quantity::ConnectionsRemade => fabric.connections_remade,
        Quantity::CommUnexpected
        | Quantity::CommUnexpectedPeak
        | Quantity::CommPosted
        | Quantity::CommCollectives
        | Quantity::PoolPart
        | Quantity::HeapSize
        | Quantity::HeapUsed
        | Quantity::Sleeps
        | Quantity::Asleep
        | Quantity::Transport
        | Quantity::Small(_)
        | Quantity::Calls(_)
        | Quantity::LastAlgorithm(_) => 0,
    }
}
