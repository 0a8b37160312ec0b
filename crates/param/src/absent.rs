//! Parameters of components of Open MPI that are not here. Scripts switch such components off, or tune them, whether they are
//! there or not. To switch one off is what is the case anyway; what tunes one has no effect, which is said; to ask for one is
//! an error, as it is in the lists of components.

/// What a parameter that is not ours says to a component that is not here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Absence {
    /// That it shall not be used, or not warn: so it is.
    SwitchedOff,
    /// Something about how it works, which has no effect. The text says what there is instead.
    Tuned(&'static str),
}

/// A parameter that has no effect, to be told.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}: this has no effect: {instead}", from.position())]
pub struct NoEffect {
    /// Where it stands.
    pub from: crate::Source,
    /// Why, and what there is instead.
    pub instead: &'static str,
}

/// What the parameter `name` says with `value` to a component that is not here; `None` if it is no parameter of one, or
/// asks for it.
#[must_use]
pub fn absence(name: &str, value: &str) -> Option<Absence> {
    let is_off = OFF.iter().any(|off| off.eq_ignore_ascii_case(value.trim()));
    if WARNINGS.contains(&name) {
        return is_off.then_some(Absence::SwitchedOff);
    }
    let (of_component, instead) = of_component(name)?;
    match is_switch(of_component) {
        true => is_off.then_some(Absence::SwitchedOff),
        false => Some(Absence::Tuned(instead)),
    }
}

/// What there is instead of the component that a parameter belongs to.
pub(crate) fn instead_of_component(name: &str) -> Option<&'static str> {
    of_component(name).map(|(_, instead)| instead)
}

/// The rest of the name behind the component, and what there is instead.
fn of_component(name: &str) -> Option<(&str, &'static str)> {
    COMPONENTS.iter().find_map(|(component, instead)| {
        let rest = name.strip_prefix(component)?.strip_prefix('_')?;
        (!rest.is_empty()).then_some((rest, *instead))
    })
}

fn is_switch(of_component: &str) -> bool {
    of_component == "enable" || of_component.starts_with("warn_")
}

/// How Open MPI spells that something is off.
const OFF: [&str; 6] = ["0", "false", "f", "no", "n", "disabled"];

/// Switches of warnings that never come here.
const WARNINGS: [&str; 3] =
    ["btl_base_warn_component_unused", "mpi_warn_on_fork", "opal_warn_on_missing_libcuda"];

const COLLECTIVE: &str =
    "that collective component is Open MPI's, and not here ('oxmpi info --collectives' lists those that are)";
const NETWORK: &str = "that component is Open MPI's, and not here: there is no transport for such networks yet ('--mca rpi tcp' goes \
                       over IP, 'oxmpi info --select' lists the transports)";
const MEMORY: &str = "that component is Open MPI's, and not here: parameters of shared memory start with 'shm_', and \
                      'single_copy off' keeps processes from copying from each other ('oxmpi info --params')";

/// Framework and component of those that are not here.
const COMPONENTS: &[(&str, &str)] = &[
    ("coll_accelerator", COLLECTIVE),
    ("coll_acoll", COLLECTIVE),
    ("coll_adapt", COLLECTIVE),
    ("coll_cuda", COLLECTIVE),
    ("coll_fca", COLLECTIVE),
    ("coll_ftagree", COLLECTIVE),
    ("coll_hcoll", COLLECTIVE),
    ("coll_monitoring", COLLECTIVE),
    ("coll_portals4", COLLECTIVE),
    ("coll_ucc", COLLECTIVE),
    ("btl_ofi", NETWORK),
    ("btl_openib", NETWORK),
    ("btl_portals4", NETWORK),
    ("btl_uct", NETWORK),
    ("btl_ugni", NETWORK),
    ("btl_usnic", NETWORK),
    ("mtl_mxm", NETWORK),
    ("mtl_ofi", NETWORK),
    ("mtl_portals4", NETWORK),
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
    fn what_is_not_here_may_be_switched_off_and_tuned_but_not_asked_for() {
        for (name, value) in [
            ("coll_hcoll_enable", "0"),
            ("coll_ucc_enable", "False"),
            ("btl_openib_warn_no_device_params_found", "0"),
            ("mpi_warn_on_fork", "0"),
        ] {
            assert_eq!(absence(name, value), Some(Absence::SwitchedOff), "{name}");
            assert_eq!(absence(name, "1"), None, "{name}");
        }
        assert_eq!(absence("btl_openib_if_include", "mlx5_0"), Some(Absence::Tuned(NETWORK)));
        assert_eq!(absence("btl_vader_single_copy_mechanism", "none"), Some(Absence::Tuned(MEMORY)));
        assert_eq!(absence("coll_ucc_priority", "100"), Some(Absence::Tuned(COLLECTIVE)));
        for name in
            ["coll_hcoll", "coll_hcoll_", "coll_hcol_enable", "coll_hcollenable", "btl_smx_y", "rpi", ""]
        {
            assert_eq!(absence(name, "0"), None, "{name}");
        }
    }

    #[test]
    fn no_parameter_of_ours_belongs_to_what_is_not_here() {
        for name in Param::names() {
            assert_eq!((of_component(name), WARNINGS.contains(&name)), (None, false), "{name}");
        }
    }
}
