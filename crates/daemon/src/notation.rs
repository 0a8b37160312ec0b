//! The notation for nodes and processors of a universe: `n0-3,5`, `c1`, `h`, `o`, `N`, `C`.
//!
//! | word | meaning |
//! |---|---|
//! | `N` | each node, once |
//! | `C` | each processor |
//! | `n1,3-4` | these nodes, once each |
//! | `c0,2-5` | these processors, numbered across all nodes |
//! | `h` | the node on which the command runs |
//! | `o` | the node on which `oxmpi boot` ran |
//!
//! `N`, `C` and the numbers of processors leave out nodes with `schedule=no`.

use super::Node;

/// The node, and possibly the processor, of one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessLocation {
    pub node: usize,
    /// The number of the processor on the node, if the word names one.
    pub cpu: Option<u32>,
}

/// Why a word does not name nodes or processors.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotationError {
    #[error("'{0}' names no nodes (n0-3,5), processors (c0-3,5), nor is it N, C, h or o")]
    Syntax(String),
    #[error("'{word}': there is no node n{number}; the last one is n{}", size - 1)]
    NoNode { word: String, number: u32, size: usize },
    #[error("'{word}': there is no processor c{number}; there are {size}, numbered from c0")]
    NoCpu { word: String, number: u32, size: usize },
    #[error("'{0}': all nodes have schedule=no; name them (n0)")]
    NoneScheduled(String),
}

/// Whether a word is in the notation, rather than a program.
pub fn is_notation(word: &str) -> bool {
    matches!(word, "N" | "C" | "h" | "o")
        || split(word).is_some_and(|(_, numbers)| ranges(numbers).is_some())
}

/// The nodes or processors that a word names, in its order. `own` is the number of the node on
/// which the command runs. An error if they do not exist.
pub fn places(
    word: &str,
    nodes: &[Node],
    own: usize,
) -> Result<Vec<ProcessLocation>, NotationError> {
    let scheduled = || nodes.iter().enumerate().filter(|(_, node)| node.is_scheduled);
    let whole = |node: usize| ProcessLocation { node, cpu: None };
    let all_cpus = || -> Vec<ProcessLocation> {
        let of = |(node, it): (usize, &Node)| {
            (0..it.cpus).map(move |cpu| ProcessLocation { node, cpu: Some(cpu) })
        };
        scheduled().flat_map(of).collect()
    };
    let some = |places: Vec<ProcessLocation>| match places.is_empty() {
        true => Err(NotationError::NoneScheduled(word.into())),
        false => Ok(places),
    };
    match word {
        "N" => return some(scheduled().map(|(node, _)| whole(node)).collect()),
        "C" => return some(all_cpus()),
        "h" => return Ok(vec![whole(own)]),
        "o" => {
            return Ok(nodes
                .iter()
                .position(|node| node.is_origin)
                .map(whole)
                .into_iter()
                .collect());
        }
        _ => {}
    }
    let wrong = || NotationError::Syntax(word.into());
    let (kind, numbers) = split(word).ok_or_else(wrong)?;
    let ranges = ranges(numbers).ok_or_else(wrong)?;
    let there = if kind == 'n' { (0..nodes.len()).map(whole).collect() } else { all_cpus() };
    let mut found = Vec::new();
    for (first, last) in ranges {
        for number in first..=last {
            let (word, size) = (word.to_string(), there.len());
            let missing = match kind {
                'n' => NotationError::NoNode { word, number, size },
                _ => NotationError::NoCpu { word, number, size },
            };
            found.push(*there.get(number as usize).ok_or(missing)?);
        }
    }
    Ok(found)
}

fn split(word: &str) -> Option<(char, &str)> {
    let kind = word.chars().next().filter(|kind| matches!(kind, 'n' | 'c'))?;
    Some((kind, &word[1..]))
}

fn ranges(text: &str) -> Option<Vec<(u32, u32)>> {
    let range = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |digits: &str| {
            digits.bytes().all(|b| b.is_ascii_digit()).then(|| digits.parse().ok())?
        };
        let (first, last) = (number(first)?, number(last)?);
        (first <= last).then_some((first, last))
    };
    text.split(',').map(range).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes() -> Vec<Node> {
        let node = |cpus, is_scheduled, is_origin| Node {
            name: "x".into(),
            cpus,
            is_scheduled,
            is_origin,
            addresses: vec![],
        };
        vec![node(2, true, false), node(4, false, true), node(1, true, false)]
    }

    #[test]
    fn words_mean_nodes_and_processors() {
        let of = |word: &str| {
            let places = places(word, &nodes(), 2).unwrap();
            places.iter().map(|place| (place.node, place.cpu)).collect::<Vec<_>>()
        };
        assert_eq!(of("N"), [(0, None), (2, None)]);
        assert_eq!(of("C"), [(0, Some(0)), (0, Some(1)), (2, Some(0))]);
        assert_eq!(of("n2,0-1"), [(2, None), (0, None), (1, None)]);
        assert_eq!(of("c1-2"), [(0, Some(1)), (2, Some(0))]);
        assert_eq!((of("h"), of("o")), (vec![(2, None)], vec![(1, None)]));
    }

    #[test]
    fn missing_nodes_and_processors_are_named() {
        let of = |word: &str| places(word, &nodes(), 0).unwrap_err().to_string();
        assert_eq!(of("n1-3"), "'n1-3': there is no node n3; the last one is n2");
        assert_eq!(
            of("c0-4000000000"),
            "'c0-4000000000': there is no processor c3; there are 3, numbered from c0"
        );
        for word in ["n", "n3-1", "nx", "n+1", "x1", "", "c1,", "n-1"] {
            assert!(of(word).contains("names no nodes"), "{word}");
            assert!(!is_notation(word), "{word}");
        }
        assert!(
            is_notation("n0") && is_notation("c0-3,7") && is_notation("N") && !is_notation("nproc")
        );
    }
}
