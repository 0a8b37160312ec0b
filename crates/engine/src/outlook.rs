//! What requests that go on still need, for whoever explains a long wait. Nothing here is on the way of a message.

use crate::compound::Standing;
use crate::lane::Lane;
use crate::matching::ANYBODY;
use crate::request::{Outstanding, Phase, Posting, RequestId, SendWork, Work};
use oxmpi_fabric::Fabric;

/// What a request that goes on still needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outlook {
    /// A receive needs its message.
    Message {
        /// The context.
        context: u32,
        /// The process that it shall come from; `None`: any.
        from: Option<u32>,
        /// The wanted tag; `None`: any.
        tag: Option<i32>,
        /// Bytes of the buffer.
        room: u64,
    },
    /// A receive has its message and needs the rest of the data.
    Data {
        /// The context.
        context: u32,
        /// The sender.
        from: u32,
        /// The message's tag.
        tag: i32,
        /// Bytes that have come.
        come: u64,
        /// Bytes of the message.
        bytes: u64,
    },
    /// A send needs the receiver to ask for the data, or to say that it has matched them.
    Receiver {
        /// The context.
        context: u32,
        /// The receiver.
        to: u32,
        /// The message's tag.
        tag: i32,
        /// Bytes of the message.
        bytes: u64,
    },
    /// A send needs room on its way, or the receiver to take in what is under way.
    Room {
        /// The context.
        context: u32,
        /// The receiver.
        to: u32,
        /// The message's tag.
        tag: i32,
        /// Bytes of the message.
        bytes: u64,
    },
    /// Something above the lane, which opened this request.
    Above(RequestId),
}

impl SendWork {
    fn outlook(&self) -> Outlook {
        let SendWork { context, to, tag, .. } = *self;
        let bytes = self.buffer.packed_len() as u64;
        match self.phase {
            Phase::Announced | Phase::Unacknowledged => Outlook::Receiver { context, to, tag, bytes },
            Phase::Waiting | Phase::Leaving | Phase::Dropped | Phase::Streaming { .. } => {
                Outlook::Room { context, to, tag, bytes }
            }
        }
    }
}

impl<F: Fabric> Lane<F> {
    /// What a request still needs; nothing if it is complete, or there is no such request.
    pub fn outlook(&self, request: RequestId) -> Vec<Outlook> {
        let mut all = Vec::new();
        self.add_outlook(request, &mut all);
        all
    }

    /// What all sends need that are not complete.
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
                    Some(from) if !receive.is_posted && receive.posting == Posting::Here => Outlook::Data {
                        context,
                        from,
                        tag: receive.tag,
                        come: receive.stored as u64,
                        bytes: receive.length,
                    },
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

    /// The tag that a posted receive wants; `None`: any, or it is not posted.
    fn wanted_tag(&self, context: u32, receive: RequestId) -> Option<i32> {
        let mut posted = self.state.contexts.get(context)?.posted.iter();
        posted.find(|posted| posted.request == receive)?.tag()
    }
}
