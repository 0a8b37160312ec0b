//! Messages of a job as an observer on the network sees them.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use super::testbed::{A, testbed};

const LISTEN: &str = include_str!("../../../../../tests/c/jobs/listen.c");

const SPEAK: &str = include_str!("../../../../../tests/c/jobs/speak.c");

#[test]
fn messages_between_hosts_cannot_be_read_unless_encryption_is_off() {
    let Some(bed) = testbed() else { return };
    let (listen, speak) = (bed.compile_text("listen", LISTEN), bed.compile_text("speak", SPEAK));
    for (options, is_seen) in [
        (&[][..], false),
        (&["--mca", "mpi_encrypt", "0"], true),
        (&["--mca", "mpi_encrypt", "1"], false),
        (&["--mca", "rpi", "tcp"], false),
        (&["--mca", "rpi", "lamd"], false),
        (&["--mca", "rpi", "lamd", "--mca", "mpi_encrypt", "0"], true),
    ] {
        let heard = bed.directory.join("heard");
        let mut command = bed.on(A, &listen);
        let mut listener = command.arg(&heard).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(listener.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "listening\n");
        let (code, out, err) =
            bed.run(&[options, &["-n", "2", "-H", "nodea,nodeb", &speak]].concat());
        listener.kill().unwrap();
        listener.wait().unwrap();
        assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "ok\n", ""), "{options:?}");
        let bytes = fs::read(&heard).unwrap();
        assert!(bytes.len() > 500_000, "{options:?}: {} bytes were heard", bytes.len());
        let word = b"open sesame!";
        let seen = bytes.windows(word.len()).filter(|window| window == word).count();
        assert_eq!(seen > 10_000, is_seen, "{options:?}: {seen}");
        assert!(is_seen || seen == 0, "{options:?}: {seen}");
    }
    bed.is_clean();
}

#[test]
fn a_job_on_several_hosts_is_refused_if_the_transport_between_them_is_left_out() {
    let Some(bed) = testbed() else { return };
    let speak = bed.compile_text("speak", SPEAK);
    for list in ["^tcp", "self,sm"] {
        let (code, out, err) =
            bed.run(&["--mca", "btl", list, "-n", "2", "-H", "nodea,nodeb", &speak]);
        assert_eq!((code, out.as_str()), (Some(2), ""), "{list}: {err}");
        let said = format!("parameter 'btl' is '{list}' (from --mca btl {list})");
        for text in [&said, "2 hosts", "'--mca btl self,sm,tcp'", "run all ranks on one host"] {
            assert!(err.contains(text), "{list}: {err}");
        }
        let (code, out, err) = bed.run(&["--mca", "btl", list, "-n", "2", "-H", "nodea:2", &speak]);
        assert_eq!((code, out.as_str(), err.as_str()), (Some(0), "ok\n", ""), "{list}");
    }
    bed.is_clean();
}
