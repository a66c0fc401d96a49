//! The engines: how each store is opened, and what `braid store init` makes for it.
//!
//! The one place that knows them all; everything else knows the trait.

use std::error::Error;
use std::sync::Arc;

use braid_shared::heat::Tracker;
use braid_shared::store::Store;
use braid_shared::store::cql::{self, CqlStore};
use braid_shared::store::dynamodb::{self, DynamoOptions, DynamoStore};
use braid_shared::store::embedded::{EmbeddedOptions, EmbeddedStore};
use braid_shared::store::memory::MemoryStore;
use prometheus::Registry;

use crate::settings::{DynamoSettings, Settings, StoreKind};

/// Lets go of what a store holds; blocks.
pub(crate) type Closer = Arc<dyn Fn() + Send + Sync>;

/// A store, ready for use.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    /// What must be done before the process ends, if anything.
    pub(crate) closer: Option<Closer>,
    /// What counts the writes to it, and hears what it charges and refuses.
    pub(crate) heat: Arc<Tracker>,
}

impl Opened {
    fn new(store: Arc<dyn Store>, closer: Option<Closer>) -> Opened {
        Opened { store, closer, heat: Arc::default() }
    }
}

/// Opens the store that the settings name. Engines must have been made by [`init`] before.
pub(crate) async fn open(settings: &Settings, registry: &Registry) -> Result<Opened, Box<dyn Error>> {
    match settings.store {
        StoreKind::Memory => Ok(Opened::new(MemoryStore::new(), None)),
        StoreKind::Embedded => {
            let (path, options) = (settings.data_dir.clone(), EmbeddedOptions { registry: registry.clone(), ..EmbeddedOptions::default() });
            let store = tokio::task::spawn_blocking(move || EmbeddedStore::open(&path, options)).await??;
            Ok(Opened::new(store.clone(), Some(Arc::new(move || store.close()))))
        }
        StoreKind::Cql => Ok(Opened::new(CqlStore::open(&settings.cql.options).await?, None)),
        StoreKind::DynamoDb => {
            let heat = Arc::new(Tracker::told());
            let options = DynamoOptions { usage: Some(heat.clone()), ..dynamo_options(&settings.dynamodb, registry) };
            Ok(Opened { heat, ..Opened::new(DynamoStore::open(options).await?, None) })
        }
    }
}

/// Makes what the store that the settings name needs before its first use, and leaves alone what is
/// there; says what was done.
pub(crate) async fn init(settings: &Settings) -> Result<String, Box<dyn Error>> {
    match settings.store {
        StoreKind::Memory => Ok("the memory store needs nothing".into()),
        StoreKind::Embedded => {
            let opened = open(settings, &Registry::new()).await?;
            if let Some(close) = opened.closer {
                tokio::task::spawn_blocking(move || close()).await?;
            }
            Ok(format!("the embedded store in {} is ready", settings.data_dir.display()))
        }
        StoreKind::Cql => {
            let cql = &settings.cql;
            cql::init(&cql.options, &cql.tables).await?;
            Ok(format!("keyspace {} on {} is ready", cql.options.keyspace, cql.options.nodes.join(", ")))
        }
        StoreKind::DynamoDb => {
            let options = dynamo_options(&settings.dynamodb, &Registry::new());
            let done = dynamodb::init(&options, &settings.dynamodb.new_table).await?;
            let done = if done.is_empty() { "nothing was to be done".to_owned() } else { done.join(", ") };
            Ok(format!("the dynamodb table {} is ready: {done}", options.table))
        }
    }
}

fn dynamo_options(settings: &DynamoSettings, registry: &Registry) -> DynamoOptions {
    DynamoOptions {
        table: settings.table.clone(),
        endpoint: settings.endpoint.clone(),
        ttl: settings.ttl,
        registry: registry.clone(),
        ..DynamoOptions::default()
    }
}
