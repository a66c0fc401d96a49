//! The binary: settings → components → serve. No logic.

mod admin;
mod cold;
mod components;
mod lower_promise;
mod ready;
mod serve;
mod settings;
mod store;
mod telemetry;

use std::error::Error;
use std::process::ExitCode;

use clap::ArgMatches;
use settings::{Layers, Settings, Tier};
use tokio::runtime::Runtime;

/// Many small, short-lived buffers: a faster allocator is worth a dependency.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Some(code) = admin::run_if_asked(std::env::args_os()) {
        return code;
    }
    let matches = settings::command().get_matches();
    let layers = Layers::read(&matches);
    let settings = match Settings::resolve(&layers) {
        Ok(settings) => settings,
        Err(faults) => {
            faults.iter().for_each(|fault| eprintln!("braid: {fault}"));
            return ExitCode::from(2);
        }
    };
    if let Some("config") = matches.subcommand_name() {
        print!("{layers}");
        return ExitCode::SUCCESS;
    }
    telemetry::init(&settings);
    let ended = match matches.subcommand_name() {
        Some("ready") => ready::ask(settings.listen),
        Some(name @ ("archive" | "verify")) => return tend_cold(name, &settings, &matches),
        Some("store") => on_store(&matches, &settings),
        Some("ingest") => run(Tier::Ingest, &settings),
        Some("query") => run(Tier::Query, &settings),
        _ => run(Tier::All, &settings),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("braid: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(tier: Tier, settings: &Settings) -> Result<(), Box<dyn Error>> {
    let runtime = Runtime::new()?;
    let ended = runtime.block_on(async {
        let components = components::Components::build(tier, settings).await?;
        serve::serve(components, settings).await
    });
    // The store is closed. A thread that hangs in a database of cold history must not keep the process.
    runtime.shutdown_background();
    ended
}

/// Works on cold history without serving; what is not as it should be makes the exit code 1.
#[tokio::main]
async fn tend_cold(name: &str, settings: &Settings, matches: &ArgMatches) -> ExitCode {
    let Some(of_command) = matches.subcommand_matches(name) else { return ExitCode::FAILURE };
    let ended = if name == "archive" { cold::archive(settings, of_command).await } else { cold::verify(settings, of_command).await };
    match ended {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("braid: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn on_store(matches: &ArgMatches, settings: &Settings) -> Result<(), Box<dyn Error>> {
    let verb = matches.subcommand().and_then(|(_, store)| store.subcommand());
    let said = match verb {
        Some((lower_promise::NAME, matches)) => lower_promise::run(settings, matches).await?,
        _ => store::init(settings).await?,
    };
    println!("{said}");
    Ok(())
}
