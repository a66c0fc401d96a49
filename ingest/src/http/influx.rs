//! `POST /write` and `POST /api/v2/write`: line protocol, answered in InfluxDB's own JSON, since
//! agents drop or re-send for ever on a body they can't read.
//!
//! What agents make of an answer decides its form here. Telegraf drops a batch on every 4xx but a
//! 404 that says `database not found`, and on a 5xx whose text has words such as `partial write`:
//! so whatever may pass is a 503 in fixed words, a slow body included.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::header::HeaderName;
use axum::http::{HeaderValue, StatusCode};
use axum::response::Response;
use braid_shared::codes;
use braid_shared::model::{Namespace, Precision, RowFault};
use braid_shared::params::Params;
use serde_json::json;

use super::{JSON, namespace, problem, respond};
use crate::Ingest;
use crate::body::discard;
use crate::fault::Fault;
use crate::write::{Format, Write, Written, write};

/// What clients take for the version of InfluxDB whose calls are spoken.
pub(super) const VERSION: &str = concat!("1.8-braid-", env!("CARGO_PKG_VERSION"));
/// Faults named in one message.
const FAULTS_NAMED_MAX: usize = 5;
/// Characters of one fault's detail in a message.
const DETAIL_CHARS_MAX: usize = 200;

const X_VERSION: HeaderName = HeaderName::from_static("x-influxdb-version");
const X_ERROR: HeaderName = HeaderName::from_static("x-influxdb-error");
const X_CODE: HeaderName = HeaderName::from_static("x-platform-error-code");

/// Which of InfluxDB's APIs is spoken.
#[derive(Clone, Copy)]
pub(super) enum Dialect {
    V1,
    V2,
}

/// What the parameters of a write say.
struct Called {
    ns: Namespace,
    precision: Precision,
    id_tag: Option<String>,
}

pub(super) async fn write_v1(State(ingest): State<Arc<Ingest>>, request: Request) -> Response {
    ingest.observed("write_v1", answer(&ingest, Dialect::V1, request)).await
}

pub(super) async fn write_v2(State(ingest): State<Arc<Ingest>>, request: Request) -> Response {
    ingest.observed("write_v2", answer(&ingest, Dialect::V2, request)).await
}

async fn answer(ingest: &Ingest, dialect: Dialect, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let called = match dialect.called(head.uri.query().unwrap_or("")) {
        Ok(called) => called,
        Err(fault) => {
            discard(&head.headers, body);
            return dialect.refusal(&fault);
        }
    };
    let format = Format::Lines { precision: called.precision, id_tag: called.id_tag.as_deref() };
    match write(ingest, Write { ns: called.ns, format, headers: &head.headers, body }).await {
        Ok(written) => dialect.written(&written),
        Err(fault) => dialect.refusal(&fault),
    }
}

impl Dialect {
    /// Reads a write's parameters. Those that mean nothing here are known all the same; any other
    /// is an error.
    fn called(self, query: &str) -> Result<Called, Fault> {
        let (required, known): (_, &[&str]) = match self {
            Dialect::V1 => ("db", &["db", "rp", "precision", "consistency", "u", "p", "id_tag"]),
            Dialect::V2 => ("bucket", &["bucket", "org", "orgID", "precision", "id_tag"]),
        };
        let params = Params::parse(query, known, &[])?;
        let name = params.get(required).filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| Fault::new(codes::INVALID_PARAMETER, format!("parameter {required} is required")))?;
        // A v2 client of a v1 server writes `database/retention-policy`.
        let ns = match self {
            Dialect::V1 => name,
            Dialect::V2 => name.split_once('/').map_or(name, |(database, _)| database),
        };
        let id_tag = params.parsed("id_tag", |tag| if tag.is_empty() { Err("is empty".into()) } else { Ok(tag.to_owned()) })?;
        Ok(Called { ns: namespace(ns)?, precision: params.parsed("precision", precision)?.unwrap_or(Precision::Nanos), id_tag })
    }

    fn written(self, written: &Written) -> Response {
        match (&written.fault, &written.errors[..]) {
            (Some(fault), _) => self.refusal(fault),
            (None, []) => versioned(StatusCode::NO_CONTENT, None),
            (None, errors) => self.error(StatusCode::BAD_REQUEST, "invalid", &partial_write(errors)),
        }
    }

    /// The answer to a request that was refused whole.
    pub(super) fn refusal(self, fault: &Fault) -> Response {
        let status = match problem::status(fault.code) {
            StatusCode::REQUEST_TIMEOUT => StatusCode::SERVICE_UNAVAILABLE,
            status => status,
        };
        let code = match status {
            StatusCode::BAD_REQUEST => "invalid",
            StatusCode::NOT_FOUND => "not found",
            StatusCode::PAYLOAD_TOO_LARGE => "request too large",
            StatusCode::UNSUPPORTED_MEDIA_TYPE => "unsupported media type",
            StatusCode::SERVICE_UNAVAILABLE => "unavailable",
            _ => "internal error",
        };
        let message = match (status, self) {
            (StatusCode::SERVICE_UNAVAILABLE, _) => format!("{}: send the points again", fault.code),
            (StatusCode::NOT_FOUND, Dialect::V1) => format!("database not found: {}", fault.detail),
            (StatusCode::NOT_FOUND, Dialect::V2) => format!("bucket not found: {}", fault.detail),
            _ => fault.detail.clone(),
        };
        problem::with_retry_after(self.error(status, code, &message), fault.code)
    }

    fn error(self, status: StatusCode, code: &'static str, message: &str) -> Response {
        let (body, name, value) = match self {
            Dialect::V1 => (json!({ "error": message }), X_ERROR, header_text(message)),
            Dialect::V2 => (json!({ "code": code, "message": message }), X_CODE, HeaderValue::from_static(code)),
        };
        let mut response = versioned(status, Some(body.to_string()));
        response.headers_mut().insert(name, value);
        response
    }
}

/// An empty precision means what none does, as in InfluxDB.
fn precision(name: &str) -> Result<Precision, String> {
    match name {
        "" => Ok(Precision::Nanos),
        name => Precision::parse_influx(name).ok_or_else(|| format!("{name:?} is not one of n ns u us µ ms s m h")),
    }
}

/// A response that tells the version.
pub(super) fn versioned(status: StatusCode, body: Option<String>) -> Response {
    let mut response = match body {
        Some(body) => respond(status, JSON, body.into_bytes()),
        None => {
            let mut response = Response::default();
            *response.status_mut() = status;
            response
        }
    };
    response.headers_mut().insert(X_VERSION, HeaderValue::from_static(VERSION));
    response
}

/// InfluxDB's words for lines refused while the others were stored; the first few say why.
fn partial_write(errors: &[RowFault]) -> String {
    let mut message = String::from("partial write: ");
    for fault in errors.iter().take(FAULTS_NAMED_MAX) {
        let detail: String = fault.detail.chars().take(DETAIL_CHARS_MAX).collect();
        message += &format!("line {}: {detail} ({}); ", fault.line, fault.code);
    }
    message += &format!("dropped={}", errors.len());
    message
}

/// What of a message can stand in a header.
fn header_text(message: &str) -> HeaderValue {
    let text: String = message.chars().map(|c| if matches!(c, ' '..='~') { c } else { '?' }).collect();
    HeaderValue::from_str(&text).unwrap_or(HeaderValue::from_static("error"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn called(dialect: Dialect, query: &str) -> Result<Called, Fault> {
        dialect.called(query)
    }

    #[test]
    fn the_parameters_of_each_version_are_known_and_no_others() {
        assert!(called(Dialect::V1, "db=a&rp=&precision=ms&consistency=one&u=x&p=y").is_ok());
        assert!(called(Dialect::V2, "bucket=a&org=o&orgID=1&precision=us").is_ok());
        assert!(called(Dialect::V1, "db=a&org=o").err().unwrap().detail.contains("org"));
        assert!(called(Dialect::V2, "bucket=a&db=o").err().unwrap().detail.contains("db"));
        assert!(called(Dialect::V1, "rp=a").err().unwrap().detail.contains("db"));
    }

    #[test]
    fn a_bucket_with_a_retention_policy_is_the_namespace_before_the_slash() {
        assert_eq!(called(Dialect::V2, "bucket=db/rp").ok().unwrap().ns.as_str(), "db");
        assert_eq!(called(Dialect::V1, "db=db/rp").err().unwrap().code, codes::NAMESPACE_INVALID);
    }

    #[test]
    fn each_spelling_of_a_precision_is_read() {
        for (name, unit) in [("n", 1), ("ns", 1), ("u", 1_000), ("us", 1_000), ("%C2%B5", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000)] {
            assert_eq!(called(Dialect::V1, &format!("db=a&precision={name}")).ok().unwrap().precision.nanos(), unit, "{name}");
        }
        assert_eq!(called(Dialect::V1, "db=a&precision=m").ok().unwrap().precision, Precision::Minutes);
        assert!(called(Dialect::V1, "db=a&precision=d").is_err());
    }

    #[test]
    fn a_partial_write_names_the_first_lines_and_counts_all() {
        let fault = |line| RowFault { index: 0, line, code: codes::TYPE_INVALID, detail: "é".repeat(1_000) };
        let message = partial_write(&(1..=7).map(fault).collect::<Vec<_>>());
        assert!(message.starts_with("partial write: line 1: é"), "{message}");
        assert!(message.ends_with("dropped=7"), "{message}");
        assert!(message.contains("line 5:") && !message.contains("line 6:"));
        assert!(header_text(&message).to_str().is_ok());
    }

    #[test]
    fn what_may_pass_never_says_what_makes_telegraf_drop_it() {
        let fault = Fault::new(codes::STORE_UNAVAILABLE, "partial write: unable to parse, retention policy not found");
        for fault in [fault, Fault::new(codes::REQUEST_TIMEOUT, "slow")] {
            let response = Dialect::V1.refusal(&fault);
            assert_eq!(response.status(), 503);
            assert_eq!(response.headers()["retry-after"], "1");
            assert!(!response.headers()[X_ERROR].to_str().unwrap().contains("write:"));
        }
    }
}
