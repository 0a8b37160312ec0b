//! The send side of partitioned messages.

use super::{Channel, PartitionedBuffer, Ready, WITH_NOTE, no_partition};
use crate::task::Stand;
use oxmpi_abi::constants as abi;
use oxmpi_engine::{Completion, Fault, Lane, Mode, NO_CONTEXT, RequestId, Started};
use oxmpi_fabric::Fabric;
use oxmpi_mem::buffer::UserBuf;
use oxmpi_mem::memory::Owned;
use oxmpi_objects::error::{MpiError, Result};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use std::collections::TryReserveError;
use std::ops::Range;

#[derive(Debug)]
pub(crate) struct PartitionedSend {
    parts: PartitionedBuffer,
    error_context: u32,
    /// The route to the receiver; `None` for MPI_PROC_NULL.
    route: Option<ReceiverRoute>,
    ready: Vec<u64>,
    left: usize,
    under_way: Vec<RequestId>,
    fault: Option<Fault>,
    note: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct ReceiverRoute {
    to: u32,
    is_own: bool,
    context: u32,
    channel: Channel,
}

impl PartitionedSend {
    pub(super) fn new(
        parts: PartitionedBuffer,
        error_context: u32,
    ) -> std::result::Result<PartitionedSend, TryReserveError> {
        let words = parts.partitions.div_ceil(64);
        let mut ready = Vec::new();
        ready.try_reserve_exact(words)?;
        ready.resize(words, 0);
        let left = parts.partitions;
        let (under_way, note) = (Vec::new(), Vec::new());
        Ok(PartitionedSend {
            parts,
            error_context,
            route: None,
            ready,
            left,
            under_way,
            fault: None,
            note,
        })
    }

    pub(super) fn connect<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        (context, channel): (u32, Channel),
        (to, is_own): (u32, bool),
        tag: i32,
    ) {
        self.route = Some(ReceiverRoute { to, is_own, context, channel });
        let description = Owned::new(channel.encode()).buf();
        match lane.start_send(context, Mode::Standard, description, to, tag) {
            // The message needs no request. If the receiver is lost, the next start fails.
            Ok(Started::Pending(request)) => drop(lane.detach(request)),
            Ok(Started::Complete(_)) | Err(_) => {}
        }
    }

    pub(super) fn parts(&self) -> &PartitionedBuffer {
        &self.parts
    }

    pub(crate) fn uses_channels(&self, context: u32, numbers: &Range<u32>) -> bool {
        self.route.is_some_and(|route| {
            let own = route.channel;
            route.context == context && own.number < numbers.end && numbers.start < own.end()
        })
    }

    pub(crate) fn begin(&mut self) {
        self.ready.fill(0);
        self.left = self.parts.partitions;
        self.fault = None;
        self.parts.buffer.renew();
    }

    pub(super) fn ready<F: Fabric>(&mut self, lane: &mut Lane<F>, ready: Ready<'_>) -> Result<()> {
        match ready {
            Ready::Range { low, high } => {
                if low > high {
                    let text = format!(
                        "partition_low is {low}, more than partition_high, which is {high}"
                    );
                    return Err(MpiError::new(abi::MPI_ERR_ARG, text));
                }
                // MPI_Pready has one argument for both.
                let of = |name| {
                    move |error: MpiError| if low == high { error } else { error.within(name) }
                };
                self.place(low).map_err(of("partition_low"))?;
                self.place(high).map_err(of("partition_high"))?;
                self.mark(low..=high)?;
                self.send(lane, low as usize..high as usize + 1);
            }
            Ready::List(list) => {
                for (at, partition) in list.iter().enumerate() {
                    let of =
                        |error: MpiError| error.within(format_args!("array_of_partitions[{at}]"));
                    self.place(*partition).map_err(of)?;
                }
                self.mark(list.iter().copied())?;
                let mut order = list.to_vec();
                order.sort_unstable();
                for run in order.chunk_by(|one, next| one + 1 == *next) {
                    self.send(lane, run[0] as usize..run[0] as usize + run.len());
                }
            }
        }
        Ok(())
    }

    fn place(&self, partition: i32) -> Result<(usize, u64)> {
        match usize::try_from(partition) {
            Ok(at) if at < self.parts.partitions => Ok((at / 64, 1 << (at % 64))),
            _ => Err(no_partition(partition, self.parts.partitions)),
        }
    }

    /// Marks partitions as ready. Marks none if one is wrong.
    fn mark(&mut self, partitions: impl Iterator<Item = i32> + Clone) -> Result<()> {
        for (count, partition) in partitions.clone().enumerate() {
            let wrong = match self.place(partition) {
                Ok((word, bit)) if self.ready[word] & bit == 0 => {
                    self.ready[word] |= bit;
                    self.left -= 1;
                    continue;
                }
                Ok(_) => {
                    let text = format!("partition {partition} is ready already");
                    MpiError::new(abi::MPI_ERR_ARG, text)
                }
                Err(wrong) => wrong,
            };
            for partition in partitions.take(count) {
                if let Ok((word, bit)) = self.place(partition) {
                    self.ready[word] &= !bit;
                    self.left += 1;
                }
            }
            return Err(wrong);
        }
        Ok(())
    }

    fn send<F: Fabric>(&mut self, lane: &mut Lane<F>, run: Range<usize>) {
        let Some(route) = self.route else { return };
        if self.fault.is_some() {
            return;
        }
        if route.channel.is_direct() {
            let sent = run.into_iter().try_for_each(|partition| {
                let data = self.data(partition..partition + 1);
                self.send_buffer(lane, route, data, route.channel.of_partition(partition))
            });
            self.fault = sent.err();
            return;
        }
        let (data, bytes) = (self.data(run.clone()), run.len() * route.channel.bytes);
        self.note.clear();
        for word in [run.start as u64, run.len() as u64] {
            self.note.extend_from_slice(&word.to_le_bytes());
        }
        let with_note = bytes <= WITH_NOTE;
        if with_note {
            let at = self.note.len();
            self.note.resize(at + bytes, 0);
            // The device may have changed this partition since it was read ahead together with
            // another.
            data.refresh();
            data.pack(0, BytesMut::from(&mut self.note[at..]));
            if let Err(fault) = data.settle() {
                self.fault = Some(fault.into());
                return;
            }
        }
        let sent = self.send_note(lane, route).and_then(|()| match with_note {
            true => Ok(()),
            false => self.send_buffer(lane, route, data, route.channel.data()),
        });
        self.fault = sent.err();
    }

    fn data(&self, run: Range<usize>) -> UserBuf {
        let elements = self.parts.elements();
        self.parts.buffer.elements(run.start * elements, run.len() * elements)
    }

    fn send_note<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        route: ReceiverRoute,
    ) -> std::result::Result<(), Fault> {
        let tag = route.channel.notes();
        let note = Bytes::from(&self.note[..]);
        if !route.is_own && lane.send_now(route.context, route.to, tag, note) {
            return Ok(());
        }
        let note = Owned::new(self.note.clone()).buf();
        self.send_buffer(lane, route, note, tag)
    }

    fn send_buffer<F: Fabric>(
        &mut self,
        lane: &mut Lane<F>,
        route: ReceiverRoute,
        buffer: UserBuf,
        tag: i32,
    ) -> std::result::Result<(), Fault> {
        match lane.start_send(route.context, Mode::Standard, buffer, route.to, tag)? {
            Started::Complete(completion) => completion.fault.map_or(Ok(()), Err),
            Started::Pending(request) => {
                self.under_way.push(request);
                Ok(())
            }
        }
    }

    pub(super) fn is_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    pub(super) fn is_over(&self) -> bool {
        self.under_way.is_empty() && (self.left == 0 || self.fault.is_some())
    }

    pub(crate) fn advance<F: Fabric>(&mut self, lane: &mut Lane<F>) -> Stand {
        let fault = &mut self.fault;
        self.under_way.retain(|request| match lane.test(*request) {
            Some(None) => true,
            Some(Some(completion)) => {
                *fault = fault.or(completion.fault);
                false
            }
            None => false,
        });
        if !self.is_over() {
            return Stand::Waiting;
        }
        let context = if self.fault.is_some() { self.error_context } else { NO_CONTEXT };
        Stand::Done(Completion { fault: self.fault, context, ..Completion::EMPTY })
    }

    pub(crate) fn abandon<F: Fabric>(&mut self, lane: &mut Lane<F>) {
        self.under_way.drain(..).for_each(|request| lane.abandon(request));
    }
}
