//! Step: give every row the id and the time it came without.
//!
//! A missing time is that of a UUIDv7 or ULID id, else the time of receipt, one for the whole
//! request. A missing id is a UUIDv7 made with the event's time. Both are told to the client, so
//! that sending the request again names the same events.

use std::borrow::Cow;
use std::sync::atomic::{AtomicU64, Ordering};

use braid_shared::codes;
use braid_shared::model::{Batch, Precision, Row, RowFault, Timestamp, millis_of_id};
use uuid::Uuid;
use xxhash_rust::xxh3::xxh3_128_with_seed;

/// Bits of a UUIDv7 that are not time, version or variant: 12 before the variant, 62 after it.
const REST_LOW_BITS: u32 = 62;
/// One bit fewer than there are, so that counting up within a request can't overflow.
const REST_BITS: u32 = 73;

/// What a row was given, as the answer tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// Position among the request's events, from 0.
    pub(crate) index: u32,
    /// The id, made or as it was sent.
    pub(crate) id: MadeId,
    /// The event's time.
    pub(crate) ts: Timestamp,
}

/// An id in [`Made`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MadeId {
    /// Sent with the event; its time was not.
    Sent(String),
    /// Made here.
    New(Uuid),
}

/// The one door to the bits of made ids: unique in a process, and between processes by `seed`.
#[derive(Debug)]
pub(crate) struct IdSource {
    seed: u64,
    requests: AtomicU64,
}

/// Ids of one request: each greater than the one before where their times are equal.
struct RequestIds {
    rest: u128,
}

impl IdSource {
    pub(crate) fn new(seed: u64) -> IdSource {
        IdSource { seed, requests: AtomicU64::new(0) }
    }

    fn request(&self) -> RequestIds {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        RequestIds { rest: xxh3_128_with_seed(&number.to_le_bytes(), self.seed) >> (128 - REST_BITS) }
    }
}

impl RequestIds {
    /// A UUIDv7 whose milliseconds are those of `ts`; before 1970 they are 0.
    fn next(&mut self, ts: Timestamp) -> Uuid {
        self.rest += 1;
        let millis = ts.nanos().div_euclid(Precision::Millis.nanos()).max(0) as u128;
        let high = self.rest >> REST_LOW_BITS;
        let low = self.rest & ((1 << REST_LOW_BITS) - 1);
        Uuid::from_u128(millis << 80 | 7 << 76 | high << 64 | 0b10 << REST_LOW_BITS | low)
    }
}

/// Completes the rows of a request that arrived at `received`; gives what was made, in order.
pub(crate) fn complete(batch: &mut Batch<'_>, received: Timestamp, source: &IdSource) -> Vec<Made> {
    let mut made = Vec::new();
    let mut ids = None;
    let faults = &mut batch.faults;
    batch.rows.retain_mut(|row| {
        if row.id.is_some() && row.ts.is_some() {
            return true;
        }
        match time_of(row, received) {
            Ok(ts) => {
                let id = name(row, ts, ids.get_or_insert_with(|| source.request()));
                row.ts = Some(ts);
                made.push(Made { index: row.index, id, ts });
                true
            }
            Err(fault) => {
                faults.push(fault);
                false
            }
        }
    });
    made
}

/// The row's time: its own, its id's, or that of receipt.
fn time_of(row: &Row<'_>, received: Timestamp) -> Result<Timestamp, RowFault> {
    if let Some(ts) = row.ts {
        return Ok(ts);
    }
    let Some(millis) = row.id.as_deref().and_then(millis_of_id) else {
        return Ok(received);
    };
    Timestamp::from_int(millis as i64, Precision::Millis).map_err(|error| RowFault {
        index: row.index,
        line: row.line,
        code: codes::TIMESTAMP_OUT_OF_RANGE,
        detail: format!("the event has no ts, and the time in its id: {error}"),
    })
}

/// Gives the row an id if it has none.
fn name(row: &mut Row<'_>, ts: Timestamp, ids: &mut RequestIds) -> MadeId {
    match &row.id {
        Some(id) => MadeId::Sent(id.to_string()),
        None => {
            let id = ids.next(ts);
            row.id = Some(Cow::Owned(id.to_string()));
            MadeId::New(id)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECEIVED: Timestamp = Timestamp::from_nanos(1_700_000_000_123_456_789);

    fn row(index: u32, id: Option<&'static str>, ts: Option<i64>) -> Row<'static> {
        let id = id.map(Cow::Borrowed);
        Row { index, line: 0, key: "k".into(), id, ts: ts.map(Timestamp::from_nanos), fields: 0..0, tags: 0..0 }
    }

    fn completed(rows: Vec<Row<'static>>) -> (Batch<'static>, Vec<Made>) {
        let mut batch = Batch { rows, ..Batch::default() };
        let made = complete(&mut batch, RECEIVED, &IdSource::new(7));
        (batch, made)
    }

    #[test]
    fn a_whole_row_is_left_as_it_is() {
        let (batch, made) = completed(vec![row(0, Some("a"), Some(5))]);
        assert_eq!((batch.rows[0].id.as_deref(), batch.rows[0].ts), (Some("a"), Some(Timestamp::from_nanos(5))));
        assert!(made.is_empty());
    }

    #[test]
    fn a_missing_time_is_the_ids_else_that_of_receipt_and_is_told() {
        let ulid = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
        let (batch, made) = completed(vec![row(0, Some(ulid), None), row(4, Some("a"), None)]);
        assert_eq!(batch.rows[0].ts, Some(Timestamp::from_nanos(1_469_922_850_259_000_000)));
        assert_eq!(batch.rows[1].ts, Some(RECEIVED));
        assert_eq!(made[0], Made { index: 0, id: MadeId::Sent(ulid.into()), ts: batch.rows[0].ts.unwrap() });
        assert_eq!(made[1].index, 4);
    }

    #[test]
    fn a_made_id_carries_the_events_time_and_is_unique_and_rising_within_its_request() {
        let (batch, made) = completed((0..1_000).map(|i| row(i, None, Some(1_000_000_000))).collect());
        let ids: Vec<&str> = batch.rows.iter().map(|row| row.id.as_deref().unwrap()).collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(ids.iter().all(|id| millis_of_id(id) == Some(1_000)), "{}", ids[0]);
        assert!(made.iter().zip(&ids).all(|(made, id)| matches!(made.id, MadeId::New(new) if new.to_string() == **id)));
    }

    #[test]
    fn two_requests_never_make_one_id() {
        let source = IdSource::new(1);
        let (mut first, mut second) = (source.request(), source.request());
        assert_ne!(first.next(RECEIVED), second.next(RECEIVED));
        assert_ne!(first.next(RECEIVED), IdSource::new(2).request().next(RECEIVED));
    }

    #[test]
    fn a_time_before_1970_still_makes_a_sound_id() {
        let (batch, _) = completed(vec![row(0, None, Some(-5))]);
        assert_eq!(millis_of_id(batch.rows[0].id.as_deref().unwrap()), Some(0));
        assert_eq!(batch.rows[0].ts, Some(Timestamp::from_nanos(-5)));
    }

    #[test]
    fn an_ids_time_that_does_not_fit_refuses_its_row_only() {
        let (batch, made) = completed(vec![row(0, Some("7ZZZZZZZZZZZZZZZZZZZZZZZZZ"), None), row(1, None, None)]);
        assert_eq!(batch.faults[0].code, codes::TIMESTAMP_OUT_OF_RANGE);
        assert_eq!((batch.rows.len(), made.len(), made[0].index), (1, 1, 1));
    }
}
