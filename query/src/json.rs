//! JSON written straight into a buffer: answers are made of columns, not of documents.

use braid_shared::block::{Column, Values};
use braid_shared::model::Timestamp;
use braid_shared::model::time::RFC3339_BYTES_MAX;
use serde::Serialize;

use crate::filter::text_of;

/// Appends anything that serde can write.
pub fn put(out: &mut Vec<u8>, value: &(impl Serialize + ?Sized)) {
    serde_json::to_writer(out, value).expect("plain data can be written to memory");
}

/// Appends a time, RFC 3339 with the digits it needs.
pub fn put_time(out: &mut Vec<u8>, ts: Timestamp) {
    out.push(b'"');
    out.extend_from_slice(ts.write_rfc3339(&mut [0; RFC3339_BYTES_MAX]).as_bytes());
    out.push(b'"');
}

/// Appends the i-th value of a column; a double keeps its point (`1.0`).
pub fn put_value(out: &mut Vec<u8>, column: &Column, i: usize) {
    match &column.values {
        Values::F64(values) => put(out, &values[i]),
        Values::I64(values) => put(out, &values[i]),
        Values::U64(values) => put(out, &values[i]),
        Values::Bool(values) => put(out, &values[i]),
        Values::Str(_) | Values::Dict(..) => put(out, &text_of(column, i)),
    }
}
