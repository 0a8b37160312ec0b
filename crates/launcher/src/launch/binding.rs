//! The processors of each rank: decided before the first rank starts, without system calls.
//!
//! By default the cores that `mpirun` may use are split evenly and in order, so that a rank with
//! threads has cores for them. Nothing is bound where that cannot be right: with more ranks than
//! processors (they must be free to move), or with a limit on processor time in place of processors
//! (the cores are then shared with others).

use oxmpi_rt_proto::process::Bind;
use oxmpi_sys::cpus::Core;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    cores: Vec<Core>,
    /// By rank; empty if nothing is bound.
    sets: Vec<Vec<usize>>,
    reason: String,
    refused: bool,
}

impl Binding {
    pub(super) fn none() -> Binding {
        Binding { cores: Vec::new(), sets: Vec::new(), reason: String::new(), refused: false }
    }

    /// Binds nothing, as the kernel refuses; with a warning if the user has requested a binding.
    pub(super) fn impossible(bind: Bind, error: &std::io::Error) -> Binding {
        let reason = format!("the kernel refuses: {error}");
        Binding { reason, refused: bind != Bind::Split, ..Binding::none() }
    }

    /// Decides for `ranks` ranks on `cores`, with processor time for `usable` processors.
    pub(crate) fn decide(bind: Bind, ranks: usize, cores: Vec<Core>, usable: usize) -> Binding {
        let cpus: usize = cores.iter().map(|core| core.cpus.len()).sum();
        let (count, few) = (cores.len(), plural(cores.len(), "core"));
        let decided = match bind {
            Bind::None => Err(("as requested".to_string(), false)),
            Bind::Split if ranks > usable => {
                Err((format!("{ranks} ranks share {}", plural(usable, "processor")), false))
            }
            Bind::Split if usable < cpus => Err((
                format!("a control group limits the time on {cpus} processors to that of {usable}"),
                false,
            )),
            Bind::Split if ranks <= 1 => Err(("one rank may use all".to_string(), false)),
            Bind::Split if ranks <= count => Ok(split(ranks, &cores.iter().collect::<Vec<_>>())),
            Bind::Split | Bind::HardwareThread if ranks <= cpus => {
                let threads = threads(&cores);
                Ok(threads.into_iter().take(ranks).map(|cpu| vec![cpu]).collect())
            }
            Bind::Package => Ok(within(ranks, &cores, |core| core.package)),
            Bind::Numa => Ok(within(ranks, &cores, |core| core.numa)),
            Bind::Cores(each) if ranks.saturating_mul(each) <= count => {
                Ok(cores.chunks(each).take(ranks).map(all_of).collect())
            }
            Bind::Cores(each) => {
                let wanted =
                    if each == 1 { String::new() } else { format!(" with {each} cores each") };
                Err((format!("{ranks} ranks{wanted} do not fit on {few}"), true))
            }
            Bind::Split | Bind::HardwareThread => {
                Err((format!("{ranks} ranks do not fit on {}", plural(cpus, "processor")), true))
            }
        };
        match decided {
            Ok(sets) => Binding { cores, sets, reason: String::new(), refused: false },
            Err((reason, refused)) => Binding { cores, sets: Vec::new(), reason, refused },
        }
    }

    /// The processors of a rank in the form of [`oxmpi_sys::spawn::Program`]; `None` if it is not
    /// bound.
    pub(super) fn mask(&self, rank: u32) -> Option<Vec<u64>> {
        let cpus = self.sets.get(rank as usize)?;
        let mut mask = vec![0u64; cpus.iter().max()? / 64 + 1];
        cpus.iter().for_each(|cpu| mask[cpu / 64] |= 1 << (cpu % 64));
        Some(mask)
    }

    pub(crate) fn warning(&self) -> Option<String> {
        self.refused.then(|| format!("mpirun: warning: the ranks are not bound: {}\n", self.reason))
    }

    /// The line of --report-bindings for `rank`, the rank with index `at` on this host.
    pub(crate) fn report(&self, at: u32, rank: u32) -> String {
        let Some(cpus) = self.sets.get(at as usize) else {
            return format!("rank {rank} is not bound: {}\n", self.reason);
        };
        let whole: Vec<usize> = (0..)
            .zip(&self.cores)
            .filter(|(_, core)| core.cpus.iter().all(|cpu| cpus.contains(cpu)))
            .map(|(at, _)| at)
            .collect();
        let covered: usize = whole.iter().map(|&at| self.cores[at].cpus.len()).sum();
        let (what, numbers) =
            if covered == cpus.len() { ("core", &whole) } else { ("processor", cpus) };
        let s = if numbers.len() == 1 { "" } else { "s" };
        format!("rank {rank} bound to {what}{s} {}: {}\n", ranges(numbers), self.picture(cpus))
    }

    /// Each package in brackets, with its cores between slashes: `B` is bound, `.` is not; a partly
    /// bound core shows each of its processors.
    fn picture(&self, cpus: &[usize]) -> String {
        let mut out = String::new();
        for package in self.cores.chunk_by(|a, b| a.package == b.package) {
            let cores: Vec<String> = package.iter().map(|core| letters(core, cpus)).collect();
            out += &format!("[{}]", cores.join("/"));
        }
        out
    }
}

fn letters(core: &Core, cpus: &[usize]) -> String {
    let bound = core.cpus.iter().filter(|cpu| cpus.contains(cpu)).count();
    if bound == core.cpus.len() {
        "B".to_string()
    } else if bound == 0 {
        ".".to_string()
    } else {
        core.cpus.iter().map(|cpu| if cpus.contains(cpu) { 'B' } else { '.' }).collect()
    }
}

/// Cuts the cores into `ranks` consecutive pieces, whose sizes differ by at most one.
fn split(ranks: usize, cores: &[&Core]) -> Vec<Vec<usize>> {
    let end = |rank: usize| rank * cores.len() / ranks;
    (0..ranks)
        .map(|r| cores[end(r)..end(r + 1)].iter().flat_map(|core| core.cpus.clone()).collect())
        .collect()
}

/// The cores of each rank: those in the same `part` of the machine as the first core of its share.
fn within(ranks: usize, cores: &[Core], part: fn(&Core) -> usize) -> Vec<Vec<usize>> {
    let of_rank = |rank: usize| {
        let own = cores.get(rank * cores.len() / ranks.max(1)).map(part);
        cores
            .iter()
            .filter(|core| Some(part(core)) == own)
            .flat_map(|core| core.cpus.clone())
            .collect()
    };
    (0..ranks).map(of_rank).collect()
}

fn all_of(cores: &[Core]) -> Vec<usize> {
    cores.iter().flat_map(|core| core.cpus.clone()).collect()
}

fn threads(cores: &[Core]) -> Vec<usize> {
    let most = cores.iter().map(|core| core.cpus.len()).max().unwrap_or(0);
    (0..most).flat_map(|i| cores.iter().filter_map(move |core| core.cpus.get(i).copied())).collect()
}

fn plural(n: usize, what: &str) -> String {
    if n == 1 { format!("1 {what}") } else { format!("{n} {what}s") }
}

fn ranges(numbers: &[usize]) -> String {
    let mut sorted = numbers.to_vec();
    sorted.sort_unstable();
    let runs =
        sorted.chunk_by(|a, b| a + 1 == *b).filter_map(|run| Some((*run.first()?, *run.last()?)));
    let shown = runs.map(|(a, b)| if a == b { a.to_string() } else { format!("{a}-{b}") });
    shown.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Packages of cores with two processors each, numbered as by the kernel: the second ones after
    /// all first ones.
    fn machine(packages: usize, cores: usize) -> Vec<Core> {
        let all = packages * cores;
        let core = |i| Core { package: i / cores, numa: 2 * i / cores, cpus: vec![i, i + all] };
        (0..all).map(core).collect()
    }

    fn single(cores: usize) -> Vec<Core> {
        (0..cores).map(|cpu| Core { package: 0, numa: 0, cpus: vec![cpu] }).collect()
    }

    fn decide(bind: Bind, ranks: usize, cores: Vec<Core>) -> Binding {
        let usable = cores.iter().map(|core| core.cpus.len()).sum();
        Binding::decide(bind, ranks, cores, usable)
    }

    #[test]
    fn the_cores_are_split_evenly_and_in_order() {
        let two = decide(Bind::Split, 2, single(2));
        assert_eq!(two.report(0, 0), "rank 0 bound to core 0: [B/.]\n");
        assert_eq!(two.report(1, 1), "rank 1 bound to core 1: [./B]\n");
        assert_eq!((two.mask(0), two.mask(1)), (Some(vec![1]), Some(vec![2])));
        let three = decide(Bind::Split, 3, machine(2, 4));
        assert_eq!(three.report(0, 0), "rank 0 bound to cores 0-1: [B/B/./.][./././.]\n");
        assert_eq!(three.report(1, 1), "rank 1 bound to cores 2-4: [././B/B][B/././.]\n");
        assert_eq!(three.report(2, 2), "rank 2 bound to cores 5-7: [./././.][./B/B/B]\n");
        assert_eq!(three.mask(0), Some(vec![0b11_0000_0011]));
    }

    #[test]
    fn every_split_uses_each_core_once() {
        for cores in 1..20 {
            for ranks in 2..=cores {
                let binding = decide(Bind::Split, ranks, single(cores));
                let mut all: Vec<usize> = binding.sets.concat();
                all.sort_unstable();
                assert_eq!(all, (0..cores).collect::<Vec<_>>(), "{ranks} on {cores}");
                let sizes: Vec<usize> = binding.sets.iter().map(Vec::len).collect();
                assert!(
                    sizes.iter().max().unwrap() - sizes.iter().min().unwrap() <= 1,
                    "{sizes:?}"
                );
            }
        }
    }

    #[test]
    fn more_ranks_than_cores_take_processors_and_more_than_those_are_not_bound() {
        let six = decide(Bind::Split, 6, machine(1, 4));
        assert_eq!(six.report(0, 0), "rank 0 bound to processor 0: [B./././.]\n");
        assert_eq!(six.report(5, 5), "rank 5 bound to processor 5: [./.B/./.]\n");
        let nine = decide(Bind::Split, 9, machine(1, 4));
        assert_eq!(nine.report(8, 8), "rank 8 is not bound: 9 ranks share 8 processors\n");
        assert_eq!((nine.mask(0), nine.warning()), (None, None));
    }

    #[test]
    fn a_limit_on_time_binds_nothing() {
        let binding = Binding::decide(Bind::Split, 2, single(8), 2);
        assert!(binding.report(0, 0).contains("limits the time on 8 processors to that of 2"));
        assert_eq!(
            Binding::decide(Bind::Cores(1), 2, single(8), 2).mask(1),
            Some(vec![2]),
            "unless requested"
        );
    }

    #[test]
    fn a_requested_binding_is_made_or_refused_with_a_reason() {
        assert_eq!(
            decide(Bind::None, 2, single(2)).report(1, 1),
            "rank 1 is not bound: as requested\n"
        );
        let two = decide(Bind::Cores(2), 2, single(5));
        assert_eq!(two.report(1, 1), "rank 1 bound to cores 2-3: [././B/B/.]\n");
        let six = decide(Bind::HardwareThread, 3, machine(1, 2));
        assert_eq!(six.report(2, 2), "rank 2 bound to processor 2: [.B/.]\n");
        let many = decide(Bind::Cores(2), 3, single(5));
        assert_eq!(
            many.warning().unwrap(),
            "mpirun: warning: the ranks are not bound: 3 ranks with 2 cores each do not fit on 5 cores\n"
        );
        assert!(decide(Bind::HardwareThread, 5, machine(1, 2)).warning().is_some());
    }

    #[test]
    fn ranks_are_bound_to_packages_or_nodes_of_memory() {
        let four = |bind| {
            let binding = decide(bind, 4, machine(2, 4));
            (0..4)
                .map(|rank| binding.report(rank, rank).split_once(": ").unwrap().1.to_string())
                .collect::<String>()
        };
        let packages =
            "[B/B/B/B][./././.]\n[B/B/B/B][./././.]\n[./././.][B/B/B/B]\n[./././.][B/B/B/B]\n";
        assert_eq!(four(Bind::Package), packages);
        let nodes =
            "[B/B/./.][./././.]\n[././B/B][./././.]\n[./././.][B/B/./.]\n[./././.][././B/B]\n";
        assert_eq!(four(Bind::Numa), nodes);
        let many = decide(Bind::Package, 9, single(4));
        assert_eq!(many.report(8, 8), "rank 8 bound to cores 0-3: [B/B/B/B]\n");
    }

    #[test]
    fn processors_beyond_a_word_have_their_bit() {
        let far = vec![
            Core { package: 0, numa: 0, cpus: vec![3] },
            Core { package: 0, numa: 0, cpus: vec![130] },
        ];
        assert_eq!(decide(Bind::Split, 2, far).mask(1), Some(vec![0, 0, 4]));
    }
}
