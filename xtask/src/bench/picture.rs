//! The pictures as SVG: figures over the message size, one curve for each library and for the
//! limit.

use plotters::prelude::*;

use super::figures::bytes_text;
use super::mpi::title;
use super::results::{At, LIMIT, Results};

const SIZE: (u32, u32) = (900, 560);

// The SVG has the light colours. On a system that is set to dark, the style sheet replaces them.
const PAPER: RGBColor = RGBColor(0xff, 0xff, 0xff);
const INK: RGBColor = RGBColor(0x1f, 0x23, 0x28);
const GRID: RGBColor = RGBColor(0xd8, 0xde, 0xe4);
/// The dark colour in place of each light one.
const DARK: [(RGBColor, &str); 3] = [(PAPER, "#0d1117"), (INK, "#e6edf3"), (GRID, "#30363d")];

/// Of middling lightness, so that they differ from both backgrounds. Colour-blind readers have
/// the marks.
const COLOURS: [(&str, RGBColor); 5] = [
    ("oxmpi", RGBColor(0xe8, 0x59, 0x0c)),
    ("openmpi", RGBColor(0x2f, 0x80, 0xd0)),
    ("mpich", RGBColor(0x1b, 0x9e, 0x77)),
    ("impi", RGBColor(0x9c, 0x5f, 0xd6)),
    (LIMIT, RGBColor(0x8b, 0x94, 0x9e)),
];

pub(crate) struct Curve<'a> {
    pub(crate) name: &'a str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// The curves of a test in its group, of the samples of one part, the limit last. Size 0 has no
/// place on a logarithmic axis.
pub(crate) fn curves<'a>(results: &'a Results, group: &str, test: &str, at: At) -> Vec<Curve<'a>> {
    let rows =
        || results.rows.iter().filter(move |row| row.group == group && row.subject.test == test);
    let names = results.libraries.iter().map(|library| library.name.as_str()).chain([LIMIT]);
    let curve = |name| {
        let points = rows().filter(|row| row.subject.bytes > 0).filter_map(|row| {
            let value = if name == LIMIT { results.limit(row, at) } else { row.median(name, at) };
            Some((row.subject.bytes as f64, value?))
        });
        Curve { name, points: points.collect() }
    };
    names.map(curve).filter(|curve| !curve.points.is_empty()).collect()
}

/// Draws curves over the message size, both axes logarithmic. `None` without curves.
pub(crate) fn draw(
    heading: &str,
    vertical: &str,
    curves: &[Curve<'_>],
) -> Result<Option<String>, String> {
    let all = || curves.iter().flat_map(|curve| &curve.points);
    let Some((sizes, values)) = range(all().map(|p| p.0)).zip(range(all().map(|p| p.1))) else {
        return Ok(None);
    };
    let mut svg = String::new();
    draw_into(&mut svg, heading, vertical, curves, sizes, values)
        .map_err(|error| error.to_string())?;
    Ok(Some(with_dark_style(&svg)))
}

fn range(values: impl Iterator<Item = f64> + Clone) -> Option<std::ops::Range<f64>> {
    let least = values.clone().min_by(f64::total_cmp)?;
    let most = values.max_by(f64::total_cmp)?;
    Some(least..most)
}

fn draw_into(
    svg: &mut String,
    heading: &str,
    vertical: &str,
    curves: &[Curve<'_>],
    sizes: std::ops::Range<f64>,
    values: std::ops::Range<f64>,
) -> Result<(), Box<dyn std::error::Error>> {
    let root = SVGBackend::with_string(svg, SIZE).into_drawing_area();
    root.fill(&PAPER)?;
    let font = |size: i32| ("sans-serif", size).into_font().color(&INK);
    let mut chart = ChartBuilder::on(&root)
        .caption(heading, font(20))
        .margin(14)
        .x_label_area_size(46)
        .y_label_area_size(64)
        // Some room above and below, and between the last size and the frame.
        .build_cartesian_2d(
            (sizes.start..sizes.end * 1.2).log_scale().base(4.0),
            (values.start * 0.7..values.end * 1.4).log_scale(),
        )?;
    chart
        .configure_mesh()
        .x_labels(12)
        .y_labels(10)
        .x_label_formatter(&|size| axis_bytes(*size))
        .y_label_formatter(&|value| format!("{value}"))
        .x_desc("size of the message")
        .y_desc(vertical)
        .label_style(font(13))
        .axis_desc_style(font(15))
        .axis_style(INK)
        .bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .draw()?;
    for (at, curve) in curves.iter().enumerate() {
        let colour =
            COLOURS.iter().find(|(name, _)| *name == curve.name).map_or(INK, |(_, colour)| *colour);
        let width = if at == 0 { 3 } else { 2 };
        let style = colour.stroke_width(width);
        let points = curve.points.iter().copied();
        let drawn = if curve.name == LIMIT {
            chart.draw_series(DashedLineSeries::new(points, 6, 4, style))?
        } else {
            chart.draw_series(
                points.clone().map(|point| EmptyElement::at(point) + mark(at, colour)),
            )?;
            chart.draw_series(LineSeries::new(points, style))?
        };
        // Two halves of a line with a mark between them; the limit is dashed and has no mark.
        let is_limit = curve.name == LIMIT;
        let gap = if is_limit { 4 } else { 0 };
        drawn.label(title(curve.name)).legend(move |(x, y)| {
            let half = |from, to| PathElement::new([(from, 0), (to, 0)], style);
            let mark = if is_limit { Polygon::new([], colour) } else { mark(at, colour) };
            EmptyElement::at((x + 13, y)) + half(-13, -gap) + half(gap, 13) + mark
        });
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .margin(12)
        .legend_area_size(34)
        .background_style(PAPER)
        .border_style(GRID)
        .label_font(font(14))
        .draw()?;
    root.present()?;
    Ok(())
}

/// A distinct mark for each curve, around its point, in pixels.
fn mark(at: usize, colour: RGBColor) -> Polygon<(i32, i32)> {
    let corners: &[(i32, i32)] = match at {
        0 => &[(-2, -4), (2, -4), (4, -2), (4, 2), (2, 4), (-2, 4), (-4, 2), (-4, -2)],
        1 => &[(0, -5), (5, 4), (-5, 4)],
        2 => &[(-3, -3), (3, -3), (3, 3), (-3, 3)],
        _ => &[(0, -5), (5, 0), (0, 5), (-5, 0)],
    };
    Polygon::new(corners, colour)
}

fn axis_bytes(size: f64) -> String {
    bytes_text(size.round() as u64)
}

/// Puts the style sheet for dark surroundings behind the opening tag. It selects elements by
/// colour, as each of the three colours has one use.
fn with_dark_style(svg: &str) -> String {
    let mut rules = String::new();
    for (light, dark) in DARK {
        let light = format!("#{:02X}{:02X}{:02X}", light.0, light.1, light.2);
        rules += &format!("[fill=\"{light}\"]{{fill:{dark}}}[stroke=\"{light}\"]{{stroke:{dark}}}");
    }
    let style = format!("<style>@media (prefers-color-scheme:dark){{{rules}}}</style>");
    match svg.find("<svg").and_then(|tag| Some(tag + svg[tag..].find('>')? + 1)) {
        Some(at) => format!("{}\n{style}{}", &svg[..at], &svg[at..]),
        None => svg.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::distance::Distance;
    use super::super::results::tests::{FAR, NEAR, sample, sample_at};
    use super::*;

    fn picture() -> String {
        let results = sample();
        draw("Latency", "microseconds", &curves(&results, "latency", "latency", None))
            .unwrap()
            .unwrap()
    }

    #[test]
    fn all_series_axes_and_the_heading_are_named() {
        let svg = picture();
        for text in [
            "OxMPI",
            "Open MPI",
            "MPICH",
            "limit",
            "Latency",
            "microseconds",
            "size of the message",
            "64 KiB",
        ] {
            assert!(svg.contains(text), "{text} is not in:\n{svg}");
        }
        assert!(svg.matches("<polyline").count() >= 4, "{svg}");
    }

    #[test]
    fn the_dark_style_meets_colours_that_are_there() {
        let svg = picture();
        for (light, dark) in DARK {
            let light = format!("=\"#{:02X}{:02X}{:02X}\"", light.0, light.1, light.2);
            assert!(svg.contains(dark), "{dark}");
            // Once in the style sheet for each of fill and stroke, and in the picture.
            assert!(svg.matches(&light).count() > 2, "{light}");
        }
    }

    #[test]
    fn curves_have_positive_sizes_and_the_limit_is_the_last() {
        let results = sample();
        let curves = curves(&results, "bandwidth", "bandwidth", None);
        let names: Vec<&str> = curves.iter().map(|curve| curve.name).collect();
        assert_eq!(names, ["oxmpi", "openmpi", "mpich", LIMIT]);
        assert_eq!(curves[0].points, [(8.0, 2.0), (65536.0, 2.0)]);
    }

    #[test]
    fn near_and_far_have_curves_of_their_own() {
        let results = sample_at(&[Some(NEAR), Some(FAR)]);
        let ours =
            |distance| curves(&results, "latency", "latency", Some(distance))[0].points.clone();
        assert_eq!(ours(Distance::Near), [(8.0, 2.0), (65536.0, 2.0)]);
        assert_eq!(ours(Distance::Far), [(8.0, 20.0), (65536.0, 20.0)]);
        assert!(curves(&results, "latency", "latency", Some(Distance::Between)).is_empty());
    }

    #[test]
    fn nothing_is_drawn_of_nothing() {
        assert_eq!(draw("Latency", "us", &[]).unwrap(), None);
    }
}
