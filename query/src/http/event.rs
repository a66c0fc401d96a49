//! `GET /v1/{ns}/events/{id}`: one event.

use std::sync::Arc;

use axum::http::StatusCode;
use axum::response::Response;
use braid_shared::params::Params;

use super::answers::close;
use super::{Call, Place, json, params};
use crate::error::QueryError;
use crate::plan::Selection;
use crate::point::{PointAsked, point};

pub(super) async fn by_path(call: Call, _place: Place) -> Result<Response, QueryError> {
    let params = call.params(&["key", "ts", "partial"], &["where"])?;
    answer(&call, &params, call.path("id")?).await
}

/// Answers with the event of this id.
pub(super) async fn answer(call: &Call, params: &Params<'_>, id: &str) -> Result<Response, QueryError> {
    let found = point(call.query.clone(), asked(call, params, id)?).await?;
    let mut body = b"{\"event\":".to_vec();
    body.extend_from_slice(found.event.as_deref().unwrap_or(b"null"));
    close(&found.tally, &mut body);
    Ok(json(StatusCode::OK, body))
}

fn asked(call: &Call, params: &Params<'_>, id: &str) -> Result<PointAsked, QueryError> {
    Ok(PointAsked {
        ns: call.namespace()?,
        key: params::key(params)?,
        ts: params::time(call, params, "ts")?,
        selection: Arc::new(Selection { id: Some(params::checked_id(id)?), filter: params::filter(params)? }),
        partial: params::partial(params)?,
    })
}
