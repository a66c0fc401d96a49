//! What a person sees while it runs: a bar on a terminal, a plain line now and then elsewhere.

use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

const BAR_EVERY: Duration = Duration::from_millis(200);
const LINE_EVERY: Duration = Duration::from_secs(5);

/// How far along it is, and of how much, in a unit of the caller's.
pub(crate) struct Track {
    pub(crate) done: Arc<AtomicU64>,
    pub(crate) whole: Option<u64>,
}

/// Shows how many events went through until it is told to stop.
pub(crate) struct Progress {
    task: tokio::task::JoinHandle<()>,
    bar: Option<ProgressBar>,
}

impl Progress {
    /// Begins to show; `events` is counted up by others.
    pub(crate) fn start(track: Track, events: Arc<AtomicU64>) -> Progress {
        let bar = std::io::stderr().is_terminal().then(|| bar(track.whole));
        let shown = bar.clone();
        let task = tokio::spawn(async move {
            let began = Instant::now();
            loop {
                tokio::time::sleep(if shown.is_some() { BAR_EVERY } else { LINE_EVERY }).await;
                let line = line(events.load(Ordering::Relaxed), began.elapsed());
                let done = track.done.load(Ordering::Relaxed);
                match &shown {
                    Some(bar) => {
                        bar.set_position(done);
                        bar.set_message(line);
                    }
                    None => eprintln!("{}{line}", percent(done, track.whole)),
                }
            }
        });
        Progress { task, bar }
    }

    /// Clears the bar.
    pub(crate) fn stop(self) {
        self.task.abort();
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
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

fn line(events: u64, elapsed: Duration) -> String {
    format!("{events} events, {:.0} events/s", events as f64 / elapsed.as_secs_f64().max(1e-9))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_how_many_and_how_fast() {
        assert_eq!(percent(1, Some(4)) + &line(500, Duration::from_secs(2)), " 25 %  500 events, 250 events/s");
    }
}
