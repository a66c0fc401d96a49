//! The baseline that Braid on CQL is measured against: one row an event, through the same driver, at
//! the same consistency.
//!
//! A table as one would make it by hand: partitioned by key and hour, clustered by time and id. Each
//! event is an insert of its own; so many of a portion are under way together.

use futures::StreamExt;
use scylla::client::session::Session;
use scylla::client::session_builder::SessionBuilder;
use scylla::statement::prepared::PreparedStatement;
use tokio::time::Instant;

use crate::client::patience::Patience;
use crate::client::{Answer, Delivery, Failure};
use crate::workload::write::{hex, note};
use crate::workload::{Event, Portion, REGIONS, Workload};

/// Milliseconds of a partition.
const HOUR: i64 = 3_600_000;
/// Rows of one portion that are under way at once.
const IN_FLIGHT: usize = 64;

/// A table of rows.
pub(crate) struct Rows {
    session: Session,
    insert: PreparedStatement,
    patience: Patience,
}

impl Rows {
    /// Connects and makes the table, with a copy on each of `nodes`.
    pub(crate) async fn connect(nodes: &str, keyspace: &str, patience: Patience) -> Result<Rows, String> {
        let nodes: Vec<&str> = nodes.split(',').collect();
        let failed = |error: &dyn std::fmt::Display| format!("{}: {error}", nodes.join(","));
        let session = SessionBuilder::new().known_nodes(&nodes).build().await.map_err(|error| failed(&error))?;
        let copies = nodes.len();
        for statement in [
            format!(
                "CREATE KEYSPACE IF NOT EXISTS \"{keyspace}\" WITH replication = {{'class': 'NetworkTopologyStrategy', 'replication_factor': {copies}}}"
            ),
            format!(
                "CREATE TABLE IF NOT EXISTS \"{keyspace}\".events (key text, hour bigint, ts bigint, id text, amount double, qty bigint, \
                 region text, note text, PRIMARY KEY ((key, hour), ts, id))"
            ),
        ] {
            session.query_unpaged(statement, ()).await.map_err(|error| failed(&error))?;
        }
        let insert =
            format!("INSERT INTO \"{keyspace}\".events (key, hour, ts, id, amount, qty, region, note) VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
        let mut insert = session.prepare(insert).await.map_err(|error| failed(&error))?;
        insert.set_is_idempotent(true);
        insert.set_consistency(scylla::statement::Consistency::LocalQuorum);
        Ok(Rows { session, insert, patience })
    }

    /// Inserts every event of a portion; again those that failed, as long as is allowed.
    pub(crate) async fn write(&self, workload: &Workload, portion: Portion) -> Delivery {
        let started = Instant::now();
        let inserts: Vec<_> = workload.events(portion).map(|event| self.insert(workload, event, started)).collect();
        let ended: Vec<_> = futures::stream::iter(inserts).buffer_unordered(IN_FLIGHT).collect().await;
        let retries: u64 = ended.iter().map(|(retries, _)| retries).sum();
        let failure = ended.into_iter().find_map(|(_, outcome)| outcome.err());
        let result = failure.map_or_else(|| Ok(Answer::all_stored(portion.events)), Err);
        Delivery { result, doubtful: retries > 0, started, ended: Instant::now(), retries, told_to_wait: 0, bytes: 0, units: 0.0 }
    }

    async fn insert(&self, workload: &Workload, event: Event, started: Instant) -> (u64, Result<(), Failure>) {
        let (key, id) = (workload.keys.name(event.key), hex(event.id));
        let id = std::str::from_utf8(&id).unwrap_or_default();
        let note = std::str::from_utf8(note(event.id, workload.shape.note_bytes)).unwrap_or_default();
        let amount = f64::from(event.cents) / 100.0;
        let row = (&*key, event.millis.div_euclid(HOUR), event.millis, id, amount, i64::from(event.quantity), REGIONS[event.region], note);
        let mut retries = 0;
        loop {
            let Err(error) = self.session.execute_unpaged(&self.insert, row).await else { return (retries, Ok(())) };
            if let Err(failure) = self.patience.pause(started, retries, None, error.to_string()).await {
                return (retries, Err(failure));
            }
            retries += 1;
        }
    }
}
