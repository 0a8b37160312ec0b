//! Types of the program as elements of messages, and parts of matrices as buffers. Derived
//! implementations need no unsafe code in the program.
#![forbid(unsafe_code)]

use oxmpi::{ANY_TAG, Buffer, Element, ErrorKind, Op, Strided, StridedMut, threads};
use std::marker::PhantomData;

/// Bytes: 1, 3 of padding, 4, 8, 2, 6 of padding.
#[derive(Element, Clone, Copy, Debug, PartialEq, Default)]
#[repr(C)]
struct Particle {
    kind: u8,
    charge: f32,
    mass: f64,
    flags: u16,
}

/// The compiler chooses the order of the members.
#[derive(Element, Clone, Copy, Debug, PartialEq, Default)]
struct Cell {
    count: u8,
    particles: [Particle; 2],
    id: u64,
    place: (u16, i8),
}

#[derive(Element, Clone, Copy, Debug, PartialEq, Default)]
#[repr(C)]
struct Tuple<A, B: Copy, const N: usize>
where
    A: Default,
    [B; N]: Default,
{
    first: A,
    second: [B; N],
}

#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Metres;

#[derive(Element, Clone, Copy, Debug, PartialEq)]
struct Length<Unit>(f32, PhantomData<Unit>);

#[derive(Element, Clone, Copy)]
#[repr(C, packed)]
struct Packed {
    tag: u8,
    value: u64,
}

#[derive(Element, Clone, Copy, Debug, PartialEq)]
#[repr(C, align(32))]
struct Aligned(u32);

fn particle(seed: i32, i: usize) -> Particle {
    let n = seed as usize * 1000 + i;
    Particle { kind: n as u8, charge: n as f32, mass: -(n as f64), flags: n as u16 }
}

fn cell(seed: i32, i: usize) -> Cell {
    Cell {
        count: i as u8,
        particles: [particle(seed, i), particle(seed, i + 1)],
        id: u64::MAX - i as u64,
        place: (seed as u16, !(i as i8)),
    }
}

/// Sends `data` to this rank by several functions, and checks the received data.
fn echoes<T: Element + PartialEq + std::fmt::Debug>(data: &[T], packed: usize) {
    threads(1, |world| {
        let sent = world.isend(data.to_vec(), 0, 1).unwrap();
        let (got, status) = world.recv::<T>(0, 1).unwrap();
        assert_eq!((got.as_slice(), status.bytes()), (data, packed * data.len()));
        assert_eq!(status.count::<T>(), Some(data.len()));
        assert_eq!(sent.wait().unwrap().0, data);
        assert_eq!(world.all_gather(data).unwrap(), data);
    });
}

#[test]
fn structs_travel_without_their_padding() {
    for len in [1, 3, 500, 20_000] {
        echoes(&(0..len).map(|i| particle(3, i)).collect::<Vec<_>>(), 15);
        echoes(&(0..len).map(|i| cell(4, i)).collect::<Vec<_>>(), 1 + 30 + 8 + 3);
        echoes(
            &(0..len).map(|i| Tuple { first: i as u8, second: [i as u16; 3] }).collect::<Vec<_>>(),
            7,
        );
        echoes(&(0..len).map(|i| (i as u8, i as u32, [i as u16; 2])).collect::<Vec<_>>(), 9);
        echoes(&(0..len).map(|i| [cell(5, i), cell(6, i)]).collect::<Vec<_>>(), 84);
        echoes(&(0..len).map(|i| Aligned(i as u32)).collect::<Vec<_>>(), 4);
    }
    echoes(&[Length::<Metres>(1.5, PhantomData)], 4);
    threads(1, |world| {
        let sent = world.isend(vec![Packed { tag: 1, value: 2 }; 3], 0, 0).unwrap();
        let (got, status) = world.recv::<Packed>(0, 0).unwrap();
        assert!(got.iter().all(|p| (p.tag, { p.value }) == (1, 2)));
        assert_eq!((got.len(), status.bytes()), (3, 27));
        sent.wait().unwrap();
    });
}

#[test]
fn structs_go_through_collectives_and_operations() {
    // Of equal masses, the first.
    let heavier = |a: &Particle, b: &Particle| if a.mass >= b.mass { *a } else { *b };
    for ranks in [1, 2, 3, 5] {
        threads(ranks, |world| {
            let (me, size) = (world.rank(), world.size());
            for len in [1, 700] {
                let of = |rank: i32| (0..len).map(|i| particle(rank, i)).collect::<Vec<_>>();
                let all: Vec<Particle> = (0..size).flat_map(of).collect();
                assert_eq!(world.all_gather(&of(me)).unwrap(), all);
                let gathered = world.gather(&of(me), size - 1).unwrap();
                assert_eq!(gathered, (me == size - 1).then(|| all.clone()));
                let mut data = if me == 0 { of(7) } else { vec![Particle::default(); len] };
                world.broadcast(&mut data, 0).unwrap();
                assert_eq!(data, of(7));
                assert_eq!(world.all_reduce(&of(me), Op::ordered(heavier)).unwrap(), of(0));
                assert_eq!(world.scan(&of(me), Op::commutative(heavier)).unwrap(), of(0));
                let mine = world.reduce_scatter_block(&all, Op::ordered(heavier)).unwrap();
                assert_eq!(mine, of(me));
            }
        });
    }
}

#[test]
fn the_length_of_an_element_is_that_of_its_data() {
    threads(1, |world| {
        // 16 bytes are two structs in memory, but no whole number of 15 bytes.
        world.send(&[0u8; 24], 0, 0).unwrap();
        let wrong = world.recv::<Particle>(0, 0).unwrap_err();
        assert_eq!((wrong.kind(), wrong.rank()), (ErrorKind::WrongType, Some(0)));
        assert!(wrong.detail().contains("Particle (15 bytes)"), "{wrong}");
        // Any pattern of bits is a value of a type that can be received.
        world.send(&[0xffu8; 30], 0, 0).unwrap();
        let (got, _) = world.recv::<Particle>(0, ANY_TAG).unwrap();
        assert_eq!((got.len(), got[1].flags, got[1].mass.to_bits()), (2, 0xffff, u64::MAX));
    });
}

#[test]
fn a_column_is_a_message() {
    const ROWS: usize = 50;
    const WIDTH: usize = 7;
    threads(2, |world| {
        let peer = 1 - world.rank();
        let matrix: Vec<i32> =
            (0..ROWS * WIDTH).map(|i| world.rank() * 10_000 + i as i32).collect();
        let theirs = |row: usize, column: usize| peer * 10_000 + (row * WIDTH + column) as i32;
        let view = Strided::new(&matrix, WIDTH);

        // A column arrives as a row of elements.
        let sent = world.isend(vec![0u8], peer, 9).unwrap();
        world.recv::<u8>(peer, 9).unwrap();
        sent.wait().unwrap();
        let mut column = [0; ROWS];
        world.sendrecv(&view.column(3), peer, 0, &mut column, peer, 0).unwrap();
        assert!((0..ROWS).all(|row| column[row] == theirs(row, 3)));

        // A block arrives at another position of another matrix, and changes nothing else.
        let mut other = vec![-1; 20 * 9];
        let mut into = StridedMut::new(&mut other, 9);
        let block = view.part(10..14, 2..=4);
        assert_eq!((block.rows(), block.columns(), block.count()), (4, 3, 12));
        let status = world.sendrecv(&block, peer, 1, &mut into.part(5..9, 6..), peer, 1).unwrap();
        assert_eq!(status.count::<i32>(), Some(12));
        for (i, value) in other.iter().enumerate() {
            let (row, column) = (i / 9, i % 9);
            let inside = (5..9).contains(&row) && column >= 6;
            assert_eq!(
                *value,
                if inside { theirs(row + 5, column - 4) } else { -1 },
                "{row}, {column}"
            );
        }

        // An empty part is valid.
        world.sendrecv(&view.part(50.., ..), peer, 2, &mut [0; 0], peer, 2).unwrap();
        world.sendrecv(&view.part(.., 7..), peer, 2, &mut [0; 0], peer, 2).unwrap();
    });
}

#[test]
fn edges_are_received_while_the_inside_is_used() {
    const ROWS: usize = 40;
    const WIDTH: usize = 6;
    threads(3, |world| {
        let (me, size) = (world.rank(), world.size());
        let (left, right) = ((me + size - 1) % size, (me + 1) % size);
        let mut field = vec![Particle::default(); ROWS * WIDTH];
        for (i, place) in field.iter_mut().enumerate() {
            *place = particle(me, i);
        }
        let (mut west, rest) = StridedMut::new(&mut field, WIDTH).split_at_column(1);
        let (mut inside, mut east) = rest.split_at_column(WIDTH - 2);
        inside.row_mut(3)[2] = particle(100 + me, 0);
        let (first, last) = (inside.shared().column(0), inside.shared().column(WIDTH - 3));
        let sum = world
            .scope(|s| {
                s.irecv(&mut west, left, 0)?;
                s.irecv(&mut east, right, 1)?;
                s.isend(&first, left, 1)?;
                s.isend(&last, right, 0)?;
                Ok((0..ROWS).map(|row| inside.row(row).len()).sum::<usize>())
            })
            .unwrap();
        assert_eq!(sum, ROWS * (WIDTH - 2));
        for row in 0..ROWS {
            assert_eq!(field[row * WIDTH], particle(left, row * WIDTH + WIDTH - 2));
            assert_eq!(field[row * WIDTH + WIDTH - 1], particle(right, row * WIDTH + 1));
        }
        assert_eq!(field[3 * WIDTH + 3], particle(100 + me, 0));
    });
}

#[test]
fn rectangles_go_through_collectives() {
    threads(3, |world| {
        let me = world.rank();
        // The root gathers columns as rows, and scatters them back as columns.
        let matrix: Vec<i32> = (0..12).map(|i| 100 * me + i).collect();
        let column = Strided::new(&matrix, 4).column(1);
        let all = world.gather(&column, 0).unwrap();
        let expected: Vec<i32> = (0..3).flat_map(|r| [1, 5, 9].map(|i| 100 * r + i)).collect();
        assert_eq!(all, (me == 0).then_some(expected));
        let mut back = vec![0; 6];
        world
            .scatter(&all.unwrap_or_default(), &mut StridedMut::new(&mut back, 2).column(1), 0)
            .unwrap();
        assert_eq!(back, [0, 100 * me + 1, 0, 100 * me + 5, 0, 100 * me + 9]);
        let mut data = vec![me; 8];
        world.broadcast(&mut StridedMut::new(&mut data, 4).part(.., 1..3), 2).unwrap();
        assert_eq!(data, [me, 2, 2, me, me, 2, 2, me]);
    });
}
