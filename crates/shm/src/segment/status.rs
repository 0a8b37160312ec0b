//! What a segment says of its owner, for those who watch it (rule 2).

use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering, fence};

use rustix::thread::futex;

/// What a rank is doing, for those who watch it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum RankState {
    /// The segment is there, no process yet.
    Created = 0,
    /// A process has claimed it: the library is loaded.
    Loaded = 1,
    /// MPI is initialised.
    Initialized = 2,
    /// MPI is finalised, and the program ends.
    Finalized = 3,
    /// The rank has called for an abort.
    Aborting = 4,
    /// MPI is finalised; a session may initialise it again.
    Resting = 5,
    /// MPI is being finalised: by MPI_Finalize, or that of the last session. No user of it is left that could wait for a message.
    Finalizing = 6,
}

/// The status line (rule 2).
#[repr(C, align(64))]
#[derive(Debug)]
pub struct Status {
    pid: AtomicU32,
    state: AtomicU32,
    last_call: AtomicU16,
    /// Where the owner has mapped this segment, 0 if it has not said.
    pub(super) mapped_at: AtomicU64,
    /// Where the owner has mapped the heap, 0 if it has not.
    pub(super) heap_at: AtomicU64,
    /// How many processes of the job have died that the owner should hear of. Only the launcher writes it.
    deaths: AtomicU32,
    /// The step that the owner's messages shall take on their way to standing still, and back. Only the launcher writes it.
    quiesce: AtomicU32,
    /// How often the launcher has let processes that share no memory with the owner know where they can reach it. Only the
    /// launcher writes it.
    sought: AtomicU32,
    /// 1 once the World Model is finalised.
    world_is_over: AtomicU32,
    /// Twice how often the owner was restored from an image of its process, and 1 more if it shares processors where it was last. Only
    /// the launcher writes it, before the owner runs again.
    restored: AtomicU32,
    /// The number of what the owner's helper is to do last (`cr self`, [`CheckpointCall`]), which sleeps on it. Only the launcher writes it.
    wanted_call: AtomicU32,
    /// The last one that has returned, and behind it what it has returned. Only the owner writes it.
    returned_call: AtomicU64,
}

/// What the helper of a rank does in a checkpoint that the program makes itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckpointCall {
    /// Closes MPI and calls the function that saves the state of the program.
    Save,
    /// Opens MPI: that function has returned on all ranks, or they are not waited for any more. Nothing is returned.
    Open,
    /// Calls the function that lets the program go on.
    Continue,
}

impl CheckpointCall {
    const ALL: [CheckpointCall; 3] = [CheckpointCall::Continue, CheckpointCall::Save, CheckpointCall::Open];

    /// What a call with this number is.
    pub fn of(number: u32) -> CheckpointCall {
        CheckpointCall::ALL[number as usize % CheckpointCall::ALL.len()]
    }

    /// The number of the next such call after the one with this number.
    pub fn next_after(self, last: u32) -> u32 {
        // After the last number that there is they begin anew.
        (1..=3)
            .map(|step| last.checked_add(step).unwrap_or(step))
            .find(|number| CheckpointCall::of(*number) == self)
            .unwrap_or(1)
    }
}

impl Status {
    /// Makes the process `pid` the owner. `Err` has the pid of the process that is it already.
    pub fn claim(&self, pid: u32) -> Result<(), u32> {
        self.pid.compare_exchange(0, pid, Ordering::AcqRel, Ordering::Acquire)?;
        self.state.store(RankState::Loaded as u32, Ordering::Release);
        Ok(())
    }

    /// The owner's process, if it has come.
    pub fn pid(&self) -> Option<u32> {
        Some(self.pid.load(Ordering::Acquire)).filter(|&pid| pid != 0)
    }

    /// What the owner is doing.
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

    /// Says what the owner is doing from now on. Whatever it reads afterwards was written by a process that may not know of it;
    /// who asks [`Status::has_left`] after a write that it does not read then knows.
    pub fn set_state(&self, state: RankState) {
        self.state.store(state as u32, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// The World Model is finalised: its communicators match nothing any more. Before the state that follows.
    pub fn end_world(&self) {
        self.world_is_over.store(1, Ordering::Relaxed);
    }

    /// Whether the owner matches nothing any more of what was sent to it so far: MPI is finalised. (In a later session there would
    /// be other communicators.)
    pub fn has_left(&self) -> bool {
        fence(Ordering::SeqCst);
        match self.state() {
            RankState::Finalized => true,
            RankState::Resting => self.world_is_over.load(Ordering::Relaxed) != 0,
            _ => false,
        }
    }

    /// How many processes of the job have died, as the launcher has said.
    #[inline(always)]
    pub fn deaths(&self) -> u32 {
        // Relaxed: who they are is asked over a socket.
        self.deaths.load(Ordering::Relaxed)
    }

    /// The launcher says that another process of the job has died. Ring the owner's door afterwards.
    pub fn note_death(&self) {
        self.deaths.fetch_add(1, Ordering::Release);
    }

    /// The number of the last step that the launcher has asked for of all whose messages shall stand still for some time.
    #[inline(always)]
    pub fn quiesce_step(&self) -> u32 {
        // What was made for the step is given over a socket.
        self.quiesce.load(Ordering::Relaxed)
    }

    /// The launcher asks for this step. Ring the owner's door afterwards.
    pub fn ask_quiesce_step(&self, step: u32) {
        self.quiesce.store(step, Ordering::Release);
    }

    /// How often the owner was restored from an image: its connections are gone, and what it knows of other processes is old.
    #[inline]
    pub fn restored(&self) -> u32 {
        // It is written while the owner does not run.
        self.restored.load(Ordering::Relaxed) >> 1
    }

    /// Whether there were more ranks than processors where the owner was restored last; `None`: it never was.
    pub fn restored_oversubscribed(&self) -> Option<bool> {
        let word = self.restored.load(Ordering::Relaxed);
        (word > 1).then_some(word & 1 == 1)
    }

    /// The launcher has restored the owner, which does not run yet, where there are more ranks than processors or not.
    pub fn note_restored(&self, oversubscribed: bool) {
        let again = (self.restored() + 1) << 1;
        self.restored.store(again | u32::from(oversubscribed), Ordering::Release);
    }

    /// Has the owner's helper do what the number of a call says ([`CheckpointCall::of`]).
    pub fn want_call(&self, number: u32) {
        self.wanted_call.store(number, Ordering::Release);
        // It fails only if the word is no word of this process.
        let _ = futex::wake(&self.wanted_call, futex::Flags::empty(), 1);
    }

    /// Waits until another call is wanted than this one; its number.
    pub fn await_call(&self, known: u32) -> u32 {
        loop {
            let wanted = self.wanted_call.load(Ordering::Acquire);
            if wanted != known {
                return wanted;
            }
            // Whatever it returns, the word is read again.
            let _ = futex::wait(&self.wanted_call, futex::Flags::empty(), known, None);
        }
    }

    /// A call has returned this. [`Status::HELPED`] of call 0 says that there is a helper.
    pub fn note_return(&self, number: u32, value: i32) {
        let word = u64::from(number) << 32 | u64::from(value.cast_unsigned());
        self.returned_call.store(word, Ordering::Release);
    }

    /// The last call that has returned, and what; `None` if the owner has no helper.
    pub fn returned(&self) -> Option<(u32, i32)> {
        let word = self.returned_call.load(Ordering::Acquire);
        (word != 0).then_some(((word >> 32) as u32, (word as u32).cast_signed()))
    }

    /// What call 0 returns.
    pub const HELPED: i32 = 1;

    /// How often processes that share no memory with the owner were told where they can reach it, as it does not know yet.
    pub fn sought(&self) -> u32 {
        // What was made for it is given over a socket.
        self.sought.load(Ordering::Relaxed)
    }

    /// The launcher has told such processes. Ring the owner's door afterwards.
    pub fn note_sought(&self) {
        self.sought.fetch_add(1, Ordering::Release);
    }

    /// The number of the MPI call that the owner entered last; 0 if none.
    pub fn last_call(&self) -> u16 {
        self.last_call.load(Ordering::Relaxed)
    }

    /// Where the number of the last call is noted, for a caller that stores it on each of its calls.
    pub fn last_call_cell(&self) -> &AtomicU16 {
        &self.last_call
    }

    /// Notes that the owner enters MPI call number `call`: one plain store.
    #[inline]
    pub fn set_last_call(&self, call: u16) {
        self.last_call.store(call, Ordering::Relaxed);
    }
}
