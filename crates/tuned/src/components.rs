//! The components of collectives: the calls that each serves, and their parameters.

use oxmpi_param::Params;
use oxmpi_plan::{Collective, Nodes};
use std::ops::Range;

use crate::agreement::AgreementSettings;
use crate::collectives::index_of;
use crate::handed::HandedOver;

pub use oxmpi_param::components::{BadName, Component, ComponentSet};

/// The form of a collective call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Form {
    Blocking,
    Nonblocking,
    Persistent,
}

impl Form {
    pub const ALL: [Form; 3] = [Form::Blocking, Form::Nonblocking, Form::Persistent];

    /// The name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Form::Blocking => "blocking",
            Form::Nonblocking => "nonblocking",
            Form::Persistent => "persistent",
        }
    }
}

/// Whether a component implements this collective in this form.
#[must_use]
pub fn serves(component: Component, collective: Collective, form: Form) -> bool {
    use Collective::*;
    let is_inter = matches!(collective, InterMove | InterReduce);
    match component {
        Component::Own => !is_inter,
        // A barrier has no data.
        Component::Accelerator => collective != Barrier,
        Component::Basic | Component::Base => true,
        // Agreements are no collectives.
        Component::Ftagree => false,
        // The barrier of an intercommunicator has one plan for both groups together.
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
            let uneven =
                matches!(collective, Gatherv | Scatterv | Allgatherv | Alltoallv | Neighbor);
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
        // Collectives in which a rank may return before other ranks have begun.
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

/// Nodes that a parameter assigns to ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VirtualNodes {
    /// This number of nodes, each with a block of consecutive ranks.
    Many(u32),
    /// The node of each rank. The list repeats.
    Of(Vec<u32>),
}

impl VirtualNodes {
    /// Parses the parameter `coll_smp_virtual_nodes`; `None` if it is empty.
    pub fn parse(text: &str) -> Result<Option<VirtualNodes>, String> {
        let wrong = || {
            format!(
                "'{text}' is neither a number of nodes, from 1 on, nor a list of the nodes of ranks (0,0,1)"
            )
        };
        let numbers: Result<Vec<u32>, _> =
            text.split(',').map(|number| number.trim().parse()).collect();
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

    /// The node of a rank in a job of `size` ranks.
    #[must_use]
    pub fn node(&self, rank: u32, size: u32) -> u32 {
        match self {
            VirtualNodes::Many(nodes) => {
                let place = u64::from(rank) * u64::from(*nodes).min(u64::from(size))
                    / u64::from(size.max(1));
                u32::try_from(place).unwrap_or(u32::MAX)
            }
            VirtualNodes::Of(list) => list[rank as usize % list.len()],
        }
    }

    /// The nodes of `processes` of the job with the processes `job`. `None` if processes of other
    /// jobs are among them, whose nodes not all ranks know.
    #[must_use]
    pub fn nodes(&self, processes: impl Iterator<Item = u32>, job: &Range<u32>) -> Option<Nodes> {
        let size = job.end.saturating_sub(job.start);
        let node =
            |process: u32| job.contains(&process).then(|| self.node(process - job.start, size));
        Some(Nodes::new(processes.map(node).collect::<Option<Vec<_>>>()?))
    }
}

/// The parameters of all components; the same on all ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Components {
    pub selected: ComponentSet,
    /// Indexed by [`Component`].
    pub priorities: [u32; Component::COUNT],
    /// Up to this number of ranks the component basic uses linear algorithms.
    pub crossover: u32,
    /// Up to this number of bytes the component basic reduces by linear algorithms.
    pub reduce_crossover: u64,
    pub barriers: Barriers,
    /// Bytes of the segments of smp; 0: smp chooses.
    pub smp_segment: usize,
    pub virtual_nodes: Option<VirtualNodes>,
    pub ucc: HandedOver,
    pub hcoll: HandedOver,
    pub agreement: AgreementSettings,
    /// The parameter `mpi_ft_enable`, without which ftagree serves nothing.
    pub tolerates_failures: bool,
}

/// The number of operations after which the component sync adds a barrier; 0: never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Barriers {
    pub before: u32,
    pub after: u32,
}

fn priorities(params: &Params) -> [u32; Component::COUNT] {
    let mut all = [0; Component::COUNT];
    Component::all().for_each(|component| all[component as usize] = component.priority(params));
    all
}

impl Default for Components {
    fn default() -> Components {
        let params = Params::default();
        Components {
            selected: ComponentSet::ALL,
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
    /// The settings of the parameters.
    pub fn new(params: &Params) -> Result<Components, (&'static str, String)> {
        Ok(Components {
            selected: ComponentSet::parse(params.coll())
                .map_err(|bad| ("coll", bad.to_string()))?,
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
