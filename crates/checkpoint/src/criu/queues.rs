//! Descriptors in transit over local sockets, from CRIU's file `sk-queues.img`: two magic numbers,
//! then for each packet a length, a message, and the packet's bytes.
//!
//! CRIU writes such descriptors into an image but does not restore them reliably: a process may get
//! another file, or none. So an image with one is not used. Descriptors are in transit only until
//! their receiver reads: with messages of more than 64 KiB over daemons, and at the first contact
//! of two ranks.

use std::path::Path;

use super::message::{Field, field, take};

const QUEUES: &str = "sk-queues.img";
const HEADER: usize = 8;
/// The field `length` of `sk_packet_entry`: the size of the bytes after the message.
const LENGTH: u64 = 2;
const SCM: u64 = 4;

/// Whether a descriptor was in transit. A malformed file counts as yes.
pub fn has_descriptor_under_way(image: &Path) -> bool {
    match std::fs::read(image.join(QUEUES)) {
        Ok(file) => has_descriptor(&file).unwrap_or(true),
        Err(_) => false,
    }
}

fn has_descriptor(file: &[u8]) -> Option<bool> {
    let mut rest = file.get(HEADER..)?;
    while !rest.is_empty() {
        let length = u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?);
        let message = take(&mut rest, usize::try_from(length).ok()?)?;
        if field(message, SCM).is_some() {
            return Some(true);
        }
        let Field::Number(bytes) = field(message, LENGTH)? else { return None };
        take(&mut rest, usize::try_from(bytes).ok()?)?;
    }
    Some(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PLAIN: [u8; 11] = [4, 0, 0, 0, 0x08, 0x56, 0x10, 3, b'a', b'b', b'c'];
    const WITH: [u8; 15] = [10, 0, 0, 0, 0x08, 0x56, 0x10, 1, 0x22, 4, 8, 1, 16, 0x57, b'a'];

    #[test]
    fn a_descriptor_is_found_behind_other_packets() {
        let file = |packets: &[&[u8]]| [&[0; HEADER][..], &packets.concat()].concat();
        assert_eq!(has_descriptor(&file(&[])), Some(false));
        assert_eq!(has_descriptor(&file(&[&PLAIN, &PLAIN])), Some(false));
        assert_eq!(has_descriptor(&file(&[&PLAIN, &WITH])), Some(true));
        assert_eq!(has_descriptor(&file(&[&PLAIN, &PLAIN[..9]])), None);
        assert_eq!(has_descriptor(&[]), None);
    }

    proptest! {
        #[test]
        fn no_file_makes_it_panic(file in any::<Vec<u8>>()) {
            let _ = has_descriptor(&file);
        }
    }
}
