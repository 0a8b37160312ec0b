//! Programs composed of snippets.
//!
//! A file `tests/c/coverage/NAME.snippets` begins with lines of directives (`// ranks: 2`, `//
//! init: none`) and declarations in C for all its snippets. Each snippet is a line `== NAME` and
//! the body of a C function. Snippets are expanded:
//!
//! - `== NAME W=a,b`: once for each value, which replaces `$W` in the body;
//! - a body with `MPI_X@`: once without the `@`, and once with `_c` in its place. `$count`, `$disp`
//!   and `$aint` are int, int and MPI_Aint in the first, MPI_Count, MPI_Aint and MPI_Count in the
//!   second;
//! - a line `collective NAME@ ARGUMENTS`: as MPI_NAME, as MPI_Iname with MPI_Wait, and as
//!   MPI_NAME_init with MPI_Start, MPI_Wait and MPI_Request_free.

use std::collections::BTreeSet;
use std::fmt::Write as _;

#[derive(Debug)]
pub(crate) struct SnippetFile {
    pub(crate) name: String,
    pub(crate) ranks: Vec<u32>,
    pub(crate) initializes: bool,
    prologue: String,
    pub(crate) snippets: Vec<Snippet>,
}

#[derive(Debug)]
pub(crate) struct Snippet {
    pub(crate) name: String,
    body: String,
    line: usize,
}

impl SnippetFile {
    /// A mistake in the file is a panic, which is a failure of the test.
    pub(crate) fn parse(name: &str, text: &str) -> SnippetFile {
        let ranks = directive(text, "// ranks:").expect("a first line '// ranks: 1 2'");
        let ranks = ranks.split_whitespace().map(|n| n.parse().unwrap()).collect();
        let initializes = directive(text, "// init:").is_none_or(|how| how.trim() != "none");
        let mut source = SnippetFile {
            name: name.to_owned(),
            ranks,
            initializes,
            prologue: format!("#line 1 \"{name}.snippets\"\n"),
            snippets: Vec::new(),
        };
        let mut current: Option<(String, String, usize)> = None;
        for (at, line) in text.lines().enumerate() {
            if let Some(header) = line.strip_prefix("== ") {
                source.take(current.take());
                current = Some((header.to_owned(), String::new(), at + 2));
            } else {
                let body = current.as_mut().map_or(&mut source.prologue, |(_, body, _)| body);
                body.push_str(line);
                body.push('\n');
            }
        }
        source.take(current);
        source
    }

    fn take(&mut self, snippet: Option<(String, String, usize)>) {
        let Some((header, body, line)) = snippet else { return };
        let mut words = header.split_whitespace();
        let name = words.next().expect("a name behind '=='").to_owned();
        let mut variants = vec![(name, body)];
        for word in words {
            let (variable, values) = word.split_once('=').expect("VARIABLE=value,value");
            variants = variants
                .iter()
                .flat_map(|(name, body)| {
                    values.split(',').map(move |value| {
                        (format!("{name}_{value}"), body.replace(&format!("${variable}"), value))
                    })
                })
                .collect();
        }
        for (name, body) in variants {
            for (name, body) in collective_forms(&name, &body) {
                for (name, body) in count_forms(&name, &body) {
                    let name = name.replace(|c: char| !c.is_ascii_alphanumeric(), "_");
                    self.snippets.push(Snippet { name, body, line });
                }
            }
        }
    }

    pub(crate) fn program(&self) -> String {
        let mut text = format!("#include \"coverage.h\"\n{}", self.prologue);
        for snippet in &self.snippets {
            let _ = write!(
                text,
                "static void s_{}(void)\n{{\n#line {} \"{}.snippets\"\n{}}}\n",
                snippet.name, snippet.line, self.name, snippet.body
            );
        }
        text.push_str("int main(int argc, char **argv)\n{\n    coverage_begin(&argc, &argv);\n");
        if self.initializes {
            text.push_str(
                "    if (MPI_Init(&argc, &argv) != MPI_SUCCESS) return 9;\n    coverage_start();\n",
            );
        }
        for snippet in &self.snippets {
            let _ = writeln!(text, "    snippet = \"{0}\";\n    s_{0}();", snippet.name);
            if self.initializes {
                text.push_str("    PMPI_Barrier(MPI_COMM_WORLD);\n");
            }
        }
        if self.initializes {
            text.push_str("    MPI_Finalize();\n");
        }
        text.push_str("    return coverage_end();\n}\n");
        text
    }

    /// The functions in the declarations for all snippets.
    pub(crate) fn shared_names(&self) -> BTreeSet<&str> {
        named_in(&self.prologue).collect()
    }
}

impl Snippet {
    pub(crate) fn names(&self) -> BTreeSet<&str> {
        named_in(&self.body).collect()
    }
}

fn named_in(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .filter(|word| word.starts_with("MPI_"))
}

fn directive<'a>(text: &'a str, what: &str) -> Option<&'a str> {
    text.lines().take_while(|line| line.starts_with("//")).find_map(|line| line.strip_prefix(what))
}

/// A body with `collective` lines, as a blocking, a nonblocking and a persistent call.
fn collective_forms(name: &str, body: &str) -> Vec<(String, String)> {
    if !body.lines().any(|line| line.trim_start().starts_with("collective ")) {
        return vec![(name.to_owned(), body.to_owned())];
    }
    let expanded = |way: fn(&str, &str) -> String| {
        body.lines()
            .map(|line| match line.trim_start().strip_prefix("collective ") {
                None => format!("{line}\n"),
                Some(rest) => {
                    let (function, arguments) =
                        rest.split_once(' ').expect("collective NAME ARGUMENTS");
                    format!("{}\n", way(function, arguments.trim()))
                }
            })
            .collect::<String>()
    };
    let blocking = |function: &str, arguments: &str| format!("OK(MPI_{function}({arguments}));");
    let nonblocking = |function: &str, arguments: &str| {
        let (first, rest) = function.split_at(1);
        format!(
            "OK(MPI_I{}{rest}({arguments}, &request)); OK(MPI_Wait(&request, MPI_STATUS_IGNORE));",
            first.to_lowercase()
        )
    };
    let persistent = |function: &str, arguments: &str| {
        let (plain, form) = function.strip_suffix('@').map_or((function, ""), |plain| (plain, "@"));
        format!(
            "OK(MPI_{plain}_init{form}({arguments}, MPI_INFO_NULL, &request)); OK(MPI_Start(&request)); \
             OK(MPI_Wait(&request, MPI_STATUS_IGNORE)); OK(MPI_Request_free(&request));"
        )
    };
    vec![
        (name.to_owned(), expanded(blocking)),
        (format!("i{name}"), expanded(nonblocking)),
        (format!("{name}_init"), expanded(persistent)),
    ]
}

fn count_forms(name: &str, body: &str) -> Vec<(String, String)> {
    if !body.contains('@') {
        return vec![(name.to_owned(), body.to_owned())];
    }
    let form = |suffix: &str, [count, disp, aint]: [&str; 3]| {
        let body = body.replace('@', suffix).replace("$count", count);
        (format!("{name}{suffix}"), body.replace("$disp", disp).replace("$aint", aint))
    };
    vec![form("", ["int", "int", "MPI_Aint"]), form("_c", ["MPI_Count", "MPI_Aint", "MPI_Count"])]
}

#[test]
fn snippets_are_expanded() {
    let text = "// ranks: 1 2\nstatic int shared;\n== plain\nOK(MPI_Barrier(MPI_COMM_SELF));\n== move OP=Put,Get\n\
                $count n = 1; OK(MPI_$OP@(n));\n== reduce\n  collective Reduce@ a, b\n";
    let source = SnippetFile::parse("some", text);
    assert_eq!(source.ranks, [1, 2]);
    let names: Vec<_> = source.snippets.iter().map(|snippet| snippet.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "plain",
            "move_Put",
            "move_Put_c",
            "move_Get",
            "move_Get_c",
            "reduce",
            "reduce_c",
            "ireduce",
            "ireduce_c",
            "reduce_init",
            "reduce_init_c"
        ]
    );
    let program = source.program();
    for part in [
        "static int shared;",
        "MPI_Count n = 1; OK(MPI_Get_c(n));",
        "OK(MPI_Reduce_c(a, b));",
        "OK(MPI_Ireduce(a, b, &request)); OK(MPI_Wait(",
        "OK(MPI_Reduce_init_c(a, b, MPI_INFO_NULL, &request)); OK(MPI_Start(",
        "snippet = \"plain\";\n    s_plain();",
    ] {
        assert!(program.contains(part), "{part}:\n{program}");
    }
    assert!(source.snippets[1].names().contains("MPI_Put"));
}
