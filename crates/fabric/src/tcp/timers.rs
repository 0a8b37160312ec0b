//! What happens at its time: attempts, limits of attempts, and what waits for the kernel's memory. One clock in the poller wakes the
//! process for all of them.

use super::peer::{Failure, Way};
use super::{LISTENER, Tcp};
use std::time::Duration;

impl Tcp {
    /// Wakes the process at `time`, or earlier.
    pub(super) fn wake_at(&mut self, time: Duration) {
        if self.alarm.is_none_or(|alarm| time < alarm) {
            self.alarm = Some(time);
            self.poller.set_clock(Some(time.saturating_sub(self.now())));
        }
    }

    /// The time of the clock has come: sees who has waited for it, and sets it anew.
    pub(super) fn on_clock(&mut self) {
        self.alarm = None;
        let now = self.now();
        if self.deaf_until.is_some_and(|until| until <= now) {
            self.deaf_until = None;
            for listener in &self.listeners {
                // It fails only if the descriptor is there already.
                let _ = self.poller.add(listener, LISTENER, false);
            }
        }
        for at in 0..self.peers.len() as u32 {
            if let Some(peer) = self.known(at)
                && peer.starved_until.take_if(|until| *until <= now).is_some()
            {
                peer.is_blocked = peer.is_broken;
                self.write(at);
            }
            match self.known(at).map(|peer| &peer.way) {
                Some(Way::Pause { until }) if *until <= now => self.connect(at),
                Some(Way::Connecting { limit, .. }) if *limit <= now => {
                    self.cut(at, &Failure { why: "it does not answer".into(), is_vague: true });
                }
                _ => {}
            }
        }
        let peers = self.peers.iter().flatten().filter_map(|peer| match peer.way {
            Way::Pause { until: time } | Way::Connecting { limit: time, .. } => Some(time),
            _ => peer.starved_until,
        });
        let next = peers.chain(self.deaf_until).min();
        if let Some(time) = next {
            self.wake_at(time);
        }
    }
}
