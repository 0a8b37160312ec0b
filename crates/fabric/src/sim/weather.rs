//! Random numbers, and what the virtual network is like.

/// A small generator of random numbers (SplitMix64): the same numbers for the same seed, everywhere.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The generator of this seed.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.draw() % n }
    }

    /// True for `n` of 256.
    pub fn of_256(&mut self, n: u8) -> bool {
        self.below(256) < u64::from(n)
    }
}

/// A bijection that leaves no trace of the order in its input.
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// What the virtual network is like.
#[derive(Debug, Clone)]
pub struct Weather {
    /// Paths between two processes.
    pub paths: u32,
    /// Shortest time a frame is under way, virtual nanoseconds.
    pub min_delay_ns: u64,
    /// Longest.
    pub max_delay_ns: u64,
    /// Of 256 messages, how many find no room.
    pub full_of_256: u8,
    /// Of 256 messages, how many are taken but gone only later.
    pub later_of_256: u8,
    /// Of 256 parts of long bodies, after how many the next comes up in another poll only.
    pub pause_of_256: u8,
    /// Of 256 short sends, how many may take the fast way ([`crate::Fabric::send_now`]).
    pub now_of_256: u8,
    /// Longest eager body, bytes.
    pub eager_limit: usize,
    /// Bytes of a longer message that go with its announcement, at most.
    pub announced_limit: usize,
    /// How long after a death the others hear of it, nanoseconds at most.
    pub detection_ns: u64,
    /// If the network matches messages between processes of different nodes: how many processes a node has.
    pub matched_beyond: Option<u32>,
    /// The highest index of a context that its tags can name.
    pub last_context: u32,
}

impl Default for Weather {
    fn default() -> Self {
        Weather {
            paths: 3,
            min_delay_ns: 100,
            max_delay_ns: 20_000,
            full_of_256: 16,
            later_of_256: 32,
            pause_of_256: 64,
            now_of_256: 128,
            eager_limit: 256,
            announced_limit: 0,
            detection_ns: 50_000,
            matched_beyond: None,
            last_context: u32::MAX,
        }
    }
}

impl Weather {
    /// Weather of any kind: from one dull path to many that are often full.
    pub fn any(random: &mut Random) -> Weather {
        let min_delay_ns = random.below(1000);
        let weather = Weather {
            paths: 1 + random.below(5) as u32,
            min_delay_ns,
            max_delay_ns: min_delay_ns + [0, 100, 5_000, 100_000][random.below(4) as usize],
            full_of_256: [0, 8, 64, 160][random.below(4) as usize],
            later_of_256: [0, 32, 200][random.below(3) as usize],
            pause_of_256: [0, 64, 200][random.below(3) as usize],
            now_of_256: [0, 128, 255][random.below(3) as usize],
            eager_limit: [0, 1, 64, 200, 1000][random.below(5) as usize],
            detection_ns: [0, 1_000, 200_000][random.below(3) as usize],
            ..Weather::default()
        };
        let announced_limit = [0, 1, 100][random.below(3) as usize];
        let matched_beyond = [None, None, Some(1), Some(3)][random.below(4) as usize];
        let last_context = [u32::MAX, 4][random.below(2) as usize];
        Weather { announced_limit, matched_beyond, last_context, ..weather }
    }
}
