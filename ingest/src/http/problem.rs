//! The one place where the ingest tier chooses a status, and the shape of a refusal: RFC 9457.

use axum::http::header::RETRY_AFTER;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use braid_shared::codes;
use braid_shared::problem::Problem;

use super::respond;
use crate::fault::Fault;

/// Media type of a problem.
const PROBLEM_JSON: &str = "application/problem+json";

/// The status of a request-level code.
pub(super) fn status(code: &str) -> StatusCode {
    match code {
        codes::BODY_MALFORMED | codes::INVALID_PARAMETER | codes::NAMESPACE_INVALID => StatusCode::BAD_REQUEST,
        codes::NAMESPACE_NOT_FOUND => StatusCode::NOT_FOUND,
        codes::REQUEST_TIMEOUT => StatusCode::REQUEST_TIMEOUT,
        codes::BODY_TOO_LARGE | codes::TOO_MANY_EVENTS | codes::TOO_MANY_VALUES => StatusCode::PAYLOAD_TOO_LARGE,
        codes::TIMESTAMP_TOO_OLD => StatusCode::UNPROCESSABLE_ENTITY,
        codes::UNSUPPORTED_MEDIA_TYPE | codes::UNSUPPORTED_ENCODING => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        codes::OVERLOADED
        | codes::LAYOUT_STALE
        | codes::OUTCOME_UNKNOWN
        | codes::STORE_UNAVAILABLE
        | codes::STORE_FULL
        | codes::STORE_READ_ONLY
        | codes::STORE_THROTTLED
        | codes::SHUTTING_DOWN => StatusCode::SERVICE_UNAVAILABLE,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// Seconds after which to send again what got this status. Faults that an operator must mend are
/// worth a longer pause.
fn retry_after(code: &str) -> HeaderValue {
    HeaderValue::from_static(match code {
        codes::STORE_FULL | codes::STORE_READ_ONLY => "10",
        _ => "1",
    })
}

/// Says when to come back, where coming back may help.
pub(super) fn with_retry_after(mut response: Response, code: &str) -> Response {
    if response.status() == StatusCode::SERVICE_UNAVAILABLE {
        response.headers_mut().insert(RETRY_AFTER, retry_after(code));
    }
    response
}

/// A fault as a problem.
pub(super) fn problem(fault: &Fault) -> Problem {
    Problem::new(fault.code, status(fault.code).as_u16(), fault.detail.clone())
}

/// The answer to a refused request.
pub(super) fn refusal(fault: &Fault) -> Response {
    let body = serde_json::to_vec(&problem(fault)).unwrap_or_default();
    answer(fault.code, body)
}

/// An encoded problem of this code.
pub(super) fn answer(code: &str, body: Vec<u8>) -> Response {
    with_retry_after(respond(status(code), PROBLEM_JSON, body), code)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_pass_is_503_with_a_time_to_come_back() {
        for code in [codes::OVERLOADED, codes::LAYOUT_STALE, codes::OUTCOME_UNKNOWN, codes::STORE_FULL, codes::SHUTTING_DOWN] {
            let response = refusal(&Fault::new(code, "why"));
            assert_eq!(response.status(), 503, "{code}");
            assert!(response.headers().contains_key(RETRY_AFTER), "{code}");
        }
    }

    #[test]
    fn a_clients_mistake_has_no_time_to_come_back() {
        let response = refusal(&Fault::new(codes::INVALID_PARAMETER, "why"));
        assert_eq!(response.status(), 400);
        assert!(!response.headers().contains_key(RETRY_AFTER));
        assert_eq!(response.headers()["content-type"], PROBLEM_JSON);
    }
}
