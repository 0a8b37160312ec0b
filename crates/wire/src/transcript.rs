//! How two processes that share a secret prove it to each other: MACs over everything that was said.
//!
//! A *transcript* is what both sides have said on one connection so far. Each message of a greeting ends with a MAC, keyed
//! BLAKE3 over a label that names the message, all before it on this connection, and itself; so with a nonce of each side in
//! it, a message of one role or connection is worth nothing in another.

/// A secret that the processes of a job, or the daemons of a user, have in common.
#[derive(Clone)]
pub struct Secret(pub [u8; 32]);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

/// Random bytes that are used once.
pub type Nonce = [u8; 32];

/// Bytes of a MAC.
pub const MAC: usize = 32;

/// A MAC is wrong: who sent it does not have the secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it does not know the secret")]
pub struct WrongMac;

/// What was said on one connection so far, on either side.
#[derive(Clone, Debug)]
pub struct Transcript {
    secret: Secret,
    said: Vec<u8>,
}

impl Transcript {
    /// Nothing yet, with room for so many bytes.
    pub fn new(secret: &Secret, capacity: usize) -> Transcript {
        Transcript { secret: secret.clone(), said: Vec::with_capacity(capacity) }
    }

    fn mac(&self, label: u8, more: &[u8]) -> blake3::Hash {
        let mut hasher = blake3::Hasher::new_keyed(&self.secret.0);
        hasher.update(&[label]);
        hasher.update(&self.said);
        hasher.update(more);
        hasher.finalize()
    }

    /// The MAC of a message of any length that follows what was said so far, and is no part of it: what is said next follows
    /// the same.
    pub fn mac_of(&self, label: u8, message: &[u8]) -> [u8; MAC] {
        *self.mac(label, message).as_bytes()
    }

    /// Checks such a MAC.
    ///
    /// # Errors
    /// If it is wrong.
    pub fn check(&self, label: u8, message: &[u8], mac: &[u8; MAC]) -> Result<(), WrongMac> {
        // `Hash` compares in constant time.
        if self.mac(label, message) == blake3::Hash::from_bytes(*mac) { Ok(()) } else { Err(WrongMac) }
    }

    /// Ends a message of our own with its MAC. `N` is the length of both.
    pub fn seal<const N: usize>(&mut self, label: u8, message: &[u8]) -> [u8; N] {
        let at = self.said.len();
        self.said.extend_from_slice(message);
        let mac = self.mac(label, &[]);
        self.said.extend_from_slice(mac.as_bytes());
        let mut out = [0; N];
        out.copy_from_slice(&self.said[at..]);
        out
    }

    /// Checks a message of the other side's, which ends with its MAC.
    ///
    /// # Errors
    /// If the MAC is wrong.
    pub fn open<const N: usize>(&mut self, label: u8, message: &[u8; N]) -> Result<(), WrongMac> {
        let (body, mac) = message.split_at(N - MAC);
        self.said.extend_from_slice(body);
        let mut wanted = [0; MAC];
        wanted.copy_from_slice(mac);
        // `Hash` compares in constant time.
        if self.mac(label, &[]) != blake3::Hash::from_bytes(wanted) {
            return Err(WrongMac);
        }
        self.said.extend_from_slice(mac);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mac_holds_for_its_secret_its_label_its_place_and_its_message() {
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
        assert_eq!(later.open(1, &sealed), Err(WrongMac), "a repetition");
    }

    #[test]
    fn a_mac_of_what_is_no_part_of_the_transcript_holds_for_its_beginning() {
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
