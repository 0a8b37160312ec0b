use super::*;
use ThreadLevel::{Funneled, Multiple, Serialized, Single};

fn row(
    framework: Framework,
    name: &'static str,
    priority: u32,
    levels: [ThreadLevel; 2],
) -> ModuleRow {
    ModuleRow {
        framework,
        name,
        priority,
        lowest: levels[0],
        highest: levels[1],
        checkpoints: false,
        left_out: None,
        unavailable: None,
        between: None,
    }
}

fn rpi(name: &'static str, priority: u32, levels: [ThreadLevel; 2]) -> ModuleRow {
    row(Framework::Rpi, name, priority, levels)
}

const ALL: [ThreadLevel; 2] = [Single, Multiple];

fn basic() -> ModuleRow {
    ModuleRow { checkpoints: true, ..row(Framework::Coll, "basic", 0, ALL) }
}

fn at(level: ThreadLevel) -> SelectionRequest {
    SelectionRequest { level, by: "a test".into(), cr: None, nodes: None }
}

#[test]
fn the_highest_priority_that_runs_at_the_level_wins() {
    let rows = [rpi("a", 20, ALL), rpi("b", 60, [Single, Serialized]), basic()];
    let found = decide(&rows, &at(Serialized)).unwrap();
    assert_eq!((found.rpi, found.level), ("b", Serialized));
    assert_eq!(found.steps[4].drops, [("rpi a".to_string(), "its priority is 20".to_string())]);
    let found = decide(&rows, &at(Multiple)).unwrap();
    assert_eq!((found.rpi, found.level), ("a", Multiple));
    assert_eq!(found.steps[2].drops[0].0, "rpi b");
    assert!(
        found.steps[2].drops[0]
            .1
            .contains("MPI_THREAD_SERIALIZED, and MPI_THREAD_MULTIPLE is wanted")
    );
    assert_eq!(
        found.steps.iter().map(|step| step.number).collect::<Vec<_>>(),
        [1, 2, 3, 4, 5, 6, 7, 8]
    );
}

#[test]
fn the_level_falls_until_something_runs_and_rises_to_what_the_winner_needs() {
    let rows = [rpi("a", 1, [Single, Funneled]), rpi("b", 2, [Single, Single]), basic()];
    let found = decide(&rows, &at(Multiple)).unwrap();
    assert_eq!((found.rpi, found.level), ("a", Funneled));
    assert!(found.steps[3].text.contains("lowered to MPI_THREAD_FUNNELED"));
    let rows = [rpi("a", 1, [Serialized, Multiple]), basic()];
    let found = decide(&rows, &at(Single)).unwrap();
    assert_eq!((found.rpi, found.level), ("a", Serialized));
    assert!(
        found.steps[4].text.contains("raised to MPI_THREAD_SERIALIZED"),
        "{}",
        found.steps[4].text
    );
}

#[test]
fn without_transport_or_collectives_the_error_has_the_reasons() {
    let gone = ModuleRow { unavailable: Some("no such hardware".into()), ..rpi("gm", 50, ALL) };
    let other = ModuleRow { left_out: Some("'gm' is requested".into()), ..rpi("tcp", 20, ALL) };
    let error = decide(&[gone, other, basic()], &at(Single)).unwrap_err();
    assert_eq!(error.framework, Framework::Rpi);
    assert_eq!(
        error.to_string(),
        "no module of 'rpi' carries the messages of this job: rpi gm: no such hardware. \
         'oxmpi info --select' shows each step"
    );
    let rows =
        [rpi("a", 1, [Serialized, Multiple]), row(Framework::Coll, "x", 0, [Single, Funneled])];
    let error = decide(&rows, &at(Single)).unwrap_err();
    assert_eq!(error.framework, Framework::Coll);
    assert!(error.to_string().contains("coll x: it runs up to MPI_THREAD_FUNNELED"), "{error}");
}

#[test]
fn a_way_between_nodes_is_part_of_the_decision() {
    let near = ModuleRow { between: Some("tcp"), ..rpi("near", 60, ALL) };
    let all = [near, rpi("far", 20, ALL), basic(), row(Framework::Between, "tcp", 0, ALL)];
    let nodes = SelectionRequest { nodes: Some("2 nodes".into()), ..at(Single) };
    for request in [&at(Single), &nodes] {
        let found = decide(&all, request).unwrap();
        assert_eq!((found.rpi, found.between), ("near", Some("tcp")));
        assert!(found.steps[4].text.ends_with("messages go by tcp"), "{}", found.steps[4].text);
    }
    // Without a transport between nodes: with one node only the report mentions it; with several
    // nodes, modules that need such a transport cannot be used.
    let without = |row: ModuleRow| match row.framework {
        Framework::Between => ModuleRow { left_out: Some("nobody wants it".into()), ..row },
        _ => row,
    };
    let rows = all.map(without);
    let found = decide(&rows, &at(Single)).unwrap();
    assert_eq!((found.rpi, found.between), ("near", None));
    assert_eq!(
        found.steps[1].drops,
        [("between nodes tcp".to_string(), "nobody wants it".to_string())]
    );
    assert!(found.steps[4].text.ends_with("nothing is left that carries messages between nodes"));
    let found = decide(&rows, &nodes).unwrap();
    assert_eq!((found.rpi, found.between), ("far", None));
    let why = "the job is on 2 nodes, between which messages go by tcp: nobody wants it";
    assert!(found.steps[1].drops.contains(&("rpi near".to_string(), why.to_string())));
    let error = decide(&[rows[0].clone(), rows[2].clone(), rows[3].clone()], &nodes).unwrap_err();
    assert!(error.framework == Framework::Rpi && error.to_string().contains(why), "{error}");
}

#[test]
fn checkpoints_need_their_level_and_a_transport_that_supports_them() {
    let crtcp = ModuleRow { checkpoints: true, ..rpi("crtcp", 25, ALL) };
    let (blcr, own) = (
        row(Framework::Cr, "blcr", 50, [Serialized, Multiple]),
        row(Framework::Cr, "self", 25, [Serialized, Multiple]),
    );
    let rows = [crtcp, basic(), blcr.clone(), own];
    // Without a request, blcr is selected only at its own thread level.
    assert_eq!(decide(&rows, &at(Single)).unwrap().cr, None);
    assert_eq!(decide(&rows, &at(Multiple)).unwrap().cr, Some("blcr"));
    // A request raises the level.
    let requested = SelectionRequest { cr: Some("self"), ..at(Single) };
    let found = decide(&rows, &requested).unwrap();
    assert_eq!((found.cr, found.level), (Some("self"), Serialized));
    assert!(found.steps[0].text.contains("raised to MPI_THREAD_SERIALIZED, which cr self needs"));
    // Not with a transport that supports no checkpoints.
    let rows = [rpi("shm", 60, ALL), basic(), blcr];
    assert_eq!(decide(&rows, &at(Multiple)).unwrap().cr, None);
    let error = decide(&rows, &SelectionRequest { cr: Some("blcr"), ..at(Single) }).unwrap_err();
    assert_eq!(error.framework, Framework::Cr);
    assert!(error.to_string().contains("cr blcr: rpi shm supports no checkpoints"), "{error}");
}
