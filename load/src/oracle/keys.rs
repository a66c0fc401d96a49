//! Which keys a verified run reads back, and whether what stands there can be told from what was there before.

use std::collections::{BTreeSet, HashSet};

use braid_shared::model::Namespace;
use serde::Deserialize;

use crate::client::{Call, Connection, Verdict, encode};
use crate::exit::NotStarted;
use crate::workload::Workload;

/// Keys of a page.
const PAGE: usize = 10_000;

/// A body that was read whole, and parsed.
async fn get<T: for<'a> Deserialize<'a> + Default>(connection: &mut Connection, path: &str) -> Result<T, String> {
    let mut parsed = Ok(T::default());
    let judge = |status: hyper::StatusCode, body: &[u8]| {
        if status == hyper::StatusCode::NOT_FOUND {
            // A namespace that nobody wrote to yet holds nothing.
            return Verdict::Done(crate::client::Answer::default());
        }
        if !status.is_success() {
            return crate::client::by_status(status, body);
        }
        parsed = serde_json::from_slice(body).map_err(|error| format!("{path}: not the answer that was expected: {error}"));
        Verdict::Done(crate::client::Answer::default())
    };
    connection.deliver(&Call::get(path)?, judge).await.result.map_err(|failure| format!("{path}: {failure}"))?;
    parsed
}

#[derive(Default, Deserialize)]
struct Listed {
    keys: Vec<String>,
    next: Option<String>,
}

/// Keys of the namespace that begin with `prefix`.
pub(crate) async fn listed(connection: &mut Connection, namespace: &Namespace, prefix: &str) -> Result<BTreeSet<String>, String> {
    let (mut all, mut cursor) = (BTreeSet::new(), String::new());
    let prefix = encode(prefix);
    loop {
        let page: Listed = get(connection, &format!("/v1/{namespace}/keys?prefix={prefix}&limit={PAGE}{cursor}")).await?;
        all.extend(page.keys);
        match page.next {
            Some(next) => cursor = format!("&cursor={}", encode(&next)),
            None => return Ok(all),
        }
    }
}

#[derive(Default, Deserialize)]
struct Page {
    events: Vec<serde_json::Value>,
}

/// Makes sure that nothing stands where the run will write, so that what stands there afterwards is
/// the run's. Gives the keys that were there; of these only what is not before the run's earliest event is read.
pub(crate) async fn before(
    connection: &mut Connection,
    namespace: &Namespace,
    workload: &Workload,
) -> Result<BTreeSet<String>, NotStarted> {
    let old = listed(connection, namespace, workload.keys.prefix()).await.map_err(NotStarted::unavailable)?;
    for key in &old {
        let path = format!("/v1/{namespace}/events?key={}&from={}&limit=1", encode(key), workload.earliest());
        let page: Page = get(connection, &path).await.map_err(NotStarted::unavailable)?;
        if !page.events.is_empty() {
            return Err(format!(
                "key {key} of namespace {namespace} already holds events of the time that the run writes to; \
                 a verified run needs --key, --namespace or --start of its own"
            )
            .into());
        }
    }
    Ok(old)
}

/// The keys of the first `slots` slots.
pub(crate) fn used(workload: &Workload, slots: u64) -> BTreeSet<String> {
    let keys: HashSet<u32> = (0..slots).map(|slot| workload.event(slot).key).collect();
    keys.into_iter().map(|key| workload.keys.name(key)).collect()
}
