//! Every rank says hello, in order: `mpirun -n 4 target/debug/examples/hello`.

fn main() -> oxmpi::Result<()> {
    let universe = oxmpi::init()?;
    let world = universe.world();
    let line =
        format!("hello from rank {} of {}, process {}", world.rank(), world.size(), std::process::id());
    // All ranks may print at any time; rank 0 alone does, so that the lines are in order.
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
