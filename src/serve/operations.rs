//! What operators and their tools probe: liveness, readiness, metrics, version.

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{StatusCode, Uri};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use braid_shared::{codes, problem::Problem};
use prometheus::TextEncoder;
use serde_json::json;

use crate::components::Components;

/// Probes that need no token.
pub(super) fn open(components: &Arc<Components>) -> Router {
    Router::new().route("/livez", get(|| async { "ok\n" })).route("/readyz", get(readyz)).with_state(components.clone())
}

/// What needs the token where there is one.
pub(super) fn guarded(components: &Arc<Components>) -> Router {
    Router::new().route("/metrics", get(metrics)).route("/version", get(version)).with_state(components.clone())
}

/// 200, with what is wrong elsewhere; or 503 with what is missing; a line each.
async fn readyz(State(components): State<Arc<Components>>) -> Response {
    let missing = components.missing();
    if missing.is_empty() {
        let troubles: String = components.troubles().iter().map(|trouble| format!("trouble: {trouble}\n")).collect();
        return format!("ok\n{troubles}").into_response();
    }
    (StatusCode::SERVICE_UNAVAILABLE, missing.join("\n") + "\n").into_response()
}

async fn metrics(State(components): State<Arc<Components>>) -> Response {
    match TextEncoder::new().encode_to_string(&components.registry.gather()) {
        Ok(text) => ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], text).into_response(),
        Err(error) => problem_response(Problem::new(codes::INTERNAL, StatusCode::INTERNAL_SERVER_ERROR.as_u16(), error.to_string())),
    }
}

async fn version() -> Response {
    let body = json!({"name": "braid", "version": env!("CARGO_PKG_VERSION")});
    ([(CONTENT_TYPE, "application/json")], body.to_string()).into_response()
}

/// No route of this path.
pub(super) async fn not_found(uri: Uri) -> Response {
    problem_response(Problem::new(codes::NOT_FOUND, StatusCode::NOT_FOUND.as_u16(), format!("there is nothing at {}", uri.path())))
}

/// The path is known, the method is not.
pub(super) async fn method_not_allowed(uri: Uri) -> Response {
    let detail = format!("{} does not take this method", uri.path());
    problem_response(Problem::new(codes::METHOD_NOT_ALLOWED, StatusCode::METHOD_NOT_ALLOWED.as_u16(), detail))
}

/// A problem as a response.
pub(super) fn problem_response(problem: Problem) -> Response {
    let status = StatusCode::from_u16(problem.status).expect("statuses are chosen here");
    let body = serde_json::to_string(&problem).expect("plain data");
    (status, [(CONTENT_TYPE, "application/problem+json")], body).into_response()
}
