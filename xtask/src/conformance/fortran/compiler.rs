//! The Fortran compilers with which the codes are built.

use clap::ValueEnum;

use super::name_of;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(in crate::conformance) enum FortranCompiler {
    /// GNU Fortran
    #[default]
    Gfortran,
    /// flang 19
    #[value(name = "flang-new-19")]
    Flang19,
}

impl FortranCompiler {
    pub(super) fn program(self) -> String {
        name_of(self)
    }

    /// The program's file, and its Debian package.
    pub(super) fn needed(self) -> (&'static str, &'static str) {
        match self {
            FortranCompiler::Gfortran => ("/usr/bin/gfortran", "gfortran"),
            FortranCompiler::Flang19 => ("/usr/bin/flang-new-19", "flang-19"),
        }
    }

    /// The name of a code's tests and of its row in the table.
    pub(super) fn name_tests(self, code: &str) -> String {
        match self {
            FortranCompiler::Gfortran => code.to_owned(),
            FortranCompiler::Flang19 => format!("{code}-flang"),
        }
    }

    /// Options for lines of free source form that are longer than the standard allows. flang has
    /// no limit, and no such option.
    pub(super) fn long_lines(self) -> &'static str {
        match self {
            FortranCompiler::Gfortran => "-ffree-line-length-none",
            FortranCompiler::Flang19 => "",
        }
    }

    /// What a program needs beside Debian's BLAS and LAPACK, which are compiled by GNU Fortran.
    pub(super) fn beside_blas(self) -> &'static [&'static str] {
        match self {
            FortranCompiler::Gfortran => &[],
            FortranCompiler::Flang19 => &["-lgfortran"],
        }
    }
}
