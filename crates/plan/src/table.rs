//! The one table of algorithms: names, restrictions, constructors.
//!
//! Names and numbers are those of the Open MPI parameter `coll_tuned_<collective>_algorithm` where it has the
//! algorithm; numbers from 32 on are OxMPI's own. Parsing, documentation, selection, verifier and executor all read
//! [`ALGORITHMS`]; nothing else lists algorithms. An algorithm never stands in for another: [`make`] returns an error
//! if it cannot serve a call.

use std::fmt;

use crate::algorithms::exchange::Exchange;
use crate::algorithms::{
    allgather, allreduce, alltoall, barrier, bcast, gather, inter, reduce, scan, scatter,
};
use crate::blocks::{Blocks, Cut};
use crate::call::{Between, Call, Collective, Member, Part};
use crate::ir::{Place, Unit};
use crate::plan::{AnyPlan, Draft};

/// What the user may tune in an algorithm; the same on all ranks of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Parameters {
    /// The length of a segment in units of the plan (bytes, or elements of a reduction). 0 leaves it to the
    /// algorithm: chains and binary trees cut the buffer into up to 32 segments of at least 4096 units, the others
    /// do not cut.
    pub segment: usize,
    /// How many steps an algorithm that could keep any number outstanding keeps outstanding; values below 8 count
    /// as 8.
    pub window: usize,
}

impl Default for Parameters {
    fn default() -> Self {
        Self { segment: 0, window: 64 }
    }
}

/// What an algorithm cannot do. All of them work in place, and with any count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Restriction {
    /// The operation must be commutative: ranks are not combined in order.
    Commutative,
    /// The number of ranks must be a power of two.
    PowerOfTwo,
}

impl fmt::Display for Restriction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Commutative => "it needs a commutative operation",
            Self::PowerOfTwo => "it needs a power of two ranks",
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
    /// Whether [`Parameters::segment`] means something to it.
    pub segmented: bool,
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
    if let Some(restriction) = row.refusal(me.size, call.commutative()) {
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

impl Algorithm {
    /// The first restriction that forbids such a call.
    #[must_use]
    pub fn refusal(&self, size: u32, commutative: bool) -> Option<Restriction> {
        self.restrictions.iter().copied().find(|restriction| match restriction {
            Restriction::Commutative => !commutative,
            Restriction::PowerOfTwo => !size.is_power_of_two(),
        })
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

/// A checked call, flat.
struct Setting<'a> {
    me: Member,
    call: &'a Call,
    root: u32,
    count: usize,
    commutative: bool,
    in_place: bool,
    exclusive: bool,
    segment: usize,
    window: usize,
}

impl Setting<'_> {
    fn bcast(&self, shape: bcast::Shape) -> Draft {
        let segment = match shape {
            bcast::Shape::Chain | bcast::Shape::Binary => self.pipeline_segment(),
            bcast::Shape::Flat | bcast::Shape::Binomial => self.segment,
        };
        Draft::new(bcast::Tree::new(self.me, self.root, self.count, segment, shape)).window(self.window)
    }

    /// The segment of an algorithm that is of use only in segments.
    fn pipeline_segment(&self) -> usize {
        if self.segment == 0 { self.count.div_ceil(32).max(4096) } else { self.segment }
    }

    /// The blocks of all ranks, where this rank knows them.
    fn all(&self) -> Cut {
        match self.call {
            Call::Gatherv { all, .. } | Call::Scatterv { all, .. } => {
                all.get().map_or(Cut::Even(0), |all| Cut::Uneven(all.clone()))
            }
            Call::Allgatherv { blocks, .. } | Call::ReduceScatter { blocks, .. } => {
                Cut::Uneven(blocks.0.clone())
            }
            _ => Cut::Even(self.count),
        }
    }

    /// The length of the block that this rank alone contributes or gets.
    fn mine(&self) -> usize {
        match self.call {
            Call::Gatherv { mine, .. } | Call::Scatterv { mine, .. } => mine.0,
            Call::ReduceScatter { blocks, .. } => blocks.0.length(self.me.rank as usize),
            _ => self.count,
        }
    }

    /// The blocks to send and to receive of an exchange of all with all.
    fn exchanged(&self) -> (Cut, Cut) {
        match self.call {
            Call::Alltoallv { send, receive, in_place } => {
                let receive = Cut::Uneven(receive.0.clone());
                (if *in_place { receive.clone() } else { Cut::Uneven(send.0.clone()) }, receive)
            }
            _ => (Cut::Even(self.count), Cut::Even(self.count)),
        }
    }

    fn gather(&self) -> Draft {
        Draft::new(gather::Linear::new(self.me, self.root, self.mine(), self.all(), self.in_place))
            .window(self.window)
    }

    fn scatter(&self) -> Draft {
        let (mine, all) = (self.mine(), self.all());
        Draft::new(scatter::Linear::new(self.me, self.root, Place::Input, mine, all, self.in_place))
            .window(self.window)
    }

    fn allgather(&self, route: allgather::Route) -> Draft {
        Draft::new(allgather::Allgather::new(self.me, self.all(), self.in_place, route)).window(self.window)
    }

    fn alltoall_linear(&self) -> Draft {
        let (send, receive) = self.exchanged();
        let spare = if self.in_place { receive.total(self.me.size) } else { 0 };
        Draft::new(alltoall::Linear::new(self.me, send, receive, self.in_place))
            .temporary(spare)
            .window(self.window)
    }

    fn alltoall_pairwise(&self) -> Draft {
        let (send, receive) = self.exchanged();
        let spare = if self.in_place && self.me.size > 1 { receive.longest() } else { 0 };
        Draft::new(alltoall::Pairwise::new(self.me, send, receive, self.in_place)).temporary(spare)
    }

    /// A whole vector reduced to the root (rank 0 if there is none), to be put in the output.
    fn reduce(&self) -> reduce::Task {
        reduce::Task {
            me: self.me,
            root: self.root,
            count: self.count,
            commutative: self.commutative,
            mine: if self.in_place { Place::Output } else { Place::Input },
            result: Place::Output,
        }
    }

    fn scan(&self) -> scan::Task {
        let kind = if self.exclusive { scan::Kind::Exclusive } else { scan::Kind::Inclusive };
        scan::Task { me: self.me, kind, count: self.count, in_place: self.in_place }
    }
}

fn reduce_linear(setting: &Setting) -> Draft {
    let algorithm = reduce::Linear::new(setting.reduce());
    let temporaries = algorithm.temporaries();
    Draft::new(algorithm).temporaries(temporaries, setting.count)
}

fn reduce_binomial(setting: &Setting) -> Draft {
    let algorithm = reduce::Binomial::new(setting.reduce());
    let temporaries = algorithm.temporaries();
    Draft::new(algorithm).temporaries(temporaries, setting.count)
}

fn reduce_chain(setting: &Setting) -> Draft {
    let algorithm = reduce::Chain::new(setting.reduce(), setting.pipeline_segment());
    let temporary = algorithm.temporary();
    Draft::new(algorithm).temporary(temporary).window(setting.window)
}

fn broadcast_after(draft: Draft, setting: &Setting, shape: bcast::Shape) -> Draft {
    draft.then(bcast::Tree::new(setting.me, 0, setting.count, setting.segment, shape)).window(setting.window)
}

/// The number of the temporary in which [`reduce_for`] leaves its result.
const RESULT: u8 = 2;

/// A reduction to rank 0 of `task`, into a temporary.
fn reduce_for(task: reduce::Task, first: u32) -> Draft {
    let result = Place::Temporary(RESULT);
    let reduce = reduce::Binomial::new(reduce::Task { root: 0, result, ..task });
    let used = reduce.temporaries();
    let mut draft = Draft::nothing().then_within(first, reduce).temporaries(used, task.count);
    if task.me.rank == 0 {
        draft = draft.temporaries(usize::from(RESULT) - used, 0).temporary(task.count);
    }
    draft
}

fn reduce_scatter(setting: &Setting) -> Draft {
    let (me, all) = (setting.me, setting.all());
    let draft = reduce_for(reduce::Task { count: all.total(me.size), ..setting.reduce() }, 0);
    let result = Place::Temporary(RESULT);
    draft.then(scatter::Linear::new(me, 0, result, setting.mine(), all, false)).window(setting.window)
}

fn neighbor(setting: &Setting) -> Draft {
    let Call::Neighbor { edges } = setting.call else { return Draft::nothing() };
    let exchange = Exchange::new(setting.me.rank, edges.0.clone());
    let steps = exchange.steps();
    Draft::new(exchange).window(steps)
}

fn inter_move(setting: &Setting) -> Draft {
    let Call::Inter { groups, what } = setting.call else { return Draft::nothing() };
    let exchange = Exchange::new(setting.me.rank, inter::movement(setting.me, *groups, what));
    let steps = exchange.steps();
    Draft::new(exchange).window(steps)
}

fn inter_reduce(setting: &Setting) -> Draft {
    let (me, Call::Inter { groups, what }) = (setting.me, setting.call) else { return Draft::nothing() };
    let local = groups.local(me);
    let here = Member { rank: me.rank - local.start, size: local.len() as u32 };
    let (contributes, count) = match what {
        Between::Reduce { part, count, .. } => (matches!(part, Part::Leaf { .. }), count.0),
        Between::Allreduce { count, .. } => (true, count.0),
        Between::ReduceScatter { local, .. } => (true, local.0.total()),
        _ => (false, 0),
    };
    let draft = if contributes && count > 0 {
        reduce_for(reduce::Task { me: here, count, ..setting.reduce() }, local.start)
    } else {
        Draft::nothing()
    };
    let edges = inter::results(me, *groups, what);
    let steps = edges.sends.len() + edges.receives.len();
    let result = Place::Temporary(RESULT);
    let Between::ReduceScatter { local: blocks, .. } = what else {
        return draft.then(Exchange::between(me.rank, edges, result, Place::Output)).window(steps);
    };
    // The leaders swap the results of their groups, and give their own group its parts of the other's.
    let theirs = Place::Temporary(RESULT + 1);
    let draft = draft.then(Exchange::between(me.rank, edges, result, theirs));
    let draft = if here.rank == 0 && count > 0 { draft.temporary(count) } else { draft };
    let mine = blocks.0.length(here.rank as usize);
    let scatter = scatter::Linear::new(here, 0, theirs, mine, Cut::Uneven(blocks.0.clone()), false);
    draft.then_within(local.start, scatter).window(setting.window)
}

macro_rules! rows {
    ($($collective:ident $number:literal $name:literal $([$($restriction:ident),+])? $(segmented $segmented:literal)?
       $description:literal => $draft:expr;)*) => {
        /// The table.
        pub static ALGORITHMS: &[Algorithm] = &[
            $(Algorithm {
                collective: Collective::$collective,
                number: $number,
                name: $name,
                description: $description,
                restrictions: &[$($(Restriction::$restriction),+)?],
                segmented: false $(|| $segmented)?,
                draft: $draft,
            }),*
        ];
    };
}

rows! {
    Barrier 1 "linear" "all signal rank 0, which signals all"
        => |s| Draft::new(barrier::Linear::new(s.me)).window(s.window);
    Barrier 3 "recursive_doubling" "partners at distances 1, 2, 4... signal each other"
        => |s| Draft::new(barrier::RecursiveDoubling::new(s.me));
    Barrier 4 "bruck" "dissemination: signal the rank 1, 2, 4... above"
        => |s| Draft::new(barrier::Dissemination::new(s.me));

    Bcast 1 "basic_linear" segmented true "the root sends to all"
        => |s| s.bcast(bcast::Shape::Flat);
    Bcast 3 "pipeline" segmented true "segments travel along a chain of ranks"
        => |s| s.bcast(bcast::Shape::Chain);
    Bcast 5 "binary_tree" segmented true "segments travel down a binary tree"
        => |s| s.bcast(bcast::Shape::Binary);
    Bcast 6 "binomial" segmented true "segments travel down a binomial tree"
        => |s| s.bcast(bcast::Shape::Binomial);

    Bcast 9 "scatter_allgather_ring" "parts are scattered down a tree, then travel around a ring"
        => |s| Draft::new(bcast::ScatterRing::new(s.me, s.root, s.count)).window(s.window);

    Gather 1 "basic_linear" "the root receives from all"
        => |s| s.gather();
    Gather 2 "binomial" "subtrees are collected and sent on"
        => |s| {
            let algorithm = gather::Binomial::new(s.me, s.root, s.count, s.in_place);
            let temporary = algorithm.temporary();
            Draft::new(algorithm).temporary(temporary).window(s.window)
        };

    Scatter 1 "basic_linear" "the root sends to all"
        => |s| s.scatter();
    Scatter 2 "binomial" "the blocks of subtrees are received and passed on"
        => |s| {
            let algorithm = scatter::Binomial::new(s.me, s.root, s.count, s.in_place);
            let temporary = algorithm.temporary();
            Draft::new(algorithm).temporary(temporary).window(s.window)
        };

    Allgather 1 "linear" "each rank sends its block to every other"
        => |s| s.allgather(allgather::Route::Direct);
    Allgather 2 "bruck-k-fanout" "ranks send all they have to the one 1, 2, 4... below"
        => |s| s.allgather(allgather::Route::Bruck);
    Allgather 3 "recursive_doubling" [PowerOfTwo] "partners at distances 1, 2, 4... exchange all they have"
        => |s| s.allgather(allgather::Route::Doubling);
    Allgather 4 "ring" "blocks travel around a ring"
        => |s| s.allgather(allgather::Route::Ring);

    Alltoall 1 "linear" "all exchanges at once, within the window"
        => |s| s.alltoall_linear();
    Alltoall 2 "pairwise" "one exchange at a time"
        => |s| s.alltoall_pairwise();
    Alltoall 3 "modified_bruck" "blocks travel in hops of 1, 2, 4... ranks"
        => |s| {
            let hop = alltoall::Bruck::longest(s.me.size) as usize * s.count;
            Draft::new(alltoall::Bruck::new(s.me, s.count, s.in_place))
                .temporary(s.count * s.me.size as usize)
                .temporaries(2, hop)
        };

    Reduce 1 "linear" "the root combines all, one by one, in rank order" => reduce_linear;
    Reduce 3 "pipeline" segmented true "segments travel along a chain of ranks and collect contributions"
        => reduce_chain;
    Reduce 5 "binomial" "subtrees are combined in order and sent on; not commutative: at rank 0, which sends to the root"
        => reduce_binomial;

    Allreduce 1 "basic_linear" "linear reduce, then linear broadcast"
        => |s| broadcast_after(reduce_linear(s), s, bcast::Shape::Flat);
    Allreduce 2 "nonoverlapping" "binomial reduce, then binomial broadcast"
        => |s| broadcast_after(reduce_binomial(s), s, bcast::Shape::Binomial);
    Allreduce 3 "recursive_doubling" "partners at distances 1, 2, 4... exchange all they have"
        => |s| Draft::new(allreduce::RecursiveDoubling::new(s.me, s.count, s.in_place))
            .temporary(if s.me.size > 1 { s.count } else { 0 });
    Allreduce 4 "ring" [Commutative] "parts travel around a ring to collect contributions, then the results do"
        => |s| {
            let algorithm = allreduce::Ring::new(s.me, s.count, s.in_place);
            let temporary = algorithm.temporary();
            Draft::new(algorithm).temporary(temporary)
        };
    Allreduce 6 "rabenseifner" [Commutative] "recursive halving of the vector, then recursive doubling of the results"
        => |s| {
            let algorithm = allreduce::Rabenseifner::new(s.me, s.count, s.in_place);
            let temporary = algorithm.temporary();
            Draft::new(algorithm).temporary(temporary)
        };

    ReduceScatterBlock 1 "basic_linear" "binomial reduce to rank 0, then linear scatter" => reduce_scatter;

    Scan 1 "linear" "the prefix travels up the ranks"
        => |s| Draft::new(scan::Linear::new(s.scan())).temporary(s.count);
    Scan 2 "recursive_doubling" "ranks send what they have to the one 1, 2, 4... above"
        => |s| Draft::new(scan::RecursiveDoubling::new(s.scan())).temporary(s.count);

    Exscan 1 "linear" "the prefix travels up the ranks"
        => |s| Draft::new(scan::Linear::new(s.scan())).temporary(s.count);
    Exscan 2 "recursive_doubling" "contributions move up one rank, then by 1, 2, 4..."
        => |s| Draft::new(scan::RecursiveDoubling::new(s.scan())).temporary(s.count);

    Gatherv 1 "default" "the root receives from all" => |s| s.gather();

    Scatterv 1 "default" "the root sends to all" => |s| s.scatter();

    Allgatherv 2 "bruck" "ranks send all they have to the one 1, 2, 4... below"
        => |s| s.allgather(allgather::Route::Bruck);
    Allgatherv 3 "ring" "blocks travel around a ring"
        => |s| s.allgather(allgather::Route::Ring);
    Allgatherv 32 "linear" "each rank sends its block to every other"
        => |s| s.allgather(allgather::Route::Direct);

    Alltoallv 1 "basic_linear" "all exchanges at once, within the window" => |s| s.alltoall_linear();
    Alltoallv 2 "pairwise" "one exchange at a time" => |s| s.alltoall_pairwise();

    ReduceScatter 1 "non-overlapping" "binomial reduce to rank 0, then linear scatter" => reduce_scatter;

    Neighbor 32 "linear" "all messages of a rank at once" => neighbor;

    InterMove 32 "linear" "what crosses goes straight from sender to receiver" => inter_move;

    InterReduce 32 "leaders" "each group reduces to its first rank, which sends to the other group" => inter_reduce;
}
