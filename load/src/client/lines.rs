//! An answer as a stream of lines: nothing of it is kept but the line under way.

use http_body_util::BodyExt;
use hyper::StatusCode;

use super::{Call, Connection, Trouble, read};

/// Longest line that is read; an event takes 64 KiB before it is escaped.
const LINE_BYTES_MAX: usize = 1024 * 1024;

/// Why a stream did not come to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The server answered with something else.
    #[error("{0}: {1}")]
    Status(StatusCode, String),
    #[error("{0}")]
    Off(String),
}

impl Connection {
    /// Sends a request once and gives each line of the answer to `each`, without its end. `Ok` says
    /// that the body ended as HTTP wants it, which says nothing of its meaning.
    pub(crate) async fn lines(&mut self, call: &Call, each: impl FnMut(&[u8])) -> Result<(), Broken> {
        let streamed = self.stream(call, each).await;
        if streamed.is_err() {
            // The rest of this answer must not be taken for the next one.
            self.sender = None;
        }
        streamed
    }

    async fn stream(&mut self, call: &Call, mut each: impl FnMut(&[u8])) -> Result<(), Broken> {
        let timeout = self.endpoint.timeout;
        let late = |_| Broken::Off(format!("no progress within {timeout:?}"));
        let response = tokio::time::timeout(timeout, self.send(call)).await.map_err(late)?.map_err(Broken::from)?;
        let status = response.status();
        if status != StatusCode::OK {
            let body = tokio::time::timeout(timeout, read(response)).await.map_err(late)?.map_err(Broken::from)?;
            return Err(Broken::Status(status, String::from_utf8_lossy(&body[..body.len().min(500)]).into_owned()));
        }
        let mut body = response.into_body();
        let mut open = Vec::new();
        while let Some(frame) = tokio::time::timeout(timeout, body.frame()).await.map_err(late)? {
            let frame = frame.map_err(|error| Broken::Off(format!("the answer broke off: {error}")))?;
            if let Ok(data) = frame.into_data() {
                split(&data, &mut open, &mut each)?;
            }
        }
        if open.is_empty() { Ok(()) } else { Err(Broken::Off("the answer ended within a line".into())) }
    }
}

/// Gives the lines that end in `data` to `each`; what is left of it stays in `open`.
fn split(mut data: &[u8], open: &mut Vec<u8>, each: &mut impl FnMut(&[u8])) -> Result<(), Broken> {
    while let Some(end) = memchr::memchr(b'\n', data) {
        if open.is_empty() {
            each(&data[..end]);
        } else {
            open.extend_from_slice(&data[..end]);
            each(open);
            open.clear();
        }
        data = &data[end + 1..];
    }
    open.extend_from_slice(data);
    if open.len() > LINE_BYTES_MAX { Err(Broken::Off("a line of the answer is longer than 1 MiB".into())) } else { Ok(()) }
}

impl From<Trouble> for Broken {
    fn from(trouble: Trouble) -> Broken {
        match trouble {
            Trouble::Again { why, .. } | Trouble::Refused(why) => Broken::Off(why),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_found_however_they_are_cut() {
        for size in 1..9 {
            let (mut lines, mut open) = (Vec::new(), Vec::new());
            for part in b"one\n\nthree\nfo".chunks(size) {
                split(part, &mut open, &mut |line: &[u8]| lines.push(line.to_vec())).unwrap();
            }
            assert_eq!((lines, open), (vec![b"one".to_vec(), Vec::new(), b"three".to_vec()], b"fo".to_vec()));
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        assert!(split(&vec![b'x'; LINE_BYTES_MAX + 1], &mut Vec::new(), &mut |_: &[u8]| ()).is_err());
    }
}
