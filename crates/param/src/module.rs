//! The properties of a transport that its selection and the launcher need.
//!
//! Each transport has its own folder in the crate `oxmpi-fabric`, and contributes one [`Module`] to
//! [`MODULES`]. No other list exists: the parameter `rpi`, the table of parameters, the selection
//! and the launcher read these modules. A program has the modules of the crates that it links.

use crate::choices::Encrypt;
use crate::definition::Param;
use crate::registry::Params;
use crate::select::{Job, ThreadLevel};
use linkme::distributed_slice;
use std::any::Any;
use std::fmt;
use std::sync::LazyLock;

/// The properties of a transport.
pub struct Module {
    pub name: &'static str,
    /// Its position in lists, which decides between equal priorities.
    pub place: u32,
    pub help: &'static str,
    pub params: &'static [&'static Param],
    /// The parameter with its priority. `None`: it is used only if requested by name.
    pub priority: Option<&'static Param>,
    /// The parameter with its priority among the transports for the network between hosts, if that
    /// is another parameter.
    pub far_priority: Option<&'static Param>,
    pub btl: Btl,
    /// Its names in Open MPI's parameter `mtl`, if its network matches messages.
    pub mtl: &'static [&'static str],
    /// The lowest thread level at which it runs: a job at a lower level is raised to this one.
    pub lowest: ThreadLevel,
    pub highest: ThreadLevel,
    /// Whether its messages can be drained and its connections reopened, for a checkpoint.
    pub checkpoints: bool,
    /// The switch that enables `checkpoints`, if they have a cost.
    pub checkpoint_switch: Option<&'static Param>,
    /// Whether images of ranks need drained messages too, as no image can contain the connections.
    pub rests_for_images: bool,
    /// Whether CRIU can make images of a whole job on one host that uses this transport.
    pub images: bool,
    pub needs: Supplies,
    pub between: BetweenNodes,
    /// Whether the processes of a node use shared memory for collectives with this transport.
    pub sections: bool,
    /// Set if each process has sockets to its peers.
    pub sockets: Option<SocketParams>,
    /// Whether its network carries messages unencrypted, regardless of `mpi_encrypt`.
    pub is_unencrypted: bool,
    /// The reason why a job cannot use it.
    pub unavailable: fn(&Job) -> Option<String>,
    /// The reason why this machine cannot use it with these parameters.
    pub not_found: fn(&Params) -> Option<String>,
    pub constructor: &'static (dyn Any + Send + Sync),
}

/// The resources that the launcher makes for the processes of a job, besides their segments.
#[derive(Clone, Copy, Debug)]
pub enum Supplies {
    Segments,
    /// For each process a listening socket, and an alarm that wakes it from a sleep on descriptors.
    Listeners,
    /// On each node a daemon, and for each process a socket to this daemon, and an alarm.
    Daemons,
    Postboxes(PostboxParams),
}

/// The parameters for the size of a segment with postboxes.
#[derive(Clone, Copy, Debug)]
pub struct PostboxParams {
    /// Data bytes of a postbox.
    pub short: &'static Param,
    /// Bytes of the pool; -1: by the number of ranks.
    pub pool: &'static Param,
    /// The most bytes of a message's piece in the pool; -1: by the size of the pool.
    pub piece: &'static Param,
    /// The switch for System V semaphores to sleep on.
    pub semaphores: Option<&'static Param>,
}

/// The sizes of a segment with postboxes, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PostboxSizes {
    pub short: u64,
    pub pool: u64,
    pub piece: u64,
}

/// The default size of the pool for each rank, and its limit, in bytes.
const POOL_OF_RANK: u64 = 1 << 20;
const POOL_MOST: u64 = 64 << 20;
/// The longest piece of a message by default, in bytes.
const PIECE_MOST: u64 = 256 << 10;

impl PostboxParams {
    /// The sizes of the segment that `ranks` ranks of a node share.
    pub fn of(&self, params: &Params, ranks: u32) -> PostboxSizes {
        let ranks = u64::from(ranks.max(1));
        let of_all = (ranks * POOL_OF_RANK).min(POOL_MOST);
        let pool = u64::try_from(params.number(self.pool)).unwrap_or(of_all);
        let of_piece = (pool / ranks / 4).clamp(1, PIECE_MOST);
        let piece = u64::try_from(params.number(self.piece)).ok().filter(|piece| *piece > 0);
        PostboxSizes {
            short: params.count(self.short) as u64,
            pool,
            piece: piece.unwrap_or(of_piece),
        }
    }
}

/// The parameters of sockets between processes.
#[derive(Clone, Copy, Debug)]
pub struct SocketParams {
    pub short: &'static Param,
    /// The kernel's buffer of a socket in bytes; -1: by the eager limit.
    pub buffers: &'static Param,
}

/// The transport of messages to other nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BetweenNodes {
    /// This transport; it also serves transports that do not leave the node.
    Carries,
    Itself,
    /// A transport that [carries](BetweenNodes::Carries) messages between nodes.
    Another,
}

/// The relation of a transport to Open MPI's parameter `btl`, a list of transports.
#[derive(Clone, Copy, Debug)]
pub struct Btl {
    /// The names in such a list for the transport, or for the transports that it consists of.
    pub names: &'static [&'static str],
    pub left: BtlRule,
}

/// The condition on which a list in `btl` with the names of a transport selects the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BtlRule {
    /// Always: the names mean only this transport.
    Always,
    /// If the list is one of exclusions (`^tcp`), or `rpi` requests the transport.
    AllBut,
    /// If `rpi` requests the transport.
    Requested,
    /// If the list names the transport, or `rpi` or `mtl` requests it.
    ListedOrRequested,
}

/// The linked transports, unordered; use [`Module::all`].
#[distributed_slice]
pub static MODULES: [Module];

impl Module {
    /// The commonest values, for struct update: `Module { name: "mine", ..Module::NEW }`. The
    /// transport carries all messages itself, needs nothing from the launcher, and is used only on
    /// request.
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

    /// All linked transports, ordered by `place`.
    pub fn all() -> &'static [&'static Module] {
        static ALL: LazyLock<Vec<&'static Module>> = LazyLock::new(|| {
            let mut all: Vec<_> = linked().collect();
            all.sort_by_key(|module| (module.place, module.name));
            all
        });
        &ALL
    }

    /// Whether all messages of a job with these parameters can be drained.
    pub fn can_rest(&self, params: &Params) -> bool {
        self.checkpoints && self.checkpoint_switch.is_none_or(|switch| params.is_on(switch))
    }

    /// Whether a job with these parameters shares memory for collectives. A drainable job does not,
    /// as an image of one process cannot contain such memory.
    pub fn shares_sections(&self, params: &Params) -> bool {
        self.sections && !self.can_rest(params)
    }

    /// The options that make a job over this transport drainable, for a message.
    pub fn advice_to_rest(&self) -> String {
        let own = self.checkpoint_switch.map(|switch| format!("'--mca {} 1'", switch.name));
        let always = Module::all()
            .iter()
            .filter(|module| module.checkpoints && module.checkpoint_switch.is_none());
        let others = always.map(|module| format!("'--mca rpi {}'", module.name));
        own.into_iter().chain(others).collect::<Vec<_>>().join(" or ")
    }

    /// The reason why a job with these parameters cannot use the transport on this machine.
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

    /// The transport of this name.
    pub fn named(name: &str) -> Option<&'static Module> {
        Module::all().iter().copied().find(|module| module.name == name)
    }

    /// The transport to which a parameter belongs.
    pub fn of_param(param: &Param) -> Option<&'static Module> {
        let has = |module: &&&Module| module.params.iter().any(|one| one.name == param.name);
        Module::all().iter().find(has).copied()
    }

    /// The first transport, for parameters that contradict each other.
    pub fn first() -> &'static Module {
        static NONE: Module = Module { name: "none", ..Module::NEW };
        Module::all().first().copied().unwrap_or(&NONE)
    }

    /// The transport that carries messages between nodes for transports that do not leave the node.
    pub fn between_nodes() -> Option<&'static Module> {
        Module::all().iter().copied().find(|module| module.between == BetweenNodes::Carries)
    }

    /// Whether messages to all peers go over sockets, to the peer itself or to a daemon, also
    /// within the host.
    pub fn is_over_sockets(&self) -> bool {
        matches!(self.needs, Supplies::Listeners | Supplies::Daemons)
    }

    /// Whether the transport needs a daemon on each node.
    pub fn has_daemons(&self) -> bool {
        matches!(self.needs, Supplies::Daemons)
    }

    /// The parameters of the segment with postboxes, for transports that have one.
    pub fn postboxes(&self) -> Option<&PostboxParams> {
        match &self.needs {
            Supplies::Postboxes(params) => Some(params),
            _ => None,
        }
    }

    pub(crate) fn priority(&self, params: &Params) -> u32 {
        // The limits of the parameter fit into 32 bits.
        self.priority.map_or(0, |param| params.number(param) as u32)
    }

    /// Its priority among the transports for the network between hosts.
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

#[cfg(not(test))]
fn linked() -> impl Iterator<Item = &'static Module> {
    MODULES.iter()
}

/// The tests of this crate link no transport, and use two stand-ins.
#[cfg(test)]
fn linked() -> impl Iterator<Item = &'static Module> {
    static STAND_INS: [Module; 2] = [
        Module { name: "tcp", place: 2, help: "'tcp' is one.", ..Module::NEW },
        Module { name: "shm", place: 1, help: "'shm' is one.", ..Module::NEW },
    ];
    STAND_INS.iter()
}
