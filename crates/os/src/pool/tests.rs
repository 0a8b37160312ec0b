use super::*;
use crate::bytes::Bytes;

const SHAPE: PoolShape = PoolShape { bytes: 8192, block_bytes: 1024, streams: false };

/// Where the blocks are that are taken back, or claimed.
fn take_back(pool: &mut Pool, len: usize, to: u32) -> Option<u32> {
    pool.take_back(len, to).map(|again| again.first)
}

fn claim(view: &mut PoolView, len: usize) -> Option<u32> {
    view.claim(len).map(|again| again.first)
}

fn pool() -> (Pool, PoolView) {
    let area = PoolArea::on_heap(SHAPE);
    (Pool::new(area.clone()), PoolView::new(area, 7))
}

#[test]
fn sizes_that_cannot_be_are_refused_with_their_values() {
    let wrong = |bytes, block_bytes| PoolShape { bytes, block_bytes, streams: false }.check().unwrap_err();
    assert!(wrong(6000, 1024).contains("6000 bytes"));
    assert!(wrong(1 << 31, 1024).contains("2147483648 bytes"));
    assert!(wrong(8192, 4096).contains("blocks of 4096 bytes"));
    assert!(wrong(8192, 512).contains("blocks of 512 bytes"));
    assert_eq!(PoolShape { bytes: 0, block_bytes: 0, streams: false }.check(), Ok(()));
    let streams = |bytes| PoolShape { bytes, block_bytes: 1024, streams: true }.check();
    assert_eq!([0, 8192, 1 << 29].map(streams), [const { Ok(()) }; 3]);
    assert!(streams(1 << 30).is_err_and(|e| e.contains("1073741824 bytes with as many for streams")));
    assert_eq!(SHAPE.area_bytes(), 4096 + 8192);
}

#[test]
fn rule_5_blocks_are_reclaimed_in_order_for_ever() {
    let (mut pool, mut view) = pool();
    // As if the positions were nearly through.
    (pool.rest.head, pool.rest.tail) = (u32::MAX - 16383, u32::MAX - 16383);
    for _ in 0..20 {
        assert_eq!(pool.free_bytes(), 8192);
        let starts = [3 << 10, 1 << 10, 1].map(|len| pool.take(len, 7, false));
        assert_eq!(pool.free_bytes(), 8192 - 5 * 1024);
        view.free(starts[1], 1024);
        view.free(starts[2].wrapping_add(100), 0);
        assert_eq!(pool.free_bytes(), 8192 - 5 * 1024, "the first block is not free");
        (0..3).for_each(|block| view.free(starts[0].wrapping_add(block * 1024), 1));
    }
}

#[test]
fn rule_4_the_last_piece_frees_all_of_its_blocks() {
    let (mut pool, mut view) = pool();
    let start = pool.take(4096, 7, false);
    assert_eq!((pool.side_by_side(start), pool.side_by_side(start + 5000)), (8192, 3192));
    view.free(start + 1024, 3072);
    assert_eq!(pool.free_bytes(), 4096, "the first block is not free");
    view.free(start, 0);
    assert_eq!(pool.free_bytes(), 8192);
    let start = pool.take(2049, 7, false);
    view.free(start, 2049);
    assert_eq!(pool.free_bytes(), 8192, "three blocks, and not all of the third");
}

#[test]
fn rule_3_a_message_that_is_laid_is_in_one_piece_or_in_two() {
    let (mut pool, mut view) = pool();
    let data: Vec<u8> = (0..4000u32).map(|at| (at * 7) as u8).collect();
    let mut pieces = Vec::new();
    for len in [1, 4000, 1024, 2500, 4000, 0, 3000] {
        assert!(pool.room_for(len));
        let laid = pool.lay(len, 7, |at, to| Bytes::from(&data[at..at + to.len()]).copy_to(to));
        let mut read = Vec::new();
        for (position, bytes) in laid.into_iter().filter(|(_, bytes)| *bytes > 0) {
            view.bytes(position, bytes as usize).unwrap().append_to(&mut read);
        }
        assert!(read == data[..len]);
        if len % 2 == 0 && len > 0 {
            pool.clear(laid);
        } else {
            view.free(laid[0].0, laid[0].1 as usize);
            laid[1..]
                .iter()
                .filter(|(_, bytes)| *bytes > 0)
                .for_each(|(at, bytes)| view.free(*at, *bytes as usize));
        }
        pieces.push(laid.map(|(_, bytes)| bytes));
        assert_eq!(pool.free_bytes(), 8192, "{len} bytes");
    }
    assert_eq!(pieces[3..5], [[2048, 452], [4000, 0]], "the pool ends behind its eighth block");
}

#[test]
fn rules_2_and_7_room_and_the_dead() {
    let (mut pool, mut view) = pool();
    assert!(pool.room_for(4096) && !pool.room_for(4097), "half of the pool is the limit");
    pool.take(4096, 1, false);
    pool.take(0, 2, false);
    pool.take(2048, 1, false);
    assert!(pool.room_for(1024) && !pool.room_for(1025));
    pool.forget(1);
    assert_eq!(pool.free_bytes(), 8192 - 3 * 1024, "the message for 2 lies in between");
    view.free(4096, 1);
    assert_eq!(pool.free_bytes(), 8192);
}

#[test]
fn rule_7_claims_of_the_dead() {
    let (mut pool, mut view) = pool();
    let starts = [1, 7].map(|to| pool.take(1024, to, false));
    view.free(starts[1], 1024);
    assert_eq!(claim(&mut view, 1024), Some(starts[1]));
    pool.forget(1);
    assert_eq!(pool.free_bytes(), 7 << 10, "what 7 has claimed is 7's");
    // Also if another one has read it since 7 did.
    let mut other = PoolView::new(pool.area.clone(), 3);
    pool.own_view(7).keep(starts[1], 1024);
    pool.forget(3);
    other.free(starts[1], 1024);
    assert_eq!((claim(&mut other, 1024), pool.free_bytes()), (Some(starts[1]), 7 << 10));
    pool.forget(7);
    assert_eq!(pool.free_bytes(), 7 << 10, "what was taken for 7 is claimed by 3 now");
    pool.forget(3);
    assert_eq!(pool.free_bytes(), 8 << 10);
}

#[test]
fn rule_9_an_answer_lies_where_the_message_lay() {
    let (mut pool, mut view) = pool();
    let own = pool.own_view(7);
    assert_eq!((take_back(&mut pool, 1, 7), claim(&mut view, 1)), (None, None), "nothing came");
    let start = pool.take(2048, 7, false);
    view.free(start, 2048);
    assert_eq!(claim(&mut view, 2049), None, "longer than what came");
    (0..2).for_each(|block| view.free(start + block * 1024, 1));
    // As if the message were sent again and again, by turns.
    for _ in 0..3 {
        assert_eq!((claim(&mut view, 2048), claim(&mut view, 1)), (Some(start), None));
        own.keep(start, 2048);
        assert_eq!((take_back(&mut pool, 1, 6), take_back(&mut pool, 2048, 7)), (None, Some(start)));
        view.free(start, 2048);
    }
    // Shorter ones take the last of them.
    assert_eq!((claim(&mut view, 1024), claim(&mut view, 0)), (Some(start + 1024), None));
    own.keep(start + 1024, 1024);
    assert_eq!([take_back(&mut pool, 0, 7), take_back(&mut pool, 0, 7)], [Some(start + 1024), None]);
    view.free(start + 1024, 0);
    // The owner does without if it is short of room.
    assert_eq!(claim(&mut view, 1024), Some(start + 1024));
    assert_eq!(pool.free_bytes(), 7 << 10);
    own.keep(start + 1024, 1024);
    assert_eq!(pool.free_bytes(), 8 << 10);
    assert_eq!((take_back(&mut pool, 1, 7), claim(&mut view, 1024)), (None, None));
    // What it has reclaimed nobody claims.
    let start = pool.take(1024, 7, false);
    view.free(start, 1024);
    assert_eq!((pool.free_bytes(), claim(&mut view, 1024)), (8 << 10, None));
}

#[test]
fn blocks_that_a_process_has_not_freed_are_counted() {
    let (mut pool, mut view) = pool();
    let counts = |pool: &Pool| [7, 8, 9].map(|to| pool.blocks_for(to));
    assert_eq!(counts(&pool), [0, 0, 0]);
    let starts = [7, 8, 7].map(|to| pool.take(1500, to, false));
    assert_eq!(counts(&pool), [4, 2, 0]);
    view.free(starts[2], 1500);
    assert_eq!(counts(&pool), [2, 2, 0]);
    view.free(starts[0], 1500);
    assert_eq!(counts(&pool), [0, 2, 0]);
    assert!(claim(&mut view, 1500).is_some(), "it answers there");
    assert_eq!(counts(&pool), [0, 2, 0]);
}

#[test]
fn rule_9_in_place_is_where_as_much_was_read() {
    // Messages, which are read one after the other, the length of an answer, and whether it is in place.
    for (messages, len, in_place) in [
        (&[3000][..], 3000, true),
        (&[3000], 3001, false),
        (&[100], 1, true),
        (&[100], 101, false),
        (&[1024, 1024, 10], 2058, true),
        (&[1024, 500, 1024, 10], 1034, true),
        (&[1024, 500, 1024, 10], 2000, false),
        (&[1024, 500, 1024, 10], 2058, false),
        (&[1024, 500], 1524, true),
    ] {
        let (mut pool, mut view) = pool();
        let starts: Vec<u32> = messages.iter().map(|len| pool.take(*len, 7, false)).collect();
        starts.iter().zip(messages).for_each(|(at, len)| view.free(*at, *len));
        let answer = view.claim(len).map(|again| again.is_in_place);
        assert_eq!(answer, Some(in_place), "{len} bytes where {messages:?} were read");
    }
    // A message where an answer lay.
    for (len, in_place) in [(1024 + 40, true), (1024 + 41, false), (40, true), (41, false)] {
        let (mut pool, mut view) = pool();
        let start = pool.take(2048, 7, false);
        view.free(start, 2048);
        assert_eq!(claim(&mut view, 1064), Some(start));
        pool.own_view(7).keep(start, 1064);
        assert_eq!(pool.take_back(len, 7).map(|again| again.is_in_place), Some(in_place), "{len} bytes");
    }
}

#[test]
fn rule_9_a_process_with_a_high_number_claims_nothing() {
    for (number, claims) in [(1021, true), (1022, false), (u32::MAX, false)] {
        let (mut pool, _) = pool();
        let mut view = PoolView::new(pool.area.clone(), number);
        let start = pool.take(1024, number, false);
        view.free(start, 1024);
        assert_eq!(claim(&mut view, 1024).is_some(), claims, "{number}");
        pool.forget(number);
        assert_eq!(pool.free_bytes(), 8 << 10);
    }
}

#[test]
fn rule_9_kept_blocks_are_of_few_processes_and_the_latest() {
    let (mut pool, mut view) = pool();
    let starts = [0; 8].map(|_| pool.take(1024, 7, false));
    starts.iter().for_each(|start| view.free(*start, 1024));
    assert_eq!(claim(&mut view, 8192), Some(starts[0]), "side by side");
    for (from, start) in starts.into_iter().enumerate() {
        pool.own_view(from as u32).keep(start, 1024);
    }
    let kept = [3, 4, 5, 6, 7].map(|from| pool.answers.take(1, from, &pool.area).map(|span| span.first));
    assert_eq!(kept, [None, Some(starts[4]), Some(starts[5]), Some(starts[6]), Some(starts[7])]);
    assert_eq!(pool.free_bytes(), 4096, "those of the others are free");
    // What came before makes room for what does not lie behind it; what is too short is freed.
    let own = pool.own_view(4);
    [4, 6, 7].into_iter().for_each(|at| own.keep(starts[at], 1024));
    assert_eq!(take_back(&mut pool, 2049, 4), None);
    own.keep(starts[5], 1024);
    assert_eq!(pool.free_bytes(), 8192);
}

#[test]
fn rule_8_streams_keep_to_the_first_quarter() {
    // Too small a quarter for halves.
    let area = PoolArea::on_heap(PoolShape { bytes: 1 << 15, block_bytes: 1024, streams: false });
    let (mut pool, mut view) = (Pool::new(area.clone()), PoolView::new(area, 7));
    // Takes blocks for process 1, and says which; who reads them frees them at once.
    let mut send = |len: usize, frees: bool| {
        assert!(pool.room_for(len));
        let mut position = pool.take(len, 1, false);
        let blocks: Vec<u32> = (0..len.div_ceil(1024))
            .map(|_| {
                let at = position;
                position = pool.after(position);
                if frees {
                    view.free(at, 1);
                }
                at / 1024 % 32
            })
            .collect();
        (blocks[0], blocks[blocks.len() - 1])
    };
    assert_eq!([send(4096, true), send(255, true), send(5120, true)], [(0, 3), (8, 8), (4, 0)]);
    // For ever, also where parts are used only now and then.
    for turn in 0..200_000 {
        let at = (turn * 5 + 1) % 8;
        assert_eq!(send(5 << 10, true), (at, (at + 4) % 8));
    }
    assert_eq!([send(1, true), send(9 << 10, true)], [(9, 9), (10, 18)], "longer than the part");
    assert_eq!([send(4096, false), send(4096, false), send(4096, true)], [(1, 4), (5, 0), (19, 22)]);
    // The rest is a ring of its own.
    assert_eq!([send(9 << 10, true), send(1, true), send(2047, true)], [(23, 31), (8, 8), (9, 10)]);
    // Nobody runs ahead of a receiver, but of what others have to read.
    assert!(
        !pool.room_beside(4096, 1, false)
            && pool.room_beside(2047, 1, false)
            && pool.room_beside(4096, 2, false)
    );
    assert_eq!(pool.free_bytes(), 24 << 10);
    (0..4).for_each(|block| view.free(pool.first[0].tail + block * 1024, 1));
    assert!(pool.room_beside(4096, 1, false) && !pool.room_beside(5120, 1, false));
}

#[test]
fn rule_8_a_stream_keeps_to_one_half_while_its_reader_follows() {
    let area = PoolArea::on_heap(PoolShape { bytes: 1 << 16, block_bytes: 1024, streams: false });
    let (mut pool, mut view) = (Pool::new(area.clone()), PoolView::new(area, 7));
    // The block where a message begins for which there is room.
    let send = |pool: &mut Pool, len: usize| {
        assert!(pool.room_for(len));
        pool.take(len, 1, false)
    };
    // One that is read at once, for ever.
    for message in 0..1000 {
        let at = send(&mut pool, 2048);
        assert_eq!(at / 1024 % 64, message * 2 % 8);
        view.free(at, 2048);
    }
    // One that is read later has both halves, and then the rest.
    let all: Vec<u32> = (0..9).map(|_| send(&mut pool, 2048)).collect();
    assert_eq!(all.iter().map(|at| at / 1024 % 64).collect::<Vec<_>>(), [0, 2, 4, 6, 8, 10, 12, 14, 16]);
    assert!(!pool.room_beside(4096, 1, false) && pool.room_beside(4096, 2, false));
    assert_eq!((pool.side_by_side(all[3]), pool.side_by_side(all[7])), (2048, 2048), "halves are rings");
    assert_eq!((pool.after(all[3] + 1024) / 1024 % 64, pool.after(all[7] + 1024) / 1024 % 64), (0, 8));
    for at in &all {
        view.free(*at, 2048);
    }
    assert_eq!(pool.free_bytes(), 1 << 16);
    assert!(pool.room_beside(8192, 1, false));
    // What is longer than a half lies in the larger part, as it did when the halves were one.
    assert_eq!([8 << 10, 9 << 10].map(|len| send(&mut pool, len) / 1024 % 64), [0, 18]);
    assert_eq!(send(&mut pool, 8 << 10) / 1024 % 64, 8);
    assert_eq!(pool.free_bytes(), (64 - 25) << 10);
    // What takes a part of a block lies in both by turns.
    let mut pool =
        Pool::new(PoolArea::on_heap(PoolShape { bytes: 1 << 16, block_bytes: 1024, streams: false }));
    let short = [511, 256, 300, 511].map(|len| send(&mut pool, len) / 1024 % 64);
    assert_eq!(short, [8, 0, 9, 1]);
    assert_eq!(send(&mut pool, 512) / 1024 % 64, 2);
}

#[test]
fn rule_9_answers_are_not_joined_across_halves() {
    let area = PoolArea::on_heap(PoolShape { bytes: 1 << 16, block_bytes: 1024, streams: false });
    let (mut pool, mut view) = (Pool::new(area.clone()), PoolView::new(area, 7));
    let messages: Vec<u32> = (0..4).map(|_| pool.take(4096, 7, false)).collect();
    messages.iter().for_each(|at| view.free(*at, 4096));
    assert_eq!((claim(&mut view, 8193), pool.free_bytes()), (None, 1 << 16));
    let messages: Vec<u32> = (0..4).map(|_| pool.take(4096, 7, false)).collect();
    messages.iter().for_each(|at| view.free(*at, 4096));
    assert_eq!(claim(&mut view, 8192), Some(messages[2]));
}

#[test]
fn rule_8_messages_spread_over_the_larger_part_while_it_has_room() {
    let mut pool =
        Pool::new(PoolArea::on_heap(PoolShape { bytes: 32 << 10, block_bytes: 1024, streams: false }));
    let mut view = PoolView::new(pool.area.clone(), 3);
    let mut taken = Vec::new();
    let mut send = |pool: &mut Pool, len: usize, to: u32, spreads: bool| {
        let first = pool.take(len, to, spreads);
        taken.push((first, len));
        (first / 1024, pool.is_in_first(first), pool.lies_where_spread(first, len))
    };
    assert_eq!(send(&mut pool, 4096, 1, true), (8, false, true));
    assert_eq!(send(&mut pool, 4096, 1, false), (0, true, false));
    // Short ones lie there anyway.
    assert_eq!(
        [true, false].map(|spreads| send(&mut pool, 255, 1, spreads)),
        [(12, false, false), (13, false, false)]
    );
    for block in [14, 18, 22, 26] {
        assert!(pool.room_beside(4096, 1, true));
        assert_eq!(send(&mut pool, 4096, 1, true), (block, false, true));
    }
    assert_eq!(send(&mut pool, 2048, 1, true), (30, false, true));
    // A stream waits for room in its part, but not if that is in the way of others.
    assert!(!pool.room_beside(4096, 1, true) && pool.room_beside(4096, 1, false));
    assert!(pool.room_beside(4096, 2, true));
    // What must not wait goes where there is room.
    assert_eq!(send(&mut pool, 4096, 1, true), (4, true, false));
    assert!(!pool.room_for(1024) && !pool.room_beside(4096, 2, true) && !pool.room_beside(4096, 2, false));
    for (first, len) in taken {
        for at in (0..len.max(1)).step_by(1024) {
            view.free(first + at as u32, 1024.min(len - at));
        }
    }
    assert_eq!(pool.free_bytes(), 32 << 10);
    assert!(pool.room_beside(4096, 1, true));
}

#[test]
fn rule_8_what_is_spread_lies_further_on_in_its_block_in_each_lap() {
    const KIB: u32 = 1 << 10;
    /// Where messages lie in their blocks, in KiB: three laps of the larger part, which has 48.
    fn laps(len: usize, spreads: bool) -> [Vec<u32>; 3] {
        let area = PoolArea::on_heap(PoolShape { bytes: 2 << 20, block_bytes: 32 << 10, streams: false });
        let (mut pool, mut view) = (Pool::new(area.clone()), PoolView::new(area, 3));
        let mut send = || {
            assert!(pool.room_for(len));
            let at = pool.take(len, 1, spreads);
            assert!(pool.area.holds(at, len) && !pool.is_in_first(at), "{len} bytes at {at}");
            assert_eq!((pool.lies_where_spread(at, len), pool.is_reused(at, len)), {
                let moves = (4097..=16384).contains(&len);
                (moves || len > 8192, moves)
            });
            view.free(at, len);
            at % (32 * KIB) / KIB
        };
        [0; 3].map(|_| (0..48).map(|_| send()).collect())
    }
    // The first block is the sixteenth of the pool.
    let [first, second, third] = laps(6 << 10, true);
    assert_eq!((&first[..5], second[0], &third[..2]), (&[0, 8, 16, 24, 0][..], 8, &[16, 24][..]));
    assert_eq!(laps(16 << 10, true)[1][..3], [16, 0, 16]);
    for (len, spreads) in [(1, true), (4096, true), (4097, false), (16385, true)] {
        assert!(laps(len, spreads).iter().flatten().all(|at| *at == 0), "{len} bytes");
    }
}

#[test]
fn rule_8_short_messages_are_laid_in_all_ways_by_turns() {
    let data: Vec<u8> = (0..4096u32).map(|at| (at * 7) as u8).collect();
    for (bytes, block_bytes) in [(2 << 20, 32 << 10), (1 << 16, 16 << 10), (32768, 8192)] {
        let shape = PoolShape { bytes, block_bytes, streams: false };
        for len in [0, 1, 512, 513, 1000, 1024, 1025, 3000, 4096] {
            let area = PoolArea::on_heap(shape);
            let mut pool = Pool::new(area.clone()).with_trials(1);
            let mut view = PoolView::new(area, 3);
            let is_short = len > 512 && len < (block_bytes as usize / 4).min(4097);
            assert_eq!(pool.is_short(len), is_short, "{len} bytes, {shape:?}");
            if !pool.is_short(len) {
                continue;
            }
            let mut seen = [0; 3];
            let places = pool.rest.blocks * 200;
            for _ in 0..places {
                assert!(pool.room_for(len));
                let (at, way) = pool.take_short(len, 3);
                assert!(pool.area.holds(at, len) && !pool.is_in_first(at), "{len} bytes at {at}, {shape:?}");
                assert!(way == Some(Way::Spread) || at % block_bytes == 0, "{len} bytes at {at}: {way:?}");
                seen[way.map_or(0, |way| way as usize)] += 1;
                Bytes::from(&data[..len]).copy_to(pool.piece(at, len));
                let mut read = Vec::new();
                view.bytes(at, len).unwrap().append_to(&mut read);
                assert!(read == data[..len], "{len} bytes at {at}");
                view.free(at, len);
                assert_eq!(pool.free_bytes(), bytes as usize);
            }
            assert!(seen.iter().all(|count| *count > 0), "{len} bytes, {shape:?}: {seen:?}");
        }
    }
}

/// Messages of one to twelve blocks that are freed in any order, and answers where some of them lay, while the larger part gets the
/// blocks for streams and loses them again. No two of them may lie in the same bytes.
#[test]
fn rule_8_a_part_that_changes_its_width_gives_no_block_twice() {
    const KIB: u32 = 1 << 10;
    let shape = PoolShape { bytes: 64 * KIB, block_bytes: KIB, streams: true };
    // From the start of all time, and in the lap whose last block ends where the positions begin anew.
    for (seed, lap) in
        [(1u32, 0), (2, 0), (3, 0u32.wrapping_sub(128 * KIB)), (4, 0u32.wrapping_sub(256 * KIB))]
    {
        let area = PoolArea::on_heap(shape);
        let (mut pool, mut view) = (Pool::new(area.clone()), PoolView::new(area, 7));
        (pool.rest.head, pool.rest.tail) = (lap + 16 * KIB, lap + 16 * KIB);
        if seed % 2 == 1 {
            pool.widen(u64::MAX);
        }
        let mut random = u64::from(seed);
        let mut next = |below: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % below
        };
        let (mut lying, mut answers): (Vec<(u32, u32, bool)>, u32) = (Vec::new(), 0);
        let own_view = pool.own_view(7);
        let mut widths = [0u32; 2];
        for step in 0..40_000 {
            if next(80) == 0 {
                pool.widen(next(300) << 10);
            }
            let len = 1 + next(12 * 1024) as usize;
            // Now and then all is freed, so that it may change.
            let is_over = next(60) == 0;
            if is_over || !pool.has_room_in_rest(len) {
                let some = if is_over { lying.len() } else { 1 + next(lying.len() as u64) as usize };
                for _ in 0..some {
                    let (at, len, is_answer) = lying.swap_remove(next(lying.len() as u64) as usize);
                    if is_answer {
                        own_view.keep(at, len as usize);
                        answers += 1;
                        continue;
                    }
                    view.free(at, len as usize);
                    if next(8) == 0
                        && let Some(at) = claim(&mut view, len as usize)
                    {
                        lying.push((at, len, true));
                    }
                }
                continue;
            }
            let mut position = pool.take(len, 7, true);
            widths[usize::from(pool.is_wide())] += 1;
            let mut left = len as u32;
            while left > 0 {
                let piece = left.min(pool.side_by_side(position));
                let begin = pool.area.at(position);
                let blocks = begin..(begin + piece as usize).next_multiple_of(1024);
                assert!(
                    blocks.end <= if pool.is_wide() { 128 << 10 } else { 64 << 10 },
                    "step {step}: {blocks:?}"
                );
                for (at, len, _) in &lying {
                    let other = pool.area.at(*at);
                    let other = other..(other + *len as usize).next_multiple_of(1024);
                    assert!(
                        blocks.end <= other.start || other.end <= blocks.start,
                        "step {step}: {blocks:?} are taken where {other:?} are read"
                    );
                }
                lying.push((position, piece, false));
                left -= piece;
                position = pool.after(position.wrapping_add(piece - 1));
            }
        }
        assert!(widths.iter().all(|messages| *messages > 1000) && answers > 1000, "{widths:?}, {answers}");
    }
}

/// The state of memory of zeroes is that of a block that was freed where positions begin anew.
#[test]
fn rule_8_blocks_for_streams_are_not_free_before_they_are_read() {
    const KIB: u32 = 1 << 10;
    let shape = PoolShape { bytes: 64 * KIB, block_bytes: KIB, streams: true };
    let area = PoolArea::on_heap(shape);
    let (mut pool, mut view) = (Pool::new(area.clone()), PoolView::new(area, 7));
    let last_lap = 0u32.wrapping_sub(128 * KIB);
    (pool.rest.head, pool.rest.tail) = (last_lap + 16 * KIB, last_lap + 16 * KIB);
    pool.widen(u64::MAX);
    assert!(pool.has_room_in_rest(1));
    let starts: Vec<u32> = (0..7).map(|_| pool.take(16 << 10, 7, true)).collect();
    assert_eq!(pool.after(starts[6].wrapping_add(16 * KIB - 1)), 16 * KIB, "they reach to the end");
    starts[..6].iter().for_each(|at| view.free(*at, 16 << 10));
    view.free(starts[6], 15 << 10);
    assert_eq!(pool.bytes() - pool.free_bytes(), 1 << 10, "the last block is not read yet");
    view.free(0u32.wrapping_sub(KIB), 1 << 10);
    assert_eq!(pool.bytes() - pool.free_bytes(), 0);
}

#[test]
fn only_what_was_used_before_has_pages() {
    let area = PoolArea::on_heap(PoolShape { bytes: 2 << 20, block_bytes: 32 << 10, streams: false });
    let (mut pool, mut view) = (Pool::new(area.clone()), PoolView::new(area, 7));
    const KIB: u32 = 1 << 10;
    assert!(!pool.note_use(5 * KIB, 100) && pool.note_use(4 * KIB, 4096));
    assert!(!pool.note_use(4 * KIB, 4097), "the next page");
    assert!(pool.note_use(9 * KIB, 10) && !pool.note_use(3 * KIB, 1), "pages before and behind");
    // Of several words of the map: from page 60 to page 200.
    assert!(!pool.note_use(240 * KIB, 141 << 12) && pool.note_use(240 * KIB, 141 << 12));
    assert!(!pool.note_use(236 * KIB, 4097) && !pool.note_use(803 * KIB, 1025));
    assert!(pool.note_use(236 * KIB, 8192) && pool.note_use(804 * KIB, 0));
    // The last one, in a later lap.
    assert!(!pool.note_use((6 << 20) - 1, 1) && pool.note_use((2 << 20) - 4096, 4096));
    assert!(!view.note_use(5 * KIB, 100) && view.note_use(5 * KIB, 100), "each process has its own");
}

#[test]
fn rule_3_a_piece_crosses_blocks_only_from_the_beginning_of_one() {
    let (_, view) = pool();
    let len = |position, len| view.bytes(position, len).map(|bytes| bytes.len());
    assert_eq!((len(u32::MAX - 1023, 1024), len(511, 513), len(1023, 1)), (Some(1024), Some(513), Some(1)));
    assert_eq!((len(1, 1024), len(1023, 2), len(1, 8000)), (None, None, None));
    assert_eq!((len(0, 4096), len(6144, 2048), len(7168, 1024)), (Some(4096), Some(2048), Some(1024)));
    assert_eq!((len(0, 8193), len(6144, 2049), len(0, usize::MAX)), (None, None, None), "beyond the pool");
    assert_eq!((len(1024, 0), len(u32::MAX, 1), len(u32::MAX, 2)), (Some(0), Some(1), None));
}
