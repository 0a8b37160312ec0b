//! The segments with postboxes of a job over usysv or sysv: their sizes by the parameters, and the files.

use oxmpi_os::postbox::{PostboxArea, PostboxError, PostboxShape};
use oxmpi_param::{Params, Transport};
use std::os::fd::OwnedFd;
use std::str::FromStr;

/// What a segment has of the pool by default for each rank, and at most, bytes.
const POOL_OF_RANK: u64 = 1 << 20;
const POOL_MOST: u64 = 64 << 20;
/// The longest piece of a message by default, bytes.
const PIECE_MOST: u64 = 256 << 10;

/// The sizes of the segment that `ranks` ranks of a node share, and the most bytes that a piece of a long message takes of its
/// pool. `None`: the transport has no postboxes.
pub fn postbox_sizes(params: &Params, transport: Transport, ranks: u32) -> Option<(PostboxShape, usize)> {
    let (short, pool, piece) = match transport {
        Transport::Usysv => {
            (params.rpi_usysv_short(), params.rpi_usysv_shmpoolsize(), params.rpi_usysv_shmmaxalloc())
        }
        Transport::Sysv => {
            (params.rpi_sysv_short(), params.rpi_sysv_shmpoolsize(), params.rpi_sysv_shmmaxalloc())
        }
        _ => return None,
    };
    let ranks = ranks.max(1);
    let of_all = (u64::from(ranks) * POOL_OF_RANK).min(POOL_MOST);
    let pool = u64::try_from(pool).unwrap_or(of_all);
    let of_piece = (pool / u64::from(ranks) / 4).clamp(1, PIECE_MOST);
    let piece = u64::try_from(piece).ok().filter(|piece| *piece > 0).unwrap_or(of_piece);
    Some((PostboxShape { ranks, short: short as u64, pool }, piece as usize))
}

/// A segment with postboxes, as the launcher holds it.
#[derive(Debug)]
pub struct PostboxFile {
    /// Its descriptor.
    pub fd: OwnedFd,
    /// Its sizes.
    pub shape: PostboxShape,
}

impl PostboxFile {
    /// Makes one.
    ///
    /// # Errors
    /// The sizes are impossible, or the kernel refuses.
    pub fn create(shape: PostboxShape) -> Result<PostboxFile, PostboxError> {
        Ok(PostboxFile { fd: PostboxArea::create(&shape)?, shape })
    }

    /// Maps it.
    ///
    /// # Errors
    /// The kernel refuses, or the file is another one.
    pub fn map(&self) -> Result<PostboxArea, PostboxError> {
        PostboxArea::map(&self.fd, self.shape)
    }
}

/// Sizes as a text: ranks, short and pool.
pub(crate) fn shape_text(shape: &PostboxShape) -> String {
    format!("{} {} {}", shape.ranks, shape.short, shape.pool)
}

/// Reads [`shape_text`].
pub(crate) fn shape_of(text: &str) -> Option<PostboxShape> {
    fn next<N: FromStr>(words: &mut std::str::Split<'_, char>) -> Option<N> {
        words.next()?.parse().ok()
    }
    let mut words = text.split(' ');
    let shape = PostboxShape { ranks: next(&mut words)?, short: next(&mut words)?, pool: next(&mut words)? };
    words.next().is_none().then_some(shape)
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
        assert_eq!(sizes(&[("rpi", "sysv"), ("rpi_sysv_shmpoolsize", "0")], 2), (shape(2, 8192, 0), 1));
        assert_eq!(postbox_sizes(&Params::default(), Transport::Tcp, 2), None);
    }

    #[test]
    fn a_shape_survives_the_wire() {
        let shape = PostboxShape { ranks: 7, short: 100, pool: 1 << 40 };
        assert_eq!(shape_of(&shape_text(&shape)), Some(shape));
        for text in ["", "1 2", "1 2 3 4", "1 2 x", "-1 2 3"] {
            assert_eq!(shape_of(text), None, "{text}");
        }
    }
}
