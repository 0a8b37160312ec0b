//! Names of sockets by which launchers of one user find each other, also where another user has taken them.
//!
//! An abstract name is whoever's binds it first, and everybody knows how these are made up. So a name that another user has
//! (SO_PEERCRED) says nothing about launchers of this one.
//!
//! 1. Whoever claims a name takes the name itself; if it is another user's, the name with a random word behind it, which
//!    nobody can have taken before.
//! 2. A claim holds if no other socket of this user has the name, in either form. That is looked at when one's own listens already, so of
//!    two who claim it at the same time one at least sees the other, and gives way.
//! 3. Whoever looks for a name connects to the name itself, and if no socket of this user has it, to those with a word behind it;
//!    /proc/net/unix lists them.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use oxmpi_sys::local::{self, PeerCredentials};
use oxmpi_sys::net;

use super::trusted;

/// Looks at a name to which too many have connected who were not accepted.
const LOOKS: u32 = 20;
const BETWEEN_LOOKS: Duration = Duration::from_millis(5);

/// Why a claim does not hold.
#[derive(Debug)]
pub(super) enum Refused {
    /// Another process of this user has the name.
    Taken,
    /// The kernel refuses something.
    Failed(io::Error),
}

/// Who has a name.
enum Holder {
    /// A process of this user, with a connection to it.
    Own(OwnedFd, PeerCredentials),
    /// Somebody who is not to be trusted, and why.
    Stranger(String),
    /// Nobody, or nobody who listens.
    Nobody,
}

/// Listens under a name, in one of its forms (rules 1 and 2).
pub(super) fn claim(name: &str) -> Result<OwnedFd, Refused> {
    let (listener, own) = match local::listen_as(name) {
        Ok(listener) => (listener, name.to_string()),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if matches!(holder(name, LOOKS).map_err(Refused::Failed)?, Holder::Own(..)) {
                return Err(Refused::Taken);
            }
            let mut word = [0; 8];
            net::fill_random(&mut word).map_err(Refused::Failed)?;
            let own = format!("{name}.{:016x}", u64::from_le_bytes(word));
            (local::listen_as(&own).map_err(Refused::Failed)?, own)
        }
        Err(error) => return Err(Refused::Failed(error)),
    };
    let longer = match longer(name) {
        Ok(longer) => longer,
        // Without the list there is no longer form, unless others can read it; then they see this one.
        Err(_) if own == name => BTreeSet::new(),
        Err(error) => return Err(Refused::Failed(error)),
    };
    for other in longer.iter().map(String::as_str).chain([name]).filter(|other| *other != own) {
        if let Ok(Holder::Own(..)) = holder(other, LOOKS) {
            return Err(Refused::Taken);
        }
    }
    Ok(listener)
}

/// Connects to the process of this user that has a name, in either form (rule 3).
///
/// # Errors
/// Why there is none, for a person.
pub(super) fn find(name: &str) -> Result<(OwnedFd, PeerCredentials), String> {
    let mut why = "its mpirun has ended".to_string();
    let mut ask = |name: &str, looks| match holder(name, looks) {
        Ok(Holder::Own(socket, peer)) => Some((socket, peer)),
        Ok(Holder::Nobody) => None,
        Ok(Holder::Stranger(stranger)) => {
            why = format!("its mpirun has ended, or is not to be trusted: {stranger}");
            None
        }
        Err(error) => {
            why = format!("its mpirun cannot be reached: {error}");
            None
        }
    };
    // Nobody waits for one who lets nobody in as long as there may be another.
    if let Some(found) = ask(name, 1) {
        return Ok(found);
    }
    let found = longer(name).unwrap_or_default().iter().find_map(|longer| ask(longer, LOOKS));
    found.or_else(|| ask(name, LOOKS)).ok_or(why)
}

/// Who has a name. One who lets nobody in is looked at so often.
fn holder(name: &str, mut looks: u32) -> io::Result<Holder> {
    loop {
        match local::connect(name) {
            Ok(socket) => {
                return Ok(match trusted(&socket) {
                    Ok(peer) => Holder::Own(socket, peer),
                    Err(why) => Holder::Stranger(why),
                });
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => return Ok(Holder::Nobody),
            // A launcher of this user would let in who waits.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                looks -= 1;
                if looks == 0 {
                    return Ok(Holder::Stranger("it lets nobody in".to_string()));
                }
                std::thread::sleep(BETWEEN_LOOKS);
            }
            Err(error) => return Err(error),
        }
    }
}

/// The names with a word behind this one.
fn longer(name: &str) -> io::Result<BTreeSet<String>> {
    let prefix = format!("@{name}.");
    let list = std::fs::read("/proc/net/unix")?;
    let list = String::from_utf8_lossy(&list);
    // An abstract name is the last word, with '@' in front.
    let names = list.lines().filter_map(|line| line.split_whitespace().nth(7));
    Ok(names.filter(|word| word.starts_with(&prefix)).map(|word| word[1..].to_string()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name that no launcher uses, with a socket that has it and does not listen: as good as another user's.
    fn squatted(what: &str) -> (String, OwnedFd) {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, socket};
        let name = format!("oxmpi-test-claim-{what}-{}", std::process::id());
        let squatter = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        bind(&squatter, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
        (name, squatter)
    }

    #[test]
    fn rules_1_and_2_a_name_has_one_holder_also_where_somebody_else_has_taken_it() {
        let (name, squatter) = squatted("one");
        let other = format!("{name}0");
        let first = claim(&name).unwrap();
        assert!(matches!(claim(&name), Err(Refused::Taken)));
        drop(squatter);
        assert!(matches!(claim(&name), Err(Refused::Taken)), "the holder of the longer form is seen");
        let free = claim(&other).unwrap();
        drop(first);
        let plain = claim(&name).unwrap();
        assert!(longer(&name).unwrap().is_empty());
        assert!(matches!(claim(&name), Err(Refused::Taken)));
        drop((plain, free));
    }

    #[test]
    fn rule_3_a_name_is_found_in_either_form() {
        let (name, squatter) = squatted("find");
        assert!(find(&name).is_err());
        let holder = claim(&name).unwrap();
        let (_, peer) = find(&name).unwrap();
        assert_eq!(peer.pid, std::process::id().cast_signed());
        drop((holder, squatter));
        assert!(find(&name).is_err());
        let _holder = claim(&name).unwrap();
        assert!(find(&name).is_ok());
    }
}
