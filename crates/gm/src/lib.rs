//! GM 2, the library of Myrinet networks, opened at run time, behind safe functions.
//!
//! OxMPI builds without GM, and runs without it where no job uses it. A [`GmLibrary`] is opened by
//! name. An [`OpenPort`] is a port of an interface: a process sends from it to ports of any node,
//! and receives messages into buffers that it has provided. There are no connections. *Tokens*
//! limit everything: each operation takes a send token of the port until its callback, and each
//! provided buffer a receive token until a message has come into it.
//!
//! All messages of a port have one size and low priority. They lie in *slots* of memory that GM has
//! allocated, since an interface accesses no other. A provided or sent slot belongs to GM until its
//! [`GmEvent`]; [`OpenPort::slot`] and [`OpenPort::slot_mut`] return no bytes until then. Besides
//! slots there are *words* of eight bytes, which peers write by gm_put().
//!
//! Long messages bypass the slots: a buffer of the program is registered as a *region*, from or
//! into which an interface moves bytes of a peer's region, by gm_put() or gm_get() (`regions.rs`).
//!
//! [`declarations`] follows the header gm.h and the GM reference manual (2.0); it is the only
//! foreign interface of this crate. It was tested only with the emulation in `tests/gm-emulation`,
//! never with a Myrinet interface.

mod declarations;
mod library;
mod port;
mod regions;
mod slots;

pub use library::{GmError, GmLibrary, LIBRARY};
pub use port::{GmEvent, GmOperation, GmStatus, GmTarget, OpenPort, WordId};
pub use regions::GmRegion;
pub use slots::GmSlot;
