//! The figures as text, as JSON, and as tables of a page.

use std::fmt::Write as _;

use oxmpi_sys::cpus;
use serde_json::{Value, json};

use super::figures::Figures;

type All = [(String, Figures)];

fn size(bytes: u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes >> 10),
        _ => format!("{} MiB", bytes >> 20),
    }
}

/// The machine without names: processors, architecture, version of the kernel.
fn machine() -> String {
    let processors = cpus::usable();
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    let version: Vec<&str> = kernel.split(['.', '-']).take(2).collect();
    format!(
        "{processors} {} ({}), Linux {}",
        if processors == 1 { "processor" } else { "processors" },
        std::env::consts::ARCH,
        version.join(".")
    )
}

/// Formats a figure with three significant digits.
fn digits(value: f64) -> String {
    let places = match value.abs() {
        0.0..10.0 => 2,
        10.0..100.0 => 1,
        _ => 0,
    };
    format!("{value:.places$}")
}

fn percent(share: f64) -> String {
    format!("{} %", digits(share * 100.0))
}

/// Rows of a table: quantity, size, figure, explanation.
fn rows(figures: &Figures) -> Vec<[String; 4]> {
    let mut rows = Vec::new();
    let mut row = |what: &str, bytes: u64, figure: String, how: String| {
        rows.push([what.to_string(), size(bytes), figure, how]);
    };
    for (bytes, us) in &figures.latency {
        row("latency", *bytes, format!("{} us", digits(*us)), String::new());
    }
    for (bytes, rate) in &figures.bandwidth {
        row("bandwidth", *bytes, format!("{} MB/s", digits(*rate)), String::new());
    }
    for (bytes, overlap) in &figures.overlap {
        let how = format!(
            "transfer {} us, computing {} us, both {} us",
            digits(overlap.transfer_us),
            digits(overlap.computing_us),
            digits(overlap.both_us)
        );
        row("overlap", *bytes, percent(overlap.hidden()), how);
    }
    if let Some(share) = figures.idle {
        let row = ["idle", "", &percent(share), "CPU time of a rank that waits in MPI_Recv"];
        rows.push(row.map(str::to_string));
    }
    rows
}

pub(super) fn as_text(all: &All, ranks: u32) -> String {
    let mut out = format!("{}, {ranks} ranks\n", machine());
    for (name, figures) in all {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "\n{name}");
        for [what, size, figure, how] in rows(figures) {
            let line = format!("  {what:<10} {size:>8} {figure:>12}   {how}");
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }
    out
}

pub(super) fn as_json(all: &All, ranks: u32) -> String {
    let pairs = |pairs: &[(u64, f64)], unit: &str| -> Vec<Value> {
        pairs.iter().map(|(bytes, value)| json!({ "bytes": bytes, unit: value })).collect()
    };
    let one = |(name, figures): &(String, Figures)| {
        let overlap: Vec<Value> = figures
            .overlap
            .iter()
            .map(|(bytes, overlap)| {
                json!({
                    "bytes": bytes, "transfer_us": overlap.transfer_us, "computing_us": overlap.computing_us,
                    "both_us": overlap.both_us, "hidden": overlap.hidden(),
                })
            })
            .collect();
        json!({
            "transport": name,
            "latency": pairs(&figures.latency, "us"),
            "bandwidth": pairs(&figures.bandwidth, "megabytes_per_second"),
            "overlap": overlap,
            "idle_cpu_share": figures.idle,
        })
    };
    let all: Vec<Value> = all.iter().map(one).collect();
    format!("{:#}\n", json!({ "machine": machine(), "ranks": ranks, "transports": all }))
}

fn table(name: &str, figures: &Figures) -> String {
    let mut out = format!(
        "{}\n{}, 2 ranks.\n\n| figure | size | value | |\n|---|---:|---:|---|\n",
        begin(name),
        machine()
    );
    for [what, size, figure, how] in rows(figures) {
        let _ = writeln!(out, "| {what} | {size} | {figure} | {how} |");
    }
    out + &end(name)
}

fn begin(name: &str) -> String {
    format!("<!-- bench {name} -->")
}

fn end(name: &str) -> String {
    format!("<!-- end bench {name} -->")
}

/// Replaces the tables of the measured transports. Fails if a begin marker has no end marker.
pub(super) fn refreshed(page: &str, all: &All) -> Result<String, String> {
    let mut page = page.to_string();
    for (name, figures) in all {
        let (begin, end) = (begin(name), end(name));
        match page.find(&begin) {
            Some(from) => {
                let length = page[from..]
                    .find(&end)
                    .ok_or(format!("behind '{begin}' there is no '{end}'"))?;
                page.replace_range(from..from + length + end.len(), &table(name, figures));
            }
            None => {
                page = format!("{}\n\n## `{name}`\n\n{}\n", page.trim_end(), table(name, figures))
            }
        }
    }
    Ok(page)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(us: f64) -> Figures {
        Figures { latency: vec![(8, us)], idle: Some(0.0012), ..Figures::default() }
    }

    #[test]
    fn a_page_gets_new_tables_and_keeps_the_rest() {
        let page = "# Transports\n\n## `shm`\n\nWords.\n\n<!-- bench shm -->\nold\n<!-- end bench shm -->\n\nMore.\n";
        let all = [("shm".to_string(), figures(0.25)), ("tcp".to_string(), figures(12.3))];
        let once = refreshed(page, &all).unwrap();
        assert!(
            once.starts_with("# Transports\n\n## `shm`\n\nWords.\n\n<!-- bench shm -->\n"),
            "{once}"
        );
        assert!(
            once.contains("| latency | 8 B | 0.25 us |  |\n") && once.contains("| 0.12 % |"),
            "{once}"
        );
        assert!(
            once.contains("\n\nMore.\n\n## `tcp`\n\n<!-- bench tcp -->\n") && !once.contains("old")
        );
        assert_eq!(refreshed(&once, &all).unwrap(), once, "a second run changes nothing");
        let torn = page.replace("end bench", "end");
        assert!(refreshed(&torn, &all).unwrap_err().contains("'<!-- end bench shm -->'"));
    }

    #[test]
    fn figures_appear_in_text_and_json() {
        let all = [("shm".to_string(), figures(0.25))];
        let text = as_text(&all, 2);
        assert!(text.contains("\nshm\n  latency         8 B      0.25 us\n"), "{text}");
        let json: Value = serde_json::from_str(&as_json(&all, 2)).unwrap();
        assert_eq!(json["transports"][0]["latency"][0]["us"], 0.25);
    }
}
