//! Ranks that have loaded another MPI library: an interpreter, or a program that opens its library
//! later, does not name it before it runs (see [`other_library`](super::other_library)). Each would
//! be a job of one rank of that library, so the user is warned.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::launcher::Launcher;
use super::other_library::{Dynamic, STANDARD, owner_of};

/// When ranks are checked after their start: an interpreter loads its modules first.
const CHECKS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(5)];

/// The checks of ranks that have not called MPI_Init.
#[derive(Debug)]
pub(super) struct LibraryChecks {
    start: Instant,
    done: usize,
}

impl LibraryChecks {
    pub(super) fn begin() -> LibraryChecks {
        LibraryChecks { start: Instant::now(), done: 0 }
    }

    /// The time of the next check.
    pub(super) fn time(&self) -> Option<Instant> {
        CHECKS.get(self.done).map(|after| self.start + *after)
    }

    /// Returns, once, whether it is time for a check.
    fn is_due(&mut self, now: Instant) -> bool {
        let is_due = self.time().is_some_and(|time| time <= now);
        self.done += usize::from(is_due);
        is_due
    }

    /// No further check is needed.
    fn end(&mut self) {
        self.done = CHECKS.len();
    }
}

/// Another MPI library that a process has loaded.
#[derive(Debug, PartialEq)]
struct OtherLoaded {
    library: PathBuf,
    owner: &'static str,
    /// The file that needs the library.
    by: Option<PathBuf>,
    /// Whether the library is in the directory of OxMPI's, where it has replaced one.
    has_replaced: bool,
    /// OxMPI's library with the same functions.
    own: Option<PathBuf>,
}

impl Launcher<'_> {
    /// Checks the ranks of this host if it is time.
    pub(super) fn check_libraries_of_ranks(&mut self, now: Instant) {
        if !self.library_checks.is_due(now) || self.launch.params.mpi_allow_singletons() {
            return;
        }
        let own = self.launch.library_directory.as_deref();
        let found = self.members.iter().find_map(|(number, _)| {
            let rank = self.rank(number).filter(|rank| rank.segment.status().pid().is_none())?;
            let pid = u32::try_from(rank.process.pid).ok()?;
            let all = with_descendants(pid);
            all.into_iter().find_map(|pid| Some((number, pid, other_loaded(pid, own)?)))
        });
        if let Some((number, pid, other)) = found {
            let (rank, of) = self.job.place(number);
            self.library_checks.end();
            self.print(&warning(rank, &of, pid, &other));
        }
    }
}

fn warning(rank: u32, of: &str, pid: u32, other: &OtherLoaded) -> String {
    let OtherLoaded { library, owner, by, has_replaced, own } = other;
    let by = by.as_ref().map_or(String::new(), |by| format!(", which {} needs", by.display()));
    let first = own.as_ref().map_or(String::new(), |own| {
        format!(", or load OxMPI's library first (mpirun -x LD_PRELOAD={})", own.display())
    });
    let next = match has_replaced {
        true => {
            "another package has replaced OxMPI's file: remove the package, and install OxMPI again (for a wheel: pip install \
             --force-reinstall --no-deps)"
                .to_owned()
        }
        false => format!(
            "install the file for OxMPI, or let it find OxMPI's library (remove its DT_RPATH; for mpi4py, unset \
             MPI4PY_LIBMPI){first}"
        ),
    };
    format!(
        "mpirun: rank {rank}{of} (pid {pid}) has loaded {}{by}: the library belongs to {owner}, so each rank would be a job \
         of one rank\n  Next:    {next}\n",
        library.display()
    )
}

/// A process and its descendants: a script starts the program (proc_tid_children(5)).
fn with_descendants(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut at = 0;
    while let Some(pid) = all.get(at) {
        let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
        let children = children.unwrap_or_default();
        all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        at += 1;
    }
    all
}

/// The first library of another MPI that a process has mapped.
fn other_loaded(pid: u32, own: Option<&Path>) -> Option<OtherLoaded> {
    let files = mapped_files(&std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?);
    other_among(&files, own.and_then(|own| own.canonicalize().ok()).as_deref())
}

fn other_among(files: &[PathBuf], own: Option<&Path>) -> Option<OtherLoaded> {
    let is_own = |file: &Path| file.parent().is_some_and(|place| Some(place) == own);
    let is_standard = |file: &Path| {
        file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(STANDARD))
    };
    // All libraries of OxMPI load this one.
    let has_own = files.iter().any(|file| is_own(file) && is_standard(file));
    // The kernel places a file below the files that were mapped before (mmap(2)).
    let place = |file: &Path| files.iter().rposition(|one| one == file);
    let (library, owner, own) = files.iter().find_map(|file| {
        let name = file.file_name()?.to_str()?;
        let owner = owner_of(name)?;
        let same = own.and_then(|own| of_same_abi(own, name));
        // The process will be a rank if the functions of OxMPI come first.
        let is_first = is_own(file) || same.as_ref().is_none_or(|same| place(same) > place(file));
        (!(has_own && is_first)).then(|| (file.clone(), owner, same))
    })?;
    let name = library.file_name()?.to_str()?.to_owned();
    // The name that is needed may lack the last numbers of the file's.
    let is_of = |needed: &String| name.starts_with(needed.as_str());
    let has_replaced = is_own(&library);
    let others = files.iter().filter(|file| **file != library);
    let by = others.into_iter().find(|file| Dynamic::of(file).needed.iter().any(is_of)).cloned();
    Some(OtherLoaded { library, owner, by, has_replaced, own })
}

/// OxMPI's library with the functions of a library of this name.
fn of_same_abi(own: &Path, name: &str) -> Option<PathBuf> {
    let abi = name.split_once(".so.")?.1.split('.').next()?;
    Some(own.join(format!("libmpi.so.{abi}"))).filter(|file| file.exists())
}

/// The files that a process has mapped, by address (proc_pid_maps(5)).
fn mapped_files(maps: &str) -> Vec<PathBuf> {
    let paths = maps.lines().filter_map(|line| line.find('/').and_then(|at| line.get(at..)));
    let mut files: Vec<_> = paths.map(PathBuf::from).collect();
    files.dedup();
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapped_files_have_their_paths() {
        let maps = "\
7f00-7f01 r-xp 00000000 08:01 12 /opt/a b/libmpi.so.40
7f01-7f02 rw-p 00000000 08:01 12 /opt/a b/libmpi.so.40
7f02-7f03 rw-p 00000000 00:00 0
7ffd-7ffe rw-p 00000000 00:00 0 [stack]
";
        assert_eq!(mapped_files(maps), [PathBuf::from("/opt/a b/libmpi.so.40")]);
    }

    #[test]
    fn a_library_in_the_own_directory_may_belong_to_another_package() {
        let files = |names: &[&str]| names.iter().map(PathBuf::from).collect::<Vec<_>>();
        let own = Some(Path::new("/own"));
        let replaced = other_among(&files(&["/own/libmpi.so.12"]), own).unwrap();
        assert!(replaced.has_replaced);
        assert!(warning(0, "", 1, &replaced).contains("install OxMPI again"));
        assert_eq!(other_among(&files(&["/own/libmpi.so.12", "/own/libmpi_abi.so.1"]), own), None);
        let other = other_among(&files(&["/other/libmpi.so.12", "/own/libx.so"]), own).unwrap();
        assert!(!other.has_replaced);
        assert!(warning(0, "", 1, &other).contains("DT_RPATH"));
        assert_eq!(other.own, None);
    }

    #[test]
    fn a_library_in_a_wheel_is_named_with_the_one_to_load_first() {
        let own = std::env::temp_dir().join(format!("oxmpi-loaded-{}", std::process::id()));
        std::fs::create_dir_all(&own).unwrap();
        std::fs::write(own.join("libmpi.so.40"), "").unwrap();
        let bundled = |name: &str| {
            let files = [Path::new("/wheel.libs").join(name)];
            warning(1, "", 1, &other_among(&files, Some(&own)).unwrap())
        };
        let preload = format!("LD_PRELOAD={}/libmpi.so.40)", own.display());
        let text = bundled("libmpi-617ed1d0.so.40");
        assert!(text.contains("Open MPI") && text.contains(&preload), "{text}");
        let text = bundled("libmpi-d26c8c51.so.12.3.1");
        assert!(text.contains("MPICH") && !text.contains("LD_PRELOAD"), "{text}");
        // The functions of the library that was loaded first, at the higher address, are called.
        let other = PathBuf::from("/usr/lib/libmpi.so.40.30.4");
        let [standard, own_40] = ["libmpi_abi.so.1", "libmpi.so.40"].map(|name| own.join(name));
        let later = [standard.clone(), own_40.clone(), other.clone()];
        assert!(other_among(&later, Some(&own)).is_some_and(|found| found.owner == "Open MPI"));
        assert_eq!(other_among(&[standard, other, own_40], Some(&own)), None);
        std::fs::remove_dir_all(&own).unwrap();
    }

    #[test]
    fn this_process_has_no_other_library() {
        assert_eq!(other_loaded(std::process::id(), None), None);
    }
}
