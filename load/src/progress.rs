//! What a person sees while it runs: a bar on a terminal, a plain line now and then elsewhere.

use std::collections::btree_map::Entry;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::record::{ByKind, Interval, Kind, Observer, Series};

const LINE_EVERY: Duration = Duration::from_secs(5);

/// How far along it is, and of how much, in a unit of the caller's.
#[derive(Clone)]
pub(crate) struct Track {
    pub(crate) done: Arc<AtomicU64>,
    pub(crate) whole: Option<u64>,
}

/// Shows how it goes, and how many events went through, of `whole` where that is known.
pub(crate) fn observer(whole: Option<u64>) -> Observer {
    let done = Arc::new(AtomicU64::new(0));
    let mut show = tracked(Track { done: Arc::clone(&done), whole });
    Box::new(move |interval| {
        done.fetch_add(interval.series.get(&Kind::Write).map_or(0, |write| write.events), Ordering::Relaxed);
        show(interval);
    })
}

/// Shows how it goes, and how far `track` is.
pub(crate) fn tracked(track: Track) -> Observer {
    let bar = std::io::stderr().is_terminal().then(|| bar(track.whole));
    let every = if bar.is_some() { Duration::ZERO } else { LINE_EVERY };
    let mut lately = Lately::default();
    Box::new(move |interval| {
        lately.add(interval);
        if lately.length < every {
            return;
        }
        let line = std::mem::take(&mut lately).line();
        let done = track.done.load(Ordering::Relaxed);
        match &bar {
            Some(bar) => {
                bar.set_position(done);
                bar.set_message(line);
            }
            None => eprintln!("{:5.0} s  {}{line}", (interval.start + interval.length).as_secs_f64(), percent(done, track.whole)),
        }
    })
}

/// What came since the last line.
#[derive(Default)]
struct Lately {
    length: Duration,
    backlog: u64,
    series: ByKind,
}

impl Lately {
    fn add(&mut self, interval: &Interval) {
        self.length += interval.length;
        self.backlog = interval.backlog;
        for (kind, series) in &interval.series {
            match self.series.entry(*kind) {
                Entry::Occupied(mut so_far) => so_far.get_mut().add(series),
                Entry::Vacant(none) => {
                    none.insert(series.clone());
                }
            }
        }
    }

    /// A part a kind that occurred, then what went wrong and what waits.
    fn line(&self) -> String {
        let mut parts: Vec<String> = self.series.iter().map(|(kind, series)| self.part(*kind, series)).collect();
        let sum = |of: fn(&Series) -> u64| self.series.values().map(of).sum::<u64>();
        let counts = [("errors", sum(|series| series.failed + series.rejected)), ("sent again", sum(|series| series.retries))];
        parts.extend(counts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}")));
        parts.push(format!("backlog {}", self.backlog));
        parts.join("  ")
    }

    fn part(&self, kind: Kind, series: &Series) -> String {
        let count = if kind == Kind::Write { series.stored } else { series.requests };
        let rate = count as f64 / self.length.as_secs_f64().max(1e-9);
        let ms = |quantile| series.latency.value_at_quantile(quantile) as f64 / 1e3;
        format!("{} {rate:.0}/s p50 {:.1} p99 {:.1} p99.9 {:.1} ms", kind.name(), ms(0.5), ms(0.99), ms(0.999))
    }
}

fn bar(whole: Option<u64>) -> ProgressBar {
    let (bar, template) = match whole {
        Some(whole) => (ProgressBar::new(whole), "{elapsed_precise} [{bar:20}] {percent}% eta {eta}  {msg}"),
        None => (ProgressBar::new_spinner(), "{elapsed_precise} {spinner} {msg}"),
    };
    let style = ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
    bar.with_style(style.progress_chars("=> "))
}

fn percent(done: u64, whole: Option<u64>) -> String {
    match whole {
        Some(whole) if whole > 0 => format!("{:3.0} %  ", done as f64 * 100.0 / whole as f64),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use crate::report::samples;

    use super::*;

    #[test]
    fn a_line_adds_up_the_intervals_since_the_last() {
        let intervals = samples::intervals();
        let mut lately = Lately::default();
        intervals[..2].iter().for_each(|interval| lately.add(interval));
        // Two seconds of 100 writes of 100 events and as many reads; one event refused; 2 to 41 ms each.
        assert_eq!(lately.series[&Kind::Write].requests, 200);
        let line = lately.line();
        assert!(line.starts_with("write 10000/s p50 2"), "{line}");
        assert!(line.contains("read:last 100/s") && line.ends_with("errors 1  backlog 50"), "{line}");
    }

    #[test]
    fn how_far_it_is_is_said_where_that_is_known() {
        assert_eq!((percent(1, Some(4)), percent(1, None), percent(1, Some(0))), (" 25 %  ".into(), String::new(), String::new()));
    }

    #[test]
    fn a_bar_can_be_drawn_either_way() {
        assert_eq!((bar(Some(5)).length(), bar(None).length()), (Some(5), None));
    }
}
