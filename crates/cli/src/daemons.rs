//! `oxmpi boot`, `oxmpi halt`, `oxmpi nodes`: the user's daemons. Their names in LAM/MPI are
//! `lamboot`, `lamhalt` and `lamnodes`.

mod exec;

use std::fmt::Display;
use std::path::PathBuf;
use std::time::Duration;

use oxmpi_daemon::diagnostics::{LogLevels, LogTarget};
use oxmpi_daemon::{Boot, BootError, Host, Node, Universe, Wish};
use oxmpi_launcher::hosts::named::{is_here, resolve};
use oxmpi_param::Params;
use oxmpi_sys::host;

pub(crate) use self::exec::{ExecArgs, exec};
use crate::command::{Settings, Stop, failed, program, timeout, usage};
use crate::mpirun::shell_text;

/// Pairs of LAM/MPI's name and the subcommand of `oxmpi`.
pub(crate) const NAMES: [(&str, &str); 4] =
    [("lamboot", "boot"), ("lamhalt", "halt"), ("lamnodes", "nodes"), ("lamexec", "exec")];

/// Start a daemon for you on each of some hosts
///
/// This host must be in the file. A host with schedule=no has a daemon, but N and C leave it out.
/// cpu=N is the number of ranks that a host takes: by default one for each of its processors.
/// Daemons on other hosts are started by ssh, which must not prompt for a password. If one daemon
/// cannot be started, none is. Daemons run until 'oxmpi halt'. LAM/MPI's name for this command is
/// lamboot.
#[derive(Debug, clap::Args)]
pub(crate) struct BootArgs {
    /// The hosts, a line each: HOST [cpu=N] [user=NAME] [schedule=no] [prefix=/DIR]; without it,
    /// this host alone
    file: Option<PathBuf>,
    /// Report each step
    #[arg(short, long)]
    verbose: bool,
    /// Give up after this time
    #[arg(short, long, value_name = "SECONDS", default_value = "60", value_parser = timeout)]
    timeout: Duration,
    /// Parameters: plm_rsh_agent (ssh), btl_tcp_if_include, boot_session_suffix
    #[command(flatten)]
    settings: Settings,
}

/// End your daemons, on all hosts, and the programs that they have started
///
/// The exit code is 0, or 1 if there are no daemons, or some did not answer. LAM/MPI's name for
/// this command is lamhalt.
#[derive(Debug, clap::Args)]
pub(crate) struct HaltArgs {
    /// List the nodes
    #[arg(short, long)]
    verbose: bool,
    #[command(flatten)]
    settings: Settings,
}

/// List the nodes where you have daemons
///
/// A line for each node: n0 HOST:PROCESSORS:origin,this_node,no_schedule,no_answer. A node whose
/// daemon has ended or cannot be reached is marked no_answer, and standard error says why.
/// LAM/MPI's name for this command is lamnodes.
#[derive(Debug, clap::Args)]
pub(crate) struct NodesArgs {
    /// Nodes (n0-2), processors (c1), each node (N), each processor (C), this node (h), or the node
    /// where 'oxmpi boot' ran (o); all nodes if none is named
    places: Vec<String>,
    /// Leave out the numbers of nodes
    #[arg(short = 'n')]
    without_numbers: bool,
    /// Leave out the numbers of processors
    #[arg(short = 'c')]
    without_processors: bool,
    /// Show addresses of daemons instead of names
    #[arg(short = 'i')]
    addresses: bool,
    #[command(flatten)]
    settings: Settings,
}

fn universe(settings: &Settings) -> Result<Universe, Stop> {
    LogLevels::from_env().map_err(usage)?.begin(LogTarget::Daemon);
    let suffix = suffix(&settings.parameters()?).map_err(usage)?;
    let found = Universe::find(&suffix).map_err(failed)?;
    found.ok_or_else(|| failed("no daemon of yours runs on this host: 'oxmpi boot' starts some"))
}

/// The value of `boot_session_suffix`, or of LAM/MPI's variable for the same purpose.
pub(crate) fn suffix(params: &Params) -> Result<String, String> {
    let (name, value) = match params.boot_session_suffix() {
        "" => {
            ("LAM_MPI_SESSION_SUFFIX", std::env::var("LAM_MPI_SESSION_SUFFIX").unwrap_or_default())
        }
        value => ("boot_session_suffix", value.to_string()),
    };
    oxmpi_daemon::check_suffix(&value).map_err(|why| format!("{name}: {why}"))?;
    Ok(value)
}

pub(crate) fn boot(args: &BootArgs) -> Result<i32, Stop> {
    LogLevels::from_env().map_err(usage)?.begin(LogTarget::Daemon);
    let params = &args.settings.parameters()?;
    let hosts = match &args.file {
        None => vec![Wish { host: Host::new(&host::name()), is_here: true }],
        Some(file) => {
            let wrong = |error: &dyn Display| usage(format!("{}: {error}", file.display()));
            let text = oxmpi_param::file::read_text(file).map_err(|error| wrong(&error))?;
            let hosts = oxmpi_daemon::hosts(&text).map_err(|error| wrong(&error))?;
            resolve(hosts.iter().map(|host| host.name.as_str()));
            hosts.into_iter().map(|host| Wish { is_here: is_here(&host.name), host }).collect()
        }
    };
    let boot = Boot {
        hosts,
        agent: shell_text(params),
        suffix: suffix(params).map_err(usage)?,
        include: params.btl_tcp_if_include().into(),
        exclude: params.btl_tcp_if_exclude().into(),
        program: program()?,
        timeout: args.timeout,
    };
    let mut say = |text: &str| {
        if args.verbose {
            oxmpi_sys::complain!("oxmpi boot: {text}");
        }
    };
    let nodes = oxmpi_daemon::boot(&boot, &mut say).map_err(|error| match error {
        BootError::NotHere { .. } | BootError::Twice { .. } => usage(error),
        BootError::Already { .. } => failed(error),
        _ => failed(format!("{error}\nno daemon is left running")),
    })?;
    let cpus: u64 =
        nodes.iter().filter(|node| node.is_scheduled).map(|node| u64::from(node.cpus)).sum();
    crate::say(&format!(
        "booted: {}, {} ('oxmpi nodes' lists, 'oxmpi halt' ends)\n",
        counted(nodes.len() as u64, "node"),
        counted(cpus, "processor")
    ));
    Ok(0)
}

fn counted(number: u64, what: &str) -> String {
    if number == 1 { format!("1 {what}") } else { format!("{number} {what}s") }
}

pub(crate) fn halt(args: &HaltArgs) -> Result<i32, Stop> {
    let universe = universe(&args.settings)?;
    let missing = universe.halt().map_err(failed)?;
    let mut lost = Vec::new();
    for (number, node) in universe.nodes().iter().enumerate() {
        if missing.contains(&(number as u32)) {
            let why = universe.trouble(number).unwrap_or("it does not say that it has ended");
            lost.push(format!("n{number} ({}): {why}", node.name));
        } else if args.verbose {
            crate::say(&format!("n{number} ({}): halted\n", node.name));
        }
    }
    if lost.is_empty() {
        return Ok(0);
    }
    let remedy = "if a daemon still runs there, 'oxmpi halt' on that host ends it";
    Err(failed(format!("these did not answer; {remedy}:\n{}", lost.join("\n"))))
}

pub(crate) fn nodes(args: &NodesArgs) -> Result<i32, Stop> {
    let universe = universe(&args.settings)?;
    let nodes = universe.nodes();
    let mut wanted: Vec<usize> = (0..nodes.len()).collect();
    if !args.places.is_empty() {
        wanted.clear();
        for word in &args.places {
            let places = oxmpi_daemon::places(word, &nodes, universe.own()).map_err(usage)?;
            wanted.extend(places.iter().map(|place| place.node));
        }
    }
    for number in wanted {
        let node = &nodes[number];
        let shown = if args.addresses { addresses(node) } else { node.name.clone() };
        let numbered = if args.without_numbers { String::new() } else { format!("n{number}\t") };
        let cpus = if args.without_processors { String::new() } else { format!(":{}", node.cpus) };
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
            oxmpi_sys::complain!(
                "oxmpi nodes: n{number} ({}) does not answer: {trouble}",
                node.name
            );
        }
    }
    Ok(0)
}

fn addresses(node: &Node) -> String {
    let all: Vec<String> = node.addresses.iter().map(|address| address.ip().to_string()).collect();
    if all.is_empty() { "127.0.0.1".into() } else { all.join(",") }
}

/// Runs as the daemon that `oxmpi boot` starts. `level`: that of its diagnostics; may be empty.
pub(crate) fn serve(level: &str) -> i32 {
    match level.parse::<LogLevels>() {
        Ok(levels) => levels.begin(LogTarget::Daemon),
        Err(error) => {
            oxmpi_sys::complain!("oxmpi daemon: {error}");
            return 2;
        }
    }
    oxmpi_daemon::serve()
}
