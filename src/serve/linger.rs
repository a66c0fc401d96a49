//! Lets a client that is still sending read its refusal.
//!
//! A server that answers 413 and closes with unread bytes in its buffer resets the connection, and
//! the client may never see the answer. What the handler leaves unread is read on and thrown away,
//! within bounds.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::header::EXPECT;
use axum::middleware::Next;
use axum::response::Response;
use futures::StreamExt;
use http_body::{Frame, SizeHint};

/// Most bytes thrown away.
const BYTES_MAX: usize = 64 * 1024 * 1024;

/// Longest that throwing away goes on.
const TIME_MAX: Duration = Duration::from_secs(10);

/// Middleware: wraps the request's body. One that waits for `100 Continue` has sent nothing yet.
pub(super) async fn let_the_client_finish(request: Request, next: Next) -> Response {
    if request.headers().contains_key(EXPECT) || http_body::Body::is_end_stream(request.body()) {
        return next.run(request).await;
    }
    next.run(request.map(|body| Body::new(Lingering(Some(body))))).await
}

/// A body that is read to its end in the background when it is dropped before.
struct Lingering(Option<Body>);

impl http_body::Body for Lingering {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let Some(body) = &mut self.0 else { return Poll::Ready(None) };
        let polled = Pin::new(body).poll_frame(context);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) {
            self.0 = None;
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(http_body::Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.0.as_ref().map_or(SizeHint::with_exact(0), http_body::Body::size_hint)
    }
}

impl Drop for Lingering {
    fn drop(&mut self) {
        let Some(body) = self.0.take() else { return };
        if !http_body::Body::is_end_stream(&body) {
            tokio::spawn(tokio::time::timeout(TIME_MAX, throw_away(body)));
        }
    }
}

async fn throw_away(body: Body) {
    let (mut frames, mut bytes) = (body.into_data_stream(), 0);
    while let Some(Ok(frame)) = frames.next().await {
        bytes += frame.len();
        if bytes > BYTES_MAX {
            return;
        }
    }
}
