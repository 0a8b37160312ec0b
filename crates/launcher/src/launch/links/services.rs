//! Published names for other launchers' lookups: a listener for each, with a name derived from the
//! published one.

use std::os::fd::AsFd;

use super::super::launcher::{LAUNCHER_LISTENERS, Launcher};
use super::claims::{self, Refused};
use super::{Links, user};

/// The abstract name for a published name (a hash, FNV-1a, as it can be too long).
fn service_name(service: &str) -> String {
    let hash = service.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("oxmpi.{}.name.{hash:016x}", user())
}

impl Links {
    pub(in super::super) fn unpublish(&mut self, service: &str) {
        self.names.remove(service);
    }

    /// Withdraws the names of a process that has ended.
    pub(in super::super) fn forget_services(&mut self, owner: u32) {
        self.names.retain(|_, (other, _)| *other != owner);
    }
}

impl Launcher<'_> {
    /// Publishes a name for other launchers; an error if another launcher has published it.
    pub(in super::super) fn publish_everywhere(
        &mut self,
        owner: u32,
        service: &str,
    ) -> Result<(), String> {
        self.reach()?;
        let listener = claims::claim(&service_name(service)).map_err(|refused| match refused {
            Refused::Taken => format!(
                "'{service}' is published already, by another mpirun; with the info key ompi_global_scope = false a name is \
                 known within its own mpirun"
            ),
            Refused::Failed(error) => format!("'{service}' cannot be published: {error}"),
        })?;
        self.host
            .listen(listener.as_fd(), LAUNCHER_LISTENERS, 0)
            .map_err(|error| error.to_string())?;
        self.links.names.insert(service.to_string(), (owner, listener));
        Ok(())
    }

    /// Searches for the launcher that has published a name.
    pub(in super::super) fn search(&mut self, asker: u32, service: &str) -> Result<(), String> {
        let found = self.call(&service_name(service), 0, Some((asker, service.to_string())));
        found.map(drop).map_err(|_| format!("nothing is published as '{service}'"))
    }
}
