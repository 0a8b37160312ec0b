//! A cluster of two daemons of MUNGE with one key.

use std::fs::{self, DirBuilder, File, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Whether the machine lacks something. The test fails then, unless skips are allowed.
pub(crate) fn skip(why: &str) {
    let is_allowed = std::env::var_os("OXMPI_TEST_ALLOW_SKIPS").is_some();
    assert!(is_allowed, "{why}");
    eprintln!("skipped: {why}");
}

/// The daemons, which end with this value.
#[derive(Debug)]
pub(crate) struct Cluster {
    directory: PathBuf,
    daemons: Vec<Child>,
}

impl Cluster {
    /// Starts the daemons. `None`: there are none here, and the test may be left out.
    pub(crate) fn start() -> Option<Cluster> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        // Sockets have short names, so they are not below the build directory.
        let name = format!("oxmpi-munge-{}-{number}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        // Each munged refuses a directory that others could change.
        DirBuilder::new().mode(0o755).create(&directory).unwrap();
        let mut cluster = Cluster { directory, daemons: Vec::new() };
        let key = cluster.directory.join("key");
        let mut random = [0; 64];
        oxmpi_sys::net::fill_random(&mut random).unwrap();
        fs::write(&key, random).unwrap();
        fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
        for node in 0..2 {
            let place = cluster.directory.join(node.to_string());
            DirBuilder::new().mode(0o755).create(&place).unwrap();
            let log = File::create(place.join("output")).unwrap();
            let mut command = Command::new("munged");
            // Debian has daemons in a directory that users do not search.
            let path = std::env::var("PATH").unwrap_or_default();
            command.env("PATH", format!("{path}:/usr/sbin"));
            // By force it starts as root, and in directories that it does not like.
            command.args(["--foreground", "--force"]);
            for (option, file) in [
                ("--key-file", key.clone()),
                ("--socket", cluster.socket(node)),
                ("--pid-file", place.join("pid")),
                ("--log-file", place.join("log")),
                ("--seed-file", place.join("seed")),
            ] {
                command.arg(format!("{option}={}", file.display()));
            }
            let log = (log.try_clone().unwrap(), log);
            let started = command.stdin(Stdio::null()).stdout(log.0).stderr(log.1).spawn();
            let Ok(daemon) = started else {
                skip("there is no munged here: apt-get install munge");
                return None;
            };
            cluster.daemons.push(daemon);
            cluster.wait_for(node);
        }
        Some(cluster)
    }

    fn wait_for(&self, node: u32) {
        let end = Instant::now() + Duration::from_secs(10);
        while UnixStream::connect(self.socket(node)).is_err() {
            let log = self.directory.join(node.to_string()).join("output");
            assert!(Instant::now() < end, "{}", fs::read_to_string(log).unwrap());
            thread::sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// The socket of the daemon of a node. Even nodes share one, odd nodes the other.
    pub(crate) fn socket(&self, node: u32) -> PathBuf {
        self.directory.join((node % 2).to_string()).join("socket")
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        let _ = fs::remove_dir_all(&self.directory);
    }
}
