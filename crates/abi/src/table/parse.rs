//! Reads a chapter of the table.

use super::{Argument, Chapter, FunctionEntry, Intent, Kind, Length, Place};

/// A mistake: the number of the line, and the reason.
type Result<T> = std::result::Result<T, String>;

/// Reads the text of a chapter. The error begins with the number of the line.
pub fn parse_chapter(file: &'static str, text: &'static str) -> Result<Chapter> {
    let mut chapter = Chapter { file, title: "", entries: Vec::new() };
    for item in items(text) {
        item.read(&mut chapter).map_err(|reason| format!("{}: {reason}", item.line))?;
    }
    let arguments = chapter.entries.iter_mut().filter(|entry| entry.name.starts_with("MPI_T_"));
    arguments.flat_map(|entry| &mut entry.arguments).for_each(Argument::of_a_tool);
    Ok(chapter)
}

/// A line with the lines that continue it.
struct TableItem {
    /// From 1.
    line: usize,
    indent: usize,
    first: &'static str,
    more: Vec<&'static str>,
}

fn items(text: &'static str) -> Vec<TableItem> {
    let mut items: Vec<TableItem> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        let first = line.trim_start();
        let indent = line.len() - first.len();
        match items.last_mut() {
            _ if line.starts_with('#') => {}
            Some(last) if first.is_empty() || indent > 4 => last.more.push(line.trim_end()),
            _ if first.is_empty() => {}
            _ => items.push(TableItem {
                line: at + 1,
                indent,
                first: first.trim_end(),
                more: vec![],
            }),
        }
    }
    items
}

impl TableItem {
    fn read(&self, chapter: &mut Chapter) -> Result<()> {
        let (word, rest) = self.first.split_once(' ').unwrap_or((self.first, ""));
        let rest = rest.trim_start();
        if self.indent == 0 {
            return match (word, rest) {
                ("chapter", title) => {
                    chapter.title = title;
                    Ok(())
                }
                (name, "") if name.starts_with("MPI") => {
                    chapter.entries.push(FunctionEntry::new(name));
                    Ok(())
                }
                _ => Err(format!("'{}' is no name of a function", self.first)),
            };
        }
        let entry = chapter.entries.last_mut().ok_or("no function stands above this line")?;
        match word {
            "does" => entry.does = self.text(rest),
            "section" => entry.section = rest,
            "returns" => (entry.result, entry.is_value) = (rest, true),
            "forms" => entry.forms = self.list(rest),
            "is" => entry.is = self.list(rest),
            "note" => entry.notes.push(self.text(rest)),
            "see" => entry.see = self.list(rest),
            "example" => entry.example = self.code(),
            "error" => {
                let (class, _) = rest.split_once(':').ok_or("expected a class, a colon, a text")?;
                let text = self.text(&rest[class.len() + 1..]);
                entry.errors.push((class, text));
            }
            "in" => entry.arguments.push(self.argument(Intent::In, rest)?),
            "out" => entry.arguments.push(self.argument(Intent::Out, rest)?),
            "inout" => entry.arguments.push(self.argument(Intent::InOut, rest)?),
            _ => return Err(format!("'{word}' begins no line of an entry")),
        }
        Ok(())
    }

    /// The text of all lines, in one.
    fn text(&self, first: &str) -> String {
        let more = self.more.iter().map(|line| line.trim()).filter(|line| !line.is_empty());
        std::iter::once(first.trim()).chain(more).collect::<Vec<_>>().join(" ")
    }

    /// The names in all lines.
    fn list(&self, first: &'static str) -> Vec<&'static str> {
        std::iter::once(first).chain(self.more.iter().copied()).flat_map(list).collect()
    }

    /// The lines after the first one, without the indentation of the first of them.
    fn code(&self) -> Vec<&'static str> {
        let indent = self.more.iter().find(|line| !line.is_empty());
        let indent = indent.map_or(0, |line| line.len() - line.trim_start().len());
        let mut lines: Vec<_> =
            self.more.iter().map(|line| line.get(indent..).unwrap_or("")).collect();
        while lines.last().is_some_and(|line| line.is_empty()) {
            lines.pop();
        }
        lines
    }

    fn argument(&self, intent: Intent, text: &'static str) -> Result<Argument> {
        // The table lives as long as the process.
        let text: &'static str = String::leak(self.text(text));
        let (facts, about) = match text.split_once(": ") {
            Some((facts, about)) => (facts, Some(about.to_owned())),
            None => (text, None),
        };
        let (name, facts) = facts.split_once(' ').ok_or("expected a name and a kind")?;
        let mut facts = facts.trim();
        let mut declaration = None;
        if let Some((before, after)) = facts.split_once(" c \"") {
            let (text, rest) = after.split_once('"').ok_or("the declaration has no end")?;
            if !rest.trim().is_empty() {
                return Err(format!("'{rest}' after the declaration"));
            }
            declaration = Some(text);
            facts = before.trim();
        }
        let (facts, at) = match facts.split_once(" at ") {
            None => (facts, Place::Everywhere),
            Some((facts, "root")) => (facts, Place::Root),
            Some((facts, "leader")) => (facts, Place::Leader),
            Some((_, place)) => return Err(format!("'at {place}' is no place")),
        };
        let (facts, class) = match facts.split_once(" class ") {
            Some((facts, class)) => (facts, Some(class.trim())),
            None => (facts, None),
        };
        let mut parts = facts.split('|').map(str::trim);
        let kind = parts.next().unwrap_or("");
        let or = parts.collect();
        let (kind, length) = bracketed(kind, '[', ']')?;
        let (kind, of) = bracketed(kind, '(', ')')?;
        let kind = Kind::find(kind).ok_or_else(|| format!("'{kind}' is no kind"))?;
        Ok(Argument {
            intent,
            name,
            kind,
            of: of.map(list).unwrap_or_default(),
            length: length.map(self::length).transpose()?,
            or,
            class: class.unwrap_or(kind.class),
            at,
            declaration,
            about,
        })
    }
}

impl Argument {
    /// The tool interface has error classes of its own.
    fn of_a_tool(&mut self) {
        self.class = match (self.kind.word, self.class) {
            (_, class) if class.is_empty() || class.starts_with("MPI_T_") => class,
            ("index", _) => "MPI_T_ERR_INVALID_INDEX",
            _ => "MPI_T_ERR_INVALID",
        };
    }
}

impl FunctionEntry {
    fn new(name: &'static str) -> FunctionEntry {
        FunctionEntry {
            name,
            does: String::new(),
            section: "",
            result: "int",
            is_value: false,
            forms: Vec::new(),
            is: Vec::new(),
            arguments: Vec::new(),
            notes: Vec::new(),
            errors: Vec::new(),
            example: Vec::new(),
            see: Vec::new(),
        }
    }
}

fn list(text: &'static str) -> Vec<&'static str> {
    text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect()
}

/// Splits `kind[length]`.
fn bracketed(
    text: &'static str,
    open: char,
    close: char,
) -> Result<(&'static str, Option<&'static str>)> {
    let Some((before, inside)) = text.split_once(open) else { return Ok((text, None)) };
    match inside.strip_suffix(close) {
        Some(inside) => Ok((before.trim(), Some(inside))),
        None => Err(format!("'{text}' has no closing '{close}'")),
    }
}

fn length(text: &'static str) -> Result<Length> {
    Ok(match text {
        "ranks" => Length::Ranks,
        "sources" => Length::Sources,
        "destinations" => Length::Destinations,
        "dimensions" => Length::Dimensions,
        "null" => Length::Null,
        _ if text.starts_with("MPI_") => Length::Constant(text),
        _ => match text.split_once(' ') {
            Some(("sum", array)) => Length::Sum(array),
            Some(("last", array)) => Length::Last(array),
            Some(_) => return Err(format!("'{text}' is no length")),
            None => Length::Argument(text),
        },
    })
}
