//! What a person sees while it runs: a bar on a terminal, a plain line now and then elsewhere.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use crate::record::{Interval, Kind, Observer};

const LINE_EVERY: Duration = Duration::from_secs(5);

/// How far along it is, and of how much, in a unit of the caller's.
#[derive(Clone)]
pub(crate) struct Track {
    pub(crate) done: Arc<AtomicU64>,
    pub(crate) whole: Option<u64>,
}

/// Shows how many events went through, of `whole` where that is known.
pub(crate) fn observer(whole: Option<u64>) -> Observer {
    let done = Arc::new(AtomicU64::new(0));
    let mut show = tracked(Track { done: Arc::clone(&done), whole });
    Box::new(move |interval| {
        done.fetch_add(events(interval), Ordering::Relaxed);
        show(interval);
    })
}

/// Shows how many events went through, and how far `track` is.
pub(crate) fn tracked(track: Track) -> Observer {
    let bar = std::io::stderr().is_terminal().then(|| bar(track.whole));
    let (mut all, mut said) = (0, Duration::ZERO);
    Box::new(move |interval| {
        all += events(interval);
        let now = interval.start + interval.length;
        let warmup = if interval.warmup { " (warm-up)" } else { "" };
        let line = line(all, now, interval.backlog) + warmup;
        let done = track.done.load(Ordering::Relaxed);
        match &bar {
            Some(bar) => {
                bar.set_position(done);
                bar.set_message(line);
            }
            None if now >= said + LINE_EVERY => {
                said = now;
                eprintln!("{}{line}", percent(done, track.whole));
            }
            None => {}
        }
    })
}

fn events(interval: &Interval) -> u64 {
    interval.series.get(&Kind::Write).map_or(0, |write| write.events)
}

fn bar(whole: Option<u64>) -> ProgressBar {
    match whole {
        Some(whole) => {
            let style = ProgressStyle::with_template("{elapsed_precise} [{bar:40}] {percent}% {msg} eta {eta}");
            ProgressBar::new(whole).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("=> "))
        }
        None => ProgressBar::new_spinner(),
    }
}

fn percent(done: u64, whole: Option<u64>) -> String {
    match whole {
        Some(whole) if whole > 0 => format!("{:3.0} %  ", done as f64 * 100.0 / whole as f64),
        _ => String::new(),
    }
}

fn line(events: u64, elapsed: Duration, backlog: u64) -> String {
    format!("{events} events, {:.0} events/s, backlog {backlog}", events as f64 / elapsed.as_secs_f64().max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_many_and_how_fast() {
        assert_eq!(percent(1, Some(4)) + &line(500, Duration::from_secs(2), 7), " 25 %  500 events, 250 events/s, backlog 7");
    }
}
