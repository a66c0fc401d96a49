//! Cold history in a read: which buckets are read from tables, which from the store, which from both.
//!
//! Owns what DESIGN section 8 asks of readers: a view of the catalog that is young enough to know what
//! is being replaced, one manifest read for a page of buckets, begun after the request, and the rule
//! that skips the hot side (COLD-6, COLD-8).

use std::borrow::Cow;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use braid_shared::block::Block;
use braid_shared::catalog::{CatalogError, NamespaceView, View};
use braid_shared::cold::rules::{Published, Sources, TableFile, is_due, sources};
use braid_shared::cold::tables::Wanted;
use braid_shared::cold::{Bucket, DatabaseError, Page, PageId, Run};
use braid_shared::model::{Namespace, TimeRange, Timestamp};
use braid_shared::partition::Partition;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};

use crate::Query;
use crate::error::QueryError;
use crate::fan_out::Answered;
use crate::walk::{Planned, length};

/// Manifest pages of one stretch that are read at once.
const PAGE_READS_MAX: usize = 16;
/// Tables of one stretch that are read at once.
const TABLE_READS_MAX: usize = 4;

/// What is known of a namespace's cold history by a view that is young enough.
#[derive(Clone, Debug)]
pub struct Fresh {
    /// The view: what is read by it counts from when its own read began.
    pub view: Arc<View>,
    /// The namespace in it.
    pub namespace: Arc<NamespaceView>,
}

/// A published table that a read needs.
#[derive(Clone, Debug)]
pub struct TableRead {
    /// The bucket.
    pub bucket: Bucket,
    /// The generation that is read.
    pub published: Published,
    /// Suffixes that are read of it.
    pub suffixes: Range<u32>,
    /// Whether the store is read too, and may have later writes of its events.
    pub merged: bool,
}

/// Where the partitions of a scan are read.
#[derive(Debug, Default)]
pub struct Split {
    /// By planned partition: whether the store is read; none: all of them are.
    pub hot: Option<Vec<bool>>,
    /// Tables that are read, beside the store or instead of it.
    pub tables: Vec<TableRead>,
}

/// What a table gave.
pub struct TableAnswer {
    /// Which one.
    pub table: TableRead,
    /// What it gave; or why there is nothing.
    pub rows: Result<TableRows, DatabaseError>,
}

/// Events of a table: as blocks of partitions, to be merged with others, or as rows of all of them, which merge with nothing.
pub enum TableRows {
    /// Blocks with their suffixes.
    Blocks(Vec<(u32, Block)>),
    /// Runs of rows.
    Runs(Vec<Run>),
}

impl Query {
    /// A view that is young enough to plan a part of a read by. One at hand is mostly some
    /// milliseconds old; where the catalog can't be read, an older one is refused.
    pub(crate) async fn fresh(&self, ns: &Namespace) -> Result<Fresh, QueryError> {
        let mut view = self.catalog.view();
        if self.clock.elapsed(view.began) > view.shared.read_deadline.duration() / 2 || view.namespace(ns).is_none() {
            view = self.catalog.refresh().await?;
        }
        let namespace = view.namespace(ns).cloned().ok_or_else(|| CatalogError::NamespaceNotFound(ns.clone()))?;
        Ok(Fresh { view, namespace })
    }

    /// Where each of the planned partitions, which are sorted, is read.
    pub(crate) async fn split(&self, fresh: &Fresh, planned: &[Planned]) -> Result<Split, QueryError> {
        let closing = fresh.namespace.cold.closing;
        let due = |planned: &Planned| is_due(closing, planned.epoch.layout.bucket_range(planned.partition.bucket));
        if !planned.iter().any(due) {
            return Ok(Split::default());
        }
        let (mut in_store, mut tables) = (vec![true; planned.len()], Vec::new());
        let buckets = buckets(planned).into_iter().filter(|range| due(&planned[range.start])).collect::<Vec<_>>();
        let pages = self.pages(buckets.iter().map(|range| page_of(&planned[range.start]))).await?;
        for range in buckets {
            let first = &planned[range.start];
            let entry = pages.get(&page_of(first)).and_then(|page| page.get(&first.partition.bucket));
            let Sources { hot, cold } = sources(entry);
            in_store[range.clone()].fill(hot);
            if let Some(published) = entry.and_then(|entry| entry.published.as_ref()).filter(|_| cold) {
                let suffixes = first.partition.suffix..planned[range.end - 1].partition.suffix + 1;
                tables.push(TableRead { bucket: bucket_of(first), published: published.clone(), suffixes, merged: hot });
            }
        }
        Ok(Split { hot: Some(in_store), tables })
    }

    /// Manifest pages, each read once, by a read that begins now.
    async fn pages(&self, ids: impl Iterator<Item = PageId>) -> Result<HashMap<PageId, Page>, QueryError> {
        let mut wanted: Vec<PageId> = ids.collect();
        wanted.sort();
        wanted.dedup();
        let read = |id: PageId| async move { Ok::<_, QueryError>((id.clone(), self.manifest.read(&id).await?)) }.boxed();
        let reads: Vec<_> = wanted.into_iter().map(read).collect();
        stream::iter(reads).buffer_unordered(PAGE_READS_MAX).try_collect().await
    }

    /// Reads tables as far as they touch `range`; where one id is looked for, little but that.
    pub(crate) async fn read_tables(&self, fresh: &Fresh, tables: &[TableRead], range: TimeRange, id: Option<&str>) -> Vec<TableAnswer> {
        let id: Option<Arc<str>> = id.map(Arc::from);
        let read = |table: TableRead| {
            let wanted = Wanted { range, suffixes: table.suffixes.clone(), id: id.clone() };
            async move { TableAnswer { rows: self.read_table(fresh, &table, &wanted).await, table } }.boxed()
        };
        let reads: Vec<_> = tables.iter().cloned().map(read).collect();
        stream::iter(reads).buffered(TABLE_READS_MAX).collect().await
    }

    /// Reads a table: as rows where all of it is wanted and nothing in the store can belong to its events.
    async fn read_table(&self, fresh: &Fresh, table: &TableRead, wanted: &Wanted) -> Result<TableRows, DatabaseError> {
        let (groups, bucket, published) = (&fresh.namespace.groups, &table.bucket, &table.published);
        if !table.merged && wanted.id.is_none() && wanted.suffixes == (0..bucket.layout.shards) {
            return self.tables.runs(groups, bucket, published, wanted.range).await.map(TableRows::Runs);
        }
        self.tables.blocks(groups, bucket, published, wanted).await.map(TableRows::Blocks)
    }
}

impl TableAnswer {
    /// Bytes of what it gave.
    pub fn bytes(&self) -> usize {
        match &self.rows {
            Ok(TableRows::Blocks(blocks)) => blocks.iter().map(|(_, block)| block.bytes().len()).sum(),
            Ok(TableRows::Runs(runs)) => runs.iter().map(Run::bytes).sum(),
            Err(_) => 0,
        }
    }
}

impl Split {
    /// The planned partitions that are read in the store.
    pub fn in_store<'a>(&self, planned: &'a [Planned]) -> Cow<'a, [Planned]> {
        match &self.hot {
            None => Cow::Borrowed(planned),
            Some(hot) => planned.iter().zip(hot).filter(|(_, hot)| **hot).map(|(planned, _)| planned.clone()).collect(),
        }
    }

    /// About as many bytes as the blocks that tables give for `range`: of each file as much as of its time is read.
    pub fn table_bytes(&self, range: TimeRange) -> usize {
        let share = |file: &TableFile| {
            let read = range.intersect(TimeRange { from: Timestamp::from_nanos(file.min_ts), to: Timestamp::from_nanos(file.max_ts) });
            let part = length(read).max(1) as f64 / file.max_ts.saturating_sub(file.min_ts).max(1) as f64;
            (file.bytes as f64 * part) as usize
        };
        self.tables.iter().flat_map(|table| table.files(range)).map(share).fold(0, usize::saturating_add)
    }

    /// The store's answer to [`Split::in_store`] as one to all that was planned: the rest has no
    /// blocks in the store that count.
    pub fn spread(&self, answered: Answered) -> Answered {
        let Some(hot) = &self.hot else { return answered };
        let Answered { blocks, times, strangers, bytes } = answered;
        let mut asked = blocks.into_iter().zip(times);
        let spread = |hot: &bool| if *hot { asked.next().unwrap_or_default() } else { (Vec::new(), 1) };
        let (blocks, times) = hot.iter().map(spread).unzip();
        Answered { blocks, times, strangers, bytes }
    }
}

impl TableRead {
    /// The partitions whose events it holds.
    pub fn partitions(&self) -> impl Iterator<Item = Partition> + '_ {
        self.suffixes.clone().map(|suffix| self.bucket.partition(suffix))
    }

    /// Files that may hold events of `range`.
    pub fn files(&self, range: TimeRange) -> impl Iterator<Item = &TableFile> {
        self.published.files.iter().filter(move |file| braid_shared::cold::tables::touches(file, range))
    }
}

fn page_of(planned: &Planned) -> PageId {
    let Partition { ns, key, bucket, .. } = &planned.partition;
    PageId::of(ns, key, &planned.epoch.layout, *bucket)
}

fn bucket_of(planned: &Planned) -> Bucket {
    let Partition { ns, key, bucket, .. } = &planned.partition;
    Bucket { ns: ns.clone(), key: key.clone(), start: *bucket, layout: planned.epoch.layout.clone() }
}

/// The runs of partitions that are suffixes of one bucket under one layout.
fn buckets(planned: &[Planned]) -> Vec<Range<usize>> {
    let same = |a: &Planned, b: &Planned| {
        let (a, b) = (&a.partition, &b.partition);
        (a.bucket, a.version, &a.key) == (b.bucket, b.version, &b.key)
    };
    let mut start = 0;
    let run = |run: &[Planned]| {
        start += run.len();
        start - run.len()..start
    };
    planned.chunk_by(same).map(run).collect()
}
