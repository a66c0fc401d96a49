//! When a recorded event is due in a replay.

use std::str::FromStr;
use std::time::Duration;

use braid_shared::model::{Precision, Timestamp};
use serde::Deserialize;
use serde_json::Value;

/// How fast a file is replayed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Speed {
    /// As fast as it goes.
    Max,
    /// So many times as fast as it was recorded.
    Times(f64),
}

impl FromStr for Speed {
    type Err = String;

    fn from_str(text: &str) -> Result<Speed, String> {
        let times = match text {
            "max" => return Ok(Speed::Max),
            "recorded" => Ok(1.0),
            _ => text.strip_suffix('x').unwrap_or(text).parse(),
        };
        match times {
            Ok(times) if (1e-6..=1e9).contains(&times) => Ok(Speed::Times(times)),
            _ => Err("must be max, recorded, or how many times as fast as recorded, such as 10x".into()),
        }
    }
}

/// Says when lines are due by their times.
pub(super) struct Pacer {
    times: f64,
    first: Option<i64>,
    /// A line that is out of order is due with the latest before it.
    latest: Duration,
}

#[derive(Deserialize)]
struct Timed {
    ts: Value,
}

impl Pacer {
    pub(super) fn new(speed: Speed) -> Option<Pacer> {
        match speed {
            Speed::Max => None,
            Speed::Times(times) => Some(Pacer { times, first: None, latest: Duration::ZERO }),
        }
    }

    /// When a line is due, from the beginning of the replay; `None` where it has no time.
    pub(super) fn due(&mut self, line: &[u8]) -> Option<Duration> {
        let timed: Timed = serde_json::from_slice(line).ok()?;
        let nanos = match timed.ts {
            Value::String(text) => Timestamp::parse_rfc3339(&text).ok()?,
            ts => Timestamp::from_int(ts.as_i64()?, Precision::Millis).ok()?,
        }
        .nanos();
        let since = nanos.saturating_sub(*self.first.get_or_insert(nanos)).max(0);
        let due = Duration::try_from_secs_f64(since as f64 / 1e9 / self.times).unwrap_or(Duration::MAX);
        self.latest = self.latest.max(due);
        Some(self.latest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_speed_is_a_word_or_a_factor() {
        assert_eq!(
            ["max", "recorded", "10x", "0.5"].map(|text| text.parse::<Speed>().unwrap()),
            [Speed::Max, Speed::Times(1.0), Speed::Times(10.0), Speed::Times(0.5)]
        );
        for text in ["0x", "-1x", "fast", "infx", "NaN"] {
            assert!(text.parse::<Speed>().is_err(), "{text}");
        }
    }

    #[test]
    fn dates_and_milliseconds_pace_alike() {
        let mut pacer = Pacer::new(Speed::Times(1.0)).unwrap();
        assert_eq!(pacer.due(br#"{"ts":"2023-11-14T22:13:20Z"}"#), Some(Duration::ZERO));
        assert_eq!(pacer.due(br#"{"ts":1700000001500}"#), Some(Duration::from_millis(1_500)));
        assert_eq!(pacer.due(br#"{"ts":"noon"}"#), None);
    }
}
