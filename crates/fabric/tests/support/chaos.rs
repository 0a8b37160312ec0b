//! A proxy that kills connections.
#![allow(clippy::unwrap_used)] // a failure is the test's

use oxmpi_fabric::sim::Random;
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Something in between that kills connections at random, after a random number of bytes, and hands on in random
/// pieces.
pub(crate) struct Chaos {
    over: Arc<AtomicBool>,
    kills: Arc<AtomicU32>,
}

impl Chaos {
    pub(crate) fn new() -> Chaos {
        Chaos { over: Arc::default(), kills: Arc::default() }
    }

    /// How many connections were killed.
    pub(crate) fn kills(&self) -> u32 {
        self.kills.load(Ordering::Relaxed)
    }

    /// An address that leads to another one.
    pub(crate) fn to(&self, address: SocketAddr, seed: u64) -> SocketAddr {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let here = listener.local_addr().unwrap();
        listener.set_nonblocking(true).unwrap();
        let (over, kills) = (self.over.clone(), self.kills.clone());
        std::thread::spawn(move || {
            let mut random = Random::new(seed);
            while !over.load(Ordering::Relaxed) {
                match listener.accept() {
                    Ok((from, _)) => {
                        // Some die before a greeting is over, most after some records.
                        let bytes = match random.below(4) {
                            0 => random.below(600),
                            1 => random.below(20_000),
                            _ => random.below(3_000_000),
                        };
                        let (seed, kills) = (random.draw(), kills.clone());
                        std::thread::spawn(move || carry(from, address, bytes, seed, &kills));
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

/// Carries so many bytes in either direction, and then kills the connection.
fn carry(from: TcpStream, to: SocketAddr, bytes: u64, seed: u64, kills: &Arc<AtomicU32>) {
    from.set_nonblocking(false).unwrap();
    let Ok(to) = TcpStream::connect(to) else { return };
    let left = Arc::new(Mutex::new(bytes));
    let ways = [(from.try_clone(), to.try_clone()), (to.try_clone(), from.try_clone())];
    std::thread::scope(|scope| {
        for (at, (source, sink)) in ways.into_iter().enumerate() {
            let (Ok(mut source), Ok(mut sink)) = (source, sink) else { return };
            let (left, kills, mut random) = (left.clone(), kills.clone(), Random::new(seed + at as u64));
            scope.spawn(move || {
                let mut buffer = [0; 10_000];
                loop {
                    let most = 1 + random.below(buffer.len() as u64) as usize;
                    let n = match source.read(&mut buffer[..most]) {
                        Ok(0) => {
                            // The end is handed on as well, after what came before it.
                            let _ = sink.shutdown(Shutdown::Write);
                            return;
                        }
                        Ok(n) => n,
                        Err(_) => break,
                    };
                    let (n, is_over) = {
                        let mut left = left.lock().unwrap();
                        let n = (n as u64).min(*left);
                        *left -= n;
                        (n as usize, *left == 0)
                    };
                    if sink.write_all(&buffer[..n]).is_err() || is_over {
                        break;
                    }
                }
                kills.fetch_add(1, Ordering::Relaxed);
                let _ = (source.shutdown(Shutdown::Both), sink.shutdown(Shutdown::Both));
            });
        }
    });
}
