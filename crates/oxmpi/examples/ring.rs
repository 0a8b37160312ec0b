//! A token passes all ranks three times; each adds its rank: `mpirun -n 4
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
        // Rank 0 may be its own receiver, so that its send must not wait.
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
