//! The parameters of each tuned collective, with Open MPI's names.

use crate::definition::{Level, Param};
use crate::parse::Unit;
use crate::registry::Params;
use crate::source::Source;

const EACH: usize = 5;

macro_rules! collectives {
    ($($name:literal)*) => {
        /// The collectives, as spelled in the names of parameters.
        pub const COLLECTIVES: [&str; [$($name),*].len()] = [$($name),*];

        pub(crate) static ROWS: [[Param; EACH]; COLLECTIVES.len()] = [$([
            Param {
                name: concat!("coll_tuned_", $name, "_algorithm"),
                unit: Unit::Text { default: "0" },
                level: Level::User,
                help: concat!(
                    "The algorithm of every ", $name, ", by number or name ('oxmpi info --collectives' lists them); 0 or \
                     'ignore': none is forced. It needs coll_tuned_use_dynamic_rules 1."
                ),
                ..Param::NEW
            },
            Param {
                name: concat!("coll_tuned_", $name, "_algorithm_segmentsize"),
                aliases: &[concat!("coll_tuned_", $name, "_segmentsize")],
                unit: Unit::Bytes,
                max: 1 << 40,
                help: concat!("Bytes of a segment of the forced algorithm of ", $name, "; 0: the algorithm's own choice."),
                ..Param::NEW
            },
            Param {
                name: concat!("coll_tuned_", $name, "_algorithm_tree_fanout"),
                aliases: &[concat!("coll_tuned_", $name, "_tree_fanout")],
                help: concat!(
                    "How many children a rank has in trees of the forced algorithm of ", $name,
                    "; 0: the algorithm's own choice."
                ),
                ..Param::NEW
            },
            Param {
                name: concat!("coll_tuned_", $name, "_algorithm_chain_fanout"),
                aliases: &[concat!("coll_tuned_", $name, "_chain_fanout")],
                help: concat!(
                    "How many chains start at the root in the forced algorithm 'chain' of ", $name,
                    "; 0: the algorithm's own choice."
                ),
                ..Param::NEW
            },
            Param {
                name: concat!("coll_tuned_", $name, "_algorithm_max_requests"),
                aliases: &[concat!("coll_tuned_", $name, "_max_requests")],
                help: concat!(
                    "How many requests the forced algorithm of ", $name, ", or that of a rule without such a number, has \
                     outstanding at most; 0: the algorithm's own choice."
                ),
                ..Param::NEW
            },
        ]),*];
    };
}

collectives! {
    "allgather" "allgatherv" "allreduce" "alltoall" "alltoallv" "barrier" "bcast" "exscan" "gather" "reduce"
    "reduce_scatter" "reduce_scatter_block" "scan" "scatter"
}

/// The parameters of one collective.
#[derive(Clone, Debug)]
pub struct Tuned<'a> {
    /// The number or name of the forced algorithm.
    pub algorithm: &'a str,
    pub parameter: &'static str,
    pub source: &'a Source,
    /// Bytes of a segment; 0: not set.
    pub segment_bytes: u64,
    /// Children in a tree; 0: not set.
    pub tree_fan_out: u32,
    /// Chains from the root; 0: not set.
    pub chain_fan_out: u32,
    /// The most outstanding requests; 0: not set.
    pub max_requests: u32,
    /// The names of the parameters of the last four that are set.
    pub said: Vec<&'static str>,
}

impl Params {
    /// The parameters of a collective, by its index in [`COLLECTIVES`].
    pub fn tuned(&self, collective: usize) -> Option<Tuned<'_>> {
        let rows = ROWS.get(collective)?;
        let number = |knob: usize| self.number(&rows[knob]);
        Some(Tuned {
            algorithm: self.text(&rows[0]),
            parameter: rows[0].name,
            source: self.source(&rows[0]),
            // The limits of the rows fit into these types.
            segment_bytes: number(1) as u64,
            tree_fan_out: number(2) as u32,
            chain_fan_out: number(3) as u32,
            max_requests: number(4) as u32,
            said: (1..EACH).filter(|knob| number(*knob) != 0).map(|knob| rows[knob].name).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_collective_has_its_own() {
        for (index, name) in COLLECTIVES.iter().enumerate() {
            let set =
                |knob: &str, value: &str| (format!("coll_tuned_{name}_{knob}"), value.to_string());
            let mut params = Params::default();
            for (name, value) in [
                set("algorithm", "ring"),
                set("segmentsize", "4k"),
                set("algorithm_tree_fanout", "3"),
                set("algorithm_chain_fanout", "5"),
                set("max_requests", "7"),
            ] {
                params.set(&name, &value).unwrap();
            }
            let tuned = params.tuned(index).unwrap();
            assert_eq!((tuned.algorithm, tuned.source), ("ring", &Source::Program));
            assert_eq!((tuned.segment_bytes, tuned.tree_fan_out), (4096, 3));
            assert_eq!((tuned.chain_fan_out, tuned.max_requests), (5, 7));
            assert_eq!(tuned.said.len(), 4);
            for other in (0..COLLECTIVES.len()).filter(|other| *other != index) {
                assert_eq!(params.tuned(other).unwrap().algorithm, "0");
                assert!(params.tuned(other).unwrap().said.is_empty());
            }
        }
        assert!(Params::default().tuned(COLLECTIVES.len()).is_none());
    }
}
