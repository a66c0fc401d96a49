//! The result for a person: what `--json` says, as a table in a terminal's width.

use super::document::{Document, Summary};
use crate::verify::Verification;

/// The table.
pub(crate) fn table(document: &Document, verification: Option<&Result<Verification, String>>) -> String {
    let mut lines = Vec::new();
    if let Some(write) = &document.write {
        lines.extend(writes(write));
    }
    lines.extend(latencies(document));
    if !lines.is_empty() {
        lines.push(String::new());
    }
    lines.push(row("seconds", &format!("{:.3}", document.seconds)));
    lines.extend(document.units().map(|units| row("units", &units)));
    let waited: u64 = document.summaries().map(|(_, summary)| summary.retry_after).sum();
    if waited > 0 {
        lines.push(row("waited", &format!("{waited} times for as long as the server asked (Retry-After)")));
    }
    lines.push(row("backlog", &format!("{} events at most, {} never sent", document.backlog_max, document.skipped)));
    if let Some(seed) = document.run.seed {
        lines.push(row("seed", &seed.to_string()));
    }
    for (code, count) in &document.refused {
        lines.push(row("refused", &format!("{count} {code}")));
    }
    for refusal in &document.refused_samples {
        let place = refusal.line.map(|line| format!("line {line}: ")).unwrap_or_default();
        lines.push(format!("  {place}{}: {}", refusal.code, refusal.detail));
    }
    match verification {
        Some(Ok(verification)) => lines.extend(verified(verification)),
        Some(Err(why)) => lines.push(row("verify", &format!("could not be done: {why}"))),
        None => {}
    }
    lines.join("\n")
}

/// What verification found; every event that is named is.
fn verified(verification: &Verification) -> Vec<String> {
    let verdict = &verification.verdict;
    let found = format!("{} acknowledged, {} found in {:.1} s", verdict.acknowledged, verdict.found, verification.seconds);
    let unknown = format!("of unknown outcome {} found, {} absent", verdict.unknown_found, verdict.unknown_absent);
    let mut lines = vec![row("verify", &format!("{found}; {unknown}"))];
    for (name, faults) in verdict.faults() {
        lines.push(row(name, &faults.count.to_string()));
        lines.extend(faults.named.iter().map(|event| format!("  key {} id {} ts {}", event.key, event.id, event.ts)));
    }
    lines
}

fn row(name: &str, value: &str) -> String {
    format!("{name:<11} {value}")
}

fn writes(write: &Summary) -> Vec<String> {
    let unknown = if write.unknown > 0 { format!(", {} unknown", write.unknown) } else { String::new() };
    let stored = format!("{} of {}, {} rejected{unknown}", write.stored, write.events, write.rejected);
    let mut lines = vec![row("stored", &stored), row("events/s", &format!("{:.0}", write.events_per_second))];
    if write.body_bytes > 0 {
        lines.push(row("body MB", &format!("{:.1}", write.body_bytes as f64 / 1e6)));
    }
    lines.push(String::new());
    lines
}

/// A line a kind: how many, how fast; 79 columns.
fn latencies(document: &Document) -> Vec<String> {
    const COLUMNS: [(&str, usize); 9] =
        [("requests", 9), ("failed", 7), ("retries", 8), ("a second", 9), ("p50 ms", 7), ("p90", 7), ("p99", 7), ("p99.9", 7), ("max", 7)];
    let line = |name: &str, cells: &[String]| {
        let cells = cells.iter().zip(COLUMNS).map(|(cell, (_, width))| format!("{cell:>width$}"));
        format!("{name:<11}{}", cells.collect::<String>())
    };
    let of = |(name, summary): (&str, &Summary)| {
        let counts = [summary.requests, summary.failed, summary.retries].map(|count| count.to_string());
        let rate = [format!("{:.1}", summary.requests_per_second)];
        let answered = summary.requests > summary.failed;
        let latency = summary.latency_ms.rows().map(|(_, ms)| if answered { four_digits(ms) } else { "–".to_owned() });
        line(name, &[&counts[..], &rate, &latency].concat())
    };
    let lines: Vec<String> = document.summaries().map(of).collect();
    if lines.is_empty() { lines } else { [vec![line("", &COLUMNS.map(|(name, _)| name.to_owned()))], lines].concat() }
}

/// A number, and no more digits than can be trusted.
fn four_digits(value: f64) -> String {
    let decimals = match value {
        ..9.9995 => 3,
        ..99.995 => 2,
        ..999.95 => 1,
        _ => 0,
    };
    format!("{value:.decimals$}")
}

#[cfg(test)]
mod tests {
    use crate::report::samples;

    use super::*;

    #[test]
    fn numbers_are_short() {
        let numbers = [0.0004, 1.2345, 9.9996, 12.345, 999.96, 60_000.4].map(four_digits);
        assert_eq!(numbers, ["0.000", "1.234", "10.00", "12.35", "1000", "60000"]);
    }

    #[test]
    fn the_table_adds_up_and_names_the_lines_that_were_refused() {
        let (document, _) = samples::result();
        let table = table(&document, None);
        let write = document.write.unwrap();
        assert!(table.contains(&format!("stored      {} of {}, {} rejected", write.stored, write.events, write.rejected)), "{table}");
        assert!(table.contains("units       write 750.0, 0.025 an event"), "{table}");
        assert!(table.contains("waited      300 times"), "{table}");
        assert!(table.contains("line 9: key_missing: no key") && table.contains("refused     1 key_missing"), "{table}");
        assert!(table.lines().all(|line| line.chars().count() < 80), "{table}");
        let reads = table.lines().find(|line| line.starts_with("read:last")).unwrap();
        assert_eq!(reads.split_whitespace().nth(1), Some(&*document.reads["read:last"].requests.to_string()));
    }
}
