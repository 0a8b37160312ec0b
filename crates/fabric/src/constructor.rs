//! Constructors of transports: the functions that the folder of each transport provides, and the
//! services that they get from the process.
//!
//! Each [`Module`] has a [`Constructor`]. A process gets its transports ([`Offer`]) from the
//! constructor of the selected module. If that module does not carry messages between nodes, the
//! module between nodes adds another transport.

use crate::Transport;
use crate::addresses::PeerLocation;
use crate::peer_segments::PeerSegments;
use crate::routes::{Nodes, Reach};
use crate::transports::Tell;
use oxmpi_param::{Encrypt, Module, Params};
use oxmpi_shm::door::Policy;
use oxmpi_shm::postbox::PostboxArea;
use oxmpi_sys::poller::Poller;
use oxmpi_sys::semaphore::OwnSemaphores;
use oxmpi_wire::noise::Encryption;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Makes a transport in a process ([`Module::constructor`]).
#[derive(Clone, Copy, Debug)]
pub struct Constructor {
    /// `None`: this process does not need the transport, as its messages go through shared memory.
    /// The error is for the user.
    pub open: OpenOffer,
    /// Makes decisions for all processes of a job, before the launcher starts any. `is_one_host`:
    /// all processes run on one host. The launcher prints an error and starts no job.
    pub decide: Decide,
    /// Describes the devices of this machine for a transport that depends on more than the kernel
    /// ('oxmpi info --NAME', 'oxmpi doctor').
    pub survey: Option<TakeSurvey>,
    /// The reason why a job on several hosts uses this transport by default; `None`: it does not.
    pub suits_hosts: fn(&Params) -> Option<String>,
    /// The wait policy of a process with this transport, made from the general policy.
    pub wait: fn(&Params, Policy, local_size: u32) -> Policy,
}

/// The type of [`Constructor::open`].
pub type OpenOffer = fn(&Situation<'_>, &Arc<dyn Services>) -> Result<Option<Offer>, String>;

/// The type of [`Constructor::decide`].
pub type Decide = fn(&Params, is_one_host: bool) -> Result<Decided, String>;

/// The decisions of a transport for all processes of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    pub params: Vec<(&'static str, String)>,
    /// Set only where the user has not set them.
    pub variables: Vec<(&'static str, &'static str)>,
    /// Parameters that cannot take effect although the job runs, in sentences for the user.
    pub remarks: Vec<String>,
}

/// The type of [`Constructor::survey`]. The error is for the user.
pub type TakeSurvey = fn(&Params) -> Result<Survey, String>;

/// The devices that a transport has found on a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    pub title: String,
    /// The device that a job on this host would use, or the reason why it uses none.
    pub choice: Result<String, String>,
    pub columns: &'static [&'static str],
    pub rows: Vec<Vec<String>>,
}

impl Constructor {
    pub const DECIDES_NOTHING: Decide = |_, _| Ok(Decided::default());

    /// A constructor with default decisions, no survey and the general wait policy.
    pub const fn new(open: OpenOffer) -> Constructor {
        Constructor {
            open,
            decide: Constructor::DECIDES_NOTHING,
            survey: None,
            suits_hosts: |_| None,
            wait: |_, policy, _| policy,
        }
    }

    /// The constructor of a module.
    pub fn of(module: &Module) -> Option<&'static Constructor> {
        module.constructor.downcast_ref()
    }
}

/// The process for which a transport is made.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    pub params: &'a Params,
    pub rank: u32,
    pub job: Range<u32>,
    pub job_id: u64,
    /// The node of the process; `None`: the job is on one node.
    pub node: Option<u32>,
    pub local_size: u32,
    /// Whether another transport carries the messages within a node.
    pub is_between: bool,
}

impl Situation<'_> {
    pub(crate) fn nodes(&self, services: &Arc<dyn Services>) -> Nodes {
        let services = services.clone();
        let ask = move |from| services.nodes(from).unwrap_or_default();
        Nodes::new(self.node.unwrap_or(0), Box::new(ask))
    }

    /// The ranks of the job on this node, this process included.
    pub fn members(&self, services: &dyn Services) -> Result<Vec<u32>, String> {
        let job = self.job.clone();
        let Some(own) = self.node else { return Ok(job.collect()) };
        let nodes = services.nodes(job.start)?;
        Ok(job.zip(nodes).filter(|(_, node)| *node == own).map(|(member, _)| member).collect())
    }
}

/// The services for a transport (see [`Supplies`](oxmpi_param::module::Supplies)).
pub trait Services: Send + Sync {
    /// The poller for the descriptors of a transport; `None`: the process never sleeps on
    /// descriptors.
    fn poller(&self) -> Option<Arc<Poller>>;

    fn peer_segments(&self) -> PeerSegments;

    /// The nodes of the processes from rank `from` on.
    fn nodes(&self, from: u32) -> Result<Vec<u32>, String>;

    fn listener(&self) -> Result<Listening, String>;

    fn locate(&self, peer: u32) -> Result<PeerLocation, String>;

    /// The secret shared with the processes of another launcher, whose jobs have the id `job`.
    fn secret_for(&self, job: u64) -> Option<[u8; 32]>;

    fn relay(&self) -> Result<OwnedFd, String>;

    /// The segment with the node's postboxes of the job, and the semaphore sets of this process.
    fn postboxes(&self) -> Result<(PostboxArea, Vec<i32>), String>;

    fn say(&self, text: &str);
}

pub(crate) fn teller(services: &Arc<dyn Services>) -> Tell {
    let services = services.clone();
    Box::new(move |text| services.say(text))
}

/// The listening socket of a process, with the data of its greeting.
#[derive(Debug)]
pub struct Listening {
    pub socket: OwnedFd,
    pub incarnation: u64,
    pub secret: [u8; 32],
}

/// A transport made for a process, and the peers that it reaches.
#[derive(Debug)]
pub struct Offer {
    pub transport: Box<dyn Transport>,
    pub reach: Reach,
    /// The peers whose messages go through shared memory if polls of this transport cost a system
    /// call ([`Transport::polls_kernel`]).
    pub memory: Reach,
    /// The semaphores on which the process sleeps; `None`: it sleeps on memory or on descriptors.
    pub semaphores: Option<OwnSemaphores>,
}

impl Offer {
    /// An offer without semaphores.
    pub fn new(transport: impl Transport + 'static, reach: Reach, memory: Reach) -> Offer {
        Offer { transport: Box::new(transport), reach, memory, semaphores: None }
    }
}

/// The connections that the parameters want encrypted.
pub fn encryption(params: &Params) -> Encryption {
    match params.mpi_encrypt() {
        Encrypt::Off => Encryption::Never,
        Encrypt::On => Encryption::Always,
        Encrypt::Auto => Encryption::BetweenHosts,
    }
}
