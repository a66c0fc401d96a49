//! `braid-load`: sends events to a Braid over its public HTTP API, says how it went, and proves that
//! nothing acknowledged was lost.
//!
//! Here: arguments → command → exit code. No protocol, no measuring. The path of a run:
//! `workload` (which events) → `pace` (when) → `lane` (a connection's loop) → `client` (HTTP) →
//! `record` (what was measured) → `report`; beside it `history` → `oracle` for a verified run.

mod args;
mod client;
mod exit;
mod history;
mod lane;
mod null_server;
mod oracle;
mod pace;
mod progress;
mod record;
mod replay;
mod report;
mod run;
mod schedule;
mod source;
mod verify;
mod workload;

use std::ffi::OsString;
use std::io::{self, Write};

use clap::{CommandFactory, Parser};

use args::{Args, Command};
use exit::Exit;
use report::Outcome;

/// Does what the command line says, the program's name first; writes results to `out` and all else to
/// standard error. Gives the exit code, as `--help` documents it.
pub fn main(args: impl IntoIterator<Item = OsString>, out: &mut dyn Write) -> u8 {
    let exit = match Args::try_parse_from(args) {
        Ok(args) => obey(args.command, out),
        Err(error) => explain(&error),
    };
    exit as u8
}

fn obey(command: Command, out: &mut dyn Write) -> Exit {
    // One thread: the generator is meant to be pinned to one core beside the server's.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("the runtime did not start: {error}"), Exit::BrokenOff),
    };
    let (json, outcome) = match command {
        Command::Replay(args) => (args.client.json, runtime.block_on(replay::replay(args))),
        Command::Run(args) => (args.client.json, runtime.block_on(run::run(*args))),
        Command::NullServer { listen } => {
            let ended = runtime.block_on(null_server::serve(listen, out));
            return failed(&format!("the null server ended: {ended}"), Exit::BrokenOff);
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "braid-load", &mut script);
            return written(out.write_all(&script), Exit::Done);
        }
    };
    match outcome {
        Ok(outcome) => finish(&outcome, json, out),
        Err(usage) => failed(&usage, Exit::Usage),
    }
}

/// Prints the summary.
fn finish(outcome: &Outcome, json: bool, out: &mut dyn Write) -> Exit {
    let summary = if json { outcome.json() } else { outcome.table() };
    let exit = written(writeln!(out, "{summary}"), outcome.exit());
    match &outcome.failure {
        Some(failure) => failed(&format!("stopped: {failure}"), exit),
        None => exit,
    }
}

fn written(written: io::Result<()>, exit: Exit) -> Exit {
    match written {
        Ok(()) => exit,
        Err(error) => failed(&format!("the results could not be written: {error}"), Exit::BrokenOff),
    }
}

/// Help and version are no faults; everything else that clap says is.
fn explain(error: &clap::Error) -> Exit {
    // A closed pipe is no reason to fail.
    let _ = error.print();
    if error.use_stderr() { Exit::Usage } else { Exit::Done }
}

fn failed(why: &str, exit: Exit) -> Exit {
    eprintln!("braid-load: {why}");
    exit
}
