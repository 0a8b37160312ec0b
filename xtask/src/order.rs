//! `cargo xtask order`: the functions that most programs use, side by side in the C library.
//!
//! The kernel maps the library's text in windows of 64 KiB around each page that is touched.
//! MPI_Init alone calls some hundreds of functions. If they are spread over the text, nearly all of
//! the text counts as memory of every rank.
//!
//! Therefore a program with the usual calls (`order/usual.c`) runs under callgrind, once for each
//! of two ranks. The called functions become a script for the linker (`crates/capi/build/main.rs`).
//! First come the functions with which every program starts and ends, then those of messages, then
//! those of collectives: a program that only sends messages has no collectives in its memory.
//!
//! The script names functions by their paths, with wildcards for the parts that compilers make up
//! (hashes, disambiguators), so it outlasts new compilers. A renamed or new function falls back
//! among all others, which is no error. `bench` fails when the resident text after MPI_Init has
//! grown too far ([`crate::footprint`]); this verb makes a new script.

use std::array;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::install::{Build, install};
use crate::root;
use crate::run::{Failure, Run};

const SCRIPT: &str = "crates/capi/order.ld";
const LIBRARY: &str = "libmpi_abi";
const RANKS: usize = 4;
/// The ranks that are recorded: the root, and another one.
const RECORDED: [usize; 2] = [0, 1];

/// The parts of the program, which calls MPI_Pcontrol between two of them, and the comment of the
/// script for the functions that they call.
const PARTS: [&str; 4] = ["Up to the first barrier.", "Messages.", "Collectives.", "MPI_Finalize."];
/// The parts in the order of the script, which names each function in its first part only.
const IN_SCRIPT: [usize; 4] = [0, 3, 1, 2];

type Record = [BTreeSet<String>; PARTS.len()];

pub(crate) fn order() -> Result<(), Failure> {
    if !Run::new("valgrind").arg("--version").succeeds() {
        return Err(Failure::new(
            "'cargo xtask order' records calls by valgrind: apt-get install valgrind",
        ));
    }
    let prefix = root().join("target/order-prefix");
    install(&prefix, Build::release())?;
    let program = prefix.join("usual");
    let source = root().join("xtask/src/order/usual.c");
    let warnings = ["-O1", "-Wall", "-Wextra", "-Werror", "-o"];
    Run::new(prefix.join("bin/mpicc")).args(warnings).arg(&program).arg(source).show()?;
    let symbols = Run::new("nm").arg(prefix.join("lib/libmpi_abi.so.1")).output()?;
    let aliases = Aliases::of(&String::from_utf8_lossy(&symbols));
    let mut record = Record::default();
    for rank in RECORDED {
        record_rank(&prefix, &program, rank, &aliases, &mut record)?;
    }
    let script = script(&record);
    let to = root().join(SCRIPT);
    fs::write(&to, script).map_err(Failure::io(format!("cannot write {}", to.display())))?;
    let counts = record.each_ref().map(BTreeSet::len);
    println!("written: {SCRIPT}: {counts:?} functions were called in its parts");
    Ok(())
}

fn record_rank(
    prefix: &Path,
    program: &Path,
    rank: usize,
    aliases: &Aliases,
    record: &mut Record,
) -> Result<(), Failure> {
    // Callgrind writes the part before each MPI_Pcontrol to a file of this name with the number of
    // the part from 1 behind it, and the last part to a file of this name.
    let out = prefix.join(format!("calls-{rank}"));
    let files = array::from_fn::<_, { PARTS.len() }, _>(|part| match part + 1 {
        number if number == PARTS.len() => out.clone(),
        number => PathBuf::from(format!("{}.{number}", out.display())),
    });
    let met = prefix.join("met");
    for old in files.iter().chain([&met]) {
        // The file may not exist.
        let _ = fs::remove_file(old);
    }
    let arguments = || [program.into(), rank.to_string().into(), met.clone().into_os_string()];
    let (before, behind) = (rank.to_string(), (RANKS - rank - 1).to_string());
    let mut run = Run::new(prefix.join("bin/mpirun")).args(["--timeout", "300"]);
    if rank > 0 {
        run = run.args(["-n", &before]).args(arguments()).arg(":");
    }
    run = run.args(["-n", "1", "valgrind", "--tool=callgrind", "--demangle=no"]);
    run = run.args([
        "--dump-before=*MPI_Pcontrol*".to_string(),
        format!("--callgrind-out-file={}", out.display()),
    ]);
    run = run.args(arguments());
    if rank + 1 < RANKS {
        run = run.args([":", "-n", &behind]).args(arguments());
    }
    run.show()?;
    let read = |file: &Path| {
        fs::read_to_string(file).map_err(Failure::io(format!("cannot read {}", file.display())))
    };
    for (file, patterns) in files.iter().zip(record) {
        for name in called(&read(file)?) {
            patterns.extend(aliases.names(&name).filter_map(pattern));
        }
    }
    Ok(())
}

/// Names of the same function: the optimizer joins functions with the same instructions. Callgrind
/// and the linker may know such a function by different names.
#[derive(Default)]
struct Aliases {
    addresses: BTreeMap<String, String>,
    names: BTreeMap<String, Vec<String>>,
}

impl Aliases {
    /// From lines `ADDRESS KIND NAME` of `nm`.
    fn of(symbols: &str) -> Aliases {
        let mut aliases = Aliases::default();
        for line in symbols.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [address, "t" | "T" | "w" | "W", name] = words[..] else { continue };
            aliases.addresses.insert(name.to_string(), address.to_string());
            aliases.names.entry(address.to_string()).or_default().push(name.to_string());
        }
        aliases
    }

    fn names<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        // Callgrind appends `'` and a number to the name of a recursive function.
        let name = name.split('\'').next().unwrap_or(name);
        let others = self.addresses.get(name).and_then(|address| self.names.get(address));
        others.into_iter().flatten().map(String::as_str).chain([name])
    }
}

/// The called functions of the library, from a file of callgrind. Lines `ob=(1) PATH` and `fn=(2)
/// NAME` name the place of the costs behind them: the first line with the name, later lines with
/// the number alone. `cob=` and `cfn=` name callees.
fn called(text: &str) -> BTreeSet<String> {
    let (mut objects, mut names) = (Names::default(), Names::default());
    let mut in_library = false;
    let mut called = BTreeSet::new();
    for line in text.lines() {
        let Some((key, value)) = line.split_once('=') else { continue };
        match key {
            "ob" => in_library = objects.get(value).contains(LIBRARY),
            "cob" => _ = objects.get(value),
            "fn" => {
                let name = names.get(value);
                if in_library {
                    called.insert(name.to_string());
                }
            }
            "cfn" => _ = names.get(value),
            _ => {}
        }
    }
    called
}

/// Names by the numbers that callgrind gives them.
#[derive(Default)]
struct Names(BTreeMap<String, String>);

impl Names {
    /// The name of `(number) name` or `(number)`.
    fn get(&mut self, value: &str) -> &str {
        let (number, name) = value.split_once(' ').unwrap_or((value, ""));
        let known = self.0.entry(number.to_string()).or_default();
        if !name.is_empty() {
            *known = name.to_string();
        }
        known
    }
}

/// The sections of the functions with this path: the hash and what the optimizer has put behind it
/// are left out, and so are the crates' disambiguators. None if the function has no name.
fn pattern(name: &str) -> Option<String> {
    if name.starts_with("0x") || name.starts_with('(') {
        return None;
    }
    // C names have no hash, and names without the P are no functions of their own.
    if name.starts_with("PMPI") || name.starts_with("MPI") {
        return name.starts_with('P').then(|| name.to_string());
    }
    let name = name.split(".llvm.").next().unwrap_or(name);
    // The older way to mangle names: `17h`, 16 digits of a hash, `E`.
    if let Some((path, hash)) = name.rsplit_once("17h")
        && name.starts_with("_ZN")
        && hash.len() == 17
    {
        return Some(format!("{path}17h*"));
    }
    // The newer one: `Cs`, a disambiguator, `_`.
    let mut parts = name.split("Cs");
    let mut pattern = parts.next().unwrap_or_default().to_string();
    for part in parts {
        pattern += "Cs";
        match part.split_once('_') {
            Some((digits, rest)) if digits.bytes().all(|b| b.is_ascii_alphanumeric()) => {
                pattern += &format!("*_{rest}");
            }
            _ => pattern += part,
        }
    }
    Some(pattern + "*")
}

fn script(record: &Record) -> String {
    let mut text = "/* The order of functions in the library. Written by 'cargo xtask order', which says why; do not edit. */\n\
         SECTIONS {\n  .plt : { *(.plt) }\n  .text : {\n    *crt*.o(.text)\n    *libc_nonshared.a:*(.text)\n"
        .to_string();
    let mut placed = BTreeSet::new();
    for part in IN_SCRIPT {
        text += &format!("    /* {} */\n", PARTS[part]);
        for pattern in &record[part] {
            if placed.insert(pattern) {
                text += &format!("    *(.text.{pattern} .text.unlikely.{pattern})\n");
            }
        }
    }
    text + "    *(.text .text.*)\n  }\n}\nINSERT AFTER .fini;\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_become_wildcards() {
        let pattern = |name| pattern(name).unwrap_or_default();
        assert_eq!(pattern("PMPI_Init"), "PMPI_Init");
        assert_eq!(pattern("MPI_Init"), "");
        assert_eq!(
            pattern("_ZN4core3ops8call_once17h0123456789abcdefE"),
            "_ZN4core3ops8call_once17h*"
        );
        assert_eq!(pattern("_ZN1a1b17h0123456789abcdefE.llvm.4890359939486475391"), "_ZN1a1b17h*");
        assert_eq!(pattern("_RNvNtCsjrHSEGnQ3l9_3std3env7vars_os"), "_RNvNtCs*_3std3env7vars_os*");
        assert_eq!(pattern("0x00000000000d2170"), "");
    }

    #[test]
    fn a_function_lies_with_the_first_part_of_the_script_that_calls_it() {
        let record = ["a", "a m f", "a m c f", "f"]
            .map(|names| names.split(' ').map(String::from).collect());
        let script = script(&record);
        let lines = script.lines().filter_map(|line| line.trim().strip_prefix("*(.text."));
        let order: Vec<&str> = lines.filter_map(|line| line.split(' ').next()).collect();
        assert_eq!(order, ["a", "f", "m", "c"]);
    }

    #[test]
    fn functions_that_were_joined_are_found_by_any_name() {
        let aliases = Aliases::of("10 t a\n20 T b\n10 t c\n10 r d\n                 U e\n");
        assert_eq!(aliases.names("c'2").collect::<Vec<_>>(), ["a", "c", "c"]);
        assert_eq!(aliases.names("e").collect::<Vec<_>>(), ["e"]);
    }

    #[test]
    fn callees_only_give_names() {
        let text = "ob=(1) /lib/libmpi_abi.so.1\nfn=(1) a\n+1 2\ncob=(2) /lib/libc.so\ncfn=(2) c\ncalls=1 1\n* 3\n\
                    cfn=(3) b\nfn=(3)\n1 2\nob=(2)\nfn=(2)\n1 2\nob=(1)\nfn=(4) d\n";
        assert_eq!(called(text), ["a", "b", "d"].map(String::from).into());
    }
}
