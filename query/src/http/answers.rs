//! The members that every answer has, and layouts as they are listed.

use braid_shared::catalog::{Audit, ListedLayout};
use braid_shared::model::Timestamp;
use braid_shared::store::Consistency;
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::Missing;
use crate::json::put;
use crate::tally::Tally;

/// A layout as it is listed.
#[derive(Debug, Serialize)]
pub(super) struct LayoutJson {
    version: u64,
    shards: u32,
    bucket: String,
    shard_by: String,
    from: Option<String>,
    state: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    published: Option<AuditJson>,
    #[serde(skip_serializing_if = "Option::is_none")]
    withdrawal: Option<AuditJson>,
}

/// Who changed something, when and why.
#[derive(Debug, Serialize)]
pub(super) struct AuditJson {
    at: String,
    author: Option<String>,
    reason: Option<String>,
    automatic: bool,
}

impl From<&Audit> for AuditJson {
    fn from(audit: &Audit) -> AuditJson {
        let Audit { author, reason, automatic, .. } = audit.clone();
        AuditJson { at: audit.at().to_string(), author, reason, automatic }
    }
}

#[derive(Serialize)]
struct Shards {
    planned: usize,
    answered: usize,
}

#[derive(Serialize)]
struct Account {
    from: Option<String>,
    to: String,
    complete: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    consistency: Option<&'static str>,
    shards: Shards,
    #[serde(skip_serializing_if = "Option::is_none")]
    table_reads: Option<Shards>,
    layouts: Vec<LayoutJson>,
    revision: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    broadcast: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    missing: Vec<Value>,
}

impl LayoutJson {
    /// A layout of a timeline, by a horizon that was just read.
    pub(super) fn listed(listed: &ListedLayout, horizon: Timestamp) -> LayoutJson {
        let state = match listed {
            listed if listed.is_withdrawn() => "withdrawn",
            ListedLayout { from, .. } if *from >= horizon => "scheduled",
            _ => "active",
        };
        LayoutJson {
            version: listed.layout.version.revision,
            shards: listed.layout.shards,
            bucket: listed.layout.bucket.to_string(),
            shard_by: listed.layout.shard_by.to_string(),
            from: start(listed.from),
            state,
            published: listed.published.as_deref().map(AuditJson::from),
            withdrawal: listed.withdrawn.as_ref().and_then(|set| set.audit.as_deref()).map(AuditJson::from),
        }
    }
}

/// A start of time; null where it is −∞.
fn start(from: Timestamp) -> Option<String> {
    (from != Timestamp::MIN).then(|| from.to_string())
}

/// Ends an object that has members already with the account of its read.
pub(super) fn close(tally: &Tally, out: &mut Vec<u8>) {
    out.push(b',');
    let start = out.len();
    put(out, &account(tally));
    out.remove(start);
}

fn account(tally: &Tally) -> Account {
    // What is consulted lies below the horizon, so all of it is active.
    let layouts = tally.layouts.values().map(|epoch| {
        let listed = ListedLayout { layout: (*epoch.layout).clone(), from: epoch.range.from, published: None, withdrawn: None };
        LayoutJson::listed(&listed, Timestamp::MAX)
    });
    Account {
        from: tally.bounded.then(|| tally.range.from.to_string()),
        to: tally.range.to.to_string(),
        complete: tally.complete(),
        consistency: (tally.consistency == Consistency::Eventual).then_some("eventual"),
        shards: Shards { planned: tally.shards_planned(), answered: tally.shards_answered() },
        table_reads: (tally.tables.0 > 0).then_some(Shards { planned: tally.tables.0, answered: tally.tables.1 }),
        layouts: layouts.collect(),
        revision: tally.revision,
        broadcast: tally.broadcast,
        missing: tally.missing.iter().map(missing_json).collect(),
    }
}

/// A partition that is missing.
pub(super) fn missing_json(missing: &Missing) -> Value {
    json!({
        "key": missing.key,
        "bucket": missing.bucket.to_string(),
        "version": missing.version.revision,
        "suffix": missing.suffix,
        "reason": missing.reason,
    })
}
