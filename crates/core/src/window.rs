//! Windows: memory that the processes of a communicator expose to each other (MPI-5.0 chapter 12).
//!
//! A [`Window`] knows of each rank what it exposes, and how to get there:
//!
//! - *near*: the memory of the target lies in its heap, which is mapped here (memory of MPI_Win_allocate and MPI_Alloc_mem in a
//!   node). Accesses are loads, stores and atomic instructions. Locks and signals are words in shared memory too
//!   (`control`), so the target need not do anything.
//! - *by single copy*: other memory of a process of this node is read and written through the kernel, if that allows it.
//! - *by mailbox*: accumulates to such memory, and short puts and gets, are requests in shared memory that the target carries out and
//!   answers (`mailbox`), one at a time.
//! - *by adapter*: puts and gets to memory that its process has opened to the adapter of the route (`adapter`).
//! - *far*: everything else are messages, which the target carries out
//!   (`service`). They take the way of all messages, whatever the fabric.
//!
//! Which way it is depends on the target alone, but for puts and gets; and accumulates are made by the same functions on
//! all ways ([`oxmpi_mem::atomics`]).
//!
//! An epoch is what allows accesses (`epoch`). The check on the fast path is one word of the window, and one of the target
//! where single targets are opened.

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

pub use access::{Accumulate, At, How};
pub use create::{Flavor, NewWindow};
pub use epoch::LockType;
pub(crate) use service::Service;

use crate::Process;
use crate::comm::Communicator;
use crate::handler::HandlerCell;
use control::Control;
use epoch::Epochs;
use message::Place;
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::exposed::Exposed;
use oxmpi_objects::attribute::Attributes;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::group::Group;
use oxmpi_objects::window_hints::WindowHints;
use oxmpi_shm::door::Bell;
use oxmpi_sys::bytes::BytesMut;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use words::WordOwner;

/// A window.
#[derive(Debug)]
pub struct Window {
    /// A duplicate of the communicator that it was made on, for its messages and barriers.
    comm: Communicator,
    flavor: Flavor,
    exposure: Arc<Exposure>,
    /// The memory of all ranks of a shared window, at the one that has allocated it.
    whole: Option<Exposed>,
    targets: Arc<[Target]>,
    /// Which accesses the present epoch allows: one of the constants of `epoch`.
    access: AtomicU32,
    epochs: Mutex<Epochs>,
    /// How many targets are locked by themselves; 1 if all are by MPI_Win_lock_all. Changed with `epochs` locked, or by the only
    /// thread.
    locks: AtomicU32,
    /// Whether memory that is mapped here was stored to since a fence. Set *after* the stores: who sees it clear knows that
    /// they have left this processor.
    stored: AtomicBool,
    /// Whether anything was ever asked for by messages, or a target is gone.
    far: Arc<AtomicBool>,
    /// Calls of the fast ways, of which some must look at everything.
    calls: AtomicU32,
    /// What the program has attached to it.
    pub attributes: Attributes,
    /// The values of its predefined attributes, at addresses that stay.
    pub facts: Facts,
    /// By which key adapters of others reach the exposed memory; 0 if they do not.
    key: u64,
    /// The adapter alone changes the words of some rank, so that no element is changed on the fast path.
    words_are_the_adapters: bool,
    /// The adapter of this process has atomic operations.
    has_atomics: bool,
    name: Mutex<Box<[u8]>>,
    hints: Mutex<WindowHints>,
}

/// The values of predefined attributes (MPI-5.0 section 12.2.6).
#[derive(Debug)]
pub struct Facts {
    /// Where the exposed memory begins (MPI_WIN_BASE).
    pub base: usize,
    /// Its length, bytes (MPI_WIN_SIZE).
    pub size: isize,
    /// The displacement unit, bytes (MPI_WIN_DISP_UNIT).
    pub disp_unit: i32,
    /// How it was made (MPI_WIN_CREATE_FLAVOR).
    pub flavor: i32,
    /// What loads and stores see (MPI_WIN_MODEL).
    pub model: i32,
}

/// What one rank exposes, as another knows it.
#[derive(Debug)]
struct Target {
    /// The process of the rank.
    process: u32,
    /// The process in whose heap the memory lies, perhaps.
    owner: u32,
    /// Where that process has it.
    base: u64,
    /// Bytes.
    size: u64,
    disp_unit: i64,
    /// Where the process of the rank has its control words; 0 if they are not shared.
    control: u64,
    /// By which key adapters reach its memory; 0 if they do not.
    key: u64,
    /// Who changes its words.
    words: WordOwner,
    near: OnceLock<Near>,
    /// Whether an epoch is open to this target alone: one of the constants of `epoch`.
    open: AtomicU32,
    /// How many of its exposure epochs have been taken.
    posts_taken: AtomicU64,
    /// How much was asked of it by messages, and how much of that is known to be complete. What was asked has [`GONE`] if it
    /// has failed, or the window was revoked: nothing is complete there any more.
    asked: AtomicU64,
    complete: AtomicU64,
}

/// See [`Target`].
const GONE: u64 = 1 << 63;

/// How to get to a target.
#[derive(Debug, Default)]
struct Near {
    /// Its memory, if that is mapped here.
    memory: Option<Exposed>,
    /// Its heap and where it has it, for dynamic windows.
    heap: Option<(u64, Exposed)>,
    control: Option<Control>,
    /// What wakes it; none if words in shared memory wake nobody there, and of this process itself.
    bell: Option<Bell>,
    /// Whether its memory can be read and written through the kernel.
    single_copy: bool,
    /// Whether the adapter of the route to it reaches its memory.
    by_adapter: bool,
}

/// What a process exposes.
#[derive(Debug)]
pub(crate) struct Exposure {
    memory: Exposed,
    control: Control,
    /// The attached regions of a dynamic window: address and memory.
    regions: Option<Mutex<Vec<(u64, Exposed)>>>,
}

impl Exposure {
    /// Bytes of all memory in which the data of an access may lie.
    fn len(&self) -> usize {
        match &self.regions {
            None => self.memory.len(),
            Some(regions) => all_bytes(&locked(regions)),
        }
    }

    /// The bytes that begin so far into a window's memory that was made with it, if they are all exposed.
    fn bytes(&self, at: i64, len: usize) -> Option<BytesMut<'_>> {
        match self.regions {
            None => self.memory.bytes(usize::try_from(at).ok()?, len),
            Some(_) => None,
        }
    }

    /// The exposed memory at a place; `None` if it is not all exposed.
    fn buffer(&self, place: &Place) -> Option<UserBuf> {
        let Place { at, count, layout } = place;
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

/// Bytes of all attached regions, which a program may have told as long as it likes.
fn all_bytes(regions: &[(u64, Exposed)]) -> usize {
    regions.iter().fold(0, |all, (_, memory)| memory.len().saturating_add(all))
}

/// The value behind a lock. Nothing done under the locks of this module panics half-way.
fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Window {
    /// Number of its ranks.
    pub fn size(&self) -> u32 {
        self.targets.len() as u32
    }

    /// The rank of this process.
    pub fn rank(&self) -> u32 {
        self.comm.team.rank
    }

    /// How it was made.
    pub fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// The place of its error handler.
    pub fn errhandler_cell(&self) -> &HandlerCell {
        self.comm.errhandler_cell()
    }

    /// Its name; empty if it has none (MPI_Win_get_name).
    pub fn name(&self) -> Box<[u8]> {
        locked(&self.name).clone()
    }

    /// What it is called in explanations: by its name, if it has one.
    pub(crate) fn words(&self) -> String {
        let name = self.name();
        match String::from_utf8_lossy(&name) {
            name if name.is_empty() => format!("a window of {} ranks", self.size()),
            name => format!("window '{name}'"),
        }
    }

    /// Names it (MPI_Win_set_name).
    pub fn set_name(&self, name: &[u8]) {
        *locked(&self.name) = name.into();
    }

    /// Its hints (MPI_Win_get_info).
    pub fn hints(&self) -> WindowHints {
        locked(&self.hints).clone()
    }

    /// Changes its hints (MPI_Win_set_info). Those about memory count only when a window is made.
    pub fn set_hints(&self, hints: WindowHints) {
        *locked(&self.hints) = hints;
    }

    /// Its processes (MPI_Win_get_group).
    ///
    /// # Errors
    /// None for a window that was made.
    pub fn group(&self) -> Result<Group> {
        self.comm.group()
    }

    /// The target with this rank.
    #[inline(always)]
    fn target(&self, rank: i32) -> Result<&Target> {
        match self.targets.get(rank as usize) {
            Some(target) if rank >= 0 => Ok(target),
            _ => Err(self.no_rank(rank)),
        }
    }

    #[cold]
    fn no_rank(&self, rank: i32) -> MpiError {
        let last = self.targets.len() - 1;
        let text = format!("the rank is {rank}; the window has the ranks 0 to {last}");
        MpiError::new(abi::MPI_ERR_RANK, text)
    }

    fn is_own(&self, rank: u32) -> bool {
        rank == self.comm.team.rank
    }
}

impl Target {
    /// Finds out how to get to it, in a window of so many ranks.
    #[cold]
    fn approach(&self, fabric: &mut impl Fabric, ranks: u32, flavor: Flavor) -> &Near {
        let mut near = Near { bell: fabric.bell(self.process), ..Near::default() };
        // Over sockets the processes of a node could share memory all the same; only the windows that must have it do.
        let shares = near.bell.is_some() || flavor == Flavor::Shared;
        let part = |(there, heap): (u64, oxmpi_sys::memory::Memory), at: u64, len: u64| {
            heap.part(usize::try_from(at.checked_sub(there)?).ok()?, usize::try_from(len).ok()?)
        };
        if shares && self.control != 0 {
            let bytes = Control::bytes(ranks, flavor) as u64;
            let words = fabric.map_heap(self.process).and_then(|heap| part(heap, self.control, bytes));
            near.control = words.map(|words| Control::new(words, ranks, flavor));
        }
        // Without its words there is no lock for its elements.
        if near.control.is_some() && self.size == 0 {
            // Programs count from the place of an empty piece of shared memory to those beside it.
            let shared = flavor == Flavor::Shared;
            let heap = if shared { fabric.map_heap(self.owner) } else { None };
            let place = heap.and_then(|heap| part(heap, self.base, 0));
            near.memory = Some(place.map_or(Exposed::NONE, Exposed::from));
        } else if near.control.is_some() {
            let memory = fabric.map_heap(self.owner).and_then(|heap| part(heap, self.base, self.size));
            near.memory = memory.map(Exposed::from);
        }
        if flavor == Flavor::Dynamic {
            near.memory = None;
            let heap = near.control.as_ref().and_then(|_| fabric.map_heap(self.process));
            near.heap = heap.map(|(there, heap)| (there, Exposed::from(heap)));
        }
        near.single_copy = near.memory.is_none() && near.bell.is_some() && fabric.can_access(self.process);
        near.by_adapter = self.key != 0 && fabric.remote_access_to(self.process).is_some();
        // Another thread may have been faster with the same.
        self.near.get_or_init(|| near)
    }
}

impl<F: Fabric> Process<F> {
    /// How to get to a target.
    #[inline]
    fn near<'w>(&self, window: &'w Window, target: &'w Target) -> &'w Near {
        match target.near.get() {
            Some(near) => near,
            None => self.approach(window, target),
        }
    }

    /// Finds out how to get to a target.
    #[cold]
    fn approach<'w>(&self, window: &'w Window, target: &'w Target) -> &'w Near {
        target.approach(self.domain.lock().lane.fabric_mut(), window.size(), window.flavor)
    }

    /// Where a rank has its memory in this process's address space, its length and displacement unit (MPI_Win_shared_query).
    /// MPI_PROC_NULL asks for the lowest rank that exposes any. A rank whose memory is not mapped here has no address and
    /// length 0.
    ///
    /// # Errors
    /// MPI_ERR_RANK; MPI_ERR_RMA_FLAVOR of a dynamic window.
    pub fn shared_query(&self, window: &Window, rank: i32) -> Result<(usize, usize, i64)> {
        if window.flavor == Flavor::Dynamic {
            let text = "a window made by MPI_Win_create_dynamic has no memory of its own to be asked for";
            return Err(MpiError::new(abi::MPI_ERR_RMA_FLAVOR, text));
        }
        let target = match rank {
            abi::MPI_PROC_NULL => window.targets.iter().find(|target| target.size > 0),
            rank => Some(window.target(rank)?),
        };
        let Some(target) = target else { return Ok((0, 0, 1)) };
        let memory = self.near(window, target).memory.as_ref();
        Ok(match memory {
            Some(memory) => (memory.address(), memory.len(), target.disp_unit),
            None => (0, 0, target.disp_unit),
        })
    }

    /// Exposes memory in a dynamic window (MPI_Win_attach).
    ///
    /// # Errors
    /// MPI_ERR_RMA_FLAVOR of another window; MPI_ERR_RMA_ATTACH if some of the memory is attached already.
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

    /// Takes memory out of a dynamic window (MPI_Win_detach).
    ///
    /// # Errors
    /// MPI_ERR_RMA_FLAVOR of another window; MPI_ERR_BASE if nothing is attached at the address.
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

    /// Sees to it that stores before are seen by whoever is told of it afterwards, and the other way round (MPI_Win_sync).
    /// Programs wait in loops around it for what a peer puts, so all goes on.
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
