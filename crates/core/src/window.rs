//! Windows: memory that the processes of a communicator expose to each other (MPI-5.0 chapter 12).
//!
//! A [`Window`] has one entry for each target with its memory and the route to it:
//!
//! - *mapped*: this process maps the target's heap with the memory (MPI_Win_allocate,
//!   MPI_Alloc_mem). Accesses are loads, stores and atomic instructions. Locks and signals are
//!   words in shared memory (`control`).
//! - *single copy*: the kernel copies other memory of a process of this node, if the kernel permits
//!   that.
//! - *mailbox*: accumulates to such other memory, and short puts and gets, are requests in shared
//!   memory, which the target carries out (`mailbox`).
//! - *adapter*: puts and gets to memory that the target has opened to its adapter (`adapter`).
//! - *messages*: for all other accesses, which the target carries out (`service`).
//!
//! All accumulates to a target take one route. All puts and gets take one route, which may be
//! another. All routes share the functions for accumulates ([`oxmpi_mem::atomics`]). An open epoch
//! allows accesses (`epoch`).

mod access;
mod adapter;
mod control;
mod create;
mod epoch;
mod failure;
mod mailbox;
mod message;
mod now;
mod service;
mod words;

pub use access::{AccessCompletion, Accumulate, TargetAccess};
pub use create::{Flavor, NewWindow};
pub use epoch::LockType;
pub(crate) use service::Service;

use crate::Process;
use crate::comm::Communicator;
use crate::handler::HandlerCell;
use control::ControlWords;
use epoch::Epochs;
use message::TargetPlace;
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::exposed::Exposed;
use oxmpi_objects::attribute::Attributes;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use oxmpi_objects::shown::{self, ValueKind};
use oxmpi_objects::window_hints::WindowHints;
use oxmpi_shm::door::Bell;
use oxmpi_sys::bytes::BytesMut;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use words::WordOwner;

/// A window (MPI_Win).
#[derive(Debug)]
pub struct Window {
    comm: Communicator,
    flavor: Flavor,
    exposure: Arc<WindowExposure>,
    /// The memory of all ranks of a shared window, at the rank that allocated it.
    whole: Option<Exposed>,
    targets: Arc<[Target]>,
    /// The accesses that the present epoch allows: one of the constants of `epoch`.
    access: AtomicU32,
    epochs: Mutex<Epochs>,
    /// The number of targets locked by MPI_Win_lock; 1 after MPI_Win_lock_all. In a process with
    /// threads `epochs` guards it.
    locks: AtomicU32,
    /// Set *after* stores to mapped memory. A thread that reads `false` knows that all such stores
    /// have left the processor.
    stored: AtomicBool,
    /// Whether an operation has ever gone by messages, or a target has failed.
    far: Arc<AtomicBool>,
    calls: AtomicU32,
    pub attributes: Attributes,
    /// The values of the predefined attributes, at addresses that do not change.
    pub facts: Facts,
    /// The key by which other processes' adapters reach the exposed memory; 0 if none does.
    key: u64,
    /// Whether only the adapter may change the words of some rank. Then the fast path changes none.
    adapter_owns_words: bool,
    has_atomics: bool,
    name: Mutex<Box<[u8]>>,
    hints: Mutex<WindowHints>,
}

/// The values of the predefined attributes (MPI-5.0 section 12.2.6).
#[derive(Debug)]
pub struct Facts {
    pub base: usize,
    pub size: isize,
    pub disp_unit: i32,
    pub flavor: i32,
    pub model: i32,
}

#[derive(Debug)]
struct Target {
    process: u32,
    /// The process in whose heap the memory lies, if it lies in one.
    owner: u32,
    /// The address in the process `owner`.
    base: u64,
    size: u64,
    disp_unit: i64,
    /// The address of the control words in the process of the rank; 0 if it does not share them.
    control: u64,
    /// The key by which adapters reach the memory; 0 if none does.
    key: u64,
    words: WordOwner,
    routes: OnceLock<TargetRoutes>,
    /// Whether an epoch is open to this target alone: one of the constants of `epoch`.
    open: AtomicU32,
    /// The number of exposure epochs of the target that MPI_Win_start has used.
    posts_taken: AtomicU64,
    /// The number of operations issued by messages. Has the bit [`GONE`] if the target has failed
    /// or the window was revoked.
    issued: AtomicU64,
    complete: AtomicU64,
}

const GONE: u64 = 1 << 63;

#[derive(Debug, Default)]
struct TargetRoutes {
    memory: Option<Exposed>,
    /// For a dynamic window, the address of the target's heap in the target, and the heap here.
    heap: Option<(u64, Exposed)>,
    control: Option<ControlWords>,
    /// `None` for this process, and for a target that no word in shared memory wakes.
    bell: Option<Bell>,
    single_copy: bool,
    by_adapter: bool,
}

#[derive(Debug)]
pub(crate) struct WindowExposure {
    memory: Exposed,
    control: ControlWords,
    /// For a dynamic window, the addresses and memory of the attached regions.
    regions: Option<Mutex<Vec<(u64, Exposed)>>>,
}

impl WindowExposure {
    fn len(&self) -> usize {
        match &self.regions {
            None => self.memory.len(),
            Some(regions) => all_bytes(&locked(regions)),
        }
    }

    /// The `len` bytes at offset `at`; `None` if the window does not expose all of them.
    fn bytes(&self, at: i64, len: usize) -> Option<BytesMut<'_>> {
        match self.regions {
            None => self.memory.bytes(usize::try_from(at).ok()?, len),
            Some(_) => None,
        }
    }

    fn buffer(&self, place: &TargetPlace) -> Option<UserBuf> {
        let TargetPlace { at, count, layout } = place;
        match &self.regions {
            None => self.memory.elements(isize::try_from(*at).ok()?, *count, layout).ok(),
            Some(regions) => {
                let regions = locked(regions);
                let in_one = regions.iter().find_map(|(start, memory)| {
                    let offset = at.wrapping_sub(start.cast_signed());
                    memory.elements(isize::try_from(offset).ok()?, *count, layout).ok()
                });
                in_one.or_else(|| {
                    if count.checked_mul(layout.size())? > all_bytes(&regions) {
                        return None;
                    }
                    let all: Vec<&Exposed> = regions.iter().map(|(_, memory)| memory).collect();
                    let address = usize::try_from(at.cast_unsigned()).ok()?;
                    Exposed::elements_among(&all, address, *count, layout).ok()
                })
            }
        }
    }
}

/// Bytes of all attached regions. The sum saturates, since a program may attach any length.
fn all_bytes(regions: &[(u64, Exposed)]) -> usize {
    regions.iter().fold(0, |all, (_, memory)| memory.len().saturating_add(all))
}

/// No code panics while it holds a lock of this module, so poison has no meaning.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Window {
    /// The number of ranks.
    pub fn size(&self) -> u32 {
        self.targets.len() as u32
    }

    /// The rank of this process.
    pub fn rank(&self) -> u32 {
        self.comm.team.rank
    }

    /// The kind of the window: the function that made it.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// The cell of the error handler.
    pub fn errhandler_cell(&self) -> &HandlerCell {
        self.comm.errhandler_cell()
    }

    /// The name; empty if the window has none (MPI_Win_get_name).
    pub fn name(&self) -> Box<[u8]> {
        locked(&self.name).clone()
    }

    pub(crate) fn words(&self) -> String {
        let name = self.name();
        match String::from_utf8_lossy(&name) {
            name if name.is_empty() => format!("a window of {} ranks", self.size()),
            name => format!("window '{name}'"),
        }
    }

    /// Sets the name (MPI_Win_set_name).
    pub fn set_name(&self, name: &[u8]) {
        *locked(&self.name) = name.into();
    }

    /// The hints (MPI_Win_get_info).
    pub fn hints(&self) -> WindowHints {
        locked(&self.hints).clone()
    }

    /// MPI_Win_set_info. Hints about memory have an effect only when the window is made.
    pub fn set_hints(&self, hints: WindowHints) {
        *locked(&self.hints) = hints;
    }

    /// The processes (MPI_Win_get_group).
    pub fn group(&self) -> Result<Group> {
        self.comm.group()
    }

    #[inline(always)]
    fn target(&self, rank: i32) -> Result<&Target> {
        match self.targets.get(rank as usize) {
            Some(target) if rank >= 0 => Ok(target),
            _ => Err(self.no_rank(rank)),
        }
    }

    /// Whether the window has this target. MPI_PROC_NULL is allowed.
    pub fn check_rank(&self, rank: i32) -> Result<()> {
        if rank == abi::MPI_PROC_NULL { Ok(()) } else { self.target(rank).map(drop) }
    }

    #[cold]
    fn no_rank(&self, rank: i32) -> MpiError {
        let last = self.targets.len() - 1;
        let rank = shown::number(ValueKind::Rank, rank);
        let text = format!("the rank is {rank}; the window has the ranks 0 to {last}");
        MpiError::new(abi::MPI_ERR_RANK, text)
    }

    fn is_own(&self, rank: u32) -> bool {
        rank == self.comm.team.rank
    }
}

impl Target {
    #[cold]
    fn find_routes(&self, fabric: &mut impl Fabric, ranks: u32, flavor: Flavor) -> &TargetRoutes {
        let mut routes =
            TargetRoutes { bell: fabric.bell(self.process), ..TargetRoutes::default() };
        // Between processes over sockets, only a shared window uses shared memory.
        let shares = routes.bell.is_some() || flavor == Flavor::Shared;
        let part = |(there, heap): (u64, oxmpi_sys::memory::Memory), at: u64, len: u64| {
            heap.part(usize::try_from(at.checked_sub(there)?).ok()?, usize::try_from(len).ok()?)
        };
        if shares && self.control != 0 {
            let bytes = ControlWords::bytes(ranks, flavor) as u64;
            let words =
                fabric.map_heap(self.process).and_then(|heap| part(heap, self.control, bytes));
            routes.control = words.map(|words| ControlWords::new(words, ranks, flavor));
        }
        // Without the control words an accumulate has no element lock.
        if routes.control.is_some() && self.size == 0 {
            // From the address of an empty part, programs compute the addresses of its neighbours.
            let shared = flavor == Flavor::Shared;
            let heap = if shared { fabric.map_heap(self.owner) } else { None };
            let place = heap.and_then(|heap| part(heap, self.base, 0));
            routes.memory = Some(place.map_or(Exposed::NONE, Exposed::from));
        } else if routes.control.is_some() {
            let memory =
                fabric.map_heap(self.owner).and_then(|heap| part(heap, self.base, self.size));
            routes.memory = memory.map(Exposed::from);
        }
        if flavor == Flavor::Dynamic {
            routes.memory = None;
            let heap = routes.control.as_ref().and_then(|_| fabric.map_heap(self.process));
            routes.heap = heap.map(|(there, heap)| (there, Exposed::from(heap)));
        }
        routes.single_copy =
            routes.memory.is_none() && routes.bell.is_some() && fabric.can_access(self.process);
        routes.by_adapter = self.key != 0 && fabric.remote_access_to(self.process).is_some();
        // Another thread may have found the routes first.
        self.routes.get_or_init(|| routes)
    }
}

impl<F: Fabric> Process<F> {
    #[inline]
    fn routes<'w>(&self, window: &'w Window, target: &'w Target) -> &'w TargetRoutes {
        match target.routes.get() {
            Some(routes) => routes,
            None => self.find_routes(window, target),
        }
    }

    #[cold]
    fn find_routes<'w>(&self, window: &'w Window, target: &'w Target) -> &'w TargetRoutes {
        target.find_routes(self.domain.lock().lane.fabric_mut(), window.size(), window.flavor)
    }

    /// The address of a rank's memory in this process, its length and its displacement unit
    /// (MPI_Win_shared_query). Address and length are 0 for memory that is not mapped here. With
    /// MPI_PROC_NULL, of the lowest rank that exposes memory.
    pub fn shared_query(&self, window: &Window, rank: i32) -> Result<(usize, usize, i64)> {
        if window.flavor == Flavor::Dynamic {
            let text = "a window made by MPI_Win_create_dynamic has no memory of its own to query";
            return Err(MpiError::new(abi::MPI_ERR_RMA_FLAVOR, text));
        }
        let target = match rank {
            abi::MPI_PROC_NULL => window.targets.iter().find(|target| target.size > 0),
            rank => Some(window.target(rank)?),
        };
        let Some(target) = target else { return Ok((0, 0, 1)) };
        let memory = self.routes(window, target).memory.as_ref();
        Ok(match memory {
            Some(memory) => (memory.address(), memory.len(), target.disp_unit),
            None => (0, 0, target.disp_unit),
        })
    }

    /// Exposes memory in a dynamic window (MPI_Win_attach). Errors: MPI_ERR_RMA_FLAVOR if the
    /// window is not dynamic; MPI_ERR_RMA_ATTACH if some of the memory is attached already.
    pub fn attach_memory(&self, window: &Window, memory: Exposed) -> Result<()> {
        let mut regions = window.regions("MPI_Win_attach")?;
        let (start, len) = (memory.address() as u64, memory.len() as u64);
        let overlaps = |(other, there): &&(u64, Exposed)| {
            start < other.saturating_add(there.len() as u64) && *other < start.saturating_add(len)
                || start == *other
        };
        if let Some((other, there)) = regions.iter().find(overlaps) {
            let text = format!(
                "{len} bytes at {start:#x} overlap the {} bytes at {other:#x}, which are attached",
                there.len()
            );
            return Err(MpiError::new(abi::MPI_ERR_RMA_ATTACH, text));
        }
        regions.push((start, memory));
        if len > 0 {
            window.exposure.control.list(start, len);
        }
        Ok(())
    }

    /// Removes memory from a dynamic window (MPI_Win_detach). Errors: MPI_ERR_RMA_FLAVOR if the
    /// window is not dynamic; MPI_ERR_BASE if nothing is attached at `address`.
    pub fn detach_memory(&self, window: &Window, address: usize) -> Result<()> {
        let mut regions = window.regions("MPI_Win_detach")?;
        let Some(at) = regions.iter().position(|(start, _)| *start == address as u64) else {
            let text = format!("base is {address:#x}, where nothing is attached");
            return Err(MpiError::new(abi::MPI_ERR_BASE, text));
        };
        let (start, memory) = regions.swap_remove(at);
        if !memory.is_empty() {
            window.exposure.control.unlist(start, memory.len() as u64);
        }
        Ok(())
    }

    /// Orders earlier stores before all later accesses (MPI_Win_sync). It makes progress, since
    /// programs poll with it.
    pub fn sync_window(&self, _window: &Window) {
        std::sync::atomic::fence(Ordering::SeqCst);
        self.look(|_| ());
    }
}

impl Window {
    fn regions(&self, function: &str) -> Result<MutexGuard<'_, Vec<(u64, Exposed)>>> {
        match &self.exposure.regions {
            Some(regions) => Ok(locked(regions)),
            None => {
                let text = format!("{function} is for windows made by MPI_Win_create_dynamic");
                Err(MpiError::new(abi::MPI_ERR_RMA_FLAVOR, text))
            }
        }
    }
}
