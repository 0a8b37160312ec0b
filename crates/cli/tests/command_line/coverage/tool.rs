//! A tool of the profiling interface, made from the table of the ABI: it counts each call of the
//! 664 functions by its result (MPI-5.0, chapter on tool support, "Profiling Interface").
//!
//! The counts of a process are in a mapped file, so they survive any end of the process.

use std::fmt::Write as _;
use std::path::Path;

use oxmpi_abi::FuncId;
use oxmpi_abi::functions::FUNCTION_COUNT;
use oxmpi_abi::table::FunctionArgument;

/// `NAME` of a function is its number in the table.
const BODY: &str = r#"
#include <mpi.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Calls, those that gave MPI_SUCCESS (or a result that is no error code), and those that gave an error. */
struct counts { unsigned long called[COUNT], good[COUNT], bad[COUNT]; };

static struct counts none;
static struct counts *counts = &none;

__attribute__((constructor)) static void map(void) {
    const char *directory = getenv("TOOL_DIRECTORY");
    char path[4096], whole[4096];
    if (!directory) return;
    snprintf(path, sizeof path, "%s/%ld.new", directory, (long) getpid());
    snprintf(whole, sizeof whole, "%s/%ld.counts", directory, (long) getpid());
    int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0 || ftruncate(file, sizeof(struct counts)) != 0) _exit(97);
    counts = mmap(NULL, sizeof(struct counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    /* Another rank may end the job at any moment: a file with this name has its full length. */
    if (counts == MAP_FAILED || rename(path, whole) != 0) _exit(98);
    close(file);
}

#define ADD(what) __atomic_fetch_add(&counts->what, 1, __ATOMIC_RELAXED)

static int heard(int code, int function) {
    if (code == MPI_SUCCESS) ADD(good[function]);
    else ADD(bad[function]);
    return code;
}

/* For the program: the calls that the tool has seen. */
const unsigned long *tool_calls(void) { return counts->called; }
"#;

pub(crate) fn answers(id: FuncId) -> bool {
    id.function().returns_code()
}

pub(crate) fn source() -> String {
    let mut text = format!("#define _GNU_SOURCE\n#define COUNT {FUNCTION_COUNT}\n{BODY}");
    for id in FuncId::all() {
        let function = id.function();
        let given: Vec<&str> = function.arguments.iter().map(FunctionArgument::name).collect();
        let call = format!("P{id}({})", given.join(", "));
        let number = id.index();
        let rest = if answers(id) {
            format!("return heard({call}, {number});")
        } else {
            format!("ADD(good[{number}]); return {call};")
        };
        let params = function.list(FunctionArgument::declaration);
        let result = function.result;
        let _ = writeln!(text, "{result} {id}({params}) {{ ADD(called[{number}]); {rest} }}");
    }
    text
}

/// A header that counts the calls in the program's own text. Its counts must equal those of the
/// tool.
pub(crate) fn own_calls() -> String {
    let mut text = format!("static unsigned long own_calls[{FUNCTION_COUNT}];\n");
    for id in FuncId::all() {
        let _ =
            writeln!(text, "#define {id}(...) (++own_calls[{}], {id}(__VA_ARGS__))", id.index());
    }
    let names: Vec<String> = FuncId::all().map(|id| format!("\"{id}\"")).collect();
    let _ = writeln!(text, "static const char *const function_names[] = {{{}}};", names.join(", "));
    text
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) called: u64,
    pub(crate) good: u64,
    pub(crate) bad: u64,
}

pub(crate) fn counted(directory: &Path) -> Vec<Counts> {
    let mut all = vec![Counts::default(); FUNCTION_COUNT];
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "counts") {
            continue;
        }
        let bytes = std::fs::read(path).unwrap();
        let words: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_ne_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(words.len(), 3 * FUNCTION_COUNT);
        for (at, sum) in all.iter_mut().enumerate() {
            let word = |kind: usize| words[kind * FUNCTION_COUNT + at];
            sum.called += word(0);
            sum.good += word(1);
            sum.bad += word(2);
        }
    }
    all
}
