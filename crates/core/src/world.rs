//! Several ranks in one program, on threads, over the real shared-memory code or real sockets.
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

mod daemons;

use self::daemons::Daemons;
use crate::Process;
use oxmpi_fabric::Transport;
use oxmpi_fabric::peer_segments::{OpenSegment, PeerSegments};
use oxmpi_fabric::postboxes::{self, Postboxes};
use oxmpi_fabric::routes::{Nodes, Reach, Routes};
use oxmpi_fabric::shm::{Shm, ShmSettings};
use oxmpi_fabric::tcp::{self, Address, Identity, PeerLocation, Secret, Tcp};
use oxmpi_fabric::transports::ofi::{self, TagLayout, TagMode};
use oxmpi_libfabric::{Library, ProviderQuery};
use oxmpi_rt_client::client::{Directory, ThreadDirectory};
use oxmpi_shm::door::{Door, Policy};
use oxmpi_shm::heap::Heap;
use oxmpi_shm::postbox::{PostboxArea, PostboxShape};
use oxmpi_shm::segment::{Boot, Segment, SegmentConfig};
use oxmpi_sys::cpus;
use oxmpi_sys::net::{Listener, fill_random};
use oxmpi_sys::poller::{Poller, new_alarm};
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The configuration of a world.
#[derive(Debug, Clone, Default)]
pub struct WorldOptions {
    pub config: SegmentConfig,
    pub settings: ShmSettings,
    /// With postboxes: the bytes of a postbox, the bytes of the pool, and the settings.
    pub postboxes: Option<(u64, u64, postboxes::PostboxSettings)>,
    pub sockets: Option<Sockets>,
    /// The number of ranks on a node, if only messages between nodes go over sockets.
    pub ranks_of_a_node: Option<u32>,
    /// With libfabric in addition to the sockets: the provider and the tags.
    pub ofi: Option<(String, Option<TagMode>)>,
    /// Whether messages go through daemons, one on each node. Of `sockets` only the settings count.
    pub daemons: bool,
    pub transport: Option<MakeTransport>,
}

/// Makes the transport of a rank.
#[derive(Clone)]
pub struct MakeTransport(Arc<dyn Fn(u32) -> Box<dyn Transport> + Send + Sync>);

impl MakeTransport {
    /// `make` receives the rank.
    pub fn new<T: Transport + 'static>(
        make: impl Fn(u32) -> T + Send + Sync + 'static,
    ) -> MakeTransport {
        MakeTransport(Arc::new(move |rank| Box::new(make(rank))))
    }
}

impl fmt::Debug for MakeTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MakeTransport").finish_non_exhaustive()
    }
}

impl WorldOptions {
    fn of_node(&self, rank: u32, size: u32) -> Vec<u32> {
        (0..size).filter(|other| self.node(*other) == self.node(rank)).collect()
    }

    fn node(&self, rank: u32) -> Option<u32> {
        self.ranks_of_a_node.map(|ranks| rank / ranks.max(1))
    }
}

/// Sockets on the loopback interface.
#[derive(Clone, Default)]
pub struct Sockets {
    pub settings: tcp::TcpSettings,
    /// Replaces each address to which a rank connects.
    pub detour: Option<Detour>,
}

/// A function that replaces an address.
pub type Detour = Arc<dyn Fn(SocketAddr) -> SocketAddr + Send + Sync>;

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sockets")
            .field("settings", &self.settings)
            .field("detour", &self.detour.is_some())
            .finish()
    }
}

struct Plugs {
    listeners: Vec<Mutex<Option<Listener>>>,
    addresses: Vec<SocketAddr>,
    secret: [u8; 32],
    alarms: Vec<OwnedFd>,
    daemons: Option<Daemons>,
    left: Vec<AtomicBool>,
}

impl Plugs {
    fn new(ranks: u32, sockets: &Sockets) -> io::Result<Plugs> {
        let mut plugs = Plugs {
            listeners: Vec::new(),
            addresses: Vec::new(),
            secret: [0; 32],
            alarms: Vec::new(),
            daemons: None,
            left: (0..ranks).map(|_| AtomicBool::new(false)).collect(),
        };
        fill_random(&mut plugs.secret)?;
        for _ in 0..ranks {
            let listener = Listener::bind(Ipv4Addr::LOCALHOST.into(), sockets.settings.buffers)?;
            let address = listener.address()?;
            plugs.addresses.push(sockets.detour.as_ref().map_or(address, |detour| detour(address)));
            plugs.listeners.push(Mutex::new(Some(listener)));
            plugs.alarms.push(new_alarm()?);
        }
        Ok(plugs)
    }

    fn tcp(
        self: &Arc<Plugs>,
        boot: &Boot,
        settings: &tcp::TcpSettings,
        poller: Arc<Poller>,
    ) -> io::Result<Tcp> {
        let own = Identity { job: boot.job_id, rank: boot.rank, size: boot.size, incarnation: 1 };
        let place = self.listeners[boot.rank as usize].lock();
        let listener = place.unwrap_or_else(PoisonError::into_inner).take();
        let listener = listener.ok_or_else(|| io::Error::other("the listener is taken already"))?;
        let plugs = self.clone();
        let find: tcp::Find = Box::new(move |peer| {
            if plugs.left.get(peer as usize).is_some_and(|left| left.load(Ordering::Acquire)) {
                return Ok(PeerLocation::Left);
            }
            let socket = plugs.addresses.get(peer as usize).copied();
            let socket =
                socket.ok_or_else(|| format!("the world has {} ranks", plugs.addresses.len()))?;
            Ok(PeerLocation::At(vec![Address { socket, interface: "lo".into(), host: None }]))
        });
        let tell: tcp::Tell = Box::new(|text| eprintln!("{text}"));
        let tcp =
            Tcp::new(own, Secret(self.secret), settings.clone(), (listener, poller), find, tell)?;
        Ok(tcp.for_one_thread())
    }
}

/// Runs `program` as `ranks` ranks, one thread each. Returns the results by rank.
///
/// # Panics
/// If there is no memory for a segment, or no socket. A rank that panics ends the program, since
/// the other ranks would wait for it.
pub fn world<R: Send>(ranks: u32, program: impl Fn(&Process<Routes>) -> R + Sync) -> Vec<R> {
    world_with(ranks, WorldOptions::default(), program)
}

/// [`world`] with options.
pub fn world_with<R: Send>(
    ranks: u32,
    options: WorldOptions,
    program: impl Fn(&Process<Routes>) -> R + Sync,
) -> Vec<R> {
    world_shared(ranks, options, |process| program(process))
}

/// [`world_with`] for programs that keep their rank in other values.
pub fn world_shared<R: Send>(
    ranks: u32,
    options: WorldOptions,
    program: impl Fn(&Arc<Process<Routes>>) -> R + Sync,
) -> Vec<R> {
    static JOBS: AtomicU64 = AtomicU64::new(1);
    let job_id = (u64::from(std::process::id()) << 32) | JOBS.fetch_add(1, Ordering::Relaxed);
    let oversubscribed = ranks as usize > cpus::usable();
    let segments: Vec<OwnedFd> = (0..ranks)
        .map(|rank| {
            Segment::create(&Boot {
                oversubscribed,
                asymmetric: !oversubscribed && options.sockets.is_none(),
                sockets: options.sockets.is_some(),
                node: options.node(rank),
                config: options.config,
                ..Boot::on_one_node(job_id, rank, ranks)
            })
            .unwrap_or_else(|e| panic!("no segment for rank {rank}: {e}"))
        })
        .collect();
    let directory = Arc::new(ThreadDirectory::new(segments));
    let plugs = options.sockets.as_ref().map(|sockets| {
        let made = Plugs::new(ranks, sockets).and_then(|mut plugs| {
            let node = |rank| options.node(rank).unwrap_or(0);
            let keys = (plugs.secret, sockets.settings.encrypt);
            plugs.daemons = options.daemons.then(|| Daemons::new(ranks, node, keys)).transpose()?;
            Ok(plugs)
        });
        Arc::new(made.unwrap_or_else(|e| panic!("no sockets for the ranks: {e}")))
    });
    let areas: Vec<_> = (0..ranks).map(|rank| shared_area(rank, ranks, &options)).collect();
    let (options, program, areas) = (&options, &program, &areas[..]);
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..ranks)
            .map(|rank| {
                let (directory, plugs) = (directory.clone(), plugs.clone());
                scope.spawn(move || {
                    let done = catch_unwind(AssertUnwindSafe(|| {
                        let things = (directory, plugs.clone(), areas);
                        let process = Arc::new(process(rank, ranks, things, options));
                        let result = program(&process);
                        process.drain();
                        if let Some(plugs) = plugs {
                            plugs.left[rank as usize].store(true, Ordering::Release);
                        }
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

fn over_provider(
    rank: u32,
    name: &str,
    mode: Option<TagMode>,
    frames: Box<dyn Transport>,
    poller: &Poller,
) -> Box<dyn Transport> {
    let library = Library::open("libfabric.so.1").unwrap_or_else(|e| panic!("{e}"));
    let wish =
        |directed| ProviderQuery { name: Some(name.into()), directed, ..ProviderQuery::default() };
    let mut all = [true, false]
        .into_iter()
        .flat_map(|directed| library.providers(&wish(directed)).unwrap_or_default());
    let provider = all.next().unwrap_or_else(|| panic!("there is no provider {name}"));
    let layout =
        TagLayout::choose(mode, provider.tag_bits, provider.data_bytes, provider.is_directed)
            .unwrap_or_else(|e| panic!("{provider:?}: {e}"));
    let settings =
        ofi::OfiSettings { events: ofi::EVENTS, layout, grouped: false, matches_itself: false };
    let tell: tcp::Tell = Box::new(|text| eprintln!("{text}"));
    let ofi = ofi::open(rank, &provider, frames, settings, (poller, tell), None);
    ofi.unwrap_or_else(|e| panic!("rank {rank}: {e}"))
}

fn shared_area(rank: u32, size: u32, options: &WorldOptions) -> Option<PostboxArea> {
    let (short, pool, _) = options.postboxes?;
    let members = options.of_node(rank, size);
    let shape = PostboxShape { ranks: members.len() as u32, short, pool };
    (members.first() == Some(&rank)).then(|| PostboxArea::on_heap(shape))
}

type Shared<'w> = (Arc<ThreadDirectory>, Option<Arc<Plugs>>, &'w [Option<PostboxArea>]);

fn process(
    rank: u32,
    size: u32,
    (directory, plugs, areas): Shared<'_>,
    options: &WorldOptions,
) -> Process<Routes> {
    let (fd, _) = directory.open_peer(rank).unwrap_or_else(|e| panic!("rank {rank}: {e}"));
    let own = Segment::map(&fd).unwrap_or_else(|e| panic!("rank {rank}: {e}"));
    // All ranks are this process, and each rank claims its segment for this process.
    own.status()
        .claim(std::process::id())
        .unwrap_or_else(|pid| panic!("rank {rank} is process {pid} already"));
    own.advertise();
    let mut door = Door::new(own.clone(), Policy::new(own.boot().oversubscribed));
    let (kind, alarms) = (door.kind(), plugs.clone());
    let mut far = None;
    if let (Some(plugs), Some(sockets)) = (plugs, &options.sockets) {
        let alarm = plugs.alarms[rank as usize].try_clone().and_then(Poller::with_alarm);
        let poller = Arc::new(alarm.unwrap_or_else(|e| panic!("rank {rank}: {e}")));
        let transport: io::Result<Box<dyn Transport>> = match &plugs.daemons {
            Some(daemons) => daemons.lamd(rank, poller.clone()).map(|lamd| Box::new(lamd) as _),
            None => plugs
                .tcp(own.boot(), &sockets.settings, poller.clone())
                .map(|tcp| Box::new(tcp) as _),
        };
        let transport = transport.map(|frames| match &options.ofi {
            None => frames,
            Some((provider, mode)) => over_provider(rank, provider, *mode, frames, &poller),
        });
        door = door.with_descriptors(poller);
        far = Some(transport.unwrap_or_else(|e| panic!("rank {rank}: {e}")));
    }
    let shares_memory = far.is_none();
    let peer_segments = || {
        let (directory, alarms) = (directory.clone(), alarms.clone());
        let open: OpenSegment = Box::new(move |peer| crate::start::opened(&*directory, peer));
        let peer_segments = PeerSegments::new(own.clone(), kind, open);
        match alarms {
            Some(plugs) => peer_segments.with_alarms(Arc::new(move |peer| {
                plugs.alarms.get(peer as usize)?.try_clone().ok()
            })),
            None => peer_segments,
        }
    };
    let mut routes = Routes::new(Shm::new(peer_segments(), options.settings.clone()));
    if let Some((_, _, settings)) = options.postboxes {
        let members = options.of_node(rank, size);
        let area = members.first().and_then(|first| areas[*first as usize].clone());
        let found = area.ok_or_else(|| "no shared segment".to_string());
        let found =
            found.and_then(|area| Postboxes::new(rank, members, (area, peer_segments()), settings));
        routes = routes
            .with(Box::new(found.unwrap_or_else(|e| panic!("rank {rank}: {e}"))), Reach::Launcher);
    }
    if let Some(MakeTransport(make)) = &options.transport {
        routes = routes.with_memory(Reach::Nobody).with(make(rank), Reach::Everybody);
    }
    if let Some(far) = far {
        let node = options.node(rank).filter(|_| !options.daemons);
        let memory = if node.is_some() { Reach::Node } else { Reach::Nobody };
        routes = routes.with_memory(memory).with(far, Reach::Everybody);
        if let Some(node) = node {
            let nodes: Vec<_> = (0..size).filter_map(|rank| options.node(rank)).collect();
            routes = routes
                .on_nodes(Nodes::new(node, Box::new(move |from| nodes[from as usize..].to_vec())));
        }
    }
    let node = options.node(rank).map_or(0, u64::from);
    let process = Process::new(rank, size, routes, Some(door)).on_node(node);
    if shares_memory {
        process.with_heap(Heap::new(own, Box::new(move || fd.try_clone())))
    } else {
        process
    }
}
