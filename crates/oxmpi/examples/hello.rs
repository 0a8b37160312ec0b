//! Every rank prints a greeting, in order: `mpirun -n 4 target/debug/examples/hello`.

fn main() -> oxmpi::Result<()> {
    let universe = oxmpi::init()?;
    let world = universe.world();
    let line = format!(
        "hello from rank {} of {}, process {}",
        world.rank(),
        world.size(),
        std::process::id()
    );
    // Rank 0 prints all lines, since the output of different ranks has no order.
    if world.rank() > 0 {
        world.send(line.as_bytes(), 0, 0)?;
    } else {
        println!("{line}");
        for rank in 1..world.size() {
            let (line, _) = world.recv::<u8>(rank, 0)?;
            println!("{}", String::from_utf8_lossy(&line));
        }
    }
    universe.finalize()
}
