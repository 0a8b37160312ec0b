//! Each of the 664 functions is called, with success and with each argument wrong.
//!
//! The programs are composed of the snippets in `tests/c/coverage` (module `compose`). A second set
//! of programs has wrong calls before the good ones, made from the table of functions (module
//! `wrong`). They run under a tool of the profiling interface, made from the same table (module
//! `tool`), which counts the results of each call. A function of the library must have succeeded,
//! and must have failed if it can fail.
//! The programs count their calls too: the tool must see
//! each call once, and no call that the library makes itself.
//!
//! `cargo xtask test` makes the installation and names it in OXMPI_TEST_PREFIX.

mod compose;
mod tool;
mod wrong;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::{TestDirectory, installed, root};
use compose::SnippetFile;
use oxmpi_abi::FuncId;
use tool::Counts;
use wrong::{Exceptions, WrongCalls};

struct ToolDirectory(TestDirectory);

impl ToolDirectory {
    fn new(name: &str) -> ToolDirectory {
        let directory = ToolDirectory(TestDirectory::new(name));
        std::fs::create_dir_all(directory.0.join("counts")).unwrap();
        directory.0.write("own_calls.h", &tool::own_calls());
        let tool = directory.0.write("tool.c", &tool::source());
        directory.compile(&tool, &["-shared", "-fPIC"], "tool.so");
        directory
    }

    fn compile(&self, source: &Path, flags: &[&str], name: &str) -> PathBuf {
        let to = self.0.join(name);
        let mut command = Command::new(installed("mpicc"));
        command.args(["-O0", "-g", "-Wno-unused"]).args(flags).arg("-I").arg(&self.0);
        command.arg("-I").arg(root().join("tests/c/coverage")).arg("-o").arg(&to).arg(source);
        let output = command.output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && errors.is_empty(), "{}: {errors}", source.display());
        to
    }

    fn run(&self, ranks: u32, program: &Path, arguments: &[&str]) -> Output {
        let assignment = |name: &str, value: PathBuf| format!("{name}={}", value.display());
        Command::new(installed("mpirun"))
            .args([
                "-n",
                &ranks.to_string(),
                "--timeout",
                "60",
                "--mca",
                "mpi_initial_errhandler",
                "mpi_errors_return",
            ])
            .args(["-x", &assignment("LD_PRELOAD", self.0.join("tool.so"))])
            .args(["-x", &assignment("TOOL_DIRECTORY", self.0.join("counts"))])
            .arg(program)
            .args(arguments)
            .current_dir(&self.0)
            .output()
            .unwrap()
    }
}

#[derive(Default)]
struct Shown {
    counts: Vec<Counts>,
    failures: Vec<String>,
}

impl Shown {
    /// Runs the program with the text of the snippets.
    fn run(&mut self, directory: &ToolDirectory, source: &SnippetFile, text: &str) {
        let text = directory.0.write(&format!("{}.c", source.name), text);
        let program = directory.compile(&text, &[], &source.name);
        for &ranks in &source.ranks {
            let output = directory.run(ranks, &program, &[]);
            let out = String::from_utf8_lossy(&output.stdout);
            if !output.status.success() {
                let errors = String::from_utf8_lossy(&output.stderr);
                let failed: Vec<_> =
                    out.lines().filter(|line| line.starts_with("FAILED")).collect();
                self.failures.push(format!(
                    "{} on {ranks} ranks: {}\n{}\n{errors}",
                    source.name,
                    output.status,
                    failed.join("\n")
                ));
            }
        }
    }

    fn end(&self) {
        assert!(self.failures.is_empty(), "{}", self.failures.join("\n"));
    }
}

/// MPI_Abort does not return: the call is right if the job ends with its code.
fn abort(directory: &ToolDirectory, shown: &mut Shown) {
    let source = directory.0.write(
        "abort.c",
        "#include <mpi.h>\nint main(void) { MPI_Init(0, 0); MPI_Abort(MPI_COMM_WORLD, 42); return 0; }\n",
    );
    let output = directory.run(2, &directory.compile(&source, &[], "abort"), &[]);
    if output.status.code() != Some(42) {
        shown.failures.push(format!("abort: {}, not exit code 42", output.status));
    }
}

fn snippet_files() -> Vec<SnippetFile> {
    let data = root().join("tests/c/coverage");
    let mut files: Vec<_> =
        std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "snippets"));
    let parse = |path: &PathBuf| {
        let name = path.file_stem().unwrap().to_str().unwrap();
        SnippetFile::parse(name, &std::fs::read_to_string(path).unwrap())
    };
    files.iter().map(parse).collect()
}

#[test]
fn every_function_succeeds() {
    let directory = ToolDirectory::new("coverage");
    let mut shown = Shown::default();
    let mut named = BTreeSet::from([FuncId::MPI_Abort]);
    for source in snippet_files() {
        let names =
            source.snippets.iter().flat_map(compose::Snippet::names).chain(source.shared_names());
        named.extend(names.filter_map(FuncId::from_name));
        shown.run(&directory, &source, &source.program());
    }
    abort(&directory, &mut shown);
    shown.counts = tool::counted(&directory.0.join("counts"));
    let omissions = omissions(&shown, &named);
    shown.failures.extend(omissions);
    shown.end();
}

#[test]
fn every_wrong_argument_is_an_error() {
    let directory = ToolDirectory::new("coverage-wrong");
    let mut shown = Shown::default();
    let exceptions = std::fs::read_to_string(root().join("tests/c/coverage/wrong.txt")).unwrap();
    let mut calls = WrongCalls::new(Exceptions::parse(&exceptions));
    let mut files = snippet_files();
    // Before MPI_Init there are no objects for wrong calls.
    files.sort_by_key(|source| !source.initializes);
    for source in files {
        let text = calls.inserted(&source.program());
        shown.run(&directory, &source, &text);
    }
    let counts = tool::counted(&directory.0.join("counts"));
    for id in FuncId::all().filter(|id| calls.must_fail(*id)) {
        if counts[usize::from(id.index())].bad == 0 {
            shown.failures.push(format!("{id} never failed"));
        }
    }
    println!("{} wrong calls of {} functions", calls.count, calls.found.len());
    shown.failures.extend(calls.failures());
    shown.end();
}

#[test]
fn a_call_that_the_program_does_not_count_is_found() {
    let directory = ToolDirectory::new("coverage-hidden");
    // Parentheses keep the counting macro from this call, like a call of the library.
    let source =
        SnippetFile::parse("hidden", "// ranks: 1\n== hidden\n(MPI_Barrier)(MPI_COMM_WORLD);\n");
    let mut shown = Shown::default();
    shown.run(&directory, &source, &source.program());
    assert_eq!(shown.failures.len(), 1);
    let expected = "MPI_Barrier was called 0 times, the tool saw 1 calls";
    assert!(shown.failures[0].contains(expected), "{}", shown.failures[0]);
}

/// What the programs leave out.
fn omissions(shown: &Shown, named: &BTreeSet<FuncId>) -> Vec<String> {
    let mut failures = Vec::new();
    for id in FuncId::all() {
        let counts = shown.counts[usize::from(id.index())];
        let good = if id == FuncId::MPI_Abort { counts.called } else { counts.good };
        if !named.contains(&id) {
            failures.push(format!("no file in tests/c/coverage names {id}"));
        } else if good == 0 {
            failures.push(format!("{id} never succeeded"));
        }
    }
    failures
}
