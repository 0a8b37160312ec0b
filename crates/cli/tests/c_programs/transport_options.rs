//! The transports of the C tests, with the options that select them.

/// A transport with its options. The names are those of `// every day:` and `// not over:`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TransportOptions {
    Shm,
    /// Shared memory where the kernel denies single copy: `tests/c/jobs/deny.c` runs the program.
    ShmDenied,
    /// Shared memory where all but the shortest messages are announced, and copied by their
    /// receivers or taken back.
    ShmSingleCopy,
    /// The guide's postboxes, with spinning (usysv) and with System V semaphores (sysv).
    Usysv,
    Sysv,
    /// Sockets alone. Collectives use them, too, instead of shared memory.
    Tcp,
    /// Sockets for messages, and shared memory for collectives: for programs that name it.
    TcpShared,
    TcpEncrypted,
    /// Two virtual nodes, with shared memory inside and sockets between them.
    Nodes,
    Lamd,
    /// The first provider of libfabric that matches messages.
    Ofi,
    /// The emulation of Myrinet's GM, each rank on a virtual node of its own.
    Gm,
}

impl TransportOptions {
    pub(crate) const ALL: [TransportOptions; 12] = [
        TransportOptions::Shm,
        TransportOptions::ShmDenied,
        TransportOptions::ShmSingleCopy,
        TransportOptions::Usysv,
        TransportOptions::Sysv,
        TransportOptions::Tcp,
        TransportOptions::TcpShared,
        TransportOptions::TcpEncrypted,
        TransportOptions::Nodes,
        TransportOptions::Lamd,
        TransportOptions::Ofi,
        TransportOptions::Gm,
    ];

    pub(crate) fn name(self) -> &'static str {
        match self {
            TransportOptions::Shm => "shm",
            TransportOptions::ShmDenied => "shm-denied",
            TransportOptions::ShmSingleCopy => "shm-single-copy",
            TransportOptions::Usysv => "usysv",
            TransportOptions::Sysv => "sysv",
            TransportOptions::Tcp => "tcp",
            TransportOptions::TcpShared => "tcp-shared",
            TransportOptions::TcpEncrypted => "tcp-encrypted",
            TransportOptions::Nodes => "nodes",
            TransportOptions::Lamd => "lamd",
            TransportOptions::Ofi => "ofi",
            TransportOptions::Gm => "gm",
        }
    }

    pub(crate) fn from_name(name: &str) -> Result<TransportOptions, String> {
        let found = TransportOptions::ALL.into_iter().find(|transport| transport.name() == name);
        found.ok_or_else(|| format!("there is no transport '{name}'"))
    }

    pub(crate) fn is_near(self) -> bool {
        matches!(
            self,
            TransportOptions::Shm
                | TransportOptions::ShmDenied
                | TransportOptions::ShmSingleCopy
                | TransportOptions::Usysv
                | TransportOptions::Sysv
        )
    }

    pub(crate) fn options(self) -> &'static [&'static str] {
        match self {
            TransportOptions::Shm | TransportOptions::ShmDenied => &["--mca", "rpi", "shm"],
            TransportOptions::ShmSingleCopy => &[
                "--mca",
                "rpi",
                "shm",
                "--mca",
                "single_copy",
                "on",
                "--mca",
                "shm_pool_from_bytes",
                "57",
            ],
            TransportOptions::Usysv => &["--mca", "rpi", "usysv"],
            TransportOptions::Sysv => &["--mca", "rpi", "sysv"],
            TransportOptions::Tcp => &["--mca", "rpi", "tcp", "--mca", "coll", "^shmem"],
            TransportOptions::TcpShared => &["--mca", "rpi", "tcp"],
            TransportOptions::TcpEncrypted => {
                &["--mca", "rpi", "tcp", "--mca", "coll", "^shmem", "--mca", "mpi_encrypt", "1"]
            }
            TransportOptions::Nodes => &["--mca", "mpi_virtual_nodes", "2"],
            TransportOptions::Lamd => &["--mca", "rpi", "lamd", "--mca", "mpi_virtual_nodes", "2"],
            TransportOptions::Ofi => {
                &["--mca", "mtl", "ofi", "--mca", "mtl_ofi_shm", "0", "--mca", "coll", "^shmem"]
            }
            TransportOptions::Gm => &["--mca", "rpi", "gm"],
        }
    }

    /// Performance variables. At least one of them must have counted a message, so a job over
    /// another transport fails.
    pub(crate) fn counters(self) -> Option<&'static str> {
        match self {
            TransportOptions::Tcp
            | TransportOptions::TcpShared
            | TransportOptions::TcpEncrypted
            | TransportOptions::Nodes => Some("tcp_messages_sent"),
            TransportOptions::Ofi => Some("tagged_messages_sent,tagged_frames_sent"),
            _ => None,
        }
    }

    /// The limit is for transports with threads or processes of their own per rank: two processors
    /// are soon full.
    pub(crate) fn most_ranks(self) -> u32 {
        match self {
            TransportOptions::Lamd | TransportOptions::TcpEncrypted | TransportOptions::Ofi => 4,
            _ => u32::MAX,
        }
    }
}
