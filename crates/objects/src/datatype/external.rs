//! Packing in "external32" (MPI-5.0 section 5.3). Packed bytes are converted in small windows, in
//! runs of equal basic elements.

use super::Datatype;
use crate::error::{MpiError, Result};
use oxmpi_abi::constants as abi;
use oxmpi_mem::buffer::{Cursor, UserBuf};
use oxmpi_sys::bytes::{Bytes, BytesMut};

const EXTERNAL32: &[u8] = b"external32";

/// In bytes. The largest basic element has 32.
const WINDOW: usize = 4 << 10;

/// Fails with `MPI_ERR_UNSUPPORTED_DATAREP` unless `name` is "external32".
pub fn check_representation(name: &[u8]) -> Result<()> {
    if is_predefined_name(name, EXTERNAL32) {
        return Ok(());
    }
    let text = format!(
        "datarep is \"{}\"; packing is for \"external32\" only",
        String::from_utf8_lossy(name)
    );
    Err(MpiError::new(abi::MPI_ERR_UNSUPPORTED_DATAREP, text))
}

/// Whether `name` is the data representation `predefined`, in lower case or in capitals.
pub fn is_predefined_name(name: &[u8], predefined: &[u8]) -> bool {
    name == predefined || name == predefined.to_ascii_uppercase()
}

impl Datatype {
    /// The bytes of `count` elements (`MPI_Pack_external_size`); `None` if they do not fit in an
    /// address.
    pub fn external_size(&self, count: usize) -> Option<usize> {
        let bytes = self.signature().external_bytes().checked_mul(count)?;
        isize::try_from(bytes).is_ok().then_some(bytes)
    }

    /// Writes the elements of `from`, which has this type, to `to`. Panics unless `to` has the
    /// length of [`external_size`](Self::external_size).
    pub fn pack_external(&self, from: &UserBuf, mut to: BytesMut<'_>) {
        assert_eq!(Some(to.len()), self.external_size(from.count()), "room for external32");
        let (mut native, mut external) = ([0; WINDOW], [0; WINDOW]);
        let (mut cursor, mut done) = (Cursor::default(), 0);
        self.signature().visit(from.count(), &mut |elements, element| {
            let mut left = elements;
            while left > 0 {
                let n = left.min(WINDOW / element.native_size());
                let native = &mut native[..n * element.native_size()];
                let external = &mut external[..n * element.external_size()];
                from.pack_next(&mut cursor, BytesMut::from(&mut *native));
                element.encode(native, external);
                Bytes::from(&*external).copy_to(to.slice(done, external.len()));
                done += external.len();
                left -= n;
            }
        });
    }

    /// Reads the elements of `to`, which has this type. Panics if `to` is read-only, or unless
    /// `from` has the length of [`external_size`](Self::external_size).
    pub fn unpack_external(&self, from: Bytes<'_>, to: &UserBuf) {
        assert_eq!(Some(from.len()), self.external_size(to.count()), "bytes of external32");
        self.unpack_external_part(from, to);
    }

    /// Reads the whole basic elements in `from`, as [`unpack_external`](Self::unpack_external).
    /// Returns their packed bytes in `to`. Panics if `to` is read-only.
    pub fn unpack_external_part(&self, from: Bytes<'_>, to: &UserBuf) -> usize {
        let (mut native, mut external) = ([0; WINDOW], [0; WINDOW]);
        let (mut cursor, mut done, mut at_end) = (Cursor::default(), 0, false);
        self.signature().visit(to.count(), &mut |elements, element| {
            let there = (from.len() - done) / element.external_size();
            let mut left = if at_end { 0 } else { elements.min(there) };
            at_end |= there < elements;
            while left > 0 {
                let n = left.min(WINDOW / element.native_size());
                let native = &mut native[..n * element.native_size()];
                let external = &mut external[..n * element.external_size()];
                from.slice(done, external.len()).copy_to(BytesMut::from(&mut *external));
                element.decode(external, native);
                to.unpack_next(&mut cursor, Bytes::from(&*native));
                done += external.len();
                left -= n;
            }
        });
        cursor.offset()
    }
}
