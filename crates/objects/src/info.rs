//! Infos (MPI-5.0 chapter 10): pairs of a key and a value, in the order in which the keys were
//! first set. Keys and values are bytes without the closing zero, and need not be UTF-8.

use crate::error::{MpiError, Result};
use oxmpi_abi::constants as abi;

/// In bytes; the limit in C includes the closing zero.
pub const MAX_KEY: usize = abi::MPI_MAX_INFO_KEY as usize - 1;
/// In bytes.
pub const MAX_VALUE: usize = abi::MPI_MAX_INFO_VAL as usize - 1;

/// An info object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Info {
    pairs: Vec<InfoPair>,
}

type InfoPair = (Box<[u8]>, Box<[u8]>);

impl Info {
    /// An info without pairs.
    pub const fn new() -> Info {
        Info { pairs: Vec::new() }
    }

    /// Sets a value (`MPI_Info_set`). A new key is appended; a known key keeps its position. Fails
    /// with `MPI_ERR_INFO_KEY` for an empty or too long key, and with `MPI_ERR_INFO_VALUE` for a
    /// too long value.
    pub fn set(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        check_key(key)?;
        if value.len() > MAX_VALUE {
            let text = format!(
                "the value of key {} has {} bytes; at most {MAX_VALUE} are allowed",
                shown(key),
                value.len()
            );
            return Err(MpiError::new(abi::MPI_ERR_INFO_VALUE, text));
        }
        match self.pairs.iter_mut().find(|(known, _)| **known == *key) {
            Some((_, place)) => *place = value.into(),
            None => self.pairs.push((key.into(), value.into())),
        }
        Ok(())
    }

    /// The value of a key (`MPI_Info_get_string`). Fails with `MPI_ERR_INFO_KEY` for an empty or
    /// too long key.
    pub fn get(&self, key: &[u8]) -> Result<Option<&[u8]>> {
        check_key(key)?;
        Ok(self.pairs.iter().find(|(known, _)| **known == *key).map(|(_, value)| &**value))
    }

    /// The value of a known hint, if it is set and is UTF-8.
    pub fn hint(&self, key: &str) -> Option<&str> {
        std::str::from_utf8(self.get(key.as_bytes()).ok()??).ok()
    }

    /// Removes a pair (`MPI_Info_delete`). Fails with `MPI_ERR_INFO_NOKEY` without such a key, and
    /// as [`Info::get`].
    pub fn delete(&mut self, key: &[u8]) -> Result<()> {
        check_key(key)?;
        let Some(at) = self.pairs.iter().position(|(known, _)| **known == *key) else {
            let text = format!("the info has no key {}", shown(key));
            return Err(MpiError::new(abi::MPI_ERR_INFO_NOKEY, text));
        };
        self.pairs.remove(at);
        Ok(())
    }

    /// The number of pairs.
    pub fn len(&self) -> usize {
        self.pairs.len()
    }

    /// Whether there are no pairs.
    pub fn is_empty(&self) -> bool {
        self.pairs.is_empty()
    }

    /// The `n`th key, counted from 0 (`MPI_Info_get_nthkey`). Fails with `MPI_ERR_ARG` for a number
    /// out of range.
    pub fn key(&self, n: i32) -> Result<&[u8]> {
        let pair = usize::try_from(n).ok().and_then(|n| self.pairs.get(n));
        pair.map(|(key, _)| &**key).ok_or_else(|| {
            MpiError::new(
                abi::MPI_ERR_ARG,
                format!("n is {n}; the info has {} keys", self.pairs.len()),
            )
        })
    }

    /// The pairs in their order.
    pub fn iter(&self) -> impl Iterator<Item = (&[u8], &[u8])> {
        self.pairs.iter().map(|(key, value)| (&**key, &**value))
    }
}

fn check_key(key: &[u8]) -> Result<()> {
    if key.is_empty() {
        return Err(MpiError::new(abi::MPI_ERR_INFO_KEY, "the key is empty"));
    }
    if key.len() > MAX_KEY {
        let text = format!("the key has {} bytes; at most {MAX_KEY} are allowed", key.len());
        return Err(MpiError::new(abi::MPI_ERR_INFO_KEY, text));
    }
    Ok(())
}

fn shown(key: &[u8]) -> String {
    format!("\"{}\"", key.escape_ascii())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_keep_their_order() {
        let mut info = Info::new();
        for (key, value) in [("b", "1"), ("a", "2"), ("c", "3"), ("a", "4")] {
            info.set(key.as_bytes(), value.as_bytes()).unwrap();
        }
        let all: Vec<_> = info.iter().collect();
        assert_eq!(all, [(&b"b"[..], &b"1"[..]), (b"a", b"4"), (b"c", b"3")]);
        info.delete(b"b").unwrap();
        assert_eq!(info.key(0).unwrap(), b"a");
        assert_eq!(info.key(2).unwrap_err().class(), abi::MPI_ERR_ARG);
        assert_eq!(info.key(-1).unwrap_err().class(), abi::MPI_ERR_ARG);
        assert_eq!(info.delete(b"b").unwrap_err().class(), abi::MPI_ERR_INFO_NOKEY);
    }

    #[test]
    fn limits_hold() {
        let mut info = Info::new();
        info.set(&[b'k'; MAX_KEY], &[b'v'; MAX_VALUE]).unwrap();
        info.set(b"empty", b"").unwrap();
        assert_eq!(info.get(b"empty").unwrap(), Some(&b""[..]));
        let class = |result: Result<()>| result.unwrap_err().class();
        assert_eq!(class(info.set(&[b'k'; MAX_KEY + 1], b"")), abi::MPI_ERR_INFO_KEY);
        assert_eq!(class(info.set(b"", b"v")), abi::MPI_ERR_INFO_KEY);
        assert_eq!(class(info.set(b"k", &[b'v'; MAX_VALUE + 1])), abi::MPI_ERR_INFO_VALUE);
        assert_eq!(info.len(), 2);
    }

    proptest! {
        /// The model is a list: the last value of a key counts, in the order of first mention.
        #[test]
        fn it_is_what_a_list_is(changes in proptest::collection::vec((0u8..6, proptest::option::of(0u8..9)), 0..60)) {
            let (mut info, mut model) = (Info::new(), Vec::<(u8, u8)>::new());
            for (key, value) in changes {
                let at = model.iter().position(|pair| pair.0 == key);
                match value {
                    Some(value) => {
                        info.set(&[key + 1], &[value]).unwrap();
                        match at {
                            Some(at) => model[at].1 = value,
                            None => model.push((key, value)),
                        }
                    }
                    None => {
                        prop_assert_eq!(info.delete(&[key + 1]).is_ok(), at.is_some());
                        at.map(|at| model.remove(at));
                    }
                }
            }
            let all: Vec<_> = info.iter().map(|(key, value)| (key[0] - 1, value[0])).collect();
            prop_assert_eq!(all, model);
        }
    }
}
