//! Opening, closing and deleting files (MPI-5.0, "File Manipulation").

use super::agree::{not_same, settle, verdict};
use super::shared_pointer::SharedFilePointer;
use super::{File, FileView, Representation, error_of};
use crate::comm::Communicator;
use crate::failure::is_failure;
use crate::handler::{ErrorHandler, HandlerCell};
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_io::hints::{self, Hints};
use oxmpi_io::mode::Mode;
use oxmpi_io::posix::{self, Identity, PosixFile};
use oxmpi_io::shared::{PointerLocation, SharedPointer};
use oxmpi_io::view::View;
use oxmpi_objects::datatype::Datatype;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::info::Info;
use oxmpi_sys::cpus;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// The arguments of MPI_File_open.
#[derive(Debug)]
pub struct OpenArguments<'a> {
    pub name: Result<&'a [u8]>,
    pub amode: i32,
    pub info: Result<Info>,
    pub errhandler: ErrorHandler,
    pub byte: Arc<Datatype>,
}

#[derive(Clone, Copy, Debug)]
struct FileFacts {
    class: u64,
    size: u64,
    node: u64,
    pointer: Option<PointerLocation>,
    hints: Hints,
}

const OPENED_WORDS: usize = 6 + hints::WORDS;

impl FileFacts {
    fn encode(&self) -> [u64; OPENED_WORDS] {
        let mut words = [0; OPENED_WORDS];
        let (process, descriptor, token) = self
            .pointer
            .map_or((0, 0, 0), |p| (u64::from(p.process), u64::from(p.descriptor), p.token));
        words[..6].copy_from_slice(&[self.class, self.size, self.node, process, descriptor, token]);
        words[6..].copy_from_slice(&self.hints.encode());
        words
    }

    fn decode(words: [u64; OPENED_WORDS]) -> FileFacts {
        let mut hint_words = [0; hints::WORDS];
        hint_words.copy_from_slice(&words[6..]);
        let pointer = PointerLocation {
            process: words[3] as u32,
            descriptor: words[4] as u32,
            token: words[5],
        };
        FileFacts {
            class: words[0],
            size: words[1],
            node: words[2],
            pointer: (words[3] != 0).then_some(pointer),
            hints: Hints::decode(hint_words),
        }
    }
}

/// Two ranks of one node that have opened different files. The last three words of each rank are
/// its node, and the device and number of its file.
fn different_files(words: &[[u64; 5]]) -> Option<(usize, usize)> {
    let mut first_of_node = BTreeMap::new();
    for (rank, words) in words.iter().enumerate() {
        let [_, _, node, device, inode] = words;
        let (first, file) = *first_of_node.entry(node).or_insert((rank, (device, inode)));
        if file != (device, inode) {
            return Some((first, rank));
        }
    }
    None
}

impl<F: Fabric> Process<F> {
    /// Opens a file (MPI_File_open). Collective. Errors: MPI_ERR_COMM for an intercommunicator;
    /// MPI_ERR_AMODE; MPI_ERR_NOT_SAME if the modes or the files differ; the system's errors.
    pub fn open_file(&self, comm: &Communicator, open: OpenArguments<'_>) -> Result<Arc<File>> {
        if comm.is_inter() {
            let text =
                "a file is opened by one group, and the communicator is an intercommunicator";
            return Err(MpiError::new(abi::MPI_ERR_COMM, text));
        }
        let OpenArguments { name, amode, info, errhandler, byte } = open;
        let private = self.dup(comm)?.with_errhandler_cell(Arc::new(HandlerCell::new(errhandler)));
        self.domain.lock().note_handler(&private);
        let text = String::from_utf8_lossy(name.as_ref().unwrap_or(&&b"?"[..])).into_owned();
        let opened = self.opened(&private, (name, &text), amode, info);
        match opened {
            Ok((store, mode, shared, facts)) => {
                let first = if mode.appends() { facts.size } else { 0 };
                let shown = FileView {
                    view: View::BYTES,
                    displacement: 0,
                    etype: Arc::clone(&byte),
                    filetype: byte,
                    representation: Representation::Native,
                };
                Ok(Arc::new(File {
                    comm: private,
                    store,
                    name: text,
                    mode,
                    hints: Mutex::new(facts.hints),
                    shown: Mutex::new(Arc::new(shown)),
                    position: Mutex::new(first),
                    shared,
                    atomic: AtomicBool::new(false),
                    split: Mutex::default(),
                    dirty: AtomicBool::new(false),
                }))
            }
            Err(error) => {
                self.close(&private);
                Err(error)
            }
        }
    }

    fn opened(
        &self,
        comm: &Communicator,
        (name, text): (Result<&[u8]>, &str),
        amode: i32,
        info: Result<Info>,
    ) -> Result<(PosixFile, Mode, SharedFilePointer, FileFacts)> {
        let mine = name.and_then(|name| Ok((name, Mode::new(amode)?, info?)));
        let all =
            self.exchange_numbers(comm, [u64::from(amode.cast_unsigned()), verdict(&mine)])?;
        if all.iter().any(|one| one[0] != all[0][0]) {
            return Err(not_same(text, "amode", &amode.to_string()));
        }
        let (name, mode, info) = settle(text, all.iter().map(|one| one[1]), mine)?;
        let mut first = None;
        let mut mine = Ok(());
        if comm.team.rank == 0 {
            let ranks = comm.team.size();
            let processors = u32::try_from(cpus::usable()).unwrap_or(u32::MAX);
            let hints = Hints::new(ranks, processors).updated(&info, ranks);
            match self.open_first(name, text, mode, ranks, hints) {
                Ok(opened) => first = Some(opened),
                Err(error) => mine = Err(error),
            }
        }
        let nothing = FileFacts {
            class: verdict(&mine),
            size: 0,
            node: 0,
            pointer: None,
            hints: Hints::new(1, 1),
        };
        let words = first.as_ref().map_or(nothing, |(_, _, facts)| *facts);
        let facts = FileFacts::decode(self.numbers_of_first(comm, words.encode())?);
        settle(text, [facts.class], mine)?;
        let found = match first {
            Some((store, pointer, _)) => Ok((store, Some(pointer))),
            None => self.open_next(name, text, mode, &facts),
        };
        let found = found.and_then(|(store, pointer)| {
            let identity =
                store.identity().map_err(|failure| error_of(text, "opening", failure))?;
            Ok((store, pointer, identity))
        });
        let (has_pointer, Identity { device, inode }) = match &found {
            Ok((_, pointer, identity)) => (pointer.is_some(), *identity),
            Err(_) => (false, Identity { device: 0, inode: 0 }),
        };
        let mine = [verdict(&found), u64::from(has_pointer), self.node, device, inode];
        let all = self.exchange_numbers(comm, mine)?;
        let (store, pointer, _) = settle(text, all.iter().map(|one| one[0]), found)?;
        if let Some((one, other)) = different_files(&all) {
            let text = format!("\"{text}\" is another file at rank {other} than at rank {one}");
            return Err(MpiError::new(abi::MPI_ERR_NOT_SAME, text));
        }
        let start = if mode.appends() { facts.size } else { 0 };
        let pointer = match pointer {
            _ if self.is_imaged_alone && comm.team.size() > 1 => {
                self.pointer_in_window(comm, start)?
            }
            Some(pointer) if all.iter().all(|one| one[1] != 0) => {
                SharedFilePointer::Common(pointer)
            }
            _ => SharedFilePointer::Common(self.pointer_beside(comm, &store, start)?),
        };
        Ok((store, mode, pointer, facts))
    }

    fn open_first(
        &self,
        name: &[u8],
        text: &str,
        mode: Mode,
        ranks: u32,
        hints: Hints,
    ) -> Result<(PosixFile, SharedPointer, FileFacts)> {
        let failed = |failure| error_of(text, "opening", failure);
        let store = PosixFile::open(name, mode, true).map_err(failed)?;
        let size = store.size().map_err(failed)?;
        let start = if mode.appends() { size } else { 0 };
        let (shared, pointer) = if ranks == 1 || self.is_imaged_alone {
            (SharedPointer::own(start), None)
        } else {
            let (shared, place) = SharedPointer::create(start).map_err(failed)?;
            (shared, Some(place))
        };
        Ok((store, shared, FileFacts { class: 0, size, node: self.node, pointer, hints }))
    }

    fn open_next(
        &self,
        name: &[u8],
        text: &str,
        mode: Mode,
        facts: &FileFacts,
    ) -> Result<(PosixFile, Option<SharedPointer>)> {
        let store = PosixFile::open(name, mode, false)
            .map_err(|failure| error_of(text, "opening", failure))?;
        if self.node != facts.node {
            return Ok((store, None));
        }
        Ok((store, facts.pointer.and_then(SharedPointer::attach)))
    }

    /// The shared pointer of ranks on several nodes, unusable unless all ranks reach its file.
    fn pointer_beside(
        &self,
        comm: &Communicator,
        store: &PosixFile,
        start: u64,
    ) -> Result<SharedPointer> {
        let made = if comm.team.rank == 0 {
            SharedPointer::create_beside(store, start).ok()
        } else {
            None
        };
        let words = made.as_ref().map_or([0, 0], |(_, token)| [1, *token]);
        let [there, token] = self.numbers_of_first(comm, words)?;
        if there == 0 {
            return Ok(SharedPointer::nowhere());
        }
        let pointer = match made {
            Some((pointer, _)) => Some(pointer),
            None => SharedPointer::attach_beside(store, token),
        };
        let all = self.exchange_numbers(comm, [u64::from(pointer.is_some())]);
        if comm.team.rank == 0 {
            SharedPointer::forget_beside(store, token);
        }
        let found = all?.into_iter().flatten().all(|found| found != 0);
        Ok(pointer.filter(|_| found).unwrap_or_else(SharedPointer::nowhere))
    }

    /// Closes a file (MPI_File_close). Collective. The outer error is MPI_ERR_OTHER: a split access
    /// has not ended, and the file stays open. With an inner error the file is closed.
    pub fn close_file(&self, file: &Arc<File>) -> Result<Result<()>> {
        let may = file.check_no_split();
        // The data of a file that is deleted need not be on the device.
        let written =
            may.is_ok() && !file.mode.deletes() && file.dirty.swap(false, Ordering::Relaxed);
        let synced = match written {
            true => file.store.sync().map_err(|failure| file.error("closing", failure)),
            false => Ok(()),
        };
        let all = match self.exchange_numbers(&file.comm, [verdict(&may), verdict(&synced)]) {
            Ok(all) => all,
            Err(error) if is_failure(&error) => {
                may?;
                return Ok(self.close_alone(file, error));
            }
            Err(error) => return Err(error),
        };
        settle(&file.name, all.iter().map(|one| one[0]), may)?;
        let mut outcome = settle(&file.name, all.iter().map(|one| one[1]), synced);
        match self.release_pointer(file) {
            Err(error) if is_failure(&error) => return Ok(self.close_alone(file, error)),
            released => outcome = outcome.and(released),
        }
        if file.mode.deletes() {
            let deleted = match file.rank() {
                0 => file.store.delete().map_err(|failure| file.error("deleting", failure)),
                _ => Ok(()),
            };
            match self.outcome_of_first(file, deleted) {
                Err(error) if is_failure(&error) => return Ok(self.close_alone(file, error)),
                decided => outcome = outcome.and(decided),
            }
        }
        self.close(&file.comm);
        Ok(outcome)
    }

    fn close_alone(&self, file: &File, error: MpiError) -> Result<()> {
        if file.mode.deletes() {
            // Another rank may have deleted the file before.
            let _ = file.store.delete();
        }
        self.abandon_pointer(file);
        self.close(&file.comm);
        Err(error)
    }
}

/// Deletes a file (MPI_File_delete).
pub fn delete_file(name: &[u8]) -> Result<()> {
    let text = String::from_utf8_lossy(name);
    posix::delete(name).map_err(|failure| error_of(&text, "deleting", failure))
}
