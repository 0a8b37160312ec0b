//! The encoding of Protocol Buffers, as far as CRIU's files use it.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Numbered<'a> {
    pub(super) number: u64,
    pub(super) value: Field<'a>,
    /// The encoded field, key included.
    pub(super) raw: &'a [u8],
}

/// All fields of a message; `None` if it is malformed.
pub(super) fn fields(mut message: &[u8]) -> Option<Vec<Numbered<'_>>> {
    let mut all = Vec::new();
    while !message.is_empty() {
        all.push(next(&mut message)?);
    }
    Some(all)
}

pub(super) fn field(mut message: &[u8], wanted: u64) -> Option<Field<'_>> {
    loop {
        let found = next(&mut message)?;
        if found.number == wanted {
            return Some(found.value);
        }
    }
}

fn next<'a>(message: &mut &'a [u8]) -> Option<Numbered<'a>> {
    let whole = *message;
    let key = number(message)?;
    let value = match key & 7 {
        0 => Field::Number(number(message)?),
        1 => Field::Bytes(take(message, 8)?),
        2 => {
            let length = number(message)?;
            Field::Bytes(take(message, usize::try_from(length).ok()?)?)
        }
        5 => Field::Bytes(take(message, 4)?),
        _ => return None,
    };
    Some(Numbered { number: key >> 3, value, raw: &whole[..whole.len() - message.len()] })
}

fn number(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = take(message, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

pub(super) fn take<'a>(message: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (head, rest) = message.split_at_checked(length)?;
    *message = rest;
    Some(head)
}

pub(super) fn put_number(message: &mut Vec<u8>, number: u64, value: u64) {
    put(message, number << 3);
    put(message, value);
}

pub(super) fn put_bytes(message: &mut Vec<u8>, number: u64, bytes: &[u8]) {
    put(message, number << 3 | 2);
    put(message, bytes.len() as u64);
    message.extend(bytes);
}

fn put(message: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        message.push(value as u8 | 0x80);
        value >>= 7;
    }
    message.push(value as u8);
}
