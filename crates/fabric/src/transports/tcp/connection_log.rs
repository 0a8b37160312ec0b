use crate::Connected;

const MOST: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct ConnectionLog {
    is_wanted: bool,
    noted: Vec<Connected>,
    dropped: u64,
}

impl ConnectionLog {
    pub(super) fn new(is_wanted: bool) -> ConnectionLog {
        ConnectionLog { is_wanted, ..ConnectionLog::default() }
    }

    pub(super) fn note(&mut self, connected: Connected) {
        if self.is_wanted && self.noted.len() < MOST {
            self.noted.push(connected);
        } else if self.is_wanted {
            self.dropped += 1;
        }
    }

    pub(super) fn take(&mut self) -> (Vec<Connected>, u64) {
        (std::mem::take(&mut self.noted), std::mem::take(&mut self.dropped))
    }
}
