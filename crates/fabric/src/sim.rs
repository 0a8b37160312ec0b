//! A virtual network with a virtual clock: thousands of processes in one thread, and a seed that replays a failure.
//!
//! All processes of a world share one [`Network`]. A frame that is sent becomes an event at a later virtual time.
//! Several paths lead to each peer: within one path frames keep their order, between paths they overtake each other.
//! The network refuses messages now and then (the ring is full), takes some without being done with them, and can kill a
//! process at a given time, after which the others are told.
//!
//! The driver polls processes in any order it likes and calls [`Network::advance`] when none can go on. All
//! randomness comes from the seed.

use crate::{Fabric, Message, Sent, Sink, Unreachable, dispatch};
use oxmpi_os::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Frame, MAX_FRAME_LEN};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::rc::Rc;

/// A small generator of random numbers (SplitMix64): the same numbers for the same seed, everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.draw() % n }
    }
}

/// What the virtual network is like.
#[derive(Debug, Clone)]
pub struct Weather {
    /// Paths between two processes.
    pub paths: u32,
    /// Shortest time a frame is under way, virtual nanoseconds.
    pub min_delay_ns: u64,
    /// Longest.
    pub max_delay_ns: u64,
    /// Of 256 messages, how many find no room.
    pub full_of_256: u8,
    /// Of 256 messages, how many are taken but gone only later.
    pub later_of_256: u8,
    /// Longest eager body, bytes.
    pub eager_limit: usize,
    /// How long after a death the others hear of it, nanoseconds at most.
    pub detection_ns: u64,
}

impl Default for Weather {
    fn default() -> Self {
        Weather {
            paths: 3,
            min_delay_ns: 100,
            max_delay_ns: 20_000,
            full_of_256: 16,
            later_of_256: 32,
            eager_limit: 256,
            detection_ns: 50_000,
        }
    }
}

#[derive(Debug)]
enum Event {
    Arrive { to: u32, from: u32, frame: Vec<u8>, body: Vec<u8>, matches: bool },
    Gone { at: u32, token: u64 },
    Death { process: u32 },
    Lost { at: u32, process: u32 },
    Wake { at: u32 },
}

#[derive(Debug, Default)]
struct Port {
    came: VecDeque<Event>,
    dead: bool,
}

/// Most frames that match under way between two processes (fabric promise 1).
const UNDER_WAY: u32 = 100;

/// The virtual network of one world.
#[derive(Debug)]
pub struct Network {
    weather: Weather,
    random: Random,
    now_ns: u64,
    events: BinaryHeap<Reverse<(u64, u64)>>,
    bodies: HashMap<u64, Event>,
    next_event: u64,
    ports: Vec<Port>,
    /// When the last frame of a path arrives: none overtakes it there.
    last_on_path: HashMap<(u32, u32, u32), u64>,
    under_way: HashMap<(u32, u32), u32>,
    frames: u64,
}

impl Network {
    /// A network of `processes` processes.
    pub fn new(processes: u32, seed: u64, weather: Weather) -> Rc<RefCell<Network>> {
        Rc::new(RefCell::new(Network {
            weather,
            random: Random::new(seed),
            now_ns: 0,
            events: BinaryHeap::new(),
            bodies: HashMap::new(),
            next_event: 0,
            ports: (0..processes).map(|_| Port::default()).collect(),
            last_on_path: HashMap::new(),
            under_way: HashMap::new(),
            frames: 0,
        }))
    }

    /// The virtual time, nanoseconds since the world began.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }

    /// Frames that have been sent.
    pub fn frames(&self) -> u64 {
        self.frames
    }

    /// A random number below `n`, from the world's seed.
    pub fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    /// Kills a process `after_ns` from now. What it has sent still arrives; what was sent to it is lost.
    pub fn kill_after(&mut self, process: u32, after_ns: u64) {
        self.at(self.now_ns + after_ns, Event::Death { process });
    }

    /// Whether a process is dead.
    pub fn is_dead(&self, process: u32) -> bool {
        self.ports.get(process as usize).is_some_and(|p| p.dead)
    }

    /// Lets the virtual time go on to the next event. Returns the process for which something came, if it was for
    /// one, and `None` at the outside if nothing will ever happen any more.
    pub fn advance(&mut self) -> Option<Option<u32>> {
        let Reverse((time, number)) = self.events.pop()?;
        self.now_ns = time;
        let event = self.bodies.remove(&number)?;
        let at = match &event {
            Event::Arrive { to, from, matches, .. } => {
                if *matches && let Some(n) = self.under_way.get_mut(&(*from, *to)) {
                    *n -= 1;
                }
                *to
            }
            Event::Gone { at, .. } | Event::Lost { at, .. } | Event::Wake { at } => *at,
            Event::Death { process } => {
                let process = *process;
                self.die(process);
                return Some(Some(process));
            }
        };
        let port = &mut self.ports[at as usize];
        if port.dead {
            return Some(None);
        }
        port.came.push_back(event);
        Some(Some(at))
    }

    fn die(&mut self, process: u32) {
        let port = &mut self.ports[process as usize];
        if std::mem::replace(&mut port.dead, true) {
            return;
        }
        port.came.clear();
        // Others hear of it after everything it had sent has arrived.
        let quiet = self.last_on_path.iter().filter(|(k, _)| k.0 == process).map(|(_, t)| *t).max();
        let quiet = quiet.unwrap_or(0).max(self.now_ns);
        for at in (0..self.ports.len() as u32).filter(|at| *at != process) {
            let when = quiet + 1 + self.random.below(self.weather.detection_ns);
            self.at(when, Event::Lost { at, process });
        }
    }

    fn at(&mut self, time: u64, event: Event) {
        let number = self.next_event;
        self.next_event += 1;
        self.events.push(Reverse((time, number)));
        self.bodies.insert(number, event);
    }

    fn send(&mut self, from: u32, to: u32, message: &Message<'_>) -> Sent {
        let matches = message.frame.matches();
        let under_way = self.under_way.entry((from, to)).or_default();
        let full = (matches && *under_way >= UNDER_WAY)
            || self.random.below(256) < u64::from(self.weather.full_of_256);
        if full {
            // The sender will try again; make sure that something happens until then.
            let soon = self.now_ns + 1 + self.random.below(self.weather.max_delay_ns);
            self.at(soon, Event::Wake { at: from });
            return Sent::Full;
        }
        if matches {
            *under_way += 1;
        }
        self.frames += 1;
        let mut frame = [0; MAX_FRAME_LEN];
        let len = message.frame.encode(message.sequence, from, &mut frame);
        let mut body = vec![0; message.body.len()];
        message.body.fill(0, BytesMut::from(&mut body[..]));

        let path = self.random.below(u64::from(self.weather.paths)) as u32;
        let spread = self.weather.max_delay_ns - self.weather.min_delay_ns;
        let mut when = self.now_ns + self.weather.min_delay_ns + self.random.below(spread + 1);
        let last = self.last_on_path.entry((from, to, path)).or_default();
        when = when.max(*last + 1);
        *last = when;
        self.at(when, Event::Arrive { to, from, frame: frame[..len].to_vec(), body, matches });
        if self.random.below(256) < u64::from(self.weather.later_of_256) {
            self.at(when, Event::Gone { at: from, token: message.token });
            return Sent::Later;
        }
        Sent::Done
    }
}

/// One process's access to the virtual network.
#[derive(Debug)]
pub struct Sim {
    me: u32,
    network: Rc<RefCell<Network>>,
}

impl Sim {
    /// The access of process `me`.
    pub fn new(me: u32, network: Rc<RefCell<Network>>) -> Sim {
        Sim { me, network }
    }
}

impl Fabric for Sim {
    fn eager_limit(&self, _to: u32) -> usize {
        self.network.borrow().weather.eager_limit
    }

    fn piece_limit(&self, to: u32) -> usize {
        self.eager_limit(to).max(1)
    }

    fn send(&mut self, to: u32, message: &Message<'_>) -> Result<Sent, Unreachable> {
        let mut network = self.network.borrow_mut();
        if network.ports.len() <= to as usize {
            return Err(Unreachable { peer: to, why: "there is no such process in the world".into() });
        }
        Ok(network.send(self.me, to, message))
    }

    fn poll<S: Sink>(&mut self, sink: &mut S) -> bool {
        let came = std::mem::take(&mut self.network.borrow_mut().ports[self.me as usize].came);
        let any = !came.is_empty();
        for event in came {
            match event {
                Event::Arrive { from, frame, body, .. } => {
                    let Ok(got) = Frame::decode(&frame) else { continue };
                    // A long body comes up in parts, as it does from a ring.
                    let first = if body.len() > 64 { body.len() / 3 } else { body.len() };
                    dispatch(from, &got, body.len(), Bytes::from(&body[..first]), sink);
                    if first < body.len() {
                        let second = first + (body.len() - first) / 2;
                        sink.more(from, first, Bytes::from(&body[first..second]));
                        sink.more(from, second, Bytes::from(&body[second..]));
                    }
                }
                Event::Gone { token, .. } => sink.sent(token),
                Event::Lost { process, .. } => sink.lost(process),
                Event::Death { .. } | Event::Wake { .. } => {}
            }
        }
        any
    }
}
