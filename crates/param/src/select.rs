//! The selection of a process's modules, in the eight steps of LAM/MPI's components guide ("MPI
//! Module Selection Process").
//!
//! [`decide`] is a pure function over rows: a module of a framework with its priority, its thread
//! levels, and the reasons why this job may not or cannot use it. [`modules`](mod@modules) makes
//! the rows of this program; those of transports come from [`Module`](crate::Module).

mod level;
pub mod modules;
mod transports;

pub use level::{LEVEL_VARIABLE, LevelError, ThreadLevel};
pub use modules::{Job, NodeCount};
pub use transports::SelectError;

use std::fmt;

/// A kind of modules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framework {
    /// Message transport. One module is selected.
    Rpi,
    /// Collective operations. Every remaining module may serve them.
    Coll,
    /// Checkpoint and restart. At most one module is selected.
    Cr,
    /// Transport between nodes, for a module of [`Framework::Rpi`] that stays in its node.
    Between,
}

impl Framework {
    /// The name in parameters.
    pub fn name(self) -> &'static str {
        match self {
            Framework::Rpi => "rpi",
            Framework::Coll => "coll",
            Framework::Cr => "cr",
            Framework::Between => "between nodes",
        }
    }
}

/// A module with the properties that its selection needs.
#[derive(Clone, Debug)]
pub struct ModuleRow {
    pub framework: Framework,
    pub name: &'static str,
    /// The highest priority wins; the first of equals.
    pub priority: u32,
    /// The lowest thread level at which it runs: a job at a lower level is raised to this one.
    pub lowest: ThreadLevel,
    pub highest: ThreadLevel,
    /// Whether it works with modules that write checkpoints.
    pub checkpoints: bool,
    /// The reason why the user's parameters exclude it.
    pub left_out: Option<String>,
    /// The reason why it cannot be used here.
    pub unavailable: Option<String>,
    /// The module of [`Framework::Between`] for other nodes; `None`: it carries them itself.
    pub between: Option<&'static str>,
}

/// The request of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionRequest {
    pub level: ThreadLevel,
    /// The source of the thread level, for the first step's text.
    pub by: String,
    pub cr: Option<&'static str>,
    /// The nodes of the job, if there are several: "2 virtual nodes".
    pub nodes: Option<String>,
}

/// The result of one of the eight steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionStep {
    /// From 1 to 8.
    pub number: u8,
    pub text: String,
    /// The dropped modules (framework and name), each with the reason.
    pub drops: Vec<(String, String)>,
}

impl fmt::Display for SelectionStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. {}", self.number, self.text)?;
        self.drops
            .iter()
            .try_for_each(|(module, reason)| write!(f, "\n   {module} is dropped: {reason}"))
    }
}

/// The selected modules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleSelection {
    pub level: ThreadLevel,
    pub rpi: &'static str,
    /// The module that carries messages between nodes, if it is another one and was not dropped.
    pub between: Option<&'static str>,
    /// The modules for collectives, by descending priority.
    pub coll: Vec<&'static str>,
    pub cr: Option<&'static str>,
    pub steps: Vec<SelectionStep>,
}

/// The error that no module of a framework can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NothingLeft {
    pub framework: Framework,
    pub steps: Vec<SelectionStep>,
    pub left_out: Vec<String>,
}

impl fmt::Display for NothingLeft {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, what) = match self.framework {
            Framework::Rpi => ("rpi", "carries the messages of this job"),
            Framework::Coll => ("coll", "serves the collectives of this job"),
            Framework::Cr => ("cr", "writes the requested checkpoints"),
            Framework::Between => {
                ("between nodes", "carries the messages of this job between nodes")
            }
        };
        write!(f, "no module of '{name}' {what}")?;
        let start = format!("{name} ");
        let drops =
            self.steps.iter().flat_map(|step| &step.drops).filter(|(m, _)| m.starts_with(&start));
        // The reasons of requested modules are shown, not that others were not requested.
        let all: Vec<_> = drops.collect();
        let requested: Vec<_> =
            all.iter().filter(|(module, _)| !self.left_out.contains(module)).collect();
        let shown = if requested.is_empty() { all.iter().collect() } else { requested };
        shown.into_iter().enumerate().try_for_each(|(i, (module, reason))| {
            write!(f, "{} {module}: {reason}", if i == 0 { ":" } else { ";" })
        })?;
        f.write_str(". 'oxmpi info --select' shows each step")
    }
}

impl std::error::Error for NothingLeft {}

struct SelectionState<'a> {
    request: &'a SelectionRequest,
    level: ThreadLevel,
    steps: Vec<SelectionStep>,
    left: Vec<&'a ModuleRow>,
    left_out: Vec<String>,
}

/// Selects among `rows` by the eight steps.
pub fn decide(
    rows: &[ModuleRow],
    request: &SelectionRequest,
) -> Result<ModuleSelection, NothingLeft> {
    let left_out = rows.iter().filter(|row| row.left_out.is_some()).map(ModuleRow::title).collect();
    let (steps, left) = (Vec::new(), rows.iter().collect());
    let mut state = SelectionState { request, level: request.level, steps, left, left_out };
    state.set_level();
    state.drop_if("what parameters leave out or what cannot be used here is dropped", |row| {
        row.dropped().or_else(|| row.misses_route(rows, request))
    });
    state.find_level()?;
    let (rpi, between) = state.select_rpi();
    let level = state.level;
    state.drop_if(
        "what cannot run at this thread level, or with the selected rpi, is dropped",
        |row| match row.framework {
            Framework::Rpi | Framework::Between => None,
            Framework::Coll => row.misses(level),
            Framework::Cr => row.misses(level).or_else(|| row.refused_as_cr(rpi, request)),
        },
    );
    let coll = state.list_coll()?;
    let cr = state.select_cr()?;
    Ok(ModuleSelection { level, rpi: rpi.name, between, coll, cr, steps: state.steps })
}

impl ModuleRow {
    fn title(&self) -> String {
        format!("{} {}", self.framework.name(), self.name)
    }

    /// The reason why the module is not used, on one node or several.
    fn dropped(&self) -> Option<String> {
        self.left_out.clone().or_else(|| self.unavailable.clone())
    }

    /// The reason why the module cannot carry messages to all nodes of a job.
    fn misses_route(&self, rows: &[ModuleRow], request: &SelectionRequest) -> Option<String> {
        let (nodes, route) = (request.nodes.as_ref()?, self.between?);
        let row =
            rows.iter().find(|row| row.framework == Framework::Between && row.name == route)?;
        let why = row.dropped()?;
        Some(format!("the job is on {nodes}, between which messages go by {route}: {why}"))
    }

    fn misses(&self, level: ThreadLevel) -> Option<String> {
        let too_high = (self.highest < level).then(|| format!("it runs up to {}", self.highest));
        too_high
            .or_else(|| (self.lowest > level).then(|| format!("it runs from {} on", self.lowest)))
    }

    fn refused_as_cr(&self, rpi: &ModuleRow, request: &SelectionRequest) -> Option<String> {
        let requested = request
            .cr
            .filter(|name| *name != self.name)
            .map(|name| format!("cr {name} was requested"));
        requested.or_else(|| {
            (!rpi.checkpoints).then(|| format!("rpi {} supports no checkpoints", rpi.name))
        })
    }
}

impl<'a> SelectionState<'a> {
    fn step(&mut self, text: String) {
        let number = self.steps.len() as u8 + 1;
        self.steps.push(SelectionStep { number, text, drops: Vec::new() });
    }

    fn drop_if(&mut self, text: &str, reason: impl Fn(&ModuleRow) -> Option<String>) {
        self.step(text.into());
        let drops: Vec<_> =
            self.left.iter().filter_map(|row| Some((row.title(), reason(row)?))).collect();
        self.left.retain(|row| reason(row).is_none());
        if let Some(step) = self.steps.last_mut() {
            step.drops = drops;
        }
    }

    /// The remaining modules of a framework, by descending priority; equals in their order.
    fn ranked(&self, framework: Framework) -> Vec<&'a ModuleRow> {
        let mut all: Vec<&ModuleRow> =
            self.left.iter().copied().filter(|row| row.framework == framework).collect();
        all.sort_by_key(|row| std::cmp::Reverse(row.priority));
        all
    }

    fn fail(&self, framework: Framework) -> NothingLeft {
        NothingLeft { framework, steps: self.steps.clone(), left_out: self.left_out.clone() }
    }

    /// Step 1. A request for a module for checkpoints raises the level to that of the module.
    fn set_level(&mut self) {
        let mut text = format!("the thread level is {}: {}", self.level, self.request.by);
        let requested =
            |row: &&&ModuleRow| row.framework == Framework::Cr && Some(row.name) == self.request.cr;
        if let Some(row) = self.left.iter().find(requested).filter(|row| row.lowest > self.level) {
            self.level = row.lowest;
            text += &format!("; raised to {}, which cr {} needs", self.level, row.name);
        }
        self.step(text);
    }

    /// Steps 3 and 4: the highest level, from the requested one downwards, at which a transport
    /// runs. Transports that run only at higher levels stay: step 5 raises the level for them.
    fn find_level(&mut self) -> Result<(), NothingLeft> {
        let wanted = self.level;
        let all = self.ranked(Framework::Rpi);
        let runs = |row: &ModuleRow, level| row.highest >= level;
        let levels = ThreadLevel::ALL.into_iter().rev().filter(|level| *level <= wanted);
        let found = levels.clone().find(|level| all.iter().any(|row| runs(row, *level)));
        self.level = found.unwrap_or(wanted);
        let kept = self.level;
        self.drop_if(
            "what carries messages and does not run at this thread level is dropped",
            |row| {
                let drops = row.framework == Framework::Rpi && !runs(row, kept);
                drops.then(|| format!("it runs up to {}, and {wanted} is wanted", row.highest))
            },
        );
        self.step(match found {
            None => "nothing is left that carries messages, at any thread level".to_string(),
            Some(level) if level < wanted => {
                format!(
                    "nothing carries messages at {wanted}: the thread level is lowered to {level}"
                )
            }
            Some(level) => {
                format!(
                    "the thread level stays {level}, as something that carries messages is left"
                )
            }
        });
        if found.is_some() { Ok(()) } else { Err(self.fail(Framework::Rpi)) }
    }

    /// Step 5. At least one transport is left. Returns also another module between nodes.
    fn select_rpi(&mut self) -> (&'a ModuleRow, Option<&'static str>) {
        let all = self.ranked(Framework::Rpi);
        let winner = all[0];
        let mut text = format!(
            "rpi {} is selected: it has the highest priority, {}",
            winner.name, winner.priority
        );
        if winner.lowest > self.level {
            self.level = winner.lowest;
            text +=
                &format!("; the thread level is raised to {}, from which on it runs", self.level);
        }
        let is_left =
            |route: &&str| self.ranked(Framework::Between).iter().any(|row| row.name == *route);
        let between = winner.between.filter(is_left);
        text += &match (winner.between, between) {
            (Some(_), Some(route)) => {
                format!("; between nodes, if there are several, messages go by {route}")
            }
            (Some(_), None) => "; nothing is left that carries messages between nodes".to_string(),
            (None, _) => String::new(),
        };
        self.drop_if(&text, |row| {
            let loses = row.framework == Framework::Rpi && row.name != winner.name;
            loses.then(|| format!("its priority is {}", row.priority))
        });
        (winner, between)
    }

    /// Step 7. A request for checkpoints excludes collectives that do not support them.
    fn list_coll(&mut self) -> Result<Vec<&'static str>, NothingLeft> {
        let all = self.ranked(Framework::Coll);
        let usable = all.iter().filter(|row| self.request.cr.is_none() || row.checkpoints);
        let names: Vec<&'static str> = usable.map(|row| row.name).collect();
        if names.is_empty() {
            self.step("nothing is left that serves collectives".into());
            return Err(self.fail(Framework::Coll));
        }
        self.step(format!(
            "coll {} may serve collectives, communicator by communicator",
            names.join(", ")
        ));
        Ok(names)
    }

    /// Step 8.
    fn select_cr(&mut self) -> Result<Option<&'static str>, NothingLeft> {
        let cr = self.ranked(Framework::Cr).first().map(|row| row.name);
        self.step(match (cr, self.request.cr) {
            (Some(name), _) => format!("cr {name} is selected"),
            (None, None) => "nothing writes checkpoints, and none were requested".into(),
            (None, Some(_)) => "nothing is left that writes the requested checkpoints".into(),
        });
        if cr.is_none() && self.request.cr.is_some() {
            Err(self.fail(Framework::Cr))
        } else {
            Ok(cr)
        }
    }
}

#[cfg(test)]
mod tests;
