//! How windows are made and freed (MPI-5.0 section 12.2).
//!
//! Each rank tells all others what it exposes. A rank whose call is wrong tells that, so that all fail and nobody waits for ever.

use super::control::Control;
use super::epoch::Epochs;
use super::words::{WordFacts, WordOwner, owners};
use super::{Exposure, Facts, Near, Service, Target, Window, locked};
use crate::Process;
use crate::comm::Communicator;
use crate::failure::is_failure;
use crate::handler::{ErrorHandler, HandlerCell};
use crate::process::Domain;
use crate::wait_reason::others;
use crate::wait_reason::{Awaited, Reason};
use oxmpi_abi::constants as abi;
use oxmpi_fabric::{AtomicScope, Fabric};
use oxmpi_mem::exposed::Exposed;
use oxmpi_objects::attribute::Attributes;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::window_hints::WindowHints;
use oxmpi_rt::waiting::Need;
use oxmpi_sys::memory::Memory;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

/// How a window was made (MPI_WIN_CREATE_FLAVOR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    /// By MPI_Win_create.
    Create,
    /// By MPI_Win_allocate.
    Allocate,
    /// By MPI_Win_create_dynamic.
    Dynamic,
    /// By MPI_Win_allocate_shared.
    Shared,
}

impl Flavor {
    const fn to_int(self) -> i32 {
        match self {
            Flavor::Create => abi::MPI_WIN_FLAVOR_CREATE,
            Flavor::Allocate => abi::MPI_WIN_FLAVOR_ALLOCATE,
            Flavor::Dynamic => abi::MPI_WIN_FLAVOR_DYNAMIC,
            Flavor::Shared => abi::MPI_WIN_FLAVOR_SHARED,
        }
    }
}

/// What a rank brings to a new window.
#[derive(Debug)]
pub struct NewWindow {
    /// How it is made.
    pub flavor: Flavor,
    /// The memory to expose, if the program has it already.
    pub memory: Exposed,
    /// Bytes to allocate otherwise.
    pub size: usize,
    /// The displacement unit, bytes.
    pub disp_unit: i64,
    /// Hints.
    pub hints: WindowHints,
}

/// What a rank tells of itself: a status, then its part of the window.
const WORDS: usize = 7;

impl<F: Fabric> Process<F> {
    /// Makes a window. Collective: who has found something wrong with the call makes it all the same, with the error.
    ///
    /// # Errors
    /// What was wrong, here or at another rank; MPI_ERR_NO_MEM; MPI_ERR_RMA_SHARED if memory cannot be shared by all.
    pub fn create_window(&self, comm: &Communicator, new: Result<NewWindow>) -> Result<Window> {
        comm.check_intra()?;
        // What a request says that failed comes to the handler of its context.
        let handler = HandlerCell::new(ErrorHandler::predefined(abi::MPI_ERRORS_ARE_FATAL));
        let own = self.dup(comm)?.with_errhandler_cell(Arc::new(handler));
        let mut domain = self.domain.lock();
        domain.lane.keep_to_frames(own.team.point_to_point);
        domain.note_handler(&own);
        drop(domain);
        match self.make_window(&own, new) {
            Ok(parts) => {
                let window = parts.finish(own);
                let mut service = window.service();
                let (base, len) = (window.exposure.memory.address(), window.exposure.memory.len());
                let own_words = window.targets[window.rank() as usize].words;
                service.is_alone = window.flavor == Flavor::Create
                    && own_words == WordOwner::Processor
                    && !self.is_threaded()
                    && self.heap().is_none_or(|heap| !heap.overlaps(base, len));
                let mut domain = self.domain.lock();
                // Some may have failed meanwhile.
                service.attend(&mut domain.lane);
                domain.windows.push(service);
                // Others may have been faster, and have asked for something.
                domain.serving = true;
                drop(domain);
                if window.flavor == Flavor::Shared { self.check_shared(window) } else { Ok(window) }
            }
            Err(error) => {
                if is_failure(&error) {
                    // Those that have made it must not wait in it for this process.
                    self.revoke(&own);
                }
                let error = self.cause_of_revocation(&own, error);
                self.close(&own);
                Err(error)
            }
        }
    }

    /// Hears whether all ranks are well: the class of an error is told by 1 + class, else 0. Returns the words of all, those
    /// of each after its status.
    fn agree_on_window(
        &self,
        comm: &Communicator,
        wrong: Option<MpiError>,
        words: &[u64],
    ) -> Result<Vec<u64>> {
        let status = wrong.as_ref().map_or(0, |error| 1 + u64::from(error.class().cast_unsigned()));
        let all = self.words_of_all(comm, [&[status], words].concat())?;
        if let Some(error) = wrong {
            return Err(error);
        }
        let each = words.len() + 1;
        match all.chunks(each).position(|words| words[0] != 0) {
            None => Ok(all),
            Some(rank) => {
                let class = (all[rank * each] - 1) as i32;
                Err(MpiError::new(class, format!("the call failed at rank {rank}, and so at all ranks")))
            }
        }
    }

    fn make_window(&self, comm: &Communicator, new: Result<NewWindow>) -> Result<Parts> {
        let (ranks, own_rank) = (comm.team.size(), comm.team.rank);
        let (new, mut wrong) = match new {
            Ok(new) => (new, None),
            Err(error) => {
                let hints = WindowHints::default();
                let flavor = Flavor::Dynamic;
                (NewWindow { flavor, memory: Exposed::NONE, size: 0, disp_unit: 1, hints }, Some(error))
            }
        };
        // All must know first what all want: of a shared window one rank allocates for all.
        let shared = new.flavor == Flavor::Shared;
        let first = [new.flavor as u64, new.size as u64, self.node, u64::from(new.hints.noncontiguous)];
        let all = self.agree_on_window(comm, wrong.take(), &first)?;
        let mut facts = all.chunks(5);
        if facts.any(|words| words[1] != all[1]) {
            return Err(MpiError::new(
                abi::MPI_ERR_WIN,
                "the ranks call different functions to make a window",
            ));
        }
        if shared && all.chunks(5).any(|words| words[3] != all[3]) {
            let text = "the processes of the communicator are not all on one node: MPI_Comm_split_type with \
                        MPI_COMM_TYPE_SHARED makes communicators of those that are";
            return Err(MpiError::new(abi::MPI_ERR_RMA_SHARED, text));
        }
        let sizes: Vec<u64> = all.chunks(5).map(|words| words[2]).collect();
        let apart = !shared || all.chunks(5).all(|words| words[4] != 0);
        let wanted = match (new.flavor, apart) {
            (Flavor::Create | Flavor::Dynamic, _) => None,
            // Programs tell by a null pointer that a rank has no segment, where other segments do not say where it would lie.
            (Flavor::Shared, true) if new.size == 0 => None,
            (_, true) => Some(new.size),
            (_, false) if own_rank == 0 => {
                let total = sizes.iter().try_fold(0u64, |total, size| total.checked_add(*size));
                Some(total.and_then(|total| usize::try_from(total).ok()).unwrap_or(usize::MAX))
            }
            _ => None,
        };
        let must_share = shared && ranks > 1;
        let memory = wanted.map(|bytes| self.allocate_exposed(bytes, new.hints.alignment, must_share));
        let memory = memory.transpose().unwrap_or_else(|error| {
            wrong = Some(error);
            None
        });
        let control = match self.allocate_control(ranks, new.flavor) {
            Ok(control) => control,
            Err(error) => {
                // It takes part with words of another window's size: they are not used.
                self.agree_on_window(comm, Some(error), &[0; WORDS - 1])?;
                return Err(MpiError::new(abi::MPI_ERR_NO_MEM, "no memory for the words of a window"));
            }
        };
        let memory = memory.map_or(new.memory, Exposed::from);
        let size = if new.flavor == Flavor::Create { memory.len() as u64 } else { new.size as u64 };
        // Memory of a shared window is mapped by all, and what a dynamic one has comes later.
        let is_opened = matches!(new.flavor, Flavor::Create | Flavor::Allocate) && wrong.is_none();
        if let Some(memory) = memory.lasting() {
            self.keep_memory(memory);
        }
        let key = if is_opened { self.open_to_adapters(comm, &memory) } else { 0 };
        let are_short = is_opened && new.hints.has_short_accumulates();
        let facts = self.word_facts(comm, are_short, (key, memory.len()));
        let words = [
            memory.address() as u64,
            size,
            new.disp_unit.cast_unsigned(),
            if control.1 { control.0.address() } else { 0 },
            key,
            facts.encode(),
        ];
        let all = self.agree_on_window(comm, wrong, &words).inspect_err(|error| {
            if is_failure(error) {
                // Others may have made it, and know where the memory is that is given up here.
                self.revoke(comm);
                self.wait_for_revoked(comm);
            }
            self.close_to_adapters(key);
            if let Some(memory) = memory.lasting() {
                self.forget_memory(memory.start().addr().get());
            }
        })?;
        let facts: Vec<_> = all.chunks(WORDS).map(|words| WordFacts::decode(words[6])).collect();
        // A process of another launcher has another number there.
        let process = |rank: u32| comm.team.map.process(rank).unwrap_or(self.rank);
        let mut targets: Vec<Target> = (0..)
            .zip(all.chunks(WORDS))
            .zip(owners(&facts))
            .map(|((rank, words), owner)| Target {
                process: process(rank),
                owner: process(rank),
                base: words[1],
                size: words[2],
                disp_unit: words[3].cast_signed(),
                control: words[4],
                key: words[5],
                words: owner,
                near: OnceLock::new(),
                open: AtomicU32::new(0),
                posts_taken: AtomicU64::new(0),
                asked: AtomicU64::new(0),
                complete: AtomicU64::new(0),
            })
            .collect();
        if !apart {
            let (owner, mut base) = (targets[0].owner, targets[0].base);
            for target in &mut targets {
                (target.owner, target.base) = (owner, base);
                base += target.size;
            }
        }
        let has_atomics = facts[own_rank as usize].scope != AtomicScope::None;
        let (flavor, hints) = (new.flavor, new.hints);
        Ok(Parts { flavor, hints, memory, control: control.0, key, has_atomics, targets })
    }

    /// Memory for a window: of the heap if it has room, which others can map, else of this process alone.
    fn allocate_exposed(&self, bytes: usize, align: usize, must_share: bool) -> Result<Memory> {
        let in_heap = self.heap().and_then(|heap| heap.memory(bytes, align));
        let memory = in_heap.or_else(|| if must_share { None } else { Memory::zeroed(bytes, align) });
        memory.ok_or_else(|| {
            let text = match must_share {
                true => {
                    format!("the heap of this process has no room for {bytes} bytes (see shm_heap_bytes)")
                }
                false => format!("there is no memory for {bytes} bytes aligned to {align}"),
            };
            MpiError::new(abi::MPI_ERR_NO_MEM, text)
        })
    }

    /// The control words of this process, and whether others can map them.
    fn allocate_control(&self, ranks: u32, flavor: Flavor) -> Result<(Control, bool)> {
        let bytes = Control::bytes(ranks, flavor);
        let in_heap = self.heap().and_then(|heap| heap.memory(bytes, 64));
        let shared = in_heap.is_some();
        let memory = in_heap.or_else(|| Memory::zeroed(bytes, 64)).ok_or_else(|| {
            MpiError::new(abi::MPI_ERR_NO_MEM, format!("there is no memory for {bytes} bytes of a window"))
        })?;
        memory.part(0, Control::cleared(ranks, flavor)).iter().for_each(Memory::clear);
        Ok((Control::new(memory, ranks, flavor), shared))
    }

    /// Sees that this process has mapped the memory of all, as a shared window must have it.
    fn check_shared(&self, mut window: Window) -> Result<Window> {
        let own = window.rank() as usize;
        let unmapped = window
            .targets
            .iter()
            .enumerate()
            .position(|(rank, target)| rank != own && self.near(&window, target).memory.is_none());
        let mut wrong = unmapped.map(|rank| {
            let text = format!("the memory of rank {rank} cannot be mapped");
            MpiError::new(abi::MPI_ERR_RMA_SHARED, text)
        });
        if wrong.is_none() && self.settle_own(&mut window).is_none() {
            wrong = Some(MpiError::new(abi::MPI_ERR_RMA_SHARED, "the memory of rank 0 cannot be mapped"));
        }
        match self.agree_on_window(&window.comm, wrong, &[]) {
            Ok(_) => Ok(window),
            Err(error) => {
                self.abandon_window(&window);
                Err(error)
            }
        }
    }

    /// Of a shared window whose memory lies in one piece at the first rank, finds this process's own part.
    fn settle_own(&self, window: &mut Window) -> Option<()> {
        let rank = window.rank() as usize;
        let target = &window.targets[rank];
        if target.owner == self.rank && target.size == window.exposure.memory.len() as u64 {
            return Some(());
        }
        let (base, size) = (target.base, usize::try_from(target.size).ok()?);
        let mapped = self.domain.lock().lane.fabric_mut().map_heap(target.owner);
        let part = mapped.and_then(|(there, heap)| {
            heap.part(usize::try_from(base.checked_sub(there)?).ok()?, size).map(Exposed::from)
        });
        let memory = match part {
            None if size == 0 => Exposed::NONE,
            part => part?,
        };
        window.facts.base = memory.address();
        window.facts.size = size.cast_signed();
        let control = window.exposure.control.clone();
        // What the first rank has allocated stays with it.
        let kept = Exposure { memory: memory.clone(), control: control.clone(), regions: None };
        let whole = std::mem::replace(&mut window.exposure, Arc::new(kept));
        window.whole = Some(whole.memory.clone());
        let near = Near { memory: Some(memory), control: Some(control), ..Near::default() };
        let context = window.comm.team.point_to_point;
        let mut domain = self.domain.lock();
        let Domain { lane, windows, .. } = &mut *domain;
        // Nobody has asked for anything yet: all wait for each other before.
        windows.retain(|service| service.context() != context);
        Arc::get_mut(&mut window.targets)?[rank].near = OnceLock::from(near);
        let mut service = window.service();
        service.attend(lane);
        windows.push(service);
        Some(())
    }

    /// Whether a window may be freed, which all ranks must agree on before any of them begins. Collective; it waits for all,
    /// unless one has failed.
    ///
    /// # Errors
    /// MPI_ERR_RMA_SYNC at all ranks if one of them has an open epoch.
    pub fn agree_to_free_window(&self, window: &Window) -> Result<()> {
        let wrong = locked(&window.epochs).open_epoch(window);
        match self.agree_on_window(&window.comm, wrong, &[]) {
            Err(error) if !is_failure(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Frees a window (MPI_Win_free) whose attributes are deleted, or could not be. Collective; it waits for all.
    ///
    /// # Errors
    /// At all ranks, if the attributes of one of them could not be deleted or it has an open epoch. The window then stays. The
    /// inner result is an error with which it was freed all the same: a rank has failed, or the window was revoked, and so nobody
    /// knows whether the others use it no more.
    pub fn free_window(&self, window: &Window, deleted: Result<()>) -> Result<Result<()>> {
        let wrong = deleted.err().or_else(|| locked(&window.epochs).open_epoch(window));
        match self.agree_on_window(&window.comm, wrong, &[]) {
            Ok(_) => self.close_window(window),
            Err(error) if is_failure(&error) => {
                self.abandon_window(window);
                return Ok(Err(error));
            }
            Err(error) => return Err(error),
        }
        Ok(Ok(()))
    }

    fn close_window(&self, window: &Window) {
        let context = window.comm.team.point_to_point;
        let reason = |_: &Domain<F>| {
            let text = format!("to end their accesses to {}", window.words());
            Reason::new(text, Need::Attention, others(&window.comm.team, self.rank))
        };
        self.wait_for(&Awaited::Described(&reason), |domain| {
            let at = domain.windows.iter().position(|service| service.context() == context)?;
            domain.windows[at].is_idle().then(|| _ = domain.windows.swap_remove(at))
        });
        self.forget_exposed(window);
        self.close(&window.comm);
    }

    /// The memory that a window was made with goes.
    pub(super) fn forget_exposed(&self, window: &Window) {
        self.close_to_adapters(window.key);
        let whole = window.whole.as_ref().unwrap_or(&window.exposure.memory);
        if let Some(memory) = whole.lasting() {
            self.forget_memory(memory.start().addr().get());
        }
    }
}

impl Window {
    /// Its part that talks.
    fn service(&self) -> Service {
        let shared = (self.targets.clone(), self.far.clone());
        Service::new(self.comm.team.clone(), self.exposure.clone(), self.flavor, shared)
    }
}

/// What a window is made of.
struct Parts {
    flavor: Flavor,
    hints: WindowHints,
    memory: Exposed,
    control: Control,
    key: u64,
    has_atomics: bool,
    targets: Vec<Target>,
}

impl Parts {
    fn finish(self, comm: Communicator) -> Window {
        let Parts { flavor, hints, memory, control, key, has_atomics, targets } = self;
        let dynamic = flavor == Flavor::Dynamic;
        let words_are_the_adapters = targets.iter().any(|target| target.words == WordOwner::Adapter);
        let own = &targets[comm.team.rank as usize];
        let facts = Facts {
            base: if dynamic { 0 } else { memory.address() },
            size: (own.size as usize).cast_signed(),
            disp_unit: own.disp_unit as i32,
            flavor: flavor.to_int(),
            model: abi::MPI_WIN_UNIFIED,
        };
        let near = Near {
            memory: (!dynamic).then(|| memory.clone()),
            control: Some(control.clone()),
            ..Near::default()
        };
        // A new place holds nothing yet.
        let _ = own.near.set(near);
        let regions = dynamic.then(Mutex::default);
        Window {
            comm,
            flavor,
            exposure: Arc::new(Exposure { memory, control, regions }),
            whole: None,
            targets: targets.into(),
            access: AtomicU32::new(0),
            epochs: Mutex::new(Epochs::default()),
            locks: AtomicU32::new(0),
            stored: AtomicBool::new(false),
            far: Arc::new(AtomicBool::new(false)),
            calls: AtomicU32::new(0),
            attributes: Attributes::default(),
            facts,
            key,
            words_are_the_adapters,
            has_atomics,
            name: Mutex::default(),
            hints: Mutex::new(hints),
        }
    }
}
