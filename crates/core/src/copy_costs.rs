//! What copies cost on this machine: as built in for its processor, or as `oxmpi doctor --measure` has measured and written to a file.
//!
//! ```text
//! vendor = AuthenticAMD
//! family = 25
//! model = 17
//! kernel = 6.18.0
//! near_line_ns = 48.0
//! ...
//! ```
//!
//! All figures that are measured are there, each once, in the form of a parameter file. A file that is wrong, or of another processor or
//! kernel, is left out and never ends a job: `oxmpi explain copy` and `oxmpi doctor` say why. Each rank reads it, as each node has
//! its own; one failed call where there is none.

use oxmpi_fabric::shm::copy_policy::CopyFacts;
use oxmpi_param::{Params, file};
use oxmpi_sys::{hardware, host};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// The file, below the home directory.
pub const COSTS_FILE: &str = ".oxmpi/copy-costs.conf";
/// The most bytes that it may have.
pub const MAX_BYTES: usize = 16 << 10;
/// A measured figure must be that many times the one that is built in, or something else was measured.
pub const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.3..=3.0;

/// The longest time that a figure may say: a second.
const MOST_NS: f64 = 1e9;

/// What copies cost, and the file that says so, or should.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyCosts {
    /// What holds.
    pub facts: CopyFacts,
    /// The file that is there, or that the parameter names.
    pub file: Option<PathBuf>,
    /// Why it is not used.
    pub unused: Option<CostsError>,
    /// Whether the parameter names it.
    is_named: bool,
}

impl CopyCosts {
    /// What a launcher says of the file: that it is wrong. One of another machine is no fault of anybody, and a home directory that
    /// cannot be read has its own warning.
    pub fn complaint(&self) -> Option<String> {
        let (file, error) = (self.file.as_ref()?, self.unused.as_ref()?);
        let is_wrong = match error {
            CostsError::Line { .. } | CostsError::Missing(_) => true,
            CostsError::Unreadable(_) => self.is_named,
            CostsError::Elsewhere { .. } => false,
        };
        is_wrong.then(|| format!("{}: {error}", file.display()))
    }
}

/// Where something was measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    /// Who makes the processor.
    pub vendor: String,
    /// Its family.
    pub family: u32,
    /// Its model.
    pub model: u32,
    /// The release of the kernel.
    pub kernel: String,
}

impl Platform {
    /// This machine.
    pub fn here() -> Platform {
        let kernel = host::kernel_release();
        match hardware::processor() {
            Some(hardware::Processor { vendor, family, model }) => Platform { vendor, family, model, kernel },
            None => Platform { vendor: "unknown".into(), family: 0, model: 0, kernel },
        }
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Platform { vendor, family, model, kernel } = self;
        write!(f, "{vendor} family {family} model {model}, Linux {kernel}")
    }
}

/// Why a file is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostsError {
    /// It is not there, or cannot be read.
    Unreadable(String),
    /// A line is wrong.
    Line {
        /// Its number, counted from 1.
        line: usize,
        /// What is wrong.
        error: String,
    },
    /// No line has this name.
    Missing(&'static str),
    /// It is of another processor or kernel.
    Elsewhere {
        /// Where it was measured.
        measured: Platform,
        /// Where this process runs.
        here: Platform,
    },
}

impl fmt::Display for CostsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CostsError::Unreadable(error) => f.write_str(error),
            CostsError::Line { line, error } => write!(f, "line {line}: {error}"),
            CostsError::Missing(name) => write!(f, "no line says '{name}'"),
            CostsError::Elsewhere { measured, here } => {
                write!(f, "it was measured on {measured}, and this is {here}")
            }
        }
    }
}

/// The figures of a sheet by their names in a file, which does not say [`CopyFacts::past_caches_one_way_ns`]
/// and [`CopyFacts::pull_ns`].
pub fn figures(facts: &mut CopyFacts) -> [(&'static str, &mut f64); 14] {
    let (near, far, single) = (&mut facts.near, &mut facts.far, &mut facts.single_copy);
    [
        ("near_line_ns", &mut near.line_ns),
        ("near_in_ns", &mut near.in_ns),
        ("near_in_past_caches_ns", &mut near.in_past_caches_ns),
        ("near_out_ns", &mut near.out_ns),
        ("near_out_past_caches_ns", &mut near.out_past_caches_ns),
        ("far_line_ns", &mut far.line_ns),
        ("far_in_ns", &mut far.in_ns),
        ("far_in_past_caches_ns", &mut far.in_past_caches_ns),
        ("far_out_ns", &mut far.out_ns),
        ("far_out_past_caches_ns", &mut far.out_past_caches_ns),
        ("past_caches_ns", &mut facts.past_caches_ns),
        ("single_copy_call_ns", &mut single.call_ns),
        ("single_copy_alone_ns", &mut single.alone_ns),
        ("single_copy_both_ns", &mut single.both_ns),
    ]
}

/// The file that a value of `shm_copy_costs` means.
pub fn path(value: &str, home: Option<OsString>) -> Option<PathBuf> {
    match value {
        "none" => None,
        "" => home.filter(|home| !home.is_empty()).map(|home| Path::new(&home).join(COSTS_FILE)),
        named => Some(PathBuf::from(named)),
    }
}

/// What copies cost on this machine for a process with these parameters.
pub fn find(params: &Params) -> CopyCosts {
    let value = params.shm_copy_costs();
    find_at(path(value, std::env::var_os("HOME")), !value.is_empty())
}

fn find_at(path: Option<PathBuf>, is_named: bool) -> CopyCosts {
    let built_in = CopyCosts { facts: CopyFacts::here(), file: None, unused: None, is_named };
    let Some(path) = path else { return built_in };
    let read = match file::read(&path) {
        Ok(Some(bytes)) => parse(&bytes).and_then(|(measured, facts)| of_here(measured, facts)),
        Ok(None) if !is_named => return built_in,
        Ok(None) => Err(CostsError::Unreadable("there is no such file".into())),
        Err(error) => Err(CostsError::Unreadable(error.to_string())),
    };
    match read {
        Ok(facts) => CopyCosts { facts, file: Some(path), ..built_in },
        Err(error) => CopyCosts { file: Some(path), unused: Some(error), ..built_in },
    }
}

/// Facts that hold only where they were measured.
fn of_here(measured: Platform, facts: CopyFacts) -> Result<CopyFacts, CostsError> {
    let here = Platform::here();
    if measured == here { Ok(facts) } else { Err(CostsError::Elsewhere { measured, here }) }
}

/// Reads a file.
///
/// # Errors
/// The first line that is wrong, or a name that no line has.
pub fn parse(bytes: &[u8]) -> Result<(Platform, CopyFacts), CostsError> {
    if bytes.len() > MAX_BYTES {
        let error = format!("it has more than {MAX_BYTES} bytes, which is the limit");
        return Err(CostsError::Unreadable(error));
    }
    let mut platform = Platform { vendor: String::new(), family: 0, model: 0, kernel: String::new() };
    let mut facts = CopyFacts::built_in("", 0);
    let mut missing: BTreeSet<&str> = names().collect();
    for (line, said) in file::lines(bytes) {
        let wrong = |error: String| CostsError::Line { line, error };
        let said = said.map_err(|it| wrong(it.error.to_string()))?;
        let (name, value) = (&*said.name, &*said.value);
        if !missing.remove(name) {
            let known = names().any(|one| one == name);
            let error = if known { "there are two of this name" } else { "there is no figure of this name" };
            return Err(wrong(format!("'{name}': {error}")));
        }
        let taken = take(&mut platform, &mut facts, name, value);
        taken.map_err(|expected| wrong(format!("'{name}': '{value}' is not {expected}")))?;
    }
    if let Some(name) = names().find(|name| missing.contains(name)) {
        return Err(CostsError::Missing(name));
    }
    let Platform { vendor, family, model, .. } = &platform;
    // No program measures them.
    let CopyFacts { past_caches_one_way_ns, pull_ns, .. } = CopyFacts::built_in(vendor, *family);
    (facts.past_caches_one_way_ns, facts.pull_ns) = (past_caches_one_way_ns, pull_ns);
    facts.of = format!("{vendor} family {family} model {model}, measured").into();
    Ok((platform, facts))
}

/// Takes one value; the error is what was expected.
fn take(platform: &mut Platform, facts: &mut CopyFacts, name: &str, value: &str) -> Result<(), &'static str> {
    let number = || value.parse::<u32>().map_err(|_| "a number");
    let is_text = !value.is_empty() && !value.contains('"');
    let text = || if is_text { Ok(value.to_owned()) } else { Err("a text without quotes") };
    match name {
        "vendor" => platform.vendor = text()?,
        "family" => platform.family = number()?,
        "model" => platform.model = number()?,
        "kernel" => platform.kernel = text()?,
        _ => {
            let cost = value.parse().ok().filter(|cost| (0.0..=MOST_NS).contains(cost));
            let cost = cost.ok_or("a number of nanoseconds from 0 to 1000000000")?;
            figures(facts).into_iter().filter(|(one, _)| *one == name).for_each(|(_, figure)| *figure = cost);
        }
    }
    Ok(())
}

/// All names, in the order of a file.
fn names() -> impl Iterator<Item = &'static str> {
    let figures = figures(&mut CopyFacts::built_in("", 0)).map(|(name, _)| name);
    ["vendor", "family", "model", "kernel"].into_iter().chain(figures)
}

/// The text of a file. `not_measured` are figures that are those of the sheet.
pub fn render(platform: &Platform, facts: &CopyFacts, not_measured: &[&str]) -> String {
    let Platform { vendor, family, model, kernel } = platform;
    let mut text = format!(
        "# What copies cost on one machine, nanoseconds, and for each KiB where a length counts: 'oxmpi doctor --measure'.\n\
         vendor = \"{vendor}\"\nfamily = {family}\nmodel = {model}\nkernel = \"{kernel}\"\n"
    );
    for (name, figure) in figures(&mut facts.clone()) {
        let note = if not_measured.contains(&name) { "  # not measured" } else { "" };
        text += &format!("{name} = {figure:.1}{note}\n");
    }
    text
}

/// What is wrong with figures that were measured: each that is not [`PLAUSIBLE`] times the one that is built in.
pub fn implausible(measured: &CopyFacts, built_in: &CopyFacts) -> Vec<String> {
    let (mut measured, mut expected) = (measured.clone(), built_in.clone());
    let pairs = figures(&mut measured).into_iter().zip(figures(&mut expected));
    let wrong = pairs.filter(|((_, is), (_, of))| !PLAUSIBLE.contains(&(**is / **of)));
    wrong.map(|((name, is), (_, of))| format!("{name}: {is:.1} measured, {of:.1} built in")).collect()
}

#[cfg(test)]
mod tests;
