//! What goes wrong below a read gives the stated error, never a shorter answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::world::{HOUR, NOW, SECOND, World, event, ids};
use braid_query::QuerySettings;
use braid_shared::model::FieldValue::I64;
use braid_shared::model::{Namespace, Timestamp};
use braid_shared::partition::Partition;
use braid_shared::store::memory::MemoryStore;
use braid_shared::store::{BlockAddress, Day, Document, EncodedBlock, PageToken, Scan, ScanPage, Store, StoreError, StoreErrorKind, Swap};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::json;

const T0: i64 = NOW - 10 * HOUR;
/// No suffix.
const NONE: u32 = u32::MAX;

/// A store that answers wrongly when told to.
#[derive(Default)]
struct Meddler {
    inner: MemoryStore,
    /// Says nothing of the end of partitions of this suffix.
    silent: AtomicU32,
    /// Alters one byte of every block of this suffix.
    altered: AtomicU32,
    /// Answers partitions of this suffix twice.
    twice: AtomicU32,
    /// Gives blocks of another partition than the one asked for.
    swapped: AtomicBool,
    /// Does not answer scans at all.
    stuck: AtomicBool,
    /// Fails scans.
    failing: AtomicBool,
    /// Fails reads of documents.
    no_catalog: AtomicBool,
    /// Run once within the next scan, after its answer is known.
    meanwhile: std::sync::Mutex<Option<Box<dyn Fn() + Send>>>,
}

impl Meddler {
    fn new() -> Arc<Meddler> {
        let meddler = Meddler::default();
        for suffix in [&meddler.silent, &meddler.altered, &meddler.twice] {
            suffix.store(NONE, Ordering::SeqCst);
        }
        Arc::new(meddler)
    }

    fn is(&self, fault: &AtomicU32, scan: &Scan, index: u32) -> bool {
        scan.partitions[index as usize].suffix == fault.load(Ordering::SeqCst)
    }

    fn meddle(&self, scan: &Scan, page: &mut ScanPage) {
        for (index, block) in &mut page.blocks {
            if self.is(&self.altered, scan, *index) {
                let mut bytes = block.bytes.to_vec();
                let middle = bytes.len() / 2;
                bytes[middle] ^= 1;
                block.bytes = bytes.into();
            }
        }
        if self.swapped.load(Ordering::SeqCst) && page.blocks.len() > 1 {
            let first = page.blocks[0].1.clone();
            let last = page.blocks.len() - 1;
            page.blocks[last].1 = first;
        }
        page.answered.retain(|index| !self.is(&self.silent, scan, *index));
        let again: Vec<u32> = page.answered.iter().copied().filter(|index| self.is(&self.twice, scan, *index)).collect();
        page.answered.extend(again);
        if let Some(meanwhile) = self.meanwhile.lock().unwrap().take() {
            meanwhile();
        }
    }
}

impl Store for Meddler {
    fn append(&self, blocks: Vec<EncodedBlock>) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.append(blocks)
    }

    fn scan<'a>(&'a self, scan: &'a Scan, page: Option<PageToken>) -> BoxFuture<'a, Result<ScanPage, StoreError>> {
        async move {
            if self.stuck.load(Ordering::SeqCst) {
                std::future::pending::<()>().await;
            }
            if self.failing.load(Ordering::SeqCst) {
                return Err(StoreError::new(StoreErrorKind::Unavailable, "no answer today"));
            }
            let mut page = self.inner.scan(scan, page).await?;
            self.meddle(scan, &mut page);
            Ok(page)
        }
        .boxed()
    }

    fn replace<'a>(
        &'a self,
        partition: &'a Partition,
        old: &'a [BlockAddress],
        new: Vec<EncodedBlock>,
    ) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.replace(partition, old, new)
    }

    fn replaces_atomically(&self) -> bool {
        self.inner.replaces_atomically()
    }

    fn delete<'a>(&'a self, partition: &'a Partition, blocks: &'a [BlockAddress]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.delete(partition, blocks)
    }

    fn fragmented<'a>(
        &'a self,
        least: usize,
        after: Option<&'a Partition>,
        most: usize,
    ) -> BoxFuture<'a, Result<Vec<Partition>, StoreError>> {
        self.inner.fragmented(least, after, most)
    }

    fn read_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<Option<Document>, StoreError>> {
        if self.no_catalog.load(Ordering::SeqCst) {
            return async { Err(StoreError::new(StoreErrorKind::Unavailable, "no documents today")) }.boxed();
        }
        self.inner.read_document(name)
    }

    fn swap_document<'a>(&'a self, name: &'a str, expected: Option<u64>, bytes: Bytes) -> BoxFuture<'a, Result<Swap, StoreError>> {
        self.inner.swap_document(name, expected, bytes)
    }

    fn delete_document<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.delete_document(name)
    }

    fn note_days<'a>(&'a self, ns: &'a Namespace, days: &'a [(Arc<str>, Day)]) -> BoxFuture<'a, Result<(), StoreError>> {
        self.inner.note_days(ns, days)
    }

    fn keys<'a>(
        &'a self,
        ns: &'a Namespace,
        prefix: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<String>, StoreError>> {
        self.inner.keys(ns, prefix, after, limit)
    }

    fn days<'a>(&'a self, ns: &'a Namespace, key: &'a str, from: Day, to: Day) -> BoxFuture<'a, Result<Vec<Day>, StoreError>> {
        self.inner.days(ns, key, from, to)
    }

    fn health(&self) -> Result<(), StoreError> {
        self.inner.health()
    }
}

/// Forty events over two buckets and four suffixes.
async fn forty() -> (Arc<Meddler>, World) {
    let meddler = Meddler::new();
    let settings = QuerySettings { page_deadline: Duration::from_millis(50), ..QuerySettings::default() };
    let world = World::over(meddler.clone(), settings).await;
    world.with(4, 1).await;
    let events: Vec<_> = (0..40).map(|i| event(&format!("e{i:02}"), T0 + i * 3 * 60 * SECOND, &[("x", I64(i))], &[])).collect();
    world.write(&events).await;
    (meddler, world)
}

const READS: [&str; 3] = ["/v1/n/events?key=k", "/v1/n/aggregate?key=k&from=0&field=x&fn=sum", "/v1/n/events?key=k&order=desc&limit=40"];

#[tokio::test]
async fn a_suffix_that_does_not_answer_is_named() {
    let (meddler, world) = forty().await;
    meddler.silent.store(2, Ordering::SeqCst);
    for read in READS {
        let problem = world.get(read).await.problem(503, "shard_count_mismatch");
        assert_eq!((&problem["expected"], &problem["answered"]), (&json!(4), &json!(3)), "{problem}");
        assert!(problem["missing"].as_array().unwrap().iter().all(|missing| missing["suffix"] == 2 && missing["version"] == 0));
        assert_eq!(problem["missing"][0]["bucket"].as_str().unwrap().len(), "2026-11-29T02:00:00Z".len());
    }
}

#[tokio::test]
async fn a_partial_answer_is_given_only_when_allowed_and_says_what_it_lacks() {
    let (meddler, world) = forty().await;
    let whole = ids(&world.get("/v1/n/events?key=k").await.ok()).len();
    meddler.silent.store(2, Ordering::SeqCst);
    let partial = world.get("/v1/n/events?key=k&partial=allow").await.ok();
    assert!(ids(&partial).len() < whole);
    assert_eq!((&partial["complete"], &partial["shards"]), (&json!(false), &json!({"planned": 4, "answered": 3})));
    assert_eq!((&partial["missing"][0]["suffix"], &partial["missing"][0]["version"]), (&json!(2), &json!(0)));
    let lines = world.lines("/v1/n/events?key=k&partial=allow").await;
    let end: serde_json::Value = serde_json::from_str(lines.text.lines().last().unwrap()).unwrap();
    assert_eq!(end["end"]["complete"], false);
    let rows = world.get("/v1/n/aggregate?key=k&from=0&partial=allow").await.ok();
    assert_eq!((&rows["complete"], &rows["rows"][0]["count"]), (&json!(false), &json!(ids(&partial).len())));
}

#[tokio::test]
async fn a_suffix_that_answers_twice_is_no_answer() {
    let (meddler, world) = forty().await;
    meddler.twice.store(1, Ordering::SeqCst);
    for read in READS {
        world.get(read).await.problem(503, "shard_count_mismatch");
    }
}

#[tokio::test]
async fn one_altered_byte_is_an_error_that_names_the_partition() {
    let (meddler, world) = forty().await;
    meddler.altered.store(3, Ordering::SeqCst);
    for read in READS {
        let problem = world.get(read).await.problem(503, "block_damaged");
        assert_eq!((&problem["partition"]["suffix"], &problem["partition"]["key"]), (&json!(3), &json!("k")));
    }
    let partial = world.get("/v1/n/events?key=k&partial=allow").await.ok();
    assert_eq!((&partial["complete"], &partial["missing"][0]["suffix"]), (&json!(false), &json!(3)));
}

#[tokio::test]
async fn a_block_of_another_partition_is_noticed() {
    let (meddler, world) = forty().await;
    meddler.swapped.store(true, Ordering::SeqCst);
    world.get("/v1/n/aggregate?key=k&from=0&field=x&fn=sum").await.problem(503, "block_damaged");
}

#[tokio::test]
async fn one_event_is_not_said_to_be_absent_while_its_suffix_is_silent() {
    let (meddler, world) = forty().await;
    for suffix in 0..4 {
        meddler.silent.store(suffix, Ordering::SeqCst);
        let answer = world.get("/v1/n/events/nope?key=k").await;
        assert!([503, 404].contains(&answer.status.as_u16()));
        let partial = world.get("/v1/n/events/nope?key=k&partial=allow").await;
        assert_eq!(partial.status == 200, answer.status == 503, "{}", partial.text);
    }
}

#[tokio::test]
async fn a_store_that_fails_or_hangs_is_an_error() {
    let (meddler, world) = forty().await;
    meddler.failing.store(true, Ordering::SeqCst);
    world.get(READS[0]).await.problem(503, "store_unavailable");
    meddler.failing.store(false, Ordering::SeqCst);
    meddler.stuck.store(true, Ordering::SeqCst);
    world.get(READS[1]).await.problem(503, "store_unavailable");
}

#[tokio::test]
async fn without_a_catalog_only_ranges_below_the_horizon_at_hand_are_answered() {
    let (meddler, world) = forty().await;
    meddler.no_catalog.store(true, Ordering::SeqCst);
    world.get("/v1/n/events?key=k").await.problem(503, "layout_stale");
    world.get("/v1/n/events?key=k&partial=allow").await.problem(503, "layout_stale");
    world.get("/v1/n/aggregate?key=k&from=0&to=now%2B1h").await.problem(503, "layout_stale");
    world.get("/v1/n/layout").await.problem(503, "layout_stale");
    world.get("/v1/nobody/events?key=k&to=now-1h").await.problem(503, "layout_stale");
    assert_eq!(ids(&world.get("/v1/n/events?key=k&to=now-1h").await.ok()).len(), 40);
}

#[tokio::test]
async fn a_read_that_takes_longer_than_what_it_reads_stands_is_an_error() {
    let (meddler, world) = forty().await;
    let clock = world.clock.clone();
    *meddler.meanwhile.lock().unwrap() = Some(Box::new(move || clock.advance(Duration::from_secs(31))));
    world.get("/v1/n/aggregate?key=k&from=0&to=now-1h").await.problem(503, "read_deadline");
    world.get("/v1/n/aggregate?key=k&from=0&to=now-1h").await.ok();
}

#[tokio::test]
async fn a_stream_that_fails_on_its_way_has_no_end_line() {
    let (meddler, world) = forty().await;
    let late: Vec<_> = (0..5).map(|i| event(&format!("l{i}"), T0 + 9 * HOUR + i, &[("x", I64(i))], &[])).collect();
    world.write(&late).await;
    let meddled = meddler.clone();
    *meddler.meanwhile.lock().unwrap() = Some(Box::new(move || meddled.failing.store(true, Ordering::SeqCst)));
    let lines = world.lines("/v1/n/events?key=k").await;
    let last: serde_json::Value = serde_json::from_str(lines.text.lines().last().unwrap()).unwrap();
    assert_eq!(last["error"]["code"], "store_unavailable", "{}", lines.text);
    assert!(!lines.text.contains("\"end\""));
}

#[tokio::test]
async fn a_reader_whose_catalog_is_behind_reads_what_it_did_not_know_of() {
    let store = MemoryStore::new();
    let reader = World::over(store.clone(), QuerySettings::default()).await;
    reader.with(4, 1).await;
    let writer = World::over(store, QuerySettings::default()).await;
    writer.catalog.cover(Timestamp::from_nanos(NOW)).await.unwrap();
    let start = NOW + 20 * SECOND;
    writer.publish(None, 10, start).await.unwrap();
    for world in [&reader, &writer] {
        world.clock.advance(Duration::from_secs(30));
    }
    let events: Vec<_> = (0..20).map(|i| event(&format!("e{i}"), start - 10 + i, &[("x", I64(i))], &[])).collect();
    writer.write(&events).await;
    assert_eq!(reader.catalog.view().namespace(&reader.ns).unwrap().listed(None).len(), 1);
    let page = reader.get("/v1/n/events?key=k").await.ok();
    assert_eq!((ids(&page).len(), &page["shards"]["planned"]), (20, &json!(14)));
}

#[tokio::test]
async fn small_pages_small_budgets_and_all_at_once_give_the_same() {
    let mut seen = Vec::new();
    for (page_bytes, stretch_bytes) in [(1, 1), (400, 3_000), (1 << 20, 1 << 20)] {
        let settings = QuerySettings { stretch_bytes, ..QuerySettings::default() };
        let world = World::over(Arc::new(MemoryStore::with_page_bytes(page_bytes)), settings).await;
        world.with(4, 1).await;
        let events: Vec<_> = (0..400).map(|i| event(&format!("e{i}"), T0 + i * 30 * SECOND, &[("x", I64(i))], &[])).collect();
        for events in events.chunks(7) {
            world.write(events).await;
        }
        let events = world.get("/v1/n/events?key=k&to=now").await.ok()["events"].clone();
        let rows = world.get("/v1/n/aggregate?key=k&from=0&to=now&field=x&fn=sum,p50").await.ok()["rows"].clone();
        seen.push((events.as_array().unwrap().len(), events, rows));
    }
    assert_eq!(seen[0].0, 400);
    assert!(seen.iter().all(|one| *one == seen[0]));
}
