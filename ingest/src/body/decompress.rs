//! Undoing a `Content-Encoding`, never past a bound and never in part.

use std::io::{self, Read};

use axum::http::{HeaderMap, header};
use braid_shared::codes;
use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;

use super::{malformed, too_large};
use crate::fault::Fault;

/// Largest zstd window, as a power of two: 8 MiB, what RFC 9659 allows in HTTP. It is memory that a
/// frame's header claims.
const ZSTD_WINDOW_LOG_MAX: u32 = 23;

/// How a body is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encoding {
    Identity,
    Gzip,
    Zstd,
}

impl Encoding {
    /// Reads `Content-Encoding`. More than one encoding on top of each other is not taken.
    pub(super) fn of(headers: &HeaderMap) -> Result<Encoding, Fault> {
        let mut encoding = Encoding::Identity;
        for value in headers.get_all(header::CONTENT_ENCODING) {
            for name in value.to_str().map_err(|_| unsupported("which is not ASCII"))?.split(',').map(str::trim) {
                let next = Encoding::of_name(name)?;
                if encoding != Encoding::Identity && next != Encoding::Identity {
                    return Err(unsupported("more than once"));
                }
                encoding = if next == Encoding::Identity { encoding } else { next };
            }
        }
        Ok(encoding)
    }

    fn of_name(name: &str) -> Result<Encoding, Fault> {
        match &*name.to_ascii_lowercase() {
            "" | "identity" => Ok(Encoding::Identity),
            "gzip" | "x-gzip" => Ok(Encoding::Gzip),
            "zstd" => Ok(Encoding::Zstd),
            other => Err(unsupported(&format!("with {other:?}"))),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Encoding::Identity => "identity",
            Encoding::Gzip => "gzip",
            Encoding::Zstd => "zstd",
        }
    }
}

fn unsupported(what: &str) -> Fault {
    let detail = format!("the body is encoded {what}; it may be encoded once, with gzip or zstd");
    Fault::new(codes::UNSUPPORTED_ENCODING, detail)
}

/// The whole content of every gzip member or zstd frame. One byte past `bytes_max` ends the work.
pub(super) fn decompress(encoding: Encoding, sent: &Bytes, bytes_max: usize) -> Result<Bytes, Fault> {
    let plain = match encoding {
        Encoding::Identity => return Ok(sent.clone()),
        Encoding::Gzip => read_bounded(MultiGzDecoder::new(&**sent), bytes_max),
        Encoding::Zstd => zstd_decoder(sent).and_then(|decoder| read_bounded(decoder, bytes_max)),
    };
    match plain {
        // Neither format knows a stream of nothing: even empty content has a header.
        _ if sent.is_empty() => Err(malformed(format!("the body is empty; {} content has a header", encoding.name()))),
        Ok(plain) if plain.len() > bytes_max => Err(too_large(bytes_max, "after decompression")),
        Ok(plain) => Ok(plain.into()),
        Err(error) => Err(malformed(format!("the body is cut, corrupt or not {}: {error}", encoding.name()))),
    }
}

fn zstd_decoder(sent: &[u8]) -> io::Result<zstd::Decoder<'static, &[u8]>> {
    let mut decoder = zstd::Decoder::with_buffer(sent)?;
    decoder.window_log_max(ZSTD_WINDOW_LOG_MAX)?;
    Ok(decoder)
}

fn read_bounded(decoder: impl Read, bytes_max: usize) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    decoder.take(bytes_max as u64 + 1).read_to_end(&mut plain)?;
    Ok(plain)
}
