//! The shared file pointer (MPI-5.0, "Data Access with Shared File Pointers"): a number that all ranks of a file share.
//!
//! No rank serves it to the others. On one node it is a word of memory that all have mapped, of a file without a name, which is moved by
//! an atomic operation; they find the file by the descriptor of the rank that has made it (`/proc/PID/fd/N`). Ranks of several nodes have
//! no memory in common: there it lies in a small file in the directory of the data, whose name goes as soon as all have opened it, and is
//! moved under a lock, which the kernel gives up when a process dies.
//!
//! On one node there is no lock for another reason, too. A lock belongs to an open file description, and a restart from a checkpoint may
//! give two ranks the same one: CRIU (`memfd_open` of its 4.2) hands out the descriptor with which it has made a memfd to the first
//! process that opens it, and two that come at the same time are both the first.

use crate::failure::Failure;
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

/// The number, in elementary types of the view.
#[derive(Debug)]
pub struct SharedPointer {
    place: Place,
}

#[derive(Debug)]
enum Place {
    /// Of a file that one rank has open.
    Own(Mutex<u64>),
    /// In word [`NUMBER`] of memory that the ranks of a node share. The rank that has made it keeps the file by which others find it.
    Memory { memory: Memory, _file: Option<OwnedFd> },
    /// In a file; the lock is for the threads of this process.
    File(Mutex<OwnedFd>),
    /// Nowhere: the ranks have found no place.
    Nowhere,
}

/// How others find a pointer on the same node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Whereabouts {
    /// The process that has made it.
    pub process: u32,
    /// Its descriptor.
    pub descriptor: u32,
    /// What is written there, so that nobody takes another file for it.
    pub token: u64,
}

/// The number and the token.
const BYTES: usize = 16;
/// The word of memory in which the number is.
const NUMBER: usize = 0;
/// The word of memory in which the token is.
const TOKEN: usize = 1;

fn token() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    net::fill_random(&mut bytes)?;
    Ok(u64::from_ne_bytes(bytes))
}

fn begin(descriptor: &OwnedFd, value: u64, token: u64) -> Result<(), Failure> {
    let mut bytes = [0; BYTES];
    bytes[..8].copy_from_slice(&value.to_ne_bytes());
    bytes[8..].copy_from_slice(&token.to_ne_bytes());
    match file::write_at(descriptor.as_fd(), Bytes::from(&bytes[..]), 0)? {
        BYTES => Ok(()),
        _ => Err(Failure::of_class(abi::MPI_ERR_NO_SPACE)),
    }
}

fn has_token(descriptor: &OwnedFd, token: u64) -> bool {
    let mut found = [0; 8];
    let read = file::read_at(descriptor.as_fd(), BytesMut::from(&mut found[..]), 8);
    read.is_ok_and(|n| n == found.len()) && u64::from_ne_bytes(found) == token
}

impl SharedPointer {
    /// That of a file which only this rank has open.
    pub fn own(value: u64) -> SharedPointer {
        SharedPointer { place: Place::Own(Mutex::new(value)) }
    }

    /// None: using it is an error.
    pub fn nowhere() -> SharedPointer {
        SharedPointer { place: Place::Nowhere }
    }

    fn in_file(descriptor: OwnedFd) -> SharedPointer {
        SharedPointer { place: Place::File(Mutex::new(descriptor)) }
    }

    /// A new one for the ranks of this node, and where they find it.
    ///
    /// # Errors
    /// The system's.
    pub fn create(value: u64) -> Result<(SharedPointer, Whereabouts), Failure> {
        let descriptor = nameless::create("oxmpi-file-pointer")?;
        let token = token()?;
        begin(&descriptor, value, token)?;
        nameless::seal(&descriptor)?;
        let memory = Memory::of_file(&descriptor, BYTES)?;
        let number = u32::try_from(descriptor.as_raw_fd()).unwrap_or(u32::MAX);
        let place = Whereabouts { process: std::process::id(), descriptor: number, token };
        Ok((SharedPointer { place: Place::Memory { memory, _file: Some(descriptor) } }, place))
    }

    /// The one that another rank of this node has made; `None` if it is not there.
    pub fn attach(place: Whereabouts) -> Option<SharedPointer> {
        let path = format!("/proc/{}/fd/{}", place.process, place.descriptor);
        let descriptor = fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, fs::Mode::empty()).ok()?;
        let memory = Memory::of_file(&descriptor, BYTES).ok()?;
        let found = memory.word(TOKEN).load(Ordering::Relaxed);
        (found == place.token).then_some(SharedPointer { place: Place::Memory { memory, _file: None } })
    }

    /// A new one beside a file, and the token by which others find it there.
    ///
    /// # Errors
    /// The system's.
    pub fn create_beside(file: &PosixFile, value: u64) -> Result<(SharedPointer, u64), Failure> {
        let token = token()?;
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let descriptor = fs::open(beside(file.path(), token), flags, fs::Mode::RUSR | fs::Mode::WUSR)?;
        let pointer = begin(&descriptor, value, token).map(|()| SharedPointer::in_file(descriptor));
        if pointer.is_err() {
            SharedPointer::forget_beside(file, token);
        }
        Ok((pointer?, token))
    }

    /// The one that another rank has made there; `None` if it is not to be found.
    pub fn attach_beside(file: &PosixFile, token: u64) -> Option<SharedPointer> {
        let path = beside(file.path(), token);
        let descriptor = fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, fs::Mode::empty()).ok()?;
        has_token(&descriptor, token).then(|| SharedPointer::in_file(descriptor))
    }

    /// All have opened it: it needs no name any more.
    pub fn forget_beside(file: &PosixFile, token: u64) {
        // If somebody has removed it before, all the better.
        let _ = fs::unlink(beside(file.path(), token));
    }

    /// Changes the number; what it was before.
    fn change(&self, change: impl Fn(u64) -> u64) -> Result<u64, Failure> {
        match &self.place {
            Place::Nowhere => Err(Failure::of_class(abi::MPI_ERR_UNSUPPORTED_OPERATION)),
            Place::Own(value) => {
                let mut value = value.lock().unwrap_or_else(PoisonError::into_inner);
                let before = *value;
                *value = change(before);
                Ok(before)
            }
            Place::Memory { memory, .. } => {
                let word = memory.word(NUMBER);
                let mut before = word.load(Ordering::SeqCst);
                loop {
                    match word.compare_exchange(before, change(before), Ordering::SeqCst, Ordering::SeqCst) {
                        Ok(before) => return Ok(before),
                        Err(now) => before = now,
                    }
                }
            }
            Place::File(descriptor) => {
                let descriptor = descriptor.lock().unwrap_or_else(PoisonError::into_inner);
                let _lock = file::lock_range(descriptor.as_fd(), LockKind::Exclusive, 0, 8)?;
                let mut bytes = [0; 8];
                let number = Number(&descriptor);
                if number.read_all_at(BytesMut::from(&mut bytes[..]), 0)? < bytes.len() {
                    return Err(Failure::of_class(abi::MPI_ERR_IO));
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

    /// Where it is.
    ///
    /// # Errors
    /// The system's; class MPI_ERR_UNSUPPORTED_OPERATION if there is none.
    pub fn get(&self) -> Result<u64, Failure> {
        self.change(|value| value)
    }

    /// Puts it somewhere.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn set(&self, value: u64) -> Result<(), Failure> {
        self.change(|_| value).map(drop)
    }

    /// Moves it forward; where it was.
    ///
    /// # Errors
    /// As [`get`](Self::get).
    pub fn advance(&self, by: u64) -> Result<u64, Failure> {
        self.change(|value| value.saturating_add(by))
    }
}

struct Number<'a>(&'a OwnedFd);

impl Store for Number<'_> {
    fn read_at(&self, to: BytesMut<'_>, offset: u64) -> io::Result<usize> {
        file::read_at(self.0.as_fd(), to, offset)
    }

    fn write_at(&self, from: Bytes<'_>, offset: u64) -> io::Result<usize> {
        file::write_at(self.0.as_fd(), from, offset)
    }

    fn locked(&self, _: LockKind, _: (u64, u64), what: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        what()
    }
}

/// The name of a pointer's file for a short time.
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

    /// Many threads take numbers; no number comes twice.
    fn numbers_are_given_once(pointers: Vec<SharedPointer>) {
        const EACH: usize = 500;
        let mut all: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = pointers
                .iter()
                .map(|p| scope.spawn(move || (0..EACH).map(|_| p.advance(3).unwrap()).collect::<Vec<_>>()))
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
        assert!(SharedPointer::attach(Whereabouts { token: place.token ^ 1, ..place }).is_none());
        numbers_are_given_once(vec![first, second]);
        numbers_are_given_once(vec![SharedPointer::own(7)]);
        let class = SharedPointer::nowhere().advance(1).unwrap_err().class;
        assert_eq!(class, abi::MPI_ERR_UNSUPPORTED_OPERATION);
    }

    /// As after a restart of CRIU, which may have given two ranks one open file description.
    #[test]
    fn ranks_with_one_open_file_description_do_not_take_the_same_number() {
        let (first, _) = SharedPointer::create(7).unwrap();
        let Place::Memory { _file: Some(descriptor), .. } = &first.place else { panic!("{first:?}") };
        let memory = Memory::of_file(descriptor.try_clone().unwrap(), BYTES).unwrap();
        numbers_are_given_once(vec![first, SharedPointer { place: Place::Memory { memory, _file: None } }]);
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
