//! The environment of ranks.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

use oxmpi_sys::spawn::GUARD_VARIABLE;

use super::places::RankPlace;
use super::{App, Launch};
use oxmpi_rt_client::client::{
    BOOT_VARIABLE, BOOT_VERSION, CONTROL_NUMBER, SEGMENT_NUMBER, WAY_IN_VARIABLE,
};
use oxmpi_rt_client::foreign::LAUNCHER_VARIABLE;
use oxmpi_rt_client::foreign::is_of_other_launcher;

fn base_environment(launch: &Launch, app: &App, names_mpi: bool) -> Vec<(OsString, OsString)> {
    // Variables that identify mpirun itself to another launcher, or to our mpirun, are not for its
    // ranks.
    let is_kept = |key: &OsStr| {
        key != BOOT_VARIABLE
            && key != WAY_IN_VARIABLE
            && !key.to_str().is_some_and(is_of_other_launcher)
    };
    let mut env: Vec<_> = app.inherited.iter().filter(|(key, _)| is_kept(key)).cloned().collect();
    for (key, value) in launch.env.iter().chain(&app.env) {
        set(&mut env, key, value.clone());
    }
    if let Some(directory) = launch.faces_directory() {
        let path =
            env.iter().find(|(key, _)| key == "LD_LIBRARY_PATH").map(|(_, value)| value.clone());
        let of_ranks = directory.join(OF_RANKS);
        let own = (!names_mpi && of_ranks.exists()).then(|| of_ranks.into_os_string());
        let own = own.into_iter().chain([directory.as_os_str().to_owned()]);
        let all: Vec<_> = own.chain(path.filter(|path| !path.is_empty())).collect();
        let value = all.join(OsStr::new(":"));
        set(&mut env, OsStr::new("LD_LIBRARY_PATH"), value);
        // mpi4py's wheel searches other places before LD_LIBRARY_PATH.
        let face = directory.join(MPICH_FACE);
        let is_chosen = env.iter().any(|(key, _)| MPI4PY.iter().any(|name| key == name));
        if !is_chosen && face.exists() {
            set(&mut env, OsStr::new(MPI4PY[0]), face.into_os_string());
        }
    }
    env
}

/// The directory, in that of this library, with the `libmpi.so` for programs that name no MPI
/// library and may open this one: they know the ABI of Open MPI, not that of MPI-5.0.
const OF_RANKS: &str = "oxmpi/ranks";

/// The library for programs built for MPICH, in the directory of this library.
const MPICH_FACE: &str = "libmpi.so.12";

/// Variables that name the MPI library of mpi4py, or its ABI.
const MPI4PY: [&str; 2] = ["MPI4PY_LIBMPI", "MPI4PY_MPIABI"];

/// The environment of one rank. Scripts read the numbers, under our names and under Open MPI's.
/// `names_mpi`: whether the program names an MPI library.
pub(super) fn environment(
    launch: &Launch,
    (app, names_mpi): (&App, bool),
    (rank, size): (u32, u32),
    place: RankPlace,
    (mark, way_in): (&str, Option<String>),
) -> Vec<CString> {
    let mut env = base_environment(launch, app, names_mpi);
    if let Some(directory) = &app.directory {
        set(&mut env, OsStr::new("PWD"), directory.clone().into_os_string());
    }
    let boot = format!("{BOOT_VERSION}:{SEGMENT_NUMBER}:{CONTROL_NUMBER}");
    set(&mut env, OsStr::new(BOOT_VARIABLE), boot.into());
    set(&mut env, OsStr::new(LAUNCHER_VARIABLE), std::process::id().to_string().into());
    set(&mut env, OsStr::new(GUARD_VARIABLE), mark.into());
    if let Some(way_in) = way_in {
        set(&mut env, OsStr::new(WAY_IN_VARIABLE), way_in.into());
    }
    for prefix in ["OXMPI", "OMPI"] {
        let RankPlace { local_rank, local_size, .. } = place;
        for (name, value) in
            [("RANK", rank), ("SIZE", size), ("LOCAL_RANK", local_rank), ("LOCAL_SIZE", local_size)]
        {
            set(
                &mut env,
                OsStr::new(&format!("{prefix}_COMM_WORLD_{name}")),
                value.to_string().into(),
            );
        }
    }
    // Environments and arguments have no zero bytes.
    env.into_iter()
        .filter_map(|(mut key, value)| {
            key.push("=");
            key.push(value);
            CString::new(key.into_vec()).ok()
        })
        .collect()
}

fn set(env: &mut Vec<(OsString, OsString)>, key: &OsStr, value: OsString) {
    match env.iter_mut().find(|(k, _)| k == key) {
        Some(entry) => entry.1 = value,
        None => env.push((key.to_owned(), value)),
    }
}
