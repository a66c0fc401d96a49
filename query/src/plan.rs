//! The plan of a read: a range of event time → windows (bucket × epoch), each with its suffixes.
//!
//! Pure. Windows of one key never overlap in time, and together they hold every event of the key
//! that lies in the range. Days without data cost nothing.

use std::ops::Range;
use std::sync::Arc;

use braid_shared::layout::Layout;
use braid_shared::model::{Namespace, TimeRange, Timestamp};
use braid_shared::partition::Partition;
use braid_shared::store::{Day, day_of, day_range};

use crate::filter::Filter;

/// Which way a read goes through time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Oldest first.
    Asc,
    /// Newest first.
    Desc,
}

/// A layout and the event times at which it holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Epoch {
    /// From when to when.
    pub range: TimeRange,
    /// The layout.
    pub layout: Arc<Layout>,
}

/// What decides which suffixes a read needs.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The event's id, for a read of one event.
    pub id: Option<String>,
    /// The tags that are asked for.
    pub filter: Filter,
}

/// Everything that the plan of one key's read follows from.
#[derive(Clone, Debug)]
pub struct KeyPlan {
    /// Namespace.
    pub ns: Namespace,
    /// Logical key.
    pub key: Arc<str>,
    /// The key's epochs, in order, each as long as it holds.
    pub epochs: Vec<Arc<Epoch>>,
    /// Days that hold data, ascending.
    pub days: Vec<Day>,
    /// What is asked for.
    pub selection: Arc<Selection>,
}

/// A bucket under one epoch, as far as it was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Window {
    /// Start of the bucket.
    pub bucket: Timestamp,
    /// The epoch.
    pub epoch: Arc<Epoch>,
    /// Bucket ∩ epoch ∩ asked range; not empty.
    pub range: TimeRange,
    /// Suffixes to read: all N, or the one that can hold what is asked for.
    pub suffixes: Range<u32>,
}

/// The instant before the end of a range that is not empty.
fn last_of(range: TimeRange) -> Timestamp {
    Timestamp::from_nanos(range.to.nanos() - 1)
}

/// The days that a range touches.
pub fn days_of(range: TimeRange) -> (Day, Day) {
    (day_of(range.from), day_of(last_of(range)))
}

impl Selection {
    /// Suffixes of `layout` that can hold what is asked for.
    pub fn suffixes(&self, layout: &Layout) -> Range<u32> {
        let one = match layout.shard_by.tag() {
            None => self.id.as_deref().map(|id| layout.suffix(id, None)),
            Some(tag) => self.filter.value_of(tag).map(|value| layout.suffix("", Some(value))),
        };
        one.map_or(0..layout.shards, |suffix| suffix..suffix + 1)
    }
}

impl KeyPlan {
    /// The windows that hold the events of `range`, in order of time or against it; made one by one.
    pub fn windows(&self, range: TimeRange, order: Order) -> impl Iterator<Item = Window> + '_ {
        let parts = self.epochs.iter().map(move |epoch| (epoch, epoch.range.intersect(range))).filter(|(_, part)| !part.is_empty());
        directed(parts, order).flat_map(move |(epoch, part)| self.windows_of(epoch, part, order))
    }

    /// The windows of one epoch in `part`, which is not empty. A bucket that several days share is given once.
    fn windows_of<'a>(&'a self, epoch: &'a Arc<Epoch>, part: TimeRange, order: Order) -> impl Iterator<Item = Window> + 'a {
        let width = epoch.layout.bucket.nanos();
        let (first, last) = days_of(part);
        let days = &self.days[self.days.partition_point(|day| *day < first)..self.days.partition_point(|day| *day <= last)];
        let numbers = directed(days.iter(), order).flat_map(move |day| {
            let held = day_range(*day).intersect(part);
            let number = |ts: Timestamp| ts.nanos().div_euclid(width);
            directed(number(held.from)..number(last_of(held)) + 1, order)
        });
        let mut before = None;
        numbers.filter(move |number| before.replace(*number) != Some(*number)).map(move |number| {
            let bucket = Timestamp::from_nanos(number.saturating_mul(width));
            let range = epoch.layout.bucket_range(bucket).intersect(part);
            Window { bucket, epoch: epoch.clone(), range, suffixes: self.selection.suffixes(&epoch.layout) }
        })
    }

    /// The partitions of a window.
    pub fn partitions<'a>(&'a self, window: &'a Window) -> impl Iterator<Item = Partition> + 'a {
        window.suffixes.clone().map(|suffix| Partition {
            ns: self.ns.clone(),
            key: self.key.clone(),
            bucket: window.bucket,
            version: window.epoch.layout.version,
            suffix,
        })
    }
}

/// An iterator in order, or from its end.
fn directed<'a, I: DoubleEndedIterator + 'a>(items: I, order: Order) -> Box<dyn Iterator<Item = I::Item> + 'a> {
    match order {
        Order::Asc => Box::new(items),
        Order::Desc => Box::new(items.rev()),
    }
}

#[cfg(test)]
mod tests {
    use braid_shared::layout::{LayoutVersion, ShardBy};
    use braid_shared::model::Span;
    use proptest::prelude::*;

    use super::*;

    const HOUR: i64 = 3_600_000_000_000;
    const DAY: i64 = 24 * HOUR;

    fn range(from: i64, to: i64) -> TimeRange {
        TimeRange { from: Timestamp::from_nanos(from), to: Timestamp::from_nanos(to) }
    }

    fn epoch(revision: u64, from: i64, to: i64, shards: u32, bucket: i64) -> Arc<Epoch> {
        let layout = Layout {
            version: LayoutVersion { revision, nonce: 1 },
            shards,
            bucket: Span::from_nanos(bucket).unwrap(),
            shard_by: ShardBy::Id,
        };
        Arc::new(Epoch { range: range(from, to), layout: Arc::new(layout) })
    }

    fn plan(epochs: Vec<Arc<Epoch>>, days: &[Day]) -> KeyPlan {
        KeyPlan { ns: "n".parse().unwrap(), key: "k".into(), epochs, days: days.to_vec(), selection: Arc::default() }
    }

    fn seen(plan: &KeyPlan, asked: TimeRange, order: Order) -> Vec<(i64, u64, i64, i64)> {
        let short = |w: Window| (w.bucket.nanos(), w.epoch.layout.version.revision, w.range.from.nanos(), w.range.to.nanos());
        plan.windows(asked, order).map(short).collect()
    }

    #[test]
    fn a_bucket_that_an_epoch_boundary_cuts_is_two_windows() {
        let plan = plan(vec![epoch(0, i64::MIN, HOUR / 2, 4, HOUR), epoch(7, HOUR / 2, i64::MAX, 10, HOUR)], &[0]);
        let windows = seen(&plan, range(0, 2 * HOUR), Order::Asc);
        assert_eq!(windows, [(0, 0, 0, HOUR / 2), (0, 7, HOUR / 2, HOUR), (HOUR, 7, HOUR, 2 * HOUR)]);
        let all: Vec<_> = plan.windows(range(0, 2 * HOUR), Order::Asc).map(|w| w.suffixes).collect();
        assert_eq!(all, [0..4, 0..10, 0..10]);
    }

    #[test]
    fn days_without_data_are_not_planned() {
        let plan = plan(vec![epoch(0, i64::MIN, i64::MAX, 4, DAY)], &[-3, 5]);
        assert_eq!(seen(&plan, TimeRange::ALL, Order::Asc), [(-3 * DAY, 0, -3 * DAY, -2 * DAY), (5 * DAY, 0, 5 * DAY, 6 * DAY)]);
    }

    #[test]
    fn a_bucket_wider_than_a_day_is_planned_once() {
        let plan = plan(vec![epoch(0, i64::MIN, i64::MAX, 4, 10 * DAY)], &[1, 2, 3, 12]);
        assert_eq!(seen(&plan, range(0, 20 * DAY), Order::Desc), [(10 * DAY, 0, 10 * DAY, 20 * DAY), (0, 0, 0, 10 * DAY)]);
    }

    #[test]
    fn the_first_instant_of_all_lies_in_a_bucket_that_is_cut_short() {
        let plan = plan(vec![epoch(0, i64::MIN, i64::MAX, 1, HOUR)], &[day_of(Timestamp::MIN)]);
        let first = plan.windows(TimeRange::ALL, Order::Asc).next().unwrap();
        assert_eq!((first.bucket, first.range.from), (Timestamp::MIN, Timestamp::MIN));
        assert!(first.range.to.nanos() - i64::MIN < HOUR);
    }

    #[test]
    fn a_point_read_needs_one_suffix() {
        let mut plan = plan(vec![epoch(0, i64::MIN, i64::MAX, 16, HOUR)], &[0]);
        plan.selection = Arc::new(Selection { id: Some("o-17".into()), filter: Filter::default() });
        let window = plan.windows(range(0, HOUR), Order::Asc).next().unwrap();
        let suffix = window.epoch.layout.suffix("o-17", None);
        assert_eq!(window.suffixes, suffix..suffix + 1);
    }

    proptest! {
        #[test]
        fn every_instant_of_a_day_with_data_lies_in_exactly_one_window(
            mut starts in proptest::collection::btree_set(-20 * DAY..20 * DAY, 0..4),
            buckets in proptest::collection::vec(prop_oneof![Just(HOUR), Just(7 * HOUR), Just(DAY), Just(9 * DAY)], 5),
            days in proptest::collection::btree_set(-20i32..20, 1..8),
            from in -21 * DAY..21 * DAY,
            len in 1..40 * DAY,
            at in any::<prop::sample::Index>(),
            within in 0..DAY,
        ) {
            starts.insert(i64::MIN);
            let starts: Vec<i64> = starts.into_iter().collect();
            let epochs = starts.iter().enumerate().map(|(i, start)| {
                epoch(i as u64, *start, starts.get(i + 1).copied().unwrap_or(i64::MAX), 2, buckets[i])
            }).collect();
            let days: Vec<Day> = days.into_iter().collect();
            let plan = plan(epochs, &days);
            let asked = range(from, from + len);
            let windows: Vec<Window> = plan.windows(asked, Order::Asc).collect();
            prop_assert!(windows.windows(2).all(|w| w[0].range.to <= w[1].range.from));
            let mut back: Vec<Window> = plan.windows(asked, Order::Desc).collect();
            back.reverse();
            prop_assert_eq!(&windows, &back);
            let ts = Timestamp::from_nanos(i64::from(*at.get(&days)) * DAY + within);
            let holding: Vec<_> = windows.iter().filter(|w| w.range.contains(ts)).collect();
            prop_assert_eq!(holding.len(), usize::from(asked.contains(ts)));
            for window in holding {
                prop_assert_eq!(window.bucket, window.epoch.layout.bucket(ts));
                prop_assert!(window.epoch.range.contains(ts));
            }
        }
    }
}
