//! The modules `usysv` and `sysv`: postboxes. A waiting rank polls over usysv, and sleeps over
//! sysv.

use super::{PostboxSettings, Postboxes};
use crate::constructor::{Constructor, Offer, Services, Situation};
use crate::routes::Reach;
use linkme::distributed_slice;
use oxmpi_param::module::{BetweenNodes, Btl, BtlRule, MODULES, Module, PostboxParams, Supplies};
use oxmpi_param::{Param, Params, Unit};
use oxmpi_shm::door::{Policy, PollLimits};
use oxmpi_sys::pause::Pause;
use oxmpi_sys::semaphore::OwnSemaphores;
use std::sync::Arc;

const BTL: Btl = Btl { names: &["sm", "vader", "shm"], left: BtlRule::AllBut };

#[distributed_slice(MODULES)]
static USYSV: Module = Module {
    name: "usysv",
    place: 300,
    help: "'usysv' is shared memory by the guide's postboxes and pool, where waiting ranks spin.",
    params: &[
        &USYSV_SHORT,
        &USYSV_YIELD,
        &USYSV_READ_POLLS,
        &USYSV_WRITE_POLLS,
        &USYSV_POOL,
        &USYSV_PIECE,
        &USYSV_PRIORITY,
    ],
    priority: Some(&USYSV_PRIORITY),
    btl: BTL,
    needs: Supplies::Postboxes(USYSV_SIZES),
    between: BetweenNodes::Another,
    constructor: &USYSV_CONSTRUCTOR,
    ..Module::NEW
};

const USYSV_SIZES: PostboxParams =
    PostboxParams { short: &USYSV_SHORT, pool: &USYSV_POOL, piece: &USYSV_PIECE, semaphores: None };

static USYSV_SHORT: Param = Param {
    help: "Bytes of data in a postbox of usysv. A message of at most twice this length is sent before its receive is known to be \
           posted; of a longer one this number of bytes goes with its announcement.",
    ..short("rpi_usysv_short")
};

static USYSV_YIELD: Param = Param::switch(
    "rpi_usysv_pollyield",
    true,
    "How a rank over usysv that has spun long enough gives its core to others: by a yield (1), or by a select() of 10 \
     microseconds (0).",
);

static USYSV_READ_POLLS: Param = Param {
    help: "How many postboxes a rank over usysv that waits for a message polls, one after another \
           and repeatedly, before it yields its core to others. After wait_yields yields it \
           sleeps. With more ranks than cores it polls 10 times, unless this parameter is set.",
    ..polls("rpi_usysv_readlockpoll", 10_000)
};

static USYSV_WRITE_POLLS: Param = Param {
    help: "How often a rank over usysv polls a full postbox, or the lock of the pool, before it \
           yields its core to others.",
    ..polls("rpi_usysv_writelockpoll", 10)
};

static USYSV_POOL: Param = Param {
    help: "Bytes of the pool of usysv, through which long messages go; the ranks of a node share it. 0: none; -1: 1 MiB \
           for each of them, at most 64 MiB.",
    ..pool("rpi_usysv_shmpoolsize")
};

static USYSV_PIECE: Param = Param {
    help: "The most bytes that one piece of a long message over usysv takes of the pool, at least 1. -1 (or 0): a quarter \
           of each rank's share of the pool, at most 256 KiB.",
    ..piece("rpi_usysv_shmmaxalloc")
};

static USYSV_PRIORITY: Param = Param::priority(
    "rpi_usysv_priority",
    40,
    "The priority of usysv when 'rpi' names no transport: the one with the highest priority that \
     can run is used.",
);

#[distributed_slice(MODULES)]
static SYSV: Module = Module {
    name: "sysv",
    place: 400,
    help: "'sysv' is the same, where waiting ranks sleep, which is better with more ranks than \
           cores.",
    params: &[&SYSV_SHORT, &SYSV_YIELD, &SYSV_SEMAPHORES, &SYSV_POOL, &SYSV_PIECE, &SYSV_PRIORITY],
    priority: Some(&SYSV_PRIORITY),
    btl: BTL,
    needs: Supplies::Postboxes(SYSV_SIZES),
    between: BetweenNodes::Another,
    constructor: &SYSV_CONSTRUCTOR,
    ..Module::NEW
};

const SYSV_SIZES: PostboxParams = PostboxParams {
    short: &SYSV_SHORT,
    pool: &SYSV_POOL,
    piece: &SYSV_PIECE,
    semaphores: Some(&SYSV_SEMAPHORES),
};

static SYSV_SHORT: Param = Param {
    help: "Bytes of data in a postbox of sysv. A message of at most twice this length is sent before its receive is known to be \
           posted; of a longer one this number of bytes goes with its announcement.",
    ..short("rpi_sysv_short")
};

static SYSV_YIELD: Param = Param::switch(
    "rpi_sysv_pollyield",
    true,
    "How a rank over sysv that finds no message gives its core to others once, before it sleeps until one comes: by a \
     yield (1), or by a select() of 10 microseconds (0).",
);

static SYSV_SEMAPHORES: Param = Param::switch(
    "rpi_sysv_semaphores",
    false,
    "What ranks over sysv sleep on, and lock the pool with: memory (futexes, 0), or System V semaphores (1), of which \
     there is a set of six for each pair of ranks then ('ipcs -s' shows them) and one for the pool. For at most 256 \
     ranks, all on one node: who has sockets to other nodes sleeps on those.",
);

static SYSV_POOL: Param = Param {
    help: "Bytes of the pool of sysv, through which long messages go; the ranks of a node share it. 0: none; -1: 1 MiB \
           for each of them, at most 64 MiB.",
    ..pool("rpi_sysv_shmpoolsize")
};

static SYSV_PIECE: Param = Param {
    help: "The most bytes that one piece of a long message over sysv takes of the pool, at least 1. -1 (or 0): a quarter \
           of each rank's share of the pool, at most 256 KiB.",
    ..piece("rpi_sysv_shmmaxalloc")
};

static SYSV_PRIORITY: Param = Param::priority(
    "rpi_sysv_priority",
    30,
    "The priority of sysv when 'rpi' names no transport: the one with the highest priority that \
     can run is used.",
);

const fn short(name: &'static str) -> Param {
    Param { name, unit: Unit::Bytes, default: 8192, min: 64, max: 1 << 30, ..Param::NEW }
}

const fn polls(name: &'static str, default: i64) -> Param {
    Param { name, default, max: 1_000_000_000, ..Param::NEW }
}

const fn pool(name: &'static str) -> Param {
    Param { name, unit: Unit::Bytes, default: -1, min: -1, max: (1 << 31) - 1, ..Param::NEW }
}

const fn piece(name: &'static str) -> Param {
    Param { name, unit: Unit::Bytes, default: -1, min: -1, max: 1 << 30, ..Param::NEW }
}

static USYSV_CONSTRUCTOR: Constructor = Constructor {
    wait: |params, policy, local_size| {
        let spinning = spinning(params, policy.oversubscribed, local_size);
        let poll_limits = Some(PollLimits { spinning, yields: params.wait_yields() });
        Policy { poll_limits, pause: pause(params, &USYSV_YIELD), ..policy }
    },
    ..Constructor::new(|of, services| {
        let write_polls = of.params.count(&USYSV_WRITE_POLLS) as u32; // the limits of the row let it fit
        let has = PostboxVariant {
            sizes: USYSV_SIZES,
            write_polls,
            pause: pause(of.params, &USYSV_YIELD),
            sleeps: false,
        };
        open(of, services, has)
    })
};

static SYSV_CONSTRUCTOR: Constructor = Constructor {
    wait: |params, policy, _| Policy {
        poll_limits: Some(PollLimits { spinning: 0, yields: 1 }),
        pause: pause(params, &SYSV_YIELD),
        ..policy
    },
    ..Constructor::new(|of, services| {
        let has = PostboxVariant {
            sizes: SYSV_SIZES,
            write_polls: 0,
            pause: pause(of.params, &SYSV_YIELD),
            sleeps: true,
        };
        open(of, services, has)
    })
};

struct PostboxVariant {
    sizes: PostboxParams,
    write_polls: u32,
    pause: Pause,
    sleeps: bool,
}

fn open(
    of: &Situation<'_>,
    services: &Arc<dyn Services>,
    has: PostboxVariant,
) -> Result<Option<Offer>, String> {
    if of.local_size <= 1 {
        return Ok(None);
    }
    let members = of.members(&**services)?;
    let (area, sets) = services.postboxes()?;
    let semaphores = match &sets[..] {
        [] => None,
        sets => Some(OwnSemaphores::new(of.rank, members.clone(), sets)?),
    };
    let settings = PostboxSettings {
        max_alloc: has.sizes.of(of.params, of.local_size).piece as usize,
        write_polls: has.write_polls,
        pause: has.pause,
        sleeps: has.sleeps,
        lock: semaphores.as_ref().map(OwnSemaphores::pool_lock),
        survives: of.params.mpi_ft_enable(),
    };
    let transport = Postboxes::new(of.rank, members, (area, services.peer_segments()), settings)?;
    Ok(Some(Offer { semaphores, ..Offer::new(transport, Reach::Launcher, Reach::Everybody) }))
}

fn pause(params: &Params, yields: &Param) -> Pause {
    if params.is_on(yields) { Pause::Yield } else { Pause::Select }
}

/// The number of polls of a rank over usysv before it yields; each poll is of the postboxes of all
/// peers. With more ranks than processors, a spinning rank keeps the rank that it waits for from
/// running. So it does not spin then, unless the user wants that.
fn spinning(params: &Params, oversubscribed: bool, local_size: u32) -> u32 {
    if oversubscribed && params.is_default(&USYSV_READ_POLLS) {
        return OVERSUBSCRIBED_POLLS;
    }
    // The limits of the parameter let it fit.
    (params.count(&USYSV_READ_POLLS) as u32).div_ceil(local_size.saturating_sub(1).max(1))
}

/// The default with more ranks than processors.
const OVERSUBSCRIBED_POLLS: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rank_over_usysv_spins_only_if_it_has_a_processor_or_shall() {
        let spinning = |params: &Params, oversubscribed| {
            let policy = (USYSV_CONSTRUCTOR.wait)(params, Policy::new(oversubscribed), 5);
            policy.poll_limits.map(|limits| limits.spinning)
        };
        let usysv = Params::default().with("rpi", "usysv").unwrap();
        assert_eq!(spinning(&usysv, false), Some(2500));
        assert_eq!(spinning(&usysv, true), Some(OVERSUBSCRIBED_POLLS));
        let set = usysv.with("rpi_usysv_readlockpoll", "10000").unwrap();
        assert_eq!(spinning(&set, true), Some(2500));
    }
}
