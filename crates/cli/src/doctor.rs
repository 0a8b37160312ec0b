//! `oxmpi doctor`: checks this machine as a job would use it, and recommends remedies.

mod machine;
mod measure;
mod others;
mod probe;

use oxmpi_core::copy_costs;
use oxmpi_fabric::{Constructor, Survey};
use oxmpi_launcher::launch::network;
use oxmpi_param::{Accelerator, Found, Job, Module, NodeCount, Params, ThreadLevel};
use oxmpi_sys::net;
use serde_json::{Value, json};

use crate::command::{Stop, failed};
use crate::info::survey;
use crate::prefix;

/// Check this machine as a job would use it, and recommend remedies
///
/// Checked are memory, single copy between processes, costs of copies, networks, limits, control
/// group, cores, clocks, other MPI libraries and parameters. The exit code is 1 if something keeps
/// jobs from running as they should (PROBLEM), or nothing was measured.
#[derive(Debug, clap::Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON instead of a line for each finding
    #[arg(long)]
    json: bool,
    /// Measure the costs of copies between two processes, and write them to a file
    ///
    /// The measurement takes some tens of milliseconds on two idle processors. The file is the one
    /// that shm_copy_costs names, ~/.oxmpi/copy-costs.conf unless set. From then on jobs choose by
    /// its figures how messages go through shared memory ('oxmpi explain copy'), instead of by the
    /// built-in figures for the processor. The file holds for this processor and this kernel;
    /// remove it to go back. Figures that are not 0.3 to 3 times the built-in ones, or of a busy
    /// machine, are not written.
    #[arg(long, conflicts_with = "json")]
    measure: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Good,
    /// Slower or smaller than it could be, or worth knowing.
    Note,
    /// Jobs fail, or use something other than intended.
    Problem,
}

#[derive(Clone, Debug)]
struct Finding {
    area: &'static str,
    severity: Severity,
    text: String,
    remedy: Option<String>,
}

fn good(area: &'static str, text: impl Into<String>) -> Finding {
    Finding { area, severity: Severity::Good, text: text.into(), remedy: None }
}

fn note(area: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { area, severity: Severity::Note, text: text.into(), remedy: Some(remedy.into()) }
}

fn problem(area: &'static str, text: impl Into<String>, remedy: impl Into<String>) -> Finding {
    Finding { area, severity: Severity::Problem, text: text.into(), remedy: Some(remedy.into()) }
}

impl Severity {
    fn word(self) -> &'static str {
        match self {
            Severity::Good => "good",
            Severity::Note => "note",
            Severity::Problem => "PROBLEM",
        }
    }
}

pub(crate) fn main(args: &DoctorArgs) -> Result<i32, Stop> {
    if args.measure {
        let measured = measure::measure();
        let text = measured.map_err(|error| failed(format!("nothing was written: {error}")))?;
        crate::say(&text);
        return Ok(0);
    }
    let found = all();
    crate::say(&if args.json { as_json(&found) } else { as_text(&found) });
    Ok(i32::from(found.iter().any(|one| one.severity == Severity::Problem)))
}

/// Runs the second process of a check or of the measurement. Returns `None` for other words.
pub(crate) fn internal(words: &[&str]) -> Option<i32> {
    match *words {
        [probe::SHOWS] => Some(probe::show()),
        [probe::READS, pid, address, word] => Some(probe::read(pid, address, word)),
        [measure::kernel::COPIES, processor, pid, address] => {
            Some(measure::kernel::other(processor, pid, address))
        }
        _ => None,
    }
}

/// The source of the copy costs by which shared memory chooses its protocol.
fn copies(params: &Params) -> Finding {
    let costs = copy_costs::find(params);
    match (costs.file, costs.unused) {
        (Some(file), Some(error)) => note(
            "copies",
            format!("{} is not used: {error}", file.display()),
            "'oxmpi doctor --measure' writes it anew; or remove it",
        ),
        (Some(file), None) => {
            good("copies", format!("messages go by measured copy costs: {}", file.display()))
        }
        (None, _) => good(
            "copies",
            format!(
                "messages go by the built-in copy costs of {}; 'oxmpi doctor --measure' measures those of this machine",
                costs.facts.of
            ),
        ),
    }
}

fn surveyed(module: &'static Module, params: &Params) -> Option<Finding> {
    let remedy = || {
        format!(
            "for jobs over '{}' alone; 'oxmpi info --{}' has the details",
            module.name, module.name
        )
    };
    Some(match survey::survey(module, params)? {
        Ok(Survey { title, choice: Ok(choice), .. }) => {
            good(module.name, format!("{title}: {choice}"))
        }
        Ok(Survey { title, choice: Err(why), .. }) => {
            note(module.name, format!("{title}: {why}"), remedy())
        }
        Err(why) => note(module.name, why, remedy()),
    })
}

/// Reports on a library that can serve collectives: the file `name`, and the result of the search.
fn library(
    component: &'static str,
    name: &str,
    found: Result<String, String>,
    is_enabled: bool,
) -> Finding {
    let switch = format!("coll_{component}_enable");
    match (found, is_enabled) {
        (Ok(found), true) => good(component, format!("{found}: collectives may be handed to it")),
        (Ok(found), false) => good(component, format!("{found}: not used, as {switch} is 0")),
        (Err(_), false) => {
            good(component, format!("there is no library '{name}', and {switch} is 0"))
        }
        (Err(why), true) => {
            let remedy =
                format!("or leave {switch} at 0: our own components serve all collectives");
            note(component, why, remedy)
        }
    }
}

fn ucc(params: &Params) -> Finding {
    let name = params.coll_ucc_library();
    library("ucc", name, oxmpi_core::find_ucc(name), params.coll_ucc_enable())
}

fn hcoll(params: &Params) -> Finding {
    let name = params.coll_hcoll_library();
    library("hcoll", name, oxmpi_core::find_hcoll(name), params.coll_hcoll_enable())
}

fn accelerator(params: &Params) -> Finding {
    let name = params.accelerator_cuda_library();
    match (oxmpi_core::find_cuda(name), params.accelerator()) {
        (Ok(found), Accelerator::Auto) => good(
            "accelerator",
            format!("{found}: for programs that have loaded it, as accelerator is 'auto'"),
        ),
        (Ok(found), Accelerator::Cuda) => {
            good("accelerator", format!("{found}: loaded in each program"))
        }
        (Ok(found), Accelerator::Null) => good(
            "accelerator",
            format!(
                "{found}: not used, as accelerator is 'null'; buffers on a device are MPI_ERR_BUFFER"
            ),
        ),
        (Ok(found), Accelerator::Off) => good(
            "accelerator",
            format!(
                "{found}: not used, as accelerator is 'off'; buffers on a device end the program with a signal"
            ),
        ),
        (Err(why), Accelerator::Cuda) => note(
            "accelerator",
            why,
            "or leave the parameter accelerator at 'auto': then jobs without a device run",
        ),
        (Err(_), _) if oxmpi_core::has_device() => note(
            "accelerator",
            format!("this machine has a device, and no library '{name}' for it"),
            "install the library of the driver, or name its file by accelerator_cuda_library",
        ),
        (Err(_), _) => good("accelerator", format!("there is no library '{name}', and no device")),
    }
}

fn all() -> Vec<Finding> {
    let mut found = vec![machine::memory(), probe::single_copy()];
    let directory = prefix::find();
    let given = Found::gather(std::env::vars_os(), directory.as_deref());
    found.push(match network(&given.params) {
        Ok(there) => {
            let all = net::interfaces().unwrap_or_default();
            let others: Vec<String> = all
                .iter()
                .filter(|other| (&other.name, other.address) != (&there.name, there.address))
                .map(|other| format!("{} ({})", other.name, other.address))
                .collect();
            let others = match others.is_empty() {
                true => "there is no other interface".to_string(),
                false => format!("there are also {}", others.join(", ")),
            };
            let text = format!(
                "sockets would use {} ({}) on this host; {others}",
                there.name, there.address
            );
            good("networks", text)
        }
        Err(error) => problem(
            "networks",
            error.to_string(),
            "change btl_tcp_if_include or btl_tcp_if_exclude; jobs in shared memory run anyway",
        ),
    });
    found.extend(Module::all().iter().filter_map(|module| surveyed(module, &given.params)));
    found.push(ucc(&given.params));
    found.push(hcoll(&given.params));
    found.push(accelerator(&given.params));
    found.push(copies(&given.params));
    let suits = |module: &&Module| {
        Constructor::of(module).is_some_and(|made| (made.suits_hosts)(&given.params).is_some())
    };
    found.extend(machine::limits(Module::all().iter().any(suits)));
    found.extend(machine::cores());
    found.push(machine::clock());
    found.extend(others::programs(directory.as_deref()));
    found.extend(others::libraries(directory.as_deref()));
    found.extend(
        given
            .errors
            .iter()
            .map(|error| problem("parameters", error.to_string(), "correct it, or leave it out")),
    );
    found.extend(given.unread.iter().map(|unread| {
        note(
            "parameters",
            format!("{unread}: it is left out"),
            "make it readable, or set HOME to a directory of this user",
        )
    }));
    let no_sockets = network(&given.params).err().map(|error| error.to_string());
    let nodes = NodeCount::virtual_ones(&given.params, None);
    let job = Job { no_sockets, nodes, ..Job::default() };
    found.push(match given.params.select(&job, ThreadLevel::Single) {
        Ok(chosen) => good("selection", format!("messages go by rpi {}", chosen.rpi)),
        Err(error) => problem(
            "selection",
            error.to_string(),
            "'oxmpi info --params' shows where parameters come from",
        ),
    });
    found
}

fn as_text(found: &[Finding]) -> String {
    let mut out = String::new();
    for one in found {
        out += &format!("{:<8} {:<14} {}\n", one.severity.word(), one.area, one.text);
        if let Some(remedy) = &one.remedy {
            out += &format!("{:<8} {:<14} -> {remedy}\n", "", "");
        }
    }
    let problems = found.iter().filter(|one| one.severity == Severity::Problem).count();
    out += &match problems {
        0 => "nothing keeps jobs from running\n".to_string(),
        1 => "1 problem\n".to_string(),
        n => format!("{n} problems\n"),
    };
    out
}

fn as_json(found: &[Finding]) -> String {
    let one = |one: &Finding| json!({ "area": one.area, "severity": one.severity.word().to_lowercase(), "text": one.text, "remedy": one.remedy });
    let all: Vec<Value> = found.iter().map(one).collect();
    format!("{:#}\n", json!({ "findings": all }))
}
