//! "Did you mean": the known word nearest to an unknown one.

/// The word of `known` that `word` probably misspells: at most a third of its letters differ
/// (insertions, deletions, replacements, swaps of neighbours).
///
/// ```
/// use oxmpi_param::nearest::nearest;
/// assert_eq!(nearest("--tag-ouptut", ["--tag-output", "--timeout"]), Some("--tag-output"));
/// assert_eq!(nearest("--colour", ["--tag-output", "--timeout"]), None);
/// ```
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    nearest_within(word, known, (word.chars().count() / 3).max(1))
}

/// The nearest word of `known` with at most `limit` different letters.
pub fn nearest_within<'a>(
    word: &str,
    known: impl IntoIterator<Item = &'a str>,
    limit: usize,
) -> Option<&'a str> {
    known
        .into_iter()
        // Cheap filter: the distance is at least the difference of the lengths.
        .filter(|candidate| word.chars().count().abs_diff(candidate.chars().count()) <= limit)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(d, _)| *d <= limit)
        .min_by_key(|(d, _)| *d)
        .map(|(_, candidate)| candidate)
}

/// The edit distance with swaps of neighbours ("optimal string alignment").
fn distance(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.chars().collect();
    let b: Vec<char> = b.chars().collect();
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let differs = usize::from(a[i - 1] != b[j - 1]);
            let mut best = (last[j] + 1).min(row[j - 1] + 1).min(last[j - 1] + differs);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_of_known_pairs() {
        for (a, b, d) in [
            ("", "", 0),
            ("abc", "", 3),
            ("abc", "abc", 0),
            ("abc", "acb", 1),
            ("kitten", "sitting", 3),
        ] {
            assert_eq!(distance(a, b), d, "{a} {b}");
            assert_eq!(distance(b, a), d, "{b} {a}");
        }
    }

    #[test]
    fn a_far_word_is_no_suggestion() {
        assert_eq!(nearest("x", ["single_copy"]), None);
        assert_eq!(nearest("singlecopy", ["single_copy", "wait_yields"]), Some("single_copy"));
    }
}
