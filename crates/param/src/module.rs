//! Transports as far as their selection and the launcher are concerned: what each says of itself.
//!
//! Each transport is a folder of its own in the crate `oxmpi-fabric`, and contributes one [`Module`] to [`MODULES`]. Nothing else
//! lists them: the words of the parameter `rpi`, the table of parameters, the selection and the launcher ask for the facts that
//! stand here. A program has the modules of the crates that it links.

use crate::choices::Encrypt;
use crate::definition::Param;
use crate::registry::Params;
use crate::select::{Job, ThreadLevel};
use linkme::distributed_slice;
use std::any::Any;
use std::fmt;
use std::sync::LazyLock;

/// What a transport says of itself.
pub struct Module {
    /// The word that the parameter `rpi` has for it.
    pub name: &'static str,
    /// Its place in lists. Of two with the same priority the first is selected.
    pub place: u32,
    /// A sentence on it, part of the help of the parameter `rpi`.
    pub help: &'static str,
    /// Its parameters, in the order in which they are listed.
    pub params: &'static [&'static Param],
    /// The one of them that is its priority. `None`: it is used only where it is asked for by name.
    pub priority: Option<&'static Param>,
    /// Its priority among the transports that are for the network between the hosts of a job, if that is another parameter.
    pub far_priority: Option<&'static Param>,
    /// What Open MPI's parameter `btl` says of it.
    pub btl: Btl,
    /// What Open MPI's parameter `mtl` calls it, if its network matches messages.
    pub mtl: &'static [&'static str],
    /// The lowest thread level at which it runs: a job at a lower one is raised to it.
    pub lowest: ThreadLevel,
    /// The highest thread level at which it runs.
    pub highest: ThreadLevel,
    /// Whether all its messages can be brought to rest and its connections be closed and made again, as a checkpoint needs.
    pub checkpoints: bool,
    /// The switch that has to be on for that, if it costs something.
    pub checkpoint_switch: Option<&'static Param>,
    /// Whether the image of a rank needs that as well, as the connections are of a kind that is in no image.
    pub rests_for_images: bool,
    /// Whether a job on one host that goes over it can be imaged as a whole, and goes on when it is brought back.
    pub images: bool,
    /// What the launcher makes for the processes of a job.
    pub needs: Supplies,
    /// How messages get to other nodes.
    pub between: BetweenNodes,
    /// Whether the processes of a node use shared memory for their collectives, whichever transport carries their messages.
    pub sections: bool,
    /// If it goes over sockets of each process to its peers: the parameters of these.
    pub sockets: Option<SocketParams>,
    /// Whether what crosses its network can be read there, whatever `mpi_encrypt` says.
    pub is_unencrypted: bool,
    /// Why a job cannot use it, if it cannot.
    pub unavailable: fn(&Job) -> Option<String>,
    /// Why this machine has nothing for it as the parameters are, if so.
    pub not_found: fn(&Params) -> Option<String>,
    /// What makes it in a process. Its type is known where transports are: `oxmpi_fabric::Constructor`.
    pub constructor: &'static (dyn Any + Send + Sync),
}

/// What the launcher makes for the processes of a job, beside their segments.
#[derive(Clone, Copy, Debug)]
pub enum Supplies {
    /// Nothing.
    Segments,
    /// For each process a socket that listens, and an alarm that wakes it when it sleeps on descriptors.
    Listeners,
    /// On each node a daemon, and for each process a socket to that of its node, and an alarm.
    Daemons,
    /// On each node a segment with postboxes, of the sizes that these parameters say.
    Postboxes(PostboxParams),
}

/// The parameters that say how large a segment with postboxes is.
#[derive(Clone, Copy, Debug)]
pub struct PostboxParams {
    /// Bytes of data in a postbox.
    pub short: &'static Param,
    /// Bytes of the pool; -1: by the number of ranks.
    pub pool: &'static Param,
    /// The most bytes that a piece of a message takes of the pool; -1: by the size of the pool.
    pub piece: &'static Param,
    /// Whether there are System V semaphores to sleep on.
    pub semaphores: Option<&'static Param>,
}

/// The sizes of a segment with postboxes, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostboxSizes {
    /// Data in a postbox.
    pub short: u64,
    /// The pool.
    pub pool: u64,
    /// The most that a piece of a long message takes of it.
    pub piece: u64,
}

/// What a segment has of the pool by default for each rank, and at most, bytes.
const POOL_OF_RANK: u64 = 1 << 20;
const POOL_MOST: u64 = 64 << 20;
/// The longest piece of a message by default, bytes.
const PIECE_MOST: u64 = 256 << 10;

impl PostboxParams {
    /// The sizes of the segment that `ranks` ranks of a node share.
    pub fn of(&self, params: &Params, ranks: u32) -> PostboxSizes {
        let ranks = u64::from(ranks.max(1));
        let of_all = (ranks * POOL_OF_RANK).min(POOL_MOST);
        let pool = u64::try_from(params.number(self.pool)).unwrap_or(of_all);
        let of_piece = (pool / ranks / 4).clamp(1, PIECE_MOST);
        let piece = u64::try_from(params.number(self.piece)).ok().filter(|piece| *piece > 0);
        PostboxSizes { short: params.count(self.short) as u64, pool, piece: piece.unwrap_or(of_piece) }
    }
}

/// The parameters of sockets between processes.
#[derive(Clone, Copy, Debug)]
pub struct SocketParams {
    /// The longest eager message, bytes.
    pub short: &'static Param,
    /// Bytes that the kernel buffers for a socket; -1: by the longest eager message.
    pub buffers: &'static Param,
}

/// How the messages of a job get to other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BetweenNodes {
    /// By this transport itself, which also carries those of transports that do not leave the node.
    Carries,
    /// By this transport itself.
    Itself,
    /// By a transport that [carries](BetweenNodes::Carries) them.
    Another,
}

/// What Open MPI's parameter `btl`, a list of transports, says of one.
#[derive(Clone, Copy, Debug)]
pub struct Btl {
    /// What stands for it in such a list, or for what it is made of.
    pub names: &'static [&'static str],
    /// When a list that leaves these names leaves it.
    pub left: BtlRule,
}

/// When a list of Open MPI's transports leaves one whose names it leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BtlRule {
    /// Always: the names are its own.
    Always,
    /// If the list says what is left out (`^tcp`), or `rpi` asks for the transport.
    AllBut,
    /// If `rpi` asks for it.
    Asked,
    /// If the list names it, or `rpi` or `mtl` asks for it.
    OrAsked,
}

/// The transports that this program has, in no order: [`Module::all`] has one.
#[distributed_slice]
pub static MODULES: [Module];

impl Module {
    /// What most say, for the others: `Module { name: "mine", ..Module::NEW }`. It carries all messages by itself, needs nothing of the
    /// launcher, and is used where it is asked for.
    pub const NEW: Module = Module {
        name: "",
        place: u32::MAX,
        help: "",
        params: &[],
        priority: None,
        far_priority: None,
        btl: Btl { names: &[], left: BtlRule::AllBut },
        mtl: &[],
        lowest: ThreadLevel::Single,
        highest: ThreadLevel::Multiple,
        checkpoints: false,
        checkpoint_switch: None,
        rests_for_images: false,
        images: true,
        needs: Supplies::Segments,
        between: BetweenNodes::Itself,
        sections: true,
        sockets: None,
        is_unencrypted: false,
        unavailable: |_| None,
        not_found: |_| None,
        constructor: &(),
    };

    /// All of this program, in their order.
    pub fn all() -> &'static [&'static Module] {
        static ALL: LazyLock<Vec<&'static Module>> = LazyLock::new(|| {
            let mut all: Vec<_> = linked().collect();
            all.sort_by_key(|module| (module.place, module.name));
            all
        });
        &ALL
    }

    /// Whether all messages of a job with these parameters can be brought to rest.
    pub fn can_rest(&self, params: &Params) -> bool {
        self.checkpoints && self.checkpoint_switch.is_none_or(|switch| params.is_on(switch))
    }

    /// Whether the processes of a node use shared memory for their collectives in such a job, which is in no image of one of them.
    pub fn shares_sections(&self, params: &Params) -> bool {
        self.sections && !self.can_rest(params)
    }

    /// What of a command line lets the messages of a job be brought to rest that go by this transport and cannot.
    pub fn advice_to_rest(&self) -> String {
        let own = self.checkpoint_switch.map(|switch| format!("'--mca {} 1'", switch.name));
        let always =
            Module::all().iter().filter(|module| module.checkpoints && module.checkpoint_switch.is_none());
        let others = always.map(|module| format!("'--mca rpi {}'", module.name));
        own.into_iter().chain(others).collect::<Vec<_>>().join(" or ")
    }

    /// Why a job with these parameters cannot use it on this machine, if it cannot.
    pub fn refusal(&self, params: &Params, job: &Job) -> Option<String> {
        let unencrypted = (self.is_unencrypted && params.mpi_encrypt() == Encrypt::On).then(|| {
            format!(
                "mpi_encrypt is 1, and what crosses the network of '{}' is not encrypted: use '--mca rpi tcp', over which messages are, \
                 or '--mca mpi_encrypt auto'",
                self.name
            )
        });
        unencrypted.or_else(|| (self.unavailable)(job)).or_else(|| (self.not_found)(params))
    }

    /// That of a name.
    pub fn named(name: &str) -> Option<&'static Module> {
        Module::all().iter().copied().find(|module| module.name == name)
    }

    /// Whose parameter this is, if it is a transport's.
    pub fn of_param(param: &Param) -> Option<&'static Module> {
        let has = |module: &&&Module| module.params.iter().any(|one| one.name == param.name);
        Module::all().iter().find(has).copied()
    }

    /// The first, which is used if parameters make no sense.
    pub fn first() -> &'static Module {
        static NONE: Module = Module { name: "none", ..Module::NEW };
        Module::all().first().copied().unwrap_or(&NONE)
    }

    /// The one that carries messages between nodes for those that do not leave them.
    pub fn between_nodes() -> Option<&'static Module> {
        Module::all().iter().copied().find(|module| module.between == BetweenNodes::Carries)
    }

    /// Whether messages to all peers go over sockets, those of the own host included: to the peer, or to a daemon.
    pub fn is_over_sockets(&self) -> bool {
        matches!(self.needs, Supplies::Listeners | Supplies::Daemons)
    }

    /// Whether it needs a daemon on each node.
    pub fn has_daemons(&self) -> bool {
        matches!(self.needs, Supplies::Daemons)
    }

    /// The parameters of the segment with postboxes that the processes of a job on a node share, if they do.
    pub fn postboxes(&self) -> Option<&PostboxParams> {
        match &self.needs {
            Supplies::Postboxes(params) => Some(params),
            _ => None,
        }
    }

    /// Its priority.
    pub(crate) fn priority(&self, params: &Params) -> u32 {
        // The limits of the row let it fit.
        self.priority.map_or(0, |param| params.number(param) as u32)
    }

    /// Its priority among the transports that are for the network between the hosts of a job.
    pub fn far_priority(&self, params: &Params) -> u32 {
        self.far_priority.or(self.priority).map_or(0, |param| params.number(param) as u32)
    }
}

impl PartialEq for Module {
    fn eq(&self, other: &Module) -> bool {
        self.name == other.name
    }
}

impl Eq for Module {}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Module").field(&self.name).finish()
    }
}

/// What the program has been linked with.
#[cfg(not(test))]
fn linked() -> impl Iterator<Item = &'static Module> {
    MODULES.iter()
}

/// Nothing is linked with the tests of this crate, which know two modules.
#[cfg(test)]
fn linked() -> impl Iterator<Item = &'static Module> {
    static STAND_INS: [Module; 2] = [
        Module { name: "tcp", place: 2, help: "'tcp' is one.", ..Module::NEW },
        Module { name: "shm", place: 1, help: "'shm' is one.", ..Module::NEW },
    ];
    STAND_INS.iter()
}
