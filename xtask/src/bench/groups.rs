//! The table of the groups that are measured.

use std::time::Duration;

/// Launches that belong together: one table of the report.
#[derive(Debug)]
pub(crate) struct BenchGroup {
    pub(crate) name: &'static str,
    pub(crate) title: &'static str,
    pub(crate) subject: &'static str,
    pub(crate) launches: &'static [BenchLaunch],
    /// Whether the machine's limit for two processes stands in the table.
    pub(crate) has_limit: bool,
}

#[derive(Debug)]
pub(crate) struct BenchLaunch {
    pub(crate) program: BenchProgram,
    pub(crate) ranks: u32,
    pub(crate) args: &'static [&'static str],
    pub(crate) source: FigureSource,
    pub(crate) limit: Duration,
}

/// A benchmark program that is compiled with each library's mpicc. Its tests `check` and `version`
/// serve to admit a library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum BenchProgram {
    P2p,
    Patterns,
}

impl BenchProgram {
    pub(crate) const ALL: [BenchProgram; 2] = [BenchProgram::P2p, BenchProgram::Patterns];

    pub(crate) fn name(self) -> &'static str {
        match self {
            BenchProgram::P2p => "p2p",
            BenchProgram::Patterns => "patterns",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FigureSource {
    Points,
    /// As `Points`; the program needs a file in which its ranks meet.
    PointsOfMeeting,
    /// From the wall clock: seconds from the start of mpirun to its end.
    WallTime,
}

/// The sizes where there are more ranks than cores.
const FEW_SIZES: &str = "8,1024,65536";

const COLLECTIVE_SIZES: &str = "8,64,1024,8192,65536,262144,1048576";

const fn launch(
    ranks: u32,
    args: &'static [&'static str],
    source: FigureSource,
    seconds: u64,
) -> BenchLaunch {
    BenchLaunch {
        program: BenchProgram::P2p,
        ranks,
        args,
        source,
        limit: Duration::from_secs(seconds),
    }
}

const fn patterns(ranks: u32, args: &'static [&'static str]) -> BenchLaunch {
    let limit = Duration::from_secs(if ranks == 2 { 120 } else { 240 });
    let (program, source) = (BenchProgram::Patterns, FigureSource::Points);
    BenchLaunch { program, ranks, args, source, limit }
}

/// The launches of all kinds of patterns with these options.
macro_rules! patterns {
    ($ranks:literal, $($option:expr),*) => {
        &[
            patterns($ranks, &[$($option,)* "p2p"]), patterns($ranks, &[$($option,)* "coll"]),
            patterns($ranks, &[$($option,)* "rma"]), patterns($ranks, &[$($option,)* "objects"]),
        ]
    };
}

/// The option by which a program makes the kernel refuse single copy.
const DENIED: &str = "-D";

impl BenchLaunch {
    pub(crate) fn denies_single_copy(&self) -> bool {
        self.args.contains(&DENIED)
    }
}

#[rustfmt::skip] // a table
pub(crate) const GROUPS: [BenchGroup; 14] = [
    BenchGroup {
        name: "latency", title: "Latency", has_limit: true,
        subject: "ping-pong of 2 ranks, half a round trip",
        launches: &[launch(2, &["-p", "-t", "10", "latency"], FigureSource::Points, 90)],
    },
    BenchGroup {
        name: "bandwidth", title: "Bandwidth", has_limit: true,
        subject: "windows of 64 messages between 2 ranks, each from and to its own buffer",
        launches: &[
            launch(2, &["-p", "-t", "10", "bandwidth"], FigureSource::Points, 90),
            launch(2, &["-p", "-t", "10", "bidirectional"], FigureSource::Points, 90),
        ],
    },
    BenchGroup {
        name: "rate", title: "Message rate", has_limit: true,
        subject: "8-byte messages from one rank to another, 64 at a time",
        launches: &[launch(2, &["-p", "-t", "50", "rate"], FigureSource::Points, 60)],
    },
    BenchGroup {
        name: "derived", title: "Derived datatypes", has_limit: false,
        subject: "ping-pong of an MPI_Type_vector with blocks of 8 or 512 bytes, gaps as long",
        launches: &[launch(2, &["-p", "-t", "10", "strided"], FigureSource::Points, 90)],
    },
    BenchGroup {
        name: "collectives", title: "Collectives of 2 ranks", has_limit: false,
        subject: "calls back to back, with alternating roots",
        launches: &[launch(2, &["-p", "-t", "10", "-s", COLLECTIVE_SIZES, "collectives"], FigureSource::Points, 90)],
    },
    BenchGroup {
        name: "over4", title: "4 ranks", has_limit: false,
        subject: "two pairs at once, or a collective of all, not bound to cores",
        launches: &[
            launch(4, &["-s", FEW_SIZES, "latency"], FigureSource::Points, 90),
            launch(4, &["rate"], FigureSource::Points, 60),
            launch(4, &["-t", "10", "-s", "8,65536", "collectives"], FigureSource::Points, 90),
        ],
    },
    BenchGroup {
        name: "over8", title: "8 ranks", has_limit: false,
        subject: "four pairs at once, or a collective of all, not bound to cores",
        launches: &[
            launch(8, &["-s", FEW_SIZES, "latency"], FigureSource::Points, 90),
            launch(8, &["rate"], FigureSource::Points, 60),
            launch(8, &["-t", "10", "-s", "8,65536", "collectives"], FigureSource::Points, 90),
        ],
    },
    BenchGroup {
        name: "start", title: "Start-up", has_limit: false,
        subject: "mpirun of a program that calls MPI_Init and MPI_Finalize, from its start to its end",
        launches: &[
            launch(2, &["nothing"], FigureSource::WallTime, 60),
            launch(64, &["nothing"], FigureSource::WallTime, 90),
        ],
    },
    BenchGroup {
        name: "memory", title: "Memory", has_limit: false,
        subject: "proportional set size per rank after MPI_Init, and after all have talked to all",
        launches: &[
            launch(2, &["memory"], FigureSource::PointsOfMeeting, 60),
            launch(8, &["memory"], FigureSource::PointsOfMeeting, 90),
            launch(64, &["memory-init"], FigureSource::PointsOfMeeting, 90),
        ],
    },
    BenchGroup {
        name: "patterns-2", title: "Patterns of 2 ranks", has_limit: false,
        subject: "what programs do, beyond a ping-pong on MPI_COMM_WORLD",
        launches: patterns!(2, "-p", "-t", "10"),
    },
    BenchGroup {
        name: "patterns-4", title: "Patterns of 4 ranks", has_limit: false,
        subject: "the same, not bound to cores",
        launches: patterns!(4, "-t", "10"),
    },
    BenchGroup {
        name: "patterns-8", title: "Patterns of 8 ranks", has_limit: false,
        subject: "the same, not bound to cores",
        launches: patterns!(8, "-t", "10"),
    },
    BenchGroup {
        name: "patterns-threads", title: "Patterns with MPI_THREAD_MULTIPLE", has_limit: false,
        subject: "the same of 2 ranks that request all threads",
        launches: patterns!(2, "-p", "-t", "10", "-M"),
    },
    BenchGroup {
        name: "patterns-denied", title: "Patterns without single copy", has_limit: false,
        subject: "the same of 2 ranks to which the kernel refuses process_vm_readv and process_vm_writev",
        launches: patterns!(2, "-p", "-t", "10", DENIED),
    },
];
