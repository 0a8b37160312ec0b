//! Who meets at which port, and which names are published: what the launcher knows, as a state machine without a system
//! call (MPI-5.0 section 11.9 "Establishing Communication").
//!
//! 1. Who accepts or connects at a port where somebody of the other kind waits meets the one who has waited longest; else it
//!    waits itself, and gets a ticket. Whoever comes second is told who the first is, and tells the first by a message.
//! 2. Who has a ticket may ask what became of it, and may give it back as long as it has met nobody.
//! 3. With a process its ports, published names and tickets go, and nobody meets anybody any more at a port that is
//!    closed.

use std::collections::{HashMap, VecDeque};

/// Ports, tickets and names of one launcher.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    opened: u64,
    drawn: u32,
    ports: HashMap<String, Port>,
    /// Tickets that have met somebody: who has it, and whom it met.
    met: HashMap<u32, (u32, u32)>,
    names: HashMap<String, Published>,
}

#[derive(Debug)]
struct Port {
    owner: u32,
    /// All of one kind.
    waiting: VecDeque<Waiting>,
}

#[derive(Debug)]
struct Waiting {
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

/// What comes of going to a port.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Going {
    /// Nobody is there yet: this ticket waits.
    Waits(u32),
    /// Somebody is there, who has left these words.
    Meets(Vec<u8>),
}

/// What the name of a port says: `oxmpi:PLACE:UNIVERSE:SECRET:NUMBER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PortName {
    /// Names all jobs of the launcher that has opened it.
    pub(crate) universe: u64,
    /// That launcher's place among those of the user on this machine.
    pub(crate) place: u32,
}

impl PortName {
    /// With what the names of a launcher's ports begin; `word` nobody can guess.
    pub(crate) fn prefix(self, word: &str) -> String {
        format!("oxmpi:{}:{:016x}:{word}", self.place, self.universe)
    }

    /// What a name says, if it is one of a port.
    pub(crate) fn parse(name: &str) -> Option<PortName> {
        let mut words = name.strip_prefix("oxmpi:")?.split(':');
        let place = words.next()?.parse().ok()?;
        let universe = words.next().filter(|digits| digits.len() == 16)?;
        let universe = u64::from_str_radix(universe, 16).ok()?;
        (words.count() == 2).then_some(PortName { universe, place })
    }
}

/// What became of a ticket.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Ticket {
    /// It waits still.
    Waits,
    /// It has met this process, which says so itself.
    Met(u32),
}

impl Ports {
    /// Whether a port is open.
    pub(crate) fn is_any(&self) -> bool {
        !self.ports.is_empty()
    }

    /// Opens a port whose name begins with `prefix`.
    pub(crate) fn open(&mut self, owner: u32, prefix: &str) -> String {
        self.opened += 1;
        let name = format!("{prefix}:{}", self.opened);
        self.ports.insert(name.clone(), Port { owner, waiting: VecDeque::new() });
        name
    }

    /// Closes a port of this process.
    ///
    /// # Errors
    /// If it has no such port.
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

    /// Goes to a port, to accept or to connect (rule 1).
    ///
    /// # Errors
    /// If there is no such port.
    pub(crate) fn go(
        &mut self,
        process: u32,
        accepts: bool,
        name: &str,
        words: Vec<u8>,
    ) -> Result<Going, String> {
        let port = self.ports.get_mut(name).ok_or_else(|| unknown(name))?;
        if port.waiting.front().is_some_and(|first| first.accepts != accepts)
            && let Some(first) = port.waiting.pop_front()
        {
            self.met.insert(first.ticket, (first.process, process));
            return Ok(Going::Meets(first.words));
        }
        self.drawn = self.drawn.wrapping_add(1);
        port.waiting.push_back(Waiting { ticket: self.drawn, process, accepts, words });
        Ok(Going::Waits(self.drawn))
    }

    /// What became of a ticket of this process. If it waits and is given `back`, it does not any more (rule 2).
    ///
    /// # Errors
    /// If nobody can meet it any more.
    pub(crate) fn ask(&mut self, process: u32, ticket: u32, back: bool) -> Result<Ticket, String> {
        if let Some((owner, other)) = self.met.get(&ticket)
            && *owner == process
        {
            return Ok(Ticket::Met(*other));
        }
        for port in self.ports.values_mut() {
            if let Some(at) = port.waiting.iter().position(|w| (w.ticket, w.process) == (ticket, process)) {
                if back {
                    port.waiting.remove(at);
                }
                return Ok(Ticket::Waits);
            }
        }
        Err("the port was closed meanwhile, or its owner has ended".into())
    }

    /// Publishes a port under a name.
    ///
    /// # Errors
    /// If something is published there.
    pub(crate) fn publish(&mut self, owner: u32, service: &str, port: &str) -> Result<(), String> {
        if let Some(there) = self.names.get(service) {
            return Err(format!("'{service}' is published already, for port '{}'", there.port));
        }
        self.names.insert(service.into(), Published { port: port.into(), owner });
        Ok(())
    }

    /// Takes a published name back.
    ///
    /// # Errors
    /// If this port is not published there.
    pub(crate) fn unpublish(&mut self, service: &str, port: &str) -> Result<(), String> {
        match self.names.get(service) {
            Some(there) if there.port == port => {
                self.names.remove(service);
                Ok(())
            }
            Some(there) => Err(format!("'{service}' is published for port '{}', not '{port}'", there.port)),
            None => Err(format!("nothing is published as '{service}'")),
        }
    }

    /// The port that is published under a name.
    ///
    /// # Errors
    /// If there is none.
    pub(crate) fn look_up(&self, service: &str) -> Result<&str, String> {
        let there = self.names.get(service).ok_or_else(|| format!("nothing is published as '{service}'"))?;
        Ok(&there.port)
    }

    /// A process has ended (rule 3).
    pub(crate) fn ended(&mut self, process: u32) {
        self.ports.retain(|_, port| port.owner != process);
        self.ports.values_mut().for_each(|port| port.waiting.retain(|waiting| waiting.process != process));
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
    fn rule_1_who_comes_second_meets_who_has_waited_longest() {
        let mut ports = Ports::default();
        let port = ports.open(0, "p");
        assert_eq!(ports.go(1, false, &port, vec![1]), Ok(Going::Waits(1)));
        assert_eq!(ports.go(2, false, &port, vec![2]), Ok(Going::Waits(2)));
        assert_eq!(ports.go(0, true, &port, vec![9]), Ok(Going::Meets(vec![1])));
        assert_eq!((ports.ask(1, 1, true), ports.ask(2, 2, false)), (Ok(Ticket::Met(0)), Ok(Ticket::Waits)));
        assert!(ports.ask(2, 1, true).is_err(), "it is another's");
        assert!(ports.go(3, true, "q", vec![]).unwrap_err().contains("'q'"));
    }

    #[test]
    fn rule_2_a_ticket_that_was_given_back_meets_nobody() {
        let mut ports = Ports::default();
        let port = ports.open(0, "p");
        assert_eq!(ports.go(1, false, &port, vec![1]), Ok(Going::Waits(1)));
        assert_eq!(ports.ask(1, 1, true), Ok(Ticket::Waits));
        assert!(ports.ask(1, 1, true).is_err());
        assert_eq!(ports.go(0, true, &port, vec![9]), Ok(Going::Waits(2)));
    }

    #[test]
    fn rule_3_with_a_process_all_of_it_goes() {
        let mut ports = Ports::default();
        let port = ports.open(0, "p");
        assert_ne!(port, ports.open(0, "p"));
        ports.publish(0, "ocean", &port).unwrap();
        assert!(ports.publish(1, "ocean", "x").unwrap_err().contains("already"));
        assert_eq!(ports.look_up("ocean"), Ok(&*port));
        assert_eq!(ports.go(1, false, &port, vec![1]), Ok(Going::Waits(1)));
        assert!(ports.close(1, &port).is_err(), "it is not its own");
        ports.ended(0);
        assert!(ports.look_up("ocean").is_err() && ports.ask(1, 1, false).is_err());
        assert!(ports.close(0, &port).is_err());
    }

    #[test]
    fn the_name_of_a_port_says_where_it_is() {
        let name = PortName { universe: 0x1234, place: 77 };
        let port = Ports::default().open(0, &name.prefix("abcdef"));
        assert_eq!(PortName::parse(&port), Some(name));
        for bad in
            ["", "oxmpi:", "oxmpi:1:2:3:4", "oxmpi:x:0000000000001234:a:1", "oxmpi:7:0000000000001234:a"]
        {
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
