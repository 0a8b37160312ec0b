//! The postbox segments of a job: their sizes from the parameters, and their files.

use oxmpi_param::Params;
use oxmpi_param::module::{Module, PostboxSizes};
use oxmpi_shm::postbox::{PostboxArea, PostboxError, PostboxShape};
use oxmpi_sys::semaphore::SemaphoreSets;
use std::os::fd::OwnedFd;
use std::str::FromStr;

/// The sizes of the segment that `ranks` ranks of a node share, and the longest piece of a message
/// in its pool, in bytes. `None`: the transport has no postboxes.
pub fn postbox_sizes(
    params: &Params,
    transport: &Module,
    ranks: u32,
) -> Option<(PostboxShape, usize)> {
    let PostboxSizes { short, pool, piece } = transport.postboxes()?.of(params, ranks);
    Some((PostboxShape { ranks: ranks.max(1), short, pool }, piece as usize))
}

/// A segment with postboxes, on the launcher's side.
#[derive(Debug)]
pub struct PostboxFile {
    pub fd: OwnedFd,
    pub shape: PostboxShape,
    /// None if the transport uses no semaphores.
    pub semaphores: Option<SemaphoreSets>,
}

impl PostboxFile {
    /// Creates the segment.
    pub fn create(shape: PostboxShape) -> Result<PostboxFile, PostboxError> {
        Ok(PostboxFile { fd: PostboxArea::create(&shape)?, shape, semaphores: None })
    }

    /// The description that a rank receives: ranks, short, pool, and the semaphore sets of the rank
    /// at `place`.
    pub fn description(&self, place: u32) -> String {
        let PostboxShape { ranks, short, pool } = self.shape;
        let mut text = format!("{ranks} {short} {pool}");
        let sets = self.semaphores.as_ref().map_or(Vec::new(), |sets| sets.of(place));
        sets.iter().for_each(|set| text += &format!(" {set}"));
        text
    }
}

/// A segment with postboxes, on a rank's side.
#[derive(Debug)]
pub struct SharedPostboxes {
    pub fd: OwnedFd,
    pub shape: PostboxShape,
    /// The semaphore sets of the rank, as `oxmpi_sys::semaphore::SemaphoreSets::of` returns them.
    pub semaphores: Vec<i32>,
}

impl SharedPostboxes {
    /// Maps the segment.
    pub fn map(&self) -> Result<PostboxArea, PostboxError> {
        PostboxArea::map(&self.fd, self.shape)
    }
}

pub(crate) fn parse_description(text: &str) -> Option<(PostboxShape, Vec<i32>)> {
    fn next<N: FromStr>(words: &mut std::str::Split<'_, char>) -> Option<N> {
        words.next()?.parse().ok()
    }
    let mut words = text.split(' ');
    let shape = PostboxShape {
        ranks: next(&mut words)?,
        short: next(&mut words)?,
        pool: next(&mut words)?,
    };
    Some((shape, words.map(|word| word.parse().ok()).collect::<Option<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(pairs: &[(&str, &str)], ranks: u32) -> (PostboxShape, usize) {
        let mut params = Params::default();
        for (name, value) in pairs {
            params.set(name, value).unwrap();
        }
        postbox_sizes(&params, params.rpi(), ranks).unwrap()
    }

    #[test]
    fn the_sizes_follow_the_parameters() {
        let shape = |ranks, short, pool| PostboxShape { ranks, short, pool };
        assert_eq!(sizes(&[("rpi", "usysv")], 4), (shape(4, 8192, 4 << 20), 256 << 10));
        assert_eq!(sizes(&[("rpi", "sysv")], 128), (shape(128, 8192, 64 << 20), 128 << 10));
        for rpi in ["usysv", "sysv"] {
            let name = |what: &str| format!("rpi_ssi_{rpi}_{what}");
            let set = [
                ("rpi", rpi),
                (&*name("short"), "100"),
                (&*name("shmpoolsize"), "64k"),
                (&*name("shmmaxalloc"), "1000"),
            ];
            assert_eq!(sizes(&set, 2), (shape(2, 100, 64 << 10), 1000));
            assert_eq!(sizes(&set[..3], 2), (shape(2, 100, 64 << 10), 8 << 10));
        }
        assert_eq!(
            sizes(&[("rpi", "sysv"), ("rpi_sysv_shmpoolsize", "0")], 2),
            (shape(2, 8192, 0), 1)
        );
        assert_eq!(postbox_sizes(&Params::default(), Module::named("tcp").unwrap(), 2), None);
    }

    #[test]
    fn a_description_is_read_as_it_was_written() {
        let shape = PostboxShape { ranks: 3, short: 100, pool: 1 << 20 };
        let mut file = PostboxFile::create(shape).unwrap();
        assert_eq!(parse_description(&file.description(1)), Some((shape, vec![])));
        let sets = SemaphoreSets::create(3).unwrap();
        let of_one = sets.of(1);
        assert_eq!(of_one.len(), 3);
        file.semaphores = Some(sets);
        assert_eq!(parse_description(&file.description(1)), Some((shape, of_one)));
        for text in ["", "1 2", "1 2 3 x", "1 2 x", "-1 2 3", "1 2 3 "] {
            assert_eq!(parse_description(text), None, "{text}");
        }
    }

    #[test]
    fn as_many_semaphore_sets_as_there_can_be_fit_in_a_message() {
        let longest = i32::MAX.to_string().len() + 1;
        let sets = oxmpi_sys::semaphore::MOST_RANKS as usize;
        assert!(64 + sets * longest <= crate::control::MAX_MESSAGE);
    }
}
