//! One connection to Braid that posts bodies and reads what became of their events.
//!
//! Retries what is safe and useful to retry: 503 and its kin after the time the server asks for,
//! and broken connections; re-sending an event that has an id changes nothing. Everything else is
//! reported at once. Never two requests at a time on one connection.

mod answer;
mod endpoint;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1::{self, SendRequest};
use hyper::header::{CONTENT_ENCODING, CONTENT_TYPE, HOST, RETRY_AFTER};
use hyper::{Request, Response, StatusCode, body::Incoming};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

pub(crate) use answer::{Answer, RowError};
pub(crate) use endpoint::{Endpoint, Format};

/// Largest answer that is read; a list of 10,000 refused rows fits.
const ANSWER_BYTES_MAX: usize = 16 * 1024 * 1024;
const BACKOFF_FIRST: Duration = Duration::from_millis(50);
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// Longest time that a server's `Retry-After` is followed.
const RETRY_AFTER_MAX: Duration = Duration::from_secs(30);

/// A body that went through.
#[derive(Debug)]
pub(crate) struct Sent {
    /// What became of its events.
    pub(crate) answer: Answer,
    /// From the first try to the answer.
    pub(crate) latency: Duration,
    /// Tries after the first.
    pub(crate) retries: u64,
}

/// A body that did not go through.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("gave up after {seconds:.1} s and {tries} tries: {why}")]
    GaveUp { seconds: f64, tries: u64, why: String },
    #[error("the server refused the request: {status}: {detail}")]
    Refused { status: StatusCode, detail: String },
}

/// How one try ended, if not well.
enum Trouble {
    Again { why: String, after: Option<Duration> },
    Fatal(Failure),
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

    /// Posts a body of `events` events, trying again within the endpoint's bounds.
    pub(crate) async fn post(&mut self, body: Bytes, events: u64) -> Result<Sent, Failure> {
        let began = Instant::now();
        let mut retries = 0;
        loop {
            let (why, after) = match self.attempt(body.clone(), events).await {
                Ok(answer) => return Ok(Sent { answer, latency: began.elapsed(), retries }),
                Err(Trouble::Fatal(failure)) => return Err(failure),
                Err(Trouble::Again { why, after }) => (why, after),
            };
            let wait = after.map_or_else(|| backoff(retries), |after| after.min(RETRY_AFTER_MAX));
            if began.elapsed() + wait > self.endpoint.retry_for {
                return Err(Failure::GaveUp { seconds: began.elapsed().as_secs_f64(), tries: retries + 1, why });
            }
            self.endpoint.say_once(&why);
            tokio::time::sleep(wait).await;
            retries += 1;
        }
    }

    async fn attempt(&mut self, body: Bytes, events: u64) -> Result<Answer, Trouble> {
        let timeout = self.endpoint.timeout;
        let outcome = tokio::time::timeout(timeout, self.exchange(body, events)).await;
        let outcome = outcome.unwrap_or_else(|_| Err(again(format!("no answer within {timeout:?}"))));
        if outcome.is_err() {
            // Whatever is still under way on it must not be taken for the next answer.
            self.sender = None;
        }
        outcome
    }

    async fn exchange(&mut self, body: Bytes, events: u64) -> Result<Answer, Trouble> {
        let request = self.request(body)?;
        let response = self.sender().await?.send_request(request).await.map_err(|error| again(describe(&error)))?;
        let (status, after) = (response.status(), retry_after(&response));
        let body = read(response).await?;
        if (status.is_success() || answer::may_be_partial(status))
            && let Some(answer) = Answer::read(self.endpoint.format, status, &body, events)
        {
            return Ok(answer);
        }
        let detail = String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned();
        match status {
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT => {
                Err(Trouble::Again { why: format!("{status}: {detail}"), after })
            }
            _ => Err(Trouble::Fatal(Failure::Refused { status, detail })),
        }
    }

    fn request(&self, body: Bytes) -> Result<Request<Full<Bytes>>, Trouble> {
        let endpoint = &self.endpoint;
        let mut request =
            Request::post(endpoint.path.clone()).header(HOST, &endpoint.host).header(CONTENT_TYPE, endpoint.format.content_type());
        if endpoint.gzip {
            request = request.header(CONTENT_ENCODING, "gzip");
        }
        request.body(Full::new(body)).map_err(|error| again(error.to_string()))
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
    let refused = |why: &dyn std::fmt::Display| again(format!("cannot connect to {authority}: {why}"));
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

fn again(why: String) -> Trouble {
    Trouble::Again { why, after: None }
}

/// hyper keeps the cause apart from what it says itself.
fn describe(error: &dyn std::error::Error) -> String {
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

fn retry_after(response: &Response<Incoming>) -> Option<Duration> {
    let seconds = response.headers().get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}

/// Doubles from 50 ms to 5 s; a random half of it, so that connections do not come back together.
fn backoff(retries: u64) -> Duration {
    let full = BACKOFF_FIRST.saturating_mul(1 << retries.min(10)).min(BACKOFF_MAX);
    full.mul_f64(rand::random_range(0.5..=1.0))
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// A server that gives each connection the next of `answers` and then closes it.
    async fn server(answers: &'static [&'static str]) -> Arc<Endpoint> {
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
        Arc::new(Endpoint::new(&url, "/v1/ns/events", Format::Ndjson, false, Duration::from_secs(20), Duration::from_secs(20)).unwrap())
    }

    const STORED: &str = "HTTP/1.1 200 OK\r\ncontent-length: 38\r\n\r\n{\"stored\":1,\"rejected\":0,\"errors\":[]} ";
    const BUSY: &str = "HTTP/1.1 503 Service Unavailable\r\nretry-after: 0\r\ncontent-length: 0\r\n\r\n";

    #[tokio::test]
    async fn a_busy_server_and_a_broken_connection_are_tried_again() {
        let endpoint = server(&[BUSY, "", "HTTP/1.1 200 OK\r\ncontent-length: 99\r\n\r\n{\"stored\"", STORED]).await;
        let sent = Connection::new(endpoint).post(Bytes::from_static(b"{}"), 1).await.unwrap();
        assert_eq!((sent.answer.stored, sent.retries), (1, 3));
    }

    #[tokio::test]
    async fn a_request_that_is_wrong_is_not_sent_again() {
        let endpoint = server(&["HTTP/1.1 404 Not Found\r\ncontent-length: 4\r\n\r\ngone", STORED]).await;
        let failure = Connection::new(endpoint).post(Bytes::from_static(b"{}"), 1).await.unwrap_err();
        assert!(matches!(failure, Failure::Refused { status: StatusCode::NOT_FOUND, .. }), "{failure}");
    }

    #[tokio::test]
    async fn retries_end_when_their_time_is_used_up() {
        let endpoint = Endpoint::new("http://127.0.0.1:1", "/", Format::Ndjson, false, Duration::from_secs(1), Duration::ZERO).unwrap();
        let failure = Connection::new(Arc::new(endpoint)).post(Bytes::new(), 0).await.unwrap_err();
        assert!(matches!(failure, Failure::GaveUp { tries: 1, .. }), "{failure}");
    }

    #[test]
    fn backoff_grows_to_a_bound() {
        assert!(backoff(0) <= BACKOFF_FIRST);
        assert!((BACKOFF_MAX / 2..=BACKOFF_MAX).contains(&backoff(u64::MAX)));
    }
}
