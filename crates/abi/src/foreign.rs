//! The constants of other MPI libraries' ABIs, for the libraries that serve programs built for
//! them.

use crate::constants::{ALIASES, CONSTANTS, ConstantKind, ERROR_CLASSES, MPI_ERR_LASTCODE};
use crate::extensions;
use std::collections::BTreeMap;

/// The ABI of MPICH, of Intel MPI, MVAPICH and Cray MPICH: `libmpi.so.12`.
pub const MPICH: &str = include_str!("../foreign/mpich.txt");

/// The ABI of Open MPI 4.0 to 5.0: `libmpi.so.40`.
pub const OPEN_MPI: &str = include_str!("../foreign/openmpi.txt");

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

/// An object of another ABI whose address is a handle.
#[derive(Clone, Copy, Debug)]
pub struct ForeignObject {
    pub symbol: &'static str,
    /// Bytes.
    pub size: usize,
    /// The handle in the standard ABI, if there is one.
    pub handle: Option<i64>,
    /// The C type of the handle.
    pub of: Option<&'static str>,
    /// The integer of the handle in Fortran.
    pub fortran: Option<i32>,
}

/// The objects of an ABI: lines with the name of the object in small letters, its size, the name of
/// the constant, and the integer in Fortran.
/// # Errors
/// The line that is no such line.
pub fn foreign_objects(text: &'static str) -> Result<Vec<ForeignObject>, String> {
    let object = |line: &'static str| {
        let mut words = line.split(' ');
        let symbol = words.next()?;
        let size = words.next()?.parse().ok()?;
        let mut object = ForeignObject { symbol, size, handle: None, of: None, fortran: None };
        if let Some(name) = words.next() {
            let constant = CONSTANTS.iter().find(|constant| constant.name == name)?;
            let ConstantKind::Handle(of) = constant.kind else { return None };
            (object.handle, object.of) = (Some(constant.value), Some(of));
            object.fortran = words.next().map(str::parse).transpose().ok()?;
        }
        Some(object)
    };
    let lines = text.lines().filter(|line| is_of_object(line));
    lines.map(|line| object(line).ok_or_else(|| line.to_owned())).collect()
}

fn is_of_object(line: &str) -> bool {
    line.starts_with(|first: char| first.is_ascii_lowercase())
}

/// The constants that both ABIs have, by name; then those of the other ABI for which a constant of
/// another name stands. `text` has a name and a value in each line, and the other name if there is
/// one.
/// # Errors
/// The line that is no such line.
pub fn foreign_constants(text: &'static str) -> Result<Vec<ForeignConstant>, String> {
    let mut foreign = BTreeMap::new();
    let mut renamed = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#') && !is_of_object(line)) {
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
    for (name, foreign, standard) in renamed {
        let extension = extensions::ERROR_CLASSES.iter().find(|class| class.name == standard);
        let constant = match extension {
            Some(class) => {
                ForeignConstant { name, value: class.class.into(), foreign, handle: None }
            }
            None => {
                let constant = found.iter().find(|constant| constant.name == standard);
                let constant =
                    *constant.ok_or_else(|| format!("{name}: there is no {standard}"))?;
                ForeignConstant { name, foreign, ..constant }
            }
        };
        found.push(constant);
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

    #[test]
    fn every_name_is_one_of_the_standard() {
        for text in [MPICH, OPEN_MPI] {
            let known = foreign_constants(text).unwrap();
            let lines = text.lines().filter(|line| line.starts_with("MPI_"));
            let mut names = lines.filter_map(|line| line.split(' ').next());
            assert_eq!(names.find(|name| known.iter().all(|one| one.name != *name)), None);
        }
    }

    #[test]
    fn objects_have_their_handles() {
        let all = foreign_objects(OPEN_MPI).unwrap();
        let find = |symbol| all.iter().find(|object| object.symbol == symbol).unwrap();
        let int = find("ompi_mpi_int");
        assert_eq!((int.size, int.of, int.fortran), (512, Some("MPI_Datatype"), Some(39)));
        assert_eq!(find("ompi_mpi_lb").handle, None);
        for bad in ["ompi_x", "ompi_x y", "ompi_x 1 MPI_ANY_TAG", "ompi_x 1 MPI_INT z"] {
            assert_eq!(foreign_objects(bad).unwrap_err(), bad);
        }
    }
}
