//! The modules of this library, a row each, and what a job gets of them.

use super::transports::{Ask, SelectError};
use super::{Decision, Framework, Row, ThreadLevel, Wish, decide};
use crate::registry::{Params, Transport};

/// What is known of a job before its modules are selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Job {
    /// How many processes it starts with, if that is known.
    pub ranks: Option<u32>,
    /// Why it cannot have sockets, if it cannot.
    pub no_sockets: Option<String>,
    /// Why its messages cannot go through daemons, if they cannot.
    pub no_daemons: Option<String>,
}

/// A transport's row: what does not depend on the job.
struct Fixed {
    transport: Transport,
    lowest: ThreadLevel,
    highest: ThreadLevel,
    priority: fn(&Params) -> u32,
    unavailable: fn(&Job) -> Option<String>,
}

const TRANSPORTS: [Fixed; 3] = [
    Fixed {
        transport: Transport::Shm,
        lowest: ThreadLevel::Single,
        highest: ThreadLevel::Multiple,
        priority: Params::rpi_shm_priority,
        unavailable: |_| None, // a job runs on one host
    },
    Fixed {
        transport: Transport::Tcp,
        lowest: ThreadLevel::Single,
        highest: ThreadLevel::Multiple,
        priority: Params::rpi_tcp_priority,
        unavailable: |job| job.no_sockets.clone(),
    },
    Fixed {
        transport: Transport::Lamd,
        lowest: ThreadLevel::Single,
        highest: ThreadLevel::Multiple,
        priority: Params::rpi_lamd_priority,
        unavailable: |job| job.no_daemons.clone(),
    },
];

/// The priority of collectives as plans over messages.
const TUNED_PRIORITY: u32 = 30;

impl Transport {
    /// All, in the order in which the parameter `rpi` names them.
    pub const ALL: [Transport; 3] = [Transport::Shm, Transport::Tcp, Transport::Lamd];

    /// The name that the parameter `rpi` has for it.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Shm => "shm",
            Transport::Tcp => "tcp",
            Transport::Lamd => "lamd",
        }
    }
}

impl Decision {
    /// The transport that is used.
    pub fn transport(&self) -> Transport {
        Transport::ALL.into_iter().find(|one| one.name() == self.rpi).unwrap_or(Transport::Shm)
    }
}

/// The rows for a job of which this is asked.
fn rows(params: &Params, job: &Job, ask: &Ask) -> Vec<Row> {
    let transports = TRANSPORTS.iter().map(|fixed| Row {
        framework: Framework::Rpi,
        name: fixed.transport.name(),
        priority: (fixed.priority)(params),
        lowest: fixed.lowest,
        highest: fixed.highest,
        checkpoints: false,
        left_out: ask.left_out(fixed.transport),
        unavailable: (fixed.unavailable)(job),
    });
    let tuned = Row {
        framework: Framework::Coll,
        name: "tuned",
        priority: TUNED_PRIORITY,
        lowest: ThreadLevel::Single,
        highest: ThreadLevel::Multiple,
        checkpoints: true,
        left_out: None,
        unavailable: None,
    };
    transports.chain([tuned]).collect()
}

impl Params {
    /// Selects the modules of a job whose program asks for this thread level, unless the environment says another one
    /// ([`ThreadLevel::from_env`]).
    ///
    /// # Errors
    /// The parameters `rpi`, `pml`, `btl` and `mtl` name what is not there or contradict each other, nothing is left, or the
    /// variable is wrong.
    pub fn select(&self, job: &Job, level: ThreadLevel) -> Result<Decision, SelectError> {
        let (level, by) = match ThreadLevel::from_env()? {
            Some((level, variable)) => (level, format!("environment variable {variable}")),
            None => (level, "as the program asks".to_string()),
        };
        let ask = Ask::of(self, job)?;
        Ok(decide(&rows(self, job, &ask), &Wish { level, by, cr: None })?)
    }

    /// All modules, whatever is asked for.
    pub fn modules(&self, job: &Job) -> Vec<Row> {
        rows(self, job, &Ask::default())
    }

    /// The way that the messages of a job take, as far as parameters alone say it; shared memory if they make no sense, which
    /// [`Params::select`] tells.
    pub fn rpi(&self) -> Transport {
        self.select(&Job::default(), ThreadLevel::Single).map_or(Transport::Shm, |found| found.transport())
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
        assert_eq!(with("rpi", "lamd").rpi(), Transport::Lamd);
        assert_eq!(with("rpi_ssi_lamd_priority", "61").rpi(), Transport::Lamd);
        assert_eq!(with("rpi_tcp_priority", "60").rpi(), Transport::Shm, "the first of equals");
        assert_eq!(with("rpi_tcp_priority", "61").rpi(), Transport::Tcp);
        assert_eq!(with("rpi_shm_priority", "19").rpi(), Transport::Tcp);
        assert_eq!(with("rpi_tcp_priority", "61").with("rpi", "shm").unwrap().rpi(), Transport::Shm);
    }

    #[test]
    fn what_cannot_be_used_leaves_its_place_or_ends_the_job() {
        let job = Job { no_sockets: Some("there is no network".into()), ..Job::default() };
        let preferring = Params::default().with("rpi_tcp_priority", "61").unwrap();
        let found = preferring.select(&job, ThreadLevel::Multiple).unwrap();
        assert_eq!((found.transport(), found.level), (Transport::Shm, ThreadLevel::Multiple));
        assert_eq!(found.steps[1].drops, [("rpi tcp".to_string(), "there is no network".to_string())]);
        let asking = Params::default().with("rpi", "tcp").unwrap();
        let error = asking.select(&job, ThreadLevel::Single).unwrap_err().to_string();
        assert!(
            error.contains("rpi shm: 'tcp' is asked for") && error.contains("rpi tcp: there is no network"),
            "{error}"
        );
    }
}
