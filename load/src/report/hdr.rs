//! `--hdr FILE`: the latencies of every interval as an HdrHistogram interval log, which the format's
//! own tools plot, merge and compare. Tags are the kinds of requests, values are microseconds.
//!
//! The log is written as the run goes, by a thread of its own, so that one that is broken off leaves
//! what was measured.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{self, Receiver};
use std::thread::JoinHandle;
use std::time::SystemTime;

use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};

use crate::record::{Interval, Observer};

/// Largest values are shown in milliseconds.
const MICROS_PER_MILLI: f64 = 1e3;

/// A log under way.
pub(crate) struct HdrLog {
    writer: JoinHandle<io::Result<()>>,
}

impl HdrLog {
    /// Opens the file, and gives what is to see the intervals. `about` stands in the head, a line each.
    pub(crate) fn create(path: &Path, started: SystemTime, about: Vec<String>) -> io::Result<(HdrLog, Observer)> {
        // Not buffered: what was measured is to be there when the run is killed.
        let file = File::create(path)?;
        let (sender, intervals) = mpsc::channel();
        let writer = std::thread::spawn(move || write(file, &intervals, started, &about));
        // Where the writer failed, [`HdrLog::finish`] says so.
        let observer = Box::new(move |interval: &Interval| drop(sender.send(interval.clone())));
        Ok((HdrLog { writer }, observer))
    }

    /// Waits until all is written; the observer must be gone by then.
    pub(crate) fn finish(self) -> io::Result<()> {
        self.writer.join().unwrap_or_else(|_| Err(io::Error::other("its writer panicked")))
    }
}

fn write(mut file: impl Write, intervals: &Receiver<Interval>, started: SystemTime, about: &[String]) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut head = IntervalLogWriterBuilder::new();
    head.add_comment("[Histogram log format version 1.3]");
    for line in about {
        head.add_comment(line);
    }
    head.with_start_time(started).with_base_time(started).with_max_value_divisor(MICROS_PER_MILLI);
    let mut log = head.begin_log_with(&mut file, &mut serializer)?;
    for interval in intervals {
        for (kind, series) in &interval.series {
            let tag = Tag::new(kind.name());
            log.write_histogram(&series.latency, interval.start, interval.length, tag)
                .map_err(|error| io::Error::other(format!("{error:?}")))?;
        }
    }
    drop(log);
    file.flush()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use hdrhistogram::Histogram;
    use hdrhistogram::serialization::Deserializer;
    use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

    use crate::report::samples::intervals;

    use super::*;

    #[test]
    fn the_log_reads_back_with_every_latency_in_its_interval() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("run.hlog");
        let started = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
        let (log, mut observer) = HdrLog::create(&path, started, vec!["seed 7".into()]).unwrap();
        let seen = intervals();
        seen.iter().for_each(&mut observer);
        drop(observer);
        log.finish().unwrap();

        let text = std::fs::read(&path).unwrap();
        assert!(text.starts_with(b"#[Histogram log format version 1.3]\n#seed 7\n#[StartTime: 1700000000.000"));
        let mut read = Vec::new();
        for entry in IntervalLogIterator::new(&text) {
            if let LogEntry::Interval(entry) = entry.unwrap() {
                let bytes = STANDARD.decode(entry.encoded_histogram()).unwrap();
                let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &bytes[..]).unwrap();
                let tag = entry.tag().unwrap().as_str().to_owned();
                read.push((tag, entry.start_timestamp(), entry.duration(), histogram.len(), histogram.max()));
            }
        }
        let expected = seen.iter().flat_map(|interval| {
            let of = |(kind, series): (&crate::record::Kind, &crate::record::Series)| {
                (kind.name().to_owned(), interval.start, interval.length, series.latency.len(), series.latency.max())
            };
            interval.series.iter().map(of).collect::<Vec<_>>()
        });
        assert_eq!(read, expected.collect::<Vec<_>>());
        assert!(read.len() >= 4, "both kinds in more than one interval");
    }
}
