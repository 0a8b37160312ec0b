//! `oxmpi quiesce` for a job on several hosts: its messages come to rest, and its connections are
//! made anew (rpi crtcp).

use std::fs;
use std::io::{BufRead as _, BufReader};

use super::testbed::{HEAD, Testbed, outcome, testbed};

fn request_quiesce(bed: &Testbed, mpirun: u32) {
    let (code, out, err) = bed.oxmpi_on(HEAD, &["quiesce", &mpirun.to_string()]);
    assert!(code == Some(0) && out.contains("processes stood still"), "{out}{err}");
}

#[test]
fn connections_between_hosts_are_made_anew_and_nothing_is_lost() {
    const TIMES: u32 = 5;
    let Some(bed) = testbed() else { return };
    let program = bed.compile("jobs/quiesce");
    for (ranks, hosts) in [("4", "nodea:2,nodeb:2"), ("3", "nodea:1,nodeb:1,localhost:1")] {
        let times = TIMES.to_string();
        let words = ["--mca", "rpi", "crtcp", "-n", ranks, "-H", hosts, &program, &times];
        let mut child = bed.mpirun(&words).spawn().unwrap();
        let mut lines =
            BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
        for _ in 0..ranks.parse().unwrap() {
            assert!(lines.next().unwrap().starts_with("rank "));
        }
        for time in 1..=TIMES {
            request_quiesce(&bed, child.id());
            assert_eq!(lines.next(), Some(format!("remade {time}")), "{hosts}");
        }
        assert_eq!(lines.next().as_deref(), Some("whole"), "{hosts}");
        let (code, _, err) = outcome(child.wait_with_output().unwrap());
        assert_eq!(code, Some(0), "{err}");
        let count =
            err.matches(&format!("mpirun: the messages of {ranks} processes stood still")).count();
        assert_eq!((count as u32, err.lines().count() as u32), (TIMES, TIMES), "{err}");
    }
    bed.is_clean();
}

#[test]
fn a_job_after_quiesce_is_reached_by_jobs_of_other_launchers() {
    let Some(bed) = testbed() else { return };
    let program = bed.compile("jobs/quiesced_port");
    let spread = ["-H", "nodea:1,nodeb:1"];
    for quiet in [&["-n", "2"][..], &["-H", "nodea:2"], &spread] {
        let port = bed.directory.join("port").to_str().unwrap().to_string();
        let go = format!("{port}.go");
        let _ = (fs::remove_file(&port), fs::remove_file(&go));
        let start = |side: &str, options: &[&str]| {
            bed.mpirun(&[options, &["--mca", "rpi", "crtcp", &program, side, &port]].concat())
                .spawn()
                .unwrap()
        };
        let (mut here, there) = (start("0", quiet), start("1", &spread));
        let mut lines =
            BufReader::new(here.stdout.take().unwrap()).lines().map(|line| line.unwrap());
        assert_eq!(lines.next().as_deref(), Some("met"), "{quiet:?}");
        request_quiesce(&bed, here.id());
        let mut line = String::new();
        let mut errors = BufReader::new(here.stderr.take().unwrap());
        errors.read_line(&mut line).unwrap();
        assert!(line.starts_with("mpirun: the messages of 2 processes stood still"), "{line}");
        fs::write(&go, "").unwrap();
        let (code, out, err) = outcome(there.wait_with_output().unwrap());
        assert_eq!((code, &*out, &*err), (Some(0), "met\nwhole\n", ""), "{quiet:?}");
        assert_eq!(lines.next().as_deref(), Some("whole"), "{quiet:?}");
        let mut rest = String::new();
        errors.read_line(&mut rest).unwrap();
        assert_eq!((here.wait().unwrap().code(), &*rest), (Some(0), ""), "{quiet:?}");
    }
    bed.is_clean();
}
