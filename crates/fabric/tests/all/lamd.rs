//! Processes whose messages go through relays on threads of this program: order, receivers that do
//! not poll, connections between relays that are killed at random, and bytes from outside the job.
//! OXMPI_FUZZ_SECONDS is the time of the tests with random bytes, OXMPI_FUZZ_SEED replays one case.

use crate::chaos::Chaos;
use crate::support::{Anything, Recorder, fuzz, planned, with_message};
use oxmpi_fabric::lamd::Lamd;
use oxmpi_fabric::relay::{Relay, RelayError};
use oxmpi_fabric::tcp::{Address, Encryption, Identity, PeerLocation, Secret, Tcp, TcpSettings};
use oxmpi_fabric::{Body, Membership as _, OutgoingMessage, Sent, Statistics as _, Transport as _};
use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::net::Listener;
use oxmpi_sys::parcel;
use oxmpi_sys::poller::Poller;
use oxmpi_wire::relay::{MAX_ORDER, MAX_PACKET, Notice, Order, Packet, PacketHeader, PacketKind};
use oxmpi_wire::{Context, Envelope, Frame, MAX_FRAME_LEN};
use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(100);
const FILES: usize = 100;
const PATIENCE: Duration = Duration::from_millis(300);

/// The relays of some nodes, each of which has two consecutive processes.
struct Relays {
    controls: Vec<OwnedFd>,
    relays: Vec<JoinHandle<Result<(), RelayError>>>,
    listening: Vec<SocketAddr>,
}

fn say(to: &OwnedFd, order: &Order, fd: Option<&OwnedFd>) {
    parcel::send(to, &[Bytes::from(&order.encode()[..])], fd.map(AsFd::as_fd)).unwrap();
}

impl Relays {
    fn new(nodes: u32, files: usize) -> Relays {
        Relays::with((nodes, files), Encryption::BetweenHosts, PATIENCE, |_, address| address)
    }

    /// `detour` maps each address to the one where the other relays connect.
    fn with(
        (nodes, files): (u32, usize),
        encrypt: Encryption,
        patience: Duration,
        detour: impl Fn(u32, SocketAddr) -> SocketAddr,
    ) -> Relays {
        let mut world = Relays { controls: Vec::new(), relays: Vec::new(), listening: Vec::new() };
        for node in 0..nodes {
            let (ours, theirs) = parcel::pair().unwrap();
            let relay = Relay::new(theirs, files).unwrap().with_patience(patience);
            world.relays.push(std::thread::spawn(move || {
                let ended = relay.run();
                // A test that waits for something else does not join the thread.
                ended.inspect_err(|error| eprintln!("the relay of node {node} ends: {error}"))
            }));
            let listener = Listener::bind(Ipv4Addr::LOCALHOST.into(), None).unwrap();
            world.listening.push(listener.address().unwrap());
            let begin = Order::Begin { job: 7, node, nodes, secret: [9; 32], encrypt }.encode();
            let begin = [Bytes::from(&begin[..])];
            parcel::send(&ours, &begin, (nodes > 1).then(|| listener.as_fd())).unwrap();
            world.controls.push(ours);
        }
        for control in &world.controls {
            for (node, address) in (0..).zip(&world.listening) {
                let addresses = format!("{}%lo", detour(node, *address));
                let name = format!("node {node}");
                say(control, &Order::Relay { node, name, addresses }, None);
                say(control, &Order::Places { first: 2 * node, count: 2, node }, None);
            }
        }
        world
    }

    fn control(&self, process: u32) -> &OwnedFd {
        &self.controls[process as usize / 2]
    }

    fn socket(&self, process: u32) -> OwnedFd {
        let (theirs, ours) = parcel::pair().unwrap();
        say(self.control(process), &Order::Process { number: process }, Some(&theirs));
        ours
    }

    fn process(&self, number: u32, from: u32) -> LamdProcess {
        let poller = Arc::new(Poller::new().unwrap());
        let tell = Box::new(|text: &str| panic!("{text}"));
        let lamd = Lamd::new(number, self.socket(number), poller.clone(), tell).unwrap();
        LamdProcess { lamd, poller, recorder: Recorder::of(from), pushed: 0 }
    }

    fn notice(&self, process: u32) -> Notice {
        let mut bytes = [0; MAX_ORDER];
        let start = Instant::now();
        loop {
            match parcel::receive(self.control(process), &mut bytes) {
                Ok((n, _)) => return Notice::decode(&bytes[..n]).unwrap(),
                Err(_) => std::thread::sleep(Duration::from_millis(1)),
            }
            assert!(start.elapsed() < LIMIT);
        }
    }

    fn end(self) -> Vec<Result<(), RelayError>> {
        drop(self.controls);
        self.relays.into_iter().map(|relay| relay.join().unwrap()).collect()
    }
}

struct LamdProcess {
    lamd: Lamd,
    poller: Arc<Poller>,
    recorder: Recorder,
    pushed: u32,
}

impl LamdProcess {
    /// Sends its next message as process `planner` of the plan.
    fn send(&mut self, planner: u32, to: u32) {
        let start = Instant::now();
        loop {
            let sent = with_message(planner, self.pushed, |message| self.lamd.send(to, message));
            if sent.unwrap() == Sent::Done {
                break;
            }
            assert!(start.elapsed() < LIMIT);
        }
        self.pushed += 1;
    }

    fn receive(&mut self, messages: u32) {
        let start = Instant::now();
        while self.recorder.next < messages {
            if !self.lamd.poll(None, &mut self.recorder) {
                self.poller.wait(Some(Duration::from_millis(100)));
            }
            assert!(start.elapsed() < LIMIT, "{} of {messages} have come", self.recorder.next);
        }
    }
}

/// Both send everything before either polls, and then receive everything.
fn exchange(world: &Relays, a: u32, b: u32, messages: u32) {
    let (mut one, mut other) = (world.process(a, b), world.process(b, a));
    for _ in 0..messages {
        one.send(a, b);
        other.send(b, a);
    }
    one.receive(messages);
    other.receive(messages);
    assert!(one.lamd.leave() && other.lamd.rest(), "nothing is left to be seen to");
}

#[test]
fn messages_of_all_kinds_come_in_order_without_polls_meanwhile() {
    let world = Relays::new(1, FILES);
    exchange(&world, 0, 1, 400);
    assert!(world.end().iter().all(Result::is_ok));
}

#[test]
fn so_they_do_between_nodes() {
    for encrypt in [Encryption::Never, Encryption::Always] {
        let world = Relays::with((2, FILES), encrypt, PATIENCE, |_, address| address);
        exchange(&world, 0, 3, 400);
        assert!(world.end().iter().all(Result::is_ok));
    }
}

#[test]
fn more_long_messages_can_wait_than_files_may_be_open() {
    for nodes in [1, 2] {
        let world = Relays::new(nodes, 3);
        exchange(&world, 0, 2 * nodes - 1, 200);
        assert!(world.end().iter().all(Result::is_ok));
    }
}

#[test]
fn connections_between_relays_may_break_at_any_time() {
    for (encrypt, chaos) in [
        (Encryption::Never, Chaos::new()),
        (Encryption::Always, Chaos::new()),
        (Encryption::Always, Chaos::spoiling()),
    ] {
        // Many connections in a row may end before one has brought anything new.
        let detour = |node, address| chaos.to(address, u64::from(node) + 5);
        let world = Relays::with((2, FILES), encrypt, LIMIT, detour);
        exchange(&world, 1, 2, 600);
        assert!(chaos.kills() > 0);
        assert!(world.end().iter().all(Result::is_ok));
    }
}

#[test]
fn a_receiver_that_does_not_poll_delays_no_other() {
    let world = Relays::new(1, FILES);
    // Process 1 never polls while both that send to it continue.
    let mut deaf = world.process(1, 0);
    let mut sender = world.process(0, 0);
    for _ in 0..2000 {
        sender.send(0, 1);
    }
    sender.pushed = 0;
    // A message of the process to itself goes through the relay, behind all other messages.
    for _ in 0..100 {
        sender.send(0, 0);
    }
    sender.receive(100);
    deaf.receive(2000);
    world.end();
}

#[test]
fn messages_wait_for_late_and_unknown_processes() {
    let world = Relays::new(2, FILES);
    let mut sender = world.process(0, 0);
    for _ in 0..50 {
        sender.send(0, 3);
    }
    world.process(3, 0).receive(50);
    // Neither relay knows process 4.
    sender.pushed = 0;
    for _ in 0..50 {
        sender.send(0, 4);
    }
    for control in &world.controls {
        say(control, &Order::Places { first: 4, count: 1, node: 1 }, None);
    }
    let (theirs, ours) = parcel::pair().unwrap();
    say(&world.controls[1], &Order::Process { number: 4 }, Some(&theirs));
    let poller = Arc::new(Poller::new().unwrap());
    let lamd = Lamd::new(4, ours, poller.clone(), Box::new(|text| panic!("{text}"))).unwrap();
    LamdProcess { lamd, poller, recorder: Recorder::of(0), pushed: 0 }.receive(50);
    world.end();
}

fn packet(source: u32, to: u32, tag: i32, body: &[u8]) -> Vec<u8> {
    let envelope = Envelope { context: Context::Local(7), tag };
    let mut frame = [0; MAX_FRAME_LEN];
    let len = Frame::Eager { envelope }.encode(tag as u8, source, &mut frame);
    let length = body.len() as u64;
    let header = PacketHeader { kind: PacketKind::Message, frame: len as u8, peer: to, length };
    [&header.encode()[..], &frame[..len], body].concat()
}

fn next(socket: &OwnedFd, bytes: &mut [u8]) -> usize {
    let start = Instant::now();
    loop {
        match parcel::receive(socket, bytes) {
            Ok((n, _)) => return n,
            Err(_) => std::thread::sleep(Duration::from_millis(1)),
        }
        assert!(start.elapsed() < LIMIT);
    }
}

#[test]
fn the_end_of_a_process_is_reported_behind_everything_that_it_has_sent() {
    for (nodes, asker) in [(1, 1), (2, 3)] {
        let world = Relays::new(nodes, FILES);
        let (dying, asking) = (world.socket(0), world.socket(asker));
        let question =
            PacketHeader { kind: PacketKind::Question, frame: 0, peer: 0, length: 0 }.encode();
        parcel::send(&asking, &[Bytes::from(&question)], None).unwrap();
        for tag in 0..100 {
            parcel::send(&dying, &[Bytes::from(&packet(0, asker, tag, b"last words")[..])], None)
                .unwrap();
        }
        // The launcher reports the end while another process still has the socket.
        say(world.control(0), &Order::Ended { number: 0 }, None);
        let mut bytes = vec![0; MAX_PACKET];
        for tag in 0..100 {
            let n = next(&asking, &mut bytes);
            let got = Packet::read(&bytes[..n], Some(0)).unwrap();
            assert!(
                matches!(got.got.unwrap().frame, Frame::Eager { envelope } if envelope.tag == tag)
            );
        }
        let n = next(&asking, &mut bytes);
        assert_eq!(Packet::read(&bytes[..n], None).unwrap().kind, PacketKind::Answer);
        drop(dying);
        world.end();
    }
}

#[test]
fn processes_of_a_lost_node_have_ended_and_the_others_go_on() {
    let Relays { mut controls, mut relays, .. } = Relays::new(3, FILES);
    let asking = {
        let (theirs, ours) = parcel::pair().unwrap();
        say(&controls[0], &Order::Process { number: 1 }, Some(&theirs));
        ours
    };
    let ask = |about: u32| {
        let question =
            PacketHeader { kind: PacketKind::Question, frame: 0, peer: about, length: 0 }.encode();
        parcel::send(&asking, &[Bytes::from(&question)], None).unwrap();
    };
    // One request is on its way, and one comes when the node is lost; so do messages.
    ask(4);
    drop(controls.remove(2));
    relays.remove(2).join().unwrap().unwrap();
    controls.iter().for_each(|control| say(control, &Order::Lost { node: 2 }, None));
    ask(5);
    parcel::send(&asking, &[Bytes::from(&packet(1, 4, 9, b"in vain")[..])], None).unwrap();
    let mut bytes = vec![0; MAX_PACKET];
    let mut answers: Vec<u32> = (0..2)
        .map(|_| {
            let n = next(&asking, &mut bytes);
            let answer = Packet::read(&bytes[..n], None).unwrap();
            assert_eq!(answer.kind, PacketKind::Answer);
            answer.peer
        })
        .collect();
    answers.sort_unstable();
    assert_eq!(answers, [4, 5]);
    drop(controls);
    relays.into_iter().for_each(|relay| relay.join().unwrap().unwrap());
}

#[test]
fn nonsense_of_one_process_is_reported_and_nothing_of_others_is_lost() {
    fuzz(|random| {
        let world = Relays::new(2, FILES);
        let wrong = world.socket(0);
        let (mut sender, mut receiver) = (world.process(2, 1), world.process(1, 2));
        for _ in 0..10 {
            sender.send(2, 1);
        }
        let mut bytes = packet(0, 2, 5, b"body");
        match random.below(4) {
            0 => bytes = (0..1 + random.below(300)).map(|_| random.draw() as u8).collect(),
            1 => bytes = packet(1, 2, 5, b"body"),
            2 => bytes.truncate(1 + random.below(bytes.len() as u64 - 1) as usize),
            _ => bytes.push(0),
        }
        parcel::send(&wrong, &[Bytes::from(&bytes[..])], None).unwrap();
        let Notice::Wrong { number: 0, .. } = world.notice(0) else { panic!("another notice") };
        assert_eq!(next(&wrong, &mut [0; 64]), 0, "it has no part any more");
        for _ in 0..10 {
            sender.send(2, 1);
        }
        receiver.receive(20);
        assert!(world.end().iter().all(Result::is_ok));
    });
}

#[test]
fn unauthenticated_connections_between_relays_have_no_effect() {
    fuzz(|random| {
        let world = Relays::new(2, FILES);
        let mut unauthenticated: Vec<TcpStream> = Vec::new();
        for at in 0..20 {
            let mut connection = TcpStream::connect(world.listening[at % 2]).unwrap();
            let bytes: Vec<u8> = (0..random.below(400)).map(|_| random.draw() as u8).collect();
            let _ = connection.write_all(&bytes);
            unauthenticated.push(connection);
        }
        exchange(&world, 0, 2, 30);
        assert!(world.end().iter().all(Result::is_ok));
    });
}

/// The reason why a relay has ended after these records of another relay; `None`: it has not.
fn said_by_another(messages: &[(Frame, Vec<u8>)]) -> Option<String> {
    let (ours, theirs) = parcel::pair().unwrap();
    let relay = std::thread::spawn(move || Relay::new(theirs, FILES).unwrap().run());
    let listen = || Listener::bind(Ipv4Addr::LOCALHOST.into(), None).unwrap();
    let listener = listen();
    let socket = listener.address().unwrap();
    let encrypt = Encryption::default();
    let begin = Order::Begin { job: 7, node: 0, nodes: 2, secret: [9; 32], encrypt }.encode();
    parcel::send(&ours, &[Bytes::from(&begin[..])], Some(listener.as_fd())).unwrap();
    say(&ours, &Order::Places { first: 0, count: 2, node: 0 }, None);
    let poller = Arc::new(Poller::new().unwrap());
    let own = Identity { job: 7, rank: 1, size: 2, incarnation: 1 };
    let found = PeerLocation::At(vec![Address { socket, interface: "lo".into(), host: None }]);
    let mut tcp = Tcp::new(
        own,
        Secret([9; 32]),
        TcpSettings { patience: Duration::from_millis(1), ..TcpSettings::default() },
        (listen(), poller.clone()),
        Box::new(move |_| Ok(found.clone())),
        Box::new(|_| ()),
    )
    .unwrap();
    let (mut sink, mut left, start) = (Anything, messages, Instant::now());
    while !relay.is_finished() {
        if left.is_empty() && tcp.leave() {
            break;
        }
        if let [(frame, body), rest @ ..] = left {
            let body = Body::Bytes(Bytes::from(&body[..]));
            match tcp.send(0, &OutgoingMessage::new(*frame, body)) {
                Ok(Sent::Full) => {}
                Ok(_) => left = rest,
                Err(_) => break,
            }
        }
        tcp.poll(None, &mut sink);
        poller.wait(Some(Duration::from_millis(1)));
        assert!(start.elapsed() < LIMIT);
    }
    drop(ours);
    relay.join().unwrap().err().map(|RelayError(why)| why)
}

#[test]
fn a_relay_ends_with_a_reason_after_invalid_records_of_another() {
    let data = |offset, body: &[u8]| (Frame::Data { receiver: 1, offset }, body.to_vec());
    let whole = packet(5, 5, 1, b"body");
    assert_eq!(said_by_another(&[data(0, &whole), data(0, &whole)]), None);
    for (wrong, why) in [
        ((Frame::Fin { request: 1 }, Vec::new()), "it sends invalid records"),
        (data(7, b"a part of nothing"), "it sends invalid records"),
        (data(0, b"no packet"), "are no packet"),
        (data(0, &[0x6c; 80]), "are no packet"),
        ((Frame::Data { receiver: 1 << 40, offset: 0 }, whole.clone()), "it sends invalid records"),
    ] {
        let text = said_by_another(&[data(0, &whole), wrong]).unwrap();
        assert!(text.starts_with("the daemon of node 1: ") && text.contains(why), "{text}");
    }
}

#[test]
fn nothing_that_another_sends_breaks_a_relay() {
    fuzz(|random| {
        let messages: Vec<_> = (0..5)
            .map(|_| {
                let mut body = packet(5, 5, 1, b"body");
                let at = random.below(body.len() as u64) as usize;
                body[at] = random.draw() as u8;
                body.truncate(1 + random.below(body.len() as u64) as usize);
                (
                    Frame::Data {
                        receiver: random.below(3),
                        offset: random.below(2) * random.below(9),
                    },
                    body,
                )
            })
            .collect();
        // The relay may or may not end, depending on the bytes.
        let _ = said_by_another(&messages);
    });
}

#[test]
fn a_relay_that_cannot_reach_another_says_so_and_ends() {
    let nowhere = Listener::bind(Ipv4Addr::LOCALHOST.into(), None).unwrap().address().unwrap();
    let world = Relays::with((2, FILES), Encryption::default(), PATIENCE, |_, _| nowhere);
    let mut sender = world.process(0, 0);
    sender.send(0, 2);
    let Notice::Lost { text } = world.notice(0) else { panic!("another notice") };
    assert!(text.contains("the daemon of node 0 cannot reach the daemon of node 1"), "{text}");
    // A process that has lost its relay waits for the launcher.
    while sender.lamd.poll(None, &mut sender.recorder) || sender.lamd.counts().connections > 0 {}
    let envelope = Envelope { context: Context::Local(7), tag: 0 };
    let message = OutgoingMessage::new(Frame::Eager { envelope }, Body::NONE);
    assert_eq!(sender.lamd.send(2, &message), Ok(Sent::Full));
    assert!(!sender.lamd.poll(None, &mut Anything));
    assert!(world.end()[0].is_err());
}

#[test]
fn the_plan_has_long_messages() {
    let long = |from| (0..30).filter(|number| planned(from, *number).1 > 65536).count();
    assert!(long(0) > 0 && long(1) > 0, "or the tests above test less than they say");
}
