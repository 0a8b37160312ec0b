//! Messages over a stream of bytes, in both directions: greeting, frames and MACs, without a system call.
//!
//! Over TCP both sides first prove that they have the universe's secret (`oxmpi_wire::Transcript`):
//!
//! ```text
//! initiator                              acceptor
//!   Hello    magic, nonce         ->                       closes if the MAC is wrong
//!            closes if it is wrong <-      Welcome  nonce
//!   Proof                         ->                       closes if the MAC is wrong
//!   frames                       <->      frames
//! ```
//!
//! A Hello can be a recording, so it changes nothing; the Proof answers a nonce of the acceptor's, so it is new. A frame is the
//! length of its message (four bytes, little endian), the message, and the MAC over both, which counts the frames of its
//! direction. Over a Unix socket, whose kernel says who the other is, there is no greeting and no MAC.

use oxmpi_wire::{MAC, Nonce, Sealer, Secret, Transcript, WrongMac};

use super::message::{Message, Nonsense};

/// The longest message in bytes.
pub(crate) const MAX_MESSAGE: usize = 4 << 20;

/// The beginning of a Hello, with the version of all that follows.
const MAGIC: [u8; 16] = *b"OxMPI daemon 001";
/// Bytes of a Hello.
pub(crate) const HELLO: usize = MAGIC.len() + 32 + MAC;
/// Bytes of a Welcome.
const WELCOME: usize = 32 + MAC;
/// Bytes of a Proof.
const PROOF: usize = MAC;

// Labels of MACs.
const LABEL_HELLO: u8 = 0x11;
const LABEL_WELCOME: u8 = 0x12;
const LABEL_PROOF: u8 = 0x13;
const LABEL_FROM_INITIATOR: u8 = 0x14;
const LABEL_FROM_ACCEPTOR: u8 = 0x15;

/// Why a channel ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ChannelError {
    /// The bytes are no greeting of this version.
    #[error("what it says is no greeting of a daemon of this version")]
    Noise,
    /// A MAC is wrong.
    #[error("it does not know the secret of this universe")]
    Stranger,
    /// A message is too long.
    #[error("a message of {0} bytes is longer than the {MAX_MESSAGE} that are allowed")]
    TooLong(u64),
    /// A message is none.
    #[error(transparent)]
    Nonsense(#[from] Nonsense),
}

impl From<WrongMac> for ChannelError {
    fn from(_: WrongMac) -> ChannelError {
        ChannelError::Stranger
    }
}

/// Where the greeting is.
#[derive(Debug)]
enum Stage {
    /// An acceptor waits for the Hello.
    Hello(Secret, Nonce),
    /// An initiator waits for the Welcome.
    Welcome(Transcript),
    /// An acceptor waits for the Proof.
    Proof(Transcript),
    /// Frames. With a sealer for what is sent and one for what comes.
    Open(Option<(Sealer, Sealer)>),
    /// The greeting has failed: nothing is believed any more.
    Failed,
}

/// One side of a connection.
#[derive(Debug)]
pub(crate) struct Channel {
    stage: Stage,
    /// What has come and was not understood yet.
    input: Vec<u8>,
    /// What is to be sent.
    output: Vec<u8>,
    /// Messages that wait for the greeting.
    waiting: Vec<Vec<u8>>,
}

impl Channel {
    fn new(stage: Stage) -> Channel {
        Channel { stage, input: Vec::new(), output: Vec::new(), waiting: Vec::new() }
    }

    /// Over a socket of which the kernel has said who the other is.
    pub(crate) fn trusted() -> Channel {
        Channel::new(Stage::Open(None))
    }

    /// Who has connected.
    pub(crate) fn initiator(secret: &Secret, nonce: &Nonce) -> Channel {
        let mut transcript = Transcript::new(secret, HELLO + WELCOME + PROOF);
        let hello: [u8; HELLO] = transcript.seal(LABEL_HELLO, &[&MAGIC[..], nonce].concat());
        let mut channel = Channel::new(Stage::Welcome(transcript));
        channel.output.extend(hello);
        channel
    }

    /// Who was connected to.
    pub(crate) fn acceptor(secret: &Secret, nonce: &Nonce) -> Channel {
        Channel::new(Stage::Hello(secret.clone(), *nonce))
    }

    /// Takes a message to be sent.
    ///
    /// # Errors
    /// If it is too long.
    pub(crate) fn send(&mut self, message: &Message) -> Result<(), ChannelError> {
        let bytes = message.encode();
        if bytes.len() > MAX_MESSAGE {
            return Err(ChannelError::TooLong(bytes.len() as u64));
        }
        self.waiting.push(bytes);
        self.write();
        Ok(())
    }

    /// What is to be sent; [`Channel::sent`] says how much of it was.
    pub(crate) fn output(&self) -> &[u8] {
        &self.output
    }

    /// So many bytes of the output were sent.
    pub(crate) fn sent(&mut self, bytes: usize) {
        self.output.drain(..bytes);
    }

    /// Takes bytes that have come.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// Whether bytes have come that nobody has read.
    pub(crate) fn has_input(&self) -> bool {
        !self.input.is_empty()
    }

    /// Whether the other side has proved who it is.
    pub(crate) fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    /// Bytes that are missing until [`Channel::next`] can do something, at least 1. Who reads no more than that leaves the next
    /// message where poll(2) sees it.
    pub(crate) fn wanted(&self) -> usize {
        let whole = match &self.stage {
            Stage::Hello(..) => HELLO,
            Stage::Welcome(_) => WELCOME,
            Stage::Proof(_) => PROOF,
            Stage::Open(sealers) => {
                self.frame().map_or(4, |end| if sealers.is_some() { end + MAC } else { end })
            }
            Stage::Failed => 1,
        };
        whole.saturating_sub(self.input.len()).max(1)
    }

    /// Where the message of the first frame ends, if its length has come.
    fn frame(&self) -> Option<usize> {
        self.input.first_chunk::<4>().map(|bytes| 4 + u32::from_le_bytes(*bytes) as usize)
    }

    /// The next message that has come whole.
    ///
    /// # Errors
    /// If what has come is none. There is nothing more to be said then.
    pub(crate) fn next(&mut self) -> Result<Option<Message>, ChannelError> {
        while !self.is_open() {
            if !self.greet()? {
                return Ok(None);
            }
        }
        let Some(end) = self.frame() else { return Ok(None) };
        if end > 4 + MAX_MESSAGE {
            return Err(ChannelError::TooLong(end as u64 - 4));
        }
        let Stage::Open(sealers) = &mut self.stage else { return Ok(None) };
        let all = if sealers.is_some() { end + MAC } else { end };
        if self.input.len() < all {
            return Ok(None);
        }
        if let Some((_, theirs)) = sealers {
            let mut mac = [0; MAC];
            mac.copy_from_slice(&self.input[end..all]);
            theirs.check(&self.input[..end], mac)?;
        }
        let message = Message::decode(&self.input[4..end])?;
        self.input.drain(..all);
        Ok(Some(message))
    }

    /// Takes a message of the greeting; returns whether there was one.
    fn greet(&mut self) -> Result<bool, ChannelError> {
        let wanted = match self.stage {
            Stage::Hello(..) => HELLO,
            Stage::Welcome(_) => WELCOME,
            Stage::Proof(_) => PROOF,
            Stage::Open(_) => return Ok(false),
            Stage::Failed => return Err(ChannelError::Stranger),
        };
        if matches!(self.stage, Stage::Hello(..))
            && !MAGIC.starts_with(&self.input[..self.input.len().min(MAGIC.len())])
        {
            return Err(ChannelError::Noise);
        }
        if self.input.len() < wanted {
            return Ok(false);
        }
        let rest = self.input.split_off(wanted);
        let came = std::mem::replace(&mut self.input, rest);
        self.stage = match std::mem::replace(&mut self.stage, Stage::Failed) {
            Stage::Hello(secret, nonce) => {
                let mut transcript = Transcript::new(&secret, HELLO + WELCOME + PROOF);
                transcript.open::<HELLO>(LABEL_HELLO, &array(&came))?;
                self.output.extend(transcript.seal::<WELCOME>(LABEL_WELCOME, &nonce));
                Stage::Proof(transcript)
            }
            Stage::Welcome(mut transcript) => {
                transcript.open::<WELCOME>(LABEL_WELCOME, &array(&came))?;
                self.output.extend(transcript.seal::<PROOF>(LABEL_PROOF, &[]));
                Stage::Open(Some((
                    transcript.sealer(LABEL_FROM_INITIATOR),
                    transcript.sealer(LABEL_FROM_ACCEPTOR),
                )))
            }
            Stage::Proof(mut transcript) => {
                transcript.open::<PROOF>(LABEL_PROOF, &array(&came))?;
                Stage::Open(Some((
                    transcript.sealer(LABEL_FROM_ACCEPTOR),
                    transcript.sealer(LABEL_FROM_INITIATOR),
                )))
            }
            other @ (Stage::Open(_) | Stage::Failed) => other,
        };
        self.write();
        Ok(true)
    }

    /// Makes frames of the messages that wait, if the greeting is over.
    fn write(&mut self) {
        let Stage::Open(sealers) = &mut self.stage else { return };
        for message in self.waiting.drain(..) {
            let at = self.output.len();
            self.output.extend((message.len() as u32).to_le_bytes());
            self.output.extend(message);
            if let Some((ours, _)) = sealers {
                let mac = ours.mac(&self.output[at..]);
                self.output.extend(mac);
            }
        }
    }
}

/// The bytes, of which there are as many.
fn array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut array = [0; N];
    array.copy_from_slice(bytes);
    array
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Carries what one side has to say to the other, so many bytes at a time.
    fn carry(from: &mut Channel, to: &mut Channel, step: usize) {
        let bytes = from.output().to_vec();
        from.sent(bytes.len());
        bytes.chunks(step).for_each(|piece| to.feed(piece));
    }

    fn pair(ours: u8, theirs: u8) -> (Channel, Channel) {
        (
            Channel::initiator(&Secret([ours; 32]), &[1; 32]),
            Channel::acceptor(&Secret([theirs; 32]), &[2; 32]),
        )
    }

    #[test]
    fn who_has_the_secret_is_heard() {
        for step in [1, 7, 1000] {
            let (mut a, mut b) = pair(5, 5);
            a.send(&Message::Ask).unwrap();
            b.send(&Message::Go).unwrap();
            // Hello, Welcome, Proof with the first message, and the answer.
            carry(&mut a, &mut b, step);
            assert_eq!(b.next(), Ok(None));
            carry(&mut b, &mut a, step);
            assert_eq!(a.next(), Ok(None));
            carry(&mut a, &mut b, step);
            assert_eq!(b.next(), Ok(Some(Message::Ask)));
            carry(&mut b, &mut a, step);
            assert_eq!(a.next(), Ok(Some(Message::Go)));
            assert!(!a.has_input() && !b.has_input());
            a.send(&Message::Halt).unwrap();
            let bytes = a.output().to_vec();
            b.feed(&bytes);
            assert_eq!(b.next(), Ok(Some(Message::Halt)));
            b.feed(&bytes);
            assert_eq!(b.next(), Err(ChannelError::Stranger), "the same again");
        }
    }

    #[test]
    fn who_reads_what_is_wanted_reads_no_more() {
        let (mut a, mut b) = pair(5, 5);
        a.send(&Message::Ask).unwrap();
        a.send(&Message::Go).unwrap();
        let mut came = Vec::new();
        let mut on_the_way = Vec::new();
        while came.is_empty() {
            on_the_way.extend_from_slice(a.output());
            a.sent(a.output().len());
            while b.wanted() <= on_the_way.len() && came.is_empty() {
                let bytes: Vec<u8> = on_the_way.drain(..b.wanted()).collect();
                b.feed(&bytes);
                came.extend(b.next().unwrap());
            }
            a.feed(b.output());
            b.sent(b.output().len());
            assert_eq!(a.next(), Ok(None));
        }
        assert_eq!(came, [Message::Ask]);
        assert!(!on_the_way.is_empty() && !b.has_input(), "the second message is not read yet");
    }

    #[test]
    fn who_has_not_is_not() {
        let (mut a, mut b) = pair(5, 6);
        a.send(&Message::Halt).unwrap();
        carry(&mut a, &mut b, 1000);
        assert_eq!(b.next(), Err(ChannelError::Stranger));
        assert!(b.output().is_empty() && !b.is_open());
        b.feed(&[4, 0, 0, 0]);
        assert_eq!(b.next(), Err(ChannelError::Stranger), "and stays so");
        // Who only repeats a Hello cannot prove anything.
        let (a, mut b) = pair(5, 5);
        b.feed(a.output());
        assert_eq!(b.next(), Ok(None));
        b.feed(&[0; PROOF]);
        assert_eq!(b.next(), Err(ChannelError::Stranger));
        // Nor can an acceptor without the secret.
        let (mut a, _) = pair(5, 5);
        a.feed(&[0; WELCOME]);
        assert_eq!(a.next(), Err(ChannelError::Stranger));
        let mut long = Channel::trusted();
        long.feed(&(MAX_MESSAGE as u32 + 1).to_le_bytes());
        assert_eq!(long.next(), Err(ChannelError::TooLong(MAX_MESSAGE as u64 + 1)));
    }

    proptest! {
        #[test]
        fn garbage_is_refused_or_waited_for(
            bytes in proptest::collection::vec(prop_oneof![1 => 0u8..2, 1 => any::<u8>()], 0..300),
            step in 1usize..50,
        ) {
            let secret = Secret([3; 32]);
            for mut channel in [
                Channel::trusted(),
                Channel::acceptor(&secret, &[1; 32]),
                Channel::initiator(&secret, &[1; 32]),
            ] {
                let is_sealed = !channel.is_open();
                'all: for piece in bytes.chunks(step) {
                    channel.feed(piece);
                    loop {
                        match channel.next() {
                            Ok(Some(_)) => prop_assert!(!is_sealed),
                            Ok(None) => break,
                            Err(_) => break 'all,
                        }
                    }
                }
                prop_assert!(!is_sealed || !channel.is_open());
            }
        }
    }
}
