//! Wrong clocks: what guards against them, what shows them, and the way back.

use bytes::Bytes;

use super::super::{NewLayout, NewNamespace};
use super::*;
use crate::layout::LayoutVersion;
use crate::partition::Partition;
use crate::stamp::Stamp;
use crate::store::{BlockAddress, EncodedBlock, FaultStore, MemoryStore};

async fn node(store: &Arc<dyn Store>, now: i64) -> Node {
    let node = Node::open(store, now).await.unwrap();
    node.create_namespace(&ns("n"), NewNamespace::default()).await.unwrap();
    node
}

#[tokio::test]
async fn a_node_whose_clock_is_ahead_of_its_stores_promises_nothing_until_it_is_right() {
    let faulty = FaultStore::new(MemoryStore::new());
    let store: Arc<dyn Store> = faulty.clone();
    let node = node(&store, 1_000).await;
    faulty.set_clock(at(1_000));
    node.cover(at(1_001)).await.unwrap();
    node.clock.set_wall(at(5_000));
    faulty.set_clock(at(1_001));
    let refused = node.cover(at(5_001)).await;
    assert!(matches!(&refused, Err(CatalogError::Stale(why)) if why.contains("3999 s ahead")), "{refused:?}");
    assert_eq!(node.refresh().await.unwrap().horizon, at(1_010));
    node.clock.set_wall(at(1_012));
    faulty.set_clock(at(1_009));
    assert_eq!(node.cover(at(1_013)).await.unwrap().horizon, at(1_022), "within half a lead is right enough");
}

#[tokio::test]
async fn a_store_without_a_clock_or_without_an_answer_refuses_nothing() {
    let store = memory();
    let node = node(&store, 1_000).await;
    node.clock.set_wall(at(5_000));
    assert_eq!(node.cover(at(5_001)).await.unwrap().horizon, at(5_010));
}

#[tokio::test]
async fn the_age_of_the_view_and_the_distance_of_the_promise_are_measured_when_asked_for() {
    let node = node(&memory(), 1_000).await;
    let registry = prometheus::Registry::new();
    node.catalog.register(&registry).unwrap();
    node.cover(at(1_000)).await.unwrap();
    node.refresh().await.unwrap();
    node.pass(3);
    let value = |name: &str| registry.gather().iter().find(|family| family.name() == name).unwrap().get_metric()[0].get_gauge().get_value();
    assert_eq!((value("braid_catalog_view_age_seconds"), value("braid_catalog_promise_ahead_seconds")), (3.0, 7.0));
}

/// Stores a block of `key` with one event at `seconds`, placed as the catalog says.
async fn write(store: &Arc<dyn Store>, node: &Node, key: &str, seconds: i64) {
    let view = node.view();
    let layout = view.namespace(&ns("n")).unwrap().layout_at(key, at(seconds)).clone();
    let version: LayoutVersion = layout.version;
    let partition = Partition { ns: ns("n"), key: key.into(), bucket: layout.bucket(at(seconds)), version, suffix: 2 };
    let address = BlockAddress { min_ts: at(seconds - 1), max_ts: at(seconds), id: Stamp { time: 1, node: 1 } };
    store
        .append(vec![EncodedBlock { partition: partition.into(), address, events: 1, bytes: Bytes::from_static(b"block") }])
        .await
        .unwrap();
    let day = (seconds / 86_400) as i32;
    store.note_days(&ns("n"), &[(key.into(), day)]).await.unwrap();
}

#[tokio::test]
async fn the_promise_can_be_lowered_to_now_while_no_node_runs_and_layouts_can_begin_again() {
    let store = memory();
    let wrong = node(&store, 9_000_000).await;
    wrong.cover(at(9_000_001)).await.unwrap();
    write(&store, &wrong, "k", 1_500).await;
    let node = Node::open(&store, 2_000).await.unwrap();
    assert_eq!(node.publish_layout(&ns("n"), Some("k"), NewLayout::of(8)).await.unwrap().from, at(9_000_010), "N is frozen");
    let lowered = node.lower_promise(&store).await.unwrap();
    assert_eq!((lowered.from, lowered.to, lowered.last_event), (at(9_000_010), at(2_000), None));
    assert!(matches!(wrong.refresh().await, Err(CatalogError::Stale(_))), "a node that saw the old promise does not go on");
    assert!(matches!(wrong.publish_layout(&ns("n"), Some("k"), NewLayout::of(8)).await, Err(CatalogError::Stale(_))));
    let again = Node::open(&store, 2_000).await.unwrap();
    assert_eq!(again.publish_layout(&ns("n"), Some("other"), NewLayout::of(8)).await.unwrap().from, at(2_000));
    let scheduled = again.view().namespace(&ns("n")).unwrap().listed(Some("k"))[0].layout.version.revision;
    again.withdraw_layout(&ns("n"), Some("k"), scheduled).await.unwrap();
    assert_eq!(again.publish_layout(&ns("n"), Some("k"), NewLayout::of(8)).await.unwrap().from, at(2_000));
}

#[tokio::test]
async fn it_is_lowered_no_further_than_above_the_last_event_that_the_wrong_clock_let_in() {
    let store = memory();
    let wrong = node(&store, 500_000).await;
    wrong.cover(at(500_001)).await.unwrap();
    for (key, seconds) in [("a", 1_999), ("b", 400_123), ("c", 300_000)] {
        write(&store, &wrong, key, seconds).await;
    }
    let node = Node::open(&store, 2_000).await.unwrap();
    let lowered = node.lower_promise(&store).await.unwrap();
    assert_eq!(lowered.last_event, Some(at(400_123)));
    assert_eq!(lowered.to, Timestamp::from_nanos(at(400_123).nanos() + 1));
    let sound = Node::open(&store, 2_000).await.unwrap();
    assert_eq!(sound.lower_promise(&store).await.unwrap().from, lowered.to, "again it finds nothing to lower");
    assert_eq!(sound.refresh().await.unwrap().horizon, lowered.to);
}
