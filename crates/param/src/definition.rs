//! The definition of a parameter, and the reading of its values.

use crate::foreign::instead_of;
use crate::nearest::{nearest, nearest_within};
use crate::parse::{ParamError, SWITCH_WORDS, Unit, number};
use crate::registry::TABLE;

/// The people for whom a parameter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Users: the parameter changes the abilities or permissions of a program.
    User,
    /// People who tune a machine: the parameter changes only speed or memory.
    Tune,
    Develop,
}

/// When a program can change a parameter itself (MPI_T_cvar_write).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeRule {
    /// Never: the launcher or the other ranks depend on the value.
    Never,
    Always,
    /// At any time, if all ranks make the same change.
    Alike,
}

impl ChangeRule {
    /// The moment, in words.
    pub const fn when(self) -> &'static str {
        match self {
            ChangeRule::Never => "fixed when the job starts",
            ChangeRule::Always => "a program may change it at any time",
            ChangeRule::Alike => "a program may change it at any time, on all ranks alike",
        }
    }
}

/// The definition of one parameter.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    pub name: &'static str,
    pub aliases: &'static [&'static str],
    pub unit: Unit,
    /// The default of a number; a text has its default in `unit`.
    pub default: i64,
    pub min: i64,
    pub max: i64,
    /// Whether only powers of two are values, as for rings whose index is a mask.
    pub power_of_two: bool,
    pub level: Level,
    pub change: ChangeRule,
    pub help: &'static str,
}

impl Param {
    /// The commonest values, for struct update: `Param { name: "rpi_mine_depth", ..Param::NEW }`.
    pub const NEW: Param = Param {
        name: "",
        aliases: &[],
        unit: Unit::Count,
        default: 0,
        min: 0,
        max: 1 << 20,
        power_of_two: false,
        level: Level::Tune,
        change: ChangeRule::Never,
        help: "",
    };

    /// The priority parameter of a transport.
    pub const fn priority(name: &'static str, default: i64, help: &'static str) -> Param {
        Param { name, default, max: 100, level: Level::User, help, ..Param::NEW }
    }

    /// A parameter that is on or off.
    pub const fn switch(name: &'static str, default: bool, help: &'static str) -> Param {
        Param { name, unit: Unit::Switch, default: default as i64, max: 1, help, ..Param::NEW }
    }

    /// All parameters, in the order of listings.
    pub fn all() -> &'static [&'static Param] {
        &TABLE
    }

    /// The parameter of this name or alias.
    pub fn find(name: &str) -> Option<&'static Param> {
        let find = |name: &str| TABLE.iter().find(|p| p.name == name || p.aliases.contains(&name));
        // LAM/MPI spells some names with `ssi` in them: rpi_ssi_tcp_short.
        find(name).or_else(|| find(&name.replacen("_ssi_", "_", 1))).copied()
    }

    /// All names and aliases.
    pub fn names() -> impl Iterator<Item = &'static str> {
        TABLE.iter().flat_map(|p| p.aliases.iter().copied().chain([p.name]))
    }

    pub(crate) fn unknown(name: &str) -> ParamError {
        // A misspelling is most likely, a name of another MPI library next.
        let slip = nearest_within(name, Param::names(), name.len() / 6);
        let instead = instead_of(&name.replacen("_ssi_", "_", 1));
        let far = || instead.is_none().then(|| nearest(name, Param::names())).flatten();
        ParamError::Unknown { name: name.to_string(), nearest: slip.or_else(far), instead }
    }

    /// Reads `text` as a value of this parameter.
    pub fn parse(&self, text: &str) -> Result<Value, ParamError> {
        match self.unit {
            Unit::Text { .. } => return Ok(Value::Text(text.trim().into())),
            Unit::Set { words, alone } if text.contains(',') => {
                return self.parse_set(text, &words[alone..]);
            }
            _ => {}
        }
        number(text, self.unit)
            .filter(|n| (self.min..=self.max).contains(n))
            .filter(|n| !self.power_of_two || n.count_ones() == 1 || (*n == 0 && self.min == 0))
            .map(Value::Number)
            .ok_or_else(|| self.wrong(text, text))
    }

    fn parse_set(&self, text: &str, words: &[&'static str]) -> Result<Value, ParamError> {
        let known = |name: &str| words.iter().copied().find(|word| word.eq_ignore_ascii_case(name));
        let word = |name: &str| known(name.trim()).ok_or_else(|| self.wrong(text, name));
        let found = text.split(',').map(word).collect::<Result<Vec<_>, _>>()?;
        Ok(Value::Text(found.join(",").into()))
    }

    fn wrong(&self, text: &str, word: &str) -> ParamError {
        let nearest = match self.unit {
            Unit::Choice(words) | Unit::Set { words, .. } => {
                nearest(word.trim(), words.iter().copied())
            }
            _ => None,
        };
        ParamError::Value {
            name: self.name,
            value: text.to_string(),
            wanted: self.wanted(),
            nearest,
        }
    }

    /// The value if no source sets another one.
    pub fn default_value(&self) -> Value {
        match self.unit {
            Unit::Text { default } => Value::Text(default.into()),
            _ => Value::Number(self.default),
        }
    }

    /// The type in one word, for machine-readable output.
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

    /// The accepted words, if the parameter accepts no other values.
    pub fn words(&self) -> &'static [&'static str] {
        match self.unit {
            Unit::Choice(words) | Unit::Set { words, .. } => words,
            Unit::Switch => &SWITCH_WORDS,
            _ => &[],
        }
    }

    /// The accepted values, in words.
    pub fn wanted(&self) -> String {
        let what = match self.unit {
            Unit::Choice(_) | Unit::Switch => return format!("one of {}", self.words().join(", ")),
            Unit::Set { words, alone } => {
                let several = if alone == 0 { "them".into() } else { words[alone..].join(", ") };
                return format!(
                    "one of {}, or several of {several} with commas between",
                    words.join(", ")
                );
            }
            Unit::Text { .. } => return "a text".to_string(),
            Unit::Bytes => "a number of bytes (suffixes k, m)",
            Unit::Count => "a number",
            Unit::Micros => "a number of microseconds (suffixes ms, s)",
        };
        let power = if self.power_of_two { " and a power of two" } else { "" };
        format!("{what} from {} to {}{power}", self.min, self.max)
    }

    /// Formats a value for users; [`Param::parse`] reads it back.
    pub fn show(&self, value: &Value) -> String {
        match (self.unit, value) {
            (Unit::Choice(words) | Unit::Set { words, .. }, Value::Number(n)) => {
                usize::try_from(*n)
                    .ok()
                    .and_then(|n| words.get(n))
                    .copied()
                    .unwrap_or("?")
                    .to_string()
            }
            (_, Value::Number(n)) => n.to_string(),
            (_, Value::Text(text)) => text.to_string(),
        }
    }
}

/// The value of a parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number, the index of a word of a choice, or 1 or 0 for a switch.
    Number(i64),
    Text(Box<str>),
}
