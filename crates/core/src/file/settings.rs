//! Settings of a file that all its ranks make: size, hints, view, atomicity; and sync.

use super::agree::{not_same, settle, verdict};
use super::{File, FileView, Representation, locked};
use crate::process::Process;
use oxmpi_abi::constants as abi;
use oxmpi_fabric::Fabric;
use oxmpi_io::hints::{Hints, WORDS as HINT_WORDS};
use oxmpi_io::view::View;
use oxmpi_objects::datatype::Datatype;
use oxmpi_objects::error::Result;
use oxmpi_objects::info::Info;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The arguments of MPI_File_set_view.
#[derive(Debug)]
pub struct NewView {
    /// In bytes from the beginning of the file, or MPI_DISPLACEMENT_CURRENT.
    pub displacement: i64,
    pub etype: Arc<Datatype>,
    pub filetype: Arc<Datatype>,
    pub representation: Representation,
    pub info: Info,
}

fn hash(name: &[u8]) -> u64 {
    name.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

impl File {
    fn new_view<F: Fabric>(&self, process: &Process<F>, new: &NewView) -> Result<FileView> {
        let NewView { displacement, etype, filetype, representation, .. } = new;
        let sequential = self.mode.is_sequential();
        let displacement = match *displacement {
            abi::MPI_DISPLACEMENT_CURRENT if sequential => {
                let shown = self.shown();
                let start = self.in_bytes(&shown, process.current_shared_position(self)?)?;
                shown.view.offset_of(start).unwrap_or(shown.displacement)
            }
            abi::MPI_DISPLACEMENT_CURRENT => {
                let why = "disp is MPI_DISPLACEMENT_CURRENT, which is for files opened with MPI_MODE_SEQUENTIAL";
                return Err(self.refused(abi::MPI_ERR_ARG, why));
            }
            _ if sequential => {
                let why = "disp must be MPI_DISPLACEMENT_CURRENT, as the file was opened with MPI_MODE_SEQUENTIAL";
                return Err(self.refused(abi::MPI_ERR_ARG, why));
            }
            given => u64::try_from(given).map_err(|_| {
                self.refused(abi::MPI_ERR_ARG, &format!("disp is {given}; it must not be negative"))
            })?,
        };
        let in_file = |datatype| representation.in_file(datatype);
        let (unit, tile) = (in_file(etype)?, in_file(filetype)?);
        if etype
            .layout()
            .order()
            .is_some_and(|order| order.first < 0 || !order.disjoint && self.mode.writes())
        {
            return Err(self.refused(
                abi::MPI_ERR_ARG,
                "the etype has negative displacements or overlaps itself",
            ));
        }
        let view = View::new(displacement, unit.size(), tile.layout(), self.mode.writes())
            .map_err(|error| error.within(format_args!("file \"{}\"", self.name)))?;
        Ok(FileView {
            view,
            displacement,
            etype: Arc::clone(etype),
            filetype: Arc::clone(filetype),
            representation: representation.clone(),
        })
    }

    /// The bytes from one element to the next in the file (MPI_File_get_type_extent).
    pub fn type_extent(&self, datatype: &Arc<Datatype>) -> Result<i64> {
        Ok(self.shown().representation.in_file(datatype)?.bounds().extent() as i64)
    }

    fn take_hints(&self, words: &[u64]) {
        let mut hints = [0; HINT_WORDS];
        hints.copy_from_slice(words);
        *locked(&self.hints) = Hints::decode(hints);
    }
}

impl<F: Fabric> Process<F> {
    /// Sets the view of this rank (MPI_File_set_view). Collective. The file pointers move to the
    /// beginning of the view. Errors: MPI_ERR_ARG for wrong arguments; MPI_ERR_NOT_SAME if the
    /// etypes have different sizes or the representations differ.
    pub fn set_view(&self, file: &File, new: Result<NewView>) -> Result<()> {
        let mine = file
            .check_no_split()
            .and(new)
            .and_then(|new| Ok((file.new_view(self, &new)?, new.info)));
        let mut words = [0; 3 + HINT_WORDS];
        words[0] = verdict(&mine);
        if let Ok((shown, info)) = &mine {
            words[1] = hash(shown.representation.name());
            words[2] = shown.view.etype_size();
            words[3..].copy_from_slice(&file.hints().updated(info, file.ranks()).encode());
        }
        let all = self.exchange_numbers(&file.comm, words)?;
        let (shown, _) = settle(&file.name, all.iter().map(|one| one[0]), mine)?;
        if all.iter().any(|one| one[1] != all[0][1]) {
            let mine = String::from_utf8_lossy(shown.representation.name()).into_owned();
            return Err(not_same(&file.name, "datarep", &mine));
        }
        if all.iter().any(|one| one[2] != all[0][2]) {
            let mine = format!("{} bytes", shown.view.etype_size());
            return Err(not_same(&file.name, "the size of etype", &mine));
        }
        file.take_hints(&all[0][3..]);
        *locked(&file.shown) = Arc::new(shown);
        // The agreement makes rank 0 move the shared pointer before any rank returns.
        self.agree_on_file(&file.comm, &file.name, self.rewind(file))
    }

    /// Changes hints (MPI_File_set_info). Collective. The values of rank 0 count.
    pub fn set_file_info(&self, file: &File, info: Result<Info>) -> Result<()> {
        let mut words = [0; 1 + HINT_WORDS];
        words[0] = verdict(&info);
        if let Ok(info) = &info {
            words[1..].copy_from_slice(&file.hints().updated(info, file.ranks()).encode());
        }
        let all = self.exchange_numbers(&file.comm, words)?;
        settle(&file.name, all.iter().map(|one| one[0]), info)?;
        file.take_hints(&all[0][1..]);
        Ok(())
    }

    /// Sets the length in bytes (MPI_File_set_size). Collective. Errors: MPI_ERR_ARG if it is
    /// negative; MPI_ERR_NOT_SAME; MPI_ERR_READ_ONLY; MPI_ERR_UNSUPPORTED_OPERATION with
    /// MPI_MODE_SEQUENTIAL; the system's errors.
    pub fn set_file_size(&self, file: &File, size: i64) -> Result<()> {
        self.resize(file, size, |file, size| {
            file.store.set_size(size).map_err(|failure| file.error("setting the size of", failure))
        })
    }

    /// Allocates space for the first `size` bytes (MPI_File_preallocate). Collective.
    pub fn preallocate_file(&self, file: &File, size: i64) -> Result<()> {
        self.resize(file, size, |file, size| {
            file.store.preallocate(size).map_err(|failure| file.error("making room for", failure))
        })
    }

    fn resize(
        &self,
        file: &File,
        size: i64,
        how: impl FnOnce(&File, u64) -> Result<()>,
    ) -> Result<()> {
        let mine = file
            .check_access(super::Direction::Write, super::FilePosition::Individual)
            .and_then(|()| {
                u64::try_from(size).map_err(|_| {
                    file.refused(
                        abi::MPI_ERR_ARG,
                        &format!("size is {size}; it must not be negative"),
                    )
                })
            });
        let all = self.exchange_numbers(&file.comm, [verdict(&mine), size as u64])?;
        if all.iter().any(|one| one[1] != all[0][1]) {
            return Err(not_same(&file.name, "size", &size.to_string()));
        }
        let size = settle(&file.name, all.iter().map(|one| one[0]), mine)?;
        file.note_write();
        let done = if file.rank() == 0 { how(file, size) } else { Ok(()) };
        self.outcome_of_first(file, done)
    }

    /// Sets whether accesses are atomic (MPI_File_set_atomicity). Collective.
    pub fn set_atomicity(&self, file: &File, atomic: bool) -> Result<()> {
        let all = self.exchange_numbers(&file.comm, [u64::from(atomic)])?;
        if all.iter().any(|one| one != &all[0]) {
            return Err(not_same(&file.name, "flag", if atomic { "true" } else { "false" }));
        }
        file.atomic.store(atomic, Ordering::Relaxed);
        self.meet_own(&file.comm)
    }

    /// Writes all data to the device (MPI_File_sync). Collective.
    pub fn sync_file(&self, file: &File) -> Result<()> {
        file.dirty.store(false, Ordering::Relaxed);
        let done =
            file.store.sync().map_err(|failure| file.error("writing to the device", failure));
        self.agree_on_file(&file.comm, &file.name, done)
    }
}
