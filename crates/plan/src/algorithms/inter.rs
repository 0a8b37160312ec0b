//! Collectives of two groups (intercommunicators). Data go directly from each sender to each
//! receiver in the other group; the first rank of a group, its leader, combines the contributions
//! of the group.

use crate::call::{Groups, InterCollective, InterRole, TeamMember};
use crate::edges::{Edge, Edges};

pub(crate) fn movement(me: TeamMember, groups: Groups, what: &InterCollective) -> Edges {
    let remote = groups.remote(me);
    let whole = |peer, len| Edge { peer, start: 0, len };
    let blocks = |blocks: &crate::Blocks| {
        let spans = (0..blocks.how_many()).map(|index| (blocks.start(index), blocks.length(index)));
        remote
            .clone()
            .zip(spans)
            .map(|(peer, (start, len))| Edge { peer, start, len })
            .collect::<Vec<_>>()
    };
    match what {
        InterCollective::Bcast { part: InterRole::Root, bytes } => {
            Edges::new(remote.map(|peer| whole(peer, bytes.0)), [])
        }
        InterCollective::Bcast { part: InterRole::Leaf { root }, bytes } => {
            Edges::new([], [whole(*root, bytes.0)])
        }
        InterCollective::Gather { part: InterRole::Leaf { root }, mine, .. } => {
            Edges::new([whole(*root, mine.0)], [])
        }
        InterCollective::Gather { part: InterRole::Root, all, .. } => {
            Edges::new([], all.get().map(blocks).unwrap_or_default())
        }
        InterCollective::Scatter { part: InterRole::Leaf { root }, mine, .. } => {
            Edges::new([], [whole(*root, mine.0)])
        }
        InterCollective::Scatter { part: InterRole::Root, all, .. } => {
            Edges::new(all.get().map(blocks).unwrap_or_default(), [])
        }
        InterCollective::Allgather { mine, remote: theirs } => {
            Edges::new(remote.clone().map(|peer| whole(peer, mine.0)), blocks(&theirs.0))
        }
        InterCollective::Alltoall { send, receive } => {
            Edges::new(blocks(&send.0), blocks(&receive.0))
        }
        _ => Edges::new([], []),
    }
}

/// The messages between the groups in a reduction, whose leaders have the results.
pub(crate) fn results(me: TeamMember, groups: Groups, what: &InterCollective) -> Edges {
    let (local, remote) = (groups.local(me), groups.remote(me));
    let leads = me.rank == local.start;
    let whole = |peer, len| Edge { peer, start: 0, len };
    match what {
        InterCollective::Reduce { part: InterRole::Leaf { root }, count, .. } if leads => {
            Edges::new([whole(*root, count.0)], [])
        }
        InterCollective::Reduce { part: InterRole::Root, count, .. } => {
            Edges::new([], [whole(remote.start, count.0)])
        }
        InterCollective::Allreduce { count, .. } => {
            let sends = if leads { remote.clone() } else { 0..0 };
            Edges::new(sends.map(|peer| whole(peer, count.0)), [whole(remote.start, count.0)])
        }
        InterCollective::ReduceScatter { local: blocks, .. } if leads => {
            let other = whole(remote.start, blocks.0.total());
            Edges::new([other], [other])
        }
        _ => Edges::new([], []),
    }
}
