//! The boot record, at the beginning of a segment (rule 1).

use super::{LAYOUT_VERSION, MAGIC, SegmentConfig};
use crate::{control_section::PoolSegments, inbox::CELL_BYTES};

/// The facts that a process needs before it can communicate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Boot {
    /// Identifies all jobs of one launcher.
    pub job_id: u64,
    /// The owner's number among all processes of its launcher, spawned ones last.
    pub rank: u32,
    /// The number of rank 0 of the owner's MPI_COMM_WORLD: 0 unless its job was spawned.
    pub base: u32,
    pub size: u32,
    pub local_rank: u32,
    pub local_size: u32,
    /// The index of the owner's program in the job (MPI_APPNUM).
    pub app: u32,
    /// Whether the node has more ranks than processors for them.
    pub oversubscribed: bool,
    /// Whether all processes of the node use asymmetric barriers ([`oxmpi_sys::barrier`]).
    pub asymmetric: bool,
    /// Whether the ranks of the job use sockets instead of their segments.
    pub sockets: bool,
    /// The owner's node, if the job has several: only processes of one node can share memory.
    pub node: Option<u32>,
    pub config: SegmentConfig,
}

impl Boot {
    /// The record of rank `rank` of a job of `size` ranks on one node: not oversubscribed,
    /// symmetric barriers, one program, default sizes. Change fields for everything else.
    pub fn on_one_node(job_id: u64, rank: u32, size: u32) -> Boot {
        Boot {
            job_id,
            rank,
            base: 0,
            size,
            local_rank: rank,
            local_size: size,
            app: 0,
            oversubscribed: false,
            asymmetric: false,
            sockets: false,
            node: None,
            config: SegmentConfig::default(),
        }
    }
}

#[repr(C)]
pub(super) struct Header {
    pub(super) magic: u64,
    pub(super) version: u32,
    header_bytes: u32,
    pub(super) segment_bytes: u64,
    job_id: u64,
    heap_bytes: u64,
    rank: u32,
    base: u32,
    size: u32,
    local_rank: u32,
    local_size: u32,
    app: u32,
    node: u32,
    flags: u32,
    inbox_cells: u32,
    pub(super) inbox_cell_bytes: u32,
    ring_slots: u32,
    ring_data_bytes: u32,
    ring_chunk_bytes: u32,
    max_rings: u32,
    control_sections: u32,
    control_section_ranks: u32,
    control_section_segments: u32,
    control_section_segment_bytes: u32,
    pool_bytes: u32,
    pool_block_bytes: u32,
}

const FLAG_OVERSUBSCRIBED: u32 = 1;
const FLAG_ASYMMETRIC: u32 = 2;
const FLAG_SOCKETS: u32 = 4;
const FLAG_NODES: u32 = 8;

impl Header {
    /// The header of a segment with these sizes, which may be smaller than those of `boot`.
    pub(super) fn new(boot: &Boot, config: &SegmentConfig) -> Header {
        Header {
            magic: MAGIC,
            version: LAYOUT_VERSION,
            header_bytes: size_of::<Header>() as u32,
            segment_bytes: config.bytes() as u64,
            job_id: boot.job_id,
            heap_bytes: config.heap_bytes,
            rank: boot.rank,
            base: boot.base,
            size: boot.size,
            local_rank: boot.local_rank,
            local_size: boot.local_size,
            app: boot.app,
            node: boot.node.unwrap_or(0),
            flags: u32::from(boot.oversubscribed) * FLAG_OVERSUBSCRIBED
                + u32::from(boot.asymmetric) * FLAG_ASYMMETRIC
                + u32::from(boot.sockets) * FLAG_SOCKETS
                + u32::from(boot.node.is_some()) * FLAG_NODES,
            inbox_cells: config.inbox_cells,
            inbox_cell_bytes: CELL_BYTES as u32,
            ring_slots: config.ring_slots,
            ring_data_bytes: config.ring_data_bytes,
            ring_chunk_bytes: config.ring_chunk_bytes,
            max_rings: config.max_rings,
            control_sections: config.control_sections,
            control_section_ranks: config.control_section_ranks,
            control_section_segments: config.control_section_pool.count,
            control_section_segment_bytes: config.control_section_pool.bytes,
            pool_bytes: config.pool_bytes,
            pool_block_bytes: config.pool_block_bytes,
        }
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        // SAFETY: `Header` is `repr(C)`, all integers, without padding except at the end.
        unsafe {
            std::slice::from_raw_parts(
                std::ptr::from_ref(self).cast::<u8>(),
                std::mem::offset_of!(Header, pool_block_bytes) + 4,
            )
        }
    }

    pub(super) fn boot(&self) -> Boot {
        Boot {
            job_id: self.job_id,
            rank: self.rank,
            base: self.base,
            size: self.size,
            local_rank: self.local_rank,
            local_size: self.local_size,
            app: self.app,
            oversubscribed: self.flags & FLAG_OVERSUBSCRIBED != 0,
            asymmetric: self.flags & FLAG_ASYMMETRIC != 0,
            sockets: self.flags & FLAG_SOCKETS != 0,
            node: (self.flags & FLAG_NODES != 0).then_some(self.node),
            config: SegmentConfig {
                inbox_cells: self.inbox_cells,
                ring_slots: self.ring_slots,
                ring_data_bytes: self.ring_data_bytes,
                ring_chunk_bytes: self.ring_chunk_bytes,
                max_rings: self.max_rings,
                control_sections: self.control_sections,
                control_section_ranks: self.control_section_ranks,
                control_section_pool: PoolSegments {
                    count: self.control_section_segments,
                    bytes: self.control_section_segment_bytes,
                },
                pool_bytes: self.pool_bytes,
                pool_block_bytes: self.pool_block_bytes,
                heap_bytes: self.heap_bytes,
            },
        }
    }
}

/// The header of `fd`, with zeroes for the missing part of a shorter file.
pub(super) fn read_header(fd: std::os::fd::BorrowedFd<'_>) -> rustix::io::Result<Header> {
    let mut raw = [0u8; size_of::<Header>()];
    rustix::io::pread(fd, &mut raw[..], 0)?;
    // SAFETY: `Header` is all integers, for which any bytes are a value.
    Ok(unsafe { raw.as_ptr().cast::<Header>().read_unaligned() })
}
