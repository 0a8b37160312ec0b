//! The deterministic world: ranks as async functions over a virtual network and clock.
//!
//! A [`World`] runs one script as many ranks in one thread. A script is an async function of its [`Rank`]; where it
//! waits, the world polls another rank, picked by the seed, and when none can go on it lets the virtual time go on to the
//! next event of the network. So everything that happens follows from the seed: a failure is repeated by its number.
//!
//! ```
//! use oxmpi_core::sim::{End, World};
//! use oxmpi_engine::Mode;
//!
//! let outcome = World::new(2, 42)
//!     .run(async |rank| {
//!         let comm = rank.world();
//!         if rank.rank() == 0 {
//!             rank.send(&comm, Mode::Standard, b"hello", 1, 7).await?;
//!             return Ok(Vec::new());
//!         }
//!         rank.recv(&comm, 5, 0, 7).await.map(|(data, _)| data)
//!     })
//!     .unwrap();
//! assert_eq!(outcome.ends[1], End::Finished(b"hello".to_vec()));
//! ```
//!
//! The rules of the world:
//!
//! - A rank that is polled and cannot go on sleeps until something comes for it, as a process does at its door. A
//!   rank that could go on and was left asleep shows as a deadlock.
//! - A script that returns an error has hit an error that is fatal (MPI_ERRORS_ARE_FATAL): the rank dies and the others are told.
//!   So after one death everybody ends, finished or failed.
//! - A script that returns a result has finalized: its rank stays until everything it has sent is gone, then leaves.
//! - A rank in [`Rank::compute`] does not look at its messages.

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

/// A world that can be run.
#[derive(Debug, Clone)]
pub struct World {
    ranks: u32,
    seed: u64,
    weather: LinkFaults,
    deaths: Vec<(u32, u64)>,
    most_events: u64,
    agreement: AgreementSettings,
}

/// How a rank ended.
#[derive(Debug, PartialEq, Eq)]
pub enum End<R> {
    /// Its script returned this, and everything it had sent was gone.
    Finished(R),
    /// An MPI call failed.
    Failed(MpiError),
    /// It was killed.
    Dead,
}

/// What became of a world.
#[derive(Debug)]
pub struct Outcome<R> {
    /// How each rank ended.
    pub ends: Vec<End<R>>,
    /// The virtual time when the last one had, nanoseconds.
    pub virtual_ns: u64,
    /// Frames sent.
    pub frames: u64,
    /// Events that happened.
    pub events: u64,
    /// A number that differs between two worlds in which anything differs.
    pub trace: u64,
}

/// A world that does not end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stuck {
    /// How many ranks it has.
    pub ranks: u32,
    /// Its seed.
    pub seed: u64,
    /// The virtual time, nanoseconds.
    pub virtual_ns: u64,
    /// Whether there were still events: then it is not a deadlock but an endless exchange.
    pub busy: bool,
    /// The ranks that had not ended, and what they were doing.
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

/// More events than any test needs.
const MOST_EVENTS: u64 = 100_000_000;

/// Of 256 turns, in how many time goes on although a rank could run: some ranks are slow.
const SLOWNESS: u8 = 64;

impl World {
    /// A world of so many ranks with this seed, in the default weather, in which nobody dies.
    pub fn new(ranks: u32, seed: u64) -> World {
        World {
            ranks,
            seed,
            weather: LinkFaults::default(),
            deaths: Vec::new(),
            most_events: MOST_EVENTS,
            agreement: AgreementSettings::default(),
        }
    }

    /// Sets what the network is like.
    #[must_use]
    pub fn weather(mut self, weather: LinkFaults) -> World {
        self.weather = weather;
        self
    }

    /// Kills a rank at a virtual time, nanoseconds, if it has not ended by then.
    #[must_use]
    pub fn kill(mut self, rank: u32, at_ns: u64) -> World {
        self.deaths.push((rank, at_ns));
        self
    }

    /// Sets after how many events a world is given up as endless.
    #[must_use]
    pub fn most_events(mut self, events: u64) -> World {
        self.most_events = events;
        self
    }

    /// Sets how ranks agree.
    #[must_use]
    pub fn agreement(mut self, settings: AgreementSettings) -> World {
        self.agreement = settings;
        self
    }

    /// Runs `script` as all ranks until all have ended.
    ///
    /// # Errors
    /// If that never happens: it says who waits for what.
    ///
    /// # Panics
    /// If a script panics; its rank is printed before.
    pub fn run<R, S>(&self, script: impl Fn(Rank) -> S) -> Result<Outcome<R>, Stuck>
    where
        S: Future<Output = Result<R>>,
    {
        let network = Network::new(self.ranks, self.seed, self.weather.clone());
        for (rank, at_ns) in &self.deaths {
            network.borrow_mut().kill_after(*rank, *at_ns);
        }
        let tasks = (0..self.ranks).map(|at| {
            let rank = Rank::new(at, self.ranks, network.clone(), self.seed, self.agreement);
            Task::Running { script: Box::pin(script(rank.clone())), rank }
        });
        let mut running = Running {
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

/// One rank.
enum Task<R, S> {
    Running {
        script: Pin<Box<S>>,
        rank: Rank,
    },
    /// The script is over; what it has sent is not.
    Finalizing {
        result: R,
        rank: Rank,
    },
    Ended(End<R>),
}

/// A world in execution.
struct Running<R, S> {
    tasks: Vec<Task<R, S>>,
    /// The ranks that may be polled, each once.
    ready: Vec<u32>,
    is_ready: Vec<bool>,
    /// How many have not ended.
    left: u32,
    seed: u64,
    network: Rc<RefCell<Network>>,
    random: Random,
}

impl<R, S: Future<Output = Result<R>>> Running<R, S> {
    fn until_all_end(&mut self, world: &World) -> Result<Outcome<R>, Stuck> {
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
            Task::Ended(end) => end,
            Task::Running { .. } | Task::Finalizing { .. } => unreachable!("all have ended"),
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
            self.end(at, End::Dead);
        } else {
            self.make_ready(at);
        }
    }

    fn make_ready(&mut self, at: u32) {
        if !std::mem::replace(&mut self.is_ready[at as usize], true) {
            self.ready.push(at);
        }
    }

    fn end(&mut self, at: u32, end: End<R>) {
        let task = &mut self.tasks[at as usize];
        if !matches!(task, Task::Ended(_)) {
            *task = Task::Ended(end);
            self.left -= 1;
        }
    }

    /// Lets a rank go on until it waits.
    fn poll(&mut self, at: u32) {
        let task = &mut self.tasks[at as usize];
        if let Task::Running { script, rank } = task {
            let naming = Naming { rank: at, seed: self.seed };
            let polled = script.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            std::mem::forget(naming);
            match polled {
                Poll::Pending => {}
                Poll::Ready(Ok(result)) => {
                    rank.process().domain.lock().leave_agreements();
                    *task = Task::Finalizing { result, rank: rank.clone() };
                }
                Poll::Ready(Err(error)) => {
                    self.network.borrow_mut().kill(at);
                    return self.end(at, End::Failed(error));
                }
            }
        }
        let rank = match task {
            Task::Running { rank, .. } | Task::Finalizing { rank, .. } => rank.clone(),
            Task::Ended(_) => return,
        };
        if matches!(task, Task::Finalizing { .. }) && rank.is_drained() {
            self.network.borrow_mut().leave(at);
            let ended = std::mem::replace(task, Task::Ended(End::Dead));
            if let Task::Finalizing { result, .. } = ended {
                *task = Task::Ended(End::Finished(result));
                self.left -= 1;
            }
            return;
        }
        if !rank.is_computing() && rank.rest() == Rest::Not {
            self.make_ready(at);
        }
    }

    fn stuck(&self, world: &World, busy: bool) -> Stuck {
        let waiting = self.tasks.iter().zip(0..).filter_map(|(task, at)| match task {
            Task::Running { rank, .. } => Some((at, rank.doing())),
            Task::Finalizing { .. } => Some((at, Doing::Finalizing)),
            Task::Ended(_) => None,
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

/// Says which rank panicked.
struct Naming {
    rank: u32,
    seed: u64,
}

impl Drop for Naming {
    fn drop(&mut self) {
        eprintln!("rank {} of the virtual world with seed {} panicked", self.rank, self.seed);
    }
}
