//! Placement: every row goes where the catalog's timelines say, whatever the request looks like.

use std::borrow::Cow;
use std::collections::HashSet;

use braid_shared::catalog::{NamespaceView, NewLayout, NewNamespace};
use braid_shared::layout::ShardBy;
use braid_shared::model::{Batch, Namespace, Row, Span, Timestamp};
use proptest::prelude::*;

use super::{NOW, Server, seconds, server};
use crate::route::route;

const KEYS: [&str; 3] = ["own", "default", "other"];
/// Hours before now that rows of the tests fall into.
const HOURS: i64 = 4;

fn ns() -> Namespace {
    "shop".parse().unwrap()
}

/// Timelines with epochs of a key's own and of the default, by id and by tag.
async fn timelines() -> std::sync::Arc<NamespaceView> {
    let server = server().await;
    server.catalog.create_namespace(&ns(), NewNamespace { bucket: seconds(60), ..crate::admit::first_layout() }).await.unwrap();
    publish(&server, Some("own"), 7, Some(ShardBy::Tag("t".into()))).await;
    publish(&server, None, 1, None).await;
    publish(&server, Some("own"), 64, Some(ShardBy::Id)).await;
    server.catalog.namespace(&ns()).await.unwrap().1
}

/// Publishes an epoch that begins as soon as it may, one hour after the last.
async fn publish(server: &Server, key: Option<&str>, shards: u32, shard_by: Option<ShardBy>) {
    server.clock.advance(Span::HOUR.duration());
    let new = NewLayout { shards, bucket: None, shard_by, effective_from: None };
    server.catalog.publish_layout(&ns(), key, new).await.unwrap();
}

type Spec = (usize, i64, String, Option<String>);

fn spec() -> impl Strategy<Value = Spec> {
    let span = HOURS * Span::HOUR.nanos();
    let ts = prop_oneof![0..span, (0..HOURS * 60).prop_map(|minute| minute * 60_000_000_000), Just(-span)];
    (0..KEYS.len(), ts, "[a-c]{0,2}", proptest::option::of("[a-c]{0,2}"))
}

fn batch(specs: &[Spec]) -> Batch<'_> {
    let mut batch = Batch::default();
    for (i, (key, ts, id, tag)) in specs.iter().enumerate() {
        let from = batch.tags.len() as u32;
        batch.tags.extend(tag.iter().map(|value| (Cow::Borrowed("t"), Cow::Borrowed(value.as_str()))));
        let ts = Some(Timestamp::from_nanos(NOW.nanos() + ts));
        let (id, tags) = (Some(Cow::Borrowed(id.as_str())), from..batch.tags.len() as u32);
        batch.rows.push(Row { index: i as u32, line: 0, key: KEYS[*key].into(), id, ts, fields: 0..0, tags });
    }
    batch
}

fn check(timelines: &NamespaceView, specs: &[Spec]) -> Result<(), TestCaseError> {
    let batch = batch(specs);
    let routed = route(&ns(), &batch, timelines);
    let (mut rows, mut partitions) = (HashSet::new(), HashSet::new());
    for group in &routed.groups {
        prop_assert!(partitions.insert(group.partition.clone()), "a partition in two groups");
        let indexes: Vec<u32> = routed.rows(group, &batch).map(|row| row.index).collect();
        prop_assert!(indexes.is_sorted(), "rows keep their order");
        prop_assert_eq!(indexes.len(), group.len());
        for row in routed.rows(group, &batch) {
            prop_assert!(rows.insert(row.index), "a row in two partitions");
            let (ts, partition) = (row.ts.unwrap(), &group.partition);
            let layout = timelines.layout_at(&row.key, ts);
            let tag = batch.tags_of(row).first().map(|(_, value)| &**value);
            let placed = (&*partition.key, partition.version, partition.bucket, partition.suffix);
            let wanted = (&*row.key, layout.version, layout.bucket(ts), layout.suffix(row.id.as_deref().unwrap(), tag));
            prop_assert_eq!(placed, wanted);
            prop_assert_eq!(&group.layout, layout);
        }
    }
    prop_assert_eq!(rows.len(), specs.len());
    Ok(())
}

#[tokio::test]
async fn every_row_goes_where_its_layout_at_its_time_says() {
    let timelines = timelines().await;
    let mut runner = proptest::test_runner::TestRunner::default();
    runner.run(&proptest::collection::vec(spec(), 0..200), |specs| check(&timelines, &specs)).unwrap();
}
