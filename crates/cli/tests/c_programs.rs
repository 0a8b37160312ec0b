//! The C programs of `tests/c` and `examples`, compiled with the installed `mpicc` and run by the installed `mpirun`.
//!
//! A test program says in its first line with how many ranks it runs, `// ranks: 1 2 4 7`, exits with 0 and prints `ok` as its
//! last line. A second line may name options for the compiler, `// flags: -pthread`. Each program runs over shared memory and
//! over sockets, unless one of its first lines says `// not over: tcp` and why; some run on virtual nodes as well, which have
//! shared memory within and sockets between them, some over sockets without the component `shmem`, as they are and encrypted, some over the guide's
//! postboxes, some with daemons (rpi lamd), some over libfabric, and some over shared memory where the kernel denies single copy. Each program and way is a test case of its own, so that a slow one is named.
//! `cargo xtask test` makes the installation and names it in OXMPI_TEST_PREFIX.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;
use support::{installed, root};

/// Checked at compile time by crates/abi; has no main of the kind above.
const NOT_RUN: &[&str] = &["abi_assert.c"];

/// The way of those that run on virtual nodes.
const NODES: &str = "nodes";
/// The way of those whose messages go through the daemons of two virtual nodes, at one number of ranks.
const DAEMONS: &str = "lamd";
/// Sockets for collectives, too, which otherwise go through the memory of the host.
const SOCKETS_ALONE: &str = "tcp-alone";
/// The same, encrypted.
const ENCRYPTED: &str = "tcp-encrypted";
/// libfabric's first provider alone, which matches messages, at one number of ranks.
const OFI: &str = "ofi";
/// Shared memory where no rank may read another's: `tests/c/jobs/deny.c` runs the program.
const DENIED: &str = "shm-denied";
/// Shared memory where all but the shortest messages are announced, and copied by their receivers or taken back.
const SINGLE_COPY: &str = "shm-single-copy";
/// The highest number of ranks with daemons or the like.
const RANKS_WITH_DAEMONS: u32 = 4;

fn compile(source: &Path, flags: &[&str], to: &Path) -> Result<(), String> {
    let mut command = Command::new(installed("mpicc"));
    command.args(["-O1", "-g", "-Wall", "-Wno-unused"]).args(flags).arg(source).arg("-o").arg(to).arg("-lm");
    let output = command.output().map_err(|e| format!("mpicc: {e}"))?;
    if output.status.success() { Ok(()) } else { Err(String::from_utf8_lossy(&output.stderr).into_owned()) }
}

/// Runs `words`, a program that may run another one.
fn run(words: &[&Path], ranks: u32, way: &str) -> Result<String, String> {
    let output = Command::new(installed("mpirun"))
        .args(["-n", &ranks.to_string(), "--timeout", "60", "--mca"])
        .args(match way {
            NODES => vec!["mpi_virtual_nodes", "2"],
            SOCKETS_ALONE => vec!["rpi", "tcp", "--mca", "coll", "^shmem"],
            ENCRYPTED => vec!["rpi", "tcp", "--mca", "coll", "^shmem", "--mca", "mpi_encrypt", "1"],
            OFI => vec!["mtl", "ofi", "--mca", "mtl_ofi_shm", "0", "--mca", "coll", "^shmem"],
            DENIED => vec!["rpi", "shm"],
            SINGLE_COPY => {
                vec!["rpi", "shm", "--mca", "single_copy", "on", "--mca", "shm_pool_from_bytes", "57"]
            }
            _ => vec!["rpi", way],
        })
        .args(if way == DAEMONS { &["--mca", "mpi_virtual_nodes", "2"][..] } else { &[] })
        .args(words)
        .output()
        .map_err(|e| format!("mpirun: {e}"))?;
    let out = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(out);
    }
    Err(format!(
        "{}\n--- output\n{out}--- errors\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    ))
}

/// The sizes of `// ranks: 1 2 4`.
fn ranks(source: &str) -> Option<Vec<u32>> {
    let sizes = source.lines().next()?.strip_prefix("// ranks:")?;
    sizes.split_whitespace().map(|n| n.parse().ok()).collect()
}

/// The options of `// flags: -pthread` in the second line.
fn flags(source: &str) -> Vec<&str> {
    let flags = source.lines().nth(1).and_then(|line| line.strip_prefix("// flags:"));
    flags.map(|flags| flags.split_whitespace().collect()).unwrap_or_default()
}

/// Whether one of the first lines is `// not over: WAY, because ...`.
fn is_not_over(source: &str, way: &str) -> bool {
    let mut lines = source.lines().take(4).filter_map(|line| line.strip_prefix("// not over: "));
    lines.any(|line| line.split(',').next() == Some(way) && line.len() > way.len() + 10)
}

/// Compiles `tests/c/NAME.c`, runs it over `way` with each of its numbers of ranks, and says of all that failed.
fn says_ok(name: &str, way: &str) {
    let path = root().join("tests/c").join(name).with_extension("c");
    let source = std::fs::read_to_string(&path).unwrap();
    let mut sizes = ranks(&source).expect("the first line is not of the form '// ranks: 1 2 4'");
    if [DAEMONS, ENCRYPTED, OFI].contains(&way) {
        sizes = sizes.into_iter().filter(|size| *size <= RANKS_WITH_DAEMONS).max().into_iter().collect();
    }
    assert!(!sizes.is_empty(), "the first line names no number of ranks");
    if is_not_over(&source, way) {
        return;
    }
    let directory = tempdir(&format!("{name}-{way}"));
    let (program, deny) = (directory.join(name), directory.join("deny"));
    compile(&path, &flags(&source), &program).unwrap_or_else(|error| panic!("{name}: mpicc: {error}"));
    let mut words = vec![&*program];
    if way == DENIED {
        let source = root().join("tests/c/jobs/deny.c");
        compile(&source, &[], &deny).unwrap_or_else(|error| panic!("deny: mpicc: {error}"));
        // EPERM.
        words.splice(0..0, [&*deny, Path::new("1"), Path::new("process_vm_readv,process_vm_writev")]);
    }
    let mut failures = Vec::new();
    for n in sizes {
        match run(&words, n, way) {
            Ok(out) if out.lines().last() == Some("ok") => {}
            Ok(out) => {
                failures.push(format!("{name} over {way} on {n} ranks: the last line is not 'ok':\n{out}"))
            }
            Err(error) => failures.push(format!("{name} over {way} on {n} ranks: {error}")),
        }
    }
    std::fs::remove_dir_all(&directory).unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// Test cases in modules `[MODULE: WAY, ...]`, one for each program of the list, which runs that way.
macro_rules! programs {
    ([$($module:ident: $way:expr),+] $names:tt) => {
        $(programs! { $module: $way, $names })+
    };
    ($module:ident: $way:expr, { $($name:ident)* }) => {
        mod $module {
            use super::*;

            $(
                #[test]
                fn $name() {
                    says_ok(stringify!($name), $way);
                }
            )*
        }
    };
}

/// Those of all programs, and their names.
macro_rules! all_programs {
    ($($name:ident)*) => {
        const PROGRAMS: &[&str] = &[$(stringify!($name)),*];

        programs! { [program: "shm", program_over_tcp: "tcp"] { $($name)* } }
    };
}

programs! {
    [program_where_single_copy_is_denied: DENIED] {
        coll_allgatherv
        finalize_freed
        p2p_basic
        p2p_communicators
        p2p_derived
        p2p_isendrecv
        p2p_large
        p2p_send_alone
        win_accumulate
        win_create
        win_mailbox
        win_put_get
    }
}

programs! {
    [program_over_usysv: "usysv", program_over_sysv: "sysv"] {
        coll_basic
        coll_crossed
        finalize_freed
        mpit_traffic
        p2p_bsend
        p2p_cancel
        p2p_cancel_end
        p2p_cancel_rest
        p2p_communicators
        p2p_derived
        p2p_first
        p2p_large
        p2p_mprobe
        p2p_order
        p2p_truncate
        p2p_wildcards
        partitioned_basic
        persistent_basic
        postboxes
        thread_multiple
        win_put_get
    }
}

programs! {
    [program_over_encrypted_sockets: ENCRYPTED] {
        coll_basic
        coll_nonblocking
        coll_types
        comm_disconnect
        finalize_freed
        intercomm_merge
        p2p_bsend
        p2p_cancel
        p2p_communicators
        p2p_derived
        p2p_first
        p2p_flood
        p2p_large
        p2p_order
        p2p_persistent
        p2p_probe
        p2p_truncate
        p2p_wildcards
        partitioned_threads
        ports
        session_cycles
        spawn
        thread_multiple
        ulfm
        win_accumulate
        win_lock
    }
}

programs! {
    [program_over_libfabric: OFI] {
        coll_basic
        coll_crossed
        coll_inter_reduce
        coll_nonblocking
        coll_order
        coll_types
        coll_wrap_tags
        comm_create_group
        comm_disconnect
        comm_idup
        file_shared
        finalize_freed
        intercomm_merge
        neighbor_w
        p2p_basic
        p2p_bsend
        p2p_deep_queues
        p2p_derived
        p2p_first
        p2p_flood
        p2p_isendrecv
        p2p_large
        p2p_mprobe
        p2p_mprobe_threads
        p2p_order
        p2p_persistent
        p2p_probe
        p2p_truncate
        p2p_wildcards
        partitioned_basic
        partitioned_threads
        persistent_threads
        ports
        requests_freed
        session_cycles
        spawn
        thread_multiple
        ulfm
        virtual_nodes
        win_accumulate
        win_lock
        win_pscw
    }
}

programs! {
    [program_with_daemons: DAEMONS] {
        coll_basic
        coll_crossed
        coll_inter_reduce
        coll_nonblocking
        coll_order
        coll_types
        comm_create_group
        comm_disconnect
        comm_idup
        file_shared
        finalize_freed
        forked_child
        idle
        intercomm_merge
        neighbor_w
        p2p_basic
        p2p_bsend
        p2p_cancel
        p2p_cancel_end
        p2p_communicators
        p2p_derived
        p2p_first
        p2p_flood
        p2p_large
        p2p_mprobe_threads
        p2p_order
        p2p_persistent
        p2p_probe
        p2p_truncate
        p2p_waits
        p2p_wildcards
        partitioned_threads
        persistent_threads
        ports
        requests_freed
        session_cycles
        spawn
        virtual_nodes
        win_accumulate
        win_lock
        win_pscw
    }
}

programs! {
    [program_on_nodes: NODES] {
        coll_allgatherv
        coll_basic
        coll_crossed
        coll_inter_reduce
        coll_later
        coll_mixed_types
        coll_nonblocking
        coll_order
        coll_reduce_scatter
        coll_reduce_scatter_block
        coll_scan
        coll_types
        comm_create_group
        comm_split_dup
        file_errors
        file_shared
        finalize_freed
        intercomm_merge
        p2p_communicators
        p2p_derived
        p2p_large
        p2p_mprobe_threads
        p2p_waits
        p2p_wildcards
        virtual_nodes
        win_accumulate
        win_accumulate_whole
        win_lock
        win_pscw
    }
}

programs! {
    [program_over_sockets_alone: SOCKETS_ALONE] {
        coll_allgatherv
        coll_alltoall
        coll_basic
        coll_crossed
        coll_freed_handles
        coll_order
        coll_scan
        coll_scatter
        coll_short
        coll_types
        comm_split_dup
        p2p_large
        thread_multiple
        win_lock
    }
}

all_programs! {
    alloc_mem
    any_time
    attr_comm
    attr_predefined
    attr_self_finalize
    attr_type
    cart_create
    cart_sub
    coll_allgatherv
    coll_alltoall
    coll_alltoallv
    coll_alltoallw
    coll_basic
    coll_crossed
    coll_directions
    coll_exscan
    coll_few_bytes
    coll_free
    coll_freed_handles
    coll_gatherv
    coll_inter_move
    coll_inter_reduce
    coll_later
    coll_lengths
    coll_lengths_threads
    coll_mixed_types
    coll_nonblocking
    coll_order
    coll_progress
    coll_progress_threads
    coll_reduce_scatter
    coll_reduce_scatter_block
    coll_run_ahead
    coll_scan
    coll_scatter
    coll_scatterv
    coll_sections
    coll_shmem
    coll_short
    coll_types
    coll_uneven
    coll_v_errors
    coll_w_unset_types
    coll_wrap_tags
    comm_compare
    comm_create
    comm_create_group
    comm_disconnect
    comm_freed_requests
    comm_from_group
    comm_idup
    comm_leak
    comm_split_dup
    comm_split_type
    crowded_blocks
    dims_create
    dist_graph
    errhandler_inherit
    errhandler_user
    errors_added
    errors_args
    file_basic
    file_datarep
    file_errors
    file_nonblocking
    file_seek
    file_shared
    file_split
    file_threads
    file_view
    finalize_freed
    finalize_learn
    finalize_stays
    footprint
    forked_child
    fortran_abi
    graph_create
    grequest_basic
    grequest_thread
    group_algebra
    group_errors
    handles_int
    hw_resources
    idle
    info_basic
    info_comm
    info_env
    info_env_before_init
    init_state
    intercomm_create
    intercomm_dup_split
    intercomm_merge
    intercomm_p2p
    large_collectives
    large_counts
    large_message
    large_places
    mpit_categories
    mpit_cvars
    mpit_effects
    mpit_events
    mpit_init
    mpit_other_thread
    mpit_pvars
    mpit_threads
    mpit_traffic
    mpit_waits
    names
    neighbor_cart
    neighbor_dist_graph
    neighbor_w
    objects_leak
    objects_threads
    ops
    ops_floats
    ops_pairs
    ops_reduce_local
    ops_user_strided
    p2p_basic
    p2p_bsend
    p2p_bsend_room
    p2p_bsend_taken
    p2p_bsend_threads
    p2p_buffers
    p2p_cancel
    p2p_cancel_end
    p2p_cancel_rest
    p2p_computing
    p2p_deep_queues
    p2p_communicators
    p2p_derived
    p2p_first
    p2p_first_leaves
    p2p_flood
    p2p_isendrecv
    p2p_large
    p2p_leaves
    p2p_mprobe
    p2p_mprobe_threads
    p2p_order
    p2p_persistent
    p2p_probe
    p2p_procnull
    p2p_remapped
    p2p_secret
    p2p_self
    p2p_send_alone
    p2p_truncate
    p2p_waits
    p2p_wildcards
    param_check_off
    partitioned_basic
    partitioned_errors
    partitioned_order
    partitioned_threads
    persistent_basic
    persistent_errors
    persistent_order
    persistent_threads
    persistent_vector
    ports
    postboxes
    request_complete_at_once
    request_get_status
    requests_freed
    session_buffers
    session_cycles
    session_errors
    session_forked
    session_leak
    session_levels
    session_live
    session_mixed
    session_psets
    session_spawned
    session_threads
    session_upgrade
    single_copy_tracer
    spawn
    spawn_multiple
    thread_multiple
    thread_queued
    thread_stress
    thread_wake
    types_bottom
    types_contents
    types_darray
    types_elements
    types_external32
    types_f90
    types_free_early
    types_irregular
    types_lazy
    types_leak
    types_names
    types_pack
    types_predefined
    types_struct
    types_subarray
    ulfm
    virtual_nodes
    win_accumulate
    win_accumulate_whole
    win_atomics
    win_create
    win_dynamic
    win_errors
    win_far
    win_lock
    win_mailbox
    win_objects
    win_progress
    win_pscw
    win_put_get
    win_requests
    win_shared
    win_threads
    win_words
}

#[test]
fn a_program_says_over_what_it_cannot_run_and_why() {
    let source = "// ranks: 1 2\n// not over: tcp, because it looks into its segment\nint main() {}\n";
    assert!(is_not_over(source, "tcp") && !is_not_over(source, "shm"));
    assert!(!is_not_over("// ranks: 1\n// not over: tcp\n", "tcp"), "without a reason");
}

#[test]
fn all_programs_are_named_here() {
    let entries = std::fs::read_dir(root().join("tests/c")).unwrap().map(|e| e.unwrap().path());
    let mut there: Vec<String> = entries
        .filter(|p| p.extension().is_some_and(|e| e == "c") && !NOT_RUN.iter().any(|n| p.ends_with(n)))
        .map(|p| p.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    there.sort();
    let mut named = PROGRAMS.to_vec();
    named.sort_unstable();
    assert_eq!(there, named, "the files in tests/c (left) and the list in {} (right)", file!());
}

#[test]
fn examples_run() {
    let directory = tempdir("c-examples");
    for (name, sizes, text) in [
        ("hello", &[1, 4][..], "hello from rank 0"),
        ("ring", &[2, 4], "(right)"),
        ("pi", &[1, 4], "pi is about 3.14159265359"),
        ("heat", &[1, 2, 4, 6], "the result is right"),
    ] {
        let program = directory.join(name);
        compile(&root().join("examples").join(name).with_extension("c"), &[], &program).unwrap();
        for &n in sizes {
            for way in ["shm", "tcp"] {
                let out = run(&[&*program], n, way)
                    .unwrap_or_else(|error| panic!("{name} over {way} on {n} ranks: {error}"));
                assert!(out.contains(text), "{name} over {way} on {n} ranks: {out}");
            }
        }
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

fn tempdir(name: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("oxmpi-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    directory
}

programs! {
    [program_by_single_copy: SINGLE_COPY] {
        coll_alltoallw
        coll_alltoallv
        thread_multiple
        thread_stress
        p2p_basic
        p2p_bsend
        p2p_buffers
        p2p_cancel
        p2p_cancel_end
        p2p_cancel_rest
        p2p_computing
        p2p_deep_queues
        p2p_communicators
        p2p_derived
        p2p_flood
        p2p_isendrecv
        p2p_large
        p2p_leaves
        p2p_mprobe
        p2p_mprobe_threads
        p2p_order
        p2p_persistent
        p2p_probe
        p2p_send_alone
        p2p_truncate
        p2p_waits
        p2p_wildcards
    }
}
