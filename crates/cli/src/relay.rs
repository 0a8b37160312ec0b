//! `oxmpi relay`: the daemon of a node through which the messages of a job go (rpi lamd). mpirun starts it.

use oxmpi_fabric::relay::Relay;
use oxmpi_rt::launch::RELAY_CONTROL;
use oxmpi_sys::spawn::{close_others, inherited_is_control, take_inherited};
use rustix::process::{Resource, getrlimit};

/// Runs until mpirun closes the control socket, and returns the exit code.
pub(crate) fn main() -> i32 {
    close_others(&[RELAY_CONTROL]);
    let control = inherited_is_control(RELAY_CONTROL).then(|| take_inherited(RELAY_CONTROL)).flatten();
    let Some(control) = control else {
        oxmpi_sys::complain!(
            "oxmpi relay: mpirun starts this, for '--mca rpi lamd'; it is of no use otherwise"
        );
        return 2;
    };
    // Half of the descriptors are left to sockets, and to files that only pass.
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(1 << 20);
    let relay = match Relay::new(control, usize::try_from(limit / 2).unwrap_or(usize::MAX)) {
        Ok(relay) => relay,
        Err(error) => {
            oxmpi_sys::complain!("oxmpi relay: {error}");
            return 1;
        }
    };
    // What goes wrong was told to mpirun, which reports it.
    i32::from(relay.run().is_err())
}
