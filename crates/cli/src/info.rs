//! `oxmpi info`: what this installation is, and what its parameters are.

mod json;
pub(crate) mod survey;
mod text;
mod tools;
mod world;

use std::ffi::OsString;

use oxmpi_fabric::Survey;
use oxmpi_param::Param;
use oxmpi_param::nearest::nearest;
use oxmpi_param::{Found, Job, Module, ModuleSelection, NodeCount, Params, SelectError, Source, ThreadLevel};
use oxmpi_rt::launch::network;

use crate::checkpoint;
use crate::prefix;

/// The functions that the C library does not have yet, found in its sources when this program was built.
const MISSING: &[&str] = include!(concat!(env!("OUT_DIR"), "/missing.rs"));

pub(crate) const HELP: &str = "\
oxmpi info: what this installation is

  oxmpi info               version, directory, interface
  oxmpi info --params      all parameters: value, where it comes from, type, default, level, help
  oxmpi info --param NAME  one of them, or all whose name starts with NAME
  oxmpi info --select      which modules would be used (transport, collectives), step by step, and why no other; with
                           --ranks N for a job of so many (as many as processors, two at least)
  oxmpi info --mca NAME VALUE
                           as with this parameter of mpirun (also -ssi, --gmca), beside the others
  oxmpi info --pvars       the performance variables that a tool can read (MPI_T_pvar_*)
  oxmpi info --events      the events that a tool can hear of (MPI_T_event_*)
  oxmpi info --categories  what of these and of the parameters belongs together (MPI_T_category_*)
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

/// What to show.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Asked {
    basic: bool,
    params: bool,
    /// Only parameters whose name starts so.
    only: Option<String>,
    /// Parameters that are set as by an option of mpirun: the option, name and value.
    said: Vec<(String, String, String)>,
    select: bool,
    /// The ranks of the job for which modules are selected.
    ranks: Option<u32>,
    pvars: bool,
    events: bool,
    categories: bool,
    collectives: bool,
    missing: bool,
    /// Transports that say what they find on this machine.
    surveys: Vec<&'static Module>,
    /// Lines for programs instead of text.
    parsable: bool,
    json: bool,
}

impl Asked {
    /// The ranks of the job for which modules are selected.
    fn ranks(&self) -> u32 {
        let processors = || std::thread::available_parallelism().map_or(2, |many| many.get().max(2));
        self.ranks.unwrap_or_else(|| u32::try_from(processors()).unwrap_or(u32::MAX))
    }

    /// Everything.
    fn everything(self) -> Asked {
        let yes = true;
        Asked {
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

    fn nothing(&self) -> bool {
        !(self.basic || self.params || self.select || self.missing || self.collectives)
            && !(self.pvars || self.events || self.categories)
            && self.surveys.is_empty()
    }
}

/// What is shown, gathered.
struct Facts {
    prefix: Option<String>,
    found: Found,
    params: Vec<&'static Param>,
    /// What transports have found.
    surveys: Vec<(&'static Module, Result<Survey, String>)>,
}

/// Answers `oxmpi info ARGS` and returns the exit code: 1 if a parameter is set wrong.
pub(crate) fn main(args: &[OsString]) -> i32 {
    let words: Vec<String> = args.iter().map(|a| a.to_string_lossy().into_owned()).collect();
    if words.iter().any(|w| w.starts_with(checkpoint::INFO_OPTION)) {
        return checkpoint::info(args);
    }
    if words.iter().any(|w| w == "--help" || w == "-h") {
        crate::say(HELP);
        return 0;
    }
    let asked = match parse(&words) {
        Ok(asked) => asked,
        Err(text) => {
            oxmpi_sys::complain!("oxmpi info: {text}");
            return 2;
        }
    };
    let params = match chosen(asked.only.as_deref()) {
        Ok(params) => params,
        Err(text) => {
            oxmpi_sys::complain!("oxmpi info: {text}");
            return 2;
        }
    };
    let directory = prefix::find();
    let mut found = Found::gather(std::env::vars_os(), directory.as_deref());
    for (option, name, value) in &asked.said {
        found.set_strongest(name, value, Source::CommandLine(format!("{option} {name} {value}")));
    }
    let survey = |module: &&'static Module| Some((*module, survey::survey(module, &found.params)?));
    let surveys = asked.surveys.iter().filter_map(survey).collect();
    let facts = Facts { prefix: directory.map(|p| p.display().to_string()), found, params, surveys };
    crate::say(&if asked.json { json::json(&asked, &facts) } else { text::text(&asked, &facts) });
    for no_effect in &facts.found.no_effect {
        oxmpi_sys::complain!("oxmpi info: warning: {no_effect}");
    }
    for unread in &facts.found.unread {
        oxmpi_sys::complain!("oxmpi info: warning: {unread}: it is left out");
    }
    for error in &facts.found.errors {
        oxmpi_sys::complain!("oxmpi info: {error}");
    }
    let refused = asked.select.then(|| selected(&facts.found.params, asked.ranks).err()).flatten();
    if let Some(error) = &refused {
        oxmpi_sys::complain!("oxmpi info: {error}");
    }
    let is_of_use = |found: &Result<Survey, String>| found.as_ref().is_ok_and(|found| found.choice.is_ok());
    let nothing_found = facts.surveys.iter().any(|(_, found)| !is_of_use(found));
    i32::from(!facts.found.errors.is_empty() || refused.is_some() || nothing_found)
}

/// The modules that a job of so many processes would use; `None`: of several.
fn selected(params: &Params, ranks: Option<u32>) -> Result<ModuleSelection, SelectError> {
    let no_sockets = network(params).err().map(|error| error.to_string());
    let no_daemons = no_sockets.clone().filter(|_| params.mpi_virtual_nodes() > 1);
    let nodes = NodeCount::virtual_ones(params, ranks);
    params.select(&Job { ranks, no_daemons, no_sockets, nodes }, ThreadLevel::Single)
}

fn parse(words: &[String]) -> Result<Asked, String> {
    let mut asked = Asked::default();
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        match word {
            "--all" | "-a" => asked = asked.everything(),
            "--params" => asked.params = true,
            "--param" => {
                asked.params = true;
                asked.only = Some(words.next().ok_or("--param needs a name after it")?.to_string());
            }
            "--select" => asked.select = true,
            "--mca" | "-mca" | "--ssi" | "-ssi" | "--gmca" | "-gmca" => {
                let mut next = |what| words.next().ok_or(format!("{word} needs {what} after it"));
                let (name, value) = (next("NAME VALUE")?, next("VALUE")?);
                asked.said.push((word.to_string(), name.to_string(), value.to_string()));
            }
            "--ranks" => {
                let number = words.next().ok_or("--ranks needs a number after it")?;
                let ranks = number.parse().ok().filter(|ranks| (1..=i32::MAX as u32).contains(ranks));
                let wrong = || format!("--ranks {number}: expected a whole number from 1 to {}", i32::MAX);
                asked.ranks = Some(ranks.ok_or_else(wrong)?);
            }
            "--pvars" => asked.pvars = true,
            "--events" => asked.events = true,
            "--categories" => asked.categories = true,
            "--collectives" => asked.collectives = true,
            "--parsable" => asked.parsable = true,
            "--missing" => asked.missing = true,
            "--json" => asked.json = true,
            other if survey::asked_for(other).is_some() => asked.surveys.extend(survey::asked_for(other)),
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
    let is_alone = Asked { collectives: false, ..asked.clone() }.nothing() && asked.collectives;
    if asked.parsable && (asked.json || !is_alone) {
        return Err("--parsable goes with --collectives alone ('--json' gives all in one form)".to_string());
    }
    if asked.ranks.is_some() && !asked.select && !asked.nothing() {
        return Err("--ranks goes with --select".to_string());
    }
    if asked.ranks.is_some() {
        asked.select = true;
    }
    if asked.nothing() {
        asked.basic = true;
        if asked.json {
            asked = asked.everything();
        }
    }
    Ok(asked)
}

/// The parameter of this name, or those whose names start so; all without a name.
fn chosen(name: Option<&str>) -> Result<Vec<&'static Param>, String> {
    let Some(name) = name else { return Ok(Param::all().to_vec()) };
    if let Some(param) = Param::find(name) {
        return Ok(vec![param]);
    }
    let family: Vec<_> = Param::all().iter().copied().filter(|p| p.name.starts_with(name)).collect();
    if !family.is_empty() {
        return Ok(family);
    }
    // The parameter set has the words for this.
    match oxmpi_param::Params::default().set(name, "") {
        Err(error) => Err(error.to_string()),
        Ok(()) => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(line: &str) -> Result<Asked, String> {
        parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>())
    }

    #[test]
    fn the_words_add_up() {
        let all = Asked::default().everything();
        assert!(asked("--collectives --parsable").unwrap().parsable);
        assert!(asked("--parsable").unwrap_err().contains("goes with --collectives alone"));
        assert!(asked("--collectives --params --parsable").is_err());
        assert!(asked("--collectives --json --parsable").is_err());
        assert_eq!(asked("").unwrap(), Asked { basic: true, ..Asked::default() });
        assert_eq!(asked("--all").unwrap(), all);
        assert_eq!(asked("--json").unwrap(), Asked { json: true, ..all.clone() });
        assert_eq!(asked("--json --all").unwrap(), Asked { json: true, ..all });
        let only = Asked { params: true, only: Some("rpi".into()), ..Asked::default() };
        assert_eq!(asked("--param rpi").unwrap(), only);
        assert_eq!(asked("--pvars").unwrap(), Asked { pvars: true, ..Asked::default() });
        assert!(asked("--event").unwrap_err().contains("did you mean '--events'"));
        assert!(asked("--parms").unwrap_err().contains("did you mean '--params'"));
        assert!(asked("--param").unwrap_err().contains("needs a name"));
        let said = asked("--select -ssi rpi tcp --mca coll basic").unwrap();
        let of = |option: &str, name: &str, value: &str| (option.into(), name.into(), value.into());
        assert_eq!(said.said, [of("-ssi", "rpi", "tcp"), of("--mca", "coll", "basic")]);
        assert!(said.select && asked("--mca rpi tcp").unwrap().basic);
        assert!(asked("--mca rpi").unwrap_err().contains("--mca needs VALUE after it"));
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
