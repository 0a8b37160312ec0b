//! Performance variables (MPI-5.0 section 15.3.7).
//!
//! Handles can be started, stopped, written and reset, except handles of a level, a size or a
//! state.

use super::checks::{Result, at, measured};
use super::enums;
use super::handles::Handles;
use super::outputs::{fetch, found, verbosity};
use crate::state::locked;
use crate::state::objects::ObjectKind;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Comm, Datatype, TEnum, TPvarHandle, TPvarSession};
use oxmpi_core::tool::pvars::all;
use oxmpi_core::tool::{Bind, Class, Gauge, Pvar, Value};
use std::ffi::{c_int, c_void};
use std::sync::{LazyLock, Mutex};

/// The most sessions and handles at a time.
const MOST_SESSIONS: usize = 1 << 12;
const MOST: usize = 1 << 20;

/// A session is the list of its handles.
static SESSIONS: LazyLock<Handles<Mutex<Vec<usize>>>> = LazyLock::new(|| {
    Handles::new(
        ObjectKind::PerformanceSession,
        MOST_SESSIONS,
        abi::MPI_T_ERR_INVALID_SESSION,
        abi::MPI_T_ERR_OUT_OF_SESSIONS,
    )
});
static HANDLES: LazyLock<Handles<PvarHandle>> = LazyLock::new(|| {
    Handles::new(
        ObjectKind::PerformanceVariable,
        MOST,
        abi::MPI_T_ERR_INVALID_HANDLE,
        abi::MPI_T_ERR_OUT_OF_HANDLES,
    )
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

fn bytes_of(value: Value) -> Vec<u8> {
    match value {
        Value::Count(count) => count.to_ne_bytes().into(),
        Value::Real(real) => real.to_ne_bytes().into(),
        Value::State(state) => state.to_ne_bytes().into(),
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

/// Test of this module: tests/c/mpit_pvars.c.
pub(crate) fn t_pvar_get_num() -> Result<c_int> {
    Ok(all().len() as c_int)
}

type PvarInfo =
    (&'static str, c_int, c_int, Datatype, TEnum, &'static str, c_int, bool, bool, bool);

pub(crate) fn t_pvar_get_info(pvar_index: c_int) -> Result<PvarInfo> {
    let pvar = at(all(), pvar_index)?;
    let is_continuous = pvar.class.is_continuous();
    Ok((
        &pvar.name,
        verbosity(pvar.level),
        class(pvar.class),
        datatype(pvar.class),
        enums::handle(pvar.states),
        &pvar.help,
        binding(pvar.bind),
        is_continuous,
        is_continuous,
        !is_continuous,
    ))
}

pub(crate) fn t_pvar_get_index(name: &str, var_class: c_int) -> Result<c_int> {
    found(all().iter().position(|pvar| pvar.name == name && class(pvar.class) == var_class))
}

pub(crate) fn t_pvar_session_create() -> Result<TPvarSession> {
    SESSIONS.insert(Mutex::default())
}

/// Frees its handles too.
pub(crate) fn t_pvar_session_free(session: TPvarSession) -> Result<TPvarSession> {
    let handles = std::mem::take(&mut *locked(&*SESSIONS.get(session)?));
    SESSIONS.free(session)?;
    handles.into_iter().for_each(|handle| _ = HANDLES.free(handle));
    Ok(abi::MPI_T_PVAR_SESSION_NULL)
}

pub(crate) fn t_pvar_handle_alloc(
    session: TPvarSession,
    pvar_index: c_int,
    obj_handle: *mut c_void,
) -> Result<(TPvarHandle, c_int)> {
    let owner = SESSIONS.get(session)?;
    let pvar = at(all(), pvar_index)?;
    // SAFETY: the C program passes a handle's address, if the variable is bound.
    let comm = unsafe { bound(pvar.bind, obj_handle) }?;
    let made = HANDLES.insert(PvarHandle::new(session, pvar, comm)?)?;
    locked(&*owner).push(made);
    Ok((made, 1))
}

pub(crate) fn t_pvar_handle_free(
    session: TPvarSession,
    handle: TPvarHandle,
) -> Result<TPvarHandle> {
    with(session, handle, |_| Ok(()))?;
    HANDLES.free(handle)?;
    locked(&*SESSIONS.get(session)?).retain(|other| *other != handle);
    Ok(abi::MPI_T_PVAR_HANDLE_NULL)
}

pub(crate) fn t_pvar_start(session: TPvarSession, handle: TPvarHandle) -> Result<()> {
    with_all(session, handle, PvarHandle::start)
}

pub(crate) fn t_pvar_stop(session: TPvarSession, handle: TPvarHandle) -> Result<()> {
    with_all(session, handle, PvarHandle::stop)
}

pub(crate) fn t_pvar_read(session: TPvarSession, handle: TPvarHandle) -> Result<Vec<u8>> {
    with(session, handle, PvarHandle::read).map(bytes_of)
}

pub(crate) fn t_pvar_write(
    session: TPvarSession,
    handle: TPvarHandle,
    buf: *const c_void,
) -> Result<()> {
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
}

pub(crate) fn t_pvar_reset(session: TPvarSession, handle: TPvarHandle) -> Result<()> {
    with_all(session, handle, |meter| meter.reset().map(drop))
}

pub(crate) fn t_pvar_readreset(session: TPvarSession, handle: TPvarHandle) -> Result<Vec<u8>> {
    let value = with(session, handle, |meter| match meter.is_continuous() {
        true => Err(abi::MPI_T_ERR_PVAR_NO_ATOMIC),
        false => meter.reset(),
    })?;
    Ok(bytes_of(value))
}
