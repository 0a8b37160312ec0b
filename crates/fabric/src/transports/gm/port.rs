//! The interface of the transport to a port of GM. Tests have another port, which a seed makes late
//! or short of tokens.

use oxmpi_gm::{GmError, GmEvent, GmRegion, GmSlot, GmTarget, OpenPort, WordId};
use oxmpi_mem::buffer::UserBuf;
use std::fmt;
use std::fmt::Debug;

/// The functions of [`OpenPort`], and functions to close the port and open it again.
pub trait GmPort: Debug + Send {
    fn describe(&self) -> String;
    fn close(&mut self);
    /// Opens a port again, perhaps another one. The error is for the user.
    fn reopen(&mut self) -> Result<(), String>;
    /// The address for peers: the node's identifier in the whole network, and the port's number.
    fn address(&self) -> (u32, u32);
    /// The name by which this interface knows a port of a node.
    fn target(&self, address: (u32, u32)) -> Result<GmTarget, GmError>;
    fn send_tokens(&self) -> u32;
    fn receive_tokens(&self) -> u32;
    fn slot_len(&self) -> usize;
    fn more_slots(&mut self, count: usize) -> Result<Vec<GmSlot>, GmError>;
    /// The content of a slot; empty while GM has it.
    fn slot(&self, slot: GmSlot) -> &[u8];
    fn slot_mut(&mut self, slot: GmSlot) -> &mut [u8];
    fn provide(&mut self, slot: GmSlot) -> Result<(), GmError>;
    fn send(&mut self, label: u32, to: GmTarget, slot: GmSlot, len: usize) -> Result<(), GmError>;
    fn new_word(&mut self) -> Result<WordId, GmError>;
    fn word(&self, word: WordId) -> u64;
    fn word_address(&self, word: WordId) -> u64;
    fn put_word(
        &mut self,
        label: u32,
        to: GmTarget,
        word: WordId,
        at_peer: (u64, u64),
    ) -> Result<(), GmError>;
    fn set_word(&mut self, word: WordId, value: u64);
    fn get_word(
        &mut self,
        label: u32,
        to: GmTarget,
        word: WordId,
        address: u64,
    ) -> Result<(), GmError>;
    fn register(&mut self, buffer: &UserBuf) -> Result<GmRegion, GmError>;
    fn deregister(&mut self, region: GmRegion);
    fn region_address(&self, region: GmRegion) -> u64;
    /// Writes a whole region into registered memory of a peer.
    fn put(
        &mut self,
        label: u32,
        to: GmTarget,
        region: GmRegion,
        address: u64,
    ) -> Result<(), GmError>;
    /// Reads registered memory of a peer into a whole region.
    fn get(
        &mut self,
        label: u32,
        to: GmTarget,
        region: GmRegion,
        address: u64,
    ) -> Result<(), GmError>;
    fn drop_sends(&mut self, label: u32, to: GmTarget) -> Result<(), GmError>;
    fn poll(&mut self, into: &mut Vec<GmEvent>);
}

pub(super) type OpenAgain = Box<dyn Fn() -> Result<OpenPort, String> + Send>;

/// A port of GM that may be closed for some time.
pub(super) struct ReopenedPort {
    port: Option<OpenPort>,
    open: OpenAgain,
}

impl fmt::Debug for ReopenedPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReopenedPort").field(&self.port).finish()
    }
}

impl ReopenedPort {
    pub(super) fn open(open: OpenAgain) -> Result<ReopenedPort, String> {
        Ok(ReopenedPort { port: Some(open()?), open })
    }

    fn opened(&mut self, what: &'static str) -> Result<&mut OpenPort, GmError> {
        self.port.as_mut().ok_or(GmError::Exhausted { port: 0, what })
    }
}

impl GmPort for ReopenedPort {
    fn describe(&self) -> String {
        let Some(port) = &self.port else { return "a closed port".into() };
        format!("port {} of node {}", port.number(), port.node())
    }
    fn close(&mut self) {
        self.port = None;
    }
    fn reopen(&mut self) -> Result<(), String> {
        self.port = Some((self.open)()?);
        Ok(())
    }
    fn address(&self) -> (u32, u32) {
        self.port.as_ref().map_or((0, 0), |port| (port.node(), port.number()))
    }
    fn target(&self, (node, port): (u32, u32)) -> Result<GmTarget, GmError> {
        let Some(own) = &self.port else {
            return Err(GmError::Exhausted { port: 0, what: "routes" });
        };
        Ok(GmTarget { node: own.resolve(node)?, port })
    }
    fn send_tokens(&self) -> u32 {
        self.port.as_ref().map_or(0, OpenPort::send_tokens)
    }
    fn receive_tokens(&self) -> u32 {
        self.port.as_ref().map_or(0, OpenPort::receive_tokens)
    }
    fn slot_len(&self) -> usize {
        self.port.as_ref().map_or(0, OpenPort::slot_len)
    }
    fn more_slots(&mut self, count: usize) -> Result<Vec<GmSlot>, GmError> {
        self.opened("slots")?.more_slots(count)
    }
    fn slot(&self, slot: GmSlot) -> &[u8] {
        self.port.as_ref().map_or(&[], |port| port.slot(slot))
    }
    fn slot_mut(&mut self, slot: GmSlot) -> &mut [u8] {
        self.port.as_mut().map_or(&mut [], |port| port.slot_mut(slot))
    }
    fn provide(&mut self, slot: GmSlot) -> Result<(), GmError> {
        self.opened("receive tokens")?.provide(slot)
    }
    fn send(&mut self, label: u32, to: GmTarget, slot: GmSlot, len: usize) -> Result<(), GmError> {
        self.opened("send tokens")?.send(label, to, slot, len)
    }
    fn new_word(&mut self) -> Result<WordId, GmError> {
        self.opened("words")?.new_word()
    }
    fn word(&self, word: WordId) -> u64 {
        self.port.as_ref().map_or(0, |port| port.word(word))
    }
    fn word_address(&self, word: WordId) -> u64 {
        self.port.as_ref().map_or(0, |port| port.word_address(word))
    }
    fn put_word(
        &mut self,
        label: u32,
        to: GmTarget,
        word: WordId,
        at_peer: (u64, u64),
    ) -> Result<(), GmError> {
        self.opened("send tokens")?.put_word(label, to, word, at_peer)
    }
    fn set_word(&mut self, word: WordId, value: u64) {
        if let Some(port) = &mut self.port {
            port.set_word(word, value);
        }
    }
    fn get_word(
        &mut self,
        label: u32,
        to: GmTarget,
        word: WordId,
        address: u64,
    ) -> Result<(), GmError> {
        self.opened("send tokens")?.get_word(label, to, word, address)
    }
    fn register(&mut self, buffer: &UserBuf) -> Result<GmRegion, GmError> {
        self.opened("regions")?.register(buffer)
    }
    fn deregister(&mut self, region: GmRegion) {
        if let Some(port) = &mut self.port {
            port.deregister(region);
        }
    }
    fn region_address(&self, region: GmRegion) -> u64 {
        self.port.as_ref().map_or(0, |port| port.region_address(region))
    }
    fn put(
        &mut self,
        label: u32,
        to: GmTarget,
        region: GmRegion,
        address: u64,
    ) -> Result<(), GmError> {
        self.opened("send tokens")?.put(label, to, region, address)
    }
    fn get(
        &mut self,
        label: u32,
        to: GmTarget,
        region: GmRegion,
        address: u64,
    ) -> Result<(), GmError> {
        self.opened("send tokens")?.get(label, to, region, address)
    }
    fn drop_sends(&mut self, label: u32, to: GmTarget) -> Result<(), GmError> {
        self.opened("send tokens")?.drop_sends(label, to)
    }
    fn poll(&mut self, into: &mut Vec<GmEvent>) {
        if let Some(port) = &mut self.port {
            port.poll(into);
        }
    }
}
