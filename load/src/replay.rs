//! `replay`: one thread reads and cuts the file, several connections send what it cut, at once or when
//! it is due. Latency counts from when a batch was due, as in a run.

use std::sync::Arc;
use std::time::Duration;

use braid_shared::model::Namespace;
use bytes::Bytes;
use tokio::sync::{Mutex, mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::args::ReplayArgs;
use crate::client::{Braid, Connection, Encoding, Format, Target};
use crate::exit::NotStarted;
use crate::lane;
use crate::oracle::file::{FileHistory, Sending, Unfit};
use crate::pace::{self, TIMER_GRAIN};
use crate::progress::{self, Track};
use crate::record::{Kind, Recorder};
use crate::report::{About, Outcome, Report, Stop};
use crate::source::{Batch, Source};
use crate::verify;

/// Sends the file. The error says why nothing was sent.
pub(crate) async fn replay(about: About, args: ReplayArgs) -> Result<(Outcome, Report), NotStarted> {
    let namespace = namespace(&args)?;
    let encoding = if args.gzip { Encoding::Gzip } else { Encoding::None };
    let (writes, reads) = args.client.endpoints()?;
    let target = Arc::new(Braid::new(namespace.clone(), Format::Ndjson, encoding)?);
    let source = Source::open(&args.file, args.columns(), args.speed).map_err(|error| format!("{}: {error}", args.file.display()))?;

    if args.verify {
        verify::before_replay(&reads, &namespace).await?;
    }
    let bytes_max = usize::try_from(args.verify_mib.saturating_mul(1 << 20)).unwrap_or(usize::MAX);
    let history = args.verify.then(|| Arc::new(FileHistory::new(bytes_max)));

    let track = Track { done: Arc::clone(&source.taken), whole: source.length };
    let (report, mut observers) = about.open(None)?;
    observers.push(progress::tracked(track));
    let began = Instant::now();
    let recorder = Recorder::new(began, Duration::ZERO, observers);
    // A batch in hand and one ready for each connection bound the memory.
    let (ready, batches) = mpsc::channel(usize::from(args.connections));
    let reader = tokio::task::spawn_blocking(move || source.feed(args.batch, &ready));
    let sender = Arc::new(Sender {
        began,
        target,
        encoding,
        batches: Mutex::new(batches),
        stop: watch::Sender::new(false),
        recorder: recorder.clone(),
        history: history.clone(),
        verify_mib: args.verify_mib,
    });
    let mut senders = JoinSet::new();
    for _ in 0..args.connections {
        senders.spawn(Arc::clone(&sender).send(Connection::new(Arc::clone(&writes))));
    }
    let ticker = tokio::spawn(lane::tick(recorder.clone(), || 0));
    let failure = lane::gather(senders, || sender.stop.send_modify(|stop| *stop = true)).await;
    ticker.abort();
    // The reader ends when nobody takes its batches.
    drop(sender);
    let read = reader.await.map_err(Stop::from).and_then(|read| read.map_err(Stop::from));
    let record = recorder.finish(Instant::now());
    let verification = match history.and_then(Arc::into_inner) {
        Some(history) => Some(lane::unless_interrupted(verify::after_replay(reads, namespace, args.connections, history)).await),
        None => None,
    };
    Ok((Outcome { record, failure: failure.or(read.err()), verification }, report))
}

/// What the connections share.
struct Sender {
    began: Instant,
    target: Arc<Braid>,
    encoding: Encoding,
    batches: Mutex<mpsc::Receiver<Batch>>,
    /// Whether nothing more is to be sent.
    stop: watch::Sender<bool>,
    recorder: Recorder,
    history: Option<Arc<FileHistory>>,
    verify_mib: u64,
}

/// A batch, packed.
struct Packed {
    lines: Vec<u64>,
    body: Bytes,
    due: Option<Instant>,
    /// Of a verified replay.
    sending: Option<Sending>,
}

impl Sender {
    /// Sends batches over one connection until there are no more, or nothing more is to be sent.
    async fn send(self: Arc<Self>, mut connection: Connection) -> Option<Stop> {
        let mut stop = self.stop.subscribe();
        loop {
            let next = tokio::select! {
                biased;
                () = async { drop(stop.wait_for(|stop| *stop).await) } => return None,
                next = self.next_due() => next,
            };
            let sent = match next {
                Ok(Some(packed)) => self.send_one(&mut connection, packed).await,
                Ok(None) => return None,
                Err(stop) => Err(stop),
            };
            if let Err(stop) = sent {
                return Some(stop);
            }
        }
    }

    /// The next batch, once it is due; none at the end of the file.
    async fn next_due(&self) -> Result<Option<Packed>, Stop> {
        let Some(Batch { body, lines, due }) = self.batches.lock().await.recv().await else { return Ok(None) };
        let unfit = |unfit| match unfit {
            Unfit::NoIdentity(index) => Stop::NoIdentity(lines.get(index).copied().unwrap_or_default()),
            Unfit::Full(events) => Stop::HistoryFull { events, mib: self.verify_mib },
        };
        let sending = self.history.as_ref().map(|history| history.sending(&body)).transpose().map_err(unfit)?;
        let encoding = self.encoding;
        let body = match encoding {
            Encoding::None => body,
            _ => tokio::task::spawn_blocking(move || encoding.pack(body)).await?,
        };
        let due = due.and_then(|due| self.began.checked_add(due));
        if let Some(due) = due {
            pace::wait(due, TIMER_GRAIN).await;
        }
        Ok(Some(Packed { lines, body, due, sending }))
    }

    async fn send_one(&self, connection: &mut Connection, packed: Packed) -> Result<(), Stop> {
        let Packed { lines, body, due, sending } = packed;
        let events = lines.len() as u64;
        let call = self.target.write().carrying(body);
        let delivery = connection.deliver(&call, |status, body| self.target.judge_write(status, body, events)).await;
        self.recorder.sample(&lane::sample(Kind::Write, due, events, &delivery));
        if let (Some(history), Some(sending)) = (&self.history, sending) {
            history.ended(sending, &delivery);
        }
        for error in delivery.result?.errors {
            let line = lines.get(error.index).copied();
            self.recorder.refused(error, line);
        }
        Ok(())
    }
}

/// The namespace given, else the file's name up to its first dot.
fn namespace(args: &ReplayArgs) -> Result<Namespace, String> {
    if let Some(namespace) = &args.namespace {
        return Ok(namespace.clone());
    }
    let name = args.file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let stem = name.split('.').next().unwrap_or_default();
    stem.parse().map_err(|_| format!("{} names no namespace; give --namespace", args.file.display()))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use crate::args::{Args, Command};

    use super::*;

    fn namespace_of(words: &[&str]) -> Result<String, String> {
        match Args::parse_from([&["braid-load", "replay"], words].concat()).command {
            Command::Replay(args) => namespace(&args).map(|namespace| namespace.to_string()),
            other => unreachable!("the words say replay: {other:?}"),
        }
    }

    #[test]
    fn the_namespace_is_the_one_given_else_the_files_name() {
        assert_eq!(namespace_of(&["/tmp/flights.ndjson.gz"]).unwrap(), "flights");
        assert_eq!(namespace_of(&["x.gz", "--namespace", "other"]).unwrap(), "other");
        assert!(namespace_of(&["-"]).is_err());
    }
}
