//! The ways of a process beside its rings and inbox: sockets, postboxes, or both; and which peers they are the way to.

use super::choice::Far;
use super::far::Sockets;
use crate::postboxes::Postboxes;
use crate::shm::Shm;
use crate::{Counts, Fabric, Message, Sent, Sink, Unreachable};
use oxmpi_mem::buffer::UserBuf;

/// The way to a peer.
pub(super) enum Way<'a> {
    Shm(&'a mut Shm),
    Far(&'a mut Far),
    Postboxes(&'a mut Postboxes),
}

/// The other ways: at least one.
#[derive(Debug, Default)]
pub(super) struct Others {
    pub(super) sockets: Option<Sockets>,
    pub(super) postboxes: Option<Postboxes>,
}

impl Others {
    /// The sockets, if they are the way to this peer.
    #[inline]
    pub(super) fn far(&mut self, peer: u32) -> Option<&mut Far> {
        self.sockets.as_mut()?.to(peer)
    }

    /// The sockets, if they are the way to this peer and have one for short messages.
    #[inline]
    pub(super) fn straight(&mut self, peer: u32) -> Option<&mut Sockets> {
        if self.postboxes.as_ref().is_some_and(|postboxes| postboxes.reach(peer)) {
            return None;
        }
        let sockets = self.sockets.as_mut()?;
        (sockets.quiescing.is_none() && sockets.reaches(peer)).then_some(sockets)
    }

    /// The way to a peer. Processes of other jobs have no postboxes.
    #[inline]
    pub(super) fn way<'a>(&'a mut self, peer: u32, shm: &'a mut Shm) -> Way<'a> {
        if let Some(postboxes) = self.postboxes.as_mut().filter(|postboxes| postboxes.reach(peer)) {
            return Way::Postboxes(postboxes);
        }
        match self.sockets.as_mut().and_then(|sockets| sockets.to(peer)) {
            Some(far) => Way::Far(far),
            None => Way::Shm(shm),
        }
    }

    /// Sends a message, of which `whole` is the body if it may be used until it is gone.
    pub(super) fn send(
        &mut self,
        shm: &mut Shm,
        to: u32,
        message: &Message<'_>,
        whole: Option<&UserBuf>,
    ) -> Result<Sent, Unreachable> {
        if let Some(postboxes) = self.postboxes.as_mut().filter(|postboxes| postboxes.reach(to)) {
            if postboxes.is_strange(to) {
                postboxes.meet(to, shm.neighbour(to)?);
            }
            return postboxes.send(to, message);
        }
        if let Some(sockets) = &mut self.sockets
            && sockets.reaches(to)
        {
            return sockets.send(to, message, whole);
        }
        shm.send(to, message)
    }

    pub(super) fn poll<S: Sink>(&mut self, shm: &mut Shm, except: Option<u32>, sink: &mut S) -> bool {
        if let (Some(sockets), None) = (&mut self.sockets, &self.postboxes)
            && sockets.nodes().is_none()
        {
            return sockets.poll(except, sink);
        }
        let mut came = match except {
            None => shm.poll(sink),
            Some(peer) => shm.poll_except(peer, sink),
        };
        came |= self.poll_postboxes(shm, sink);
        match &mut self.sockets {
            Some(sockets) => sockets.is_look_due(came) && sockets.poll(except, sink) || came,
            None => came,
        }
    }

    /// As [`Others::poll`], at all of these for sure.
    pub(super) fn poll_all<S: Sink>(&mut self, shm: &mut Shm, sink: &mut S) -> bool {
        let near = self.poll_postboxes(shm, sink);
        self.sockets.as_mut().is_some_and(|sockets| sockets.poll(None, sink)) || near
    }

    fn poll_postboxes<S: Sink>(&mut self, shm: &mut Shm, sink: &mut S) -> bool {
        let Some(postboxes) = &mut self.postboxes else { return false };
        let came = postboxes.poll(sink);
        if came {
            while let Some(peer) = postboxes.waiting_stranger() {
                match shm.neighbour(peer) {
                    Ok(neighbour) => postboxes.meet(peer, neighbour),
                    Err(_) => postboxes.give_up_ringing(peer),
                }
            }
        }
        came
    }

    pub(super) fn leave(&mut self) -> bool {
        let near = self.postboxes.as_mut().is_none_or(Postboxes::leave);
        self.sockets.as_mut().is_none_or(|sockets| sockets.far.leave()) && near
    }

    pub(super) fn rest(&mut self) -> bool {
        let near = self.postboxes.as_mut().is_none_or(Postboxes::rest);
        self.sockets.as_mut().is_none_or(|sockets| sockets.far.rest()) && near
    }

    pub(super) fn counts(&mut self, shm: &mut Shm) -> Counts {
        let counts = match &mut self.sockets {
            Some(sockets) => sockets.counts(shm),
            None => shm.counts(),
        };
        let Some(postboxes) = &mut self.postboxes else { return counts };
        let Counts {
            postbox_bytes,
            postbox_pool_bytes,
            postbox_pool_used,
            pooled_pieces,
            boxed_pieces,
            pauses,
            ..
        } = postboxes.counts();
        Counts {
            postbox_bytes,
            postbox_pool_bytes,
            postbox_pool_used,
            pooled_pieces,
            boxed_pieces,
            pauses,
            ..counts
        }
    }
}
