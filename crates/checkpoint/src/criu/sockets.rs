//! The sockets between the ranks of a job in an image. After a restart of one rank, its old
//! connections are gone, and its old address may belong to another process or host. So the image
//! gets these sockets closed: unbound and not connected. The rank still has their descriptors, and
//! closes them itself.
//!
//! The file `files.img` has two magic numbers, then for each open file a length and a message.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use super::message::{Field, fields, put_bytes, put_number, take};

const FILES: &str = "files.img";
const HEADER: usize = 8;
/// In `file_entry`: an Internet socket.
const SOCKET: u64 = 4;
/// In `inet_sk_entry`.
const PROTOCOL: u64 = 5;
const STATE: u64 = 6;
const PORTS: [u64; 2] = [7, 8];
const ADDRESSES: [u64; 2] = [11, 12];
const TCP: u64 = 6;
const CLOSED: u64 = 7;

/// Closes the sockets of ranks in an image. The ranks listen at `listeners`. Fails if the file
/// cannot be read or written, with `InvalidData` if it is malformed.
pub fn close_sockets(image: &Path, listeners: &[SocketAddr]) -> io::Result<()> {
    let path = image.join(FILES);
    let changed = closed(&std::fs::read(&path)?, listeners);
    let changed = changed.ok_or_else(|| {
        io::Error::new(io::ErrorKind::InvalidData, "it is no image of open files")
    })?;
    std::fs::write(&path, changed)
}

fn closed(file: &[u8], listeners: &[SocketAddr]) -> Option<Vec<u8>> {
    let (head, mut rest) = file.split_at_checked(HEADER)?;
    let mut out = head.to_vec();
    while !rest.is_empty() {
        let length = u32::from_le_bytes(take(&mut rest, 4)?.try_into().ok()?);
        let message = take(&mut rest, usize::try_from(length).ok()?)?;
        let mut entry = Vec::new();
        for field in fields(message)? {
            match field.value {
                Field::Bytes(socket) if field.number == SOCKET => {
                    put_bytes(&mut entry, SOCKET, &closed_socket(socket, listeners)?);
                }
                _ => entry.extend(field.raw),
            }
        }
        out.extend(u32::try_from(entry.len()).ok()?.to_le_bytes());
        out.extend(entry);
    }
    Some(out)
}

fn closed_socket(socket: &[u8], listeners: &[SocketAddr]) -> Option<Vec<u8>> {
    let all = fields(socket)?;
    let numbers = |number: u64| {
        let is_it = all.iter().filter(move |field| field.number == number);
        is_it.filter_map(
            |field| if let Field::Number(value) = field.value { Some(value) } else { None },
        )
    };
    let is_ours = PORTS.into_iter().zip(ADDRESSES).any(|(port, address)| {
        let port = numbers(port).next().and_then(|port| u16::try_from(port).ok()).unwrap_or(0);
        let words: Vec<u32> = numbers(address).map(|word| word as u32).collect();
        let address = address_of(&words);
        // A socket that listens at all addresses has the unspecified address.
        let is_at = |ip: IpAddr| address.is_some_and(|is| is == ip || is.is_unspecified());
        listeners
            .iter()
            .any(|listener| listener.port() == port && is_at(listener.ip().to_canonical()))
    });
    if !is_ours || numbers(PROTOCOL).next() != Some(TCP) {
        return Some(socket.to_vec());
    }
    let mut out = Vec::new();
    for field in &all {
        match field.number {
            STATE => put_number(&mut out, STATE, CLOSED),
            port if PORTS.contains(&port) => put_number(&mut out, port, 0),
            _ => out.extend(field.raw),
        }
    }
    Some(out)
}

fn address_of(words: &[u32]) -> Option<IpAddr> {
    match words {
        [word] => Some(Ipv4Addr::from(word.to_ne_bytes()).into()),
        [a, b, c, d] => {
            let mut octets = [0; 16];
            for (to, word) in octets.chunks_exact_mut(4).zip([a, b, c, d]) {
                to.copy_from_slice(&word.to_ne_bytes());
            }
            Some(IpAddr::from(Ipv6Addr::from(octets)).to_canonical())
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A socket in CRIU's encoding, with extra fields that must stay.
    fn socket(protocol: u64, state: u64, ports: [u64; 2], addresses: [IpAddr; 2]) -> Vec<u8> {
        let mut out = Vec::new();
        put_number(&mut out, 1, 13);
        put_number(&mut out, PROTOCOL, protocol);
        put_number(&mut out, STATE, state);
        PORTS.into_iter().zip(ports).for_each(|(number, port)| put_number(&mut out, number, port));
        for (number, address) in ADDRESSES.into_iter().zip(addresses) {
            let octets = match address {
                IpAddr::V4(address) => address.octets().to_vec(),
                IpAddr::V6(address) => address.octets().to_vec(),
            };
            for word in octets.chunks_exact(4) {
                put_number(&mut out, number, u32::from_ne_bytes(word.try_into().unwrap()).into());
            }
        }
        put_bytes(&mut out, 14, b"options");
        out
    }

    fn file(sockets: &[Vec<u8>]) -> Vec<u8> {
        let mut out = b"8 bytes!".to_vec();
        for socket in sockets {
            let mut entry = Vec::new();
            put_number(&mut entry, 1, 2);
            put_number(&mut entry, 2, 13);
            put_bytes(&mut entry, SOCKET, socket);
            out.extend((entry.len() as u32).to_le_bytes());
            out.extend(entry);
        }
        out
    }

    #[test]
    fn sockets_of_the_ranks_are_closed_and_others_stay() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let listeners = ["127.0.0.1:4000", "[fe80::7]:5000"].map(|text| text.parse().unwrap());
        let (local, none) = (ip("127.0.0.1"), ip("0.0.0.0"));
        let ours = [
            socket(TCP, 10, [4000, 0], [local, none]),
            socket(TCP, 10, [4000, 0], [none, none]),
            socket(TCP, 1, [33000, 4000], [local, local]),
            socket(TCP, 1, [4000, 33000], [local, local]),
            socket(TCP, 1, [33000, 5000], [ip("fe80::8"), ip("fe80::7")]),
        ];
        let others = [
            socket(TCP, 10, [4001, 0], [local, none]),
            socket(17, 7, [4000, 0], [local, none]),
            socket(TCP, 1, [33000, 4000], [local, ip("10.0.0.1")]),
        ];
        let after = |one: &Vec<u8>| closed(&file(std::slice::from_ref(one)), &listeners).unwrap();
        for one in &ours {
            let closed = file(&[closed_socket(one, &listeners).unwrap()]);
            assert!(after(one) == closed && closed != file(std::slice::from_ref(one)));
            let fields = fields(one).unwrap();
            assert_eq!(
                fields.len(),
                super::fields(&closed_socket(one, &listeners).unwrap()).unwrap().len()
            );
        }
        assert_eq!(
            ours.map(|one| after(&one))
                .map(|file| file.windows(7).filter(|w| *w == b"options").count()),
            [1; 5]
        );
        for one in &others {
            assert_eq!(after(one), file(std::slice::from_ref(one)));
        }
        assert_eq!(closed(b"short", &listeners), None);
        assert_eq!(closed(b"8 bytes!\x05\0\0\0ab", &listeners), None);
    }

    proptest! {
        #[test]
        fn no_file_makes_it_panic(bytes in any::<Vec<u8>>()) {
            let _ = closed(&bytes, &[]);
        }
    }
}
