//! Replaces a failed connection (rule 7 of the module).

use super::introduction::IbIntroduction;
use super::{Ib, IbPort, POLLS};
use crate::transports::peer_of;
use crate::{Body, FrameSink, OutgoingMessage};
use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::net::fill_random;
use oxmpi_wire::Frame;
use std::time::{Duration, Instant};

/// The time for a peer with a failed connection to turn out to have left.
pub(super) const GRACE: Duration = Duration::from_secs(1);

/// The most attempts to connect a queue pair before it counts as faulty; meanwhile the port may be
/// down.
const REFUSALS: u32 = 25;

/// The connection number that says that no connection follows.
pub(super) const NO_MORE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct BrokenConnection {
    why: String,
    /// The time at which the peer was last in reach.
    since: Instant,
    /// The time at which the failure was detected.
    noticed: Instant,
    /// The earliest time for the next end.
    due: Instant,
    /// The queue pair is destroyed.
    is_closed: bool,
    /// Another queue pair was made.
    pub(super) is_made: bool,
    /// The peer's introduction for the next connection, and whether it requests an answer.
    introduction: Option<(IbIntroduction, bool)>,
    /// The number of refusals of the port to connect this queue pair.
    refusals: u32,
}

impl<P: IbPort> Ib<P> {
    pub(super) fn fail(&mut self, peer: u32, why: String) {
        self.break_connection(peer, why, false);
    }

    pub(super) fn break_connection(&mut self, number: u32, why: String, has_timed_out: bool) {
        self.polls = POLLS;
        let now = Instant::now();
        let since = if has_timed_out { now.checked_sub(self.settings.timeout) } else { Some(now) };
        let due = now + self.settings.pause;
        let Some(peer) = self.peer(number).filter(|peer| !peer.is_gone && !peer.is_closing())
        else {
            return;
        };
        peer.connection += 1;
        (peer.is_connected, peer.is_ready, peer.has_requested, peer.was_sent_to) =
            (false, false, false, false);
        let (why, since, noticed) = match peer.broken.take() {
            Some(before) => (before.why, before.since, before.noticed),
            None => (why, since.unwrap_or(now), now),
        };
        peer.broken = Some(BrokenConnection {
            why,
            since,
            noticed,
            due,
            is_closed: false,
            is_made: false,
            introduction: None,
            refusals: 0,
        });
        let queue_pair = peer.end.queue_pair;
        self.port.close(queue_pair);
        self.unanswered.retain(|to| *to != number);
        self.unconfirmed.retain(|to| *to != number);
        if !self.broken.contains(&number) {
            self.broken.push(number);
        }
    }

    /// The port has refused to connect a queue pair, which is unchanged; the port may be down. The
    /// same queue pair is tried again, since for another one the peer would have to make a new one,
    /// too.
    pub(super) fn refused(
        &mut self,
        number: u32,
        introduction: (IbIntroduction, bool),
        why: String,
    ) -> Result<(), String> {
        let now = Instant::now();
        let due = now + self.settings.pause;
        let Some(peer) = self.peer(number) else { return Ok(()) };
        let broken = peer.broken.get_or_insert_with(|| BrokenConnection {
            why: format!("a connection cannot be made: {why}"),
            since: now,
            noticed: now,
            due,
            is_closed: false,
            is_made: true,
            introduction: None,
            refusals: 0,
        });
        broken.refusals += 1;
        if broken.refusals > REFUSALS {
            return Err(why);
        }
        (broken.due, broken.introduction) = (due, Some(introduction));
        if !self.broken.contains(&number) {
            self.broken.push(number);
        }
        Ok(())
    }

    fn connect_refused(&mut self, number: u32) -> Result<(), String> {
        let Some(broken) = self.peer(number).and_then(|peer| peer.broken.as_mut()) else {
            return Ok(());
        };
        if !broken.is_made || Instant::now() < broken.due {
            return Ok(());
        }
        match broken.introduction.take() {
            Some((its, wants_answer)) => self.connect_end(number, &its, wants_answer),
            None => Ok(()),
        }
    }

    /// The queue pair is destroyed, and everything received over it was delivered.
    pub(super) fn closed(&mut self, number: u32) {
        if let Some(broken) = self.peer(number).and_then(|peer| peer.broken.as_mut()) {
            broken.is_closed = true;
        }
    }

    /// Returns whether the introduction is for the present connection. An introduction for the next
    /// connection waits until the own end is made.
    pub(super) fn is_current(
        &mut self,
        from: u32,
        its: &IbIntroduction,
        wants_answer: bool,
    ) -> bool {
        if self.peer(from).is_some_and(|peer| its.connection > peer.connection) {
            self.break_connection(from, "the process makes the connection anew".into(), false);
        }
        let Some(peer) = self.peer(from) else { return false };
        // If the connection has failed here, too, the peer gets another introduction.
        if its.connection < peer.connection && !peer.is_closing() {
            return false;
        }
        peer.connection = peer.connection.max(its.connection);
        match &mut peer.broken {
            Some(broken) if !broken.is_made => {
                if its.connection == peer.connection {
                    broken.introduction = Some((*its, wants_answer));
                }
                false
            }
            _ => true,
        }
    }

    fn remake_end(&mut self, number: u32) -> Result<(), String> {
        let mut bytes = [0; 4];
        fill_random(&mut bytes)
            .map_err(|error| format!("the system has no random numbers: {error}"))?;
        let first_packet = u32::from_le_bytes(bytes) & 0xff_ffff;
        let end = self.port.create(first_packet).map_err(|error| error.to_string())?;
        self.numbers.insert(end.queue_pair, number);
        let Some(peer) = self.peer(number) else { return Ok(()) };
        peer.end = end;
        (peer.in_flight, peer.reads, peer.accesses, peer.is_reporting) = (0, 0, 0, false);
        let granted = peer.granted;
        let introduction = peer.broken.as_mut().and_then(|broken| {
            broken.is_made = true;
            broken.introduction.take()
        });
        if self.settings.shared.is_none() {
            (0..granted)
                .try_for_each(|_| self.post_new(end.queue_pair))
                .map_err(|error| error.to_string())?;
        }
        self.restart_readings(number);
        self.restart_accesses(number);
        match introduction {
            Some((its, wants_answer)) => self.connect_end(number, &its, wants_answer),
            None => Ok(()),
        }
    }

    /// Sends the envelopes first that have not arrived over the last connection.
    pub(super) fn becomes_ready(&mut self, number: u32) {
        let Ib { peers, port, .. } = self;
        let Some(peer) = peer_of(peers, number) else {
            return;
        };
        if std::mem::replace(&mut peer.is_ready, true) {
            return;
        }
        let mut failed = None;
        for (_, slot, len) in &peer.unacknowledged {
            if let Err(error) = port.send(peer.end.queue_pair, *slot, *len) {
                failed = Some(error.to_string());
                break;
            }
            peer.in_flight += 1;
            peer.was_sent_to = true;
        }
        if let Some(why) = failed {
            self.fail(number, why);
        }
    }

    pub(super) fn mended(&mut self, number: u32) {
        if let Some(peer) = self.peer(number)
            && peer.broken.as_ref().is_some_and(|broken| broken.is_made)
        {
            peer.broken = None;
        }
    }

    pub(super) fn settle_broken(&mut self, sink: &mut dyn FrameSink) {
        for number in std::mem::take(&mut self.broken) {
            let timeout = self.settings.timeout;
            if self.sockets.has_left(number) {
                let tokens = self.forget(number);
                tokens.iter().for_each(|token| sink.sent(*token));
                continue;
            }
            let Some(peer) = self.peer(number).filter(|peer| !peer.is_gone) else { continue };
            let Some(broken) = &peer.broken else { continue };
            let (is_made, may_make) =
                (broken.is_made, broken.is_closed && Instant::now() >= broken.due);
            if broken.since.elapsed() >= timeout && broken.noticed.elapsed() >= GRACE {
                let why = broken.why.clone();
                self.say(&format!("nothing goes to process {number} any more: {why}"));
                self.take_leave(number);
                self.lose(number, sink);
                continue;
            }
            self.broken.push(number);
            let made = match (is_made, may_make) {
                (true, _) => self.connect_refused(number),
                (false, true) => self.remake_end(number),
                (false, false) => Ok(()),
            };
            let met = made.and_then(|()| {
                let is_made = self.peer(number).is_some_and(|peer| !peer.is_closing());
                if is_made {
                    self.request_introduction(number).map_err(|error| error.why)
                } else {
                    Ok(())
                }
            });
            // For example, a port that is down refuses connections.
            if let Err(why) = met {
                self.try_again(number, why);
            }
        }
    }

    pub(super) fn try_again(&mut self, number: u32, why: String) {
        self.break_connection(number, why, false);
        let due = Instant::now() + self.settings.pause;
        if let Some(broken) = self.peer(number).and_then(|peer| peer.broken.as_mut()) {
            broken.due = due;
        }
    }

    /// The peer may not have detected the failure, and wait for this process.
    pub(super) fn take_leave(&mut self, number: u32) {
        let envelope = self.settings.envelope_len() as u32;
        let is_itself = number == self.own;
        let Some(peer) = self.peer(number).filter(|_| !is_itself) else { return };
        let granted = peer.granted.max(1);
        let last =
            IbIntroduction { connection: NO_MORE, granted, ..peer.introduction(envelope) }.encode();
        let body = Body::Bytes(Bytes::from(&last[..]));
        let frame = Frame::Meet { wants_answer: false };
        // A peer that does not get this message finds out without it.
        let _ = self.sockets.send(number, &OutgoingMessage::new(frame, body));
    }
}
