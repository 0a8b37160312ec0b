//! Sets that another user may have made or changed: they are passed over, or refused where they are
//! named.

use super::*;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// Some user who is not the one of the tests.
const ANOTHER: u32 = 12345;

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// Runs a command and ends it if it hangs.
fn run_for(seconds: u32, command: &Command) -> Output {
    let mut timed = Command::new("timeout");
    timed.args(["-s", "KILL", &seconds.to_string()]).arg(command.get_program()).args(command.get_args());
    timed.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    timed.current_dir(command.get_current_dir().unwrap()).stdin(Stdio::null());
    run(timed)
}

/// A job that has ended with a set, in a directory where all users may have sets.
fn ended_with_a_set<'p>(place: &'p Place, options: &[&str], form: &[&str]) -> (String, Running<'p>) {
    fs::create_dir(place.sets()).unwrap();
    set_mode(&place.sets(), 0o1777);
    let mut job = place.start(options, "cr_heat", &["2000", "6000"]);
    job.await_line("step");
    let set = set_of(&run(place.oxmpi(&[&["checkpoint", "--kill", &job.mpirun()], form].concat())));
    (set, job)
}

/// Another user has put a newer, complete set beside the caller's.
#[test]
fn a_set_of_another_user_is_passed_over_or_refused_by_its_name() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let (own, job) = ended_with_a_set(&place, &ranks::BY_RANK, &[]);
    job.lose();
    let name = own.rsplit_once('.').unwrap().0.to_string();
    let theirs = format!("{name}.2");
    assert!(Command::new("cp").args(["-a", &own, &theirs]).status().unwrap().success());
    let owner = ANOTHER.to_string();
    assert!(Command::new("chown").args(["-R", &owner, &theirs]).status().unwrap().success());
    let why = format!("{theirs} belongs to user {ANOTHER}, and a set must belong to its reader");
    for words in [&["restart", &theirs][..], &["info", "--checkpoint", &theirs]] {
        refused(&run(place.oxmpi(words)), 1, &[&why]);
    }
    let passed_over = format!("{theirs} is passed over: {why}");
    let described = words(&run(place.oxmpi(&["info", "--checkpoint", &name])));
    assert!(described.contains(&passed_over) && described.contains(&format!("{own}\n")), "{described}");
    // Nor may a file or directory within belong to others, or be written by others.
    for path in ["manifest", "image", "image/rank.0", "image/rank.1/inventory.img"] {
        let path = Path::new(&own).join(path);
        let mode = fs::metadata(&path).unwrap().mode();
        chown(&path, Some(ANOTHER), None).unwrap();
        let belongs = format!("{} belongs to user {ANOTHER}", path.display());
        refused(&run(place.oxmpi(&["restart", &own])), 1, &[&belongs]);
        chown(&path, Some(0), None).unwrap();
        set_mode(&path, mode | 0o020);
        let written = format!("{} may be written by others (mode 0", path.display());
        refused(&run(place.oxmpi(&["restart", &own])), 1, &[&written, "chmod -R go-w"]);
        set_mode(&path, mode);
    }
    // Users who may rename the set can replace it.
    set_mode(&place.sets(), 0o777);
    refused(&run(place.oxmpi(&["restart", &own])), 1, &["others can replace the sets in ", "chmod +t"]);
    let asks = with(place.command("mpirun"), &["--mca", "cr", "blcr", "-n", "1", "true"]);
    refused(&run(asks), 2, &["others can replace the sets in ", "chmod +t"]);
    set_mode(&place.sets(), 0o1777);
    let mut job = restart(&place, &name, &[]);
    assert!(job.goes_on(), "{}", restarted(&place));
    assert!(restarted(&place).contains(&passed_over), "{}", restarted(&place));
    // Their set keeps its number, and is not removed.
    let options = ["--mca", "cr_keep", "0"];
    let next = set_of(&run(place.oxmpi(&[&["checkpoint", &job.mpirun()], &options[..]].concat())));
    assert_eq!(next, format!("{name}.3"));
    assert_eq!((Path::new(&own).exists(), Path::new(&theirs).exists()), (false, true));
    job.lose();
}

#[test]
fn a_manifest_that_is_a_fifo_or_has_no_end_is_refused_at_once() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let (own, job) = ended_with_a_set(&place, &[], &["--tree"]);
    job.lose();
    let name = own.rsplit_once('.').unwrap().0.to_string();
    let (fifo, zero, last) =
        (format!("{name}.2"), format!("{name}.3"), format!("{name}.18446744073709551615"));
    for set in [&fifo, &zero, &last] {
        fs::create_dir(set).unwrap();
    }
    mknodat(CWD, Path::new(&fifo).join("manifest"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    std::os::unix::fs::symlink("/dev/zero", Path::new(&zero).join("manifest")).unwrap();
    for (set, kind) in [(&fifo, "a FIFO"), (&zero, "a symbolic link")] {
        for words in [&["restart", set][..], &["info", "--checkpoint", set]] {
            let said = format!("{set}/manifest is {kind}, which 'oxmpi checkpoint' does not make");
            refused(&run_for(20, &place.oxmpi(words)), 1, &[&said]);
        }
    }
    let described = run_for(20, &place.oxmpi(&["info", "--checkpoint", &name]));
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
    assert!(run_for(20, &place.oxmpi(&["checkpoint", "--advise"])).status.code() == Some(1));
    let mut job = restart(&place, &name, &[]);
    assert!(job.goes_on(), "{}", restarted(&place));
    let next = set_of(&run(place.oxmpi(&["checkpoint", "--tree", &job.mpirun()])));
    assert_eq!(next, format!("{name}.4"));
    job.lose();
}

#[test]
fn no_program_comes_from_a_set() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let mark = place.programs.path("mark");
    let text =
        format!("#!/bin/sh\necho \"$1\" >> {}\nexec {} \"$@\"\n", mark.display(), place.criu.display());
    let marking = place.programs.file("marking", text.as_bytes(), 0o755);
    let bin = place.programs.directory.join("bin");
    fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(&place.criu, bin.join("criu")).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    for (options, form) in [(&ranks::BY_RANK[..], &[][..]), (&[], &["--tree"])] {
        let mut job = place.start(options, "cr_heat", &["2000", "6000"]);
        job.await_line("step");
        let by = ["--mca", "cr_blcr_criu", marking.to_str().unwrap()];
        let pid = job.mpirun();
        let set = set_of(&run(place.oxmpi(&[&["checkpoint", "--kill", &pid], form, &by].concat())));
        job.lose();
        let marked = fs::read_to_string(&mark).unwrap();
        assert!(marked.contains("dump"), "{marked}");
        let said = File::create(place.programs.directory.join("restarted")).unwrap();
        let mut command = place.oxmpi(&["restart", &set]);
        command.env_remove("OXMPI_MCA_cr_blcr_criu").env("PATH", &path);
        let child = command.stdout(said.try_clone().unwrap()).stderr(said).spawn().unwrap();
        let mut job = Running { place: &place, out: place.programs.directory.join("out"), child };
        assert!(job.goes_on(), "{}", restarted(&place));
        assert_eq!(fs::read_to_string(&mark).unwrap(), marked, "the program that made it was run");
        job.lose();
        await_nobody(&place);
    }
}

#[test]
fn the_scratch_directory_of_a_restart_is_private_and_removed() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let scratch = place.programs.directory.join("scratch");
    fs::create_dir(&scratch).unwrap();
    let inside = || fs::read_dir(&scratch).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let (seen, fails) = (place.programs.path("seen"), place.programs.path("fails"));
    let text = format!(
        "#!/bin/sh\n[ \"$1\" = restore ] && find {} -mindepth 1 -type d -printf '%m %p\\n' >> {}\n[ \"$1\" = restore ] && [ -e {} ] && exit 1\nexec {} \"$@\"\n",
        scratch.display(),
        seen.display(),
        fails.display(),
        place.criu.display()
    );
    let watching = place.programs.file("watching", text.as_bytes(), 0o755);
    for (options, form) in [(&ranks::BY_RANK[..], &[][..]), (&[], &["--tree"])] {
        let mut job = place.start(options, "cr_heat", &["2000", "6000"]);
        job.await_line("step");
        let set = set_of(&run(place.oxmpi(&[&["checkpoint", "--kill", &job.mpirun()], form].concat())));
        job.lose();
        fs::write(&fails, "").unwrap();
        for is_back in [false, true] {
            let mut command = Command::new("sh");
            let like = place.oxmpi(&["restart", &set, "--mca", "cr_blcr_criu", watching.to_str().unwrap()]);
            command.args(["-c", "umask 0; exec \"$0\" \"$@\""]).arg(like.get_program()).args(like.get_args());
            command.envs(like.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command.env("TMPDIR", &scratch).current_dir(&place.programs.directory);
            let said = File::create(place.programs.directory.join("restarted")).unwrap();
            command.stdin(Stdio::null()).stdout(said.try_clone().unwrap()).stderr(said);
            let child = command.spawn().unwrap();
            let mut job = Running { place: &place, out: place.programs.directory.join("out"), child };
            assert_eq!(job.goes_on(), is_back, "{}", restarted(&place));
            if is_back {
                // Ranks of one image of all run before the restart goes on.
                job.await_that("the directory goes when the job is back", |_| inside().is_empty());
            }
            assert_eq!(inside(), Vec::<PathBuf>::new(), "it goes if the job is not to be had");
            let modes = fs::read_to_string(&seen).unwrap();
            assert!(!modes.is_empty() && modes.lines().all(|line| line.starts_with("700 ")), "{modes}");
            let pid = format!("-{}", job.child.id());
            assert!(!modes.contains(&pid), "{modes}");
            job.lose();
            await_nobody(&place);
            let _ = fs::remove_file(&fails);
        }
    }
}
