//! `POST /v1/{ns}/events`: events as JSON.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, Request, State};
use axum::http::HeaderMap;
use axum::http::header::CONTENT_TYPE;
use axum::response::Response;
use braid_shared::codes;
use braid_shared::model::{Namespace, Precision};
use braid_shared::params::Params;

use super::{answers, namespace, problem};
use crate::Ingest;
use crate::body::discard;
use crate::decode::json::JsonFormat;
use crate::fault::Fault;
use crate::write::{Format, Write, write};

pub(super) async fn post(State(ingest): State<Arc<Ingest>>, ns: Result<Path<String>, PathRejection>, request: Request) -> Response {
    ingest.observed("events", answer(&ingest, ns, request)).await
}

async fn answer(ingest: &Ingest, ns: Result<Path<String>, PathRejection>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let (ns, format) = match called(ns, head.uri.query(), &head.headers) {
        Ok(called) => called,
        Err(fault) => {
            discard(&head.headers, body);
            return problem::refusal(&fault);
        }
    };
    let request = Write { ns, format, headers: &head.headers, body };
    match write(ingest, request).await {
        Ok(written) => answers::written(&written),
        Err(fault) => problem::refusal(&fault),
    }
}

/// The namespace, and what path, parameters and headers say of the body.
fn called(
    ns: Result<Path<String>, PathRejection>,
    query: Option<&str>,
    headers: &HeaderMap,
) -> Result<(Namespace, Format<'static>), Fault> {
    let Path(ns) = ns.map_err(|error| Fault::new(codes::NAMESPACE_INVALID, error.body_text()))?;
    let params = Params::parse(query.unwrap_or(""), &["precision"], &[])?;
    let precision = params
        .parsed("precision", |name| Precision::parse_json(name).ok_or_else(|| format!("{name:?} is not one of ns us ms s")))?
        .unwrap_or(Precision::Millis);
    Ok((namespace(&ns)?, Format::Json { format: json_format(headers)?, precision }))
}

fn json_format(headers: &HeaderMap) -> Result<JsonFormat, Fault> {
    let content_type = headers.get(CONTENT_TYPE).map(|value| value.to_str().unwrap_or("not ASCII"));
    JsonFormat::of_content_type(content_type).ok_or_else(|| {
        let sent = content_type.unwrap_or("");
        Fault::new(codes::UNSUPPORTED_MEDIA_TYPE, format!("{sent:?} is not taken; send application/json or application/x-ndjson"))
    })
}
