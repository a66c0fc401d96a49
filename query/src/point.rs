//! One event by its id: one suffix of each bucket that may hold it.
//!
//! With a time, one bucket. Without one, the time inside a UUIDv7 or ULID is the first guess, and
//! then the buckets with data, newest first.

use std::sync::Arc;

use braid_shared::clock::Mark;
use braid_shared::model::id_time::millis_of_id;
use braid_shared::model::{Namespace, Span, TimeRange, Timestamp};

use crate::Query;
use crate::error::QueryError;
use crate::merge::newest;
use crate::plan::{Order, Selection};
use crate::read::{Asked, Reader, Settled, Target, epochs, settle, work_on};
use crate::tally::Tally;

/// Milliseconds to nanoseconds.
const MILLI: i64 = 1_000_000;

/// A question for one event.
#[derive(Clone, Debug)]
pub struct PointAsked {
    /// Namespace.
    pub ns: Namespace,
    /// Logical key.
    pub key: String,
    /// Its time, where it is known.
    pub ts: Option<Timestamp>,
    /// Id, and the tag that the key's layout shards by.
    pub selection: Arc<Selection>,
    /// Whether the answer may lack shards.
    pub partial: bool,
}

/// What was found.
#[derive(Debug)]
pub struct Point {
    /// The event as JSON; absent only where shards are missing and the answer may be partial.
    pub event: Option<Vec<u8>>,
    /// What the answer says of itself.
    pub tally: Tally,
}

/// Reads the newest event with an id.
pub async fn point(query: Arc<Query>, asked: PointAsked) -> Result<Point, QueryError> {
    let began = query.clock.mark();
    let after = |ts: Timestamp| Timestamp::from_nanos(ts.nanos().saturating_add(1));
    let settled = settle(&query, &asked.ns, asked.ts, asked.ts.map(after)).await?;
    require_tag(&asked, &settled)?;
    if asked.ts.is_none() {
        for guess in guesses(asked.selection.id.as_deref().unwrap_or_default()) {
            let settled = Settled { range: guess.intersect(settled.range), ..settled.clone() };
            let found = search(&query, &asked, settled, began).await?;
            if found.event.is_some() {
                return Ok(found);
            }
        }
    }
    let found = search(&query, &asked, settled, began).await?;
    if found.event.is_none() && found.tally.complete() { Err(QueryError::EventNotFound) } else { Ok(found) }
}

/// Without the tag that a layout shards by, the suffix is not known.
fn require_tag(asked: &PointAsked, settled: &Settled) -> Result<(), QueryError> {
    let epochs = epochs(settled, &asked.key);
    let consulted = epochs.iter().filter(|epoch| !epoch.range.intersect(settled.range).is_empty());
    let mut tags = consulted.filter_map(|epoch| epoch.layout.shard_by.tag());
    match tags.find(|tag| asked.selection.filter.value_of(tag).is_none()) {
        None => Ok(()),
        Some(tag) => Err(QueryError::Invalid(format!(
            "this key's layout shards by tag {tag:?}: give where={tag}:value (where={tag}: for an event without it)"
        ))),
    }
}

/// Where an event may be by the time in its id: that millisecond, then a day around it.
fn guesses(id: &str) -> Vec<TimeRange> {
    let Some(millis) = millis_of_id(id) else { return Vec::new() };
    let Some(ts) = i64::try_from(millis).ok().and_then(|millis| millis.checked_mul(MILLI)) else { return Vec::new() };
    let around = |before: i64, after: i64| TimeRange {
        from: Timestamp::from_nanos(ts.saturating_sub(before)),
        to: Timestamp::from_nanos(ts.saturating_add(after)),
    };
    let half = Span::DAY.nanos() / 2;
    vec![around(0, MILLI), around(half, half)]
}

/// Walks a settled range, newest first, until the id is found.
async fn search(query: &Arc<Query>, asked: &PointAsked, settled: Settled, began: Mark) -> Result<Point, QueryError> {
    let read = Asked {
        ns: asked.ns.clone(),
        target: Target::Key(asked.key.clone()),
        from: Some(settled.range.from),
        to: Some(settled.range.to),
        selection: asked.selection.clone(),
        order: Order::Desc,
        partial: asked.partial,
    };
    let mut reader = Reader::over(query.clone(), read, settled, began, Span::HOUR.nanos()).await?;
    while let Some(part) = reader.next().await? {
        let bytes = part.bytes;
        reader.grow(bytes);
        let selection = asked.selection.clone();
        let find = move || newest(&part.verified, part.range, &selection.filter, selection.id.as_deref().unwrap_or_default());
        let event = work_on(bytes, find).await??;
        if event.is_some() {
            return Ok(Point { event, tally: reader.tally });
        }
    }
    Ok(Point { event: None, tally: reader.tally })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_in_an_id_is_the_first_guess() {
        let guesses = guesses("01890a5d-ac96-774b-bcce-b302099a8057");
        let ts = 0x0189_0a5d_ac96_i64 * MILLI;
        assert_eq!(guesses[0], TimeRange { from: Timestamp::from_nanos(ts), to: Timestamp::from_nanos(ts + MILLI) });
        assert!(guesses[1].contains(Timestamp::from_nanos(ts)));
        assert!(super::guesses("o-17").is_empty());
    }
}
