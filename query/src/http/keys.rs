//! `GET /v1/{ns}/keys`.

use axum::http::StatusCode;
use axum::response::Response;
use braid_shared::limits::KEY_BYTES_MAX;
use braid_shared::model::Timestamp;

use super::{Call, Place, json, params};
use crate::cursor::{Cursor, Position, query_hash};
use crate::error::QueryError;

pub(super) async fn list(call: Call, _place: Place) -> Result<Response, QueryError> {
    let params = call.params(&["prefix", "limit", "cursor"], &[])?;
    let (ns, limit) = (call.namespace()?, params::limit_or_default(&params)?);
    let prefix = params.get("prefix").unwrap_or_default();
    if prefix.len() > KEY_BYTES_MAX {
        return Err(QueryError::Invalid(format!("parameter prefix: longer than {KEY_BYTES_MAX} bytes")));
    }
    let hash = query_hash(["keys", ns.as_str(), prefix].into_iter());
    let cursor = params.get("cursor").map(|text| Cursor::open(text, hash)).transpose().map_err(|_| QueryError::CursorInvalid)?;
    let (view, _) = call.query.catalog.namespace(&ns).await?;
    let after = cursor.as_ref().map(|cursor| cursor.last.key.as_str());
    let mut keys = call.query.within_deadline(call.query.store.keys(&ns, prefix, after, limit + 1)).await?;
    let more = keys.len() > limit;
    keys.truncate(limit);
    let next = keys.last().filter(|_| more).map(|last| behind(last).seal(hash));
    let body = serde_json::json!({
        "keys": keys,
        "next": next,
        "complete": true,
        "shards": {"planned": 0, "answered": 0},
        "layouts": [],
        "revision": view.revision,
    });
    Ok(json(StatusCode::OK, body.to_string().into_bytes()))
}

/// The place behind a key.
fn behind(key: &str) -> Cursor {
    let last = Position { ts: Timestamp::MIN, key: key.to_owned(), id: String::new(), tag: None };
    Cursor { from: Timestamp::MIN, to: Timestamp::MAX, last }
}
