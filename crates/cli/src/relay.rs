//! `oxmpi relay`: the daemon of a node that passes on the messages of a job (rpi lamd). mpirun
//! starts it.

use oxmpi_fabric::relay::Relay;
use oxmpi_launcher::launch::RELAY_CONTROL;
use oxmpi_sys::spawn::{close_others, inherited_is_control, take_inherited};
use rustix::process::{Resource, getrlimit};

pub(crate) fn main() -> i32 {
    close_others(&[RELAY_CONTROL]);
    let control =
        inherited_is_control(RELAY_CONTROL).then(|| take_inherited(RELAY_CONTROL)).flatten();
    let Some(control) = control else {
        oxmpi_sys::complain!(
            "oxmpi relay: mpirun starts this, for '--mca rpi lamd'; it is of no use otherwise"
        );
        return 2;
    };
    // The other half of the descriptors is for sockets and short-lived files.
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
    let relay = match Relay::new(control, usize::try_from(limit / 2).unwrap_or(usize::MAX)) {
        Ok(relay) => relay,
        Err(error) => {
            oxmpi_sys::complain!("oxmpi relay: {error}");
            return 1;
        }
    };
    // The relay has sent its error to mpirun, which prints it.
    i32::from(relay.run().is_err())
}
