//! A file of events as a stream of batches: lines are cut, never parsed.
//!
//! Bounded: a batch holds at most so many lines and bytes, a line has a longest length, and the
//! reader waits while the batches that are ready have not been taken.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use tokio::sync::mpsc;

/// Most bytes of a batch before the line that fills it; well below what a request may hold.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Longest line; with it a batch still fits a request.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
const READ_BYTES: usize = 256 * 1024;

/// Lines that go out in one request.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The lines, each with its end.
    pub(crate) body: Bytes,
    /// Number in the file, from 1, of each line.
    pub(crate) lines: Vec<u64>,
}

/// Why the source gave out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("{0}")]
    Read(#[from] io::Error),
    #[error("line {0} is longer than 4 MiB")]
    LineTooLong(u64),
}

/// An opened file of events.
pub(crate) struct Source {
    input: Box<dyn BufRead + Send>,
    /// Bytes of the file, as it lies on disk, where that is known.
    pub(crate) length: Option<u64>,
    /// Bytes of it read so far.
    pub(crate) taken: Arc<AtomicU64>,
}

impl Source {
    /// Opens a file, or standard input for `-`; gzip is told by its first two bytes.
    pub(crate) fn open(path: &Path) -> io::Result<Source> {
        if path == Path::new("-") {
            return Source::from_reader(io::stdin(), None);
        }
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Source::from_reader(file, Some(length))
    }

    fn from_reader(reader: impl Read + Send + 'static, length: Option<u64>) -> io::Result<Source> {
        let taken = Arc::new(AtomicU64::new(0));
        let mut raw = BufReader::with_capacity(READ_BYTES, Counted { reader, taken: Arc::clone(&taken) });
        let gzip = raw.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let input: Box<dyn BufRead + Send> =
            if gzip { Box::new(BufReader::with_capacity(READ_BYTES, MultiGzDecoder::new(raw))) } else { Box::new(raw) };
        Ok(Source { input, length, taken })
    }

    /// Cuts the file into batches of `size` lines until it ends or nobody takes them any more.
    /// Blocks: run it on a thread of its own.
    pub(crate) fn feed(mut self, size: usize, batches: &mpsc::Sender<Batch>) -> Result<(), SourceError> {
        let mut number = 0;
        while let Some(batch) = self.next_batch(size, &mut number)? {
            if batches.blocking_send(batch).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn next_batch(&mut self, size: usize, number: &mut u64) -> Result<Option<Batch>, SourceError> {
        let mut body = Vec::new();
        let mut lines = Vec::with_capacity(size);
        while lines.len() < size && body.len() < BATCH_BYTES_MAX {
            let start = body.len();
            let read = (&mut self.input).take(LINE_BYTES_MAX as u64).read_until(b'\n', &mut body)?;
            if read == 0 {
                break;
            }
            *number += 1;
            if read == LINE_BYTES_MAX && !body.ends_with(b"\n") {
                return Err(SourceError::LineTooLong(*number));
            }
            if body[start..].trim_ascii().is_empty() {
                body.truncate(start);
            } else {
                lines.push(*number);
            }
        }
        Ok((!lines.is_empty()).then(|| Batch { body: body.into(), lines }))
    }
}

/// Counts what is read through it.
struct Counted<R> {
    reader: R,
    taken: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(buffer)?;
        self.taken.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn batches(bytes: &[u8], size: usize) -> Result<Vec<(String, Vec<u64>)>, SourceError> {
        let mut source = Source::from_reader(io::Cursor::new(bytes.to_vec()), None)?;
        let (mut all, mut number) = (Vec::new(), 0);
        while let Some(batch) = source.next_batch(size, &mut number)? {
            all.push((String::from_utf8_lossy(&batch.body).into_owned(), batch.lines));
        }
        Ok(all)
    }

    #[test]
    fn lines_are_cut_into_batches_that_know_their_numbers_and_blank_lines_are_left_out() {
        let cut = batches(b"a\n\nb\r\n  \nc", 2).unwrap();
        assert_eq!(cut, [("a\nb\r\n".to_owned(), vec![1, 3]), ("c".to_owned(), vec![5])]);
    }

    #[test]
    fn every_member_of_a_gzip_file_is_read() {
        let member = |text: &[u8]| {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
            gzip.write_all(text).unwrap();
            gzip.finish().unwrap()
        };
        let cut = batches(&[member(b"a\n"), member(b"b\n")].concat(), 10).unwrap();
        assert_eq!(cut, [("a\nb\n".to_owned(), vec![1, 2])]);
    }

    #[test]
    fn a_cut_gzip_file_is_an_error_not_an_end() {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&b"abc\n".repeat(1_000)).unwrap();
        let whole = gzip.finish().unwrap();
        assert!(matches!(batches(&whole[..whole.len() - 9], 10_000), Err(SourceError::Read(_))));
    }

    #[test]
    fn a_line_without_end_is_refused_before_it_fills_the_memory() {
        let error = batches(&vec![b'x'; LINE_BYTES_MAX + 1], 10).unwrap_err();
        assert!(matches!(error, SourceError::LineTooLong(1)), "{error}");
    }
}
