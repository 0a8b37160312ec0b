//! The fixed decisions. Written by `cargo xtask decisions`; do not edit.
//!
//! A row: the largest team, the most bytes => the number of the algorithm, its name, bytes of a
//! segment, fan-out; 0: the algorithm's default.

use super::{ANY, DecisionRow, DecisionTable, LONG, PLAIN, Setup};
use crate::call::Collective;

macro_rules! rows {
    ($($max_size:expr, $max_bytes:expr => $number:literal $name:literal $segment:literal $fan_out:literal;)*) => {
        &[$(DecisionRow {
            max_size: $max_size,
            max_bytes: $max_bytes,
            number: $number,
            #[cfg(test)]
            name: $name,
            segment_bytes: $segment,
            fan_out: $fan_out,
        }),*]
    };
}

pub(super) static PARTS: &[DecisionTable] = &[
    DecisionTable {
        collective: Collective::Gatherv,
        setup: None,
        commutative: None,
        powers_of_two: None,
        rows: PLAIN,
    },
    DecisionTable {
        collective: Collective::Scatterv,
        setup: None,
        commutative: None,
        powers_of_two: None,
        rows: PLAIN,
    },
    DecisionTable {
        collective: Collective::Alltoallv,
        setup: None,
        commutative: None,
        powers_of_two: None,
        rows: PLAIN,
    },
    DecisionTable {
        collective: Collective::Neighbor,
        setup: None,
        commutative: None,
        powers_of_two: None,
        rows: PLAIN,
    },
    DecisionTable {
        collective: Collective::InterMove,
        setup: None,
        commutative: None,
        powers_of_two: None,
        rows: PLAIN,
    },
    DecisionTable {
        collective: Collective::InterReduce,
        setup: None,
        commutative: None,
        powers_of_two: None,
        rows: PLAIN,
    },
    DecisionTable {
        collective: Collective::Barrier,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "linear" 0 0;
            ANY, LONG => 3 "recursive_doubling" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Barrier,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            ANY, LONG => 4 "bruck" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Bcast,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            2, LONG => 1 "basic_linear" 0 0;
            4, 12288 => 1 "basic_linear" 0 0;
            4, 49152 => 4 "split_binary_tree" 0 0;
            4, LONG => 3 "pipeline" 0 0;
            8, 3072 => 1 "basic_linear" 0 0;
            8, 12288 => 2 "chain" 0 0;
            8, 49152 => 4 "split_binary_tree" 0 0;
            8, 3145728 => 3 "pipeline" 0 0;
            8, LONG => 3 "pipeline" 16384 0;
            16, 6144 => 7 "knomial" 0 0;
            16, 12288 => 5 "binary_tree" 0 0;
            16, 196608 => 4 "split_binary_tree" 0 0;
            16, 786432 => 3 "pipeline" 0 0;
            16, LONG => 3 "pipeline" 16384 0;
            32, 6144 => 7 "knomial" 0 0;
            32, 12288 => 5 "binary_tree" 0 0;
            32, 786432 => 4 "split_binary_tree" 0 0;
            32, LONG => 3 "pipeline" 16384 0;
            64, 6144 => 7 "knomial" 0 0;
            64, 12288 => 5 "binary_tree" 0 0;
            64, 1572864 => 4 "split_binary_tree" 0 0;
            64, LONG => 3 "pipeline" 16384 0;
            128, 5120 => 7 "knomial" 0 0;
            128, 20480 => 5 "binary_tree" 0 0;
            128, 5242880 => 4 "split_binary_tree" 0 0;
            128, LONG => 3 "pipeline" 16384 0;
            256, 5120 => 7 "knomial" 0 0;
            256, 20480 => 5 "binary_tree" 0 0;
            256, 1310720 => 4 "split_binary_tree" 0 0;
            256, 5242880 => 4 "split_binary_tree" 16384 0;
            256, LONG => 3 "pipeline" 16384 0;
            ANY, 5120 => 7 "knomial" 0 0;
            ANY, 20480 => 5 "binary_tree" 0 0;
            ANY, 1310720 => 4 "split_binary_tree" 0 0;
            ANY, LONG => 4 "split_binary_tree" 16384 0;
        },
    },
    DecisionTable {
        collective: Collective::Bcast,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            3, 24576 => 1 "basic_linear" 0 0;
            3, LONG => 3 "pipeline" 0 0;
            5, 12288 => 1 "basic_linear" 0 0;
            5, 24576 => 4 "split_binary_tree" 0 0;
            5, LONG => 3 "pipeline" 0 0;
            6, 3072 => 1 "basic_linear" 0 0;
            6, 12288 => 2 "chain" 0 0;
            6, 24576 => 4 "split_binary_tree" 0 0;
            6, LONG => 3 "pipeline" 0 0;
            7, 3072 => 1 "basic_linear" 0 0;
            7, 12288 => 2 "chain" 0 0;
            7, 49152 => 4 "split_binary_tree" 0 0;
            7, 12582912 => 3 "pipeline" 0 0;
            7, LONG => 3 "pipeline" 16384 0;
            15, 6144 => 7 "knomial" 0 0;
            15, 12288 => 5 "binary_tree" 0 0;
            15, 98304 => 4 "split_binary_tree" 0 0;
            15, 786432 => 3 "pipeline" 0 0;
            15, LONG => 3 "pipeline" 16384 0;
            31, 6144 => 7 "knomial" 0 0;
            31, 12288 => 5 "binary_tree" 0 0;
            31, 786432 => 4 "split_binary_tree" 0 0;
            31, LONG => 3 "pipeline" 16384 0;
            63, 6144 => 7 "knomial" 0 0;
            63, 12288 => 5 "binary_tree" 0 0;
            63, 1572864 => 4 "split_binary_tree" 0 0;
            63, LONG => 3 "pipeline" 16384 0;
            127, 5120 => 7 "knomial" 0 0;
            127, 20480 => 5 "binary_tree" 0 0;
            127, 5242880 => 4 "split_binary_tree" 0 0;
            127, LONG => 3 "pipeline" 16384 0;
            255, 5120 => 7 "knomial" 0 0;
            255, 20480 => 5 "binary_tree" 0 0;
            255, 1310720 => 4 "split_binary_tree" 0 0;
            255, 5242880 => 4 "split_binary_tree" 16384 0;
            255, LONG => 3 "pipeline" 16384 0;
            ANY, 5120 => 7 "knomial" 0 0;
            ANY, 20480 => 5 "binary_tree" 0 0;
            ANY, 1310720 => 4 "split_binary_tree" 0 0;
            ANY, LONG => 4 "split_binary_tree" 16384 0;
        },
    },
    DecisionTable {
        collective: Collective::Gather,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            8, LONG => 1 "basic_linear" 0 0;
            16, 192 => 2 "binomial" 0 0;
            16, LONG => 1 "basic_linear" 0 0;
            32, 768 => 2 "binomial" 0 0;
            32, LONG => 1 "basic_linear" 0 0;
            64, 1536 => 2 "binomial" 0 0;
            64, LONG => 1 "basic_linear" 0 0;
            ANY, 1280 => 2 "binomial" 0 0;
            ANY, LONG => 1 "basic_linear" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Gather,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            7, LONG => 1 "basic_linear" 0 0;
            15, 384 => 2 "binomial" 0 0;
            15, LONG => 1 "basic_linear" 0 0;
            31, 768 => 2 "binomial" 0 0;
            31, LONG => 1 "basic_linear" 0 0;
            63, 1536 => 2 "binomial" 0 0;
            63, LONG => 1 "basic_linear" 0 0;
            ANY, 1280 => 2 "binomial" 0 0;
            ANY, LONG => 1 "basic_linear" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Scatter,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "basic_linear" 0 0;
            2, 3072 => 1 "basic_linear" 0 0;
            2, LONG => 2 "binomial" 0 0;
            4, 6144 => 1 "basic_linear" 0 0;
            4, LONG => 2 "binomial" 0 0;
            8, 12288 => 1 "basic_linear" 0 0;
            8, LONG => 2 "binomial" 0 0;
            16, 192 => 2 "binomial" 0 0;
            16, 12288 => 1 "basic_linear" 0 0;
            16, LONG => 2 "binomial" 0 0;
            32, 768 => 2 "binomial" 0 0;
            32, 12288 => 1 "basic_linear" 0 0;
            32, LONG => 2 "binomial" 0 0;
            64, 1536 => 2 "binomial" 0 0;
            64, 12288 => 1 "basic_linear" 0 0;
            64, LONG => 2 "binomial" 0 0;
            ANY, 1280 => 2 "binomial" 0 0;
            ANY, 20480 => 1 "basic_linear" 0 0;
            ANY, LONG => 2 "binomial" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Scatter,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            3, LONG => 2 "binomial" 0 0;
            7, 6144 => 1 "basic_linear" 0 0;
            7, LONG => 2 "binomial" 0 0;
            15, 192 => 2 "binomial" 0 0;
            15, 6144 => 1 "basic_linear" 0 0;
            15, LONG => 2 "binomial" 0 0;
            31, 768 => 2 "binomial" 0 0;
            31, 6144 => 1 "basic_linear" 0 0;
            31, LONG => 2 "binomial" 0 0;
            63, 1536 => 2 "binomial" 0 0;
            63, 6144 => 1 "basic_linear" 0 0;
            63, LONG => 2 "binomial" 0 0;
            ANY, 1280 => 2 "binomial" 0 0;
            ANY, 5120 => 1 "basic_linear" 0 0;
            ANY, LONG => 2 "binomial" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Allgather,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "linear" 0 0;
            2, LONG => 2 "bruck-k-fanout" 0 0;
            8, 12288 => 2 "bruck-k-fanout" 0 8;
            8, LONG => 2 "bruck-k-fanout" 0 0;
            32, 1536 => 2 "bruck-k-fanout" 0 8;
            32, 3072 => 8 "direct-messaging" 0 0;
            32, 12288 => 2 "bruck-k-fanout" 0 8;
            32, LONG => 2 "bruck-k-fanout" 0 0;
            64, 48 => 3 "recursive_doubling" 0 0;
            64, 1536 => 2 "bruck-k-fanout" 0 8;
            64, 3072 => 8 "direct-messaging" 0 0;
            64, 12288 => 2 "bruck-k-fanout" 0 8;
            64, LONG => 2 "bruck-k-fanout" 0 0;
            ANY, 80 => 3 "recursive_doubling" 0 0;
            ANY, 320 => 2 "bruck-k-fanout" 0 8;
            ANY, 1280 => 3 "recursive_doubling" 0 0;
            ANY, 5120 => 8 "direct-messaging" 0 0;
            ANY, 20480 => 2 "bruck-k-fanout" 0 8;
            ANY, LONG => 2 "bruck-k-fanout" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Allgather,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            7, LONG => 2 "bruck-k-fanout" 0 8;
            15, 384 => 2 "bruck-k-fanout" 0 8;
            15, 6144 => 8 "direct-messaging" 0 0;
            15, LONG => 2 "bruck-k-fanout" 0 8;
            63, 1536 => 2 "bruck-k-fanout" 0 8;
            63, 6144 => 8 "direct-messaging" 0 0;
            63, LONG => 2 "bruck-k-fanout" 0 8;
            95, 1280 => 2 "bruck-k-fanout" 0 8;
            95, 5120 => 8 "direct-messaging" 0 0;
            95, LONG => 2 "bruck-k-fanout" 0 8;
            ANY, 320 => 2 "bruck-k-fanout" 0 8;
            ANY, 1280 => 2 "bruck-k-fanout" 0 0;
            ANY, 5120 => 8 "direct-messaging" 0 0;
            ANY, LONG => 2 "bruck-k-fanout" 0 8;
        },
    },
    DecisionTable {
        collective: Collective::Allgatherv,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "default" 0 0;
            2, LONG => 2 "bruck" 0 0;
            16, 12288 => 32 "linear" 0 0;
            16, LONG => 2 "bruck" 0 0;
            32, 768 => 2 "bruck" 0 0;
            32, 12288 => 32 "linear" 0 0;
            32, LONG => 2 "bruck" 0 0;
            64, 1536 => 2 "bruck" 0 0;
            64, 12288 => 32 "linear" 0 0;
            64, LONG => 2 "bruck" 0 0;
            ANY, 1280 => 2 "bruck" 0 0;
            ANY, 20480 => 32 "linear" 0 0;
            ANY, LONG => 2 "bruck" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Allgatherv,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            15, LONG => 32 "linear" 0 0;
            31, 384 => 2 "bruck" 0 0;
            31, LONG => 32 "linear" 0 0;
            63, 768 => 2 "bruck" 0 0;
            63, LONG => 32 "linear" 0 0;
            ANY, 1280 => 2 "bruck" 0 0;
            ANY, LONG => 32 "linear" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Alltoall,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            8, LONG => 1 "linear" 0 0;
            16, 24 => 3 "modified_bruck" 0 0;
            16, LONG => 1 "linear" 0 0;
            32, 96 => 3 "modified_bruck" 0 0;
            32, LONG => 1 "linear" 0 0;
            64, 192 => 3 "modified_bruck" 0 0;
            64, LONG => 1 "linear" 0 0;
            ANY, 320 => 3 "modified_bruck" 0 0;
            ANY, LONG => 1 "linear" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Alltoall,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            15, LONG => 1 "linear" 0 0;
            31, 96 => 3 "modified_bruck" 0 0;
            31, LONG => 1 "linear" 0 0;
            63, 192 => 3 "modified_bruck" 0 0;
            63, LONG => 1 "linear" 0 0;
            ANY, 320 => 3 "modified_bruck" 0 0;
            ANY, LONG => 1 "linear" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Reduce,
        setup: Some(Setup::Dedicated),
        commutative: Some(true),
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "linear" 0 0;
            2, 24576 => 1 "linear" 0 0;
            2, LONG => 2 "chain" 16384 2;
            4, 24576 => 2 "chain" 0 0;
            4, 98304 => 7 "rabenseifner" 0 0;
            4, LONG => 3 "pipeline" 16384 0;
            8, 1536 => 2 "chain" 0 0;
            8, 3072 => 8 "knomial" 0 8;
            8, 12288 => 2 "chain" 0 0;
            8, 98304 => 7 "rabenseifner" 0 0;
            8, LONG => 3 "pipeline" 16384 0;
            16, 1536 => 8 "knomial" 0 0;
            16, 3072 => 8 "knomial" 0 8;
            16, 12288 => 8 "knomial" 0 0;
            16, 393216 => 7 "rabenseifner" 0 0;
            16, LONG => 3 "pipeline" 16384 0;
            32, 1536 => 8 "knomial" 0 0;
            32, 3072 => 8 "knomial" 0 8;
            32, 12288 => 8 "knomial" 0 0;
            32, 393216 => 7 "rabenseifner" 0 0;
            32, 786432 => 4 "binary" 16384 0;
            32, LONG => 3 "pipeline" 16384 0;
            64, 1536 => 8 "knomial" 0 0;
            64, 3072 => 8 "knomial" 0 8;
            64, 12288 => 8 "knomial" 0 0;
            64, 393216 => 7 "rabenseifner" 0 0;
            64, 1572864 => 4 "binary" 16384 0;
            64, LONG => 3 "pipeline" 16384 0;
            256, 1280 => 8 "knomial" 0 0;
            256, 5120 => 8 "knomial" 0 8;
            256, 20480 => 8 "knomial" 0 0;
            256, 327680 => 7 "rabenseifner" 0 0;
            256, 5242880 => 4 "binary" 16384 0;
            256, LONG => 3 "pipeline" 16384 0;
            ANY, 1280 => 8 "knomial" 0 0;
            ANY, 5120 => 8 "knomial" 0 8;
            ANY, 20480 => 8 "knomial" 0 0;
            ANY, 327680 => 7 "rabenseifner" 0 0;
            ANY, LONG => 4 "binary" 16384 0;
        },
    },
    DecisionTable {
        collective: Collective::Reduce,
        setup: Some(Setup::Dedicated),
        commutative: Some(true),
        powers_of_two: Some(false),
        rows: rows! {
            3, 24576 => 2 "chain" 0 2;
            3, 49152 => 2 "chain" 16384 2;
            3, LONG => 3 "pipeline" 16384 0;
            5, 6144 => 2 "chain" 0 0;
            5, 24576 => 2 "chain" 0 2;
            5, 49152 => 2 "chain" 16384 2;
            5, LONG => 3 "pipeline" 16384 0;
            6, 192 => 2 "chain" 0 0;
            6, 24576 => 8 "knomial" 0 0;
            6, 49152 => 2 "chain" 16384 2;
            6, LONG => 3 "pipeline" 16384 0;
            7, 192 => 2 "chain" 0 0;
            7, 24576 => 8 "knomial" 0 0;
            7, 98304 => 2 "chain" 16384 2;
            7, LONG => 3 "pipeline" 16384 0;
            15, 24576 => 8 "knomial" 0 0;
            15, 196608 => 4 "binary" 16384 0;
            15, LONG => 3 "pipeline" 16384 0;
            31, 12288 => 8 "knomial" 0 0;
            31, 49152 => 7 "rabenseifner" 0 0;
            31, 393216 => 4 "binary" 16384 0;
            31, LONG => 3 "pipeline" 16384 0;
            63, 12288 => 8 "knomial" 0 0;
            63, 49152 => 7 "rabenseifner" 0 0;
            63, 786432 => 4 "binary" 16384 0;
            63, LONG => 3 "pipeline" 16384 0;
            95, 20480 => 8 "knomial" 0 0;
            95, 81920 => 7 "rabenseifner" 0 0;
            95, 1310720 => 4 "binary" 16384 0;
            95, LONG => 3 "pipeline" 16384 0;
            ANY, 20480 => 8 "knomial" 0 0;
            ANY, 81920 => 7 "rabenseifner" 0 0;
            ANY, 5242880 => 4 "binary" 16384 0;
            ANY, LONG => 3 "pipeline" 16384 0;
        },
    },
    DecisionTable {
        collective: Collective::Reduce,
        setup: Some(Setup::Dedicated),
        commutative: Some(false),
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "linear" 0 0;
            2, 24576 => 1 "linear" 0 0;
            2, LONG => 2 "chain" 16384 2;
            4, 24576 => 2 "chain" 0 0;
            4, 49152 => 2 "chain" 16384 2;
            4, LONG => 3 "pipeline" 16384 0;
            8, 1536 => 2 "chain" 0 0;
            8, 3072 => 8 "knomial" 0 8;
            8, 24576 => 2 "chain" 0 0;
            8, 98304 => 2 "chain" 16384 2;
            8, LONG => 3 "pipeline" 16384 0;
            16, 1536 => 8 "knomial" 0 0;
            16, 3072 => 8 "knomial" 0 8;
            16, 49152 => 8 "knomial" 0 0;
            16, 196608 => 6 "in-order_binary" 16384 0;
            16, LONG => 3 "pipeline" 16384 0;
            32, 1536 => 8 "knomial" 0 0;
            32, 3072 => 8 "knomial" 0 8;
            32, 49152 => 8 "knomial" 0 0;
            32, 393216 => 6 "in-order_binary" 16384 0;
            32, LONG => 3 "pipeline" 16384 0;
            64, 1536 => 8 "knomial" 0 0;
            64, 3072 => 8 "knomial" 0 8;
            64, 49152 => 8 "knomial" 0 0;
            64, 786432 => 6 "in-order_binary" 16384 0;
            64, LONG => 3 "pipeline" 16384 0;
            128, 1280 => 8 "knomial" 0 0;
            128, 5120 => 8 "knomial" 0 8;
            128, 20480 => 8 "knomial" 0 0;
            128, 1310720 => 6 "in-order_binary" 16384 0;
            128, LONG => 3 "pipeline" 16384 0;
            256, 1280 => 8 "knomial" 0 0;
            256, 5120 => 8 "knomial" 0 8;
            256, 20480 => 8 "knomial" 0 0;
            256, 5242880 => 6 "in-order_binary" 16384 0;
            256, LONG => 3 "pipeline" 16384 0;
            ANY, 1280 => 8 "knomial" 0 0;
            ANY, 5120 => 8 "knomial" 0 8;
            ANY, 20480 => 8 "knomial" 0 0;
            ANY, LONG => 6 "in-order_binary" 16384 0;
        },
    },
    DecisionTable {
        collective: Collective::Reduce,
        setup: Some(Setup::Dedicated),
        commutative: Some(false),
        powers_of_two: Some(false),
        rows: rows! {
            3, 24576 => 2 "chain" 0 2;
            3, 49152 => 2 "chain" 16384 2;
            3, LONG => 3 "pipeline" 16384 0;
            5, 6144 => 2 "chain" 0 0;
            5, 24576 => 2 "chain" 0 2;
            5, 49152 => 2 "chain" 16384 2;
            5, LONG => 3 "pipeline" 16384 0;
            6, 192 => 2 "chain" 0 0;
            6, 24576 => 8 "knomial" 0 0;
            6, 49152 => 2 "chain" 16384 2;
            6, LONG => 3 "pipeline" 16384 0;
            7, 192 => 2 "chain" 0 0;
            7, 24576 => 8 "knomial" 0 0;
            7, 98304 => 2 "chain" 16384 2;
            7, LONG => 3 "pipeline" 16384 0;
            15, 24576 => 8 "knomial" 0 0;
            15, 196608 => 2 "chain" 16384 2;
            15, LONG => 3 "pipeline" 16384 0;
            31, 49152 => 8 "knomial" 0 0;
            31, 393216 => 6 "in-order_binary" 16384 0;
            31, LONG => 3 "pipeline" 16384 0;
            63, 24576 => 8 "knomial" 0 0;
            63, 786432 => 6 "in-order_binary" 16384 0;
            63, LONG => 3 "pipeline" 16384 0;
            127, 20480 => 8 "knomial" 0 0;
            127, 1310720 => 6 "in-order_binary" 16384 0;
            127, LONG => 3 "pipeline" 16384 0;
            ANY, 20480 => 8 "knomial" 0 0;
            ANY, 5242880 => 6 "in-order_binary" 16384 0;
            ANY, LONG => 3 "pipeline" 16384 0;
        },
    },
    DecisionTable {
        collective: Collective::Allreduce,
        setup: Some(Setup::Dedicated),
        commutative: Some(true),
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "basic_linear" 0 0;
            2, 49152 => 3 "recursive_doubling" 0 0;
            2, LONG => 4 "ring" 0 0;
            4, 12288 => 3 "recursive_doubling" 0 0;
            4, 49152 => 6 "rabenseifner" 0 0;
            4, LONG => 4 "ring" 0 0;
            8, 12288 => 3 "recursive_doubling" 0 0;
            8, 196608 => 6 "rabenseifner" 0 0;
            8, LONG => 4 "ring" 0 0;
            16, 6144 => 3 "recursive_doubling" 0 0;
            16, 393216 => 6 "rabenseifner" 0 0;
            16, LONG => 4 "ring" 0 0;
            32, 6144 => 3 "recursive_doubling" 0 0;
            32, 786432 => 6 "rabenseifner" 0 0;
            32, LONG => 4 "ring" 0 0;
            64, 6144 => 3 "recursive_doubling" 0 0;
            64, 1572864 => 6 "rabenseifner" 0 0;
            64, LONG => 4 "ring" 0 0;
            128, 5120 => 3 "recursive_doubling" 0 0;
            128, 5242880 => 6 "rabenseifner" 0 0;
            128, LONG => 4 "ring" 0 0;
            ANY, 5120 => 3 "recursive_doubling" 0 0;
            ANY, LONG => 6 "rabenseifner" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Allreduce,
        setup: Some(Setup::Dedicated),
        commutative: Some(true),
        powers_of_two: Some(false),
        rows: rows! {
            3, 6144 => 7 "allgather_reduce" 0 0;
            3, LONG => 4 "ring" 0 0;
            7, 1536 => 7 "allgather_reduce" 0 0;
            7, 12288 => 3 "recursive_doubling" 0 0;
            7, LONG => 4 "ring" 0 0;
            15, 192 => 7 "allgather_reduce" 0 0;
            15, 12288 => 3 "recursive_doubling" 0 0;
            15, 49152 => 6 "rabenseifner" 0 0;
            15, LONG => 4 "ring" 0 0;
            31, 12 => 7 "allgather_reduce" 0 0;
            31, 12288 => 3 "recursive_doubling" 0 0;
            31, 98304 => 6 "rabenseifner" 0 0;
            31, LONG => 4 "ring" 0 0;
            63, 6144 => 3 "recursive_doubling" 0 0;
            63, 196608 => 6 "rabenseifner" 0 0;
            63, LONG => 4 "ring" 0 0;
            127, 5120 => 3 "recursive_doubling" 0 0;
            127, 327680 => 6 "rabenseifner" 0 0;
            127, LONG => 4 "ring" 0 0;
            ANY, 5120 => 3 "recursive_doubling" 0 0;
            ANY, 1310720 => 6 "rabenseifner" 0 0;
            ANY, LONG => 4 "ring" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Allreduce,
        setup: Some(Setup::Dedicated),
        commutative: Some(false),
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "basic_linear" 0 0;
            ANY, LONG => 3 "recursive_doubling" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Allreduce,
        setup: Some(Setup::Dedicated),
        commutative: Some(false),
        powers_of_two: Some(false),
        rows: rows! {
            3, LONG => 7 "allgather_reduce" 0 0;
            7, 1536 => 7 "allgather_reduce" 0 0;
            7, LONG => 3 "recursive_doubling" 0 0;
            15, 192 => 7 "allgather_reduce" 0 0;
            15, LONG => 3 "recursive_doubling" 0 0;
            31, 12 => 7 "allgather_reduce" 0 0;
            31, LONG => 3 "recursive_doubling" 0 0;
            ANY, LONG => 3 "recursive_doubling" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatterBlock,
        setup: Some(Setup::Dedicated),
        commutative: Some(true),
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 2 "recursive_doubling" 0 0;
            2, 6144 => 2 "recursive_doubling" 0 0;
            2, LONG => 3 "recursive_halving" 0 0;
            4, 96 => 2 "recursive_doubling" 0 0;
            4, LONG => 3 "recursive_halving" 0 0;
            ANY, LONG => 3 "recursive_halving" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatterBlock,
        setup: Some(Setup::Dedicated),
        commutative: Some(true),
        powers_of_two: Some(false),
        rows: rows! {
            3, LONG => 34 "pairwise" 0 0;
            5, 384 => 2 "recursive_doubling" 0 0;
            5, LONG => 34 "pairwise" 0 0;
            7, 192 => 3 "recursive_halving" 0 0;
            7, 768 => 2 "recursive_doubling" 0 0;
            7, LONG => 34 "pairwise" 0 0;
            15, 1536 => 3 "recursive_halving" 0 0;
            15, LONG => 34 "pairwise" 0 0;
            63, 3072 => 3 "recursive_halving" 0 0;
            63, LONG => 34 "pairwise" 0 0;
            ANY, 5120 => 3 "recursive_halving" 0 0;
            ANY, LONG => 34 "pairwise" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatterBlock,
        setup: Some(Setup::Dedicated),
        commutative: Some(false),
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 2 "recursive_doubling" 0 0;
            2, 6144 => 2 "recursive_doubling" 0 0;
            2, LONG => 4 "butterfly" 0 0;
            4, 3072 => 2 "recursive_doubling" 0 0;
            4, 6144 => 34 "pairwise" 0 0;
            4, LONG => 4 "butterfly" 0 0;
            8, 768 => 2 "recursive_doubling" 0 0;
            8, LONG => 4 "butterfly" 0 0;
            16, 192 => 2 "recursive_doubling" 0 0;
            16, LONG => 4 "butterfly" 0 0;
            32, 48 => 2 "recursive_doubling" 0 0;
            32, LONG => 4 "butterfly" 0 0;
            64, 12 => 2 "recursive_doubling" 0 0;
            64, LONG => 4 "butterfly" 0 0;
            ANY, LONG => 4 "butterfly" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatterBlock,
        setup: Some(Setup::Dedicated),
        commutative: Some(false),
        powers_of_two: Some(false),
        rows: rows! {
            3, LONG => 34 "pairwise" 0 0;
            7, 384 => 2 "recursive_doubling" 0 0;
            7, LONG => 34 "pairwise" 0 0;
            15, 384 => 2 "recursive_doubling" 0 0;
            15, 1536 => 4 "butterfly" 0 0;
            15, LONG => 34 "pairwise" 0 0;
            31, 48 => 2 "recursive_doubling" 0 0;
            31, 3072 => 4 "butterfly" 0 0;
            31, LONG => 34 "pairwise" 0 0;
            63, 12 => 2 "recursive_doubling" 0 0;
            63, 3072 => 4 "butterfly" 0 0;
            63, LONG => 34 "pairwise" 0 0;
            95, 20 => 2 "recursive_doubling" 0 0;
            95, 5120 => 4 "butterfly" 0 0;
            95, LONG => 34 "pairwise" 0 0;
            ANY, 5120 => 4 "butterfly" 0 0;
            ANY, LONG => 34 "pairwise" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatter,
        setup: Some(Setup::Dedicated),
        commutative: Some(true),
        powers_of_two: Some(true),
        rows: rows! {
            ANY, LONG => 2 "recursive_halving" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatter,
        setup: Some(Setup::Dedicated),
        commutative: Some(true),
        powers_of_two: Some(false),
        rows: rows! {
            3, LONG => 3 "ring" 0 0;
            5, 384 => 2 "recursive_halving" 0 0;
            5, LONG => 3 "ring" 0 0;
            7, 768 => 2 "recursive_halving" 0 0;
            7, LONG => 3 "ring" 0 0;
            15, 1536 => 2 "recursive_halving" 0 0;
            15, LONG => 3 "ring" 0 0;
            63, 3072 => 2 "recursive_halving" 0 0;
            63, LONG => 3 "ring" 0 0;
            ANY, 5120 => 2 "recursive_halving" 0 0;
            ANY, LONG => 3 "ring" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatter,
        setup: Some(Setup::Dedicated),
        commutative: Some(false),
        powers_of_two: Some(true),
        rows: rows! {
            ANY, LONG => 4 "butterfly" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatter,
        setup: Some(Setup::Dedicated),
        commutative: Some(false),
        powers_of_two: Some(false),
        rows: rows! {
            6, LONG => 34 "pairwise" 0 0;
            7, 384 => 4 "butterfly" 0 0;
            7, LONG => 34 "pairwise" 0 0;
            15, 1536 => 4 "butterfly" 0 0;
            15, LONG => 34 "pairwise" 0 0;
            63, 3072 => 4 "butterfly" 0 0;
            63, LONG => 34 "pairwise" 0 0;
            ANY, 5120 => 4 "butterfly" 0 0;
            ANY, LONG => 34 "pairwise" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Scan,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            2, LONG => 1 "linear" 0 0;
            ANY, LONG => 2 "recursive_doubling" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Scan,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            ANY, LONG => 2 "recursive_doubling" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Exscan,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            2, LONG => 1 "linear" 0 0;
            ANY, LONG => 2 "recursive_doubling" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Exscan,
        setup: Some(Setup::Dedicated),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            3, LONG => 1 "linear" 0 0;
            ANY, LONG => 2 "recursive_doubling" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Barrier,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "linear" 0 0;
            4, LONG => 3 "recursive_doubling" 0 0;
            256, LONG => 1 "linear" 0 0;
            ANY, LONG => 3 "recursive_doubling" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Barrier,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            255, LONG => 1 "linear" 0 0;
            ANY, LONG => 3 "recursive_doubling" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Bcast,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "basic_linear" 0 0;
            4, 196608 => 1 "basic_linear" 0 0;
            4, 393216 => 8 "scatter_allgather" 0 0;
            4, LONG => 1 "basic_linear" 0 0;
            8, 98304 => 1 "basic_linear" 0 0;
            8, 196608 => 7 "knomial" 0 0;
            8, 393216 => 8 "scatter_allgather" 0 0;
            8, LONG => 1 "basic_linear" 0 0;
            16, 24576 => 1 "basic_linear" 0 0;
            16, 196608 => 7 "knomial" 0 0;
            16, 393216 => 8 "scatter_allgather" 0 0;
            16, LONG => 1 "basic_linear" 0 0;
            32, 12288 => 1 "basic_linear" 0 0;
            32, 24576 => 7 "knomial" 0 8;
            32, 196608 => 7 "knomial" 0 0;
            32, 393216 => 8 "scatter_allgather" 0 0;
            32, LONG => 1 "basic_linear" 0 0;
            64, 3072 => 1 "basic_linear" 0 0;
            64, 24576 => 7 "knomial" 0 8;
            64, 196608 => 7 "knomial" 0 0;
            64, 393216 => 8 "scatter_allgather" 0 0;
            64, LONG => 1 "basic_linear" 0 0;
            128, 5120 => 1 "basic_linear" 0 0;
            128, 20480 => 7 "knomial" 0 8;
            128, 327680 => 7 "knomial" 0 0;
            128, LONG => 1 "basic_linear" 0 0;
            256, 20480 => 7 "knomial" 0 8;
            256, 5242880 => 7 "knomial" 0 0;
            256, LONG => 1 "basic_linear" 0 0;
            ANY, 20480 => 7 "knomial" 0 8;
            ANY, 327680 => 7 "knomial" 0 0;
            ANY, LONG => 7 "knomial" 0 8;
        },
    },
    DecisionTable {
        collective: Collective::Bcast,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            5, 196608 => 1 "basic_linear" 0 0;
            5, 393216 => 8 "scatter_allgather" 0 0;
            5, LONG => 1 "basic_linear" 0 0;
            7, 98304 => 1 "basic_linear" 0 0;
            7, 196608 => 6 "binomial" 0 0;
            7, 393216 => 8 "scatter_allgather" 0 0;
            7, LONG => 1 "basic_linear" 0 0;
            15, 24576 => 1 "basic_linear" 0 0;
            15, 98304 => 7 "knomial" 0 8;
            15, 196608 => 6 "binomial" 0 0;
            15, 393216 => 8 "scatter_allgather" 0 0;
            15, LONG => 1 "basic_linear" 0 0;
            31, 12288 => 1 "basic_linear" 0 0;
            31, 98304 => 7 "knomial" 0 8;
            31, 196608 => 6 "binomial" 0 0;
            31, 393216 => 8 "scatter_allgather" 0 0;
            31, LONG => 1 "basic_linear" 0 0;
            63, 6144 => 1 "basic_linear" 0 0;
            63, 49152 => 7 "knomial" 0 8;
            63, 98304 => 7 "knomial" 0 0;
            63, 196608 => 6 "binomial" 0 0;
            63, 393216 => 8 "scatter_allgather" 0 0;
            63, LONG => 1 "basic_linear" 0 0;
            191, 5120 => 1 "basic_linear" 0 0;
            191, 81920 => 7 "knomial" 0 8;
            191, 327680 => 6 "binomial" 0 0;
            191, LONG => 1 "basic_linear" 0 0;
            255, 81920 => 7 "knomial" 0 8;
            255, 327680 => 6 "binomial" 0 0;
            255, 5242880 => 7 "knomial" 0 8;
            255, LONG => 1 "basic_linear" 0 0;
            ANY, 81920 => 7 "knomial" 0 8;
            ANY, 327680 => 6 "binomial" 0 0;
            ANY, LONG => 7 "knomial" 0 8;
        },
    },
    DecisionTable {
        collective: Collective::Gather,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            ANY, LONG => 1 "basic_linear" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Gather,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            ANY, LONG => 1 "basic_linear" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Scatter,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "basic_linear" 0 0;
            2, 24576 => 1 "basic_linear" 0 0;
            2, LONG => 2 "binomial" 0 0;
            ANY, LONG => 1 "basic_linear" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Scatter,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            3, LONG => 2 "binomial" 0 0;
            ANY, LONG => 1 "basic_linear" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Allgather,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "linear" 0 0;
            2, LONG => 2 "bruck-k-fanout" 0 0;
            4, 24576 => 2 "bruck-k-fanout" 0 8;
            4, 98304 => 2 "bruck-k-fanout" 0 0;
            4, 196608 => 2 "bruck-k-fanout" 0 8;
            4, LONG => 2 "bruck-k-fanout" 0 0;
            8, 24576 => 2 "bruck-k-fanout" 0 8;
            8, 49152 => 2 "bruck-k-fanout" 0 0;
            8, 196608 => 2 "bruck-k-fanout" 0 8;
            8, LONG => 2 "bruck-k-fanout" 0 0;
            32, 192 => 1 "linear" 0 0;
            32, 24576 => 2 "bruck-k-fanout" 0 8;
            32, 196608 => 8 "direct-messaging" 0 0;
            32, LONG => 2 "bruck-k-fanout" 0 0;
            64, 48 => 1 "linear" 0 0;
            64, 24576 => 2 "bruck-k-fanout" 0 8;
            64, 196608 => 8 "direct-messaging" 0 0;
            64, LONG => 2 "bruck-k-fanout" 0 0;
            128, 20480 => 2 "bruck-k-fanout" 0 8;
            128, LONG => 8 "direct-messaging" 0 0;
            ANY, 5120 => 2 "bruck-k-fanout" 0 8;
            ANY, LONG => 8 "direct-messaging" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Allgather,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            3, LONG => 2 "bruck-k-fanout" 0 8;
            5, 196608 => 2 "bruck-k-fanout" 0 8;
            5, 393216 => 1 "linear" 0 0;
            5, LONG => 2 "bruck-k-fanout" 0 8;
            7, 196608 => 2 "bruck-k-fanout" 0 8;
            7, 786432 => 1 "linear" 0 0;
            7, LONG => 2 "bruck-k-fanout" 0 8;
            15, 12288 => 8 "direct-messaging" 0 0;
            15, 24576 => 2 "bruck-k-fanout" 0 8;
            15, 196608 => 8 "direct-messaging" 0 0;
            15, 786432 => 1 "linear" 0 0;
            15, LONG => 2 "bruck-k-fanout" 0 8;
            31, 192 => 1 "linear" 0 0;
            31, 3072 => 2 "bruck-k-fanout" 0 8;
            31, 12288 => 8 "direct-messaging" 0 0;
            31, 24576 => 2 "bruck-k-fanout" 0 8;
            31, 196608 => 8 "direct-messaging" 0 0;
            31, 786432 => 1 "linear" 0 0;
            31, LONG => 2 "bruck-k-fanout" 0 8;
            63, 96 => 1 "linear" 0 0;
            63, 24576 => 2 "bruck-k-fanout" 0 8;
            63, 196608 => 8 "direct-messaging" 0 0;
            63, 786432 => 1 "linear" 0 0;
            63, LONG => 2 "bruck-k-fanout" 0 8;
            95, 80 => 1 "linear" 0 0;
            95, 20480 => 2 "bruck-k-fanout" 0 8;
            95, LONG => 8 "direct-messaging" 0 0;
            127, 20 => 1 "linear" 0 0;
            127, 5120 => 2 "bruck-k-fanout" 0 8;
            127, LONG => 8 "direct-messaging" 0 0;
            ANY, 5120 => 2 "bruck-k-fanout" 0 8;
            ANY, LONG => 8 "direct-messaging" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Allgatherv,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "default" 0 0;
            2, LONG => 2 "bruck" 0 0;
            4, 24576 => 32 "linear" 0 0;
            4, 98304 => 2 "bruck" 0 0;
            4, 196608 => 32 "linear" 0 0;
            4, LONG => 2 "bruck" 0 0;
            8, 24576 => 32 "linear" 0 0;
            8, 49152 => 2 "bruck" 0 0;
            8, 196608 => 32 "linear" 0 0;
            8, LONG => 2 "bruck" 0 0;
            16, 196608 => 32 "linear" 0 0;
            16, LONG => 2 "bruck" 0 0;
            32, 192 => 1 "default" 0 0;
            32, 196608 => 32 "linear" 0 0;
            32, LONG => 2 "bruck" 0 0;
            64, 192 => 1 "default" 0 0;
            64, 3072 => 2 "bruck" 0 0;
            64, 196608 => 32 "linear" 0 0;
            64, LONG => 2 "bruck" 0 0;
            128, 80 => 1 "default" 0 0;
            128, 5120 => 2 "bruck" 0 0;
            128, LONG => 32 "linear" 0 0;
            256, 20 => 1 "default" 0 0;
            256, 5120 => 2 "bruck" 0 0;
            256, LONG => 32 "linear" 0 0;
            ANY, 5120 => 2 "bruck" 0 0;
            ANY, LONG => 32 "linear" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Allgatherv,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            3, LONG => 32 "linear" 0 0;
            5, 196608 => 32 "linear" 0 0;
            5, 393216 => 1 "default" 0 0;
            5, LONG => 32 "linear" 0 0;
            7, 196608 => 32 "linear" 0 0;
            7, 786432 => 1 "default" 0 0;
            7, LONG => 32 "linear" 0 0;
            15, 196608 => 32 "linear" 0 0;
            15, 1572864 => 1 "default" 0 0;
            15, LONG => 32 "linear" 0 0;
            31, 192 => 1 "default" 0 0;
            31, 196608 => 32 "linear" 0 0;
            31, 786432 => 1 "default" 0 0;
            31, 1572864 => 2 "bruck" 0 0;
            31, LONG => 32 "linear" 0 0;
            63, 192 => 1 "default" 0 0;
            63, 196608 => 32 "linear" 0 0;
            63, 786432 => 1 "default" 0 0;
            63, 3145728 => 2 "bruck" 0 0;
            63, LONG => 32 "linear" 0 0;
            127, 80 => 1 "default" 0 0;
            127, 5120 => 2 "bruck" 0 0;
            127, LONG => 32 "linear" 0 0;
            255, 20 => 1 "default" 0 0;
            255, 5120 => 2 "bruck" 0 0;
            255, LONG => 32 "linear" 0 0;
            ANY, 5120 => 2 "bruck" 0 0;
            ANY, LONG => 32 "linear" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Alltoall,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            32, LONG => 1 "linear" 0 0;
            64, 96 => 3 "modified_bruck" 0 0;
            64, LONG => 1 "linear" 0 0;
            ANY, 320 => 3 "modified_bruck" 0 0;
            ANY, LONG => 1 "linear" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Alltoall,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            63, LONG => 1 "linear" 0 0;
            ANY, 320 => 3 "modified_bruck" 0 0;
            ANY, LONG => 1 "linear" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Reduce,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(true),
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "linear" 0 0;
            2, 196608 => 1 "linear" 0 0;
            2, 393216 => 7 "rabenseifner" 0 0;
            2, LONG => 1 "linear" 0 0;
            4, 24576 => 1 "linear" 0 0;
            4, 196608 => 8 "knomial" 0 0;
            4, 393216 => 7 "rabenseifner" 0 0;
            4, 3145728 => 1 "linear" 0 0;
            4, LONG => 7 "rabenseifner" 0 0;
            32, 6144 => 1 "linear" 0 0;
            32, 24576 => 8 "knomial" 0 8;
            32, 196608 => 8 "knomial" 0 0;
            32, LONG => 7 "rabenseifner" 0 0;
            64, 768 => 1 "linear" 0 0;
            64, 24576 => 8 "knomial" 0 8;
            64, 196608 => 8 "knomial" 0 0;
            64, LONG => 7 "rabenseifner" 0 0;
            ANY, 20480 => 8 "knomial" 0 8;
            ANY, 327680 => 8 "knomial" 0 0;
            ANY, LONG => 7 "rabenseifner" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Reduce,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(true),
        powers_of_two: Some(false),
        rows: rows! {
            3, LONG => 8 "knomial" 0 0;
            5, 196608 => 8 "knomial" 0 0;
            5, 393216 => 7 "rabenseifner" 0 0;
            5, LONG => 8 "knomial" 0 0;
            7, 24576 => 8 "knomial" 0 8;
            7, 196608 => 8 "knomial" 0 0;
            7, 393216 => 7 "rabenseifner" 0 0;
            7, LONG => 8 "knomial" 0 0;
            15, 3072 => 1 "linear" 0 0;
            15, 24576 => 8 "knomial" 0 8;
            15, 196608 => 8 "knomial" 0 0;
            15, 393216 => 7 "rabenseifner" 0 0;
            15, 3145728 => 8 "knomial" 0 0;
            15, LONG => 7 "rabenseifner" 0 0;
            63, 3072 => 1 "linear" 0 0;
            63, 24576 => 8 "knomial" 0 8;
            63, 196608 => 8 "knomial" 0 0;
            63, LONG => 7 "rabenseifner" 0 0;
            95, 1280 => 1 "linear" 0 0;
            95, 20480 => 8 "knomial" 0 8;
            95, 327680 => 8 "knomial" 0 0;
            95, LONG => 7 "rabenseifner" 0 0;
            ANY, 20480 => 8 "knomial" 0 8;
            ANY, 327680 => 8 "knomial" 0 0;
            ANY, LONG => 7 "rabenseifner" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Reduce,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(false),
        powers_of_two: Some(true),
        rows: rows! {
            2, LONG => 1 "linear" 0 0;
            4, 24576 => 1 "linear" 0 0;
            4, 196608 => 8 "knomial" 0 0;
            4, LONG => 1 "linear" 0 0;
            8, 6144 => 1 "linear" 0 0;
            8, 24576 => 8 "knomial" 0 8;
            8, 196608 => 8 "knomial" 0 0;
            8, 393216 => 1 "linear" 0 0;
            8, LONG => 8 "knomial" 0 0;
            32, 6144 => 1 "linear" 0 0;
            32, 24576 => 8 "knomial" 0 8;
            32, LONG => 8 "knomial" 0 0;
            64, 768 => 1 "linear" 0 0;
            64, 24576 => 8 "knomial" 0 8;
            64, LONG => 8 "knomial" 0 0;
            ANY, 20480 => 8 "knomial" 0 8;
            ANY, LONG => 8 "knomial" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Reduce,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(false),
        powers_of_two: Some(false),
        rows: rows! {
            5, LONG => 8 "knomial" 0 0;
            7, 24576 => 8 "knomial" 0 8;
            7, LONG => 8 "knomial" 0 0;
            63, 3072 => 1 "linear" 0 0;
            63, 24576 => 8 "knomial" 0 8;
            63, LONG => 8 "knomial" 0 0;
            95, 1280 => 1 "linear" 0 0;
            95, 20480 => 8 "knomial" 0 8;
            95, LONG => 8 "knomial" 0 0;
            ANY, 20480 => 8 "knomial" 0 8;
            ANY, LONG => 8 "knomial" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Allreduce,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(true),
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "basic_linear" 0 0;
            2, 98304 => 3 "recursive_doubling" 0 0;
            2, 393216 => 4 "ring" 0 0;
            2, 786432 => 1 "basic_linear" 0 0;
            2, LONG => 4 "ring" 0 0;
            4, 49152 => 3 "recursive_doubling" 0 0;
            4, 98304 => 6 "rabenseifner" 0 0;
            4, 786432 => 4 "ring" 0 0;
            4, 1572864 => 6 "rabenseifner" 0 0;
            4, LONG => 4 "ring" 0 0;
            8, 24576 => 1 "basic_linear" 0 0;
            8, 49152 => 3 "recursive_doubling" 0 0;
            8, 393216 => 6 "rabenseifner" 0 0;
            8, 1572864 => 4 "ring" 0 0;
            8, 6291456 => 6 "rabenseifner" 0 0;
            8, LONG => 4 "ring" 0 0;
            16, 24576 => 1 "basic_linear" 0 0;
            16, 49152 => 3 "recursive_doubling" 0 0;
            16, 393216 => 6 "rabenseifner" 0 0;
            16, 3145728 => 4 "ring" 0 0;
            16, LONG => 6 "rabenseifner" 0 0;
            32, 12288 => 1 "basic_linear" 0 0;
            32, 24576 => 3 "recursive_doubling" 0 0;
            32, 786432 => 6 "rabenseifner" 0 0;
            32, 3145728 => 4 "ring" 0 0;
            32, LONG => 6 "rabenseifner" 0 0;
            64, 6144 => 1 "basic_linear" 0 0;
            64, 24576 => 3 "recursive_doubling" 0 0;
            64, 1572864 => 6 "rabenseifner" 0 0;
            64, 3145728 => 4 "ring" 0 0;
            64, LONG => 6 "rabenseifner" 0 0;
            128, 5120 => 1 "basic_linear" 0 0;
            128, 20480 => 3 "recursive_doubling" 0 0;
            128, LONG => 6 "rabenseifner" 0 0;
            ANY, 20480 => 3 "recursive_doubling" 0 0;
            ANY, LONG => 6 "rabenseifner" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Allreduce,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(true),
        powers_of_two: Some(false),
        rows: rows! {
            3, 49152 => 1 "basic_linear" 0 0;
            3, LONG => 4 "ring" 0 0;
            5, 49152 => 1 "basic_linear" 0 0;
            5, 786432 => 4 "ring" 0 0;
            5, 1572864 => 1 "basic_linear" 0 0;
            5, LONG => 4 "ring" 0 0;
            6, 49152 => 1 "basic_linear" 0 0;
            6, 98304 => 2 "nonoverlapping" 0 0;
            6, 786432 => 4 "ring" 0 0;
            6, 1572864 => 1 "basic_linear" 0 0;
            6, LONG => 4 "ring" 0 0;
            7, 49152 => 1 "basic_linear" 0 0;
            7, 196608 => 2 "nonoverlapping" 0 0;
            7, 786432 => 4 "ring" 0 0;
            7, 3145728 => 1 "basic_linear" 0 0;
            7, LONG => 4 "ring" 0 0;
            15, 24576 => 1 "basic_linear" 0 0;
            15, 196608 => 2 "nonoverlapping" 0 0;
            15, 393216 => 6 "rabenseifner" 0 0;
            15, 1572864 => 4 "ring" 0 0;
            15, 12582912 => 6 "rabenseifner" 0 0;
            15, LONG => 4 "ring" 0 0;
            31, 12288 => 1 "basic_linear" 0 0;
            31, 24576 => 3 "recursive_doubling" 0 0;
            31, 98304 => 2 "nonoverlapping" 0 0;
            31, 393216 => 6 "rabenseifner" 0 0;
            31, 3145728 => 4 "ring" 0 0;
            31, LONG => 6 "rabenseifner" 0 0;
            63, 6144 => 1 "basic_linear" 0 0;
            63, 24576 => 3 "recursive_doubling" 0 0;
            63, 98304 => 2 "nonoverlapping" 0 0;
            63, 786432 => 6 "rabenseifner" 0 0;
            63, 6291456 => 4 "ring" 0 0;
            63, LONG => 6 "rabenseifner" 0 0;
            191, 5120 => 1 "basic_linear" 0 0;
            191, 20480 => 3 "recursive_doubling" 0 0;
            191, 81920 => 2 "nonoverlapping" 0 0;
            191, LONG => 6 "rabenseifner" 0 0;
            ANY, 20480 => 3 "recursive_doubling" 0 0;
            ANY, 81920 => 2 "nonoverlapping" 0 0;
            ANY, LONG => 6 "rabenseifner" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Allreduce,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(false),
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 1 "basic_linear" 0 0;
            4, 196608 => 3 "recursive_doubling" 0 0;
            4, LONG => 1 "basic_linear" 0 0;
            8, 24576 => 1 "basic_linear" 0 0;
            8, 49152 => 3 "recursive_doubling" 0 0;
            8, 196608 => 2 "nonoverlapping" 0 0;
            8, LONG => 1 "basic_linear" 0 0;
            16, 24576 => 1 "basic_linear" 0 0;
            16, 49152 => 3 "recursive_doubling" 0 0;
            16, 196608 => 2 "nonoverlapping" 0 0;
            16, 786432 => 1 "basic_linear" 0 0;
            16, LONG => 2 "nonoverlapping" 0 0;
            32, 12288 => 1 "basic_linear" 0 0;
            32, 49152 => 3 "recursive_doubling" 0 0;
            32, LONG => 2 "nonoverlapping" 0 0;
            64, 6144 => 1 "basic_linear" 0 0;
            64, 49152 => 3 "recursive_doubling" 0 0;
            64, LONG => 2 "nonoverlapping" 0 0;
            128, 5120 => 1 "basic_linear" 0 0;
            128, 81920 => 3 "recursive_doubling" 0 0;
            128, LONG => 2 "nonoverlapping" 0 0;
            ANY, 81920 => 3 "recursive_doubling" 0 0;
            ANY, LONG => 2 "nonoverlapping" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Allreduce,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(false),
        powers_of_two: Some(false),
        rows: rows! {
            3, LONG => 1 "basic_linear" 0 0;
            5, 98304 => 1 "basic_linear" 0 0;
            5, 196608 => 2 "nonoverlapping" 0 0;
            5, LONG => 1 "basic_linear" 0 0;
            7, 49152 => 1 "basic_linear" 0 0;
            7, 196608 => 2 "nonoverlapping" 0 0;
            7, LONG => 1 "basic_linear" 0 0;
            15, 49152 => 1 "basic_linear" 0 0;
            15, 196608 => 2 "nonoverlapping" 0 0;
            15, 786432 => 1 "basic_linear" 0 0;
            15, LONG => 2 "nonoverlapping" 0 0;
            31, 12288 => 1 "basic_linear" 0 0;
            31, 49152 => 3 "recursive_doubling" 0 0;
            31, LONG => 2 "nonoverlapping" 0 0;
            63, 6144 => 1 "basic_linear" 0 0;
            63, 49152 => 3 "recursive_doubling" 0 0;
            63, LONG => 2 "nonoverlapping" 0 0;
            191, 5120 => 1 "basic_linear" 0 0;
            191, 81920 => 3 "recursive_doubling" 0 0;
            191, LONG => 2 "nonoverlapping" 0 0;
            ANY, 81920 => 3 "recursive_doubling" 0 0;
            ANY, LONG => 2 "nonoverlapping" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatterBlock,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(true),
        powers_of_two: Some(true),
        rows: rows! {
            1, LONG => 2 "recursive_doubling" 0 0;
            2, 1572864 => 2 "recursive_doubling" 0 0;
            2, LONG => 3 "recursive_halving" 0 0;
            4, 3072 => 2 "recursive_doubling" 0 0;
            4, 98304 => 3 "recursive_halving" 0 0;
            4, 196608 => 34 "pairwise" 0 0;
            4, LONG => 3 "recursive_halving" 0 0;
            8, 3072 => 32 "linear" 0 0;
            8, 49152 => 3 "recursive_halving" 0 0;
            8, 196608 => 34 "pairwise" 0 0;
            8, LONG => 3 "recursive_halving" 0 0;
            16, 768 => 32 "linear" 0 0;
            16, 49152 => 3 "recursive_halving" 0 0;
            16, 196608 => 34 "pairwise" 0 0;
            16, LONG => 3 "recursive_halving" 0 0;
            32, 384 => 32 "linear" 0 0;
            32, 49152 => 3 "recursive_halving" 0 0;
            32, 196608 => 34 "pairwise" 0 0;
            32, LONG => 3 "recursive_halving" 0 0;
            64, 96 => 32 "linear" 0 0;
            64, 49152 => 3 "recursive_halving" 0 0;
            64, 196608 => 34 "pairwise" 0 0;
            64, LONG => 3 "recursive_halving" 0 0;
            128, 20 => 32 "linear" 0 0;
            128, 81920 => 3 "recursive_halving" 0 0;
            128, LONG => 34 "pairwise" 0 0;
            ANY, LONG => 3 "recursive_halving" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatterBlock,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(true),
        powers_of_two: Some(false),
        rows: rows! {
            3, 24576 => 3 "recursive_halving" 0 0;
            3, LONG => 34 "pairwise" 0 0;
            6, 1536 => 32 "linear" 0 0;
            6, 24576 => 3 "recursive_halving" 0 0;
            6, LONG => 34 "pairwise" 0 0;
            7, 3072 => 32 "linear" 0 0;
            7, 24576 => 3 "recursive_halving" 0 0;
            7, 196608 => 34 "pairwise" 0 0;
            7, 393216 => 3 "recursive_halving" 0 0;
            7, LONG => 34 "pairwise" 0 0;
            15, 1536 => 32 "linear" 0 0;
            15, 24576 => 3 "recursive_halving" 0 0;
            15, 196608 => 34 "pairwise" 0 0;
            15, 393216 => 3 "recursive_halving" 0 0;
            15, LONG => 34 "pairwise" 0 0;
            31, 768 => 32 "linear" 0 0;
            31, 24576 => 3 "recursive_halving" 0 0;
            31, 196608 => 34 "pairwise" 0 0;
            31, 393216 => 3 "recursive_halving" 0 0;
            31, LONG => 34 "pairwise" 0 0;
            63, 192 => 32 "linear" 0 0;
            63, 24576 => 3 "recursive_halving" 0 0;
            63, 196608 => 34 "pairwise" 0 0;
            63, 786432 => 3 "recursive_halving" 0 0;
            63, LONG => 34 "pairwise" 0 0;
            95, 80 => 32 "linear" 0 0;
            95, 20480 => 3 "recursive_halving" 0 0;
            95, LONG => 34 "pairwise" 0 0;
            191, 20 => 32 "linear" 0 0;
            191, 20480 => 3 "recursive_halving" 0 0;
            191, LONG => 34 "pairwise" 0 0;
            ANY, LONG => 3 "recursive_halving" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatterBlock,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(false),
        powers_of_two: Some(true),
        rows: rows! {
            2, LONG => 2 "recursive_doubling" 0 0;
            4, 12288 => 2 "recursive_doubling" 0 0;
            4, LONG => 34 "pairwise" 0 0;
            8, 6144 => 32 "linear" 0 0;
            8, 24576 => 4 "butterfly" 0 0;
            8, 196608 => 34 "pairwise" 0 0;
            8, 393216 => 4 "butterfly" 0 0;
            8, LONG => 34 "pairwise" 0 0;
            16, 1536 => 32 "linear" 0 0;
            16, 24576 => 4 "butterfly" 0 0;
            16, 196608 => 34 "pairwise" 0 0;
            16, 786432 => 4 "butterfly" 0 0;
            16, LONG => 34 "pairwise" 0 0;
            32, 384 => 32 "linear" 0 0;
            32, 24576 => 4 "butterfly" 0 0;
            32, 196608 => 34 "pairwise" 0 0;
            32, 786432 => 4 "butterfly" 0 0;
            32, LONG => 34 "pairwise" 0 0;
            64, 96 => 32 "linear" 0 0;
            64, 24576 => 4 "butterfly" 0 0;
            64, 196608 => 34 "pairwise" 0 0;
            64, 786432 => 4 "butterfly" 0 0;
            64, LONG => 34 "pairwise" 0 0;
            128, 20 => 32 "linear" 0 0;
            128, 81920 => 4 "butterfly" 0 0;
            128, LONG => 34 "pairwise" 0 0;
            ANY, LONG => 4 "butterfly" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatterBlock,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(false),
        powers_of_two: Some(false),
        rows: rows! {
            3, 24576 => 4 "butterfly" 0 0;
            3, LONG => 34 "pairwise" 0 0;
            5, 1536 => 32 "linear" 0 0;
            5, 24576 => 4 "butterfly" 0 0;
            5, LONG => 34 "pairwise" 0 0;
            7, 3072 => 32 "linear" 0 0;
            7, 24576 => 4 "butterfly" 0 0;
            7, LONG => 34 "pairwise" 0 0;
            15, 1536 => 32 "linear" 0 0;
            15, 24576 => 4 "butterfly" 0 0;
            15, 196608 => 34 "pairwise" 0 0;
            15, 393216 => 4 "butterfly" 0 0;
            15, LONG => 34 "pairwise" 0 0;
            31, 768 => 32 "linear" 0 0;
            31, 24576 => 4 "butterfly" 0 0;
            31, 196608 => 34 "pairwise" 0 0;
            31, 393216 => 4 "butterfly" 0 0;
            31, LONG => 34 "pairwise" 0 0;
            63, 192 => 32 "linear" 0 0;
            63, 24576 => 4 "butterfly" 0 0;
            63, 196608 => 34 "pairwise" 0 0;
            63, 786432 => 4 "butterfly" 0 0;
            63, LONG => 34 "pairwise" 0 0;
            127, 80 => 32 "linear" 0 0;
            127, 20480 => 4 "butterfly" 0 0;
            127, LONG => 34 "pairwise" 0 0;
            191, 20 => 32 "linear" 0 0;
            191, 20480 => 4 "butterfly" 0 0;
            191, LONG => 34 "pairwise" 0 0;
            ANY, LONG => 4 "butterfly" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatter,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(true),
        powers_of_two: Some(true),
        rows: rows! {
            2, LONG => 2 "recursive_halving" 0 0;
            4, 98304 => 2 "recursive_halving" 0 0;
            4, 196608 => 3 "ring" 0 0;
            4, LONG => 2 "recursive_halving" 0 0;
            16, 768 => 32 "linear" 0 0;
            16, 49152 => 2 "recursive_halving" 0 0;
            16, 196608 => 3 "ring" 0 0;
            16, LONG => 2 "recursive_halving" 0 0;
            32, 384 => 32 "linear" 0 0;
            32, 49152 => 2 "recursive_halving" 0 0;
            32, 196608 => 3 "ring" 0 0;
            32, LONG => 2 "recursive_halving" 0 0;
            64, 96 => 32 "linear" 0 0;
            64, 49152 => 2 "recursive_halving" 0 0;
            64, 196608 => 3 "ring" 0 0;
            64, LONG => 2 "recursive_halving" 0 0;
            128, 20 => 32 "linear" 0 0;
            128, 81920 => 2 "recursive_halving" 0 0;
            128, LONG => 3 "ring" 0 0;
            ANY, LONG => 2 "recursive_halving" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatter,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(true),
        powers_of_two: Some(false),
        rows: rows! {
            3, 6144 => 2 "recursive_halving" 0 0;
            3, LONG => 3 "ring" 0 0;
            5, 1536 => 32 "linear" 0 0;
            5, 6144 => 2 "recursive_halving" 0 0;
            5, LONG => 3 "ring" 0 0;
            6, 1536 => 32 "linear" 0 0;
            6, 12288 => 2 "recursive_halving" 0 0;
            6, LONG => 3 "ring" 0 0;
            7, 3072 => 32 "linear" 0 0;
            7, 12288 => 2 "recursive_halving" 0 0;
            7, LONG => 3 "ring" 0 0;
            15, 1536 => 32 "linear" 0 0;
            15, 12288 => 2 "recursive_halving" 0 0;
            15, 196608 => 3 "ring" 0 0;
            15, 393216 => 2 "recursive_halving" 0 0;
            15, LONG => 3 "ring" 0 0;
            31, 768 => 32 "linear" 0 0;
            31, 12288 => 2 "recursive_halving" 0 0;
            31, 196608 => 3 "ring" 0 0;
            31, 393216 => 2 "recursive_halving" 0 0;
            31, LONG => 3 "ring" 0 0;
            63, 192 => 32 "linear" 0 0;
            63, 24576 => 2 "recursive_halving" 0 0;
            63, 196608 => 3 "ring" 0 0;
            63, 786432 => 2 "recursive_halving" 0 0;
            63, LONG => 3 "ring" 0 0;
            95, 80 => 32 "linear" 0 0;
            95, 20480 => 2 "recursive_halving" 0 0;
            95, LONG => 3 "ring" 0 0;
            191, 20 => 32 "linear" 0 0;
            191, 20480 => 2 "recursive_halving" 0 0;
            191, LONG => 3 "ring" 0 0;
            ANY, LONG => 2 "recursive_halving" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatter,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(false),
        powers_of_two: Some(true),
        rows: rows! {
            2, LONG => 4 "butterfly" 0 0;
            4, 3072 => 32 "linear" 0 0;
            4, 98304 => 4 "butterfly" 0 0;
            4, 196608 => 34 "pairwise" 0 0;
            4, LONG => 4 "butterfly" 0 0;
            8, 3072 => 32 "linear" 0 0;
            8, 49152 => 4 "butterfly" 0 0;
            8, 196608 => 34 "pairwise" 0 0;
            8, LONG => 4 "butterfly" 0 0;
            16, 1536 => 32 "linear" 0 0;
            16, 49152 => 4 "butterfly" 0 0;
            16, 196608 => 34 "pairwise" 0 0;
            16, LONG => 4 "butterfly" 0 0;
            32, 384 => 32 "linear" 0 0;
            32, 49152 => 4 "butterfly" 0 0;
            32, 196608 => 34 "pairwise" 0 0;
            32, LONG => 4 "butterfly" 0 0;
            64, 96 => 32 "linear" 0 0;
            64, 49152 => 4 "butterfly" 0 0;
            64, 196608 => 34 "pairwise" 0 0;
            64, LONG => 4 "butterfly" 0 0;
            128, 20 => 32 "linear" 0 0;
            128, 81920 => 4 "butterfly" 0 0;
            128, LONG => 34 "pairwise" 0 0;
            ANY, LONG => 4 "butterfly" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::ReduceScatter,
        setup: Some(Setup::Oversubscribed),
        commutative: Some(false),
        powers_of_two: Some(false),
        rows: rows! {
            3, 24576 => 4 "butterfly" 0 0;
            3, LONG => 34 "pairwise" 0 0;
            5, 1536 => 32 "linear" 0 0;
            5, 24576 => 4 "butterfly" 0 0;
            5, LONG => 34 "pairwise" 0 0;
            7, 3072 => 32 "linear" 0 0;
            7, 24576 => 4 "butterfly" 0 0;
            7, LONG => 34 "pairwise" 0 0;
            15, 1536 => 32 "linear" 0 0;
            15, 24576 => 4 "butterfly" 0 0;
            15, 196608 => 34 "pairwise" 0 0;
            15, 393216 => 4 "butterfly" 0 0;
            15, LONG => 34 "pairwise" 0 0;
            31, 768 => 32 "linear" 0 0;
            31, 24576 => 4 "butterfly" 0 0;
            31, 196608 => 34 "pairwise" 0 0;
            31, 393216 => 4 "butterfly" 0 0;
            31, LONG => 34 "pairwise" 0 0;
            63, 192 => 32 "linear" 0 0;
            63, 24576 => 4 "butterfly" 0 0;
            63, 196608 => 34 "pairwise" 0 0;
            63, 786432 => 4 "butterfly" 0 0;
            63, LONG => 34 "pairwise" 0 0;
            127, 80 => 32 "linear" 0 0;
            127, 20480 => 4 "butterfly" 0 0;
            127, LONG => 34 "pairwise" 0 0;
            191, 20 => 32 "linear" 0 0;
            191, 20480 => 4 "butterfly" 0 0;
            191, LONG => 34 "pairwise" 0 0;
            ANY, LONG => 4 "butterfly" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Scan,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            2, LONG => 1 "linear" 0 0;
            4, 24576 => 2 "recursive_doubling" 0 0;
            4, LONG => 1 "linear" 0 0;
            8, 98304 => 2 "recursive_doubling" 0 0;
            8, LONG => 1 "linear" 0 0;
            16, 196608 => 2 "recursive_doubling" 0 0;
            16, LONG => 1 "linear" 0 0;
            ANY, LONG => 2 "recursive_doubling" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Scan,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            15, 196608 => 2 "recursive_doubling" 0 0;
            15, LONG => 1 "linear" 0 0;
            31, 196608 => 2 "recursive_doubling" 0 0;
            31, 393216 => 1 "linear" 0 0;
            31, LONG => 2 "recursive_doubling" 0 0;
            ANY, LONG => 2 "recursive_doubling" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Exscan,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(true),
        rows: rows! {
            2, LONG => 1 "linear" 0 0;
            4, 24576 => 2 "recursive_doubling" 0 0;
            4, LONG => 1 "linear" 0 0;
            8, 49152 => 2 "recursive_doubling" 0 0;
            8, LONG => 1 "linear" 0 0;
            16, 196608 => 2 "recursive_doubling" 0 0;
            16, LONG => 1 "linear" 0 0;
            32, 196608 => 2 "recursive_doubling" 0 0;
            32, 393216 => 1 "linear" 0 0;
            32, LONG => 2 "recursive_doubling" 0 0;
            ANY, LONG => 2 "recursive_doubling" 0 0;
        },
    },
    DecisionTable {
        collective: Collective::Exscan,
        setup: Some(Setup::Oversubscribed),
        commutative: None,
        powers_of_two: Some(false),
        rows: rows! {
            3, LONG => 1 "linear" 0 0;
            5, 12288 => 2 "recursive_doubling" 0 0;
            5, LONG => 1 "linear" 0 0;
            6, 24576 => 2 "recursive_doubling" 0 0;
            6, LONG => 1 "linear" 0 0;
            7, 49152 => 2 "recursive_doubling" 0 0;
            7, LONG => 1 "linear" 0 0;
            15, 196608 => 2 "recursive_doubling" 0 0;
            15, LONG => 1 "linear" 0 0;
            31, 196608 => 2 "recursive_doubling" 0 0;
            31, 786432 => 1 "linear" 0 0;
            31, LONG => 2 "recursive_doubling" 0 0;
            ANY, LONG => 2 "recursive_doubling" 0 0;
        },
    },
];
