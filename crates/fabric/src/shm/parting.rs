//! Processes of other jobs with which this process no longer has a communicator.
//!
//! A process that has called MPI_Finalize writes nothing more. Then its state is dropped, its
//! memory unmapped, and its ring in the own segment is free for another peer. The last frames in
//! the ring can only be hints, because a disconnect waits for everything else. The check takes
//! place when such a process is added.

use super::Shm;
use oxmpi_shm::segment::RankState;

const NO_OWNER: u32 = u32::MAX;

#[derive(Debug, Default)]
pub(super) struct Parted {
    peers: Vec<u32>,
    /// Rings in the own segment that belonged to such processes.
    free_rings: Vec<u32>,
}

impl Shm {
    pub(crate) fn attach(&mut self, peer: u32) {
        self.parted.peers.retain(|other| *other != peer);
        self.drop_finished();
    }

    pub(crate) fn detach(&mut self, peer: u32) {
        if !self.parted.peers.contains(&peer) {
            self.parted.peers.push(peer);
        }
    }

    pub(super) fn free_ring(&self) -> Option<u32> {
        let new = self.granted.len() as u32;
        let ring = self.parted.free_rings.last().copied();
        ring.or((new < self.own.boot().config.max_rings).then_some(new))
    }

    pub(super) fn note_ring(&mut self, ring: u32, peer: u32) {
        self.parted.free_rings.retain(|free| *free != ring);
        match self.granted.get_mut(ring as usize) {
            Some(place) => *place = peer,
            None => self.granted.push(peer),
        }
    }

    fn drop_finished(&mut self) {
        let peers = std::mem::take(&mut self.parted.peers);
        for peer in peers {
            let out = self.out(peer).map(|out| out.segment.status().state());
            match out {
                Some(RankState::Finalized) => self.drop_link(peer),
                Some(_) => self.parted.peers.push(peer),
                None => {}
            }
        }
    }

    fn drop_link(&mut self, peer: u32) {
        if let Some(link) = self.links.get_mut(peer as usize) {
            *link = None;
        }
        self.grants.retain(|(to, _)| *to != peer);
        if let Some(pool) = &mut self.pool {
            pool.forget(peer);
        }
        for (ring, place) in (0..).zip(&mut self.granted) {
            // A ring that cannot be emptied stays without an owner.
            if *place == peer {
                *place = NO_OWNER;
                if self.own.clear_ring(ring).is_ok() {
                    self.parted.free_rings.push(ring);
                }
            }
        }
    }
}
