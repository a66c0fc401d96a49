//! What is due, and since when this archiver has seen that stand: COLD-1 and the wait of COLD-2.

use std::collections::VecDeque;
use std::time::Duration;

use crate::cold::rules::grace_passed;
use crate::model::{Span, Timestamp};

/// A fact that only grows, and up to where a grace has passed since it was seen.
#[derive(Debug)]
pub(super) struct Ripening {
    ripe: Timestamp,
    /// Values that are not ripe yet, each with the boot time at which it was seen; both ascending.
    seen: VecDeque<(Timestamp, Duration)>,
}

impl Default for Ripening {
    fn default() -> Self {
        Ripening { ripe: Timestamp::MIN, seen: VecDeque::new() }
    }
}

impl Ripening {
    /// Notes a value that was read from the catalog by a read that ended before `now`; gives up to
    /// where a grace has passed. Boot time never runs ahead of what passed.
    pub(super) fn see(&mut self, value: Timestamp, now: Duration, grace: Duration) -> Timestamp {
        if value > self.seen.back().map_or(self.ripe, |(last, _)| *last) {
            self.seen.push_back((value, now));
        }
        while let Some((value, _)) = self.seen.front().filter(|(_, since)| grace_passed(now.saturating_sub(*since), grace)) {
            self.ripe = *value;
            self.seen.pop_front();
        }
        self.ripe
    }

    /// Whether a value waits for its grace.
    pub(super) fn is_waiting(&self) -> bool {
        !self.seen.is_empty()
    }
}

/// What closing or dropped should be for a delay, if that is far enough above what stands to be
/// worth a change of the catalog.
pub(super) fn target(now: Timestamp, delay: Span, stands: Timestamp) -> Option<Timestamp> {
    let to = now.saturating_sub(delay);
    let step = (delay.nanos() / 16).clamp(1, Span::HOUR.nanos());
    (to.nanos() >= stands.nanos().saturating_add(step)).then_some(to)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ts(n: i64) -> Timestamp {
        Timestamp::from_nanos(n)
    }

    #[test]
    fn a_value_is_ripe_a_grace_after_it_was_first_seen() {
        let (mut ripening, second) = (Ripening::default(), Duration::from_secs(1));
        assert_eq!(ripening.see(ts(10), second * 100, second * 60), Timestamp::MIN);
        assert_eq!(ripening.see(ts(20), second * 130, second * 60), Timestamp::MIN);
        assert_eq!(ripening.see(ts(20), second * 160, second * 60), ts(10));
        assert_eq!(ripening.see(ts(20), second * 189, second * 60), ts(10));
        assert_eq!(ripening.see(ts(20), second * 190, second * 60), ts(20));
        assert!(!ripening.is_waiting());
    }

    #[test]
    fn a_fact_is_raised_in_steps_worth_a_change() {
        assert_eq!(target(ts(Span::DAY.nanos()), Span::HOUR, Timestamp::MIN), Some(ts(23 * Span::HOUR.nanos())));
        let stands = ts(23 * Span::HOUR.nanos());
        assert_eq!(target(ts(Span::DAY.nanos() + Span::SECOND.nanos()), Span::HOUR, stands), None);
        assert!(target(ts(Span::DAY.nanos() + 300 * Span::SECOND.nanos()), Span::HOUR, stands).is_some());
    }
}
