//! What a person sees while it runs: a bar on a terminal, a plain line now and then elsewhere.

use std::collections::btree_map::Entry;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use tokio::time::Instant;

use crate::record::{ByKind, Interval, Kind, Observer, Series};

const LINE_EVERY: Duration = Duration::from_secs(5);

/// How far along it is, and of how much, in a unit of the caller's.
#[derive(Clone)]
pub(crate) struct Track {
    pub(crate) done: Arc<AtomicU64>,
    pub(crate) whole: Option<u64>,
}

/// Shows how a run goes, and how much is done of its events, else of its time.
pub(crate) fn observer(events: Option<u64>, until: Option<Duration>) -> Observer {
    let done = Arc::new(AtomicU64::new(0));
    let whole = events.or(until.map(|until| until.as_millis() as u64));
    let mut show = tracked(Track { done: Arc::clone(&done), whole });
    Box::new(move |interval| {
        advance(&done, events.is_some(), interval);
        show(interval);
    })
}

/// Adds the events of an interval, or its time in milliseconds.
fn advance(done: &AtomicU64, by_events: bool, interval: &Interval) {
    if by_events {
        done.fetch_add(interval.series.get(&Kind::Write).map_or(0, |write| write.events), Ordering::Relaxed);
    } else {
        done.store((interval.start + interval.length).as_millis() as u64, Ordering::Relaxed);
    }
}

/// Shows how it goes, and how far `track` is.
pub(crate) fn tracked(track: Track) -> Observer {
    let display = Display::new(track.whole);
    let mut lately = Lately::default();
    Box::new(move |interval| {
        lately.add(interval);
        if lately.length >= display.every() {
            let line = std::mem::take(&mut lately).line();
            display.show((interval.start + interval.length).as_secs_f64(), track.done.load(Ordering::Relaxed), line);
        }
    })
}

/// Shows how far reading back is.
pub(crate) struct ReadingBack {
    display: Display,
    began: Instant,
    shown: Duration,
}

impl ReadingBack {
    /// Of about so many events.
    pub(crate) fn new(whole: u64) -> ReadingBack {
        ReadingBack { display: Display::new(Some(whole)), began: Instant::now(), shown: Duration::ZERO }
    }

    pub(crate) fn show(&mut self, events: u64) {
        let elapsed = self.began.elapsed();
        if elapsed - self.shown >= self.display.every() {
            self.shown = elapsed;
            self.display.show(elapsed.as_secs_f64(), events, format!("reading back: {events} events"));
        }
    }
}

/// Where progress is shown; a bar goes with it.
struct Display {
    bar: Option<ProgressBar>,
    whole: Option<u64>,
}

impl Display {
    fn new(whole: Option<u64>) -> Display {
        Display { bar: std::io::stderr().is_terminal().then(|| bar(whole)), whole }
    }

    fn every(&self) -> Duration {
        if self.bar.is_some() { Duration::ZERO } else { LINE_EVERY }
    }

    fn show(&self, seconds: f64, done: u64, line: String) {
        match &self.bar {
            Some(bar) => {
                bar.set_position(done.min(self.whole.unwrap_or(u64::MAX)));
                bar.set_message(line);
            }
            None => eprintln!("{seconds:5.0} s  {}{line}", percent(done, self.whole)),
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
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

    /// Writes, what went wrong and what waits, then the reads; a terminal may cut it at its width.
    fn line(&self) -> String {
        let sum = |of: fn(&Series) -> u64| self.series.values().map(of).sum::<u64>();
        let counts = [("errors", sum(|series| series.failed + series.rejected)), ("retries", sum(|series| series.retries))];
        let counts = counts.iter().filter(|(_, count)| *count > 0).map(|(name, count)| format!("{name} {count}"));
        let (writes, reads): (Vec<_>, Vec<_>) = self.series.iter().partition(|(kind, _)| **kind == Kind::Write);
        let mut parts: Vec<String> = writes.iter().map(|(kind, series)| self.part(**kind, series)).collect();
        parts.extend(counts);
        parts.push(format!("backlog {}", self.backlog));
        parts.extend(reads.iter().map(|(kind, series)| self.part(**kind, series)));
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
        Some(whole) => (ProgressBar::new(whole), "{elapsed_precise} [{bar:12}] {percent:>3}%  {wide_msg}"),
        None => (ProgressBar::new_spinner(), "{elapsed_precise} {spinner} {wide_msg}"),
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
        assert!(line.contains("ms  errors 1  retries 200  backlog 50  read:last 100/s"), "{line}");
    }

    #[test]
    fn how_far_it_is_is_said_where_that_is_known() {
        assert_eq!((percent(1, Some(4)), percent(1, None), percent(1, Some(0))), (" 25 %  ".into(), String::new(), String::new()));
    }

    #[test]
    fn a_run_is_as_far_as_its_events_or_else_its_time() {
        let intervals = samples::intervals();
        for (by_events, expected) in [(true, 20_000), (false, 2_000)] {
            let done = AtomicU64::new(0);
            intervals[..2].iter().for_each(|interval| advance(&done, by_events, interval));
            assert_eq!(done.load(Ordering::Relaxed), expected);
        }
    }

    #[test]
    fn a_bar_can_be_drawn_either_way() {
        assert_eq!((bar(Some(5)).length(), bar(None).length()), (Some(5), None));
    }
}
