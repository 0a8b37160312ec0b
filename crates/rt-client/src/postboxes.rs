//! The postbox segments of a job: their sizes from the parameters, and their files.

use oxmpi_param::Params;
use oxmpi_param::module::{Module, PostboxSizes};
use oxmpi_shm::postbox::{PostboxArea, PostboxError, PostboxShape};
use oxmpi_sys::semaphore::SemaphoreSets;
use std::os::fd::OwnedFd;

use crate::control::Reply;

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

    /// The answer to the request of the rank with this number among those of the job on its node.
    pub fn reply(&self, local_rank: u32) -> Reply {
        let PostboxShape { ranks, short, pool } = self.shape;
        let sets = self.semaphores.as_ref();
        let semaphores = sets.map_or(Vec::new(), |sets| sets.of(local_rank));
        Reply::Postboxes { ranks, short, pool, semaphores }
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
    fn as_many_semaphore_sets_as_there_can_be_fit_in_a_message() {
        let semaphores = vec![i32::MAX; oxmpi_sys::semaphore::MOST_RANKS as usize];
        let (short, pool) = (u64::MAX, u64::MAX);
        let reply = Reply::Postboxes { ranks: u32::MAX, short, pool, semaphores };
        assert!(reply.encode().len() <= crate::control::MAX_MESSAGE);
    }
}
