//! The state of a process in /proc (proc_pid_stat(5)).

/// A process that exists, or has ended and was not reaped yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// `R` runs; `S`, `D` and `I` sleep; `T` and `t` are stopped; `Z` and `X` have ended.
    pub state: char,
    /// The parent's number; 0 if the parent is outside this PID namespace.
    pub parent: u32,
    /// The process group; 0 if its leader is outside this PID namespace.
    pub group: u32,
    /// The session; 0 if its leader is outside this PID namespace.
    pub session: u32,
    /// The number of threads; 0 if unknown.
    pub threads: u32,
}

impl ProcessStat {
    /// Reads the state of a process; `None` if there is no such process, or /proc cannot be read.
    pub fn of(pid: u32) -> Option<ProcessStat> {
        ProcessStat::parse(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// Whether its first thread has ended; other threads may still run.
    pub const fn has_ended(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    fn parse(stat: &str) -> Option<ProcessStat> {
        // The second field is a name in parentheses, which may contain parentheses itself.
        let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let mut number = |skipped: usize| fields.nth(skipped)?.parse::<u32>().ok();
        // Fields 4, 5 and 6, then 20.
        let (parent, group, session) = (number(0)?, number(0)?, number(0)?);
        Some(ProcessStat { state, parent, group, session, threads: number(13).unwrap_or(0) })
    }
}

/// More ancestors than a process has.
const GENERATIONS: usize = 64;

/// A process and its ancestors below `top`, and whether `top` is among the ancestors.
pub fn line_of(process: u32, top: Option<u32>) -> (Vec<i32>, bool) {
    let mut line = Vec::new();
    let mut next = Some(process);
    while let Some(process) = next.filter(|process| *process > 0 && line.len() < GENERATIONS) {
        if Some(process) == top {
            return (line, true);
        }
        line.push(process.cast_signed());
        next = parent_of(process);
    }
    (line, false)
}

/// Whether a process runs; a zombie does not.
pub fn is_alive(process: u32) -> bool {
    ProcessStat::of(process).is_some_and(|stat| !stat.has_ended())
}

/// The parent of a process; 0 if it is outside this PID namespace.
pub fn parent_of(process: u32) -> Option<u32> {
    ProcessStat::of(process).map(|stat| stat.parent)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;
    use std::process::id;

    use super::*;

    #[test]
    fn a_name_may_have_anything_in_it() {
        let stat = "7 (a) R 1 (b) S 42 7 8 0 -1 4194304 1 2 3 4 5 6 7 8 20 0 3 0 99 0\n";
        let wanted = ProcessStat { state: 'S', parent: 42, group: 7, session: 8, threads: 3 };
        assert_eq!(ProcessStat::parse(stat), Some(wanted));
        let ended = ProcessStat { state: 'Z', parent: 1, group: 0, session: 0, threads: 0 };
        assert_eq!(ProcessStat::parse("7 (a) Z 1 0 0"), Some(ended));
        assert_eq!((ProcessStat::parse(""), ProcessStat::parse("7 (a)")), (None, None));
    }

    #[test]
    fn this_process_runs_below_its_parent() {
        let own = ProcessStat::of(std::process::id()).unwrap();
        assert_eq!(own.parent, std::os::unix::process::parent_id());
        let child = std::process::Command::new("sleep").arg("60").process_group(0).spawn();
        let mut child = child.unwrap();
        let of_child = ProcessStat::of(child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((of_child.group, of_child.session), (child.id(), own.session));
        assert!(!own.has_ended() && own.threads > 0);
        assert_eq!(ProcessStat::of(u32::MAX), None);
    }

    #[test]
    fn the_line_of_a_process_ends_below_its_top() {
        let parent = std::os::unix::process::parent_id();
        let own = id().cast_signed();
        let (line, is_below) = line_of(id(), None);
        assert!(line.starts_with(&[own, parent.cast_signed()]) && !is_below, "{line:?}");
        assert_eq!(line_of(id(), Some(parent)), (vec![own], true));
        assert_eq!(line_of(id(), Some(id())), (vec![], true));
        assert!(is_alive(id()) && !is_alive(u32::MAX));
        assert_eq!(
            (parent_of(id()), parent_of(1), parent_of(u32::MAX)),
            (Some(parent), Some(0), None)
        );
    }
}
