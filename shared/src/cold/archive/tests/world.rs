//! A namespace with its store, catalog, databases and clock; writes and reads by the production rules.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use object_store::memory::InMemory;
use prometheus::Registry;

use crate::block::{Block, Projection, RowBuffer, encode, merge};
use crate::catalog::{Catalog, NewNamespace, Policy, Shared};
use crate::clock::{Clock, ManualClock};
use crate::cold::archive::{ArchiveOptions, Archiver, Round, Step};
use crate::cold::manifest::{Manifest, PageId};
use crate::cold::rules::{self, Ack, is_due, sources};
use crate::cold::tables::Wanted;
use crate::cold::{Bucket, Database, Databases, Group, Tables};
use crate::model::{Event, FieldValue, Namespace, Span, TimeRange, Timestamp};
use crate::partition::Partition;
use crate::store::conformance::read_all;
use crate::store::{MemoryStore, Scan, Store};

pub(super) const SECOND: i64 = 1_000_000_000;
pub(super) const HOUR: i64 = 3_600 * SECOND;
/// 2026-11-29T12:00:00Z.
pub(super) const NOW: i64 = 1_795_953_600 * SECOND;
pub(super) const KEYS: [&str; 2] = ["a", "b"];

pub(super) struct World {
    pub(super) store: Arc<dyn Store>,
    pub(super) catalog: Arc<Catalog>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) databases: Arc<Databases>,
    pub(super) tables: Arc<Tables>,
    pub(super) manifest: Manifest,
    pub(super) ns: Namespace,
}

pub(super) fn group(weights: &[u32]) -> Group {
    let database = |(i, tables): (usize, &u32)| Database { name: format!("db{i}"), url: format!("s3://db{i}"), tables: *tables };
    Group { tables: weights.iter().sum(), databases: weights.iter().enumerate().map(database).collect() }
}

impl World {
    pub(super) async fn new() -> World {
        let store: Arc<dyn Store> = MemoryStore::new();
        let clock = Arc::new(ManualClock::at(Timestamp::from_nanos(NOW)));
        let catalog = Catalog::open(store.clone(), clock.clone(), Shared::default()).await.unwrap();
        let databases = Databases::new();
        (0..3).for_each(|i| databases.provide(&format!("s3://db{i}"), Arc::new(InMemory::new())));
        let tables = Tables::new(databases.clone(), &Registry::new()).unwrap();
        let ns: Namespace = "n".parse().unwrap();
        let policy = Policy { archive_after: Some(Span::HOUR), ..Policy::default() };
        catalog.create_namespace(&ns, NewNamespace { policy, ..NewNamespace::default() }).await.unwrap();
        catalog.add_group(&ns, None, group(&[4, 3, 3])).await.unwrap();
        World { manifest: Manifest::new(store.clone()), store, catalog, clock, databases, tables, ns }
    }

    pub(super) fn archiver(&self, options: ArchiveOptions) -> Archiver {
        let (store, catalog, tables) = (self.store.clone(), self.catalog.clone(), self.tables.clone());
        Archiver::new(store, catalog, tables, self.clock.clone(), options, &Registry::new()).unwrap()
    }

    pub(super) fn stopping(&self, after: Step) -> Archiver {
        let stop_after: Option<Arc<dyn Fn(Step) -> bool + Send + Sync>> = Some(Arc::new(move |step| step == after));
        self.archiver(ArchiveOptions { stop_after, ..ArchiveOptions::default() })
    }

    pub(super) fn pass(&self, seconds: u64) {
        self.clock.advance(Duration::from_secs(seconds));
    }

    /// Rounds of an archiver, a grace between them, until nothing is left to do.
    pub(super) async fn settle(&self, archiver: &mut Archiver) -> Round {
        let mut all = Round::default();
        for _ in 0..12 {
            let round = archiver.round().await.unwrap();
            all.published += round.published;
            all.swept += round.swept;
            all.dropped += round.dropped;
            all.failed += round.failed;
            self.pass(61);
        }
        all
    }

    /// Stores an event and acknowledges it by the rule for late ones.
    pub(super) async fn write(&self, event: &Event) {
        let view = self.catalog.cover(event.ts).await.unwrap();
        let namespace = view.namespace(&self.ns).unwrap();
        let layout = namespace.layout_at(&event.key, event.ts).clone();
        let partition = Arc::new(Partition {
            ns: self.ns.clone(),
            key: event.key.as_str().into(),
            bucket: layout.bucket(event.ts),
            version: layout.version,
            suffix: layout.suffix(&event.id, None),
        });
        let mut rows = RowBuffer::default();
        let fields = event.fields.iter().map(|(name, value)| (name.as_str(), value.as_ref()));
        rows.push(event.ts, &event.id, fields, std::iter::empty());
        let blocks = encode(&partition, &layout, rows, 64 * 1024, || self.catalog.stamp()).unwrap();
        self.store.append(blocks).await.unwrap();
        let day = event.ts.nanos().div_euclid(24 * HOUR) as i32;
        self.store.note_days(&self.ns, &[(partition.key.clone(), day)]).await.unwrap();
        let view = self.catalog.view();
        let age = self.clock.elapsed(view.began);
        let facts = view.namespace(&self.ns).unwrap().cold;
        if rules::ack(facts, layout.bucket_range(partition.bucket), age, view.shared.write_deadline.duration()) == Ack::Marked {
            self.manifest.mark(&PageId::of(&self.ns, &partition.key, &layout, partition.bucket), &[partition.bucket]).await.unwrap();
        }
    }

    /// Every bucket that may hold something, with the layout's epoch left open.
    fn buckets(&self, key: &str, hours: i64) -> Vec<Bucket> {
        let view = self.catalog.view();
        let layout = view.namespace(&self.ns).unwrap().layout_at(key, Timestamp::from_nanos(0)).clone();
        let start = |hour: i64| Timestamp::from_nanos(NOW - hour * HOUR);
        (0..=hours).map(|hour| Bucket { ns: self.ns.clone(), key: key.into(), start: start(hour), layout: layout.clone() }).collect()
    }

    pub(super) async fn hot(&self, bucket: &Bucket) -> Vec<(u32, Block)> {
        let partitions: Arc<[Partition]> = (0..bucket.layout.shards).map(|suffix| bucket.partition(suffix)).collect();
        let found = read_all(&*self.store, &Scan { partitions, range: TimeRange::ALL, consistency: Default::default() }).await.unwrap();
        (0..)
            .zip(found)
            .flat_map(|(suffix, blocks)| blocks.into_iter().map(move |block| (suffix, Block::open(block.bytes).unwrap())))
            .collect()
    }

    /// All events, read as readers do.
    pub(super) async fn read(&self) -> Vec<Event> {
        let view = self.catalog.refresh().await.unwrap();
        let namespace = view.namespace(&self.ns).unwrap();
        let mut events = Vec::new();
        for key in KEYS {
            for bucket in self.buckets(key, 48) {
                if rules::is_dropped(namespace.cold.dropped, bucket.range()) {
                    continue;
                }
                let page = self.manifest.read(&PageId::of(&self.ns, &bucket.key, &bucket.layout, bucket.start)).await.unwrap();
                let entry = page.get(&bucket.start).filter(|_| is_due(namespace.cold.closing, bucket.range()));
                let from = sources(entry);
                let mut blocks = if from.hot { self.hot(&bucket).await } else { Vec::new() };
                if let Some(published) = entry.and_then(|entry| entry.published.as_ref()).filter(|_| from.cold) {
                    let all = Wanted { range: TimeRange::ALL, suffixes: 0..bucket.layout.shards, id: None };
                    let cold = self.tables.blocks(&namespace.groups, &bucket, published, &all).await;
                    blocks.extend(cold.unwrap());
                }
                let mut by_suffix: BTreeMap<u32, Vec<Block>> = BTreeMap::new();
                blocks.into_iter().for_each(|(suffix, block)| by_suffix.entry(suffix).or_default().push(block));
                for blocks in by_suffix.values() {
                    events.extend(merge(&bucket.layout, blocks, TimeRange::ALL, &Projection::All).unwrap().events(key));
                }
            }
        }
        events.sort_by(|a, b| (&a.key, a.ts, &a.id).cmp(&(&b.key, b.ts, &b.id)));
        events
    }

    /// The bucket that a file belongs to.
    pub(super) async fn bucket_of(&self, path: &str) -> Bucket {
        for bucket in KEYS.iter().flat_map(|key| self.buckets(key, 48)) {
            let page = self.manifest.read(&PageId::of(&self.ns, &bucket.key, &bucket.layout, bucket.start)).await.unwrap();
            let published = page.get(&bucket.start).and_then(|entry| entry.published.as_ref());
            if published.is_some_and(|published| published.files.iter().any(|file| file.path == path)) {
                return bucket;
            }
        }
        panic!("no bucket has {path}");
    }

    /// Blocks in the store, of all buckets.
    pub(super) async fn hot_blocks(&self) -> usize {
        let mut count = 0;
        for bucket in KEYS.iter().flat_map(|key| self.buckets(key, 48)) {
            count += self.hot(&bucket).await.len();
        }
        count
    }

    /// Files that manifest entries name, and files that there are.
    pub(super) async fn files(&self) -> (BTreeSet<String>, BTreeSet<String>) {
        let (mut named, mut found) = (BTreeSet::new(), BTreeSet::new());
        for bucket in KEYS.iter().flat_map(|key| self.buckets(key, 48)) {
            let page = self.manifest.read(&PageId::of(&self.ns, &bucket.key, &bucket.layout, bucket.start)).await.unwrap();
            let entry = page.get(&bucket.start).cloned().unwrap_or_default();
            let published = entry.replaced.iter().chain(&entry.published);
            named.extend(published.flat_map(|published| published.files.iter().map(|file| file.path.clone())));
        }
        for database in &group(&[4, 3, 3]).databases {
            found.extend(self.databases.list(database, "n/cold").await.unwrap());
        }
        (named, found)
    }
}

/// An event so many hours ago, with a field.
pub(super) fn event(key: &str, hours_ago: i64, id: &str, field: &str, value: i64) -> Event {
    Event {
        key: key.into(),
        ts: Timestamp::from_nanos(NOW - hours_ago * HOUR + 60 * SECOND),
        id: id.into(),
        fields: BTreeMap::from([(field.to_owned(), FieldValue::I64(value))]),
        tags: BTreeMap::new(),
    }
}

/// Ten events an hour for forty hours that are due, of two keys, in the order of [`World::read`].
pub(super) fn history() -> Vec<Event> {
    let of = |key: &'static str| (2..=41).flat_map(move |hour| (0..10).map(move |n| event(key, hour, &format!("e{hour}-{n}"), "x", n)));
    sorted(KEYS.into_iter().flat_map(of).collect())
}

/// `events` in the order in which [`World::read`] gives them.
pub(super) fn sorted(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by(|a, b| (&a.key, a.ts, &a.id).cmp(&(&b.key, b.ts, &b.id)));
    events
}
