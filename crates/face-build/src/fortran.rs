//! The libraries for Fortran programs that were built for another MPI.
//!
//! Such a library has the sources of this project's own one (`crates/fortran/src`). Its entry
//! points convert the integers of handles to handles of the standard ABI. They call functions that
//! convert all else, as the functions for C programs of the other ABI do.

use std::env;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use oxmpi_abi::constants::{CONSTANTS, ConstantKind, ERROR_CLASSES};
use oxmpi_abi::foreign::{ForeignConstant, ForeignObject, foreign_constants, foreign_objects};
use oxmpi_abi::fortran::PREDEFINED_PROCEDURES;
use oxmpi_abi::table::{Function, functions};
use oxmpi_fortran_build::{F08, FortranLibrary, SpecialVariable};

use crate::constants::{HANDLES, is_predefined_key};
use crate::{Face, HandleKind, OF_STANDARD_ABI, constants, function, link_arguments};

/// A library for Fortran programs of another MPI.
#[derive(Clone, Copy, Debug)]
pub struct FortranFace<'a> {
    /// The constants of the other ABI.
    pub constants: &'static str,
    /// The name of the library for the dynamic linker.
    pub soname: &'static str,
    /// What Fortran adds to the predefined keys of C.
    pub key_difference: i64,
    /// The variables with special arguments.
    pub special: &'a [SpecialVariable],
    /// How programs with module `mpi_f08` pass buffers.
    pub f08: F08,
    /// The operators of module `mpi_f08` that compare handles: the name of the function for the
    /// linker, and whether it finds equal handles.
    pub operators: &'a [(String, bool)],
    /// The names of MPI_SIZEOF for the linker, and the size in bytes that each returns.
    pub sizes: &'a [(String, usize)],
    /// Further names for the linker: the name of an entry point, and another one.
    pub aliases: &'a [(String, String)],
    /// The names of symbols to export, which may end with an asterisk.
    pub exports: &'a [&'a str],
}

/// Functions that have bodies by hand in C, and only pass their arguments here: entry points call
/// others in their place, which have a state (`fortran/creators.rs`).
pub(crate) const AS_THEY_ARE: &[&str] = &[
    "MPI_Comm_create_errhandler",
    "MPI_File_create_errhandler",
    "MPI_Op_create",
    "MPI_Op_create_c",
    "MPI_Session_create_errhandler",
    "MPI_Win_create_errhandler",
];

/// Writes all generated files to the build directory, and sets the linker arguments.
/// # Errors
/// If a constant cannot be read or a file cannot be written.
pub fn write_fortran(face: &FortranFace<'_>) -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    let mut all = foreign_constants(face.constants)?;
    for key in all.iter_mut().filter(|constant| is_predefined_key(constant.name)) {
        key.foreign += face.key_difference;
    }
    let library = FortranLibrary { special: face.special, f08: face.f08, missing: OF_STANDARD_ABI };
    oxmpi_fortran_build::write(out, &library)?;
    let own = fs::read_to_string(out.join("own.rs"))?;
    fs::write(out.join("own.rs"), own + &of_modules(face))?;
    fs::write(out.join("core.rs"), oxmpi_abi::table::address_table())?;
    fs::write(out.join("constants.rs"), constants::text(&all))?;
    fs::write(out.join("numbers.rs"), numbers(&all))?;
    fs::write(out.join("integers.rs"), integers(&foreign_objects(face.constants)?))?;
    let of_c = Face {
        constants: face.constants,
        soname: face.soname,
        handles: HandleKind::Standard,
        by_hand: &[],
        other_name: |_| None,
        ignored_statuses: &[],
        exports: &[],
    };
    let called: Vec<_> = functions().iter().filter(|function| is_called(function)).collect();
    let text = |function: &&Function| function::text(function, &of_c, &all);
    fs::write(out.join("functions.rs"), called.iter().map(text).collect::<String>())?;
    fs::write(out.join("c.rs"), called.iter().map(|function| names(function)).collect::<String>())?;
    link_arguments(out, face.soname, face.exports)
}

/// The procedures of the other MPI's modules that call no C function.
fn of_modules(face: &FortranFace<'_>) -> String {
    let mut text = String::new();
    for (at, (symbol, is_equal)) in face.operators.iter().enumerate() {
        let operator = if *is_equal { "==" } else { "!=" };
        let _ = writeln!(
            text,
            "entry! {{ \"{symbol}\" fn operator_{at}(one: *const c_int, other: *const c_int) -> \
             c_int {{ c_int::from(*one {operator} *other) }} }}"
        );
    }
    for (at, (symbol, bytes)) in face.sizes.iter().enumerate() {
        let _ = writeln!(
            text,
            "entry! {{ \"{symbol}\" fn size_{at}(_x: *const c_void, size: *mut c_int, \
             ierror: *mut c_int) {{ put(size, {bytes}); put(ierror, 0); }} }}"
        );
    }
    // The procedures of module mpi_f08 get types of one INTEGER in place of INTEGERs.
    let callbacks = PREDEFINED_PROCEDURES.iter().map(|name| {
        let name = name.to_lowercase();
        (format!("{name}_"), format!("__mpi_f08_callbacks_MOD_{name}"))
    });
    for (of, name) in callbacks.chain(face.aliases.iter().cloned()) {
        let _ = writeln!(text, "alias! {{ \"{of}\" \"{name}\" }}");
    }
    text
}

/// Whether entry points call a function.
fn is_called(function: &Function) -> bool {
    let name = function.name.as_str();
    let is_integer = name.ends_with("_toint") || name.ends_with("_fromint");
    !function.is_extension()
        && !is_integer
        && !name.starts_with("MPI_T_")
        && !OF_STANDARD_ABI.contains(&name)
}

/// Both names of a function, and the type of pointers to it.
fn names(function: &Function) -> String {
    let name = &function.name;
    let kind = oxmpi_fortran_build::function_type(function);
    format!(
        "#[allow(unused_imports)] pub(crate) use crate::functions::{{{name}, {name} as P{name}}};\n{kind}"
    )
}

/// The constants that are numbers with other values.
fn numbers(all: &[ForeignConstant]) -> String {
    let mut text = String::new();
    let mut seen = Vec::new();
    for ForeignConstant { name, foreign, .. } in all {
        let is_class = ERROR_CLASSES.iter().any(|class| class.name == *name);
        let constant = CONSTANTS.iter().find(|constant| constant.name == *name);
        let is_int = constant.is_some_and(|constant| constant.kind == ConstantKind::Int);
        if (is_class || is_int) && !seen.contains(name) {
            seen.push(name);
            let _ = writeln!(text, "pub(crate) const {name}: std::ffi::c_int = {foreign};");
        }
    }
    text
}

/// The integers of predefined handles, for an ABI whose C handles are addresses of objects.
fn integers(all: &[ForeignObject]) -> String {
    let mut text = String::new();
    for (of, word) in HANDLES {
        let known: Vec<_> = all
            .iter()
            .filter(|object| object.of == Some(of))
            .filter_map(|object| Some((object.handle?, object.fortran?)))
            .collect();
        let inward = arms(known.iter().map(|(handle, number)| (i64::from(*number), *handle)));
        let outward = arms(known.iter().map(|(handle, number)| (*handle, i64::from(*number))));
        let _ = writeln!(
            text,
            "#[inline(always)] pub(crate) fn {word}_of(number: c_int) -> Option<usize> \
             {{ match number {{ {inward} _ => None }} }}\n\
             #[inline(always)] pub(crate) fn {word}_number(handle: usize) -> Option<c_int> \
             {{ match handle {{ {outward} _ => None }} }}"
        );
    }
    text
}

/// The arms of a match. The first of several for one value counts.
fn arms(pairs: impl Iterator<Item = (i64, i64)>) -> String {
    let mut text = String::new();
    let mut seen = Vec::new();
    for (from, to) in pairs {
        if !seen.contains(&from) {
            seen.push(from);
            let _ = write!(text, "{from} => Some({to}), ");
        }
    }
    text
}
