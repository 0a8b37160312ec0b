//! Control variables (MPI-5.0 section 15.3.6): the parameters, of which a program can change some.

use super::checks::{Result, at, measured};
use super::enums;
use super::handles::Handles;
use super::outputs::{fetch, found, name, verbosity};
use crate::state::library::is_finalized;
use crate::state::locked;
use crate::state::objects::ObjectKind;
use oxmpi_abi::constants as abi;
use oxmpi_abi::types::{Datatype, TCvarHandle, TEnum};
use oxmpi_param::{ChangeRule, Found, Param, Params, Unit, Value};
use std::ffi::{c_int, c_void};
use std::sync::{LazyLock, Mutex};

const MOST: usize = 1 << 20;

static HANDLES: LazyLock<Handles<usize>> = LazyLock::new(|| {
    Handles::new(
        ObjectKind::ControlVariable,
        MOST,
        abi::MPI_T_ERR_INVALID_HANDLE,
        abi::MPI_T_ERR_OUT_OF_HANDLES,
    )
});

struct CvarState {
    params: Params,
    changes: Vec<(&'static str, String)>,
}

/// MPI_Init reports errors in the environment.
static CURRENT: LazyLock<Mutex<CvarState>> = LazyLock::new(|| {
    let found = Found::gather(std::env::vars_os(), oxmpi_sys::library::prefix().as_deref());
    Mutex::new(CvarState { params: found.params, changes: Vec::new() })
});

/// The parameters that the program has changed before MPI_Init.
pub(crate) fn changes() -> Vec<(&'static str, String)> {
    locked(&CURRENT).changes.clone()
}

pub(super) fn free_all() {
    for handle in HANDLES.all() {
        // Another thread may have freed the handle.
        let _ = HANDLES.free(handle);
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum CvarType {
    Int,
    Unsigned64,
    Count,
    Text,
}

impl CvarType {
    fn of(param: &Param) -> CvarType {
        const INT: std::ops::RangeInclusive<i64> = c_int::MIN as i64..=c_int::MAX as i64;
        match param.unit {
            Unit::Text { .. } => CvarType::Text,
            _ if INT.contains(&param.min) && INT.contains(&param.max) => CvarType::Int,
            _ if param.min >= 0 => CvarType::Unsigned64,
            _ => CvarType::Count,
        }
    }

    const fn datatype(self) -> Datatype {
        match self {
            CvarType::Int => abi::MPI_INT,
            CvarType::Unsigned64 => abi::MPI_UNSIGNED_LONG_LONG,
            CvarType::Count => abi::MPI_COUNT,
            CvarType::Text => abi::MPI_CHAR,
        }
    }
}

fn value_of(param: &Param) -> Value {
    locked(&CURRENT).params.value(param)
}

fn check_change(param: &Param) -> Result<()> {
    let is_now = match param.change {
        ChangeRule::Never => return Err(abi::MPI_T_ERR_CVAR_SET_NEVER),
        ChangeRule::Always | ChangeRule::Alike => !is_finalized(),
    };
    if is_now { Ok(()) } else { Err(abi::MPI_T_ERR_CVAR_SET_NOT_NOW) }
}

/// On an error the parameter keeps its value.
fn change(param: &'static Param, text: String) -> Result<()> {
    check_change(param)?;
    let library = measured().map_err(|_| abi::MPI_T_ERR_CVAR_SET_NOT_NOW)?;
    let mut current = locked(&CURRENT);
    let mut params = current.params.clone();
    params.set(param.name, &text).map_err(|_| abi::MPI_T_ERR_INVALID)?;
    if let Some(library) = library {
        library.process.retune(&params).map_err(|_| abi::MPI_T_ERR_CVAR_SET_NOT_NOW)?;
    }
    current.params = params;
    current.changes.retain(|(name, _)| *name != param.name);
    current.changes.push((param.name, text));
    Ok(())
}

fn param_of(handle: TCvarHandle) -> Result<&'static Param> {
    let place = *HANDLES.get(handle)?;
    Param::all().get(place).copied().ok_or(abi::MPI_T_ERR_INVALID_HANDLE)
}

/// Test of this module: tests/c/mpit_cvars.c.
pub(crate) fn t_cvar_get_num() -> Result<c_int> {
    Ok(Param::all().len() as c_int)
}

type CvarInfo = (&'static str, c_int, Datatype, TEnum, &'static str, c_int, c_int);

pub(crate) fn t_cvar_get_info(cvar_index: c_int) -> Result<CvarInfo> {
    let param = at(Param::all(), cvar_index)?;
    let choice = matches!(param.unit, Unit::Choice(_) | Unit::Set { .. });
    let items = choice.then(|| oxmpi_core::tool::enums::find(param.name)).flatten();
    let scope = match param.change {
        ChangeRule::Never => abi::MPI_T_SCOPE_CONSTANT,
        ChangeRule::Always => abi::MPI_T_SCOPE_LOCAL,
        ChangeRule::Alike => abi::MPI_T_SCOPE_ALL_EQ,
    };
    Ok((
        param.name,
        verbosity(param.level),
        CvarType::of(param).datatype(),
        enums::handle(items),
        param.help,
        abi::MPI_T_BIND_NO_OBJECT,
        scope,
    ))
}

/// Accepts older names of parameters too.
pub(crate) fn t_cvar_get_index(name: &str) -> Result<c_int> {
    let param = Param::find(name).ok_or(abi::MPI_T_ERR_INVALID_NAME)?;
    found(Param::all().iter().position(|one| one.name == param.name))
}

/// No variable is bound to an object, so the object is not read.
pub(crate) fn t_cvar_handle_alloc(
    cvar_index: c_int,
    _: *mut c_void,
) -> Result<(TCvarHandle, c_int)> {
    let elements = match value_of(at(Param::all(), cvar_index)?) {
        Value::Text(text) => text.len() as c_int + 1,
        Value::Number(_) => 1,
    };
    Ok((HANDLES.insert(cvar_index as usize)?, elements))
}

pub(crate) fn t_cvar_handle_free(handle: TCvarHandle) -> Result<TCvarHandle> {
    HANDLES.free(handle)?;
    Ok(abi::MPI_T_CVAR_HANDLE_NULL)
}

/// A text cannot be changed, so it has the length that MPI_T_cvar_handle_alloc returned.
pub(crate) fn t_cvar_read(handle: TCvarHandle) -> Result<Vec<u8>> {
    let param = param_of(handle)?;
    Ok(match (value_of(param), CvarType::of(param)) {
        (Value::Number(n), CvarType::Int) => (n as c_int).to_ne_bytes().into(),
        (Value::Number(n), _) => n.to_ne_bytes().into(),
        (Value::Text(text), _) => [text.as_bytes(), b"\0"].concat(),
    })
}

pub(crate) fn t_cvar_write(handle: TCvarHandle, buf: *const c_void) -> Result<()> {
    let param = param_of(handle)?;
    check_change(param)?;
    // SAFETY: the C program's value has the type of MPI_T_cvar_get_info.
    let value = unsafe {
        match CvarType::of(param) {
            CvarType::Int => Value::Number(fetch(buf.cast::<c_int>())?.into()),
            CvarType::Unsigned64 => {
                let number = fetch(buf.cast::<u64>())?;
                Value::Number(number.try_into().map_err(|_| abi::MPI_T_ERR_INVALID)?)
            }
            CvarType::Count => Value::Number(fetch(buf.cast::<i64>())?),
            CvarType::Text => Value::Text(name(buf.cast())?.into()),
        }
    };
    if let (Unit::Choice(words) | Unit::Set { words, .. }, Value::Number(n)) = (param.unit, &value)
        && usize::try_from(*n).map_or(true, |n| n >= words.len())
    {
        return Err(abi::MPI_T_ERR_INVALID);
    }
    change(param, param.show(&value))
}
