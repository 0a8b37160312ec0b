//! Handles: the addresses of [`objects`](crate::objects), and the handles of the standard ABI for
//! objects that the program makes, which are no addresses.

pub(crate) use crate::kinds::*;
use crate::{cxx, objects};

handles! {
    comm usize, objects::input, objects::foreign;
    datatype usize, objects::input, objects::foreign;
    errhandler usize, cxx::errhandler_input, cxx::errhandler_foreign;
    file usize, objects::input, objects::foreign;
    group usize, objects::input, objects::foreign;
    info usize, objects::input, objects::foreign;
    message usize, objects::marked_input, objects::marked_foreign;
    op usize, objects::input, objects::foreign;
    request usize, objects::marked_input, objects::marked_foreign;
    session usize, objects::input, objects::foreign;
    win usize, objects::input, objects::foreign;
}
