//! The table of `mpirun`'s options: spellings, values, help.

/// The effect of an option.
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

const fn spec(
    id: Id,
    topic: Topic,
    names: &'static [&'static str],
    values: &'static [&'static str],
    help: &'static str,
) -> Spec {
    Spec { id, topic, names, values, help }
}

use Topic::{Binding, End, Environment, Help, Hosts, Output, Parameters, Ranks};

pub(super) const SPECS: &[Spec] = &[
    spec(
        Id::Ranks,
        Ranks,
        &["-n", "-np", "-c"],
        &["N"],
        "start N ranks (default 1); more than there are cores is fine",
    ),
    spec(Id::PerHost, Ranks, &["-N", "--npernode"], &["N"], "start N ranks on each host"),
    spec(
        Id::PerHostAgain,
        Ranks,
        &["-ppn", "-perhost"],
        &["N"],
        "the same, but more ranks begin again with the first host",
    ),
    spec(
        Id::OnePerHost,
        Ranks,
        &["--pernode", "-rr"],
        &[],
        "start a rank on each host; with -rr more begin again with the first",
    ),
    spec(
        Id::UniverseSize,
        Ranks,
        &["-usize"],
        &["N"],
        "what MPI_UNIVERSE_SIZE says (default: the slots of all hosts)",
    ),
    spec(Id::Directory, Ranks, &["-wdir", "-wd"], &["DIR"], "start the program in this directory"),
    spec(Id::Path, Ranks, &["-path"], &["DIR[:DIR]"], "look for the program here before PATH"),
    spec(
        Id::ConfigFile,
        Ranks,
        &["-configfile", "--app"],
        &["FILE"],
        "read programs from a file, one on each line; '\\' at its end continues it",
    ),
    spec(
        Id::Host,
        Hosts,
        &["--host", "-H", "--hosts"],
        &["NAME[:SLOTS],..."],
        "run on these hosts, with these numbers of slots",
    ),
    spec(
        Id::HostFile,
        Hosts,
        &["--hostfile", "-machinefile", "-f"],
        &["FILE"],
        "the same from a file: 'NAME slots=4'",
    ),
    spec(Id::Anyway, Hosts, &["--oversubscribe"], &[], "more ranks than slots are allowed anyway"),
    spec(
        Id::NoOversubscribe,
        Hosts,
        &["--nooversubscribe"],
        &[],
        "refuse to start more ranks than slots, or cores",
    ),
    spec(
        Id::Prefix,
        Hosts,
        &["--prefix"],
        &["DIR"],
        "where OxMPI is installed on other hosts (default: where it is here)",
    ),
    spec(
        Id::RemoteShell,
        Hosts,
        &["-launcher", "-launcher-exec", "-bootstrap", "-bootstrap-exec"],
        &["ssh|PROGRAM"],
        "the program that reaches other hosts: the parameter plm_rsh_agent",
    ),
    spec(
        Id::Interface,
        Hosts,
        &["-iface"],
        &["NAME"],
        "the network for sockets: the parameter btl_tcp_if_include",
    ),
    spec(Id::NoLocal, Hosts, &["--nolocal"], &[], "place no ranks on this host"),
    spec(Id::Anyway, Hosts, &["--allow-run-as-root"], &[], "allowed anyway"),
    spec(
        Id::Export,
        Environment,
        &["-x"],
        &["NAME[=VALUE]"],
        "set a variable for the ranks; all of mpirun's own are passed on",
    ),
    spec(
        Id::JobEnv,
        Environment,
        &["-genv"],
        &["NAME", "VALUE"],
        "set a variable for the ranks of all programs",
    ),
    spec(
        Id::JobEnvList,
        Environment,
        &["-genvlist"],
        &["NAME,..."],
        "pass on these of mpirun's variables alone",
    ),
    spec(
        Id::JobEnvAll,
        Environment,
        &["-genvall"],
        &[],
        "pass on all of mpirun's variables (the default)",
    ),
    spec(Id::JobEnvNone, Environment, &["-genvnone"], &[], "pass on none of mpirun's variables"),
    spec(
        Id::ProgramEnv,
        Environment,
        &["-env"],
        &["NAME", "VALUE"],
        "as -genv, for this program alone",
    ),
    spec(
        Id::ProgramEnvList,
        Environment,
        &["-envlist"],
        &["NAME,..."],
        "as -genvlist, for this program alone",
    ),
    spec(Id::ProgramEnvAll, Environment, &["-envall"], &[], "as -genvall, for this program alone"),
    spec(
        Id::ProgramEnvNone,
        Environment,
        &["-envnone"],
        &[],
        "as -genvnone, for this program alone",
    ),
    spec(
        Id::TagOutput,
        Output,
        &["--tag-output", "-l", "-prepend-rank"],
        &[],
        "put [rank] in front of each line of output",
    ),
    spec(
        Id::TimestampOutput,
        Output,
        &["--timestamp-output"],
        &[],
        "put the time in front of each line of output",
    ),
    spec(
        Id::MergeOutput,
        Output,
        &["--merge-stderr-to-stdout"],
        &[],
        "print what ranks write to standard error on standard output",
    ),
    spec(
        Id::Output,
        Output,
        &["--output"],
        &["WHAT,..."],
        "tag, timestamp, merge, directory=DIR: as the options here",
    ),
    spec(
        Id::OutputFilename,
        Output,
        &["--output-filename"],
        &["DIR[:nocopy]"],
        "write output to DIR/rank.N/stdout and stderr as well; with :nocopy there alone",
    ),
    spec(
        Id::OutPattern,
        Output,
        &["-outfile-pattern"],
        &["FILE"],
        "write standard output there alone: %r rank, %g job, %p and %h the host",
    ),
    spec(Id::ErrPattern, Output, &["-errfile-pattern"], &["FILE"], "the same for standard error"),
    spec(
        Id::Stdin,
        Output,
        &["-stdin"],
        &["N|none|all"],
        "which rank gets the standard input (default 0)",
    ),
    spec(
        Id::Quiet,
        Output,
        &["-q", "--quiet"],
        &[],
        "print no warnings; failures are reported anyway",
    ),
    spec(
        Id::Verbose,
        Output,
        &[
            "-v",
            "--verbose",
            "--display-map",
            "--display-devel-map",
            "--display-allocation",
            "-print-rank-map",
        ],
        &[],
        "say what is started, and where, and each step of the start",
    ),
    spec(
        Id::Display,
        Output,
        &["--display"],
        &["WHAT,..."],
        "map, allocation: as -v; bind: --report-bindings; times: of the start's phases",
    ),
    spec(
        Id::BindTo,
        Binding,
        &["--bind-to"],
        &["none|core|socket|numa|hwthread"],
        "bind each rank so (default: each its share of the cores)",
    ),
    spec(Id::BindToCore, Binding, &["--bind-to-core"], &[], "the same as --bind-to core"),
    spec(Id::BindToNone, Binding, &["--bind-to-none"], &[], "the same as --bind-to none"),
    spec(
        Id::MapBy,
        Binding,
        &["--map-by"],
        &["slot|node|ppr:N:node[:PE=N]"],
        "fill hosts one by one, one rank each, or N each; with PE=N bind each to N cores",
    ),
    spec(
        Id::CoresEach,
        Binding,
        &["--cpus-per-proc", "--cpus-per-rank"],
        &["N"],
        "bind each rank to N cores, as --map-by :PE=N",
    ),
    spec(Id::BySlot, Binding, &["--byslot"], &[], "the same as --map-by slot"),
    spec(Id::ByNode, Binding, &["--bynode"], &[], "the same as --map-by node"),
    spec(
        Id::RankBy,
        Binding,
        &["--rank-by"],
        &["slot|node"],
        "the order of the ranks' numbers: that of --map-by",
    ),
    spec(
        Id::Anyway,
        Binding,
        &["--use-hwthread-cpus"],
        &[],
        "a slot for each processor of a core, which is the default",
    ),
    spec(
        Id::ReportBindings,
        Binding,
        &["--report-bindings"],
        &[],
        "say what each rank is bound to",
    ),
    spec(
        Id::Mca,
        Parameters,
        &["--mca", "--ssi", "--gmca"],
        &["NAME", "VALUE"],
        "set a parameter; 'oxmpi info --params' lists them",
    ),
    spec(
        Id::LauncherParameter,
        Parameters,
        &["--prtemca", "--gprtemca", "--pmixmca", "--gpmixmca"],
        &["NAME", "VALUE"],
        "the same, if OxMPI has it; PRRTE's own and PMIx's have no effect",
    ),
    spec(
        Id::InitialErrhandler,
        Parameters,
        &["--initial-errhandler"],
        &["HANDLER"],
        "mpi_errors_are_fatal (default), mpi_errors_abort or mpi_errors_return",
    ),
    spec(
        Id::Tune,
        Parameters,
        &["--tune"],
        &["FILE,..."],
        "read parameters (--mca) and variables (-x) from files",
    ),
    spec(Id::Am, Parameters, &["-am"], &["FILE,..."], "the same, weaker than those of --tune"),
    spec(
        Id::Timeout,
        End,
        &["--timeout"],
        &["SECONDS"],
        "end the job after this time, such as 90 or 0.5, with exit code 124",
    ),
    spec(
        Id::Watchdog,
        End,
        &["--watchdog"],
        &["SECONDS"],
        "report which rank waits for which after this wait: the parameter mpi_watchdog",
    ),
    spec(
        Id::FaultTolerance,
        End,
        &["--with-ft"],
        &["ulfm|mpi|none"],
        "go on when a rank dies (ulfm, mpi), or end the job (none)",
    ),
    spec(
        Id::GoOn,
        End,
        &["--enable-recovery", "-disable-auto-cleanup"],
        &[],
        "the same as --with-ft ulfm",
    ),
    spec(
        Id::Every,
        End,
        &["--every"],
        &["TIME"],
        "make a checkpoint each time this has passed, such as 90s, 30m or 2h",
    ),
    spec(
        Id::CheckpointOnTerm,
        End,
        &["--checkpoint-on-term"],
        &[],
        "SIGTERM makes a checkpoint and ends the job with exit code 75",
    ),
    spec(
        Id::NoWait,
        End,
        &["-nw"],
        &[],
        "return when the job is about to start; it goes on without input",
    ),
    spec(
        Id::NoEffect,
        Hosts,
        &["--noprefix"],
        &[],
        "has no effect: agents are started by their full path (--prefix)",
    ),
    spec(
        Id::NoEffect,
        Output,
        &["--tmpdir"],
        &["DIR"],
        "has no effect: a job has no session directory, and its memory no name",
    ),
    spec(
        Id::NoEffect,
        Output,
        &["--report-uri"],
        &["FILE"],
        "has no effect: nothing connects to mpirun by a URI",
    ),
    spec(
        Id::NoEffect,
        End,
        &["-print-all-exitcodes"],
        &[],
        "has no effect: one report names the first rank that failed",
    ),
    spec(
        Id::NotYet,
        Ranks,
        &["-soft"],
        &["TRIPLET"],
        "numbers of ranks to choose from: not there yet",
    ),
    spec(Id::NotYet, Hosts, &["-arch"], &["NAME"], "kind of host: not there yet"),
    spec(
        Id::NotYet,
        Binding,
        &["--rankfile", "-rf"],
        &["FILE"],
        "places of ranks from a file: not there yet",
    ),
    spec(
        Id::NotYet,
        Binding,
        &["--cpu-set", "--cpu-list"],
        &["LIST"],
        "cores to use: not there yet; 'taskset -c LIST mpirun' does it",
    ),
    spec(Id::Help, Help, &["--help", "-h"], &["[TOPIC]"], "print this, or more about a topic"),
    spec(Id::Version, Help, &["--version", "-V"], &[], "print the version"),
];

impl Spec {
    /// Finds the option of this name, with one dash or two.
    pub(super) fn find(name: &str) -> Option<&'static Spec> {
        let bare = bare(name)?;
        SPECS.iter().find(|spec| spec.names.iter().any(|known| self::bare(known) == Some(bare)))
    }

    /// The values that must follow.
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
