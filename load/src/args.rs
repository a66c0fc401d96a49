//! The command line, as data. Checks what can be checked without a server.

mod run;
mod values;

use std::net::SocketAddr;
use std::path::PathBuf;

use braid_shared::limits::REQUEST_EVENTS_MAX;
use braid_shared::model::{Namespace, Span};
use clap::{Parser, Subcommand};

use crate::exit;
use crate::report::OutputArgs;
pub(crate) use run::RunArgs;
pub(crate) use values::{Rate, Reads};

const EXAMPLES: &str = "\
Examples:
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

  Replay a file of events into namespace `flights`:
    braid-load replay flights.ndjson.gz

  What a change did: both results, their ratios, and whether they may be compared:
    braid-load run --rate max --json > before.json
    braid-load compare before.json after.json

  A page with plots, and a log for HdrHistogram's tools:
    braid-load run --rate 50k --html run.html --hdr run.hlog

  Completions for the shell at hand:
    braid-load completions bash > ~/.local/share/bash-completion/completions/braid-load";

fn after_help() -> String {
    format!("{EXAMPLES}\n\n{}", exit::HELP)
}

/// Sends events to a Braid, says how fast they were stored, and proves that none was lost.
#[derive(Debug, Parser)]
#[command(name = "braid-load", version, after_help = after_help())]
pub(crate) struct Args {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Streams a file of events, one JSON object a line, plain or gzip
    #[command(after_help = after_help())]
    Replay(ReplayArgs),
    /// Makes events and reads, and sends them at a rate or as fast as it goes
    #[command(after_help = after_help())]
    Run(Box<RunArgs>),
    /// Answers every write as stored, to measure the generator itself
    #[command(hide = true)]
    NullServer {
        /// Where it listens
        #[arg(long, default_value = "127.0.0.1:0")]
        listen: SocketAddr,
    },
    /// Puts two results (--json) side by side, and says whether they may be compared
    #[command(after_help = after_help())]
    Compare {
        /// What is compared with
        a: PathBuf,
        /// What is compared
        b: PathBuf,
    },
    /// Prints completions for a shell
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
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
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) client: ClientArgs,
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
        let commands = EXAMPLES.lines().filter_map(|line| line.strip_prefix("    braid-load "));
        for command in commands {
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
