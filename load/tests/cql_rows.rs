//! `braid-load run --target cql-rows`, the real program, against the cluster that `BRAID_CQL_NODES` names
//! (without TLS; `scripts/cassandra` starts one). Skipped, and said so, where none is.

use std::process::Command;

use scylla::client::session_builder::SessionBuilder;

#[tokio::test]
async fn every_event_is_a_row_and_an_event_that_is_sent_twice_is_one() {
    let Ok(nodes) = std::env::var("BRAID_CQL_NODES") else {
        return eprintln!("skipped: BRAID_CQL_NODES names no node that speaks CQL");
    };
    let keyspace = format!("test_{:08x}", rand::random::<u32>());
    let words = ["run", "--target", "cql-rows", "--cql-nodes", &nodes, "--namespace", &keyspace, "--json", "--rate", "max"];
    let events = ["--events", "3000", "--duplicates", "10%", "--keys", "3", "--start", "1700000000000", "--spacing", "1s", "--seed", "7"];
    let output = Command::new(env!("CARGO_BIN_EXE_braid-load")).args(words).args(events).output().unwrap();
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    assert_eq!((output.status.code(), &json["stored"]), (Some(0), &3_000.into()), "{output:?}");

    let session = SessionBuilder::new().known_nodes(nodes.split(',')).build().await.unwrap();
    let rows = session.query_unpaged(format!("SELECT key, id FROM {keyspace}.events"), ()).await.unwrap().into_rows_result().unwrap();
    let found: Vec<(String, String)> = rows.rows::<(String, String)>().unwrap().map(Result::unwrap).collect();
    let distinct: std::collections::HashSet<_> = found.iter().collect();
    assert_eq!(distinct.len(), found.len());
    assert!((2_600..2_800).contains(&found.len()), "{}", found.len());
    assert!(found.iter().all(|(key, id)| key.starts_with("hot-") && id.len() == 16), "{found:?}");
    session.query_unpaged(format!("DROP KEYSPACE {keyspace}"), ()).await.unwrap();
}
