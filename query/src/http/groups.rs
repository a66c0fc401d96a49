//! `/v1/{ns}/groups`: where a namespace's cold history lies; adding a group.

use axum::http::StatusCode;
use axum::response::Response;
use braid_shared::catalog::CatalogError;
use braid_shared::cold::path::namespace_dir;
use braid_shared::cold::{Database, Group};
use braid_shared::model::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::layout::event_time;
use super::namespaces::parse_body;
use super::{Body, Call, Place, json};
use crate::error::QueryError;
use crate::json::put;

/// A group to add, as it is sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewGroupJson {
    from: Option<Value>,
    tables: u32,
    databases: Vec<Database>,
}

#[derive(Serialize)]
struct GroupJson<'a> {
    group: usize,
    from: Option<String>,
    tables: u32,
    databases: Vec<DatabaseJson<'a>>,
}

#[derive(Serialize)]
struct DatabaseJson<'a> {
    #[serde(flatten)]
    database: &'a Database,
    #[serde(skip_serializing_if = "Option::is_none")]
    reachable: Option<bool>,
    /// What a check found, or what this node's last calls came to.
    #[serde(skip_serializing_if = "Option::is_none")]
    fault: Option<String>,
}

pub(super) async fn list(call: Call, _place: Place) -> Result<Response, QueryError> {
    let params = call.params(&["check"], &[])?;
    let check = params.parsed("check", |text| text.parse::<bool>().map_err(|_| format!("{text:?} is not true or false")))?.unwrap_or(false);
    answer(&call, StatusCode::OK, check).await
}

pub(super) async fn add(call: Call, _place: Place, body: Body) -> Result<Response, QueryError> {
    call.params(&[], &[])?;
    let body: NewGroupJson = parse_body(body)?;
    let from = body.from.filter(|from| !from.is_null()).map(|from| event_time(&call, "from", &from)).transpose()?;
    let group = Group { tables: body.tables, databases: body.databases };
    group.check().map_err(|fault| QueryError::Invalid(fault.to_string()))?;
    for database in &group.databases {
        probe(&call, database).await?;
    }
    call.query.catalog.add_group(&call.namespace()?, from, group).await?;
    answer(&call, StatusCode::CREATED, false).await
}

/// Whether a database can be written and read.
async fn probe(call: &Call, database: &Database) -> Result<(), QueryError> {
    Ok(call.query.tables.databases().probe(database, &namespace_dir(&call.namespace()?)).await?)
}

/// Answers with the groups as the catalog has them now.
async fn answer(call: &Call, status: StatusCode, check: bool) -> Result<Response, QueryError> {
    let (ns, view) = (call.namespace()?, call.query.catalog.refresh().await?);
    let namespace = view.namespace(&ns).ok_or_else(|| CatalogError::NamespaceNotFound(ns.clone()))?;
    let mut groups = Vec::new();
    for (at, (from, group)) in namespace.groups.listed().enumerate() {
        let mut databases = Vec::new();
        for database in &group.databases {
            let probed = if check { probe(call, database).await.err() } else { None };
            let known = call.query.tables.databases().faults(database);
            let fault = probed.as_ref().map(ToString::to_string).or_else(|| (!known.is_empty()).then(|| known.join("; ")));
            databases.push(DatabaseJson { database, reachable: check.then_some(probed.is_none()), fault });
        }
        groups.push(GroupJson { group: at + 1, from: instant(from), tables: group.tables, databases });
    }
    let mut body = b"{\"groups\":".to_vec();
    put(&mut body, &groups);
    for (name, instant) in [("closing", instant(namespace.cold.closing)), ("dropped", instant(namespace.cold.dropped))] {
        body.extend_from_slice(format!(",\"{name}\":").as_bytes());
        put(&mut body, &instant);
    }
    body.extend_from_slice(format!(",\"revision\":{}}}", view.revision).as_bytes());
    Ok(json(status, body))
}

/// An instant; null where it is −∞.
fn instant(at: Timestamp) -> Option<String> {
    (at != Timestamp::MIN).then(|| at.to_string())
}
