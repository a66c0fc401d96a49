//! What keeps a catalog readable and true: refreshes, snapshots, refusal of what stepped back.

use bytes::Bytes;

use super::super::documents::{decode, encode};
use super::super::root::{ROOT, Root};
use super::super::{Known, ListedLayout, NewLayout, NewNamespace};
use super::*;
use crate::layout::{Layout, LayoutVersion, ShardBy};
use crate::promise::PROMISE_7;
use crate::store::Swap;

async fn root(store: &Arc<dyn Store>) -> Root {
    decode(&store.read_document(ROOT).await.unwrap().unwrap().bytes).unwrap()
}

async fn overwrite(store: &Arc<dyn Store>, name: &str, bytes: Bytes) {
    let etag = store.read_document(name).await.unwrap().map(|d| d.etag);
    assert!(matches!(store.swap_document(name, etag, bytes).await, Ok(Swap::Done(_))));
}

/// Publishes `n` layouts, each for a key of its own.
async fn publish(node: &Node, n: u32, first: u32) {
    for i in first..first + n {
        node.publish_layout(&ns("n"), Some(&format!("k{i}")), NewLayout::of(1 + i % 4_096)).await.unwrap();
    }
}

async fn node(store: &Arc<dyn Store>) -> Node {
    let node = Node::open(store, 1_000).await.unwrap();
    node.create_namespace(&ns("n"), NewNamespace::default()).await.unwrap();
    node
}

fn same(a: &Node, b: &Node) -> bool {
    let (a, b) = (a.view(), b.view());
    a.revision == b.revision && a.namespaces.continue_from(&b.namespaces) && b.namespaces.continue_from(&a.namespaces)
}

#[tokio::test]
async fn a_snapshot_shows_what_its_changes_made() {
    let store = memory();
    let node = node(&store).await;
    publish(&node, 300, 0).await;
    let scheduled = node.publish_layout(&ns("n"), None, NewLayout { effective_from: Some(at(5_000)), ..NewLayout::of(9) }).await.unwrap();
    node.withdraw_layout(&ns("n"), None, scheduled.layout.version.revision).await.unwrap();
    node.snapshot_if_due().await;
    assert_eq!(root(&store).await.snapshots.len(), 1);
    publish(&node, 3, 300).await;
    let other = Node::open(&store, 1_000).await.unwrap();
    assert!(same(&node, &other));
    assert!(other.view().namespace(&ns("n")).unwrap().listed(None)[1].is_withdrawn());
}

#[tokio::test]
async fn changes_that_nobody_needs_are_deleted_and_a_node_far_behind_catches_up() {
    let store = memory();
    let node = node(&store).await;
    let first_change = root(&store).await.head.unwrap();
    let behind = Node::open(&store, 1_000).await.unwrap();
    for round in 0..3 {
        publish(&node, 300, round * 300).await;
        node.snapshot_if_due().await;
    }
    assert_eq!(root(&store).await.snapshots.len(), 2);
    assert_eq!(store.read_document(&first_change).await.unwrap(), None);
    behind.refresh().await.unwrap();
    assert!(same(&node, &behind));
    assert!(same(&node, &Node::open(&store, 1_000).await.unwrap()));
}

#[tokio::test]
async fn a_large_snapshot_comes_in_parts_that_every_store_takes() {
    let store = memory();
    let node = node(&store).await;
    for i in 0..400 {
        node.publish_layout(&ns("n"), Some(&format!("{i:0>500}")), NewLayout::of(2)).await.unwrap();
    }
    node.snapshot_if_due().await;
    let snapshot = root(&store).await.snapshots.remove(0);
    assert!(snapshot.parts > 1);
    for part in 0..snapshot.parts {
        let bytes = store.read_document(&format!("{}/{part:05}", snapshot.name)).await.unwrap().unwrap().bytes;
        assert!(bytes.len() < 256 * 1024, "{}", bytes.len());
    }
    assert!(same(&node, &Node::open(&store, 1_000).await.unwrap()));
}

#[tokio::test]
async fn promise_7_a_root_that_stepped_back_is_refused_and_the_view_at_hand_stays() {
    let store = memory();
    let node = node(&store).await;
    node.cover(at(1_000)).await.unwrap();
    publish(&node, 2, 0).await;
    let good = root(&store).await;
    let steps: [fn(&mut Root); 6] = [
        |r| r.revision -= 1,
        |r| r.promise -= 1,
        |r| r.ceiling -= 1,
        |r| r.catalog += 1,
        |r| r.head = Some("change/other".into()),
        |r| r.swap -= 1,
    ];
    for (i, step) in steps.iter().enumerate() {
        let mut wrong = Root { swap: good.swap + 1, ..good.clone() };
        step(&mut wrong);
        if wrong.swap == good.swap {
            wrong.swap -= 1;
        }
        overwrite(&store, ROOT, encode(&wrong)).await;
        assert!(matches!(node.refresh().await, Err(CatalogError::Stale(_))), "{PROMISE_7} {i}");
        assert_eq!((node.view().revision, node.view().horizon), (good.revision, good.promise()));
    }
    overwrite(&store, ROOT, encode(&good)).await;
    assert!(node.refresh().await.is_ok());
}

#[tokio::test]
async fn promise_7_a_longer_chain_that_does_not_descend_from_the_known_head_is_refused() {
    let store = memory();
    let node = node(&store).await;
    let backup = store.read_document(ROOT).await.unwrap().unwrap().bytes;
    publish(&node, 1, 0).await;
    overwrite(&store, ROOT, backup).await;
    let restored = Node::open(&store, 1_000).await.unwrap();
    publish(&restored, 3, 50).await;
    assert!(matches!(node.refresh().await, Err(CatalogError::Stale(_))), "{PROMISE_7}");
    publish(&restored, 300, 100).await;
    restored.snapshot_if_due().await;
    assert!(matches!(node.refresh().await, Err(CatalogError::Stale(_))), "{PROMISE_7} across a snapshot");
}

#[tokio::test]
async fn damage_to_any_document_is_an_error_that_names_it() {
    let store = memory();
    let node = node(&store).await;
    let other = Node::open(&store, 1_000).await.unwrap();
    publish(&node, 1, 0).await;
    let head = root(&store).await.head.unwrap();
    for name in [head.as_str(), ROOT] {
        let mut bytes = store.read_document(name).await.unwrap().unwrap().bytes.to_vec();
        bytes[20] ^= 1;
        overwrite(&store, name, bytes.into()).await;
        let error = other.refresh().await.unwrap_err();
        assert!(matches!(&error, CatalogError::Stale(why) if why.contains(name)), "{error}");
    }
    assert!(Node::open(&store, 1_000).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_kept_fresh_learns_of_changes_and_takes_snapshots() {
    let store = memory();
    let node = node(&store).await;
    let other = Node::open(&store, 1_000).await.unwrap();
    let fresh = tokio::spawn(other.catalog.clone().keep_fresh(Duration::from_secs(1)));
    publish(&node, 300, 0).await;
    while root(&store).await.snapshots.is_empty() {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    assert!(same(&node, &other));
    fresh.abort();
}

#[tokio::test]
async fn a_change_shares_everything_that_it_does_not_touch() {
    let store = memory();
    let node = node(&store).await;
    node.create_namespace(&ns("other"), NewNamespace::default()).await.unwrap();
    publish(&node, 2, 0).await;
    let before = node.view();
    node.publish_layout(&ns("n"), Some("k1"), NewLayout { effective_from: Some(at(2_000)), ..NewLayout::of(3) }).await.unwrap();
    let after = node.view();
    assert!(Arc::ptr_eq(before.namespace(&ns("other")).unwrap(), after.namespace(&ns("other")).unwrap()));
    let of = |view: &Arc<super::super::View>, key| std::ptr::from_ref(view.namespace(&ns("n")).unwrap().history(key).unwrap());
    assert_eq!(of(&before, Some("k0")), of(&after, Some("k0")));
    assert_eq!(of(&before, None), of(&after, None));
    assert_ne!(of(&before, Some("k1")), of(&after, Some("k1")));
}

#[test]
fn metrics_register_once() {
    let registry = prometheus::Registry::new();
    let metrics = super::super::metrics::Metrics::new();
    metrics.register(&registry).unwrap();
    assert!(metrics.register(&registry).is_err());
}

/// A node of a catalog in which so many keys have layouts of their own, all but one by its snapshot.
async fn with_layouts(store: &Arc<dyn Store>, keys: u32) -> Node {
    let first = node(store).await;
    publish(&first, 1, 0).await;
    let known = first.known();
    let mut namespaces = known.view.namespaces.clone();
    for i in 1..keys {
        let version = LayoutVersion { revision: 2, nonce: i };
        let layout = Layout { version, shards: 1 + i % 4_096, bucket: Span::HOUR, shard_by: ShardBy::Id };
        let listed = ListedLayout { layout, from: at(1_000), published: None, withdrawn: None };
        namespaces.list(&ns("n"), Some(&format!("k{i}")), listed).unwrap();
    }
    first.take_snapshot(&Known::new(known.root.clone(), known.etag, known.view.began, namespaces)).await.unwrap();
    Node::open(store, 1_000).await.unwrap()
}

#[tokio::test]
async fn among_a_hundred_thousand_keys_with_layouts_a_refresh_reads_one_document_and_one_more_for_each_change() {
    let registry = prometheus::Registry::new();
    let plain = memory();
    let metered: Arc<dyn Store> = crate::store::MeteredStore::new(plain.clone(), &registry).unwrap();
    let node = with_layouts(&plain, 100_000).await;
    let other = Node::open(&metered, 1_000).await.unwrap();
    let reads = || {
        let gathered = registry.gather();
        let family = gathered.iter().find(|family| family.name() == "braid_store_operation_seconds").unwrap();
        let of_reads = |metric: &&prometheus::proto::Metric| metric.get_label().iter().any(|label| label.value() == "read_document");
        family.get_metric().iter().find(of_reads).unwrap().get_histogram().get_sample_count()
    };
    let opened = reads();
    other.refresh().await.unwrap();
    assert_eq!(reads() - opened, 1, "nothing new costs one small read");
    assert!(encode(&root(&plain).await).len() < 1_024, "and the root is small, however many keys there are");
    for changes in [1, 3] {
        publish(&node, changes, 200_000 + changes * 10).await;
        let before = reads();
        other.refresh().await.unwrap();
        assert_eq!(reads() - before, 1 + u64::from(changes), "one more for each change");
    }
    assert_eq!(other.view().namespace(&ns("n")).unwrap().own_keys(), 100_004);
}
