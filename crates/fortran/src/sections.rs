//! Buffers that come as array descriptors (Fortran 2018, section 18.5): arrays of any type and
//! rank, and sections of them.
//!
//! A buffer without gaps is passed to the C library by its address. For a section with gaps,
//!
//! - a datatype describes the elements of the section, if the program's datatype has no gaps and
//!   divides the elements of the array. Messages, one-sided calls and files thus need no copy, and
//!   neither do collectives whose blocks lie at equal distances ([`Sections::blocks`]).
//! - Else the call works on a copy without gaps ([`SectionCopy`]), which lives until the operation
//!   completes. Reductions always do, because predefined operations take predefined datatypes and
//!   operations of the program expect the program's datatype. So do files with a data
//!   representation of the program, whose functions expect the program's datatype as well.
//! - A call that cannot know when its operation completes refuses the section.
//!
//! Counts are checked against the section, since an access behind its last element could be
//! anywhere.
//!
//! A Fortran program guarantees that descriptors and addresses are those of variables as the
//! standard describes the arguments. All unsafe functions and blocks here rely on this guarantee.
#![allow(clippy::undocumented_unsafe_blocks)] // one reason for all of them, above

mod copies;
mod descriptor;
mod lists;
mod types;

pub(crate) use copies::SectionCopy;
pub(crate) use descriptor::ArrayDescriptor;
pub(crate) use lists::{own, sum};

use crate::by_hand::refuse;
use crate::c;
use crate::arguments::{PREDEFINED, Room, Whole, choice_address, file, request};
use crate::abi;
use crate::types::{Count, Datatype};
use std::ffi::{c_int, c_void};
use std::sync::Arc;
use types::{DatatypeFacts, SectionType};

/// When the operation of a call has ended, so that a copy can be returned and freed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// When the call returns.
    AtReturn,
    /// When its request completes.
    WithRequest,
    /// When its request completes, which can be started again and again.
    WithStartedRequest,
    /// Nothing says when.
    Unknown,
}

/// What the call does with a buffer.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    Reads,
    Changes,
}

/// A buffer as the C library gets it.
pub(crate) struct CBuffer {
    pub(crate) address: *mut c_void,
    pub(crate) count: Count,
    pub(crate) datatype: usize,
    /// Keeps `datatype`.
    _of_section: Option<Arc<SectionType>>,
}

impl CBuffer {
    pub(crate) fn plain(address: *mut c_void, count: Count, datatype: usize) -> CBuffer {
        CBuffer { address, count, datatype, _of_section: None }
    }

    fn of_section(address: *mut c_void, count: Count, of: Arc<SectionType>) -> CBuffer {
        CBuffer { address, count, datatype: of.handle(), _of_section: Some(of) }
    }
}

/// The sections of one call.
pub(crate) struct Sections {
    procedure: &'static str,
    ends: Ends,
    copies: Vec<SectionCopy>,
    /// Whether functions of the program get the datatype.
    shows_datatype: bool,
}

impl Sections {
    pub(crate) fn new(procedure: &'static str, ends: Ends) -> Sections {
        Sections { procedure, ends, copies: Vec::new(), shows_datatype: false }
    }

    /// Reads whether a file has a data representation of the program.
    pub(crate) unsafe fn find_representation(&mut self, fh: *const c_int) {
        let (mut displacement, mut types) = (0, [abi::MPI_DATATYPE_NULL; 2]);
        let mut name = Room::new(abi::MPI_MAX_DATAREP_STRING as usize);
        unsafe {
            let [element, view] = &mut types;
            let file = file::input(fh);
            // The C function reports the null handle.
            if file == abi::MPI_FILE_NULL
                || c::PMPI_File_get_view(file, &mut displacement, element, view, name.as_mut_ptr())
                    != 0
            {
                return;
            }
            for mut datatype in types {
                if datatype >= PREDEFINED {
                    c::PMPI_Type_free(&mut datatype);
                }
            }
        }
        self.shows_datatype =
            !["native", "internal", "external32"].iter().any(|known| name.is(known));
    }

    /// A buffer of `count` elements one after another.
    /// # Errors
    /// The code, after the error handler was called.
    pub(crate) unsafe fn message(
        &mut self,
        array: *const ArrayDescriptor,
        count: Count,
        datatype: usize,
        used: Use,
    ) -> Result<CBuffer, c_int> {
        let array = self.sound(unsafe { &*array })?;
        let address = choice_address(array.address());
        let Some(facts) = (unsafe { facts_of(array, count, datatype) })? else {
            return Ok(CBuffer::plain(address, count, datatype));
        };
        self.check_room(array, facts.span(count))?;
        if !self.shows_datatype
            && let Some(levels) = facts.levels_of(array)
        {
            let of = unsafe { types::message(facts.datatype, &levels, count) }?;
            return Ok(CBuffer::of_section(address, 1, of));
        }
        let copy = self.copy(array, vec![facts.span(count)], used)?;
        Ok(CBuffer::plain(copy, count, datatype))
    }

    /// A buffer with a block of `count` elements for each of `blocks` processes or partitions.
    /// # Errors
    /// The code, after the error handler was called.
    pub(crate) unsafe fn blocks(
        &mut self,
        array: *const ArrayDescriptor,
        blocks: Count,
        count: Count,
        datatype: usize,
        used: Use,
    ) -> Result<CBuffer, c_int> {
        let array = self.sound(unsafe { &*array })?;
        let address = choice_address(array.address());
        let Some(facts) = (unsafe { facts_of(array, blocks.min(count), datatype) })? else {
            return Ok(CBuffer::plain(address, count, datatype));
        };
        let span = facts.span(blocks.saturating_mul(count));
        self.check_room(array, span)?;
        if let Some(levels) = facts.levels_of(array)
            && let Some((of, count)) =
                unsafe { types::equal_distances(facts.datatype, &levels, count) }?
        {
            return Ok(CBuffer::of_section(address, count, of));
        }
        let copy = self.copy(array, vec![span], used)?;
        Ok(CBuffer::plain(copy, count, datatype))
    }

    /// A buffer with blocks of different lengths, at displacements in extents of the datatype.
    /// The counts and displacements stay as they are.
    /// # Errors
    /// The code, after the error handler was called.
    pub(crate) unsafe fn blocks_at<C: Whole, D: Whole>(
        &mut self,
        array: *const ArrayDescriptor,
        (counts, displacements, blocks): (*const C, *const D, c_int),
        datatype: usize,
        used: Use,
    ) -> Result<CBuffer, c_int> {
        let array = self.sound(unsafe { &*array })?;
        let address = choice_address(array.address());
        let Some(facts) = (unsafe { facts_of(array, blocks.into(), datatype) })? else {
            return Ok(CBuffer::plain(address, 0, datatype));
        };
        let spans = unsafe { lists::spans(&facts, counts, displacements, blocks) };
        if spans.is_empty() {
            return Ok(CBuffer::plain(address, 0, datatype));
        }
        for span in &spans {
            self.check_room(array, *span)?;
        }
        if let Some(levels) = facts.levels_of(array)
            && let Some((of, 1)) = unsafe { types::equal_distances(facts.datatype, &levels, 1) }?
        {
            return Ok(CBuffer::of_section(address, 0, of));
        }
        let copy = self.copy(array, spans, used)?;
        Ok(CBuffer::plain(copy, 0, datatype))
    }

    /// A buffer with blocks of different datatypes, at displacements in bytes.
    /// # Errors
    /// The code, after the error handler was called.
    pub(crate) unsafe fn blocks_of<C: Whole, D: Whole>(
        &mut self,
        array: *const ArrayDescriptor,
        (counts, displacements, blocks): (*const C, *const D, c_int),
        datatypes: *const c_int,
        used: Use,
    ) -> Result<CBuffer, c_int> {
        let array = self.sound(unsafe { &*array })?;
        let address = choice_address(array.address());
        if array.is_plain() {
            return Ok(CBuffer::plain(address, 0, 0));
        }
        let spans = unsafe { lists::spans_of_types(counts, displacements, blocks, datatypes) }?;
        for span in &spans {
            self.check_room(array, *span)?;
        }
        let copy = self.copy(array, spans, used)?;
        Ok(CBuffer::plain(copy, 0, 0))
    }

    /// The operands or results of a reduction.
    /// # Errors
    /// The code, after the error handler was called.
    pub(crate) unsafe fn operand(
        &mut self,
        array: *const ArrayDescriptor,
        elements: Count,
        datatype: usize,
        used: Use,
    ) -> Result<*mut c_void, c_int> {
        let array = self.sound(unsafe { &*array })?;
        let Some(facts) = (unsafe { facts_of(array, elements, datatype) })? else {
            return Ok(choice_address(array.address()));
        };
        self.copy(array, vec![facts.span(elements)], used)
    }

    /// Memory without elements, such as packed data.
    /// # Errors
    /// The code, after the error handler was called.
    pub(crate) unsafe fn memory(
        &mut self,
        array: *const ArrayDescriptor,
        bytes: Count,
        used: Use,
    ) -> Result<*mut c_void, c_int> {
        let array = self.sound(unsafe { &*array })?;
        match array.is_plain() || bytes <= 0 {
            true => Ok(choice_address(array.address())),
            false => self.copy(array, vec![(0, bytes)], used),
        }
    }

    /// One element of the datatype.
    /// # Errors
    /// The code, after the error handler was called.
    pub(crate) unsafe fn element(
        &mut self,
        array: *const ArrayDescriptor,
        datatype: usize,
    ) -> Result<*mut c_void, c_int> {
        let array = self.sound(unsafe { &*array })?;
        let facts = unsafe { facts_of(array, 1, datatype) }?;
        match facts.is_some_and(|facts| facts.span(1).1 > array.element_bytes()) {
            true => Err(self.refused("one element of the datatype covers a gap of the section")),
            false => Ok(choice_address(array.address())),
        }
    }

    /// Memory that the library keeps.
    /// # Errors
    /// The code, after the error handler was called.
    pub(crate) unsafe fn fixed(
        &mut self,
        array: *const ArrayDescriptor,
    ) -> Result<*mut c_void, c_int> {
        let array = self.sound(unsafe { &*array })?;
        match array.is_plain() || array.bytes() == 0 {
            true => Ok(choice_address(array.address())),
            false => Err(self.refused("the memory must not be a section with gaps")),
        }
    }

    fn sound<'a>(&self, array: &'a ArrayDescriptor) -> Result<&'a ArrayDescriptor, c_int> {
        match array.is_sound() {
            true => Ok(array),
            false => Err(self.refused(
                "the compiler describes the array wrongly (elements overlap); with CLASS(*), pass it \
                 in SELECT TYPE",
            )),
        }
    }

    fn refused(&self, reason: &str) -> c_int {
        refuse(&self.procedure.to_uppercase(), abi::MPI_ERR_BUFFER, reason)
    }

    /// A span is the first byte and the end behind the last byte of an access.
    fn check_room(&self, array: &ArrayDescriptor, (begin, end): (i64, i64)) -> Result<(), c_int> {
        if begin >= end || (begin >= 0 && end <= array.bytes()) {
            return Ok(());
        }
        Err(self.refused(&format!(
            "the call accesses bytes {begin} to {end} of a section that has {}",
            array.bytes()
        )))
    }

    fn copy(
        &mut self,
        array: &ArrayDescriptor,
        mut spans: Vec<(i64, i64)>,
        used: Use,
    ) -> Result<*mut c_void, c_int> {
        spans.retain(|(begin, end)| begin < end);
        for span in &spans {
            self.check_room(array, *span)?;
        }
        if self.ends == Ends::Unknown {
            return Err(self.refused(
                "a section with gaps needs a datatype without gaps, of which each element of the \
                 array has a whole number, in this procedure",
            ));
        }
        let Some(mut copy) = SectionCopy::new(array, spans, used) else {
            let reason = "there is no memory for a copy of the section";
            return Err(refuse(&self.procedure.to_uppercase(), abi::MPI_ERR_NO_MEM, reason));
        };
        unsafe { copy.read() };
        let address = copy.address();
        self.copies.push(copy);
        Ok(address)
    }

    /// Returns the copies to their sections, after a call that has completed its operation.
    pub(crate) unsafe fn finish(self) {
        for copy in &self.copies {
            unsafe { copy.give() };
        }
    }

    /// Stores the request of an operation, with which the copies stay.
    pub(crate) unsafe fn keep(self, place: *mut c_int, handle: usize) -> c_int {
        let is_persistent = self.ends == Ends::WithStartedRequest;
        unsafe { request::keep(place, handle, self.copies, is_persistent, self.procedure) }
    }
}

/// The facts of a datatype, if a section with gaps and data need them.
unsafe fn facts_of(
    array: &ArrayDescriptor,
    count: Count,
    datatype: Datatype,
) -> Result<Option<DatatypeFacts>, c_int> {
    // The C function reports a bad count and the null handle.
    if array.is_plain() || count <= 0 || datatype == abi::MPI_DATATYPE_NULL {
        return Ok(None);
    }
    let facts = unsafe { DatatypeFacts::of(datatype) }?;
    Ok((facts.size > 0).then_some(facts))
}
