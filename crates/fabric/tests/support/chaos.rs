//! A proxy that kills connections, and can spoil their data.
#![allow(clippy::unwrap_used, dead_code)] // a failure fails the test; not every test uses all

use oxmpi_fabric::sim::Random;
use oxmpi_fabric::tcp::{HELLO, PROOF, VERDICT, WELCOME};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A proxy that kills connections after random numbers of bytes, forwarded in random pieces.
#[derive(Default)]
pub(crate) struct Chaos {
    over: Arc<AtomicBool>,
    kills: Arc<AtomicU32>,
    /// Instead of killing a connection it changes, repeats, adds or omits bytes there.
    spoils: bool,
}

/// Bytes of both greetings, in which nothing is spoilt.
const GREETINGS: usize = HELLO + WELCOME + PROOF + VERDICT;

impl Chaos {
    pub(crate) fn new() -> Chaos {
        Chaos::default()
    }

    /// A proxy that spoils the data of connections, except their greetings.
    pub(crate) fn spoiling() -> Chaos {
        Chaos { over: Arc::default(), kills: Arc::default(), spoils: true }
    }

    pub(crate) fn kills(&self) -> u32 {
        self.kills.load(Ordering::Relaxed)
    }

    pub(crate) fn to(&self, address: SocketAddr, seed: u64) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let here = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let (over, kills, spoils) = (self.over.clone(), self.kills.clone(), self.spoils);
        std::thread::spawn(move || {
            let mut random = Random::new(seed);
            while !over.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((from, _)) => {
                        // Some die before the end of a greeting, most after some records.
                        let bytes = match random.below(4) {
                            0 => random.below(600),
                            1 => random.below(20_000),
                            _ => random.below(3_000_000),
                        };
                        let bytes = if spoils { GREETINGS as u64 + bytes } else { bytes };
                        let (seed, kills) = (random.draw(), kills.clone());
                        std::thread::spawn(move || {
                            carry(from, address, (bytes, spoils), seed, &kills)
                        });
                    }
                    Err(error) => {
                        assert_eq!(error.kind(), ErrorKind::WouldBlock);
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
        });
        here
    }
}

impl Drop for Chaos {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
    }
}

/// Kills the connection after `bytes` bytes in either direction, or spoils the next data.
fn carry(
    from: TcpStream,
    to: SocketAddr,
    (bytes, spoils): (u64, bool),
    seed: u64,
    kills: &Arc<AtomicU32>,
) {
    from.set_nonblocking(false).unwrap();
    let Ok(to) = TcpStream::connect(to) else { return };
    let left = Arc::new(Mutex::new(bytes));
    let directions = [(from.try_clone(), to.try_clone()), (to.try_clone(), from.try_clone())];
    std::thread::scope(|scope| {
        for (at, (source, sink)) in directions.into_iter().enumerate() {
            let (Ok(mut source), Ok(mut sink)) = (source, sink) else { return };
            let (left, kills, mut random) =
                (left.clone(), kills.clone(), Random::new(seed + at as u64));
            scope.spawn(move || {
                let mut buffer = [0; 10_000];
                loop {
                    let most = 1 + random.below(buffer.len() as u64) as usize;
                    let n = match source.read(&mut buffer[..most]) {
                        Ok(0) => {
                            // The end is also forwarded, after the data before it.
                            let _ = sink.shutdown(Shutdown::Write);
                            return;
                        }
                        Ok(n) => n,
                        Err(_) => break,
                    };
                    let (whole, is_over) = {
                        let mut left = left.lock().unwrap();
                        let whole = (n as u64).min(*left);
                        *left -= whole;
                        (whole as usize, *left == 0)
                    };
                    if sink.write_all(&buffer[..whole]).is_err() {
                        break;
                    }
                    if is_over && spoils {
                        let wrong = spoilt(&buffer[whole..n], &mut random);
                        let _ =
                            sink.write_all(&wrong).and_then(|()| hand_on(&mut source, &mut sink));
                    }
                    if is_over {
                        break;
                    }
                }
                kills.fetch_add(1, Ordering::Relaxed);
                let _ = (source.shutdown(Shutdown::Both), sink.shutdown(Shutdown::Both));
            });
        }
    });
}

/// The replacement of these bytes: other bytes, more bytes, or none.
fn spoilt(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut wrong = bytes.to_vec();
    match (random.below(4), wrong.len() as u64) {
        (0, 1..) => wrong[random.below(bytes.len() as u64) as usize] ^= 1 << random.below(8),
        (1, 1..) => wrong.extend_from_slice(bytes),
        (2, 1..) => wrong.clear(),
        _ => wrong.extend((0..1 + random.below(100_000)).map(|_| random.draw() as u8)),
    }
    wrong
}

/// Forwards all bytes, so that a receiver of wrong bytes can read the next ones.
fn hand_on(source: &mut TcpStream, sink: &mut TcpStream) -> std::io::Result<()> {
    source.set_read_timeout(Some(Duration::from_millis(20)))?;
    let mut buffer = [0; 10_000];
    loop {
        match source.read(&mut buffer)? {
            0 => return Ok(()),
            n => sink.write_all(&buffer[..n])?,
        }
    }
}
