//! Which buckets there are below an event time: from the directory's days and the key's epochs. Pure.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::cold::manifest::PageId;
use crate::cold::tables::Bucket;
use crate::layout::Layout;
use crate::model::{Namespace, TimeRange, Timestamp};
use crate::store::{Day, day_range};

/// A bucket and the event times at which its layout holds.
#[derive(Clone, Debug)]
pub(super) struct Slot {
    pub(super) bucket: Bucket,
    pub(super) epoch: TimeRange,
}

/// Buckets of a key that end by `to` and touch one of `days`, by the page of their entries.
pub(super) fn slots(
    ns: &Namespace,
    key: &Arc<str>,
    epochs: &[(TimeRange, Arc<Layout>)],
    days: &[Day],
    to: Timestamp,
) -> BTreeMap<PageId, Vec<Slot>> {
    let mut pages: BTreeMap<PageId, Vec<Slot>> = BTreeMap::new();
    for (epoch, layout) in epochs {
        let width = layout.bucket.nanos();
        let mut last = None;
        for day in days {
            let held = day_range(*day).intersect(*epoch);
            if held.is_empty() {
                continue;
            }
            for number in held.from.nanos().div_euclid(width)..=(held.to.nanos() - 1).div_euclid(width) {
                let start = Timestamp::from_nanos(number.saturating_mul(width));
                // Days may share a bucket.
                if last.replace(number) == Some(number) || layout.bucket_range(start).to > to {
                    continue;
                }
                let bucket = Bucket { ns: ns.clone(), key: key.clone(), start, layout: layout.clone() };
                pages.entry(PageId::of(ns, key, layout, start)).or_default().push(Slot { bucket, epoch: *epoch });
            }
        }
    }
    pages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{LayoutVersion, ShardBy};
    use crate::model::Span;

    const HOUR: i64 = 3_600_000_000_000;

    fn ts(n: i64) -> Timestamp {
        Timestamp::from_nanos(n)
    }

    fn layout(revision: u64, bucket: Span) -> Arc<Layout> {
        Arc::new(Layout { version: LayoutVersion { revision, nonce: 0 }, shards: 2, bucket, shard_by: ShardBy::Id })
    }

    fn starts(epochs: &[(TimeRange, Arc<Layout>)], days: &[Day], to: i64) -> Vec<(u64, i64)> {
        let pages = slots(&"n".parse().unwrap(), &"k".into(), epochs, days, ts(to));
        let all = pages.into_values().flatten();
        all.map(|slot| (slot.bucket.layout.version.revision, slot.bucket.start.nanos() / HOUR)).collect()
    }

    #[test]
    fn buckets_that_end_in_time_are_found_under_every_epoch() {
        let cut = ts(30 * HOUR + 1);
        let first = (TimeRange { from: Timestamp::MIN, to: cut }, layout(0, Span::HOUR));
        let second = (TimeRange { from: cut, to: Timestamp::MAX }, layout(7, Span::DAY));
        let found = starts(&[first.clone(), second.clone()], &[1], 48 * HOUR);
        let hours: Vec<(u64, i64)> = (24..=30).map(|hour| (0, hour)).chain([(7, 24)]).collect();
        assert_eq!(found, hours);
        assert_eq!(starts(&[first, second], &[1], 48 * HOUR - 1).last(), Some(&(0, 30)));
    }

    #[test]
    fn a_bucket_wider_than_a_day_is_found_once() {
        let week = Span::from_nanos(7 * 24 * HOUR).unwrap();
        assert_eq!(starts(&[(TimeRange::ALL, layout(0, week))], &[0, 1, 2, 8], 1_000 * HOUR), [(0, 0), (0, 7 * 24)]);
    }
}
