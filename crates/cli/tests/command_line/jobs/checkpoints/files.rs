//! Files of a job at its restarts: parts that are cut off are kept and restored, and files are
//! recognized by their contents.

use super::*;

/// Both kinds of images: options of mpirun, and words of `oxmpi checkpoint`.
const FORMS: [(&[&str], &[&str]); 2] = [(&ranks::BY_RANK, &[]), (&[], &["--tree"])];

#[test]
fn each_of_three_sets_is_restarted_repeatedly() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    for (options, form) in FORMS {
        let args = ["700", "6000"];
        let (code, alone) = sandbox.start(options, "cr_heat", &args).end();
        assert_eq!(code, 0, "{alone}");
        let mut job = sandbox.start(options, "cr_heat", &args);
        let mut sets = Vec::new();
        for _ in 0..3 {
            // Two steps are so far apart that most jobs are lost before they repeat the next one.
            (0..2).for_each(|_| job.await_line("step"));
            sets.push(set_of(
                &run(sandbox.oxmpi(&[&["checkpoint", &job.mpirun()], form].concat())),
            ));
        }
        job.await_line("step");
        job.lose();
        await_nobody(&sandbox);
        for at in [0, 2, 1, 2, 0] {
            let described = words(&run(sandbox.oxmpi(&["info", "--checkpoint", &sets[at]])));
            let bytes = described.split("/out (").nth(1).and_then(|rest| rest.split(' ').next());
            let bytes: usize = bytes.and_then(|bytes| bytes.parse().ok()).expect(&described);
            let mut job = restart(&sandbox, &sets[at], &[]);
            let has_more = |job: &ImagedJob<'_>| {
                restarted(&sandbox).contains(&format!(" {bytes} bytes")) && job.text().len() > bytes
            };
            job.await_that(&format!("set {at} does not go on"), has_more);
            job.lose();
            await_nobody(&sandbox);
        }
        for at in [2, 1] {
            let (code, out) = restart(&sandbox, &sets[at], &[]).end();
            assert_eq!(
                (code, results(&out)),
                (0, results(&alone)),
                "{at}: {}",
                restarted(&sandbox)
            );
            await_nobody(&sandbox);
        }
        fs::remove_dir_all(sandbox.sets()).unwrap();
    }
}

/// CRIU is checked before a file is changed. After a later failure the parts that were cut off are
/// restored.
#[test]
fn a_restart_that_fails_leaves_files_as_they_were() {
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let failing = |act: &str| {
        let text = format!(
            "#!/bin/sh\n[ \"$1\" = {act} ] && exit 1\nexec {} \"$@\"\n",
            shell_word(&sandbox.criu)
        );
        sandbox.programs.file(act, text.as_bytes(), 0o755).display().to_string()
    };
    for (options, form) in FORMS {
        let mut job = sandbox.start(options, "cr_heat", &["2000", "6000"]);
        job.await_line("step");
        let set = set_of(&run(sandbox.oxmpi(&[&["checkpoint", &job.mpirun()], form].concat())));
        job.await_line("step");
        job.lose();
        await_nobody(&sandbox);
        let out = sandbox.programs.path("out");
        let before = (fs::read(&out).unwrap(), fs::metadata(&out).unwrap().modified().unwrap());
        let text = String::from_utf8_lossy(&before.0);
        for (act, says) in [("check", "CRIU cannot work here: "), ("restore", "CRIU")] {
            let by = ["--mca", "cr_blcr_criu", &failing(act)];
            let output = run(sandbox.oxmpi(&[&["restart", &set], &by[..]].concat()));
            refused(&output, 1, &[says]);
            assert_eq!(
                words(&output).contains("/out is cut back to "),
                act == "restore",
                "{}",
                words(&output)
            );
            let after = (fs::read(&out).unwrap(), fs::metadata(&out).unwrap().modified().unwrap());
            assert!(after == before, "{act}: {} {text}", String::from_utf8_lossy(&after.0));
            assert_eq!(set_names(&sandbox).len(), 1, "nothing is kept: {:?}", sandbox.names());
            await_nobody(&sandbox);
        }
        let mut job = restart(&sandbox, &set, &[]);
        assert!(job.goes_on(), "{}", restarted(&sandbox));
        job.lose();
        await_nobody(&sandbox);
        fs::remove_dir_all(sandbox.sets()).unwrap();
    }
}

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

/// Like a reboot, NFS, or another host: the file system has another number, and the copy of a file
/// another inode.
#[test]
fn a_file_under_another_device_number_is_known_by_its_contents() {
    use std::os::unix::fs::MetadataExt as _;
    let Some(sandbox) = Sandbox::new(&["jobs/cr_heat"]) else { return };
    let (disk, aside) =
        (sandbox.programs.directory.join("disk"), sandbox.programs.directory.join("aside"));
    fs::create_dir(&disk).unwrap();
    for (options, form) in FORMS {
        let _old = Mounted::at(&disk);
        let out = disk.join("out");
        let start = || {
            let mut command = sandbox.command("mpirun");
            command
                .args(["-n", "4", "--timeout", "85"])
                .args(options)
                .arg(sandbox.programs.path("cr_heat"));
            command.args(["300", "6000"]).arg(sandbox.programs.marker()).current_dir(&disk);
            let file = File::create(&out).unwrap();
            let child = command.stdout(file.try_clone().unwrap()).stderr(file).spawn().unwrap();
            ImagedJob { sandbox: &sandbox, out: out.clone(), child }
        };
        let (code, alone) = start().end();
        assert_eq!(code, 0, "{alone}");
        let mut job = start();
        job.await_line("step");
        let set = set_of(&run(sandbox.oxmpi(&[&["checkpoint", &job.mpirun()], form].concat())));
        job.await_line("step");
        job.lose();
        await_nobody(&sandbox);
        let was = fs::metadata(&out).unwrap();
        fs::copy(&out, &aside).unwrap();
        // The old file system is still mounted, so the new one gets another number.
        let _new = Mounted::at(&disk);
        let other = fs::read(&aside).unwrap().iter().map(|byte| byte ^ 1).collect::<Vec<u8>>();
        fs::write(disk.join("first"), "").unwrap();
        fs::write(&out, &other).unwrap();
        assert_ne!(fs::metadata(&out).unwrap().dev(), was.dev());
        let another = "/out is another file than at the checkpoint, with other contents";
        refused(&run(sandbox.oxmpi(&["restart", &set])), 1, &[another, "--files accept"]);
        assert_eq!(fs::read(&out).unwrap(), other, "a refusal changes nothing");
        let accept =
            |options: &[&str]| ImagedJob { out: out.clone(), ..restart(&sandbox, &set, options) };
        let mut job = accept(&["--files", "accept"]);
        assert!(job.goes_on(), "{}", restarted(&sandbox));
        job.lose();
        await_nobody(&sandbox);
        let report = restarted(&sandbox);
        assert!(
            report.contains("/out is another file than at the checkpoint; it is taken as it is"),
            "{report}"
        );
        fs::copy(&aside, &out).unwrap();
        let (code, text) = accept(&[]).end();
        assert_eq!((code, results(&text)), (0, results(&alone)), "{}", restarted(&sandbox));
        await_nobody(&sandbox);
        fs::remove_dir_all(sandbox.sets()).unwrap();
    }
}
