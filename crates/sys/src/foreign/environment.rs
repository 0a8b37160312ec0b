//! Variables that are in the environment for a while.

use std::ffi::{CStr, c_char};
use std::ptr::null;
use std::sync::atomic::{AtomicPtr, Ordering};

/// The array of the environment: `NAME=value` each, and null.
type Array = *const *const c_char;

unsafe extern "C" {
    /// As POSIX names it (environ(7)).
    static mut environ: Array;
}

/// Variables that this process has in its environment until [`Requests::withdraw`].
///
/// setenv(3) may move the array of the environment while another thread reads it by getenv(3). So a
/// new array is made, with the same variables and the new ones, and the address of the array is
/// replaced: a reader has the one or the other, and none is ever freed. An array takes a few
/// hundred bytes, and a process opens few libraries.
pub(super) struct Requests {
    before: Array,
    /// The array with the variables, and what was put there; `None`: all of them were in the
    /// environment.
    ours: Option<(Array, Vec<*const c_char>)>,
    names: Vec<(&'static CStr, *const c_char)>,
}

// SAFETY: the addresses are those of memory that is never freed, or are compared only; nothing is
// bound to a thread.
unsafe impl Send for Requests {}

impl Requests {
    /// Sets each of the variables that is not there.
    pub(super) fn set(variables: &[(&'static CStr, &CStr)]) -> Requests {
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
            return Requests { before, ours: None, names };
        }
        let mut all = Vec::new();
        let mut at = before;
        // SAFETY: the array of the environment, if there is one, ends with null. That nobody moves
        // it while another thread reads it is what every reader of the environment relies on.
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
        Requests { before, ours: Some((ours, all)), names }
    }

    /// Takes them out again. The rest is as it was, but for what others have set meanwhile.
    pub(super) fn withdraw(self) {
        let Requests { before, ours, names } = self;
        let Some((ours, all)) = ours else { return };
        // SAFETY: the array is never freed, and has as many elements.
        let is_changed = unsafe { std::slice::from_raw_parts(ours, all.len()) } != all;
        let (ours, before) = (ours.cast_mut(), before.cast_mut());
        if !is_changed && array().compare_exchange(ours, before, Ordering::AcqRel, Ordering::Acquire).is_ok()
        {
            return;
        }
        // The library has set a variable: in our array, or in a larger one that setenv(3) has made
        // of it. That stays.
        for (name, text) in names {
            // SAFETY: the name ends with a zero. The environment was just changed by setenv(3), so
            // the program has no thread that such a change disturbs. A variable that has another
            // text by now belongs to whoever has set it.
            unsafe {
                let value = libc::getenv(name.as_ptr());
                if value.cast_const() == text.add(name.to_bytes().len() + 1) {
                    libc::unsetenv(name.as_ptr());
                }
            }
        }
    }
}

/// The address of the array of the environment.
fn array() -> &'static AtomicPtr<*const c_char> {
    // SAFETY: the C library's variable, of the size and alignment of a pointer, is there as long as
    // the process. The C library reads and writes it by single loads and stores.
    unsafe { AtomicPtr::from_ptr((&raw mut environ).cast()) }
}
