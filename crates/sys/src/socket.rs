//! A short exchange over a socket that the user's program owns, and a wait for any socket.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::io;
use std::os::fd::{BorrowedFd, RawFd};
use std::time::{Duration, Instant};

/// Sends `mine` over a connected stream socket and receives exactly `other.len()` bytes. The socket
/// may be blocking or not. Errors: `TimedOut` if the other side sends nothing for `patience`;
/// `UnexpectedEof` if it ends; `InvalidInput` if `number` is no descriptor, otherwise the kernel's
/// error.
pub fn exchange(
    number: RawFd,
    mine: &[u8],
    other: &mut [u8],
    patience: Duration,
) -> io::Result<()> {
    // SAFETY: fcntl(2) fails on a number that is no descriptor.
    if number < 0 || unsafe { libc::fcntl(number, libc::F_GETFD) } < 0 {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is no open descriptor"));
    }
    // SAFETY: the descriptor is open, and the program does not close it during the call.
    let socket = unsafe { BorrowedFd::borrow_raw(number) };
    let limit = Instant::now() + patience;
    let (mut sent, mut received) = (0, 0);
    while sent < mine.len() {
        match send(socket, &mine[sent..], SendFlags::NOSIGNAL | SendFlags::DONTWAIT) {
            Ok(n) => sent += n,
            Err(rustix::io::Errno::AGAIN) => wait(socket, PollFlags::OUT, limit)?,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    while received < other.len() {
        match recv(socket, &mut other[received..], RecvFlags::DONTWAIT) {
            Ok((0, _)) => {
                return Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the other side has closed it",
                ));
            }
            Ok((n, _)) => received += n,
            Err(rustix::io::Errno::AGAIN) => wait(socket, PollFlags::IN, limit)?,
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Sleeps until a socket is ready or a signal comes. `TimedOut`: the limit has passed.
pub fn wait(socket: BorrowedFd<'_>, flags: PollFlags, limit: Instant) -> io::Result<()> {
    let left = limit.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(io::Error::new(io::ErrorKind::TimedOut, "the other side says nothing"));
    }
    let mut fds = [PollFd::new(&socket, flags)];
    let time = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
    match poll(&mut fds, Some(&time)) {
        Ok(_) | Err(rustix::io::Errno::INTR) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;

    #[test]
    fn both_sides_receive_exactly_the_bytes_sent() {
        use std::io::{Read as _, Write as _};
        let (mut a, b) = UnixStream::pair().unwrap();
        let other = std::thread::spawn(move || {
            let mut received_bytes = [0; 3];
            exchange(a.as_raw_fd(), b"aaa", &mut received_bytes, Duration::from_secs(10)).unwrap();
            a.write_all(b"rest").unwrap();
            received_bytes
        });
        let (mut received_bytes, mut rest) = ([0; 3], String::new());
        exchange(b.as_raw_fd(), b"bbb", &mut received_bytes, Duration::from_secs(10)).unwrap();
        assert_eq!((&received_bytes, &other.join().unwrap()), (b"aaa", b"bbb"));
        (&b).read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "rest");
    }

    #[test]
    fn silence_an_end_and_no_descriptor_are_errors() {
        let (a, b) = UnixStream::pair().unwrap();
        let say = |fd| exchange(fd, b"x", &mut [0], Duration::from_millis(20)).unwrap_err().kind();
        assert_eq!(say(a.as_raw_fd()), io::ErrorKind::TimedOut);
        assert_eq!(say(9990), io::ErrorKind::InvalidInput);
        drop(b);
        assert!(
            [
                io::ErrorKind::UnexpectedEof,
                io::ErrorKind::BrokenPipe,
                io::ErrorKind::ConnectionReset
            ]
            .contains(&say(a.as_raw_fd()))
        );
    }
}
