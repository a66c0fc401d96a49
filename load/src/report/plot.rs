//! Plots of a run as SVG: time series and percentiles. Draws, and knows nothing of runs.

use std::fmt::Debug;
use std::ops::Range;

use plotters::coord::Shift;
use plotters::coord::ranged1d::{AsRangedCoord, Ranged, ValueFormatter};
use plotters::prelude::*;

const SIZE: (u32, u32) = (640, 300);
const FONT: (&str, i32) = ("sans-serif", 13);
/// Labels of an axis; on a logarithmic one more would run into each other.
const LABELS_MAX: usize = 6;
/// Told apart by people who see colours differently (Okabe and Ito's palette).
static COLOURS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];
/// Least value on a logarithmic axis of milliseconds: a microsecond.
const LOG_FLOOR: f64 = 1e-3;

/// A line of a plot.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
}

/// The colour of the `number`th line of a plot, for CSS.
pub(super) fn colour(number: usize) -> String {
    let RGBColor(r, g, b) = COLOURS[number % COLOURS.len()];
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// What drawing to memory may fail with: a coordinate that makes no sense.
pub(super) type PlotError = String;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn failed(error: impl Debug) -> PlotError {
    format!("{error:?}")
}

/// Lines over seconds, from 0 up.
pub(super) fn over_time(unit: &str, lines: &[Line]) -> Result<String, PlotError> {
    let (seconds, top) = (largest(lines, |point| point.0).max(1.0), largest(lines, |point| point.1).max(1.0) * 1.05);
    draw(|area| chart(area, 0.0..seconds, 0.0..top, ("seconds", unit), (&short, &short), lines))
}

/// Milliseconds over seconds, on a logarithmic scale.
pub(super) fn latency_over_time(lines: &[Line]) -> Result<String, PlotError> {
    let seconds = largest(lines, |point| point.0).max(1.0);
    draw(|area| chart(area, 0.0..seconds, decades(lines).log_scale(), ("seconds", "ms"), (&short, &short), lines))
}

/// Milliseconds by percentile. The scale stretches towards 100 %, as HdrHistogram's own plots do:
/// points are (1 / (1 − quantile), ms).
pub(super) fn percentiles(lines: &[Line]) -> Result<String, PlotError> {
    let right = largest(lines, |point| point.0).max(1_000.0);
    draw(|area| chart(area, (1.0..right).log_scale(), decades(lines).log_scale(), ("percentile", "ms"), (&percentile, &short), lines))
}

fn draw(chart: impl FnOnce(&Area<'_>) -> Result<(), PlotError>) -> Result<String, PlotError> {
    let mut svg = String::new();
    let area = SVGBackend::with_string(&mut svg, SIZE).into_drawing_area();
    area.fill(&WHITE).map_err(failed)?;
    chart(&area)?;
    area.present().map_err(failed)?;
    drop(area);
    Ok(svg)
}

type Format<'f> = &'f dyn Fn(&f64) -> String;

fn chart<X, Y>(area: &Area<'_>, x: X, y: Y, names: (&str, &str), formats: (Format<'_>, Format<'_>), lines: &[Line]) -> Result<(), PlotError>
where
    X: AsRangedCoord<Value = f64>,
    Y: AsRangedCoord<Value = f64>,
    X::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
    Y::CoordDescType: Ranged<ValueType = f64> + ValueFormatter<f64>,
{
    let mut chart = ChartBuilder::on(area)
        .margin(12)
        .margin_right(36)
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d(x, y)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_labels(LABELS_MAX)
        .y_labels(LABELS_MAX)
        .x_desc(names.0)
        .y_desc(names.1)
        .x_label_formatter(formats.0)
        .y_label_formatter(formats.1)
        .label_style(FONT)
        .axis_desc_style(FONT)
        .light_line_style(TRANSPARENT)
        .bold_line_style(BLACK.mix(0.12))
        .draw()
        .map_err(failed)?;
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let series = LineSeries::new(line.points.iter().copied(), colour.stroke_width(2));
        chart.draw_series(series).map_err(failed)?;
    }
    Ok(())
}

fn largest(lines: &[Line], of: impl Fn(&(f64, f64)) -> f64) -> f64 {
    lines.iter().flat_map(|line| &line.points).map(of).fold(0.0, f64::max)
}

/// The powers of ten around all values, since these are what a logarithmic axis labels.
fn decades(lines: &[Line]) -> Range<f64> {
    let values = || lines.iter().flat_map(|line| &line.points).map(|point| point.1);
    let most = values().fold(LOG_FLOOR, f64::max);
    let least = values().fold(most, f64::min).max(LOG_FLOOR);
    10_f64.powi(least.log10().floor() as i32)..10_f64.powi(most.log10().floor() as i32 + 1)
}

/// As few digits as say it.
fn short(value: &f64) -> String {
    let (value, unit) = if *value >= 1e6 {
        (value / 1e6, " M")
    } else if *value >= 1e4 {
        (value / 1e3, " k")
    } else {
        (*value, "")
    };
    let text = format!("{value:.3}");
    format!("{}{unit}", text.trim_end_matches('0').trim_end_matches('.'))
}

/// `1 / (1 − quantile)` as the percentile it stands for: 1,000 is 99.9 %.
fn percentile(stretched: &f64) -> String {
    let nines = (stretched.log10() - 1e-6).ceil().max(0.0) as usize;
    format!("{:.*} %", nines.saturating_sub(2), 100.0 - 100.0 / stretched)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(points: &[(f64, f64)]) -> Line {
        Line { name: "p99".into(), points: points.to_vec() }
    }

    #[test]
    fn a_plot_is_an_svg_with_its_axes_and_its_lines() {
        let svg = over_time("events/s", &[line(&[(0.0, 10_000.0), (1.0, 20_000.0)]), line(&[(0.0, 1.0), (1.0, 2.0)])]).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("events/s") && svg.contains("20 k"), "{svg}");
        assert!((0..2).all(|line| svg.contains(&colour(line).to_uppercase())), "{svg}");
    }

    #[test]
    fn nothing_and_zero_can_be_drawn_on_every_scale() {
        for lines in [&[][..], &[line(&[])], &[line(&[(0.0, 0.0)])], &[line(&[(1.0, 0.0), (1.0, 3_600_000.0)])]] {
            for drawn in [over_time("x", lines), latency_over_time(lines), percentiles(lines)] {
                assert!(drawn.unwrap().contains("</svg>"));
            }
        }
    }

    #[test]
    fn a_logarithmic_axis_reaches_from_one_power_of_ten_to_another() {
        let of = |points: &[(f64, f64)]| decades(&[line(points)]);
        assert_eq!(of(&[(0.0, 1.2), (1.0, 31.0)]), 1.0..100.0);
        assert_eq!(of(&[(0.0, 5.0), (1.0, 10.0)]), 1.0..100.0);
        assert_eq!(of(&[(0.0, 0.0)]), 0.001..0.01);
        assert_eq!(of(&[]), 0.001..0.01);
    }

    #[test]
    fn a_stretched_quantile_is_written_as_its_percentile() {
        assert_eq!([1.0, 10.0, 100.0, 1e3, 1e5].map(|x| percentile(&x)), ["0 %", "90 %", "99 %", "99.9 %", "99.999 %"]);
        assert_eq!(
            [0.0, 0.001, 0.5, 1.0, 100.0, 9_999.0, 12_500.0, 2e6].map(|x| short(&x)),
            ["0", "0.001", "0.5", "1", "100", "9999", "12.5 k", "2 M"]
        );
    }
}
