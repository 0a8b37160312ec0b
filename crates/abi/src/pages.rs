//! The manual page of each entry of the table.

use std::collections::BTreeMap;
use std::fmt::Write;

use crate::manual::{ManualPage, marked_up};
use crate::table::{
    Argument, Chapter, Function, FunctionArgument, FunctionEntry, FunctionForm, Intent, Place,
    chapters,
};

/// The longest line of a synopsis.
const COLUMNS: usize = 78;

const HEAD: &str = "\
# Functions

`cargo xtask docs` writes this page from the table of functions (`crates/abi/functions`); do not
edit it. `crates/abi/src/table/mod.rs` describes the format of the table. Each function has a manual
page: `man MPI_Send`, or `oxmpi man MPI_Send`.

Arguments have their kind in italics; → is a result, ↔ is read and changed. The tests are the
programs of `tests/c` that call the function; besides, `tests/c/coverage` calls each one.
";

/// The tests that the page of the documents names for each entry.
const SHOWN_TESTS: usize = 3;

/// The page of an entry, for section 3 of the manual. All functions of the entry are on it.
pub fn page(entry: &'static FunctionEntry) -> ManualPage {
    let functions = entry.functions();
    let names: Vec<String> = functions.iter().map(|function| function.name.clone()).collect();
    let mut page = ManualPage::new(names, "3", summary(entry));
    page.heading("SYNOPSIS");
    page.literal(&synopsis(&functions));
    page.heading("DESCRIPTION");
    page.text(&entry.does);
    entry.notes.iter().for_each(|note| page.text(note));
    forms(&mut page, &functions);
    let mut arguments: Vec<&FunctionArgument> = Vec::new();
    for argument in functions.iter().flat_map(|function| &function.arguments) {
        if arguments.iter().all(|known| known.name() != argument.name()) {
            arguments.push(argument);
        }
    }
    if !arguments.is_empty() {
        page.heading("ARGUMENTS");
    }
    for argument in arguments {
        let argument = &argument.argument;
        page.entry(argument.name, direction(argument), &about(argument));
    }
    errors(&mut page, entry, &functions[0]);
    if !entry.example.is_empty() {
        page.heading("EXAMPLE");
        page.literal(&entry.example.join("\n"));
    }
    page.heading("STANDARD");
    page.text(&standard(entry));
    let others: Vec<_> = entry.see.iter().map(|name| (*name, "3")).collect();
    if !others.is_empty() {
        page.see_also(&others);
    }
    page
}

/// The first sentence, without its stop.
fn summary(entry: &'static FunctionEntry) -> &'static str {
    let text = entry.does.as_str();
    text.split_once(". ").map_or(text.trim_end_matches('.'), |(first, _)| first)
}

fn synopsis(functions: &[Function]) -> String {
    let header = if functions[0].is_extension() { "mpi-ext.h" } else { "mpi.h" };
    let mut text = format!("#include <{header}>\n");
    for function in functions {
        text.push('\n');
        let start = format!("{} {}(", function.result, function.name);
        let indent = " ".repeat(start.len().min(24));
        let mut line = start;
        let list = function.list(FunctionArgument::declaration);
        for (at, part) in list.split(", ").enumerate() {
            let (gap, end) = (if at > 0 { ", " } else { "" }, line.len() + part.len() + 4);
            if at > 0 && end > COLUMNS {
                let _ = writeln!(text, "{line},");
                line = format!("{indent}{part}");
            } else {
                let _ = write!(line, "{gap}{part}");
            }
        }
        let _ = write!(text, "{line});");
    }
    text
}

fn forms(page: &mut ManualPage, functions: &[Function]) {
    let names = |wanted: &dyn Fn(&Function) -> bool| -> String {
        let names: Vec<_> = functions
            .iter()
            .filter(|function| wanted(function))
            .map(|function| function.name.clone())
            .collect();
        joined(&names, "and")
    };
    let is_small =
        |form: FunctionForm| move |function: &Function| function.form == form && !function.large;
    let nonblocking = names(&is_small(FunctionForm::Nonblocking));
    if !nonblocking.is_empty() {
        page.text(&format!(
            "{nonblocking} starts the operation and returns a request. MPI_Wait or MPI_Test \
             completes the request. Until then the program must not change the memory that the \
             operation reads, and must not access the memory that the operation writes."
        ));
    }
    let persistent = names(&is_small(FunctionForm::Persistent));
    if !persistent.is_empty() {
        page.text(&format!(
            "{persistent} makes a persistent request for the operation. MPI_Start starts the \
             operation each time, and MPI_Request_free frees the request."
        ));
    }
    let request = names(&is_small(FunctionForm::Request));
    if !request.is_empty() {
        page.text(&format!(
            "{request} returns a request, whose completion says that the operation is complete at \
             the origin."
        ));
    }
    let large =
        names(&|function: &Function| function.large && function.form == FunctionForm::Plain);
    if !large.is_empty() {
        page.text(&format!(
            "The functions with the ending _c, such as {large}, have the same effect and take \
             numbers of a larger type."
        ));
    }
}

fn direction(argument: &Argument) -> &'static str {
    match argument.intent {
        Intent::In => "(in)",
        Intent::Out => "(out)",
        Intent::InOut => "(in and out)",
    }
}

fn about(argument: &Argument) -> String {
    let mut text = argument.about.clone().unwrap_or_else(|| argument.kind.about.to_owned());
    if ["one", "mask"].contains(&argument.kind.word) && !argument.of.is_empty() {
        let _ = write!(text, ": {}", joined(&argument.of, "or"));
    }
    text.push('.');
    let special: Vec<&str> =
        argument.or.iter().copied().filter(|special| *special != "null").collect();
    if !special.is_empty() {
        let verb = if argument.intent == Intent::Out { "returned" } else { "allowed" };
        // Of these, the program passes the address.
        let is_place = argument.kind.is_memory() || argument.length.is_some();
        let verb = if is_place || argument.kind.word == "status" { "allowed" } else { verb };
        let be = if special.len() == 1 { "is" } else { "are" };
        let _ = write!(text, " {} {be} {verb}.", joined(&special, "and"));
    }
    if argument.or.contains(&"null") {
        text += " A null pointer is allowed.";
    }
    match argument.at {
        Place::Everywhere => {}
        Place::Root => text += " Significant only at the root.",
        Place::Leader => text += " Significant only at the leader of the local group.",
    }
    text
}

/// The error classes: those of the arguments, and those of the entry.
fn errors(page: &mut ManualPage, entry: &'static FunctionEntry, plain: &Function) {
    if !plain.returns_code() {
        return;
    }
    let mut reasons: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for argument in entry.arguments.iter().filter(|argument| can_be_wrong(argument)) {
        let reason = match argument.kind.word {
            "count" | "number" | "bytes" | "large" => format!("{} is negative", argument.name),
            "rank" | "root" => format!("{} is no rank of the group", argument.name),
            "tag" => format!("{} is out of range", argument.name),
            _ if argument.kind.is_handle() => {
                format!("{} is no valid {}", argument.name, noun(argument))
            }
            // The entry says more about these.
            _ if entry.errors.iter().any(|(class, _)| *class == argument.class) => continue,
            _ if argument.kind.is_memory() && !argument.or.is_empty() => continue,
            _ if argument.kind.is_memory() => format!("{} is a null pointer", argument.name),
            _ => format!("{} is no such value", argument.name),
        };
        reasons.entry(argument.class).or_default().push(reason);
    }
    for (class, reason) in &entry.errors {
        reasons.entry(class).or_default().push(reason.clone());
    }
    page.heading("ERRORS");
    page.text(&handler(entry));
    for (class, reasons) in reasons {
        page.entry(class, "", &format!("{}.", reasons.join("; ")));
    }
}

/// Whether the class of the kind says how the argument can be wrong.
fn can_be_wrong(argument: &Argument) -> bool {
    !argument.class.is_empty()
        && argument.intent != Intent::Out
        && (argument.intent == Intent::In || argument.kind.is_handle())
}

fn noun(argument: &Argument) -> String {
    argument
        .kind
        .about
        .split(" with")
        .next()
        .unwrap_or("")
        .to_lowercase()
        .replace("datatype of each element", "datatype")
}

fn handler(entry: &FunctionEntry) -> String {
    if entry.name.starts_with("MPI_T_") {
        return "Returns MPI_SUCCESS or an error code. No error handler is called.".to_owned();
    }
    let object = |argument: &&Argument| {
        ["comm", "win", "file", "session"].contains(&argument.kind.word)
            && argument.intent != Intent::Out
            && argument.length.is_none()
    };
    match entry.arguments.iter().find(object) {
        Some(argument) if argument.kind.word == "file" => format!(
            "Returns MPI_SUCCESS or an error code. Before an error is returned, the error handler \
             of {} is called: MPI_ERRORS_RETURN, unless the program sets another one.",
            argument.name
        ),
        Some(argument) => format!(
            "Returns MPI_SUCCESS or an error code. Before an error is returned, the error handler \
             of {} is called, which ends the job unless the program sets another one.",
            argument.name
        ),
        None => "Returns MPI_SUCCESS or an error code. Before an error is returned, an error \
                 handler is called, which ends the job unless the program sets another one."
            .to_owned(),
    }
}

fn standard(entry: &FunctionEntry) -> String {
    let mut text = match entry.section.starts_with(|first: char| first.is_ascii_digit()) {
        true => format!("MPI-5.0, section {}.", entry.section),
        false => format!("Beyond MPI-5.0 ({}).", entry.section),
    };
    for (property, sentence) in [
        ("collective", " The call is collective: all processes of the group make it."),
        ("blocking", " The call may wait for other processes."),
        ("early", " The call is allowed before MPI_Init and after MPI_Finalize."),
        ("deprecated", " The function is deprecated."),
    ] {
        if entry.is.contains(&property) {
            text += sentence;
        }
    }
    text
}

fn joined<T: AsRef<str>>(names: &[T], word: &str) -> String {
    match names {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [all @ .., last] => {
            let all: Vec<_> = all.iter().map(AsRef::as_ref).collect();
            format!("{} {word} {}", all.join(", "), last.as_ref())
        }
    }
}

/// The chapter that has a function.
fn chapter_of(name: &str) -> Option<&'static Chapter> {
    let has = |entry: &'static FunctionEntry| {
        entry.name == name || entry.functions().iter().any(|function| function.name == name)
    };
    chapters().iter().find(|chapter| chapter.entries.iter().any(has))
}

/// A chapter as an HTML document.
pub fn html(chapter: &'static Chapter) -> String {
    let mut text = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>{0}</title>\n\
         <body style=\"max-width: 50em; margin: auto; font-family: sans-serif\">\n<h1>{0}</h1>\n",
        marked_up(chapter.title)
    );
    for entry in &chapter.entries {
        let file = |name: &str| chapter_of(name).map_or("", |chapter| chapter.file).to_owned();
        text += &page(entry).html(file);
    }
    text + "</body>\n</html>\n"
}

/// The table as a page of the documents: each entry with its forms and arguments, and the tests
/// that call one of its functions.
pub fn markdown(tests: impl Fn(&Function) -> Vec<String>) -> String {
    let mut text = String::from(HEAD);
    for chapter in chapters() {
        let _ = write!(
            text,
            "\n## {}\n\n| function | effect | arguments | section | tests |\n|---|---|---|---|---|\n",
            chapter.title
        );
        for entry in &chapter.entries {
            let functions = entry.functions();
            let names: Vec<_> = functions.iter().map(|function| function.name.clone()).collect();
            let arguments: Vec<_> = entry.arguments.iter().map(one_argument).collect();
            let mut calling: Vec<_> = functions.iter().flat_map(&tests).collect();
            calling.sort();
            calling.dedup();
            let more = calling.len().saturating_sub(SHOWN_TESTS);
            calling.truncate(SHOWN_TESTS);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let _ = writeln!(
                text,
                "| {} | {}. | {} | {} | {}{more} |",
                names.join(", "),
                summary(entry),
                arguments.join(", "),
                entry.section,
                calling.join(", ")
            );
        }
    }
    text
}

fn one_argument(argument: &Argument) -> String {
    let arrow = match argument.intent {
        Intent::In => "",
        Intent::Out => "→ ",
        Intent::InOut => "↔ ",
    };
    let array = if argument.length.is_some() { "[]" } else { "" };
    format!("{arrow}{} *{}{array}*", argument.name, argument.kind.word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(name: &str) -> &'static FunctionEntry {
        chapters().iter().flat_map(|chapter| &chapter.entries).find(|e| e.name == name).unwrap()
    }

    #[test]
    fn a_page_has_the_facts_of_the_table() {
        let text = page(find("MPI_Recv")).roff();
        for part in [
            ".TH MPI_RECV 3 ",
            "MPI_Recv, MPI_Recv_c, MPI_Irecv, MPI_Irecv_c, MPI_Recv_init, MPI_Recv_init_c \\- ",
            "#include <mpi.h>\n\nint MPI_Recv(void *buf, int count, MPI_Datatype datatype,",
            "\\fBcount\\fR \\fI(in)\\fR\n",
            "MPI_ANY_SOURCE and MPI_PROC_NULL are allowed.",
            "\\fBMPI_ERR_TRUNCATE\\fR\n",
            "count is negative",
            "MPI\\-5.0, section 3.2.4.",
        ] {
            assert!(text.contains(part), "{part}:\n{text}");
        }
    }

    #[test]
    fn every_page_is_complete() {
        for entry in chapters().iter().flat_map(|chapter| &chapter.entries) {
            let text = page(entry).roff();
            for heading in ["SYNOPSIS", "DESCRIPTION", "STANDARD"] {
                assert!(text.contains(&format!(".SH {heading}\n")), "{}: {heading}", entry.name);
            }
            for line in text.lines() {
                assert!(
                    !line.starts_with('.') || line.starts_with(".S") || line.len() < 90,
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn html_links_lead_to_anchors() {
        let all: BTreeMap<_, _> =
            chapters().iter().map(|chapter| (chapter.file, html(chapter))).collect();
        for text in all.values() {
            for link in text.split("href=\"").skip(1) {
                let (file, rest) = link.split_once(".html#").unwrap();
                let name = rest.split('"').next().unwrap();
                assert!(all[file].contains(&format!("id=\"{name}\"")), "{file} {name}");
            }
        }
    }
}
