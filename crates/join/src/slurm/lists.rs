//! The notations of Slurm's variables for lists.

use super::{MOST_NODES, MOST_TASKS};

/// Why a text is no such list, as a noun: "a list with an open bracket".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ListError(pub &'static str);

const BRACKET: ListError = ListError("a list with an unmatched bracket");
const RANGE: ListError = ListError("a list with a malformed range");
const LONG: ListError = ListError("a list of too many entries");
const EMPTY: ListError = ListError("a list with an empty entry");
const COUNT: ListError = ListError("a list with a malformed number");
const ALIAS: ListError = ListError("a list with an entry without an address");

/// The names in a list of hosts: `tux[1-3,07-09],rack[0-1]n[1-2],login`.
///
/// Names are separated by commas. A name contains any number of brackets with numbers and ranges,
/// each of which stands for all its numbers; of several brackets the last one varies fastest. A
/// number has the width of the first number of its range, with zeros in front.
pub fn hosts(list: &str) -> Result<Vec<String>, ListError> {
    let mut all = Vec::new();
    for entry in split(list)? {
        expand(entry, &mut all)?;
    }
    Ok(all)
}

/// Splits at the commas outside of brackets.
fn split(list: &str) -> Result<Vec<&str>, ListError> {
    let (mut entries, mut start, mut is_inside) = (Vec::new(), 0, false);
    for (at, byte) in list.bytes().enumerate() {
        match byte {
            b'[' if !is_inside => is_inside = true,
            b']' if is_inside => is_inside = false,
            b'[' | b']' => return Err(BRACKET),
            b',' if !is_inside => {
                entries.push(&list[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if is_inside {
        return Err(BRACKET);
    }
    entries.push(&list[start..]);
    Ok(entries)
}

/// Appends the names that one entry stands for.
fn expand(entry: &str, all: &mut Vec<String>) -> Result<(), ListError> {
    let mut names = vec![String::new()];
    let mut rest = entry;
    while let Some((text, bracket)) = rest.split_once('[') {
        let (inside, after) = bracket.split_once(']').ok_or(BRACKET)?;
        let numbers = numbers(inside)?;
        if names.len().saturating_mul(numbers.len()) > MOST_NODES {
            return Err(LONG);
        }
        names = names
            .iter()
            .flat_map(|name| numbers.iter().map(move |number| format!("{name}{text}{number}")))
            .collect();
        rest = after;
    }
    if entry.is_empty() {
        return Err(EMPTY);
    }
    if all.len() + names.len() > MOST_NODES {
        return Err(LONG);
    }
    all.extend(names.into_iter().map(|name| name + rest));
    Ok(())
}

/// The numbers in a bracket, with zeros in front: `1-3,07`.
fn numbers(inside: &str) -> Result<Vec<String>, ListError> {
    let mut all = Vec::new();
    for range in inside.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let width = low.len();
        let (low, high) = (number(low).ok_or(RANGE)?, number(high).ok_or(RANGE)?);
        if low > high {
            return Err(RANGE);
        }
        if high - low >= (MOST_NODES - all.len()) as u64 {
            return Err(LONG);
        }
        all.extend((low..=high).map(|number| format!("{number:0width$}")));
    }
    Ok(all)
}

/// A number of digits only: `parse` would accept a sign.
fn number(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The numbers of tasks of the nodes: `2(x3),1` is 2, 2, 2, 1.
pub fn counts(list: &str) -> Result<Vec<u32>, ListError> {
    let mut all = Vec::new();
    for entry in list.split(',') {
        let (count, times) = match entry.split_once("(x") {
            Some((count, times)) => (count, times.strip_suffix(')').ok_or(COUNT)?),
            None => (entry, "1"),
        };
        let (count, times) = (number(count).ok_or(COUNT)?, number(times).ok_or(COUNT)?);
        let count = u32::try_from(count).map_err(|_| COUNT)?;
        if count as usize > MOST_TASKS || times == 0 {
            return Err(COUNT);
        }
        if times > (MOST_NODES - all.len()) as u64 {
            return Err(LONG);
        }
        all.extend((0..times).map(|_| count));
    }
    Ok(all)
}

/// The ports in a list: `12000-12003,12010`. Some versions of Slurm set brackets around it.
pub fn ports(list: &str) -> Result<Vec<u16>, ListError> {
    let list = list.strip_prefix('[').and_then(|list| list.strip_suffix(']')).unwrap_or(list);
    let port = |text: &str| {
        let port = number(text).and_then(|port| u16::try_from(port).ok());
        port.filter(|port| *port > 0).ok_or(RANGE)
    };
    let mut all = Vec::new();
    for range in list.split(',') {
        let (low, high) = range.split_once('-').unwrap_or((range, range));
        let (low, high) = (port(low)?, port(high)?);
        if low > high {
            return Err(RANGE);
        }
        if all.len() + usize::from(high - low) >= MOST_NODES {
            return Err(LONG);
        }
        all.extend(low..=high);
    }
    Ok(all)
}

/// The names and addresses in SLURM_NODE_ALIASES: `ec0:10.0.0.7:host7,ec1:[fd00::7]:host8`.
pub fn addresses(list: &str) -> Result<Vec<(String, String)>, ListError> {
    let mut all = Vec::new();
    // Slurm gives this word if its own nodes can resolve the names.
    if list == "(null)" || list == "TEST" {
        return Ok(all);
    }
    for entry in list.split(',') {
        let (name, rest) = entry.split_once(':').ok_or(ALIAS)?;
        let address = match rest.strip_prefix('[') {
            Some(rest) => rest.split_once(']').ok_or(ALIAS)?.0,
            None => rest.split(':').next().unwrap_or(rest),
        };
        if name.is_empty() || address.is_empty() {
            return Err(ALIAS);
        }
        all.push((name.to_string(), address.to_string()));
    }
    Ok(all)
}
