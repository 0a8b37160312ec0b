use super::*;
use oxmpi_sys::bytes::Bytes;

const SHAPE: PoolShape = PoolShape { bytes: 8192, block_bytes: 1024 };

fn pool() -> (Pool, PoolView) {
    let area = PoolArea::on_heap(SHAPE);
    (Pool::new(area.clone()), PoolView::new(area))
}

#[test]
fn sizes_that_cannot_be_are_refused_with_their_values() {
    let wrong = |bytes, block_bytes| PoolShape { bytes, block_bytes }.check().unwrap_err();
    assert!(wrong(6000, 1024).contains("6000 bytes"));
    assert!(wrong(1 << 31, 1024).contains("2147483648 bytes"));
    assert!(wrong(8192, 4096).contains("blocks of 4096 bytes"));
    assert!(wrong(8192, 512).contains("blocks of 512 bytes"));
    assert_eq!(PoolShape { bytes: 0, block_bytes: 0 }.check(), Ok(()));
    assert_eq!(SHAPE.area_bytes(), 4096 + 8192);
}

#[test]
fn rule_4_blocks_are_reclaimed_in_order_for_ever() {
    let (mut pool, mut view) = pool();
    // Positions shortly before they wrap.
    (pool.head, pool.tail) = (u32::MAX - 16383, u32::MAX - 16383);
    for _ in 0..20 {
        assert_eq!(pool.free_bytes(), 8192);
        let starts = [3 << 10, 1 << 10, 1].map(|len| pool.take(len, 7));
        assert_eq!(pool.free_bytes(), 8192 - 5 * 1024);
        view.free(starts[1], 1024);
        view.free(starts[2], 1);
        assert_eq!(pool.free_bytes(), 8192 - 5 * 1024, "the first block is not free");
        view.free(starts[0], 3 << 10);
    }
}

#[test]
fn rules_3_and_4_a_piece_begins_with_a_block_and_frees_all_of_its_blocks() {
    let (mut pool, mut view) = pool();
    let start = pool.take(4096, 7);
    assert_eq!((pool.side_by_side(start), pool.side_by_side(start + 5120)), (8192, 3072));
    assert!(view.bytes(start + 1024, 1024).is_some() && view.bytes(start, 8192).is_some());
    assert!(view.bytes(start + 1, 1).is_none() && view.bytes(start, 8193).is_none());
    assert!(view.bytes(start + 7168, 1025).is_none(), "the pool ends behind its eighth block");
    view.free(start + 1024, 3072);
    assert_eq!(pool.free_bytes(), 4096, "the first block is not free");
    view.free(start, 0);
    assert_eq!(pool.free_bytes(), 8192);
    let start = pool.take(2049, 7);
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
fn rules_2_and_4_room_and_the_dead() {
    let (mut pool, mut view) = pool();
    assert!(pool.room_for(4096) && !pool.room_for(4097), "half of the pool is the limit");
    pool.take(4096, 1);
    pool.take(0, 2);
    pool.take(2048, 1);
    assert!(pool.room_for(1024) && !pool.room_for(1025));
    pool.forget(1);
    assert_eq!(pool.free_bytes(), 8192 - 3 * 1024, "the message for 2 lies in between");
    view.free(4096, 1);
    assert_eq!(pool.free_bytes(), 8192);
}
