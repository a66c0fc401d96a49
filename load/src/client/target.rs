//! What a run must know of the server it drives: how a request looks and how an answer is read.
//!
//! [`Target`] is the seam for peers: Braid is one implementation (`braid.rs`), each HTTP peer that is
//! measured beside it is one more. A target is plain data behind pure functions: it opens no
//! connection, waits for nothing and counts nothing. That is the business of [`super::Connection`],
//! which is the same for all of them. A server that is not reached over HTTP is no target but a
//! further [`super::Link`].

use bytes::Bytes;
use hyper::header::{CONTENT_ENCODING, HeaderMap, HeaderName, HeaderValue};
use hyper::{Method, StatusCode, Uri};

use super::{Answer, Encoding, Format};
use crate::workload::Read;

/// A request but for the connection it goes over.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) method: Method,
    /// Path and query.
    pub(crate) path: Uri,
    /// Without `Host` and `Content-Length`.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    /// A `GET` of a path that the caller has percent-encoded.
    pub(crate) fn get(path: &str) -> Result<Call, String> {
        let path = path.parse().map_err(|_| format!("not a path: {path}"))?;
        Ok(Call { method: Method::GET, path, headers: HeaderMap::new(), body: Bytes::new() })
    }

    /// A `POST` whose body is put in later, once a request.
    pub(crate) fn post(path: &str, content_type: HeaderValue) -> Result<Call, String> {
        Ok(Call { method: Method::POST, ..Call::get(path)? }.with(hyper::header::CONTENT_TYPE, content_type))
    }

    /// The same with one more header.
    pub(crate) fn with(mut self, name: HeaderName, value: HeaderValue) -> Call {
        self.headers.insert(name, value);
        self
    }

    /// The same for bodies that are compressed.
    pub(crate) fn encoded(self, encoding: Encoding) -> Call {
        match encoding.name() {
            Some(name) => self.with(CONTENT_ENCODING, HeaderValue::from_static(name)),
            None => self,
        }
    }

    /// The same with this body.
    pub(crate) fn carrying(&self, body: Bytes) -> Call {
        Call { body, ..self.clone() }
    }
}

/// What an answer means.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It says what became of every event (of a read: the read is answered).
    Done(Answer),
    /// Nothing is known or nothing was done; the same request may be sent again.
    Again(String),
    /// The request is wrong and will be wrong again; no event of it is stored.
    Refused(String),
}

/// A kind of server.
pub(crate) trait Target: Send + Sync {
    /// How the events of a body are written.
    fn format(&self) -> Format;
    /// Calls to be made, in order, before the first event: what must be there for it.
    fn prepare(&self) -> Result<Vec<Call>, String> {
        Ok(Vec::new())
    }
    /// The call that takes events, without its body.
    fn write(&self) -> &Call;
    /// What the answer to a body of `events` events says became of them.
    fn judge_write(&self, status: StatusCode, body: &[u8], events: u64) -> Verdict;
    /// The call for a read; the error says that this kind of server has none like it.
    fn read(&self, read: &Read) -> Result<Call, String>;
    /// Whether a read was answered, whole.
    fn judge_read(&self, read: &Read, status: StatusCode, body: &[u8]) -> Verdict;
}

/// Statuses that say "not now", of every server.
pub(crate) fn is_passing(status: StatusCode) -> bool {
    matches!(
        status,
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS | StatusCode::BAD_GATEWAY | StatusCode::GATEWAY_TIMEOUT
    )
}

/// What an answer that has no other meaning means by its status; `detail` is for a person.
pub(crate) fn by_status(status: StatusCode, body: &[u8]) -> Verdict {
    let detail = String::from_utf8_lossy(&body[..body.len().min(500)]);
    let said = format!("{status}: {detail}");
    if is_passing(status) { Verdict::Again(said) } else { Verdict::Refused(said) }
}
