//! The suite on a real cluster: `BRAID_CQL_NODES` names one, `host:port` or several; `scripts/cassandra` starts one.
//! Where it encrypts and asks for a password, `BRAID_CQL_CA` names the certificate to trust.

use std::sync::Arc;

use super::*;
use crate::clock::{Clock, SystemClock};
use crate::model::TimeRange;
use crate::store::conformance::{self, Fixture, block, read_all, scan_of};

/// A store on the cluster in a keyspace that this run of the tests made, or nothing where no cluster is named.
async fn store() -> Option<Arc<CqlStore>> {
    let Ok(nodes) = std::env::var("BRAID_CQL_NODES") else {
        eprintln!("skipped: BRAID_CQL_NODES names no node that speaks CQL");
        return None;
    };
    let nodes: Vec<String> = nodes.split(',').map(str::to_owned).collect();
    let replication = Replication::Everywhere(u16::try_from(nodes.len()).expect("a few"));
    let tls = std::env::var_os("BRAID_CQL_CA").map(|ca| CqlTls { ca: ca.into(), identity: None });
    let login = tls.as_ref().map(|_| ("cassandra".to_owned(), "cassandra".to_owned()));
    let keyspace = format!("test_{:08x}", rand::random::<u32>());
    let options = CqlOptions { nodes, keyspace, login, tls, ..CqlOptions::default() };
    let tables = CqlTables { replication, ..CqlTables::default() };
    let missing = CqlStore::open(&options).await.err().expect("a keyspace that nobody made can't be opened");
    assert!(missing.message.contains("braid store init"), "{missing}");
    for _ in 0..2 {
        init(&options, &tables).await.expect("the tables are made, and made again without harm");
    }
    Some(CqlStore::open(&options).await.expect("the store opens"))
}

async fn drop_keyspace(store: &CqlStore) {
    let keyspace = store.statements.days.get_keyspace_name().expect("it has one");
    store.session.query_unpaged(format!("DROP KEYSPACE {keyspace}"), ()).await.expect("the keyspace is dropped");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cluster_does_what_every_store_must() {
    let Some(store) = store().await else { return };
    conformance::run(store.clone(), "a").await;
    a_block_that_was_deleted_stays_deleted_however_late_it_is_written_again(Fixture::new(store.clone(), "late")).await;
    a_page_ends_within_a_partition_and_the_next_goes_on_there(Fixture::new(store.clone(), "within")).await;
    a_walk_over_thousands_of_keys_is_whole(Fixture::new(store.clone(), "walk")).await;
    the_clock_of_the_cluster_is_near_ours(&store).await;
    tables_that_do_not_fit_are_refused(&store).await;
    drop_keyspace(&store).await;
}

async fn a_block_that_was_deleted_stays_deleted_however_late_it_is_written_again(on: Fixture) {
    let p = on.partition("k", 0, 0);
    let (late, other) = (block(&p, 1, 2, 1_700_000_000_000_000_000, "late"), block(&p, 1, 2, 5, "other"));
    on.append(vec![late.clone(), other.clone()]).await;
    on.store.delete(&p, &[late.address]).await.expect("the delete succeeds");
    on.append(vec![late]).await;
    assert_eq!(on.addresses(&p).await, [other.address]);
}

async fn a_page_ends_within_a_partition_and_the_next_goes_on_there(on: Fixture) {
    let p = on.partition("k", 0, 0);
    let blocks: Vec<_> = (0..80).map(|id| block(&p, id, id, id.cast_unsigned(), vec![id as u8; 250_000])).collect();
    for some in blocks.chunks(8) {
        on.append(some.to_vec()).await;
    }
    let scan = scan_of(vec![p.clone()], TimeRange::ALL);
    let first = on.store.scan(&scan, None).await.expect("the scan succeeds");
    assert!(first.next.is_some() && first.answered.is_empty() && first.blocks.len() < 80, "{} blocks", first.blocks.len());
    let all = read_all(&*on.store, &scan).await.expect("the scan succeeds");
    assert_eq!(all[0].iter().map(|block| block.address).collect::<Vec<_>>(), blocks.iter().map(|block| block.address).collect::<Vec<_>>());
}

async fn a_walk_over_thousands_of_keys_is_whole(on: Fixture) {
    let keys: Vec<Arc<str>> = (0..6_000).map(|i| format!("key/{i:05}").into()).collect();
    let days: Vec<_> = keys.iter().map(|key| (key.clone(), 1)).collect();
    on.store.note_days(&on.ns, &days).await.expect("the note succeeds");
    let found = on.store.keys(&on.ns, "key/", None, 10_000).await.expect("the read succeeds");
    assert!(found.iter().map(String::as_str).eq(keys.iter().map(|key| &**key)), "{} keys", found.len());
    assert_eq!(on.store.keys(&on.ns, "key/0599", Some("key/05997"), 10).await.expect("the read succeeds"), ["key/05998", "key/05999"]);
}

async fn the_clock_of_the_cluster_is_near_ours(store: &CqlStore) {
    let theirs = store.read_clock().await.expect("the read succeeds").expect("it has a clock").nanos();
    let ahead = theirs - SystemClock.now().nanos();
    assert!(ahead.abs() < 10_000_000_000, "it runs on this machine, and yet is {ahead} ns ahead");
}

async fn tables_that_do_not_fit_are_refused(store: &CqlStore) {
    let keyspace = store.statements.days.get_keyspace_name().expect("it has one");
    store.session.query_unpaged(format!("ALTER TABLE {keyspace}.documents DROP etag"), ()).await.expect("the column is dropped");
    let refused = schema::check(&store.session, keyspace).await.expect_err("a column is missing");
    assert!(refused.message.contains("documents.etag is missing"), "{refused}");
}
