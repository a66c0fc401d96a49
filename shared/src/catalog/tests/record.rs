//! Who changed what; who comes second; and documents as older programs wrote them.

use std::fs;
use std::path::Path;

use super::super::{Intent, NewLayout, NewNamespace, Policy};
use super::*;
use crate::store::Swap;

async fn node(store: &Arc<dyn Store>) -> Node {
    let node = Node::open(store, 1_000).await.unwrap();
    node.create_namespace(&ns("n"), NewNamespace::default()).await.unwrap();
    node
}

fn by(author: &str, expected_revision: Option<u64>) -> Intent {
    Intent { author: Some(author.into()), reason: Some(format!("{author}'s reason")), automatic: false, expected_revision }
}

fn conflicts<T: std::fmt::Debug>(outcome: Result<T, CatalogError>) -> bool {
    matches!(outcome, Err(CatalogError::RevisionConflict(_)))
}

#[tokio::test]
async fn of_two_operators_who_saw_the_same_one_wins_and_the_other_is_told() {
    let store = memory();
    let (node, other) = (node(&store).await, Node::open(&store, 1_000).await.unwrap());
    let seen = Some(node.view().revision);
    let place = ns("n");
    let new = |seconds| NewLayout { effective_from: Some(at(seconds)), ..NewLayout::of(8) };
    let (a, b) = (by("ann", seen), by("bob", seen));
    let (first, second) =
        tokio::join!(node.publish_layout_by(&a, &place, Some("k"), new(2_000)), other.publish_layout_by(&b, &place, Some("k"), new(3_000)));
    assert!(first.is_ok() != second.is_ok(), "{first:?} {second:?}");
    assert!(conflicts(first) != conflicts(second));
    let listed = node.refresh().await.unwrap().namespace(&place).unwrap().listed(Some("k"));
    assert_eq!(listed.len(), 1);
    let version = listed[0].layout.version.revision;
    assert!(conflicts(node.withdraw_layout_by(&by("cid", seen), &place, Some("k"), version).await));
    assert!(node.withdraw_layout_by(&by("cid", Some(version)), &place, Some("k"), version).await.is_ok());
}

#[tokio::test]
async fn a_change_elsewhere_is_no_conflict() {
    let store = memory();
    let node = node(&store).await;
    let seen = Some(node.view().revision);
    node.publish_layout(&ns("n"), Some("other"), NewLayout::of(9)).await.unwrap();
    node.set_policy_by(&by("ann", seen), &ns("n"), Policy { max_shards: Some(9), ..Policy::default() }).await.unwrap();
    node.publish_layout_by(&by("ann", seen), &ns("n"), Some("k"), NewLayout::of(8)).await.unwrap();
    assert!(conflicts(node.set_policy_by(&by("bob", seen), &ns("n"), Policy::default()).await));
}

#[tokio::test]
async fn a_key_without_layouts_of_its_own_changes_with_the_default() {
    let store = memory();
    let node = node(&store).await;
    let seen = Some(node.view().revision);
    node.publish_layout(&ns("n"), None, NewLayout::of(9)).await.unwrap();
    assert!(conflicts(node.publish_layout_by(&by("ann", seen), &ns("n"), Some("k"), NewLayout::of(8)).await));
}

#[tokio::test]
async fn who_when_and_why_are_kept_by_every_node_and_over_snapshots() {
    let store = memory();
    let node = node(&store).await;
    let new = NewLayout { effective_from: Some(at(2_000)), ..NewLayout::of(8) };
    let published = node.publish_layout_by(&by("ann", None), &ns("n"), Some("k"), new).await.unwrap();
    let withdrawn = node.withdraw_layout_by(&by("bob", None), &ns("n"), Some("k"), published.layout.version.revision).await.unwrap();
    let automatic = Intent { automatic: true, ..Intent::default() };
    let grown = node.publish_layout_by(&automatic, &ns("n"), Some("k"), NewLayout::of(9)).await.unwrap();
    node.set_policy_by(&by("cid", None), &ns("n"), Policy { max_shards: Some(9), ..Policy::default() }).await.unwrap();
    let walked = Node::open(&store, 1_000).await.unwrap();
    node.take_snapshot(&node.known()).await.unwrap();
    let loaded = Node::open(&store, 1_000).await.unwrap();
    for reader in [&node, &walked, &loaded] {
        let view = reader.view();
        let view = view.namespace(&ns("n")).unwrap();
        assert_eq!(view.listed(Some("k")), [withdrawn.clone(), grown.clone()]);
        assert_eq!(view.policy_set.audit.as_ref().unwrap().author.as_deref(), Some("cid"));
        assert_eq!(view.policy_set.revision, 5);
        assert_eq!(view.timeline_changed(Some("k")), 4);
    }
    let who =
        |audit: &Option<Arc<super::super::Audit>>| audit.as_ref().map(|a| (a.author.clone().unwrap_or_default(), a.automatic, a.at()));
    assert_eq!(who(&withdrawn.published), Some(("ann".into(), false, at(1_000))));
    assert_eq!(who(&withdrawn.withdrawn.unwrap().audit), Some(("bob".into(), false, at(1_000))));
    assert_eq!(who(&grown.published), Some((String::new(), true, at(1_000))));
}

#[tokio::test]
async fn texts_beyond_their_bounds_are_refused() {
    let store = memory();
    let node = node(&store).await;
    for by in [by(&"a".repeat(129), None), Intent { reason: Some("r".repeat(513)), ..Intent::default() }] {
        let refused = node.publish_layout_by(&by, &ns("n"), None, NewLayout::of(8)).await;
        assert!(matches!(refused, Err(CatalogError::Invalid(_))), "{refused:?}");
    }
}

/// Puts every file below `dir` into the store as the document of its path.
async fn put_all(store: &Arc<dyn Store>, root: &Path, dir: &Path) {
    let mut dirs = vec![dir.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                dirs.push(path);
                continue;
            }
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            assert!(matches!(store.swap_document(name, None, fs::read(&path).unwrap().into()).await, Ok(Swap::Done(_))));
        }
    }
}

/// What the frozen documents say, however much of it is read from the snapshot.
fn check_frozen(node: &Node, shards: &[(&str, u32)]) {
    let view = node.view();
    let view = view.namespace(&ns("n")).unwrap();
    assert_eq!((view.policy.max_age, view.policy.min_shards, view.policy.max_shards), (Some(Span::DAY), Some(2), Some(64)));
    for (key, shards) in shards {
        let listed = view.listed(Some(key));
        assert_eq!((listed[0].from, listed[0].layout.shards, listed[0].published.clone()), (at(1_000), *shards, None));
    }
    let default = view.listed(None);
    assert_eq!(default.iter().map(|l| (l.layout.shards, l.is_withdrawn())).collect::<Vec<_>>(), [(4, false), (9, true)]);
}

#[tokio::test]
async fn documents_of_older_programs_are_read_and_built_on() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/catalog/format1");
    for (root, shards) in [("root", vec![("k", 8)]), ("root-with-snapshot", vec![("k", 8), ("k2", 3)])] {
        let store = memory();
        put_all(&store, &dir, &dir).await;
        let etag = store.read_document("root").await.unwrap().map(|d| d.etag);
        store.swap_document("root", etag, fs::read(dir.join(root)).unwrap().into()).await.unwrap();
        let node = Node::open(&store, 1_000).await.unwrap();
        check_frozen(&node, &shards);
        node.publish_layout_by(&by("ann", Some(node.view().revision)), &ns("n"), Some("k"), NewLayout::of(5)).await.unwrap_err();
        node.pass(1);
        node.publish_layout_by(&by("ann", Some(node.view().revision)), &ns("n"), Some("k"), NewLayout::of(5)).await.unwrap();
        node.take_snapshot(&node.known()).await.unwrap();
        check_frozen(&Node::open(&store, 1_000).await.unwrap(), &shards);
    }
}
