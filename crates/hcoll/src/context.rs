//! What HCOLL has made for a group.

use crate::library::{Freeable, Hcoll, HcollError};
use crate::runtime::HcollGroup;
use crate::turn::HcollTurn;
use libc::c_void;
use oxmpi_sys::spawn::without_signals;
use std::fmt;
use std::ptr::without_provenance_mut;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, PoisonError};

/// How the creation of a context stands.
#[derive(Debug)]
pub enum HcollCreation {
    /// It goes on, by the messages of its group.
    Going(ContextCreation),
    /// It is over.
    Made(HcollContext),
}

/// A context that is being made by a thread of its own.
#[derive(Debug)]
pub struct ContextCreation(Receiver<Result<HcollContext, HcollError>>);

/// What HCOLL has made for a group. When it is dropped HCOLL gets it back at the next [`Hcoll::progress`], and the group is closed.
pub struct HcollContext {
    pub(crate) library: Arc<Hcoll>,
    pub(crate) handle: *mut c_void,
    group: Option<HcollGroup>,
}

// SAFETY: HCOLL binds a context to no thread, and it is used by the thread alone that has the turn.
unsafe impl Send for HcollContext {}

impl fmt::Debug for HcollContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HcollContext").field("group", &self.group).finish_non_exhaustive()
    }
}

impl ContextCreation {
    /// Begins to make the context of a group. All its processes do, and none makes another context meanwhile.
    ///
    /// # Errors
    /// No thread can be started.
    pub fn begin(library: &Arc<Hcoll>, group: &HcollGroup) -> Result<ContextCreation, HcollError> {
        let (sender, receiver) = channel();
        let (library, group) = (library.clone(), group.clone());
        let make = move || {
            let turn = HcollTurn::wait_as_creator();
            let made = library.initialise(&turn).and_then(|()| {
                let number = without_provenance_mut(group.number());
                // SAFETY: HCOLL is initialised, and this thread has the turn.
                let handle = unsafe { (library.symbols.create_context)(number) };
                match handle.is_null() {
                    true => Err(HcollError::Call { call: "hcoll_create_context", status: 0 }),
                    false => Ok(HcollContext { library, handle, group: Some(group) }),
                }
            });
            // Nobody may wait for it any more: then it is given back.
            drop(sender.send(made));
            drop(turn);
        };
        // Signals are for the threads of the program.
        let builder = std::thread::Builder::new().name("oxmpi-hcoll".to_string());
        let started = without_signals(|| builder.spawn(make).map(drop));
        started.map_err(|error| HcollError::Thread(error.to_string()))?;
        Ok(ContextCreation(receiver))
    }

    /// How it stands, without waiting.
    ///
    /// # Errors
    /// What HCOLL says, after which there is no context.
    pub fn poll(self) -> Result<HcollCreation, HcollError> {
        match self.0.try_recv() {
            Ok(made) => made.map(HcollCreation::Made),
            Err(TryRecvError::Empty) => Ok(HcollCreation::Going(self)),
            Err(TryRecvError::Disconnected) => {
                Err(HcollError::Thread("the one that made it has ended early".to_string()))
            }
        }
    }
}

impl HcollContext {
    /// How many processes its group has.
    #[must_use]
    pub fn size(&self) -> usize {
        self.group.as_ref().map_or(0, HcollGroup::size)
    }

    /// The library that it is of.
    #[must_use]
    pub fn library(&self) -> &Arc<Hcoll> {
        &self.library
    }

    /// Leaves it to HCOLL for good, whatever is under way in it.
    pub fn abandon(mut self) {
        if let Some(group) = self.group.take() {
            group.close();
        }
    }
}

impl Drop for HcollContext {
    fn drop(&mut self) {
        if let Some(group) = self.group.take() {
            group.close();
            let mut unneeded = self.library.unneeded.lock().unwrap_or_else(PoisonError::into_inner);
            unneeded.push((Freeable(self.handle), group));
        }
    }
}
