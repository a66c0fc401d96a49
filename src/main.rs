//! The binary: settings → components → serve. No logic.

mod components;
mod serve;
mod settings;
mod telemetry;

use std::process::ExitCode;

use settings::{Layers, Settings, Tier};

/// Many small, short-lived buffers: a faster allocator is worth a dependency.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let matches = settings::command().get_matches();
    let layers = Layers::read(&matches);
    let settings = match Settings::resolve(&layers) {
        Ok(settings) => settings,
        Err(faults) => {
            faults.iter().for_each(|fault| eprintln!("braid: {fault}"));
            return ExitCode::from(2);
        }
    };
    let tier = match matches.subcommand_name() {
        Some("config") => {
            print!("{layers}");
            return ExitCode::SUCCESS;
        }
        Some("ingest") => Tier::Ingest,
        Some("query") => Tier::Query,
        _ => Tier::All,
    };
    telemetry::init(&settings);
    match run(tier, settings) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("braid: {error}");
            ExitCode::FAILURE
        }
    }
}

#[tokio::main]
async fn run(tier: Tier, settings: Settings) -> Result<(), Box<dyn std::error::Error>> {
    let components = components::Components::build(tier, &settings).await?;
    serve::serve(components, &settings).await
}
