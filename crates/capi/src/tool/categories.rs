//! Categories (MPI-5.0 section 15.3.9).

use super::outputs::{name, put, put_indices, put_string, put_wanted};
use super::{at, call};
use oxmpi_abi::constants as abi;
use oxmpi_core::tool::categories::Category;
use std::ffi::{c_char, c_int};

const UPDATE_NUMBER: c_int = 1;

mpi! {
    /// Test of this module: tests/c/mpit_categories.c.
    fn MPI_T_category_get_num(num_cat: *mut c_int) -> c_int {
        // SAFETY: the C program passes a place for an integer.
        call(|| unsafe { put(num_cat, Category::ALL.len() as c_int) })
    }

    fn MPI_T_category_get_info(
        cat_index: c_int,
        name: *mut c_char,
        name_len: *mut c_int,
        desc: *mut c_char,
        desc_len: *mut c_int,
        num_cvars: *mut c_int,
        num_pvars: *mut c_int,
        num_categories: *mut c_int,
    ) -> c_int {
        call(|| {
            let category = at(&Category::ALL, cat_index)?;
            // SAFETY: the C program passes a place for each result that it wants, else null.
            unsafe {
                put_string(category.name(), name, name_len);
                put_string(category.help(), desc, desc_len);
                put_wanted(num_cvars, category.params().len() as c_int);
                put_wanted(num_pvars, category.pvars().len() as c_int);
                put_wanted(num_categories, category.categories().len() as c_int);
            }
            Ok(())
        })
    }

    fn MPI_T_category_get_num_events(cat_index: c_int, num_events: *mut c_int) -> c_int {
        call(|| {
            let events = at(&Category::ALL, cat_index)?.events();
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(num_events, events.len() as c_int) }
        })
    }

    fn MPI_T_category_get_index(name: *const c_char, cat_index: *mut c_int) -> c_int {
        call(|| {
            // SAFETY: the C program passes a string.
            let name = unsafe { self::name(name) }?;
            let place = Category::ALL.iter().position(|category| category.name() == name);
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(cat_index, place.ok_or(abi::MPI_T_ERR_INVALID_NAME)? as c_int) }
        })
    }

    fn MPI_T_category_get_cvars(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
        // SAFETY: the C program passes room for `len` integers.
        call(|| unsafe { put_indices(&at(&Category::ALL, cat_index)?.params(), len, indices) })
    }

    fn MPI_T_category_get_pvars(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
        // SAFETY: the C program passes room for `len` integers.
        call(|| unsafe { put_indices(&at(&Category::ALL, cat_index)?.pvars(), len, indices) })
    }

    fn MPI_T_category_get_events(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
        // SAFETY: the C program passes room for `len` integers.
        call(|| unsafe { put_indices(&at(&Category::ALL, cat_index)?.events(), len, indices) })
    }

    fn MPI_T_category_get_categories(cat_index: c_int, len: c_int, indices: *mut c_int) -> c_int {
        call(|| {
            let inside = at(&Category::ALL, cat_index)?.categories();
            let places: Vec<usize> = inside.iter().map(|category| *category as usize).collect();
            // SAFETY: the C program passes room for `len` integers.
            unsafe { put_indices(&places, len, indices) }
        })
    }

    /// The categories never change.
    fn MPI_T_category_changed(update_number: *mut c_int) -> c_int {
        // SAFETY: the C program passes a place for an integer.
        call(|| unsafe { put(update_number, UPDATE_NUMBER) })
    }
}
