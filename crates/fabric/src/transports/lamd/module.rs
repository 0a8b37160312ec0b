use super::Lamd;
use crate::constructor::{Constructor, Offer, Services, Situation, teller};
use crate::routes::Reach;
use linkme::distributed_slice;
use oxmpi_param::Param;
use oxmpi_param::module::{BetweenNodes, MODULES, Module, Supplies};
use std::sync::Arc;

#[distributed_slice(MODULES)]
static LAMD: Module = Module {
    name: "lamd",
    place: 600,
    help: "'lamd' goes through a daemon on each node, so that messages arrive while programs compute.",
    params: &[&PRIORITY],
    priority: Some(&PRIORITY),
    needs: Supplies::Daemons,
    between: BetweenNodes::Another,
    sections: false,
    unavailable: |job| job.no_daemons.clone(),
    constructor: &Constructor::new(open),
    ..Module::NEW
};

static PRIORITY: Param = Param::priority(
    "rpi_lamd_priority",
    10,
    "The priority of messages through the daemons when 'rpi' names no transport: the one with the \
     highest priority that can run is used.",
);

fn open(of: &Situation<'_>, services: &Arc<dyn Services>) -> Result<Option<Offer>, String> {
    let Some(poller) = services.poller() else { return Ok(None) };
    let lamd = Lamd::new(of.rank, services.relay()?, poller, teller(services))
        .map_err(|error| error.to_string())?;
    Ok(Some(Offer::new(lamd, Reach::Launcher, Reach::Nobody)))
}
