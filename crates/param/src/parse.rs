//! How the text of a value becomes a number, and what is said when it does not.

use std::path::PathBuf;

use crate::file::LineError;
use crate::source::Source;

/// What a parameter's number counts. It decides which suffixes are understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes; `k`, `KiB`, `m` and `MiB` multiply by 1024 and 1024².
    Bytes,
    /// A plain number of things.
    Count,
    /// Microseconds; `ms` and `s` are understood too.
    Micros,
    /// One word of a list; the number is its place in it.
    Choice(&'static [&'static str]),
    /// As [`Unit::Choice`], or several words with commas between them: these are a text.
    Set {
        /// The list.
        words: &'static [&'static str],
        /// How many of its first words stand alone.
        alone: usize,
    },
    /// On or off: one of [`SWITCH_WORDS`]; the number is 1 or 0.
    Switch,
    /// No number but a text.
    Text {
        /// The text when nobody says otherwise.
        default: &'static str,
    },
}

/// The words of a switch: each for off stands before one for on.
pub const SWITCH_WORDS: [&str; 6] = ["0", "1", "false", "true", "no", "yes"];

/// Why a parameter could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    /// No parameter has this name.
    #[error("there is no parameter '{name}'{}; 'oxmpi info --params' lists them all", hint(*nearest, *instead))]
    Unknown {
        /// The name as it was given.
        name: String,
        /// The parameter that was probably meant.
        nearest: Option<&'static str>,
        /// What to use instead, if it is known from elsewhere.
        instead: Option<&'static str>,
    },
    /// The text is not a value of the parameter's type, or lies outside its limits.
    #[error("parameter '{name}': '{value}' is not {wanted}{}", hint(*nearest, None))]
    Value {
        /// The parameter's name.
        name: &'static str,
        /// The text as it was given.
        value: String,
        /// What would have been accepted.
        wanted: String,
        /// The word that was probably meant.
        nearest: Option<&'static str>,
    },
    /// A line of a parameter file makes no sense.
    #[error(transparent)]
    Line(#[from] LineError),
    /// A parameter file cannot be read.
    #[error("parameter file {}: {error}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        error: String,
    },
    /// More lines of a file are wrong than are reported one by one.
    #[error("parameter file {}: {more} more values or lines are wrong; is it a parameter file?", path.display())]
    More {
        /// The file.
        path: PathBuf,
        /// How many.
        more: usize,
    },
    /// One of the above, with where it stands.
    #[error("{}: {error}", from.position())]
    At {
        /// Where.
        from: Source,
        /// What is wrong.
        error: Box<ParamError>,
    },
}

fn hint(nearest: Option<&str>, instead: Option<&str>) -> String {
    match (nearest, instead) {
        (Some(nearest), _) => format!(" (did you mean '{nearest}'?)"),
        (None, Some(instead)) => format!(" ({instead})"),
        (None, None) => String::new(),
    }
}

/// Reads `text` as a number of `unit`s; `None` if it is none.
pub(crate) fn number(text: &str, unit: Unit) -> Option<i64> {
    let text = text.trim();
    let place = |words: &[&str]| words.iter().position(|w| w.eq_ignore_ascii_case(text)).map(|i| i as i64);
    match unit {
        Unit::Choice(words) | Unit::Set { words, .. } => return place(words),
        Unit::Switch => return place(&SWITCH_WORDS).map(|place| place % 2),
        _ => {}
    }
    let sign = usize::from(text.starts_with('-'));
    let digits = sign + text.bytes().skip(sign).take_while(u8::is_ascii_digit).count();
    let number: i64 = text[..digits].parse().ok()?;
    let suffix = text[digits..].trim_start().to_ascii_lowercase();
    let factor = match (unit, suffix.as_str()) {
        (_, "") => 1,
        (Unit::Bytes, "b" | "bytes") => 1,
        (Unit::Bytes, "k" | "kib") => 1 << 10,
        (Unit::Bytes, "m" | "mib") => 1 << 20,
        (Unit::Micros, "us") => 1,
        (Unit::Micros, "ms") => 1_000,
        (Unit::Micros, "s") => 1_000_000,
        _ => return None,
    };
    number.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suffixes_belong_to_their_unit() {
        assert_eq!(number("16k", Unit::Bytes), Some(16384));
        assert_eq!(number(" 2 MiB ", Unit::Bytes), Some(2 << 20));
        assert_eq!(number("3ms", Unit::Micros), Some(3000));
        assert_eq!(number("16k", Unit::Count), None);
        assert_eq!(number("3ms", Unit::Bytes), None);
    }

    #[test]
    fn what_is_no_number_is_refused() {
        assert_eq!(number("-1", Unit::Bytes), Some(-1));
        for text in [
            "",
            "-",
            "k",
            "--1",
            "+1",
            "-k",
            "0x10",
            "1.5",
            "99999999999999999999",
            "18446744073709551615k",
            "ü",
        ] {
            assert_eq!(number(text, Unit::Bytes), None, "{text}");
        }
    }
}
