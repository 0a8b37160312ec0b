//! The components of collectives: what each serves, and what parameters say about them.

use oxmpi_param::Params;
use oxmpi_plan::{Collective, Nodes};
use std::ops::Range;

use crate::agreement::AgreementSettings;
use crate::collectives::index_of;
use crate::handed::HandedOver;

pub use oxmpi_param::components::{BadName, Component, ComponentSet};

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

/// Whether a component has such a function at all.
#[must_use]
pub fn serves(component: Component, collective: Collective, form: Form) -> bool {
    use Collective::*;
    let is_inter = matches!(collective, InterMove | InterReduce);
    match component {
        Component::Own => !is_inter,
        // What has no data is nothing to it.
        Component::Accelerator => collective != Barrier,
        Component::Basic | Component::Base => true,
        // Agreements are no collective of the table.
        Component::Ftagree => false,
        // The barrier of an intercommunicator is one of the whole.
        Component::Inter => is_inter || collective == Barrier,
        Component::Libnbc => form != Form::Blocking,
        Component::Ucc => form != Form::Persistent && crate::handed::ucc_has(collective),
        Component::Hcoll => form != Form::Persistent && crate::handed::hcoll_has(collective),
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
            let uneven = matches!(collective, Gatherv | Scatterv | Allgatherv | Alltoallv | Neighbor);
            uneven && form == Form::Blocking
                || form != Form::Persistent
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
    pub asked: ComponentSet,
    /// The priority of each, in their order.
    pub priorities: [u32; Component::COUNT],
    /// The most ranks for which basic is linear.
    pub crossover: u32,
    /// The most bytes that basic reduces by linear algorithms.
    pub reduce_crossover: u64,
    /// The barriers of sync.
    pub barriers: Barriers,
    /// Bytes of the segments of smp; 0: its own choice.
    pub smp_segment: usize,
    /// Where ranks are taken to be.
    pub virtual_nodes: Option<VirtualNodes>,
    /// What is handed to UCC.
    pub ucc: HandedOver,
    /// What is handed to HCOLL.
    pub hcoll: HandedOver,
    /// How the component ftagree has processes agree.
    pub agreement: AgreementSettings,
    /// Whether the job goes on after failures (`mpi_ft_enable`): without that there is no ftagree.
    pub tolerates_failures: bool,
}

/// After how many operations sync puts a barrier; 0: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Barriers {
    /// Before one.
    pub before: u32,
    /// Behind one.
    pub after: u32,
}

/// The priority of each component, in their order.
fn priorities(params: &Params) -> [u32; Component::COUNT] {
    let mut all = [0; Component::COUNT];
    Component::all().for_each(|component| all[component as usize] = component.priority(params));
    all
}

impl Default for Components {
    fn default() -> Components {
        let params = Params::default();
        Components {
            asked: ComponentSet::ALL,
            priorities: priorities(&params),
            crossover: params.coll_crossover(),
            reduce_crossover: params.coll_reduce_crossover(),
            barriers: Barriers::default(),
            smp_segment: params.coll_smp_segmentsize(),
            virtual_nodes: None,
            ucc: HandedOver::without_ucc(),
            hcoll: HandedOver::without_hcoll(),
            agreement: AgreementSettings::default(),
            tolerates_failures: true,
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
            asked: ComponentSet::parse(params.coll()).map_err(|bad| ("coll", bad.to_string()))?,
            priorities: priorities(params),
            crossover: params.coll_crossover(),
            reduce_crossover: params.coll_reduce_crossover(),
            barriers: Barriers {
                before: params.coll_sync_barrier_before(),
                after: params.coll_sync_barrier_after(),
            },
            smp_segment: params.coll_smp_segmentsize(),
            virtual_nodes: VirtualNodes::parse(params.coll_smp_virtual_nodes())
                .map_err(|text| ("coll_smp_virtual_nodes", text))?,
            ucc: HandedOver::ucc(params).map_err(|text| ("coll_ucc_cts", text))?,
            hcoll: HandedOver::hcoll(params),
            agreement: AgreementSettings::new(params),
            tolerates_failures: params.mpi_ft_enable(),
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
    fn the_priorities_of_the_guides_hold() {
        let components = Components::default();
        let wanted = [
            ("basic", 0),
            ("smp", 50),
            ("han", 50),
            ("shmem", 50),
            ("tuned", 30),
            ("libnbc", 10),
            ("ucc", 10),
            ("hcoll", 90),
            ("ftagree", 30),
        ];
        for (name, priority) in wanted {
            assert_eq!(components.priority(Component::named(name).unwrap()), priority, "{name}");
        }
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
