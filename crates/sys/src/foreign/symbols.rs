//! The functions and variables of a foreign library.

use std::ffi::{CString, c_void};
use std::mem::transmute_copy;

use super::{ForeignLibrary, LibraryError};

/// Declares the used functions and variables of a foreign library, as its header does: by name and
/// type.
///
/// The result is a structure with a function pointer for each function, and the address of each
/// variable. Its function `of` finds all of them in a
/// [`ForeignLibrary`](crate::foreign::ForeignLibrary); its error names the first one that is
/// missing. The declared types must be those of the library's header: each `unsafe` call relies on
/// them.
///
/// ```
/// oxmpi_sys::foreign_symbols! {
///     /// The used part of the C library.
///     struct CSymbols {
///         fn abs(i32) -> i32;
///         fn free(*mut std::ffi::c_void);
///         static environ: *const *const std::ffi::c_char;
///     }
/// }
/// ```
#[macro_export]
macro_rules! foreign_symbols {
    (
        $(#[$attribute:meta])*
        $vis:vis struct $name:ident {
            $(fn $function:ident($($argument:ty),* $(,)?) $(-> $result:ty)?;)*
            $(static $variable:ident: $content:ty;)*
        }
    ) => {
        $(#[$attribute])*
        #[allow(non_snake_case, reason = "the names are the library's")]
        #[derive(Clone, Copy, Debug)]
        $vis struct $name {
            $($vis $function: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $($vis $variable: *mut $content,)*
        }

        impl $name {
            /// Finds all symbols. The error names the first one that the library does not have.
            $vis fn of(
                library: &$crate::foreign::ForeignLibrary,
            ) -> Result<Self, $crate::foreign::LibraryError> {
                // SAFETY: the declarations state the types of the library's header.
                unsafe {
                    Ok(Self {
                        $($function: library.function(stringify!($function))?,)*
                        $($variable: library.variable(stringify!($variable))?,)*
                    })
                }
            }
        }
    };
}

impl ForeignLibrary {
    /// The function with this name.
    ///
    /// # Safety
    /// `F` is the type of a pointer to this function of the library.
    pub unsafe fn function<F: Copy>(&self, symbol: &'static str) -> Result<F, LibraryError> {
        const { assert!(size_of::<F>() == size_of::<*mut c_void>()) };
        let found = self.address("function", symbol)?;
        // SAFETY: the address is that of the function, whose type the caller guarantees. A function
        // pointer has the form of an address.
        Ok(unsafe { transmute_copy(&found) })
    }

    /// The address of the variable with this name.
    pub fn variable<T>(&self, symbol: &'static str) -> Result<*mut T, LibraryError> {
        self.address("variable", symbol).map(<*mut c_void>::cast)
    }

    fn address(
        &self,
        kind: &'static str,
        symbol: &'static str,
    ) -> Result<*mut c_void, LibraryError> {
        let name = CString::new(symbol).unwrap_or_default();
        // SAFETY: the handle is open, the name ends with a zero.
        let found = unsafe { libc::dlsym(self.handle, name.as_ptr()) };
        if found.is_null() {
            let (file, needed) = (self.file.clone(), self.texts.needed);
            return Err(LibraryError::Symbol { file, kind, symbol, needed });
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::foreign::LibraryTexts;
    use std::ffi::{c_char, c_int};

    static C: LibraryTexts = LibraryTexts { name: "C", needed: "C library", remedy: "" };

    foreign_symbols! {
        struct CSymbols {
            fn abs(c_int) -> c_int;
            fn free(*mut c_void);
            static environ: *const *const c_char;
        }
    }

    foreign_symbols! {
        #[expect(dead_code, reason = "no library has all of them")]
        struct OtherSymbols {
            fn abs(c_int) -> c_int;
            fn no_such_function();
        }
    }

    #[test]
    fn declared_symbols_are_those_of_the_library() {
        let symbols = CSymbols::of(&ForeignLibrary::open(&C, "libc.so.6").unwrap()).unwrap();
        // SAFETY: the functions have these arguments, and free(3) ignores null.
        unsafe {
            assert_eq!((symbols.abs)(-3), 3);
            (symbols.free)(std::ptr::null_mut());
        }
        assert!(!symbols.environ.is_null());
    }

    #[test]
    fn a_library_without_a_declared_symbol_is_refused_by_its_name() {
        let c = ForeignLibrary::open(&C, "libc.so.6").unwrap();
        let text = |error: LibraryError| error.to_string();
        let function = "'libc.so.6' has no function no_such_function: it is no C library";
        assert_eq!(OtherSymbols::of(&c).map(|_| ()).map_err(text), Err(function.to_string()));
        let variable = "'libc.so.6' has no variable no_such_variable: it is no C library";
        let absent = c.variable::<c_int>("no_such_variable").map_err(text);
        assert_eq!(absent, Err(variable.to_string()));
    }
}
