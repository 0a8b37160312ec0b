//! The relay of a node, which passes on the messages of the node's processes: to each other, and to
//! the relays of other nodes.
//!
//! The launcher reports over a control socket which processes exist and on which nodes ([`Order`]).
//! The relay ends with that socket.
//!
//! Rules
//! 1. The relay reads from every process at any time, and never waits to write. Data that a
//!    receiver does not take stay in a queue of that receiver, and delay no other receiver.
//! 2. Messages from one process to another stay in order, in one queue on each node.
//! 3. If a process sends bytes that are no packet, the relay stops serving that process alone, and
//!    notifies the launcher.
//! 4. If the launcher has not reported the node of a receiver yet, or the receiver has not fetched
//!    its socket yet, the message waits. A message for a process that has ended is dropped.
//! 5. A message to a node that the launcher has reported as lost is dropped, and all messages of
//!    its processes count as passed on.
//! 6. At most [`Relay::new`]'s number of files stay open while their messages wait. The relay keeps
//!    the content of other files in memory.

mod far;
mod parcels;

use self::far::FarRelays;
use self::parcels::{Parcel, ParcelBody, ParcelQueue};
use crate::tcp::{Address, TcpSettings};
use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::net::Listener;
use oxmpi_sys::parcel;
use oxmpi_sys::poller::{CLOCK, Poller, Ready};
use oxmpi_wire::relay::{
    MAX_ORDER, MAX_PACKET, Notice, Order, Packet, PacketHeader, PacketKind, readdress,
};
use std::collections::{HashMap, HashSet};
use std::io;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The names of descriptors in the poller: a kind, plus a number below 2^32.
const CONTROL: u64 = 1 << 32;
const PROCESS: u64 = 2 << 32;
const RELAYS: u64 = 3 << 32;

/// The bytes of a file that one call reads or writes: they fit into a cache.
pub(crate) const PART: usize = 256 << 10;
/// The number of packets taken from a process before the next one is served.
const READS: usize = 64;
/// Exclusive.
const MOST_PROCESSES: u32 = 1 << 24;
const NOWHERE: u32 = u32::MAX;
/// The pause after the kernel had no memory or no descriptors for a message.
const STARVED: Duration = Duration::from_millis(10);
/// The default time for attempts to reach another relay. It is longer than an agent may be silent
/// before the launcher reports its host as lost, which a job may survive.
const PATIENCE: Duration = Duration::from_secs(90);

#[derive(Debug, Default)]
struct Member {
    socket: Option<OwnedFd>,
    queue: ParcelQueue,
    wants_room: bool,
    writes_failed: bool,
    /// Whether the process has ended, and all its messages were passed on.
    has_ended: bool,
    /// The processes that wait for an answer about that.
    requesters: Vec<u32>,
}

/// The reason why a relay ends before the launcher ends it; for the user.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct RelayError(pub String);

/// The relay of a node.
#[derive(Debug)]
pub struct Relay {
    node: u32,
    control: OwnedFd,
    poller: Poller,
    members: HashMap<u32, Member>,
    places: Vec<u32>,
    unplaced: HashMap<u32, Vec<Parcel>>,
    far: Option<FarRelays>,
    /// Open requests about the end of a process on another node: requester, process.
    end_queries: Vec<(u32, u32)>,
    lost: HashSet<u32>,
    files: usize,
    most_files: usize,
    patience: Duration,
    packet: Vec<u8>,
}

enum Launcher {
    Stays,
    Gone,
}

impl Relay {
    /// `control`: the relay's control socket ([`parcel::pair`]). At most `most_files` files stay
    /// open.
    pub fn new(control: OwnedFd, most_files: usize) -> io::Result<Relay> {
        parcel::set_nonblocking(&control)?;
        let poller = Poller::new()?;
        poller.add(&control, CONTROL, false)?;
        Ok(Relay {
            node: 0,
            control,
            poller,
            members: HashMap::new(),
            places: Vec::new(),
            unplaced: HashMap::new(),
            far: None,
            end_queries: Vec::new(),
            lost: HashSet::new(),
            files: 0,
            most_files,
            patience: PATIENCE,
            packet: vec![0; MAX_PACKET],
        })
    }

    /// Sets the longest time for attempts to reach another relay (default 90 s).
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Relay {
        Relay { patience, ..self }
    }

    /// Passes on messages until the launcher closes the control socket.
    ///
    /// # Errors
    /// The relay cannot continue; it has notified the launcher.
    pub fn run(mut self) -> Result<(), RelayError> {
        let ended = self.serve();
        if let Err(RelayError(text)) = &ended {
            let notice = Notice::Lost { text: text.clone() }.encode();
            // A launcher that does not read the notice still detects the end of the relay.
            let _ = parcel::send(&self.control, &[Bytes::from(&notice[..])], None);
        }
        ended
    }

    fn serve(&mut self) -> Result<(), RelayError> {
        let mut ready = Vec::new();
        loop {
            self.poller.await_any(&mut ready);
            for Ready { name, readable, writable } in ready.drain(..) {
                let number = name as u32;
                match name & !u64::from(u32::MAX) {
                    CONTROL => {
                        if let Launcher::Gone = self.take_orders()? {
                            return Ok(());
                        }
                    }
                    PROCESS => {
                        if writable {
                            self.flush(number);
                        }
                        if readable {
                            self.receive_from(number, READS)?;
                        }
                    }
                    RELAYS => self.receive_from_relays()?,
                    _ if name == CLOCK => self.flush_all()?,
                    _ => {}
                }
            }
        }
    }

    fn take_orders(&mut self) -> Result<Launcher, RelayError> {
        let mut bytes = [0; MAX_ORDER];
        loop {
            let (n, fd) = match parcel::receive(&self.control, &mut bytes) {
                Ok((0, _)) => return Ok(Launcher::Gone),
                Ok(got) => got,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    return Ok(Launcher::Stays);
                }
                Err(error) => {
                    return Err(RelayError(format!("it cannot receive from mpirun: {error}")));
                }
            };
            let order =
                Order::decode(&bytes[..n]).map_err(|error| RelayError(error.to_string()))?;
            self.carry_out(order, fd)?;
        }
    }

    fn carry_out(&mut self, order: Order, fd: Option<OwnedFd>) -> Result<(), RelayError> {
        let kernel = |error: io::Error| RelayError(format!("the kernel refuses: {error}"));
        match order {
            Order::Begin { job, node, nodes, secret, encrypt } => {
                self.node = node;
                if let Some(fd) = fd {
                    let listener = Listener::from_fd(fd).map_err(kernel)?;
                    let settings = TcpSettings {
                        buffers: None,
                        patience: self.patience,
                        encrypt,
                        ..TcpSettings::default()
                    };
                    let far = FarRelays::new((job, node, nodes), secret, listener, settings)
                        .map_err(kernel)?;
                    self.poller.add(far.poller(), RELAYS, false).map_err(kernel)?;
                    self.far = Some(far);
                }
            }
            Order::Process { number } => {
                let Some(socket) = fd else {
                    return Err(RelayError(format!(
                        "mpirun has sent no socket for process {number}"
                    )));
                };
                parcel::set_nonblocking(&socket).map_err(kernel)?;
                self.poller.add(&socket, PROCESS | u64::from(number), false).map_err(kernel)?;
                self.members.entry(number).or_default().socket = Some(socket);
                self.flush(number);
            }
            Order::Ended { number } => {
                while self.receive_from(number, READS)? {}
                self.end_process(number)?;
            }
            Order::Relay { node, name, addresses } => {
                let parsed = Address::list(&addresses);
                let addresses =
                    parsed.map_err(|why| RelayError(format!("the daemon of {name}: {why}")))?;
                if let Some(far) = &self.far {
                    far.tell_address(node, name, addresses);
                }
            }
            Order::Lost { node } => self.lose(node)?,
            Order::Places { first, count, node } => {
                let end = first.saturating_add(count);
                if end > MOST_PROCESSES {
                    return Err(RelayError(format!(
                        "process {end} is above the limit of {MOST_PROCESSES} processes"
                    )));
                }
                if self.places.len() < end as usize {
                    self.places.resize(end as usize, NOWHERE);
                }
                self.places[first as usize..end as usize].fill(node);
                let placed: Vec<u32> = self
                    .unplaced
                    .keys()
                    .copied()
                    .filter(|number| (first..end).contains(number))
                    .collect();
                for number in placed {
                    for parcel in self.unplaced.remove(&number).unwrap_or_default() {
                        self.route(number, parcel)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes at most `most` packets of a process. Returns whether more may wait.
    fn receive_from(&mut self, number: u32, most: usize) -> Result<bool, RelayError> {
        for _ in 0..most {
            let Some(socket) = self.members.get(&number).and_then(|member| member.socket.as_ref())
            else {
                return Ok(false);
            };
            match parcel::receive(socket, &mut self.packet) {
                Ok((0, _)) => {
                    self.end_process(number)?;
                    return Ok(false);
                }
                Ok((bytes, file)) => {
                    if let Err(why) = self.pass_on(number, bytes, file)? {
                        self.reject(number, why);
                        return Ok(false);
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => {
                    self.reject(number, error.to_string());
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Passes on a packet of process `from`. The inner error concerns the packet (rule 3).
    fn pass_on(
        &mut self,
        from: u32,
        bytes: usize,
        file: Option<OwnedFd>,
    ) -> Result<Result<(), String>, RelayError> {
        let packet = match Packet::read(&self.packet[..bytes], Some(from)) {
            Ok(packet) => packet,
            Err(error) => return Ok(Err(error.to_string())),
        };
        let (to, kind, length) = (packet.peer, packet.kind, packet.length);
        let load = match (kind, file) {
            (PacketKind::Answer, _) => return Ok(Err("an answer without a request".into())),
            (PacketKind::File, Some(file)) if parcel::has_length(&file, length) => {
                ParcelBody::File(file)
            }
            (PacketKind::File, _) => {
                return Ok(Err(format!("a message of {length} bytes without its file")));
            }
            _ => ParcelBody::None,
        };
        readdress(&mut self.packet[..bytes], from);
        if self.is_here(to)
            && kind != PacketKind::Question
            && let Some(Member { socket: Some(socket), queue, writes_failed: false, .. }) =
                self.members.get(&to)
            && queue.is_empty()
            && parcel::send(socket, &[Bytes::from(&self.packet[..bytes])], load.file()).is_ok()
        {
            return Ok(Ok(()));
        }
        let parcel = Parcel { packet: self.packet[..bytes].to_vec(), length, load };
        self.route(to, parcel).map(Ok)
    }

    fn is_here(&self, number: u32) -> bool {
        self.places.get(number as usize) == Some(&self.node)
    }

    fn route(&mut self, to: u32, parcel: Parcel) -> Result<(), RelayError> {
        let place = self.places.get(to as usize).copied().unwrap_or(NOWHERE);
        match &mut self.far {
            _ if place == NOWHERE => {
                self.unplaced.entry(to).or_default().push(parcel);
                // The launcher sends the node of a process to this relay before it sends the
                // process's number to the sender: the order is already here.
                self.take_orders()?;
            }
            _ if place == self.node => self.arrive(to, parcel)?,
            _ if self.lost.contains(&place) => {
                if parcel.is_question() {
                    self.answer_end(parcel.peer(), to)?;
                }
            }
            Some(far) => {
                if parcel.is_question() {
                    self.end_queries.push((parcel.peer(), to));
                }
                let parcel =
                    parcel.into_kept(&mut self.files, self.most_files).map_err(unreadable)?;
                far.send(place, to, parcel, &mut self.files)?;
            }
            None => {
                return Err(RelayError(format!(
                    "process {to} is on node {place}, to which there is no connection"
                )));
            }
        }
        Ok(())
    }

    fn arrive(&mut self, to: u32, parcel: Parcel) -> Result<(), RelayError> {
        if parcel.is_question() {
            let requester = parcel.peer();
            let member = self.members.entry(to).or_default();
            if !member.has_ended {
                member.requesters.push(requester);
                return Ok(());
            }
            return self.answer_end(requester, to);
        }
        if parcel.is_answer() {
            self.end_queries.retain(|query| *query != (to, parcel.peer()));
        }
        let member = self.members.entry(to).or_default();
        if member.writes_failed || member.has_ended {
            return Ok(());
        }
        let parcel = parcel.into_kept(&mut self.files, self.most_files).map_err(unreadable)?;
        member.queue.push(parcel);
        self.flush(to);
        Ok(())
    }

    fn flush(&mut self, number: u32) {
        let Some(member) = self.members.get_mut(&number) else { return };
        let Some(socket) = &member.socket else { return };
        let mut wants_room = false;
        while let Some(parcel) = member.queue.front() {
            match parcel.send(socket) {
                Ok(()) => member.queue.pop(&mut self.files),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    wants_room = true;
                    break;
                }
                Err(error) if parcel::is_full(&error) => {
                    self.poller.set_clock(Some(STARVED));
                    break;
                }
                Err(_) => {
                    member.writes_failed = true;
                    member.queue.clear(&mut self.files);
                }
            }
        }
        if wants_room != std::mem::replace(&mut member.wants_room, wants_room) {
            // This fails only for a descriptor that was not added.
            let _ = self.poller.change(socket, PROCESS | u64::from(number), wants_room);
        }
    }

    fn flush_all(&mut self) -> Result<(), RelayError> {
        let waiting: Vec<u32> = self
            .members
            .iter()
            .filter(|(_, member)| !member.queue.is_empty())
            .map(|(number, _)| *number)
            .collect();
        waiting.into_iter().for_each(|number| self.flush(number));
        match &mut self.far {
            Some(far) => far.flush(&mut self.files),
            None => Ok(()),
        }
    }

    fn receive_from_relays(&mut self) -> Result<(), RelayError> {
        let Some(far) = &mut self.far else { return Ok(()) };
        let came = far.receive(&mut self.files)?;
        // Notices go over the control socket, so that they arrive before the end of the job.
        for text in far.take_texts() {
            let _ = parcel::send(
                &self.control,
                &[Bytes::from(&Notice::Said { text }.encode()[..])],
                None,
            );
        }
        for (to, parcel) in came {
            self.arrive(to, parcel)?;
        }
        Ok(())
    }

    fn lose(&mut self, node: u32) -> Result<(), RelayError> {
        self.lost.insert(node);
        // Frames that have already arrived from that node count.
        self.receive_from_relays()?;
        if let Some(far) = &mut self.far {
            far.remove_failed(node, &mut self.files);
        }
        let places = &self.places;
        let is_there = |about: u32| places.get(about as usize) == Some(&node);
        let (answered, open) = self.end_queries.drain(..).partition(|(_, about)| is_there(*about));
        self.end_queries = open;
        let answered: Vec<(u32, u32)> = answered;
        answered.into_iter().try_for_each(|(requester, about)| self.answer_end(requester, about))
    }

    fn end_process(&mut self, number: u32) -> Result<(), RelayError> {
        let member = self.members.entry(number).or_default();
        if let Some(socket) = member.socket.take() {
            self.poller.remove(&socket);
        }
        member.queue.clear(&mut self.files);
        if std::mem::replace(&mut member.has_ended, true) {
            return Ok(());
        }
        for requester in std::mem::take(&mut member.requesters) {
            self.answer_end(requester, number)?;
        }
        Ok(())
    }

    fn answer_end(&mut self, requester: u32, number: u32) -> Result<(), RelayError> {
        let header = PacketHeader { kind: PacketKind::Answer, frame: 0, peer: number, length: 0 };
        let parcel = Parcel { packet: header.encode().to_vec(), length: 0, load: ParcelBody::None };
        self.route(requester, parcel)
    }

    fn reject(&mut self, number: u32, why: String) {
        let notice = Notice::Wrong { number, text: why }.encode();
        let _ = parcel::send(&self.control, &[Bytes::from(&notice[..])], None);
        if let Some(member) = self.members.get_mut(&number) {
            if let Some(socket) = member.socket.take() {
                self.poller.remove(&socket);
            }
            member.writes_failed = true;
            member.queue.clear(&mut self.files);
        }
    }
}

fn unreadable(error: io::Error) -> RelayError {
    RelayError(format!("a long message cannot be read: {error}"))
}
