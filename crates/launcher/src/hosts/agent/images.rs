//! Images that an agent and the head send each other, if the host cannot use the directory of the
//! set.

use super::super::pieces::{FileReceiver, FileSender, ImageDirectory, PIECES_WAITING};
use super::Agent;
use crate::host::ImagingResult;
use oxmpi_checkpoint::ranks::HostImages;
use oxmpi_rt_proto::agent::FromAgent;

/// Images on their way to the head, which has no access to their directory.
pub(super) struct ImageTransfer {
    round: u32,
    files: FileSender,
    images: HostImages,
    _scratch: ImageDirectory,
}

impl Agent<'_> {
    /// Reports images of the ranks, after the files that the head has not.
    pub(super) fn send_images(&mut self, round: u32, made: Result<ImagingResult, String>) {
        let images = match made {
            Ok((images, Some(scratch))) => match FileSender::all_of(scratch.path()) {
                Ok(files) => {
                    self.sending = Some(ImageTransfer { round, files, images, _scratch: scratch });
                    return;
                }
                Err(error) => Err(error.to_string()),
            },
            made => made.map(|(images, _)| images),
        };
        self.post(&FromAgent::Imaged { round, images });
    }

    pub(super) fn send_pieces(&mut self) {
        while self.head.behind() < PIECES_WAITING
            && let Some(sending) = &mut self.sending
        {
            let round = sending.round;
            let message = match sending.files.next() {
                Ok(Some((name, bytes))) => FromAgent::Piece { round, name, bytes },
                Ok(None) => {
                    let images = std::mem::take(&mut sending.images);
                    self.sending = None;
                    FromAgent::Imaged { round, images: Ok(images) }
                }
                Err(error) => {
                    self.sending = None;
                    FromAgent::Imaged { round, images: Err(error.to_string()) }
                }
            };
            self.post(&message);
            self.head.flush();
        }
    }

    /// Writes a piece of an image that is to be restored here.
    pub(super) fn receive_piece(&mut self, name: &str, bytes: &[u8]) -> std::io::Result<()> {
        if self.received.is_none() {
            let order = self.ready.as_ref().and_then(|ready| ready.job.order.restore.as_ref());
            let beside =
                order.and_then(|restore| restore.images.set.parent()).unwrap_or("/".as_ref());
            let scratch = ImageDirectory::make_in(&[beside, &std::env::temp_dir()])?;
            self.received = Some((FileReceiver::into(scratch.path()), scratch));
        }
        self.received.as_mut().map_or(Ok(()), |(incoming, _)| incoming.take(name, bytes))
    }
}
