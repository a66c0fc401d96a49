//! A test double of Braid: keeps events in memory and answers what `braid-load` asks, and can be told to
//! lie. It shares no code with the generator: JSON by a library, HTTP by hyper.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, body::Incoming};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What the double does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lie {
    /// Nothing.
    None,
    /// Acknowledges every so-manieth event and does not keep it.
    Lose(usize),
    /// Gives the so-manieth event twice.
    Double(usize),
    /// Gives an event that nobody sent.
    Invent,
    /// Gives the so-manieth event with another quantity.
    Alter(usize),
    /// Answers the first so many writes with 503 and `Retry-After: 0`, after it kept them.
    Busy(usize),
}

/// Events by key, then time and id; a `Vec` since one may stand twice.
type Kept = BTreeMap<String, BTreeMap<(i64, String), Vec<Value>>>;

/// What it was told and did.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) kept: Kept,
    /// Events that were acknowledged, whether kept or not.
    pub(crate) acknowledged: usize,
    /// Ids of the events it lied about.
    pub(crate) lied: Vec<String>,
    requests: usize,
}

/// A double that listens until the test ends.
pub(crate) struct Double {
    pub(crate) address: SocketAddr,
    pub(crate) state: Arc<Mutex<State>>,
}

impl Double {
    pub(crate) fn start(lie: Lie) -> Double {
        let state = Arc::new(Mutex::new(State::default()));
        let (said, heard) = std::sync::mpsc::channel();
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                said.send(listener.local_addr().unwrap()).unwrap();
                loop {
                    let (stream, _) = listener.accept().await.unwrap();
                    let state = Arc::clone(&shared);
                    let service = service_fn(move |request| answer(request, Arc::clone(&state), lie));
                    tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
                }
            });
        });
        Double { address: heard.recv().unwrap(), state }
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }
}

async fn answer(request: Request<Incoming>, state: Arc<Mutex<State>>, lie: Lie) -> Result<Response<Full<Bytes>>, Infallible> {
    let (path, query) = (request.uri().path().to_owned(), request.uri().query().unwrap_or_default().to_owned());
    let post = request.method() == Method::POST;
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let state = &mut *state.lock().unwrap();
    let parameter = |name: &str| {
        let values = query.split('&').filter_map(|pair| pair.split_once('='));
        values.filter(|(found, _)| *found == name).map(|(_, value)| decode(value)).next()
    };
    let (status, text) = match path.rsplit('/').next() {
        Some("events") if post => write(state, &body, lie),
        Some("keys") => {
            let prefix = parameter("prefix").unwrap_or_default();
            let keys: Vec<&String> = state.kept.keys().filter(|key| key.starts_with(&prefix)).collect();
            (200, json!({"keys": keys, "next": null}).to_string())
        }
        Some("events") => {
            let (key, limit) = (parameter("key").unwrap(), parameter("limit"));
            let from = parameter("from").map_or(i64::MIN, |from| from.parse().unwrap());
            let events = read(state, &key, from);
            match limit {
                Some(limit) => (200, json!({"events": &events[..events.len().min(limit.parse().unwrap())], "next": null}).to_string()),
                None => (200, lines(&events)),
            }
        }
        _ => (404, String::new()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = StatusCode::from_u16(status).unwrap();
    response.headers_mut().insert("retry-after", "0".parse().unwrap());
    Ok(response)
}

fn write(state: &mut State, body: &[u8], lie: Lie) -> (u16, String) {
    let mut stored = 0;
    for line in body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
        let event: Value = serde_json::from_slice(line).unwrap();
        let id = event["id"].as_str().unwrap().to_owned();
        let place = (event["ts"].as_i64().unwrap(), id.clone());
        state.acknowledged += 1;
        stored += 1;
        let nth = |every: usize| state.acknowledged.is_multiple_of(every);
        let of_key = state.kept.entry(event["key"].as_str().unwrap().to_owned()).or_default();
        match lie {
            Lie::Lose(every) if nth(every) => {
                state.lied.push(id);
                continue;
            }
            Lie::Double(every) if nth(every) => {
                state.lied.push(id);
                of_key.insert(place, vec![event.clone(), event]);
                continue;
            }
            Lie::Alter(every) if nth(every) => {
                let mut altered = event.clone();
                altered["fields"]["qty"] = 1_000.into();
                state.lied.push(id);
                of_key.insert(place, vec![altered]);
                continue;
            }
            Lie::Invent if state.lied.is_empty() => {
                let mut invented = event.clone();
                invented["id"] = "00000000000000aa".into();
                state.lied.push("00000000000000aa".to_owned());
                of_key.insert((place.0, "00000000000000aa".to_owned()), vec![invented]);
            }
            _ => {}
        }
        of_key.entry(place).or_insert_with(|| vec![event]);
    }
    state.requests += 1;
    match lie {
        Lie::Busy(first) if state.requests <= first => (503, "busy".into()),
        _ => (200, json!({"stored": stored, "rejected": 0, "errors": [], "made": []}).to_string()),
    }
}

/// The events of a key from `from` on, times as dates.
fn read(state: &State, key: &str, from: i64) -> Vec<Value> {
    let of_key = state.kept.get(key).into_iter().flat_map(|events| events.range((from, String::new())..));
    let all = of_key.flat_map(|((millis, _), events)| events.iter().map(move |event| (*millis, event)));
    all.map(|(millis, event)| {
        let mut event = event.clone();
        event["ts"] = braid_shared::model::Timestamp::from_nanos(millis * 1_000_000).to_string().into();
        event
    })
    .collect()
}

fn lines(events: &[Value]) -> String {
    let mut text: String = events.iter().map(|event| format!("{event}\n")).collect();
    let end = json!({"end": {"events": events.len(), "next": null, "complete": true}});
    text.push_str(&format!("{end}\n"));
    text
}

fn decode(text: &str) -> String {
    let mut out = Vec::new();
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next().unwrap(), bytes.next().unwrap()];
            out.push(u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap());
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).unwrap()
}
