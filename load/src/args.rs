//! The command line, as data. Checks what can be checked without a server.

mod run;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use braid_shared::limits::REQUEST_EVENTS_MAX;
use braid_shared::model::{Namespace, Span};
use clap::{Parser, Subcommand};

use crate::client::Endpoint;
use crate::exit;
use crate::report::OutputArgs;
use crate::source::{Columns, Speed};
pub(crate) use run::RunArgs;
pub(crate) use values::{Rate, Reads};

const RUN_EXAMPLES: &str = "\
  10,000 events a second on one hot key for 10 seconds, latency from the intended time:
    braid-load run

  As fast as it goes, 1,000 events a request, 8 connections:
    braid-load run --rate max --batch 1000 --connections 8 --duration 30s

  A ramp, then a step, after 5 seconds that are not counted:
    braid-load run --rate 10k..200k/30s,50k/30s --warmup 5s

  100,000 keys by Zipf's law, one event in 20 late by up to an hour, one in 100 sent twice:
    braid-load run --keys 100000 --zipf 1.1 --late 5%:1h --duplicates 1%

  Prove that nothing acknowledged is lost, also when the server is killed in between:
    braid-load run --verify --rate 50k --duration 1m --duplicates 1%

  Reads of a dashboard beside the writes:
    braid-load run --rate 50k --reads 100 --read dashboard

  A page with plots, and a log for HdrHistogram's tools:
    braid-load run --rate 50k --html run.html --hdr run.hlog

  The same events as one item each on DynamoDB, sharded by hand, with what they cost in units:
    braid-load run --target dynamodb-items --dynamodb-endpoint http://127.0.0.1:8000 --suffixes 16
";
const REPLAY_EXAMPLES: &str = "\
  Replay a file of events into namespace `flights`:
    braid-load replay flights.ndjson.gz

  A CSV at ten times the speed it was recorded at:
    braid-load replay trips.csv.gz --key-column zone --ts-column pickup --tags vendor,payment --speed 10x

  The output of another program, then everything read back:
    zcat *.ndjson.gz | braid-load replay - --namespace flights --verify
";
const COMPARE_EXAMPLES: &str = "\
  What a change did: both results, their ratios, and whether they may be compared:
    braid-load run --rate max --json > before.json
    braid-load compare before.json after.json
";
const COMPLETIONS_EXAMPLES: &str = "\
  Completions for the shell at hand:
    braid-load completions bash > ~/.local/share/bash-completion/completions/braid-load
";

fn after_help(examples: &[&str]) -> String {
    format!("Examples:\n{}\n{}", examples.join("\n"), exit::HELP)
}

/// Sends events to a Braid, says how fast they were stored, and proves that none was lost.
#[derive(Debug, Parser)]
#[command(name = "braid-load", version, after_help = after_help(&[RUN_EXAMPLES, REPLAY_EXAMPLES, COMPARE_EXAMPLES, COMPLETIONS_EXAMPLES]))]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Streams a file of events, JSON lines or CSV, plain or gzip, at its recorded speed or another
    #[command(after_help = after_help(&[REPLAY_EXAMPLES]))]
    Replay(Box<ReplayArgs>),
    /// Makes events and reads, and sends them at a rate or as fast as it goes
    #[command(after_help = after_help(&[RUN_EXAMPLES]))]
    Run(Box<RunArgs>),
    /// Answers every write as stored, to measure the generator itself
    #[command(hide = true)]
    NullServer {
        /// Where it listens
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// Puts two results (--json) side by side, and says whether they may be compared
    #[command(after_help = after_help(&[COMPARE_EXAMPLES]))]
    Compare {
        /// What is compared with
        a: PathBuf,
        /// What is compared
        b: PathBuf,
    },
    /// Prints completions for a shell
    #[command(after_help = after_help(&[COMPLETIONS_EXAMPLES]))]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// What both commands need to reach a server.
#[derive(Debug, clap::Args)]
pub(crate) struct ClientArgs {
    /// Where Braid, or the peer, listens; http only
    #[arg(long, default_value = "http://127.0.0.1:7070")]
    pub(crate) url: String,
    /// Where reads go, those that verify included, where another tier answers them [default: as --url]
    #[arg(long, value_name = "URL")]
    pub(crate) read_url: Option<String>,
    /// How long one request is retried on 503 and broken connections before giving up
    #[arg(long, default_value = "60s", value_name = "SPAN")]
    pub(crate) retry_for: Span,
    /// How long one try may take
    #[arg(long, default_value = "60s", value_name = "SPAN")]
    pub(crate) timeout: Span,
}

impl ClientArgs {
    /// Where writes go, and where reads do.
    pub(crate) fn endpoints(&self) -> Result<(Arc<Endpoint>, Arc<Endpoint>), String> {
        let endpoint = |flag, url: &str| Endpoint::new(flag, url, self.timeout.duration(), self.retry_for.duration()).map(Arc::new);
        let writes = endpoint("--url", &self.url)?;
        let reads = self.read_url.as_deref().map(|url| endpoint("--read-url", url)).transpose()?;
        Ok((writes.clone(), reads.unwrap_or(writes)))
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// The file; `-` reads standard input. Events should carry an id: those that do not get a new
    /// one with every try, so that a batch that is sent again may stand twice
    pub(crate) file: PathBuf,
    /// Namespace to write to [default: the file's name up to its first dot]
    #[arg(long, value_name = "NAME")]
    pub(crate) namespace: Option<Namespace>,
    /// Events a request
    #[arg(long, value_name = "EVENTS", default_value_t = 5_000, value_parser = batch)]
    pub(crate) batch: usize,
    /// Connections that send at the same time
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// Compress the requests
    #[arg(long)]
    pub(crate) gzip: bool,
    /// How fast: max, recorded (by the events' times), or so many times as fast as recorded, such as 10x
    #[arg(long, default_value = "max")]
    pub(crate) speed: Speed,
    /// Afterwards read everything back, as `run --verify` does; every event needs an id and a time of its
    /// own, and the namespace must be empty. Keeps up to 230 bytes and the name of each event
    #[arg(long)]
    pub(crate) verify: bool,
    /// Most mebibytes that --verify keeps of what was sent; what has more is not sent any further
    #[arg(long, value_name = "MIB", default_value_t = 2_048, requires = "verify")]
    pub(crate) verify_mib: u64,
    /// The file is CSV with a header [default: where its name ends in .csv or .csv.gz]
    #[arg(long, help_heading = "CSV")]
    pub(crate) csv: bool,
    /// The column that holds keys [default: key]
    #[arg(long, value_name = "COLUMN", help_heading = "CSV")]
    pub(crate) key_column: Option<String>,
    /// The key of all events, where no column has it
    #[arg(long, value_name = "KEY", conflicts_with = "key_column", help_heading = "CSV")]
    pub(crate) key: Option<String>,
    /// The column that holds ids [default: id, if there is one]
    #[arg(long, value_name = "COLUMN", help_heading = "CSV")]
    pub(crate) id_column: Option<String>,
    /// The column that holds times, RFC 3339 or integer milliseconds [default: ts, if there is one]
    #[arg(long, value_name = "COLUMN", help_heading = "CSV")]
    pub(crate) ts_column: Option<String>,
    /// Columns that are tags; all others are fields
    #[arg(long, value_name = "COLUMN,…", value_delimiter = ',', help_heading = "CSV")]
    pub(crate) tags: Vec<String>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

impl ReplayArgs {
    /// Which columns are what, if the file is CSV.
    pub(crate) fn columns(&self) -> Option<Columns> {
        let name = self.file.to_string_lossy();
        let is_csv = self.csv || [".csv", ".csv.gz"].iter().any(|ending| name.ends_with(ending));
        is_csv.then(|| Columns {
            constant_key: self.key.clone(),
            key: self.key_column.clone(),
            id: self.id_column.clone(),
            ts: self.ts_column.clone(),
            tags: self.tags.clone(),
        })
    }
}

fn batch(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(batch) if (1..=REQUEST_EVENTS_MAX).contains(&batch) => Ok(batch),
        _ => Err(format!("must be 1 to {REQUEST_EVENTS_MAX}")),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        Args::command().debug_assert();
    }

    #[test]
    fn every_example_of_the_help_is_one() {
        let examples = [RUN_EXAMPLES, REPLAY_EXAMPLES, COMPARE_EXAMPLES, COMPLETIONS_EXAMPLES].concat();
        for (_, command) in examples.lines().filter_map(|line| line.split_once("braid-load ")) {
            let words = command.split(" > ").next().unwrap().split(' ');
            Args::try_parse_from(["braid-load"].into_iter().chain(words)).unwrap_or_else(|error| panic!("{command}: {error}"));
        }
    }

    #[test]
    fn a_batch_beyond_what_a_request_may_hold_is_refused() {
        assert!(Args::try_parse_from(["braid-load", "run", "--batch", "10001"]).is_err());
        assert!(Args::try_parse_from(["braid-load", "run", "--batch", "0"]).is_err());
    }
}
