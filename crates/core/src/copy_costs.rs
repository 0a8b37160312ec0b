//! The copy costs of this machine, built in for its processor or read from a file of `oxmpi doctor
//! --measure`, which has the form of a parameter file:
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
//! A file with an error, or of another processor or kernel, is not used, but never ends a job.

use oxmpi_fabric::shm::copy_policy::CopyFacts;
use oxmpi_param::{Params, file};
use oxmpi_sys::{hardware, host};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

/// The path of the file below the home directory.
pub const COSTS_FILE: &str = ".oxmpi/copy-costs.conf";
/// The largest size of the file, in bytes.
pub const MAX_BYTES: usize = 16 << 10;
/// The allowed ratio of a measured figure to the built-in figure. Outside it, the measurement is
/// wrong.
pub const PLAUSIBLE: std::ops::RangeInclusive<f64> = 0.3..=3.0;

const MOST_NS: f64 = 1e9;

/// The copy costs, and their file.
#[derive(Clone, Debug, PartialEq)]
pub struct CopyCosts {
    pub facts: CopyFacts,
    /// The file that exists or that the parameter names.
    pub file: Option<PathBuf>,
    pub unused: Option<CostsError>,
    is_named: bool,
}

impl CopyCosts {
    /// The launcher's warning about a wrong file; `None` for a file of another machine.
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

/// The machine of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Platform {
    pub vendor: String,
    pub family: u32,
    pub model: u32,
    pub kernel: String,
}

impl Platform {
    /// The platform of this process.
    pub fn here() -> Platform {
        let kernel = host::kernel_release();
        match hardware::processor() {
            Some(hardware::Processor { vendor, family, model }) => {
                Platform { vendor, family, model, kernel }
            }
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

/// The reason why a file is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CostsError {
    Unreadable(String),
    Line { line: usize, error: String },
    Missing(&'static str),
    Elsewhere { measured: Platform, here: Platform },
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

/// The figures of a file, without [`CopyFacts::past_caches_one_way_ns`] and [`CopyFacts::pull_ns`].
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

/// The file for a value of the parameter `shm_copy_costs`.
pub fn path(value: &str, home: Option<OsString>) -> Option<PathBuf> {
    match value {
        "none" => None,
        "" => home.filter(|home| !home.is_empty()).map(|home| Path::new(&home).join(COSTS_FILE)),
        named => Some(PathBuf::from(named)),
    }
}

/// The copy costs for a process with these parameters.
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

fn of_here(measured: Platform, facts: CopyFacts) -> Result<CopyFacts, CostsError> {
    let here = Platform::here();
    if measured == here { Ok(facts) } else { Err(CostsError::Elsewhere { measured, here }) }
}

/// Parses a file.
pub fn parse(bytes: &[u8]) -> Result<(Platform, CopyFacts), CostsError> {
    if bytes.len() > MAX_BYTES {
        let error = format!("it has more than {MAX_BYTES} bytes, which is the limit");
        return Err(CostsError::Unreadable(error));
    }
    let mut platform =
        Platform { vendor: String::new(), family: 0, model: 0, kernel: String::new() };
    let mut facts = CopyFacts::built_in("", 0);
    let mut missing: BTreeSet<&str> = names().collect();
    for (line, said) in file::lines(bytes) {
        let wrong = |error: String| CostsError::Line { line, error };
        let said = said.map_err(|it| wrong(it.error.to_string()))?;
        let (name, value) = (&*said.name, &*said.value);
        if !missing.remove(name) {
            let known = names().any(|one| one == name);
            let error = if known {
                "there are two of this name"
            } else {
                "there is no figure of this name"
            };
            return Err(wrong(format!("'{name}': {error}")));
        }
        let taken = take(&mut platform, &mut facts, name, value);
        taken.map_err(|expected| wrong(format!("'{name}': '{value}' is not {expected}")))?;
    }
    if let Some(name) = names().find(|name| missing.contains(name)) {
        return Err(CostsError::Missing(name));
    }
    let Platform { vendor, family, model, .. } = &platform;
    // These two figures are not measured.
    let CopyFacts { past_caches_one_way_ns, pull_ns, .. } = CopyFacts::built_in(vendor, *family);
    (facts.past_caches_one_way_ns, facts.pull_ns) = (past_caches_one_way_ns, pull_ns);
    facts.of = format!("{vendor} family {family} model {model}, measured").into();
    Ok((platform, facts))
}

fn take(
    platform: &mut Platform,
    facts: &mut CopyFacts,
    name: &str,
    value: &str,
) -> Result<(), &'static str> {
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
            figures(facts)
                .into_iter()
                .filter(|(one, _)| *one == name)
                .for_each(|(_, figure)| *figure = cost);
        }
    }
    Ok(())
}

fn names() -> impl Iterator<Item = &'static str> {
    let figures = figures(&mut CopyFacts::built_in("", 0)).map(|(name, _)| name);
    ["vendor", "family", "model", "kernel"].into_iter().chain(figures)
}

/// The text of a file. `not_measured` names figures that have built-in values.
pub fn render(platform: &Platform, facts: &CopyFacts, not_measured: &[&str]) -> String {
    let Platform { vendor, family, model, kernel } = platform;
    let mut text = format!(
        "# Copy costs of this machine, from 'oxmpi doctor --measure': nanoseconds, or nanoseconds for each KiB of a copy.\n\
         vendor = \"{vendor}\"\nfamily = {family}\nmodel = {model}\nkernel = \"{kernel}\"\n"
    );
    for (name, figure) in figures(&mut facts.clone()) {
        let note = if not_measured.contains(&name) { "  # not measured" } else { "" };
        text += &format!("{name} = {figure:.1}{note}\n");
    }
    text
}

/// Describes each measured figure outside [`PLAUSIBLE`].
pub fn implausible(measured: &CopyFacts, built_in: &CopyFacts) -> Vec<String> {
    let (mut measured, mut expected) = (measured.clone(), built_in.clone());
    let pairs = figures(&mut measured).into_iter().zip(figures(&mut expected));
    let wrong = pairs.filter(|((_, is), (_, of))| !PLAUSIBLE.contains(&(**is / **of)));
    wrong
        .map(|((name, is), (_, of))| format!("{name}: {is:.1} measured, {of:.1} built in"))
        .collect()
}

#[cfg(test)]
mod tests;
