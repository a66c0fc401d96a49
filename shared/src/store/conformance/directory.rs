//! Properties of the directory: which keys a namespace has, and on which days.

use std::sync::Arc;

use super::fixture::Fixture;
use crate::store::Day;

impl Fixture {
    async fn note(&self, days: &[(&str, Day)]) {
        let days: Vec<(Arc<str>, Day)> = days.iter().map(|(key, day)| ((*key).into(), *day)).collect();
        self.store.note_days(&self.ns, &days).await.expect("the note succeeds");
    }

    async fn keys(&self, prefix: &str, after: Option<&str>, limit: usize) -> Vec<String> {
        self.store.keys(&self.ns, prefix, after, limit).await.expect("the read succeeds")
    }

    async fn days(&self, key: &str, from: Day, to: Day) -> Vec<Day> {
        self.store.days(&self.ns, key, from, to).await.expect("the read succeeds")
    }
}

pub(super) async fn keys_come_in_byte_order_behind_the_one_that_was_last(on: Fixture) {
    let mut all = ["b", "aa", "a", "a\0", "a\0b", "a/b", "ä", "\u{10FFFF}", "\0", "ab"];
    for key in all {
        on.note(&[(key, 3), (key, 4)]).await;
    }
    all.sort_unstable();
    assert_eq!(on.keys("", None, 100).await, all);
    let (mut paged, mut after) = (Vec::new(), None::<String>);
    loop {
        let page = on.keys("", after.as_deref(), 3).await;
        let Some(last) = page.last() else { break };
        assert!(page.len() <= 3);
        after = Some(last.clone());
        paged.extend(page);
    }
    assert_eq!(paged, all);
    assert_eq!(on.keys("", Some("aa0"), 1).await, ["ab"]);
}

pub(super) async fn keys_are_cut_to_their_prefix_and_namespace(on: Fixture) {
    let longer = Fixture::new(on.store.clone(), &format!("{}2", on.ns));
    on.note(&[("a", 1), ("ab", 1), ("abc", 1), ("b", 1)]).await;
    longer.note(&[("ax", 1)]).await;
    assert_eq!(on.keys("ab", None, 100).await, ["ab", "abc"]);
    assert_eq!(on.keys("ab", Some("ab"), 100).await, ["abc"]);
    assert_eq!(on.keys("ab", Some("a"), 100).await, ["ab", "abc"]);
    assert!(on.keys("ab", Some("b"), 100).await.is_empty());
    assert!(on.keys("c", None, 100).await.is_empty());
    assert_eq!(longer.keys("", None, 100).await, ["ax"]);
}

pub(super) async fn days_come_ascending_within_their_bounds(on: Fixture) {
    on.note(&[("k", 5), ("k", -3), ("k", 0), ("k", Day::MAX), ("k", Day::MIN), ("kk", 1)]).await;
    on.note(&[("k", 5)]).await;
    assert_eq!(on.days("k", Day::MIN, Day::MAX).await, [Day::MIN, -3, 0, 5, Day::MAX]);
    assert_eq!(on.days("k", -3, 5).await, [-3, 0, 5]);
    assert_eq!(on.days("k", 1, 4).await, [0; 0]);
    assert_eq!(on.days("k", 5, -3).await, [0; 0]);
    assert_eq!(on.days("none", Day::MIN, Day::MAX).await, [0; 0]);
}
