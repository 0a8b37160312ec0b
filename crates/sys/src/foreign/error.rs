//! The failures of foreign libraries, with their texts for users.

/// The names of a library in the texts of [`LibraryError`].
#[derive(Debug)]
pub struct LibraryTexts {
    /// The library: `GM`.
    pub name: &'static str,
    /// The library with its usable versions: `GM of version 2`.
    pub needed: &'static str,
    /// The remedy if the file cannot be loaded: how to install it, and the parameter with its name.
    pub remedy: &'static str,
}

/// The failure of a foreign library; its text is for users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LibraryError {
    #[error("{name} cannot be loaded as '{file}' ({why}): {remedy}")]
    Missing { name: &'static str, file: String, why: String, remedy: &'static str },
    /// The file is another library, or another version. `kind` is "function" or "variable".
    #[error("'{file}' has no {kind} {symbol}: it is no {needed}")]
    Symbol { file: String, kind: &'static str, symbol: &'static str, needed: &'static str },
    #[error("'{file}' {why}")]
    Unfit { file: String, why: String },
    #[error("{name}'s {call} {why}")]
    Call { name: &'static str, call: &'static str, why: String },
}

impl LibraryTexts {
    pub(super) fn missing(&self, file: &str, why: String) -> LibraryError {
        LibraryError::Missing { name: self.name, file: file.to_string(), why, remedy: self.remedy }
    }

    /// The error of a failed call. `why` follows the name of the call in its text.
    pub fn call_failed(&self, call: &'static str, why: impl Into<String>) -> LibraryError {
        LibraryError::Call { name: self.name, call, why: why.into() }
    }
}
