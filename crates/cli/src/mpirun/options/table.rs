//! The table of `mpirun`'s options: spellings, values, help.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Id {
    Ranks,
    PerHost,
    PerHostAgain,
    Directory,
    Path,
    ConfigFile,
    Host,
    HostFile,
    Anyway,
    Oversubscribe,
    NoForeign,
    NoOversubscribe,
    NoLocal,
    Prefix,
    Export,
    ProgramEnv,
    ProgramEnvList,
    ProgramEnvAll,
    ProgramEnvNone,
    JobEnv,
    JobEnvList,
    JobEnvAll,
    JobEnvNone,
    TagOutput,
    TimestampOutput,
    MergeOutput,
    Output,
    OutputFilename,
    Display,
    Stdin,
    Quiet,
    Verbose,
    BindTo,
    BindToCore,
    BindToNone,
    MapBy,
    ByNode,
    BySlot,
    RankBy,
    ReportBindings,
    Timeout,
    Watchdog,
    Every,
    CheckpointOnTerm,
    FaultTolerance,
    GoOn,
    Mca,
    InitialErrhandler,
    Am,
    Tune,
    NoWait,
    NotYet,
    NoEffect,
    UniverseSize,
    OnePerHost,
    CoresEach,
    RemoteShell,
    Interface,
    OutPattern,
    ErrPattern,
    LauncherParameter,
    Help,
    Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Topic {
    Ranks,
    Hosts,
    Environment,
    Output,
    Binding,
    Parameters,
    End,
    Help,
}

pub(super) struct Spec {
    pub(super) id: Id,
    pub(super) topic: Topic,
    /// All spellings; the help shows the first one first. Each is accepted with one dash and with
    /// two.
    pub(super) names: &'static [&'static str],
    pub(super) values: &'static [&'static str],
    pub(super) help: &'static str,
}

/// Makes [`SPECS`]: the effect of an option, its topic, its names, its values and its help.
macro_rules! specs {
    ($($id:ident $topic:ident [$($name:literal)*] [$($value:literal)*] $help:literal;)*) => {
        pub(super) const SPECS: &[Spec] = &[$(Spec {
            id: Id::$id, topic: Topic::$topic, names: &[$($name),*], values: &[$($value),*], help: $help,
        }),*];
    };
}

specs! {
    Ranks Ranks ["-n" "-np" "-c"] ["N"] "start N ranks (default 1); more than there are cores is fine";
    PerHost Ranks ["-N" "--npernode"] ["N"] "start N ranks on each host";
    PerHostAgain Ranks ["-ppn" "-perhost"] ["N"] "the same, but more ranks begin again with the first host";
    OnePerHost Ranks ["--pernode" "-rr"] [] "start a rank on each host; with -rr more begin again with the first";
    UniverseSize Ranks ["-usize"] ["N"] "the value of MPI_UNIVERSE_SIZE (default: the slots of all hosts)";
    Directory Ranks ["-wdir" "-wd"] ["DIR"] "start the program in this directory";
    NoForeign Ranks ["--no-foreign"] []
        "set no library path for programs of other MPIs: the parameter mpi_foreign 0";
    Path Ranks ["-path"] ["DIR[:DIR]"] "search for the program here before PATH";
    ConfigFile Ranks ["-configfile" "--app"] ["FILE"]
        "read programs from a file, one on each line; '\\' at its end continues it";
    Host Hosts ["--host" "-H" "--hosts"] ["NAME[:SLOTS],..."] "run on these hosts, with these numbers of slots";
    HostFile Hosts ["--hostfile" "-machinefile" "-f"] ["FILE"] "the same from a file: 'NAME slots=4'";
    Oversubscribe Hosts ["--oversubscribe"] []
        "allow more ranks than slots, which mpirun refuses in an allocation of Slurm";
    NoOversubscribe Hosts ["--nooversubscribe"] [] "refuse to start more ranks than slots, or cores";
    Prefix Hosts ["--prefix"] ["DIR"] "where OxMPI is installed on other hosts (default: where it is here)";
    RemoteShell Hosts ["-launcher" "-launcher-exec" "-bootstrap" "-bootstrap-exec"] ["ssh|PROGRAM"]
        "the program that reaches other hosts: the parameter plm_rsh_agent";
    Interface Hosts ["-iface"] ["NAME"] "the network for sockets: the parameter btl_tcp_if_include";
    NoLocal Hosts ["--nolocal"] [] "place no ranks on this host";
    Anyway Hosts ["--allow-run-as-root"] [] "allowed anyway";
    Export Environment ["-x"] ["NAME[=VALUE]"] "set a variable for the ranks; all of mpirun's own are passed on";
    JobEnv Environment ["-genv"] ["NAME" "VALUE"] "set a variable for the ranks of all programs";
    JobEnvList Environment ["-genvlist"] ["NAME,..."] "pass on these of mpirun's variables alone";
    JobEnvAll Environment ["-genvall"] [] "pass on all of mpirun's variables (the default)";
    JobEnvNone Environment ["-genvnone"] [] "pass on none of mpirun's variables";
    ProgramEnv Environment ["-env"] ["NAME" "VALUE"] "as -genv, for this program alone";
    ProgramEnvList Environment ["-envlist"] ["NAME,..."] "as -genvlist, for this program alone";
    ProgramEnvAll Environment ["-envall"] [] "as -genvall, for this program alone";
    ProgramEnvNone Environment ["-envnone"] [] "as -genvnone, for this program alone";
    TagOutput Output ["--tag-output" "-l" "-prepend-rank"] [] "put [rank] in front of each line of output";
    TimestampOutput Output ["--timestamp-output"] [] "put the time in front of each line of output";
    MergeOutput Output ["--merge-stderr-to-stdout"] [] "print what ranks write to standard error on standard output";
    Output Output ["--output"] ["WHAT,..."] "tag, timestamp, merge, directory=DIR: as the options here";
    OutputFilename Output ["--output-filename"] ["DIR[:nocopy]"]
        "write output to DIR/rank.N/stdout and stderr as well; with :nocopy there alone";
    OutPattern Output ["-outfile-pattern"] ["FILE"]
        "write standard output there alone: %r rank, %g job, %p and %h the host";
    ErrPattern Output ["-errfile-pattern"] ["FILE"] "the same for standard error";
    Stdin Output ["-stdin"] ["N|none|all"] "which rank gets the standard input (default 0)";
    Quiet Output ["-q" "--quiet"] [] "print no warnings; failures are reported anyway";
    Verbose Output ["-v" "--verbose" "--display-map" "--display-devel-map" "--display-allocation" "-print-rank-map"] []
        "report what is started, and where, and each step of the start";
    Display Output ["--display"] ["WHAT,..."] "map, allocation: as -v; bind: --report-bindings; times: of the start's phases";
    BindTo Binding ["--bind-to"] ["none|core|socket|numa|hwthread"]
        "bind each rank to this (default: its share of the cores)";
    BindToCore Binding ["--bind-to-core"] [] "the same as --bind-to core";
    BindToNone Binding ["--bind-to-none"] [] "the same as --bind-to none";
    MapBy Binding ["--map-by"] ["slot|node|ppr:N:node[:PE=N]"]
        "fill hosts one by one, one rank each, or N each; with PE=N bind each to N cores";
    CoresEach Binding ["--cpus-per-proc" "--cpus-per-rank"] ["N"] "bind each rank to N cores, as --map-by :PE=N";
    BySlot Binding ["--byslot"] [] "the same as --map-by slot";
    ByNode Binding ["--bynode"] [] "the same as --map-by node";
    RankBy Binding ["--rank-by"] ["slot|node"] "the order of the ranks' numbers: that of --map-by";
    Anyway Binding ["--use-hwthread-cpus"] [] "a slot for each processor of a core, which is the default";
    ReportBindings Binding ["--report-bindings"] [] "say what each rank is bound to";
    Mca Parameters ["--mca" "--ssi" "--gmca"] ["NAME" "VALUE"] "set a parameter; 'oxmpi info --params' lists them";
    LauncherParameter Parameters ["--prtemca" "--gprtemca" "--pmixmca" "--gpmixmca"] ["NAME" "VALUE"]
        "the same, if OxMPI has it; PRRTE's own and PMIx's have no effect";
    InitialErrhandler Parameters ["--initial-errhandler"] ["HANDLER"]
        "mpi_errors_are_fatal (default), mpi_errors_abort or mpi_errors_return";
    Tune Parameters ["--tune"] ["FILE,..."] "read parameters (--mca) and variables (-x) from files";
    Am Parameters ["-am"] ["FILE,..."] "the same, weaker than those of --tune";
    Timeout End ["--timeout"] ["SECONDS"] "end the job after this time, such as 90 or 0.5, with exit code 124";
    Watchdog End ["--watchdog"] ["SECONDS"] "report which rank waits for which after this wait: the parameter mpi_watchdog";
    FaultTolerance End ["--with-ft"] ["ulfm|mpi|none"] "go on when a rank dies (ulfm, mpi), or end the job (none)";
    GoOn End ["--enable-recovery" "-disable-auto-cleanup"] [] "the same as --with-ft ulfm";
    Every End ["--every"] ["TIME"] "make a checkpoint each time this has passed, such as 90s, 30m or 2h";
    CheckpointOnTerm End ["--checkpoint-on-term"] [] "SIGTERM makes a checkpoint and ends the job with exit code 75";
    NoWait End ["-nw"] [] "return when the job is about to start; it goes on without input";
    NoEffect Hosts ["--noprefix"] [] "has no effect: agents are started by their full path (--prefix)";
    NoEffect Output ["--tmpdir"] ["DIR"] "has no effect: a job has no session directory, and its memory no name";
    NoEffect Output ["--report-uri"] ["FILE"] "has no effect: nothing connects to mpirun by a URI";
    NoEffect End ["-print-all-exitcodes"] [] "has no effect: one report names the first rank that failed";
    NotYet Ranks ["-soft"] ["TRIPLET"] "numbers of ranks to choose from: not there yet";
    NotYet Hosts ["-arch"] ["NAME"] "kind of host: not there yet";
    NotYet Binding ["--rankfile" "-rf"] ["FILE"] "places of ranks from a file: not there yet";
    NotYet Binding ["--cpu-set" "--cpu-list"] ["LIST"] "cores to use: not there yet; 'taskset -c LIST mpirun' does it";
    Help Help ["--help" "-h"] ["[TOPIC]"] "print this, or more about a topic";
    Version Help ["--version" "-V"] [] "print the version";
}

impl Spec {
    pub(super) fn find(name: &str) -> Option<&'static Spec> {
        let bare = bare(name)?;
        SPECS.iter().find(|spec| spec.names.iter().any(|known| self::bare(known) == Some(bare)))
    }

    pub(super) fn wanted(&self) -> &'static [&'static str] {
        if self.id == Id::Help { &[] } else { self.values }
    }
}

fn bare(name: &str) -> Option<&str> {
    let bare = name.strip_prefix("--").or_else(|| name.strip_prefix('-'))?;
    (!bare.starts_with('-')).then_some(bare)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_options_share_a_name() {
        let mut names: Vec<_> =
            SPECS.iter().flat_map(|s| s.names).map(|n| bare(n).unwrap()).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }
}
