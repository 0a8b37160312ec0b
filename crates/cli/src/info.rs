//! `oxmpi info`: the facts about this installation, and its parameters.

mod json;
pub(crate) mod survey;
mod text;
mod tools;
mod world;

use std::ffi::OsString;

use oxmpi_fabric::Survey;
use oxmpi_param::Param;
use oxmpi_param::nearest::nearest;
use oxmpi_param::{Decision, Found, Job, Module, NodeCount, Params, SelectError, Source, ThreadLevel};
use oxmpi_rt::launch::network;

use crate::checkpoint;
use crate::prefix;

/// The functions that the C library does not have yet. The build script finds them in the library's
/// sources.
const MISSING: &[&str] = include!(concat!(env!("OUT_DIR"), "/missing.rs"));

pub(crate) const HELP: &str = "\
oxmpi info: what this installation is

  oxmpi info               version, directory, interface
  oxmpi info --params      all parameters: value, where it comes from, type, default, level, help
  oxmpi info --param NAME  one of them, or all whose name starts with NAME
  oxmpi info --select      which modules would be used (transport, collectives), step by step, and why no other; with
                           --ranks N for a job of N ranks (one for each processor, two at least)
  oxmpi info --mca NAME VALUE
                           as with this parameter of mpirun (also -ssi, --gmca), beside the others
  oxmpi info --pvars       the performance variables that a tool can read (MPI_T_pvar_*)
  oxmpi info --events      the events that a tool can receive (MPI_T_event_*)
  oxmpi info --categories  the groups of these and of the parameters (MPI_T_category_*)
  oxmpi info --collectives the algorithms of the collectives, which coll_tuned_COLLECTIVE_algorithm may name; with
                           --parsable a line collective:id:name:restrictions:description for each
  oxmpi info --ofi         the providers of libfabric on this machine, and how a job would use them (--mca mtl ofi)
  oxmpi info --missing     the functions of MPI-5.0 that are not there yet
  oxmpi info --checkpoint SET
                           what a set of 'oxmpi checkpoint' is, and whether it is whole (--quick: by lengths alone)
  oxmpi info --all         all of that about the installation
  oxmpi info --json        all of that as JSON; with one of the others, that alone

Parameters are set by, strongest first:
  mpirun --mca NAME VALUE            (also -ssi, --gmca)
  mpirun --tune FILE, --am FILE      lines NAME = VALUE, '--mca NAME VALUE', '-x NAME=VALUE'
  OXMPI_MCA_NAME=VALUE               in the environment
  OMPI_MCA_NAME=VALUE                in the environment, for names that OxMPI knows
  ~/.oxmpi/mca-params.conf           lines of the form NAME = VALUE
  PREFIX/etc/oxmpi-mca-params.conf   the same, for all users
OXMPI_PARAM_FILES=FILE:FILE names other files, OXMPI_PARAM_FILES=none reads none.
";

/// The sections to show, by the command line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct InfoOptions {
    basic: bool,
    params: bool,
    /// The prefix of the names of the parameters to show.
    only: Option<String>,
    /// Settings as by an option of mpirun: the option, name and value.
    settings: Vec<(String, String, String)>,
    select: bool,
    /// The ranks of the job for which modules are selected.
    ranks: Option<u32>,
    pvars: bool,
    events: bool,
    categories: bool,
    collectives: bool,
    missing: bool,
    /// Transports whose survey of this machine is shown.
    surveys: Vec<&'static Module>,
    parsable: bool,
    json: bool,
}

impl InfoOptions {
    fn ranks(&self) -> u32 {
        let processors = || std::thread::available_parallelism().map_or(2, |many| many.get().max(2));
        self.ranks.unwrap_or_else(|| u32::try_from(processors()).unwrap_or(u32::MAX))
    }

    /// All sections, and the other options as they are.
    fn with_all_sections(self) -> InfoOptions {
        let yes = true;
        InfoOptions {
            basic: yes,
            params: yes,
            select: yes,
            pvars: yes,
            events: yes,
            categories: yes,
            collectives: yes,
            missing: yes,
            ..self
        }
    }

    fn has_no_section(&self) -> bool {
        !(self.basic || self.params || self.select || self.missing || self.collectives)
            && !(self.pvars || self.events || self.categories)
            && self.surveys.is_empty()
    }
}

struct InfoFacts {
    prefix: Option<String>,
    found: Found,
    params: Vec<&'static Param>,
    surveys: Vec<(&'static Module, Result<Survey, String>)>,
}

/// Runs `oxmpi info ARGS`. Returns 1 if a parameter is set wrong.
pub(crate) fn main(args: &[OsString]) -> i32 {
    let words: Vec<String> = args.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    if words.iter().any(|w| w.starts_with(checkpoint::INFO_OPTION)) {
        return checkpoint::info(args);
    }
    if words.iter().any(|w| w == "--help" || w == "-h") {
        crate::say(HELP);
        return 0;
    }
    let options = match parse(&words) {
        Ok(options) => options,
        Err(text) => {
            oxmpi_sys::complain!("oxmpi info: {text}");
            return 2;
        }
    };
    let params = match chosen(options.only.as_deref()) {
        Ok(params) => params,
        Err(text) => {
            oxmpi_sys::complain!("oxmpi info: {text}");
            return 2;
        }
    };
    let directory = prefix::find();
    let mut found = Found::gather(std::env::vars_os(), directory.as_deref());
    for (option, name, value) in &options.settings {
        found.say(name, value, Source::CommandLine(format!("{option} {name} {value}")));
    }
    let survey = |module: &&'static Module| Some((*module, survey::survey(module, &found.params)?));
    let surveys = options.surveys.iter().filter_map(survey).collect();
    let facts = InfoFacts { prefix: directory.map(|p| p.display().to_string()), found, params, surveys };
    crate::say(&if options.json { json::json(&options, &facts) } else { text::text(&options, &facts) });
    for no_effect in &facts.found.no_effect {
        oxmpi_sys::complain!("oxmpi info: warning: {no_effect}");
    }
    for unread in &facts.found.unread {
        oxmpi_sys::complain!("oxmpi info: warning: {unread}: it is left out");
    }
    for error in &facts.found.errors {
        oxmpi_sys::complain!("oxmpi info: {error}");
    }
    let refused = options.select.then(|| selected(&facts.found.params, options.ranks).err()).flatten();
    if let Some(error) = &refused {
        oxmpi_sys::complain!("oxmpi info: {error}");
    }
    let is_of_use = |found: &Result<Survey, String>| found.as_ref().is_ok_and(|found| found.choice.is_ok());
    let nothing_found = facts.surveys.iter().any(|(_, found)| !is_of_use(found));
    i32::from(!facts.found.errors.is_empty() || refused.is_some() || nothing_found)
}

/// The modules that a job of `ranks` processes would use. `None` stands for a job of several
/// processes.
fn selected(params: &Params, ranks: Option<u32>) -> Result<Decision, SelectError> {
    let no_sockets = network(params).err().map(|error| error.to_string());
    let no_daemons = no_sockets.clone().filter(|_| params.mpi_virtual_nodes() > 1);
    let nodes = NodeCount::virtual_ones(params, ranks);
    params.select(&Job { ranks, no_daemons, no_sockets, nodes }, ThreadLevel::Single)
}

fn parse(words: &[String]) -> Result<InfoOptions, String> {
    let mut options = InfoOptions::default();
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--all" | "-a" => options = options.with_all_sections(),
            "--params" => options.params = true,
            "--param" => {
                options.params = true;
                options.only = Some(words.next().ok_or("--param needs a name after it")?.to_string());
            }
            "--select" => options.select = true,
            "--mca" | "-mca" | "--ssi" | "-ssi" | "--gmca" | "-gmca" => {
                let mut next = |what| words.next().ok_or(format!("{word} needs {what} after it"));
                let (name, value) = (next("NAME VALUE")?, next("VALUE")?);
                options.settings.push((word.to_string(), name.to_string(), value.to_string()));
            }
            "--ranks" => {
                let number = words.next().ok_or("--ranks needs a number after it")?;
                let ranks = number.parse().ok().filter(|ranks| (1..=i32::MAX as u32).contains(ranks));
                let wrong = || format!("--ranks {number}: expected a whole number from 1 to {}", i32::MAX);
                options.ranks = Some(ranks.ok_or_else(wrong)?);
            }
            "--pvars" => options.pvars = true,
            "--events" => options.events = true,
            "--categories" => options.categories = true,
            "--collectives" => options.collectives = true,
            "--parsable" => options.parsable = true,
            "--missing" => options.missing = true,
            "--json" => options.json = true,
            other if survey::named_by(other).is_some() => options.surveys.extend(survey::named_by(other)),
            other => {
                let surveys = survey::options();
                let known = [
                    "--all",
                    "--params",
                    "--param",
                    "--select",
                    "--mca",
                    "--ranks",
                    "--pvars",
                    "--events",
                    "--categories",
                    "--collectives",
                    "--parsable",
                    "--missing",
                    "--json",
                    checkpoint::INFO_OPTION,
                    "--help",
                ];
                let known = known.into_iter().chain(surveys.iter().map(String::as_str));
                let hint = nearest(other, known).map(|n| format!("; did you mean '{n}'?"));
                let hint = hint.unwrap_or_default();
                return Err(format!("unknown word '{other}'{hint} ('oxmpi info --help' lists all)"));
            }
        }
    }
    let is_alone =
        InfoOptions { collectives: false, ..options.clone() }.has_no_section() && options.collectives;
    if options.parsable && (options.json || !is_alone) {
        return Err("--parsable goes with --collectives alone ('--json' gives all in one form)".to_string());
    }
    if options.ranks.is_some() && !options.select && !options.has_no_section() {
        return Err("--ranks goes with --select".to_string());
    }
    if options.ranks.is_some() {
        options.select = true;
    }
    if options.has_no_section() {
        options.basic = true;
        if options.json {
            options = options.with_all_sections();
        }
    }
    Ok(options)
}

/// The parameter of this name, or all whose names begin with it. `None` stands for all parameters.
fn chosen(name: Option<&str>) -> Result<Vec<&'static Param>, String> {
    let Some(name) = name else { return Ok(Param::all().to_vec()) };
    if let Some(param) = Param::find(name) {
        return Ok(vec![param]);
    }
    let family: Vec<_> = Param::all().iter().copied().filter(|p| p.name.starts_with(name)).collect();
    if !family.is_empty() {
        return Ok(family);
    }
    // The parameter set makes the error message.
    match oxmpi_param::Params::default().set(name, "") {
        Err(error) => Err(error.to_string()),
        Ok(()) => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<InfoOptions, String> {
        parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_words_add_up() {
        let all = InfoOptions::default().with_all_sections();
        assert!(options("--collectives --parsable").unwrap().parsable);
        assert!(options("--parsable").unwrap_err().contains("goes with --collectives alone"));
        assert!(options("--collectives --params --parsable").is_err());
        assert!(options("--collectives --json --parsable").is_err());
        assert_eq!(options("").unwrap(), InfoOptions { basic: true, ..InfoOptions::default() });
        assert_eq!(options("--all").unwrap(), all);
        assert_eq!(options("--json").unwrap(), InfoOptions { json: true, ..all.clone() });
        assert_eq!(options("--json --all").unwrap(), InfoOptions { json: true, ..all });
        let only = InfoOptions { params: true, only: Some("rpi".into()), ..InfoOptions::default() };
        assert_eq!(options("--param rpi").unwrap(), only);
        assert_eq!(options("--pvars").unwrap(), InfoOptions { pvars: true, ..InfoOptions::default() });
        assert!(options("--event").unwrap_err().contains("did you mean '--events'"));
        assert!(options("--parms").unwrap_err().contains("did you mean '--params'"));
        assert!(options("--param").unwrap_err().contains("needs a name"));
        let settings = options("--select -ssi rpi tcp --mca coll basic").unwrap();
        let of = |option: &str, name: &str, value: &str| (option.into(), name.into(), value.into());
        assert_eq!(settings.settings, [of("-ssi", "rpi", "tcp"), of("--mca", "coll", "basic")]);
        assert!(settings.select && options("--mca rpi tcp").unwrap().basic);
        assert!(options("--mca rpi").unwrap_err().contains("--mca needs VALUE after it"));
    }

    #[test]
    fn a_name_chooses_one_parameter_or_a_family() {
        let names = |name| chosen(name).unwrap().iter().map(|p| p.name).collect::<Vec<_>>();
        assert_eq!(names(Some("rpi")), ["rpi"]);
        assert_eq!(names(Some("shm_single_copy")), ["single_copy"]);
        assert_eq!(names(Some("btl_tcp_")), ["btl_tcp_if_include", "btl_tcp_if_exclude"]);
        assert_eq!(names(None).len(), Param::all().len());
        assert!(chosen(Some("rip")).unwrap_err().contains("did you mean 'rpi'"));
    }
}
