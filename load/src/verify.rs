//! A verified run: look before, note while it writes, read everything back after.

use std::collections::BTreeSet;
use std::sync::Arc;

use braid_shared::model::Namespace;
use serde::Serialize;
use tokio::time::Instant;

use crate::client::{Connection, Endpoint, Format};
use crate::exit::NotStarted;
use crate::history::History;
use crate::oracle::file::FileHistory;
use crate::oracle::read_back::ReadBack;
use crate::oracle::{self, Oracle, keys};
use crate::workload::Workload;

/// What is kept from before a verified run to after it.
pub(crate) struct Verify {
    endpoint: Arc<Endpoint>,
    namespace: Namespace,
    format: Format,
    connections: u16,
    workload: Arc<Workload>,
    old: BTreeSet<String>,
    pub(crate) history: Arc<History>,
}

/// How verification ended.
#[derive(Debug, Serialize)]
pub(crate) struct Verification {
    #[serde(flatten)]
    pub(crate) verdict: oracle::Verdict,
    /// How long it took to read everything back.
    pub(crate) seconds: f64,
}

impl Verify {
    /// Before the run: nothing may stand where it will write.
    pub(crate) async fn before(
        endpoint: Arc<Endpoint>,
        namespace: Namespace,
        workload: Arc<Workload>,
        format: Format,
        connections: u16,
    ) -> Result<Verify, NotStarted> {
        let mut connection = Connection::new(Arc::clone(&endpoint));
        let old = keys::before(&mut connection, &namespace, &workload).await?;
        Ok(Verify { endpoint, namespace, format, connections, workload, old, history: Arc::default() })
    }

    /// After the run, of `slots` slots: reads everything back. The error says why that could not be done.
    pub(crate) async fn after(self, slots: u64) -> Result<Verification, String> {
        let began = Instant::now();
        let mut connection = Connection::new(Arc::clone(&self.endpoint));
        let mut keys = keys::listed(&mut connection, &self.namespace, self.workload.keys.prefix()).await?;
        // Of the keys that were there before only those are read that the run may have written to.
        keys.retain(|key| !self.old.contains(key));
        keys.extend(keys::used(&self.workload, slots));
        let read_back = ReadBack {
            endpoint: self.endpoint,
            namespace: self.namespace,
            keys,
            old: self.old,
            earliest: self.workload.earliest(),
            connections: self.connections,
        };
        let oracle = Oracle::new(self.workload, self.history, slots, self.format);
        let verdict = read_back.run(oracle).await?.verdict();
        Ok(Verification { verdict, seconds: began.elapsed().as_secs_f64() })
    }
}

/// Before a replay: its namespace must be empty.
pub(crate) async fn before_replay(endpoint: &Arc<Endpoint>, namespace: &Namespace) -> Result<(), NotStarted> {
    let mut connection = Connection::new(Arc::clone(endpoint));
    match keys::listed(&mut connection, namespace, "").await.map_err(NotStarted::unavailable)?.first() {
        None => Ok(()),
        Some(key) => Err(format!("namespace {namespace} already holds key {key}; a verified replay needs a --namespace of its own").into()),
    }
}

/// After a replay: reads everything back.
pub(crate) async fn after_replay(
    endpoint: Arc<Endpoint>,
    namespace: Namespace,
    connections: u16,
    history: FileHistory,
) -> Result<Verification, String> {
    let began = Instant::now();
    let oracle = history.into_oracle();
    let mut keys = keys::listed(&mut Connection::new(Arc::clone(&endpoint)), &namespace, "").await?;
    keys.extend(oracle.keys());
    let read_back = ReadBack { endpoint, namespace, keys, old: BTreeSet::new(), earliest: 0, connections };
    let verdict = read_back.run(oracle).await?.verdict();
    Ok(Verification { verdict, seconds: began.elapsed().as_secs_f64() })
}
