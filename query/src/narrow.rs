//! Narrow: from event times alone, the least part of a stretch that is sure to hold so many rows, so
//! that no more of it is decoded and merged than a page needs.
//!
//! Pure. What it leaves out is read again by the next stretch; doubles may make events fewer than rows.

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
    let mut times = times(verified, range)?;
    if let Some(after) = after {
        times.retain(|ts| *ts != after.nanos());
    }
    if times.len() <= rows {
        return Ok(range);
    }
    let rows = rows.max(1);
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

/// Times of all rows in `range`.
fn times(verified: &[Verified], range: TimeRange) -> Result<Vec<i64>, QueryError> {
    let mut times = Vec::new();
    for verified in verified {
        for block in verified.blocks.iter().filter(|block| overlaps(&block.header().address, range)) {
            let ts = block.ts().map_err(|error| verified.damaged(&error))?;
            let before = |bound: Timestamp| ts.partition_point(|ts| *ts < bound.nanos());
            times.extend_from_slice(&ts[before(range.from)..before(range.to)]);
        }
    }
    Ok(times)
}
