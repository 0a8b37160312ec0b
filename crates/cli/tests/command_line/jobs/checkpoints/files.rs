//! Files of a job at its restarts: parts that are cut off are kept and put back, and files are
//! known by their contents.

use super::*;

/// Both forms of images: options of mpirun, and words of `oxmpi checkpoint`.
const FORMS: [(&[&str], &[&str]); 2] = [(&ranks::BY_RANK, &[]), (&[], &["--tree"])];

#[test]
fn each_of_three_sets_is_restarted_as_often_as_one_likes() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    for (options, form) in FORMS {
        let args = ["300", "6000"];
        let (code, alone) = place.start(options, "cr_heat", &args).end();
        assert_eq!(code, 0, "{alone}");
        let mut job = place.start(options, "cr_heat", &args);
        let mut sets = Vec::new();
        for _ in 0..3 {
            // So far apart that a job that has come back is mostly lost before it comes to the next
            // one.
            (0..2).for_each(|_| job.await_line("step"));
            sets.push(set_of(&run(place.oxmpi(&[&["checkpoint", &job.mpirun()], form].concat()))));
        }
        job.await_line("step");
        job.lose();
        await_nobody(&place);
        for at in [0, 2, 1, 2, 0] {
            let described = words(&run(place.oxmpi(&["info", "--checkpoint", &sets[at]])));
            let bytes = described.split("/out (").nth(1).and_then(|rest| rest.split(' ').next());
            let bytes: usize = bytes.and_then(|bytes| bytes.parse().ok()).expect(&described);
            let mut job = restart(&place, &sets[at], &[]);
            let has_more = |job: &Running<'_>| {
                restarted(&place).contains(&format!(" {bytes} bytes")) && job.text().len() > bytes
            };
            job.await_that(&format!("set {at} does not go on"), has_more);
            job.lose();
            await_nobody(&place);
        }
        for at in [2, 1] {
            let (code, out) = restart(&place, &sets[at], &[]).end();
            assert_eq!((code, results(&out)), (0, results(&alone)), "{at}: {}", restarted(&place));
            await_nobody(&place);
        }
        fs::remove_dir_all(place.sets()).unwrap();
    }
}

/// CRIU is checked before a file is changed, and if it fails later the parts that were cut off are
/// put back.
#[test]
fn a_restart_that_fails_leaves_files_as_they_were() {
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let failing = |act: &str| {
        let text = format!("#!/bin/sh\n[ \"$1\" = {act} ] && exit 1\nexec {} \"$@\"\n", place.criu.display());
        place.programs.file(act, text.as_bytes(), 0o755).display().to_string()
    };
    for (options, form) in FORMS {
        let mut job = place.start(options, "cr_heat", &["2000", "6000"]);
        job.await_line("step");
        let set = set_of(&run(place.oxmpi(&[&["checkpoint", &job.mpirun()], form].concat())));
        job.await_line("step");
        job.lose();
        await_nobody(&place);
        let out = place.programs.path("out");
        let before = (fs::read(&out).unwrap(), fs::metadata(&out).unwrap().modified().unwrap());
        let text = String::from_utf8_lossy(&before.0);
        for (act, says) in [("check", "CRIU cannot work here: "), ("restore", "CRIU")] {
            let by = ["--mca", "cr_blcr_criu", &failing(act)];
            let output = run(place.oxmpi(&[&["restart", &set], &by[..]].concat()));
            refused(&output, 1, &[says]);
            assert_eq!(
                words(&output).contains("/out is cut back to "),
                act == "restore",
                "{}",
                words(&output)
            );
            let after = (fs::read(&out).unwrap(), fs::metadata(&out).unwrap().modified().unwrap());
            assert!(after == before, "{act}: {} {text}", String::from_utf8_lossy(&after.0));
            assert_eq!(set_names(&place).len(), 1, "nothing is kept: {:?}", place.names());
            await_nobody(&place);
        }
        let mut job = restart(&place, &set, &[]);
        assert!(job.goes_on(), "{}", restarted(&place));
        job.lose();
        await_nobody(&place);
        fs::remove_dir_all(place.sets()).unwrap();
    }
}

/// A file system of its own, mounted in the place of a directory as long as this lives.
struct Mounted(PathBuf);

impl Mounted {
    fn at(path: &Path) -> Mounted {
        let mount = Command::new("mount").args(["-t", "tmpfs", "none"]).arg(path).status().unwrap();
        assert!(mount.success(), "{}", path.display());
        Mounted(path.to_path_buf())
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").args(["-l"]).arg(&self.0).status();
    }
}

/// As after a reboot, over NFS, on another host: the file system has another number, and a copy of
/// the file another inode.
#[test]
fn a_file_under_another_device_number_is_known_by_its_contents() {
    use std::os::unix::fs::MetadataExt as _;
    let Some(place) = Place::new(&["jobs/cr_heat"]) else { return };
    let (disk, aside) = (place.programs.directory.join("disk"), place.programs.directory.join("aside"));
    fs::create_dir(&disk).unwrap();
    for (options, form) in FORMS {
        let _old = Mounted::at(&disk);
        let out = disk.join("out");
        let start = || {
            let mut command = place.command("mpirun");
            command.args(["-n", "4", "--timeout", "85"]).args(options).arg(place.programs.path("cr_heat"));
            command.args(["300", "6000"]).arg(place.programs.marker()).current_dir(&disk);
            let file = File::create(&out).unwrap();
            let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
            Running { place: &place, out: out.clone(), child }
        };
        let (code, alone) = start().end();
        assert_eq!(code, 0, "{alone}");
        let mut job = start();
        job.await_line("step");
        let set = set_of(&run(place.oxmpi(&[&["checkpoint", &job.mpirun()], form].concat())));
        job.await_line("step");
        job.lose();
        await_nobody(&place);
        let was = fs::metadata(&out).unwrap();
        fs::copy(&out, &aside).unwrap();
        // While the old one is there, no other has its number.
        let _new = Mounted::at(&disk);
        let other = fs::read(&aside).unwrap().iter().map(|byte| byte ^ 1).collect::<Vec<u8>>();
        fs::write(disk.join("first"), "").unwrap();
        fs::write(&out, &other).unwrap();
        assert_ne!(fs::metadata(&out).unwrap().dev(), was.dev());
        let another = "/out is another file than at the checkpoint, with other contents";
        refused(&run(place.oxmpi(&["restart", &set])), 1, &[another, "--files accept"]);
        assert_eq!(fs::read(&out).unwrap(), other, "a refusal changes nothing");
        let accept = |options: &[&str]| {
            let said = File::create(place.programs.directory.join("restarted")).unwrap();
            let mut command = place.oxmpi(&[&["restart", &set], options].concat());
            let child = command.stdout(said.try_clone().unwrap()).stderr(said).spawn().unwrap();
            Running { place: &place, out: out.clone(), child }
        };
        let mut job = accept(&["--files", "accept"]);
        assert!(job.goes_on(), "{}", restarted(&place));
        job.lose();
        await_nobody(&place);
        let told = restarted(&place);
        assert!(told.contains("/out is another file than at the checkpoint; it is taken as it is"), "{told}");
        fs::copy(&aside, &out).unwrap();
        let (code, text) = accept(&[]).end();
        assert_eq!((code, results(&text)), (0, results(&alone)), "{}", restarted(&place));
        await_nobody(&place);
        fs::remove_dir_all(place.sets()).unwrap();
    }
}
