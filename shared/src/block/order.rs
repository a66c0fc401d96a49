//! The order of rows from several sources: by (ts, id, shard tag), then as they were written; and
//! which of them are one event. Moves no values.
//!
//! Ids are the widest column, so they are asked for only where they decide: among rows of one
//! time that could be one event.

use std::borrow::Cow;

use super::stamps::Stamps;
use super::table::{Column, Strings};
use crate::stamp::Stamp;

/// A row of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) source: u32,
    pub(super) row: u32,
}

/// Rows in order, and where each event's rows begin; of one event the latest write stands last.
#[derive(Debug, Default)]
pub(super) struct Order {
    pub(super) places: Vec<Place>,
    pub(super) starts: Vec<u32>,
}

/// The rows of one source.
pub(super) struct Run<'a> {
    pub(super) ts: &'a [i64],
    /// Whether they are ascending and each an event of its own.
    pub(super) distinct: bool,
}

/// What decides, beside the time, which event a source's rows are and which write is later.
pub(super) struct Identity<'a> {
    pub(super) ids: Cow<'a, Strings>,
    pub(super) tag: Option<Cow<'a, Column>>,
    pub(super) stamps: Cow<'a, Stamps>,
}

/// What rows of one time are ordered by.
type RowKey<'a> = (&'a [u8], Option<&'a [u8]>, Stamp);

impl Identity<'_> {
    fn key(&self, row: u32) -> RowKey<'_> {
        let tag = self.tag.as_ref().and_then(|column| Some(column.values.bytes_at(column.index_of(row)?)));
        (self.ids.bytes_at(row as usize), tag, self.stamps.at(row as usize))
    }
}

impl Order {
    /// Events.
    pub(super) fn len(&self) -> usize {
        self.starts.len()
    }

    /// The rows of each event.
    pub(super) fn events(&self) -> impl Iterator<Item = &[Place]> {
        let ends = self.starts.iter().skip(1).copied().chain([self.places.len() as u32]);
        self.starts.iter().zip(ends).map(|(start, end)| &self.places[*start as usize..end as usize])
    }

    /// The row an event's identity is read from.
    pub(super) fn firsts(&self) -> impl Iterator<Item = Place> + '_ {
        self.starts.iter().map(|start| self.places[*start as usize])
    }

    /// Whether the rows are those of one source as they stand.
    pub(super) fn is_as_given(&self) -> bool {
        let in_place = |(row, place): (usize, &Place)| place.source == 0 && place.row as usize == row;
        self.starts.len() == self.places.len() && self.places.iter().enumerate().all(in_place)
    }
}

/// Orders the rows of `runs`. `identity` is asked for a source's identities at most once, and only
/// where needed; equal writes keep the order of the sources and of their rows.
pub(super) fn order<'a, E>(runs: &[Run<'_>], mut identity: impl FnMut(usize) -> Result<Identity<'a>, E>) -> Result<Order, E> {
    let mut timed = timed_places(runs);
    // Stable, and fast on runs that are ascending already.
    timed.sort_by_key(|(ts, _)| *ts);
    let mut known: Vec<Option<Identity<'a>>> = runs.iter().map(|_| None).collect();
    let mut starts = Vec::with_capacity(timed.len());
    let mut at = 0;
    for same_time in timed.chunk_by_mut(|a, b| a.0 == b.0) {
        let end = at + same_time.len() as u32;
        if contested(same_time, runs) {
            for (_, place) in same_time.iter() {
                let source = place.source as usize;
                if known[source].is_none() {
                    known[source] = Some(identity(source)?);
                }
            }
            settle(same_time, &known, |offset| starts.push(at + offset as u32));
        } else {
            starts.extend(at..end);
        }
        at = end;
    }
    Ok(Order { places: timed.into_iter().map(|(_, place)| place).collect(), starts })
}

fn timed_places(runs: &[Run<'_>]) -> Vec<(i64, Place)> {
    let mut timed = Vec::with_capacity(runs.iter().map(|run| run.ts.len()).sum());
    for (source, run) in runs.iter().enumerate() {
        timed.extend((0..).zip(run.ts).map(|(row, ts)| (*ts, Place { source: source as u32, row })));
    }
    timed
}

/// Whether rows of one time could be one event, or out of order.
fn contested(same_time: &[(i64, Place)], runs: &[Run<'_>]) -> bool {
    let first = same_time[0].1.source;
    same_time.len() > 1 && same_time.iter().any(|(_, place)| place.source != first || !runs[place.source as usize].distinct)
}

/// Orders rows of one time, and says where each event begins among them.
fn settle(same_time: &mut [(i64, Place)], known: &[Option<Identity<'_>>], mut start: impl FnMut(usize)) {
    let nothing: RowKey<'_> = (&[], None, Stamp { time: 0, node: 0 });
    let key = |place: Place| known[place.source as usize].as_ref().map_or(nothing, |identity| identity.key(place.row));
    let id = |place| key(place).0;
    let event = |place| {
        let (id, tag, _) = key(place);
        (id, tag)
    };
    // Ids differ early, once what they all begin with is left out: one number decides nearly always.
    let first = id(same_time[0].1);
    let shared = same_time.iter().fold(first.len(), |shared, (_, place)| common(&first[..shared], id(*place)));
    let mut keyed: Vec<(u64, Place)> = same_time.iter().map(|(_, place)| (lead(&id(*place)[shared..]), *place)).collect();
    keyed.sort_by(|(a_lead, a), (b_lead, b)| a_lead.cmp(b_lead).then_with(|| key(*a).cmp(&key(*b))));
    let mut last = None;
    for (offset, ((_, slot), (lead, place))) in same_time.iter_mut().zip(&keyed).enumerate() {
        if last.is_none_or(|(last_lead, last)| last_lead != *lead || event(last) != event(*place)) {
            start(offset);
        }
        last = Some((*lead, *place));
        *slot = *place;
    }
}

/// How many bytes two strings begin with alike.
fn common(a: &[u8], b: &[u8]) -> usize {
    a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// The first bytes as a number that orders as they do; a shorter string may tie with a longer one.
fn lead(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(lead) => u64::from_be_bytes(*lead),
        None => bytes.iter().rev().fold(0, |lead, byte| lead >> 8 | u64::from(*byte) << 56),
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn rows_of_one_time_stand_by_id_and_equal_ids_are_one_event(ids in prop::collection::vec("[\0a\u{80}]{0,12}", 1..40), lead in "[ab]{0,9}") {
            let ids: Vec<String> = ids.into_iter().map(|id| lead.clone() + &id).collect();
            let mut strings = Strings::default();
            ids.iter().for_each(|id| strings.push(id.as_bytes()));
            let ts = vec![7; ids.len()];
            let stamps = Stamps::One(Stamp { time: 0, node: 0 });
            let identity = |_| Ok::<_, Infallible>(Identity { ids: Cow::Borrowed(&strings), tag: None, stamps: Cow::Borrowed(&stamps) });
            let Ok(order) = order(&[Run { ts: &ts, distinct: false }], identity);
            let mut wanted: Vec<u32> = (0..ids.len() as u32).collect();
            wanted.sort_by_key(|row| &ids[*row as usize]);
            prop_assert_eq!(order.places.iter().map(|place| place.row).collect::<Vec<_>>(), wanted);
            let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
            prop_assert_eq!(order.len(), distinct.len());
        }
    }
}
