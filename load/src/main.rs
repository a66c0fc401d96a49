//! `braid-load`: sends events to a Braid over its public HTTP API and says how it went.
//!
//! Here: arguments → command → exit code. No protocol, no measuring.

mod args;
mod client;
mod progress;
mod replay;
mod report;
mod run;
mod source;
mod workload;

use std::process::ExitCode;

use clap::Parser;

use args::{Args, Command};
use report::Outcome;

fn main() -> ExitCode {
    let args = Args::parse();
    // One thread: the generator is meant to be pinned to one core beside the server's.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("the runtime did not start: {error}")),
    };
    let (json, outcome) = match args.command {
        Command::Replay(args) => (args.client.json, runtime.block_on(replay::replay(args))),
        Command::Run(args) => (args.client.json, runtime.block_on(run::run(args))),
    };
    match outcome {
        Ok(outcome) => finish(outcome, json),
        Err(usage) => failed(&usage),
    }
}

/// Prints the summary; 0 where all events are stored, 1 where some were refused, 2 where it broke off.
fn finish(outcome: Outcome, json: bool) -> ExitCode {
    println!("{}", if json { outcome.json() } else { outcome.table() });
    match &outcome.failure {
        Some(failure) => failed(&format!("stopped: {failure}")),
        None if outcome.tally.rejected > 0 => ExitCode::from(1),
        None => ExitCode::SUCCESS,
    }
}

fn failed(why: &str) -> ExitCode {
    eprintln!("braid-load: {why}");
    ExitCode::from(2)
}
