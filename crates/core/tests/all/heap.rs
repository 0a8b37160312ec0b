//! Messages in memory that peers read by themselves, in their own mappings of the heap.
use oxmpi_core::Process;
use oxmpi_core::world::{WorldOptions, world_with};
use oxmpi_engine::Mode;
use oxmpi_fabric::routes::Routes;
use oxmpi_fabric::shm::SingleCopyMode;
use oxmpi_mem::memory::{lend, lend_mut};
use oxmpi_shm::heap::HeapBlock;
use std::sync::atomic::{AtomicU32, Ordering};

const LONGEST: usize = 3_000_000;

fn pattern(from: i32, number: usize, at: usize) -> u8 {
    (at * 7 + number * 13 + from as usize * 31) as u8
}

fn fill(bytes: &mut [u8], from: i32, number: usize) {
    bytes.iter_mut().enumerate().for_each(|(at, byte)| *byte = pattern(from, number, at));
}

fn is_filled(bytes: &[u8], from: i32, number: usize) -> bool {
    bytes.iter().enumerate().all(|(at, byte)| *byte == pattern(from, number, at))
}

fn block(p: &Process<Routes>, len: usize) -> HeapBlock {
    p.heap().unwrap().block(len).unwrap()
}

/// Options in which only the heap gives access to a message of a computing sender.
fn without_single_copy() -> WorldOptions {
    let mut options = WorldOptions::default();
    options.settings.single_copy = SingleCopyMode::Off;
    options
}

#[test]
fn a_message_in_the_heap_arrives_without_its_sender() {
    let arrived = AtomicU32::new(0);
    for ranks in [2, 7] {
        arrived.store(0, Ordering::Release);
        world_with(ranks, without_single_copy(), |p| {
            let comm = p.world().clone();
            if comm.rank() == 0 {
                let mut data = block(p, LONGEST);
                fill(&mut data, 0, 5);
                for peer in 1..ranks as i32 {
                    let part = &data[peer as usize..LONGEST - 100];
                    lend(part, |buffer| {
                        let sent = p.isend(&comm, Mode::Standard, buffer, peer, 1)?;
                        while arrived.load(Ordering::Acquire) < peer as u32 {
                            std::thread::yield_now();
                        }
                        p.wait(sent)
                    })
                    .unwrap();
                }
            } else {
                let start = comm.rank() as usize;
                let mut data = vec![0; LONGEST - 100 - start];
                lend_mut(&mut data, |buffer| p.recv(&comm, buffer, 0, 1)).unwrap();
                assert!(
                    data.iter().enumerate().all(|(at, byte)| *byte == pattern(0, 5, at + start))
                );
                arrived.fetch_add(1, Ordering::AcqRel);
            }
        });
    }
}

fn exchange(options: WorldOptions) {
    world_with(2, options, |p| {
        let comm = p.world().clone();
        let (me, peer) = (comm.rank(), 1 - comm.rank());
        for (number, len) in [0, 57, 65536, 65537, 300_001, LONGEST].into_iter().enumerate() {
            for (out_in_heap, in_in_heap, start) in
                [(true, true, 0), (true, false, 4097), (false, true, 13), (true, true, 1)]
            {
                let (mut heap_out, mut heap_in) = (block(p, len + start), block(p, len + start));
                let (mut plain_out, mut plain_in) = (vec![0; len + start], vec![0; len + start]);
                let out =
                    if out_in_heap { &mut heap_out[start..] } else { &mut plain_out[start..] };
                let into = if in_in_heap { &mut heap_in[start..] } else { &mut plain_in[start..] };
                fill(out, me, number);
                into.fill(0);
                let got = lend(out, |out| {
                    let sent = p.isend(&comm, Mode::Standard, out, peer, 3)?;
                    let got = lend_mut(into, |into| p.recv(&comm, into, peer, 3))?;
                    p.wait(sent)?;
                    Ok::<_, oxmpi_objects::error::MpiError>(got)
                });
                assert_eq!(got.unwrap().bytes as usize, len);
                assert!(
                    is_filled(into, peer, number),
                    "{len} bytes from {start}, {out_in_heap} {in_in_heap}"
                );
            }
        }
    });
}

#[test]
fn messages_go_from_any_memory_to_any() {
    exchange(WorldOptions::default());
    exchange(without_single_copy());
    let mut through_the_inbox = without_single_copy();
    through_the_inbox.settings.ring_after = u64::MAX;
    exchange(through_the_inbox);
    let mut announced = WorldOptions::default();
    announced.settings.eager_limit = 0;
    exchange(announced);
}

#[test]
fn freed_memory_carries_new_messages() {
    world_with(2, without_single_copy(), |p| {
        let comm = p.world().clone();
        for number in 0..20 {
            let mut data = block(p, LONGEST);
            if comm.rank() == 0 {
                fill(&mut data, 0, number);
                lend(&data[..], |buffer| p.send(&comm, Mode::Standard, buffer, 1, 1)).unwrap();
            } else {
                lend_mut(&mut data[..], |buffer| p.recv(&comm, buffer, 0, 1)).unwrap();
                assert!(is_filled(&data, 0, number), "message {number}");
            }
        }
    });
}
