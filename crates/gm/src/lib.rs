//! GM 2, the message-passing library of Myrinet networks, opened when a program runs, behind safe functions.
//!
//! Nothing of GM is needed to build OxMPI, nor to run it where no job goes over it. A [`GmLibrary`] is opened by name. An [`OpenPort`] is one
//! port of an interface: a process sends from it to ports of any node, and has messages come into the buffers that it has provided. There
//! are no connections. What bounds everything are *tokens*: a port has a number of send tokens, of which each operation takes one until
//! its callback, and of receive tokens, of which each provided buffer takes one until a message has come into it.
//!
//! All messages of a port have one size and the low priority. They lie in *slots* of memory that GM has allocated, since an interface
//! reads and writes no other. A slot that is provided or sent belongs to GM until its [`GmEvent`]; [`OpenPort::slot`] and
//! [`OpenPort::slot_mut`] refuse its bytes until then. Beside slots there are *words* of eight bytes, which peers write by gm_put().
//!
//! Long messages need not be copied through slots: a buffer of the program is registered as a *region*, from which or into which an
//! interface moves bytes of a peer's region, by gm_put() or gm_get() (`regions.rs`).
//!
//! [`declarations`] has what the header gm.h and the GM reference manual (2.0) say; it is the only foreign interface here. It was never
//! tried with a Myrinet interface, only with the emulation in `tests/gm-emulation`.

mod declarations;
mod library;
mod port;
mod regions;
mod slots;

pub use library::{GmError, GmLibrary, LIBRARY};
pub use port::{GmEvent, GmOperation, GmStatus, GmTarget, OpenPort, WordId};
pub use regions::GmRegion;
pub use slots::GmSlot;
