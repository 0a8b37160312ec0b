//! The components ucc and hcoll, which hand collectives over to another library.
//!
//! Every decision here depends on parameters and on values that are the same on all ranks of a
//! call. At the first call that needs the library, the ranks agree on whether it is installed and
//! supports the call; if not, a plan serves the call on all ranks.

use crate::components::Form;
use crate::stack::CallFacts;
use oxmpi_param::Params;
use oxmpi_plan::Collective;

/// The collectives that UCC has, as `coll_ucc_cts` names them.
const TYPES: [Collective; 14] = [
    Collective::Barrier,
    Collective::Bcast,
    Collective::Allreduce,
    Collective::Alltoall,
    Collective::Alltoallv,
    Collective::Allgather,
    Collective::Allgatherv,
    Collective::Reduce,
    Collective::Gather,
    Collective::Gatherv,
    Collective::ReduceScatterBlock,
    Collective::ReduceScatter,
    Collective::Scatter,
    Collective::Scatterv,
];

/// The collectives with nonblocking functions in HCOLL; only these can be called without blocking
/// progress.
const HCOLL_TYPES: [Collective; 8] = [
    Collective::Barrier,
    Collective::Bcast,
    Collective::Allgather,
    Collective::Allgatherv,
    Collective::Allreduce,
    Collective::Reduce,
    Collective::Gatherv,
    Collective::Alltoallv,
];

#[must_use]
pub(crate) fn ucc_has(collective: Collective) -> bool {
    TYPES.contains(&collective)
}

#[must_use]
pub(crate) fn hcoll_has(collective: Collective) -> bool {
    HCOLL_TYPES.contains(&collective)
}

/// The parameters of a component that hands collectives to another library.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedOver {
    texts: &'static RefusalTexts,
    refusal: Option<&'static str>,
    fewest: u32,
    /// The collectives served by blocking and by nonblocking calls: a bit for each of [`TYPES`].
    types: [u32; 2],
}

const ALL: u32 = (1 << TYPES.len()) - 1;

#[derive(Debug, PartialEq, Eq)]
struct RefusalTexts {
    disabled: &'static str,
    checkpoints: &'static str,
    failures: &'static str,
    fewer: &'static str,
    operation: &'static str,
}

const UCC: &RefusalTexts = &RefusalTexts {
    disabled: "coll_ucc_enable is 0",
    checkpoints: "the parameter cr is set, and UCC's connections cannot be part of a checkpoint",
    failures: "mpi_ft_enable is 1, and UCC cannot give up collectives of processes that have failed",
    fewer: "there are fewer ranks than coll_ucc_np",
    operation: "UCC has no such operation on such elements",
};

const HCOLL: &RefusalTexts = &RefusalTexts {
    disabled: "coll_hcoll_enable is 0",
    checkpoints: "the parameter cr is set, and HCOLL's connections cannot be part of a checkpoint",
    failures: "mpi_ft_enable is 1, and HCOLL cannot give up collectives of processes that have failed",
    fewer: "there are fewer ranks than coll_hcoll_np",
    operation: "HCOLL has no such operation on such elements",
};

impl HandedOver {
    fn disabled(texts: &'static RefusalTexts) -> HandedOver {
        HandedOver { texts, refusal: Some(texts.disabled), fewest: 2, types: [ALL; 2] }
    }

    /// The component ucc of a job that does not enable it.
    #[must_use]
    pub fn without_ucc() -> HandedOver {
        HandedOver::disabled(UCC)
    }

    /// The component hcoll of a job that does not enable it.
    #[must_use]
    pub fn without_hcoll() -> HandedOver {
        HandedOver::disabled(HCOLL)
    }

    /// The component ucc as the parameters set it.
    pub fn ucc(params: &Params) -> Result<HandedOver, String> {
        let refusal = refusal(params, params.coll_ucc_enable(), UCC);
        let types = types(params.coll_ucc_cts())?;
        Ok(HandedOver { refusal, fewest: params.coll_ucc_np(), types, ..HandedOver::without_ucc() })
    }

    /// The component hcoll as the parameters set it.
    #[must_use]
    pub fn hcoll(params: &Params) -> HandedOver {
        let refusal = refusal(params, params.coll_hcoll_enable(), HCOLL);
        HandedOver { refusal, fewest: params.coll_hcoll_np(), ..HandedOver::without_hcoll() }
    }

    /// Whether the component may serve any collective.
    #[must_use]
    pub fn is_enabled(&self) -> bool {
        self.refusal.is_none()
    }

    /// The reason why the component does not serve a communicator of `ranks` ranks.
    pub(crate) fn refusal(&self, ranks: u32) -> Option<&'static str> {
        match self.refusal {
            None if ranks < 2 => Some("there is one rank"),
            None if ranks < self.fewest => Some(self.texts.fewer),
            refusal => refusal,
        }
    }

    /// The reason why the component, which serves the communicator, does not serve this call.
    pub(crate) fn refusal_of(&self, call: &CallFacts<'_>) -> Option<&'static str> {
        let at = TYPES.iter().position(|collective| *collective == call.facts.collective)?;
        let types = match call.form {
            Form::Blocking => self.types[0],
            Form::Nonblocking => self.types[1],
            Form::Persistent => return None,
        };
        if types & 1 << at == 0 {
            Some("coll_ucc_cts leaves it out")
        } else if !call.can_hand_over {
            Some(self.texts.operation)
        } else {
            None
        }
    }
}

fn refusal(params: &Params, is_enabled: bool, texts: &RefusalTexts) -> Option<&'static str> {
    if !is_enabled {
        Some(texts.disabled)
    } else if params.cr().is_some() {
        Some(texts.checkpoints)
    } else if params.mpi_ft_enable() {
        Some(texts.failures)
    } else {
        None
    }
}

fn types(text: &str) -> Result<[u32; 2], String> {
    let text = text.trim();
    if text.is_empty() {
        return Ok([ALL; 2]);
    }
    let (is_without, names) = match text.strip_prefix('^') {
        Some(names) => (true, names),
        None => (false, text),
    };
    let mut found = [0; 2];
    for name in names.split(',').map(str::trim) {
        let place = |name: &str| TYPES.iter().position(|collective| collective.name() == name);
        match (place(name), name.strip_prefix('i').and_then(place)) {
            (Some(at), _) => found[0] |= 1 << at,
            (None, Some(at)) => found[1] |= 1 << at,
            (None, None) => {
                let known = TYPES.map(Collective::name).join(", ");
                return Err(format!(
                    "'{name}' is no type of collective that UCC has: expected {known}, or one of them with an i before it \
                     for its nonblocking form"
                ));
            }
        }
    }
    Ok(if is_without { found.map(|types| ALL & !types) } else { found })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_names_types_and_their_nonblocking_forms() {
        let bit = |collective| 1 << TYPES.iter().position(|other| *other == collective).unwrap();
        assert_eq!(types(""), Ok([ALL; 2]));
        let two = types("allreduce, ibarrier");
        assert_eq!(two, Ok([bit(Collective::Allreduce), bit(Collective::Barrier)]));
        assert_eq!(types("^ibcast"), Ok([ALL, ALL & !bit(Collective::Bcast)]));
        assert!(types("scan").unwrap_err().contains("'scan' is no type"));
        assert!(types("allreduce,").unwrap_err().contains("'' is no type"));
    }

    #[test]
    fn a_component_serves_only_if_it_is_enabled() {
        let on = Params::default().with("coll_ucc_enable", "1").unwrap();
        let refusal = |params: Params, ranks| HandedOver::ucc(&params).unwrap().refusal(ranks);
        assert_eq!(refusal(Params::default(), 4), Some(UCC.disabled));
        assert_eq!(
            (refusal(on.clone(), 4), refusal(on.clone(), 1)),
            (None, Some("there is one rank"))
        );
        let many = on.clone().with("coll_ucc_np", "5").unwrap();
        assert_eq!(refusal(many, 4), Some("there are fewer ranks than coll_ucc_np"));
        let survivors = on.with("mpi_ft_enable", "1").unwrap();
        assert!(refusal(survivors, 4).unwrap().starts_with("mpi_ft_enable is 1"));
        let hcoll = |said: &[(&str, &str)], ranks| {
            let mut params = Params::default();
            said.iter().for_each(|(name, value)| params.set(name, value).unwrap());
            HandedOver::hcoll(&params).refusal(ranks)
        };
        let on = ("coll_hcoll_enable", "1");
        assert_eq!((hcoll(&[], 4), hcoll(&[on], 4)), (Some(HCOLL.disabled), None));
        assert_eq!(
            hcoll(&[on, ("coll_hcoll_np", "5")], 4),
            Some("there are fewer ranks than coll_hcoll_np")
        );
        assert_eq!(hcoll(&[on, ("cr", "blcr")], 4), Some(HCOLL.checkpoints));
    }
}
