//! `compare A B`: two results side by side, and whether they may be compared at all.
//!
//! Results of the same workload on the same machine are comparable; that is what a change of the
//! program, or another target, is judged by. Pure.

use std::collections::BTreeSet;

use super::document::{Document, Settings, Summary};

/// Settings that may differ: where the server is and what it is, not what it is asked to do.
const MAY_DIFFER: [&str; 9] = ["target", "url", "read-url", "namespace", "seed", "dynamodb-endpoint", "cql-nodes", "suffixes", "suffix"];

/// What a comparison came to.
pub(crate) struct Comparison {
    /// For a person.
    pub(crate) text: String,
    /// Whether a ratio says something about the servers alone.
    pub(crate) comparable: bool,
}

/// Compares two results.
pub(crate) fn compare(a: &Document, b: &Document) -> Comparison {
    let (told, fatal) = differences(a, b);
    let mut lines = vec![row("", "A", "B", "B/A")];
    for name in names(a, b) {
        let find = |document: &Document| document.summaries().find(|(kind, _)| *kind == name).map(|(_, summary)| summary.clone());
        lines.extend(section(name, find(a).as_ref(), find(b).as_ref()));
    }
    lines.push(numbers("backlog at most", a.backlog_max as f64, b.backlog_max as f64));
    lines.push(numbers("never sent", a.skipped as f64, b.skipped as f64));
    lines.push(String::new());
    lines.extend(told.iter().map(|difference| format!("differs: {difference}")));
    lines.extend(fatal.iter().map(|difference| format!("DIFFERS: {difference}")));
    let comparable = fatal.is_empty();
    lines.push(if comparable { "comparable: same workload, same machine" } else { "NOT comparable: the ratios say little" }.to_owned());
    Comparison { text: lines.join("\n"), comparable }
}

fn row(name: &str, a: &str, b: &str, ratio: &str) -> String {
    format!("{name:<24}{a:>16}{b:>16}{ratio:>9}").trim_end().to_owned()
}

fn numbers(name: &str, a: f64, b: f64) -> String {
    let number = |value: f64| if value.fract() == 0.0 || value.abs() >= 1e3 { format!("{value:.0}") } else { format!("{value:.3}") };
    let ratio = if a > 0.0 { format!("{:.2}", b / a) } else { "–".to_owned() };
    row(name, &number(a), &number(b), &ratio)
}

/// The kinds of requests of either.
fn names<'d>(a: &'d Document, b: &'d Document) -> Vec<&'d str> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in a.summaries().chain(b.summaries()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn section(name: &str, a: Option<&Summary>, b: Option<&Summary>) -> Vec<String> {
    let (Some(a), Some(b)) = (a, b) else {
        return vec![row(name, if a.is_some() { "yes" } else { "–" }, if b.is_some() { "yes" } else { "–" }, "")];
    };
    let mut lines = vec![name.to_owned()];
    let mut put = |name: &str, a: f64, b: f64| lines.push(numbers(&format!("  {name}"), a, b));
    put("requests/s", a.requests_per_second, b.requests_per_second);
    if a.events + b.events > 0 {
        put("events/s", a.events_per_second, b.events_per_second);
    }
    for ((name, a), (_, b)) in a.latency_ms.rows().into_iter().zip(b.latency_ms.rows()) {
        put(&format!("{name} ms"), a, b);
    }
    if a.units + b.units > 0.0 {
        put("units", a.units, b.units);
    }
    for (name, a, b) in [("failed", a.failed, b.failed), ("events refused", a.rejected, b.rejected), ("retries", a.retries, b.retries)] {
        if a + b > 0 {
            put(name, a as f64, b as f64);
        }
    }
    lines
}

/// What differs and may, and what differs and may not.
fn differences(a: &Document, b: &Document) -> (Vec<String>, Vec<String>) {
    let (mut told, mut fatal) = (Vec::new(), Vec::new());
    let said = |name: &str, a: &str, b: &str| (a != b).then(|| format!("{name}: {a} | {b}"));
    let seed = |document: &Document| document.run.seed.map_or("none".to_owned(), |seed| seed.to_string());
    told.extend(said("commit", &a.run.commit, &b.run.commit));
    told.extend(said("version", &a.run.version, &b.run.version));
    told.extend(said("seed", &seed(a), &seed(b)));
    for ((name, a), (_, b)) in a.run.machine.rows().iter().zip(b.run.machine.rows().iter()) {
        fatal.extend(said(name, a, b));
    }
    for name in a.run.workload.keys().chain(b.run.workload.keys()).collect::<BTreeSet<_>>() {
        let value = |settings: &Settings| settings.get(name).cloned().unwrap_or_else(|| "not set".to_owned());
        let into = if MAY_DIFFER.contains(&name.as_str()) { &mut told } else { &mut fatal };
        into.extend(said(&format!("--{name}"), &value(&a.run.workload), &value(&b.run.workload)));
    }
    for (name, document) in [("A", a), ("B", b)] {
        fatal.extend(document.failure.as_ref().map(|failure| format!("{name} broke off: {failure}")));
    }
    (told, fatal)
}

#[cfg(test)]
mod tests {
    use crate::report::samples;

    use super::*;

    /// A line's words.
    fn words<'t>(text: &'t str, begins: &str) -> Vec<&'t str> {
        let line = text.lines().find(|line| line.trim_start().starts_with(begins)).unwrap_or_else(|| panic!("{begins}: {text}"));
        line.split_whitespace().collect()
    }

    #[test]
    fn another_commit_is_what_is_compared_and_shown_with_ratios() {
        let (a, _) = samples::result();
        let mut b = a.clone();
        b.run.commit = "fedcba".into();
        b.run.seed = Some(8);
        let write = b.write.as_mut().unwrap();
        write.events_per_second *= 3.0;
        write.latency_ms.p99 = 10.0;
        let comparison = compare(&a, &b);
        assert!(comparison.comparable, "{}", comparison.text);
        assert_eq!(words(&comparison.text, "events/s").last(), Some(&"3.00"));
        let p99 = a.write.unwrap().latency_ms.p99;
        assert_eq!(words(&comparison.text, "p99 ms")[3..], ["10", &format!("{:.2}", 10.0 / p99)]);
        assert!(comparison.text.contains("differs: commit: abcdef | fedcba") && comparison.text.contains("differs: seed: 7 | 8"));
    }

    #[test]
    fn another_machine_or_workload_or_a_broken_run_is_not_comparable() {
        let (a, _) = samples::result();
        let with = |change: fn(&mut Document)| {
            let mut b = a.clone();
            change(&mut b);
            compare(&a, &b)
        };
        let machine = with(|b| b.run.machine.cores = 64);
        assert!(!machine.comparable && machine.text.contains("DIFFERS: cores: 2 | 64"), "{}", machine.text);
        let workload = with(|b| drop(b.run.workload.insert("connections".into(), "9".into())));
        assert!(!workload.comparable && workload.text.contains("DIFFERS: --connections: 8 | 9"), "{}", workload.text);
        let set = with(|b| drop(b.run.workload.insert("late".into(), "5%".into())));
        assert!(!set.comparable && set.text.contains("DIFFERS: --late: not set | 5%"), "{}", set.text);
        assert!(!with(|b| b.failure = Some("404".into())).comparable);
        assert!(with(|b| drop(b.run.workload.insert("target".into(), "influx".into()))).comparable);
    }

    #[test]
    fn a_kind_that_only_one_has_is_shown_as_missing() {
        let (a, _) = samples::result();
        let mut b = a.clone();
        b.reads.clear();
        assert_eq!(words(&compare(&a, &b).text, "read:last"), ["read:last", "yes", "–"]);
    }
}
