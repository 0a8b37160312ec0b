//! The arguments of the command.

use crate::calls::sizes;
use crate::campaign::CampaignSettings;
use crate::simulate::{MACHINE, MAX_RANKS, MAX_WALKED_RANKS, WALKED_RANKS, ranks};
use oxmpi_param::nearest::nearest;
use oxmpi_plan::Collective;
use oxmpi_plan::cost::{LogGp, Machine};
use oxmpi_tuned::collectives::TUNABLE;
use std::path::PathBuf;

/// The text of `oxmpi tune --help`.
pub const HELP: &str = "\
oxmpi tune: finds the fastest algorithm of each collective, and writes a rules file

  --collectives A,B,...  the collectives (all that can be tuned)
  --ranks N,N,...        numbers of ranks (powers of two up to the processors, at least 2 and 4)
  --sizes MIN:MAX        bytes, as of 'oxmpi explain coll --bytes', in steps of four; suffixes k, m (8:1m)
  --time MINUTES         the time limit of the whole run (10)
  --out FILE             the rules file: JSON if it ends in .json, version 2 otherwise (oxmpi-tune.conf; with
                         --resume FILE.state it is FILE)
  --svg FILE             a picture of the winners over sizes and ranks
  --force                overwrite existing files
  --state FILE           the file of all measurements (the name of --out and '.state'; removed at the end)
  --resume STATE         continue the run that has written this state, with its collectives, ranks, sizes, time and
                         parameters
  --mca NAME VALUE       a parameter of the measured jobs, such as 'rpi tcp'
  --simulate NODES:PPN   do not measure: compare by a model of NODES nodes with PPN ranks each, up to 1048576 in all
  --network L,o,g,G      the model's network, in nanoseconds: latency, overhead of a call, gap between messages, time of a
                         byte (1000,200,50,0.08)
  --node L,o,g,G         the same parameters within a node (150,60,30,0.1)
  --compute COPY,REDUCE  nanoseconds for copying a byte, and for combining two bytes (0.1,0.15)
  --walk RANKS           the model walks the plans up to this number of ranks, and uses formulas above: 0 to 4096 (32)

The rules name an algorithm only if it is faster than the library's own choice by more than the noise. They end at the
largest number of ranks that was compared. Use them with
  mpirun --mca coll_tuned_use_dynamic_rules 1 --mca coll_tuned_dynamic_rules_filename FILE ...
";

/// The arguments of the command.
#[derive(Clone, Debug, PartialEq)]
pub struct TuneOptions {
    pub settings: CampaignSettings,
    /// The rules file.
    pub out: PathBuf,
    /// The file of the picture.
    pub svg: Option<PathBuf>,
    /// Whether files may be overwritten.
    pub force: bool,
    /// The state file, if the user names it.
    pub state: Option<PathBuf>,
    /// The state file to resume from.
    pub resume: Option<PathBuf>,
    /// A simulation in place of measurements.
    pub simulated: Option<Simulation>,
}

/// The parameters of a simulation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Simulation {
    pub nodes: u32,
    pub machine: Machine,
    /// The plans are walked up to this number of ranks.
    pub walked_ranks: u32,
}

/// All options.
const OPTIONS: [&str; 16] = [
    "--collectives",
    "--ranks",
    "--sizes",
    "--time",
    "--out",
    "--svg",
    "--force",
    "--state",
    "--resume",
    "--mca",
    "--simulate",
    "--network",
    "--node",
    "--compute",
    "--walk",
    "--help",
];

/// TuneOptions that the state file sets, not allowed with `--resume`.
const STATE_OPTIONS: [&str; 5] = ["--collectives", "--ranks", "--sizes", "--time", "--mca"];
/// TuneOptions of measurements only.
const MEASURE_OPTIONS: [&str; 4] = ["--time", "--state", "--resume", "--mca"];
/// TuneOptions of simulations only.
const SIMULATION_OPTIONS: [&str; 4] = ["--network", "--node", "--compute", "--walk"];

/// Parses the arguments of `oxmpi tune`, on a machine with `processors` processors.
///
/// # Errors
/// The message names the wrong argument, and suggests the most similar option.
pub fn parse(words: &[String], processors: u32) -> Result<TuneOptions, String> {
    let mut given: Vec<&str> = Vec::new();
    let mut collectives: Vec<Collective> = TUNABLE.map(|row| row.collective).to_vec();
    let mut numbers = None;
    let (mut span, mut minutes) = ((8, 1 << 20), 10.0);
    let (mut out, mut svg, mut state, mut resume): (Option<PathBuf>, _, _, Option<PathBuf>) =
        (None, None, None, None);
    let (mut mca, mut shape, mut machine, mut walked_ranks) = (Vec::new(), None, MACHINE, WALKED_RANKS);
    let mut words = words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        given.push(word);
        let mut value = || words.next().ok_or_else(|| format!("{word} needs a value behind it"));
        match word {
            "--collectives" => collectives = named(value()?)?,
            "--ranks" => numbers = Some(list(word, value()?, 2)?),
            "--sizes" => span = sizes_of(value()?)?,
            "--time" => minutes = minutes_of(value()?)?,
            "--out" => out = Some(value()?.into()),
            "--svg" => svg = Some(value()?.into()),
            "--force" => {}
            "--state" => state = Some(value()?.into()),
            "--resume" => resume = Some(value()?.into()),
            "--mca" => {
                let name = value()?;
                let value = words.next().ok_or("--mca needs a name and a value behind it")?;
                // A parameter takes one line of the state file.
                if name.contains(char::is_whitespace) || value.contains('\n') {
                    return Err(format!("--mca '{name}' '{value}': expected a name and a value in one line"));
                }
                mca.push((name.to_string(), value.to_string()));
            }
            "--simulate" => shape = Some(shape_of(value()?)?),
            "--network" => machine.between = level(word, value()?)?,
            "--node" => machine.inside = level(word, value()?)?,
            "--compute" => {
                let text = value()?;
                let [copy, reduce] = times(word, text, "COPY,REDUCE")?;
                (machine.copy_byte_ns, machine.reduce_byte_ns) = (copy, reduce);
            }
            "--walk" => {
                let text = value()?;
                walked_ranks =
                    text.parse().ok().filter(|ranks| *ranks <= MAX_WALKED_RANKS).ok_or_else(|| {
                        format!("--walk {text}: expected a number of ranks from 0 to {MAX_WALKED_RANKS}")
                    })?;
            }
            other => {
                let hint =
                    nearest(other, OPTIONS).map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
                return Err(format!("unknown word '{other}'{hint} ('oxmpi tune --help' lists all)"));
            }
        }
    }
    let both = |one: &str, others: &[&str]| match given.iter().find(|word| others.contains(word)) {
        Some(other) if given.contains(&one) => Err(format!("{other} has no meaning beside {one}")),
        _ => Ok(()),
    };
    both("--simulate", &MEASURE_OPTIONS)?;
    both("--resume", &STATE_OPTIONS)?;
    both("--resume", &["--state"])?;
    if let Some(word) = given.iter().find(|word| SIMULATION_OPTIONS.contains(word) && shape.is_none()) {
        return Err(format!("{word} has no meaning without --simulate"));
    }
    let numbers = match (numbers, shape) {
        (None, Some((nodes, per_node))) => ranks(nodes, per_node),
        (None, None) => ranks(1, processors.max(4)),
        (Some(numbers), Some((nodes, per_node))) => {
            match numbers.iter().find(|ranks| **ranks > nodes * per_node) {
                Some(ranks) => {
                    return Err(format!("--ranks {ranks}: {nodes} nodes have {} ranks", nodes * per_node));
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
    let out = out.unwrap_or_else(|| {
        let of_resumed = resume.as_ref().filter(|state| state.extension().is_some_and(|end| end == "state"));
        of_resumed.map_or_else(|| "oxmpi-tune.conf".into(), |state| state.with_extension(""))
    });
    let simulated = shape.map(|(nodes, ranks_per_node)| Simulation {
        nodes,
        machine: Machine { ranks_per_node, ..machine },
        walked_ranks,
    });
    let settings =
        CampaignSettings { collectives, ranks: numbers, sizes: sizes(span.0, span.1), minutes, mca };
    if settings.cells().is_empty() {
        return Err("there is nothing to compare: all buffers would be longer than 256 MiB".to_string());
    }
    Ok(TuneOptions { settings, out, svg, force: given.contains(&"--force"), state, resume, simulated })
}

/// More ranks than any machine has processors.
const MAX_MEASURED_RANKS: u32 = 4096;

fn named(text: &str) -> Result<Vec<Collective>, String> {
    let known = TUNABLE.map(|row| row.collective);
    let mut all = Vec::new();
    for name in text.split(',') {
        let lower = name.trim().to_ascii_lowercase();
        let plain = lower.strip_prefix("mpi_").unwrap_or(&lower);
        let found = known.into_iter().find(|collective| collective.name() == plain).ok_or_else(|| {
            let hint = nearest(plain, known.map(Collective::name));
            let hint = hint.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
            let known = known.map(Collective::name).join(", ");
            format!(
                "--collectives: there is no collective '{name}' that can be tuned{hint} (there are {known})"
            )
        })?;
        if !all.contains(&found) {
            all.push(found);
        }
    }
    // In the order of rules files.
    all.sort_by_key(|collective| known.iter().position(|other| other == collective));
    Ok(all)
}

fn list(word: &str, text: &str, least: u32) -> Result<Vec<u32>, String> {
    let number = |part: &str| part.trim().parse().ok().filter(|n| (least..=MAX_RANKS).contains(n));
    let mut all: Vec<u32> = text.split(',').map(number).collect::<Option<_>>().ok_or_else(|| {
        format!("{word} {text}: expected whole numbers from {least} to {MAX_RANKS}, with commas between them")
    })?;
    all.sort_unstable();
    all.dedup();
    Ok(all)
}

fn sizes_of(text: &str) -> Result<(usize, usize), String> {
    let number = |text: &str| {
        let lower = text.to_ascii_lowercase();
        let (digits, factor) = match (lower.strip_suffix('k'), lower.strip_suffix('m')) {
            (Some(digits), _) => (digits.to_string(), 1_usize << 10),
            (_, Some(digits)) => (digits.to_string(), 1 << 20),
            _ => (lower, 1),
        };
        digits.parse::<usize>().ok()?.checked_mul(factor).filter(|bytes| (1..=1 << 28).contains(bytes))
    };
    let both = text.split_once(':').and_then(|(min, max)| number(min).zip(number(max)));
    both.filter(|(min, max)| min <= max)
        .ok_or_else(|| format!("--sizes {text}: expected MIN:MAX in bytes, from 1 to 256m, such as 8:64k"))
}

fn minutes_of(text: &str) -> Result<f64, String> {
    let minutes = text.parse().ok().filter(|minutes: &f64| (0.001..=10_000.0).contains(minutes));
    minutes.ok_or_else(|| format!("--time {text}: expected minutes, from 0.001 to 10000"))
}

fn shape_of(text: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| text.parse::<u32>().ok().filter(|n| *n >= 1);
    let both = text.split_once(':').and_then(|(nodes, each)| number(nodes).zip(number(each)));
    let fits = |(nodes, each): &(u32, u32)| {
        nodes.checked_mul(*each).is_some_and(|all| (2..=MAX_RANKS).contains(&all))
    };
    both.filter(fits).ok_or_else(|| {
        format!("--simulate {text}: expected NODES:PPN, such as 64:32, with 2 to {MAX_RANKS} ranks in all")
    })
}

fn level(word: &str, text: &str) -> Result<LogGp, String> {
    let [latency_ns, overhead_ns, gap_ns, byte_ns] = times(word, text, "LATENCY,OVERHEAD,GAP,BYTE")?;
    Ok(LogGp { latency_ns, overhead_ns, gap_ns, byte_ns })
}

fn times<const N: usize>(word: &str, text: &str, what: &str) -> Result<[f64; N], String> {
    let time = |part: &str| part.trim().parse().ok().filter(|time: &f64| (0.0..=1e9).contains(time));
    let all: Option<Vec<f64>> = text.split(',').map(time).collect();
    all.and_then(|all| all.try_into().ok())
        .ok_or_else(|| format!("{word} {text}: expected {what}, in nanoseconds, from 0 to 1000000000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse_line(line: &str) -> Result<TuneOptions, String> {
        parse(&line.split_whitespace().map(String::from).collect::<Vec<_>>(), 8)
    }

    #[test]
    fn every_option_has_a_default() {
        let options = parse_line("").unwrap();
        assert_eq!(options.settings.ranks, [2, 4, 8]);
        assert_eq!((options.settings.sizes[0], options.settings.sizes.last()), (8, Some(&(1 << 20))));
        assert_eq!((options.settings.collectives.len(), options.settings.minutes), (14, 10.0));
        assert_eq!(options.out, PathBuf::from("oxmpi-tune.conf"));
        assert_eq!(options.simulated, None);
        for word in OPTIONS {
            assert!(HELP.contains(word) || word == "--help", "{word}");
        }
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
        let options = parse_line("--simulate 64:32 --network 500,100,20,.04 --compute 0,1 --walk 0").unwrap();
        let simulated = options.simulated.unwrap();
        assert_eq!((simulated.nodes, simulated.machine.ranks_per_node, simulated.walked_ranks), (64, 32, 0));
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
            ("--ranks 1", "--ranks 1: expected whole numbers from 2"),
            ("--ranks 2,x", "--ranks 2,x: expected"),
            ("--ranks 5000", "no more than 4096 are measured"),
            ("--sizes 8", "--sizes 8: expected MIN:MAX"),
            ("--sizes 9:8", "expected MIN:MAX"),
            ("--sizes 0:8", "expected MIN:MAX"),
            ("--time 0", "--time 0: expected minutes"),
            ("--time nan", "expected minutes"),
            ("--out", "--out needs a value"),
            ("--colectives x", "unknown word '--colectives'; did you mean '--collectives'?"),
            ("--simulate 4", "expected NODES:PPN"),
            ("--simulate 1:1", "with 2 to 1048576 ranks"),
            ("--simulate 65536:65536", "with 2 to 1048576 ranks"),
            ("--simulate 2:2 --ranks 8", "--ranks 8: 2 nodes have 4 ranks"),
            ("--simulate 2:2 --time 1", "--time has no meaning beside --simulate"),
            ("--simulate 2:2 --network 1,2,3", "--network 1,2,3: expected LATENCY,OVERHEAD,GAP,BYTE"),
            ("--simulate 2:2 --network 1,2,3,-1", "expected LATENCY"),
            ("--simulate 2:2 --walk 5000", "expected a number of ranks from 0 to 4096"),
            ("--network 1,2,3,4", "--network has no meaning without --simulate"),
            ("--resume f --ranks 2", "--ranks has no meaning beside --resume"),
            ("--resume f --mca rpi tcp", "--mca has no meaning beside --resume"),
            ("--collectives alltoall --ranks 4096 --sizes 1m:1m", "there is nothing to compare"),
        ] {
            let error = parse_line(line).unwrap_err();
            assert!(error.contains(wanted), "{line}: {error}");
        }
    }
}
