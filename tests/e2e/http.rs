//! A blocking HTTP client for tests: requests by path, answers with status, headers and body.

use std::fmt;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use reqwest::Method;
use serde_json::Value;

use crate::server::PATIENCE;

pub(crate) const JSON: &str = "application/json";
pub(crate) const NDJSON: &str = "application/x-ndjson";

/// Cheap to clone; clones share connections and address.
#[derive(Clone)]
pub(crate) struct Client {
    http: reqwest::blocking::Client,
    base: Arc<RwLock<String>>,
}

/// An answer, whole.
#[derive(Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: reqwest::header::HeaderMap,
    pub(crate) body: Vec<u8>,
    asked: String,
}

impl Client {
    pub(crate) fn new(base: &str) -> Client {
        let http = reqwest::blocking::Client::builder().timeout(PATIENCE).build().expect("a client");
        Client { http, base: Arc::new(RwLock::new(base.to_owned())) }
    }

    pub(crate) fn set_base(&self, base: &str) {
        base.clone_into(&mut self.base.write().expect("no holder panics"));
    }

    /// One request; the error is one of the connection.
    pub(crate) fn send(&self, method: Method, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> reqwest::Result<Answer> {
        let url = format!("{}{path}", self.base.read().expect("no holder panics"));
        let asked = format!("{method} {path}");
        let request = self.http.request(method, url).body(body);
        let response = headers.iter().fold(request, |request, (name, value)| request.header(*name, *value)).send()?;
        let (status, headers) = (response.status().as_u16(), response.headers().clone());
        Ok(Answer { status, headers, body: response.bytes()?.to_vec(), asked })
    }

    pub(crate) fn try_get(&self, path: &str) -> reqwest::Result<Answer> {
        self.send(Method::GET, path, &[], Vec::new())
    }

    pub(crate) fn get(&self, path: &str) -> Answer {
        self.try_get(path).unwrap_or_else(|error| panic!("GET {path}: {error:?}"))
    }

    /// A read that must be answered with 200.
    pub(crate) fn read(&self, path: &str) -> Value {
        self.get(path).expect(200).json()
    }

    /// A read of the whole range as a stream of lines.
    pub(crate) fn stream(&self, path: &str) -> Answer {
        let answer = self.send(Method::GET, path, &[("accept", NDJSON)], Vec::new());
        answer.unwrap_or_else(|error| panic!("GET {path}: {error:?}"))
    }

    pub(crate) fn post(&self, path: &str, content_type: &str, body: impl Into<Vec<u8>>) -> Answer {
        self.try_post(path, content_type, body).unwrap_or_else(|error| panic!("POST {path}: {error:?}"))
    }

    pub(crate) fn try_post(&self, path: &str, content_type: &str, body: impl Into<Vec<u8>>) -> reqwest::Result<Answer> {
        self.send(Method::POST, path, &[("content-type", content_type)], body.into())
    }

    pub(crate) fn put(&self, path: &str, body: &Value) -> Answer {
        let answer = self.send(Method::PUT, path, &[("content-type", JSON)], body.to_string().into_bytes());
        answer.unwrap_or_else(|error| panic!("PUT {path}: {error:?}"))
    }

    pub(crate) fn delete(&self, path: &str) -> Answer {
        let answer = self.send(Method::DELETE, path, &[], Vec::new());
        answer.unwrap_or_else(|error| panic!("DELETE {path}: {error:?}"))
    }

    /// Posts until the server takes it: 503 and broken connections are tried again, as every client would.
    pub(crate) fn deliver(&self, path: &str, content_type: &str, body: &[u8]) -> Answer {
        let began = Instant::now();
        loop {
            let why = match self.try_post(path, content_type, body) {
                Ok(answer) if answer.status != 503 => return answer,
                Ok(answer) => answer.to_string(),
                Err(error) => format!("{error:?}"),
            };
            assert!(began.elapsed() < PATIENCE, "it would not take {path}: {why}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// A counter or gauge of `/metrics`, summed over its labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let text = String::from_utf8(self.get("/metrics").expect(200).body).expect("metrics are text");
        let of_name = |line: &&str| line.strip_prefix(name).is_some_and(|rest| rest.starts_with([' ', '{']));
        text.lines().filter(of_name).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }
}

impl Answer {
    /// The answer, if it has this status.
    #[track_caller]
    pub(crate) fn expect(self, status: u16) -> Answer {
        assert_eq!(self.status, status, "{self}");
        self
    }

    /// A problem of this status and code.
    #[track_caller]
    pub(crate) fn expect_problem(self, status: u16, code: &str) -> Value {
        let answer = self.expect(status);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{answer}");
        let problem = answer.json();
        assert_eq!((&problem["code"], &problem["status"]), (&code.into(), &status.into()), "{answer}");
        problem
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|error| panic!("{error}: {self}"))
    }

    /// The body's lines, each as JSON.
    #[track_caller]
    pub(crate) fn lines(&self) -> Vec<Value> {
        let line = |line: &[u8]| serde_json::from_slice(line).unwrap_or_else(|error| panic!("{error}: {self}"));
        self.body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).map(line).collect()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name)?.to_str().ok()
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = &self.body[..self.body.len().min(2_000)];
        write!(f, "{} answered {}: {}", self.asked, self.status, String::from_utf8_lossy(shown))
    }
}

/// `path?name=value&…`, escaped.
pub(crate) fn query(path: &str, parameters: &[(&str, &str)]) -> String {
    let mut text = form_urlencoded::Serializer::new(String::new());
    text.extend_pairs(parameters);
    format!("{path}?{}", text.finish())
}

/// One segment of a path, escaped.
pub(crate) fn segment(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes().map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") }).collect()
}
