//! The components of collectives: their names and priorities, and what the parameter `coll` says of them.
//!
//! Which collectives each serves, and for which communicators it is, the crate that chooses among them knows.

use crate::nearest::nearest;
use crate::registry::Params;
use std::fmt;

/// A component of the framework `coll`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Component {
    /// Buffers in the memory of accelerators, for what serves them.
    Accelerator,
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
    /// Agreements that tolerate failures.
    Ftagree,
    /// Nonblocking and persistent forms.
    Libnbc,
    /// Collectives handed to the library UCC.
    Ucc,
    /// Collectives handed to the library HCOLL.
    Hcoll,
    /// Linear and binomial algorithms in strict rank order.
    Basic,
    /// The same, for what none of those that are asked serves.
    Base,
}

/// The row of a component.
#[derive(Debug)]
struct ComponentRow {
    component: Component,
    name: &'static str,
    aliases: &'static [&'static str],
    description: &'static str,
    priority: fn(&Params) -> u32,
}

/// The table, in the order of which those of one priority are asked.
const TABLE: [ComponentRow; 13] = [
    ComponentRow {
        component: Component::Accelerator,
        name: "accelerator",
        aliases: &["cuda"],
        description: "buffers in the memory of devices, copied through memory of the host around what others serve",
        priority: |_| ACCELERATOR_PRIORITY,
    },
    ComponentRow {
        component: Component::Own,
        name: "self",
        aliases: &[],
        description: "communicators of one rank",
        priority: Params::coll_self_priority,
    },
    ComponentRow {
        component: Component::Sync,
        name: "sync",
        aliases: &[],
        description: "a barrier before or after every so many operations (coll_sync_barrier_before, _after)",
        priority: Params::coll_sync_priority,
    },
    ComponentRow {
        component: Component::Smp,
        name: "smp",
        aliases: &["han"],
        description: "first within nodes, then among them: several nodes, with several ranks on one",
        priority: Params::coll_smp_priority,
    },
    ComponentRow {
        component: Component::Shmem,
        name: "shmem",
        aliases: &["xhc", "sm"],
        description: "blocking calls in shared memory, past the plans: all ranks on one node",
        priority: Params::coll_shmem_priority,
    },
    ComponentRow {
        component: Component::Inter,
        name: "inter",
        aliases: &[],
        description: "intercommunicators",
        priority: Params::coll_inter_priority,
    },
    ComponentRow {
        component: Component::Tuned,
        name: "tuned",
        aliases: &[],
        description: "forced algorithms, rules files, fixed rules",
        priority: Params::coll_tuned_priority,
    },
    ComponentRow {
        component: Component::Ftagree,
        name: "ftagree",
        aliases: &[],
        description: "agreements that go on after failures, if mpi_ft_enable is 1",
        priority: Params::coll_ftagree_priority,
    },
    ComponentRow {
        component: Component::Libnbc,
        name: "libnbc",
        aliases: &["nbc"],
        description: "nonblocking and persistent forms, by the fixed rules",
        priority: Params::coll_libnbc_priority,
    },
    ComponentRow {
        component: Component::Ucc,
        name: "ucc",
        aliases: &[],
        description: "collectives handed to the library UCC, if coll_ucc_enable is 1",
        priority: Params::coll_ucc_priority,
    },
    ComponentRow {
        component: Component::Hcoll,
        name: "hcoll",
        aliases: &[],
        description: "collectives handed to the library HCOLL, if coll_hcoll_enable is 1",
        priority: Params::coll_hcoll_priority,
    },
    ComponentRow {
        component: Component::Basic,
        name: "basic",
        aliases: &["lam_basic"],
        description: "linear or binomial, reductions in strict rank order; everything, everywhere",
        priority: Params::coll_basic_priority,
    },
    ComponentRow {
        component: Component::Base,
        name: "base",
        aliases: &[],
        description: "as basic, for what no component that is asked serves, whichever these are",
        priority: |_| 0,
    },
];

/// As Open MPI's. No parameter changes it: none of the others can serve a buffer on a device.
const ACCELERATOR_PRIORITY: u32 = 78;

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
    /// It is a component of Open MPI that is not here.
    #[error(
        "the collective component '{name}' is Open MPI's, and not here: {why}. Leave it out, or exclude it (^{name}); here are {}",
        names()
    )]
    Missing {
        /// The name.
        name: &'static str,
        /// What it is for, and what there is instead.
        why: &'static str,
    },
    /// What takes over cannot be left out.
    #[error("'base' serves what no other collective component does, and cannot be left out")]
    Base,
    /// Nothing is left to ask.
    #[error("'{text}' leaves no collective component to ask: expected {}", names())]
    Nothing {
        /// What the parameter says.
        text: String,
    },
}

/// Components of Open MPI that are not here: the name, and what there is instead.
const MISSING: [(&str, &str); 4] = [
    ("portals4", "over 'mtl portals4' the network matches the messages of 'tuned', 'libnbc' and 'basic'"),
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
    /// How many there are.
    pub const COUNT: usize = TABLE.len();

    /// All that communicators ask, in the order in which those of one priority are: all but base.
    pub fn all() -> impl Iterator<Item = Component> {
        TABLE.iter().map(|row| row.component).filter(|component| *component != Component::Base)
    }

    fn row(self) -> &'static ComponentRow {
        // The rows stand in the order of the enumeration: a test sees to it.
        &TABLE[self as usize]
    }

    /// Whether it serves nothing by itself, but does something around what others serve.
    #[must_use]
    pub fn is_around(self) -> bool {
        matches!(self, Component::Accelerator | Component::Sync)
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

    /// Its priority: of those that can serve a call the one of the highest does.
    #[must_use]
    pub fn priority(self, params: &Params) -> u32 {
        (self.row().priority)(params)
    }

    /// The component of this name or alias.
    ///
    /// # Errors
    /// There is none.
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

/// A set of components.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked(u16);

impl Asked {
    /// All components.
    pub const ALL: Asked = Asked(u16::MAX);

    /// These, and one more.
    #[must_use]
    pub fn with(self, component: Component) -> Asked {
        Asked(self.0 | Asked::only(component).0)
    }

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
        for name in names.split(',').map(str::trim) {
            match Component::named(name) {
                Ok(Component::Base) if is_without => return Err(BadName::Base),
                Ok(component) => set |= Asked::only(component).0,
                // To leave out what is not there is fine.
                Err(BadName::Missing { .. }) if is_without => {}
                Err(bad) => return Err(bad),
            }
        }
        let asked = Asked(if is_without { !set } else { set });
        let is_base = !is_without && asked.has(Component::Base);
        match is_base || Component::all().any(|component| asked.has(component)) {
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
    fn a_list_names_those_that_are_asked_or_behind_a_caret_those_that_are_not() {
        let asked = |text| {
            let asked = Asked::parse(text).unwrap();
            Component::all().filter(|c| asked.has(*c)).map(Component::name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(asked("basic, self,libnbc"), "self libnbc basic");
        assert_eq!(asked("lam_basic"), "basic");
        assert_eq!(asked("^xhc,han"), "accelerator self sync inter tuned ftagree libnbc ucc hcoll basic");
        assert_eq!(
            asked("^portals4,hcoll,ucc,xhc"),
            "accelerator self sync smp inter tuned ftagree libnbc basic"
        );
        assert_eq!(asked(" "), "accelerator self sync smp shmem inter tuned ftagree libnbc ucc hcoll basic");
    }

    #[test]
    fn a_wrong_list_is_told() {
        let error = |text| Asked::parse(text).unwrap_err().to_string();
        assert_eq!(
            error("basic,shmen"),
            "there is no collective component 'shmen' (did you mean 'shmem'?): expected accelerator, self, sync, smp, shmem, inter, \
             tuned, ftagree, libnbc, ucc, hcoll, basic, base"
        );
        assert!(error("basic,,self").contains("no collective component ''"));
        assert!(error("^shmem,base").starts_with("'base' serves what no other"));
        assert!(Asked::parse("base").is_ok_and(|asked| asked.has(Component::Base)));
        assert!(
            error("^accelerator,self,sync,smp,shmem,inter,tuned,ftagree,libnbc,ucc,hcoll,basic")
                .contains("leaves no collective component")
        );
    }

    #[test]
    fn what_only_open_mpi_has_is_told_to_be_missing() {
        for name in ["adapt", "portals4"] {
            let error = Asked::parse(&format!("basic,{name}")).unwrap_err().to_string();
            let start = format!("the collective component '{name}' is Open MPI's, and not here: ");
            assert!(error.starts_with(&start) && error.contains("here are accelerator, self"), "{error}");
            assert_eq!(Asked::parse(&format!("^{name}")), Ok(Asked::ALL));
        }
    }
}
