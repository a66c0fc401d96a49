//! Where compaction is worth it: a walk over the sizes of all blocks, in the order of the ring.
//!
//! Reads the whole table; only a namespace's policy or an operator should ask for it.

use std::ops::ControlFlow;

use scylla::response::PagingState;

use super::errors::{Request, corrupt, store_error};
use super::{CqlStore, place};
use crate::layout::LayoutVersion;
use crate::model::Timestamp;
use crate::partition::Partition;
use crate::store::{StoreError, is_small};

/// Rows of one query.
const ROWS: i32 = 1_000;

/// A row of sizes: the partition, events, bytes.
type Sizes<'a> = (&'a str, &'a str, i64, i64, i32, i32, i32, i32);

/// Counts small blocks, a partition at a time.
struct Count {
    least: usize,
    current: Option<Partition>,
    small: usize,
    found: Vec<Partition>,
}

impl Count {
    fn take(&mut self, row: Sizes<'_>) -> Result<(), StoreError> {
        let (events, bytes) = (row.6.cast_unsigned(), usize::try_from(row.7).unwrap_or(usize::MAX));
        if !self.current.as_ref().is_some_and(|current| is_of(current, &row)) {
            self.close();
            self.current = Some(partition(&row)?);
        }
        self.small += usize::from(is_small(events, bytes));
        Ok(())
    }

    fn close(&mut self) {
        let small = std::mem::take(&mut self.small);
        self.found.extend(self.current.take().filter(|_| small >= self.least));
    }
}

fn is_of(current: &Partition, row: &Sizes<'_>) -> bool {
    place(current) == (row.0, row.1, row.2, row.3, row.4, row.5)
}

fn partition(&(ns, key, bucket, revision, nonce, suffix, ..): &Sizes<'_>) -> Result<Partition, StoreError> {
    Ok(Partition {
        ns: ns.parse().map_err(|_| corrupt(format!("{ns:?} is no namespace")))?,
        key: key.into(),
        bucket: Timestamp::from_nanos(bucket),
        version: LayoutVersion { revision: revision.cast_unsigned(), nonce: nonce.cast_unsigned() },
        suffix: suffix.cast_unsigned(),
    })
}

impl CqlStore {
    pub(super) async fn find_fragmented(&self, least: usize, after: Option<&Partition>, most: usize) -> Result<Vec<Partition>, StoreError> {
        let mut count = Count { least, current: None, small: 0, found: Vec::new() };
        let mut statement = if after.is_some() { self.statements.sizes_after.clone() } else { self.statements.sizes.clone() };
        statement.set_page_size(ROWS);
        let mut from = PagingState::start();
        while count.found.len() < most {
            let turn = self.read_turn().await;
            let answer = match after {
                Some(after) => self.session.execute_single_page(&statement, place(after), from).await,
                None => self.session.execute_single_page(&statement, (), from).await,
            };
            drop(turn);
            let (answer, paging) = answer.map_err(|error| store_error(Request::Read, &error))?;
            let answer = answer.into_rows_result().map_err(corrupt)?;
            for row in answer.rows::<Sizes<'_>>().map_err(corrupt)? {
                count.take(row.map_err(corrupt)?)?;
            }
            match paging.into_paging_control_flow() {
                ControlFlow::Continue(more) => from = more,
                ControlFlow::Break(()) => {
                    count.close();
                    break;
                }
            }
        }
        count.found.truncate(most);
        Ok(count.found)
    }
}
