//! Administration over HTTP: `braid layout`, `braid ns`, `braid heat`, `braid group`, `braid export`. A client and tables,
//! no rule of its own.
//!
//! Exit codes: 0 done; 1 the server refused; 2 the command line is wrong; 3 the server can't be
//! reached, or its answer is not Braid's or was cut; 4 `--wait` gave up, or a database can't be used;
//! 5 a file can't be written.

mod client;
mod export;
mod export_file;
mod group;
mod heat;
mod layout;
mod ns;
mod table;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{Arg, ArgAction, ArgMatches, Command};

use client::{Client, Failure};

/// A command and what it does; both take what every command takes.
struct Admin {
    command: fn() -> Command,
    run: fn(&Client, &ArgMatches) -> Result<String, Failure>,
}

const ADMIN: &[Admin] = &[
    Admin { command: layout::command, run: layout::run },
    Admin { command: ns::command, run: ns::run },
    Admin { command: heat::command, run: heat::run },
    Admin { command: group::command, run: group::run },
    Admin { command: export::command, run: export::run },
];

/// Runs the command line if it asks for administration, which takes other flags than a server does.
pub(crate) fn run_if_asked(args: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let args: Vec<OsString> = args.into_iter().collect();
    let asked = args.get(1)?.to_str()?;
    let admin = ADMIN.iter().find(|admin| (admin.command)().get_name() == asked)?;
    let command = Command::new("braid").subcommand(with_common((admin.command)())).disable_help_subcommand(true);
    let matches = command.get_matches_from(args);
    let (_, matches) = matches.subcommand()?;
    Some(finish(Client::new(matches).and_then(|client| (admin.run)(&client, matches))))
}

/// What `braid --help` says of these commands.
pub(crate) fn help() -> String {
    let about = |command: Command| command.get_about().map(ToString::to_string).unwrap_or_default();
    let lines = ADMIN.iter().map(|admin| format!("  {:<8}{}\n", (admin.command)().get_name(), about((admin.command)())));
    format!("Administration, over HTTP (braid COMMAND --help):\n{}", lines.collect::<String>())
}

fn with_common(command: Command) -> Command {
    let url =
        Arg::new("url").long("url").env("BRAID_URL").default_value("http://127.0.0.1:7070").help("Where a node that serves reads listens");
    let token = Arg::new("token-file").long("token-file").env("BRAID_TOKEN_FILE").value_name("FILE").help("File with the token to send");
    let json = Arg::new("json").long("json").action(ArgAction::SetTrue).help("Print the server's answer as it is");
    [url, token, json].into_iter().fold(command, |command, arg| command.arg(arg.global(true)))
}

/// The flags of whoever changes something.
fn with_record(command: Command) -> Command {
    command
        .arg(Arg::new("reason").long("reason").help("Why, for the record"))
        .arg(Arg::new("author").long("author").env("USER").hide_env_values(true).help("Who, for the record"))
        .arg(
            Arg::new("expected-revision")
                .long("expected-revision")
                .value_name("REVISION")
                .value_parser(clap::value_parser!(u64))
                .help("Change nothing if what is to be changed has changed after this revision of the catalog"),
        )
}

/// The members of a body, or the parameters, that [`with_record`]'s flags give.
fn record(matches: &ArgMatches) -> serde_json::Map<String, serde_json::Value> {
    let text = |name: &str| matches.get_one::<String>(name).filter(|text| !text.is_empty());
    let texts = ["author", "reason"].into_iter().filter_map(|name| Some((name.to_owned(), text(name)?.clone().into())));
    let expected = matches.get_one::<u64>("expected-revision").map(|revision| ("expected_revision".to_owned(), (*revision).into()));
    texts.chain(expected).collect()
}

fn finish(outcome: Result<String, Failure>) -> ExitCode {
    match outcome {
        // A reader that went away has seen what it wanted.
        Ok(text) => ExitCode::from(u8::from(writeln!(std::io::stdout(), "{}", text.trim_end()).is_err())),
        Err(failure) => {
            eprintln!("braid: {failure}");
            ExitCode::from(failure.exit_code())
        }
    }
}
