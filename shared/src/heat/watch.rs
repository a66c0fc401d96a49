//! What the leader remembers of a key: the peak of its load over a cool-down under one layout. Pure.

use std::collections::VecDeque;
use std::time::Duration;

use crate::layout::LayoutVersion;

/// The greatest load over a sliding window, for the layout that is in force.
#[derive(Debug)]
pub(super) struct Watch {
    version: LayoutVersion,
    since: Duration,
    /// Since when a suffix is over its target, if one is.
    over_since: Option<Duration>,
    /// When and how much; loads fall from front to back, so the front is the peak.
    peaks: VecDeque<(Duration, f64)>,
}

impl Watch {
    /// Begins to watch at `now` (time since boot).
    pub(super) fn new(version: LayoutVersion, now: Duration) -> Watch {
        Watch { version, since: now, over_since: None, peaks: VecDeque::new() }
    }

    /// Notes a load, and whether a suffix is over its target; another layout begins anew.
    pub(super) fn observe(&mut self, version: LayoutVersion, now: Duration, load: f64, over: bool) {
        if self.version != version {
            *self = Watch::new(version, now);
        }
        self.over_since = over.then(|| self.over_since.unwrap_or(now));
        while self.peaks.back().is_some_and(|(_, earlier)| *earlier <= load) {
            self.peaks.pop_back();
        }
        self.peaks.push_back((now, load));
    }

    /// For how long a suffix has been over its target.
    pub(super) fn over(&self, now: Duration) -> Duration {
        self.over_since.map_or(Duration::ZERO, |since| now.saturating_sub(since))
    }

    /// The peak of the last `window`, once that has been watched whole. Forgets what is older.
    pub(super) fn peak(&mut self, now: Duration, window: Duration) -> Option<f64> {
        while self.peaks.front().is_some_and(|(at, _)| now.saturating_sub(*at) > window) {
            self.peaks.pop_front();
        }
        (now.saturating_sub(self.since) >= window).then(|| self.peaks.front().map_or(0.0, |(_, load)| *load))
    }
}
