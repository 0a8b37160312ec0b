//! The error of a failed call: an error class of the standard and a sentence for the user.

use std::borrow::Cow;
use std::fmt;

/// As small as a pointer, so that results stay in registers.
#[derive(PartialEq, Eq)]
pub struct MpiError(Box<Inner>);

#[derive(PartialEq, Eq)]
struct Inner {
    class: i32,
    detail: Cow<'static, str>,
}

/// The result of most functions above the engine.
pub type Result<T, E = MpiError> = std::result::Result<T, E>;

impl MpiError {
    /// `class` is an error class of the ABI; `detail` names the argument and its value.
    #[cold]
    pub fn new(class: i32, detail: impl Into<Cow<'static, str>>) -> MpiError {
        MpiError(Box::new(Inner { class, detail: detail.into() }))
    }

    /// The ABI's error class.
    pub fn class(&self) -> i32 {
        self.0.class
    }

    /// The sentence for the user.
    pub fn detail(&self) -> &str {
        &self.0.detail
    }

    /// Puts `prefix` and ": " before the sentence.
    pub fn within(mut self, prefix: impl fmt::Display) -> MpiError {
        self.0.detail = format!("{prefix}: {}", self.0.detail).into();
        self
    }
}

impl fmt::Debug for MpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MpiError(class {}: {})", self.0.class, self.0.detail)
    }
}

impl fmt::Display for MpiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.detail)
    }
}

impl std::error::Error for MpiError {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_one_pointer() {
        assert_eq!(size_of::<Result<()>>(), size_of::<usize>());
        let e = MpiError::new(oxmpi_abi::constants::MPI_ERR_ARG, format!("count is {}", -1))
            .within("MPI_Send");
        assert_eq!((e.class(), e.to_string()), (13, "MPI_Send: count is -1".into()));
    }
}
