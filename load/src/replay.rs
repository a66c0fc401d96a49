//! `replay`: one thread reads and cuts the file, several connections send what it cut.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use braid_shared::model::Namespace;
use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;

use crate::args::ReplayArgs;
use crate::client::{Connection, Endpoint, Format};
use crate::progress::{Progress, Track};
use crate::report::{Outcome, Stop, Tally, gather};
use crate::source::{Batch, Source};

/// Sends the file. The error is one of usage: nothing was sent.
pub(crate) async fn replay(args: ReplayArgs) -> Result<Outcome, String> {
    let namespace = namespace(&args)?;
    let path = format!("/v1/{namespace}/events");
    let client = &args.client;
    let (timeout, retry_for) = (client.timeout.duration(), client.retry_for.duration());
    let endpoint = Arc::new(Endpoint::new(&client.url, &path, Format::Ndjson, args.gzip, timeout, retry_for)?);
    let source = Source::open(&args.file).map_err(|error| format!("{}: {error}", args.file.display()))?;

    let began = Instant::now();
    let events = Arc::new(AtomicU64::new(0));
    let progress = Progress::start(Track { done: Arc::clone(&source.taken), whole: source.length }, Arc::clone(&events));
    // A batch in hand and one ready for each connection bound the memory.
    let (ready, batches) = mpsc::channel(usize::from(args.connections));
    let reader = tokio::task::spawn_blocking(move || source.feed(args.batch, &ready));
    let batches = Arc::new(Mutex::new(batches));
    let mut senders = JoinSet::new();
    for _ in 0..args.connections {
        senders.spawn(send(Connection::new(Arc::clone(&endpoint)), args.gzip, Arc::clone(&batches), Arc::clone(&events)));
    }
    let (tally, mut failure) = gather(senders).await;
    let read = reader.await.map_err(Stop::from).and_then(|read| read.map_err(Stop::from));
    progress.stop();
    failure = failure.or(read.err());
    Ok(Outcome { tally, took: began.elapsed(), failure })
}

type Batches = Arc<Mutex<mpsc::Receiver<Batch>>>;

/// Sends batches over one connection until there are no more; a failure ends it for all.
async fn send(mut connection: Connection, gzip: bool, batches: Batches, events: Arc<AtomicU64>) -> (Tally, Option<Stop>) {
    let mut tally = Tally::new();
    loop {
        let Some(batch) = batches.lock().await.recv().await else { return (tally, None) };
        let n = batch.lines.len() as u64;
        let sent = match body(batch.body, gzip).await {
            Ok(body) => (body.len(), connection.post(body, n).await.map_err(Stop::from)),
            Err(stop) => (0, Err(stop)),
        };
        match sent {
            (bytes, Ok(sent)) => tally.count(sent, n, bytes, &batch.lines),
            (_, Err(stop)) => {
                batches.lock().await.close();
                return (tally, Some(stop));
            }
        }
        events.fetch_add(n, Ordering::Relaxed);
    }
}

async fn body(lines: Bytes, gzip: bool) -> Result<Bytes, Stop> {
    if !gzip {
        return Ok(lines);
    }
    let packed = tokio::task::spawn_blocking(move || {
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(&lines).and_then(|()| gzip.finish())
    });
    Ok(packed.await?.expect("writing to memory does not fail").into())
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
            Command::Run(_) => unreachable!("the words say replay"),
        }
    }

    #[test]
    fn the_namespace_is_the_one_given_else_the_files_name() {
        assert_eq!(namespace_of(&["/tmp/flights.ndjson.gz"]).unwrap(), "flights");
        assert_eq!(namespace_of(&["x.gz", "--namespace", "other"]).unwrap(), "other");
        assert!(namespace_of(&["-"]).is_err());
    }
}
