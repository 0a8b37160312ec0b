//! `docs/functions.md`: every function, from the table.

#[test]
fn the_page_of_functions_is_current() {
    super::is_current("functions.md", &oxmpi_abi::pages::markdown());
}
