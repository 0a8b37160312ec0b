//! The processes of a job: `mpirun` and all its descendants.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

/// A process and its descendants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// The root is the first.
    pub processes: Vec<u32>,
    pub tasks: Vec<u32>,
}

impl Tree {
    /// The tree of a process. Fails if the process does not exist, or /proc cannot be read.
    pub fn of(root: u32) -> io::Result<Tree> {
        let mut parents = BTreeMap::new();
        for entry in std::fs::read_dir("/proc")? {
            let name = entry?.file_name();
            let Some(number) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
                continue;
            };
            let Ok(stat) = std::fs::read_to_string(format!("/proc/{number}/stat")) else {
                continue;
            };
            if let Some(parent) = number_in(&stat, PARENT) {
                parents.insert(number, parent);
            }
        }
        if !parents.contains_key(&root) {
            return Err(io::Error::new(
                io::ErrorKind::NotFound,
                format!("process {root} is not there"),
            ));
        }
        let processes = descendants(root, &parents);
        let mut tasks = Vec::new();
        for process in &processes {
            for entry in std::fs::read_dir(format!("/proc/{process}/task"))? {
                tasks.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
            }
        }
        tasks.sort_unstable();
        Ok(Tree { processes, tasks })
    }
}

/// The leader of the session of a process; 0 if the leader is outside of this PID namespace. Fails
/// if the process is gone.
pub fn session_of(process: u32) -> io::Result<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    number_in(&stat, SESSION).ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, stat))
}

/// Positions in `/proc/PID/stat`, counted from the word after the name.
const PARENT: usize = 1;
const SESSION: usize = 3;

/// A number in `/proc/PID/stat` (proc_pid_stat(5)). The process name may contain brackets.
fn number_in(stat: &str, place: usize) -> Option<u32> {
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(place)?.parse().ok()
}

fn descendants(root: u32, parents: &BTreeMap<u32, u32>) -> Vec<u32> {
    let mut found = vec![root];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(_, its)| **its == parent).map(|(child, _)| *child));
        at += 1;
    }
    found
}

/// A process number that a restart needs and another process has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    pub task: u32,
    /// Empty if the process has ended and its parent has not collected it yet.
    pub name: String,
}

/// The numbers in `tasks` that are in use. A listing of /proc omits threads, but each thread has a
/// directory.
pub fn taken(tasks: &[u32]) -> Vec<Taken> {
    let name = |task: u32| {
        let directory = PathBuf::from(format!("/proc/{task}"));
        let stat = std::fs::read_to_string(directory.join("stat")).ok()?;
        let (name, rest) = stat.rsplit_once(')')?;
        let name = name.split_once('(').map(|(_, name)| name).unwrap_or_default();
        let has_ended = rest.trim_start().starts_with(['Z', 'X']);
        Some(Taken { task, name: if has_ended { String::new() } else { name.into() } })
    };
    tasks.iter().filter_map(|task| name(*task)).collect()
}

/// The processes with one of these words in their environment, as far as it is readable.
pub(crate) fn with_environment(words: &[String]) -> io::Result<Vec<Taken>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(task) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else { continue };
        let Ok(environment) = std::fs::read(format!("/proc/{task}/environ")) else { continue };
        let is_one = |found: &[u8]| words.iter().any(|word| word.as_bytes() == found);
        if environment.split(|byte| *byte == 0).any(is_one) {
            found.extend(taken(&[task]));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_read_behind_any_name() {
        let stat = "12 (a) b) (c) S 7 12 5 0";
        assert_eq!((number_in(stat, PARENT), number_in(stat, SESSION)), (Some(7), Some(5)));
        for text in ["12 (a", "12 (a) S", ""] {
            assert_eq!(number_in(text, PARENT), None);
        }
    }

    #[test]
    fn all_descendants_are_found_and_nobody_else() {
        let parents = BTreeMap::from([(10, 1), (11, 10), (12, 11), (13, 1), (14, 12), (15, 10)]);
        assert_eq!(descendants(10, &parents), [10, 11, 15, 12, 14]);
    }

    #[test]
    fn the_own_tree_has_its_threads() {
        let own = std::process::id();
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || receiver.recv());
        let tree = Tree::of(own).unwrap();
        assert!(tree.processes[0] == own && tree.tasks.len() > 1, "{tree:?}");
        assert_eq!(taken(&tree.tasks).len(), tree.tasks.len());
        drop(sender);
        let _ = thread.join().unwrap();
    }
}
