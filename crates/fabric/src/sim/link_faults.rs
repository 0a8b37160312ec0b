/// A generator of random numbers (SplitMix64). A seed gives the same numbers on every machine.
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

    /// True with probability `n` / 256.
    pub fn of_256(&mut self, n: u8) -> bool {
        self.below(256) < u64::from(n)
    }
}

/// A bijection without visible order.
pub(super) fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The properties and faults of the virtual network. Fields `*_of_256` are probabilities in 256ths.
#[derive(Debug, Clone)]
pub struct LinkFaults {
    pub paths: u32,
    pub min_delay_ns: u64,
    pub max_delay_ns: u64,
    /// Messages that find no room.
    pub full_of_256: u8,
    /// Messages that are taken and leave later.
    pub later_of_256: u8,
    /// Parts of long bodies after which the next part comes in another poll.
    pub pause_of_256: u8,
    /// Short sends that [`crate::Fabric::send_now`] accepts.
    pub now_of_256: u8,
    pub eager_limit: usize,
    /// The most bytes of a longer message that go with its announcement.
    pub announced_limit: usize,
    /// The longest time until a death is reported.
    pub detection_ns: u64,
    /// The number of processes on a node, if the network matches messages between nodes.
    pub matched_beyond: Option<u32>,
    pub last_context: u32,
}

impl Default for LinkFaults {
    fn default() -> Self {
        LinkFaults {
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

impl LinkFaults {
    /// Random properties: from one regular path to many paths that are often full.
    pub fn any(random: &mut Random) -> LinkFaults {
        let min_delay_ns = random.below(1000);
        let faults = LinkFaults {
            paths: 1 + random.below(5) as u32,
            min_delay_ns,
            max_delay_ns: min_delay_ns + [0, 100, 5_000, 100_000][random.below(4) as usize],
            full_of_256: [0, 8, 64, 160][random.below(4) as usize],
            later_of_256: [0, 32, 200][random.below(3) as usize],
            pause_of_256: [0, 64, 200][random.below(3) as usize],
            now_of_256: [0, 128, 255][random.below(3) as usize],
            eager_limit: [0, 1, 64, 200, 1000][random.below(5) as usize],
            detection_ns: [0, 1_000, 200_000][random.below(3) as usize],
            ..LinkFaults::default()
        };
        let announced_limit = [0, 1, 100][random.below(3) as usize];
        let matched_beyond = [None, None, Some(1), Some(3)][random.below(4) as usize];
        let last_context = [u32::MAX, 4][random.below(2) as usize];
        LinkFaults { announced_limit, matched_beyond, last_context, ..faults }
    }
}
