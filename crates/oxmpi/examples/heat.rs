//! A plate with a hot edge warms up. Each rank computes some of its columns: `mpirun -n 4
//! target/debug/examples/heat [STEPS]`.

use oxmpi::{Communicator, Max, Rank, StridedMut, Sum};

const ROWS: usize = 48;
const COLUMNS: usize = 96;
const HOT: f64 = 100.0;

/// The columns of this rank, with a column of a neighbour or of the edge on each side.
struct Strip {
    width: usize,
    now: Vec<f64>,
    next: Vec<f64>,
    /// The neighbours; `None` at an edge of the plate.
    west: Option<Rank>,
    east: Option<Rank>,
}

impl Strip {
    fn new(world: &Communicator<'_>) -> Strip {
        let (rank, size) = (world.rank(), world.size());
        let first = |rank: Rank| COLUMNS * rank as usize / size as usize;
        let width = first(rank + 1) - first(rank) + 2;
        let mut now = vec![0.0; ROWS * width];
        if rank == 0 {
            for row in now.chunks_mut(width) {
                row[0] = HOT;
            }
        }
        let next = now.clone();
        Strip {
            width,
            now,
            next,
            west: (rank > 0).then(|| rank - 1),
            east: (rank + 1 < size).then(|| rank + 1),
        }
    }

    /// Receives the adjacent columns of the neighbours.
    fn exchange(&mut self, world: &Communicator<'_>) -> oxmpi::Result<()> {
        let (mut from_west, rest) = StridedMut::new(&mut self.now, self.width).split_at_column(1);
        let (own, mut from_east) = rest.split_at_column(self.width - 2);
        let (first, last) = (own.shared().column(0), own.shared().column(self.width - 3));
        world.scope(|s| {
            s.irecv(&mut from_west, self.west, 0)?;
            s.irecv(&mut from_east, self.east, 1)?;
            s.isend(&first, self.west, 1)?;
            s.isend(&last, self.east, 0)?;
            Ok(())
        })
    }

    /// Computes one step; returns the largest change of temperature.
    fn step(&mut self) -> f64 {
        let mut change: f64 = 0.0;
        for row in 1..ROWS - 1 {
            for column in 1..self.width - 1 {
                let at = row * self.width + column;
                let around = self.now[at - 1]
                    + self.now[at + 1]
                    + self.now[at - self.width]
                    + self.now[at + self.width];
                self.next[at] = around / 4.0;
                change = change.max((self.next[at] - self.now[at]).abs());
            }
        }
        std::mem::swap(&mut self.now, &mut self.next);
        change
    }

    /// The heat in the columns of this rank.
    fn heat(&self) -> f64 {
        self.now.chunks(self.width).flat_map(|row| &row[1..self.width - 1]).sum()
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let universe = oxmpi::init()?;
    let world = universe.world();
    let given = std::env::args().nth(1).map_or(Ok(400), |steps| steps.parse());
    // Arguments of different ranks could differ, so all ranks use that of rank 0.
    let steps: u32 = world.broadcast_one(given?, 0)?;

    let mut strip = Strip::new(&world);
    let mut change = 0.0;
    for _ in 0..steps {
        strip.exchange(&world)?;
        change = strip.step();
    }
    let change = world.all_reduce_one(change, Max)?;
    if let Some(heat) = world.reduce_one(strip.heat(), Sum, 0)? {
        println!(
            "after {steps} steps the plate has a heat of {heat:.6}, and the last has changed {change:.6} at most"
        );
    }
    universe.finalize()?;
    Ok(())
}
