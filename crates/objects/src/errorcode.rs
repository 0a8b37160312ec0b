//! Error classes and codes that a program adds to those of the standard (MPI-5.0 section 9.5).
//!
//! Classes and codes share one sequence of numbers above MPI_ERR_LASTCODE. A removed number is not
//! used again, so a stale number is an error.

use crate::error::{MpiError, Result};
use crate::shown::{self, Shown, ValueKind};
use oxmpi_abi::constants as abi;
use oxmpi_abi::errors::error_class;
use std::collections::BTreeMap;

/// The added classes and codes.
#[derive(Debug)]
pub struct ErrorCodes {
    added: BTreeMap<i32, AddedCode>,
    last: i32,
}

#[derive(Debug)]
struct AddedCode {
    /// For a class, the class itself.
    class: i32,
    text: Option<Box<[u8]>>,
}

/// In bytes; the limit in C includes the closing zero.
const MAX_TEXT: usize = abi::MPI_MAX_ERROR_STRING as usize - 1;

impl ErrorCodes {
    /// No added classes and codes.
    pub const fn new() -> ErrorCodes {
        ErrorCodes { added: BTreeMap::new(), last: abi::MPI_ERR_LASTCODE }
    }

    /// The greatest class or code ever used (the attribute MPI_LASTUSEDCODE).
    pub fn last_used(&self) -> i32 {
        self.last
    }

    /// The class of a code, if the code exists.
    pub fn class_of(&self, code: i32) -> Option<i32> {
        if code == abi::MPI_ERR_LASTCODE || error_class(code).is_some() {
            return Some(code);
        }
        self.added.get(&code).map(|added| added.class)
    }

    /// The program's text for an added code, empty without a text; `None` for other codes.
    pub fn text(&self, code: i32) -> Option<&[u8]> {
        self.added.get(&code).map(|added| added.text.as_deref().unwrap_or_default())
    }

    /// A new class (`MPI_Add_error_class`). Fails with `MPI_ERR_OTHER` if all numbers are used up.
    pub fn add_class(&mut self) -> Result<i32> {
        let class = self.next()?;
        self.added.insert(class, AddedCode { class, text: None });
        Ok(class)
    }

    /// A new code of an added or standard class (`MPI_Add_error_code`). Fails with `MPI_ERR_ARG` if
    /// there is no such class.
    pub fn add_code(&mut self, class: i32) -> Result<i32> {
        if self.class_of(class) != Some(class) {
            let text = format!("errorclass {} is no error class", shown(class));
            return Err(MpiError::new(abi::MPI_ERR_ARG, text));
        }
        let code = self.next()?;
        self.added.insert(code, AddedCode { class, text: None });
        Ok(code)
    }

    /// Sets the text of an added class or code (`MPI_Add_error_string`). Fails with `MPI_ERR_ARG`
    /// if `code` was not added, or the text exceeds MPI_MAX_ERROR_STRING.
    pub fn set_text(&mut self, code: i32, text: &[u8]) -> Result<()> {
        let added = self.added_mut(code, "errorcode")?;
        if text.len() > MAX_TEXT {
            let why =
                format!("the string has {} bytes; at most {MAX_TEXT} are allowed", text.len());
            return Err(MpiError::new(abi::MPI_ERR_ARG, why));
        }
        added.text = Some(text.into());
        Ok(())
    }

    /// Removes an added class (`MPI_Remove_error_class`). Fails with `MPI_ERR_ARG` if it was not
    /// added, or still has codes or a text.
    pub fn remove_class(&mut self, class: i32) -> Result<()> {
        if self.added_mut(class, "errorclass")?.class != class {
            let text = format!("errorclass {} is an error code, not a class", shown(class));
            return Err(MpiError::new(abi::MPI_ERR_ARG, text));
        }
        if let Some((code, _)) =
            self.added.iter().find(|(code, a)| a.class == class && **code != class)
        {
            let (class, code) = (shown(class), shown(*code));
            let text =
                format!("error class {class} still has error code {code}: remove that first");
            return Err(MpiError::new(abi::MPI_ERR_ARG, text));
        }
        self.check_silent(class)?;
        self.added.remove(&class);
        Ok(())
    }

    /// Removes an added code (`MPI_Remove_error_code`). Fails with `MPI_ERR_ARG` if it was not
    /// added, or still has a text.
    pub fn remove_code(&mut self, code: i32) -> Result<()> {
        if self.added_mut(code, "errorcode")?.class == code {
            let code = shown(code);
            let text = format!("errorcode {code} is an error class: use MPI_Remove_error_class");
            return Err(MpiError::new(abi::MPI_ERR_ARG, text));
        }
        self.check_silent(code)?;
        self.added.remove(&code);
        Ok(())
    }

    fn check_silent(&self, code: i32) -> Result<()> {
        match self.added.get(&code) {
            Some(AddedCode { text: Some(_), .. }) => Err(MpiError::new(
                abi::MPI_ERR_ARG,
                format!(
                    "error code {} still has a string: remove that first (MPI_Remove_error_string)",
                    shown(code)
                ),
            )),
            _ => Ok(()),
        }
    }

    /// Removes the text of an added class or code (`MPI_Remove_error_string`). Fails with
    /// `MPI_ERR_ARG` if `code` was not added, or has no text.
    pub fn remove_text(&mut self, code: i32) -> Result<()> {
        if self.added_mut(code, "errorcode")?.text.take().is_none() {
            return Err(MpiError::new(
                abi::MPI_ERR_ARG,
                format!("error code {} has no string", shown(code)),
            ));
        }
        Ok(())
    }

    fn next(&mut self) -> Result<i32> {
        self.last = self
            .last
            .checked_add(1)
            .ok_or_else(|| MpiError::new(abi::MPI_ERR_OTHER, "all error codes are used up"))?;
        Ok(self.last)
    }

    fn added_mut(&mut self, code: i32, what: &str) -> Result<&mut AddedCode> {
        self.added.get_mut(&code).ok_or_else(|| {
            let why = if error_class(code).is_some() {
                "belongs to the standard"
            } else {
                "was not added"
            };
            MpiError::new(abi::MPI_ERR_ARG, format!("{what} {} {why}", shown(code)))
        })
    }
}

fn shown(code: i32) -> Shown {
    shown::number(ValueKind::Code, code)
}

impl Default for ErrorCodes {
    fn default() -> Self {
        ErrorCodes::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_rise_and_are_not_used_again() {
        let mut codes = ErrorCodes::new();
        assert_eq!(codes.last_used(), abi::MPI_ERR_LASTCODE);
        let class = codes.add_class().unwrap();
        let code = codes.add_code(class).unwrap();
        let other = codes.add_code(abi::MPI_ERR_IO).unwrap();
        assert_eq!([class, code, other], [1, 2, 3].map(|n| abi::MPI_ERR_LASTCODE + n));
        assert_eq!(
            [class, code, other].map(|c| codes.class_of(c)),
            [Some(class), Some(class), Some(abi::MPI_ERR_IO)]
        );
        codes.remove_code(other).unwrap();
        assert_eq!(codes.class_of(other), None);
        assert_eq!(codes.last_used(), other);
        assert_eq!(codes.add_class().unwrap(), other + 1);
    }

    #[test]
    fn what_is_in_use_stays() {
        let mut codes = ErrorCodes::new();
        let class = codes.add_class().unwrap();
        let code = codes.add_code(class).unwrap();
        assert_eq!(codes.text(code), Some(&b""[..]));
        codes.set_text(code, b"too hot").unwrap();
        assert_eq!(codes.text(code), Some(&b"too hot"[..]));
        for wrong in [
            codes.remove_class(class),
            codes.remove_code(code),
            codes.remove_code(class),
            codes.remove_class(code),
            codes.remove_text(class),
            codes.remove_class(abi::MPI_ERR_IO),
            codes.set_text(abi::MPI_ERR_IO, b""),
            codes.set_text(code, &[b'x'; MAX_TEXT + 1]),
            codes.add_code(code).map(drop),
            codes.add_code(-1).map(drop),
        ] {
            assert_eq!(wrong.unwrap_err().class(), abi::MPI_ERR_ARG);
        }
        codes.remove_text(code).unwrap();
        codes.remove_code(code).unwrap();
        codes.remove_class(class).unwrap();
        assert_eq!((codes.class_of(class), codes.text(code)), (None, None));
    }
}
