//! The components of collectives: names, priorities, and the parameter `coll`. The crate
//! `oxmpi-tuned` decides which collectives and communicators each component serves.

use crate::nearest::nearest;
use crate::registry::Params;
use std::fmt;

/// A component of the framework `coll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Component {
    Accelerator,
    Own,
    Sync,
    Smp,
    Shmem,
    Inter,
    Tuned,
    Ftagree,
    Libnbc,
    Ucc,
    Hcoll,
    Basic,
    Base,
}

#[derive(Debug)]
struct ComponentRow {
    component: Component,
    name: &'static str,
    aliases: &'static [&'static str],
    description: &'static str,
    priority: fn(&Params) -> u32,
}

/// Makes the table of components from rows: variant, name, aliases, priority, description.
macro_rules! components {
    ($($component:ident $name:literal [$($alias:literal)*] ($priority:expr) $description:literal;)*) => {
        const TABLE: [ComponentRow; [$($name),*].len()] = [$(ComponentRow {
            component: Component::$component, name: $name, aliases: &[$($alias),*], description: $description,
            priority: $priority,
        }),*];
    };
}

// Components of equal priority are tried in the order of this table.
components! {
    Accelerator "accelerator" ["cuda"] (|_| ACCELERATOR_PRIORITY)
        "buffers in the memory of devices, copied through memory of the host around what others serve";
    Own "self" [] (Params::coll_self_priority) "communicators of one rank";
    Sync "sync" [] (Params::coll_sync_priority)
        "a barrier before or after every so many operations (coll_sync_barrier_before, _after)";
    Smp "smp" ["han"] (Params::coll_smp_priority)
        "first within nodes, then among them: several nodes, with several ranks on one";
    Shmem "shmem" ["xhc" "sm"] (Params::coll_shmem_priority)
        "blocking calls in shared memory, past the plans: all ranks on one node";
    Inter "inter" [] (Params::coll_inter_priority) "intercommunicators";
    Tuned "tuned" [] (Params::coll_tuned_priority) "forced algorithms, rules files, fixed rules";
    Ftagree "ftagree" [] (Params::coll_ftagree_priority) "agreements that go on after failures, if mpi_ft_enable is 1";
    Libnbc "libnbc" ["nbc"] (Params::coll_libnbc_priority) "nonblocking and persistent forms, by the fixed rules";
    Ucc "ucc" [] (Params::coll_ucc_priority) "collectives handed to the library UCC, if coll_ucc_enable is 1";
    Hcoll "hcoll" [] (Params::coll_hcoll_priority) "collectives handed to the library HCOLL, if coll_hcoll_enable is 1";
    Basic "basic" ["lam_basic"] (Params::coll_basic_priority)
        "linear or binomial, reductions in strict rank order; everything, everywhere";
    Base "base" [] (|_| 0) "as basic, for collectives that no enabled component serves";
}

/// Open MPI's value. It is no parameter, as no other component serves buffers on a device.
const ACCELERATOR_PRIORITY: u32 = 78;

/// A component name in a list that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadName {
    #[error("there is no collective component '{name}'{}: expected {}",
        nearest.map(|near| format!(" (did you mean '{near}'?)")).unwrap_or_default(), names())]
    Unknown { name: String, nearest: Option<&'static str> },
    #[error(
        "the collective component '{name}' is Open MPI's, and not here: {why}. Leave it out, or exclude it (^{name}); here are {}",
        names()
    )]
    Missing { name: &'static str, why: &'static str },
    #[error("'base' serves what no other collective component does, and cannot be left out")]
    Base,
    #[error("'{text}' leaves no collective component: expected {}", names())]
    Nothing { text: String },
}

/// Components of Open MPI that OxMPI does not have, each with the alternative.
const MISSING: [(&str, &str); 4] = [
    (
        "portals4",
        "over 'mtl portals4' the network matches the messages of 'tuned', 'libnbc' and 'basic'",
    ),
    ("monitoring", "MPI_T performance variables count what runs ('oxmpi info --pvars')"),
    ("adapt", "'tuned' has segments, 'libnbc' nonblocking forms"),
    ("acoll", "'shmem' serves the ranks of one node, 'smp' those of several"),
];

fn missing(name: &str) -> Option<(&'static str, &'static str)> {
    MISSING.into_iter().find(|(missing, _)| *missing == name)
}

fn names() -> String {
    TABLE.map(|row| row.name).join(", ")
}

impl Component {
    /// The number of components.
    pub const COUNT: usize = TABLE.len();

    /// All components except `Base`, in the order in which components of equal priority are tried.
    pub fn all() -> impl Iterator<Item = Component> {
        TABLE.iter().map(|row| row.component).filter(|component| *component != Component::Base)
    }

    fn row(self) -> &'static ComponentRow {
        // A test checks that the rows stand in the order of the enumeration.
        &TABLE[self as usize]
    }

    /// Whether the component only wraps the collectives of other components.
    pub fn is_around(self) -> bool {
        matches!(self, Component::Accelerator | Component::Sync)
    }

    /// The name in parameters.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// Other accepted names.
    pub fn aliases(self) -> &'static [&'static str] {
        self.row().aliases
    }

    /// Its purpose, in a phrase.
    pub fn description(self) -> &'static str {
        self.row().description
    }

    /// Its priority: the highest one among the components that can serve a call is used.
    pub fn priority(self, params: &Params) -> u32 {
        (self.row().priority)(params)
    }

    /// The component of this name or alias.
    pub fn named(name: &str) -> Result<Component, BadName> {
        let known = TABLE.iter().find(|row| row.name == name || row.aliases.contains(&name));
        known.map(|row| row.component).ok_or_else(|| match missing(name) {
            Some((name, why)) => BadName::Missing { name, why },
            None => BadName::Unknown {
                name: name.to_string(),
                nearest: nearest(
                    name,
                    TABLE.iter().flat_map(|row| row.aliases.iter().copied().chain([row.name])),
                ),
            },
        })
    }
}

impl fmt::Display for Component {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The components that the parameter `coll` enables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ComponentSet(u16);

impl ComponentSet {
    /// Every component.
    pub const ALL: ComponentSet = ComponentSet(u16::MAX);

    /// This set with one more component.
    pub fn with(self, component: Component) -> ComponentSet {
        ComponentSet(self.0 | ComponentSet::only(component).0)
    }

    /// A set of one component.
    pub fn only(component: Component) -> ComponentSet {
        ComponentSet(1 << component as u8)
    }

    /// Reads the parameter `coll`: names, or `^` and the names to exclude; empty: all.
    pub fn parse(text: &str) -> Result<ComponentSet, BadName> {
        let text = text.trim();
        if text.is_empty() {
            return Ok(ComponentSet::ALL);
        }
        let (is_without, names) = match text.strip_prefix('^') {
            Some(names) => (true, names),
            None => (false, text),
        };
        let mut set = 0;
        for name in names.split(',').map(str::trim) {
            match Component::named(name) {
                Ok(Component::Base) if is_without => return Err(BadName::Base),
                Ok(component) => set |= ComponentSet::only(component).0,
                // A component that OxMPI does not have may be excluded.
                Err(BadName::Missing { .. }) if is_without => {}
                Err(bad) => return Err(bad),
            }
        }
        let enabled = ComponentSet(if is_without { !set } else { set });
        let is_base = !is_without && enabled.has(Component::Base);
        match is_base || Component::all().any(|component| enabled.has(component)) {
            true => Ok(enabled),
            false => Err(BadName::Nothing { text: text.to_string() }),
        }
    }

    /// Whether the set contains a component.
    pub fn has(self, component: Component) -> bool {
        self.0 & 1 << component as u8 != 0
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
    fn a_list_names_components_or_exclusions_behind_a_caret() {
        let enabled = |text| {
            let enabled = ComponentSet::parse(text).unwrap();
            Component::all()
                .filter(|c| enabled.has(*c))
                .map(Component::name)
                .collect::<Vec<_>>()
                .join(" ")
        };
        assert_eq!(enabled("basic, self,libnbc"), "self libnbc basic");
        assert_eq!(enabled("lam_basic"), "basic");
        assert_eq!(
            enabled("^xhc,han"),
            "accelerator self sync inter tuned ftagree libnbc ucc hcoll basic"
        );
        assert_eq!(
            enabled("^portals4,hcoll,ucc,xhc"),
            "accelerator self sync smp inter tuned ftagree libnbc basic"
        );
        assert_eq!(
            enabled(" "),
            "accelerator self sync smp shmem inter tuned ftagree libnbc ucc hcoll basic"
        );
    }

    #[test]
    fn a_wrong_list_is_an_error() {
        let error = |text| ComponentSet::parse(text).unwrap_err().to_string();
        assert_eq!(
            error("basic,shmen"),
            "there is no collective component 'shmen' (did you mean 'shmem'?): expected accelerator, self, sync, smp, shmem, inter, \
             tuned, ftagree, libnbc, ucc, hcoll, basic, base"
        );
        assert!(error("basic,,self").contains("no collective component ''"));
        assert!(error("^shmem,base").starts_with("'base' serves what no other"));
        assert!(ComponentSet::parse("base").is_ok_and(|enabled| enabled.has(Component::Base)));
        assert!(
            error("^accelerator,self,sync,smp,shmem,inter,tuned,ftagree,libnbc,ucc,hcoll,basic")
                .contains("leaves no collective component")
        );
    }

    #[test]
    fn components_of_open_mpi_are_reported_as_missing() {
        for name in ["adapt", "portals4"] {
            let error = ComponentSet::parse(&format!("basic,{name}")).unwrap_err().to_string();
            let start = format!("the collective component '{name}' is Open MPI's, and not here: ");
            assert!(
                error.starts_with(&start) && error.contains("here are accelerator, self"),
                "{error}"
            );
            assert_eq!(ComponentSet::parse(&format!("^{name}")), Ok(ComponentSet::ALL));
        }
    }
}
