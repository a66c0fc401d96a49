//! Properties of documents: compare-and-swap and linearizable reads.

use std::collections::BTreeSet;

use bytes::Bytes;
use futures::future::join_all;

use super::fixture::Fixture;
use crate::store::Swap;

impl Fixture {
    fn name(&self, name: &str) -> String {
        format!("{}/{name}", self.ns)
    }

    async fn swap(&self, name: &str, expected: Option<u64>, text: &'static str) -> Swap {
        self.store.swap_document(&self.name(name), expected, Bytes::from_static(text.as_bytes())).await.expect("the swap is answered")
    }

    async fn read(&self, name: &str) -> Option<(Bytes, u64)> {
        let document = self.store.read_document(&self.name(name)).await.expect("the read succeeds");
        document.map(|document| (document.bytes, document.etag))
    }
}

fn done(swap: Swap) -> u64 {
    match swap {
        Swap::Done(etag) => etag,
        Swap::Conflict => panic!("the swap was expected to win"),
    }
}

pub(super) async fn a_document_is_read_as_it_was_written(on: Fixture) {
    assert_eq!(on.read("a").await, None);
    let first = done(on.swap("a", None, "one").await);
    assert_eq!(on.read("a").await, Some((Bytes::from("one"), first)));
    let second = done(on.swap("a", Some(first), "").await);
    assert_eq!(on.read("a").await, Some((Bytes::new(), second)));
    assert_eq!(on.read("ab").await, None);
    on.store.delete_document(&on.name("a")).await.expect("the delete succeeds");
    on.store.delete_document(&on.name("a")).await.expect("the delete succeeds");
    assert_eq!(on.read("a").await, None);
}

pub(super) async fn a_swap_that_expects_something_else_writes_nothing(on: Fixture) {
    assert_eq!(on.swap("a", Some(1), "x").await, Swap::Conflict);
    assert_eq!(on.read("a").await, None);
    let etag = done(on.swap("a", None, "one").await);
    assert_eq!(on.swap("a", None, "two").await, Swap::Conflict);
    assert_eq!(on.swap("a", Some(etag + 1), "two").await, Swap::Conflict);
    assert_eq!(on.read("a").await, Some((Bytes::from("one"), etag)));
}

pub(super) async fn of_racing_swaps_one_wins(on: Fixture) {
    let mut expected = None;
    for _ in 0..5 {
        let swaps = join_all((0..8).map(|_| on.swap("a", expected, "x"))).await;
        let won: Vec<_> = swaps.into_iter().filter(|swap| matches!(swap, Swap::Done(_))).collect();
        assert_eq!(won.len(), 1, "{won:?}");
        expected = Some(done(won[0]));
    }
    assert_eq!(on.read("a").await.map(|(_, etag)| etag), expected);
}

pub(super) async fn a_read_that_begins_after_a_swap_sees_it(on: Fixture) {
    let mut etag = None;
    for _ in 0..20 {
        etag = Some(done(on.swap("a", etag, "x").await));
        assert_eq!(on.read("a").await.map(|(_, etag)| etag), etag);
    }
}

pub(super) async fn an_etag_is_never_given_twice(on: Fixture) {
    let mut seen = BTreeSet::new();
    let mut old = None;
    for _ in 0..5 {
        let etag = done(on.swap("a", None, "x").await);
        assert!(seen.insert(etag));
        if let Some(old) = old.replace(etag) {
            assert_eq!(on.swap("a", Some(old), "y").await, Swap::Conflict);
        }
        on.store.delete_document(&on.name("a")).await.expect("the delete succeeds");
    }
}
