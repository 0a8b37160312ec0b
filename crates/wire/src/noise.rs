//! Encryption of what two processes that share a secret say to each other over a network.
//!
//! The handshake is Noise `NNpsk0` (The Noise Protocol Framework, revision 34, sections 7 and 9): one message each way, with
//! fresh keys on both sides. Who does not have the secret can read nothing and say nothing, who records a connection and learns
//! the secret later can still not read it, and a recorded connection is worth nothing when it is played again. Its *prologue*
//! is what both sides must agree on beforehand, such as the protocol's name: with another one nothing is understood.
//!
//! ```text
//! initiator                         acceptor
//!   handshake message (48 bytes) ->
//!                                <- handshake message (48 bytes)
//!   records                     <-> records
//! ```
//!
//! The first message can be a recording: an acceptor may do nothing on its account. The first record that it can open is new.
//! A record is its head and a Noise message: up to [`MAX_RECORD`] bytes and a tag of 16. Records are numbered by both sides, so none
//! can be left out, repeated, changed or moved.
//!
//! The head is the length of the Noise message (two bytes, little endian) and the first six bytes of a MAC, keyed BLAKE3 over the
//! sender's side, the number of the record and that length. Its key is the MAC, by the secret, of the hash of the handshake, so that
//! each connection has another one. A receiver that believed a changed length would wait for bytes that nobody sends.
//!
//! AES-GCM is the cipher, as processors have instructions for it; where one has none, the same is computed without them, slower.

use snow::{Builder, HandshakeState, TransportState};

use crate::Secret;

/// Noise's name of handshake and ciphers (revision 34, section 8).
const PATTERN: &str = "Noise_NNpsk0_25519_AESGCM_BLAKE2s";
/// Bytes of a handshake message: a public key and a tag.
pub const HANDSHAKE: usize = 32 + TAG;
/// Bytes that a cipher adds to what it seals.
pub const TAG: usize = 16;
/// Bytes of a record's head.
pub const RECORD_HEAD: usize = LENGTH + CHECK;
/// Bytes of a length, and of the MAC behind it.
const LENGTH: usize = 2;
const CHECK: usize = 6;
/// The most bytes that one record carries.
pub const MAX_RECORD: usize = u16::MAX as usize - TAG;

/// Which connections one side wants to be encrypted. They are if either side wants it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Encryption {
    /// None.
    Never,
    /// Those that lead to another host.
    #[default]
    BetweenHosts,
    /// All.
    Always,
}

impl Encryption {
    const ALL: [Encryption; 3] = [Encryption::Never, Encryption::BetweenHosts, Encryption::Always];

    /// Its number in messages.
    pub fn number(self) -> u32 {
        self as u32
    }

    /// That of this number.
    pub fn of(number: u32) -> Option<Encryption> {
        Encryption::ALL.into_iter().find(|one| one.number() == number)
    }
}

/// What came is not from a process that has the secret and runs this protocol, or was changed on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoiseError {
    /// A handshake message or record cannot be opened.
    #[error("it does not know the secret, or what it said was changed on the way")]
    Forged,
    /// A record is shorter than its tag.
    #[error("a record of {0} bytes is shorter than the {TAG} of its tag")]
    Short(usize),
    /// There is no randomness for a key, or a cipher is used up (2^64 records).
    #[error("no key can be made: {0}")]
    Keys(&'static str),
}

/// Which side of a connection has sent a record.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
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
    /// The side that has connected, with what it says first.
    ///
    /// # Errors
    /// [`NoiseError::Keys`] if the kernel gives no random bytes.
    pub fn initiator(secret: &Secret, prologue: &[u8]) -> Result<(Handshake, [u8; HANDSHAKE]), NoiseError> {
        let keys = |_| NoiseError::Keys("no random bytes");
        let mut state = builder(secret, prologue).and_then(Builder::build_initiator).map_err(keys)?;
        let mut message = [0; HANDSHAKE];
        state.write_message(&[], &mut message).map_err(keys)?;
        Ok((Handshake(state, secret.clone()), message))
    }

    /// Takes the acceptor's answer: from now on records travel.
    ///
    /// # Errors
    /// [`NoiseError::Forged`] if it does not have the secret, or the prologue is another one.
    pub fn answered(mut self, answer: &[u8; HANDSHAKE]) -> Result<Cipher, NoiseError> {
        self.0.read_message(answer, &mut []).map_err(|_| NoiseError::Forged)?;
        Cipher::after(self.0, &self.1, Side::Initiator)
    }

    /// The side that was connected to: opens the initiator's message, and answers it.
    ///
    /// # Errors
    /// As [`Handshake::initiator`] and [`Handshake::answered`].
    pub fn accept(
        secret: &Secret,
        prologue: &[u8],
        message: &[u8; HANDSHAKE],
    ) -> Result<(Cipher, [u8; HANDSHAKE]), NoiseError> {
        let keys = |_| NoiseError::Keys("no random bytes");
        let mut state = builder(secret, prologue).and_then(Builder::build_responder).map_err(keys)?;
        state.read_message(message, &mut []).map_err(|_| NoiseError::Forged)?;
        let mut answer = [0; HANDSHAKE];
        state.write_message(&[], &mut answer).map_err(keys)?;
        Ok((Cipher::after(state, secret, Side::Acceptor)?, answer))
    }
}

/// Seals the records of one direction and opens those of the other.
pub struct Cipher {
    state: TransportState,
    /// By which heads are authenticated.
    heads: [u8; 32],
    side: Side,
}

impl std::fmt::Debug for Cipher {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (sent, received) = (self.state.sending_nonce(), self.state.receiving_nonce());
        write!(f, "Cipher(sent {sent}, received {received})")
    }
}

impl Cipher {
    fn after(state: HandshakeState, secret: &Secret, side: Side) -> Result<Cipher, NoiseError> {
        let heads = *blake3::keyed_hash(&secret.0, state.get_handshake_hash()).as_bytes();
        let state = state.into_transport_mode().map_err(|_| NoiseError::Keys("the handshake is not over"))?;
        Ok(Cipher { state, heads, side })
    }

    /// The head of record `number` of a side, with so many bytes behind it.
    fn head(&self, side: Side, number: u64, length: u16) -> [u8; RECORD_HEAD] {
        let mut said = [0; 1 + 8 + LENGTH];
        said[0] = side as u8;
        said[1..9].copy_from_slice(&number.to_le_bytes());
        said[9..].copy_from_slice(&length.to_le_bytes());
        let mut head = [0; RECORD_HEAD];
        head[..LENGTH].copy_from_slice(&length.to_le_bytes());
        head[LENGTH..].copy_from_slice(&blake3::keyed_hash(&self.heads, &said).as_bytes()[..CHECK]);
        head
    }

    /// Appends as many records to `out` as `plain` needs: none if it is empty.
    ///
    /// # Errors
    /// [`NoiseError::Keys`] after 2^64 records.
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

    /// Bytes of the record with which `bytes` begin, which [`Cipher::open`] has seen; those of its head if that has not come whole.
    pub fn record_length(bytes: &[u8]) -> usize {
        let head = bytes.first_chunk::<RECORD_HEAD>();
        RECORD_HEAD + head.map_or(0, |head| usize::from(u16::from_le_bytes([head[0], head[1]])))
    }

    /// Opens the record with which `bytes` begin and appends what it carries to `plain`. Returns how many bytes of `bytes` it
    /// took; `None`, if it has not come whole.
    ///
    /// # Errors
    /// If it was not sealed by the other side as its next record: that is said as soon as its head is here. Nothing that comes later
    /// can be believed then.
    pub fn open(&mut self, bytes: &[u8], plain: &mut Vec<u8>) -> Result<Option<usize>, NoiseError> {
        let Some((head, rest)) = bytes.split_first_chunk::<RECORD_HEAD>() else { return Ok(None) };
        let length = u16::from_le_bytes([head[0], head[1]]);
        let other = match self.side {
            Side::Initiator => Side::Acceptor,
            Side::Acceptor => Side::Initiator,
        };
        if *head != self.head(other, self.state.receiving_nonce(), length) {
            return Err(NoiseError::Forged);
        }
        let length = usize::from(length);
        // Only a side that does not keep to this has sealed less than a tag.
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
    fn what_is_sealed_is_opened_in_its_order_and_cannot_be_read() {
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
        assert_eq!(b.open(&sealed, &mut plain), Err(NoiseError::Forged), "the same again");
    }

    #[test]
    fn a_head_holds_for_its_side_its_place_and_its_connection() {
        let (mut a, mut b) = pair();
        let mut sealed = Vec::new();
        a.seal(b"word", &mut sealed).unwrap();
        let head = &sealed[..RECORD_HEAD];
        for other in [&mut a, &mut pair().1] {
            assert_eq!(other.open(head, &mut Vec::new()), Err(NoiseError::Forged));
        }
        assert_eq!(b.open(head, &mut Vec::new()), Ok(None));
        assert_eq!(b.open(&sealed, &mut Vec::new()), Ok(Some(sealed.len())));
        assert_eq!(b.open(head, &mut Vec::new()), Err(NoiseError::Forged), "the next record has another one");
    }

    #[test]
    fn a_wrong_secret_another_prologue_and_every_changed_bit_are_refused() {
        let secret = Secret([5; 32]);
        let (initiator, message) = Handshake::initiator(&secret, b"test").unwrap();
        assert_eq!(Handshake::accept(&Secret([6; 32]), b"test", &message).err(), Some(NoiseError::Forged));
        assert_eq!(Handshake::accept(&secret, b"tess", &message).err(), Some(NoiseError::Forged));
        // A changed key gives another one in common, which the tag does not fit.
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
            // A longer length would wait for bytes that do not come.
            assert_eq!(b.open(&sealed, &mut plain), Err(NoiseError::Forged), "bit {bit}");
            assert!(plain.is_empty());
        }
    }

    #[test]
    fn a_recorded_connection_is_worth_nothing_to_a_new_acceptor() {
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
        fn no_bytes_are_taken_for_a_record(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let (mut a, _) = pair();
            let mut plain = Vec::new();
            prop_assert!(!matches!(a.open(&bytes, &mut plain), Ok(Some(_))));
            prop_assert!(plain.is_empty());
        }
    }
}
