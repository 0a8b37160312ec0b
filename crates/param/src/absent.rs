//! Parameters of Open MPI's components that OxMPI does not have. Scripts disable or tune such
//! components without checking that they exist. Disabling one has no effect and is accepted; tuning
//! one has no effect and is reported; requesting one is an error, as in the lists of components.

use crate::foreign::instead_of;
use crate::load::nearest_of_foreign;

/// The meaning of a parameter of a component or framework that OxMPI does not have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// It disables the component, or a warning of it.
    SwitchedOff,
    /// It tunes the component, without effect. The text names the alternative.
    Tuned(&'static str),
}

/// The report of a parameter that has no effect.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: this has no effect: {instead}", from.position())]
pub struct NoEffect {
    pub from: crate::Source,
    pub instead: &'static str,
}

/// The meaning of the parameter `name` with `value` for a component that OxMPI does not have;
/// `None` if `name` belongs to no such component, or if `value` requests the component.
pub fn absence(name: &str, value: &str) -> Option<Absence> {
    let is_off = OFF.iter().any(|off| off.eq_ignore_ascii_case(value.trim()));
    if WARNINGS.contains(&name) {
        return is_off.then_some(Absence::SwitchedOff);
    }
    let Some((of_component, instead)) = of_component(name) else {
        return is_of_framework(name)
            .then(|| Absence::Tuned(instead_of(name).unwrap_or(FRAMEWORK)));
    };
    match is_switch(of_component) {
        true => is_off.then_some(Absence::SwitchedOff),
        false => Some(Absence::Tuned(instead)),
    }
}

/// Whether a name can only be a parameter of Open MPI: it begins with one of its frameworks or
/// projects, and no parameter of OxMPI is near enough to be meant.
fn is_of_framework(name: &str) -> bool {
    let begins = |family: &str| {
        name.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('_'))
    };
    FRAMEWORKS.split_whitespace().any(begins) && nearest_of_foreign(name).is_none()
}

pub(crate) fn instead_of_component(name: &str) -> Option<&'static str> {
    of_component(name).map(|(_, instead)| instead)
}

fn of_component(name: &str) -> Option<(&str, &'static str)> {
    COMPONENTS.iter().find_map(|(component, instead)| {
        let rest = name.strip_prefix(component)?.strip_prefix('_')?;
        (!rest.is_empty()).then_some((rest, *instead))
    })
}

fn is_switch(of_component: &str) -> bool {
    of_component == "enable" || of_component.starts_with("warn_")
}

/// Open MPI's values for "off".
const OFF: [&str; 6] = ["0", "false", "f", "no", "n", "disabled"];

/// Switches of warnings that OxMPI never prints.
const WARNINGS: [&str; 3] =
    ["btl_base_warn_component_unused", "mpi_warn_on_fork", "opal_warn_on_missing_libcuda"];

const FRAMEWORK: &str =
    "it is Open MPI's and has no counterpart here ('oxmpi info --params' lists what there is)";

/// Prefixes of names that only Open MPI, PRRTE and UCX have: frameworks, projects, components, and
/// single parameters. Frameworks of collectives and of LAM/MPI are left out, as OxMPI has such
/// names.
const FRAMEWORKS: &str = "\
accelerator_base accelerator_null accelerator_rocm accelerator_ze allocator bml btl_base btl_elan btl_scif btl_sctp btl_self btl_tcp btl_template crcp
crs dfs dl errmgr ess event fbtl fcoll filem fs grpcomm hook hwloc if io iof mca memchecker
memory mpi_abort_delay mpi_abort_print_stack mpi_add_procs_cutoff mpi_assert mpi_ddt
mpi_dynamics_enabled mpi_event_tick_rate mpi_have_sparse_group_storage mpi_leave_pinned
mpi_no_free_handles mpi_paffinity_alone mpi_preconnect_all mpi_preconnect_mpi
mpi_show_handle_leaks mpi_show_mca_params mpi_show_mca_params_file mpi_show_mpi_alloc_mem_leaks
mpi_spc_attach mpi_spc_dump_enabled mpi_use_sparse_group_storage mpi_yield_when_idle mpool
mtl_base mtl_portals notifier odls ompi oob op opal orte osc part patcher plm pmix pml_base
pml_bfo pml_cm pml_monitoring pml_ob1 pml_v prte prtereachable ras rcache reachable rmaps rml
routed rtc schizo sec sharedfp shmem smsc_accelerator smsc_base snapc sstore state threads timer
topo ucx vprotocol";

const COLLECTIVE: &str = "that collective component is Open MPI's, and not here ('oxmpi info --collectives' lists the available ones)";
const ACCELERATOR: &str = "the collective component accelerator has no parameters here, as it stands before all others: '--mca accelerator' says \
                           what is done about buffers on devices ('oxmpi info --param accelerator')";
const NETWORK: &str = "that component is Open MPI's, and not here: '--mca rpi ib' is InfiniBand, '--mca mtl ofi' goes over the \
                       networks of libfabric ('oxmpi info --select' lists the transports)";
const IB: &str = "that parameter is Open MPI's, and not here: 'oxmpi info --param rpi_ib' lists the available ones";
const OFI: &str = "that parameter is Open MPI's, and not here: 'oxmpi info --param mtl_ofi' lists the available ones";
const PORTALS: &str = "that parameter is Open MPI's, and not here: 'oxmpi info --param mtl_portals4' lists the available ones";
const MEMORY: &str = "that component is Open MPI's, and not here: parameters of shared memory start with 'shm_', and \
                      'single_copy off' keeps processes from copying from each other ('oxmpi info --params')";

/// The components that OxMPI does not have (framework and component), each with the alternative.
const COMPONENTS: &[(&str, &str)] = &[
    ("coll_accelerator", ACCELERATOR),
    ("coll_acoll", COLLECTIVE),
    ("coll_adapt", COLLECTIVE),
    ("coll_cuda", ACCELERATOR),
    ("coll_fca", COLLECTIVE),
    ("coll_monitoring", COLLECTIVE),
    ("coll_portals4", COLLECTIVE),
    ("btl_ofi", OFI),
    ("btl_openib", IB),
    ("btl_portals4", PORTALS),
    ("btl_uct", NETWORK),
    ("btl_ugni", NETWORK),
    ("btl_usnic", NETWORK),
    ("mtl_mxm", NETWORK),
    ("mtl_ofi", OFI),
    ("mtl_portals4", PORTALS),
    ("mtl_psm", NETWORK),
    ("mtl_psm2", NETWORK),
    ("osc_ucx", NETWORK),
    ("pml_ucx", NETWORK),
    ("pml_yalla", NETWORK),
    ("btl_sm", MEMORY),
    ("btl_smcuda", MEMORY),
    ("btl_vader", MEMORY),
    ("smsc_cma", MEMORY),
    ("smsc_knem", MEMORY),
    ("smsc_xpmem", MEMORY),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Param;

    #[test]
    fn absent_components_may_be_disabled_and_tuned_but_not_requested() {
        for (name, value) in [
            ("coll_adapt_enable", "0"),
            ("coll_fca_enable", "False"),
            ("btl_openib_warn_no_device_params_found", "0"),
            ("mpi_warn_on_fork", "0"),
        ] {
            assert_eq!(absence(name, value), Some(Absence::SwitchedOff), "{name}");
            assert_eq!(absence(name, "1"), None, "{name}");
        }
        assert_eq!(absence("btl_openib_if_include", "mlx5_0"), Some(Absence::Tuned(IB)));
        assert_eq!(
            absence("btl_vader_single_copy_mechanism", "none"),
            Some(Absence::Tuned(MEMORY))
        );
        assert_eq!(absence("coll_adapt_priority", "100"), Some(Absence::Tuned(COLLECTIVE)));
        for name in [
            "coll_adapt",
            "coll_adapt_",
            "coll_adap_enable",
            "coll_adaptenable",
            "btl_smx_y",
            "rpi",
            "",
        ] {
            assert_eq!(absence(name, "0"), None, "{name}");
        }
    }

    #[test]
    fn other_names_of_open_mpi_have_no_effect_but_slips_are_errors() {
        for name in [
            "osc",
            "io",
            "rmaps_base_mapping_policy",
            "plm_base_verbose",
            "mpi_yield_when_idle",
            "opal_cuda_support",
        ] {
            assert!(matches!(absence(name, "x"), Some(Absence::Tuned(_))), "{name}");
        }
        assert_eq!(absence("hwloc_base_report_bindings", "1"), Some(Absence::Tuned(FRAMEWORK)));
        // The last one belongs to LAM/MPI, and OxMPI does not have it.
        for name in [
            "btl_tcp_if_ninclude",
            "mpi_watchdgo",
            "iodine",
            "mpi_frobnicate",
            "shm_ring_slot",
            "rpi_ssi_gm_port",
        ] {
            assert_eq!(absence(name, "x"), None, "{name}");
        }
    }

    #[test]
    fn no_parameter_of_ours_belongs_to_what_is_not_here() {
        for name in Param::names() {
            assert_eq!((of_component(name), WARNINGS.contains(&name)), (None, false), "{name}");
            assert!(!FRAMEWORKS.split_whitespace().any(|family| family == name), "{name}");
        }
    }
}
