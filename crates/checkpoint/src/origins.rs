//! The PID namespaces of the images of a set, and the choice of images that need a namespace of
//! their own at a restart.
//!
//! An image is restored with its old process numbers. An *origin* is the PID namespace of these
//! numbers: that of a host, of a container, or of an earlier restart. Two origins can contain equal
//! numbers, and a process of the new host can use one of them. [`decide`] chooses the origins that
//! get a PID namespace. All other images are restored among the processes of the host.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;

use oxmpi_sys::spawn::{PidNamespace, identity_of};

use crate::manifest::RankImage;
use crate::restart::{RestartError, named};
use crate::tree::Taken;

/// Images of one origin that cannot have their numbers among the processes of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceGroup {
    pub ranks: Vec<u32>,
    pub highest: u32,
    /// The process numbers of the images that are restored among the processes of the host.
    pub needed: Vec<u32>,
    pub conflict: Conflict,
}

/// The reason why a group needs a PID namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conflict {
    Taken(Vec<Taken>),
    /// A rank of another origin keeps the same number.
    Shared {
        one: u32,
        other: u32,
        task: u32,
    },
}

impl NamespaceGroup {
    /// The error of a restart that cannot make PID namespaces.
    pub fn refusal(&self) -> RestartError {
        match &self.conflict {
            Conflict::Taken(taken) => RestartError::NumbersOfRanks(named(taken)),
            Conflict::Shared { one, other, task } => {
                RestartError::SameNumber { one: *one, other: *other, task: *task }
            }
        }
    }

    /// A line for the user.
    pub fn text(&self) -> String {
        let all: Vec<String> = self.ranks.iter().map(u32::to_string).collect();
        let (ranks, go) = match &all[..] {
            [one] => (format!("rank {one}"), "goes"),
            _ => (format!("ranks {}", all.join(", ")), "go"),
        };
        format!("{ranks} {go} on in a PID namespace, as {}", self.reason())
    }

    /// As a part of a sentence.
    pub fn reason(&self) -> String {
        let their = if self.ranks.len() == 1 { "its" } else { "their" };
        let why = match &self.conflict {
            Conflict::Taken(taken) => format!("in use: {}", named(taken)),
            Conflict::Shared { one, task, .. } => format!("those of rank {one} as well: {task}"),
        };
        format!("{their} process numbers are {why}")
    }
}

/// The images that need PID namespaces on a host where the numbers `taken` are in use. Pure. An
/// origin keeps its numbers if none is taken, and none belongs to an origin with a lower rank that
/// keeps its numbers. `can_make` says whether this process can make namespaces. Fails if two images
/// of one origin have the same number, or if a needed namespace cannot be made
/// ([`NamespaceGroup::refusal`]).
pub fn decide(
    images: &[&RankImage],
    taken: &[Taken],
    can_make: bool,
) -> Result<Vec<NamespaceGroup>, RestartError> {
    let mut origins: Vec<(&str, Vec<&RankImage>)> = Vec::new();
    for image in images {
        match origins.iter_mut().find(|(name, _)| *name == image.origin) {
            Some((_, of_it)) => of_it.push(image),
            None => origins.push((&image.origin, vec![image])),
        }
    }
    let mut here: BTreeMap<u32, u32> = BTreeMap::new();
    let mut apart = Vec::new();
    for (_, images) in origins {
        let mut own = BTreeMap::new();
        for image in &images {
            for task in &image.tasks {
                if let Some(one) = own.insert(*task, image.rank) {
                    return Err(RestartError::SameNumber { one, other: image.rank, task: *task });
                }
            }
        }
        let in_use: BTreeSet<u32> = taken.iter().map(|taken| taken.task).collect();
        let conflict = if own.keys().any(|task| in_use.contains(task)) {
            let of_own = taken.iter().filter(|taken| own.contains_key(&taken.task));
            Some(Conflict::Taken(of_own.cloned().collect()))
        } else {
            let shared =
                own.iter().find_map(|(task, other)| Some((*task, *other, *here.get(task)?)));
            shared.map(|(task, other, one)| Conflict::Shared { one, other, task })
        };
        match conflict {
            None => here.extend(own),
            Some(conflict) => {
                let highest = own.keys().next_back().copied().unwrap_or(0);
                apart.push(NamespaceGroup {
                    ranks: images.iter().map(|image| image.rank).collect(),
                    highest,
                    needed: Vec::new(),
                    conflict,
                });
            }
        }
    }
    match apart.first() {
        Some(first) if !can_make => return Err(first.refusal()),
        _ => {}
    }
    apart.iter_mut().for_each(|apart| apart.needed = here.keys().copied().collect());
    Ok(apart)
}

pub(crate) struct NumberSpace {
    /// Unique among all hosts: the kernel's boot ID, and the number of the namespace.
    pub(crate) name: String,
    pub(crate) namespace: Option<PidNamespace>,
}

impl NumberSpace {
    pub(crate) fn of(process: u32) -> io::Result<NumberSpace> {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
        let name = format!("{} {}", boot.trim(), identity_of(process)?);
        Ok(NumberSpace { name, namespace: PidNamespace::of(process)? })
    }

    pub(crate) fn inside(&self, task: u32) -> io::Result<u32> {
        let Some(namespace) = &self.namespace else { return Ok(task) };
        let gone = || io::Error::new(io::ErrorKind::NotFound, format!("process {task} is gone"));
        namespace.number_inside(task).ok_or_else(gone)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(rank: u32, origin: &str, tasks: &[u32]) -> RankImage {
        let (origin, tasks) = (origin.into(), tasks.to_vec());
        let mark = String::new();
        RankImage {
            rank,
            origin,
            mark,
            tasks,
            outside: Vec::new(),
            nonblocking: Vec::new(),
            devices: Vec::new(),
        }
    }

    fn taken(task: u32) -> Taken {
        Taken { task, name: "bash".into() }
    }

    fn groups(images: &[RankImage], used: &[u32]) -> Vec<Vec<u32>> {
        let used: Vec<Taken> = used.iter().copied().map(taken).collect();
        let found = decide(&images.iter().collect::<Vec<_>>(), &used, true).unwrap();
        found.into_iter().map(|apart| apart.ranks).collect()
    }

    #[test]
    fn numbers_that_are_free_and_distinct_are_kept() {
        let images = [image(0, "a", &[10, 11]), image(1, "b", &[12, 13]), image(2, "a", &[14])];
        assert!(groups(&images, &[9, 15]).is_empty());
        assert!(groups(&[], &[9]).is_empty());
    }

    #[test]
    fn the_origin_of_the_lowest_rank_keeps_numbers_that_another_has_as_well() {
        let images = [
            image(0, "a", &[10, 11]),
            image(1, "b", &[12, 13]),
            image(2, "a", &[14]),
            image(3, "b", &[11]),
            image(4, "c", &[12]),
        ];
        // b has its own namespace, so its numbers are free for c.
        assert_eq!(groups(&images, &[]), [[1, 3]]);
        // a has its own namespace, so its numbers are free for b, which then uses the number of c.
        assert_eq!(groups(&images, &[10]), [vec![0, 2], vec![4]]);
        assert_eq!(groups(&images, &[12]), [vec![1, 3], vec![4]]);
        assert_eq!(groups(&images, &[10, 12]), [vec![0, 2], vec![1, 3], vec![4]]);
    }

    #[test]
    fn why_is_said_in_a_line() {
        let images = [
            image(0, "a", &[10]),
            image(1, "b", &[10, 20]),
            image(3, "b", &[11]),
            image(4, "c", &[7]),
        ];
        let all: Vec<&RankImage> = images.iter().collect();
        let found = decide(&all, &[taken(7)], true).unwrap();
        let lines: Vec<String> = found.iter().map(NamespaceGroup::text).collect();
        let wanted = [
            "ranks 1, 3 go on in a PID namespace, as their process numbers are those of rank 0 as well: 10",
            "rank 4 goes on in a PID namespace, as its process numbers are in use: 7 (bash)",
        ];
        assert_eq!(lines, wanted);
        assert_eq!((found[0].highest, &*found[0].needed), (20, &[10][..]));
        let text = decide(&all, &[taken(7)], false).unwrap_err().to_string();
        assert!(
            text.starts_with("ranks 0 and 1 were both process 10, ")
                && text.contains("CAP_SYS_ADMIN"),
            "{text}"
        );
        assert!(found[1].refusal().to_string().contains("7 (bash)"));
    }

    #[test]
    fn one_origin_has_each_number_once() {
        let images = [image(0, "a", &[10, 11]), image(1, "a", &[12]), image(2, "a", &[14, 11])];
        let error = decide(&images.iter().collect::<Vec<_>>(), &[], true).unwrap_err().to_string();
        assert!(error.starts_with("ranks 0 and 2 were both process 11, "), "{error}");
    }
}
