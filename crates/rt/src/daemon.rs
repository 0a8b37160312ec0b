//! The user's daemons, one on each node: `oxmpi boot` starts them, `oxmpi halt` ends them, and what they have in common is a
//! *universe*. They do one thing for others: run a program on a node, with sockets as its standard streams.
//!
//! - On its own host a daemon is found under a name that only processes of the same network namespace can see (unix(7), abstract
//!   addresses), and which contains the user's number; both sides ask the kernel who the other is.
//! - From other hosts it is reached over TCP by who has the universe's secret; everything there is encrypted and authenticated
//!   (`channel.rs`). The secret travels through the agent (ssh) that starts a daemon, and from a daemon to programs of the same user
//!   on its own host; never over TCP.
//! - A connection is for one thing: to ask, to become a stream of a program, or to be the link between two daemons. Daemons keep
//!   a link with each other, so each sees when another ends. A local socket becomes the stream itself; what comes over TCP the daemon
//!   passes on (`passage.rs`).
//! - The programs that a daemon has started end with it, and with the connection over which they were asked for, also when nothing
//!   gets through to the other host for so long as who has asked says.
//!
//! | module | what it is |
//! |---|---|
//! | `schema` | the file that names the hosts |
//! | `notation` | `n0-3`, `c1`, `N`, `C`: which nodes and processors |
//! | `message`, `channel` | what is said, and how: pure |
//! | `boot`, `agent` | starting all daemons, or none |
//! | `serve`, `programs`, `passage`, `links` | a daemon |
//! | `client` | what the user's programs ask: [`Universe`] |

mod agent;
mod boot;
pub(crate) mod channel;
mod client;
mod links;
pub(crate) mod message;
mod notation;
mod passage;
mod programs;
mod schema;
mod serve;

use std::net::SocketAddr;

pub use self::boot::{Boot, BootError, Wish, boot};
pub use self::client::{PATIENCE, Program, Running, Stdio, Universe, UniverseError};
pub use self::notation::{NotationError, Place, is_notation, places};
pub use self::schema::{Host, SchemaError, hosts};
pub use self::serve::serve;
pub use crate::hosts::stream::Stream;

/// A node of a universe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// Its host's name, as the user has written it.
    pub name: String,
    /// Processors to run ranks on.
    pub cpus: u32,
    /// Whether `N` and `C` mean it too.
    pub is_scheduled: bool,
    /// Whether `oxmpi boot` ran here.
    pub is_origin: bool,
    /// Where its daemon listens for the others; nowhere if there are none.
    pub addresses: Vec<SocketAddr>,
}

/// How a program has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}

impl Ended {
    /// The code as a shell shows it: 128 and the number of the signal.
    pub fn code(self) -> i32 {
        match self {
            Ended::Exited(code) => code,
            Ended::Killed(signal) => 128 + signal,
        }
    }
}

/// The name under which a daemon of this user is found on its host.
fn socket_name(suffix: &str) -> String {
    let user = rustix::process::geteuid().as_raw();
    if suffix.is_empty() { format!("oxmpi-daemon-{user}") } else { format!("oxmpi-daemon-{user}-{suffix}") }
}

/// The longest word that tells universes apart, bytes: names of sockets are limited.
const MAX_SUFFIX: usize = 64;

/// Whether a word can tell universes of one user apart.
///
/// # Errors
/// Why not.
pub fn check_suffix(suffix: &str) -> Result<(), String> {
    let is_word = suffix.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
    if is_word && suffix.len() <= MAX_SUFFIX {
        return Ok(());
    }
    Err(format!("'{suffix}' is not at most {MAX_SUFFIX} letters, digits, '-', '_' and '.'"))
}
