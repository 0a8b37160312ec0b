//! Pi as an integral, computed by all ranks: `mpirun -n 4 target/debug/examples/pi [STEPS]`.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let universe = oxmpi::init()?;
    let world = universe.world();
    // Only rank 0 reads its arguments, and broadcasts the number.
    let mut steps = [1_000_000_u64];
    if world.rank() == 0
        && let Some(given) = std::env::args().nth(1)
    {
        steps = [given.parse().map_err(|e| format!("STEPS is '{given}': {e}"))?];
    }
    world.broadcast(&mut steps, 0)?;

    let width = 1.0 / steps[0] as f64;
    let mine = (world.rank() as u64..steps[0]).step_by(world.size() as usize);
    let part: f64 = mine.map(|i| (i as f64 + 0.5) * width).map(|x| 4.0 / (1.0 + x * x)).sum();

    if let Some(sum) = world.reduce_one(part * width, oxmpi::Sum, 0)? {
        println!("pi is about {sum:.12}, wrong by {:.1e}", (sum - std::f64::consts::PI).abs());
    }
    universe.finalize()?;
    Ok(())
}
