//! Sets by their names: found, listed, and verified.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::manifest::{ImageFile, MANIFEST, Manifest, ManifestError};

/// The directory of the image in a set.
pub const IMAGE: &str = "image";

/// How much of a file is read at a time.
const PIECE: usize = 1 << 20;

/// The name of a job in the names of its sets: its program, and the first digits of its number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobName(String);

impl JobName {
    /// Of the job with this number, in hexadecimal digits, that runs a program.
    pub fn new(program: &str, id: &str) -> JobName {
        let name = Path::new(program).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() || "_-+".contains(c) { c } else { '_' };
        let name: String = name.chars().map(plain).take(64).collect();
        let name = if name.is_empty() { "job" } else { &name };
        let id: String = id.chars().filter(char::is_ascii_hexdigit).take(8).collect();
        JobName(format!("{name}-{id}"))
    }

    /// The name of its set of this number.
    pub fn set(&self, number: u64) -> String {
        format!("{self}.{number}")
    }

    /// The number of the set that has this name; `None` if it is not one of this job.
    pub fn number(&self, name: &str) -> Option<u64> {
        let number = name.strip_prefix(&self.0)?.strip_prefix('.')?;
        number.parse().ok().filter(|parsed: &u64| parsed.to_string() == number)
    }

    /// The numbers of its sets in a directory, in ascending order.
    ///
    /// # Errors
    /// If the directory cannot be read.
    pub fn numbers(&self, base: &Path) -> io::Result<Vec<u64>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(base)? {
            found.extend(entry?.file_name().to_str().and_then(|name| self.number(name)));
        }
        found.sort_unstable();
        Ok(found)
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Why a set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// There is no such directory.
    #[error("{path}: there is no such set", path = .0.display())]
    Missing(PathBuf),
    /// A file of it cannot be read.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Unreadable(PathBuf, io::Error),
    /// Its manifest is wrong.
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Manifest(PathBuf, ManifestError),
    /// A file of the image is damaged.
    #[error("{path} is damaged: {why}; the set cannot be restarted, older ones of the job may be whole", path = .0.display(), why = .1)]
    Damaged(PathBuf, String),
}

/// A set and what it says of itself.
#[derive(Clone, Debug)]
pub struct Set {
    /// Its directory.
    pub path: PathBuf,
    /// Its manifest.
    pub manifest: Manifest,
}

impl Set {
    /// Opens a set: a directory with a manifest, or the newest one of a job whose name is that of its sets without their number.
    ///
    /// # Errors
    /// See [`SetError`].
    pub fn open(path: &Path) -> Result<Set, SetError> {
        let path = match newest(path) {
            Some(newest) if !path.exists() => newest,
            _ => path.to_path_buf(),
        };
        let path = path.canonicalize().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SetError::Missing(path.clone()),
            _ => SetError::Unreadable(path.clone(), error),
        })?;
        let file = path.join(MANIFEST);
        let text = std::fs::read(&file).map_err(|error| SetError::Unreadable(file.clone(), error))?;
        let manifest = Manifest::from_text(&text).map_err(|error| SetError::Manifest(file, error))?;
        Ok(Set { path, manifest })
    }

    /// By which a set is told from any other: the head of its manifest, which has a checksum of all that it says.
    ///
    /// # Errors
    /// If there is no manifest.
    pub fn mark(path: &Path) -> io::Result<String> {
        let text = std::fs::read(path.join(MANIFEST))?;
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(String::from_utf8_lossy(line).into_owned())
    }

    /// The paths of all its files that are needed to restore these ranks, in its directory.
    pub fn files_of(&self, ranks: &[u32]) -> Vec<PathBuf> {
        let directories: Vec<String> = ranks.iter().map(|rank| format!("rank.{rank}/")).collect();
        let names = self.manifest.files.iter().map(|file| &file.name);
        let needed = names.filter(|name| directories.iter().any(|directory| name.starts_with(directory)));
        [PathBuf::from(MANIFEST)].into_iter().chain(needed.map(|name| Path::new(IMAGE).join(name))).collect()
    }

    /// The directory of its image.
    pub fn image(&self) -> PathBuf {
        self.path.join(IMAGE)
    }

    /// Whether all files of the image are there with their lengths; with `sums`, whether also their contents are what they were.
    ///
    /// # Errors
    /// [`SetError::Damaged`] names the first one that is not.
    pub fn verify(&self, sums: bool) -> Result<(), SetError> {
        self.verify_of(sums, |_| true)
    }

    /// The same of those files alone whose names are wanted.
    ///
    /// # Errors
    /// As [`Set::verify`].
    pub fn verify_of(&self, sums: bool, is_wanted: impl Fn(&str) -> bool) -> Result<(), SetError> {
        for file in self.manifest.files.iter().filter(|file| is_wanted(&file.name)) {
            let path = self.image().join(&file.name);
            let damaged = |why: String| SetError::Damaged(path.clone(), why);
            let is = std::fs::metadata(&path).map_err(|error| damaged(error.to_string()))?;
            if is.len() != file.bytes {
                return Err(damaged(format!("it has {} bytes instead of {}", is.len(), file.bytes)));
            }
            if sums {
                let found = sum(&path).map_err(|error| damaged(error.to_string()))?;
                if found.blake3 != file.blake3 {
                    return Err(damaged("its contents are not what was written".into()));
                }
            }
        }
        Ok(())
    }
}

/// The newest set of a job, by the path of its sets without their number.
fn newest(path: &Path) -> Option<PathBuf> {
    let job = JobName(path.file_name()?.to_str()?.to_string());
    let base = path.parent().filter(|base| !base.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let number = job.numbers(base).ok()?.pop()?;
    Some(base.join(job.set(number)))
}

/// Reads a file and notes its length and checksum, under its last name.
///
/// # Errors
/// If it cannot be read.
pub fn sum(path: &Path) -> io::Result<ImageFile> {
    let mut file = File::open(path)?;
    let (mut hasher, mut piece, mut bytes) = (blake3::Hasher::new(), vec![0; PIECE], 0);
    loop {
        match file.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => {
                hasher.update(&piece[..n]);
                bytes += n as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(ImageFile { name, bytes, blake3: hasher.finalize().to_hex().to_string() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::tests::example;

    #[test]
    fn names_are_plain_and_belong_to_one_job() {
        let job = JobName::new("/home/u/my heat.x", "3f9c2a10deadbeef");
        assert_eq!(job.set(3), "my_heat_x-3f9c2a10.3");
        assert_eq!(job.number("my_heat_x-3f9c2a10.3"), Some(3));
        for other in
            ["my_heat_x-3f9c2a10", "my_heat_x-3f9c2a10.03", "my_heat_x-3f9c2a11.3", ".my_heat_x-3f9c2a10.3"]
        {
            assert_eq!(job.number(other), None, "{other}");
        }
        assert_eq!(JobName::new("", "12").to_string(), "job-12");
    }

    #[test]
    fn the_newest_set_is_found_and_a_damaged_file_is_named() {
        let base = std::env::temp_dir().join(format!("oxmpi-cr-{}-sets", std::process::id()));
        let job = JobName::new("heat", "12345678");
        for number in [2, 10] {
            let image = base.join(job.set(number)).join(IMAGE);
            std::fs::create_dir_all(&image).unwrap();
            let file = image.join("pages-1.img");
            std::fs::write(&file, vec![7; 3 << 20]).unwrap();
            let manifest = Manifest { files: vec![sum(&file).unwrap()], ..example() };
            std::fs::write(base.join(job.set(number)).join(MANIFEST), manifest.to_text().unwrap()).unwrap();
        }
        let set = Set::open(&base.join("heat-12345678")).unwrap();
        assert!(set.path.ends_with("heat-12345678.10"), "{set:?}");
        set.verify(true).unwrap();
        let file = set.image().join("pages-1.img");
        let mut bytes = std::fs::read(&file).unwrap();
        bytes[1 << 20] ^= 1;
        std::fs::write(&file, &bytes).unwrap();
        set.verify(false).unwrap();
        let text = set.verify(true).unwrap_err().to_string();
        assert!(text.contains("pages-1.img is damaged: its contents"), "{text}");
        std::fs::write(&file, &bytes[1..]).unwrap();
        assert!(set.verify(false).unwrap_err().to_string().contains("3145727 bytes instead of 3145728"));
        std::fs::remove_file(&file).unwrap();
        assert!(set.verify(false).unwrap_err().to_string().contains("pages-1.img is damaged: No such file"));
        assert!(matches!(Set::open(&base.join("heat-1")), Err(SetError::Missing(_))));
        std::fs::remove_dir_all(&base).unwrap();
    }
}
