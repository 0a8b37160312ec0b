//! Checkpoints with one image for each rank. The images are made while the launcher holds all
//! ranks, and a new launcher restores them. The old launcher has no image: its state is a file of
//! the set.
//!
//! Connections between the ranks are closed in the images ([`close_sockets`]). Thus the ranks can
//! be restored in any order, and on hosts with other addresses.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use oxmpi_sys::spawn::{GUARD_VARIABLE, PidNamespace, may_make_namespaces};
use rustix::fs::{OFlags, SeekFrom, seek};
use serde::{Deserialize, Serialize};

use crate::commit::{CommitError, Draft, Step, WORK, private_directory};
use crate::criu::{
    Criu, InheritedFolder, Places, close_sockets, has_descriptor_under_way, log_output,
};
use crate::devices::{OuterDevice, devices_of, open_all};
use crate::files::{Descriptor, Policy, Survey, WrittenFile, nonblocking_sockets};
use crate::machine;
pub use crate::making::await_end as await_gone;
use crate::making::{Checkpoint, CheckpointRequest, MakeError, job_of, pause_at, run, turn};
use crate::manifest::{Cost, JobRecord, Manifest, OpenFile, RankImage, RankImages, Stream};
use crate::origins::{NamespaceGroup, NumberSpace, decide};
use crate::restart::{self, FittedFiles, RestartError};
use crate::set::{IMAGE, JobName, Set, SetError};
use crate::tree::{Tree, session_of, with_environment};
use crate::trust::Folder;

pub const STATE: &str = "mpirun";
const ENVIRONMENT: &str = "environment";
const SCHEMA: &str = "appschema";
/// How long a restart waits for the processes of the earlier run to end.
const ENDING: Duration = Duration::from_secs(1);
/// The file with a random word by which other hosts recognise the draft, in its working directory.
const WORD: &str = "word";

/// A rank that is held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StillRank {
    pub number: u32,
    /// The root of the process tree that is imaged.
    pub process: u32,
    /// Pipes and sockets to the launcher.
    pub outside: Vec<String>,
    /// Whether the rank is on another host, which makes its image.
    pub is_far: bool,
}

/// The images that another host made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostImages {
    pub images: Vec<RankImage>,
    pub written: Vec<WrittenFile>,
}

/// Makes the images of ranks on other hosts. The arguments are the directory of the draft and the
/// word in its file [`WORD`]. Returns the images by host.
pub type Elsewhere<'a> =
    dyn Fn(&Path, &str) -> Result<Vec<(String, HostImages)>, String> + Sync + 'a;

/// Returns an error once images are useless. No further image is begun then.
pub type GoesOn<'a> = dyn Fn() -> Result<(), String> + Sync + 'a;

/// The report of the launcher while the ranks are held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StillJob {
    pub ranks: Vec<StillRank>,
    pub listeners: Vec<SocketAddr>,
    pub state: Vec<u8>,
    pub is_supervised: bool,
    /// An app schema that assigns the ranks to hosts.
    pub schema: Option<String>,
}

/// A set that is being made.
#[derive(Debug)]
pub struct Making {
    request: CheckpointRequest,
    _turn: Option<fs::File>,
    job: JobRecord,
    draft: Draft,
    start: Instant,
}

/// A set with all images, not yet published.
#[derive(Debug)]
pub struct Made {
    making: Making,
    manifest: Manifest,
    listeners: Vec<SocketAddr>,
    running: Vec<u32>,
}

impl Making {
    /// Begins a set before the ranks are held. Waits for any other checkpoint of the job to end.
    pub fn begin(request: &CheckpointRequest) -> Result<Making, MakeError> {
        let turn = turn(request.mpirun);
        let start = Instant::now();
        let job = job_of(request).map_err(|error| MakeError::Job(request.mpirun, error))?;
        if session_of(request.mpirun).is_ok_and(|leader| leader == 0) {
            return Err(MakeError::Session(request.mpirun));
        }
        let draft = Draft::begin(&request.base, JobName::new(&request.program, &request.id))?;
        pause_at(Step::Begun);
        Ok(Making { request: request.clone(), _turn: turn, job, draft, start })
    }

    /// Makes the images while all ranks are held. `elsewhere` makes the images of ranks on other
    /// hosts. On an error no part of the set remains.
    pub fn image(
        self,
        criu: &Criu,
        still: &StillJob,
        elsewhere: &Elsewhere<'_>,
        goes_on: &GoesOn<'_>,
    ) -> Result<Made, MakeError> {
        let mpirun = self.request.mpirun;
        let (image, work) = (self.draft.image(), self.draft.work());
        write(image.join(STATE), &still.state)?;
        if let Some(schema) = &still.schema {
            write(image.join(SCHEMA), schema.as_bytes())?;
        }
        let of_job = |error| MakeError::Job(mpirun, error);
        write_environment(mpirun, &image)?;
        let (far, near): (Vec<_>, Vec<_>) =
            still.ranks.iter().cloned().partition(|rank| rank.is_far);
        let word =
            fs::read_to_string("/proc/sys/kernel/random/uuid").map_err(of_job)?.trim().to_string();
        write(work.join(WORD), word.as_bytes())?;
        let directory = image.parent().unwrap_or(&image);
        let request_far =
            || if far.is_empty() { Ok(Vec::new()) } else { elsewhere(directory, &word) };
        let mut running = Vec::new();
        for rank in &near {
            running.extend(Tree::of(rank.process).map_err(of_job)?.tasks);
        }
        let (own, parts) = std::thread::scope(|scope| {
            let far_images = scope.spawn(request_far);
            let own = image_ranks(directory, criu, &near, goes_on);
            (
                own,
                far_images.join().unwrap_or_else(|_| {
                    Err("the thread that requests images of other hosts has failed".into())
                }),
            )
        });
        let (mut images, parts) = (own?, parts.map_err(MakeError::Standing)?);
        let mut survey = Tree::of(mpirun).and_then(|tree| Survey::of(&tree)).map_err(of_job)?;
        for (host, part) in parts {
            let ranks: Vec<u32> = part.images.iter().map(|image| image.rank).collect();
            images.extend(part.images);
            // Files of two hosts can have the same path and the same numbers and still be different
            // files, and two hosts can share a file. So each host has its own entry.
            let seen =
                |file| WrittenFile { host: Some(host.clone()), ranks: ranks.clone(), ..file };
            survey.written.extend(part.written.into_iter().map(seen));
        }
        images.sort_unstable_by_key(|image| image.rank);
        if images.len() != still.ranks.len() {
            let (made, all) = (images.len(), still.ranks.len());
            return Err(MakeError::Standing(format!(
                "there are images of {made} ranks out of {all}"
            )));
        }
        let mut tasks: Vec<u32> = images.iter().flat_map(|image| &image.tasks).copied().collect();
        tasks.sort_unstable();
        let streams = [0, 1, 2].map(|number| open_file(mpirun, number));
        let ranks = RankImages { images, streams, is_supervised: still.is_supervised };
        let cost = Cost { pause_s: None, image_s: self.start.elapsed().as_secs_f64(), sync_s: 0.0 };
        let manifest = Manifest {
            made: machine::here(&criu.version),
            job: JobRecord { tasks, ..self.job.clone() },
            ranks: Some(ranks),
            is_own: false,
            files: Vec::new(),
            written: survey.written,
            needed: survey.needed,
            nonblocking: Vec::new(),
            devices: Vec::new(),
            cost,
        };
        Ok(Made { making: self, manifest, listeners: still.listeners.clone(), running })
    }
}

fn write(path: PathBuf, bytes: &[u8]) -> Result<(), MakeError> {
    Ok(fs::write(&path, bytes).map_err(|error| CommitError::Write(path, error))?)
}

fn write_environment(mpirun: u32, image: &Path) -> Result<(), MakeError> {
    let environment = fs::read(format!("/proc/{mpirun}/environ"));
    write(image.join(ENVIRONMENT), &environment.map_err(|error| MakeError::Job(mpirun, error))?)
}

/// Whether this host sees the draft that another host makes, which has a file with this word.
pub fn is_seen(directory: &Path, word: &str) -> bool {
    // On a host without the draft, this path may lead to a file of any user.
    let found = directory.canonicalize().ok().and_then(|directory| {
        Folder::of_set(&directory).ok()?.read(&Path::new(WORK).join(WORD), word.len() as u64).ok()
    });
    found.is_some_and(|found| found == word.as_bytes())
}

/// Publishes the set of a job whose program saves its state by its own functions. The set has the
/// files that start the job again. `save` calls these functions and returns the app schema, if the
/// job has one. On an error no part of the set remains.
pub fn save<S, E: From<MakeError>>(
    request: &CheckpointRequest,
    is_supervised: bool,
    save: impl FnOnce() -> Result<(S, Option<String>), E>,
) -> Result<(Checkpoint, S), E> {
    let turn = turn(request.mpirun);
    let (start, mpirun) = (Instant::now(), request.mpirun);
    let of_job = |error| MakeError::Job(mpirun, error);
    let job = job_of(request).map_err(of_job)?;
    let mut draft = Draft::begin(&request.base, JobName::new(&request.program, &request.id))
        .map_err(MakeError::from)?;
    pause_at(Step::Begun);
    write_environment(mpirun, &draft.image())?;
    let (saved, schema) = save()?;
    if let Some(schema) = schema {
        write(draft.image().join(SCHEMA), schema.as_bytes())?;
    }
    let survey =
        Survey::of(&Tree { processes: vec![mpirun], tasks: Vec::new() }).map_err(of_job)?;
    let streams = [0, 1, 2].map(|number| open_file(mpirun, number));
    let seconds = start.elapsed().as_secs_f64();
    let manifest = Manifest {
        made: machine::here(""),
        job,
        ranks: Some(RankImages { images: Vec::new(), streams, is_supervised }),
        is_own: true,
        files: Vec::new(),
        written: survey.written,
        needed: Vec::new(),
        nonblocking: Vec::new(),
        devices: Vec::new(),
        cost: Cost { pause_s: (!request.ends).then_some(0.0), image_s: seconds, sync_s: 0.0 },
    };
    let published =
        draft.publish(manifest, request.keep, &mut pause_at).map_err(MakeError::from)?;
    let set = Set::open(&published.path).map_err(MakeError::from)?;
    drop(turn);
    Ok((Checkpoint { set, seconds: start.elapsed().as_secs_f64(), left: published.left }, saved))
}

/// Makes the images of this host's held ranks for the set of another host. `directory` is the
/// draft, or an empty directory whose files are then sent to the other host.
pub fn image_part(
    directory: &Path,
    criu: &Criu,
    ranks: &[StillRank],
    goes_on: &GoesOn<'_>,
) -> Result<HostImages, MakeError> {
    for within in [IMAGE, WORK].map(|name| directory.join(name)) {
        let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(&within);
        made.map_err(|error| CommitError::Write(within, error))?;
    }
    let images = image_ranks(directory, criu, ranks, goes_on)?;
    let (mut processes, mut tasks) = (Vec::new(), Vec::new());
    for rank in ranks {
        let tree = Tree::of(rank.process).map_err(|error| MakeError::Job(rank.process, error))?;
        processes.extend(tree.processes);
        tasks.extend(tree.tasks);
        // The host that publishes the set might not yet see files that are not on disk.
        let image = directory.join(IMAGE).join(format!("rank.{}", rank.number));
        let sync = |path: &Path| fs::File::open(path).and_then(|file| file.sync_all());
        let synced = fs::read_dir(&image).and_then(|all| {
            all.into_iter().try_for_each(|entry| entry.and_then(|entry| sync(&entry.path())))
        });
        synced.map_err(|error| CommitError::Write(image, error))?;
    }
    let survey = Survey::of(&Tree { processes, tasks });
    let survey =
        survey.map_err(|error| MakeError::Standing(format!("/proc cannot be read: {error}")))?;
    Ok(HostImages { images, written: survey.written })
}

/// Makes the images of this host's ranks, at most one per processor at a time.
fn image_ranks(
    directory: &Path,
    criu: &Criu,
    ranks: &[StillRank],
    goes_on: &GoesOn<'_>,
) -> Result<Vec<RankImage>, MakeError> {
    let (mut trees, mut spaces) = (Vec::new(), Vec::new());
    for rank in ranks {
        let of_rank = |error| MakeError::Job(rank.process, error);
        trees.push((rank.number, Tree::of(rank.process).map_err(of_rank)?));
        spaces.push(NumberSpace::of(rank.process).map_err(of_rank)?);
    }
    let devices = trees.iter().map(|(_, tree)| devices_of(&tree.processes));
    let devices = devices.collect::<Result<Vec<_>, _>>()?;
    let shared = shared_memory(&trees);
    let shared =
        shared.map_err(|error| MakeError::Standing(format!("/proc cannot be read: {error}")))?;
    if let Some((one, other)) = shared {
        return Err(MakeError::Shared(one, other));
    }
    let at_once = std::thread::available_parallelism().map_or(1, usize::from).min(ranks.len());
    let next = AtomicUsize::new(0);
    let work = || {
        std::iter::from_fn(|| {
            let at = next.fetch_add(1, Ordering::Relaxed);
            ranks.get(at).zip(devices.get(at)).zip(spaces.get(at))
        })
        .try_for_each(|((rank, devices), space)| {
            goes_on().map_err(MakeError::Standing)?;
            image_one(directory, criu, (rank, devices), space)
        })
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once).map(|_| scope.spawn(work)).collect();
        let failed = |_| Err(MakeError::Standing("a thread that ran CRIU has failed".into()));
        let mut results = threads.into_iter().map(|thread| thread.join().unwrap_or_else(failed));
        results.try_for_each(|result| result)
    })?;
    let image = |((rank, (_, tree)), space): ((&StillRank, (u32, Tree)), &NumberSpace)| {
        let of_rank = |error| MakeError::Job(rank.process, error);
        let tasks =
            tree.tasks.iter().map(|task| space.inside(*task)).collect::<io::Result<Vec<_>>>();
        let nonblocking = nonblocking_sockets(&tree).map_err(of_rank)?.into_iter();
        let nonblocking = nonblocking
            .map(|socket| Ok(Descriptor { process: space.inside(socket.process)?, ..socket }))
            .collect::<io::Result<Vec<_>>>();
        Ok(RankImage {
            rank: rank.number,
            origin: space.name.clone(),
            mark: mark_of(&tree.processes).map_err(of_rank)?,
            tasks: tasks.map_err(of_rank)?,
            outside: rank.outside.clone(),
            nonblocking: nonblocking.map_err(of_rank)?,
            devices: Vec::new(),
        })
    };
    let images = ranks.iter().zip(trees).zip(&spaces).map(image);
    let with_devices = |(image, devices): (Result<RankImage, MakeError>, Vec<OuterDevice>)| {
        Ok(RankImage { devices, ..image? })
    };
    images.zip(devices).map(with_devices).collect()
}

/// The mark of a guard in the environment of these processes; empty without a mark.
fn mark_of(processes: &[u32]) -> io::Result<String> {
    for process in processes {
        let environment = fs::read(format!("/proc/{process}/environ"))?;
        let mut words = environment.split(|byte| *byte == 0);
        let is_name = |word: &[u8]| {
            word.strip_prefix(GUARD_VARIABLE.as_bytes())?.strip_prefix(b"=").map(<[u8]>::to_vec)
        };
        if let Some(mark) = words.find_map(is_name) {
            return Ok(String::from_utf8_lossy(&mark).into_owned());
        }
    }
    Ok(String::new())
}

fn image_one(
    directory: &Path,
    criu: &Criu,
    (rank, devices): (&StillRank, &[OuterDevice]),
    space: &NumberSpace,
) -> Result<(), MakeError> {
    let name = format!("rank.{}", rank.number);
    let (image, work) = (directory.join(IMAGE).join(&name), directory.join(WORK).join(&name));
    for directory in [&image, &work] {
        private_directory(directory)
            .map_err(|error| CommitError::Write(directory.clone(), error))?;
    }
    let places = Places { image: &image, work: &work, action: None };
    let outside = rank.outside.iter().cloned().map(Stream::Outside);
    let outside: Vec<Stream> = outside.chain(devices.iter().map(OuterDevice::stream)).collect();
    let process =
        space.inside(rank.process).map_err(|error| MakeError::Job(rank.process, error))?;
    // Inside its namespace CRIU sees only the numbers of that namespace.
    let command = criu.dump(process, &places, &outside, false);
    let named = || format!("rank {}", rank.number);
    if !run(criu, command, &work, space.namespace.as_ref(), named)? {
        return Err(MakeError::Rank(rank.number, criu.failure(&work, true)));
    }
    if has_descriptor_under_way(&image) {
        let why = "open files are on their way between its processes over a local socket, and CRIU does not bring those back: try again";
        return Err(MakeError::Image(rank.number, why.into()));
    }
    Ok(())
}

impl Made {
    /// The imaged processes and threads of this host, by their numbers on this host.
    pub fn running(&self) -> &[u32] {
        &self.running
    }

    /// Publishes the set. `pause_s` is the time for which the ranks were held; `None` if the job
    /// ends. On an error no part of the set remains.
    pub fn publish(mut self, pause_s: Option<f64>) -> Result<Checkpoint, MakeError> {
        let Made { making, manifest, listeners, .. } = &mut self;
        for rank in manifest.ranks.iter().flat_map(|ranks| &ranks.images) {
            let image = making.draft.image().join(rank.directory());
            close_sockets(&image, listeners)
                .map_err(|error| MakeError::Image(rank.rank, error.to_string()))?;
        }
        manifest.cost.pause_s = pause_s;
        let published =
            making.draft.publish(manifest.clone(), making.request.keep, &mut pause_at)?;
        let seconds = making.start.elapsed().as_secs_f64();
        Ok(Checkpoint { set: Set::open(&published.path)?, seconds, left: published.left })
    }
}

/// Two ranks that share memory, or an open file without a name. A restart would duplicate it.
fn shared_memory(trees: &[(u32, Tree)]) -> io::Result<Option<(u32, u32)>> {
    let mut owners = BTreeMap::new();
    for (rank, tree) in trees {
        for process in &tree.processes {
            let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
            for shared in nameless_in(&maps).chain(nameless_open(*process)?) {
                let owner = *owners.entry(shared).or_insert(*rank);
                if owner != *rank {
                    return Ok(Some((owner, *rank)));
                }
            }
        }
    }
    Ok(None)
}

fn nameless_open(process: u32) -> io::Result<Vec<(String, u64)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(format!("/proc/{process}/fd"))? {
        // Some descriptors have no metadata, or belong to no file system.
        let Ok(metadata) = fs::metadata(entry?.path()) else { continue };
        if metadata.is_file() && metadata.nlink() == 0 {
            let device = metadata.dev();
            let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
            all.push((format!("{major:02x}:{minor:02x}"), metadata.ino()));
        }
    }
    Ok(all)
}

/// The shared mappings of unnamed files in `/proc/PID/maps`, by device and inode.
fn nameless_in(maps: &str) -> impl Iterator<Item = (String, u64)> + '_ {
    maps.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (rights, _, device, inode) =
            (words.next()?, words.next()?, words.next()?, words.next()?);
        let is_it = rights.ends_with('s') && line.ends_with(" (deleted)");
        is_it.then_some((device.to_string(), inode.parse().ok()?))
    })
}

fn open_file(process: u32, number: u32) -> Option<OpenFile> {
    let path = fs::read_link(format!("/proc/{process}/fd/{number}"))
        .ok()
        .filter(|path| path.is_absolute())?;
    let info = fs::read_to_string(format!("/proc/{process}/fdinfo/{number}")).ok()?;
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let flags = u32::from_str_radix(field("flags:")?, 8).ok()?;
    Some(OpenFile { path, flags, position: field("pos:")?.parse().ok()? })
}

/// The saved state of the launcher.
pub fn state(set: &Set) -> Result<Vec<u8>, SetError> {
    set.read(STATE)
}

/// The app schema of a set, if it has one.
pub fn schema(set: &Set) -> Option<PathBuf> {
    Some(set.image().join(SCHEMA)).filter(|file| file.exists())
}

/// The environment of the launcher, as words `NAME=VALUE`.
pub fn environment(set: &Set) -> Result<Vec<Vec<u8>>, SetError> {
    let bytes = set.read(ENVIRONMENT)?;
    let words = bytes.split(|byte| *byte == 0).filter(|word| word.contains(&b'='));
    Ok(words.map(<[u8]>::to_vec).collect())
}

/// The standard streams for the new launcher. Files are opened again at their positions. `None`
/// stands for a stream that the restart replaces by its own. An error has the path of the file.
pub fn streams(set: &Set) -> Result<[Option<OwnedFd>; 3], (PathBuf, io::Error)> {
    let mut all: [Option<OwnedFd>; 3] = Default::default();
    let Some(ranks) = &set.manifest.ranks else { return Ok(all) };
    for at in 0..3 {
        let (Some(file), Stream::File) = (&ranks.streams[at], &set.manifest.job.streams[at]) else {
            continue;
        };
        let open = || {
            // Two streams that were one open file share one position.
            if let Some(same) = (0..at).find(|other| ranks.streams[*other].as_ref() == Some(file))
                && let Some(fd) = &all[same]
            {
                return fd.try_clone();
            }
            let flags = OFlags::from_bits_retain(file.flags);
            let mode = flags & OFlags::ACCMODE;
            let mut options = fs::OpenOptions::new();
            options.read(mode == OFlags::RDONLY || mode == OFlags::RDWR);
            options.write(mode != OFlags::RDONLY);
            options.custom_flags(
                (flags & (OFlags::APPEND | OFlags::SYNC | OFlags::NONBLOCK)).bits().cast_signed(),
            );
            let opened = options.open(&file.path)?;
            if opened.metadata()?.is_file() {
                seek(opened.as_fd(), SeekFrom::Start(file.position))?;
            }
            Ok(opened.into())
        };
        all[at] = Some(open().map_err(|error| (file.path.clone(), error))?);
    }
    Ok(all)
}

/// Whether these ranks can be restored on this host.
pub fn check(set: &Set, ranks: &[u32]) -> Result<(), RestartError> {
    let directories: Vec<String> = ranks.iter().map(|rank| format!("rank.{rank}/")).collect();
    set.verify_of(true, |name| directories.iter().any(|directory| name.starts_with(directory)))?;
    restart::check_processor(set)
}

/// Groups of these ranks that need a PID namespace on this host for their process numbers, with one
/// namespace per group. Fails if a namespace is needed and this process may not make one.
pub fn apart(set: &Set, ranks: &[u32]) -> Result<Vec<NamespaceGroup>, RestartError> {
    let images: Vec<&RankImage> = images_of(set, ranks).collect();
    let tasks: Vec<u32> = images.iter().flat_map(|image| &image.tasks).copied().collect();
    // There is no need to wait for processes that use the numbers: a PID namespace helps at once.
    let taken = restart::await_numbers(&tasks, Duration::ZERO);
    decide(&images, &taken, may_make_namespaces())
}

/// The marks in the environment of the job's ranks ([`GUARD_VARIABLE`]), one of each launcher or
/// agent that started ranks.
pub fn marks(set: &Set) -> Vec<String> {
    let all = set.manifest.ranks.iter().flat_map(|all| &all.images);
    let marks: BTreeSet<&String> =
        all.map(|image| &image.mark).filter(|mark| !mark.is_empty()).collect();
    marks.into_iter().cloned().collect()
}

/// Fails with [`RestartError::Runs`] if a process with one of these marks still runs: the job would
/// run twice, and both runs would write to its files. A killed process may need a moment to end.
pub fn check_ended(marks: &[String]) -> Result<(), RestartError> {
    let marks = marks.iter().filter(|mark| !mark.is_empty());
    let words: Vec<String> = marks.map(|mark| format!("{GUARD_VARIABLE}={mark}")).collect();
    let start = Instant::now();
    loop {
        if words.is_empty() {
            return Ok(());
        }
        let found =
            with_environment(&words).map_err(|error| kernel("/proc cannot be read", error))?;
        if found.is_empty() {
            return Ok(());
        }
        if start.elapsed() > ENDING {
            return Err(RestartError::Runs(restart::named(&found)));
        }
        std::thread::sleep(ENDING / 50);
    }
}

/// Brings the files of ranks that were on another host than their launcher to their lengths at the
/// checkpoint. Files that this host does not have are left to CRIU, which reports them. On an error
/// all files are unchanged.
pub fn fit_files(set: &Set, ranks: &[u32], policy: Policy) -> Result<FittedFiles, RestartError> {
    let is_of = |file: &WrittenFile| {
        file.host.is_some() && file.ranks.iter().any(|rank| ranks.contains(rank))
    };
    restart::fit_files_of(set, policy, is_of)
}

fn images_of<'s>(set: &'s Set, ranks: &'s [u32]) -> impl Iterator<Item = &'s RankImage> {
    let all = set.manifest.ranks.iter().flat_map(|all| &all.images);
    all.filter(|image| ranks.contains(&image.rank))
}

/// Descriptors of this process that CRIU inherits for one rank, in place of its pipes and sockets.
#[derive(Clone, Debug)]
pub struct Given<'n> {
    pub rank: u32,
    pub namespace: Option<&'n PidNamespace>,
    /// Descriptor and CRIU's name.
    pub descriptors: Vec<(i32, String)>,
}

/// Restores ranks as stopped children of this thread. CRIU's logs go to the directory `work`. On an
/// error some ranks may exist.
pub fn bring_back(
    set: &Set,
    criu: &Criu,
    work: &Path,
    given: &[Given<'_>],
) -> Result<(), RestartError> {
    // A rank in a namespace also gets a number outside of the namespace. The kernel could choose a
    // number that another rank needs, so ranks with namespaces are restored last.
    let (apart, here): (Vec<&Given<'_>>, Vec<_>) =
        given.iter().partition(|rank| rank.namespace.is_some());
    restore_all(set, criu, work, &here)?;
    restore_all(set, criu, work, &apart)?;
    for rank in given {
        for descriptor in images_of(set, &[rank.rank]).flat_map(|image| &image.nonblocking) {
            let process = match rank.namespace {
                Some(namespace) => namespace.number_outside(descriptor.process),
                None => Some(descriptor.process),
            };
            let gone = || io::Error::from(io::ErrorKind::NotFound);
            let done = process
                .ok_or_else(gone)
                .and_then(|process| Descriptor { process, ..*descriptor }.set_nonblocking());
            done.map_err(|error| {
                kernel(&format!("a socket of process {}", descriptor.process), error)
            })?;
        }
    }
    Ok(())
}

fn restore_all(
    set: &Set,
    criu: &Criu,
    work: &Path,
    given: &[&Given<'_>],
) -> Result<(), RestartError> {
    let at_once = std::thread::available_parallelism().map_or(1, usize::from);
    let mut running: Vec<(u32, PathBuf, Child)> = Vec::new();
    let end = |running: &mut Vec<(u32, PathBuf, Child)>| {
        let (rank, work, mut child) = running.remove(0);
        let status = child.wait().map_err(|error| kernel("CRIU cannot be waited for", error))?;
        if status.success() {
            Ok(())
        } else {
            Err(RestartError::Rank(rank, criu.failed_restore(&work, status)))
        }
    };
    let mut result = Ok(());
    for rank in given {
        // A restored process ends with the thread that started it (PR_SET_PDEATHSIG).
        result = if running.len() < at_once { result } else { result.and(end(&mut running)) };
        if result.is_err() {
            break;
        }
        match begin(set, criu, work, rank) {
            Ok((work, child)) => running.push((rank.rank, work, child)),
            Err(error) => result = Err(error),
        }
    }
    while !running.is_empty() {
        let ended = end(&mut running);
        result = result.and(ended);
    }
    result
}

fn kernel(what: &str, error: io::Error) -> RestartError {
    RestartError::Kernel(what.into(), error)
}

fn begin(
    set: &Set,
    criu: &Criu,
    work: &Path,
    rank: &Given<'_>,
) -> Result<(PathBuf, Child), RestartError> {
    let name = format!("rank.{}", rank.rank);
    let image = InheritedFolder::new(set.image_folder(Some(&name))?);
    let image = image.map_err(|error| kernel("no descriptor for CRIU", error))?;
    let work = work.join(&name);
    private_directory(&work).map_err(|error| kernel("no directory for CRIU's log", error))?;
    let places = Places { image: image.path(), work: &work, action: None };
    let mut named: Vec<(i32, Stream)> = rank
        .descriptors
        .iter()
        .map(|(number, name)| (*number, Stream::Outside(name.clone())))
        .collect();
    let number = [rank.rank];
    let devices: Vec<&OuterDevice> =
        images_of(set, &number).flat_map(|image| &image.devices).collect();
    let opened = open_all(&devices)?;
    named.extend(opened.iter().zip(&devices).map(|(fd, device)| (fd.as_raw_fd(), device.stream())));
    let numbers: Vec<(i32, &Stream)> =
        named.iter().map(|(number, stream)| (*number, stream)).collect();
    let mut command: Command = criu.restore(&places, &numbers);
    log_output(&mut command, &work).map_err(|error| kernel("no file for CRIU's output", error))?;
    let started = match rank.namespace {
        Some(namespace) => namespace.spawn(&mut command),
        None => command.spawn(),
    };
    let child = started
        .map_err(|error| kernel(&format!("{} cannot be started", criu.program.display()), error))?;
    Ok((work, child))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_without_a_name_is_known_by_its_number() {
        let maps = "7f0-7f1 rw-s 00000000 00:01 455 /memfd:oxmpi (deleted)\n7f1-7f2 rw-p 0 00:01 456 /x (deleted)\n\
                    7f2-7f3 rw-s 00000000 08:01 9 /data/file\n7f3-7f4 rw-s 0 00:01 7 /dev/zero (deleted)\n7f4-7f5 rw-p 0 0:0 0\n";
        let found: Vec<_> = nameless_in(maps).collect();
        assert_eq!(found, [("00:01".to_string(), 455), ("00:01".to_string(), 7)]);
        let own = Tree::of(std::process::id()).unwrap();
        assert_eq!(shared_memory(&[(0, own.clone()), (0, own.clone())]).unwrap(), None);
        let path = std::env::temp_dir().join(format!("oxmpi-cr-{}-nameless", std::process::id()));
        let file = fs::File::create(&path).unwrap();
        fs::remove_file(&path).unwrap();
        let inode = file.metadata().unwrap().ino();
        assert!(
            nameless_open(std::process::id()).unwrap().iter().any(|(_, found)| *found == inode)
        );
        assert_eq!(shared_memory(&[(0, own.clone()), (1, own)]).unwrap(), Some((0, 1)));
    }

    #[test]
    fn a_job_that_runs_is_known_by_any_of_its_marks() {
        let mark = format!("test-{}", std::process::id());
        let mut child =
            Command::new("/bin/sleep").arg("60").env(GUARD_VARIABLE, &mark).spawn().unwrap();
        // During execve(2) a process has no environment for a moment.
        let (start, found) = (Instant::now(), || mark_of(&[child.id()]).unwrap());
        while found().is_empty() && start.elapsed() < Duration::from_secs(10) {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(found(), mark);
        let marks = [String::new(), "another".into(), mark];
        let text = check_ended(&marks).unwrap_err().to_string();
        assert!(text.starts_with(&format!("the job runs still: {} (sleep)", child.id())), "{text}");
        assert!(check_ended(&marks[..2]).is_ok());
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(check_ended(&marks).is_ok());
    }

    #[test]
    fn a_stream_is_opened_where_it_was() {
        use std::io::{Read as _, Write as _};
        use std::os::fd::AsRawFd as _;
        let path = std::env::temp_dir().join(format!("oxmpi-cr-{}-stream", std::process::id()));
        let mut file = fs::OpenOptions::new().create(true).append(true).open(&path).unwrap();
        file.write_all(b"12345").unwrap();
        let of_it = open_file(std::process::id(), file.as_raw_fd().cast_unsigned()).unwrap();
        assert_eq!((&of_it.path, of_it.position), (&path, 5));
        let reader = fs::File::open(&path).unwrap();
        let mut reading =
            open_file(std::process::id(), reader.as_raw_fd().cast_unsigned()).unwrap();
        reading.position = 3;
        let mut manifest = crate::manifest::tests::example();
        manifest.job.streams = [Stream::File, Stream::File, Stream::File];
        let ranks = RankImages {
            images: Vec::new(),
            streams: [Some(reading), Some(of_it.clone()), Some(of_it)],
            is_supervised: false,
        };
        manifest.ranks = Some(ranks);
        let set = Set { path: "/nonexistent".into(), manifest, passed_over: Vec::new() };
        let [input, output, errors] = streams(&set).unwrap();
        let mut rest = String::new();
        fs::File::from(input.unwrap()).read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "45");
        fs::File::from(output.unwrap()).write_all(b"6").unwrap();
        fs::File::from(errors.unwrap()).write_all(b"7").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"1234567");
        fs::remove_file(&path).unwrap();
        assert_eq!(streams(&set).unwrap_err().0, path);
    }
}
