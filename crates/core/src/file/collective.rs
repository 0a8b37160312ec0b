//! Access by all ranks (MPI-5.0, "Data Access with Explicit Offsets", functions in `_all`).
//!
//! A [`CollectiveAccess`] goes through a chain of collectives on the file's own communicator. The
//! code between two collectives is *work*: progress of any thread runs it without a lock, and it
//! waits for no other rank. All collectives of an access have one tag, which the call takes. So
//! several accesses of a file may be under way.
//!
//! 1. All ranks exchange the bytes that they access, and errors in their arguments.
//! 2. If their pieces interleave, they continue together (`two_phase`). Otherwise each moves its
//!    own data.
//! 3. All ranks exchange their outcomes.

use super::agree::{settle, verdict};
use super::independent::completion;
use super::representation::{FileElements, ReadBuffer};
use super::two_phase::TwoPhaseRounds;
use super::{Direction, File, FilePosition, FileView};
use crate::errors::of_fault;
use crate::process::{Process, Work};
use oxmpi_coll::Buffers;
use oxmpi_engine::{Completion, Fault, RequestId};
use oxmpi_fabric::Fabric;
use oxmpi_io::domain::{self, AccessExtent};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_plan::{Call, Shared};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CollectivePosition {
    Known(FilePosition),
    /// The shared file pointer, in the order of the ranks.
    Ordered,
}

#[derive(Debug)]
pub(super) struct CollectiveAccess {
    pub(super) file: Arc<File>,
    pub(super) shown: Arc<FileView>,
    tag: i32,
    request: RequestId,
    pub(super) direction: Direction,
    pub(super) start: u64,
    pub(super) data: UserBuf,
    incoming: Option<ReadBuffer>,
    /// The bytes in memory of a write, or after a read the bytes that arrived in memory.
    native: u64,
    pub(super) outcome: Result<()>,
    pub(super) received: u64,
    pub(super) rounds: Option<Box<TwoPhaseRounds>>,
}

pub(super) type Next<F> = fn(&Process<F>, Box<CollectiveAccess>, Vec<u8>);

pub(super) fn bytes_of(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_ne_bytes()).collect()
}

pub(super) fn words_of(bytes: &[u8]) -> impl Iterator<Item = u64> + '_ {
    bytes.as_chunks::<8>().0.iter().map(|word| u64::from_ne_bytes(*word))
}

struct PreparedAccess {
    start: u64,
    data: UserBuf,
    incoming: Option<ReadBuffer>,
    native: u64,
}

impl File {
    fn prepare<F: Fabric>(
        &self,
        process: &Process<F>,
        shown: &Arc<FileView>,
        direction: Direction,
        place: CollectivePosition,
        elements: FileElements,
    ) -> Result<PreparedAccess> {
        let at = match place {
            CollectivePosition::Known(at) => at,
            CollectivePosition::Ordered => FilePosition::Shared,
        };
        self.check_access(direction, at)?;
        let native = elements.buffer.packed_len() as u64;
        let (data, incoming) = match direction {
            Direction::Read => {
                let incoming = shown.incoming(elements)?;
                (incoming.room.clone(), Some(incoming))
            }
            Direction::Write => {
                self.note_write();
                (shown.outgoing(&elements)?, None)
            }
        };
        let etypes = self.whole_etypes(shown, data.packed_len() as u64)?;
        let start = if place == CollectivePosition::Ordered {
            0
        } else {
            self.claim(process, shown, at, etypes)?
        };
        Ok(PreparedAccess { start, data, incoming, native })
    }
}

impl<F: Fabric + 'static> Process<F> {
    /// Starts to read or write together with the other ranks (MPI_File_iwrite_all and related
    /// calls; MPI_File_write_ordered with [`FilePosition::Shared`]). Errors: those in the arguments
    /// of this rank, which the requests of other ranks report, too.
    pub fn start_file_collective(
        &self,
        file: &Arc<File>,
        direction: Direction,
        at: FilePosition,
        elements: Result<FileElements>,
    ) -> Result<RequestId> {
        let (request, wrong) = self.launch_collective(file, direction, at.into(), elements);
        match wrong {
            None => Ok(request),
            Some(error) => {
                // This call returns the error; the other ranks get it from their requests.
                self.enter(|domain| domain.lane.detach(request));
                Err(error)
            }
        }
    }

    /// Reads or writes together with the other ranks (MPI_File_write_all and related calls).
    pub fn file_collective(
        &self,
        file: &Arc<File>,
        direction: Direction,
        at: FilePosition,
        elements: Result<FileElements>,
    ) -> Result<Completion> {
        let (request, _) = self.launch_collective(file, direction, at.into(), elements);
        self.wait(request)
    }

    pub(super) fn launch_collective(
        &self,
        file: &Arc<File>,
        direction: Direction,
        place: CollectivePosition,
        elements: Result<FileElements>,
    ) -> (RequestId, Option<MpiError>) {
        let tag = file.comm.next_immediate_tag();
        let shown = file.shown();
        let prepared =
            elements.and_then(|elements| file.prepare(self, &shown, direction, place, elements));
        let request = self.enter(|domain| domain.lane.open_external());
        let (prepared, outcome) = match prepared {
            Ok(prepared) => (prepared, Ok(())),
            Err(error) => (
                PreparedAccess { start: 0, data: UserBuf::empty(), incoming: None, native: 0 },
                Err::<(), _>(error),
            ),
        };
        let wrong = outcome
            .as_ref()
            .err()
            .map(|error| MpiError::new(error.class(), error.detail().to_owned()));
        let PreparedAccess { start, data, incoming, native } = prepared;
        let file = Arc::clone(file);
        let access = CollectiveAccess {
            file,
            shown,
            tag,
            request,
            direction,
            start,
            data,
            incoming,
            native,
            outcome,
            received: 0,
            rounds: None,
        };
        match place {
            CollectivePosition::Known(_) => self.exchange_accesses(Box::new(access)),
            CollectivePosition::Ordered => self.exchange_shares(Box::new(access)),
        }
        self.look(|_| ());
        (request, wrong)
    }

    pub(super) fn step(
        &self,
        access: Box<CollectiveAccess>,
        call: Call,
        (input, output): (Vec<u8>, Vec<u8>),
        next: Next<F>,
    ) {
        let (input, output) = (Owned::new(input), Owned::new(output));
        let buffers = Buffers { input: input.buf(), output: output.buf(), element: None };
        let (file, tag, request) = (Arc::clone(&access.file), access.tag, access.request);
        let then = Box::new(
            move |domain: &mut crate::process::Domain<F>,
                  outcome: std::result::Result<(), Fault>| {
                drop(input);
                let work: Work<F> = Box::new(move |process| match (outcome, output.into_vec()) {
                    (Ok(()), Ok(received)) => next(process, access, received),
                    (Err(fault), _) => process.end(*access, Err(of_fault(fault))),
                    (Ok(()), Err(_)) => {
                        let text = "a finished collective still has its buffer";
                        process.end(
                            *access,
                            Err(MpiError::new(oxmpi_abi::constants::MPI_ERR_INTERN, text)),
                        );
                    }
                });
                domain.leave(work);
            },
        );
        if let Err(error) = self.start_step((&file.comm.team, tag), call, buffers, then) {
            // Without memory this rank returns the error, although the other ranks wait for it.
            self.complete_task(&file, request, Err(error));
        }
    }

    /// All ranks exchange the same number of words. `next` gets the words of all ranks.
    pub(super) fn step_all(&self, access: Box<CollectiveAccess>, words: &[u64], next: Next<F>) {
        let block = 8 * words.len();
        let output = vec![0; block * access.file.ranks() as usize];
        let call = Call::Allgather { block: Shared(block), in_place: false };
        self.step(access, call, (bytes_of(words), output), next);
    }

    fn exchange_accesses(&self, mut access: Box<CollectiveAccess>) {
        if access.file.ranks() == 1 {
            access.move_alone();
            return self.conclude(access);
        }
        let extent =
            AccessExtent::new(&access.shown.view, access.start, access.data.packed_len() as u64);
        let mut words = vec![verdict(&access.outcome)];
        words.extend(extent.encode());
        self.step_all(access, &words, |process, mut access, received| {
            let all: Vec<u64> = words_of(&received).collect();
            let all = all.as_chunks::<{ 1 + AccessExtent::WORDS }>().0;
            if let Err(error) = access.settle(all.iter().map(|one| one[0])) {
                return process.end(*access, Err(error));
            }
            let accesses: Vec<AccessExtent> =
                all.iter().map(|[_, a, b, c, d]| AccessExtent::decode([*a, *b, *c, *d])).collect();
            let hints = access.file.hints();
            let switch = match access.direction {
                Direction::Read => hints.collective_read,
                Direction::Write => hints.collective_write,
            };
            if !access.file.is_atomic() && domain::together(switch, &accesses) {
                access.rounds =
                    Some(Box::new(TwoPhaseRounds::new(&accesses, &hints, access.file.rank())));
                process.next_round(access);
            } else {
                access.move_alone();
                process.conclude(access);
            }
        });
    }

    pub(super) fn conclude(&self, mut access: Box<CollectiveAccess>) {
        access.rounds = None;
        if access.outcome.is_ok()
            && let Some(incoming) = &access.incoming
        {
            match incoming.deliver(access.received) {
                Ok(native) => access.native = native,
                Err(error) => access.outcome = Err(error),
            }
        }
        if access.file.ranks() == 1 {
            let outcome = std::mem::replace(&mut access.outcome, Ok(()));
            return self.end(*access, outcome);
        }
        let verdict = verdict(&access.outcome);
        self.step_all(access, &[verdict], |process, mut access, received| {
            let settled = access.settle(words_of(&received));
            process.end(*access, settled);
        });
    }

    pub(super) fn end(&self, access: CollectiveAccess, outcome: Result<()>) {
        let CollectiveAccess { file, request, native, .. } = access;
        self.complete_task(&file, request, outcome.map(|()| native));
    }

    fn complete_task(&self, file: &File, request: RequestId, outcome: Result<u64>) {
        let completion_of_request = match outcome {
            Ok(bytes) => completion(bytes),
            Err(error) => file.failed(&error),
        };
        self.enter(|domain| domain.lane.complete_external(request, completion_of_request));
    }
}

impl CollectiveAccess {
    pub(super) fn settle(&mut self, verdicts: impl Iterator<Item = u64>) -> Result<()> {
        let mine = std::mem::replace(&mut self.outcome, Ok(()));
        settle(&self.file.name, verdicts, mine)
    }

    pub(super) fn move_alone(&mut self) {
        if self.outcome.is_err() {
            return;
        }
        match self.file.transfer(&self.shown, self.direction, self.start, &self.data) {
            Ok(moved) => {
                self.received = moved;
                if moved < self.data.packed_len() as u64 && self.direction == Direction::Write {
                    self.native = 0;
                }
            }
            Err(error) => self.outcome = Err(error),
        }
    }
}
