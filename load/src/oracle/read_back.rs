//! Reads everything back, key by key, and tells the oracle. A stream that breaks off goes on where it
//! was: at the time of the last event that came, whose like is skipped.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use braid_shared::model::Namespace;
use hyper::StatusCode;
use hyper::header::{ACCEPT, HeaderValue};
use serde::Deserialize;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::Judge;
use super::event::Found;
use crate::client::{Broken, Call, Connection, Endpoint, encode};
use crate::progress::ReadingBack;

const PAUSE: Duration = Duration::from_millis(200);
const SHOWN_EVERY: Duration = Duration::from_secs(1);

/// What is to be read.
pub(crate) struct ReadBack {
    pub(crate) endpoint: Arc<Endpoint>,
    pub(crate) namespace: Namespace,
    pub(crate) keys: BTreeSet<String>,
    /// Keys of which only what is not before `earliest`, in milliseconds, is read.
    pub(crate) old: BTreeSet<String>,
    pub(crate) earliest: i64,
    pub(crate) connections: u16,
}

impl ReadBack {
    /// Reads every key over several connections. The error says why it could not be read whole.
    pub(crate) async fn run<J: Judge>(self, oracle: J) -> Result<J, String> {
        let connections = self.connections;
        let queue = Arc::new(Mutex::new(self.keys.iter().cloned().collect::<VecDeque<_>>()));
        let (read_back, oracle) = (Arc::new(self), Arc::new(Mutex::new(oracle)));
        let mut readers = JoinSet::new();
        for _ in 0..connections {
            let (read_back, oracle, queue) = (Arc::clone(&read_back), Arc::clone(&oracle), Arc::clone(&queue));
            readers.spawn(async move {
                let mut connection = Connection::new(Arc::clone(&read_back.endpoint));
                loop {
                    let Some(key) = queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front() else { return Ok(()) };
                    read_back.key(&mut connection, &key, &oracle).await?;
                }
            });
        }
        let progress = || oracle.lock().unwrap_or_else(PoisonError::into_inner).progress();
        let mut shown = ReadingBack::new(progress().1);
        let mut seconds = tokio::time::interval(SHOWN_EVERY);
        loop {
            tokio::select! {
                read = readers.join_next() => match read {
                    Some(read) => read.unwrap_or_else(|error| Err(format!("a reader failed: {error}")))?,
                    None => break,
                },
                _ = seconds.tick() => shown.show(progress().0),
            }
        }
        let oracle = Arc::into_inner(oracle).ok_or("a reader still runs")?;
        Ok(oracle.into_inner().unwrap_or_else(PoisonError::into_inner))
    }

    async fn key<J: Judge>(&self, connection: &mut Connection, key: &str, oracle: &Mutex<J>) -> Result<(), String> {
        let mut progress = Instant::now();
        let mut pass = Pass { key, oracle, last: None, resumed: false, given: 0, end: None };
        loop {
            let before = pass.last.clone();
            pass.resumed = before.is_some();
            (pass.given, pass.end) = (0, None);
            let call = self.call(key, before.as_ref().map(|last| &*last.ts))?;
            let why = match connection.lines(&call, |line| pass.line(line)).await {
                Ok(()) => match pass.end.take() {
                    Some(Ok(())) => return Ok(()),
                    Some(Err(why)) => why,
                    None => "the stream has no end line".to_owned(),
                },
                Err(Broken::Status(StatusCode::NOT_FOUND, _)) => return Ok(()),
                Err(broken) => broken.to_string(),
            };
            if pass.last != before {
                progress = Instant::now();
            }
            if progress.elapsed() > self.endpoint.patience.retry_for {
                return Err(format!("key {key} could not be read: {why}"));
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    fn call(&self, key: &str, resume: Option<&str>) -> Result<Call, String> {
        let from = match resume {
            Some(ts) => format!("&from={}", encode(ts)),
            None if self.old.contains(key) => format!("&from={}", self.earliest),
            None => String::new(),
        };
        let call = Call::get(&format!("/v1/{}/events?key={}{from}", self.namespace, encode(key)))?;
        Ok(call.with(ACCEPT, HeaderValue::from_static("application/x-ndjson")))
    }
}

/// Where in a key's events a stream is.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    nanos: Option<i64>,
    id: String,
    ts: String,
}

/// One try to read a key.
struct Pass<'a, J> {
    key: &'a str,
    oracle: &'a Mutex<J>,
    last: Option<Place>,
    /// Whether events up to `last` came with an earlier try.
    resumed: bool,
    /// Events of this try.
    given: u64,
    end: Option<Result<(), String>>,
}

impl<J: Judge> Pass<'_, J> {
    fn line(&mut self, line: &[u8]) {
        if let Some(Err(_)) = self.end {
            return;
        }
        match Found::parse(line) {
            Ok(found) => self.event(&found),
            Err(error) => self.end = Some(self.end_line(line, &error)),
        }
    }

    fn event(&mut self, found: &Found<'_>) {
        self.given += 1;
        let place = (found.nanos(), &*found.id);
        let after = self.last.as_ref().is_none_or(|last| place > (last.nanos, &*last.id));
        if self.resumed && !after {
            return;
        }
        self.resumed = false;
        let oracle = &mut *self.oracle.lock().unwrap_or_else(PoisonError::into_inner);
        // The same place again is a double, of which `see` knows.
        if !after && self.last.as_ref().is_some_and(|last| place != (last.nanos, &*last.id)) {
            oracle.out_of_order(self.key, found);
        }
        oracle.see(self.key, found);
        self.last = Some(Place { nanos: place.0, id: place.1.to_owned(), ts: found.ts.to_string() });
    }

    /// What the line that is no event says of those before it.
    fn end_line(&self, line: &[u8], no_event: &serde_json::Error) -> Result<(), String> {
        match serde_json::from_slice(line) {
            Ok(LastLine::End(end)) if end.events != self.given => {
                Err(format!("the end line counts {} events, the stream {}", end.events, self.given))
            }
            Ok(LastLine::End(end)) if end.complete && end.next.is_none() => Ok(()),
            Ok(LastLine::End(_)) => Err("the answer says that it is not complete".into()),
            Ok(LastLine::Error(problem)) => Err(problem.to_string()),
            Err(_) => Err(format!("a line is neither an event nor an end: {no_event}")),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum LastLine {
    End(End),
    Error(serde_json::Value),
}

#[derive(Deserialize)]
struct End {
    events: u64,
    complete: bool,
    next: Option<String>,
}
