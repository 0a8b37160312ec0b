//! Writes the Fortran entry points from the table of functions, and sets the linker arguments.

mod descriptors;
mod entry;

use std::env;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::path::Path;
use std::process::Command;

use oxmpi_abi::fortran::{
    F08_HANDLES, PREDEFINED_PROCEDURES, SENTINELS, SIZEOF, SizeofType, f08_procedures, procedures,
};
use oxmpi_abi::table::{FunctionArgument, functions};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build");
    let out = env::var("OUT_DIR")?;
    let out = Path::new(&out);
    fs::write(out.join("c.rs"), declarations())?;
    let entries: String = procedures()
        .iter()
        .flat_map(|procedure| [entry::entry(procedure, ""), entry::entry(procedure, "P")])
        .collect();
    let f08: String = f08_procedures()
        .iter()
        .flat_map(|procedure| [entry::f08_entry(procedure, ""), entry::f08_entry(procedure, "P")])
        .collect();
    let sections: String = f08_procedures().iter().filter_map(descriptors::sections).collect();
    fs::write(out.join("entries.rs"), entries + &f08)?;
    fs::write(out.join("sections.rs"), sections)?;
    let own = own_procedures();
    fs::write(out.join("own.rs"), own)?;
    fs::write(out.join("sentinels.rs"), sentinels())?;
    link_arguments(out)
}

/// The C functions that entry points and bodies call, under both names.
fn declarations() -> String {
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
    text += "}\n";
    // A pointer to a function with the type of each, for the bodies written by hand.
    for function in functions().iter().filter(|function| !function.is_extension()) {
        let types: Vec<_> = function.arguments.iter().map(FunctionArgument::rust_type).collect();
        let result = oxmpi_abi::table::rust_base(function.result);
        let more = if function.is_variadic() { ", ..." } else { "" };
        let _ = writeln!(
            text,
            "pub(crate) type {} = unsafe extern \"C-unwind\" fn({}{more}) -> {result};",
            entry::callee_type(&function.name),
            types.join(", ")
        );
    }
    text
}

/// The procedures that call no C function.
fn own_procedures() -> String {
    let mut text = String::new();
    for prefix in ["mpi", "pmpi"] {
        let name = format!("{prefix}_f_sync_reg");
        let _ = writeln!(
            text,
            "entry! {{ {} fn {name}(_buf: *mut c_void) {{ }} }}",
            entry::symbols(&name)
        );
        let _ = writeln!(
            text,
            "entry! {{ \"{name}_f08ts_\" fn {name}_f08ts(_buf: *const ArrayDescriptor) {{ }} }}"
        );
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

/// The COMMON blocks. The symbols are defined in assembler and declared as external, so that the
/// compiler reads their addresses from the global offset table: a program's own COMMON block of
/// the same name takes the place of the library's.
fn sentinels() -> String {
    let mut text = String::new();
    let mut assembler = String::from(".bss\n");
    for sentinel in SENTINELS {
        let (block, bytes) = (sentinel.block, sentinel.bytes);
        let align = if bytes < 4 { 1 } else { 4 };
        let _ = write!(
            assembler,
            ".globl {block}_\n.type {block}_, %object\n.size {block}_, {bytes}\n.balign {align}\n\
             {block}_: .zero {bytes}\n"
        );
        let _ = writeln!(
            text,
            "unsafe extern \"C\" {{ #[link_name = \"{block}_\"] static {}: c_char; }}",
            sentinel.name
        );
    }
    assembler += ".text\n";
    let _ = writeln!(text, "std::arch::global_asm!({assembler:?});");
    text
}

fn link_arguments(out: &Path) -> Result<(), Box<dyn Error>> {
    let script = out.join("exports.map");
    fs::write(&script, "{ global: mpi_*; pmpi_*; MPI_*; PMPI_*; oxmpi*; };\n")?;
    for argument in [
        format!("--version-script={}", script.display()),
        "-soname,libmpifort_oxmpi.so.1".to_owned(),
        // The C library is in the same directory.
        "-rpath,$ORIGIN".to_owned(),
        "--enable-new-dtags".to_owned(),
    ] {
        println!("cargo::rustc-cdylib-link-arg=-Wl,{argument}");
    }
    // The library needs libmpi_abi.so.1, which is not built yet: an empty library of this name.
    let stub = out.join("libmpi_abi.so");
    let source = out.join("empty.c");
    fs::write(&source, "")?;
    let made = Command::new("cc")
        .args(["-shared", "-nostdlib", "-Wl,-soname,libmpi_abi.so.1", "-o"])
        .args([&stub, &source])
        .status()?;
    if !made.success() {
        return Err("cc cannot make an empty library".into());
    }
    println!("cargo::rustc-cdylib-link-arg=-Wl,--no-as-needed");
    println!("cargo::rustc-cdylib-link-arg={}", stub.display());
    println!("cargo::rustc-cdylib-link-arg=-Wl,--as-needed");
    Ok(())
}
