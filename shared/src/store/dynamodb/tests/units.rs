//! What operations cost, as the engine itself says it.

use super::*;

fn spent(store: &DynamoStore, what: &str, purpose: &str) -> f64 {
    metric(&store.options.registry, &format!("braid_dynamodb_{what}_units_total"), &[("namespace", "n"), ("purpose", purpose)])
}

#[tokio::test(flavor = "multi_thread")]
async fn units_are_kept_by_namespace_purpose_and_key() {
    let engine = TestEngine::start().await;
    let store = store(&engine).await;
    let p = conformance::partition(&"n".parse().unwrap(), "k", 0, 0);
    let block = |id, bytes| EncodedBlock { events: 40, ..conformance::block(&p, 1, 2, id, vec![7; bytes]) };
    store.append(vec![block(1, 500), block(2, 5_000)]).await.unwrap();
    assert_eq!(spent(&store, "write", "blocks"), 1.0 + 5.0);
    assert_eq!(metric(&store.options.registry, "braid_dynamodb_key_write_units_total", &[("namespace", "n"), ("key", "k")]), 6.0);
    assert_eq!(metric(&store.options.registry, "braid_dynamodb_events_total", &[("namespace", "n")]), 80.0);

    let notes: Vec<_> = (0..3).map(|day| ("k".into(), day)).collect();
    store.note_days(&p.ns, &notes).await.unwrap();
    assert_eq!(spent(&store, "write", "directory"), 4.0, "three days and a name");
    store.note_days(&p.ns, &[("k".into(), 3)]).await.unwrap();
    assert_eq!(spent(&store, "write", "directory"), 5.0, "the name is noted already");

    assert_eq!(conformance::blocks_of(&*store, &p).await.len(), 2);
    assert_eq!(spent(&store, "read", "blocks"), 2.0, "5.7 kB, by 4 kB");
    assert_eq!(metric(&store.options.registry, "braid_dynamodb_scan_read_units", &[]), 2.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_bucket_is_read_without_its_beginning() {
    let engine = TestEngine::start().await;
    let store = store(&engine).await;
    let p = conformance::partition(&"n".parse().unwrap(), "k", 0, 0);
    let second = 1_000_000_000;
    store
        .append((0..600).map(|id| conformance::block(&p, id * second, id * second + 1, id as u64, vec![7; 8_000])).collect())
        .await
        .unwrap();
    let range = crate::model::TimeRange {
        from: crate::model::Timestamp::from_nanos(590 * second),
        to: crate::model::Timestamp::from_nanos(600 * second),
    };
    let scan = conformance::scan_of(vec![p], range);
    assert_eq!(conformance::read_all(&*store, &scan).await.unwrap()[0].len(), 10);
    let units = spent(&store, "read", "blocks");
    assert!(units <= 24.0, "{units} units for 80 kB in one of four lanes; the whole bucket has 4.8 MB");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moment_costs_the_blocks_that_its_lanes_are_looked_back_for() {
    let engine = TestEngine::start().await;
    let store = store(&engine).await;
    let (ms, hour) = (1_000_000, 3_600_000_000_000_i64);
    // Blocks of 4 kB, one behind the other, that last so long; and in how many of them a moment of their lane lies, or just behind it.
    for (number, (lasts, most)) in [(20 * ms, 14), (1_000 * ms, 7), (30_000 * ms, 5), (300_000 * ms, 12)].into_iter().enumerate() {
        let p = conformance::partition(&"n".parse().unwrap(), &format!("{lasts}"), 0, 0);
        let blocks = (0..(hour / lasts).min(400)).map(|id| {
            let begins = hour - (id + 1) * lasts;
            conformance::block(&p, begins, begins + lasts - 1, id as u64, vec![7; 3_900])
        });
        store.append(blocks.collect()).await.unwrap();
        let before = spent(&store, "read", "blocks");
        let moment = crate::model::Timestamp::from_nanos(hour - lasts / 2);
        let range = crate::model::TimeRange { from: moment, to: crate::model::Timestamp::from_nanos(moment.nanos() + 1) };
        assert_eq!(conformance::read_all(&*store, &conformance::scan_of(vec![p], range)).await.unwrap()[0].len(), 1);
        let units = spent(&store, "read", "blocks") - before;
        assert!(units <= f64::from(most) + 3.0, "case {number}: {units} units, of which three are lanes that hold nothing");
    }
}
