//! `ompi_info` and `laminfo`: the facts of `oxmpi info`, with the options and the output of the
//! commands of these names in Open MPI and LAM/MPI.

use std::ffi::OsString;

use oxmpi_param::module::{BtlRule, Module};
use oxmpi_param::select::modules::Job;
use oxmpi_param::select::{Framework, ModuleRow};
use oxmpi_param::{Found, Params, ThreadLevel, Unit};
use oxmpi_param::{Level, Param};

use crate::command::{did_you_mean, read, within};
use crate::prefix;

pub(crate) const NAMES: [&str; 2] = ["ompi_info", "laminfo"];

/// Print the facts about this installation of OxMPI in the words of Open MPI and LAM/MPI
///
/// One dash is as good as two. 'oxmpi info --help' has more.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Parser)]
#[command(name = "ompi_info", max_term_width = 100, args_override_self = true)]
pub(crate) struct ListOptions {
    /// Everything
    #[arg(short, long)]
    all: bool,
    /// Lines with colons, for programs
    #[arg(long, alias = "parseable")]
    parsable: bool,
    /// The version
    #[arg(short = 'V', long)]
    version: bool,
    /// Parameters up to this level: 1 to 3 for users, to 6 for tuning, to 9 all (without it 1, and
    /// 9 with --all)
    #[arg(long, value_name = "N", value_parser = |text: &str| within(text, 1..=9))]
    level: Option<u64>,
    /// The parameters of a module; 'all' for any: --param btl tcp, --param all all
    #[arg(long, alias = "params", num_args = 2, value_names = ["FRAMEWORK", "COMPONENT"])]
    #[arg(action = clap::ArgAction::Append)]
    param: Vec<String>,
}

impl ListOptions {
    fn params(&self) -> impl Iterator<Item = (&str, &str)> {
        self.param.chunks_exact(2).map(|pair| (pair[0].as_str(), pair[1].as_str()))
    }
}

type Component = (&'static str, &'static str);

/// The components of parameters that belong to no transport, by the beginnings of their names. The
/// first match counts.
const COMPONENTS: &[(&str, &[Component])] = &[
    ("btl_tcp_", &[("btl", "tcp"), ("rpi", "tcp")]),
    ("shm_", &[("rpi", "shm"), ("btl", "sm")]),
    ("single_copy", &[("rpi", "shm"), ("btl", "sm")]),
    ("cr_blcr_", &[("cr", "blcr")]),
    ("cr_self_", &[("cr", "self")]),
    ("cr", &[("cr", "base")]),
    ("coll_tuned_", &[("coll", "tuned")]),
    ("coll_", &[("coll", "base")]),
    ("rpi", &[("rpi", "base")]),
    ("btl", &[("btl", "base")]),
    ("mtl", &[("mtl", "base")]),
    ("pml", &[("pml", "base")]),
    ("", &[("mpi", "base")]),
];

fn components(param: &Param) -> Vec<Component> {
    if let Some(module) = Module::of_param(param) {
        return components_of(module);
    }
    let found = COMPONENTS.iter().find(|(start, _)| param.name.starts_with(start));
    found.map_or(Vec::new(), |(_, components)| components.to_vec())
}

/// The components of a transport's parameters: its own, and the one of Open MPI.
fn components_of(module: &'static Module) -> Vec<Component> {
    let btl = module.btl.names.first().filter(|_| module.btl.left == BtlRule::Always);
    [("rpi", module.name)].into_iter().chain(btl.map(|name| ("btl", *name))).collect()
}

pub(crate) fn main(name: &str, args: &[OsString]) -> i32 {
    let options: ListOptions = match read(name, args) {
        Ok(options) => options,
        Err(code) => return code,
    };
    if let Err(text) = check(&options) {
        oxmpi_sys::complain!("{name}: {text} ('{name} --help' explains)");
        return 2;
    }
    let found = Found::gather(std::env::vars_os(), prefix::find().as_deref());
    crate::say(&answer(&options, &found.params));
    found
        .unread
        .iter()
        .for_each(|unread| oxmpi_sys::complain!("{name}: warning: {unread}: it is left out"));
    found.errors.iter().for_each(|error| oxmpi_sys::complain!("{name}: {error}"));
    i32::from(!found.errors.is_empty())
}

fn check(options: &ListOptions) -> Result<(), String> {
    let all: Vec<Component> = {
        let others = COMPONENTS.iter().flat_map(|(_, components)| *components).copied();
        Module::all().iter().flat_map(|module| components_of(module)).chain(others).collect()
    };
    for (framework, component) in options.params() {
        if framework != "all" && !all.iter().any(|(known, _)| *known == framework) {
            return Err(unknown("framework", framework, all.iter().map(|(known, _)| *known)));
        }
        let inside = all.iter().filter(|(known, _)| framework == "all" || *known == framework);
        let mut components = inside.map(|(_, component)| *component);
        if component != "all" && !components.clone().any(|known| known == component) {
            return Err(unknown(
                &format!("component of '{framework}'"),
                component,
                &mut components,
            ));
        }
    }
    Ok(())
}

fn unknown(what: &str, word: &str, known: impl Iterator<Item = &'static str>) -> String {
    let mut known: Vec<&str> = known.chain(["all"]).collect();
    known.sort_unstable();
    known.dedup();
    let hint = did_you_mean(word, known.iter().copied());
    format!("there is no {what} '{word}'{hint} (there are {})", known.join(", "))
}

fn answer(options: &ListOptions, params: &Params) -> String {
    const VERSION: &str = env!("CARGO_PKG_VERSION");
    let is_basic = options.all || (options.param.is_empty() && !options.version);
    let mut out = String::new();
    if options.version || is_basic {
        out += &match options.parsable {
            true => format!("ompi:version:full:{VERSION}\n"),
            false if is_basic => line("OxMPI", VERSION),
            false => format!("OxMPI v{VERSION}\n"),
        };
    }
    if is_basic {
        out += &basic(options.parsable, params);
    }
    let limit = options.level.unwrap_or(if options.all { 9 } else { 1 });
    let wanted: Vec<(&str, &str)> = match options.all && options.param.is_empty() {
        true => vec![("all", "all")],
        false => options.params().collect(),
    };
    let mut hidden = 0;
    for param in Param::all() {
        let is_wanted = |(framework, component): &Component| {
            let is = |wanted: &str, name: &str| wanted == "all" || wanted == name;
            wanted.iter().any(|(f, c)| is(f, framework) && is(c, component))
        };
        let Some(place) = components(param).into_iter().find(|place| is_wanted(place)) else {
            continue;
        };
        if u64::from(level(param.level).0) > limit {
            hidden += 1;
        } else {
            out += &if options.parsable {
                parsable(place, param, params)
            } else {
                pretty(place, param, params)
            };
        }
    }
    if hidden > 0 && !options.parsable {
        out += &line("", &format!("({hidden} more with --level 9)"));
    }
    out
}

fn basic(is_parsable: bool, params: &Params) -> String {
    let prefix =
        prefix::find().map_or("not installed".into(), |prefix| prefix.display().to_string());
    let facts = [
        ("Prefix", "path:prefix", prefix.as_str()),
        ("MPI API", "ompi:mpi:version", "5.0"),
        ("Thread support", "threads", "MPI_THREAD_MULTIPLE"),
    ];
    let mut out = String::new();
    for (name, key, value) in facts {
        out += &if is_parsable { format!("{key}:{value}\n") } else { line(name, value) };
    }
    for row in params.modules(&Job::default()) {
        let (framework, name, priority) = (row.framework.name(), row.name, row.priority);
        out += &match is_parsable {
            true => format!(
                "mca:{framework}:{name}:version:{}\nmca:{framework}:{name}:checkpoint_restart:{}\n",
                env!("CARGO_PKG_VERSION"),
                checkpoints(&row)
            ),
            false => {
                let levels = format!("{} to {}", ThreadLevel::name(row.lowest), row.highest);
                let text = format!(
                    "{name} (priority {priority}, {levels}, checkpoint/restart: {})",
                    checkpoints(&row)
                );
                line(&format!("MCA {framework}"), &text)
            }
        };
    }
    out
}

/// The part of a module in checkpoints, as in the guide's summary of each module.
fn checkpoints(row: &ModuleRow) -> &'static str {
    match (row.framework, row.checkpoints) {
        (Framework::Rpi, false) if Module::named(row.name).is_some_and(|module| !module.images) => {
            "no"
        }
        // An image of all processes contains these modules too.
        (Framework::Between, _) | (_, false) => "whole jobs on one host",
        (_, true) => "yes",
    }
}

fn line(name: &str, text: &str) -> String {
    let colon = if name.is_empty() { ' ' } else { ':' };
    format!("{name:>22}{colon} {text}\n")
}

/// The level as one of Open MPI's nine, and its name.
fn level(level: Level) -> (u8, &'static str) {
    match level {
        Level::User => (1, "user/basic"),
        Level::Tune => (4, "tuner/basic"),
        Level::Develop => (7, "dev/basic"),
    }
}

fn kind(param: &Param) -> &'static str {
    match param.unit {
        Unit::Text { .. } | Unit::Choice(_) | Unit::Set { .. } => "string",
        Unit::Switch => "bool",
        Unit::Bytes => "size_t",
        Unit::Count | Unit::Micros => "int",
    }
}

fn pretty((framework, component): Component, param: &Param, params: &Params) -> String {
    let (number, name) = level(param.level);
    let mut out = line(
        &format!("MCA {framework} {component}"),
        &format!(
            "parameter \"{}\" (current value: \"{}\", data source: {}, level: {number} {name}, type: {})",
            param.name,
            param.show(&params.value(param)),
            params.source(param),
            kind(param)
        ),
    );
    out += &line("", param.help);
    if !param.words().is_empty() {
        out += &line("", &format!("Valid values: {}", param.words().join(", ")));
    }
    out
}

fn parsable((framework, component): Component, param: &Param, params: &Params) -> String {
    let start = format!("mca:{framework}:{component}:param:{}", param.name);
    let (number, _) = level(param.level);
    let status =
        if param.change == oxmpi_param::ChangeRule::Never { "read-only" } else { "writeable" };
    let mut out = format!(
        "{start}:value:{}\n{start}:source:{}\n{start}:status:{status}\n{start}:level:{number}\n{start}:help:{}\n",
        escaped(&param.show(&params.value(param))),
        escaped(&params.source(param).to_string()),
        escaped(param.help)
    );
    let words = match param.unit {
        Unit::Choice(words) | Unit::Set { words, .. } => words,
        Unit::Switch => &["false", "true"],
        _ => &[],
    };
    for (at, word) in words.iter().enumerate() {
        out += &format!("{start}:enumerator:value:{at}:{word}\n");
    }
    out += &format!("{start}:deprecated:no\n{start}:type:{}\n", kind(param));
    param.aliases.iter().for_each(|alias| out += &format!("{start}:synonym:name:{alias}\n"));
    out
}

/// Quotes a field with a colon, as Open MPI does.
fn escaped(text: &str) -> String {
    if text.contains(':') { format!("\"{}\"", text.replace('"', "\\\"")) } else { text.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<ListOptions, String> {
        let words: Vec<_> = line.split_whitespace().map(Into::into).collect();
        let options: ListOptions =
            crate::command::parse(&words).map_err(|error| error.to_string())?;
        check(&options).map(|()| options)
    }

    fn output(line: &str) -> String {
        answer(&parsed(line).unwrap(), &Params::default())
    }

    #[test]
    fn parameters_are_found_by_framework_component_and_level() {
        let text = output("--param btl tcp");
        assert!(text.contains(
            "MCA btl tcp: parameter \"btl_tcp_if_include\" (current value: \"\", data source: default,"
        ));
        assert!(
            text.contains("parameter \"rpi_tcp_priority\"") && !text.contains("\"rpi_tcp_short\""),
            "{text}"
        );
        assert!(text.contains("more with --level 9)"), "{text}");
        assert!(output("-param rpi tcp --level 9").contains("level: 4 tuner/basic, type: size_t"));
        let count = |text: &str| text.matches("\nmca:").count() + 1;
        let all = output("--param all all --level 9 --parsable");
        assert!(count(&all) > 6 * Param::all().len(), "{}", count(&all));
        assert!(all.contains("mca:rpi:base:param:rpi:enumerator:value:1:tcp\n"), "{all}");
        assert!(
            all.contains("param:mpi_abort_on_non_zero_status:enumerator:value:1:true\n"),
            "{all}"
        );
        assert!(all.contains("mca:rpi:shm:param:single_copy:synonym:name:shm_single_copy\n"));
        for param in Param::all() {
            assert!(all.contains(&format!(":param:{}:value:", param.name)), "{}", param.name);
        }
    }

    #[test]
    fn other_options_print_and_wrong_words_are_refused() {
        assert_eq!(output("--version"), concat!("OxMPI v", env!("CARGO_PKG_VERSION"), "\n"));
        let levels = "MPI_THREAD_SINGLE to MPI_THREAD_MULTIPLE, checkpoint/restart";
        let line = format!("MCA rpi: shm (priority 60, {levels}: whole jobs on one host)\n");
        assert!(output("").contains(&line));
        assert!(output("-parsable").contains("mca:rpi:crtcp:checkpoint_restart:yes\n"));
        assert!(output("-a").contains("parameter \"wait_yields\""));
        assert!(output("-parseable").contains("mca:rpi:tcp:version:"));
        for (line, text) in [
            ("--param btl", "--param needs 2 values after it"),
            ("--param blt tcp", "no framework 'blt'; did you mean 'btl'?"),
            (
                "--param btl tpc",
                "no component of 'btl' 'tpc'; did you mean 'tcp'? (there are all, base, sm, tcp)",
            ),
            ("--level 10", "--level 10: expected a whole number from 1 to 9"),
            ("--parm", "did you mean '--param'?"),
            ("btl", "unknown word 'btl'"),
        ] {
            assert!(parsed(line).unwrap_err().contains(text), "{line}: {:?}", parsed(line));
        }
    }
}
