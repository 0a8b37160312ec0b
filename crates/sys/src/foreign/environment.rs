//! Environment variables that are set for a limited time.

use std::ffi::{CStr, c_char};
use std::ptr::null;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The environment as the C library has it: pointers to `NAME=value`, and null.
type Array = *const *const c_char;

unsafe extern "C" {
    static mut environ: Array;
}

/// Variables in the environment of this process until [`EnvironmentRequests::withdraw`].
///
/// setenv(3) may move the array of the environment while another thread reads it by getenv(3). This
/// type therefore builds a new array with the old and the new variables, and replaces the address
/// of the array: a reader gets either array, and none is ever freed. An array takes a few hundred
/// bytes, and a process opens few libraries.
pub(super) struct EnvironmentRequests {
    before: Array,
    /// The new array, with a copy of its content; `None` if all variables were set already.
    ours: Option<(Array, Vec<*const c_char>)>,
    names: Vec<(&'static CStr, *const c_char)>,
}

// SAFETY: the pointers refer to memory that is never freed, or are only compared.
unsafe impl Send for EnvironmentRequests {}

impl EnvironmentRequests {
    pub(super) fn set(variables: &[(&'static CStr, &CStr)]) -> EnvironmentRequests {
        let before = array().load(Ordering::Acquire).cast_const();
        let mut names = Vec::new();
        for (name, value) in variables {
            // SAFETY: the name ends with a zero.
            if unsafe { libc::getenv(name.as_ptr()) }.is_null() {
                let text = [name.to_bytes(), b"=", value.to_bytes_with_nul()].concat();
                names.push((*name, Box::leak(text.into_boxed_slice()).as_ptr().cast()));
            }
        }
        if names.is_empty() {
            return EnvironmentRequests { before, ours: None, names };
        }
        let mut all = Vec::new();
        let mut at = before;
        // SAFETY: the array of the environment, if there is one, ends with null. Every reader of
        // the environment relies on other threads not moving it meanwhile.
        unsafe {
            while !at.is_null() && !(*at).is_null() {
                all.push(*at);
                at = at.add(1);
            }
        }
        all.extend(names.iter().map(|(_, text)| *text));
        all.push(null());
        let ours = Box::leak(all.clone().into_boxed_slice()).as_ptr();
        array().store(ours.cast_mut(), Ordering::Release);
        EnvironmentRequests { before, ours: Some((ours, all)), names }
    }

    /// Removes the variables. Changes that other code has made meanwhile stay.
    pub(super) fn withdraw(self) {
        let EnvironmentRequests { before, ours, names } = self;
        let Some((ours, all)) = ours else { return };
        // SAFETY: the array is never freed, and has `all.len()` elements.
        let is_changed = unsafe { std::slice::from_raw_parts(ours, all.len()) } != all;
        let (ours, before) = (ours.cast_mut(), before.cast_mut());
        if !is_changed
            && array().compare_exchange(ours, before, Ordering::AcqRel, Ordering::Acquire).is_ok()
        {
            return;
        }
        // The library has set a variable, in this array or in a larger one to which setenv(3) has
        // copied this one. The array of the library stays.
        for (name, text) in names {
            // SAFETY: the name ends with a zero. setenv(3) has just changed the environment, so
            // another change disturbs no thread of the program. A variable with another text
            // belongs to the code that has set it.
            unsafe {
                let value = libc::getenv(name.as_ptr());
                if value.cast_const() == text.add(name.to_bytes().len() + 1) {
                    libc::unsetenv(name.as_ptr());
                }
            }
        }
    }
}

fn array() -> &'static AtomicPtr<*const c_char> {
    // SAFETY: the C library's variable has the size and alignment of a pointer and lives as long as
    // the process. The C library reads and writes it by single loads and stores.
    unsafe { AtomicPtr::from_ptr((&raw mut environ).cast()) }
}
