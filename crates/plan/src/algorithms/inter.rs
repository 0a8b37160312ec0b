//! Collectives of two groups (intercommunicators). Data between the groups go directly from each
//! sender to each receiver; the first rank of a group, its leader, combines the group's
//! contributions.

use crate::call::{Between, Groups, Member, Part};
use crate::edges::{Edge, Edges};

/// The messages of a call without a reduction.
pub(crate) fn movement(me: Member, groups: Groups, what: &Between) -> Edges {
    let remote = groups.remote(me);
    let whole = |peer, len| Edge { peer, start: 0, len };
    let blocks = |blocks: &crate::Blocks| {
        let spans = (0..blocks.how_many()).map(|index| (blocks.start(index), blocks.length(index)));
        remote.clone().zip(spans).map(|(peer, (start, len))| Edge { peer, start, len }).collect::<Vec<_>>()
    };
    match what {
        Between::Bcast { part: Part::Root, bytes } => Edges::new(remote.map(|peer| whole(peer, bytes.0)), []),
        Between::Bcast { part: Part::Leaf { root }, bytes } => Edges::new([], [whole(*root, bytes.0)]),
        Between::Gather { part: Part::Leaf { root }, mine, .. } => Edges::new([whole(*root, mine.0)], []),
        Between::Gather { part: Part::Root, all, .. } => {
            Edges::new([], all.get().map(blocks).unwrap_or_default())
        }
        Between::Scatter { part: Part::Leaf { root }, mine, .. } => Edges::new([], [whole(*root, mine.0)]),
        Between::Scatter { part: Part::Root, all, .. } => {
            Edges::new(all.get().map(blocks).unwrap_or_default(), [])
        }
        Between::Allgather { mine, remote: theirs } => {
            Edges::new(remote.clone().map(|peer| whole(peer, mine.0)), blocks(&theirs.0))
        }
        Between::Alltoall { send, receive } => Edges::new(blocks(&send.0), blocks(&receive.0)),
        _ => Edges::new([], []),
    }
}

/// The messages between the groups of a reduction; the leader of each group has its result.
pub(crate) fn results(me: Member, groups: Groups, what: &Between) -> Edges {
    let (local, remote) = (groups.local(me), groups.remote(me));
    let leads = me.rank == local.start;
    let whole = |peer, len| Edge { peer, start: 0, len };
    match what {
        Between::Reduce { part: Part::Leaf { root }, count, .. } if leads => {
            Edges::new([whole(*root, count.0)], [])
        }
        Between::Reduce { part: Part::Root, count, .. } => Edges::new([], [whole(remote.start, count.0)]),
        Between::Allreduce { count, .. } => {
            let sends = if leads { remote.clone() } else { 0..0 };
            Edges::new(sends.map(|peer| whole(peer, count.0)), [whole(remote.start, count.0)])
        }
        Between::ReduceScatter { local: blocks, .. } if leads => {
            let other = whole(remote.start, blocks.0.total());
            Edges::new([other], [other])
        }
        _ => Edges::new([], []),
    }
}
