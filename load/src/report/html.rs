//! `--html FILE`: a result as one page that needs nothing else: no script, no network.

use std::fmt::Write;

use hdrhistogram::Histogram;

use super::Outcome;
use super::document::{Document, Quantiles, Row, Summary};
use super::plot::{self, Line, PlotError};
use crate::record::{Kind, Series};

const STYLE: &str = "\
body{font:15px/1.5 system-ui,sans-serif;color:#222;max-width:78rem;margin:2rem auto;padding:0 1rem}\
table{border-collapse:collapse;margin:1rem 0}td,th{padding:.2rem .8rem;border-bottom:1px solid #ddd;text-align:right;white-space:nowrap}\
td:first-child,th:first-child,.about td{text-align:left}.about td{white-space:normal}\
pre{white-space:pre-wrap;background:#f4f4f4;padding:.6rem}.bad{color:#b00}\
.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(32rem,100%),1fr));gap:1rem 2rem}\
figure{margin:0}figcaption{font-weight:600}figcaption span{font-weight:400;margin-left:1rem}svg{width:100%;height:auto}";
/// Points of a percentile line; 99.999 % is the last that a run of seconds can tell.
const QUANTILES: usize = 120;
const NINES_MAX: f64 = 5.0;
const FAULTS: [&str; 5] = ["lost", "invented", "doubled", "altered", "disordered"];

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
    if let Some(units) = document.units() {
        put(&format!("<p>Units: {units}</p>"));
    }
    put(&refused(document));
    put(&verified(document));
    put(
        "<h2>Over time</h2><p>Latency counts from the time that a request was due. The warm-up is drawn over time, and not counted otherwise.</p>",
    );
    put(&format!("<div class=\"plots\">{}</div>", plots(document, outcome)?));
    put("<h2>Circumstances</h2>");
    put(&circumstances(document));
    put("</html>\n");
    Ok(html)
}

/// How much over time, then a row of latencies for each kind of request.
fn plots(document: &Document, outcome: &Outcome) -> Result<String, PlotError> {
    let rows = &document.intervals;
    let (writes, reads): (Vec<_>, Vec<_>) = outcome.record.series.iter().partition(|(kind, _)| **kind == Kind::Write);
    let mut plots = Vec::new();
    for (title, unit, kinds) in [("Writes", "events/s", &writes), ("Reads", "requests/s", &reads)] {
        let lines: Vec<Line> = kinds.iter().map(|(kind, _)| throughput(kind.name(), rows)).collect();
        if !lines.is_empty() {
            plots.push(figure(title, plot::over_time(unit, &lines)?, &lines));
        }
    }
    let backlog = [line("due and not yet sent", rows, |row| Some(row.backlog as f64))];
    plots.push(figure("Backlog", plot::over_time("events", &backlog)?, &backlog));
    if plots.len() % 2 == 1 {
        plots.push("<div></div>".to_owned());
    }
    for (kind, series) in writes.into_iter().chain(reads) {
        let (over_time, by_percentile) = (latencies(kind.name(), rows), distributions(series));
        plots.push(figure(&format!("{}: latency over time", kind.name()), plot::latency_over_time(&over_time)?, &over_time));
        plots.push(figure(&format!("{}: by percentile", kind.name()), plot::percentiles(&by_percentile)?, &by_percentile));
    }
    Ok(plots.concat())
}

/// A plot under its title and the names of its lines, in their colours.
fn figure(title: &str, svg: String, lines: &[Line]) -> String {
    let named = |(number, line): (usize, &Line)| format!("<span style=\"color:{}\">― {}</span>", plot::colour(number), escape(&line.name));
    let names: String = lines.iter().enumerate().map(named).collect();
    format!("<figure><figcaption>{}{names}</figcaption>{svg}</figure>", escape(title))
}

fn summaries(document: &Document) -> String {
    let mut html = String::from("<table><tr><th>");
    let heads = ["requests", "failed", "retries", "events/s", "requests/s"].into_iter();
    let quantiles = ["p50", "p90", "p99", "p99.9", "max"].map(|name| format!("{name} ms"));
    heads.map(str::to_owned).chain(quantiles).for_each(|head| html.push_str(&format!("<th>{head}")));
    for (name, summary) in document.summaries() {
        let Summary { requests, failed, retries, events_per_second, requests_per_second, latency_ms, .. } = summary;
        let events = if summary.events > 0 { format!("{events_per_second:.0}") } else { "–".to_owned() };
        let _ = write!(html, "<tr><td>{name}<td>{requests}<td>{failed}<td>{retries}<td>{events}<td>{requests_per_second:.1}");
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

/// What `--verify` found, fault by fault.
fn verified(document: &Document) -> String {
    let verify = &document.verify;
    let Some(found) = verify["found"].as_u64() else {
        let failure = verify["failure"].as_str();
        return failure.map_or(String::new(), |why| format!("<p class=\"bad\">Not verified: {}</p>", escape(why)));
    };
    let counts = FAULTS.map(|fault| format!("{fault} {}", verify[fault]["count"]));
    let class = if FAULTS.iter().all(|fault| verify[fault]["count"] == 0) { "" } else { " class=\"bad\"" };
    format!("<p{class}>Verified: {} acknowledged, {found} found; {}.</p>", verify["acknowledged"], counts.join(", "))
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
    format!("<table class=\"about\">{}</table>", cells.collect::<String>())
}

fn line(name: &str, rows: &[Row], value: impl Fn(&Row) -> Option<f64>) -> Line {
    let points = rows.iter().filter_map(|row| Some((row.start + row.seconds, value(row)?)));
    Line { name: name.to_owned(), points: points.collect() }
}

/// Events a second of writes, requests a second of reads.
fn throughput(kind: &str, rows: &[Row]) -> Line {
    let count = |row: &Row| row.kinds.get(kind).map_or(0, |cell| if cell.events > 0 { cell.events } else { cell.requests });
    // The tail of a run is a moment, not a second: its rate would be noise.
    line(kind, rows, |row| (row.seconds > 0.5).then(|| count(row) as f64 / row.seconds))
}

fn latencies(kind: &str, rows: &[Row]) -> Vec<Line> {
    let of = |name: &str| {
        let quantile = |quantiles: &Quantiles| quantiles.rows().iter().find(|row| row.0 == name).map(|row| row.1);
        let answered =
            |row: &Row| row.kinds.get(kind).filter(|cell| cell.requests > cell.failed).and_then(|cell| quantile(&cell.latency_ms));
        line(name, rows, answered)
    };
    ["p50", "p99", "max"].map(of).into()
}

fn distributions(series: &Series) -> Vec<Line> {
    let distribution = |name: &str, histogram: &Histogram<u64>| {
        let stretched = (0..=QUANTILES).map(|i| 10_f64.powf(NINES_MAX * i as f64 / QUANTILES as f64));
        // Beyond the number of values there is only the maximum.
        let known = stretched.take_while(|x| *x <= (histogram.len() as f64).max(1.0));
        let points = known.map(|x| (x, histogram.value_at_quantile(1.0 - 1.0 / x) as f64 / 1e3));
        Line { name: name.to_owned(), points: points.collect() }
    };
    vec![distribution("from when it was due", &series.latency), distribution("from when it left", &series.service)]
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
        // Writes, reads, backlog; two for each of two kinds.
        assert_eq!(page.matches("<svg").count(), 7);
        let parts =
            ["braid-load run --key &lt;hot&gt;", "write: latency over time", "read:last: by percentile", "write 750.0, 0.025 an event"];
        for needed in parts.iter().chain(&["commit", "Test CPU", "--connections", "p99</span>"]) {
            assert!(page.contains(needed), "{needed}");
        }
        let outside = ["<script", "href=\"http", "src=", "@import", "url("];
        assert!(outside.iter().all(|part| !page.contains(part)), "nothing is fetched");
    }

    #[test]
    fn the_page_says_what_was_verified() {
        let (mut document, outcome) = samples::result();
        let page = |document: &Document| page(document, &outcome).unwrap();
        assert!(!page(&document).contains("erified"));
        document.verify = serde_json::json!({"failure": "gone <away>"});
        assert!(page(&document).contains("class=\"bad\">Not verified: gone &lt;away&gt;"));
        let none = serde_json::json!({"count": 0, "named": []});
        document.verify = serde_json::json!({"acknowledged": 5, "found": 4, "lost": {"count": 1, "named": []}, "invented": none, "doubled": none, "altered": none, "disordered": none});
        assert!(page(&document).contains("class=\"bad\">Verified: 5 acknowledged, 4 found; lost 1, invented 0"), "{}", page(&document));
    }

    #[test]
    fn percentiles_end_where_the_values_do() {
        let (_, outcome) = samples::result();
        let series = &outcome.record.series[&Kind::Write];
        let lines = distributions(series);
        let requests = series.latency.len() as f64;
        assert!(lines[0].points.iter().all(|(x, _)| *x <= requests) && lines[0].points.len() > 10);
        assert!(lines[0].points.windows(2).all(|pair| pair[0].1 <= pair[1].1), "a percentile never falls");
    }
}
