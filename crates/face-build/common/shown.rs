//! The values of this ABI in texts for the user, which `libmpi_abi.so.1` writes.

use crate::convert::*;
use crate::handles::*;
use oxmpi_abi::shown::ValueKind;
use std::ffi::c_int;

/// The number of a handle.
trait HandleNumber {
    fn number(self) -> i64;
}

impl HandleNumber for c_int {
    fn number(self) -> i64 {
        self.cast_unsigned().into()
    }
}

impl HandleNumber for usize {
    fn number(self) -> i64 {
        self as i64
    }
}

/// The value that a program of this ABI has for a value of the standard ABI.
pub(crate) extern "C" fn foreign_value(kind: ValueKind, value: i64) -> i64 {
    let handle = value as usize;
    if kind.is_handle() && handle & MARKS == REFUSED {
        return (handle & !MARKS) as i64;
    }
    let number = value as c_int;
    let number = match kind {
        ValueKind::Comm => return comm::foreign(handle).number(),
        ValueKind::Datatype => return datatype::foreign(handle).number(),
        ValueKind::Errhandler => return errhandler::foreign(handle).number(),
        ValueKind::File => return file::foreign(handle).number(),
        ValueKind::Group => return group::foreign(handle).number(),
        ValueKind::Info => return info::foreign(handle).number(),
        ValueKind::Message => return message::foreign(handle).number(),
        ValueKind::Op => return op::foreign(handle).number(),
        ValueKind::Request => return request::foreign(handle).number(),
        ValueKind::Session => return session::foreign(handle).number(),
        ValueKind::Win => return win::foreign(handle).number(),
        ValueKind::Rank => rank_shown(number),
        ValueKind::Tag => tag_shown(number),
        ValueKind::Keyval => keyval_shown(number),
        ValueKind::Code => code_shown(number),
        ValueKind::Assert => assert_out(number),
        ValueKind::Amode => amode_out(number),
        ValueKind::Distribution => array_of_distribs_shown(number),
        ValueKind::LockType => lock_type_shown(number),
        ValueKind::Order => order_shown(number),
        ValueKind::SplitType => split_type_shown(number),
        ValueKind::TypeClass => typeclass_shown(number),
        ValueKind::Whence => whence_shown(number),
    };
    number.into()
}
