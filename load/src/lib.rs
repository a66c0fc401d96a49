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
use std::path::Path;

use clap::{ArgMatches, CommandFactory, FromArgMatches};

use args::{Args, Command};
use exit::Exit;
use report::compare::compare;
use report::document::Document;
use report::{About, Outcome, OutputArgs, Report};

/// Does what the command line says, the program's name first; writes results to `out` and all else to
/// standard error. Gives the exit code, as `--help` documents it.
pub fn main(args: impl IntoIterator<Item = OsString>, out: &mut dyn Write) -> u8 {
    let words: Vec<OsString> = args.into_iter().collect();
    let parsed = Args::command().try_get_matches_from(&words);
    let exit = match parsed.and_then(|matches| Ok((Args::from_arg_matches(&matches)?, matches))) {
        Ok((args, matches)) => obey(args.command, &words, &matches, out),
        Err(error) => explain(&error),
    };
    exit as u8
}

fn obey(command: Command, words: &[OsString], matches: &ArgMatches, out: &mut dyn Write) -> Exit {
    // One thread: the generator is meant to be pinned to one core beside the server's.
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return failed(&format!("the runtime did not start: {error}"), Exit::BrokenOff),
    };
    let about = |output: &OutputArgs| About {
        command: report::command_line(words),
        settings: report::settings(&Args::command(), matches),
        output: output.clone(),
    };
    let outcome = match command {
        Command::Replay(args) => runtime.block_on(replay::replay(about(&args.output), *args)),
        Command::Run(args) => runtime.block_on(run::run(about(&args.output), *args)),
        Command::Compare { a, b } => return compared(&a, &b, out),
        Command::NullServer { listen } => {
            let ended = runtime.block_on(null_server::serve(listen, out));
            return failed(&format!("the null server ended: {ended}"), Exit::BrokenOff);
        }
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Args::command(), "braid-load", &mut script);
            // For bash it writes the hyphen of our name in two ways (clap-rs/clap#6421), and would complete no subcommand.
            let script = String::from_utf8_lossy(&script).replace("braid__subcmd__load", "braid__load");
            return written(out.write_all(script.as_bytes()), Exit::Done);
        }
    };
    match outcome {
        Ok((outcome, report)) => finish(&outcome, report, out),
        Err(not_started) => failed(&not_started.why, not_started.exit),
    }
}

/// Puts two results side by side.
fn compared(a: &Path, b: &Path, out: &mut dyn Write) -> Exit {
    let read = |path: &Path| {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Document::read(&text).map_err(|error| format!("{}: {error}", path.display()))
    };
    match read(a).and_then(|a| Ok(compare(&a, &read(b)?))) {
        Ok(comparison) => {
            let exit = if comparison.comparable { Exit::Done } else { Exit::NotComparable };
            written(writeln!(out, "{}", comparison.text), exit)
        }
        Err(why) => failed(&why, Exit::Usage),
    }
}

/// Prints the result and writes its files.
fn finish(outcome: &Outcome, report: Report, out: &mut dyn Write) -> Exit {
    let exit = match report.finish(outcome, out) {
        Ok(()) => outcome.exit(),
        Err(why) => failed(&why, Exit::BrokenOff),
    };
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
