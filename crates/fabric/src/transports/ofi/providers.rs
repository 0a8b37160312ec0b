//! The choice of the provider of libfabric for a job.
//!
//! libfabric lists its providers, the best first, each once for each network that it can use.
//! `mpirun` takes the first provider that the parameters and the job allow ([`verdict`]), and sends
//! its name and the mode of its tags to the ranks. Each rank takes this provider on the interface
//! of its sockets, if the provider has it.

use super::frames::ROOM;
use super::{TagLayout, TagMode};
use oxmpi_libfabric::{Library, Provider, ProviderQuery};
use oxmpi_sys::foreign::LibraryError;
use std::fmt::Write as _;
use std::sync::Arc;

const ON_A_HOST: [&str; 2] = ["shm", "sm2"];

/// Providers for ordinary networks, or within a host; `psm3` goes over any Ethernet.
const ORDINARY: [&str; 7] = ["tcp", "udp", "sockets", "net", "shm", "sm2", "psm3"];

pub(super) fn is_for_fabric(name: &str) -> bool {
    !name.split(';').any(|layer| ORDINARY.contains(&layer))
}

/// A defect in matching: with such a provider OxMPI matches the messages (`mtl_ofi_match`).
struct Defect {
    /// The last layer of the provider's name: this layer matches messages.
    layer: &'static str,
    what: &'static str,
    /// Whether the provider is used only if the user names it.
    is_refused: bool,
}

/// Observed in libfabric 1.17 and 2.5 (`net` exists only in 1.15 to 1.17).
const DEFECTS: [Defect; 4] = [
    Defect { layer: "shm", what: MIXED_UP, is_refused: false },
    Defect { layer: "sm2", what: MIXED_UP, is_refused: false },
    Defect {
        layer: "net",
        what: "it loses the connection, and both ranks hang, when a message is longer than its receive",
        is_refused: true,
    },
    Defect {
        layer: "ofi_rxd",
        what: "it cuts a message that is longer than its receive, and reports success",
        is_refused: true,
    },
];

/// The case: a message arrives before its receive, or while receives are cancelled.
const MIXED_UP: &str = "it loses messages that it matches, or mixes them up";

fn defect(name: &str) -> Option<&'static Defect> {
    let layer = name.split(';').next_back();
    DEFECTS.iter().find(|defect| Some(defect.layer) == layer)
}

pub(super) fn matches_badly(name: &str) -> bool {
    defect(name).is_some()
}

#[derive(Clone, Debug, Default)]
pub(super) struct ProviderRequest {
    /// If not empty, only these providers may be used.
    pub(super) include: Vec<String>,
    pub(super) exclude: Vec<String>,
    /// The mode of tags; `None`: the best mode that the provider supports.
    pub(super) mode: Option<TagMode>,
    pub(super) is_one_host: bool,
}

#[derive(Debug)]
pub(super) struct Candidate {
    pub(super) provider: Provider,
    /// The layout of its tags, or the reason for the user why the provider is not used.
    pub(super) layout: Result<TagLayout, String>,
}

/// The facts of a provider that decide whether it is used.
#[derive(Clone, Copy, Debug)]
struct Facts<'a> {
    name: &'a str,
    domain: &'a str,
    tag_bits: u32,
    data_bytes: usize,
    is_directed: bool,
    max_message: usize,
}

fn verdict(facts: Facts<'_>, wanted: &ProviderRequest) -> Result<TagLayout, String> {
    let Facts { name, domain, tag_bits, data_bytes, is_directed, max_message } = facts;
    let is_in = |list: &[String]| list.iter().any(|one| one == name);
    if !wanted.include.is_empty() && !is_in(&wanted.include) {
        return Err("mtl_ofi_provider_include leaves it out".into());
    }
    if is_in(&wanted.exclude) {
        return Err("mtl_ofi_provider_exclude leaves it out".into());
    }
    if wanted.include.is_empty()
        && let Some(Defect { what, is_refused: true, .. }) = defect(name)
    {
        return Err(format!(
            "{what}; '--mca mtl_ofi_provider_include {name}' uses it all the same"
        ));
    }
    if !wanted.is_one_host && name.split(';').any(|layer| ON_A_HOST.contains(&layer)) {
        return Err("it stays on a host, and the job is on several".into());
    }
    if !wanted.is_one_host && domain == "lo" {
        return Err("its interface stays on a host, and the job is on several".into());
    }
    if max_message < ROOM {
        return Err(format!("its longest message has {max_message} bytes, and {ROOM} are needed"));
    }
    TagLayout::choose(wanted.mode, tag_bits, data_bytes, is_directed)
        .map_err(|error| error.to_string())
}

/// The settings with which a provider follows MPI if a message is longer than its receive
/// (fi_rxm(7)). `ofi_rxm` crashes or mixes up messages if it fragments a message (1.17, 2.5), and
/// ends the connection if it requests a buffer only when a message has arrived (1.17; not 2.5).
pub(super) fn variables(name: &str, version: (u32, u32)) -> Vec<(&'static str, &'static str)> {
    let mut all = Vec::new();
    if name.split(';').any(|layer| layer == "ofi_rxm") {
        all.push(("FI_OFI_RXM_SAR_LIMIT", "0"));
        if version < (2, 0) {
            all.push(("FI_OFI_RXM_ENABLE_DYN_RBUF", "0"));
        }
    }
    all
}

/// The providers of libfabric, the best first. Fails if libfabric cannot list them, if the
/// parameters contradict each other, or if they name an unknown provider.
pub(super) fn candidates(
    library: &Arc<Library>,
    wanted: &ProviderRequest,
) -> Result<Vec<Candidate>, String> {
    let ProviderRequest { include, exclude, .. } = wanted;
    if !include.is_empty() && !exclude.is_empty() {
        return Err(
            "mtl_ofi_provider_include and mtl_ofi_provider_exclude are both given: leave out one of the two"
                .into(),
        );
    }
    let all = providers(library).map_err(|error| error.to_string())?;
    let names = names(all.iter().map(|provider| provider.name.as_str()));
    if let Some(unknown) =
        include.iter().chain(exclude).find(|name| !names.contains(&name.as_str()))
    {
        let there = if names.is_empty() {
            "there is none".into()
        } else {
            format!("there are {}", names.join(", "))
        };
        return Err(format!(
            "'{unknown}' is no provider of libfabric that matches tags here: {there}"
        ));
    }
    let judged = |provider: Provider| {
        let facts = Facts {
            name: &provider.name,
            domain: &provider.domain,
            tag_bits: provider.tag_bits,
            data_bytes: provider.data_bytes,
            is_directed: provider.is_directed,
            max_message: provider.max_message,
        };
        Candidate { layout: verdict(facts, wanted), provider }
    };
    Ok(all.into_iter().map(judged).collect())
}

/// Makes several lists, because libfabric reports a capability only if it is requested.
fn providers(library: &Arc<Library>) -> Result<Vec<Provider>, LibraryError> {
    let plain = library.providers(&ProviderQuery::default())?;
    let mut directed =
        library.providers(&ProviderQuery { directed: true, ..ProviderQuery::default() })?;
    let is_same = |one: &Provider, other: &Provider| {
        (&one.name, &one.domain, one.address_format)
            == (&other.name, &other.domain, other.address_format)
    };
    let mut all: Vec<Provider> = Vec::new();
    for provider in plain {
        if all.iter().any(|one| is_same(one, &provider)) {
            continue;
        }
        let better = directed.iter().position(|one| is_same(one, &provider));
        all.push(better.map_or(provider, |at| directed.remove(at)));
    }
    Ok(all)
}

pub(super) fn grouped(
    library: &Arc<Library>,
    provider: &Provider,
    layout: TagLayout,
) -> Result<Option<Provider>, String> {
    let directed = layout.mode() == TagMode::Full;
    let query = ProviderQuery { name: Some(provider.name.clone()), directed, grouped: true };
    let all = library.providers(&query).map_err(|error| error.to_string())?;
    let is_it = |one: &Provider| {
        one.contexts > 1
            && (&one.domain, one.address_format) == (&provider.domain, provider.address_format)
    };
    Ok(all.into_iter().find(is_it))
}

fn names<'a>(all: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut names = Vec::new();
    all.for_each(|name| {
        if !names.contains(&name) {
            names.push(name);
        }
    });
    names
}

/// The first allowed provider, on this interface if the provider has it.
pub(super) fn choose(
    library: &Library,
    candidates: Vec<Candidate>,
    interface: Option<&str>,
) -> Result<(Provider, TagLayout), String> {
    let good = candidates.iter().position(|one| one.layout.is_ok());
    let Some(first) = good else { return Err(none_of(library, &candidates)) };
    let name = candidates[first].provider.name.clone();
    let is_there = |one: &Candidate| {
        one.layout.is_ok()
            && one.provider.name == name
            && Some(one.provider.domain.as_str()) == interface
    };
    let at = candidates.iter().position(is_there).unwrap_or(first);
    let Candidate { provider, layout } =
        candidates.into_iter().nth(at).ok_or("there is no provider")?;
    Ok((provider, layout?))
}

pub(super) const COLUMNS: [&str; 8] = [
    "provider",
    "domain",
    "tag bits",
    "data bytes",
    "directed receive",
    "longest message",
    "order",
    "use",
];

pub(super) fn row(candidate: &Candidate) -> Vec<String> {
    let Candidate { provider, layout } = candidate;
    let yes = |is: bool| if is { "yes" } else { "no" }.to_string();
    let how =
        layout.as_ref().map_or_else(|why| format!("no: {why}"), |layout| layout.mode().to_string());
    vec![
        provider.name.clone(),
        provider.domain.clone(),
        provider.tag_bits.to_string(),
        provider.data_bytes.to_string(),
        yes(provider.is_directed),
        provider.max_message.to_string(),
        yes(provider.keeps_order),
        how,
    ]
}

fn none_of(library: &Library, candidates: &[Candidate]) -> String {
    if candidates.is_empty() {
        return format!(
            "{library} has no provider that matches tags and keeps the order of messages: install one for this network"
        );
    }
    let mut text = format!("no provider of {library} can be used");
    for name in names(candidates.iter().map(|one| one.provider.name.as_str())) {
        let whys = candidates.iter().filter(|one| one.provider.name == name);
        let why = whys.filter_map(|one| one.layout.as_ref().err()).next_back();
        let _ = write!(text, "; {name}: {}", why.map_or("", String::as_str));
    }
    text + " ('oxmpi info --ofi' lists them)"
}

#[cfg(test)]
mod tests {
    use super::*;

    const TCP: Facts<'_> = Facts {
        name: "tcp;ofi_rxm",
        domain: "eth0",
        tag_bits: 64,
        data_bytes: 8,
        is_directed: true,
        max_message: usize::MAX,
    };

    fn wanted() -> ProviderRequest {
        ProviderRequest { is_one_host: true, ..ProviderRequest::default() }
    }

    fn why(facts: Facts<'_>, wanted: &ProviderRequest) -> String {
        verdict(facts, wanted).unwrap_err()
    }

    #[test]
    fn lists_name_providers_with_all_their_layers() {
        let listed = |include: &str, exclude: &str| {
            let list = |text: &str| {
                text.split(',').filter(|name| !name.is_empty()).map(String::from).collect()
            };
            ProviderRequest { include: list(include), exclude: list(exclude), ..wanted() }
        };
        assert!(verdict(TCP, &listed("", "")).is_ok());
        assert!(verdict(TCP, &listed("shm,tcp;ofi_rxm", "")).is_ok());
        assert!(verdict(TCP, &listed("", "tcp")).is_ok());
        assert_eq!(why(TCP, &listed("tcp", "")), "mtl_ofi_provider_include leaves it out");
        assert_eq!(why(TCP, &listed("", "tcp;ofi_rxm")), "mtl_ofi_provider_exclude leaves it out");
    }

    #[test]
    fn providers_of_fabrics_are_distinguished_from_ordinary_ones() {
        let found = [
            "cxi",
            "efa",
            "verbs;ofi_rxm",
            "opx",
            "tcp",
            "tcp;ofi_rxm",
            "udp;ofi_rxd",
            "shm",
            "sockets",
            "psm3",
        ]
        .map(is_for_fabric);
        assert_eq!(found, [true, true, true, true, false, false, false, false, false, false]);
    }

    #[test]
    fn providers_within_a_host_are_for_jobs_on_one() {
        let several = ProviderRequest { is_one_host: false, ..wanted() };
        for facts in [
            Facts { name: "shm", ..TCP },
            Facts { name: "sm2;ofi_x", ..TCP },
            Facts { domain: "lo", ..TCP },
        ] {
            assert!(verdict(facts, &wanted()).is_ok());
            assert!(why(facts, &several).contains("stays on a host"), "{facts:?}");
        }
        assert!(verdict(TCP, &several).is_ok());
    }

    #[test]
    fn a_provider_with_short_messages_is_not_used() {
        assert!(
            why(Facts { max_message: ROOM - 1, ..TCP }, &wanted())
                .contains("its longest message has")
        );
        assert!(verdict(Facts { max_message: ROOM, ..TCP }, &wanted()).is_ok());
    }

    #[test]
    fn a_provider_that_matches_badly_matches_none_and_if_it_hangs_or_cuts_messages_it_is_used_by_its_name_alone()
     {
        let found = ["shm", "sm2", "net", "udp;ofi_rxd", "udp", "tcp", "net;ofi_rxm", "cxi"];
        let named = |name: &str| ProviderRequest { include: vec![name.into()], ..wanted() };
        let is_used =
            |name, wanted: &ProviderRequest| verdict(Facts { name, ..TCP }, wanted).is_ok();
        assert_eq!(found.map(matches_badly), [true, true, true, true, false, false, false, false]);
        let by_itself = found.map(|name| is_used(name, &wanted()));
        assert_eq!(by_itself, [true, true, false, false, true, true, true, true]);
        assert!(found.iter().all(|name| is_used(name, &named(name))));
        let text = why(Facts { name: "net", ..TCP }, &wanted());
        assert!(
            text.contains("hang")
                && text.ends_with("'--mca mtl_ofi_provider_include net' uses it all the same")
        );
    }

    #[test]
    fn the_best_mode_that_a_provider_can_have_is_taken_and_none_instead_of_another() {
        let mode = |facts, mode| {
            verdict(facts, &ProviderRequest { mode, ..wanted() }).map(|layout| layout.mode())
        };
        let (undirected, short) =
            (Facts { is_directed: false, ..TCP }, Facts { data_bytes: 3, ..TCP });
        assert_eq!(mode(TCP, None), Ok(TagMode::Full));
        assert_eq!(
            [mode(undirected, None), mode(short, None)],
            [Ok(TagMode::One), Ok(TagMode::One)]
        );
        assert_eq!(mode(undirected, Some(TagMode::Two)), Ok(TagMode::Two));
        assert!(mode(short, Some(TagMode::Full)).unwrap_err().contains("FI_REMOTE_CQ_DATA"));
    }
}
