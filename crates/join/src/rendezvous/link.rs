//! One connection between a member and node 0, without its socket: the proof, and then sealed
//! messages.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use oxmpi_sys::net::fill_random;
use oxmpi_wire::noise::{Cipher, HANDSHAKE, Handshake, NoiseError};
use oxmpi_wire::{Nonce, Secret};

use super::credential::{ClaimedSide, Credentials, MeetingName, NodeClaim, NodeClaimError};
use super::message::{self, MAX_MESSAGE, NodeMessage};

/// The first bytes of both sides, with the version of the protocol.
const MAGIC: [u8; 16] = *b"OxMPI nodes 0001";
/// The most bytes of a credential; one of MUNGE has about 500.
const MAX_CREDENTIAL: usize = 4096;
/// Bytes of the magic and of the length of the credential after it.
const HEAD: usize = MAGIC.len() + 2;
const LENGTH: usize = 4;
/// Messages are sealed in pieces of this length when there is room for them.
const PIECE: usize = 64 << 10;

/// Why a connection is closed. The text follows the address of the other end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NodeLinkError {
    #[error("it does not speak the protocol of this version of OxMPI")]
    Foreign,
    #[error(transparent)]
    Claim(#[from] NodeClaimError),
    #[error("{0}")]
    Forged(#[from] NoiseError),
    #[error("a message of {0} bytes makes no sense")]
    Malformed(usize),
    #[error("no random bytes: {0}")]
    Random(String),
}

/// What both sides know beforehand.
pub(super) struct LinkContext<'a, C> {
    pub(super) credentials: &'a C,
    pub(super) meeting: &'a MeetingName,
}

enum LinkStage {
    /// A member waits for the credential of node 0.
    Answer { key: Nonce, hash: [u8; 32], port: u16 },
    /// A member waits for the handshake message of node 0.
    Handshake(Option<Box<Handshake>>),
    /// Node 0 waits for the member's credential.
    Claim { port: u16 },
    /// Node 0 waits for the member's handshake message.
    Initiator { secret: Secret, prologue: [u8; 32], node: u32 },
    /// Node 0 has proof of the member from the first record on: the message before it may be a
    /// recording.
    Records { cipher: Box<Cipher>, node: u32, is_proved: bool },
}

/// One side of a connection: the owner feeds received bytes and sends the output.
pub(super) struct NodeLink {
    stage: LinkStage,
    /// Received and not opened.
    input: Vec<u8>,
    /// Opened and not parsed.
    plain: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// Frames to seal, of which `sealed` bytes of the first are sealed. A long frame to many nodes
    /// is in memory once.
    frames: VecDeque<Arc<[u8]>>,
    sealed: usize,
}

impl fmt::Debug for NodeLink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = match &self.stage {
            LinkStage::Answer { .. } => "answer",
            LinkStage::Handshake(_) => "handshake",
            LinkStage::Claim { .. } => "claim",
            LinkStage::Initiator { .. } => "initiator",
            LinkStage::Records { is_proved: false, .. } => "greeted",
            LinkStage::Records { .. } => "proved",
        };
        write!(f, "Link({stage}, {} bytes to send)", self.output().len())
    }
}

pub(super) fn random<const N: usize>() -> Result<[u8; N], NodeLinkError> {
    let mut bytes = [0; N];
    fill_random(&mut bytes).map_err(|error| NodeLinkError::Random(error.to_string()))?;
    Ok(bytes)
}

fn hash(credential: &str) -> [u8; 32] {
    *blake3::hash(credential.as_bytes()).as_bytes()
}

/// The secret of a connection and the prologue of its handshake. Both contain everything that was
/// sent before, so that the handshake fails if an attacker has changed a byte of it.
fn agreed(member: &Nonce, hub: &Nonce, hashes: [&[u8; 32]; 2]) -> (Secret, [u8; 32]) {
    let sent = [&MAGIC[..], hashes[0], hashes[1]].concat();
    let secret = blake3::keyed_hash(member, &[&hub[..], &sent].concat());
    (Secret(*secret.as_bytes()), *blake3::hash(&sent).as_bytes())
}

impl NodeLink {
    fn new(stage: LinkStage) -> NodeLink {
        let (input, plain, output, frames) = Default::default();
        NodeLink { stage, input, plain, output, sent: 0, frames, sealed: 0 }
    }

    /// The side that has connected to this port as the process of a node.
    pub(super) fn member<C: Credentials>(
        context: &LinkContext<'_, C>,
        node: u32,
        port: u16,
    ) -> Result<NodeLink, NodeLinkError> {
        let key = random()?;
        let side = ClaimedSide::Member;
        let claim = NodeClaim { side, meeting: context.meeting.clone(), node, port, key };
        let credential = context.credentials.make(&claim.encode()).map_err(NodeClaimError::from)?;
        let mut link = NodeLink::new(LinkStage::Answer { key, hash: hash(&credential), port });
        link.post_credential(&credential);
        Ok(link)
    }

    /// The side that has accepted a connection at this port.
    pub(super) fn hub(port: u16) -> NodeLink {
        NodeLink::new(LinkStage::Claim { port })
    }

    fn post_credential(&mut self, credential: &str) {
        let length = u16::try_from(credential.len()).unwrap_or(u16::MAX);
        self.output.extend(MAGIC);
        self.output.extend(length.to_le_bytes());
        self.output.extend(credential.as_bytes());
    }

    /// The node at the other end, once it has proved itself.
    pub(super) fn proved(&self) -> Option<u32> {
        match self.stage {
            LinkStage::Records { node, is_proved: true, .. } => Some(node),
            _ => None,
        }
    }

    /// Whether a member has sent a valid credential, which may be a recording.
    pub(super) fn has_greeted(&self) -> bool {
        !matches!(self.stage, LinkStage::Claim { .. })
    }

    /// Takes received bytes.
    pub(super) fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Queues a frame of [`NodeMessage::frame`]. It is sent after the proof.
    pub(super) fn post(&mut self, frame: &Arc<[u8]>) {
        self.frames.push_back(frame.clone());
    }

    /// Seals queued frames if all earlier output was sent. Call it before [`NodeLink::output`].
    pub(super) fn seal(&mut self) -> Result<(), NodeLinkError> {
        let LinkStage::Records { cipher, is_proved: true, .. } = &mut self.stage else {
            return Ok(());
        };
        while self.output.len() - self.sent < PIECE
            && let Some(frame) = self.frames.front()
        {
            let piece = &frame[self.sealed..frame.len().min(self.sealed + PIECE)];
            cipher.seal(piece, &mut self.output)?;
            self.sealed += piece.len();
            if self.sealed == frame.len() {
                self.frames.pop_front();
                self.sealed = 0;
            }
        }
        Ok(())
    }

    /// The bytes to send.
    pub(super) fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// Drops bytes of the output, which have been sent.
    pub(super) fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        if self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Whether there is something to send, now or after the proof.
    pub(super) fn is_behind(&self) -> bool {
        !self.output().is_empty() || !self.frames.is_empty()
    }

    /// The next message, if one has come whole. An error ends the connection.
    pub(super) fn next<C: Credentials>(
        &mut self,
        context: &LinkContext<'_, C>,
    ) -> Result<Option<NodeMessage>, NodeLinkError> {
        loop {
            if let Some(head) = self.plain.first_chunk::<LENGTH>() {
                let length = u32::from_le_bytes(*head) as usize;
                if length == 0 || length > MAX_MESSAGE {
                    return Err(NodeLinkError::Malformed(length));
                }
                if let Some(bytes) = self.plain.get(LENGTH..LENGTH + length) {
                    let message = message::decode(bytes).ok_or(NodeLinkError::Malformed(length))?;
                    self.plain.drain(..LENGTH + length);
                    return Ok(Some(message));
                }
            }
            if !self.advance(context)? {
                return Ok(None);
            }
        }
    }

    /// Handles the next part of the input; returns whether there was one.
    fn advance<C: Credentials>(
        &mut self,
        context: &LinkContext<'_, C>,
    ) -> Result<bool, NodeLinkError> {
        match &mut self.stage {
            LinkStage::Claim { port } => {
                let port = *port;
                let Some(credential) = take_credential(&mut self.input)? else { return Ok(false) };
                let claim =
                    NodeClaim::open(context.credentials, &credential, context.meeting, port)?;
                let node = claim.member_node()?;
                let answers = hash(&credential);
                let key = random()?;
                let own = NodeClaim {
                    side: ClaimedSide::Hub { answers },
                    meeting: context.meeting.clone(),
                    node: 0,
                    port,
                    key,
                };
                let own = context.credentials.make(&own.encode()).map_err(NodeClaimError::from)?;
                let (secret, prologue) = agreed(&claim.key, &key, [&answers, &hash(&own)]);
                self.post_credential(&own);
                self.stage = LinkStage::Initiator { secret, prologue, node };
            }
            LinkStage::Answer { key, hash: ours, port } => {
                let Some(credential) = take_credential(&mut self.input)? else { return Ok(false) };
                let claim =
                    NodeClaim::open(context.credentials, &credential, context.meeting, *port)?;
                claim.check_hub(ours)?;
                let (secret, prologue) = agreed(key, &claim.key, [ours, &hash(&credential)]);
                let (handshake, message) = Handshake::initiator(&secret, &prologue)?;
                self.output.extend(message);
                self.stage = LinkStage::Handshake(Some(Box::new(handshake)));
            }
            LinkStage::Initiator { secret, prologue, node } => {
                let Some(message) = self.input.first_chunk::<HANDSHAKE>() else {
                    return Ok(false);
                };
                let (cipher, answer) = Handshake::accept(secret, prologue, message)?;
                self.input.drain(..HANDSHAKE);
                self.output.extend(answer);
                let (cipher, node) = (Box::new(cipher), *node);
                self.stage = LinkStage::Records { cipher, node, is_proved: false };
            }
            LinkStage::Handshake(handshake) => {
                let Some(answer) = self.input.first_chunk::<HANDSHAKE>() else { return Ok(false) };
                let Some(handshake) = handshake.take() else {
                    return Err(NoiseError::Forged.into());
                };
                let cipher = Box::new(handshake.answered(answer)?);
                self.input.drain(..HANDSHAKE);
                self.stage = LinkStage::Records { cipher, node: 0, is_proved: true };
            }
            LinkStage::Records { cipher, is_proved, .. } => {
                let Some(taken) = cipher.open(&self.input, &mut self.plain)? else {
                    return Ok(false);
                };
                self.input.drain(..taken);
                *is_proved = true;
            }
        }
        Ok(true)
    }
}

/// Takes the magic and the credential from the start of the input, if they have come whole.
fn take_credential(input: &mut Vec<u8>) -> Result<Option<String>, NodeLinkError> {
    if !MAGIC.starts_with(&input[..input.len().min(MAGIC.len())]) {
        return Err(NodeLinkError::Foreign);
    }
    let Some(head) = input.first_chunk::<HEAD>() else { return Ok(None) };
    let length = usize::from(u16::from_le_bytes([head[HEAD - 2], head[HEAD - 1]]));
    if length > MAX_CREDENTIAL {
        return Err(NodeLinkError::Malformed(length));
    }
    let Some(credential) = input.get(HEAD..HEAD + length) else { return Ok(None) };
    let credential =
        std::str::from_utf8(credential).map_err(|_| NodeLinkError::Malformed(length))?.to_string();
    input.drain(..HEAD + length);
    Ok(Some(credential))
}
