//! `replay`: one thread reads and cuts the file, several connections send what it cut, at once or when
//! it is due. Latency counts from when a batch was due, as in a run.

use std::sync::Arc;
use std::time::Duration;

use braid_shared::model::Namespace;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::args::ReplayArgs;
use crate::client::{Braid, Connection, Encoding, Endpoint, Format, Target};
use crate::exit::NotStarted;
use crate::lane;
use crate::oracle::file::FileHistory;
use crate::pace::{self, TIMER_GRAIN};
use crate::progress::{self, Track};
use crate::record::{Kind, Recorder};
use crate::report::{About, Outcome, Report, Stop};
use crate::source::{Batch, Source};
use crate::verify;

/// Sends the file. The error says why nothing was sent.
pub(crate) async fn replay(about: About, args: ReplayArgs) -> Result<(Outcome, Report), NotStarted> {
    let namespace = namespace(&args)?;
    let client = &args.client;
    let encoding = if args.gzip { Encoding::Gzip } else { Encoding::None };
    let endpoint = Arc::new(Endpoint::new(&client.url, client.timeout.duration(), client.retry_for.duration())?);
    let target = Arc::new(Braid::new(namespace.clone(), Format::Ndjson, encoding)?);
    let source = Source::open(&args.file, args.columns(), args.speed).map_err(|error| format!("{}: {error}", args.file.display()))?;

    if args.verify {
        verify::before_replay(&endpoint, &namespace).await?;
    }
    let history = args.verify.then(|| Arc::new(FileHistory::default()));

    let track = Track { done: Arc::clone(&source.taken), whole: source.length };
    let (report, mut observers) = about.open(None)?;
    observers.push(progress::tracked(track));
    let began = Instant::now();
    let recorder = Recorder::new(began, Duration::ZERO, observers);
    // A batch in hand and one ready for each connection bound the memory.
    let (ready, batches) = mpsc::channel(usize::from(args.connections));
    let reader = tokio::task::spawn_blocking(move || source.feed(args.batch, &ready));
    let sender =
        Arc::new(Sender { began, target, encoding, batches: Mutex::new(batches), recorder: recorder.clone(), history: history.clone() });
    let mut senders = JoinSet::new();
    for _ in 0..args.connections {
        senders.spawn(Arc::clone(&sender).send(Connection::new(Arc::clone(&endpoint))));
    }
    let ticker = tokio::spawn(lane::tick(recorder.clone(), || 0));
    let mut failure = None;
    while let Some(done) = senders.join_next().await {
        failure = failure.or(done.unwrap_or_else(|error| Some(error.into())));
    }
    ticker.abort();
    let read = reader.await.map_err(Stop::from).and_then(|read| read.map_err(Stop::from));
    let record = recorder.finish(Instant::now());
    drop(sender);
    let verification = match history.and_then(Arc::into_inner) {
        Some(history) => Some(verify::after_replay(endpoint, namespace, args.connections, history).await),
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
    recorder: Recorder,
    history: Option<Arc<FileHistory>>,
}

impl Sender {
    /// Sends batches over one connection until there are no more; a failure ends it for all.
    async fn send(self: Arc<Self>, mut connection: Connection) -> Option<Stop> {
        loop {
            let batch = self.batches.lock().await.recv().await?;
            if let Err(stop) = self.send_one(&mut connection, batch).await {
                self.batches.lock().await.close();
                return Some(stop);
            }
        }
    }

    async fn send_one(&self, connection: &mut Connection, batch: Batch) -> Result<(), Stop> {
        let events = batch.lines.len() as u64;
        let (encoding, plain) = (self.encoding, batch.body.clone());
        let body = match encoding {
            Encoding::None => batch.body,
            _ => tokio::task::spawn_blocking(move || encoding.pack(batch.body)).await?,
        };
        let due = batch.due.and_then(|due| self.began.checked_add(due));
        if let Some(due) = due {
            pace::wait(due, TIMER_GRAIN).await;
        }
        let call = self.target.write().carrying(body);
        let delivery = connection.deliver(&call, |status, body| self.target.judge_write(status, body, events)).await;
        self.recorder.sample(&lane::sample(Kind::Write, due, events, &delivery));
        if let Some(history) = &self.history {
            let noted = history.note(&plain, &delivery);
            noted.map_err(|index| Stop::NoIdentity(batch.lines.get(index).copied().unwrap_or_default()))?;
        }
        for error in delivery.result?.errors {
            let line = batch.lines.get(error.index).copied();
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
