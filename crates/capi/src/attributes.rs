//! Attributes (MPI-5.0 section 7.7, deprecated ones in section 16.1): keys, and calls of the
//! program's copy and delete functions.
//!
//! An attribute is removed from its object before its delete function is called, and restored if
//! the function fails. Thus the function is called once, without locks, and may use the object.

use crate::errors::{class_of, on_comm, on_none, outcome};
use crate::library::{Running, fetch, library, null, put};
use crate::objects::objects;
use crate::on::On;
use crate::predefined;
use oxmpi_abi::FuncId;
use oxmpi_abi::constants as abi;
use oxmpi_abi::extensions::{MPIX_COLL_BASE_ASSOCIATIVE, MPIX_MCA_COLL};
use oxmpi_abi::types::{
    Comm, CommCopyAttrFunction, CommDeleteAttrFunction, CopyFunction as OldCopyFunction, Datatype,
    DeleteFunction as OldDeleteFunction, TypeCopyAttrFunction, TypeDeleteAttrFunction,
    WinCopyAttrFunction, WinDeleteAttrFunction,
};
use oxmpi_core::{Communicator, Component};
use oxmpi_objects::attribute::{
    Attribute, Attributes, CopyFunction, DeleteFunction, Keyval, ObjectKind, is_predefined,
};
use oxmpi_objects::error::{MpiError, Result};
use std::ffi::{CStr, c_int, c_void};
use std::sync::Arc;

/// MPI_COMM_NULL_COPY_FN is a null pointer, and MPI_COMM_DUP_FN is 1.
fn copying(address: usize) -> CopyFunction {
    match address {
        abi::MPI_COMM_NULL_COPY_FN => CopyFunction::Nothing,
        abi::MPI_COMM_DUP_FN => CopyFunction::Same,
        other => CopyFunction::User(other),
    }
}

/// MPI_COMM_NULL_DELETE_FN is a null pointer.
fn deleting(address: usize) -> DeleteFunction {
    match address {
        abi::MPI_COMM_NULL_DELETE_FN => DeleteFunction::Nothing,
        other => DeleteFunction::User(other),
    }
}

fn create(
    kind: ObjectKind,
    copy: usize,
    delete: usize,
    place: *mut c_int,
    extra_state: *mut c_void,
) -> Result<()> {
    if place.is_null() {
        return Err(null("keyval"));
    }
    let extra_state = extra_state.expose_provenance();
    let number = objects().keyvals.create(kind, copying(copy), deleting(delete), extra_state)?;
    // SAFETY: the C program passes a place for an integer.
    unsafe { put(place, number, "keyval") }
}

/// Frees the program's reference to a key.
/// # Safety
/// `place` must be null or a place with an integer.
unsafe fn free(kind: ObjectKind, place: *mut c_int) -> Result<()> {
    // SAFETY: by the contract of this function.
    let number = unsafe { fetch(place, "keyval") }?;
    objects().keyvals.free(kind, number)?;
    // SAFETY: `place` is not null, as `fetch` has checked, and holds an integer.
    unsafe { put(place, abi::MPI_KEYVAL_INVALID, "keyval") }
}

fn failed(what: &str, keyval: &Keyval, code: c_int) -> MpiError {
    let text = format!(
        "the {what} function of attribute key {} returned error code {code}",
        keyval.number
    );
    // A value that is no error code must not become the code of the call.
    MpiError::new(if class_of(code).is_ok() { code } else { abi::MPI_ERR_OTHER }, text)
}

/// Calls the copy function. Returns the value for the duplicate, if the duplicate gets the
/// attribute.
fn copy_of(object: usize, attribute: &Attribute) -> Result<Option<usize>> {
    let keyval = &attribute.keyval;
    let function = match keyval.copy {
        CopyFunction::Nothing => return Ok(None),
        CopyFunction::Same => return Ok(Some(attribute.value)),
        CopyFunction::User(function) => function,
    };
    // SAFETY: the address is an argument of MPI_Comm_create_keyval or its like. The functions for
    // datatypes and windows have the same type, since all handles are addresses.
    let function = unsafe { std::mem::transmute::<usize, CommCopyAttrFunction>(function) };
    let (mut value, mut flag) = (std::ptr::null_mut::<c_void>(), 0);
    // SAFETY: the function gets the arguments of the standard.
    let code = unsafe {
        function(
            object,
            keyval.number,
            std::ptr::with_exposed_provenance_mut(keyval.extra_state),
            std::ptr::with_exposed_provenance_mut(attribute.value),
            (&raw mut value).cast(),
            &mut flag,
        )
    };
    match code {
        abi::MPI_SUCCESS => Ok((flag != 0).then(|| value.expose_provenance())),
        code => Err(failed("copy", keyval, code)),
    }
}

fn call_delete(object: usize, attribute: &Attribute) -> Result<()> {
    let keyval = &attribute.keyval;
    let DeleteFunction::User(function) = keyval.delete else { return Ok(()) };
    // SAFETY: the address is the argument of MPI_Comm_create_keyval or its like; see `copy_of`.
    let function = unsafe { std::mem::transmute::<usize, CommDeleteAttrFunction>(function) };
    // SAFETY: the function gets the arguments of the standard.
    let code = unsafe {
        function(
            object,
            keyval.number,
            std::ptr::with_exposed_provenance_mut(attribute.value),
            std::ptr::with_exposed_provenance_mut(keyval.extra_state),
        )
    };
    match code {
        abi::MPI_SUCCESS => Ok(()),
        code => Err(failed("delete", keyval, code)),
    }
}

/// Calls the delete function of an attribute that was taken from its object. The attribute is
/// restored if the function fails or throws.
fn call_delete_taken(object: usize, attributes: &Attributes, attribute: Attribute) -> Result<()> {
    let taken = TakenAttribute { attributes, attribute: Some(attribute) };
    let Some(attribute) = &taken.attribute else { return Ok(()) };
    call_delete(object, attribute)?;
    taken.forget();
    Ok(())
}

/// An attribute that a drop restores to its object, unless `forget` was called.
struct TakenAttribute<'a> {
    attributes: &'a Attributes,
    attribute: Option<Attribute>,
}

impl TakenAttribute<'_> {
    fn forget(mut self) {
        self.attribute = None;
    }
}

impl Drop for TakenAttribute<'_> {
    fn drop(&mut self) {
        if let Some(attribute) = self.attribute.take() {
            self.attributes.restore(attribute);
        }
    }
}

pub(crate) struct CopiedAttributes(Vec<(Arc<Keyval>, usize)>);

impl CopiedAttributes {
    pub(crate) fn give_to(self, attributes: &Attributes) {
        for (keyval, value) in self.0 {
            attributes.add(keyval, value);
        }
    }

    /// Calls the delete functions because the duplicate is not made.
    pub(crate) fn delete(self) {
        let unused = Attributes::default();
        self.give_to(&unused);
        while let Some(attribute) = unused.take_youngest() {
            // The caller reports the error that ended the duplication.
            let _ = call_delete(abi::MPI_COMM_NULL, &attribute);
        }
    }
}

/// The attributes for a duplicate of an object, in their order. If a copy function fails, the
/// copied attributes are deleted, and the duplication must fail. The caller must not borrow the
/// library's tables, since functions of the program are called.
pub(crate) fn copy_attributes(object: usize, from: &Attributes) -> Result<CopiedAttributes> {
    let mut copied = CopiedAttributes(Vec::new());
    for attribute in from.snapshot() {
        match copy_of(object, &attribute) {
            Ok(Some(value)) => copied.0.push((attribute.keyval, value)),
            Ok(None) => {}
            Err(error) => {
                copied.delete();
                return Err(error);
            }
        }
    }
    Ok(copied)
}

/// Deletes all attributes of an object, the youngest first. If a delete function fails, its
/// attribute and all older ones stay, and the object must not be freed. The caller must not borrow
/// the library's tables.
pub(crate) fn delete_attributes(object: usize, attributes: &Attributes) -> Result<()> {
    while let Some(attribute) = attributes.take_youngest() {
        call_delete_taken(object, attributes, attribute)?;
    }
    Ok(())
}

pub(crate) fn delete(
    kind: ObjectKind,
    object: usize,
    attributes: &Attributes,
    number: c_int,
) -> Result<()> {
    let Some(attribute) = attributes.take(number) else {
        // A freed key stays valid while an attribute has it.
        let keyval = objects().keyvals.get(kind, number)?;
        let text = format!("the object has no attribute with key {}", keyval.number);
        return Err(MpiError::new(abi::MPI_ERR_KEYVAL, text));
    };
    call_delete_taken(object, attributes, attribute)
}

/// Sets an attribute. Its older value is deleted first (MPI-5.0 section 7.7.2).
pub(crate) fn set(
    kind: ObjectKind,
    object: usize,
    attributes: &Attributes,
    number: c_int,
    value: *mut c_void,
) -> Result<()> {
    let keyval = objects().keyvals.get(kind, number)?;
    if let Some(before) = attributes.take(number) {
        call_delete_taken(object, attributes, before)?;
    }
    match attributes.add(keyval, value.expose_provenance()) {
        None => Ok(()),
        // Another thread or the delete function has set the attribute meanwhile. That value is
        // deleted.
        Some(before) => call_delete(object, &before),
    }
}

/// The value of an attribute.
pub(crate) fn found(
    kind: ObjectKind,
    attributes: &Attributes,
    number: c_int,
) -> Result<Option<*const c_void>> {
    let found = attributes.get(number);
    if found.is_none() {
        objects().keyvals.get(kind, number)?;
    }
    Ok(found.map(std::ptr::with_exposed_provenance))
}

/// # Safety
/// `value` must be null or the address of a pointer, `flag` null or a place for an integer.
unsafe fn get(
    kind: ObjectKind,
    attributes: &Attributes,
    number: c_int,
    value: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: by the contract of this function.
    unsafe { store_found(found(kind, attributes, number)?, value, flag) }
}

/// # Safety
/// `value` must be null or the address of a pointer, `flag` null or a place for an integer.
pub(crate) unsafe fn store_found(
    found: Option<*const c_void>,
    value: *mut c_void,
    flag: *mut c_int,
) -> Result<()> {
    // SAFETY: by the contract of this function.
    unsafe {
        if let Some(found) = found {
            put(value.cast::<*const c_void>(), found, "attribute_val")?;
        }
        put(flag, c_int::from(found.is_some()), "flag")
    }
}

/// # Safety
/// `value` must be null or the address of a pointer, `flag` null or a place for an integer.
unsafe fn get_of_comm(
    comm: Comm,
    keyval: c_int,
    value: *mut c_void,
    flag: *mut c_int,
    function: FuncId,
) -> c_int {
    on_comm(function, comm, |library, communicator| {
        // SAFETY: by the contract of this function.
        unsafe {
            if is_predefined(keyval) {
                return store_found(
                    predefined::attribute(library, keyval).map(<*const c_int>::cast),
                    value,
                    flag,
                );
            }
            get(ObjectKind::Comm, &communicator.attributes, keyval, value, flag)
        }
    })
}

/// Runs a call that may call the program's attribute functions. It borrows no table.
fn with_comm(
    function: FuncId,
    comm: Comm,
    call: impl FnOnce(&'static Running, &Arc<Communicator>) -> Result<()>,
) -> c_int {
    let result = (|| {
        let library = library()?;
        let communicator = Arc::clone(&*library.communicator(comm)?);
        call(library, &communicator)
    })();
    outcome(function, Some(On::Comm(comm)), result)
}

/// Sets an attribute of a communicator. The texts of MPIX_MCA_COLL and MPIX_COLL_BASE_ASSOCIATIVE
/// are read here; later changes of the texts have no effect.
fn set_of_comm(
    library: &Running,
    (comm, communicator): (Comm, &Communicator),
    keyval: c_int,
    value: *mut c_void,
) -> Result<()> {
    if !matches!(keyval, MPIX_MCA_COLL | MPIX_COLL_BASE_ASSOCIATIVE) {
        return set(ObjectKind::Comm, comm, &communicator.attributes, keyval, value);
    }
    if value.is_null() {
        return Err(null("attribute_val"));
    }
    // SAFETY: mpi-ext.h defines the value of this attribute as a string.
    let text = unsafe { CStr::from_ptr(value.cast()) }.to_string_lossy();
    let wrong = |text: String| MpiError::new(abi::MPI_ERR_ARG, text);
    if keyval == MPIX_COLL_BASE_ASSOCIATIVE {
        let said = match text.trim() {
            "0" => Some(false),
            "1" => Some(true),
            "unset" => None,
            other => {
                let text = format!(
                    "the attribute MPIX_COLL_BASE_ASSOCIATIVE is '{other}': expected one of 0, 1, unset"
                );
                return Err(wrong(text));
            }
        };
        library.process.take_associative_on(communicator, Some(said))?;
        return set(ObjectKind::Comm, comm, &communicator.attributes, keyval, value);
    }
    let component = Component::named(text.trim())
        .map_err(|bad| wrong(format!("the attribute MPIX_MCA_COLL: {bad}")))?;
    library.process.name_component(communicator, Some(component))?;
    set(ObjectKind::Comm, comm, &communicator.attributes, keyval, value)
}

fn delete_of_comm(
    library: &Running,
    (comm, communicator): (Comm, &Communicator),
    keyval: c_int,
) -> Result<()> {
    delete(ObjectKind::Comm, comm, &communicator.attributes, keyval)?;
    match keyval {
        MPIX_MCA_COLL => library.process.name_component(communicator, None)?,
        MPIX_COLL_BASE_ASSOCIATIVE => library.process.take_associative_on(communicator, None)?,
        _ => {}
    }
    Ok(())
}

fn with_type(
    function: FuncId,
    datatype: Datatype,
    call: impl FnOnce(&Attributes) -> Result<()>,
) -> c_int {
    on_none(function, |library| {
        let datatype = Arc::clone(&*library.datatype(datatype)?);
        call(&datatype.attributes)
    })
}

mpi! {
    /// Test for communicators: tests/c/attr_comm.c.
    fn MPI_Comm_create_keyval(
        comm_copy_attr_fn: Option<CommCopyAttrFunction>,
        comm_delete_attr_fn: Option<CommDeleteAttrFunction>,
        comm_keyval: *mut c_int,
        extra_state: *mut c_void,
    ) -> c_int {
        let (copy, delete) = (comm_copy_attr_fn.map_or(0, |f| f as usize), comm_delete_attr_fn.map_or(0, |f| f as usize));
        let result = create(ObjectKind::Comm, copy, delete, comm_keyval, extra_state);
        outcome(FuncId::MPI_Comm_create_keyval, None, result)
    }

    /// Test for datatypes: tests/c/attr_type.c.
    fn MPI_Type_create_keyval(
        type_copy_attr_fn: Option<TypeCopyAttrFunction>,
        type_delete_attr_fn: Option<TypeDeleteAttrFunction>,
        type_keyval: *mut c_int,
        extra_state: *mut c_void,
    ) -> c_int {
        let (copy, delete) = (type_copy_attr_fn.map_or(0, |f| f as usize), type_delete_attr_fn.map_or(0, |f| f as usize));
        let result = create(ObjectKind::Type, copy, delete, type_keyval, extra_state);
        outcome(FuncId::MPI_Type_create_keyval, None, result)
    }

    fn MPI_Win_create_keyval(
        win_copy_attr_fn: Option<WinCopyAttrFunction>,
        win_delete_attr_fn: Option<WinDeleteAttrFunction>,
        win_keyval: *mut c_int,
        extra_state: *mut c_void,
    ) -> c_int {
        let (copy, delete) = (win_copy_attr_fn.map_or(0, |f| f as usize), win_delete_attr_fn.map_or(0, |f| f as usize));
        let result = create(ObjectKind::Win, copy, delete, win_keyval, extra_state);
        outcome(FuncId::MPI_Win_create_keyval, None, result)
    }

    fn MPI_Keyval_create(
        copy_fn: Option<OldCopyFunction>,
        delete_fn: Option<OldDeleteFunction>,
        keyval: *mut c_int,
        extra_state: *mut c_void,
    ) -> c_int {
        let (copy, delete) = (copy_fn.map_or(0, |f| f as usize), delete_fn.map_or(0, |f| f as usize));
        outcome(FuncId::MPI_Keyval_create, None, create(ObjectKind::Comm, copy, delete, keyval, extra_state))
    }

    /// The key stays valid for attributes that have it.
    fn MPI_Comm_free_keyval(comm_keyval: *mut c_int) -> c_int {
        // SAFETY: the C program passes a place with a key.
        outcome(FuncId::MPI_Comm_free_keyval, None, unsafe { free(ObjectKind::Comm, comm_keyval) })
    }

    fn MPI_Type_free_keyval(type_keyval: *mut c_int) -> c_int {
        // SAFETY: the C program passes a place with a key.
        outcome(FuncId::MPI_Type_free_keyval, None, unsafe { free(ObjectKind::Type, type_keyval) })
    }

    fn MPI_Win_free_keyval(win_keyval: *mut c_int) -> c_int {
        // SAFETY: the C program passes a place with a key.
        outcome(FuncId::MPI_Win_free_keyval, None, unsafe { free(ObjectKind::Win, win_keyval) })
    }

    fn MPI_Keyval_free(keyval: *mut c_int) -> c_int {
        // SAFETY: the C program passes a place with a key.
        outcome(FuncId::MPI_Keyval_free, None, unsafe { free(ObjectKind::Comm, keyval) })
    }

    fn MPI_Comm_set_attr(comm: Comm, comm_keyval: c_int, attribute_val: *mut c_void) -> c_int {
        with_comm(FuncId::MPI_Comm_set_attr, comm, |library, communicator| {
            set_of_comm(library, (comm, communicator), comm_keyval, attribute_val)
        })
    }

    /// MPI-5.0 section 7.7.2; section 9.1.2 for the predefined attributes, which each communicator
    /// has.
    fn MPI_Comm_get_attr(comm: Comm, comm_keyval: c_int, attribute_val: *mut c_void, flag: *mut c_int) -> c_int {
        // SAFETY: the C program passes the address of a pointer and a place for an integer.
        unsafe { get_of_comm(comm, comm_keyval, attribute_val, flag, FuncId::MPI_Comm_get_attr) }
    }

    fn MPI_Comm_delete_attr(comm: Comm, comm_keyval: c_int) -> c_int {
        with_comm(FuncId::MPI_Comm_delete_attr, comm, |library, communicator| {
            delete_of_comm(library, (comm, communicator), comm_keyval)
        })
    }

    fn MPI_Attr_put(comm: Comm, keyval: c_int, attribute_val: *mut c_void) -> c_int {
        with_comm(FuncId::MPI_Attr_put, comm, |library, communicator| {
            set_of_comm(library, (comm, communicator), keyval, attribute_val)
        })
    }

    fn MPI_Attr_get(comm: Comm, keyval: c_int, attribute_val: *mut c_void, flag: *mut c_int) -> c_int {
        // SAFETY: the C program passes the address of a pointer and a place for an integer.
        unsafe { get_of_comm(comm, keyval, attribute_val, flag, FuncId::MPI_Attr_get) }
    }

    fn MPI_Attr_delete(comm: Comm, keyval: c_int) -> c_int {
        with_comm(FuncId::MPI_Attr_delete, comm, |library, communicator| {
            delete_of_comm(library, (comm, communicator), keyval)
        })
    }

    fn MPI_Type_set_attr(datatype: Datatype, type_keyval: c_int, attribute_val: *mut c_void) -> c_int {
        with_type(FuncId::MPI_Type_set_attr, datatype, |attributes| {
            set(ObjectKind::Type, datatype, attributes, type_keyval, attribute_val)
        })
    }

    fn MPI_Type_get_attr(datatype: Datatype, type_keyval: c_int, attribute_val: *mut c_void, flag: *mut c_int) -> c_int {
        with_type(FuncId::MPI_Type_get_attr, datatype, |attributes| {
            // SAFETY: the C program passes the address of a pointer and a place for an integer.
            unsafe { get(ObjectKind::Type, attributes, type_keyval, attribute_val, flag) }
        })
    }

    fn MPI_Type_delete_attr(datatype: Datatype, type_keyval: c_int) -> c_int {
        with_type(FuncId::MPI_Type_delete_attr, datatype, |attributes| {
            delete(ObjectKind::Type, datatype, attributes, type_keyval)
        })
    }
}
