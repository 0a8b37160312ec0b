//! What the transport needs of a port: an open one of GM's, or in tests one that a seed makes late or short of tokens.

use oxmpi_gm::{GmError, GmEvent, GmRegion, GmSlot, GmTarget, OpenPort, WordId};
use oxmpi_mem::buffer::UserBuf;
use std::fmt;
use std::fmt::Debug;

/// See [`OpenPort`], whose functions most of these are.
pub trait GmPort: Debug + Send {
    /// Names the port, for a person.
    fn describe(&self) -> String;
    /// Closes it: nothing of it is left in this process.
    fn close(&mut self);
    /// Opens one again, another one perhaps.
    fn reopen(&mut self) -> Result<(), String>;
    /// Where others find it: the node, by its identifier in the whole network, and the number of the port.
    fn address(&self) -> (u32, u32);
    /// How this interface names a port of a node of the network.
    fn target(&self, address: (u32, u32)) -> Result<GmTarget, GmError>;
    /// Send tokens that are free.
    fn send_tokens(&self) -> u32;
    /// Receive tokens that are free.
    fn receive_tokens(&self) -> u32;
    /// The longest message, bytes.
    fn slot_len(&self) -> usize;
    /// Makes more slots.
    fn more_slots(&mut self, count: usize) -> Result<Vec<GmSlot>, GmError>;
    /// What a slot has; nothing while GM has it.
    fn slot(&self, slot: GmSlot) -> &[u8];
    /// As [`GmPort::slot`], to be filled.
    fn slot_mut(&mut self, slot: GmSlot) -> &mut [u8];
    /// Provides a slot for what comes.
    fn provide(&mut self, slot: GmSlot) -> Result<(), GmError>;
    /// Sends the beginning of a slot.
    fn send(&mut self, label: u32, to: GmTarget, slot: GmSlot, len: usize) -> Result<(), GmError>;
    /// Makes a word that a peer writes.
    fn new_word(&mut self) -> Result<WordId, GmError>;
    /// What the peer has written.
    fn word(&self, word: WordId) -> u64;
    /// Where it writes that.
    fn word_address(&self, word: WordId) -> u64;
    /// Writes the word at a peer.
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
    fn get_word(&mut self, label: u32, to: GmTarget, word: WordId, address: u64) -> Result<(), GmError>;
    /// Registers a buffer in one piece.
    fn register(&mut self, buffer: &UserBuf) -> Result<GmRegion, GmError>;
    /// Ends that.
    fn deregister(&mut self, region: GmRegion);
    /// Where it lies, for peers.
    fn region_address(&self, region: GmRegion) -> u64;
    /// Writes all of a region into registered memory of a peer.
    fn put(&mut self, label: u32, to: GmTarget, region: GmRegion, address: u64) -> Result<(), GmError>;
    /// Fills a region from there.
    fn get(&mut self, label: u32, to: GmTarget, region: GmRegion, address: u64) -> Result<(), GmError>;
    /// Drops what is queued for a target to which something has failed.
    fn drop_sends(&mut self, label: u32, to: GmTarget) -> Result<(), GmError>;
    /// Reads what has happened.
    fn poll(&mut self, into: &mut Vec<GmEvent>);
}

/// Opens a port; the error is for a person.
pub(super) type OpenAgain = Box<dyn Fn() -> Result<OpenPort, String> + Send>;

/// A port of GM's that may be closed for some time.
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
    /// An open one.
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
        let Some(own) = &self.port else { return Err(GmError::Exhausted { port: 0, what: "routes" }) };
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
    fn get_word(&mut self, label: u32, to: GmTarget, word: WordId, address: u64) -> Result<(), GmError> {
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
    fn put(&mut self, label: u32, to: GmTarget, region: GmRegion, address: u64) -> Result<(), GmError> {
        self.opened("send tokens")?.put(label, to, region, address)
    }
    fn get(&mut self, label: u32, to: GmTarget, region: GmRegion, address: u64) -> Result<(), GmError> {
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
