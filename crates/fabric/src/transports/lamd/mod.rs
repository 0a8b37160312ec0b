//! Messages through the daemons: the components guide's module `lamd` ("The lamd Module
//! (Daemon-Based Communication)").
//!
//! Each node has a *relay* ([`relay`](crate::relay)), a process of the launcher. Each process has
//! one socket, to the relay of its node. All messages go to that relay, then to the relay of the
//! receiver's node if that is another one, and then to the receiver. Relays always read, and keep
//! messages that cannot be delivered yet. So a message arrives even while the programs of its
//! sender and receiver compute.
//!
//! Rules
//! 1. Every message leaves with its data, however long it is: nothing waits for a call of the
//!    receiver's program. Data of up to [`INLINE`] bytes lie in the packet. Longer data lie in a
//!    file without a name (memfd_create(2)), whose descriptor goes with the packet. A receiver on
//!    the same node reads the sender's file, and no relay copies it.
//! 2. A message is [`Sent::Done`] when the kernel has its packet: the relay will read it, even if
//!    this process has ended by then. If the socket is full, the process waits a moment, because
//!    the relay is reading. So a process that ends or rests has nothing to wait for.
//! 3. A relay delivers the messages of one process to another in the order of their sends.
//! 4. If the launcher reports a process as dead, its messages may still be on the way. This process
//!    queries the relay of that node, which answers behind all these messages
//!    ([`Membership::await_end`]). It makes the same query before it withdraws a message: a
//!    receiver that has ended does not answer, and the relay's answer ends the wait.
//! 5. A process that has lost its relay reports nothing and waits. The launcher detects the end of
//!    a relay, reports it, and ends the job; so there is one report.

mod module;

use crate::relay::PART;
use crate::transports::Tell;
use crate::{
    Body, Counts, FrameSink, Limits, Membership, OutgoingMessage, Sent, Statistics, Traffic,
    Transport, Unreachable, dispatch,
};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_sys::parcel;
use oxmpi_sys::poller::Poller;
use oxmpi_wire::relay::{INLINE, MAX_PACKET, Packet, PacketHeader, PacketKind};
use oxmpi_wire::{Frame, MAX_FRAME_LEN};
use std::collections::HashSet;
use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

const SOCKET: u64 = 1 << 32;
/// The number of packets that one poll receives.
const READS: usize = 64;
/// The longest wait for room in the socket in one send.
const ROOM: Duration = Duration::from_secs(1);
/// The pause after the kernel had no memory or no descriptors to send.
const STARVED: Duration = Duration::from_millis(10);
/// The longest piece of an announced message, in bytes.
const PIECE: usize = 1 << 20;

/// The transport of one process through its relay.
pub struct Lamd {
    own: u32,
    socket: OwnedFd,
    poller: Arc<Poller>,
    tell: Tell,
    packet: Vec<u8>,
    part: Vec<u8>,
    /// Whether the poller reports room in the socket.
    wants_room: bool,
    is_starved: bool,
    is_cut: bool,
    /// Processes that have ended, and whose messages have all arrived.
    ended: HashSet<u32>,
    /// Processes whose end the relay will report.
    end_queries: HashSet<u32>,
    lost: HashSet<u32>,
    sent: Traffic,
    received: Traffic,
}

impl fmt::Debug for Lamd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lamd")
            .field("own", &self.own)
            .field("is_cut", &self.is_cut)
            .finish_non_exhaustive()
    }
}

impl Lamd {
    /// `socket` leads to the relay ([`parcel::pair`]). The caller sleeps on `poller`.
    pub fn new(own: u32, socket: OwnedFd, poller: Arc<Poller>, tell: Tell) -> io::Result<Lamd> {
        parcel::set_nonblocking(&socket)?;
        poller.add(&socket, SOCKET, false)?;
        Ok(Lamd {
            own,
            socket,
            poller,
            tell,
            packet: vec![0; MAX_PACKET],
            part: Vec::new(),
            wants_room: false,
            is_starved: false,
            is_cut: false,
            ended: HashSet::new(),
            end_queries: HashSet::new(),
            lost: HashSet::new(),
            sent: Traffic::default(),
            received: Traffic::default(),
        })
    }

    fn cut(&mut self) {
        if !std::mem::replace(&mut self.is_cut, true) {
            self.poller.remove(&self.socket);
        }
    }

    fn post(&mut self, pieces: &[Bytes<'_>], file: Option<&OwnedFd>) -> Sent {
        let mut is_patient = true;
        while !self.is_cut {
            let Err(error) = parcel::send(&self.socket, pieces, file.map(|file| file.as_fd()))
            else {
                return Sent::Done;
            };
            if error.kind() == io::ErrorKind::WouldBlock {
                if std::mem::take(&mut is_patient) {
                    parcel::wait_for_room(&self.socket, ROOM);
                    continue;
                }
                self.wants_room = true;
                // This fails only for a descriptor that was not added.
                let _ = self.poller.change(&self.socket, SOCKET, true);
                break;
            }
            self.refused(&error);
            break;
        }
        Sent::Full
    }

    fn refused(&mut self, error: &io::Error) {
        if parcel::is_full(error) {
            self.is_starved = true;
            self.poller.set_clock(Some(STARVED));
        } else if parcel::is_bad_address(error) {
            let own = self.own;
            self.give_up(&format!(
                "rank {own} cannot send: the buffer of a message is not readable memory"
            ));
        } else {
            self.cut();
        }
    }

    /// The kernel's SIGSEGV also ends a process that reads there itself.
    fn give_up(&self, text: &str) -> ! {
        (self.tell)(text);
        std::process::abort();
    }

    fn pack(&mut self, body: &Body<'_>) -> io::Result<OwnedFd> {
        let file = parcel::new_file()?;
        if let Body::Bytes(bytes) = body {
            parcel::write_all(&file, *bytes, 0)?;
            return Ok(file);
        }
        self.part.resize(PART, 0);
        let mut at = 0;
        while at < body.len() {
            let part = &mut self.part[..PART.min(body.len() - at)];
            body.fill(at, BytesMut::from(&mut *part));
            parcel::write_all(&file, Bytes::from(&*part), at as u64)?;
            at += part.len();
        }
        Ok(file)
    }

    fn take(&mut self, bytes: usize, file: Option<OwnedFd>, sink: &mut dyn FrameSink) {
        let packet = match Packet::read(&self.packet[..bytes], None) {
            Ok(packet) => packet,
            Err(error) => self.give_up(&format!(
                "rank {}: the daemon has sent an invalid packet: {error}",
                self.own
            )),
        };
        let (Packet { kind, peer, length, body, .. }, got) = (packet, packet.got);
        if let Some(got) = &got {
            self.received.note(&got.frame, length as usize);
        }
        match (kind, got, file) {
            (PacketKind::Message, Some(got), _) => {
                dispatch(peer, &got, body.len(), Bytes::from(body), sink);
            }
            (PacketKind::File, Some(got), Some(file)) => {
                self.part.resize(PART, 0);
                let mut at = 0;
                while at < length {
                    let part = &mut self.part[..(length - at).min(PART as u64) as usize];
                    if let Err(error) = parcel::read_all(&file, part, at) {
                        let own = self.own;
                        self.give_up(&format!(
                            "rank {own} cannot read a message from process {peer}: {error}"
                        ));
                    }
                    if at == 0 {
                        dispatch(peer, &got, length as usize, Bytes::from(&*part), sink);
                    } else {
                        sink.more(peer, at as usize, Bytes::from(&*part));
                    }
                    at += part.len() as u64;
                }
            }
            (PacketKind::Answer, ..) => {
                self.ended.insert(peer);
                sink.left(peer);
            }
            _ => self.give_up(&format!(
                "rank {}: the daemon has sent {packet:?} without its data",
                self.own
            )),
        }
    }

    /// Requests a report from the relay when a process has ended and all its messages have arrived.
    fn query_end(&mut self, peer: u32) -> Sent {
        if self.end_queries.contains(&peer) {
            return Sent::Done;
        }
        let question =
            PacketHeader { kind: PacketKind::Question, frame: 0, peer, length: 0 }.encode();
        let sent = self.post(&[Bytes::from(&question)], None);
        if sent == Sent::Done {
            self.end_queries.insert(peer);
        }
        sent
    }
}

impl Transport for Lamd {
    fn name(&self) -> &'static str {
        "lamd"
    }

    /// By rule 1 there is no limit. Only a message of a process to itself may wait for its receive.
    fn limits(&self, to: u32) -> Limits {
        Limits { eager: if to == self.own { INLINE } else { usize::MAX }, announced: 0 }
    }

    fn piece_limit(&mut self, _to: u32) -> usize {
        PIECE
    }

    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable> {
        if !self.lost.is_empty() && self.lost.contains(&to) {
            return Err(Unreachable { peer: to, why: "its process has ended".into() });
        }
        let needs_answer = matches!(message.frame, Frame::Withdraw { .. } | Frame::AskLast { .. });
        if self.is_cut || needs_answer && self.query_end(to) != Sent::Done {
            return Ok(Sent::Full);
        }
        let mut frame = [0; MAX_FRAME_LEN];
        let len = message.frame.encode(message.sequence, self.own, &mut frame);
        let (body, length) = (&message.body, message.body.len());
        let kind = if length <= INLINE { PacketKind::Message } else { PacketKind::File };
        let header =
            PacketHeader { kind, frame: len as u8, peer: to, length: length as u64 }.encode();
        let (header, frame) = (Bytes::from(&header), Bytes::from(&frame[..len]));
        let sent = match (kind, body) {
            (PacketKind::File, body) => match self.pack(body) {
                Ok(file) => self.post(&[header, frame], Some(&file)),
                Err(error) => {
                    self.refused(&error);
                    Sent::Full
                }
            },
            (_, Body::Bytes(bytes)) => self.post(&[header, frame, *bytes], None),
            (_, body) => {
                let mut part = std::mem::take(&mut self.part);
                part.resize(PART, 0);
                body.fill(0, BytesMut::from(&mut part[..length]));
                let sent = self.post(&[header, frame, Bytes::from(&part[..length])], None);
                self.part = part;
                sent
            }
        };
        if sent == Sent::Done {
            self.sent.note(&message.frame, length);
        }
        Ok(sent)
    }

    fn poll(&mut self, _except: Option<u32>, sink: &mut dyn FrameSink) -> bool {
        if std::mem::take(&mut self.is_starved) {
            self.poller.set_clock(None);
        }
        if std::mem::take(&mut self.wants_room) && !self.is_cut {
            let _ = self.poller.change(&self.socket, SOCKET, false);
        }
        let mut any = false;
        for _ in 0..READS {
            if self.is_cut {
                break;
            }
            match parcel::receive(&self.socket, &mut self.packet) {
                Ok((0, _)) => self.cut(),
                Ok((bytes, file)) => {
                    any = true;
                    self.take(bytes, file, sink);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                // For example, there is no free descriptor for that of the packet.
                Err(error) => self
                    .give_up(&format!("rank {} cannot receive from the daemon: {error}", self.own)),
            }
        }
        any
    }

    fn announce_waiting(&mut self, _peer: u32) -> bool {
        // Room in the socket is an event, or the clock rings.
        true
    }
}

impl Membership for Lamd {
    fn has_left(&mut self, peer: u32) -> bool {
        self.ended.contains(&peer)
    }

    fn await_end(&mut self, peer: u32, sink: &mut dyn FrameSink) {
        if self.ended.contains(&peer) {
            return;
        }
        while !self.is_cut && self.query_end(peer) != Sent::Done {
            // The kernel may have no memory, and no event reports when it has some again.
            if !self.poll(None, sink) {
                parcel::wait_for_packet(&self.socket, STARVED);
            }
        }
        while !self.is_cut && !self.ended.contains(&peer) {
            if !self.poll(None, sink) {
                // Other descriptors of the poller may be ready, and are not polled now.
                parcel::wait_for_packet(&self.socket, ROOM);
            }
        }
    }

    fn remove_failed(&mut self, peer: u32) {
        self.lost.insert(peer);
    }
}

impl Statistics for Lamd {
    fn count(&mut self, counts: &mut Counts) {
        counts.connections += u64::from(!self.is_cut);
        counts.connections_made += 1;
        counts.far_sent += self.sent;
        counts.far_received += self.received;
    }
}
