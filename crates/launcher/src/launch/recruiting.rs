//! The hosts of spawned processes, and their start, here and on other hosts.
//!
//! All processes start, or none: first they are prepared on each host, then they run. Meanwhile the
//! launcher waits for the agents involved, and keeps their other messages for later.

use std::collections::BTreeSet;
use std::io;
use std::net::IpAddr;
use std::time::Instant;

use oxmpi_shm::segment::Boot;
use oxmpi_sys::host;
use oxmpi_sys::net::OwnAddresses;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tracing::info;

use super::binding::Binding;
use super::input::Inputs;
use super::launcher::Launcher;
use super::members::JobMember;
use super::places::RankPlace;
use super::start::{Crew, PreparedRanks};
use super::{App, Bind, LaunchError, Stdin};
use crate::hosts::head::{order, program};
use oxmpi_rt_client::client::{is_oversubscribed, segment_config};
use oxmpi_rt_client::universe::SpawnCommand;
use oxmpi_rt_proto::agent::{AgentOrder, BranchRound, ToAgent};

#[derive(Clone, Debug)]
pub(super) struct Home {
    pub(super) node: u32,
    /// The index of its agent; `None`: this launcher.
    pub(super) agent: Option<usize>,
    pub(super) host: String,
}

struct HostRoom {
    home: Home,
    slots: u32,
    taken: u32,
    /// Whether the host takes processes that name no host.
    is_offered: bool,
}

impl HostRoom {
    /// How many times the slots are filled.
    fn round(&self) -> u32 {
        self.taken / self.slots.max(1)
    }
}

impl<'a> Launcher<'a> {
    /// The hosts of the commands' processes: the hosts that a command names, otherwise hosts with
    /// free slots, otherwise all round robin. An error about a host that is not of the job is for
    /// the user.
    pub(super) fn homes(&self, commands: &[SpawnCommand]) -> Result<Vec<Home>, String> {
        let mut rooms = self.rooms();
        let mut homes = Vec::new();
        for SpawnCommand { processes, hosts, .. } in commands {
            let mut named = match hosts {
                Some(hosts) => find_rooms(&rooms, hosts)?,
                None => rooms
                    .iter()
                    .enumerate()
                    .filter(|(_, room)| room.is_offered)
                    .map(|(at, _)| at)
                    .collect(),
            };
            if let Some(hosts) = hosts {
                // Each mention is a slot.
                let mut slots = named.iter().cycle();
                let slots: Vec<usize> =
                    (0..*processes).filter_map(|_| slots.next().copied()).collect();
                if slots.is_empty() {
                    return Err(format!("info key host: '{hosts}' names no host"));
                }
                slots.iter().for_each(|at| rooms[*at].taken += 1);
                homes.extend(slots.iter().map(|at| rooms[*at].home.clone()));
                continue;
            }
            named.dedup();
            for _ in 0..*processes {
                let at = named.iter().copied().min_by_key(|at| rooms[*at].round());
                let at = at.ok_or("all hosts of the job are lost")?;
                rooms[at].taken += 1;
                homes.push(rooms[at].home.clone());
            }
        }
        Ok(homes)
    }

    fn rooms(&self) -> Vec<HostRoom> {
        let own = |node, is_offered| HostRoom {
            home: Home { node, agent: None, host: host::name() },
            slots: u32::MAX,
            taken: 0,
            is_offered,
        };
        let Some(spread) = &self.launch.spread else {
            return vec![own(self.node.unwrap_or(0), true)];
        };
        let mut rooms = Vec::new();
        for (node, host) in (0..).zip(&spread.hosts) {
            let agent = self.branches.leading_to(node);
            if !host.agent.is_unneeded() && agent.is_none() {
                continue;
            }
            let on_it = |(_, member): &(u32, &JobMember)| member.running && member.node == node;
            let home = Home { node, agent, host: host.name.clone() };
            let taken = self.members.iter().filter(on_it).count() as u32;
            rooms.push(HostRoom { home, slots: host.slots, taken, is_offered: true });
        }
        // With several hosts this one can be named, even without ranks.
        if spread.hosts.len() > 1 && spread.hosts.iter().all(|host| !host.agent.is_unneeded()) {
            rooms.push(own(spread.hosts.len() as u32, false));
        }
        rooms
    }

    /// Starts all processes or none; returns those on other hosts, each with its branch and process
    /// number.
    pub(super) fn recruit(
        &mut self,
        apps: &[App],
        base: u32,
        homes: &[Home],
    ) -> Result<Vec<(usize, u32, u32)>, String> {
        info!(first = base, ranks = homes.len(), "starting a spawned job");
        self.raise_own_files();
        let crew = self.crew(apps, base, homes);
        let (inputs, _) =
            Inputs::open(Stdin::None, []).map_err(|e| io::Error::from(e).to_string())?;
        let prepared = match crew.here.is_empty() {
            true => None,
            false => Some(crew.prepare().map_err(text_of)?),
        };
        let nodes: Vec<u32> = homes.iter().map(|home| home.node).collect();
        let order = AgentOrder {
            apps: apps.iter().map(program).collect(),
            deaths: self.members.deaths().len() as u32,
            step: self.standing.step(),
            bind: Bind::None,
            report_bindings: false,
            ..order(self.launch, (&crew.boot, self.secret), &nodes, Vec::new())
        };
        let far = || homes.iter().filter_map(|home| Some((home.agent?, home.node)));
        let (agents, to): (BTreeSet<usize>, BTreeSet<u32>) = far().unzip();
        let (agents, to) = (Vec::from_iter(agents), Vec::from_iter(to));
        let order = ToAgent::Order(Box::new(order));
        let (ready, running) = (BranchRound::Ready { base }, BranchRound::Started { base });
        let started = self
            .ask_agents((&agents, &to), &order, ready)
            .and_then(|()| match prepared {
                Some(prepared) => self.start_here(&crew, prepared, &inputs).map_err(text_of),
                None => Ok(()),
            })
            .and_then(|()| {
                let addresses = self.branches.addresses();
                self.ask_agents((&agents, &to), &ToAgent::Go { addresses }, running)
            });
        self.branches.read_later(&agents);
        match started {
            Ok(()) => Ok(self.branches.started()),
            Err(why) => {
                self.host.abandon(base);
                agents.iter().for_each(|at| self.branches.post(*at, &ToAgent::Abandon { base }));
                Err(why)
            }
        }
    }

    /// A spawned job as this host sees it.
    fn crew<'s>(&self, apps: &'s [App], base: u32, homes: &[Home]) -> Crew<'s>
    where
        'a: 's,
    {
        let its = (0..).zip(homes).filter(|(_, home)| home.agent.is_none());
        let here: Vec<u32> = its.map(|(at, _)| at).collect();
        let (size, local_size) = (homes.len() as u32, here.len() as u32);
        let running = self.members.running().filter(|rank| !self.members.is_far(*rank)).count();
        let oversubscribed = is_oversubscribed(running as u32 + local_size);
        let config = segment_config(&self.launch.params, oversubscribed);
        let own = Boot { rank: base, base, size, local_rank: 0, local_size, app: 0, ..self.boot };
        // Barriers, transport and job number are the same for all processes of a launcher.
        let boot = Boot { oversubscribed, config, ..own };
        let nodes: Vec<u32> = homes.iter().map(|home| home.node).collect();
        let mut places = RankPlace::all(&nodes);
        let node = |home: &Home| match &self.launch.spread {
            Some(spread) => (spread.hosts.len() > 1).then_some(home.node),
            None => self.node,
        };
        places.iter_mut().zip(homes).for_each(|(place, home)| place.node = node(home));
        let way_in = self.entrance.way_in();
        Crew { launch: self.launch, apps, boot, places, here, has_others: false, way_in }
    }

    /// Starts the processes of this host.
    fn start_here(
        &mut self,
        crew: &Crew<'_>,
        prepared: PreparedRanks,
        inputs: &Inputs,
    ) -> Result<(), LaunchError> {
        let (guard, none) = (self.host.guard()?, Binding::none());
        let recruits = crew.start(prepared, guard, self.signals, inputs, &none, self.open_files)?;
        let notices = (self.members.deaths().len() as u32, Some(self.standing.step()));
        self.host.enlist_all(crew.names(), recruits, notices)
    }

    /// Sends a message to the agents of some hosts, and awaits the answers of their branches.
    fn ask_agents(
        &mut self,
        (agents, nodes): (&[usize], &[u32]),
        message: &ToAgent,
        round: BranchRound,
    ) -> Result<(), String> {
        let mut answers = self.branches.ask_for_spawn((agents, nodes), message, round);
        while !self.branches.have_answered(&mut answers).map_err(text_of)? {
            let now = Instant::now();
            if self.is_to_end(now) {
                return Err("the job is about to end".into());
            }
            let left = self.end.time_left(now);
            self.branches.wait(&answers, self.signals, left).map_err(text_of)?;
            self.signalled().map_err(|error| io::Error::from(error).to_string())?;
            for at in agents {
                self.output.print_bytes(&self.branches.read_errors(*at));
            }
        }
        Ok(())
    }

    /// Makes new processes on other hosts members. Returns the processes that are not members then.
    pub(super) fn admit_far(
        &mut self,
        pids: &[(usize, u32, u32)],
        homes: &[Home],
        (base, job): (u32, usize),
        program: usize,
    ) -> Vec<u32> {
        for (agent, number, pid) in pids {
            let at = number.wrapping_sub(base);
            let Some(home) = homes.get(at as usize) else { continue };
            let name = format!("{job}.{at}");
            self.open_files_of(*number, &name, Some(home));
            if self.launch.verbose {
                let host = &home.host;
                self.print(&format!(
                    "mpirun: rank {at} of spawned job {job}: pid {pid}, host {host}\n"
                ));
            }
            let home = (*number, (Some(*agent), home.node));
            self.add_member(home, [true; 2], (*pid, &name), program);
            self.send_places(*number, 1);
        }
        let all = (base..).zip(homes);
        all.map(|(number, _)| number).filter(|number| self.members.get(*number).is_none()).collect()
    }

    /// Raises this process's limit on open files, as more processes need more.
    fn raise_own_files(&mut self) {
        if self.open_files.is_none() {
            let before = getrlimit(Resource::Nofile);
            let raised = Rlimit { current: before.maximum, maximum: before.maximum };
            // The old limit may suffice.
            if setrlimit(Resource::Nofile, raised).is_ok() {
                self.open_files =
                    Some((before.current.unwrap_or(u64::MAX), before.maximum.unwrap_or(u64::MAX)));
            }
        }
    }
}

fn text_of(error: LaunchError) -> String {
    error.to_string()
}

/// The hosts of a list `a,b:2`, each as often as it has slots there.
fn find_rooms(rooms: &[HostRoom], list: &str) -> Result<Vec<usize>, String> {
    let mut found = Vec::new();
    for word in list.split(',').map(str::trim).filter(|word| !word.is_empty()) {
        let (name, slots) = match word.rsplit_once(':') {
            Some((name, slots)) if !name.contains(':') => {
                let slots = slots.parse().ok().filter(|slots| (1..=1 << 20).contains(slots));
                (
                    name,
                    slots.ok_or_else(|| {
                        format!("info key host: '{word}' states no number of slots")
                    })?,
                )
            }
            _ => (word, 1usize),
        };
        let is_this = name.eq_ignore_ascii_case("localhost")
            || name.eq_ignore_ascii_case(&host::name())
            || name.parse().is_ok_and(|address: IpAddr| OwnAddresses::read().has(address));
        let at = rooms.iter().position(|room| room.home.host.eq_ignore_ascii_case(name));
        let at = at.or_else(|| rooms.iter().position(|room| is_this && room.home.agent.is_none()));
        let names = || rooms.iter().map(|room| &*room.home.host).collect::<Vec<_>>().join(", ");
        let at = at.ok_or_else(|| {
            format!(
                "host '{name}' is not among the hosts of the job, {}: start the job on it as well",
                names()
            )
        })?;
        found.extend(std::iter::repeat_n(at, slots));
    }
    Ok(found)
}
