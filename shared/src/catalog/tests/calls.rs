//! What each call does, on one or two nodes whose store answers.

use super::super::{NewLayout, NewNamespace, Policy};
use super::*;
use crate::layout::ShardBy;
use crate::model::TimeRange;
use crate::promise::{PROMISE_1, PROMISE_2, PROMISE_3, PROMISE_4};

/// A node at 1,000 s over a fresh store, with namespace `n` of default layout.
async fn node() -> (Arc<dyn Store>, Node) {
    let store = memory();
    let node = Node::open(&store, 1_000).await.unwrap();
    assert!(node.create_namespace(&ns("n"), NewNamespace::default()).await.unwrap());
    (store, node)
}

fn from(seconds: i64, shards: u32) -> NewLayout {
    NewLayout { effective_from: Some(at(seconds)), ..NewLayout::of(shards) }
}

fn shards_at(node: &Node, key: &str, seconds: i64) -> u32 {
    node.view().namespace(&ns("n")).unwrap().layout_at(key, at(seconds)).shards
}

#[tokio::test]
async fn a_namespace_is_made_once_and_layout_0_covers_all_time() {
    let (store, node) = node().await;
    assert!(!node.create_namespace(&ns("n"), NewNamespace { shards: 9, ..NewNamespace::default() }).await.unwrap());
    let other = Node::open(&store, 1_000).await.unwrap();
    let (_, view) = other.namespace(&ns("n")).await.unwrap();
    let listed = view.listed(None);
    assert_eq!((listed.len(), listed[0].from, listed[0].layout.version.revision, listed[0].layout.shards), (1, Timestamp::MIN, 0, 4));
    assert_eq!(view.layout_at("k", Timestamp::MIN).shards, 4);
    assert_eq!(view.epochs("k", TimeRange::ALL).len(), 1);
}

#[tokio::test]
async fn a_namespace_is_unknown_only_by_a_fresh_read() {
    let (store, node) = node().await;
    let other = Node::open(&store, 1_000).await.unwrap();
    node.create_namespace(&ns("later"), NewNamespace::default()).await.unwrap();
    assert!(other.view().namespace(&ns("later")).is_none());
    assert!(other.namespace(&ns("later")).await.is_ok());
    assert_eq!(other.namespace(&ns("never")).await.unwrap_err(), CatalogError::NamespaceNotFound(ns("never")));
}

#[tokio::test]
async fn cover_raises_the_promise_to_now_and_the_lead_and_one_raise_serves_all() {
    let (store, node) = node().await;
    let other = Node::open(&store, 1_000).await.unwrap();
    let view = node.cover(at(1_003)).await.unwrap();
    assert_eq!(view.horizon, at(1_010), "{PROMISE_1} {PROMISE_4}");
    assert_eq!(other.refresh().await.unwrap().horizon, at(1_010));
    let raised = other.view();
    assert_eq!(other.cover(at(1_003)).await.unwrap().horizon, raised.horizon);
    assert_eq!(node.metrics.swaps.get(), 2, "one namespace, one raise");
    assert!(matches!(node.cover(at(1_010)).await, Err(CatalogError::Invalid(_))));
}

#[tokio::test]
async fn the_promise_is_raised_in_the_background_before_it_is_needed() {
    let (_, node) = node().await;
    node.cover(at(1_000)).await.unwrap();
    node.pass(6);
    assert_eq!(node.cover(at(1_006)).await.unwrap().horizon, at(1_010));
    while node.view().horizon == at(1_010) {
        tokio::task::yield_now().await;
    }
    assert_eq!(node.view().horizon, at(1_016));
}

#[tokio::test]
async fn old_events_raise_the_stamp_ceiling_but_not_the_promise() {
    let (_, node) = node().await;
    node.cover(at(1_000)).await.unwrap();
    node.pass(600);
    let view = node.cover(at(5)).await.unwrap();
    assert_eq!((view.horizon, view.stamp_ceiling), (at(1_010), at(1_610).nanos() as u64));
    let published = node.publish_layout(&ns("n"), None, NewLayout::of(8)).await.unwrap();
    assert_eq!(published.from, at(1_600));
}

#[tokio::test]
async fn stamps_grow_over_restarts_and_clock_steps() {
    let (store, node) = node().await;
    assert!(matches!(node.stamp(), Err(CatalogError::Stale(_))));
    node.cover(at(1_000)).await.unwrap();
    let first = node.stamp().unwrap();
    node.clock.set_wall(at(900));
    let second = node.stamp().unwrap();
    let again = Node::open(&store, 500).await.unwrap();
    again.cover(at(100)).await.unwrap();
    let third = again.stamp().unwrap();
    assert!(first < second && second < third);
}

#[tokio::test]
async fn a_layout_begins_at_the_promise_or_now_and_follows_the_one_before() {
    let (_, node) = node().await;
    let new = NewLayout { shard_by: Some(ShardBy::from("region".to_owned())), ..NewLayout::of(10) };
    let first = node.publish_layout(&ns("n"), Some("k"), new).await.unwrap();
    assert_eq!((first.from, first.layout.version.revision, first.layout.bucket), (at(1_000), 2, Span::HOUR));
    node.cover(at(1_001)).await.unwrap();
    let second = node.publish_layout(&ns("n"), Some("k"), NewLayout { bucket: Some(Span::DAY), ..NewLayout::of(3) }).await.unwrap();
    assert_eq!((second.from, second.layout.shard_by.tag(), second.layout.bucket), (at(1_010), Some("region"), Span::DAY));
    assert_eq!([999, 1_000, 1_009, 1_010].map(|t| shards_at(&node, "k", t)), [4, 10, 10, 3]);
    assert_eq!(shards_at(&node, "other", 1_010), 4);
}

#[tokio::test]
async fn promise_2_a_layout_never_begins_below_the_promise_or_before_the_last() {
    let (_, node) = node().await;
    node.cover(at(1_000)).await.unwrap();
    let below = node.publish_layout(&ns("n"), None, from(1_009, 5)).await.unwrap_err();
    assert!(matches!(&below, CatalogError::LayoutConflict(why) if why.contains(&at(1_010).to_string())), "{PROMISE_2} {below}");
    node.publish_layout(&ns("n"), None, from(1_050, 5)).await.unwrap();
    for new in [from(1_050, 6), from(1_020, 6), NewLayout::of(6)] {
        let refused = node.publish_layout(&ns("n"), None, new).await.unwrap_err();
        assert!(matches!(&refused, CatalogError::LayoutConflict(why) if why.contains("withdraw")), "{refused}");
    }
}

#[tokio::test]
async fn promise_3_a_layout_is_withdrawn_only_before_it_begins() {
    let (store, node) = node().await;
    let scheduled = node.publish_layout(&ns("n"), Some("k"), from(1_050, 5)).await.unwrap();
    let version = scheduled.layout.version.revision;
    assert!(node.withdraw_layout(&ns("n"), Some("k"), version).await.unwrap().is_withdrawn());
    assert!(node.withdraw_layout(&ns("n"), Some("k"), version).await.unwrap().is_withdrawn(), "again is no error");
    assert_eq!(shards_at(&node, "k", 1_050), 4);
    let replaced = node.publish_layout(&ns("n"), Some("k"), from(1_020, 6)).await.unwrap().layout.version.revision;
    node.pass(15);
    node.cover(at(1_015)).await.unwrap();
    let begun = node.withdraw_layout(&ns("n"), Some("k"), replaced).await;
    assert!(matches!(begun, Err(CatalogError::LayoutConflict(_))), "{PROMISE_3}");
    assert!(matches!(node.withdraw_layout(&ns("n"), None, 0).await, Err(CatalogError::LayoutImmutable(_))));
    assert_eq!(node.withdraw_layout(&ns("n"), None, 77).await, Err(CatalogError::LayoutNotFound(77)));
    let other = Node::open(&store, 1_000).await.unwrap();
    let listed = other.view().namespace(&ns("n")).unwrap().listed(Some("k"));
    assert_eq!(listed.iter().map(|l| l.is_withdrawn()).collect::<Vec<_>>(), [true, false]);
}

#[tokio::test]
async fn a_key_follows_the_default_until_its_first_own_epoch_and_its_last_own_one_after() {
    let (_, node) = node().await;
    node.publish_layout(&ns("n"), None, from(1_100, 5)).await.unwrap();
    node.publish_layout(&ns("n"), Some("k"), from(1_200, 6)).await.unwrap();
    node.publish_layout(&ns("n"), None, from(1_300, 7)).await.unwrap();
    let view = node.view();
    let view = view.namespace(&ns("n")).unwrap();
    let all: Vec<_> = view.epochs("k", TimeRange { from: at(1_050), to: at(1_400) }).iter().map(|(r, l)| (*r, l.shards)).collect();
    let part = |from, to, shards| (TimeRange { from: at(from), to: at(to) }, shards);
    assert_eq!(all, [part(1_050, 1_100, 4), part(1_100, 1_200, 5), part(1_200, 1_400, 6)]);
    for (range, shards) in all {
        assert_eq!(view.layout_at("k", range.from).shards, shards);
    }
    assert_eq!(view.epochs("k", TimeRange { from: at(5), to: at(5) }), []);
}

#[tokio::test]
async fn of_two_publishers_for_one_place_one_wins() {
    let (store, node) = node().await;
    let other = Node::open(&store, 1_000).await.unwrap();
    let place = ns("n");
    let (a, b) =
        tokio::join!(node.publish_layout(&place, Some("k"), from(1_100, 5)), other.publish_layout(&place, Some("k"), from(1_100, 6)));
    assert!(a.is_ok() != b.is_ok(), "{a:?} {b:?}");
    node.refresh().await.unwrap();
    other.refresh().await.unwrap();
    assert_eq!(shards_at(&node, "k", 1_100), shards_at(&other, "k", 1_100));
}

#[tokio::test]
async fn numbers_out_of_bounds_are_refused_by_name() {
    let (_, node) = node().await;
    let policies = [
        Policy { min_shards: Some(9), max_shards: Some(8), ..Policy::default() },
        Policy { min_shards: Some(0), ..Policy::default() },
        Policy { max_shards: Some(4_097), ..Policy::default() },
    ];
    for policy in policies {
        assert!(matches!(node.set_policy(&ns("n"), policy.clone()).await, Err(CatalogError::Invalid(_))));
        let new = NewNamespace { policy, ..NewNamespace::default() };
        assert!(matches!(node.create_namespace(&ns("m"), new).await, Err(CatalogError::Invalid(_))));
    }
    for new in [NewLayout::of(0), NewLayout::of(4_097), NewLayout { bucket: Span::from_nanos(1), ..NewLayout::of(2) }] {
        assert!(matches!(node.publish_layout(&ns("n"), None, new).await, Err(CatalogError::Invalid(_))));
    }
    for key in [String::new(), "k".repeat(513)] {
        assert!(matches!(node.publish_layout(&ns("n"), Some(&key), NewLayout::of(2)).await, Err(CatalogError::Invalid(_))));
    }
    let wrong = Shared { read_deadline: seconds(60), ..shared() };
    let clock: Arc<dyn Clock> = node.clock.clone();
    assert!(matches!(Catalog::open(memory(), clock, wrong).await, Err(CatalogError::Invalid(_))));
}

#[tokio::test]
async fn a_policy_reaches_other_nodes_and_an_equal_one_changes_nothing() {
    let (store, node) = node().await;
    let other = Node::open(&store, 1_000).await.unwrap();
    let policy = Policy { max_age: Some(Span::DAY), ..Policy::default() };
    node.set_policy(&ns("n"), policy.clone()).await.unwrap();
    node.set_policy(&ns("n"), policy.clone()).await.unwrap();
    let view = other.refresh().await.unwrap();
    assert_eq!((view.revision, &*view.namespace(&ns("n")).unwrap().policy), (2, &policy));
    assert!(matches!(node.set_policy(&ns("x"), policy).await, Err(CatalogError::NamespaceNotFound(_))));
}
