//! Messages over a byte stream in both directions: handshake, records and frames, without system
//! calls.
//!
//! Over TCP everything is encrypted and authenticated by the universe's secret
//! (`oxmpi_wire::noise`):
//!
//! ```text
//! initiator                                        acceptor
//!   magic (16 bytes), handshake message    ->                closes if it does not decrypt
//!     closes if it does not decrypt       <-      handshake message
//!   records                              <->      records
//! ```
//!
//! The *prologue* of the handshake is the magic, with the version of the protocol, and the number
//! of the node that the initiator wants: a connection that an attacker has redirected to another
//! daemon fails there. The first message of the handshake may be a replay, so it changes nothing;
//! the first record proves that the initiator is live.
//!
//! Records contain *frames*: a length (4 bytes, little endian) and a message of that length. When a
//! connection has become a stream of a program, frames contain its bytes, and an empty frame is its
//! end: without one the connection was cut.
//!
//! Over a Unix socket, whose kernel identifies the peer, there is no handshake, and frames are sent
//! in plain.

use oxmpi_wire::Secret;
use oxmpi_wire::noise::{Cipher, HANDSHAKE, Handshake, MAX_RECORD, NoiseError};

use oxmpi_rt_proto::daemon::{DaemonMessage, MalformedMessage};

/// In bytes.
pub const MAX_MESSAGE: usize = 4 << 20;

/// The first bytes of an initiator, with the version of the protocol.
const MAGIC: [u8; 16] = *b"OxMPI daemon 004";
pub const HELLO: usize = MAGIC.len() + HANDSHAKE;
const LENGTH: usize = 4;
/// The most bytes of a program's stream in a frame, so that a frame is one record.
const MAX_PIECE: usize = MAX_RECORD - LENGTH;

/// Why a channel has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    #[error("it has sent no greeting of a daemon of this version")]
    Foreign,
    #[error(transparent)]
    Forged(#[from] NoiseError),
    #[error("a message of {0} bytes is longer than the {MAX_MESSAGE} that are allowed")]
    TooLong(u64),
    #[error(transparent)]
    Malformed(#[from] MalformedMessage),
}

/// A part of a program's stream that has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StreamItem {
    Bytes,
    End,
}

#[derive(Debug)]
enum ChannelStage {
    /// An acceptor waits for the greeting.
    Hello(Secret, Vec<u8>),
    /// An initiator waits for the answer; `None` after a wrong answer.
    Answer(Option<Box<Handshake>>),
    /// Records. An acceptor has proof of the initiator from the first record on.
    Records { cipher: Box<Cipher>, is_proved: bool },
    /// Plain frames, as the kernel has identified the peer.
    Trusted,
}

/// One side of a connection, without its socket: the owner feeds received bytes and sends output.
#[derive(Debug)]
pub struct SecureChannel {
    stage: ChannelStage,
    /// Received and not decrypted.
    input: Vec<u8>,
    /// Decrypted and not parsed.
    plain: Vec<u8>,
    output: Vec<u8>,
    sent: usize,
    /// Frames that wait for the handshake.
    waiting: Vec<Vec<u8>>,
    /// The first error, which ends the channel.
    failed: Option<ChannelError>,
}

fn prologue(node: u32) -> Vec<u8> {
    [&MAGIC[..], &node.to_le_bytes()].concat()
}

impl SecureChannel {
    fn new(stage: ChannelStage) -> SecureChannel {
        SecureChannel {
            stage,
            input: Vec::new(),
            plain: Vec::new(),
            output: Vec::new(),
            sent: 0,
            waiting: Vec::new(),
            failed: None,
        }
    }

    /// A channel over a socket whose peer the kernel has identified.
    pub fn trusted() -> SecureChannel {
        SecureChannel::new(ChannelStage::Trusted)
    }

    /// The side that connects to a node's daemon. An error if the kernel has no random bytes.
    pub fn initiator(secret: &Secret, node: u32) -> Result<SecureChannel, ChannelError> {
        let (handshake, message) = Handshake::initiator(secret, &prologue(node))?;
        let mut channel = SecureChannel::new(ChannelStage::Answer(Some(Box::new(handshake))));
        channel.output.extend(MAGIC);
        channel.output.extend(message);
        Ok(channel)
    }

    /// The side of the node's daemon.
    pub fn acceptor(secret: &Secret, node: u32) -> SecureChannel {
        SecureChannel::new(ChannelStage::Hello(secret.clone(), prologue(node)))
    }

    /// Queues a message; an error if it is too long.
    pub fn send(&mut self, message: &DaemonMessage) -> Result<(), ChannelError> {
        let bytes = message.encode();
        if bytes.len() > MAX_MESSAGE {
            return Err(ChannelError::TooLong(bytes.len() as u64));
        }
        self.send_frame(&bytes)
    }

    /// Queues bytes of a program's stream; an error if the cipher is exhausted.
    pub fn send_bytes(&mut self, bytes: &[u8]) -> Result<(), ChannelError> {
        bytes.chunks(MAX_PIECE).try_for_each(|piece| self.send_frame(piece))
    }

    /// Queues the end of a program's stream; an error if the cipher is exhausted.
    pub fn send_end(&mut self) -> Result<(), ChannelError> {
        self.send_frame(&[])
    }

    fn send_frame(&mut self, bytes: &[u8]) -> Result<(), ChannelError> {
        self.waiting.push([&(bytes.len() as u32).to_le_bytes()[..], bytes].concat());
        self.write()
    }

    /// The bytes to send.
    pub fn output(&self) -> &[u8] {
        &self.output[self.sent..]
    }

    /// Drops bytes of the output, which have been sent.
    pub fn sent(&mut self, bytes: usize) {
        self.sent += bytes;
        // So the bytes that are moved are fewer than the bytes sent since the last move.
        if self.sent > self.output.len() / 2 {
            self.output.drain(..self.sent);
            self.sent = 0;
        }
    }

    /// Takes received bytes.
    pub fn feed(&mut self, bytes: &[u8]) {
        match self.stage {
            ChannelStage::Trusted => self.plain.extend_from_slice(bytes),
            _ => self.input.extend_from_slice(bytes),
        }
    }

    /// Whether received bytes are not parsed yet.
    pub fn has_input(&self) -> bool {
        !self.input.is_empty() || !self.plain.is_empty()
    }

    /// Whether the peer has proved that it knows the secret.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, ChannelStage::Trusted | ChannelStage::Records { is_proved: true, .. })
    }

    /// Whether the peer has sent a valid greeting, which may be a replay.
    pub fn has_greeted(&self) -> bool {
        matches!(self.stage, ChannelStage::Records { .. })
    }

    /// The number of bytes until [`SecureChannel::next_message`] can progress, at least 1. A caller
    /// that reads at most that many leaves the next message in the socket, where poll(2) sees it:
    /// each message has records of its own.
    pub fn wanted(&self) -> usize {
        let (whole, have) = match &self.stage {
            ChannelStage::Hello(..) => (HELLO, &self.input),
            ChannelStage::Answer(_) => (HANDSHAKE, &self.input),
            ChannelStage::Trusted => (self.frame().unwrap_or(LENGTH), &self.plain),
            ChannelStage::Records { .. } => (Cipher::record_length(&self.input), &self.input),
        };
        whole.saturating_sub(have.len()).max(1)
    }

    fn frame(&self) -> Option<usize> {
        self.plain.first_chunk::<LENGTH>().map(|bytes| LENGTH + u32::from_le_bytes(*bytes) as usize)
    }

    /// The next complete message. After an error the channel is unusable.
    pub fn next_message(&mut self) -> Result<Option<DaemonMessage>, ChannelError> {
        loop {
            if let Some(end) = self.frame() {
                if end > LENGTH + MAX_MESSAGE {
                    return Err(ChannelError::TooLong((end - LENGTH) as u64));
                }
                if end <= self.plain.len() {
                    let message = DaemonMessage::decode(&self.plain[LENGTH..end])?;
                    self.plain.drain(..end);
                    return Ok(Some(message));
                }
            }
            if !self.advance()? {
                return Ok(None);
            }
        }
    }

    /// The next item of a program's stream; bytes are appended to `to`. `None`: none has come. An
    /// error if the data were not sent by the peer.
    pub fn next_piece(&mut self, to: &mut Vec<u8>) -> Result<Option<StreamItem>, ChannelError> {
        loop {
            if let Some(end) = self.frame() {
                if end > LENGTH + MAX_PIECE {
                    return Err(ChannelError::TooLong((end - LENGTH) as u64));
                }
                if end <= self.plain.len() {
                    to.extend_from_slice(&self.plain[LENGTH..end]);
                    self.plain.drain(..end);
                    return Ok(Some(if end == LENGTH {
                        StreamItem::End
                    } else {
                        StreamItem::Bytes
                    }));
                }
            }
            if !self.advance()? {
                return Ok(None);
            }
        }
    }

    /// Handles a handshake message or a record; returns whether there was one.
    fn advance(&mut self) -> Result<bool, ChannelError> {
        if let Some(error) = self.failed {
            return Err(error);
        }
        let advanced = self.try_advance();
        self.failed = advanced.err();
        advanced
    }

    fn try_advance(&mut self) -> Result<bool, ChannelError> {
        match &mut self.stage {
            ChannelStage::Trusted => return Ok(false),
            ChannelStage::Hello(secret, prologue) => {
                if !MAGIC.starts_with(&self.input[..self.input.len().min(MAGIC.len())]) {
                    return Err(ChannelError::Foreign);
                }
                let hello = self.input.first_chunk::<HELLO>();
                let Some(message) = hello.and_then(|hello| hello.last_chunk()) else {
                    return Ok(false);
                };
                let (cipher, answer) = Handshake::accept(secret, prologue, message)?;
                self.output.extend(answer);
                self.input.drain(..HELLO);
                self.stage = ChannelStage::Records { cipher: Box::new(cipher), is_proved: false };
            }
            ChannelStage::Answer(handshake) => {
                let Some(answer) = self.input.first_chunk() else { return Ok(false) };
                let Some(handshake) = handshake.take() else { return Ok(false) };
                let cipher = Box::new(handshake.answered(answer)?);
                self.input.drain(..HANDSHAKE);
                self.stage = ChannelStage::Records { cipher, is_proved: true };
            }
            ChannelStage::Records { cipher, is_proved } => {
                let Some(taken) = cipher.open(&self.input, &mut self.plain)? else {
                    return Ok(false);
                };
                self.input.drain(..taken);
                *is_proved = true;
            }
        }
        self.write()?;
        Ok(true)
    }

    /// Sends the queued frames once the peer is authenticated. Each frame has records of its own.
    fn write(&mut self) -> Result<(), ChannelError> {
        match &mut self.stage {
            ChannelStage::Trusted => {
                self.waiting.drain(..).for_each(|frame| self.output.extend(frame))
            }
            ChannelStage::Records { cipher, is_proved: true } => {
                for frame in self.waiting.drain(..) {
                    cipher.seal(&frame, &mut self.output)?;
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Carries the output of one side to the other, at most `step` bytes at a time.
    fn carry(from: &mut SecureChannel, to: &mut SecureChannel, step: usize) {
        let bytes = from.output().to_vec();
        from.sent(bytes.len());
        bytes.chunks(step).for_each(|piece| to.feed(piece));
    }

    /// Two sides with these secrets; the initiator wants node 3, the acceptor is `node`.
    fn pair(ours: u8, theirs: u8, node: u32) -> (SecureChannel, SecureChannel) {
        (
            SecureChannel::initiator(&Secret([ours; 32]), 3).unwrap(),
            SecureChannel::acceptor(&Secret([theirs; 32]), node),
        )
    }

    /// Two sides after the handshake.
    fn greeted() -> (SecureChannel, SecureChannel) {
        let (mut a, mut b) = pair(5, 5, 3);
        a.send(&DaemonMessage::Ask).unwrap();
        carry(&mut a, &mut b, 1000);
        assert_eq!(b.next_message(), Ok(None));
        carry(&mut b, &mut a, 1000);
        assert_eq!(a.next_message(), Ok(None));
        carry(&mut a, &mut b, 1000);
        assert_eq!(b.next_message(), Ok(Some(DaemonMessage::Ask)));
        (a, b)
    }

    const FORGED: ChannelError = ChannelError::Forged(NoiseError::Forged);

    #[test]
    fn a_side_with_the_secret_is_accepted() {
        for step in [1, 7, 1000] {
            let (mut a, mut b) = pair(5, 5, 3);
            a.send(&DaemonMessage::Ask).unwrap();
            b.send(&DaemonMessage::Go).unwrap();
            carry(&mut a, &mut b, step);
            assert_eq!(b.next_message(), Ok(None));
            assert!(b.has_greeted() && !b.is_open(), "it may be a recording");
            assert_eq!(b.output().len(), HANDSHAKE, "which learns nothing");
            carry(&mut b, &mut a, step);
            assert_eq!(a.next_message(), Ok(None));
            carry(&mut a, &mut b, step);
            assert_eq!(b.next_message(), Ok(Some(DaemonMessage::Ask)));
            carry(&mut b, &mut a, step);
            assert_eq!(a.next_message(), Ok(Some(DaemonMessage::Go)));
            assert!(!a.has_input() && !b.has_input());
            a.send(&DaemonMessage::Halt).unwrap();
            let bytes = a.output().to_vec();
            b.feed(&bytes);
            assert_eq!(b.next_message(), Ok(Some(DaemonMessage::Halt)));
            b.feed(&bytes);
            assert_eq!(b.next_message(), Err(FORGED), "the same again");
            a.sent(bytes.len());
            a.send(&DaemonMessage::Ask).unwrap();
            carry(&mut a, &mut b, step);
            assert_eq!(b.next_message(), Err(FORGED), "nothing is believed any more");
        }
    }

    #[test]
    fn nothing_can_be_read_on_the_way() {
        let (mut a, mut b) = greeted();
        a.send(&DaemonMessage::Refused { reason: "a word".into() }).unwrap();
        assert!(!a.output().windows(6).any(|window| window == b"a word"));
        carry(&mut a, &mut b, 1000);
        assert_eq!(b.next_message(), Ok(Some(DaemonMessage::Refused { reason: "a word".into() })));
        a.send_bytes(b"a word").unwrap();
        assert!(!a.output().windows(6).any(|window| window == b"a word"));
    }

    #[test]
    fn a_long_message_and_a_stream_come_whole() {
        let (mut a, mut b) = greeted();
        let reason: String = (0..300_000).map(|i| char::from(b'a' + (i % 26) as u8)).collect();
        a.send(&DaemonMessage::Refused { reason: reason.clone() }).unwrap();
        let bytes: Vec<u8> = (0..3 * MAX_PIECE + 5).map(|i| i as u8).collect();
        a.send_bytes(&bytes).unwrap();
        a.send_end().unwrap();
        let (mut said, mut came, mut has_ended) = (None, Vec::new(), false);
        while !a.output().is_empty() {
            let piece = a.output()[..a.output().len().min(1000)].to_vec();
            a.sent(piece.len());
            b.feed(&piece);
            if said.is_none() {
                said = b.next_message().unwrap();
            }
            while said.is_some()
                && let Some(piece) = b.next_piece(&mut came).unwrap()
            {
                assert!(!has_ended);
                has_ended = piece == StreamItem::End;
            }
        }
        assert_eq!(said, Some(DaemonMessage::Refused { reason }));
        assert!(has_ended && came == bytes && !b.has_input());
    }

    #[test]
    fn reading_what_is_wanted_reads_no_more() {
        let (mut a, mut b) = pair(5, 5, 3);
        a.send(&DaemonMessage::Ask).unwrap();
        a.send(&DaemonMessage::Go).unwrap();
        let mut came = Vec::new();
        let mut on_the_way = Vec::new();
        while came.is_empty() {
            on_the_way.extend_from_slice(a.output());
            a.sent(a.output().len());
            while b.wanted() <= on_the_way.len() && came.is_empty() {
                let bytes: Vec<u8> = on_the_way.drain(..b.wanted()).collect();
                b.feed(&bytes);
                came.extend(b.next_message().unwrap());
            }
            a.feed(b.output());
            b.sent(b.output().len());
            assert_eq!(a.next_message(), Ok(None));
        }
        assert_eq!(came, [DaemonMessage::Ask]);
        assert!(!on_the_way.is_empty() && !b.has_input(), "the second message is not read yet");
    }

    #[test]
    fn a_side_without_the_secret_is_refused() {
        // Without the secret, and with the secret but redirected to another node.
        for (secret, node) in [(6, 3), (5, 4)] {
            let (mut a, mut b) = pair(5, secret, node);
            a.send(&DaemonMessage::Halt).unwrap();
            carry(&mut a, &mut b, 1000);
            assert_eq!(b.next_message(), Err(FORGED));
            assert!(b.output().is_empty() && !b.is_open() && !b.has_greeted());
            b.feed(&[4, 0, 0, 0]);
            assert_eq!(b.next_message(), Err(FORGED), "and stays so");
        }
        let (mut a, mut b) = pair(5, 5, 3);
        a.send(&DaemonMessage::Halt).unwrap();
        let mut recorded = a.output().to_vec();
        carry(&mut a, &mut b, 1000);
        assert_eq!(b.next_message(), Ok(None));
        carry(&mut b, &mut a, 1000);
        assert_eq!(a.next_message(), Ok(None));
        recorded.extend_from_slice(a.output());
        let (_, mut other) = pair(5, 5, 3);
        other.feed(&recorded);
        assert_eq!(other.next_message(), Err(FORGED));
        assert!(!other.is_open());
        let (mut a, _) = pair(5, 5, 3);
        a.feed(&[0; HANDSHAKE]);
        assert_eq!(a.next_message(), Err(FORGED));
        assert!(!a.is_open());
        let mut old = SecureChannel::acceptor(&Secret([5; 32]), 3);
        old.feed(b"OxMPI daemon 001");
        assert_eq!(old.next_message(), Err(ChannelError::Foreign));
        let mut long = SecureChannel::trusted();
        long.feed(&(MAX_MESSAGE as u32 + 1).to_le_bytes());
        assert_eq!(long.next_message(), Err(ChannelError::TooLong(MAX_MESSAGE as u64 + 1)));
    }

    proptest! {
        #[test]
        fn garbage_is_refused_or_waited_for(
            bytes in proptest::collection::vec(prop_oneof![1 => 0u8..2, 1 => any::<u8>()], 0..300),
            step in 1usize..50,
            has_magic: bool,
            is_stream: bool,
        ) {
            let secret = Secret([3; 32]);
            let bytes = if has_magic { [&MAGIC[..], &bytes].concat() } else { bytes };
            let sealed = [SecureChannel::acceptor(&secret, 1), SecureChannel::initiator(&secret, 1).unwrap()];
            for mut channel in [SecureChannel::trusted()].into_iter().chain(sealed) {
                let is_sealed = !channel.is_open();
                let mut plain = Vec::new();
                'all: for piece in bytes.chunks(step) {
                    channel.feed(piece);
                    loop {
                        let came = match is_stream {
                            true => channel.next_piece(&mut plain).map(|piece| piece.is_some()),
                            false => channel.next_message().map(|message| message.is_some()),
                        };
                        match came {
                            Ok(true) => prop_assert!(!is_sealed),
                            Ok(false) => break,
                            Err(_) => break 'all,
                        }
                    }
                }
                prop_assert!(!is_sealed || !channel.is_open());
            }
        }

        /// Whatever an attacker changes on the way: a prefix of the sent data arrives.
        #[test]
        fn changed_data_are_refused(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..40), 1..6),
            at: prop::sample::Index,
            how in 0u8..4,
            bit in 0u8..8,
        ) {
            let (mut a, mut b) = greeted();
            pieces.iter().for_each(|piece| a.send_bytes(piece).unwrap());
            a.send_end().unwrap();
            let mut bytes = a.output().to_vec();
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] ^= 1 << bit,
                1 => _ = bytes.remove(at),
                2 => bytes.insert(at, bit),
                _ => bytes.truncate(at),
            }
            let whole = bytes.starts_with(a.output());
            b.feed(&bytes);
            let (mut came, mut has_ended) = (Vec::new(), false);
            let end = loop {
                match b.next_piece(&mut came) {
                    Ok(Some(piece)) => has_ended |= piece == StreamItem::End,
                    end => break end,
                }
            };
            prop_assert!(pieces.concat().starts_with(&came));
            prop_assert!(!has_ended || whole);
            prop_assert!(how > 0 || end.is_err(), "it waits for bytes that nobody sends");
        }
    }
}
