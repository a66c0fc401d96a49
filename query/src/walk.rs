//! The walk of a read through its range, stretch by stretch, so that a page reads little more
//! than it needs and no stretch is larger than its bounds.
//!
//! Pure. A stretch is a piece of event time that holds at least one window; time without data is
//! skipped. It grows by [`GROWTH`] while little is found and is halved where too much was.

use std::sync::Arc;

use braid_shared::layout::LayoutVersion;
use braid_shared::model::{TimeRange, Timestamp};
use braid_shared::partition::Partition;

use crate::plan::{Epoch, KeyPlan, Order, Window};

/// Most partitions of one scan.
pub const SCAN_PARTITIONS_MAX: usize = 4_096;
/// Most partitions of one stretch: reached only by reads of many keys.
pub const STRETCH_PARTITIONS_MAX: usize = 65_536;
/// How much wider a stretch is than the one before it that found little.
pub const GROWTH: i64 = 8;
/// A stretch is not halved below this, nanoseconds.
const WIDTH_MIN: i64 = 1_000;

/// Where a read is.
#[derive(Clone, Debug)]
pub struct Walk {
    keys: Arc<[KeyPlan]>,
    left: TimeRange,
    order: Order,
    width: i64,
}

/// What is read at once.
#[derive(Clone, Debug)]
pub struct Stretch {
    /// The event time it covers; rows outside are not its own.
    pub range: TimeRange,
    /// Its partitions, ascending, cut into scans.
    pub scans: Vec<Vec<Planned>>,
    /// Whether it can't be made smaller.
    pub least: bool,
}

/// A partition to read.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The partition.
    pub partition: Partition,
    /// The epoch it belongs to.
    pub epoch: Arc<Epoch>,
}

/// A stretch of one window per key still has more partitions than [`STRETCH_PARTITIONS_MAX`].
#[derive(Debug, PartialEq, Eq)]
pub struct TooManyPartitions;

/// What lies between what was read and what is left was dropped.
#[derive(Debug, PartialEq, Eq)]
pub struct Gap;

impl Planned {
    /// The shard: what `shards` of an answer counts.
    pub fn shard(&self) -> (LayoutVersion, u32) {
        (self.partition.version, self.partition.suffix)
    }
}

impl Walk {
    /// A walk through `range` whose first stretch is `width` nanoseconds wide.
    pub fn new(keys: Arc<[KeyPlan]>, range: TimeRange, order: Order, width: i64) -> Walk {
        Walk { keys, left: range, order, width: width.max(WIDTH_MIN) }
    }

    /// Whether nothing is left to read.
    pub fn is_done(&self) -> bool {
        self.first().is_none()
    }

    /// Skips what lies before `ts` in the walk's direction, `ts` itself not.
    pub fn resume_at(&mut self, ts: Timestamp) {
        match self.order {
            Order::Asc => self.left.from = self.left.from.max(ts),
            Order::Desc => self.left.to = self.left.to.min(Timestamp::from_nanos(ts.nanos().saturating_add(1))),
        }
    }

    /// Leaves behind what lies before `ts`, which is dropped. Gives where what is read begins then, if that is not what was left
    /// behind already; `begun`: something was read, so that ascending there would be a gap behind it.
    pub fn drop_before(&mut self, ts: Timestamp, begun: bool) -> Result<Option<Timestamp>, Gap> {
        let TimeRange { from, to } = self.left;
        match self.order {
            _ if ts <= from => Ok(None),
            Order::Asc if begun => Err(Gap),
            _ => {
                self.left.from = ts.min(to);
                Ok(Some(self.left.from))
            }
        }
    }

    /// The keys that are read.
    pub fn keys(&self) -> &[KeyPlan] {
        &self.keys
    }

    /// Goes on with fresher plans of the same keys.
    pub fn replan(&mut self, keys: Arc<[KeyPlan]>) {
        self.keys = keys;
    }

    /// The next stretch; `None` where nothing is left to read.
    pub fn stretch(&self) -> Result<Option<Stretch>, TooManyPartitions> {
        let Some(first) = self.first() else { return Ok(None) };
        self.stretch_of(self.edge(first), self.width).map(Some)
    }

    /// As [`Walk::stretch`], but at least as wide as the first window.
    pub fn wide_stretch(&self) -> Result<Option<Stretch>, TooManyPartitions> {
        let Some(first) = self.first() else { return Ok(None) };
        self.stretch_of(self.edge(first), self.width.max(length(first))).map(Some)
    }

    /// The part of a stretch that lies in `range`.
    pub fn narrowed(&self, range: TimeRange) -> Stretch {
        Stretch { range, scans: self.scans(&self.windows(range)), least: length(range) <= WIDTH_MIN }
    }

    fn stretch_of(&self, edge: Timestamp, mut width: i64) -> Result<Stretch, TooManyPartitions> {
        loop {
            let range = self.reach(edge, width);
            let windows = self.windows(range);
            let count: usize = windows.iter().map(|(_, window)| window.suffixes.len()).sum();
            let several = windows.windows(2).any(|pair| pair[0].0 == pair[1].0);
            if count <= SCAN_PARTITIONS_MAX || !several {
                let scans = if count > STRETCH_PARTITIONS_MAX { return Err(TooManyPartitions) } else { self.scans(&windows) };
                return Ok(Stretch { range, scans, least: width <= WIDTH_MIN });
            }
            width = length(range) / 2;
        }
    }

    /// Leaves `range`, a stretch or what of it was used, behind; goes back where less of it was used than said before.
    pub fn advance(&mut self, range: TimeRange) {
        match self.order {
            Order::Asc => self.left.from = range.to,
            Order::Desc => self.left.to = range.from,
        }
    }

    /// Makes the next stretches at least so wide.
    pub fn widen(&mut self, width: i64) {
        self.width = self.width.max(width);
    }

    /// Makes the next stretches wider.
    pub fn grow(&mut self) {
        self.width = self.width.saturating_mul(GROWTH);
    }

    /// Makes the next stretch half as wide as `stretch` was.
    pub fn shrink(&mut self, stretch: &Stretch) {
        self.width = (length(stretch.range) / 2).max(WIDTH_MIN);
    }

    /// The first window in the walk's direction.
    fn first(&self) -> Option<TimeRange> {
        if self.left.is_empty() {
            return None;
        }
        let firsts = self.keys.iter().filter_map(|key| key.windows(self.left, self.order).next());
        match self.order {
            Order::Asc => firsts.map(|window| window.range).min_by_key(|range| range.from),
            Order::Desc => firsts.map(|window| window.range).max_by_key(|range| range.to),
        }
    }

    /// Where a range begins in the walk's direction.
    fn edge(&self, range: TimeRange) -> Timestamp {
        match self.order {
            Order::Asc => range.from,
            Order::Desc => range.to,
        }
    }

    /// What lies within `width` of `edge`.
    fn reach(&self, edge: Timestamp, width: i64) -> TimeRange {
        let reach = match self.order {
            Order::Asc => TimeRange { from: edge, to: Timestamp::from_nanos(edge.nanos().saturating_add(width)) },
            Order::Desc => TimeRange { from: Timestamp::from_nanos(edge.nanos().saturating_sub(width)), to: edge },
        };
        reach.intersect(self.left)
    }

    /// The windows in `range`, each with its key; of one key no more than just too many.
    fn windows(&self, range: TimeRange) -> Vec<(usize, Window)> {
        let mut found = Vec::new();
        for (i, key) in self.keys.iter().enumerate() {
            let mut partitions = 0;
            found.extend(key.windows(range, self.order).map(|window| (i, window)).take_while(|(_, window)| {
                let fits = partitions <= SCAN_PARTITIONS_MAX;
                partitions += window.suffixes.len();
                fits
            }));
        }
        found
    }

    fn scans(&self, windows: &[(usize, Window)]) -> Vec<Vec<Planned>> {
        let mut planned: Vec<Planned> = Vec::new();
        for (key, window) in windows {
            planned.extend(self.keys[*key].partitions(window).map(|partition| Planned { partition, epoch: window.epoch.clone() }));
        }
        planned.sort_by(|a, b| a.partition.cmp(&b.partition));
        planned.chunks(SCAN_PARTITIONS_MAX).map(<[Planned]>::to_vec).collect()
    }
}

/// Length of a range in nanoseconds; saturates.
pub fn length(range: TimeRange) -> i64 {
    range.to.nanos().saturating_sub(range.from.nanos())
}

#[cfg(test)]
mod tests {
    use braid_shared::layout::{Layout, ShardBy};
    use braid_shared::model::Span;

    use super::*;

    const HOUR: i64 = 3_600_000_000_000;
    const DAY: i64 = 24 * HOUR;

    fn plan(shards: u32, bucket: Span, days: &[i32]) -> KeyPlan {
        let layout = Layout { version: LayoutVersion { revision: 0, nonce: 0 }, shards, bucket, shard_by: ShardBy::Id };
        let epoch = Arc::new(Epoch { range: TimeRange::ALL, layout: Arc::new(layout) });
        KeyPlan { ns: "n".parse().unwrap(), key: "k".into(), epochs: vec![epoch], days: days.to_vec(), selection: Arc::default() }
    }

    fn range(from: i64, to: i64) -> TimeRange {
        TimeRange { from: Timestamp::from_nanos(from), to: Timestamp::from_nanos(to) }
    }

    fn walked(mut walk: Walk) -> Vec<(i64, i64)> {
        let mut seen = Vec::new();
        while let Some(stretch) = walk.stretch().unwrap() {
            seen.push((stretch.range.from.nanos(), stretch.range.to.nanos()));
            walk.advance(stretch.range);
            walk.grow();
        }
        seen
    }

    #[test]
    fn stretches_grow_and_skip_days_without_data() {
        let keys: Arc<[KeyPlan]> = vec![plan(2, Span::HOUR, &[0, 90])].into();
        let asc = walked(Walk::new(keys.clone(), range(0, 100 * DAY), Order::Asc, HOUR));
        assert_eq!(asc, [(0, HOUR), (HOUR, 9 * HOUR), (9 * HOUR, 73 * HOUR), (90 * DAY, 100 * DAY)]);
        let desc = walked(Walk::new(keys, range(0, 100 * DAY), Order::Desc, HOUR));
        assert_eq!(desc[..2], [(91 * DAY - HOUR, 91 * DAY), (91 * DAY - 9 * HOUR, 91 * DAY - HOUR)]);
        assert_eq!(desc.last(), Some(&(0, DAY)));
    }

    #[test]
    fn a_stretch_has_no_more_partitions_than_a_scan_takes() {
        let keys: Arc<[KeyPlan]> = vec![plan(1_000, Span::SECOND, &[0])].into();
        let walk = Walk::new(keys, range(0, DAY), Order::Asc, DAY);
        let stretch = walk.stretch().unwrap().unwrap();
        assert!(stretch.scans.iter().map(Vec::len).sum::<usize>() <= SCAN_PARTITIONS_MAX);
        assert!(stretch.scans[0].is_sorted_by(|a, b| a.partition < b.partition));
    }

    #[test]
    fn all_of_time_is_walked_to_its_ends() {
        let days = [-106_752, 106_751];
        let keys: Arc<[KeyPlan]> = vec![plan(1, Span::HOUR, &days)].into();
        let seen = walked(Walk::new(keys, TimeRange::ALL, Order::Asc, i64::MAX));
        assert_eq!((seen[0].0, seen.last().unwrap().1), (i64::MIN, i64::MAX));
    }

    #[test]
    fn what_is_dropped_meanwhile_cuts_what_is_left_and_leaves_no_gap() {
        let keys: Arc<[KeyPlan]> = vec![plan(1, Span::HOUR, &[0])].into();
        let read = |order, read| {
            let mut walk = Walk::new(keys.clone(), range(0, 100), order, 10);
            walk.advance(read);
            walk
        };
        let ts = Timestamp::from_nanos;
        let mut asc = read(Order::Asc, range(0, 30));
        assert_eq!((asc.drop_before(ts(30), true), asc.drop_before(ts(31), true)), (Ok(None), Err(Gap)));
        let mut unread = Walk::new(keys.clone(), range(0, 100), Order::Asc, 10);
        assert_eq!(unread.drop_before(ts(31), false), Ok(Some(ts(31))));
        let mut desc = read(Order::Desc, range(70, 100));
        assert_eq!((desc.drop_before(ts(20), true), desc.drop_before(ts(20), true)), (Ok(Some(ts(20))), Ok(None)));
        assert_eq!((desc.drop_before(ts(80), true), desc.is_done()), (Ok(Some(ts(70))), true));
    }

    #[test]
    fn many_keys_are_read_in_several_scans() {
        let keys: Arc<[KeyPlan]> = (0..3).map(|_| plan(4_000, Span::HOUR, &[0])).collect();
        let stretch = Walk::new(keys, range(0, HOUR), Order::Asc, HOUR).stretch().unwrap().unwrap();
        assert_eq!(stretch.scans.iter().map(Vec::len).collect::<Vec<_>>(), [4_096, 4_096, 3_808]);
        let keys: Arc<[KeyPlan]> = (0..20).map(|_| plan(4_000, Span::HOUR, &[0])).collect();
        assert!(Walk::new(keys, range(0, HOUR), Order::Asc, HOUR).stretch().is_err());
    }
}
