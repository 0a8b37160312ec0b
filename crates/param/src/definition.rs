//! What is said of a parameter, and how its values are read.

use crate::foreign::instead_of;
use crate::nearest::{nearest, nearest_within};
use crate::parse::{ParamError, SWITCH_WORDS, Unit, number};
use crate::registry::TABLE;

/// Who should touch a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Users: it changes what a program can do or how it is allowed to do it.
    User,
    /// People who tune a machine: it changes speed or memory only.
    Tune,
    /// People who work on OxMPI.
    Develop,
}

/// When a program can change a parameter by itself (MPI_T_cvar_write).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Never: the launcher, or the other ranks, have built on it.
    Never,
    /// At any time.
    Always,
    /// At any time, if all ranks do so alike.
    Alike,
}

impl Change {
    /// When that is, in words.
    pub const fn when(self) -> &'static str {
        match self {
            Change::Never => "fixed when the job starts",
            Change::Always => "a program may change it at any time",
            Change::Alike => "a program may change it at any time, on all ranks alike",
        }
    }
}

/// The definition of one parameter.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// The name, unit last.
    pub name: &'static str,
    /// Other names that are understood.
    pub aliases: &'static [&'static str],
    /// What the number counts, or that it is a text.
    pub unit: Unit,
    /// The value when nobody says otherwise; of a text, it stands in the unit.
    pub default: i64,
    /// The smallest number.
    pub min: i64,
    /// The largest number.
    pub max: i64,
    /// Whether only powers of two are values (ring sizes: an index is a mask).
    pub power_of_two: bool,
    /// Who should touch it.
    pub level: Level,
    /// When a program can change it by itself, for its own rank.
    pub change: Change,
    /// What it does, in a sentence or two.
    pub help: &'static str,
}

impl Param {
    /// What most rows have, for the others: `Param { name: "rpi_mine_depth", ..Param::NEW }`.
    pub const NEW: Param = Param {
        name: "",
        aliases: &[],
        unit: Unit::Count,
        default: 0,
        min: 0,
        max: 1 << 20,
        power_of_two: false,
        level: Level::Tune,
        change: Change::Never,
        help: "",
    };

    /// A priority among transports.
    pub const fn priority(name: &'static str, default: i64, help: &'static str) -> Param {
        Param { name, default, max: 100, level: Level::User, help, ..Param::NEW }
    }

    /// A switch.
    pub const fn switch(name: &'static str, default: bool, help: &'static str) -> Param {
        Param { name, unit: Unit::Switch, default: default as i64, max: 1, help, ..Param::NEW }
    }

    /// All parameters, in the order in which they are listed.
    pub fn all() -> &'static [&'static Param] {
        &TABLE
    }

    /// The parameter of this name or alias.
    pub fn find(name: &str) -> Option<&'static Param> {
        let find = |name: &str| TABLE.iter().find(|p| p.name == name || p.aliases.contains(&name));
        // The guide spells some names with the name of the interface in them: rpi_ssi_tcp_short.
        find(name).or_else(|| find(&name.replacen("_ssi_", "_", 1))).copied()
    }

    /// All names and aliases.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLE.iter().flat_map(|p| p.aliases.iter().copied().chain([p.name]))
    }

    /// The error for a name that is none.
    pub(crate) fn unknown(name: &str) -> ParamError {
        // A slip is more likely than a name from elsewhere, and that more than a name that is far off.
        let slip = nearest_within(name, Param::names(), name.len() / 6);
        let instead = instead_of(&name.replacen("_ssi_", "_", 1));
        let far = || instead.is_none().then(|| nearest(name, Param::names())).flatten();
        ParamError::Unknown { name: name.to_string(), nearest: slip.or_else(far), instead }
    }

    /// Reads `text` as a value of this parameter.
    ///
    /// # Errors
    /// [`ParamError::Value`] names the text and what would have been accepted.
    pub fn parse(&self, text: &str) -> Result<Value, ParamError> {
        match self.unit {
            Unit::Text { .. } => return Ok(Value::Text(text.trim().into())),
            Unit::Set { words, alone } if text.contains(',') => return self.parse_set(text, &words[alone..]),
            _ => {}
        }
        number(text, self.unit)
            .filter(|n| (self.min..=self.max).contains(n))
            .filter(|n| !self.power_of_two || n.count_ones() == 1 || (*n == 0 && self.min == 0))
            .map(Value::Number)
            .ok_or_else(|| self.wrong(text, text))
    }

    /// Reads several words of a set.
    fn parse_set(&self, text: &str, words: &[&'static str]) -> Result<Value, ParamError> {
        let known = |name: &str| words.iter().copied().find(|word| word.eq_ignore_ascii_case(name));
        let word = |name: &str| known(name.trim()).ok_or_else(|| self.wrong(text, name));
        let found = text.split(',').map(word).collect::<Result<Vec<_>, _>>()?;
        Ok(Value::Text(found.join(",").into()))
    }

    /// The error for a value that is none because of `word`.
    fn wrong(&self, text: &str, word: &str) -> ParamError {
        let nearest = match self.unit {
            Unit::Choice(words) | Unit::Set { words, .. } => nearest(word.trim(), words.iter().copied()),
            _ => None,
        };
        ParamError::Value { name: self.name, value: text.to_string(), wanted: self.wanted(), nearest }
    }

    /// The value when nobody says otherwise.
    pub fn default_value(&self) -> Value {
        match self.unit {
            Unit::Text { default } => Value::Text(default.into()),
            _ => Value::Number(self.default),
        }
    }

    /// The type in one word, for programs that read it.
    pub fn type_name(&self) -> &'static str {
        match self.unit {
            Unit::Choice(_) | Unit::Set { .. } => "choice",
            Unit::Switch => "switch",
            Unit::Text { .. } => "text",
            Unit::Bytes => "bytes",
            Unit::Count => "number",
            Unit::Micros => "microseconds",
        }
    }

    /// The words that it takes, if it takes no others.
    pub fn words(&self) -> &'static [&'static str] {
        match self.unit {
            Unit::Choice(words) | Unit::Set { words, .. } => words,
            Unit::Switch => &SWITCH_WORDS,
            _ => &[],
        }
    }

    /// What [`Param::parse`] accepts, in words.
    pub fn wanted(&self) -> String {
        let what = match self.unit {
            Unit::Choice(_) | Unit::Switch => return format!("one of {}", self.words().join(", ")),
            Unit::Set { words, alone } => {
                let several = if alone == 0 { "them".into() } else { words[alone..].join(", ") };
                return format!("one of {}, or several of {several} with commas between", words.join(", "));
            }
            Unit::Text { .. } => return "a text".to_string(),
            Unit::Bytes => "a number of bytes (suffixes k, m)",
            Unit::Count => "a number",
            Unit::Micros => "a number of microseconds (suffixes ms, s)",
        };
        let power = if self.power_of_two { " and a power of two" } else { "" };
        format!("{what} from {} to {}{power}", self.min, self.max)
    }

    /// A value as a person reads it, and as [`Param::parse`] reads it back.
    pub fn show(&self, value: &Value) -> String {
        match (self.unit, value) {
            (Unit::Choice(words) | Unit::Set { words, .. }, Value::Number(n)) => {
                usize::try_from(*n).ok().and_then(|n| words.get(n)).copied().unwrap_or("?").to_string()
            }
            (_, Value::Number(n)) => n.to_string(),
            (_, Value::Text(text)) => text.to_string(),
        }
    }
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number; of a choice, the place of the word in its list; of a switch, 1 if it is on and 0 if not.
    Number(i64),
    /// A text, without blanks around it.
    Text(Box<str>),
}
