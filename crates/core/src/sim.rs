//! The deterministic world: ranks as async functions over a virtual network and clock.
//!
//! A [`SimWorld`] runs one script as many ranks in one thread. A script is an async function of its
//! [`Rank`]. When a script waits, the world polls another rank, which the seed picks. When no rank
//! can continue, the virtual clock advances to the next event of the network. So everything follows
//! from the seed, and the seed repeats a failure.
//!
//! ```
//! use oxmpi_core::sim::{RankEnd, SimWorld};
//! use oxmpi_engine::Mode;
//!
//! let outcome = SimWorld::new(2, 42)
//!     .run(async |rank| {
//!         let comm = rank.world();
//!         if rank.rank() == 0 {
//!             rank.send(&comm, Mode::Standard, b"hello", 1, 7).await?;
//!             return Ok(Vec::new());
//!         }
//!         rank.recv(&comm, 5, 0, 7).await.map(|(data, _)| data)
//!     })
//!     .unwrap();
//! assert_eq!(outcome.ends[1], RankEnd::Finished(b"hello".to_vec()));
//! ```
//!
//! The rules of the world:
//!
//! - A rank that is polled and cannot continue sleeps until a frame arrives for it, as a process
//!   does at its door. A rank that was left asleep although it could continue appears as a
//!   deadlock.
//! - A script that returns an error has met a fatal error (MPI_ERRORS_ARE_FATAL): the rank dies,
//!   and the other ranks are notified. So after one death all ranks end, finished or failed.
//! - A script that returns a result has finalized. Its rank stays until all its messages have left.
//! - A rank in [`Rank::compute`] makes no progress.

mod communicators;
mod rank;

pub use rank::{Doing, RANKS_OF_A_NODE, Rank};

use oxmpi_engine::Rest;
use oxmpi_fabric::sim::{LinkFaults, Network, Random};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_tuned::AgreementSettings;
use std::cell::RefCell;
use std::fmt;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// The configuration of a world.
#[derive(Debug, Clone)]
pub struct SimWorld {
    ranks: u32,
    seed: u64,
    link_faults: LinkFaults,
    deaths: Vec<(u32, u64)>,
    most_events: u64,
    agreement: AgreementSettings,
}

/// The end of a rank.
#[derive(Debug, PartialEq, Eq)]
pub enum RankEnd<R> {
    /// Its script returned this value, and all its messages had left.
    Finished(R),
    Failed(MpiError),
    Dead,
}

/// The result of a world.
#[derive(Debug)]
pub struct Outcome<R> {
    pub ends: Vec<RankEnd<R>>,
    pub virtual_ns: u64,
    pub frames: u64,
    pub events: u64,
    pub trace: u64,
}

/// The error of a world that does not end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    pub ranks: u32,
    pub seed: u64,
    pub virtual_ns: u64,
    /// Whether there were events left, so that this is an endless exchange and no deadlock.
    pub busy: bool,
    pub waiting: Vec<(u32, Doing)>,
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.busy { "no end in sight" } else { "deadlock" };
        write!(
            f,
            "{what} in a world of {} ranks (seed {}) after {} virtual ns: {} have not ended",
            self.ranks,
            self.seed,
            self.virtual_ns,
            self.waiting.len()
        )?;
        for (rank, doing) in self.waiting.iter().take(20) {
            write!(f, "\n  rank {rank}: {doing}")?;
        }
        if self.waiting.len() > 20 {
            write!(f, "\n  and others")?;
        }
        Ok(())
    }
}

impl std::error::Error for Stuck {}

const MOST_EVENTS: u64 = 100_000_000;

/// Of 256 turns, the number in which the clock advances although a rank could run.
const SLOWNESS: u8 = 64;

impl SimWorld {
    /// A world of `ranks` ranks, with the default link faults and without deaths.
    pub fn new(ranks: u32, seed: u64) -> SimWorld {
        SimWorld {
            ranks,
            seed,
            link_faults: LinkFaults::default(),
            deaths: Vec::new(),
            most_events: MOST_EVENTS,
            agreement: AgreementSettings::default(),
        }
    }

    /// Sets the faults of the network.
    #[must_use]
    pub fn link_faults(mut self, link_faults: LinkFaults) -> SimWorld {
        self.link_faults = link_faults;
        self
    }

    /// Kills a rank at a virtual time unless it has ended by then.
    #[must_use]
    pub fn kill(mut self, rank: u32, at_ns: u64) -> SimWorld {
        self.deaths.push((rank, at_ns));
        self
    }

    /// Sets the number of events after which a world counts as endless.
    #[must_use]
    pub fn most_events(mut self, events: u64) -> SimWorld {
        self.most_events = events;
        self
    }

    /// Sets the algorithm of agreements.
    #[must_use]
    pub fn agreement(mut self, settings: AgreementSettings) -> SimWorld {
        self.agreement = settings;
        self
    }

    /// Runs `script` as all ranks until all have ended.
    ///
    /// # Panics
    /// If a script panics, after its rank is printed.
    pub fn run<R, S>(&self, script: impl Fn(Rank) -> S) -> Result<Outcome<R>, Stuck>
    where
        S: Future<Output = Result<R>>,
    {
        let network = Network::new(self.ranks, self.seed, self.link_faults.clone());
        for (rank, at_ns) in &self.deaths {
            network.borrow_mut().kill_after(*rank, *at_ns);
        }
        let tasks = (0..self.ranks).map(|at| {
            let rank = Rank::new(at, self.ranks, network.clone(), self.seed, self.agreement);
            SimTask::Running { script: Box::pin(script(rank.clone())), rank }
        });
        let mut running = SimRun {
            tasks: tasks.collect(),
            ready: (0..self.ranks).collect(),
            is_ready: vec![true; self.ranks as usize],
            left: self.ranks,
            seed: self.seed,
            network,
            random: Random::new(!self.seed),
        };
        running.until_all_end(self)
    }
}

enum SimTask<R, S> {
    Running {
        script: Pin<Box<S>>,
        rank: Rank,
    },
    /// The script has returned, but some of its messages have not left.
    Finalizing {
        result: R,
        rank: Rank,
    },
    Ended(RankEnd<R>),
}

struct SimRun<R, S> {
    tasks: Vec<SimTask<R, S>>,
    /// The ranks that may be polled; each is there once.
    ready: Vec<u32>,
    is_ready: Vec<bool>,
    left: u32,
    seed: u64,
    network: Rc<RefCell<Network>>,
    random: Random,
}

impl<R, S: Future<Output = Result<R>>> SimRun<R, S> {
    fn until_all_end(&mut self, world: &SimWorld) -> Result<Outcome<R>, Stuck> {
        let mut events = 0;
        while self.left > 0 {
            if self.ready.is_empty() || self.random.of_256(SLOWNESS) {
                let event = self.network.borrow_mut().advance();
                events += 1;
                match event {
                    Some(Some(at)) => self.something_came(at),
                    Some(None) => {}
                    None if self.ready.is_empty() => return Err(self.stuck(world, false)),
                    None => {}
                }
                if events > world.most_events {
                    return Err(self.stuck(world, true));
                }
            } else {
                let pick = self.random.below(self.ready.len() as u64) as usize;
                let at = self.ready.swap_remove(pick);
                self.is_ready[at as usize] = false;
                self.poll(at);
            }
        }
        let network = self.network.borrow();
        let ends = std::mem::take(&mut self.tasks).into_iter().map(|task| match task {
            SimTask::Ended(end) => end,
            SimTask::Running { .. } | SimTask::Finalizing { .. } => unreachable!("all have ended"),
        });
        Ok(Outcome {
            ends: ends.collect(),
            virtual_ns: network.now_ns(),
            frames: network.frames(),
            events,
            trace: network.trace() ^ self.random.draw(),
        })
    }

    fn something_came(&mut self, at: u32) {
        if self.network.borrow().is_dead(at) {
            self.end(at, RankEnd::Dead);
        } else {
            self.make_ready(at);
        }
    }

    fn make_ready(&mut self, at: u32) {
        if !std::mem::replace(&mut self.is_ready[at as usize], true) {
            self.ready.push(at);
        }
    }

    fn end(&mut self, at: u32, end: RankEnd<R>) {
        let task = &mut self.tasks[at as usize];
        if !matches!(task, SimTask::Ended(_)) {
            *task = SimTask::Ended(end);
            self.left -= 1;
        }
    }

    fn poll(&mut self, at: u32) {
        let task = &mut self.tasks[at as usize];
        if let SimTask::Running { script, rank } = task {
            let naming = Naming { rank: at, seed: self.seed };
            let polled = script.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            std::mem::forget(naming);
            match polled {
                Poll::Pending => {}
                Poll::Ready(Ok(result)) => {
                    rank.process().domain.lock().leave_agreements();
                    *task = SimTask::Finalizing { result, rank: rank.clone() };
                }
                Poll::Ready(Err(error)) => {
                    self.network.borrow_mut().kill(at);
                    return self.end(at, RankEnd::Failed(error));
                }
            }
        }
        let rank = match task {
            SimTask::Running { rank, .. } | SimTask::Finalizing { rank, .. } => rank.clone(),
            SimTask::Ended(_) => return,
        };
        if matches!(task, SimTask::Finalizing { .. }) && rank.is_drained() {
            self.network.borrow_mut().leave(at);
            let ended = std::mem::replace(task, SimTask::Ended(RankEnd::Dead));
            if let SimTask::Finalizing { result, .. } = ended {
                *task = SimTask::Ended(RankEnd::Finished(result));
                self.left -= 1;
            }
            return;
        }
        if !rank.is_computing() && rank.rest() == Rest::Not {
            self.make_ready(at);
        }
    }

    fn stuck(&self, world: &SimWorld, busy: bool) -> Stuck {
        let waiting = self.tasks.iter().zip(0..).filter_map(|(task, at)| match task {
            SimTask::Running { rank, .. } => Some((at, rank.doing())),
            SimTask::Finalizing { .. } => Some((at, Doing::Finalizing)),
            SimTask::Ended(_) => None,
        });
        Stuck {
            ranks: world.ranks,
            seed: world.seed,
            virtual_ns: self.network.borrow().now_ns(),
            busy,
            waiting: waiting.collect(),
        }
    }
}

struct Naming {
    rank: u32,
    seed: u64,
}

impl Drop for Naming {
    fn drop(&mut self) {
        eprintln!("rank {} of the virtual world with seed {} panicked", self.rank, self.seed);
    }
}
