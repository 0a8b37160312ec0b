use super::{Find, Identity, Secret, SecretOf, Tcp, TcpSettings};
use crate::constructor::{Constructor, Listening, Offer, Services, Situation, teller};
use crate::routes::Reach;
use linkme::distributed_slice;
use oxmpi_param::module::{BetweenNodes, Btl, BtlRule, MODULES, Module, SocketParams, Supplies};
use oxmpi_param::{ChangeRule, Param, Unit};
use oxmpi_sys::net::Listener;
use std::sync::Arc;

#[distributed_slice(MODULES)]
static TCP: Module = Module {
    name: "tcp",
    place: 200,
    help: "'tcp' is sockets.",
    params: &[&SHORT, &BUFFERS, &PRIORITY],
    priority: Some(&PRIORITY),
    btl: Btl { names: &["tcp"], left: BtlRule::Always },
    needs: Supplies::Listeners,
    between: BetweenNodes::Carries,
    sockets: Some(SocketParams { short: &SHORT, buffers: &BUFFERS }),
    unavailable: |job| job.no_sockets.clone(),
    constructor: &Constructor::new(open),
    ..Module::NEW
};

static SHORT: Param = Param {
    help: "The longest message that is sent over a socket before its receive is known to be posted. Longer ones \
           wait for the receiver (rendezvous). An odd number counts as the next even one, so the default lets 64 KiB \
           pass.",
    ..short("rpi_tcp_short")
};

static BUFFERS: Param = Param {
    help: "The size in bytes of the buffers that is requested from the kernel for each socket and direction; -1: the bytes of \
           rpi_tcp_short, and at least 1 MiB. Below 32 KiB mpirun prints a warning, and 32 KiB are requested.",
    ..buffers("rpi_tcp_sockbuf")
};

static PRIORITY: Param = Param::priority(
    "rpi_tcp_priority",
    20,
    "The priority of sockets when 'rpi' names no transport: the one with the highest priority \
     that can run is used.",
);

#[distributed_slice(MODULES)]
static CRTCP: Module = Module {
    name: "crtcp",
    place: 500,
    help: "'crtcp' is sockets whose connections can be given up and made again ('oxmpi quiesce').",
    params: &[&CR_SHORT, &CR_BUFFERS, &CR_PRIORITY],
    priority: Some(&CR_PRIORITY),
    btl: Btl { names: &["tcp"], left: BtlRule::Requested },
    checkpoints: true,
    needs: Supplies::Listeners,
    // A checkpoint has no image of shared memory.
    sections: false,
    sockets: Some(SocketParams { short: &CR_SHORT, buffers: &CR_BUFFERS }),
    unavailable: |job| job.no_sockets.clone(),
    constructor: &Constructor::new(open),
    ..Module::NEW
};

static CR_SHORT: Param = Param {
    help: "With rpi crtcp, what rpi_tcp_short is with rpi tcp: the longest message that is sent before its receive is known \
           to be posted. An odd number counts as the next even one.",
    ..short("rpi_crtcp_short")
};

static CR_BUFFERS: Param = Param {
    help: "With rpi crtcp, as rpi_tcp_sockbuf with rpi tcp: the size in bytes of the buffers that is requested from the kernel \
           for each socket and direction; -1: the bytes of rpi_crtcp_short, and at least 1 MiB.",
    ..buffers("rpi_crtcp_sockbuf")
};

static CR_PRIORITY: Param = Param::priority(
    "rpi_crtcp_priority",
    25,
    "The priority of rpi crtcp when 'rpi' names no transport: the one with the highest priority \
     that can run is used.",
);

const fn short(name: &'static str) -> Param {
    Param {
        name,
        unit: Unit::Bytes,
        default: 65535,
        max: 1 << 30,
        change: ChangeRule::Always,
        ..Param::NEW
    }
}

const fn buffers(name: &'static str) -> Param {
    Param { name, unit: Unit::Bytes, default: -1, min: -1, max: 1 << 30, ..Param::NEW }
}

fn open(of: &Situation<'_>, services: &Arc<dyn Services>) -> Result<Option<Offer>, String> {
    let Some(poller) = services.poller() else { return Ok(None) };
    let Listening { socket, incarnation, secret } = services.listener()?;
    let listener = Listener::from_fd(socket).map_err(|error| error.to_string())?;
    let own = Identity { job: of.job_id, rank: of.rank, size: of.job.len() as u32, incarnation };
    let (finder, guard) = (services.clone(), services.clone());
    let find: Find = Box::new(move |peer| finder.locate(peer));
    let secret_of: SecretOf = Box::new(move |job| guard.secret_for(job).map(Secret));
    let settings = TcpSettings::of(of.params);
    let tcp = Tcp::new(own, Secret(secret), settings, (listener, poller), find, teller(services));
    let tcp = tcp.map_err(|error| error.to_string())?.with_secrets(secret_of).for_one_thread();
    let memory = match of.node {
        Some(_) if of.is_between => Reach::Node,
        _ => Reach::Nobody,
    };
    Ok(Some(Offer::new(tcp, Reach::Everybody, memory)))
}
