//! The context of a group in HCOLL.

use crate::library::{Freeable, Hcoll, HcollError, failed};
use crate::runtime::HcollGroup;
use crate::turn::HcollTurn;
use libc::c_void;
use oxmpi_sys::spawn::without_signals;
use std::fmt;
use std::ptr::without_provenance_mut;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::sync::{Arc, PoisonError};

/// The progress of the creation of a context.
#[derive(Debug)]
pub enum HcollCreation {
    Going(ContextCreation),
    Made(HcollContext),
}

/// A context that a separate thread creates.
#[derive(Debug)]
pub struct ContextCreation(Receiver<Result<HcollContext, HcollError>>);

/// The context of a group in HCOLL. Dropping it frees it at the next [`Hcoll::progress`], and
/// closes the group.
pub struct HcollContext {
    pub(crate) library: Arc<Hcoll>,
    pub(crate) handle: *mut c_void,
    group: Option<HcollGroup>,
}

// SAFETY: HCOLL binds a context to no thread, and only the thread with the turn uses it.
unsafe impl Send for HcollContext {}

impl fmt::Debug for HcollContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HcollContext").field("group", &self.group).finish_non_exhaustive()
    }
}

impl ContextCreation {
    /// Starts the creation of a group's context. All processes of the group do so, and create no
    /// other context meanwhile.
    pub fn begin(library: &Arc<Hcoll>, group: &HcollGroup) -> Result<ContextCreation, HcollError> {
        let (sender, receiver) = channel();
        let (library, group) = (library.clone(), group.clone());
        let make = move || {
            let turn = HcollTurn::wait_as_creator();
            let made = library.initialise(&turn).and_then(|()| {
                let number = without_provenance_mut(group.number());
                // SAFETY: HCOLL is initialised, and this thread has the turn.
                let handle = unsafe { (library.symbols.hcoll_create_context)(number) };
                match handle.is_null() {
                    true => Err(failed("hcoll_create_context", 0)),
                    false => Ok(HcollContext { library, handle, group: Some(group) }),
                }
            });
            // If the receiver is gone, the context is dropped and freed.
            drop(sender.send(made));
            drop(turn);
        };
        // Signals are for the threads of the program.
        let builder = std::thread::Builder::new().name("oxmpi-hcoll".to_string());
        let started = without_signals(|| builder.spawn(make).map(drop));
        started.map_err(|error| HcollError::Thread(error.to_string()))?;
        Ok(ContextCreation(receiver))
    }

    /// The progress of the creation, without waiting.
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
    /// The number of processes of the group.
    pub fn size(&self) -> usize {
        self.group.as_ref().map_or(0, HcollGroup::size)
    }

    /// The library of the context.
    pub fn library(&self) -> &Arc<Hcoll> {
        &self.library
    }

    /// Leaks the context with all its collectives.
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
