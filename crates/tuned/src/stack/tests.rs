use super::*;
use crate::components::VirtualNodes;
use oxmpi_param::Params;

const PLAIN: CommFacts<'static> =
    CommFacts { ranks: 4, is_inter: false, nodes: None, has_control_section: true };

fn components(said: &[(&str, &str)]) -> Components {
    let mut params = Params::default();
    for (name, value) in said {
        params.set(name, value).unwrap();
    }
    Components::new(&params).unwrap()
}

fn names(stack: &Stack) -> String {
    stack.members().map(|(component, _)| component.name()).collect::<Vec<_>>().join(" ")
}

fn stack(said: &[(&str, &str)], facts: &CommFacts<'_>) -> Stack {
    Stack::new(&components(said), facts, None)
}

fn call(facts: &CollectiveFacts) -> CallFacts<'_> {
    CallFacts {
        facts,
        form: Form::Blocking,
        is_small: false,
        is_named: false,
        reduction: None,
        can_hand_over: true,
    }
}

fn facts(collective: Collective) -> CollectiveFacts {
    CollectiveFacts::new(collective, 4, 8, 8, true)
}

#[test]
fn only_available_components_serve_a_communicator() {
    assert_eq!(names(&stack(&[], &PLAIN)), "shmem tuned libnbc basic");
    assert_eq!(names(&stack(&[], &CommFacts { ranks: 1, ..PLAIN })), "self tuned libnbc basic");
    let apart = CommFacts { has_control_section: false, ..PLAIN };
    assert_eq!(names(&stack(&[], &apart)), "tuned libnbc basic");
    assert_eq!(names(&stack(&[], &CommFacts { is_inter: true, ..apart })), "inter libnbc basic");
    let two = Nodes::new([0, 0, 1, 1]);
    assert_eq!(
        names(&stack(&[], &CommFacts { nodes: Some(&two), ..PLAIN })),
        "smp tuned libnbc basic"
    );
    let one = Nodes::new([0, 0, 0, 0]);
    assert_eq!(
        names(&stack(&[], &CommFacts { nodes: Some(&one), ..PLAIN })),
        "shmem tuned libnbc basic"
    );
    let four = Nodes::new([0, 1, 2, 3]);
    assert_eq!(
        names(&stack(&[], &CommFacts { nodes: Some(&four), ..PLAIN })),
        "tuned libnbc basic"
    );
}

#[test]
fn priorities_order_the_selected_components() {
    assert_eq!(names(&stack(&[("coll", "basic,self,libnbc")], &PLAIN)), "libnbc basic");
    assert_eq!(names(&stack(&[("coll", "^shmem")], &PLAIN)), "tuned libnbc basic");
    assert_eq!(names(&stack(&[("coll", "tuned,sm")], &PLAIN)), "shmem tuned base");
    let inter = CommFacts { is_inter: true, ..PLAIN };
    assert_eq!(
        names(&stack(&[("coll", "tuned,self"), ("coll_tuned_priority", "0")], &inter)),
        "base"
    );
    assert_eq!(names(&stack(&[("coll_basic_priority", "90")], &PLAIN)), "basic shmem tuned libnbc");
    assert_eq!(
        names(&stack(&[("coll_lam_basic_priority", "30")], &PLAIN)),
        "shmem tuned basic libnbc"
    );
    let only = |component| Stack::new(&components(&[("coll", "self")]), &PLAIN, Some(component));
    assert_eq!(
        names(&only(Component::Basic)),
        "basic",
        "named for the communicator, whatever coll selects"
    );
    assert_eq!(names(&only(Component::Smp)), "");
}

#[test]
fn a_call_goes_to_the_first_component_that_can_serve_it() {
    let plain = stack(&[], &PLAIN);
    let pick = |collective, form, is_small| {
        plain.pick(&CallFacts { form, is_small, ..call(&facts(collective)) }, None).unwrap()
    };
    assert_eq!(pick(Collective::Allreduce, Form::Blocking, true), Component::Shmem);
    assert_eq!(pick(Collective::Allreduce, Form::Blocking, false), Component::Tuned);
    assert_eq!(pick(Collective::Allreduce, Form::Nonblocking, true), Component::Shmem);
    assert_eq!(pick(Collective::Allreduce, Form::Nonblocking, false), Component::Tuned);
    assert_eq!(pick(Collective::Allreduce, Form::Persistent, true), Component::Tuned);
    assert_eq!(pick(Collective::Alltoall, Form::Nonblocking, true), Component::Shmem);
    assert_eq!(pick(Collective::Alltoallv, Form::Nonblocking, true), Component::Tuned);
    assert_eq!(pick(Collective::Gatherv, Form::Blocking, false), Component::Basic);
    assert_eq!(pick(Collective::Gatherv, Form::Persistent, false), Component::Libnbc);
    let allreduce = facts(Collective::Allreduce);
    let named = CallFacts { is_small: true, is_named: true, ..call(&allreduce) };
    assert_eq!(
        plain.pick(&named, None),
        Ok(Component::Tuned),
        "a parameter names an algorithm of tuned"
    );
    assert_eq!(stack(&[("coll", "^tuned")], &PLAIN).pick(&named, None), Ok(Component::Shmem));
    let some = stack(&[("coll", "tuned,sm"), ("coll_tuned_priority", "0")], &PLAIN);
    assert_eq!(some.pick(&named, None), Ok(Component::Tuned));
    assert_eq!(some.pick(&call(&facts(Collective::Gatherv)), None), Ok(Component::Base));
    let inter = stack(&[], &CommFacts { is_inter: true, ..PLAIN });
    assert_eq!(inter.pick(&call(&facts(Collective::InterReduce)), None), Ok(Component::Inter));
    assert_eq!(inter.pick(&call(&facts(Collective::Barrier)), None), Ok(Component::Inter));
}

#[test]
fn of_two_libraries_the_one_of_higher_priority_serves() {
    let both = [("coll_ucc_enable", "1"), ("coll_hcoll_enable", "1")];
    let picked = |more: &[(&str, &str)], collective, can_hand_over| {
        let facts = facts(collective);
        stack(&[&both, more].concat(), &PLAIN)
            .pick(&CallFacts { can_hand_over, ..call(&facts) }, None)
            .unwrap()
    };
    use Collective::{Allreduce, Gather};
    assert_eq!(names(&stack(&both, &PLAIN)), "hcoll shmem tuned libnbc ucc basic");
    assert_eq!(picked(&[], Allreduce, true), Component::Hcoll);
    assert_eq!(picked(&[], Allreduce, false), Component::Tuned);
    assert_eq!(picked(&[], Gather, true), Component::Tuned);
    let (ucc_first, equal) = (("coll_ucc_priority", "91"), ("coll_ucc_priority", "90"));
    assert_eq!(picked(&[ucc_first], Allreduce, true), Component::Ucc);
    assert_eq!(
        picked(&[equal], Allreduce, true),
        Component::Ucc,
        "the table decides between equals"
    );
    assert_eq!(picked(&[("coll_ucc_priority", "60")], Gather, true), Component::Ucc);
    assert_eq!(picked(&[("coll_hcoll_priority", "5")], Allreduce, true), Component::Tuned);
    assert_eq!(picked(&[ucc_first, ("coll", "hcoll,basic")], Allreduce, true), Component::Hcoll);
}

#[test]
fn a_call_that_no_component_serves_is_an_error_with_reasons() {
    let only = |component| Stack::new(&Components::default(), &PLAIN, Some(component));
    let error = only(Component::Libnbc)
        .pick(&call(&facts(Collective::Bcast)), None)
        .unwrap_err()
        .to_string();
    let start = "no collective component serves a blocking bcast here: libnbc: it has no such function; self, smp, ";
    assert!(error.starts_with(start), "{error}");
    assert!(
        error.ends_with(", ucc, hcoll, basic: this communicator names another component"),
        "{error}"
    );
    for (collective, kind) in [
        (Collective::Alltoallv, "alltoallv or alltoallw"),
        (Collective::Neighbor, "neighborhood collective"),
    ] {
        let error =
            only(Component::Own).pick(&call(&facts(collective)), None).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("no collective component serves a blocking {kind} here: ")),
            "{error}"
        );
    }
    let error =
        only(Component::Smp).pick(&call(&facts(Collective::Bcast)), None).unwrap_err().to_string();
    assert!(error.contains("smp: it needs several nodes, with several ranks on one"), "{error}");
    assert!(error.contains("basic: this communicator names another component"), "{error}");
}

#[test]
fn only_associative_operations_are_grouped_by_nodes() {
    let (ordered, cyclic) = (Nodes::new([0, 0, 1, 1]), Nodes::new([0, 1, 0, 1]));
    let pick = |nodes: &Nodes, collective, commutative, is_exact, associative| {
        let stack = stack(&[], &CommFacts { nodes: Some(nodes), ..PLAIN });
        let facts = CollectiveFacts { commutative, ..facts(collective) };
        let reduction = Some(Reduction { is_exact, associative });
        stack.pick(&CallFacts { reduction, ..call(&facts) }, Some(nodes)).unwrap()
    };
    use Collective::{Allreduce, Scan};
    assert_eq!(pick(&ordered, Allreduce, true, true, None), Component::Smp);
    assert_eq!(pick(&ordered, Allreduce, true, false, None), Component::Tuned);
    assert_eq!(pick(&ordered, Allreduce, true, false, Some(true)), Component::Smp);
    assert_eq!(pick(&ordered, Allreduce, true, true, Some(false)), Component::Basic);
    assert_eq!(pick(&ordered, Allreduce, false, false, Some(true)), Component::Smp);
    assert_eq!(pick(&cyclic, Allreduce, false, false, Some(true)), Component::Tuned);
    assert_eq!(pick(&cyclic, Allreduce, true, true, None), Component::Smp);
    assert_eq!(pick(&cyclic, Scan, true, true, None), Component::Tuned);
    let stack = stack(&[], &CommFacts { nodes: Some(&cyclic), ..PLAIN });
    let bcast = facts(Collective::Bcast);
    assert_eq!(stack.pick(&call(&bcast), Some(&cyclic)), Ok(Component::Smp));
}

#[test]
fn strict_order_needs_basic() {
    let facts = facts(Collective::Reduce);
    let reduction = Some(Reduction { is_exact: true, associative: Some(false) });
    let strict = CallFacts { reduction, is_named: true, is_small: true, ..call(&facts) };
    assert_eq!(stack(&[], &PLAIN).pick(&strict, None), Ok(Component::Basic));
    assert_eq!(stack(&[("coll", "tuned,shmem")], &PLAIN).pick(&strict, None), Ok(Component::Base));
    let named = Stack::new(&Components::default(), &PLAIN, Some(Component::Tuned));
    let error = named.pick(&strict, None).unwrap_err().to_string();
    assert!(error.contains("tuned: coll_base_associative is 0"), "{error}");
    let alone = CommFacts { ranks: 1, ..PLAIN };
    let facts = CollectiveFacts { ranks: 1, ..facts };
    assert_eq!(
        stack(&[], &alone).pick(&CallFacts { facts: &facts, ..strict }, None),
        Ok(Component::Own)
    );
}

#[test]
fn sync_adds_barriers_up_to_its_priority() {
    let with = |more: &[(&str, &str)], facts: &CommFacts<'_>| {
        let said =
            [&[("coll_sync_barrier_before", "3"), ("coll_sync_barrier_after", "5")], more].concat();
        stack(&said, facts)
    };
    let barriers = Some(Barriers { before: 3, after: 5 });
    let plain = with(&[], &PLAIN);
    assert_eq!(plain.barriers(Collective::Bcast, Component::Tuned), barriers);
    assert_eq!(plain.barriers(Collective::Reduce, Component::Shmem), barriers);
    assert_eq!(plain.barriers(Collective::Allreduce, Component::Tuned), None, "no rank runs ahead");
    assert_eq!(
        with(&[("coll", "^sync")], &PLAIN).barriers(Collective::Bcast, Component::Tuned),
        None
    );
    let low = with(&[("coll_sync_priority", "20")], &PLAIN);
    assert_eq!(low.barriers(Collective::Bcast, Component::Tuned), None);
    assert_eq!(low.barriers(Collective::Gatherv, Component::Basic), barriers);
    assert_eq!(
        plain.to_string(),
        "shmem 50, tuned 30, libnbc 10, basic 0; around those to 50: sync"
    );
    let alone = with(&[], &CommFacts { ranks: 1, ..PLAIN });
    assert_eq!(alone.barriers(Collective::Bcast, Component::Own), None);
}

#[test]
fn basic_is_linear_up_to_its_crossovers() {
    let components = components(&[("coll_crossover", "3"), ("coll_reduce_crossover", "100")]);
    let name = |collective, ranks, bytes, associative| {
        let facts = CollectiveFacts::new(collective, ranks, bytes, 1, true);
        let reduction = Some(Reduction { is_exact: true, associative });
        basic(&components, &facts, reduction).unwrap().algorithm().name
    };
    use Collective::*;
    assert_eq!([name(Bcast, 3, 1, None), name(Bcast, 4, 1, None)], ["basic_linear", "binomial"]);
    assert_eq!([name(Barrier, 3, 0, None), name(Barrier, 4, 0, None)], ["linear", "tree"]);
    assert_eq!([name(Reduce, 9, 100, None), name(Reduce, 2, 101, None)], ["linear", "binomial"]);
    assert_eq!(name(Reduce, 9, 101, Some(false)), "linear");
    assert_eq!(
        [name(ReduceScatterBlock, 4, 25, None), name(ReduceScatterBlock, 4, 26, None)],
        ["linear", "basic_linear"]
    );
    assert_eq!(name(ReduceScatter, 400, 26, Some(false)), "linear");
}

#[test]
fn basic_has_an_algorithm_for_every_collective() {
    for collective in Collective::ALL {
        for (ranks, bytes) in [(2, 1), (7, 1), (7, 1 << 20)] {
            let facts = CollectiveFacts::new(collective, ranks, bytes, 1, false);
            let row = basic(&Components::default(), &facts, None).unwrap().algorithm();
            assert_eq!(row.refusal(ranks, false), None, "{collective} {}", row.name);
        }
    }
}

#[test]
fn components_are_plain_unless_a_parameter_changes_the_choice() {
    assert!(Components::default().is_plain());
    assert!(components(&[("coll_crossover", "9")]).is_plain(), "basic serves the same calls");
    assert!(
        components(&[("coll_ftagree_priority", "9")]).is_plain(),
        "ftagree serves no collective"
    );
    assert_eq!(
        components(&[("coll", "^ftagree")]).selected.with(Component::Ftagree),
        ComponentSet::ALL
    );
    for said in [
        ("coll", "tuned"),
        ("coll_tuned_priority", "60"),
        ("coll_sync_barrier_after", "1"),
        ("coll_smp_virtual_nodes", "2"),
    ] {
        assert!(!components(&[said]).is_plain(), "{said:?}");
    }
    assert_eq!(
        components(&[("coll_smp_virtual_nodes", "2")]).virtual_nodes,
        Some(VirtualNodes::Many(2))
    );
}

#[test]
fn agreements_are_served_by_ftagree_or_basic() {
    let served = |said: &[(&str, &str)], facts: &CommFacts<'_>| {
        let agreement =
            stack(said, facts).agreement().map(|(component, how)| format!("{component}: {how}"));
        agreement.unwrap_or_else(|why| why)
    };
    let (plain, returning) =
        ("algorithm 0 allreduce, not fault tolerant", "algorithm 1 early returning, binary tree");
    let ft = ("mpi_ft_enable", "1");
    let inter = CommFacts { is_inter: true, ..PLAIN };
    for facts in [PLAIN, inter, CommFacts { ranks: 1, ..PLAIN }] {
        assert_eq!(served(&[], &facts), format!("basic: {plain}"));
        assert_eq!(served(&[ft], &facts), format!("ftagree: {returning}"));
        assert_eq!(served(&[ft, ("coll", "^ftagree")], &facts), format!("basic: {plain}"));
        assert_eq!(served(&[ft, ("coll_basic_priority", "40")], &facts), format!("basic: {plain}"));
    }
    assert_eq!(served(&[ft, ("coll_ftagree_agreement", "0")], &PLAIN), format!("ftagree: {plain}"));
    assert_eq!(
        served(&[("coll", "ftagree,tuned")], &PLAIN),
        "no collective component serves an agreement here: ftagree: mpi_ft_enable is 0; basic: not selected (parameter coll)"
    );
    for (said, served) in
        [(&[][..], format!("basic: {plain}")), (&[ft], format!("ftagree: {returning}"))]
    {
        let named = Stack::new(&components(said), &PLAIN, Some(Component::Tuned));
        let agreement = named.agreement().map(|(component, how)| format!("{component}: {how}"));
        assert_eq!(agreement, Ok(served), "the named component serves collectives, not agreements");
    }
    let alone = stack(&[ft, ("coll", "ftagree")], &PLAIN);
    assert!(!alone.serves_collectives() && stack(&[], &PLAIN).serves_collectives());
    assert!(stack(&[("coll", "ftagree,base")], &PLAIN).serves_collectives());
    let named = Stack::new(&components(&[ft]), &PLAIN, Some(Component::Ftagree));
    let error = named.pick(&call(&facts(Collective::Bcast)), None).unwrap_err().to_string();
    assert!(!error.contains("ftagree"), "{error}");
}
