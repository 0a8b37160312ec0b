//! Lanes over a simulated network, driven by hand.
#![allow(dead_code)] // each test file uses its part

use oxmpi_engine::{
    Completion, CopiedSends, Fault, Lane, MatchSource, Mode, RankMap, RequestId, Rest, Started,
    TagMatch, Team,
};
use oxmpi_fabric::sim::{LinkFaults, Network, Random, Sim};
use oxmpi_mem::memory::Owned;
use oxmpi_wire::{ContextId, Frame, MAX_FRAME_LEN};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

/// No link faults: one path, eager to 100 bytes.
pub(crate) fn calm() -> LinkFaults {
    LinkFaults {
        paths: 1,
        min_delay_ns: 10,
        max_delay_ns: 10,
        full_of_256: 0,
        later_of_256: 0,
        pause_of_256: 0,
        now_of_256: 0,
        eager_limit: 100,
        announced_limit: 0,
        detection_ns: 10,
        matched_beyond: None,
        last_context: u32::MAX,
    }
}

pub(crate) fn rough() -> LinkFaults {
    LinkFaults {
        full_of_256: 60,
        later_of_256: 60,
        pause_of_256: 100,
        eager_limit: 100,
        announced_limit: 70,
        ..LinkFaults::default()
    }
}

pub(crate) struct Lanes {
    pub(crate) network: Rc<RefCell<Network>>,
    pub(crate) lanes: Vec<Lane<Sim>>,
    pub(crate) worlds: Vec<Arc<Team>>,
    pub(crate) random: Random,
}

pub(crate) struct Receive {
    pub(crate) started: Started,
    pub(crate) data: Owned<u8>,
}

impl Lanes {
    pub(crate) fn new(n: u32, seed: u64, link_faults: LinkFaults) -> Lanes {
        let network = Network::new(n, seed, link_faults);
        let mut lanes: Vec<_> =
            (0..n).map(|me| Lane::new(me, Sim::new(me, network.clone()))).collect();
        let worlds = lanes.iter_mut().zip(0..);
        let worlds = worlds
            .map(|(lane, me)| lane.open_team(RankMap::Identity(n), me, ContextId::new(0, 0), true))
            .collect();
        Lanes { network, lanes, worlds, random: Random::new(seed) }
    }

    pub(crate) fn step(&mut self) -> bool {
        let event = self.network.borrow_mut().advance();
        if let Some(Some(at)) = event
            && !self.network.borrow().is_dead(at)
        {
            let lane = &mut self.lanes[at as usize];
            lane.progress();
            while lane.announce_sleep(CopiedSends::All) == Rest::Not {
                lane.progress();
            }
        }
        event.is_some()
    }

    pub(crate) fn settle(&mut self) {
        while self.step() {}
    }

    pub(crate) fn start_send(
        &mut self,
        from: u32,
        to: u32,
        mode: Mode,
        data: &Owned<u8>,
        tag: i32,
    ) -> Result<Started, Fault> {
        let context = self.worlds[from as usize].point_to_point;
        self.lanes[from as usize].start_send(context, mode, data.buf(), to, tag)
    }

    pub(crate) fn send(
        &mut self,
        from: u32,
        to: u32,
        mode: Mode,
        data: &[u8],
        tag: i32,
    ) -> Started {
        self.start_send(from, to, mode, &Owned::new(data.to_vec()), tag).expect("nobody is lost")
    }

    pub(crate) fn try_receive(
        &mut self,
        at: u32,
        room: usize,
        source: MatchSource,
        tag: TagMatch,
    ) -> Result<Receive, Fault> {
        let data = Owned::new(vec![0xee; room]);
        let context = self.worlds[at as usize].point_to_point;
        let started = self.lanes[at as usize].start_receive(context, data.buf(), source, tag)?;
        Ok(Receive { started, data })
    }

    pub(crate) fn receive(
        &mut self,
        at: u32,
        room: usize,
        source: MatchSource,
        tag: TagMatch,
    ) -> Receive {
        self.try_receive(at, room, source, tag).expect("nobody is lost")
    }

    pub(crate) fn query(&mut self, at: u32, started: Started) -> Option<Completion> {
        match started {
            Started::Complete(completion) => Some(completion),
            Started::Pending(request) => {
                self.lanes[at as usize].test(request).expect("a request of this lane")
            }
        }
    }

    /// Data, source and tag of a receive, which must be complete and whole.
    pub(crate) fn got(&mut self, at: u32, receive: Receive) -> (Vec<u8>, i32, i32) {
        let done = self.query(at, receive.started).expect("complete");
        assert_eq!((done.fault, done.cancelled), (None, false));
        let mut data =
            receive.data.into_vec().unwrap_or_else(|_| panic!("the buffer is still in use"));
        assert!(
            data[done.bytes as usize..].iter().all(|byte| *byte == 0xee),
            "written beyond the message"
        );
        data.truncate(done.bytes as usize);
        (data, done.source, done.tag)
    }

    pub(crate) fn nonsense(&self) -> u64 {
        self.lanes.iter().map(Lane::nonsense).sum()
    }

    pub(crate) fn forge(&mut self, from: u32, to: u32, sequence: u8, frame: Frame, body: &[u8]) {
        let mut head = [0; MAX_FRAME_LEN];
        let len = frame.encode(sequence, from, &mut head);
        let bytes = [&head[..len], body].concat();
        self.network.borrow_mut().forge(from, to, bytes);
    }

    pub(crate) fn assert_quiet(&mut self) {
        self.settle();
        assert_eq!(self.nonsense(), 0);
        assert!(self.lanes.iter().all(Lane::is_drained));
        assert!(self.lanes.iter().all(|lane| lane.buffered_in(None) == 0));
    }
}

pub(crate) fn request(started: Started) -> RequestId {
    match started {
        Started::Pending(request) => request,
        Started::Complete(completion) => panic!("complete at once: {completion:?}"),
    }
}

pub(crate) fn pattern(n: usize, len: usize) -> Vec<u8> {
    (0..len).map(|i| (i * 7 + n * 13) as u8).collect()
}
