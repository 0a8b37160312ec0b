//! Examples, and this test program itself, as ranks under `mpirun`.
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const ROLE: &str = "OXMPI_TEST_ROLE";

/// The work of a rank that another test has started. Without a role it does nothing.
#[test]
fn role() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let universe = oxmpi::init().unwrap();
    let world = universe.world();
    assert_eq!(world.size(), 3);
    let me = world.rank();
    if role.starts_with("lost") && me < 2 {
        // A message leaves at once only on a connection that is already made.
        let sent = world.isend(vec![0u8], 1 - me, 0).unwrap();
        world.recv::<u8>(1 - me, 0).unwrap();
        drop(sent);
    }
    match role.as_str() {
        // The end of the program ends the universe: the message still arrives.
        "drop" if me == 0 => drop(world.isend(vec![1u8; 1_000_000], 2, 0).unwrap()),
        "drop" if me == 2 => assert_eq!(world.recv::<u8>(0, 0).unwrap().0, vec![1; 1_000_000]),
        "panic" if me == 1 => panic!("a rank has had enough"),
        "panic" => drop(world.recv::<u8>(1, 0)),
        "lost" if me == 0 => {
            cut();
            drop(world.isend(vec![1u8; 64], 1, 0).unwrap());
            let lost = universe.finalize().unwrap_err();
            assert!(lost.to_string().starts_with("finalize: messages are lost"), "{lost}");
            println!("it was lost");
        }
        "lost in a drop" if me == 0 => {
            cut();
            drop(world.isend(vec![1u8; 64], 1, 0).unwrap());
        }
        // It takes part in making connections, and still runs when rank 0 ends.
        "lost" | "lost in a drop" => (0..60_000).for_each(|_| {
            let _ = world.iprobe(0, 1);
            std::thread::sleep(Duration::from_millis(1));
        }),
        "abort" if me == 1 => universe.abort(42, "the input is wrong"),
        "abort" => drop(world.recv::<u8>(1, 0)),
        _ => {}
    }
}

/// Makes the kernel reset each later connection at its first bytes.
fn cut() {
    let rule = "-A INPUT -p tcp --tcp-flags PSH PSH -j REJECT --reject-with tcp-reset";
    assert!(Command::new("iptables").args(rule.split(' ')).status().unwrap().success());
}

/// Cargo's output directory for this profile.
fn target() -> PathBuf {
    let me = std::env::current_exe().unwrap();
    me.parent().and_then(Path::parent).unwrap().to_path_buf()
}

/// The launcher, a program of another package. Builds it if it is missing or old.
fn launcher() -> PathBuf {
    let target = target();
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    build.args([
        "build",
        "--quiet",
        "-p",
        "oxmpi-cli",
        "--bin",
        "oxmpi",
        "-p",
        "oxmpi",
        "--examples",
    ]);
    build.arg("--target-dir").arg(target.parent().unwrap());
    if target.ends_with("release") {
        build.arg("--release");
    }
    let built =
        build.current_dir(env!("CARGO_MANIFEST_DIR")).stdin(Stdio::null()).output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    target.join("oxmpi")
}

fn mpirun(ranks: &str, program: &Path, args: &[&str], role: &str) -> (i32, String, String) {
    let Output { status, stdout, stderr } = Command::new(launcher())
        .args(["mpirun", "-n", ranks, "--timeout", "60"])
        .arg(program)
        .args(args)
        .env(ROLE, role)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap_or(-1), text(stdout), text(stderr))
}

fn example(name: &str, ranks: &str, args: &[&str]) -> String {
    let program = target().join("examples").join(name);
    let (code, out, err) = mpirun(ranks, &program, args, "");
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    out
}

fn rank_in_role(role: &str) -> (i32, String, String) {
    let me = std::env::current_exe().unwrap();
    mpirun("3", &me, &["--exact", "launched::role", "--nocapture"], role)
}

#[test]
fn the_examples_print_the_expected_results() {
    let out = example("hello", "3", &[]);
    let lines: Vec<&str> = out.lines().map(|l| l.split(',').next().unwrap()).collect();
    assert_eq!(
        lines,
        ["hello from rank 0 of 3", "hello from rank 1 of 3", "hello from rank 2 of 3"]
    );
    for (ranks, step) in [("1", 0), ("2", 1), ("4", 6)] {
        let expected: String =
            (0..3).map(|r| format!("round {r}: the token is {}\n", (r + 1) * step)).collect();
        assert_eq!(example("ring", ranks, &[]), expected);
    }
    // Nearly the result of the sequential computation, and the same on any number of ranks.
    let heat = ["1", "2", "4", "7"].map(|ranks| example("heat", ranks, &["300"]));
    assert!(heat.iter().all(|line| *line == heat[0]), "{heat:?}");
    let (heat_of_all, change) = plate(300);
    assert_eq!(
        heat[0],
        format!(
            "after 300 steps the plate has a heat of {heat_of_all:.6}, and the last has changed {change:.6} at most\n"
        )
    );
    let pi = example("pi", "3", &["100000"]);
    assert!(pi.starts_with("pi is about 3.14159265"), "{pi}");
}

#[test]
fn a_universe_that_is_dropped_ends_well() {
    let (code, out, err) = rank_in_role("drop");
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
}

#[test]
fn a_rank_that_panics_ends_the_job() {
    let (code, out, err) = rank_in_role("panic");
    assert_eq!(code, 101, "{out}{err}");
    assert!(err.contains("a rank has had enough"), "{err}");
    assert_eq!(err.matches("mpirun:").count(), 1, "{err}");
    assert!(err.contains("rank 1") && err.contains("exited with code 101"), "{err}");
}

#[test]
fn an_abort_ends_the_job_with_its_code_and_text() {
    let (code, out, err) = rank_in_role("abort");
    assert_eq!(code, 42, "{out}{err}");
    assert!(err.contains("rank 1") && err.contains("the input is wrong"), "{err}");
}

mod night {
    use super::*;

    /// Runs in its own network namespace, where rank 0 makes the kernel refuse packets.
    #[test]
    #[ignore = "cargo xtask nightly"]
    fn a_universe_ends_with_an_error_if_messages_are_lost() {
        for role in ["lost", "lost in a drop"] {
            let me = std::env::current_exe().unwrap();
            let Output { status, stdout, stderr } = Command::new("unshare")
                .args(["--net", "sh", "-c", "ip link set lo up && exec \"$@\"", "sh"])
                .arg(launcher())
                .args(["mpirun", "-n", "3", "--mca", "rpi", "tcp", "--timeout", "60"])
                .arg(me)
                .args(["--exact", "launched::role", "--nocapture"])
                .env(ROLE, role)
                .stdin(Stdio::null())
                .output()
                .unwrap();
            let (out, err) = (String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr));
            assert_eq!(out.contains("it was lost"), role == "lost", "{role}: {out}{err}");
            assert!(!status.success(), "{role}: {out}{err}");
            assert!(err.contains("rank 0 cannot reach rank 1 over sockets"), "{role}: {out}{err}");
            assert!(err.contains("without calling MPI_Finalize"), "{role}: {out}{err}");
        }
    }
}

/// The sequential computation of the example `heat`: the heat and the last change.
fn plate(steps: u32) -> (f64, f64) {
    const ROWS: usize = 48;
    const WIDTH: usize = 98;
    let mut now = vec![[0.0f64; WIDTH]; ROWS];
    now.iter_mut().for_each(|row| row[0] = 100.0);
    let mut change: f64 = 0.0;
    for _ in 0..steps {
        let before = now.clone();
        change = 0.0;
        for row in 1..ROWS - 1 {
            for column in 1..WIDTH - 1 {
                let around = before[row][column - 1]
                    + before[row][column + 1]
                    + before[row - 1][column]
                    + before[row + 1][column];
                now[row][column] = around / 4.0;
                change = change.max((now[row][column] - before[row][column]).abs());
            }
        }
    }
    (now.iter().flat_map(|row| &row[1..WIDTH - 1]).sum(), change)
}
