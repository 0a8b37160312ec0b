//! The table of functions agrees with itself and with the constants.

#![allow(clippy::unwrap_used)] // test code

use std::collections::BTreeSet;

use oxmpi_abi::constants::{ALIASES, CONSTANTS, ERROR_CLASSES};
use oxmpi_abi::extensions;
use oxmpi_abi::table::{Argument, Chapter, FunctionEntry, Length, chapters};

/// Constants that `constants` has in another form.
fn is_constant(name: &str) -> bool {
    CONSTANTS.iter().any(|constant| constant.name == name)
        || ALIASES.iter().any(|alias| alias.name == name)
}

fn is_class(name: &str) -> bool {
    ERROR_CLASSES.iter().chain(extensions::ERROR_CLASSES).any(|class| class.name == name)
        || is_constant(name)
}

struct Check {
    names: BTreeSet<String>,
    mistakes: Vec<String>,
}

impl Check {
    fn that(&mut self, good: bool, mistake: impl FnOnce() -> String) {
        if !good {
            self.mistakes.push(mistake());
        }
    }

    fn entry(&mut self, chapter: &Chapter, entry: &FunctionEntry) {
        let name = entry.name;
        self.that(!entry.does.is_empty(), || format!("{name} has no text"));
        self.that(entry.does.ends_with('.'), || format!("{name}: the text is no sentence"));
        self.that(!entry.section.is_empty(), || format!("{name} has no section"));
        for property in &entry.is {
            let known = ["blocking", "collective", "early", "deprecated", "unopened", "variadic"]
                .contains(property);
            self.that(known, || format!("{name}: '{property}' is no property"));
        }
        for form in &entry.forms {
            let known = ["large", "nonblocking", "persistent", "request"].contains(form);
            self.that(known, || format!("{name}: '{form}' is no form"));
        }
        for other in &entry.see {
            let known = self.names.contains(*other);
            self.that(known && *other != name, || format!("{name}: see '{other}'"));
        }
        for (class, reason) in &entry.errors {
            self.that(is_class(class), || format!("{name}: '{class}' is no error class"));
            self.that(!reason.is_empty(), || format!("{name}: {class} has no reason"));
        }
        for argument in &entry.arguments {
            self.argument(entry, argument);
        }
        let wide = |line: &&&str| line.len() > 76;
        let wide = entry.example.iter().filter(wide).count();
        self.that(wide == 0, || format!("{name}: the example has lines over 76 columns"));
        self.that(!chapter.title.is_empty(), || format!("{} has no title", chapter.file));
    }

    fn argument(&mut self, entry: &FunctionEntry, argument: &Argument) {
        let place = format!("{}, {}", entry.name, argument.name);
        for special in &argument.or {
            let known = is_constant(special) || *special == "null";
            self.that(known, || format!("{place}: '{special}' is no constant"));
        }
        let class = argument.class;
        self.that(class.is_empty() || is_class(class), || format!("{place}: class '{class}'"));
        let is_argument = |name: &str| entry.arguments.iter().any(|other| other.name == name);
        let names_arguments =
            ["buffer", "blocks", "memory", "element"].contains(&argument.kind.word);
        for name in &argument.of {
            let known = match argument.kind.word {
                _ if names_arguments => is_argument(name),
                "one" | "mask" => is_constant(name),
                _ => true,
            };
            self.that(known, || format!("{place}: '{name}' is unknown"));
        }
        self.that(!names_arguments || !argument.of.is_empty(), || format!("{place}: how long?"));
        let is_list = ["one", "mask"].contains(&argument.kind.word);
        self.that(!is_list || !argument.of.is_empty() || argument.about.is_some(), || {
            format!("{place}: which constants?")
        });
        match &argument.length {
            Some(Length::Constant(name)) => {
                self.that(is_constant(name), || format!("{place}: '{name}' is no constant"));
            }
            Some(length) => {
                let known = length.argument().is_none_or(is_argument);
                self.that(known, || format!("{place}: the length is no argument"));
            }
            None => {}
        }
    }
}

#[test]
fn the_table_agrees_with_itself() {
    let chapters = chapters();
    let entries = || chapters.iter().flat_map(|chapter| &chapter.entries);
    let mut check = Check { names: BTreeSet::new(), mistakes: Vec::new() };
    for function in entries().flat_map(FunctionEntry::functions) {
        if !check.names.insert(function.name.clone()) {
            check.mistakes.push(format!("{} stands twice", function.name));
        }
    }
    for chapter in chapters {
        for entry in &chapter.entries {
            check.entry(chapter, entry);
        }
    }
    assert!(check.mistakes.is_empty(), "\n{}", check.mistakes.join("\n"));
    let standard = check.names.iter().filter(|name| !name.starts_with("MPIX_")).count();
    assert_eq!(standard, oxmpi_abi::functions::FUNCTION_COUNT);
}
