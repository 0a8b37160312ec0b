//! The description of a job, for a tool.

use std::path::PathBuf;
use std::time::Duration;

/// The automatic checkpoints of a launcher's parent, the supervisor, which is outside of the imaged
/// process tree. The supervisor handles signals that end the job: the launcher acts on signals
/// that the supervisor relays ([`oxmpi_sys::spawn::relay`]), and forwards others to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Supervision {
    pub every: Option<Duration>,
    /// Whether a checkpoint is made when SIGTERM ends the job.
    pub on_term: bool,
}

/// A job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobFacts {
    /// The process number of its `mpirun`, not of a supervisor.
    pub mpirun: u32,
    /// Identifies the job, also after a restart from images.
    pub id: u64,
    pub transport: String,
    /// The number of processes, spawned ones included.
    pub ranks: u32,
    pub hosts: u32,
    pub is_here: bool,
    pub cr: Option<String>,
    /// The automatic checkpoints, if any.
    pub supervision: Option<Supervision>,
    pub program: PathBuf,
    /// The checkpoint parameters of `mpirun`. Directories are absolute.
    pub params: Vec<(String, String)>,
}

impl JobFacts {
    /// As [`JobFacts::decode`] reads it. Paths and parameters are last and end with zeros: those
    /// beyond the length of a message are lost.
    pub fn encode(&self) -> String {
        let JobFacts {
            mpirun,
            id,
            transport,
            ranks,
            hosts,
            is_here,
            cr,
            supervision,
            program,
            params,
        } = self;
        let hosts = format!("{hosts}/{}", u8::from(*is_here));
        let cr = cr.as_deref().unwrap_or("-");
        let supervision = supervision.map_or("-".into(), |Supervision { every, on_term }| {
            format!("{}/{}", every.map_or(0, |time| time.as_millis()), u8::from(on_term))
        });
        let params: String =
            params.iter().map(|(name, value)| format!("{name}={value}\0")).collect();
        let program = program.display();
        format!(
            "{mpirun} {id:016x} {ranks} {hosts} {transport} {cr} {supervision} {program}\0{params}"
        )
    }

    /// Reads a description; `None` if it is malformed.
    pub fn decode(text: &str) -> Option<JobFacts> {
        let mut words = text.splitn(8, ' ');
        let mpirun = words.next()?.parse().ok()?;
        let id = u64::from_str_radix(words.next()?, 16).ok()?;
        let ranks = words.next()?.parse().ok()?;
        let (hosts, is_here) = words.next()?.split_once('/')?;
        let (hosts, is_here) = (hosts.parse().ok()?, is_here == "1");
        let transport = words.next()?.into();
        let cr = words.next().map(|word| Some(word.to_string()).filter(|word| word != "-"))?;
        let supervision = match words.next()? {
            "-" => None,
            text => {
                let (every_ms, on_term) = text.split_once('/')?;
                let every_ms: u64 = every_ms.parse().ok()?;
                let every = (every_ms > 0).then(|| Duration::from_millis(every_ms));
                Some(Supervision { every, on_term: on_term == "1" })
            }
        };
        let mut rest = words.next()?.split_inclusive('\0');
        let program = rest.next()?.trim_end_matches('\0').into();
        let whole = rest.filter_map(|word| word.strip_suffix('\0')?.split_once('='));
        let params = whole.map(|(name, value)| (name.into(), value.into())).collect();
        Some(JobFacts {
            mpirun,
            id,
            transport,
            ranks,
            hosts,
            is_here,
            cr,
            supervision,
            program,
            params,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_come_back_as_they_were() {
        let supervised = |every_ms: Option<u64>, on_term| Supervision {
            every: every_ms.map(Duration::from_millis),
            on_term,
        };
        for supervision in [None, Some(supervised(None, true)), Some(supervised(Some(1500), false))]
        {
            let (transport, program) = ("shm".into(), "/home/a b/heat".into());
            let cr = supervision.map(|_| "blcr".to_string());
            let (mpirun, id, ranks, hosts, is_here) = (7, 0xabc, 4, 2, cr.is_some());
            let params =
                vec![("cr_base_dir".to_string(), "/a = b".into()), ("cr_keep".into(), "0".into())];
            let mut facts = JobFacts {
                mpirun,
                id,
                transport,
                ranks,
                hosts,
                is_here,
                cr,
                supervision,
                program,
                params,
            };
            let text = facts.encode();
            assert_eq!(JobFacts::decode(&text).as_ref(), Some(&facts));
            facts.params.pop();
            assert_eq!(
                JobFacts::decode(&text[..text.len() - 1]),
                Some(facts),
                "what has no end does not count"
            );
        }
        for text in [
            "",
            "7 x 4 1/1 shm - - /p",
            "7 1 4 1/1 shm - -",
            "7 1 4 1/1 shm - 5 /p",
            "7 1 4 1 shm - - /p",
        ] {
            assert_eq!(JobFacts::decode(text), None, "{text}");
        }
    }
}
