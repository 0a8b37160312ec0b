//! The status of a segment's owner, for the processes that watch it (rule 2).

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use rustix::thread::futex;

/// The state of a rank, for the processes that watch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum RankState {
    /// The segment exists, without a process.
    Created = 0,
    /// A process has claimed it: the library is loaded.
    Loaded = 1,
    Initialized = 2,
    /// MPI is finalised, and the program ends.
    Finalized = 3,
    Aborting = 4,
    /// MPI is finalised; a session may initialise it again.
    Resting = 5,
    /// No user of MPI is left that could wait for a message.
    Finalizing = 6,
}

/// The status line (rule 2).
#[repr(C, align(64))]
#[derive(Debug)]
pub struct OwnerStatus {
    pid: AtomicU32,
    state: AtomicU32,
    last_call: AtomicU16,
    /// The owner's address of this segment, 0 if not published.
    pub(super) mapped_at: AtomicU64,
    /// The owner's address of the heap, 0 if not mapped.
    pub(super) heap_at: AtomicU64,
    /// The number of deaths in the job that concern the owner. Only the launcher writes it.
    deaths: AtomicU32,
    /// The last step to bring the owner's messages to rest, or back. Only the launcher writes it.
    quiesce: AtomicU32,
    /// The times that the owner's address was given to far processes. Only the launcher writes it.
    sought: AtomicU32,
    /// 1 once the World Model is finalised.
    world_is_over: AtomicU32,
    /// Twice the number of restores from an image, plus 1 if the owner is oversubscribed since the
    /// last one. Only the launcher writes it, while the owner does not run.
    restored: AtomicU32,
    /// The number of the last [`CheckpointCall`] for the owner's helper (`cr self`), which sleeps
    /// on this word. Only the launcher writes it.
    wanted_call: AtomicU32,
    /// The number of the last call that has returned, above its result. Only the owner writes it.
    returned_call: AtomicU64,
}

/// A call to the helper of a rank, in a checkpoint that the program makes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointCall {
    /// Closes MPI and calls the function that saves the state of the program.
    Save,
    /// Opens MPI when that function has returned on all ranks, or the launcher stops waiting.
    Open,
    /// Calls the function that lets the program continue.
    Continue,
}

impl CheckpointCall {
    const ALL: [CheckpointCall; 3] =
        [CheckpointCall::Continue, CheckpointCall::Save, CheckpointCall::Open];

    /// The kind of the call with this number.
    pub fn of(number: u32) -> CheckpointCall {
        CheckpointCall::ALL[number as usize % CheckpointCall::ALL.len()]
    }

    /// The number of the next call of this kind after number `last`.
    pub fn next_after(self, last: u32) -> u32 {
        (1..=3)
            .map(|step| last.checked_add(step).unwrap_or(step))
            .find(|number| CheckpointCall::of(*number) == self)
            .unwrap_or(1)
    }
}

impl OwnerStatus {
    /// Makes the process `pid` the owner. `Err` has the pid of the present owner.
    pub fn claim(&self, pid: u32) -> Result<(), u32> {
        self.pid.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Acquire)?;
        self.state.store(RankState::Loaded as u32, Ordering::Release);
        Ok(())
    }

    /// The owner's process, if it has started.
    pub fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Ordering::Acquire)).filter(|&pid| pid != 0)
    }

    /// The state of the owner.
    pub fn state(&self) -> RankState {
        match self.state.load(Ordering::Acquire) {
            0 => RankState::Created,
            1 => RankState::Loaded,
            2 => RankState::Initialized,
            3 => RankState::Finalized,
            5 => RankState::Resting,
            6 => RankState::Finalizing,
            _ => RankState::Aborting,
        }
    }

    /// Publishes the state of the owner. A sender may not have read the new state when it sends,
    /// but a sender that calls [`OwnerStatus::has_left`] after its write does read it.
    pub fn set_state(&self, state: RankState) {
        self.state.store(state as u32, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Records that the communicators of the World Model match no messages any more.
    pub fn end_world(&self) {
        self.world_is_over.store(1, Ordering::Relaxed);
    }

    /// Whether the owner has finalised MPI, and matches none of the messages sent to it before.
    pub fn has_left(&self) -> bool {
        fence(Ordering::SeqCst);
        match self.state() {
            RankState::Finalized => true,
            RankState::Resting => self.world_is_over.load(Ordering::Relaxed) != 0,
            _ => false,
        }
    }

    /// The number of processes of the job whose deaths the launcher has recorded.
    #[inline(always)]
    pub fn deaths(&self) -> u32 {
        // Relaxed: the numbers of the dead ranks come over a socket.
        self.deaths.load(Ordering::Relaxed)
    }

    /// Records the death of another process of the job. Ring the owner's door afterwards.
    pub fn note_death(&self) {
        self.deaths.fetch_add(1, Ordering::Release);
    }

    /// The last step that the launcher has requested to bring messages to rest.
    #[inline(always)]
    pub fn quiesce_step(&self) -> u32 {
        // Relaxed: the data of the step come over a socket.
        self.quiesce.load(Ordering::Relaxed)
    }

    /// Requests a step, for the launcher. Ring the owner's door afterwards.
    pub fn ask_quiesce_step(&self, step: u32) {
        self.quiesce.store(step, Ordering::Release);
    }

    /// The number of restores of the owner from an image. A restore ends its connections.
    #[inline]
    pub fn restored(&self) -> u32 {
        // Relaxed: it is written while the owner does not run.
        self.restored.load(Ordering::Relaxed) >> 1
    }

    /// Whether the owner is oversubscribed since its last restore; `None` if there was no restore.
    pub fn restored_oversubscribed(&self) -> Option<bool> {
        let word = self.restored.load(Ordering::Relaxed);
        (word > 1).then_some(word & 1 == 1)
    }

    /// Records a restore of the owner. Call it before the owner runs.
    pub fn note_restored(&self, oversubscribed: bool) {
        let again = (self.restored() + 1) << 1;
        self.restored.store(again | u32::from(oversubscribed), Ordering::Release);
    }

    /// Requests the call with this number from the owner's helper ([`CheckpointCall::of`]).
    pub fn want_call(&self, number: u32) {
        self.wanted_call.store(number, Ordering::Release);
        let _ = futex::wake(&self.wanted_call, futex::Flags::empty(), 1);
    }

    /// Waits until another call than `known` is requested, and returns the new number.
    pub fn await_call(&self, known: u32) -> u32 {
        loop {
            let wanted = self.wanted_call.load(Ordering::Acquire);
            if wanted != known {
                return wanted;
            }
            let _ = futex::wait(&self.wanted_call, futex::Flags::empty(), known, None);
        }
    }

    /// Records the result of a call. A return of call 0 with [`OwnerStatus::HELPED`] says that
    /// there is a helper.
    pub fn note_return(&self, number: u32, value: i32) {
        let word = u64::from(number) << 32 | u64::from(value.cast_unsigned());
        self.returned_call.store(word, Ordering::Release);
    }

    /// The last call that has returned, with its result; `None` if the owner has no helper.
    pub fn returned(&self) -> Option<(u32, i32)> {
        let word = self.returned_call.load(Ordering::Acquire);
        (word != 0).then_some(((word >> 32) as u32, (word as u32).cast_signed()))
    }

    /// The result of call 0.
    pub const HELPED: i32 = 1;

    /// The times that the owner's address was given to far processes, whose addresses the owner may
    /// not know yet.
    pub fn sought(&self) -> u32 {
        // Relaxed: the data come over a socket.
        self.sought.load(Ordering::Relaxed)
    }

    /// Increments [`OwnerStatus::sought`], for the launcher. Ring the owner's door afterwards.
    pub fn note_sought(&self) {
        self.sought.fetch_add(1, Ordering::Release);
    }

    /// The number of the MPI call that the owner entered last; 0 if none.
    pub fn last_call(&self) -> u16 {
        self.last_call.load(Ordering::Relaxed)
    }

    /// The cell of this number, for a caller that stores it itself.
    pub fn last_call_cell(&self) -> &AtomicU16 {
        &self.last_call
    }

    /// Records that the owner enters MPI call number `call`.
    #[inline]
    pub fn set_last_call(&self, call: u16) {
        self.last_call.store(call, Ordering::Relaxed);
    }
}
