//! Callers over loopback, beside connections of processes without their keys.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};
use std::thread::{JoinHandle, spawn};

use rustix::event::poll;

use super::*;
use crate::polling::timespec;

const LIMIT: Duration = Duration::from_secs(60);

fn callers() -> (Callers, Invitation) {
    let listener = Listener::bind(IpAddr::V4(Ipv4Addr::LOCALHOST), None).unwrap();
    let addresses = vec![listener.address().unwrap()];
    Callers::over(listener, addresses).unwrap()
}

/// An agent that calls, with its public key.
fn agent(
    invitation: &Invitation,
    number: u32,
    limit: Duration,
) -> (PublicKey, JoinHandle<io::Result<Stream>>) {
    let (keys, invitation) = (KeyPair::generate().unwrap(), invitation.clone());
    let key = keys.public();
    let call = move || call(&invitation, number, &keys, &format!("node{number}"), limit);
    (key, spawn(call))
}

/// Serves callers, whose keys are these, until `count` of them have arrived or `until` is over.
fn serve(
    callers: &mut Callers,
    keys: &[(u32, PublicKey)],
    count: usize,
    until: Instant,
) -> Vec<Caller> {
    let mut arrived = Vec::new();
    while arrived.len() < count && Instant::now() < until {
        let mut fds = Vec::new();
        callers.poll_into(&mut fds);
        poll(&mut fds, Some(&timespec(Duration::from_millis(50)))).unwrap();
        for number in callers.serve() {
            let found = keys.iter().find(|(of, _)| *of == number);
            callers.know(number, found.map(|(_, key)| *key));
        }
        arrived.append(&mut callers.take_arrived());
    }
    arrived.sort_by_key(|caller| caller.number);
    arrived
}

/// The named callers have arrived, and their streams carry data in both directions.
fn check(arrived: Vec<Caller>, agents: Vec<JoinHandle<io::Result<Stream>>>, numbers: &[u32]) {
    let names: Vec<_> = arrived.iter().map(|one| (one.number, one.host.clone())).collect();
    assert_eq!(names, numbers.iter().map(|n| (*n, format!("node{n}"))).collect::<Vec<_>>());
    for (mut caller, agent) in arrived.into_iter().zip(agents) {
        let mut stream = agent.join().unwrap().unwrap();
        carry(&mut caller.stream, &mut stream);
        carry(&mut stream, &mut caller.stream);
    }
}

fn carry(from: &mut Stream, to: &mut Stream) {
    from.post(b"some words");
    from.flush();
    let until = Instant::now() + LIMIT;
    while to.came().len() < 10 {
        assert!(to.read().unwrap() && Instant::now() < until);
        std::thread::yield_now();
    }
    assert_eq!(to.take(10), b"some words");
}

fn later() -> Instant {
    Instant::now() + LIMIT
}

#[test]
fn two_agents_call_and_a_number_arrives_once() {
    let (mut callers, invitation) = callers();
    let (one, first) = agent(&invitation, 1, LIMIT);
    let (seven, second) = agent(&invitation, 7, LIMIT);
    // The key of one is known before the call.
    callers.know(7, Some(seven));
    let keys = [(1, one), (7, seven)];
    let arrived = serve(&mut callers, &keys, 2, later());
    check(arrived, vec![first, second], &[1, 7]);

    let (again, third) = agent(&invitation, 1, Duration::from_millis(700));
    callers.know(1, Some(again));
    let until = Instant::now() + Duration::from_secs(1);
    assert!(serve(&mut callers, &keys, 1, until).is_empty());
    assert!(third.join().unwrap().is_err());
}

#[test]
fn agents_arrive_beside_processes_without_keys() {
    let (mut callers, invitation) = callers();
    let address = invitation.addresses[0];
    let silent: Vec<TcpStream> = (0..50).map(|_| TcpStream::connect(address).unwrap()).collect();
    let unknown = |bytes: &[u8]| {
        let mut socket = TcpStream::connect(address).unwrap();
        socket.write_all(bytes).unwrap();
        socket
    };
    let http = unknown(b"GET / HTTP/1.1\r\n\r\n and more");
    let named: Vec<TcpStream> =
        (0..20).map(|number| unknown(&[preamble(number), vec![7; 200]].concat())).collect();
    let (_, wrong) = agent(&invitation, 2, Duration::from_millis(700));
    let other_key = KeyPair::generate().unwrap().public();
    let (_, unlisted) = agent(&invitation, 99, Duration::from_millis(700));
    let (key, right) = agent(&invitation, 3, LIMIT);
    let arrived = serve(&mut callers, &[(2, other_key), (3, key)], 1, later());
    check(arrived, vec![right], &[3]);
    let until = Instant::now() + Duration::from_secs(1);
    assert!(serve(&mut callers, &[(2, other_key), (3, key)], 1, until).is_empty());
    assert!(wrong.join().unwrap().is_err() && unlisted.join().unwrap().is_err());
    for mut closed in named.into_iter().chain([http]) {
        closed.set_read_timeout(Some(LIMIT)).unwrap();
        let read = closed.read(&mut [0; 100]);
        assert!(!matches!(&read, Ok(1..)), "{read:?}");
    }
    drop(silent);
}

#[test]
fn more_silent_connections_than_there_is_room_for_keep_no_agent_out() {
    let (mut callers, invitation) = callers();
    let address = invitation.addresses[0];
    let (key, right) = agent(&invitation, 3, LIMIT);
    // The queue of the kernel has less room than these need.
    let flood = spawn(move || {
        (0..2 * MAX_UNAUTHENTICATED)
            .map(|_| TcpStream::connect(address).unwrap())
            .collect::<Vec<TcpStream>>()
    });
    while !flood.is_finished() {
        assert!(callers.serve().iter().all(|number| *number == 3));
        assert!(callers.guests.len() <= MAX_UNAUTHENTICATED);
    }
    let arrived = serve(&mut callers, &[(3, key)], 1, later());
    check(arrived, vec![right], &[3]);
    drop(flood);
}

#[test]
fn a_recorded_call_brings_no_second_caller() {
    let (mut callers, invitation) = callers();
    let head = invitation.addresses[0];
    // A process between agent and head records the agent's bytes.
    let between = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let through = Invitation { addresses: vec![between.local_addr().unwrap()], ..invitation };
    let recorder = spawn(move || {
        let (mut near, _) = between.accept().unwrap();
        let mut far = TcpStream::connect(head).unwrap();
        let (mut from_head, mut to_agent) = (far.try_clone().unwrap(), near.try_clone().unwrap());
        spawn(move || io::copy(&mut from_head, &mut to_agent));
        let (mut all, mut bytes) = (Vec::new(), [0; 512]);
        while let Ok(n @ 1..) = near.read(&mut bytes) {
            all.extend_from_slice(&bytes[..n]);
            far.write_all(&bytes[..n]).unwrap();
        }
        all
    });
    let (key, agent) = agent(&through, 5, LIMIT);
    let keys = [(5, key)];
    let arrived = serve(&mut callers, &keys, 1, later());
    assert_eq!(arrived.len(), 1);
    drop(agent.join().unwrap().unwrap());
    let recorded = recorder.join().unwrap();
    assert!(recorded.len() > PREAMBLE);
    // Also where the first connection has not arrived yet.
    for is_first in [false, true] {
        if is_first {
            callers.proved.clear();
        }
        let mut replay = TcpStream::connect(head).unwrap();
        replay.write_all(&recorded).unwrap();
        let until = Instant::now() + Duration::from_millis(300);
        assert!(serve(&mut callers, &keys, 1, until).is_empty());
        assert!(callers.guests.is_empty());
    }
}

#[test]
fn a_connection_without_proof_is_closed_by_its_age() {
    let (mut callers, invitation) = callers();
    let _silent = TcpStream::connect(invitation.addresses[0]).unwrap();
    while callers.guests.is_empty() {
        callers.serve();
    }
    let limit = callers.next_limit().unwrap();
    assert!(limit <= Instant::now() + PROVING);
    callers.guests.values_mut().for_each(|guest| guest.since -= PROVING);
    callers.serve();
    assert!(callers.guests.is_empty() && callers.next_limit().is_none());
}

#[test]
fn an_agent_of_another_version_says_so() {
    let (_, mut invitation) = callers();
    assert_eq!(invitation.to_string().parse(), Ok(invitation.clone()));
    assert!("0b0".parse::<Invitation>().is_err() && "0b".parse::<Invitation>().is_err());
    invitation.version += 1;
    let error = agent(&invitation, 1, LIMIT).1.join().unwrap().unwrap_err();
    assert!(error.to_string().contains("install the same version"), "{error}");
}
