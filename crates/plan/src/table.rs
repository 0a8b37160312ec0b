//! The one table of algorithms: names, restrictions, constructors.
//!
//! Names and numbers are those of the Open MPI parameter `coll_tuned_<collective>_algorithm` where it has the
//! algorithm; numbers from 32 on are OxMPI's own. Parsing, documentation, selection, verifier and executor all read
//! [`ALGORITHMS`]; nothing else lists algorithms. An algorithm never stands in for another: [`make`] returns an error
//! if it cannot serve a call.

use std::fmt;

use self::setting::Setting;
use crate::blocks::Blocks;
use crate::call::{Between, Call, Collective, Member, Part};
use crate::ir::Unit;
use crate::nodes::Nodes;
use crate::plan::{AnyPlan, Draft};

mod nodes;
mod rows;
mod setting;

pub use nodes::segment_bytes;
pub use rows::ALGORITHMS;

/// What the user may tune in an algorithm; the same on all ranks of a call. An algorithm looks at those that its row
/// names ([`Algorithm::parameters`]), and at the window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameters {
    /// The length of a segment in units of the plan (bytes, or elements of a reduction). 0 leaves it to the
    /// algorithm: those that are of use only in segments cut the buffer into up to 32 segments of at least 4096
    /// units, the others do not cut.
    pub segment: usize,
    /// How many children a rank of a tree has, how many chains leave the root, or the radix of a k-nomial tree or of
    /// Bruck's algorithm. 0 leaves it to the algorithm: [`DEFAULT_FANOUT`], and 2 for Bruck's.
    pub fanout: u32,
    /// How many exchanges an algorithm that limits them keeps outstanding. 0 leaves it to the window.
    pub max_requests: usize,
    /// How many steps an algorithm that could keep any number outstanding keeps outstanding; values below 8 count
    /// as 8.
    pub window: usize,
}

/// The number of children, chains, or the radix, if [`Parameters::fanout`] is 0.
pub const DEFAULT_FANOUT: u32 = 4;

impl Default for Parameters {
    fn default() -> Self {
        Self { segment: 0, fanout: 0, max_requests: 0, window: 64 }
    }
}

/// Which of the [`Parameters`] mean something to an algorithm. The names are those of the Open MPI parameters
/// `coll_tuned_<collective>_algorithm_<name>`, and `coll_tuned_<collective>_max_requests`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Parameter {
    /// [`Parameters::segment`].
    Segment,
    /// [`Parameters::fanout`], as the radix of a tree or of Bruck's algorithm.
    TreeFanout,
    /// [`Parameters::fanout`], as a number of chains.
    ChainFanout,
    /// [`Parameters::max_requests`].
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

/// What an algorithm cannot do. All of them work in place, and with any count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Restriction {
    /// The operation must be commutative: ranks are not combined in order.
    Commutative,
    /// The number of ranks must be a power of two.
    PowerOfTwo,
    /// The number of ranks must be even.
    EvenSize,
    /// There must be two ranks.
    TwoProcesses,
    /// The ranks must be on at least two nodes, at least two of them on one ([`make_on`]).
    Nodes,
    /// The ranks of each node must follow one another, unless the operation is commutative.
    OrderedNodesOrCommutative,
    /// The ranks of each node must follow one another.
    OrderedNodes,
}

impl Restriction {
    /// Whether it says nothing about the number of ranks.
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

/// One row of the table.
#[derive(Debug)]
pub struct Algorithm {
    /// The collective it does.
    pub collective: Collective,
    /// Its number among the algorithms of the collective, at least 1.
    pub number: u8,
    /// Its name among the algorithms of the collective.
    pub name: &'static str,
    /// What it does, in a phrase.
    pub description: &'static str,
    /// What it cannot do.
    pub restrictions: &'static [Restriction],
    /// Which parameters mean something to it.
    pub parameters: &'static [Parameter],
    /// Where it comes from: a paper, or `folklore`.
    pub source: &'static str,
    draft: fn(&Setting) -> Draft,
}

/// Names a row of [`ALGORITHMS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AlgorithmId(u8);

impl AlgorithmId {
    /// Its place in the table.
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

/// Why there is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The algorithm cannot do this call.
    #[error("algorithm {algorithm} cannot serve this call of {size} ranks: {restriction}")]
    Restricted {
        /// The algorithm.
        algorithm: AlgorithmId,
        /// The number of ranks.
        size: u32,
        /// What it cannot do.
        restriction: Restriction,
    },
    /// The algorithm is one of another collective.
    #[error("algorithm {algorithm} does not do the collective {call}")]
    WrongCollective {
        /// The algorithm.
        algorithm: AlgorithmId,
        /// The collective of the call.
        call: Collective,
    },
    /// The rank or the root is not in the team.
    #[error("rank {rank} is not in a team of {size} ranks")]
    NoSuchRank {
        /// The rank or root.
        rank: u32,
        /// The number of ranks.
        size: u32,
    },
    /// This rank's message to itself is not as long as the room for it.
    #[error("this rank sends {sent} units to itself and receives {received}")]
    OwnBlock {
        /// Units that it sends.
        sent: usize,
        /// Units that it receives.
        received: usize,
    },
    /// A list of blocks does not have one for each rank.
    #[error("{blocks} blocks are named for {size} ranks")]
    WrongBlocks {
        /// How many there are.
        blocks: usize,
        /// The number of ranks.
        size: u32,
    },
    /// Nodes are known of another number of ranks.
    #[error("nodes are known of {ranks} ranks, not of {size}")]
    WrongNodes {
        /// Ranks of which they are known.
        ranks: u32,
        /// The number of ranks.
        size: u32,
    },
    /// A team has more ranks than `MPI_Comm_size` can return.
    #[error("{size} ranks are more than a communicator can have")]
    TooManyRanks {
        /// The number of ranks.
        size: u32,
    },
    /// The whole buffer has more units than an address can count.
    #[error("{size} blocks of {block} units are more than memory can hold")]
    TooLong {
        /// Units of one block.
        block: usize,
        /// The number of ranks.
        size: u32,
    },
}

/// All algorithms of a collective, in the order of the table.
pub fn algorithms(collective: Collective) -> impl Iterator<Item = AlgorithmId> {
    (0_u8..)
        .zip(ALGORITHMS)
        .filter(move |(_, row)| row.collective == collective)
        .map(|(id, _)| AlgorithmId(id))
}

/// The algorithms of a collective that are no experiments ([`EXPERIMENTS_FROM`]).
pub fn settled(collective: Collective) -> impl Iterator<Item = AlgorithmId> {
    algorithms(collective).filter(|id| !id.algorithm().is_experiment())
}

/// The first algorithm of a collective in the table.
pub(crate) fn first(collective: Collective) -> AlgorithmId {
    algorithms(collective).next().unwrap_or(AlgorithmId(0))
}

/// The algorithm of that name.
#[must_use]
pub fn by_name(collective: Collective, name: &str) -> Option<AlgorithmId> {
    algorithms(collective).find(|id| id.algorithm().name == name)
}

/// The algorithm of that number.
#[must_use]
pub fn by_number(collective: Collective, number: u8) -> Option<AlgorithmId> {
    algorithms(collective).find(|id| id.algorithm().number == number)
}

/// Makes this rank's plan.
///
/// # Errors
/// If the algorithm is not one of the call's collective, cannot do the call, or the call names a rank that is not in
/// the team.
pub fn make(
    algorithm: AlgorithmId,
    me: Member,
    call: &Call,
    parameters: &Parameters,
) -> Result<AnyPlan, PlanError> {
    made(algorithm, me, call, parameters, None)
}

/// As [`make`], of ranks that are known to be spread over nodes.
///
/// # Errors
/// As [`make`]; if nodes are not known of as many ranks as there are.
pub fn make_on(
    algorithm: AlgorithmId,
    me: Member,
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
    me: Member,
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
    // Three times: temporaries hold a few segments or blocks more than the whole.
    if count.checked_mul(me.size as usize).and_then(|all| all.checked_mul(3)).is_none() {
        return Err(PlanError::TooLong { block: count, size: me.size });
    }
    check_blocks(me, call)?;
    let unit = unit(row.collective);
    if count == 0 && Collective::REGULAR.contains(&row.collective) && row.collective != Collective::Barrier {
        return Ok(AnyPlan::empty(unit).made_by(algorithm, count));
    }
    let setting = Setting {
        me,
        call,
        root: call.root().unwrap_or(0),
        count,
        commutative: call.commutative(),
        // In a collective with a root, only the root's says anything.
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

/// What this rank alone can see of blocks that do not fit together.
fn check_blocks(me: Member, call: &Call) -> Result<(), PlanError> {
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
        Call::Gatherv { root, mine, all, in_place } | Call::Scatterv { root, mine, all, in_place } => {
            let Some(all) = all.get().filter(|_| *root == me.rank) else { return Ok(()) };
            one_each(all, me.size)?;
            match call {
                _ if *in_place => Ok(()),
                Call::Gatherv { .. } => fits(mine.0, all.length(rank)),
                _ => fits(all.length(rank), mine.0),
            }
        }
        Call::Allgatherv { blocks, .. } | Call::ReduceScatter { blocks, .. } => one_each(&blocks.0, me.size),
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
                Between::Gather { part: Part::Root, all, .. }
                | Between::Scatter { part: Part::Root, all, .. } => {
                    all.get().map_or(Ok(()), |all| one_each(all, remote))
                }
                Between::Allgather { remote: theirs, .. } => one_each(&theirs.0, remote),
                Between::Alltoall { send, receive } => {
                    one_each(&send.0, remote)?;
                    one_each(&receive.0, remote)
                }
                Between::ReduceScatter { local, .. } => one_each(&local.0, groups.local(me).len() as u32),
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Numbers from this one on are experiments: they are verified, and can be forced, named by a rule, measured and simulated up
/// to the sizes whose plans are walked, but nothing chooses them by itself, and no formula and no page is asked for.
pub const EXPERIMENTS_FROM: u8 = 64;

impl Algorithm {
    /// Whether it is one that is being tried ([`EXPERIMENTS_FROM`]).
    #[must_use]
    pub const fn is_experiment(&self) -> bool {
        self.number >= EXPERIMENTS_FROM
    }

    /// The first restriction that forbids such a call.
    #[must_use]
    pub fn refusal(&self, size: u32, commutative: bool) -> Option<Restriction> {
        self.refusal_on(size, commutative, None)
    }

    /// As [`Algorithm::refusal`], of ranks that are spread over nodes, if that is known.
    #[must_use]
    pub fn refusal_on(&self, size: u32, commutative: bool, nodes: Option<&Nodes>) -> Option<Restriction> {
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

    /// Whether it serves only ranks that are known to be spread over nodes ([`make_on`]). The component smp chooses it there;
    /// it can neither be forced nor tuned.
    #[must_use]
    pub fn needs_nodes(&self) -> bool {
        self.restrictions.contains(&Restriction::Nodes)
    }

    /// Whether a parameter means something to it.
    #[must_use]
    pub fn uses(&self, parameter: Parameter) -> bool {
        self.parameters.contains(&parameter)
    }
}

/// What the plans of a collective count.
#[must_use]
pub const fn unit(collective: Collective) -> Unit {
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
        | Collective::InterMove => Unit::Bytes,
        Collective::Reduce
        | Collective::Allreduce
        | Collective::ReduceScatterBlock
        | Collective::ReduceScatter
        | Collective::InterReduce
        | Collective::Scan
        | Collective::Exscan => Unit::Elements,
    }
}
