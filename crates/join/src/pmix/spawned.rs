//! The arguments of `PMIx_Spawn`.

use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::{null, null_mut};

use super::declarations::{App, PmixInfo};
use crate::manager::{JoinError, SpawnedProgram};

/// The programs to start. All arrays and strings are memory of malloc(3) and never freed: the
/// library adds variables to the array of the environment (PMIx 4.2), and a process spawns rarely.
pub(super) struct SpawnArguments {
    pub(super) apps: Vec<App>,
    /// The attributes of each program.
    _infos: Vec<Vec<PmixInfo>>,
}

impl SpawnArguments {
    /// `environment` is a variable for all programs. `text` makes strings of C.
    pub(super) fn new(
        programs: &[SpawnedProgram],
        environment: &CStr,
        text: impl Fn(&str) -> Result<CString, JoinError>,
    ) -> Result<SpawnArguments, JoinError> {
        let (mut apps, mut infos) = (Vec::new(), Vec::new());
        for program in programs {
            let hint = |name: &str| {
                let found = program.hints.iter().find(|(key, _)| key == name);
                found.map(|(_, value)| text(value)).transpose()
            };
            let words = [&program.program].into_iter().chain(&program.arguments);
            let words: Vec<CString> = words.map(|word| text(word)).collect::<Result<_, _>>()?;
            let info: Vec<PmixInfo> = hint("host")?
                .iter()
                .map(|hosts| PmixInfo::text(c"pmix.host", copy(hosts)))
                .collect();
            apps.push(App {
                cmd: words.first().map_or(null_mut(), |name| copy(name)),
                argv: array(&words),
                env: array(&[environment.to_owned()]),
                cwd: hint("wdir")?.map_or(null_mut(), |name| copy(&name)),
                maxprocs: c_int::try_from(program.processes).unwrap_or(c_int::MAX),
                // The library takes an address without a number for a list with an end mark.
                info: if info.is_empty() { null() } else { info.as_ptr() },
                ninfo: info.len(),
            });
            infos.push(info);
        }
        Ok(SpawnArguments { apps, _infos: infos })
    }
}

fn copy(text: &CStr) -> *mut c_char {
    // SAFETY: the text ends with a zero.
    unsafe { libc::strdup(text.as_ptr()) }
}

/// The addresses of copies, and null.
fn array(texts: &[CString]) -> *mut *mut c_char {
    // SAFETY: the memory has room for all addresses, and is zero; without memory nothing is
    // written.
    unsafe {
        let all: *mut *mut c_char = libc::calloc(texts.len() + 1, size_of::<*mut c_char>()).cast();
        for (place, text) in texts.iter().enumerate().filter(|_| !all.is_null()) {
            all.add(place).write(copy(text));
        }
        all
    }
}
