//! The command `oxmpi tune`.

use crate::calls::{Cell, Variant};
use crate::campaign::{Campaign, CampaignSettings};
use crate::comparison::Outcome;
use crate::job::MeasuringJob;
use crate::options::{Simulation, TuneArgs, TuneOptions, options};
use crate::picture::{bytes_text, draw};
use crate::simulate::outcome;
use crate::state::{self, Resumed};
use crate::winner::{Winner, rules, winner};
use oxmpi_param::file::read_at_most;
use oxmpi_tuned::Rules;
use oxmpi_tuned::write::Version;
use std::fmt::Write as _;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use oxmpi_sys::stdio;

/// Runs `oxmpi tune` with these arguments and returns its exit code: 1 after a failure, 2 for wrong
/// arguments.
pub fn main(args: &TuneArgs) -> i32 {
    let processors = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
    let options = match options(args, processors) {
        Ok(options) => options,
        Err(text) => {
            oxmpi_sys::complain!("oxmpi tune: {text}");
            return 2;
        }
    };
    match tune(&options) {
        Ok(text) => {
            stdio::say(text.as_bytes());
            0
        }
        Err(text) => {
            oxmpi_sys::complain!("oxmpi tune: {text}");
            1
        }
    }
}

fn tune(options: &TuneOptions) -> Result<String, String> {
    // Check the output files first: measuring takes minutes.
    let mut written: Vec<&Path> = Vec::new();
    let state = (options.simulated.is_none()).then(|| state_of(options));
    let all = [Some(&options.out), options.svg.as_ref(), state.as_ref()];
    for file in all.into_iter().flatten() {
        if written.iter().any(|other| is_same(other, file)) {
            return Err(format!("{}: two outputs have the same file name", file.display()));
        }
        written.push(file);
    }
    for file in [Some(&options.out), options.svg.as_ref()].into_iter().flatten() {
        check_writable(file, options.force)?;
    }
    let (outcomes, heading, state) = match &options.simulated {
        Some(simulated) => (simulate(options, simulated), simulated_heading(simulated), None),
        None => {
            let (outcomes, state) = measure(options)?;
            (outcomes, "fastest algorithms, measured".to_string(), Some(state))
        }
    };
    let rules = rules(&options.out.display().to_string(), &outcomes);
    let winners: Vec<Winner> =
        outcomes.iter().filter_map(|outcome| winner(outcome, |_| true)).collect();
    write_file(&options.out, &text_of(&rules, &options.out)?)?;
    if let Some(svg) = &options.svg {
        write_file(svg, &draw(&heading, &winners))?;
    }
    // The state is removed last: after a failure above, '--resume' uses it.
    if let Some(state) = state.filter(|state| state.is_default) {
        fs::remove_file(&state.path)
            .map_err(|error| format!("{}: {error}", state.path.display()))?;
    }
    Ok(summary(options, &rules, &winners))
}

fn simulated_heading(simulated: &Simulation) -> String {
    let Simulation { nodes, machine, .. } = simulated;
    format!("fastest algorithms by the model, {nodes} nodes of {} ranks", machine.ranks_per_node)
}

fn text_of(rules: &Rules, file: &Path) -> Result<String, String> {
    match file.extension().is_some_and(|extension| extension == "json") {
        true => Ok(rules.to_json()),
        false => rules.to_classic(Version::Two).map_err(|error| error.to_string()),
    }
}

fn check_writable(file: &Path, force: bool) -> Result<(), String> {
    if file.is_dir() {
        return Err(format!("{}: it is a directory", file.display()));
    }
    if file.exists() && !force {
        return Err(format!("{}: the file exists (--force overwrites it)", file.display()));
    }
    let partial = partial_of(file);
    let made = File::create(&partial);
    made.map_err(|error| format!("{}: cannot be written: {error}", file.display()))?;
    fs::remove_file(&partial).map_err(|error| format!("{}: {error}", partial.display()))
}

/// Whether two names denote the same file; neither file has to exist.
fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |file: &Path| {
        let directory =
            file.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let named = directory
            .canonicalize()
            .ok()
            .zip(file.file_name())
            .map(|(directory, name)| directory.join(name));
        file.canonicalize().ok().or(named)
    };
    one == other || whole(one).is_some_and(|one| whole(other) == Some(one))
}

fn partial_of(file: &Path) -> PathBuf {
    with_suffix(file, &format!(".partial-{}", std::process::id()))
}

fn with_suffix(file: &Path, suffix: &str) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn write_file(file: &Path, text: &str) -> Result<(), String> {
    let partial = partial_of(file);
    let written = fs::write(&partial, text).and_then(|()| fs::rename(&partial, file));
    written.map_err(|error| {
        // The partial file does not exist if fs::write failed to create it.
        let _ = fs::remove_file(&partial);
        format!("{}: cannot be written: {error}", file.display())
    })
}

fn simulate(options: &TuneOptions, simulated: &Simulation) -> Vec<Outcome> {
    let cells = options.settings.cells();
    let mut progress = ProgressDisplay::new(cells.len());
    let one = |(at, cell): (usize, &Cell)| {
        progress.show(at, cell, None);
        outcome(&simulated.machine, cell, simulated.walked_ranks)
    };
    cells.iter().enumerate().map(one).collect()
}

struct StateFile {
    path: PathBuf,
    file: File,
    /// Whether the file is removed at the end: the user has not named it.
    is_default: bool,
}

fn measure(options: &TuneOptions) -> Result<(Vec<Outcome>, StateFile), String> {
    let oxmpi = oxmpi_sys::library::program()
        .map_err(|error| format!("cannot find this program: {error}"))?;
    let (settings, mut campaign, mut state) = match &options.resume {
        Some(path) => resume(path, options)?,
        None => (options.settings.clone(), Campaign::new(&options.settings), begin(options)?),
    };
    oxmpi_sys::complain!(
        "oxmpi tune: all measurements go to {0}; after Ctrl-C, '--resume {0}' continues",
        state.path.display()
    );
    let measured = measure_all(&settings, &oxmpi, &mut campaign, &mut state);
    measured.map_err(|text| {
        format!(
            "{text}; the measurements are in {0}, '--resume {0}' continues",
            state.path.display()
        )
    })?;
    Ok((campaign.outcomes().to_vec(), state))
}

fn state_of(options: &TuneOptions) -> PathBuf {
    options
        .resume
        .as_ref()
        .or(options.state.as_ref())
        .cloned()
        .unwrap_or_else(|| default_state(options))
}

fn default_state(options: &TuneOptions) -> PathBuf {
    with_suffix(&options.out, ".state")
}

fn lock(file: &File, path: &Path) -> Result<(), String> {
    file.try_lock().map_err(|error| match error {
        TryLockError::WouldBlock => {
            format!("{}: another run of oxmpi tune is writing it", path.display())
        }
        TryLockError::Error(error) => format!("{}: cannot be locked: {error}", path.display()),
    })
}

fn begin(options: &TuneOptions) -> Result<StateFile, String> {
    let path = state_of(options);
    let file = OpenOptions::new().write(true).create_new(true).open(&path);
    let mut file = file.map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => {
            format!(
                "{0}: an interrupted run left this file: continue it with '--resume {0}', or remove it",
                path.display()
            )
        }
        _ => format!("{}: cannot be written: {error}", path.display()),
    })?;
    lock(&file, &path)?;
    let head = state::head(&options.settings);
    file.write_all(head.as_bytes())
        .map_err(|error| format!("{}: cannot be written: {error}", path.display()))?;
    Ok(StateFile { path, file, is_default: options.state.is_none() })
}

fn resume(
    path: &Path,
    options: &TuneOptions,
) -> Result<(CampaignSettings, Campaign, StateFile), String> {
    let named = |error: std::io::Error| format!("{}: {error}", path.display());
    let file = OpenOptions::new().read(true).append(true).open(path).map_err(named)?;
    lock(&file, path)?;
    let bytes = read_at_most(&file, MAX_STATE_BYTES).map_err(named)?;
    let Resumed { settings, campaign, answers, good_bytes } =
        state::resume(&path.display().to_string(), &bytes).map_err(|error| error.to_string())?;
    file.set_len(good_bytes).map_err(named)?;
    let (done, all) = campaign.progress();
    oxmpi_sys::complain!(
        "oxmpi tune: resuming after {answers} measurements; {done} of {all} comparisons are complete"
    );
    let is_default = is_same(path, &default_state(options));
    Ok((settings, campaign, StateFile { path: path.to_path_buf(), file, is_default }))
}

fn measure_all(
    settings: &CampaignSettings,
    oxmpi: &Path,
    campaign: &mut Campaign,
    state: &mut StateFile,
) -> Result<(), String> {
    let mut job: Option<MeasuringJob> = None;
    let mut progress = ProgressDisplay::new(campaign.progress().1);
    while let Some(round) = campaign.next_round() {
        progress.show(campaign.progress().0, &round.cell, Some(campaign.left_seconds()));
        if job.as_ref().is_none_or(|job| job.ranks() != round.cell.ranks) {
            // The previous job ends first: both would share the processors.
            drop(job.take());
            let timeout_seconds = 120 + (campaign.left_seconds() * 4.0) as u64;
            job =
                Some(MeasuringJob::start(oxmpi, round.cell.ranks, &settings.mca, timeout_seconds)?);
        }
        let Some(job) = &mut job else { break };
        let answer = job.answer(&round)?;
        let line = state::answered(&round, &answer);
        if !campaign.take(&answer) {
            return Err(format!("the answer of the job does not fit the request: {answer:?}"));
        }
        let written = state.file.write_all(line.as_bytes());
        written.map_err(|error| format!("{}: cannot be written: {error}", state.path.display()))?;
    }
    Ok(())
}

/// A bar on a terminal, otherwise a line for each comparison; both on the standard error output.
struct ProgressDisplay {
    all: usize,
    last: Option<Cell>,
    is_terminal: bool,
}

impl ProgressDisplay {
    fn new(all: usize) -> ProgressDisplay {
        ProgressDisplay { all, last: None, is_terminal: std::io::stderr().is_terminal() }
    }

    fn show(&mut self, done: usize, cell: &Cell, left_seconds: Option<f64>) {
        if self.last.replace(*cell) == Some(*cell) {
            return;
        }
        let left = left_seconds
            .map(|seconds| format!(", at most {:.0} s to go", seconds.ceil()))
            .unwrap_or_default();
        let text = format!("{done}/{}: {cell}{left}", self.all);
        // Standard error may be closed.
        let _ = match self.is_terminal {
            true => write!(std::io::stderr(), "\r\x1b[K[{}] {text}", bar(done, self.all)),
            // A simulation takes seconds and prints no lines.
            false if left_seconds.is_none() => Ok(()),
            false => writeln!(std::io::stderr(), "{text}"),
        };
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        if self.is_terminal {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

fn bar(done: usize, all: usize) -> String {
    let full = done * 24 / all.max(1);
    format!("{}{}", "#".repeat(full), ".".repeat(24 - full.min(24)))
}

fn summary(options: &TuneOptions, rules: &Rules, winners: &[Winner]) -> String {
    let mut out = String::new();
    let faster: Vec<&Winner> =
        winners.iter().filter(|winner| winner.variant != Variant::FIXED).collect();
    for winner in &faster {
        let row = winner.algorithm().algorithm();
        let gain = winner.fixed_ns / winner.best_ns.max(1e-3);
        let tuning = tuning_text(&winner.variant);
        let _ = writeln!(
            out,
            "{:<22} {:>8} ranks {:>10}: {} {}{tuning}, {gain:.2} times as fast",
            winner.cell.collective.name(),
            winner.cell.ranks,
            bytes_text(winner.cell.bytes),
            row.number,
            row.name,
        );
    }
    let how_many: usize = rules.collectives.iter().flatten().map(|comm| comm.messages.len()).sum();
    let _ = writeln!(
        out,
        "{} of {} calls have a better algorithm than the fixed choice: {how_many} rules in {}",
        faster.len(),
        winners.len(),
        options.out.display()
    );
    if how_many > 0 {
        let _ = writeln!(
            out,
            "use them: mpirun --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename {} ...",
            options.out.display()
        );
    }
    out
}

/// The longest state file, in bytes: many times the length of the longest campaign.
const MAX_STATE_BYTES: u64 = 256 << 20;

fn tuning_text(variant: &Variant) -> String {
    let tuning = variant.tuning;
    let parts = [
        ("segments of", tuning.segment_bytes),
        ("fan-out", u64::from(tuning.fan_out)),
        ("requests", u64::from(tuning.max_requests)),
    ];
    parts
        .iter()
        .filter(|(_, value)| *value > 0)
        .map(|(name, value)| format!(", {name} {value}"))
        .collect()
}
