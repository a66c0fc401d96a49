//! Connections to the server under test. One sends one request at a time and reads what became of it.
//!
//! Retries what is safe and useful to retry: 503 and its kin after the time the server asks for, and
//! broken connections; re-sending an event that has an id changes nothing. Everything else is
//! reported at once. How requests look and what answers mean is the [`Target`]'s; which connection
//! does what, the [`Link`]'s.

mod answer;
mod braid;
mod endpoint;
mod format;
mod lines;
mod link;
mod patience;
mod peers;
mod store;
mod target;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{HOST, RETRY_AFTER};
use hyper::{Request, Response, StatusCode, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::time::Instant;

pub(crate) use answer::{Answer, RowError};
pub(crate) use braid::{Braid, encode};
pub(crate) use endpoint::Endpoint;
pub(crate) use format::{Encoding, Format};
pub(crate) use lines::Broken;
pub(crate) use link::Link;
pub(crate) use patience::Patience;
pub(crate) use peers::{ServerKind, target};
pub(crate) use store::Store;
pub(crate) use store::cql_rows::Rows;
pub(crate) use store::dynamodb_items::{Items, Suffix};
pub(crate) use target::{Call, Target, Verdict, by_status};

/// Largest answer that is read; a list of 10,000 refused rows fits.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How a request ended, all its tries together.
#[derive(Debug)]
pub(crate) struct Delivery {
    /// What became of its events, or why that is not known.
    pub(crate) result: Result<Answer, Failure>,
    /// Whether a try before the last may have been done without our knowing.
    pub(crate) doubtful: bool,
    /// When the first try left.
    pub(crate) started: Instant,
    /// When the last answer was read, or given up on.
    pub(crate) ended: Instant,
    /// Tries after the first.
    pub(crate) retries: u64,
    /// Of these, after as long as the server asked for.
    pub(crate) told_to_wait: u64,
    /// Bytes of the body that was sent, once; where there is none, of the answer.
    pub(crate) bytes: u64,
    /// Capacity units that DynamoDB says it charged for all tries; 0 elsewhere.
    pub(crate) units: f64,
}

impl Delivery {
    /// A request that could not be made.
    fn never(failure: Failure) -> Delivery {
        let now = Instant::now();
        Delivery { result: Err(failure), doubtful: false, started: now, ended: now, retries: 0, told_to_wait: 0, bytes: 0, units: 0.0 }
    }
}

/// Why a request did not go through.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// Its time was used up. Unless no try was doubtful, its events may be stored.
    #[error("gave up after {seconds:.1} s and {tries} tries: {why}")]
    GaveUp { seconds: f64, tries: u64, why: String },
    /// No event of it is stored.
    #[error("the server refused the request: {0}")]
    Refused(String),
}

/// How one try ended, if not well.
enum Trouble {
    /// `sent`: the server may have acted on it.
    Again {
        why: String,
        after: Option<Duration>,
        sent: bool,
    },
    Refused(String),
}

/// A connection, made when it is first needed and made anew when it breaks.
pub(crate) struct Connection {
    endpoint: Arc<Endpoint>,
    sender: Option<SendRequest<Full<Bytes>>>,
}

impl Connection {
    pub(crate) fn new(endpoint: Arc<Endpoint>) -> Connection {
        Connection { endpoint, sender: None }
    }

    /// Sends a request, again within the endpoint's bounds, until `judge` makes something of the answer.
    pub(crate) async fn deliver(&mut self, call: &Call, mut judge: impl FnMut(StatusCode, &[u8]) -> Verdict) -> Delivery {
        let started = Instant::now();
        let (mut retries, mut told_to_wait, mut doubtful) = (0, 0, false);
        loop {
            let tried = self.attempt(call, &mut judge).await;
            let ended = Instant::now();
            let end = |result, bytes, doubtful| Delivery { result, doubtful, started, ended, retries, told_to_wait, bytes, units: 0.0 };
            let sent_bytes = call.body.len() as u64;
            let (why, after) = match tried {
                Ok((answer, bytes)) => return end(Ok(answer), if sent_bytes > 0 { sent_bytes } else { bytes }, doubtful),
                Err(Trouble::Refused(why)) => return end(Err(Failure::Refused(why)), sent_bytes, doubtful),
                Err(Trouble::Again { why, after, sent }) => {
                    doubtful |= sent;
                    (why, after)
                }
            };
            if let Err(failure) = self.endpoint.patience.pause(started, retries, after, why).await {
                return end(Err(failure), sent_bytes, doubtful);
            }
            retries += 1;
            told_to_wait += u64::from(after.is_some());
        }
    }

    /// One try; with the answer, its length in bytes.
    async fn attempt(&mut self, call: &Call, mut judge: impl FnMut(StatusCode, &[u8]) -> Verdict) -> Result<(Answer, u64), Trouble> {
        let timeout = self.endpoint.timeout;
        let outcome = tokio::time::timeout(timeout, self.exchange(call, &mut judge)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(again(format!("no answer within {timeout:?}"))));
        if outcome.is_err() {
            // Whatever is still under way on it must not be taken for the next answer.
            self.sender = None;
        }
        outcome
    }

    async fn exchange(&mut self, call: &Call, mut judge: impl FnMut(StatusCode, &[u8]) -> Verdict) -> Result<(Answer, u64), Trouble> {
        let response = self.send(call).await?;
        let (status, after) = (response.status(), retry_after(&response));
        let body = read(response).await?;
        match judge(status, &body) {
            Verdict::Done(answer) => Ok((answer, body.len() as u64)),
            Verdict::Again(why) => Err(Trouble::Again { why, after, sent: true }),
            Verdict::Refused(why) => Err(Trouble::Refused(why)),
        }
    }

    /// Sends a request once and gives the answer from its headers on. The caller reads it to its end
    /// before the next, or drops the connection.
    async fn send(&mut self, call: &Call) -> Result<Response<Incoming>, Trouble> {
        let mut request = Request::new(Full::new(call.body.clone()));
        *request.method_mut() = call.method.clone();
        *request.uri_mut() = call.path.clone();
        *request.headers_mut() = call.headers.clone();
        request.headers_mut().insert(HOST, self.endpoint.host.clone());
        self.sender().await?.send_request(request).await.map_err(|error| again(describe(&error)))
    }

    /// The connection, ready to send; a new one where there is none or the server closed it.
    async fn sender(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, Trouble> {
        let usable = match &mut self.sender {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        if !usable {
            self.sender = Some(connect(&self.endpoint).await?);
        }
        self.sender.as_mut().ok_or_else(|| again("no connection".to_owned()))
    }
}

async fn connect(endpoint: &Endpoint) -> Result<SendRequest<Full<Bytes>>, Trouble> {
    let authority = &endpoint.authority;
    let refused =
        |why: &dyn std::fmt::Display| Trouble::Again { why: format!("cannot connect to {authority}: {why}"), after: None, sent: false };
    let stream = TcpStream::connect(&**authority).await.map_err(|error| refused(&error))?;
    stream.set_nodelay(true).map_err(|error| refused(&error))?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| refused(&error))?;
    // What ends a connection reaches the sender as the error of its request.
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

async fn read(response: Response<Incoming>) -> Result<Bytes, Trouble> {
    let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
    body.map(|body| body.to_bytes()).map_err(|error| again(format!("the answer broke off: {error}")))
}

/// A try that may have been acted on.
fn again(why: String) -> Trouble {
    Trouble::Again { why, after: None, sent: true }
}

/// hyper keeps the cause apart from what it says itself.
fn describe(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

fn retry_after(response: &Response<Incoming>) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that gives each connection the next of `answers` and then closes it.
    async fn server(answers: &'static [&'static str]) -> Connection {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut buffer = [0; 4096];
                let _ = stream.read(&mut buffer).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        Connection::new(Arc::new(Endpoint::new("--url", &url, Duration::from_secs(20), Duration::from_secs(20)).unwrap()))
    }

    async fn post(connection: &mut Connection) -> Delivery {
        let braid = Braid::new("ns".parse().unwrap(), Format::Ndjson, Encoding::None).unwrap();
        let call = braid.write().carrying(Bytes::from_static(b"{}"));
        connection.deliver(&call, |status, body| braid.judge_write(status, body, 1)).await
    }

    const STORED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 38\r\n\r\n{\"stored\":1,\"rejected\":0,\"errors\":[]} ";
    const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";

    #[tokio::test]
    async fn a_busy_server_and_a_broken_connection_are_tried_again() {
        let mut connection = server(&[BUSY, "", "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"stored\"", STORED]).await;
        let sent = post(&mut connection).await;
        assert_eq!((sent.result.unwrap().stored, sent.retries, sent.told_to_wait, sent.doubtful), (1, 3, 1, true));
    }

    #[tokio::test]
    async fn a_request_that_is_wrong_is_not_sent_again() {
        let mut connection = server(&["HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone", STORED]).await;
        let failure = post(&mut connection).await.result.unwrap_err();
        assert!(matches!(&failure, Failure::Refused(why) if why.contains("404")), "{failure}");
    }

    #[tokio::test]
    async fn retries_end_when_their_time_is_used_up_and_what_never_left_is_not_in_doubt() {
        let endpoint = Endpoint::new("--url", "http://127.0.0.1:1", Duration::from_secs(1), Duration::ZERO).unwrap();
        let sent = post(&mut Connection::new(Arc::new(endpoint))).await;
        assert!(matches!(sent.result, Err(Failure::GaveUp { tries: 1, .. })) && !sent.doubtful);
    }

    #[tokio::test]
    async fn a_request_that_broke_off_is_in_doubt() {
        let mut connection = server(&["", "HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n"]).await;
        let sent = post(&mut connection).await;
        assert!(matches!(sent.result, Err(Failure::Refused(_))) && sent.doubtful);
    }
}
