//! The exchange of introductions (rule 1 of the module), and the buffers granted to a peer (rule
//! 4).

use super::introduction::GmIntroduction;
use super::peer::{GmPeer, PeerPort, UNCOUNTED};
use super::{CREDITS, Gm, GmPort};
use crate::{Body, OutgoingMessage, Sent, Unreachable};
use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::net::fill_random;
use oxmpi_wire::Frame;

const SLOTS: usize = 16;
/// The most buffers that a process provides for all peers together if they are not counted.
const POOL: u32 = 128;

impl<P: GmPort> Gm<P> {
    pub(super) fn is_of_launcher(&mut self, peer: u32) -> bool {
        self.nodes.as_mut().is_none_or(|nodes| nodes.node(peer).is_some())
    }

    pub(super) fn grant(&self) -> u32 {
        let limit = self.provided + self.port.receive_tokens();
        let granted = self.provided.saturating_sub(self.spare);
        let first_half = (limit / 2).saturating_sub(granted);
        CREDITS.min(first_half.max(1)).min(limit.saturating_sub(granted))
    }

    fn provide_spare(&mut self, wanted: u32) -> Result<(), String> {
        while self.spare < wanted {
            if self.receive_slots.is_empty() {
                self.receive_slots =
                    self.port.more_slots(SLOTS).map_err(|error| error.to_string())?;
            }
            let Some(slot) = self.receive_slots.pop() else {
                return Err("GM gives no memory".into());
            };
            if let Err(error) = self.port.provide(slot) {
                self.receive_slots.push(slot);
                return Err(error.to_string());
            }
            (self.provided, self.spare) = (self.provided + 1, self.spare + 1);
        }
        Ok(())
    }

    pub(super) fn make_end(&mut self, to: u32) -> Result<(), String> {
        if self.peer(to).is_some() {
            return Ok(());
        }
        let granted = if self.settings.is_fast {
            if self.provided == 0 {
                self.provide_spare(self.port.receive_tokens().min(POOL))?;
                self.spare = 0;
            }
            UNCOUNTED
        } else {
            let granted = self.grant();
            if granted == 0 {
                let all = self.provided;
                return Err(format!(
                    "all {all} receive tokens of the port are granted to other processes: set rpi_gm_fast to 1, or choose '--mca rpi tcp'"
                ));
            }
            self.provide_spare(granted)?;
            granted
        };
        let mut key = [0; 4];
        fill_random(&mut key)
            .map_err(|error| format!("the system has no random numbers: {error}"))?;
        let word = self.port.new_word().map_err(|error| error.to_string())?;
        if granted != UNCOUNTED {
            self.spare -= granted;
        }
        let at = to as usize;
        if self.peers.len() <= at {
            self.peers.resize_with(at + 1, || None);
        }
        self.peers[at] = Some(Box::new(GmPeer::new(u32::from_le_bytes(key), word, granted)));
        Ok(())
    }

    /// Introduces this process to a peer and requests the peer's introduction, once.
    pub(super) fn request_introduction(&mut self, to: u32) -> Result<(), Unreachable> {
        self.make_end(to).map_err(|why| Unreachable { peer: to, why })?;
        let is_due = self.peer(to).is_some_and(|peer| !peer.has_requested && peer.met.is_none());
        let has_requested = is_due && self.introduce(to, true)?;
        if let Some(peer) = self.peer(to) {
            peer.has_requested |= has_requested;
        }
        Ok(())
    }

    fn introduce(&mut self, to: u32, wants_answer: bool) -> Result<bool, Unreachable> {
        let (address, message) = (self.port.address(), self.port.slot_len() as u32);
        let Some(GmPeer { key, word, granted, .. }) = self.peer(to) else { return Ok(true) };
        let (key, word, granted) = (*key, *word, *granted);
        let word = self.port.word_address(word);
        let body = GmIntroduction { address, key, granted, message, word }.encode();
        let body = Body::Bytes(Bytes::from(&body[..]));
        let message = OutgoingMessage::new(Frame::Meet { wants_answer }, body);
        Ok(self.sockets.send(to, &message)? != Sent::Full)
    }

    fn take_introduction(
        &mut self,
        from: u32,
        wants_answer: bool,
        body: &[u8],
    ) -> Result<(), String> {
        let its = GmIntroduction::decode(body).ok_or("its introduction is invalid")?;
        let own = self.port.slot_len();
        if its.message as usize != own {
            let its = its.message;
            return Err(format!(
                "its messages are up to {its} bytes long, and those of this process {own} (rpi_gm_tinymsglen)"
            ));
        }
        self.make_end(from)?;
        let target = self.port.target(its.address).map_err(|error| error.to_string())?;
        let Some(peer) = self.peer(from).filter(|peer| !peer.is_gone) else { return Ok(()) };
        peer.was_answered |= !wants_answer;
        peer.met.get_or_insert(PeerPort {
            target,
            key: its.key,
            word: its.word,
            allowed: its.granted,
        });
        if wants_answer {
            self.unanswered.push(from);
        }
        self.report(from);
        Ok(())
    }

    pub(super) fn end_introductions(&mut self) {
        if self.is_closed {
            // The introductions wait until this process has another port.
            return;
        }
        for (from, wants_answer, body) in self.introductions.take() {
            if let Err(why) = self.take_introduction(from, wants_answer, &body) {
                self.say(&format!("there is no contact with process {from}: {why}"));
                self.lost.push(from);
            }
        }
        for to in std::mem::take(&mut self.unanswered) {
            if !self.awaits(to) {
                continue;
            }
            match self.introduce(to, false) {
                Ok(true) => {}
                Ok(false) => self.unanswered.push(to),
                Err(_) => self.lost.push(to),
            }
        }
    }

    pub(super) fn awaits(&mut self, to: u32) -> bool {
        self.peer(to).is_some_and(|peer| !peer.is_gone) && !self.sockets.has_left(to)
    }
}
