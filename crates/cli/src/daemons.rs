//! `oxmpi boot`, `oxmpi halt`, `oxmpi nodes`: the user's daemons. Their names in LAM/MPI are
//! `lamboot`, `lamhalt` and `lamnodes`.

mod exec;

use std::ffi::OsString;
use std::time::Duration;

use oxmpi_param::Params;
use oxmpi_rt::daemon::{self, Boot, BootError, Host, Node, Universe, Wish};
use oxmpi_sys::host;

pub(crate) use self::exec::{HELP as EXEC_HELP, exec};
use crate::command::{
    Stop, answer, failed, is_option, parameters, set_parameter, sets_parameter, split, unknown, usage, words,
};
use crate::mpirun::{TIMEOUT_WANTED, is_here, seconds, shell_text};

/// Pairs of LAM/MPI's name and the subcommand of `oxmpi`.
pub(crate) const NAMES: [(&str, &str); 4] =
    [("lamboot", "boot"), ("lamhalt", "halt"), ("lamnodes", "nodes"), ("lamexec", "exec")];

pub(crate) const BOOT_HELP: &str = "\
oxmpi boot, lamboot: start a daemon for you on each of some hosts

  oxmpi boot            on this host only
  oxmpi boot FILE       on the hosts of a file, a line each: HOST [cpu=N] [user=NAME] [schedule=no] [prefix=/DIR]
      -v, --verbose         report each step
      --timeout SECONDS     give up after this time (60)
      --mca NAME VALUE      set a parameter: plm_rsh_agent (ssh), btl_tcp_if_include, boot_session_suffix

This host must be in the file; with schedule=no it has a daemon, but N and C leave it out. cpu=N is the number of ranks that a
host takes: by default one for each of its processors. Daemons on other hosts are started by ssh, which must not prompt for a
password. If one daemon cannot be started, none is. Daemons run until 'oxmpi halt'.
";

pub(crate) const HALT_HELP: &str = "\
oxmpi halt, lamhalt: end your daemons, on all hosts, and what they have started

  oxmpi halt
      -v, --verbose         list the nodes
      --mca NAME VALUE      set a parameter: boot_session_suffix
Exit code: 0, or 1 if there are no daemons, or some did not answer.
";

pub(crate) const NODES_HELP: &str = "\
oxmpi nodes, lamnodes: list the nodes where you have daemons

  oxmpi nodes [PLACES]      all, or n0-2, c1, N, C, h (this one), o (where 'oxmpi boot' ran); a line for each:
                            n0 HOST:PROCESSORS:origin,this_node,no_schedule,no_answer
      -n                    leave out the numbers of nodes
      -c                    leave out the numbers of processors
      -i                    addresses of daemons instead of names
      --mca NAME VALUE      set a parameter: boot_session_suffix
A node whose daemon has ended or cannot be reached is marked no_answer, and standard error says why.
";

struct DaemonCommand {
    params: Params,
    verbose: bool,
    timeout: Option<Duration>,
    /// The single-letter options, without the dash.
    flags: Vec<char>,
    words: Vec<String>,
}

impl DaemonCommand {
    /// Reads a command line. Returns `None` for `--help`.
    fn read(
        args: &[OsString],
        flags: &[&str],
        known: &[&'static str],
    ) -> Result<Option<DaemonCommand>, Stop> {
        let mut command = DaemonCommand {
            params: parameters()?,
            verbose: false,
            timeout: None,
            flags: vec![],
            words: vec![],
        };
        let mut args = words(args);
        while let Some(arg) = args.next() {
            let bare = arg.trim_start_matches('-');
            let (option, inline) = split(&arg);
            match option {
                "-h" | "--help" => return Ok(None),
                "-v" | "--verbose" if known.contains(&"--verbose") => command.verbose = true,
                "-t" | "--timeout" if known.contains(&"--timeout") => {
                    let text = inline.or_else(|| args.next()).unwrap_or_default();
                    let time = seconds(&text);
                    let bad = || usage(format!("{option} {text}: not {TIMEOUT_WANTED}"));
                    command.timeout = Some(time.ok_or_else(bad)?);
                }
                _ if sets_parameter(option) => set_parameter(&mut command.params, option, &mut args)?,
                _ if flags.contains(&option) => command.flags.extend(bare.chars()),
                _ if is_option(option) => return Err(unknown(option, known)),
                _ => command.words.push(arg),
            }
        }
        Ok(Some(command))
    }

    /// The suffix that keeps several universes of one user apart.
    fn suffix(&self) -> Result<String, Stop> {
        suffix(&self.params).map_err(usage)
    }

    /// The universe that 'oxmpi boot' has made.
    fn universe(&self) -> Result<Universe, Stop> {
        let found = Universe::find(&self.suffix()?).map_err(failed)?;
        found.ok_or_else(|| failed("no daemon of yours runs on this host: 'oxmpi boot' starts some"))
    }
}

/// The value of `boot_session_suffix`, or of LAM/MPI's variable for the same purpose.
pub(crate) fn suffix(params: &Params) -> Result<String, String> {
    let (name, value) = match params.boot_session_suffix() {
        "" => ("LAM_MPI_SESSION_SUFFIX", std::env::var("LAM_MPI_SESSION_SUFFIX").unwrap_or_default()),
        value => ("boot_session_suffix", value.to_string()),
    };
    daemon::check_suffix(&value).map_err(|why| format!("{name}: {why}"))?;
    Ok(value)
}

pub(crate) fn boot(args: &[OsString]) -> i32 {
    answer("boot", BOOT_HELP, try_boot(args))
}

fn try_boot(args: &[OsString]) -> Result<Option<i32>, Stop> {
    let Some(command) = DaemonCommand::read(args, &[], &["--verbose", "--timeout"])? else { return Ok(None) };
    let hosts = match &command.words[..] {
        [] => vec![Wish { host: Host::new(&host::name()), is_here: true }],
        [file] => {
            let text = oxmpi_param::file::read_text(file.as_ref())
                .map_err(|error| usage(format!("{file}: {error}")))?;
            let hosts = daemon::hosts(&text).map_err(|error| usage(format!("{file}: {error}")))?;
            hosts.into_iter().map(|host| Wish { is_here: is_here(&host.name), host }).collect()
        }
        [_, more, ..] => return Err(usage(format!("'{more}': only one file of hosts is allowed"))),
    };
    let params = &command.params;
    let program = oxmpi_sys::library::program();
    let boot = Boot {
        hosts,
        agent: shell_text(params),
        suffix: command.suffix()?,
        include: params.btl_tcp_if_include().into(),
        exclude: params.btl_tcp_if_exclude().into(),
        program: program.map_err(|error| failed(format!("cannot find this program itself: {error}")))?,
        timeout: command.timeout.unwrap_or(Duration::from_secs(60)),
    };
    let mut say = |text: &str| {
        if command.verbose {
            oxmpi_sys::complain!("oxmpi boot: {text}");
        }
    };
    let nodes = daemon::boot(&boot, &mut say).map_err(|error| match error {
        BootError::NotHere { .. } | BootError::Twice { .. } => usage(error),
        BootError::Already { .. } => failed(error),
        _ => failed(format!("{error}\nno daemon is left running")),
    })?;
    let cpus: u64 = nodes.iter().filter(|node| node.is_scheduled).map(|node| u64::from(node.cpus)).sum();
    crate::say(&format!(
        "booted: {}, {} ('oxmpi nodes' lists, 'oxmpi halt' ends)\n",
        counted(nodes.len() as u64, "node"),
        counted(cpus, "processor")
    ));
    Ok(Some(0))
}

fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

pub(crate) fn halt(args: &[OsString]) -> i32 {
    answer("halt", HALT_HELP, try_halt(args))
}

fn try_halt(args: &[OsString]) -> Result<Option<i32>, Stop> {
    let Some(command) = DaemonCommand::read(args, &[], &["--verbose"])? else { return Ok(None) };
    if let Some(word) = command.words.first() {
        return Err(usage(format!("'{word}': 'oxmpi halt' ends all daemons and takes no arguments")));
    }
    let universe = command.universe()?;
    let missing = universe.halt().map_err(failed)?;
    let mut lost = Vec::new();
    for (number, node) in universe.nodes().iter().enumerate() {
        if missing.contains(&(number as u32)) {
            let why = universe.trouble(number).unwrap_or("it does not say that it has ended");
            lost.push(format!("n{number} ({}): {why}", node.name));
        } else if command.verbose {
            crate::say(&format!("n{number} ({}): halted\n", node.name));
        }
    }
    if lost.is_empty() {
        return Ok(Some(0));
    }
    let remedy = "if a daemon still runs there, 'oxmpi halt' on that host ends it";
    Err(failed(format!("these did not answer; {remedy}:\n{}", lost.join("\n"))))
}

pub(crate) fn nodes(args: &[OsString]) -> i32 {
    answer("nodes", NODES_HELP, try_nodes(args))
}

fn try_nodes(args: &[OsString]) -> Result<Option<i32>, Stop> {
    let flags = ["-n", "-c", "-i"];
    let Some(command) = DaemonCommand::read(args, &flags, &flags)? else { return Ok(None) };
    let universe = command.universe()?;
    let nodes = universe.nodes();
    let mut wanted: Vec<usize> = (0..nodes.len()).collect();
    if !command.words.is_empty() {
        wanted.clear();
        for word in &command.words {
            let places = daemon::places(word, &nodes, universe.own()).map_err(usage)?;
            wanted.extend(places.iter().map(|place| place.node));
        }
    }
    let has = |flag| command.flags.contains(&flag);
    for number in wanted {
        let node = &nodes[number];
        let shown = if has('i') { addresses(node) } else { node.name.clone() };
        let numbered = if has('n') { String::new() } else { format!("n{number}\t") };
        let cpus = if has('c') { String::new() } else { format!(":{}", node.cpus) };
        let trouble = universe.trouble(number);
        let marks = [
            ("origin", node.is_origin),
            ("this_node", number == universe.own()),
            ("no_schedule", !node.is_scheduled),
            ("no_answer", trouble.is_some()),
        ];
        let marks: Vec<&str> = marks.iter().filter(|(_, is)| *is).map(|(mark, _)| *mark).collect();
        crate::say(&format!("{numbered}{shown}{cpus}:{}\n", marks.join(",")));
        if let Some(trouble) = trouble {
            oxmpi_sys::complain!("oxmpi nodes: n{number} ({}) does not answer: {trouble}", node.name);
        }
    }
    Ok(Some(0))
}

fn addresses(node: &Node) -> String {
    let all: Vec<String> = node.addresses.iter().map(|address| address.ip().to_string()).collect();
    if all.is_empty() { "127.0.0.1".into() } else { all.join(",") }
}

/// Runs as the daemon that `oxmpi boot` starts.
pub(crate) fn serve() -> i32 {
    daemon::serve()
}
