//! How windows are made and freed (MPI-5.0 section 12.2).
//!
//! Each rank sends its memory and its status to all other ranks. So a wrong call at one rank is an
//! error at all ranks, and no rank waits for ever.

use super::control::ControlWords;
use super::epoch::Epochs;
use super::words::{WordFacts, WordOwner, owners};
use super::{Facts, Service, Target, TargetRoutes, Window, WindowExposure, locked};
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
use oxmpi_rt_client::waiting::Need;
use oxmpi_sys::memory::Memory;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};
use std::sync::{Arc, Mutex, OnceLock};

/// The function that made a window (MPI_WIN_CREATE_FLAVOR).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavor {
    Create,
    Allocate,
    Dynamic,
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

/// The arguments of one rank for a new window.
#[derive(Debug)]
pub struct NewWindow {
    pub flavor: Flavor,
    pub memory: Exposed,
    pub size: usize,
    pub disp_unit: i64,
    pub hints: WindowHints,
}

/// The number of words that each rank sends: a status, then its part of the window.
const WORDS: usize = 7;

impl<F: Fabric> Process<F> {
    /// Makes a window. Collective: a rank with wrong arguments takes part with the error, and all
    /// ranks return an error.
    pub fn create_window(&self, comm: &Communicator, new: Result<NewWindow>) -> Result<Window> {
        comm.check_intra()?;
        // The window passes errors of its failed requests to the handler of its context.
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
                // Processes may have failed while the window was made.
                service.attend(&mut domain.lane);
                domain.windows.push(service);
                // Other ranks may have returned from this call and sent operations already.
                domain.serving = true;
                drop(domain);
                if window.flavor == Flavor::Shared { self.check_shared(window) } else { Ok(window) }
            }
            Err(error) => {
                if is_failure(&error) {
                    // Other ranks may have the window already, and must not wait in it for this
                    // process.
                    self.revoke(&own);
                }
                let error = self.cause_of_revocation(&own, error);
                self.close(&own);
                Err(error)
            }
        }
    }

    /// Exchanges a status and `words` with all ranks. The status is 0, or 1 + the error class.
    /// Returns the status and words of each rank.
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
                Err(MpiError::new(
                    class,
                    format!("the call failed at rank {rank}, and so at all ranks"),
                ))
            }
        }
    }

    fn make_window(&self, comm: &Communicator, new: Result<NewWindow>) -> Result<WindowParts> {
        let (ranks, own_rank) = (comm.team.size(), comm.team.rank);
        let (new, mut wrong) = match new {
            Ok(new) => (new, None),
            Err(error) => {
                let hints = WindowHints::default();
                let flavor = Flavor::Dynamic;
                (
                    NewWindow { flavor, memory: Exposed::NONE, size: 0, disp_unit: 1, hints },
                    Some(error),
                )
            }
        };
        // The sizes first, since one rank may allocate the memory of all for a shared window.
        let shared = new.flavor == Flavor::Shared;
        let first =
            [new.flavor as u64, new.size as u64, self.node, u64::from(new.hints.noncontiguous)];
        let all = self.agree_on_window(comm, wrong.take(), &first)?;
        let mut facts = all.chunks(5);
        if facts.any(|words| words[1] != all[1]) {
            return Err(MpiError::new(
                abi::MPI_ERR_WIN,
                "the ranks call different functions to make a window",
            ));
        }
        if shared && all.chunks(5).any(|words| words[3] != all[3]) {
            let text = "the processes of the communicator are not all on one node: make a communicator of the processes of a node by \
                        MPI_Comm_split_type with MPI_COMM_TYPE_SHARED";
            return Err(MpiError::new(abi::MPI_ERR_RMA_SHARED, text));
        }
        let sizes: Vec<u64> = all.chunks(5).map(|words| words[2]).collect();
        let apart = !shared || all.chunks(5).all(|words| words[4] != 0);
        let wanted = match (new.flavor, apart) {
            (Flavor::Create | Flavor::Dynamic, _) => None,
            // An empty part has a null pointer where other parts do not determine its address.
            (Flavor::Shared, true) if new.size == 0 => None,
            (_, true) => Some(new.size),
            (_, false) if own_rank == 0 => {
                let total = sizes.iter().try_fold(0u64, |total, size| total.checked_add(*size));
                Some(total.and_then(|total| usize::try_from(total).ok()).unwrap_or(usize::MAX))
            }
            _ => None,
        };
        let must_share = shared && ranks > 1;
        let memory =
            wanted.map(|bytes| self.allocate_exposed(bytes, new.hints.alignment, must_share));
        let memory = memory.transpose().unwrap_or_else(|error| {
            wrong = Some(error);
            None
        });
        let control = match self.allocate_control(ranks, new.flavor) {
            Ok(control) => control,
            Err(error) => {
                // The other ranks ignore these words.
                self.agree_on_window(comm, Some(error), &[0; WORDS - 1])?;
                return Err(MpiError::new(
                    abi::MPI_ERR_NO_MEM,
                    "no memory for the words of a window",
                ));
            }
        };
        let memory = memory.map_or(new.memory, Exposed::from);
        let size = if new.flavor == Flavor::Create { memory.len() as u64 } else { new.size as u64 };
        // All ranks map the memory of a shared window. A dynamic window has no memory yet.
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
                // Other ranks may have the window already, with memory that is freed here.
                self.revoke(comm);
                self.wait_for_revoked(comm);
            }
            self.close_to_adapters(key);
            if let Some(memory) = memory.lasting() {
                self.forget_memory(memory.start().addr().get());
            }
        })?;
        let facts: Vec<_> = all.chunks(WORDS).map(|words| WordFacts::decode(words[6])).collect();
        // A process of another launcher has no number in this process.
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
                routes: OnceLock::new(),
                open: AtomicU32::new(0),
                posts_taken: AtomicU64::new(0),
                issued: AtomicU64::new(0),
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
        Ok(WindowParts { flavor, hints, memory, control: control.0, key, has_atomics, targets })
    }

    /// Memory of the heap, which other ranks can map; private memory unless `must_share` is set.
    fn allocate_exposed(&self, bytes: usize, align: usize, must_share: bool) -> Result<Memory> {
        let in_heap = self.heap().and_then(|heap| heap.memory(bytes, align));
        let memory =
            in_heap.or_else(|| if must_share { None } else { Memory::zeroed(bytes, align) });
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

    fn allocate_control(&self, ranks: u32, flavor: Flavor) -> Result<(ControlWords, bool)> {
        let bytes = ControlWords::bytes(ranks, flavor);
        let in_heap = self.heap().and_then(|heap| heap.memory(bytes, 64));
        let shared = in_heap.is_some();
        let memory = in_heap.or_else(|| Memory::zeroed(bytes, 64)).ok_or_else(|| {
            MpiError::new(
                abi::MPI_ERR_NO_MEM,
                format!("there is no memory for {bytes} bytes of a window"),
            )
        })?;
        memory.part(0, ControlWords::cleared(ranks, flavor)).iter().for_each(Memory::clear);
        Ok((ControlWords::new(memory, ranks, flavor), shared))
    }

    fn check_shared(&self, mut window: Window) -> Result<Window> {
        let own = window.rank() as usize;
        let unmapped = window.targets.iter().enumerate().position(|(rank, target)| {
            rank != own && self.routes(&window, target).memory.is_none()
        });
        let mut wrong = unmapped.map(|rank| {
            let text = format!("the memory of rank {rank} cannot be mapped");
            MpiError::new(abi::MPI_ERR_RMA_SHARED, text)
        });
        if wrong.is_none() && self.map_own_part(&mut window).is_none() {
            wrong = Some(MpiError::new(
                abi::MPI_ERR_RMA_SHARED,
                "the memory of rank 0 cannot be mapped",
            ));
        }
        match self.agree_on_window(&window.comm, wrong, &[]) {
            Ok(_) => Ok(window),
            Err(error) => {
                self.abandon_window(&window);
                Err(error)
            }
        }
    }

    fn map_own_part(&self, window: &mut Window) -> Option<()> {
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
        // At rank 0 the memory of all ranks must stay alive.
        let own_part =
            WindowExposure { memory: memory.clone(), control: control.clone(), regions: None };
        let whole = std::mem::replace(&mut window.exposure, Arc::new(own_part));
        window.whole = Some(whole.memory.clone());
        let routes = TargetRoutes {
            memory: Some(memory),
            control: Some(control),
            ..TargetRoutes::default()
        };
        let context = window.comm.team.point_to_point;
        let mut domain = self.domain.lock();
        let Domain { lane, windows, .. } = &mut *domain;
        // No operation has arrived yet, since all ranks wait for each other before the first.
        windows.retain(|service| service.context() != context);
        Arc::get_mut(&mut window.targets)?[rank].routes = OnceLock::from(routes);
        let mut service = window.service();
        service.attend(lane);
        windows.push(service);
        Some(())
    }

    /// Waits for all living ranks. Errors: MPI_ERR_RMA_SYNC at all ranks if a rank has an open
    /// epoch.
    pub fn agree_to_free_window(&self, window: &Window) -> Result<()> {
        let wrong = locked(&window.epochs).open_epoch(window);
        match self.agree_on_window(&window.comm, wrong, &[]) {
            Err(error) if !is_failure(&error) => Err(error),
            _ => Ok(()),
        }
    }

    /// Frees a window (MPI_Win_free) after its attributes were deleted. Waits for all ranks.
    ///
    /// The outer error comes at all ranks if a rank could not delete its attributes or has an open
    /// epoch; the window stays. With the inner error the window is freed, but other ranks may still
    /// use it, since a rank has failed or the window was revoked.
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

    pub(super) fn forget_exposed(&self, window: &Window) {
        self.close_to_adapters(window.key);
        let whole = window.whole.as_ref().unwrap_or(&window.exposure.memory);
        if let Some(memory) = whole.lasting() {
            self.forget_memory(memory.start().addr().get());
        }
    }
}

impl Window {
    fn service(&self) -> Service {
        let shared = (self.targets.clone(), self.far.clone());
        Service::new(self.comm.team.clone(), self.exposure.clone(), self.flavor, shared)
    }
}

struct WindowParts {
    flavor: Flavor,
    hints: WindowHints,
    memory: Exposed,
    control: ControlWords,
    key: u64,
    has_atomics: bool,
    targets: Vec<Target>,
}

impl WindowParts {
    fn finish(self, comm: Communicator) -> Window {
        let WindowParts { flavor, hints, memory, control, key, has_atomics, targets } = self;
        let dynamic = flavor == Flavor::Dynamic;
        let adapter_owns_words = targets.iter().any(|target| target.words == WordOwner::Adapter);
        let own = &targets[comm.team.rank as usize];
        let facts = Facts {
            base: if dynamic { 0 } else { memory.address() },
            size: (own.size as usize).cast_signed(),
            disp_unit: own.disp_unit as i32,
            flavor: flavor.to_int(),
            model: abi::MPI_WIN_UNIFIED,
        };
        let routes = TargetRoutes {
            memory: (!dynamic).then(|| memory.clone()),
            control: Some(control.clone()),
            ..TargetRoutes::default()
        };
        let _ = own.routes.set(routes);
        let regions = dynamic.then(Mutex::default);
        Window {
            comm,
            flavor,
            exposure: Arc::new(WindowExposure { memory, control, regions }),
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
            adapter_owns_words,
            has_atomics,
            name: Mutex::default(),
            hints: Mutex::new(hints),
        }
    }
}
