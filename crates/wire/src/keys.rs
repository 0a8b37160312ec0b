//! Key pairs, by which two processes that share no secret get one over a channel that anybody can
//! read, if nobody can change its data.
//!
//! Each process sends its public key, and computes the secret from its own private key and the
//! other's public key: X25519 (RFC 7748). The secret is the BLAKE2s hash of a label, the result of
//! X25519 and both public keys, so it belongs to one purpose and one pair of processes.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use snow::params::{DHChoice, HashChoice};
use snow::resolvers::{CryptoResolver as _, DefaultResolver};
use snow::types::Dh;

use crate::Secret;
use crate::hex::{from_hex, to_hex};
use crate::noise::NoiseError;

/// Bytes of a key.
const KEY: usize = 32;

/// The key of a process that others may know; as text, 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PublicKey(pub [u8; KEY]);

/// A text is no public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a public key has {} hexadecimal digits", 2 * KEY)]
pub struct MalformedKey;

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&to_hex(&self.0))
    }
}

impl FromStr for PublicKey {
    type Err = MalformedKey;

    fn from_str(text: &str) -> Result<PublicKey, MalformedKey> {
        let bytes = from_hex(text).and_then(|bytes| bytes.try_into().ok());
        bytes.map(PublicKey).ok_or(MalformedKey)
    }
}

/// A private key with its public key.
pub struct KeyPair {
    private: Box<dyn Dh>,
    public: PublicKey,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.public)
    }
}

impl KeyPair {
    /// A new pair. An error if the kernel has no random bytes.
    pub fn generate() -> Result<KeyPair, NoiseError> {
        let resolver = DefaultResolver;
        let (Some(mut private), Some(mut random)) =
            (resolver.resolve_dh(&DHChoice::Curve25519), resolver.resolve_rng())
        else {
            return Err(NoiseError::Keys("this program was built without X25519"));
        };
        private.generate(&mut *random).map_err(|_| NoiseError::Keys("no random bytes"))?;
        let public = private.pubkey().try_into();
        let public = public.map_err(|_| NoiseError::Keys("a public key has another length"))?;
        Ok(KeyPair { private, public: PublicKey(public) })
    }

    /// The key for the other process.
    pub fn public(&self) -> PublicKey {
        self.public
    }

    /// The secret that this process shares with the owner of the other key, for the purpose that
    /// the label names.
    ///
    /// # Errors
    /// The other key is one with which every private key gives zero (RFC 7748, section 6.1), so
    /// that anybody would know the secret.
    pub fn shared(&self, theirs: &PublicKey, label: &[u8]) -> Result<Secret, NoiseError> {
        let mut common = [0; KEY];
        self.private.dh(&theirs.0, &mut common).map_err(|_| NoiseError::WeakKey)?;
        if common == [0; KEY] {
            return Err(NoiseError::WeakKey);
        }
        let Some(mut hash) = DefaultResolver.resolve_hash(&HashChoice::Blake2s) else {
            return Err(NoiseError::Keys("this program was built without BLAKE2s"));
        };
        let (own, theirs) = (self.public.0, theirs.0);
        // All parts after the label have fixed lengths, so no two inputs are the same bytes.
        for part in [label, &common, &own.min(theirs), &own.max(theirs)] {
            hash.input(part);
        }
        let mut secret = Secret([0; KEY]);
        hash.result(&mut secret.0);
        Ok(secret)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_sides_compute_one_secret_for_each_label_and_pair() {
        let pairs = [(); 3].map(|()| KeyPair::generate().unwrap());
        let [a, b, c] = &pairs;
        let secret = |own: &KeyPair, other: &KeyPair, label: &[u8]| {
            own.shared(&other.public(), label).unwrap().0
        };
        let ours = secret(a, b, b"label");
        assert_eq!(ours, secret(b, a, b"label"));
        for other in [
            secret(a, b, b"labe"),
            secret(a, b, b""),
            secret(a, c, b"label"),
            secret(c, b, b"label"),
        ] {
            assert_ne!(ours, other);
        }
    }

    #[test]
    fn keys_that_give_zero_are_refused() {
        let pair = KeyPair::generate().unwrap();
        let mut one = [0; KEY];
        one[0] = 1;
        for weak in [[0; KEY], one] {
            assert_eq!(pair.shared(&PublicKey(weak), b"label").err(), Some(NoiseError::WeakKey));
        }
    }

    #[test]
    fn a_key_is_written_and_read_and_the_private_key_is_not_shown() {
        let pair = KeyPair::generate().unwrap();
        let text = pair.public().to_string();
        assert_eq!((text.len(), text.parse()), (2 * KEY, Ok(pair.public())));
        assert_eq!(text.to_uppercase().parse(), Ok(pair.public()));
        for wrong in
            ["", &text[1..], &text[2..], &format!("{text}0"), &text.replace(&text[..1], "+")]
        {
            assert_eq!(wrong.parse::<PublicKey>(), Err(MalformedKey), "{wrong}");
        }
        assert_eq!(format!("{pair:?}"), format!("KeyPair({text})"));
    }
}
