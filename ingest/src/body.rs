//! A request's body, read whole, decompressed and within its limits.
//!
//! Memory grows with what arrives, never with what is claimed. A body is had whole or refused
//! whole: nothing of one that is cut, corrupt or too large reaches a decoder. Chooses no HTTP
//! status.

mod decompress;
#[cfg(test)]
mod tests;

use std::time::Duration;

use axum::body::{Body, HttpBody};
use axum::http::{HeaderMap, header};
use braid_shared::codes;
use braid_shared::limits::{REQUEST_BYTES_MAX, REQUEST_DECODED_BYTES_MAX};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;

use crate::fault::Fault;
use decompress::{Encoding, decompress};

/// How long a body may stand still before it is given up.
pub const BODY_IDLE_MAX: Duration = Duration::from_secs(30);
/// Least room asked for before a body is decompressed.
const ROOM_BYTES_MIN: usize = 256 * 1024;
/// What a compressed body is taken to hold at first: that many times its size.
const ROOM_FACTOR: usize = 16;
/// How much more room is asked for when that was too little.
const ROOM_GROWTH: usize = 4;
/// Up to this size a body is decompressed where it is; a larger one must not hold up the thread's
/// other requests.
const INLINE_BYTES_MAX: usize = 4 * 1024;
/// How much of a refused body is still taken off the wire, and for how long: a client that is busy
/// sending reads no answer, and closing on unread bytes makes its kernel throw the answer away.
const LINGER_BYTES_MAX: usize = 16 * REQUEST_BYTES_MAX;
const LINGER_MAX: Duration = Duration::from_secs(10);

/// Reads a body to its end and undoes its `Content-Encoding`. Gives up after `idle_max` without a
/// byte (normally [`BODY_IDLE_MAX`]). `room` is told, before memory is taken, how many bytes the
/// body is about to hold in all, and may refuse.
pub async fn read_body(
    headers: &HeaderMap,
    mut body: Body,
    idle_max: Duration,
    mut room: impl FnMut(usize) -> Result<(), Fault>,
) -> Result<Bytes, Fault> {
    let sent = match Encoding::of(headers) {
        Ok(encoding) => receive(&mut body, idle_max, &mut room).await.map(|sent| (encoding, sent)),
        Err(fault) => Err(fault),
    };
    match sent {
        Ok((encoding, sent)) => decode(encoding, sent, room).await,
        Err(fault) if fault.code == codes::REQUEST_TIMEOUT => Err(fault),
        Err(fault) => {
            discard(headers, body);
            Err(fault)
        }
    }
}

/// Takes a body that nobody will read off the wire, so that its client gets to read why.
pub(crate) fn discard(headers: &HeaderMap, body: Body) {
    // A client that waits for `100 Continue` has sent nothing, and is listening.
    if !headers.contains_key(header::EXPECT) && !body.is_end_stream() {
        tokio::spawn(linger(body));
    }
}

/// The bytes as sent. What announces itself as too large is refused before a byte is read.
async fn receive(body: &mut Body, idle_max: Duration, room: &mut impl FnMut(usize) -> Result<(), Fault>) -> Result<Bytes, Fault> {
    let announced = body.size_hint().lower();
    if announced > REQUEST_BYTES_MAX as u64 {
        return Err(too_large(REQUEST_BYTES_MAX, "as sent"));
    }
    room(announced as usize)?;
    let Some(first) = next_chunk(body, idle_max).await? else { return Ok(Bytes::new()) };
    // Most bodies come in one piece and are passed on as they are.
    room(first.len())?;
    let Some(second) = next_chunk(body, idle_max).await? else { return within_limit(first) };
    let mut whole = BytesMut::from(&*within_limit(first)?);
    let mut next = Some(second);
    while let Some(chunk) = next {
        if whole.len() + chunk.len() > REQUEST_BYTES_MAX {
            return Err(too_large(REQUEST_BYTES_MAX, "as sent"));
        }
        room(whole.len() + chunk.len())?;
        whole.extend_from_slice(&chunk);
        next = next_chunk(body, idle_max).await?;
    }
    Ok(whole.freeze())
}

fn within_limit(only: Bytes) -> Result<Bytes, Fault> {
    if only.len() > REQUEST_BYTES_MAX { Err(too_large(REQUEST_BYTES_MAX, "as sent")) } else { Ok(only) }
}

/// The next bytes, of which there is at least one; `None` at the end.
async fn next_chunk(body: &mut Body, idle_max: Duration) -> Result<Option<Bytes>, Fault> {
    let next = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| malformed(format!("the body broke off: {error}")))?;
            // Trailers end a body and mean nothing here.
            if let Ok(data) = frame.into_data()
                && !data.is_empty()
            {
                return Ok(Some(data));
            }
        }
        Ok(None)
    };
    tokio::time::timeout(idle_max, next).await.unwrap_or_else(|_| {
        let detail = format!("no byte of the body arrived for {} s", idle_max.as_secs_f64());
        Err(Fault::new(codes::REQUEST_TIMEOUT, detail))
    })
}

/// Decompresses into what room there is; where that is too little, again into more. A body seldom
/// holds more than [`ROOM_FACTOR`] times its size, and many small ones must not claim the most.
async fn decode(encoding: Encoding, sent: Bytes, mut room: impl FnMut(usize) -> Result<(), Fault>) -> Result<Bytes, Fault> {
    if encoding == Encoding::Identity {
        return Ok(sent);
    }
    let mut bytes_max = sent.len().saturating_mul(ROOM_FACTOR).clamp(ROOM_BYTES_MIN, REQUEST_DECODED_BYTES_MAX);
    loop {
        room(bytes_max)?;
        match decompressed(encoding, sent.clone(), bytes_max).await {
            Err(fault) if fault.code == codes::BODY_TOO_LARGE && bytes_max < REQUEST_DECODED_BYTES_MAX => {
                bytes_max = bytes_max.saturating_mul(ROOM_GROWTH).min(REQUEST_DECODED_BYTES_MAX);
            }
            outcome => return outcome,
        }
    }
}

async fn decompressed(encoding: Encoding, sent: Bytes, bytes_max: usize) -> Result<Bytes, Fault> {
    if sent.len() <= INLINE_BYTES_MAX {
        return decompress(encoding, &sent, bytes_max);
    }
    let work = tokio::task::spawn_blocking(move || decompress(encoding, &sent, bytes_max));
    work.await.unwrap_or_else(|error| {
        tracing::error!(%error, "decompression did not finish");
        Err(Fault::new(codes::INTERNAL, "the body could not be decompressed"))
    })
}

/// Takes what is still coming off the wire, within bounds, so that the refusal can be read.
async fn linger(mut body: Body) {
    let drain = async {
        let mut left = LINGER_BYTES_MAX;
        while let Ok(Some(chunk)) = next_chunk(&mut body, LINGER_MAX).await {
            let Some(rest) = left.checked_sub(chunk.len()) else { return };
            left = rest;
        }
    };
    // Both ends are fine: the answer went out meanwhile, and the connection is closed after this.
    let _ = tokio::time::timeout(LINGER_MAX, drain).await;
}

fn too_large(bytes_max: usize, when: &str) -> Fault {
    Fault::new(codes::BODY_TOO_LARGE, format!("the body has more than {bytes_max} bytes {when}"))
}

fn malformed(detail: impl Into<String>) -> Fault {
    Fault::new(codes::BODY_MALFORMED, detail)
}
