//! The daemons of a world, which are relays on threads.

use oxmpi_fabric::lamd::Lamd;
use oxmpi_fabric::relay::Relay;
use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::net::Listener;
use oxmpi_sys::parcel;
use oxmpi_sys::poller::Poller;
use oxmpi_wire::noise::Encryption;
use oxmpi_wire::relay::Order;
use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

pub(super) struct Daemons {
    _controls: Vec<OwnedFd>,
    sockets: Vec<Mutex<Option<OwnedFd>>>,
}

impl Daemons {
    pub(super) fn new(
        ranks: u32,
        node: impl Fn(u32) -> u32,
        (secret, encrypt): ([u8; 32], Encryption),
    ) -> io::Result<Daemons> {
        let nodes = ranks.checked_sub(1).map_or(0, |last| node(last) + 1);
        let say = |to: &OwnedFd, order: &Order, fd: Option<BorrowedFd<'_>>| {
            parcel::send(to, &[Bytes::from(&order.encode()[..])], fd)
        };
        let (mut controls, mut addresses) = (Vec::new(), Vec::new());
        for node in 0..nodes {
            let (ours, theirs) = parcel::pair()?;
            let relay = Relay::new(theirs, 1 << 10)?;
            std::thread::spawn(move || {
                relay.run().unwrap_or_else(|error| eprintln!("relay {node}: {error}"))
            });
            let listener = Listener::bind(Ipv4Addr::LOCALHOST.into(), None)?;
            addresses.push(format!("{}%lo", listener.address()?));
            let begin = Order::Begin { job: 1, node, nodes, secret, encrypt };
            say(&ours, &begin, (nodes > 1).then(|| listener.as_fd()))?;
            controls.push(ours);
        }
        for control in &controls {
            for (node, addresses) in (0..).zip(&addresses) {
                let (name, addresses) = (format!("node {node}"), addresses.clone());
                say(control, &Order::Relay { node, name, addresses }, None)?;
            }
            (0..ranks).try_for_each(|first| {
                say(control, &Order::Places { first, count: 1, node: node(first) }, None)
            })?;
        }
        let socket = |number| {
            let (theirs, ours) = parcel::pair()?;
            say(
                &controls[node(number) as usize],
                &Order::Process { number },
                Some(theirs.as_fd()),
            )?;
            Ok(Mutex::new(Some(ours)))
        };
        let sockets = (0..ranks).map(socket).collect::<io::Result<_>>()?;
        Ok(Daemons { _controls: controls, sockets })
    }

    pub(super) fn lamd(&self, rank: u32, poller: Arc<Poller>) -> io::Result<Lamd> {
        let socket =
            self.sockets[rank as usize].lock().unwrap_or_else(PoisonError::into_inner).take();
        let socket = socket.ok_or_else(|| io::Error::other("the socket is taken already"))?;
        Lamd::new(rank, socket, poller, Box::new(|text| eprintln!("{text}")))
    }
}
