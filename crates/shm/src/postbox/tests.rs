use super::*;
use proptest::prelude::*;
use std::time::Duration;

const SHAPE: PostboxShape = PostboxShape { ranks: 3, short: 100, pool: 64 << 10 };

fn text(bytes: Bytes<'_>) -> String {
    String::from_utf8(bytes.to_vec()).expect("a text")
}

fn put(text: &str) -> impl FnOnce(BytesMut<'_>) {
    let bytes = text.as_bytes().to_vec();
    move |mut to| {
        let len = to.len();
        Bytes::from(&bytes[..len]).copy_to(to.reborrow());
    }
}

#[test]
fn the_size_is_the_guides_formula() {
    for (ranks, short, pool) in [(1, 8192, 0), (2, 8192, 1 << 20), (7, 100, 12345), (4, 1, 0)] {
        let shape = PostboxShape { ranks, short, pool };
        let n = u64::from(ranks);
        assert_eq!(shape.bytes(), (2 * 64) + (n * (n - 1) * (short + 64)) + pool);
        let fd = PostboxArea::create(&shape).unwrap();
        assert_eq!(rustix::fs::fstat(&fd).unwrap().st_size as u64, shape.bytes());
        PostboxArea::map(&fd, shape).unwrap();
        let other = PostboxArea::map(&fd, PostboxShape { pool: pool + 1, ..shape }).unwrap_err();
        assert!(other.to_string().contains(&shape.bytes().to_string()), "{other}");
    }
    let wrong = PostboxArea::create(&PostboxShape { short: 0, ..SHAPE }).unwrap_err();
    assert!(wrong.to_string().contains("postboxes of 0 bytes"), "{wrong}");
}

#[test]
fn each_pair_has_a_postbox_of_its_own() {
    let fd = PostboxArea::create(&SHAPE).unwrap();
    let (here, there) =
        (PostboxArea::map(&fd, SHAPE).unwrap(), PostboxArea::map(&fd, SHAPE).unwrap());
    let pairs =
        || (0..3).flat_map(|from| (0..3).map(move |to| (from, to))).filter(|(from, to)| from != to);
    for (from, to) in pairs() {
        let mut sender = here.sender(from, to);
        assert!(sender.is_empty() && !sender.want_room());
        let long = format!("{from} to {to} {}", "x".repeat(100));
        assert_eq!(sender.post(format!("frame {from}{to}").as_bytes(), 250, put(&long)), 100);
        assert!(!sender.is_empty());
    }
    for (from, to) in pairs() {
        let receiver = there.receiver(from, to);
        let Some(Packet::Frame { frame, total, first }) = receiver.peek() else { panic!() };
        assert!(frame.starts_with(format!("frame {from}{to}").as_bytes()));
        assert!(
            total == 250
                && first.len() == 100
                && text(first).starts_with(&format!("{from} to {to} x"))
        );
        if from == 0 {
            assert!(here.sender(from, to).want_room());
        }
        assert_eq!(receiver.release(), from == 0, "the sender waits");
        assert!(!here.sender(from, to).want_room());
        here.sender(from, to).post_more(3, put("end"));
        assert!(matches!(receiver.peek(), Some(Packet::More(bytes)) if text(bytes) == "end"));
        assert!(!receiver.release() && receiver.peek().is_none());
    }
}

#[test]
fn a_row_of_the_pool_goes_through_a_postbox_and_back() {
    let area = PostboxArea::on_heap(SHAPE);
    let mut sender = area.sender(2, 0);
    let mut row = area.try_lock(2).unwrap().allocate(1000).unwrap();
    assert_eq!(area.taken(), 1024);
    put(&"y".repeat(1000))(area.row_mut(&mut row));
    sender.post_pooled(b"here", row);
    let receiver = area.receiver(2, 0);
    let Some(Packet::Pooled { frame, row }) = receiver.peek() else { panic!() };
    assert!(frame.starts_with(b"here") && !receiver.release());
    assert_eq!(text(area.row(&row)), "y".repeat(1000));
    area.free_row(row);
    assert_eq!((area.taken(), area.room(1 << 20)), (0, 64 << 10));
    let row = area.try_lock(2).unwrap().allocate(64 << 10).unwrap();
    assert_eq!((area.room(1), area.try_lock(0).unwrap().allocate(1)), (0, None));
    sender.post_pooled(b"here", row);
    sender.take_back();
    assert!(area.taken() == 0 && sender.is_empty());
}

#[test]
fn rule_7_nobody_waits_for_a_dead_holder() {
    let area = PostboxArea::on_heap(SHAPE);
    std::mem::forget(area.try_lock(1).unwrap());
    assert!(area.lock(0, Duration::from_millis(1)).is_none());
    assert!(!area.break_lock(2) && area.break_lock(1));
    let held = area.lock(0, Duration::ZERO).unwrap();
    let other = area.clone();
    let waits = std::thread::spawn(move || other.lock(2, Duration::from_secs(60)).is_some());
    drop(held);
    assert!(waits.join().unwrap());
}

proptest! {
    #[test]
    fn rows_never_overlap_and_all_room_comes_back(pool in 0u64..200_000, steps: Vec<(bool, u16)>) {
        let area = PostboxArea::on_heap(PostboxShape { pool, ..SHAPE });
        let mut rows: Vec<PoolRoom> = Vec::new();
        for (frees, number) in steps {
            if frees && !rows.is_empty() {
                area.free_row(rows.swap_remove(usize::from(number) % rows.len()));
            } else {
                let len = usize::from(number) + 1;
                let room = area.room(len);
                let row = area.try_lock(0).unwrap().allocate(len);
                prop_assert_eq!(row.is_some(), room == len);
                if let Some(row) = row {
                    for other in &rows {
                        prop_assert!(row.at + row.len as u64 <= other.at || other.at + other.len as u64 <= row.at);
                    }
                    prop_assert!(row.at + row.len as u64 <= pool);
                    rows.push(row);
                }
            }
        }
        rows.into_iter().for_each(|row| area.free_row(row));
        prop_assert_eq!(area.taken(), 0);
    }

    #[test]
    fn any_state_is_a_packet_or_nonsense(state in 1u64.., at: u64) {
        let area = PostboxArea::on_heap(SHAPE);
        let line = area.line(0);
        line.words[LINE_WORDS - 1].store(at, Ordering::Relaxed);
        line.words[0].store(state, Ordering::Relaxed);
        if let Some(Packet::Pooled { row, .. }) = area.receiver(0, 1).peek() {
            prop_assert_eq!(area.row(&row).len(), row.len);
        }
    }
}
