//! Handles of the functions that entry points call: those of the standard ABI.

pub(crate) use crate::kinds::*;

#[inline(always)]
fn same(handle: usize) -> usize {
    handle
}

handles! {
    comm usize, same, same;
    datatype usize, same, same;
    errhandler usize, same, same;
    file usize, same, same;
    group usize, same, same;
    info usize, same, same;
    message usize, same, same;
    op usize, same, same;
    request usize, same, same;
    session usize, same, same;
    win usize, same, same;
}
