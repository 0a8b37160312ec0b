//! Performance variables (MPI-5.0 section 15.3.7).
//!
//! Handles can be started, stopped, written and reset, except handles of a level, a size or a
//! state.

use super::handles::Handles;
use super::outputs::{fetch, name, put, put_string, put_wanted, verbosity};
use super::{Result, at, call, enums, measured};
use crate::objects::locked;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Datatype, TEnum, TPvarHandle, TPvarSession};
use oxmpi_core::tool::pvars::all;
use oxmpi_core::tool::{Bind, Class, Gauge, Pvar, Value};
use std::ffi::{c_char, c_int, c_void};
use std::sync::{LazyLock, Mutex};

/// The most sessions and handles at a time.
const MOST_SESSIONS: usize = 1 << 12;
const MOST: usize = 1 << 20;

/// A session is the list of its handles.
static SESSIONS: LazyLock<Handles<Mutex<Vec<usize>>>> = LazyLock::new(|| {
    Handles::new(MOST_SESSIONS, abi::MPI_T_ERR_INVALID_SESSION, abi::MPI_T_ERR_OUT_OF_SESSIONS)
});
static HANDLES: LazyLock<Handles<PvarHandle>> = LazyLock::new(|| {
    Handles::new(MOST, abi::MPI_T_ERR_INVALID_HANDLE, abi::MPI_T_ERR_OUT_OF_HANDLES)
});

struct PvarHandle {
    session: TPvarSession,
    pvar: &'static Pvar,
    comm: Option<Comm>,
    gauge: Mutex<MarkedGauge>,
}

/// A value, and the interval of its high-water mark.
struct MarkedGauge {
    gauge: Gauge,
    mark: u64,
}

pub(super) fn free_all() {
    // Another thread may have freed the handle.
    HANDLES.all().for_each(|handle| _ = HANDLES.free(handle));
    SESSIONS.all().for_each(|session| _ = SESSIONS.free(session));
}

/// The value of a variable since the start of MPI.
fn measure(pvar: &Pvar, comm: Option<Comm>, mark: u64) -> Result<Value> {
    let Some(library) = measured()? else {
        // Before MPI is initialised, all values are zero.
        return if comm.is_none() {
            Ok(pvar.class.zero())
        } else {
            Err(abi::MPI_T_ERR_INVALID_HANDLE)
        };
    };
    let Some(comm) = comm else {
        return library.process.measure(pvar, None, mark).ok_or(abi::MPI_T_ERR_NOT_ACCESSIBLE);
    };
    let comm = library.communicator(comm).map_err(|_| abi::MPI_T_ERR_INVALID_HANDLE)?;
    library.process.measure(pvar, Some(&comm), mark).ok_or(abi::MPI_T_ERR_NOT_ACCESSIBLE)
}

/// Begins a new interval of a high-water mark. Returns 0 for other variables.
fn begin_mark(pvar: &Pvar, comm: Option<Comm>) -> Result<u64> {
    let (Class::HighWatermark, Some(comm)) = (pvar.class, comm) else { return Ok(0) };
    let library = measured()?.ok_or(abi::MPI_T_ERR_INVALID_HANDLE)?;
    let comm = library.communicator(comm).map_err(|_| abi::MPI_T_ERR_INVALID_HANDLE)?;
    library.process.begin_mark(&comm).ok_or(abi::MPI_T_ERR_NOT_ACCESSIBLE)
}

impl PvarHandle {
    fn new(session: TPvarSession, pvar: &'static Pvar, comm: Option<Comm>) -> Result<PvarHandle> {
        let mark = begin_mark(pvar, comm)?;
        let gauge = Gauge::new(pvar.class, measure(pvar, comm, mark)?);
        Ok(PvarHandle { session, pvar, comm, gauge: Mutex::new(MarkedGauge { gauge, mark }) })
    }

    fn is_continuous(&self) -> bool {
        self.pvar.class.is_continuous()
    }

    fn now(&self, mark: u64) -> Result<Value> {
        measure(self.pvar, self.comm, mark)
    }

    fn start(&self) -> Result<()> {
        if self.is_continuous() {
            return Err(abi::MPI_T_ERR_PVAR_NO_STARTSTOP);
        }
        let mut marked = locked(&self.gauge);
        if !marked.gauge.is_started() {
            marked.mark = begin_mark(self.pvar, self.comm)?;
            let now = self.now(marked.mark)?;
            marked.gauge.start(now);
        }
        Ok(())
    }

    fn stop(&self) -> Result<()> {
        if self.is_continuous() {
            return Err(abi::MPI_T_ERR_PVAR_NO_STARTSTOP);
        }
        let mut marked = locked(&self.gauge);
        if marked.gauge.is_started() {
            let now = self.now(marked.mark)?;
            marked.gauge.stop(now);
        }
        Ok(())
    }

    fn read(&self) -> Result<Value> {
        let marked = locked(&self.gauge);
        Ok(marked.gauge.value(self.now(marked.mark)?))
    }

    /// Reads and resets in one step, so that a concurrent change counts before or after, and not
    /// never. A mark is read last.
    fn reset(&self) -> Result<Value> {
        if self.is_continuous() {
            return Err(abi::MPI_T_ERR_PVAR_NO_WRITE);
        }
        let mut marked = locked(&self.gauge);
        let now = self.now(marked.mark)?;
        let before = marked.gauge.value(now);
        marked.mark = begin_mark(self.pvar, self.comm)?;
        let now = if self.pvar.class.is_mark() { self.now(marked.mark)? } else { now };
        marked.gauge.reset(now);
        Ok(before)
    }

    fn write(&self, value: Value) -> Result<()> {
        let mut marked = locked(&self.gauge);
        marked.mark = begin_mark(self.pvar, self.comm)?;
        let now = self.now(marked.mark)?;
        marked.gauge.write(value, now);
        Ok(())
    }
}

fn with<R>(
    session: TPvarSession,
    handle: TPvarHandle,
    act: impl FnOnce(&PvarHandle) -> Result<R>,
) -> Result<R> {
    drop(SESSIONS.get(session)?);
    let meter = HANDLES.get(handle)?;
    if meter.session != session {
        return Err(abi::MPI_T_ERR_INVALID_HANDLE);
    }
    act(&meter)
}

/// Runs a call on one handle of a session, or on all handles that are not continuous. Returns the
/// last error.
fn with_all(
    session: TPvarSession,
    handle: TPvarHandle,
    act: impl Fn(&PvarHandle) -> Result<()>,
) -> Result<()> {
    if handle != abi::MPI_T_PVAR_ALL_HANDLES {
        return with(session, handle, act);
    }
    let handles = locked(&*SESSIONS.get(session)?).clone();
    let mut result = Ok(());
    for handle in handles {
        if let Ok(meter) = HANDLES.get(handle)
            && !meter.is_continuous()
        {
            result = act(&meter).and(result);
        }
    }
    result
}

/// # Safety
/// `buf` must be null or have room for a value of the variable's type.
unsafe fn hand_out(value: Value, buf: *mut c_void) -> Result<()> {
    // SAFETY: by the contract of this function.
    unsafe {
        match value {
            Value::Count(count) => put(buf.cast(), count),
            Value::Real(real) => put(buf.cast(), real),
            Value::State(state) => put(buf.cast(), state),
        }
    }
}

const fn class(class: Class) -> c_int {
    match class {
        Class::State => abi::MPI_T_PVAR_CLASS_STATE,
        Class::Level => abi::MPI_T_PVAR_CLASS_LEVEL,
        Class::Size => abi::MPI_T_PVAR_CLASS_SIZE,
        Class::Percentage => abi::MPI_T_PVAR_CLASS_PERCENTAGE,
        Class::HighWatermark => abi::MPI_T_PVAR_CLASS_HIGHWATERMARK,
        Class::Counter => abi::MPI_T_PVAR_CLASS_COUNTER,
        Class::Aggregate => abi::MPI_T_PVAR_CLASS_AGGREGATE,
        Class::Timer => abi::MPI_T_PVAR_CLASS_TIMER,
    }
}

pub(super) const fn binding(bind: Bind) -> c_int {
    match bind {
        Bind::Nothing => abi::MPI_T_BIND_NO_OBJECT,
        Bind::Communicator => abi::MPI_T_BIND_MPI_COMM,
    }
}

/// The communicator, if the variable or event is bound to one.
/// # Safety
/// `object` must be null or point to a handle of the bound type.
pub(super) unsafe fn bound(bind: Bind, object: *const c_void) -> Result<Option<Comm>> {
    match bind {
        Bind::Nothing => Ok(None),
        // SAFETY: by the contract of this function.
        Bind::Communicator => Ok(Some(unsafe { fetch(object.cast()) }?)),
    }
}

const fn datatype(class: Class) -> Datatype {
    match class.zero() {
        Value::Count(_) => abi::MPI_UNSIGNED_LONG_LONG,
        Value::Real(_) => abi::MPI_DOUBLE,
        Value::State(_) => abi::MPI_INT,
    }
}

mpi! {
    /// Test of this module: tests/c/mpit_pvars.c.
    fn MPI_T_pvar_get_num(num_pvar: *mut c_int) -> c_int {
        // SAFETY: the C program passes a place for an integer.
        call(|| unsafe { put(num_pvar, all().len() as c_int) })
    }

    fn MPI_T_pvar_get_info(
        pvar_index: c_int,
        name: *mut c_char,
        name_len: *mut c_int,
        verbosity: *mut c_int,
        var_class: *mut c_int,
        datatype: *mut Datatype,
        enumtype: *mut TEnum,
        desc: *mut c_char,
        desc_len: *mut c_int,
        bind: *mut c_int,
        readonly: *mut c_int,
        continuous: *mut c_int,
        atomic: *mut c_int,
    ) -> c_int {
        call(|| {
            let pvar = at(all(), pvar_index)?;
            let is_continuous = pvar.class.is_continuous();
            // SAFETY: the C program passes a place for each result that it wants, else null.
            unsafe {
                put_string(&pvar.name, name, name_len);
                put_wanted(verbosity, self::verbosity(pvar.level));
                put_wanted(var_class, class(pvar.class));
                put_wanted(datatype, self::datatype(pvar.class));
                put_wanted(enumtype, enums::handle(pvar.states));
                put_string(&pvar.help, desc, desc_len);
                put_wanted(bind, binding(pvar.bind));
                put_wanted(readonly, c_int::from(is_continuous));
                put_wanted(continuous, c_int::from(is_continuous));
                put_wanted(atomic, c_int::from(!is_continuous));
            }
            Ok(())
        })
    }

    fn MPI_T_pvar_get_index(name: *const c_char, var_class: c_int, pvar_index: *mut c_int) -> c_int {
        call(|| {
            // SAFETY: the C program passes a string.
            let name = unsafe { self::name(name) }?;
            let place = all().iter().position(|pvar| pvar.name == name && class(pvar.class) == var_class);
            // SAFETY: the C program passes a place for an integer.
            unsafe { put(pvar_index, place.ok_or(abi::MPI_T_ERR_INVALID_NAME)? as c_int) }
        })
    }

    fn MPI_T_pvar_session_create(session: *mut TPvarSession) -> c_int {
        call(|| {
            if session.is_null() {
                return Err(abi::MPI_T_ERR_INVALID);
            }
            // SAFETY: the C program passes a place for a handle.
            unsafe { put(session, SESSIONS.insert(Mutex::default())?) }
        })
    }

    /// Frees its handles too.
    fn MPI_T_pvar_session_free(session: *mut TPvarSession) -> c_int {
        call(|| {
            // SAFETY: the C program passes a place with a handle.
            let one = unsafe { fetch(session) }?;
            let handles = std::mem::take(&mut *locked(&*SESSIONS.get(one)?));
            SESSIONS.free(one)?;
            handles.into_iter().for_each(|handle| _ = HANDLES.free(handle));
            // SAFETY: `session` is not null, as `fetch` has checked, and holds a handle.
            unsafe { put(session, abi::MPI_T_PVAR_SESSION_NULL) }
        })
    }

    fn MPI_T_pvar_handle_alloc(
        session: TPvarSession,
        pvar_index: c_int,
        obj_handle: *mut c_void,
        handle: *mut TPvarHandle,
        count: *mut c_int,
    ) -> c_int {
        call(|| {
            let owner = SESSIONS.get(session)?;
            let pvar = at(all(), pvar_index)?;
            if handle.is_null() || count.is_null() {
                return Err(abi::MPI_T_ERR_INVALID);
            }
            // SAFETY: the C program passes a handle's address, if the variable is bound.
            let comm = unsafe { bound(pvar.bind, obj_handle) }?;
            let made = HANDLES.insert(PvarHandle::new(session, pvar, comm)?)?;
            locked(&*owner).push(made);
            // SAFETY: the C program passes places for both.
            unsafe { put(count, 1).and_then(|()| put(handle, made)) }
        })
    }

    fn MPI_T_pvar_handle_free(session: TPvarSession, handle: *mut TPvarHandle) -> c_int {
        call(|| {
            // SAFETY: the C program passes a place with a handle.
            let one = unsafe { fetch(handle) }?;
            with(session, one, |_| Ok(()))?;
            HANDLES.free(one)?;
            locked(&*SESSIONS.get(session)?).retain(|other| *other != one);
            // SAFETY: `handle` is not null, as `fetch` has checked, and holds a handle.
            unsafe { put(handle, abi::MPI_T_PVAR_HANDLE_NULL) }
        })
    }

    fn MPI_T_pvar_start(session: TPvarSession, handle: TPvarHandle) -> c_int {
        call(|| with_all(session, handle, PvarHandle::start))
    }

    fn MPI_T_pvar_stop(session: TPvarSession, handle: TPvarHandle) -> c_int {
        call(|| with_all(session, handle, PvarHandle::stop))
    }

    fn MPI_T_pvar_read(session: TPvarSession, handle: TPvarHandle, buf: *mut c_void) -> c_int {
        // SAFETY: the C program passes room for the type that MPI_T_pvar_get_info has returned.
        call(|| with(session, handle, PvarHandle::read).and_then(|value| unsafe { hand_out(value, buf) }))
    }

    fn MPI_T_pvar_write(session: TPvarSession, handle: TPvarHandle, buf: *const c_void) -> c_int {
        call(|| {
            with(session, handle, |meter| {
                if meter.is_continuous() {
                    return Err(abi::MPI_T_ERR_PVAR_NO_WRITE);
                }
                // SAFETY: the C program's value has the type of MPI_T_pvar_get_info.
                let value = unsafe {
                    match meter.pvar.class.zero() {
                        Value::Count(_) => Value::Count(fetch(buf.cast())?),
                        Value::Real(_) => Value::Real(fetch(buf.cast())?),
                        Value::State(_) => Value::State(fetch(buf.cast())?),
                    }
                };
                meter.write(value)
            })
        })
    }

    fn MPI_T_pvar_reset(session: TPvarSession, handle: TPvarHandle) -> c_int {
        call(|| with_all(session, handle, |meter| meter.reset().map(drop)))
    }

    fn MPI_T_pvar_readreset(session: TPvarSession, handle: TPvarHandle, buf: *mut c_void) -> c_int {
        call(|| {
            let value = with(session, handle, |meter| match meter.is_continuous() {
                true => Err(abi::MPI_T_ERR_PVAR_NO_ATOMIC),
                // Without a buffer, the value would be lost.
                false if buf.is_null() => Err(abi::MPI_T_ERR_INVALID),
                false => meter.reset(),
            })?;
            // SAFETY: the C program passes room for the type that MPI_T_pvar_get_info has returned.
            unsafe { hand_out(value, buf) }
        })
    }
}
