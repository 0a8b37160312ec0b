//! Attempts to connect, greetings of both sides, and failures of connections (rules 3, 4 and 7 of
//! the module).

use super::greeting::{Acceptor, Initiator};
use super::greetings::GreetingEvent;
use super::peer::{Bond, ConnectionFailure, ConnectionState, FailureKind};
use super::record::Point;
use super::sealed::Sealed;
use super::settings::wants_encryption;
use super::{Address, GREETING, PEER, PeerLocation, RecordError, Tcp, attempts, greetings};
use crate::{Connected, FrameSink};
use oxmpi_sys::net::{Socket, fill_random};
use oxmpi_wire::noise::Cipher;
use std::io::ErrorKind;
use std::time::Duration;

/// The time for the lower rank to connect again before the higher rank does.
const LOWER_RANK_FIRST: Duration = Duration::from_millis(20);
/// The pause in accepting connections while the process has no free descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// The longest wait for a kernel's answer to an attempt to connect.
const CONNECTING: Duration = Duration::from_secs(5);
/// A connection used for this time counts as a success, even if nothing arrived over it.
const STABLE: Duration = Duration::from_secs(1);

impl Tcp {
    pub(super) fn end_connection(&mut self, at: u32, state: ConnectionState) {
        let poller = self.poller.clone();
        self.forget_watched(at);
        let Some(peer) = self.known(at) else { return };
        if let Some(socket) = peer.state.socket() {
            poller.remove(socket);
        }
        if matches!(state, ConnectionState::Left | ConnectionState::Lost(_)) {
            peer.link.clear(matches!(state, ConnectionState::Lost(_)));
        }
        peer.state = state;
        (peer.is_blocked, peer.is_broken, peer.wants_room) = (false, false, false);
        peer.starved_until = None;
        self.news.push(at);
    }

    /// A connection, or an attempt to make one, has failed: tries again soon, or gives up (rule 4).
    /// Silence is no reason to give up: before each attempt this process queries the launcher
    /// whether the peer still exists.
    pub(super) fn connection_failed(&mut self, at: u32, failure: &ConnectionFailure) {
        let (now, own, patience) = (self.now(), self.own.rank, self.settings.patience);
        let own_job = self.own.job;
        if self.leaving.is_some() {
            // All records are acknowledged, so neither side misses anything.
            return self.end_connection(at, ConnectionState::Left);
        }
        let is_quiet = self.is_quiet;
        let Some(peer) = self.known(at) else { return };
        if is_quiet && peer.link.has_delivered() {
            return self.end_connection(at, ConnectionState::Apart);
        }
        if peer.bond == Bond::None && peer.link.is_settled() {
            return self.end_connection(at, ConnectionState::Apart);
        }
        let was_up = peer.state.connection().is_some();
        if was_up && now.saturating_sub(peer.up_since) > STABLE {
            peer.failures.over();
        }
        let tried = peer.tried.take();
        let is_silent =
            matches!(peer.state, ConnectionState::Connecting { limit, .. } if limit <= now);
        // The peer refuses if attempts cross.
        let is_reached = matches!(peer.state, ConnectionState::Greeting { is_welcome: true, .. });
        if let Some(address) = &tried
            && !is_reached
            && (is_silent
                || peer.alternatives > 1 && !was_up && failure.kind == FailureKind::Unreachable)
            && !peer.skipped.contains(&address.socket)
        {
            peer.skipped.push(address.socket);
            let next = match peer.alternatives {
                2.. => "its other addresses are tried; btl_tcp_if_exclude leaves a network out",
                _ => {
                    "it is tried again; is there a firewall between the hosts, or another network (btl_tcp_if_include)?"
                }
            };
            let text = format!(
                "rank {own} does not reach rank {at} at {}: {}; {next}",
                address.shown(),
                failure.why
            );
            (self.tell)(&text);
        }
        let Some(peer) = self.known(at) else { return };
        let next = match failure.kind {
            FailureKind::Silent => attempts::Retry::Again(peer.failures.unclear()),
            FailureKind::Unreachable | FailureKind::Closed | FailureKind::Refused => {
                peer.failures.failed(now, patience, failure)
            }
        };
        match next {
            attempts::Retry::Again(pause) => {
                let is_lower = peer.other_job.map_or(own < at, |job| own_job < job);
                let mine = is_lower || !peer.link.is_acknowledged() || !was_up;
                let until = now + if mine { pause } else { pause.max(LOWER_RANK_FIRST) };
                self.end_connection(at, ConnectionState::Pause { until });
                self.wake_at(until);
            }
            attempts::Retry::GiveUp { tries, time, reason } => {
                let to = match tried {
                    Some(address) => format!("the last address was {}", address.shown()),
                    None => {
                        self.first_address(at).map_or("no address was found".into(), |address| {
                            format!("its address is {}", address.shown())
                        })
                    }
                };
                let text = format!(
                    "rank {own} cannot reach rank {at} over sockets: {reason}; tried {tries} times in {:.1} s, {to}",
                    time.as_secs_f64()
                );
                (self.tell)(&text);
                let is_missed = self
                    .known(at)
                    .is_some_and(|peer| peer.bond == Bond::Close && !peer.link.has_delivered());
                if is_missed {
                    self.undelivered.get_or_insert_with(|| text.clone());
                }
                self.end_connection(at, ConnectionState::Lost(text));
            }
        }
    }

    fn first_address(&mut self, at: u32) -> Option<Address> {
        match (self.find)(at).ok()? {
            PeerLocation::At(addresses) | PeerLocation::Elsewhere(_, _, addresses) => {
                addresses.into_iter().next()
            }
            PeerLocation::Left => None,
        }
    }

    pub(super) fn connect(&mut self, at: u32) {
        let found = (self.find)(at);
        let buffers = self.settings.buffers;
        let addresses = match found {
            Ok(PeerLocation::At(addresses)) => addresses,
            Ok(PeerLocation::Elsewhere(foreign, secret, addresses)) => {
                let peer = self.peer(at);
                (peer.other_job, peer.foreign) = (Some(foreign.job), Some((foreign, secret)));
                addresses
            }
            Ok(PeerLocation::Left) => return self.end_connection(at, ConnectionState::Left),
            // The end of the peer was not expected.
            Err(why) if self.peer(at).bond != Bond::Close => {
                return self.end_connection(at, ConnectionState::Lost(why));
            }
            Err(why) => return self.connection_failed(at, &why.into()),
        };
        if addresses.is_empty() {
            return self.connection_failed(at, &"it listens nowhere".to_string().into());
        }
        let peer = self.peer(at);
        let address = addresses[peer.attempts as usize % addresses.len()].clone();
        peer.alternatives = addresses.len();
        peer.attempts = peer.attempts.wrapping_add(1);
        let to = address.socket;
        peer.tried = Some(address);
        let connected = Socket::connect(to, buffers).and_then(|socket| {
            self.poller.add(&socket, PEER | u64::from(at), true).map(|()| socket)
        });
        match connected {
            Ok(socket) => {
                let limit = self.now() + CONNECTING;
                // Only a connected socket has the peer's address. Within a host it is connected at
                // once.
                let is_there = socket.is_within_host();
                self.peer(at).state = ConnectionState::Connecting { socket, limit };
                self.wake_at(limit);
                if is_there {
                    self.on_connected(at);
                }
            }
            Err(error) => self.connection_failed(at, &error.into()),
        }
    }

    pub(super) fn on_connected(&mut self, at: u32) {
        let (own, secret, encrypt) = (self.own, self.secret.clone(), self.settings.encrypt);
        let poller = self.poller.clone();
        let Some(peer) = self.known(at) else { return };
        let ConnectionState::Connecting { socket, .. } = &peer.state else { return };
        let greeted = socket.outcome().and_then(|()| {
            let mut nonce = [0; 32];
            fill_random(&mut nonce)?;
            let encrypt = wants_encryption(encrypt, socket);
            let (mut greeting, hello) = match &peer.foreign {
                Some((foreign, secret)) => {
                    Initiator::to_foreign(own, *foreign, secret, &nonce, encrypt)
                }
                None => Initiator::new(own, at, &secret, &nonce, encrypt),
            }
            .map_err(std::io::Error::other)?;
            greetings::send_whole(socket, &hello)?;
            if peer.connections == 0 && peer.foreign.is_none() && socket.is_within_host() {
                greeting.allow_early();
            }
            poller.change(socket, PEER | u64::from(at), false)?;
            Ok(greeting)
        });
        match greeted {
            Ok(greeting) => {
                if let ConnectionState::Connecting { socket, .. } =
                    std::mem::replace(&mut peer.state, ConnectionState::Apart)
                {
                    peer.state = ConnectionState::Greeting {
                        socket,
                        greeting,
                        got: Vec::new(),
                        is_welcome: false,
                    };
                }
            }
            Err(error) => self.connection_failed(at, &error.into()),
        }
    }

    pub(super) fn on_greeted(&mut self, at: u32) {
        let Some(peer) = self.known(at) else { return };
        match peer.greeted() {
            Ok(None) => {}
            Ok(Some(point)) => {
                if let ConnectionState::Greeting { socket, greeting, .. } =
                    std::mem::replace(&mut peer.state, ConnectionState::Apart)
                {
                    self.begin(at, (socket, greeting.into_cipher()), point);
                }
            }
            Err(failure) => self.connection_failed(at, &failure),
        }
    }

    fn begin(&mut self, at: u32, (socket, cipher): (Socket, Option<Box<Cipher>>), point: Point) {
        let now = self.now();
        socket.tune_within_host();
        let peer = self.peer(at);
        peer.state = match cipher {
            None => ConnectionState::Up(socket),
            Some(cipher) => ConnectionState::Sealed(Box::new(Sealed::new(socket, cipher))),
        };
        peer.up_since = now;
        let before = peer.connections;
        peer.connections = before.saturating_add(1);
        (peer.is_blocked, peer.is_broken, peer.wants_room) = (false, false, false);
        peer.starved_until = None;
        match peer.link.resume(point) {
            // The peer has received something, and the connection broke before its acknowledgement.
            Ok(true) => peer.failures.over(),
            Ok(false) => {}
            Err(error) => return self.connection_failed(at, &error.into()),
        }
        self.news.push(at);
        self.watch.note(Connected { peer: at, before });
        self.write(at);
    }

    pub(super) fn stop_listening(&mut self) {
        for listener in self.listeners.drain(..) {
            self.poller.remove(&listener);
        }
        for socket in self.greetings.end() {
            self.poller.remove(&socket);
        }
        self.accepts_after = None;
    }

    pub(super) fn on_listener(&mut self, sink: &mut dyn FrameSink) {
        let mut at = 0;
        for _ in 0..greetings::AT_ONCE {
            let Some(listener) = self.listeners.get(at) else { return };
            let socket = match listener.accept() {
                Ok(Some((socket, _))) => socket,
                Ok(None) => {
                    at += 1;
                    continue;
                }
                // It no longer listens (rule 11), and another listener follows.
                Err(error) if error.kind() == ErrorKind::InvalidInput => {
                    self.poller.remove(listener);
                    at += 1;
                    continue;
                }
                Err(error) => {
                    if !std::mem::replace(&mut self.is_pause_reported, true) {
                        let own = self.own.rank;
                        (self.tell)(&format!(
                            "rank {own} cannot accept connections for the moment: {error}; if it has too many open files, \
                             raise the limit ('ulimit -n')"
                        ));
                    }
                    // There are no free descriptors: connections wait in the kernel, unreported.
                    self.listeners.iter().for_each(|listener| self.poller.remove(listener));
                    let until = self.now() + ACCEPT_PAUSE;
                    self.accepts_after = Some(until);
                    return self.wake_at(until);
                }
            };
            let (place, old) = self.greetings.add(socket);
            if let Some(old) = old {
                self.poller.remove(&old);
            }
            match self.greetings.socket(place) {
                Some(socket) if self.poller.add(socket, GREETING | place, false).is_ok() => {
                    self.on_greeting(place, sink);
                }
                _ => drop(self.greetings.take(place)),
            }
        }
    }

    pub(super) fn on_greeting(&mut self, place: u64, sink: &mut dyn FrameSink) {
        loop {
            let secret = (&self.secret, self.settings.encrypt);
            let is_good = match self.greetings.greeted(place, self.own, secret, &mut self.secret_of)
            {
                Ok(GreetingEvent::Nothing) => return,
                Ok(GreetingEvent::More) => true,
                Ok(GreetingEvent::Early(from, record)) => {
                    match self.take_early(from, &record, sink) {
                        Ok(true) => true,
                        Ok(false) => {
                            self.greetings.drop_early(place);
                            true
                        }
                        Err(_) => false,
                    }
                }
                Ok(GreetingEvent::Proof(acceptor, point)) => {
                    if let Some(socket) = self.greetings.take(place) {
                        self.poller.remove(&socket);
                        self.judge(*acceptor, socket, point);
                    }
                    return;
                }
                Err(_) => false,
            };
            if !is_good {
                if let Some(socket) = self.greetings.take(place) {
                    self.poller.remove(&socket);
                }
                return;
            }
        }
    }

    /// Applies rules 8 and 9 of `greeting.rs`. Returns whether the record was delivered.
    fn take_early(
        &mut self,
        (at, incarnation): (u32, u64),
        record: &[u8],
        sink: &mut dyn FrameSink,
    ) -> Result<bool, RecordError> {
        if self.leaving.is_some() {
            return Ok(false);
        }
        let peer = self.peer(at);
        let is_first = peer.connections == 0
            && !matches!(peer.state, ConnectionState::Left | ConnectionState::Lost(_));
        if !is_first || peer.incarnation.is_some_and(|known| known != incarnation) {
            return Ok(false);
        }
        let is_taken = peer.link.take_early(at, record, sink)?;
        if is_taken {
            peer.incarnation = Some(incarnation);
            peer.link.tell_gone(sink);
        }
        Ok(is_taken)
    }

    fn judge(&mut self, mut acceptor: Acceptor, socket: Socket, point: Point) {
        let (at, incarnation) = acceptor.from();
        if !matches!(socket.receive(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
        {
            // The peer has abandoned this attempt for another one, or sends an impossible point.
            return;
        }
        let (poller, is_leaving) = (self.poller.clone(), self.leaving.is_some());
        let peer = self.peer(at);
        let own_attempt = matches!(
            peer.state,
            ConnectionState::Connecting { .. } | ConnectionState::Greeting { .. }
        );
        let is_old = peer.incarnation.is_some_and(|known| incarnation < known);
        let is_new = peer.incarnation.is_some_and(|known| incarnation > known);
        if is_new {
            let text = format!("rank {at} was started anew");
            return self.end_connection(at, ConnectionState::Lost(text));
        }
        if is_old
            || (own_attempt && acceptor.loses_to_own())
            || matches!(peer.state, ConnectionState::Left | ConnectionState::Lost(_))
            || is_leaving
        {
            // If this message is lost, the peer detects the end of the connection.
            let _ = greetings::send_whole(&socket, &acceptor.judge(None));
            return;
        }
        peer.incarnation = Some(incarnation);
        peer.other_job = acceptor.other_job();
        self.forget_watched(at);
        let peer = self.peer(at);
        if let Some(old) = std::mem::replace(&mut peer.state, ConnectionState::Apart).socket() {
            poller.remove(old);
        }
        let cipher = acceptor.take_cipher();
        let verdict = acceptor.judge(Some(peer.link.point()));
        let welcome = greetings::send_whole(&socket, &verdict)
            .and_then(|()| poller.add(&socket, PEER | u64::from(at), false));
        match welcome {
            Ok(()) => self.begin(at, (socket, cipher), point),
            Err(error) => self.connection_failed(at, &error.into()),
        }
    }
}
