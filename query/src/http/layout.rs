//! `/v1/{ns}/layout`: the timeline; publishing and withdrawing a layout.

use axum::http::StatusCode;
use axum::response::Response;
use braid_shared::catalog::{CatalogError, ListedLayout, NamespaceView, NewLayout};
use braid_shared::model::{Precision, Span, Timestamp};
use braid_shared::params::Params;
use serde::Deserialize;
use serde_json::Value;

use super::answers::LayoutJson;
use super::namespaces::{parse_body, parse_shard_by};
use super::{Body, Call, Place, json, params};
use crate::error::QueryError;
use crate::json::put;

/// A layout to publish, as it is sent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewLayoutJson {
    key: Option<String>,
    shards: u32,
    bucket: Option<Span>,
    shard_by: Option<String>,
    effective_from: Option<Value>,
}

pub(super) async fn list(call: Call, _place: Place) -> Result<Response, QueryError> {
    let params = call.params(&["key"], &[])?;
    let (ns, key) = (call.namespace()?, key(&params)?);
    let view = call.query.catalog.refresh().await?;
    let namespace = view.namespace(&ns).ok_or_else(|| CatalogError::NamespaceNotFound(ns.clone()))?;
    let layouts: Vec<_> = timeline(namespace, key.as_deref()).iter().map(|listed| LayoutJson::listed(listed, view.horizon)).collect();
    let mut body = b"{\"layouts\":".to_vec();
    put(&mut body, &layouts);
    body.extend_from_slice(b",\"revision\":");
    put(&mut body, &view.revision);
    body.push(b'}');
    Ok(json(StatusCode::OK, body))
}

pub(super) async fn publish(call: Call, _place: Place, body: Body) -> Result<Response, QueryError> {
    call.params(&[], &[])?;
    let ns = call.namespace()?;
    let body: NewLayoutJson = parse_body(body)?;
    let key = body.key.as_deref().map(params::checked_key).transpose()?;
    let new = NewLayout {
        shards: body.shards,
        bucket: body.bucket,
        shard_by: body.shard_by.as_deref().map(parse_shard_by).transpose()?,
        effective_from: body.effective_from.map(|value| effective_from(&call, &value)).transpose()?,
    };
    let listed = call.query.catalog.publish_layout(&ns, key.as_deref(), new).await?;
    Ok(one(&call, StatusCode::CREATED, &listed))
}

pub(super) async fn withdraw(call: Call, _place: Place) -> Result<Response, QueryError> {
    let params = call.params(&["key", "version"], &[])?;
    let (ns, key) = (call.namespace()?, key(&params)?);
    let version = params.parsed("version", |text| text.parse::<u64>().map_err(|_| format!("{text:?} is not a layout's version")))?;
    let version = version.ok_or_else(|| QueryError::Invalid("parameter version is missing".into()))?;
    let listed = call.query.catalog.withdraw_layout(&ns, key.as_deref(), version).await?;
    Ok(one(&call, StatusCode::OK, &listed))
}

/// The timeline that a key follows: the default one until its own begins.
fn timeline(namespace: &NamespaceView, key: Option<&str>) -> Vec<ListedLayout> {
    let own = key.map(|key| namespace.listed(Some(key))).unwrap_or_default();
    let begins = own.iter().filter(|listed| !listed.withdrawn).map(|listed| listed.from).min();
    let before = namespace.listed(None).into_iter().filter(|listed| begins.is_none_or(|begins| listed.from < begins));
    before.chain(own).collect()
}

fn key(params: &Params<'_>) -> Result<Option<String>, QueryError> {
    params.get("key").map(params::checked_key).transpose()
}

/// As an event's `ts`: RFC 3339 or whole milliseconds; or relative to now.
fn effective_from(call: &Call, value: &Value) -> Result<Timestamp, QueryError> {
    let invalid = |why: String| QueryError::Invalid(format!("effective_from: {why}"));
    match value {
        Value::String(text) => Timestamp::parse_query(text, call.query.clock.now()).map_err(|error| invalid(error.to_string())),
        Value::Number(number) => {
            let millis = number.as_i64().ok_or_else(|| invalid(format!("{number} is not whole milliseconds")))?;
            Timestamp::from_int(millis, Precision::Millis).map_err(|error| invalid(error.to_string()))
        }
        _ => Err(invalid("neither a time nor milliseconds".into())),
    }
}

fn one(call: &Call, status: StatusCode, listed: &ListedLayout) -> Response {
    let mut body = Vec::new();
    put(&mut body, &LayoutJson::listed(listed, call.query.catalog.view().horizon));
    json(status, body)
}
