//! The components of one communicator, and the choice among them for a call.
//!
//! A new communicator orders its available components by priority. The first of them that has the
//! function and can serve the arguments serves a call; the component base serves the calls that no
//! other component serves. The choice depends only on values that are the same on all ranks.

use crate::agreement::AgreementSettings;
use crate::collectives::CollectiveFacts;
use crate::components::{Barriers, Component, ComponentSet, Components, Form, serves};
use crate::handed::HandedOver;
use oxmpi_plan::table::{Parameter, by_name};
use oxmpi_plan::{AlgorithmId, Collective, Nodes, Setup, segment_bytes};
use std::fmt;

/// The properties of a communicator that all its ranks know.
#[derive(Clone, Copy, Debug)]
pub struct CommFacts<'a> {
    /// The ranks that take part in its collectives; those of both groups in an intercommunicator.
    pub ranks: u32,
    pub is_inter: bool,
    /// The nodes of its ranks; `None`: as far as is known, all ranks are on one node.
    pub nodes: Option<&'a Nodes>,
    pub has_control_section: bool,
}

/// The properties of a call that decide which component serves it.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    pub facts: &'a CollectiveFacts,
    pub form: Form,
    /// Whether the collectives in shared memory can serve the call without a plan.
    pub is_small: bool,
    /// Whether a parameter or a rule names the algorithm.
    pub is_named: bool,
    /// `None` without a reduction.
    pub reduction: Option<Reduction>,
    /// Whether another library may serve the call; for a reduction, whether that library has the
    /// operation on such elements.
    pub can_hand_over: bool,
}

/// The allowed groupings of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduction {
    pub is_exact: bool,
    pub associative: Option<bool>,
}

impl Reduction {
    /// Whether contributions must be combined one by one in rank order.
    #[must_use]
    pub fn is_strict(self) -> bool {
        self.associative == Some(false)
    }

    /// Whether contributions may be grouped by the nodes of their ranks.
    #[must_use]
    pub fn may_group(self) -> bool {
        self.associative.unwrap_or(self.is_exact)
    }
}

/// The components of one communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// The available components with their priorities, in the order of service.
    members: Vec<(Component, u32)>,
    ucc: HandedOver,
    hcoll: HandedOver,
    agreement: AgreementSettings,
    /// Whether the user has selected base. Otherwise base only serves what no other component
    /// serves.
    selects_base: bool,
    /// The component that serves agreements, if the communicator names a component that does not.
    unnamed: Option<Component>,
    left_out: Vec<(Component, &'static str)>,
    /// The barriers of the component sync, and its priority: components up to this priority get
    /// them.
    sync: Option<(Barriers, u32)>,
}

const NOT_SELECTED: &str = "not selected (parameter coll)";
const NOT_NAMED: &str = "this communicator names another component";

impl Stack {
    /// The components for a communicator; `only` is the component that the communicator names.
    #[must_use]
    pub fn new(components: &Components, facts: &CommFacts<'_>, only: Option<Component>) -> Stack {
        let Components { ucc, hcoll, agreement, .. } = *components;
        let serves_none = |only: &Component| !matches!(only, Component::Ftagree | Component::Basic);
        let unnamed = only.filter(serves_none).map(|_| match components.tolerates_failures {
            true => Component::Ftagree,
            false => Component::Basic,
        });
        let (members, left_out) = (Vec::new(), Vec::new());
        let mut stack = Stack {
            members,
            ucc,
            hcoll,
            agreement,
            selects_base: false,
            unnamed,
            left_out,
            sync: None,
        };
        for component in Component::all() {
            let refusal = match only {
                Some(only) if only != component && component != Component::Accelerator => {
                    Some(NOT_NAMED)
                }
                None if !components.selected.has(component) => Some(NOT_SELECTED),
                _ => unavailable(component, components, facts),
            };
            let priority = components.priority(component);
            match refusal {
                Some(why) => stack.left_out.push((component, why)),
                None if component == Component::Accelerator => {}
                None if component == Component::Sync => {
                    stack.sync = Some((components.barriers, priority))
                }
                None => stack.members.push((component, priority)),
            }
        }
        // The sort is stable, so components of equal priority keep the order of the table.
        stack.members.sort_by_key(|(_, priority)| std::cmp::Reverse(*priority));
        if only.is_none() && !stack.has(Component::Basic) {
            stack.members.push((Component::Base, components.priority(Component::Base)));
        }
        stack.selects_base = components.selected.has(Component::Base);
        stack
    }

    /// The components that serve the communicator and their priorities, in the order of service.
    pub fn members(&self) -> impl Iterator<Item = (Component, u32)> {
        self.members.iter().copied()
    }

    /// The components that do not serve the communicator, with the reasons.
    pub fn left_out(&self) -> impl Iterator<Item = (Component, &'static str)> {
        self.left_out.iter().copied()
    }

    /// Whether the component sync puts barriers around the collectives of the communicator.
    #[must_use]
    pub fn has_sync(&self) -> bool {
        self.sync.is_some()
    }

    /// Whether a component serves the communicator.
    #[must_use]
    pub fn has(&self, component: Component) -> bool {
        self.members.iter().any(|(member, _)| *member == component)
    }

    /// The component that serves a call.
    pub fn pick(&self, call: &CallFacts<'_>, nodes: Option<&Nodes>) -> Result<Component, Unserved> {
        let fits = |component: &Component| self.refusal(*component, call, nodes).is_none();
        let mut members = self.members.iter().map(|(component, _)| *component);
        if call.is_named
            && call.facts.ranks > 1
            && self.has(Component::Tuned)
            && fits(&Component::Tuned)
        {
            return Ok(Component::Tuned);
        }
        members.find(fits).ok_or_else(|| self.unserved(call, nodes))
    }

    /// Whether any component serves collectives. Ftagree serves only agreements; base counts only
    /// if the user has selected it.
    #[must_use]
    pub fn serves_collectives(&self) -> bool {
        self.members.iter().any(|(member, _)| match member {
            Component::Ftagree => false,
            Component::Base => self.selects_base,
            _ => true,
        })
    }

    /// The component that serves agreements: the first of ftagree and basic (which tolerates no
    /// failures). A component that the communicator names serves only collectives; its agreements
    /// are served as if no component were named.
    pub fn agreement(&self) -> Result<(Component, AgreementSettings), String> {
        let members = self.members.iter().map(|(component, _)| component);
        let mut servers = members.chain(&self.unnamed).filter_map(|component| match component {
            Component::Ftagree => Some((Component::Ftagree, self.agreement)),
            Component::Basic => Some((Component::Basic, AgreementSettings::plain())),
            _ => None,
        });
        servers.next().ok_or_else(|| {
            let left_out = self.left_out.iter().copied();
            let why: Vec<_> = left_out
                .filter(|(component, _)| matches!(component, Component::Ftagree | Component::Basic))
                .collect();
            format!("no collective component serves an agreement here: {}", reasons(&why))
        })
    }

    /// The barriers of the component sync around a collective that this component serves.
    #[must_use]
    pub fn barriers(&self, collective: Collective, served_by: Component) -> Option<Barriers> {
        let (barriers, priority) = self.sync?;
        let of = self.members.iter().find(|(component, _)| *component == served_by)?.1;
        (of <= priority && serves(Component::Sync, collective, Form::Blocking)).then_some(barriers)
    }

    fn refusal(
        &self,
        component: Component,
        call: &CallFacts<'_>,
        nodes: Option<&Nodes>,
    ) -> Option<String> {
        let why = match component {
            Component::Ucc => self.ucc.refusal_of(call),
            Component::Hcoll => self.hcoll.refusal_of(call),
            _ => None,
        };
        why.map(str::to_string).or_else(|| refusal(component, call, nodes))
    }

    #[cold]
    fn unserved(&self, call: &CallFacts<'_>, nodes: Option<&Nodes>) -> Unserved {
        let serves_some =
            |component: Component| !component.is_around() && component != Component::Ftagree;
        let left_out = self.left_out.iter().filter(|(component, _)| serves_some(*component));
        let here = self.members.iter().filter(|(component, _)| serves_some(*component)).filter_map(
            |(component, _)| self.refusal(*component, call, nodes).map(|why| (*component, why)),
        );
        Unserved {
            collective: call.facts.collective,
            form: call.form,
            why: here
                .chain(left_out.map(|(component, why)| (*component, (*why).to_string())))
                .collect(),
        }
    }
}

fn unavailable(
    component: Component,
    components: &Components,
    facts: &CommFacts<'_>,
) -> Option<&'static str> {
    let on_one_node = facts.nodes.is_none_or(|nodes| nodes.how_many() < 2);
    let is_hierarchy = facts.nodes.is_some_and(Nodes::is_hierarchy);
    let barriers = components.barriers;
    match component {
        Component::Inter => (!facts.is_inter).then_some("it is for intercommunicators"),
        Component::Basic | Component::Base | Component::Accelerator => None,
        Component::Libnbc => None,
        Component::Ftagree => (!components.tolerates_failures).then_some("mpi_ft_enable is 0"),
        _ if facts.is_inter => Some("it is not for intercommunicators"),
        Component::Own => (facts.ranks > 1).then_some("it is for communicators of one rank"),
        Component::Sync if barriers == Barriers::default() => {
            Some("coll_sync_barrier_before and coll_sync_barrier_after are 0")
        }
        Component::Sync | Component::Shmem if facts.ranks < 2 => Some("there is one rank"),
        Component::Shmem if !on_one_node => Some("the ranks are not all on one node"),
        Component::Shmem => {
            (!facts.has_control_section).then_some("no shared memory is left for it")
        }
        Component::Ucc => components.ucc.refusal(facts.ranks),
        Component::Hcoll => components.hcoll.refusal(facts.ranks),
        Component::Smp => {
            (!is_hierarchy).then_some("it needs several nodes, with several ranks on one")
        }
        Component::Sync | Component::Tuned => None,
    }
}

/// The reason why a component does not serve a call, apart from the parameters of ucc and hcoll.
fn refusal(component: Component, call: &CallFacts<'_>, nodes: Option<&Nodes>) -> Option<String> {
    let CollectiveFacts { collective, ranks, commutative, .. } = *call.facts;
    if !serves(component, collective, call.form) {
        return Some("it has no such function".to_string());
    }
    let strict = call.reduction.is_some_and(Reduction::is_strict) && ranks > 1;
    match component {
        Component::Smp
        | Component::Shmem
        | Component::Tuned
        | Component::Libnbc
        | Component::Ucc
        | Component::Hcoll
            if strict =>
        {
            Some("coll_base_associative is 0, and it needs associative operations".to_string())
        }
        Component::Shmem => {
            (!call.is_small).then(|| "the call is not for shared memory".to_string())
        }
        Component::Smp if !call.reduction.is_none_or(Reduction::may_group) => {
            let text = "the operation is not known to be exactly associative (coll_base_associative 1 takes it to be)";
            Some(text.to_string())
        }
        Component::Smp => by_name(collective, "smp")
            .and_then(|smp| smp.algorithm().refusal_on(ranks, commutative, nodes))
            .map(|restriction| restriction.to_string()),
        _ => None,
    }
}

/// No component serves a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unserved {
    pub collective: Collective,
    pub form: Form,
    pub why: Vec<(Component, String)>,
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Several MPI functions share one collective; the message names all of them.
        let kind = match self.collective {
            Collective::Alltoallv => "alltoallv or alltoallw",
            Collective::Neighbor => "neighborhood collective",
            Collective::InterMove | Collective::InterReduce => "collective of two groups",
            collective => collective.name(),
        };
        write!(f, "no collective component serves a {} {kind} here", self.form.name())?;
        if self.why.is_empty() { Ok(()) } else { write!(f, ": {}", reasons(&self.why)) }
    }
}

/// Components with their reasons, as text. Components with the same reason share one entry, as the
/// text of an MPI error has limited room.
#[must_use]
pub fn reasons<W: AsRef<str>>(why: &[(Component, W)]) -> String {
    let mut all: Vec<(&str, String)> = Vec::new();
    for (component, why) in why {
        match all.iter_mut().find(|(known, _)| *known == why.as_ref()) {
            Some((_, names)) => *names += &format!(", {component}"),
            None => all.push((why.as_ref(), component.to_string())),
        }
    }
    let each: Vec<String> = all.into_iter().map(|(why, names)| format!("{names}: {why}")).collect();
    each.join("; ")
}

/// The bytes of the segments of the component smp for a call of this algorithm; `None`: the call is
/// not cut into segments.
#[must_use]
pub fn smp_segment(
    components: &Components,
    facts: &CollectiveFacts,
    nodes: &Nodes,
    algorithm: AlgorithmId,
) -> Option<usize> {
    let segment = match (components.smp_segment, facts.setup) {
        (0, Setup::Dedicated) => {
            segment_bytes(facts.collective, nodes, facts.bytes, facts.commutative)
        }
        // A rank on a shared processor would be scheduled for little more than one segment.
        (0, Setup::Oversubscribed) => 0,
        (said, _) => said,
    };
    let can_cut = algorithm.algorithm().parameters.contains(&Parameter::Segment);
    (segment > 0 && facts.bytes > segment && can_cut).then_some(segment)
}

/// The reason of the component smp for its algorithm. `segment`: the bytes of a segment, if the
/// call has segments.
#[must_use]
pub fn smp_reason(nodes: &Nodes, segment: Option<usize>) -> String {
    match segment {
        Some(segment) => format!("the {} nodes, in segments of {segment} bytes", nodes.how_many()),
        None => format!("the {} nodes", nodes.how_many()),
    }
}

/// The algorithm of the components basic and base. The call then keeps rank order
/// ([`Call::in_rank_order`](oxmpi_plan::Call::in_rank_order)).
#[must_use]
pub fn basic(
    components: &Components,
    facts: &CollectiveFacts,
    reduction: Option<Reduction>,
) -> Option<AlgorithmId> {
    use Collective::*;
    let collective = facts.collective;
    let is_few = facts.ranks <= components.crossover;
    // The bytes of a reduce-scatter are those of one block.
    let blocks = if matches!(collective, ReduceScatter | ReduceScatterBlock) {
        facts.ranks as usize
    } else {
        1
    };
    let bytes = facts.bytes.saturating_mul(blocks) as u64;
    let is_linear =
        bytes <= components.reduce_crossover || reduction.is_some_and(Reduction::is_strict);
    let name = match (collective, is_few) {
        (Barrier, true) => "linear",
        (Barrier, false) => "tree",
        (Bcast | Gather | Scatter, true) => "basic_linear",
        (Bcast | Gather | Scatter, false) => "binomial",
        (Allgather | Alltoall | Neighbor | InterMove, _) => "linear",
        (Gatherv | Scatterv | Allgatherv, _) => "default",
        (Alltoallv, _) => "basic_linear",
        (Reduce, _) => {
            if is_linear {
                "linear"
            } else {
                "binomial"
            }
        }
        (Allreduce, _) => {
            if is_linear {
                "basic_linear"
            } else {
                "nonoverlapping"
            }
        }
        (ReduceScatter, _) => {
            if is_linear {
                "linear"
            } else {
                "non-overlapping"
            }
        }
        (ReduceScatterBlock, _) => {
            if is_linear {
                "linear"
            } else {
                "basic_linear"
            }
        }
        (Scan | Exscan, _) => "linear",
        (InterReduce, _) => "leaders",
    };
    by_name(collective, name)
}

impl Components {
    /// Whether the parameters leave the choice of components at its default. Then shared memory
    /// serves the calls that it can, the fixed decisions serve the others, and no stack is
    /// searched.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        // Without the priority of ftagree, which serves no collectives.
        let mut priorities = Components::default().priorities;
        priorities[Component::Ftagree as usize] = self.priority(Component::Ftagree);
        self.selected.with(Component::Ftagree) == ComponentSet::ALL
            && self.priorities == priorities
            && self.barriers == Barriers::default()
            && self.virtual_nodes.is_none()
            && !self.ucc.is_enabled()
            && !self.hcoll.is_enabled()
    }
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.members.is_empty() {
            f.write_str("no component")?;
        }
        for (at, (component, priority)) in self.members.iter().enumerate() {
            write!(f, "{}{component} {priority}", if at == 0 { "" } else { ", " })?;
        }
        match self.sync {
            Some((_, priority)) => write!(f, "; around those to {priority}: sync"),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
