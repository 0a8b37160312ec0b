//! The objects whose addresses are handles.

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
