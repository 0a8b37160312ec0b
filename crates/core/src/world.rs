//! Several ranks in one program, on threads, over the real shared-memory code.
//!
//! ```
//! use oxmpi_core::world::world;
//! use oxmpi_engine::Mode;
//! use oxmpi_mem::memory::{lend, lend_mut};
//!
//! world(2, |rank| {
//!     let comm = rank.world().clone();
//!     if comm.rank() == 0 {
//!         lend(&[42u8], |buffer| rank.send(&comm, Mode::Standard, buffer, 1, 7)).unwrap();
//!     } else {
//!         let mut byte = [0u8];
//!         lend_mut(&mut byte, |buffer| rank.recv(&comm, buffer, 0, 7)).unwrap();
//!         assert_eq!(byte, [42]);
//!     }
//! });
//! ```

use crate::Process;
use oxmpi_fabric::shm::{Open, Settings, Shm};
use oxmpi_os::cpus;
use oxmpi_os::door::{Door, Policy};
use oxmpi_os::heap::Heap;
use oxmpi_os::segment::{Boot, Segment, SegmentConfig};
use oxmpi_rt::client::{Directory, ThreadDirectory};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What the world is like.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Sizes of the segments.
    pub config: SegmentConfig,
    /// How shared memory is used.
    pub settings: Settings,
}

/// Runs `program` as `ranks` ranks, one thread each, and returns what they return, by rank.
///
/// # Panics
/// If there is no memory for a segment. A rank that panics ends the program, because the others would wait for it.
pub fn world<R: Send>(ranks: u32, program: impl Fn(&Process<Shm>) -> R + Sync) -> Vec<R> {
    world_with(ranks, Options::default(), program)
}

/// As [`world`], with options.
///
/// # Panics
/// As [`world`].
pub fn world_with<R: Send>(
    ranks: u32,
    options: Options,
    program: impl Fn(&Process<Shm>) -> R + Sync,
) -> Vec<R> {
    world_shared(ranks, options, |process| program(process))
}

/// As [`world_with`], for programs that keep their rank with what they make of it.
///
/// # Panics
/// As [`world`].
pub fn world_shared<R: Send>(
    ranks: u32,
    options: Options,
    program: impl Fn(&Arc<Process<Shm>>) -> R + Sync,
) -> Vec<R> {
    static JOBS: AtomicU64 = AtomicU64::new(1);
    let job_id = (u64::from(std::process::id()) << 32) | JOBS.fetch_add(1, Ordering::Relaxed);
    let oversubscribed = ranks as usize > cpus::usable();
    let segments: Vec<OwnedFd> = (0..ranks)
        .map(|rank| {
            Segment::create(&Boot {
                job_id,
                rank,
                size: ranks,
                local_rank: rank,
                local_size: ranks,
                app: 0,
                oversubscribed,
                asymmetric: !oversubscribed,
                config: options.config,
            })
            .unwrap_or_else(|e| panic!("no segment for rank {rank}: {e}"))
        })
        .collect();
    let directory = Arc::new(ThreadDirectory::new(segments));
    let (options, program) = (&options, &program);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                let directory = directory.clone();
                scope.spawn(move || {
                    let done = catch_unwind(AssertUnwindSafe(|| {
                        let process = Arc::new(process(rank, ranks, directory, options));
                        let result = program(&process);
                        process.drain();
                        result
                    }));
                    done.unwrap_or_else(|_| {
                        eprintln!("rank {rank} of {ranks} panicked; the world ends");
                        std::process::exit(101)
                    })
                })
            })
            .collect();
        threads.into_iter().filter_map(|t| t.join().ok()).collect()
    })
}

fn process(rank: u32, size: u32, directory: Arc<ThreadDirectory>, options: &Options) -> Process<Shm> {
    let fd = directory.open_peer(rank).unwrap_or_else(|e| panic!("rank {rank}: {e}"));
    let own = Segment::map(&fd).unwrap_or_else(|e| panic!("rank {rank}: {e}"));
    // All ranks are this process; each claims its segment for it.
    own.status()
        .claim(std::process::id())
        .unwrap_or_else(|pid| panic!("rank {rank} is process {pid} already"));
    own.advertise();
    let door = Door::new(own.clone(), Policy::new(own.boot().oversubscribed));
    let open: Open = Box::new(move |peer| directory.open_peer(peer).map_err(|e| e.to_string()));
    let fabric = Shm::new(own.clone(), door.kind(), options.settings.clone(), open);
    let heap = Heap::new(own, Box::new(move || fd.try_clone()));
    Process::new(rank, size, fabric, Some(door)).with_heap(heap)
}
