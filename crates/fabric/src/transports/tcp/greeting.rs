//! The greeting: before either of two processes accepts data, each proves to the other that it
//! belongs to the job.
//!
//! They share a secret of 32 random bytes. Each message ends with a MAC: keyed BLAKE3 over a label
//! that names the message, all earlier messages of the greeting, and the message itself. So a
//! message is valid only for its role, connection, job, pair of ranks and incarnation.
//!
//! ```text
//! initiator                                   acceptor
//!   Hello    identity, peer, nonce      ->                         closes if the MAC is wrong
//!   early records, if any               ->
//!            closes if the MAC is wrong <-      Welcome  its nonce
//!   Proof    its received point         ->                         closes if the MAC is wrong
//!                                       <-      Verdict  accepted or not, its received point
//!   records                            <->      records
//! ```
//!
//! Hello and Welcome also carry the two messages of a Noise handshake (`oxmpi_wire::noise`), so the
//! keys of the records cost no further round trip.
//!
//! Rules
//! 1. A Hello can be a recording, so its only effect is that the acceptor waits longer (for early
//!    records see rule 9). The Proof answers a nonce of the acceptor, so it is new.
//! 2. The initiator closes its older connection before it states its received point in the Proof.
//!    The acceptor closes its older connection when it has the Proof, and then states its received
//!    point. So neither receives anything from an older connection after it has stated its point.
//! 3. Crossing attempts: a process may get a Proof during an attempt of its own. If the initiator's
//!    rank is lower, the process accepts the Proof and abandons its own attempt; otherwise it
//!    refuses. Processes of different launchers number ranks differently: of two such processes,
//!    the one whose job has the lower number counts as lower.
//! 4. A process refuses an older incarnation than the known one.
//! 5. Between processes of different launchers, the ranks are those of the acceptor's launcher, and
//!    the secret is one that the acceptor's launcher has given to the initiator's launcher. The
//!    Hello has the initiator's job, by which the acceptor finds the secret.
//! 6. Records are encrypted if one side wants encryption. Hello and Welcome state that under their
//!    MACs, so nobody between the two can change it. The initiator's keys are new for each
//!    connection, and its identity is the prologue of the handshake.
//! 7. Between Hello and Proof the initiator may send *early records* (`early.rs`), so that an eager
//!    message leaves while the acceptor's process computes. The conditions are: it has sent nothing
//!    to the peer but early records of this connection; no connection with the peer was ever used;
//!    both belong to one launcher and, by their addresses, to one host; the initiator wants no
//!    encryption; and all early records have at most [`EARLY_BYTES`](super::EARLY_BYTES) together.
//!    If the kernel does not take one whole, the connection is abandoned.
//! 8. Early records are ordinary records of the link: numbered from its beginning, and retained
//!    until they are acknowledged. The acceptor's received point counts the early records that it
//!    has delivered. Until the first connection with the peer is used, it delivers the next record
//!    of the link. It drops all others, which are sent again by rule 2. A record that it delivers
//!    after it has stated its received point in a Proof of its own comes again on that connection,
//!    and is skipped there.
//! 9. Early records answer no nonce of the acceptor. Each has a MAC with the secret over the Hello
//!    and its index, so a process without the secret cannot make, change, mix or reorder them. A
//!    process that can record a connection within a host has the rights of root or of this user,
//!    and so the secret. A replay delivers nothing to a process that has received anything of that
//!    rank, has used a connection with it, knows another incarnation of it, or belongs to a later
//!    generation of the job. (So the first messages of a process that a later generation has
//!    spawned wait for the greeting.)
//! 10. The sender learns only at the end of the greeting which early records the acceptor has
//!     delivered. An acceptor waits for that before it ends, rests or gives up the last
//!     communicator with the sender.

use super::early::{Early, KIND_EARLY};
use super::record::{ALIGNMENT, Point};
use crate::peer_segments::ForeignProcess;
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::noise::{Cipher, HANDSHAKE, Handshake, NoiseError};
use oxmpi_wire::{MAC, Transcript, WrongMac};

pub use oxmpi_wire::{Nonce, Secret};

/// The identity of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pub job: u64,
    pub rank: u32,
    /// The number of processes that may connect at a time before others have connected.
    pub size: u32,
    /// The number of starts of this rank: a newer incarnation replaces an older one.
    pub incarnation: u64,
}

/// The reason why a greeting ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GreetingError {
    #[error("its greeting is not of this version of OxMPI")]
    NotGreeting,
    #[error("it does not know the secret of the job")]
    WrongMac,
    #[error("its greeting names another process of the job")]
    Elsewhere,
    #[error("it has refused the connection")]
    Refused,
    /// This side wants encryption, and the acceptor answers without (rule 6).
    #[error("it has answered without encryption, which parameter 'mpi_encrypt' requires")]
    Plain,
    #[error(transparent)]
    Keys(#[from] NoiseError),
}

impl From<WrongMac> for GreetingError {
    fn from(_: WrongMac) -> GreetingError {
        GreetingError::WrongMac
    }
}

// All lengths are multiples of `ALIGNMENT`, so the records behind them are aligned.
pub const HELLO: usize = 160 + MAC;
pub const WELCOME: usize = 160 + MAC;
pub const PROOF: usize = 32 + MAC;
pub const VERDICT: usize = 32 + MAC;

const ROOM: usize = HELLO + WELCOME + PROOF + VERDICT;
const _: () = assert!((HELLO | WELCOME | PROOF | VERDICT).is_multiple_of(ALIGNMENT));
const MAGIC: [u8; 8] = *b"OxMPItcp";
const VERSION: u8 = 6;

/// The offset of the encryption flag; the message of the handshake follows it.
const HELLO_ENCRYPT: usize = 72;
const WELCOME_ENCRYPT: usize = 56;
const FLAG: usize = 8;
const _: () = assert!(HELLO_ENCRYPT + FLAG + HANDSHAKE <= HELLO - MAC);
const _: () = assert!(WELCOME_ENCRYPT + FLAG + HANDSHAKE <= WELCOME - MAC);

struct Writer(Vec<u8>);

impl Writer {
    fn new(kind: u8) -> Writer {
        let mut bytes = MAGIC.to_vec();
        bytes.extend([VERSION, kind, 0, 0, 0, 0, 0, 0]);
        Writer(bytes)
    }

    fn u32(mut self, value: u32) -> Writer {
        self.0.extend(value.to_le_bytes());
        self
    }

    fn u64(mut self, value: u64) -> Writer {
        self.0.extend(value.to_le_bytes());
        self
    }
}

/// Reads a message; missing bytes read as zero.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn array<const N: usize>(&mut self) -> [u8; N] {
        let (now, rest) = self.0.split_at(self.0.len().min(N));
        self.0 = rest;
        let mut out = [0; N];
        out[..now.len()].copy_from_slice(now);
        out
    }

    fn u32(&mut self) -> u32 {
        u32::from_le_bytes(self.array())
    }

    fn u64(&mut self) -> u64 {
        u64::from_le_bytes(self.array())
    }
}

// The kinds of messages, and the labels of their MACs.
const KIND_HELLO: u8 = 1;
const KIND_WELCOME: u8 = 2;
const KIND_PROOF: u8 = 3;
const KIND_VERDICT: u8 = 4;

/// The side that has connected.
#[derive(Debug)]
pub struct Initiator {
    /// The job, the peer and this process: the Welcome must state the same.
    expected: (u64, u32, u32),
    transcript: Transcript,
    encrypt: bool,
    handshake: Option<Box<Handshake>>,
    /// Set after the Welcome if records are encrypted.
    cipher: Option<Box<Cipher>>,
    /// Set before the Welcome if early records are allowed.
    early: Option<Early>,
}

impl Initiator {
    /// Returns also the Hello. `encrypt`: this side wants encryption.
    pub fn new(
        own: Identity,
        to: u32,
        secret: &Secret,
        nonce: &Nonce,
        encrypt: bool,
    ) -> Result<(Initiator, [u8; HELLO]), GreetingError> {
        let there = ForeignProcess { job: own.job, number: to, known_as: own.rank };
        Initiator::to_foreign(own, there, secret, nonce, encrypt)
    }

    /// Begins a greeting with a process of another launcher.
    pub fn to_foreign(
        own: Identity,
        ForeignProcess { job, number, known_as }: ForeignProcess,
        secret: &Secret,
        nonce: &Nonce,
        encrypt: bool,
    ) -> Result<(Initiator, [u8; HELLO]), GreetingError> {
        let mut transcript = Transcript::new(secret, ROOM);
        let mut hello =
            Writer::new(KIND_HELLO).u64(own.job).u32(known_as).u32(number).u64(own.incarnation).0;
        hello.extend(nonce);
        debug_assert_eq!(hello.len(), HELLO_ENCRYPT);
        hello.extend(u64::from(encrypt).to_le_bytes());
        let (handshake, message) = Handshake::initiator(secret, &hello)?;
        hello.extend(message);
        hello.resize(HELLO - MAC, 0);
        let hello = transcript.seal(KIND_HELLO, &hello);
        let handshake = Some(Box::new(handshake));
        let expected = (job, number, known_as);
        Ok((
            Initiator { expected, transcript, encrypt, handshake, cipher: None, early: None },
            hello,
        ))
    }

    /// Allows early records until the Welcome comes, unless this side wants encryption (rule 7).
    pub fn allow_early(&mut self) {
        if !self.encrypt && self.handshake.is_some() {
            self.early = Some(Early::new(&self.transcript));
        }
    }

    /// The number of early records so far, if a record with a body of `len` bytes may follow.
    pub fn early_records(&self, len: usize) -> Option<u64> {
        self.early.as_ref().filter(|early| early.has_room(len)).map(Early::count)
    }

    /// Replaces `message` by the message of the next early record, or empties it if none is
    /// allowed.
    pub fn early(&mut self, record: &[Bytes<'_>], message: &mut Vec<u8>) {
        message.clear();
        if let Some(early) = &mut self.early {
            early.seal(record, message);
        }
    }

    /// Answers a Welcome. Returns the peer's incarnation, and the Proof with the received point.
    pub fn welcomed(
        &mut self,
        welcome: &[u8; WELCOME],
        received: Point,
    ) -> Result<(u64, [u8; PROOF]), GreetingError> {
        self.early = None;
        self.transcript.open(KIND_WELCOME, welcome)?;
        let mut reader = Reader(welcome);
        let (job, rank, to, incarnation) = (reader.u64(), reader.u32(), reader.u32(), reader.u64());
        if (job, rank, to) != self.expected {
            return Err(GreetingError::Elsewhere);
        }
        let (encrypt, message) = encryption(welcome, WELCOME_ENCRYPT)?;
        let handshake = self.handshake.take().ok_or(GreetingError::NotGreeting)?;
        match (encrypt, self.encrypt) {
            (true, _) => self.cipher = Some(Box::new(handshake.answered(&message)?)),
            (false, true) => return Err(GreetingError::Plain),
            (false, false) => {}
        }
        let proof = Writer(Vec::new())
            .u64(KIND_PROOF.into())
            .u64(received.records)
            .u64(received.bytes.into())
            .u64(0)
            .0;
        Ok((incarnation, self.transcript.seal(KIND_PROOF, &proof)))
    }

    /// Reads a Verdict. Returns the point that the peer has received, or an error if the peer
    /// refuses.
    pub fn judged(&mut self, verdict: &[u8; VERDICT]) -> Result<Point, GreetingError> {
        self.transcript.open(KIND_VERDICT, verdict)?;
        let mut reader = Reader(verdict);
        match reader.u64() {
            1 => Ok(point(&mut reader)),
            _ => Err(GreetingError::Refused),
        }
    }

    /// The cipher of the records, if they are encrypted. Call it after the greeting.
    pub fn into_cipher(self) -> Option<Box<Cipher>> {
        self.cipher
    }
}

fn encryption(message: &[u8], at: usize) -> Result<(bool, [u8; HANDSHAKE]), GreetingError> {
    let mut reader = Reader(&message[at..]);
    let encrypt = match reader.u64() {
        0 => false,
        1 => true,
        _ => return Err(GreetingError::NotGreeting),
    };
    Ok((encrypt, reader.array()))
}

fn point(reader: &mut Reader<'_>) -> Point {
    Point { records: reader.u64(), bytes: u32::try_from(reader.u64()).unwrap_or(u32::MAX) }
}

/// The side that was connected to.
#[derive(Debug)]
pub struct Acceptor {
    own: Identity,
    transcript: Transcript,
    from: u32,
    job: u64,
    incarnation: u64,
    cipher: Option<Box<Cipher>>,
    /// `None`: the initiator wants encryption, so it sends no early records.
    early: Option<Early>,
}

/// The job in a Hello, without a proof.
pub(super) fn job_of(hello: &[u8; HELLO]) -> u64 {
    Reader(&hello[16..]).u64()
}

impl Acceptor {
    /// Returns also the Welcome. `encrypt`: this side wants encryption. Fails if the Hello is not
    /// from a process of the job, or not for this process.
    pub fn new(
        own: Identity,
        secret: &Secret,
        hello: &[u8; HELLO],
        nonce: &Nonce,
        encrypt: bool,
    ) -> Result<(Acceptor, [u8; WELCOME]), GreetingError> {
        Acceptor::of_job(own, own.job, secret, hello, nonce, encrypt)
    }

    /// As [`Acceptor::new`], for a process of job `wanted`, which may be another launcher's.
    pub fn of_job(
        own: Identity,
        wanted: u64,
        secret: &Secret,
        hello: &[u8; HELLO],
        nonce: &Nonce,
        encrypt: bool,
    ) -> Result<(Acceptor, [u8; WELCOME]), GreetingError> {
        let mut reader = Reader(hello);
        if reader.array() != MAGIC || reader.array() != [VERSION, KIND_HELLO, 0, 0, 0, 0, 0, 0] {
            return Err(GreetingError::NotGreeting);
        }
        let mut transcript = Transcript::new(secret, ROOM);
        transcript.open(KIND_HELLO, hello)?;
        let (job, from, to, incarnation) = (reader.u64(), reader.u32(), reader.u32(), reader.u64());
        if job != wanted || to != own.rank || from == own.rank {
            return Err(GreetingError::Elsewhere);
        }
        let mut welcome =
            Writer(Vec::new()).u64(own.job).u32(own.rank).u32(from).u64(own.incarnation).0;
        welcome.extend(nonce);
        debug_assert_eq!(welcome.len(), WELCOME_ENCRYPT);
        let (is_wanted, message) = encryption(hello, HELLO_ENCRYPT)?;
        let early = (!is_wanted).then(|| Early::new(&transcript));
        let encrypt = encrypt || is_wanted;
        welcome.extend(u64::from(encrypt).to_le_bytes());
        let mut cipher = None;
        if encrypt {
            let prologue = &hello[..HELLO_ENCRYPT + FLAG];
            let (own, answer) = Handshake::accept(secret, prologue, &message)?;
            cipher = Some(Box::new(own));
            welcome.extend(answer);
        }
        welcome.resize(WELCOME - MAC, 0);
        let welcome = transcript.seal(KIND_WELCOME, &welcome);
        Ok((Acceptor { own, transcript, from, job, incarnation, cipher, early }, welcome))
    }

    /// The length of a Proof or an early record, from its first [`PROOF`] bytes.
    pub fn next_length(&self, begin: &[u8]) -> Result<usize, GreetingError> {
        match Reader(begin).u64() {
            kind if kind == KIND_EARLY.into() && begin.len() >= PROOF => {
                self.early.as_ref().ok_or(GreetingError::NotGreeting)?.length(begin)
            }
            _ => Ok(PROOF),
        }
    }

    /// Reads an early record. Fails unless it is the next record of this connection.
    pub fn early<'a>(&mut self, message: &'a [u8]) -> Result<&'a [u8], GreetingError> {
        self.early.as_mut().ok_or(GreetingError::NotGreeting)?.open(message)
    }

    /// Whether early records of this greeting may be delivered (rules 7 and 9).
    pub fn may_take_early(&self) -> bool {
        self.cipher.is_none()
            && self.job == self.own.job
            && self.incarnation >= self.own.incarnation
    }

    /// The cipher of the records, if they are encrypted; `None` at the second call.
    pub fn take_cipher(&mut self) -> Option<Box<Cipher>> {
        self.cipher.take()
    }

    /// The rank and incarnation in the Hello, which only the Proof proves.
    pub fn from(&self) -> (u32, u64) {
        (self.from, self.incarnation)
    }

    /// The peer's job, if it is another launcher's.
    pub fn other_job(&self) -> Option<u64> {
        (self.job != self.own.job).then_some(self.job)
    }

    /// Whether this side refuses if it makes an attempt to the same peer (rule 3).
    pub fn loses_to_own(&self) -> bool {
        match self.other_job() {
            Some(job) => self.own.job < job,
            None => self.own.rank < self.from,
        }
    }

    /// Reads a Proof. Returns the peer's received point, or an error if the peer does not have the
    /// secret.
    pub fn proved(&mut self, proof: &[u8; PROOF]) -> Result<Point, GreetingError> {
        self.transcript.open(KIND_PROOF, proof)?;
        let mut reader = Reader(proof);
        if reader.u64() != KIND_PROOF.into() {
            return Err(GreetingError::NotGreeting);
        }
        Ok(point(&mut reader))
    }

    /// The Verdict; it accepts the connection with the received point of this side, or refuses with
    /// `None`.
    pub fn judge(mut self, received: Option<Point>) -> [u8; VERDICT] {
        let point = received.unwrap_or_default();
        let verdict = Writer(Vec::new())
            .u64(received.is_some().into())
            .u64(point.records)
            .u64(point.bytes.into())
            .u64(0)
            .0;
        self.transcript.seal(KIND_VERDICT, &verdict)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only a process that violates rule 6 answers so: no other process can make the MAC.
    #[test]
    fn a_side_that_wants_encryption_refuses_an_answer_without() {
        let secret = Secret([7; 32]);
        let own = |rank| Identity { job: 5, rank, size: 2, incarnation: 1 };
        for (wants, encrypt, error) in [
            (false, 0, None),
            (true, 0, Some(GreetingError::Plain)),
            (false, 1, Some(GreetingError::Keys(NoiseError::Forged))),
            (true, 1, Some(GreetingError::Keys(NoiseError::Forged))),
            (false, 2, Some(GreetingError::NotGreeting)),
        ] {
            let (mut initiator, hello) =
                Initiator::new(own(0), 1, &secret, &[1; 32], wants).unwrap();
            let mut transcript = Transcript::new(&secret, ROOM);
            transcript.open(KIND_HELLO, &hello).unwrap();
            let mut welcome = Writer(Vec::new()).u64(5).u32(1).u32(0).u64(1).0;
            welcome.extend([2; 32]);
            welcome.extend(u64::to_le_bytes(encrypt));
            welcome.resize(WELCOME - MAC, 0);
            let welcome = transcript.seal(KIND_WELCOME, &welcome);
            let result = initiator.welcomed(&welcome, Point::default());
            assert_eq!(result.err(), error, "{wants} {encrypt}");
        }
    }
}
