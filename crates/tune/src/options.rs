//! The arguments of the command.

use crate::calls::sizes;
use crate::campaign::CampaignSettings;
use crate::simulate::{MACHINE, MAX_RANKS, MAX_WALKED_RANKS, WALKED_RANKS, ranks};
use oxmpi_param::bytes;
use oxmpi_param::nearest::nearest;
use oxmpi_plan::Collective;
use oxmpi_plan::cost::{LogGp, Machine};
use oxmpi_tuned::collectives::TUNABLE;
use std::path::PathBuf;

/// Find the fastest algorithm of each collective, and write a rules file
///
/// The rules name an algorithm only if it is faster than the library's own choice by more than the
/// noise. They end at the largest number of ranks that was compared. Use them with 'mpirun --mca
/// coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename FILE ...'.
#[derive(Clone, Debug, clap::Args)]
pub struct TuneArgs {
    /// The collectives, with commas between them (all that can be tuned)
    #[arg(long, value_name = "A,B,...", value_parser = named)]
    collectives: Option<Collectives>,
    /// Numbers of ranks (powers of two up to the processors, at least 2 and 4)
    #[arg(long, value_name = "N,N,...", value_parser = list)]
    ranks: Option<RankCounts>,
    /// Bytes, as of 'oxmpi explain coll --bytes', in steps of four; suffixes k, m
    #[arg(long, value_name = "MIN:MAX", default_value = "8:1m", value_parser = sizes_of)]
    sizes: (usize, usize),
    /// The time limit of the whole run
    #[arg(long, value_name = "MINUTES", default_value = "10", value_parser = minutes_of)]
    time: f64,
    /// The rules file: JSON if it ends in .json, version 2 otherwise (oxmpi-tune.conf; with
    /// --resume FILE.state it is FILE)
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
    /// A picture of the winners over sizes and ranks
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Overwrite existing files
    #[arg(long)]
    force: bool,
    /// The file of all measurements (the name of --out and '.state'; removed at the end)
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Continue the run that has written this state, with its collectives, ranks, sizes, time and
    /// parameters
    #[arg(long, value_name = "STATE")]
    #[arg(conflicts_with_all = ["collectives", "ranks", "sizes", "time", "mca", "state"])]
    resume: Option<PathBuf>,
    /// A parameter of the measured jobs, such as 'rpi tcp'
    #[arg(long, num_args = 2, value_names = ["NAME", "VALUE"], allow_hyphen_values = true)]
    #[arg(action = clap::ArgAction::Append)]
    mca: Vec<String>,
    /// Do not measure: compare by a model of NODES nodes with PPN ranks each, up to 1048576 in all
    #[arg(long, value_name = "NODES:PPN", value_parser = shape_of)]
    #[arg(conflicts_with_all = ["time", "state", "resume", "mca"])]
    simulate: Option<(u32, u32)>,
    /// The model's network, in nanoseconds: latency, overhead of a call, gap between messages, time
    /// of a byte (1000,200,50,0.08)
    #[arg(long, value_name = "L,o,g,G", requires = "simulate", value_parser = level)]
    network: Option<LogGp>,
    /// The same parameters within a node (150,60,30,0.1)
    #[arg(long, value_name = "L,o,g,G", requires = "simulate", value_parser = level)]
    node: Option<LogGp>,
    /// Nanoseconds for copying a byte, and for combining two bytes (0.1,0.15)
    #[arg(long, value_name = "COPY,REDUCE", requires = "simulate", value_parser = compute)]
    compute: Option<(f64, f64)>,
    /// The model walks the plans up to this number of ranks, and uses formulas above: 0 to 4096
    #[arg(long, value_name = "RANKS", requires = "simulate", value_parser = walked)]
    walk: Option<u32>,
}

// clap takes a Vec for an argument that is given several times.
#[derive(Clone, Debug)]
struct Collectives(Vec<Collective>);
#[derive(Clone, Debug)]
struct RankCounts(Vec<u32>);

/// The work that the arguments select.
#[derive(Clone, Debug, PartialEq)]
pub struct TuneOptions {
    pub settings: CampaignSettings,
    pub out: PathBuf,
    pub svg: Option<PathBuf>,
    pub force: bool,
    pub state: Option<PathBuf>,
    pub resume: Option<PathBuf>,
    pub simulated: Option<Simulation>,
}

/// The parameters of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulation {
    pub nodes: u32,
    pub machine: Machine,
    pub walked_ranks: u32,
}

pub(crate) fn options(args: &TuneArgs, processors: u32) -> Result<TuneOptions, String> {
    let pairs = args.mca.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
    let mca: Vec<(String, String)> = pairs.collect();
    // A parameter takes one line of the state file.
    let is_line = |(name, value): &(String, String)| {
        !name.contains(char::is_whitespace) && !value.contains('\n')
    };
    if let Some((name, value)) = mca.iter().find(|pair| !is_line(pair)) {
        return Err(format!("--mca '{name}' '{value}': expected a name and a value in one line"));
    }
    let shape = args.simulate;
    let numbers = args.ranks.as_ref().map(|RankCounts(numbers)| numbers.clone());
    let numbers = match (numbers, shape) {
        (None, Some((nodes, per_node))) => ranks(nodes, per_node),
        (None, None) => ranks(1, processors.max(4)),
        (Some(numbers), Some((nodes, per_node))) => {
            match numbers.iter().find(|ranks| **ranks > nodes * per_node) {
                Some(ranks) => {
                    return Err(format!(
                        "--ranks {ranks}: {nodes} nodes have {} ranks",
                        nodes * per_node
                    ));
                }
                None => numbers,
            }
        }
        (Some(numbers), None) => match numbers.iter().find(|ranks| **ranks > MAX_MEASURED_RANKS) {
            Some(ranks) => {
                return Err(format!(
                    "--ranks {ranks}: no more than {MAX_MEASURED_RANKS} are measured (--simulate)"
                ));
            }
            None => numbers,
        },
    };
    let out = args.out.clone().unwrap_or_else(|| {
        let is_state = |state: &&PathBuf| state.extension().is_some_and(|end| end == "state");
        let resumed = args.resume.as_ref().filter(is_state);
        resumed.map_or_else(|| "oxmpi-tune.conf".into(), |state| state.with_extension(""))
    });
    let (copy_byte_ns, reduce_byte_ns) =
        args.compute.unwrap_or((MACHINE.copy_byte_ns, MACHINE.reduce_byte_ns));
    let between = args.network.unwrap_or(MACHINE.between);
    let inside = args.node.unwrap_or(MACHINE.inside);
    let simulated = shape.map(|(nodes, ranks_per_node)| Simulation {
        nodes,
        machine: Machine { ranks_per_node, between, inside, copy_byte_ns, reduce_byte_ns },
        walked_ranks: args.walk.unwrap_or(WALKED_RANKS),
    });
    let all = || TUNABLE.map(|row| row.collective).to_vec();
    let collectives =
        args.collectives.as_ref().map_or_else(all, |Collectives(named)| named.clone());
    let (least, most) = args.sizes;
    let settings = CampaignSettings {
        collectives,
        ranks: numbers,
        sizes: sizes(least, most),
        minutes: args.time,
        mca,
    };
    if settings.cells().is_empty() {
        return Err(
            "there is nothing to compare: all buffers would be longer than 256 MiB".to_string()
        );
    }
    let (svg, state, resume) = (args.svg.clone(), args.state.clone(), args.resume.clone());
    Ok(TuneOptions { settings, out, svg, force: args.force, state, resume, simulated })
}

/// More ranks than any machine has processors.
const MAX_MEASURED_RANKS: u32 = 4096;

fn named(text: &str) -> Result<Collectives, String> {
    let known = TUNABLE.map(|row| row.collective);
    let mut all = Vec::new();
    for name in text.split(',') {
        let lower = name.trim().to_ascii_lowercase();
        let plain = lower.strip_prefix("mpi_").unwrap_or(&lower);
        let found =
            known.into_iter().find(|collective| collective.name() == plain).ok_or_else(|| {
                let hint = nearest(plain, known.map(Collective::name));
                let hint = hint.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
                let known = known.map(Collective::name).join(", ");
                format!(
                    "there is no collective '{name}' that can be tuned{hint} (there are {known})"
                )
            })?;
        if !all.contains(&found) {
            all.push(found);
        }
    }
    // In the order of rules files.
    all.sort_by_key(|collective| known.iter().position(|other| other == collective));
    Ok(Collectives(all))
}

fn list(text: &str) -> Result<RankCounts, String> {
    let number = |part: &str| part.trim().parse().ok().filter(|n| (2..=MAX_RANKS).contains(n));
    let mut all: Vec<u32> =
        text.split(',').map(number).collect::<Option<_>>().ok_or_else(|| {
            format!("expected whole numbers from 2 to {MAX_RANKS}, with commas between them")
        })?;
    all.sort_unstable();
    all.dedup();
    Ok(RankCounts(all))
}

fn walked(text: &str) -> Result<u32, String> {
    let ranks = text.parse().ok().filter(|ranks| *ranks <= MAX_WALKED_RANKS);
    ranks.ok_or_else(|| format!("expected a number of ranks from 0 to {MAX_WALKED_RANKS}"))
}

fn sizes_of(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| bytes(text).filter(|bytes| (1..=1 << 28).contains(bytes));
    let both = text.split_once(':').and_then(|(min, max)| number(min).zip(number(max)));
    both.filter(|(min, max)| min <= max)
        .ok_or_else(|| "expected MIN:MAX in bytes, from 1 to 256m, such as 8:64k".to_string())
}

fn minutes_of(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok().filter(|minutes: &f64| (0.001..=10_000.0).contains(minutes));
    minutes.ok_or_else(|| "expected minutes, from 0.001 to 10000".to_string())
}

fn shape_of(text: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n >= 1);
    let both = text.split_once(':').and_then(|(nodes, each)| number(nodes).zip(number(each)));
    let fits = |(nodes, each): &(u32, u32)| {
        nodes.checked_mul(*each).is_some_and(|all| (2..=MAX_RANKS).contains(&all))
    };
    both.filter(fits).ok_or_else(|| {
        format!("expected NODES:PPN, such as 64:32, with 2 to {MAX_RANKS} ranks in all")
    })
}

fn level(text: &str) -> Result<LogGp, String> {
    let [latency_ns, overhead_ns, gap_ns, byte_ns] = times(text, "LATENCY,OVERHEAD,GAP,BYTE")?;
    Ok(LogGp { latency_ns, overhead_ns, gap_ns, byte_ns })
}

fn compute(text: &str) -> Result<(f64, f64), String> {
    times(text, "COPY,REDUCE").map(|[copy, reduce]| (copy, reduce))
}

fn times<const N: usize>(text: &str, names: &str) -> Result<[f64; N], String> {
    let time =
        |part: &str| part.trim().parse().ok().filter(|time: &f64| (0.0..=1e9).contains(time));
    let all: Option<Vec<f64>> = text.split(',').map(time).collect();
    all.and_then(|all| all.try_into().ok())
        .ok_or_else(|| format!("expected {names}, in nanoseconds, from 0 to 1000000000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<TuneOptions, String> {
        #[derive(clap::Parser)]
        struct Tune {
            #[command(flatten)]
            args: TuneArgs,
        }
        let words = ["tune"].into_iter().chain(line.split_whitespace());
        let tune =
            <Tune as clap::Parser>::try_parse_from(words).map_err(|error| error.to_string())?;
        options(&tune.args, 8)
    }

    #[test]
    fn every_option_has_a_default() {
        let options = parse_line("").unwrap();
        assert_eq!(options.settings.ranks, [2, 4, 8]);
        assert_eq!(
            (options.settings.sizes[0], options.settings.sizes.last()),
            (8, Some(&(1 << 20)))
        );
        assert_eq!((options.settings.collectives.len(), options.settings.minutes), (14, 10.0));
        assert_eq!(options.out, PathBuf::from("oxmpi-tune.conf"));
        assert_eq!(options.simulated, None);
    }

    #[test]
    fn options_are_parsed() {
        let options = parse_line(
            "--collectives MPI_Bcast,barrier --ranks 4,2,4 --sizes 1k:2m --time 0.5 --mca rpi tcp",
        )
        .unwrap();
        assert_eq!(options.settings.collectives, [Collective::Barrier, Collective::Bcast]);
        assert_eq!((&options.settings.ranks[..], options.settings.sizes[0]), (&[2, 4][..], 1024));
        assert_eq!(options.settings.mca, [("rpi".to_string(), "tcp".to_string())]);
        let options =
            parse_line("--simulate 64:32 --network 500,100,20,.04 --compute 0,1 --walk 0").unwrap();
        let simulated = options.simulated.unwrap();
        assert_eq!(
            (simulated.nodes, simulated.machine.ranks_per_node, simulated.walked_ranks),
            (64, 32, 0)
        );
        assert_eq!(
            simulated.machine.between,
            LogGp { latency_ns: 500.0, overhead_ns: 100.0, gap_ns: 20.0, byte_ns: 0.04 }
        );
        assert_eq!(simulated.machine.reduce_byte_ns, 1.0);
        assert_eq!(options.settings.ranks.last(), Some(&2048));
    }

    #[test]
    fn a_resumed_run_writes_to_the_file_of_its_first_run() {
        let out = |line: &str| parse_line(line).unwrap().out.display().to_string();
        assert_eq!(out("--resume a/my.json.state"), "a/my.json");
        assert_eq!(out("--resume my.json.state --out other"), "other");
        assert_eq!(out("--resume mine"), "oxmpi-tune.conf");
    }

    #[test]
    fn errors_name_the_wrong_option() {
        for (line, wanted) in [
            (
                "--collectives bcats",
                "there is no collective 'bcats' that can be tuned; did you mean 'bcast'?",
            ),
            (
                "--collectives gatherv",
                "there is no collective 'gatherv' that can be tuned; did you mean 'gather'?",
            ),
            ("--ranks 1", "expected whole numbers from 2"),
            ("--ranks 2,x", "expected whole numbers"),
            ("--ranks 5000", "no more than 4096 are measured"),
            ("--sizes 8", "expected MIN:MAX"),
            ("--sizes 9:8", "expected MIN:MAX"),
            ("--sizes 0:8", "expected MIN:MAX"),
            ("--time 0", "expected minutes"),
            ("--time nan", "expected minutes"),
            ("--out", "a value is required for '--out <FILE>'"),
            ("--colectives x", "unexpected argument '--colectives'"),
            ("--simulate 4", "expected NODES:PPN"),
            ("--simulate 1:1", "with 2 to 1048576 ranks"),
            ("--simulate 65536:65536", "with 2 to 1048576 ranks"),
            ("--simulate 2:2 --ranks 8", "--ranks 8: 2 nodes have 4 ranks"),
            ("--simulate 2:2 --time 1", "cannot be used with"),
            ("--simulate 2:2 --network 1,2,3", "expected LATENCY,OVERHEAD,GAP,BYTE"),
            ("--simulate 2:2 --network 1,2,3,-1", "expected LATENCY"),
            ("--simulate 2:2 --walk 5000", "expected a number of ranks from 0 to 4096"),
            ("--network 1,2,3,4", "--simulate <NODES:PPN>"),
            ("--resume f --ranks 2", "cannot be used with"),
            ("--resume f --mca rpi tcp", "cannot be used with"),
            ("--collectives alltoall --ranks 4096 --sizes 1m:1m", "there is nothing to compare"),
        ] {
            let error = parse_line(line).unwrap_err();
            assert!(error.contains(wanted), "{line}: {error}");
        }
    }
}
