//! Positioned reads and writes, with retries after partial transfers.

use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::io;

pub use oxmpi_sys::file::LockKind;

/// Bytes at offsets, with an end.
pub trait Store {
    /// Reads at most all of `to`; 0 at the end.
    fn read_at(&self, to: BytesMut<'_>, offset: u64) -> io::Result<usize>;

    /// Writes at least one byte of `from`, unless it is empty.
    fn write_at(&self, from: Bytes<'_>, offset: u64) -> io::Result<usize>;

    /// Calls `what` while a range is locked.
    fn locked(
        &self,
        kind: LockKind,
        range: (u64, u64),
        what: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()>;

    /// Reads until `to` is full or the end is reached. Returns the number of bytes.
    fn read_all_at(&self, mut to: BytesMut<'_>, offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < to.len() {
            let rest = to.len() - done;
            match self.read_at(to.slice(done, rest), offset.saturating_add(done as u64))? {
                0 => break,
                n => done += n.min(rest),
            }
        }
        Ok(done)
    }

    /// Writes all of `from`.
    ///
    /// # Errors
    /// The system's error; `WriteZero` if a write returns 0.
    fn write_all_at(&self, from: Bytes<'_>, offset: u64) -> io::Result<()> {
        let mut done = 0;
        while done < from.len() {
            let rest = from.len() - done;
            match self.write_at(from.slice(done, rest), offset.saturating_add(done as u64))? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => done += n.min(rest),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
pub(crate) mod model {
    //! A store in memory with a limit on each transfer, which counts its calls.

    use super::*;
    use std::cell::{Cell, RefCell};

    #[derive(Debug)]
    pub(crate) struct Model {
        pub(crate) bytes: RefCell<Vec<u8>>,
        pub(crate) most: usize,
        pub(crate) room: usize,
        pub(crate) calls: Cell<usize>,
    }

    impl Model {
        pub(crate) fn new(bytes: Vec<u8>, most: usize) -> Model {
            Model { bytes: RefCell::new(bytes), most, room: usize::MAX, calls: Cell::new(0) }
        }
    }

    impl Store for Model {
        fn read_at(&self, mut to: BytesMut<'_>, offset: u64) -> io::Result<usize> {
            self.calls.set(self.calls.get() + 1);
            let bytes = self.bytes.borrow();
            let from = bytes.get(offset as usize..).unwrap_or_default();
            let n = to.len().min(self.most).min(from.len());
            Bytes::from(&from[..n]).copy_to(to.slice(0, n));
            Ok(n)
        }

        fn write_at(&self, from: Bytes<'_>, offset: u64) -> io::Result<usize> {
            self.calls.set(self.calls.get() + 1);
            let (mut bytes, at) = (self.bytes.borrow_mut(), offset as usize);
            let n = from.len().min(self.most).min(self.room.saturating_sub(at));
            if n == 0 && !from.is_empty() {
                return Err(io::ErrorKind::StorageFull.into());
            }
            if bytes.len() < at + n {
                bytes.resize(at + n, 0);
            }
            bytes[at..at + n].copy_from_slice(&from.slice(0, n).to_vec());
            Ok(n)
        }

        fn locked(
            &self,
            _: LockKind,
            _: (u64, u64),
            what: &mut dyn FnMut() -> io::Result<()>,
        ) -> io::Result<()> {
            what()
        }
    }

    #[test]
    fn partial_transfers_continue() {
        let store = Model::new(Vec::new(), 3);
        store.write_all_at(Bytes::from(&b"0123456789"[..]), 2).unwrap();
        assert_eq!(store.calls.get(), 4);
        let mut room = [0; 20];
        assert_eq!(store.read_all_at(BytesMut::from(&mut room[..]), 1).unwrap(), 11);
        assert_eq!(&room[..11], b"\x000123456789");
        let small = Model { room: 5, ..Model::new(Vec::new(), 3) };
        let error = small.write_all_at(Bytes::from(&b"0123456789"[..]), 0).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        assert_eq!(*small.bytes.borrow(), b"01234");
    }
}
