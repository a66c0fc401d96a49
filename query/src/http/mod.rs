//! The query tier over HTTP: paths → calls → answers. No rule of a read lives here.

mod aggregate;
mod answers;
mod event;
mod events;
mod explain;
mod groups;
mod heat;
mod keys;
mod layout;
mod namespaces;
mod params;
mod problem;

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::BytesRejection;
use axum::extract::{DefaultBodyLimit, FromRequestParts, Path};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use braid_shared::model::Namespace;
use braid_shared::params::Params;
use prometheus::IntGauge;
use tokio::sync::OwnedSemaphorePermit;

use crate::Query;
use crate::error::QueryError;

/// Largest body of a policy or a layout, bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// The calls of the query tier; unknown paths are the caller's.
pub fn router(query: Arc<Query>) -> Router {
    let layout = get(|call: Call| answer("layout", call, layout::list))
        .post(|call: Call, body: Body| answer("layout_publish", call, |call, place| layout::publish(call, place, body)))
        .delete(|call: Call| answer("layout_withdraw", call, layout::withdraw))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    let groups = get(|call: Call| answer("groups", call, groups::list))
        .post(|call: Call, body: Body| answer("group_add", call, |call, place| groups::add(call, place, body)))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    let namespace = put(|call: Call, body: Body| answer("namespace_put", call, |call, place| namespaces::put(call, place, body)))
        .get(|call: Call| answer("namespace", call, namespaces::show))
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX));
    Router::new()
        .route("/v1/{ns}/events", get(|call: Call| answer("events", call, events::list)))
        .route("/v1/{ns}/events/{id}", get(|call: Call| answer("event", call, event::by_path)))
        .route("/v1/{ns}/aggregate", get(|call: Call| answer("aggregate", call, aggregate::rows)))
        .route("/v1/{ns}/keys", get(|call: Call| answer("keys", call, keys::list)))
        .route("/v1/{ns}/explain", get(|call: Call| answer("explain", call, explain::partitions)))
        .route("/v1/{ns}/heat", get(|call: Call| answer("heat", call, heat::show)))
        .route("/v1/{ns}/layout", layout)
        .route("/v1/{ns}/groups", groups)
        .route("/v1/namespaces", get(|call: Call| answer("namespaces", call, namespaces::list)))
        .route("/v1/namespaces/{ns}", namespace)
        .with_state(query)
}

type Body = Result<Bytes, BytesRejection>;

/// One call: its path, query string and headers, not judged yet.
struct Call {
    query: Arc<Query>,
    path: Result<HashMap<String, String>, String>,
    raw_query: String,
    headers: HeaderMap,
}

impl FromRequestParts<Arc<Query>> for Call {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, query: &Arc<Query>) -> Result<Call, Infallible> {
        let path = Path::from_request_parts(parts, query).await.map(|Path(path)| path).map_err(|rejection| rejection.body_text());
        let raw_query = parts.uri.query().unwrap_or_default().to_owned();
        Ok(Call { query: query.clone(), path, raw_query, headers: std::mem::take(&mut parts.headers) })
    }
}

impl Call {
    /// A part of the path, percent-decoded.
    fn path(&self, name: &str) -> Result<&str, QueryError> {
        let path = self.path.as_ref().map_err(|why| QueryError::Invalid(why.clone()))?;
        path.get(name).map(String::as_str).ok_or_else(|| QueryError::Internal(format!("the route has no {name}")))
    }

    fn namespace(&self) -> Result<Namespace, QueryError> {
        self.path("ns")?
            .parse()
            .map_err(|error: braid_shared::model::namespace::NamespaceError| QueryError::NamespaceInvalid(error.to_string()))
    }

    /// The parameters; any other than these is refused by name.
    fn params(&self, once: &[&str], repeatable: &[&str]) -> Result<Params<'_>, QueryError> {
        Ok(Params::parse(&self.raw_query, once, repeatable)?)
    }
}

/// A place among the reads in flight; whoever still produces an answer holds it.
struct Place {
    _permit: OwnedSemaphorePermit,
    in_flight: IntGauge,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.in_flight.dec();
    }
}

fn admit(query: &Query) -> Result<Place, QueryError> {
    let permit = query.admit()?;
    query.metrics.in_flight.inc();
    Ok(Place { _permit: permit, in_flight: query.metrics.in_flight.clone() })
}

/// Runs a call within the bounds, turns errors into problems and counts it.
async fn answer<F, R>(kind: &'static str, call: Call, run: F) -> Response
where
    F: FnOnce(Call, Place) -> R,
    R: Future<Output = Result<Response, QueryError>>,
{
    let query = call.query.clone();
    let began = query.clock.mark();
    let outcome = match admit(&query) {
        Ok(place) => run(call, place).await,
        Err(error) => Err(error),
    };
    let response = outcome.unwrap_or_else(|error| problem::response(kind, &error));
    query.metrics.answered(kind, response.status().as_u16(), query.clock.elapsed(began).as_secs_f64());
    response
}

/// A JSON answer.
fn json(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [("content-type", "application/json")], body).into_response()
}
