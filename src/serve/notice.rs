//! Notice before a drain: for a while the node still serves, says that it is not ready, and asks
//! clients to come again over another connection, so that a balancer finds it empty when it stops.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONNECTION;
use axum::response::Response;

use crate::components::Components;

/// Ends `notice` after `stop` does; from that on the node is not ready.
pub(super) async fn after(stop: impl Future<Output = ()>, components: Arc<Components>, notice: Option<Duration>) {
    stop.await;
    components.begin_drain();
    if let Some(notice) = notice {
        tracing::info!(seconds = notice.as_secs_f64(), "about to drain");
        tokio::time::sleep(notice).await;
    }
}

/// Middleware: once the node is not ready, each answer is the last of its connection.
pub(super) async fn close_after_answer(State(components): State<Arc<Components>>, mut response: Response) -> Response {
    if components.is_draining() {
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
    }
    response
}
