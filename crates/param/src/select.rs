//! Which transport a job uses, and why.

use crate::registry::{Params, Transport};

/// The priority of shared memory. Sockets have theirs from `rpi_tcp_priority`.
const SHM_PRIORITY: u32 = 60;

/// The decision on the transport.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The transport that is used.
    pub chosen: Transport,
    /// Each transport with the reason why it is chosen or not.
    pub candidates: Vec<Candidate>,
}

/// One transport in a [`Selection`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// The transport.
    pub transport: Transport,
    /// Its priority, which counts where none is asked for.
    pub priority: u32,
    /// Why it is chosen, or why not.
    pub reason: String,
}

impl Transport {
    /// The name that the parameter `rpi` has for it.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Shm => "shm",
            Transport::Tcp => "tcp",
        }
    }
}

impl Params {
    /// The way that the messages of a job take: the one asked for (`rpi`), or else that of the highest priority.
    pub fn rpi(&self) -> Transport {
        match self.asked_rpi() {
            Some((asked, _)) => asked,
            None if self.rpi_tcp_priority() > SHM_PRIORITY => Transport::Tcp,
            None => Transport::Shm,
        }
    }

    /// The decision of [`Params::rpi`] with its reasons.
    pub fn selection(&self) -> Selection {
        let chosen = self.rpi();
        let priorities = [(Transport::Shm, SHM_PRIORITY), (Transport::Tcp, self.rpi_tcp_priority())];
        let candidates = priorities.map(|(transport, priority)| Candidate {
            transport,
            priority,
            reason: match (self.asked_rpi(), transport == chosen) {
                (Some((_, source)), true) => format!("chosen: asked for by {source}"),
                (Some((asked, _)), false) => format!("not used: '{}' was asked for", asked.name()),
                (None, true) => "chosen: the highest priority, and none was asked for".to_string(),
                (None, false) => format!(
                    "not used: a lower priority than '{}'; '--mca rpi {}' asks for it",
                    chosen.name(),
                    transport.name()
                ),
            },
        });
        Selection { chosen, candidates: candidates.to_vec() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_asked_for_is_chosen_and_otherwise_the_highest_priority() {
        let with = |name, value| Params::default().with(name, value).unwrap();
        assert_eq!(Params::default().rpi(), Transport::Shm);
        assert_eq!(with("rpi", "tcp").rpi(), Transport::Tcp);
        assert_eq!(with("rpi_tcp_priority", "60").rpi(), Transport::Shm, "the first of equals");
        assert_eq!(with("rpi_tcp_priority", "61").rpi(), Transport::Tcp);
        assert_eq!(with("rpi_tcp_priority", "61").with("rpi", "shm").unwrap().rpi(), Transport::Shm);
    }

    #[test]
    fn each_candidate_has_its_reason() {
        let params = Params::from_vars([("OXMPI_MCA_rpi", "tcp"), ("OXMPI_PARAM_FILES", "none")]).unwrap();
        let selection = params.selection();
        assert_eq!(selection.chosen, Transport::Tcp);
        assert_eq!(selection.candidates[0].reason, "not used: 'tcp' was asked for");
        assert_eq!(selection.candidates[1].reason, "chosen: asked for by environment variable OXMPI_MCA_rpi");
    }
}
