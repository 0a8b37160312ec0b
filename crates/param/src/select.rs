//! Which modules a process uses, and why: the eight steps of the components guide ("MPI Module Selection Process").
//!
//! [`decide`] is a pure function over rows: a module of a framework with its priority, the thread levels at which it can
//! run, and whether this job may and can use it. The rows of this program are made in [`modules`](mod@modules), those of
//! transports from what each says of itself ([`Module`](crate::Module)).

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
    /// How messages travel. One module is selected.
    Rpi,
    /// Collective operations. Every module that is left may serve them.
    Coll,
    /// Checkpoint and restart. One module at most is selected.
    Cr,
    /// How messages travel between nodes if the selected module of [`Framework::Rpi`] does not leave the node.
    Between,
}

impl Framework {
    /// Its name in parameters.
    pub fn name(self) -> &'static str {
        match self {
            Framework::Rpi => "rpi",
            Framework::Coll => "coll",
            Framework::Cr => "cr",
            Framework::Between => "between nodes",
        }
    }
}

/// A module, as far as its selection is concerned.
#[derive(Clone, Debug)]
pub struct ModuleRow {
    /// The kind.
    pub framework: Framework,
    /// The name, which is unique in its framework.
    pub name: &'static str,
    /// The highest one wins; the first of equals.
    pub priority: u32,
    /// The lowest thread level at which it runs: a job at a lower one is raised to it.
    pub lowest: ThreadLevel,
    /// The highest thread level at which it runs.
    pub highest: ThreadLevel,
    /// Whether it goes together with modules that write checkpoints.
    pub checkpoints: bool,
    /// Why the user's parameters leave it out, if they do.
    pub left_out: Option<String>,
    /// Why it cannot be used here, if it cannot.
    pub unavailable: Option<String>,
    /// Of what carries messages: by which module of [`Framework::Between`] they go to other nodes, if not by itself alone.
    pub between: Option<&'static str>,
}

/// What a process asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionRequest {
    /// The thread level.
    pub level: ThreadLevel,
    /// Who wants it, for the first step's text.
    pub by: String,
    /// A module for checkpoints that was asked for by name.
    pub cr: Option<&'static str>,
    /// On what the job is, if that is several nodes: "2 virtual nodes".
    pub nodes: Option<String>,
}

/// What one of the eight steps has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SelectionStep {
    /// Its number, from 1 to 8.
    pub number: u8,
    /// What it has done.
    pub text: String,
    /// The modules that it has dropped: framework and name, and the reason.
    pub drops: Vec<(String, String)>,
}

impl fmt::Display for SelectionStep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. {}", self.number, self.text)?;
        self.drops.iter().try_for_each(|(module, reason)| write!(f, "\n   {module} is dropped: {reason}"))
    }
}

/// What is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// The thread level that the process provides.
    pub level: ThreadLevel,
    /// The module that carries messages.
    pub rpi: &'static str,
    /// The module that carries them between nodes, if it is another one and was not dropped.
    pub between: Option<&'static str>,
    /// The modules for collectives, the strongest first.
    pub coll: Vec<&'static str>,
    /// The module that writes checkpoints.
    pub cr: Option<&'static str>,
    /// How it came to that.
    pub steps: Vec<SelectionStep>,
}

/// Nothing can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Impossible {
    /// Of which kind there is none.
    pub framework: Framework,
    /// How it came to that.
    pub steps: Vec<SelectionStep>,
    /// The modules that parameters leave out.
    pub left_out: Vec<String>,
}

impl fmt::Display for Impossible {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (name, what) = match self.framework {
            Framework::Rpi => ("rpi", "carries the messages of this job"),
            Framework::Coll => ("coll", "serves the collectives of this job"),
            Framework::Cr => ("cr", "writes the checkpoints that were asked for"),
            Framework::Between => ("between nodes", "carries the messages of this job between nodes"),
        };
        write!(f, "no module of '{name}' {what}")?;
        let start = format!("{name} ");
        let drops = self.steps.iter().flat_map(|step| &step.drops).filter(|(m, _)| m.starts_with(&start));
        // Why what was asked for is not used matters, not that nothing else was asked for.
        let all: Vec<_> = drops.collect();
        let asked: Vec<_> = all.iter().filter(|(module, _)| !self.left_out.contains(module)).collect();
        let shown = if asked.is_empty() { all.iter().collect() } else { asked };
        shown.into_iter().enumerate().try_for_each(|(i, (module, reason))| {
            write!(f, "{} {module}: {reason}", if i == 0 { ":" } else { ";" })
        })?;
        f.write_str(". 'oxmpi info --select' shows each step")
    }
}

impl std::error::Error for Impossible {}

/// The steps so far, and who is left.
struct Course<'a> {
    wish: &'a SelectionRequest,
    level: ThreadLevel,
    steps: Vec<SelectionStep>,
    left: Vec<&'a ModuleRow>,
    /// The modules that parameters leave out.
    left_out: Vec<String>,
}

/// Selects among `rows` by the eight steps.
///
/// # Errors
/// If no module is left that could carry messages, serve collectives, or write the checkpoints that were asked for.
pub fn decide(rows: &[ModuleRow], wish: &SelectionRequest) -> Result<Decision, Impossible> {
    let left_out = rows.iter().filter(|row| row.left_out.is_some()).map(ModuleRow::title).collect();
    let (steps, left) = (Vec::new(), rows.iter().collect());
    let mut course = Course { wish, level: wish.level, steps, left, left_out };
    course.set_level();
    course.drop_if("what parameters leave out or what cannot be used here is dropped", |row| {
        row.dropped().or_else(|| row.misses_way(rows, wish))
    });
    course.find_level()?;
    let (rpi, between) = course.select_rpi();
    let level = course.level;
    course.drop_if("what cannot run at this thread level, or with the selected rpi, is dropped", |row| {
        match row.framework {
            Framework::Rpi | Framework::Between => None,
            Framework::Coll => row.misses(level),
            Framework::Cr => row.misses(level).or_else(|| row.refused_as_cr(rpi, wish)),
        }
    });
    let coll = course.list_coll()?;
    let cr = course.select_cr()?;
    Ok(Decision { level, rpi: rpi.name, between, coll, cr, steps: course.steps })
}

impl ModuleRow {
    /// Framework and name.
    fn title(&self) -> String {
        format!("{} {}", self.framework.name(), self.name)
    }

    /// Why it is not used, whatever the job is on.
    fn dropped(&self) -> Option<String> {
        self.left_out.clone().or_else(|| self.unavailable.clone())
    }

    /// Why it does not carry messages to all nodes of a job.
    fn misses_way(&self, rows: &[ModuleRow], wish: &SelectionRequest) -> Option<String> {
        let (nodes, way) = (wish.nodes.as_ref()?, self.between?);
        let row = rows.iter().find(|row| row.framework == Framework::Between && row.name == way)?;
        let why = row.dropped()?;
        Some(format!("the job is on {nodes}, between which messages go by {way}: {why}"))
    }

    /// Why it does not run at that thread level.
    fn misses(&self, level: ThreadLevel) -> Option<String> {
        let too_high = (self.highest < level).then(|| format!("it runs up to {}", self.highest));
        too_high.or_else(|| (self.lowest > level).then(|| format!("it runs from {} on", self.lowest)))
    }

    fn refused_as_cr(&self, rpi: &ModuleRow, wish: &SelectionRequest) -> Option<String> {
        let asked = wish.cr.filter(|name| *name != self.name).map(|name| format!("cr {name} was asked for"));
        asked.or_else(|| (!rpi.checkpoints).then(|| format!("rpi {} supports no checkpoints", rpi.name)))
    }
}

impl<'a> Course<'a> {
    fn step(&mut self, text: String) {
        let number = self.steps.len() as u8 + 1;
        self.steps.push(SelectionStep { number, text, drops: Vec::new() });
    }

    /// Drops those for which there is a reason, in a step of their own.
    fn drop_if(&mut self, text: &str, reason: impl Fn(&ModuleRow) -> Option<String>) {
        self.step(text.into());
        let drops: Vec<_> = self.left.iter().filter_map(|row| Some((row.title(), reason(row)?))).collect();
        self.left.retain(|row| reason(row).is_none());
        if let Some(step) = self.steps.last_mut() {
            step.drops = drops;
        }
    }

    /// The modules of one framework that are left, the strongest first; of equals the first.
    fn ranked(&self, framework: Framework) -> Vec<&'a ModuleRow> {
        let mut all: Vec<&ModuleRow> =
            self.left.iter().copied().filter(|row| row.framework == framework).collect();
        all.sort_by_key(|row| std::cmp::Reverse(row.priority));
        all
    }

    fn fail(&self, framework: Framework) -> Impossible {
        Impossible { framework, steps: self.steps.clone(), left_out: self.left_out.clone() }
    }

    /// Step 1. Who asks for a module for checkpoints by name gets the level that it needs.
    fn set_level(&mut self) {
        let mut text = format!("the thread level is {}: {}", self.level, self.wish.by);
        let asked = |row: &&&ModuleRow| row.framework == Framework::Cr && Some(row.name) == self.wish.cr;
        if let Some(row) = self.left.iter().find(asked).filter(|row| row.lowest > self.level) {
            self.level = row.lowest;
            text += &format!("; raised to {}, which cr {} needs", self.level, row.name);
        }
        self.step(text);
    }

    /// Steps 3 and 4: the highest level, from the wanted one downwards, at which there is something to carry messages. What
    /// runs only at higher levels stays: step 5 raises the level for it.
    fn find_level(&mut self) -> Result<(), Impossible> {
        let wanted = self.level;
        let all = self.ranked(Framework::Rpi);
        let runs = |row: &ModuleRow, level| row.highest >= level;
        let levels = ThreadLevel::ALL.into_iter().rev().filter(|level| *level <= wanted);
        let found = levels.clone().find(|level| all.iter().any(|row| runs(row, *level)));
        self.level = found.unwrap_or(wanted);
        let kept = self.level;
        self.drop_if("what carries messages and does not run at this thread level is dropped", |row| {
            let drops = row.framework == Framework::Rpi && !runs(row, kept);
            drops.then(|| format!("it runs up to {}, and {wanted} is wanted", row.highest))
        });
        self.step(match found {
            None => "nothing is left that carries messages, at any thread level".to_string(),
            Some(level) if level < wanted => {
                format!("nothing carries messages at {wanted}: the thread level is lowered to {level}")
            }
            Some(level) => {
                format!("the thread level stays {level}, as something that carries messages is left")
            }
        });
        if found.is_some() { Ok(()) } else { Err(self.fail(Framework::Rpi)) }
    }

    /// Step 5. Something is left. Returns also what carries messages between nodes, if that is something else.
    fn select_rpi(&mut self) -> (&'a ModuleRow, Option<&'static str>) {
        let all = self.ranked(Framework::Rpi);
        let winner = all[0];
        let mut text =
            format!("rpi {} is selected: it has the highest priority, {}", winner.name, winner.priority);
        if winner.lowest > self.level {
            self.level = winner.lowest;
            text += &format!("; the thread level is raised to {}, from which on it runs", self.level);
        }
        let is_left = |way: &&str| self.ranked(Framework::Between).iter().any(|row| row.name == *way);
        let between = winner.between.filter(is_left);
        text += &match (winner.between, between) {
            (Some(_), Some(way)) => format!("; between nodes, if there are several, messages go by {way}"),
            (Some(_), None) => "; nothing is left that carries messages between nodes".to_string(),
            (None, _) => String::new(),
        };
        self.drop_if(&text, |row| {
            let loses = row.framework == Framework::Rpi && row.name != winner.name;
            loses.then(|| format!("its priority is {}", row.priority))
        });
        (winner, between)
    }

    /// Step 7. Who asks for checkpoints gets no collectives that do not support them.
    fn list_coll(&mut self) -> Result<Vec<&'static str>, Impossible> {
        let all = self.ranked(Framework::Coll);
        let usable = all.iter().filter(|row| self.wish.cr.is_none() || row.checkpoints);
        let names: Vec<&'static str> = usable.map(|row| row.name).collect();
        if names.is_empty() {
            self.step("nothing is left that serves collectives".into());
            return Err(self.fail(Framework::Coll));
        }
        self.step(format!("coll {} may serve collectives, communicator by communicator", names.join(", ")));
        Ok(names)
    }

    /// Step 8.
    fn select_cr(&mut self) -> Result<Option<&'static str>, Impossible> {
        let cr = self.ranked(Framework::Cr).first().map(|row| row.name);
        self.step(match (cr, self.wish.cr) {
            (Some(name), _) => format!("cr {name} is selected"),
            (None, None) => "nothing writes checkpoints, and nobody has asked for it".into(),
            (None, Some(_)) => "nothing is left that writes checkpoints, which were asked for".into(),
        });
        if cr.is_none() && self.wish.cr.is_some() { Err(self.fail(Framework::Cr)) } else { Ok(cr) }
    }
}

#[cfg(test)]
mod tests;
