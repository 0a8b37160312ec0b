//! The report: tables in Markdown.

use std::fmt::Write as _;

use super::distance::Distance;
use super::figures::{bytes_text, text};
use super::groups::{BenchGroup, GROUPS};
use super::means;
use super::mpi::title;
use super::results::{At, Results, Row};

/// The most rows at the top in which others are ahead.
const MOST_BEHIND: usize = 12;
/// A lower ratio is a tie: rounds differ by more.
const TIE: f64 = 1.1;
/// At the beginning, a higher load for each core comes from other programs.
const BUSY: f64 = 0.25;
const NONE: &str = "-";

pub(crate) fn report(results: &Results) -> String {
    let mut report = String::from("# OxMPI beside other MPI libraries\n\n");
    head(&mut report, results);
    if results
        .machine
        .loads
        .first()
        .is_some_and(|&load| load > BUSY * f64::from(results.machine.cores))
    {
        report += "\n**Other programs were running: these figures say little.** Measure on an idle machine.\n";
    }
    without_distance(&mut report, results);
    summary(&mut report, results);
    for group in &GROUPS {
        for at in parts(results, group) {
            table(&mut report, results, group, at);
        }
    }
    failures(&mut report, results);
    report
}

fn parts(results: &Results, group: &BenchGroup) -> Vec<At> {
    results.parts_of(group.name)
}

/// `, near`
fn suffix(at: At) -> String {
    at.map_or(String::new(), |distance| format!(", {}", distance.text()))
}

// Writing to a String cannot fail; hence `let _` below.

fn head(report: &mut String, results: &Results) {
    let machine = &results.machine;
    let loads: Vec<String> = machine.loads.iter().map(|load| format!("{load:.1}")).collect();
    let _ = write!(
        report,
        "{}, {} cores, Linux {}. Rounds: {}; load average at the beginning of each: {}.\n\n\
         A figure is the median over the rounds of the program's medians. In the columns with `/`, 1 is equal, below 1 \
         OxMPI is better and 2 is twice the time or memory, or half the rate: the median of OxMPI divided by that of the \
         other. The limit is what two processes reach without MPI.{}\n\n\
         | name | library | settings |\n|---|---|---|\n",
        machine.processor,
        machine.cores,
        machine.kernel,
        results.rounds,
        loads.join(", "),
        distances(results)
    );
    for library in &results.libraries {
        let _ = writeln!(
            report,
            "| {} | {} | {} |",
            title(&library.name),
            library.version,
            library.settings
        );
    }
}

/// The numbers of samples by distance of the cores of 2 ranks.
fn distances(results: &Results) -> String {
    let count = |wanted| results.distances().filter(|&distance| distance == wanted).count();
    let (near, far, between) =
        (count(Distance::Near), count(Distance::Far), count(Distance::Between));
    if GROUPS.iter().any(|group| parts(results, group).len() > 1) {
        let part = |distance| results.line(Some(distance)).map_or(NONE.to_owned(), text);
        format!(
            "\n\nThe two cores of 2 ranks were near each other in {near} samples (a line of the cache went from one to the \
             other in {} us) and far in {far} ({} us), which have tables of their own; in {between} they were moved meanwhile, and \
             these are left out.",
            part(Distance::Near),
            part(Distance::Far)
        )
    } else {
        results.line(None).map_or(String::new(), |value| {
            format!(
                "\n\nA line of the cache went from one core of 2 ranks to the other in {} us; of {} samples {near} were \
                 near and {far} far, and all are counted together.",
                text(value),
                near + far + between
            )
        })
    }
}

/// Names the libraries whose samples are in no table, as the distance of their cores is unknown,
/// while other samples have a distance.
fn without_distance(report: &mut String, results: &Results) {
    let apart = GROUPS.iter().filter(|group| parts(results, group).len() > 1);
    let rows: Vec<&Row> = apart.flat_map(|group| results.rows_of(group.name, None)).collect();
    for library in &results.libraries {
        let samples = rows.iter().filter_map(|row| row.figures.get(&library.name)).flatten();
        let unknown = samples.filter(|sample| sample.distance.is_none()).count();
        if unknown > 0 {
            let _ = writeln!(
                report,
                "\n**{}: in {unknown} samples its ranks could not measure the line between their cores; these are in no \
                 table.**",
                title(&library.name)
            );
        }
    }
}

/// The number of rows in which OxMPI is ahead, and the rows in which it is furthest behind.
fn summary(report: &mut String, results: &Results) {
    let mut rows: Vec<(f64, &Row, At)> = Vec::new();
    for group in &GROUPS {
        for at in parts(results, group) {
            let of_part = results.rows_of(group.name, at);
            rows.extend(
                of_part.filter_map(|row| Some((results.best_other(row, at)?.ratio?, row, at))),
            );
        }
    }
    if rows.is_empty() {
        return;
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let _ = write!(report, "\n## Summary\n\n");
    let is_apart = rows.iter().any(|row| row.2.is_some());
    for (at, of) in [
        (Some(Distance::Near), "rows near"),
        (Some(Distance::Far), "rows far"),
        (None, if is_apart { "other rows" } else { "rows" }),
    ] {
        let ratios = || rows.iter().filter(|row| row.2 == at).map(|row| row.0);
        let behind = ratios().filter(|&ratio| ratio > TIE).count();
        let ahead = ratios().filter(|&ratio| ratio < 1.0 / TIE).count();
        if ratios().next().is_some() {
            let _ = writeln!(
                report,
                "Of {} {of} OxMPI is ahead of the best other in {ahead}, behind in {behind}; the rest is within {:.0} %, a \
                 tie.",
                ratios().count(),
                (TIE - 1.0) * 100.0
            );
        }
    }
    mean_table(report, results);
    let behind = rows.iter().filter(|row| row.0 > TIE).count();
    if behind > 0 {
        let _ = writeln!(
            report,
            "\nFurthest behind:\n\n| group | what | OxMPI / best other |\n|---|---|---|"
        );
    }
    for (ratio, row, at) in rows.iter().take(behind.min(MOST_BEHIND)) {
        let _ =
            writeln!(report, "| {} | {}{} | {} |", row.group, what(row), suffix(*at), text(*ratio));
    }
}

fn mean_table(report: &mut String, results: &Results) {
    let _ = writeln!(
        report,
        "\n| group | kind | rows | geometric mean of OxMPI / best other | rows above {} |\n|---|---|---|---|---|",
        text(means::BEHIND)
    );
    for mean in means::means(results) {
        let (group, kind, at) = (mean.group, mean.kind.unwrap_or("all"), suffix(mean.at));
        let (rows, behind) = (mean.rows, mean.behind);
        let _ =
            writeln!(report, "| {group}{at} | {kind} | {rows} | {} | {behind} |", text(mean.ratio));
    }
}

/// The number of samples of the figures of a table: `3`, or `3 to 5`.
fn samples(rows: &[&Row], at: At) -> String {
    let of_figures = rows.iter().flat_map(|row| row.figures.values());
    let counts = of_figures.map(|samples| samples.iter().filter(|sample| sample.is_in(at)).count());
    let counts: Vec<usize> = counts.filter(|&count| count > 0).collect();
    match (counts.iter().min(), counts.iter().max()) {
        (Some(least), Some(most)) if least < most => format!("{least} to {most}"),
        (Some(least), _) => least.to_string(),
        _ => "0".into(),
    }
}

fn table(report: &mut String, results: &Results, group: &BenchGroup, at: At) {
    let rows: Vec<&Row> = results.rows_of(group.name, at).collect();
    if rows.is_empty() {
        return;
    }
    let names: Vec<&str> = results.libraries.iter().map(|library| library.name.as_str()).collect();
    let mut columns = vec!["what", "unit"];
    columns.extend(names.iter().map(|name| title(name)));
    columns.extend(["best other", "OxMPI / best other"]);
    if group.has_limit {
        columns.extend(["limit", "OxMPI / limit"]);
    }
    let _ = write!(
        report,
        "\n## {}{}\n\n`{}`: {}. Samples of a figure: {}.\n\n",
        group.title,
        suffix(at),
        group.name,
        group.subject,
        samples(&rows, at)
    );
    line(report, columns.iter().map(|&column| column.to_owned()));
    line(report, columns.iter().map(|_| "---".to_owned()));
    for row in rows {
        let mut cells = vec![what(row), row.subject.unit.text().to_owned()];
        cells.extend(names.iter().map(|name| cell(results, row, name, at)));
        let best = results.best_other(row, at);
        cells.push(best.as_ref().map_or(NONE, |best| title(best.name)).to_owned());
        cells.push(number(best.and_then(|best| best.ratio)));
        if group.has_limit {
            cells.extend([number(results.limit(row, at)), number(results.to_limit(row, at))]);
        }
        line(report, cells);
    }
}

/// `latency, 8 B, 2 ranks`. Without a size the name has none.
fn what(row: &Row) -> String {
    let subject = &row.subject;
    let bytes = match (subject.bytes, subject.test.as_str()) {
        (0, "latency") => ", 0 B".to_owned(),
        (0, _) => String::new(),
        (bytes, _) => format!(", {}", bytes_text(bytes)),
    };
    format!("{}{bytes}, {} ranks", subject.test, subject.ranks)
}

/// The figure of one library. `failed` if it has failed in this group.
fn cell(results: &Results, row: &Row, name: &str, at: At) -> String {
    let of_group = |launch: &str| launch.split(':').next() == Some(&row.group);
    match row.median(name, at) {
        Some(median) => text(median),
        None if results.failures.iter().any(|f| f.library == name && of_group(&f.launch)) => {
            "failed".into()
        }
        None => NONE.into(),
    }
}

fn number(value: Option<f64>) -> String {
    value.map_or(NONE.into(), text)
}

fn line(report: &mut String, cells: impl IntoIterator<Item = String>) {
    let cells: Vec<String> = cells.into_iter().collect();
    let _ = writeln!(report, "| {} |", cells.join(" | "));
}

fn failures(report: &mut String, results: &Results) {
    if results.failures.is_empty() {
        return;
    }
    let _ = write!(report, "\n## Failures\n\n");
    for failure in &results.failures {
        let _ =
            writeln!(report, "- {}, {}: {}", title(&failure.library), failure.launch, failure.why);
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::{FAR, NEAR, sample, sample_at};
    use super::*;

    #[test]
    fn a_row_has_all_libraries_and_both_ratios() {
        let report = report(&sample());
        assert!(
            report.contains("| what | unit | OxMPI | Open MPI | MPICH | best other |"),
            "{report}"
        );
        let row =
            "| latency, 8 B, 2 ranks | us | 2.00 | 4.00 | 8.00 | Open MPI | 0.500 | 1.00 | 2.00 |";
        assert!(report.contains(row), "{report}");
    }

    #[test]
    fn the_summary_counts_and_names_where_others_are_ahead() {
        let report = report(&sample());
        assert!(
            report.contains("Of 4 rows OxMPI is ahead of the best other in 2, behind in 2"),
            "{report}"
        );
        assert!(report.contains("| bandwidth | bandwidth, 8 B, 2 ranks | 4.00 |"), "{report}");
    }

    #[test]
    fn the_summary_has_the_mean_of_each_group() {
        let report = report(&sample());
        assert!(report.contains("| latency | all | 2 | 0.500 | 0 |"), "{report}");
        assert!(report.contains("| bandwidth | all | 2 | 4.00 | 2 |"), "{report}");
    }

    #[test]
    fn near_and_far_have_tables_and_counts_of_their_own() {
        let mut results = sample_at(&[Some(NEAR), Some(FAR), Some([0.06, 0.24])]);
        let start = sample().rows.remove(0);
        results.rows.push(Row { group: "start".into(), ..start });
        let report = report(&results);
        let table =
            |from: &str, to: &str| report.split(from).nth(1).unwrap().split(to).next().unwrap();
        let near = table("## Latency, near\n", "\n## Latency, far\n");
        assert!(near.contains("Samples of a figure: 2."), "{report}");
        assert!(near.contains("| latency, 8 B, 2 ranks | us | 2.00 | 4.00 |"), "{report}");
        let far = table("\n## Latency, far\n", "\n## Bandwidth, near\n");
        let row =
            "| latency, 8 B, 2 ranks | us | 20.0 | 40.0 | 80.0 | Open MPI | 0.500 | 1.00 | 20.0 |";
        assert!(far.contains(row), "{report}");
        for text in [
            "Of 4 rows near OxMPI is ahead",
            "Of 4 rows far",
            "Of 1 other rows",
            "near each other in 32 samples (a line of the cache went from one to the other in 0.0650 us) and far in 32 (0.230",
            "\n## Start-up\n",
            "| bandwidth | bandwidth, 8 B, 2 ranks, far | 4.00 |",
        ] {
            assert!(report.contains(text), "{text}: {report}");
        }
    }

    #[test]
    fn samples_of_unknown_distance_are_pointed_out() {
        let mut results = sample_at(&[Some(NEAR), Some(FAR)]);
        assert!(!report(&results).contains("could not measure"));
        for sample in results.rows[0].figures.get_mut("mpich").unwrap() {
            (sample.line, sample.distance) = (None, None);
        }
        assert!(report(&results).contains("**MPICH: in 4 samples its ranks could not measure"));
    }

    #[test]
    fn a_machine_of_one_distance_has_one_set_of_tables() {
        for lines in [[None], [Some(FAR)], [Some([0.13, 0.14])]] {
            let report = report(&sample_at(&lines));
            assert!(report.contains("\n## Latency\n") && !report.contains(", near\n"), "{report}");
        }
    }

    #[test]
    fn a_failing_library_is_named_in_the_table_and_below() {
        let mut results = sample();
        results.rows[0].figures.remove("mpich");
        results.fail("mpich", "latency: 2 ranks, -p latency", "no end after 90 s");
        let report = report(&results);
        assert!(report.contains("| 4.00 | failed | Open MPI |"), "{report}");
        assert!(
            report.contains("- MPICH, latency: 2 ranks, -p latency: no end after 90 s"),
            "{report}"
        );
    }

    #[test]
    fn a_busy_machine_is_pointed_out() {
        let mut results = sample();
        results.machine.cores = 4;
        results.machine.loads = vec![0.5, 9.0];
        assert!(!report(&results).contains("Other programs"));
        results.machine.loads[0] = 3.0;
        assert!(report(&results).contains("Other programs were running"));
    }

    #[test]
    fn no_figures_give_a_report_without_tables() {
        assert!(!report(&Results::default()).contains("##"));
    }
}
