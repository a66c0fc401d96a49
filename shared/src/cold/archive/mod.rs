//! The archiver: due buckets leave the store, step by step as DESIGN section 8 has them.
//!
//! `closing` (what is due, and since when) → `walk` (which buckets those are) → `generation` (open,
//! read by `hot`, write by `build`, publish) → `sweep` (delete what is replaced). `retain` drops what
//! is too old. Each step may be the last one that an archiver takes: the next one goes on from what
//! stands. `resting` keeps a database that fails from delaying the others. `audit` looks whether all is well, `preview` at what would be done. A lease keeps two of them from doing the same work, and nothing hangs on it.
//!
//! Never deletes what it did not see published a grace ago, or dropped.

mod audit;
mod build;
mod closing;
mod generation;
mod hot;
mod metrics;
mod preview;
mod resting;
mod retain;
mod sweep;
#[cfg(test)]
mod tests;
mod walk;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use prometheus::Registry;

pub use self::audit::Audit;
use self::closing::Ripening;
use self::metrics::Metrics;
pub use self::preview::Preview;
use self::resting::Resting;
use self::sweep::Pending;
use super::database::{DatabaseError, Databases};
use super::manifest::{Manifest, PageId};
use super::rules::Nonce;
use super::table::TableError;
use super::tables::Tables;
use crate::block::BlockError;
use crate::catalog::{Catalog, CatalogError};
use crate::clock::Clock;
use crate::lease::Lease;
use crate::model::{Namespace, Timestamp};
use crate::store::{Store, StoreError};

/// Most buckets that are remembered to hold nothing.
const EMPTY_MAX: usize = 1_000_000;
/// Longest pause between two rounds.
const PAUSE_MAX: Duration = Duration::from_secs(10);
/// The lease of who archives.
const LEASE: &str = "cold-lease";

/// Settings of the archiver.
#[derive(Clone)]
pub struct ArchiveOptions {
    /// Most bytes read from the store, per second.
    pub bytes_per_second: u64,
    /// Bytes of blocks that are merged at once, and go into one file.
    pub slice_bytes: usize,
    /// For tests: whether an archiver that has taken a step ends there, as if it was killed.
    pub stop_after: Option<Arc<dyn Fn(Step) -> bool + Send + Sync>>,
}

impl Default for ArchiveOptions {
    fn default() -> Self {
        ArchiveOptions { bytes_per_second: 64 << 20, slice_bytes: 32 << 20, stop_after: None }
    }
}

/// A step that an archiver has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Closing was raised.
    Closed,
    /// The next generation of some buckets is open.
    Opened,
    /// The hot side of a bucket was read.
    Read,
    /// A file was written.
    Written,
    /// It was read back, and holds what went in.
    ReadBack,
    /// The blocks that were archived are written down.
    Listed,
    /// The generation is published.
    Published,
    /// The archived blocks are deleted.
    BlocksDeleted,
    /// The replaced files are deleted.
    FilesDeleted,
    /// The entry says so.
    Swept,
    /// Dropped was raised.
    Dropped,
    /// Blocks of a dropped bucket are deleted.
    DroppedBlocks,
    /// Files of a dropped bucket are deleted.
    DroppedFiles,
}

/// Every step, in order.
pub const STEPS: [Step; 13] = [
    Step::Closed,
    Step::Opened,
    Step::Read,
    Step::Written,
    Step::ReadBack,
    Step::Listed,
    Step::Published,
    Step::BlocksDeleted,
    Step::FilesDeleted,
    Step::Swept,
    Step::Dropped,
    Step::DroppedBlocks,
    Step::DroppedFiles,
];

/// Why something was not archived; what is left is taken up again.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The catalog or the manifest failed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A database failed.
    #[error(transparent)]
    Database(#[from] DatabaseError),
    /// A block in the store is not sound.
    #[error("a block of {0} is not sound: {1}")]
    Block(String, BlockError),
    /// A table could not be made.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The store did not answer as it was asked.
    #[error("{0}")]
    NotWhole(String),
    /// The work was given up.
    #[error("the task was given up: {0}")]
    GivenUp(#[from] tokio::task::JoinError),
    /// It was told to end.
    #[error("stopped after {0:?}")]
    Stopped(Step),
}

/// What a round did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Round {
    /// Generations published.
    pub published: u64,
    /// Generations swept.
    pub swept: u64,
    /// Buckets dropped.
    pub dropped: u64,
    /// Buckets that could not be archived, swept or dropped; the log names them, or their database that rests.
    pub failed: u64,
    /// Whether something waits for a grace to pass.
    pub waiting: bool,
}

/// The background task.
pub struct Archiver {
    store: Arc<dyn Store>,
    catalog: Arc<Catalog>,
    manifest: Manifest,
    tables: Arc<Tables>,
    clock: Arc<dyn Clock>,
    options: ArchiveOptions,
    metrics: Metrics,
    closings: HashMap<Namespace, Ripening>,
    drops: HashMap<Namespace, Ripening>,
    /// Up to where everything that is dropped was deleted.
    deleted: HashMap<Namespace, Timestamp>,
    /// Generations that are swept once a grace has passed.
    sweeps: VecDeque<Pending>,
    sweeping: HashSet<Nonce>,
    /// Buckets that were due when nothing was found of them: what comes later sets the mark.
    empty: HashSet<(PageId, Timestamp)>,
    /// Databases that do not work.
    resting: Resting,
    /// Whether more is made due and dropped as time goes on.
    raising: bool,
}

impl Archiver {
    /// An archiver of `store`; metrics are registered in `registry`.
    pub fn new(
        store: Arc<dyn Store>,
        catalog: Arc<Catalog>,
        tables: Arc<Tables>,
        clock: Arc<dyn Clock>,
        options: ArchiveOptions,
        registry: &Registry,
    ) -> Result<Archiver, prometheus::Error> {
        Ok(Archiver {
            manifest: Manifest::beside(&catalog, store.clone()),
            store,
            catalog,
            tables,
            clock,
            options,
            metrics: Metrics::register(registry)?,
            closings: HashMap::new(),
            drops: HashMap::new(),
            deleted: HashMap::new(),
            sweeps: VecDeque::new(),
            sweeping: HashSet::new(),
            empty: HashSet::new(),
            resting: Resting::new(),
            raising: true,
        })
    }

    /// Archives for ever, until dropped, while this node holds the lease.
    pub async fn run(mut self) {
        let mut lease = Lease::new(self.store.clone(), self.clock.clone(), LEASE.into(), rand::random());
        loop {
            if lease.hold().await {
                match self.round().await {
                    Ok(round) if round != Round::default() => tracing::debug!(?round, "archived"),
                    Ok(_) => {}
                    Err(error) => {
                        self.metrics.failures.inc();
                        tracing::warn!(%error, "archiving could not look for buckets");
                    }
                }
            }
            let grace = self.catalog.view().shared.grace.duration();
            tokio::time::sleep((grace / 4).clamp(Duration::from_millis(10), PAUSE_MAX)).await;
        }
    }

    /// Archives what is due now, to the end: waits until every grace has passed.
    pub async fn once(&mut self) -> Result<Round, ArchiveError> {
        let done = self.until_done().await;
        self.raising = true;
        done
    }

    async fn until_done(&mut self) -> Result<Round, ArchiveError> {
        let mut all = Round::default();
        loop {
            let round = self.round().await?;
            self.raising = false;
            all.published += round.published;
            all.swept += round.swept;
            all.dropped += round.dropped;
            all.failed = round.failed;
            if !round.waiting {
                return Ok(all);
            }
            let grace = self.catalog.view().shared.grace.duration();
            tokio::time::sleep((grace / 16).max(Duration::from_millis(5))).await;
        }
    }

    /// One look at every namespace: does what can be done now, and waits for nothing.
    pub async fn round(&mut self) -> Result<Round, ArchiveError> {
        let mut round = Round::default();
        self.sweep_ripe(&mut round).await?;
        let view = self.catalog.refresh().await?;
        let namespaces: Vec<Namespace> = view.namespaces().cloned().collect();
        for ns in namespaces {
            self.archive_due(&ns, &mut round).await?;
            self.retain(&ns, &mut round).await?;
        }
        round.waiting |= !self.sweeps.is_empty();
        self.metrics.waiting.set(self.sweeps.len() as i64);
        Ok(round)
    }

    /// Ends here where a test says so.
    fn step(&self, step: Step) -> Result<(), ArchiveError> {
        match &self.options.stop_after {
            Some(stop) if stop(step) => Err(ArchiveError::Stopped(step)),
            _ => Ok(()),
        }
    }

    /// Counts and tells of a failure that ends only its bucket's turn; whoever is told to stop stops.
    async fn failed(&mut self, error: ArchiveError, ns: &Namespace, what: &str, round: &mut Round) -> Result<(), ArchiveError> {
        if matches!(error, ArchiveError::Stopped(_)) {
            return Err(error);
        }
        round.failed += 1;
        self.metrics.failures.inc();
        tracing::warn!(%error, what, "a bucket was not archived");
        if let ArchiveError::Database(error) = &error {
            self.suspect(ns, error).await;
        }
        Ok(())
    }

    fn databases(&self) -> &Arc<Databases> {
        self.tables.databases()
    }

    async fn pace(&self, bytes: usize) {
        let pause = Duration::from_secs_f64(bytes as f64 / self.options.bytes_per_second as f64);
        if pause >= Duration::from_millis(1) {
            tokio::time::sleep(pause).await;
        }
    }

    fn note_empty(&mut self, page: &PageId, bucket: Timestamp) {
        if self.empty.len() >= EMPTY_MAX {
            self.empty.clear();
        }
        self.empty.insert((page.clone(), bucket));
    }
}
