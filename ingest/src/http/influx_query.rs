//! What InfluxDB's clients probe before they write: `/ping`, `/health`, and of `/query` the two
//! statements that agents send.

use std::borrow::Cow;
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{RawQuery, Request, State};
use axum::http::StatusCode;
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::response::Response;
use braid_shared::codes;
use braid_shared::params::Params;
use serde_json::{Value, json};

use super::influx::{Dialect, VERSION, versioned};
use super::namespace;
use crate::Ingest;
use crate::admit::first_layout;
use crate::body::{discard, read_body};
use crate::fault::Fault;

/// Largest form of a query, bytes.
const FORM_BYTES_MAX: usize = 64 * 1024;
/// The parameters that InfluxDB knows; only `q` and `pretty` mean something here.
const KNOWN: [&str; 11] = ["q", "db", "rp", "epoch", "pretty", "chunked", "chunk_size", "params", "u", "p", "precision"];

/// A statement that is understood.
#[derive(Debug, PartialEq, Eq)]
enum Statement {
    CreateDatabase(String),
    ShowDatabases,
}

pub(super) async fn ping(State(ingest): State<Arc<Ingest>>, RawQuery(query): RawQuery) -> Response {
    ingest.observed("ping", async { pong(query.as_deref().unwrap_or("")) }).await
}

fn pong(query: &str) -> Response {
    let params = match Params::parse(query, &["verbose", "wait_for_leader"], &[]) {
        Ok(params) => params,
        Err(error) => return Dialect::V1.refusal(&error.into()),
    };
    match params.get("verbose") {
        Some("true" | "1") => versioned(StatusCode::OK, Some(json!({ "version": VERSION }).to_string())),
        _ => versioned(StatusCode::NO_CONTENT, None),
    }
}

pub(super) async fn health(State(ingest): State<Arc<Ingest>>) -> Response {
    ingest.observed("health", async { healthy(&ingest) }).await
}

fn healthy(ingest: &Ingest) -> Response {
    let (status, word, message) = match ingest.store.health() {
        Ok(()) => (StatusCode::OK, "pass", "ready for queries and writes".to_owned()),
        Err(error) => (StatusCode::SERVICE_UNAVAILABLE, "fail", error.to_string()),
    };
    let body = json!({ "name": "braid", "message": message, "status": word, "checks": [], "version": env!("CARGO_PKG_VERSION") });
    versioned(status, Some(body.to_string()))
}

pub(super) async fn query(State(ingest): State<Arc<Ingest>>, request: Request) -> Response {
    ingest.observed("query", async { queried(&ingest, request).await.unwrap_or_else(|fault| Dialect::V1.refusal(&fault)) }).await
}

async fn queried(ingest: &Ingest, request: Request) -> Result<Response, Fault> {
    let (head, body) = request.into_parts();
    let form = form(ingest, &head, body).await?;
    let in_query = Params::parse(head.uri.query().unwrap_or(""), &KNOWN, &[])?;
    let in_form = Params::parse(&form, &KNOWN, &[])?;
    let param = |name| in_query.get(name).or(in_form.get(name));
    let q = param("q").ok_or_else(|| Fault::new(codes::INVALID_PARAMETER, "missing required parameter \"q\""))?;
    let statement = parse(q).map_err(|why| Fault::new(codes::INVALID_PARAMETER, format!("error parsing query: {why}")))?;
    let result = json!({ "results": [run(ingest, statement).await?] });
    let pretty = matches!(param("pretty"), Some("true" | "1"));
    Ok(versioned(StatusCode::OK, Some(if pretty { format!("{result:#}") } else { result.to_string() })))
}

/// The form that a POST may carry its parameters in.
async fn form(ingest: &Ingest, head: &Parts, body: Body) -> Result<String, Fault> {
    let content_type = head.headers.get(CONTENT_TYPE).map_or("", |value| value.to_str().unwrap_or("?"));
    let media_type = content_type.split(';').next().unwrap_or("").trim().to_ascii_lowercase();
    if !matches!(&*media_type, "" | "application/x-www-form-urlencoded") {
        discard(&head.headers, body);
        return Err(Fault::new(codes::UNSUPPORTED_MEDIA_TYPE, format!("a query is sent as a form, not as {content_type:?}")));
    }
    let room = |bytes| match bytes {
        0..=FORM_BYTES_MAX => Ok(()),
        _ => Err(Fault::new(codes::BODY_TOO_LARGE, format!("a form may have at most {FORM_BYTES_MAX} bytes"))),
    };
    let form = read_body(&head.headers, body, ingest.settings.body_idle_max, room).await?;
    String::from_utf8(form.into()).map_err(|_| Fault::new(codes::BODY_MALFORMED, "the form is not UTF-8"))
}

async fn run(ingest: &Ingest, statement: Statement) -> Result<Value, Fault> {
    match statement {
        Statement::CreateDatabase(name) => {
            ingest.catalog.create_namespace(&namespace(&name)?, first_layout()).await?;
            Ok(json!({ "statement_id": 0 }))
        }
        Statement::ShowDatabases => {
            let view = ingest.catalog.refresh().await?;
            let mut names: Vec<&str> = view.namespaces().map(|ns| ns.as_str()).collect();
            names.sort_unstable();
            let rows: Vec<[&str; 1]> = names.into_iter().map(|name| [name]).collect();
            Ok(json!({ "statement_id": 0, "series": [{ "name": "databases", "columns": ["name"], "values": rows }] }))
        }
    }
}

/// Reads one statement, with or without the semicolon behind it.
fn parse(q: &str) -> Result<Statement, String> {
    let mut rest = q.trim().trim_end_matches(';').trim_end();
    if take_words(&mut rest, &["show", "databases"]) && rest.is_empty() {
        return Ok(Statement::ShowDatabases);
    }
    if take_words(&mut rest, &["create", "database"]) {
        take_words(&mut rest, &["if", "not", "exists"]);
        let name = take_name(&mut rest)?;
        if rest.trim().is_empty() {
            return Ok(Statement::CreateDatabase(name.into_owned()));
        }
    }
    Err("only CREATE DATABASE <name> and SHOW DATABASES are understood here".to_owned())
}

/// Takes keywords, in any case, from the front; nothing unless all of them are there.
fn take_words(rest: &mut &str, words: &[&str]) -> bool {
    let mut left = *rest;
    for word in words {
        let trimmed = left.trim_start();
        let end = trimmed.find(char::is_whitespace).unwrap_or(trimmed.len());
        if !trimmed[..end].eq_ignore_ascii_case(word) {
            return false;
        }
        left = &trimmed[end..];
    }
    *rest = left.trim_start();
    true
}

/// Takes a name: bare, or in double quotes with InfluxQL's escapes.
fn take_name<'q>(rest: &mut &'q str) -> Result<Cow<'q, str>, String> {
    let text = rest.trim_start();
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find(char::is_whitespace).unwrap_or(text.len());
        *rest = &text[end..];
        return if end == 0 { Err("a database's name is missing".into()) } else { Ok(text[..end].into()) };
    };
    let mut name = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => {
                *rest = &quoted[at + 1..];
                return Ok(name.into());
            }
            '\\' => match chars.next() {
                Some((_, 'n')) => name.push('\n'),
                Some((_, c @ ('"' | '\\'))) => name.push(c),
                _ => return Err("a name has an unknown escape".into()),
            },
            c => name.push(c),
        }
    }
    Err("a quoted name does not end".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn create_database_is_read_bare_and_quoted() {
        for q in ["CREATE DATABASE telegraf", "create database \"telegraf\";", " CREATE  DATABASE IF NOT EXISTS telegraf ; "] {
            assert_eq!(parse(q), Ok(Statement::CreateDatabase("telegraf".into())), "{q}");
        }
        assert_eq!(parse(r#"CREATE DATABASE "a\"b\\""#), Ok(Statement::CreateDatabase("a\"b\\".into())));
        assert_eq!(parse("SHOW DATABASES"), Ok(Statement::ShowDatabases));
    }

    #[test]
    fn any_other_statement_is_an_error() {
        for q in [
            "",
            "SELECT * FROM cpu",
            "CREATE DATABASE",
            "CREATE DATABASE a WITH DURATION 3d",
            "CREATE DATABASE \"a",
            "SHOW DATABASES x",
            "DROP DATABASE a",
        ] {
            assert!(parse(q).is_err(), "{q}");
        }
    }
}
