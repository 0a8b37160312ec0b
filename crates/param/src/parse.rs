//! Conversion of values from text, and its errors.

use std::path::PathBuf;

use crate::file::LineError;
use crate::source::Source;

/// The unit or type of a parameter, which decides the accepted suffixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bytes; the suffixes `k`, `KiB`, `m` and `MiB` multiply by 1024 and 1024².
    Bytes,
    Count,
    /// Microseconds; the suffixes `ms` and `s` are accepted, too.
    Micros,
    /// One word of a list; its value is the index of the word.
    Choice(&'static [&'static str]),
    /// As [`Unit::Choice`], or several words separated by commas, which make a text.
    Set {
        words: &'static [&'static str],
        /// The number of first words that cannot be combined with others.
        alone: usize,
    },
    /// On or off: one of [`SWITCH_WORDS`]; the value is 1 or 0.
    Switch,
    Text {
        default: &'static str,
    },
}

/// The words of a switch: even indices mean off, odd ones on.
pub const SWITCH_WORDS: [&str; 6] = ["0", "1", "false", "true", "no", "yes"];

/// The reason why a parameter could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    #[error("there is no parameter '{name}'{}; 'oxmpi info --params' lists them all", hint(*nearest, *instead))]
    Unknown {
        name: String,
        nearest: Option<&'static str>,
        /// The alternative, for a name of another MPI library.
        instead: Option<&'static str>,
    },
    #[error("parameter '{name}': '{value}' is not {wanted}{}", hint(*nearest, None))]
    Value { name: &'static str, value: String, wanted: String, nearest: Option<&'static str> },
    #[error(transparent)]
    Line(#[from] LineError),
    #[error("parameter file {}: {error}", path.display())]
    File { path: PathBuf, error: String },
    #[error("parameter file {}: {more} more values or lines are wrong; is it a parameter file?", path.display())]
    More { path: PathBuf, more: usize },
    #[error("{}: {error}", from.position())]
    At { from: Source, error: Box<ParamError> },
}

fn hint(nearest: Option<&str>, instead: Option<&str>) -> String {
    match (nearest, instead) {
        (Some(nearest), _) => format!(" (did you mean '{nearest}'?)"),
        (None, Some(instead)) => format!(" ({instead})"),
        (None, None) => String::new(),
    }
}

pub(crate) fn number(text: &str, unit: Unit) -> Option<i64> {
    let text = text.trim();
    let place =
        |words: &[&str]| words.iter().position(|w| w.eq_ignore_ascii_case(text)).map(|i| i as i64);
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

/// Reads a number of bytes as the value of a parameter: with the suffixes `k` and `m`, also `KiB`
/// and `MiB`. `None`: `text` is no such number, or it is negative.
pub fn bytes(text: &str) -> Option<usize> {
    number(text, Unit::Bytes).and_then(|bytes| usize::try_from(bytes).ok())
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
