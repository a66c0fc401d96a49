//! Fan out: one scan of the store, every page to its end, within a time and a size.
//!
//! Judges nothing: `verify` does.

use std::sync::Arc;
use std::time::Duration;

use braid_shared::model::TimeRange;
use braid_shared::partition::Partition;
use braid_shared::store::{Consistency, PageToken, Scan, ScanPage, Store, StoredBlock};
use tokio::time::timeout;

use crate::error::QueryError;
use crate::walk::Planned;

/// What a store answered to one scan.
#[derive(Debug, Default)]
pub struct Answered {
    /// Blocks of each planned partition.
    pub blocks: Vec<Vec<StoredBlock>>,
    /// How often each planned partition was answered to its end.
    pub times: Vec<u32>,
    /// Blocks of partitions that nobody asked for.
    pub strangers: usize,
    /// Bytes of all blocks.
    pub bytes: usize,
}

/// The outcome of a scan that has a size.
#[derive(Debug)]
pub enum FanOut {
    /// All pages.
    Whole(Answered),
    /// The blocks are more than `bytes_max`; what came was dropped.
    OverBudget,
}

/// Reads the partitions' blocks that overlap `range`. A page that takes longer than `page_deadline` is an error.
pub async fn fan_out(
    store: &dyn Store,
    planned: &[Planned],
    range: TimeRange,
    consistency: Consistency,
    bytes_max: usize,
    page_deadline: Duration,
) -> Result<FanOut, QueryError> {
    let partitions: Arc<[Partition]> = planned.iter().map(|planned| planned.partition.clone()).collect();
    let mut answered = Answered::of(partitions.len());
    if partitions.is_empty() {
        return Ok(FanOut::Whole(answered));
    }
    let scan = Scan { partitions, range, consistency };
    let mut token = None;
    loop {
        let page = timeout(page_deadline, store.scan(&scan, token))
            .await
            .map_err(|_| QueryError::StoreTimeout { seconds: page_deadline.as_secs() })??;
        token = answered.take(page);
        if answered.bytes > bytes_max {
            return Ok(FanOut::OverBudget);
        }
        if token.is_none() {
            return Ok(FanOut::Whole(answered));
        }
    }
}

impl Answered {
    fn of(partitions: usize) -> Answered {
        Answered { blocks: vec![Vec::new(); partitions], times: vec![0; partitions], ..Answered::default() }
    }

    /// Takes a page's content; gives the token of the next one.
    fn take(&mut self, page: ScanPage) -> Option<PageToken> {
        for (index, block) in page.blocks {
            self.bytes += block.bytes.len();
            match self.blocks.get_mut(index as usize) {
                Some(blocks) => blocks.push(block),
                None => self.strangers += 1,
            }
        }
        for index in page.answered {
            match self.times.get_mut(index as usize) {
                Some(times) => *times += 1,
                None => self.strangers += 1,
            }
        }
        page.next
    }
}
