//! `oxmpi info`: the facts about this installation, and its parameters.

mod allocation;
mod json;
mod launched_by;
pub(crate) mod survey;
mod text;
mod tools;
mod world;

use std::path::PathBuf;

use oxmpi_fabric::Survey;
use oxmpi_launcher::launch::network;
use oxmpi_param::Param;
use oxmpi_param::{
    Found, Job, Module, ModuleSelection, NodeCount, Params, SelectError, Source, ThreadLevel,
};

use crate::checkpoint;
use crate::command::{Settings, Stop, usage, within};
use crate::prefix;

/// Print the facts about this installation, and its parameters
///
/// Without an option: version, directory, interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
#[command(group(clap::ArgGroup::new("section").multiple(true)))]
#[command(after_long_help = "\
Parameters are set by, strongest first:
  mpirun --mca NAME VALUE            (also -ssi, --gmca)
  mpirun --tune FILE, --am FILE      lines NAME = VALUE, '--mca NAME VALUE', '-x NAME=VALUE'
  OXMPI_MCA_NAME=VALUE               in the environment
  OMPI_MCA_NAME=VALUE                in the environment, for names that OxMPI knows
  ~/.oxmpi/mca-params.conf           lines of the form NAME = VALUE
  PREFIX/etc/oxmpi-mca-params.conf   the same, for all users
OXMPI_PARAM_FILES=FILE:FILE names other files, OXMPI_PARAM_FILES=none reads none.")]
pub(crate) struct InfoArgs {
    /// All sections about the installation
    #[arg(short, long, group = "section")]
    all: bool,
    /// All parameters: value, source, type, default, level, help
    #[arg(long, group = "section")]
    params: bool,
    /// The parameter of this name, or all whose names start with it
    #[arg(long = "param", value_name = "NAME", group = "section")]
    only: Option<String>,
    /// The modules that a job would use (transport, collectives), step by step, and why no other
    #[arg(long, group = "section")]
    select: bool,
    /// With --select: for a job with this number of ranks (one for each processor, at least two)
    #[arg(long, value_name = "N", value_parser = ranks)]
    ranks: Option<u32>,
    /// The performance variables that a tool can read (MPI_T_pvar_*)
    #[arg(long, group = "section")]
    pvars: bool,
    /// The events that a tool can receive (MPI_T_event_*)
    #[arg(long, group = "section")]
    events: bool,
    /// The groups of variables, events and parameters (MPI_T_category_*)
    #[arg(long, group = "section")]
    categories: bool,
    /// The algorithms of the collectives, which coll_tuned_COLLECTIVE_algorithm may name
    #[arg(long, group = "section")]
    collectives: bool,
    /// With --collectives: lines collective:id:name:restrictions:description
    #[arg(long, conflicts_with = "json")]
    parsable: bool,
    /// The adapters of InfiniBand and RoCE on this machine, and how a job would use them
    #[arg(long, group = "section")]
    ib: bool,
    /// The same for the providers of libfabric
    #[arg(long, group = "section")]
    ofi: bool,
    /// The same for the ports of GM
    #[arg(long, group = "section")]
    gm: bool,
    /// The same for the interfaces of Portals 4
    #[arg(long, group = "section")]
    portals4: bool,
    /// The launcher that has started this command as one of several processes, and all of them
    #[arg(long, conflicts_with_all = ["section", "ranks", "parsable", "json", "checkpoint"])]
    launched_by: bool,
    /// The allocation of Slurm in which this command runs: its nodes and slots, and the srun by
    /// which mpirun starts its agents
    #[arg(long, conflicts_with_all = ["section", "ranks", "parsable", "json", "checkpoint", "launched_by"])]
    allocation: bool,
    /// A set of 'oxmpi checkpoint': its job, and whether it is whole
    #[arg(long, value_name = "SET", conflicts_with_all = ["section", "ranks", "parsable", "json"])]
    checkpoint: Option<PathBuf>,
    /// With --checkpoint: compare only the lengths of its files, not their checksums
    #[arg(long, requires = "checkpoint")]
    quick: bool,
    #[command(flatten)]
    settings: Settings,
    /// JSON: of the named sections, or of all
    #[arg(long)]
    json: bool,
    #[arg(skip)]
    basic: bool,
}

fn ranks(text: &str) -> Result<u32, String> {
    within(text, 1..=i32::MAX as u64).map(|ranks| ranks as u32)
}

impl InfoArgs {
    fn ranks(&self) -> u32 {
        let processors =
            || std::thread::available_parallelism().map_or(2, |many| many.get().max(2));
        self.ranks.unwrap_or_else(|| u32::try_from(processors()).unwrap_or(u32::MAX))
    }

    /// Selects all sections; the other options stay.
    fn with_all_sections(self) -> InfoArgs {
        let yes = true;
        InfoArgs {
            basic: yes,
            params: yes,
            select: yes,
            pvars: yes,
            events: yes,
            categories: yes,
            collectives: yes,
            ..self
        }
    }

    fn has_no_section(&self) -> bool {
        !(self.basic || self.params || self.select || self.collectives)
            && !(self.pvars || self.events || self.categories)
            && self.surveys().next().is_none()
    }

    fn surveys(&self) -> impl Iterator<Item = &'static Module> {
        let all =
            [("ib", self.ib), ("ofi", self.ofi), ("gm", self.gm), ("portals4", self.portals4)];
        all.into_iter()
            .filter(|(_, is_wanted)| *is_wanted)
            .filter_map(|(name, _)| Module::named(name))
    }

    fn completed(mut self) -> Result<InfoArgs, Stop> {
        self.params |= self.only.is_some();
        let is_alone =
            InfoArgs { collectives: false, ..self.clone() }.has_no_section() && self.collectives;
        if self.parsable && (self.all || !is_alone) {
            let text = "--parsable goes with --collectives alone ('--json' gives all in one form)";
            return Err(usage(text));
        }
        if self.ranks.is_some() && !self.select && !self.has_no_section() {
            return Err(usage("--ranks goes with --select"));
        }
        self.select |= self.ranks.is_some();
        if self.all || self.json && self.has_no_section() {
            return Ok(self.with_all_sections());
        }
        self.basic = self.has_no_section();
        Ok(self)
    }
}

struct InfoFacts {
    prefix: Option<String>,
    found: Found,
    params: Vec<&'static Param>,
    surveys: Vec<(&'static Module, Result<Survey, String>)>,
}

/// Runs `oxmpi info`. Returns 1 if a parameter is set wrong.
pub(crate) fn main(args: &InfoArgs) -> Result<i32, Stop> {
    if let Some(set) = &args.checkpoint {
        return checkpoint::info(set, !args.quick);
    }
    let options = args.clone().completed()?;
    let params = chosen(options.only.as_deref()).map_err(usage)?;
    let directory = prefix::find();
    let mut found = Found::gather(std::env::vars_os(), directory.as_deref());
    for (name, value) in options.settings.pairs() {
        found.set_strongest(name, value, Source::CommandLine(format!("--mca {name} {value}")));
    }
    if args.launched_by {
        return launched_by::main(&found.params);
    }
    if args.allocation {
        return allocation::main(&found.params);
    }
    let survey = |module: &'static Module| Some((module, survey::survey(module, &found.params)?));
    let surveys = options.surveys().filter_map(survey).collect();
    let facts =
        InfoFacts { prefix: directory.map(|p| p.display().to_string()), found, params, surveys };
    crate::say(&if options.json {
        json::json(&options, &facts)
    } else {
        text::text(&options, &facts)
    });
    for no_effect in &facts.found.no_effect {
        oxmpi_sys::complain!("oxmpi info: warning: {no_effect}");
    }
    for unread in &facts.found.unread {
        oxmpi_sys::complain!("oxmpi info: warning: {unread}: it is left out");
    }
    for error in &facts.found.errors {
        oxmpi_sys::complain!("oxmpi info: {error}");
    }
    let refused =
        options.select.then(|| selected(&facts.found.params, options.ranks).err()).flatten();
    if let Some(error) = &refused {
        oxmpi_sys::complain!("oxmpi info: {error}");
    }
    let is_of_use =
        |found: &Result<Survey, String>| found.as_ref().is_ok_and(|found| found.choice.is_ok());
    let nothing_found = facts.surveys.iter().any(|(_, found)| !is_of_use(found));
    Ok(i32::from(!facts.found.errors.is_empty() || refused.is_some() || nothing_found))
}

/// The modules that a job of `ranks` processes would use. `None` stands for a job of several
/// processes.
fn selected(params: &Params, ranks: Option<u32>) -> Result<ModuleSelection, SelectError> {
    let no_sockets = network(params).err().map(|error| error.to_string());
    let no_daemons = no_sockets.clone().filter(|_| params.mpi_virtual_nodes() > 1);
    let nodes = NodeCount::virtual_ones(params, ranks);
    params.select(&Job { ranks, no_daemons, no_sockets, nodes }, ThreadLevel::Single)
}

/// The parameter of this name, or all whose names begin with it. `None` stands for all parameters.
fn chosen(name: Option<&str>) -> Result<Vec<&'static Param>, String> {
    let Some(name) = name else { return Ok(Param::all().to_vec()) };
    if let Some(param) = Param::find(name) {
        return Ok(vec![param]);
    }
    let family: Vec<_> =
        Param::all().iter().copied().filter(|p| p.name.starts_with(name)).collect();
    if !family.is_empty() {
        return Ok(family);
    }
    // Setting it makes the error message.
    match oxmpi_param::Params::default().set(name, "") {
        Err(error) => Err(error.to_string()),
        Ok(()) => Ok(Vec::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(line: &str) -> Result<InfoArgs, String> {
        let words: Vec<_> =
            ["info"].into_iter().chain(line.split_whitespace()).map(Into::into).collect();
        match crate::command::parse::<crate::Oxmpi>(&words).map_err(|error| error.to_string())?.verb
        {
            crate::Verb::Info(args) => args.completed().map_err(|Stop(text, _)| text),
            other => Err(format!("{other:?}")),
        }
    }

    #[test]
    fn the_words_add_up() {
        let all = InfoArgs::default().with_all_sections();
        assert!(options("--collectives --parsable").unwrap().parsable);
        assert!(options("--parsable").unwrap_err().contains("goes with --collectives alone"));
        assert!(options("--collectives --params --parsable").is_err());
        assert!(options("--collectives --json --parsable").is_err());
        assert_eq!(options("").unwrap(), InfoArgs { basic: true, ..InfoArgs::default() });
        assert_eq!(options("--all").unwrap(), InfoArgs { all: true, ..all.clone() });
        assert_eq!(options("--json").unwrap(), InfoArgs { json: true, ..all });
        let only = InfoArgs { params: true, only: Some("rpi".into()), ..InfoArgs::default() };
        assert_eq!(options("--param rpi").unwrap(), only);
        assert_eq!(options("--pvars").unwrap(), InfoArgs { pvars: true, ..InfoArgs::default() });
        let settings = options("--select -ssi rpi tcp --mca coll basic").unwrap();
        assert_eq!(
            settings.settings.pairs().collect::<Vec<_>>(),
            [("rpi", "tcp"), ("coll", "basic")]
        );
        assert!(settings.select && options("--mca rpi tcp").unwrap().basic);
        assert!(
            options("--checkpoint set --quick").is_ok()
                && options("--checkpoint set --all").is_err()
        );
    }

    #[test]
    fn surveys_have_options() {
        let chosen = options("--ib --ofi --gm --portals4").unwrap();
        let mut chosen: Vec<_> = chosen.surveys().map(|module| module.name).collect();
        let mut surveyed = survey::names();
        chosen.sort_unstable();
        surveyed.sort_unstable();
        assert_eq!(chosen, surveyed);
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
