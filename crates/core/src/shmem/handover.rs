//! When two ranks hand the same memory to and fro (rule 13 of `oxmpi_os::control_section`).
//!
//! If data go one way in a collective, and the other way in the next one (a broadcast whose root changes, a gather after a
//! scatter), who wrote in one reads in the other. Who has read last then writes where it has read: nobody fetches lines from
//! another core but to read them. While they always go the same way, they lie in the pool.

/// What is known of the memory that two ranks hand over. Both know it alike, as it follows from their collectives.
#[derive(Debug, Default)]
pub(super) struct Handover {
    /// Who has written in the last collective that came here: a blocking one, in which one writes and the other one alone reads, and
    /// of a length that may be handed over.
    writer: Option<u32>,
    /// Who has read last where data are handed over.
    reader: Option<u32>,
}

impl Handover {
    /// Whether the data of the next collective are handed over, which `writer` alone writes, and only the other one reads.
    pub(super) fn take(&mut self, writer: u32) -> bool {
        let before = self.writer.replace(writer);
        let is_in_turn = match self.reader {
            Some(reader) => reader == writer,
            // Nothing was handed over yet: when the way changes.
            None => before.is_some_and(|before| before != writer),
        };
        if is_in_turn {
            self.reader = Some(1 - writer);
        }
        is_in_turn
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a [`Handover`] says of collectives that these ranks write.
    fn taken(writers: &[u32]) -> Vec<bool> {
        let mut handover = Handover::default();
        writers.iter().map(|writer| handover.take(*writer)).collect()
    }

    #[test]
    fn what_goes_to_and_fro_is_handed_over() {
        assert_eq!(taken(&[0, 0, 0]), [false; 3]);
        assert_eq!(taken(&[1, 0, 1, 0]), [false, true, true, true]);
    }

    #[test]
    fn who_writes_again_leaves_it_to_the_reader() {
        assert_eq!(taken(&[0, 1, 1, 1, 0, 0, 1]), [false, true, false, false, true, false, true]);
    }
}
