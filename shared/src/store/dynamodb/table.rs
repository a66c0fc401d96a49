//! The table: made by `braid store init`, checked by every start.
//!
//! Never changes or deletes what is there, except to turn on what it is told to.

use std::error::Error;
use std::future::Future;
use std::time::Duration;

use aws_sdk_dynamodb::Client;
use aws_sdk_dynamodb::error::{BuildError, ProvideErrorMetadata, SdkError};
use aws_sdk_dynamodb::types::{
    AttributeDefinition, BillingMode, KeySchemaElement, KeyType, PointInTimeRecoverySpecification, ProvisionedThroughput,
    ScalarAttributeType, TableDescription, TableStatus, Tag, TimeToLiveSpecification, TimeToLiveStatus,
};
use tokio::time::{Instant, sleep};

use super::failure::Failure;
use super::items::{EXPIRES, PK, SK};
use super::retry::Tries;
use super::{DynamoOptions, client};
use crate::store::StoreError;

/// Longest wait until a new table can be used.
const READY_TIME: Duration = Duration::from_secs(300);
/// Between two looks at it.
const LOOK_PAUSE: Duration = Duration::from_millis(250);
/// Longest that one question about the table may take, attempts together.
const CALL_TIME: Duration = Duration::from_secs(10);

/// How capacity is paid for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Billing {
    /// By request.
    OnDemand,
    /// By the hour, for so many units per second.
    Provisioned {
        /// Read units per second.
        read: i64,
        /// Write units per second.
        write: i64,
    },
}

/// What a table is made with.
#[derive(Clone, Debug)]
pub struct TableOptions {
    /// How capacity is paid for.
    pub billing: Billing,
    /// Whether backups allow to go back to any second.
    pub point_in_time_recovery: bool,
    /// Tags, for a new table only.
    pub tags: Vec<(String, String)>,
}

/// Why a store could not be opened, or its table not made.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// There is no such table.
    #[error("the dynamodb table {0} is missing: braid store init makes it")]
    Missing(String),
    /// A table of that name is there and is something else.
    #[error("the dynamodb table {table} does not fit: {why}")]
    Unfit {
        /// Its name.
        table: String,
        /// What is wrong.
        why: String,
    },
    /// The engine could not be asked, or said no.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A request could not be put together.
    #[error(transparent)]
    Request(#[from] BuildError),
    /// The new table did not become ready.
    #[error("the dynamodb table {0} is not ready after {READY_TIME:?}")]
    NotReady(String),
    /// Metrics could not be registered.
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
}

/// Makes the table where it is missing, waits until it is ready, and turns on what the options ask
/// for. Gives what was done, a word each.
pub async fn init(store: &DynamoOptions, options: &TableOptions) -> Result<Vec<&'static str>, OpenError> {
    let (client, table) = (client::connect(store).await, &*store.table);
    let mut done = Vec::new();
    if describe(&client, table).await?.is_none() {
        create(&client, table, options).await?;
        done.push("made");
    }
    fits(table, &ready(&client, table).await?)?;
    if store.ttl.is_some() && !lives_for_a_time(&client, table).await? {
        let enabled = TimeToLiveSpecification::builder().enabled(true).attribute_name(EXPIRES).build()?;
        let call = client.update_time_to_live().table_name(table).time_to_live_specification(enabled);
        asked("UpdateTimeToLive", || call.clone().send()).await?;
        done.push("time to live on");
    }
    if options.point_in_time_recovery {
        let enabled = PointInTimeRecoverySpecification::builder().point_in_time_recovery_enabled(true).build()?;
        let call = client.update_continuous_backups().table_name(table).point_in_time_recovery_specification(enabled);
        asked("UpdateContinuousBackups", || call.clone().send()).await?;
        done.push("point-in-time recovery on");
    }
    Ok(done)
}

/// Checks that the table is there, is what Braid makes, and has its time to live on where that is needed.
pub(super) async fn check(client: &Client, table: &str, ttl: bool) -> Result<(), OpenError> {
    let found = describe(client, table).await?.ok_or_else(|| OpenError::Missing(table.to_owned()))?;
    fits(table, &found)?;
    if ttl && !lives_for_a_time(client, table).await? {
        let why = format!("blocks are to expire, and its time to live by {EXPIRES} is off: braid store init turns it on");
        return Err(OpenError::Unfit { table: table.to_owned(), why });
    }
    Ok(())
}

async fn create(client: &Client, table: &str, options: &TableOptions) -> Result<(), OpenError> {
    let mut call = client.create_table().table_name(table);
    for (name, kind) in [(PK, KeyType::Hash), (SK, KeyType::Range)] {
        call =
            call.attribute_definitions(AttributeDefinition::builder().attribute_name(name).attribute_type(ScalarAttributeType::B).build()?);
        call = call.key_schema(KeySchemaElement::builder().attribute_name(name).key_type(kind).build()?);
    }
    call = match options.billing {
        Billing::OnDemand => call.billing_mode(BillingMode::PayPerRequest),
        Billing::Provisioned { read, write } => {
            let units = ProvisionedThroughput::builder().read_capacity_units(read).write_capacity_units(write).build()?;
            call.billing_mode(BillingMode::Provisioned).provisioned_throughput(units)
        }
    };
    for (key, value) in &options.tags {
        call = call.tags(Tag::builder().key(key).value(value).build()?);
    }
    match call.send().await {
        Ok(_) => Ok(()),
        // Another makes it at this moment; whether it fits is seen when it is ready.
        Err(error) if error.code() == Some("ResourceInUseException") => Ok(()),
        Err(error) => Err(Failure::of("CreateTable", &error).error(false).into()),
    }
}

async fn ready(client: &Client, table: &str) -> Result<TableDescription, OpenError> {
    let began = Instant::now();
    while began.elapsed() < READY_TIME {
        match describe(client, table).await? {
            Some(found) if found.table_status() != Some(&TableStatus::Creating) => return Ok(found),
            // It may take a moment until a new table is seen everywhere.
            _ => sleep(LOOK_PAUSE).await,
        }
    }
    Err(OpenError::NotReady(table.to_owned()))
}

async fn describe(client: &Client, table: &str) -> Result<Option<TableDescription>, OpenError> {
    let call = client.describe_table().table_name(table);
    let answer = asked("DescribeTable", || async {
        match call.clone().send().await {
            Err(error) if error.code() == Some("ResourceNotFoundException") => Ok(None),
            answer => answer.map(Some),
        }
    });
    Ok(answer.await?.and_then(|answer| answer.table))
}

/// Whether the table deletes items by the time that they name.
async fn lives_for_a_time(client: &Client, table: &str) -> Result<bool, OpenError> {
    let call = client.describe_time_to_live().table_name(table);
    let answer = asked("DescribeTimeToLive", || call.clone().send()).await?;
    let Some(found) = answer.time_to_live_description else { return Ok(false) };
    let on = matches!(found.time_to_live_status(), Some(TimeToLiveStatus::Enabled | TimeToLiveStatus::Enabling));
    match found.attribute_name() {
        Some(other) if on && other != EXPIRES => {
            Err(OpenError::Unfit { table: table.to_owned(), why: format!("its time to live is by {other}, not by {EXPIRES}") })
        }
        _ => Ok(on),
    }
}

/// Asks the engine until it answers or the time is up.
async fn asked<T, E, F>(operation: &'static str, mut ask: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, SdkError<E>>>,
    E: ProvideErrorMetadata + Error + Send + Sync + 'static,
{
    let mut tries = Tries::of_read(CALL_TIME);
    loop {
        match ask().await {
            Ok(answer) => return Ok(answer),
            Err(error) => tries.again(Failure::of(operation, &error), Duration::ZERO).await?,
        }
    }
}

/// Whether a table is what [`create`] makes, as far as Braid needs it to be.
fn fits(table: &str, found: &TableDescription) -> Result<(), OpenError> {
    let mut keys: Vec<_> = found.key_schema().iter().map(|key| (key.attribute_name(), key.key_type().clone())).collect();
    keys.sort_by_key(|(_, kind)| *kind != KeyType::Hash);
    let binary = |name: &str| {
        let defined = found.attribute_definitions().iter().find(|attribute| attribute.attribute_name() == name);
        defined.is_some_and(|attribute| *attribute.attribute_type() == ScalarAttributeType::B)
    };
    if keys != [(PK, KeyType::Hash), (SK, KeyType::Range)] || !binary(PK) || !binary(SK) {
        let why = format!("its key must be {PK} (hash) and {SK} (range), both binary");
        return Err(OpenError::Unfit { table: table.to_owned(), why });
    }
    match found.table_status() {
        Some(TableStatus::Active | TableStatus::Updating) => Ok(()),
        status => Err(OpenError::Unfit { table: table.to_owned(), why: format!("it is {status:?}") }),
    }
}
