//! The one place of this tier that chooses statuses: errors → problem details (RFC 9457).

use axum::http::header::{CONTENT_TYPE, RETRY_AFTER};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use braid_shared::catalog::CatalogError;
use braid_shared::codes;
use braid_shared::cold::DatabaseErrorKind;
use braid_shared::params::ParamError;
use braid_shared::problem::Problem;
use braid_shared::store::StoreErrorKind;
use serde_json::Value;

use super::answers::missing_json;
use crate::error::QueryError;

/// Seconds after which a client should try again.
const RETRY_SECONDS: HeaderValue = HeaderValue::from_static("1");

/// The answer to a call that failed; logs what an operator must see.
pub(super) fn response(kind: &'static str, error: &QueryError) -> Response {
    let problem = problem(error);
    match problem.status {
        500 => tracing::error!(kind, code = problem.code, %error, "read failed"),
        503 => tracing::warn!(kind, code = problem.code, %error, "read refused"),
        _ => tracing::debug!(kind, code = problem.code, %error, "read refused"),
    }
    let status = StatusCode::from_u16(problem.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut body = Vec::new();
    crate::json::put(&mut body, &problem);
    let mut response = (status, body).into_response();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
    if problem.status == 503 {
        headers.insert(RETRY_AFTER, RETRY_SECONDS);
    }
    response
}

/// Code, status and members of an error.
pub(super) fn problem(error: &QueryError) -> Problem {
    let (code, status) = code_and_status(error);
    let problem = Problem::new(code, status, error.to_string());
    match error {
        QueryError::ShardCountMismatch { expected, answered, missing } => problem
            .with("expected", *expected)
            .with("answered", *answered)
            .with("missing", missing.iter().map(missing_json).collect::<Vec<Value>>()),
        QueryError::BlockDamaged { partition, .. } => problem.with(
            "partition",
            serde_json::json!({
                "key": &*partition.key,
                "bucket": partition.bucket.to_string(),
                "version": partition.version.revision,
                "suffix": partition.suffix,
            }),
        ),
        QueryError::Table(error) => problem.with("database", error.database.name.as_str()).with("file", error.path.as_str()),
        _ => problem,
    }
}

fn code_and_status(error: &QueryError) -> (&'static str, u16) {
    match error {
        QueryError::Invalid(_) => (codes::INVALID_PARAMETER, 400),
        QueryError::NamespaceInvalid(_) => (codes::NAMESPACE_INVALID, 400),
        QueryError::BodyTooLarge(_) => (codes::BODY_TOO_LARGE, 413),
        QueryError::CursorInvalid => (codes::CURSOR_INVALID, 400),
        QueryError::EventNotFound => (codes::EVENT_NOT_FOUND, 404),
        QueryError::ResultTooLarge(_) => (codes::RESULT_TOO_LARGE, 422),
        QueryError::Catalog(error) => of_catalog(error),
        QueryError::Store(error) => (of_store(error.kind), 503),
        QueryError::StoreTimeout { .. } => (codes::STORE_UNAVAILABLE, 503),
        QueryError::ShardCountMismatch { .. } => (codes::SHARD_COUNT_MISMATCH, 503),
        QueryError::BlockDamaged { .. } => (codes::BLOCK_DAMAGED, 503),
        QueryError::Table(error) if error.kind == DatabaseErrorKind::Unavailable => (codes::TABLE_UNAVAILABLE, 503),
        QueryError::Table(_) => (codes::TABLE_DAMAGED, 503),
        QueryError::Deadline { .. } => (codes::READ_DEADLINE, 503),
        QueryError::Overloaded(_) => (codes::OVERLOADED, 503),
        QueryError::Internal(_) => (codes::INTERNAL, 500),
    }
}

fn of_catalog(error: &CatalogError) -> (&'static str, u16) {
    match error {
        CatalogError::Stale(_) => (codes::LAYOUT_STALE, 503),
        CatalogError::NamespaceNotFound(_) => (codes::NAMESPACE_NOT_FOUND, 404),
        CatalogError::LayoutNotFound(_) => (codes::LAYOUT_NOT_FOUND, 404),
        CatalogError::LayoutConflict(_) => (codes::LAYOUT_CONFLICT, 409),
        CatalogError::RevisionConflict(_) => (codes::REVISION_CONFLICT, 409),
        CatalogError::LayoutImmutable(_) => (codes::LAYOUT_IMMUTABLE, 409),
        CatalogError::GroupConflict(_) => (codes::GROUP_CONFLICT, 409),
        CatalogError::Invalid(_) => (codes::INVALID_PARAMETER, 400),
        CatalogError::Unknown(_) => (codes::OUTCOME_UNKNOWN, 503),
    }
}

/// A read does nothing, so an unknown outcome is no more than an unavailable store.
fn of_store(kind: StoreErrorKind) -> &'static str {
    match kind {
        StoreErrorKind::Unavailable | StoreErrorKind::Unknown => codes::STORE_UNAVAILABLE,
        StoreErrorKind::Full => codes::STORE_FULL,
        StoreErrorKind::ReadOnly => codes::STORE_READ_ONLY,
        StoreErrorKind::Throttled => codes::STORE_THROTTLED,
        StoreErrorKind::Corrupt => codes::BLOCK_DAMAGED,
    }
}

impl From<ParamError> for QueryError {
    fn from(ParamError(why): ParamError) -> QueryError {
        QueryError::Invalid(why)
    }
}
