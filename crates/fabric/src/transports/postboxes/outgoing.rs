use super::{PostboxCounts, PostboxSettings};
use crate::{OutgoingMessage, Sent};
use oxmpi_shm::postbox::{PoolLock, PostboxArea, PostboxSender};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::MAX_FRAME_LEN;
use std::time::Duration;

/// The number of pauses for the lock of the pool before a sender continues without the pool.
const PAUSES_FOR_LOCK: u32 = 100;
/// The longest sleep for the lock before a sender continues without the pool.
const SLEEP_FOR_LOCK: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(super) struct PostboxOut {
    sender: PostboxSender,
    /// The data of an eager message that have not left.
    rest: Option<Rest>,
    /// Whether the sender has paused since the last post (rule 5 of the module).
    has_paused: bool,
    /// Whether the pool had no room or its lock was taken for too long: the next piece avoids the
    /// pool.
    pub(super) shuns_pool: bool,
}

#[derive(Debug)]
struct Rest {
    data: Vec<u8>,
    at: usize,
    token: u64,
}

#[derive(Debug, Default)]
pub(super) struct Unsent {
    pub(super) has_posted: bool,
    pub(super) is_unfinished: bool,
    /// The token of the message, if all its data have left.
    pub(super) token: Option<u64>,
}

impl PostboxOut {
    pub(super) fn new(sender: PostboxSender) -> PostboxOut {
        PostboxOut { sender, rest: None, has_paused: false, shuns_pool: false }
    }

    /// Whether the postbox is empty, perhaps after some polls and a pause.
    #[inline]
    pub(super) fn wait(
        &mut self,
        settings: &PostboxSettings,
        counters: &mut PostboxCounts,
    ) -> bool {
        if self.sender.is_empty() {
            return true;
        }
        if self.has_paused || settings.sleeps {
            return false;
        }
        for _ in 0..settings.write_polls {
            if self.sender.is_empty() {
                return true;
            }
            std::hint::spin_loop();
        }
        self.has_paused = true;
        counters.pauses += 1;
        settings.pause.pass();
        self.sender.is_empty()
    }

    /// If some data remain, the receiver will ring.
    #[inline]
    pub(super) fn flush(&mut self) -> Unsent {
        let mut left = Unsent::default();
        let Some(rest) = &mut self.rest else { return left };
        let short = self.sender.short();
        loop {
            if !self.sender.is_empty() && self.sender.want_room() {
                left.is_unfinished = true;
                return left;
            }
            let len = short.min(rest.data.len() - rest.at);
            let from = Bytes::from(&rest.data[rest.at..rest.at + len]);
            self.sender.post_more(len, |into| from.copy_to(into));
            (self.has_paused, left.has_posted) = (false, true);
            rest.at += len;
            if rest.at == rest.data.len() {
                left.token = Some(rest.token);
                self.rest = None;
                return left;
            }
        }
    }

    /// The postbox must be empty. Data that find no room are copied.
    pub(super) fn send(&mut self, me: u32, message: &OutgoingMessage<'_>) -> Sent {
        let mut frame = [0; MAX_FRAME_LEN];
        let len = message.frame.encode(message.sequence, me, &mut frame);
        let total = message.body.len();
        let posted = self.sender.post(&frame[..len], total, |into| message.body.fill(0, into));
        self.has_paused = false;
        if posted == total {
            return Sent::Done;
        }
        let mut data = vec![0; total - posted];
        message.body.fill(posted, BytesMut::from(&mut data[..]));
        self.rest = Some(Rest { data, at: 0, token: message.token });
        // If the receiver has already rung, the next poll posts more.
        self.sender.want_room();
        Sent::Later
    }

    /// The postbox must be empty. A short piece may go without the pool.
    pub(super) fn send_piece(
        &mut self,
        me: u32,
        message: &OutgoingMessage<'_>,
        (area, place): (&PostboxArea, u32),
        settings: &PostboxSettings,
        counters: &mut PostboxCounts,
    ) -> Sent {
        let mut frame = [0; MAX_FRAME_LEN];
        let frame_len = message.frame.encode(0, me, &mut frame);
        let len = message.body.len();
        let row = if self.shuns_pool || len > settings.max_alloc {
            None
        } else {
            lock(area, place, settings, counters).and_then(|lock| lock.allocate(len))
        };
        if let Some(mut row) = row {
            message.body.fill(0, area.row_mut(&mut row));
            self.sender.post_pooled(&frame[..frame_len], row);
            counters.pooled_pieces += 1;
        } else if len <= self.sender.short() {
            self.sender.post(&frame[..frame_len], len, |into| message.body.fill(0, into));
            counters.boxed_pieces += 1;
            self.shuns_pool = false;
        } else {
            self.shuns_pool = true;
            return Sent::Full;
        }
        self.has_paused = false;
        Sent::Done
    }

    pub(super) fn want_room(&self) -> bool {
        self.sender.want_room()
    }

    /// The receiver is dead. Returns the token of the unsent message.
    pub(super) fn give_up(&mut self) -> Option<u64> {
        self.sender.take_back();
        self.drop_rest()
    }

    pub(super) fn drop_rest(&mut self) -> Option<u64> {
        self.rest.take().map(|rest| rest.token)
    }
}

fn lock<'a>(
    area: &'a PostboxArea,
    place: u32,
    settings: &PostboxSettings,
    counters: &mut PostboxCounts,
) -> Option<PoolLock<'a>> {
    if let Some(semaphore) = settings.lock {
        return area.lock_by(semaphore, SLEEP_FOR_LOCK);
    }
    if settings.sleeps {
        return area.lock(place, SLEEP_FOR_LOCK);
    }
    for _ in 0..PAUSES_FOR_LOCK {
        let mut spins = 1;
        for _ in 0..settings.write_polls.max(1) {
            if let Some(lock) = area.try_lock(place) {
                return Some(lock);
            }
            (0..spins).for_each(|_| std::hint::spin_loop());
            spins = (spins * 2).min(64);
        }
        counters.pauses += 1;
        settings.pause.pass();
    }
    None
}
