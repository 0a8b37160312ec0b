//! Messages in the encoding of Protocol Buffers, as far as CRIU's files need it.

/// A field of a message: a number, or bytes.
pub(super) enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

/// The first field of this number.
pub(super) fn field(mut message: &[u8], wanted: u64) -> Option<Field<'_>> {
    loop {
        let key = number(&mut message)?;
        let found = match key & 7 {
            0 => Field::Number(number(&mut message)?),
            1 => Field::Bytes(take(&mut message, 8)?),
            2 => {
                let length = number(&mut message)?;
                Field::Bytes(take(&mut message, usize::try_from(length).ok()?)?)
            }
            5 => Field::Bytes(take(&mut message, 4)?),
            _ => return None,
        };
        if key >> 3 == wanted {
            return Some(found);
        }
    }
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
