//! `mpicc`, `mpicxx` and `mpifort`: a compiler with the arguments that find this installation. The
//! wrapper adds arguments and runs the compiler; it changes and moves none. The compiler's messages
//! are passed on unchanged. If a C or C++ compiler fails because of names that MPI has removed, a
//! line with the remedy follows ([`removed`]). `mpifort` makes the Fortran modules first
//! ([`modules`]).

mod arguments;
mod help;
mod modules;
mod removed;

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::process::Command;

use self::arguments::{WrapperAction, WrapperRequest};
use crate::prefix;

pub(crate) fn help() -> String {
    help::text(Language::C)
}

pub(crate) const NAMES: [&str; 7] =
    ["mpicc", "mpicxx", "mpic++", "mpiCC", "mpifort", "mpif90", "mpif77"];

pub(crate) use modules::IN_PREFIX as MODULES_IN_PREFIX;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Language {
    C,
    Cxx,
    Fortran,
}

impl Language {
    pub(crate) fn of(name: &str) -> Option<Language> {
        match name {
            "mpicc" => Some(Language::C),
            "mpicxx" | "mpic++" | "mpiCC" => Some(Language::Cxx),
            "mpifort" | "mpif90" | "mpif77" => Some(Language::Fortran),
            _ => None,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Language::C => "C",
            Language::Cxx => "C++",
            Language::Fortran => "Fortran",
        }
    }

    fn compiler(self) -> &'static str {
        match self {
            Language::C => "cc",
            Language::Cxx => "c++",
            Language::Fortran => FORTRAN_COMPILERS
                .into_iter()
                .find(|name| modules::in_path(name).is_some())
                .unwrap_or(FORTRAN_COMPILERS[0]),
        }
    }

    /// Variables that name another compiler. The first one that is set counts. The last two are
    /// those of other MPIs.
    fn variables(self) -> [&'static str; 3] {
        match self {
            Language::C => ["OXMPI_CC", "OMPI_CC", "MPICH_CC"],
            Language::Cxx => ["OXMPI_CXX", "OMPI_CXX", "MPICH_CXX"],
            Language::Fortran => ["OXMPI_FC", "OMPI_FC", "MPICH_FC"],
        }
    }

    fn option(self) -> &'static str {
        match self {
            Language::C => "-cc=",
            Language::Cxx => "-cxx=",
            Language::Fortran => "-fc=",
        }
    }
}

/// Fortran compilers; the first one in PATH is the usual one.
const FORTRAN_COMPILERS: [&str; 6] =
    ["gfortran", "ifx", "flang", "flang-new", "nvfortran", "ifort"];

pub(crate) fn main(language: Language, name: &str, args: &[OsString]) -> i32 {
    let mut request = WrapperRequest::read(language, args);
    request.compat |= std::env::var_os(COMPAT).is_some_and(|value| wants_compat(&value));
    match request.action {
        WrapperAction::Help => {
            crate::say(&help::text(language));
            return 0;
        }
        WrapperAction::Version => {
            crate::say(&format!(
                "{name}: OxMPI {} (Language: {})\n",
                env!("CARGO_PKG_VERSION"),
                language.name()
            ));
            return 0;
        }
        WrapperAction::Unknown(ref word) => {
            oxmpi_sys::complain!(
                "{name}: {word} is none of the words that can be shown ('{name} -help' lists them)"
            );
            return 1;
        }
        WrapperAction::Nothing => {
            oxmpi_sys::complain!("{name}: no input files ('{name} -help' explains)");
            return 1;
        }
        WrapperAction::Show(_) => {}
        WrapperAction::Run if request.is_static() => {
            oxmpi_sys::complain!(
                "{name}: -static: OxMPI is a shared library alone, which is loaded when the program starts; leave the option out, \
                 or link the rest statically ('-static-libgcc -static-libstdc++', '-l:libNAME.a')"
            );
            return 1;
        }
        WrapperAction::Run => {}
    }
    let Some(prefix) = prefix::find() else {
        oxmpi_sys::complain!(
            "{name}: this program is not in PREFIX/bin, so its headers cannot be found; install with 'cargo xtask install \
             --prefix DIR'"
        );
        return 1;
    };
    let (compiler, from) = compiler(language, &request, |name| std::env::var_os(name));
    if language == Language::Fortran && request.needs_modules() {
        match modules::made(name, &compiler, &from, request.args(), &prefix) {
            Ok(found) => request.modules = Some(found),
            Err(error) => {
                oxmpi_sys::complain!("{name}: {error}");
                return 1;
            }
        }
    }
    if let WrapperAction::Show(words) = request.action {
        crate::say(&arguments::shown(&request, words, &compiler, &prefix));
        return 0;
    }
    run(name, &compiler, &from, &request, &prefix)
}

fn run(
    name: &str,
    compiler: &[OsString],
    from: &str,
    request: &WrapperRequest,
    prefix: &Path,
) -> i32 {
    let [program, first @ ..] = compiler else { return 1 };
    let mut command = Command::new(program);
    command.args(first);
    let searches = request.language != Language::Fortran && !request.compat;
    if searches && !request.colours() && removed::takes_colours(program) {
        command.arg("-fdiagnostics-color=always");
    }
    command.args(request.all(prefix));
    let error = if !searches {
        std::os::unix::process::CommandExt::exec(&mut command)
    } else {
        match removed::run(name, &mut command) {
            Ok(code) => return code,
            Err(error) => error,
        }
    };
    oxmpi_sys::complain!(
        "{name}: cannot run the compiler '{}' ({from}): {error}",
        program.display()
    );
    127
}

/// The variable for `-mpi-compat`. Build systems that also run the compiler without the wrapper
/// (libtool) would pass the option to the compiler.
const COMPAT: &str = "OXMPI_MPI_COMPAT";

fn wants_compat(value: &OsStr) -> bool {
    !(value.is_empty() || value == "0")
}

fn compiler(
    language: Language,
    request: &WrapperRequest,
    variable: impl Fn(&str) -> Option<OsString>,
) -> (Vec<OsString>, String) {
    let words = |command: &OsString| -> Vec<OsString> {
        // A command may have arguments, such as "ccache gcc". A path with blanks is one word if it
        // is a file.
        if Path::new(command).is_file() {
            return vec![command.clone()];
        }
        command.to_string_lossy().split_whitespace().map(OsString::from).collect()
    };
    if let Some(command) = &request.compiler {
        return (words(command), format!("named by {}", language.option()));
    }
    for name in language.variables() {
        if let Some(words) = variable(name).map(|command| words(&command)).filter(|w| !w.is_empty())
        {
            return (words, format!("named by the environment variable {name}"));
        }
    }
    let how = format!(
        "the usual one; {}COMPILER or {}=COMPILER names another",
        language.option(),
        language.variables()[0]
    );
    (vec![language.compiler().into()], how)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(args: &[&str], env: &[(&str, &str)]) -> String {
        let args: Vec<OsString> = args.iter().map(OsString::from).collect();
        let request = WrapperRequest::read(Language::Cxx, &args);
        let variable =
            |name: &str| env.iter().find(|(n, _)| *n == name).map(|(_, v)| OsString::from(v));
        let (words, _) = compiler(Language::Cxx, &request, variable);
        words.join(std::ffi::OsStr::new("|")).into_string().unwrap()
    }

    #[test]
    fn the_compiler_is_named_by_option_then_by_environment() {
        let all = [("OMPI_CXX", "b"), ("MPICH_CXX", "c"), ("OXMPI_CXX", "a"), ("OXMPI_CC", "cc")];
        assert_eq!(named(&["-cxx=ccache d", "x.cc"], &all), "ccache|d");
        assert_eq!(named(&["x.cc"], &all), "a");
        assert_eq!(named(&["x.cc"], &all[..2]), "b");
        assert_eq!(named(&["x.cc"], &[("OXMPI_CXX", " "), ("MPICH_CXX", "c -m32")]), "c|-m32");
        assert_eq!(named(&["x.cc"], &[]), "c++");
    }

    #[test]
    fn program_names_select_the_language() {
        for name in ["mpicxx", "mpic++", "mpiCC"] {
            assert_eq!(Language::of(name), Some(Language::Cxx));
        }
        for name in ["mpifort", "mpif90", "mpif77"] {
            assert_eq!(Language::of(name), Some(Language::Fortran));
        }
        assert_eq!(Language::of("mpicc"), Some(Language::C));
        assert_eq!(Language::of("mpirun"), None);
    }
}
