//! Announced messages, which their receivers get (rules 2 and 3 of the module).

use super::bits::{self, NUMBERS};
use super::{Portals, PortalsName, ReceiveEnd};
use oxmpi_mem::buffer::UserBuf;
use oxmpi_portals::{PortalsEnding, ProcessAddress};

#[derive(Debug)]
pub(super) struct PortalsFetch {
    id: u64,
    pub(super) from: u32,
    /// The number under which the sender exposes the message.
    number: u32,
    /// 0: the receive is complete, and only the last get is missing.
    token: u64,
    tag: i32,
    buffer: UserBuf,
    length: u64,
    wanted: usize,
    at: usize,
    /// The bytes under way, and whether they are the last ones.
    under_way: Option<(usize, bool)>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct FetchReceive<'a> {
    pub(super) token: u64,
    pub(super) tag: i32,
    pub(super) buffer: &'a UserBuf,
    pub(super) length: u64,
}

impl Portals {
    pub(super) fn free_number(&mut self) -> Option<u32> {
        let free = (0..NUMBERS)
            .map(|more| self.next_number.wrapping_add(more) % NUMBERS)
            .find(|number| !self.announced.contains_key(number))?;
        self.next_number = free.wrapping_add(1);
        Some(free)
    }

    pub(super) fn expose(
        &mut self,
        to: (ProcessAddress, usize),
        number: u32,
        buffer: &UserBuf,
    ) -> Result<bool, String> {
        let (process, max_message) = to;
        let name = PortalsName::Exposed { number };
        let mut exposed = true;
        if buffer.packed_len() > max_message {
            let bits = bits::of_get(number, false);
            let first = self.interface.expose(process, bits, buffer, false, name);
            exposed = first.map_err(|error| error.to_string())?;
        }
        if exposed {
            let bits = bits::of_get(number, true);
            let last = self.interface.expose(process, bits, buffer, true, name);
            exposed = last.map_err(|error| error.to_string())?;
        }
        if !exposed {
            self.withdraw_exposed(number);
        }
        Ok(exposed)
    }

    pub(super) fn withdraw_exposed(&mut self, number: u32) {
        self.wait_while(|name| *name == PortalsName::Exposed { number });
    }

    pub(super) fn fetch(&mut self, from: u32, number: u32, receive: FetchReceive<'_>) {
        let FetchReceive { token, tag, buffer, length } = receive;
        let id = self.next_fetch;
        self.next_fetch += 1;
        let wanted = usize::try_from(length).unwrap_or(usize::MAX).min(buffer.packed_len());
        let buffer = buffer.clone();
        let (at, under_way) = (0, None);
        self.fetches.push(PortalsFetch {
            id,
            from,
            number,
            token,
            tag,
            buffer,
            length,
            wanted,
            at,
            under_way,
        });
    }

    pub(super) fn go_on_with_fetches(&mut self) {
        let Portals { fetches, interface, peers, .. } = self;
        let mut failed = Vec::new();
        fetches.retain_mut(|one| {
            let Some(Some(peer)) = peers.get(one.from as usize) else { return false };
            if one.under_way.is_some() {
                return true;
            }
            if peer.is_gone {
                return false;
            }
            let part = (one.wanted - one.at).min(peer.max_message);
            let is_last = one.at + part == one.wanted;
            let place = (bits::of_get(one.number, is_last), one.at as u64);
            let name = PortalsName::Get { fetch: one.id };
            match interface.get(peer.exposed, place, (&one.buffer, one.at, part), name) {
                Ok(true) => one.under_way = Some((part, is_last)),
                Ok(false) => {}
                Err(error) => {
                    failed.push((one.from, error.to_string()));
                    return false;
                }
            }
            true
        });
        for (from, why) in failed {
            self.fail(from, why);
        }
    }

    pub(super) fn end_get(&mut self, id: u64, ending: PortalsEnding) {
        let Some(place) = self.fetches.iter().position(|one| one.id == id) else { return };
        match ending {
            PortalsEnding::Got => {
                let one = &mut self.fetches[place];
                let (part, is_last) = one.under_way.take().unwrap_or_default();
                one.at += part;
                if is_last {
                    let PortalsFetch { from, token, tag, length, .. } =
                        self.fetches.swap_remove(place);
                    if token != 0 {
                        self.ended.push_back(ReceiveEnd::Received { token, from, tag, length });
                    }
                }
            }
            PortalsEnding::Failed(why) => {
                let from = self.fetches.swap_remove(place).from;
                self.fail(from, why);
            }
            _ => {
                self.fetches.swap_remove(place);
            }
        }
    }

    /// Ends the gets into the memory of a receive, and notifies the sender.
    pub(super) fn release_fetches(&mut self, token: u64) {
        let found: Vec<u64> = self
            .fetches
            .iter()
            .filter(|one| one.token == token && token != 0)
            .map(|one| one.id)
            .collect();
        for id in found {
            self.wait_while(|name| *name == PortalsName::Get { fetch: id });
            if let Some(one) = self.fetches.iter_mut().find(|one| one.id == id) {
                let here = one.at + one.under_way.map_or(0, |(part, _)| part);
                (one.token, one.buffer, one.wanted) = (0, UserBuf::empty(), here);
            }
        }
    }
}
