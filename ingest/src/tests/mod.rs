//! The ingest tier as its clients see it: requests against the router, over the memory store.

mod bad_input;
mod commit;
mod given_and_made;
mod influx;
mod late;
mod outage;
mod placement;
mod scripted;

use std::sync::Arc;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, Request, StatusCode};
use braid_shared::block::{self, Block, Projection};
use braid_shared::catalog::{Catalog, Shared};
use braid_shared::clock::ManualClock;
use braid_shared::model::{Event, Namespace, Span, TimeRange, Timestamp};
use braid_shared::partition::Partition;
use braid_shared::store::{Scan, Store, day_range};
use serde_json::Value;
use tower::ServiceExt;

use crate::{Ingest, IngestSettings, router};
use scripted::ScriptedStore;

/// 2023-11-14T22:13:20Z.
const NOW: Timestamp = Timestamp::from_nanos(1_700_000_000_000_000_000);

/// One node.
struct Server {
    store: Arc<ScriptedStore>,
    catalog: Arc<Catalog>,
    clock: Arc<ManualClock>,
    ingest: Arc<Ingest>,
    router: Router,
}

/// An answer, its body read.
#[derive(Debug)]
struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

fn seconds(n: i64) -> Span {
    Span::from_nanos(n * Span::SECOND.nanos()).unwrap()
}

async fn server() -> Server {
    server_with(IngestSettings::default()).await
}

async fn server_with(settings: IngestSettings) -> Server {
    let store = Arc::new(ScriptedStore::default());
    let clock = Arc::new(ManualClock::at(NOW));
    let shared = Shared { lead: seconds(10), grace: seconds(60), read_deadline: seconds(30), write_deadline: seconds(30) };
    let catalog = Catalog::open(store.clone(), clock.clone(), shared).await.unwrap();
    let ingest = Ingest::new(store.clone(), catalog.clone(), clock.clone(), Arc::default(), settings, &prometheus::Registry::new());
    Server { router: router(ingest.clone()), store, catalog, clock, ingest }
}

impl Server {
    async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = to_bytes(body, usize::MAX).await.unwrap();
        let body = if body.is_empty() { Value::Null } else { serde_json::from_slice(&body).unwrap() };
        Answer { status: head.status, headers: head.headers, body }
    }

    async fn post(&self, path: &str, body: impl Into<Body>) -> Answer {
        self.send(Request::post(path).body(body.into()).unwrap()).await
    }

    /// A request that goes on by itself.
    fn post_in_background(&self, path: &'static str, body: String) -> tokio::task::JoinHandle<Answer> {
        let router = self.router.clone();
        let server = Server {
            router,
            store: self.store.clone(),
            catalog: self.catalog.clone(),
            clock: self.clock.clone(),
            ingest: self.ingest.clone(),
        };
        tokio::spawn(async move { server.post(path, body).await })
    }

    /// Every event of a key as a reader finds it: by the directory, the layouts and the blocks.
    async fn events(&self, ns: &str, key: &str) -> Vec<Event> {
        let ns: Namespace = ns.parse().unwrap();
        let (_, timelines) = self.catalog.namespace(&ns).await.unwrap();
        let mut events = Vec::new();
        for day in self.store.days(&ns, key, i32::MIN, i32::MAX).await.unwrap() {
            for (epoch, layout) in timelines.epochs(key, day_range(day)) {
                let mut bucket = layout.bucket(epoch.from);
                while bucket < epoch.to {
                    for suffix in 0..layout.shards {
                        let partition = Partition { ns: ns.clone(), key: key.into(), bucket, version: layout.version, suffix };
                        events.extend(self.partition_events(&partition, &layout, epoch).await);
                    }
                    bucket = layout.bucket_range(bucket).to;
                }
            }
        }
        events.sort_by(|a, b| (a.ts, &a.id).cmp(&(b.ts, &b.id)));
        events
    }

    async fn partition_events(&self, partition: &Partition, layout: &braid_shared::layout::Layout, range: TimeRange) -> Vec<Event> {
        let scan = Scan { partitions: vec![partition.clone()].into(), range, consistency: Default::default() };
        let mut blocks = Vec::new();
        let mut page = None;
        loop {
            let answer = self.store.scan(&scan, page).await.unwrap();
            for (_, stored) in answer.blocks {
                let block = Block::open(stored.bytes).unwrap();
                block.verify(partition, layout, TimeRange::ALL, &stored.address).unwrap();
                blocks.push(block);
            }
            match answer.next {
                Some(next) => page = Some(next),
                None => break,
            }
        }
        block::merge(layout, &blocks, range, &Projection::All).unwrap().events(&partition.key)
    }

    async fn ids(&self, ns: &str, key: &str) -> Vec<String> {
        self.events(ns, key).await.into_iter().map(|event| event.id).collect()
    }
}

impl Answer {
    /// The refused rows: index and code.
    fn errors(&self) -> Vec<(u64, &str)> {
        let errors = self.body["errors"].as_array().unwrap_or_else(|| panic!("no errors in {}", self.body));
        errors.iter().map(|error| (error["index"].as_u64().unwrap(), error["code"].as_str().unwrap())).collect()
    }

    fn code(&self) -> &str {
        self.body["code"].as_str().unwrap_or_else(|| panic!("no code in {}", self.body))
    }
}

/// A sound event, `seconds` before now.
fn event(key: &str, id: &str, seconds: i64) -> String {
    let ts = NOW.nanos() / 1_000_000 - seconds * 1_000;
    format!(r#"{{"key":"{key}","id":"{id}","ts":{ts},"value":{seconds}}}"#)
}
