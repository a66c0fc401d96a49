//! A file of events as a stream of batches, read by a thread of its own.
//!
//! JSON lines are cut, never parsed, unless their times are wanted; CSV records become JSON lines.
//! Bounded: a batch holds at most so many lines and bytes, a line has a longest length, and the
//! reader waits while the batches that are ready have not been taken.

mod csv;
mod when;

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use flate2::bufread::MultiGzDecoder;
use tokio::sync::mpsc;

pub(crate) use csv::Columns;
use when::Pacer;
pub(crate) use when::Speed;

/// Most bytes of a batch before the line that fills it; well below what a request may hold.
const BATCH_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Longest line; with it a batch still fits a request.
const LINE_BYTES_MAX: usize = 4 * 1024 * 1024;
const READ_BYTES: usize = 256 * 1024;
/// Longest time between the first and the last event of a paced batch.
const BATCH_SPAN_MAX: Duration = Duration::from_millis(100);

/// Lines that go out in one request.
#[derive(Debug)]
pub(crate) struct Batch {
    /// The lines, each with its end.
    pub(crate) body: Bytes,
    /// Number in the file, from 1, of each line.
    pub(crate) lines: Vec<u64>,
    /// When it is meant to leave, from the beginning of the replay; `None` as soon as it can.
    pub(crate) due: Option<Duration>,
}

/// Why the source gave out.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SourceError {
    #[error("{0}")]
    Read(#[from] io::Error),
    #[error("line {0} is longer than 4 MiB")]
    LineTooLong(u64),
    #[error("line {0} has no time that could pace it (`ts` as RFC 3339 or integer milliseconds)")]
    NoTime(u64),
    #[error("{0}")]
    Csv(String),
}

/// An opened file of events.
pub(crate) struct Source {
    input: Input,
    pacer: Option<Pacer>,
    /// A line that was read and did not fit the batch before it.
    held: Option<Held>,
    number: u64,
    /// Bytes of the file, as it lies on disk, where that is known.
    pub(crate) length: Option<u64>,
    /// Bytes of it read so far.
    pub(crate) taken: Arc<AtomicU64>,
}

struct Held {
    line: Vec<u8>,
    number: u64,
    due: Duration,
}

/// How the file is written.
enum Input {
    Lines(Box<dyn BufRead + Send>),
    Csv(Box<csv::Records>),
}

impl Source {
    /// Opens a file, or standard input for `-`; gzip is told by its first two bytes, CSV by `columns`.
    pub(crate) fn open(path: &Path, columns: Option<Columns>, speed: Speed) -> Result<Source, SourceError> {
        if path == Path::new("-") {
            return Source::from_reader(io::stdin(), None, columns, speed);
        }
        let file = File::open(path)?;
        let length = file.metadata()?.len();
        Source::from_reader(file, Some(length), columns, speed)
    }

    fn from_reader(
        reader: impl Read + Send + 'static,
        length: Option<u64>,
        columns: Option<Columns>,
        speed: Speed,
    ) -> Result<Source, SourceError> {
        let taken = Arc::new(AtomicU64::new(0));
        let mut raw = BufReader::with_capacity(READ_BYTES, Counted { reader, taken: Arc::clone(&taken) });
        let gzip = raw.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        let text: Box<dyn BufRead + Send> =
            if gzip { Box::new(BufReader::with_capacity(READ_BYTES, MultiGzDecoder::new(raw))) } else { Box::new(raw) };
        let input = match columns {
            Some(columns) => Input::Csv(Box::new(csv::Records::open(text, columns)?)),
            None => Input::Lines(text),
        };
        Ok(Source { input, pacer: Pacer::new(speed), held: None, number: 0, length, taken })
    }

    /// Cuts the file into batches of `size` lines until it ends or nobody takes them any more.
    /// Blocks: run it on a thread of its own.
    pub(crate) fn feed(mut self, size: usize, batches: &mpsc::Sender<Batch>) -> Result<(), SourceError> {
        while let Some(batch) = self.next_batch(size)? {
            if batches.blocking_send(batch).is_err() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn next_batch(&mut self, size: usize) -> Result<Option<Batch>, SourceError> {
        let (mut body, mut lines, mut times) = (Vec::new(), Vec::with_capacity(size), None);
        if let Some(held) = self.held.take() {
            body.extend_from_slice(&held.line);
            lines.push(held.number);
            times = Some((held.due, held.due));
        }
        while lines.len() < size && body.len() < BATCH_BYTES_MAX {
            let start = body.len();
            if !self.next_line(&mut body)? {
                break;
            }
            if body[start..].trim_ascii().is_empty() {
                body.truncate(start);
                continue;
            }
            if let Some(pacer) = &mut self.pacer {
                let due = pacer.due(&body[start..]).ok_or(SourceError::NoTime(self.number))?;
                let (first, _) = *times.get_or_insert((due, due));
                if due - first > BATCH_SPAN_MAX {
                    self.held = Some(Held { line: body.split_off(start), number: self.number, due });
                    break;
                }
                times = Some((first, due));
            }
            lines.push(self.number);
        }
        let due = times.map(|(_, last)| last);
        Ok((!lines.is_empty()).then(|| Batch { body: body.into(), lines, due }))
    }

    /// Appends the next line, with its end; `false` at the end of the file.
    fn next_line(&mut self, body: &mut Vec<u8>) -> Result<bool, SourceError> {
        match &mut self.input {
            Input::Lines(text) => {
                let read = text.take(LINE_BYTES_MAX as u64).read_until(b'\n', body)?;
                self.number += u64::from(read > 0);
                if read == LINE_BYTES_MAX && !body.ends_with(b"\n") {
                    return Err(SourceError::LineTooLong(self.number));
                }
                Ok(read > 0)
            }
            Input::Csv(records) => match records.next_line(body)? {
                Some(number) => {
                    self.number = number;
                    Ok(true)
                }
                None => Ok(false),
            },
        }
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

    fn cut(bytes: &[u8], size: usize, columns: Option<Columns>, speed: Speed) -> Result<Vec<Batch>, SourceError> {
        let mut source = Source::from_reader(io::Cursor::new(bytes.to_vec()), None, columns, speed)?;
        std::iter::from_fn(|| source.next_batch(size).transpose()).collect()
    }

    fn batches(bytes: &[u8], size: usize) -> Result<Vec<(String, Vec<u64>)>, SourceError> {
        let text = |batch: Batch| (String::from_utf8_lossy(&batch.body).into_owned(), batch.lines);
        Ok(cut(bytes, size, None, Speed::Max)?.into_iter().map(text).collect())
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

    #[test]
    fn paced_lines_leave_as_far_apart_as_their_times_however_they_are_batched() {
        let line = |millis: u64| format!("{{\"key\":\"k\",\"ts\":{}}}\n", 1_700_000_000_000 + millis);
        let text: String = [0, 40, 1_000, 900, 3_000].map(line).concat();
        let cut = cut(text.as_bytes(), 10, None, Speed::Times(2.0)).unwrap();
        let paced: Vec<_> = cut.iter().map(|batch| (batch.lines.clone(), batch.due.unwrap().as_millis())).collect();
        // At twice the speed; the one that is out of order leaves with the one before it.
        assert_eq!(paced, [(vec![1, 2], 20), (vec![3, 4], 500), (vec![5], 1_500)]);
    }

    #[test]
    fn a_line_that_cannot_be_paced_is_named() {
        let error = cut(b"{\"key\":\"k\",\"ts\":1}\n{\"key\":\"k\"}\n", 10, None, Speed::Times(1.0)).unwrap_err();
        assert!(matches!(error, SourceError::NoTime(2)), "{error}");
    }

    #[test]
    fn csv_records_become_lines() {
        let text = b"key,id,ts,n,place\nk,1,1700000000000,7,\"a,b\"\n";
        let columns = Columns { tags: vec!["place".into()], ..Columns::default() };
        let cut = cut(text, 10, Some(columns), Speed::Max).unwrap();
        let line: serde_json::Value = serde_json::from_slice(&cut[0].body).unwrap();
        let expected =
            serde_json::json!({"key": "k", "id": "1", "ts": 1_700_000_000_000_u64, "fields": {"n": 7}, "tags": {"place": "a,b"}});
        assert_eq!((line, &cut[0].lines), (expected, &vec![2]));
    }
}
