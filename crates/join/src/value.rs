//! Bytes as texts for managers and launchers that take no bytes: pure.
//!
//! The bytes are written in 64 characters, six bits each. For PMI-1, whose values have a limited
//! length, the text is split into parts: the first part stands under the key itself and begins with
//! the number of parts and a point; part N stands under `KEY.N`.

const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// More parts than any value here has; the limit keeps a wrong number from reading for hours.
pub(crate) const MOST_PARTS: usize = 10_000;

/// The longest number of parts, and the point behind it.
const NUMBER_ROOM: usize = 6;

/// The shortest length of a part for which [`split`] has room.
pub(crate) const LEAST_ROOM: usize = 2 * NUMBER_ROOM;

/// The key under which a part stands.
pub(crate) fn part_key(key: &str, part: usize) -> String {
    if part == 0 { key.to_string() } else { format!("{key}.{part}") }
}

/// The parts of a value, each of at most `room` characters. `None`: the value is too long.
pub(crate) fn split(value: &[u8], room: usize) -> Option<Vec<String>> {
    let text = encoded(value);
    let room = room.checked_sub(NUMBER_ROOM).filter(|room| *room > 0)?;
    let mut parts: Vec<String> =
        text.as_bytes().chunks(room).map(|part| String::from_utf8_lossy(part).into()).collect();
    if parts.is_empty() {
        parts.push(String::new());
    }
    if parts.len() > MOST_PARTS {
        return None;
    }
    parts[0] = format!("{}.{}", parts.len(), parts[0]);
    Some(parts)
}

/// The number of parts, and the beginning of the text, of a first part. `None`: it is no value of
/// [`split`].
pub(crate) fn first_part(part: &str) -> Option<(usize, &str)> {
    let (number, text) = part.split_once('.')?;
    let number = number.parse().ok()?;
    (1..=MOST_PARTS).contains(&number).then_some((number, text))
}

/// Letters, digits, `-` and `_`.
pub(crate) fn encoded(value: &[u8]) -> String {
    let mut text = String::with_capacity(value.len().div_ceil(3) * 4);
    for three in value.chunks(3) {
        let byte = |place: usize| u32::from(three.get(place).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for place in 0..=three.len() {
            text.push(char::from(DIGITS[(bits >> (18 - 6 * place)) as usize & 63]));
        }
    }
    text
}

/// The bytes of [`encoded`]. `None`: another program has written the text.
pub(crate) fn decoded(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: &u8| DIGITS.iter().position(|digit| digit == byte);
    let mut value = Vec::with_capacity(text.len() / 4 * 3);
    for four in text.as_bytes().chunks(4) {
        let mut bits = 0;
        for byte in four {
            bits = bits << 6 | digit(byte)?;
        }
        bits <<= 6 * (4 - four.len());
        if four.len() == 1 || bits & ((1 << (8 * (4 - four.len()))) - 1) != 0 {
            return None;
        }
        value.extend((0..four.len() - 1).map(|place| (bits >> (16 - 8 * place)) as u8));
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn joined(parts: &[String]) -> Option<Vec<u8>> {
        let (number, first) = first_part(&parts[0])?;
        assert_eq!(number, parts.len());
        decoded(
            &[&[first], &parts[1..].iter().map(String::as_str).collect::<Vec<_>>()[..]]
                .concat()
                .concat(),
        )
    }

    #[test]
    fn values_are_split_into_parts() {
        assert_eq!(split(b"", 64).unwrap(), ["1."]);
        assert_eq!(split(b"card", 64).unwrap(), ["1.Y2FyZA"]);
        let parts = split(&[255; 100], 30).unwrap();
        assert_eq!((parts.len(), parts[0].as_str()), (6, "6.________________________"));
        assert_eq!(part_key("a", 0), "a");
        assert_eq!(part_key("a", 7), "a.7");
        assert_eq!(split(b"x", NUMBER_ROOM), None);
        assert_eq!(split(&vec![0; 8 * MOST_PARTS], NUMBER_ROOM + 8), None);
    }

    #[test]
    fn other_texts_are_no_values() {
        let refused = ["", "1", ".x", "0.x", "10001.x", "-1.x", "(vector,(0,2,1))"];
        assert_eq!(refused.map(first_part), [None; 7]);
        assert_eq!(["A", "AB=", "A B", "AR", "AAB"].map(decoded), [const { None }; 5]);
        assert_eq!(decoded("AQ").unwrap(), [1]);
    }

    proptest! {
        #[test]
        fn bytes_come_back(value: Vec<u8>, room in LEAST_ROOM..100) {
            let parts = split(&value, room).unwrap();
            prop_assert!(parts.iter().all(|part| part.len() <= room));
            prop_assert_eq!(joined(&parts).unwrap(), value);
        }

        #[test]
        fn no_text_panics(text: String) {
            let _ = (first_part(&text), decoded(&text));
        }
    }
}
