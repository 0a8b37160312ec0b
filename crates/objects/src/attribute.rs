//! Attributes: values that a program attaches to communicators, datatypes and windows (MPI-5.0 section 7.7).
//!
//! Here are the keys and what is attached to an object. The program's functions are addresses: only the C face knows their
//! types and calls them, and it does so with nothing of this module locked.

use crate::error::{MpiError, Result};
use oxmpi_abi::constants as abi;
use oxmpi_abi::extensions::{MPIX_COLL_BASE_ASSOCIATIVE, MPIX_MCA_COLL};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

/// What kind of object a key is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectKind {
    /// Communicators.
    Comm,
    /// Datatypes.
    Type,
    /// Windows.
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

/// What happens to an attribute when its object is duplicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyFunction {
    /// The duplicate does not get it (`MPI_COMM_NULL_COPY_FN`).
    Nothing,
    /// The duplicate gets the same value (`MPI_COMM_DUP_FN`).
    Same,
    /// The program's function at this address decides.
    User(usize),
}

/// What happens when an attribute is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeleteFunction {
    /// Nothing (`MPI_COMM_NULL_DELETE_FN`).
    Nothing,
    /// The program's function at this address is called.
    User(usize),
}

/// A key: its number and functions. It lives as long as the program or an attribute has it.
#[derive(Debug, PartialEq, Eq)]
pub struct Keyval {
    /// The number that the program knows it by.
    pub number: i32,
    /// The objects it is for.
    pub kind: ObjectKind,
    /// Called when an object is duplicated.
    pub copy: CopyFunction,
    /// Called when an attribute is deleted.
    pub delete: DeleteFunction,
    /// An address that the functions are given.
    pub extra_state: usize,
}

/// The keys that the program has made and not freed.
#[derive(Debug, Default)]
pub struct Keyvals {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    live: HashMap<i32, Arc<Keyval>>,
    /// Those given up, some of which attributes still have.
    given_up: HashMap<i32, Weak<Keyval>>,
    made: i32,
}

/// The number of the first key, above those of the predefined attributes.
const FIRST: i32 = 1024;

impl Keyvals {
    /// A new key (`MPI_Comm_create_keyval`).
    ///
    /// # Errors
    /// Class `MPI_ERR_OTHER` if all numbers are used up.
    pub fn create(
        &self,
        kind: ObjectKind,
        copy: CopyFunction,
        delete: DeleteFunction,
        extra_state: usize,
    ) -> Result<i32> {
        let mut state = locked(&self.state);
        let number = FIRST
            .checked_add(state.made)
            .ok_or_else(|| MpiError::new(abi::MPI_ERR_OTHER, "all attribute keys are used up"))?;
        state.made += 1;
        state.live.insert(number, Arc::new(Keyval { number, kind, copy, delete, extra_state }));
        Ok(number)
    }

    /// The key with this number.
    ///
    /// # Errors
    /// Class `MPI_ERR_KEYVAL` if there is none, or it is for another kind of object.
    pub fn get(&self, kind: ObjectKind, number: i32) -> Result<Arc<Keyval>> {
        if kind == ObjectKind::Comm && settable(number).is_some() {
            let (copy, delete) = (CopyFunction::Nothing, DeleteFunction::Nothing);
            return Ok(Arc::new(Keyval { number, kind, copy, delete, extra_state: 0 }));
        }
        check(locked(&self.state).live.get(&number), kind, number)
    }

    /// The program gives a key up (`MPI_Comm_free_keyval`). Attributes that have it keep it; as long as there are any, it may
    /// be given up again, by a part of the program that has a copy of its number.
    ///
    /// # Errors
    /// As [`Keyvals::get`].
    pub fn free(&self, kind: ObjectKind, number: i32) -> Result<()> {
        let mut state = locked(&self.state);
        state.given_up.retain(|_, keyval| keyval.strong_count() > 0);
        let in_use = state.given_up.get(&number).and_then(Weak::upgrade);
        let keyval = check(state.live.get(&number).or(in_use.as_ref()), kind, number)?;
        if state.live.remove(&number).is_some() {
            state.given_up.insert(number, Arc::downgrade(&keyval));
        }
        Ok(())
    }
}

fn check(found: Option<&Arc<Keyval>>, kind: ObjectKind, number: i32) -> Result<Arc<Keyval>> {
    let why = match found {
        Some(keyval) if keyval.kind == kind => return Ok(keyval.clone()),
        Some(keyval) => format!("keyval {number} is for {}, not for {}", keyval.kind.name(), kind.name()),
        None if number == abi::MPI_KEYVAL_INVALID => "the keyval is MPI_KEYVAL_INVALID".to_owned(),
        None if let Some(name) = settable(number) => {
            format!("{name} is the key of an attribute of communicators, and cannot be freed")
        }
        None if is_predefined(number) => {
            format!("keyval {number} is predefined: its attribute cannot be set, deleted or freed")
        }
        None => format!("keyval {number} was never made, or was freed"),
    };
    Err(MpiError::new(abi::MPI_ERR_KEYVAL, why))
}

/// The name of a key of communicators that is there without having been made, and whose attribute the program sets.
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

/// A value under its key.
#[derive(Clone, Debug)]
pub struct Attribute {
    /// The key.
    pub keyval: Arc<Keyval>,
    /// The value: an address, or whatever the program keeps in one.
    pub value: usize,
    /// Counts the attributes of the object in the order in which they were set.
    order: u64,
}

/// The attributes of one object.
#[derive(Debug, Default)]
pub struct Attributes {
    /// In the order in which they were set. Most objects never have any.
    all: OnceLock<Box<Mutex<Vec<Attribute>>>>,
}

impl Attributes {
    /// Whether there ever was one.
    #[inline]
    pub fn were_set(&self) -> bool {
        self.all.get().is_some()
    }

    /// Them, if there ever was one.
    fn any(&self) -> Option<MutexGuard<'_, Vec<Attribute>>> {
        self.all.get().map(|all| locked(all))
    }

    fn all(&self) -> MutexGuard<'_, Vec<Attribute>> {
        locked(self.all.get_or_init(Box::default))
    }

    /// The value of a key, if it is set.
    pub fn get(&self, number: i32) -> Option<usize> {
        self.any()?.iter().find(|a| a.keyval.number == number).map(|a| a.value)
    }

    /// Adds an attribute, the youngest of all. An older one of the same key is taken out and returned; a program that
    /// sets the same key from two threads at a time may see that here.
    pub fn add(&self, keyval: Arc<Keyval>, value: usize) -> Option<Attribute> {
        let mut all = self.all();
        let order = all.last().map_or(0, |last| last.order + 1);
        let before = all.iter().position(|a| a.keyval.number == keyval.number).map(|at| all.remove(at));
        all.push(Attribute { keyval, value, order });
        before
    }

    /// Takes the attribute of a key out.
    pub fn take(&self, number: i32) -> Option<Attribute> {
        let mut all = self.any()?;
        let at = all.iter().position(|a| a.keyval.number == number)?;
        Some(all.remove(at))
    }

    /// Takes out the attribute that was set last.
    pub fn take_youngest(&self) -> Option<Attribute> {
        self.any()?.pop()
    }

    /// Puts an attribute back to its place, unless its key was set again meanwhile.
    pub fn restore(&self, attribute: Attribute) {
        let mut all = self.all();
        if all.iter().all(|a| a.keyval.number != attribute.keyval.number) {
            let at = all.partition_point(|a| a.order < attribute.order);
            all.insert(at, attribute);
        }
    }

    /// All, in the order in which they were set.
    pub fn snapshot(&self) -> Vec<Attribute> {
        self.any().map_or_else(Vec::new, |all| all.clone())
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // What is done under these locks does not panic half-way.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keyval(keyvals: &Keyvals, kind: ObjectKind) -> Arc<Keyval> {
        let number = keyvals.create(kind, CopyFunction::Nothing, DeleteFunction::Nothing, 0).unwrap();
        keyvals.get(kind, number).unwrap()
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

    #[test]
    fn a_key_in_use_may_be_freed_twice() {
        let (keyvals, attributes) = (Keyvals::default(), Attributes::default());
        let key = keyval(&keyvals, ObjectKind::Comm);
        let number = key.number;
        attributes.add(key, 1);
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
        assert_eq!(keyvals.get(ObjectKind::Comm, MPIX_MCA_COLL).unwrap().copy, CopyFunction::Nothing);
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
            assert!(attributes.add(key.clone(), value).is_none());
        }
        assert_eq!(attributes.add(keys[0].clone(), 10).map(|a| a.value), Some(0));
        let middle = attributes.take(keys[2].number).unwrap();
        assert_eq!(attributes.get(keys[2].number), None);
        attributes.restore(middle);
        let values: Vec<_> = attributes.snapshot().iter().map(|a| a.value).collect();
        assert_eq!(values, [1, 2, 3, 10]);
        let youngest = attributes.take_youngest().unwrap();
        assert_eq!(youngest.value, 10);
        attributes.add(keys[0].clone(), 11);
        attributes.restore(youngest);
        assert_eq!(attributes.get(keys[0].number), Some(11));
        assert_eq!(attributes.take(99).map(|a| a.value), None);
    }
}
