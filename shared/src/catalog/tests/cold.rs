//! Closing, dropped and cold groups as the catalog keeps them.

use super::super::NewNamespace;
use super::*;
use crate::cold::rules::COLD_10;
use crate::cold::{Database, Group};

fn group(weights: &[u32]) -> Group {
    let database = |(i, tables): (usize, &u32)| Database { name: format!("db{i}"), url: format!("file:///cold/db{i}"), tables: *tables };
    Group { tables: weights.iter().sum(), databases: weights.iter().enumerate().map(database).collect() }
}

async fn node(store: &Arc<dyn Store>) -> Node {
    let node = Node::open(store, 1_000).await.unwrap();
    node.create_namespace(&ns("n"), NewNamespace::default()).await.unwrap();
    node
}

#[tokio::test]
async fn closing_and_dropped_only_grow_and_not_beyond_the_promise() {
    let store = memory();
    let node = node(&store).await;
    let promise = node.view().horizon;
    assert_eq!(node.raise_closing(&ns("n"), at(900)).await.unwrap().closing, at(900));
    assert_eq!(node.raise_closing(&ns("n"), at(800)).await.unwrap().closing, at(900));
    assert_eq!(node.raise_closing(&ns("n"), at(9_999)).await.unwrap().closing, promise);
    assert_eq!(node.raise_dropped(&ns("n"), at(500)).await.unwrap().dropped, at(500));
    let other = Node::open(&store, 1_000).await.unwrap();
    let facts = other.view().namespace(&ns("n")).unwrap().cold;
    assert_eq!((facts.closing, facts.dropped), (promise, at(500)));
}

#[tokio::test]
async fn a_group_is_an_append_beyond_what_is_archived() {
    let store = memory();
    let node = node(&store).await;
    assert_eq!(node.add_group(&ns("n"), None, group(&[4, 3, 3])).await.unwrap(), Timestamp::MIN);
    assert_eq!(node.add_group(&ns("n"), None, group(&[4, 3, 3])).await.unwrap(), Timestamp::MIN, "given again it changes nothing");
    node.raise_closing(&ns("n"), at(900)).await.unwrap();
    let below = node.add_group(&ns("n"), Some(at(899)), group(&[1])).await;
    assert!(matches!(below, Err(CatalogError::GroupConflict(_))), "{COLD_10}: {below:?}");
    assert!(matches!(node.add_group(&ns("n"), Some(at(950)), Group { tables: 2, ..group(&[1]) }).await, Err(CatalogError::Invalid(_))));
    assert_eq!(node.add_group(&ns("n"), Some(at(900)), group(&[2])).await.unwrap(), at(900));
    let other = Node::open(&store, 1_000).await.unwrap();
    let view = other.view();
    let groups = &view.namespace(&ns("n")).unwrap().groups;
    assert_eq!(groups.place("k", at(899)).unwrap().group, 1);
    assert_eq!(groups.place("k", at(900)).unwrap().group, 2);
}

#[tokio::test]
async fn a_snapshot_holds_what_is_due_dropped_and_grouped() {
    let store = memory();
    let node = node(&store).await;
    node.add_group(&ns("n"), None, group(&[4, 3, 3])).await.unwrap();
    node.add_group(&ns("n"), Some(at(700)), group(&[1, 1])).await.unwrap();
    node.raise_dropped(&ns("n"), at(100)).await.unwrap();
    for second in 0..300 {
        node.raise_closing(&ns("n"), at(600 + second)).await.unwrap();
    }
    node.snapshot_if_due().await;
    let other = Node::open(&store, 1_000).await.unwrap();
    let (view, other) = (node.view(), other.view());
    let (here, there) = (view.namespace(&ns("n")).unwrap(), other.namespace(&ns("n")).unwrap());
    assert_eq!((here.cold, &here.groups), (there.cold, &there.groups));
    assert_eq!(there.cold.closing, at(899));
    assert!(view.namespaces.continue_from(&other.namespaces) && other.namespaces.continue_from(&view.namespaces));
}
