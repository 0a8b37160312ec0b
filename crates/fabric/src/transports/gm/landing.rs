//! Long pieces of messages at their receiver (rule 6 of the module).

use super::{Gm, GmPort};
use crate::{Body, FrameSink, OutgoingMessage, Sent};
use oxmpi_gm::{GmRegion, GmStatus, GmTarget, WordId};
use oxmpi_sys::bytes::Bytes;
use oxmpi_wire::Frame;
use std::time::{Duration, Instant};

/// The longest wait for a get into memory that is taken back.
const PATIENCE: Duration = Duration::from_secs(1);
/// GM registers whole pages of this length.
const PAGE: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LandingStep {
    AwaitsPut,
    /// The data are got when there is a token.
    WantsData,
    GetsData,
    /// As above for the check, which shows whether the data were the message.
    WantsCheck(WordId),
    GetsCheck(WordId),
    /// The data have arrived. `false`: they are no message, and none will come.
    Here(bool),
    Refused,
}

impl LandingStep {
    fn is_under_way(self) -> bool {
        matches!(self, LandingStep::GetsData | LandingStep::GetsCheck(_))
    }
}

/// A piece for the memory of a receive.
#[derive(Debug)]
struct Landing {
    from: u32,
    number: u64,
    receiver: u64,
    offset: u64,
    length: usize,
    /// The addresses of the piece and of its check at the sender.
    place: [u64; 2],
    region: GmRegion,
    /// The pages of the receive's memory: start and end.
    pages: (usize, usize),
    step: LandingStep,
    /// The receive was released, or its sender is lost.
    is_given_up: bool,
}

impl Landing {
    fn is_over(&self) -> bool {
        !self.step.is_under_way()
            && (self.is_given_up
                || matches!(self.step, LandingStep::Here(_) | LandingStep::Refused))
    }
}

#[derive(Debug, Default)]
pub(super) struct Landings {
    landings: Vec<Landing>,
    /// Abandoned pieces, whose pages stay unregistered while data may arrive for them.
    abandoned: Vec<Landing>,
    free_words: Vec<WordId>,
    pub(super) got_bytes: u64,
}

impl Landings {
    /// Whether data of an abandoned piece could arrive here after a registration.
    pub(super) fn is_abandoned(&self, start: usize, len: usize) -> bool {
        let (first, end) = pages(start, len);
        self.abandoned.iter().any(|one| first < one.pages.1 && one.pages.0 < end)
    }

    pub(super) fn owes(&self, peer: u32) -> bool {
        self.landings.iter().any(|one| one.from == peer)
    }

    pub(super) fn has_news(&self) -> bool {
        self.landings.iter().any(Landing::is_over)
    }

    pub(super) fn forget_words(&mut self) {
        self.free_words.clear();
        self.abandoned.clear();
    }

    pub(super) fn under_way(&self) -> usize {
        self.landings.iter().filter(|one| one.step.is_under_way()).count()
    }
}

fn pages(start: usize, len: usize) -> (usize, usize) {
    (start - start % PAGE, start.saturating_add(len).next_multiple_of(PAGE))
}

pub(super) fn words<const N: usize>(all: &[u64; N]) -> Vec<u8> {
    all.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub(super) fn read_words<const N: usize>(body: &[u8]) -> Option<[u64; N]> {
    let (chunks, rest) = body.as_chunks::<8>();
    let all: [[u8; 8]; N] = chunks.try_into().ok().filter(|_| rest.is_empty())?;
    Some(all.map(u64::from_le_bytes))
}

pub(super) struct OwnFrame {
    pub(super) frame: Frame,
    pub(super) place: Option<[u64; 2]>,
    pub(super) address: Option<[u64; 1]>,
}

impl<P: GmPort> Gm<P> {
    pub(super) fn take_own(&mut self, from: u32, own: &OwnFrame, sink: &mut dyn FrameSink) {
        match (own.frame, own.place) {
            (Frame::DataAt { receiver, offset, length, number }, Some(place)) => {
                let length = usize::try_from(length).unwrap_or(usize::MAX);
                sink.data(from, receiver, offset, length, Bytes::empty());
                let Some((region, pages)) = self.place_for(from, length, sink) else {
                    self.owed.push_back((from, Frame::DataRead { number, whole: false }, None));
                    return;
                };
                let step = if self.settings.gets {
                    LandingStep::WantsData
                } else {
                    LandingStep::AwaitsPut
                };
                if step == LandingStep::AwaitsPut {
                    let address = self.port.region_address(region);
                    self.owed.push_back((
                        from,
                        Frame::DataRead { number, whole: true },
                        Some(address),
                    ));
                }
                self.landings.landings.push(Landing {
                    from,
                    number,
                    receiver,
                    offset,
                    length,
                    place,
                    region,
                    pages,
                    step,
                    is_given_up: false,
                });
            }
            (Frame::DataAt { length, number, .. }, None) => {
                let is_it = |one: &Landing| (one.from, one.number) == (from, number);
                self.landings.abandoned.retain(|one| !is_it(one));
                if let Some(one) = self.landings.landings.iter_mut().find(|one| is_it(one)) {
                    let is_here = length == one.length as u64;
                    one.step = if is_here { LandingStep::Here(true) } else { LandingStep::Refused };
                }
            }
            (Frame::DataRead { number, whole }, _) => {
                self.was_answered(from, number, whole, own.address.map(|[address]| address));
            }
            _ => {}
        }
    }

    fn place_for(
        &mut self,
        from: u32,
        length: usize,
        sink: &mut dyn FrameSink,
    ) -> Option<(GmRegion, (usize, usize))> {
        let buffer = sink.place_lent(from, 0, length).filter(|buffer| self.may_register(buffer))?;
        let region =
            self.port.register(&buffer).inspect_err(|error| self.warn_of_registration(error));
        Some((region.ok()?, pages(buffer.as_contiguous()?.as_ptr().addr(), length)))
    }

    /// The last token is for the return of buffers and for drops. Half of the tokens are for
    /// messages.
    pub(super) fn target_of_move(&self, peer: u32) -> Option<GmTarget> {
        let most = (self.tokens as usize / 2).max(1);
        if self.port.send_tokens() < 2
            || self.lending.under_way() + self.landings.under_way() >= most
        {
            return None;
        }
        let peer = self.peers.get(peer as usize)?.as_deref()?;
        peer.met.filter(|_| !peer.is_stopped() && !peer.is_gone).map(|met| met.target)
    }

    pub(super) fn begin_gets(&mut self) {
        for at in 0..self.landings.landings.len() {
            let Landing { from, region, place: [data, check], step, is_given_up, .. } =
                self.landings.landings[at];
            let is_due = matches!(step, LandingStep::WantsData | LandingStep::WantsCheck(_));
            if !is_due || is_given_up {
                continue;
            }
            let Some(target) = self.target_of_move(from) else { continue };
            let next = match step {
                LandingStep::WantsCheck(word) => {
                    let begun = self.port.get_word(from, target, word, check);
                    begun.is_ok().then_some(LandingStep::GetsCheck(word))
                }
                _ => self
                    .port
                    .get(from, target, region, data)
                    .is_ok()
                    .then_some(LandingStep::GetsData),
            };
            if let Some(next) = next {
                self.landings.landings[at].step = next;
            }
        }
    }

    pub(super) fn get_ended(&mut self, region: GmRegion, status: &GmStatus) {
        let Gm { landings, port, .. } = self;
        landings.abandoned.retain(|one| one.region != region);
        let Some(one) = landings.landings.iter_mut().find(|one| one.region == region) else {
            return;
        };
        if one.step != LandingStep::GetsData {
            return;
        }
        one.step = match status {
            GmStatus::Done => match landings.free_words.pop().map_or_else(|| port.new_word(), Ok) {
                Ok(word) => LandingStep::WantsCheck(word),
                Err(_) => LandingStep::Refused,
            },
            GmStatus::TimedOut | GmStatus::Dropped => LandingStep::WantsData,
            GmStatus::Failed(_) => LandingStep::Refused,
        };
    }

    pub(super) fn check_ended(&mut self, word: WordId, status: &GmStatus) {
        let Gm { landings, port, .. } = self;
        let is_it = |one: &&mut Landing| one.step == LandingStep::GetsCheck(word);
        let Some(one) = landings.landings.iter_mut().find(is_it) else { return };
        one.step = match status {
            GmStatus::TimedOut | GmStatus::Dropped => LandingStep::WantsCheck(word),
            GmStatus::Done | GmStatus::Failed(_) => {
                landings.free_words.push(word);
                match status {
                    GmStatus::Done => LandingStep::Here(port.word(word) == one.number),
                    _ => LandingStep::Refused,
                }
            }
        };
    }

    pub(super) fn finish_landings(&mut self, sink: &mut dyn FrameSink) -> bool {
        if self.landings.landings.is_empty() {
            return false;
        }
        let over: Vec<Landing> =
            self.landings.landings.extract_if(.., |one| one.is_over()).collect();
        for one in &over {
            self.port.deregister(one.region);
            if one.step == LandingStep::Here(true) && !one.is_given_up {
                sink.data(one.from, one.receiver, one.offset, one.length, Bytes::empty());
                sink.placed(one.from, 0, one.length);
            }
            self.answer(one);
        }
        !over.is_empty()
    }

    fn answer(&mut self, one: &Landing) {
        if let LandingStep::WantsCheck(word) = one.step {
            self.landings.free_words.push(word);
        }
        if !self.settings.gets {
            return;
        }
        if matches!(one.step, LandingStep::Here(_)) {
            self.landings.got_bytes += one.length as u64;
        }
        let whole = one.is_given_up || one.step != LandingStep::Refused;
        self.owed.push_back((one.from, Frame::DataRead { number: one.number, whole }, None));
    }

    pub(super) fn send_owed(&mut self) -> bool {
        let mut any = false;
        for (to, frame, address) in std::mem::take(&mut self.owed) {
            let bytes = address.map(|address| words(&[address])).unwrap_or_default();
            let body = Body::Bytes(Bytes::from(&bytes[..]));
            let message = OutgoingMessage::new(frame, body);
            match self.send_message(to, &message) {
                Ok(Sent::Full) => self.owed.push_back((to, frame, address)),
                _ => any = true,
            }
        }
        any
    }

    pub(super) fn stop_receive(&mut self, receiver: u64) {
        self.give_up_landings(|one| one.receiver == receiver);
    }

    pub(super) fn forget_landings(&mut self, peer: u32) {
        self.give_up_landings(|one| one.from == peer);
        self.landings
            .abandoned
            .retain(|one| one.from != peer || one.step != LandingStep::AwaitsPut);
        self.owed.retain(|(to, ..)| *to != peer);
    }

    /// Gets end soon: no process takes part in them, and a process that has ended has no registered
    /// memory.
    fn give_up_landings(&mut self, which: impl Fn(&Landing) -> bool) {
        let mut any = false;
        for one in self.landings.landings.iter_mut().filter(|one| which(one)) {
            one.is_given_up = true;
            any = true;
        }
        if !any {
            return;
        }
        let start = Instant::now();
        let is_stuck = |one: &Landing| one.is_given_up && one.step.is_under_way();
        while self.landings.landings.iter().any(is_stuck) && start.elapsed() < PATIENCE {
            self.read();
            self.early.append(&mut self.events);
            std::thread::yield_now();
        }
        let given_up: Vec<Landing> =
            self.landings.landings.extract_if(.., |one| one.is_given_up).collect();
        for one in given_up {
            self.port.deregister(one.region);
            self.answer(&one);
            if matches!(one.step, LandingStep::AwaitsPut | LandingStep::GetsData) {
                self.landings.abandoned.push(one);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn addresses_survive_the_wire(place: [u64; 2], bytes in prop::collection::vec(any::<u8>(), 0..40)) {
            prop_assert_eq!(read_words(&words(&place)), Some(place));
            prop_assert_eq!(read_words::<2>(&bytes).is_some(), bytes.len() == 16);
            prop_assert_eq!(read_words::<1>(&bytes).is_some(), bytes.len() == 8);
        }
    }
}
