//! A token passes all ranks three times, and each rank adds its number: `mpirun -n 4
//! target/debug/examples/ring`.

const ROUNDS: i32 = 3;
const TOKEN: oxmpi::Tag = 1;

fn main() -> oxmpi::Result<()> {
    let universe = oxmpi::init()?;
    let world = universe.world();
    let (rank, size) = (world.rank(), world.size());
    let (right, left) = ((rank + 1) % size, (rank + size - 1) % size);
    let mut token = [0];
    for round in 0..ROUNDS {
        // With one rank, rank 0 sends to itself, so its send must not block.
        if rank == 0 {
            let sent = world.isend(vec![token[0] + rank], right, TOKEN)?;
            world.recv_into(&mut token, left, TOKEN)?;
            sent.wait()?;
            println!("round {round}: the token is {}", token[0]);
        } else {
            world.recv_into(&mut token, left, TOKEN)?;
            world.send(&[token[0] + rank], right, TOKEN)?;
        }
    }
    universe.finalize()
}
