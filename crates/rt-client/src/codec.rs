//! The encoding of the launcher's longer messages: a number is 8 bytes, little endian; a text or a
//! list has its length in front.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;

#[derive(Default)]
pub struct FieldWriter(Vec<u8>);

impl FieldWriter {
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    pub fn number(&mut self, number: u64) {
        self.0.extend(number.to_le_bytes());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend(bytes);
    }

    pub fn option(&mut self, bytes: Option<&[u8]>) {
        self.number(bytes.is_some().into());
        if let Some(bytes) = bytes {
            self.bytes(bytes);
        }
    }

    pub fn list<T>(&mut self, all: &[T], write: impl Fn(&mut FieldWriter, &T)) {
        self.number(all.len() as u64);
        all.iter().for_each(|one| write(self, one));
    }
}

/// Bytes that are being read; each method returns `None` if the bytes do not fit.
pub struct FieldReader<'a>(&'a [u8]);

impl<'a> FieldReader<'a> {
    pub fn new(bytes: &'a [u8]) -> FieldReader<'a> {
        FieldReader(bytes)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn number(&mut self) -> Option<u64> {
        let (number, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*number))
    }

    pub fn word(&mut self) -> Option<u32> {
        self.number().and_then(|number| u32::try_from(number).ok())
    }

    pub fn bool(&mut self) -> Option<bool> {
        match self.number()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub fn bytes(&mut self) -> Option<Vec<u8>> {
        let len = usize::try_from(self.number()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(bytes.to_vec())
    }

    pub fn text(&mut self) -> Option<String> {
        self.bytes().and_then(|bytes| String::from_utf8(bytes).ok())
    }

    pub fn os_string(&mut self) -> Option<OsString> {
        self.bytes().map(OsString::from_vec)
    }

    pub fn option(&mut self) -> Option<Option<Vec<u8>>> {
        if self.bool()? { self.bytes().map(Some) } else { Some(None) }
    }

    /// A list of elements of at least one number each, which limits its length.
    pub fn list<T>(&mut self, mut read: impl FnMut(&mut Self) -> Option<T>) -> Option<Vec<T>> {
        let count =
            usize::try_from(self.number()?).ok().filter(|count| *count <= self.0.len() / 8)?;
        (0..count).map(|_| read(self)).collect()
    }
}
