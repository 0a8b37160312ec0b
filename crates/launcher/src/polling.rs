//! Waiting for descriptors.

use std::os::fd::AsFd;
use std::time::Duration;

use rustix::event::{PollFd, Timespec, epoll, poll};
use rustix::io::Errno;

pub(crate) fn timespec(time: Duration) -> Timespec {
    Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) }
}

/// Waits until a descriptor is ready or a signal has come, for this time at most. Returns whether
/// the time is over.
pub(crate) fn wait_for(
    fds: &mut [PollFd<'_>],
    limit: Option<Duration>,
) -> rustix::io::Result<bool> {
    match poll(fds, limit.map(timespec).as_ref()) {
        Ok(ready) => Ok(ready == 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The events of a set that have come: the upper and the lower half of their 64 bits.
pub(crate) fn events_of(set: impl AsFd) -> rustix::io::Result<Vec<(u64, u32)>> {
    let mut list: Vec<epoll::Event> = Vec::with_capacity(128);
    let spare = rustix::buffer::spare_capacity(&mut list);
    match epoll::wait(set, spare, Some(&timespec(Duration::ZERO))) {
        Ok(_) | Err(Errno::INTR) => {}
        Err(error) => return Err(error),
    }
    let parts = |event: epoll::Event| (event.data.u64() >> 32, event.data.u64() as u32);
    Ok(list.into_iter().map(parts).collect())
}

#[cfg(test)]
mod tests {
    use rustix::event::PollFlags;
    use rustix::pipe::{PipeFlags, pipe_with};

    use super::*;

    #[test]
    fn a_wait_ends_with_its_time_or_when_a_descriptor_is_ready() {
        let (read, write) = pipe_with(PipeFlags::CLOEXEC).unwrap();
        let set = epoll::create(epoll::CreateFlags::CLOEXEC).unwrap();
        let data = epoll::EventData::new_u64(7 << 32 | 5);
        epoll::add(&set, &read, data, epoll::EventFlags::IN).unwrap();
        let wait = || wait_for(&mut [PollFd::new(&read, PollFlags::IN)], Some(Duration::ZERO));
        assert_eq!((wait(), events_of(&set)), (Ok(true), Ok(Vec::new())));
        rustix::io::write(&write, b"x").unwrap();
        assert_eq!((wait(), events_of(&set)), (Ok(false), Ok(vec![(7, 5)])));
    }
}
