//! The ways on which the C tests run: a transport with the options that select it.

/// A transport with its options. The names are those of `// every day:` and `// not over:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// What OxMPI takes by itself on one host.
    Shm,
    /// Shared memory where the kernel denies single copy: `tests/c/jobs/deny.c` runs the program.
    ShmDenied,
    /// Shared memory where all but the shortest messages are announced, and copied by their receivers or taken back.
    ShmSingleCopy,
    /// The guide's postboxes, with spinning and with System V semaphores.
    Usysv,
    Sysv,
    /// Sockets alone: collectives go over them, too, instead of the memory of the host.
    Tcp,
    /// Sockets for messages, and the memory of the host for collectives: for programs that say so.
    TcpShared,
    /// Sockets alone, encrypted.
    TcpEncrypted,
    /// Two virtual nodes: shared memory within, and sockets between them.
    Nodes,
    /// The daemons of two virtual nodes.
    Lamd,
    /// libfabric's first provider alone, which matches messages.
    Ofi,
    /// The emulation of Myrinet's GM, each rank on a virtual node of its own.
    Gm,
}

impl Way {
    pub(crate) const ALL: [Way; 12] = [
        Way::Shm,
        Way::ShmDenied,
        Way::ShmSingleCopy,
        Way::Usysv,
        Way::Sysv,
        Way::Tcp,
        Way::TcpShared,
        Way::TcpEncrypted,
        Way::Nodes,
        Way::Lamd,
        Way::Ofi,
        Way::Gm,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Way::Shm => "shm",
            Way::ShmDenied => "shm-denied",
            Way::ShmSingleCopy => "shm-single-copy",
            Way::Usysv => "usysv",
            Way::Sysv => "sysv",
            Way::Tcp => "tcp",
            Way::TcpShared => "tcp-shared",
            Way::TcpEncrypted => "tcp-encrypted",
            Way::Nodes => "nodes",
            Way::Lamd => "lamd",
            Way::Ofi => "ofi",
            Way::Gm => "gm",
        }
    }

    pub(crate) fn from_name(name: &str) -> Result<Way, String> {
        let found = Way::ALL.into_iter().find(|way| way.name() == name);
        found.ok_or_else(|| format!("there is no way '{name}'"))
    }

    /// Whether it stays within a node.
    pub(crate) fn is_near(self) -> bool {
        matches!(self, Way::Shm | Way::ShmDenied | Way::ShmSingleCopy | Way::Usysv | Way::Sysv)
    }

    /// The options of `mpirun`.
    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            Way::Shm | Way::ShmDenied => &["--mca", "rpi", "shm"],
            Way::ShmSingleCopy => {
                &["--mca", "rpi", "shm", "--mca", "single_copy", "on", "--mca", "shm_pool_from_bytes", "57"]
            }
            Way::Usysv => &["--mca", "rpi", "usysv"],
            Way::Sysv => &["--mca", "rpi", "sysv"],
            Way::Tcp => &["--mca", "rpi", "tcp", "--mca", "coll", "^shmem"],
            Way::TcpShared => &["--mca", "rpi", "tcp"],
            Way::TcpEncrypted => {
                &["--mca", "rpi", "tcp", "--mca", "coll", "^shmem", "--mca", "mpi_encrypt", "1"]
            }
            Way::Nodes => &["--mca", "mpi_virtual_nodes", "2"],
            Way::Lamd => &["--mca", "rpi", "lamd", "--mca", "mpi_virtual_nodes", "2"],
            Way::Ofi => &["--mca", "mtl", "ofi", "--mca", "mtl_ofi_shm", "0", "--mca", "coll", "^shmem"],
            Way::Gm => &["--mca", "rpi", "gm"],
        }
    }

    /// Performance variables of which one must have counted a message, so that a job that silently takes another transport fails.
    pub(crate) fn counters(self) -> Option<&'static str> {
        match self {
            Way::Tcp | Way::TcpShared | Way::TcpEncrypted | Way::Nodes => Some("tcp_messages_sent"),
            Way::Ofi => Some("tagged_messages_sent,tagged_frames_sent"),
            _ => None,
        }
    }

    /// The highest number of ranks: where each rank brings threads or processes with it, two processors are soon full.
    pub(crate) fn most_ranks(self) -> u32 {
        match self {
            Way::Lamd | Way::TcpEncrypted | Way::Ofi => 4,
            _ => u32::MAX,
        }
    }
}
