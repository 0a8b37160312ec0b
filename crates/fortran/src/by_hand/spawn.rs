//! Arrays of strings: an array of CHARACTERs of one length, which a blank one ends. Each string is
//! passed without leading and trailing blanks (MPI-5.0 section 11.8.2).

use super::*;

/// C strings, and their addresses with a null pointer at the end.
struct Strings {
    // The addresses point into these.
    _texts: Vec<Text>,
    addresses: Vec<*mut c_char>,
}

impl Strings {
    fn new(texts: Vec<Text>) -> Strings {
        let addresses = texts.iter().map(|text| text.as_ptr().cast_mut());
        let addresses = addresses.chain([ptr::null_mut()]).collect();
        Strings { _texts: texts, addresses }
    }

    /// The strings until the first blank one. Each begins `step` strings behind the one before.
    unsafe fn until_blank(start: *const c_char, len: usize, step: usize) -> Strings {
        let mut texts = Vec::new();
        for at in 0.. {
            // Strings without a character are blank.
            let text = unsafe { stripped(start.wrapping_add(at * step * len), len) };
            if text.is_empty() {
                break;
            }
            texts.push(text);
        }
        Strings::new(texts)
    }
}

/// Whether this process is the root, whose arguments alone count.
unsafe fn is_root(comm: *const c_int, root: c_int) -> bool {
    unsafe { root_place(comm, root) == RootPlace::Root }
}

pub(crate) unsafe fn comm_spawn(
    call: c::CommSpawnFn,
    command: *mut c_char,
    argv: *mut c_char,
    maxprocs: *mut c_int,
    info: *mut c_int,
    root: *mut c_int,
    comm: *mut c_int,
    intercomm: *mut c_int,
    codes: *mut c_int,
    command_len: usize,
    argv_len: usize,
) -> c_int {
    let mut made = UNSET;
    unsafe {
        let command = stripped(command, command_len);
        let arguments = (!is_argv_null(argv.cast()) && is_root(comm, *root))
            .then(|| Strings::until_blank(argv, argv_len, 1));
        let argv = arguments.as_ref().map_or(ptr::null(), |argv| argv.addresses.as_ptr());
        let code = call(
            command.as_ptr(),
            argv.cast_mut(),
            *maxprocs,
            info::input(info),
            *root,
            comm::input(comm),
            &mut made,
            codes_place(codes),
        );
        comm::output(intercomm, made);
        code
    }
}

pub(crate) unsafe fn comm_spawn_multiple(
    call: c::CommSpawnMultipleFn,
    count: *mut c_int,
    commands: *mut c_char,
    argvs: *mut c_char,
    maxprocs: *mut c_int,
    infos: *mut c_int,
    root: *mut c_int,
    comm: *mut c_int,
    intercomm: *mut c_int,
    codes: *mut c_int,
    commands_len: usize,
    argvs_len: usize,
) -> c_int {
    let mut made = UNSET;
    unsafe {
        let is_root = is_root(comm, *root);
        let count = if is_root { *count } else { 0 };
        let programs = usize::try_from(count).unwrap_or(0);
        let command = |at| stripped(commands.wrapping_add(at * commands_len), commands_len);
        let mut commands = Strings::new((0..programs).map(command).collect());
        let argument_lists: Vec<Strings> = match is_root && !is_argvs_null(argvs.cast()) {
            // Element (program, argument) of an array with a row for each program.
            true => (0..programs)
                .map(|at| {
                    let first = argvs.wrapping_add(at * argvs_len);
                    Strings::until_blank(first, argvs_len, programs)
                })
                .collect(),
            false => Vec::new(),
        };
        let mut argvs: Vec<_> =
            argument_lists.iter().map(|list| list.addresses.as_ptr().cast_mut()).collect();
        let infos = info::read(infos, count);
        let argvs = if argvs.is_empty() { ptr::null_mut() } else { argvs.as_mut_ptr() };
        let code = call(
            count,
            commands.addresses.as_mut_ptr(),
            argvs,
            maxprocs,
            infos.as_ptr(),
            *root,
            comm::input(comm),
            &mut made,
            codes_place(codes),
        );
        comm::output(intercomm, made);
        code
    }
}
