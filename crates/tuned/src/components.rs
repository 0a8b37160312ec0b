//! The components of collectives: what each is, what it serves, and which are asked.

use oxmpi_param::Params;
use oxmpi_param::nearest::nearest;
use oxmpi_plan::{Collective, Nodes};
use std::fmt;
use std::ops::Range;

use crate::collectives::index_of;

/// A component of the framework `coll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Component {
    /// Communicators of one rank.
    Own,
    /// Barriers before and after every so many operations, around what serves them.
    Sync,
    /// Algorithms of two levels: nodes, and ranks of a node.
    Smp,
    /// Shared memory past the plans.
    Shmem,
    /// Intercommunicators.
    Inter,
    /// Forced algorithms, rules files, fixed rules.
    Tuned,
    /// Nonblocking and persistent forms.
    Libnbc,
    /// Linear and binomial algorithms in strict rank order.
    Basic,
}

/// How a collective is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    /// The call returns when it is over.
    Blocking,
    /// The call returns a request.
    Nonblocking,
    /// The call returns a request that is started again and again.
    Persistent,
}

impl Form {
    /// All of them.
    pub const ALL: [Form; 3] = [Form::Blocking, Form::Nonblocking, Form::Persistent];

    /// In a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Form::Blocking => "blocking",
            Form::Nonblocking => "nonblocking",
            Form::Persistent => "persistent",
        }
    }
}

/// The row of a component.
#[derive(Debug)]
struct Row {
    component: Component,
    name: &'static str,
    aliases: &'static [&'static str],
    description: &'static str,
    priority: fn(&Params) -> u32,
}

/// The table, in the order of which those of one priority are asked.
const TABLE: [Row; 8] = [
    Row {
        component: Component::Own,
        name: "self",
        aliases: &[],
        description: "communicators of one rank",
        priority: Params::coll_self_priority,
    },
    Row {
        component: Component::Sync,
        name: "sync",
        aliases: &[],
        description: "a barrier before or after every so many operations (coll_sync_barrier_before, _after)",
        priority: Params::coll_sync_priority,
    },
    Row {
        component: Component::Smp,
        name: "smp",
        aliases: &["han"],
        description: "first within nodes, then among them: several nodes, with several ranks on one",
        priority: Params::coll_smp_priority,
    },
    Row {
        component: Component::Shmem,
        name: "shmem",
        aliases: &["xhc"],
        description: "blocking calls in shared memory, past the plans: all ranks on one node",
        priority: Params::coll_shmem_priority,
    },
    Row {
        component: Component::Inter,
        name: "inter",
        aliases: &[],
        description: "intercommunicators",
        priority: Params::coll_inter_priority,
    },
    Row {
        component: Component::Tuned,
        name: "tuned",
        aliases: &[],
        description: "forced algorithms, rules files, fixed rules",
        priority: Params::coll_tuned_priority,
    },
    Row {
        component: Component::Libnbc,
        name: "libnbc",
        aliases: &["nbc"],
        description: "nonblocking and persistent forms, by the fixed rules",
        priority: Params::coll_libnbc_priority,
    },
    Row {
        component: Component::Basic,
        name: "basic",
        aliases: &["lam_basic"],
        description: "linear or binomial, reductions in strict rank order; everything, everywhere",
        priority: Params::coll_basic_priority,
    },
];

/// A name that is no component's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    /// There is none of this name.
    #[error("there is no collective component '{name}'{}: expected {}",
        nearest.map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default(), names())]
    Unknown {
        /// The name.
        name: String,
        /// What was probably meant.
        nearest: Option<&'static str>,
    },
    /// It is the part of the framework that all components use.
    #[error(
        "'base' is what the collective components have in common, and cannot be asked by itself: expected {}",
        names()
    )]
    Base,
    /// Nothing is left to ask.
    #[error("'{text}' leaves no collective component to ask: expected {}", names())]
    Nothing {
        /// What the parameter says.
        text: String,
    },
}

fn names() -> String {
    TABLE.map(|row| row.name).join(", ")
}

impl Component {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Component> {
        TABLE.iter().map(|row| row.component)
    }

    fn row(self) -> &'static Row {
        // The rows stand in the order of the enumeration: a test sees to it.
        &TABLE[self as usize]
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Its other names.
    #[must_use]
    pub fn aliases(self) -> &'static [&'static str] {
        self.row().aliases
    }

    /// What it is for, in a phrase.
    #[must_use]
    pub fn description(self) -> &'static str {
        self.row().description
    }

    /// The component of this name or alias.
    ///
    /// # Errors
    /// There is none.
    pub fn named(name: &str) -> Result<Component, BadName> {
        let known = TABLE.iter().find(|row| row.name == name || row.aliases.contains(&name));
        known.map(|row| row.component).ok_or_else(|| match name {
            "base" => BadName::Base,
            _ => BadName::Unknown {
                name: name.to_string(),
                nearest: nearest(
                    name,
                    TABLE.iter().flat_map(|row| row.aliases.iter().copied().chain([row.name])),
                ),
            },
        })
    }

    /// Whether it has such a function at all.
    #[must_use]
    pub fn serves(self, collective: Collective, form: Form) -> bool {
        use Collective::*;
        let is_inter = matches!(collective, InterMove | InterReduce);
        match self {
            Component::Own => !is_inter,
            Component::Basic => true,
            // The barrier of an intercommunicator is one of the whole.
            Component::Inter => is_inter || collective == Barrier,
            Component::Libnbc => form != Form::Blocking,
            Component::Tuned => index_of(collective).is_some(),
            Component::Smp => matches!(
                collective,
                Barrier
                    | Bcast
                    | Allgather
                    | Allgatherv
                    | Reduce
                    | Allreduce
                    | ReduceScatter
                    | ReduceScatterBlock
                    | Scan
            ),
            Component::Shmem => {
                form == Form::Blocking
                    && matches!(
                        collective,
                        Barrier
                            | Bcast
                            | Reduce
                            | Allreduce
                            | Allgather
                            | Alltoall
                            | Gather
                            | Scatter
                            | ReduceScatterBlock
                            | Scan
                            | Exscan
                    )
            }
            // Those in which a rank may run ahead of others.
            Component::Sync => {
                form == Form::Blocking
                    && matches!(
                        collective,
                        Bcast
                            | Gather
                            | Gatherv
                            | Scatter
                            | Scatterv
                            | Reduce
                            | ReduceScatter
                            | ReduceScatterBlock
                            | Scan
                            | Exscan
                    )
            }
        }
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A set of components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked(u8);

impl Asked {
    /// All components.
    pub const ALL: Asked = Asked(u8::MAX);

    /// One alone.
    #[must_use]
    pub fn only(component: Component) -> Asked {
        Asked(1 << component as u8)
    }

    /// Reads the parameter `coll`: names with commas between them, all but those behind a `^`; empty: all.
    ///
    /// # Errors
    /// A name is no component's, or none is left.
    pub fn parse(text: &str) -> Result<Asked, BadName> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(Asked::ALL);
        }
        let (is_without, names) = match text.strip_prefix('^') {
            Some(names) => (true, names),
            None => (false, text),
        };
        let mut set = 0;
        for name in names.split(',') {
            set |= Asked::only(Component::named(name.trim())?).0;
        }
        let asked = Asked(if is_without { !set } else { set });
        match Component::all().any(|component| asked.has(component)) {
            true => Ok(asked),
            false => Err(BadName::Nothing { text: text.to_string() }),
        }
    }

    /// Whether a component is asked.
    #[must_use]
    pub fn has(self, component: Component) -> bool {
        self.0 & 1 << component as u8 != 0
    }
}

/// Nodes that ranks are taken to be on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VirtualNodes {
    /// So many, of neighbouring ranks.
    Many(u32),
    /// The node of each rank, over and over.
    Of(Vec<u32>),
}

impl VirtualNodes {
    /// Reads the parameter `coll_smp_virtual_nodes`; `None` if it is empty.
    ///
    /// # Errors
    /// It is neither a number of nodes nor a list. The text is for a person.
    pub fn parse(text: &str) -> Result<Option<VirtualNodes>, String> {
        let wrong = || {
            format!(
                "'{text}' is neither a number of nodes, from 1 on, nor a list of the nodes of ranks (0,0,1)"
            )
        };
        let numbers: Result<Vec<u32>, _> = text.split(',').map(|number| number.trim().parse()).collect();
        match numbers {
            _ if text.trim().is_empty() => Ok(None),
            Err(_) => Err(wrong()),
            Ok(numbers) => match numbers[..] {
                [0] => Err(wrong()),
                [nodes] => Ok(Some(VirtualNodes::Many(nodes))),
                _ => Ok(Some(VirtualNodes::Of(numbers))),
            },
        }
    }

    /// The node of a rank of a job of `size`.
    #[must_use]
    pub fn node(&self, rank: u32, size: u32) -> u32 {
        match self {
            VirtualNodes::Many(nodes) => {
                let place = u64::from(rank) * u64::from(*nodes).min(u64::from(size)) / u64::from(size.max(1));
                u32::try_from(place).unwrap_or(u32::MAX)
            }
            VirtualNodes::Of(list) => list[rank as usize % list.len()],
        }
    }

    /// The nodes of some processes of a job of the processes `job`. `None` if others are among them: of those is not
    /// known alike everywhere where they are.
    #[must_use]
    pub fn nodes(&self, processes: impl Iterator<Item = u32>, job: &Range<u32>) -> Option<Nodes> {
        let size = job.end.saturating_sub(job.start);
        let node = |process: u32| job.contains(&process).then(|| self.node(process - job.start, size));
        Some(Nodes::new(processes.map(node).collect::<Option<Vec<_>>>()?))
    }
}

/// What parameters say about components; the same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Components {
    /// Which are asked.
    pub asked: Asked,
    /// The priority of each, in their order.
    pub priorities: [u32; TABLE.len()],
    /// The most ranks for which basic is linear.
    pub crossover: u32,
    /// The most bytes that basic reduces by linear algorithms.
    pub reduce_crossover: u64,
    /// The barriers of sync.
    pub barriers: Barriers,
    /// Where ranks are taken to be.
    pub virtual_nodes: Option<VirtualNodes>,
}

/// After how many operations sync puts a barrier; 0: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Barriers {
    /// Before one.
    pub before: u32,
    /// Behind one.
    pub after: u32,
}

impl Default for Components {
    fn default() -> Components {
        let params = Params::default();
        Components {
            asked: Asked::ALL,
            priorities: TABLE.each_ref().map(|row| (row.priority)(&params)),
            crossover: params.coll_crossover(),
            reduce_crossover: params.coll_reduce_crossover(),
            barriers: Barriers::default(),
            virtual_nodes: None,
        }
    }
}

impl Components {
    /// What the parameters say.
    ///
    /// # Errors
    /// The parameter that is wrong, and why.
    pub fn new(params: &Params) -> Result<Components, (&'static str, String)> {
        Ok(Components {
            asked: Asked::parse(params.coll()).map_err(|bad| ("coll", bad.to_string()))?,
            priorities: TABLE.each_ref().map(|row| (row.priority)(params)),
            crossover: params.coll_crossover(),
            reduce_crossover: params.coll_reduce_crossover(),
            barriers: Barriers {
                before: params.coll_sync_barrier_before(),
                after: params.coll_sync_barrier_after(),
            },
            virtual_nodes: VirtualNodes::parse(params.coll_smp_virtual_nodes())
                .map_err(|text| ("coll_smp_virtual_nodes", text))?,
        })
    }

    /// The priority of a component.
    #[must_use]
    pub fn priority(&self, component: Component) -> u32 {
        self.priorities[component as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rows_stand_in_the_order_of_the_enumeration() {
        for (at, row) in TABLE.iter().enumerate() {
            assert_eq!(row.component as usize, at);
            assert_eq!(Component::named(row.name), Ok(row.component));
            assert!(row.aliases.iter().all(|alias| Component::named(alias) == Ok(row.component)));
        }
    }

    #[test]
    fn the_priorities_of_the_guides_hold() {
        let components = Components::default();
        let wanted = [("basic", 0), ("smp", 50), ("han", 50), ("shmem", 50), ("tuned", 30), ("libnbc", 10)];
        for (name, priority) in wanted {
            assert_eq!(components.priority(Component::named(name).unwrap()), priority, "{name}");
        }
    }

    #[test]
    fn a_list_names_those_that_are_asked_or_behind_a_caret_those_that_are_not() {
        let asked = |text| {
            let asked = Asked::parse(text).unwrap();
            Component::all().filter(|c| asked.has(*c)).map(Component::name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(asked("basic, self,libnbc"), "self libnbc basic");
        assert_eq!(asked("lam_basic"), "basic");
        assert_eq!(asked("^xhc,han"), "self sync inter tuned libnbc basic");
        assert_eq!(asked(" "), "self sync smp shmem inter tuned libnbc basic");
    }

    #[test]
    fn a_wrong_list_is_told() {
        let error = |text| Asked::parse(text).unwrap_err().to_string();
        assert_eq!(
            error("basic,shmen"),
            "there is no collective component 'shmen' (did you mean 'shmem'?): expected self, sync, smp, shmem, inter, \
             tuned, libnbc, basic"
        );
        assert!(error("basic,,self").contains("no collective component ''"));
        assert!(error("base").starts_with("'base' is what the collective components have in common"));
        assert!(
            error("^self,sync,smp,shmem,inter,tuned,libnbc,basic").contains("leaves no collective component")
        );
    }

    #[test]
    fn virtual_nodes_are_blocks_or_a_list() {
        let nodes = |text: &str, size: u32| {
            let nodes = VirtualNodes::parse(text).unwrap().unwrap();
            (0..size).map(|rank| nodes.node(rank, size)).collect::<Vec<_>>()
        };
        assert_eq!(nodes("2", 5), [0, 0, 0, 1, 1]);
        assert_eq!(nodes("9", 3), [0, 1, 2]);
        assert_eq!(nodes("0, 1", 5), [0, 1, 0, 1, 0]);
        assert_eq!(VirtualNodes::parse(" "), Ok(None));
        assert!(VirtualNodes::parse("0").unwrap_err().contains("'0' is neither a number of nodes"));
        assert!(VirtualNodes::parse("2,x").is_err());
        let two = VirtualNodes::Many(2);
        assert_eq!(two.nodes([12, 10, 13].into_iter(), &(10..14)), Some(Nodes::new([1, 0, 1])));
        assert_eq!(two.nodes([12, 3].into_iter(), &(10..14)), None);
    }
}
