//! Ports and published names of a launcher: a state machine without system calls (MPI-5.0 section
//! 11.9 "Establishing Communication").
//!
//! 1. A process that accepts or connects at a port meets the process of the other kind that has
//!    waited there longest. If there is none, it waits and gets a ticket. The second process of a
//!    pair receives the first one's words, and contacts the first by a message.
//! 2. The holder of a ticket can query it, and can give it back until it has met a process.
//! 3. When a process ends, its ports, published names and tickets are removed. At a closed port
//!    nobody meets.

use std::collections::{HashMap, VecDeque};

#[derive(Debug, Default)]
pub(crate) struct Ports {
    opened: u64,
    drawn: u32,
    ports: HashMap<String, OpenPort>,
    /// By ticket: its holder and the process that it met.
    met: HashMap<u32, (u32, u32)>,
    names: HashMap<String, Published>,
}

#[derive(Debug)]
struct OpenPort {
    owner: u32,
    /// Either all accept or all connect.
    waiting: VecDeque<PortWaiter>,
}

#[derive(Debug)]
struct PortWaiter {
    ticket: u32,
    process: u32,
    accepts: bool,
    words: Vec<u8>,
}

#[derive(Debug)]
struct Published {
    port: String,
    owner: u32,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PortVisit {
    /// No process of the other kind waits yet: this ticket waits.
    Waits(u32),
    /// A process waits, which has left these words.
    Meets(Vec<u8>),
}

/// The contents of a port's name: `oxmpi:PLACE:UNIVERSE:SECRET:NUMBER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortName {
    /// Identifies all jobs of the launcher that has opened the port.
    pub(crate) universe: u64,
    /// The number of that launcher among the user's launchers on this machine.
    pub(crate) place: u32,
}

impl PortName {
    /// The beginning of the names of a launcher's ports. `word` is a secret, so that names cannot
    /// be guessed.
    pub(crate) fn prefix(self, word: &str) -> String {
        format!("oxmpi:{}:{:016x}:{word}", self.place, self.universe)
    }

    pub(crate) fn parse(name: &str) -> Option<PortName> {
        let mut words = name.strip_prefix("oxmpi:")?.split(':');
        let place = words.next()?.parse().ok()?;
        let universe = words.next().filter(|digits| digits.len() == 16)?;
        let universe = u64::from_str_radix(universe, 16).ok()?;
        (words.count() == 2).then_some(PortName { universe, place })
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ticket {
    Waits,
    /// The ticket has met this process, which sends a message itself.
    Met(u32),
}

impl Ports {
    pub(crate) fn is_any(&self) -> bool {
        !self.ports.is_empty()
    }

    /// Opens a port whose name begins with `prefix`.
    pub(crate) fn open(&mut self, owner: u32, prefix: &str) -> String {
        self.opened += 1;
        let name = format!("{prefix}:{}", self.opened);
        self.ports.insert(name.clone(), OpenPort { owner, waiting: VecDeque::new() });
        name
    }

    /// Closes a port of this process; an error if it has no such port.
    pub(crate) fn close(&mut self, owner: u32, name: &str) -> Result<(), String> {
        match self.ports.get(name) {
            Some(port) if port.owner == owner => {
                self.ports.remove(name);
                Ok(())
            }
            Some(_) => Err(format!("the port '{name}' was opened by another process")),
            None => Err(unknown(name)),
        }
    }

    /// Accepts or connects at a port (rule 1).
    pub(crate) fn go(
        &mut self,
        process: u32,
        accepts: bool,
        name: &str,
        words: Vec<u8>,
    ) -> Result<PortVisit, String> {
        let port = self.ports.get_mut(name).ok_or_else(|| unknown(name))?;
        if port.waiting.front().is_some_and(|first| first.accepts != accepts)
            && let Some(first) = port.waiting.pop_front()
        {
            self.met.insert(first.ticket, (first.process, process));
            return Ok(PortVisit::Meets(first.words));
        }
        self.drawn = self.drawn.wrapping_add(1);
        port.waiting.push_back(PortWaiter { ticket: self.drawn, process, accepts, words });
        Ok(PortVisit::Waits(self.drawn))
    }

    /// The state of a ticket of this process; with `back` a waiting ticket is given back (rule 2).
    /// An error if nobody can meet it any more.
    pub(crate) fn query(
        &mut self,
        process: u32,
        ticket: u32,
        back: bool,
    ) -> Result<Ticket, String> {
        if let Some((owner, other)) = self.met.get(&ticket)
            && *owner == process
        {
            return Ok(Ticket::Met(*other));
        }
        for port in self.ports.values_mut() {
            if let Some(at) =
                port.waiting.iter().position(|w| (w.ticket, w.process) == (ticket, process))
            {
                if back {
                    port.waiting.remove(at);
                }
                return Ok(Ticket::Waits);
            }
        }
        Err("the port was closed meanwhile, or its owner has ended".into())
    }

    /// Publishes a port under a name; an error if the name is in use.
    pub(crate) fn publish(&mut self, owner: u32, service: &str, port: &str) -> Result<(), String> {
        if let Some(there) = self.names.get(service) {
            return Err(format!("'{service}' is published already, for port '{}'", there.port));
        }
        self.names.insert(service.into(), Published { port: port.into(), owner });
        Ok(())
    }

    /// Takes a published name back; an error if this port is not published under it.
    pub(crate) fn unpublish(&mut self, service: &str, port: &str) -> Result<(), String> {
        match self.names.get(service) {
            Some(there) if there.port == port => {
                self.names.remove(service);
                Ok(())
            }
            Some(there) => {
                Err(format!("'{service}' is published for port '{}', not '{port}'", there.port))
            }
            None => Err(format!("nothing is published as '{service}'")),
        }
    }

    pub(crate) fn look_up(&self, service: &str) -> Result<&str, String> {
        let there = self
            .names
            .get(service)
            .ok_or_else(|| format!("nothing is published as '{service}'"))?;
        Ok(&there.port)
    }

    /// Removes all that belongs to a process that has ended (rule 3).
    pub(crate) fn ended(&mut self, process: u32) {
        self.ports.retain(|_, port| port.owner != process);
        self.ports
            .values_mut()
            .for_each(|port| port.waiting.retain(|waiting| waiting.process != process));
        self.names.retain(|_, name| name.owner != process);
        self.met.retain(|_, (owner, _)| *owner != process);
    }
}

fn unknown(name: &str) -> String {
    format!("there is no port '{name}', or it was closed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rule_1_the_second_process_meets_the_one_that_has_waited_longest() {
        let mut ports = Ports::default();
        let port = ports.open(0, "p");
        assert_eq!(ports.go(1, false, &port, vec![1]), Ok(PortVisit::Waits(1)));
        assert_eq!(ports.go(2, false, &port, vec![2]), Ok(PortVisit::Waits(2)));
        assert_eq!(ports.go(0, true, &port, vec![9]), Ok(PortVisit::Meets(vec![1])));
        assert_eq!(
            (ports.query(1, 1, true), ports.query(2, 2, false)),
            (Ok(Ticket::Met(0)), Ok(Ticket::Waits))
        );
        assert!(ports.query(2, 1, true).is_err(), "it is another's");
        assert!(ports.go(3, true, "q", vec![]).unwrap_err().contains("'q'"));
    }

    #[test]
    fn rule_2_a_ticket_that_was_given_back_meets_nobody() {
        let mut ports = Ports::default();
        let port = ports.open(0, "p");
        assert_eq!(ports.go(1, false, &port, vec![1]), Ok(PortVisit::Waits(1)));
        assert_eq!(ports.query(1, 1, true), Ok(Ticket::Waits));
        assert!(ports.query(1, 1, true).is_err());
        assert_eq!(ports.go(0, true, &port, vec![9]), Ok(PortVisit::Waits(2)));
    }

    #[test]
    fn rule_3_a_process_that_ends_takes_its_ports_names_and_tickets_along() {
        let mut ports = Ports::default();
        let port = ports.open(0, "p");
        assert_ne!(port, ports.open(0, "p"));
        ports.publish(0, "ocean", &port).unwrap();
        assert!(ports.publish(1, "ocean", "x").unwrap_err().contains("already"));
        assert_eq!(ports.look_up("ocean"), Ok(&*port));
        assert_eq!(ports.go(1, false, &port, vec![1]), Ok(PortVisit::Waits(1)));
        assert!(ports.close(1, &port).is_err(), "it is not its own");
        ports.ended(0);
        assert!(ports.look_up("ocean").is_err() && ports.query(1, 1, false).is_err());
        assert!(ports.close(0, &port).is_err());
    }

    #[test]
    fn the_name_of_a_port_says_where_it_is() {
        let name = PortName { universe: 0x1234, place: 77 };
        let port = Ports::default().open(0, &name.prefix("abcdef"));
        assert_eq!(PortName::parse(&port), Some(name));
        for bad in [
            "",
            "oxmpi:",
            "oxmpi:1:2:3:4",
            "oxmpi:x:0000000000001234:a:1",
            "oxmpi:7:0000000000001234:a",
        ] {
            assert_eq!(PortName::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn a_name_is_taken_back_with_its_port() {
        let mut ports = Ports::default();
        ports.publish(0, "s", "p").unwrap();
        assert!(ports.unpublish("s", "q").is_err() && ports.unpublish("t", "p").is_err());
        ports.unpublish("s", "p").unwrap();
        assert!(ports.look_up("s").is_err());
    }
}
