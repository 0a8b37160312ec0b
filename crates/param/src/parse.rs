//! How the text of a value becomes a number, and what is said when it does not.

use std::ffi::OsStr;

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
}

/// Why a parameter could not be set.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ParamError {
    /// No parameter has this name.
    #[error("there is no parameter '{name}'{}; 'oxmpi info --params' lists them all", hint(*nearest))]
    Unknown {
        /// The name as it was given.
        name: String,
        /// The parameter that was probably meant.
        nearest: Option<&'static str>,
    },
    /// The text is not a value of the parameter's type, or lies outside its limits.
    #[error("parameter '{name}': '{value}' is not {wanted}")]
    Value {
        /// The parameter's name.
        name: &'static str,
        /// The text as it was given.
        value: String,
        /// What would have been accepted.
        wanted: String,
    },
    /// One of the above, in an environment variable.
    #[error("environment variable {variable}: {error}")]
    Variable {
        /// The variable.
        variable: String,
        /// What is wrong with it.
        error: Box<ParamError>,
    },
}

impl ParamError {
    pub(crate) fn in_variable(self, variable: &OsStr) -> ParamError {
        ParamError::Variable { variable: variable.to_string_lossy().into_owned(), error: Box::new(self) }
    }
}

fn hint(nearest: Option<&str>) -> String {
    nearest.map(|n| format!(" (did you mean '{n}'?)")).unwrap_or_default()
}

/// Reads `text` as a number of `unit`s; `None` if it is none.
pub(crate) fn number(text: &str, unit: Unit) -> Option<u64> {
    let text = text.trim();
    if let Unit::Choice(words) = unit {
        return words.iter().position(|w| w.eq_ignore_ascii_case(text)).map(|i| i as u64);
    }
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let number: u64 = text[..digits].parse().ok()?;
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
        for text in ["", "k", "-1", "0x10", "1.5", "99999999999999999999", "18446744073709551615k", "ü"] {
            assert_eq!(number(text, Unit::Bytes), None, "{text}");
        }
    }
}
