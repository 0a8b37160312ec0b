//! Encryption of the connections between processes that share a secret.
//!
//! The handshake is Noise `NNpsk0` (The Noise Protocol Framework, revision 34, sections 7 and 9):
//! one message in each direction, with fresh keys on both sides. A process without the secret can
//! neither read nor send records. A process that learns the secret later can neither read nor
//! replay a recorded connection. The *prologue* has everything on which both sides must agree
//! beforehand, such as the protocol's name: if the prologues differ, the handshake fails.
//!
//! ```text
//! initiator                         acceptor
//!   handshake message (48 bytes) ->
//!                                <- handshake message (48 bytes)
//!   records                     <-> records
//! ```
//!
//! The first message may be a replay, so an acceptor must not act on it. The first record that it
//! can open is fresh. A record is a head and a Noise message: up to [`MAX_RECORD`] bytes and a tag
//! of 16. Both sides number the records, so an attacker can leave out, repeat, change or move none.
//!
//! The head is the length of the Noise message (two bytes, little endian) and the first six bytes
//! of a MAC: keyed BLAKE3 over the sender's side, the number of the record and the length. Its key
//! is the MAC, by the secret, of the hash of the handshake, so each connection has another. The MAC
//! detects a changed length, for which a receiver would wait for bytes that never come.
//!
//! The cipher is AES-GCM, for which most processors have instructions; without them it runs in
//! software.

use snow::{Builder, HandshakeState, TransportState};

use crate::Secret;

/// Noise's name of the handshake and the ciphers (revision 34, section 8).
const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_BLAKE2s";
/// Bytes of a handshake message: a public key and a tag.
pub const HANDSHAKE: usize = 32 + TAG;
/// Bytes that the cipher adds to a sealed message.
pub const TAG: usize = 16;
pub const RECORD_HEAD: usize = LENGTH + CHECK;
/// Bytes of a length, and of the MAC after it.
const LENGTH: usize = 2;
const CHECK: usize = 6;
/// The most bytes of data in one record.
pub const MAX_RECORD: usize = u16::MAX as usize - TAG;

/// The connections that one side wants encrypted; the wish of one side is enough.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    Never,
    #[default]
    BetweenHosts,
    Always,
}

impl Encryption {
    const ALL: [Encryption; 3] = [Encryption::Never, Encryption::BetweenHosts, Encryption::Always];

    /// The number that messages carry.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// The value with this number.
    pub fn of(number: u32) -> Option<Encryption> {
        Encryption::ALL.into_iter().find(|one| one.number() == number)
    }
}

/// Why a connection cannot be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoiseError {
    /// A handshake message or record cannot be opened: its sender does not have the secret, or it
    /// was changed on the way.
    #[error("it does not know the secret, or its messages were changed on the way")]
    Forged,
    #[error("a record of {0} bytes is shorter than the {TAG} of its tag")]
    Short(usize),
    /// There is no randomness for a key, or the cipher has sealed 2^64 records.
    #[error("no key can be made: {0}")]
    Keys(&'static str),
    /// A public key with which every secret is known to anybody.
    #[error("its public key hides no secret")]
    WeakKey,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NoiseSide {
    Initiator,
    Acceptor,
}

/// One side of a handshake.
pub struct Handshake(HandshakeState, Secret);

impl std::fmt::Debug for Handshake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Handshake")
    }
}

fn builder<'a>(secret: &'a Secret, prologue: &'a [u8]) -> Result<Builder<'a>, snow::Error> {
    Builder::new(PATTERN.parse()?).psk(0, &secret.0)?.prologue(prologue)
}

impl Handshake {
    /// The connecting side, and its message.
    pub fn initiator(
        secret: &Secret,
        prologue: &[u8],
    ) -> Result<(Handshake, [u8; HANDSHAKE]), NoiseError> {
        let keys = |_| NoiseError::Keys("no random bytes");
        let mut state =
            builder(secret, prologue).and_then(Builder::build_initiator).map_err(keys)?;
        let mut message = [0; HANDSHAKE];
        state.write_message(&[], &mut message).map_err(keys)?;
        Ok((Handshake(state, secret.clone()), message))
    }

    /// Takes the acceptor's answer. Records can follow.
    pub fn answered(mut self, answer: &[u8; HANDSHAKE]) -> Result<Cipher, NoiseError> {
        self.0.read_message(answer, &mut []).map_err(|_| NoiseError::Forged)?;
        Cipher::after(self.0, &self.1, NoiseSide::Initiator)
    }

    /// The accepting side: opens the initiator's message, and returns the answer.
    pub fn accept(
        secret: &Secret,
        prologue: &[u8],
        message: &[u8; HANDSHAKE],
    ) -> Result<(Cipher, [u8; HANDSHAKE]), NoiseError> {
        let keys = |_| NoiseError::Keys("no random bytes");
        let mut state =
            builder(secret, prologue).and_then(Builder::build_responder).map_err(keys)?;
        state.read_message(message, &mut []).map_err(|_| NoiseError::Forged)?;
        let mut answer = [0; HANDSHAKE];
        state.write_message(&[], &mut answer).map_err(keys)?;
        Ok((Cipher::after(state, secret, NoiseSide::Acceptor)?, answer))
    }
}

/// Seals the records of one direction and opens those of the other.
pub struct Cipher {
    state: TransportState,
    /// The key of the MAC in the heads.
    heads: [u8; 32],
    side: NoiseSide,
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sent, received) = (self.state.sending_nonce(), self.state.receiving_nonce());
        write!(f, "Cipher(sent {sent}, received {received})")
    }
}

impl Cipher {
    fn after(
        state: HandshakeState,
        secret: &Secret,
        side: NoiseSide,
    ) -> Result<Cipher, NoiseError> {
        let heads = *blake3::keyed_hash(&secret.0, state.get_handshake_hash()).as_bytes();
        let state = state
            .into_transport_mode()
            .map_err(|_| NoiseError::Keys("the handshake is not over"))?;
        Ok(Cipher { state, heads, side })
    }

    /// The head of record `number` of a side; `length`: the bytes after the head.
    fn head(&self, side: NoiseSide, number: u64, length: u16) -> [u8; RECORD_HEAD] {
        let mut input = [0; 1 + 8 + LENGTH];
        input[0] = side as u8;
        input[1..9].copy_from_slice(&number.to_le_bytes());
        input[9..].copy_from_slice(&length.to_le_bytes());
        let mut head = [0; RECORD_HEAD];
        head[..LENGTH].copy_from_slice(&length.to_le_bytes());
        head[LENGTH..]
            .copy_from_slice(&blake3::keyed_hash(&self.heads, &input).as_bytes()[..CHECK]);
        head
    }

    /// Appends `plain` as records to `out`; no record if it is empty.
    pub fn seal(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), NoiseError> {
        for piece in plain.chunks(MAX_RECORD) {
            let sealed = piece.len() + TAG;
            let length = u16::try_from(sealed).unwrap_or(u16::MAX);
            out.extend_from_slice(&self.head(self.side, self.state.sending_nonce(), length));
            let at = out.len();
            out.resize(at + sealed, 0);
            self.state
                .write_message(piece, &mut out[at..])
                .map_err(|_| NoiseError::Keys("too many records"))?;
        }
        Ok(())
    }

    /// The length of the record at the start of `bytes`, whose head [`Cipher::open`] has checked;
    /// the length of a head while the head is incomplete.
    pub fn record_length(bytes: &[u8]) -> usize {
        let head = bytes.first_chunk::<RECORD_HEAD>();
        RECORD_HEAD + head.map_or(0, |head| usize::from(u16::from_le_bytes([head[0], head[1]])))
    }

    /// Opens the record at the start of `bytes` and appends its data to `plain`. Returns the bytes
    /// of the record; `None` while it is incomplete.
    ///
    /// # Errors
    /// The record is not the next record that the other side sealed; this is detected as soon as
    /// the head is complete. All later bytes of the connection are untrusted.
    pub fn open(&mut self, bytes: &[u8], plain: &mut Vec<u8>) -> Result<Option<usize>, NoiseError> {
        let Some((head, rest)) = bytes.split_first_chunk::<RECORD_HEAD>() else { return Ok(None) };
        let length = u16::from_le_bytes([head[0], head[1]]);
        let other = match self.side {
            NoiseSide::Initiator => NoiseSide::Acceptor,
            NoiseSide::Acceptor => NoiseSide::Initiator,
        };
        if *head != self.head(other, self.state.receiving_nonce(), length) {
            return Err(NoiseError::Forged);
        }
        let length = usize::from(length);
        let Some(carried) = length.checked_sub(TAG) else { return Err(NoiseError::Short(length)) };
        let Some(sealed) = rest.get(..length) else { return Ok(None) };
        let at = plain.len();
        plain.resize(at + carried, 0);
        match self.state.read_message(sealed, &mut plain[at..]) {
            Ok(_) => Ok(Some(RECORD_HEAD + length)),
            Err(_) => {
                plain.truncate(at);
                Err(NoiseError::Forged)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pair() -> (Cipher, Cipher) {
        let secret = Secret([5; 32]);
        let (initiator, message) = Handshake::initiator(&secret, b"test").unwrap();
        let (acceptor, answer) = Handshake::accept(&secret, b"test", &message).unwrap();
        (initiator.answered(&answer).unwrap(), acceptor)
    }

    #[test]
    fn sealed_records_open_in_order_and_are_unreadable() {
        let (mut a, mut b) = pair();
        let long: Vec<u8> = (0..3 * MAX_RECORD + 7).map(|i| i as u8).collect();
        let mut sealed = Vec::new();
        a.seal(b"a secret word", &mut sealed).unwrap();
        a.seal(&long, &mut sealed).unwrap();
        a.seal(&[], &mut sealed).unwrap();
        assert!(!sealed.windows(6).any(|piece| piece == b"secret"));
        let (mut at, mut plain) = (0, Vec::new());
        while at < sealed.len() {
            at += b.open(&sealed[at..], &mut plain).unwrap().unwrap();
        }
        assert_eq!(plain, [&b"a secret word"[..], &long].concat());
        assert_eq!(b.open(&sealed, &mut plain), Err(NoiseError::Forged), "a replay");
    }

    #[test]
    fn a_head_is_valid_for_its_side_number_and_connection_only() {
        let (mut a, mut b) = pair();
        let mut sealed = Vec::new();
        a.seal(b"word", &mut sealed).unwrap();
        let head = &sealed[..RECORD_HEAD];
        for other in [&mut a, &mut pair().1] {
            assert_eq!(other.open(head, &mut Vec::new()), Err(NoiseError::Forged));
        }
        assert_eq!(b.open(head, &mut Vec::new()), Ok(None));
        assert_eq!(b.open(&sealed, &mut Vec::new()), Ok(Some(sealed.len())));
        assert_eq!(
            b.open(head, &mut Vec::new()),
            Err(NoiseError::Forged),
            "the next record has another head"
        );
    }

    #[test]
    fn a_wrong_secret_another_prologue_and_every_changed_bit_are_refused() {
        let secret = Secret([5; 32]);
        let (initiator, message) = Handshake::initiator(&secret, b"test").unwrap();
        assert_eq!(
            Handshake::accept(&Secret([6; 32]), b"test", &message).err(),
            Some(NoiseError::Forged)
        );
        assert_eq!(Handshake::accept(&secret, b"tess", &message).err(), Some(NoiseError::Forged));
        // A changed public key changes the shared key, for which the tag is wrong.
        for bit in 0..HANDSHAKE * 8 {
            let mut other = message;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Handshake::accept(&secret, b"test", &other).err(), Some(NoiseError::Forged));
        }
        let (_, mut answer) = Handshake::accept(&secret, b"test", &message).unwrap();
        answer[40] ^= 1;
        assert_eq!(initiator.answered(&answer).err(), Some(NoiseError::Forged));

        let mut sealed = Vec::new();
        pair().0.seal(b"word", &mut sealed).unwrap();
        for bit in 0..sealed.len() * 8 {
            let (mut a, mut b) = pair();
            sealed.clear();
            a.seal(b"word", &mut sealed).unwrap();
            sealed[bit / 8] ^= 1 << (bit % 8);
            let mut plain = Vec::new();
            // With a larger length, the receiver would wait for bytes that never come.
            assert_eq!(b.open(&sealed, &mut plain), Err(NoiseError::Forged), "bit {bit}");
            assert!(plain.is_empty());
        }
    }

    #[test]
    fn a_recorded_connection_cannot_be_replayed() {
        let secret = Secret([5; 32]);
        let (initiator, message) = Handshake::initiator(&secret, b"test").unwrap();
        let (_, answer) = Handshake::accept(&secret, b"test", &message).unwrap();
        let mut sealed = Vec::new();
        initiator.answered(&answer).unwrap().seal(b"halt", &mut sealed).unwrap();
        let (mut other, _) = Handshake::accept(&secret, b"test", &message).unwrap();
        assert_eq!(other.open(&sealed, &mut Vec::new()), Err(NoiseError::Forged));
    }

    proptest! {
        #[test]
        fn random_bytes_are_no_record(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let (mut a, _) = pair();
            let mut plain = Vec::new();
            prop_assert!(!matches!(a.open(&bytes, &mut plain), Ok(Some(_))));
            prop_assert!(plain.is_empty());
        }
    }
}
