use std::collections::VecDeque;

use oxmpi_rt_proto::agent::{HostOrder, Seen};
use oxmpi_rt_proto::process::{Exit, MpiStage};

use super::*;
use crate::host::machine::{HostAction, HostEvent, HostMachine};

const FAN_OUT: usize = 32;

#[test]
fn hosts_are_divided_equally_and_in_their_order() {
    let sizes = |count: u32, fan_out| {
        let parts = divide((0..count).collect(), fan_out);
        assert!(parts.concat().into_iter().eq(0..count), "none is lost or moved");
        let sizes: Vec<usize> = parts.iter().map(Vec::len).collect();
        (sizes.len(), sizes.iter().min().copied(), sizes.iter().max().copied())
    };
    assert_eq!(sizes(5, 32), (5, Some(1), Some(1)));
    assert_eq!(sizes(33, 32), (32, Some(1), Some(2)));
    assert_eq!(sizes(1000, 32), (32, Some(31), Some(32)));
    assert_eq!(sizes(3, 1), (1, Some(3), Some(3)));
    assert_eq!(divide(Vec::<u32>::new(), 4), [Vec::<u32>::new()]);
    assert_eq!([0, 32, 33, 1056, 1057].map(|n| levels(n, 32)), [0, 1, 2, 2, 3]);
    assert_eq!(levels(3, 1), 3);
}

fn junction() -> Junction {
    Junction::new(0, vec![vec![1, 2], vec![3]], 2)
}

fn of(node: u32) -> BranchReport {
    BranchReport { pids: vec![(node, 1)], ..BranchReport::default() }
}

#[test]
fn a_message_goes_to_the_children_that_lead_to_its_receivers() {
    let junction = junction();
    assert_eq!(junction.children_for(&Receivers::All), [0, 1]);
    assert_eq!(junction.children_for(&Receivers::Nodes(vec![0, 2])), [0]);
    assert!(junction.children_for(&Receivers::Child).is_empty());
}

#[test]
fn a_branch_answers_once_all_its_agents_have() {
    let (mut junction, round) = (junction(), BranchRound::Ready { base: 0 });
    junction.begin(round, &Receivers::All, &[0, 1], Instant::now());
    assert_eq!(junction.add(round, Some(1), of(3)), None);
    assert_eq!(junction.add(round, None, of(0)), None);
    let mut both = of(1);
    both.add(of(2));
    let all = junction.add(round, Some(0), both).unwrap();
    assert_eq!(all.pids, [(3, 1), (0, 1), (1, 1), (2, 1)]);
    assert_eq!(junction.add(round, Some(0), of(1)), None, "the round is over");
    junction.begin(round, &Receivers::All, &[0], Instant::now());
    junction.abandon(0);
    assert_eq!(junction.add(round, Some(0), of(1)), None, "it is abandoned");
}

#[test]
fn no_round_waits_for_a_lost_branch_nor_a_question_for_a_silent_one() {
    let (mut junction, now) = (junction(), Instant::now());
    let (round, seen) = (BranchRound::Started { base: 0 }, BranchRound::Seen { query: 4 });
    let to = Receivers::Nodes(vec![1, 3]);
    junction.begin(round, &to, &[0, 1], now);
    assert_eq!(junction.add(round, Some(1), of(3)), None);
    junction.lose_below(0, &[2]);
    let (lost, complete) = junction.lose(0);
    assert_eq!((lost, complete), (vec![1], vec![(round, of(3))]));
    junction.begin(seen, &Receivers::All, &[1], now);
    assert!(junction.give_up(now).is_empty() && junction.time() > Some(now));
    assert!(junction.time() < Some(now + STATES));
    let [(_, report)] = &junction.give_up(now + STATES)[..] else { panic!("it waits") };
    assert_eq!(report.silent, [3]);
    let state = Seen { last_call: 7, ..Seen::default() };
    let late = BranchReport { seen: vec![(3, state)], ..BranchReport::default() };
    assert_eq!(junction.add(seen, Some(1), late), None, "it is too late");
    let next = BranchRound::Seen { query: 5 };
    junction.begin(next, &Receivers::All, &[1], now);
    assert_eq!(junction.add(next, None, BranchReport::default()), None);
    let report = junction.add(next, Some(1), BranchReport::default()).unwrap();
    assert_eq!(report.seen, [(3, state)], "its states come with the next answer");
}

fn end(rank: u32, exit: Exit, stage: MpiStage) -> ProcessEvent {
    ProcessEvent::Exited { rank, exit, seen: Seen { stage, ..Seen::default() } }
}

#[test]
fn ends_are_sent_together_but_for_failures() {
    let mut junction = junction();
    junction.note_started(4);
    let good = |rank| end(rank, Exit::Code(0), MpiStage::Finalized);
    assert!(
        !junction.queue_events(vec![good(1), ProcessEvent::Closed { rank: 1, is_error: true }])
    );
    assert!(junction.queue_events(vec![end(2, Exit::Signal(9), MpiStage::Initialized)]));
    assert!(junction.queue_events(vec![end(0, Exit::Code(0), MpiStage::Initialized)]));
    assert_eq!(junction.take_events().len(), 4);
    assert!(!junction.has_events());
    assert!(junction.queue_events(vec![good(3)]), "it is the last one");
}

/// A world of hosts, one of which is the head; messages arrive in the order of each stream, and the
/// streams take turns by chance.
struct World {
    random: u64,
    agents: Vec<Agent>,
    /// Messages up and down the stream to each agent's parent.
    up: Vec<VecDeque<Up>>,
    down: Vec<VecDeque<(Receivers, Down)>>,
    /// The hosts whose streams have messages or have ended.
    busy: BTreeSet<u32>,
    head: Head,
}

struct Agent {
    junction: Junction,
    /// The launcher of the host, with one rank that has the host's number.
    host: HostMachine,
    parent: Option<u32>,
    children: Vec<u32>,
    is_dead: bool,
    /// The messages that the agent itself has got.
    got: u32,
}

#[derive(Clone)]
enum Down {
    Round(BranchRound),
    Order(HostOrder),
}

enum Up {
    Report(BranchRound, BranchReport),
    Events(Vec<ProcessEvent>),
    Lost(Vec<u32>),
    /// The end of the stream.
    End,
}

/// What the head has got.
#[derive(Default)]
struct Head {
    messages: usize,
    reports: BTreeMap<BranchRound, (usize, BranchReport)>,
    ended: BTreeSet<u32>,
    lost: BTreeSet<u32>,
}

impl World {
    fn new(hosts: u32, seed: u64) -> World {
        let mut world = World {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            agents: Vec::new(),
            up: (0..hosts).map(|_| VecDeque::new()).collect(),
            down: (0..hosts).map(|_| VecDeque::new()).collect(),
            busy: BTreeSet::new(),
            head: Head::default(),
        };
        let none = || Agent {
            junction: Junction::default(),
            host: HostMachine::default(),
            parent: None,
            children: Vec::new(),
            is_dead: false,
            got: 0,
        };
        world.agents.extend((0..hosts).map(|_| none()));
        for part in divide((0..hosts).collect(), FAN_OUT) {
            world.plant(&part, None);
        }
        world
    }

    fn plant(&mut self, part: &[u32], parent: Option<u32>) {
        let Some((node, below)) = part.split_first() else { return };
        let parts = if below.is_empty() { Vec::new() } else { divide(below.to_vec(), FAN_OUT) };
        parts.iter().for_each(|part| self.plant(part, Some(*node)));
        let agent = &mut self.agents[*node as usize];
        agent.children = parts.iter().map(|part| part[0]).collect();
        agent.parent = parent;
        agent.junction = Junction::new(*node, parts, FAN_OUT);
        agent.junction.note_started(part.len());
        agent.host.on(HostEvent::Started { rank: *node });
    }

    fn draw(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as usize % below.max(1)
    }

    /// The head sends a message to all its living children.
    fn send(&mut self, to: &Receivers, content: Down) {
        for node in 0..self.agents.len() as u32 {
            let agent = &self.agents[node as usize];
            if agent.parent.is_none() && !agent.is_dead {
                self.down[node as usize].push_back((to.clone(), content.clone()));
                self.busy.insert(node);
            }
        }
    }

    fn post(&mut self, node: u32, message: Up) {
        self.up[node as usize].push_back(message);
        self.busy.insert(node);
    }

    fn take_down(&mut self, node: u32, (to, content): (Receivers, Down)) {
        let agent = &mut self.agents[node as usize];
        let children = agent.junction.children_for(&to);
        if let Down::Round(round) = content {
            agent.junction.begin(round, &to, &children, Instant::now());
        }
        for child in children {
            let child = agent.children[child];
            self.down[child as usize].push_back((to.clone(), content.clone()));
            self.busy.insert(child);
        }
        if !to.has(node) {
            return;
        }
        agent.got += 1;
        match content {
            Down::Round(round) => {
                let own = BranchReport { pids: vec![(node, 1)], ..BranchReport::default() };
                if let Some(report) = agent.junction.add(round, None, own) {
                    self.post(node, Up::Report(round, report));
                }
            }
            Down::Order(order) => self.on(node, HostEvent::Order(order)),
        }
    }

    /// An event of a host, whose processes do as the actions say.
    fn on(&mut self, node: u32, event: HostEvent) {
        for action in self.agents[node as usize].host.on(event) {
            match action {
                HostAction::Signal { number, .. } => {
                    let (exit, seen) = (Exit::Signal(number), Seen::default());
                    self.on(node, HostEvent::Exited { rank: node, exit, seen });
                }
                HostAction::Change(event) => {
                    let junction = &mut self.agents[node as usize].junction;
                    if junction.queue_events(vec![event]) {
                        let events = junction.take_events();
                        self.post(node, Up::Events(events));
                    }
                }
                _ => {}
            }
        }
    }

    /// The parent of a host, or the head, gets a message of it.
    fn take_up(&mut self, node: u32, message: Up) {
        let Some(parent) = self.agents[node as usize].parent else {
            return self.head_takes(node, message);
        };
        let agent = &mut self.agents[parent as usize];
        let Some(at) = agent.children.iter().position(|child| *child == node) else { return };
        match message {
            Up::Report(round, report) => {
                if let Some(report) = agent.junction.add(round, Some(at), report) {
                    self.post(parent, Up::Report(round, report));
                }
            }
            Up::Events(events) => {
                if agent.junction.queue_events(events) {
                    let events = agent.junction.take_events();
                    self.post(parent, Up::Events(events));
                }
            }
            Up::Lost(nodes) => {
                agent.junction.lose_below(at, &nodes);
                self.post(parent, Up::Lost(nodes));
            }
            Up::End => {
                let (nodes, complete) = agent.junction.lose(at);
                self.post(parent, Up::Lost(nodes));
                for (round, report) in complete {
                    self.post(parent, Up::Report(round, report));
                }
            }
        }
    }

    fn head_takes(&mut self, node: u32, message: Up) {
        self.head.messages += 1;
        match message {
            Up::Report(round, report) => {
                let (count, all) = self.head.reports.entry(round).or_default();
                *count += 1;
                all.add(report);
            }
            Up::Events(events) => {
                for event in events {
                    if let ProcessEvent::Exited { rank, .. } = event {
                        assert!(self.head.ended.insert(rank), "rank {rank} ends once");
                    }
                }
            }
            Up::Lost(nodes) => {
                let old = self.head.lost.len();
                let count = nodes.len();
                self.head.lost.extend(nodes);
                assert_eq!(self.head.lost.len(), old + count, "a host is lost once");
            }
            Up::End => {
                let below = self.below(node);
                let new = below.into_iter().filter(|node| !self.head.lost.contains(node));
                let new: Vec<u32> = new.collect();
                self.head.lost.extend(new);
            }
        }
    }

    fn below(&self, node: u32) -> Vec<u32> {
        let children = &self.agents[node as usize].children;
        let mut all = vec![node];
        children.iter().for_each(|child| all.extend(self.below(*child)));
        all
    }

    /// A host stops. All below it end when they see the end of their streams.
    fn kill(&mut self, node: u32) {
        for node in self.below(node) {
            self.agents[node as usize].is_dead = true;
            self.down[node as usize].clear();
        }
        self.post(node, Up::End);
    }

    /// Delivers messages until none is under way, or `most` are delivered.
    fn run(&mut self, most: usize) {
        for _ in 0..most {
            let Some(first) = self.busy.first().copied() else { return };
            let last = self.busy.last().copied().unwrap_or(first);
            let from = first + self.draw((last - first) as usize + 1) as u32;
            let node = self.busy.range(from..).next().copied().unwrap_or(first);
            let at = node as usize;
            let is_cut = self.agents[at].parent.is_some_and(|up| self.agents[up as usize].is_dead);
            if is_cut {
                self.up[at].clear();
            }
            if let Some(message) = self.up[at].pop_front() {
                self.take_up(node, message);
            } else if let Some(message) = self.down[at].pop_front() {
                self.take_down(node, message);
            } else {
                self.busy.remove(&node);
            }
        }
    }

    fn children_of_head(&self) -> usize {
        self.agents.iter().filter(|agent| agent.parent.is_none() && !agent.is_dead).count()
    }
}

/// A job of one rank on each host: prepared, started, queried, and ended, while hosts are lost.
fn run_a_job(hosts: u32, losses: usize, seed: u64) -> World {
    let mut world = World::new(hosts, seed);
    let rounds = [
        BranchRound::Ready { base: 0 },
        BranchRound::Started { base: 0 },
        BranchRound::Seen { query: 1 },
    ];
    let order = [losses / 2, losses - losses / 2, 0];
    for (round, losses) in rounds.into_iter().zip(order) {
        world.send(&Receivers::All, Down::Round(round));
        for _ in 0..losses {
            let some = world.draw(hosts as usize * 4);
            world.run(some);
            let lost = world.draw(hosts as usize) as u32;
            if !world.agents[lost as usize].is_dead {
                world.kill(lost);
            }
        }
        world.run(usize::MAX);
        let alive = world.agents.iter().filter(|agent| !agent.is_dead).count();
        let (count, report) = world.head.reports.get(&round).cloned().unwrap_or_default();
        let mut named: Vec<u32> = report.pids.iter().map(|(node, _)| *node).collect();
        named.sort_unstable();
        let of_living = named.iter().filter(|node| !world.agents[**node as usize].is_dead).count();
        assert_eq!(of_living, alive, "{round:?} of seed {seed}: all living hosts answer");
        assert!(named.windows(2).all(|two| two[0] != two[1]), "{round:?}: each answers once");
        assert!(count <= FAN_OUT);
    }
    let alive: Vec<u32> = (0..hosts).filter(|node| !world.agents[*node as usize].is_dead).collect();
    assert!(alive.iter().all(|node| world.agents[*node as usize].got == 3));
    let dead: BTreeSet<u32> = (0..hosts).filter(|node| !alive.contains(node)).collect();
    assert_eq!(world.head.lost, dead, "seed {seed}: the head knows all lost hosts");
    let (before, is_killed) = (world.head.messages, seed % 3 == 2);
    if is_killed {
        let kill = HostOrder::Signal { number: 9, ranks: alive.clone() };
        world.send(&Receivers::All, Down::Order(kill.clone()));
        world.send(&Receivers::All, Down::Order(kill));
    }
    for node in alive.iter().copied().filter(|_| !is_killed) {
        let (exit, seen) = (Exit::Code(0), Seen { stage: MpiStage::Finalized, ..Seen::default() });
        world.on(node, HostEvent::Exited { rank: node, exit, seen });
        if world.draw(8) == 0 {
            world.run(10);
        }
    }
    world.run(usize::MAX);
    if losses == 0 || is_killed {
        assert!(
            world.head.ended.iter().eq(&alive),
            "seed {seed}: {:?} of {alive:?} are known",
            world.head.ended
        );
    }
    if losses == 0 && !is_killed {
        assert_eq!(world.head.messages - before, world.children_of_head());
    }
    world
}

#[test]
fn a_job_on_ten_thousand_hosts_costs_the_head_four_messages_of_each_child() {
    let world = run_a_job(10_000, 0, 1);
    assert_eq!(world.children_of_head(), FAN_OUT);
    assert_eq!(world.head.messages, 4 * FAN_OUT);
    let most = world.agents.iter().map(|agent| agent.children.len()).max();
    assert_eq!(most, Some(FAN_OUT));
}

#[test]
fn all_living_hosts_answer_while_others_are_lost() {
    for seed in 0..1000 {
        let (hosts, losses) = match seed % 100 {
            0 => (10_000, 40),
            _ => (40 + (seed * 7) as u32 % 300, seed as usize % 12),
        };
        run_a_job(hosts, losses, seed);
    }
}

#[test]
fn messages_are_kept_until_they_are_received() {
    let mut kept = Kept::default();
    [3, 5, 9].into_iter().for_each(|number| kept.keep(number, number * 10));
    let after =
        |kept: &Kept<u64>, number| kept.after(number).map(|(_, of)| *of).collect::<Vec<_>>();
    assert_eq!((kept.first(), after(&kept, 3)), (Some(3), vec![50, 90]));
    kept.note_received(5);
    assert_eq!((kept.first(), after(&kept, 0)), (Some(9), vec![90]));
    kept.note_received(100);
    assert_eq!(kept.first(), None);
}

#[test]
fn only_agents_of_the_lost_branch_are_taken_over() {
    let hosts = [2, 3, 4].map(|node| (node, format!("host{node}"))).to_vec();
    let mut stranded = Stranded { hosts, kept: Kept::default(), until: Instant::now() };
    assert!(stranded.are_for(&Receivers::Nodes(vec![4])) && stranded.are_for(&Receivers::All));
    assert_eq!(stranded.take(&[3, 9]), None, "one is of another branch");
    assert_eq!(stranded.take(&[]), None);
    assert_eq!(stranded.take(&[4, 2]).unwrap()[0], (4, "host4".into()));
    assert_eq!(stranded.hosts.len(), 1);
}

/// A world in which agents below a lost one go to its parent. The last agent is the head.
struct SurvivingWorld {
    random: World,
    all: Vec<Survivor>,
    down: Vec<VecDeque<(u64, Receivers)>>,
    up: Vec<VecDeque<(u32, u64)>>,
    sent: u64,
    /// The numbers of the messages for all.
    for_all: Vec<u64>,
    /// The messages of each host that the head has got.
    received: BTreeMap<u32, Vec<u64>>,
    last: BTreeMap<u32, u64>,
}

#[derive(Default)]
struct Survivor {
    junction: Junction,
    parent: Option<usize>,
    children: Vec<usize>,
    kept: Vec<Kept<Receivers>>,
    kept_up: Kept<()>,
    sent: u64,
    last_got: u64,
    got: Vec<u64>,
    is_dead: bool,
}

impl SurvivingWorld {
    fn new(hosts: u32, seed: u64) -> SurvivingWorld {
        let random = World::new(hosts, seed);
        let count = hosts as usize + 1;
        let mut world = SurvivingWorld {
            all: (0..count).map(|_| Survivor::default()).collect(),
            down: (0..count).map(|_| VecDeque::new()).collect(),
            up: (0..count).map(|_| VecDeque::new()).collect(),
            sent: 0,
            for_all: Vec::new(),
            received: BTreeMap::new(),
            last: BTreeMap::new(),
            random,
        };
        for node in 0..count - 1 {
            let agent = &world.random.agents[node];
            let children: Vec<usize> = agent.children.iter().map(|child| *child as usize).collect();
            let branches = agent.children.iter().map(|child| world.random.below(*child)).collect();
            let one = &mut world.all[node];
            one.parent = Some(agent.parent.map_or(count - 1, |parent| parent as usize));
            one.kept = children.iter().map(|_| Kept::default()).collect();
            (one.junction, one.children) =
                (Junction::new(node as u32, branches, FAN_OUT), children);
        }
        let roots: Vec<usize> =
            (0..count - 1).filter(|node| world.all[*node].parent == Some(count - 1)).collect();
        let branches = roots.iter().map(|node| world.random.below(*node as u32)).collect();
        let head = &mut world.all[count - 1];
        head.kept = roots.iter().map(|_| Kept::default()).collect();
        (head.junction, head.children) = (Junction::new(hosts, branches, FAN_OUT), roots);
        world
    }

    fn forward(&mut self, at: usize, number: u64, to: &Receivers) {
        for child in self.all[at].junction.children_for(to) {
            self.all[at].kept[child].keep(number, to.clone());
            let child = self.all[at].children[child];
            self.down[child].push_back((number, to.clone()));
        }
    }

    fn send(&mut self, to: &Receivers) {
        self.sent += 1;
        self.for_all.extend((*to == Receivers::All).then_some(self.sent));
        let (head, number) = (self.all.len() - 1, self.sent);
        self.forward(head, number, to);
    }

    fn report(&mut self, node: usize) {
        let one = &mut self.all[node];
        one.sent += 1;
        one.kept_up.keep(one.sent, ());
        self.up[node].push_back((node as u32, one.sent));
    }

    fn step(&mut self, node: usize) {
        let Some(parent) = self.all[node].parent.filter(|_| !self.all[node].is_dead) else {
            return;
        };
        if let Some((number, to)) = self.down[node].pop_front() {
            self.all[node].last_got = number;
            self.forward(node, number, &to);
            if to.has(node as u32) {
                self.all[node].got.push(number);
            }
        }
        let Some((origin, number)) = self.up[node].pop_front() else { return };
        if parent + 1 < self.all.len() {
            return self.up[parent].push_back((origin, number));
        }
        let last = self.last.entry(origin).or_default();
        if number == *last + 1 {
            *last = number;
            self.received.entry(origin).or_default().push(number);
        }
    }

    /// A host stops, and with it a part of the messages on their way to and from it.
    fn kill(&mut self, node: usize) {
        let parent = self.all[node].parent.unwrap();
        self.all[node].is_dead = true;
        let cut = self.random.draw(self.up[node].len() + 1);
        let passed: Vec<_> = self.up[node].drain(..).take(cut).collect();
        self.down[node].clear();
        for message in passed {
            self.all[node].is_dead = false;
            self.up[node].push_back(message);
            self.step(node);
            self.all[node].is_dead = true;
        }
        let place = self.all[parent].children.iter().position(|child| *child == node).unwrap();
        let (nodes, _) = self.all[parent].junction.lose(place);
        let hosts = nodes[1..].iter().map(|node| (*node, String::new())).collect();
        let frames = std::mem::take(&mut self.all[parent].kept[place]);
        let mut stranded = Stranded { hosts, kept: Kept::default(), until: Instant::now() };
        for child in self.all[node].children.clone() {
            if self.all[child].is_dead || self.all[child].parent != Some(node) {
                continue;
            }
            let cut = self.random.draw(self.down[child].len() + 1);
            self.down[child].truncate(cut);
            while !self.down[child].is_empty() {
                let (number, to) = self.down[child].pop_front().unwrap();
                self.all[child].last_got = number;
                self.forward(child, number, &to);
                if to.has(child as u32) {
                    self.all[child].got.push(number);
                }
            }
            self.adopt(parent, child, &mut stranded, &frames);
        }
        assert!(stranded.hosts.iter().all(|(node, _)| self.all[*node as usize].is_dead));
    }

    fn branch(&self, node: usize) -> Vec<usize> {
        let mut all = vec![node];
        let one = &self.all[node];
        let living = one
            .children
            .iter()
            .filter(|child| !self.all[**child].is_dead && self.all[**child].parent == Some(node));
        living.for_each(|child| all.extend(self.branch(*child)));
        all
    }

    fn adopt(
        &mut self,
        parent: usize,
        child: usize,
        stranded: &mut Stranded,
        frames: &Kept<Receivers>,
    ) {
        let branch = self.branch(child);
        let nodes: Vec<u32> = branch.iter().map(|node| *node as u32).collect();
        assert!(stranded.take(&nodes).is_some(), "{nodes:?} of {:?}", stranded.hosts);
        let mut kept = Kept::default();
        self.up[child].clear();
        for (number, to) in frames.after(0) {
            if nodes.iter().any(|node| to.has(*node)) {
                kept.keep(*number, to.clone());
                if *number > self.all[child].last_got {
                    self.down[child].push_back((*number, to.clone()));
                }
            }
        }
        self.all[child].parent = Some(parent);
        let one = &mut self.all[parent];
        one.junction.adopt(nodes);
        one.children.push(child);
        one.kept.push(kept);
        for node in branch {
            let numbers: Vec<u64> = self.all[node].kept_up.after(0).map(|(of, ())| *of).collect();
            let again = numbers.into_iter().map(|number| (node as u32, number));
            self.up[node].extend(again);
        }
    }
}

#[test]
fn no_message_is_lost_or_doubled_where_agents_change_their_parents() {
    for seed in 0..1000 {
        let hosts = if seed % 250 == 0 { 10_000 } else { 40 + (seed * 11) as u32 % 200 };
        let mut world = SurvivingWorld::new(hosts, seed + 1);
        let mut alive: Vec<usize> = (0..hosts as usize).collect();
        for _ in 0..12 {
            match world.random.draw(3) {
                0 => world.send(&Receivers::All),
                1 => {
                    let one = world.random.draw(hosts as usize) as u32;
                    world.send(&Receivers::Nodes(vec![one]));
                }
                _ => {
                    let lost = alive.swap_remove(world.random.draw(alive.len()));
                    world.kill(lost);
                }
            }
            for _ in 0..world.random.draw(60) {
                let node = alive[world.random.draw(alive.len())];
                world.report(node);
                let node = world.random.draw(hosts as usize);
                world.step(node);
            }
        }
        world.send(&Receivers::All);
        while (0..hosts as usize).any(|node| {
            !world.all[node].is_dead && (!world.down[node].is_empty() || !world.up[node].is_empty())
        }) {
            (0..hosts as usize).for_each(|node| world.step(node));
        }
        for node in alive {
            let one = &world.all[node];
            let got_all = world.for_all.iter().all(|number| one.got.contains(number));
            assert!(got_all, "host {node} of seed {seed}: {:?}", one.got);
            assert!(one.got.windows(2).all(|two| two[0] < two[1]), "host {node}: {:?}", one.got);
            let got = world.received.get(&(node as u32)).map_or(0, Vec::len) as u64;
            assert_eq!(got, one.sent, "host {node} of seed {seed}: all its messages, once");
        }
    }
}
