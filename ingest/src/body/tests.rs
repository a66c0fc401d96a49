//! Bodies that are whole, cut, corrupt, too large, too slow, and compressed in every way.

use std::convert::Infallible;
use std::io::Write;

use futures::StreamExt;
use futures::stream::{self, Stream};
use proptest::prelude::*;
use tokio::sync::oneshot;

use super::*;

const IDLE: Duration = Duration::from_secs(60);

fn gzip(plain: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

fn zstd(plain: &[u8]) -> Vec<u8> {
    zstd::encode_all(plain, 1).unwrap()
}

/// A frame with a checksum, as the command-line tool writes it.
fn zstd_checked(plain: &[u8]) -> Vec<u8> {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.include_checksum(true).unwrap();
    encoder.write_all(plain).unwrap();
    encoder.finish().unwrap()
}

/// Text that compresses, but not to nothing.
fn sample() -> Vec<u8> {
    (0..200).flat_map(|i: u32| format!("{{\"key\":\"orders\",\"id\":\"{}\"}}\n", i.wrapping_mul(2_654_435_761)).into_bytes()).collect()
}

fn encoded(encoding: &str) -> HeaderMap {
    HeaderMap::from_iter([(header::CONTENT_ENCODING, encoding.parse().unwrap())])
}

fn chunked(chunks: impl Stream<Item = Bytes> + Send + 'static) -> Body {
    Body::from_stream(chunks.map(Ok::<_, Infallible>))
}

async fn read(encoding: &str, body: impl Into<Body>) -> Result<Bytes, Fault> {
    read_body(&encoded(encoding), body.into(), IDLE, |_| Ok(())).await
}

async fn code_of(encoding: &str, body: impl Into<Body>) -> &'static str {
    read(encoding, body).await.expect_err("refused").code
}

#[tokio::test]
async fn room_is_asked_for_before_memory_is_taken_and_may_be_refused() {
    let full = |bytes_max| move |bytes| if bytes <= bytes_max { Ok(()) } else { Err(Fault::new(codes::OVERLOADED, "")) };
    let bomb = gzip(&vec![0; 8 * 1024 * 1024]);
    let read = async |encoding, body: Body, bytes_max| read_body(&encoded(encoding), body, IDLE, full(bytes_max)).await;
    assert_eq!(read("gzip", bomb.clone().into(), 1 << 20).await.unwrap_err().code, codes::OVERLOADED);
    assert_eq!(read("gzip", bomb.into(), 16 << 20).await.unwrap().len(), 8 << 20);
    assert_eq!(read("", "abc".into(), 2).await.unwrap_err().code, codes::OVERLOADED);
    let pieces = || chunked(stream::iter(["ab", "c"].map(Bytes::from)));
    assert_eq!(read("", pieces(), 2).await.unwrap_err().code, codes::OVERLOADED);
    assert_eq!(read("", pieces(), 3).await.unwrap(), "abc");
}

#[tokio::test]
async fn a_plain_body_is_passed_on_in_one_piece_or_many() {
    assert_eq!(read_body(&HeaderMap::new(), Body::empty(), IDLE, |_| Ok(())).await.unwrap(), "");
    assert_eq!(read("identity", "abc").await.unwrap(), "abc");
    let pieces = chunked(stream::iter(["ab", "", "c", "de"].map(Bytes::from)));
    assert_eq!(read("", pieces).await.unwrap(), "abcde");
}

#[tokio::test]
async fn gzip_and_zstd_are_undone_whatever_their_names_case() {
    let plain = sample();
    for (encoding, sent) in [("gzip", gzip(&plain)), ("X-GZip", gzip(&plain)), ("ZSTD", zstd(&plain)), ("identity, gzip", gzip(&plain))] {
        assert_eq!(read(encoding, sent).await.unwrap(), plain, "{encoding}");
    }
}

#[tokio::test]
async fn large_bodies_are_decompressed_off_the_thread_to_the_same_bytes() {
    let plain: Vec<u8> = (0..3_000_000_u32).flat_map(|i| (i.wrapping_mul(2_654_435_761) >> 7).to_le_bytes()).collect();
    for (encoding, sent) in [("gzip", gzip(&plain)), ("zstd", zstd(&plain))] {
        assert!(sent.len() > INLINE_BYTES_MAX);
        assert_eq!(read(encoding, sent).await.unwrap(), plain, "{encoding}");
    }
}

#[tokio::test]
async fn every_gzip_member_and_zstd_frame_is_read() {
    let gzips = [gzip(b"one\n"), gzip(b""), gzip(b"two\n")].concat();
    assert_eq!(read("gzip", gzips).await.unwrap(), "one\ntwo\n");
    let zstds = [zstd(b"one\n"), zstd(b""), zstd_checked(b"two\n")].concat();
    assert_eq!(read("zstd", zstds).await.unwrap(), "one\ntwo\n");
}

#[tokio::test]
async fn other_and_stacked_encodings_are_unsupported() {
    for encoding in ["br", "deflate", "gzip, gzip", "zstd,gzip", "gzip;q=1", "*"] {
        assert_eq!(code_of(encoding, "x").await, codes::UNSUPPORTED_ENCODING, "{encoding}");
    }
    let mut twice = encoded("gzip");
    twice.append(header::CONTENT_ENCODING, "zstd".parse().unwrap());
    assert_eq!(read_body(&twice, Body::from("x"), IDLE, |_| Ok(())).await.unwrap_err().code, codes::UNSUPPORTED_ENCODING);
}

#[test]
fn a_compressed_stream_cut_anywhere_is_refused_whole() {
    let plain = sample();
    let two_members = [gzip(b"whole"), gzip(&plain)].concat();
    let first = gzip(b"whole").len();
    for (encoding, sent) in [(Encoding::Gzip, two_members), (Encoding::Zstd, zstd(&plain)), (Encoding::Zstd, zstd_checked(&plain))] {
        for cut in (0..sent.len()).filter(|cut| encoding != Encoding::Gzip || *cut != first) {
            let fault = decompress(encoding, &Bytes::copy_from_slice(&sent[..cut]), 1 << 20).expect_err("cut");
            assert_eq!(fault.code, codes::BODY_MALFORMED, "{encoding:?} cut at {cut}");
        }
        assert!(decompress(encoding, &sent.into(), 1 << 20).is_ok());
    }
}

#[tokio::test]
async fn bytes_after_the_last_member_or_frame_refuse_the_body() {
    for tail in [&b"x"[..], b"\0", b"\0\0\0\0\0\0\0\0\0\0\0\0", b"trailing garbage", b"\x1f\x8b", b"\x28\xb5\x2f\xfd"] {
        assert_eq!(code_of("gzip", [&gzip(b"whole"), tail].concat()).await, codes::BODY_MALFORMED, "gzip {tail:?}");
        assert_eq!(code_of("zstd", [&zstd(b"whole"), tail].concat()).await, codes::BODY_MALFORMED, "zstd {tail:?}");
    }
}

#[tokio::test]
async fn a_wrong_header_or_checksum_refuses_the_body() {
    let sound = gzip(&sample());
    for at in [0, 1, 2, sound.len() - 8, sound.len() - 1] {
        let mut corrupt = sound.clone();
        corrupt[at] ^= 0x40;
        assert_eq!(code_of("gzip", corrupt).await, codes::BODY_MALFORMED, "byte {at}");
    }
    let mut corrupt = zstd_checked(&sample());
    *corrupt.last_mut().unwrap() ^= 1;
    assert_eq!(code_of("zstd", corrupt).await, codes::BODY_MALFORMED);
    assert_eq!(code_of("gzip", "plain text").await, codes::BODY_MALFORMED);
    assert_eq!(code_of("zstd", gzip(b"not zstd")).await, codes::BODY_MALFORMED);
}

#[tokio::test]
async fn a_bomb_is_too_large_and_costs_no_more_than_the_bound() {
    let zeros = vec![0; 1 << 20];
    let gzips = gzip(&zeros).repeat(65);
    let zstds = zstd(&zeros).repeat(65);
    assert!(gzips.len() < REQUEST_BYTES_MAX && zstds.len() < REQUEST_BYTES_MAX);
    assert_eq!(code_of("gzip", gzips).await, codes::BODY_TOO_LARGE);
    assert_eq!(code_of("zstd", zstds).await, codes::BODY_TOO_LARGE);
}

#[test]
fn decompression_stops_one_byte_past_the_bound() {
    let exact = vec![7; 1_000];
    for (encoding, sent) in [(Encoding::Gzip, gzip(&exact)), (Encoding::Zstd, zstd(&exact))] {
        let sent = Bytes::from(sent);
        assert_eq!(decompress(encoding, &sent, 1_000).unwrap(), exact);
        assert_eq!(decompress(encoding, &sent, 999).unwrap_err().code, codes::BODY_TOO_LARGE);
    }
}

#[test]
fn a_zstd_frame_may_not_claim_a_huge_window() {
    let mut encoder = zstd::Encoder::new(Vec::new(), 1).unwrap();
    encoder.window_log(27).unwrap();
    encoder.write_all(b"small").unwrap();
    let sent = encoder.finish().unwrap();
    assert_eq!(decompress(Encoding::Zstd, &sent.into(), 1_000).unwrap_err().code, codes::BODY_MALFORMED);
}

#[tokio::test]
async fn a_body_that_announces_too_much_is_refused_before_a_byte_is_read() {
    let announced = REQUEST_BYTES_MAX as u64 + 1;
    let mut body = Body::from(vec![b' '; REQUEST_BYTES_MAX + 1]);
    assert_eq!(receive(&mut body, IDLE, &mut |_| Ok(())).await.unwrap_err().code, codes::BODY_TOO_LARGE);
    assert_eq!(body.size_hint().exact(), Some(announced), "untouched");
}

#[tokio::test]
async fn a_body_of_unknown_length_is_refused_once_it_passes_the_limit_and_the_rest_is_drained() {
    let chunk = Bytes::from(vec![b' '; 1 << 20]);
    let (ended, end) = oneshot::channel();
    let chunks = stream::iter(vec![chunk.clone(); 40]).chain(stream::once(async move {
        ended.send(()).unwrap();
        Bytes::new()
    }));
    assert_eq!(code_of("", chunked(chunks)).await, codes::BODY_TOO_LARGE);
    end.await.expect("drained to its end");
    let exact = chunked(stream::iter(vec![chunk; 16]));
    assert_eq!(read("", exact).await.unwrap().len(), REQUEST_BYTES_MAX);
}

#[tokio::test]
async fn a_body_without_progress_times_out() {
    let stalled = chunked(stream::iter([Bytes::from("abc")]).chain(stream::pending()));
    let fault = read_body(&HeaderMap::new(), stalled, Duration::from_millis(5), |_| Ok(())).await.unwrap_err();
    assert_eq!(fault.code, codes::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn a_body_that_breaks_off_is_malformed() {
    let broken = Body::from_stream(stream::iter([Ok(Bytes::from("abc")), Err("connection reset")]));
    assert_eq!(code_of("", broken).await, codes::BODY_MALFORMED);
}

proptest! {
    #[test]
    fn any_bytes_decompress_or_are_refused(bytes: Vec<u8>, flip in 0..200_usize, to: u8) {
        let mut damaged = gzip(&bytes);
        let at = flip % damaged.len();
        damaged[at] = to;
        let mut damaged_zstd = zstd(&bytes);
        let at = flip % damaged_zstd.len();
        damaged_zstd[at] = to;
        let _ = decompress(Encoding::Gzip, &damaged.into(), 1 << 16);
        let _ = decompress(Encoding::Zstd, &damaged_zstd.into(), 1 << 16);
        let _ = decompress(Encoding::Gzip, &bytes.clone().into(), 1 << 16);
        let _ = decompress(Encoding::Zstd, &bytes.into(), 1 << 16);
    }
}
