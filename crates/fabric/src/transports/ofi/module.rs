use super::providers::{self, Candidate, ProviderRequest};
use super::{EVENTS, OfiSettings, TagMode};
use crate::addresses::PeerLocation;
use crate::constructor::{Constructor, Decided, Offer, Services, Situation, Survey, teller};
use crate::introductions;
use crate::routes::Reach;
use linkme::distributed_slice;
use oxmpi_libfabric::{Library, Provider};
use oxmpi_param::module::{Btl, BtlRule, MODULES, Module, Supplies};
use oxmpi_param::{Encrypt, Level, Param, Params, Unit};
use std::fs::DirEntry;
use std::path::Path;
use std::sync::Arc;

#[distributed_slice(MODULES)]
static OFI: Module = Module {
    name: "ofi",
    place: 700,
    help: "'ofi' is libfabric, with shared memory within a node ('--mca mtl ofi').",
    params: &[
        &LIBRARY,
        &INCLUDE,
        &EXCLUDE,
        &TAG_MODE,
        &EVENT_COUNT,
        &GROUPING,
        &MATCH,
        &SHM,
        &PRIORITY,
    ],
    far_priority: Some(&PRIORITY),
    mtl: &["ofi"],
    btl: Btl { names: &["ofi"], left: BtlRule::ListedOrRequested },
    // The state of a provider's connections is not in an image.
    images: false,
    needs: Supplies::Listeners,
    is_unencrypted: true,
    unavailable: |job| job.no_sockets.clone(),
    constructor: &Constructor {
        decide,
        survey: Some(survey),
        suits_hosts,
        ..Constructor::new(open)
    },
    ..Module::NEW
};

static LIBRARY: Param = Param {
    name: "mtl_ofi_library",
    unit: Unit::Text { default: "libfabric.so.1" },
    help: "The file of libfabric, which is opened when a job goes over it: a name that the loader finds, or a path.",
    ..Param::NEW
};

static INCLUDE: Param = Param {
    name: "mtl_ofi_provider_include",
    unit: Unit::Text { default: "" },
    help: "Providers of libfabric that may be used, with commas between them; empty: all but those that do not report messages \
           that are too long (net, udp;ofi_rxd). 'oxmpi info --ofi' lists those of this machine. 'tcp' means tcp alone, not layers over it ('tcp;ofi_rxm').",
    ..Param::NEW
};

static EXCLUDE: Param = Param {
    name: "mtl_ofi_provider_exclude",
    unit: Unit::Text { default: "" },
    help: "Providers of libfabric that may not be used, with commas between them. It does not go together with \
           mtl_ofi_provider_include.",
    ..Param::NEW
};

/// In the order of [`mode_of`].
const MODES: &[&str] = &["auto", "ofi_tag_1", "ofi_tag_2", "ofi_tag_full"];

static TAG_MODE: Param = Param {
    name: "mtl_ofi_tag_mode",
    unit: Unit::Choice(MODES),
    max: MODES.len() as i64 - 1,
    help: "How the 64 bits of a tag of libfabric are used. ofi_tag_full sends the source beside a message, if the provider supports \
           that; ofi_tag_1 has 12 bits for communicators, 18 for the source, 32 for tags; ofi_tag_2 has 24, 18 and 20. auto: \
           ofi_tag_full where the provider supports it, else ofi_tag_1.",
    ..Param::NEW
};

static EVENT_COUNT: Param = Param {
    name: "mtl_ofi_progress_event_cnt",
    unit: Unit::Count,
    default: EVENTS as i64,
    min: 1,
    max: 1 << 20,
    level: Level::Tune,
    help: "The most events that one read of the completion queue of libfabric's provider returns; it is read until it is empty.",
    ..Param::NEW
};

static GROUPING: Param = Param::switch(
    "mtl_ofi_thread_grouping",
    false,
    "Whether each communicator has its own transmit and receive context of a scalable endpoint of libfabric, while the \
     provider has free ones. This helps programs whose threads have a communicator each.",
);

static MATCH: Param = Param {
    name: "mtl_ofi_match",
    unit: Unit::Choice(&["auto", "provider", "software"]),
    max: 2,
    help: "What matches messages with receives: the provider, or OxMPI (software), which then \
           sends them over the provider without tags. \
           auto: OxMPI with providers that are known to lose messages when they match them (shm, sm2), to hang (net) or to cut \
           them (udp;ofi_rxd), else the provider.",
    ..Param::NEW
};

static SHM: Param = Param::switch(
    "mtl_ofi_shm",
    true,
    "Whether messages within a node go through shared memory (1), or through libfabric's provider as well (0).",
);

// Open MPI gives 25 to the whole `pml cm`, and 20 to the one with sockets.
static PRIORITY: Param = Param::priority(
    "mtl_ofi_priority",
    25,
    "The priority of 'ofi' for a job on several hosts that names no transport, if the host of mpirun \
     has a fabric device that libfabric's best provider uses; 'ib' has rpi_ib_priority there. 0: \
     never. On one host 'ofi' is used only if it is named.",
);

fn mode_of(params: &Params) -> Option<TagMode> {
    match params.number(&TAG_MODE) {
        1 => Some(TagMode::One),
        2 => Some(TagMode::Two),
        3 => Some(TagMode::Full),
        _ => None,
    }
}

fn matches_itself(params: &Params, provider: &Provider) -> bool {
    match params.number(&MATCH) {
        1 => false,
        2 => true,
        _ => providers::matches_badly(&provider.name),
    }
}

fn wanted(params: &Params, is_one_host: bool) -> ProviderRequest {
    let names = |list: &Param| {
        let names = params.text(list).split(',').map(|name| name.trim().to_string());
        names.filter(|name| !name.is_empty()).collect()
    };
    ProviderRequest {
        include: names(&INCLUDE),
        exclude: names(&EXCLUDE),
        mode: mode_of(params),
        is_one_host,
    }
}

fn found(params: &Params, is_one_host: bool) -> Result<(Arc<Library>, Vec<Candidate>), String> {
    let library = Library::open(params.text(&LIBRARY)).map_err(|error| error.to_string())?;
    let candidates = providers::candidates(&library, &wanted(params, is_one_host))?;
    Ok((library, candidates))
}

/// All ranks use this provider and this mode of tags.
fn decide(params: &Params, is_one_host: bool) -> Result<Decided, String> {
    let (library, candidates) = found(params, is_one_host)?;
    let (provider, layout) = providers::choose(&library, candidates, None)?;
    let mut values = vec![
        (INCLUDE.name, provider.name.clone()),
        (EXCLUDE.name, String::new()),
        (TAG_MODE.name, layout.mode().to_string()),
        (
            MATCH.name,
            if matches_itself(params, &provider) { "software" } else { "provider" }.into(),
        ),
    ];
    let mut remarks = Vec::new();
    if params.is_on(&GROUPING) && providers::grouped(&library, &provider, layout)?.is_none() {
        remarks.push(format!(
            "provider {} has no scalable endpoints, so all communicators share one: {} has no effect",
            provider.name, GROUPING.name
        ));
        values.push((GROUPING.name, "0".into()));
    }
    let variables = providers::variables(&provider.name, library.version());
    Ok(Decided { params: values, variables, remarks })
}

const DEVICES: &str = "/sys/class";

/// Reads the kinds of devices, because libfabric takes some tenths of a second to find none.
fn has_fabric(kinds: &Path) -> bool {
    let Ok(entries) = std::fs::read_dir(kinds) else { return false };
    let is_one =
        |name: &str| ["infiniband", "cxi", "hfi"].iter().any(|kind| name.starts_with(kind));
    let has_devices = |entry: &DirEntry| {
        std::fs::read_dir(entry.path()).is_ok_and(|mut devices| devices.next().is_some())
    };
    entries
        .flatten()
        .any(|entry| entry.file_name().to_str().is_some_and(is_one) && has_devices(&entry))
}

/// A job on several hosts uses the fabric of this host, if libfabric's best provider is for it.
fn suits_hosts(params: &Params) -> Option<String> {
    let is_wanted = params.number(&PRIORITY) > 0 && params.mpi_encrypt() != Encrypt::On;
    if !is_wanted || !has_fabric(Path::new(DEVICES)) {
        return None;
    }
    let (library, candidates) = found(params, false).ok()?;
    let (provider, _) = providers::choose(&library, candidates, None).ok()?;
    let name = &provider.name;
    providers::is_for_fabric(name)
        .then(|| format!("provider {name} of {library}, which is for a fabric"))
}

fn survey(params: &Params) -> Result<Survey, String> {
    let (library, candidates) = found(params, true)?;
    let rows = candidates.iter().map(providers::row).collect();
    let choice = providers::choose(&library, candidates, None).map(|(provider, layout)| {
        let is_grouped = params.is_on(&GROUPING)
            && providers::grouped(&library, &provider, layout).is_ok_and(|found| found.is_some());
        let with = |is: bool| if is { "with" } else { "without" };
        format!(
            "provider {}, messages matched by {}; tags as {}: MPI_TAG_UB {}, {} communicators; functions {} FI_REMOTE_CQ_DATA, {} scalable \
             endpoints",
            provider.name,
            if matches_itself(params, &provider) { "OxMPI" } else { "it" },
            layout.mode(),
            layout.last_tag(),
            layout.contexts(),
            with(layout.mode() == TagMode::Full),
            with(is_grouped)
        )
    });
    Ok(Survey { title: library.to_string(), choice, columns: &providers::COLUMNS, rows })
}

fn open(of: &Situation<'_>, services: &Arc<dyn Services>) -> Result<Option<Offer>, String> {
    let Some(poller) = services.poller() else { return Ok(None) };
    let is_one_host = of.node.is_none() || of.params.mpi_virtual_nodes() > 1;
    let (library, candidates) = found(of.params, is_one_host)?;
    let own = match services.locate(of.rank) {
        Ok(PeerLocation::At(addresses)) => {
            addresses.into_iter().next().map(|address| address.interface)
        }
        _ => None,
    };
    let (provider, layout) = providers::choose(&library, candidates, own.as_deref())?;
    let sockets = introductions::carrier(of, services)?;
    let grouped = of.params.is_on(&GROUPING);
    let provider = if grouped {
        let other = providers::grouped(&library, &provider, layout)?;
        other.ok_or_else(|| format!("provider {} has no scalable endpoints here", provider.name))?
    } else {
        provider
    };
    let matches_itself = matches_itself(of.params, &provider);
    let settings =
        OfiSettings { events: of.params.count(&EVENT_COUNT), layout, grouped, matches_itself };
    let (tell, nodes) = (teller(services), of.nodes(services));
    let ofi = super::open(of.rank, &provider, sockets, settings, (&poller, tell), Some(nodes));
    let ofi = ofi.map_err(|error| format!("provider {}: {error}", provider.name))?;
    let memory = if of.params.is_on(&SHM) { Reach::Node } else { Reach::Nobody };
    Ok(Some(Offer { transport: ofi, reach: Reach::Everybody, memory, semaphores: None }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fabric_is_there_if_the_kernel_has_devices_of_it() {
        let root = std::env::temp_dir().join(format!("oxmpi-devices-{}", std::process::id()));
        let with = |path: &str| {
            std::fs::create_dir_all(root.join(path)).unwrap();
            has_fabric(&root)
        };
        let found = [with("net/eth0"), with("infiniband"), with("hfi1"), with("infiniband/mlx5_0")];
        let nowhere = has_fabric(&root.join("nowhere"));
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!((found, nowhere), ([false, false, false, true], false));
    }
}
