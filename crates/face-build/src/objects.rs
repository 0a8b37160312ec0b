//! The objects whose addresses are handles, and variables with addresses in Fortran programs.

use std::fmt::Write;

use oxmpi_abi::foreign::ForeignObject;

use crate::constants::HANDLES;

/// The definitions of the objects, and the table of their handles.
///
/// Assembly defines them, so the compiler knows no address of them and reads each from the global
/// offset table. An executable may have a copy of an object, and then its address is that of the
/// copy.
pub(crate) fn text(all: &[ForeignObject]) -> String {
    let mut text = String::new();
    for ForeignObject { symbol, size, .. } in all {
        let _ = writeln!(
            text,
            "::std::arch::global_asm!(\".pushsection .bss.{symbol}, \\\"aw\\\", @nobits\", \
             \".balign 64\", \".globl {symbol}\", \".type {symbol}, @object\", \
             \".size {symbol}, {size}\", \"{symbol}: .zero {size}\", \".popsection\");\n\
             unsafe extern \"C\" {{ static {symbol}: u8; }}"
        );
    }
    let entries: String = all.iter().map(entry).collect();
    let _ = writeln!(
        text,
        "/// The objects.\npub(crate) static OBJECTS: [Object; {}] = [\n{entries}];",
        all.len()
    );
    text
}

/// The definitions of variables with the addresses of Fortran's MPI_STATUS_IGNORE and its like.
///
/// The symbols are weak: a variable is zero, or the number of bytes, in a process without Fortran.
pub(crate) fn ignored_statuses(all: &[(&str, &str)]) -> String {
    let definition = |(name, place): &(&str, &str)| {
        let symbol = place.split(' ').next().unwrap_or(place);
        format!(
            "::std::arch::global_asm!(\".pushsection .data.rel.ro.{name}, \\\"aw\\\"\", \
             \".balign 8\", \".weak {symbol}\", \".globl {name}\", \".type {name}, @object\", \
             \".size {name}, 8\", \"{name}: .quad {place}\", \".popsection\");\n"
        )
    };
    all.iter().map(definition).collect()
}

fn entry(object: &ForeignObject) -> String {
    let of = object.of.and_then(|of| HANDLES.iter().position(|(name, _)| *name == of));
    format!(
        "    Object {{ address: &raw const {}, handle: {}, kind: {}, fortran: {} }},\n",
        object.symbol,
        object.handle.map_or("None".to_owned(), |handle| format!("Some({handle})")),
        of.unwrap_or(HANDLES.len()),
        object.fortran.unwrap_or(-1)
    )
}
