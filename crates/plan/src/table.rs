//! The table of algorithms: names, restrictions, constructors.
//!
//! Names and numbers are those of the Open MPI parameter `coll_tuned_<collective>_algorithm`;
//! numbers from 32 on are OxMPI's own. [`ALGORITHMS`] is the only list of algorithms, for parsing,
//! documentation, selection, verifier and executor. An algorithm is never replaced by another one:
//! [`make`] returns an error if it cannot serve a call.

use std::fmt;

use self::setting::Setting;
use crate::blocks::Blocks;
use crate::call::{Call, Collective, InterCollective, InterRole, TeamMember};
use crate::ir::PlanUnit;
use crate::nodes::Nodes;
use crate::plan::{AnyPlan, Draft};

mod nodes;
mod rows;
mod setting;

pub use nodes::segment_bytes;
pub use rows::ALGORITHMS;

/// The parameters of algorithms, the same on all ranks of a call. An algorithm reads only the
/// parameters of its row ([`Algorithm::parameters`]) and the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameters {
    /// The length of a segment in units of the plan (bytes, or elements of a reduction). 0: the
    /// default, up to 32 segments of at least 4096 units for pipelined algorithms, and no segments
    /// for the others.
    pub segment: usize,
    /// The children of a rank of a tree, the number of chains, or the radix of a k-nomial tree or
    /// of Bruck's algorithm. 0: [`DEFAULT_FANOUT`], or 2 for Bruck's algorithm.
    pub fanout: u32,
    /// The outstanding exchanges of an algorithm that limits them. 0: only the window limits them.
    pub max_requests: usize,
    /// The outstanding steps of an algorithm that could have any number of them; at least 8.
    pub window: usize,
}

/// The default of [`Parameters::fanout`].
pub const DEFAULT_FANOUT: u32 = 4;

impl Default for Parameters {
    fn default() -> Self {
        Self { segment: 0, fanout: 0, max_requests: 0, window: 64 }
    }
}

/// One of the [`Parameters`]. The names are those of the Open MPI parameters
/// `coll_tuned_<collective>_algorithm_<name>`, and `coll_tuned_<collective>_max_requests`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    Segment,
    /// [`Parameters::fanout`], as the radix of a tree or of Bruck's algorithm.
    TreeFanout,
    /// [`Parameters::fanout`], as a number of chains.
    ChainFanout,
    MaxRequests,
}

impl Parameter {
    /// The name, such as `tree_fanout`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Segment => "segmentsize",
            Self::TreeFanout => "tree_fanout",
            Self::ChainFanout => "chain_fanout",
            Self::MaxRequests => "max_requests",
        }
    }
}

/// A requirement of an algorithm. All algorithms work in place, and with any count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Restriction {
    /// The operation must be commutative, as operands are not combined in rank order.
    Commutative,
    PowerOfTwo,
    EvenSize,
    TwoProcesses,
    /// There must be several nodes, and several ranks on one of them ([`make_on`]).
    Nodes,
    /// Each node must have consecutive ranks, unless the operation is commutative.
    OrderedNodesOrCommutative,
    /// Each node must have consecutive ranks.
    OrderedNodes,
}

impl Restriction {
    /// Whether any number of ranks meets the requirement.
    #[must_use]
    pub const fn allows_all_sizes(self) -> bool {
        matches!(self, Self::Commutative)
    }
}

impl fmt::Display for Restriction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Commutative => "it needs a commutative operation",
            Self::PowerOfTwo => "it needs a power of two ranks",
            Self::EvenSize => "it needs an even number of ranks",
            Self::TwoProcesses => "it needs two ranks",
            Self::Nodes => {
                "it needs several nodes, with several ranks on one (the component smp chooses it there)"
            }
            Self::OrderedNodesOrCommutative => {
                "it needs a commutative operation, as the ranks of a node do not follow one another"
            }
            Self::OrderedNodes => "it needs the ranks of each node to follow one another",
        })
    }
}

/// A row of the table.
#[derive(Debug)]
pub struct Algorithm {
    pub collective: Collective,
    /// At least 1; unique among the algorithms of the collective.
    pub number: u8,
    /// Unique among the algorithms of the collective.
    pub name: &'static str,
    pub description: &'static str,
    pub restrictions: &'static [Restriction],
    pub parameters: &'static [Parameter],
    /// A paper, or `folklore`.
    pub source: &'static str,
    draft: fn(&Setting) -> Draft,
}

/// The index of a row of [`ALGORITHMS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AlgorithmId(u8);

impl AlgorithmId {
    /// The index in the table.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }

    /// The row.
    #[must_use]
    pub fn algorithm(self) -> &'static Algorithm {
        &ALGORITHMS[usize::from(self.0)]
    }
}

impl fmt::Display for AlgorithmId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.algorithm().collective, self.algorithm().name)
    }
}

/// The reason why a plan cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    #[error("algorithm {algorithm} cannot serve this call of {size} ranks: {restriction}")]
    Restricted { algorithm: AlgorithmId, size: u32, restriction: Restriction },
    #[error("algorithm {algorithm} does not do the collective {call}")]
    WrongCollective { algorithm: AlgorithmId, call: Collective },
    #[error("rank {rank} is not in a team of {size} ranks")]
    NoSuchRank { rank: u32, size: u32 },
    /// This rank's message to itself and its receive have different lengths.
    #[error("this rank sends {sent} units to itself and receives {received}")]
    OwnBlock { sent: usize, received: usize },
    #[error("{blocks} blocks are named for {size} ranks")]
    WrongBlocks { blocks: usize, size: u32 },
    #[error("nodes are known of {ranks} ranks, not of {size}")]
    WrongNodes {
        /// In the node map.
        ranks: u32,
        size: u32,
    },
    #[error("{size} ranks are more than a communicator can have")]
    TooManyRanks { size: u32 },
    #[error("{size} blocks of {block} units are more than memory can hold")]
    TooLong { block: usize, size: u32 },
}

/// All algorithms of a collective, in the order of the table.
pub fn algorithms(collective: Collective) -> impl Iterator<Item = AlgorithmId> {
    (0_u8..)
        .zip(ALGORITHMS)
        .filter(move |(_, row)| row.collective == collective)
        .map(|(id, _)| AlgorithmId(id))
}

/// The algorithms of a collective without the experimental ones ([`EXPERIMENTS_FROM`]).
pub fn settled(collective: Collective) -> impl Iterator<Item = AlgorithmId> {
    algorithms(collective).filter(|id| !id.algorithm().is_experiment())
}

pub(crate) fn first(collective: Collective) -> AlgorithmId {
    algorithms(collective).next().unwrap_or(AlgorithmId(0))
}

/// The algorithm with this name.
#[must_use]
pub fn by_name(collective: Collective, name: &str) -> Option<AlgorithmId> {
    algorithms(collective).find(|id| id.algorithm().name == name)
}

/// The algorithm with this number.
#[must_use]
pub fn by_number(collective: Collective, number: u8) -> Option<AlgorithmId> {
    algorithms(collective).find(|id| id.algorithm().number == number)
}

/// Makes this rank's plan. Errors: the algorithm is for another collective or cannot serve the
/// call, or the call names a rank that is not in the team.
pub fn make(
    algorithm: AlgorithmId,
    me: TeamMember,
    call: &Call,
    parameters: &Parameters,
) -> Result<AnyPlan, PlanError> {
    made(algorithm, me, call, parameters, None)
}

/// [`make`] for ranks with a node map. Also fails if the node map has another number of ranks.
pub fn make_on(
    algorithm: AlgorithmId,
    me: TeamMember,
    call: &Call,
    parameters: &Parameters,
    nodes: &Nodes,
) -> Result<AnyPlan, PlanError> {
    if nodes.ranks() != me.size {
        return Err(PlanError::WrongNodes { ranks: nodes.ranks(), size: me.size });
    }
    made(algorithm, me, call, parameters, Some(nodes))
}

fn made(
    algorithm: AlgorithmId,
    me: TeamMember,
    call: &Call,
    parameters: &Parameters,
    nodes: Option<&Nodes>,
) -> Result<AnyPlan, PlanError> {
    let row = algorithm.algorithm();
    if row.collective != call.collective() {
        return Err(PlanError::WrongCollective { algorithm, call: call.collective() });
    }
    if i32::try_from(me.size).is_err() {
        return Err(PlanError::TooManyRanks { size: me.size });
    }
    for rank in [Some(me.rank), call.root()].into_iter().flatten() {
        if rank >= me.size {
            return Err(PlanError::NoSuchRank { rank, size: me.size });
        }
    }
    if let Some(restriction) = row.refusal_on(me.size, call.commutative(), nodes) {
        return Err(PlanError::Restricted { algorithm, size: me.size, restriction });
    }
    let count = call.count().0;
    // The factor 3: temporaries hold a few more segments or blocks than the buffer.
    if count.checked_mul(me.size as usize).and_then(|all| all.checked_mul(3)).is_none() {
        return Err(PlanError::TooLong { block: count, size: me.size });
    }
    check_blocks(me, call)?;
    let unit = unit(row.collective);
    if count == 0
        && Collective::REGULAR.contains(&row.collective)
        && row.collective != Collective::Barrier
    {
        return Ok(AnyPlan::empty(unit).made_by(algorithm, count));
    }
    let setting = Setting {
        me,
        call,
        root: call.root().unwrap_or(0),
        count,
        commutative: call.commutative(),
        // In a collective with a root, only the root can give MPI_IN_PLACE.
        in_place: call.in_place() && call.root().is_none_or(|root| root == me.rank),
        exclusive: row.collective == Collective::Exscan,
        segment: parameters.segment,
        fanout: parameters.fanout,
        max_requests: parameters.max_requests,
        nodes,
        window: parameters.window,
    };
    Ok(AnyPlan::new(unit, (row.draft)(&setting)).made_by(algorithm, count))
}

/// Checks the blocks that this rank knows.
fn check_blocks(me: TeamMember, call: &Call) -> Result<(), PlanError> {
    let rank = me.rank as usize;
    let one_each = |blocks: &Blocks, size: u32| match blocks.how_many() {
        how_many if how_many == size as usize => Ok(()),
        blocks => Err(PlanError::WrongBlocks { blocks, size }),
    };
    let fits = |sent, received| match sent == received {
        true => Ok(()),
        false => Err(PlanError::OwnBlock { sent, received }),
    };
    match call {
        Call::Gatherv { root, mine, all, in_place }
        | Call::Scatterv { root, mine, all, in_place } => {
            let Some(all) = all.get().filter(|_| *root == me.rank) else { return Ok(()) };
            one_each(all, me.size)?;
            match call {
                _ if *in_place => Ok(()),
                Call::Gatherv { .. } => fits(mine.0, all.length(rank)),
                _ => fits(all.length(rank), mine.0),
            }
        }
        Call::Allgatherv { blocks, .. } | Call::ReduceScatter { blocks, .. } => {
            one_each(&blocks.0, me.size)
        }
        Call::Alltoallv { send, receive, in_place } => {
            one_each(&receive.0, me.size)?;
            if *in_place {
                return Ok(());
            }
            one_each(&send.0, me.size)?;
            fits(send.0.length(rank), receive.0.length(rank))
        }
        Call::Neighbor { edges } => {
            let (sends, receives) = edges.0.own(me.rank);
            let sends: Vec<_> = sends.map(|edge| edge.len).collect();
            let receives: Vec<_> = receives.map(|edge| edge.len).collect();
            fits(sends.len(), receives.len())?;
            sends.into_iter().zip(receives).try_for_each(|(sent, received)| fits(sent, received))
        }
        Call::Inter { groups, what } => {
            if groups.first == 0 || groups.first >= me.size {
                return Err(PlanError::NoSuchRank { rank: groups.first, size: me.size });
            }
            let remote = groups.remote(me).len() as u32;
            match what {
                InterCollective::Gather { part: InterRole::Root, all, .. }
                | InterCollective::Scatter { part: InterRole::Root, all, .. } => {
                    all.get().map_or(Ok(()), |all| one_each(all, remote))
                }
                InterCollective::Allgather { remote: theirs, .. } => one_each(&theirs.0, remote),
                InterCollective::Alltoall { send, receive } => {
                    one_each(&send.0, remote)?;
                    one_each(&receive.0, remote)
                }
                InterCollective::ReduceScatter { local, .. } => {
                    one_each(&local.0, groups.local(me).len() as u32)
                }
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Numbers from this one on are experimental algorithms: verified, and available to parameters,
/// rules, measurements and simulations. The library never chooses them by itself, and they need no
/// formula and no documentation.
pub const EXPERIMENTS_FROM: u8 = 64;

impl Algorithm {
    /// Whether the algorithm is experimental ([`EXPERIMENTS_FROM`]).
    #[must_use]
    pub const fn is_experiment(&self) -> bool {
        self.number >= EXPERIMENTS_FROM
    }

    /// The first restriction that the call violates.
    #[must_use]
    pub fn refusal(&self, size: u32, commutative: bool) -> Option<Restriction> {
        self.refusal_on(size, commutative, None)
    }

    /// [`Algorithm::refusal`] for ranks with a node map, if it is known.
    #[must_use]
    pub fn refusal_on(
        &self,
        size: u32,
        commutative: bool,
        nodes: Option<&Nodes>,
    ) -> Option<Restriction> {
        self.restrictions.iter().copied().find(|restriction| match restriction {
            Restriction::Commutative => !commutative,
            Restriction::PowerOfTwo => !size.is_power_of_two(),
            Restriction::EvenSize => !size.is_multiple_of(2),
            Restriction::TwoProcesses => size != 2,
            Restriction::Nodes => nodes.is_none_or(|nodes| !nodes.is_hierarchy()),
            Restriction::OrderedNodesOrCommutative => {
                !commutative && nodes.is_some_and(|nodes| !nodes.are_in_order())
            }
            Restriction::OrderedNodes => nodes.is_some_and(|nodes| !nodes.are_in_order()),
        })
    }

    /// Whether the algorithm serves only ranks on several nodes ([`make_on`]). Only the component
    /// smp chooses it: it cannot be forced or tuned.
    #[must_use]
    pub fn needs_nodes(&self) -> bool {
        self.restrictions.contains(&Restriction::Nodes)
    }

    /// Whether the algorithm reads a parameter.
    #[must_use]
    pub fn uses(&self, parameter: Parameter) -> bool {
        self.parameters.contains(&parameter)
    }
}

/// The unit of the plans of a collective.
#[must_use]
pub const fn unit(collective: Collective) -> PlanUnit {
    match collective {
        Collective::Barrier
        | Collective::Bcast
        | Collective::Gather
        | Collective::Scatter
        | Collective::Allgather
        | Collective::Alltoall
        | Collective::Gatherv
        | Collective::Scatterv
        | Collective::Allgatherv
        | Collective::Alltoallv
        | Collective::Neighbor
        | Collective::InterMove => PlanUnit::Bytes,
        Collective::Reduce
        | Collective::Allreduce
        | Collective::ReduceScatterBlock
        | Collective::ReduceScatter
        | Collective::InterReduce
        | Collective::Scan
        | Collective::Exscan => PlanUnit::Elements,
    }
}
