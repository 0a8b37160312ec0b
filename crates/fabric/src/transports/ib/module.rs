use super::ports::{self, DEVICES, PortRequest};
use super::without_port::WithoutPort;
use super::{Ib, IbSettings};
use crate::constructor::{Constructor, Decided, Offer, Services, Situation, Survey, teller};
use crate::introductions;
use crate::routes::Reach;
use linkme::distributed_slice;
use oxmpi_param::module::{Btl, BtlRule, MODULES, Module, Supplies};
use oxmpi_param::{Encrypt, Level, Param, Params, Source, Unit};
use oxmpi_verbs::{Adapter, AdapterSettings, Device, LIBRARY as FILE, RETRIES, VerbsLibrary};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[distributed_slice(MODULES)]
static IB: Module = Module {
    name: "ib",
    place: 750,
    help: "'ib' is InfiniBand or RoCE through libibverbs, with shared memory within a node.",
    params: &[
        &HCA_ID, &PORT, &MTU, &ENVELOPES, &TINY, &SRQ, &TIMEOUT, &SHM, &RMA, &FALLBACK, &LIBRARY,
        &PRIORITY,
    ],
    priority: Some(&PRIORITY),
    btl: Btl { names: &["openib"], left: BtlRule::ListedOrRequested },
    // A connection is state of the adapter, which an image does not contain.
    images: false,
    needs: Supplies::Listeners,
    is_unencrypted: true,
    unavailable: |job| job.no_sockets.clone(),
    not_found,
    constructor: &Constructor {
        decide,
        survey: Some(survey),
        suits_hosts,
        ..Constructor::new(open)
    },
    ..Module::NEW
};

static HCA_ID: Param = Param {
    name: "rpi_ib_hca_id",
    unit: Unit::Text { default: "" },
    help: "The device that 'ib' uses ('oxmpi info --ib' lists those of this machine); empty: the first one with an active port.",
    ..Param::NEW
};

static PORT: Param = Param {
    name: "rpi_ib_port",
    default: -1,
    min: -1,
    max: 254,
    help: "The port of the device that 'ib' uses, from 1; -1: the first active one. Processes share a port.",
    ..Param::NEW
};

static MTU: Param = Param {
    name: "rpi_ib_mtu",
    unit: Unit::Bytes,
    default: 1024,
    min: 1,
    max: 1 << 20,
    help: "The MTU of connections over 'ib': 256, 512, 1024, 2048 or 4096, and no more than the port has.",
    ..Param::NEW
};

static ENVELOPES: Param = Param {
    name: "rpi_ib_num_envelopes",
    unit: Unit::Count,
    default: 64,
    min: 1,
    max: 4096,
    help: "Envelopes that 'ib' posts for each peer with contact: the number of short messages that may be under way.",
    ..Param::NEW
};

static TINY: Param = Param {
    name: "rpi_ib_tinymsglen",
    unit: Unit::Bytes,
    default: 1024,
    min: 64,
    max: 1 << 20,
    help: "The longest message that 'ib' sends in one envelope before its receive is known to be posted. Longer ones wait for the \
           receiver (rendezvous).",
    ..Param::NEW
};

static SRQ: Param = Param::switch(
    "rpi_ib_srq",
    true,
    "Whether the envelopes of all peers lie in one shared receive queue (1), of limited size, or each peer has its own (0).",
);

static TIMEOUT: Param = Param {
    name: "rpi_ib_timeout",
    unit: Unit::Count,
    default: 10,
    min: 1,
    max: 600,
    help: "The time in seconds (about) for which the adapter of 'ib' repeats unanswered packets before the peer counts as failed.",
    ..Param::NEW
};

static SHM: Param = Param::switch(
    "rpi_ib_shm",
    true,
    "Whether messages within a node go through shared memory (1), or by 'ib' through the adapter as well (0).",
);

static FALLBACK: Param = Param {
    name: "rpi_ib_fallback",
    default: -1,
    min: -1,
    max: 1,
    help: "What a rank does on a host where 'ib' finds no active port: it ends the job (0), or all its messages go over sockets (1). -1: the \
           latter if no one has selected 'ib' by name, so that one host without a port does not keep a job from the network of the others.",
    ..Param::NEW
};

static RMA: Param = Param::switch(
    "rpi_ib_rma",
    true,
    "Whether MPI_Put and MPI_Get of data in one piece go by the adapter of 'ib' straight into and out of the window, and accumulates to \
     elements of 8 bytes where the window has the hint that they are short (mpi_accumulate_granularity) (1), or all by messages that the target \
     carries out (0).",
);

static LIBRARY: Param = Param {
    name: "rpi_ib_library",
    unit: Unit::Text { default: FILE },
    help: "The file of libibverbs, which is opened when a job goes over 'ib': a name that the loader finds, or a path.",
    level: Level::Tune,
    ..Param::NEW
};

static PRIORITY: Param = Param::priority(
    "rpi_ib_priority",
    50,
    "The priority of 'ib' when 'rpi' names no transport: the one with the highest priority that \
     can run is used. A job on several hosts goes over it \
     if this host has an active port; 0: never.",
);

/// The most envelopes of a shared receive queue, in a job of few processes.
const SHARED_MOST: u32 = 4096;
const PAUSE: Duration = Duration::from_millis(200);
const ATTEMPTS: u128 = RETRIES as u128 + 1;

/// The exponent of the time (4.096 microseconds times a power of two) after which a packet is
/// repeated, so that all attempts together take about this number of seconds.
fn ack_timeout(seconds: u32) -> u8 {
    let units = u128::from(seconds) * 1_000_000_000 / ATTEMPTS / 4096;
    // The field has five bits, and 0 means forever.
    (units.max(2).ilog2() as u8).min(31)
}

fn request(params: &Params) -> PortRequest {
    let device = params.text(&HCA_ID);
    PortRequest {
        device: (!device.is_empty()).then(|| device.to_string()),
        port: u8::try_from(params.number(&PORT)).ok(),
        mtu: params.count(&MTU),
    }
}

/// The longest shared receive queue. One half is for peers of one envelope each, so that each
/// process of the job has one. The other half has room for all envelopes of one peer.
fn shared_len(envelopes: u32, processes: u32) -> u32 {
    SHARED_MOST.max(processes.max(envelopes).saturating_mul(2))
}

fn settings(params: &Params, processes: u32) -> IbSettings {
    let envelopes = params.count(&ENVELOPES) as u32;
    let shared = params.is_on(&SRQ).then(|| shared_len(envelopes, processes));
    let timeout = Duration::from_secs(params.count(&TIMEOUT) as u64);
    let (tiny, mtu, rma) = (params.count(&TINY), params.count(&MTU), params.is_on(&RMA));
    IbSettings { tiny, envelopes, shared, mtu, timeout, pause: PAUSE, rma }
}

fn falls_back(params: &Params) -> bool {
    params.number(&FALLBACK) == 1
}

/// The reason why this machine has no port. Without an active port no library is opened.
fn not_found(params: &Params) -> Option<String> {
    let is_needed = !falls_back(params) && !ports::has_active_port(Path::new(DEVICES));
    is_needed.then(|| {
        format!(
            "no device under {DEVICES} has an active port, so {FILE} is not opened: install the adapter's driver and bring up a port \
             ('oxmpi info --ib' shows what there is), or let host {} use sockets by rpi_ib_fallback 1",
            oxmpi_sys::host::name()
        )
    })
}

fn found(params: &Params) -> Result<(Arc<VerbsLibrary>, Vec<Device>), String> {
    let library = VerbsLibrary::open(params.text(&LIBRARY)).map_err(|error| error.to_string())?;
    let devices = library.devices().map_err(|error| error.to_string())?;
    Ok((library, devices))
}

fn decide(params: &Params, is_one_host: bool) -> Result<Decided, String> {
    if is_one_host && !falls_back(params) {
        let (_, devices) = found(params)?;
        ports::choose(&devices, &request(params))?;
    }
    let mut decided = Decided::default();
    if params.number(&FALLBACK) < 0 {
        let is_by_itself =
            Param::find("rpi").is_some_and(|rpi| matches!(params.source(rpi), Source::Launcher(_)));
        decided.params.push((FALLBACK.name, i32::from(is_by_itself).to_string()));
    }
    Ok(decided)
}

/// A job on several hosts uses the port of this host, if the port can make its connections.
fn suits_hosts(params: &Params) -> Option<String> {
    let is_wanted = params.number(&PRIORITY) > 0 && params.mpi_encrypt() != Encrypt::On;
    if !is_wanted || !ports::has_active_port(Path::new(DEVICES)) {
        return None;
    }
    let (library, devices) = found(params).ok()?;
    let (device, port) = ports::choose(&devices, &request(params)).ok()?;
    let is_suited = ports::has_reliable_connections(device);
    is_suited.then(|| format!("port {} of device {device} is active, by {library}", port.number))
}

const COLUMNS: [&str; 7] = ["device", "port", "state", "MTU", "link", "atomic with", "address"];

fn row(device: &Device, port: &oxmpi_verbs::DevicePort) -> Vec<String> {
    let gid = port.gid.map_or(String::new(), |(_, gid)| std::net::Ipv6Addr::from(gid).to_string());
    vec![
        device.name.clone(),
        port.number.to_string(),
        port.state_name().into(),
        format!("{} of {}", port.mtu, port.max_mtu),
        if port.is_ethernet { "Ethernet".into() } else { format!("InfiniBand, LID {}", port.lid) },
        device.atomics.partners().into(),
        gid,
    ]
}

/// The memory of the envelopes (the product in the components guide), and the other parameters.
fn use_of(params: &Params, settings: &IbSettings) -> String {
    let (envelopes, len) = (settings.envelopes as usize, settings.envelope_len());
    let queue = match settings.shared {
        Some(most) => format!(
            "in a shared receive queue of at most {} bytes in a job of up to {} processes",
            most as usize * len,
            most / 2
        ),
        None => "in a receive queue of its own".into(),
    };
    let by_itself = match params.number(&PRIORITY) {
        0 => "it is never chosen by itself (rpi_ib_priority 0)".into(),
        priority => {
            format!("jobs on several hosts choose it by themselves (rpi_ib_priority {priority})")
        }
    };
    let windows = if params.is_on(&RMA) { "by the adapter" } else { "by messages (rpi_ib_rma 0)" };
    let near = if params.is_on(&SHM) { "shared memory" } else { "the adapter as well" };
    format!(
        "envelopes: {envelopes} x {len} bytes = {} bytes for each process with which there is contact, {queue}; a peer that does not answer \
         has failed after about {} s; within a node messages go through {near}; MPI_Put and MPI_Get go {windows}; {by_itself}",
        envelopes * len,
        params.count(&TIMEOUT)
    )
}

fn survey(params: &Params) -> Result<Survey, String> {
    let uses = use_of(params, &settings(params, 1));
    let (library, devices) = match found(params) {
        Ok(found) => found,
        Err(why) => {
            return Ok(Survey {
                title: uses,
                choice: Err(why),
                columns: &COLUMNS,
                rows: Vec::new(),
            });
        }
    };
    let choice = ports::choose(&devices, &request(params))
        .map(|(device, port)| format!("port {} of device {device}", port.number));
    let rows = devices
        .iter()
        .flat_map(|device| device.ports.iter().map(|port| row(device, port)))
        .collect();
    Ok(Survey { title: format!("{library}; {uses}"), choice, columns: &COLUMNS, rows })
}

fn open(of: &Situation<'_>, services: &Arc<dyn Services>) -> Result<Option<Offer>, String> {
    let Some(poller) = services.poller() else { return Ok(None) };
    let request = request(of.params);
    let found = found(of.params);
    let chosen = found.as_ref().map_err(Clone::clone).and_then(|(library, devices)| {
        let (device, port) = ports::choose(devices, &request)?;
        Ok((library, device, port))
    });
    let memory = if of.params.is_on(&SHM) { Reach::Node } else { Reach::Nobody };
    let (library, device, port) = match chosen {
        Ok(chosen) => chosen,
        Err(why) if falls_back(of.params) => {
            // One process of each host reports this.
            if of.members(&**services)?.first() == Some(&of.rank) {
                let host = oxmpi_sys::host::name();
                services
                    .say(&format!("ib: host {host} has no port, so its ranks use sockets: {why}"));
            }
            let transport = WithoutPort::new(introductions::carrier(of, services)?);
            return Ok(Some(Offer::new(transport, Reach::Everybody, memory)));
        }
        Err(why) => {
            return Err(format!(
                "host {} has no port for 'ib': {why}; bring one up there, leave that host out, or let its ranks use sockets by \
                 rpi_ib_fallback 1",
                oxmpi_sys::host::name()
            ));
        }
    };
    let settings = settings(of.params, of.job.len() as u32);
    let adapter = AdapterSettings {
        device: device.to_string(),
        port: port.number,
        mtu: request.mtu,
        slot_len: settings.envelope_len(),
        slots: settings.envelopes as usize,
        shared: settings.shared,
        send_depth: settings.send_depth(),
        receive_depth: settings.envelopes,
        ack_timeout: ack_timeout(of.params.count(&TIMEOUT) as u32),
    };
    let adapter = Adapter::open(library, adapter).map_err(|error| error.to_string())?;
    let settings = IbSettings { shared: adapter.shared(), ..settings };
    let sockets = introductions::carrier(of, services)?;
    let (tell, nodes) = (teller(services), of.nodes(services));
    let ib = Ib::new(of.rank, adapter, sockets, settings, (Some(&poller), tell), Some(nodes));
    let ib = ib
        .map_err(|error| format!("the descriptor of device {device} cannot be watched: {error}"))?;
    Ok(Some(Offer::new(ib, Reach::Everybody, memory)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shared_queue_has_an_envelope_for_each_process_of_a_job() {
        for (envelopes, processes, len) in
            [(64, 2, 4096), (64, 2048, 4096), (64, 10_000, 20_000), (4096, 2, 8192)]
        {
            assert_eq!(shared_len(envelopes, processes), len);
        }
        assert_eq!(shared_len(1, u32::MAX), u32::MAX);
    }

    #[test]
    fn a_survey_without_the_library_has_the_reason_and_the_memory_of_envelopes() {
        let file = "/nonexistent/libibverbs.so.1";
        let params = Params::default().with("rpi_ib_library", file).unwrap();
        let Survey { title, choice, rows, .. } = survey(&params).unwrap();
        assert!(title.contains("64 x 1084 bytes = 69376 bytes"), "{title}");
        assert!(
            choice.is_err_and(|why| why.contains(file) && why.contains("install it"))
                && rows.is_empty()
        );
    }

    #[test]
    fn all_attempts_together_take_about_the_time_limit() {
        for seconds in [1, 2, 10, 60, 600] {
            let all = (4.096e-6 * f64::from(1u32 << ack_timeout(seconds))) * ATTEMPTS as f64;
            let is_near = all > f64::from(seconds) / 2.01 && all <= f64::from(seconds);
            assert!(is_near, "{seconds} s: {all} s");
        }
    }
}
