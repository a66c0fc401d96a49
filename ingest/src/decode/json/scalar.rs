//! One JSON scalar from its text, exactly: no number is rounded into another type and no string
//! changed.
//!
//! The text was found to follow JSON's grammar before; here it gets its meaning. Working from the
//! text is what keeps `18446744073709551616` from becoming a float and `-0` an integer.

use std::borrow::Cow;

use braid_shared::codes;
use braid_shared::limits::STRING_BYTES_MAX;
use braid_shared::model::batch::BatchValue;
use braid_shared::model::time::TimeError;
use braid_shared::model::{Precision, Timestamp, ValueRef};

use super::event::short;
use crate::fault::Fault;

/// A field's value.
pub(super) fn field_value<'a>(text: &'a str, name: &str) -> Result<BatchValue<'a>, Fault> {
    let plain = match text.as_bytes()[0] {
        b'"' => return string_value(text, name),
        b't' => ValueRef::Bool(true),
        b'f' => ValueRef::Bool(false),
        b'n' | b'[' | b'{' => {
            let detail = format!("field {} is {}; a field is a number, a boolean or a string", short(name), type_name(text));
            return Err(Fault::new(codes::TYPE_INVALID, detail));
        }
        _ => number(text).ok_or_else(|| out_of_range(text, name))?,
    };
    Ok(BatchValue::Plain(plain))
}

fn string_value<'a>(text: &'a str, name: &str) -> Result<BatchValue<'a>, Fault> {
    let string = unquote(text)?;
    if string.len() > STRING_BYTES_MAX {
        return Err(too_long(codes::STRING_TOO_LONG, &format!("field {}", short(name)), string.len(), STRING_BYTES_MAX));
    }
    Ok(match string {
        Cow::Borrowed(string) => BatchValue::Plain(ValueRef::Str(string)),
        Cow::Owned(string) => BatchValue::Unescaped(string.into()),
    })
}

/// The string of a member that takes nothing else, within its limit.
pub(super) fn string<'a>(text: &'a str, member: &str, bytes_max: usize, too_long_code: &'static str) -> Result<Cow<'a, str>, Fault> {
    if !text.starts_with('"') {
        return Err(Fault::new(codes::TYPE_INVALID, format!("{member} is {}; it must be a string", type_name(text))));
    }
    let string = unquote(text)?;
    if string.len() > bytes_max { Err(too_long(too_long_code, member, string.len(), bytes_max)) } else { Ok(string) }
}

/// An event time: RFC 3339, or an integer in `precision`.
pub(super) fn timestamp(text: &str, precision: Precision) -> Result<Timestamp, Fault> {
    let parsed = if text.starts_with('"') {
        Timestamp::parse_rfc3339(&unquote(text)?)
    } else {
        match number(text) {
            Some(ValueRef::I64(value)) => Timestamp::from_int(value, precision),
            Some(ValueRef::U64(_)) => Err(TimeError::OutOfRange),
            None if is_integer(text) => Err(TimeError::OutOfRange),
            _ => {
                let detail = format!("ts is {}; it must be an RFC 3339 string or an integer", type_name(text));
                return Err(Fault::new(codes::TYPE_INVALID, detail));
            }
        }
    };
    parsed.map_err(|error| {
        let code = if error == TimeError::OutOfRange { codes::TIMESTAMP_OUT_OF_RANGE } else { codes::TIMESTAMP_INVALID };
        Fault::new(code, format!("ts: {error}"))
    })
}

/// `3` is i64, or u64 above i64's range; `3.0` and `3e2` are f64. `None` for what fits none of
/// them, and for what is no number.
fn number(text: &str) -> Option<ValueRef<'static>> {
    if is_integer(text) {
        let signed = text.parse().map(ValueRef::I64).ok();
        return signed.or_else(|| text.parse().map(ValueRef::U64).ok());
    }
    let is_number = text.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    let float: f64 = is_number.then(|| text.parse().ok())??;
    float.is_finite().then_some(ValueRef::F64(float))
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A string without its quotes; borrowed unless it holds an escape.
fn unquote(text: &str) -> Result<Cow<'_, str>, Fault> {
    let inner = &text[1..text.len() - 1];
    if memchr::memchr(b'\\', inner.as_bytes()).is_none() {
        return Ok(Cow::Borrowed(inner));
    }
    // The grammar was checked; what is left to fail is half of a surrogate pair.
    let unescaped: String = serde_json::from_str(text)
        .map_err(|_| Fault::new(codes::EVENT_MALFORMED, "a \\u escape names half of a surrogate pair, which no UTF-8 string can hold"))?;
    Ok(Cow::Owned(unescaped))
}

fn out_of_range(text: &str, name: &str) -> Fault {
    let bound = if is_integer(text) { "64-bit integers" } else { "64-bit floats" };
    Fault::new(codes::NUMBER_OUT_OF_RANGE, format!("field {}: the number is beyond {bound}", short(name)))
}

pub(super) fn too_long(code: &'static str, what: &str, bytes: usize, bytes_max: usize) -> Fault {
    Fault::new(code, format!("{what} has {bytes} bytes; at most {bytes_max} are allowed"))
}

fn type_name(text: &str) -> &'static str {
    match text.as_bytes()[0] {
        b'"' => "a string",
        b't' | b'f' => "a boolean",
        b'n' => "null",
        b'[' => "an array",
        b'{' => "an object",
        _ if is_integer(text) => "an integer",
        _ => "a number with a fraction or exponent",
    }
}
