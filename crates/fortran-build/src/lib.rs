//! Writes the entry points of a library for Fortran programs from the table of functions. Build
//! scripts call [`write`]: that of `libmpifort_oxmpi.so.1`, and those of the libraries for Fortran
//! programs that were built for other MPIs.
//!
//! The sources that the libraries share are in `crates/fortran/src`.
#![forbid(unsafe_code)]

mod descriptors;
mod entry;

use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use oxmpi_abi::fortran::{
    F08_HANDLES, PREDEFINED_PROCEDURES, Procedure, SENTINELS, SIZEOF, Sentinel, SizeofType,
    f08_procedures, procedures,
};
use oxmpi_abi::table::{Function, FunctionArgument, functions};

/// A library for Fortran programs.
#[derive(Clone, Copy, Debug)]
pub struct FortranLibrary<'a> {
    /// The variables with the special arguments.
    pub special: &'a [SpecialVariable],
    /// How programs with module `mpi_f08` pass buffers.
    pub f08: F08,
    /// Functions that have no procedure.
    pub missing: &'a [&'a str],
}

/// A variable of programs, whose address the library knows: a COMMON block, or one of a module.
#[derive(Clone, Debug)]
pub struct SpecialVariable {
    /// The name for the linker.
    pub symbol: &'static str,
    /// The size.
    pub bytes: usize,
    /// The special arguments in it, each with its offset in bytes.
    pub arguments: Vec<(&'static str, usize)>,
}

impl SpecialVariable {
    /// A variable that is one special argument.
    pub fn of(argument: &'static str, symbol: &'static str, bytes: usize) -> SpecialVariable {
        SpecialVariable { symbol, bytes, arguments: vec![(argument, 0)] }
    }
}

/// The entry points of module `mpi_f08`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum F08 {
    /// `mpi_x_f08_`, with addresses of buffers.
    Addresses,
    /// Those of this project: large counts, and also `mpi_x_f08ts_` with the array descriptors of
    /// the Fortran standard.
    Descriptors,
    /// `mpi_x_f08_`, and `mpi_x_f08ts_` with the array descriptors of GNU Fortran for buffers. A
    /// name with large counts ends with `_large`, and names for tools begin with `pmpir`.
    GnuDescriptors,
}

impl FortranLibrary<'_> {
    fn has(&self, procedure: &Procedure) -> bool {
        !self.missing.contains(&procedure.name)
    }

    fn has_f08(&self, procedure: &Procedure) -> bool {
        let is_large = procedure.function.is_some_and(|function| function.large);
        self.has(procedure) && (!is_large || self.f08 != F08::Addresses)
    }
}

/// The variables of this project's own `mpif.h` and modules.
pub fn own_variables() -> Vec<SpecialVariable> {
    let variable =
        |one: &Sentinel| SpecialVariable::of(one.name, format!("{}_", one.block).leak(), one.bytes);
    SENTINELS.iter().map(variable).collect()
}

/// Writes `entries.rs`, `own.rs` (the procedures that call no C function), `sections.rs` and
/// `sentinels.rs` to a directory.
/// # Errors
/// If a file cannot be written.
pub fn write(out: &Path, library: &FortranLibrary<'_>) -> Result<(), Box<dyn Error>> {
    let both = ["", "P"];
    let all = procedures().iter().filter(|procedure| library.has(procedure));
    let entries: String =
        all.flat_map(|procedure| both.map(|prefix| entry::entry(procedure, prefix))).collect();
    let has_descriptors = library.f08 != F08::Addresses;
    let all = || f08_procedures().iter().filter(|procedure| library.has_f08(procedure));
    let f08: String = all()
        .flat_map(|procedure| both.map(|prefix| entry::f08_entry(procedure, prefix, library.f08)))
        .collect();
    let sections: String =
        all().filter(|_| has_descriptors).filter_map(descriptors::sections).collect();
    fs::write(out.join("entries.rs"), entries + &f08)?;
    fs::write(out.join("sections.rs"), sections)?;
    fs::write(out.join("own.rs"), own_procedures(library.f08))?;
    fs::write(out.join("sentinels.rs"), sentinels(library.special))?;
    Ok(())
}

/// The declarations of the C functions that entry points and bodies call, under both names.
pub fn declarations() -> String {
    let mut text = String::from("unsafe extern \"C-unwind\" {\n");
    for function in functions().iter().filter(|function| !function.is_extension()) {
        let list: Vec<_> = function
            .arguments
            .iter()
            .map(|argument| format!("{}: {}", argument.name(), argument.rust_type()))
            .collect();
        let result = oxmpi_abi::table::rust_base(function.result);
        let more = if function.is_variadic() { ", ..." } else { "" };
        for prefix in ["", "P"] {
            let _ = writeln!(
                text,
                "pub(crate) fn {prefix}{}({}{more}) -> {result};",
                function.name,
                list.join(", ")
            );
        }
    }
    text + "}\n"
}

/// The name of a type of pointers to a C function, and the type, for the bodies written by hand.
pub fn function_type(function: &Function) -> String {
    let types: Vec<_> = function.arguments.iter().map(FunctionArgument::rust_type).collect();
    let result = oxmpi_abi::table::rust_base(function.result);
    let more = if function.is_variadic() { ", ..." } else { "" };
    format!(
        "pub(crate) type {} = unsafe extern \"C-unwind\" fn({}{more}) -> {result};\n",
        entry::callee_type(&function.name),
        types.join(", ")
    )
}

/// The procedures that call no C function.
fn own_procedures(f08: F08) -> String {
    let mut text = String::new();
    for prefix in ["mpi", "pmpi"] {
        let name = format!("{prefix}_f_sync_reg");
        let _ = writeln!(
            text,
            "entry! {{ {} fn {name}(_buf: *mut c_void) {{ }} }}",
            entry::symbols(&name)
        );
        match f08 {
            F08::Addresses => {
                let _ = writeln!(text, "alias! {{ \"{name}_\" \"{name}_f08_\" }}");
            }
            F08::Descriptors | F08::GnuDescriptors => {
                let _ = writeln!(
                    text,
                    "entry! {{ \"{name}_f08ts_\" fn {name}_f08ts(_buf: *const ArrayDescriptor) \
                     {{ }} }}"
                );
            }
        }
        for to in ["f2f08", "f082f"] {
            let name = format!("{prefix}_status_{to}");
            let _ = writeln!(
                text,
                "entry! {{ {} fn {name}(from: *const Status, to: *mut Status, ierror: *mut c_int) \
                 {{ *to = *from; put(ierror, 0); }} }}",
                entry::symbols(&name)
            );
        }
    }
    if f08 == F08::Descriptors {
        text += &of_modules();
    }
    for name in PREDEFINED_PROCEDURES {
        let lower = name.to_lowercase();
        // The deprecated functions have INTEGER attributes.
        let value = if matches!(*name, "MPI_DUP_FN" | "MPI_NULL_COPY_FN" | "MPI_NULL_DELETE_FN") {
            "c_int"
        } else {
            "Aint"
        };
        let (arguments, body) = match *name {
            _ if name.starts_with("MPI_CONVERSION_FN_NULL") => ("", ""),
            _ if name.ends_with("DELETE_FN") => (
                "_object: *mut c_int, _key: *mut c_int, _value: *mut c_void, \
                 _state: *mut c_void, ierror: *mut c_int",
                "put(ierror, 0);",
            ),
            _ if name.ends_with("NULL_COPY_FN") => (
                "_object: *mut c_int, _key: *mut c_int, _state: *mut c_void, \
                 _from: *const c_void, _to: *mut c_void, flag: *mut c_int, ierror: *mut c_int",
                "put(flag, 0); put(ierror, 0);",
            ),
            _ => (
                "_object: *mut c_int, _key: *mut c_int, _state: *mut c_void, \
                 from: *const VALUE, to: *mut VALUE, flag: *mut c_int, ierror: *mut c_int",
                "put(to, *from); put(flag, 1); put(ierror, 0);",
            ),
        };
        let _ = writeln!(
            text,
            "entry! {{ {} fn {lower}({}) {{ {body} }} }}",
            entry::symbols(&lower),
            arguments.replace("VALUE", value)
        );
    }
    text
}

/// The operators of this project's module `mpi_f08`, and MPI_SIZEOF of its modules.
fn of_modules() -> String {
    let mut text = String::new();
    for handle in F08_HANDLES {
        for (word, operator) in [("eq", "=="), ("ne", "!=")] {
            let name = format!("oxmpi_{}_{word}", handle.trim_start_matches("MPI_"));
            let _ = writeln!(
                text,
                "entry! {{ {} fn {name}(one: *const c_int, other: *const c_int) -> c_int \
                 {{ c_int::from(*one {operator} *other) }} }}",
                entry::symbols(&name.to_lowercase())
            );
        }
    }
    for SizeofType { suffix, bytes, .. } in SIZEOF {
        let (arguments, size) = match bytes {
            0 => (", length: usize", "length as c_int".to_owned()),
            bytes => ("", bytes.to_string()),
        };
        for prefix in ["mpi", "pmpi"] {
            let name = format!("{prefix}_sizeof_{}", suffix.to_lowercase());
            let _ = writeln!(
                text,
                "entry! {{ {} fn {name}(_x: *const c_void, size: *mut c_int, ierror: *mut c_int\
                 {arguments}) {{ put(size, {size}); put(ierror, 0); }} }}",
                entry::symbols(&name)
            );
            if bytes == 0 {
                let _ = writeln!(
                    text,
                    "entry! {{ \"{name}_f08ts_\" fn {name}_f08ts(x: *const ArrayDescriptor, \
                     size: *mut c_int, ierror: *mut c_int) \
                     {{ put(size, (*x).element_bytes() as c_int); put(ierror, 0); }} }}"
                );
            }
        }
    }
    text
}

/// The variables with special arguments. The symbols are defined in assembler and declared as
/// external, so that the compiler reads their addresses from the global offset table: a program's
/// own COMMON block of the same name takes the place of the library's.
fn sentinels(variables: &[SpecialVariable]) -> String {
    let mut text = String::new();
    let mut assembler = String::from(".bss\n");
    for (at, SpecialVariable { symbol, bytes, .. }) in variables.iter().enumerate() {
        let align = if *bytes < 4 { 1 } else { 4 };
        let _ = write!(
            assembler,
            ".globl {symbol}\n.type {symbol}, %object\n.size {symbol}, {bytes}\n.balign {align}\n\
             {symbol}: .zero {bytes}\n"
        );
        let _ = writeln!(
            text,
            "unsafe extern \"C\" {{ #[link_name = \"{symbol}\"] static SPECIAL_{at}: c_char; }}"
        );
    }
    assembler += ".text\n";
    let _ = writeln!(text, "std::arch::global_asm!({assembler:?});");
    for Sentinel { name, .. } in SENTINELS {
        let places = variables.iter().enumerate().filter_map(|(at, variable)| {
            let (_, offset) = variable.arguments.iter().find(|(argument, _)| *argument == name)?;
            Some(format!("is(address, (&raw const SPECIAL_{at}).wrapping_add({offset}))"))
        });
        let places: Vec<_> = places.collect();
        // The programs may have none.
        let (address, is_it) = match places.is_empty() {
            true => ("_", "false".to_owned()),
            false => ("address", places.join(" || ")),
        };
        let _ = writeln!(
            text,
            "#[inline(always)] pub(crate) fn is_{}({address}: *const c_void) -> bool {{ {is_it} }}",
            name.trim_start_matches("MPI_").to_lowercase()
        );
    }
    text
}
