//! What the transport needs of a port: an open one of GM's, or in tests one that a seed makes late or short of tokens.

use oxmpi_gm::{GmError, GmEvent, GmRegion, GmSlot, GmTarget, OpenPort, WordId};
use oxmpi_mem::buffer::UserBuf;
use std::fmt::Debug;

/// See [`OpenPort`], whose functions these are.
pub trait GmPort: Debug + Send {
    /// Names the port, for a person.
    fn describe(&self) -> String;
    /// Where others find it: the node, by its identifier in the whole network, and the number of the port.
    fn address(&self) -> (u32, u32);
    /// How this interface names a port of a node of the network.
    ///
    /// # Errors
    /// The network has no such node.
    fn target(&self, address: (u32, u32)) -> Result<GmTarget, GmError>;
    /// Send tokens that are free.
    fn send_tokens(&self) -> u32;
    /// Receive tokens that are free.
    fn receive_tokens(&self) -> u32;
    /// The longest message, bytes.
    fn slot_len(&self) -> usize;
    /// Makes more slots.
    ///
    /// # Errors
    /// There is no memory for them.
    fn more_slots(&mut self, count: usize) -> Result<Vec<GmSlot>, GmError>;
    /// What a slot has; nothing while GM has it.
    fn slot(&self, slot: GmSlot) -> &[u8];
    /// As [`GmPort::slot`], to be filled.
    fn slot_mut(&mut self, slot: GmSlot) -> &mut [u8];
    /// Provides a slot for what comes.
    ///
    /// # Errors
    /// There is no receive token.
    fn provide(&mut self, slot: GmSlot) -> Result<(), GmError>;
    /// Sends the beginning of a slot.
    ///
    /// # Errors
    /// There is no send token.
    fn send(&mut self, label: u32, to: GmTarget, slot: GmSlot, len: usize) -> Result<(), GmError>;
    /// Makes a word that a peer writes.
    ///
    /// # Errors
    /// There is no memory for it.
    fn new_word(&mut self) -> Result<WordId, GmError>;
    /// What the peer has written.
    fn word(&self, word: WordId) -> u64;
    /// Where it writes that.
    fn word_address(&self, word: WordId) -> u64;
    /// Writes the word at a peer.
    ///
    /// # Errors
    /// There is no send token.
    fn put_word(
        &mut self,
        label: u32,
        to: GmTarget,
        word: WordId,
        at_peer: (u64, u64),
    ) -> Result<(), GmError>;
    /// Changes a word that no peer writes.
    fn set_word(&mut self, word: WordId, value: u64);
    /// Reads a word of a peer's into one of this process's.
    ///
    /// # Errors
    /// There is no send token.
    fn get_word(&mut self, label: u32, to: GmTarget, word: WordId, address: u64) -> Result<(), GmError>;
    /// Registers a buffer in one piece.
    ///
    /// # Errors
    /// There is not so much memory that may be registered.
    fn register(&mut self, buffer: &UserBuf) -> Result<GmRegion, GmError>;
    /// Ends that.
    fn deregister(&mut self, region: GmRegion);
    /// Where it lies, for peers.
    fn region_address(&self, region: GmRegion) -> u64;
    /// Writes all of a region into registered memory of a peer.
    ///
    /// # Errors
    /// There is no send token.
    fn put(&mut self, label: u32, to: GmTarget, region: GmRegion, address: u64) -> Result<(), GmError>;
    /// Fills a region from there.
    ///
    /// # Errors
    /// There is no send token.
    fn get(&mut self, label: u32, to: GmTarget, region: GmRegion, address: u64) -> Result<(), GmError>;
    /// Drops what is queued for a target to which something has failed.
    ///
    /// # Errors
    /// There is no send token.
    fn drop_sends(&mut self, label: u32, to: GmTarget) -> Result<(), GmError>;
    /// Reads what has happened.
    fn poll(&mut self, into: &mut Vec<GmEvent>);
}

impl GmPort for OpenPort {
    fn describe(&self) -> String {
        format!("port {} of node {}", self.number(), self.node())
    }
    fn address(&self) -> (u32, u32) {
        (self.node(), self.number())
    }
    fn target(&self, (node, port): (u32, u32)) -> Result<GmTarget, GmError> {
        Ok(GmTarget { node: self.resolve(node)?, port })
    }
    fn send_tokens(&self) -> u32 {
        OpenPort::send_tokens(self)
    }
    fn receive_tokens(&self) -> u32 {
        OpenPort::receive_tokens(self)
    }
    fn slot_len(&self) -> usize {
        OpenPort::slot_len(self)
    }
    fn more_slots(&mut self, count: usize) -> Result<Vec<GmSlot>, GmError> {
        OpenPort::more_slots(self, count)
    }
    fn slot(&self, slot: GmSlot) -> &[u8] {
        OpenPort::slot(self, slot)
    }
    fn slot_mut(&mut self, slot: GmSlot) -> &mut [u8] {
        OpenPort::slot_mut(self, slot)
    }
    fn provide(&mut self, slot: GmSlot) -> Result<(), GmError> {
        OpenPort::provide(self, slot)
    }
    fn send(&mut self, label: u32, to: GmTarget, slot: GmSlot, len: usize) -> Result<(), GmError> {
        OpenPort::send(self, label, to, slot, len)
    }
    fn new_word(&mut self) -> Result<WordId, GmError> {
        OpenPort::new_word(self)
    }
    fn word(&self, word: WordId) -> u64 {
        OpenPort::word(self, word)
    }
    fn word_address(&self, word: WordId) -> u64 {
        OpenPort::word_address(self, word)
    }
    fn put_word(
        &mut self,
        label: u32,
        to: GmTarget,
        word: WordId,
        at_peer: (u64, u64),
    ) -> Result<(), GmError> {
        OpenPort::put_word(self, label, to, word, at_peer)
    }
    fn set_word(&mut self, word: WordId, value: u64) {
        OpenPort::set_word(self, word, value);
    }
    fn get_word(&mut self, label: u32, to: GmTarget, word: WordId, address: u64) -> Result<(), GmError> {
        OpenPort::get_word(self, label, to, word, address)
    }
    fn register(&mut self, buffer: &UserBuf) -> Result<GmRegion, GmError> {
        OpenPort::register(self, buffer)
    }
    fn deregister(&mut self, region: GmRegion) {
        OpenPort::deregister(self, region);
    }
    fn region_address(&self, region: GmRegion) -> u64 {
        OpenPort::region_address(self, region)
    }
    fn put(&mut self, label: u32, to: GmTarget, region: GmRegion, address: u64) -> Result<(), GmError> {
        OpenPort::put(self, label, to, region, address)
    }
    fn get(&mut self, label: u32, to: GmTarget, region: GmRegion, address: u64) -> Result<(), GmError> {
        OpenPort::get(self, label, to, region, address)
    }
    fn drop_sends(&mut self, label: u32, to: GmTarget) -> Result<(), GmError> {
        OpenPort::drop_sends(self, label, to)
    }
    fn poll(&mut self, into: &mut Vec<GmEvent>) {
        OpenPort::poll(self, into);
    }
}
