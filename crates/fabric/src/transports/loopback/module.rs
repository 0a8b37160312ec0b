use super::{Loopback, PacketQueues};
use crate::constructor::{Constructor, Offer, Services, Situation};
use crate::routes::Reach;
use linkme::distributed_slice;
use oxmpi_param::module::{MODULES, Module};
use std::sync::Arc;

#[distributed_slice(MODULES)]
static LOOPBACK: Module = Module {
    name: "loopback",
    place: 900,
    help: "'loopback' is queues within one process, for a job of one.",
    unavailable: |job| job.ranks.is_some_and(|ranks| ranks > 1).then(|| SEVERAL.to_string()),
    constructor: &Constructor::new(open),
    ..Module::NEW
};

const SEVERAL: &str = "it is between ranks that are threads of one program, and the ranks of this job are programs of their own: \
                       leave 'rpi' out";

fn open(of: &Situation<'_>, _services: &Arc<dyn Services>) -> Result<Option<Offer>, String> {
    if of.job.len() != 1 {
        return Err(SEVERAL.into());
    }
    let queues = Arc::new(PacketQueues::new(of.job.clone()));
    Ok(Some(Offer::new(Loopback::new(of.rank, queues), Reach::Launcher, Reach::Everybody)))
}
