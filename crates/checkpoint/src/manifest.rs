//! What a set says of itself.
//!
//! The file `manifest` begins with a line `oxmpi checkpoint, format N, blake3 HEX`; HEX is the checksum of all that follows the line,
//! which is JSON. So a manifest of another format is told before its JSON is read, and a damaged one is told as damaged.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::devices::OuterDevice;
use crate::files::{Descriptor, NeededFile, WrittenFile};

/// The format that is written, and the only one that is read.
pub const FORMAT: u32 = 2;

/// The name of the file.
pub const MANIFEST: &str = "manifest";

const HEAD: &str = "oxmpi checkpoint, format ";

/// Why a text is no manifest that can be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    /// It does not begin as one.
    #[error("it is no manifest of a checkpoint")]
    NotOne,
    /// It is of another format.
    #[error(
        "it has format {0}, and this version of OxMPI reads format {FORMAT}: restart with the version that made it"
    )]
    Format(u32),
    /// Its checksum is wrong.
    #[error("it is damaged: its checksum is not the one that it was written with")]
    Damaged,
    /// Its checksum is right, and still it makes no sense.
    #[error("it makes no sense: {0}")]
    Nonsense(String),
}

/// What is known of a set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// When and where it was made.
    pub made: Made,
    /// The job.
    pub job: Job,
    /// Of a job that was imaged rank by rank: its images. `None`: there is one of all processes, `mpirun` among them.
    pub ranks: Option<RankImages>,
    /// Whether the program has saved its state by functions of its own (`cr self`), and there are no images.
    #[serde(default)]
    pub is_own: bool,
    /// The files of the image.
    pub files: Vec<ImageFile>,
    /// The files that the job had open for writing.
    pub written: Vec<WrittenFile>,
    /// The files that it needs as they were: program, libraries, what it reads.
    pub needed: Vec<NeededFile>,
    /// Its sockets that do not let their processes wait, where there is one image of all processes.
    pub nonblocking: Vec<Descriptor>,
    /// Devices that it has open from another mount namespace, where there is one image of all processes.
    #[serde(default)]
    pub devices: Vec<OuterDevice>,
    /// What the checkpoint took.
    pub cost: Cost,
}

/// When and where a set was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    /// Seconds since 1970.
    pub unix_s: u64,
    /// The host's name.
    pub host: String,
    /// The kernel's release.
    pub kernel: String,
    /// Names the time since the host was started.
    pub boot_id: String,
    /// What the processor can do, in the kernel's words.
    pub cpu_features: Vec<String>,
    /// The version of OxMPI.
    pub oxmpi: String,
    /// The version of CRIU; empty if it has made no image. The program is not noted, as a restart
    /// never runs a program that a set names.
    pub criu: String,
}

/// The job of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Names it: the same after a restart.
    pub id: String,
    /// The process number of its mpirun.
    pub mpirun: u32,
    /// mpirun's command line.
    pub command: Vec<String>,
    /// The program of its first rank.
    pub program: String,
    /// The directory in which mpirun was started.
    pub directory: PathBuf,
    /// How many ranks it has.
    pub ranks: u32,
    /// The transport of its messages.
    pub transport: String,
    /// The user that it belongs to.
    pub user: u32,
    /// What mpirun's standard streams are: input, output, errors.
    pub streams: [Stream; 3],
    /// The paths of mpirun's output and errors, where these are regular files.
    #[serde(default)]
    pub output_files: [Option<PathBuf>; 2],
    /// The numbers of all its processes and threads.
    pub tasks: Vec<u32>,
    /// What is done about its checkpoints without being asked, if anything is.
    #[serde(default)]
    pub supervision: Option<Supervision>,
}

/// What the parent of a job's mpirun does about checkpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervision {
    /// It makes one each time that so many milliseconds have passed.
    pub every_ms: Option<u64>,
    /// It makes one when the job is to end by SIGTERM.
    pub on_term: bool,
    /// How many older sets it keeps.
    pub keep: usize,
}

/// What a standard stream of mpirun is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    /// It is closed, or a file that is opened again at a restart.
    File,
    /// A pipe or a socket, by the name that CRIU gives it: a restart puts its own in its place.
    Outside(String),
    /// A terminal: a restart puts its own in its place, or a new one.
    Terminal,
}

/// The images of a job of which each rank has one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankImages {
    /// Each of them, in the order of the ranks.
    pub images: Vec<RankImage>,
    /// Those of mpirun's standard streams that are files: input, output, errors.
    pub streams: [Option<OpenFile>; 3],
    /// Whether mpirun has a parent that looks after its checkpoints.
    pub is_supervised: bool,
}

/// The image of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankImage {
    /// The rank.
    pub rank: u32,
    /// Names the PID namespace in which its processes had their numbers, and would have them again: no two that were there at one
    /// time have one name (see [`crate::origins`]).
    #[serde(default)]
    pub origin: String,
    /// The mark of a guard in the environment of its processes ([`oxmpi_sys::spawn::GUARD_VARIABLE`]): of the launcher or agent that
    /// has started them; empty if they have removed it.
    #[serde(default)]
    pub mark: String,
    /// The numbers of its processes and threads there.
    pub tasks: Vec<u32>,
    /// Its pipes and sockets that lead to mpirun, by the names that CRIU gives them: a restart puts new ones in their place.
    pub outside: Vec<String>,
    /// Its sockets that do not let their processes wait.
    #[serde(default)]
    pub nonblocking: Vec<Descriptor>,
    /// Devices that it has open from another mount namespace.
    #[serde(default)]
    pub devices: Vec<OuterDevice>,
}

impl RankImage {
    /// The name of its directory.
    pub fn directory(&self) -> String {
        format!("rank.{}", self.rank)
    }
}

/// A file that mpirun has open as one of its standard streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFile {
    /// Its path.
    pub path: PathBuf,
    /// How it is open, as of open(2).
    pub flags: u32,
    /// Where in it the next byte is.
    pub position: u64,
}

/// One file of the image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageFile {
    /// Its path in the directory `image`.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// Its checksum by BLAKE3, in hexadecimal digits.
    pub blake3: String,
}

/// What a checkpoint took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// Seconds for which the job stood still; `None` if it was ended.
    pub pause_s: Option<f64>,
    /// Seconds from the question to the complete image.
    pub image_s: f64,
    /// Seconds for checksums, and until everything was on disk.
    pub sync_s: f64,
}

impl Manifest {
    /// How many bytes the image has.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The file.
    ///
    /// # Errors
    /// If something in it has no form as JSON, such as a path that is not UTF-8.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        let body = serde_json::to_string_pretty(self)? + "\n";
        let sum = blake3::hash(body.as_bytes()).to_hex();
        Ok(format!("{HEAD}{FORMAT}, blake3 {sum}\n{body}"))
    }

    /// Reads the file.
    ///
    /// # Errors
    /// See [`ManifestError`].
    pub fn from_text(text: &[u8]) -> Result<Manifest, ManifestError> {
        let end = text.iter().position(|byte| *byte == b'\n').ok_or(ManifestError::NotOne)?;
        let (head, body) = (&text[..end], &text[end + 1..]);
        let head = str::from_utf8(head).ok().and_then(|head| head.strip_prefix(HEAD));
        let (format, sum) =
            head.and_then(|head| head.split_once(", blake3 ")).ok_or(ManifestError::NotOne)?;
        let format: u32 = format.parse().map_err(|_| ManifestError::NotOne)?;
        if format != FORMAT {
            return Err(ManifestError::Format(format));
        }
        if blake3::hash(body).to_hex().as_str() != sum {
            return Err(ManifestError::Damaged);
        }
        serde_json::from_slice(body).map_err(|error| ManifestError::Nonsense(error.to_string()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(crate) fn example() -> Manifest {
        Manifest {
            made: Made {
                unix_s: 1_780_000_000,
                host: "node1".into(),
                kernel: "6.12.0".into(),
                boot_id: "b".into(),
                cpu_features: vec!["avx2".into(), "sse2".into()],
                oxmpi: "0.1.0".into(),
                criu: "4.2.1".into(),
            },
            job: Job {
                id: "3f9c2a1000000000".into(),
                mpirun: 4711,
                command: ["mpirun", "-n", "4", "heat"].map(String::from).into(),
                program: "/home/u/heat".into(),
                directory: "/home/u".into(),
                ranks: 4,
                transport: "shm".into(),
                user: 1000,
                streams: [Stream::File, Stream::Outside("pipe:[7]".into()), Stream::File],
                output_files: [None, Some("/home/u/errors".into())],
                tasks: vec![4711, 4712],
                supervision: Some(Supervision { every_ms: Some(1_800_000), on_term: false, keep: 2 }),
            },
            ranks: Some(RankImages {
                images: vec![RankImage {
                    rank: 0,
                    origin: "boot 7".into(),
                    mark: "00ff".into(),
                    tasks: vec![4712],
                    outside: vec!["socket:[9]".into()],
                    nonblocking: vec![Descriptor { process: 4712, number: 3 }],
                    devices: vec![OuterDevice { name: "file[18:3]".into(), path: "/dev/null".into() }],
                }],
                streams: [None, Some(OpenFile { path: "/o".into(), flags: 0o2001, position: 7 }), None],
                is_supervised: true,
            }),
            is_own: false,
            files: vec![],
            written: vec![],
            needed: vec![],
            nonblocking: vec![Descriptor { process: 4711, number: 6 }],
            devices: vec![],
            cost: Cost { pause_s: Some(0.25), image_s: 0.5, sync_s: 1.0 },
        }
    }

    #[test]
    fn a_manifest_comes_back_as_it_was() {
        let text = example().to_text().unwrap();
        assert_eq!(Manifest::from_text(text.as_bytes()), Ok(example()));
    }

    #[test]
    fn another_format_is_told_as_such() {
        let text = example().to_text().unwrap().replace("format 2,", "format 7,");
        assert_eq!(Manifest::from_text(text.as_bytes()), Err(ManifestError::Format(7)));
        assert_eq!(Manifest::from_text(b"{}\n"), Err(ManifestError::NotOne));
        assert_eq!(Manifest::from_text(b""), Err(ManifestError::NotOne));
    }

    proptest! {
        #[test]
        fn no_change_of_a_byte_goes_unnoticed(at in any::<prop::sample::Index>(), with in 1u8..) {
            let mut text = example().to_text().unwrap().into_bytes();
            let at = at.index(text.len());
            text[at] ^= with;
            prop_assert!(Manifest::from_text(&text).is_err());
        }

        #[test]
        fn no_end_that_is_missing_goes_unnoticed(keep in any::<prop::sample::Index>()) {
            let text = example().to_text().unwrap().into_bytes();
            let keep = keep.index(text.len());
            prop_assert!(Manifest::from_text(&text[..keep]).is_err());
        }

        #[test]
        fn no_text_makes_it_panic(text in any::<Vec<u8>>()) {
            let _ = Manifest::from_text(&text);
        }
    }
}
