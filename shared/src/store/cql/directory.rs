//! The directory: keys of a namespace, dealt to several partitions, and the days of each key.

use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

use futures::future::{join_all, try_join_all};
use scylla::response::PagingState;
use scylla::serialize::row::SerializeRow;
use scylla::statement::prepared::PreparedStatement;
use xxhash_rust::xxh3::xxh3_64;

use super::CqlStore;
use super::errors::{Request, corrupt, store_error, worse};
use crate::limits::KEY_BYTES_MAX;
use crate::model::Namespace;
use crate::store::{Day, StoreError};

/// Partitions that a namespace's keys are dealt to. Written into the data: never change it.
const SLOTS: i32 = 16;

fn slot(key: &str) -> i32 {
    (xxh3_64(key.as_bytes()) % SLOTS as u64) as i32
}

/// A text behind every key that begins with `prefix` and before every other that is greater.
fn end_of(prefix: &str) -> String {
    let greatest = '\u{10FFFF}';
    let longer_than_any_key = KEY_BYTES_MAX / greatest.len_utf8() + 1;
    prefix.chars().chain(std::iter::repeat_n(greatest, longer_than_any_key)).collect()
}

impl CqlStore {
    pub(super) async fn note(&self, ns: &Namespace, days: &[(Arc<str>, Day)]) -> Result<(), StoreError> {
        let keys: BTreeSet<_> = days.iter().map(|(key, _)| &**key).collect();
        let keys = keys.into_iter().map(|key| self.write(&self.statements.note_key, (ns.as_str(), slot(key), key)));
        let days = days.iter().map(|(key, day)| self.write(&self.statements.note_day, (ns.as_str(), &**key, *day)));
        let (keys, days) = futures::join!(join_all(keys), join_all(days));
        keys.into_iter().chain(days).filter_map(Result::err).reduce(worse).map_or(Ok(()), Err)
    }

    async fn write(&self, statement: &PreparedStatement, values: impl SerializeRow) -> Result<(), StoreError> {
        let _turn = self.write_turn().await;
        let outcome = self.session.execute_unpaged(statement, values).await;
        outcome.map(drop).map_err(|error| store_error(Request::Write, &error))
    }

    pub(super) async fn list_keys(
        &self,
        ns: &Namespace,
        prefix: &str,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<String>, StoreError> {
        let (statement, first) = match after {
            Some(after) if after >= prefix => (&self.statements.keys_behind, after),
            _ => (&self.statements.keys_from, prefix),
        };
        let (end, most) = (end_of(prefix), i32::try_from(limit).unwrap_or(i32::MAX));
        if first >= &*end {
            return Ok(Vec::new());
        }
        let slots = (0..SLOTS).map(|slot| self.column::<String>(statement, (ns.as_str(), slot, first, &*end, most)));
        let mut keys = try_join_all(slots).await?.concat();
        keys.sort_unstable();
        keys.truncate(limit);
        Ok(keys)
    }

    pub(super) async fn list_days(&self, ns: &Namespace, key: &str, from: Day, to: Day) -> Result<Vec<Day>, StoreError> {
        if from > to {
            return Ok(Vec::new());
        }
        self.column(&self.statements.days, (ns.as_str(), key, from, to)).await
    }

    /// The one column of every row, page by page to the end.
    async fn column<T>(&self, statement: &PreparedStatement, values: impl SerializeRow) -> Result<Vec<T>, StoreError>
    where
        T: for<'f> scylla::deserialize::value::DeserializeValue<'f, 'f>,
    {
        let (mut found, mut from) = (Vec::new(), PagingState::start());
        loop {
            let turn = self.read_turn().await;
            let answer = self.session.execute_single_page(statement, &values, from).await;
            drop(turn);
            let (answer, paging) = answer.map_err(|error| store_error(Request::Read, &error))?;
            let answer = answer.into_rows_result().map_err(corrupt)?;
            for row in answer.rows::<(T,)>().map_err(corrupt)? {
                found.push(row.map_err(corrupt)?.0);
            }
            match paging.into_paging_control_flow() {
                ControlFlow::Break(()) => return Ok(found),
                ControlFlow::Continue(more) => from = more,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_prefix_parts_its_keys_from_all_greater_ones() {
        let longest = "\u{10FFFF}".repeat(KEY_BYTES_MAX / 4);
        for (prefix, inside, greater) in [("a", "a\u{10FFFF}", "b"), ("", &*longest, ""), ("ab", "ab", "ac"), ("a\0", "a\0z", "a\u{1}")] {
            let end = end_of(prefix);
            assert!(inside < &*end, "{prefix:?}");
            assert!(greater.is_empty() || greater > &*end, "{prefix:?}");
        }
    }

    #[test]
    fn slots_stay_where_they_are() {
        // Keys that were written are found by these: xxh3_64 of the text, modulo 16.
        assert_eq!(["orders", "departures/JFK", "\0"].map(slot), [11, 10, 11]);
    }
}
