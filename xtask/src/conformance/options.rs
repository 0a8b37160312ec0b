//! The options of `cargo xtask conformance`.

use std::path::PathBuf;
use std::time::Duration;

use super::ib::IbPart;
use crate::run::Failure;

pub(super) const HELP: &str = "\
cargo xtask conformance [options]   run foreign programs on OxMPI: mpi4py's test suite module by module, mpi4py's
                                    benchmarks and demos, NetPIPE, HPCC, ferrompi and HDF5

  --ranks 1,2,3         numbers of ranks for the modules of the suite; the other programs have their own
  --five                5 ranks as well: an odd number with more than one level of a tree
  --rpi shm,tcp,ofi     the routes of messages; ofi, libfabric, only on request
  --module REGEX        only what has such a name: test_comm, bench_ringtest, netpipe, hpcc
  --prefix DIR          judge this installation; otherwise one is built and put into target/conformance/oxmpi
  --patience SECONDS    how long a test may do nothing, 30 if not given
  --ib                  instead: jobs over 'ib' in an emulated machine with soft RoCE devices (hours)
  --ib=basic,long       only parts of these: basic, long, windows, ports, tests, mpi4py_2, mpi4py_4; or
                        short, some of each kind, which every change is tried with
  --shrink              take what no longer fails off tests/conformance/expected-failures.txt

Exit code 0 if nothing fails but what is expected to, and all of that does.
";

/// The route of messages between the ranks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Rpi {
    /// The default on one host.
    Shm,
    /// Sockets, also between neighbours.
    Tcp,
    /// libfabric, also between neighbours.
    Ofi,
}

impl Rpi {
    pub(super) const ALL: [Rpi; 3] = [Rpi::Shm, Rpi::Tcp, Rpi::Ofi];

    pub(super) fn name(self) -> &'static str {
        match self {
            Rpi::Shm => "shm",
            Rpi::Tcp => "tcp",
            Rpi::Ofi => "ofi",
        }
    }

    pub(super) fn from_name(name: &str) -> Option<Rpi> {
        Rpi::ALL.into_iter().find(|rpi| rpi.name() == name)
    }

    /// The value of `--mca rpi` for `mpirun`.
    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            Rpi::Shm => &[],
            Rpi::Tcp => &["--mca", "rpi", "tcp"],
            Rpi::Ofi => &["--mca", "mtl", "ofi", "--mca", "mtl_ofi_shm", "0"],
        }
    }
}

/// The options after `conformance`.
#[derive(Clone, Debug)]
pub(super) struct Options {
    pub(super) ranks: Vec<u32>,
    pub(super) rpis: Vec<Rpi>,
    /// A regular expression.
    pub(super) module: Option<String>,
    pub(super) prefix: Option<PathBuf>,
    pub(super) patience: Duration,
    pub(super) shrink: bool,
    /// Jobs over InfiniBand in an emulated machine, and nothing else: which parts; none if it is
    /// empty.
    pub(super) ib: Vec<IbPart>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            ranks: vec![1, 2, 3],
            rpis: vec![Rpi::Shm, Rpi::Tcp],
            module: None,
            prefix: None,
            patience: Duration::from_secs(30),
            shrink: false,
            ib: Vec::new(),
        }
    }
}

/// Reads the words after `conformance`; nothing for `--help`. An error names the word.
pub(super) fn read(words: &[&str]) -> Result<Option<Options>, Failure> {
    let mut options = Options::default();
    let mut five = false;
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        let (option, attached) = match word.split_once('=') {
            Some((option, value)) => (option, Some(value)),
            None => (word, None),
        };
        let mut value = || {
            let value = attached.or_else(|| words.next());
            value.ok_or_else(|| Failure::new(format!("{option} needs a value\n\n{HELP}")))
        };
        match option {
            "help" | "-h" | "--help" => return Ok(None),
            "--ranks" => options.ranks = list(option, value()?, |n| n.parse().ok().filter(|&n| n > 0))?,
            "--rpi" => options.rpis = list(option, value()?, Rpi::from_name)?,
            "--module" => options.module = Some(value()?.to_owned()),
            "--five" => five = true,
            "--shrink" => options.shrink = true,
            "--ib" => {
                options.ib = attached
                    .map_or(Ok(IbPart::ALL.to_vec()), |parts| list(option, parts, IbPart::from_name))?;
            }
            // Jobs run elsewhere.
            "--prefix" => {
                let prefix = value()?;
                options.prefix =
                    Some(std::path::absolute(prefix).map_err(Failure::io(format!("cannot find {prefix}")))?);
            }
            "--patience" => {
                let seconds = list(option, value()?, |n| n.parse().ok().filter(|&n| n >= 5))?;
                options.patience = Duration::from_secs(seconds[0]);
            }
            _ => return Err(Failure::new(format!("conformance has no option '{word}'\n\n{HELP}"))),
        }
    }
    if five && !options.ranks.contains(&5) {
        options.ranks.push(5);
    }
    Ok(Some(options))
}

/// A list of one value or more.
fn list<T>(option: &str, text: &str, one: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, Failure> {
    let values = text.split(',').map(|part| {
        one(part)
            .ok_or_else(|| Failure::new(format!("{option} {text}: '{part}' is none of its values\n\n{HELP}")))
    });
    values.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_in_both_forms() {
        let options = read(&["--ranks=2,7", "--rpi", "tcp", "--patience", "9"]).unwrap().unwrap();
        assert_eq!((options.ranks, options.rpis), (vec![2, 7], vec![Rpi::Tcp]));
        assert_eq!(options.patience, Duration::from_secs(9));
        assert!(read(&["--module", "comm", "-h"]).unwrap().is_none());
        assert_eq!(read(&["--five", "--ranks", "2"]).unwrap().unwrap().ranks, [2, 5]);
        assert_eq!(read(&["--five"]).unwrap().unwrap().ranks, [1, 2, 3, 5]);
        assert_eq!(read(&["--ib"]).unwrap().unwrap().ib, IbPart::ALL);
        assert_eq!(read(&["--ib=short"]).unwrap().unwrap().ib, [IbPart::Short]);
        assert_eq!(read(&["--ib=long,ports"]).unwrap().unwrap().ib, [IbPart::Long, IbPart::Ports]);
        assert!(read(&[]).unwrap().unwrap().ib.is_empty());
    }

    #[test]
    fn an_error_names_the_word() {
        for (words, named) in [
            (&["--ranks", "2,0"][..], "'0'"),
            (&["--rpi", "shm,udp"], "'udp'"),
            (&["--patience", "1"], "'1'"),
            (&["--module"], "--module needs"),
            (&["--ib=shm"], "'shm'"),
            (&["--some"], "'--some'"),
        ] {
            let error = read(words).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }
}
