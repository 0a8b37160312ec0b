//! The constants of other MPI libraries' ABIs, for the libraries that serve programs built for
//! them.

use crate::constants::{ALIASES, CONSTANTS, ConstantKind, ERROR_CLASSES, MPI_ERR_LASTCODE};
use std::collections::BTreeMap;

/// The ABI of MPICH, of Intel MPI, MVAPICH and Cray MPICH: `libmpi.so.12`.
pub const MPICH: &str = include_str!("../foreign/mpich.txt");

/// A constant of the standard ABI with its value in another ABI.
#[derive(Clone, Copy, Debug)]
pub struct ForeignConstant {
    pub name: &'static str,
    /// The value in the standard ABI.
    pub value: i64,
    /// The value in the other ABI.
    pub foreign: i64,
    /// The C type of a handle.
    pub handle: Option<&'static str>,
}

/// The constants that both ABIs have, by name; then those of the other ABI for which a constant of
/// another name stands. `text` has a name and a value in each line, and the other name if there is
/// one.
/// # Errors
/// The line that is no such line.
pub fn foreign_constants(text: &'static str) -> Result<Vec<ForeignConstant>, String> {
    let mut foreign = BTreeMap::new();
    let mut renamed = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let mut words = line.split(' ');
        let (Some(name), Some(value)) = (words.next(), words.next()) else {
            return Err(line.to_owned());
        };
        let value = value.parse::<i64>().map_err(|error| format!("{line}: {error}"))?;
        match words.next() {
            Some(standard) => renamed.push((name, value, standard)),
            None => drop(foreign.insert(name, value)),
        }
    }
    let classes = ERROR_CLASSES.iter().map(|class| (class.name, i64::from(class.class), None));
    let last = [("MPI_ERR_LASTCODE", i64::from(MPI_ERR_LASTCODE), None)];
    let handle = |kind| match kind {
        ConstantKind::Handle(of) => Some(of),
        _ => None,
    };
    let plain = CONSTANTS.iter().map(|one| (one.name, one.value, handle(one.kind)));
    let aliases = ALIASES.iter().filter_map(|alias| {
        let target = CONSTANTS.iter().find(|constant| constant.name == alias.target)?;
        Some((alias.name, target.value, handle(target.kind)))
    });
    let all = classes.chain(last).chain(plain).chain(aliases);
    let known = all.filter_map(|(name, value, handle)| {
        Some(ForeignConstant { name, value, foreign: *foreign.get(name)?, handle })
    });
    let mut found: Vec<ForeignConstant> = known.collect();
    for (name, value, standard) in renamed {
        let constant = found.iter().find(|constant| constant.name == standard);
        let constant = *constant.ok_or_else(|| format!("{name}: there is no {standard}"))?;
        found.push(ForeignConstant { name, foreign: value, ..constant });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_of_both_abis_are_found() {
        let all = foreign_constants(MPICH).unwrap();
        let find = |name| all.iter().find(|constant| constant.name == name).unwrap();
        assert_eq!(find("MPI_ANY_SOURCE").foreign, -2);
        assert_eq!(find("MPI_COMM_WORLD").foreign, 0x4400_0000);
        assert_eq!(find("MPI_COMM_WORLD").handle, Some("MPI_Comm"));
        // Libraries that convert rely on it.
        assert_eq!(find("MPI_UNDEFINED").foreign, find("MPI_UNDEFINED").value);
        assert!(foreign_constants("MPI_X one").is_err());
    }
}
