//! The components of one communicator, and which of them serves a call.
//!
//! When a communicator is made each component is asked whether it is for such ones. Those that are stand in the order of
//! their priorities, and a call is served by the first that has the function and can serve these arguments; the others
//! fill what it leaves, and base what all of them leave. Everything looked at is the same on all ranks, and so is the answer.

use crate::agreement::AgreementSettings;
use crate::collectives::Facts;
use crate::components::{Barriers, Component, ComponentSet, Components, Form, serves};
use crate::handed::HandedOver;
use oxmpi_plan::table::{Parameter, by_name};
use oxmpi_plan::{AlgorithmId, Collective, Nodes, Setup, segment_bytes};
use std::fmt;

/// What all ranks of a communicator know of it.
#[derive(Clone, Copy, Debug)]
pub struct CommFacts<'a> {
    /// Ranks that take part in its collectives: of both groups of an intercommunicator.
    pub ranks: u32,
    /// Whether it has two groups.
    pub is_inter: bool,
    /// How its ranks are spread over nodes; `None`: all are on one as far as is known.
    pub nodes: Option<&'a Nodes>,
    /// Whether it was given a control section in shared memory.
    pub has_control_section: bool,
}

/// One call, as far as a component looks at it.
#[derive(Clone, Copy, Debug)]
pub struct CallFacts<'a> {
    /// The collective and its arguments.
    pub facts: &'a Facts,
    /// How it is called.
    pub form: Form,
    /// Whether shared memory past the plans can serve it.
    pub is_small: bool,
    /// Whether a parameter or a rule names the algorithm.
    pub is_named: bool,
    /// Of a reduction: what grouping does to the result.
    pub reduction: Option<Reduction>,
    /// Whether it may be handed to another library: of a reduction, whether that has the operation on such elements.
    pub can_hand_over: bool,
}

/// What is known of the operation of a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduction {
    /// Whether any grouping gives the same result.
    pub is_exact: bool,
    /// The parameter `coll_base_associative`.
    pub associative: Option<bool>,
}

impl Reduction {
    /// Whether contributions must be combined one by one, in the order of the ranks.
    #[must_use]
    pub fn is_strict(self) -> bool {
        self.associative == Some(false)
    }

    /// Whether they may be grouped by where the ranks are.
    #[must_use]
    pub fn may_group(self) -> bool {
        self.associative.unwrap_or(self.is_exact)
    }
}

/// The components of one communicator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    /// Those that are for it, with their priorities, the first to serve at the front.
    members: Vec<(Component, u32)>,
    /// What is handed to UCC.
    ucc: HandedOver,
    /// What is handed to HCOLL.
    hcoll: HandedOver,
    /// How ftagree has the ranks agree.
    agreement: AgreementSettings,
    /// Whether base was asked for, and does not only take over.
    asks_base: bool,
    /// What serves agreements where a component is named for the communicator that has none.
    unnamed: Option<Component>,
    /// Those that are not, and why.
    left_out: Vec<(Component, &'static str)>,
    /// The barriers around what serves, and the priority up to which it gets them.
    sync: Option<(Barriers, u32)>,
}

const NOT_ASKED: &str = "it is not asked (parameter coll)";
const NOT_NAMED: &str = "another one is named for this communicator";

impl Stack {
    /// Asks all components; `only` is the one that was named for this communicator.
    #[must_use]
    pub fn new(components: &Components, facts: &CommFacts<'_>, only: Option<Component>) -> Stack {
        let Components { ucc, hcoll, agreement, .. } = *components;
        let serves_none = |only: &Component| !matches!(only, Component::Ftagree | Component::Basic);
        let unnamed = only.filter(serves_none).map(|_| match components.tolerates_failures {
            true => Component::Ftagree,
            false => Component::Basic,
        });
        let (members, left_out) = (Vec::new(), Vec::new());
        let mut stack =
            Stack { members, ucc, hcoll, agreement, asks_base: false, unnamed, left_out, sync: None };
        for component in Component::all() {
            let refusal = match only {
                Some(only) if only != component && component != Component::Accelerator => Some(NOT_NAMED),
                None if !components.asked.has(component) => Some(NOT_ASKED),
                _ => unavailable(component, components, facts),
            };
            let priority = components.priority(component);
            match refusal {
                Some(why) => stack.left_out.push((component, why)),
                // It serves nothing by itself.
                None if component == Component::Accelerator => {}
                None if component == Component::Sync => stack.sync = Some((components.barriers, priority)),
                None => stack.members.push((component, priority)),
            }
        }
        // Of one priority, those that stand first in the table.
        stack.members.sort_by_key(|(_, priority)| std::cmp::Reverse(*priority));
        if only.is_none() && !stack.has(Component::Basic) {
            stack.members.push((Component::Base, components.priority(Component::Base)));
        }
        stack.asks_base = components.asked.has(Component::Base);
        stack
    }

    /// Those that are for it, the first to serve at the front.
    pub fn members(&self) -> impl Iterator<Item = (Component, u32)> {
        self.members.iter().copied()
    }

    /// Those that are not for it, and why.
    pub fn left_out(&self) -> impl Iterator<Item = (Component, &'static str)> {
        self.left_out.iter().copied()
    }

    /// Whether the component sync is for it, and puts barriers around what serves.
    #[must_use]
    pub fn has_sync(&self) -> bool {
        self.sync.is_some()
    }

    /// Whether a component is for it.
    #[must_use]
    pub fn has(&self, component: Component) -> bool {
        self.members.iter().any(|(member, _)| *member == component)
    }

    /// The component that serves a call.
    ///
    /// # Errors
    /// There is none.
    pub fn pick(&self, call: &CallFacts<'_>, nodes: Option<&Nodes>) -> Result<Component, Unserved> {
        let fits = |component: &Component| self.refusal(*component, call, nodes).is_none();
        let mut members = self.members.iter().map(|(component, _)| *component);
        if call.is_named && call.facts.ranks > 1 && self.has(Component::Tuned) && fits(&Component::Tuned) {
            return Ok(Component::Tuned);
        }
        members.find(fits).ok_or_else(|| self.unserved(call, nodes))
    }

    /// Whether a component is for it that serves collectives: ftagree serves agreements alone, and base, unless it is asked for, takes
    /// over what another component leaves.
    #[must_use]
    pub fn serves_collectives(&self) -> bool {
        self.members.iter().any(|(member, _)| match member {
            Component::Ftagree => false,
            Component::Base => self.asks_base,
            _ => true,
        })
    }

    /// The component that serves its agreements, and how: of ftagree, and of basic, which tolerates no failures, the first. Who names another
    /// component for the communicator means its collectives, so agreements are served as if none were named.
    ///
    /// # Errors
    /// There is none. The text says why, for a person.
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

    /// Why a component of it does not serve a call.
    fn refusal(&self, component: Component, call: &CallFacts<'_>, nodes: Option<&Nodes>) -> Option<String> {
        let why = match component {
            Component::Ucc => self.ucc.refusal_of(call),
            Component::Hcoll => self.hcoll.refusal_of(call),
            _ => None,
        };
        why.map(str::to_string).or_else(|| refusal(component, call, nodes))
    }

    #[cold]
    fn unserved(&self, call: &CallFacts<'_>, nodes: Option<&Nodes>) -> Unserved {
        let serves_some = |component: Component| !component.is_around() && component != Component::Ftagree;
        let left_out = self.left_out.iter().filter(|(component, _)| serves_some(*component));
        let here =
            self.members.iter().filter(|(component, _)| serves_some(*component)).filter_map(
                |(component, _)| self.refusal(*component, call, nodes).map(|why| (*component, why)),
            );
        Unserved {
            collective: call.facts.collective,
            form: call.form,
            why: here.chain(left_out.map(|(component, why)| (*component, (*why).to_string()))).collect(),
        }
    }
}

/// Why a component is not for a communicator.
fn unavailable(component: Component, components: &Components, facts: &CommFacts<'_>) -> Option<&'static str> {
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
        Component::Shmem => (!facts.has_control_section).then_some("no shared memory is left for it"),
        Component::Ucc => components.ucc.refusal(facts.ranks),
        Component::Hcoll => components.hcoll.refusal(facts.ranks),
        Component::Smp => (!is_hierarchy).then_some("it needs several nodes, with several ranks on one"),
        Component::Sync | Component::Tuned => None,
    }
}

/// Why a component of a communicator does not serve a call.
fn refusal(component: Component, call: &CallFacts<'_>, nodes: Option<&Nodes>) -> Option<String> {
    let Facts { collective, ranks, commutative, .. } = *call.facts;
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
            Some("coll_base_associative is 0, and it takes operations to be associative".to_string())
        }
        Component::Shmem => (!call.is_small).then(|| "the call is not one for shared memory".to_string()),
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
    /// The collective.
    pub collective: Collective,
    /// How it was called.
    pub form: Form,
    /// Each component, and why it does not.
    pub why: Vec<(Component, String)>,
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Who asks may have called any of those that are served as one kind.
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

/// Components and why they do not serve, as text. A reason that several share stands once: the text of an error has limited room in MPI.
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

/// Bytes of the segments into which the component smp cuts a call that this algorithm serves; `None`: it does not.
#[must_use]
pub fn smp_segment(
    components: &Components,
    facts: &Facts,
    nodes: &Nodes,
    algorithm: AlgorithmId,
) -> Option<usize> {
    let segment = match (components.smp_segment, facts.setup) {
        (0, Setup::Roomy) => segment_bytes(facts.collective, nodes, facts.bytes, facts.commutative),
        // Where processors are shared each rank would have its turn for hardly more than a segment.
        (0, Setup::Crowded) => 0,
        (said, _) => said,
    };
    let can_cut = algorithm.algorithm().parameters.contains(&Parameter::Segment);
    (segment > 0 && facts.bytes > segment && can_cut).then_some(segment)
}

/// What chose the algorithm of the component smp, which cuts the call into segments of so many bytes, if at all.
#[must_use]
pub fn smp_reason(nodes: &Nodes, segment: Option<usize>) -> String {
    match segment {
        Some(segment) => format!("the {} nodes, in segments of {segment} bytes", nodes.how_many()),
        None => format!("the {} nodes", nodes.how_many()),
    }
}

/// The algorithm that the components basic and base take, whose call keeps rank order
/// ([`Call::in_rank_order`](oxmpi_plan::Call::in_rank_order)).
#[must_use]
pub fn basic(components: &Components, facts: &Facts, reduction: Option<Reduction>) -> Option<AlgorithmId> {
    use Collective::*;
    let collective = facts.collective;
    let is_few = facts.ranks <= components.crossover;
    // Reduce-scatters are told by one of their blocks.
    let blocks =
        if matches!(collective, ReduceScatter | ReduceScatterBlock) { facts.ranks as usize } else { 1 };
    let bytes = facts.bytes.saturating_mul(blocks) as u64;
    let is_linear = bytes <= components.reduce_crossover || reduction.is_some_and(Reduction::is_strict);
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
    /// Whether everything is as it is when nobody says anything: then shared memory serves what it can and the fixed rules
    /// the rest, and no stack need be looked at.
    #[must_use]
    pub fn is_plain(&self) -> bool {
        // ftagree serves none.
        let mut priorities = Components::default().priorities;
        priorities[Component::Ftagree as usize] = self.priority(Component::Ftagree);
        self.asked.with(Component::Ftagree) == ComponentSet::ALL
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
