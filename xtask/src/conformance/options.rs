//! The options of `cargo xtask conformance`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::builder::{PathBufValueParser, TypedValueParser as _};
use clap::{Args, ValueEnum};
use serde::Serialize;

use super::fortran::{FortranCode, FortranCompiler};
use super::ib::IbPart;
use super::results::JobSetting;

/// The route of messages between the ranks of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, ValueEnum)]
#[serde(rename_all = "lowercase")]
pub(super) enum Rpi {
    /// The default on one host
    Shm,
    /// Sockets, also between neighbours
    Tcp,
    /// libfabric, also between neighbours
    Ofi,
}

impl Rpi {
    pub(super) fn name(self) -> String {
        name_of(self)
    }

    pub(super) fn arguments(self) -> &'static [&'static str] {
        match self {
            Rpi::Shm => &[],
            Rpi::Tcp => &["--mca", "rpi", "tcp"],
            Rpi::Ofi => &["--mca", "mtl", "ofi", "--mca", "mtl_ofi_shm", "0"],
        }
    }
}

pub(super) fn name_of(value: impl ValueEnum) -> String {
    value.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
}

const PATIENCE_S: u64 = 30;

#[derive(Args, Debug)]
pub(crate) struct ConformanceOptions {
    /// Numbers of ranks for the modules of the suite; the other programs have their own
    #[arg(
        long,
        value_name = "N,N",
        value_delimiter = ',',
        default_value = "1,2,3",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    ranks: Vec<u32>,
    /// Run 5 ranks as well: an odd number with more than one level of a tree
    #[arg(long)]
    five: bool,
    /// The routes of messages
    #[arg(long = "rpi", value_name = "RPI,RPI", value_delimiter = ',', default_value = "shm,tcp")]
    rpis: Vec<Rpi>,
    /// Run only the modules and programs whose names match: test_comm, bench_ringtest, netpipe
    #[arg(long, value_name = "REGEX")]
    pub(super) module: Option<String>,
    /// Judge this installation [default: build one into target/conformance/oxmpi]
    // Jobs run in other directories.
    #[arg(long, value_name = "DIR", value_parser = PathBufValueParser::new().try_map(std::path::absolute))]
    pub(super) prefix: Option<PathBuf>,
    /// Seconds that a test may make no progress
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = PATIENCE_S,
        value_parser = clap::value_parser!(u64).range(5..)
    )]
    pub(super) patience: u64,
    /// Take the tests that do not fail any more off tests/conformance/expected-failures.txt
    #[arg(long)]
    pub(super) shrink: bool,
    /// Instead: run jobs over InfiniBand in an emulated machine with soft RoCE devices (hours)
    #[arg(
        long,
        value_name = "PART,PART",
        value_delimiter = ',',
        num_args = 0..,
        require_equals = true
    )]
    pub(super) ib: Option<Vec<IbPart>>,
    /// Instead: build Fortran codes of Debian's archive and run their tests (half an hour)
    #[arg(
        long,
        value_name = "CODE,CODE",
        value_delimiter = ',',
        num_args = 0..,
        require_equals = true,
        conflicts_with = "ib"
    )]
    pub(super) fortran: Option<Vec<FortranCode>>,
    /// The compiler of the Fortran codes
    #[arg(long, value_name = "COMPILER", default_value = "gfortran", requires = "fortran")]
    pub(super) compiler: FortranCompiler,
}

impl ConformanceOptions {
    pub(super) fn of_modules(module: &str, prefix: &Path) -> ConformanceOptions {
        ConformanceOptions {
            ranks: Vec::new(),
            five: false,
            rpis: Vec::new(),
            module: Some(module.to_owned()),
            prefix: Some(prefix.to_owned()),
            patience: PATIENCE_S,
            shrink: false,
            ib: None,
            fortran: None,
            compiler: FortranCompiler::default(),
        }
    }

    pub(super) fn settings(&self) -> impl Iterator<Item = JobSetting> {
        let ranks: BTreeSet<u32> =
            self.ranks.iter().copied().chain(self.five.then_some(5)).collect();
        let routes = self.rpis.iter();
        routes.flat_map(move |&rpi| {
            ranks.clone().into_iter().map(move |ranks| JobSetting { ranks, rpi })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::read;

    #[test]
    fn lists_are_read() {
        let settings = |words: &[&str]| {
            let settings =
                read::<ConformanceOptions>(words).unwrap().settings().collect::<Vec<_>>();
            settings.into_iter().map(|setting| (setting.ranks, setting.rpi)).collect::<Vec<_>>()
        };
        let both = [1, 2, 3].map(|ranks| (ranks, Rpi::Shm)).into_iter();
        let both: Vec<_> = both.chain([1, 2, 3].map(|ranks| (ranks, Rpi::Tcp))).collect();
        assert_eq!(settings(&[]), both);
        assert_eq!(settings(&["--ranks=2,7", "--rpi", "ofi"]), [(2, Rpi::Ofi), (7, Rpi::Ofi)]);
        assert_eq!(
            settings(&["--five", "--ranks", "2", "--rpi", "tcp"]),
            [(2, Rpi::Tcp), (5, Rpi::Tcp)]
        );
        for wrong in
            [&["--ranks", "2,0"][..], &["--rpi", "shm,udp"], &["--patience", "4"], &["--ib=shm"]]
        {
            assert!(read::<ConformanceOptions>(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn parts_over_infiniband_are_named_or_all() {
        let parts = |words: &[&str]| read::<ConformanceOptions>(words).unwrap().ib;
        assert_eq!(parts(&[]), None);
        assert_eq!(parts(&["--ib", "--shrink"]), Some(Vec::new()));
        assert_eq!(parts(&["--ib=long,mpi4py_2"]), Some(vec![IbPart::Long, IbPart::Mpi4py2]));
    }

    #[test]
    fn fortran_codes_are_named_or_all() {
        let codes = |words: &[&str]| Some(read::<ConformanceOptions>(words).ok()?.fortran);
        assert_eq!(codes(&[]), Some(None));
        assert_eq!(codes(&["--fortran", "--shrink"]), Some(Some(Vec::new())));
        let two = vec![FortranCode::Mumps, FortranCode::Hdf5];
        assert_eq!(codes(&["--fortran=mumps,hdf5"]), Some(Some(two)));
        assert_eq!((codes(&["--fortran=lammps"]), codes(&["--fortran", "--ib"])), (None, None));
    }
}
