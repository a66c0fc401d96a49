//! A query tier over a memory store, without a network: what the tests of this crate stand on.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use braid_query::{Query, QuerySettings, router};
use braid_shared::block::{RowBuffer, encode};
use braid_shared::catalog::{Catalog, CatalogError, NewLayout, NewNamespace, Shared};
use braid_shared::clock::ManualClock;
use braid_shared::model::{Event, FieldValue, Namespace, Span, Timestamp};
use braid_shared::partition::Partition;
use braid_shared::store::Store;
use braid_shared::store::memory::MemoryStore;
use http_body_util::BodyExt;
use prometheus::Registry;
use serde_json::Value;
use tower::ServiceExt;

/// 2026-11-29T12:00:00Z.
pub(crate) const NOW: i64 = 1_795_953_600_000_000_000;
pub(crate) const SECOND: i64 = 1_000_000_000;
pub(crate) const HOUR: i64 = 3_600 * SECOND;

pub(crate) struct World {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) clock: Arc<ManualClock>,
    pub(crate) router: Router,
    pub(crate) registry: Registry,
    pub(crate) ns: Namespace,
}

pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) content_type: String,
    pub(crate) retry_after: Option<String>,
    pub(crate) text: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }

    /// Asserts a problem of this status and code; gives its document.
    #[track_caller]
    pub(crate) fn problem(&self, status: u16, code: &str) -> Value {
        assert_eq!((self.status.as_u16(), self.content_type.as_str()), (status, "application/problem+json"), "{}", self.text);
        let document = self.json();
        assert_eq!(document["code"], code, "{document}");
        assert_eq!(self.retry_after.is_some(), status == 503);
        document
    }

    /// Asserts success; gives the document.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, StatusCode::OK, "{}", self.text);
        self.json()
    }
}

impl World {
    pub(crate) async fn new() -> World {
        World::over(MemoryStore::new(), QuerySettings::default()).await
    }

    pub(crate) async fn over(store: Arc<dyn Store>, settings: QuerySettings) -> World {
        let clock = Arc::new(ManualClock::at(Timestamp::from_nanos(NOW)));
        let seconds = |seconds: i64| Span::from_nanos(seconds * SECOND).unwrap();
        let shared = Shared { lead: seconds(10), grace: seconds(60), read_deadline: seconds(30), write_deadline: seconds(30) };
        let catalog = Catalog::open(store.clone(), clock.clone(), shared).await.unwrap();
        let registry = Registry::new();
        let query = Query::new(store.clone(), catalog.clone(), clock.clone(), settings, &registry).unwrap();
        World { store, catalog, clock, router: router(query), registry, ns: "n".parse().unwrap() }
    }

    pub(crate) async fn create(&self, new: NewNamespace) {
        assert!(self.catalog.create_namespace(&self.ns, new).await.unwrap());
    }

    /// Makes the namespace with `shards` and a bucket in hours.
    pub(crate) async fn with(&self, shards: u32, hours: i64) {
        self.create(NewNamespace { shards, bucket: Span::from_nanos(hours * HOUR).unwrap(), ..NewNamespace::default() }).await;
    }

    /// Publishes a layout of `key` from `from`.
    pub(crate) async fn publish(&self, key: Option<&str>, shards: u32, from: i64) -> Result<(), CatalogError> {
        let new = NewLayout { effective_from: Some(Timestamp::from_nanos(from)), ..NewLayout::of(shards) };
        self.catalog.publish_layout(&self.ns, key, new).await.map(|_| ())
    }

    /// Stores events as the ingest tier would: routed, encoded, noted in the directory.
    pub(crate) async fn write(&self, events: &[Event]) {
        let latest = events.iter().map(|event| event.ts).max().unwrap();
        let view = self.catalog.cover(latest).await.unwrap();
        let namespace = view.namespace(&self.ns).unwrap();
        let mut placed: BTreeMap<Partition, (RowBuffer, _)> = BTreeMap::new();
        for event in events {
            let layout = namespace.layout_at(&event.key, event.ts).clone();
            let tag = layout.shard_by.tag().and_then(|tag| event.tags.get(tag)).map(String::as_str);
            let partition = Partition {
                ns: self.ns.clone(),
                key: event.key.as_str().into(),
                bucket: layout.bucket(event.ts),
                version: layout.version,
                suffix: layout.suffix(&event.id, tag),
            };
            let (rows, _) = placed.entry(partition).or_insert_with(|| (RowBuffer::default(), layout));
            let fields = event.fields.iter().map(|(name, value)| (name.as_str(), value.as_ref()));
            let tags = event.tags.iter().map(|(name, value)| (name.as_str(), value.as_str()));
            rows.push(event.ts, &event.id, fields, tags);
            let day = event.ts.nanos().div_euclid(24 * HOUR) as i32;
            self.store.note_days(&self.ns, &[(event.key.as_str().into(), day)]).await.unwrap();
        }
        for (partition, (rows, layout)) in placed {
            let blocks = encode(&Arc::new(partition), &layout, rows, 64 * 1024, || self.catalog.stamp()).unwrap();
            self.store.append(blocks).await.unwrap();
        }
    }

    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.call("GET", path, &[], "").await
    }

    pub(crate) async fn lines(&self, path: &str) -> Answer {
        self.call("GET", path, &[("accept", "application/x-ndjson")], "").await
    }

    pub(crate) async fn call(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Body::from(body.to_owned())).unwrap();
        let response = self.router.clone().oneshot(request).await.unwrap();
        let header = |name: &str| response.headers().get(name).map(|value| value.to_str().unwrap().to_owned());
        let (status, content_type, retry_after) = (response.status(), header("content-type").unwrap_or_default(), header("retry-after"));
        let mut text = Vec::new();
        let mut body = response.into_body();
        // A body that is cut gives what came before the cut.
        while let Some(Ok(frame)) = body.frame().await {
            text.extend_from_slice(frame.data_ref().unwrap());
        }
        Answer { status, content_type, retry_after, text: String::from_utf8(text).unwrap() }
    }
}

/// An event of key `k`.
pub(crate) fn event(id: &str, ts: i64, fields: &[(&str, FieldValue)], tags: &[(&str, &str)]) -> Event {
    Event {
        key: "k".into(),
        ts: Timestamp::from_nanos(ts),
        id: id.into(),
        fields: fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect(),
        tags: tags.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect(),
    }
}

/// The ids of a page's events.
pub(crate) fn ids(page: &Value) -> Vec<String> {
    page["events"].as_array().unwrap().iter().map(|event| event["id"].as_str().unwrap().to_owned()).collect()
}
