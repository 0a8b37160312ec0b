//! Enumerations of the tool interface.

use oxmpi_param::{Param, Unit};
use oxmpi_plan::{Collective, table};
use std::sync::LazyLock;

/// An enumeration.
#[derive(Debug)]
pub struct Enumeration {
    pub name: String,
    pub items: Vec<(i32, String)>,
}

/// In the enumerations of algorithms, no algorithm.
pub const NO_ALGORITHM: i32 = 0;
/// In the enumerations of algorithms, shared memory, which uses no algorithm.
pub const CONTROL_SECTION: u8 = 255;

/// All enumerations: the choices of parameters, the transports, the algorithms of each collective,
/// and the elements of each event type.
pub fn all() -> &'static [Enumeration] {
    static ALL: LazyLock<Vec<Enumeration>> = LazyLock::new(|| {
        let mut all: Vec<_> = Param::all().iter().filter_map(|param| choice(param)).collect();
        all.push(Enumeration { name: TRANSPORTS.into(), items: numbered(&["shm", "tcp", "both"]) });
        all.extend(Collective::ALL.into_iter().map(algorithms));
        all.extend(super::events::all().iter().map(|event| {
            let names: Vec<_> = event.elements.iter().map(|element| element.name).collect();
            Enumeration { name: event.name.into(), items: numbered(&names) }
        }));
        all
    });
    &ALL
}

/// The name of the enumeration of transports.
pub const TRANSPORTS: &str = "transport";

/// The name of the enumeration of a collective's algorithms.
pub fn of_collective(collective: Collective) -> String {
    format!("coll_{collective}_algorithm")
}

/// The index of an enumeration in [`all`].
pub fn find(name: &str) -> Option<usize> {
    all().iter().position(|one| one.name == name)
}

fn choice(param: &Param) -> Option<Enumeration> {
    let (Unit::Choice(words) | Unit::Set { words, .. }) = param.unit else { return None };
    Some(Enumeration { name: param.name.into(), items: numbered(words) })
}

fn algorithms(collective: Collective) -> Enumeration {
    let mut items = vec![(NO_ALGORITHM, "none".to_string())];
    for id in table::algorithms(collective) {
        let row = id.algorithm();
        items.push((i32::from(row.number), row.name.into()));
    }
    items.push((i32::from(CONTROL_SECTION), "control_section".into()));
    Enumeration { name: of_collective(collective), items }
}

fn numbered(words: &[&str]) -> Vec<(i32, String)> {
    (0..).zip(words.iter().map(|word| (*word).to_string())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_values_are_unique() {
        for (at, one) in all().iter().enumerate() {
            assert_eq!(find(&one.name), Some(at), "{}", one.name);
            for (n, (value, name)) in one.items.iter().enumerate() {
                assert!(
                    !one.items[..n].iter().any(|(v, k)| v == value || k == name),
                    "{}: {name}",
                    one.name
                );
            }
        }
        assert!(!all().iter().any(|one| one.items.is_empty()));
    }
}
