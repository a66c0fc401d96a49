//! `--html FILE`: a result as one page that needs nothing else: no script, no network.

use std::fmt::Write;

use hdrhistogram::Histogram;

use super::Outcome;
use super::document::{Document, Quantiles, Row, Summary};
use super::plot::{self, Line, PlotError};

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:60rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;border-bottom:1px solid #ddd;text-align:right}\
td:first-child,th:first-child{text-align:left}svg{max-width:100%;height:auto}pre{white-space:pre-wrap;background:#f4f4f4;padding:.6rem}\
.bad{color:#b00}";
/// Points of a percentile line; 99.999 % is the last that a run of seconds can tell.
const QUANTILES: usize = 120;
const NINES_MAX: f64 = 5.0;

/// The page. Histograms come from `outcome`, all else from its document.
pub(crate) fn page(document: &Document, outcome: &Outcome) -> Result<String, PlotError> {
    let mut html = String::from("<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>braid-load</title>");
    let run = &document.run;
    let mut put = |text: &str| html.push_str(text);
    put(&format!("<style>{STYLE}</style><h1>braid-load</h1><pre>{}</pre>", escape(&run.command)));
    if let Some(failure) = &document.failure {
        put(&format!("<p class=\"bad\">Broken off: {}</p>", escape(failure)));
    }
    put(&summaries(document));
    put(&format!("<p>Backlog {} events at most; {} never sent.</p>", document.backlog_max, document.skipped));
    put(&refused(document));
    put("<h2>Throughput</h2>");
    put(&plot::over_time("a second", &throughput(&document.intervals))?);
    put("<h2>Latency over time</h2><p>From the time that a request was due; the warm-up included.</p>");
    put(&plot::latency_over_time(&latencies(&document.intervals))?);
    put("<h2>Latency by percentile</h2>");
    put(&plot::percentiles(&distributions(outcome))?);
    put("<h2>Backlog</h2><p>Events due and not yet sent.</p>");
    put(&plot::over_time("events", &[line("backlog", &document.intervals, |row| Some(row.backlog as f64))])?);
    put("<h2>Circumstances</h2>");
    put(&circumstances(document));
    put("</html>\n");
    Ok(html)
}

fn summaries(document: &Document) -> String {
    let mut html = String::from("<table><tr><th>");
    let heads = ["requests", "failed", "again", "events/s", "requests/s"].into_iter();
    let quantiles = ["p50", "p90", "p99", "p99.9", "max"].map(|name| format!("{name} ms"));
    heads.map(str::to_owned).chain(quantiles).for_each(|head| html.push_str(&format!("<th>{head}")));
    for (name, summary) in document.summaries() {
        let Summary { requests, failed, retries, events_per_second, requests_per_second, latency_ms, .. } = summary;
        let _ = write!(html, "<tr><td>{name}<td>{requests}<td>{failed}<td>{retries}<td>{events_per_second:.0}<td>{requests_per_second:.0}");
        latency_ms.rows().iter().for_each(|(_, ms)| html.push_str(&format!("<td>{ms:.3}")));
    }
    html + "</table>"
}

fn refused(document: &Document) -> String {
    let mut html = String::new();
    for (code, count) in &document.refused {
        let _ = write!(html, "<p class=\"bad\">{count} refused: {}</p>", escape(code));
    }
    html
}

fn circumstances(document: &Document) -> String {
    let run = &document.run;
    let seed = run.seed.map_or("none".to_owned(), |seed| seed.to_string());
    let about = [("started", &run.started), ("seed", &seed), ("version", &run.version), ("commit", &run.commit)];
    let about = about.map(|(name, value)| (name.to_owned(), value.clone()));
    let machine = run.machine.rows().map(|(name, value)| (name.to_owned(), value));
    let workload = run.workload.iter().map(|(name, value)| (format!("--{name}"), value.clone()));
    let rows = about.into_iter().chain(machine).chain(workload);
    let cells = rows.map(|(name, value)| format!("<tr><td>{}<td>{}", escape(&name), escape(&value)));
    format!("<table>{}</table>", cells.collect::<String>())
}

fn line(name: &str, rows: &[Row], value: impl Fn(&Row) -> Option<f64>) -> Line {
    let points = rows.iter().filter_map(|row| Some((row.start + row.seconds, value(row)?)));
    Line { name: name.to_owned(), points: points.collect() }
}

/// The kinds that occur, in the order of their names: reads first.
fn kinds(rows: &[Row]) -> Vec<&str> {
    let mut kinds: Vec<&str> = rows.iter().flat_map(|row| row.kinds.keys().map(String::as_str)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    kinds
}

/// Events a second of writes, requests a second of reads.
fn throughput(rows: &[Row]) -> Vec<Line> {
    let of = |kind: &str| {
        let count = |row: &Row| row.kinds.get(kind).map_or(0, |cell| if cell.events > 0 { cell.events } else { cell.requests });
        // The tail of a run is a moment, not a second: its rate would be noise.
        line(kind, rows, |row| (row.seconds > 0.5).then(|| count(row) as f64 / row.seconds))
    };
    kinds(rows).into_iter().map(of).collect()
}

fn latencies(rows: &[Row]) -> Vec<Line> {
    let of = |kind: &str| {
        ["p50", "p99", "max"].map(|name| {
            let quantile = |quantiles: &Quantiles| quantiles.rows().iter().find(|row| row.0 == name).map(|row| row.1);
            let answered =
                |row: &Row| row.kinds.get(kind).filter(|cell| cell.requests > cell.failed).and_then(|cell| quantile(&cell.latency_ms));
            line(&format!("{kind} {name}"), rows, answered)
        })
    };
    kinds(rows).into_iter().flat_map(of).collect()
}

fn distributions(outcome: &Outcome) -> Vec<Line> {
    let distribution = |name: String, histogram: &Histogram<u64>| {
        let stretched = (0..=QUANTILES).map(|i| 10_f64.powf(NINES_MAX * i as f64 / QUANTILES as f64));
        // Beyond the number of values there is only the maximum.
        let known = stretched.take_while(|x| *x <= (histogram.len() as f64).max(1.0));
        let points = known.map(|x| (x, histogram.value_at_quantile(1.0 - 1.0 / x) as f64 / 1e3));
        Line { name, points: points.collect() }
    };
    let of = |(kind, series): (&crate::record::Kind, &crate::record::Series)| {
        [
            distribution(format!("{} latency", kind.name()), &series.latency),
            distribution(format!("{} service", kind.name()), &series.service),
        ]
    };
    outcome.record.series.iter().flat_map(of).collect()
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use crate::report::samples;

    use super::*;

    #[test]
    fn the_page_stands_alone_and_says_what_was_run() {
        let (document, outcome) = samples::result();
        let page = page(&document, &outcome).unwrap();
        assert_eq!(page.matches("<svg").count(), 4);
        for needed in ["braid-load run --key &lt;hot&gt;", "write p99", "read:last p99", "commit", "Test CPU", "--connections"] {
            assert!(page.contains(needed), "{needed}");
        }
        let outside = ["<script", "href=\"http", "src=", "@import", "url("];
        assert!(outside.iter().all(|part| !page.contains(part)), "nothing is fetched");
    }

    #[test]
    fn percentiles_end_where_the_values_do() {
        let (_, outcome) = samples::result();
        let lines = distributions(&outcome);
        let write = lines.iter().find(|line| line.name == "write latency").unwrap();
        let requests = outcome.record.series[&crate::record::Kind::Write].latency.len() as f64;
        assert!(write.points.iter().all(|(x, _)| *x <= requests) && write.points.len() > 10);
        assert!(write.points.windows(2).all(|pair| pair[0].1 <= pair[1].1), "a percentile never falls");
    }
}
