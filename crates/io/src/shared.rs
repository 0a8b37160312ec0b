//! The shared file pointer (MPI-5.0, "Data Access with Shared File Pointers"): a number that all
//! ranks of a file share.
//!
//! Ranks of one node map a memfd with the number, and change it by atomic operations. They open the
//! memfd by the descriptor of the rank that created it (`/proc/PID/fd/N`). For ranks of several
//! nodes, the number is in a small file next to the data file, which is unlinked as soon as all
//! ranks have opened it. A file lock protects the number; the kernel releases the lock when a
//! process dies.
//!
//! On one node, a file lock would not be safe after a restart from a checkpoint. A lock belongs to
//! an open file description, and two ranks may then have the same one. CRIU 4.2 (`memfd_open`)
//! gives the descriptor with which it creates a memfd to the first process that opens the memfd.
//! Two processes that open it at the same time can each count as the first.

use crate::failure::IoFailure;
use crate::posix::PosixFile;
use crate::store::{LockKind, Store};
use oxmpi_abi::constants as abi;
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::memory::Memory;
use oxmpi_sys::nameless;
use oxmpi_sys::{file, net};
use rustix::fs::{self, OFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Mutex, PoisonError};

/// The pointer, in elementary types of the view.
#[derive(Debug)]
pub struct SharedPointer {
    storage: PointerStorage,
}

#[derive(Debug)]
enum PointerStorage {
    /// Of a file that only one rank has open.
    Own(Mutex<u64>),
    /// Word [`NUMBER`] of memory that the ranks of a node share. The creator keeps the descriptor
    /// by which the other ranks open it.
    Memory { memory: Memory, _file: Option<OwnedFd> },
    /// The mutex excludes other threads of this process.
    File(Mutex<OwnedFd>),
    /// The creation of the pointer failed.
    Nowhere,
}

/// Where other ranks of the node find a pointer's memfd.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerLocation {
    pub process: u32,
    pub descriptor: u32,
    /// A random number in the memory, to check its identity.
    pub token: u64,
}

const BYTES: usize = 16;
const NUMBER: usize = 0;
const TOKEN: usize = 1;

fn token() -> Result<u64, IoFailure> {
    let mut bytes = [0; 8];
    net::fill_random(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn begin(descriptor: &OwnedFd, value: u64, token: u64) -> Result<(), IoFailure> {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&value.to_ne_bytes());
    bytes[8..].copy_from_slice(&token.to_ne_bytes());
    match file::write_at(descriptor.as_fd(), Bytes::from(&bytes[..]), 0)? {
        BYTES => Ok(()),
        _ => Err(IoFailure::of_class(abi::MPI_ERR_NO_SPACE)),
    }
}

fn has_token(descriptor: &OwnedFd, token: u64) -> bool {
    let mut found = [0; 8];
    let read = file::read_at(descriptor.as_fd(), BytesMut::from(&mut found[..]), 8);
    read.is_ok_and(|n| n == found.len()) && u64::from_ne_bytes(found) == token
}

impl SharedPointer {
    /// The pointer of a file that only this rank has open.
    pub fn own(value: u64) -> SharedPointer {
        SharedPointer { storage: PointerStorage::Own(Mutex::new(value)) }
    }

    /// No pointer: its use is an error.
    pub fn nowhere() -> SharedPointer {
        SharedPointer { storage: PointerStorage::Nowhere }
    }

    fn in_file(descriptor: OwnedFd) -> SharedPointer {
        SharedPointer { storage: PointerStorage::File(Mutex::new(descriptor)) }
    }

    /// Creates a pointer for the ranks of this node.
    pub fn create(value: u64) -> Result<(SharedPointer, PointerLocation), IoFailure> {
        let descriptor = nameless::create("oxmpi-file-pointer")?;
        let token = token()?;
        begin(&descriptor, value, token)?;
        nameless::seal(&descriptor)?;
        let memory = Memory::of_file(&descriptor, BYTES)?;
        let number = u32::try_from(descriptor.as_raw_fd()).unwrap_or(u32::MAX);
        let place = PointerLocation { process: std::process::id(), descriptor: number, token };
        Ok((
            SharedPointer { storage: PointerStorage::Memory { memory, _file: Some(descriptor) } },
            place,
        ))
    }

    /// The pointer that another rank of this node has created; `None` if it cannot be opened.
    pub fn attach(place: PointerLocation) -> Option<SharedPointer> {
        let path = format!("/proc/{}/fd/{}", place.process, place.descriptor);
        let descriptor = fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, fs::Mode::empty()).ok()?;
        let memory = Memory::of_file(&descriptor, BYTES).ok()?;
        let found = memory.word(TOKEN).load(Ordering::Relaxed);
        (found == place.token)
            .then_some(SharedPointer { storage: PointerStorage::Memory { memory, _file: None } })
    }

    /// Creates a pointer in a file next to the data file. Returns the token by which other ranks
    /// open it.
    pub fn create_beside(file: &PosixFile, value: u64) -> Result<(SharedPointer, u64), IoFailure> {
        let token = token()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let descriptor =
            fs::open(beside(file.path(), token), flags, fs::Mode::RUSR | fs::Mode::WUSR)?;
        let pointer = begin(&descriptor, value, token).map(|()| SharedPointer::in_file(descriptor));
        if pointer.is_err() {
            SharedPointer::forget_beside(file, token);
        }
        Ok((pointer?, token))
    }

    /// The pointer that another rank has created beside the data file; `None` if it cannot be
    /// opened.
    pub fn attach_beside(file: &PosixFile, token: u64) -> Option<SharedPointer> {
        let path = beside(file.path(), token);
        let descriptor = fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, fs::Mode::empty()).ok()?;
        has_token(&descriptor, token).then(|| SharedPointer::in_file(descriptor))
    }

    /// Unlinks the pointer's file after all ranks have opened it.
    pub fn forget_beside(file: &PosixFile, token: u64) {
        // Another rank may have removed the file.
        let _ = fs::unlink(beside(file.path(), token));
    }

    fn change(&self, change: impl Fn(u64) -> u64) -> Result<u64, IoFailure> {
        match &self.storage {
            PointerStorage::Nowhere => Err(IoFailure::of_class(abi::MPI_ERR_UNSUPPORTED_OPERATION)),
            PointerStorage::Own(value) => {
                let mut value = value.lock().unwrap_or_else(PoisonError::into_inner);
                let before = *value;
                *value = change(before);
                Ok(before)
            }
            PointerStorage::Memory { memory, .. } => {
                let word = memory.word(NUMBER);
                let mut before = word.load(Ordering::SeqCst);
                loop {
                    match word.compare_exchange(
                        before,
                        change(before),
                        Ordering::SeqCst,
                        Ordering::SeqCst,
                    ) {
                        Ok(before) => return Ok(before),
                        Err(now) => before = now,
                    }
                }
            }
            PointerStorage::File(descriptor) => {
                let descriptor = descriptor.lock().unwrap_or_else(PoisonError::into_inner);
                let _lock = file::lock_range(descriptor.as_fd(), LockKind::Exclusive, 0, 8)?;
                let mut bytes = [0; 8];
                let number = PointerFile(&descriptor);
                if number.read_all_at(BytesMut::from(&mut bytes[..]), 0)? < bytes.len() {
                    return Err(IoFailure::of_class(abi::MPI_ERR_IO));
                }
                let before = u64::from_ne_bytes(bytes);
                let after = change(before);
                if after != before {
                    number.write_all_at(Bytes::from(&after.to_ne_bytes()[..]), 0)?;
                }
                Ok(before)
            }
        }
    }

    /// The value.
    ///
    /// # Errors
    /// The system's error; MPI_ERR_UNSUPPORTED_OPERATION without a pointer.
    pub fn get(&self) -> Result<u64, IoFailure> {
        self.change(|value| value)
    }

    /// Sets the value.
    pub fn set(&self, value: u64) -> Result<(), IoFailure> {
        self.change(|_| value).map(drop)
    }

    /// Advances the value; returns the previous value.
    pub fn advance(&self, by: u64) -> Result<u64, IoFailure> {
        self.change(|value| value.saturating_add(by))
    }
}

struct PointerFile<'a>(&'a OwnedFd);

impl Store for PointerFile<'_> {
    fn read_at(&self, to: BytesMut<'_>, offset: u64) -> io::Result<usize> {
        file::read_at(self.0.as_fd(), to, offset)
    }

    fn write_at(&self, from: Bytes<'_>, offset: u64) -> io::Result<usize> {
        file::write_at(self.0.as_fd(), from, offset)
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

fn beside(file: &Path, token: u64) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(file.file_name().unwrap_or_default());
    name.push(format!(".oxmpi-{token:016x}"));
    file.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mode::Mode;

    fn numbers_are_given_once(pointers: Vec<SharedPointer>) {
        const EACH: usize = 500;
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = pointers
                .iter()
                .map(|p| {
                    scope
                        .spawn(move || (0..EACH).map(|_| p.advance(3).unwrap()).collect::<Vec<_>>())
                })
                .collect();
            threads.into_iter().flat_map(|t| t.join().unwrap()).collect()
        });
        all.sort_unstable();
        let expected: Vec<u64> = (0..(pointers.len() * EACH) as u64).map(|n| 7 + 3 * n).collect();
        assert_eq!(all, expected);
        pointers[0].set(1).unwrap();
        assert_eq!(pointers.last().unwrap().get().unwrap(), 1);
    }

    #[test]
    fn pointers_of_a_node() {
        let (first, place) = SharedPointer::create(7).unwrap();
        let second = SharedPointer::attach(place).unwrap();
        assert!(
            SharedPointer::attach(PointerLocation { token: place.token ^ 1, ..place }).is_none()
        );
        numbers_are_given_once(vec![first, second]);
        numbers_are_given_once(vec![SharedPointer::own(7)]);
        let class = SharedPointer::nowhere().advance(1).unwrap_err().class;
        assert_eq!(class, abi::MPI_ERR_UNSUPPORTED_OPERATION);
    }

    /// After a restart by CRIU, two ranks may have one open file description.
    #[test]
    fn ranks_with_one_open_file_description_get_different_values() {
        let (first, _) = SharedPointer::create(7).unwrap();
        let PointerStorage::Memory { _file: Some(descriptor), .. } = &first.storage else {
            panic!("{first:?}")
        };
        let memory = Memory::of_file(descriptor.try_clone().unwrap(), BYTES).unwrap();
        numbers_are_given_once(vec![
            first,
            SharedPointer { storage: PointerStorage::Memory { memory, _file: None } },
        ]);
    }

    #[test]
    fn pointers_beside_a_file_leave_nothing() {
        let directory = std::env::temp_dir().join(format!("oxmpi-shared-{}", std::process::id()));
        std::fs::create_dir(&directory).unwrap();
        let name = directory.join("data");
        let mode = Mode::new(abi::MPI_MODE_RDWR | abi::MPI_MODE_CREATE).unwrap();
        let data = PosixFile::open(name.as_os_str().as_encoded_bytes(), mode, true).unwrap();
        let (first, token) = SharedPointer::create_beside(&data, 7).unwrap();
        let second = SharedPointer::attach_beside(&data, token).unwrap();
        SharedPointer::forget_beside(&data, token);
        assert!(SharedPointer::attach_beside(&data, token).is_none());
        numbers_are_given_once(vec![first, second]);
        data.delete().unwrap();
        std::fs::remove_dir(&directory).unwrap();
    }
}
