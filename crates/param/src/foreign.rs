//! Parameter names of other MPI libraries, each with the alternative in OxMPI.

use crate::absent::instead_of_component;

/// The alternative to `name`, which is not a parameter of OxMPI.
pub fn instead_of(name: &str) -> Option<&'static str> {
    let belongs = |family: &str| {
        name == family
            || name
                .strip_prefix(family)
                .is_some_and(|rest| family.ends_with('_') || rest.starts_with('_'))
    };
    let family = || FAMILIES.iter().find(|(family, _)| belongs(family)).map(|(_, text)| *text);
    instead_of_component(name).or_else(family)
}

/// Whether a name belongs to a framework of LAM/MPI alone: checkpoints and transports.
pub(crate) fn is_of_guide(name: &str) -> bool {
    ["cr", "rpi"].iter().any(|framework| {
        name.strip_prefix(framework).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    })
}

/// A name, or the beginning of names up to a `_`, with the alternative. The first match counts.
#[rustfmt::skip] // a table
const FAMILIES: &[(&str, &str)] = &[
    (
        "coll_",
        "components of collectives are named by coll and coll_NAME_priority, algorithms of collectives are chosen by coll_tuned_COLLECTIVE_algorithm and \
                 coll_tuned_dynamic_rules_filename ('oxmpi info --param coll' lists all)",
    ),
    (
        "cr",
        "checkpoints have cr, cr_base_dir, cr_keep, cr_files, cr_blcr_criu and cr_blcr_options, and cr_self_user_prefix, \
                 cr_self_user_checkpoint, cr_self_user_restart and cr_self_user_continue",
    ),
    ("btl_base_verbose", "'oxmpi info --select' says which transport is used and why"),
    ("btl_tcp",
     "it is Open MPI's; the sockets of OxMPI have rpi_tcp_short, rpi_tcp_sockbuf, btl_tcp_if_include and btl_tcp_if_exclude"),
    ("btl", TRANSPORT),
    ("pml", TRANSPORT),
    ("mtl", "it is Open MPI's; '--mca mtl ofi' is here, with parameters that start with 'mtl_ofi_'"),
    ("smsc", "it is Open MPI's; 'single_copy' says whether processes copy from each other's memory"),
    ("mpi_yield_when_idle",
     "it is Open MPI's; waiting ranks yield by themselves: see wait_spin_us and wait_yield_us"),
    ("mpi_show_mca_params", "it is Open MPI's; 'oxmpi info --params' shows all values and where they come from"),
    ("mpi_leave_pinned", "it is Open MPI's; transports that register memory keep it by themselves, so leave it out"),
    ("mca_base_param_files", "it is Open MPI's; OXMPI_PARAM_FILES=FILE:FILE in the environment names files"),
    ("hwloc_base_binding_policy", BINDING),
    ("hwloc_default_binding_policy", BINDING),
    ("rmaps", "it is Open MPI's; any number of ranks may be started, '--bind-to' binds them"),
    ("orte", LAUNCHER),
    ("prte", LAUNCHER),
    ("plm", LAUNCHER),
    ("oob", LAUNCHER),
    ("ess", LAUNCHER),
    ("osc", "it is Open MPI's; one-sided communication has no parameters here"),
    ("io", "it is Open MPI's; files have no parameters here"),
    ("opal", "it is Open MPI's and has no counterpart here"),
    ("ucx", "it is UCX's, which OxMPI does not use"),
];

const TRANSPORT: &str = "it is Open MPI's; parameters of transports start with 'shm_' and 'rpi_tcp_' here ('oxmpi info --params')";
const BINDING: &str =
    "it is Open MPI's; here '--bind-to none', '--bind-to core' or '--bind-to hwthread' says it";
const LAUNCHER: &str =
    "it is of Open MPI's launcher; see 'mpirun --help' for the options of this one";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Param;

    #[test]
    fn families_are_cut_at_underscores() {
        assert_eq!(instead_of("btl_elan_max"), Some(TRANSPORT));
        assert_eq!(instead_of("btl_sm_eager_limit"), instead_of_component("btl_sm_eager_limit"));
        assert_eq!(instead_of("iodine"), None);
        assert_eq!(instead_of(""), None);
    }

    #[test]
    fn no_parameter_of_ours_is_kept_away_by_its_family_name() {
        for p in Param::all() {
            for name in p.aliases.iter().chain([&p.name]) {
                let heads_a_family = ["btl", "pml", "mtl", "cr"].contains(name);
                assert!(
                    heads_a_family || !FAMILIES.iter().any(|(family, _)| family == name),
                    "{name} is ours"
                );
            }
        }
    }
}
