//! The object on which a process with sockets sleeps: its descriptors, an alarm by which its own
//! threads wake it, and a clock.

use rustix::event::{EventfdFlags, PollFd, PollFlags, epoll, eventfd, poll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::descriptor::Closed;

/// A set of descriptors (epoll(7)), level-triggered.
#[derive(Debug)]
pub struct Poller {
    set: OwnedFd,
    alarm: OwnedFd,
    clock: OwnedFd,
    wakes: AtomicU32,
    /// Called once, for a descriptor that the program has closed.
    closed: OnceLock<ClosedCallback>,
}

struct ClosedCallback(Box<dyn Fn(Closed) + Send + Sync>, AtomicBool);

impl std::fmt::Debug for ClosedCallback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ClosedCallback").field(&self.1).finish_non_exhaustive()
    }
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The number given to [`Poller::add`].
    pub name: u64,
    /// Data, the end, or an error can be read.
    pub readable: bool,
    pub writable: bool,
}

/// The events of interest of a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    pub read: bool,
    pub write: bool,
}

/// The name of the clock in [`Ready`].
pub const CLOCK: u64 = u64::MAX;
const ALARM: u64 = u64::MAX - 1;

/// Every 64th wait that finds a ready descriptor checks that the set is still an epoll set.
const CHECK_EVERY: u32 = 64;
const MAX_EVENTS: usize = 64;

impl Poller {
    /// Creates an empty set.
    pub fn new() -> io::Result<Poller> {
        Poller::with_alarm(new_alarm()?)
    }

    /// Creates an empty set with an alarm that other processes share ([`new_alarm`]).
    pub fn with_alarm(alarm: OwnedFd) -> io::Result<Poller> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let clock = timerfd_create(
            TimerfdClockId::Monotonic,
            TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK,
        )?;
        let poller =
            Poller { set, alarm, clock, wakes: AtomicU32::new(0), closed: OnceLock::new() };
        poller.add(&poller.alarm, ALARM, false)?;
        poller.add(&poller.clock, CLOCK, false)?;
        Ok(poller)
    }

    /// Sets the callback for the case that the program has closed the set or the clock, after which
    /// nothing becomes ready.
    pub fn when_closed(&self, callback: Box<dyn Fn(Closed) + Send + Sync>) {
        // The first callback stays.
        let _ = self.closed.set(ClosedCallback(callback, AtomicBool::new(false)));
    }

    /// Reports the set as closed if another file has its number.
    fn check(&self) {
        let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; 1];
        // Level-triggered: the wait leaves descriptors ready.
        let polled = epoll::wait(&self.set, &mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        if polled.is_err_and(|error| error != Errno::INTR) {
            self.report_closed(&self.set);
        }
    }

    fn report_closed(&self, fd: &OwnedFd) {
        let what = "OxMPI's epoll set for messages";
        if let Some(ClosedCallback(callback, was_called)) = self.closed.get()
            && !was_called.swap(true, Ordering::Relaxed)
        {
            callback(Closed { number: fd.as_raw_fd(), what });
        }
    }

    /// Adds a descriptor under a name. With `writable`, room to write makes it ready as well.
    pub fn add(&self, fd: impl AsFd, name: u64, writable: bool) -> io::Result<()> {
        Ok(epoll::add(&self.set, fd, epoll::EventData::new_u64(name), flags(writable))?)
    }

    /// Changes the name and `writable` of a descriptor.
    pub fn change(&self, fd: impl AsFd, name: u64, writable: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.set, fd, epoll::EventData::new_u64(name), flags(writable))?)
    }

    /// Changes the events of interest of a descriptor from `old` to `new`. A descriptor without
    /// interest is not in the set, as the kernel would report its errors and its end.
    pub fn set_interest(
        &self,
        fd: impl AsFd,
        name: u64,
        old: Interest,
        new: Interest,
    ) -> io::Result<()> {
        let flags = match (new.read, new.write) {
            (true, true) => epoll::EventFlags::IN | epoll::EventFlags::OUT,
            (true, false) => epoll::EventFlags::IN,
            (false, true) => epoll::EventFlags::OUT,
            (false, false) => epoll::EventFlags::empty(),
        };
        let data = epoll::EventData::new_u64(name);
        match (old == Interest::default(), new == Interest::default()) {
            _ if old == new => {}
            (true, _) => epoll::add(&self.set, fd, data, flags)?,
            (false, true) => epoll::delete(&self.set, fd)?,
            (false, false) => epoll::modify(&self.set, fd, data, flags)?,
        }
        Ok(())
    }

    /// Removes a descriptor. Call it before closing the descriptor: otherwise a forked child's copy
    /// would stay in the set.
    pub fn remove(&self, fd: impl AsFd) {
        // It fails if the descriptor was never added.
        let _ = epoll::delete(&self.set, fd);
    }

    /// Polls: stores the ready descriptors in `ready`. The alarm is not reported, and each expiry
    /// of the clock only once.
    pub fn look(&self, ready: &mut Vec<Ready>) {
        self.collect(ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    }

    /// [`Poller::look`] that sleeps until a descriptor is ready.
    pub fn await_any(&self, ready: &mut Vec<Ready>) {
        self.collect(ready, None);
    }

    fn collect(&self, ready: &mut Vec<Ready>, time: Option<&Timespec>) {
        ready.clear();
        let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; MAX_EVENTS];
        let events = match epoll::wait(&self.set, &mut events, time) {
            Ok((events, _)) => events,
            // The caller polls again.
            Err(Errno::INTR) => return,
            // The number is closed, or refers to another file.
            Err(_) => return self.report_closed(&self.set),
        };
        for event in events {
            let (name, flags) = (event.data.u64(), event.flags);
            match name {
                ALARM => continue,
                CLOCK => _ = rustix::io::read(&self.clock, &mut [0; 8]),
                _ => {}
            }
            // An error or hang-up is found by a read, after earlier data.
            let readable = flags.intersects(
                epoll::EventFlags::IN
                    | epoll::EventFlags::HUP
                    | epoll::EventFlags::ERR
                    | epoll::EventFlags::RDHUP,
            );
            ready.push(Ready { name, readable, writable: flags.contains(epoll::EventFlags::OUT) });
        }
    }

    /// Sleeps until a descriptor is ready, the alarm is raised or `timeout` ends; may end early.
    pub fn wait(&self, timeout: Option<Duration>) {
        let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
        let mut set = [PollFd::new(&self.set, PollFlags::IN)];
        // An interrupted wait ends early: the caller polls again.
        let _ = poll(&mut set, timeout.as_ref());
        let ready = set[0].revents();
        if ready.contains(PollFlags::NVAL) {
            self.report_closed(&self.set);
        } else if !ready.is_empty()
            && self.wakes.fetch_add(1, Ordering::Relaxed) % CHECK_EVERY == CHECK_EVERY - 1
        {
            self.check();
        }
    }

    /// Wakes every thread in [`Poller::wait`], now and until the alarm is lowered.
    pub fn raise_alarm(&self) {
        raise_alarm(&self.alarm);
    }

    /// Ends the alarm.
    pub fn lower_alarm(&self) {
        // It fails if the alarm is not raised.
        let _ = rustix::io::read(&self.alarm, &mut [0; 8]);
    }

    /// Makes the clock ready after `time` from now; `None` stops the clock.
    pub fn set_clock(&self, time: Option<Duration>) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = match time {
            // At least 1 ns, as zero would stop the clock.
            Some(time) => Timespec::try_from(time.max(Duration::from_nanos(1))).unwrap_or(zero),
            None => zero,
        };
        let times = Itimerspec { it_interval: zero, it_value: value };
        if timerfd_settime(&self.clock, TimerfdTimerFlags::empty(), &times).is_err() {
            self.report_closed(&self.clock);
        }
    }
}

impl AsFd for Poller {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

/// Creates an alarm (eventfd(2)) for one process, which other processes may raise.
pub fn new_alarm() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Raises an alarm of this or of another process.
pub fn raise_alarm(alarm: impl AsFd) {
    match rustix::io::write(alarm, &1u64.to_ne_bytes()) {
        // EAGAIN: the counter is full, so the alarm is raised. EBADF: the program has closed the
        // alarm, and the poll set with it.
        Ok(_) | Err(Errno::AGAIN | Errno::BADF) => {}
        Err(error) => debug_assert!(false, "eventfd: {error}"),
    }
}

fn flags(writable: bool) -> epoll::EventFlags {
    let readable = epoll::EventFlags::IN | epoll::EventFlags::RDHUP;
    if writable { readable | epoll::EventFlags::OUT } else { readable }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn closing_the_set_is_reported_once() {
        use std::sync::Arc;

        let poller = std::mem::ManuallyDrop::new(Poller::new().unwrap());
        let count = Arc::new(AtomicU32::new(0));
        let (counted, number) = (count.clone(), poller.set.as_raw_fd());
        poller.when_closed(Box::new(move |closed| {
            assert_eq!(closed.number, number);
            counted.fetch_add(1, Ordering::Relaxed);
        }));
        poller.wait(Some(Duration::from_millis(1)));
        assert_eq!(count.load(Ordering::Relaxed), 0);
        // SAFETY: closes the number as a program would; the poller is not dropped.
        unsafe { libc::close(number) };
        poller.wait(None);
        poller.look(&mut Vec::new());
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_file_in_place_of_the_set_is_noticed() {
        use std::sync::Arc;

        let poller = std::mem::ManuallyDrop::new(Poller::new().unwrap());
        let reported = Arc::new(AtomicU32::new(0));
        let counted = reported.clone();
        poller.when_closed(Box::new(move |_| _ = counted.fetch_add(1, Ordering::Relaxed)));
        let file = std::fs::File::open("/dev/zero").unwrap();
        // SAFETY: both are open; the set's number becomes a file's; the poller is not dropped.
        unsafe { libc::dup2(file.as_raw_fd(), poller.set.as_raw_fd()) };
        for _ in 0..CHECK_EVERY {
            poller.wait(None);
        }
        assert_eq!(reported.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn alarm_clock_and_descriptors_end_the_sleep() {
        let poller = Poller::new().unwrap();
        let (read, write) = rustix::pipe::pipe().unwrap();
        poller.add(&read, 7, false).unwrap();
        let mut ready = Vec::new();
        poller.look(&mut ready);
        assert_eq!(ready, []);
        poller.wait(Some(Duration::from_millis(1)));

        poller.raise_alarm();
        poller.wait(None);
        poller.wait(None);
        poller.look(&mut ready);
        assert_eq!(ready, [], "the alarm is for the sleeper alone");
        poller.lower_alarm();

        let start = Instant::now();
        poller.set_clock(Some(Duration::from_millis(5)));
        poller.wait(None);
        assert!(start.elapsed() >= Duration::from_millis(5));
        poller.look(&mut ready);
        assert_eq!(ready, [Ready { name: CLOCK, readable: true, writable: false }]);
        poller.look(&mut ready);
        assert_eq!(ready, []);

        rustix::io::write(&write, b"x").unwrap();
        poller.wait(None);
        for _ in 0..2 {
            poller.look(&mut ready);
            assert_eq!(
                ready,
                [Ready { name: 7, readable: true, writable: false }],
                "until it is read"
            );
        }
        poller.remove(&read);
        poller.look(&mut ready);
        assert_eq!(ready, []);
    }

    #[test]
    fn descriptors_without_interest_are_not_reported() {
        let poller = Poller::new().unwrap();
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut ready = Vec::new();
        let mut old = Interest::default();
        let mut reported = |read, write| {
            let new = Interest { read, write };
            poller.set_interest(&ours, 3, old, new).unwrap();
            old = new;
            poller.look(&mut ready);
            ready.iter().map(|ready| (ready.readable, ready.writable)).collect::<Vec<_>>()
        };
        assert_eq!((reported(true, false), reported(true, true)), (vec![], vec![(false, true)]));
        drop(theirs);
        assert_eq!((reported(true, false), reported(false, false)), (vec![(true, false)], vec![]));
        assert_eq!(reported(false, true), [(true, true)]);
    }
}
