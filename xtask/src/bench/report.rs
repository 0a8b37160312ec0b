//! The report: tables in Markdown. Pure.

use std::fmt::Write as _;

use super::figures::{bytes_text, text};
use super::groups::{GROUPS, Group};
use super::mpi::title;
use super::results::{Results, Row};

/// Of the rows in which others are ahead, how many are named at the top.
const MOST_BEHIND: usize = 12;
/// A ratio below this is a tie: rounds differ by more.
const TIE: f64 = 1.1;
/// A load at the beginning of more than this part of the cores comes from other programs that disturb.
const BUSY: f64 = 0.25;
const NONE: &str = "-";

/// The whole report.
pub(crate) fn report(results: &Results) -> String {
    let mut report = String::from("# OxMPI beside other MPI libraries\n\n");
    head(&mut report, results);
    if results.machine.loads.first().is_some_and(|&load| load > BUSY * f64::from(results.machine.cores)) {
        report +=
            "\n**Other programs were running: these figures say little.** Measure on an idle machine.\n";
    }
    summary(&mut report, results);
    for group in &GROUPS {
        table(&mut report, results, group);
    }
    failures(&mut report, results);
    report
}

// Writing to a String cannot fail; hence `let _` in all of these.

fn head(report: &mut String, results: &Results) {
    let machine = &results.machine;
    let loads: Vec<String> = machine.loads.iter().map(|load| format!("{load:.1}")).collect();
    let _ = write!(
        report,
        "{}, {} cores, Linux {}. Rounds: {}; load average at the beginning of each: {}.\n\n\
         A figure is the median over the rounds of the program's medians. In the columns with `/`, 1 is equal, below 1 \
         OxMPI is better and 2 is twice the time or memory, or half the rate: the median over the rounds of OxMPI \
         divided by the other in the same round. The limit is what two processes reach without MPI.\n\n\
         | name | library | settings |\n|---|---|---|\n",
        machine.processor,
        machine.cores,
        machine.kernel,
        results.rounds,
        loads.join(", ")
    );
    for library in &results.libraries {
        let _ = writeln!(report, "| {} | {} | {} |", title(&library.name), library.version, library.settings);
    }
}

/// In how many rows we are ahead, and where we are behind most.
fn summary(report: &mut String, results: &Results) {
    let rows = results.rows.iter();
    let mut rows: Vec<(f64, &Row)> =
        rows.filter_map(|row| Some((results.best_other(row)?.ratio?, row))).collect();
    if rows.is_empty() {
        return;
    }
    rows.sort_by(|a, b| b.0.total_cmp(&a.0));
    let behind = rows.iter().filter(|row| row.0 > TIE).count();
    let ahead = rows.iter().filter(|row| row.0 < 1.0 / TIE).count();
    let _ = write!(
        report,
        "\n## Summary\n\nOf {} rows OxMPI is ahead of the best other in {ahead}, behind in {behind}; the rest is within \
         {:.0} %, a tie.\n",
        rows.len(),
        (TIE - 1.0) * 100.0
    );
    if behind > 0 {
        let _ = writeln!(report, "Furthest behind:\n\n| group | what | OxMPI / best other |\n|---|---|---|");
    }
    for (ratio, row) in rows.iter().take(behind.min(MOST_BEHIND)) {
        let _ = writeln!(report, "| {} | {} | {} |", row.group, what(row), text(*ratio));
    }
}

fn table(report: &mut String, results: &Results, group: &Group) {
    let rows: Vec<&Row> = results.rows.iter().filter(|row| row.group == group.name).collect();
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
    let _ = write!(report, "\n## {}: {}\n\n", group.name, group.title);
    line(report, columns.iter().map(|&column| column.to_owned()));
    line(report, columns.iter().map(|_| "---".to_owned()));
    for row in rows {
        let mut cells = vec![what(row), row.subject.unit.text().to_owned()];
        cells.extend(names.iter().map(|name| cell(results, row, name)));
        let best = results.best_other(row);
        cells.push(best.as_ref().map_or(NONE, |best| title(best.name)).to_owned());
        cells.push(number(best.and_then(|best| best.ratio)));
        if group.has_limit {
            let limit = results.limit(row).and_then(|limit| super::figures::median(limit.values().copied()));
            cells.extend([number(limit), number(results.to_limit(row))]);
        }
        line(report, cells);
    }
}

/// `latency, 8 B, 2 ranks`. What has no size has none in its name.
fn what(row: &Row) -> String {
    let subject = &row.subject;
    let bytes = match (subject.bytes, subject.test.as_str()) {
        (0, "latency") => ", 0 B".to_owned(),
        (0, _) => String::new(),
        (bytes, _) => format!(", {}", bytes_text(bytes)),
    };
    format!("{}{bytes}, {} ranks", subject.test, subject.ranks)
}

/// The figure of one library. One that has failed in this group says so.
fn cell(results: &Results, row: &Row, name: &str) -> String {
    let of_group = |launch: &str| launch.split(':').next() == Some(&row.group);
    match row.median(name) {
        Some(median) => text(median),
        None if results.failures.iter().any(|f| f.library == name && of_group(&f.launch)) => "failed".into(),
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
        let _ = writeln!(report, "- {}, {}: {}", title(&failure.library), failure.launch, failure.why);
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::tests::sample;
    use super::*;

    #[test]
    fn a_row_has_all_libraries_and_both_ratios() {
        let report = report(&sample());
        assert!(report.contains("| what | unit | OxMPI | Open MPI | MPICH | best other |"), "{report}");
        let row = "| latency, 8 B, 2 ranks | us | 2.00 | 4.00 | 8.00 | Open MPI | 0.500 | 1.00 | 2.00 |";
        assert!(report.contains(row), "{report}");
    }

    #[test]
    fn the_summary_counts_and_names_where_others_are_ahead() {
        let report = report(&sample());
        assert!(report.contains("Of 4 rows OxMPI is ahead of the best other in 2, behind in 2"), "{report}");
        assert!(report.contains("| bandwidth | bandwidth, 8 B, 2 ranks | 4.00 |"), "{report}");
    }

    #[test]
    fn a_failing_library_is_named_in_the_table_and_below() {
        let mut results = sample();
        results.rows[0].figures.remove("mpich");
        results.fail("mpich", "latency: 2 ranks, -p latency", "no end after 90 s");
        let report = report(&results);
        assert!(report.contains("| 4.00 | failed | Open MPI |"), "{report}");
        assert!(report.contains("- MPICH, latency: 2 ranks, -p latency: no end after 90 s"), "{report}");
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
