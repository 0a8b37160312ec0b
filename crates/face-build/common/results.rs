//! Functions whose results need more than one conversion each.
#![allow(non_snake_case)]

use crate::convert::*;
use crate::core;
use crate::handles::*;
use crate::special::VERSION;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Aint, Count};
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicI32, Ordering};

/// The version of MPI that programs of this ABI expect.
pub(crate) unsafe fn MPI_Get_version(version: *mut c_int, subversion: *mut c_int) -> c_int {
    let (mut own, mut own_sub) = (0, 0);
    unsafe {
        let code = core!(MPI_Get_version)(
            number_place(version, &mut own),
            number_place(subversion, &mut own_sub),
        );
        if code == 0 {
            (*version, *subversion) = VERSION;
        }
        code_out(code)
    }
}

// Attributes.

/// The value of MPI_LASTUSEDCODE, whose address a program keeps.
static LAST_CODE: AtomicI32 = AtomicI32::new(0);

macro_rules! added {
    ($($name:ident($($arg:ident: $convert:ident),*);)*) => { $(
        pub(crate) unsafe fn $name($($arg: c_int,)* made: *mut c_int) -> c_int {
            let mut new = NOT_STORED;
            unsafe {
                let code = core!($name)($($convert($arg),)* number_place(made, &mut new));
                number_out(made, new, code_out);
                if code == 0 {
                    LAST_CODE.fetch_max(code_out(new), Ordering::Relaxed);
                }
                code_out(code)
            }
        }
    )* };
}

added! {
    MPI_Add_error_class();
    MPI_Add_error_code(class: code_in);
}

/// The address of an attribute's value, which differs for predefined attributes with constants of
/// the ABI.
unsafe fn attribute_out(key: c_int, value: *mut c_void) -> *mut c_void {
    static FLAVORS: [c_int; 5] = [0, 1, 2, 3, 4];
    static MODELS: [c_int; 3] = [0, 1, 2];
    static PLACES: [c_int; 4] = [-1, -2, -3, -4];
    let number = || unsafe { *value.cast::<c_int>() };
    let of = |all: &'static [c_int], wanted: c_int| {
        let found = all.iter().find(|known| **known == wanted);
        found.map_or(value, |found| (&raw const *found).cast_mut().cast())
    };
    match key {
        _ if value.is_null() => value,
        abi::MPI_WIN_CREATE_FLAVOR => of(&FLAVORS, flavor_out(number())),
        abi::MPI_WIN_MODEL => of(&MODELS, model_out(number())),
        abi::MPI_LASTUSEDCODE => {
            LAST_CODE.store(code_out(number()), Ordering::Relaxed);
            LAST_CODE.as_ptr().cast()
        }
        abi::MPI_IO | abi::MPI_HOST if number() < 0 => of(&PLACES, rank_out(number())),
        _ => value,
    }
}

macro_rules! attributes {
    ($($word:ident $name:ident;)*) => { $(
        pub(crate) unsafe fn $name(
            object: $word::Foreign,
            key: c_int,
            value: *mut c_void,
            flag: *mut c_int,
        ) -> c_int {
            let key = keyval_in(key);
            unsafe {
                let code = core!($name)($word::input(object), key, value, flag);
                if code == 0 && *flag != 0 {
                    let place = value.cast::<*mut c_void>();
                    *place = attribute_out(key, *place);
                }
                code_out(code)
            }
        }
    )* };
}

attributes! {
    comm MPI_Attr_get;
    comm MPI_Comm_get_attr;
    datatype MPI_Type_get_attr;
    win MPI_Win_get_attr;
}

// The contents of datatypes.

/// Converts the constants among the integers with which a datatype was made.
unsafe fn constants_out(datatype: usize, integers: *mut c_int, count: i64, has_large: bool) {
    let [mut numbers, mut addresses, mut large, mut types]: [Count; 4] = [0; 4];
    let mut combiner = 0;
    unsafe {
        let code = core!(MPI_Type_get_envelope_c)(
            datatype,
            &mut numbers,
            &mut addresses,
            &mut large,
            &mut types,
            &mut combiner,
        );
        if code != 0 {
            return;
        }
        let place = |at: i64| integers.add(at as usize);
        let change = |at: i64, convert: fn(c_int) -> c_int| {
            if at < count {
                *place(at) = convert(*place(at));
            }
        };
        match combiner {
            // Dimensions, then three lists of that length unless they are large, then the order.
            abi::MPI_COMBINER_SUBARRAY if count > 0 => {
                let lists = if has_large { 0 } else { 3 };
                change(1 + lists * i64::from(*integers), order_out);
            }
            // Size, rank and dimensions, then lists of that length: the extents unless they are
            // large, the distributions, their arguments, the processes. Then the order.
            abi::MPI_COMBINER_DARRAY if count > 2 => {
                let dimensions = i64::from(*integers.add(2));
                let distributions = 3 + if has_large { 0 } else { dimensions };
                for at in 0..dimensions {
                    change(distributions + at, array_of_distribs_out);
                    change(distributions + dimensions + at, darg_out);
                }
                change(distributions + 3 * dimensions, order_out);
            }
            _ => {}
        }
    }
}

pub(crate) unsafe fn MPI_Type_get_contents(
    of: datatype::Foreign,
    max_integers: c_int,
    max_addresses: c_int,
    max_datatypes: c_int,
    integers: *mut c_int,
    addresses: *mut Aint,
    datatypes: *mut datatype::Foreign,
) -> c_int {
    let of = datatype::input(of);
    unsafe {
        let mut made = datatype::unset(datatypes, max_datatypes);
        let code = core!(MPI_Type_get_contents)(
            of,
            max_integers,
            max_addresses,
            max_datatypes,
            integers,
            addresses,
            array_place(datatypes.is_null(), &mut made),
        );
        datatype::give(datatypes, &made);
        if code == 0 {
            constants_out(of, integers, max_integers.into(), false);
        }
        code_out(code)
    }
}

pub(crate) unsafe fn MPI_Type_get_contents_c(
    of: datatype::Foreign,
    max_integers: Count,
    max_addresses: Count,
    max_large_counts: Count,
    max_datatypes: Count,
    integers: *mut c_int,
    addresses: *mut Aint,
    large_counts: *mut Count,
    datatypes: *mut datatype::Foreign,
) -> c_int {
    let of = datatype::input(of);
    unsafe {
        let mut made = datatype::unset(datatypes, max_datatypes);
        let code = core!(MPI_Type_get_contents_c)(
            of,
            max_integers,
            max_addresses,
            max_large_counts,
            max_datatypes,
            integers,
            addresses,
            large_counts,
            array_place(datatypes.is_null(), &mut made),
        );
        datatype::give(datatypes, &made);
        if code == 0 {
            constants_out(of, integers, max_integers, max_large_counts > 0);
        }
        code_out(code)
    }
}
