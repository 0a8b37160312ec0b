//! Functions beyond the standard that the library exports, in the name space that MPI libraries use for that.

/// The names of the extensions, `MPIX_X`, in order. Each is exported as an ordinary `PMPIX_X` with the weak name `MPIX_X`,
/// as the functions of the standard are, and declared in `mpi-ext.h`, which programs include behind `mpi.h`.
pub const EXTENSIONS: [&str; 0] = [];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_unique_and_of_the_right_space() {
        assert!(EXTENSIONS.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(EXTENSIONS.iter().all(|name| name.starts_with("MPIX_")));
    }
}
