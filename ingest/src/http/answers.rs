//! The JSON of an answered write: what was stored, what was refused, what was made.

use std::fmt::Display;

use axum::http::StatusCode;
use axum::response::Response;
use braid_shared::model::RowFault;
use braid_shared::problem::Problem;
use serde::{Serialize, Serializer};

use super::problem::{answer, problem};
use super::{JSON, respond};
use crate::complete::{Made, MadeId};
use crate::write::Written;

/// Body of 200 and 422.
#[derive(Serialize)]
struct Accepted<'w> {
    stored: u64,
    rejected: usize,
    errors: Rows<'w>,
    made: MadeRows<'w>,
}

/// Body of a 503 after part of a write was tried: a problem with the same members.
#[derive(Serialize)]
struct Interrupted<'w> {
    #[serde(flatten)]
    problem: Problem,
    unknown: u64,
    failed: u64,
    #[serde(flatten)]
    accepted: Accepted<'w>,
}

struct Rows<'w>(&'w [RowFault]);
struct MadeRows<'w>(&'w [Made]);

#[derive(Serialize)]
struct RowError<'w> {
    index: u32,
    #[serde(skip_serializing_if = "is_zero")]
    line: u32,
    code: &'static str,
    detail: &'w str,
}

#[derive(Serialize)]
struct MadeRow<'w> {
    index: u32,
    #[serde(serialize_with = "shown")]
    id: &'w MadeId,
    #[serde(serialize_with = "shown")]
    ts: braid_shared::model::Timestamp,
}

/// The answer to a write whose body could be read.
pub(super) fn written(written: &Written) -> Response {
    let accepted =
        Accepted { stored: written.stored, rejected: written.errors.len(), errors: Rows(&written.errors), made: MadeRows(&written.made) };
    if let Some(fault) = &written.fault {
        let interrupted = Interrupted { problem: problem(fault), unknown: written.unknown, failed: written.failed, accepted };
        return answer(fault.code, encoded(&interrupted));
    }
    let status = if written.errors.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    respond(status, JSON, encoded(&accepted))
}

/// Fails only on maps with keys that are no strings, which these bodies do not have.
fn encoded(body: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(body).unwrap_or_default()
}

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|fault| RowError {
            index: fault.index,
            line: fault.line,
            code: fault.code,
            detail: &fault.detail,
        }))
    }
}

impl Serialize for MadeRows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|made| MadeRow { index: made.index, id: &made.id, ts: made.ts }))
    }
}

impl Display for MadeId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            MadeId::Sent(id) => f.write_str(id),
            MadeId::New(id) => id.fmt(f),
        }
    }
}

fn shown<S: Serializer>(value: &impl Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(value)
}

fn is_zero(line: &u32) -> bool {
    *line == 0
}
