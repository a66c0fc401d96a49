//! `GET /v1/{ns}/aggregate`.

use axum::http::StatusCode;
use axum::response::Response;
use braid_shared::model::Span;
use braid_shared::params::Params;

use super::answers::close;
use super::params::REPEATS_MAX;
use super::{Call, Place, json, params};
use crate::aggregate::{Function, Spec};
use crate::error::QueryError;
use crate::read::Asked;
use crate::summary::summarize;

/// Parameters of an aggregate.
pub(super) const ONCE: &[&str] = &["key", "prefix", "from", "to", "step", "field", "fn", "partial"];
/// Those that may repeat.
pub(super) const REPEATABLE: &[&str] = &["group_by", "where"];

pub(super) async fn rows(call: Call, _place: Place) -> Result<Response, QueryError> {
    let params = call.params(ONCE, REPEATABLE)?;
    let asked = params::asked(&call, &params)?;
    if asked.from.is_none() {
        return Err(QueryError::Invalid("parameter from is missing".into()));
    }
    let spec = spec(&params, &asked)?;
    let summary = summarize(call.query.clone(), asked, spec).await?;
    let mut body = b"{\"rows\":".to_vec();
    body.extend_from_slice(&summary.rows);
    close(&summary.tally, &mut body);
    Ok(json(StatusCode::OK, body))
}

/// What is to be computed.
pub(super) fn spec(params: &Params<'_>, asked: &Asked) -> Result<Spec, QueryError> {
    let field = params.parsed("field", |text| if text.is_empty() { Err("empty".into()) } else { Ok(text.to_owned()) })?;
    let functions = functions(params)?;
    if let Some((name, _)) = functions.iter().find(|(_, function)| field.is_none() && !function.counts()) {
        return Err(QueryError::Invalid(format!("function {name} needs parameter field")));
    }
    let step = params.parsed("step", |text| text.parse::<Span>().map_err(|error| error.to_string()))?;
    Ok(Spec { field, functions, step, group_by: group_by(params)?, filter: asked.selection.filter.clone() })
}

/// The functions asked for; `count` where none is.
fn functions(params: &Params<'_>) -> Result<Vec<(String, Function)>, QueryError> {
    let mut functions: Vec<(String, Function)> = Vec::new();
    for name in params.get("fn").unwrap_or("count").split(',') {
        let function = name.parse().map_err(|why| QueryError::Invalid(format!("parameter fn: {why}")))?;
        if functions.iter().any(|(other, _)| other == name) {
            return Err(QueryError::Invalid(format!("parameter fn: {name} is given twice")));
        }
        if functions.len() == REPEATS_MAX {
            return Err(QueryError::Invalid(format!("parameter fn: more than {REPEATS_MAX} functions")));
        }
        functions.push((name.to_owned(), function));
    }
    Ok(functions)
}

fn group_by(params: &Params<'_>) -> Result<Vec<String>, QueryError> {
    let tags: Vec<String> = params.all("group_by").map(str::to_owned).collect();
    let twice = tags.iter().enumerate().find(|(i, tag)| tags[..*i].contains(tag));
    match twice {
        Some((_, tag)) => Err(QueryError::Invalid(format!("parameter group_by: {tag:?} is given twice"))),
        None if tags.len() > REPEATS_MAX => Err(QueryError::Invalid(format!("parameter group_by: more than {REPEATS_MAX} times"))),
        None if tags.iter().any(String::is_empty) => Err(QueryError::Invalid("parameter group_by: empty".into())),
        None => Ok(tags),
    }
}
