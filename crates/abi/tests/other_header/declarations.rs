//! The declarations of a header in a normal form, without names of parameters, spaces and order.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The declarations of names with `MPI_` or `PMPI_`, each as a text in normal form.
pub(crate) type Declarations = BTreeMap<String, String>;

/// Keywords of C types. Every other word is a name.
const TYPE_WORDS: [&str; 8] =
    ["char", "double", "int", "long", "short", "signed", "unsigned", "void"];

/// Reads the functions, types and constants of a header by the C preprocessor. Panics for a wrong
/// header.
pub(crate) fn declarations(header: &Path) -> Declarations {
    let preprocess = |options: &[&str]| {
        let mut command = Command::new("cc");
        // The inline functions for Fortran handles are not part of the interface.
        let output = command
            .args(["-E", "-DOXMPI_MPI_ABI_STRICT"])
            .args(options)
            .arg(header)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "cc cannot read {}: {said}", header.display());
        String::from_utf8(output.stdout).unwrap()
    };
    let mut found = declared(&preprocess(&["-P"]));
    for (name, value) in defined(&preprocess(&["-dM"])) {
        assert!(found.insert(name.clone(), value).is_none(), "{name} is declared and defined");
    }
    found
}

/// Whether a name belongs to the interface: extensions (`MPIX_`) and the header's own names do not.
fn is_of_interface(name: &str) -> bool {
    ["MPI_", "PMPI_"].iter().any(|prefix| name.starts_with(prefix)) && name != "MPI_H_ABI"
}

fn declared(text: &str) -> Declarations {
    let mut found = Declarations::new();
    let mut aliases = BTreeMap::new();
    for declaration in split(text, ';', ['{', '}']) {
        let words = words(declaration);
        let mut note = |name: &str, is: String| {
            if is_of_interface(name) {
                assert!(found.insert(name.to_owned(), is).is_none(), "{name} is declared twice");
            }
        };
        match &words[..] {
            [] => {}
            ["enum", .., "}"] => enumerators(&words, &mut note),
            ["typedef", "enum", .., name] => {
                enumerators(&words, &mut note);
                note(name, "enum".to_owned());
            }
            ["typedef", "struct", middle @ .., name] if middle.contains(&"}") => {
                let open = middle.iter().position(|word| *word == "{").unwrap();
                note(name, format!("struct {}", middle[open..].join(" ")));
            }
            ["typedef", middle @ .., name] if *name != ")" => {
                let is = middle.join(" ");
                note(name, is.clone());
                aliases.insert(name.to_string(), is);
            }
            ["typedef", words @ ..] | words => {
                let Some((name, function)) = function(words) else { continue };
                note(name, function);
            }
        }
    }
    // A name for another type is replaced by that type.
    for is in found.values_mut() {
        while let Some(other) = aliases.get(is.as_str()).filter(|_| is_of_interface(is)) {
            is.clone_from(other);
        }
    }
    found
}

fn enumerators(words: &[&str], note: &mut impl FnMut(&str, String)) {
    let (open, close) = (
        words.iter().position(|word| *word == "{").unwrap(),
        words.iter().position(|word| *word == "}").unwrap(),
    );
    let mut next = 0;
    for enumerator in
        words[open + 1..close].split(|word| *word == ",").filter(|one| !one.is_empty())
    {
        if let [_, "=", value @ ..] = enumerator {
            next =
                integer(&value.concat()).unwrap_or_else(|| panic!("{enumerator:?} has no number"));
        }
        note(enumerator[0], format!("int {next}"));
        next += 1;
    }
}

/// The name of a function or a function type, `int MPI_X(...)` or `int (MPI_X)(...)`, and the types
/// of its result and parameters.
fn function<'a>(words: &[&'a str]) -> Option<(&'a str, String)> {
    let open = words.iter().position(|word| *word == "(")?;
    let (result, name, params) = match words[open..] {
        ["(", name, ")", "(", ..] => (&words[..open], name, &words[open + 4..]),
        _ => (&words[..open - 1], words[open - 1], &words[open + 1..]),
    };
    if !is_of_interface(name) {
        return None;
    }
    let close = params.len() - 1;
    assert_eq!(params[close], ")", "the declaration of {name} does not end with its parameters");
    let params: Vec<String> = split_words(&params[..close]).map(parameter).collect();
    let result =
        result.iter().copied().filter(|word| *word != "extern").collect::<Vec<_>>().join(" ");
    Some((name, format!("{result} ({})", params.join(", "))))
}

/// The parameters, separated by commas outside of parentheses.
fn split_words<'a, 'w>(words: &'a [&'w str]) -> impl Iterator<Item = &'a [&'w str]> {
    let mut depth = 0;
    words.split(move |word| {
        depth += i32::from(*word == "(") - i32::from(*word == ")");
        *word == "," && depth == 0
    })
}

/// The type of a parameter: an array is a pointer, and `const` of a value is dropped.
fn parameter(words: &[&str]) -> String {
    let mut base: Vec<&str> = Vec::new();
    let (mut is_constant, mut stars, mut lengths) = (false, 0, Vec::new());
    for word in words {
        match *word {
            "const" if stars == 0 => is_constant = true,
            "*" => stars += 1,
            "[" => lengths.push(String::new()),
            "(" | ")" | "]" => {}
            word => match lengths.last_mut() {
                Some(length) => length.push_str(word),
                // The name of the parameter follows the type.
                None if base.is_empty() || TYPE_WORDS.contains(&word) => base.push(word),
                None => {}
            },
        }
    }
    // `int ranges[][3]` and `int (*ranges)[3]` point to rows of three.
    let is_pointer_to_rows = words.contains(&"(");
    if !is_pointer_to_rows && !lengths.is_empty() {
        lengths.remove(0);
        stars += 1;
    }
    let constant = if is_constant && stars > 0 { "const " } else { "" };
    let rows: String = lengths.iter().map(|length| format!("[{length}]")).collect();
    format!("{constant}{}{}{rows}", base.join(" "), " *".repeat(stars))
}

fn defined(text: &str) -> Declarations {
    let definitions =
        text.lines().filter_map(|line| line.strip_prefix("#define ")?.split_once(' '));
    let definitions: BTreeMap<&str, &str> = definitions
        .map(|(name, value)| (name, value.trim()))
        .filter(|(name, _)| is_of_interface(name))
        .collect();
    let value_of = |name: &str| {
        let mut value = definitions.get(name)?;
        while let Some(other) = definitions.get(value) {
            value = other;
        }
        Some(constant(value))
    };
    definitions.keys().filter_map(|name| Some((name.to_string(), value_of(name)?))).collect()
}

/// The type and the value of `((TYPE) NUMBER)`, with any number of parentheses.
fn constant(text: &str) -> String {
    let mut words = words(text);
    while let ["(", inner @ .., ")"] = &words[..] {
        words = inner.to_vec();
    }
    let (kind, number) = match &words[..] {
        ["(", kind @ .., ")", number] => (kind.join(" "), (*number).to_owned()),
        ["(", kind @ .., ")", "-", number] => (kind.join(" "), format!("-{number}")),
        number => ("int".to_owned(), number.concat()),
    };
    let number = integer(&number).map_or(number, |number| number.to_string());
    format!("{kind} {number}")
}

fn integer(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let number = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(digits) => i64::from_str_radix(digits, 16),
        None => digits.parse(),
    };
    Some(sign * number.ok()?)
}

/// Identifiers and numbers as words, and other characters one by one; `...` is one word.
fn words(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        let length = match first {
            '.' => rest.find(|c| c != '.').unwrap_or(rest.len()),
            c if is_word(c) => rest.find(|c| !is_word(c)).unwrap_or(rest.len()),
            c => c.len_utf8(),
        };
        let (word, others) = rest.split_at(length);
        words.push(word);
        rest = others.trim_start();
    }
    words
}

/// The parts of a text between marks outside of braces.
fn split(text: &str, mark: char, [open, close]: [char; 2]) -> impl Iterator<Item = &str> {
    let mut depth = 0;
    text.split(move |c| {
        depth += i32::from(c == open) - i32::from(c == close);
        c == mark && depth == 0
    })
}
