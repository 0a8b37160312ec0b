//! Bytes as hexadecimal digits, for command lines and lines of text.

/// The digits of the bytes, two for each.
pub fn to_hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The bytes that the digits stand for; `None`: the text has other characters, or an odd length.
pub fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|[high, low]| Some((digit(*high)? << 4 | digit(*low)?) as u8));
    bytes.collect::<Option<Vec<u8>>>().filter(|_| rest.is_empty())
}
