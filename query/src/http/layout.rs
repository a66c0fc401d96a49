//! `/v1/{ns}/layout`: the timeline; publishing and withdrawing a layout.

use axum::http::StatusCode;
use axum::response::Response;
use braid_shared::catalog::{CatalogError, Intent, ListedLayout, NamespaceView, NewLayout, View};
use braid_shared::model::{Precision, Span, Timestamp};
use braid_shared::params::Params;
use serde::Deserialize;
use serde_json::{Value, json};

use super::answers::LayoutJson;
use super::namespaces::{parse_body, parse_shard_by};
use super::{Body, Call, Place, json as json_answer, params};
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
    author: Option<String>,
    reason: Option<String>,
    expected_revision: Option<u64>,
}

pub(super) async fn list(call: Call, _place: Place) -> Result<Response, QueryError> {
    let params = call.params(&["key"], &[])?;
    let (ns, key) = (call.namespace()?, key(&params)?);
    let view = call.query.catalog.refresh().await?;
    let namespace = view.namespace(&ns).ok_or_else(|| CatalogError::NamespaceNotFound(ns.clone()))?;
    let layouts: Vec<_> = timeline(namespace, key.as_deref()).iter().map(|listed| LayoutJson::listed(listed, view.horizon)).collect();
    let mut body = b"{\"layouts\":".to_vec();
    put(&mut body, &layouts);
    close(&call, &view, &mut body);
    Ok(json_answer(StatusCode::OK, body))
}

/// Ends an answer with what it stands on: the revision, the promise, and the clock of this node.
fn close(call: &Call, view: &View, body: &mut Vec<u8>) {
    let members = json!({"revision": view.revision, "horizon": view.horizon.to_string(), "now": call.query.clock.now().to_string()});
    body.push(b',');
    let start = body.len();
    put(body, &members);
    body.remove(start);
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
        effective_from: body.effective_from.map(|value| event_time(&call, "effective_from", &value)).transpose()?,
    };
    let (author, reason, expected_revision) = (body.author, body.reason, body.expected_revision);
    let by = Intent { author, reason, automatic: false, expected_revision };
    let listed = call.query.catalog.publish_layout_by(&by, &ns, key.as_deref(), new).await?;
    Ok(one(&call, StatusCode::CREATED, &listed))
}

pub(super) async fn withdraw(call: Call, _place: Place) -> Result<Response, QueryError> {
    let params = call.params(&["key", "version", "author", "reason", "expected_revision"], &[])?;
    let (ns, key) = (call.namespace()?, key(&params)?);
    let number = |name| params.parsed(name, |text| text.parse::<u64>().map_err(|_| format!("{text:?} is not a whole number")));
    let version = number("version")?.ok_or_else(|| QueryError::Invalid("parameter version is missing".into()))?;
    let text = |name| params.get(name).map(str::to_owned);
    let expected_revision = number("expected_revision")?;
    let by = Intent { author: text("author"), reason: text("reason"), automatic: false, expected_revision };
    let listed = call.query.catalog.withdraw_layout_by(&by, &ns, key.as_deref(), version).await?;
    Ok(one(&call, StatusCode::OK, &listed))
}

/// The timeline that a key follows: the default one until its own begins.
fn timeline(namespace: &NamespaceView, key: Option<&str>) -> Vec<ListedLayout> {
    let own = key.map(|key| namespace.listed(Some(key))).unwrap_or_default();
    let begins = own.iter().filter(|listed| !listed.is_withdrawn()).map(|listed| listed.from).min();
    let before = namespace.listed(None).into_iter().filter(|listed| begins.is_none_or(|begins| listed.from < begins));
    before.chain(own).collect()
}

fn key(params: &Params<'_>) -> Result<Option<String>, QueryError> {
    params.get("key").map(params::checked_key).transpose()
}

/// As an event's `ts`: RFC 3339 or whole milliseconds; or relative to now.
pub(super) fn event_time(call: &Call, name: &str, value: &Value) -> Result<Timestamp, QueryError> {
    let invalid = |why: String| QueryError::Invalid(format!("{name}: {why}"));
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
    json_answer(status, body)
}
