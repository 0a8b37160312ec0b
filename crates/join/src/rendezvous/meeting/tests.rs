use super::*;
use crate::munge::MungeError;
use crate::rendezvous::credential::{ClaimedSide, NodeClaim};
use crate::rendezvous::fake::FakeMunge;
use proptest::prelude::*;

const PORT: u16 = 21_000;

type FakeMeeting = NodeMeeting<FakeMunge>;

fn name(nodes: u32) -> MeetingName {
    MeetingName { job: 7, step: 0, restart: 0, nodes }
}

fn meeting(munge: &FakeMunge, nodes: u32, node: u32) -> FakeMeeting {
    NodeMeeting::new(name(nodes), node, munge.on(node)).unwrap()
}

/// The bytes that a meeting sends by a connection.
fn sent_by(meeting: &mut FakeMeeting, id: LinkId) -> Vec<u8> {
    let mut all = Vec::new();
    loop {
        let output = meeting.output(id).to_vec();
        if output.is_empty() {
            return all;
        }
        meeting.sent(id, output.len());
        all.extend(output);
    }
}

/// The processes of all nodes, and their connections.
struct World {
    munge: FakeMunge,
    now: Instant,
    all: Vec<FakeMeeting>,
    /// The member, and the connection as it and the hub know it.
    wires: Vec<(usize, LinkId, LinkId)>,
}

impl World {
    fn new(nodes: u32) -> World {
        let munge = FakeMunge::new();
        let all = (0..nodes).map(|node| meeting(&munge, nodes, node)).collect();
        World { munge, now: Instant::now(), all, wires: Vec::new() }
    }

    fn hub(&mut self) -> &mut FakeMeeting {
        &mut self.all[0]
    }

    fn connect(&mut self, member: usize) -> (LinkId, LinkId) {
        let now = self.now;
        let there = self.all[member].connected("hub".into(), PORT, now).unwrap();
        let here = self.hub().accepted(format!("node{member}"), PORT, now);
        self.wires.push((member, there, here));
        (there, here)
    }

    fn connect_all(&mut self) {
        (1..self.all.len()).for_each(|member| _ = self.connect(member));
        self.carry();
    }

    /// Carries everything until nothing is left to carry. Ends of connections reach both sides.
    fn carry(&mut self) {
        loop {
            let mut has_carried = false;
            for (member, there, here) in self.wires.clone() {
                let bytes = sent_by(&mut self.all[member], there);
                has_carried |= !bytes.is_empty();
                bytes.chunks(999).for_each(|piece| self.hub().received(here, piece));
                let bytes = sent_by(self.hub(), here);
                has_carried |= !bytes.is_empty();
                bytes.chunks(999).for_each(|piece| self.all[member].received(there, piece));
            }
            for at in 0..self.all.len() {
                for closed in self.all[at].closed() {
                    has_carried = true;
                    self.cut(|wire| {
                        if at == 0 { wire.2 == closed } else { (wire.0, wire.1) == (at, closed) }
                    });
                }
            }
            if !has_carried {
                return;
            }
        }
    }

    /// Ends connections at both sides.
    fn cut(&mut self, which: impl Fn(&(usize, LinkId, LinkId)) -> bool) {
        for wire in std::mem::take(&mut self.wires) {
            if which(&wire) {
                self.all[wire.0].ended(wire.1, "cut");
                self.hub().ended(wire.2, "cut");
            } else {
                self.wires.push(wire);
            }
        }
    }

    fn fence(&mut self) {
        for meeting in &mut self.all {
            let node = meeting.node;
            meeting.fence(vec![("card".into(), vec![node as u8; 200_000])]);
        }
        self.carry();
    }

    fn is_running(&self) -> bool {
        self.all.iter().all(|meeting| meeting.phase() == MeetingPhase::Running)
    }

    fn reasons(&self, node: usize) -> String {
        self.all[node].skipped.shown()
    }
}

#[test]
fn all_nodes_meet_and_have_one_secret_and_all_values() {
    for nodes in [1, 2, 5] {
        let mut world = World::new(nodes);
        world.connect_all();
        assert!(world.is_running());
        let (number, secret) = world.all[0].started().unwrap().clone();
        for meeting in &world.all {
            let started = meeting.started().unwrap();
            assert!(started.0 == number && started.1.0 == secret.0);
        }
        assert_eq!(world.all[0].get(0, "card"), None);
        world.fence();
        for meeting in &mut world.all {
            assert!(meeting.is_fence_over() && meeting.lost().is_empty());
            for node in 0..nodes {
                assert_eq!(meeting.get(node, "card"), Some(&vec![node as u8; 200_000][..]));
                assert_eq!(meeting.get(node, "other"), None);
            }
            meeting.fence(Vec::new());
        }
        world.carry();
        assert!(world.all.iter().all(|meeting| meeting.is_fence_over()));
        assert_eq!(world.reasons(0), "");
        let again = World::new(1);
        assert_ne!(again.all[0].started().unwrap().0, number, "each meeting has another number");
    }
}

#[test]
fn a_fence_waits_for_the_last_node() {
    let mut world = World::new(3);
    world.connect_all();
    for node in [0, 1] {
        world.all[node].fence(Vec::new());
    }
    world.carry();
    assert!(!world.all[0].is_fence_over() && !world.all[1].is_fence_over());
    assert_eq!(world.all[0].behind(), [2]);
    world.all[2].fence(vec![("a".into(), b"b".to_vec())]);
    world.carry();
    assert!(world.all.iter().all(|meeting| meeting.is_fence_over()));
    assert_eq!(world.all[1].get(2, "a"), Some(&b"b"[..]));
}

/// A connection of an attacker with the hub: it sends these bytes and returns the answer.
fn attack(hub: &mut FakeMeeting, bytes: &[u8]) -> (LinkId, Vec<u8>) {
    let id = hub.accepted("attacker".into(), PORT, Instant::now());
    hub.received(id, bytes);
    (id, sent_by(hub, id))
}

/// The magic and a credential, as a member sends it.
fn greeting(credential: &str) -> Vec<u8> {
    let length = (credential.len() as u16).to_le_bytes();
    [b"OxMPI nodes 0001", &length[..], credential.as_bytes()].concat()
}

fn claim(change: impl FnOnce(&mut NodeClaim)) -> Vec<u8> {
    let side = ClaimedSide::Member;
    let mut claim = NodeClaim { side, meeting: name(2), node: 1, port: PORT, key: [9; 32] };
    change(&mut claim);
    claim.encode()
}

#[test]
fn the_host_skips_every_wrong_credential_and_the_meeting_goes_on() {
    let mut world = World::new(2);
    let munge = world.munge.on(1);
    let other = munge.of_user(65_534);
    let own = |change: fn(&mut NodeClaim)| munge.make(&claim(change)).unwrap();
    let table = [
        (other.make_for(1000, &claim(|_| {})), "it is of the user 65534"),
        (other.make(&claim(|_| {})).unwrap(), "a credential is for another user"),
        ("invented".into(), "a credential is invalid (invented)"),
        (String::new(), "a credential is invalid (invented)"),
        (munge.make(b"other content").unwrap(), "no content of this version"),
        (own(|claim| claim.meeting.step = 1), "it is of step 7.1 on 2 nodes"),
        (own(|claim| claim.meeting.restart = 3), "it is of step 7.0 on 2 nodes, restart 3"),
        (own(|claim| claim.meeting.nodes = 3), "it is of step 7.0 on 3 nodes"),
        (own(|claim| claim.meeting.job = 8), "it is of step 8.0"),
        (own(|claim| claim.port = 1), "made for port 1: another process has passed it on"),
        (own(|claim| claim.node = 0), "of node 0, which cannot be"),
        (own(|claim| claim.node = 2), "of node 2, which cannot be"),
        (own(|claim| claim.side = ClaimedSide::Hub { answers: [0; 32] }), "the wrong side"),
    ];
    for (credential, why) in table {
        world.hub().skipped = Default::default();
        let (id, answer) = attack(world.hub(), &greeting(&credential));
        assert!(answer.is_empty(), "{why}");
        assert_eq!(world.hub().closed(), [id], "{why}");
        assert!(world.reasons(0).contains(why), "{why}: {}", world.reasons(0));
        assert!(world.reasons(0).contains("attacker"), "{}", world.reasons(0));
    }
    for (bytes, why) in [
        (b"SSH-2.0-OpenSSH".to_vec(), "does not speak the protocol"),
        (b"OxMPI nodes 0002".to_vec(), "does not speak the protocol"),
        ([&b"OxMPI nodes 0001"[..], &[255, 255]].concat(), "makes no sense"),
        ([&b"OxMPI nodes 0001"[..], &[1, 0, 255]].concat(), "makes no sense"),
    ] {
        let (id, answer) = attack(world.hub(), &bytes);
        assert!(answer.is_empty());
        assert_eq!(world.hub().closed(), [id]);
        assert!(world.reasons(0).contains(why), "{why}: {}", world.reasons(0));
    }
    world.connect_all();
    assert!(world.is_running());
}

#[test]
fn a_recorded_credential_gets_an_answer_at_most_once_and_leads_nowhere() {
    let mut world = World::new(2);
    // A process that holds a port has recorded the credential, and sends it to the hub.
    let now = world.now;
    let id = world.all[1].connected("attacker".into(), PORT, now).unwrap();
    let recorded = sent_by(&mut world.all[1], id);
    let (first, answer) = attack(world.hub(), &recorded);
    assert!(!answer.is_empty(), "the hub cannot know yet");
    // It cannot open the answer, so it has no key for the handshake.
    world.hub().received(first, &[7; 48]);
    assert_eq!(world.hub().closed(), [first]);
    assert_eq!(world.hub().missing(), [1]);
    let (second, answer) = attack(world.hub(), &recorded);
    assert!(answer.is_empty());
    assert_eq!(world.hub().closed(), [second]);
    assert!(world.reasons(0).contains("a credential was used before"), "{}", world.reasons(0));
    // The whole recorded conversation of a member that has met is no use either.
    let (there, here) = world.connect(1);
    let mut recorded = Vec::new();
    loop {
        let bytes = sent_by(&mut world.all[1], there);
        if bytes.is_empty() {
            break;
        }
        world.hub().received(here, &bytes);
        recorded.extend(bytes);
        let answer = sent_by(world.hub(), here);
        world.all[1].received(there, &answer);
    }
    assert!(world.is_running());
    let mut late = meeting(&world.munge.on(9), 2, 0);
    let (id, _) = attack(&mut late, &recorded);
    assert_eq!(late.closed(), [id]);
    assert_eq!(late.missing(), [1]);
}

#[test]
fn a_handshake_that_waits_for_its_first_record_proves_nothing() {
    let mut world = World::new(2);
    let (there, here) = world.connect(1);
    let credential = sent_by(&mut world.all[1], there);
    world.hub().received(here, &credential);
    let answer = sent_by(world.hub(), here);
    world.all[1].received(there, &answer);
    let handshake = sent_by(&mut world.all[1], there);
    assert_eq!(handshake.len(), 48);
    world.hub().received(here, &handshake);
    assert_eq!(world.hub().missing(), [1]);
    // The relay goes silent. The connection is closed in time, and the member comes again.
    world.now += PROOF;
    let now = world.now;
    world.hub().tick(now);
    assert!(world.reasons(0).contains("not proved itself in time"));
    world.carry();
    world.connect_all();
    assert!(world.is_running());
}

#[test]
fn a_member_skips_every_process_that_only_holds_the_port() {
    let mut world = World::new(2);
    let munge = world.munge.clone();
    let other = munge.of_user(65_534);
    let hub_claim = |claim: &mut NodeClaim| {
        (claim.side, claim.node) = (ClaimedSide::Hub { answers: [1; 32] }, 0);
    };
    let table = [
        (b"220 mail ready".to_vec(), "does not speak the protocol"),
        (greeting("invented"), "a credential is invalid"),
        (greeting(&other.make_for(1000, &claim(hub_claim))), "it is of the user 65534"),
        (greeting(&munge.make(&claim(hub_claim)).unwrap()), "answers another one"),
        (greeting(&munge.make(&claim(|claim| claim.meeting.step = 4)).unwrap()), "of step 7.4"),
    ];
    for (answer, why) in table {
        let now = world.now;
        let id = world.all[1].connected("squatter".into(), PORT, now).unwrap();
        assert!(!sent_by(&mut world.all[1], id).is_empty());
        world.all[1].received(id, &answer);
        assert_eq!(world.all[1].closed(), [id], "{why}");
        assert!(world.reasons(1).contains(why), "{why}: {}", world.reasons(1));
        assert!(!world.all[1].has_hub());
    }
    // It sends the member's credential back.
    world.all[1].skipped = Default::default();
    let now = world.now;
    let id = world.all[1].connected("squatter".into(), PORT, now).unwrap();
    let own = sent_by(&mut world.all[1], id);
    world.all[1].received(id, &own);
    assert_eq!(world.all[1].closed(), [id]);
    assert!(world.reasons(1).contains("it was sent back"), "{}", world.reasons(1));
    // It says nothing, while the member meets the hub by another connection.
    let silent = world.all[1].connected("squatter".into(), PORT, now).unwrap();
    world.connect_all();
    assert!(world.is_running());
    assert!(!world.all[1].peers.contains_key(&silent));
}

#[test]
fn a_credential_for_another_port_cannot_be_passed_on() {
    let mut world = World::new(2);
    let now = world.now;
    let member = world.all[1].connected("squatter".into(), PORT + 1, now).unwrap();
    let credential = sent_by(&mut world.all[1], member);
    let (id, answer) = attack(world.hub(), &credential);
    assert!(answer.is_empty());
    assert_eq!(world.hub().closed(), [id]);
    assert!(world.reasons(0).contains("another process has passed it on"), "{}", world.reasons(0));
    world.connect_all();
    assert!(world.is_running());
}

/// A process on the way changes one bit of the conversation: the connection ends, or the bit has no
/// effect, and a new connection leads to the meeting.
#[test]
fn a_changed_bit_ends_the_connection_and_the_next_one_leads_to_the_meeting() {
    for (round, is_to_host) in [(0, true), (0, false), (1, true), (1, false), (2, true), (2, false)]
    {
        for at in [0, 17, 20, 30, 47] {
            let mut world = World::new(2);
            let (there, here) = world.connect(1);
            for this in 0..4 {
                let change = |mut bytes: Vec<u8>, to_host: bool| {
                    if this == round && is_to_host == to_host && !bytes.is_empty() {
                        let at = at % bytes.len();
                        bytes[at] ^= 4;
                    }
                    bytes
                };
                let bytes = change(sent_by(&mut world.all[1], there), true);
                world.hub().received(here, &bytes);
                let bytes = change(sent_by(world.hub(), here), false);
                world.all[1].received(there, &bytes);
            }
            world.carry();
            if !world.is_running() {
                world.cut(|_| true);
                world.connect_all();
            }
            if world.all[0].phase() == MeetingPhase::Running && !world.is_running() {
                // Start was changed on the way, after the hub had all nodes.
                assert!((round, is_to_host) == (2, false), "{round} {at}");
                continue;
            }
            assert!(world.is_running(), "{round} {is_to_host} {at}");
        }
    }
}

#[test]
fn connections_without_a_proof_are_closed_in_time_or_when_there_are_too_many() {
    let mut world = World::new(3);
    let (now, most) = (world.now, 3 + UNPROVED as u64);
    // The member has sent a valid credential, and then many others connect.
    let (there, here) = world.connect(1);
    let credential = sent_by(&mut world.all[1], there);
    world.hub().received(here, &credential);
    let ids: Vec<LinkId> =
        (0..most).map(|_| world.hub().accepted("attacker".into(), PORT, now)).collect();
    assert_eq!(world.hub().closed(), ids[..1], "the oldest without a credential");
    world.carry();
    assert_eq!(world.hub().missing(), [2]);
    world.connect(2);
    world.carry();
    assert!(world.is_running(), "all other connections were closed at the start");
    assert_eq!(world.hub().peers.len(), 2);

    let mut world = World::new(3);
    world.connect(1);
    world.carry();
    let now = world.now;
    let silent = world.hub().accepted("attacker".into(), PORT, now);
    world.hub().tick(now + PROOF - Duration::from_millis(1));
    assert_eq!(world.hub().closed(), []);
    world.hub().tick(now + PROOF);
    assert_eq!(world.hub().closed(), [silent], "the proved one stays");
    assert_eq!(world.hub().missing(), [2]);
}

#[test]
fn a_second_process_of_a_node_is_refused_and_the_same_one_may_come_again() {
    let mut world = World::new(3);
    world.connect(1);
    world.carry();
    let (_, first) = (0, world.hub().present[1]);
    // The same process again: its older connection may be dead without an end.
    let (there, here) = world.connect(1);
    world.all[1].present[0] = None;
    world.carry();
    assert_eq!(world.hub().present[1], Some(here));
    assert_ne!(first, Some(here));
    assert_eq!(world.all[1].present[0], Some(there));
    // Another process.
    let second = meeting(&world.munge, 3, 1);
    let real = std::mem::replace(&mut world.all[1], second);
    let wires = std::mem::take(&mut world.wires);
    world.connect(1);
    world.carry();
    let refused = world.all[1].refused().unwrap();
    assert_eq!(refused, "another process of node 1 is here already");
    (world.all[1], world.wires) = (real, wires);
    world.connect(2);
    world.carry();
    assert!(world.is_running());
}

#[test]
fn a_member_whose_connection_ends_before_the_start_comes_again() {
    let mut world = World::new(3);
    world.connect(1);
    world.carry();
    assert!(world.all[1].has_hub());
    world.cut(|_| true);
    assert!(!world.all[1].has_hub());
    assert_eq!(world.hub().missing(), [1, 2]);
    world.connect_all();
    assert!(world.is_running());
}

#[test]
fn a_failed_node_is_reported_to_all_and_ends_their_fences() {
    let mut world = World::new(4);
    world.connect_all();
    world.all[1].fence(Vec::new());
    world.carry();
    world.cut(|(member, ..)| *member == 2);
    world.carry();
    for node in [0, 1, 3] {
        let lost: Vec<_> = world.all[node].lost().iter().collect();
        assert_eq!(lost, [(&2, &"is gone (cut)".to_string())], "{node}");
        assert!(node != 1 || !world.all[node].is_fence_over());
    }
    // The end of the hub.
    world.cut(|_| true);
    assert_eq!(world.all[3].lost()[&0], "is gone (cut)");
}

#[test]
fn a_fence_that_all_have_begun_ends_before_a_failure_counts() {
    let mut world = World::new(3);
    world.connect_all();
    (0..2).for_each(|node| world.all[node].fence(Vec::new()));
    world.carry();
    world.all[2].fence(vec![("a".into(), b"b".to_vec())]);
    let (_, there, here) = world.wires.iter().copied().find(|wire| wire.0 == 2).unwrap();
    let bytes = sent_by(&mut world.all[2], there);
    world.hub().received(here, &bytes);
    world.cut(|wire| wire.0 == 2);
    world.carry();
    for node in [0, 1] {
        assert!(world.all[node].is_fence_over());
        assert_eq!(world.all[node].get(2, "a"), Some(&b"b"[..]));
        assert!(world.all[node].lost().contains_key(&2));
    }
}

#[test]
fn a_leave_is_reported_when_another_node_begins_a_fence() {
    for first in [0, 1] {
        let mut world = World::new(4);
        world.connect_all();
        world.all[2].leave("has left", false);
        world.carry();
        assert_eq!(world.hub().lost()[&2], "has left");
        assert!(world.all[1].lost().is_empty(), "at the end of a job all leave");
        world.all[first].fence(Vec::new());
        world.carry();
        for node in [0, 1, 3] {
            assert_eq!(world.all[node].lost()[&2], "has left");
        }
    }
}

#[test]
fn a_leave_and_an_abort_end_a_fence_that_waits() {
    for (has_failed, waiting) in [(false, 0), (false, 1), (true, 3)] {
        let mut world = World::new(4);
        world.connect_all();
        if waiting < 3 {
            world.all[waiting].fence(Vec::new());
        }
        world.all[2].leave("aborts with code 3: why", has_failed);
        world.carry();
        for node in [0, 1, 3] {
            assert_eq!(world.all[node].lost()[&2], "aborts with code 3: why");
        }
    }
    let mut world = World::new(2);
    world.connect_all();
    world.hub().leave("has left", false);
    world.carry();
    assert_eq!(world.all[1].lost()[&0], "has left");
}

#[test]
fn a_member_speaks_for_its_own_node_only() {
    let mut world = World::new(3);
    world.connect_all();
    (0..2).for_each(|node| world.all[node].fence(Vec::new()));
    let entry = NodeValue { node: 0, key: "card".into(), value: b"forged".to_vec() };
    let (_, there, _) = world.wires.iter().copied().find(|wire| wire.0 == 2).unwrap();
    world.all[2].post(there, &NodeMessage::Values { fence: 1, entries: vec![entry] });
    let lost = NodeMessage::Lost { node: 1, why: "is gone".into(), has_failed: true };
    world.all[2].post(there, &lost);
    world.carry();
    assert_eq!(world.all[1].get(0, "card"), None);
    assert_eq!(world.all[1].get(2, "card"), Some(&b"forged"[..]));
    assert_eq!(world.all[1].lost().keys().collect::<Vec<_>>(), [&2]);
}

#[test]
fn messages_of_the_other_side_end_the_connection() {
    for (node, message) in [
        (1, NodeMessage::Start { meeting: [0; 16], secret: [0; 32] }),
        (1, NodeMessage::Refused { text: "x".into() }),
        (0, NodeMessage::Here { process: [0; 16] }),
    ] {
        let mut world = World::new(2);
        world.connect_all();
        let (_, there, here) = world.wires[0];
        let id = if node == 0 { here } else { there };
        world.all[node].post(id, &message);
        world.carry();
        assert!(world.all[0].lost().contains_key(&1), "{message:?}");
    }
}

#[test]
fn wrong_clocks_and_keys_are_among_the_reasons_and_stop_only_their_node() {
    let mut world = World::new(2);
    let munge = world.munge.on(1);
    let times = munge.times();
    for (error, why) in [
        (MungeError::Expired(times), "the clocks of the nodes differ"),
        (MungeError::Rewound(times), "the clocks of the nodes differ"),
        (MungeError::Invalid("Invalid credential".into()), "different keys of MUNGE"),
    ] {
        world.hub().skipped = Default::default();
        munge.fail(Some(error));
        world.connect_all();
        assert!(!world.is_running());
        assert!(world.reasons(0).contains(why), "{}", world.reasons(0));
    }
    munge.fail(None);
    world.connect_all();
    assert!(world.is_running());
}

#[test]
fn a_host_that_gives_up_tells_the_members_that_are_here() {
    let mut world = World::new(3);
    world.connect(1);
    world.carry();
    assert_eq!(world.hub().missing(), [2]);
    world.hub().give_up("missing: c (node 2)");
    world.carry();
    assert_eq!(world.all[1].refused(), Some("missing: c (node 2)"));
    assert!(world.wires.is_empty());
}

proptest! {
    #[test]
    fn random_bytes_neither_open_a_connection_nor_stop_the_meeting(
        bytes in proptest::collection::vec(any::<u8>(), 0..200),
        has_magic: bool,
        length in 0u16..60,
        step in 1usize..50,
    ) {
        let mut world = World::new(2);
        let head = [&b"OxMPI nodes 0001"[..], &length.to_le_bytes()].concat();
        let bytes = if has_magic { [head, bytes].concat() } else { bytes };
        let now = world.now;
        let here = world.hub().accepted("attacker".into(), PORT, now);
        let there = world.all[1].connected("squatter".into(), PORT, now).unwrap();
        for piece in bytes.chunks(step) {
            world.hub().received(here, piece);
            world.all[1].received(there, piece);
        }
        prop_assert_eq!(world.hub().missing(), [1]);
        prop_assert!(!world.all[1].has_hub());
        world.connect_all();
        prop_assert!(world.is_running());
    }

    #[test]
    fn claims_and_messages_are_decoded_or_refused(
        bytes in proptest::collection::vec(any::<u8>(), 0..120),
        node: u32,
        why in ".{0,20}",
        value in proptest::collection::vec(any::<u8>(), 0..80),
    ) {
        use crate::rendezvous::message::decode;
        _ = decode::<NodeClaim>(&bytes);
        _ = decode::<NodeMessage>(&bytes);
        let entries = vec![NodeValue { node, key: why.clone(), value }];
        for message in [NodeMessage::Values { fence: u64::from(node), entries }, NodeMessage::Lost { node, why, has_failed: true }] {
            let frame = message.frame();
            prop_assert_eq!(decode::<NodeMessage>(&frame[4..]), Some(message));
        }
        let made = claim(|claim| claim.node = node);
        prop_assert_eq!(decode::<NodeClaim>(&made).unwrap().node, node);
    }
}
