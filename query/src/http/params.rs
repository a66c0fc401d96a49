//! Parameters that several calls share, each checked and named in its error.

use std::sync::Arc;

use braid_shared::limits::{ID_BYTES_MAX, KEY_BYTES_MAX, PAGE_ROWS_DEFAULT, PAGE_ROWS_MAX};
use braid_shared::model::Timestamp;
use braid_shared::params::Params;

use super::Call;
use crate::error::QueryError;
use crate::filter::Filter;
use crate::plan::{Order, Selection};
use crate::read::{Asked, Target};

/// Most `where` or `group_by` of one call.
pub(super) const REPEATS_MAX: usize = 64;

fn invalid(why: impl Into<String>) -> QueryError {
    QueryError::Invalid(why.into())
}

/// What every read of a range is asked by: `key` or `prefix`, `from`, `to`, `where`, `order`, `partial`.
pub(super) fn asked(call: &Call, params: &Params<'_>) -> Result<Asked, QueryError> {
    let (from, to) = (time(call, params, "from")?, time(call, params, "to")?);
    if let (Some(from), Some(to)) = (from, to)
        && from > to
    {
        return Err(invalid(format!("from {from} is after to {to}")));
    }
    Ok(Asked {
        ns: call.namespace()?,
        target: target(params)?,
        from,
        to,
        selection: Arc::new(Selection { id: None, filter: filter(params)? }),
        order: order(params)?,
        partial: partial(params)?,
    })
}

/// A time: RFC 3339, milliseconds, or relative to now.
pub(super) fn time(call: &Call, params: &Params<'_>, name: &str) -> Result<Option<Timestamp>, QueryError> {
    let now = call.query.clock.now();
    Ok(params.parsed(name, |text| Timestamp::parse_query(text, now).map_err(|error| error.to_string()))?)
}

fn target(params: &Params<'_>) -> Result<Target, QueryError> {
    match (params.get("key"), params.get("prefix")) {
        (Some(key), None) => checked_key(key).map(Target::Key),
        (None, Some(prefix)) if prefix.len() <= KEY_BYTES_MAX => Ok(Target::Prefix(prefix.to_owned())),
        (None, Some(_)) => Err(invalid(format!("parameter prefix: longer than {KEY_BYTES_MAX} bytes"))),
        (Some(_), Some(_)) => Err(invalid("give key or prefix, not both")),
        (None, None) => Err(invalid("parameter key is missing (or prefix, to read every key that begins so)")),
    }
}

/// The one key of a call that takes no prefix.
pub(super) fn key(params: &Params<'_>) -> Result<String, QueryError> {
    checked_key(params.get("key").ok_or_else(|| invalid("parameter key is missing"))?)
}

/// A key that an event can have.
pub(super) fn checked_key(key: &str) -> Result<String, QueryError> {
    match key.len() {
        0 => Err(invalid("parameter key is empty")),
        1..=KEY_BYTES_MAX => Ok(key.to_owned()),
        _ => Err(invalid(format!("parameter key: longer than {KEY_BYTES_MAX} bytes"))),
    }
}

/// An id that an event can have; the empty one is legal.
pub(super) fn checked_id(id: &str) -> Result<String, QueryError> {
    if id.len() > ID_BYTES_MAX {
        return Err(invalid(format!("parameter id: longer than {ID_BYTES_MAX} bytes")));
    }
    Ok(id.to_owned())
}

/// Conditions on tags.
pub(super) fn filter(params: &Params<'_>) -> Result<Filter, QueryError> {
    if params.all("where").count() > REPEATS_MAX {
        return Err(invalid(format!("parameter where: more than {REPEATS_MAX} times")));
    }
    Filter::parse(params.all("where")).map_err(|why| invalid(format!("parameter where: {why}")))
}

fn order(params: &Params<'_>) -> Result<Order, QueryError> {
    match params.get("order") {
        None | Some("asc") => Ok(Order::Asc),
        Some("desc") => Ok(Order::Desc),
        Some(other) => Err(invalid(format!("parameter order: {other:?} is not asc or desc"))),
    }
}

/// Whether an answer may lack shards.
pub(super) fn partial(params: &Params<'_>) -> Result<bool, QueryError> {
    match params.get("partial") {
        None => Ok(false),
        Some("allow") => Ok(true),
        Some(other) => Err(invalid(format!("parameter partial: {other:?} is not allow"))),
    }
}

/// `limit`, where given.
pub(super) fn limit(params: &Params<'_>) -> Result<Option<usize>, QueryError> {
    let parse = |text: &str| {
        let limit = text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
        limit
            .filter(|limit| (1..=PAGE_ROWS_MAX).contains(limit))
            .ok_or_else(|| format!("{text:?} is not a number from 1 to {PAGE_ROWS_MAX}"))
    };
    Ok(params.parsed("limit", parse)?)
}

/// `limit`, or what holds without it.
pub(super) fn limit_or_default(params: &Params<'_>) -> Result<usize, QueryError> {
    Ok(limit(params)?.unwrap_or(PAGE_ROWS_DEFAULT))
}
