use oxmpi_sys::bytes::Bytes;
use oxmpi_sys::parcel;
use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

#[derive(Debug)]
pub(super) enum ParcelBody {
    /// The body is in the packet, or empty.
    None,
    File(OwnedFd),
    Content(Vec<u8>),
}

impl ParcelBody {
    pub(super) fn file(&self) -> Option<BorrowedFd<'_>> {
        match self {
            ParcelBody::File(file) => Some(file.as_fd()),
            ParcelBody::None | ParcelBody::Content(_) => None,
        }
    }
}

#[derive(Debug)]
pub(super) struct Parcel {
    pub(super) packet: Vec<u8>,
    pub(super) length: u64,
    pub(super) load: ParcelBody,
}

impl Parcel {
    pub(super) fn is_question(&self) -> bool {
        // The kind in the header of a valid packet (`PacketHeader::encode`).
        self.packet.get(1) == Some(&3)
    }

    pub(super) fn is_answer(&self) -> bool {
        self.packet.get(1) == Some(&4)
    }

    pub(super) fn peer(&self) -> u32 {
        let bytes = self.packet.get(4..8).and_then(|bytes| bytes.first_chunk::<4>());
        bytes.map_or(u32::MAX, |bytes| u32::from_le_bytes(*bytes))
    }

    /// If fewer than `most` files are open, keeps the file open, else keeps its content.
    pub(super) fn into_kept(mut self, files: &mut usize, most: usize) -> io::Result<Parcel> {
        if let ParcelBody::File(file) = &self.load {
            if *files < most {
                *files += 1;
            } else {
                let mut content = vec![0; usize::try_from(self.length).unwrap_or(usize::MAX)];
                parcel::read_all(file, &mut content, 0)?;
                self.load = ParcelBody::Content(content);
            }
        }
        Ok(self)
    }

    pub(super) fn release(&self, files: &mut usize) {
        if matches!(self.load, ParcelBody::File(_)) {
            *files = files.saturating_sub(1);
        }
    }

    pub(super) fn send(&self, socket: &OwnedFd) -> io::Result<()> {
        let packet = [Bytes::from(&self.packet[..])];
        match &self.load {
            ParcelBody::Content(content) => {
                let file = parcel::new_file()?;
                parcel::write_all(&file, Bytes::from(&content[..]), 0)?;
                parcel::send(socket, &packet, Some(file.as_fd()))
            }
            load => parcel::send(socket, &packet, load.file()),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct ParcelQueue(VecDeque<Parcel>);

impl ParcelQueue {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn push(&mut self, parcel: Parcel) {
        self.0.push_back(parcel);
    }

    pub(super) fn front(&self) -> Option<&Parcel> {
        self.0.front()
    }

    pub(super) fn pop(&mut self, files: &mut usize) {
        if let Some(parcel) = self.0.pop_front() {
            parcel.release(files);
        }
    }

    pub(super) fn clear(&mut self, files: &mut usize) {
        while !self.is_empty() {
            self.pop(files);
        }
        self.0 = VecDeque::new();
    }
}
