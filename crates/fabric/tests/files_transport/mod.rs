//! Files: ranks of one host through files in a directory. An example of a transport in one file,
//! written by the steps of `docs/transports-howto.md`; no job can select it, as it contributes no
//! `Module`.
//!
//! Rules (besides the promises at the head of the crate)
//!
//! 1. Each process has a directory for messages to it. A frame and its body are one file there,
//!    `FROM-NUMBER`; the numbers of a sender count from 0 for each receiver.
//! 2. A file is written elsewhere and renamed when it is complete: a receiver never sees a part of
//!    one, and no body comes in parts.
//! 3. A receiver takes the files of a sender in the order of their numbers, by name, and deletes
//!    each when it has handed it up. It does not list its directory: the kernel may leave out of a
//!    list a file that is added meanwhile, and still name a later one.
//! 4. A sender has at most [`ROOM`] files with a receiver. As files are deleted in order, the one
//!    that is [`ROOM`] numbers older shows whether there is room: files are not counted, and
//!    senders need not agree with each other.
//! 5. No peer wakes a process that sleeps: its sleeps are short.
//! 6. A process that leaves writes a file `left`. Everything that it has sent is there by then, and
//!    by rule 4 no more than one poll takes.
#![allow(dead_code)] // not every test uses all

mod directory;

pub(crate) use directory::Directory;

use oxmpi_fabric::{
    FrameSink, Limits, Membership, OutgoingMessage, Sent, Statistics, Transport, Unreachable,
    dispatch,
};
use oxmpi_sys::bytes::{Bytes, BytesMut};
use oxmpi_wire::{Frame, MAX_FRAME_LEN, Received};
use std::fs;
use std::io::{self, ErrorKind};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// In bytes: the receiver copies it once more if no receive waits for it.
pub(crate) const EAGER: usize = 16 << 10;
/// In bytes: long, because a file costs as much time as many bytes.
pub(crate) const PIECE: usize = 256 << 10;
/// The most files of one sender with one receiver.
pub(crate) const ROOM: u64 = 64;

/// The transport of one process.
#[derive(Debug)]
pub(crate) struct Files {
    own: u32,
    job: Range<u32>,
    root: PathBuf,
    /// By place in the job; this process is also its own peer.
    peers: Vec<Peer>,
}

#[derive(Clone, Debug, Default)]
struct Peer {
    sent: u64,
    next: u64,
    /// Its next file cannot be read. That was reported, and is not tried again.
    is_lost: bool,
}

impl Files {
    /// The transport of process `own` of a job, whose files are in the directory `root`. No other
    /// job may have used `root`: its remaining files would be taken for messages.
    pub(crate) fn new(own: u32, job: Range<u32>, root: &Path) -> io::Result<Files> {
        // The first process can send to others that have not started yet.
        job.clone().try_for_each(|process| fs::create_dir_all(root.join(process.to_string())))?;
        let peers = vec![Peer::default(); job.len()];
        Ok(Files { own, job, root: root.into(), peers })
    }

    fn place(&self, peer: u32) -> Option<usize> {
        self.job.contains(&peer).then(|| (peer - self.job.start) as usize)
    }

    fn path(&self, from: u32, to: u32, number: u64) -> PathBuf {
        self.root.join(format!("{to}/{from}-{number}"))
    }

    /// See rule 2.
    fn put(&self, packet: &[u8], path: &Path) -> io::Result<()> {
        // A rename needs the same file system. A process writes one file at a time.
        let unfinished = self.root.join(format!("unfinished-{}", self.own));
        fs::write(&unfinished, packet)?;
        fs::rename(&unfinished, path)
    }

    /// The next file from a process, if it is there.
    fn take(&self, from: u32, number: u64) -> io::Result<Option<(Received, Vec<u8>)>> {
        let packet = match fs::read(self.path(from, self.own, number)) {
            Ok(packet) => packet,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        // Any program of the user may have written there.
        match Frame::decode(&packet) {
            Ok(got) if got.source == from => Ok(Some((got, packet))),
            _ => Err(ErrorKind::InvalidData.into()),
        }
    }

    /// Hands up messages of a peer, at most [`ROOM`], so that a fast sender does not keep this
    /// process from the others. Returns their number.
    fn receive(&mut self, from: u32, at: usize, sink: &mut dyn FrameSink) -> io::Result<u64> {
        for count in 0..ROOM {
            let number = self.peers[at].next;
            let Some((got, packet)) = self.take(from, number)? else { return Ok(count) };
            let body = &packet[got.body_at..];
            // Frames of segments come over shared memory alone.
            dispatch(from, &got, body.len(), Bytes::from(body), sink);
            self.peers[at].next += 1;
            fs::remove_file(self.path(from, self.own, number))?;
        }
        Ok(ROOM)
    }
}

impl Transport for Files {
    fn name(&self) -> &'static str {
        "files"
    }

    fn reaches(&self, peer: u32) -> bool {
        self.place(peer).is_some()
    }

    fn limits(&self, _to: u32) -> Limits {
        Limits { eager: EAGER, announced: 0 }
    }

    fn piece_limit(&mut self, _to: u32) -> usize {
        PIECE
    }

    /// See rules 1 and 4.
    fn send(&mut self, to: u32, message: &OutgoingMessage<'_>) -> Result<Sent, Unreachable> {
        let failed = |why| Unreachable { peer: to, why };
        let at = self.place(to).ok_or_else(|| failed("it is no rank of this job".into()))?;
        let number = self.peers[at].sent;
        if number.checked_sub(ROOM).is_some_and(|older| self.path(self.own, to, older).exists()) {
            return Ok(Sent::Full);
        }
        let mut frame = [0; MAX_FRAME_LEN];
        let len = message.frame.encode(message.sequence, self.own, &mut frame);
        let mut packet = vec![0; len + message.body.len()];
        packet[..len].copy_from_slice(&frame[..len]);
        message.body.fill(0, BytesMut::from(&mut packet[len..]));
        // No `Sent::Full`: perhaps no peer ever frees any space.
        self.put(&packet, &self.path(self.own, to, number))
            .map_err(|error| failed(error.to_string()))?;
        self.peers[at].sent += 1;
        Ok(Sent::Done)
    }

    /// See rule 3.
    fn poll(&mut self, _except: Option<u32>, sink: &mut dyn FrameSink) -> bool {
        let mut came = false;
        for (at, from) in self.job.clone().enumerate() {
            if self.peers[at].is_lost {
                continue;
            }
            match self.receive(from, at, sink) {
                Ok(count) => came |= count > 0,
                Err(_) => {
                    self.peers[at].is_lost = true;
                    sink.lost(from);
                    came = true;
                }
            }
        }
        came
    }

    fn before_sleep(&mut self) -> bool {
        let mut peers = self.job.clone().zip(&self.peers).filter(|(_, peer)| !peer.is_lost);
        !peers.any(|(from, peer)| self.path(from, self.own, peer.next).exists())
    }

    /// See rule 5.
    fn sleeps_lightly(&self) -> bool {
        true
    }
}

/// See rule 6.
impl Membership for Files {
    fn has_left(&mut self, peer: u32) -> bool {
        self.place(peer).is_some() && self.root.join(format!("{peer}/left")).exists()
    }

    fn leave(&mut self) -> bool {
        // Other processes need not learn of it.
        let _ = fs::write(self.root.join(format!("{}/left", self.own)), []);
        true
    }
}

impl Statistics for Files {}
