//! A page of a scan: several partitions side by side, each page by page to its end.
//!
//! A partition counts as answered when its last page came; a page that fails fails the scan.

use std::ops::ControlFlow;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use scylla::response::PagingState;

use super::blocks::id_from_bytes;
use super::errors::{Request, corrupt, store_error};
use super::{CqlStore, place};
use crate::model::Timestamp;
use crate::partition::Partition;
use crate::store::{BlockAddress, PageToken, Scan, ScanPage, StoreError, StoredBlock};

/// Bytes of blocks after which a page of a scan begins no further query.
const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// Partitions that one scan reads at once.
const AT_ONCE: usize = 16;
/// Blocks that a partition's first query asks for, …
const ROWS_FIRST: i32 = 16;
/// … bytes that each further one aims at, by the blocks seen so far, …
const BYTES_AIMED: usize = 1024 * 1024;
/// … and most blocks of one.
const ROWS_MAX: i32 = 1_024;

/// How far a scan has come.
#[derive(Clone, Default)]
struct Progress {
    /// Partitions from here on were not begun.
    next: usize,
    /// Those that were begun and have more.
    open: Vec<Open>,
}

/// A partition with more to read.
#[derive(Clone)]
struct Open {
    index: u32,
    from: PagingState,
    rows: i32,
}

/// What one query gave.
struct Answer {
    index: u32,
    blocks: Vec<StoredBlock>,
    more: Option<Open>,
}

impl Progress {
    /// The next query of this scan of `partitions` partitions; those that were begun go first.
    fn take(&mut self, partitions: usize) -> Option<Open> {
        if let Some(open) = self.open.pop() {
            return Some(open);
        }
        let index = u32::try_from(self.next).ok().filter(|_| self.next < partitions)?;
        self.next += 1;
        Some(Open { index, from: PagingState::start(), rows: ROWS_FIRST })
    }

    fn is_done(&self, partitions: usize) -> bool {
        self.open.is_empty() && self.next >= partitions
    }
}

/// Blocks to ask for next, going by those that came.
fn rows_after(blocks: &[StoredBlock], last: i32) -> i32 {
    let bytes: usize = blocks.iter().map(|block| block.bytes.len()).sum();
    if blocks.is_empty() {
        return last;
    }
    let fitting = BYTES_AIMED / (bytes / blocks.len()).max(1);
    i32::try_from(fitting).unwrap_or(ROWS_MAX).clamp(4, ROWS_MAX)
}

impl CqlStore {
    pub(super) async fn page(&self, scan: &Scan, token: Option<PageToken>) -> Result<ScanPage, StoreError> {
        let partitions = scan.partitions.len();
        if scan.range.is_empty() {
            return Ok(ScanPage { answered: (0..).take(partitions).collect(), ..ScanPage::default() });
        }
        let mut progress = token.and_then(|token| token.downcast_ref::<Progress>().cloned()).unwrap_or_default();
        let mut page = ScanPage::default();
        let (mut running, mut bytes) = (FuturesUnordered::new(), 0);
        loop {
            while bytes < PAGE_BYTES && running.len() < AT_ONCE {
                let Some(open) = progress.take(partitions) else { break };
                running.push(self.query(scan, open));
            }
            let Some(answer) = running.next().await else { break };
            let Answer { index, blocks, more } = answer?;
            bytes += blocks.iter().map(|block| block.bytes.len()).sum::<usize>();
            page.blocks.extend(blocks.into_iter().map(|block| (index, block)));
            match more {
                Some(open) => progress.open.push(open),
                None => page.answered.push(index),
            }
        }
        page.next = (!progress.is_done(partitions)).then(|| Arc::new(progress) as PageToken);
        Ok(page)
    }

    /// One query of one partition. Its answer may be short, or empty, and yet have more behind it.
    async fn query(&self, scan: &Scan, Open { index, from, rows }: Open) -> Result<Answer, StoreError> {
        let partition: &Partition = &scan.partitions[index as usize];
        let (ns, key, bucket, revision, nonce, suffix) = place(partition);
        let mut statement = self.statements.blocks_before.clone();
        statement.set_page_size(rows);
        let values = (ns, key, bucket, revision, nonce, suffix, scan.range.to.nanos(), scan.range.from.nanos());
        let turn = self.read_turn().await;
        let answer = self.session.execute_single_page(&statement, values, from).await;
        drop(turn);
        let (answer, paging) = answer.map_err(|error| store_error(Request::Read, &error))?;
        let answer = answer.into_rows_result().map_err(corrupt)?;
        let blocks = answer.rows::<(i64, i64, &[u8], Bytes)>().map_err(corrupt)?.map(|row| {
            let (min, max, id, bytes) = row.map_err(corrupt)?;
            let id = id_from_bytes(id).ok_or_else(|| corrupt(format!("a block's id of {} bytes", id.len())))?;
            let address = BlockAddress { min_ts: Timestamp::from_nanos(min), max_ts: Timestamp::from_nanos(max), id };
            Ok(StoredBlock { address, bytes })
        });
        let blocks = blocks.collect::<Result<Vec<_>, StoreError>>()?;
        let more = match paging.into_paging_control_flow() {
            ControlFlow::Break(()) => None,
            ControlFlow::Continue(from) => Some(Open { index, from, rows: rows_after(&blocks, rows) }),
        };
        Ok(Answer { index, blocks, more })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stamp::Stamp;

    fn blocks(count: usize, bytes: usize) -> Vec<StoredBlock> {
        let address = BlockAddress { min_ts: Timestamp::from_nanos(0), max_ts: Timestamp::from_nanos(0), id: Stamp { time: 0, node: 0 } };
        vec![StoredBlock { address, bytes: vec![0; bytes].into() }; count]
    }

    #[test]
    fn queries_grow_with_small_blocks_and_shrink_with_large_ones() {
        assert_eq!(rows_after(&blocks(16, 100), 16), ROWS_MAX);
        assert_eq!(rows_after(&blocks(16, 64 * 1024), 16), 16);
        assert_eq!(rows_after(&blocks(3, 256 * 1024), 16), 4);
        assert_eq!(rows_after(&[], 77), 77);
    }

    #[test]
    fn every_partition_is_begun_once_and_those_begun_go_first() {
        let mut progress = Progress::default();
        assert_eq!(progress.take(2).unwrap().index, 0);
        progress.open.push(Open { index: 0, from: PagingState::start(), rows: 5 });
        assert_eq!(progress.take(2).map(|open| (open.index, open.rows)), Some((0, 5)));
        assert!(!progress.is_done(2));
        assert_eq!(progress.take(2).unwrap().index, 1);
        assert!(progress.take(2).is_none() && progress.is_done(2));
    }
}
