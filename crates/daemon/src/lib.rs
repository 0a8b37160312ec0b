//! The user's daemons, one on each node: `oxmpi boot` starts them, `oxmpi halt` ends them, and
//! together they form a *universe*. Their only service is to run a program on a node, with sockets
//! as its standard streams.
//!
//! - On its own host a daemon has an abstract address (unix(7)), which contains the user's number
//!   and is visible only in its network namespace; both sides query the kernel for the peer's user.
//! - From other hosts a daemon is reached over TCP by processes that have the universe's secret;
//!   everything there is encrypted and authenticated (`channel.rs`). The secret travels through the
//!   agent (ssh) that starts a daemon, and from a daemon to programs of the same user on its own
//!   host; never over TCP.
//! - A connection has one purpose: a request, a stream of a program, or the link between two
//!   daemons. Each daemon has a link with each other one, and so notices its end. A local socket
//!   becomes the stream itself; data over TCP are forwarded (`passage.rs`).
//! - The programs that a daemon has started end with the daemon, and with the connection of their
//!   request, also when the requester's host does not answer for the time in the request.
//!
//! | module | contents |
//! |---|---|
//! | `schema` | the file that names the hosts |
//! | `notation` | `n0-3`, `c1`, `N`, `C`: notation for nodes and processors |
//! | `message`, `channel` | the protocol: pure |
//! | `boot`, `agent` | starting all daemons, or none |
//! | `serve`, `programs`, `passage`, `links` | a daemon |
//! | `client` | requests of the user's programs: [`Universe`] |
//! | [`diagnostics`] | events of launchers, agents and daemons, on standard error |
#![forbid(unsafe_code)]
#![deny(clippy::print_stdout, clippy::print_stderr)] // they panic if the stream is closed

mod agent;
mod boot;
pub mod channel;
mod client;
pub mod diagnostics;
pub mod interfaces;
mod links;
mod notation;
pub mod orphans;
mod passage;
mod programs;
mod schema;
mod serve;
pub mod stream;
pub mod unauthenticated;

pub use oxmpi_rt_proto::daemon::{Node, ProgramEnd};

pub use self::boot::{Boot, BootError, Wish, boot};
pub use self::client::{PATIENCE, Program, Running, Stdio, Universe, UniverseError};
pub use self::notation::{NotationError, ProcessLocation, is_notation, places};
pub use self::schema::{Host, SchemaError, hosts};
pub use self::serve::serve;
pub use self::stream::Stream;

fn socket_name(suffix: &str) -> String {
    let user = rustix::process::geteuid().as_raw();
    if suffix.is_empty() {
        format!("oxmpi-daemon-{user}")
    } else {
        format!("oxmpi-daemon-{user}-{suffix}")
    }
}

/// The longest suffix of a universe, in bytes: the kernel limits the length of addresses.
const MAX_SUFFIX: usize = 64;

/// Checks a suffix, which distinguishes several universes of one user.
pub fn check_suffix(suffix: &str) -> Result<(), String> {
    let is_word = suffix.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if is_word && suffix.len() <= MAX_SUFFIX {
        return Ok(());
    }
    Err(format!("'{suffix}' is not at most {MAX_SUFFIX} letters, digits, '-', '_' and '.'"))
}
