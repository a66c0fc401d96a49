//! Late events: of a bucket that may be archived already nothing is acknowledged before its mark stands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use braid_shared::cold::rules::{Entry, Nonce};
use braid_shared::cold::{Manifest, PageId};
use braid_shared::model::Timestamp;

use super::{NOW, Server, event, server};

const NS: &str = "shop";
/// Seconds before now of an event that is late.
const LATE: i64 = 7 * 3_600;

/// A server whose namespace has everything older than two hours due.
async fn closing() -> Server {
    let server = server().await;
    server.post("/v1/shop/events", event("k", "first", 0)).await;
    let closing = NOW.saturating_sub(super::seconds(2 * 3_600));
    server.catalog.raise_closing(&NS.parse().unwrap(), closing).await.unwrap();
    server
}

impl Server {
    /// Page and start of the bucket of an event so many seconds ago.
    fn bucket(&self, seconds_ago: i64) -> (PageId, Timestamp) {
        let (view, ns) = (self.catalog.view(), NS.parse().unwrap());
        let ts = NOW.saturating_sub(super::seconds(seconds_ago));
        let layout = view.namespace(&ns).unwrap().layout_at("k", ts);
        let key: Arc<str> = "k".into();
        (PageId::of(&ns, &key, layout, layout.bucket(ts)), layout.bucket(ts))
    }

    async fn entry(&self, seconds_ago: i64) -> Option<Entry> {
        let (page, bucket) = self.bucket(seconds_ago);
        Manifest::new(self.store.clone()).read(&page).await.unwrap().get(&bucket).cloned()
    }
}

#[tokio::test]
async fn an_event_of_a_due_bucket_is_acknowledged_once_its_mark_stands() {
    let server = closing().await;
    let body = [event("k", "now", 1), event("k", "late", LATE)].join("\n");
    let answer = server.post("/v1/shop/events", body).await;
    assert_eq!((answer.status.as_u16(), &answer.body["stored"]), (200, &2.into()));
    assert!(server.entry(LATE).await.is_some_and(|entry| entry.late));
    assert_eq!(server.entry(1).await, None, "what is not due needs no mark");
}

#[tokio::test]
async fn an_open_generation_is_no_mark() {
    let server = closing().await;
    let (page, bucket) = server.bucket(LATE);
    let manifest = Manifest::new(server.store.clone());
    manifest.open(&page, &BTreeMap::from([(bucket, Nonce(1))])).await.unwrap();
    server.post("/v1/shop/events", event("k", "late", LATE)).await;
    let entry = server.entry(LATE).await.unwrap();
    assert!(entry.late && entry.open == Some(Nonce(1)));
}

#[tokio::test]
async fn an_old_view_acknowledges_nothing_and_is_read_anew() {
    let server = closing().await;
    // Another node closes more, and this one's view is older than a write may be.
    let other =
        braid_shared::catalog::Catalog::open(server.store.clone(), server.clock.clone(), server.catalog.view().shared).await.unwrap();
    other.raise_closing(&NS.parse().unwrap(), NOW).await.unwrap();
    server.clock.advance(Duration::from_secs(31));
    let answer = server.post("/v1/shop/events", event("k", "old", 5_400)).await;
    assert_eq!(answer.status, 200);
    assert!(server.entry(5_400).await.is_some_and(|entry| entry.late));
}

#[tokio::test]
async fn an_event_of_dropped_history_is_refused() {
    let server = closing().await;
    let dropped = NOW.saturating_sub(super::seconds(3 * 3_600));
    server.catalog.raise_dropped(&NS.parse().unwrap(), dropped).await.unwrap();
    let body = [event("k", "kept", 2 * 3_600), event("k", "gone", LATE)].join("\n");
    let answer = server.post("/v1/shop/events", body).await;
    assert_eq!((answer.status.as_u16(), answer.errors()), (422, vec![(1, "timestamp_too_old")]));
}
