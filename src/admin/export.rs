//! `braid export`: the events of a namespace, or of some of its keys, in one file that is whole or is not there.
//!
//! Each key is read as a stream that the server verifies; one that lacks its end line was cut. Events
//! pass through one at a time, into a file under another name that gets its own at the end.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command};
use indicatif::{ProgressBar, ProgressStyle};
use serde_json::{Value, json};

use super::client::{Client, Failure, text};
use super::export_file::ExportFile;
use super::table::plain;

/// Bytes of an answer that are read at once.
const READ_BYTES: usize = 256 * 1024;

pub(super) fn command() -> Command {
    let key = Arg::new("key").long("key").action(ArgAction::Append).conflicts_with("prefix").help("A key; may repeat [default: every key]");
    let time = |name: &'static str, help: &'static str| Arg::new(name).long(name).value_name("TIME").help(help);
    Command::new("export")
        .about("Write events to a file: NDJSON, or Parquet")
        .arg(Arg::new("namespace").required(true).value_name("NAMESPACE"))
        .arg(
            Arg::new("file")
                .required(true)
                .value_name("FILE")
                .value_parser(clap::value_parser!(PathBuf))
                .help("NAME.ndjson, NAME.ndjson.gz, NAME.ndjson.zst or NAME.parquet; must not be there yet"),
        )
        .arg(key)
        .arg(Arg::new("prefix").long("prefix").help("Every key that begins so"))
        .arg(time("from", "First event time: RFC 3339, milliseconds or now-1h [default: the beginning]"))
        .arg(time("to", "Event time before which it ends [default: now, as far as that can be answered]"))
}

pub(super) fn run(client: &Client, matches: &ArgMatches) -> Result<String, Failure> {
    let namespace = matches.get_one::<String>("namespace").map(String::as_str).unwrap_or_default();
    let path = matches.get_one::<PathBuf>("file").cloned().unwrap_or_default();
    let given = |name: &str| matches.get_one::<String>(name).cloned();
    let mut export = Export {
        client,
        namespace,
        file: ExportFile::create(&path)?,
        from: given("from"),
        to: given("to"),
        events: 0,
        keys: 0,
        progress: progress(),
    };
    match matches.get_many::<String>("key") {
        Some(keys) => {
            let mut keys: Vec<&String> = keys.collect();
            keys.sort();
            keys.dedup();
            keys.into_iter().try_for_each(|key| export.key(key))?;
        }
        None => export.every_key(&given("prefix").unwrap_or_default())?,
    }
    let Export { file, events, keys, to, progress, .. } = export;
    let bytes = file.finish()?;
    progress.finish_and_clear();
    let to = to.unwrap_or_else(|| "-".into());
    if client.json {
        return Ok(json!({"file": path, "events": events, "keys": keys, "to": to, "bytes": bytes}).to_string());
    }
    Ok(format!("{events} events of {keys} keys before {to}, {bytes} bytes in {}", path.display()))
}

/// Shown on a terminal only.
fn progress() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {human_pos} events, {per_sec}, {elapsed}, {wide_msg}");
    let progress = ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    progress.enable_steady_tick(Duration::from_millis(200));
    progress
}

/// An export under way.
struct Export<'a> {
    client: &'a Client,
    namespace: &'a str,
    file: ExportFile,
    from: Option<String>,
    /// Where every key's events end: where the first key's did, unless it was given.
    to: Option<String>,
    events: u64,
    keys: u64,
    progress: ProgressBar,
}

impl Export<'_> {
    fn every_key(&mut self, prefix: &str) -> Result<(), Failure> {
        let path = format!("/v1/{}/keys", self.namespace);
        let mut next: Option<String> = None;
        loop {
            let mut parameters = vec![("prefix", prefix)];
            parameters.extend(next.as_deref().map(|next| ("cursor", next)));
            let page = self.client.get(&path, &parameters)?;
            for key in page["keys"].as_array().into_iter().flatten() {
                self.key(&text(key))?;
            }
            match page["next"].as_str() {
                Some(more) => next = Some(more.to_owned()),
                None => return Ok(()),
            }
        }
    }

    /// Reads a key's events to their end.
    fn key(&mut self, key: &str) -> Result<(), Failure> {
        self.progress.set_message(plain(key));
        let (from, to) = (self.from.clone(), self.to.clone());
        let mut parameters = vec![("key", key)];
        parameters.extend(from.as_deref().map(|from| ("from", from)));
        parameters.extend(to.as_deref().map(|to| ("to", to)));
        let cut = |why: &str| Failure::Unreachable(format!("key {key:?}: {why}; nothing was exported"));
        let mut stream = BufReader::with_capacity(READ_BYTES, self.client.stream(&format!("/v1/{}/events", self.namespace), &parameters)?);
        let (mut line, mut given) = (Vec::new(), 0);
        loop {
            line.clear();
            stream.read_until(b'\n', &mut line).map_err(|error| cut(&error.to_string()))?;
            match line.as_slice() {
                [] => return Err(cut("the answer was cut")),
                last if last.starts_with(br#"{"end":"#) || last.starts_with(br#"{"error":"#) => break,
                event => self.file.put(event)?,
            }
            given += 1;
            self.progress.inc(1);
        }
        let said: Value = serde_json::from_slice(&line).map_err(|error| cut(&error.to_string()))?;
        let end = &said["end"];
        if end["complete"] != true || end["events"] != given {
            return Err(cut(&format!("the answer is not whole: {said}")));
        }
        self.to = self.to.take().or_else(|| end["to"].as_str().map(str::to_owned));
        self.events += given;
        self.keys += 1;
        Ok(())
    }
}
