//! The sizes of segments (`shm_ring_slots` and others) are no parameters of this module: every
//! process has a segment, whatever path its messages take.

use crate::constructor::Constructor;
use linkme::distributed_slice;
use oxmpi_param::Param;
use oxmpi_param::module::{BetweenNodes, Btl, BtlRule, MODULES, Module};

#[distributed_slice(MODULES)]
static SHM: Module = Module {
    name: "shm",
    place: 100,
    help: "'shm' is shared memory within a host.",
    params: &[&PRIORITY],
    priority: Some(&PRIORITY),
    btl: Btl { names: &["sm", "vader", "shm"], left: BtlRule::Always },
    between: BetweenNodes::Another,
    // Every process has shared memory without a constructor.
    constructor: &Constructor::new(|_, _| Ok(None)),
    ..Module::NEW
};

static PRIORITY: Param = Param::priority(
    "rpi_shm_priority",
    60,
    "The priority of shared memory when 'rpi' names no transport: the one with the highest \
     priority that can run is used.",
);
