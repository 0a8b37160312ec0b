//! The tables and pictures of the chapter on collectives (`docs/collectives.md`).

use crate::calls::{Cell, ELEMENT_BYTES, MAX_BUFFER_BYTES, Variant, cells, sizes};
use crate::comparison::Outcome;
use crate::formula::formula;
use crate::picture::draw;
use crate::simulate::{MACHINE, WALKED_RANKS, outcome};
use crate::winner::{Winner, winner};
use oxmpi_plan::cost::Machine;
use oxmpi_plan::table::settled;
use oxmpi_plan::{Action, AlgorithmId, Collective, Generator as _, Parameters, TeamMember, make};
use oxmpi_tuned::collectives::{TUNABLE, Tunable};
use std::fmt::Write as _;

const BEGIN: &str = "<!-- the tables: made by `cargo xtask docs` -->\n";
const END: &str = "<!-- the end of the tables -->\n";

const RANKS_PER_NODE: u32 = 64;
const RANKS: [u32; 9] = [2, 8, 64, 128, 512, 2048, 8192, 65_536, 1 << 20];
const PICTURES: [Collective; 5] = [
    Collective::Allgather,
    Collective::Allreduce,
    Collective::Alltoall,
    Collective::Bcast,
    Collective::Reduce,
];
const COUNTED_RANKS: u32 = 64;
/// Bytes of a call in the tables: enough for 32 segments, and for a part for each rank.
const COUNTED_BYTES: usize = 1 << 20;

/// Replaces the tables in the text of the chapter.
pub fn refreshed(chapter: &str) -> Result<String, String> {
    let parts = chapter
        .split_once(BEGIN)
        .and_then(|(before, rest)| Some((before, rest.split_once(END)?.1)));
    let (before, after) = parts
        .ok_or_else(|| format!("there are no lines '{}' and '{}'", BEGIN.trim(), END.trim()))?;
    Ok(format!("{before}{BEGIN}\n{}{END}{after}", tables()))
}

/// The pictures: file names in `docs/img` and their contents.
pub fn pictures() -> Vec<(String, String)> {
    let machine = Machine { ranks_per_node: RANKS_PER_NODE, ..MACHINE };
    let picture = |collective: &Collective| {
        let all = cells(&[*collective], &RANKS, &sizes(8, 1 << 20), MAX_BUFFER_BYTES);
        let is_settled =
            |variant: &Variant| !variant.algorithm.is_some_and(|id| id.algorithm().is_experiment());
        let settled = |mut outcome: Outcome| {
            outcome.times.retain(|(variant, _)| is_settled(variant));
            outcome
        };
        let outcomes: Vec<Outcome> =
            all.iter().map(|cell| settled(outcome(&machine, cell, WALKED_RANKS))).collect();
        let winners: Vec<Winner> =
            outcomes.iter().filter_map(|outcome| winner(outcome, |_| true)).collect();
        let heading = format!("fastest algorithms by the model, nodes of {RANKS_PER_NODE} ranks");
        (format!("collectives-{collective}.svg"), draw(&heading, &winners))
    };
    PICTURES.iter().map(picture).collect()
}

fn tables() -> String {
    let mut out = String::new();
    for row in TUNABLE {
        let Tunable { collective, id, measure, .. } = row;
        let _ = writeln!(out, "### {collective}\n");
        let unit = match collective {
            Collective::Barrier => "no bytes",
            Collective::Bcast
            | Collective::Reduce
            | Collective::Allreduce
            | Collective::Scan
            | Collective::Exscan => "m: bytes of the vector",
            _ => "m: bytes of one block",
        };
        let _ = writeln!(
            out,
            "{id} in rules files; message size there: {};\n{unit}.\n",
            measure.phrase()
        );
        out += "| id | name | how | needs | settings | most that a rank sends, of 64 | cost | wins |\n";
        out += "|---|---|---|---|---|---|---|---|\n";
        for id in settled(collective) {
            out += &line(id);
        }
        if PICTURES.contains(&collective) {
            let _ = writeln!(
                out,
                "\n![The fastest algorithms of {collective} by the model](img/collectives-{collective}.svg)"
            );
        }
        out.push('\n');
    }
    out
}

fn line(id: AlgorithmId) -> String {
    let row = id.algorithm();
    let needs: Vec<_> =
        row.restrictions.iter().map(|one| one.to_string().replace("it needs ", "")).collect();
    let settings: Vec<_> = row.parameters.iter().map(|one| one.name()).collect();
    let (cost, wins) =
        formula(id).map_or((String::new(), ""), |formula| (formula.text(), formula.wins));
    format!(
        "| {} | `{}` | {} | {} | {} | {} | {cost} | {wins} |\n",
        row.number,
        row.name,
        row.description,
        needs.join(", "),
        settings.join(", "),
        sent(id).unwrap_or_else(|| "-".to_string()),
    )
}

/// The most messages and bytes that any of [`COUNTED_RANKS`] ranks sends; of 2 ranks for an
/// algorithm that serves only two.
fn sent(id: AlgorithmId) -> Option<String> {
    let row = id.algorithm();
    let ranks = [COUNTED_RANKS, 2].into_iter().find(|ranks| row.refusal(*ranks, true).is_none())?;
    let bytes = if row.collective == Collective::Barrier { 0 } else { COUNTED_BYTES };
    let cell = Cell { ranks, collective: row.collective, bytes };
    let unit = if cell.element() == ELEMENT_BYTES { ELEMENT_BYTES } else { 1 };
    let (mut most_messages, mut most_bytes) = (0_usize, 0_usize);
    for rank in 0..ranks {
        let mut plan =
            make(id, TeamMember { rank, size: ranks }, &cell.call()?, &Parameters::default())
                .ok()?;
        let (mut messages, mut bytes) = (0, 0);
        while let Some(step) = plan.next() {
            if let Action::Send { what, .. } = step.action {
                messages += 1;
                bytes += what.len * unit;
            }
        }
        most_messages = most_messages.max(messages);
        most_bytes = most_bytes.max(bytes);
    }
    let messages = if most_messages == 1 {
        "1 message".to_string()
    } else {
        format!("{most_messages} messages")
    };
    if bytes == 0 {
        return Some(messages);
    }
    let factor = format!("{:.2}", most_bytes as f64 / bytes as f64);
    Some(format!("{messages}, {} m", factor.trim_end_matches('0').trim_end_matches('.')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chapter_without_marks_is_an_error() {
        assert!(refreshed("no place").is_err());
    }

    #[test]
    fn figures_are_those_of_the_plans() {
        let of =
            |collective, name| sent(oxmpi_plan::table::by_name(collective, name).unwrap()).unwrap();
        assert_eq!(of(Collective::Bcast, "binomial"), "6 messages, 6 m");
        assert_eq!(of(Collective::Allgather, "ring"), "63 messages, 63 m");
        assert_eq!(of(Collective::Barrier, "bruck"), "6 messages");
        assert_eq!(of(Collective::Allgather, "two_proc"), "1 message, 1 m");
    }
}
