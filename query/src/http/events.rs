//! `GET /v1/{ns}/events`: a page of events, a stream of them, or one event by `id=`.

use axum::body::{Body, Bytes};
use axum::http::StatusCode;
use axum::http::header::ACCEPT;
use axum::response::{IntoResponse, Response};
use braid_shared::params::Params;
use futures::stream;

use super::answers::close;
use super::{Call, Place, event, json, params, problem};
use crate::cursor::{Cursor, query_hash};
use crate::error::QueryError;
use crate::events::{EventStream, EventsAsked, page};
use crate::json::put;
use crate::tally::Tally;

/// Parameters of a read of events.
pub(super) const ONCE: &[&str] = &["key", "prefix", "from", "to", "limit", "order", "cursor", "partial", "id", "ts"];
/// Those that may repeat.
pub(super) const REPEATABLE: &[&str] = &["where"];
/// Those that mean nothing where `id` names one event.
const NOT_WITH_ID: &[&str] = &["prefix", "from", "to", "limit", "order", "cursor"];

pub(super) async fn list(call: Call, place: Place) -> Result<Response, QueryError> {
    let params = call.params(ONCE, REPEATABLE)?;
    if let Some(id) = params.get("id") {
        refuse_with_id(&params)?;
        return event::answer(&call, &params, id).await;
    }
    if params.get("ts").is_some() {
        return Err(QueryError::Invalid("parameter ts goes with id".into()));
    }
    let ask = ask(&call, &params)?;
    if wants_lines(&call) {
        let stream = EventStream::open(call.query.clone(), ask, params::limit(&params)?).await?;
        return Ok(lines(stream, place));
    }
    let page = page(call.query.clone(), ask, params::limit_or_default(&params)?).await?;
    let mut body = b"{\"events\":[".to_vec();
    body.extend_from_slice(&page.events);
    body.extend_from_slice(b"],\"next\":");
    put(&mut body, &page.next);
    close(&page.tally, &mut body);
    Ok(json(StatusCode::OK, body))
}

/// Refuses parameters of a range beside `id`.
pub(super) fn refuse_with_id(params: &Params<'_>) -> Result<(), QueryError> {
    match NOT_WITH_ID.iter().find(|name| params.get(name).is_some()) {
        None => Ok(()),
        Some(name) => Err(QueryError::Invalid(format!("parameter {name} does not go with id"))),
    }
}

fn ask(call: &Call, params: &Params<'_>) -> Result<EventsAsked, QueryError> {
    let asked = params::asked(call, params)?;
    let texts = ["key", "prefix", "from", "to", "order"].map(|name| params.get(name));
    let marked = texts.iter().flat_map(|text| [if text.is_some() { "+" } else { "-" }, text.unwrap_or_default()]);
    let hash = query_hash(["events", asked.ns.as_str()].into_iter().chain(marked).chain(params.all("where")));
    let cursor = params.get("cursor").map(|text| Cursor::open(text, hash)).transpose().map_err(|_| QueryError::CursorInvalid)?;
    Ok(EventsAsked { asked, cursor, hash })
}

/// Whether the client asks for NDJSON.
fn wants_lines(call: &Call) -> bool {
    let accepted = call.headers.get_all(ACCEPT).into_iter().filter_map(|value| value.to_str().ok());
    let mut types = accepted.flat_map(|value| value.split(',')).map(|item| item.split(';').next().unwrap_or_default().trim());
    types.any(|media_type| media_type.eq_ignore_ascii_case("application/x-ndjson"))
}

/// A body that reads on only as fast as the client takes it. An error in the middle is its last
/// line, and the body is then cut: without the end line, no stream is whole.
fn lines(stream: EventStream, place: Place) -> Response {
    let portions = stream::try_unfold(Lines::Events(Box::new(stream), place), |state| async move {
        let Lines::Events(mut stream, place) = state else { return Err(std::io::Error::other("the read failed")) };
        match stream.next(end).await {
            Ok(Some(portion)) => Ok(Some((Bytes::from(portion), Lines::Events(stream, place)))),
            Ok(None) => Ok(None),
            Err(error) => Ok(Some((error_line(&error), Lines::Failed))),
        }
    });
    ([("content-type", "application/x-ndjson")], Body::from_stream(portions)).into_response()
}

enum Lines {
    Events(Box<EventStream>, Place),
    Failed,
}

fn end(tally: &Tally, given: u64, next: Option<String>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"{\"end\":{\"events\":");
    put(out, &given);
    out.extend_from_slice(b",\"next\":");
    put(out, &next);
    close(tally, out);
    out.extend_from_slice(b"}\n");
}

fn error_line(error: &QueryError) -> Bytes {
    let problem = problem::problem(error);
    tracing::warn!(code = problem.code, %error, "a stream was cut");
    let mut line = b"{\"error\":".to_vec();
    put(&mut line, &problem);
    line.extend_from_slice(b"}\n");
    line.into()
}
