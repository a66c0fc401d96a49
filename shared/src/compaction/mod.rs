//! Compaction: small blocks of a partition become full, disjoint ones, in the background.
//!
//! One group of blocks at a time. Where the store replaces atomically, whoever reads sees the old blocks or
//! the new; elsewhere the new are appended, and the old deleted when the grace has passed, by the one node that has
//! claimed the partition (ADR 182). Giving up at any point loses nothing. Never deletes what it could not read.

mod claims;
mod group;
mod metrics;
mod replaced;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;

use self::claims::Claims;
pub use self::group::GroupLimits;
use self::group::{Grouper, small};
use self::metrics::Metrics;
use self::replaced::Replaced;
use crate::background;
use crate::block::{Block, BlockError, compact};
use crate::catalog::Catalog;
use crate::clock::Clock;
use crate::cold::rules::is_due;
use crate::layout::Layout;
use crate::model::TimeRange;
use crate::partition::Partition;
use crate::store::{BlockAddress, Consistency, EncodedBlock, PageToken, SMALL_RUN_LEAST, Scan, Store, StoreError, StoredBlock};

/// Partitions asked for at once.
const PARTITIONS_AT_ONCE: usize = 16;
/// Most partitions whose fruitless visits are remembered.
const PATIENCE_MAX: usize = 4_096;
/// Longest that a partition without worthwhile groups is left alone, rounds.
const PATIENCE_ROUNDS_MAX: u32 = 1_024;

/// Finds the layout that placed a partition; `None` where the catalog at hand does not know it.
pub type FindLayout = Arc<dyn Fn(&Partition) -> Option<Arc<Layout>> + Send + Sync>;

/// Layouts by a catalog, but for what is due to be archived: the archiver writes down which blocks it
/// read, and deletes exactly those.
pub fn layouts(catalog: Arc<Catalog>) -> FindLayout {
    Arc::new(move |partition: &Partition| {
        let view = catalog.view();
        let layout = view.layout_of(partition)?;
        let closing = view.namespace(&partition.ns)?.cold.closing;
        (!is_due(closing, layout.bucket_range(partition.bucket))).then(|| layout.clone())
    })
}

/// Gives the random bits that keep the ids of new blocks apart.
pub type Nonces = Arc<dyn Fn() -> u64 + Send + Sync>;

/// Settings of compaction.
#[derive(Clone, Copy, Debug)]
pub struct CompactionOptions {
    /// Small blocks from which on a partition is looked at.
    pub least: usize,
    /// Bounds of one group of blocks.
    pub group: GroupLimits,
    /// Between two rounds.
    pub pause: Duration,
    /// Most bytes read by compaction, per second.
    pub bytes_per_second: u64,
    /// Blocks younger than this are left alone …
    pub quiet: Duration,
    /// … unless so many small ones stand together.
    pub urgent: usize,
    /// How long what was replaced still stands where the store does not replace atomically: longer
    /// than any read may take.
    pub grace: Duration,
}

impl Default for CompactionOptions {
    fn default() -> Self {
        CompactionOptions {
            least: 8,
            group: GroupLimits { bytes_max: 2 << 20, events_max: 1 << 17, blocks_max: 4_096, small_least: SMALL_RUN_LEAST },
            pause: Duration::from_secs(1),
            bytes_per_second: 16 << 20,
            quiet: Duration::from_secs(5),
            urgent: 64,
            grace: Duration::from_secs(60),
        }
    }
}

/// Why a partition was left as it is.
#[derive(Debug, thiserror::Error)]
enum CompactionError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Block(#[from] BlockError),
    #[error("the task was given up: {0}")]
    GivenUp(#[from] tokio::task::JoinError),
}

/// The background task.
pub struct Compactor {
    store: Arc<dyn Store>,
    layouts: FindLayout,
    clock: Arc<dyn Clock>,
    options: CompactionOptions,
    metrics: Metrics,
    nonces: Nonces,
    patience: HashMap<Partition, Patience>,
    replaced: Replaced,
    claims: Claims,
}

/// How long a partition is left alone: the longer, the more often a visit found nothing to do.
#[derive(Clone, Copy, Default)]
struct Patience {
    left: u32,
    last: u32,
}

impl Compactor {
    /// A compactor of `store`; metrics are registered in `registry`.
    pub fn new(
        store: Arc<dyn Store>,
        layouts: FindLayout,
        clock: Arc<dyn Clock>,
        options: CompactionOptions,
        registry: &Registry,
    ) -> Result<Compactor, prometheus::Error> {
        let (metrics, nonces) = (Metrics::new(registry)?, Arc::new(rand::random::<u64>));
        let (patience, replaced, claims) = (HashMap::new(), Replaced::default(), Claims::new(store.clone(), clock.clone()));
        Ok(Compactor { store, layouts, clock, options, metrics, nonces, patience, replaced, claims })
    }

    /// With another source of random bits, so that a run can be had again.
    pub fn with_nonces(self, nonces: Nonces) -> Compactor {
        Compactor { nonces, ..self }
    }

    /// Compacts for ever, until dropped.
    pub async fn run(mut self) {
        loop {
            if let Err(error) = self.round().await {
                tracing::warn!(%error, "compaction could not look for partitions");
            }
            tokio::time::sleep(self.options.pause).await;
        }
    }

    /// Visits every fragmented partition once; gives how many groups were rewritten.
    pub async fn round(&mut self) -> Result<usize, StoreError> {
        self.claims.renew().await;
        self.delete_replaced().await?;
        let (mut rewritten, mut after) = (0, None);
        loop {
            let found = self.store.fragmented(self.options.least, after.as_ref(), PARTITIONS_AT_ONCE).await?;
            let Some(last) = found.last() else { return Ok(rewritten) };
            after = Some(last.clone());
            for partition in found {
                rewritten += self.visit(partition).await;
            }
        }
    }

    /// Compacts a partition unless earlier visits were fruitless; failures are logged and counted here.
    async fn visit(&mut self, partition: Partition) -> usize {
        if let Some(patience) = self.patience.get_mut(&partition).filter(|patience| patience.left > 0) {
            patience.left -= 1;
            return 0;
        }
        let rewritten = self.claimed(&partition).await.unwrap_or_else(|error| {
            self.metrics.failures.inc();
            tracing::warn!(%error, ?partition, "a partition could not be compacted");
            0
        });
        if rewritten > 0 {
            self.patience.remove(&partition);
        } else {
            self.wait_longer(partition);
        }
        rewritten
    }

    fn wait_longer(&mut self, partition: Partition) {
        if self.patience.len() >= PATIENCE_MAX {
            self.patience.clear();
        }
        let patience = self.patience.entry(partition).or_default();
        patience.last = (patience.last * 2).clamp(1, PATIENCE_ROUNDS_MAX);
        patience.left = patience.last;
    }

    /// Compacts a partition unless another node is at it; it stays claimed until what was replaced is gone.
    async fn claimed(&mut self, partition: &Partition) -> Result<usize, CompactionError> {
        if self.replaced.holds_back(partition) || !self.claims.claim(partition, || (self.nonces)()).await {
            return Ok(0);
        }
        let rewritten = self.partition(partition).await;
        if !self.replaced.has(partition) {
            self.claims.release(partition).await;
        }
        rewritten
    }

    /// Deletes exactly the blocks whose replacement has stood for the grace.
    async fn delete_replaced(&mut self) -> Result<(), StoreError> {
        while let Some(old) = self.replaced.pop(self.options.grace) {
            if let Err(error) = self.store.delete(&old.partition, &old.blocks).await {
                self.replaced.give_back(old);
                return Err(error);
            }
            if !self.replaced.has(&old.partition) {
                self.claims.release(&old.partition).await;
            }
        }
        Ok(())
    }

    async fn partition(&self, partition: &Partition) -> Result<usize, CompactionError> {
        let Some(layout) = (self.layouts)(partition) else { return Ok(0) };
        // Blocks that are full and overlap no small one are not even read.
        let range = self.store.fragments(partition).await?;
        let scan = Scan { partitions: [partition.clone()].into(), range, consistency: Consistency::Strong };
        let partition = Arc::new(partition.clone());
        let mut grouper = Grouper::new(self.options.group, self.store.block_bytes_max());
        let mut rewritten = 0;
        let mut page: Option<PageToken> = None;
        loop {
            let answer = self.store.scan(&scan, page).await?;
            let blocks = open(answer.blocks, partition.clone(), layout.clone()).await?;
            for block in blocks {
                if let Some(group) = grouper.push(block) {
                    rewritten += self.rewrite(&partition, &layout, group).await?;
                }
            }
            page = answer.next;
            if page.is_none() {
                break;
            }
        }
        if let Some(group) = grouper.finish() {
            rewritten += self.rewrite(&partition, &layout, group).await?;
        }
        Ok(rewritten)
    }

    /// Rewrites a group, unless that gains nothing; gives how many groups were rewritten.
    async fn rewrite(&self, partition: &Arc<Partition>, layout: &Arc<Layout>, group: Vec<Block>) -> Result<usize, CompactionError> {
        let Some(group) = self.settled(group) else { return Ok(0) };
        let old: Vec<_> = group.iter().map(|block| block.header().address).collect();
        let bytes_in: usize = group.iter().map(|block| block.bytes().len()).sum();
        let bytes_max = self.store.block_bytes_max();
        let new = encode(group, partition.clone(), layout.clone(), bytes_max, self.nonces.clone()).await?;
        let bytes_out: usize = new.iter().map(|block| block.bytes.len()).sum();
        let blocks_out = new.len();
        let gains = blocks_out < old.len();
        if gains {
            self.put_in_place(partition, &old, new).await?;
            self.metrics.compactions.inc();
            self.metrics.blocks_in.inc_by(old.len() as u64);
            self.metrics.blocks_out.inc_by(blocks_out as u64);
            self.metrics.bytes_in.inc_by(bytes_in as u64);
            self.metrics.bytes_out.inc_by(bytes_out as u64);
        }
        self.pace(bytes_in).await;
        Ok(usize::from(gains))
    }

    async fn put_in_place(&self, partition: &Partition, old: &[BlockAddress], new: Vec<EncodedBlock>) -> Result<(), StoreError> {
        if self.store.replaces_atomically() {
            return self.store.replace(partition, old, new).await;
        }
        self.store.append(new).await?;
        self.replaced.push(partition, old.to_vec());
        Ok(())
    }

    /// What of a group is rewritten now. While it is being written to, only its small blocks are,
    /// and only when they are many: full ones would be rewritten again and again.
    fn settled(&self, mut group: Vec<Block>) -> Option<Vec<Block>> {
        let newest = group.iter().map(|block| block.header().address.id.time).max()?;
        let age = u64::try_from(self.clock.now().nanos()).unwrap_or(0).saturating_sub(newest);
        if u128::from(age) < self.options.quiet.as_nanos() {
            group.retain(|block| small(block, self.store.block_bytes_max()));
            if group.len() < self.options.urgent {
                return None;
            }
        }
        Some(group)
    }

    async fn pace(&self, bytes: usize) {
        let seconds = bytes as f64 / self.options.bytes_per_second as f64;
        let pause = Duration::from_secs_f64(seconds);
        if pause >= Duration::from_millis(1) {
            tokio::time::sleep(pause).await;
        }
    }
}

/// Opens and checks blocks where it may take a while.
async fn open(blocks: Vec<(u32, StoredBlock)>, partition: Arc<Partition>, layout: Arc<Layout>) -> Result<Vec<Block>, CompactionError> {
    let opening = move || {
        let checked = blocks.into_iter().map(|(_, stored)| {
            let block = Block::open(stored.bytes)?;
            block.verify(&partition, &layout, TimeRange::ALL, &stored.address)?;
            Ok(block)
        });
        checked.collect::<Result<Vec<_>, BlockError>>()
    };
    Ok(background::spawn(opening).await??)
}

async fn encode(
    group: Vec<Block>,
    partition: Arc<Partition>,
    layout: Arc<Layout>,
    bytes_max: usize,
    nonces: Nonces,
) -> Result<Vec<EncodedBlock>, CompactionError> {
    let encoding = move || compact(&partition, &layout, &group, bytes_max, || nonces());
    Ok(background::spawn(encoding).await??)
}
