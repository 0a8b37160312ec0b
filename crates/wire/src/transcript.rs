//! Mutual proof of a shared secret by MACs over all messages of a greeting.
//!
//! A *transcript* has all messages of both sides on one connection. Each message of a greeting ends
//! with a MAC: keyed BLAKE3 over a label that names the message, the transcript so far, and the
//! message. The transcript contains a nonce of each side, so a message is invalid in any other role
//! or connection.

/// A secret shared by the processes of a job, or by the daemons of a user.
#[derive(Clone)]
pub struct Secret(pub [u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Random bytes that are used once.
pub type Nonce = [u8; 32];

pub const MAC: usize = 32;

/// A MAC is wrong: its sender does not have the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it does not know the secret")]
pub struct WrongMac;

/// The bytes that two processes have exchanged, of which each proves that it knows the secret.
#[derive(Clone, Debug)]
pub struct Transcript {
    secret: Secret,
    bytes: Vec<u8>,
}

impl Transcript {
    /// An empty transcript with room for `capacity` bytes.
    pub fn new(secret: &Secret, capacity: usize) -> Transcript {
        Transcript { secret: secret.clone(), bytes: Vec::with_capacity(capacity) }
    }

    fn mac(&self, label: u8, more: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret.0);
        hasher.update(&[label]);
        hasher.update(&self.bytes);
        hasher.update(more);
        hasher.finalize()
    }

    /// The MAC of a message of any length after the transcript so far. The transcript does not
    /// change.
    pub fn mac_of(&self, label: u8, message: &[u8]) -> [u8; MAC] {
        *self.mac(label, message).as_bytes()
    }

    /// Checks a MAC of [`Transcript::mac_of`].
    pub fn check(&self, label: u8, message: &[u8], mac: &[u8; MAC]) -> Result<(), WrongMac> {
        // `Hash` compares in constant time.
        if self.mac(label, message) == blake3::Hash::from_bytes(*mac) {
            Ok(())
        } else {
            Err(WrongMac)
        }
    }

    /// Adds an own message to the transcript and appends its MAC; `N` bytes in all.
    pub fn seal<const N: usize>(&mut self, label: u8, message: &[u8]) -> [u8; N] {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(message);
        let mac = self.mac(label, &[]);
        self.bytes.extend_from_slice(mac.as_bytes());
        let mut out = [0; N];
        out.copy_from_slice(&self.bytes[at..]);
        out
    }

    /// Adds a message of the other side to the transcript after a check of the MAC at its end.
    pub fn open<const N: usize>(&mut self, label: u8, message: &[u8; N]) -> Result<(), WrongMac> {
        let (body, mac) = message.split_at(N - MAC);
        self.bytes.extend_from_slice(body);
        let mut wanted = [0; MAC];
        wanted.copy_from_slice(mac);
        if self.mac(label, &[]) != blake3::Hash::from_bytes(wanted) {
            return Err(WrongMac);
        }
        self.bytes.extend_from_slice(mac);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_is_valid_for_its_secret_label_position_and_message_only() {
        let secret = Secret([7; 32]);
        let sealed: [u8; 5 + MAC] = Transcript::new(&secret, 64).seal(1, b"hello");
        assert_eq!(Transcript::new(&secret, 0).open(1, &sealed), Ok(()));
        assert_eq!(Transcript::new(&secret, 0).open(2, &sealed), Err(WrongMac));
        assert_eq!(Transcript::new(&Secret([8; 32]), 0).open(1, &sealed), Err(WrongMac));
        for bit in 0..sealed.len() * 8 {
            let mut other = sealed;
            other[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Transcript::new(&secret, 0).open(1, &other), Err(WrongMac));
        }
        let mut later = Transcript::new(&secret, 0);
        later.open(1, &sealed).unwrap();
        assert_eq!(later.open(1, &sealed), Err(WrongMac), "a replay");
    }

    #[test]
    fn a_mac_outside_the_transcript_is_valid_after_its_beginning() {
        let secret = Secret([7; 32]);
        let mut transcript = Transcript::new(&secret, 64);
        let hello: [u8; 5 + MAC] = transcript.seal(1, b"hello");
        let (one, other) = (transcript.mac_of(2, b"one"), transcript.mac_of(2, b"other"));
        assert_eq!(transcript.check(2, b"other", &other), Ok(()));
        assert_eq!(transcript.check(2, b"one", &one), Ok(()), "in any order");
        assert_eq!(transcript.check(2, b"one", &other), Err(WrongMac));
        assert_eq!(transcript.check(3, b"one", &one), Err(WrongMac));
        assert_eq!(Transcript::new(&secret, 0).check(2, b"one", &one), Err(WrongMac));
        let mut theirs = Transcript::new(&secret, 0);
        theirs.open(1, &hello).unwrap();
        assert_eq!(theirs.check(2, b"one", &one), Ok(()));
    }
}
