//! What a process with sockets sleeps on: all its descriptors, an alarm for its own threads, and a clock.

use rustix::event::{EventfdFlags, PollFd, PollFlags, epoll, eventfd, poll};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::descriptor::Closed;

/// A set of descriptors (epoll(7)), which stay ready until somebody has seen to them.
#[derive(Debug)]
pub struct Poller {
    set: OwnedFd,
    alarm: OwnedFd,
    clock: OwnedFd,
    /// How often something was ready.
    wakes: AtomicU32,
    /// The callback for a descriptor that the program has closed; it is called once.
    closed: OnceLock<Told>,
}

/// The callback.
struct Told(Box<dyn Fn(Closed) + Send + Sync>, AtomicBool);

impl std::fmt::Debug for Told {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Told").field(&self.1).finish_non_exhaustive()
    }
}

/// A descriptor that is ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ready {
    /// The name under which it was added.
    pub name: u64,
    /// Something can be read, if only the end or an error.
    pub readable: bool,
    /// There is room to write.
    pub writable: bool,
}

/// What a descriptor is waited for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interest {
    /// Something to read.
    pub read: bool,
    /// Room to write.
    pub write: bool,
}

/// The name of the clock among what is ready.
pub const CLOCK: u64 = u64::MAX;
/// The name of the alarm; never shown.
const ALARM: u64 = u64::MAX - 1;

/// Once in so many times that something is ready it is checked that the set is one.
const CHECKED: u32 = 64;
/// Descriptors shown in one look.
const AT_ONCE: usize = 64;

impl Poller {
    /// An empty set.
    ///
    /// # Errors
    /// If the kernel gives no more descriptors.
    pub fn new() -> io::Result<Poller> {
        Poller::with_alarm(new_alarm()?)
    }

    /// An empty set with an alarm that others have, too ([`new_alarm`]).
    ///
    /// # Errors
    /// As [`Poller::new`].
    pub fn with_alarm(alarm: OwnedFd) -> io::Result<Poller> {
        let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let clock =
            timerfd_create(TimerfdClockId::Monotonic, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let poller = Poller { set, alarm, clock, wakes: AtomicU32::new(0), closed: OnceLock::new() };
        poller.add(&poller.alarm, ALARM, false)?;
        poller.add(&poller.clock, CLOCK, false)?;
        Ok(poller)
    }

    /// Tells `told` when it is found that the program has closed what the process sleeps on: nothing is ever ready any more.
    pub fn when_closed(&self, told: Box<dyn Fn(Closed) + Send + Sync>) {
        // The first one stays.
        let _ = self.closed.set(Told(told, AtomicBool::new(false)));
    }

    /// Tells of the end of the set if there is something else in its place, which may be ready at any time.
    fn check(&self) {
        let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; 1];
        // What is ready stays so.
        let looked = epoll::wait(&self.set, &mut events, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
        if looked.is_err_and(|error| error != Errno::INTR) {
            self.tell_closed(&self.set);
        }
    }

    fn tell_closed(&self, fd: &OwnedFd) {
        let what = "what OxMPI sleeps on until messages come";
        if let Some(Told(told, has_told)) = self.closed.get()
            && !has_told.swap(true, Ordering::Relaxed)
        {
            told(Closed { number: fd.as_raw_fd(), what });
        }
    }

    /// Adds a descriptor under a name; with `writable` it is ready when there is room to write, too.
    ///
    /// # Errors
    /// What epoll_ctl(2) says.
    pub fn add(&self, fd: impl AsFd, name: u64, writable: bool) -> io::Result<()> {
        Ok(epoll::add(&self.set, fd, epoll::EventData::new_u64(name), flags(writable))?)
    }

    /// Changes what is known of a descriptor.
    ///
    /// # Errors
    /// What epoll_ctl(2) says.
    pub fn change(&self, fd: impl AsFd, name: u64, writable: bool) -> io::Result<()> {
        Ok(epoll::modify(&self.set, fd, epoll::EventData::new_u64(name), flags(writable))?)
    }

    /// Has a descriptor told of that was waited for what `old` says, and is to be for what `new` says. One for which nothing is
    /// waited is not in the set: there the kernel would go on to tell of its errors and its end.
    ///
    /// # Errors
    /// What epoll_ctl(2) says.
    pub fn set_interest(&self, fd: impl AsFd, name: u64, old: Interest, new: Interest) -> io::Result<()> {
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

    /// Takes a descriptor out, before it is closed: a forked child may have it still, and then it would stay.
    pub fn remove(&self, fd: impl AsFd) {
        // It fails if it was never there.
        let _ = epoll::delete(&self.set, fd);
    }

    /// What is ready now, into `ready`. The alarm is not shown, and the clock only once each time.
    pub fn look(&self, ready: &mut Vec<Ready>) {
        self.collect(ready, Some(&Timespec { tv_sec: 0, tv_nsec: 0 }));
    }

    /// As [`Poller::look`], but sleeps until something is ready.
    pub fn await_any(&self, ready: &mut Vec<Ready>) {
        self.collect(ready, None);
    }

    fn collect(&self, ready: &mut Vec<Ready>, time: Option<&Timespec>) {
        ready.clear();
        let mut events = [const { std::mem::MaybeUninit::<epoll::Event>::uninit() }; AT_ONCE];
        let events = match epoll::wait(&self.set, &mut events, time) {
            Ok((events, _)) => events,
            // The caller polls again anyway.
            Err(Errno::INTR) => return,
            // It is no set, or nothing at all, any more.
            Err(_) => return self.tell_closed(&self.set),
        };
        for event in events {
            let (name, flags) = (event.data.u64(), event.flags);
            match name {
                ALARM => continue,
                CLOCK => _ = rustix::io::read(&self.clock, &mut [0; 8]),
                _ => {}
            }
            // An error or hang-up is found by reading, after what came before it.
            let readable = flags.intersects(
                epoll::EventFlags::IN
                    | epoll::EventFlags::HUP
                    | epoll::EventFlags::ERR
                    | epoll::EventFlags::RDHUP,
            );
            ready.push(Ready { name, readable, writable: flags.contains(epoll::EventFlags::OUT) });
        }
    }

    /// Sleeps until something is ready, the alarm is raised, `timeout` is over, or for no reason.
    pub fn wait(&self, timeout: Option<Duration>) {
        let timeout = timeout.and_then(|t| Timespec::try_from(t).ok());
        let mut set = [PollFd::new(&self.set, PollFlags::IN)];
        // Interrupted is as good as any reason to look again.
        let _ = poll(&mut set, timeout.as_ref());
        let ready = set[0].revents();
        if ready.contains(PollFlags::NVAL) {
            self.tell_closed(&self.set);
        } else if !ready.is_empty() && self.wakes.fetch_add(1, Ordering::Relaxed) % CHECKED == CHECKED - 1 {
            self.check();
        }
    }

    /// Wakes whoever waits, and all who will until the alarm is lowered.
    pub fn raise_alarm(&self) {
        raise_alarm(&self.alarm);
    }

    /// Ends the alarm.
    pub fn lower_alarm(&self) {
        // It fails if it is not raised.
        let _ = rustix::io::read(&self.alarm, &mut [0; 8]);
    }

    /// Makes the clock ready after `time` from now; `None`: never.
    pub fn set_clock(&self, time: Option<Duration>) {
        let zero = Timespec { tv_sec: 0, tv_nsec: 0 };
        let value = match time {
            // Zero would stop it.
            Some(time) => Timespec::try_from(time.max(Duration::from_nanos(1))).unwrap_or(zero),
            None => zero,
        };
        let times = Itimerspec { it_interval: zero, it_value: value };
        if timerfd_settime(&self.clock, TimerfdTimerFlags::empty(), &times).is_err() {
            self.tell_closed(&self.clock);
        }
    }
}

impl AsFd for Poller {
    /// Readable when something is ready.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.set.as_fd()
    }
}

/// An alarm (eventfd(2)) to be handed over to the process whose alarm it is, and to those who may raise it.
///
/// # Errors
/// If the kernel gives no more descriptors.
pub fn new_alarm() -> io::Result<OwnedFd> {
    Ok(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)
}

/// Raises an alarm, of this process or of another.
pub fn raise_alarm(alarm: impl AsFd) {
    match rustix::io::write(alarm, &1u64.to_ne_bytes()) {
        // The counter is full: it is raised. Or the program has closed it, and then what its process sleeps on as well.
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
    fn a_program_that_closes_it_is_told_of_once() {
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
        // SAFETY: as a program does it; the poller is not dropped.
        unsafe { libc::close(number) };
        poller.wait(None);
        poller.look(&mut Vec::new());
        assert_eq!(count.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn a_file_in_place_of_the_set_is_noticed() {
        use std::sync::Arc;

        let poller = std::mem::ManuallyDrop::new(Poller::new().unwrap());
        let told = Arc::new(AtomicU32::new(0));
        let counted = told.clone();
        poller.when_closed(Box::new(move |_| _ = counted.fetch_add(1, Ordering::Relaxed)));
        let file = std::fs::File::open("/dev/zero").unwrap();
        // SAFETY: both are open; the number of the set is a file's from now on, and the poller is not dropped.
        unsafe { libc::dup2(file.as_raw_fd(), poller.set.as_raw_fd()) };
        for _ in 0..CHECKED {
            poller.wait(None);
        }
        assert_eq!(told.load(Ordering::Relaxed), 1);
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
            assert_eq!(ready, [Ready { name: 7, readable: true, writable: false }], "until it is read");
        }
        poller.remove(&read);
        poller.look(&mut ready);
        assert_eq!(ready, []);
    }

    #[test]
    fn what_nobody_waits_for_is_not_told() {
        let poller = Poller::new().unwrap();
        let (ours, theirs) = std::os::unix::net::UnixStream::pair().unwrap();
        let mut ready = Vec::new();
        let mut old = Interest::default();
        let mut told = |read, write| {
            let new = Interest { read, write };
            poller.set_interest(&ours, 3, old, new).unwrap();
            old = new;
            poller.look(&mut ready);
            ready.iter().map(|ready| (ready.readable, ready.writable)).collect::<Vec<_>>()
        };
        assert_eq!((told(true, false), told(true, true)), (vec![], vec![(false, true)]));
        drop(theirs);
        assert_eq!((told(true, false), told(false, false)), (vec![(true, false)], vec![]));
        assert_eq!(told(false, true), [(true, true)]);
    }
}
