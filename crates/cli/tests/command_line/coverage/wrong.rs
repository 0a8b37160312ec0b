//! Calls with one wrong argument, made from the table of functions.
//!
//! The first good call `OK(MPI_X(...))` of each function in the text of a program is the template:
//! before it go copies of the call, each with one argument that the table names as wrong. The
//! macros and objects of these calls are in `tests/c/coverage/wrong.h`. `wrong.txt` has the
//! arguments whose wrong values are not passed, with the reasons.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use oxmpi_abi::FuncId;
use oxmpi_abi::table::{Function, FunctionArgument, Intent, Length, Place};

/// The lines of `wrong.txt`: `FUNCTION ARGUMENT reason`, or `FUNCTION * reason`; `#` begins a
/// remark. The plain function stands for all its forms. The value says whether a call needs the
/// line.
pub(crate) struct Exceptions(BTreeMap<(FuncId, &'static str), bool>);

impl Exceptions {
    pub(crate) fn parse(text: &str) -> Exceptions {
        let mut all = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let mut words = line.split_whitespace();
            let (function, argument) = (words.next().unwrap(), words.next().unwrap_or(""));
            assert!(words.next().is_some(), "wrong.txt: '{line}' has no reason");
            let id = FuncId::from_name(function)
                .unwrap_or_else(|| panic!("wrong.txt: no function {function}"));
            let argument = match id.function().argument(argument) {
                Some(argument) => argument.name(),
                None if argument == "*" => "*",
                None => panic!("wrong.txt: {function} has no argument {argument}"),
            };
            assert!(all.insert((id, argument), false).is_none(), "wrong.txt: '{line}' twice");
        }
        Exceptions(all)
    }

    fn has(&mut self, id: FuncId, argument: &'static str) -> bool {
        let plain = FuncId::from_name(id.function().entry.name);
        let lines = plain.into_iter().chain([id]).map(|id| (id, argument));
        lines.filter_map(|line| self.0.get_mut(&line).map(|is_needed| *is_needed = true)).count()
            > 0
    }

    /// The lines that no call would need.
    fn unneeded(&self) -> Vec<String> {
        let lines = self.0.iter().filter(|(_, is_needed)| !**is_needed);
        lines
            .map(|((id, argument), _)| format!("wrong.txt needs no line {id} {argument}"))
            .collect()
    }
}

/// What the wrong calls of all programs have in common.
pub(crate) struct WrongCalls {
    exceptions: Exceptions,
    /// Functions with a template.
    pub(crate) found: BTreeSet<FuncId>,
    /// How many wrong calls the programs have.
    pub(crate) count: usize,
}

impl WrongCalls {
    pub(crate) fn new(exceptions: Exceptions) -> WrongCalls {
        WrongCalls { exceptions, found: BTreeSet::new(), count: 0 }
    }

    /// The text of a program with wrong calls.
    pub(crate) fn inserted(&mut self, program: &str) -> String {
        let mut text = String::new();
        let mut rest = program;
        while let Some((before, call, after)) = good_call(rest) {
            text += before;
            let new = call.id().filter(|id| self.found.insert(*id));
            match new.map(|id| self.wrong_calls(id.function(), &call)) {
                Some(wrong) if !wrong.is_empty() => {
                    let _ = write!(
                        text,
                        "do {{ static int was_here; if (!was_here++) {{ {wrong}}} OK({}); }} while (0)",
                        call.text
                    );
                }
                _ => {
                    let _ = write!(text, "OK({})", call.text);
                }
            }
            rest = after;
        }
        (text + rest)
            .replace("#include \"coverage.h\"", "#include \"coverage.h\"\n#include \"wrong.h\"")
            .replace("coverage_start();", "coverage_start(); make_objects();")
            .replace("return coverage_end();", "wrong_calls_end(); return coverage_end();")
    }

    /// What the table and the programs miss.
    pub(crate) fn failures(&mut self) -> Vec<String> {
        let mut failures = Vec::new();
        for id in FuncId::all().chain(FuncId::extensions()) {
            let function = id.function();
            let is_possible = function.returns_code() && !function.arguments.is_empty();
            if is_possible && !self.found.contains(&id) && !self.exceptions.has(id, "*") {
                failures.push(format!("no snippet has OK({id}(...)) for its wrong calls"));
            }
        }
        failures.extend(self.exceptions.unneeded());
        failures
    }

    /// Whether some call of the function must fail.
    pub(crate) fn must_fail(&mut self, id: FuncId) -> bool {
        id.function().returns_code() && !self.exceptions.has(id, "*")
    }

    fn wrong_calls(&mut self, function: &'static Function, call: &Call) -> String {
        let id = FuncId::from_name(&function.name).unwrap();
        let mut text = String::new();
        for (at, argument) in function.arguments.iter().enumerate() {
            let values = wrong_values(function, at, &call.arguments);
            if values.is_empty() || self.exceptions.has(id, argument.name()) {
                continue;
            }
            // Only the root reads these: with other processes the call would be right for some.
            if argument.argument.at == Place::Root {
                text += "if (size == 1) { ";
            }
            for wrong in values {
                let mut given = call.arguments.clone();
                given[at] = wrong.text;
                let name = match function.name.starts_with("MPI_T_") {
                    true => "NULL".to_owned(),
                    false => format!("{:?}", argument.name()),
                };
                let _ = write!(
                    text,
                    "WRONG({}({}), {}, {name}, {}); ",
                    function.name,
                    given.join(", "),
                    wrong.class,
                    wrong.number.as_deref().unwrap_or("NO_NUMBER")
                );
                self.count += 1;
            }
            if argument.argument.at == Place::Root {
                text += "} ";
            }
        }
        if text.is_empty() { text } else { format!("{}{text}", watches(function, call)) }
    }
}

/// Statements that remember the results and the error handler before the wrong calls.
fn watches(function: &Function, call: &Call) -> String {
    let mut text = "watched = 0; ".to_owned();
    for (argument, given) in function.arguments.iter().zip(&call.arguments) {
        let is_place = argument.argument.intent != Intent::In && !argument.by_value();
        if is_place && !given.starts_with("MPI_") && given != "NULL" {
            let _ = write!(text, "WATCH({given}); ");
        }
        // By default, errors of a window end the job.
        if argument.argument.kind.word == "win" && argument.by_value() {
            let _ = write!(text, "PMPI_Win_set_errhandler({given}, MPI_ERRORS_RETURN); ");
        }
    }
    text
}

/// A call in the text of a program.
struct Call {
    text: String,
    arguments: Vec<String>,
}

impl Call {
    fn id(&self) -> Option<FuncId> {
        FuncId::from_name(self.text.split_once('(')?.0)
    }
}

/// The first `OK(MPI_X(...))`, with the text before and after it.
fn good_call(text: &str) -> Option<(&str, Call, &str)> {
    for (at, _) in text.match_indices("OK(MPI") {
        let is_word = text[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
        let Some((ends, commas)) = (!is_word).then(|| nested(&text[at + 2..])).flatten() else {
            continue;
        };
        let call = &text[at + 3..at + 2 + ends];
        let (name, _) = call.split_once('(')?;
        let inner = &call[name.len()..];
        // In `OK(MPI_X(a) + b)` the call ends before the macro's argument does.
        if !commas.is_empty() || nested(inner).is_none_or(|(end, _)| end + 1 != inner.len()) {
            continue;
        }
        let (end, commas) = nested(inner)?;
        let mut arguments = Vec::new();
        let mut from = 1;
        for to in commas.into_iter().chain([end]) {
            arguments.push(inner[from..to].trim().to_owned());
            from = to + 1;
        }
        arguments.retain(|argument| !argument.is_empty());
        let call = Call { text: call.to_owned(), arguments };
        return Some((&text[..at], call, &text[at + 3 + ends..]));
    }
    None
}

/// For a text that begins with a parenthesis: where it closes, and the commas directly inside.
fn nested(text: &str) -> Option<(usize, Vec<usize>)> {
    let (mut depth, mut in_string, mut commas) = (0, false, Vec::new());
    for (at, c) in text.char_indices() {
        match c {
            '"' => in_string = !in_string,
            _ if in_string => {}
            '(' | '{' | '[' => depth += 1,
            ')' | '}' | ']' if depth == 1 => return Some((at, commas)),
            ')' | '}' | ']' => depth -= 1,
            ',' if depth == 1 => commas.push(at),
            _ => {}
        }
    }
    None
}

#[derive(Debug)]
struct Wrong {
    text: String,
    class: &'static str,
    /// The number that the message must have.
    number: Option<String>,
}

/// The wrong values of an argument of a call.
fn wrong_values(function: &'static Function, at: usize, good: &[String]) -> Vec<Wrong> {
    let argument = &function.arguments[at];
    let facts = &argument.argument;
    let mut wrong = Vec::new();
    if !argument.by_value() || facts.kind.word == "callback" {
        let is_buffer = ["buffer", "blocks", "memory", "element"].contains(&facts.kind.word);
        let class = match () {
            () if function.name.starts_with("MPI_T_") => "MPI_T_ERR_INVALID",
            () if is_buffer || facts.kind.word == "callback" => facts.class,
            () => "MPI_ERR_ARG",
        };
        if !may_be_null(function, argument, good) {
            wrong.push(Wrong { text: "NULL".to_owned(), class, number: None });
        }
        let is_block = ["buffer", "blocks"].contains(&facts.kind.word);
        if is_block && !facts.or.contains(&"MPI_IN_PLACE") {
            wrong.push(Wrong { text: "MPI_IN_PLACE".to_owned(), class, number: None });
        }
        if is_buffer || facts.kind.word == "callback" || facts.intent == Intent::Out {
            return wrong;
        }
    }
    let is_address = facts.kind.is_memory() || facts.kind.word == "status";
    if facts.class.is_empty() || argument.brackets == "[][3]" || is_address {
        return wrong;
    }
    for (value, number) in wrong_scalars(function, at, good) {
        let text = match (argument.by_value(), argument.brackets) {
            (true, _) => value.clone(),
            (_, "[]") => format!("({}[64]) {{{value}}}", argument.base),
            _ => format!("&({}) {{{value}}}", argument.base),
        };
        let number = number.then(|| value.clone());
        wrong.push(Wrong { text, class: facts.class, number });
    }
    wrong
}

fn may_be_null(function: &Function, argument: &FunctionArgument, good: &[String]) -> bool {
    let facts = &argument.argument;
    let is_null = |special: &&str| match facts.kind.word {
        _ if *special == "null" => true,
        "callback" | "strings" => special.contains("NULL"),
        _ => special.ends_with("_IGNORE"),
    };
    let length = match &facts.length {
        Some(Length::Argument(name)) => Some(*name),
        _ => facts.of.iter().rev().nth(1).copied(),
    };
    let place = |name| function.arguments.iter().position(|other| other.name() == name);
    let is_empty = length.and_then(place).is_some_and(|at| good[at] == "0");
    let any = ["place", "state"].contains(&facts.kind.word)
        || facts.kind.word == "attribute" && facts.intent == Intent::In;
    any || is_empty || facts.or.iter().any(is_null)
}

/// Wrong values of one entry, and whether the message has the value as a number.
fn wrong_scalars(function: &Function, at: usize, good: &[String]) -> Vec<(String, bool)> {
    let facts = &function.arguments[at].argument;
    let word = facts.kind.word;
    let is_allowed = |value: &str| facts.or.contains(&value);
    let numbers =
        |values: &[&str]| values.iter().map(|value| ((*value).to_owned(), true)).collect();
    let mut all: Vec<(String, bool)> = match word {
        "rank" | "root" => [beyond(function, at, good), Some("-77".to_owned())]
            .into_iter()
            .flatten()
            .map(|value| (value, true))
            .collect(),
        "tag" => numbers(&["-77"]),
        "index" => numbers(&["-1", "1000003"]),
        "code" => numbers(&["-77", "1000003"]),
        "one" => numbers(&["1000003"]),
        "mask" => vec![("1 << 30".to_owned(), false)],
        "keyval" => ["MPI_KEYVAL_INVALID", "freed_objects.keyval"]
            .into_iter()
            .map(|value| (value.to_owned(), false))
            .collect(),
        _ if facts.kind.is_handle() => {
            let t = facts.kind.plain;
            let is_of_tool = t.starts_with("MPI_T_");
            let null = t.to_uppercase() + "_NULL";
            let null = if is_of_tool { format!("({t}) 0") } else { null };
            let mut all: Vec<_> = (!is_allowed(&null)).then_some(null).into_iter().collect();
            let (predefined, made) = match word {
                "datatype" => ("MPI_COMM_WORLD", "other_objects.group"),
                "group" => ("MPI_COMM_WORLD", "other_objects.datatype"),
                _ => ("MPI_INT", "other_objects.group"),
            };
            all.extend([format!("({t}) {predefined}"), format!("({t}) {made}")]);
            if !is_of_tool {
                all.push(format!("freed_objects.{word}"));
            }
            all.into_iter().map(|value| (value, false)).collect()
        }
        // -1 may be a special value.
        _ if facts.or.is_empty() => numbers(&["-1"]),
        _ => numbers(&["-77"]),
    };
    if ["_free", "_disconnect"].iter().any(|end| function.name.contains(end))
        && facts.intent == Intent::InOut
    {
        let predefined = match word {
            "comm" => "MPI_COMM_WORLD",
            "datatype" => "MPI_INT",
            "op" => "MPI_SUM",
            "info" => "MPI_INFO_ENV",
            "keyval" => "MPI_TAG_UB",
            _ => return all,
        };
        all.push((predefined.to_owned(), false));
    }
    all
}

/// The number of processes of the object that a rank belongs to: the nearest one before the rank,
/// or after it.
fn beyond(function: &Function, at: usize, good: &[String]) -> Option<String> {
    let is_object = |place: &usize| {
        let other = &function.arguments[*place];
        other.by_value() && ["comm", "win", "group"].contains(&other.argument.kind.word)
    };
    let object = (0..at).rev().find(is_object).or((at..good.len()).find(is_object))?;
    let kind = function.arguments[object].argument.kind.word;
    Some(format!("processes_of_{kind}({})", good[object]))
}

#[test]
fn wrong_calls_are_made_from_the_table() {
    let mut calls = WrongCalls::new(Exceptions::parse(
        "# remark\nMPI_Send tag it has a reason\nMPI_Comm_size comm it has another\n",
    ));
    let text = calls.inserted(
        "if (1) OK(MPI_Send(\"a,b\", f(1, 2), MPI_INT, 0, 1, comm)); BOOK(MPI_X());\nOK(f());",
    );
    for part in [
        "if (1) do { static int was_here; if (!was_here++) { watched = 0; WRONG(MPI_Send(NULL, f(1, 2), \
         MPI_INT, 0, 1, comm), MPI_ERR_BUFFER, \"buf\", NO_NUMBER); ",
        "WRONG(MPI_Send(\"a,b\", -1, MPI_INT, 0, 1, comm), MPI_ERR_COUNT, \"count\", -1);",
        "MPI_Send(\"a,b\", f(1, 2), MPI_DATATYPE_NULL, 0, 1, comm), MPI_ERR_TYPE, \"datatype\", NO_NUMBER);",
        "MPI_INT, processes_of_comm(comm), 1, comm), MPI_ERR_RANK, \"dest\", processes_of_comm(comm));",
        "0, 1, (MPI_Comm) MPI_INT), MPI_ERR_COMM",
        "0, 1, freed_objects.comm), MPI_ERR_COMM",
        "} OK(MPI_Send(\"a,b\", f(1, 2), MPI_INT, 0, 1, comm)); } while (0); BOOK(MPI_X());\nOK(f());",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert!(!text.contains("-77, comm"), "{text}");
    let text = calls.inserted("OK(MPI_Comm_free(&made));");
    for part in [
        "WATCH(&made);",
        "MPI_Comm_free(&(MPI_Comm) {MPI_COMM_WORLD}), MPI_ERR_COMM",
        "(NULL), MPI_ERR_ARG",
    ] {
        assert!(text.contains(part), "{part}:\n{text}");
    }
    assert_eq!(calls.inserted("OK(MPI_Comm_free(&made));"), "OK(MPI_Comm_free(&made));");
    let failures = calls.failures();
    assert!(failures.contains(&"wrong.txt needs no line MPI_Comm_size comm".to_owned()));
    assert!(
        failures.contains(&"no snippet has OK(MPI_Comm_size(...)) for its wrong calls".to_owned())
    );
}
