use super::{Portals, PortalsSettings};
use crate::constructor::{Constructor, Decided, Offer, Services, Situation, Survey, teller};
use crate::introductions;
use crate::routes::Reach;
use linkme::distributed_slice;
use oxmpi_param::module::{Btl, BtlRule, MODULES, Module, Supplies};
use oxmpi_param::{Level, Param, Params, Unit};
use oxmpi_portals::PortalsLibrary;
use std::sync::Arc;

#[distributed_slice(MODULES)]
static PORTALS4: Module = Module {
    name: "portals4",
    place: 760,
    help: "'portals4' is Portals 4, with shared memory within a node ('--mca mtl portals4').",
    params: &[&LIBRARY, &EAGER, &BLOCKS, &BLOCK_LEN, &RECEIVE_EVENTS, &SEND_EVENTS, &SHM],
    mtl: &["portals4"],
    btl: Btl { names: &["portals4"], left: BtlRule::ListedOrRequested },
    // An image contains neither the state of the network nor of an interface.
    images: false,
    needs: Supplies::Listeners,
    is_unencrypted: true,
    unavailable: |job| job.no_sockets.clone(),
    constructor: &Constructor { decide, survey: Some(survey), ..Constructor::new(open) },
    ..Module::NEW
};

static LIBRARY: Param = Param {
    name: "mtl_portals4_library",
    unit: Unit::Text { default: "libportals.so.4" },
    help: "The file of the library of Portals 4, which is opened when a job goes over it: a name that the loader finds, or a path.",
    ..Param::NEW
};

static EAGER: Param = Param {
    name: "mtl_portals4_eager_limit",
    unit: Unit::Bytes,
    default: 2048,
    max: 1 << 20,
    help: "The longest message that goes over Portals 4 before its receive is known to be posted. A longer one is announced, and its \
           receiver gets it.",
    ..Param::NEW
};

static BLOCKS: Param = Param {
    name: "mtl_portals4_short_recv_num",
    unit: Unit::Count,
    default: 4,
    min: 1,
    max: 4096,
    level: Level::Tune,
    help: "Blocks of memory in which Portals 4 keeps messages that have no receive yet. A full one is replaced by another one.",
    ..Param::NEW
};

static BLOCK_LEN: Param = Param {
    name: "mtl_portals4_short_recv_size",
    unit: Unit::Bytes,
    default: 256 << 10,
    min: 4096,
    max: 1 << 30,
    level: Level::Tune,
    help: "Bytes of each block for messages that have no receive yet; at least twice the longest one (mtl_portals4_eager_limit).",
    ..Param::NEW
};

static RECEIVE_EVENTS: Param = Param {
    name: "mtl_portals4_recv_event_queue_size",
    unit: Unit::Count,
    default: 1024,
    min: 64,
    max: 1 << 20,
    level: Level::Tune,
    help: "Events of received messages that Portals 4 stores until they are read. Without room all peers pause.",
    ..Param::NEW
};

static SEND_EVENTS: Param = Param {
    name: "mtl_portals4_send_event_queue_size",
    unit: Unit::Count,
    default: 1024,
    min: 64,
    max: 1 << 20,
    level: Level::Tune,
    help: "Messages and parts of messages that may be under way from or to a process over Portals 4; more wait.",
    ..Param::NEW
};

static SHM: Param = Param::switch(
    "mtl_portals4_shm",
    true,
    "Whether messages within a node go through shared memory (1), or through Portals 4 as well (0).",
);

fn settings(params: &Params) -> PortalsSettings {
    let eager = params.count(&EAGER);
    PortalsSettings {
        eager,
        blocks: params.count(&BLOCKS),
        block_len: params.count(&BLOCK_LEN).max(2 * eager),
        send_events: params.count(&SEND_EVENTS),
        receive_events: params.count(&RECEIVE_EVENTS),
    }
}

fn library(params: &Params) -> Result<Arc<PortalsLibrary>, String> {
    PortalsLibrary::open(params.text(&LIBRARY)).map_err(|error| error.to_string())
}

fn decide(params: &Params, is_one_host: bool) -> Result<Decided, String> {
    // Other hosts may have the library although this host has not.
    if is_one_host {
        library(params)?;
    }
    Ok(Decided::default())
}

fn survey(params: &Params) -> Result<Survey, String> {
    let library = library(params)?;
    let PortalsSettings { eager, blocks, block_len, .. } = settings(params);
    let limits = library.limits().map_err(|error| error.to_string());
    let row = |name: &str, number: u64| vec![name.to_string(), number.to_string()];
    let rows = limits.as_ref().map(|limits| {
        vec![
            row("longest message, bytes", limits.message),
            row("match list entries", limits.entries),
            row("unexpected messages", limits.unexpected),
        ]
    });
    let rows = rows.unwrap_or_default();
    let choice = limits.map(|_| {
        format!("the default interface; messages of up to {eager} bytes are put whole, {blocks} blocks of {block_len} bytes keep those that have no receive")
    });
    Ok(Survey { title: library.to_string(), choice, columns: &["limit", "value"], rows })
}

fn open(of: &Situation<'_>, services: &Arc<dyn Services>) -> Result<Option<Offer>, String> {
    if services.poller().is_none() {
        return Ok(None);
    }
    let library = library(of.params)?;
    let sockets = introductions::carrier(of, services)?;
    let (tell, nodes) = (teller(services), of.nodes(services));
    let portals = Portals::new(of.rank, &library, sockets, settings(of.params), tell, Some(nodes));
    let portals = portals.map_err(|error| error.to_string())?;
    let memory = if of.params.is_on(&SHM) { Reach::Node } else { Reach::Nobody };
    Ok(Some(Offer::new(portals, Reach::Everybody, memory)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_has_room_for_two_messages_at_least() {
        let with = |name, value| settings(&Params::default().with(name, value).unwrap());
        let usual = with("mtl_portals4_eager_limit", "2048");
        assert_eq!((usual.eager, usual.block_len), (2048, 256 << 10));
        assert_eq!(with("mtl_portals4_eager_limit", "1048576").block_len, 2 << 20);
    }

    #[test]
    fn a_survey_without_the_library_says_so() {
        let params =
            Params::default().with("mtl_portals4_library", "/nonexistent/libportals.so.4").unwrap();
        let why = survey(&params).unwrap_err();
        assert!(
            why.contains("/nonexistent/libportals.so.4") && why.contains("mtl_portals4_library"),
            "{why}"
        );
    }
}
