//! Tests with the simulated driver (`tests/accelerator/libcuda.c`): a load or store in its device
//! memory ends the test, and copies in streams are made when they are awaited, not before.
#![allow(clippy::unwrap_used)] // a test may panic anywhere

use oxmpi_cuda::{CudaContext, DeviceRegion, Driver, Location, STAGE_BYTES, loads};
use oxmpi_mem::device::{DeviceMemory, Rows};
use oxmpi_sys::foreign::{ForeignLibrary, LibraryTexts};
use oxmpi_sys::foreign_symbols;
use std::ffi::c_int;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

foreign_symbols! {
    struct SimulatedDriver {
        fn cuMemAlloc_v2(*mut u64, usize) -> c_int;
        fn fake_cuda_fail_queries(c_int);
    }
}

fn functions_of(library: &Path) -> SimulatedDriver {
    static TEXTS: LibraryTexts =
        LibraryTexts { name: "driver", needed: "simulated driver", remedy: "" };
    let loaded = ForeignLibrary::of_program(&TEXTS, library.to_str().unwrap()).unwrap();
    SimulatedDriver::of(&loaded).unwrap()
}

/// Compiles the driver under its own name: tests in one process then do not share it.
fn compiled(name: &str) -> PathBuf {
    let library = Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("libcuda-{name}-{}.so.1", std::process::id()));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/accelerator/libcuda.c");
    let mut cc = Command::new("cc");
    let output =
        cc.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(source).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    library
}

fn allocated(driver: &Driver, library: &Path, len: usize) -> (usize, CudaContext) {
    let mut address = 0_u64;
    // SAFETY: it stores one number.
    assert_eq!(unsafe { (functions_of(library).cuMemAlloc_v2)(&mut address, len) }, 0);
    match driver.find(address as usize) {
        Ok(Location::Device(context)) => (address as usize, context),
        other => panic!("{other:?}"),
    }
}

fn at(address: usize) -> *mut u8 {
    std::ptr::without_provenance_mut(address)
}

#[test]
fn a_library_that_is_no_driver_is_named() {
    let missing = Driver::open("/nonexistent/libcuda.so.1").unwrap_err().to_string();
    assert!(
        missing.contains("/nonexistent/libcuda.so.1")
            && missing.contains("accelerator_cuda_library"),
        "{missing}"
    );
    let other = Driver::open("libm.so.6").unwrap_err().to_string();
    assert!(
        other.starts_with("'libm.so.6' has no function cuInit: it is no CUDA driver"),
        "{other}"
    );
}

#[test]
fn a_driver_is_found_only_when_the_program_has_loaded_it() {
    let library = compiled("found");
    let name = library.to_str().unwrap();
    assert!(Driver::of_program(name).unwrap().is_none());
    let before = loads();
    assert_eq!(before, loads());
    let driver = Driver::open(name).unwrap();
    assert!(loads() > before);
    assert!(Driver::of_program(name).unwrap().is_some());
    assert_eq!(driver.version(), Some((12, 4)));
    // A driver that is not initialised has no memory.
    assert_eq!(driver.find(name.as_ptr().addr()), Ok(Location::Host));
    driver.initialise().unwrap();
    assert_eq!(driver.find(name.as_ptr().addr()), Ok(Location::Host));
    assert_eq!(
        driver.describe(700),
        "CUDA_ERROR_ILLEGAL_ADDRESS (700, an illegal memory access was encountered)"
    );
}

#[test]
fn long_regions_are_read_ahead_and_written_behind() {
    let library = compiled("pieces");
    let driver: Arc<Driver> = Driver::open(library.to_str().unwrap()).unwrap();
    driver.initialise().unwrap();
    let len = 5 * STAGE_BYTES / 2 + 77;
    let (address, context) = allocated(&driver, &library, len);
    let data: Vec<u8> = (0..len).map(|i| (i * 7 + i / 251) as u8).collect();
    // Lengths that do not divide a stage, and one that is longer than a stage.
    for step in [STAGE_BYTES / 3 + 1, STAGE_BYTES + 5, 4096, len] {
        let region = DeviceRegion::new(&driver, context, address..address + len);
        let mut got = vec![0; len];
        for from in (0..len).step_by(step) {
            let n = step.min(len - from);
            // SAFETY: the vector has `n` bytes there.
            unsafe { region.write(at(address + from), data[from..].as_ptr(), n) }.unwrap();
        }
        region.settle().unwrap();
        for from in (0..len).step_by(step) {
            let n = step.min(len - from);
            // SAFETY: the vector has `n` bytes there.
            unsafe { region.read(at(address + from), got[from..].as_mut_ptr(), n) }.unwrap();
        }
        assert!(got == data, "in steps of {step}");
        // Written data are read back, also where they were read ahead before, and by another
        // region.
        // SAFETY: the array has 3 bytes.
        unsafe { region.write(at(address + len - 3), [9, 8, 7].as_ptr(), 3) }.unwrap();
        // SAFETY: the vector is longer than 4 bytes.
        unsafe { region.read(at(address + len - 4), got.as_mut_ptr(), 4) }.unwrap();
        assert_eq!(got[..4], [data[len - 4], 9, 8, 7]);
        drop(region);
        let short = DeviceRegion::new(&driver, context, 0..0);
        // SAFETY: the vector is longer than 3 bytes.
        unsafe { short.read(at(address + len - 3), got.as_mut_ptr(), 3) }.unwrap();
        assert_eq!(got[..3], [9, 8, 7]);
        // Changes by the program are read after `renew`.
        let again = DeviceRegion::new(&driver, context, address..address + len);
        // SAFETY: the vector is not empty.
        unsafe { again.read(at(address), got.as_mut_ptr(), 1) }.unwrap();
        // SAFETY: the array has one byte.
        unsafe { short.write(at(address), [data[0] ^ 1].as_ptr(), 1) }.unwrap();
        again.renew().unwrap();
        // SAFETY: the vector is not empty.
        unsafe { again.read(at(address), got.as_mut_ptr(), 1) }.unwrap();
        assert_eq!(got[0], data[0] ^ 1);
    }
}

#[test]
fn rows_are_copied_with_what_lies_between_them_left_alone() {
    let library = compiled("rows");
    let driver = Driver::open(library.to_str().unwrap()).unwrap();
    driver.initialise().unwrap();
    let (address, context) = allocated(&driver, &library, 100);
    let region = DeviceRegion::new(&driver, context, 0..0);
    let rows = Rows { width: 3, height: 5, pitch: 10 };
    let data: Vec<u8> = (1..=15).collect();
    let (mut all, mut back) = ([0xff; 100], [0; 15]);
    // SAFETY: the arrays are as long as the rows.
    unsafe {
        region.write(at(address), all.as_ptr(), 100).unwrap();
        region.write_rows(at(address + 20), rows, data.as_ptr()).unwrap();
        region.read(at(address), all.as_mut_ptr(), 100).unwrap();
        region.read_rows(at(address + 20), rows, back.as_mut_ptr()).unwrap();
    }
    assert_eq!(back[..], data[..]);
    for (index, byte) in all.iter().enumerate() {
        let place = index.wrapping_sub(20);
        let expected =
            if place < 50 && place % 10 < 3 { data[place / 10 * 3 + place % 10] } else { 0xff };
        assert_eq!(*byte, expected, "{index}");
    }
    // The driver refuses a range beyond the end of an allocation, and nothing is copied.
    // SAFETY: the array is long enough.
    assert_eq!(unsafe { region.read(at(address + 90), all.as_mut_ptr(), 100) }, Err(1));
}

#[test]
fn a_query_that_fails_leaves_memory_of_the_host_usable() {
    let library = compiled("queries");
    let name = library.to_str().unwrap();
    let driver = Driver::open(name).unwrap();
    driver.initialise().unwrap();
    let (address, _) = allocated(&driver, &library, 100);
    let fail = functions_of(&library).fake_cuda_fail_queries;
    for error in [700, 800] {
        // SAFETY: it stores a number.
        unsafe { fail(error) };
        assert_eq!(driver.find(name.as_ptr().addr()), Ok(Location::Host));
        assert_eq!(driver.find(address), Err(error));
    }
}
