//! `braid store lower-promise`: the way back after a wrong clock raised the promise far ahead.
//!
//! Opens the store itself, as a node does, and so only while no node has it open.

use std::error::Error;
use std::sync::Arc;

use braid_shared::catalog::{Catalog, Lowered, Shared};
use braid_shared::clock::SystemClock;
use clap::{Arg, ArgAction, ArgMatches, Command};
use prometheus::Registry;

use crate::settings::{Settings, StoreKind};
use crate::store::{self, Opened};

/// The command's name.
pub(crate) const NAME: &str = "lower-promise";
/// What an operator must say where no lock proves it.
const ALL_STOPPED: &str = "all-nodes-are-stopped";

pub(crate) fn command() -> Command {
    let stopped = Arg::new(ALL_STOPPED).long(ALL_STOPPED).action(ArgAction::SetTrue);
    Command::new(NAME)
        .about("After a wrong clock: let layouts begin again at the present time (stop every node first)")
        .arg(stopped.help("No node runs on this store; needed where no lock on a data directory proves it"))
}

/// Lowers the promise and says how far.
pub(crate) async fn run(settings: &Settings, matches: &ArgMatches) -> Result<String, Box<dyn Error>> {
    if settings.store != StoreKind::Embedded && !matches.get_flag(ALL_STOPPED) {
        return Err(format!("other processes may have this store open: stop every node, then say --{ALL_STOPPED}").into());
    }
    let Opened { store, closer, .. } = store::open(settings, &Registry::new()).await?;
    let catalog = Catalog::open(store.clone(), Arc::new(SystemClock), Shared::default()).await?;
    let lowered = catalog.lower_promise(&store).await;
    drop((catalog, store));
    if let Some(close) = closer {
        tokio::task::spawn_blocking(move || close()).await?;
    }
    let Lowered { from, to, last_event } = lowered?;
    Ok(match last_event {
        _ if to == from => format!("the promise is {from}; there is nothing to lower"),
        Some(last) => format!("the promise was {from} and is {to}, just above the last event that is stored, at {last}"),
        None => format!("the promise was {from} and is {to}"),
    })
}
