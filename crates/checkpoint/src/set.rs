//! Sets by their names: found, listed, and verified.

use std::ffi::OsStr;
use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use crate::manifest::{ImageFile, MANIFEST, Manifest, ManifestError};
use crate::trust::{Distrust, Folder, TrustError};

pub const IMAGE: &str = "image";

const PIECE: usize = 1 << 20;
const LONGEST: u64 = 1 << 30;

/// A job's part of the names of its sets: the program, and the first digits of the job's ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobName(String);

impl JobName {
    /// The name for a program and an ID in hexadecimal digits.
    pub fn new(program: &str, id: &str) -> JobName {
        let name =
            Path::new(program).file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
        let plain = |c: char| if c.is_ascii_alphanumeric() || "_-+".contains(c) { c } else { '_' };
        let name: String = name.chars().map(plain).take(64).collect();
        let name = if name.is_empty() { "job" } else { &name };
        let id: String = id.chars().filter(char::is_ascii_hexdigit).take(8).collect();
        JobName(format!("{name}-{id}"))
    }

    pub(crate) fn named(name: &str) -> JobName {
        JobName(name.to_string())
    }

    /// The name of the set with this number.
    pub fn set(&self, number: u64) -> String {
        format!("{self}.{number}")
    }

    /// The number of the set with this name; `None` for another job, and for the last number.
    pub fn number(&self, name: &str) -> Option<u64> {
        let digits = self.digits(name)?;
        digits
            .parse()
            .ok()
            .filter(|number: &u64| *number < u64::MAX && number.to_string() == digits)
    }

    fn digits<'n>(&self, name: &'n str) -> Option<&'n str> {
        let digits = name.strip_prefix(&self.0)?.strip_prefix('.')?;
        (!digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())).then_some(digits)
    }

    /// The numbers, ascending, of the sets in a directory that belong to the caller or to root.
    pub fn numbers(&self, base: &Path) -> io::Result<Vec<u64>> {
        let kernel = |error| match error {
            TrustError::Kernel(_, error) => error,
            TrustError::Distrust(distrust) => io::Error::other(distrust.to_string()),
        };
        let folder = Folder::outside(base).map_err(kernel)?;
        let mut found = Vec::new();
        for entry in std::fs::read_dir(base)? {
            let name = entry?.file_name();
            let number = name.to_str().and_then(|name| self.number(name));
            found.extend(number.filter(|_| folder.has_own(&name)));
        }
        found.sort_unstable();
        Ok(found)
    }

    /// The newest usable set in a directory, with a sentence about each skipped newer set.
    fn newest(&self, base: &Path) -> Result<FoundSet, SetError> {
        let unreadable = |error| SetError::Unreadable(base.to_path_buf(), error);
        let base = base.canonicalize().map_err(unreadable)?;
        let (mut numbers, mut passed_over) = (Vec::new(), Vec::new());
        for entry in std::fs::read_dir(&base).map_err(unreadable)? {
            let name = entry.map_err(unreadable)?.file_name();
            let Some(name) = name.to_str() else { continue };
            numbers.extend(self.number(name));
            if let Some(digits) =
                self.digits(name).filter(|digits| digits.parse().unwrap_or(u64::MAX) == u64::MAX)
            {
                let path = base.join(name);
                passed_over.push(format!(
                    "{} is passed over: no set can follow the number {digits}",
                    path.display()
                ));
            }
        }
        numbers.sort_unstable();
        let folder = Folder::base(&base)?;
        while let Some(number) = numbers.pop() {
            let name = self.set(number);
            let manifest =
                folder.folder(OsStr::new(&name)).and_then(|set| set.file(Path::new(MANIFEST)));
            match manifest {
                Err(TrustError::Distrust(distrust)) => {
                    passed_over
                        .push(format!("{} is passed over: {distrust}", base.join(name).display()));
                }
                // A set that root made is unreadable for the job's owner.
                Err(TrustError::Kernel(path, error))
                    if error.kind() == io::ErrorKind::PermissionDenied =>
                {
                    passed_over.push(format!("{} is passed over: {error}", path.display()));
                }
                // If a file is missing, opening the set reports it.
                _ => return Ok(FoundSet { path: Some(base.join(name)), passed_over }),
            }
        }
        Ok(FoundSet { path: None, passed_over })
    }
}

struct FoundSet {
    path: Option<PathBuf>,
    passed_over: Vec<String>,
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The reason why a set cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SetError {
    /// With the reasons why other sets were skipped.
    #[error("{path}: there is no such set{}", .1.iter().map(|why| format!("; {why}")).collect::<String>(), path = .0.display())]
    Missing(PathBuf, Vec<String>),
    #[error(transparent)]
    Distrust(#[from] Distrust),
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Unreadable(PathBuf, io::Error),
    #[error("{path}: {error}", path = .0.display(), error = .1)]
    Manifest(PathBuf, ManifestError),
    #[error("{path} is damaged: {why}", path = .0.display(), why = .1)]
    Damaged(PathBuf, String),
}

impl From<TrustError> for SetError {
    fn from(error: TrustError) -> SetError {
        match error {
            TrustError::Distrust(distrust) => SetError::Distrust(distrust),
            TrustError::Kernel(path, error) => SetError::Unreadable(path, error),
        }
    }
}

/// A set with its manifest. The set belongs to the caller or to root, and no other user can change
/// it.
#[derive(Clone, Debug)]
pub struct Set {
    pub path: PathBuf,
    pub manifest: Manifest,
    /// Sentences about newer sets that were skipped by [`Set::open`] of a job's name.
    pub passed_over: Vec<String>,
}

impl Set {
    /// Opens a set by its directory, or the newest set of a job by the directory's name without the
    /// number.
    pub fn open(path: &Path) -> Result<Set, SetError> {
        let mut found = FoundSet { path: Some(path.to_path_buf()), passed_over: Vec::new() };
        let job = path.file_name().and_then(OsStr::to_str).filter(|_| !path.exists());
        if let Some(job) = job {
            let base =
                path.parent().filter(|base| !base.as_os_str().is_empty()).unwrap_or(Path::new("."));
            if base.is_dir() {
                found = JobName::named(job).newest(base)?;
            }
        }
        let FoundSet { path: Some(newest), passed_over } = found else {
            return Err(SetError::Missing(path.to_path_buf(), found.passed_over));
        };
        let path = newest.canonicalize().map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => SetError::Missing(newest.clone(), Vec::new()),
            _ => SetError::Unreadable(newest.clone(), error),
        })?;
        let text = Folder::of_set(&path)?.read(Path::new(MANIFEST), LONGEST)?;
        let manifest = Manifest::from_text(&text)
            .map_err(|error| SetError::Manifest(path.join(MANIFEST), error))?;
        Ok(Set { path, manifest, passed_over })
    }

    /// The newest set of a job that is older than an unusable set and has all checksums right.
    /// `path` names the unusable set, or the job; with a job, sets of all numbers are tried.
    pub fn whole_before(path: &Path) -> Option<Set> {
        let path = std::path::absolute(path).ok()?;
        let (base, name) = (path.parent()?, path.file_name()?.to_str()?);
        let (job, limit) = match name.rsplit_once('.') {
            Some((job, digits)) if JobName::named(job).number(name).is_some() => {
                (job, digits.parse().ok()?)
            }
            _ => (name, u64::MAX),
        };
        let job = JobName::named(job);
        let numbers = job.numbers(base).ok()?;
        let older = numbers.into_iter().rev().filter(|number| *number < limit);
        older
            .filter_map(|number| Set::open(&base.join(job.set(number))).ok())
            .find(|set| set.verify(true).is_ok())
    }

    /// The unique mark of a set: the first line of its manifest, with the checksum of the rest.
    /// Fails without a manifest, or if another user may have changed it.
    pub fn mark(path: &Path) -> Result<String, SetError> {
        let path =
            path.canonicalize().map_err(|error| SetError::Unreadable(path.to_path_buf(), error))?;
        let text = Folder::of_set(&path)?.read(Path::new(MANIFEST), LONGEST)?;
        let line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        Ok(String::from_utf8_lossy(line).into_owned())
    }

    /// The contents of a file of the image. Fails if another user may have changed the file.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, SetError> {
        Ok(Folder::of_set(&self.path)?.read(&Path::new(IMAGE).join(name), LONGEST)?)
    }

    /// Opens the directory of the image, or the directory `name` in it. Fails if another user may
    /// have changed it.
    pub(crate) fn image_folder(&self, name: Option<&str>) -> Result<Folder, SetError> {
        let image = Folder::of_set(&self.path)?.folder(OsStr::new(IMAGE))?;
        Ok(match name {
            Some(name) => image.folder(OsStr::new(name))?,
            None => image,
        })
    }

    /// The job's part of the set's name.
    pub fn job(&self) -> JobName {
        JobName::new(&self.manifest.job.program, &self.manifest.job.id)
    }

    /// The paths, relative to the set, of the files that restore these ranks.
    pub fn files_of(&self, ranks: &[u32]) -> Vec<PathBuf> {
        let directories: Vec<String> = ranks.iter().map(|rank| format!("rank.{rank}/")).collect();
        let names = self.manifest.files.iter().map(|file| &file.name);
        let needed =
            names.filter(|name| directories.iter().any(|directory| name.starts_with(directory)));
        [PathBuf::from(MANIFEST)]
            .into_iter()
            .chain(needed.map(|name| Path::new(IMAGE).join(name)))
            .collect()
    }

    /// The directory of the image.
    pub fn image(&self) -> PathBuf {
        self.path.join(IMAGE)
    }

    /// Checks the lengths of all image files and, with `sums`, their checksums.
    /// [`SetError::Damaged`] names the first bad file.
    pub fn verify(&self, sums: bool) -> Result<(), SetError> {
        self.verify_of(sums, |_| true)
    }

    /// Checks the image files that `is_wanted` selects.
    pub fn verify_of(&self, sums: bool, is_wanted: impl Fn(&str) -> bool) -> Result<(), SetError> {
        let mut wanted = self.manifest.files.iter().filter(|file| is_wanted(&file.name)).peekable();
        if wanted.peek().is_none() {
            return Ok(());
        }
        let set = Folder::of_set(&self.path)?;
        for file in wanted {
            let relative = Path::new(IMAGE).join(&file.name);
            let damaged = |why: String| SetError::Damaged(self.path.join(&relative), why);
            let (found, bytes) = set.file(&relative).map_err(|error| match error {
                TrustError::Distrust(distrust) => SetError::Distrust(distrust),
                TrustError::Kernel(_, error) => damaged(error.to_string()),
            })?;
            if bytes != file.bytes {
                return Err(damaged(format!("it has {bytes} bytes instead of {}", file.bytes)));
            }
            if sums {
                let (_, sum) = sum_of(found).map_err(|error| damaged(error.to_string()))?;
                if sum != file.blake3 {
                    return Err(damaged("its contents are not what was written".into()));
                }
            }
        }
        Ok(())
    }
}

/// Reads a file; returns its length and checksum under the last part of its path.
pub fn sum(path: &Path) -> io::Result<ImageFile> {
    let (bytes, blake3) = sum_of(File::open(path)?)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(ImageFile { name, bytes, blake3 })
}

fn sum_of(mut file: File) -> io::Result<(u64, String)> {
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
    Ok((bytes, hasher.finalize().to_hex().to_string()))
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
        for other in [
            "my_heat_x-3f9c2a10",
            "my_heat_x-3f9c2a10.03",
            "my_heat_x-3f9c2a11.3",
            ".my_heat_x-3f9c2a10.3",
        ] {
            assert_eq!(job.number(other), None, "{other}");
        }
        assert_eq!(JobName::new("", "12").to_string(), "job-12");
    }

    fn sets(name: &str, numbers: &[u64]) -> (PathBuf, JobName) {
        let base = std::env::temp_dir().join(format!("oxmpi-cr-{}-{name}", std::process::id()));
        let job = JobName::new("heat", "12345678");
        for number in numbers {
            let set = base.join(job.set(*number));
            std::fs::create_dir_all(set.join(IMAGE)).unwrap();
            std::fs::write(set.join(MANIFEST), example().to_text().unwrap()).unwrap();
        }
        (base, job)
    }

    /// A read of a FIFO would block, and /dev/zero has no end.
    #[test]
    fn a_set_whose_manifest_is_no_file_is_passed_over_or_refused() {
        let (base, job) = sets("no-file", &[1, 2, 3, 4]);
        let manifest = |number| base.join(job.set(number)).join(MANIFEST);
        (2..=4).for_each(|number| std::fs::remove_file(manifest(number)).unwrap());
        rustix::fs::mknodat(
            rustix::fs::CWD,
            manifest(2),
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        std::os::unix::fs::symlink("/dev/zero", manifest(3)).unwrap();
        // A link to another set is refused as well.
        std::fs::remove_dir_all(base.join(job.set(4))).unwrap();
        std::os::unix::fs::symlink(base.join(job.set(1)), base.join(job.set(4))).unwrap();
        let set = Set::open(&base.join(job.to_string())).unwrap();
        assert!(set.path.ends_with(job.set(1)), "{set:?}");
        assert_eq!(set.passed_over.len(), 3, "{set:?}");
        for (said, words) in set.passed_over.iter().zip([
            "heat-12345678.4 is a symbolic link",
            "heat-12345678.3/manifest is a symbolic link",
            "heat-12345678.2/manifest is a FIFO",
        ]) {
            assert!(said.contains(" is passed over: ") && said.contains(words), "{said}");
        }
        let refused = Set::open(&base.join(job.set(2))).unwrap_err().to_string();
        assert!(refused.contains("is a FIFO"), "{refused}");
        assert!(Set::mark(&base.join(job.set(3))).is_err());
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_set_of_another_user_is_passed_over_or_refused() {
        if !rustix::process::geteuid().is_root() {
            return;
        }
        let (base, job) = sets("of-another", &[1, 2]);
        let theirs = base.join(job.set(2));
        for path in [theirs.clone(), theirs.join(MANIFEST)] {
            std::os::unix::fs::chown(&path, Some(12345), None).unwrap();
            let set = Set::open(&base.join(job.to_string())).unwrap();
            assert!(set.path.ends_with(job.set(1)), "{set:?}");
            assert!(set.passed_over[0].contains("belongs to user 12345"), "{set:?}");
            let refused = Set::open(&theirs).unwrap_err().to_string();
            assert!(refused.contains("belongs to user 12345"), "{refused}");
            std::os::unix::fs::chown(&path, Some(0), None).unwrap();
        }
        assert_eq!(
            Set::open(&base.join(job.to_string())).unwrap().passed_over,
            Vec::<String>::new()
        );
        std::os::unix::fs::chown(&theirs, Some(12345), None).unwrap();
        assert_eq!(
            job.numbers(&base).unwrap(),
            [1],
            "it is not ours to be removed, nor to be followed"
        );
        std::fs::remove_dir_all(base.join(job.set(1))).unwrap();
        let none = Set::open(&base.join(job.to_string())).unwrap_err().to_string();
        assert!(none.contains("there is no such set; ") && none.contains("user 12345"), "{none}");
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn a_number_that_none_can_follow_is_passed_over() {
        let (base, job) = sets("numbers", &[1, u64::MAX]);
        let set = Set::open(&base.join(job.to_string())).unwrap();
        assert!(set.path.ends_with(job.set(1)), "{set:?}");
        assert!(
            set.passed_over[0].contains("no set can follow the number 18446744073709551615"),
            "{set:?}"
        );
        assert_eq!(job.numbers(&base).unwrap(), [1]);
        assert_eq!(job.number("heat-12345678.18446744073709551616"), None);
        std::fs::remove_dir_all(&base).unwrap();
    }

    #[test]
    fn the_set_before_a_damaged_one_is_the_newest_that_is_whole() {
        let (base, job) = sets("before", &[1, 2, 5, 7]);
        let path = |number| base.join(job.set(number));
        for number in [1, 2, 5, 7] {
            let file = path(number).join(IMAGE).join("core.img");
            std::fs::write(&file, "image").unwrap();
            let manifest = Manifest { files: vec![sum(&file).unwrap()], ..example() };
            std::fs::write(path(number).join(MANIFEST), manifest.to_text().unwrap()).unwrap();
        }
        let before = |named: &Path| Set::whole_before(named).map(|set| set.path);
        assert_eq!(before(&path(7)), path(5).canonicalize().ok());
        assert_eq!(before(&path(5)), path(2).canonicalize().ok());
        std::fs::write(path(7).join(MANIFEST), "nothing").unwrap();
        std::fs::write(path(5).join(IMAGE).join("core.img"), "imagE").unwrap();
        assert_eq!(before(&path(7)), path(2).canonicalize().ok());
        assert_eq!(
            before(&base.join(job.to_string())),
            path(2).canonicalize().ok(),
            "by the name of the job"
        );
        std::fs::remove_dir_all(path(1)).unwrap();
        assert_eq!(before(&path(2)), None);
        assert_eq!(before(Path::new("/nonexistent/heat-1.2")), None);
        std::fs::remove_dir_all(&base).unwrap();
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
            std::fs::write(base.join(job.set(number)).join(MANIFEST), manifest.to_text().unwrap())
                .unwrap();
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
        assert!(
            set.verify(false).unwrap_err().to_string().contains("3145727 bytes instead of 3145728")
        );
        std::fs::remove_file(&file).unwrap();
        assert!(
            set.verify(false)
                .unwrap_err()
                .to_string()
                .contains("pages-1.img is damaged: No such file")
        );
        assert!(matches!(Set::open(&base.join("heat-1")), Err(SetError::Missing(..))));
        std::fs::remove_dir_all(&base).unwrap();
    }
}
