//! The algorithms of the collectives, from the table of `oxmpi-plan`.

use oxmpi_param::Params;
use oxmpi_plan::table::algorithms;
use oxmpi_plan::{Algorithm, AlgorithmId, Collective};
use oxmpi_tuned::collectives::{TUNABLE, index_of};
use oxmpi_tuned::components::VirtualNodes;
use oxmpi_tuned::{Component, Components, Tunable};
use serde_json::{Value as Json, json};

/// The row of a collective that parameters and rules files may tune.
pub(crate) fn tunable(collective: Collective) -> Option<&'static Tunable> {
    index_of(collective).map(|index| &TUNABLE[index])
}

pub(crate) fn read_rules(file: &str) -> Result<Vec<u8>, String> {
    match oxmpi_param::file::read(file.as_ref()) {
        Ok(Some(bytes)) => Ok(bytes),
        Ok(None) => Err("there is no such file".to_string()),
        Err(error) => Err(error.to_string()),
    }
}

/// Takes over the nodes of `mpi_virtual_nodes`, unless the components have virtual nodes of their
/// own.
pub(crate) fn spread(components: &mut Components, params: &Params) {
    let nodes = params.mpi_virtual_nodes();
    if nodes > 1 && components.virtual_nodes.is_none() {
        components.virtual_nodes = Some(VirtualNodes::Many(nodes));
    }
}

/// Tunable collectives in the order of their numbers in rules files, then the others.
fn in_order() -> impl Iterator<Item = Collective> {
    let others = Collective::ALL.into_iter().filter(|collective| tunable(*collective).is_none());
    TUNABLE.iter().map(|row| row.collective).chain(others)
}

fn rows() -> impl Iterator<Item = &'static Algorithm> {
    in_order().flat_map(|collective| algorithms(collective).map(AlgorithmId::algorithm))
}

fn restrictions(row: &Algorithm) -> Vec<String> {
    row.restrictions.iter().map(ToString::to_string).collect()
}

/// One line `collective:id:name:restrictions:description` for each algorithm.
pub(crate) fn parsable() -> String {
    let line = |row: &Algorithm| {
        let restrictions = restrictions(row).join(", ");
        format!(
            "{}:{}:{}:{restrictions}:{}\n",
            row.collective, row.number, row.name, row.description
        )
    };
    rows().map(line).collect()
}

pub(crate) fn text() -> String {
    let mut out = String::from("components of collectives (coll, coll_NAME_priority):\n");
    let priorities = Components::default();
    for component in Component::all().chain([Component::Base]) {
        let aliases: String =
            component.aliases().iter().map(|alias| format!(" (also {alias})")).collect();
        let (name, description) = (component.name(), component.description());
        out += &format!(
            "    {:>2} {name:<8} {description}{aliases}\n",
            priorities.priority(component)
        );
    }
    out += "algorithms of collectives ('oxmpi explain --help' says which one is chosen):\n";
    for collective in in_order() {
        out += &match tunable(collective) {
            Some(row) => format!(
                "  {collective} (coll_tuned_{collective}_algorithm; in rules files {}, message size: {})\n",
                row.id,
                row.measure.phrase()
            ),
            None => format!("  {collective} (cannot be chosen)\n"),
        };
        for row in algorithms(collective).map(AlgorithmId::algorithm) {
            let restrictions: String =
                restrictions(row).iter().map(|text| format!("; {text}")).collect();
            out += &format!(
                "    {:>2} {:<24} {}{restrictions}\n",
                row.number, row.name, row.description
            );
        }
    }
    out
}

pub(crate) fn json() -> Json {
    let one = |row: &Algorithm| {
        json!({
            "collective": row.collective.name(),
            "id": row.number,
            "name": row.name,
            "restrictions": restrictions(row),
            "description": row.description,
        })
    };
    rows().map(one).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parsable_lines_split_at_colons() {
        let text = parsable();
        assert_eq!(text.lines().count(), oxmpi_plan::ALGORITHMS.len());
        for line in text.lines() {
            let parts: Vec<_> = line.splitn(5, ':').collect();
            assert_eq!(parts.len(), 5, "{line}");
            let id: u8 = parts[1].parse().unwrap();
            let collective = Collective::ALL.into_iter().find(|c| c.name() == parts[0]).unwrap();
            let found = oxmpi_plan::table::by_number(collective, id).unwrap().algorithm();
            assert_eq!((found.name, found.description), (parts[2], parts[4]));
        }
    }
}
