//! Published names that processes of other launchers can look up: a socket for each, named after it.

use std::os::fd::AsFd;

use super::super::launcher::{DOORS, Launcher};
use super::claims::{self, Refused};
use super::user;

/// The name of the socket of a published name (FNV-1a: it can be longer than a socket's name).
fn service_name(service: &str) -> String {
    let hash = service.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("oxmpi.{}.name.{hash:016x}", user())
}

impl Launcher<'_> {
    /// Lets others look up a name.
    ///
    /// # Errors
    /// If another launcher has published it.
    pub(in super::super) fn publish_everywhere(&mut self, owner: u32, service: &str) -> Result<(), String> {
        self.reach()?;
        let listener = claims::claim(&service_name(service)).map_err(|refused| match refused {
            Refused::Taken => format!(
                "'{service}' is published already, by another mpirun; with the info key ompi_global_scope = false a name is \
                 known within its own mpirun"
            ),
            Refused::Failed(error) => format!("'{service}' cannot be published: {error}"),
        })?;
        self.listen(&self.events, listener.as_fd(), DOORS, 0).map_err(|error| error.to_string())?;
        self.links.names.insert(service.to_string(), (owner, listener));
        Ok(())
    }

    /// Others do not find a name any more.
    pub(in super::super) fn unpublish_everywhere(&mut self, service: &str) {
        self.links.names.remove(service);
    }

    /// Asks who has published a name, for a process of ours.
    ///
    /// # Errors
    /// If nobody has.
    pub(in super::super) fn search(&mut self, asker: u32, service: &str) -> Result<(), String> {
        let found = self.call(&service_name(service), 0, Some((asker, service.to_string())));
        found.map(drop).map_err(|_| format!("nothing is published as '{service}'"))
    }

    /// Names go with the process that has published them.
    pub(in super::super) fn forget_services(&mut self, owner: u32) {
        self.links.names.retain(|_, (other, _)| *other != owner);
    }
}
