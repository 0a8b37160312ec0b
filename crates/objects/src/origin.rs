//! The origin of an object: the World Model, or a session of the process (MPI-5.0, "The Sessions
//! Model"). Communicators and groups inherit it. A call takes only objects of one origin.

use crate::error::{MpiError, Result};
use std::ffi::c_int;
use std::fmt;

/// The World Model or a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Origin(u32);

impl Origin {
    /// The origin of MPI_COMM_WORLD, MPI_COMM_SELF and all objects made from them.
    pub const WORLD: Origin = Origin(0);

    /// The number of different origins of sessions.
    pub const SESSIONS: u32 = (1 << 31) - 2;

    /// The `n`th session of the process, counted from 0. After [`Origin::SESSIONS`] sessions,
    /// origins are used again.
    pub const fn of_session(n: u64) -> Origin {
        Origin((n % Origin::SESSIONS as u64) as u32 + 1)
    }

    /// The session as a number from 1 to [`Origin::SESSIONS`]; `None` for the World Model.
    pub const fn session(self) -> Option<u32> {
        if self.0 == 0 { None } else { Some(self.0) }
    }

    /// Whether the origin is the World Model.
    pub const fn is_world(self) -> bool {
        self.0 == 0
    }

    /// Fails with the error class `class` if another object of a call has a different origin.
    /// `what` names that object in the message.
    pub fn check_same(self, other: Origin, class: c_int, what: &str) -> Result<()> {
        if self == other {
            return Ok(());
        }
        let text = format!(
            "{what} is of {other}, the first object of the call of {self}: objects of different sessions, or of a session and the World Model, must not be mixed in a call"
        );
        Err(MpiError::new(class, text))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.session() {
            None => f.write_str("the World Model"),
            Some(number) => write!(f, "session {number} of the process"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use oxmpi_abi::constants::MPI_ERR_GROUP;

    #[test]
    fn origins_are_distinct() {
        let (first, second) = (Origin::of_session(0), Origin::of_session(1));
        assert!(Origin::WORLD.is_world() && Origin::WORLD.session().is_none());
        assert_eq!((first.session(), second.session()), (Some(1), Some(2)));
        assert_eq!(Origin::of_session(u64::from(Origin::SESSIONS)), first);
        assert!(first.check_same(first, MPI_ERR_GROUP, "group2").is_ok());
        let error = first.check_same(Origin::WORLD, MPI_ERR_GROUP, "group2").unwrap_err();
        assert_eq!(error.class(), MPI_ERR_GROUP);
        assert!(error.detail().starts_with("group2 is of the World Model, "), "{}", error.detail());
    }
}
