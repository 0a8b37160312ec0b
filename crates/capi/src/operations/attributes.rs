//! Attributes (MPI-5.0 section 7.7, deprecated ones in section 16.1): keys, and calls of the
//! program's copy and delete functions.
//!
//! An attribute is removed from its object before its delete function is called, and restored if
//! the function fails. Thus the function is called once, without locks, and may use the object.

use crate::arguments::strings::text;
use crate::errors::class_of;
use crate::operations::errorcodes;
use crate::state::extra_state::ExtraState;
use crate::state::library::{Running, TypeRef};
use crate::state::named::OfArgument;
use crate::state::named::{CommArgument, Named};
use crate::state::objects::objects;
use crate::state::predefined::Predefined;
use oxmpi_abi::constants as abi;
use oxmpi_abi::extensions::{MPIX_COLL_BASE_ASSOCIATIVE, MPIX_MCA_COLL};
use oxmpi_abi::types::{CommCopyAttrFunction, CommDeleteAttrFunction, DestructorFunction};
use oxmpi_core::Component;
use oxmpi_objects::attribute::{
    Attribute, AttributeValue, Attributes, CopyFunction, DeleteFunction, Keyval, Language,
    ObjectKind, is_predefined,
};
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_objects::shown::{self, ValueKind};
use std::borrow::Cow;
use std::ffi::{c_int, c_void};
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

fn failed(what: &str, keyval: &Keyval, code: c_int) -> MpiError {
    let text = format!(
        "the {what} function of attribute key {} returned error code {}",
        shown::number(ValueKind::Keyval, keyval.number),
        shown::number(ValueKind::Code, code)
    );
    // A value that is no error code must not become the code of the call.
    MpiError::new(if class_of(code).is_ok() { code } else { abi::MPI_ERR_OTHER }, text)
}

/// Calls the copy function. Returns the value for the duplicate, if the duplicate gets the
/// attribute.
fn copy_of(object: usize, attribute: &Attribute) -> Result<Option<AttributeValue>> {
    let keyval = &attribute.keyval;
    let language = attribute.value.language();
    let function = match keyval.copy {
        CopyFunction::Nothing => return Ok(None),
        CopyFunction::Same => {
            return Ok(Some(AttributeValue::new(language, attribute.value.plain())));
        }
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
            std::ptr::with_exposed_provenance_mut(attribute.value.plain()),
            (&raw mut value).cast(),
            &mut flag,
        )
    };
    match code {
        abi::MPI_SUCCESS => {
            let value = || AttributeValue::new(language, value.expose_provenance());
            Ok((flag != 0).then(value))
        }
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
            std::ptr::with_exposed_provenance_mut(attribute.value.plain()),
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

pub(crate) struct CopiedAttributes(Vec<(Arc<Keyval>, AttributeValue)>);

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
/// copied attributes are deleted, and the duplication must fail.
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
/// attribute and all older ones stay, and the object must not be freed.
pub(crate) fn delete_attributes(object: usize, attributes: &Attributes) -> Result<()> {
    while let Some(attribute) = attributes.take_youngest() {
        call_delete_taken(object, attributes, attribute)?;
    }
    Ok(())
}

fn key(kind: ObjectKind, number: c_int) -> Result<Arc<Keyval>> {
    objects().keyvals.get(kind, number).of(argument_of(kind))
}

/// The name of a key among the arguments.
const fn argument_of(kind: ObjectKind) -> &'static str {
    match kind {
        ObjectKind::Comm => "comm_keyval",
        ObjectKind::Type => "type_keyval",
        ObjectKind::Win => "win_keyval",
    }
}

pub(crate) fn delete(
    kind: ObjectKind,
    object: usize,
    attributes: &Attributes,
    number: c_int,
) -> Result<()> {
    let Some(attribute) = attributes.take(number) else {
        // A freed key stays valid while an attribute has it.
        let keyval = key(kind, number)?;
        let text = format!("the object has no attribute with key {}", keyval.number);
        return Err(MpiError::new(abi::MPI_ERR_KEYVAL, text));
    };
    call_delete_taken(object, attributes, attribute)
}

/// Sets an attribute. Its older value is deleted first (MPI-5.0 section 7.7.2).
pub(crate) fn set(
    language: Language,
    kind: ObjectKind,
    object: usize,
    attributes: &Attributes,
    number: c_int,
    value: *mut c_void,
) -> Result<()> {
    let keyval = key(kind, number)?;
    if let Some(before) = attributes.take(number) {
        call_delete_taken(object, attributes, before)?;
    }
    match attributes.add(keyval, AttributeValue::new(language, value.expose_provenance())) {
        None => Ok(()),
        // Another thread or the delete function has set the attribute meanwhile. That value is
        // deleted.
        Some(before) => call_delete(object, &before),
    }
}

/// The value of an attribute.
pub(crate) fn value(
    language: Language,
    kind: ObjectKind,
    attributes: &Attributes,
    number: c_int,
) -> Result<Option<*const c_void>> {
    let found = attributes.get(number);
    if found.is_none() {
        key(kind, number)?;
    }
    Ok(found.map(|value| std::ptr::with_exposed_provenance(value.seen_by(language))))
}

/// Test for communicators: tests/c/attr_comm.c; for datatypes: tests/c/attr_type.c. The functions
/// for all kinds of objects have the same type, since all handles are addresses.
pub(crate) fn create_keyval(
    kind: ObjectKind,
    copy: Option<CommCopyAttrFunction>,
    delete: Option<CommDeleteAttrFunction>,
    extra_state: *mut c_void,
) -> Result<c_int> {
    create_keyval_with(kind, copy, delete, None, extra_state)
}

/// Test: tests/c/attr_fortran.c.
pub(crate) fn create_keyval_with(
    kind: ObjectKind,
    copy: Option<CommCopyAttrFunction>,
    delete: Option<CommDeleteAttrFunction>,
    destructor: Option<DestructorFunction>,
    extra_state: *mut c_void,
) -> Result<c_int> {
    let copy = copying(copy.map_or(0, |function| function as usize));
    let delete = deleting(delete.map_or(0, |function| function as usize));
    objects().keyvals.create(|number| Keyval {
        number,
        kind,
        copy,
        delete,
        extra_state: extra_state.expose_provenance(),
        dropped_with: destructor.map(|end| ExtraState::new(extra_state, Some(end)) as _),
    })
}

/// Frees the program's reference to a key, which stays valid for attributes that have it.
pub(crate) fn free_keyval(kind: ObjectKind, keyval: c_int) -> Result<c_int> {
    objects().keyvals.free(kind, keyval).of(argument_of(kind))?;
    Ok(abi::MPI_KEYVAL_INVALID)
}

/// MPI-5.0 section 7.7.2; section 9.1.2 for the predefined attributes, which each communicator has.
pub(crate) fn comm_get_attr(
    language: Language,
    library: &'static Running,
    comm: &CommArgument,
    keyval: c_int,
) -> Result<Option<*const c_void>> {
    if is_predefined(keyval) {
        return Ok(predefined(library, keyval).map(|attribute| attribute.seen_by(language)));
    }
    value(language, ObjectKind::Comm, &comm.attributes, keyval)
}

/// The texts of MPIX_MCA_COLL and MPIX_COLL_BASE_ASSOCIATIVE are read here; later changes of the
/// texts have no effect.
pub(crate) fn comm_set_attr(
    language: Language,
    library: &Running,
    comm: &CommArgument,
    keyval: c_int,
    value: *mut c_void,
) -> Result<()> {
    match keyval {
        MPIX_MCA_COLL | MPIX_COLL_BASE_ASSOCIATIVE if language == Language::Fortran => {
            let text =
                format!("comm_keyval: the attribute of key {keyval} is a text, not a number");
            return Err(MpiError::new(abi::MPI_ERR_KEYVAL, text));
        }
        MPIX_MCA_COLL => {
            let name = given_text(value)?;
            let component = Component::named(name.trim()).map_err(|bad| {
                MpiError::new(abi::MPI_ERR_ARG, format!("the attribute MPIX_MCA_COLL: {bad}"))
            })?;
            library.process.name_component(comm, Some(component))?;
        }
        MPIX_COLL_BASE_ASSOCIATIVE => {
            let said = match given_text(value)?.trim() {
                "0" => Some(false),
                "1" => Some(true),
                "unset" => None,
                other => {
                    let text = format!(
                        "the attribute MPIX_COLL_BASE_ASSOCIATIVE is '{other}': expected one of 0, 1, unset"
                    );
                    return Err(MpiError::new(abi::MPI_ERR_ARG, text));
                }
            };
            library.process.take_associative_on(comm, Some(said))?;
        }
        _ => {}
    }
    set(language, ObjectKind::Comm, comm.handle, &comm.attributes, keyval, value)
}

/// The value of an attribute that `mpi-ext.h` defines as a string.
fn given_text<'a>(value: *mut c_void) -> Result<Cow<'a, str>> {
    // SAFETY: the program passes a string.
    Ok(String::from_utf8_lossy(unsafe { text(value.cast(), "attribute_val") }?))
}

pub(crate) fn comm_delete_attr(
    library: &Running,
    comm: &CommArgument,
    keyval: c_int,
) -> Result<()> {
    delete(ObjectKind::Comm, comm.handle, &comm.attributes, keyval)?;
    match keyval {
        MPIX_MCA_COLL => library.process.name_component(comm, None)?,
        MPIX_COLL_BASE_ASSOCIATIVE => library.process.take_associative_on(comm, None)?,
        _ => {}
    }
    Ok(())
}

pub(crate) fn type_set_attr(
    language: Language,
    _: &Running,
    datatype: Named<TypeRef<'_>>,
    keyval: c_int,
    value: *mut c_void,
) -> Result<()> {
    set(language, ObjectKind::Type, datatype.handle, &datatype.attributes, keyval, value)
}

pub(crate) fn type_get_attr(
    language: Language,
    _: &Running,
    datatype: Named<TypeRef<'_>>,
    keyval: c_int,
) -> Result<Option<*const c_void>> {
    value(language, ObjectKind::Type, &datatype.attributes, keyval)
}

pub(crate) fn type_delete_attr(
    _: &Running,
    datatype: Named<TypeRef<'_>>,
    keyval: c_int,
) -> Result<()> {
    delete(ObjectKind::Type, datatype.handle, &datatype.attributes, keyval)
}

static HOST_VALUE: c_int = abi::MPI_PROC_NULL;
static IO_VALUE: c_int = abi::MPI_ANY_SOURCE;
static TRUE_VALUE: c_int = 1;

/// A predefined attribute, if it is set.
fn predefined(library: &'static Running, keyval: c_int) -> Option<Predefined> {
    let values = &library.attribute_values;
    Some(match keyval {
        abi::MPI_TAG_UB => (&values.tag_ub).into(),
        abi::MPI_HOST => (&HOST_VALUE).into(),
        abi::MPI_IO => (&IO_VALUE).into(),
        abi::MPI_WTIME_IS_GLOBAL => (&TRUE_VALUE).into(),
        abi::MPI_APPNUM => values.appnum.as_ref()?.into(),
        abi::MPI_UNIVERSE_SIZE => (&values.universe_size).into(),
        abi::MPI_LASTUSEDCODE => errorcodes::last_used(),
        _ => return None,
    })
}
