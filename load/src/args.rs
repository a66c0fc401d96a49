//! The command line, as data. Checks what can be checked without a server.

use std::path::PathBuf;

use braid_shared::limits::REQUEST_EVENTS_MAX;
use braid_shared::model::{Namespace, Span};
use clap::{Parser, Subcommand, ValueEnum};

use crate::client::Format;

const EXAMPLES: &str = "\
Examples:
  Replay a file of events, one JSON object a line, into namespace `flights`:
    braid-load replay flights.ndjson.gz

  The same over 8 connections, compressed, with a summary for a program to read:
    braid-load replay flights.ndjson.gz --connections 8 --gzip --json

  Write one hot key as fast as it goes for 30 seconds, 1,000 events a request:
    braid-load run --key orders --batch 1000 --connections 8 --duration 30s

  One event a request over 64 connections, as line protocol:
    braid-load run --format line --batch 1 --connections 64 --events 1000000

Exit codes: 0 every event is stored, 1 some events were refused, 2 wrong usage or broken off.";

/// Sends events to a Braid and says how fast they were stored.
#[derive(Debug, Parser)]
#[command(name = "braid-load", version, after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Streams a file of events, one JSON object a line, plain or gzip
    #[command(after_help = EXAMPLES)]
    Replay(ReplayArgs),
    /// Makes events of a hot key and writes them in a closed loop
    #[command(after_help = EXAMPLES)]
    Run(RunArgs),
}

/// What both commands need to reach a server.
#[derive(Debug, clap::Args)]
pub(crate) struct ClientArgs {
    /// Where Braid listens; http only
    #[arg(long, default_value = "http://127.0.0.1:7070")]
    pub(crate) url: String,
    /// How long one request is retried on 503 and broken connections before giving up
    #[arg(long, default_value = "60s", value_name = "SPAN")]
    pub(crate) retry_for: Span,
    /// How long one try may take
    #[arg(long, default_value = "60s", value_name = "SPAN")]
    pub(crate) timeout: Span,
    /// Print the summary as one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, clap::Args)]
pub(crate) struct ReplayArgs {
    /// The file; `-` reads standard input. Events should carry an id: those that do not get a new
    /// one with every try, so that a batch that is sent again may stand twice
    pub(crate) file: PathBuf,
    /// Namespace to write to [default: the file's name up to its first dot]
    #[arg(long)]
    pub(crate) namespace: Option<Namespace>,
    /// Events a request
    #[arg(long, default_value_t = 5_000, value_parser = batch)]
    pub(crate) batch: usize,
    /// Connections that send at the same time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// Compress the requests
    #[arg(long)]
    pub(crate) gzip: bool,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

#[derive(Debug, clap::Args)]
pub(crate) struct RunArgs {
    /// Namespace to write to
    #[arg(long, default_value = "bench")]
    pub(crate) namespace: Namespace,
    /// The hot key; with more keys, what their names begin with
    #[arg(long, default_value = "hot")]
    pub(crate) key: String,
    /// How many keys the events are spread over, evenly
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) keys: u32,
    /// How events are written
    #[arg(long, value_enum, default_value_t = Format::Ndjson)]
    pub(crate) format: Format,
    /// How fast
    #[arg(long, value_enum, default_value_t = Rate::Max)]
    pub(crate) rate: Rate,
    /// Events a request
    #[arg(long, default_value_t = 1_000, value_parser = batch)]
    pub(crate) batch: usize,
    /// Connections that send at the same time, one request in flight on each
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) connections: u16,
    /// How long to go on [default: 10s, unless --events is given]
    #[arg(long, value_name = "SPAN")]
    pub(crate) duration: Option<Span>,
    /// How many events to write at most
    #[arg(long)]
    pub(crate) events: Option<u64>,
    /// Makes the same ids and values again
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
}

/// How fast events are offered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Rate {
    /// A closed loop: the next request leaves when the last one is answered
    Max,
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
    fn a_batch_beyond_what_a_request_may_hold_is_refused() {
        assert!(Args::try_parse_from(["braid-load", "run", "--batch", "10001"]).is_err());
        assert!(Args::try_parse_from(["braid-load", "run", "--batch", "0"]).is_err());
    }
}
