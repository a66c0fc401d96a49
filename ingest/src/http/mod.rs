//! The ingest tier's HTTP: paths, parameters, answers. No rule of placement or storage lives here.

use std::str::FromStr;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use axum::routing::{get, post};
use braid_shared::codes;
use braid_shared::model::Namespace;
use braid_shared::params::ParamError;

use crate::Ingest;
use crate::fault::Fault;

mod answers;
mod events;
mod influx;
mod influx_query;
mod problem;

/// Media type of answers.
const JSON: &str = "application/json";

/// The tier's routes, without a fallback: the binary merges them with the query tier's.
pub fn router(ingest: Arc<Ingest>) -> Router {
    Router::new()
        .route("/v1/{ns}/events", post(events::post))
        .route("/write", post(influx::write_v1))
        .route("/api/v2/write", post(influx::write_v2))
        .route("/ping", get(influx_query::ping))
        .route("/health", get(influx_query::health))
        .route("/query", get(influx_query::query).post(influx_query::query))
        .with_state(ingest)
}

impl Ingest {
    /// Counts and times an answered request; one whose client left first is not counted.
    async fn observed(&self, endpoint: &'static str, answer: impl Future<Output = Response>) -> Response {
        let began = self.clock.boot();
        let response = answer.await;
        self.metrics.answered(endpoint, response.status().as_str(), self.clock.boot().saturating_sub(began));
        response
    }
}

/// A response with a body of this type.
fn respond(status: StatusCode, content_type: &'static str, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
    response
}

fn namespace(name: &str) -> Result<Namespace, Fault> {
    Namespace::from_str(name).map_err(|error| Fault::new(codes::NAMESPACE_INVALID, format!("{name:?}: {error}")))
}

impl From<ParamError> for Fault {
    fn from(error: ParamError) -> Fault {
        Fault::new(codes::INVALID_PARAMETER, error.0)
    }
}
