//! The rows of the table.

use super::setting::*;
use super::{Algorithm, Parameter, Restriction, nodes};
use crate::algorithms::allgather::AllgatherRoute;
use crate::algorithms::halving::ExchangeOrder;
use crate::algorithms::{allreduce, alltoall, barrier, gather, rings, scan, scatter, split_binary};
use crate::call::Collective;
use crate::plan::Draft;
use crate::trees::Tree;

macro_rules! rows {
    ($($collective:ident $number:literal $name:literal $([$($restriction:ident),+])? $(($($parameter:ident),+))?
       $description:literal, $source:expr => $draft:expr;)*) => {
        /// The table.
        pub static ALGORITHMS: &[Algorithm] = &[
            $(Algorithm {
                collective: Collective::$collective,
                number: $number,
                name: $name,
                description: $description,
                restrictions: &[$($(Restriction::$restriction),+)?],
                parameters: &[$($(Parameter::$parameter),+)?],
                source: $source,
                draft: $draft,
            }),*
        ];
    };
}

const KIELMANN: &str = "Kielmann et al., MagPIe: MPI's collective communication operations for clustered wide area systems, 1999";
const FOLKLORE: &str = "folklore";
const BARNETT: &str = "Barnett et al., Interprocessor collective communication library, 1994";
const BRUCK: &str = "Bruck et al., Efficient algorithms for all-to-all communications in multiport message-passing systems, 1997";
const CHEN: &str = "Chen et al., Performance evaluation of allgather algorithms on terascale Linux cluster with Fast Ethernet, 2005";
const HENSGEN: &str =
    "Hensgen, Finkel and Manber, Two algorithms for barrier synchronization, 1988";
const HILLIS: &str = "Hillis and Steele, Data parallel algorithms, 1986";
const PATARASUK: &str = "Patarasuk and Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations, 2009";
const PJESIVAC: &str =
    "Pjesivac-Grbovic et al., Performance analysis of MPI collective operations, 2007";
const RABENSEIFNER: &str = "Rabenseifner, Optimization of collective reduction operations, 2004";
const SPARBIT: &str = "Loch and Koslovski, Sparbit: a new logarithmic-cost and data locality-aware MPI allgather algorithm, 2021";
const THAKUR: &str = "Thakur, Rabenseifner and Gropp, Optimization of collective communication operations in MPICH, 2005";
const TRAFF: &str =
    "Traff, An improved algorithm for (non-commutative) reduce-scatter with an application, 2005";

rows! {
    Barrier 1 "linear" "all signal rank 0, which signals all", FOLKLORE
        => |s| Draft::new(barrier::LinearBarrier::new(s.me)).window(s.window);
    Barrier 2 "double_ring" "a signal passes twice around a ring", PJESIVAC
        => |s| Draft::new(barrier::DoubleRing::new(s.me));
    Barrier 3 "recursive_doubling" "partners at distances 1, 2, 4... signal each other", PJESIVAC
        => |s| Draft::new(barrier::BarrierDoubling::new(s.me));
    Barrier 4 "bruck" "dissemination: signal the rank 1, 2, 4... above", HENSGEN
        => |s| Draft::new(barrier::Dissemination::new(s.me));
    Barrier 5 "two_proc" [TwoProcesses] "the two ranks signal each other", FOLKLORE
        => |s| Draft::new(barrier::Dissemination::new(s.me));
    Barrier 6 "tree" "signals pass up a binomial tree, then down again", PJESIVAC
        => |s| Draft::new(barrier::BarrierTree::new(s.me)).window(s.window);
    Barrier 32 "smp" [Nodes] "signals go up to the first ranks of nodes, among these, and down again", KIELMANN
        => nodes::barrier;

    Bcast 1 "basic_linear" (Segment) "the root sends to all", FOLKLORE
        => |s| s.bcast(Tree::Flat);
    Bcast 2 "chain" (Segment, ChainFanout) "segments travel along several chains of ranks", PJESIVAC
        => |s| s.bcast(s.chains());
    Bcast 3 "pipeline" (Segment) "segments travel along a chain of ranks", PJESIVAC
        => |s| s.bcast(Tree::Chain);
    Bcast 4 "split_binary_tree" (Segment)
        "the halves of the buffer travel down two binary trees, whose ranks then swap them in pairs", PJESIVAC
        => |s| {
            let segment = s.pipeline_segment();
            Draft::new(split_binary::SplitBinary::new(s.me, s.root, s.count, segment)).window(s.window)
        };
    Bcast 5 "binary_tree" (Segment) "segments travel down a binary tree", PJESIVAC
        => |s| s.bcast(Tree::Binary);
    Bcast 6 "binomial" (Segment) "segments travel down a binomial tree", THAKUR
        => |s| s.bcast(Tree::Binomial);
    Bcast 7 "knomial" (Segment, TreeFanout) "segments travel down a k-nomial tree", THAKUR
        => |s| s.bcast(s.knomial());
    Bcast 8 "scatter_allgather" "parts are scattered down a tree, then collected in rounds of distance 1, 2, 4...", THAKUR
        => bcast_scatter_allgather;
    Bcast 9 "scatter_allgather_ring" "parts are scattered down a tree, then travel around a ring", BARNETT
        => bcast_scatter_ring;
    Bcast 32 "smp" [Nodes] (Segment) "down a binomial tree of nodes, then of the ranks of each", KIELMANN
        => nodes::bcast;

    Gather 1 "basic_linear" "the root receives from all", FOLKLORE
        => |s| s.gather();
    Gather 2 "binomial" "subtrees are collected and forwarded", THAKUR
        => |s| {
            let algorithm = gather::BinomialGather::new(s.me, s.root, s.count, s.in_place);
            let temporary = algorithm.temporary();
            Draft::new(algorithm).temporary(temporary).window(s.window)
        };
    Gather 3 "linear_sync" (Segment)
        "the root calls one rank after another, the next when the first segment has arrived", PJESIVAC
        => |s| s.gather_sync();

    Scatter 1 "basic_linear" "the root sends to all", FOLKLORE
        => |s| s.scatter();
    Scatter 2 "binomial" "the blocks of subtrees are received and forwarded", THAKUR
        => |s| {
            let algorithm = scatter::BinomialScatter::new(s.me, s.root, s.count, s.in_place);
            let temporary = algorithm.temporary();
            Draft::new(algorithm).temporary(temporary).window(s.window)
        };
    Scatter 3 "linear_nb" (MaxRequests) "the root sends to all, with a limited number of sends at a time", FOLKLORE
        => |s| {
            let requests = if s.max_requests == 0 { s.window } else { s.max_requests };
            s.scatter().exactly(requests)
        };

    Allgather 1 "linear" "linear gather to rank 0, then linear broadcast", FOLKLORE
        => |s| s.gather_bcast();
    Allgather 2 "bruck-k-fanout" (TreeFanout) "ranks send all their blocks to the ranks j k^i below", BRUCK
        => |s| s.bruck();
    Allgather 3 "recursive_doubling" [PowerOfTwo] "partners at distances 1, 2, 4... exchange all their data", THAKUR
        => |s| s.allgather(AllgatherRoute::Doubling);
    Allgather 4 "ring" "blocks travel around a ring", THAKUR
        => |s| s.allgather(AllgatherRoute::Ring);
    Allgather 5 "neighbor" [EvenSize] "blocks travel by pairs between neighbours, alternately on both sides", CHEN
        => |s| s.allgather(AllgatherRoute::Neighbor);
    Allgather 6 "two_proc" [TwoProcesses] "the two ranks exchange their blocks", FOLKLORE
        => |s| s.allgather(AllgatherRoute::Direct);
    Allgather 7 "sparbit" "blocks travel to the rank p/2, p/4... 1 above, the far ones first", SPARBIT
        => |s| s.allgather(AllgatherRoute::Sparbit);
    Allgather 8 "direct-messaging" "each rank sends its block to every other", FOLKLORE
        => |s| s.allgather(AllgatherRoute::Direct);
    Allgather 32 "smp" [Nodes] "blocks of nodes travel around a ring of their first ranks, then all blocks are broadcast in each node", KIELMANN
        => nodes::allgather;

    Alltoall 1 "linear" "all exchanges at once, within the window", FOLKLORE
        => |s| s.alltoall_limited(0);
    Alltoall 2 "pairwise" "one exchange at a time", THAKUR
        => |s| s.alltoall_pairwise();
    Alltoall 3 "modified_bruck" "blocks travel in hops of 1, 2, 4... ranks", BRUCK
        => |s| {
            let hop = alltoall::BruckAlltoall::longest(s.me.size) as usize * s.count;
            Draft::new(alltoall::BruckAlltoall::new(s.me, s.count, s.in_place))
                .temporary(s.count * s.me.size as usize)
                .temporaries(2, hop)
        };
    Alltoall 4 "linear_sync" (MaxRequests) "a limited number of exchanges at a time", PJESIVAC
        => |s| s.alltoall_limited(s.max_requests).exactly(s.requests());
    Alltoall 5 "two_proc" [TwoProcesses] "the two ranks exchange their blocks", FOLKLORE
        => |s| s.alltoall_pairwise();

    Reduce 1 "linear" "the root combines all, one by one, in rank order", FOLKLORE
        => reduce_linear;
    Reduce 2 "chain" (Segment, ChainFanout)
        "segments travel along several chains of ranks and collect contributions", PJESIVAC
        => |s| reduce_tree(s, s.chains());
    Reduce 3 "pipeline" (Segment) "segments travel along a chain of ranks and collect contributions", PJESIVAC
        => |s| reduce_tree(s, Tree::Chain);
    Reduce 4 "binary" [Commutative] (Segment) "segments travel up a binary tree", PJESIVAC
        => |s| reduce_tree(s, Tree::Binary);
    Reduce 5 "binomial" "subtrees are combined in order and forwarded; not commutative: at rank 0, which sends to the root", THAKUR
        => reduce_binomial;
    Reduce 6 "in-order_binary" (Segment) "segments travel up a binary tree that keeps rank order", PJESIVAC
        => reduce_in_order;
    Reduce 7 "rabenseifner" [Commutative] "recursive halving of the vector, then a binomial gather", RABENSEIFNER
        => reduce_rabenseifner;
    Reduce 8 "knomial" (Segment, TreeFanout) "subtrees of a k-nomial tree are combined in order and forwarded", THAKUR
        => |s| reduce_tree(s, s.knomial());
    Reduce 32 "smp" [Nodes, OrderedNodesOrCommutative] (Segment) "within each node, then among nodes", KIELMANN
        => nodes::reduce;

    Allreduce 1 "basic_linear" (Segment) "linear reduce, then linear broadcast", FOLKLORE
        => |s| broadcast_after(reduce_linear(s), s, Tree::Flat);
    Allreduce 2 "nonoverlapping" (Segment) "binomial reduce, then binomial broadcast", FOLKLORE
        => |s| broadcast_after(reduce_binomial(s), s, Tree::Binomial);
    Allreduce 3 "recursive_doubling" "partners at distances 1, 2, 4... exchange all their data", THAKUR
        => |s| Draft::new(allreduce::AllreduceDoubling::new(s.me, s.count, s.in_place))
            .temporary(if s.me.size > 1 { s.count } else { 0 });
    Allreduce 4 "ring" [Commutative] "parts travel around a ring and collect contributions, then the results travel around", PATARASUK
        => |s| {
            let algorithm = rings::AllreduceRing::new(s.me, s.count, s.in_place);
            let temporary = algorithm.temporary();
            Draft::new(algorithm).temporary(temporary)
        };
    Allreduce 5 "segmented_ring" [Commutative] (Segment)
        "a ring whose parts collect contributions in segments", PATARASUK
        => allreduce_segmented_ring;
    Allreduce 6 "rabenseifner" [Commutative] "recursive halving of the vector, then recursive doubling of the results", RABENSEIFNER
        => |s| {
            let algorithm = allreduce::Rabenseifner::new(s.me, s.count, s.in_place);
            let temporary = algorithm.temporary();
            Draft::new(algorithm).temporary(temporary)
        };
    Allreduce 7 "allgather_reduce" "every rank collects all contributions and combines them", FOLKLORE
        => allgather_reduce;
    Allreduce 32 "smp" [Nodes, OrderedNodesOrCommutative] (Segment) "reduced within each node, combined among nodes, and broadcast in each node", KIELMANN
        => nodes::allreduce;

    ReduceScatterBlock 1 "basic_linear" "binomial reduce to rank 0, then linear scatter", FOLKLORE
        => reduce_scatter;
    ReduceScatterBlock 2 "recursive_doubling"
        "partners at distances 1, 2, 4... exchange all blocks that the other still needs", THAKUR
        => reduce_scatter_doubling;
    ReduceScatterBlock 3 "recursive_halving" [Commutative] "partners at distances p/2, p/4... 1 exchange halves", THAKUR
        => |s| reduce_scatter_halving(s, ExchangeOrder::FarFirst);
    ReduceScatterBlock 4 "butterfly" "partners at distances 1, 2, 4... exchange halves, then swap results", TRAFF
        => |s| reduce_scatter_halving(s, ExchangeOrder::NearFirst);
    ReduceScatterBlock 32 "linear" "linear reduce to rank 0, then linear scatter", FOLKLORE
        => reduce_scatter_linear;
    ReduceScatterBlock 33 "smp" [Nodes, OrderedNodesOrCommutative] "reduced within each node, then among nodes, and scattered", KIELMANN
        => nodes::reduce_scatter;
    ReduceScatterBlock 34 "pairwise" "blocks come directly from the ranks 1, 2, 3... below, and are combined in order", THAKUR
        => reduce_scatter_pairwise;

    Scan 1 "linear" "the prefix travels up the ranks", FOLKLORE
        => |s| Draft::new(scan::LinearScan::new(s.scan())).temporary(s.count);
    Scan 2 "recursive_doubling" "ranks send their prefix to the rank 1, 2, 4... above", HILLIS
        => |s| Draft::new(scan::ScanDoubling::new(s.scan())).temporary(s.count);
    Scan 32 "smp" [Nodes, OrderedNodes] "within each node; then the prefix of all lower nodes goes from node to node", KIELMANN
        => nodes::scan;

    Exscan 1 "linear" "the prefix travels up the ranks", FOLKLORE
        => |s| Draft::new(scan::LinearScan::new(s.scan())).temporary(s.count);
    Exscan 2 "recursive_doubling" "contributions move up one rank, then by 1, 2, 4...", HILLIS
        => |s| Draft::new(scan::ScanDoubling::new(s.scan())).temporary(s.count);

    Gatherv 1 "default" "the root receives from all", FOLKLORE
        => |s| s.gather();

    Scatterv 1 "default" "the root sends to all", FOLKLORE
        => |s| s.scatter();

    Allgatherv 1 "default" "linear gather to rank 0, then linear broadcast", FOLKLORE
        => |s| s.gather_bcast();
    Allgatherv 2 "bruck" "ranks send all their blocks to the rank 1, 2, 4... below", BRUCK
        => |s| s.allgather(AllgatherRoute::Bruck { radix: 2 });
    Allgatherv 3 "ring" "blocks travel around a ring", THAKUR
        => |s| s.allgather(AllgatherRoute::Ring);
    Allgatherv 4 "neighbor" [EvenSize] "blocks travel by pairs between neighbours, alternately on both sides", CHEN
        => |s| s.allgather(AllgatherRoute::Neighbor);
    Allgatherv 5 "two_proc" [TwoProcesses] "the two ranks exchange their blocks", FOLKLORE
        => |s| s.allgather(AllgatherRoute::Direct);
    Allgatherv 6 "sparbit" "blocks travel to the rank p/2, p/4... 1 above, the far ones first", SPARBIT
        => |s| s.allgather(AllgatherRoute::Sparbit);
    Allgatherv 32 "linear" "each rank sends its block to every other", FOLKLORE
        => |s| s.allgather(AllgatherRoute::Direct);
    Allgatherv 33 "smp" [Nodes] "blocks of nodes travel around a ring of their first ranks, then all blocks are broadcast in each node", KIELMANN
        => nodes::allgather;

    Alltoallv 1 "basic_linear" "all exchanges at once, within the window", FOLKLORE
        => |s| s.alltoall_limited(0);
    Alltoallv 2 "pairwise" "one exchange at a time", THAKUR
        => |s| s.alltoall_pairwise();

    ReduceScatter 1 "non-overlapping" "binomial reduce to rank 0, then linear scatter", FOLKLORE
        => reduce_scatter;
    ReduceScatter 2 "recursive_halving" [Commutative] "partners at distances p/2, p/4... 1 exchange halves", THAKUR
        => |s| reduce_scatter_halving(s, ExchangeOrder::FarFirst);
    ReduceScatter 3 "ring" [Commutative] "blocks travel around a ring and collect contributions", PATARASUK
        => reduce_scatter_ring;
    ReduceScatter 4 "butterfly" "partners at distances 1, 2, 4... exchange halves, then swap results", TRAFF
        => |s| reduce_scatter_halving(s, ExchangeOrder::NearFirst);
    ReduceScatter 32 "linear" "linear reduce to rank 0, then linear scatter", FOLKLORE
        => reduce_scatter_linear;
    ReduceScatter 33 "smp" [Nodes, OrderedNodesOrCommutative] "reduced within each node, then among nodes, and scattered", KIELMANN
        => nodes::reduce_scatter;
    ReduceScatter 34 "pairwise" "blocks come directly from the ranks 1, 2, 3... below, and are combined in order", THAKUR
        => reduce_scatter_pairwise;

    Neighbor 32 "linear" "all messages of a rank at once", FOLKLORE
        => neighbor;

    InterMove 32 "linear" "data go directly from sender to receiver", FOLKLORE
        => inter_move;

    InterReduce 32 "leaders" "each group reduces to its first rank, which sends to the other group", FOLKLORE
        => inter_reduce;
}
