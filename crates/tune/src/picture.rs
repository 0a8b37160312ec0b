//! A picture of the winners over sizes and ranks, as SVG: a panel for each collective, a field for
//! each call. The number of the algorithm is in the field, so that the picture is readable without
//! colours. Neighbouring fields with the same winner are merged.

use crate::winner::Winner;
use oxmpi_plan::Collective;
use oxmpi_plan::table::by_number;
use std::collections::BTreeSet;
use std::fmt::Write as _;

const FIELD: (usize, usize) = (54, 24);
const LEFT: usize = 86;
const TOP: usize = 34;
const LEGEND: usize = 250;
const BOTTOM: usize = 44;

/// Indexed by the number of the algorithm: light enough for black text, and of different lightness.
const COLOURS: [&str; 9] = [
    "#f4d58d", "#8fbfe0", "#b8e0a8", "#e8a598", "#c9b3e6", "#f7efc0", "#7fc8b8", "#f2b5d4",
    "#b9c0c9",
];

/// Draws the winners of all calls below a `heading`.
pub fn draw(heading: &str, winners: &[Winner]) -> String {
    let mut collectives: Vec<Collective> = Vec::new();
    for winner in winners {
        if !collectives.contains(&winner.cell.collective) {
            collectives.push(winner.cell.collective);
        }
    }
    let (mut body, mut y, mut width) = (String::new(), 30, 400);
    for collective in collectives {
        let mine: Vec<&Winner> =
            winners.iter().filter(|winner| winner.cell.collective == collective).collect();
        let (panel_width, height) = panel(&mut body, collective, &mine, y);
        y += height;
        width = width.max(panel_width);
    }
    let style = "text{font-family:sans-serif;font-size:12px;fill:#1f2328}.h{font-size:15px;font-weight:bold}\
                 .n{text-anchor:middle}.r{text-anchor:end}.w{font-weight:bold}rect{stroke:#57606a;stroke-width:.6}";
    let heading = escaped(heading);
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{y}\" viewBox=\"0 0 {width} {y}\" role=\"img\">\n\
         <title>{heading}</title><style>{style}</style>\n\
         <rect width=\"{width}\" height=\"{y}\" fill=\"#ffffff\" style=\"stroke:none\"/>\n\
         <text class=\"h\" x=\"12\" y=\"20\">{heading}</text>\n{body}</svg>\n"
    )
}

fn panel(
    body: &mut String,
    collective: Collective,
    winners: &[&Winner],
    top: usize,
) -> (usize, usize) {
    let sizes: Vec<usize> =
        winners.iter().map(|v| v.cell.bytes).collect::<BTreeSet<_>>().into_iter().collect();
    let ranks: Vec<u32> =
        winners.iter().map(|v| v.cell.ranks).collect::<BTreeSet<_>>().into_iter().collect();
    let (x0, y0) = (LEFT, top + TOP);
    let (right, bottom) = (x0 + sizes.len() * FIELD.0, y0 + ranks.len() * FIELD.1);
    let _ = writeln!(body, "<text class=\"h\" x=\"12\" y=\"{}\">{collective}</text>", top + 20);
    for (row, of) in ranks.iter().rev().enumerate() {
        let y = y0 + row * FIELD.1;
        let label = if *of == 1 { "1 rank".to_string() } else { format!("{of} ranks") };
        let _ =
            writeln!(body, "<text class=\"r\" x=\"{}\" y=\"{}\">{label}</text>", x0 - 6, y + 16);
        let at =
            |size: &usize| winners.iter().find(|v| v.cell.ranks == *of && v.cell.bytes == *size);
        let mut column = 0;
        while column < sizes.len() {
            let Some(first) = at(&sizes[column]) else {
                column += 1;
                continue;
            };
            let what = |winner: &Winner| (winner.algorithm(), winner.variant.algorithm.is_some());
            let same = sizes[column..]
                .iter()
                .take_while(|size| at(size).is_some_and(|v| what(v) == what(first)))
                .count();
            let number = first.algorithm().algorithm().number;
            let (x, wide) = (x0 + column * FIELD.0, same * FIELD.0);
            let class = if first.variant.algorithm.is_some() { "n w" } else { "n" };
            let mark = if first.variant.algorithm.is_some() { "*" } else { "" };
            let _ = writeln!(
                body,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{wide}\" height=\"{}\" fill=\"{}\"/><text class=\"{class}\" x=\"{}\" \
                 y=\"{}\">{number}{mark}</text>",
                FIELD.1,
                colour(number),
                x + wide / 2,
                y + 16
            );
            column += same;
        }
    }
    for (column, size) in sizes.iter().enumerate() {
        let x = x0 + column * FIELD.0 + FIELD.0 / 2;
        let _ = writeln!(
            body,
            "<text class=\"n\" x=\"{x}\" y=\"{}\">{}</text>",
            bottom + 15,
            bytes_text(*size)
        );
    }
    let numbers: BTreeSet<u8> = winners.iter().map(|v| v.algorithm().algorithm().number).collect();
    for (line, number) in numbers.iter().enumerate() {
        let y = y0 + line * 18;
        let name = by_number(collective, *number).map_or("", |id| id.algorithm().name);
        let _ = writeln!(
            body,
            "<rect x=\"{}\" y=\"{y}\" width=\"16\" height=\"13\" fill=\"{}\"/><text x=\"{}\" y=\"{}\">{number} {name}</text>",
            right + 14,
            colour(*number),
            right + 36,
            y + 11
        );
    }
    let legend = y0 + numbers.len() * 18 + 16;
    let _ =
        writeln!(body, "<text x=\"{}\" y=\"{legend}\">* not the fixed choice</text>", right + 14);
    (right + LEGEND, (bottom + BOTTOM).max(legend + 14) - top)
}

fn colour(number: u8) -> &'static str {
    COLOURS[(usize::from(number) + COLOURS.len() - 1) % COLOURS.len()]
}

pub(crate) fn bytes_text(bytes: usize) -> String {
    match bytes {
        0 => "-".to_string(),
        bytes if bytes.is_multiple_of(1 << 20) => format!("{} MiB", bytes >> 20),
        bytes if bytes.is_multiple_of(1 << 10) => format!("{} KiB", bytes >> 10),
        bytes => format!("{bytes} B"),
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::{Cell, Variant};
    use oxmpi_plan::table::by_name;

    fn winner(ranks: u32, bytes: usize, name: Option<&str>) -> Winner {
        let algorithm = name.map(|name| by_name(Collective::Bcast, name).unwrap());
        let cell = Cell { ranks, collective: Collective::Bcast, bytes };
        Winner {
            cell,
            variant: Variant { algorithm, ..Variant::FIXED },
            best_ns: 1.0,
            fixed_ns: 2.0,
        }
    }

    #[test]
    fn fields_have_numbers_and_equal_neighbours_are_merged() {
        let all = [
            winner(4, 8, Some("chain")),
            winner(4, 32, Some("chain")),
            winner(4, 1024, Some("pipeline")),
            winner(8, 8, None),
        ];
        let svg = draw("a < b", &all);
        assert!(
            svg.contains("a &lt; b") && svg.contains("1 KiB") && svg.contains("8 ranks"),
            "{svg}"
        );
        assert!(svg.contains("2 chain") && svg.contains("3 pipeline"), "{svg}");
        assert_eq!(svg.matches(">2*<").count(), 1, "{svg}");
        let fixed = all[3].algorithm().algorithm().number;
        assert!(svg.contains(&format!(">{fixed}<")), "{svg}");
        assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"));
        assert_eq!(svg.matches("<text").count(), svg.matches("</text>").count());
    }

    #[test]
    fn a_picture_without_calls_is_valid() {
        assert!(draw("nothing", &[]).contains("</svg>"));
    }
}
