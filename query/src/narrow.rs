//! Narrow: from event times alone, the least part of a stretch that is sure to hold so many rows, so
//! that no more of it is decoded and merged than a page needs.
//!
//! Pure. What it leaves out is read again by the next stretch; doubles may make events fewer than rows.

use braid_shared::block::{Block, BlockError};
use braid_shared::model::{TimeRange, Timestamp};
use braid_shared::store::overlaps;

use crate::error::QueryError;
use crate::plan::Order;
use crate::verify::Verified;

/// The part of `range`, at the end where `order` begins, that holds `rows` rows or all there are.
/// Those at `after` don't count: they may have been given before.
pub fn narrow(
    verified: &[Verified],
    range: TimeRange,
    order: Order,
    rows: usize,
    after: Option<Timestamp>,
) -> Result<TimeRange, QueryError> {
    let rows = rows.max(1);
    let mut times = times(verified, range, order, rows, after)?;
    if times.len() <= rows {
        return Ok(range);
    }
    Ok(match order {
        Order::Asc => {
            let (_, last, _) = times.select_nth_unstable(rows - 1);
            TimeRange { to: Timestamp::from_nanos(last.saturating_add(1)), ..range }
        }
        Order::Desc => {
            let at = times.len() - rows;
            let (_, first, _) = times.select_nth_unstable(at);
            TimeRange { from: Timestamp::from_nanos(*first), ..range }
        }
    })
}

/// Times of rows in `range` but for those at `after`: of each block all that can be among the
/// first `rows`, and at least one more where there is one.
fn times(verified: &[Verified], range: TimeRange, order: Order, rows: usize, after: Option<Timestamp>) -> Result<Vec<i64>, QueryError> {
    let mut times = Vec::new();
    for verified in verified {
        for block in verified.blocks.iter().filter(|block| overlaps(&block.header().address, range)) {
            let found = times_of(block, range, order, rows.saturating_add(1), after);
            times.extend(found.map_err(|error| verified.damaged(&error))?);
        }
        for run in &verified.runs {
            take(&run.ts(range).map_err(|error| verified.damaged(&error))?, order, rows.saturating_add(1), after, &mut times);
        }
    }
    Ok(times)
}

/// At most `most` times of a block's rows in `range`, from the end where `order` begins. Few rows at that end
/// hold them, unless they lie outside the range or at `after`.
fn times_of(block: &Block, range: TimeRange, order: Order, most: usize, after: Option<Timestamp>) -> Result<Vec<i64>, BlockError> {
    let all = block.header().count as usize;
    let counts = |ts: &i64| range.contains(Timestamp::from_nanos(*ts)) && after.is_none_or(|after| after.nanos() != *ts);
    let among = |few: usize| {
        let rows = if order == Order::Asc { 0..few } else { all - few..all };
        let mut ts = block.ts_of(rows)?;
        ts.retain(counts);
        Ok(ts)
    };
    let mut ts = among(most.min(all))?;
    if ts.len() < most.min(all) {
        ts = among(all)?;
    }
    if order == Order::Desc {
        ts.reverse();
    }
    ts.truncate(most);
    Ok(ts)
}

/// At most `most` of ascending times, from the end where `order` begins, but for those at `after`.
fn take(times: &[i64], order: Order, most: usize, after: Option<Timestamp>, taken: &mut Vec<i64>) {
    let counts = |ts: &&i64| after.is_none_or(|after| after.nanos() != **ts);
    match order {
        Order::Asc => taken.extend(times.iter().filter(counts).take(most)),
        Order::Desc => taken.extend(times.iter().rev().filter(counts).take(most)),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use braid_shared::block::{Block, RowBuffer, encode};
    use braid_shared::layout::{Layout, LayoutVersion, ShardBy};
    use braid_shared::model::Span;
    use braid_shared::partition::Partition;
    use braid_shared::stamp::Stamp;

    use super::*;
    use crate::plan::Epoch;
    use crate::walk::Planned;

    /// A partition with a block of each of these times.
    fn verified(blocks: &[&[i64]]) -> Verified {
        let version = LayoutVersion { revision: 0, nonce: 0 };
        let layout = Arc::new(Layout { version, shards: 1, bucket: Span::HOUR, shard_by: ShardBy::Id });
        let bucket = Timestamp::from_nanos(0);
        let partition = Arc::new(Partition { ns: "n".parse().unwrap(), key: "k".into(), bucket, version, suffix: 0 });
        let encoded = |times: &&[i64]| {
            let mut rows = RowBuffer::default();
            let ids = (0..times.len()).map(|id| id.to_string());
            ids.zip(*times).for_each(|(id, ts)| rows.push(Timestamp::from_nanos(*ts), &id, std::iter::empty(), std::iter::empty()));
            let stamp = || Ok::<_, ()>(Stamp { time: 1, node: 2 });
            Block::open(encode(&partition, &layout, rows, 1 << 16, stamp).unwrap().remove(0).bytes).unwrap()
        };
        let blocks = blocks.iter().map(encoded).collect();
        let epoch = Arc::new(Epoch { range: TimeRange::ALL, layout });
        Verified { planned: Planned { partition: (*partition).clone(), epoch }, blocks, runs: Vec::new() }
    }

    fn range(from: i64, to: i64) -> TimeRange {
        TimeRange { from: Timestamp::from_nanos(from), to: Timestamp::from_nanos(to) }
    }

    #[test]
    fn the_part_that_holds_so_many_rows_is_exact_whatever_block_they_are_in() {
        let (a, b) = (verified(&[&[1, 2, 3, 40], &[50, 51, 52]]), verified(&[&[2, 4, 6, 49, 49, 60]]));
        let all = [a, b];
        let narrowed = |order, rows, after: Option<i64>, asked| narrow(&all, asked, order, rows, after.map(Timestamp::from_nanos)).unwrap();
        // In order: 1 2 2 3 4 6 40 49 49 50 51 52 60.
        assert_eq!(narrowed(Order::Asc, 3, None, range(0, 100)), range(0, 3));
        assert_eq!(narrowed(Order::Asc, 7, None, range(0, 100)), range(0, 41));
        assert_eq!(narrowed(Order::Desc, 3, None, range(0, 100)), range(51, 100));
        assert_eq!(narrowed(Order::Desc, 5, None, range(0, 100)), range(49, 100));
        assert_eq!(narrowed(Order::Desc, 2, None, range(0, 50)), range(49, 50));
        // Those at the time of the row before don't count, in every block.
        assert_eq!(narrowed(Order::Asc, 1, Some(2), range(2, 100)), range(2, 4));
        assert_eq!(narrowed(Order::Desc, 1, Some(49), range(0, 50)), range(40, 50));
        for order in [Order::Asc, Order::Desc] {
            assert_eq!(narrowed(order, 13, None, range(0, 100)), range(0, 100), "all there are");
            assert_eq!(narrowed(order, 9, None, range(30, 45)), range(30, 45));
        }
    }
}
