//! The binary: settings → components → serve. No logic.

mod admin;
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

#[tokio::main]
async fn run(tier: Tier, settings: &Settings) -> Result<(), Box<dyn Error>> {
    let components = components::Components::build(tier, settings).await?;
    serve::serve(components, settings).await
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
