//! The text of `mpirun --help`, in short and by topic.

use oxmpi_param::nearest::nearest;

use super::table::{SPECS, Topic};

struct HelpTopic {
    topic: Topic,
    word: &'static str,
    heading: &'static str,
    text: &'static str,
}

#[rustfmt::skip] // a table
const PAGES: &[HelpTopic] = &[
    HelpTopic { topic: Topic::Ranks, word: "ranks", heading: "Ranks and programs", text: "\
mpirun -n 4 PROGRAM ARGUMENTS           4 ranks of one program
mpirun -n 1 MASTER : -n 3 WORKER        several programs in one job; ranks are numbered across programs
mpirun C PROGRAM                        a rank for each processor that may be used
mpirun N PROGRAM                        a rank for each host; without named hosts one rank
mpirun n0-2,5 PROGRAM                   a rank on each of these nodes: named hosts, or hosts of 'oxmpi boot'
mpirun c0,2-3 PROGRAM                   a rank on each of these processors, numbered from node to node
mpirun -configfile FILE                 each line of FILE is OPTIONS PROGRAM ARGUMENTS; ':' is an ordinary word there
mpirun SCHEMA                           the same, if SCHEMA is a text file that is neither executable nor a script

Without -n there is one rank, or one for each slot that --host or --hostfile state. Places can follow each other
(n0 c2-3 N; h is this node, o that of 'oxmpi boot'); with -n more ranks begin again with the first. A program with the
name of a place is started as ./C or ./n0. mpirun searches the program in -path, then in PATH; a relative path counts
from -wdir, then from here. All words after the program are its own. In a file of programs '\' at the end of a line
continues it, and '#' at its beginning makes it a comment.
" },
    HelpTopic { topic: Topic::Hosts, word: "hosts", heading: "Hosts and slots", text: "\
Without --host and --hostfile all ranks are on this machine, or on the nodes of the allocation of Slurm in which mpirun
runs (salloc, sbatch). Ranks on other hosts are started by an agent there, which mpirun starts by ssh, so 'ssh HOST
true' must work without a password. OxMPI must be installed there at the same place (else --prefix), and the program
and the directory must be there. See hosts.md in share/doc/oxmpi.

A slot is a place for a rank; a host that is named without slots has one. Hosts are filled in their order, or one rank
on each with --map-by node. When all slots are taken, each host gets the same number of ranks again: they share the
cores, and waiting ranks give theirs up. --nooversubscribe refuses that. Lines of a host file are NAME, NAME:4,
NAME slots=4 max-slots=8, or NAME cpu=4 user=NAME schedule=no; only max-slots is a limit.

In an allocation of Slurm one srun starts all agents (plm_slurm_args adds options). Named hosts must be nodes of the
allocation, without -n there is a rank for each slot, and more ranks than slots need --oversubscribe. 'oxmpi info
--allocation' shows the nodes and slots, and 'env -u SLURM_JOB_ID mpirun ...' starts a job outside of the allocation.
" },
    HelpTopic { topic: Topic::Environment, word: "environment", heading: "Environment of the ranks", text: "\
Ranks get all of mpirun's variables unless -genvnone or -genvlist says otherwise. -x before the first ':' is for all
programs, behind it for its own program. A variable that is set is stronger than one that is passed on.

Each rank finds its number in OXMPI_COMM_WORLD_RANK, the number of ranks in OXMPI_COMM_WORLD_SIZE; the same with
OMPI_ in front. OXMPI_UNIVERSE_SIZE and OMPI_UNIVERSE_SIZE say for how many ranks there are slots on all hosts
(MPI_UNIVERSE_SIZE). LD_LIBRARY_PATH starts with the directory of this library. Variables by which another launcher
identifies its processes (PMI_*, PMIX_*, OMPI_COMM_WORLD_* and the like) are not passed on; SLURM_* are.

The MPI programs of a script (mpirun -n 4 sh -c './a; ./b') are ranks one after the other; an MPI program that a rank
starts while it is in MPI is a job of one. See ranks.md in share/doc/oxmpi.
" },
    HelpTopic { topic: Topic::Output, word: "output", heading: "Output and input", text: "\
Output of all ranks is passed on by whole lines. A line that has no end (a question, dots of progress) is passed on
when the rank has written nothing more to that output for a tenth of a second, or one second after its first byte;
lines of other ranks do not wait for its end, and may follow it on the same line. Lines with a tag or a time in front
(--tag-output, --timestamp-output) always wait for their end, or that of the output.
Standard input goes to one rank; the others find it empty. With -stdin all each rank gets all of it.
Output that cannot be written, as on a full disk (also to files of --output-filename), is lost while the job goes on:
mpirun reports it at once, at the end reports how much of each output is lost, and ends with code 1 if the job has
ended well. When nobody reads its output any more ('| head') mpirun ends the job silently, with code 141, as SIGPIPE
ends other programs.
OXMPI_LOG=LEVEL in the environment prints events of mpirun and its agents to standard error; LEVEL is warn, info, debug
or trace. OXMPI_LOG=launcher=debug,agent=trace,daemon=info sets each; -v sets launcher=info. --display times prints how
long each phase of the start has taken. See diagnostics.md in share/doc/oxmpi.
" },
    HelpTopic { topic: Topic::Binding, word: "binding", heading: "Binding to cores", text: "\
The cores that mpirun itself may use (taskset, batch system, container) are split evenly among the ranks, in order, so
threads of a rank share its cores. Nothing is bound with more ranks than processors, if a control group limits
the time on processors (docker --cpus), or with --bind-to none. --report-bindings prints a line for each rank:

  rank 0 bound to core 0: [B/.]

Brackets are packages, slashes part cores; B is bound. A core that is bound in part shows each of its processors.
Several jobs at the same time on one host bind to the same cores: use --bind-to none, or taskset for each.
" },
    HelpTopic { topic: Topic::Parameters, word: "parameters", heading: "Parameters", text: "\
A value comes from, strongest first: --mca (-ssi and --gmca are the same; for the whole job, wherever it stands),
--tune, --am, OXMPI_MCA_NAME in the environment, OMPI_MCA_NAME, ~/.oxmpi/mca-params.conf,
PREFIX/etc/oxmpi-mca-params.conf, the default. Files have lines of the form NAME = VALUE; those of --tune and --am may
have lines of '--mca NAME VALUE' and '-x NAME=VALUE' as well. The first of several files is the strongest, and one
without a '/' in its name is searched here, in ~/.oxmpi/amca-param-sets and in PREFIX/share/oxmpi/amca-param-sets.
OXMPI_PARAM_FILES names files in place of those in ~ and PREFIX, or is 'none'.
'oxmpi info --params' shows all values and where they come from.
" },
    HelpTopic { topic: Topic::End, word: "exit", heading: "The end of a job", text: "\
Exit code: 0; or that of the first rank that failed (128 + signal if one killed it); or MPI_Abort's; 124 after a
timeout (--timeout, or MPIEXEC_TIMEOUT in the environment); 126 if the program cannot be run, 127 if there is none;
75 if SIGTERM has made a checkpoint (--checkpoint-on-term); 2 for a wrong command line, or a job that its
parameters make impossible; 1 if output was lost, 141 if nobody reads it. A rank that dies ends the job with one report.
With --with-ft ulfm the others go on (see mpi-ext.h), and the code is 0 if one of them comes to its end and none fails.
With -nw mpirun returns 0 as soon as the command line, the parameters and the programs have been checked. A copy of
mpirun runs the job, which gets no input and no Ctrl-C, and ends when the copy is killed.
With --every and --checkpoint-on-term mpirun is two processes: the second one runs the job and is in the image.
Ctrl-C ends the job, a second Ctrl-C at once. USR2 is passed on to the ranks, Ctrl-Z stops them too.
HUP, INT, QUIT, TERM and TSTP do nothing if they were ignored when mpirun was started, as with nohup, or behind '&' in
a script. Ranks ignore and block the same signals as mpirun at its start, except PIPE and CHLD, which have their default
action; on other hosts the remote shell may change that, and processes of daemons have the default for all signals.
USR1 makes mpirun print what each rank does, and for which rank and operation it waits ('kill -USR1 PID' of mpirun);
with mpi_sigusr1=forward the signal is passed on instead, with mpi_sigusr1=both mpirun does both. mpirun prints the
same by itself, once, when a rank has waited for 10 s (mpi_watch_ended) for a rank that has ended, and with --watchdog
SECONDS when any wait takes this time and nothing arrives. With mpi_watchdog_abort=1 the job ends then, with code 124.
" },
    HelpTopic { topic: Topic::Help, word: "help", heading: "Help", text: "" },
];

const COLUMN: usize = 38;

pub(crate) const USAGE: &str =
    "Usage: mpirun [OPTIONS] PROGRAM [ARGUMENTS] [: [OPTIONS] PROGRAM [ARGUMENTS]]...";

pub(crate) type Opt = (&'static [&'static str], &'static [&'static str], &'static str);

/// A topic with its options, for the manual page.
pub(crate) struct Chapter {
    pub(crate) heading: &'static str,
    pub(crate) text: &'static str,
    pub(crate) options: Vec<Opt>,
}

pub(crate) fn chapters() -> Vec<Chapter> {
    let options = |topic| SPECS.iter().filter(move |spec| spec.topic == topic);
    let chapter = |page: &HelpTopic| Chapter {
        heading: page.heading,
        text: page.text,
        options: options(page.topic).map(|spec| (spec.names, spec.values, spec.help)).collect(),
    };
    PAGES.iter().map(chapter).collect()
}

pub(crate) fn help() -> String {
    let mut out = format!(
        "{USAGE}\n\nStarts the ranks of an MPI job, on this host or others, and waits for them. Programs that do not use MPI run too.\n"
    );
    for page in PAGES {
        out += &format!("\n{}\n{}", page.heading, options(page.topic));
    }
    out += &format!("\nMore: mpirun --help TOPIC, where TOPIC is one of\n{}.\n", words());
    out
}

pub(crate) fn topic(word: &str) -> Result<String, String> {
    if let Some(page) = PAGES.iter().find(|page| page.word == word) {
        return Ok(format!("{}\n\n{}\n{}", page.heading, page.text, options(page.topic)));
    }
    let hint = nearest(word, PAGES.iter().map(|page| page.word))
        .map(|n| format!(" (did you mean '{n}'?)"));
    Err(format!("no help on '{word}'{}; the topics are {}", hint.unwrap_or_default(), words()))
}

fn words() -> String {
    PAGES.iter().map(|page| page.word).collect::<Vec<_>>().join(", ")
}

fn options(topic: Topic) -> String {
    let mut out = String::new();
    for spec in SPECS.iter().filter(|spec| spec.topic == topic) {
        let left = format!("{} {}", spec.names.join(", "), spec.values.join(" "));
        if left.len() < COLUMN {
            out += &format!("  {left:<COLUMN$} {}\n", spec.help);
        } else {
            out += &format!("  {left}\n  {:<COLUMN$} {}\n", "", spec.help);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_lists_every_option_and_every_topic_has_a_page() {
        let help = help();
        for spec in SPECS {
            assert!(spec.names.iter().all(|name| help.contains(name)) && !spec.help.is_empty());
            assert!(PAGES.iter().any(|page| page.topic == spec.topic));
        }
        let pages: Vec<String> = PAGES.iter().map(|page| topic(page.word).unwrap()).collect();
        for text in pages.iter().chain([&help]) {
            assert!(text.lines().all(|line| line.len() <= 120), "{text}");
        }
        assert!(topic("bindings").unwrap_err().contains("did you mean 'binding'"));
    }
}
