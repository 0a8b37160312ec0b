//! Processes over real sockets on the loopback: connections that are killed at random,
//! unauthenticated processes, peers that die.

use crate::chaos::Chaos;
use crate::ends::{LIMIT, ProcessConfig, TestProcess, pair, until};
use crate::support::{Manner, content, fuzz, planned, with_message};
use oxmpi_fabric::sim::Random;
use oxmpi_fabric::tcp::{HELLO, PROOF, PeerLocation, VERDICT, WELCOME};
use oxmpi_fabric::{Membership as _, Sent, Statistics as _, Transport as _};
use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant};

/// The most incomplete greetings: those of unauthenticated processes, and one for each process.
const PLACES: usize = 32 + 2;

fn exchange(ends: &mut [TestProcess; 2], messages: u32) {
    until(ends, |ends| {
        for end in ends.iter_mut() {
            if end.pushed < messages {
                end.send();
            }
        }
        ends.iter().all(|end| end.pushed == messages && end.recorder.next == messages)
    });
    until(ends, |[a, b]| a.tcp.leave() & b.tcp.leave());
    for end in ends {
        assert_eq!(end.recorder.lost, [0u32; 0]);
    }
}

#[test]
fn both_may_connect_at_once() {
    for _ in 0..20 {
        let mut ends = pair(&[ProcessConfig::new(), ProcessConfig::new()]);
        exchange(&mut ends, 10);
    }
}

/// A connection is encrypted if one side wants it (rule 8 of `tcp/mod.rs`).
#[test]
fn both_may_connect_at_once_if_one_wants_encryption() {
    for _ in 0..10 {
        for plans in [
            [ProcessConfig::encrypted(), ProcessConfig::encrypted()],
            [ProcessConfig::new(), ProcessConfig::encrypted()],
        ] {
            exchange(&mut pair(&plans), 30);
        }
    }
}

#[test]
fn connections_may_die_at_any_time() {
    fuzz(|random| exchange_in(&Chaos::new(), [ProcessConfig::new(), ProcessConfig::new()], random));
}

#[test]
fn encrypted_connections_may_die_at_any_time() {
    fuzz(|random| {
        exchange_in(&Chaos::new(), [ProcessConfig::encrypted(), ProcessConfig::encrypted()], random)
    });
}

/// Changes, repetitions, additions and omissions are never accepted, and nothing is lost.
#[test]
fn a_change_of_encrypted_data_only_ends_the_connection() {
    fuzz(|random| {
        exchange_in(
            &Chaos::spoiling(),
            [ProcessConfig::encrypted(), ProcessConfig::encrypted()],
            random,
        )
    });
}

fn exchange_in(chaos: &Chaos, mut plans: [ProcessConfig; 2], random: &mut Random) {
    for plan in &mut plans {
        plan.settings.patience = LIMIT;
    }
    let mut ends = [TestProcess::new(0, &plans[0]), TestProcess::new(1, &plans[1])];
    plans[0].at(chaos.to(ends[1].address, random.draw()));
    plans[1].at(chaos.to(ends[0].address, random.draw()));
    exchange_through(&mut ends, 200, &plans);
    assert!(chaos.kills() > 0);
}

/// As [`exchange`]; a process that misses a goodbye learns of it from the launcher.
fn exchange_through(ends: &mut [TestProcess; 2], messages: u32, plans: &[ProcessConfig; 2]) {
    until(ends, |ends| {
        for end in ends.iter_mut() {
            if end.pushed < messages {
                end.send();
            }
        }
        ends.iter().all(|end| end.pushed == messages && end.recorder.next == messages)
    });
    until(ends, |[a, b]| {
        let left = [a.tcp.leave(), b.tcp.leave()];
        for (at, plan) in [1, 0].into_iter().zip(plans) {
            if left[at] {
                *plan.peer.lock().unwrap() = Ok(PeerLocation::Left);
            }
        }
        left == [true; 2]
    });
    for (end, plan) in ends.iter().zip(plans) {
        assert_eq!((&end.recorder.lost[..], &plan.texts.lock().unwrap()[..]), (&[][..], &[][..]));
    }
}

fn is_closed(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(true).unwrap();
    let mut buffer = [0; 1000];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return true,
            Ok(_) => {}
            Err(error) => return error.kind() != ErrorKind::WouldBlock,
        }
    }
}

#[test]
fn unauthenticated_connections_change_nothing_and_are_closed() {
    let plans = [ProcessConfig::new(), ProcessConfig::new()];
    let mut ends = pair(&plans);
    until(&mut ends, |ends| {
        ends[0].send();
        ends[0].pushed == 3
    });
    until(&mut ends, |ends| ends[1].recorder.next == 3);
    let connect = || TcpStream::connect(ends[1].address).unwrap();

    // A recording of a real Hello.
    let tap = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let victim_plan = ProcessConfig::new();
    victim_plan.at(tap.local_addr().unwrap());
    let mut victim = TestProcess::new(0, &victim_plan);
    victim.send();
    let (mut tapped, _) = tap.accept().unwrap();
    tapped.set_nonblocking(true).unwrap();
    let mut hello = Vec::new();
    while hello.len() < HELLO {
        victim.poll();
        let mut buffer = [0; HELLO];
        if let Ok(n) = tapped.read(&mut buffer) {
            hello.extend_from_slice(&buffer[..n]);
        }
    }

    let mut unauthenticated: Vec<(&str, TcpStream)> = Vec::new();
    let mut add = |name, bytes: &[u8]| {
        let mut connection = connect();
        connection.write_all(bytes).unwrap();
        unauthenticated.push((name, connection));
    };
    add("silence", b"");
    add("a browser", b"GET / HTTP/1.1\r\nHost: example.org\r\n\r\n");
    add("noise", &[0x5a; 5000]);
    add("half a Hello", &hello[..HELLO / 2]);
    add("a recorded Hello", &hello);
    add("a recorded Hello and a wrong Proof", &[&hello[..], &[1; PROOF]].concat());
    add("a changed Hello", &[&hello[..40], &[0xff; HELLO - 40]].concat());
    let mut more: Vec<TcpStream> = (0..200).map(|_| connect()).collect();

    // Connections without a place are closed, while messages of the job continue.
    let start = Instant::now();
    let mut closed = 0;
    until(&mut ends, |ends| {
        if ends[0].pushed < 100 {
            ends[0].send();
        }
        unauthenticated.retain_mut(|(_, stream)| !is_closed(stream));
        more.retain_mut(|stream| {
            let gone = is_closed(stream);
            closed += u32::from(gone);
            !gone
        });
        assert!(start.elapsed() < LIMIT, "still there: {unauthenticated:?} and {}", more.len());
        unauthenticated.len() + more.len() <= PLACES && ends[0].pushed == 100
    });
    assert!(closed >= 200 - PLACES as u32);
    assert!(
        unauthenticated.iter().all(|(name, _)| *name == "a recorded Hello"),
        "{unauthenticated:?}"
    );
    until(&mut ends, |ends| ends[1].recorder.next == 100);
    until(&mut ends, |[a, b]| a.tcp.leave() & b.tcp.leave());
    until(&mut ends, |_| more.iter_mut().all(is_closed));
    assert_eq!(ends[0].recorder.lost, [0u32; 0]);
    assert_eq!(ends[1].recorder.lost, [0u32; 0]);
}

/// Closes connections to `tap`, each as soon as it is made, for as long as `goes_on`.
fn close_all(
    tap: &TcpListener,
    from: &mut TestProcess,
    mut goes_on: impl FnMut(&TestProcess, u32) -> bool,
) {
    tap.set_nonblocking(true).unwrap();
    let (start, mut closed) = (Instant::now(), 0);
    while goes_on(from, closed) {
        match tap.accept() {
            Ok(_) => closed += 1,
            Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
        }
        assert!(start.elapsed() < LIMIT, "{closed} connections were closed");
        from.rest();
    }
}

#[test]
fn a_peer_that_closes_connections_for_a_while_is_not_lost() {
    let mut plans = [ProcessConfig::new(), ProcessConfig::new()];
    plans[0].settings.patience = LIMIT;
    let mut ends = pair(&plans);
    let tap = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    plans[0].at(tap.local_addr().unwrap());
    assert_eq!(ends[0].send(), Sent::Full);
    close_all(&tap, &mut ends[0], |_, closed| closed < 11);
    plans[0].at(ends[1].address);
    exchange(&mut ends, 10);
}

/// Such a closer is, for example, the end of a tunnel without a listener behind it.
#[test]
fn a_peer_that_closes_each_connection_is_lost_and_reported_with_its_address() {
    let plan = ProcessConfig::new();
    let tap = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = tap.local_addr().unwrap();
    plan.at(address);
    let mut end = TestProcess::new(0, &plan);
    // A short message leaves early, and counts as sent.
    let is_short = |number: &u32| matches!(planned(0, *number), (Manner::Eager, 1..1000));
    end.pushed = (0..).find(is_short).unwrap();
    let start = Instant::now();
    while end.send() == Sent::Full {
        end.rest();
        assert!(start.elapsed() < LIMIT, "it does not leave");
    }
    assert_eq!(end.tcp.lost_messages(), None);
    close_all(&tap, &mut end, |end, _| end.recorder.lost.is_empty());
    assert!(end.tcp.leave() && end.tcp.lost_messages().is_some(), "it waits for no process");
    let texts = plan.texts.lock().unwrap().join("\n");
    let place = format!("the last address was {address} on interface lo of host over-there");
    for word in ["rank 0 cannot reach rank 1", "times in ", &place] {
        assert!(texts.contains(word), "'{word}' in: {texts}");
    }
    // The reason depends on whether the greeting had arrived when the connection was closed.
    assert!(
        texts.contains("closed at the other end") || texts.contains("reset by peer"),
        "{texts}"
    );
}

#[test]
fn a_process_without_the_secret_is_no_peer() {
    let plans = [ProcessConfig::new(), ProcessConfig { secret: [8; 32], ..ProcessConfig::new() }];
    let mut ends = pair(&plans);
    until(&mut ends, |ends| {
        if ends[0].recorder.lost.is_empty() {
            assert_eq!(ends[0].send(), Sent::Full);
        }
        !ends[0].recorder.lost.is_empty()
    });
    assert_eq!(ends[0].recorder.lost, [1]);
    assert_eq!(ends[1].recorder.next, 0);
    let texts = plans[0].texts.lock().unwrap().join("\n");
    assert!(
        texts.contains("rank 0 cannot reach rank 1 over sockets: the connection was closed"),
        "{texts}"
    );
}

/// A proxy that changes bit `bit` of the head of the first record, in the first `times`
/// connections.
fn flipping(address: SocketAddr, times: usize, bit: usize) -> SocketAddr {
    let tap = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let here = tap.local_addr().unwrap();
    std::thread::spawn(move || {
        for (number, from) in tap.incoming().enumerate() {
            let Ok(to) = TcpStream::connect(address) else { return };
            let from = from.unwrap();
            let back = (to.try_clone().unwrap(), from.try_clone().unwrap());
            for ((mut from, mut to), greetings) in
                [((from, to), HELLO + PROOF), (back, WELCOME + VERDICT)]
            {
                std::thread::spawn(move || {
                    let (mut at, mut bytes) = (0, [0; 10_000]);
                    while let Ok(n @ 1..) = from.read(&mut bytes) {
                        let place = (greetings + bit / 8).wrapping_sub(at);
                        if place < n && number < times {
                            bytes[place] ^= 1 << (bit % 8);
                        }
                        at += n;
                        let _ = to.write_all(&bytes[..n]);
                    }
                    let _ = to.shutdown(Shutdown::Write);
                });
            }
        }
    });
    here
}

/// The length of a record is not encrypted. A changed length must not be accepted (rule 8).
#[test]
fn a_changed_length_of_an_encrypted_record_ends_its_connection_and_if_it_always_is_the_peer_is_lost()
 {
    let is_short = |from, number| matches!(planned(from, number), (Manner::Eager, 1..1000));
    let number = (0..).find(|number| is_short(0, *number) && is_short(1, *number)).unwrap();
    // The last pair always makes the record longer.
    for (times, bit) in [(1, 5), (1, 8), (1, 15), (usize::MAX, 15)] {
        let plans = [ProcessConfig::encrypted(), ProcessConfig::encrypted()];
        let mut ends = pair(&plans);
        plans[0].at(flipping(ends[1].address, times, bit));
        plans[1].at(flipping(ends[0].address, times, bit));
        for end in &mut ends {
            (end.pushed, end.recorder.next) = (number, number);
        }
        let is_lost = times > 1;
        until(&mut ends, |ends| {
            for end in &mut *ends {
                if end.pushed == number && end.recorder.lost.is_empty() {
                    end.send();
                }
            }
            ends.iter().all(|end| {
                if is_lost { !end.recorder.lost.is_empty() } else { end.recorder.next > number }
            })
        });
        let texts = plans.each_ref().map(|plan| plan.texts.lock().unwrap().join("\n"));
        assert_eq!(texts.iter().all(String::is_empty), !is_lost, "{texts:?}");
        for (rank, texts) in texts.iter().enumerate().filter(|_| is_lost) {
            let begin = format!("rank {rank} cannot reach rank {} over sockets: ", 1 - rank);
            assert!(
                texts.contains(&begin) && texts.contains("interface lo of host over-there"),
                "{texts:?}"
            );
            assert_eq!(ends[rank].recorder.next, number, "nothing of it is believed");
        }
        assert!(
            !is_lost || texts.iter().any(|text| text.contains("changed on the way")),
            "{texts:?}"
        );
    }
}

#[test]
fn a_dead_peer_is_lost_after_some_time_and_reported_with_the_attempts() {
    let plans = [ProcessConfig::new(), ProcessConfig::new()];
    let [mut alive, mut dead] = pair(&plans);
    while alive.pushed < 2 || dead.recorder.next < 2 {
        if alive.pushed < 2 {
            alive.send();
        }
        alive.poll();
        dead.poll();
    }
    let address = dead.address;
    let start = Instant::now();
    drop(dead);
    while alive.recorder.lost.is_empty() {
        alive.rest();
        assert!(start.elapsed() < LIMIT);
    }
    assert!(start.elapsed() >= Duration::from_millis(300), "it is tried for some time");
    assert_eq!(alive.recorder.lost, [1]);
    let texts = plans[0].texts.lock().unwrap();
    assert_eq!(texts.len(), 1);
    for word in ["rank 0", "rank 1", "refused", "times in ", &address.to_string(), "interface lo"] {
        assert!(texts[0].contains(word), "'{word}' in: {}", texts[0]);
    }
    let error = with_message(0, 0, |message| alive.tcp.send(1, message)).unwrap_err();
    assert_eq!((error.peer, &error.why), (1, &texts[0]));
    assert!(alive.tcp.leave(), "it waits for no process");
}

#[test]
fn a_peer_that_has_left_is_not_lost() {
    let plans = [ProcessConfig::new(), ProcessConfig::new()];
    let mut ends = pair(&plans);
    until(&mut ends, |ends| ends[0].send() != Sent::Full);
    until(&mut ends, |ends| ends[1].recorder.next == 1);
    // Only the goodbye acknowledges the message.
    until(&mut ends, |ends| ends[1].tcp.leave());
    let [mut stays, gone] = ends;
    drop(gone);
    stays.poll();
    for _ in 0..10 {
        assert_eq!(stays.send(), Sent::Done, "no process takes it");
        stays.rest();
    }
    assert!(stays.tcp.leave());
    assert_eq!(stays.recorder.lost, [0u32; 0]);

    // A first message to a process that has left already.
    let plan = ProcessConfig::new();
    *plan.peer.lock().unwrap() = Ok(PeerLocation::Left);
    let mut late = TestProcess::new(0, &plan);
    assert_eq!(late.send(), Sent::Full);
    late.poll();
    assert_eq!(late.send(), Sent::Done);
    assert!(late.tcp.leave());
}

/// A process does not wait for later records if the peer ends without a goodbye (rule 6).
#[test]
fn a_resting_process_waits_only_for_peers_with_a_communicator() {
    let plans = [ProcessConfig::new(), ProcessConfig::new()];
    let mut ends = pair(&plans);
    until(&mut ends, |ends| ends[0].send() != Sent::Full);
    until(&mut ends, |ends| ends[1].recorder.next == 1);
    until(&mut ends, |ends| ends[0].tcp.settle(1) & ends[1].tcp.settle(0));
    ends[0].tcp.detach(1);
    ends[1].tcp.detach(0);
    let [mut stays, gone] = ends;
    assert_ne!(stays.send(), Sent::Full);
    drop(gone);
    let start = Instant::now();
    while stays.tcp.counts().connections > 0 {
        stays.rest();
        assert!(start.elapsed() < LIMIT, "{stays:?}");
    }
    assert!(oxmpi_fabric::Membership::rest(&mut stays.tcp));
    assert_eq!(stays.recorder.lost, [0u32; 0]);
    // If the two get a communicator again, this process waits for such records.
    stays.tcp.attach(1);
    while !oxmpi_fabric::Membership::rest(&mut stays.tcp) {
        stays.rest();
        assert!(start.elapsed() < LIMIT, "{stays:?}");
    }
    assert_eq!(stays.recorder.lost, [1]);
}

#[test]
fn an_older_incarnation_is_refused_and_a_newer_one_ends_the_older() {
    let plans = [ProcessConfig::new(), ProcessConfig { incarnation: 5, ..ProcessConfig::new() }];
    let mut ends = pair(&plans);
    until(&mut ends, |ends| ends[1].pushed > 0 || ends[1].send() != Sent::Full);
    until(&mut ends, |ends| ends[0].recorder.next == 1);
    for (incarnation, is_newer) in [(4, false), (6, true)] {
        let plan = ProcessConfig { incarnation, ..ProcessConfig::new() };
        plan.at(ends[0].address);
        let mut other = TestProcess::new(1, &plan);
        let start = Instant::now();
        while other.recorder.lost.is_empty() {
            if plan.texts.lock().unwrap().is_empty() {
                other.send();
            }
            other.rest();
            ends[0].poll();
            ends[1].poll();
            assert!(start.elapsed() < LIMIT);
            if is_newer && !ends[0].recorder.lost.is_empty() {
                break;
            }
        }
        assert_eq!(ends[0].recorder.lost, if is_newer { vec![1] } else { vec![] });
        assert_eq!(ends[0].recorder.next, 1, "nothing of it is believed");
    }
}

#[test]
fn many_unacknowledged_messages_wait() {
    wait_for_each_other([ProcessConfig::new(), ProcessConfig::new()]);
    wait_for_each_other([ProcessConfig::encrypted(), ProcessConfig::encrypted()]);
}

fn wait_for_each_other(plans: [ProcessConfig; 2]) {
    let mut ends = pair(&plans);
    until(&mut ends, |ends| ends[0].send() != Sent::Full);
    // The other side does not poll: the kernel's buffers fill, and nothing more is retained.
    let start = Instant::now();
    let mut full = 0;
    while full < 100 {
        full += u32::from(ends[0].send() == Sent::Full);
        ends[0].poll();
        assert!(start.elapsed() < LIMIT);
    }
    let pushed = ends[0].pushed;
    assert!(pushed < 10_000, "{pushed} messages were taken");
    until(&mut ends, |ends| ends[1].recorder.next == pushed);
    exchange(&mut ends, pushed + 10);
}

/// The bytes between two processes, each direction of each connection by itself.
fn recorded(plans: &[ProcessConfig; 2]) -> Vec<Vec<u8>> {
    let mut ends = [TestProcess::new(0, &plans[0]), TestProcess::new(1, &plans[1])];
    let taps = [0, 1].map(|_| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let places = [0, 1].map(|at: usize| taps[at].local_addr().unwrap());
    let addresses = [ends[1].address, ends[0].address];
    plans[0].at(places[0]);
    plans[1].at(places[1]);
    std::thread::scope(|scope| {
        let seen = [0, 1].map(|at| {
            let (tap, address) = (&taps[at], addresses[at]);
            scope.spawn(move || record(tap, address))
        });
        exchange(&mut ends, 20);
        drop(ends);
        // Ends the wait for a process that has not connected.
        places.iter().for_each(|place| drop(TcpStream::connect(place)));
        seen.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

/// Carries a connection to an address, and returns the bytes of each direction.
fn record(tap: &TcpListener, to: SocketAddr) -> Vec<Vec<u8>> {
    let (from, _) = tap.accept().unwrap();
    let Ok(to) = TcpStream::connect(to) else { return Vec::new() };
    let copy = |mut source: TcpStream, mut sink: TcpStream| {
        let (mut seen, mut buffer) = (Vec::new(), [0; 10_000]);
        while let Ok(n @ 1..) = source.read(&mut buffer) {
            seen.extend_from_slice(&buffer[..n]);
            let _ = sink.write_all(&buffer[..n]);
        }
        let _ = sink.shutdown(Shutdown::Write);
        seen
    };
    let back = (to.try_clone().unwrap(), from.try_clone().unwrap());
    let back = std::thread::spawn(move || copy(back.0, back.1));
    vec![copy(from, to), back.join().unwrap()]
}

#[test]
fn encrypted_data_cannot_be_read_on_the_wire() {
    // A part of each longer message, in either direction.
    let part = &content(0, 3000)[1000..1016];
    let is_seen = |bytes: &Vec<u8>| bytes.windows(part.len()).any(|window| window == part);
    let long = |bytes: &Vec<u8>| bytes.len() > 100_000;
    for (plans, is_encrypted) in [
        ([ProcessConfig::new(), ProcessConfig::new()], false),
        ([ProcessConfig::encrypted(), ProcessConfig::encrypted()], true),
        ([ProcessConfig::new(), ProcessConfig::encrypted()], true),
        ([ProcessConfig::encrypted(), ProcessConfig::new()], true),
    ] {
        let directions = recorded(&plans);
        assert!(
            directions.iter().filter(|bytes| long(bytes)).count() >= 2,
            "the messages went elsewhere"
        );
        let seen = directions.iter().filter(|bytes| long(bytes) && is_seen(bytes)).count();
        assert_eq!(seen >= 2, !is_encrypted);
        assert!(!is_encrypted || !directions.iter().any(is_seen));
    }
}
