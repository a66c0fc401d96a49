//! `braid archive` and `braid verify`: the archiver over a store that no server of ours holds.
//!
//! An embedded store serves one process, so its server must be down; engines may be served meanwhile.

use std::error::Error;
use std::sync::Arc;

use braid_shared::catalog::Catalog;
use braid_shared::clock::{Clock, SystemClock};
use braid_shared::cold::{ArchiveOptions, Archiver, Databases, Tables};
use braid_shared::model::Namespace;
use braid_shared::store::Store;
use clap::ArgMatches;
use prometheus::Registry;

use crate::components::shared;
use crate::settings::Settings;
use crate::store::{self, Closer};

/// An archiver and what it stands on.
struct Opened {
    archiver: Archiver,
    catalog: Arc<Catalog>,
    closer: Option<Closer>,
}

async fn open(settings: &Settings) -> Result<Opened, Box<dyn Error>> {
    let (registry, clock): (_, Arc<dyn Clock>) = (Registry::new(), Arc::new(SystemClock));
    let opened = store::open(settings, &registry).await?;
    let store: Arc<dyn Store> = opened.store;
    let catalog = Catalog::open(store.clone(), clock.clone(), shared(settings.grace)).await?;
    let tables = Tables::new(Databases::new(), &registry)?;
    let archiver = Archiver::new(store, catalog.clone(), tables, clock, ArchiveOptions::default(), &registry)?;
    Ok(Opened { archiver, catalog, closer: opened.closer })
}

async fn close(closer: Option<Closer>) -> Result<(), Box<dyn Error>> {
    if let Some(close) = closer {
        tokio::task::spawn_blocking(move || close()).await?;
    }
    Ok(())
}

/// Every namespace, by name.
fn sorted(catalog: &Catalog) -> Vec<Namespace> {
    let mut namespaces: Vec<Namespace> = catalog.view().namespaces().cloned().collect();
    namespaces.sort();
    namespaces
}

/// Archives for ever, or what is due now; whether nothing failed.
pub(crate) async fn archive(settings: &Settings, matches: &ArgMatches) -> Result<bool, Box<dyn Error>> {
    let Opened { mut archiver, catalog, closer } = open(settings).await?;
    if matches.get_flag("dry-run") {
        for ns in sorted(&catalog) {
            let preview = archiver.preview(&ns).await?;
            println!("{ns}: due before {}: {} buckets to archive", preview.closing, preview.archived);
            println!("{ns}: dropped before {}: {} buckets to delete", preview.dropped, preview.gone);
        }
        close(closer).await?;
        return Ok(true);
    }
    if !matches.get_flag("once") {
        tokio::select! {
            () = archiver.run() => {}
            _ = tokio::signal::ctrl_c() => {}
        }
        close(closer).await?;
        return Ok(true);
    }
    let done = archiver.once().await;
    close(closer).await?;
    let done = done?;
    println!("{} published, {} swept, {} dropped, {} failed", done.published, done.swept, done.dropped, done.failed);
    Ok(done.failed == 0)
}

/// Audits namespaces, all of them unless one is named; whether all is well.
pub(crate) async fn verify(settings: &Settings, matches: &ArgMatches) -> Result<bool, Box<dyn Error>> {
    let Opened { archiver, catalog, closer } = open(settings).await?;
    let namespaces: Vec<Namespace> = match matches.get_one::<String>("namespace") {
        Some(name) => vec![name.parse()?],
        None => sorted(&catalog),
    };
    let mut sound = true;
    for ns in namespaces {
        let audit = archiver.audit(&ns, matches.get_flag("fix")).await?;
        println!("{ns}: {} buckets, {} blocks, {} files with {} events", audit.buckets, audit.blocks, audit.files, audit.archived);
        audit.faults.iter().for_each(|fault| println!("{ns}: {fault}"));
        let mended = if audit.mended { "deleted" } else { "orphaned" };
        audit.orphans.iter().for_each(|orphan| println!("{ns}: {mended}: {orphan}"));
        let marked = if audit.mended { "marked to be archived again" } else { "blocks that nobody reads" };
        audit.unread.iter().for_each(|unread| println!("{ns}: {marked}: {unread}"));
        sound &= audit.is_sound();
    }
    close(closer).await?;
    Ok(sound)
}
