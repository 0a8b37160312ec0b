//! Sets that another user may have made or changed: they are skipped, or refused where they are
//! named.

use super::*;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// A user other than the one of the tests.
const ANOTHER: u32 = 12345;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn run_for(seconds: u32, command: &Command) -> Output {
    run(behind(&["timeout", "-s", "KILL", &seconds.to_string()], command))
}

/// A job that has ended with a set, in a directory where all users may write.
fn ended_with_a_set<'p>(
    sandbox: &'p Sandbox,
    options: &[&str],
    form: &[&str],
) -> (String, ImagedJob<'p>) {
    fs::create_dir(sandbox.sets()).unwrap();
    set_mode(&sandbox.sets(), 0o1777);
    let mut job = sandbox.start(options, "cr_heat", &["2000", "6000"]);
    job.await_line("step");
    let set =
        set_of(&run(sandbox.oxmpi(&[&["checkpoint", "--kill", &job.mpirun()], form].concat())));
    (set, job)
}

#[test]
fn a_set_of_another_user_is_skipped_or_refused_by_its_name() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let (own, job) = ended_with_a_set(&sandbox, &ranks::BY_RANK, &[]);
    job.lose();
    let name = own.rsplit_once('.').unwrap().0.to_string();
    let theirs = format!("{name}.2");
    assert!(Command::new("cp").args(["-a", &own, &theirs]).status().unwrap().success());
    let owner = ANOTHER.to_string();
    assert!(Command::new("chown").args(["-R", &owner, &theirs]).status().unwrap().success());
    let why = format!("{theirs} belongs to user {ANOTHER}, and a set must belong to its reader");
    for words in [&["restart", &theirs][..], &["info", "--checkpoint", &theirs]] {
        refused(&run(sandbox.oxmpi(words)), 1, &[&why]);
    }
    let passed_over = format!("{theirs} is passed over: {why}");
    let described = words(&run(sandbox.oxmpi(&["info", "--checkpoint", &name])));
    assert!(
        described.contains(&passed_over) && described.contains(&format!("{own}\n")),
        "{described}"
    );
    // Files and directories in the set must have the same owner, and no write permission for
    // others.
    for path in ["manifest", "image", "image/rank.0", "image/rank.1/inventory.img"] {
        let path = Path::new(&own).join(path);
        let mode = fs::metadata(&path).unwrap().mode();
        chown(&path, Some(ANOTHER), None).unwrap();
        let belongs = format!("{} belongs to user {ANOTHER}", path.display());
        refused(&run(sandbox.oxmpi(&["restart", &own])), 1, &[&belongs]);
        chown(&path, Some(0), None).unwrap();
        set_mode(&path, mode | 0o020);
        let written = format!("{} may be written by others (mode 0", path.display());
        refused(&run(sandbox.oxmpi(&["restart", &own])), 1, &[&written, "chmod -R go-w"]);
        set_mode(&path, mode);
    }
    set_mode(&sandbox.sets(), 0o777);
    refused(
        &run(sandbox.oxmpi(&["restart", &own])),
        1,
        &["others can replace the sets in ", "chmod +t"],
    );
    let request = with(sandbox.command("mpirun"), &["--mca", "cr", "blcr", "-n", "1", "true"]);
    refused(&run(request), 2, &["others can replace the sets in ", "chmod +t"]);
    set_mode(&sandbox.sets(), 0o1777);
    let mut job = restart(&sandbox, &name, &[]);
    assert!(job.goes_on(), "{}", restarted(&sandbox));
    assert!(restarted(&sandbox).contains(&passed_over), "{}", restarted(&sandbox));
    let options = ["--mca", "cr_keep", "0"];
    let next =
        set_of(&run(sandbox.oxmpi(&[&["checkpoint", &job.mpirun()], &options[..]].concat())));
    assert_eq!(next, format!("{name}.3"));
    assert_eq!((Path::new(&own).exists(), Path::new(&theirs).exists()), (false, true));
    job.lose();
}

#[test]
fn a_manifest_that_is_a_fifo_or_has_no_end_is_refused_at_once() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let (own, job) = ended_with_a_set(&sandbox, &[], &["--tree"]);
    job.lose();
    let name = own.rsplit_once('.').unwrap().0.to_string();
    let (fifo, zero, last) =
        (format!("{name}.2"), format!("{name}.3"), format!("{name}.18446744073709551615"));
    for set in [&fifo, &zero, &last] {
        fs::create_dir(set).unwrap();
    }
    mknodat(CWD, Path::new(&fifo).join("manifest"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)
        .unwrap();
    std::os::unix::fs::symlink("/dev/zero", Path::new(&zero).join("manifest")).unwrap();
    for (set, kind) in [(&fifo, "a FIFO"), (&zero, "a symbolic link")] {
        for words in [&["restart", set][..], &["info", "--checkpoint", set]] {
            let said = format!("{set}/manifest is {kind}, which 'oxmpi checkpoint' does not make");
            refused(&run_for(20, &sandbox.oxmpi(words)), 1, &[&said]);
        }
    }
    let described = run_for(20, &sandbox.oxmpi(&["info", "--checkpoint", &name]));
    let said = words(&described);
    assert!(described.status.success() && said.contains(&format!("{own}\n")), "{said}");
    for (set, why) in [
        (&fifo, "manifest is a FIFO"),
        (&zero, "manifest is a symbolic link"),
        (&last, "no set can follow the number 18446744073709551615"),
    ] {
        let line = said.lines().find(|line| line.contains(&format!("{set} is passed over: ")));
        assert!(line.is_some_and(|line| line.contains(why)), "{set}: {said}");
    }
    assert!(run_for(20, &sandbox.oxmpi(&["checkpoint", "--advise"])).status.code() == Some(1));
    let mut job = restart(&sandbox, &name, &[]);
    assert!(job.goes_on(), "{}", restarted(&sandbox));
    let next = set_of(&run(sandbox.oxmpi(&["checkpoint", "--tree", &job.mpirun()])));
    assert_eq!(next, format!("{name}.4"));
    job.lose();
}

#[test]
fn no_program_comes_from_a_set() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let mark = sandbox.programs.path("mark");
    let text = format!(
        "#!/bin/sh\necho \"$1\" >> {}\nexec {} \"$@\"\n",
        shell_word(&mark),
        shell_word(&sandbox.criu)
    );
    let marking = sandbox.programs.file("marking", text.as_bytes(), 0o755);
    let bin = sandbox.programs.directory.join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(&sandbox.criu, bin.join("criu")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    for (options, form) in [(&ranks::BY_RANK[..], &[][..]), (&[], &["--tree"])] {
        let mut job = sandbox.start(options, "cr_heat", &["2000", "6000"]);
        job.await_line("step");
        let by = ["--mca", "cr_blcr_criu", marking.to_str().unwrap()];
        let pid = job.mpirun();
        let set =
            set_of(&run(sandbox.oxmpi(&[&["checkpoint", "--kill", &pid], form, &by].concat())));
        job.lose();
        let marked = fs::read_to_string(&mark).unwrap();
        assert!(marked.contains("dump"), "{marked}");
        let mut command = sandbox.oxmpi(&["restart", &set]);
        command.env_remove("OXMPI_MCA_cr_blcr_criu").env("PATH", &path);
        let mut job = restart_by(&sandbox, command);
        assert!(job.goes_on(), "{}", restarted(&sandbox));
        assert_eq!(fs::read_to_string(&mark).unwrap(), marked, "the program that made it was run");
        job.lose();
        await_nobody(&sandbox);
    }
}

#[test]
fn the_scratch_directory_of_a_restart_is_private_and_removed() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let scratch = sandbox.programs.directory.join("scratch");
    fs::create_dir(&scratch).unwrap();
    let inside =
        || fs::read_dir(&scratch).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let (seen, fails) = (sandbox.programs.path("seen"), sandbox.programs.path("fails"));
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = restore ] && find {} -mindepth 1 -type d -printf '%m %p\\n' >> {}\n[ \"$1\" = restore ] && [ -e {} ] && exit 1\nexec {} \"$@\"\n",
        shell_word(&scratch),
        shell_word(&seen),
        shell_word(&fails),
        shell_word(&sandbox.criu)
    );
    let watching = sandbox.programs.file("watching", text.as_bytes(), 0o755);
    for (options, form) in [(&ranks::BY_RANK[..], &[][..]), (&[], &["--tree"])] {
        let mut job = sandbox.start(options, "cr_heat", &["2000", "6000"]);
        job.await_line("step");
        let set =
            set_of(&run(sandbox.oxmpi(&[&["checkpoint", "--kill", &job.mpirun()], form].concat())));
        job.lose();
        fs::write(&fails, "").unwrap();
        for is_back in [false, true] {
            let like = sandbox.oxmpi(&[
                "restart",
                &set,
                "--mca",
                "cr_blcr_criu",
                watching.to_str().unwrap(),
            ]);
            let mut command = behind(&["sh", "-c", "umask 0; exec \"$0\" \"$@\""], &like);
            command.env("TMPDIR", &scratch);
            let mut job = restart_by(&sandbox, command);
            assert_eq!(job.goes_on(), is_back, "{}", restarted(&sandbox));
            if is_back {
                // With one image of all processes the ranks run before the restart goes on.
                job.await_that("the directory goes when the job is back", |_| inside().is_empty());
            }
            assert_eq!(inside(), Vec::<PathBuf>::new(), "it goes if the job is not to be had");
            let modes = fs::read_to_string(&seen).unwrap();
            assert!(
                !modes.is_empty() && modes.lines().all(|line| line.starts_with("700 ")),
                "{modes}"
            );
            let pid = format!("-{}", job.child.id());
            assert!(!modes.contains(&pid), "{modes}");
            job.lose();
            await_nobody(&sandbox);
            let _ = fs::remove_file(&fails);
        }
    }
}
