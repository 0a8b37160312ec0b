//! Abstract names by which launchers of one user find each other, even where another user has taken
//! such a name.
//!
//! An abstract name belongs to the first process that binds it, and anyone can construct these
//! names. So a name that another user's process has (SO_PEERCRED) says nothing about this user's
//! launchers.
//!
//! 1. A launcher claims the name itself, or, if another user has it, the name with a random suffix,
//!    which nobody can have taken before.
//! 2. A claim holds if no other socket of this user has the name, in either form. This is checked
//!    after the own listener exists, so of two launchers that claim a name at the same time at
//!    least one sees the other, and withdraws.
//! 3. A search connects to the name itself, and if no socket of this user has it, to the names with
//!    a suffix, which /proc/net/unix lists.

use std::collections::BTreeSet;
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

use oxmpi_sys::local::{self, PeerCredentials};
use oxmpi_sys::net;

use super::trusted;

/// The most attempts to connect to a name whose accept queue is full.
const ATTEMPTS: u32 = 20;
const BETWEEN_ATTEMPTS: Duration = Duration::from_millis(5);

#[derive(Debug)]
pub(super) enum Refused {
    Taken,
    Failed(io::Error),
}

enum Holder {
    /// A process of this user, and a connection to it.
    Own(OwnedFd, PeerCredentials),
    /// A process that cannot be trusted, and why.
    Untrusted(String),
    Nobody,
}

/// Listens under a name, in one of its forms (rules 1 and 2).
pub(super) fn claim(name: &str) -> Result<OwnedFd, Refused> {
    let (listener, own) = match local::listen_as(name) {
        Ok(listener) => (listener, name.to_string()),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            if matches!(holder(name, ATTEMPTS).map_err(Refused::Failed)?, Holder::Own(..)) {
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
        // Without the list there is no longer form, unless another process can read it, which then
        // sees this claim.
        Err(_) if own == name => BTreeSet::new(),
        Err(error) => return Err(Refused::Failed(error)),
    };
    for other in longer.iter().map(String::as_str).chain([name]).filter(|other| *other != own) {
        if let Ok(Holder::Own(..)) = holder(other, ATTEMPTS) {
            return Err(Refused::Taken);
        }
    }
    Ok(listener)
}

/// Connects to the process of this user that has a name, in either form (rule 3). The error is for
/// the user.
pub(super) fn find(name: &str) -> Result<(OwnedFd, PeerCredentials), String> {
    let mut why = "its mpirun has ended".to_string();
    let mut query = |name: &str, attempts| match holder(name, attempts) {
        Ok(Holder::Own(socket, peer)) => Some((socket, peer)),
        Ok(Holder::Nobody) => None,
        Ok(Holder::Untrusted(untrusted)) => {
            why = format!("its mpirun has ended, or is not to be trusted: {untrusted}");
            None
        }
        Err(error) => {
            why = format!("its mpirun cannot be reached: {error}");
            None
        }
    };
    // First one attempt each, as a full queue may be another user's.
    if let Some(found) = query(name, 1) {
        return Ok(found);
    }
    let found = longer(name).unwrap_or_default().iter().find_map(|longer| query(longer, ATTEMPTS));
    found.or_else(|| query(name, ATTEMPTS)).ok_or(why)
}

/// The holder of a name, after at most `attempts` attempts while its accept queue is full.
fn holder(name: &str, mut attempts: u32) -> io::Result<Holder> {
    loop {
        match local::connect(name) {
            Ok(socket) => {
                return Ok(match trusted(&socket) {
                    Ok(peer) => Holder::Own(socket, peer),
                    Err(why) => Holder::Untrusted(why),
                });
            }
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                return Ok(Holder::Nobody);
            }
            // A launcher of this user accepts all connections soon.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                attempts -= 1;
                if attempts == 0 {
                    return Ok(Holder::Untrusted("it accepts no connections".to_string()));
                }
                std::thread::sleep(BETWEEN_ATTEMPTS);
            }
            Err(error) => return Err(error),
        }
    }
}

/// The names with a suffix to this one.
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

    /// A name that no launcher uses, held by a socket that does not listen, as another user's
    /// might.
    fn squatted(what: &str) -> (String, OwnedFd) {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, socket};
        let name = format!("oxmpi-test-claim-{what}-{}", std::process::id());
        let squatter = socket(AddressFamily::UNIX, SocketType::SEQPACKET, None).unwrap();
        bind(&squatter, &SocketAddrUnix::new_abstract_name(name.as_bytes()).unwrap()).unwrap();
        (name, squatter)
    }

    #[test]
    fn rules_1_and_2_a_name_has_one_holder_even_if_another_user_has_taken_it() {
        let (name, squatter) = squatted("one");
        let other = format!("{name}0");
        let first = claim(&name).unwrap();
        assert!(matches!(claim(&name), Err(Refused::Taken)));
        drop(squatter);
        assert!(
            matches!(claim(&name), Err(Refused::Taken)),
            "the holder of the longer form is seen"
        );
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
