//! The events for which active requests wait, for reports about long waits.

use crate::compound::Standing;
use crate::lane::Lane;
use crate::matching::ANYBODY;
use crate::request::{Outstanding, Phase, Posting, RequestId, SendWork, Work};
use oxmpi_fabric::Fabric;

/// The event for which an active request waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    Message {
        context: u32,
        /// `None`: any process.
        from: Option<u32>,
        /// `None`: any tag.
        tag: Option<i32>,
        /// Bytes of the buffer.
        room: u64,
    },
    Data {
        context: u32,
        from: u32,
        tag: i32,
        come: u64,
        bytes: u64,
    },
    /// A send waits until the receiver matches the message or requests its data.
    Receiver {
        context: u32,
        to: u32,
        tag: i32,
        bytes: u64,
    },
    /// A send waits for room on its route, or until the receiver has taken earlier data.
    Room {
        context: u32,
        to: u32,
        tag: i32,
        bytes: u64,
    },
    /// The code above the lane that has opened this request must complete it.
    Above(RequestId),
}

impl SendWork {
    fn outlook(&self) -> Outlook {
        let SendWork { context, to, tag, .. } = *self;
        let bytes = self.buffer.packed_len() as u64;
        match self.phase {
            Phase::Announced | Phase::Unacknowledged => {
                Outlook::Receiver { context, to, tag, bytes }
            }
            Phase::Waiting | Phase::Leaving | Phase::Dropped | Phase::Streaming { .. } => {
                Outlook::Room { context, to, tag, bytes }
            }
        }
    }
}

impl<F: Fabric> Lane<F> {
    /// The events for which a request waits; empty if the request is complete or unknown.
    pub fn outlook(&self, request: RequestId) -> Vec<Outlook> {
        let mut all = Vec::new();
        self.add_outlook(request, &mut all);
        all
    }

    /// The events for which all incomplete sends wait.
    pub fn outlook_of_sends(&self) -> Vec<Outlook> {
        self.state.requests.works().filter_map(|work| Some(work.as_send()?.outlook())).collect()
    }

    fn add_outlook(&self, request: RequestId, all: &mut Vec<Outlook>) {
        match self.state.requests.outstanding(request) {
            Outstanding::Posted(plain) => {
                let from = (plain.from != ANYBODY).then_some(plain.from);
                let tag = self.wanted_tag(plain.context, request);
                let room = plain.into.len() as u64;
                all.push(Outlook::Message { context: plain.context, from, tag, room });
            }
            Outstanding::Active(Work::Receive(receive)) => {
                let context = receive.context;
                all.push(match receive.from {
                    Some(from) if !receive.is_posted && receive.posting == Posting::Here => {
                        Outlook::Data {
                            context,
                            from,
                            tag: receive.tag,
                            come: receive.stored as u64,
                            bytes: receive.length,
                        }
                    }
                    from => Outlook::Message {
                        context,
                        from,
                        tag: self.wanted_tag(context, request),
                        room: receive.buffer.packed_len() as u64,
                    },
                });
            }
            Outstanding::Active(Work::Send(send)) => all.push(send.outlook()),
            Outstanding::Active(Work::External) => all.push(Outlook::Above(request)),
            Outstanding::Active(Work::Pair(pair)) => {
                pair.parts.iter().flatten().for_each(|part| self.add_outlook(*part, all));
            }
            Outstanding::Active(Work::Persistent(persistent)) => {
                if let Standing::Active(part) = persistent.standing {
                    self.add_outlook(part, all);
                }
            }
            Outstanding::Active(Work::Flush(sends)) => {
                sends.iter().for_each(|send| self.add_outlook(*send, all));
            }
            Outstanding::Active(Work::None | Work::Message(_)) | Outstanding::Over => {}
        }
    }

    /// The tag of a posted receive; `None` for any tag, or if the receive is not posted.
    fn wanted_tag(&self, context: u32, receive: RequestId) -> Option<i32> {
        let mut posted = self.state.contexts.get(context)?.posted.iter();
        posted.find(|posted| posted.request == receive)?.tag()
    }
}
