//! Attributes: values that a program attaches to communicators, datatypes and windows (MPI-5.0
//! section 7.7). The program's functions are only addresses here. The C interface knows their types
//! and calls them, without a lock of this module.

use crate::error::{MpiError, Result};
use crate::shown::{self, ValueKind};
use oxmpi_abi::constants as abi;
use oxmpi_abi::extensions::{MPIX_COLL_BASE_ASSOCIATIVE, MPIX_MCA_COLL};
use std::any::Any;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// The kind of objects that a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    Comm,
    Type,
    Win,
}

impl ObjectKind {
    const fn name(self) -> &'static str {
        match self {
            ObjectKind::Comm => "communicators",
            ObjectKind::Type => "datatypes",
            ObjectKind::Win => "windows",
        }
    }
}

/// How a duplication of the object treats an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFunction {
    /// The duplicate does not get the attribute (`MPI_COMM_NULL_COPY_FN`).
    Nothing,
    /// The duplicate gets the same value (`MPI_COMM_DUP_FN`).
    Same,
    /// The program's function at this address decides.
    User(usize),
}

/// How the deletion of an attribute is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteFunction {
    Nothing,
    User(usize),
}

/// A key: its number and functions. It lives while the program or an attribute refers to it.
#[derive(Debug)]
pub struct Keyval {
    pub number: i32,
    pub kind: ObjectKind,
    pub copy: CopyFunction,
    pub delete: DeleteFunction,
    /// The program's functions get this address.
    pub extra_state: usize,
    /// A value that is dropped with the key. Its drop may call the program, so no lock is held when
    /// the last reference to a key is dropped.
    pub dropped_with: Option<Arc<dyn Any + Send + Sync>>,
}

/// The language of a call that sets or reads an attribute (MPI-5.0 section 19.3.7).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Fortran,
}

/// The value of an attribute.
#[derive(Clone, Debug)]
pub enum AttributeValue {
    /// C has set this address, which Fortran reads as a number.
    Address(usize),
    /// Fortran has set this number. C reads its address, through which it may change the number.
    Number(Arc<AtomicUsize>),
}

impl AttributeValue {
    /// A value that a call of this language sets.
    pub fn new(language: Language, value: usize) -> AttributeValue {
        match language {
            Language::C => AttributeValue::Address(value),
            Language::Fortran => AttributeValue::Number(Arc::new(AtomicUsize::new(value))),
        }
    }

    /// The language that has set the value.
    pub fn language(&self) -> Language {
        match self {
            AttributeValue::Address(_) => Language::C,
            AttributeValue::Number(_) => Language::Fortran,
        }
    }

    /// The value as it was set, which copy and delete functions get.
    pub fn plain(&self) -> usize {
        match self {
            AttributeValue::Address(address) => *address,
            AttributeValue::Number(number) => number.load(Ordering::Relaxed),
        }
    }

    /// The value that a call of this language reads. An address of a number is valid until the
    /// attribute is deleted or set again.
    pub fn seen_by(&self, language: Language) -> usize {
        match (self, language) {
            (AttributeValue::Number(number), Language::C) => number.as_ptr().expose_provenance(),
            _ => self.plain(),
        }
    }
}

/// The keys that the program has made and not freed.
#[derive(Debug, Default)]
pub struct Keyvals {
    state: Mutex<KeyvalTable>,
}

#[derive(Debug, Default)]
struct KeyvalTable {
    live: HashMap<i32, Arc<Keyval>>,
    /// Freed keys, some of which attributes still use.
    given_up: HashMap<i32, Weak<Keyval>>,
    made: i32,
}

/// Above the numbers of the predefined attributes.
const FIRST: i32 = 1024;

impl Keyvals {
    /// A new key (`MPI_Comm_create_keyval`), which `make` makes with its number. Fails with
    /// `MPI_ERR_OTHER`, and does not call `make`, if all numbers are used up.
    pub fn create(&self, make: impl FnOnce(i32) -> Keyval) -> Result<i32> {
        let mut state = locked(&self.state);
        let number = FIRST
            .checked_add(state.made)
            .ok_or_else(|| MpiError::new(abi::MPI_ERR_OTHER, "all attribute keys are used up"))?;
        state.made += 1;
        state.live.insert(number, Arc::new(make(number)));
        Ok(number)
    }

    /// The key with this number. Fails with `MPI_ERR_KEYVAL` if there is none, or it is for another
    /// kind of object.
    pub fn get(&self, kind: ObjectKind, number: i32) -> Result<Arc<Keyval>> {
        if kind == ObjectKind::Comm && settable(number).is_some() {
            let (copy, delete) = (CopyFunction::Nothing, DeleteFunction::Nothing);
            let (extra_state, dropped_with) = (0, None);
            let keyval = Keyval { number, kind, copy, delete, extra_state, dropped_with };
            return Ok(Arc::new(keyval));
        }
        check(locked(&self.state).live.get(&number), kind, number)
    }

    /// Frees a key (`MPI_Comm_free_keyval`). Attributes keep the key. While there are any, another
    /// part of the program with a copy of the number may free the key again. Returns the key, which
    /// the caller drops. Fails as [`Keyvals::get`] does.
    pub fn free(&self, kind: ObjectKind, number: i32) -> Result<Arc<Keyval>> {
        // Dropped after the lock, since it may be the last reference.
        let in_use;
        let mut state = locked(&self.state);
        state.given_up.retain(|_, keyval| keyval.strong_count() > 0);
        in_use = state.given_up.get(&number).and_then(Weak::upgrade);
        let keyval = check(state.live.get(&number).or(in_use.as_ref()), kind, number)?;
        if state.live.remove(&number).is_some() {
            state.given_up.insert(number, Arc::downgrade(&keyval));
        }
        Ok(keyval)
    }
}

fn check(found: Option<&Arc<Keyval>>, kind: ObjectKind, number: i32) -> Result<Arc<Keyval>> {
    let shown = shown::number(ValueKind::Keyval, number);
    let why = match found {
        Some(keyval) if keyval.kind == kind => return Ok(keyval.clone()),
        Some(keyval) => {
            format!("keyval {shown} is for {}, not for {}", keyval.kind.name(), kind.name())
        }
        None if number == abi::MPI_KEYVAL_INVALID => "the keyval is MPI_KEYVAL_INVALID".to_owned(),
        None if let Some(name) = settable(number) => {
            format!("{name} is the key of an attribute of communicators, and cannot be freed")
        }
        None if is_predefined(number) => {
            format!("keyval {shown} is predefined: its attribute cannot be set, deleted or freed")
        }
        None => format!("keyval {shown} was never made, or was freed"),
    };
    Err(MpiError::new(abi::MPI_ERR_KEYVAL, why))
}

/// The name of a predefined key of communicators whose attribute the program may set.
fn settable(number: i32) -> Option<&'static str> {
    match number {
        MPIX_MCA_COLL => Some("MPIX_MCA_COLL"),
        MPIX_COLL_BASE_ASSOCIATIVE => Some("MPIX_COLL_BASE_ASSOCIATIVE"),
        _ => None,
    }
}

/// Whether this is the key of an attribute that the library sets.
pub fn is_predefined(number: i32) -> bool {
    (abi::MPI_TAG_UB..=abi::MPI_UNIVERSE_SIZE).contains(&number)
}

/// A value with its key.
#[derive(Clone, Debug)]
pub struct Attribute {
    pub keyval: Arc<Keyval>,
    pub value: AttributeValue,
    /// The attributes of an object are numbered in the order in which they were set.
    order: u64,
}

/// The attributes of one object.
#[derive(Debug, Default)]
pub struct Attributes {
    /// In the order in which they were set. Most objects have none, and no box.
    all: OnceLock<Box<Mutex<Vec<Attribute>>>>,
}

impl Attributes {
    /// Whether an attribute was ever set.
    #[inline]
    pub fn were_set(&self) -> bool {
        self.all.get().is_some()
    }

    fn any(&self) -> Option<MutexGuard<'_, Vec<Attribute>>> {
        self.all.get().map(|all| locked(all))
    }

    fn all(&self) -> MutexGuard<'_, Vec<Attribute>> {
        locked(self.all.get_or_init(Box::default))
    }

    /// The value of a key, if it is set.
    pub fn get(&self, number: i32) -> Option<AttributeValue> {
        self.any()?.iter().find(|a| a.keyval.number == number).map(|a| a.value.clone())
    }

    /// Adds an attribute as the youngest. Removes and returns an older one of the same key, which
    /// another thread may have set meanwhile.
    pub fn add(&self, keyval: Arc<Keyval>, value: AttributeValue) -> Option<Attribute> {
        let mut all = self.all();
        let order = all.last().map_or(0, |last| last.order + 1);
        let before =
            all.iter().position(|a| a.keyval.number == keyval.number).map(|at| all.remove(at));
        all.push(Attribute { keyval, value, order });
        before
    }

    /// Removes the attribute of a key.
    pub fn take(&self, number: i32) -> Option<Attribute> {
        let mut all = self.any()?;
        let at = all.iter().position(|a| a.keyval.number == number)?;
        Some(all.remove(at))
    }

    /// Removes the attribute that was set last.
    pub fn take_youngest(&self) -> Option<Attribute> {
        self.any()?.pop()
    }

    /// Inserts a removed attribute at its old position, unless its key was set again meanwhile.
    pub fn restore(&self, attribute: Attribute) {
        let mut all = self.all();
        if all.iter().all(|a| a.keyval.number != attribute.keyval.number) {
            let at = all.partition_point(|a| a.order < attribute.order);
            all.insert(at, attribute);
        }
    }

    /// All attributes, in the order in which they were set.
    pub fn snapshot(&self) -> Vec<Attribute> {
        self.any().map_or_else(Vec::new, |all| all.clone())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // No code under these locks panics in the middle of a change.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyval(keyvals: &Keyvals, kind: ObjectKind) -> Arc<Keyval> {
        keyval_with(keyvals, kind, None)
    }

    fn keyval_with(
        keyvals: &Keyvals,
        kind: ObjectKind,
        dropped_with: Option<Arc<dyn Any + Send + Sync>>,
    ) -> Arc<Keyval> {
        let (copy, delete) = (CopyFunction::Nothing, DeleteFunction::Nothing);
        let number = keyvals
            .create(|number| Keyval { number, kind, copy, delete, extra_state: 0, dropped_with })
            .unwrap();
        keyvals.get(kind, number).unwrap()
    }

    fn address(address: usize) -> AttributeValue {
        AttributeValue::new(Language::C, address)
    }

    #[test]
    fn a_key_is_for_one_kind_until_it_is_freed() {
        let keyvals = Keyvals::default();
        let key = keyval(&keyvals, ObjectKind::Comm);
        let class = |kind, number| keyvals.get(kind, number).unwrap_err().class();
        assert_eq!(class(ObjectKind::Type, key.number), abi::MPI_ERR_KEYVAL);
        assert_eq!(class(ObjectKind::Comm, abi::MPI_KEYVAL_INVALID), abi::MPI_ERR_KEYVAL);
        assert_eq!(class(ObjectKind::Comm, abi::MPI_TAG_UB), abi::MPI_ERR_KEYVAL);
        assert!(keyvals.free(ObjectKind::Win, key.number).is_err());
        let number = key.number;
        drop(key);
        keyvals.free(ObjectKind::Comm, number).unwrap();
        assert!(keyvals.free(ObjectKind::Comm, number).is_err());
        assert_ne!(keyval(&keyvals, ObjectKind::Comm).number, number);
    }

    /// Uses the keys when it is dropped, as a destructor of a program may.
    struct UsesKeys(Arc<Keyvals>, i32, Arc<AtomicUsize>);

    impl Drop for UsesKeys {
        fn drop(&mut self) {
            assert!(self.0.get(ObjectKind::Comm, self.1).is_ok());
            self.2.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn a_key_is_dropped_once_and_without_a_lock() {
        let (keyvals, attributes) = (Arc::new(Keyvals::default()), Attributes::default());
        let (live, drops) = (keyval(&keyvals, ObjectKind::Comm).number, Arc::default());
        let uses = || Arc::new(UsesKeys(keyvals.clone(), live, Arc::clone(&drops)));
        let count = || drops.load(Ordering::Relaxed);
        let number = keyval_with(&keyvals, ObjectKind::Comm, Some(uses())).number;
        keyvals.free(ObjectKind::Comm, number).unwrap();
        assert_eq!(count(), 1);
        let key = keyval_with(&keyvals, ObjectKind::Comm, Some(uses()));
        let number = key.number;
        attributes.add(key, address(1));
        keyvals.free(ObjectKind::Comm, number).unwrap();
        keyvals.free(ObjectKind::Comm, number).unwrap();
        assert_eq!(count(), 1);
        drop(attributes.take(number));
        assert_eq!(count(), 2);
    }

    #[test]
    fn a_key_in_use_may_be_freed_twice() {
        let (keyvals, attributes) = (Keyvals::default(), Attributes::default());
        let key = keyval(&keyvals, ObjectKind::Comm);
        let number = key.number;
        attributes.add(key, address(1));
        keyvals.free(ObjectKind::Comm, number).unwrap();
        keyvals.free(ObjectKind::Comm, number).unwrap();
        assert!(keyvals.free(ObjectKind::Win, number).is_err());
        assert!(keyvals.get(ObjectKind::Comm, number).is_err());
        attributes.take(number);
        assert!(keyvals.free(ObjectKind::Comm, number).is_err());
    }

    #[test]
    fn the_key_of_the_collective_component_is_always_there_for_communicators() {
        let keyvals = Keyvals::default();
        assert_eq!(
            keyvals.get(ObjectKind::Comm, MPIX_MCA_COLL).unwrap().copy,
            CopyFunction::Nothing
        );
        for error in [
            keyvals.get(ObjectKind::Win, MPIX_MCA_COLL).unwrap_err(),
            keyvals.free(ObjectKind::Comm, MPIX_MCA_COLL).unwrap_err(),
        ] {
            assert!(error.to_string().contains("MPIX_MCA_COLL is the key"), "{error}");
        }
        assert!(keyvals.get(ObjectKind::Comm, MPIX_COLL_BASE_ASSOCIATIVE).is_ok());
        let error = keyvals.free(ObjectKind::Comm, MPIX_COLL_BASE_ASSOCIATIVE).unwrap_err();
        assert!(error.to_string().contains("MPIX_COLL_BASE_ASSOCIATIVE is the key"), "{error}");
    }

    #[test]
    fn attributes_keep_the_order_of_setting() {
        let (keyvals, attributes) = (Keyvals::default(), Attributes::default());
        let keys = [(); 4].map(|()| keyval(&keyvals, ObjectKind::Comm));
        for (value, key) in keys.iter().enumerate() {
            assert!(attributes.add(key.clone(), address(value)).is_none());
        }
        let before = attributes.add(keys[0].clone(), address(10)).unwrap();
        assert_eq!(before.value.plain(), 0);
        let middle = attributes.take(keys[2].number).unwrap();
        assert!(attributes.get(keys[2].number).is_none());
        attributes.restore(middle);
        let values: Vec<_> = attributes.snapshot().iter().map(|a| a.value.plain()).collect();
        assert_eq!(values, [1, 2, 3, 10]);
        let youngest = attributes.take_youngest().unwrap();
        assert_eq!(youngest.value.plain(), 10);
        attributes.add(keys[0].clone(), address(11));
        attributes.restore(youngest);
        assert_eq!(attributes.get(keys[0].number).map(|value| value.plain()), Some(11));
        assert!(attributes.take(99).is_none());
    }
}
