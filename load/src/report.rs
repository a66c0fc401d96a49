//! What a run came to: a table or JSON on stdout, files beside it. Measures nothing itself.
//!
//! [`About`] says what is run and where its results go; [`About::open`] makes the observers that a
//! [`Recorder`](crate::record::Recorder) shows every interval, and [`Report::finish`] writes the rest.

pub(crate) mod compare;
pub(crate) mod document;
mod hdr;
mod html;
mod machine;
mod plot;
#[cfg(test)]
pub(crate) mod samples;
mod settings;
mod table;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use braid_shared::model::Timestamp;

use crate::client::Failure;
use crate::exit::Exit;
use crate::record::{Interval, Observer, Record, Series};
use crate::source::SourceError;
use crate::verify::Verification;
use document::{Document, Row, Run, Settings};
use hdr::HdrLog;
use machine::Machine;
pub(crate) use settings::{command_line, settings};

/// Why a run broke off.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Stop {
    #[error(transparent)]
    Request(#[from] Failure),
    #[error("the file can't be read: {0}")]
    Source(#[from] SourceError),
    #[error("line {0} has no id or no ts of its own, which --verify needs; it was not sent")]
    NoIdentity(u64),
    #[error("--verify has room for {events} events in {mib} MiB, and the file has more; --verify-mib makes more room")]
    HistoryFull { events: usize, mib: u64 },
    #[error("nothing was measured: no request that began after the warm-up has ended")]
    NothingMeasured,
    #[error("interrupted")]
    Interrupted,
    #[error("a task of the generator failed: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// How a run ended.
pub(crate) struct Outcome {
    pub(crate) record: Record,
    pub(crate) failure: Option<Stop>,
    /// Of a verified run; the error says why it could not be verified.
    pub(crate) verification: Option<Result<Verification, String>>,
}

impl Outcome {
    pub(crate) fn exit(&self) -> Exit {
        let refused = |series: &Series| series.rejected > 0 || series.failed > 0;
        let wrong = |verification: &Verification| !verification.verdict.holds();
        match (&self.failure, &self.verification) {
            (_, Some(Ok(verification))) if wrong(verification) => Exit::Wrong,
            (Some(_), _) | (_, Some(Err(_))) => Exit::BrokenOff,
            _ if self.record.skipped > 0 || self.record.series.values().any(refused) => Exit::Refused,
            _ => Exit::Done,
        }
    }
}

/// Where results go.
#[derive(Clone, Debug, Default, clap::Args)]
pub(crate) struct OutputArgs {
    /// Print the result as one JSON object (docs/LOAD.md)
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
    /// Write the latencies of every second as an HdrHistogram interval log
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) hdr: Option<PathBuf>,
    /// Write a page with plots
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) html: Option<PathBuf>,
}

/// What is run, as its results say it.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) command: String,
    /// Settings of the command line.
    pub(crate) settings: Settings,
    pub(crate) output: OutputArgs,
}

/// A run under way, as far as its report goes.
pub(crate) struct Report {
    run: Run,
    output: OutputArgs,
    rows: Arc<Mutex<Vec<Row>>>,
    hdr: Option<HdrLog>,
}

impl About {
    /// Opens what is written while the run goes. With the report, what is to see its intervals; the
    /// error is one of usage.
    pub(crate) fn open(self, seed: Option<u64>) -> Result<(Report, Vec<Observer>), String> {
        let started = SystemTime::now();
        let run = Run {
            command: self.command,
            started: rfc3339(started),
            seed,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: env!("BRAID_COMMIT").to_owned(),
            workload: self.settings,
            machine: Machine::here(),
        };
        let rows = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&rows);
        let keep = move |interval: &Interval| kept.lock().unwrap_or_else(PoisonError::into_inner).push(Row::of(interval));
        let mut observers: Vec<Observer> = vec![Box::new(keep)];
        let mut hdr = None;
        if let Some(path) = &self.output.hdr {
            let opened = HdrLog::create(path, started, head(&run)).map_err(|error| format!("--hdr {}: {error}", path.display()))?;
            observers.push(opened.1);
            hdr = Some(opened.0);
        }
        if let Some(path) = &self.output.html {
            // Better now than after an hour.
            fs::write(path, "").map_err(|error| format!("--html {}: {error}", path.display()))?;
        }
        Ok((Report { run, output: self.output, rows, hdr }, observers))
    }
}

impl Report {
    /// Prints the result and writes what is left to write. The error says which file could not be written.
    pub(crate) fn finish(self, outcome: &Outcome, out: &mut dyn Write) -> Result<(), String> {
        let rows = std::mem::take(&mut *self.rows.lock().unwrap_or_else(PoisonError::into_inner));
        let document = Document::new(self.run, outcome, rows);
        let result = if self.output.json { document.json() } else { table::table(&document, outcome.verification.as_ref()) };
        writeln!(out, "{result}").map_err(|error| format!("the result could not be written: {error}"))?;
        if let Some(log) = self.hdr {
            log.finish().map_err(|error| format!("the interval log is not whole: {error}"))?;
        }
        if let Some(path) = &self.output.html {
            let page = html::page(&document, outcome).map_err(|error| format!("the plots can't be drawn: {error}"))?;
            fs::write(path, page).map_err(|error| format!("{}: {error}", path.display()))?;
        }
        Ok(())
    }
}

/// What an interval log says of its run.
fn head(run: &Run) -> Vec<String> {
    let seed = run.seed.map_or("none".to_owned(), |seed| seed.to_string());
    vec![
        format!("command: {}", run.command),
        format!("seed: {seed}, braid-load {} ({})", run.version, run.commit),
        format!("machine: {} cores of {}, {}", run.machine.cores, run.machine.cpu, run.machine.os),
        "values: microseconds from when a request was due".to_owned(),
    ]
}

fn rfc3339(time: SystemTime) -> String {
    let nanos = time.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    Timestamp::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX)).to_string()
}

#[cfg(test)]
mod tests {
    use crate::oracle;

    use super::*;

    #[test]
    fn a_run_is_done_when_all_is_stored_and_broken_off_when_it_stopped() {
        let mut outcome = samples::result().1;
        assert_eq!(outcome.exit(), Exit::Refused, "one event was");
        for series in outcome.record.series.values_mut() {
            (series.rejected, series.failed) = (0, 0);
        }
        assert_eq!(outcome.exit(), Exit::Done);
        outcome.record.skipped = 1;
        assert_eq!(outcome.exit(), Exit::Refused);
        assert_eq!(Outcome { failure: Some(Failure::Refused("404".into()).into()), ..outcome }.exit(), Exit::BrokenOff);
    }

    #[test]
    fn what_is_lost_outweighs_all_else_and_what_could_not_be_verified_is_not_done() {
        let with = |lost, failure: Option<Stop>| {
            let mut verdict = oracle::Verdict::default();
            verdict.lost.count = lost;
            let verification = Some(Ok(Verification { verdict, seconds: 1.0 }));
            Outcome { verification, failure, ..samples::result().1 }
        };
        assert_eq!(with(0, None).exit(), Exit::Refused);
        let lost = with(1, Some(Failure::Refused("404".into()).into()));
        assert_eq!(lost.exit(), Exit::Wrong);
        let table = table::table(&samples::result().0, lost.verification.as_ref());
        assert!(table.contains("lost        1"), "{table}");
        assert_eq!(Outcome { verification: Some(Err("gone".into())), ..samples::result().1 }.exit(), Exit::BrokenOff);
    }

    #[test]
    fn files_are_opened_before_the_run_and_whole_after_it() {
        let dir = tempfile::tempdir().unwrap();
        let output = OutputArgs { json: true, hdr: Some(dir.path().join("a.hlog")), html: Some(dir.path().join("a.html")) };
        let about = About { command: "braid-load run".into(), settings: Settings::new(), output: output.clone() };
        let (report, mut observers) = about.open(Some(7)).unwrap();
        let intervals = samples::intervals();
        intervals.iter().for_each(|interval| observers.iter_mut().for_each(|observer| observer(interval)));
        drop(observers);
        let mut printed = Vec::new();
        report.finish(&samples::result().1, &mut printed).unwrap();
        assert!(Document::read(std::str::from_utf8(&printed).unwrap()).is_ok());
        let read = |path: &Option<PathBuf>| fs::read_to_string(path.as_ref().unwrap()).unwrap();
        assert!(read(&output.html).ends_with("</html>\n") && read(&output.hdr).contains("Tag=write,"));

        let nowhere = OutputArgs { hdr: Some(dir.path().join("no/such/folder")), ..OutputArgs::default() };
        let about = About { command: String::new(), settings: Settings::new(), output: nowhere };
        assert!(about.open(None).err().unwrap().contains("--hdr"));
    }
}
