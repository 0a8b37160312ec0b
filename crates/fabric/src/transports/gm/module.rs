use super::{Gm, GmSettings, ReopenedPort};
use crate::constructor::{Constructor, Offer, Services, Situation, Survey, teller};
use crate::introductions;
use crate::routes::Reach;
use linkme::distributed_slice;
use oxmpi_gm::{GmLibrary, LIBRARY as FILE, OpenPort};
use oxmpi_param::module::{MODULES, Module, Supplies};
use oxmpi_param::{Level, Param, Params, Unit};
use std::path::Path;
use std::sync::Arc;

#[distributed_slice(MODULES)]
static GM: Module = Module {
    name: "gm",
    place: 760,
    help: "'gm' is Myrinet through GM 2, with shared memory within a node.",
    params: &[&CR, &FAST, &MAXPORT, &NOPIN, &PORT, &PRIORITY, &TINY, &LIBRARY],
    priority: Some(&PRIORITY),
    checkpoints: true,
    checkpoint_switch: Some(&CR),
    rests_for_images: true,
    images: false,
    needs: Supplies::Listeners,
    is_unencrypted: true,
    unavailable: |job| job.no_sockets.clone(),
    not_found,
    constructor: &Constructor { survey: Some(survey), ..Constructor::new(open) },
    ..Module::NEW
};

static CR: Param = Param::switch(
    "rpi_gm_cr",
    false,
    "Whether jobs over 'gm' support checkpoints (1): an image of each rank, with 'cr blcr'. Then receivers get long messages (gm_get) whose \
     senders put them otherwise (gm_put), and ranks of one host share no memory. With 0 'gm' is refused if 'cr' selects checkpoints.",
);

static FAST: Param = Param::switch(
    "rpi_gm_fast",
    false,
    "Whether messages over 'gm' are sent without the receiver's buffers being counted (1). That needs fewer buffers, and no returned credits. \
     A message that its receiver does not take within GM's time limit (30 s) is sent again.",
);

static MAXPORT: Param = Param {
    name: "rpi_gm_maxport",
    default: 32,
    min: 2,
    max: 255,
    help: "The highest port of the Myrinet interface that a process over 'gm' tries, from 2 on, when it starts.",
    ..Param::NEW
};

static NOPIN: Param = Param::switch(
    "rpi_gm_nopin",
    false,
    "Whether long messages over 'gm' are copied through auxiliary buffers (1), but for those in memory of MPI_Alloc_mem. With 0 the \
     program's memory is registered with GM for each long message, and its interface moves the data from and to there.",
);

static PORT: Param = Param {
    name: "rpi_gm_port",
    default: -1,
    min: -1,
    max: 255,
    help: "The port of the Myrinet interface that a process over 'gm' uses, and no other; -1: the first free one up to rpi_gm_maxport. \
           Of the processes on a host only one can have it, those that are spawned included.",
    ..Param::NEW
};

static PRIORITY: Param = Param::priority(
    "rpi_gm_priority",
    50,
    "The priority of 'gm' when 'rpi' names no transport: the one with the highest priority that \
     can run is used; shared memory has 60. It can run where \
     there is a Myrinet interface, or where rpi_gm_library names a library.",
);

static TINY: Param = Param {
    name: "rpi_gm_tinymsglen",
    unit: Unit::Bytes,
    default: 1024,
    min: 64,
    max: 1 << 16,
    help: "The longest message that 'gm' sends before its receive is known to be posted. Longer ones wait for the receiver (rendezvous).",
    ..Param::NEW
};

static LIBRARY: Param = Param {
    name: "rpi_gm_library",
    unit: Unit::Text { default: FILE },
    help: "The file of GM, which is opened when a job goes over 'gm': a name that the loader finds, or a path.",
    level: Level::Tune,
    ..Param::NEW
};

const DEVICES: [&str; 2] = ["/dev/gm0", "/dev/gmp0"];

const UNIT: u32 = 0;
/// One is for messages, the other for returned buffers and drops.
const FEWEST_TOKENS: u32 = 2;

/// Without a device no library is opened, unless the user has named one.
fn not_found(params: &Params) -> Option<String> {
    if let Some(cr) = params.cr().filter(|_| !params.is_on(&CR)) {
        return Some(format!(
            "cr {cr} is selected, and rpi_gm_cr is 0: set it to 1 ('--mca rpi_gm_cr 1'), or use '--mca rpi crtcp'"
        ));
    }
    let name = params.text(&LIBRARY);
    if name == FILE && !DEVICES.iter().any(|device| Path::new(device).exists()) {
        let [device, other] = DEVICES;
        return Some(format!(
            "there is no Myrinet interface (neither {device} nor {other}), so {FILE} is not opened: load the driver of GM 2, or name a \
             library by the parameter rpi_gm_library"
        ));
    }
    GmLibrary::open(name).err().map(|error| error.to_string())
}

fn settings(params: &Params) -> GmSettings {
    GmSettings {
        tiny: params.count(&TINY),
        is_fast: params.is_on(&FAST),
        pins: !params.is_on(&NOPIN),
        gets: params.is_on(&CR),
    }
}

fn candidates(params: &Params) -> std::ops::RangeInclusive<u32> {
    match u32::try_from(params.number(&PORT)) {
        Ok(port) => port..=port,
        Err(_) => 2..=params.count(&MAXPORT) as u32,
    }
}

fn open_port(params: &Params) -> Result<OpenPort, String> {
    let library = GmLibrary::open(params.text(&LIBRARY)).map_err(|error| error.to_string())?;
    let tried = candidates(params);
    let host = oxmpi_sys::host::name();
    let port = OpenPort::open(&library, UNIT, tried.clone(), settings(params).message_len());
    let port = port.map_err(|error| {
        let (tried, remedy) = match (tried.start(), tried.end()) {
            (one, other) if one == other => (
                format!("port {one} (rpi_gm_port)"),
                "a port is for one process of a host: leave rpi_gm_port out",
            ),
            (first, last) => (
                format!("ports {first} to {last}"),
                "start fewer processes on a host, or set rpi_gm_maxport if the interface has more ports",
            ),
        };
        format!("host {host}: there is no port of GM for this process, tried {tried}: {error}: {remedy}")
    })?;
    if port.send_tokens() < FEWEST_TOKENS || port.receive_tokens() == 0 {
        let (sends, receives) = (port.send_tokens(), port.receive_tokens());
        return Err(format!(
            "host {host}: port {} of GM has {sends} send and {receives} receive tokens, and at least {FEWEST_TOKENS} and 1 are needed",
            port.number()
        ));
    }
    Ok(port)
}

fn survey(params: &Params) -> Result<Survey, String> {
    let name = params.text(&LIBRARY);
    let GmSettings { tiny, is_fast, .. } = settings(params);
    let counted = if is_fast { "are not counted" } else { "are counted" };
    let title = match GmLibrary::open(name) {
        Ok(library) => library.to_string(),
        Err(_) => format!("GM ('{name}') is not here"),
    };
    let title = format!(
        "{title}; messages of up to {tiny} bytes leave at once, buffers of receivers {counted}"
    );
    let port = match not_found(params) {
        Some(why) => Err(why),
        None => open_port(params),
    };
    let row = |port: &OpenPort| {
        let (sends, receives) = (port.send_tokens(), port.receive_tokens());
        let numbers = [port.number(), port.node(), sends, receives, port.slot_len() as u32];
        numbers.iter().map(u32::to_string).collect()
    };
    let rows = port.iter().map(row).collect();
    let choice = port.map(|port| format!("port {} of node {}", port.number(), port.node()));
    Ok(Survey { title, choice, columns: &COLUMNS, rows })
}

const COLUMNS: [&str; 5] = ["port", "node", "send tokens", "receive tokens", "message length"];

fn open(of: &Situation<'_>, services: &Arc<dyn Services>) -> Result<Option<Offer>, String> {
    if services.poller().is_none() {
        return Ok(None);
    }
    let params = of.params.clone();
    let port = ReopenedPort::open(Box::new(move || open_port(&params)))?;
    let sockets = introductions::carrier(of, services)?;
    let (tell, nodes) = (teller(services), of.nodes(services));
    let gm = Gm::new(of.rank, port, sockets, settings(of.params), tell, Some(nodes));
    // An image of a process does not contain shared memory.
    let memory = if of.params.is_on(&CR) { Reach::Nobody } else { Reach::Node };
    Ok(Some(Offer::new(gm, Reach::Everybody, memory)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(name: &str, value: &str) -> Params {
        Params::default().with(name, value).unwrap()
    }

    #[test]
    fn ports_are_tried_from_2_on_or_one_alone() {
        assert_eq!(candidates(&Params::default()), 2..=32);
        assert_eq!(candidates(&with("rpi_gm_maxport", "8")), 2..=8);
        assert_eq!(candidates(&with("rpi_gm_port", "5")), 5..=5);
    }

    #[test]
    fn a_library_that_is_named_and_not_there_is_the_reason() {
        let why = not_found(&with("rpi_gm_library", "/nonexistent/libgm.so")).unwrap();
        for text in ["/nonexistent/libgm.so", "install", "rpi_gm_library"] {
            assert!(why.contains(text), "{why}");
        }
        let why = not_found(&with("rpi_gm_library", "libc.so.6")).unwrap();
        assert!(why.contains("no function gm_init"), "{why}");
    }

    #[test]
    fn checkpoints_are_refused_by_name() {
        assert!(!not_found(&with("rpi_gm_cr", "1")).unwrap().contains("rpi_gm_cr"));
        let why = not_found(&with("cr", "blcr")).unwrap();
        assert!(why.contains("rpi_gm_cr is 0") && why.contains("crtcp"), "{why}");
    }
}
