//! Addresses of functions that may be lacking.

/// Addresses of functions, as the loader finds them: zero if the C library lacks a function. The
/// compiler assumes that the address of a function that it calls is not zero, so the addresses are
/// read from memory.
macro_rules! cells {
    ($($cell:ident = $binding:literal $symbol:literal;)*) => {
        std::arch::global_asm!(
            ".section .data.rel.ro,\"aw\"",
            ".balign 8",
            $(
                concat!($binding, " ", $symbol),
                concat!(".hidden oxmpi_cell_", stringify!($cell)),
                concat!(".globl oxmpi_cell_", stringify!($cell)),
                concat!("oxmpi_cell_", stringify!($cell), ": .quad ", $symbol),
            )*
            ".text",
        );
        $(
            pub(crate) fn $cell() -> usize {
                unsafe extern "C" {
                    #[link_name = concat!("oxmpi_cell_", stringify!($cell))]
                    static CELL: usize;
                }
                // SAFETY: the assembler above defines the variable.
                unsafe { (&raw const CELL).read_volatile() }
            }
        )*
    };
}
pub(crate) use cells;
