//! How a transport is made in a process: what its folder gives for that, and what it gets.
//!
//! Each [`Module`] has a [`Constructor`]. The process is assembled from what the constructor of its
//! module returns ([`Offer`]), and that of the module which carries messages between nodes if the other one does not.

use crate::Transport;
use crate::neighbours::Neighbours;
use crate::routes::Reach;
use crate::whereabouts::Whereabouts;
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
    /// Makes what a process has of it. `None`: this process needs nothing of it, its messages go through shared memory. The error
    /// is for a person.
    pub open: OpenOffer,
    /// What the launcher decides for all processes of a job, that is on one host or on several, before it starts any. The error is for a
    /// person; there is no job then.
    pub decide: Decide,
    /// What this machine offers it ('oxmpi info --NAME', 'oxmpi doctor'), for a transport that depends on more than the kernel.
    pub survey: Option<TakeSurvey>,
    /// Why a job on several hosts for which no transport is named goes over it. `None`: it does not.
    pub suits_hosts: fn(&Params) -> Option<String>,
    /// How a process waits whose messages go by it, from how any process with these parameters waits.
    pub wait: fn(&Params, Policy, local_size: u32) -> Policy,
}

/// See [`Constructor::open`].
pub type OpenOffer = fn(&Situation<'_>, &Arc<dyn Services>) -> Result<Option<Offer>, String>;

/// See [`Constructor::decide`].
pub type Decide = fn(&Params, is_one_host: bool) -> Result<Decided, String>;

/// What is the same for all processes of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Decided {
    /// Parameters, and the values that they get.
    pub params: Vec<(&'static str, String)>,
    /// Variables of the environment, for those who have not set them.
    pub variables: Vec<(&'static str, &'static str)>,
    /// Sentences for the user: what of the parameters cannot be had, though the job runs.
    pub remarks: Vec<String>,
}

/// See [`Constructor::survey`]. The error is for a person.
pub type TakeSurvey = fn(&Params) -> Result<Survey, String>;

/// What a transport has found on a machine, as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// What was found, in a few words.
    pub title: String,
    /// What a job on this host would use, and how; or why there is nothing to use.
    pub choice: Result<String, String>,
    /// The names of the columns.
    pub columns: &'static [&'static str],
    /// The rows, a cell for each column.
    pub rows: Vec<Vec<String>>,
}

impl Constructor {
    /// Nothing is decided for the job as a whole.
    pub const DECIDES_NOTHING: Decide = |_, _| Ok(Decided::default());

    /// That of a transport which is opened so, and whose processes wait as any others.
    pub const fn new(open: OpenOffer) -> Constructor {
        Constructor {
            open,
            decide: Constructor::DECIDES_NOTHING,
            survey: None,
            suits_hosts: |_| None,
            wait: |_, policy, _| policy,
        }
    }

    /// That of a module, which has one.
    pub fn of(module: &Module) -> Option<&'static Constructor> {
        module.constructor.downcast_ref()
    }
}

/// Of which process a transport is made.
#[derive(Clone, Debug)]
pub struct Situation<'a> {
    /// The parameters.
    pub params: &'a Params,
    /// The number of the process.
    pub rank: u32,
    /// The numbers of the processes of its job.
    pub job: Range<u32>,
    /// Names the job.
    pub job_id: u64,
    /// On which node the process is, if the job is on several.
    pub node: Option<u32>,
    /// How many processes of the job are on it.
    pub local_size: u32,
    /// The transport only carries messages to other nodes: within one another one does.
    pub is_between: bool,
}

impl Situation<'_> {
    /// The numbers of the processes of the job on this node, itself among them.
    ///
    /// # Errors
    /// The launcher does not say on which nodes processes are.
    pub fn members(&self, services: &dyn Services) -> Result<Vec<u32>, String> {
        let job = self.job.clone();
        let Some(own) = self.node else { return Ok(job.collect()) };
        let nodes = services.nodes(job.start)?;
        Ok(job.zip(nodes).filter(|(_, node)| *node == own).map(|(member, _)| member).collect())
    }
}

/// What the launcher does for a transport, as its [`Supplies`](oxmpi_param::module::Supplies) say, and what a process has for all of them.
/// Errors are for a person.
pub trait Services: Send + Sync {
    /// The poller on which the process sleeps, to which a transport adds its descriptors; `None`: it does not sleep on descriptors.
    fn poller(&self) -> Option<Arc<Poller>>;

    /// Makes contact with the peers of this node: their segments, and what wakes them.
    fn neighbours(&self) -> Neighbours;

    /// On which nodes processes are, from a number on.
    ///
    /// # Errors
    /// The launcher does not answer.
    fn nodes(&self, from: u32) -> Result<Vec<u32>, String>;

    /// The socket at which others connect to this process.
    ///
    /// # Errors
    /// The launcher has none for it.
    fn listener(&self) -> Result<Listening, String>;

    /// Where a process listens.
    ///
    /// # Errors
    /// Nobody knows.
    fn locate(&self, peer: u32) -> Result<Whereabouts, String>;

    /// The secret that this process shares with those of another launcher, whose jobs have this name.
    fn secret_for(&self, job: u64) -> Option<[u8; 32]>;

    /// A socket to the daemon of this node.
    ///
    /// # Errors
    /// The launcher has none for it.
    fn relay(&self) -> Result<OwnedFd, String>;

    /// The segment with postboxes of the job on this node, and the numbers of the semaphore sets of this process, if it has some.
    ///
    /// # Errors
    /// The launcher has none for it, or it cannot be mapped.
    fn postboxes(&self) -> Result<(PostboxArea, Vec<i32>), String>;

    /// Has a person told something.
    fn say(&self, text: &str);
}

/// What listens for a process.
#[derive(Debug)]
pub struct Listening {
    /// The listening socket.
    pub socket: OwnedFd,
    /// How often the process has been started.
    pub incarnation: u64,
    /// The secret of the job.
    pub secret: [u8; 32],
}

/// What a process has of a transport.
#[derive(Debug)]
pub struct Offer {
    /// The transport.
    pub transport: Box<dyn Transport>,
    /// Whose messages it may carry.
    pub reach: Reach,
    /// Whose messages still go through shared memory, where it does not carry them. If its polls cost a system call, memory goes before
    /// it ([`Transport::polls_kernel`]).
    pub memory: Reach,
    /// What the process sleeps on instead of memory, if not on descriptors.
    pub semaphores: Option<OwnSemaphores>,
}

impl Offer {
    /// One whose process sleeps as any other one.
    pub fn new(transport: impl Transport + 'static, reach: Reach, memory: Reach) -> Offer {
        Offer { transport: Box::new(transport), reach, memory, semaphores: None }
    }
}

/// Which connections are to be encrypted by the parameters.
pub fn encryption(params: &Params) -> Encryption {
    match params.mpi_encrypt() {
        Encrypt::Off => Encryption::Never,
        Encrypt::On => Encryption::Always,
        Encrypt::Auto => Encryption::BetweenHosts,
    }
}
