//! Output of the program that is still in buffers when its process ends without exit handlers.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::mem::transmute;
use std::ops::RangeInclusive;
use std::ptr::{null, null_mut};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// The longest wait for Fortran's units: this thread or another one may be within an I/O statement.
const LIMIT: Duration = Duration::from_secs(1);

/// The units that programs name in OPEN or get by NEWUNIT, which are -2, -3 and so on; the standard
/// output is one of them. flang's runtime has no function for all units.
const UNITS: RangeInclusive<c_int> = -1000..=9999;

/// Flushes the streams of C, and the units of GNU Fortran and of flang.
pub(super) fn flush() {
    // SAFETY: a null pointer means all streams.
    unsafe { libc::fflush(null_mut()) };
    let runtimes = (gnu_runtime(), FlangRuntime::found());
    if matches!(runtimes, (None, None)) {
        return;
    }
    let (done, is_done) = mpsc::channel();
    // If this thread uses a unit already, flang's runtime would end the program here, and that of
    // GNU Fortran would wait for ever.
    let flushing = thread::Builder::new().spawn(move || {
        if let Some(flush) = runtimes.0 {
            // SAFETY: a null pointer means all units from 0. A call for a unit of NEWUNIT could
            // meet one of an internal file, which the runtime cannot flush.
            unsafe { flush(null()) };
        }
        if let Some(runtime) = runtimes.1 {
            UNITS.for_each(|unit| runtime.flush(unit));
        }
        let _ = done.send(());
    });
    if flushing.is_ok() {
        let _ = is_done.recv_timeout(LIMIT);
    }
}

type GnuFlush = unsafe extern "C" fn(*const c_int);

fn gnu_runtime() -> Option<GnuFlush> {
    // SAFETY: null becomes `None`; libgfortran's function of this name has this type.
    unsafe { transmute::<*mut c_void, Option<GnuFlush>>(symbol(c"_gfortran_flush_i4")) }
}

type FlushStatement = *mut c_void;
type BeginFlush = unsafe extern "C" fn(c_int, *const c_char, c_int) -> FlushStatement;
type TakeErrors = unsafe extern "C" fn(FlushStatement, bool, bool, bool, bool, bool);
type EndFlush = unsafe extern "C" fn(FlushStatement) -> c_int;

/// The calls that flang makes for the statement FLUSH with IOSTAT.
#[derive(Clone, Copy)]
struct FlangRuntime {
    begin: BeginFlush,
    take_errors: TakeErrors,
    end: EndFlush,
}

impl FlangRuntime {
    fn found() -> Option<FlangRuntime> {
        let begin = symbol(c"_FortranAioBeginFlush");
        let take_errors = symbol(c"_FortranAioEnableHandlers");
        let end = symbol(c"_FortranAioEndIoStatement");
        // SAFETY: null becomes `None`; the runtime's functions of these names have these types.
        unsafe {
            Some(FlangRuntime {
                begin: transmute::<*mut c_void, Option<BeginFlush>>(begin)?,
                take_errors: transmute::<*mut c_void, Option<TakeErrors>>(take_errors)?,
                end: transmute::<*mut c_void, Option<EndFlush>>(end)?,
            })
        }
    }

    /// Does nothing for a unit that is not open. An error of the system is no error of the call.
    fn flush(self, unit: c_int) {
        // SAFETY: the file's name may be missing. Each statement is begun and ended once.
        unsafe {
            let statement = (self.begin)(unit, null(), 0);
            (self.take_errors)(statement, true, false, false, false, false);
            (self.end)(statement);
        }
    }
}

/// The function that the program or its libraries export under this name, or null.
fn symbol(name: &CStr) -> *mut c_void {
    // SAFETY: the name ends with a zero.
    unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) }
}
