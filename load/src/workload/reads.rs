//! Which reads a run asks: read `n` as a pure function of the seed and `n`, but for points, which are
//! drawn from the events that were acknowledged by then.

use std::str::FromStr;

use super::Workload;
use super::chance::{at_most, mix, stream};
use super::write::hex;

/// A read, as a target is asked for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Read {
    /// The newest `limit` events of a key. As far as is known, they lie at or after `since`: what
    /// servers without such a read are asked for.
    Last { key: String, limit: u32, since: i64 },
    /// Count, sum and maximum of a field over the time up to now, in steps; spans as Braid writes them.
    Range { key: String, back: &'static str, step: &'static str, field: &'static str, group_by: Option<&'static str> },
    /// One event, by its id, and its time where that is given.
    Point { key: String, id: String, millis: Option<i64> },
}

/// What kinds of reads a run asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadMix {
    /// The newest so many events.
    Last(u32),
    /// A range, in steps.
    Range,
    /// One event by its id and time.
    Point,
    /// One event by its id alone.
    Id,
    /// What a page of charts asks for: of ten reads six are ranges, one is grouped, two are lists, one is an event.
    Dashboard,
}

impl FromStr for ReadMix {
    type Err = String;

    fn from_str(text: &str) -> Result<ReadMix, String> {
        match text {
            "last" => Ok(ReadMix::Last(100)),
            "range" => Ok(ReadMix::Range),
            "point" => Ok(ReadMix::Point),
            "id" => Ok(ReadMix::Id),
            "dashboard" => Ok(ReadMix::Dashboard),
            _ => match text.strip_prefix("last:").map(str::parse) {
                Some(Ok(limit)) if (1..=10_000).contains(&limit) => Ok(ReadMix::Last(limit)),
                _ => Err("must be last, last:N (to 10,000), range, point, id or dashboard".into()),
            },
        }
    }
}

impl ReadMix {
    /// Read `n`. Points fall on the slots below `acknowledged`; where there are none yet, a list is read.
    pub(crate) fn read(self, workload: &Workload, n: u64, acknowledged: u64) -> Read {
        let draw = mix(workload.seed ^ mix(n));
        let kind = match self {
            ReadMix::Dashboard => match at_most(stream(draw, 1), 9) {
                0..=5 => ReadMix::Range,
                6..=7 => ReadMix::Last(100),
                8 => ReadMix::Point,
                _ => return range(workload, draw, Some("region")),
            },
            kind => kind,
        };
        match kind {
            ReadMix::Last(limit) => last(workload, draw, limit, acknowledged),
            ReadMix::Point | ReadMix::Id if acknowledged > 0 => {
                point(workload, at_most(stream(draw, 2), acknowledged - 1), kind == ReadMix::Point)
            }
            ReadMix::Point | ReadMix::Id => last(workload, draw, 1, acknowledged),
            ReadMix::Range | ReadMix::Dashboard => range(workload, draw, None),
        }
    }
}

/// A key, as likely as an event is of it.
fn key(workload: &Workload, draw: u64) -> String {
    workload.keys.name(workload.keys.choose(stream(draw, 3), workload.times.start()))
}

fn range(workload: &Workload, draw: u64, group_by: Option<&'static str>) -> Read {
    Read::Range { key: key(workload, draw), back: "1h", step: "1m", field: "qty", group_by }
}

/// Events are spread evenly over the keys, as far as the guess of `since` goes.
fn last(workload: &Workload, draw: u64, limit: u32, acknowledged: u64) -> Read {
    let back = u64::from(limit) * u64::from(workload.keys.count().unwrap_or(1));
    Read::Last { key: key(workload, draw), limit, since: workload.times.base(acknowledged.saturating_sub(back)) }
}

fn point(workload: &Workload, slot: u64, timed: bool) -> Read {
    let event = workload.event(slot);
    let id = hex(event.id).map(char::from).iter().collect();
    Read::Point { key: workload.keys.name(event.key), id, millis: timed.then_some(event.millis) }
}

#[cfg(test)]
mod tests {
    use super::super::{Choice, EventTimes, Keys, Shape};
    use super::*;

    #[test]
    fn reads_are_those_of_the_seed() {
        let of = |seed| {
            let workload = Workload::new(seed, Keys::new("k", Choice::Uniform(50)), Shape::default(), EventTimes::spaced(0, 1));
            (0..100).map(|n| ReadMix::Dashboard.read(&workload, n, 1_000)).collect::<Vec<_>>()
        };
        assert!(of(1) == of(1) && of(1) != of(2));
        let kinds: [fn(&Read) -> bool; 3] = [
            |read| matches!(read, Read::Last { .. }),
            |read| matches!(read, Read::Range { .. }),
            |read| matches!(read, Read::Point { .. }),
        ];
        for kind in kinds {
            assert!(of(1).iter().any(kind), "{:?}", of(1));
        }
    }

    #[test]
    fn a_point_is_an_event_of_the_workload() {
        let workload = Workload::new(1, Keys::new("k", Choice::One), Shape::default(), EventTimes::spaced(0, 1_000_000));
        let Read::Point { key, id, millis } = ReadMix::Point.read(&workload, 4, 10) else { panic!("events are acknowledged") };
        let event = (0..10).map(|slot| workload.event(slot)).find(|event| Some(event.millis) == millis).unwrap();
        assert_eq!((key, id), ("k".to_owned(), format!("{:016x}", event.id)));
    }

    #[test]
    fn the_last_events_lie_since_the_time_of_as_many_slots_back() {
        let workload = Workload::new(1, Keys::new("k", Choice::Uniform(3)), Shape::default(), EventTimes::spaced(5_000, 1_000_000));
        let since = |acknowledged| match ReadMix::Last(100).read(&workload, 1, acknowledged) {
            Read::Last { since, .. } => since,
            other => panic!("{other:?}"),
        };
        assert_eq!([since(1_000), since(0)], [5_000 + 700, 5_000]);
        assert!(matches!(ReadMix::Id.read(&workload, 1, 9), Read::Point { millis: None, .. }));
    }

    #[test]
    fn kinds_are_told_by_name() {
        assert_eq!("last:7".parse(), Ok(ReadMix::Last(7)));
        for text in ["last:0", "last:x", "first", ""] {
            assert!(text.parse::<ReadMix>().is_err(), "{text}");
        }
    }
}
