//! `GET /v1/{ns}/explain`: the plan of a read, without reading.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use braid_shared::cold::Groups;
use braid_shared::cold::rules::Published;
use braid_shared::model::{TimeRange, Timestamp};
use braid_shared::params::Params;
use serde::Serialize;

use super::answers::close;
use super::{Call, Place, aggregate, events, json, params};
use crate::cold::TableRead;
use crate::error::QueryError;
use crate::json::put;
use crate::plan::Selection;
use crate::read::{Asked, Reader, Target};
use crate::walk::Planned;

#[derive(Serialize)]
struct PartitionJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    bucket: String,
    version: u64,
    shards: u32,
    suffix: u32,
}

#[derive(Serialize)]
struct TableJson<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    key: Option<&'a str>,
    bucket: String,
    version: u64,
    group: u32,
    table: u32,
    database: Option<&'a str>,
    files: Vec<&'a str>,
    /// What this node's last calls to the database came to, where they failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

pub(super) async fn partitions(call: Call, _place: Place) -> Result<Response, QueryError> {
    let params = call.params(&[events::ONCE, aggregate::ONCE].concat(), &[events::REPEATABLE, aggregate::REPEATABLE].concat())?;
    let asked = asked(&call, &params)?;
    let broadcast = matches!(asked.target, Target::Prefix(_));
    let mut reader = Reader::open(call.query.clone(), asked, i64::MAX).await?;
    let (planned, tables) = reader.explain().await?;
    let partitions: Vec<_> = planned.iter().map(|planned| PartitionJson::of(planned, broadcast)).collect();
    let groups = call.query.fresh(&call.namespace()?).await?.namespace.groups.clone();
    let tables: Vec<_> = tables.iter().map(|table| TableJson::of(&call, table, &groups, reader.range(), broadcast)).collect();
    let mut body = b"{\"partitions\":".to_vec();
    put(&mut body, &partitions);
    body.extend_from_slice(b",\"tables\":");
    put(&mut body, &tables);
    close(&reader.tally, &mut body);
    Ok(json(StatusCode::OK, body))
}

/// The read that is explained; its other parameters are checked as if it were run.
fn asked(call: &Call, params: &Params<'_>) -> Result<Asked, QueryError> {
    params::limit(params)?;
    let mut asked = params::asked(call, params)?;
    aggregate::spec(params, &asked)?;
    if let Some(id) = params.get("id") {
        events::refuse_with_id(params)?;
        let id = Some(params::checked_id(id)?);
        asked.selection = Arc::new(Selection { id, filter: asked.selection.filter.clone() });
        asked.from = params::time(call, params, "ts")?;
        asked.to = asked.from.map(|ts| Timestamp::from_nanos(ts.nanos().saturating_add(1)));
    }
    Ok(asked)
}

impl<'a> TableJson<'a> {
    fn of(call: &Call, read: &'a TableRead, groups: &'a Groups, range: TimeRange, broadcast: bool) -> TableJson<'a> {
        let Published { group, table, .. } = read.published;
        let database = groups.database(group, table);
        let faults = database.map(|database| call.query.tables.databases().faults(database)).unwrap_or_default();
        TableJson {
            key: broadcast.then_some(&*read.bucket.key),
            bucket: read.bucket.start.to_string(),
            version: read.bucket.layout.version.revision,
            group,
            table,
            database: database.map(|database| &*database.name),
            files: read.files(range).map(|file| &*file.path).collect(),
            fault: (!faults.is_empty()).then(|| faults.join("; ")),
        }
    }
}

impl PartitionJson<'_> {
    fn of(planned: &Planned, broadcast: bool) -> PartitionJson<'_> {
        PartitionJson {
            key: broadcast.then_some(&*planned.partition.key),
            bucket: planned.partition.bucket.to_string(),
            version: planned.partition.version.revision,
            shards: planned.epoch.layout.shards,
            suffix: planned.partition.suffix,
        }
    }
}
