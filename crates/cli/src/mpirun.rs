//! `mpirun`: reads its command line, and hands the job to
//! [`oxmpi_launcher::launch`].

mod allocation;
mod options;
mod places;
mod spread;

use std::ffi::OsString;
use std::fmt::Display;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use oxmpi_checkpoint::restart::RESUME_OPTION;
use oxmpi_core::copy_costs;
use oxmpi_daemon::Universe;
use oxmpi_daemon::diagnostics::{LogLevels, LogTarget};
use oxmpi_fabric::{Constructor, Decided};
use oxmpi_launcher::checkpoint::resumption::Resumption;
use oxmpi_launcher::checkpoint::{self, supervise};
use oxmpi_launcher::hostmap::Hostmap;
use oxmpi_launcher::hosts::agent;
use oxmpi_launcher::hosts::named::{self, Hosts};
use oxmpi_launcher::hosts::step;
use oxmpi_launcher::launch::{
    self, App, Bind, Launch, LaunchError, NOT_EXECUTABLE, OutputFiles, OutputStyle, ProgramSearch,
    Resolving, Stdin, Supervision,
};
use oxmpi_param::module::Supplies;
use oxmpi_param::profile::{self, Profile};
use oxmpi_param::{Found, Job, Module, NodeCount, Param, Params, SelectError, Source, ThreadLevel};
use oxmpi_rt_client::client::{
    CONTROL_NUMBER, JOIN_OPTION, SEGMENT_NUMBER, SERVE_OPTION, UNIVERSE_SIZE_VARIABLE,
    raised_buffers,
};
use oxmpi_rt_client::foreign::said_of_several_mpiruns;
use oxmpi_sys::spawn;
use oxmpi_tuned::settings::Settings;

pub(crate) use self::allocation::{agents, own_node};
pub(crate) use self::options::{Chapter, Opt, USAGE as SYNOPSIS, chapters};
pub(crate) use self::options::{INTERVAL_WANTED, TIMEOUT_WANTED, interval, timeout as seconds};
use self::options::{Inherit, LaunchOptions, MpirunAction, ProgramOptions, Setting};
pub(crate) use self::spread::shell_text;
use crate::prefix;

const USAGE: i32 = 2;
/// Exit code when the time limit of the job has passed, as of timeout(1).
const TIMED_OUT: i32 = 124;
const NOT_ON_HOSTS: &str = "an image of the whole tree of processes needs all of them on this host, and this job has other hosts: leave out the checkpoint or the hosts, or start the job with '--mca cr blcr --mca rpi crtcp' for an image of each rank";
/// Further warnings about parameters are only counted.
const MOST_WARNINGS: usize = 20;

/// Runs `mpirun`. `name` is the name by which it was called, and begins each error message.
pub(crate) fn main(name: &str, args: &[OsString]) -> i32 {
    let done = match args {
        [option] if option == SERVE_OPTION => serve_singleton(),
        [option] if option == JOIN_OPTION => serve_joined(),
        [option, directory, args @ ..] if option == RESUME_OPTION => {
            resume(Path::new(directory), args)
        }
        _ => command(args),
    };
    match done {
        Ok(code) => code,
        Err(MpirunError { texts, code }) => {
            texts.iter().for_each(|text| oxmpi_sys::complain!("{name}: {text}"));
            code
        }
    }
}

struct MpirunError {
    texts: Vec<String>,
    code: i32,
}

fn mpirun_error(code: i32, text: impl ToString) -> MpirunError {
    MpirunError { texts: vec![text.to_string()], code }
}

/// Begins to write the diagnostics that the environment selects, and with `--verbose` the
/// launcher's.
fn begin_diagnostics(verbose: bool) -> Result<(), MpirunError> {
    let levels = LogLevels::from_env().map_err(|why| mpirun_error(USAGE, why))?;
    let levels = if verbose { levels.with_verbose_launcher() } else { levels };
    levels.begin(LogTarget::Launcher);
    Ok(())
}

fn command(args: &[OsString]) -> Result<i32, MpirunError> {
    let began = Instant::now();
    let mut options = match options::parse(args) {
        Ok(MpirunAction::Run(options)) => options,
        Ok(MpirunAction::Help(None)) => {
            crate::say(&options::help());
            return Ok(0);
        }
        Ok(MpirunAction::Help(Some(word))) => {
            crate::say(&options::topic(&word).map_err(|text| mpirun_error(USAGE, text))?);
            return Ok(0);
        }
        Ok(MpirunAction::Version) => {
            crate::say(concat!("mpirun (OxMPI) ", env!("CARGO_PKG_VERSION"), "\n"));
            return Ok(0);
        }
        Err(error) => {
            return Err(mpirun_error(
                USAGE,
                format!(
                    "{error}
{}",
                    options::USAGE
                ),
            ));
        }
    };
    begin_diagnostics(options.verbose)?;
    let profiles = profiles(&options)?;
    export(&mut options, &profiles);
    let found = params(&options, &profiles)?;
    check_tuned(&options, &found.params)?;
    if !options.quiet {
        warn(&found);
        options.no_effect.iter().for_each(|text| oxmpi_sys::complain!("mpirun: {text}"));
        let several = said_of_several_mpiruns().filter(|_| !found.params.mpi_allow_singletons());
        several.iter().for_each(|text| oxmpi_sys::complain!("mpirun: {text}"));
    }
    named::resolve(options.programs.iter().flat_map(|program| program.hosts.names()));
    allocation::enter(&mut options)?;
    let universe = match options.allocation {
        Some(_) => None,
        None => spread::enter_universe(&mut options, &found.params)?,
    };
    spread::apply_no_local(&mut options)?;
    let mut launch = launch(&options, found.params, universe.as_ref(), (began, false))?;
    let plan = launch.supervision.map(|it| supervise::plan(it, &launch.params, launch.quiet));
    let plan = plan.transpose().map_err(|why| mpirun_error(USAGE, why))?;
    if options.no_wait {
        if launch.stdin != Stdin::Rank(0) && launch.stdin != Stdin::None {
            return Err(mpirun_error(
                USAGE,
                "-nw: a job that nobody waits for gets no input; leave -stdin out",
            ));
        }
        launch.stdin = Stdin::None;
        spawn::detach().map_err(|error| {
            mpirun_error(1, format!("-nw: cannot go on without the shell: {error}"))
        })?;
    }
    if let Some(plan) = plan
        && let Some(code) = supervise::in_parent(plan).map_err(|why| mpirun_error(1, why))?
    {
        return Ok(code);
    }
    launch::run(&launch).map_err(|error| match error {
        LaunchError::Run { .. } | LaunchError::Host { is_program: true, .. } => {
            mpirun_error(NOT_EXECUTABLE, error)
        }
        LaunchError::Interrupted(signal) => mpirun_error(128 + signal, error),
        LaunchError::TimedOut { .. } => mpirun_error(TIMED_OUT, error),
        _ => mpirun_error(1, error),
    })
}

/// Continues a job whose ranks have an image each: `oxmpi restart` starts this program with the
/// command line of the job, and passes the rest in a directory.
fn resume(directory: &Path, args: &[OsString]) -> Result<i32, MpirunError> {
    let began = Instant::now();
    let resumption = Resumption::read(directory).map_err(|why| mpirun_error(1, why))?;
    let Ok(MpirunAction::Run(mut options)) = options::parse(args) else {
        return Err(mpirun_error(
            USAGE,
            "this version does not understand the command line of the job",
        ));
    };
    begin_diagnostics(options.verbose)?;
    let profiles = profiles(&options)?;
    export(&mut options, &profiles);
    let Found { params, .. } = params(&options, &profiles)?;
    if let Some([option, value]) = resumption.hosts() {
        let wrong = |why: &dyn Display| mpirun_error(USAGE, format!("{option} {value}: {why}"));
        if option == "--app" {
            let schema = match options::parse(&[option.into(), value.into()]) {
                Ok(MpirunAction::Run(schema)) => schema,
                Ok(_) => return Err(wrong(&"it names no program")),
                Err(error) => return Err(mpirun_error(USAGE, error)),
            };
            spread::place_by(&mut options, &schema).map_err(|why| wrong(&why))?;
        } else {
            let hosts = Hosts::given(option, value).map_err(|why| wrong(&why))?;
            named::resolve(hosts.names());
            spread::move_to(&mut options, &hosts)?;
        }
    }
    allocation::enter(&mut options)?;
    let launch = launch(&options, params, None, (began, true))?;
    resumption.run(&launch).map_err(|why| mpirun_error(1, why))
}

pub(crate) fn output_files(args: &[OsString]) -> Option<OutputFiles> {
    match options::parse(args) {
        Ok(MpirunAction::Run(options)) => options.output_files,
        _ => None,
    }
}

/// Serves a singleton that needs a launcher and has started this program.
fn serve_singleton() -> Result<i32, MpirunError> {
    let (segment, control) = leave_program(SERVE_OPTION, spawn::detach)?;
    let launch = launch_of_program()?;
    launch::serve(&launch, segment, control).map_err(|error| mpirun_error(1, error))
}

/// Serves the processes of another launcher's job on this host, of which the first has started this
/// program.
fn serve_joined() -> Result<i32, MpirunError> {
    // The launcher may signal the whole process group of the program when one process ends.
    let (listener, founder) = leave_program(JOIN_OPTION, spawn::detach_session)?;
    launch::serve_joined(launch_of_program()?, listener, founder)
        .map_err(|error| mpirun_error(1, error))
}

/// Goes on without the program that has started this one by an option that is not for users.
/// Returns the two descriptors that the program has passed.
fn leave_program(
    option: &str,
    detach: impl FnOnce() -> io::Result<()>,
) -> Result<(OwnedFd, OwnedFd), MpirunError> {
    let no = |why: &dyn Display| {
        mpirun_error(USAGE, format!("{option} is for programs that use MPI, not for users: {why}"))
    };
    begin_diagnostics(false)?;
    detach().map_err(|error| no(&error))?;
    // Inherited descriptors of the program would stay open as long as this process.
    spawn::close_others(&[SEGMENT_NUMBER, CONTROL_NUMBER]);
    let passed = spawn::take_inherited(SEGMENT_NUMBER).zip(spawn::take_inherited(CONTROL_NUMBER));
    passed.ok_or_else(|| no(&"no process has passed the descriptors"))
}

/// The job of a program that has started this one: one rank, and the parameters of its environment.
fn launch_of_program() -> Result<Launch, MpirunError> {
    let found = Found::gather(std::env::vars_os(), prefix::find().as_deref());
    let app = App {
        ranks: 1,
        path: PathBuf::new(),
        args: Vec::new(),
        inherited: std::env::vars_os().collect(),
        inherits_chosen: false,
        env: Vec::new(),
        directory: None,
    };
    Ok(Launch {
        apps: vec![app],
        env: environment_of(&found.params),
        transport: found.params.rpi(),
        hostmap: Hostmap::load(&found.params, prefix::find().as_deref())
            .map_err(|e| mpirun_error(USAGE, e))?,
        params: found.params,
        output: OutputStyle::default(),
        output_files: None,
        stdin: Stdin::None,
        bind: Bind::None,
        report_bindings: false,
        verbose: false,
        quiet: false,
        timeout: None,
        library_directory: prefix::library_directory(),
        spread: None,
        supervision: None,
        times: None,
    })
}

/// The job that the options describe. `began`: the start of this program. `is_back`: the job was
/// started before and continues.
fn launch(
    options: &LaunchOptions,
    mut params: Params,
    universe: Option<&Arc<Universe>>,
    (began, is_back): (Instant, bool),
) -> Result<Launch, MpirunError> {
    let app = |program| app(program, options, universe.map(|universe| &**universe));
    let apps = options.programs.iter().map(app).collect::<Result<Vec<_>, _>>()?;
    let size = apps.iter().fold(0, |sum: u32, app| sum.saturating_add(app.ranks));
    let (spread, slots) =
        spread::spread(options, apps.iter().map(|app| app.ranks), &params, universe)?;
    if let Some(Stdin::Rank(rank)) = options.stdin
        && rank >= size
    {
        return Err(mpirun_error(
            USAGE,
            format!("-stdin {rank}: the job has {size} ranks, numbered from 0"),
        ));
    }
    let hosts = spread.as_ref().map(|spread| spread.hosts.len());
    if hosts.is_some_and(|hosts| hosts > 1) && !is_back {
        take_suited(&mut params)?;
    }
    let (transport, by_rank) = settle(&mut params, size, hosts, is_back)?;
    let supervision = supervision(options, spread.is_some() && !by_rank)?;
    if supervision.is_some() && !by_rank {
        checkpoint::check_transport(transport.name)
            .map_err(|why| mpirun_error(USAGE, format!("the job cannot be checkpointed: {why}")))?;
    }
    let variables = decide(&mut params, transport, hosts.is_none_or(|hosts| hosts == 1))?;
    let mut env = options.env.clone();
    for (name, value) in variables {
        if std::env::var_os(name).is_none() && env.iter().all(|(known, _)| known != name) {
            env.push((name.into(), value.into()));
        }
    }
    if options.allocation.is_some() && options.inherit == Inherit::All {
        let variables = allocation::variables_of_ranks();
        env.extend(
            variables.filter(|(name, _)| options.env.iter().all(|(known, _)| known != name)),
        );
    }
    env.extend(environment_of(&params));
    // Scripts read the universe size by Open MPI's name.
    let universe_size = options.universe_size.unwrap_or(slots).max(size).to_string();
    env.extend(
        [UNIVERSE_SIZE_VARIABLE, "OMPI_UNIVERSE_SIZE"]
            .map(|name| (name.into(), universe_size.clone().into())),
    );
    Ok(Launch {
        apps,
        env,
        hostmap: Hostmap::load(&params, prefix::find().as_deref())
            .map_err(|e| mpirun_error(USAGE, e))?,
        params,
        transport,
        output: options.output,
        output_files: options.output_files.clone(),
        stdin: options.stdin.unwrap_or(Stdin::Rank(0)),
        bind: options.bind(),
        report_bindings: options.report_bindings,
        verbose: options.verbose,
        quiet: options.quiet,
        timeout: timeout(options)?,
        library_directory: prefix::library_directory(),
        supervision,
        spread,
        times: options.times.then(|| Resolving { began, slowest: named::slowest() }),
    })
}

/// Selects the modules of the job, and sets the parameters that name them where all processes must
/// select the same. Returns the transport, and whether checkpoints have an image of each rank.
fn settle(
    params: &mut Params,
    ranks: u32,
    hosts: Option<usize>,
    is_back: bool,
) -> Result<(&'static Module, bool), MpirunError> {
    let names = params.cr_names();
    if names.len() < 2 {
        return settle_one(params, ranks, hosts, is_back);
    }
    // Takes the first module that can be used. If there is none, the error is the first module's.
    let mut refusal = None;
    for name in names {
        let mut with = params.clone();
        set_as(&mut with, "cr", name, "cr")?;
        match settle_one(&mut with, ranks, hosts, false) {
            Ok(settled) => {
                *params = with;
                return Ok(settled);
            }
            Err(mpirun_error) => refusal = refusal.or(Some(mpirun_error)),
        }
    }
    Err(refusal.unwrap_or_else(|| mpirun_error(USAGE, "parameter 'cr' names no module")))
}

/// Does the same as [`settle`] for a job with at most one module for checkpoints.
fn settle_one(
    params: &mut Params,
    ranks: u32,
    hosts: Option<usize>,
    is_back: bool,
) -> Result<(&'static Module, bool), MpirunError> {
    let transport = transport(params, ranks, hosts)?;
    // Over other transports only the image of a whole process tree is possible, on one host.
    let is_own = params.cr() == Some("self");
    let by_rank = is_own || transport.checkpoints && params.cr().is_some();
    let Some(rpi) = Param::find("rpi") else { return Ok((transport, by_rank)) };
    if by_rank && hosts.is_some() && params.is_default(rpi) {
        // Agents would not select this transport by themselves.
        let source = Source::Launcher("mpirun, for checkpoints".into());
        params
            .set_from("rpi", transport.name, source)
            .map_err(|error| mpirun_error(USAGE, error))?;
    } else if params.words(rpi).len() > 1 {
        set_as(params, "rpi", transport.name, "rpi")?;
    } else if params.rpi() != transport {
        set_as(params, "rpi", transport.name, "btl")?;
    }
    if let Some(cr) = params.cr() {
        let wrong =
            |why: &dyn Display| mpirun_error(USAGE, format!("parameter 'cr' is '{cr}': {why}"));
        if hosts.is_some() && !by_rank {
            return Err(wrong(&NOT_ON_HOSTS));
        }
        if !is_back {
            checkpoint::check(params).map_err(|why| wrong(&why))?;
        }
    }
    Ok((transport, by_rank))
}

/// Sets a parameter and takes over the source of the parameter `of`.
fn set_as(params: &mut Params, name: &str, word: &str, of: &str) -> Result<(), MpirunError> {
    let source = Param::find(of).map_or(Source::Default, |of| params.source(of).clone());
    params.set_from(name, word, source).map_err(|error| mpirun_error(USAGE, error))
}

fn supervision(
    options: &LaunchOptions,
    is_spread: bool,
) -> Result<Option<Supervision>, MpirunError> {
    let found = Supervision { every: options.every, on_term: options.checkpoint_on_term };
    if found == Supervision::default() {
        return Ok(None);
    }
    if is_spread {
        let option = if found.every.is_some() { "--every" } else { "--checkpoint-on-term" };
        return Err(mpirun_error(USAGE, format!("{option}: {NOT_ON_HOSTS}")));
    }
    Ok(Some(found))
}

/// Takes the transport of this host's fabric for a job on several hosts, if its priority is above
/// that of sockets and no parameter names a transport.
fn take_suited(params: &mut Params) -> Result<(), MpirunError> {
    let is_set = |name: &&str| {
        Param::find(name).is_some_and(|param| !matches!(params.source(param), Source::Default))
    };
    if params.cr().is_some() || ["rpi", "btl", "pml", "mtl"].iter().any(is_set) {
        return Ok(());
    }
    let mut all = Module::all().to_vec();
    all.sort_by_key(|module| std::cmp::Reverse(module.far_priority(params)));
    let sockets = Module::named("tcp").map_or(0, |module| module.far_priority(params));
    let mut all = all.iter().filter(|module| module.far_priority(params) > sockets);
    let suited = all.find_map(|module| {
        let why = (Constructor::of(module)?.suits_hosts)(params)?;
        Some((module.name, why))
    });
    let Some((name, why)) = suited else { return Ok(()) };
    params.set_from("rpi", name, Source::Launcher(why)).map_err(|error| mpirun_error(USAGE, error))
}

/// Selects the transport. The network is searched only if the transport needs it.
fn transport(
    params: &Params,
    ranks: u32,
    hosts: Option<usize>,
) -> Result<&'static Module, MpirunError> {
    let is_here = hosts.is_none();
    let nodes = match hosts {
        Some(hosts) => (hosts > 1).then_some(NodeCount::Hosts(hosts)),
        None => NodeCount::virtual_ones(params, Some(ranks)),
    };
    let mut job = Job { ranks: Some(ranks), nodes, ..Job::default() };
    let wrong = |error: SelectError| mpirun_error(USAGE, error);
    let chosen = params.select(&job, ThreadLevel::Single).map_err(wrong)?.transport();
    let no_network = || launch::network(params).err().map(|error| error.to_string());
    match chosen.needs {
        Supplies::Listeners if is_here => job.no_sockets = no_network(),
        // The daemons of one node need no network.
        Supplies::Daemons if is_here && nodes.is_some() => job.no_daemons = no_network(),
        _ if is_here && nodes.is_some() => job.no_sockets = no_network(),
        _ => {}
    }
    Ok(params.select(&job, ThreadLevel::Single).map_err(wrong)?.transport())
}

/// Sets the parameters that must be the same in all ranks for this transport, and returns the
/// environment variables that it needs.
fn decide(
    params: &mut Params,
    transport: &Module,
    is_one_host: bool,
) -> Result<Vec<(&'static str, &'static str)>, MpirunError> {
    let Some(made) = Constructor::of(transport) else { return Ok(Vec::new()) };
    let wrong = |why: String| {
        mpirun_error(USAGE, format!("no transport '{}' for this job: {why}", transport.name))
    };
    let Decided { params: values, variables, remarks } =
        (made.decide)(params, is_one_host).map_err(wrong)?;
    for remark in remarks {
        oxmpi_sys::complain!("mpirun: {remark}");
    }
    for (name, value) in values {
        if Param::find(name).is_some_and(|param| param.show(&params.value(param)) == value) {
            continue;
        }
        let source = Source::Launcher(format!("mpirun, for the transport '{}'", transport.name));
        params.set_from(name, &value, source).map_err(|error| mpirun_error(USAGE, error))?;
    }
    Ok(variables)
}

/// Runs as the agent that `mpirun` on another host starts here. `level`: that of its diagnostics;
/// may be empty. The agent calls the `mpirun` that has sent an invitation.
pub(crate) fn agent(level: &str, invitation: Option<&str>) -> i32 {
    match level.parse::<LogLevels>() {
        Ok(levels) => levels.begin(LogTarget::Agent),
        Err(error) => {
            oxmpi_sys::complain!("oxmpi agent: {error}");
            return USAGE;
        }
    }
    let served = match invitation {
        Some(invitation) => step::serve_invited(invitation, prefix::library_directory()),
        None => agent::serve(prefix::library_directory()),
    };
    served.unwrap_or_else(|error| {
        oxmpi_sys::complain!("oxmpi agent: {error}");
        1
    })
}

/// The time limit of the job: from the option, or from the variable that other launchers also read.
fn timeout(options: &LaunchOptions) -> Result<Option<Duration>, MpirunError> {
    let variable = std::env::var("MPIEXEC_TIMEOUT").ok().filter(|text| !text.is_empty());
    match (options.timeout, variable) {
        (Some(time), _) => Ok(Some(time)),
        (None, None) => Ok(None),
        (None, Some(text)) => match options::timeout(&text) {
            Some(time) => Ok(Some(time)),
            None => Err(mpirun_error(
                USAGE,
                format!(
                    "environment variable MPIEXEC_TIMEOUT: '{text}' is not {}",
                    options::TIMEOUT_WANTED
                ),
            )),
        },
    }
}

/// Reports files that could not be read, parameters without effect, and variables for Open MPI that
/// were perhaps meant for OxMPI.
fn warn(found: &Found) {
    let unread = found.unread.iter().map(|unread| format!("{unread}: the job runs without it"));
    let no_effect = found.no_effect.iter().map(ToString::to_string);
    let ignored = found.ignored.iter().filter_map(|ignored| {
        let (variable, nearest) = (&ignored.variable, ignored.nearest?);
        Some(format!(
            "the environment variable {variable} is ignored, as OxMPI has no parameter of this name; did you mean '{nearest}'?"
        ))
    });
    let costs = copy_costs::find(&found.params).complaint();
    let costs =
        costs.map(|text| format!("{text}: the job runs by what is built in for the processor"));
    let all: Vec<String> = unread
        .chain(no_effect)
        .chain(raised_buffers(&found.params))
        .chain(costs)
        .chain(ignored)
        .collect();
    all.iter().take(MOST_WARNINGS).for_each(|text| oxmpi_sys::complain!("mpirun: warning: {text}"));
    if all.len() > MOST_WARNINGS {
        oxmpi_sys::complain!(
            "mpirun: warning: {} more parameters have no effect",
            all.len() - MOST_WARNINGS
        );
    }
}

/// The parameter files of the command line, the weakest first.
fn profiles(options: &LaunchOptions) -> Result<Vec<Profile>, MpirunError> {
    let home = std::env::var_os("HOME");
    let search = profile::search_path(home.as_deref(), prefix::find().as_deref());
    let files = options.tune.iter().chain(&options.am).rev();
    let (read, failed): (Vec<_>, Vec<_>) =
        files.map(|file| Profile::open(file, &search)).partition(Result::is_ok);
    if failed.is_empty() {
        return Ok(read.into_iter().flatten().collect());
    }
    let texts = failed.into_iter().rev().filter_map(Result::err).map(|error| error.to_string());
    Err(MpirunError { texts: texts.collect(), code: USAGE })
}

/// Adds the variables that files set. Variables of the command line are stronger.
fn export(options: &mut LaunchOptions, profiles: &[Profile]) {
    let all = profiles.iter().flat_map(|profile| profile.variables(own_variable));
    let mut env: Vec<(OsString, OsString)> =
        all.map(|(name, value)| (name.into(), value.into())).collect();
    env.append(&mut options.env);
    options.env = env;
}

fn own_variable(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// The parameters that the ranks will see: those of files and the environment, changed by `-x`, by
/// the files of the command line and by `--mca`.
fn params(options: &LaunchOptions, profiles: &[Profile]) -> Result<Found, MpirunError> {
    let changed = options.env.iter().map(|(key, _)| key);
    let inherited: Vec<_> =
        std::env::vars_os().filter(|(key, _)| !changed.clone().any(|c| c == key)).collect();
    let vars = inherited.iter().chain(&options.env).map(|(k, v)| (k, v));
    let mut found = Found::gather(vars, prefix::find().as_deref());
    profiles.iter().for_each(|profile| found.read_profile(profile, own_variable));
    for Setting { option, name, value } in &options.mca {
        let source = Source::CommandLine(format!("{option} {name} {value}"));
        found.set_strongest(name, value, source);
    }
    if found.errors.is_empty() {
        return Ok(found);
    }
    Err(MpirunError { texts: found.errors.iter().map(ToString::to_string).collect(), code: USAGE })
}

/// Reports errors in the choice of algorithms once, before each rank would. A relative rules file
/// is left to the ranks if they run in other directories.
fn check_tuned(options: &LaunchOptions, params: &Params) -> Result<(), MpirunError> {
    let is_here = options.programs.iter().all(|program| program.directory.is_none());
    let read = |file: &str| match Path::new(file).is_absolute() || is_here {
        true => crate::collectives::read_rules(file),
        false => Ok(b"0".to_vec()),
    };
    Settings::new(params, read).map(drop).map_err(|error| mpirun_error(USAGE, error))
}

/// The environment variables that carry the parameters to the ranks. Parameter files are read here
/// once; the ranks read none.
fn environment_of(params: &Params) -> Vec<(OsString, OsString)> {
    let all: Vec<_> = params
        .iter()
        .filter(|(param, _)| *params.source(param) != Source::Default)
        .map(|(param, value)| (param.name, param.show(&value), params.source(param)))
        .collect();
    let sources = oxmpi_param::encode_sources(
        all.iter().map(|(name, value, source)| (*name, &**value, *source)),
    );
    let files = (OsString::from(oxmpi_param::FILES_VARIABLE), OsString::from("none"));
    let sources = (OsString::from(oxmpi_param::SOURCES_VARIABLE), OsString::from(sources));
    let values = all.iter().map(|(name, value, _)| {
        (format!("{}{name}", oxmpi_param::ENV_PREFIX).into(), value.into())
    });
    [files, sources].into_iter().chain(values).collect()
}

fn app(
    program: &ProgramOptions,
    options: &LaunchOptions,
    universe: Option<&Universe>,
) -> Result<App, MpirunError> {
    let directory = program.directory.as_ref().map(|directory| {
        let bad = |why: &dyn Display| {
            mpirun_error(USAGE, format!("-wdir {}: {why}", directory.display()))
        };
        match std::fs::canonicalize(directory) {
            Ok(found) if found.is_dir() => Ok(found),
            Ok(_) => Err(bad(&"it is not a directory")),
            Err(error) => Err(bad(&error)),
        }
    });
    let directory = directory.transpose()?;
    let search = ProgramSearch { path: program.path.as_deref(), directory: directory.as_deref() };
    let path = search.find(&program.words[0]).map_err(|(text, code)| mpirun_error(code, text))?;
    let inherit = program.inherit.as_ref().unwrap_or(&options.inherit);
    let inherits = |name: &OsString| match inherit {
        Inherit::All => true,
        Inherit::Only(names) => names.contains(name),
    };
    Ok(App {
        ranks: spread::ranks(program, options, universe)?,
        path,
        args: program.words.clone(),
        inherited: std::env::vars_os().filter(|(name, _)| inherits(name)).collect(),
        inherits_chosen: *inherit != Inherit::All,
        env: program.env.clone(),
        directory,
    })
}
