//! Prints the speed of packing layouts and of reducing operands, in GB/s of packed bytes, with a
//! plain copy for comparison.
//!
//! `cargo run --release -p oxmpi-mem --example pack_speed`

use oxmpi_mem::kernels::{ReduceOp, Scalar, kernel};
use oxmpi_mem::layout::{Layout, LayoutError};
use oxmpi_mem::memory::{Scratch, ScratchError};
use oxmpi_mem::table::Table;
use oxmpi_sys::bytes::BytesMut;
use std::hint::black_box;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The shortest time of one call in several rounds, in seconds.
fn seconds(mut call: impl FnMut()) -> f64 {
    let mut best = Duration::MAX;
    let mut calls = 1u32;
    for _ in 0..12 {
        let start = Instant::now();
        (0..calls).for_each(|_| call());
        let took = start.elapsed();
        best = best.min(took / calls);
        if took < Duration::from_millis(20) {
            calls = calls.saturating_mul(4).min(1 << 24);
        }
    }
    best.as_secs_f64()
}

fn pack(name: &str, layout: Layout, bytes: usize) -> Result<(), ScratchError> {
    let layout = Arc::new(layout);
    let count = (bytes / layout.size()).max(1);
    let room = Scratch::new(count, &layout)?;
    let mut out = vec![1; room.buf().packed_len()];
    let len = out.len() as f64 / 1e9;
    let pack = seconds(|| room.buf().pack(0, BytesMut::from(black_box(&mut out[..]))));
    let unpack = seconds(|| room.buf().unpack(0, black_box(&out[..]).into()));
    println!("{name:44} {bytes:9} B  pack {:6.1}  unpack {:6.1} GB/s", len / pack, len / unpack);
    Ok(())
}

fn main() -> Result<(), ScratchError> {
    let (double, int, char) = (Layout::basic(8, 8), Layout::basic(4, 4), Layout::basic(1, 1));
    let padded = Layout::structure([(1, 0, &double), (1, 8, &char)])?;
    let irregular: Result<Layout, LayoutError> = Layout::hindexed(
        (0..1000usize).map(|i| (1 + i % 3, (i * 40 + i * i % 17 * 2).cast_signed() * 2)),
        &double,
    );
    let irregular = irregular?;
    for bytes in [16 << 10, 4 << 20] {
        pack("contiguous (memcpy)", Layout::contiguous(1024, &double)?, bytes)?;
        pack("vector of doubles, stride 2", Layout::hvector(bytes / 8, 1, 16, &double)?, bytes)?;
        pack("vector of ints, stride 2", Layout::hvector(bytes / 4, 1, 8, &int)?, bytes)?;
        pack("vector of 3 doubles in 10", Layout::hvector(bytes / 24, 3, 80, &double)?, bytes)?;
        pack(
            "vector of 64 doubles in 128",
            Layout::hvector(bytes / 512, 64, 1024, &double)?,
            bytes,
        )?;
        pack("vector of 10 doubles in 20", Layout::hvector(bytes / 80, 10, 160, &double)?, bytes)?;
        pack("vector of 16 doubles in 32", Layout::hvector(bytes / 128, 16, 256, &double)?, bytes)?;
        pack("vector of 24 doubles in 48", Layout::hvector(bytes / 192, 24, 384, &double)?, bytes)?;
        pack("vector of 32 doubles in 64", Layout::hvector(bytes / 256, 32, 512, &double)?, bytes)?;
        pack("array of struct {double; char}", padded.dup(), bytes)?;
        pack(
            "array of struct {double; int; pad; int}",
            Layout::structure([(1, 0, &double), (1, 8, &int), (1, 16, &int)])?,
            bytes,
        )?;
        pack("irregular blocks of 1 to 3 doubles", irregular.dup(), bytes)?;
        pack("column of 32 rows of {double; char}", Layout::hvector(32, 1, 512, &padded)?, bytes)?;
        for (op, scalar) in [
            (ReduceOp::Sum, Scalar::F64),
            (ReduceOp::Max, Scalar::I32),
            (ReduceOp::Sum, Scalar::F80),
            (ReduceOp::MinLoc, Scalar::F64I32),
        ] {
            let Some(kernel) = kernel(op, scalar) else { continue };
            let mut right = vec![0u8; bytes];
            let left = vec![0u8; bytes];
            let time = seconds(|| {
                kernel.apply(black_box(&left[..]).into(), BytesMut::from(black_box(&mut right[..])))
            });
            println!(
                "{:44} {bytes:9} B  reduce {:.1} GB/s",
                format!("{op:?} of {scalar:?}"),
                bytes as f64 / 1e9 / time
            );
        }
    }
    let table = Table::new();
    let handle = table.insert(1u64);
    let get = seconds(|| drop(black_box(table.get(black_box(handle)))));
    println!("handle look-up and release, threads counted  {:.1} ns", get * 1e9);
    // SAFETY: this program has one thread.
    table.set_single_threaded(unsafe { oxmpi_mem::table::SingleThread::promise() });
    let get = seconds(|| drop(black_box(table.get(black_box(handle)))));
    println!("handle look-up and release, single thread    {:.1} ns", get * 1e9);
    Ok(())
}
