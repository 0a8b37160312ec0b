//! The connections between relays. They are connections of [`Tcp`], authenticated by the secret of
//! the job and made again when they break.
//!
//! A parcel goes as consecutive records: first its packet, then the content of its file in parts.
//! The record of a packet is a [`Frame::Data`] at offset 0; its receiver is the process for which
//! the packet is. The record of a part has the offset of the part in the file, plus 1.

use super::parcels::{Parcel, ParcelBody};
use super::{PART, RelayError};
use crate::tcp::{Address, Identity, PeerLocation, Secret, Tcp, TcpSettings};
use crate::{Body, FrameSink, Membership as _, OutgoingMessage, Sent, Transport as _};
use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::net::Listener;
use oxmpi_sys::parcel;
use oxmpi_sys::poller::Poller;
use oxmpi_wire::relay::{MAX_PACKET, Packet, PacketKind};
use oxmpi_wire::{Announced, ContextId, Envelope, Frame};
use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// By node: its name for the user, and the addresses of its relay.
type Addresses = Arc<Mutex<HashMap<u32, (String, Vec<Address>)>>>;

#[derive(Debug, Default)]
struct RelayQueue {
    queue: VecDeque<(u32, Parcel)>,
    /// The position in the first parcel: 0, or 1 plus a position in its file.
    at: u64,
}

#[derive(Debug)]
pub(super) struct FarRelays {
    tcp: Tcp,
    poller: Arc<Poller>,
    out: HashMap<u32, RelayQueue>,
    arrivals: Arrivals,
    addresses: Addresses,
    texts: Arc<Mutex<Vec<String>>>,
    part: Vec<u8>,
}

impl FarRelays {
    pub(super) fn new(
        (job, node, nodes): (u64, u32, u32),
        secret: [u8; 32],
        listener: Listener,
        settings: TcpSettings,
    ) -> io::Result<FarRelays> {
        let poller = Arc::new(Poller::new()?);
        let own = Identity { job, rank: node, size: nodes, incarnation: 1 };
        let (addresses, texts) = (Addresses::default(), Arc::<Mutex<Vec<String>>>::default());
        let (known, tell) = (addresses.clone(), texts.clone());
        let find = move |node: u32| {
            let found = known.lock().unwrap_or_else(PoisonError::into_inner).get(&node).cloned();
            found
                .map(|(_, addresses)| PeerLocation::At(addresses))
                .ok_or_else(|| "its address is not known".to_string())
        };
        let names = addresses.clone();
        let tell = move |text: &str| {
            let text = with_names(text, &names);
            tell.lock().unwrap_or_else(PoisonError::into_inner).push(text);
        };
        let tcp = Tcp::new(
            own,
            Secret(secret),
            settings,
            (listener, poller.clone()),
            Box::new(find),
            Box::new(tell),
        )?;
        let (out, arrivals, part) = (HashMap::new(), Arrivals::default(), Vec::new());
        Ok(FarRelays { tcp, poller, out, arrivals, addresses, texts, part })
    }

    pub(super) fn poller(&self) -> &Poller {
        &self.poller
    }

    pub(super) fn tell_address(&self, node: u32, name: String, addresses: Vec<Address>) {
        self.addresses
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .insert(node, (name, addresses));
    }

    /// The relay of a node is lost: drops the parcels for it.
    pub(super) fn remove_failed(&mut self, node: u32, files: &mut usize) {
        self.tcp.remove_failed(node);
        let out = self.out.remove(&node).unwrap_or_default();
        out.queue.iter().for_each(|(_, parcel)| parcel.release(files));
        self.arrivals.of.remove(&node);
    }

    pub(super) fn send(
        &mut self,
        node: u32,
        to: u32,
        parcel: Parcel,
        files: &mut usize,
    ) -> Result<(), RelayError> {
        self.out.entry(node).or_default().queue.push_back((to, parcel));
        self.flush_to(node, files)
    }

    pub(super) fn flush(&mut self, files: &mut usize) -> Result<(), RelayError> {
        let waiting: Vec<u32> = self
            .out
            .iter()
            .filter(|(_, out)| !out.queue.is_empty())
            .map(|(node, _)| *node)
            .collect();
        waiting.into_iter().try_for_each(|node| self.flush_to(node, files))
    }

    fn flush_to(&mut self, node: u32, files: &mut usize) -> Result<(), RelayError> {
        let FarRelays { tcp, out, part, texts, addresses, .. } = self;
        let Some(out) = out.get_mut(&node) else { return Ok(()) };
        while let Some((to, parcel)) = out.queue.front() {
            let body = match (out.at, &parcel.load) {
                (0, _) => &parcel.packet[..],
                (at, ParcelBody::Content(content)) => {
                    let from = (at - 1) as usize;
                    &content[from..content.len().min(from + PART)]
                }
                (at, ParcelBody::File(file)) => {
                    part.resize(PART, 0);
                    let part = &mut part[..(parcel.length - (at - 1)).min(PART as u64) as usize];
                    parcel::read_all(file, part, at - 1).map_err(super::unreadable)?;
                    part
                }
                (_, ParcelBody::None) => &[],
            };
            let frame = Frame::Data { receiver: (*to).into(), offset: out.at };
            let message = OutgoingMessage::new(frame, Body::Bytes(Bytes::from(body)));
            match tcp.send(node, &message) {
                Ok(Sent::Done | Sent::Later) => {}
                Ok(Sent::Full) => return Ok(()),
                Err(error) => return Err(lost(texts, addresses, node, &error.why)),
            }
            out.at = if out.at == 0 { 1 } else { out.at + body.len() as u64 };
            if matches!(parcel.load, ParcelBody::None) || out.at > parcel.length {
                parcel.release(files);
                out.queue.pop_front();
                out.at = 0;
            }
        }
        Ok(())
    }

    pub(super) fn take_texts(&self) -> Vec<String> {
        std::mem::take(&mut *self.texts.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Takes the arrived parcels with their receivers, and sends waiting ones.
    pub(super) fn receive(&mut self, files: &mut usize) -> Result<Vec<(u32, Parcel)>, RelayError> {
        self.tcp.poll(None, &mut self.arrivals);
        if let Some((node, why)) = self.arrivals.trouble.take() {
            return Err(lost(&self.texts, &self.addresses, node, &why));
        }
        self.flush(files)?;
        Ok(std::mem::take(&mut self.arrivals.whole))
    }
}

fn lost(texts: &Mutex<Vec<String>>, names: &Addresses, node: u32, why: &str) -> RelayError {
    match texts.lock().unwrap_or_else(PoisonError::into_inner).pop() {
        Some(text) => RelayError(text),
        None => RelayError(with_names(&format!("rank {node}: {why}"), names)),
    }
}

/// Replaces ranks by names of relays in a text of [`Tcp`].
fn with_names(text: &str, names: &Addresses) -> String {
    let names = names.lock().unwrap_or_else(PoisonError::into_inner);
    let mut parts = text.split("rank ");
    let mut out = parts.next().unwrap_or_default().to_string();
    for part in parts {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (node, rest) = part.split_at(digits);
        let known = node.parse().ok().and_then(|node: u32| names.get(&node));
        match known {
            Some((name, _)) => out += &format!("the daemon of {name}{rest}"),
            None => out += &format!("the daemon of node {part}"),
        }
    }
    out
}

#[derive(Debug, Default)]
struct ArrivingParcel {
    /// The arriving record.
    to: u32,
    offset: u64,
    total: usize,
    have: usize,
    packet: Vec<u8>,
    /// The file, its final length, and the length so far.
    file: Option<(OwnedFd, u64, u64)>,
}

#[derive(Debug, Default)]
struct Arrivals {
    of: HashMap<u32, ArrivingParcel>,
    whole: Vec<(u32, Parcel)>,
    /// The node whose relay is unreachable or sends invalid data, and the reason.
    trouble: Option<(u32, String)>,
}

impl ArrivingParcel {
    /// Takes the next part of a record. Returns a complete parcel.
    fn take(&mut self, part: Bytes<'_>) -> Result<Option<Parcel>, String> {
        let start = self.have;
        self.have += part.len();
        if self.offset == 0 {
            part.append_to(&mut self.packet);
            return if self.have == self.total { self.open() } else { Ok(None) };
        }
        let Some((file, length, have)) = &mut self.file else {
            return Err("it sends a part without a message".into());
        };
        let at = self.offset - 1 + start as u64;
        if at != *have || at + part.len() as u64 > *length {
            return Err(format!(
                "it sends byte {at} of a message of {length} bytes instead of byte {have}"
            ));
        }
        parcel::write_all(&*file, part, at)
            .map_err(|error| format!("a message cannot be kept: {error}"))?;
        *have += part.len() as u64;
        let is_whole = *have == *length;
        Ok(if is_whole {
            self.file.take().map(|(file, length, _)| self.parcel(length, ParcelBody::File(file)))
        } else {
            None
        })
    }

    fn open(&mut self) -> Result<Option<Parcel>, String> {
        let packet = Packet::read(&self.packet, None).map_err(|error| error.to_string())?;
        if packet.kind != PacketKind::File {
            return Ok(Some(self.parcel(packet.length, ParcelBody::None)));
        }
        let length = packet.length;
        let file =
            parcel::new_file().map_err(|error| format!("a message cannot be kept: {error}"))?;
        self.file = Some((file, length, 0));
        Ok(None)
    }

    fn parcel(&mut self, length: u64, load: ParcelBody) -> Parcel {
        Parcel { packet: std::mem::take(&mut self.packet), length, load }
    }
}

impl Arrivals {
    fn part(&mut self, from: u32, part: Bytes<'_>) {
        let coming = self.of.entry(from).or_default();
        match coming.take(part) {
            Ok(None) => {}
            Ok(Some(parcel)) => self.whole.push((coming.to, parcel)),
            Err(why) => self.wrong(from, &why),
        }
    }

    fn wrong(&mut self, from: u32, why: &str) {
        self.trouble.get_or_insert_with(|| (from, why.to_string()));
    }

    fn foreign(&mut self, from: u32) {
        self.wrong(from, "it sends invalid records");
    }
}

impl FrameSink for Arrivals {
    fn data(&mut self, from: u32, receiver: u64, offset: u64, total: usize, first: Bytes<'_>) {
        let coming = self.of.entry(from).or_default();
        let is_next = (offset == 0) == coming.file.is_none();
        let Ok(to) = u32::try_from(receiver) else { return self.foreign(from) };
        if !is_next || total == 0 || total > MAX_PACKET.max(PART) {
            return self.foreign(from);
        }
        (coming.to, coming.offset, coming.total, coming.have) = (to, offset, total, 0);
        self.part(from, first);
    }

    fn more(&mut self, from: u32, _offset: usize, part: Bytes<'_>) {
        self.part(from, part);
    }

    fn sent(&mut self, _token: u64) {}

    fn lost(&mut self, peer: u32) {
        self.wrong(peer, "it cannot be reached any more");
    }

    fn eager(&mut self, from: u32, _: u8, _: Envelope, _: usize, _: Bytes<'_>) {
        self.foreign(from);
    }

    fn eager_sync(&mut self, from: u32, _: u8, _: Envelope, _: u64, _: usize, _: Bytes<'_>) {
        self.foreign(from);
    }

    fn rendezvous(&mut self, from: u32, _: u8, _: Envelope, _: Announced, _: Bytes<'_>) {
        self.foreign(from);
    }

    fn sync_ack(&mut self, from: u32, _: u64) {
        self.foreign(from);
    }

    fn pull(&mut self, from: u32, _: u64, _: u64, _: u64, _: bool) {
        self.foreign(from);
    }

    fn fin(&mut self, from: u32, _: u64) {
        self.foreign(from);
    }

    fn withdraw(&mut self, from: u32, _: u64, _: u64) {
        self.foreign(from);
    }

    fn withdrawn(&mut self, from: u32, _: u64) {
        self.foreign(from);
    }

    fn learn(&mut self, from: u32, _: ContextId, _: u32) {
        self.foreign(from);
    }
}
