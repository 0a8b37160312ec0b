//! The addresses of node 0, by its name. A resolver can block for long, so a thread calls it.

use std::net::{IpAddr, ToSocketAddrs};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

/// The time after which Slurm's controller is queried, if node 0 was not reached at the addresses
/// of its name. The queries of all nodes are a load for the controller.
const PAUSE: Duration = Duration::from_secs(2);
/// The limit for `scontrol`.
const QUERY: Duration = Duration::from_secs(10);

/// A result of the thread.
#[derive(Debug)]
pub(super) enum LookupResult {
    Addresses(Vec<IpAddr>),
    /// The text follows the name of the node.
    Failed(String),
}

/// The thread, which ends some time after this value.
#[derive(Debug)]
pub(super) struct Lookup {
    pub(super) results: Receiver<LookupResult>,
    _stop: Sender<()>,
}

impl Lookup {
    /// `known`: an address of the node by Slurm's variables.
    pub(super) fn start(name: &str, known: Option<&str>) -> std::io::Result<Lookup> {
        let (sender, results) = channel();
        let (stop, stopped) = channel();
        let (name, known) = (name.to_string(), known.map(String::from));
        thread::Builder::new()
            .name("oxmpi-lookup".into())
            .spawn(move || search(&name, known.as_deref(), &sender, &stopped))?;
        Ok(Lookup { results, _stop: stop })
    }
}

fn search(name: &str, known: Option<&str>, to: &Sender<LookupResult>, stopped: &Receiver<()>) {
    let mut has_found = false;
    for name in known.into_iter().chain([name]) {
        let result = resolve(name);
        has_found |= matches!(result, LookupResult::Addresses(_));
        // Fails only if nobody waits any more, which the next wait notices.
        let _ = to.send(result);
    }
    let pause = if has_found { PAUSE } else { Duration::ZERO };
    if stopped.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
        return;
    }
    match node_addresses(name) {
        Ok(names) => names.iter().for_each(|name| _ = to.send(resolve(name))),
        Err(why) => _ = to.send(LookupResult::Failed(why)),
    }
}

fn resolve(name: &str) -> LookupResult {
    match (name, 0).to_socket_addrs() {
        Ok(found) => LookupResult::Addresses(found.map(|address| address.ip()).collect()),
        Err(error) => LookupResult::Failed(format!("'{name}' has no address ({error})")),
    }
}

/// The names and addresses of a node by Slurm's controller.
fn node_addresses(name: &str) -> Result<Vec<String>, String> {
    let failed = |why: String| format!("scontrol show node {name}: {why}");
    let mut command = Command::new("scontrol");
    command.args(["--oneliner", "show", "node", name]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| failed(error.to_string()))?;
    let end = Instant::now() + QUERY;
    // The output of one node fits the pipe, so the command ends without a reader.
    while !matches!(child.try_wait(), Ok(Some(_))) {
        if Instant::now() >= end {
            let _ = child.kill();
            let _ = child.wait();
            return Err(failed(format!("no answer within {} s", QUERY.as_secs())));
        }
        thread::sleep(Duration::from_millis(20));
    }
    let output = child.wait_with_output().map_err(|error| failed(error.to_string()))?;
    let found = addresses_in(&String::from_utf8_lossy(&output.stdout));
    if found.is_empty() { Err(failed("no NodeAddr".into())) } else { Ok(found) }
}

/// The values of NodeAddr and NodeHostName in the output of `scontrol show node`.
fn addresses_in(output: &str) -> Vec<String> {
    let mut found = Vec::new();
    for key in ["NodeAddr=", "NodeHostName="] {
        let values = output.split_whitespace().filter_map(|word| word.strip_prefix(key));
        found.extend(values.filter(|value| !value.is_empty()).map(String::from));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_found_in_the_output_of_scontrol() {
        let output = "NodeName=nodea Arch=x86_64 NodeAddr=10.77.0.1 NodeHostName=host1 Port=0";
        assert_eq!(addresses_in(output), ["10.77.0.1", "host1"]);
        assert_eq!(addresses_in("Node nodez not found NodeAddr= x"), [""; 0]);
    }

    #[test]
    fn a_name_that_is_an_address_is_found_and_the_known_address_comes_first() {
        let lookup = Lookup::start("127.0.0.2", Some("127.0.0.1")).unwrap();
        for wanted in ["127.0.0.1", "127.0.0.2"] {
            let result = lookup.results.recv_timeout(Duration::from_secs(20)).unwrap();
            let LookupResult::Addresses(found) = result else { panic!("{result:?}") };
            assert_eq!(found, [wanted.parse::<IpAddr>().unwrap()]);
        }
    }
}
