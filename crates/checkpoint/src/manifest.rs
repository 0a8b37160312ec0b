//! The description of a set.
//!
//! The file `manifest` begins with a line `oxmpi checkpoint, format N, blake3 HEX`. HEX is the
//! checksum of the rest, which is JSON. So another format is detected before its JSON is read, and
//! a damaged manifest before its contents are used.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::devices::OuterDevice;
use crate::files::{Descriptor, NeededFile, WrittenFile};

pub const FORMAT: u32 = 2;

pub const MANIFEST: &str = "manifest";

const HEAD: &str = "oxmpi checkpoint, format ";

/// The reason why a text is no usable manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ManifestError {
    #[error("it is no manifest of a checkpoint")]
    NotOne,
    #[error(
        "it has format {0}, and this version of OxMPI reads format {FORMAT}: restart with the version that made it"
    )]
    Format(u32),
    #[error("it is damaged: its checksum is not the one that it was written with")]
    Damaged,
    #[error("its contents are invalid: {0}")]
    Nonsense(String),
}

/// A set's description, the contents of the file `manifest`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    pub made: Made,
    pub job: JobRecord,
    /// `None` if there is one image of all processes, `mpirun` included.
    pub ranks: Option<RankImages>,
    /// Whether the program saved its own state (`cr self`), so that there are no images.
    #[serde(default)]
    pub is_own: bool,
    pub files: Vec<ImageFile>,
    /// The files that the job had open for writing.
    pub written: Vec<WrittenFile>,
    /// Files that must be unchanged: program, libraries, files that the job reads.
    pub needed: Vec<NeededFile>,
    pub nonblocking: Vec<Descriptor>,
    #[serde(default)]
    pub devices: Vec<OuterDevice>,
    pub cost: Cost,
}

/// When and where a set was made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Made {
    pub unix_s: u64,
    pub host: String,
    pub kernel: String,
    /// The kernel's ID of the time since the host was started.
    pub boot_id: String,
    pub cpu_features: Vec<String>,
    pub oxmpi: String,
    /// The version; empty if CRIU made no image. The path of CRIU is not recorded, since a restart
    /// never runs a program that a set names.
    pub criu: String,
}

/// The job of a set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobRecord {
    /// Stays the same after a restart.
    pub id: String,
    pub mpirun: u32,
    pub command: Vec<String>,
    pub program: String,
    pub directory: PathBuf,
    pub ranks: u32,
    pub transport: String,
    /// The user ID of the owner.
    pub user: u32,
    pub streams: [Stream; 3],
    /// mpirun's output and errors, where these are regular files.
    #[serde(default)]
    pub output_files: [Option<PathBuf>; 2],
    /// The numbers of all processes and threads.
    pub tasks: Vec<u32>,
    /// Automatic checkpoints.
    #[serde(default)]
    pub supervision: Option<Supervision>,
}

/// The automatic checkpoints that the supervisor of a job makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervision {
    pub every_ms: Option<u64>,
    /// Whether SIGTERM to the job makes a checkpoint.
    pub on_term: bool,
    pub keep: usize,
}

/// A standard stream of mpirun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Stream {
    File,
    /// A pipe or a socket, by CRIU's name. A restart replaces it by its own stream.
    Outside(String),
    /// A restart replaces it by its own terminal, or a new one.
    Terminal,
}

/// The images of a job that has one for each rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankImages {
    /// In the order of the ranks.
    pub images: Vec<RankImage>,
    pub streams: [Option<OpenFile>; 3],
    /// Whether mpirun has a supervisor.
    pub is_supervised: bool,
}

/// The image of one rank.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RankImage {
    pub rank: u32,
    /// The PID namespace of the process numbers (see [`crate::origins`]). No two namespaces of one
    /// time have the same name.
    #[serde(default)]
    pub origin: String,
    /// The mark in the environment of the rank's processes ([`oxmpi_sys::spawn::GUARD_VARIABLE`]),
    /// from the launcher or agent that started the rank; empty if the program has removed it.
    #[serde(default)]
    pub mark: String,
    pub tasks: Vec<u32>,
    /// CRIU's names of the pipes and sockets to mpirun. A restart replaces them.
    pub outside: Vec<String>,
    #[serde(default)]
    pub nonblocking: Vec<Descriptor>,
    #[serde(default)]
    pub devices: Vec<OuterDevice>,
}

impl RankImage {
    /// The name of the image's directory.
    pub fn directory(&self) -> String {
        format!("rank.{}", self.rank)
    }
}

/// A file that mpirun has open as one of its standard streams.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFile {
    pub path: PathBuf,
    pub flags: u32,
    pub position: u64,
}

/// A file of an image.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageFile {
    /// Relative to the directory `image`.
    pub name: String,
    pub bytes: u64,
    /// In hexadecimal digits.
    pub blake3: String,
}

/// The times of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cost {
    /// While the job was held; `None` if it was ended.
    pub pause_s: Option<f64>,
    /// From the request to the complete image.
    pub image_s: f64,
    /// Checksums, and the wait for the disk.
    pub sync_s: f64,
}

impl Manifest {
    /// The size of the image.
    pub fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.bytes).sum()
    }

    /// The text of the file. Fails for a value without a JSON form, such as a non-UTF-8 path.
    pub fn to_text(&self) -> Result<String, serde_json::Error> {
        let body = serde_json::to_string_pretty(self)? + "\n";
        let sum = blake3::hash(body.as_bytes()).to_hex();
        Ok(format!("{HEAD}{FORMAT}, blake3 {sum}\n{body}"))
    }

    /// Reads the text of the file.
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
            job: JobRecord {
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
                supervision: Some(Supervision {
                    every_ms: Some(1_800_000),
                    on_term: false,
                    keep: 2,
                }),
            },
            ranks: Some(RankImages {
                images: vec![RankImage {
                    rank: 0,
                    origin: "boot 7".into(),
                    mark: "00ff".into(),
                    tasks: vec![4712],
                    outside: vec!["socket:[9]".into()],
                    nonblocking: vec![Descriptor { process: 4712, number: 3 }],
                    devices: vec![OuterDevice {
                        name: "file[18:3]".into(),
                        path: "/dev/null".into(),
                    }],
                }],
                streams: [
                    None,
                    Some(OpenFile { path: "/o".into(), flags: 0o2001, position: 7 }),
                    None,
                ],
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
    fn another_format_is_reported_as_such() {
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
