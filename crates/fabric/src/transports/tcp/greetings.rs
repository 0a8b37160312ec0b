//! Connections of processes that have not proved their identity (rule 7 of the module).

use super::SecretOf;
use super::greeting::{Acceptor, GreetingError, HELLO, Identity, PROOF, Secret, job_of};
use super::record::Point;
use super::settings::wants_encryption;
use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::net::Socket;
use oxmpi_wire::noise::Encryption;
use std::io;

/// Connections accepted in one poll.
pub(super) const AT_ONCE: usize = 16;
/// Places for unauthenticated processes, besides one for each process of the job.
const EXTRA_PLACES: usize = 32;

#[derive(Debug)]
struct Greeting {
    socket: Socket,
    got: Vec<u8>,
    acceptor: Option<Acceptor>,
    /// The Welcome could not be sent, so the initiator will send nothing more.
    cannot_answer: bool,
    takes_early: bool,
    number: u64,
}

#[derive(Debug)]
pub(super) enum GreetingEvent {
    Nothing,
    /// A message without effect; call again.
    More,
    /// An early record of this rank and incarnation; call again.
    Early((u32, u64), Vec<u8>),
    /// The peer is authenticated and has received up to this point; the greeting needs a verdict.
    Proof(Box<Acceptor>, Point),
}

#[derive(Debug)]
pub(super) struct Greetings {
    places: Vec<Option<Greeting>>,
    most: usize,
    next: u64,
}

impl Greetings {
    pub(super) fn new(processes: usize) -> Greetings {
        Greetings { places: Vec::new(), most: processes + EXTRA_PLACES, next: 0 }
    }

    /// Adds a connection. Without a free place, it replaces the oldest connection without a Hello,
    /// or else the oldest connection. No greeting ends by time: a process that computes reads its
    /// sockets late, and so does the peer that has connected to it.
    pub(super) fn add(&mut self, socket: Socket) -> (u64, Option<Socket>) {
        let number = self.next;
        self.next += 1;
        let got = Vec::new();
        let new = Greeting {
            socket,
            got,
            acceptor: None,
            cannot_answer: false,
            takes_early: false,
            number,
        };
        if let Some(place) = self.places.iter().position(Option::is_none) {
            self.places[place] = Some(new);
            return (place as u64, None);
        }
        if self.places.len() < self.most {
            self.places.push(Some(new));
            return (self.places.len() as u64 - 1, None);
        }
        let worst = (0..self.places.len()).min_by_key(|at| {
            self.places[*at].as_ref().map(|greeting| (greeting.acceptor.is_some(), greeting.number))
        });
        let place = worst.unwrap_or(0);
        let old = self.places[place].replace(new).map(|greeting| greeting.socket);
        (place as u64, old)
    }

    pub(super) fn socket(&self, place: u64) -> Option<&Socket> {
        Some(&self.places.get(place as usize)?.as_ref()?.socket)
    }

    pub(super) fn take(&mut self, place: u64) -> Option<Socket> {
        Some(self.places.get_mut(place as usize)?.take()?.socket)
    }

    pub(super) fn end(&mut self) -> Vec<Socket> {
        self.places.drain(..).flatten().map(|greeting| greeting.socket).collect()
    }

    /// After a restoration the connections do not exist any more ([`Socket::adopt`]).
    pub(super) fn adopt(&mut self) {
        self.places.iter_mut().flatten().for_each(|greeting| greeting.socket.adopt());
    }

    pub(super) fn drop_early(&mut self, place: u64) {
        if let Some(Some(greeting)) = self.places.get_mut(place as usize) {
            greeting.takes_early = false;
        }
    }

    /// Fails if the connection has ended, or the sender is no process of the job.
    pub(super) fn greeted(
        &mut self,
        place: u64,
        own: Identity,
        (secret, encrypt): (&Secret, Encryption),
        secret_of: &mut SecretOf,
    ) -> Result<GreetingEvent, GreetingError> {
        let Some(Some(greeting)) = self.places.get_mut(place as usize) else {
            return Ok(GreetingEvent::Nothing);
        };
        if !greeting.receive_message()? {
            return if greeting.cannot_answer {
                Err(GreetingError::NotGreeting)
            } else {
                Ok(GreetingEvent::Nothing)
            };
        }
        let Greeting { socket, got, acceptor, cannot_answer, takes_early, .. } = greeting;
        if let Some(known) = acceptor {
            if got.len() > PROOF {
                let record = known.early(got)?.to_vec();
                got.clear();
                return Ok(if *takes_early {
                    GreetingEvent::Early(known.from(), record)
                } else {
                    GreetingEvent::More
                });
            }
            let (Some(mut acceptor), Some(proof)) = (acceptor.take(), got.first_chunk::<PROOF>())
            else {
                return Ok(GreetingEvent::Nothing);
            };
            let point = acceptor.proved(proof)?;
            return Ok(GreetingEvent::Proof(Box::new(acceptor), point));
        }
        let Some(hello) = got.first_chunk::<HELLO>() else { return Ok(GreetingEvent::Nothing) };
        let mut nonce = [0; 32];
        oxmpi_sys::net::fill_random(&mut nonce).map_err(|_| GreetingError::NotGreeting)?;
        let job = job_of(hello);
        let other = if job == own.job {
            None
        } else {
            Some(secret_of(job).ok_or(GreetingError::WrongMac)?)
        };
        let secret = other.as_ref().unwrap_or(secret);
        let (new, welcome) =
            Acceptor::of_job(own, job, secret, hello, &nonce, wants_encryption(encrypt, socket))?;
        // Read before the answer, which ends the connection if the peer is dead.
        *takes_early = new.may_take_early() && socket.is_within_host();
        *cannot_answer = send_whole(socket, &welcome).is_err();
        got.clear();
        *acceptor = Some(new);
        Ok(GreetingEvent::More)
    }
}

impl Greeting {
    fn receive_message(&mut self) -> Result<bool, GreetingError> {
        let Greeting { socket, got, acceptor, .. } = self;
        let first = if acceptor.is_some() { PROOF } else { HELLO };
        let is_here = receive_up_to(socket, got, first).map_err(|_| GreetingError::NotGreeting)?;
        let Some(acceptor) = acceptor.as_ref().filter(|_| is_here) else { return Ok(is_here) };
        let whole = acceptor.next_length(got)?;
        receive_up_to(socket, got, whole).map_err(|_| GreetingError::NotGreeting)
    }
}

/// Receives until `got` has `whole` bytes. Returns whether it has. Fails at the end of the
/// connection.
pub(super) fn receive_up_to(socket: &Socket, got: &mut Vec<u8>, whole: usize) -> io::Result<bool> {
    while got.len() < whole {
        let have = got.len();
        got.resize(whole, 0);
        let read = socket.receive(&mut got[have..]);
        got.truncate(have + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the connection was closed",
                ));
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// The connection has room, as hardly anything was sent over it.
pub(super) fn send_whole(socket: &Socket, message: &[u8]) -> io::Result<()> {
    let sent = socket.send(&[Bytes::from(message)])?;
    if sent == message.len() {
        Ok(())
    } else {
        Err(io::Error::other("the connection takes no greeting"))
    }
}
