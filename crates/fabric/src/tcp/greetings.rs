//! Those who have connected and have not proved who they are (rule 7 of the module).

use super::SecretOf;
use super::greeting::{Acceptor, GreetingError, HELLO, Identity, PROOF, Secret, job_of};
use super::record::Point;
use super::settings::wants_encryption;
use oxmpi_os::bytes::Bytes;
use oxmpi_os::net::Socket;
use oxmpi_wire::noise::Encryption;
use std::io;

/// Connections accepted in one look.
pub(super) const AT_ONCE: usize = 16;
/// Places for strangers, beside one for each process of the job.
const STRANGERS: usize = 32;

/// Somebody who has connected.
#[derive(Debug)]
struct Greeting {
    socket: Socket,
    got: Vec<u8>,
    acceptor: Option<Acceptor>,
    /// Its place in the order in which they came.
    number: u64,
}

/// All of them; each has a place.
#[derive(Debug)]
pub(super) struct Greetings {
    places: Vec<Option<Greeting>>,
    most: usize,
    next: u64,
}

impl Greetings {
    pub(super) fn new(processes: usize) -> Greetings {
        Greetings { places: Vec::new(), most: processes + STRANGERS, next: 0 }
    }

    /// Gives somebody a place. If there is none, the oldest of those who have not even said Hello loses its own, or else
    /// the oldest of all. Nobody loses it by time alone: a process that computes looks at its sockets when it likes, and
    /// so does the peer that has connected to it.
    pub(super) fn add(&mut self, socket: Socket) -> (u64, Option<Socket>) {
        let number = self.next;
        self.next += 1;
        let new = Greeting { socket, got: Vec::new(), acceptor: None, number };
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

    /// Takes somebody away.
    pub(super) fn take(&mut self, place: u64) -> Option<Socket> {
        Some(self.places.get_mut(place as usize)?.take()?.socket)
    }

    /// Takes all of them away.
    pub(super) fn end(&mut self) -> Vec<Socket> {
        self.places.drain(..).flatten().map(|greeting| greeting.socket).collect()
    }

    /// Reads what somebody says. When it has proved who it is: the greeting, to be ended by a verdict, and what the peer
    /// has received.
    ///
    /// # Errors
    /// If it is nobody of the job, or gone.
    pub(super) fn greeted(
        &mut self,
        place: u64,
        own: Identity,
        (secret, encrypt): (&Secret, Encryption),
        secret_of: &mut SecretOf,
    ) -> Result<Option<(Acceptor, Point)>, GreetingError> {
        let Some(Some(greeting)) = self.places.get_mut(place as usize) else { return Ok(None) };
        let Greeting { socket, got, acceptor, .. } = greeting;
        let whole = if acceptor.is_some() { PROOF } else { HELLO };
        if !receive_up_to(socket, got, whole).map_err(|_| GreetingError::NotGreeting)? {
            return Ok(None);
        }
        if let Some(mut acceptor) = acceptor.take() {
            let Some(proof) = got.first_chunk::<PROOF>() else { return Ok(None) };
            let point = acceptor.proved(proof)?;
            return Ok(Some((acceptor, point)));
        }
        let Some(hello) = got.first_chunk::<HELLO>() else { return Ok(None) };
        let mut nonce = [0; 32];
        oxmpi_os::net::fill_random(&mut nonce).map_err(|_| GreetingError::NotGreeting)?;
        let job = job_of(hello);
        let other = if job == own.job { None } else { Some(secret_of(job).ok_or(GreetingError::Stranger)?) };
        let secret = other.as_ref().unwrap_or(secret);
        let (new, welcome) =
            Acceptor::of_job(own, job, secret, hello, &nonce, wants_encryption(encrypt, socket))?;
        send_whole(socket, &welcome).map_err(|_| GreetingError::NotGreeting)?;
        got.clear();
        *acceptor = Some(new);
        Ok(None)
    }
}

/// Receives until `got` has `whole` bytes, not more. Whether it has.
///
/// # Errors
/// If nothing more can come.
pub(super) fn receive_up_to(socket: &Socket, got: &mut Vec<u8>, whole: usize) -> io::Result<bool> {
    while got.len() < whole {
        let have = got.len();
        got.resize(whole, 0);
        let read = socket.receive(&mut got[have..]);
        got.truncate(have + *read.as_ref().unwrap_or(&0));
        match read {
            Ok(0) => return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed")),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// Sends a short message on a connection that has sent next to nothing: it fits.
///
/// # Errors
/// If the connection is gone.
pub(super) fn send_whole(socket: &Socket, message: &[u8]) -> io::Result<()> {
    let sent = socket.send(&[Bytes::from(message)])?;
    if sent == message.len() { Ok(()) } else { Err(io::Error::other("the connection takes no greeting")) }
}
