#![allow(dead_code)] // not every test uses all

use crate::support::{Recorder, planned, with_message};
use oxmpi_fabric::tcp::{Address, Encryption, Identity, PeerLocation, Secret, Tcp, TcpSettings};
use oxmpi_fabric::{Sent, Transport as _};
use oxmpi_sys::net::Listener;
use oxmpi_sys::poller::Poller;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

pub(crate) const JOB: u64 = 0x5eed;
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) struct ProcessConfig {
    pub(crate) incarnation: u64,
    pub(crate) secret: [u8; 32],
    pub(crate) settings: TcpSettings,
    pub(crate) peer: Arc<Mutex<Result<PeerLocation, String>>>,
    pub(crate) texts: Arc<Mutex<Vec<String>>>,
}

impl ProcessConfig {
    pub(crate) fn new() -> ProcessConfig {
        ProcessConfig {
            incarnation: 1,
            secret: [7; 32],
            settings: TcpSettings {
                patience: Duration::from_millis(300),
                ..TcpSettings::default()
            },
            peer: Arc::new(Mutex::new(Err("nobody is there".into()))),
            texts: Arc::default(),
        }
    }

    pub(crate) fn encrypted() -> ProcessConfig {
        let plan = ProcessConfig::new();
        ProcessConfig {
            settings: TcpSettings { encrypt: Encryption::Always, ..plan.settings.clone() },
            ..plan
        }
    }

    pub(crate) fn at(&self, address: SocketAddr) {
        let address =
            Address { socket: address, interface: "lo".into(), host: Some("over-there".into()) };
        *self.peer.lock().unwrap() = Ok(PeerLocation::At(vec![address]));
    }
}

#[derive(Debug)]
pub(crate) struct TestProcess {
    pub(crate) tcp: Tcp,
    pub(crate) poller: Arc<Poller>,
    pub(crate) address: SocketAddr,
    pub(crate) recorder: Recorder,
    pub(crate) me: u32,
    pub(crate) pushed: u32,
}

impl TestProcess {
    pub(crate) fn new(me: u32, plan: &ProcessConfig) -> TestProcess {
        let listener = Listener::bind(Ipv4Addr::LOCALHOST.into(), plan.settings.buffers).unwrap();
        TestProcess::on(listener, me, plan)
    }

    pub(crate) fn on(listener: Listener, me: u32, plan: &ProcessConfig) -> TestProcess {
        let address = listener.address().unwrap();
        let poller = Arc::new(Poller::new().unwrap());
        let own = Identity { job: JOB, rank: me, size: 2, incarnation: plan.incarnation };
        let (peer, texts) = (plan.peer.clone(), plan.texts.clone());
        let tcp = Tcp::new(
            own,
            Secret(plan.secret),
            plan.settings.clone(),
            (listener, poller.clone()),
            Box::new(move |_| peer.lock().unwrap().clone()),
            Box::new(move |text| texts.lock().unwrap().push(text.into())),
        )
        .unwrap();
        TestProcess { tcp, poller, address, recorder: Recorder::of(1 - me), me, pushed: 0 }
    }

    pub(crate) fn send(&mut self) -> Sent {
        let (_, len) = planned(self.me, self.pushed);
        let (to, tcp) = (1 - self.me, &mut self.tcp);
        let sent = with_message(self.me, self.pushed, |message| {
            assert_eq!(message.body.len(), len);
            tcp.send(to, message)
        });
        let sent = sent.unwrap();
        self.pushed += u32::from(sent != Sent::Full);
        sent
    }

    pub(crate) fn poll(&mut self) -> bool {
        self.tcp.poll(None, &mut self.recorder)
    }

    pub(crate) fn rest(&mut self) {
        if !self.poll() {
            self.poller.wait(Some(Duration::from_millis(5)));
        }
    }
}

pub(crate) fn pair(plans: &[ProcessConfig; 2]) -> [TestProcess; 2] {
    let ends = [TestProcess::new(0, &plans[0]), TestProcess::new(1, &plans[1])];
    plans[0].at(ends[1].address);
    plans[1].at(ends[0].address);
    ends
}

pub(crate) fn until(
    ends: &mut [TestProcess; 2],
    mut done: impl FnMut(&mut [TestProcess; 2]) -> bool,
) {
    let start = Instant::now();
    while !done(ends) {
        let came = ends[0].poll() | ends[1].poll();
        if !came {
            ends[0].poller.wait(Some(Duration::from_millis(1)));
        }
        assert!(start.elapsed() < LIMIT, "it does not end: {ends:?}");
    }
}
