//! The HTTP client of the admin commands: one request, its JSON answer, or why there is none.

use std::time::Duration;

use clap::ArgMatches;
use reqwest::blocking::{Client as Http, RequestBuilder, Response};
use reqwest::{Method, StatusCode};
use serde_json::Value;

/// Longest wait for an answer, and for more of one.
const PATIENCE: Duration = Duration::from_secs(60);

/// Why a command failed.
#[derive(Debug)]
pub(super) enum Failure {
    /// The server refused; status, code and detail of the problem.
    Refused(u16, String, String),
    /// The command line is wrong.
    Usage(String),
    /// No answer, or not one of Braid's.
    Unreachable(String),
    /// What was waited for did not come about.
    GaveUp(String),
    /// A file on this side can't be written.
    Local(String),
}

impl Failure {
    pub(super) fn exit_code(&self) -> u8 {
        match self {
            Failure::Refused(..) => 1,
            Failure::Usage(_) => 2,
            Failure::Unreachable(_) => 3,
            Failure::GaveUp(_) => 4,
            Failure::Local(_) => 5,
        }
    }
}

impl std::fmt::Display for Failure {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Failure::Refused(status, code, detail) => write!(f, "{code} ({status}): {detail}"),
            Failure::Usage(why) | Failure::Unreachable(why) | Failure::GaveUp(why) | Failure::Local(why) => f.write_str(why),
        }
    }
}

/// Speaks to one server.
pub(super) struct Client {
    http: Http,
    base: String,
    token: Option<String>,
    /// Whether answers are printed as they are.
    pub(super) json: bool,
}

impl Client {
    /// By `--url`, `--token-file` and `--json`.
    pub(super) fn new(matches: &ArgMatches) -> Result<Client, Failure> {
        let base = matches.get_one::<String>("url").map(|url| url.trim_end_matches('/').to_owned()).unwrap_or_default();
        if !base.starts_with("http://") {
            return Err(Failure::Usage(format!("--url: {base:?} is not an http:// address (put TLS in front of a proxy)")));
        }
        let read = |path: &String| {
            std::fs::read_to_string(path)
                .map(|text| text.trim().to_owned())
                .map_err(|error| Failure::Usage(format!("--token-file: {path}: {error}")))
        };
        let token = matches.get_one::<String>("token-file").map(read).transpose()?;
        let http = Http::builder().timeout(PATIENCE).build().map_err(|error| Failure::Unreachable(error.to_string()))?;
        Ok(Client { http, base, token, json: matches.get_flag("json") })
    }

    pub(super) fn get(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, Failure> {
        self.send(Method::GET, &with_query(path, parameters), None)
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.send(Method::POST, path, Some(body))
    }

    pub(super) fn put(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.send(Method::PUT, path, Some(body))
    }

    pub(super) fn delete(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Value, Failure> {
        self.send(Method::DELETE, &with_query(path, parameters), None)
    }

    /// A read as a stream of lines, which is read as far as it goes.
    pub(super) fn stream(&self, path: &str, parameters: &[(&str, &str)]) -> Result<Response, Failure> {
        let request = self.request(Method::GET, &with_query(path, parameters)).header("accept", "application/x-ndjson");
        let response = request.send().map_err(|error| self.unreachable(&error))?;
        if response.status().is_success() { Ok(response) } else { Err(self.refused(response)) }
    }

    fn send(&self, method: Method, path: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let mut request = self.request(method, path);
        if let Some(body) = body {
            request = request.header("content-type", "application/json").body(body.to_string());
        }
        self.answered(request.send().map_err(|error| self.unreachable(&error))?)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.token {
            Some(token) => request.header("authorization", format!("Bearer {token}")),
            None => request,
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> Failure {
        Failure::Unreachable(format!("{}: {}", self.base, causes(error)))
    }

    fn answered(&self, response: Response) -> Result<Value, Failure> {
        let status = response.status();
        if !status.is_success() {
            return Err(self.refused(response));
        }
        let body = response.bytes().map_err(|error| self.unreachable(&error))?;
        serde_json::from_slice(&body).map_err(|_| self.strange(status))
    }

    fn refused(&self, response: Response) -> Failure {
        let status = response.status();
        let body = match response.bytes() {
            Ok(body) => body,
            Err(error) => return self.unreachable(&error),
        };
        match serde_json::from_slice::<Value>(&body) {
            Ok(problem) if problem["code"].is_string() => {
                Failure::Refused(status.as_u16(), text(&problem["code"]), text(&problem["detail"]))
            }
            _ => self.strange(status),
        }
    }

    fn strange(&self, status: StatusCode) -> Failure {
        Failure::Unreachable(format!("{}: status {status}, and an answer that is not Braid's", self.base))
    }
}

fn with_query(path: &str, parameters: &[(&str, &str)]) -> String {
    if parameters.is_empty() {
        return path.to_owned();
    }
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(parameters);
    format!("{path}?{}", query.finish())
}

/// An error with what caused it; the last cause says most.
fn causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut at = error.source();
    while let Some(cause) = at {
        text = format!("{text}: {cause}");
        at = cause.source();
    }
    text
}

/// A JSON value as people read it: text without quotes, nothing as `-`.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => "-".to_owned(),
        other => other.to_string(),
    }
}
